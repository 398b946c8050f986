//! The steps that people take: add, copy, verify-mark, complete, cleanup.

use std::path::{Path, PathBuf};

use clap::{ArgGroup, Args};
use cutter_core::base::digest::Digest;
use cutter_core::base::limits;
use cutter_core::driver::{self, DriveError, ServeError};
use cutter_core::port::cut_request::{AddRequest, Cleanup, CleanupReport, CopySource, VerifyMark};
use cutter_core::record::cut_request::{CutRequest, DEFAULT_SOURCE_KIND, next_commands};
use cutter_core::text::mark::{MarkLimits, check_text};
use futures_executor::block_on;
use jiff::Timestamp;
use serde_json::json;
use uuid::Uuid;

use super::{RequestArg, answer, asked, get, open, refused};
use crate::commands::orchestrate::deployment_settings;
use crate::config::Config;
use crate::context::Context;
use crate::failure::{Failure, Outcome};
use crate::files::read_bounded;
use crate::render::{self, GOOD, paint};
use crate::wire::{self, RandomIds};

/// A source that is a file of whoever copies.
const FILE: &str = "file";

/// Ask for a document to be cut. Nothing is read yet.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  cutter request add knowledge/dev/laws/city-charter.md
  cutter request add ./city-charter.md --source-kind file
  cutter request add ./city-charter.md --source-kind file --request-id 0192f0c1-7c3e-7000-8000-000000000001")]
pub(super) struct AddArgs {
    /// What is to be cut: a document of the knowledge base, or what --source-kind says.
    #[arg(value_name = "SOURCE")]
    source_ref: String,
    /// What SOURCE names: `kb_document`, `file`, or a word of your own (then copy with --file).
    #[arg(long, value_name = "WORD", default_value = DEFAULT_SOURCE_KIND)]
    source_kind: String,
    /// The new request's id, so that asking again asks for nothing new [default: a new one].
    #[arg(long, value_name = "UUID")]
    request_id: Option<Uuid>,
}

pub(super) fn add(cx: &Context, args: &AddArgs) -> Outcome {
    let config = cx.config()?;
    let asked = asked(&config);
    let request = AddRequest {
        cut_request_id: args.request_id.unwrap_or_else(|| RandomIds.random_uuid(asked.at)),
        source_ref: args.source_ref.clone(),
        source_kind: args.source_kind.clone(),
        asked,
    };
    answer(cx, block_on(open(&config)?.add(&request))?)
}

/// Copy the source's bytes into staging, with their hash.
///
/// A document of the knowledge base is read there, a file here; --file names any other place.
/// The bytes must be UTF-8 and are kept as they are.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  cutter request copy --request-id REQUEST
  cutter request copy --request-id REQUEST --file ./city-charter.md")]
pub(super) struct CopyArgs {
    #[command(flatten)]
    request: RequestArg,
    /// Read this file instead of the source that the request names.
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
}

pub(super) fn copy(cx: &Context, args: &CopyArgs) -> Outcome {
    let config = cx.config()?;
    let requests = open(&config)?;
    let request = get(requests.as_ref(), args.request.id)?;
    let (source_path, content) = source(&config, &request, args.file.as_deref())?;
    let bounds = MarkLimits { max_bytes: usize::MAX, ..MarkLimits::default() };
    check_text(&content, &bounds).map_err(|e| Failure::usage(format!("{source_path}: {e}")))?;
    let asked = asked(&config);
    let copy = CopySource {
        cut_request_id: args.request.id,
        staging_record_id: RandomIds.random_uuid(asked.at),
        sha256: Digest::of(&content),
        content,
        source_path: Some(source_path),
        asked,
    };
    let outcome =
        block_on(requests.copy(&copy)).map_err(|e| refused(requests.as_ref(), args.request.id, e))?;
    answer(cx, outcome)
}

/// The bytes of a request's source, and where they were read.
fn source(config: &Config, request: &CutRequest, file: Option<&Path>) -> Result<(String, Vec<u8>), Failure> {
    let max = config.bounds.max_document_bytes.unwrap_or(limits::MAX_DOCUMENT_BYTES);
    let path = match (file, request.source_kind.as_str()) {
        (Some(file), _) => file.to_owned(),
        (None, FILE) => PathBuf::from(&request.source_ref),
        (None, DEFAULT_SOURCE_KIND) => {
            let document = block_on(wire::stores(config)?.kb.read(&request.source_ref))?;
            let document = document.ok_or_else(|| {
                Failure::usage(format!("{} is not in the knowledge base", request.source_ref))
                    .next(format!("cutter request copy --request-id {} --file FILE", request.cut_request_id))
            })?;
            return Ok((request.source_ref.clone(), document.bytes));
        }
        (None, kind) => {
            let text = format!("a source of the kind {kind:?} is copied from a file");
            let next = format!("cutter request copy --request-id {} --file FILE", request.cut_request_id);
            return Err(Failure::usage(text).next(next));
        }
    };
    Ok((path.display().to_string(), read_bounded(&path, max)?))
}

/// The reviewer's word on a mark: approve it, or send it back.
///
/// `cutter request show --units` shows what was marked. An approval names the document in which
/// it was given; a rejection says why, and the text is marked again.
#[derive(Debug, Args)]
#[command(group(ArgGroup::new("word").required(true).args(["approve", "reject"])), after_help = "\
Examples:
  cutter request verify-mark --request-id REQUEST --approve --approval-doc knowledge/reviews/charter.md
  cutter request verify-mark --request-id REQUEST --reject --reason 'article 7 is missing'")]
pub(super) struct VerifyMarkArgs {
    #[command(flatten)]
    request: RequestArg,
    /// It may be cut.
    #[arg(long, requires = "approval_doc")]
    approve: bool,
    /// It is to be marked again.
    #[arg(long, requires = "reason")]
    reject: bool,
    /// The document in which the approval was given: its path in the knowledge base.
    #[arg(long, value_name = "PATH")]
    approval_doc: Option<String>,
    /// Why.
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
}

pub(super) fn verify_mark(cx: &Context, args: &VerifyMarkArgs) -> Outcome {
    let config = cx.config()?;
    if let Some(path) = args.approval_doc.as_ref().filter(|_| args.approve) {
        stands(&config, path, args.request.id)?;
    }
    let requests = open(&config)?;
    let verdict = VerifyMark {
        cut_request_id: args.request.id,
        approve: args.approve,
        approval_doc_id: args.approval_doc.clone(),
        reason: args.reason.clone(),
        asked: asked(&config),
    };
    let outcome = block_on(requests.verify_mark(&verdict));
    answer(cx, outcome.map_err(|e| refused(requests.as_ref(), args.request.id, e))?)
}

/// Whether the document that an approval names is there to be read.
fn stands(config: &Config, path: &str, id: Uuid) -> Result<(), Failure> {
    match block_on(wire::stores(config)?.kb.read(path)) {
        Ok(Some(_)) => Ok(()),
        Ok(None) => Err(Failure::approval("the approval's document is not there; nothing was recorded")
            .broken("verify_mark.approval_doc", "a document of the knowledge base", format!("{path}: absent"))
            .next(format!("cutter request verify-mark --request-id {id} --approve --approval-doc PATH"))),
        Err(error) => Err(error.into()),
    }
}

/// Hand the result over. The staged bytes may go fifteen days later.
///
/// Only once the run is enacted: both approvals stand, and the units are in force. If the run has
/// not filed its last papers, it does that first.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  cutter request complete --request-id REQUEST")]
pub(super) struct CompleteArgs {
    #[command(flatten)]
    request: RequestArg,
}

pub(super) fn complete(cx: &Context, args: &CompleteArgs) -> Outcome {
    let config = cx.config()?;
    let (opened, id) = (wire::open(&config, &cx.out)?, args.request.id);
    let caller = wire::caller(&config, "request complete");
    let settings = deployment_settings(&config, &opened.backup_fingerprint)?;
    let requests = opened.requests.as_ref();
    let outcome = block_on(driver::hand_over(&opened.ports, requests, &caller, id, &settings));
    answer(
        cx,
        outcome.map_err(|error| match error {
            ServeError::Drive(error) => match *error {
                DriveError::Port(error) => refused(requests, id, error),
                error => error.into(),
            },
            error => error.into(),
        })?,
    )
}

/// Remove staged bytes whose day has come. Safe to repeat; requests and timelines stay.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  cutter request cleanup
  cutter request cleanup --limit 1000 --json
  cutter request cleanup --as-of 2026-06-04T00:00:00Z")]
pub(super) struct CleanupArgs {
    /// Say what would be due at this time, and remove nothing.
    #[arg(long, value_name = "TIME")]
    as_of: Option<Timestamp>,
    /// At most so many requests in one transaction; the command goes on until none is due.
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
    limit: u32,
}

pub(super) fn cleanup(cx: &Context, args: &CleanupArgs) -> Outcome {
    let config = cx.config()?;
    let requests = open(&config)?;
    let (as_of, asked) = (args.as_of, asked(&config));
    let cleanup = Cleanup { asked, as_of, limit: args.limit };
    let mut report = CleanupReport::default();
    loop {
        let pass = block_on(requests.cleanup(&cleanup))?;
        // What stays is told again.
        let is_last = as_of.is_some() || pass.requests.is_empty() && pass.records == 0;
        report.requests.extend(pass.requests);
        report.records += pass.records;
        report.bytes += pass.bytes;
        if is_last {
            break;
        }
    }
    let CleanupReport { requests, records, bytes } = report;
    let machine = json!({
        "as_of": as_of, "removed": as_of.is_none(), "requests": requests, "records": records, "bytes": bytes,
    });
    let people = || {
        let count = render::count(u64::try_from(requests.len()).unwrap_or(u64::MAX), "request");
        let what = format!("{}, {}", render::count(records, "record"), render::size(bytes));
        match as_of {
            None => format!("{} {count} cleaned: {what}\n", paint(GOOD, "ok")),
            Some(then) => format!(
                "{} {count} would be cleaned at {then}: {what}; nothing was removed\n",
                paint(GOOD, "as of:")
            ),
        }
    };
    cx.out.result(people, &machine)
}

/// What to type after a mark was staged.
pub(super) fn first_next(request: &CutRequest) -> Option<String> {
    next_commands(request).into_iter().next()
}
