//! A request rebuilt from its timeline, and compared with the row: every move leaves in its transition
//! what it set.

use alloc::borrow::ToOwned;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;

use jiff::Timestamp;
use serde_json::Value;

use super::{CutRequest, METADATA_RUN_ID, Transition};
use crate::base::digest::Digest;
use crate::base::id::RunId;
use crate::machine::cut_request::{CUT_REQUEST, CutRequestStatus as S};
use crate::record::check::{ABSENT, Check};
use crate::record::staging::StagingRecord;

/// What a move leaves in a request, besides its status.
const FIELDS: [&str; 19] = [
    "requested_by",
    "requested_at",
    "source_hash",
    "copy_staging_record_id",
    "copied_at",
    "manifest_staging_record_id",
    "manifest_digest",
    "marked_at",
    "mark_verified_at",
    "mark_verdict",
    "mark_approval_doc_id",
    "cut_run_id",
    METADATA_RUN_ID,
    "cut_done_at",
    "cut_verified_at",
    "cut_verdict",
    "completed_at",
    "cleanup_scheduled_at",
    "cleaned_at",
];

fn text(value: Option<&Value>) -> String {
    match value {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    }
}

/// Judges a request by its timeline, oldest first, and by the bytes that were staged for it: a record,
/// and the digest of its bytes while they are there.
#[must_use]
pub fn rebuilt(
    request: &CutRequest,
    timeline: &[Transition],
    staged: &[(StagingRecord, Option<(Digest, u64)>)],
) -> Vec<Check> {
    let row = serde_json::to_value(request).unwrap_or_default();
    let mut fields: BTreeMap<&str, String> = BTreeMap::new();
    let (mut wrong, mut status) = (Vec::new(), None);
    for moved in timeline {
        let is_next = moved.from_status == status && is_legal(status, moved.to_status);
        if !is_next {
            let from = moved.from_status.map_or(ABSENT.to_owned(), |s| s.to_string());
            let stood = status.map_or(ABSENT.to_owned(), |s| s.to_string());
            wrong.push(format!("{}: from {from}, where it stood at {stood}", moved.to_status));
        }
        status = Some(moved.to_status);
        apply(&mut fields, moved);
    }
    let observed = |name: &str| match name {
        METADATA_RUN_ID => text(row.get("metadata").and_then(|m| m.get(name))),
        name => text(row.get(name)),
    };
    let differs = |name: &&str| {
        let (expected, observed) = (fields.get(*name).cloned().unwrap_or_default(), observed(name));
        (expected != observed).then(|| format!("{name}: expected {expected:?}, observed {observed:?}"))
    };
    let differing: Vec<String> = FIELDS.iter().filter_map(differs).collect();
    let stands = status.map_or(ABSENT.to_owned(), |s| s.to_string());
    vec![
        Check::empty("request.timeline_legal", &wrong),
        Check::equal("request.status_follows", &stands, &request.status.to_string()),
        Check::empty("request.fields_follow", &differing),
        Check::empty("request.staged_bytes", &bytes(request, staged)),
    ]
}

fn is_legal(from: Option<S>, to: S) -> bool {
    from.map_or(to == S::Requested, |from| CUT_REQUEST.check(from, to).is_ok())
}

/// What the database's own move sets (`fn_cut_request_move`).
fn apply(fields: &mut BTreeMap<&'static str, String>, moved: &Transition) {
    let (at, said) = (moved.occurred_at.to_string(), |name: &str| text(moved.detail.get(name)));
    let mut set = |name: &'static str, value: String| fields.insert(name, value);
    match moved.to_status {
        S::Requested => {
            set("requested_by", moved.actor.clone());
            set("requested_at", at);
        }
        S::Copied => {
            set("copied_at", at);
            set("source_hash", said("sha256"));
            set("copy_staging_record_id", said("staging_record_id"));
        }
        S::MarkInProgress => {
            set("mark_verdict", String::new());
            set("mark_approval_doc_id", String::new());
        }
        S::Marked => {
            set("marked_at", at);
            set("manifest_digest", said("manifest_digest"));
            set("manifest_staging_record_id", said("staging_record_id"));
        }
        S::MarkVerified => {
            set("mark_verified_at", at);
            set("mark_verdict", "approved".to_owned());
            set("mark_approval_doc_id", said("approval_doc_id"));
        }
        S::MarkRejected => {
            set("mark_verdict", "rejected".to_owned());
            set("mark_approval_doc_id", said("approval_doc_id"));
        }
        S::CutInProgress => {
            let run = said("run_id");
            let uuid = run.parse::<RunId>().map(|run| run.uuid().to_string());
            set("cut_run_id", uuid.unwrap_or_default());
            set(METADATA_RUN_ID, run);
        }
        S::CutDone => {
            set("cut_done_at", at);
        }
        S::CutVerified => {
            set("cut_verified_at", at);
            set("cut_verdict", "verified".to_owned());
        }
        S::CutFailed => {
            set("cut_verdict", "failed".to_owned());
        }
        S::Completed => {
            set("completed_at", at);
        }
        S::CleanupScheduled => {
            let due: Option<Timestamp> = said("cleanup_scheduled_at").parse().ok();
            set("cleanup_scheduled_at", due.map(|due| due.to_string()).unwrap_or_default());
        }
        S::Cleaned => {
            set("cleaned_at", at);
        }
    }
}

/// Staged bytes are those of their record, and those of the copy are those of the request.
fn bytes(request: &CutRequest, staged: &[(StagingRecord, Option<(Digest, u64)>)]) -> Vec<String> {
    let mut wrong = Vec::new();
    for (record, found) in staged {
        let id = record.staging_record_id;
        let is_gone = record.cleaned_at.is_some();
        match found {
            Some(found) if *found == (record.sha256, record.byte_length) => {}
            None if is_gone => {}
            Some((sha256, _)) => wrong.push(format!("{id}: expected {}, observed {sha256}", record.sha256)),
            None => wrong.push(format!("{id}: expected {}, observed {ABSENT}", record.sha256)),
        }
    }
    let of = |wanted: Option<uuid::Uuid>| {
        let found = staged.iter().find(|(record, _)| Some(record.staging_record_id) == wanted);
        found.map(|(record, _)| record)
    };
    let copied = of(request.copy_staging_record_id).map(|r| (Some(r.sha256), Some(r.byte_length)));
    if copied.unwrap_or_default() != (request.source_hash, request.source_bytes) {
        wrong.push("the copy that the request names has other bytes than it says".to_owned());
    }
    if request.manifest_staging_record_id.is_some() && of(request.manifest_staging_record_id).is_none() {
        wrong.push("the mark that the request names is not staged".to_owned());
    }
    wrong
}
