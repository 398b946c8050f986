//! Every real document, cut with the profile that is detected for it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::path::PathBuf;

use cutter_core::text::address::DocumentId;
use cutter_core::text::detect::{Cost, Profiles};
use cutter_core::text::mark::{MarkContext, MarkLimits, body_region, check_partition, marker_for};

fn corpus() -> Option<PathBuf> {
    let folder = std::env::var_os("CUTTER_CORPUS").map(PathBuf::from);
    if folder.is_none() {
        eprintln!("survey: SKIPPED, CUTTER_CORPUS is not set");
    }
    folder
}

/// The profiles that may cut a collection.
fn fitting(collection: &str) -> &'static [&'static str] {
    match collection {
        "cn-laws" => &["cn"],
        "cz-sbirka" => &["cz"],
        "de-gesetze" => &["de"],
        "ee-riigiteataja" => &["ee"],
        "fi-finlex" => &["fi"],
        "fr-codes" => &["fr"],
        "jp-kenpo" => &["jp"],
        "kr-law" => &["kr"],
        "nl-wetten" => &["nl"],
        "no-lovdata" => &["no"],
        "pe-spij" => &["pe"],
        "us-constitution" => &["us"],
        "uy-impo" => &["uy"],
        "vn-nghidinh30" => &["vn"],
        "vn-vanban" => &["vn", "vn-phapdien"],
        "versions" => &["de", "fr", "cz", "cn"],
        _ => &["markdown", "rfc", "rfc-text", "rst", "akn", "uslm", "formex"],
    }
}

#[test]
fn every_document_gets_the_profile_of_its_convention() {
    let Some(corpus) = corpus() else { return };
    let profiles = Profiles::built_in().unwrap();
    let mut wrong = Vec::new();
    let index = std::fs::read_to_string(corpus.join("INDEX.tsv")).unwrap();
    for line in index.lines().skip(1) {
        let cells: Vec<&str> = line.split('\t').collect();
        let (collection, file) = (cells[0], cells[1]);
        let source = std::fs::read(corpus.join(collection).join(file)).unwrap();
        if std::str::from_utf8(&source).is_err() {
            continue;
        }
        let found = profiles.detect(&source);
        let profile = profiles.get(&found.profile).unwrap();
        let articles: usize = [18, 20].iter().map(|&i| cells[i].parse::<usize>().unwrap()).sum();
        // Where no line is an article, headings are all there is to cut at.
        let plain = profile.name == "markdown" && (articles == 0 || file.starts_with("Phuluc"));
        if !plain && !fitting(collection).contains(&profile.name.as_str()) {
            wrong.push(format!(
                "{collection}/{file}: {} {:#?}",
                profile.name,
                &found.ranking[..found.ranking.len().min(2)]
            ));
        }
        let region = body_region(&source, profile).unwrap();
        let (id, limits) = (DocumentId::parse("X").unwrap(), MarkLimits::default());
        let context = MarkContext { document_id: &id, profile, limits: &limits };
        let marked = marker_for(profile).mark(&source, region, &context).unwrap();
        check_partition(region, marked.candidates.iter().map(|c| (c.start, c.end))).unwrap();
        let cost = Cost::of(&marked, &source);
        let articles = marked.candidates.iter().filter(|c| c.unit_kind == "article").count();
        println!(
            "{collection:16} {:40} {:11} {:5} units {:5} art {:5}/{:<5} dup {:4} empty {:4} gaps {:4} largest {:7}",
            &file.chars().take(40).collect::<String>(),
            profile.name,
            found.confidence.as_str(),
            cost.units,
            articles,
            cells[18].parse::<usize>().unwrap() + cells[20].parse::<usize>().unwrap(),
            cost.duplicates,
            cost.empty,
            cost.gaps,
            cost.largest
        );
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
