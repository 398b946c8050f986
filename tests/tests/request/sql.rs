//! The same way by the SQL functions alone, as whoever has `psql` and nothing else drives it, with
//! `cutter request work` for the governed run.

use cutter_pg::login::Login;
use cutter_tests::cli::Deployment;
use uuid::Uuid;

use super::support::{
    WHOLE, assert_agreement, assert_nothing_else_is_touched, fifteen_days_pass, on, source, status, timeline,
};

/// A request whose run waits at its first gate stays there, whoever says otherwise.
#[test]
fn no_login_moves_a_request_past_a_gate() {
    let d = Deployment::new();
    let (file, document_id) = source(&d);
    let id = "0192f0c1-7c3e-7000-8000-000000000003";
    let _ = d.run(&["request", "add", &file, "--source-kind", "file", "--request-id", id]).exits(0);
    let _ = on(&d, "copy", id, &[]).exits(0);
    let _ = on(&d, "mark", id, &["--document-id", &document_id]).exits(0);
    let _ = on(&d, "verify-mark", id, &["--approve", "--approval-doc", &d.review("one")]).exits(0);
    let cut = on(&d, "cut", id, &[]).exits(0);
    let run = cut.text("/run/run_id").to_owned();
    let uuid = &run[run.len() - 36..];
    for login in [Login::Exec, Login::Verify, Login::Review, Login::Ro, Login::Directus] {
        let mut client = d.database.client(login);
        for call in [
            format!("SELECT cutter_governance.fn_cut_request_catch_up('{id}', 'op', now())"),
            format!("SELECT cutter_governance.fn_cut_request_follow('{run}', NULL, 'op', now())"),
            format!(
                "SELECT cutter_governance.fn_cut_request_follow('{uuid}', '{run}', 'leg_a', NULL, 'op', now())"
            ),
            format!("SELECT public.fn_cut_verify_cut('{id}', 'op')"),
            format!("SELECT public.fn_cut_complete('{id}', 'op')"),
            format!("SELECT public.fn_cut_request_transition('{id}', 'cut_done', 'op', '{{}}')"),
            format!("UPDATE public.cut_request SET status = 'cut_verified' WHERE cut_request_id = '{id}'"),
            "SELECT * FROM public.fn_cut_cleanup(100, 'op')".to_owned(),
        ] {
            let _ = client.batch_execute(&call);
        }
        assert_eq!(status(&d, id), "cut_in_progress", "{login}");
    }
    assert_agreement(&d, id);
    d.finish_run(&run);
    let _ = on(&d, "complete", id, &[]).exits(0);
}

#[test]
fn the_sql_functions_and_request_work_drive_a_whole_request() {
    let d = Deployment::new();
    let (file, document_id) = source(&d);
    let text = std::fs::read(&file).unwrap();
    let plan = d.run(&["plan", &file, "--document-id", &document_id]).exits(0);
    let digest = plan.text("/manifest_digest").to_owned();
    let mut exec = d.database.client(Login::Exec);
    let mut review = d.database.client(Login::Review);
    let mut verify = d.database.client(Login::Verify);
    let refused = |result: Result<Vec<postgres::Row>, postgres::Error>| {
        result.unwrap_err().as_db_error().unwrap().message().to_owned()
    };

    let id: Uuid = exec
        .query_one("SELECT public.fn_cut_request_add($1, 'kb_document', 'customer')", &[&file])
        .unwrap()
        .get(0);
    // The server reads no file until its owner names a folder.
    let off = refused(exec.query("SELECT public.fn_cut_copy_to_staging($1, 'law.md', 'op')", &[&id]));
    assert!(off.contains("folder"), "{off}");
    let copy = "
        SELECT cutter_governance.fn_cut_request_copied($1, gen_random_uuid(), $2, $3, 'law.md', 'op', now())";
    let sha = cutter_core::base::digest::Digest::of(&text).to_hex();
    let _ = exec.query_one(copy, &[&id, &text, &sha]).unwrap();
    let mark = "SELECT public.fn_cut_mark_staged_file($1, $2, $3, 'op')";
    let _ = exec.query_one(mark, &[&id, &plan.json, &digest]).unwrap();
    // The executor has no word on its own mark, and nothing is cut unverified.
    let own = "SELECT public.fn_cut_verify_mark($1, true, 'op', 'doc', NULL)";
    assert!(refused(exec.query(own, &[&id])).contains("permission denied"));
    let apply = "SELECT public.fn_cut_apply($1, $2, 'op')";
    assert!(refused(exec.query(apply, &[&id, &false])).contains("illegal cut_request transition marked->"));
    let _ = review.query_one(own, &[&id]).unwrap();

    // A dry run writes nothing: no signal is left for the worker.
    let _ = exec.query_one(apply, &[&id, &true]).unwrap();
    let id_text = id.to_string();
    assert_eq!(d.run(&["request", "work"]).exits(0).json["served"], serde_json::json!([]));
    let _ = exec.query_one(apply, &[&id, &false]).unwrap();
    let _ = exec.query_one(apply, &[&id, &false]).unwrap();
    assert_eq!(status(&d, &id_text), "mark_verified", "the signal alone moves nothing");

    let worked = d.run(&["request", "work"]).exits(0);
    assert_eq!(worked.json["served"].as_array().unwrap().len(), 1, "asked twice, enqueued once");
    assert_eq!(worked.text("/served/0/run/state"), "awaiting_cut_authorization");
    let run_id = worked.text("/served/0/run/run_id").to_owned();
    assert_agreement(&d, &id_text);
    // There is no way around a gate: the status functions cannot be called, and work waits.
    let by_hand = "SELECT public.fn_cut_request_transition($1, 'cut_done', 'op', '{}')";
    assert!(refused(exec.query(by_hand, &[&id])).contains("permission denied"));
    let waiting = d.run(&["request", "work"]).exits(0);
    assert_eq!(waiting.text("/served/0/run/state"), "awaiting_cut_authorization");
    d.approve(&run_id, "cut");
    let _ = verify.query_one("SELECT public.fn_cut_verify_cut($1, 'op')", &[&id]).unwrap();
    let _ = d.run(&["request", "work"]).exits(0);
    let verdict: Option<String> =
        verify.query_one("SELECT public.fn_cut_verify_cut($1, 'op')", &[&id]).unwrap().get(0);
    assert_eq!(verdict.as_deref(), Some("verified"));
    let complete = "SELECT public.fn_cut_complete($1, 'op')";
    assert!(refused(exec.query(complete, &[&id])).contains("complete.enacted"));
    d.approve(&run_id, "lifecycle");
    let done = d.run(&["request", "work"]).exits(0);
    assert_eq!(done.text("/served/0/run/state"), "closeout_reported");
    assert_eq!(d.run(&["request", "work"]).exits(0).json["served"], serde_json::json!([]), "it is over");
    let _ = exec.query_one(complete, &[&id]).unwrap();
    fifteen_days_pass(&d);
    let _ = d.run(&["request", "cleanup"]).exits(0);
    assert_eq!(timeline(&d, &id_text), WHOLE);
    assert_agreement(&d, &id_text);
    assert_nothing_else_is_touched(&d);
    d.verify(&run_id);

    // What the observer's views count.
    let mut reader = d.database.client(Login::Ro);
    let cleaned: i64 = reader
        .query_one("SELECT requests FROM public.v_cut_requests_by_status WHERE status = 'cleaned'", &[])
        .unwrap()
        .get(0);
    assert_eq!(cleaned, 1);
}
