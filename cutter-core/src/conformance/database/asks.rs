//! What was asked and what was answered: stored once, and heard by whatever relies on it.

use super::{DatabaseUnderTest, never_commits};
use crate::approval::field;
use crate::conformance::fixture::{Case, Chain};
use crate::conformance::{Held, equal, holds, refused};
use crate::digest::Digest;
use crate::port::PortErrorKind;
use crate::port::database::{EffectName, ReviewVerdict};
use crate::port::effect::fact;

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
    chain.commit(EffectName::LegB).await.map(drop)
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
