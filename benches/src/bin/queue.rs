//! The queue: items enqueued, claimed and completed by several workers, every completion
//! committed, leases on; then whether anything was lost or doubled. `--items N`, `--workers N`,
//! `--batch N`; `--serve` prints a connection string and waits, for `benches/queue_peers/run`, which
//! holds the rates against those of other queues on the same server.
#![allow(clippy::panic, clippy::expect_used, clippy::unwrap_used, reason = "a benchmark")]

use std::collections::HashSet;
use std::sync::Barrier;
use std::time::{Duration, Instant};

use cutter_benches::pg::{argument, has};
use cutter_core::machine::work_item::WorkItemState;
use cutter_core::port::work_queue::{Answer, WorkQueue};
use cutter_core::record::queue::{ItemId, NewItem, Token};
use cutter_pg::PgQueue;
use cutter_pg::login::Login;
use cutter_pg::testing::{TestDatabase, TestServer};
use futures_executor::block_on;
use uuid::Uuid;

const LEASE: Duration = Duration::from_secs(30);

fn main() {
    let items = argument("--items", 100_000);
    let workers = argument("--workers", 4);
    let batch = argument("--batch", 500);
    let server = TestServer::durable();
    let database = server.fresh_database();
    if has("--serve") {
        // The peers make their own schemas in a database beside ours, as its owner.
        let peers = server.empty_database();
        println!("{}", peers.connection_string(Login::Admin));
        println!("ready");
        let mut line = String::new();
        while std::io::stdin().read_line(&mut line).unwrap() > 0 {
            let batch = line.trim().parse().unwrap_or(batch);
            line.clear();
            measure(&server.fresh_database(), items, workers, batch);
            println!("ready");
        }
        return;
    }
    measure(&database, items, workers, batch);
}

/// One measurement in a fresh database.
fn measure(database: &TestDatabase, items: usize, workers: usize, batch: usize) {
    let began = Instant::now();
    let queue = PgQueue::connect(database.dsn(Login::Exec));
    let new: Vec<NewItem> = (0..items)
        .map(|i| NewItem::new(format!("job-{i}"), "bench", format!("{{\"n\":{i}}}")).unwrap())
        .collect();
    let mut enqueued = 0;
    for chunk in new.chunks(1_000) {
        enqueued += block_on(queue.enqueue(chunk)).unwrap().iter().filter(|e| e.is_new).count();
    }
    let filled = began.elapsed();
    // Every worker is connected before the clock starts, as the peers' are.
    let go = Barrier::new(workers + 1);
    let (drained, done) = std::thread::scope(|scope| {
        let go = &go;
        let threads: Vec<_> = (0..workers)
            .map(|n| scope.spawn(move || work(database, Uuid::from_u128(n as u128 + 1), batch, go)))
            .collect();
        go.wait();
        let drain = Instant::now();
        let done: Vec<Vec<ItemId>> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
        (drain.elapsed(), done)
    });
    let all: Vec<ItemId> = done.iter().flatten().copied().collect();
    let distinct: HashSet<ItemId> = all.iter().copied().collect();
    let statistics = block_on(queue.statistics()).unwrap();
    let completed = statistics.count(WorkItemState::Completed);
    assert_eq!((enqueued, all.len(), distinct.len()), (items, items, items), "lost or doubled");
    assert_eq!(completed, items as u64, "recorded as completed");
    let rate = |time: Duration| items as f64 / time.as_secs_f64();
    let whole = filled + drained;
    println!(
        "cutter: {items} items, {workers} workers, batches of {batch}: enqueue {:.0}/s, drain {:.0}/s, whole {:.0}/s, \
         nothing lost, nothing doubled",
        rate(filled),
        rate(drained),
        rate(whole)
    );
}

/// One worker's life: claim, do nothing, complete, until there is nothing.
fn work(database: &TestDatabase, holder: Uuid, batch: usize, go: &Barrier) -> Vec<ItemId> {
    let queue = PgQueue::connect(database.dsn(Login::Exec));
    block_on(queue.item_by_key("")).unwrap();
    go.wait();
    let mut done = Vec::new();
    loop {
        let claimed = block_on(queue.claim(holder, batch as u32, LEASE)).unwrap();
        if claimed.is_empty() {
            return done;
        }
        let tokens: Vec<Token> = claimed.iter().filter_map(|item| item.token()).collect();
        let answers = block_on(queue.complete(&tokens)).unwrap();
        for (token, answer) in tokens.iter().zip(answers) {
            assert_eq!(answer, Answer::Applied(WorkItemState::Completed));
            done.push(token.item);
        }
    }
}
