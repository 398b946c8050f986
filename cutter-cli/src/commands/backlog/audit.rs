//! `cutter backlog audit`: every state rebuilt from its records and compared.

use clap::Args;
use cutter_core::base::digest::Digest;
use cutter_core::base::id::RunId;
use cutter_core::operate::inspect::verify;
use cutter_core::port::backlog::{Backlog as _, BacklogQuery};
use cutter_core::port::cut_request::{CutRequests, RequestQuery};
use cutter_core::port::database::Reader as _;
use cutter_core::record::backlog::{AuditReport, audit};
use cutter_core::record::check::Check;
use cutter_core::record::cut_request::rebuilt;
use cutter_core::record::policy::Chain;
use cutter_pg::PgDatabase;
use cutter_pg::login::Login;
use futures_executor::block_on;
use serde_json::{Value, json};
use uuid::Uuid;

use super::{Filter, open, page_size};
use crate::commands::verify::stored;
use crate::context::Context;
use crate::exit_code::Exit;
use crate::failure::{Failure, Outcome};
use crate::render::{BAD, GOOD, paint};
use crate::wire;

/// So many broken entries are shown; all are counted.
const SHOWN: usize = 100;

/// Rebuild the state of every entry from history and signatures, and compare.
///
/// Also compares what each move rests on: decisions with consent, change sets, verdicts, sweep log,
/// principals; verifies executor's and verifier's signatures; names answers that were recorded when
/// somebody else might have had their key, and counts them where several people must approve; and
/// recomputes from the rows of each
/// run what its effects were asked to write. Rebuilds every cut request from its timeline, too. Reads page by page; exit code 6 if anything does not
/// match. Change sets, units and versions that no run stands behind are named, too.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  cutter backlog audit
  cutter backlog audit --document-id CITY-CHARTER
  cutter backlog audit --json | jq .broken")]
pub(super) struct AuditArgs {
    #[command(flatten)]
    filter: Filter,
    /// So many entries at a time.
    #[arg(long, value_name = "N", default_value = "1000", value_parser = page_size)]
    page: u32,
}

pub(super) fn run(cx: &Context, args: &AuditArgs) -> Outcome {
    let config = cx.config()?;
    let database = open(&config, &[Login::Ro])?;
    let chain = wire::policy::chain(&config)?;
    if let Some(document) = &args.filter.document_id
        && block_on(database.source(document))?.is_none()
    {
        return Err(
            Failure::usage(format!("no document {document} is registered")).next("cutter backlog list")
        );
    }
    let mut query = BacklogQuery {
        status: args.filter.status,
        document_id: args.filter.document_id.clone(),
        after: args.filter.after,
        limit: args.page,
    };
    let (mut entries, mut broken) = (0_u64, 0_u64);
    let mut shown: Vec<AuditReport> = Vec::new();
    loop {
        let page = block_on(database.entries(&query))?;
        let ids: Vec<Uuid> = page.iter().map(|entry| entry.entry_id).collect();
        let mut runs = block_on(database.runs_of(&ids))?;
        for mut report in page.iter().map(audit) {
            if let Some(run_id) = runs.remove(&report.entry_id) {
                report.checks.extend(match of_run(&database, &chain, &run_id) {
                    // what does not read speaks against its own run alone
                    Err(failure) if failure.exit == Exit::EVIDENCE => {
                        vec![Check::new("audit.readable", "rows that read", failure.what, false)]
                    }
                    checks => checks?,
                });
            }
            entries += 1;
            if !report.ok() {
                broken += 1;
                if shown.len() < SHOWN {
                    shown.push(report);
                }
            }
        }
        let is_last = u32::try_from(page.len()).is_ok_and(|n| n < args.page);
        query.after = page.last().map(|entry| entry.entry_id).or(query.after);
        if is_last {
            break;
        }
    }
    let (requests, broken_requests) = audit_requests(&database, args)?;
    // of one document or status they would be part of what is asked; of all they are everybody's
    let is_whole = args.filter.status.is_none() && args.filter.document_id.is_none();
    let strays = if is_whole { block_on(database.strays())? } else { Vec::new() };
    let ok = broken == 0 && broken_requests.is_empty() && strays.is_empty();
    let exit = if ok { Exit::DONE } else { Exit::EVIDENCE };
    let value = json!({
        "ok": ok,
        "strays": strays,
        "entries": entries,
        "broken_entries": broken,
        "broken": shown.iter().map(machine).collect::<Vec<_>>(),
        "requests": requests,
        "broken_requests": broken_requests.iter().map(|(id, checks)| json!({
            "cut_request_id": id, "checks": failed(checks),
        })).collect::<Vec<_>>(),
    });
    cx.out.result_as(
        exit,
        || {
            people(entries, broken, &shown)
                + &people_of_requests(requests, &broken_requests)
                + &people_of_strays(&strays)
        },
        &value,
    )
}

/// What the rows of an entry's run say of each other, signatures verified, and whether somebody else
/// might have had the key of an answer that it relied on. An entry that was marked outside of a run
/// has none.
fn of_run(database: &PgDatabase, chain: &Chain, run_id: &RunId) -> Result<Vec<Check>, Failure> {
    let (evidence, rows) = stored(database, run_id)?;
    let is_run = evidence.fence_epoch.is_some() || !evidence.effects.is_empty();
    let rows = rows.filter(|_| is_run);
    let mut checks = rows.map(|rows| verify::rows(run_id.as_str(), &evidence, &rows)).unwrap_or_default();
    if !chain.is_empty() {
        let asks = block_on(database.asks(run_id))?;
        checks.extend(verify::consumed_standing(chain, &evidence, &asks));
    }
    Ok(checks)
}

fn machine(report: &AuditReport) -> Value {
    json!({
        "entry_id": report.entry_id,
        "stored": report.stored.as_str(),
        "rebuilt": report.rebuilt.map(|s| s.as_str()),
        "checks": failed(&report.checks),
    })
}

fn failed(checks: &[Check]) -> Vec<Value> {
    let of = |check: &Check| {
        json!({
            "invariant": check.invariant, "expected": check.expected, "observed": check.observed,
        })
    };
    checks.iter().filter(|check| !check.ok).map(of).collect()
}

/// A request, and what was found of it.
type Faulty = (Uuid, Vec<Check>);

/// Every request rebuilt from its timeline, its staged bytes hashed again. Those of one document are
/// nobody's: a request names a source, and its run the document.
fn audit_requests(database: &PgDatabase, args: &AuditArgs) -> Result<(u64, Vec<Faulty>), Failure> {
    let (mut requests, mut broken) = (0, Vec::new());
    if args.filter.status.is_some() || args.filter.document_id.is_some() {
        return Ok((requests, broken));
    }
    let mut query = RequestQuery { limit: args.page, ..RequestQuery::default() };
    loop {
        let page = block_on(CutRequests::list(database, &query))?;
        for request in &page {
            let id = request.cut_request_id;
            let timeline = block_on(database.timeline(id))?;
            let mut staged = Vec::new();
            for record in block_on(database.staging(id))? {
                let bytes = block_on(database.staged_bytes(record.staging_record_id))?;
                let found = bytes.map(|bytes| (Digest::of(&bytes), bytes.len() as u64));
                staged.push((record, found));
            }
            let checks = rebuilt(request, &timeline, &staged);
            if checks.iter().any(|check| !check.ok) {
                broken.push((id, checks));
            }
        }
        requests += page.len() as u64;
        query.after = page.last().map(|last| (last.requested_at, last.cut_request_id)).or(query.after);
        if u32::try_from(page.len()).is_ok_and(|n| n < args.page) {
            return Ok((requests, broken));
        }
    }
}

fn people_of_strays(strays: &[String]) -> String {
    if strays.is_empty() {
        return String::new();
    }
    let mut text = format!("{} {} rows have nothing behind them\n", paint(BAD, "broken"), strays.len());
    text.extend(strays.iter().take(SHOWN).map(|stray| format!("  {stray}\n")));
    text.push_str("next: cutter db check\n");
    text
}

fn people_of_requests(requests: u64, broken: &[Faulty]) -> String {
    if requests == 0 {
        return String::new();
    }
    if broken.is_empty() {
        return format!("{} {requests} requests: each follows from its timeline\n", paint(GOOD, "ok"));
    }
    let mut text = format!(
        "{} {} of {requests} requests do not follow from their timelines\n",
        paint(BAD, "broken"),
        broken.len()
    );
    for (id, checks) in broken.iter().take(SHOWN) {
        text.push_str(&format!("{id}\n"));
        text.push_str(&lines(checks));
        text.push_str(&format!("next: cutter request show {id}\n"));
    }
    text
}

fn lines(checks: &[Check]) -> String {
    let line = |check: &Check| {
        format!(
            "  invariant  {}\n  expected   {}\n  observed   {}\n",
            check.invariant, check.expected, check.observed
        )
    };
    checks.iter().filter(|check| !check.ok).map(line).collect()
}

fn people(entries: u64, broken: u64, shown: &[AuditReport]) -> String {
    let of = if entries == 1 { "1 entry".to_owned() } else { format!("{entries} entries") };
    if broken == 0 {
        return format!("{} {of}: every state follows from its records\n", paint(GOOD, "ok"));
    }
    let mut text = format!("{} {broken} of {of} do not follow from their records\n", paint(BAD, "broken"));
    for report in shown {
        text.push_str(&format!("{}  {}\n", report.entry_id, report.stored));
        text.push_str(&lines(&report.checks));
        text.push_str(&format!("next: cutter backlog show {}\n", report.entry_id));
    }
    if u64::try_from(shown.len()).is_ok_and(|n| n < broken) {
        text.push_str(&format!("and {} more\n", broken.saturating_sub(shown.len() as u64)));
    }
    text
}
