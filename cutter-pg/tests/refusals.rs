//! What an effect refuses: without consent, with a stale fence, past its deadline, with units that
//! break a rule.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use cutter_core::port::PortErrorKind as K;
use cutter_core::port::database::Executor;
use cutter_core::record::effect::{
    EffectFacts, EffectName as N, ExecutorEffect as E, ReviewVerdict, Verdict, fact,
};
use cutter_pg::login::Login;
use futures_executor::block_on;
use support::{DOCUMENT, World, digest, id, pending, port_of, refused, texts};

fn value(facts: &EffectFacts, name: &str) -> String {
    facts.values.get(name).unwrap_or_else(|| panic!("no fact {name} in {:?}", facts.values)).clone()
}

fn expect(facts: &EffectFacts, values: &[(&str, &str)]) {
    for (name, wanted) in values {
        assert_eq!(value(facts, name), *wanted, "{name}");
    }
}

#[test]
fn a_stale_driver_is_fenced_and_a_new_one_ends_its_transaction() {
    let world = World::new();
    let source = world.register(2);
    let mut run = world.run(&source);
    run.up_to_sg1();
    // The old driver holds leg A open when the new one takes the fence.
    let open = pending(run.exec(N::LegA, E::LegA(run.leg_a_write())));
    let newcomer = port_of(&world.database);
    let fence = block_on(newcomer.take_fence(&run.run_id, DOCUMENT, id())).unwrap();
    assert_eq!(fence.epoch, 2);
    let error = block_on(open.finish(Verdict::Commit)).unwrap_err();
    assert!(matches!(error.kind, K::Unavailable | K::OutcomeUnknown), "{error}");
    assert_eq!(world.count("SELECT count(*) FROM cutter_governance.cut_change_set"), 0);
    // Its connection stays lost until it takes the fence, and its old epoch is refused.
    let error = refused(run.exec(N::LegA, E::LegA(run.leg_a_write())));
    assert_eq!(error.kind, K::Unavailable, "{error}");
    let stale = run.fence.clone();
    run.fence = block_on(world.port.take_fence(&run.run_id, DOCUMENT, id())).unwrap();
    assert_eq!(run.fence.epoch, 3);
    run.fence = stale;
    let error = refused(run.exec(N::LegA, E::LegA(run.leg_a_write())));
    assert_eq!(error.kind, K::Fenced, "{error}");
    let error = refused(run.review(N::Sg3Review, &run.sg1_write(ReviewVerdict::Approve)));
    assert_eq!(error.kind, K::Fenced, "{error}");
    run.fence = fence;
    assert_eq!(
        refused(run.exec(N::LegA, E::LegA(run.leg_a_write()))).kind,
        K::Fenced,
        "epoch 2 is over, too"
    );
}

#[test]
fn a_refused_consent_cuts_and_enacts_nothing() {
    let world = World::new();
    let source = world.register(1);
    let mut run = world.run(&source);
    run.do_mark();
    run.do_sweep();
    run.commit(run.review(N::Sg1Review, &run.sg1_write(ReviewVerdict::Reject)));
    // S4 is no S2.
    assert_eq!(refused(run.exec(N::LegA, E::LegA(run.leg_a_write()))).kind, K::Conflict);

    let other = world.register_as("Y-LAW", &texts(1));
    let mut run = world.run(&other);
    run.up_to_verified();
    run.survey.review_decision_id = Some(run.enact_decision);
    run.commit(run.exec(N::Sg2Request, E::Sg2Request(run.sg2_request_write())));
    run.commit(run.review(N::Sg2Review, &run.sg2_write(ReviewVerdict::Defer)));
    let enact = pending(run.exec(N::Enact, E::Enact(run.enact_write())));
    expect(enact.facts(), &[(fact::APPROVAL_DECISION, "defer"), (fact::ENACTED, "0")]);
    let error = block_on(enact.finish(Verdict::Commit)).unwrap_err();
    assert_eq!(error.kind, K::Denied, "{error}");
}

#[test]
fn an_approval_serves_once_and_its_document_and_nonce_are_unique() {
    let world = World::new();
    let source = world.register(1);
    let mut run = world.run(&source);
    run.up_to_sg1();
    run.do_leg_a();
    let mut void = run.void_write();
    // The cut's approval is no approval to void.
    void.approval_id = run.cut_approval;
    let wrong = pending(run.exec(N::Void, E::Void(void)));
    expect(wrong.facts(), &[(fact::APPROVAL_USED_HERE, "false"), (fact::VOIDED, "0")]);
    assert_eq!(block_on(wrong.finish(Verdict::Commit)).unwrap_err().kind, K::Conflict);

    let other = world.register_as("Y-LAW", &texts(1));
    let mut second = world.run(&other);
    second.do_mark();
    second.do_sweep();
    let mut write = second.sg1_write(ReviewVerdict::Approve);
    write.nonce = format!("cut {}", run.run_id);
    assert_eq!(refused(second.review(N::Sg1Review, &write)).kind, K::Conflict, "nonce");
    let mut write = second.sg1_write(ReviewVerdict::Approve);
    write.document = run.sg1_write(ReviewVerdict::Approve).document;
    write.sha256 = digest(&write.document);
    assert_eq!(refused(second.review(N::Sg1Review, &write)).kind, K::Conflict, "document");
    write.sha256 = digest("something else");
    assert_eq!(refused(second.review(N::Sg1Review, &write)).kind, K::Invalid, "sha256");
}

#[test]
fn what_breaks_a_unit_breaks_the_whole_leg() {
    let world = World::new();
    let source = world.register(3);
    let mut run = world.run(&source);
    run.up_to_sg1();
    type Spoil = fn(&mut cutter_core::record::effect::UnitWrite);
    let cases: [(&str, Spoil, K); 7] = [
        ("bare prefix", |u| u.canonical_address = format!("{DOCUMENT}2/art-1"), K::Invalid),
        ("other document", |u| u.canonical_address = "Y/art-1".to_owned(), K::Invalid),
        ("hash", |u| u.content_hash = digest("x"), K::Invalid),
        ("span beyond the text", |u| u.end = 1_000_000, K::Invalid),
        ("span backwards", |u| u.start = u.end + 1, K::Invalid),
        ("duplicate address", |u| u.canonical_address = format!("{DOCUMENT}/art-1"), K::Conflict),
        ("duplicate ordinal", |u| u.ordinal = 0, K::Conflict),
    ];
    for (name, spoil, kind) in cases {
        let mut write = run.leg_a_write();
        spoil(&mut write.units[2]);
        let error = refused(run.exec(N::LegA, E::LegA(write)));
        assert_eq!(error.kind, kind, "{name}: {error}");
        assert_eq!(world.count("SELECT count(*) FROM iu_core.information_unit"), 0, "{name}");
    }
    run.do_leg_a();
}

#[test]
fn the_deadline_ends_an_effect_that_waits_for_the_document() {
    let world = World::new();
    let source = world.register(1);
    let mut run = world.run(&source);
    run.survey.entry_id = Some(run.entry);
    let mut other = world.database.client(Login::Admin);
    let mut holder = other.transaction().unwrap();
    holder.execute("SELECT FROM iu_core.source_document FOR UPDATE", &[]).unwrap();
    let mut cx = run.cx(N::Mark, "payload");
    cx.deadline_ms = 300;
    let started = std::time::Instant::now();
    let error = refused(block_on(Executor::begin(&world.port, &cx, &E::Mark(run.mark_write()))));
    assert_eq!(error.kind, K::Deadline, "{error}");
    assert!(started.elapsed().as_secs() < 4);
    holder.rollback().unwrap();
    run.do_mark();
}
