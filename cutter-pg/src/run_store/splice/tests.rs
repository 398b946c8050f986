//! Splices: what is stored of a text beside another, and that it is the text again.

use super::*;

fn text(json: &str) -> Text {
    Text::of(json.as_bytes().to_vec(), None).unwrap()
}

/// What `after` is beside `before`, and that it is `after` again.
fn beside(before: &str, after: &str) -> Stored {
    let before = text(before);
    let after = Text::of(after.as_bytes().to_vec(), Some(&before)).unwrap();
    let stored = after.beside(&before);
    if let Some(places) = &stored.places {
        let again = spliced(&before.bytes, places, &stored.body);
        assert_eq!(again.as_deref(), Some(after.bytes.as_slice()));
        assert!(stored.body.len() + 4 * places.len() < after.bytes.len() / 2);
    } else {
        assert_eq!(stored.body, after.bytes);
    }
    stored
}

fn long(name: &str) -> String {
    format!("\"{name}\":\"{}\"", name.repeat(60))
}

#[test]
fn what_changed_is_stored_and_the_rest_is_copied() {
    let (a, b, c) = (long("a"), long("b"), long("c"));
    let before = format!("{{{a},\"n\":1,{c}}}");
    let same = beside(&before, &before);
    assert_eq!((same.body.as_slice(), same.places), (b"}".as_slice(), Some(vec![0, 140, 1])));
    let changed = beside(&before, &format!("{{{a},\"n\":27,{c}}}"));
    assert_eq!(changed.body, b"27}");
    let inserted = beside(&before, &format!("{{{a},\"m\":{{}},\"n\":1,{c}}}"));
    assert_eq!(inserted.body, b",\"m\":{},\"n\":1}", "a short copy would cost more than it is");
    let removed = beside(&format!("{{{a},{b},{c}}}"), &format!("{{{a},{c}}}"));
    assert_eq!(removed.body, b"}");
    // The first entry goes: the bracket takes the place of a comma.
    let first = beside(&format!("{{\"a\":1,{b},{c}}}"), &format!("{{{b},{c}}}"));
    assert_eq!(first.body, b"{}");
}

#[test]
fn an_object_in_an_object_is_taken_apart() {
    let inner = ["k", "l", "m", "n"].map(|name| format!("\"{name}\":\"{}\"", name.repeat(300)));
    let before = format!("{{\"a\":{{{}}},\"z\":0}}", inner.join(","));
    let after = before.replace("kkk\"", "kkK\"").replace("mmm\"", "mmM\"").replace("\"z\":0", "\"z\":10");
    // A copy of a few bytes would cost more than they do.
    assert_eq!(beside(&before, &after).body, b"{\"a\":K\"M\"},\"z\":10}");
}

#[test]
fn what_is_hardly_shorter_is_stored_whole() {
    assert_eq!(beside("[1]", "[1]").places, None, "no object");
    assert_eq!(beside("{}", "{}").places, None);
    assert_eq!(beside("{\"a\":1}", "{\"a\":1}").places, None, "a place costs more");
    assert_eq!(beside("7", &format!("{{{}}}", long("a"))).places, None, "nothing before it");
    assert_eq!(beside(&format!("{{{}}}", long("a")), &format!("{{{}}}", long("b"))).places, None);
}

#[test]
fn what_is_no_json_is_refused_with_and_without_one_before() {
    let before = format!("{{{},\"b\":[1,2]}}", long("a"));
    let (known, nested) = (text(&before), text(&format!("{{\"o\":{before},\"p\":{before}}}")));
    for (name, broken) in [
        ("empty", String::new()),
        ("cut", before[..before.len() - 1].to_owned()),
        ("cut in a value", before[..before.len() - 3].to_owned()),
        ("two", format!("{before}{before}")),
        ("comma", before.replace('}', ",}")),
        ("no colon", before.replace("\"b\":", "\"b\"")),
        ("no key", before.replace("\"b\":[", "[")),
        ("behind", format!("{before},")),
        ("word", before.replace("[1,2]", "nil")),
        ("number", before.replace("[1,2]", "1.")),
    ] {
        assert!(Text::of(broken.clone().into_bytes(), None).is_err(), "{name}");
        let within = format!("{{\"o\":{broken},\"p\":{before}}}").into_bytes();
        assert!(Text::of(broken.into_bytes(), Some(&known)).is_err(), "{name}, with one before");
        assert!(Text::of(within.clone(), None).is_err(), "{name}, within");
        assert!(Text::of(within, Some(&nested)).is_err(), "{name}, within, with one before");
    }
    // An entry behind a blank begins with its comma, and stands nowhere else as it is.
    let blank = text("{\"a\":1 ,\"b\":2}");
    assert!(Text::of(b"{\"a\":1,,\"b\":2}".to_vec(), Some(&blank)).is_err());
    // Half a pair is no character, with and without one before.
    let half = format!("{{{},\"\\ud800\":1}}", long("a")).into_bytes();
    assert!(Text::of(half.clone(), None).is_err());
    assert!(Text::of(half, Some(&known)).is_err());
    // Blanks and doubled keys are JSON, and kept as they are.
    for odd in [before.replace(':', " : "), before.replace("\"b\"", "\"a\""), format!("{before}\n")] {
        beside(&before, &odd);
        beside(&odd, &before);
        beside(&odd, &odd);
    }
}

/// A small generator of texts that are like each other: no other crate is needed for this.
fn random(seed: u64) -> String {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = move |most: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % most
    };
    let mut value = |depth: u64| match next(if depth < 2 { 6 } else { 4 }) {
        0 => next(300).to_string(),
        1 => format!("\"{}\"", "đ\\\"}],{[ ".repeat(usize::try_from(next(20)).unwrap())),
        2 => format!("[{},{}]", next(9), next(9)),
        3 => "true".to_owned(),
        _ => format!("\"{}\"", "settled ".repeat(60)),
    };
    let mut object = |depth: u64| {
        let keys: Vec<u32> = (0..12).filter(|_| value(2).len().is_multiple_of(2)).collect();
        let entries: Vec<String> = keys.iter().map(|key| format!("\"k{key:02}\":{}", value(depth))).collect();
        format!("{{{}}}", entries.join(","))
    };
    let (inner, outer) = (object(1), object(0));
    match outer.as_str() {
        "{}" => format!("{{\"in\":{inner}}}"),
        _ => outer.replacen('{', &format!("{{\"in\":{inner},"), 1),
    }
}

#[test]
fn any_text_is_the_same_again_beside_any_other() {
    for seed in 0..3000 {
        let (before, after) = (random(seed), random(seed + 1));
        serde_json::from_str::<serde_json::Value>(&after).unwrap();
        beside(&before, &after);
        let known = text(&before);
        let (read, guided) = (text(&after), Text::of(after.clone().into_bytes(), Some(&known)).unwrap());
        let (read, guided) = (places(&read.entries), places(&guided.entries));
        assert_eq!(read, guided, "{seed}: {before} {after}");
    }
}

/// Where entries stand, and those in them.
fn places(entries: &[Entry]) -> Vec<(Range<usize>, usize)> {
    let each = |e: &Entry| [vec![(e.all.clone(), e.value)], places(&e.inner)].concat();
    entries.iter().flat_map(each).collect()
}

#[test]
fn entries_stand_where_their_keys_and_values_do() {
    let inner = format!("{{{},\"n\":{{\"x\":1}},\"o\":{{{},\"p\":[1]}}}}", long("mmmmm"), long("qqqqq"));
    let text = text(&format!("{{\"a\":{inner},\"b\":{{\"c\":1}}}}"));
    let shown = |entry: &Entry| String::from_utf8(text.part(&entry.all).to_vec()).unwrap();
    let [a, b] = text.entries.as_slice() else { panic!() };
    assert_eq!(shown(a), format!("{{\"a\":{inner}"));
    assert_eq!((text.part(&(a.value..a.all.end)), shown(b)), (inner.as_bytes(), ",\"b\":{\"c\":1}".into()));
    assert!(b.inner.is_empty(), "it is short");
    let [m, n, o] = a.inner.as_slice() else { panic!() };
    assert_eq!([shown(m), shown(n)], [format!("{{{}", long("mmmmm")), ",\"n\":{\"x\":1}".to_owned()]);
    assert_eq!((n.inner.len(), o.inner.len()), (0, 2), "short, and long enough");
}
