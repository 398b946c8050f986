//! Real pairs of versions, compared: what a reader of both would say of them.
//!
//! `CUTTER_CORPUS` names the folder; without it the test says so and checks nothing.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use cutter_core::base::vocabulary::Vocabulary;
use cutter_core::text::address::DocumentId;
use cutter_core::text::compare::{Class, Comparison, Outline, OutlineLine, UnitFact};
use cutter_core::text::detect::Profiles;
use cutter_core::text::mark::MarkLimits;
use cutter_core::text::plan::{CutPlan, PlanInput};

/// A file of the corpus; `None`, and a word about it, without a corpus.
fn text(name: &str) -> Option<String> {
    let Some(folder) = std::env::var_os("CUTTER_CORPUS").map(PathBuf::from) else {
        eprintln!("CUTTER_CORPUS is not set: the versions of {name} were NOT compared");
        return None;
    };
    let path = folder.join("versions").join(name);
    Some(std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display())))
}

/// The plan with the profile that is detected.
fn plan(text: &str) -> CutPlan {
    let profiles = Profiles::built_in().unwrap();
    let profile = profiles.detect(text.as_bytes()).profile;
    CutPlan::build(&PlanInput {
        document_id: &DocumentId::parse("D").unwrap(),
        text: text.as_bytes(),
        profile: profiles.get(&profile).unwrap(),
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

/// The addresses of the articles.
fn articles(plan: &CutPlan) -> BTreeSet<&str> {
    let articles = plan.rows.iter().filter(|row| row.unit_kind == "article");
    articles.map(|row| row.canonical_address.as_str()).collect()
}

/// The articles that only one of two versions has: of the old one, of the new one.
fn only(old: &CutPlan, new: &CutPlan) -> (Vec<String>, Vec<String>) {
    let (old, new) = (articles(old), articles(new));
    let names = |set: Vec<&&str>| set.into_iter().map(ToString::to_string).collect();
    (names(old.difference(&new).collect()), names(new.difference(&old).collect()))
}

#[test]
fn every_article_keeps_its_address_and_only_inserted_ones_are_new() {
    let pairs: [(&str, &str, &[&str], &[&str]); 4] = [
        (
            "gg@2012-07-02.md",
            "gg@2022-03-26.md",
            &[],
            &[
                "D/div-10/art-104c",
                "D/div-10/art-104d",
                "D/div-11/art-143e",
                "D/div-11/art-143f",
                "D/div-11/art-143g",
            ],
        ),
        ("fr-constitution@2008-02-06.md", "fr-constitution@2008-07-25.md", &[], FR_2008),
        ("fr-constitution@2008-07-25.md", "fr-constitution@2024-03-10.md", &[], FR_2024),
        (
            "cz-ustava@1993-01-01.md",
            "cz-ustava@2026-01-01.md",
            &["D/title-7/art-103"],
            &["D/title-1/art-10a", "D/title-1/art-10b"],
        ),
    ];
    for (before, after, gone, come) in pairs {
        let (Some(old_text), Some(new_text)) = (text(before), text(after)) else { return };
        assert_eq!(
            only(&plan(&old_text), &plan(&new_text)),
            (owned(gone), owned(come)),
            "{before} and {after}"
        );
    }
}

const FR_2008: &[&str] = &[
    "D/title-11-bis/art-71-1",
    "D/title-12/art-75-1",
    "D/title-14/art-87",
    "D/title-5/art-34-1",
    "D/title-5/art-47-2",
    "D/title-7/art-61-1",
];
const FR_2024: &[&str] = &[
    "D/title-15/art-88-6",
    "D/title-15/art-88-6~2",
    "D/title-15/art-88-7",
    "D/title-5/art-50-1",
    "D/title-5/art-51-1",
    "D/title-5/art-51-2",
];

fn owned(texts: &[&str]) -> Vec<String> {
    texts.iter().map(ToString::to_string).collect()
}

#[test]
fn the_articles_of_the_chinese_civil_procedure_law_that_were_numbered_anew_are_followed() {
    let (Some(old_text), Some(new_text)) =
        (text("民事诉讼法@2021-12-24.md"), text("民事诉讼法@2023-09-01.md"))
    else {
        return;
    };
    let (old_plan, new_plan) = (plan(&old_text), plan(&new_text));
    assert_eq!((articles(&old_plan).len(), articles(&new_plan).len()), (291, 306));
    let old = UnitFact::of_plan(&old_plan, old_text.as_bytes());
    let new = UnitFact::of_plan(&new_plan, new_text.as_bytes());
    let comparison = Comparison::between(&old, &new);
    show("民事诉讼法", &comparison);
    let number = |address: &str| address.rsplit_once("/art-").and_then(|(_, n)| n.parse::<u32>().ok());
    let mut went: BTreeMap<u32, (u32, Class)> = BTreeMap::new();
    for entry in comparison.entries() {
        let sides = (comparison.old_of(entry), comparison.new_of(entry));
        if let (Some(before), Some(after)) =
            (sides.0.and_then(|u| number(u.address)), sides.1.and_then(|u| number(u.address)))
        {
            went.insert(before, (after, entry.class));
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
