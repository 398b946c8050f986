//! Laws of every XML document, and the time that large ones take.

use super::*;
use proptest::prelude::*;
use std::time::{Duration, Instant};

#[test]
fn large_documents_take_linear_time() {
    let article = |i: usize| {
        format!(
            "<article eId=\"art_{i}\"><num>Article {i}</num><heading>On {i}</heading><content><p>{}</p></content></article>\n",
            "words ".repeat(20)
        )
    };
    let many: String = (1..20_000).map(article).collect();
    let deep = format!("{}x{}", "<i>".repeat(200), "</i>".repeat(200)).repeat(2_000);
    let attributes: String = (0..100_000).map(|i| format!(" a{i}=\"\"")).collect();
    let prefixes: String = (0..50_000).map(|i| format!(" xmlns:p{i}=\"u\"")).collect();
    for (name, text) in [
        ("many", act(&many)),
        (
            "one long",
            act(&format!("<article><num>1</num><p>{}</p></article>", "word &amp; ".repeat(400_000))),
        ),
        ("a long number", act(&format!("<article><num>{}</num></article>", "1<b/>&amp;".repeat(400_000)))),
        ("deep", act(&deep)),
        ("attributes", act(&format!("<article{attributes}/>"))),
        ("prefixes", act(&format!("<p{prefixes}>{}</p>", "<article/>".repeat(20_000)))),
        ("broken", act(&many).replace("</body>", "")),
        ("same name", act(&"<article><heading>Same</heading></article>\n".repeat(50_000))),
    ] {
        let started = Instant::now();
        let profile = Profile::built_in("akn").unwrap();
        let (document_id, limits) = (DocumentId::parse("X").unwrap(), MarkLimits::default());
        let context = MarkContext { document_id: &document_id, profile: &profile, limits: &limits };
        let marked = XmlMarker.mark(text.as_bytes(), Region { start: 0, end: text.len() }, &context);
        std::println!("{name}: {} bytes in {:?}", text.len(), started.elapsed());
        assert_eq!(marked.is_ok(), name != "broken");
        // Room for an unoptimised build on a busy machine; quadratic time takes minutes.
        assert!(started.elapsed() < Duration::from_secs(10), "{name}: {:?}", started.elapsed());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]
    #[test]
    fn a_changed_byte_is_refused_or_tiled(which in 0..3usize, at in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let (name, text) = SAMPLES[which];
        let mut bytes = text.as_bytes().to_vec();
        let at = at.index(bytes.len());
        bytes[at] = byte;
        if let Ok(text) = core::str::from_utf8(&bytes) {
            let _ = mark_as(name, text, |p| p.xml.as_mut().unwrap().deepest = None);
        }
    }

    #[test]
    fn edits_of_text_and_order_are_tiled(
        which in 0..3usize,
        edits in prop::collection::vec((any::<prop::sample::Index>(), 0..6usize, "[ a-zA-Z0-9.é—§()-]{0,12}"), 1..8),
    ) {
        let (name, text) = SAMPLES[which];
        let mut text = text.to_string();
        for (at, edit, word) in edits {
            // After the root's start tag every `>` outside comments may be followed by these.
            let starts: Vec<usize> = text.match_indices('>').map(|(i, _)| i + 1).filter(|&i| i > 200 && i < text.len() - 40).collect();
            let at = starts[at.index(starts.len())];
            let insert = match edit {
                0 => word,
                1 => format!("<num>{word}</num>"),
                2 => format!("<section><num>{word}</num></section>"),
                3 => format!("<ARTICLE><TI.ART>Article {word}</TI.ART></ARTICLE>"),
                4 => format!("<heading>{word}</heading>"),
                _ => "\r\n<!-- <section -->".to_string(),
            };
            text.insert_str(at, &insert);
        }
        let marked = mark_as(name, &text, |p| p.xml.as_mut().unwrap().deepest = None);
        let marked = marked.map_err(|e| TestCaseError::fail(e.to_string()))?;
        prop_assert!(marked.candidates.len() > 8);
    }

    #[test]
    fn any_text_is_refused_or_tiled(inside in "[<>/a-z&; \"='\\[\\]!-]{0,60}") {
        let _ = mark_as("akn", &act(&inside), |_| ());
        let _ = mark_as("akn", &inside, |_| ());
        let _ = xml_root(inside.as_bytes());
    }
}
