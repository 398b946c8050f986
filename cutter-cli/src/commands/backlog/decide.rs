//! `cutter backlog sweep`, `review`, `abandon` and `requeue`: what moves entries without a run.

use clap::{Args, ValueEnum};
use cutter_core::base::digest::Digest;
use cutter_core::port::backlog::{AbandonRequest, Backlog as _, RequeueRequest, ReviewRequest, sweep_all};
use cutter_core::record::effect::ReviewVerdict;
use cutter_pg::PgDatabase;
use cutter_pg::login::Login;
use futures_executor::block_on;
use serde_json::json;
use uuid::Uuid;

use super::{open, page_size, standing};
use crate::context::Context;
use crate::failure::{Failure, Outcome};
use crate::render;
use crate::wire::{RandomIds, SystemClock, now};

/// Promote what was marked or deferred: it waits for review then.
///
/// In batches, each one transaction with one row in the sweep log. Stop it at any time; run again,
/// it promotes what is left. Escalation entries of failed verifications stay: the reviewer requeues
/// them.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  cutter backlog sweep
  cutter backlog sweep --document-id CITY-CHARTER --json
  cutter backlog sweep --batch 500")]
pub(super) struct SweepArgs {
    /// Only this document.
    #[arg(long, value_name = "ID")]
    document_id: Option<String>,
    /// So many entries a transaction.
    #[arg(long, value_name = "N", default_value = "1000", value_parser = page_size)]
    batch: u32,
}

/// Decide on an entry that waits for review.
///
/// `defer` sends it back to the queue, also after an approval that was not cut yet; `reject` ends it.
/// Both need a reason. `approve` is the sovereign's signed consent at the first gate of the entry's
/// run and is given there: asked for here, it is refused and the command to type is named.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  cutter backlog review ENTRY --decision defer --reason 'article 7 is missing'
  cutter backlog review ENTRY --decision reject --reason 'wrong edition'")]
pub(super) struct ReviewArgs {
    /// The entry, as `cutter backlog list` shows it.
    entry: Uuid,
    /// What was decided.
    #[arg(long, value_enum, value_name = "DECISION")]
    decision: Decision,
    /// Why; kept in the history.
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    /// Digest of the manifest that you looked at; refused if the entry is about another.
    #[arg(long, value_name = "SHA256")]
    manifest: Option<Digest>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Decision {
    Approve,
    Defer,
    Reject,
}

/// Give an entry up, whatever its status. Final.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  cutter backlog abandon ENTRY --reason 'superseded by the consolidated text'")]
pub(super) struct AbandonArgs {
    /// The entry, as `cutter backlog list` shows it.
    entry: Uuid,
    /// Why; kept in the history.
    #[arg(long, value_name = "TEXT")]
    reason: String,
}

/// Put the escalation entry of a failed verification into the queue.
///
/// The failed entry itself stays as it is, as the record.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  cutter backlog requeue ENTRY --reason 'profile corrected'")]
pub(super) struct RequeueArgs {
    /// The escalation entry; `cutter backlog show FAILED` names it.
    entry: Uuid,
    /// Why; kept in the history.
    #[arg(long, value_name = "TEXT")]
    reason: String,
}

/// A reason that says something.
fn said(reason: Option<&str>, what: &str) -> Result<String, Failure> {
    match reason.map(str::trim) {
        Some(text) if !text.is_empty() => Ok(text.to_owned()),
        _ => Err(Failure::usage(format!("{what} needs a reason: --reason TEXT")).broken(
            "backlog.reason",
            "a reason",
            "none",
        )),
    }
}

pub(super) fn sweep(cx: &Context, args: &SweepArgs) -> Outcome {
    let config = cx.config()?;
    let database = open(&config, &[Login::Ro, Login::Exec])?;
    let out = cx.out;
    let totals = block_on(sweep_all(
        &database,
        (&SystemClock, &RandomIds),
        args.document_id.as_deref(),
        args.batch,
        &config.actor,
        &mut |batch, promoted| {
            if out.is_verbose(1) {
                out.note(format!("{}  {}  {} promoted", batch.sweep_id, batch.document_id, promoted.len()));
            }
        },
    ))?;
    let people = || {
        format!(
            "{} promoted in {}\nnext: cutter backlog list --status review_pending\n",
            if totals.promoted == 1 { "1 entry".to_owned() } else { format!("{} entries", totals.promoted) },
            if totals.passes == 1 { "1 pass".to_owned() } else { format!("{} passes", totals.passes) },
        )
    };
    cx.out.result(people, &totals)
}

pub(super) fn review(cx: &Context, args: &ReviewArgs) -> Outcome {
    let config = cx.config()?;
    let logins: &[Login] =
        if args.decision == Decision::Approve { &[Login::Ro] } else { &[Login::Ro, Login::Review] };
    let verdict = match args.decision {
        Decision::Approve => None,
        Decision::Defer => Some(ReviewVerdict::Defer),
        Decision::Reject => Some(ReviewVerdict::Reject),
    };
    let reason = match verdict {
        None => String::new(),
        Some(verdict) => said(args.reason.as_deref(), verdict.as_str())?,
    };
    let database = open(&config, logins)?;
    let before = standing(&database, args.entry)?;
    let Some(verdict) = verdict else {
        let run = &before.row.run_id;
        return Err(Failure::approval(format!(
            "entry {} is approved by the signed consent at the first gate of run {run}, and nowhere else",
            args.entry
        ))
        .broken("review.consent", "a signed approval of the run", "none")
        .next(format!("cutter sovereign approve --run-id {run} --for cut"))
        .next(format!("cutter why --run-id {run}")));
    };
    let at = now();
    let request = ReviewRequest {
        entry_id: args.entry,
        decision_id: RandomIds.random_uuid(at),
        history_id: RandomIds.random_uuid(at),
        verdict,
        manifest_digest: args.manifest.unwrap_or(before.row.manifest_digest),
        reason,
        actor: config.actor.clone(),
        at,
    };
    let stands = block_on(database.review(&request))?;
    moved(cx, &database, args.entry, stands == request.decision_id, json!({ "review_decision_id": stands }))
}

pub(super) fn abandon(cx: &Context, args: &AbandonArgs) -> Outcome {
    let config = cx.config()?;
    let reason = said(Some(&args.reason), "abandon")?;
    let database = open(&config, &[Login::Ro, Login::Review])?;
    standing(&database, args.entry)?;
    let at = now();
    let request = AbandonRequest {
        entry_id: args.entry,
        history_id: RandomIds.random_uuid(at),
        reason,
        actor: config.actor.clone(),
        at,
    };
    let is_new = block_on(database.abandon(&request))?;
    moved(cx, &database, args.entry, is_new, json!({}))
}

pub(super) fn requeue(cx: &Context, args: &RequeueArgs) -> Outcome {
    let config = cx.config()?;
    let reason = said(Some(&args.reason), "requeue")?;
    let database = open(&config, &[Login::Ro, Login::Review])?;
    standing(&database, args.entry)?;
    let at = now();
    let request = RequeueRequest {
        entry_id: args.entry,
        sweep_id: RandomIds.random_uuid(at),
        history_id: RandomIds.random_uuid(at),
        reason,
        actor: config.actor.clone(),
        at,
    };
    let is_new = block_on(database.requeue(&request))?;
    moved(cx, &database, args.entry, is_new, json!({}))
}

/// What stands now, and whether this command did it.
fn moved(cx: &Context, database: &PgDatabase, entry: Uuid, is_new: bool, more: serde_json::Value) -> Outcome {
    let after = standing(database, entry)?;
    let mut value = super::machine(&after.row);
    if let (Some(all), serde_json::Value::Object(more)) = (value.as_object_mut(), more) {
        all.insert("moved".to_owned(), is_new.into());
        all.extend(more);
    }
    let people = || {
        let what = if is_new { "moved" } else { "stands already" };
        format!(
            "{}next: cutter backlog show {entry}\n",
            render::fields(&[("entry", entry.to_string()), (what, after.row.status.to_string())])
        )
    };
    cx.out.result(people, &value)
}
