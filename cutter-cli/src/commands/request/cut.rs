//! `cutter request cut` and `cutter request verify-cut`: the governed run of a request.

use clap::Args;
use cutter_core::driver::{self, Served};
use cutter_core::port::cut_request::ApplyOutcome;
use cutter_core::record::cut_request::{CutRequest, CutVerdict, next_commands};
use futures_executor::block_on;
use serde_json::json;

use super::{RequestArg, fields, next_lines, on, open, refused};
use crate::commands::orchestrate::{self, deployment_settings};
use crate::config::Config;
use crate::context::Context;
use crate::failure::{Failure, Outcome};
use crate::render::{self, GOOD, HEAD, paint};
use crate::wire::{self, Opened};

/// Cut for a request: start its governed run, or drive it on, as far as it gets.
///
/// The plan is made again from the staged text and must be the one that was approved. The run
/// pauses at both gates as any other does (`cutter sovereign show`); this command again, or
/// `cutter orchestrate resume`, drives it on. --dry-run says what would be done.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  cutter request cut --request-id REQUEST --dry-run
  cutter request cut --request-id REQUEST
  cutter sovereign approve --run-id RUN && cutter request cut --request-id REQUEST")]
pub(super) struct CutArgs {
    #[command(flatten)]
    request: RequestArg,
    /// Say what would be done; write nothing.
    #[arg(long)]
    dry_run: bool,
}

pub(super) fn cut(cx: &Context, args: &CutArgs) -> Outcome {
    let config = cx.config()?;
    let id = args.request.id;
    let requests = open(&config)?;
    let applied = block_on(requests.apply(&on(&config, id), args.dry_run));
    let applied = applied.map_err(|e| refused(requests.as_ref(), id, e))?;
    if args.dry_run {
        return cx.out.result(|| dry(&applied), &applied);
    }
    let opened = wire::open(&config, &cx.out)?;
    let served = serve(&config, &opened, id)?;
    present(cx, &config, &opened, &served)
}

fn dry(applied: &ApplyOutcome) -> String {
    let request = &applied.request;
    let what = match applied.signal {
        Some(_) => format!("a governed run of {} units would be asked for", applied.units),
        None => format!("nothing would be asked for: the request is {}", request.status),
    };
    format!("{} {what}\n{}", paint(GOOD, "dry run:"), render::fields(&fields(request)))
}

/// The verdict on a request's cut. If there is none yet, its run is driven on.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  cutter request verify-cut --request-id REQUEST
  cutter request verify-cut --request-id REQUEST --json")]
pub(super) struct VerifyCutArgs {
    #[command(flatten)]
    request: RequestArg,
}

pub(super) fn verify_cut(cx: &Context, args: &VerifyCutArgs) -> Outcome {
    let config = cx.config()?;
    let id = args.request.id;
    let requests = open(&config)?;
    let found = block_on(requests.verify_cut(&on(&config, id)));
    let found = found.map_err(|e| refused(requests.as_ref(), id, e))?;
    if let Some(verdict) = found.verdict {
        return verdict_of(cx, &found.request, verdict);
    }
    let opened = wire::open(&config, &cx.out)?;
    let served = serve(&config, &opened, id)?;
    match served.request.cut_verdict {
        Some(verdict) => verdict_of(cx, &served.request, verdict),
        None => present(cx, &config, &opened, &served),
    }
}

fn verdict_of(cx: &Context, request: &CutRequest, verdict: CutVerdict) -> Outcome {
    let next = next_commands(request);
    let machine = json!({ "request": request, "verdict": verdict.to_string(), "next": next });
    let people = || {
        format!(
            "{}  {verdict}\n{}{}",
            paint(HEAD, request.cut_request_id),
            render::fields(&fields(request)),
            next_lines(&next)
        )
    };
    match verdict {
        CutVerdict::Verified => cx.out.result(people, &machine),
        CutVerdict::Failed => cx.out.result_as(crate::exit_code::Exit::FAILED, people, &machine),
    }
}

/// Serves a request by this process.
fn serve(config: &Config, opened: &Opened, id: uuid::Uuid) -> Result<Served, Failure> {
    let caller = wire::caller(config, "request cut");
    let settings = deployment_settings(config, &opened.backup_fingerprint)?;
    let requests = opened.requests.as_ref();
    Ok(block_on(driver::serve(&opened.ports, requests, &caller, id, &settings))?)
}

/// The run as `orchestrate` shows it, under the request that it belongs to.
pub(super) fn present(cx: &Context, config: &Config, opened: &Opened, served: &Served) -> Outcome {
    let presented = orchestrate::present(&served.driven, opened.stores.runs.as_ref(), None);
    presented.tell(cx, config);
    let request = &served.request;
    // At a gate the run's own commands say what is next.
    let next = match presented.summary.paused_at {
        Some(_) => Vec::new(),
        None => next_commands(request),
    };
    let machine = json!({ "request": request, "run": presented, "next": next });
    let people = || {
        format!(
            "{}  {}\n{}{}",
            paint(HEAD, request.cut_request_id),
            request.status,
            orchestrate::people(&presented),
            next_lines(&next)
        )
    };
    cx.out.result_as(presented.exit, people, &machine)
}
