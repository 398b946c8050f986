//! Every rule has a spoiler, every pair of states its answer, every budget its end.

use std::boxed::Box;
use std::collections::BTreeSet;
use std::string::ToString;
use std::vec::Vec;

use proptest::prelude::*;

use super::*;
use crate::machine::Spelled;
use crate::machine::work_item::WorkItemState as S;

const LEASE: Duration = Duration::from_secs(60);

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_700_000_000 + second).unwrap()
}

fn worker(n: u128) -> Uuid {
    Uuid::from_u128(n)
}

/// An item in a state, as a life that led there leaves it.
fn example(state: S) -> WorkItem {
    let queued = NewItem::new("key", "kind", "payload").unwrap().queued(ItemId(7), at(0));
    if state == S::Queued || state == S::Received {
        return WorkItem { state, ..queued };
    }
    let held = applied(&queued, &Operation::Claim { holder: worker(1), lease: LEASE }, at(1));
    let token = held.token().unwrap();
    let operation = match state {
        S::AwaitingTool => Operation::Fail { token, failure: Failure::transient("broken", "") },
        S::AwaitingUserConfirmation => Operation::AwaitUser { token, gate: "SG1".into() },
        S::Completed => Operation::Complete { token },
        S::Failed => Operation::Fail { token, failure: Failure::permanent("broken", "") },
        S::Cancelled => Operation::Cancel { reason: "why".into(), actor: "me".into() },
        _ => return held,
    };
    applied(&held, &operation, at(2))
}

fn applied(item: &WorkItem, operation: &Operation, now: Timestamp) -> WorkItem {
    match judge(item, operation, now) {
        Judgement::Apply(change) => change.after,
        other => panic!("{operation:?} on {item:?}: {other:?}"),
    }
}

fn refusal(item: &WorkItem, operation: &Operation, now: Timestamp) -> String {
    match judge(item, operation, now) {
        Judgement::Refused(refusal) => refusal.to_string(),
        other => panic!("{operation:?}: {other:?}"),
    }
}

fn operations(token: Token) -> Vec<(Operation, S)> {
    Vec::from([
        (Operation::Claim { holder: worker(2), lease: LEASE }, S::Executing),
        (Operation::TakeOver { holder: worker(2), lease: LEASE }, S::Executing),
        (Operation::Complete { token }, S::Completed),
        (Operation::Fail { token, failure: Failure::transient("x", "") }, S::AwaitingTool),
        (Operation::Fail { token, failure: Failure::permanent("x", "") }, S::Failed),
        (Operation::AwaitUser { token, gate: "SG2".into() }, S::AwaitingUserConfirmation),
        (Operation::HandBack { token }, S::AwaitingTool),
        (Operation::Cancel { reason: "why".into(), actor: "me".into() }, S::Cancelled),
    ])
}

#[test]
fn every_move_is_one_of_the_table_and_illegal_ones_say_so() {
    let mut moves = BTreeSet::new();
    for &state in S::ALL {
        let mut item = example(state);
        if state == S::AwaitingUserConfirmation {
            item = applied(&item, &Operation::Ready { gate: "SG1".into() }, at(3));
        }
        let holder = item.holder.unwrap_or(worker(1));
        let token = Token { item: item.item, epoch: item.epoch, holder };
        for (operation, target) in operations(token) {
            match judge(&item, &operation, at(1_000)) {
                Judgement::Apply(change) => {
                    assert_eq!(WORK_ITEM.step(change.from, change.trigger), Ok(change.after.state));
                    assert!(!item.is_terminal(), "{state} is an end");
                    moves.insert((state.spelling(), change.after.state.spelling()));
                }
                Judgement::Refused(Refusal::Illegal(illegal)) => {
                    let direct = WORK_ITEM.check(state, target).is_err();
                    let by_trigger = matches!(operation, Operation::TakeOver { .. });
                    assert!(direct || by_trigger, "{illegal}");
                }
                Judgement::Refused(Refusal::Rule(check)) => {
                    assert!(RULES.iter().any(|rule| rule.id == check.invariant), "{check:?}");
                }
                // A failure that is told again may have been the last one.
                Judgement::Already => assert!(
                    state == target || (state == S::Failed && target == S::AwaitingTool),
                    "{operation:?} on {state}"
                ),
            }
        }
    }
    let all = WORK_ITEM.edges().into_iter().filter(|(from, to)| from != to || *from == S::Executing);
    // What is left out is the table's, but no operation of the queue: a receipt that never entered
    // it, and failures of items that nobody holds.
    let left: Vec<_> =
        all.map(|(from, to)| (from.spelling(), to.spelling())).filter(|edge| !moves.contains(edge)).collect();
    assert_eq!(
        left,
        [
            ("received", "queued"),
            ("received", "failed"),
            ("queued", "failed"),
            ("awaiting_tool", "failed"),
            ("awaiting_user_confirmation", "failed"),
        ]
    );
}

#[test]
fn each_rule_has_a_case_that_breaks_it_and_only_it() {
    let held = example(S::Executing);
    let token = held.token().unwrap();
    let stale = Token { epoch: 9, ..token };
    let new = |payload: &str| NewItem::new("key", "kind", payload).unwrap();
    let recorded = judge_enqueue(&held, &new("other")).unwrap_err().to_string();
    let zero = Duration::ZERO;
    let cases = [
        ("item.known", unknown(ItemId(1)).to_string()),
        ("enqueue.same_payload", recorded),
        ("claim.ready", refusal(&example(S::AwaitingTool), &operations(token)[0].0, at(2))),
        ("lease.token", refusal(&held, &Operation::Complete { token: stale }, at(2))),
        ("lease.expired", refusal(&held, &operations(token)[1].0, at(60))),
        ("lease.length", refusal(&held, &Operation::Heartbeat { token, lease: zero }, at(2))),
        (
            "fail.code",
            refusal(&held, &Operation::Fail { token, failure: Failure::transient("A b", "") }, at(2)),
        ),
        ("await.gate", refusal(&held, &Operation::AwaitUser { token, gate: String::new() }, at(2))),
        ("ready.gate", refusal(&held, &Operation::Ready { gate: "SG1".into() }, at(2))),
        (
            "cancel.reason",
            refusal(&held, &Operation::Cancel { reason: "".into(), actor: "me".into() }, at(2)),
        ),
    ];
    assert_eq!(cases.iter().map(|c| c.0).collect::<Vec<_>>(), RULES.iter().map(|r| r.id).collect::<Vec<_>>());
    for (rule, text) in cases {
        assert!(text.starts_with(&format!("{rule}: expected ")), "{rule}: {text}");
    }
    assert_eq!(judge_enqueue(&held, &new("payload")), Ok(()));
    applied(&held, &operations(token)[1].0, at(61));
    assert_eq!(
        refusal(&held, &Operation::Complete { token: stale }, at(2)),
        format!(
            "lease.token: expected executing under epoch 9 of {0}, observed executing under epoch 1 of {0}",
            worker(1)
        )
    );
}

#[test]
fn a_received_item_is_only_cancelled() {
    let item = example(S::Received);
    let cancelled = applied(&item, &Operation::Cancel { reason: "why".into(), actor: "me".into() }, at(1));
    assert_eq!(cancelled.state, S::Cancelled);
    let text = refusal(&item, &Operation::Claim { holder: worker(1), lease: LEASE }, at(1));
    assert_eq!(
        text,
        "illegal work_item transition received->executing (legal=received,queued,failed,cancelled)"
    );
}

#[test]
fn delays_follow_from_the_key_alone() {
    let wait = |key: &str, number: u64| {
        let item = NewItem::new(key, "kind", "").unwrap().queued(ItemId(number), at(0));
        let held = applied(&item, &Operation::Claim { holder: worker(1), lease: LEASE }, at(0));
        let failure = Failure::transient("broken", "");
        let waits = applied(&held, &Operation::Fail { token: held.token().unwrap(), failure }, at(0));
        waits.ready_at.unwrap().duration_since(at(0)).as_millis()
    };
    assert_eq!(wait("a", 1), wait("a", 2));
    let many: BTreeSet<i128> = (0..50).map(|i| wait(&format!("key {i}"), 1)).collect();
    assert!(many.len() > 25 && many.iter().all(|ms| (800..=1_000).contains(ms)), "{many:?}");
}

#[test]
fn the_hook_is_asked_before_a_retry_with_side_effects_and_at_no_other_time() {
    use crate::port::work_queue::{RiskGate, WorkQueue, admit};
    use crate::testing::memory::{MemoryWorkQueue, block_on};
    use std::sync::Mutex;

    struct Gate(Mutex<Vec<u32>>);
    #[async_trait::async_trait]
    impl RiskGate for Gate {
        async fn allows(&self, item: &WorkItem) -> crate::port::PortResult<Result<(), String>> {
            self.0.lock().unwrap().push(item.failures);
            Ok(if item.failures < 2 { Ok(()) } else { Err("the order may stand".into()) })
        }
    }
    let queue = MemoryWorkQueue::new(at(0));
    let gate = Gate(Mutex::new(Vec::new()));
    let new = |key: &str| NewItem::new(key, "kind", "").unwrap();
    block_on(queue.enqueue(&[new("plain"), new("order").side_effects(true)])).unwrap();
    let mut admitted = Vec::new();
    for _ in 0..4 {
        for item in block_on(queue.claim(worker(1), 2, LEASE)).unwrap() {
            if block_on(admit(&queue, &gate, &item)).unwrap() {
                admitted.push(item.key.clone());
                let failure = Failure::transient("broken", "");
                block_on(queue.fail(&item.token().unwrap(), &failure)).unwrap();
            }
        }
        queue.advance(Duration::from_secs(600));
    }
    assert_eq!(*gate.0.lock().unwrap(), [1, 2], "not before the first attempt");
    assert_eq!(admitted.iter().filter(|key| *key == "plain").count(), 4);
    assert_eq!(admitted.iter().filter(|key| *key == "order").count(), 2);
    let order = block_on(queue.item_by_key("order")).unwrap().unwrap();
    assert_eq!((order.state, order.reason.unwrap().code.as_str()), (S::Failed, "risk_denied"));
}

/// One step of a random life.
fn any_step() -> impl Strategy<Value = (u8, u8, u16)> {
    (0..9_u8, 0..3_u8, 0..400_u16)
}

fn step(item: &WorkItem, (what, who, _): (u8, u8, u16)) -> Operation {
    let epoch = item.epoch.saturating_sub(u64::from(who == 2));
    let holder = item.holder.filter(|_| who != 1).unwrap_or(worker(u128::from(who)));
    let token = Token { item: item.item, epoch, holder };
    match what {
        0 => Operation::Claim { holder: worker(u128::from(who)), lease: LEASE },
        1 => Operation::TakeOver { holder: worker(u128::from(who)), lease: LEASE },
        2 => Operation::Heartbeat { token, lease: LEASE },
        3 => Operation::Complete { token },
        4 => Operation::Fail { token, failure: Failure::transient("broken", "") },
        5 => Operation::AwaitUser { token, gate: "SG1".into() },
        6 => Operation::HandBack { token },
        7 => Operation::Ready { gate: "SG1".into() },
        _ => Operation::Fail { token, failure: Failure::permanent("no", "") },
    }
}

proptest! {
    #[test]
    fn a_life_holds_its_invariants(
        steps in prop::collection::vec(any_step(), 0..80), attempts in 1..5_u32, failures in 1..5_u32,
    ) {
        let policy = RetryPolicy { max_attempts: attempts, max_failures: failures, ..RetryPolicy::work_item() };
        let new = NewItem::new("key", "kind", "").unwrap().policy(policy).unwrap();
        let mut item = new.queued(ItemId(1), at(0));
        let (mut now, mut seconds) = (at(0), 0);
        for one in steps {
            seconds += i64::from(one.2);
            now = at(seconds).max(now);
            let operation = step(&item, one);
            let Judgement::Apply(change) = judge(&item, &operation, now) else { continue };
            let after = change.after;
            prop_assert!(!item.is_terminal());
            prop_assert!(after.state != S::Queued);
            prop_assert_eq!(after.lease_until.is_some(), after.state == S::Executing);
            prop_assert_eq!(after.finished_at.is_some(), after.is_terminal());
            prop_assert_eq!(after.gate.is_some(), after.state == S::AwaitingUserConfirmation);
            prop_assert!(after.epoch >= item.epoch && after.failures <= failures && after.attempts <= attempts);
            let ends_attempt = item.state == S::Executing
                && (after.state != S::Executing || after.epoch != item.epoch)
                && !matches!(after.state, S::Completed | S::Cancelled);
            prop_assert_eq!(change.attempt.is_some(), ends_attempt);
            // The same write again changes nothing.
            if !matches!(operation, Operation::Claim { .. } | Operation::TakeOver { .. } | Operation::Heartbeat { .. }) {
                prop_assert_eq!(judge(&after, &operation, now), Judgement::Already);
            }
            item = after;
        }
    }
}

#[test]
fn an_item_is_taken_at_its_bounds_and_not_beyond() {
    let word = |n: usize| "k".repeat(n);
    let new =
        |key: usize, kind: usize, payload: usize| NewItem::new(word(key), word(kind), "p".repeat(payload));
    assert!(new(KEY_MAX_BYTES, KIND_MAX_BYTES, PAYLOAD_MAX_BYTES).is_ok());
    for (part, item) in [
        ("key", new(KEY_MAX_BYTES + 1, 1, 1)),
        ("key", new(0, 1, 1)),
        ("kind", new(1, KIND_MAX_BYTES + 1, 1)),
        ("kind", new(1, 0, 1)),
        ("payload", new(1, 1, PAYLOAD_MAX_BYTES + 1)),
    ] {
        assert_eq!(item.unwrap_err().part, part);
    }
    let most = i32::MAX.unsigned_abs();
    let policy = |change: &dyn Fn(&mut RetryPolicy)| {
        let mut policy = RetryPolicy::work_item();
        change(&mut policy);
        new(1, 1, 1).unwrap().policy(policy).is_ok()
    };
    assert!(policy(&|p| (p.max_attempts, p.max_failures) = (most, 1)));
    assert!(policy(&|p| (p.base_ms, p.cap_ms, p.jitter) = (most.into(), most.into(), 100)));
    assert!(!policy(&|p| p.max_attempts = most + 1));
    assert!(!policy(&|p| p.max_attempts = 0));
    assert!(!policy(&|p| p.max_failures = 0));
    assert!(!policy(&|p| p.base_ms = u64::from(most) + 1));
    assert!(!policy(&|p| p.cap_ms = u64::from(most) + 1));
    assert!(!policy(&|p| p.jitter = 101));
}

#[test]
fn a_state_that_the_numbers_do_not_name_has_no_items() {
    let statistics = crate::port::work_queue::QueueStatistics {
        now: at(0),
        by_state: alloc::vec![(S::Queued, 3), (S::Failed, 0)],
        ready: 0,
        oldest_ready: None,
        oldest_lease: None,
        expired_leases: 0,
        watched_by: None,
        oldest_snapshot: None,
    };
    assert_eq!([S::Queued, S::Failed, S::Completed].map(|state| statistics.count(state)), [3, 0, 0]);
}
