//! Every effect: what it writes and sees, replay, conflict, and that a rollback leaves nothing.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use cutter_core::base::canonical;
use cutter_core::base::digest::Digest;
use cutter_core::gate::drift;
use cutter_core::port::PortErrorKind as K;
use cutter_core::port::database::{Executor, Reader, Reviewer};
use cutter_core::record::effect::{
    EffectFacts, EffectName as N, ExecutorEffect as E, ReviewVerdict, Verdict, fact,
};
use cutter_core::record::observed::{UnitQuery, UnitScope};
use cutter_core::text::plan::set_digest;
use cutter_pg::login::Login;
use futures_executor::block_on;
use support::{DOCUMENT, Run, World, digest, id, pending, recorded, refused, texts};

fn value(facts: &EffectFacts, name: &str) -> String {
    facts.values.get(name).unwrap_or_else(|| panic!("no fact {name} in {:?}", facts.values)).clone()
}

fn expect(facts: &EffectFacts, values: &[(&str, &str)]) {
    for (name, wanted) in values {
        assert_eq!(value(facts, name), *wanted, "{name}");
    }
}

/// What the effect moved is what the core expects, and nothing else.
fn explained(facts: &EffectFacts, effect: N, units: u64) {
    let left = drift::unexplained(effect, units, &facts.survey_before, &facts.survey_after);
    assert!(left.is_empty(), "{effect}: {left:?}");
}

#[test]
fn a_whole_run_with_the_facts_of_every_effect() {
    let world = World::new();
    let source = world.register(7);
    let mut run = world.run(&source);
    let base = |run: &Run<'_>| -> String {
        let mut client = world.database.client(Login::Ro);
        let run = run.run_id.as_str();
        client.query_one("SELECT cutter_governance.fn_base_state($1, $2)", &[&DOCUMENT, &run]).unwrap().get(0)
    };
    let base_before = base(&run);

    let mark = run.do_mark();
    expect(&mark.facts, &[(fact::ENTRY_STATUS, "marked")]);
    explained(&mark.facts, N::Mark, 0);
    assert_eq!(mark.facts.principal, "cutter_exec");
    let sweep = run.do_sweep();
    expect(&sweep.facts, &[(fact::ENTRY_STATUS, "review_pending")]);
    explained(&sweep.facts, N::Sweep, 0);
    let sg1 = run.do_sg1();
    expect(&sg1.facts, &[(fact::ENTRY_STATUS, "reviewed_approved")]);
    explained(&sg1.facts, N::Sg1Review, 0);
    assert_eq!(sg1.facts.principal, "cutter_review");

    let write = run.leg_a_write();
    let leg_a = run.commit(run.exec(N::LegA, E::LegA(write.clone())));
    let rows: Vec<serde_json::Value> = write
        .units
        .iter()
        .map(|u| {
            serde_json::json!([
                u.canonical_address,
                u.unit_kind,
                u.section_type,
                u.content_hash,
                u.idempotency_key
            ])
        })
        .collect();
    let writer = canonical::digest_of(&rows).unwrap().to_hex();
    expect(
        &leg_a.facts,
        &[
            (fact::CREATED, "7"),
            (fact::NON_DRAFT, "0"),
            (fact::WRITER_DIGEST, &writer),
            (fact::BASE_STATE, &base_before),
            (fact::APPROVAL_USED_HERE, "true"),
            (fact::APPROVAL_DECISION, "approve"),
            (fact::ENTRY_STATUS, "cut_applied"),
        ],
    );
    assert_eq!(value(&leg_a.facts, fact::GRANTS), leg_a.facts.survey_after.0[drift::GRANTS]);
    explained(&leg_a.facts, N::LegA, 7);
    assert_eq!(base(&run), base_before, "the run's own rows are no part of its base state");

    let leg_b = run.do_leg_b();
    expect(
        &leg_b.facts,
        &[
            (fact::ENVELOPES, "1"),
            (fact::CHANGE_SETS, "1"),
            (fact::EXECUTOR_SIGNATURE, "true"),
            (fact::LANE_OVERLAPS, "0"),
        ],
    );
    explained(&leg_b.facts, N::LegB, 0);
    let verify = run.do_verify();
    expect(
        &verify.facts,
        &[
            (fact::VERIFY_RESULTS, "1"),
            (fact::EXECUTOR_PRINCIPAL, "cutter_exec"),
            (fact::ENTRY_STATUS, "verified_complete"),
        ],
    );
    assert_eq!(verify.facts.principal, "cutter_verify");
    explained(&verify.facts, N::WriteVerify, 0);
    let structural = verify.facts.structural.clone().unwrap();
    assert_eq!((structural.units, structural.versions, structural.anchors), (7, 7, 7));
    assert_eq!(structural.region_sha, Some(digest(&source.units.concat())));
    assert_eq!((structural.hash_mismatches, structural.orphans, structural.forbidden), (0, 0, 0));
    assert_eq!(structural.section_types["general"], 7);
    let addresses: String = {
        let mut sorted: Vec<String> =
            write.units.iter().map(|u| format!("{}\n", u.canonical_address)).collect();
        sorted.sort();
        sorted.concat()
    };
    assert_eq!(structural.addresses_sha, Some(digest(&addresses)));

    run.survey.review_decision_id = Some(run.enact_decision);
    let request = run.commit(run.exec(N::Sg2Request, E::Sg2Request(run.sg2_request_write())));
    expect(
        &request.facts,
        &[
            (fact::DECISION_REUSED, "0"),
            (fact::DECISION_TYPE, "lifecycle_enactment"),
            (fact::EXPECTED_ACTOR, "sovereign"),
        ],
    );
    explained(&request.facts, N::Sg2Request, 0);
    let sg2 = run.commit(run.review(N::Sg2Review, &run.sg2_write(ReviewVerdict::Approve)));
    explained(&sg2.facts, N::Sg2Review, 0);
    let enact = run.do_enact();
    let set = set_digest(write.units.iter().map(|u| (u.canonical_address.as_str(), &u.content_hash)));
    expect(
        &enact.facts,
        &[
            (fact::ENACTED, "7"),
            (fact::NOT_ENACTED, "0"),
            (fact::LOG_ROWS, "7"),
            (fact::TRIGGER_IU, "O"),
            (fact::TRIGGER_UV, "O"),
            (fact::REPLICATION_ROLE, "origin"),
            (fact::UNIT_SET, &set.to_hex()),
            (fact::APPROVAL_ACTOR, "sovereign"),
            (fact::APPROVAL_DECISION, "approve"),
            (fact::APPROVAL_USED_HERE, "true"),
        ],
    );
    explained(&enact.facts, N::Enact, 7);

    let evidence = block_on(world.port.evidence(&run.run_id)).unwrap();
    assert_eq!(evidence.effects.len(), 9);
    assert!(evidence.effects.contains(&leg_a), "what finish returned is what is stored");
    assert_eq!(evidence.enacted_log_rows, 7);
    assert_eq!(evidence.verify_results.len(), 1);
    assert_eq!(evidence.signatures.len(), 2);
    let used: Vec<Option<&str>> = evidence.approvals.iter().map(|a| a.used_by.as_deref()).collect();
    assert_eq!(used.len(), 2);
    assert!(used.contains(&Some("leg_a")) && used.contains(&Some("enact")));
    let states: Vec<&str> = evidence.history.iter().map(|(_, to)| to.as_str()).collect();
    assert_eq!(
        states,
        [
            "marked",
            "review_pending",
            "reviewed_approved",
            "cut_in_progress",
            "cut_applied",
            "verify_in_progress",
            "verified_complete"
        ]
    );
    assert!(evidence.history.windows(2).all(|pair| pair[0].1 == pair[1].0));
}

#[test]
fn every_effect_replays_with_its_payload_and_conflicts_with_another() {
    let world = World::new();
    let source = world.register(2);
    let mut run = world.run(&source);
    run.up_to_verified();
    run.do_sg2();
    run.do_enact();
    let void = run.void_write();
    for (name, write) in [
        (N::Mark, E::Mark(run.mark_write())),
        (N::Sweep, E::Sweep(run.sweep_write())),
        (N::LegA, E::LegA(run.leg_a_write())),
        (N::LegB, E::LegB(run.leg_b_write())),
        (N::Sg2Request, E::Sg2Request(run.sg2_request_write())),
        (N::Enact, E::Enact(run.enact_write())),
    ] {
        let first = recorded(run.exec(name, write.clone()));
        assert_eq!(first, block_on(world.port.effect(&first.key)).unwrap().unwrap(), "{name}");
        let other = run.cx(name, "another payload");
        let error = refused(block_on(Executor::begin(&world.port, &other, &write)));
        assert_eq!(error.kind, K::Conflict, "{name}: {error}");
    }
    for (name, write) in [
        (N::Sg1Review, run.sg1_write(ReviewVerdict::Approve)),
        (N::Sg2Review, run.sg2_write(ReviewVerdict::Approve)),
    ] {
        assert_eq!(recorded(run.review(name, &write)).key.effect, name);
        let other = run.cx(name, "another payload");
        assert_eq!(refused(block_on(Reviewer::begin(&world.port, &other, &write))).kind, K::Conflict);
    }
    assert_eq!(recorded(run.verify(&run.verify_write())).verdict, Verdict::Commit);
    // What is enacted cannot be voided: a fact for the gate, and a refusal if it were committed.
    let refused_void = pending(run.exec(N::Void, E::Void(void)));
    expect(refused_void.facts(), &[(fact::ENACTED_UNITS, "2"), (fact::VOIDED, "0")]);
    let error = block_on(refused_void.finish(Verdict::Commit)).unwrap_err();
    assert_eq!(error.kind, K::Conflict, "{error}");
}

#[test]
fn a_rollback_and_a_drop_leave_nothing() {
    let world = World::new();
    let source = world.register(3);
    let mut run = world.run(&source);
    run.survey.entry_id = Some(run.entry);
    let total = "SELECT (SELECT count(*) FROM cutter_governance.decision_backlog_entry)
        + (SELECT count(*) FROM cutter_governance.decision_backlog_history)
        + (SELECT count(*) FROM cutter_governance.run_effect)
        + (SELECT count(*) FROM cutter_governance.cut_change_set)
        + (SELECT count(*) FROM cutter_governance.approval_use)
        + (SELECT count(*) FROM cutter_governance.dot_pair_signature)
        + (SELECT count(*) FROM iu_core.information_unit)
        + (SELECT count(*) FROM iu_core.unit_version) + (SELECT count(*) FROM iu_core.unit_anchor)";
    let mark = || run.exec(N::Mark, E::Mark(run.mark_write()));
    assert_eq!(block_on(pending(mark()).finish(Verdict::Rollback)).unwrap(), None);
    drop(pending(mark()));
    assert_eq!(world.count(total), 0);
    run.up_to_sg1();
    let before = world.count(total);
    drop(pending(run.exec(N::LegA, E::LegA(run.leg_a_write()))));
    // The next use of this connection comes after the rollback.
    let again = pending(run.exec(N::LegA, E::LegA(run.leg_a_write())));
    assert_eq!(world.count(total), before, "nothing is visible before COMMIT");
    assert_eq!(block_on(again.finish(Verdict::Rollback)).unwrap(), None);
    assert_eq!(world.count(total), before);
    run.do_leg_a();
    assert!(world.count(total) > before);
}

#[test]
fn a_failed_verification_commits_its_own_record() {
    let world = World::new();
    let source = world.register(2);
    let mut run = world.run(&source);
    run.up_to_sg1();
    run.do_leg_a();
    run.do_leg_b();
    let write = run.verify_write();
    let record = block_on(pending(run.verify(&write)).finish(Verdict::CommitFailure)).unwrap().unwrap();
    assert_eq!(record.verdict, Verdict::CommitFailure);
    expect(&record.facts, &[(fact::ENTRY_STATUS, "verify_failed_escalated"), (fact::VERIFY_RESULTS, "1")]);
    explained(&record.facts, N::WriteVerify, 0);
    assert_eq!(block_on(world.port.effect(&record.key)).unwrap(), Some(record));
    let evidence = block_on(world.port.evidence(&run.run_id)).unwrap();
    assert_eq!(evidence.verify_results, [(write.verify_result_id, false)]);
    assert_eq!(evidence.entry_status.as_deref(), Some("verify_failed_escalated"));
    assert!(evidence.signatures.iter().any(|s| s.payload == "fail") && evidence.signatures.len() == 2);
    assert_eq!(
        world.count(
            "SELECT count(*) FROM cutter_governance.decision_backlog_entry e
             JOIN cutter_governance.decision_backlog_history h USING (entry_id)
             WHERE e.escalates_entry_id IS NOT NULL AND e.status = 'marked'"
        ),
        1
    );
    assert_eq!(
        world.count(
            "SELECT count(*) FROM cutter_governance.cut_change_set WHERE kind = 'compensating' AND NOT live"
        ),
        1
    );
}

#[test]
fn after_a_void_the_same_text_can_be_cut_again() {
    let world = World::new();
    let source = world.register(3);
    let mut run = world.run(&source);
    run.up_to_sg1();
    run.do_leg_a();
    let void = run.void_write();
    let record = run.commit(run.exec(N::Void, E::Void(void)));
    expect(
        &record.facts,
        &[
            (fact::VOIDED, "3"),
            (fact::ENACTED_UNITS, "0"),
            (fact::LOG_ROWS, "3"),
            (fact::ENTRY_STATUS, "abandoned"),
            (fact::APPROVAL_USED_HERE, "true"),
        ],
    );
    explained(&record.facts, N::Void, 3);
    assert!(block_on(world.port.evidence(&run.run_id)).unwrap().voided);
    let mut second = world.run(&source);
    second.up_to_verified();
    second.do_sg2();
    let enacted = second.do_enact();
    expect(&enacted.facts, &[(fact::ENACTED, "3")]);
    assert_eq!(enacted.facts.survey_after.0[drift::UNIT_ROWS], "6");
}

#[test]
fn one_live_change_set_per_version_and_base_state_sees_the_other_run() {
    let world = World::new();
    let source = world.register(2);
    let mut first = world.run(&source);
    first.up_to_sg1();
    let mut second = world.run(&source);
    second.survey.entry_id = Some(second.entry);
    let mut mark = second.mark_write();
    // IK-MARK of the first run is live.
    assert_eq!(refused(second.exec(N::Mark, E::Mark(mark.clone()))).kind, K::Conflict);
    mark.idempotency_key = digest("another key");
    second.commit(second.exec(N::Mark, E::Mark(mark)));
    second.do_sweep();
    second.do_sg1();
    let before = pending(second.exec(N::LegA, E::LegA(second.leg_a_write())));
    let base = value(before.facts(), fact::BASE_STATE);
    drop(before);
    first.do_leg_a();
    let mut late = second.leg_a_write();
    late.idempotency_key = digest("yet another");
    let error = refused(second.exec(N::LegA, E::LegA(late)));
    assert_eq!(error.kind, K::Conflict, "{error}");
    let mut client = world.database.client(Login::Ro);
    let now: String = client
        .query_one("SELECT cutter_governance.fn_base_state($1, $2)", &[&DOCUMENT, &second.run_id.as_str()])
        .unwrap()
        .get(0);
    assert_ne!(now, base, "the other run's rows are in the base state");
}

#[test]
fn a_text_that_comes_back_is_a_version_of_its_own() {
    let world = World::new();
    for (version, n) in [(1, 2), (2, 3), (3, 2)] {
        let source = world.register(n);
        assert_eq!(
            block_on(world.port.source(DOCUMENT)).unwrap().unwrap().latest.unwrap().version_no,
            version
        );
        let mut run = world.run(&source);
        run.up_to_sg1();
        run.do_leg_a();
    }
    let query = UnitQuery {
        document_id: DOCUMENT.to_owned(),
        scope: UnitScope::Live,
        limit: 10,
        with_content: true,
        ..Default::default()
    };
    let units = block_on(world.port.units(&query)).unwrap();
    assert_eq!(units.len(), 2);
    assert!(units.iter().all(|u| u.version_no == 3));
    let text: Vec<u8> = units.iter().flat_map(|u| u.content.clone().unwrap()).collect();
    assert_eq!(Digest::of(&text), digest(&texts(2).concat()));
    let page = UnitQuery { after_ordinal: Some(0), version_no: Some(2), limit: 1, ..query.clone() };
    let page = block_on(world.port.units(&page)).unwrap();
    assert_eq!((page.len(), page[0].ordinal, page[0].version_no), (1, 1, 2));
    let under = UnitQuery { under: Some(format!("{DOCUMENT}/art-1")), ..query };
    assert_eq!(block_on(world.port.units(&under)).unwrap().len(), 1);
}

#[test]
fn registration_is_idempotent_by_digest() {
    let world = World::new();
    let first = world.register(2);
    let again = world.register(2);
    assert_eq!(first.source_version_id, again.source_version_id);
    assert_eq!(world.count("SELECT count(*) FROM iu_core.source_version"), 1);
    let text = block_on(world.port.source_text(first.source_version_id)).unwrap();
    assert_eq!(Digest::of(&text), first.sha256);
    assert_eq!(block_on(world.port.source_text(id())).unwrap_err().kind, K::NotFound);
    assert_eq!(block_on(world.port.source("NOT-THERE")).unwrap(), None);
    let mut exec = world.database.client(Login::Exec);
    let register =
        "SELECT r.already FROM iu_core.fn_source_register('P-1', 't', $1, $2, 'abc', $3, $4, 'me') r";
    let sha = digest("abc").to_hex();
    for (pin, outcome) in
        [(Some("a"), Ok(false)), (None, Ok(true)), (Some("a"), Ok(true)), (Some("b"), Err("CUC01"))]
    {
        let pin = pin.map(|hex| hex.repeat(64));
        let row = exec.query_one(register, &[&id(), &id(), &sha, &pin]);
        let got =
            row.map(|row| row.get::<_, bool>(0)).map_err(|error| error.code().unwrap().code().to_owned());
        assert_eq!(got, outcome.map_err(str::to_owned), "{pin:?}");
    }
    let wrong =
        exec.query_one(register, &[&id(), &id(), &digest("x").to_hex(), &None::<String>]).unwrap_err();
    assert_eq!(wrong.code().unwrap().code(), "CU002");
}

#[test]
fn a_replaced_function_is_seen_by_the_survey_inside() {
    let world = World::new();
    let source = world.register(1);
    let mut run = world.run(&source);
    run.up_to_sg1();
    let mut admin = world.database.client(Login::Admin);
    let open = pending(run.exec(N::LegA, E::LegA(run.leg_a_write())));
    let pins = open.facts().survey_before.clone();
    assert!(pins.0.contains_key("function.iu_core.fn_iu_create"));
    for dimension in drift::DIMENSIONS {
        assert!(pins.0.contains_key(dimension), "{dimension}");
    }
    drop(open);
    admin
        .batch_execute(
            "ALTER TABLE iu_core.information_unit DISABLE TRIGGER trg_iu_enacted_immut;
             ALTER FUNCTION iu_core.fn_iu_enact OWNER TO cutter_admin",
        )
        .unwrap();
    let live = block_on(world.port.survey(&run.survey)).unwrap();
    let moved: Vec<String> = drift::compare(&pins, &live).into_iter().map(|d| d.dimension).collect();
    assert_eq!(moved, ["function.iu_core.fn_iu_enact", "grants", "triggers"]);
    let grants = block_on(world.port.grants()).unwrap();
    assert!(grants.violations.iter().any(|v| v.contains("fn_iu_enact")), "{:?}", grants.violations);
}

#[test]
fn digests_of_the_survey_are_those_of_the_core() {
    let world = World::new();
    let source = world.register(1);
    let run = world.run(&source);
    let survey = block_on(world.port.survey(&run.survey)).unwrap();
    let grants = block_on(world.port.grants()).unwrap();
    assert_eq!(Digest::of(&serde_json::to_vec(&grants).unwrap()).to_hex(), survey.0[drift::GRANTS]);
    let vocabulary = block_on(world.port.vocabulary()).unwrap();
    assert_eq!(vocabulary, cutter_core::base::vocabulary::Vocabulary::default());
    assert_eq!(vocabulary.digest().unwrap().to_hex(), survey.0[drift::VOCABULARY]);
    let migrations = cutter_pg::migrate::Migrator::shipped().unwrap().checksums_digest();
    assert_eq!(migrations, survey.0[drift::MIGRATIONS]);
    block_on(world.port.check_schema()).unwrap();
    let mut admin = world.database.client(Login::Admin);
    admin
        .execute(
            "INSERT INTO cutter_meta.migration (version, name, sha256) VALUES (9999, 'x', $1)",
            &[&"a".repeat(64)],
        )
        .unwrap();
    assert_eq!(block_on(world.port.check_schema()).unwrap_err().kind, K::Invalid);
}
