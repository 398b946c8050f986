//! PostgreSQL and the in-memory queue give the same answers to the same questions, at random.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod queue_support;

use std::time::Duration;

use cutter_core::machine::retry::RetryPolicy;
use cutter_core::port::PortResult;
use cutter_core::port::work_queue::{ItemQuery, WorkQueue};
use cutter_core::record::queue::{Failure, ItemId, NewItem, Token};
use cutter_core::testing::memory::MemoryWorkQueue;
use futures_executor::block_on;
use queue_support::{Stand, start, worker};

/// A small generator of our own: a failing seed is printed, and is all that it takes.
struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (x ^ (x >> 31)) % n
    }
}

const GATES: [&str; 3] = ["SG1", "SG2", ""];

fn new(random: &mut Random) -> NewItem {
    let policy = RetryPolicy {
        max_attempts: 1 + random.below(4) as u32,
        max_failures: 1 + random.below(4) as u32,
        base_ms: 20_000,
        cap_ms: 90_000,
        jitter: 50,
    };
    // Few keys, so that they meet; now and then another payload.
    let payload = if random.below(12) == 0 { "other" } else { "{}" };
    NewItem::new(format!("k{}", random.below(60)), "test", payload)
        .unwrap()
        .priority(random.below(3) as i32)
        .policy(policy)
        .unwrap()
        .actor("me")
}

/// The answer as text; the kind and message of an error, without what only one side says.
fn said<T: std::fmt::Debug>(result: PortResult<T>) -> String {
    match result {
        Ok(value) => format!("{value:?}"),
        Err(error) => {
            let message = error.message.split(" (SQLSTATE").next().unwrap_or_default();
            format!("{}: {message}", error.kind)
        }
    }
}

/// One question to both, as (what was asked, what was said).
fn ask(random: &mut Random, queue: &dyn WorkQueue, tokens: &[Token], last: u64) -> (String, String) {
    let lease = Duration::from_secs(30 + random.below(60));
    let holder = worker(u128::from(random.below(3)));
    let item = ItemId(1 + random.below(last.max(1) + 2));
    let pick = |random: &mut Random| {
        let nobody = Token { item, epoch: random.below(4), holder };
        match tokens.len() as u64 {
            0 => nobody,
            // Mostly the latest tokens, now and then a stale one.
            n => tokens[(n - 1 - random.below(n.min(12))) as usize],
        }
    };
    let batch = |random: &mut Random| {
        let mut batch: Vec<Token> = (0..3).map(|_| pick(random)).collect();
        let first = batch[0];
        batch.retain(|token| token.item != first.item || *token == first);
        if let Some(last) = batch.pop() {
            batch.retain(|token| token.item != last.item || *token == last);
            batch.push(last);
        }
        batch
    };
    let gate = GATES[random.below(3) as usize];
    match random.below(14) {
        0 | 1 => {
            let batch: Vec<NewItem> = (0..random.below(6)).map(|_| new(random)).collect();
            (format!("enqueue {}", batch.len()), said(block_on(queue.enqueue(&batch))))
        }
        2 | 3 => {
            let limit = random.below(5) as u32;
            (format!("claim {limit}"), said(block_on(queue.claim(holder, limit, lease))))
        }
        4 => {
            let limit = random.below(5) as u32;
            (format!("take over {limit}"), said(block_on(queue.take_over(holder, limit, lease))))
        }
        5 => {
            let batch = batch(random);
            (format!("heartbeat {batch:?}"), said(block_on(queue.heartbeat(&batch, lease))))
        }
        6 => {
            let batch = batch(random);
            (format!("complete {batch:?}"), said(block_on(queue.complete(&batch))))
        }
        7 => {
            let batch = batch(random);
            (format!("hand back {batch:?}"), said(block_on(queue.hand_back(&batch))))
        }
        8 => {
            let failure = match random.below(6) {
                0 => Failure::permanent("gone", "for good"),
                1 => Failure::risk_denied("no"),
                2 => Failure::transient("A b", ""),
                _ => Failure::transient("broken", "it"),
            };
            let token = pick(random);
            (format!("fail {token:?} {failure:?}"), said(block_on(queue.fail(&token, &failure))))
        }
        9 => {
            let token = pick(random);
            (format!("await {token:?} {gate}"), said(block_on(queue.await_user(&token, gate))))
        }
        10 => (format!("ready {item} {gate}"), said(block_on(queue.ready(item, gate)))),
        11 => {
            let reason = ["why", " "][random.below(2) as usize];
            (format!("cancel {item} {reason}"), said(block_on(queue.cancel(item, reason, "me"))))
        }
        12 => match random.below(4) {
            0 => (format!("watch left by {holder}"), said(block_on(queue.leave_watch(holder)))),
            _ => (format!("watch for {holder}"), said(block_on(queue.take_watch(holder, lease)))),
        },
        _ => {
            let query = ItemQuery { state: None, kind: None, after: Some(item), limit: 3 };
            let look = (
                said(block_on(queue.item(item))),
                said(block_on(queue.attempts(item))),
                said(block_on(queue.list(&query))),
                said(block_on(queue.retain(1 + random.below(2) as u16))),
            );
            (format!("look at {item}"), format!("{look:?}"))
        }
    }
}

#[test]
fn both_queues_answer_alike() {
    let (series, steps) = if std::env::var_os("CUTTER_FULL").is_some() { (60, 600) } else { (6, 250) };
    for seed in 0..series {
        let stand = Stand::new();
        let postgres = stand.queue();
        let memory = MemoryWorkQueue::new(start());
        let mut random = Random(seed);
        let mut tokens: Vec<Token> = Vec::new();
        let mut last = 0;
        let mut said_at_all = std::collections::BTreeMap::<String, u32>::new();
        for step in 0..steps {
            if random.below(4) == 0 {
                let hours = if random.below(20) == 0 { 30 } else { 0 };
                let time = Duration::from_millis(random.below(70_000)) + Duration::from_secs(hours * 3_600);
                memory.advance(time);
                stand.advance(time);
            }
            let mut same = Random(random.below(u64::MAX));
            let mut again = Random(same.0);
            let (asked, expected) = ask(&mut same, &memory, &tokens, last);
            let (_, observed) = ask(&mut again, &postgres, &tokens, last);
            assert_eq!(observed, expected, "seed {seed}, step {step}: {asked}");
            *said_at_all.entry(asked.split(' ').next().unwrap().to_owned()).or_default() += 1;
            let query = ItemQuery { state: None, kind: None, after: None, limit: 10_000 };
            let items = block_on(memory.list(&query)).unwrap();
            tokens.extend(
                items
                    .iter()
                    .filter_map(|item| item.token())
                    .filter(|t| !tokens.contains(t))
                    .collect::<Vec<_>>(),
            );
            last = items.last().map_or(0, |item| item.item.0);
        }
        let query = ItemQuery { state: None, kind: None, after: None, limit: 10_000 };
        let (expected, observed) =
            (block_on(memory.list(&query)).unwrap(), block_on(postgres.list(&query)).unwrap());
        assert_eq!(observed, expected, "seed {seed}: every item at the end");
        let expected = block_on(memory.statistics()).unwrap();
        let mut observed = block_on(postgres.statistics()).unwrap();
        observed.oldest_snapshot = None;
        assert_eq!(observed, expected, "seed {seed}: the numbers at the end");
        assert!(said_at_all.len() >= 11, "every question is asked: {said_at_all:?}");
    }
}
