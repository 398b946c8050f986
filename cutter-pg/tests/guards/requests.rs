//! Of requests: what they follow, what is staged for them, and when it goes.

use cutter_core::record::effect::Verdict;
use cutter_pg::login::Login;
use futures_executor::block_on;

use super::support::{Run, World, id, pending};
use super::{Scene, beside};

/// Stores the request of a run, with nothing staged, at a status that each line sets.
fn requested(world: &World, run: &Run<'_>) -> uuid::Uuid {
    let request = id();
    world
        .database
        .client(Login::Admin)
        .batch_execute(&format!(
            "SET session_replication_role = replica;
             INSERT INTO public.cut_request (cut_request_id, source_ref, requested_by, source_hash, manifest_digest,
                 cut_run_id, metadata)
             SELECT '{request}', 'a.md', 'me', v.sha256, e.manifest_digest, right('{0}', 36)::uuid,
                 jsonb_build_object('run_id', '{0}')
             FROM iu_core.source_version v, cutter_governance.decision_backlog_entry e WHERE e.entry_id = '{1}';
             INSERT INTO public.cut_request_transition (cut_request_id, to_status, actor)
             VALUES ('{request}', 'requested', 'me')",
            run.run_id, run.entry
        ))
        .unwrap();
    request
}

fn at(status: &str) -> String {
    format!(
        "UPDATE public.cut_request SET status = '{status}';
         UPDATE public.cut_request_transition SET to_status = '{status}'"
    )
}

#[test]
fn a_request_follows_what_its_own_run_has_done() {
    let world = World::new();
    let mut run = world.run(&world.register(1));
    run.up_to_sg1();
    run.do_leg_a();
    run.do_leg_b();
    block_on(pending(run.verify(&run.verify_write())).finish(Verdict::CommitFailure)).unwrap();
    requested(&world, &run);
    let call = |effect: &str| {
        format!(
            "SELECT cutter_governance.fn_cut_request_follow('{}', '{effect}', 'me', now());
             SELECT status FROM public.cut_request",
            run.run_id
        )
    };
    let (cut, verify, void) = (call("leg_a"), call("write_verify"), call("void"));
    let why = format!(
        "{void}; SELECT t.detail ->> 'reason' FROM public.cut_request_transition t WHERE t.to_status = 'cut_failed'"
    );
    let unverified = "DELETE FROM cutter_governance.run_effect WHERE effect = 'write_verify'";
    let passed = "UPDATE cutter_governance.run_effect SET verdict = 'commit';
        UPDATE cutter_governance.verify_result SET passed = true, compensating_id = NULL, escalation_entry_id = NULL";
    let uncut = "DELETE FROM cutter_governance.run_effect WHERE effect = 'leg_a'";
    let is_void = "UPDATE cutter_governance.run_effect SET effect = 'void' WHERE effect = 'leg_a'";
    let ended = |run: &str| {
        format!(
            "{uncut}; INSERT INTO cutter_governance.run_ended (run_id, reason, actor, at) VALUES ('{run}', 'over', 'me', now())"
        )
    };
    let with = |status: &str, more: &str| format!("{}; {more}", at(status));
    let voided = |more: &str| with("cut_in_progress", &format!("{is_void}; {more}"));
    let approval = "UPDATE cutter_governance.review_approval";
    let effect = "UPDATE cutter_governance.run_effect";
    let used = "UPDATE cutter_governance.approval_use";
    let set = "UPDATE cutter_governance.cut_change_set";
    let verdict = "UPDATE cutter_governance.verify_result";
    let other = "gen_random_uuid()";
    let mut owner = Scene::of(&world, "cutter_owner");
    owner.holds(&[
        (with("cut_in_progress", ""), &cut, "t,cut_failed"),
        (with("cut_in_progress", unverified), &cut, "t,cut_done"),
        (with("cut_in_progress", passed), &cut, "t,cut_verified"),
        (with("cut_done", ""), &verify, "t,cut_failed"),
        (with("cut_done", passed), &verify, "t,cut_verified"),
        (with("cut_done", unverified), &void, "f,cut_done"),
        (with("completed", ""), &void, "f,completed"),
        // what the effect itself should have led to is named
        (with("cut_done", unverified), &cut, "CUC09: cut_done->cut_done"),
        (with("completed", ""), &cut, "CUC09: completed->cut_done"),
        (with("completed", ""), &verify, "CUC09: completed->cut_failed"),
        (with("completed", passed), &verify, "CUC09: completed->cut_verified"),
        // a cut by its own effect's approval, and a verdict on that cut
        (with("cut_in_progress", &format!("{used} SET effect_id = {other}")), &void, "f,cut_in_progress"),
        (with("cut_in_progress", &format!("{used} SET run_id = 'another'")), &void, "f,cut_in_progress"),
        (with("cut_in_progress", &format!("{set} SET approval_id = {other}")), &void, "f,cut_in_progress"),
        (with("cut_in_progress", &format!("{set} SET run_id = 'another'")), &void, "f,cut_in_progress"),
        (with("cut_in_progress", &format!("{verdict} SET change_set_id = {other}")), &cut, "t,cut_done"),
        (
            with(
                "cut_in_progress",
                &format!("{effect} SET run_id = 'another' WHERE effect = 'write_verify'"),
            ),
            &cut,
            "t,cut_done",
        ),
        (
            with(
                "cut_in_progress",
                &format!("{effect} SET verdict = 'commit' WHERE effect = 'write_verify'"),
            ),
            &cut,
            "t,cut_done",
        ),
        (with("cut_in_progress", &ended(run.run_id.as_str())), &void, "t,cut_failed"),
        (with("cut_in_progress", &ended(run.run_id.as_str())), &why, "t,cut_failed,over"),
        (with("cut_in_progress", &ended("another")), &void, "f,cut_in_progress"),
        (with("mark_verified", &ended(run.run_id.as_str())), &void, "f,mark_verified"),
        (voided(""), &void, "t,cut_failed"),
        (voided(&format!("{effect} SET run_id = 'another'")), &void, "f,cut_in_progress"),
        (voided(&format!("{effect} SET verdict = 'commit_failure'")), &void, "f,cut_in_progress"),
        (voided(&format!("{effect} SET effect_id = gen_random_uuid()")), &void, "f,cut_in_progress"),
        (voided(&format!("{used} SET run_id = 'another'")), &void, "f,cut_in_progress"),
        (voided(&format!("{approval} SET decision = 'reject'")), &void, "f,cut_in_progress"),
    ]);
}

#[test]
fn a_mark_is_decided_again_only_after_it_was_marked_again() {
    let world = World::new();
    let mut run = world.run(&world.register(1));
    run.do_mark();
    let request = requested(&world, &run);
    let manifest = id();
    world
        .database
        .client(Login::Admin)
        .batch_execute(&format!(
            "SET session_replication_role = replica;
             INSERT INTO iu_core.iu_staging_record (staging_record_id, record_kind, source_ref, sha256, byte_length, created_by)
             VALUES ('{manifest}', 'mark_manifest', 'a.md', repeat('0', 64), 1, 'me');
             UPDATE public.cut_request SET manifest_staging_record_id = '{manifest}', cut_run_id = NULL"
        ))
        .unwrap();
    let decided = |approve: &str, document: &str, reason: &str| {
        format!(
            "SELECT cutter_governance.fn_cut_request_mark_decided('{request}', {approve}, 'me', {document}, {reason}, now());
             SELECT status || ' ' || mark_verdict FROM public.cut_request"
        )
    };
    let (yes, no) = (decided("true", "'kb'", "NULL"), decided("false", "NULL", "'why'"));
    let was = |status: &str, verdict: &str| {
        format!("{}; UPDATE public.cut_request SET mark_verdict = {verdict}", at(status))
    };
    let mut owner = Scene::of(&world, "cutter_owner");
    owner.holds(&[
        (was("marked", "NULL"), &yes, "t,mark_verified approved"),
        (was("marked", "NULL"), &no, "t,mark_rejected rejected"),
        (was("mark_verified", "'approved'"), &yes, "f,mark_verified approved"),
        (was("cut_in_progress", "'approved'"), &yes, "f,cut_in_progress approved"),
        (was("mark_rejected", "'rejected'"), &no, "f,mark_rejected rejected"),
        (was("mark_rejected", "'rejected'"), &yes, "CUC09: mark_rejected->mark_verified"),
        (was("mark_verified", "'approved'"), &no, "CUC09: mark_verified->mark_rejected"),
        // marked once more, after a rejection
        (was("marked", "'rejected'"), &no, "t,mark_rejected rejected"),
        (was("marked", "'rejected'"), &yes, "t,mark_verified approved"),
        (was("mark_in_progress", "'rejected'"), &no, "t,mark_rejected rejected"),
        (was("marked", "NULL"), &decided("true", "' '", "NULL"), "CUC10: verify_mark.approval_doc"),
        (was("marked", "NULL"), &decided("true", "NULL", "'why'"), "CUC10: verify_mark.approval_doc"),
        (was("marked", "NULL"), &decided("false", "'kb'", "' '"), "CUC10: verify_mark.reason"),
        (was("marked", "NULL"), &decided("NULL", "'kb'", "'why'"), "CU003"),
        // a rejection asks for another mark
        (was("marked", "NULL"), &format!("{no}; {ASKED}"), "t,mark_rejected rejected,mark true"),
        (was("marked", "NULL"), &format!("{yes}; {ASKED}"), "t,mark_verified approved,NULL"),
        (was("mark_rejected", "'rejected'"), &format!("{no}; {ASKED}"), "f,mark_rejected rejected,NULL"),
    ]);
}

/// What is asked for, and whether of the request.
const ASKED: &str = "SELECT string_agg(j.signal || ' ' || (j.cut_request_id = q.cut_request_id), ' ')
    FROM cutter_queue.job_signal j, public.cut_request q";

/// A request beside the one that is there.
fn another_request() -> String {
    beside(
        "public.cut_request",
        "'cut_request_id', '00000000-0000-4000-8000-000000000001', 'cut_run_id', NULL, 'cleanup_scheduled_at', '2000-01-01Z'",
    )
}

#[test]
fn who_asks_or_completes_is_answered_of_the_request_that_is_named() {
    let world = World::new();
    let mut run = world.run(&world.register(1));
    run.up_to_verified();
    run.do_sg2();
    run.do_enact();
    let request = requested(&world, &run);
    let complete = format!(
        "SELECT public.fn_cut_complete('{request}', 'me') = q.cleanup_scheduled_at FROM public.cut_request q
         WHERE q.cut_request_id = '{request}'"
    );
    let open = |request: &str| {
        format!(
            "INSERT INTO cutter_queue.job_signal (signal_id, signal, cut_request_id, payload, enqueued_by, enqueued_at)
             SELECT q.cut_request_id, 'cut', q.cut_request_id, '{{}}', 'me', now() FROM public.cut_request q
             WHERE q.cut_request_id {request}"
        )
    };
    let own = format!("= '{request}'");
    let asked = format!(
        "SELECT cutter_queue.fn_job_enqueue('cut', '{{\"cut_request_id\":\"{request}\"}}', 'me', now()) = '{request}';
         SELECT count(*) FROM cutter_queue.job_signal"
    );
    let two = another_request();
    let done = format!(
        "{}; UPDATE public.cut_request SET completed_at = now(), cleanup_scheduled_at = now(); {two}",
        at("completed")
    );
    Scene::of(&world, "cutter_owner").holds(&[
        (done, complete, "t"),
        // an ask that is open is the answer to the next, and another request's is not
        (two.clone(), asked.clone(), "f,1"),
        (format!("{two}; {}", open(&own)), asked.clone(), "t,1"),
        (format!("{two}; {}", open("IS NOT NULL")), asked.clone(), "t,2"),
        (format!("{two}; {}", open(&format!("<> '{request}'"))), asked, "f,2"),
    ]);
}

#[test]
fn the_bytes_of_what_is_staged_go_when_it_is_cleaned() {
    let world = World::new();
    let staged = |status: &str| {
        format!(
            "INSERT INTO iu_core.iu_staging_record (staging_record_id, record_kind, source_ref, sha256, byte_length, created_by,
                 lifecycle_status)
             SELECT gen_random_uuid(), 'mark_manifest', 'a.md', repeat('0', 64), 1, 'me', s.status
             FROM unnest(ARRAY['{status}', 'cleaned']) AS s(status);
             INSERT INTO iu_core.iu_staging_payload (staging_record_id, content)
             SELECT r.staging_record_id, 'x' FROM iu_core.iu_staging_record r
             WHERE r.lifecycle_status = '{status}' LIMIT 1"
        )
    };
    let gone = "DELETE FROM iu_core.iu_staging_payload";
    let mut lines = vec![(staged("cleaned"), gone, "")];
    for status in ["staged", "approved", "expired", "consumed"] {
        lines.push((staged(status), gone, "CU003"));
    }
    Scene::of(&world, "cutter_owner").holds(&lines);
}

/// Where units start and end, as a plan says it.
type Units<'a> = &'a [(&'a str, &'a str)];

#[test]
fn a_manifest_parts_its_region_and_says_where_it_does_not() {
    let world = World::new();
    let mut exec = world.database.client(Login::Exec);
    exec.batch_execute("SELECT public.fn_cut_request_add('a.md', NULL, 'me')").unwrap();
    let (hash, digest) = ("0".repeat(64), "1".repeat(64));
    let units = |all: Units<'_>| {
        let all: Vec<String> =
            all.iter().map(|(from, to)| format!(r#"{{"start":{from},"end":{to}}}"#)).collect();
        all.join(",")
    };
    let filed = |region: (i64, i64), all: Units<'_>| {
        let manifest = format!(
            r#"{{"region":{{"start":{},"end":{}}},"document":{{"sha256":"{hash}","bytes":100}},"manifest_digest":"{digest}","units":[{}]}}"#,
            region.0,
            region.1,
            units(all)
        );
        format!(
            "SELECT iu_core.fn_iu_op_mark_file(gen_random_uuid(), (SELECT cut_request_id FROM public.cut_request),
                '{manifest}', '{digest}', 'me', now())"
        )
    };
    let copied = format!("UPDATE public.cut_request SET source_hash = '{hash}', source_bytes = 100");
    let mut lines: Vec<(&str, String, &str)> = Vec::new();
    let cases: [((i64, i64), Units<'_>, &str); 19] = [
        ((0, 100), &[("0", "50"), ("50", "100")], "2"),
        ((5, 60), &[("5", "60")], "1"),
        ((0, 0), &[], "0"),
        ((100, 100), &[], "0"),
        // a region outside of the text, or the wrong way round
        ((-5, 60), &[("-5", "60")], "CUC10: region -5..60 of 100 bytes"),
        ((-1, -1), &[], "CUC10: region -1..-1 of 100 bytes"),
        ((0, 101), &[("0", "101")], "CUC10: region 0..101 of 100 bytes"),
        ((101, 101), &[], "CUC10: region 101..101 of 100 bytes"),
        ((60, 5), &[], "CUC10: region 60..5 of 100 bytes"),
        ((60, 5), &[("60", "5")], "CUC10: region 60..5 of 100 bytes"),
        // units that leave something out, take it twice, or hold nothing
        ((0, 100), &[("1", "100")], "CUC10: a gap or an overlap at unit 0"),
        ((0, 100), &[("0", "50"), ("51", "100")], "CUC10: a gap or an overlap at unit 1"),
        ((0, 100), &[("0", "50"), ("49", "100")], "CUC10: a gap or an overlap at unit 1"),
        ((0, 100), &[("0", "50"), ("50", "50"), ("50", "100")], "CUC10: a gap or an overlap at unit 1"),
        ((5, 5), &[("5", "5")], "CUC10: a gap or an overlap at unit 0"),
        ((0, 100), &[("0", "null"), ("50", "100")], "CUC10: a gap or an overlap at unit 0"),
        ((0, 100), &[("null", "100")], "CUC10: a gap or an overlap at unit 0"),
        ((0, 100), &[("0", "50")], "CUC10: units to 50, region to 100"),
        ((0, 10), &[], "CUC10: units to 0, region to 10"),
    ];
    for (region, all, out) in cases {
        lines.push((&copied, filed(region, all), out));
    }
    let good = filed((0, 100), &[("0", "100")]);
    let (not_so, of_source, of_digest) = ("CU003", "CUC10: mark.source_hash", "CUC10: mark.manifest_digest");
    let other = "2".repeat(64);
    lines.extend([
        (copied.as_str(), good.clone(), "1"),
        ("", good.clone(), of_source),
        (copied.as_str(), good.replace(&hash, &other), of_source),
        (copied.as_str(), good.replace(r#""bytes":100"#, r#""bytes":101"#), of_source),
        (copied.as_str(), good.replacen(&digest, &other, 1), of_digest),
        (copied.as_str(), good.replace(&digest, "1"), of_digest),
        (copied.as_str(), good.replace(&format!("'{digest}', 'me'"), "NULL, 'me'"), of_digest),
    ]);
    // each thing that a plan prints
    for part in ["region", "start", "end", "document", "sha256", "bytes", "manifest_digest", "units"] {
        lines.push((&copied, good.replacen(&format!("\"{part}\""), "\"else\"", 1), not_so));
    }
    lines.push((&copied, good.replace(r#""units":[{"start":0,"end":100}]"#, r#""units":{}"#), not_so));
    lines.push((&copied, good.replacen(r#""end":100"#, r#""end":null"#, 1), not_so));
    Scene::of(&world, "cutter_owner").holds(&lines);
}

#[test]
fn what_is_staged_is_due_when_its_own_days_have_passed_by_both_clocks() {
    let world = World::new();
    let mut exec = world.database.client(Login::Exec);
    exec.batch_execute("SELECT public.fn_cut_request_add('a.md', NULL, 'me')").unwrap();
    // said to be due on the 10th; recorded on the 5th, so due on the 20th
    let set = |of_request: &str, of_staged: &str, status: &str| {
        format!(
            "UPDATE public.cut_request SET status = '{of_request}', cleanup_scheduled_at = '2026-01-10Z';
             INSERT INTO iu_core.iu_staging_record (staging_record_id, record_kind, source_ref, sha256, byte_length, created_by,
                 lifecycle_status, expires_at, metadata)
             SELECT gen_random_uuid(), 'mark_manifest', 'a.md', repeat('0', 64), 1, 'me', '{of_staged}', '2026-01-10Z',
                 jsonb_build_object('cut_request_id', q.cut_request_id) FROM public.cut_request q;
             UPDATE public.cut_request_transition SET to_status = '{status}', recorded_at = '2026-01-05Z'"
        )
    };
    let more = |request: &str, status: &str, at: &str| {
        format!(
            "INSERT INTO public.cut_request_transition (cut_request_id, to_status, actor, recorded_at)
             SELECT {request}, '{status}', 'me', '{at}' FROM public.cut_request q"
        )
    };
    let due = |by: &str| {
        format!(
            "SELECT (cut_request_id IS NOT NULL) || ' ' || (due_at AT TIME ZONE 'UTC')
             FROM public.fn_cut_cleanup_due('{by}Z', 10)"
        )
    };
    let (before, on) = (due("2026-01-19 23:59:59.999999"), due("2026-01-20"));
    let mut lines = Vec::new();
    for (request, staged, status, other, out) in [
        ("cleanup_scheduled", "staged", "cleanup_scheduled", "mark_rejected", "true 2026-01-20 00:00:00"),
        ("marked", "expired", "mark_rejected", "cleanup_scheduled", "false 2026-01-20 00:00:00"),
    ] {
        let clean = set(request, staged, status);
        let with = |more: &str| format!("{clean}; {more}");
        lines.extend([
            (with(""), &on, out),
            (with(""), &before, ""),
            // others' moves, and other moves, count for nothing
            (with(&more("gen_random_uuid()", status, "2026-06-01Z")), &on, out),
            (with(&more("q.cut_request_id", other, "2026-06-01Z")), &on, out),
            (with(&more("q.cut_request_id", status, "2026-06-01Z")), &on, ""),
            (with(&more("q.cut_request_id", status, "2026-01-01Z")), &on, out),
            (set("marked", "staged", status), &on, ""),
        ]);
        let word = if request == "marked" { "expires_at" } else { "cleanup_scheduled_at" };
        let table = if request == "marked" { "iu_core.iu_staging_record" } else { "public.cut_request" };
        let late = with(&format!("UPDATE {table} SET {word} = '2026-01-20Z'"));
        lines.extend([(late.clone(), &on, out), (late, &before, "")]);
        lines.push((with(&format!("UPDATE {table} SET {word} = '2026-01-21Z'")), &on, ""));
        lines.push((with(&format!("UPDATE {table} SET {word} = NULL")), &on, ""));
    }
    Scene::of(&world, "cutter_owner").holds(&lines);
}

#[test]
fn the_server_copies_once_and_what_is_named_in_its_folder_alone() {
    let world = World::new();
    let mut exec = world.database.client(Login::Exec);
    exec.batch_execute("SELECT public.fn_cut_request_add('a.md', NULL, 'me')").unwrap();
    let copy = |name: &str| {
        format!(
            "SELECT public.fn_cut_copy_to_staging((SELECT cut_request_id FROM public.cut_request), {name}, 'me')"
        )
    };
    let folder = "INSERT INTO cutter_governance.copy_folder (folder) VALUES ('/nowhere/')".to_owned();
    let copied = "UPDATE public.cut_request SET source_path = 'a.md', copy_staging_record_id = '00000000-0000-4000-8000-000000000001'";
    let mut lines = vec![
        (String::new(), copy("'a.md'"), "CUD08"),
        (copied.to_owned(), copy("'a.md'"), "00000000-0000-4000-8000-000000000001"),
        (copied.to_owned(), copy("'b.md'"), "CUD08"),
    ];
    for status in ["copied", "marked", "mark_rejected", "cut_done", "cleaned"] {
        lines.push((at(status), copy("'a.md'"), "CUC09: ->copied"));
        lines.push((format!("{}; {folder}", at(status)), copy("NULL"), "CUC09: ->copied"));
    }
    let names = [
        "NULL",
        "''",
        "'.'",
        "'..'",
        "'a/b'",
        "'/a'",
        r"'a\b'",
        "E'a\\nb'",
        "repeat('a', 256)",
        "repeat('é', 128)",
    ];
    lines.extend(names.map(|name| (folder.clone(), copy(name), "CU003: expected the name of a file")));
    // these are looked for, and are not there
    lines.extend(["'...'", "'.a'", "repeat('a', 255)"].map(|name| (folder.clone(), copy(name), "58P01")));
    Scene::of(&world, "cutter_owner").holds(&lines);
}
