//! A law through a whole request, by the commands.

use cutter_pg::login::Login;
use cutter_tests::cli::Deployment;

use super::support::{
    WHOLE, after_cleanup_day, assert_agreement, assert_nothing_else_is_touched, fifteen_days_pass, on,
    source, staged, status, timeline,
};

#[test]
fn a_law_goes_through_a_whole_request_by_the_commands() {
    let d = Deployment::new();
    let (file, document_id) = source(&d);
    let id = "0192f0c1-7c3e-7000-8000-000000000001";
    let add = ["request", "add", &file, "--source-kind", "file", "--request-id", id];
    let added = d.run(&add).exits(0);
    assert_eq!((added.text("/status"), added.json["already"].as_bool()), ("requested", Some(false)));
    assert_eq!(d.run(&add).exits(0).json["already"].as_bool(), Some(true));

    // Nothing may be done before its time; the answer is the table's, with the command that may.
    let early = on(&d, "cut", id, &[]).exits(4);
    assert!(early.text("/error/message").contains("illegal cut_request transition requested->"), "{early:?}");
    assert!(early.text("/error/next/0").ends_with(&format!("request copy --request-id {id}")), "{early:?}");
    let _ = on(&d, "complete", id, &[]).exits(4);
    assert_eq!(status(&d, id), "requested");

    let _ = on(&d, "copy", id, &[]).exits(0);
    assert_eq!(on(&d, "copy", id, &[]).exits(0).json["already"].as_bool(), Some(true));
    let marked = on(&d, "mark", id, &["--document-id", &document_id, "--depth", "2"]).exits(0);
    assert_eq!(marked.text("/status"), "marked");
    // A reviewer sends it back, with a reason; it is marked again.
    let reject = ["--reject", "--reason", "too coarse"];
    assert_eq!(on(&d, "verify-mark", id, &reject).exits(0).text("/status"), "mark_rejected");
    let _ = on(&d, "mark", id, &["--document-id", &document_id]).exits(0);
    let units = on(&d, "show", id, &["--units"]).exits(0);
    let wanted = units.json["units"].as_array().unwrap().len();
    assert!(wanted > 10, "{wanted}");
    let _ = on(&d, "verify-mark", id, &["--approve"]).exits(2);
    let absent = on(&d, "verify-mark", id, &["--approve", "--approval-doc", "reviews/one.md"]);
    assert!(absent.stdout.contains("verify_mark.approval_doc"), "{}", absent.stdout);
    assert_eq!(status(&d, id), "marked");
    let review = d.review("one");
    let approve = ["--approve", "--approval-doc", &review];
    assert_eq!(on(&d, "verify-mark", id, &approve).exits(0).text("/status"), "mark_verified");
    assert_eq!(on(&d, "verify-mark", id, &approve).exits(0).json["already"], true);
    let other = on(&d, "verify-mark", id, &["--approve", "--approval-doc", &d.review("two")]).exits(4);
    assert!(other.text("/error/message").contains("verify_mark.same_document"), "{}", other.stdout);

    let dry = on(&d, "cut", id, &["--dry-run"]).exits(0);
    assert_eq!(dry.json["units"].as_u64(), u64::try_from(wanted).ok());
    assert_eq!(status(&d, id), "mark_verified");

    let cut = on(&d, "cut", id, &[]).exits(0);
    assert_eq!(cut.text("/request/status"), "cut_in_progress");
    assert_eq!(cut.text("/run/state"), "awaiting_cut_authorization");
    let run_id = cut.text("/run/run_id").to_owned();
    assert_eq!(cut.text("/request/metadata/run_id"), run_id);
    assert_agreement(&d, id);
    // Without an approval it waits, by whichever command.
    assert_eq!(on(&d, "cut", id, &[]).exits(0).text("/run/state"), "awaiting_cut_authorization");
    d.approve(&run_id, "cut");
    let verified = on(&d, "verify-cut", id, &[]).exits(0);
    assert_eq!(verified.text("/verdict"), "verified");
    assert_agreement(&d, id);
    // Cut and verified, but not in force: nothing to hand over yet.
    let early = on(&d, "complete", id, &[]).exits(4);
    assert!(early.text("/error/message").contains("complete.enacted"), "{early:?}");
    d.approve(&run_id, "lifecycle");
    let done = on(&d, "cut", id, &[]).exits(0);
    assert_eq!(done.text("/run/state"), "closeout_reported");
    assert_eq!(on(&d, "complete", id, &[]).exits(0).text("/status"), "cleanup_scheduled");
    assert_eq!(on(&d, "complete", id, &[]).exits(0).json["already"].as_bool(), Some(true));
    d.verify(&run_id);

    // Nothing is due for fifteen days; then the bytes go, once.
    assert_eq!(d.run(&["request", "cleanup"]).exits(0).json["records"], 0);
    assert!(staged(&d, id).iter().all(|record| record["cleaned_at"].is_null()));
    // A day that is not yet there can be asked about; nothing goes by it.
    let late = after_cleanup_day();
    let told = d.run(&["request", "cleanup", "--as-of", &late]).exits(0);
    assert_eq!(told.json["requests"], serde_json::json!([id]));
    assert_eq!(told.json["removed"], false);
    assert_eq!(status(&d, id), "cleanup_scheduled");
    assert!(staged(&d, id).iter().all(|record| record["cleaned_at"].is_null()));
    fifteen_days_pass(&d);
    let cleaned = d.run(&["request", "cleanup"]).exits(0);
    assert_eq!(cleaned.json["requests"], serde_json::json!([id]));
    assert_eq!(cleaned.json["bytes"], told.json["bytes"]);
    assert!(cleaned.json["bytes"].as_u64().unwrap() > 0);
    assert_eq!(d.run(&["request", "cleanup"]).exits(0).json["records"], 0);

    // The request and its story outlive what was staged.
    assert_eq!(status(&d, id), "cleaned");
    let mut expected: Vec<&str> = WHOLE.to_vec();
    expected.splice(4..4, ["mark_rejected", "mark_in_progress", "marked"]);
    assert_eq!(timeline(&d, id), expected);
    for record in staged(&d, id) {
        assert_eq!(record["lifecycle_status"], "cleaned", "{record}");
        assert_eq!(record["vector_excluded"], true);
        assert!(!record["cleaned_at"].is_null() && !record["expires_at"].is_null(), "{record}");
    }
    let payloads: i64 = d
        .database
        .client(Login::Admin)
        .query_one("SELECT count(*) FROM iu_core.iu_staging_payload", &[])
        .unwrap()
        .get(0);
    assert_eq!(payloads, 0);
    assert_agreement(&d, id);
    assert_nothing_else_is_touched(&d);

    // The same text again needs no second run: the new request is answered by the one that stands,
    // but a run serves one request.
    let listed = d.run(&["request", "list", "--status", "cleaned"]).exits(0);
    assert_eq!(listed.json["requests"][0]["cut_request_id"], id);
    assert!(listed.json["next_after"].is_null());
}

#[test]
fn a_mark_that_a_gate_would_refuse_is_refused_when_it_is_made() {
    let d = Deployment::new();
    let (file, document_id) = source(&d);
    let added = d.run(&["request", "add", &file, "--source-kind", "file"]).exits(0);
    let id = added.text("/cut_request_id").to_owned();
    let none = on(&d, "mark", &id, &[]).exits(4);
    assert!(none.text("/error/next/0").ends_with(&format!("request copy --request-id {id}")), "{none:?}");
    let _ = on(&d, "copy", &id, &[]).exits(0);
    let few = on(&d, "mark", &id, &["--document-id", &document_id, "--max-candidates", "2"]).exits(4);
    assert_eq!(few.text("/error/invariants/0/invariant"), "mark.candidate_count_within");
    let forbidden = on(&d, "mark", &id, &["--document-id", &document_id, "--forbid", &document_id]).exits(4);
    assert_eq!(forbidden.text("/error/invariants/0/invariant"), "cutplan.forbidden");
    assert_eq!(status(&d, &id), "copied");
    let _ = on(&d, "show", "0192f0c1-7c3e-7000-8000-00000000dead", &[]).exits(66);
}

#[test]
fn a_run_that_fails_or_is_voided_fails_its_request() {
    let d = Deployment::new();
    let (file, document_id) = source(&d);
    let added = d.run(&["request", "add", &file, "--source-kind", "file"]).exits(0);
    let id = added.text("/cut_request_id").to_owned();
    let _ = on(&d, "copy", &id, &[]).exits(0);
    let _ = on(&d, "mark", &id, &["--document-id", &document_id]).exits(0);
    let _ = on(&d, "verify-mark", &id, &["--approve", "--approval-doc", &d.review("one")]).exits(0);
    let run_id = on(&d, "cut", &id, &[]).exits(0).text("/run/run_id").to_owned();
    let _ = d.run(&["orchestrate", "void", "--run-id", &run_id]).exits(5);
    d.approve(&run_id, "void");
    let _ = d.run(&["orchestrate", "void", "--run-id", &run_id]).exits(0);
    assert_eq!(status(&d, &id), "cut_failed");
    assert_agreement(&d, &id);
    // An end, until a human opens a new request: which the voided run does not stand against.
    let _ = on(&d, "cut", &id, &[]).exits(4);
    let again = d.run(&["request", "add", &file, "--source-kind", "file"]).exits(0);
    let again = again.text("/cut_request_id").to_owned();
    let _ = on(&d, "copy", &again, &[]).exits(0);
    let _ = on(&d, "mark", &again, &["--document-id", &document_id]).exits(0);
    let _ = on(&d, "verify-mark", &again, &["--approve", "--approval-doc", &d.review("one")]).exits(0);
    let cut = on(&d, "cut", &again, &[]).exits(0);
    assert_eq!(cut.text("/run/state"), "awaiting_cut_authorization");
    assert_ne!(cut.text("/run/run_id"), run_id);
}
