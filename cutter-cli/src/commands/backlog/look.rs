//! `cutter backlog list`, `show` and `history`: read-only.

use clap::Args;
use cutter_core::port::PortErrorKind;
use cutter_core::port::backlog::{Backlog as _, BacklogQuery, BacklogRow, Standing};
use cutter_core::record::backlog::{Entry, HistoryRow};
use cutter_pg::login::Login;
use futures_executor::block_on;
use serde_json::{Value, json};
use uuid::Uuid;

use super::{Filter, absent, machine, open, page_size, standing};
use crate::context::Context;
use crate::failure::{Failure, Outcome};
use crate::render::{DIM, HEAD, fields, paint, table};

/// List entries, oldest first.
///
/// A page ends after `--limit` entries and names the command for the next one. Pages are found by
/// key: the last costs what the first does.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  cutter backlog list
  cutter backlog list --status review_pending
  cutter backlog list --document-id CITY-CHARTER --json
  cutter backlog list --limit 20 --after ENTRY")]
pub(super) struct ListArgs {
    #[command(flatten)]
    filter: Filter,
    /// At most so many.
    #[arg(long, value_name = "N", default_value = "50", value_parser = page_size)]
    limit: u32,
}

/// Show one entry: what it is about, its timeline, its decisions, cuts and signatures.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  cutter backlog show ENTRY
  cutter backlog show ENTRY --json | jq .history")]
pub(super) struct ShowArgs {
    /// The entry, as `cutter backlog list` shows it.
    entry: Uuid,
}

/// Show the moves of one entry, oldest first.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  cutter backlog history ENTRY
  cutter backlog history ENTRY --json")]
pub(super) struct HistoryArgs {
    /// The entry, as `cutter backlog list` shows it.
    entry: Uuid,
}

pub(super) fn list(cx: &Context, args: &ListArgs) -> Outcome {
    let database = open(&cx.config()?, &[Login::Ro])?;
    let query = BacklogQuery {
        status: args.filter.status,
        document_id: args.filter.document_id.clone(),
        after: args.filter.after,
        limit: args.limit,
    };
    let rows = block_on(database.list(&query))?;
    let is_full = u32::try_from(rows.len()).is_ok_and(|n| n >= args.limit);
    let next = rows.last().filter(|_| is_full).map(|last| next_page(args, last.entry_id));
    let value = json!({ "entries": rows.iter().map(machine).collect::<Vec<_>>(), "next": next });
    cx.out.result(|| people(&rows, next.as_deref()), &value)
}

fn next_page(args: &ListArgs, last: Uuid) -> String {
    let mut command = "cutter backlog list".to_owned();
    if let Some(status) = args.filter.status {
        command.push_str(&format!(" --status {status}"));
    }
    if let Some(document) = &args.filter.document_id {
        command.push_str(&format!(" --document-id {document}"));
    }
    command.push_str(&format!(" --limit {} --after {last}", args.limit));
    command
}

fn people(rows: &[BacklogRow], next: Option<&str>) -> String {
    if rows.is_empty() {
        return format!("no entries\n{}\n", paint(DIM, "cutter orchestrate cut --help"));
    }
    let row = |row: &BacklogRow| {
        vec![
            row.entry_id.to_string(),
            row.status.to_string(),
            row.document_id.clone(),
            row.candidate_count.to_string(),
            row.at.strftime("%Y-%m-%d %H:%M:%SZ").to_string(),
            row.actor.clone(),
        ]
    };
    let header = ["entry", "status", "document", "units", "marked", "by"];
    let mut text = table(&header, rows.iter().map(row).collect());
    if let Some(next) = next {
        text.push_str(&format!("next: {next}\n"));
    }
    text
}

pub(super) fn show(cx: &Context, args: &ShowArgs) -> Outcome {
    let database = open(&cx.config()?, &[Login::Ro])?;
    let standing = standing(&database, args.entry)?;
    cx.out.result(|| whole(&standing), &value(&standing))
}

pub(super) fn history(cx: &Context, args: &HistoryArgs) -> Outcome {
    let database = open(&cx.config()?, &[Login::Ro])?;
    let moves = block_on(database.history(args.entry)).map_err(|error| match error.kind {
        PortErrorKind::NotFound => absent(args.entry),
        _ => Failure::from(error),
    })?;
    let value = json!({ "entry_id": args.entry, "history": moves.iter().map(step).collect::<Vec<_>>() });
    cx.out.result(|| timeline(&moves), &value)
}

fn step(row: &HistoryRow) -> Value {
    json!({
        "history_id": row.history_id,
        "from_state": row.from_state.map(|s| s.as_str()),
        "to_state": row.to_state.as_str(),
        "actor": row.actor,
        "reason": row.reason,
        "at": row.at.to_string(),
        "change_set_id": row.change_set_id,
    })
}

fn timeline(moves: &[HistoryRow]) -> String {
    let row = |row: &HistoryRow| {
        vec![
            row.at.strftime("%Y-%m-%d %H:%M:%SZ").to_string(),
            row.to_state.code().to_owned(),
            row.to_state.to_string(),
            row.actor.clone(),
            row.reason.clone(),
            row.change_set_id.map_or_else(|| "-".to_owned(), |id| id.to_string()),
        ]
    };
    table(&["at", "", "became", "by", "because", "change set"], moves.iter().map(row).collect())
}

fn value(standing: &Standing) -> Value {
    let Entry { depends_on, decisions, change_sets, signatures, history, promotions, .. } = &standing.entry;
    let mut value = machine(&standing.row);
    let more = json!({
        "idempotency_key": standing.entry.idempotency_key.to_hex(),
        "depends_on": depends_on.iter().map(|d| json!({
            "entry_id": d.entry_id, "status": d.status.map(|s| s.as_str()),
        })).collect::<Vec<_>>(),
        "promotions": promotions,
        "decisions": decisions.iter().map(|d| json!({
            "review_decision_id": d.id, "decision": d.verdict.as_str(), "has_consent": d.has_consent,
        })).collect::<Vec<_>>(),
        "change_sets": change_sets.iter().map(|c| json!({
            "change_set_id": c.change_set_id, "review_decision_id": c.review_decision_id, "live": c.is_live,
            "manifest_envelope_id": c.envelope_id,
            "verify_result": c.verdict.map(|v| json!({
                "verify_result_id": v.id, "passed": v.has_passed, "compensating_id": v.compensating_id,
                "escalation_entry_id": v.escalation_entry_id,
            })),
        })).collect::<Vec<_>>(),
        "signatures": signatures.iter().map(|s| json!({
            "signature_id": s.signature_id, "change_set_id": s.change_set_id, "principal": s.principal,
        })).collect::<Vec<_>>(),
        "history": history.iter().map(step).collect::<Vec<_>>(),
    });
    if let (Some(all), Value::Object(more)) = (value.as_object_mut(), more) {
        all.extend(more);
    }
    value
}

fn whole(standing: &Standing) -> String {
    let Standing { row, entry } = standing;
    let mut lines = vec![
        ("status", format!("{} {}", row.status.code(), row.status)),
        ("document", row.document_id.clone()),
        ("run", row.run_id.clone()),
        ("units", row.candidate_count.to_string()),
        ("manifest", row.manifest_digest.to_hex()),
        ("marked", format!("{} by {}", row.at.strftime("%Y-%m-%d %H:%M:%SZ"), row.actor)),
    ];
    if let Some(failed) = row.escalates {
        lines.push(("escalates", failed.to_string()));
    }
    for dependency in &entry.depends_on {
        let status = dependency.status.map_or_else(|| "absent".to_owned(), |s| s.to_string());
        lines.push(("depends on", format!("{} ({status})", dependency.entry_id)));
    }
    for decision in &entry.decisions {
        let consent = if decision.has_consent { ", signed" } else { "" };
        lines.push(("decision", format!("{} {}{consent}", decision.verdict.as_str(), decision.id)));
    }
    for set in &entry.change_sets {
        let live = if set.is_live { "live" } else { "voided" };
        let verdict = match set.verdict {
            None => "not verified".to_owned(),
            Some(v) if v.has_passed => "verified".to_owned(),
            Some(v) => match v.escalation_entry_id {
                Some(next) => format!("failed; goes on as {next}"),
                None => "failed".to_owned(),
            },
        };
        lines.push(("cut", format!("{} ({live}, {verdict})", set.change_set_id)));
    }
    for signature in &entry.signatures {
        lines.push(("signed by", signature.principal.clone()));
    }
    format!("{}\n{}\n{}", paint(HEAD, row.entry_id), fields(&lines), timeline(&entry.history))
}
