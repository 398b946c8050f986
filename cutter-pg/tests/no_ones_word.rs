//! What one login can do with psql: it moves no request, entry or run without the rows that the move
//! rests on, and no clock but the server's decides what is due.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use cutter_core::port::database::Reader;
use cutter_core::record::approval::parse_field;
use cutter_core::testing::memory::block_on;
use cutter_pg::login::Login;
use cutter_pg::testing::DEFERRED_CHECKS;
use postgres::Client;
use serde_json::{Value, json};
use support::{DOCUMENT, World, id};
use uuid::Uuid;

const RUN: &str = "ictr-20260520T101112Z-01970000-0000-7000-8000-00000000aaaa";
const FACTS: &str = r#"{"survey_before": {}, "survey_after": {}, "principal": "me", "values": {}}"#;
const TEXT: &str = "Article 1. One.\n";

fn refused(client: &mut Client, call: &str) -> (String, String) {
    client.batch_execute("BEGIN").unwrap();
    let outcome = client.batch_execute(call).and_then(|()| client.batch_execute("COMMIT"));
    client.batch_execute("ROLLBACK").unwrap();
    let error = outcome.expect_err(call);
    let error = error.as_db_error().unwrap_or_else(|| panic!("{call}: {error:?}"));
    (error.code().code().to_owned(), error.message().to_owned())
}

fn status(world: &World, request: Uuid) -> String {
    let mut client = world.database.client(Login::Ro);
    client
        .query_one("SELECT status FROM public.cut_request WHERE cut_request_id = $1", &[&request])
        .unwrap()
        .get(0)
}

/// A request whose cut a run has begun, by the logins that do these steps.
fn cutting(world: &World) -> Uuid {
    let (mut exec, mut review) = (world.database.client(Login::Exec), world.database.client(Login::Review));
    let request: Uuid =
        exec.query_one("SELECT public.fn_cut_request_add('a.md', NULL, 'me')", &[]).unwrap().get(0);
    let (bytes, digest) = (TEXT.len(), support::digest("manifest"));
    let manifest = serde_json::json!({
        "document": { "bytes": bytes, "sha256": support::digest(TEXT).to_hex() },
        "region": { "start": 0, "end": bytes },
        "units": [{ "start": 0, "end": bytes }],
        "manifest_digest": digest.to_hex(),
    });
    let copy = format!(
        "SELECT cutter_governance.fn_cut_request_copied('{request}', '{}', convert_to('{TEXT}', 'UTF8'), '{}', NULL, 'me', now())",
        id(),
        support::digest(TEXT)
    );
    let mark = format!("SELECT public.fn_cut_mark_staged_file('{request}', '{manifest}', '{digest}', 'me')");
    exec.batch_execute(&format!("{copy}; {mark}")).unwrap();
    review
        .batch_execute(&format!("SELECT public.fn_cut_verify_mark('{request}', true, 'you', 'doc', NULL)"))
        .unwrap();
    exec.batch_execute(&format!(
        "SELECT cutter_governance.fn_cut_request_start('{request}', '{RUN}', 'me', now())"
    ))
    .unwrap();
    request
}

#[test]
fn no_login_moves_a_request_by_saying_what_its_run_did() {
    let world = World::new();
    let request = cutting(&world);
    let source = world.register(3);
    let mut other = world.run(&source);
    other.up_to_verified();
    let other = other.run_id.as_str().to_owned();
    let uuid = &RUN[RUN.len() - 36..];
    for login in [Login::Exec, Login::Verify, Login::Review, Login::Ro, Login::Directus] {
        let mut client = world.database.client(login);
        for call in [
            // the ids of two runs, an effect and an end, as they were believed once
            format!(
                "SELECT cutter_governance.fn_cut_request_follow('{uuid}', '{other}', NULL, NULL, 'me', now())"
            ),
            format!(
                "SELECT cutter_governance.fn_cut_request_follow('{uuid}', '{RUN}', NULL, 'ended', 'me', now())"
            ),
            format!("SELECT cutter_governance.fn_cut_request_catch_up('{request}', 'ended', 'me', now())"),
            format!("SELECT cutter_governance.fn_cut_request_follow('{RUN}', NULL, 'me', now())"),
            format!("SELECT public.fn_cut_request_transition('{request}', 'cut_done', 'me', NULL)"),
            format!("UPDATE public.cut_request SET metadata = '{{\"run_id\":\"{other}\"}}'"),
            format!("SELECT public.fn_cut_complete('{request}', 'me')"),
        ] {
            let (code, _) = refused(&mut client, &call);
            assert!(["42501", "42883", "CUC09"].contains(&code.as_str()), "{login}: {call}: {code}");
        }
    }
    let mut exec = world.database.client(Login::Exec);
    exec.batch_execute(&format!(
        "SELECT cutter_governance.fn_cut_request_catch_up('{request}', 'me', now())"
    ))
    .unwrap();
    assert_eq!(status(&world, request), "cut_in_progress", "the run has stored nothing");
    // A second request may not begin with a run that has cut something else, nor with what is no run.
    let second = {
        let mut admin = world.database.client(Login::Admin);
        let copy = "SET session_replication_role = replica; INSERT INTO public.cut_request
            SELECT (jsonb_populate_record(q, jsonb_build_object('cut_request_id', gen_random_uuid(), 'cut_run_id', NULL,
                'status', 'mark_verified', 'metadata', '{}'::jsonb))).* FROM public.cut_request q;
            RESET session_replication_role";
        admin.batch_execute(copy).unwrap();
        let row = admin
            .query_one("SELECT cut_request_id FROM public.cut_request WHERE status = 'mark_verified'", &[]);
        row.unwrap().get::<_, Uuid>(0)
    };
    for (run, rule) in
        [(other.as_str(), "cut.source_hash"), (RUN, "cut.run_free"), ("x", "expected the id of a run")]
    {
        let call = format!("SELECT cutter_governance.fn_cut_request_start('{second}', '{run}', 'me', now())");
        let (_, message) = refused(&mut exec, &call);
        assert!(message.starts_with(rule), "{run}: {message}");
    }
}

#[test]
fn an_effect_is_stored_by_the_holder_of_the_fence_beside_what_it_wrote() {
    let world = World::new();
    let request = cutting(&world);
    let mut exec = world.database.client(Login::Exec);
    let (holder, sha) = (id(), support::digest("x"));
    let store = |effect: &str, epoch: i64, holder: Uuid| {
        format!(
            "SELECT cutter_governance.fn_run_effect_record('{RUN}', '{effect}', 1, '{}', {epoch}, '{holder}', '{sha}',
                'commit', '{FACTS}', 'me', now(), '{DOCUMENT}')",
            id()
        )
    };
    assert_eq!(refused(&mut exec, &store("mark", 1, holder)).0, "CUF01", "no fence");
    exec.batch_execute(&format!(
        "SELECT cutter_governance.fn_run_fence_take('{RUN}', '{DOCUMENT}', '{holder}')"
    ))
    .unwrap();
    for (epoch, who) in [(1, id()), (2, holder)] {
        assert_eq!(refused(&mut exec, &store("mark", epoch, who)).0, "CUF01", "{epoch} {who}");
    }
    for effect in ["mark", "sweep", "leg_a", "leg_b", "sg2_request", "enact", "void"] {
        let (code, message) = refused(&mut exec, &store(effect, 1, holder));
        assert_eq!(code, "CUD02", "{effect}: {message}");
    }
    let mut verify = world.database.client(Login::Verify);
    assert_eq!(refused(&mut verify, &store("write_verify", 1, holder)).0, "CUD02");
    let mut review = world.database.client(Login::Review);
    for effect in ["sg1_review", "sg2_review", "sg3_review"] {
        assert_eq!(refused(&mut review, &store(effect, 1, holder)).0, "CUD02", "{effect}");
    }
    assert_eq!(status(&world, request), "cut_in_progress");
    // The end of a run is said once, and is kept: afterwards nothing of it is stored.
    let end = format!(
        "SELECT cutter_governance.fn_cut_request_run_ended('{request}', 'failed_IG_mark', 'me', now())"
    );
    exec.batch_execute(&end).unwrap();
    exec.batch_execute(&end).unwrap();
    assert_eq!(status(&world, request), "cut_failed");
    assert_eq!(refused(&mut exec, &store("mark", 1, holder)).0, "CUC20");
}

#[test]
fn a_reviewers_move_has_its_decision_in_the_same_transaction() {
    let world = World::new();
    let source = world.register(3);
    for to in ["reviewed_approved", "reviewed_rejected", "reviewed_deferred"] {
        let mut run = world.run(&source);
        run.do_mark();
        run.do_sweep();
        let mut review = world.database.client(Login::Review);
        let entry: Uuid = world
            .database
            .client(Login::Ro)
            .query_one(
                "SELECT entry_id FROM cutter_governance.decision_backlog_entry WHERE run_id = $1",
                &[&run.run_id.as_str()],
            )
            .unwrap()
            .get(0);
        let call = format!(
            "SELECT cutter_governance.fn_backlog_transition('{entry}', 'review_pending', '{to}', '{}', 'me', 'x', NULL,
                NULL, NULL, now())", id()
        );
        let (code, message) = refused(&mut review, &call);
        assert!(code == "CUC10" && message.contains("without a"), "{to}: {message}");
        // Nor with a decision that says something else.
        let other = if to == "reviewed_rejected" { "defer" } else { "reject" };
        let decide = |decision: &str| {
            format!(
            "SELECT cutter_governance.fn_review_decision_record('{}', '{}', '{DOCUMENT}', 'cut_authorization', '{decision}',
                '{entry}', NULL, NULL, NULL, NULL, 'nonce', '{}', 'me', now())", id(), run.run_id, support::digest("q")
        )
        };
        if to != "reviewed_deferred" {
            assert_eq!(refused(&mut review, &format!("{}; {call}", decide(other))).0, "CUC10", "{to}");
        }
        if to != "reviewed_approved" {
            let own = if to == "reviewed_rejected" { "reject" } else { "defer" };
            review.batch_execute(&format!("BEGIN; {}; {call}; COMMIT", decide(own))).unwrap();
        }
        world.database.client(Login::Admin).batch_execute(&format!(
            "SET session_replication_role = replica;
             UPDATE cutter_governance.decision_backlog_entry SET status = 'abandoned' WHERE entry_id = '{entry}'"
        )).unwrap();
    }
}

#[test]
fn an_approval_runs_out_by_the_servers_clock() {
    let world = World::new();
    let source = world.register(3);
    let mut run = world.run(&source);
    run.do_mark();
    run.do_sweep();
    run.do_sg1();
    let mut admin = world.database.client(Login::Admin);
    let used = "SELECT cutter_governance.fn_approval_use(a.approval_id, a.run_id, 'leg_a', gen_random_uuid(),
        '2000-01-01T00:00:00Z') FROM cutter_governance.review_approval a";
    for (left, is_used) in [("- interval '1 second'", false), ("+ interval '1 hour'", true)] {
        let expire = format!(
            "SET session_replication_role = replica;
             UPDATE cutter_governance.review_approval SET expires_at = now() {left}; RESET session_replication_role"
        );
        admin.batch_execute(&expire).unwrap();
        let mut exec = world.database.client(Login::Exec);
        let answer: bool = exec.transaction().unwrap().query_one(used, &[]).unwrap().get(0);
        assert_eq!(answer, is_used, "{left}");
    }
}

/// What one login holds against the others is bounded, and named.
#[test]
fn no_login_holds_the_others_up_without_a_bound() {
    let world = World::new();
    let mut exec = world.database.client(Login::Exec);
    let holder = r#"{"holder":"01970000-0000-7000-8000-00000000bbbb","host":"h","pid":1,"since":"2026-05-20T10:11:12Z","command":"c"}"#;
    exec.batch_execute(&format!("SELECT cutter_run.fn_run_create('{RUN}', '\\x01')")).unwrap();
    let take = |holder: &str, ms: &str| {
        format!("SELECT cutter_run.fn_lease_take('{RUN}', '{}', '{holder}', {ms})", id())
    };
    for bad in ["me", "[]", "{}", "\"x\"", r#"{"holder":"me"}"#] {
        let (code, message) = refused(&mut exec, &take(bad, "1000"));
        assert_eq!(code, "CU001", "{bad}: {message}");
    }
    assert_eq!(refused(&mut exec, &take(holder, "9000000000000")).0, "CU001");
    exec.batch_execute(&take(holder, "86400000")).unwrap();
    for call in [
        format!("SELECT * FROM cutter_run.fn_lease_renew(ARRAY['{RUN}'], ARRAY[1], 9000000000000)"),
        "SELECT * FROM cutter_queue.fn_work_claim(gen_random_uuid(), 1, 2000000000)".to_owned(),
        "SELECT cutter_queue.fn_work_heartbeat('{1}', '{1}', ARRAY[gen_random_uuid()], 2000000000)"
            .to_owned(),
        "SELECT * FROM cutter_queue.fn_work_take_over(gen_random_uuid(), 1, 2000000000)".to_owned(),
        "SELECT cutter_queue.fn_work_take_watch(gen_random_uuid(), 2000000000)".to_owned(),
        "SELECT cutter_queue.fn_work_take_watch(gen_random_uuid(), NULL)".to_owned(),
    ] {
        assert_eq!(refused(&mut exec, &call).0, "CU001", "{call}");
    }
    let stray = RUN.replace("aaaa", "cccc");
    let claim = format!("SELECT cutter_run.fn_claim_put('A', 1, '{stray}')");
    assert_eq!(refused(&mut exec, &claim).0, "CUN10", "a claim of a run that is not there");
    exec.batch_execute(&claim.replace(&stray, RUN)).unwrap();

    // An advisory lock is anybody's to take; who waits for it says whose it is.
    let mut stranger = world.database.client(Login::Directus);
    stranger
        .batch_execute(&format!(
            "SET application_name = 'not cutter'; SELECT pg_advisory_lock(hashtextextended('{RUN}', 17));
             SELECT pg_advisory_lock(hashtext('cutter_queue.fn_work_day'))"
        ))
        .unwrap();
    exec.batch_execute("SET lock_timeout = '100ms'").unwrap();
    let mut admin = world.database.client(Login::Admin);
    admin.batch_execute("SET lock_timeout = '100ms'").unwrap();
    let save = format!("SELECT cutter_run.fn_run_publish('{RUN}', 1, '\\x02', NULL, 1, 1, 1000, false)");
    for (client, call) in
        [(&mut exec, save), (&mut admin, "SELECT cutter_queue.fn_work_day('2026-05-20')".to_owned())]
    {
        let (code, message) = refused(client, &call);
        assert_eq!(code, "55P03", "{message}");
        assert!(message.contains("login directus, application 'not cutter'"), "{message}");
    }
    drop(stranger);
}

/// Whoever holds the executor's login stores nothing that no reader could read, and asks nothing of a run
/// that is past asking.
#[test]
fn no_login_stores_an_ask_that_is_none() {
    let world = World::new();
    let mut run = world.run(&world.register(1));
    run.up_to_sg1();
    let (run_id, fence) = (run.run_id.to_string(), run.fence.clone());
    let (genuine, ids): (Value, Value) = {
        let sql =
            "SELECT ask::text, ids::text FROM cutter_governance.approval_ask WHERE gate = 'SG_cut_authz'";
        let row = world.database.client(Login::Admin).query_one(sql, &[]).unwrap();
        let json = |n: usize| serde_json::from_str(row.get(n)).unwrap();
        (json(0), json(1))
    };
    let next = |n: u32| {
        let mut ask = genuine.clone();
        ask["occurrence"] = json!(n);
        ask["required"]["nonce"] = json!(format!("nonce {n}"));
        ask
    };
    let mut exec = world.database.client(Login::Exec);
    let mut open = |ask: &Value, ids: &Value, at: &str| {
        let call = "SELECT cutter_governance.fn_ask_open($1, $2, $3, $4, $5, NULL, $6::text::timestamptz)";
        let (ask, ids) = (ask.to_string(), ids.to_string());
        exec.execute(call, &[&run_id, &fence.epoch, &fence.holder, &ask, &ids, &at])
            .map_err(|e| e.as_db_error().unwrap().code().code().to_owned())
    };
    let now = "2026-05-01T00:00:00Z";
    let refused = Err("CUD10".to_owned());
    let kinds = [json!(null), json!(true), json!(7), json!("x"), json!([]), json!({ "a": "b" })];
    for field in genuine.as_object().unwrap().keys() {
        let mut missing = next(2);
        missing.as_object_mut().unwrap().remove(field);
        assert_eq!(open(&missing, &ids, now), refused, "without {field}");
        for kind in &kinds {
            let mut other = next(2);
            let before = other[field].clone();
            let may_be = field == "expected_actor" && (kind.is_null() || kind.is_string());
            let is_same = std::mem::discriminant(&before) == std::mem::discriminant(kind);
            other[field] = kind.clone();
            if !may_be && !is_same {
                assert_eq!(open(&other, &ids, now), refused, "{field}: {kind}");
            }
        }
    }
    for (pointer, values) in [
        ("/occurrence", vec![json!(0), json!(-1), json!(1.5), json!(99_999_999_999_u64)]),
        ("/required/nonce", kinds.iter().filter(|k| !k.is_string()).cloned().collect()),
        ("/more", vec![json!("x")]),
    ] {
        for value in values {
            let mut other = next(2);
            match other.pointer_mut(pointer) {
                Some(place) => *place = value.clone(),
                None => other["more"] = value.clone(),
            }
            assert_eq!(open(&other, &ids, now), refused, "{pointer}: {value}");
        }
    }
    for ask in &kinds {
        assert_eq!(open(ask, &ids, now), refused, "{ask}");
    }
    for wrong in
        [json!([]), json!("x"), json!({ "approval": 7 }), json!({ "approval": "7" }), json!({ "a": null })]
    {
        assert_eq!(open(&next(2), &wrong, now), refused, "ids {wrong}");
    }
    for at in ["infinity", "-infinity", "20000-01-01T00:00:00Z", "1066-10-14T00:00:00Z"] {
        assert_eq!(open(&next(2), &ids, at), refused, "at {at}");
    }
    assert_eq!(open(&genuine, &ids, now), Ok(1), "the same once more");
    run.do_leg_a();
    assert_eq!(open(&genuine, &ids, now), Ok(1), "the same once more");
    assert_eq!(open(&next(2), &ids, now), Err("CUC20".to_owned()), "past the gate");
}

/// A row that does not read speaks against its own run alone: who lists all open asks lists the others.
#[test]
fn a_run_that_can_be_none_hides_no_other() {
    let world = World::new();
    let mut run = world.run(&world.register(1));
    run.up_to_sg1();
    let open = || block_on(support::port_of(&world.database).open_asks(None)).unwrap().len();
    let before = open();
    let mut exec = world.database.client(Login::Exec);
    let holder = Uuid::from_u128(7);
    exec.execute("SELECT cutter_governance.fn_run_fence_take('no-run', 'LAW', $1)", &[&holder]).unwrap();
    exec.execute(
        "SELECT cutter_governance.fn_ask_open('no-run', 1, $1, jsonb_build_object('gate', k.gate, 'occurrence', 1,
             'approval_type', k.approval_type, 'expected_actor', NULL, 'approval_path', 'a', 'request_path', 'r',
             'required', k.ask -> 'required' || '{\"run_id\": \"no-run\", \"document_id\": \"LAW\", \"nonce\": \"n\"}'
             )::text, '{}', NULL, now())
         FROM cutter_governance.approval_ask k WHERE k.gate = 'SG_cut_authz'",
        &[&holder],
    )
    .unwrap();
    assert_eq!(open(), before);
}

/// An approval that is used is used up by its effect, in one transaction: who uses it and goes away closes no
/// ask, and enacts nothing later, nor a part.
#[test]
fn an_approval_is_used_by_the_transaction_that_carries_it_out() {
    let world = World::new();
    let mut run = world.run(&world.register(3));
    run.up_to_verified();
    run.do_sg2();
    let mut admin = world.database.client(Login::Admin);
    let one = |admin: &mut Client, sql: &str| -> String { admin.query_one(sql, &[]).unwrap().get(0) };
    let approval = one(
        &mut admin,
        "SELECT approval_id::text FROM cutter_governance.review_approval WHERE type = 'lifecycle_enactment'",
    );
    let unit = one(&mut admin, "SELECT unit_id::text FROM iu_core.information_unit ORDER BY unit_id LIMIT 1");
    let (run_id, fence, document) = (run.run_id.clone(), run.fence.clone(), run.source.document.clone());
    let take = |effect: &str| {
        format!(
            "SELECT cutter_governance.fn_approval_use('{approval}', '{run_id}', 'enact', '{effect}', now())"
        )
    };
    let enact = format!("SELECT iu_core.fn_iu_enact('{unit}', '{approval}', '{run_id}', 'me', now())");
    let record = |effect: &str, facts: &str, n: u32| {
        format!(
            "SELECT cutter_governance.fn_run_effect_record('{run_id}', 'enact', {n}, '{effect}', {}, '{}',
                 repeat('0', 64), 'commit', '{facts}', 'me', now(), '{document}')",
            fence.epoch, fence.holder
        )
    };
    let mut exec = world.database.client(Login::Exec);
    let effect = id().to_string();
    assert_eq!(refused(&mut exec, &take(&effect)).0, "CUD02", "used, and nothing done");
    assert_eq!(refused(&mut exec, &format!("{}; {enact}", take(&effect))).0, "CUD02", "one unit of three");
    assert_eq!(
        refused(&mut exec, &format!("{}; {enact}; {}", take(&effect), record(&effect, FACTS, 1))).0,
        "CUD02"
    );
    let all = "SELECT iu_core.fn_iu_enact(unit_id, '{approval}', '{run_id}', 'me', now())
        FROM iu_core.information_unit"
        .replace("{approval}", &approval)
        .replace("{run_id}", run_id.as_str());
    for (facts, n) in [
        ("{}", 1),
        ("[]", 1),
        (FACTS, 2),
        (r#"{"survey_before": {"a": 1}, "survey_after": {}, "principal": "me", "values": {}}"#, 1),
        (r#"{"survey_before": {}, "survey_after": {}, "principal": null, "values": {}}"#, 1),
        (
            r#"{"survey_before": {}, "survey_after": {}, "principal": "me", "values": {}, "structural": {}}"#,
            1,
        ),
        (r#"{"survey_before": {}, "survey_after": {}, "principal": "me", "values": {}, "structural": 7}"#, 1),
    ] {
        let whole = format!("{}; {all}; {}", take(&effect), record(&effect, facts, n));
        assert_eq!(refused(&mut exec, &whole).0, "CUD10", "{facts} {n}");
    }
    assert_eq!(world.count("SELECT count(*) FROM cutter_governance.approval_use WHERE effect = 'enact'"), 0);
    assert_eq!(
        world.count("SELECT count(*) FROM iu_core.information_unit WHERE lifecycle_status = 'enacted'"),
        0
    );
    run.do_enact();
    // past that, nothing that leads there is stored any more
    for effect in ["sweep", "sg2_request"] {
        let late = record(&id().to_string(), FACTS, 7).replace("'enact'", &format!("'{effect}'"));
        assert_eq!(refused(&mut exec, &late).0, "CUC20", "{effect}");
    }
}

/// A run has one entry of its own, of the document that it cuts; and no time is stored that no clock shows.
#[test]
fn no_login_marks_in_another_runs_name_or_at_a_time_that_nobody_reads() {
    let world = World::new();
    let mut run = world.run(&world.register(1));
    run.do_mark();
    let mut exec = world.database.client(Login::Exec);
    let mark = |run_id: &str, document: &str, at: &str| {
        format!(
            "SELECT cutter_governance.fn_backlog_mark('{}', '{}', '{run_id}', '{document}', e.source_document_id,
                 e.source_version_id, repeat('7', 64), e.region_sha, e.manifest_digest, 1, NULL, 'me', 'r', {at})
             FROM cutter_governance.decision_backlog_entry e",
            id(),
            id()
        )
    };
    let own = run.source.document.clone();
    assert_eq!(refused(&mut exec, &mark(run.run_id.as_str(), &own, "now()")).0, "CUC03", "a second entry");
    let other = RUN.replace("aaaa", "bbbb");
    let fence = format!("SELECT cutter_governance.fn_run_fence_take('{other}', 'OTHER', '{}')", id());
    exec.batch_execute(&fence).unwrap();
    assert_eq!(refused(&mut exec, &mark(&other, &own, "now()")).0, "CUC03", "another document");
    let free = RUN.replace("aaaa", "cccc");
    for at in ["'infinity'", "'-infinity'", "'20000-01-01Z'", "'4000-01-01 BC'"] {
        assert_eq!(refused(&mut exec, &mark(&free, &own, at)).0, "23514", "{at}");
    }
    let times = "SELECT count(*) FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
        WHERE c.relowner = 'cutter_owner'::regrole AND c.relkind IN ('r', 'p') AND NOT c.relispartition
            AND a.atttypid = 'timestamptz'::regtype AND NOT EXISTS (
                SELECT FROM pg_constraint k WHERE k.conrelid = c.oid AND k.contype = 'c'
                    AND k.conname = left(c.relname || '_' || a.attname || '_time_check', 63))";
    assert_eq!(world.count(times), 0, "a time without its bounds");
}

/// Whoever judges a document and the database read the same.
#[test]
fn documents_are_read_alike() {
    let world = World::new();
    let mut admin = world.database.client(Login::Admin);
    let mut odd =
        vec![String::new(), "nonce".to_owned(), "nonce: a\nnonce: b".to_owned(), "xnonce: a".to_owned()];
    for before in ["", " ", "\t"] {
        for after in ["", " ", "  ", "\t", " \t ", "\u{a0}"] {
            for value in ["abc", "", "a: b", "a  b", "é"] {
                for end in ["", "\n", "\r\n", " \r\n", "\t\n", "\r\r\n", "\nmore: x\n"] {
                    odd.push(format!("first: line\nnonce{before}:{after}{value}{end}"));
                }
            }
        }
    }
    for document in odd {
        let sql = "SELECT cutter_governance.fn_document_field($1, 'nonce')";
        let read: Option<String> = admin.query_one(sql, &[&document.as_bytes()]).unwrap().get(0);
        assert_eq!(read.as_deref(), parse_field(&document, "nonce"), "{document:?}");
    }
}

/// What is deferred to the end of a transaction is looked at before its facts are judged: an effect that would
/// fail at COMMIT is an error then, and no unknown outcome.
#[test]
fn each_deferred_check_is_looked_at_before_the_facts_are_judged() {
    let world = World::new();
    let deferred = "SELECT DISTINCT n.nspname || '.' || k.conname FROM pg_constraint k
        JOIN pg_class c ON c.oid = k.conrelid JOIN pg_namespace n ON n.oid = c.relnamespace
        WHERE k.condeferrable AND c.relowner = 'cutter_owner'::regrole AND k.conname <> 'trg_use_carried_out'
        ORDER BY 1";
    let rows = world.database.client(Login::Admin).query(deferred, &[]).unwrap();
    let named = DEFERRED_CHECKS.strip_prefix("SET CONSTRAINTS ").unwrap();
    let mut named: Vec<&str> = named.split_once(" IMMEDIATE").unwrap().0.split(',').map(str::trim).collect();
    named.sort_unstable();
    let deferred: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
    assert_eq!(deferred, named);
}
