//! What the database refuses, whoever asks and whatever a judge says.

use alloc::format;

use super::{DatabaseUnderTest, REFUSALS, never_commits};
use crate::base::digest::Digest;
use crate::port::PortErrorKind;
use crate::port::database::Begun;
use crate::record::effect::{EffectName, ReviewVerdict, Verdict};
use crate::record::effect::{ExecutorEffect, fact};
use crate::record::observed::{UnitQuery, UnitScope};
use crate::testing::conformance::fixture::{Case, Chain, Request};
use crate::testing::conformance::{Broken, Held, equal, holds, refused};

const CONFLICT: &[PortErrorKind] = &[PortErrorKind::Conflict];

pub(super) async fn one_live_entry_per_mark_key(db: &DatabaseUnderTest) -> Held {
    Chain::through(db, Case::new(1), EffectName::Mark).await?;
    let second = Chain::start(db, Case::new(2)).await?;
    refused("the same manifest again", CONFLICT, second.begin(EffectName::Mark).await)?;
    let evidence = db.reader.evidence(&second.case.run_id()).await?;
    holds("nothing of it", evidence.entry_status.is_none() && evidence.effects.is_empty(), evidence)
}

pub(super) async fn one_live_change_set_per_version(db: &DatabaseUnderTest) -> Held {
    Chain::through(db, Case::new(1), EffectName::LegA).await?;
    // another manifest of the same version: another IK-MARK, the same source
    let second = Chain::start(db, Case::new(2)).await?;
    let mut mark = second.case.mark(&second.source);
    mark.idempotency_key = Digest::of(b"another manifest");
    let request = Request::Execute(ExecutorEffect::Mark(mark));
    commit(&second, EffectName::Mark, &request).await?;
    second.commit(EffectName::Sweep).await?;
    second.commit(EffectName::Sg1Review).await?;
    refused("a second live cut", CONFLICT, second.begin(EffectName::LegA).await)?;
    let live = UnitQuery {
        document_id: "CONF-DOC".into(),
        scope: UnitScope::Live,
        limit: 100,
        ..UnitQuery::default()
    };
    let units = db.reader.units(&live).await?;
    let set = Case::new(1).id("change set");
    let ours = units.iter().all(|u| u.change_set_id == set);
    holds("the first run's four units", units.len() == 4 && ours, units)
}

async fn commit(chain: &Chain<'_>, effect: EffectName, request: &Request) -> Held {
    let cx = chain.context(effect, 1, &format!("{request:?}"));
    match chain.begin_as(&cx, request).await? {
        Begun::Pending(open) => open.finish(Verdict::Commit).await.map(drop).map_err(Broken::from),
        Begun::Recorded(_) => Err(Broken::new("a new effect", "a record")),
    }
}

pub(super) async fn an_approval_document_and_a_nonce_serve_once(db: &DatabaseUnderTest) -> Held {
    let chain = Chain::through(db, Case::new(1), EffectName::Sg1Review).await?;
    let first = chain.case.review("cut_authorization", ReviewVerdict::Approve, "1");
    let mut fresh = chain.case.review("stop_resume", ReviewVerdict::Approve, "2");
    fresh.change_set_id = None;
    let mut same_document = fresh.clone();
    same_document.document = first.document;
    same_document.sha256 = first.sha256;
    let mut same_nonce = fresh.clone();
    same_nonce.nonce = first.nonce;
    for (what, review) in [("the same document", same_document), ("the same nonce", same_nonce)] {
        let cx = chain.context(EffectName::Sg3Review, 1, what);
        let begun = chain.begin_as(&cx, &Request::Review(review)).await;
        never_commits(what, begun, ("refused", &[])).await?;
    }
    let mut forged = fresh.clone();
    forged.sha256 = Digest::of(b"another document");
    let cx = chain.context(EffectName::Sg3Review, 1, "forged");
    let begun = chain.begin_as(&cx, &Request::Review(forged)).await;
    never_commits("a digest that is not the document's", begun, ("refused", &[])).await?;
    commit(&chain, EffectName::Sg3Review, &Request::Review(fresh)).await?;
    equal("approvals", 2, db.reader.evidence(&chain.case.run_id()).await?.approvals.len())
}

pub(super) async fn an_approval_is_used_by_one_effect(db: &DatabaseUnderTest) -> Held {
    let chain = Chain::through(db, Case::new(1), EffectName::LegB).await?;
    // the cut's approval is no approval of a void
    let mut void = chain.case.void();
    void.approval_id = chain.case.leg_a(&chain.source).approval_id;
    let request = Request::Execute(ExecutorEffect::Void(void));
    let begun = chain.begin_as(&chain.context(EffectName::Void, 1, "stolen"), &request).await;
    never_commits("a used approval", begun, (fact::APPROVAL_USED_HERE, &["false"])).await?;
    // nor is another run's
    chain.commit(EffectName::Sg3Review).await?;
    chain.commit(EffectName::Void).await?;
    let second = Chain::through(db, Case::new(2), EffectName::Sg1Review).await?;
    let mut leg_a = second.case.leg_a(&second.source);
    leg_a.approval_id = chain.case.leg_a(&chain.source).approval_id;
    let request = Request::Execute(ExecutorEffect::LegA(leg_a));
    let begun = second.begin_as(&second.context(EffectName::LegA, 1, "stolen"), &request).await;
    never_commits("another run's approval", begun, (fact::APPROVAL_USED_HERE, &["false"])).await?;
    let evidence = db.reader.evidence(&chain.case.run_id()).await?;
    let cut = evidence.approvals.iter().find(|a| a.gate == "cut_authorization");
    equal("what used it", Some("leg_a"), cut.and_then(|a| a.used_by.as_deref()))
}

pub(super) async fn without_approval_nothing_is_cut(db: &DatabaseUnderTest) -> Held {
    let chain = Chain::through(db, Case::new(1), EffectName::Mark).await?;
    refused("a cut at S0 (F-3, F-8)", &REFUSALS, chain.begin(EffectName::LegA).await)?;
    chain.commit(EffectName::Sweep).await?;
    refused("a cut at S1 (F-3)", &REFUSALS, chain.begin(EffectName::LegA).await)?;
    refused("a verify without a cut (F-4)", &REFUSALS, chain.begin(EffectName::WriteVerify).await)?;
    let units = UnitQuery {
        document_id: "CONF-DOC".into(),
        scope: UnitScope::Live,
        limit: 10,
        ..UnitQuery::default()
    };
    equal("units", 0, db.reader.units(&units).await?.len())
}

pub(super) async fn a_rejected_entry_is_not_cut(db: &DatabaseUnderTest) -> Held {
    let chain = Chain::through(db, Case::new(1), EffectName::Sweep).await?;
    let reject = Request::Review(chain.case.review("cut_authorization", ReviewVerdict::Reject, "1"));
    commit(&chain, EffectName::Sg1Review, &reject).await?;
    let begun = chain.begin(EffectName::LegA).await;
    never_commits("a cut after a rejection (F-1)", begun, (fact::APPROVAL_DECISION, &["reject"])).await?;
    let status = db.reader.evidence(&chain.case.run_id()).await?.entry_status;
    equal("the entry", Some("reviewed_rejected"), status.as_deref())
}

pub(super) async fn leg_b_and_verify_are_recorded_once(db: &DatabaseUnderTest) -> Held {
    let chain = Chain::through(db, Case::new(1), EffectName::WriteVerify).await?;
    let mut leg_b = chain.case.leg_b();
    leg_b.manifest_envelope_id = chain.case.id("second envelope");
    let request = Request::Execute(ExecutorEffect::LegB(leg_b));
    let begun = chain.begin_as(&chain.context(EffectName::LegB, 2, "again"), &request).await;
    never_commits("a second leg B", begun, (fact::ENVELOPES, &["1", "2"])).await?;
    let mut verify = chain.case.write_verify();
    verify.verify_result_id = chain.case.id("second result");
    let begun =
        chain.begin_as(&chain.context(EffectName::WriteVerify, 2, "again"), &Request::Verify(verify)).await;
    never_commits("a second verify (F-7)", begun, (fact::VERIFY_RESULTS, &["1", "2"])).await?;
    equal("results", 1, db.reader.evidence(&chain.case.run_id()).await?.verify_results.len())
}

pub(super) async fn a_review_decision_is_not_used_again(db: &DatabaseUnderTest) -> Held {
    let chain = Chain::through(db, Case::new(1), EffectName::Sg2Request).await?;
    let mut request = chain.case.sg2_request();
    request.nonce = Digest::of(b"another nonce").to_hex();
    let request = Request::Execute(ExecutorEffect::Sg2Request(request));
    let begun = chain.begin_as(&chain.context(EffectName::Sg2Request, 2, "again"), &request).await;
    never_commits("a used review decision", begun, (fact::DECISION_REUSED, &["1"])).await
}

pub(super) async fn nothing_is_enacted_without_consent(db: &DatabaseUnderTest) -> Held {
    let chain = Chain::through(db, Case::new(1), EffectName::Sg2Request).await?;
    let unapproved = chain.begin(EffectName::Enact).await;
    never_commits("an enactment without approval", unapproved, (fact::APPROVAL_USED_HERE, &["false"]))
        .await?;
    let refusal = Request::Review(chain.case.review("lifecycle_enactment", ReviewVerdict::Reject, "1"));
    commit(&chain, EffectName::Sg2Review, &refusal).await?;
    let refused = chain.begin(EffectName::Enact).await;
    never_commits("an enactment against a refusal", refused, (fact::APPROVAL_DECISION, &["reject"])).await?;
    let units = UnitQuery {
        document_id: "CONF-DOC".into(),
        scope: UnitScope::Live,
        limit: 10,
        ..UnitQuery::default()
    };
    let units = db.reader.units(&units).await?;
    holds("four drafts", units.len() == 4 && units.iter().all(|u| u.lifecycle_status == "draft"), units)
}

pub(super) async fn enacted_units_cannot_be_voided(db: &DatabaseUnderTest) -> Held {
    let chain = Chain::through(db, Case::new(1), EffectName::Enact).await?;
    chain.commit(EffectName::Sg3Review).await?;
    let begun = chain.begin(EffectName::Void).await;
    never_commits("a void of enacted units", begun, (fact::ENACTED_UNITS, &["4"])).await?;
    let evidence = db.reader.evidence(&chain.case.run_id()).await?;
    equal(
        "no void",
        (false, Some("verified_complete")),
        (evidence.voided, evidence.entry_status.as_deref()),
    )?;
    let units = UnitQuery {
        document_id: "CONF-DOC".into(),
        scope: UnitScope::Live,
        limit: 10,
        ..UnitQuery::default()
    };
    let units = db.reader.units(&units).await?;
    holds("four enacted", units.len() == 4 && units.iter().all(|u| u.lifecycle_status == "enacted"), units)
}

pub(super) async fn content_that_does_not_hash_is_not_stored(db: &DatabaseUnderTest) -> Held {
    let chain = Chain::through(db, Case::new(1), EffectName::Sg1Review).await?;
    let spoil = |what: &str, f: &dyn Fn(&mut crate::record::effect::UnitWrite)| {
        let mut leg_a = chain.case.leg_a(&chain.source);
        if let Some(unit) = leg_a.units.get_mut(1) {
            f(unit);
        }
        (chain.context(EffectName::LegA, 1, what), Request::Execute(ExecutorEffect::LegA(leg_a)))
    };
    for (what, (cx, request)) in [
        ("a wrong hash", spoil("hash", &|u| u.content_hash = Digest::of(b"other"))),
        ("another document's address", spoil("address", &|u| u.canonical_address = "CONF-DOC2/art-1".into())),
        ("a span beyond the source", spoil("span", &|u| u.end = 1 << 20)),
    ] {
        never_commits(what, chain.begin_as(&cx, &request).await, ("refused", &[])).await?;
    }
    chain.commit(EffectName::LegA).await.map(drop)
}
