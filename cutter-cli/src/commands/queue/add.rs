//! `cutter queue add`.

use clap::{ArgGroup, Args};
use cutter_core::base::id::RunId;
use cutter_core::base::limits;
use cutter_core::operate::fleet::{CutJob, Job};
use cutter_core::port::cut_request::CutRequests;
use cutter_core::port::database::Reader as _;
use cutter_core::port::work_queue::WorkQueue as _;
use cutter_core::record::queue::NewItem;
use cutter_core::record::sidecar::Mode;
use cutter_core::text::address::DocumentId;
use cutter_pg::login::Login;
use futures_executor::block_on;
use serde_json::json;
use uuid::Uuid;

use super::{item, machine, open};
use crate::commands::plan::{self, CutOptions, ManifestOption};
use crate::config::Config;
use crate::context::Context;
use crate::failure::{Failure, Outcome};
use crate::render::{DIM, GOOD, WARN, paint};
use crate::wire;

/// Ask for something to be done by a worker.
///
/// A document is cut as `cutter orchestrate cut` would: the profile is chosen now and fixed in the
/// item, and so is the version; bounds and people are those of the worker's configuration. The key
/// is made of document and version, of the run, or of the request: adding twice is adding once. Another
/// priority than that of the item that stands is a conflict (exit code 4).
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("what").required(true).args(["document_id", "run_id", "request_id"]))]
#[command(after_help = "\
Examples:
  cutter queue add --document-id CITY-CHARTER
  cutter queue add --document-id GG --profile de --priority -10
  cutter queue add --run-id RUN              # drive a run on that is parked or was left
  cutter queue add --request-id REQUEST --json")]
pub(super) struct AddArgs {
    /// Cut this document, as registered.
    #[arg(long, value_name = "ID")]
    document_id: Option<String>,
    /// Drive this run on.
    #[arg(long, value_name = "RUN")]
    run_id: Option<RunId>,
    /// Serve this cut request.
    #[arg(long, value_name = "REQUEST")]
    request_id: Option<Uuid>,
    /// Lower goes first [default: 0].
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    priority: Option<i32>,
    /// A key of your own: asking again for what ended needs a new one.
    #[arg(long, value_name = "KEY")]
    key: Option<String>,
    /// A dry run: stop before the first gate.
    #[arg(long, requires = "document_id")]
    dry_run: bool,
    #[command(flatten)]
    cut: CutOptions,
    #[command(flatten)]
    manifest: ManifestOption,
}

pub(super) fn run(cx: &Context, args: &AddArgs) -> Outcome {
    let config = cx.config()?;
    let job = match (&args.document_id, &args.run_id, args.request_id) {
        (Some(document_id), ..) => Job::Cut(Box::new(cut_job(cx, &config, args, document_id)?)),
        (_, Some(run_id), _) => Job::Run(run_id.clone()),
        (_, _, Some(id)) => request_job(&config, id)?,
        _ => return Err(Failure::usage("nothing is asked for").next("cutter queue add --help")),
    };
    let refused = |error: cutter_core::record::queue::InvalidItem| {
        Failure::usage(error.to_string()).next("cutter queue add --help")
    };
    let new = job.to_item(args.key.as_deref()).map_err(refused)?;
    let new: NewItem = new.priority(args.priority.unwrap_or_default()).actor(config.actor.clone());
    let queue = open(&config, Login::Exec)?;
    let enqueued = block_on(queue.enqueue(std::slice::from_ref(&new)))?;
    let found = enqueued.first().ok_or_else(|| Failure::internal("the queue answered nothing"))?;
    let stands = item(&queue, found.item)?;
    if let Some(priority) = args.priority.filter(|priority| !found.is_new && *priority != stands.priority) {
        return Err(Failure::gate(format!(
            "item {} stands under {} with another priority",
            stands.item, stands.key
        ))
        .broken("enqueue.same_priority", stands.priority.to_string(), priority.to_string())
        .next(format!("cutter queue show {}", stands.item)));
    }
    let mut value = machine(&stands);
    value["already"] = json!(!found.is_new);
    let mut next = vec![format!("cutter queue show {}", stands.item)];
    if stands.is_terminal() {
        next.push("cutter queue add --help".to_owned());
    } else if found.is_new {
        next.push("cutter worker --drain".to_owned());
    }
    value["next"] = json!(next);
    let people = || {
        let word = if found.is_new { paint(GOOD, "queued") } else { paint(WARN, "already") };
        let mut text = format!("{word}  item {}  {}  {}\n", stands.item, stands.key, stands.state);
        if stands.is_terminal() {
            text.push_str(&format!(
                "{}\n",
                paint(DIM, "it has ended; asking for the same again needs a key of your own (--key)")
            ));
        }
        text.push_str(&format!("next: {}\n", next[0]));
        text
    };
    cx.out.result(people, &value)
}

fn cut_job(cx: &Context, config: &Config, args: &AddArgs, document_id: &str) -> Result<CutJob, Failure> {
    let bounds = args.cut.max_candidates.is_some()
        || args.cut.max_document_bytes.is_some()
        || !args.cut.forbidden_prefixes.is_empty();
    if bounds {
        return Err(Failure::usage("bounds are those of the worker's configuration").broken(
            "queue.add.bounds",
            "no --max-candidates, --max-document-bytes, --forbid",
            "one of them",
        ));
    }
    let id = DocumentId::parse(document_id).map_err(|e| Failure::usage(e.to_string()))?;
    let reader = wire::reader(config)?;
    let found = block_on(reader.source(document_id))?.and_then(|source| source.latest);
    let version = found.ok_or_else(|| {
        Failure::usage(format!("no document {document_id} is registered"))
            .next(format!("cutter source add FILE --document-id {document_id}"))
    })?;
    let text = block_on(reader.source_text(version.source_version_id))?;
    let chosen = args.cut.choose(&text, &plan::mark_limits(&args.cut, limits::MAX_DOCUMENT_BYTES)?)?;
    if let Some(warning) = chosen.warning() {
        cx.out.warn(format!("{document_id}: {warning}"));
    }
    let explicit = args.manifest.read()?;
    Ok(CutJob {
        mode: if args.dry_run { Mode::Dryrun } else { Mode::Live },
        source_sha256: version.sha256,
        plan: plan::plan_settings(&args.cut, &chosen, &id, explicit),
    })
}

fn request_job(config: &Config, id: Uuid) -> Result<Job, Failure> {
    let absent = || Failure::usage(format!("no such cut request: {id}")).next("cutter request list");
    let request = block_on(CutRequests::get(&wire::reader(config)?, id))?.ok_or_else(absent)?;
    Ok(Job::Request { cut_request_id: request.cut_request_id, signal_id: None })
}
