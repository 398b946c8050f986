//! `cutter request show`.

use clap::Args;
use cutter_core::operate::inspect::Summary;
use cutter_core::port::cut_request::CutRequests;
use cutter_core::record::cut_request::{CutRequest, Transition, next_commands};
use cutter_core::record::staging::StagingRecord;
use futures_executor::block_on;
use serde_json::{Value, json};

use super::{RequestArg, fields, get, next_lines, open};
use crate::config::Config;
use crate::context::Context;
use crate::failure::{Failure, Outcome};
use crate::render::{self, DIM, HEAD, paint, table};
use crate::wire;

/// Show a request: where it stands, its timeline, what is staged for it, and its run.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  cutter request show --request-id REQUEST
  cutter request show --request-id REQUEST --units     # what the reviewer of a mark reads
  cutter request show --request-id REQUEST --json")]
pub(super) struct ShowArgs {
    #[command(flatten)]
    request: RequestArg,
    /// The units of the staged manifest too.
    #[arg(long)]
    units: bool,
}

pub(super) fn run(cx: &Context, args: &ShowArgs) -> Outcome {
    let config = cx.config()?;
    let requests = open(&config)?;
    let request = get(requests.as_ref(), args.request.id)?;
    let timeline = block_on(requests.timeline(args.request.id))?;
    let staging = block_on(requests.staging(args.request.id))?;
    let units = if args.units { Some(staged_units(requests.as_ref(), &request)?) } else { None };
    let run = run_of(&config, &request);
    let next = next_commands(&request);
    let machine = json!({
        "request": request, "timeline": timeline, "staging": staging, "units": units, "run": run, "next": next,
    });
    let people = || {
        let mut text = format!("{}\n{}", paint(HEAD, args.request.id), render::fields(&fields(&request)));
        if let Some(run) = &run {
            text.push_str(&format!(
                "{}\n",
                render::fields(&[("run stands at", run.state.clone())]).trim_end()
            ));
        }
        text.push_str(&story(&timeline));
        text.push_str(&staged(&staging));
        if let Some(units) = &units {
            text.push_str(&listed(units));
        }
        text.push_str(&next_lines(&next));
        text
    };
    cx.out.result(people, &machine)
}

/// The run's own record, where this home has it.
fn run_of(config: &Config, request: &CutRequest) -> Option<Summary> {
    let stores = wire::stores(config).ok()?;
    let run_id = request.run_id()?;
    let sidecar = crate::commands::orchestrate::load(&stores, &run_id).ok()?;
    Some(Summary::of(&sidecar, &stores.runs.sidecar_location(&run_id)))
}

fn story(timeline: &[Transition]) -> String {
    let mut text = format!("\n{}\n", paint(HEAD, "Timeline"));
    for step in timeline {
        let from = step.from_status.map_or_else(|| "·".to_owned(), |s| s.to_string());
        text.push_str(&format!(
            "  {:.0}  {from} → {}  {}",
            step.occurred_at,
            step.to_status,
            paint(DIM, &step.actor)
        ));
        if let Some(reason) = step.detail.get("reason").and_then(Value::as_str) {
            text.push_str(&format!("  {reason}"));
        }
        text.push('\n');
    }
    text
}

fn staged(records: &[StagingRecord]) -> String {
    if records.is_empty() {
        return String::new();
    }
    let day = |at: Option<jiff::Timestamp>| at.map_or_else(|| "-".to_owned(), |at| format!("{at:.0}"));
    let row = |record: &StagingRecord| {
        vec![
            record.record_kind.clone(),
            record.lifecycle_status.clone(),
            render::size(record.byte_length),
            day(record.approved_at),
            day(record.consumed_at),
            day(record.expires_at),
            day(record.cleaned_at),
        ]
    };
    let header = ["staged", "is", "bytes", "approved", "consumed", "expires", "cleaned"];
    format!("\n{}", table(&header, records.iter().map(row).collect()))
}

/// The units of the staged manifest, as they stand in it.
fn staged_units(requests: &dyn CutRequests, request: &CutRequest) -> Result<Vec<Value>, Failure> {
    let missing = || Failure::gate(format!("request {} has no staged manifest", request.cut_request_id));
    let record = request.manifest_staging_record_id.ok_or_else(missing)?;
    let bytes = block_on(requests.staged_bytes(record))?.ok_or_else(missing)?;
    let manifest: Value =
        serde_json::from_slice(&bytes).map_err(|e| Failure::evidence(format!("the staged manifest: {e}")))?;
    Ok(manifest["units"].as_array().cloned().unwrap_or_default())
}

fn listed(units: &[Value]) -> String {
    let row = |unit: &Value| {
        let text = |name: &str| unit[name].as_str().unwrap_or("-").to_owned();
        let number = |name: &str| unit[name].as_u64().map_or_else(|| "-".to_owned(), |n| n.to_string());
        vec![text("address"), text("unit_kind"), text("section_type"), number("start"), number("end")]
    };
    let header = ["unit", "kind", "section", "from", "to"];
    format!("\n{}", table(&header, units.iter().map(row).collect()))
}
