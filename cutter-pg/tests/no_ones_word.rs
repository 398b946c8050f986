//! What one login can do with psql: it moves no request, entry or run without the rows that the move
//! rests on, and no clock but the server's decides what is due.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use cutter_core::port::database::Reader;
use cutter_core::testing::memory::block_on;
use cutter_pg::login::Login;
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
