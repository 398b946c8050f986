//! Small XML documents of the three dialects: every planted unit is found again.

use std::fmt::Write as _;

use cutter_core::text::profile::Profile;

use crate::document::Planted;
use crate::tape::Tape;
use crate::{for_tapes, lawful, mark};

/// How a dialect writes what it divides a law into.
pub struct Dialect {
    pub profile: &'static str,
    open: &'static str,
    close: &'static str,
    /// Element, kind, and how its number is written.
    chapter: (&'static str, &'static str),
    article: (&'static str, &'static str),
    quoted: &'static str,
}

pub const DIALECTS: [Dialect; 3] = [
    Dialect {
        profile: "akn",
        open: "<akomaNtoso xmlns=\"http://docs.oasis-open.org/legaldocml/ns/akn/3.0\"><act><body>",
        close: "</body></act></akomaNtoso>",
        chapter: ("chapter", "ch"),
        article: ("article", "art"),
        quoted: "quotedStructure",
    },
    Dialect {
        profile: "uslm",
        open: "<lawDoc xmlns=\"http://schemas.gpo.gov/xml/uslm\"><main>",
        close: "</main></lawDoc>",
        chapter: ("chapter", "ch"),
        article: ("section", "sec"),
        quoted: "quotedContent",
    },
    Dialect {
        profile: "formex",
        open: "<ACT><ENACTING.TERMS>",
        close: "</ENACTING.TERMS></ACT>",
        chapter: ("DIVISION", "ch"),
        article: ("ARTICLE", "art"),
        quoted: "QUOT.S",
    },
];

fn number(dialect: &Dialect, chapter: bool, number: &str) -> String {
    match (dialect.profile, chapter) {
        ("formex", true) => format!("<TITLE><TI><P>CHAPTER {number}</P></TI></TITLE>"),
        ("formex", false) => format!("<TI.ART>Article {number}</TI.ART>"),
        ("uslm", true) => format!("<num value=\"{number}\">CHAPTER {number}—</num>"),
        ("uslm", false) => format!("<num value=\"{number}\">§ {number}.</num>"),
        (_, true) => format!("<num>Chapter {number}</num>"),
        (_, false) => format!("<num>Article {number}</num>"),
    }
}

/// A document and what was planted in it.
pub fn document(dialect: &Dialect, tape: &mut Tape<'_>) -> (String, Vec<Planted>) {
    let mut text = String::new();
    if tape.once_in(2) {
        text += "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<!-- <article><num>9</num></article> -->\n";
    }
    text += dialect.open;
    let mut planted = Vec::new();
    let mut article = 0;
    for chapter in 1..=1 + tape.below(3) {
        let (element, kind) = dialect.chapter;
        let address = format!("X/{kind}-{chapter}");
        planted.push(Planted { start: text.len(), address: address.clone() });
        writeln!(text, "<{element}>{}", number(dialect, true, &chapter.to_string())).unwrap();
        for _ in 0..1 + tape.below(4) {
            article += 1;
            let label = if tape.once_in(4) { format!("{article}a") } else { article.to_string() };
            let (element, kind) = dialect.article;
            planted.push(Planted { start: text.len(), address: format!("{address}/{kind}-{label}") });
            let space = *tape.pick(&["", " ", "\n", "<!-- x -->", "<?x y?>"]);
            write!(text, "<{element}>{space}{}", number(dialect, false, &label)).unwrap();
            let quoted = dialect.quoted;
            match tape.below(4) {
                1 => write!(
                    text,
                    "<{quoted}><{element}>{}</{element}></{quoted}>",
                    number(dialect, false, "7")
                )
                .unwrap(),
                2 => write!(text, "<![CDATA[<{element}>]]> Article 3 &amp; &#x41; đ").unwrap(),
                3 => write!(text, "<p>Article {} applies</p>", article + 1).unwrap(),
                _ => {}
            }
            writeln!(text, "</{element}>").unwrap();
        }
        write!(text, "</{element}>").unwrap();
    }
    text += dialect.close;
    (text, planted)
}

#[test]
fn every_planted_element_is_found() {
    for dialect in &DIALECTS {
        let profile = Profile::built_in(dialect.profile).unwrap();
        for_tapes(200, |bytes| {
            let (text, planted) = document(dialect, &mut Tape::new(bytes));
            let marked = mark(&profile, text.as_bytes()).unwrap();
            lawful(&profile, text.as_bytes(), &marked);
            let found: Vec<Planted> = (marked.candidates.iter().skip(1))
                .map(|unit| Planted { start: unit.start, address: unit.address.to_string() })
                .collect();
            assert_eq!(found, planted, "\n{text}");
        });
    }
}
