//! The table of `docs/corpus.md`: which profile cuts which collection, and what comes of it.
//!
//! `CUTTER_CORPUS=folder cargo run --release -p cutter-benches --bin profiles`

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use cutter_benches::{Corpus, Document, Failure, Planner, timed};
use cutter_core::text::address::DocumentId;
use cutter_core::text::detect::{Confidence, Cost};
use cutter_core::text::mark::{MarkContext, MarkLimits, body_region, marker_for};

/// What is summed over the files of one collection and profile.
#[derive(Default)]
struct Row {
    files: usize,
    unsure: usize,
    units: usize,
    articles: usize,
    indexed: usize,
    duplicates: usize,
    empty: usize,
    gaps: u32,
    largest: usize,
    bytes: usize,
    time: Duration,
}

fn main() -> Result<(), Failure> {
    let corpus = Corpus::read()?;
    let planner = Planner::new()?;
    let indexed = indexed()?;
    let mut rows: BTreeMap<(String, String), Row> = BTreeMap::new();
    for document in &corpus.documents {
        let (collection, file) = names(document);
        let Some(&articles) = indexed.get(&(collection.clone(), file)) else { continue };
        let found = planner.profiles.detect(document.text.as_bytes());
        let row = rows.entry((collection, found.profile.clone())).or_default();
        row.unsure += usize::from(found.confidence == Confidence::Low);
        row.indexed += articles;
        add(row, &planner, document, &found.profile)?;
    }
    println!(
        "| collection | profile | files | unsure | units | articles | in the index | duplicates | empty | \
         gaps | biggest unit | MB/s |"
    );
    println!("|---|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|");
    for ((collection, profile), row) in &rows {
        let speed = row.bytes as f64 / row.time.as_secs_f64() / 1e6;
        println!(
            "| {collection} | {profile} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {speed:.0} |",
            row.files,
            row.unsure,
            row.units,
            row.articles,
            row.indexed,
            row.duplicates,
            row.empty,
            row.gaps,
            row.largest
        );
    }
    Ok(())
}

fn add(row: &mut Row, planner: &Planner, document: &Document, name: &str) -> Result<(), Failure> {
    let source = document.text.as_bytes();
    let profile = planner.profiles.get(name).ok_or_else(|| Failure(format!("no profile {name}")))?;
    let (document_id, limits) = (DocumentId::parse("D")?, MarkLimits::default());
    let context = MarkContext { document_id: &document_id, profile, limits: &limits };
    let marked = marker_for(profile).mark(source, body_region(source, profile)?, &context)?;
    let cost = Cost::of(&marked, source);
    row.files += 1;
    row.units += cost.units;
    row.articles += marked.candidates.iter().filter(|c| c.unit_kind == "article").count();
    row.duplicates += cost.duplicates;
    row.empty += cost.empty;
    row.gaps += cost.gaps;
    row.largest = row.largest.max(cost.largest);
    row.bytes += source.len();
    // The best of three, detection and digests included.
    let mut work = || planner.plan(source).map(|plan| plan.rows.len()).unwrap_or_default();
    row.time += (0..3).map(|_| timed(&mut work)).min().unwrap_or_default();
    Ok(())
}

fn names(document: &Document) -> (String, String) {
    let name = |path: Option<&Path>| {
        path.and_then(Path::file_name).map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
    };
    (name(document.path.parent()), name(Some(&document.path)))
}

/// The articles that the corpus's own index counts by pattern: headings and lines.
fn indexed() -> Result<BTreeMap<(String, String), usize>, Failure> {
    let folder = std::env::var(cutter_benches::CORPUS_VARIABLE).map_err(|e| Failure(e.to_string()))?;
    let index = std::fs::read_to_string(Path::new(&folder).join("INDEX.tsv"))?;
    let mut lines = index.lines().map(|line| line.split('\t').collect::<Vec<_>>());
    let head = lines.next().unwrap_or_default();
    let column = |name: &str| {
        head.iter().position(|cell| *cell == name).ok_or_else(|| Failure(format!("INDEX.tsv has no {name}")))
    };
    let (headings, lines_column) = (column("art_headings")?, column("art_lines")?);
    let mut found = BTreeMap::new();
    for cells in lines {
        let count = |at: usize| cells.get(at).and_then(|cell| cell.parse::<usize>().ok()).unwrap_or(0);
        if let [collection, file, ..] = cells.as_slice() {
            found.insert(((*collection).into(), (*file).into()), count(headings) + count(lines_column));
        }
    }
    Ok(found)
}
