//! Of row locks: whoever comes while another changes a row waits for it at the lock, before anything is
//! decided by what stands there, or passes the row over.

use std::collections::BTreeMap;

use cutter_core::record::effect::{EffectName, ExecutorEffect};
use cutter_pg::login::Login;
use postgres::{Client, SimpleQueryMessage};

use super::support::{Run, World, id};

/// What comes of a call while another session holds the rows of a table.
enum Out {
    /// It waits at the function's own lock.
    Waits,
    /// It passes over what is held, and says this.
    Passes(&'static str),
}

struct Line {
    function: &'static str,
    table: &'static str,
    login: &'static str,
    before: String,
    call: String,
    out: Out,
}

/// These are asked for where their rows are: `entries.rs`, `queue.rs`.
const ELSEWHERE: [&str; 2] = ["cutter_governance.fn_backlog_records", "cutter_governance.fn_run_fence_take"];

const OWNER: &str = "cutter_owner";
const ENTRY: &str = "cutter_governance.decision_backlog_entry";
const ASK: &str = "cutter_governance.approval_ask";
const COMMAND: &str = "cutter_governance.command";
const FENCE: &str = "cutter_governance.run_fence";
const REQUEST: &str = "public.cut_request";
const UNIT: &str = "iu_core.information_unit";
const ZEROS: &str = "repeat('0', 64)";
const HOLDER: &str = r#"'{"holder":"h","host":"h","pid":1,"since":"s","command":"c"}'"#;
const BODY: &str = r#"{"kind":"x"}"#;
const DONE: &str = r#"{"state":"done"}"#;
/// The digest of what is written here.
const OF_X: &str = "encode(sha256('x'), 'hex')";
const ME: &str = "'00000000-0000-4000-8000-00000000000a'";

/// Of everything that is locked something that is there: besides a run that has cut and asks for enactment, an
/// answer to that, an entry that waits for review, requests at three statuses and what is staged, items in each place, a command, a run's lease, and a reading of the catalogue.
fn fill(world: &World, run: &Run<'_>) {
    let answer = "convert_to(format(E'decision: approve\\nnonce: %s\\nrun_id: %s\\napproval_type: %s\\ndocument_id: %s\\n'
        'actor: ada\\nrequest_sha256: %s\\nrows_digest: %s\\nexpires: never\\n', k.nonce, k.run_id, k.approval_type,
        k.document_id, k.request_sha256, k.rows_digest), 'UTF8')";
    let three = |value: &str| format!("array_fill({value}, ARRAY[3])");
    let items = [
        "'k'::text",
        "'x'::bytea",
        r"sha256(convert_to(E'k\nx', 'UTF8'))",
        "1",
        "3",
        "3",
        "1000",
        "2000",
        "0::smallint",
        "false",
        "'me'::text",
    ]
    .map(three)
    .join(", ");
    let ids = serde_json::json!({ "approval": id(), "review_decision": run.enact_decision, "effect.sg2_review": id() });
    let mut admin = world.database.client(Login::Admin);
    admin
        .batch_execute(&format!(
            "SET session_replication_role = replica;
             INSERT INTO cutter_governance.approval_answer (run_id, gate, occurrence, sha256, decision, approval_kb_id,
                 document, fingerprint, actor, late, inserted_by)
             SELECT k.run_id, k.gate, 1, encode(sha256({answer}), 'hex'), 'approve', 'kb', {answer}, 'f', 'ada', false,
                 'cutter_review' FROM {ASK} k WHERE k.gate = 'SG_lifecycle_authz';
             INSERT INTO {REQUEST} (cut_request_id, source_ref, requested_by, status, mark_verdict, source_hash,
                 manifest_digest, cut_run_id, metadata, cleanup_scheduled_at)
             SELECT md5(s.status)::uuid, 'a.md', 'me', s.status, s.verdict, v.sha256, e.manifest_digest,
                 CASE s.status WHEN 'cut_in_progress' THEN right('{0}', 36)::uuid END,
                 CASE s.status WHEN 'cut_in_progress' THEN jsonb_build_object('run_id', '{0}') ELSE '{{}}' END,
                 CASE s.status WHEN 'cleanup_scheduled' THEN '2026-01-01Z'::timestamptz END
             FROM iu_core.source_version v, {ENTRY} e, (VALUES ('mark_verified', 'approved'), ('cut_in_progress', NULL),
                 ('cleanup_scheduled', NULL)) AS s(status, verdict);
             INSERT INTO {ENTRY} SELECT (jsonb_populate_record(e, jsonb_build_object('entry_id', md5('review_pending')::uuid,
                 'status', 'review_pending', 'run_id', 'another', 'idempotency_key', {ZEROS}))).* FROM {ENTRY} e;
             UPDATE {ASK} SET ids = '{ids}';
             INSERT INTO public.cut_request_transition (cut_request_id, to_status, actor, recorded_at)
             SELECT q.cut_request_id, t.status, 'me', '2026-01-01Z' FROM {REQUEST} q,
                 LATERAL (VALUES (q.status), ('mark_rejected')) AS t(status);
             INSERT INTO iu_core.iu_staging_record (staging_record_id, record_kind, source_ref, sha256, byte_length, created_by,
                 lifecycle_status, expires_at, metadata)
             VALUES (gen_random_uuid(), 'mark_manifest', 'a.md', {ZEROS}, 1, 'me', 'expired', '2026-01-01Z',
                 jsonb_build_object('cut_request_id', md5('mark_verified')::uuid));
             INSERT INTO cutter_queue.job_signal (signal, cut_request_id, payload, enqueued_by, enqueued_at)
             VALUES ('cut', md5('mark_verified')::uuid, '{{}}', 'me', now());
             SET session_replication_role = origin;
             SELECT FROM cutter_queue.fn_work_enqueue(ARRAY['a', 'b', 'c'], {items});
             SELECT FROM cutter_queue.fn_work_claim({ME}, 2, 60000);
             SELECT cutter_queue.fn_work_fail(l.item_id, l.epoch, l.holder, 1000, 'c', 'd', NULL, NULL)
             FROM (SELECT * FROM cutter_queue.work_lease ORDER BY item_id LIMIT 1) l;
             UPDATE cutter_queue.work_wait SET ready_at = '2026-01-01Z';
             UPDATE cutter_queue.work_lease SET expires_at = '2026-01-01Z';
             SELECT FROM cutter_governance.fn_command_claim('k', '{BODY}', encode(sha256('{BODY}'), 'hex'), 'me', {ME}, 60000,
                 now());
             SELECT cutter_run.fn_run_create('r', convert_to('{{}}', 'UTF8'));
             SELECT FROM cutter_run.fn_lease_take('r', {ME}, {HOLDER}, 60000);
             SELECT cutter_governance.fn_catalogue_keep()",
            run.run_id
        ))
        .unwrap();
}

/// A call for each lock.
fn lines(run: &Run<'_>) -> Vec<Line> {
    let (run_id, entry, set) = (&run.run_id, run.entry, run.change_set);
    let line = |function, table, call: String| Line {
        function,
        table,
        login: OWNER,
        before: String::new(),
        call: format!("SELECT {function}({call})"),
        out: Out::Waits,
    };
    let written =
        |function, table, call: &str| Line { call: call.to_owned(), ..line(function, table, String::new()) };
    let passes =
        |function, table, call: &str, out| Line { out: Out::Passes(out), ..written(function, table, call) };
    let (marked, cutting) = ("md5('mark_verified')::uuid", "md5('cut_in_progress')::uuid");
    let unit = format!("(SELECT u.unit_id FROM {UNIT} u ORDER BY u.ordinal LIMIT 1)");
    let held = "ARRAY(SELECT item_id FROM cutter_queue.work_lease), ARRAY(SELECT epoch FROM cutter_queue.work_lease),
        ARRAY(SELECT holder FROM cutter_queue.work_lease)";
    let decided = |table| Line {
        login: "cutter_review",
        ..line(
            "cutter_governance.fn_decision_record",
            table,
            format!(
                "'{run_id}', 'SG_lifecycle_authz', 1, (SELECT w.sha256 FROM cutter_governance.approval_answer w), {ZEROS}, false, 'me'"
            ),
        )
    };
    let attempt = "INSERT INTO cutter_governance.command_attempt (command_key, epoch, cause, holder, actor, lease_until, at)
        SELECT command_key, 2, 'retry', holder, actor, lease_until, at FROM cutter_governance.command_attempt";
    let settlement = format!(
        "INSERT INTO cutter_governance.command_settlement (command_key, epoch, state, settlement, at)
         VALUES ('k', 1, 'done', '{DONE}', now())"
    );
    let version = format!(
        "INSERT INTO iu_core.unit_version (version_id, unit_id, version_seq, content, content_hash, body_hash, actor, created_at)
         VALUES (gen_random_uuid(), {unit}, 2, 'x', {OF_X}, {ZEROS}, 'me', now())"
    );
    let used = format!(
        "INSERT INTO cutter_governance.approval_use (approval_id, run_id, effect, effect_id, at)
         VALUES ('{}', '{run_id}', 'leg_a', gen_random_uuid(), now());
         SET CONSTRAINTS cutter_governance.trg_ask_heard IMMEDIATE",
        run.cut_approval
    );
    vec![
        line("iu_core.fn_document_lock", "iu_core.source_document", format!("'{}'", run.source.document)),
        line("cutter_governance.fn_backlog_lock", ENTRY, format!("'{entry}'")),
        line(
            "cutter_governance.fn_backlog_sweep",
            ENTRY,
            format!("'{}', md5('review_pending')::uuid, '{}', '{run_id}', 'me', now()", id(), id()),
        ),
        decided(ASK),
        decided(ENTRY),
        Line {
            login: "cutter_review",
            ..line(
                "cutter_governance.fn_answer_record",
                ASK,
                format!(
                    "'{run_id}', 'SG_cut_authz', 1, 'reject', 'kb', E'decision: reject\\nnonce: cut {run_id}\\n', 'f', 'ada'"
                ),
            )
        },
        Line {
            before: "DELETE FROM cutter_governance.approval_use".to_owned(),
            ..written("cutter_governance.fn_ask_heard", ASK, &used)
        },
        Line {
            before: "UPDATE cutter_governance.approval_use SET effect = 'void'".to_owned(),
            ..line(
                "cutter_governance.fn_change_set_void",
                "cutter_governance.cut_change_set",
                format!("'{}', '{set}', '{run_id}', '{}', 'why', 'me', now()", id(), run.cut_approval),
            )
        },
        Line {
            before: format!("UPDATE {ENTRY} SET status = 'verify_failed_escalated'"),
            ..line(
                "iu_core.fn_iu_apply_edit_draft",
                UNIT,
                format!("{unit}, '{}', 'x', {OF_X}, {ZEROS}, 'me', now()", id()),
            )
        },
        written("iu_core.fn_uv_enacted_immut", UNIT, &version),
        line(
            "cutter_governance.fn_run_fence_assert",
            FENCE,
            format!("'{run_id}', {}, '{}'", run.fence.epoch, run.fence.holder),
        ),
        line("cutter_governance.fn_cut_request_run_ended", FENCE, format!("{cutting}, 'why', 'me', now()")),
        Line {
            before: format!("UPDATE {REQUEST} SET cut_run_id = NULL, metadata = '{{}}'"),
            ..line(
                "cutter_governance.fn_cut_request_start",
                FENCE,
                format!("{marked}, '{run_id}', 'me', now()"),
            )
        },
        line("cutter_governance.fn_cut_request_lock", REQUEST, marked.to_owned()),
        line("cutter_governance.fn_cut_request_of_run", REQUEST, format!("'{run_id}'")),
        line(
            "cutter_governance.fn_cut_request_notify",
            REQUEST,
            format!("'cut', {marked}, 'me', NULL, now()"),
        ),
        line(
            "cutter_governance.fn_command_claim",
            COMMAND,
            format!("'k', '{BODY}', encode(sha256('{BODY}'), 'hex'), 'me', {ME}, 60000, now()"),
        ),
        line("cutter_governance.fn_command_settle", COMMAND, format!("'k', 1, {ME}, '{DONE}', now()")),
        written("cutter_governance.fn_command_attempt_guard", COMMAND, attempt),
        written("cutter_governance.fn_command_settlement_guard", COMMAND, &settlement),
        line("cutter_run.fn_lease_take", "cutter_run.lease", format!("'r', {ME}, {HOLDER}, 60000")),
        line("cutter_run.fn_stop_request", "cutter_run.run", format!("'r', {ME}, 'why', 'me', 'now'")),
        line("cutter_queue.fn_work_heartbeat", "cutter_queue.work_lease", format!("{held}, 60000")),
        line("cutter_queue.fn_work_release", "cutter_queue.work_lease", held.to_owned()),
        passes(
            "cutter_queue.fn_work_take_over",
            "cutter_queue.work_lease",
            &format!("SELECT item_id FROM cutter_queue.fn_work_take_over({ME}, 10, 60000)"),
            "",
        ),
        Line {
            before: "DELETE FROM cutter_queue.work_wait".to_owned(),
            ..passes(
                "cutter_queue.fn_work_claim",
                "cutter_queue.work_ready",
                &format!("SELECT item_id FROM cutter_queue.fn_work_claim({ME}, 10, 60000)"),
                "",
            )
        },
        passes(
            "cutter_queue.fn_work_due",
            "cutter_queue.work_wait",
            "SELECT cutter_queue.fn_work_due(); SELECT count(*) FROM cutter_queue.work_wait",
            ",1",
        ),
        passes(
            "cutter_queue.fn_job_signal_take",
            "cutter_queue.job_signal",
            "SELECT signal FROM cutter_queue.fn_job_signal_take(ARRAY['cut'], now(), 10, 'me', now())",
            "",
        ),
        passes(
            "public.fn_cut_cleanup",
            REQUEST,
            "SELECT cut_request_id IS NULL FROM public.fn_cut_cleanup(10, 'me')",
            "t",
        ),
        passes(
            "public.fn_cut_cleanup",
            "iu_core.iu_staging_record",
            "SELECT cut_request_id IS NULL FROM public.fn_cut_cleanup(10, 'me')",
            "f",
        ),
        Line {
            login: "cutter_admin",
            before: "ALTER FUNCTION iu_core.fn_iu_create COST 101".to_owned(),
            ..passes(
                "cutter_governance.fn_catalogue_keep",
                "cutter_governance.catalogue_reading",
                "SELECT cutter_governance.fn_catalogue_keep(); SELECT count(*) FROM cutter_governance.catalogue_reading",
                ",2",
            )
        },
    ]
}

/// What comes of a line, which is rolled back: the values, or else a refusal, or where it waited and whose lock
/// that is.
fn outcome(admin: &mut Client, line: &Line) -> Result<String, String> {
    let before = format!(
        "BEGIN; SET LOCAL session_replication_role = replica; {};
         SET LOCAL session_replication_role = origin; SET LOCAL lock_timeout = '100ms';
         SET LOCAL SESSION AUTHORIZATION {}",
        line.before, line.login
    );
    admin.batch_execute(&before).unwrap_or_else(|error| panic!("{}: {error:?}", line.function));
    let outcome = admin.simple_query(&line.call);
    admin.batch_execute("ROLLBACK").unwrap();
    let error = match outcome {
        Ok(messages) => {
            let rows = messages.iter().filter_map(|message| match message {
                SimpleQueryMessage::Row(row) => Some(row.get(0).unwrap_or("NULL").to_owned()),
                _ => None,
            });
            return Ok(rows.collect::<Vec<_>>().join(","));
        }
        Err(error) => error.as_db_error().unwrap_or_else(|| panic!("{}: {error:?}", line.call)).clone(),
    };
    if error.code().code() != "55P03" {
        return Err(format!("{} {}", error.code().code(), error.message()));
    }
    // while locking tuple (0,1) in relation "unit", SQL statement "SELECT ... FOR UPDATE", PL/pgSQL function f(...)
    let context = error.where_().unwrap_or_default();
    let (statement, by) = context.split_once("PL/pgSQL function ").unwrap_or((context, ""));
    let what = statement.split(" tuple").next().unwrap_or_default();
    let table = statement.split('"').nth(1).unwrap_or_default();
    // a row that is changed is locked, too, where a trigger looks at it first
    let is_lock =
        ["FOR UPDATE", "FOR NO KEY UPDATE", "FOR SHARE"].iter().any(|lock| statement.contains(lock));
    let by = by.split('(').next().unwrap_or_default();
    Err(format!("{what} {table} {}by {by}", if is_lock { "" } else { "for a change " }))
}

#[test]
fn who_comes_while_a_row_is_changed_waits_at_the_lock_or_passes_it_over() {
    let world = World::new();
    let mut run = world.run(&world.register(2));
    run.up_to_verified();
    run.survey.review_decision_id = Some(run.enact_decision);
    let request = ExecutorEffect::Sg2Request(run.sg2_request_write());
    run.commit(run.exec(EffectName::Sg2Request, request));
    fill(&world, &run);
    let mut admin = world.database.client(Login::Admin);
    let mut holder = world.database.client(Login::Admin);
    let lines = lines(&run);
    let mut wrong = Vec::new();
    for line in &lines {
        let free = outcome(&mut admin, line);
        // as who changes a row holds it: foreign keys do not wait for that
        holder.batch_execute(&format!("BEGIN; SELECT FROM {} FOR NO KEY UPDATE", line.table)).unwrap();
        let observed = outcome(&mut admin, line);
        holder.batch_execute("ROLLBACK").unwrap();
        let table = line.table.rsplit('.').next().unwrap_or_default();
        let expected = match line.out {
            Out::Waits => format!("while locking {table} by {}", line.function),
            Out::Passes(out) => out.to_owned(),
        };
        let observed = observed.unwrap_or_else(|said| said);
        if observed != expected || free.as_ref().map_or(true, |free| *free == observed) {
            wrong.push(format!(
                "{} of {table}: expected {expected}, observed {observed}, and {free:?} where nobody holds it",
                line.function
            ));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");

    // Every lock has its line.
    let mut asked = BTreeMap::<String, i64>::new();
    for function in lines.iter().map(|line| line.function).chain(ELSEWHERE) {
        *asked.entry(function.to_owned()).or_default() += 1;
    }
    let locks = "SELECT n.nspname || '.' || p.proname, sum(
            (SELECT count(*) FROM regexp_matches(p.prosrc, 'FOR (NO KEY )?(UPDATE|SHARE)', 'g')))::bigint
        FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace WHERE p.proowner = 'cutter_owner'::regrole
            AND p.prosrc ~ 'FOR (NO KEY )?(UPDATE|SHARE)' GROUP BY 1";
    for row in admin.query(locks, &[]).unwrap() {
        let (function, count): (String, i64) = (row.get(0), row.get(1));
        let lines = asked.get(&function).copied().unwrap_or_default();
        assert!(lines >= count, "{function} has {count} row locks, of which {lines} have a line here");
    }
}
