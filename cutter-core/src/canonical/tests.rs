//! Canonical JSON: the published vectors, the laws, and everything that is refused.

use super::*;
use proptest::prelude::*;
use serde_json::json;
use std::string::ToString;

fn any_value() -> impl Strategy<Value = Value> {
    let safe = i64::try_from(MAX_SAFE_INTEGER).unwrap();
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-safe..=safe).prop_map(Value::from),
        any::<String>().prop_map(Value::from),
        "[\\x00-\\x7f]{0,40}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 64, 8, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..8).prop_map(Value::from),
            prop::collection::btree_map(any::<String>(), inner, 0..8)
                .prop_map(|m| Value::Object(m.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn equals_the_oracle_and_reads_back(value in any_value()) {
        let ours = to_canonical(&value).unwrap();
        prop_assert_eq!(&ours, &serde_json_canonicalizer::to_string(&value).unwrap());
        prop_assert_eq!(parse_strict(ours.as_bytes()).unwrap(), value);
    }

    #[test]
    fn escapes_every_place_of_a_long_string(pad in 0usize..40, special in 0u8..0x80) {
        let mut text = "é".repeat(pad);
        text.push(char::from(special));
        text.push_str("tail of the text");
        let value = Value::from(text);
        prop_assert_eq!(to_canonical(&value).unwrap(), serde_json_canonicalizer::to_string(&value).unwrap());
    }

    #[test]
    fn strict_reader_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        if let Ok(value) = parse_strict(&bytes) {
            prop_assert!(to_canonical(&value).is_ok());
        }
    }
}

#[test]
fn keys_are_ordered_by_utf16_units_not_by_bytes() {
    // U+1F600 is D83D DE00 in UTF-16, before U+FB33; in UTF-8 it comes after.
    let text = to_canonical(&json!({"\u{fb33}": 1, "\u{1f600}": 2, "a": 3, "": 4})).unwrap();
    assert_eq!(text, "{\"\":4,\"a\":3,\"\u{1f600}\":2,\"\u{fb33}\":1}");
}

#[test]
fn rfc_8785_string_example() {
    let value: Value =
        serde_json::from_str(r#"{"s":"\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/"}"#).unwrap();
    assert_eq!(to_canonical(&value).unwrap(), "{\"s\":\"€$\\u000f\\nA'B\\\"\\\\\\\\\\\"/\"}");
}

#[test]
fn refuses_floats_and_big_integers() {
    assert!(matches!(to_canonical(&json!(1.5)), Err(CanonicalError::Float { .. })));
    assert!(matches!(to_canonical(&json!(MAX_SAFE_INTEGER + 1)), Err(CanonicalError::IntegerRange { .. })));
    assert!(matches!(
        to_canonical(&json!(-9_007_199_254_740_992_i64)),
        Err(CanonicalError::IntegerRange { .. })
    ));
    assert_eq!(to_canonical(&json!(MAX_SAFE_INTEGER)).unwrap(), "9007199254740991");
}

#[test]
fn strict_reader_names_the_rule_and_the_place() {
    for (text, rule) in [
        ("{\"a\":1,\n\"a\":2}", "duplicate key"),
        ("[1.0]", "float"),
        ("[1e2]", "float"),
        ("-0", "float"),
        ("9007199254740992", "2^53"),
        ("-9007199254740992", "2^53"),
        ("1 2", "trailing"),
        ("{\"x\":{\"\\u0061\":1,\"a\":1}}", "duplicate key"),
    ] {
        let error = parse_strict(text.as_bytes()).unwrap_err();
        assert!(error.to_string().contains(rule), "{text}: {error}");
    }
    assert_eq!(parse_strict(b"{\"a\":1,\n\"a\":2}").unwrap_err().line, 2);
    assert!(parse_strict("[".repeat(100_000).as_bytes()).is_err());
}

#[test]
fn the_writer_equals_the_tree() {
    let mut w = Writer::with_capacity(64);
    w.begin_object();
    w.key("a");
    w.begin_array();
    w.unsigned(1).unwrap();
    w.string("x");
    w.begin_array();
    w.end_array();
    w.end_array();
    w.key("b");
    w.begin_object();
    w.end_object();
    w.end_object();
    let whole = to_canonical(&json!({"a":[1,"x",[]],"b":{}})).unwrap();
    assert_eq!(w.finish(), whole);
    assert!(Writer::new().unsigned(u64::MAX).is_err());
}

#[test]
fn a_drained_writer_hashes_the_same_text() {
    let digests = [Digest::of(b"a"), Digest::of(b"b"), Digest::of(b"c")];
    let (mut w, mut hasher) = (Writer::new(), Hasher::new());
    w.begin_array();
    for digest in &digests {
        w.digest(digest);
        w.drain_into(&mut hasher);
    }
    w.end_array();
    w.drain_into(&mut hasher);
    assert_eq!(w.finish(), "");
    assert_eq!(hasher.finish(), digest_of(&digests).unwrap());
}

#[test]
fn digest_of_equals_the_digest_of_the_text() {
    assert_eq!(digest_of(&json!({"b":1,"a":"x"})).unwrap(), Digest::of(b"{\"a\":\"x\",\"b\":1}"));
}
