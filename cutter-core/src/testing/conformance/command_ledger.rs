//! The contract of the command ledger: one key is one effect, whoever asks.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::any::Any;
use core::future::Future;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use uuid::Uuid;

use super::{Broken, ConformanceFailure, Held, at_once, contracts, equal, holds, refused};
use crate::gate::command::{Judgement, same_payload};
use crate::machine::command::CommandState;
use crate::port::command_ledger::{Claim, Claimed, CommandLedger, Lease};
use crate::port::{PortErrorKind, PortResult};
use crate::record::command::{Command, CommandKey, FailureCode, Outcome, Receipt, Settlement};
use crate::record::command_entry::CommandEntry;
use crate::testing::memory::block_on;

/// A fresh ledger, and a way to let its clock run.
pub struct LedgerUnderTest {
    /// The port.
    pub ledger: Arc<dyn CommandLedger>,
    /// Lets so many milliseconds pass on the ledger's clock, which runs by itself or stands still.
    pub pass: Box<dyn Fn(u64) + Send + Sync>,
    /// What must outlive it.
    pub keep: Option<Box<dyn Any + Send + Sync>>,
}

/// Checks every contract; gives the names of those that held.
///
/// # Errors
/// The first contract that is not kept.
pub async fn run_all<B, F>(build: B) -> Result<Vec<&'static str>, ConformanceFailure>
where
    B: Fn() -> F,
    F: Future<Output = PortResult<LedgerUnderTest>>,
{
    contracts!(
        "command_ledger",
        build,
        [
            what_was_never_asked_for_is_nothing,
            an_intent_is_recorded_before_anything_else,
            an_outcome_is_replayed_to_everybody_and_for_ever,
            another_payload_is_a_conflict_in_every_state_and_writes_nothing,
            another_kind_under_the_key_is_a_conflict,
            keys_are_independent_of_each_other,
            an_open_attempt_is_its_holders_until_its_time_is_up,
            a_holder_takes_itself_over_at_once,
            a_stale_attempt_settles_nothing,
            a_settlement_is_recorded_once_and_found_again,
            a_wait_ends_by_the_ledgers_clock_and_counts_as_a_failure,
            ends_are_immutable,
            attempts_are_kept_with_how_they_ended,
            what_has_not_ended_is_listed_in_pages_by_key,
            texts_of_all_scripts_read_back,
            an_actor_has_a_name,
            of_many_executors_one_gets_the_attempt,
            of_many_that_take_over_one_gets_the_attempt,
        ]
    )
}

const LONG_MS: u64 = 3_600_000;
const SHORT_MS: u64 = 40;
const RACERS: usize = 12;

fn at(seconds: i64) -> Timestamp {
    let begin = Timestamp::from_second(1_779_271_872).unwrap_or_default();
    begin.checked_add(SignedDuration::from_secs(seconds)).unwrap_or(begin)
}

fn of<T, E: ToString>(result: Result<T, E>) -> Result<T, Broken> {
    result.map_err(|error| Broken::new("a value of the suite that is valid", error.to_string()))
}

fn create(key: &str, size: u32) -> Result<Command, Broken> {
    of(Command::new("deployment.create", key, &json!({ "size": size, "region": "eu" })))
}

fn ask(command: &Command, holder: u128, lease_ms: u64) -> Claim {
    Claim {
        command: command.clone(),
        actor: format!("worker-{holder}"),
        holder: Uuid::from_u128(holder),
        lease_ms,
        at: at(1),
    }
}

fn done(id: &str) -> Result<Settlement, Broken> {
    Ok(Settlement::Done { receipt: of(Receipt::new(&json!({ "deployment": id })))? })
}

impl LedgerUnderTest {
    async fn claim(&self, command: &Command, holder: u128, lease_ms: u64) -> Result<Claimed, Broken> {
        Ok(self.ledger.claim(&ask(command, holder, lease_ms)).await?)
    }

    /// A claim that must get the attempt.
    async fn lease(&self, command: &Command, holder: u128, lease_ms: u64) -> Result<Lease, Broken> {
        let claimed = self.claim(command, holder, lease_ms).await?;
        holds("a judgement that claims", claimed.judgement.claims(), &claimed)?;
        claimed.lease.ok_or_else(|| Broken::new("an attempt", "none"))
    }

    async fn settle(&self, lease: &Lease, settlement: &Settlement) -> Result<CommandEntry, Broken> {
        Ok(self.ledger.settle(lease, settlement, at(2)).await?)
    }

    async fn entry(&self, command: &Command) -> Result<CommandEntry, Broken> {
        let found = self.ledger.get(command.key()).await?;
        found.ok_or_else(|| Broken::new("an entry", "none"))
    }
}

async fn what_was_never_asked_for_is_nothing(t: &LedgerUnderTest) -> Held {
    let command = create("never", 1)?;
    equal("entry", None, t.ledger.get(command.key()).await?)?;
    equal("attempts", Vec::new(), t.ledger.attempts(command.key()).await?)?;
    equal("unsettled", Vec::new(), t.ledger.unsettled(None, 9).await?)?;
    let lease = Lease { key: command.key().clone(), epoch: 1, holder: Uuid::from_u128(1) };
    let settled = t.ledger.settle(&lease, &done("d")?, at(1)).await;
    refused("settling what is not there", &[PortErrorKind::NotFound], settled)
}

async fn an_intent_is_recorded_before_anything_else(t: &LedgerUnderTest) -> Held {
    let command = create("intent", 1)?;
    let claimed = t.claim(&command, 1, LONG_MS).await?;
    equal("judgement", Judgement::Fresh, claimed.judgement)?;
    let lease = Lease { key: command.key().clone(), epoch: 1, holder: Uuid::from_u128(1) };
    equal("attempt", Some(lease), claimed.lease)?;
    let entry = t.entry(&command).await?;
    equal("state", CommandState::Intended, entry.state())?;
    equal("body", command.body(), &*entry.body)?;
    holds("the digest of the body", same_payload(&entry.payload_sha256, &command.payload_sha256()), &entry)?;
    equal("kind, actor, at", (command.kind(), "worker-1", at(1)), (&entry.kind, &*entry.actor, entry.at))?;
    let read = of(Command::from_body(&entry.key, &entry.body))?;
    equal("the command reads back", &command, &read)
}

async fn an_outcome_is_replayed_to_everybody_and_for_ever(t: &LedgerUnderTest) -> Held {
    let failed = Settlement::failed(FailureCode::Refused, "no such region");
    for (key, settlement) in [("ok", done("d-1")?), ("refused", failed)] {
        let command = create(key, 1)?;
        let lease = t.lease(&command, 1, SHORT_MS).await?;
        let entry = t.settle(&lease, &settlement).await?;
        let outcome = Outcome::try_from(settlement).ok();
        equal("outcome", &outcome, &entry.outcome())?;
        for holder in [1, 2] {
            let again = t.claim(&command, holder, SHORT_MS).await?;
            equal("replay", outcome.clone().map(Judgement::Replay), Some(again.judgement))?;
            equal("no attempt", None, again.lease)?;
            (t.pass)(2 * SHORT_MS);
        }
        equal("attempts", 1, t.ledger.attempts(command.key()).await?.len())?;
    }
    Ok(())
}

async fn another_payload_is_a_conflict_in_every_state_and_writes_nothing(t: &LedgerUnderTest) -> Held {
    let waiting = Settlement::waiting(LONG_MS, "full");
    let failed = Settlement::failed(FailureCode::Refused, "no");
    for (key, settlement) in
        [("c0", None), ("c1", Some(waiting)), ("c2", Some(done("d")?)), ("c3", Some(failed))]
    {
        let (command, other) = (create(key, 1)?, create(key, 2)?);
        let lease = t.lease(&command, 1, LONG_MS).await?;
        if let Some(settlement) = &settlement {
            t.settle(&lease, settlement).await?;
        }
        let before = t.entry(&command).await?;
        let mut seen = Vec::new();
        for holder in [1, 2] {
            let claimed = t.claim(&other, holder, LONG_MS).await?;
            equal("no attempt", None, claimed.lease)?;
            let Judgement::Conflict(conflict) = claimed.judgement else {
                return Err(Broken::new("a conflict", format!("{:?}", claimed.judgement)));
            };
            equal("recorded", command.payload_sha256(), conflict.recorded_sha256)?;
            equal("offered", other.payload_sha256(), conflict.offered_sha256)?;
            seen.push(conflict);
        }
        holds("the same conflict each time", seen.windows(2).all(|pair| pair[0] == pair[1]), &seen)?;
        equal("nothing was written", before, t.entry(&command).await?)?;
    }
    Ok(())
}

async fn another_kind_under_the_key_is_a_conflict(t: &LedgerUnderTest) -> Held {
    let command = create("kind", 1)?;
    t.lease(&command, 1, LONG_MS).await?;
    let stop = of(Command::new("deployment.stop", "kind", command.payload()))?;
    let claimed = t.claim(&stop, 1, LONG_MS).await?;
    let Judgement::Conflict(conflict) = claimed.judgement else {
        return Err(Broken::new("a conflict", format!("{:?}", claimed.judgement)));
    };
    equal("kinds", (command.kind(), stop.kind()), (&conflict.recorded_kind, &conflict.offered_kind))
}

async fn keys_are_independent_of_each_other(t: &LedgerUnderTest) -> Held {
    // byte order and case count: these are four keys
    for key in ["k", "K", "k/1", "k-1"] {
        let lease = t.lease(&create(key, 1)?, 1, LONG_MS).await?;
        t.settle(&lease, &done(key)?).await?;
    }
    for key in ["k", "K", "k/1", "k-1"] {
        let outcome = t.entry(&create(key, 1)?).await?.outcome();
        equal("its own outcome", Outcome::try_from(done(key)?).ok(), outcome)?;
    }
    Ok(())
}

async fn an_open_attempt_is_its_holders_until_its_time_is_up(t: &LedgerUnderTest) -> Held {
    let command = create("lease", 1)?;
    t.lease(&command, 1, LONG_MS).await?;
    let claimed = t.claim(&command, 2, LONG_MS).await?;
    match claimed.judgement {
        Judgement::Busy { left_ms } => {
            holds("what is left of the lease", left_ms > 0 && left_ms <= LONG_MS, left_ms)?;
        }
        other => return Err(Broken::new("busy", format!("{other:?}"))),
    }
    equal("no attempt", None, claimed.lease)?;
    let command = create("lease-short", 1)?;
    t.lease(&command, 1, SHORT_MS).await?;
    (t.pass)(2 * SHORT_MS);
    let claimed = t.claim(&command, 2, LONG_MS).await?;
    equal("judgement", Judgement::Unresolved, claimed.judgement)?;
    equal("epoch", Some(2), claimed.lease.map(|lease| lease.epoch))?;
    equal("no failure is known", 0, claimed.failures)
}

async fn a_holder_takes_itself_over_at_once(t: &LedgerUnderTest) -> Held {
    let command = create("self", 1)?;
    t.lease(&command, 1, LONG_MS).await?;
    let claimed = t.claim(&command, 1, LONG_MS).await?;
    equal("judgement", Judgement::Unresolved, claimed.judgement)?;
    equal("epoch", Some(2), claimed.lease.map(|lease| lease.epoch))
}

async fn a_stale_attempt_settles_nothing(t: &LedgerUnderTest) -> Held {
    let command = create("stale", 1)?;
    let first = t.lease(&command, 1, LONG_MS).await?;
    let second = t.lease(&command, 1, LONG_MS).await?;
    let fenced = [PortErrorKind::Fenced];
    refused("the first attempt", &fenced, t.ledger.settle(&first, &done("a")?, at(2)).await)?;
    let stranger = Lease { holder: Uuid::from_u128(9), ..second.clone() };
    refused("a stranger", &fenced, t.ledger.settle(&stranger, &done("a")?, at(2)).await)?;
    let future = Lease { epoch: 3, ..second.clone() };
    refused("an attempt to come", &fenced, t.ledger.settle(&future, &done("a")?, at(2)).await)?;
    equal("open", CommandState::Intended, t.entry(&command).await?.state())?;
    t.settle(&second, &done("b")?).await?;
    refused("the first, later", &fenced, t.ledger.settle(&first, &done("b")?, at(2)).await)
}

async fn a_settlement_is_recorded_once_and_found_again(t: &LedgerUnderTest) -> Held {
    let command = create("settle", 1)?;
    let lease = t.lease(&command, 1, LONG_MS).await?;
    let wait = Settlement::waiting(0, "full");
    let first = t.settle(&lease, &wait).await?;
    equal("again", &first, &t.settle(&lease, &wait).await?)?;
    let second = t.lease(&command, 2, LONG_MS).await?;
    let entry = t.settle(&lease, &wait).await?;
    equal("an old settlement finds itself", (2, None), (entry.epoch, entry.settlement))?;
    let ended = t.settle(&second, &done("d")?).await?;
    equal("the end, again", &ended, &t.settle(&second, &done("d")?).await?)?;
    let conflict = [PortErrorKind::Conflict];
    refused("another receipt", &conflict, t.ledger.settle(&second, &done("e")?, at(2)).await)?;
    let failed = Settlement::failed(FailureCode::Refused, "no");
    refused("another end", &conflict, t.ledger.settle(&second, &failed, at(2)).await)?;
    equal("it stands", ended, t.entry(&command).await?)
}

async fn a_wait_ends_by_the_ledgers_clock_and_counts_as_a_failure(t: &LedgerUnderTest) -> Held {
    let command = create("wait", 1)?;
    let mut holder = 1;
    for failures in 1..=3 {
        let lease = t.lease(&command, holder, LONG_MS).await?;
        equal("epoch", failures, lease.epoch)?;
        t.settle(&lease, &Settlement::waiting(8 * SHORT_MS, "full")).await?;
        let early = t.claim(&command, holder + 1, LONG_MS).await?;
        let is_waiting = matches!(early.judgement, Judgement::Waiting { left_ms } if (1..=8 * SHORT_MS).contains(&left_ms));
        holds("waiting", is_waiting && early.lease.is_none(), &early)?;
        equal("failures", failures, early.failures)?;
        (t.pass)(9 * SHORT_MS);
        holder += 1;
    }
    let due = t.claim(&command, holder, LONG_MS).await?;
    equal("due, and failures", (Judgement::Retry, 3), (due.judgement, due.failures))
}

async fn ends_are_immutable(t: &LedgerUnderTest) -> Held {
    for (key, end) in [("end-1", done("d")?), ("end-2", Settlement::failed(FailureCode::MaxFailures, "no"))] {
        let command = create(key, 1)?;
        let lease = t.lease(&command, 1, SHORT_MS).await?;
        let ended = t.settle(&lease, &end).await?;
        (t.pass)(2 * SHORT_MS);
        for holder in [1, 2] {
            let claimed = t.claim(&command, holder, LONG_MS).await?;
            holds("a replay", matches!(claimed.judgement, Judgement::Replay(_)), &claimed)?;
        }
        let next = Lease { epoch: lease.epoch + 1, ..lease.clone() };
        let wait = Settlement::waiting(0, "once more");
        refused("no attempt after it", &[PortErrorKind::Fenced], t.ledger.settle(&next, &wait, at(3)).await)?;
        refused("no other end", &[PortErrorKind::Conflict], t.ledger.settle(&lease, &wait, at(3)).await)?;
        equal("it stands", ended, t.entry(&command).await?)?;
    }
    Ok(())
}

async fn attempts_are_kept_with_how_they_ended(t: &LedgerUnderTest) -> Held {
    let command = create("attempts", 1)?;
    let wait = Settlement::waiting(0, "full");
    let first = t.lease(&command, 1, LONG_MS).await?;
    t.settle(&first, &wait).await?;
    t.lease(&command, 2, LONG_MS).await?;
    let third = t.lease(&command, 2, LONG_MS).await?;
    t.settle(&third, &done("d")?).await?;
    let rows = t.ledger.attempts(command.key()).await?;
    let seen: Vec<_> = rows.iter().map(|r| (r.epoch, &*r.cause, r.holder.as_u128(), &*r.actor)).collect();
    let expected =
        [(1, "fresh", 1, "worker-1"), (2, "retry", 2, "worker-2"), (3, "unresolved", 2, "worker-2")];
    equal("attempts", expected.to_vec(), seen)?;
    let ends: Vec<Option<Settlement>> = rows.into_iter().map(|r| r.settlement).collect();
    equal("how they ended", [Some(wait), None, Some(done("d")?)].to_vec(), ends)
}

async fn what_has_not_ended_is_listed_in_pages_by_key(t: &LedgerUnderTest) -> Held {
    let keys = ["a", "b", "c", "d", "e", "f"];
    for (i, key) in keys.iter().enumerate() {
        let lease = t.lease(&create(key, 1)?, 1, LONG_MS).await?;
        match i {
            1 | 4 => drop(t.settle(&lease, &done(key)?).await?),
            2 => drop(t.settle(&lease, &Settlement::waiting(LONG_MS, "full")).await?),
            _ => {}
        }
    }
    let mut seen: Vec<String> = Vec::new();
    let mut after: Option<CommandKey> = None;
    loop {
        let page = t.ledger.unsettled(after.as_ref(), 2).await?;
        holds("a page of at most two", page.len() <= 2, page.len())?;
        let Some(last) = page.last() else { break };
        after = Some(last.key.clone());
        seen.extend(page.iter().map(|entry| entry.key.to_string()));
    }
    equal("open, by key", ["a", "c", "d", "f"].map(String::from).to_vec(), seen)
}

async fn texts_of_all_scripts_read_back(t: &LedgerUnderTest) -> Held {
    let hostile: Value = json!({
        "Điều": "khoản \u{1f600} \u{202e} '; DROP TABLE command; --",
        "quotes": "\" \\ \u{7} \r\n\t \u{2028}",
        "deep": [[[{ "n": -9_007_199_254_740_991_i64 }]], null, true, ""],
    });
    let command = of(Command::new("order.place", "scripts", &hostile))?;
    let lease = t.lease(&command, 1, LONG_MS).await?;
    let settlement = Settlement::Done { receipt: of(Receipt::new(&hostile))? };
    let entry = t.settle(&lease, &settlement).await?;
    equal("body", command.body(), &*entry.body)?;
    equal("receipt", Some(&settlement), entry.settlement.as_ref())
}

async fn an_actor_has_a_name(t: &LedgerUnderTest) -> Held {
    let command = create("actor", 1)?;
    for actor in [String::new(), "x".repeat(crate::base::limits::ACTOR_MAX_BYTES + 1)] {
        let claim = Claim { actor, ..ask(&command, 1, LONG_MS) };
        refused("an actor without a name", &[PortErrorKind::Invalid], t.ledger.claim(&claim).await)?;
    }
    equal("nothing was written", None, t.ledger.get(command.key()).await?)
}

async fn of_many_executors_one_gets_the_attempt(t: &LedgerUnderTest) -> Held {
    let command = create("race", 1)?;
    race(t, &command, 1, |judgement| matches!(judgement, Judgement::Fresh))
}

async fn of_many_that_take_over_one_gets_the_attempt(t: &LedgerUnderTest) -> Held {
    let command = create("race-over", 1)?;
    t.lease(&command, 999, SHORT_MS).await?;
    (t.pass)(2 * SHORT_MS);
    race(t, &command, 2, |judgement| matches!(judgement, Judgement::Unresolved))
}

fn race(t: &LedgerUnderTest, command: &Command, epoch: u32, won: fn(&Judgement) -> bool) -> Held {
    let ledger = &t.ledger;
    let claims = at_once(RACERS, |i| block_on(ledger.claim(&ask(command, 1 + i as u128, LONG_MS))))?;
    let claims = claims.into_iter().collect::<PortResult<Vec<_>>>()?;
    let winners: Vec<_> = claims.iter().filter(|c| won(&c.judgement)).collect();
    equal("winners", 1, winners.len())?;
    holds(
        "the others are told who is at it",
        claims.iter().filter(|c| matches!(c.judgement, Judgement::Busy { .. })).count() == RACERS - 1,
        &claims,
    )?;
    let epochs: Vec<u32> = claims.iter().filter_map(|c| c.lease.as_ref().map(|l| l.epoch)).collect();
    equal("attempts", [epoch].to_vec(), epochs)
}
