//! What a profile makes of a document, counted and explained.

use std::collections::BTreeMap;
use std::path::Path;

use cutter_core::base::limits;
use cutter_core::text::detect::{Cost, LineReason, Score, explain as explain_lines};
use cutter_core::text::mark::{MarkContext, MarkLimits, Marked, Stop, body_region, marker_for};
use serde_json::{Value, json};

use super::Chosen;
use super::choose::costs;
use crate::commands::plan::document_id;
use crate::context::Context;
use crate::failure::{Failure, Outcome};
use crate::render::{self, DIM, HEAD, WARN, paint};

/// A profile is tried on whatever text: only what is little else than beginnings of units is refused.
pub(super) fn limits() -> MarkLimits {
    let max_bytes = usize::try_from(limits::MAX_DOCUMENT_BYTES).unwrap_or(usize::MAX);
    MarkLimits { max_bytes, stop: Stop::AtDensity, ..MarkLimits::default() }
}

fn mark(file: &Path, text: &[u8], chosen: &Chosen) -> Result<Marked, Failure> {
    let document_id = document_id(None, file)?;
    let limits = limits();
    let profile = &chosen.profile;
    let refused = |e: cutter_core::text::mark::MarkError| {
        Failure::usage(format!("{}: {e}", file.display())).next("cutter profile list")
    };
    let region = body_region(text, profile).map_err(refused)?;
    let context = MarkContext { document_id: &document_id, profile, limits: &limits };
    marker_for(profile).mark(text, region, &context).map_err(refused)
}

fn header(chosen: &Chosen) -> Value {
    json!({ "name": chosen.profile.name, "version": chosen.profile.version, "detection": chosen.machine() })
}

pub(super) fn test(cx: &Context, file: &Path, text: &[u8], chosen: &Chosen) -> Outcome {
    let marked = mark(file, text, chosen)?;
    let cost = Cost::of(&marked, text);
    let mut kinds: BTreeMap<&str, usize> = BTreeMap::new();
    for candidate in &marked.candidates {
        *kinds.entry(&candidate.unit_kind).or_default() += 1;
    }
    let biggest = marked.candidates.iter().max_by_key(|c| c.end - c.start);
    let biggest = biggest.map(|c| (c.address.to_string(), c.end - c.start));
    if let Some(warning) = chosen.warning() {
        cx.out.warn(warning);
    }
    for warning in &marked.warnings {
        let line = warning.line.map(|n| format!(":{n}")).unwrap_or_default();
        cx.out.warn(format!(
            "{}{line}: {} ({})",
            render::name(file.display()),
            warning.message,
            warning.code
        ));
    }
    let articles = kinds.get("article").copied().unwrap_or(0);
    let machine = json!({
        "document": file.to_string_lossy(),
        "profile": header(chosen),
        "units": cost.units,
        "articles": articles,
        "duplicates": marked.duplicates,
        "empty": cost.empty,
        "gaps": cost.gaps,
        "biggest": biggest.as_ref().map(|(address, bytes)| json!({ "address": address, "bytes": bytes })),
        "kinds": kinds,
        "warnings": marked.warnings,
    });
    let people = || {
        let mut rows = vec![
            ("units".to_owned(), cost.units.to_string()),
            ("articles".to_owned(), articles.to_string()),
            ("duplicates".to_owned(), cost.duplicates.to_string()),
            ("empty".to_owned(), cost.empty.to_string()),
            ("gaps".to_owned(), cost.gaps.to_string()),
        ];
        if let Some((address, bytes)) = &biggest {
            rows.push(("biggest".to_owned(), format!("{address}, {bytes} bytes")));
        }
        rows.push(("warnings".to_owned(), marked.warnings.len().to_string()));
        let kinds = kinds.iter().map(|(kind, n)| vec![(*kind).to_owned(), n.to_string()]).collect();
        format!(
            "{}\n{}\n{}\n{}",
            paint(HEAD, render::name(file.display())),
            chosen.people(),
            render::fields(&rows),
            render::table(&["kind", "units"], kinds)
        )
    };
    cx.out.result(people, &machine)
}

pub(super) fn explain(cx: &Context, file: &Path, text: &[u8], chosen: &Chosen, max: usize) -> Outcome {
    let marked = mark(file, text, chosen)?;
    let lines = explain_lines(&chosen.profile, text, &marked, max);
    // The ranking is shown even where the profile was named.
    let detected = super::choose::built_in()?.detect(text);
    if let Some(warning) = chosen.warning() {
        cx.out.warn(warning);
    }
    let cost = Cost::of(&marked, text);
    let machine = json!({
        "document": file.to_string_lossy(),
        "profile": header(chosen),
        "ranking": detected.ranking,
        "cost": cost,
        "lines": lines,
    });
    let people = || {
        let own = if chosen.detected.is_none() {
            format!("\n{}", costs(&[(&chosen.profile.name, Some(&cost))]))
        } else {
            String::new()
        };
        format!(
            "{}\n{}{own}\n{}\n{}\n{}",
            paint(HEAD, render::name(file.display())),
            chosen.people(),
            ranking(&detected.ranking),
            paint(HEAD, "Lines"),
            lines.iter().map(line).collect::<String>(),
        )
    };
    cx.out.result(people, &machine)
}

fn ranking(scores: &[Score]) -> String {
    let row = |s: &Score| {
        let numbers =
            [u64::from(s.articles), u64::from(s.divisions), u64::from(s.marks), u64::from(s.headings)];
        let mut row = vec![s.profile.clone(), s.score.to_string()];
        row.extend(numbers.map(|n| n.to_string()));
        row.push(format!("{} ‰", s.language));
        row
    };
    let header = ["profile", "score", "articles", "divisions", "own marks", "plain headings", "language"];
    render::table(&header, scores.iter().map(row).collect())
}

fn line(reason: &LineReason) -> String {
    let what = match &reason.address {
        Some(address) => paint(HEAD, format!("starts {address}")),
        None => paint(WARN, "starts nothing"),
    };
    format!(
        "{}  {}\n      {what}: {}\n",
        paint(DIM, format!("{:>4}", reason.line)),
        reason.text,
        reason.reason
    )
}
