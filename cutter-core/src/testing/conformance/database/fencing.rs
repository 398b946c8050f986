//! Fence, transactions, replays, unknown outcomes.

use alloc::format;

use super::{DatabaseUnderTest, REFUSALS};
use crate::gate::drift;
use crate::port::database::{Begun, PendingEffect};
use crate::port::{Port, PortErrorKind};
use crate::record::effect::{EffectName, ExecutorEffect, Verdict};
use crate::record::observed::Fence;
use crate::testing::conformance::fixture::{Case, Chain, Request};
use crate::testing::conformance::{Broken, Held, at_once, equal, holds, refused};
use crate::testing::memory::block_on;

type Pending = alloc::boxed::Box<dyn PendingEffect>;

async fn pending(chain: &Chain<'_>, effect: EffectName) -> Result<Pending, Broken> {
    match chain.begin(effect).await? {
        Begun::Pending(pending) => Ok(pending),
        Begun::Recorded(_) => Err(Broken::new(format!("{effect} to be new"), "a recorded effect")),
    }
}

pub(super) async fn every_take_raises_the_epoch(db: &DatabaseUnderTest) -> Held {
    let chain = Chain::start(db, Case::new(1)).await?;
    equal("the first epoch", 1, chain.fence.epoch)?;
    let case = &chain.case;
    for epoch in 2..=4 {
        let holder = case.id(&format!("holder {epoch}"));
        let fence = db.executor.take_fence(&case.run_id(), &case.document_id, holder).await?;
        let expected = Fence { run_id: case.run_id(), document_id: case.document_id.clone(), epoch, holder };
        equal("the fence", expected, fence)?;
    }
    equal("stored", Some(4), db.reader.evidence(&case.run_id()).await?.fence_epoch)?;
    let other = db.executor.take_fence(&Case::new(2).run_id(), &case.document_id, case.id("h")).await?;
    equal("another run counts for itself", 1, other.epoch)?;
    let wrong = db.executor.take_fence(&case.run_id(), "OTHER-DOC", case.id("h")).await;
    refused("a run with another document", &[PortErrorKind::Conflict], wrong)
}

pub(super) async fn a_stale_fence_is_refused(db: &DatabaseUnderTest) -> Held {
    let chain = Chain::start(db, Case::new(1)).await?;
    let case = &chain.case;
    db.executor.take_fence(&case.run_id(), &case.document_id, case.id("newer")).await?;
    refused("a stale begin", &[PortErrorKind::Fenced], chain.begin(EffectName::Mark).await)?;
    let unknown = Chain { fence: Fence { run_id: Case::new(3).run_id(), ..chain.fence.clone() }, ..chain };
    let mut cx = unknown.context(EffectName::Mark, 1, "x");
    cx.key.run_id = Case::new(3).run_id();
    cx.survey.run_id = Case::new(3).run_id();
    let begun = unknown.begin_as(&cx, &unknown.request(EffectName::Mark)).await;
    refused("a run that never took a fence", &[PortErrorKind::Fenced], begun)
}

pub(super) async fn another_holder_of_the_same_epoch_is_refused(db: &DatabaseUnderTest) -> Held {
    let mut chain = Chain::start(db, Case::new(1)).await?;
    chain.fence.holder = chain.case.id("somebody else");
    refused("another holder", &[PortErrorKind::Fenced], chain.begin(EffectName::Mark).await)
}

pub(super) async fn a_fence_taken_in_between_ends_or_waits_for_the_older_transaction(
    db: &DatabaseUnderTest,
) -> Held {
    let chain = Chain::start(db, Case::new(1)).await?;
    let open = pending(&chain, EffectName::Mark).await?;
    let (case, key) = (&chain.case, chain.context(EffectName::Mark, 1, "").key);
    let (finished, read) = std::thread::scope(|scope| {
        let newer = scope.spawn(|| {
            block_on(async {
                db.executor.take_fence(&case.run_id(), &case.document_id, case.id("newer")).await?;
                // what is read after the take is final
                db.reader.effect(&key).await
            })
        });
        // time for the newer driver to arrive; either order keeps the contract
        std::thread::sleep(core::time::Duration::from_millis(200));
        let finished = block_on(open.finish(Verdict::Commit));
        (finished, newer.join())
    });
    let read = read.map_err(|_| Broken::new("a take that returns", "a panic"))??;
    let later = db.reader.effect(&key).await?;
    equal("what was read after the take is final", &read, &later)?;
    match finished {
        Ok(record) => equal("the older transaction committed before the take", record, later),
        Err(error) if error.kind == PortErrorKind::OutcomeUnknown => Ok(()),
        Err(error) => {
            let kinds = [PortErrorKind::Fenced, PortErrorKind::Unavailable];
            holds("Fenced, or ended by the taker", kinds.contains(&error.kind), &error)?;
            holds("nothing of a refused transaction", later.is_none(), later)
        }
    }
}

pub(super) async fn of_many_drivers_one_effect_stands(db: &DatabaseUnderTest) -> Held {
    let first = Chain::start(db, Case::new(1)).await?;
    let (case, source) = (&first.case, &first.source);
    let results = at_once(6, |i| {
        block_on(async {
            let holder = case.id(&format!("driver {i}"));
            let fence = db.executor.take_fence(&case.run_id(), &case.document_id, holder).await?;
            let chain = Chain { db, case: case.clone(), fence, source: source.clone() };
            match chain.begin(EffectName::Mark).await? {
                Begun::Recorded(record) => Ok(record),
                Begun::Pending(open) => {
                    let message = "no record";
                    let none = || {
                        crate::port::PortError::new(Port::Database, "finish", PortErrorKind::Corrupt, message)
                    };
                    open.finish(Verdict::Commit).await?.ok_or_else(none)
                }
            }
        })
    })?;
    let stored = db.reader.effect(&first.context(EffectName::Mark, 1, "").key).await?;
    for result in results {
        match result {
            Ok(record) => equal("every driver that got a record got this one", &stored, &Some(record))?,
            Err(error) => {
                let kinds = [
                    PortErrorKind::Fenced,
                    PortErrorKind::Busy,
                    PortErrorKind::Unavailable,
                    PortErrorKind::OutcomeUnknown,
                ];
                holds("an orderly refusal", kinds.contains(&error.kind), error)?;
            }
        }
    }
    // nobody need have won the race; whoever drives last does
    let holder = case.id("last");
    let fence = db.executor.take_fence(&case.run_id(), &case.document_id, holder).await?;
    let last = Chain { db, case: case.clone(), fence, source: source.clone() };
    if let Begun::Pending(open) = last.begin(EffectName::Mark).await? {
        holds("no record before, none found", stored.is_none(), &stored)?;
        open.finish(Verdict::Commit).await?;
    }
    let evidence = db.reader.evidence(&case.run_id()).await?;
    equal("one effect, one history row", (1, 1), (evidence.effects.len(), evidence.history.len()))
}

pub(super) async fn nothing_is_visible_before_finish(db: &DatabaseUnderTest) -> Held {
    let chain = Chain::start(db, Case::new(1)).await?;
    let before = db.reader.survey(&chain.case.scope()).await?;
    let open = pending(&chain, EffectName::Mark).await?;
    let inside = open.facts().survey_after.0.get(drift::BACKLOG_STATUS).cloned();
    equal("seen inside", Some("marked"), inside.as_deref())?;
    equal("seen from outside", &before, &db.reader.survey(&chain.case.scope()).await?)?;
    let key = chain.context(EffectName::Mark, 1, "").key;
    holds("no effect", db.reader.effect(&key).await?.is_none(), "an effect")?;
    let record = open.finish(Verdict::Commit).await?;
    equal("the stored record is the returned one", record, db.reader.effect(&key).await?)
}

pub(super) async fn rollback_and_drop_leave_nothing(db: &DatabaseUnderTest) -> Held {
    let chain = Chain::through(db, Case::new(1), EffectName::Sg1Review).await?;
    let scope = chain.case.scope();
    let before = (db.reader.survey(&scope).await?, db.reader.evidence(&chain.case.run_id()).await?);
    let open = pending(&chain, EffectName::LegA).await?;
    holds("no record of a rollback", open.finish(Verdict::Rollback).await?.is_none(), "a record")?;
    let after = (db.reader.survey(&scope).await?, db.reader.evidence(&chain.case.run_id()).await?);
    equal("after a rollback", &before, &after)?;
    drop(pending(&chain, EffectName::LegA).await?);
    let after = (db.reader.survey(&scope).await?, db.reader.evidence(&chain.case.run_id()).await?);
    equal("after a drop", &before, &after)?;
    // the same ids again
    chain.commit(EffectName::LegA).await.map(drop)
}

pub(super) async fn the_same_payload_gives_the_record_and_another_conflicts(db: &DatabaseUnderTest) -> Held {
    let chain = Chain::through(db, Case::new(1), EffectName::Sg1Review).await?;
    let committed = chain.commit(EffectName::LegA).await?;
    for effect in [EffectName::Mark, EffectName::Sweep, EffectName::Sg1Review, EffectName::LegA] {
        match chain.begin(effect).await? {
            Begun::Recorded(record) if effect == EffectName::LegA => {
                equal("the record", &committed, &record)?;
            }
            Begun::Recorded(_) => {}
            Begun::Pending(_) => return Err(Broken::new(format!("the record of {effect}"), "a new write")),
        }
        let other = chain.context(effect, 1, "another payload");
        let begun = chain.begin_as(&other, &chain.request(effect)).await;
        refused("another payload", &[PortErrorKind::Conflict], begun)?;
    }
    // under a newer fence the record is the same
    let case = &chain.case;
    let fence = db.executor.take_fence(&case.run_id(), &case.document_id, case.id("newer")).await?;
    let newer = Chain { db, case: case.clone(), fence, source: chain.source.clone() };
    match newer.begin(EffectName::LegA).await? {
        Begun::Recorded(record) => equal("the record under a newer fence", committed, record),
        Begun::Pending(_) => Err(Broken::new("the record", "a new write")),
    }
}

pub(super) async fn a_request_that_is_not_the_effect_is_refused(db: &DatabaseUnderTest) -> Held {
    let chain = Chain::start(db, Case::new(1)).await?;
    let cx = chain.context(EffectName::Sweep, 1, "x");
    let mark = Request::Execute(ExecutorEffect::Mark(chain.case.mark(&chain.source)));
    refused("MARK as a sweep", &[PortErrorKind::Invalid], chain.begin_as(&cx, &mark).await)?;
    let mut cx = chain.context(EffectName::Mark, 1, "x");
    cx.key.run_id = Case::new(2).run_id();
    refused("another run's key", &REFUSALS, chain.begin_as(&cx, &mark).await)
}

pub(super) async fn a_passed_deadline_ends_the_call(db: &DatabaseUnderTest) -> Held {
    let chain = Chain::start(db, Case::new(1)).await?;
    let mut cx = chain.context(EffectName::Mark, 1, "x");
    cx.deadline_ms = 0;
    let begun = chain.begin_as(&cx, &chain.request(EffectName::Mark)).await;
    refused("a call without time", &[PortErrorKind::Deadline], begun)?;
    chain.commit(EffectName::Mark).await.map(drop)
}

/// Where the implementation cannot lose answers, only the ordinary way is checked.
pub(super) async fn an_unknown_outcome_is_found_under_its_key(db: &DatabaseUnderTest) -> Held {
    let mut chain = Chain::start(db, Case::new(1)).await?;
    let key = chain.context(EffectName::Mark, 1, "").key;
    let Some(lose) = &db.lose_answer else {
        let record = chain.commit(EffectName::Mark).await?;
        return equal("the effect under its key", Some(record), db.reader.effect(&key).await?);
    };
    for done in [false, true] {
        let open = pending(&chain, EffectName::Mark).await?;
        lose(done);
        refused("a lost answer", &[PortErrorKind::OutcomeUnknown], open.finish(Verdict::Commit).await)?;
        let case = &chain.case;
        let holder = case.id(&format!("after {done}"));
        chain.fence = db.executor.take_fence(&case.run_id(), &case.document_id, holder).await?;
        let found = db.reader.effect(&key).await?;
        equal("whether it was committed", done, found.is_some())?;
        match (done, chain.begin(EffectName::Mark).await?) {
            (false, Begun::Pending(again)) => drop(again),
            (true, Begun::Recorded(record)) => equal("the record", found, Some(record))?,
            (_, Begun::Pending(_)) => return Err(Broken::new("the record", "a new write")),
            (_, Begun::Recorded(_)) => return Err(Broken::new("a new write", "a record")),
        }
    }
    let history = db.reader.evidence(&chain.case.run_id()).await?.history.len();
    equal("history rows", 1, history)
}
