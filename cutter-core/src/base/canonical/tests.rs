//! Canonical JSON: the published vectors, the laws, and everything that is refused.

use super::*;
use proptest::prelude::*;
use serde_json::json;
use std::collections::BTreeMap;
use std::format;
use std::string::ToString;
use std::vec;

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
        prop_assert_eq!(&text_of(&value).unwrap().out, &ours);
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

/// Every shape that serde knows, with fields out of order.
#[derive(serde::Serialize)]
struct Shapes<'a> {
    z: Kind,
    y: (u8, char, Option<i8>),
    b: Kind,
    a: Kind,
    x: Pair,
    #[serde(skip_serializing_if = "Option::is_none")]
    left_out: Option<u8>,
    none: Option<u8>,
    wrapped: Wrapped,
    unit: (),
    numbers: std::collections::BTreeMap<i32, bool>,
    words: std::collections::BTreeMap<Kind, &'a str>,
    nan: f64,
    bytes: &'a [u8],
    #[serde(flatten)]
    flat: std::collections::BTreeMap<&'a str, u64>,
}

#[derive(serde::Serialize, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    #[serde(rename = "of one")]
    Unit,
    New(u64),
    Pair(i64, &'static str),
    Named {
        z: u8,
        a: [u8; 2],
    },
}

#[derive(serde::Serialize)]
struct Pair(bool, u16);

#[derive(serde::Serialize)]
struct Wrapped(&'static str);

#[test]
fn any_shape_is_written_as_through_a_tree() {
    let shapes = Shapes {
        z: Kind::Named { z: 1, a: [2, 3] },
        y: (1, 'é', Some(-1)),
        b: Kind::Pair(-5, "p\n"),
        a: Kind::New(7),
        x: Pair(true, 9),
        left_out: None,
        none: None,
        wrapped: Wrapped("w"),
        unit: (),
        numbers: [(10, true), (9, false), (-1, true)].into(),
        words: [(Kind::Unit, "u")].into(),
        nan: f64::NAN,
        bytes: &[1, 255],
        flat: [("c", 3), ("\u{1f600}", 4), ("\u{fb33}", 5)].into(),
    };
    let through_a_tree = to_canonical(&serde_json::to_value(&shapes).unwrap()).unwrap();
    let text = text_of(&shapes).unwrap();
    assert_eq!(text.out, through_a_tree);
    for (name, entry) in [("c", "\"c\":3"), ("unit", "\"unit\":null"), ("x", "\"x\":[true,9]")] {
        let (place, digest) = text.digest_without(name).unwrap();
        assert_eq!(text.out.get(place), Some(entry));
        let without = text.out.replacen(&format!(",{entry}"), "", 1);
        assert_eq!(digest, Digest::of(without.as_bytes()));
    }
    for none in ["left_out", "a"] {
        assert!(text.digest_without(none).is_none(), "{none}: not there, or the first");
    }
}

#[test]
fn what_has_no_canonical_text_is_refused_without_a_tree_too() {
    fn refused<T: serde::Serialize>(value: T) -> String {
        text_of(&value).err().expect("refused").to_string()
    }
    #[derive(serde::Serialize)]
    struct Twice {
        b: u8,
        #[serde(rename = "b")]
        other: u8,
    }
    assert!(refused(1.5).contains("no floats"));
    assert!(refused(MAX_SAFE_INTEGER + 1).contains("out of range"));
    assert!(refused(i64::MIN).contains("out of range"));
    assert!(refused(u128::MAX).contains("out of range"));
    assert!(refused(Twice { b: 1, other: 2 }).contains("twice"));
    assert!(refused(std::collections::BTreeMap::from([((1, 2), 3)])).contains("key must be a string"));
}

#[test]
fn texts_at_hand_are_written_as_they_would_be_and_only_where_they_are() {
    #[derive(serde::Serialize, serde::Deserialize, Debug, Clone, PartialEq)]
    struct Inner {
        z: String,
        a: Vec<u8>,
    }
    #[derive(serde::Serialize, serde::Deserialize, Debug, PartialEq)]
    struct Outer {
        within: BTreeMap<String, Inner>,
        kept: Settled<Inner>,
        kept_not: Inner,
        other: Nested,
        list: Vec<u8>,
        lists: [Appended<Inner>; 3],
        more: Appended<Inner>,
        none: Appended<Inner>,
    }
    #[derive(serde::Serialize, serde::Deserialize, Debug, PartialEq)]
    struct Nested {
        kept: u8,
        more: u8,
    }
    let inner = Inner { z: "\"đ\n".into(), a: vec![3, 1] };
    let outer = Outer {
        within: [("kept".to_string(), inner.clone())].into(),
        kept: Settled::new(inner.clone()).unwrap(),
        kept_not: Inner { z: "other".into(), a: vec![] },
        other: Nested { kept: 7, more: 8 },
        list: vec![1],
        lists: [vec![], vec![inner.clone()], vec![inner.clone(); 2]].map(Appended::from),
        more: vec![inner.clone(), Inner { z: "]".into(), a: vec![] }].into(),
        none: Appended::new(),
    };
    assert_eq!(outer.kept.text(), r#"{"a":[3,1],"z":"\"đ\n"}"#);
    assert_eq!(outer.kept.z, inner.z);
    let unclosed = |list: &'static str, values| (list, KeptText::Unclosed(values));
    let kept = [
        ("kept", KeptText::Whole(outer.kept.text())),
        unclosed("more", outer.more.unclosed_text().unwrap()),
        unclosed("none", outer.none.unclosed_text().unwrap()),
    ];
    let written = text_with(&outer, &kept).unwrap().out;
    assert_eq!(written, text_of(&outer).unwrap().out);
    assert_eq!(serde_json::from_str::<Outer>(&written).unwrap(), outer);
    assert!(Settled::new(0.5).is_err(), "what has no canonical text does not settle");
    assert!(serde_json::from_str::<Settled<f64>>("0.5").is_err());
}

#[test]
fn a_list_of_values_without_a_text_has_none() {
    let mut list = Appended::from(vec![1.5, 2.5]);
    list.push(3.5);
    assert_eq!((list.unclosed_text(), list.len()), (None, 3));
    assert!(text_of(&list).is_err(), "writing it says why");
    assert_eq!(Appended::from(vec![1, 2]).unclosed_text(), Some("[1,2"));
}

/// Every character that must be escaped, alone at each place of three words of eight bytes, and as
/// long as it likes.
#[test]
fn what_must_be_escaped_is_escaped_wherever_it_stands() {
    let plain = "abcdefghijklmnopqrstuvwx";
    for byte in 0..0x80_u8 {
        let one = char::from(byte).to_string();
        let mut texts: Vec<String> = (1..=24).map(|n| one.repeat(n)).collect();
        texts.extend((0..=24).map(|at| format!("{}{one}{}", &plain[..at], &plain[at..])));
        texts.extend((0..=24).map(|at| format!("{}{}{}", &plain[..at], one.repeat(8), &plain[at..])));
        for text in texts {
            let mut writer = Writer::new();
            writer.string(&text);
            // its escapes are those of RFC 8785
            assert_eq!(writer.finish(), serde_json::to_string(&text).unwrap(), "{text:?}");
        }
    }
}

proptest! {
    #[test]
    fn keys_are_ordered_as_their_utf16_units_are(
        head in "[a\u{7ff}\u{d7ff}\u{e000}\u{ffff}\u{10000}\u{10ffff}]{0,3}",
        a in "[a\u{7ff}\u{d7ff}\u{e000}\u{ffff}\u{10000}\u{10ffff}]{0,3}",
        b in "[a\u{7ff}\u{d7ff}\u{e000}\u{ffff}\u{10000}\u{10ffff}]{0,3}",
    ) {
        let (a, b) = (format!("{head}{a}"), format!("{head}{b}"));
        prop_assert_eq!(key_order(&a, &b), a.encode_utf16().cmp(b.encode_utf16()));
    }
}
