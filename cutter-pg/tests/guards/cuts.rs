//! Of what is cut, enacted and voided, of consents, entries and requests.

use cutter_core::record::effect::ReviewVerdict;
use cutter_pg::login::Login;

use super::Scene;
use super::support::{World, id};

#[test]
fn an_approval_is_used_by_its_own_run_for_its_own_effect_and_in_time() {
    let world = World::new();
    let mut run = world.run(&world.register(1));
    run.up_to_sg1();
    let (approval, run_id) = (run.cut_approval, run.run_id.clone());
    let used = |approval: uuid::Uuid, run: &str, effect: &str| {
        format!(
            "SELECT cutter_governance.fn_approval_use('{approval}', '{run}', '{effect}', '{}', now())",
            id()
        )
    };
    let mut scene = Scene::of(&world, "cutter_exec");
    let expires = |at: &str| format!("UPDATE cutter_governance.review_approval SET expires_at = {at}");
    let own = || used(approval, run_id.as_str(), "leg_a");
    scene.holds(&[
        ("", own(), "t"),
        // stored, valid and unused, but another run's
        ("", used(approval, "another", "leg_a"), "f"),
        ("", used(id(), run_id.as_str(), "leg_a"), "f"),
        ("", used(approval, run_id.as_str(), "enact"), "f"),
        ("", used(approval, run_id.as_str(), "void"), "f"),
        (&expires("NULL"), own(), "t"),
        (&expires("clock_timestamp() + interval '1 hour'"), own(), "t"),
        (&expires("clock_timestamp() - interval '1 second'"), own(), "f"),
    ]);
}

#[test]
fn a_unit_is_enacted_by_the_consent_to_its_own_change_set() {
    let world = World::new();
    let mut run = world.run(&world.register(1));
    run.up_to_verified();
    run.do_sg2();
    let (approval, run_id) = (run.enact_approval, run.run_id.clone());
    let unit = "(SELECT unit_id FROM iu_core.information_unit)";
    let enact = |unit: &str, approval: uuid::Uuid, run: &str| {
        format!("SELECT iu_core.fn_iu_enact({unit}, '{approval}', '{run}', 'me', now())")
    };
    let own = || enact(unit, approval, run_id.as_str());
    let mut scene = Scene::of(&world, "cutter_exec").before(&format!(
        "SELECT cutter_governance.fn_approval_use('{approval}', '{run_id}', 'enact', '{}', now())",
        id()
    ));
    scene.holds(&[
        ("", own(), "enacted"),
        ("", enact(&format!("'{}'", id()), approval, run_id.as_str()), "CUN06"),
        ("", enact(unit, id(), run_id.as_str()), "CUD07"),
        ("", enact(unit, run.cut_approval, run_id.as_str()), "CUD07"),
        ("", enact(unit, approval, "another"), "CUD07"),
        ("UPDATE cutter_governance.cut_change_set SET live = false", own(), "CUD07"),
        ("UPDATE cutter_governance.cut_change_set SET run_id = 'another'", own(), "CUD07"),
        ("UPDATE cutter_governance.review_approval SET decision = 'defer'", own(), "CUD07"),
        ("UPDATE cutter_governance.approval_use SET run_id = 'another'", own(), "CUD07"),
        ("UPDATE cutter_governance.approval_use SET effect = 'void'", own(), "CUD07"),
        ("DELETE FROM cutter_governance.approval_use WHERE effect = 'enact'", own(), "CUD07"),
        // a lifecycle decision about a foreign change set
        ("UPDATE cutter_governance.review_decision SET change_set_id = gen_random_uuid()", own(), "CUD07"),
        ("UPDATE cutter_governance.review_decision SET id = gen_random_uuid()", own(), "CUD07"),
        ("UPDATE iu_core.information_unit SET change_set_id = gen_random_uuid()", own(), "CUD07"),
        ("UPDATE iu_core.information_unit SET lifecycle_status = 'voided'", own(), "CUC07"),
    ]);
}

#[test]
fn a_change_set_is_voided_by_its_own_run_with_an_approval_to_void() {
    let world = World::new();
    let mut run = world.run(&world.register(2));
    run.up_to_sg1();
    run.do_leg_a();
    let void = run.void_write();
    let (run_id, set, approval) = (run.run_id.clone(), run.change_set, void.approval_id);
    let call = |set: uuid::Uuid, run: &str, approval: uuid::Uuid| {
        format!(
            "SELECT cutter_governance.fn_change_set_void('{}', '{set}', '{run}', '{approval}', 'why', 'me', now())",
            id()
        )
    };
    let own = || call(set, run_id.as_str(), approval);
    let mut scene = Scene::of(&world, "cutter_exec").before(&format!(
        "SELECT cutter_governance.fn_approval_use('{approval}', '{run_id}', 'void', '{}', now())",
        id()
    ));
    let first = "(SELECT unit_id FROM iu_core.information_unit ORDER BY ordinal LIMIT 1)";
    let enacted =
        format!("UPDATE iu_core.information_unit SET lifecycle_status = 'enacted' WHERE unit_id = {first}");
    let voided =
        format!("UPDATE iu_core.information_unit SET lifecycle_status = 'voided' WHERE unit_id = {first}");
    let of_void = format!(
        "UPDATE cutter_governance.approval_use SET effect = 'leg_a' WHERE approval_id = '{approval}'"
    );
    let of_another = format!(
        "UPDATE cutter_governance.approval_use SET run_id = 'another' WHERE approval_id = '{approval}'"
    );
    scene.holds(&[
        ("", own(), "2"),
        ("", call(id(), run_id.as_str(), approval), "CUN04"),
        ("", call(set, "another", approval), "CUN04"),
        ("", call(set, run_id.as_str(), run.cut_approval), "CUD06"),
        (&of_void, own(), "CUD06"),
        (&of_another, own(), "CUD06"),
        ("UPDATE cutter_governance.cut_change_set SET live = false", own(), "CUC06"),
        (&enacted, own(), "CUC05"),
        (&voided, own(), "CUC07"),
    ]);
    // The function that voids one unit believes the void's row, not its caller. The owner alone calls it.
    run.commit(run.exec(
        cutter_core::record::effect::EffectName::Void,
        cutter_core::record::effect::ExecutorEffect::Void(void.clone()),
    ));
    let one = |void: uuid::Uuid, run: &str| {
        format!("SELECT iu_core.fn_iu_void({first}, '{void}', '{run}', 'why', 'me', now())")
    };
    let again = "UPDATE iu_core.information_unit SET lifecycle_status = 'draft'; DELETE FROM iu_core.iu_lifecycle_log";
    let another = format!("{again}; UPDATE cutter_governance.change_set_void SET run_id = 'another'");
    let other_set =
        format!("{again}; UPDATE cutter_governance.change_set_void SET change_set_id = gen_random_uuid()");
    let mut owner = Scene::of(&world, "cutter_owner");
    owner.holds(&[
        (again, one(void.void_id, run_id.as_str()), "voided"),
        (again, one(id(), run_id.as_str()), "CUC07"),
        (again, one(void.void_id, "another"), "CUC07"),
        (&another, one(void.void_id, run_id.as_str()), "CUC07"),
        (&other_set, one(void.void_id, run_id.as_str()), "CUC07"),
        ("", one(void.void_id, run_id.as_str()), "CUC07"),
        // whatever other units there are
        (again, one(void.void_id, run_id.as_str()).replace(first, &format!("'{}'", id())), "CUN06"),
    ]);
}

#[test]
fn the_current_units_are_those_that_are_enacted() {
    let world = World::new();
    let mut run = world.run(&world.register(2));
    run.up_to_verified();
    run.do_sg2();
    run.do_enact();
    let shown = "SELECT u.ordinal FROM iu_core.v_current_unit u ORDER BY u.ordinal";
    let first = |status: &str| {
        format!("UPDATE iu_core.information_unit SET lifecycle_status = '{status}' WHERE ordinal = 0")
    };
    Scene::of(&world, "cutter_ro").holds(&[
        (String::new(), shown, "0,1"),
        (first("draft"), shown, "1"),
        (first("voided"), shown, "1"),
        ("UPDATE iu_core.information_unit SET lifecycle_status = 'draft'".to_owned(), shown, ""),
    ]);
}

#[test]
fn no_entry_is_committed_on_its_way() {
    // S5 and S7 are inside a transaction only, whoever says so, and their history agrees.
    let world = World::new();
    let mut run = world.run(&world.register(1));
    run.up_to_sg1();
    let entry = run.entry;
    let moved = |from: &str, to: &str| {
        format!(
            "UPDATE cutter_governance.decision_backlog_entry SET status = '{to}';
             INSERT INTO cutter_governance.decision_backlog_history (history_id, entry_id, from_state, to_state, actor, reason, at)
             VALUES ('{}', '{entry}', '{from}', '{to}', 'me', 'why', now())",
            id()
        )
    };
    let at = |status: &str| {
        format!(
            "UPDATE cutter_governance.decision_backlog_entry SET status = '{status}';
             UPDATE cutter_governance.decision_backlog_history SET to_state = '{status}' WHERE to_state = 'reviewed_approved'"
        )
    };
    let mut admin = Scene::of(&world, "cutter_admin");
    admin.holds(&[
        ("", moved("reviewed_approved", "cut_in_progress"), "CU005"),
        (&at("cut_applied"), moved("cut_applied", "verify_in_progress"), "CU005"),
        // the history says another state than the entry
        ("", moved("marked", "cut_in_progress"), "CU005"),
    ]);
}

#[test]
fn what_a_request_was_told_it_keeps() {
    let world = World::new();
    let mut exec = world.database.client(Login::Exec);
    exec.batch_execute("SELECT public.fn_cut_request_add('a.md', NULL, 'me')").unwrap();
    let mut admin = Scene::of(&world, "cutter_admin");
    let set = |what: &str| {
        format!(
            "UPDATE public.cut_request SET {what};
             INSERT INTO public.cut_request_transition (cut_request_id, from_status, to_status, actor)
             SELECT cut_request_id, 'requested', 'copied', 'me' FROM public.cut_request"
        )
    };
    let told =
        "UPDATE public.cut_request SET metadata = '{\"run_id\":\"r\"}', source_path = 'a', source_hash = 'h'";
    admin.holds(&[
        (told, set("status = 'copied', metadata = metadata || '{\"more\":1}', source_bytes = 1"), ""),
        (told, set("status = 'copied', metadata = '{}'"), "CU003"),
        (told, set("status = 'copied', metadata = '{\"run_id\":\"other\"}'"), "CU003"),
        (told, set("status = 'copied', source_hash = 'other'"), "CU003"),
        (told, set("status = 'copied', source_path = 'b'"), "CU003"),
        (told, set("status = 'copied', requested_by = 'another'"), "CU003"),
        (told, set("status = 'marked'"), "CUC09"),
    ]);
}

#[test]
fn a_review_is_stored_by_the_reviewer() {
    let world = World::new();
    let mut run = world.run(&world.register(1));
    run.do_mark();
    run.do_sweep();
    run.commit(
        run.review(
            cutter_core::record::effect::EffectName::Sg1Review,
            &run.sg1_write(ReviewVerdict::Approve),
        ),
    );
    // not by an administrator either, who owns the table
    let copy = |by: &str| {
        format!(
            "INSERT INTO cutter_governance.review_approval
             SELECT (jsonb_populate_record(a, jsonb_build_object('approval_id', gen_random_uuid(), 'inserted_by', '{by}',
                 'nonce', 'n', 'approval_kb_id', 'k', 'review_decision_id', gen_random_uuid()))).*
             FROM cutter_governance.review_approval a"
        )
    };
    let free =
        "ALTER TABLE cutter_governance.review_approval DROP CONSTRAINT IF EXISTS review_approval_sha256_key";
    let mut admin = Scene::of(&world, "cutter_admin");
    admin.holds(&[(free, copy("cutter_exec"), "23514"), (free, copy("cutter_admin"), "23514")]);
}
