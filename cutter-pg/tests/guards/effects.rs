//! Of effects, asks and answers.

use cutter_pg::login::Login;

use super::Scene;
use super::support::{Run, World, id};

fn enacted(world: &World) -> Run<'_> {
    let mut run = world.run(&world.register(2));
    run.up_to_verified();
    run.do_sg2();
    run.do_enact();
    run
}

/// For each effect what its rows must be; each line spoils one thing of them.
const ROWS_OF_EFFECTS: &[(&str, &str, &str)] = &[
    ("mark", "", "t"),
    ("mark", "UPDATE cutter_governance.decision_backlog_entry SET run_id = 'another'", "f"),
    ("sweep", "", "t"),
    ("sweep", "UPDATE cutter_governance.decision_backlog_sweep_log SET run_id = 'another'", "f"),
    ("sweep", "UPDATE cutter_governance.decision_backlog_sweep_log SET document_id = 'Y'", "f"),
    ("sweep", "UPDATE cutter_governance.decision_backlog_entry SET run_id = 'another'", "f"),
    ("sg1_review", "", "t"),
    ("sg1_review", "UPDATE cutter_governance.review_decision SET run_id = 'another'", "f"),
    (
        "sg1_review",
        "UPDATE cutter_governance.review_decision SET type = 'stop_resume' WHERE type = 'cut_authorization'",
        "f",
    ),
    (
        "sg1_review",
        "UPDATE cutter_governance.review_decision SET decision = 'reject' WHERE type = 'cut_authorization'",
        "f",
    ),
    (
        "sg1_review",
        "UPDATE cutter_governance.review_approval SET review_decision_id = gen_random_uuid()",
        "f",
    ),
    ("leg_a", "", "t"),
    ("leg_a", "UPDATE cutter_governance.cut_change_set SET run_id = 'another'", "f"),
    (
        "leg_a",
        "UPDATE cutter_governance.cut_change_set SET kind = 'compensating', live = false, unit_count = 0,
         compensates_id = gen_random_uuid()",
        "f",
    ),
    ("leg_b", "", "t"),
    ("leg_b", "UPDATE cutter_governance.manifest_envelope SET run_id = 'another'", "f"),
    ("write_verify", "", "t"),
    ("write_verify", "UPDATE cutter_governance.verify_result SET run_id = 'another'", "f"),
    ("write_verify", "UPDATE cutter_governance.cut_change_set SET run_id = 'another'", "f"),
    ("write_verify", "UPDATE cutter_governance.verify_result SET change_set_id = gen_random_uuid()", "f"),
    (
        "write_verify",
        "UPDATE cutter_governance.verify_result SET passed = false, compensating_id = gen_random_uuid(),
         escalation_entry_id = gen_random_uuid()",
        "f",
    ),
    ("sg2_request", "", "t"),
    ("sg2_request", "UPDATE cutter_governance.review_decision SET run_id = 'another'", "f"),
    (
        "sg2_request",
        "UPDATE cutter_governance.review_decision SET type = 'void', decision = 'approve'
         WHERE type = 'lifecycle_enactment'",
        "f",
    ),
    ("sg2_review", "", "t"),
    ("sg2_review", "UPDATE cutter_governance.review_approval SET run_id = 'another'", "f"),
    (
        "sg2_review",
        "UPDATE cutter_governance.review_approval SET type = 'void' WHERE type <> 'cut_authorization'",
        "f",
    ),
    ("enact", "", "t"),
    ("enact", "UPDATE cutter_governance.cut_change_set SET run_id = 'another'", "f"),
    ("enact", "UPDATE cutter_governance.cut_change_set SET live = false", "f"),
    (
        "enact",
        "UPDATE cutter_governance.cut_change_set SET kind = 'compensating', live = false, unit_count = 0,
         compensates_id = gen_random_uuid()",
        "f",
    ),
    ("enact", "UPDATE iu_core.information_unit SET change_set_id = gen_random_uuid()", "f"),
    ("enact", "UPDATE iu_core.information_unit SET lifecycle_status = 'draft' WHERE ordinal = 1", "f"),
    ("sg3_review", "", "f"),
    (
        "sg3_review",
        "UPDATE cutter_governance.review_approval SET type = 'void' WHERE type <> 'cut_authorization'",
        "t",
    ),
    (
        "sg3_review",
        "UPDATE cutter_governance.review_approval SET type = 'stop_resume' WHERE type <> 'cut_authorization'",
        "t",
    ),
    (
        "sg3_review",
        "UPDATE cutter_governance.review_approval SET type = 'drift_ack' WHERE type <> 'cut_authorization'",
        "t",
    ),
    ("sg3_review", "UPDATE cutter_governance.review_approval SET type = 'void', run_id = 'another'", "f"),
    ("void", "", "t"),
    ("another", "", "f"),
];

const FACTS: &str = r#"{"survey_before": {}, "survey_after": {}, "principal": "me", "values": {}}"#;

#[test]
fn an_effect_stands_where_its_own_rows_do() {
    let world = World::new();
    let run = enacted(&world);
    let stands = |effect: &str, verdict: &str| {
        format!("SELECT cutter_governance.fn_effect_stands('{}', '{effect}', '{verdict}')", run.run_id)
    };
    let calls: Vec<(&str, String, &str)> = ROWS_OF_EFFECTS
        .iter()
        .map(|(effect, spoil, holds)| (*spoil, stands(effect, "commit"), *holds))
        .collect();
    let mut owner = Scene::of(&world, "cutter_owner");
    owner.holds(&calls);
    let failed =
        "UPDATE cutter_governance.verify_result SET passed = false, compensating_id = gen_random_uuid(),
        escalation_entry_id = gen_random_uuid()";
    owner.holds(&[
        ("", stands("write_verify", "commit_failure"), "f"),
        (failed, stands("write_verify", "commit_failure"), "t"),
    ]);
}

#[test]
fn an_effect_is_stored_of_a_run_that_goes_on_with_its_own_approval() {
    let world = World::new();
    let mut run = world.run(&world.register(1));
    run.up_to_sg1();
    run.do_leg_a();
    let effect: uuid::Uuid = world
        .database
        .client(Login::Admin)
        .query_one("SELECT effect_id FROM cutter_governance.run_effect WHERE effect = 'leg_a'", &[])
        .unwrap()
        .get(0);
    let (run_id, fence) = (run.run_id.as_str(), &run.fence);
    let stored = |effect: &str, effect_id: uuid::Uuid, document: &str| {
        format!(
            "SELECT cutter_governance.fn_run_effect_record('{run_id}', '{effect}', 1, '{effect_id}', {}, '{}',
                repeat('0', 64), 'commit', '{FACTS}', 'me', now(), '{document}')",
            fence.epoch, fence.holder
        )
    };
    let store = |effect_id, document: &str| stored("leg_a", effect_id, document);
    let again = "DELETE FROM cutter_governance.run_effect WHERE effect = 'leg_a'";
    let with = |more: &str| format!("{again}; {more}");
    let (other_effect, other_run) = (
        with("UPDATE cutter_governance.approval_use SET effect = 'enact'"),
        with("UPDATE cutter_governance.approval_use SET run_id = 'another'"),
    );
    let rejected = with("UPDATE cutter_governance.review_approval SET decision = 'reject'");
    let unwritten = with("UPDATE cutter_governance.cut_change_set SET run_id = 'another'");
    let ended = with(&format!(
        "INSERT INTO cutter_governance.run_ended (run_id, reason, actor, at) VALUES ('{run_id}', 'over', 'me', now())"
    ));
    let other_ended = with(
        "INSERT INTO cutter_governance.run_ended (run_id, reason, actor, at) VALUES ('another', 'over', 'me', now())",
    );
    let ended_void = format!(
        "{ended}; UPDATE cutter_governance.approval_use SET effect = 'void';
         DELETE FROM cutter_governance.run_effect WHERE effect IN ('mark', 'leg_a');
         UPDATE cutter_governance.review_approval SET type = 'void'"
    );
    let requested = |status: &str| {
        with(&format!(
            "INSERT INTO cutter_governance.manifest_envelope SELECT (jsonb_populate_record(NULL::cutter_governance.manifest_envelope,
                 jsonb_build_object('id', '{0}', 'change_set_id', c.change_set_id, 'run_id', c.run_id, 'entry_id', c.entry_id,
                     'executor_signature_id', '{0}', 'envelope', '{{}}', 'unit_count', 1, 'actor', 'me', 'at', now()))).*
             FROM cutter_governance.cut_change_set c;
             INSERT INTO public.cut_request (source_ref, requested_by, status, source_hash, manifest_digest, cut_run_id, metadata)
             SELECT 'a.md', 'me', '{status}', v.sha256, c.manifest_digest, right('{run_id}', 36)::uuid,
                 jsonb_build_object('run_id', '{run_id}')
             FROM cutter_governance.cut_change_set c JOIN iu_core.source_version v USING (source_version_id);
             INSERT INTO public.cut_request_transition (cut_request_id, to_status, actor)
             SELECT cut_request_id, status, 'me' FROM public.cut_request",
            id()
        ))
    };
    let status = "RESET SESSION AUTHORIZATION; SELECT status FROM public.cut_request";
    let mut exec = Scene::of(&world, "cutter_exec");
    exec.holds(&[
        (again, store(effect, "X-LAW-1"), ""),
        (again, store(id(), "X-LAW-1"), "CUD02"),
        (again, store(effect, "Y"), "CUC03"),
        (&other_effect, store(effect, "X-LAW-1"), "CUD02"),
        (&other_run, store(effect, "X-LAW-1"), "CUD02"),
        (&rejected, store(effect, "X-LAW-1"), "CUD02"),
        (&unwritten, store(effect, "X-LAW-1"), "CUD02"),
        (&ended, store(effect, "X-LAW-1"), "CUC20"),
        (&other_ended, store(effect, "X-LAW-1"), ""),
        // of a run that is over its void alone, and what was decided of it
        (&ended_void, stored("void", effect, "X-LAW-1"), ""),
        (&ended_void, stored("mark", id(), "X-LAW-1"), "CUC20"),
        (&requested("cut_in_progress"), format!("{}; {status}", store(effect, "X-LAW-1")), ",cut_done"),
        (
            &requested("cut_in_progress"),
            format!("{}; {status}", stored("leg_b", id(), "X-LAW-1")),
            ",cut_in_progress",
        ),
        (&requested("completed"), store(effect, "X-LAW-1"), "CUC09"),
        (&requested("completed"), format!("{}; {status}", stored("leg_b", id(), "X-LAW-1")), ",completed"),
    ]);
    let mut reviewer = Scene::of(&world, "cutter_review");
    reviewer.holds(&[(&ended_void, stored("sg3_review", id(), "X-LAW-1"), "")]);
    let mut verifier = Scene::of(&world, "cutter_verify");
    verifier.holds(&[(again, store(effect, "X-LAW-1"), "CUD01")]);
}

/// An answer as the reviewer stored it.
fn answered(run: &str, gate: &str, occurrence: u32, decision: &str, late: bool) -> String {
    format!(
        "INSERT INTO cutter_governance.approval_answer (run_id, gate, occurrence, sha256, decision, approval_kb_id,
             document, fingerprint, actor, late, inserted_by)
         VALUES ('{run}', '{gate}', {occurrence}, encode(sha256('x'), 'hex'), '{decision}', 'kb', 'x', 'f', 'ada', {late},
             'cutter_review')"
    )
}

#[test]
fn an_approval_is_relied_on_as_the_answer_to_the_last_ask_of_its_gate_that_nobody_refused() {
    let world = World::new();
    let mut run = world.run(&world.register(1));
    run.up_to_sg1();
    let (run_id, gate) = (run.run_id.to_string(), "SG_cut_authz");
    let used = format!(
        "SELECT cutter_governance.fn_approval_use('{}', '{run_id}', 'leg_a', '{}', now())",
        run.cut_approval,
        id()
    );
    let ask = |set: &str| format!("UPDATE cutter_governance.approval_ask SET {set} WHERE gate = '{gate}'");
    let anew = |run: &str, gate: &str, kind: &str| {
        format!(
            "INSERT INTO cutter_governance.approval_ask
             SELECT (jsonb_populate_record(k, jsonb_build_object('occurrence', 2, 'nonce', 'n2', 'run_id', '{run}',
                 'gate', '{gate}', 'approval_type', '{kind}'))).*
             FROM cutter_governance.approval_ask k WHERE k.gate = 'SG_cut_authz'"
        )
    };
    let zeros = "repeat('0', 64)";
    let spoilt: Vec<(String, &str)> = vec![
        (String::new(), "t"),
        (ask("run_id = 'another'"), "CUD10"),
        (ask("nonce = 'another'"), "CUD10"),
        (ask("gate = 'SG_lifecycle_authz', approval_type = 'lifecycle_enactment', occurrence = 9"), "CUD10"),
        (ask(&format!("rows_digest = {zeros}")), "CUD10"),
        (format!("UPDATE cutter_governance.review_approval SET request_sha256 = {zeros}"), "CUD10"),
        (anew(&run_id, gate, "cut_authorization"), "CUD10"),
        (anew("another", gate, "cut_authorization"), "t"),
        (anew(&run_id, "SG_lifecycle_authz", "lifecycle_enactment"), "t"),
        (answered(&run_id, gate, 1, "reject", false), "CUD10"),
        (answered(&run_id, gate, 1, "defer", false), "CUD10"),
        (answered(&run_id, gate, 1, "approve", false), "t"),
        (answered(&run_id, gate, 1, "reject", true), "t"),
        (answered("another", gate, 1, "reject", false), "t"),
        (answered(&run_id, "SG_lifecycle_authz", 1, "reject", false), "t"),
        (answered(&run_id, gate, 2, "reject", false), "t"),
    ];
    let mut exec = Scene::of(&world, "cutter_exec");
    let rows: Vec<_> = spoilt.iter().map(|(spoil, out)| (spoil, &used, *out)).collect();
    exec.holds(&rows);

    // Whether an answer comes late is the same question, asked of the ask.
    let closed_by =
        |by: &str| format!("SELECT cutter_governance.fn_ask_closed('{run_id}', '{gate}', 1, {by})");
    let closed = |before: &str| closed_by(&format!("clock_timestamp() + interval '{before}'"));
    let closed_at = |at: &str| closed_by(&format!("'{at}'"));
    let refused_then = format!(
        "{}; UPDATE cutter_governance.approval_answer SET recorded_at = '2026-01-01Z'",
        answered(&run_id, gate, 1, "reject", false)
    );
    let used_up = format!(
        "INSERT INTO cutter_governance.approval_use VALUES ('{}', '{run_id}', 'leg_a', gen_random_uuid(), now())",
        run.cut_approval
    );
    let other_used = format!("{used_up}; UPDATE cutter_governance.review_approval SET nonce = 'another'");
    let other_run_used =
        format!("{used_up}; UPDATE cutter_governance.review_approval SET run_id = 'another'");
    let elsewhere = format!("{used_up}; {}", ask("occurrence = 0 + 3"));
    let questions: Vec<(String, String, &str)> = vec![
        (String::new(), closed("0"), "f"),
        (answered(&run_id, gate, 1, "reject", false), closed("1 hour"), "t"),
        (answered(&run_id, gate, 1, "reject", false), closed("-1 hour"), "f"),
        (answered(&run_id, gate, 1, "approve", false), closed("1 hour"), "f"),
        (answered(&run_id, gate, 1, "reject", true), closed("1 hour"), "f"),
        (answered("another", gate, 1, "reject", false), closed("1 hour"), "f"),
        (answered(&run_id, "SG_lifecycle_authz", 1, "reject", false), closed("1 hour"), "f"),
        (answered(&run_id, gate, 2, "reject", false), closed("1 hour"), "f"),
        (refused_then.clone(), closed_at("2026-01-01T00:00:00Z"), "f"),
        (refused_then, closed_at("2026-01-01T00:00:00.000001Z"), "t"),
        (anew(&run_id, gate, "cut_authorization"), closed("0"), "t"),
        (anew("another", gate, "cut_authorization"), closed("0"), "f"),
        (anew(&run_id, "SG_lifecycle_authz", "lifecycle_enactment"), closed("0"), "f"),
        (used_up.clone(), closed("0"), "t"),
        (other_used, closed("0"), "f"),
        (other_run_used, closed("0"), "f"),
        // the use of another occurrence's answer closes that one: here because it comes later
        (elsewhere, closed("0"), "t"),
    ];
    let mut owner = Scene::of(&world, "cutter_owner");
    owner.holds(&questions);
}

#[test]
fn an_answer_is_stored_for_an_ask_whose_nonce_and_decision_it_names() {
    let world = World::new();
    let run = world.run(&world.register(1));
    let (run_id, gate) = (run.run_id.to_string(), "SG_cut_authz");
    let nonce = format!("cut {run_id}");
    let store = |run: &str, gate: &str, occurrence: u32, decision: &str, text: &str| {
        format!(
            "SELECT cutter_governance.fn_answer_record('{run}', '{gate}', {occurrence}, '{decision}', 'kb',
                convert_to(E'{text}', 'UTF8'), 'f', 'ada')"
        )
    };
    let good = format!("nonce: {nonce}\\ndecision: reject\\n");
    let mut reviewer = Scene::of(&world, "cutter_review");
    reviewer.holds(&[
        ("", store(&run_id, gate, 1, "reject", &good), ""),
        ("", store("another", gate, 1, "reject", &good), "CUN10"),
        ("", store(&run_id, "SG_x", 1, "reject", &good), "CUN10"),
        ("", store(&run_id, gate, 2, "reject", &good), "CUN10"),
        ("", store(&run_id, gate, 1, "approve", &good), "CUD10"),
        ("", store(&run_id, gate, 1, "reject", "nonce: another\\ndecision: reject\\n"), "CUD10"),
        ("", store(&run_id, gate, 1, "reject", "decision: reject\\n"), "CUD10"),
        ("", store(&run_id, gate, 1, "reject", &format!("nonce: {nonce}\\n")), "CUD10"),
        // a line that stands there twice is none
        ("", store(&run_id, gate, 1, "reject", &format!("{good}decision: approve\\n")), "CUD10"),
        ("", store(&run_id, gate, 1, "reject", &format!("{good}nonce: another\\n")), "CUD10"),
    ]);
}

#[test]
fn a_change_set_names_an_approval_a_decision_and_a_version_that_are_there() {
    let world = World::new();
    let mut run = world.run(&world.register(1));
    run.up_to_sg1();
    let open = |approval: uuid::Uuid, decision: uuid::Uuid, document: uuid::Uuid, version: uuid::Uuid| {
        format!(
            "SELECT cutter_governance.fn_change_set_open('{}', '{}', 'X-LAW-1', '{document}', '{version}', '{}',
                '{approval}', '{decision}', repeat('0', 64), repeat('0', 64), repeat('0', 64), repeat('0', 64), 'act', 1,
                'me', now())",
            id(),
            run.run_id,
            run.entry
        )
    };
    let (approval, decision) = (run.cut_approval, run.cut_decision);
    let (document, version) = (run.source.source_document_id, run.source.source_version_id);
    let mut exec = Scene::of(&world, "cutter_exec");
    // the first alone comes as far as the end, where its rows and its move are missing
    let far = exec.outcome("", &open(approval, decision, document, version));
    assert!(["CUC10", "CUD09"].contains(&far.as_str()), "{far}");
    exec.holds(&[
        ("", open(id(), decision, document, version), "CUN07"),
        ("", open(approval, id(), document, version), "CUN08"),
        ("", open(approval, decision, id(), version), "CUN03"),
        ("", open(approval, decision, document, id()), "CUN03"),
    ]);
}
