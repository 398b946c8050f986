//! What the tests of requests share.

use cutter_core::machine::run::RunState;
use cutter_core::record::cut_request::{MarkVerdict, Standing, consistency};
use cutter_pg::login::Login;
use cutter_tests::cli::{Deployment, Ran, law};
use serde_json::Value;

/// A law of the corpus, else one of our own: its file below the home, and the document's id.
pub fn source(d: &Deployment) -> (String, String) {
    let text = cutter_tests::cli::corpus("a law through a whole request")
        .map(|folder| folder.join("de-gesetze/erbstdv_1998.md"))
        .filter(|path| path.is_file())
        .map_or_else(|| law(20, "the request").into_bytes(), |path| std::fs::read(path).unwrap());
    let path = d.path("the-law.md");
    std::fs::write(&path, text).unwrap();
    (path.to_str().unwrap().to_owned(), "THE-LAW".to_owned())
}

/// Runs a `request` command on one request.
pub fn on(d: &Deployment, step: &str, id: &str, more: &[&str]) -> Ran {
    let mut arguments = vec!["request", step, "--request-id", id];
    arguments.extend(more);
    d.run(&arguments)
}

/// The request as it stands.
pub fn status(d: &Deployment, id: &str) -> String {
    on(d, "show", id, &[]).exits(0).text("/request/status").to_owned()
}

/// Asserts that request, backlog entry and run agree.
#[track_caller]
pub fn assert_agreement(d: &Deployment, id: &str) {
    let sql = "
        SELECT q.status, q.mark_verdict, q.cut_run_id IS NOT NULL, e.status,
            EXISTS (SELECT FROM cutter_governance.cut_change_set c WHERE c.run_id = q.metadata ->> 'run_id'
                AND c.kind = 'cut'),
            (SELECT r.passed FROM cutter_governance.verify_result r
             JOIN cutter_governance.cut_change_set c USING (change_set_id)
             WHERE c.run_id = q.metadata ->> 'run_id'),
            EXISTS (SELECT FROM cutter_governance.run_effect f WHERE f.run_id = q.metadata ->> 'run_id'
                AND f.effect = 'enact'),
            q.metadata ->> 'run_id'
        FROM public.cut_request q
        LEFT JOIN cutter_governance.decision_backlog_entry e ON e.run_id = q.metadata ->> 'run_id'
            AND e.escalates_entry_id IS NULL
        WHERE q.cut_request_id = $1::text::uuid";
    let row = d.database.client(Login::Admin).query_one(sql, &[&id]).unwrap();
    let run_id: Option<String> = row.get(7);
    let state = run_id.map(|run_id| d.status(&run_id).state().to_owned()).filter(|s| !s.is_empty());
    // A stopped run's stage is not in its state alone; then there is nothing to compare.
    let stage = state.and_then(|state| RunState::parse(&state, None).ok()).and_then(|state| state.stage());
    let standing = Standing {
        status: row.get::<_, &str>(0).parse().unwrap(),
        mark_verdict: row.get::<_, Option<&str>>(1).map(|v| v.parse::<MarkVerdict>().unwrap()),
        names_run: row.get(2),
        entry: row.get::<_, Option<&str>>(3).map(|s| s.parse().unwrap()),
        has_cut: row.get(4),
        has_passed: row.get(5),
        is_enacted: row.get(6),
        stage,
    };
    let failed: Vec<_> = consistency(&standing).into_iter().filter(|check| !check.ok).collect();
    assert!(failed.is_empty(), "{id}: {failed:?}\n{standing:?}");
}

/// From → to of every move, oldest first.
pub fn timeline(d: &Deployment, id: &str) -> Vec<String> {
    let shown = on(d, "show", id, &[]).exits(0).json;
    let steps = shown["timeline"].as_array().unwrap();
    steps.iter().map(|step| step["to_status"].as_str().unwrap().to_owned()).collect()
}

/// The whole way of a request that nothing disturbed.
pub const WHOLE: [&str; 11] = [
    "requested",
    "copied",
    "mark_in_progress",
    "marked",
    "mark_verified",
    "cut_in_progress",
    "cut_done",
    "cut_verified",
    "completed",
    "cleanup_scheduled",
    "cleaned",
];

/// The staged records of a request, by kind.
pub fn staged(d: &Deployment, id: &str) -> Vec<Value> {
    on(d, "show", id, &[]).exits(0).json["staging"].as_array().unwrap().clone()
}

/// Sixteen days on.
pub fn after_cleanup_day() -> String {
    (jiff::Timestamp::now() + jiff::SignedDuration::from_hours(16 * 24)).to_string()
}

/// Fifteen days pass on the server's clock: what it recorded is so much older. Only a superuser can,
/// and the audit, by which every request followed from its timeline, says that it does so no more.
pub fn fifteen_days_pass(d: &Deployment) {
    let older = "SET session_replication_role = replica;
        UPDATE public.cut_request SET cleanup_scheduled_at = cleanup_scheduled_at - interval '361 hours';
        UPDATE public.cut_request_transition SET recorded_at = recorded_at - interval '361 hours';
        UPDATE iu_core.iu_staging_record SET expires_at = expires_at - interval '361 hours'";
    d.database.client(Login::Admin).batch_execute(older).unwrap();
    let audit = d.run(&["backlog", "audit"]).exits(6);
    assert!(audit.stdout.contains("cleanup_scheduled_at"), "{}", audit.stdout);
}

/// What must not be there: a scheduler, an outbox, a vector store.
pub fn assert_nothing_else_is_touched(d: &Deployment) {
    let count = |sql: &str| d.database.client(Login::Admin).query_one(sql, &[]).unwrap().get::<_, i64>(0);
    assert_eq!(count("SELECT count(*) FROM pg_extension WHERE extname IN ('pg_cron', 'vector')"), 0);
    let sql = "SELECT count(*) FROM pg_class WHERE relname ~ '(event_outbox|qdrant|embedding)'";
    assert_eq!(count(sql), 0);
    assert_eq!(count("SELECT count(*) FROM iu_core.iu_staging_record WHERE NOT vector_excluded"), 0);
}
