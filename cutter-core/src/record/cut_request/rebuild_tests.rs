//! A request from its timeline: a whole life agrees, and each value that is changed is found by name.

use std::format;
use std::string::{String, ToString};
use std::vec::Vec;

use serde_json::{Value, json};

use super::model::{time, uuid};
use super::*;
use crate::machine::cut_request::CutRequestStatus as S;
use crate::record::staging::StagingRecord;

const RUN: &str = "ictr-20260520T101112Z-0196ed9a-1c00-7000-8000-000000000001";

type Staged = (StagingRecord, Option<(Digest, u64)>);

/// A life with a mark that was rejected, to the day on which the bytes went.
fn life() -> (CutRequest, Vec<Transition>, Vec<Staged>) {
    let digest = |text: &str| Digest::of(text.as_bytes());
    let mark = |n: u32| {
        let (id, digest) = (uuid(u64::from(n)), digest(&format!("mark {n}")));
        json!({ "manifest_digest": digest, "staging_record_id": id })
    };
    let moves = [
        (S::Requested, json!({})),
        (S::Copied, json!({ "sha256": digest("copy"), "staging_record_id": uuid(20) })),
        (S::MarkInProgress, json!({})),
        (S::Marked, mark(21)),
        (S::MarkRejected, json!({ "approval_doc_id": "no" })),
        (S::MarkInProgress, json!({})),
        (S::Marked, mark(22)),
        (S::MarkVerified, json!({ "approval_doc_id": "yes" })),
        (S::CutInProgress, json!({ "run_id": RUN })),
        (S::CutDone, json!({})),
        (S::CutVerified, json!({})),
        (S::Completed, json!({})),
        (S::CleanupScheduled, json!({ "cleanup_scheduled_at": time(900) })),
        (S::Cleaned, json!({})),
    ];
    let mut before = None;
    let timeline: Vec<Transition> = (1..)
        .zip(moves)
        .map(|(n, (to_status, detail))| Transition {
            transition_id: n,
            cut_request_id: uuid(1),
            from_status: before.replace(to_status),
            to_status,
            actor: "clara".into(),
            occurred_at: time(10 * i64::try_from(n).unwrap()),
            detail,
        })
        .collect();
    let mut request = CutRequest::new(uuid(1), "law".into(), "law".into(), "clara".into(), time(10));
    request.status = S::Cleaned;
    (request.source_hash, request.source_bytes) = (Some(digest("copy")), Some(4));
    (request.copy_staging_record_id, request.copied_at) = (Some(uuid(20)), Some(time(20)));
    (request.manifest_staging_record_id, request.marked_at) = (Some(uuid(22)), Some(time(70)));
    request.manifest_digest = Some(digest("mark 22"));
    (request.mark_verified_at, request.mark_verdict) = (Some(time(80)), Some(MarkVerdict::Approved));
    request.mark_approval_doc_id = Some("yes".into());
    request.cut_run_id = RUN.parse::<crate::base::id::RunId>().ok().map(|run| run.uuid());
    request.metadata = json!({ METADATA_RUN_ID: RUN });
    (request.cut_done_at, request.cut_verified_at) = (Some(time(100)), Some(time(110)));
    request.cut_verdict = Some(CutVerdict::Verified);
    (request.completed_at, request.cleaned_at) = (Some(time(120)), Some(time(140)));
    request.cleanup_scheduled_at = Some(time(900));
    let staged = |n: u64, text: &str| StagingRecord {
        staging_record_id: uuid(n),
        record_kind: "source_copy".into(),
        sha256: digest(text),
        byte_length: text.len() as u64,
        lifecycle_status: "cleaned".into(),
        vector_excluded: true,
        created_at: time(20),
        approved_at: None,
        consumed_at: None,
        expires_at: None,
        cleaned_at: Some(time(140)),
    };
    (
        request,
        timeline,
        [(20, "copy"), (21, "one"), (22, "two")].map(|(n, text)| (staged(n, text), None)).into(),
    )
}

/// The checks that fail, with what was observed.
fn wrong(request: &CutRequest, timeline: &[Transition], staged: &[Staged]) -> Vec<(String, String)> {
    let checks = rebuilt(request, timeline, staged);
    assert_eq!(checks.len(), 4);
    checks.into_iter().filter(|c| !c.ok).map(|c| (c.invariant, c.observed)).collect()
}

#[test]
fn each_field_follows_from_the_timeline() {
    let (request, timeline, staged) = life();
    assert_eq!(wrong(&request, &timeline, &staged), []);
    let whole = serde_json::to_value(&request).unwrap();
    for (name, value) in whole.as_object().unwrap() {
        let labels = ["cut_request_id", "source_ref", "source_kind", "source_path", "status", "metadata"];
        if labels.contains(&name.as_str()) || name == "source_bytes" {
            continue;
        }
        let other = match value {
            Value::String(text) if text.ends_with('Z') => json!(time(5_000)),
            Value::String(text) if text.len() == 64 => json!(Digest::of(b"other")),
            Value::String(text) if text.len() == 36 => json!(uuid(99)),
            Value::String(text) if text == "approved" => json!("rejected"),
            Value::String(text) if text == "verified" => json!("failed"),
            _ => json!("other"),
        };
        for other in [other, Value::Null] {
            let mut row = whole.clone();
            row[name] = other;
            let Ok(spoilt) = serde_json::from_value::<CutRequest>(row) else { continue };
            let found = wrong(&spoilt, &timeline, &staged);
            let says =
                |(id, observed): &(String, String)| id == "request.fields_follow" && observed.contains(name);
            assert!(found.iter().any(says), "{name}: {found:?}");
        }
    }
    let mut spoilt = request.clone();
    spoilt.metadata = json!({});
    assert!(wrong(&spoilt, &timeline, &staged)[0].1.contains(METADATA_RUN_ID));
    spoilt.status = S::Completed;
    let found: Vec<String> = wrong(&spoilt, &timeline, &staged).into_iter().map(|(id, _)| id).collect();
    assert_eq!(found, ["request.status_follows", "request.fields_follow"]);
}

#[test]
fn a_timeline_goes_by_legal_moves_from_one_to_the_next() {
    let (request, timeline, staged) = life();
    for n in 0..timeline.len() {
        let mut lost = timeline.clone();
        lost.remove(n);
        // the last one is missed by where the request stands
        let id = if n + 1 == timeline.len() { "request.status_follows" } else { "request.timeline_legal" };
        assert!(wrong(&request, &lost, &staged).iter().any(|(found, _)| found == id), "{n}");
        let mut other = timeline.clone();
        other[n].detail = json!({});
        let has_detail = timeline[n].detail.as_object().is_some_and(|detail| !detail.is_empty());
        // what a later move sets anew does not show
        let stands = has_detail && ![3, 4].contains(&n);
        assert_eq!(!wrong(&request, &other, &staged).is_empty(), stands, "{n}");
    }
    // a first move begins a request, and nothing else does
    assert_eq!(wrong(&request, &[], &staged).len(), 2);
    let mut twisted = timeline.clone();
    twisted[9].to_status = S::Completed;
    twisted[10].from_status = Some(S::Completed);
    assert!(wrong(&request, &twisted, &staged)[0].1.contains("completed: from cut_in_progress"));
}

#[test]
fn staged_bytes_are_those_of_their_records() {
    let (request, timeline, staged) = life();
    let says = |staged: &[Staged], what: &str| {
        let found = wrong(&request, &timeline, staged);
        assert!(
            matches!(&found[..], [(id, observed)] if id == "request.staged_bytes" && observed.contains(what)),
            "{what}: {found:?}"
        );
    };
    let mut there = staged.clone();
    there[0].1 = Some((there[0].0.sha256, 4));
    assert_eq!(wrong(&request, &timeline, &there), []);
    there[0].1 = Some((Digest::of(b"x"), 4));
    says(&there, "expected");
    there[0].1 = Some((there[0].0.sha256, 5));
    says(&there, "expected");
    there[0].1 = None;
    there[0].0.cleaned_at = None;
    says(&there, "expected");
    let mut other = staged.clone();
    other[0].0.byte_length = 5;
    says(&other, "other bytes than it says");
    says(&staged[..2], "the mark that the request names is not staged");
    let mut early = request.clone();
    early.manifest_staging_record_id = None;
    let found = wrong(&early, &timeline, &staged[..2]);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].1.contains("manifest_staging_record_id"), "{}", found[0].1.to_string());
}

#[test]
fn a_cut_that_failed_says_so() {
    let (whole, mut timeline, mut staged) = life();
    timeline.truncate(9);
    let last = timeline[8].clone();
    timeline.push(Transition {
        transition_id: 10,
        from_status: Some(S::CutInProgress),
        to_status: S::CutFailed,
        occurred_at: time(100),
        detail: json!({}),
        ..last
    });
    let mut row = serde_json::to_value(&whole).unwrap();
    for name in ["cut_done_at", "cut_verified_at", "completed_at", "cleanup_scheduled_at", "cleaned_at"] {
        row[name] = Value::Null;
    }
    (row["status"], row["cut_verdict"]) = (json!(S::CutFailed), json!("failed"));
    let failed: CutRequest = serde_json::from_value(row.clone()).unwrap();
    staged.clear();
    let fields = |request: &CutRequest| -> Vec<String> {
        let found = wrong(request, &timeline, &staged).into_iter();
        found.filter(|(id, _)| id == "request.fields_follow").map(|(_, observed)| observed).collect()
    };
    assert_eq!(fields(&failed), Vec::<String>::new());
    row["cut_verdict"] = Value::Null;
    assert!(fields(&serde_json::from_value(row).unwrap())[0].contains("cut_verdict"));
}
