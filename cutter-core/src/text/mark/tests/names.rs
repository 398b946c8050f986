//! What headings are called.

use super::*;

fn name(title: &str) -> std::string::String {
    let marked = mark(&std::format!("# Doc\n\n## {title}\n\ntext\n"));
    assert_eq!(marked.candidates.len(), 2, "{title}");
    names(&marked)[1].into()
}

#[test]
fn the_printed_number_wins() {
    for (title, want) in [
        ("Article 5", "art-5"),
        ("ARTICLE V", "art-5"),
        ("Article 5a", "art-5a"),
        ("Article 71 bis", "art-71-bis"),
        ("Article 88-1", "art-88-1"),
        ("Article 52-A. Name", "art-52-a"),
        ("Article 14<sup>1</sup> Name", "art-14+1"),
        ("Article 14¹ Name", "art-14+1"),
        ("Article 3(a)(ii)", "art-3-a-ii"),
        ("Article １２", "art-12"),
        ("Art. 7: Name", "art-7"),
        ("§ 312e Duties", "sec-312e"),
        ("§§ 3 to 6 (repealed)", "sec-3..6"),
        ("Articles 3–6", "art-3..6"),
        ("Sections 3-6", "sec-3-6"),
        ("Section 4.2.1 Scope", "sec-4.2.1"),
        ("Part One", "part-1"),
        ("Part II – Duties", "part-2"),
        ("Part C", "part-c"),
        ("Title XV", "title-15"),
        ("Chapter the last", "h-chapter-the-last"),
        ("Annex", "annex"),
        ("Annex: Forms", "annex"),
        ("Appendix B", "annex-b"),
        ("Schedule 2", "annex-2"),
        ("Schedule of fees", "h-schedule-of-fees"),
        ("Preamble", "preamble"),
        ("First Amendment", "amend-1"),
        ("14th Amendment", "amend-14"),
        ("Amendment XIV", "amend-14"),
        ("Twenty-First Amendment", "amend-21"),
        ("4.1 Scope", "sec-4.1"),
        ("4.1. Scope", "sec-4.1"),
        ("4 Scope", "sec-4"),
        ("4) Scope", "sec-4"),
        ("A.1. Grammar", "sec-a.1"),
        ("1. Article I", "art-1"),
        ("1. 2. Both", "sec-1"),
        ("Table of Contents", "toc"),
    ] {
        assert_eq!(name(title), want, "{title}");
    }
}

#[test]
fn words_that_only_look_like_designators() {
    for (title, want) in [
        ("Particles", "h-particles"),
        ("Part of the story", "h-part-of-the-story"),
        ("Part a day", "h-part-a-day"),
        ("Titles", "h-titles"),
        ("Booking", "h-booking"),
        ("2024 in review", "h-2024-in-review"),
        ("2024-01-15 Notes", "h-2024-01-15-notes"),
        ("3D printing", "h-3d-printing"),
        ("I am", "h-i-am"),
        ("A", "h-a"),
        ("?!", "h"),
        ("An: them", "h-an-them"),
    ] {
        assert_eq!(name(title), want, "{title}");
    }
}

#[test]
fn kinds_types_and_bodies() {
    let text = "# Doc\n\nintro\n\n## Preamble\n\n## Article 1. Definitions\n\na\n\n## Article 2 (repealed)\n\n## Annex 1\n\nb\n";
    let marked = mark(text);
    let rows: Vec<(&str, &str)> =
        marked.candidates.iter().map(|c| (c.unit_kind.as_str(), c.section_type.as_str())).collect();
    assert_eq!(
        rows,
        [
            ("document", "preface"),
            ("preamble", "preamble"),
            ("article", "definitions"),
            ("article", "repealed_placeholder"),
            ("annex", "annex"),
        ]
    );
    assert_eq!(&text[marked.candidates[2].body_start..marked.candidates[2].end], "Definitions\n\na\n\n");
    let heading = marked.candidates[2].heading;
    assert_eq!(&text[heading.start..heading.end], "## Article 1. Definitions\n");
}

#[test]
fn the_same_body_under_another_number_has_the_same_body() {
    let body = |text: &'static str| {
        let found = mark(text).candidates[1].clone();
        &text[found.body_start..found.end]
    };
    assert_eq!(body("# D\n\n## Article 5. Name\n\nx\n"), body("# D\n\n## Article 6. Name\n\nx\n"));
}

#[test]
fn duplicates_are_numbered_told_and_never_cited() {
    let marked = mark("# D\n\n## Article 1\n\na\n\n## Article 1\n\n### Clause 1\n\n## Article 1\n");
    assert_eq!(names(&marked), [".", "art-1", "art-1~2", "art-1~2/cl-1", "art-1~3"]);
    let told: Vec<(&str, &str, u32, usize)> =
        marked.duplicates.iter().map(|d| (d.address.as_str(), d.of.as_str(), d.ordinal, d.line)).collect();
    assert_eq!(told, [("X/art-1~2", "X/art-1", 2, 7), ("X/art-1~3", "X/art-1", 4, 11)]);
    assert!(marked.candidates.iter().all(|c| c.citation_address.is_none()));
    assert_eq!(marked.warnings.iter().filter(|w| w.code == "duplicate_address").count(), 2);
}

#[test]
fn citations_skip_divisions_but_not_annexes() {
    let marked = mark(
        "# D\n\n## Chapter 1 x\n\n### Article 1\n\n## Chapter 2 y\n\n### Article 2\n\n## Annex 1 z\n\n### Article 1\n",
    );
    let cited: Vec<Option<&str>> =
        marked.candidates.iter().map(|c| c.citation_address.as_ref().map(Address::as_str)).collect();
    assert_eq!(cited, [None, None, Some("X/art-1"), None, Some("X/art-2"), None, Some("X/annex-1/art-1")]);
}

#[test]
fn a_citation_never_is_another_units_address() {
    let marked = mark("## Article 1 x\n\n## Chapter 1 y\n\n### Article 1\n\n### Article 2\n");
    let cited: Vec<Option<&str>> =
        marked.candidates.iter().map(|c| c.citation_address.as_ref().map(Address::as_str)).collect();
    assert_eq!(cited, [None, None, None, Some("X/art-2")]);
}

#[test]
fn decimal_sections_are_siblings_in_the_address() {
    cuts(
        "# D\n\n## 4. Framing\n\n### 4.1. Layout\n\n#### 4.1.1. Bits\n\n## 5. End\n\n### Note\n",
        &[".", "sec-4", "sec-4.1", "sec-4.1.1", "sec-5", "sec-5/h-note"],
    );
}

#[test]
fn the_document_is_a_lone_title_that_comes_first() {
    cuts("# Doc\n\n## A\n", &[".", "h-a"]);
    cuts("# One\n\n# Two\n", &["h-one", "h-two"]);
    cuts("## A\n\n# Late\n", &["h-a", "h-late"]);
    cuts("# Chapter 1\n\n## Article 1\n", &["ch-1", "ch-1/art-1"]);
    cuts("words\n\n# Doc\n\n## A\n", &["front", ".", "h-a"]);
}

#[test]
fn depth_merges_deeper_headings_into_their_parent() {
    let text = b"# D\n\n## A\n\n### B\n\nb\n\n#### C\n\n## E\n\n### F\n";
    let cut = |depth| {
        let marked = mark_with(text, |profile, _| profile.depth = Some(depth)).unwrap();
        names(&marked).into_iter().map(std::string::String::from).collect::<Vec<_>>()
    };
    assert_eq!(cut(0), ["."]);
    assert_eq!(cut(1), [".", "h-a", "h-e"]);
    assert_eq!(cut(2), [".", "h-a", "h-a/h-b", "h-e", "h-e/h-f"]);
    assert_eq!(cut(9).len(), 6);
}

#[test]
fn a_heading_of_a_megabyte_has_a_short_address() {
    let text = std::format!("# D\n\n## {}\n", "word ".repeat(200_000));
    let marked = mark(&text);
    assert!(marked.candidates[1].address.as_str().len() <= 44);
}
