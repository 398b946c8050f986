//! Of rows and consents, units, keys, and what the reviewer decides.

use cutter_pg::login::Login;

use super::support::{World, id};
use super::{Scene, again, beside};

/// Another cut, without rows, before this one.
const BESIDE: &str = "INSERT INTO cutter_governance.cut_change_set
    SELECT (jsonb_populate_record(c, jsonb_build_object('change_set_id', gen_random_uuid(), 'live', false,
        'run_id', 'another', 'entry_id', gen_random_uuid(), 'approval_id', gen_random_uuid(), 'idempotency_key',
        repeat('0', 64)))).* FROM cutter_governance.cut_change_set c;
    UPDATE cutter_governance.cut_change_set SET actor = actor WHERE live";

#[test]
fn rows_are_those_of_the_consent_to_their_own_change_set() {
    let world = World::new();
    let mut run = world.run(&world.register(2));
    run.up_to_verified();
    run.do_sg2();
    run.do_enact();
    let (set, approval) = (run.change_set, run.cut_approval);
    let check = |set: uuid::Uuid, or_before: bool| {
        format!("SELECT cutter_governance.fn_rows_check('{set}', '{approval}', {or_before})")
    };
    let (plain, or_before) = (check(set, false), check(set, true));
    let mute =
        "UPDATE cutter_governance.review_approval SET document = 'x', sha256 = encode(sha256('x'), 'hex')
        WHERE type = 'cut_authorization'";
    let before = |run: &str| format!("INSERT INTO cutter_governance.before_trust (run_id) VALUES ('{run}')");
    let own_before = before(run.run_id.as_str());
    let mute_before = format!("{mute}; {own_before}");
    let other_rows = "UPDATE iu_core.information_unit SET section_type = 'x' WHERE ordinal = 1";
    let mut owner = Scene::of(&world, "cutter_owner");
    owner.holds(&[
        (String::new(), &plain, ""),
        (String::new(), &or_before, ""),
        (String::new(), &check(id(), false), "CUD09"),
        (other_rows.to_owned(), &plain, "CUD09"),
        (mute.to_owned(), &plain, "CUD09"),
        (mute.to_owned(), &or_before, "CUD09"),
        // of a run from before there was such a consent, and of no other
        (mute_before.clone(), &or_before, ""),
        (mute_before.clone(), &plain, "CUD09"),
        (format!("{mute}; {}", before("another")), &or_before, "CUD09"),
        (mute_before.clone(), &check(id(), true), "CUD09"),
        (format!("{mute_before}; {BESIDE}"), &check(id(), true), "CUD09"),
        (format!("{own_before}; {other_rows}"), &or_before, "CUD09"),
    ]);
    // whoever writes what rests on rows has them asked: those of its own change set
    for (table, which) in [
        ("verify_result", "true"),
        ("cut_change_set", "live"),
        ("approval_use", "effect = 'enact'"),
        ("approval_use", "effect = 'leg_a'"),
    ] {
        let (gone, insert) = again(&world, &format!("cutter_governance.{table}"), which);
        let rests = which != "effect = 'leg_a'";
        owner.holds(&[
            (gone.clone(), &insert, ""),
            (format!("{BESIDE}; {gone}"), &insert, ""),
            (format!("{gone}; {other_rows}"), &insert, if rests { "CUD09" } else { "" }),
        ]);
    }
}

#[test]
fn a_unit_leaves_draft_once_as_its_log_says() {
    let world = World::new();
    let mut run = world.run(&world.register(1));
    run.up_to_sg1();
    run.do_leg_a();
    let update = |what: &str| format!("UPDATE iu_core.information_unit SET {what}");
    let logged = |unit: &str, to: &str| {
        format!(
            "INSERT INTO iu_core.iu_lifecycle_log (unit_id, change_set_id, run_id, from_status, to_status, reason_id,
                 reason, actor, at)
             SELECT {unit}, u.change_set_id, 'r', 'draft', '{to}', gen_random_uuid(), 'why', 'me', now()
             FROM iu_core.information_unit u"
        )
    };
    let own = |to: &str| logged("u.unit_id", to);
    let (alone, logless) =
        ("CU006: only lifecycle_status may change", "CU006: without a row in iu_lifecycle_log");
    let is = |status: &str| format!("{}; {}", own(status), update(&format!("lifecycle_status = '{status}'")));
    let mut owner = Scene::of(&world, "cutter_owner");
    owner.holds(&[
        (own("enacted"), update("lifecycle_status = 'enacted'"), ""),
        (own("voided"), update("lifecycle_status = 'voided'"), ""),
        (String::new(), update("lifecycle_status = 'enacted'"), logless),
        (own("voided"), update("lifecycle_status = 'enacted'"), logless),
        (logged("gen_random_uuid()", "enacted"), update("lifecycle_status = 'enacted'"), logless),
        // a draft is not written once more, even as it is
        (String::new(), update("lifecycle_status = 'draft'"), alone),
        (String::new(), update("ordinal = 9"), alone),
        (own("enacted"), update("lifecycle_status = 'enacted', ordinal = 9"), alone),
        (is("enacted"), update("lifecycle_status = 'voided'"), "CU006: immutable"),
        (is("enacted"), update("lifecycle_status = 'enacted'"), "CU006: immutable"),
        (is("voided"), update("lifecycle_status = 'draft'"), "CU006: immutable"),
        (own("enacted"), "DELETE FROM iu_core.information_unit".to_owned(), "CU006: never deleted"),
    ]);
}

#[test]
fn a_signature_bears_the_key_that_is_registered_for_its_duty() {
    let world = World::new();
    let mut run = world.run(&world.register(1));
    run.up_to_verified();
    let (key, other) = ("ab".repeat(32), "ef".repeat(32));
    let event = |seq: u32, change: &str| {
        let previous =
            if seq == 1 { "NULL".to_owned() } else { format!("encode(sha256(E'{}'), 'hex')", seq - 1) };
        let document = format!("E'seq: {seq}\\nchange: {change}\\n'");
        format!(
            "INSERT INTO cutter_governance.policy_event (seq, previous, document, sha256)
             VALUES ({seq}, {previous}, {document}, encode(sha256({document}), 'hex'))"
        )
    };
    let registered =
        |seq: u32, duty: &str, key: &str| event(seq, &format!("duty_key_registered {duty} {key}"));
    let rotated = |seq: u32, duty: &str, key: &str| event(seq, &format!("duty_key_rotated {duty} {key}"));
    let mut owner = Scene::of(&world, "cutter_owner");
    for (duty, of_another) in [("executor", "verifier"), ("verifier", "executor")] {
        let (gone, sign) = again(&world, "cutter_governance.dot_pair_signature", &format!("duty = '{duty}'"));
        let with = |more: &[String]| format!("{gone}; {}", more.join("; "));
        owner.holds(&[
            (with(&[]), &sign, ""),
            (with(&[registered(1, duty, &key)]), &sign, ""),
            (with(&[registered(1, duty, &other)]), &sign, "CUD20"),
            (with(&[registered(1, of_another, &other)]), &sign, ""),
            (with(&[registered(1, duty, &other), rotated(2, duty, &key)]), &sign, ""),
            (with(&[registered(1, duty, &key), rotated(2, duty, &other)]), &sign, "CUD20"),
            (with(&[event(1, &format!("duty_key_revoked {duty} {other}"))]), &sign, ""),
        ]);
    }
}

#[test]
fn a_decision_is_stored_once_of_its_own_run_and_takes_its_next_number() {
    let world = World::new();
    let mut run = world.run(&world.register(1));
    run.do_mark();
    run.do_sweep();
    let run_id = run.run_id.to_string();
    let ids = serde_json::json!({ "approval": id(), "review_decision": id(), "review_history": id(),
        "effect.sg1_review": id() });
    let document = "convert_to(format(E'decision: approve\\nnonce: %s\\nrun_id: %s\\napproval_type: %s\\ndocument_id: %s\\n'
        'actor: ada\\nrequest_sha256: %s\\nrows_digest: %s\\nexpires: never\\n', k.nonce, k.run_id, k.approval_type,
        k.document_id, k.request_sha256, k.rows_digest), 'UTF8')";
    world
        .database
        .client(Login::Admin)
        .batch_execute(&format!(
            "SET session_replication_role = replica;
             UPDATE cutter_governance.approval_ask SET ids = '{ids}';
             INSERT INTO cutter_governance.approval_answer (run_id, gate, occurrence, sha256, decision, approval_kb_id,
                 document, fingerprint, actor, late, inserted_by)
             SELECT k.run_id, k.gate, 1, encode(sha256({document}), 'hex'), 'approve', 'kb', {document}, 'f', 'ada', false,
                 'cutter_review' FROM cutter_governance.approval_ask k WHERE k.gate = 'SG_cut_authz'"
        ))
        .unwrap();
    let sha: String = world
        .database
        .client(Login::Admin)
        .query_one("SELECT sha256 FROM cutter_governance.approval_answer", &[])
        .unwrap()
        .get(0);
    let decide = format!(
        "SELECT cutter_governance.fn_decision_record('{run_id}', 'SG_cut_authz', 1, '{sha}', repeat('0', 64), true, 'me');
         RESET SESSION AUTHORIZATION;
         SELECT max(e.occurrence) FROM cutter_governance.run_effect e WHERE e.run_id = '{run_id}' AND e.effect = 'sg1_review'"
    );
    let effect = |run: &str, effect: &str, number: u32| {
        format!(
            "INSERT INTO cutter_governance.run_effect SELECT (jsonb_populate_record(e, jsonb_build_object('run_id', '{run}',
                 'effect', '{effect}', 'occurrence', {number}, 'effect_id', gen_random_uuid()))).*
             FROM cutter_governance.run_effect e WHERE e.effect = 'mark'"
        )
    };
    let consent = |run: &str, nonce: &str, sha: &str, decision: &str| {
        format!(
            "INSERT INTO cutter_governance.review_approval (approval_id, review_decision_id, run_id, document_id, type, decision,
                 approval_kb_id, document, sha256, nonce, fingerprint, actor, request_sha256, inserted_by, at)
             SELECT gen_random_uuid(), gen_random_uuid(), '{run}', 'D', 'cut_authorization', '{decision}', 'kb', w.document,
                 w.sha256, '{nonce}', 'f', 'ada', repeat('0', 64), 'cutter_review', now()
             FROM (SELECT {sha}::bytea AS document, encode(sha256({sha}), 'hex') AS sha256
                   FROM cutter_governance.approval_answer w) w"
        )
    };
    let (nonce, mine) = (format!("cut {run_id}"), "w.document");
    let ended = |run: &str| {
        format!(
            "INSERT INTO cutter_governance.run_ended (run_id, reason, actor, at) VALUES ('{run}', 'over', 'me', now())"
        )
    };
    let asked = |differs: &str| {
        format!(
            "{} WHERE t.gate = 'SG_cut_authz'",
            beside("cutter_governance.approval_ask", &format!("'nonce', 'n', {differs}"))
        )
    };
    let answered = |differs: &str| {
        let another = "'sha256', encode(sha256('x'), 'hex'), 'document', '\\x78'";
        beside("cutter_governance.approval_answer", &format!("{another}, {differs}"))
    };
    let used = format!(
        "{}; INSERT INTO cutter_governance.approval_use (approval_id, run_id, effect, effect_id, at)
         SELECT approval_id, 'r', 'leg_a', gen_random_uuid(), now() FROM cutter_governance.review_approval",
        consent(&run_id, &nonce, "'y'", "reject")
    );
    let already = "CUD10: it is decided already";
    let mut reviewer = Scene::of(&world, "cutter_review");
    let decide = decide.as_str();
    reviewer.holds(&[
        (String::new(), decide, "t,1"),
        // of this run and this effect, the next
        (effect(&run_id, "sg1_review", 1), decide, "t,2"),
        (effect(&run_id, "sg1_review", 7), decide, "t,8"),
        (effect("another", "sg1_review", 7), decide, "t,1"),
        (effect(&run_id, "leg_a", 7), decide, "t,1"),
        // the same consent is stored, or another of this ask, or one of another's
        (consent(&run_id, &nonce, mine, "approve"), decide, "f,NULL"),
        (consent(&run_id, &nonce, "'y'", "approve"), decide, already),
        (consent(&run_id, &nonce, "'y'", "reject"), decide, already),
        (consent("another", &format!("{nonce}x"), "'y'", "approve"), decide, "t,1"),
        (consent(&run_id, "another", "'y'", "approve"), decide, "t,1"),
        (consent("another", &nonce, "'y'", "reject"), decide, "t,1"),
        (used, decide, "CUD10: an approval of it was relied on"),
        // what came late, was asked anew or is refused, of this ask and of no other
        (
            "UPDATE cutter_governance.approval_answer SET late = true".to_owned(),
            decide,
            "CUD10: when the ask had closed",
        ),
        (asked("'occurrence', 2"), decide, "CUD10: it was asked anew"),
        (asked("'occurrence', 2, 'run_id', 'another'"), decide, "t,1"),
        (
            asked("'occurrence', 2, 'gate', 'SG_lifecycle_authz', 'approval_type', 'lifecycle_enactment'"),
            decide,
            "t,1",
        ),
        (answered("'decision', 'reject'"), decide, "CUD10: a refusal of it stands"),
        (answered("'decision', 'reject', 'late', true"), decide, "t,1"),
        (answered("'decision', 'reject', 'run_id', 'another'"), decide, "t,1"),
        (answered("'decision', 'reject', 'gate', 'x'"), decide, "t,1"),
        (answered("'decision', 'reject', 'occurrence', 2"), decide, "t,1"),
        (answered("'decision', 'approve'"), decide, "t,1"),
        (ended(&run_id), decide, "CUC20"),
        (ended("another"), decide, "t,1"),
        (effect(&run_id, "void", 1), decide, "CUC20"),
        (effect("another", "void", 1), decide, "t,1"),
    ]);
}
