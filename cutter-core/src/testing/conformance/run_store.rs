//! The contract of [`RunStore`]. Revisions are JSON documents here as in a run: a store may refuse
//! what is none.

use alloc::format;
use alloc::string::ToString;
use alloc::vec::Vec;
use core::future::Future;

use uuid::Uuid;

use super::fixture::{id, run_id};
use super::{Broken, ConformanceFailure, Fresh, Held, at_once, contracts, equal, holds, refused};
use crate::base::cas::CasOutcome;
use crate::port::run_store::{Beginning, Claim, LockHolder, RunStore, StopRequest};
use crate::port::{PortErrorKind, PortResult};
use crate::testing::memory::block_on;

type Store = Fresh<dyn RunStore>;

/// Checks every contract; gives the names of those that held.
///
/// # Errors
/// The first contract that is not kept.
pub async fn run_all<B, F>(build: B) -> Result<Vec<&'static str>, ConformanceFailure>
where
    B: Fn() -> F,
    F: Future<Output = PortResult<Store>>,
{
    contracts!(
        "run_store",
        build,
        [
            a_run_is_created_once,
            of_many_creators_one_applies,
            an_absent_run_is_none,
            a_revision_follows_the_expected_one,
            the_same_revision_again_is_already_applied,
            a_stale_publisher_is_refused_and_writes_nothing,
            of_many_publishers_one_applies,
            older_revisions_stay,
            several_runs_are_loaded_in_the_order_asked_for,
            a_run_that_is_not_there_takes_no_revision,
            the_lock_has_one_holder_until_it_is_dropped,
            of_many_lockers_one_holds,
            locks_of_two_runs_are_apart,
            a_run_begins_with_lock_and_claim,
            a_beginning_ends_at_its_first_refusal,
            the_last_save_of_a_holder_is_a_save_like_any_other,
            a_claim_is_put_once,
            a_successor_takes_the_next_generation,
            of_many_claimants_one_applies,
            runs_are_listed_in_byte_order,
            a_mirror_may_be_written_again,
            a_later_stop_request_replaces_an_earlier_one,
            the_location_names_the_run,
        ]
    )
}

async fn a_run_is_created_once(store: &Store) -> Held {
    let run = run_id(1);
    equal("the first create", CasOutcome::Applied, store.port.create(&run, b"1").await?)?;
    equal("the same bytes again", CasOutcome::AlreadyApplied, store.port.create(&run, b"1").await?)?;
    let other = store.port.create(&run, b"2").await?;
    holds("other bytes conflict", matches!(other, CasOutcome::Conflict { .. }), &other)?;
    let loaded = store.port.load(&run).await?.map(|r| (r.revision, r.bytes));
    equal("what is stored", Some((1, b"1".to_vec())), loaded)
}

async fn of_many_creators_one_applies(store: &Store) -> Held {
    let outcomes = at_once(8, |i| block_on(store.port.create(&run_id(1), format!("{i}").as_bytes())))?;
    one_applied(outcomes)
}

fn one_applied<T: core::fmt::Debug + PartialEq>(outcomes: Vec<PortResult<CasOutcome<T>>>) -> Held {
    let outcomes = outcomes.into_iter().collect::<PortResult<Vec<_>>>()?;
    let applied = outcomes.iter().filter(|o| **o == CasOutcome::Applied).count();
    let conflicts = outcomes.iter().filter(|o| matches!(o, CasOutcome::Conflict { .. })).count();
    equal("one of all applied, the others conflict", (1, outcomes.len() - 1), (applied, conflicts))
}

async fn an_absent_run_is_none(store: &Store) -> Held {
    holds("no revision", store.port.load(&run_id(9)).await?.is_none(), "a revision")?;
    holds("no revision 1", store.port.load_revision(&run_id(9), 1).await?.is_none(), "a revision")?;
    holds("no claim", store.port.latest_claim("NO-DOC").await?.is_none(), "a claim")?;
    holds("no holder", store.port.lock_holder(&run_id(9)).await?.is_none(), "a holder")?;
    holds("no stop request", store.port.stop_request(&run_id(9)).await?.is_none(), "a request")
}

async fn a_revision_follows_the_expected_one(store: &Store) -> Held {
    let run = run_id(1);
    store.port.create(&run, b"1").await?;
    equal("revision 2", CasOutcome::Applied, store.port.publish(&run, 1, b"2").await?)?;
    equal("revision 3", CasOutcome::Applied, store.port.publish(&run, 2, b"3").await?)?;
    let loaded = store.port.load(&run).await?.map(|r| (r.revision, r.bytes));
    equal("the highest revision", Some((3, b"3".to_vec())), loaded)
}

async fn the_same_revision_again_is_already_applied(store: &Store) -> Held {
    let run = run_id(1);
    store.port.create(&run, b"1").await?;
    store.port.publish(&run, 1, b"2").await?;
    equal("the same again", CasOutcome::AlreadyApplied, store.port.publish(&run, 1, b"2").await?)?;
    let loaded = store.port.load(&run).await?.map(|r| r.revision);
    equal("the highest revision", Some(2), loaded)
}

async fn a_stale_publisher_is_refused_and_writes_nothing(store: &Store) -> Held {
    let run = run_id(1);
    store.port.create(&run, b"1").await?;
    store.port.publish(&run, 1, b"2").await?;
    let stale = store.port.publish(&run, 1, b"44").await?;
    equal("a stale publish", CasOutcome::Conflict { found: 2 }, stale)?;
    let ahead = store.port.publish(&run, 7, b"55").await?;
    equal("a publish ahead", CasOutcome::Conflict { found: 2 }, ahead)?;
    let loaded = store.port.load(&run).await?.map(|r| (r.revision, r.bytes));
    equal("what is stored", Some((2, b"2".to_vec())), loaded)
}

async fn of_many_publishers_one_applies(store: &Store) -> Held {
    let run = run_id(1);
    store.port.create(&run, b"1").await?;
    let outcomes = at_once(8, |i| block_on(store.port.publish(&run, 1, format!("1{i}").as_bytes())))?;
    one_applied(outcomes)?;
    equal("the highest revision", Some(2), store.port.load(&run).await?.map(|r| r.revision))
}

async fn older_revisions_stay(store: &Store) -> Held {
    let run = run_id(1);
    store.port.create(&run, b"1").await?;
    store.port.publish(&run, 1, b"2").await?;
    for (revision, bytes) in [(1, Some("1")), (2, Some("2")), (3, None), (0, None)] {
        let found = store.port.load_revision(&run, revision).await?.map(|r| (r.revision, r.bytes));
        let expected = bytes.map(|b| (revision, b.as_bytes().to_vec()));
        equal("the revision", expected, found)?;
    }
    Ok(())
}

async fn several_runs_are_loaded_in_the_order_asked_for(store: &Store) -> Held {
    equal("none of none", Vec::new(), store.port.load_many(&[]).await?)?;
    for n in [1, 2, 3] {
        store.port.create(&run_id(n), b"1").await?;
    }
    store.port.publish(&run_id(2), 1, b"2").await?;
    let asked = [3, 9, 2, 3].map(run_id);
    let mut expected = Vec::new();
    for run in &asked {
        expected.push(store.port.load(run).await?);
    }
    let revisions: Vec<Option<u64>> = expected.iter().map(|r| r.as_ref().map(|r| r.revision)).collect();
    equal("one by one", Vec::from([Some(1), None, Some(2), Some(1)]), revisions)?;
    equal("at once", expected, store.port.load_many(&asked).await?)
}

async fn a_run_that_is_not_there_takes_no_revision(store: &Store) -> Held {
    let result = store.port.publish(&run_id(1), 1, b"2").await;
    refused("publish to no run", &[PortErrorKind::NotFound], result)
}

fn holder(n: u8) -> LockHolder {
    LockHolder {
        holder: id(&format!("holder {n}")),
        host: "host".into(),
        pid: std::process::id(),
        since: "2026-01-02T03:04:05Z".into(),
        command: format!("orchestrate resume {n}"),
    }
}

async fn the_lock_has_one_holder_until_it_is_dropped(store: &Store) -> Held {
    let run = run_id(1);
    store.port.create(&run, b"1").await?;
    let lock = store.port.lock(&run, &holder(1)).await?;
    equal("the locked run", &run, lock.run_id())?;
    let seen = store.port.lock_holder(&run).await?.map(|h| (h.holder, h.command));
    equal("the holder", Some((holder(1).holder, holder(1).command)), seen)?;
    match store.port.lock(&run, &holder(2)).await {
        Err(error) if error.kind == PortErrorKind::Busy => {
            let named = error.message.contains(&holder(1).holder.to_string())
                || error.message.contains(&holder(1).command)
                || error.message.contains(&holder(1).pid.to_string());
            holds("a refusal that names the holder", named, error.message)?;
        }
        Err(error) => return Err(Broken::new("Busy", error.to_string())),
        Ok(_) => return Err(Broken::new("Busy", "a second holder")),
    }
    drop(lock);
    holds("no holder after the drop", store.port.lock_holder(&run).await?.is_none(), "a holder")?;
    drop(store.port.lock(&run, &holder(2)).await?);
    Ok(())
}

async fn of_many_lockers_one_holds(store: &Store) -> Held {
    let run = run_id(1);
    store.port.create(&run, b"1").await?;
    let results = at_once(8, |i| block_on(store.port.lock(&run, &holder(u8::try_from(i).unwrap_or(0)))))?;
    let held = results.iter().filter(|r| r.is_ok()).count();
    let busy = results.iter().filter(|r| r.as_ref().err().is_some_and(|e| e.kind == PortErrorKind::Busy));
    equal("one of eight holds, the others are Busy", (1, 7), (held, busy.count()))
}

async fn locks_of_two_runs_are_apart(store: &Store) -> Held {
    store.port.create(&run_id(1), b"1").await?;
    store.port.create(&run_id(2), b"2").await?;
    let first = store.port.lock(&run_id(1), &holder(1)).await?;
    let second = store.port.lock(&run_id(2), &holder(2)).await?;
    drop(first);
    let seen = store.port.lock_holder(&run_id(2)).await?.map(|h| h.holder);
    equal("the other lock stays", Some(holder(2).holder), seen)?;
    drop(second);
    Ok(())
}

fn claim(generation: u64, run: u8) -> Claim {
    Claim { document_id: "CONF-DOC".into(), generation, run_id: run_id(run) }
}

async fn a_run_begins_with_lock_and_claim(store: &Store) -> Held {
    let (run, driver, own) = (run_id(1), holder(1), claim(1, 1));
    let beginning = Beginning { run_id: &run, bytes: b"1", holder: &driver, claim: Some(&own) };
    let begun = store.port.begin(&beginning).await?;
    equal("created", CasOutcome::Applied, begun.created)?;
    equal("claimed", Some(CasOutcome::Applied), begun.claimed)?;
    equal("locked", Some(run.clone()), begun.lock.as_ref().map(|lock| lock.run_id().clone()))?;
    equal("stored", Some(b"1".to_vec()), store.port.load(&run).await?.map(|s| s.bytes))?;
    equal("the claim", Some(own.clone()), store.port.latest_claim(&own.document_id).await?)?;
    refused("a lock beside it", &[PortErrorKind::Busy], store.port.lock(&run, &holder(2)).await)?;
    equal("the holder saves", CasOutcome::Applied, store.port.publish(&run, 1, b"2").await?)?;
    drop(begun.lock);
    // Without a claim; and whoever asks again, because the answer was lost, finds all of it.
    let dry = run_id(2);
    let beginning = Beginning { run_id: &dry, bytes: b"1", holder: &driver, claim: None };
    let first = store.port.begin(&beginning).await?;
    equal("no claim", None, first.claimed)?;
    drop(first.lock);
    let again = store.port.begin(&beginning).await?;
    equal("again", CasOutcome::AlreadyApplied, again.created)?;
    holds("the lock again", again.lock.is_some(), "no lock")
}

async fn the_last_save_of_a_holder_is_a_save_like_any_other(store: &Store) -> Held {
    let run = run_id(1);
    store.port.create(&run, b"1").await?;
    let lock = store.port.lock(&run, &holder(1)).await?;
    let conflict = CasOutcome::Conflict { found: 1 };
    equal("out of turn", conflict, store.port.publish_last(&run, 4, b"5").await?)?;
    refused("the lock stands", &[PortErrorKind::Busy], store.port.lock(&run, &holder(2)).await)?;
    equal("the last", CasOutcome::Applied, store.port.publish_last(&run, 1, b"2").await?)?;
    equal("again", CasOutcome::AlreadyApplied, store.port.publish_last(&run, 1, b"2").await?)?;
    drop(lock);
    let (next, newest) = store.port.lock_and_load(&run, &holder(2)).await?;
    equal("what the next holder reads", Some(b"2".to_vec()), newest.map(|s| s.bytes))?;
    equal("its save", CasOutcome::Applied, store.port.publish(&run, 2, b"3").await?)?;
    drop(next);
    Ok(())
}

async fn a_beginning_ends_at_its_first_refusal(store: &Store) -> Held {
    let (first, second, driver) = (run_id(1), run_id(2), holder(1));
    let (own, other) = (claim(1, 1), claim(1, 2));
    let beginning = |run_id, bytes, claim| Beginning { run_id, bytes, holder: &driver, claim: Some(claim) };
    let begun = store.port.begin(&beginning(&first, b"1", &own)).await?;
    // The document is another's: the run is there, locked, and has no claim.
    let late = store.port.begin(&beginning(&second, b"1", &other)).await?;
    equal("created", CasOutcome::Applied, late.created)?;
    equal("not claimed", Some(CasOutcome::Conflict { found: own.clone() }), late.claimed)?;
    holds("locked", late.lock.is_some(), "no lock")?;
    // Somebody drives the run.
    let busy = store.port.begin(&beginning(&first, b"1", &own)).await;
    refused("a lock that is held", &[PortErrorKind::Busy], busy)?;
    drop(begun.lock);
    // Another first revision.
    let wrong = store.port.begin(&beginning(&first, b"3", &own)).await?;
    holds("conflict", matches!(wrong.created, CasOutcome::Conflict { .. }), &wrong.created)?;
    holds("nothing behind it", wrong.lock.is_none() && wrong.claimed.is_none(), "a lock or a claim")
}

/// Runs that may claim.
async fn runs_to(store: &Store, last: u8) -> Held {
    for n in 1..=last {
        store.port.create(&run_id(n), b"1").await?;
    }
    Ok(())
}

async fn a_claim_is_put_once(store: &Store) -> Held {
    runs_to(store, 2).await?;
    equal("the first claim", CasOutcome::Applied, store.port.put_claim(&claim(1, 1)).await?)?;
    equal("the same again", CasOutcome::AlreadyApplied, store.port.put_claim(&claim(1, 1)).await?)?;
    let other = store.port.put_claim(&claim(1, 2)).await?;
    equal("another run's", CasOutcome::Conflict { found: claim(1, 1) }, other)?;
    equal("the newest claim", Some(claim(1, 1)), store.port.latest_claim("CONF-DOC").await?)?;
    holds("claims are by document", store.port.latest_claim("CONF").await?.is_none(), "a claim")
}

async fn a_successor_takes_the_next_generation(store: &Store) -> Held {
    runs_to(store, 3).await?;
    store.port.put_claim(&claim(1, 1)).await?;
    equal("generation 2", CasOutcome::Applied, store.port.put_claim(&claim(2, 2)).await?)?;
    equal("the newest claim", Some(claim(2, 2)), store.port.latest_claim("CONF-DOC").await?)?;
    for generation in 3..=11 {
        store.port.put_claim(&claim(generation, 3)).await?;
    }
    equal("by number, not by text", Some(claim(11, 3)), store.port.latest_claim("CONF-DOC").await?)
}

async fn of_many_claimants_one_applies(store: &Store) -> Held {
    runs_to(store, 8).await?;
    let outcomes = at_once(8, |i| {
        let run = u8::try_from(i).unwrap_or(0) + 1;
        block_on(store.port.put_claim(&claim(1, run)))
    })?;
    one_applied(outcomes)
}

async fn runs_are_listed_in_byte_order(store: &Store) -> Held {
    for n in [3, 1, 2] {
        store.port.create(&run_id(n), b"1").await?;
    }
    store.port.put_claim(&claim(1, 1)).await?;
    let mut expected = Vec::from([run_id(1), run_id(2), run_id(3)]);
    expected.sort();
    equal("all runs", expected, store.port.list().await?)
}

async fn a_mirror_may_be_written_again(store: &Store) -> Held {
    store.port.create(&run_id(1), b"1").await?;
    store.port.mirror(&run_id(1), "phase-01.md", b"first").await?;
    store.port.mirror(&run_id(1), "phase-01.md", b"second").await?;
    let loaded = store.port.load(&run_id(1)).await?.map(|r| (r.revision, r.bytes));
    equal("the sidecar is untouched", Some((1, b"1".to_vec())), loaded)
}

async fn a_later_stop_request_replaces_an_earlier_one(store: &Store) -> Held {
    let request = |id: Uuid, reason: &str| StopRequest {
        id,
        reason: reason.into(),
        actor: "operator".into(),
        at: "2026-01-02T03:04:05Z".into(),
    };
    store.port.create(&run_id(1), b"1").await?;
    let (first, second) = (request(id("stop 1"), "second_thoughts"), request(id("stop 2"), "recess"));
    store.port.request_stop(&run_id(1), &first).await?;
    equal("the request", Some(&first), store.port.stop_request(&run_id(1)).await?.as_ref())?;
    let lock = store.port.lock(&run_id(1), &holder(1)).await?;
    store.port.request_stop(&run_id(1), &second).await?;
    drop(lock);
    equal("the later request", Some(&second), store.port.stop_request(&run_id(1)).await?.as_ref())
}

async fn the_location_names_the_run(store: &Store) -> Held {
    let location = store.port.sidecar_location(&run_id(1));
    holds("a location with the run's id", location.contains(run_id(1).as_str()), location)
}
