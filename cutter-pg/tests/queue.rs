//! The work queue in PostgreSQL: the core's contract, and the model's answers to the same questions.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod queue_support;

use std::sync::Arc;

use cutter_core::port::work_queue::WorkQueue;
use cutter_core::testing::conformance::work_queue::{self, QueueUnderTest};
use futures_executor::block_on;
use queue_support::Stand;

#[test]
fn postgresql_keeps_every_contract_of_the_queue() {
    let build = || async {
        let stand = Arc::new(Stand::new());
        let clock = stand.clone();
        Ok(QueueUnderTest {
            workers: (0..4).map(|_| Arc::new(stand.queue()) as Arc<dyn WorkQueue>).collect(),
            advance: Box::new(move |time| clock.advance(time)),
            keep: Some(Box::new(stand)),
        })
    };
    let held = block_on(work_queue::run_all(build)).unwrap_or_else(|failure| panic!("{failure}"));
    assert_eq!(held.len(), 30, "{held:?}");
}
