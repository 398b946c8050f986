//! What the queue promises whoever runs it on PostgreSQL: one item per key, the retry matrix held by
//! the database, the server's time alone, no need to hear a notice, days that go whole.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod queue_support;

use std::collections::BTreeSet;
use std::sync::Barrier;
use std::time::Duration;

use cutter_core::machine::retry::{RetryDecision, RetryPolicy, decide};
use cutter_core::machine::work_item::WorkItemState as S;
use cutter_core::port::PortErrorKind;
use cutter_core::port::work_queue::{Answer, Wake, WorkQueue};
use cutter_core::record::queue::{Failure, NewItem, WorkItem};
use cutter_pg::login::Login;
use futures_executor::block_on;
use jiff::Timestamp;
use queue_support::{LEASE, Stand, start, worker};

fn new(key: &str) -> NewItem {
    NewItem::new(key, "test", "{}").unwrap()
}

fn budget(max_attempts: u32, max_failures: u32) -> RetryPolicy {
    RetryPolicy { max_attempts, max_failures, base_ms: 4_000, cap_ms: 60_000, jitter: 50 }
}

fn claim(queue: &dyn WorkQueue) -> WorkItem {
    block_on(queue.claim(worker(1), 1, LEASE)).unwrap().remove(0)
}

#[test]
fn fifty_threads_with_a_connection_each_enqueue_one_key_and_one_item_is_there() {
    let stand = Stand::new();
    let barrier = Barrier::new(50);
    let enqueued: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..50)
            .map(|_| {
                scope.spawn(|| {
                    let queue = stand.queue();
                    // The connection stands before the race begins.
                    assert!(block_on(queue.item_by_key("a")).unwrap().is_none());
                    barrier.wait();
                    block_on(queue.enqueue(&[new("a")])).unwrap()[0]
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(enqueued.iter().map(|e| e.item).collect::<BTreeSet<_>>().len(), 1);
    assert_eq!(enqueued.iter().filter(|e| e.is_new).count(), 1);
    let count = "SELECT (SELECT count(*) FROM cutter_queue.work_key) * 1000
        + (SELECT count(*) FROM cutter_queue.work_item) * 100 + (SELECT count(*) FROM cutter_queue.work_ready)";
    assert_eq!(stand.admin().query_one(count, &[]).unwrap().get::<_, i64>(0), 1_101);
}

#[test]
fn another_payload_under_a_key_is_a_conflict_that_names_both_digests_and_writes_nothing() {
    let stand = Stand::new();
    let queue = stand.queue();
    let first = new("a");
    block_on(queue.enqueue(std::slice::from_ref(&first))).unwrap();
    let other = NewItem::new("a", "test", "other").unwrap();
    let error = block_on(queue.enqueue(&[new("b"), other.clone()])).unwrap_err();
    assert_eq!(error.kind, PortErrorKind::Conflict);
    let text = format!(
        "enqueue.same_payload: expected {} for key a, observed {}",
        first.digest().to_hex(),
        other.digest().to_hex()
    );
    assert!(error.message.contains(&text), "{error}");
    assert!(block_on(queue.item_by_key("b")).unwrap().is_none(), "all or nothing");
}

/// One row of spec 4's retry decision matrix: the budget, what was used before, and what follows.
struct Row {
    budget: (u32, u32),
    /// Attempts, failures; the running attempt is counted, its failure is not.
    used: (i32, i32),
    code: Option<&'static str>,
}

#[test]
fn the_retry_matrix_holds_row_by_row_and_the_database_refuses_another_decision() {
    let stand = Stand::new();
    let queue = stand.queue();
    let mut admin = stand.admin();
    let mut exec = stand.database.client(Login::Exec);
    let rows = [
        Row { budget: (3, 3), used: (1, 0), code: None },
        Row { budget: (3, 3), used: (2, 1), code: None },
        Row { budget: (3, 9), used: (3, 0), code: Some("max_attempts_exhausted") },
        Row { budget: (9, 3), used: (3, 2), code: Some("max_failures_exhausted") },
        Row { budget: (3, 3), used: (3, 2), code: Some("max_attempts_exhausted") },
        Row { budget: (1, 1), used: (1, 0), code: Some("max_attempts_exhausted") },
    ];
    for (n, row) in rows.iter().enumerate() {
        let policy = budget(row.budget.0, row.budget.1);
        let item = block_on(queue.enqueue(&[new(&format!("k{n}")).policy(policy).unwrap()])).unwrap()[0].item;
        let held = claim(&queue);
        assert_eq!(held.item, item);
        let (id, epoch) = (i64::try_from(item.0).unwrap(), i64::try_from(held.epoch).unwrap());
        admin
            .execute(
                "UPDATE cutter_queue.work_lease SET attempts = $2, failures = $3 WHERE item_id = $1",
                &[&id, &row.used.0, &row.used.1],
            )
            .unwrap();
        // The other decision than the matrix's, straight from a session of the executor's.
        let retry = "SELECT cutter_queue.fn_work_fail($1, $2, $3, 1000, 'broken', '', 'broken', '')";
        if row.code.is_some() {
            let refused = exec.query_one(retry, &[&id, &epoch, &worker(1)]).unwrap_err();
            let text = refused.as_db_error().unwrap().message().to_owned();
            let [attempts, failures] = [row.used.0, row.used.1 + 1];
            assert_eq!(
                text,
                format!("item {id}: no retry in 1000 ms after {attempts} attempts and {failures} failures")
            );
        }
        let attempts = u32::try_from(row.used.0).unwrap();
        let failures = u32::try_from(row.used.1).unwrap() + 1;
        let decision = decide(&policy, attempts, failures, false, held.seed());
        let token = held.token().unwrap();
        let answer = block_on(queue.fail(&token, &Failure::transient("broken", ""))).unwrap();
        assert_eq!(answer, Answer::Applied(decision.next_state()), "row {n}");
        let stands = block_on(queue.item(item)).unwrap().unwrap();
        match decision {
            RetryDecision::Retry { delay_ms, next_state, .. } => {
                assert_eq!((row.code, next_state), (None, S::AwaitingTool));
                let due = start() + jiff::SignedDuration::from_millis(i64::try_from(delay_ms).unwrap());
                assert_eq!((stands.state, stands.ready_at), (S::AwaitingTool, Some(due)));
                assert_eq!(
                    block_on(queue.cancel(item, "next row", "me")).unwrap(),
                    Answer::Applied(S::Cancelled)
                );
            }
            RetryDecision::Exhausted { reason_code } => {
                assert_eq!(row.code, Some(reason_code.as_str()));
                let reason = stands.reason.clone().unwrap();
                assert_eq!((stands.state, reason.code.as_str()), (S::Failed, reason_code.as_str()));
            }
        }
        // The last row of the matrix: what has ended takes no attempt, however it is asked.
        let ended = block_on(queue.item(item)).unwrap().unwrap();
        let moved: bool = exec.query_one(retry, &[&id, &epoch, &worker(1)]).unwrap().get(0);
        assert!(!moved && block_on(queue.claim(worker(1), 9, LEASE)).unwrap().is_empty());
        assert_eq!(block_on(queue.item(item)).unwrap().unwrap(), ended, "immutable");
    }
}

#[test]
fn the_clock_of_a_worker_decides_nothing() {
    let stand = Stand::new();
    // The server's clock stands in January; the workers' own is wherever this machine's is.
    let own = Timestamp::now();
    assert!(own.duration_since(stand.now()).abs() > jiff::SignedDuration::from_hours(24));
    let (slow, fast) = (stand.queue(), stand.queue());
    block_on(slow.enqueue(&[new("a")])).unwrap();
    let held = claim(&slow);
    assert_eq!((held.claimed_at, held.enqueued_at), (Some(start()), start()));
    assert_eq!(held.lease_until, Some(start() + jiff::SignedDuration::from_secs(60)));
    stand.advance(LEASE - Duration::from_secs(1));
    assert!(block_on(fast.take_over(worker(2), 1, LEASE)).unwrap().items.is_empty(), "not by its own clock");
    stand.advance(Duration::from_secs(1));
    let taken = block_on(fast.take_over(worker(2), 1, LEASE)).unwrap().items.remove(0);
    assert_eq!(taken.claimed_at, Some(start() + jiff::SignedDuration::from_secs(60)));
    // And none can: no function that a login may call takes a time or a date, and the port reads none.
    let takes_time = "SELECT count(*), count(*) FILTER (WHERE pg_get_function_identity_arguments(p.oid)
            ~ '(timestamp|date|time )') FROM pg_proc p
        WHERE p.pronamespace = 'cutter_queue'::regnamespace AND p.proname LIKE 'fn\\_work\\_%'
            AND has_function_privilege('cutter_exec', p.oid, 'EXECUTE')";
    let row = stand.admin().query_one(takes_time, &[]).unwrap();
    assert_eq!((row.get::<_, i64>(0), row.get::<_, i64>(1)), (16, 0));
    for source in [include_str!("../src/queue.rs"), include_str!("../src/queue/statements.rs")] {
        assert!(!source.contains("Timestamp::now") && !source.contains("SystemTime::now"));
    }
}

#[test]
fn an_item_whose_notice_nobody_heard_is_found_by_looking() {
    let stand = Stand::new();
    let queue = stand.queue();
    block_on(queue.enqueue(&[new("a").policy(budget(5, 5)).unwrap()])).unwrap();
    // Nobody listened then. The first wait says "look" instead of waiting for the next notice.
    assert_eq!(block_on(queue.wait(LEASE)).unwrap(), Wake::Reconnected);
    let held = claim(&queue);
    let answer = block_on(queue.fail(&held.token().unwrap(), &Failure::transient("broken", ""))).unwrap();
    assert_eq!(answer, Answer::Applied(S::AwaitingTool));
    // A delay ends, and a lease runs out, without a notice: the wait ends by its limit.
    stand.advance(Duration::from_secs(60));
    assert_eq!(block_on(queue.wait(Duration::from_millis(50))).unwrap(), Wake::Elapsed);
    assert_eq!(claim(&queue).item, held.item);
    stand.advance(LEASE);
    assert_eq!(block_on(queue.wait(Duration::from_millis(50))).unwrap(), Wake::Elapsed);
    assert_eq!(block_on(queue.take_over(worker(2), 1, LEASE)).unwrap().items[0].item, held.item);
}

#[test]
fn a_notice_wakes_a_worker_long_before_it_would_look() {
    let stand = Stand::new();
    let (waits, other) = (stand.queue(), stand.queue());
    assert_eq!(block_on(waits.wait(LEASE)).unwrap(), Wake::Reconnected);
    block_on(other.enqueue(&[new("first")])).unwrap();
    assert_eq!(block_on(waits.wait(LEASE)).unwrap(), Wake::Notified);
    let (began, woken) = std::thread::scope(|scope| {
        let waiter = scope.spawn(|| {
            let wake = block_on(waits.wait(LEASE)).unwrap();
            (wake, std::time::Instant::now())
        });
        std::thread::sleep(Duration::from_millis(200));
        let began = std::time::Instant::now();
        block_on(other.enqueue(&[new("second")])).unwrap();
        (began, waiter.join().unwrap())
    });
    assert_eq!(woken.0, Wake::Notified);
    let took = woken.1.duration_since(began);
    assert!(took < Duration::from_secs(5), "the poll would have come after 60 s; woken after {took:?}");
}

#[test]
fn workers_that_finish_the_first_items_of_a_day_at_once_all_succeed() {
    let stand = Stand::new();
    let queues: Vec<_> = (0..6).map(|_| stand.queue()).collect();
    for day in 0..12 {
        let batch: Vec<NewItem> = (0..queues.len()).map(|n| new(&format!("{day}-{n}"))).collect();
        block_on(queues[0].enqueue(&batch)).unwrap();
        let claimed: Vec<WorkItem> = queues.iter().map(|queue| claim(queue)).collect();
        let barrier = Barrier::new(queues.len());
        std::thread::scope(|scope| {
            for (queue, item) in queues.iter().zip(&claimed) {
                let barrier = &barrier;
                scope.spawn(move || {
                    barrier.wait();
                    let answers = block_on(queue.complete(&[item.token().unwrap()])).unwrap();
                    assert_eq!(answers, [Answer::Applied(S::Completed)]);
                });
            }
        });
        stand.advance(Duration::from_secs(86_400));
    }
    assert_eq!(block_on(queues[0].statistics()).unwrap().count(S::Completed), 72);
}

#[test]
fn a_day_goes_whole_and_its_keys_are_free_again() {
    let stand = Stand::new();
    let queue = stand.queue();
    let mut admin = stand.admin();
    let days = "SELECT coalesce(string_agg(relname, ' ' ORDER BY relname), '') FROM pg_class
        WHERE relnamespace = 'cutter_queue_day'::regnamespace AND relkind = 'r'";
    for key in ["a", "b"] {
        block_on(queue.enqueue(&[new(key), new(&format!("{key}-lost"))])).unwrap();
        let token = claim(&queue).token().unwrap();
        block_on(queue.complete(&[token])).unwrap();
        let token = claim(&queue).token().unwrap();
        block_on(queue.fail(&token, &Failure::permanent("broken", ""))).unwrap();
        stand.advance(Duration::from_secs(86_400));
    }
    assert_eq!(admin.query_one(days, &[]).unwrap().get::<_, String>(0), "d20260102 d20260103");
    assert!(block_on(queue.retain(7)).unwrap().days.is_empty(), "nothing is that old");
    let retained = block_on(queue.retain(1)).unwrap();
    assert_eq!((retained.days, retained.items), (vec!["2026-01-02".parse().unwrap()], 2));
    assert_eq!(admin.query_one(days, &[]).unwrap().get::<_, String>(0), "d20260103");
    let left = "SELECT (SELECT string_agg(key, ' ' ORDER BY key) FROM cutter_queue.work_key),
        (SELECT count(*) FROM cutter_queue.work_attempt), (SELECT count(*) FROM cutter_queue.work_done)";
    let row = admin.query_one(left, &[]).unwrap();
    assert_eq!((row.get::<_, &str>(0), row.get::<_, i64>(1), row.get::<_, i64>(2)), ("b b-lost", 1, 2));
    let again = block_on(queue.enqueue(&[new("a"), new("b")])).unwrap();
    assert_eq!((again[0].is_new, again[1].is_new), (true, false));
    let statistics = block_on(queue.statistics()).unwrap();
    let ended = [S::Completed, S::Failed].map(|state| statistics.count(state));
    assert_eq!(ended, [1, 1], "what went is not counted");
}
