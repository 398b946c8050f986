//! Of a run, from its asks to its enactment, and of its request.

use cutter_core::record::effect::{EffectName, ExecutorEffect, ReviewVerdict};

use super::Calls;
use super::support::{Run, World, id};

const AT: &str = "'2026-05-20T10:11:12Z'";
const ZEROS: &str = "repeat('0', 64)";

fn quoted(text: &impl std::fmt::Display) -> String {
    format!("'{text}'")
}

/// What is asked of a run that is done.
fn looked_at(calls: &mut Calls, run: &Run<'_>) {
    let (run_id, entry) = (quoted(&run.run_id), quoted(&run.entry));
    let document = quoted(&run.source.document);
    calls.call("cutter_governance.fn_survey", &[&document, &run_id, &entry, "NULL", "'x'"]);
    calls.call("cutter_governance.fn_base_state_tables", &[&document, "'another'"]);
    calls.call("cutter_governance.fn_base_state_tables", &[&document, &run_id]);
    for effect in [
        "mark",
        "sweep",
        "sg1_review",
        "leg_a",
        "leg_b",
        "write_verify",
        "sg2_request",
        "sg2_review",
        "enact",
    ] {
        calls.call("cutter_governance.fn_effect_stands", &[&run_id, &quoted(&effect), "'commit'"]);
    }
    calls.call("cutter_governance.fn_ask_closed", &[&run_id, "'SG_cut_authz'", "1", "'2100-01-01Z'"]);
}

/// An answer to an ask, and what is decided by it.
fn decided(calls: &mut Calls, run_id: &str, gate: &str, moves: &str) {
    calls.bench.now(&format!(
        "INSERT INTO cutter_governance.approval_answer (run_id, gate, occurrence, sha256, decision, approval_kb_id,
             document, fingerprint, actor, late, inserted_by, recorded_at)
         SELECT k.run_id, k.gate, 1, repeat('a', 64), 'approve', 'kb', convert_to(format(
             E'decision: approve\\nnonce: %s\\nrun_id: %s\\napproval_type: %s\\ndocument_id: %s\\nactor: ada\\n'
             'request_sha256: %s\\nrows_digest: %s\\nexpires: never\\n', k.nonce, k.run_id, k.approval_type,
             k.document_id, k.request_sha256, k.rows_digest), 'UTF8'), 'f', 'ada', false, 'cutter_review', {AT}
         FROM cutter_governance.approval_ask k WHERE k.gate = '{gate}'"
    ));
    let gate = quoted(&gate);
    let answer = [run_id, &gate, "1", "repeat('a', 64)", ZEROS, moves, "'me'"];
    let rejected = "UPDATE cutter_governance.approval_answer SET decision = 'reject',
        document = convert_to(replace(convert_from(document, 'UTF8'), 'approve', 'reject'), 'UTF8')";
    for before in ["", rejected] {
        calls.call_after(before, "cutter_governance.fn_decision_record", &answer);
    }
    // beside another answer that differs in several things at once
    let beside = |table: &str, different: &str| {
        format!(
            "INSERT INTO cutter_governance.{table} SELECT (jsonb_populate_record(w, '{{{different}}}')).*
             FROM cutter_governance.{table} w"
        )
    };
    for other in [
        r#""sha256":"b""#,
        r#""late":true,"sha256":"b""#,
        r#""run_id":"x""#,
        r#""gate":"x""#,
        r#""occurrence":2"#,
    ] {
        let refused = beside("approval_answer", &format!(r#"{other},"decision":"reject""#));
        calls.outcome_after(&refused, "cutter_governance.fn_decision_record", &answer);
    }
    for other in [r#""a":1"#, r#""run_id":"x""#, r#""nonce":"x""#, r#""decision":"reject""#] {
        let stored = format!(
            "INSERT INTO cutter_governance.review_approval SELECT (jsonb_populate_record(
                 NULL::cutter_governance.review_approval, jsonb_build_object('approval_id', gen_random_uuid(), 'run_id', k.run_id,
                 'nonce', k.nonce, 'decision', 'approve', 'sha256', 'b') || '{{{other}}}')).*
             FROM cutter_governance.approval_ask k WHERE k.gate = {gate}"
        );
        calls.outcome_after(&stored, "cutter_governance.fn_decision_record", &answer);
        calls.outcome_after(
            &format!("{rejected}; {stored}"),
            "cutter_governance.fn_decision_record",
            &answer,
        );
    }
}

#[test]
fn of_a_run_that_asks() {
    let world = World::new();
    let mut run = world.run(&world.register(1));
    run.do_mark();
    run.do_sweep();
    let mut calls = Calls::of(&world.database, "asks.tsv");
    let (run_id, entry, document) = (quoted(&run.run_id), quoted(&run.entry), quoted(&run.source.document));
    let ids = serde_json::json!({ "approval": id(), "review_decision": id(), "review_history": id(),
        "effect.sg1_review": id() });
    calls.bench.now(&format!("UPDATE cutter_governance.approval_ask SET ids = '{ids}'"));
    decided(&mut calls, &run_id, "SG_cut_authz", "true");
    let nonce = calls.literal("SELECT nonce FROM cutter_governance.approval_ask WHERE gate = 'SG_cut_authz'");
    let text = format!("convert_to('decision: defer' || E'\\n' || 'nonce: ' || {nonce} || E'\\n', 'UTF8')");
    calls.call(
        "cutter_governance.fn_answer_record",
        &[&run_id, "'SG_cut_authz'", "1", "'defer'", "'kb'", &text, "'f'", "'ada'"],
    );
    let (epoch, holder) = (run.fence.epoch.to_string(), quoted(&run.fence.holder));
    calls.call("cutter_governance.fn_run_fence_assert", &[&run_id, &epoch, &holder]);
    calls.call("cutter_governance.fn_run_fence_take", &[&run_id, &document, &quoted(&id())]);
    calls.call("cutter_governance.fn_run_begun_record", &[&run_id, &epoch, &holder, "'s'", "'c'", "'f'"]);
    let ask = calls.literal("SELECT ask FROM cutter_governance.approval_ask WHERE gate = 'SG_cut_authz'");
    calls.call("cutter_governance.fn_ask_open", &[&run_id, &epoch, &holder, &ask, "'{}'", "NULL", AT]);

    let manifest = calls.literal("SELECT manifest_digest FROM cutter_governance.decision_backlog_entry");
    let decision = quoted(&id());
    let history = quoted(&id());
    for verdict in ["'approve'", "'defer'"] {
        calls.call(
            "cutter_governance.fn_backlog_review",
            &[&decision, &entry, verdict, &manifest, &history, "'why'", "'n'", ZEROS, "'me'", AT],
        );
    }
    calls.call("cutter_governance.fn_backlog_abandon", &[&entry, &history, "'why'", "'me'", AT]);
    let is =
        |status: &str| format!("UPDATE cutter_governance.decision_backlog_entry SET status = '{status}'");
    let sweep = quoted(&id());
    calls.call_after(
        &is("reviewed_deferred"),
        "cutter_governance.fn_backlog_requeue",
        &[&sweep, &entry, &history, "'why'", "'me'", AT],
    );
    for status in ["marked", "reviewed_deferred"] {
        calls.call_after(
            &is(status),
            "cutter_governance.fn_backlog_sweep_pass",
            &[&sweep, &document, "'me'", AT, "NULL", "10"],
        );
    }
    let values = calls.literal(
        "SELECT ROW(source_document_id, source_version_id, idempotency_key, region_sha)
        FROM cutter_governance.decision_backlog_entry",
    );
    let values: Vec<String> =
        values.trim_matches(['\'', '(', ')']).split(',').map(|value| format!("'{value}'")).collect();
    let other = quoted(&id());
    let mark: Vec<&str> = [other.as_str(), &history, &run_id, &document]
        .into_iter()
        .chain(values.iter().map(String::as_str))
        .chain([manifest.as_str(), "1", "'{}'", "'me'", "'why'", AT])
        .collect();
    calls.call("cutter_governance.fn_backlog_mark_once", &mark);
    calls.call_after(&is("abandoned"), "cutter_governance.fn_backlog_mark_once", &mark);
    let entries = format!("ARRAY[{entry}::uuid]");
    calls.call("cutter_governance.fn_backlog_promotions", &[&entries]);
    calls.call("cutter_governance.fn_backlog_depends_on_check", &[&other, &entries]);
    calls.again("cutter_governance.decision_backlog_entry");
    calls.again("cutter_governance.decision_backlog_history");
    calls.step("marked", "review_pending");
    calls.list.end();
}

#[test]
fn of_a_run_that_cuts() {
    let world = World::new();
    let mut run = world.run(&world.register(1));
    run.up_to_sg1();
    let mut calls = Calls::of(&world.database, "cuts.tsv");
    let run_id = quoted(&run.run_id);
    let (approval, set) = (quoted(&run.cut_approval), quoted(&run.change_set));
    calls.call("cutter_governance.fn_approval_use", &[&approval, &run_id, "'leg_a'", &quoted(&id()), AT]);
    calls.call("cutter_governance.fn_consent_rows", &[&approval]);
    for table in ["review_decision", "review_approval"] {
        calls.again(&format!("cutter_governance.{table}"));
    }
    calls.step("review_pending", "reviewed_approved");
    calls.again("cutter_governance.decision_backlog_history");
    run.do_leg_a();
    calls.call("cutter_governance.fn_rows_check", &[&set, &approval, "false"]);
    calls.call("cutter_governance.fn_rows_check", &[&set, &approval, "true"]);
    for table in ["cut_change_set", "approval_use"] {
        calls.again(&format!("cutter_governance.{table}"));
    }
    calls.step("cut_in_progress", "cut_applied");
    run.do_leg_b();
    let escalated = [quoted(&id()), quoted(&id()), quoted(&id())];
    calls.call(
        "cutter_governance.fn_verify_escalate",
        &[&escalated[0], &set, &escalated[1], &escalated[2], &run_id, "'me'", AT],
    );
    calls.call(
        "iu_core.fn_iu_apply_edit_draft",
        &["(SELECT unit_id FROM iu_core.information_unit)", &quoted(&id()), "'x'", ZEROS, ZEROS, "'me'", AT],
    );
    run.do_verify();
    for table in ["verify_result", "dot_pair_signature", "manifest_envelope"] {
        calls.again(&format!("cutter_governance.{table}"));
    }
    calls.step("verify_in_progress", "verified_complete");
    calls.list.end();
}

#[test]
fn of_a_run_that_enacts_and_its_request() {
    let world = World::new();
    let mut run = world.run(&world.register(1));
    run.up_to_verified();
    run.survey.review_decision_id = Some(run.enact_decision);
    let request = ExecutorEffect::Sg2Request(run.sg2_request_write());
    run.commit(run.exec(EffectName::Sg2Request, request));
    let mut calls = Calls::of(&world.database, "enacts.tsv");
    let run_id = quoted(&run.run_id);
    let ids = serde_json::json!({ "approval": id(), "review_decision": run.enact_decision, "effect.sg2_review": id() });
    calls.bench.now(&format!("UPDATE cutter_governance.approval_ask SET ids = '{ids}'"));
    decided(&mut calls, &run_id, "SG_lifecycle_authz", "false");
    calls.bench.now("DELETE FROM cutter_governance.approval_answer");
    run.commit(run.review(EffectName::Sg2Review, &run.sg2_write(ReviewVerdict::Approve)));
    let (approval, unit) = (quoted(&run.enact_approval), "(SELECT unit_id FROM iu_core.information_unit)");
    calls.call("cutter_governance.fn_approval_use", &[&approval, &run_id, "'enact'", &quoted(&id()), AT]);
    run.do_enact();
    let draft =
        "UPDATE iu_core.information_unit SET lifecycle_status = 'draft'; DELETE FROM iu_core.iu_lifecycle_log
        WHERE to_status = 'enacted'";
    let unit = calls.literal(&unit[1..unit.len() - 1]);
    calls.call_after(draft, "iu_core.fn_iu_enact", &[&unit, &approval, &run_id, "'me'", AT]);
    calls.again("cutter_governance.approval_use");
    let (epoch, holder) = (run.fence.epoch.to_string(), quoted(&run.fence.holder));
    let body = calls.literal(&format!(
        "SELECT jsonb_build_object('subject', jsonb_build_array(
            jsonb_build_object('name', 'text', 'digest', jsonb_build_object('sha256',
                (SELECT encode(sha256(content), 'hex') FROM iu_core.source_version))),
            jsonb_build_object('name', 'units', 'digest', jsonb_build_object('cutterRowsV1',
                cutter_governance.fn_consent_rows({approval})))))"
    ));
    let (key, signature) = ("repeat('ab', 32)", "repeat('cd', 64)");
    let sha256 = format!("encode(sha256(convert_to({body}, 'UTF8')), 'hex')");
    calls.call("cutter_governance.fn_statement_store", &[&run_id, &epoch, &holder, &body, key, signature]);
    calls.bench.now(&format!(
        "INSERT INTO cutter_governance.run_statement (run_id, sha256, body) VALUES ({run_id}, {sha256}, {body})"
    ));
    calls.call("cutter_governance.fn_statement_sign", &[&run_id, &epoch, &holder, &sha256, key, signature]);
    looked_at(&mut calls, &run);
    calls.views();
    calls.list.end();
}

#[test]
fn of_the_request_of_a_run() {
    let world = World::new();
    let mut run = world.run(&world.register(1));
    run.up_to_verified();
    run.do_sg2();
    run.do_enact();
    let mut calls = Calls::of(&world.database, "requests.tsv");
    let run_id = quoted(&run.run_id);
    let plan = calls.literal(
        "SELECT jsonb_build_object('manifest_digest', e.manifest_digest, 'region', jsonb_build_object('start', 0,
             'end', octet_length(v.content)), 'document', jsonb_build_object('bytes', octet_length(v.content), 'sha256',
             encode(sha256(v.content), 'hex')), 'units', jsonb_build_array(jsonb_build_object('start', 0, 'end', 5),
             jsonb_build_object('start', 5, 'end', octet_length(v.content))))
         FROM iu_core.source_version v, cutter_governance.decision_backlog_entry e",
    );
    let (request, copy, manifest) = (quoted(&id()), quoted(&id()), quoted(&id()));
    calls.bench.now(&format!(
        "INSERT INTO iu_core.iu_staging_record (staging_record_id, record_kind, source_ref, sha256, byte_length, created_by,
             created_at, metadata, lifecycle_status)
         SELECT s.id, s.kind, 'a.md', encode(sha256(v.content), 'hex'), octet_length(v.content), 'me', {AT},
             jsonb_build_object('cut_request_id', {request}), s.status
         FROM iu_core.source_version v, (VALUES ({copy}::uuid, 'source_copy', 'consumed'),
             ({manifest}::uuid, 'mark_manifest', 'approved')) AS s(id, kind, status);
         INSERT INTO iu_core.iu_staging_payload (staging_record_id, content)
         SELECT s.staging_record_id, CASE s.record_kind WHEN 'source_copy' THEN v.content ELSE convert_to({plan}, 'UTF8') END
         FROM iu_core.iu_staging_record s, iu_core.source_version v;
         INSERT INTO public.cut_request (cut_request_id, source_ref, requested_by, status, source_hash, source_bytes,
             copy_staging_record_id, manifest_staging_record_id, manifest_digest, cut_run_id, metadata)
         SELECT {request}, 'a.md', 'me', 'cut_in_progress', encode(sha256(v.content), 'hex'), octet_length(v.content),
             {copy}, {manifest}, e.manifest_digest, right({run_id}, 36)::uuid, jsonb_build_object('run_id', {run_id})
         FROM iu_core.source_version v, cutter_governance.decision_backlog_entry e;
         INSERT INTO public.cut_request_transition (cut_request_id, from_status, to_status, actor)
         VALUES ({request}, NULL, 'cut_in_progress', 'me')"
    ));
    let signal = "INSERT INTO cutter_queue.job_signal (signal_id, signal, cut_request_id, payload, enqueued_by, enqueued_at)
        VALUES ('00000000-0000-4000-8000-000000000009', 'verify_cut',";
    let signalled = format!("{signal} {request}, '{{}}', 'me', {AT})");
    let is = |status: &str, more: &str| {
        format!(
            "UPDATE public.cut_request SET status = '{status}'{more};
             UPDATE public.cut_request_transition SET to_status = '{status}'"
        )
    };
    for (status, effect) in
        [("cut_in_progress", "'leg_a'"), ("cut_done", "'write_verify'"), ("cut_done", "'void'")]
    {
        calls.call_after(
            &is(status, ""),
            "cutter_governance.fn_cut_request_follow",
            &[&run_id, effect, "'me'", AT],
        );
    }
    let ended = [request.as_str(), "'why'", "'me'", AT];
    for nothing_more in ["", "; DELETE FROM cutter_governance.run_effect"] {
        calls.call_after(
            &format!("{}{nothing_more}", is("cut_in_progress", "")),
            "cutter_governance.fn_cut_request_run_ended",
            &ended,
        );
    }
    calls.call_after(
        &is("cut_verified", ""),
        "cutter_governance.fn_cut_request_completed",
        &[&request, "'me'", AT],
    );
    let free = ", cut_run_id = NULL, metadata = '{}', mark_verdict = 'approved'";
    calls.call_after(
        &is("mark_verified", free),
        "cutter_governance.fn_cut_request_start",
        &[&request, &run_id, "'me'", AT],
    );
    calls.call_after(
        &signalled,
        "cutter_governance.fn_cut_request_move",
        &[&request, "'cut_in_progress'", "'cut_done'", "NULL", "'me'", "NULL", AT],
    );
    let unmarked = ", manifest_digest = NULL, cut_run_id = NULL";
    for approve in ["true", "false"] {
        calls.call_after(
            &format!(
                "{}; UPDATE iu_core.iu_staging_record SET lifecycle_status = 'staged'",
                is("marked", ", cut_run_id = NULL")
            ),
            "cutter_governance.fn_cut_request_mark_decided",
            &[&request, approve, "'me'", "'kb'", "'why'", AT],
        );
    }
    let digest = calls.literal("SELECT manifest_digest FROM cutter_governance.decision_backlog_entry");
    let staged = quoted(&id());
    for change in [
        "",
        "{region,start} -1",
        "{region,start} 1",
        "{region,end} 1",
        "{units,0,end} 6",
        "{units,0,end} null",
        "{units,1,end} 5",
        "{document,bytes} 5",
        "{document,bytes} 100",
        "{units} 1",
        "{manifest_digest} 1",
    ] {
        let plan = match change.split_once(' ') {
            Some((path, value)) => format!("jsonb_set({plan}, '{path}', '{value}')::text"),
            None => plan.clone(),
        };
        calls.call_after(
            &is("copied", unmarked),
            "cutter_governance.fn_cut_request_marked",
            &[&request, &staged, &plan, &digest, "'me'", AT],
        );
    }
    calls.call_after(
        &is("requested", ", source_hash = NULL, source_bytes = NULL, copy_staging_record_id = NULL"),
        "cutter_governance.fn_cut_request_copied",
        &[&request, &staged, "'x'", "encode(sha256('x'), 'hex')", "'p'", "'me'", AT],
    );
    calls.call_after(&is("cut_done", ""), "public.fn_cut_verify_cut", &[&request, "'me'"]);
    calls.call_after(&is("requested", ""), "public.fn_cut_copy_to_staging", &[&request, "'a.md'", "'me'"]);
    let scheduled = format!(
        "{}; UPDATE iu_core.iu_staging_record SET lifecycle_status = CASE record_kind WHEN 'source_copy' THEN 'consumed'
             ELSE 'expired' END, expires_at = '2100-01-01Z'",
        is("cleanup_scheduled", ", cleanup_scheduled_at = '2100-01-01Z'")
    );
    calls.call_after(&scheduled, "public.fn_cut_cleanup_due", &["'2100-01-01Z'", "10"]);
    let scheduled = scheduled.replace("2100", "2026");
    calls.call_after(&scheduled, "public.fn_cut_cleanup", &["10", "'me'"]);
    calls.call("cutter_governance.fn_cut_request_lock", &[&request]);
    calls.list.end();
}
