//! Which profile fits.

use super::*;

fn detect(text: &str) -> Detected {
    Profiles::built_in().unwrap().detect(text.as_bytes())
}

#[test]
fn nothing_is_plain_and_said_to_be_unsure() {
    let found = detect("");
    assert_eq!((found.profile.as_str(), found.confidence), ("markdown", Confidence::Low));
}

#[test]
fn a_law_of_each_language() {
    for (want, text) in [
        (
            "de",
            "# Gesetz\n\n## § 1 Zweck\n\nDas Gesetz regelt die Rechte der Bürger und den Schutz.\n\n## § 2 Ziel\n\nDer Zweck ist nicht das Ziel.\n",
        ),
        (
            "fr",
            "# Loi\n\n## Titre Ier : Des droits\n\n### Article 1er\n\nLa loi est la même pour tous les citoyens dans le pays.\n\n### Article 2\n\nLe droit est à tous.\n",
        ),
        (
            "cn",
            "# 法\n\n<!-- INFO END -->\n\n## 第一章 总则\n\n第一条 为了保护人民的权利，制定本法。\n\n第二条 国家机关应当遵守本法的规定。\n",
        ),
        (
            "vn",
            "# Luật\n\n## Chương I\n\n### Điều 1. Phạm vi\n\nLuật này quy định về quyền và nghĩa vụ của công dân.\n\n### Điều 2. Đối tượng\n\nCông dân có quyền theo quy định tại Luật này.\n",
        ),
        (
            "ee",
            "# Seadus\n\n### 1. peatükk ÜLDSÄTTED\n\n##### § 1. Eesmärk\n\nKäesolev seadus sätestab, mis on õigus ja kohustus või vastutus.\n",
        ),
        (
            "fi",
            "# Laki\n\n### 1 luku. Yleistä\n\n##### 1 § Tarkoitus\n\nTämä laki on säädetty ja se ei ole muuta kuin että oikeus on.\n",
        ),
        ("markdown", "# Notes\n\n## How to build\n\nRun the tests.\n\n## Ideas\n\nNone yet.\n"),
    ] {
        let found = detect(text);
        assert_eq!(found.profile, want, "{:#?}", found.ranking);
    }
}

#[test]
fn xml_says_by_its_root_what_it_is() {
    for (root, want) in [
        ("<akomaNtoso xmlns=\"http://docs.oasis-open.org/legaldocml/ns/akn/3.0\"><act/></akomaNtoso>", "akn"),
        ("<!-- a --><p:bill xmlns:p=\"http://schemas.gpo.gov/xml/uslm\"/>", "uslm"),
        ("<?xml version=\"1.0\"?>\n<ACT><ENACTING.TERMS/></ACT>", "formex"),
    ] {
        let detected = detect(root);
        assert_eq!((detected.profile.as_str(), detected.confidence), (want, Confidence::High), "{root}");
        assert!(detected.evidence[0].starts_with("the root element is"), "{:?}", detected.evidence);
    }
    // A text that begins with other markup is no XML document of a profile.
    for text in ["<div>\n\n# Title\n\n## Article 1\n", "<html><body/></html>", "<!-- x -->\n# Title\n"] {
        assert_eq!(detect(text).profile, "markdown", "{text}");
    }
}

/// A law in German, with as many of its own lines as wanted.
const LAW: &str = "## § 1 Zweck\n\nDas Gesetz regelt die Rechte der Bürger und den Schutz.\n\n## § 2 Ziel\n\nDer Zweck ist das Ziel.\n";

#[test]
fn only_a_profile_of_another_language_is_a_rival() {
    let german = Profile::built_in("de").unwrap();
    let mut twin = german.clone();
    twin.name = "twin".into();
    let markdown = Profile::built_in("markdown").unwrap();
    let with = |twin: Profile| {
        Profiles::new(alloc::vec![markdown.clone(), german.clone(), twin]).detect(LAW.as_bytes())
    };
    let related = with(twin.clone());
    assert_eq!((related.profile.as_str(), related.runner_up()), ("de", Some("twin")));
    assert!(!related.evidence.iter().any(|line| line.contains("twin")), "{:?}", related.evidence);
    twin.languages = alloc::vec!["xx".into()];
    let rival = with(twin);
    assert_eq!((rival.profile.as_str(), rival.confidence), ("de", Confidence::Low));
    assert_eq!(rival.evidence[2], "twin is nearly as likely");
    assert!(rival.evidence[1].starts_with("next: twin: 2 lines begin with an article, 0 with a division"));
}

#[test]
fn little_evidence_is_said() {
    let last = |text: &str| {
        let found = detect(text);
        (found.confidence, found.evidence.last().cloned().unwrap_or_default())
    };
    // a single heading is next to none, two are some
    let (confidence, why) = last("# One\n\ntext\n");
    assert_eq!((confidence, why.as_str()), (Confidence::Low, "the text has next to no headings"));
    assert_eq!(last("# One\n\ntext\n\n## Two\n\ntext\n").0, Confidence::High);
    let (confidence, why) = last(&LAW.replace("## § ", ""));
    assert_eq!(confidence, Confidence::Low);
    assert_eq!(why, "no line begins with an article: chosen by the language alone");
    assert_eq!(last(LAW).0, Confidence::High);
}

/// A profile that knows one word, and a text in which so many of a thousand words are that one.
#[test]
fn less_than_forty_per_mille_of_a_language_is_none_of_it() {
    let mut own = Profile::built_in("de").unwrap();
    own.detection.words = alloc::vec!["qqq".into()];
    (own.detection.letters, own.detection.lines) = (String::new(), Vec::new());
    let profiles = Profiles::new(alloc::vec![Profile::built_in("markdown").unwrap(), own]);
    for (known, counts) in [(39, false), (40, true)] {
        let words: Vec<&str> = (0..1000).map(|n| if n < known { "qqq" } else { "w" }).collect();
        let found = profiles.detect(words.join(" ").as_bytes());
        let score = found.ranking.iter().find(|score| score.profile == "de");
        assert_eq!(score.is_some(), counts, "{known}: {:?}", found.ranking);
        assert!(score.is_none_or(|score| score.language == 40));
    }
}

#[test]
fn underlined_titles_are_counted_by_marks_that_markdown_does_not_know() {
    let divisions = |text: &str| {
        let found = detect(&alloc::format!("{text}\n\nThe text is in the language of the rst profile.\n"));
        found.ranking.iter().find(|score| score.profile == "rst").map_or(0, |score| score.divisions)
    };
    for (text, want) in [
        ("Title\n~~~~~", 1),
        ("Title\n~~~~~~~~~\n\nOther\n^^^^^", 2),
        ("Titel\n~~~~", 0),
        ("Tit\n~~~", 0),
        ("Four\n~~~~", 1),
        (" Title\n~~~~~~", 0),
        ("\n~~~~~~", 0),
        ("Title\n=====", 0),
        ("Title\n~~~^~", 0),
        ("Tïtle  \n\"\"\"\"\"  ", 1),
    ] {
        assert_eq!(divisions(text), want, "{text:?}");
    }
}

/// What counts how much: signs of the convention most, and all of it by how much of the text is in its
/// language.
#[test]
fn a_score_is_the_product_of_what_was_counted() {
    let profile = Profile::built_in("de").unwrap();
    let of = |is_fallback, (articles, divisions, marks, plain), language| {
        score(&profile, is_fallback, Hits { articles, divisions, marks, plain }, language).score
    };
    assert_eq!(of(false, (1, 0, 0, 9), 100), 5_000);
    assert_eq!(of(false, (0, 1, 0, 9), 100), 3_000);
    assert_eq!(of(false, (0, 0, 5, 0), 100), 101_000);
    assert_eq!(of(false, (0, 0, 9, 0), 100), 101_000, "five signs are enough");
    assert_eq!(of(false, (0, 0, 0, 0), 900), 4_000, "and four tenths of a language");
    assert_eq!(of(false, (9, 9, 0, 0), 39), 0);
    assert_eq!(of(false, (0, 0, 1, 0), 39), 8_190);
    assert_eq!(of(true, (1, 2, 0, 3), 0), 9_000);
}
