//! `cutter backlog`: marked manifests under governance review, outside of a run.

mod audit;
mod decide;
mod look;

use clap::{Args, Subcommand};
use cutter_core::machine::backlog::BacklogState;
use cutter_core::port::backlog::{Backlog as _, BacklogRow, MAX_PAGE, Standing};
use cutter_core::port::database::Reader as _;
use cutter_pg::PgDatabase;
use cutter_pg::login::Login;
use futures_executor::block_on;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::config::Config;
use crate::context::Context;
use crate::failure::{Failure, Outcome};
use crate::wire;

/// The governance backlog: list, show, sweep, review, give up, requeue, audit entries.
///
/// Every run has an entry here, made at MARK; a run moves its own entry. These commands are for
/// whoever keeps the queue: they need no run. Each move writes its history row in the same
/// transaction, and `audit` rebuilds every state from history and signatures alone.
#[derive(Debug, Args)]
pub(crate) struct BacklogArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    List(look::ListArgs),
    Show(look::ShowArgs),
    History(look::HistoryArgs),
    Sweep(decide::SweepArgs),
    Review(decide::ReviewArgs),
    Abandon(decide::AbandonArgs),
    Requeue(decide::RequeueArgs),
    Audit(audit::AuditArgs),
}

/// Which entries, page by page.
#[derive(Debug, Args)]
struct Filter {
    /// Only entries with this status: marked, review_pending, reviewed_approved, ….
    #[arg(long, value_name = "STATUS")]
    status: Option<BacklogState>,
    /// Only entries of this document.
    #[arg(long, value_name = "ID")]
    document_id: Option<String>,
    /// Start after this entry: the last one of the page before.
    #[arg(long, value_name = "ENTRY")]
    after: Option<Uuid>,
}

fn page_size(text: &str) -> Result<u32, String> {
    match text.parse() {
        Ok(n) if (1..=MAX_PAGE).contains(&n) => Ok(n),
        _ => Err(format!("expected 1 to {MAX_PAGE}")),
    }
}

pub(crate) fn run(cx: &Context, args: &BacklogArgs) -> Outcome {
    match &args.command {
        Command::List(args) => look::list(cx, args),
        Command::Show(args) => look::show(cx, args),
        Command::History(args) => look::history(cx, args),
        Command::Sweep(args) => decide::sweep(cx, args),
        Command::Review(args) => decide::review(cx, args),
        Command::Abandon(args) => decide::abandon(cx, args),
        Command::Requeue(args) => decide::requeue(cx, args),
        Command::Audit(args) => audit::run(cx, args),
    }
}

/// The database for these logins, its schema checked.
fn open(config: &Config, logins: &[Login]) -> Result<PgDatabase, Failure> {
    let database = PgDatabase::connect(wire::connections(config, logins)?);
    block_on(database.check_schema())?;
    Ok(database)
}

/// An entry that must be there.
fn standing(database: &PgDatabase, entry_id: Uuid) -> Result<Standing, Failure> {
    block_on(database.show(entry_id))?.ok_or_else(|| absent(entry_id))
}

fn absent(entry_id: Uuid) -> Failure {
    Failure::usage(format!("no backlog entry {entry_id} is stored")).next("cutter backlog list")
}

/// An entry's row for machines.
fn machine(row: &BacklogRow) -> Value {
    json!({
        "entry_id": row.entry_id,
        "status": row.status.as_str(),
        "code": row.status.code(),
        "document_id": row.document_id,
        "run_id": row.run_id,
        "manifest_digest": row.manifest_digest.to_hex(),
        "units": row.candidate_count,
        "escalates": row.escalates,
        "actor": row.actor,
        "at": row.at.to_string(),
    })
}
