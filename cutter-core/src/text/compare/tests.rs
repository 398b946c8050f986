//! Laws of a comparison, and each of its traps.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;
use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;

/// A unit with its own text: (address, designator, body).
type Unit = (String, String, String);

fn unit(address: &str, designator: &str, body: &str) -> Unit {
    (format!("D/{address}"), designator.to_string(), body.to_string())
}

fn article(n: u32, body: &str) -> Unit {
    unit(&format!("art-{n}"), &format!("Art. {n}"), body)
}

/// A sentence of twelve words that no other `n` shares more than its frame with.
fn body(n: u32) -> String {
    let words = (1..=12u32).map(|i| format!("w{}", (n.wrapping_mul(7919) + i * 31) % 1_000_003));
    words.collect::<Vec<_>>().join(" ")
}

struct Version {
    units: Vec<Unit>,
    texts: Vec<String>,
}

impl Version {
    fn of(units: Vec<Unit>) -> Self {
        let texts = units.iter().map(|(_, designator, body)| format!("{designator} {body}")).collect();
        Self { units, texts }
    }

    fn facts(&self) -> Vec<UnitFact<'_>> {
        // articles are numbered through, whatever they stand in
        let mut counts: BTreeMap<&str, u32> = BTreeMap::new();
        for (address, ..) in &self.units {
            let name = address.rsplit('/').next().filter(|s| s.starts_with("art-"));
            *counts.entry(name.unwrap_or_default()).or_default() += u32::from(name.is_some());
        }
        let mut start = 0;
        let mut facts = Vec::new();
        for ((address, designator, body), text) in self.units.iter().zip(&self.texts) {
            let bytes = text.len() as u64;
            let citation = address.rsplit('/').next().filter(|s| counts.get(s) == Some(&1));
            facts.push(UnitFact {
                address,
                citation_address: citation,
                unit_kind: if designator.starts_with("Art.") { "article" } else { "chapter" },
                start,
                end: start + bytes,
                content_hash: Digest::of(text.as_bytes()),
                body_hash: Digest::of(body.as_bytes()),
                text: Some(text.as_bytes()),
            });
            start += bytes;
        }
        facts
    }
}

/// Each entry as `class old>new`, without the document and without what is the same.
fn found(old: &[Unit], new: &[Unit]) -> Vec<String> {
    let (old, new) = (Version::of(old.to_vec()), Version::of(new.to_vec()));
    let (old, new) = (old.facts(), new.facts());
    let comparison = Comparison::between(&old, &new);
    let short = |unit: Option<&UnitFact<'_>>| unit.map_or("", |u| &u.address[2..]).to_string();
    let line = |e: &Entry| {
        format!("{} {}>{}", e.class.as_str(), short(comparison.old_of(e)), short(comparison.new_of(e)))
    };
    comparison.entries().iter().filter(|e| e.class != Class::Same).map(line).collect()
}

#[test]
fn an_insertion_that_numbers_anew_is_told_from_changes() {
    let old: Vec<Unit> = (1..=9).map(|n| article(n, &body(n))).collect();
    let mut new: Vec<Unit> = (1..=3).map(|n| article(n, &body(n))).collect();
    new.push(article(4, &body(100)));
    new.extend((4..=9).map(|n| article(n + 1, &body(n))));
    assert_eq!(
        found(&old, &new),
        [
            "new >art-4",
            "renumbered art-4>art-5",
            "renumbered art-5>art-6",
            "renumbered art-6>art-7",
            "renumbered art-7>art-8",
            "renumbered art-8>art-9",
            "renumbered art-9>art-10",
        ]
    );
}

#[test]
fn within_a_run_that_moved_an_amended_unit_and_a_rewritten_one_are_no_changes_at_their_old_numbers() {
    let old: Vec<Unit> = (1..=12).map(|n| article(n, &body(n))).collect();
    let mut new: Vec<Unit> = (1..=2).map(|n| article(n, &body(n))).collect();
    new.extend([article(3, &body(100)), article(4, &body(101))]);
    let amended = body(6).replacen(' ', " not ", 1);
    for n in 3..=12u32 {
        let text = match n {
            6 => amended.clone(),
            9 => body(109),
            n => body(n),
        };
        new.push(article(n + 2, &text));
    }
    let lines = found(&old, &new);
    assert!(lines.contains(&"maybe_renumbered art-6>art-8".into()), "{lines:#?}");
    assert!(lines.contains(&"gone art-9>".into()), "{lines:#?}");
    assert!(lines.contains(&"new >art-11".into()), "{lines:#?}");
    assert!(!lines.iter().any(|l| l.starts_with("changed")), "{lines:#?}");
}

#[test]
fn a_rewritten_unit_in_its_place_is_changed() {
    let old: Vec<Unit> = (1..=5).map(|n| article(n, &body(n))).collect();
    let mut new = old.clone();
    new[2] = article(3, &body(300));
    assert_eq!(found(&old, &new), ["changed art-3>art-3"]);
    // also beside one that moved away
    new.remove(1);
    new.push(article(6, &body(2)));
    assert_eq!(found(&old, &new), ["changed art-3>art-3", "renumbered art-2>art-6"]);
}

#[test]
fn another_designator_is_a_change_and_no_move() {
    let old = [article(1, &body(1))];
    let new = [unit("art-1", "Art. 1 bis", &body(1))];
    let (a, b) = (Version::of(old.to_vec()), Version::of(new.to_vec()));
    let (a, b) = (a.facts(), b.facts());
    let comparison = Comparison::between(&a, &b);
    let entry = comparison.entries()[0];
    assert_eq!((entry.class, entry.same_body, entry.similarity), (Class::Changed, true, None));
}

#[test]
fn empty_bodies_placeholders_and_boilerplate_are_not_known_again() {
    let old = [
        article(1, ""),
        article(2, "(repealed)"),
        article(3, &body(3)),
        article(4, &body(9)),
        article(5, &body(9)),
    ];
    let new = [article(3, &body(3)), article(11, ""), article(12, "(repealed)"), article(14, &body(9))];
    let expected = [
        "gone art-1>",
        "gone art-2>",
        "gone art-4>",
        "gone art-5>",
        "new >art-11",
        "new >art-12",
        "new >art-14",
    ];
    let mut lines = found(&old, &new);
    lines.sort();
    // of two with the same body one is left: nobody knows which
    assert_eq!(lines, expected);
}

#[test]
fn a_run_that_moved_takes_its_placeholders_along() {
    let run = |from: u32| {
        [
            article(from, &body(1)),
            article(from + 1, "(repealed)"),
            article(from + 2, "(repealed)"),
            article(from + 3, &body(2)),
        ]
    };
    let lines = found(&run(1), &run(11));
    assert_eq!(
        lines,
        [
            "renumbered art-1>art-11",
            "renumbered art-2>art-12",
            "renumbered art-3>art-13",
            "renumbered art-4>art-14"
        ]
    );
}

#[test]
fn a_division_that_is_numbered_anew_takes_its_units_along() {
    let chapter = |n: u32, title: &str, from: u32| {
        let mut units = vec![unit(&format!("ch-{n}"), &format!("Chapter {n}"), title)];
        units.extend(
            (from..from + 4).map(|a| unit(&format!("ch-{n}/art-{a}"), &format!("Art. {a}"), &body(a))),
        );
        units
    };
    let old = [chapter(1, "King", 1), chapter(2, "Court", 5)].concat();
    let mut new = [chapter(1, "King", 1), chapter(2, "Bank", 50), chapter(3, "Court", 5)].concat();
    // one unit of the chapter was amended too
    new[11].2.push_str(" and so on");
    let lines = found(&old, &new);
    assert_eq!(
        lines,
        [
            "new >ch-2",
            "new >ch-2/art-50",
            "new >ch-2/art-51",
            "new >ch-2/art-52",
            "new >ch-2/art-53",
            "renumbered ch-2>ch-3",
            "moved ch-2/art-5>ch-3/art-5",
            "moved ch-2/art-6>ch-3/art-6",
            "moved ch-2/art-7>ch-3/art-7",
            "moved ch-2/art-8>ch-3/art-8",
        ]
    );
    let (a, b) = (Version::of(old), Version::of(new));
    let (a, b) = (a.facts(), b.facts());
    let comparison = Comparison::between(&a, &b);
    assert_eq!(comparison.summary().moved_with_parent, 4);
    let lines: Vec<String> = Outline::of(&comparison, false).lines.iter().map(OutlineLine::text).collect();
    assert!(
        lines
            .iter()
            .any(|l| l.starts_with("# D/ch-3  renumbered · was D/ch-2")
                && l.ends_with("· 3 below went with it")),
        "{lines:#?}"
    );
    assert!(lines.iter().any(|l| l.starts_with("> └─ art-6") || l.starts_with("> └─ art-")), "{lines:#?}");
    assert_eq!(lines.len(), 7, "{lines:#?}");
}

#[test]
fn a_unit_in_another_division_under_its_number_moved_even_if_amended() {
    let old = [
        unit("ch-1", "Chapter 1", "A"),
        unit("ch-1/art-1", "Art. 1", &body(1)),
        unit("ch-2", "Chapter 2", "B"),
    ];
    let new = [
        unit("ch-1", "Chapter 1", "A"),
        unit("ch-2", "Chapter 2", "B"),
        unit("ch-2/art-1", "Art. 1", &format!("{} more", body(1))),
    ];
    assert_eq!(found(&old, &new), ["moved ch-1/art-1>ch-2/art-1"]);
}

#[test]
fn another_order_is_not_the_same() {
    let old = Version::of(vec![article(1, &body(1)), article(2, &body(2))]);
    let new = Version::of(vec![article(2, &body(2)), article(1, &body(1))]);
    let (old, new) = (old.facts(), new.facts());
    let comparison = Comparison::between(&old, &new);
    assert_eq!(comparison.summary().same, 2);
    assert!(!comparison.in_order() && !comparison.is_same());
}

#[test]
fn without_texts_bodies_are_matched_by_their_hashes_alone() {
    let old: Vec<Unit> = (1..=4).map(|n| article(n, &body(n))).collect();
    let new: Vec<Unit> =
        [(1, 1), (2, 20), (3, 2), (4, 3), (5, 4)].map(|(n, b)| article(n, &body(b))).to_vec();
    let (old, new) = (Version::of(old), Version::of(new));
    let (mut old, mut new) = (old.facts(), new.facts());
    old.iter_mut().chain(&mut new).for_each(|unit| unit.text = None);
    let summary = *Comparison::between(&old, &new).summary();
    assert_eq!((summary.same, summary.renumbered, summary.new), (1, 3, 1), "{summary:?}");
}

#[test]
fn nothing_at_all_is_the_same_as_nothing() {
    let comparison = Comparison::between(&[], &[]);
    assert!(comparison.is_same() && comparison.entries().is_empty());
    assert_eq!(comparison.summary().words(), "no units");
    assert!(Outline::of(&comparison, true).lines.is_empty());
}

#[test]
fn twenty_thousand_units_that_all_moved_take_little_time() {
    let old = Version::of((1..=20_000).map(|n| article(n, &body(n))).collect());
    let amended = |n: u32| if n.is_multiple_of(3) { format!("{} again", body(n)) } else { body(n) };
    let new = Version::of((1..=20_000).map(|n| article(n + 7, &amended(n))).collect());
    let (old, new) = (old.facts(), new.facts());
    let comparison = Comparison::between(&old, &new);
    let summary = comparison.summary();
    assert_eq!((summary.renumbered, summary.maybe_renumbered), (13_334, 6_666), "{summary:?}");
}

prop_compose! {
    /// Versions of up to two levels with few distinct bodies and numbers, so that everything that
    /// can coincide does.
    fn any_version()(
        units in prop::collection::vec((0u32..4, 0u32..12, 0u32..14), 0..24),
    ) -> Vec<Unit> {
        let mut seen = BTreeSet::new();
        let mut out = Vec::new();
        for (chapter, n, text) in units {
            let text = match text { 0 => String::new(), 1 => "(repealed)".into(), 2..=4 => format!("{} {text}", body(1)), n => body(n) };
            let address = if n == 0 { format!("ch-{chapter}") } else { format!("ch-{chapter}/art-{n}") };
            if seen.insert(address.clone()) {
                let name = if n == 0 { format!("Chapter {chapter}") } else { format!("Art. {n}") };
                out.push(unit(&address, &name, &text));
            }
        }
        out
    }
}

/// What each unit became, by address: (old, new, class).
fn pairs(comparison: &Comparison<'_>) -> BTreeSet<(String, String, &'static str)> {
    let address = |unit: Option<&UnitFact<'_>>| unit.map_or("", |u| u.address).to_string();
    let pair = |e: &Entry| (address(comparison.old_of(e)), address(comparison.new_of(e)), e.class.as_str());
    comparison.entries().iter().map(pair).collect()
}

proptest! {
    #[test]
    fn a_version_is_the_same_as_itself(units in any_version()) {
        let version = Version::of(units);
        let facts = version.facts();
        let comparison = Comparison::between(&facts, &facts);
        prop_assert!(comparison.is_same());
        prop_assert_eq!(comparison.summary().same, facts.len());
        prop_assert!(Outline::of(&comparison, false).lines.is_empty());
        prop_assert_eq!(Outline::of(&comparison, true).lines.len(), facts.len());
    }

    #[test]
    fn every_unit_of_both_sides_is_in_exactly_one_entry(old in any_version(), new in any_version()) {
        let (old, new) = (Version::of(old), Version::of(new));
        let (old, new) = (old.facts(), new.facts());
        let comparison = Comparison::between(&old, &new);
        let entries = comparison.entries();
        let mut olds: Vec<usize> = entries.iter().filter_map(|e| e.old).collect();
        olds.sort_unstable();
        prop_assert_eq!(olds, (0..old.len()).collect::<Vec<_>>());
        let news: Vec<usize> = entries.iter().filter_map(|e| e.new).collect();
        prop_assert_eq!(news, (0..new.len()).collect::<Vec<_>>(), "in the new order");
        let total: usize = Class::ALL.iter().map(|c| comparison.summary().of(*c)).sum();
        prop_assert_eq!(total, entries.len());
        for e in entries {
            let (o, n) = (comparison.old_of(e), comparison.new_of(e));
            match (e.class, o, n) {
                (Class::New, None, Some(_)) | (Class::Gone, Some(_), None) => {}
                (Class::Same, Some(o), Some(n)) => prop_assert!(o.address == n.address && o.content_hash == n.content_hash),
                (Class::Changed, Some(o), Some(n)) => prop_assert!(o.address == n.address && o.content_hash != n.content_hash),
                (Class::Moved, Some(o), Some(n)) => {
                    prop_assert!(o.address != n.address && o.last_segment() == n.last_segment());
                }
                (Class::Renumbered, Some(o), Some(n)) => {
                    prop_assert!(o.body_hash == n.body_hash && o.last_segment() != n.last_segment());
                }
                (Class::MaybeRenumbered, Some(o), Some(n)) => {
                    prop_assert!(o.body_hash != n.body_hash && o.address != n.address);
                    prop_assert!(e.similarity.is_some_and(|s| s >= 400));
                }
                other => prop_assert!(false, "{:?}", other),
            }
        }
        // each line stands once, and what differs stands
        let outline = Outline::of(&comparison, true);
        prop_assert_eq!(outline.lines.len(), entries.len());
    }

    #[test]
    fn the_other_way_round_finds_the_same_pairs(old in any_version(), new in any_version()) {
        let (old, new) = (Version::of(old), Version::of(new));
        let (old, new) = (old.facts(), new.facts());
        let there = pairs(&Comparison::between(&old, &new));
        let turned = |class| match class { "new" => "gone", "gone" => "new", other => other };
        let back: BTreeSet<_> =
            pairs(&Comparison::between(&new, &old)).into_iter().map(|(o, n, c)| (n, o, turned(c))).collect();
        prop_assert_eq!(there, back);
    }

    #[test]
    fn any_renumbering_of_distinct_bodies_is_found(numbers in Just((1..30u32).collect::<Vec<_>>()).prop_shuffle()) {
        let old = Version::of((1..30).map(|n| article(n, &body(n))).collect());
        let new = Version::of((1..30u32).zip(&numbers).map(|(n, b)| article(n, &body(*b))).collect());
        let (old, new) = (old.facts(), new.facts());
        let comparison = Comparison::between(&old, &new);
        for e in comparison.entries() {
            let (Some(i), Some(j)) = (e.old, e.new) else { return Err(TestCaseError::fail("not found")) };
            prop_assert_eq!(i + 1, usize::try_from(numbers[j]).unwrap());
            prop_assert_eq!(e.class, if i == j { Class::Same } else { Class::Renumbered });
        }
    }
}

/// The tree that people read: what differs, below the units that hold it, and all of it.
#[test]
fn an_outline_looks_like_this() {
    let chapter = |n: u32, title: &str, articles: &[(u32, u32)]| {
        let mut units = vec![unit(&format!("ch-{n}"), &format!("Chapter {n}"), title)];
        let article =
            |(a, text): &(u32, u32)| unit(&format!("ch-{n}/art-{a}"), &format!("Art. {a}"), &body(*text));
        units.extend(articles.iter().map(article));
        units
    };
    let old = [
        chapter(1, "King", &[(1, 1), (2, 2), (3, 3)]),
        chapter(2, "Court", &[(4, 4), (5, 5)]),
        chapter(3, "Bank", &[(6, 6), (7, 7)]),
        chapter(4, "End", &[(8, 8)]),
    ]
    .concat();
    let mut new = [
        chapter(1, "King", &[(1, 1), (2, 20), (3, 3), (4, 40)]),
        chapter(2, "Court", &[(5, 4), (6, 5)]),
        chapter(4, "Bank", &[(7, 6), (8, 7)]),
    ]
    .concat();
    new[3].2.push_str(" and some words more");
    let (a, b) = (Version::of(old), Version::of(new));
    let (a, b) = (a.facts(), b.facts());
    let comparison = Comparison::between(&a, &b);
    let told = |all: bool| {
        let lines = Outline::of(&comparison, all).lines;
        lines.iter().map(|line| format!("{} {}\n", line.depth, line.text())).collect::<String>()
    };
    insta::assert_snapshot!("outline", format!("{}\nall\n{}", told(false), told(true)));
}
