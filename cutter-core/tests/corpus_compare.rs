//! Real pairs of versions, compared: what a reader of both would say of them.
//!
//! `CUTTER_CORPUS` names the folder; without it the test says so and checks nothing.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

use std::collections::BTreeMap;
use std::path::PathBuf;

use cutter_core::address::DocumentId;
use cutter_core::compare::{Class, Comparison, Outline, OutlineLine, UnitFact};
use cutter_core::digest::Digest;
use cutter_core::mark::MarkLimits;
use cutter_core::plan::{CutPlan, PlanInput};
use cutter_core::profile::Profile;
use cutter_core::vocabulary::Vocabulary;

/// A file of the corpus; `None`, and a word about it, without a corpus.
fn text(name: &str) -> Option<String> {
    let Some(folder) = std::env::var_os("CUTTER_CORPUS").map(PathBuf::from) else {
        eprintln!("CUTTER_CORPUS is not set: the versions of {name} were NOT compared");
        return None;
    };
    let path = folder.join("versions").join(name);
    Some(std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display())))
}

fn plan(text: &str) -> CutPlan {
    CutPlan::build(&PlanInput {
        document_id: &DocumentId::parse("D").unwrap(),
        text: text.as_bytes(),
        profile: &Profile::built_in("markdown").unwrap(),
        vocabulary: &Vocabulary::default(),
        publication_type: None,
        depends_on: &[],
        limits: &MarkLimits::default(),
        marker: None,
    })
    .unwrap()
}

fn show(name: &str, comparison: &Comparison<'_>) {
    eprintln!("{name}: {}", comparison.summary().words());
    for line in &Outline::of(comparison, false).lines {
        eprintln!("{}", OutlineLine::text(line));
    }
}

#[test]
fn from_the_grundgesetz_of_2012_to_that_of_2022_no_address_is_lost_and_five_come() {
    let (Some(old_text), Some(new_text)) = (text("gg@2012-07-02.md"), text("gg@2022-03-26.md")) else {
        return;
    };
    let (old_plan, new_plan) = (plan(&old_text), plan(&new_text));
    let old = UnitFact::of_plan(&old_plan, old_text.as_bytes());
    let new = UnitFact::of_plan(&new_plan, new_text.as_bytes());
    let comparison = Comparison::between(&old, &new);
    show("Grundgesetz", &comparison);
    let summary = comparison.summary();
    assert_eq!((summary.gone, summary.moved, summary.renumbered, summary.maybe_renumbered), (0, 0, 0, 0));
    assert_eq!(summary.new, 5);
    assert!(summary.same > 150 && summary.changed > 10, "{summary:?}");
}

#[test]
fn articles_of_the_french_and_the_czech_constitution_keep_their_numbers() {
    for (before, after) in [
        ("fr-constitution@2008-02-06.md", "fr-constitution@2008-07-25.md"),
        ("fr-constitution@2008-07-25.md", "fr-constitution@2024-03-10.md"),
        ("cz-ustava@1993-01-01.md", "cz-ustava@2026-01-01.md"),
    ] {
        let (Some(old_text), Some(new_text)) = (text(before), text(after)) else { return };
        let (old_plan, new_plan) = (plan(&old_text), plan(&new_text));
        let old = UnitFact::of_plan(&old_plan, old_text.as_bytes());
        let new = UnitFact::of_plan(&new_plan, new_text.as_bytes());
        let comparison = Comparison::between(&old, &new);
        show(after, &comparison);
        assert!(!comparison.is_same());
        let summary = comparison.summary();
        assert!(summary.same + summary.changed > summary.old_units * 9 / 10, "{after}: {summary:?}");
        for entry in comparison.entries() {
            if entry.class == Class::Renumbered {
                let (old, new) = (comparison.old_of(entry).unwrap(), comparison.new_of(entry).unwrap());
                assert_eq!(old.body_hash, new.body_hash);
            }
        }
    }
}

/// A Chinese numeral below one thousand.
fn number(text: &str) -> Option<u32> {
    let (mut total, mut digit) = (0, 0);
    for c in text.chars() {
        match c {
            '百' => total += std::mem::take(&mut digit) * 100,
            '十' => total += std::mem::take(&mut digit).max(1) * 10,
            '零' => {}
            _ => digit = "一二三四五六七八九".chars().position(|d| d == c)? as u32 + 1,
        }
    }
    Some(total + digit)
}

struct Article {
    number: u32,
    start: usize,
    end: usize,
    body: usize,
}

/// The articles of a Chinese law: each begins a line with 第…条.
fn articles(text: &str) -> Vec<Article> {
    let mut found: Vec<Article> = Vec::new();
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        let designated = line.strip_prefix('第').and_then(|rest| rest.split_once('条'));
        if let Some((numeral, rest)) = designated
            && let Some(number) = number(numeral)
        {
            found.push(Article { number, start: at, end: at, body: at + line.len() - rest.len() });
        }
        at += line.len();
        if !line.starts_with('#')
            && let Some(last) = found.last_mut()
        {
            last.end = at;
        }
    }
    found
}

fn facts<'a>(text: &'a str, articles: &[Article], addresses: &'a BTreeMap<u32, String>) -> Vec<UnitFact<'a>> {
    let fact = |a: &Article| UnitFact {
        address: &addresses[&a.number],
        citation_address: Some(&addresses[&a.number]),
        unit_kind: "article",
        start: a.start as u64,
        end: a.end as u64,
        content_hash: Digest::of(&text.as_bytes()[a.start..a.end]),
        body_hash: Digest::of(&text.as_bytes()[a.body..a.end]),
        text: Some(&text.as_bytes()[a.start..a.end]),
    };
    articles.iter().map(fact).collect()
}

#[test]
fn the_articles_of_the_chinese_civil_procedure_law_that_were_numbered_anew_are_followed() {
    let (Some(old_text), Some(new_text)) =
        (text("民事诉讼法@2021-12-24.md"), text("民事诉讼法@2023-09-01.md"))
    else {
        return;
    };
    let (old_articles, new_articles) = (articles(&old_text), articles(&new_text));
    assert_eq!((old_articles.len(), new_articles.len()), (291, 306));
    let addresses: BTreeMap<u32, String> = (1..400).map(|n| (n, format!("CN/art-{n}"))).collect();
    let old = facts(&old_text, &old_articles, &addresses);
    let new = facts(&new_text, &new_articles, &addresses);
    let comparison = Comparison::between(&old, &new);
    show("民事诉讼法", &comparison);
    let mut went: BTreeMap<u32, (u32, Class)> = BTreeMap::new();
    for entry in comparison.entries() {
        if let (Some(i), Some(j)) = (entry.old, entry.new) {
            went.insert(old_articles[i].number, (new_articles[j].number, entry.class));
        }
    }
    // four articles were inserted after 193; what follows was counted anew, much of it amended too
    for before in 194..=272 {
        assert_eq!(went.get(&before).map(|(after, _)| *after), Some(before + 4), "{before}");
    }
    for before in 275..=289 {
        assert_eq!(went.get(&before).map(|(after, _)| *after), Some(before + 10), "{before}");
    }
    assert_eq!(went[&201], (205, Class::Renumbered));
    assert_eq!(went[&197], (201, Class::MaybeRenumbered), "its text was amended");
    assert!(comparison.summary().renumbered >= 70, "{:?}", comparison.summary());
    // nothing that only has another number passes for an amendment
    let stays = |class: Class| matches!(class, Class::Same | Class::Changed);
    assert!(went.iter().all(|(before, (_, class))| stays(*class) == (*before < 194)), "{went:?}");
}
