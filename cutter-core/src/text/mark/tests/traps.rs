//! What real files do to a marker, one test a trap.

use super::*;
use crate::text::mark::Stop;
use std::string::ToString;

#[test]
fn front_matter_that_reads_as_a_setext_heading() {
    let text = "---\nTitle: Gesetz\nslug: g\n\n---\n\n# Gesetz\n\n## § 1 Zweck\n\ntext\n";
    cuts(text, &[".", "sec-1"]);
    assert_eq!(mark(text).region.start, text.find("\n# Gesetz").unwrap());
    cuts("---\ntitle: x\n...\n\n# A\n\n## B\n", &[".", "h-b"]);
    cuts(
        "---\ntitle: x\n\n--- abstract\n\nwords\n\n--- middle\n\n# One\n\n# Two\n",
        &["front", "h-one", "h-two"],
    );
}

#[test]
fn front_matter_is_text_where_the_profile_says_so() {
    let text = b"---\ntitle: x\n---\n\n# A\n";
    let start = |front_matter: bool| {
        mark_with(text, |profile, _| profile.region.front_matter = front_matter).unwrap().region.start
    };
    assert_eq!((start(true) > 0, start(false)), (true, 0));
}

#[test]
fn rulers_in_pairs_in_mid_document_hide_nothing() {
    cuts("# A\n\n---\n\n## B\n\n---\n\n## C\n\nkey: value\n\n---\n", &[".", "h-b", "h-c"]);
}

#[test]
fn a_byte_order_mark_before_the_first_heading() {
    let text = "\u{feff}# Charter\n\n## Mission\n";
    cuts(text, &[".", "h-mission"]);
    assert_eq!(mark(text).region.start, 0);
    assert_eq!(mark(text).candidates[0].start, 0);
    cuts("\u{feff}---\nt: x\n---\n# Charter\n## Mission\n", &[".", "h-mission"]);
    cuts("\u{feff}Charter\n=======\n\n## Mission\n", &[".", "h-mission"]);
}

#[test]
fn every_kind_of_line_end() {
    cuts("# A\r\n\r\n## B\r\ntext\r\n## C\r\n", &[".", "h-b", "h-c"]);
    cuts("# A\r\r## B\rtext\r## C\r", &[".", "h-b", "h-c"]);
    cuts("# A\n\n## B\r\ntext\r# not at\n## C\n", &["h-a", "h-a/h-b", "h-not-at", "h-not-at/h-c"]);
    let text = "# A\r## B ##\rx";
    let marked = mark(text);
    assert_eq!(&text[marked.candidates[1].start..], "## B ##\rx");
    assert_eq!(&text[marked.candidates[1].body_start..], "x");
}

#[test]
fn number_signs_that_are_no_headings() {
    for hidden in [
        "```\n# no\n```\n",
        "~~~text\n# no\n```\n# no\n~~~\n",
        "    # no\n",
        "\t# no\n",
        "<!--\n# no\n\n# no\n-->\n",
        "<!-- # no -->\n",
        "<pre>\n# no\n\n# no\n</pre>\n",
        "<script>\n# no\n</script>\n",
        "> # no\n> text\n",
        "- # no\n",
        "- item\n\n  # no\n",
        "1. item\n\n   ```\n   # no\n   ```\n",
        "\\# no\n",
        "#no\n",
        "####### no\n",
        "`\n# \n`\n".trim_start_matches("`\n# \n`\n"),
    ] {
        let text = std::format!("# A\n\n{hidden}\n## B\n\ntext\n");
        cuts(&text, &[".", "h-b"]);
    }
}

#[test]
fn an_unclosed_fence_reaches_to_the_end() {
    cuts("# A\n\n## B\n\n~~~\"noise\n\n## C\n\n## D\n", &[".", "h-b"]);
}

#[test]
fn no_blank_after_the_number_signs_is_text() {
    cuts("##Titel\n\n### Artikel 1\n\n###Artikel 2\n", &["front", "h-artikel-1"]);
}

#[test]
fn rulers_and_form_lines_do_not_become_headings() {
    for (form, rest) in [
        ("N$\n --\n", "short"),
        ("| a | b |\n---\n", "columns"),
        ("Name:              Date:\n----------------\n", "columns"),
        ("one\ntwo\nthree\n-----\n", "too long"),
        ("___ ...\n-------\n", "no letter"),
        ("Name\n----------------------------------------------------------------------\n", "ruler"),
    ] {
        let text = std::format!("# A\n\n## B\n\n{form}\n## C\n");
        cuts(&text, &[".", "h-b", "h-c"]);
        let marked = mark(&text);
        assert_eq!(marked.warnings.len(), 1, "{form:?}");
        assert_eq!(marked.warnings[0].code, "setext_ignored");
        assert_eq!(marked.warnings[0].line, Some(5));
        assert!(marked.warnings[0].message.contains(rest), "{}", marked.warnings[0].message);
    }
    cuts("Title\n=====\n\nSection 1\n---------\n\nx\n\nTwo\nlines\n-----\n", &[".", "sec-1", "h-two-lines"]);
}

#[test]
fn headings_that_are_links_bold_code_or_go_on() {
    cuts("## 1. [Article I](https://example.org/(x)#y)\n\n### Section 1\n", &["art-1", "art-1/sec-1"]);
    cuts("# Doc\n\n### 1. **I** [First Amendment](https://example.org)\n", &[".", "amend-1"]);
    cuts("# Doc\n\n#### **Article 52-A. *Name***\n", &[".", "art-52-a"]);
    cuts("# Doc\n\n## The `cut` _plan_ &amp; <b>more</b> ![img](x)\n", &[".", "h-the-cut-plan-more"]);
    cuts("# Doc\n\n## Article 9 of the\nlong title\n\ntext\n", &[".", "art-9"]);
    cuts("# Doc\n\n## [Scope][ref]\n\n[ref]: https://example.org\n", &[".", "h-scope"]);
    cuts("# Doc\n\n## Frames {#frames}\n\n## 2\\. Scope\n", &[".", "h-frames", "sec-2"]);
}

#[test]
fn number_and_title_as_two_headings() {
    cuts("# Doc\n\n## Chapter I\n\n## General provisions\n\n### Article 1\n", &[".", "ch-1", "ch-1/art-1"]);
    cuts("# Doc\n\n## Annex 1\n\n### Form of request\n\ntext\n\n## Annex 2\n", &[".", "annex-1", "annex-2"]);
    // Two headings below are children, not a title.
    cuts("# Doc\n\n## Chapter I\n\n### Aims\n\n### Means\n", &[".", "ch-1", "ch-1/h-aims", "ch-1/h-means"]);
    // Text between them: the chapter has a body of its own.
    cuts("# Doc\n\n## Chapter I\n\nx\n\n## Aims\n", &[".", "ch-1", "h-aims"]);
    // The title at a shallower level, for conventions that write so.
    let czech = "# Doc\n\n##### § 1\n\n#### Scope\n\ntext\n\n##### § 2\n\n#### Terms\n";
    let marked = mark_with(czech.as_bytes(), |profile, _| profile.fold_titles = FoldTitles::Any).unwrap();
    assert_eq!(names(&marked), [".", "sec-1", "sec-2"]);
    let unfolded = mark_with(czech.as_bytes(), |profile, _| profile.fold_titles = FoldTitles::None).unwrap();
    assert_eq!(names(&unfolded), [".", "sec-1", "h-scope", "h-scope/sec-2", "h-terms"]);
}

#[test]
fn levels_that_jump_stand_still_or_are_inverted() {
    cuts("# A\n\n### B\n\n##### C\n\n### D\n", &[".", "h-b", "h-b/h-c", "h-d"]);
    cuts("### Part I x\n\n### Chapter 1 y\n\n### Article 1\n", &["part-1", "ch-1", "art-1"]);
    cuts("#### Section I x\n\n### Chapter I y\n\n##### Article 1\n", &["sec-1", "ch-1", "ch-1/art-1"]);
    let by_rank =
        |text: &str| mark_with(text.as_bytes(), |profile, _| profile.nesting = Nesting::Rank).unwrap();
    let flat =
        by_rank("### Part I x\n\n### Chapter 1 y\n\n### Article 1\n\n### Part II z\n\n### Article 2\n");
    assert_eq!(names(&flat), ["part-1", "part-1/ch-1", "part-1/ch-1/art-1", "part-2", "part-2/art-2"]);
}

#[test]
fn empty_sections_and_no_sections() {
    cuts("# A\n## B\n## C\n", &[".", "h-b", "h-c"]);
    cuts("#\n\n##\n\n##\n", &["h", "h/h", "h/h~2"]);
    cuts("", &[]);
    assert_eq!(mark("").warnings[0].code, "empty_region");
    cuts("just text", &["front"]);
    assert_eq!(mark("just text").warnings[0].code, "no_headings");
    cuts("\n \n", &["front"]);
    cuts("# Only a title\n", &["."]);
}

#[test]
fn text_that_is_not_nfc_or_holds_invisible_and_odd_blanks() {
    let (composed, apart) =
        ("# D\n\n## Điều khoản é\n", "# D\n\n## Đie\u{302}\u{300}u khoa\u{309}n e\u{301}\n");
    assert_eq!(names(&mark(composed)), names(&mark(apart)));
    cuts("# D\n\n## Art\u{200b}icle\u{a0}5\u{a0}\u{2013} Name\n", &[".", "art-5"]);
    cuts("# D\n\u{c}\n## B\n\u{c}\ntext\n", &[".", "h-b"]);
}

#[test]
fn bytes_that_are_not_utf8_are_refused_with_their_place() {
    let source = b"# A\n\ncaf\xe9 au lait\n";
    let error = mark_with(source, |_, _| ()).unwrap_err();
    assert_eq!(error, MarkError::NotUtf8 { offset: 8, line: 3, byte: 0xe9 });
    assert!(error.to_string().starts_with("not UTF-8 at byte 8 (line 3)"));
    let cut = "# A\n\né".as_bytes();
    assert!(matches!(mark_with(&cut[..6], |_, _| ()), Err(MarkError::NotUtf8 { offset: 5, line: 3, .. })));
}

#[test]
fn limits_and_forbidden_prefixes() {
    let error = mark_with(b"12345", |_, limits| limits.max_bytes = 4).unwrap_err();
    assert_eq!(error, MarkError::TooLarge { limit: 4, observed: 5 });
    let text = b"# D\n\n## Article 4\n\n## Article 44\n\n### Section 1\n";
    let marked = mark_with(text, |_, limits| {
        limits.forbidden_prefixes = std::vec![Address::parse("X/art-44").unwrap()];
        limits.max_candidates = 1;
    })
    .unwrap();
    let hit: Vec<&str> = marked.forbidden.iter().map(Address::as_str).collect();
    assert_eq!(hit, ["X/art-44", "X/art-44/sec-1"]);
    assert_eq!(marked.candidates.len(), 4, "the cap is the gate's to judge");
}

#[test]
fn too_many_candidates_are_counted_and_none_is_built() {
    let text = b"Front\n\n# D\n\n## Article 4\n\n### Section 1\n\n# Article 44\n";
    for (levels, there) in [(None, 5), (Some(2), 4), (Some(1), 3)] {
        let with = |most: u32| {
            mark_with(text, |profile, limits| {
                profile.depth = levels;
                (limits.max_candidates, limits.stop) = (most, Stop::AtCandidates);
            })
        };
        assert_eq!(with(there).unwrap().candidates.len(), there as usize, "{levels:?}");
        let error = with(there - 1).unwrap_err();
        let (limit, observed) = (there - 1, u64::from(there));
        assert_eq!(error, MarkError::TooMany { limit, observed, publication_type: None }, "{levels:?}");
    }
}

#[test]
fn a_thousand_units_are_enough_unless_more_are_allowed() {
    let text = |n: usize| "# h\n\nwords of some length\n\n".repeat(n);
    let with = |n: usize| mark_with(text(n).as_bytes(), |_, limits| limits.stop = Stop::AtCandidates);
    assert_eq!(with(1000).map(|marked| marked.candidates.len()), Ok(1000));
    let error = with(1001).map(|marked| marked.candidates.len());
    assert_eq!(error, Err(MarkError::TooMany { limit: 1000, observed: 1001, publication_type: None }));
}

#[test]
fn a_text_of_nothing_but_names_is_refused_unless_as_many_are_allowed() {
    let text = std::format!("# h\n\n{}", "r[a]\n".repeat(20_000));
    let with = |most: u32| {
        mark_with(text.as_bytes(), |_, limits| {
            (limits.max_candidates, limits.stop) = (most, Stop::AtDensity);
        })
    };
    assert_eq!(with(1000), Err(MarkError::TooDense { limit: 16_384, bytes: text.len() }));
    assert_eq!(with(20_000).unwrap().candidates[0].aliases.len(), 20_000);
}

#[test]
fn a_text_of_nothing_but_marks_is_refused_unless_as_many_are_allowed() {
    for text in ["# h\n", "h\n===\n", "#\n"].map(|mark| mark.repeat(20_000)) {
        let with = |most: u32, stop: Stop| {
            mark_with(text.as_bytes(), |_, limits| (limits.max_candidates, limits.stop) = (most, stop))
        };
        let error = with(1000, Stop::AtDensity).unwrap_err();
        assert_eq!(error, MarkError::TooDense { limit: 16_384, bytes: text.len() });
        for stop in [Stop::AtDensity, Stop::Nowhere] {
            assert_eq!(with(20_000, stop).unwrap().candidates.len(), 20_000);
        }
        // Below the headings that are cut they count all the same.
        assert!(
            mark_with(std::format!("# a\n{}", text.replace('#', "##")).as_bytes(), |profile, limits| {
                (profile.depth, limits.stop) = (Some(1), Stop::AtDensity);
            })
            .is_err()
        );
    }
}

use crate::text::profile::{FoldTitles, Nesting};

#[test]
fn the_largest_numbers_there_are() {
    // One more than the first would not be a number any more.
    for text in [
        "第四二九四九六七二九五条　一\n\n第四二九四九六七二九四条　二\n\n第一条　三\n",
        "## 第四二九四九六七二九五条\n\n## 第四二九四九六七二九五条之四二九四九六七二九五\n\n## 第一条\n",
        "第429496729条　一\n\n第999999999条　二\n",
    ] {
        assert!(lawful_as("cn", text).candidates.len() > 1, "{text}");
    }
    let marked = lawful_as("cn", "## 第四二九四九六七二九五条\n\n## 第四二九四九六七二九五条之一\n");
    assert_eq!(names(&marked), ["art-4294967295", "art-4294967295+1"]);
}

#[test]
fn designators_in_one_line_end_where_the_next_begins() {
    let text = "\n\nX.Điều 44.4.NĐ.1. Một.Điều 44.4.NĐ.2. Hai.Điều 44.4.NĐ.3. Ba   \n\ntext\n";
    let marked = lawful_as("vn-phapdien", text);
    assert_eq!(names(&marked), ["front", "art-44.4.ndd.1", "art-44.4.ndd.2", "art-44.4.ndd.3"]);
    let heads = headings(text, &marked);
    assert_eq!(heads, ["Điều 44.4.NĐ.1. Một.", "Điều 44.4.NĐ.2. Hai.", "Điều 44.4.NĐ.3. Ba"]);
}

#[test]
fn articles_in_bold_lines() {
    let text = "Article 1\n\na\n\n**Article 2**\n\nb\n\n**Article 3.** c\n\n__Article 4__ - d\n\n**Article 5 e\n\n**Article 5. E\n\nf\n";
    let marked = lawful_as("en", text);
    assert_eq!(names(&marked), ["art-1", "art-2", "art-3", "art-4", "art-5"]);
    let bodies: Vec<&str> = marked
        .candidates
        .iter()
        .map(|c| text[c.body_start..c.end].lines().next().unwrap_or_default())
        .collect();
    assert_eq!(bodies, ["", "", "c", "d", "E"]);
}

#[test]
fn a_plural_and_a_range_word_that_is_a_letter() {
    let marked = lawful_as("cz", "## §§ 1 a 4\n\n## § 5 a\n\n## § 6\n");
    assert_eq!(names(&marked), ["art-1..4", "art-5a", "art-6"]);
}

#[test]
fn divisions_that_are_counted_in_words_before_their_kind() {
    let marked = lawful_as(
        "fr",
        "# Loi\n\n## Première partie législative\n\n## Des lois\n\n## Deuxième partie : Des biens\n\n## Partie législative\n",
    );
    assert_eq!(names(&marked), [".", "part-1", "part-2", "part"]);
    let marked =
        lawful_as("en", "# Act\n\n## First Schedule\n\n## Second Schedule: Forms\n\n## Third Schedule\n");
    assert_eq!(names(&marked), [".", "annex-1", "annex-2", "annex-3"]);
}

#[test]
fn the_sequence_looks_no_further_than_the_annex() {
    let text = "# Act\n\nArticles 1–2\n\na\n\nArticle 3\n\nb\n\nArticle 5\n\nc\n\n## Annex 1\n\nArticle 1\n\nd\n\nArticle 4\n\ne\n";
    let marked = lawful_as("en", text);
    let want = [".", "art-1..2", "art-3", "art-5", "annex-1", "annex-1/art-1", "annex-1/art-4"];
    assert_eq!(names(&marked), want);
}

#[test]
fn a_raised_digit_is_an_insert_in_codes_too() {
    let marked =
        lawful_as("fr", "## Article 1\n\n## Article 1²\n\n## Article L111-8<sup>1</sup>\n\n## Article 12\n");
    assert_eq!(names(&marked), ["art-1", "art-1+2", "art-l111-8+1", "art-12"]);
}

#[test]
fn the_ordinal_suffix_that_ends_the_word() {
    let marked = lawful_as("fr", "## Article 1er\n\n## Annexe 1ere\n\n## Annexe 2ème\n\n## Titre Iere\n");
    assert_eq!(names(&marked), ["art-1", "annex-1", "annex-2", "annex-2/title-1"]);
}

/// Lines that designate are counted as headings are: all of a text that has as many as are followed, and none of one
/// that has more.
#[test]
fn lines_that_designate_are_followed_to_the_last() {
    let profile = Profile::built_in("vn").unwrap();
    let document_id = DocumentId::parse("X").unwrap();
    let with = |lines: usize| {
        let text: std::string::String = (1..=lines).map(|i| std::format!("Điều {i}. a\n\n")).collect();
        let limits = MarkLimits { stop: Stop::AtDensity, max_candidates: 10, ..MarkLimits::default() };
        let context = MarkContext { document_id: &document_id, profile: &profile, limits: &limits };
        let region = body_region(text.as_bytes(), &profile).unwrap();
        marker_for(&profile).mark(text.as_bytes(), region, &context).map(|marked| marked.candidates.len())
    };
    assert_eq!(with(16_384), Ok(16_384));
    assert!(matches!(with(16_385), Err(MarkError::TooDense { limit: 16_384, .. })));
}

#[test]
fn what_a_title_says_of_the_publication() {
    let says = |text: &str| {
        mark_with(text.as_bytes(), |profile, _| {
            profile.publication_titles = std::vec![crate::text::profile::PublicationRule {
                title: "charter".into(),
                publication_type: "charter".into(),
            }];
        })
        .unwrap()
        .publication_type
    };
    assert_eq!(says("# The CHARTER of it\n\nx\n").as_deref(), Some("charter"));
    assert_eq!(says("---\ntitle: A charter\n---\n# One\n\nx\n").as_deref(), Some("charter"));
    assert_eq!(says("# One\n\nthe charter\n"), None);
}
