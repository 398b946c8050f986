//! Whoever keeps the backlog, outside of every run: sweeps, takes back, gives up, requeues; and
//! the audit of all entries.

use std::cell::Cell;

use cutter_core::driver::Ports;
use cutter_core::machine::backlog::BacklogState;
use cutter_core::machine::cut_request::CutRequestStatus;
use cutter_core::port::backlog::{AbandonRequest, BacklogQuery, RequeueRequest, ReviewRequest, SweepBatch};
use cutter_core::port::cut_request::Asked;
use cutter_core::record::backlog::audit;
use cutter_core::record::effect::ReviewVerdict;
use cutter_core::testing::memory::block_on;
use cutter_tests::Scenario;
use cutter_tests::pg::PgWorld;

use super::{Act, Land, Memory, Server, Stage, tell};

/// What is decided on an entry.
#[derive(Debug, Clone, Copy)]
pub(super) enum Keep {
    Defer,
    Reject,
    Abandon,
    Requeue,
}

impl<L: Land> Stage<'_, L> {
    pub(super) fn sweep(&self, ports: &Ports, n: u8) {
        let Asked { actor, at } = self.asked(ports);
        let batch = SweepBatch {
            sweep_id: ports.ids.uuid_v7(at, &self.label("sweep")),
            document_id: self.document_id(n),
            after: None,
            limit: 2,
            actor,
            at,
        };
        let backlog = self.land.backlog();
        if let Ok(promoted) = block_on(backlog.sweep(&batch)) {
            assert_eq!(block_on(backlog.sweep(&batch)).unwrap(), promoted, "a known pass");
        }
    }

    /// Each entry of the document, and what is decided on it; the same twice changes nothing.
    pub(super) fn keep(&self, ports: &Ports, n: u8, keep: Keep) {
        let backlog = self.land.backlog();
        let query =
            BacklogQuery { document_id: Some(self.document_id(n)), limit: 1_000, ..BacklogQuery::default() };
        for row in block_on(backlog.list(&query)).unwrap() {
            let Asked { actor, at } = self.asked(ports);
            let id = |what: &str| ports.ids.uuid_v7(at, &self.label(what));
            let (history_id, reason, entry_id) = (id("history"), format!("{keep:?}"), row.entry_id);
            match keep {
                Keep::Defer | Keep::Reject => {
                    let verdict = match keep {
                        Keep::Defer => ReviewVerdict::Defer,
                        _ => ReviewVerdict::Reject,
                    };
                    let (decision_id, manifest_digest) = (id("decision"), row.manifest_digest);
                    let request = ReviewRequest {
                        entry_id,
                        decision_id,
                        history_id,
                        verdict,
                        manifest_digest,
                        reason,
                        actor,
                        at,
                    };
                    if let Ok(stands) = block_on(backlog.review(&request)) {
                        assert_eq!(block_on(backlog.review(&request)).unwrap(), stands);
                    }
                }
                Keep::Abandon => {
                    let request = AbandonRequest { entry_id, history_id, reason, actor, at };
                    let moved = block_on(backlog.abandon(&request)).unwrap();
                    assert_eq!(moved, row.status != BacklogState::Abandoned);
                    assert!(!block_on(backlog.abandon(&request)).unwrap());
                }
                Keep::Requeue => {
                    let sweep_id = id("requeue");
                    let request = RequeueRequest { entry_id, sweep_id, history_id, reason, actor, at };
                    let moved = block_on(backlog.requeue(&request));
                    assert!(moved.is_err() || row.escalates.is_some(), "{row:?}");
                }
            }
        }
    }

    /// The state of every entry follows from its records.
    pub(super) fn assert_audit(&self, after: &str) {
        let backlog = self.land.backlog();
        let mut query = BacklogQuery { limit: 3, ..BacklogQuery::default() };
        loop {
            let page = block_on(backlog.entries(&query)).unwrap();
            for entry in &page {
                let report = audit(entry);
                let broken: Vec<_> = report.checks.iter().filter(|check| !check.ok).collect();
                assert!(report.ok(), "entry {} after {after}: {broken:?}\n{entry:?}", entry.entry_id);
            }
            query.after = page.last().map(|entry| entry.entry_id);
            if query.after.is_none() {
                return;
            }
        }
    }
}

/// A pass that finds nothing to promote changes nothing that was approved: the run goes on.
fn a_sweep_while_the_run_waits<L: Land>(land: &L) {
    let acts = [
        Act::Add(2),
        Act::Copy(2),
        Act::Mark(2, false),
        Act::Review(2, true),
        Act::Serve(2, None),
        Act::Sweep(2),
    ];
    tell(land, 106_894, &acts);
    let (_, requests) = land.process(None);
    let stage = Stage { land, story: 106_894, minted: Cell::default() };
    assert_eq!(stage.request(requests.as_ref(), 2).unwrap().status, CutRequestStatus::Cleaned);
}

#[test]
fn in_memory_a_sweep_stops_no_waiting_run() {
    a_sweep_while_the_run_waits(&Memory(Scenario::new(1)));
}

#[test]
fn on_a_server_a_sweep_stops_no_waiting_run() {
    a_sweep_while_the_run_waits(&Server(PgWorld::new(cutter_pg::testing::TestServer::shared())));
}
