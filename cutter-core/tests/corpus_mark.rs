//! Every file of a corpus of real documents, marked with the plain Markdown profile: it
//! ends, it tiles, its addresses are unique and grammatical, its duplicates are all told.
//!
//! `CUTTER_CORPUS` names the folder; without it the test says so and checks nothing.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use cutter_core::base::digest::Digest;
use cutter_core::base::vocabulary::Vocabulary;
use cutter_core::text::address::{Address, DocumentId};
use cutter_core::text::mark::{MarkError, MarkLimits};
use cutter_core::text::plan::{CutPlan, PlanError, PlanInput, UnitTree};
use cutter_core::text::profile::Profile;

fn files(folder: &Path, out: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files(&path, out);
        } else {
            out.push(path);
        }
    }
}

fn plan(text: &[u8]) -> Result<CutPlan, PlanError> {
    CutPlan::build(&PlanInput {
        document_id: &DocumentId::parse("CORPUS-1").unwrap(),
        text,
        profile: &Profile::built_in("markdown").unwrap(),
        vocabulary: &Vocabulary::default(),
        publication_type: None,
        depends_on: &[],
        limits: &MarkLimits::default(),
        marker: None,
    })
}

/// The address with the `~n` of its last segment removed.
fn without_occurrence(address: &Address) -> &str {
    let text = address.as_str();
    match (text.rfind('~'), text.rfind('/')) {
        (Some(tilde), slash) if slash.is_none_or(|slash| slash < tilde) => &text[..tilde],
        _ => text,
    }
}

fn check(path: &Path, text: &[u8], plan: &CutPlan) {
    let name = path.display();
    let mut at = plan.region.start;
    let mut seen = BTreeSet::new();
    let mut by_place: BTreeMap<&str, u32> = BTreeMap::new();
    let mut repeated = Vec::new();
    for (i, row) in plan.rows.iter().enumerate() {
        assert_eq!(usize::try_from(row.ordinal).unwrap(), i, "{name}");
        assert_eq!(row.start, at, "{name}: gap or overlap before {}", row.canonical_address);
        assert!(row.end > row.start, "{name}: empty unit {}", row.canonical_address);
        at = row.end;
        assert_eq!(row.content_hash, Digest::of(&text[row.start..row.end]), "{name}");
        assert!(std::str::from_utf8(&text[row.start..row.end]).is_ok(), "{name}: a character is cut");
        assert!(seen.insert(&row.canonical_address), "{name}: {} twice", row.canonical_address);
        assert!(Address::parse(row.canonical_address.as_str()).is_ok(), "{name}: {}", row.canonical_address);
        let count = by_place.entry(without_occurrence(&row.canonical_address)).or_insert(0);
        *count += 1;
        if *count > 1 {
            repeated.push(&row.canonical_address);
        }
        // Every division above a unit is a unit itself, or the document.
        let mut above = row.canonical_address.parent();
        while let Some(parent) = above.filter(|parent| parent.depth() > 0) {
            assert!(seen.contains(&parent), "{name}: {} has no parent unit", row.canonical_address);
            above = parent.parent();
        }
    }
    assert_eq!(at, plan.region.end, "{name}");
    let told: Vec<&Address> = plan.duplicates.iter().map(|duplicate| &duplicate.address).collect();
    assert_eq!(told, repeated, "{name}: duplicates");
    let mut cited = BTreeMap::new();
    for row in &plan.rows {
        if let Some(citation) = &row.citation_address {
            assert!(cited.insert(citation, row.ordinal).is_none(), "{name}: {citation} cites two units");
            let other = plan.rows.iter().find(|r| r.canonical_address == *citation);
            assert!(
                other.is_none_or(|other| other.ordinal == row.ordinal),
                "{name}: {citation} is another unit"
            );
        }
    }
    assert_eq!(UnitTree::new(&plan.rows).render().lines().count(), plan.rows.len(), "{name}");
    assert!(plan.unknown_words.is_empty(), "{name}: {:?}", plan.unknown_words);
}

#[test]
fn every_corpus_file_is_cut_without_loss_or_refused_for_its_bytes() {
    let Some(corpus) = std::env::var_os("CUTTER_CORPUS") else {
        eprintln!("SKIPPED: set CUTTER_CORPUS to a folder of documents to run this test");
        return;
    };
    let mut all = Vec::new();
    files(Path::new(&corpus), &mut all);
    all.sort();
    assert!(!all.is_empty(), "CUTTER_CORPUS holds no file");
    let (mut cut, mut refused) = (0, 0);
    for path in all {
        let text = std::fs::read(&path).unwrap();
        match (plan(&text), std::str::from_utf8(&text)) {
            (Ok(found), Ok(_)) => {
                check(&path, &text, &found);
                assert_eq!(found, plan(&text).unwrap(), "{}: two plans differ", path.display());
                if std::env::var_os("CUTTER_CORPUS_SHOW").is_some() {
                    let warnings = found.warnings.len();
                    println!(
                        "{}\t{}\t{}\t{warnings}",
                        path.display(),
                        found.rows.len(),
                        found.duplicates.len()
                    );
                }
                cut += 1;
            }
            (Err(PlanError::Mark(MarkError::NotUtf8 { offset, byte, .. })), Err(error)) => {
                assert_eq!(offset, error.valid_up_to());
                assert_eq!(byte, text[offset]);
                refused += 1;
            }
            (plan, utf8) => panic!("{}: {plan:?} for text that is {utf8:?}", path.display()),
        }
    }
    println!("{cut} files cut, {refused} refused");
    assert!(cut > 0);
}

/// The printed number wins, so an insertion moves nobody: every address of the older
/// version of a law stands in the newer one.
#[test]
fn an_insertion_moves_nobody() {
    let Some(corpus) = std::env::var_os("CUTTER_CORPUS") else {
        eprintln!("SKIPPED: set CUTTER_CORPUS to a folder of documents to run this test");
        return;
    };
    let folder = Path::new(&corpus).join("versions");
    let (old, new) = (folder.join("gg@2012-07-02.md"), folder.join("gg@2022-03-26.md"));
    if !old.exists() || !new.exists() {
        eprintln!("SKIPPED: the corpus holds no two versions of gg");
        return;
    }
    let addresses = |path: &Path| -> BTreeSet<String> {
        let plan = plan(&std::fs::read(path).unwrap()).unwrap();
        plan.rows.iter().map(|row| row.canonical_address.to_string()).collect()
    };
    let (old, new) = (addresses(&old), addresses(&new));
    assert_eq!(old.difference(&new).collect::<Vec<_>>(), Vec::<&String>::new());
    assert_eq!((old.len(), new.len()), (214, 219));
}
