//! Clauses and points of real documents against a table that was made by reading them: every
//! unit below the chosen articles, its name and the line on which it begins.
//!
//! `CUTTER_CORPUS` names the folder of documents; without it the test says so and checks
//! nothing. The table is `tests/lists/points.tsv` beside the crates.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use cutter_core::base::vocabulary::Vocabulary;
use cutter_core::text::address::DocumentId;
use cutter_core::text::mark::MarkLimits;
use cutter_core::text::plan::{CutPlan, PlanInput};
use cutter_core::text::profile::Profile;

/// Name below the article, and line.
type Units = Vec<(String, usize)>;

struct Document {
    file: String,
    profile: String,
    articles: BTreeMap<String, Units>,
}

fn table() -> Vec<Document> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/lists/points.tsv");
    let mut documents: Vec<Document> = Vec::new();
    for line in std::fs::read_to_string(path).unwrap().lines() {
        let fields: Vec<&str> = line.split('\t').collect();
        if let Some(file) = fields[0].strip_prefix("# file: ") {
            let profile = fields[1].strip_prefix("profile: ").unwrap().into();
            documents.push(Document { file: file.into(), profile, articles: BTreeMap::new() });
        } else if !line.starts_with('#') {
            let units = documents.last_mut().unwrap().articles.entry(fields[0].into()).or_default();
            if fields[1] != "-" {
                units.push((fields[1].into(), fields[2].parse().unwrap()));
            }
        }
    }
    documents
}

fn corpus() -> Option<PathBuf> {
    let folder = std::env::var_os("CUTTER_CORPUS").map(PathBuf::from);
    if folder.is_none() {
        eprintln!("truth_lists: SKIPPED, CUTTER_CORPUS is not set");
    }
    folder
}

fn cut(profile: &Profile, text: &[u8]) -> CutPlan {
    let input = PlanInput {
        document_id: &DocumentId::parse("X").unwrap(),
        text,
        profile,
        vocabulary: &Vocabulary::default(),
        publication_type: None,
        depends_on: &[],
        limits: &MarkLimits::default(),
        marker: None,
    };
    CutPlan::build(&input).unwrap()
}

/// The units below the articles, by the article's own number; a title of Roman numbers may hold
/// others of that number.
fn below(plan: &CutPlan, text: &[u8]) -> BTreeMap<String, Vec<Units>> {
    let mut articles: BTreeMap<&str, Units> = BTreeMap::new();
    for row in &plan.rows {
        let address = row.canonical_address.as_str();
        let Some(at) = address.rfind("/art-").map(|at| at + 1) else { continue };
        let end = address[at..].find('/').map_or(address.len(), |length| at + length);
        let units = articles.entry(&address[..end]).or_default();
        if ["clause", "point", "subpoint"].contains(&row.unit_kind.as_str()) {
            let at = row.start + text[row.start..].iter().take_while(|b| b.is_ascii_whitespace()).count();
            units.push((address[end + 1..].into(), 1 + text[..at].iter().filter(|b| **b == b'\n').count()));
        }
    }
    let mut found: BTreeMap<String, Vec<Units>> = BTreeMap::new();
    for (address, units) in articles {
        let label = address.rsplit_once("/art-").unwrap().1;
        let number = label.split_once('~').map_or(label, |(number, _)| number);
        found.entry(number.into()).or_default().push(units);
    }
    found
}

#[test]
fn clauses_and_points_are_found_as_readers_found_them() {
    let documents = table();
    let (articles, units) = documents
        .iter()
        .flat_map(|d| d.articles.values())
        .fold((0, 0), |(n, m), units| (n + 1, m + units.len()));
    assert_eq!((documents.len(), articles, units), (10, 82, 521));
    let Some(corpus) = corpus() else { return };
    for document in documents {
        let text = std::fs::read(corpus.join(&document.file)).unwrap();
        let mut profile = Profile::built_in(&document.profile).unwrap();
        profile.cut_down_to("subpoint").unwrap();
        let found = below(&cut(&profile, &text), &text);
        for (article, want) in &document.articles {
            let alike =
                found.get(article).unwrap_or_else(|| panic!("{}: no article {article}", document.file));
            assert!(alike.contains(want), "{} article {article}: {want:?}, cut {alike:?}", document.file);
        }
    }
}

/// The articles stay where they are when their insides are cut.
#[test]
fn a_deeper_cut_leaves_the_articles_in_place() {
    let documents = table();
    let Some(corpus) = corpus() else { return };
    for document in documents {
        let text = std::fs::read(corpus.join(&document.file)).unwrap();
        let plain = Profile::built_in(&document.profile).unwrap();
        let starts = |profile: &Profile| -> Vec<(String, usize)> {
            let plan = cut(profile, &text);
            let whole = plan.rows.iter().filter(|row| row.unit_kind == "article");
            whole.map(|row| (row.canonical_address.to_string(), row.start)).collect()
        };
        let mut deep = plain.clone();
        deep.cut_down_to("point").unwrap();
        assert_eq!(starts(&plain), starts(&deep), "{}", document.file);
    }
}
