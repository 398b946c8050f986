//! Of entries: promotions, the records that a move rests on, and what observers read of them.

use cutter_core::record::effect::Verdict;
use cutter_core::record::effect::{EffectName, ExecutorEffect};
use cutter_pg::login::Login;
use futures_executor::block_on;

use super::support::{DOCUMENT, Run, World, id, pending};
use super::{Scene, again, beside, set};

const ENTRY: &str = "cutter_governance.decision_backlog_entry";
const HISTORY: &str = "cutter_governance.decision_backlog_history";
const LOG: &str = "cutter_governance.decision_backlog_sweep_log";

/// A run whose verification failed.
fn failed(world: &World) -> Run<'_> {
    let mut run = world.run(&world.register(2));
    run.up_to_sg1();
    run.do_leg_a();
    run.do_leg_b();
    block_on(pending(run.verify(&run.verify_write())).finish(Verdict::CommitFailure)).unwrap();
    run
}

#[test]
fn a_promotion_counts_where_a_pass_over_its_own_document_lists_it() {
    let world = World::new();
    let mut run = world.run(&world.register(1));
    run.do_mark();
    run.do_sweep();
    let entry = run.entry;
    let counted = format!(
        "SELECT p.promotions || ' of ' || p.moves FROM cutter_governance.fn_backlog_promotions(ARRAY['{entry}'::uuid]) p"
    );
    let checked = format!(
        "INSERT INTO cutter_governance.backlog_promotion_check VALUES (pg_current_xact_id(), ARRAY['{entry}'::uuid])"
    );
    // as before a move named its pass
    let unnamed = set(HISTORY, "detail = '{}'");
    let another = beside(ENTRY, "'entry_id', gen_random_uuid(), 'idempotency_key', repeat('0', 64)");
    let promoted_too = format!(
        "{another}; INSERT INTO {HISTORY} SELECT (jsonb_populate_record(h, jsonb_build_object('history_id', gen_random_uuid(),
             'entry_id', e.entry_id))).* FROM {HISTORY} h, {ENTRY} e WHERE e.entry_id <> '{entry}'"
    );
    let elsewhere = format!("{another}; UPDATE {ENTRY} SET document_id = 'Y' WHERE entry_id <> '{entry}'");
    let gone = format!("DELETE FROM {LOG}");
    let twice = format!(
        "INSERT INTO {HISTORY} SELECT (jsonb_populate_record(h, jsonb_build_object('history_id', gen_random_uuid()))).*
         FROM {HISTORY} h WHERE h.to_state = 'review_pending'"
    );
    let mut lines = Vec::new();
    for named in ["", &unnamed] {
        let with = |more: &str| format!("{named}; {more}");
        lines.extend([
            (with(""), "1 of 1", ""),
            (with(&another), "1 of 1", ""),
            (with(&promoted_too), "1 of 1", ""),
            (with(&elsewhere), "1 of 1", ""),
            (with(&gone), "0 of 1", "CUC10"),
            (with(&set(LOG, "document_id = 'Y'")), "0 of 1", "CUC10"),
            // nor where that document has an entry of its own
            (with(&format!("{elsewhere}; {}", set(LOG, "document_id = 'Y'"))), "0 of 1", "CUC10"),
            (with(&set(LOG, "promoted = ARRAY[gen_random_uuid()]")), "0 of 1", "CUC10"),
            (with(&format!("{twice}; {}", beside(LOG, "'sweep_id', gen_random_uuid()"))), "2 of 2", "CU005"),
            (with(&twice), "1 of 2", "CU005"),
        ]);
    }
    let mut owner = Scene::of(&world, "cutter_owner");
    owner.holds(&lines.iter().map(|(spoil, out, _)| (spoil, &counted, *out)).collect::<Vec<_>>());
    owner.holds(&lines.iter().map(|(spoil, _, out)| (spoil, &checked, *out)).collect::<Vec<_>>());
    let status =
        |to: &str, whose: &str| set(ENTRY, &format!("status = '{to}' WHERE entry_id {whose} '{entry}'"));
    let uneven = format!(
        "CU005: entry {entry}: status marked and its history disagree (history ends in review_pending=1)"
    );
    owner.holds(&[
        (format!("{another}; {}; {}", status("abandoned", "<>"), status("marked", "=")), &checked, &uneven),
        (set(ENTRY, "status = 'marked'"), &checked, &uneven),
        (format!("DELETE FROM {HISTORY} WHERE to_state = 'review_pending'"), &checked, "CU005"),
    ]);
}

#[test]
fn an_entry_moves_by_the_verdict_and_the_signatures_of_its_own_cut() {
    let world = World::new();
    let run = failed(&world);
    let entry = run.entry;
    let own = format!("entry_id = '{entry}'");
    let before = format!("UPDATE {ENTRY} SET status = 'verify_in_progress' WHERE {own}");
    let moves = format!("UPDATE {ENTRY} SET status = 'verify_failed_escalated' WHERE {own}");
    let (verdict, cut, signature) = (
        "cutter_governance.verify_result",
        "cutter_governance.cut_change_set",
        "cutter_governance.dot_pair_signature",
    );
    let other = "gen_random_uuid()";
    let of_cut = "WHERE kind = 'cut'";
    let of_compensation = "WHERE kind = 'compensating'";
    let (complete, cut_of, two) =
        ("CUC10: verify.failure_complete", "CUC10: G-VERIFY-CUT", "CUC10: G-VERIFY-SOD");
    let spoilt = [
        (String::new(), ""),
        // the compensation and the escalation that the verdict names, and no others
        (set(verdict, &format!("compensating_id = {other}")), complete),
        (set(verdict, &format!("escalation_entry_id = {other}")), complete),
        (set(cut, &format!("compensates_id = {other} {of_compensation}")), complete),
        (
            set(
                cut,
                &format!(
                    "kind = 'cut', approval_id = {other}, review_decision_id = {other} {of_compensation}"
                ),
            ),
            complete,
        ),
        (set(ENTRY, &format!("escalates_entry_id = {other} WHERE NOT {own}")), complete),
        (set(verdict, &format!("change_set_id = {other}")), cut_of),
        (set(verdict, &format!("entry_id = {other}")), cut_of),
        (set(verdict, "passed = true, compensating_id = NULL, escalation_entry_id = NULL"), cut_of),
        (set(HISTORY, &format!("change_set_id = {other}")), cut_of),
        // that of this move, and of a cut
        (
            set(HISTORY, &format!("change_set_id = {other} WHERE to_state = 'verify_failed_escalated'")),
            cut_of,
        ),
        (
            set(
                cut,
                &format!(
                    "kind = 'compensating', live = false, unit_count = 0, compensates_id = {other} {of_cut}"
                ),
            ),
            cut_of,
        ),
        (set(HISTORY, &format!("to_state = 'verified_complete' WHERE {own}")), "CU005"),
        (set(cut, &format!("entry_id = {other} {of_cut}")), cut_of),
        (set(signature, &format!("change_set_id = {other}")), cut_of),
        (format!("DELETE FROM {signature} WHERE duty = 'executor'"), cut_of),
        (format!("DELETE FROM {signature} WHERE duty = 'verifier'"), two),
    ];
    let mut owner = Scene::of(&world, "cutter_owner");
    let lines: Vec<_> =
        spoilt.iter().map(|(spoil, out)| (format!("{spoil}; {before}"), &moves, *out)).collect();
    owner.holds(&lines);

    let (gone, escalates) = again(&world, ENTRY, "escalates_entry_id IS NOT NULL");
    let with = |more: &str| format!("{gone}; {more}");
    owner.holds(&[
        (with(""), &escalates, ""),
        (with(&format!("DELETE FROM {verdict}")), &escalates, complete),
        (with(&set(verdict, &format!("escalation_entry_id = {other}"))), &escalates, complete),
        (with(&set(verdict, &format!("entry_id = {other}"))), &escalates, complete),
    ]);
    let (gone, compensates) = again(&world, cut, "kind = 'compensating'");
    let with = |more: &str| format!("{gone}; {more}");
    owner.holds(&[
        (with(""), &compensates, ""),
        (with(&format!("DELETE FROM {verdict}")), &compensates, "CUC10"),
        (with(&set(verdict, &format!("compensating_id = {other}"))), &compensates, "CUC10"),
        (with(&set(verdict, &format!("change_set_id = {other}"))), &compensates, "CUC10"),
    ]);

    // The executor sweeps no escalation that was only just marked; whoever else may.
    let escalation = format!("WHERE entry_id <> '{entry}'");
    let id_of =
        |sql: &str| world.database.client(Login::Admin).query_one(sql, &[]).unwrap().get::<_, uuid::Uuid>(0);
    let sweep = format!(
        "SELECT cutter_governance.fn_backlog_sweep('{}', '{}', '{}', '{}', 'me', now())",
        id(),
        id_of(&format!("SELECT entry_id FROM {ENTRY} {escalation}")),
        id(),
        run.run_id
    );
    let deferred = format!(
        "{}; {}",
        set(ENTRY, &format!("status = 'reviewed_deferred' {escalation}")),
        set(HISTORY, &format!("to_state = 'reviewed_deferred' {escalation}"))
    );
    let plain = set(ENTRY, &format!("escalates_entry_id = NULL {escalation}"));
    for (login, marked) in [("cutter_exec", "CUD03: sweep.no_escalation"), ("cutter_owner", "review_pending")]
    {
        Scene::of(&world, login).holds(&[
            ("", &sweep, marked),
            (&deferred, &sweep, "review_pending"),
            (&plain, &sweep, "review_pending"),
        ]);
    }
}

#[test]
fn a_cut_is_applied_on_its_own_current_approval_behind_what_it_depends_on() {
    let world = World::new();
    let mut run = world.run(&world.register(1));
    run.up_to_sg1();
    run.do_leg_a();
    let entry = run.entry;
    let (ready, waited_for) = (id(), id());
    let may = format!("GRANT SELECT, UPDATE ON {ENTRY} TO cutter_exec");
    let before = format!("{may}; UPDATE {ENTRY} SET status = 'cut_in_progress' WHERE entry_id = '{entry}'");
    let applied = format!("UPDATE {ENTRY} SET status = 'cut_applied' WHERE entry_id = '{entry}'");
    let depends = |id: &uuid::Uuid| {
        format!("UPDATE {HISTORY} SET detail = '{{\"depends_on\":[\"{id}\"]}}' WHERE from_state IS NULL")
    };
    let other = |id: &uuid::Uuid, status: &str| {
        format!(
            "INSERT INTO {ENTRY} SELECT (jsonb_populate_record(e, jsonb_build_object('entry_id', '{id}', 'status',
                 '{status}', 'idempotency_key', encode(sha256('{id}'), 'hex')))).* FROM {ENTRY} e WHERE e.entry_id = '{entry}'"
        )
    };
    let others = format!("{}; {}", other(&ready, "verified_complete"), other(&waited_for, "cut_applied"));
    let (decision, approval) = ("cutter_governance.review_decision", "cutter_governance.review_approval");
    let newer =
        |differs: &str| beside(decision, &format!("'id', gen_random_uuid(), 'nonce', 'n', {differs}"));
    let later = "'at', now()";
    let (current, waits) = ("CUC10: G-CUT-APPROVED", "CUC10: G-CUT-DEPS");
    // What history holds is loaded by others than the executor, whatever came of it since.
    let lines = [
        (String::new(), "", ""),
        (format!("{others}; {}", depends(&ready)), "", ""),
        (format!("{others}; {}", depends(&waited_for)), waits, ""),
        (depends(&id()), waits, ""),
        (format!("{others}; {}", depends(&waited_for).replace("IS NULL", "= 'marked'")), "", ""),
        (newer(later), current, ""),
        (newer("'at', '2000-01-01Z'"), "", ""),
        (newer(&format!("{later}, 'entry_id', gen_random_uuid()")), "", ""),
        (newer(&format!("{later}, 'type', 'void'")), "", ""),
        (set(decision, "entry_id = gen_random_uuid()"), current, current),
        (set(decision, "type = 'void'"), current, current),
        (set(decision, "decision = 'reject'"), current, current),
        (set(approval, "decision = 'reject'"), current, current),
        (set(approval, "review_decision_id = gen_random_uuid()"), current, current),
    ];
    for login in ["cutter_exec", "cutter_owner"] {
        let out = |exec, owner| if login == "cutter_exec" { exec } else { owner };
        let calls: Vec<_> = lines
            .iter()
            .map(|(spoil, exec, owner)| (format!("{spoil}; {before}"), &applied, out(*exec, *owner)))
            .collect();
        Scene::of(&world, login).holds(&calls);
    }

    // The executor's change set is one by which its entry moved.
    let (document, version) = (run.source.source_document_id, run.source.source_version_id);
    let open = format!(
        "SELECT cutter_governance.fn_change_set_open('{}', '{}', '{DOCUMENT}', '{document}', '{version}', '{entry}', '{}',
             '{}', repeat('0', 64), repeat('0', 64), repeat('0', 64), repeat('0', 64), 'act', 1, 'me', now())",
        run.change_set, run.run_id, run.cut_approval, run.cut_decision
    );
    let gone = |more: &str| format!("DELETE FROM cutter_governance.cut_change_set; {more}");
    let moved = |what: &str| gone(&set(HISTORY, &format!("{what} WHERE to_state = 'cut_applied'")));
    let unmoved = "CUC10: did not move by it";
    Scene::of(&world, "cutter_exec").holds(&[
        (gone(""), &open, ""),
        (moved("entry_id = gen_random_uuid()"), &open, unmoved),
        (moved("change_set_id = gen_random_uuid()"), &open, unmoved),
        (moved("to_state = 'cut_in_progress'"), &open, unmoved),
    ]);

    // What the cut rests on is held to the end, and nothing else.
    let mut exec = Scene::of(&world, "cutter_exec").admin;
    let mut other = world.database.client(Login::Admin);
    other
        .batch_execute(&format!(
            "SET session_replication_role = replica; {others}; {}; {before}; RESET session_replication_role",
            depends(&ready)
        ))
        .unwrap();
    exec.batch_execute(&format!(
        "BEGIN; SET LOCAL SESSION AUTHORIZATION cutter_exec; {applied}; SET CONSTRAINTS ALL IMMEDIATE"
    ))
    .unwrap();
    let free = format!("SELECT e.status FROM {ENTRY} e FOR UPDATE SKIP LOCKED");
    let free: Vec<String> = other.query(&free, &[]).unwrap().iter().map(|row| row.get(0)).collect();
    assert_eq!(free, ["cut_applied"], "what it depends on is held, and what it does not is free");
}

#[test]
fn an_entry_is_approved_and_abandoned_for_a_stored_reason() {
    let world = World::new();
    let mut run = world.run(&world.register(1));
    run.up_to_sg1();
    run.do_leg_a();
    let void = run.void_write();
    run.commit(run.exec(EffectName::Void, ExecutorEffect::Void(void)));
    let may = format!("GRANT SELECT, UPDATE ON {ENTRY} TO cutter_exec");
    let before = format!("{may}; UPDATE {ENTRY} SET status = 'cut_applied'");
    let abandon = format!("UPDATE {ENTRY} SET status = 'abandoned'");
    let (uses, approvals) = ("cutter_governance.approval_use", "cutter_governance.review_approval");
    let (why, by) = ("CUC10: abandon.reason", "CUD03: relies on no approval");
    // another entry's reason is none of this one
    let with_another = || {
        let another = "'history_id', gen_random_uuid(), 'entry_id', gen_random_uuid()";
        format!(
            "{} WHERE t.to_state = 'abandoned'; {}",
            beside(HISTORY, another),
            set(
                HISTORY,
                &format!("reason = ' ' WHERE entry_id = '{}' AND to_state = 'abandoned'", run.entry)
            )
        )
    };
    let spoilt = [
        (String::new(), "", ""),
        (set(HISTORY, "reason = ' ' WHERE to_state = 'abandoned'"), why, why),
        (with_another(), why, why),
        (set(uses, "run_id = 'another'"), by, ""),
        (set(uses, "effect = 'enact' WHERE effect = 'void'"), by, ""),
        (set(approvals, "decision = 'reject'"), by, ""),
    ];
    for login in ["cutter_exec", "cutter_owner"] {
        let out = |exec, owner| if login == "cutter_exec" { exec } else { owner };
        let lines: Vec<_> = spoilt
            .iter()
            .map(|(spoil, exec, owner)| (format!("{spoil}; {before}"), &abandon, out(*exec, *owner)))
            .collect();
        Scene::of(&world, login).holds(&lines);
    }
}

#[test]
fn a_review_that_moved_an_entry_is_one_decision_of_its_own() {
    let world = World::new();
    let mut run = world.run(&world.register(1));
    run.up_to_sg1();
    let (gone, moves) = again(&world, HISTORY, "to_state = 'reviewed_approved'");
    let decision = "cutter_governance.review_decision";
    let mut lines = Vec::new();
    for (to, all) in [
        ("reviewed_approved", [true, false, false, false, false]),
        ("reviewed_deferred", [false, true, true, true, false]),
        ("reviewed_rejected", [false, false, true, false, false]),
    ] {
        let moves = moves.replace("reviewed_approved", to);
        let free = format!(
            "ALTER TABLE {decision} DROP CONSTRAINT review_decision_check, DROP CONSTRAINT review_decision_check1"
        );
        let is = |more: &str| format!("{gone}; {free}; {}; {more}", set(ENTRY, &format!("status = '{to}'")));
        let kinds = [
            "decision = 'approve'",
            "decision = 'defer'",
            "decision = 'reject'",
            "type = 'stop_resume'",
            "type = 'lifecycle_enactment'",
        ];
        for (kind, is_one) in kinds.into_iter().zip(all) {
            lines.push((
                is(&set(decision, kind)),
                moves.clone(),
                if is_one { "" } else { "CUC10: review.decision" },
            ));
        }
        let fits = set(decision, kinds[all.iter().position(|is_one| *is_one).unwrap()]);
        // moves of others, and at other times, want decisions of their own
        for other in ["'entry_id', gen_random_uuid()", "'at', '2000-01-01Z'", "'to_state', 'marked'"] {
            let also = beside(
                HISTORY,
                &format!(
                    "'history_id', gen_random_uuid(), 'from_state', '{to}', 'to_state', '{to}', {other}"
                ),
            );
            let also = also.replace("'to_state', 'marked'", "'from_state', 'marked', 'to_state', 'marked'");
            let also = format!("{fits}; {also} WHERE t.from_state IS NULL");
            lines.push((is(&also), moves.clone(), ""));
        }
        for other in ["entry_id = gen_random_uuid()", "at = '2000-01-01Z'"] {
            lines.push((
                is(&format!("{fits}; {}", set(decision, other))),
                moves.clone(),
                "CUC10: review.decision",
            ));
        }
    }
    Scene::of(&world, "cutter_owner").holds(&lines);
}

#[test]
fn an_entry_that_is_there_moves_in_its_own_run() {
    let world = World::new();
    let mut run = world.run(&world.register(1));
    run.do_mark();
    let own = format!("'{}'", run.run_id);
    let swept = |entry: uuid::Uuid| {
        format!(
            "SELECT cutter_governance.fn_backlog_sweep('{}', '{entry}', '{}', {own}, 'me', now())",
            id(),
            id()
        )
    };
    let abandoned = |entry: uuid::Uuid, run: &str| {
        format!(
            "SELECT cutter_governance.fn_backlog_transition('{entry}', 'marked', 'abandoned', '{}', 'me', 'why', {run}, NULL,
                 NULL, now())",
            id()
        )
    };
    Scene::of(&world, "cutter_owner").holds(&[
        ("", swept(run.entry), "review_pending"),
        ("", swept(id()), "CUN02"),
        ("", abandoned(run.entry, &own), ""),
        ("", abandoned(run.entry, "NULL"), ""),
        ("", abandoned(run.entry, "'another'"), "CUC04"),
        ("", abandoned(id(), &own), "CUN02"),
    ]);
}

#[test]
fn a_promotion_changes_the_status_alone() {
    let world = World::new();
    let mut run = world.run(&world.register(1));
    run.do_mark();
    let other = "gen_random_uuid()";
    let digest = "encode(sha256('x'), 'hex')";
    let mut lines = Vec::new();
    for (column, value) in [
        ("entry_id", other),
        ("run_id", "'another'"),
        ("document_id", "'Y'"),
        ("source_document_id", other),
        ("source_version_id", other),
        ("idempotency_key", digest),
        ("region_sha", digest),
        ("manifest_digest", digest),
        ("candidate_count", "9"),
        ("escalates_entry_id", "entry_id"),
        ("actor", "'another'"),
        ("at", "'2000-01-01Z'"),
    ] {
        let update = format!("UPDATE {ENTRY} SET status = 'review_pending', {column} = {value}");
        for from in ["marked", "reviewed_deferred"] {
            lines.push((set(ENTRY, &format!("status = '{from}'")), update.clone(), "CU003"));
        }
    }
    let promoted = set(ENTRY, "status = 'review_pending'");
    // whatever else is not a promotion is asked about its move
    for (from, out) in [
        ("marked", "CU005"),
        ("reviewed_deferred", "CU005"),
        ("review_pending", "CUC09"),
        ("reviewed_approved", "CUC09"),
        ("abandoned", "CUC09"),
    ] {
        lines.push((set(ENTRY, &format!("status = '{from}'")), promoted.clone(), out));
    }
    Scene::of(&world, "cutter_owner").holds(&lines);
}

#[test]
fn observers_read_of_each_entry_what_is_its_own() {
    let world = World::new();
    let mut run = world.run(&world.register(1));
    run.up_to_verified();
    let of = |what: &str, view: &str| {
        format!("SELECT {what} FROM cutter_governance.{view} v WHERE v.entry_id = '{}'", run.entry)
    };
    let depends = of("cardinality(v.depends_on)", "v_backlog_entry");
    let consent = of("v.has_consent", "v_backlog_decision");
    let cut = of("(v.manifest_envelope_id IS NOT NULL) || ' ' || v.passed", "v_backlog_cut");
    let signed = of("v.duty", "v_backlog_signature ").replace("WHERE", "WHERE v.duty = 'executor' AND");
    let first = |which: &str| {
        format!(
            "UPDATE {HISTORY} SET detail = jsonb_build_object('depends_on', jsonb_build_array(gen_random_uuid())) {which}"
        )
    };
    let (approval, decision) = ("cutter_governance.review_approval", "cutter_governance.review_decision");
    let another = "gen_random_uuid()";
    let of_another = |table: &str| format!("UPDATE cutter_governance.{table} SET change_set_id = {another}");
    let mut reader = Scene::of(&world, "cutter_ro");
    reader.holds(&[
        (String::new(), &depends, "0"),
        (first("WHERE from_state IS NULL"), &depends, "1"),
        (first("WHERE from_state IS NOT NULL"), &depends, "0"),
        (
            format!("{}; UPDATE {HISTORY} SET entry_id = {another}", first("WHERE from_state IS NULL")),
            &depends,
            "0",
        ),
        (String::new(), &consent, "t"),
        (set(approval, &format!("review_decision_id = {another}")), &consent, "f"),
        (set(approval, "decision = 'reject'"), &consent, "f"),
        (
            format!("{}; {}", set(approval, "decision = 'reject'"), set(decision, "decision = 'reject'")),
            &consent,
            "t",
        ),
        (set(decision, "type = 'void'"), &consent, ""),
        (String::new(), &cut, "true true"),
        (of_another("manifest_envelope"), &cut, "false true"),
        (of_another("verify_result"), &cut, "NULL"),
        (of_another("cut_change_set"), &cut, "NULL"),
        (String::new(), &signed, "executor"),
        (of_another("dot_pair_signature"), &signed, ""),
    ]);
}
