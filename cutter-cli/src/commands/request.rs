//! `cutter request`: a customer's cut request, from before the copy to after the cleanup (spec 5).

mod cut;
mod list;
mod mark;
mod show;
mod steps;
mod work;

use std::sync::Arc;

use clap::{Args, Subcommand};
use cutter_core::driver::ServeError;
use cutter_core::port::cut_request::{Asked, CutRequests, OnRequest, RequestOutcome};
use cutter_core::port::database::Reader as _;
use cutter_core::port::{PortError, PortErrorKind};
use cutter_core::record::cut_request::{CutRequest, next_commands};
use cutter_pg::PgDatabase;
use cutter_pg::login::Login;
use futures_executor::block_on;
use serde::Serialize;
use uuid::Uuid;

use crate::config::Config;
use crate::context::Context;
use crate::failure::{Broken, Failure, Outcome};
use crate::render::{self, DIM, GOOD, HEAD, paint};
use crate::wire;

/// A customer's request to cut a document: copy, mark, review, cut, verify, hand over, clean up.
///
/// A request exists before its text is copied and after its staged bytes are gone. Its mark is
/// reviewed before anything is cut; the cut itself is a governed run with both approval gates.
#[derive(Debug, Args)]
pub(crate) struct RequestArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Add(steps::AddArgs),
    Copy(steps::CopyArgs),
    Mark(Box<mark::MarkArgs>),
    VerifyMark(steps::VerifyMarkArgs),
    Cut(cut::CutArgs),
    VerifyCut(cut::VerifyCutArgs),
    Complete(steps::CompleteArgs),
    Cleanup(steps::CleanupArgs),
    Work(work::WorkArgs),
    List(list::ListArgs),
    Show(show::ShowArgs),
}

pub(crate) fn run(cx: &Context, args: &RequestArgs) -> Outcome {
    match &args.command {
        Command::Add(args) => steps::add(cx, args),
        Command::Copy(args) => steps::copy(cx, args),
        Command::Mark(args) => mark::run(cx, args),
        Command::VerifyMark(args) => steps::verify_mark(cx, args),
        Command::Cut(args) => cut::cut(cx, args),
        Command::VerifyCut(args) => cut::verify_cut(cx, args),
        Command::Complete(args) => steps::complete(cx, args),
        Command::Cleanup(args) => steps::cleanup(cx, args),
        Command::Work(args) => work::run(cx, args),
        Command::List(args) => list::run(cx, args),
        Command::Show(args) => show::run(cx, args),
    }
}

/// Which request.
#[derive(Debug, Args)]
struct RequestArg {
    /// The request, as `cutter request list` shows it.
    #[arg(long = "request-id", value_name = "REQUEST")]
    id: Uuid,
}

/// The requests, by the logins of who asks.
fn open(config: &Config) -> Result<Arc<dyn CutRequests>, Failure> {
    let logins = [Login::Ro, Login::Exec, Login::Verify, Login::Review];
    let database = PgDatabase::connect(wire::connections(config, &logins)?);
    block_on(database.check_schema())?;
    Ok(Arc::new(database))
}

fn asked(config: &Config) -> Asked {
    Asked { actor: config.actor.clone(), at: wire::now() }
}

fn on(config: &Config, id: Uuid) -> OnRequest {
    OnRequest { cut_request_id: id, asked: asked(config) }
}

fn no_request(id: Uuid) -> Failure {
    let mut failure = Failure::no_run(&id.to_string()).next("cutter request list");
    failure.code = "request_not_found".to_owned();
    failure.what = format!("no such cut request: {id}");
    failure.next.remove(0);
    failure
}

fn get(requests: &dyn CutRequests, id: Uuid) -> Result<CutRequest, Failure> {
    block_on(requests.get(id))?.ok_or_else(|| no_request(id))
}

/// A port's refusal, with what may be typed instead.
fn refused(requests: &dyn CutRequests, id: Uuid, error: PortError) -> Failure {
    if error.kind == PortErrorKind::NotFound {
        return no_request(id);
    }
    let kind = error.kind;
    let mut failure = Failure::from(error);
    if kind == PortErrorKind::Conflict
        && let Ok(Some(request)) = block_on(requests.get(id))
    {
        failure.next.extend(next_commands(&request).into_iter().take(1));
    }
    failure
}

impl From<ServeError> for Failure {
    fn from(error: ServeError) -> Self {
        let what = error.to_string();
        match error {
            ServeError::NotFound(id) => no_request(id),
            ServeError::NotNow(_) => Self::gate(what),
            ServeError::Staged(_) => Self::gate(what).next("cutter request add --help"),
            ServeError::Refused(checks) => {
                let mut failure = Self::gate(what).next("cutter request add --help");
                failure.broken = checks
                    .into_iter()
                    .map(|c| Broken { invariant: c.invariant, expected: c.expected, observed: c.observed })
                    .collect();
                failure
            }
            ServeError::Drive(error) => (*error).into(),
        }
    }
}

/// A request with the commands that may be typed next: what most of these commands answer.
#[derive(Debug, Serialize)]
struct Answer {
    #[serde(flatten)]
    request: CutRequest,
    /// It stood so already: nothing was written.
    already: bool,
    next: Vec<String>,
}

fn answer(cx: &Context, outcome: RequestOutcome) -> Outcome {
    let next = next_commands(&outcome.request);
    let shown = Answer { request: outcome.request, already: outcome.already, next };
    cx.out.result(|| people(&shown), &shown)
}

fn people(answer: &Answer) -> String {
    let word = if answer.already { "already so" } else { "ok" };
    let mut text = format!("{}  {}\n", paint(GOOD, word), paint(HEAD, answer.request.cut_request_id));
    text.push_str(&render::fields(&fields(&answer.request)));
    text.push_str(&next_lines(&answer.next));
    text
}

fn next_lines(next: &[String]) -> String {
    let mut text = String::new();
    for (i, command) in next.iter().enumerate() {
        let label = if i == 0 { "next:" } else { "or:" };
        text.push_str(&format!("{} {command}\n", paint(DIM, label)));
    }
    text
}

/// What is known of a request, as rows; what is not known yet has no row.
fn fields(request: &CutRequest) -> Vec<(&'static str, String)> {
    let mut rows = vec![
        ("source", format!("{} ({})", request.source_ref, request.source_kind)),
        ("requested by", format!("{}, {}", request.requested_by, request.requested_at)),
        ("status", request.status.to_string()),
    ];
    let mut row = |label, value: Option<String>| rows.extend(value.map(|value| (label, value)));
    row("copied from", request.source_path.clone());
    row("bytes", request.source_bytes.map(|n| n.to_string()));
    row("sha256", request.source_hash.map(|d| d.to_hex()));
    row("manifest_digest", request.manifest_digest.map(|d| d.to_hex()));
    row("mark", request.mark_verdict.map(|v| v.to_string()));
    row("approved in", request.mark_approval_doc_id.clone());
    row("run", request.run_id().map(|id| id.to_string()));
    row("cut", request.cut_verdict.map(|v| v.to_string()));
    row("staged bytes go", request.cleanup_scheduled_at.map(|t| t.to_string()));
    row("they went", request.cleaned_at.map(|t| t.to_string()));
    rows
}
