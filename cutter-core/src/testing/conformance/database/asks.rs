//! What was asked and what was answered: stored once, and heard by whatever relies on it.

use super::{DatabaseUnderTest, never_commits};
use crate::base::digest::Digest;
use crate::base::key::refusal_id;
use crate::port::PortErrorKind;
use crate::port::database::Begun;
use crate::record::approval::field;
use crate::record::ask::{AnswerWrite, DecisionWrite, OpenAsk};
use crate::record::effect::fact;
use crate::record::effect::{EffectName, ReviewVerdict};
use crate::testing::conformance::fixture::{Case, Chain};
use crate::testing::conformance::{Broken, Held, equal, holds, refused};

const CUT: &str = "cut_authorization";
const ENACT: &str = "lifecycle_enactment";
const REFUSED: &[PortErrorKind] = &[PortErrorKind::Denied, PortErrorKind::Conflict];

pub(super) async fn an_ask_is_stored_once_and_stays_what_it_was(db: &DatabaseUnderTest) -> Held {
    let chain = Chain::start(db, Case::new(1)).await?;
    let write = chain.case.ask(CUT);
    db.executor.open_ask(&chain.fence, &write).await?;
    let mut other = write.clone();
    other.ask.required.insert(field::ROWS_DIGEST.into(), Digest::of(b"other rows").to_hex());
    refused("other rows", REFUSED, db.executor.open_ask(&chain.fence, &other).await)?;
    let mut stolen = write.clone();
    stolen.ask.occurrence = 2;
    refused("a nonce that another ask has", REFUSED, db.executor.open_ask(&chain.fence, &stolen).await)?;
    let second = Chain::start(db, Case::new(2)).await?;
    refused("another run's ask", REFUSED, db.executor.open_ask(&second.fence, &write).await)?;
    let mut stale = chain.fence.clone();
    stale.epoch -= 1;
    refused("a stale fence", &[PortErrorKind::Fenced], db.executor.open_ask(&stale, &write).await)?;
    let asks = db.reader.asks(&chain.case.run_id()).await?;
    holds(
        "two asks, open, without an answer",
        asks.len() == 2 && asks.iter().all(|a| !a.closed && a.answers.is_empty()),
        &asks,
    )?;
    equal("the ask", Some(&write), asks.first().map(|stored| &stored.asked))
}

pub(super) async fn every_answer_is_kept_once_and_says_what_it_says(db: &DatabaseUnderTest) -> Held {
    let chain = Chain::start(db, Case::new(1)).await?;
    let run_id = chain.case.run_id();
    let approve = chain.case.answer(CUT, ReviewVerdict::Approve);
    for _ in 0..2 {
        db.reviewer.record_answers(&run_id, core::slice::from_ref(&approve)).await?;
    }
    let mut turned = approve.clone();
    turned.decision = ReviewVerdict::Reject;
    let mut other_ask = approve.clone();
    other_ask.gate = chain.case.ask(ENACT).ask.gate;
    let mut no_ask = approve.clone();
    no_ask.occurrence = 9;
    for (what, wrong) in [("another decision", turned), ("another ask's nonce", other_ask)] {
        refused(what, &[PortErrorKind::Denied], db.reviewer.record_answers(&run_id, &[wrong]).await)?;
    }
    let kinds = &[PortErrorKind::NotFound];
    refused("an answer to no ask", kinds, db.reviewer.record_answers(&run_id, &[no_ask]).await)?;
    let asks = db.reader.asks(&run_id).await?;
    let answers: alloc::vec::Vec<_> = asks.iter().flat_map(|ask| &ask.answers).collect();
    holds(
        "one answer, not late",
        answers.len() == 1 && !answers[0].late && answers[0].answer == approve,
        &answers,
    )
}

pub(super) async fn a_refusal_outweighs_an_approval_until_it_is_relied_on(db: &DatabaseUnderTest) -> Held {
    for (n, kind, review, relies, last) in [
        (1, CUT, EffectName::Sg1Review, EffectName::LegA, EffectName::Sweep),
        (2, ENACT, EffectName::Sg2Review, EffectName::Enact, EffectName::Sg2Request),
    ] {
        let case = Case { document_id: alloc::format!("CONF-DOC-{n}"), ..Case::new(n) };
        let chain = Chain::through(db, case, last).await?;
        chain.commit(review).await?;
        let refusal = chain.case.answer(kind, ReviewVerdict::Defer);
        db.reviewer.record_answers(&chain.case.run_id(), &[refusal]).await?;
        never_commits(
            "an approval beside a refusal",
            chain.begin(relies).await,
            (fact::APPROVAL_USED_HERE, &["true"]),
        )
        .await?;
    }
    Ok(())
}

pub(super) async fn an_answer_after_it_was_relied_on_is_late(db: &DatabaseUnderTest) -> Held {
    let chain = Chain::through(db, Case::new(1), EffectName::LegA).await?;
    let refusal = chain.case.answer(CUT, ReviewVerdict::Reject);
    db.reviewer.record_answers(&chain.case.run_id(), &[refusal]).await?;
    let asks = db.reader.asks(&chain.case.run_id()).await?;
    let cut = asks.iter().find(|stored| stored.asked.ask.approval_type == CUT);
    let late =
        cut.is_some_and(|ask| ask.closed && ask.answers.iter().all(|a| a.late) && ask.refusal().is_none());
    holds("closed, and the refusal is late", late, &asks)?;
    let mut again = chain.case.ask(CUT);
    db.executor.open_ask(&chain.fence, &again).await?;
    again.ask.occurrence = 2;
    again.ask.required.insert(field::NONCE.into(), "another".into());
    refused("an ask of a gate that was passed", REFUSED, db.executor.open_ask(&chain.fence, &again).await)?;
    chain.commit(EffectName::LegB).await.map(drop)
}

/// The decision that carries out an answer to an ask of the case, as a driver's effect would.
fn decision(chain: &Chain<'_>, answer: &AnswerWrite, effect: EffectName) -> DecisionWrite {
    let payload = alloc::format!("{:?}", chain.request(effect));
    DecisionWrite {
        gate: answer.gate,
        occurrence: answer.occurrence,
        sha256: answer.sha256(),
        payload_sha256: chain.context(effect, 1, &payload).payload_sha256,
        moves: effect == EffectName::Sg1Review,
        actor: "reviewer".into(),
    }
}

pub(super) async fn a_decision_without_a_fence_leaves_what_an_effect_leaves(db: &DatabaseUnderTest) -> Held {
    for (n, kind, effect, relies, last) in [
        (1, CUT, EffectName::Sg1Review, EffectName::LegA, EffectName::Sweep),
        (2, ENACT, EffectName::Sg2Review, EffectName::Enact, EffectName::Sg2Request),
    ] {
        let case = Case { document_id: alloc::format!("CONF-DOC-{n}"), ..Case::new(n) };
        let chain = Chain::through(db, case, last).await?;
        let run_id = chain.case.run_id();
        let answer = chain.case.answer(kind, ReviewVerdict::Approve);
        let write = decision(&chain, &answer, effect);
        let kinds = &[PortErrorKind::NotFound];
        refused("an answer that is not stored", kinds, db.reviewer.record_decision(&run_id, &write).await)?;
        let open = db.reader.open_asks(None).await?;
        let is_open = |o: &OpenAsk, d| o.run_id == run_id && o.gate == answer.gate && o.decided == d;
        holds("open, and not decided", open.iter().any(|o| is_open(o, None)), &open)?;
        db.reviewer.record_answers(&run_id, core::slice::from_ref(&answer)).await?;
        let moved = DecisionWrite { moves: !write.moves, ..write.clone() };
        refused(
            "another move",
            &[PortErrorKind::Conflict],
            db.reviewer.record_decision(&run_id, &moved).await,
        )?;
        let before = db.reader.survey(&chain.case.scope()).await?;
        for _ in 0..2 {
            db.reviewer.record_decision(&run_id, &write).await?;
        }
        let open = db.reader.open_asks(None).await?;
        holds("decided", open.iter().any(|o| is_open(o, Some(ReviewVerdict::Approve))), &open)?;
        match chain.begin(effect).await? {
            Begun::Recorded(record) => {
                let moves = crate::gate::drift::unexplained(effect, 0, &before, &record.facts.survey_after);
                equal("what it moved besides", &alloc::vec::Vec::new(), &moves)?;
                equal("before", &before, &record.facts.survey_before)?;
                equal("its login", "cutter_review", record.facts.principal.as_str())?;
            }
            Begun::Pending(_) => return Err(Broken::new("the driver's effect to stand", "a new one")),
        }
        chain.commit(relies).await?;
        let open = db.reader.open_asks(None).await?;
        holds("closed", !open.iter().any(|o| o.run_id == run_id && o.gate == answer.gate), &open)?;
    }
    Ok(())
}

pub(super) async fn a_decision_is_refused_where_the_ask_is_closed_or_refused(db: &DatabaseUnderTest) -> Held {
    let chain = Chain::through(db, Case::new(1), EffectName::Sweep).await?;
    let run_id = chain.case.run_id();
    let approve = chain.case.answer(CUT, ReviewVerdict::Approve);
    let refuse = chain.case.answer(CUT, ReviewVerdict::Defer);
    db.reviewer.record_answers(&run_id, &[approve.clone(), refuse.clone()]).await?;
    let write = decision(&chain, &approve, EffectName::Sg1Review);
    refused("an approval beside a refusal", REFUSED, db.reviewer.record_decision(&run_id, &write).await)?;
    let write = decision(&chain, &refuse, EffectName::Sg1Review);
    db.reviewer.record_decision(&run_id, &write).await?;
    let evidence = db.reader.evidence(&run_id).await?;
    equal("the entry", Some("reviewed_deferred"), evidence.entry_status.as_deref())?;
    let stored: alloc::vec::Vec<_> = evidence.approvals.iter().map(|a| a.approval_id).collect();
    equal(
        "the refusal's id",
        &alloc::vec![refusal_id(chain.case.id("approval cut_authorization 1"))],
        &stored,
    )?;
    let mut again = chain.case.ask(CUT);
    again.ask.occurrence = 2;
    again.ask.required.insert(field::NONCE.into(), Digest::of(b"the second time").to_hex());
    db.executor.open_ask(&chain.fence, &again).await?;
    let write = DecisionWrite { sha256: approve.sha256(), ..write };
    refused("an answer to what was asked anew", REFUSED, db.reviewer.record_decision(&run_id, &write).await)
}

pub(super) async fn an_approval_of_no_ask_is_not_relied_on(db: &DatabaseUnderTest) -> Held {
    let chain = Chain::start_without_asks(db, Case::new(1)).await?;
    for effect in [EffectName::Mark, EffectName::Sweep, EffectName::Sg1Review] {
        chain.commit(effect).await?;
    }
    never_commits(
        "a cut that nobody asked about",
        chain.begin(EffectName::LegA).await,
        (fact::APPROVAL_USED_HERE, &["true"]),
    )
    .await
}
