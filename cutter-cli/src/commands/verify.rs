//! `cutter verify`: everything once more, from the evidence.

mod database;
mod documents;
mod gather;
mod said;

use std::path::{Path, PathBuf};

use clap::Args;
use cutter_core::machine::run::GateId;
use cutter_core::operate::inspect::verify::{Allowed, Answer, Judged, LIMITS, NotChecked, Verification};
use cutter_core::record::statement::envelope;
use serde::Serialize;
use serde_json::Value;

pub(crate) use self::documents::{observed, words};
pub(crate) use self::gather::stored;
use self::gather::{Text, gather};
use self::said::{Refused, said};
use crate::commands::RunArg;
use crate::config::Config;
use crate::context::Context;
use crate::exit_code::Exit;
use crate::failure::{Failure, Outcome};
use crate::render::{BAD, DIM, GOOD, HEAD, WARN, paint};
use crate::wire;

/// What a verification without the database calls it.
pub(super) const DATABASE: &str = "the database";

/// Re-check a run from its evidence.
///
/// What must be there follows from how far any source shows that the run came: its record, the
/// knowledge base, the runs index, the database. The record's chain and digest, the signature
/// on its creation, every document against its recorded sha256, the approvals and their
/// signatures, executor's and verifier's signatures, and the database's rows: the units put
/// together are the source region, byte for byte, and their rows are those that the approvals
/// name.
///
/// Each item holds, fails, or is not checked. Exit code 0 only if all hold, 6 if one fails, 7
/// if none fails but something that must be checked could not be: without the run's folder or
/// without a database that is always so. It needs public keys and a reading login only.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  cutter verify --run-id RUN
  cutter verify --run-id RUN -v                 # every check, passed ones too
  cutter verify --run-id RUN --approver ada.asc # believe nobody else's approval
  cutter verify --run-id RUN --statement run.dsse.json
  CUTTER_KB_DIR=/mnt/kb CUTTER_DSN_READER=postgres://… cutter verify --run-id RUN --json")]
pub(crate) struct VerifyArgs {
    #[command(flatten)]
    pub(crate) run: RunArg,
    /// Leave the database out.
    #[arg(long)]
    pub(crate) no_database: bool,
    /// An approver's public key, brought along: only approvals by such keys count. May be repeated.
    #[arg(long, value_name = "FILE")]
    pub(crate) approver: Vec<PathBuf>,
    /// Check as always, and write the statement that the run made when it was closed, as a DSSE envelope,
    /// to this file; of a run that does not hold nothing is written.
    #[arg(long, value_name = "FILE", conflicts_with = "no_database")]
    pub(crate) statement: Option<PathBuf>,
}

/// The verdict.
#[derive(Debug, Serialize)]
pub(crate) struct Verified {
    run_id: String,
    /// Everything holds, and everything was checked.
    pub(crate) ok: bool,
    pub(crate) answer: Answer,
    /// Who allowed what, and when.
    allowed: Vec<Allowed>,
    /// Who refused, whether or not the run heard it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    refused: Vec<Refused>,
    /// Gates that wait for an answer.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    waits: Vec<GateId>,
    /// Over which text.
    #[serde(flatten)]
    text: Text,
    pub(crate) checks: Vec<Judged>,
    /// What could not be looked at, and so was not checked.
    pub(crate) not_checked: Vec<NotChecked>,
    /// What the run said of itself when it was closed, as a DSSE envelope.
    #[serde(skip_serializing_if = "Option::is_none")]
    statement: Option<Value>,
    /// New foundings of the policy, and what of it does not hold.
    notices: Vec<String>,
    /// What no check can show.
    limits: &'static [&'static str],
}

pub(crate) fn run(cx: &Context, args: &VerifyArgs) -> Outcome {
    let mut verified = verify_with(&cx.config()?, args)?;
    match &args.statement {
        Some(path) if verified.answer == Answer::Fails => verified.notices.push(format!(
            "{}: not written: a statement of a run that does not hold is handed to nobody",
            path.display()
        )),
        Some(path) => write_statement(path, &verified)?,
        None => {}
    }
    let exit = match verified.answer {
        Answer::Holds => Exit::DONE,
        Answer::Fails => Exit::EVIDENCE,
        Answer::Incomplete => Exit::INCOMPLETE,
    };
    cx.out.result_as(exit, || people(cx, &verified), &verified)
}

/// The envelope, for a checker's own tools.
fn write_statement(path: &Path, verified: &Verified) -> Result<(), Failure> {
    let Some(statement) = &verified.statement else {
        if let Some(item) = verified.not_checked.iter().find(|item| item.item == DATABASE) {
            return Err(Failure::usage(format!("the statement stands in the database: {}", item.why))
                .next(format!("cutter verify --run-id {}", verified.run_id)));
        }
        return Err(Failure::usage(format!(
            "{}: this run made no statement: it is not closed, or was closed before statements were made",
            verified.run_id
        ))
        .next(format!("cutter verify --run-id {}", verified.run_id)));
    };
    std::fs::write(path, format!("{statement}\n"))
        .map_err(|e| Failure::usage(format!("{}: {e}", path.display())))
}

/// Reads and judges.
pub(crate) fn verify_with(config: &Config, args: &VerifyArgs) -> Result<Verified, Failure> {
    let brought: Vec<_> =
        args.approver.iter().map(|path| wire::load_public(path)).collect::<Result<_, _>>()?;
    let gathered = gather(config, &args.run.run_id, !args.no_database, &brought)?;
    let verification = Verification::of(gathered.checks, gathered.not_checked);
    let holds = verification.answer != Answer::Fails;
    let statement = gathered.statement.filter(|_| holds);
    let in_force = gathered.text.in_force.map(|in_force| in_force && holds);
    Ok(Verified {
        run_id: args.run.run_id.to_string(),
        ok: verification.answer == Answer::Holds,
        answer: verification.answer,
        allowed: gathered.allowed,
        refused: gathered.refused,
        waits: gathered.waits,
        text: Text { in_force, ..gathered.text },
        checks: verification.checks,
        not_checked: verification.not_checked,
        statement: statement.map(|said| envelope(&said.body, &said.signatures)),
        notices: gathered.notices,
        limits: LIMITS,
    })
}

fn people(cx: &Context, verified: &Verified) -> String {
    let mut text = format!("{}\n{}\n", said(verified), paint(HEAD, &verified.run_id));
    for Judged { check, follows_from } in &verified.checks {
        if check.ok {
            if cx.out.is_verbose(1) {
                text.push_str(&format!("{} {}\n", paint(GOOD, "pass "), check.invariant));
            }
        } else if let Some(cause) = follows_from {
            text.push_str(&format!(
                "{} {}\n       follows from {cause}\n",
                paint(BAD, "FAIL "),
                check.invariant
            ));
        } else {
            text.push_str(&format!(
                "{} {}\n       expected {}\n       observed {}\n",
                paint(BAD, "FAIL "),
                check.invariant,
                check.expected,
                check.observed
            ));
        }
    }
    for line in &verified.notices {
        text.push_str(&format!("{} {line}\n", paint(WARN, "notice:")));
    }
    text.push_str(&paint(DIM, "What no check can show:"));
    text.push('\n');
    for limit in verified.limits {
        text.push_str(&format!("{}\n", paint(DIM, format!("- {limit}"))));
    }
    let failed = verified.checks.iter().filter(|j| !j.check.ok).count();
    let total = verified.checks.len();
    match verified.answer {
        Answer::Holds => text.push_str(&format!("{} all {total} checks hold\n", paint(GOOD, "ok"))),
        Answer::Incomplete => text.push_str(&format!(
            "{} all {total} checks hold, but not everything was checked\n",
            paint(WARN, "incomplete")
        )),
        Answer::Fails => {
            text.push_str(&format!("{} {failed} of {total} checks do not hold\n", paint(BAD, "mismatch")));
            text.push_str(&format!("{} cutter why --run-id {}\n", paint(HEAD, "next:"), verified.run_id));
        }
    }
    for item in &verified.not_checked {
        let needs =
            if item.to_check.is_empty() { String::new() } else { format!("; needs {}", item.to_check) };
        text.push_str(&format!("{} {}: {}{needs}\n", paint(WARN, "not checked:"), item.item, item.why));
    }
    text
}
