//! The XML samples of the corpus against the truth that was found by reading: every
//! article and section starts at the `<` of its element, under the number that is printed.
//!
//! `CUTTER_CORPUS` names the folder; without it the test says so and checks nothing.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

use std::path::Path;

use cutter_core::base::digest::Digest;
use cutter_core::base::vocabulary::Vocabulary;
use cutter_core::text::address::DocumentId;
use cutter_core::text::detect::Profiles;
use cutter_core::text::mark::MarkLimits;
use cutter_core::text::plan::{CutPlan, PlanInput};
use cutter_core::text::profile::Profile;

fn plan(text: &[u8], profile: &Profile) -> CutPlan {
    CutPlan::build(&PlanInput {
        document_id: &DocumentId::parse("SAMPLE").unwrap(),
        text,
        profile,
        vocabulary: &Vocabulary::default(),
        publication_type: None,
        depends_on: &[],
        limits: &MarkLimits::default(),
        marker: None,
    })
    .unwrap()
}

/// `Article 5`, `§ 301`, `SEC. 2` as an address has it.
fn label(printed: &str) -> String {
    printed.split(' ').next_back().unwrap().to_lowercase()
}

/// No row may be missing and none may be more: recall and precision are 1, without a miss
/// to explain.
#[test]
fn the_samples_are_cut_as_people_read_them() {
    let Some(corpus) = std::env::var_os("CUTTER_CORPUS") else {
        eprintln!("SKIPPED: set CUTTER_CORPUS to a folder of documents to run this test");
        return;
    };
    let truth = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/truth/xml-samples");
    let mut files: Vec<_> = std::fs::read_dir(&truth).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert_eq!(files.len(), 4);
    for file in files {
        let table = std::fs::read_to_string(&file).unwrap();
        let head = |key: &str| table.lines().find_map(|line| line.strip_prefix(key)).unwrap().to_owned();
        let name = head("# file: ");
        let text = std::fs::read(Path::new(&corpus).join(&name)).unwrap();
        assert_eq!(Digest::of(&text).to_hex(), head("# sha256: "), "{name}");
        let rows = table.lines().filter(|line| !line.starts_with('#')).skip(1).map(|line| {
            let mut fields = line.split('\t');
            let mut next = || fields.next().unwrap();
            let (kind, number, offset) = (next(), next(), next());
            (kind.to_owned(), label(number), offset.parse::<usize>().unwrap())
        });
        let want: Vec<_> = rows.collect();
        let kind = want[0].0.clone();

        let profiles = Profiles::built_in().unwrap();
        let profile = profiles.get(&profiles.detect(&text).profile).unwrap();
        let plan = plan(&text, profile);
        let found: Vec<_> = plan
            .rows
            .iter()
            .map(|row| (row.canonical_address.last().unwrap(), row))
            // Sections of a regulation of the Union are divisions of its chapters.
            .filter(|(segment, _)| segment.kind == kind)
            .map(|(segment, row)| (kind.clone(), segment.label.unwrap().to_owned(), row.start))
            .collect();
        assert_eq!(found, want, "{name}");
        assert_eq!(plan.duplicates, [], "{name}");
        assert!(plan.unknown_words.is_empty(), "{name}");
        for row in plan.rows.iter().filter(|row| row.canonical_address.last().unwrap().kind == kind) {
            assert!(
                row.citation_address.is_some(),
                "{name}: {} is cited by its number",
                row.canonical_address
            );
            assert!(!row.aliases.is_empty(), "{name}: {} has an identifier", row.canonical_address);
        }
        if std::env::var_os("CUTTER_CORPUS_SHOW").is_some() {
            println!("{name}: {} rows of truth, {:?}, {:?}", want.len(), plan.why, plan.warnings);
            for row in &plan.rows {
                println!(
                    "{}\t{}..{}\t{:?}\t{}",
                    row.canonical_address, row.start, row.end, row.aliases, row.section_type
                );
            }
        }
    }
}
