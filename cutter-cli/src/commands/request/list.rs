//! `cutter request list`.

use std::str::FromStr;

use clap::Args;
use cutter_core::machine::cut_request::CutRequestStatus;
use cutter_core::port::cut_request::RequestQuery;
use cutter_core::record::cut_request::CutRequest;
use futures_executor::block_on;
use jiff::Timestamp;
use serde_json::json;
use uuid::Uuid;

use super::open;
use crate::context::Context;
use crate::failure::Outcome;
use crate::render::{DIM, paint, table};

/// List requests, newest first.
///
/// A long list comes in pages: the last line (`next_after` with --json) names where the next
/// one begins, and later requests never shift it.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  cutter request list
  cutter request list --status marked
  cutter request list --source knowledge/dev/laws/city-charter.md --json
  cutter request list --limit 20 --after 2026-05-20T10:11:12Z,0192f0c1-7c3e-7000-8000-000000000001")]
pub(super) struct ListArgs {
    /// Only requests in this status.
    #[arg(long, value_name = "STATUS")]
    status: Option<CutRequestStatus>,
    /// Only requests for this source.
    #[arg(long, value_name = "SOURCE")]
    source: Option<String>,
    /// At most so many.
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    limit: u32,
    /// Go on after this request.
    #[arg(long, value_name = "TIME,REQUEST")]
    after: Option<After>,
}

/// A place in the list.
#[derive(Debug, Clone, Copy)]
struct After(Timestamp, Uuid);

impl FromStr for After {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (at, id) =
            text.split_once(',').ok_or("expected TIME,REQUEST as the list's last line shows it")?;
        let at = at.parse().map_err(|e| format!("the time: {e}"))?;
        Ok(Self(at, id.parse().map_err(|e| format!("the request: {e}"))?))
    }
}

pub(super) fn run(cx: &Context, args: &ListArgs) -> Outcome {
    let config = cx.config()?;
    let query = RequestQuery {
        status: args.status,
        source_ref: args.source.clone(),
        after: args.after.map(|After(at, id)| (at, id)),
        limit: args.limit,
    };
    let found = block_on(open(&config)?.list(&query))?;
    let is_full = u32::try_from(found.len()).is_ok_and(|n| n == args.limit);
    let after = found.last().filter(|_| is_full).map(|r| format!("{},{}", r.requested_at, r.cut_request_id));
    let machine = json!({ "requests": found, "next_after": after });
    cx.out.result(|| people(&found, after.as_deref(), args), &machine)
}

fn people(found: &[CutRequest], after: Option<&str>, args: &ListArgs) -> String {
    if found.is_empty() {
        return format!("no requests\n{}\n", paint(DIM, "cutter request add --help"));
    }
    let row = |request: &CutRequest| {
        vec![
            request.cut_request_id.to_string(),
            request.status.to_string(),
            request.source_ref.clone(),
            request.requested_by.clone(),
            format!("{:.0}", request.requested_at),
            request.run_id().map_or_else(|| "-".to_owned(), |id| id.to_string()),
        ]
    };
    let header = ["request", "status", "source", "by", "at", "run"];
    let mut text = table(&header, found.iter().map(row).collect());
    if let Some(after) = after {
        let mut command = format!("cutter request list --limit {} --after {after}", args.limit);
        if let Some(status) = args.status {
            command.push_str(&format!(" --status {status}"));
        }
        if let Some(source) = &args.source {
            command.push_str(&format!(" --source '{source}'"));
        }
        text.push_str(&format!("{} {command}\n", paint(DIM, "next:")));
    }
    text
}
