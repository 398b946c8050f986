//! `cutter verify`: everything once more, from the evidence.

mod gather;

use clap::Args;
use cutter_core::gate::Check;
use cutter_core::inspect::verify::LIMITS;
use serde::Serialize;

use self::gather::gather;
use crate::app::Context;
use crate::commands::RunArg;
use crate::config::Config;
use crate::exit_code::Exit;
use crate::failure::{Failure, Outcome};
use crate::render::{BAD, DIM, GOOD, HEAD, WARN, paint};

/// Re-check a run from its evidence.
///
/// The record's chain and digest, the signature on its creation, every document in the
/// knowledge base against its recorded sha256, the approvals' signatures, executor's and
/// verifier's signatures, and the database's rows: the units put together are the source
/// region, byte for byte. Exit code 6 if anything does not match.
///
/// Without the run's folder it checks what the documents say; without a database (or with
/// --no-database) what the documents and the record say. It needs public keys and a reading
/// login only.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  cutter verify --run-id RUN
  cutter verify --run-id RUN -v                 # every check, passed ones too
  CUTTER_KB_DIR=/mnt/kb CUTTER_DSN_READER=postgres://… cutter verify --run-id RUN --json")]
pub(crate) struct VerifyArgs {
    #[command(flatten)]
    pub(crate) run: RunArg,
    /// Leave the database out.
    #[arg(long)]
    pub(crate) no_database: bool,
}

/// The verdict.
#[derive(Debug, Serialize)]
pub(crate) struct Verified {
    run_id: String,
    pub(crate) ok: bool,
    pub(crate) checks: Vec<Check>,
    /// What could not be looked at, and so was not checked.
    pub(crate) not_checked: Vec<String>,
    /// New foundings of the policy, and what of it does not hold.
    notices: Vec<String>,
    /// What no check can show.
    limits: &'static [&'static str],
}

pub(crate) fn run(cx: &Context, args: &VerifyArgs) -> Outcome {
    let verified = verify_with(&cx.config()?, args)?;
    let exit = if verified.ok { Exit::DONE } else { Exit::EVIDENCE };
    cx.out.result_as(exit, || people(cx, &verified), &verified)
}

/// Reads and judges.
pub(crate) fn verify_with(config: &Config, args: &VerifyArgs) -> Result<Verified, Failure> {
    let gathered = gather(config, &args.run.run_id, !args.no_database)?;
    let ok = !gathered.checks.is_empty() && gathered.checks.iter().all(|check| check.ok);
    Ok(Verified {
        run_id: args.run.run_id.to_string(),
        ok,
        checks: gathered.checks,
        not_checked: gathered.not_checked,
        notices: gathered.notices,
        limits: LIMITS,
    })
}

fn people(cx: &Context, verified: &Verified) -> String {
    let mut text = format!("{}\n", paint(HEAD, &verified.run_id));
    for check in &verified.checks {
        if !check.ok {
            text.push_str(&format!(
                "{} {}\n       expected {}\n       observed {}\n",
                paint(BAD, "FAIL "),
                check.invariant,
                check.expected,
                check.observed
            ));
        } else if cx.out.is_verbose(1) {
            text.push_str(&format!("{} {}\n", paint(GOOD, "pass "), check.invariant));
        }
    }
    for line in &verified.notices {
        text.push_str(&format!("{} {line}\n", paint(WARN, "notice:")));
    }
    for line in &verified.not_checked {
        text.push_str(&format!("{} {line}\n", paint(WARN, "not checked:")));
    }
    let failed = verified.checks.iter().filter(|c| !c.ok).count();
    let total = verified.checks.len();
    if verified.ok {
        text.push_str(&format!("{} all {total} checks hold\n", paint(GOOD, "ok")));
    } else {
        text.push_str(&format!("{} {failed} of {total} checks do not hold\n", paint(BAD, "mismatch")));
        text.push_str(&format!("{} cutter why --run-id {}\n", paint(HEAD, "next:"), verified.run_id));
    }
    text.push_str(&paint(DIM, "What no check can show:"));
    text.push('\n');
    for limit in verified.limits {
        text.push_str(&format!("{}\n", paint(DIM, format!("- {limit}"))));
    }
    text
}
