//! The memory ports keep every contract that the suites state.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::sync::Arc;

use cutter_core::port::work_queue::WorkQueue;
use cutter_core::testing::conformance::backlog::BacklogUnderTest;
use cutter_core::testing::conformance::command_ledger::LedgerUnderTest;
use cutter_core::testing::conformance::cut_request::RequestsUnderTest;
use cutter_core::testing::conformance::database::DatabaseUnderTest;
use cutter_core::testing::conformance::policy::PolicyUnderTest;
use cutter_core::testing::conformance::signatures::SignaturesUnderTest;
use cutter_core::testing::conformance::work_queue::QueueUnderTest;
use cutter_core::testing::conformance::{
    ConformanceFailure, Fresh, backlog, backup, command_ledger, cut_request, database, environment,
    knowledge_base, policy, run_store, signatures, work_queue,
};
use cutter_core::testing::memory::{BadSignature, Fault, FaultKind, MemoryWorkQueue, World, block_on};

fn ports() -> cutter_core::testing::memory::MemoryPorts {
    World::new(11).process().ports()
}

#[track_caller]
fn all_held(result: Result<Vec<&'static str>, ConformanceFailure>, at_least: usize) {
    let held = result.unwrap_or_else(|failure| panic!("{failure}"));
    assert!(held.len() >= at_least, "only {held:?}");
}

#[test]
fn run_store_contracts() {
    all_held(block_on(run_store::run_all(|| async { Ok(Fresh::new(ports().runs)) })), 19);
}

#[test]
fn knowledge_base_contracts() {
    all_held(block_on(knowledge_base::run_all(|| async { Ok(Fresh::new(ports().kb)) })), 12);
    let world = World::new(1);
    let kb = world.process().ports().kb;
    let tear = |path: &str, bytes| assert!(world.tear_document(path, bytes));
    block_on(knowledge_base::a_torn_tail_is_cut_first(&*kb, tear)).unwrap();
}

#[test]
fn backup_target_contracts() {
    all_held(block_on(backup::run_all(|| async { Ok(Fresh::new(ports().backup_target)) })), 6);
}

#[test]
fn policy_contracts() {
    let build = || async {
        let ports = ports();
        Ok(PolicyUnderTest { store: ports.policy, reader: ports.reader, keep: None })
    };
    all_held(block_on(policy::run_all(build)), 4);
}

#[test]
fn environment_contracts() {
    let build = || {
        let ports = ports();
        (ports.clock, ports.ids)
    };
    all_held(block_on(environment::run_all(build)), 4);
}

#[test]
fn signer_contracts() {
    all_held(block_on(signatures::run_all_signer(|| async { Ok(Fresh::new(ports().signer)) })), 3);
}

#[test]
fn signatures_contracts() {
    let build = || async {
        let world = World::new(11);
        let fingerprint = world.person("sovereign");
        let text = "approve\n";
        let bad = BadSignature::ALL.into_iter().map(|defect| {
            let key = world.person(defect.code());
            (defect.code(), world.sign_badly(&key, text, defect))
        });
        let bad = bad.collect();
        let signer = (world.clone(), fingerprint.clone());
        Ok(SignaturesUnderTest {
            signatures: world.process().ports().signatures,
            sign: Box::new(move |text| signer.0.sign(&signer.1, text)),
            fingerprint,
            bad,
            now: world.now(),
        })
    };
    all_held(block_on(signatures::run_all(build)), 5);
}

#[test]
fn database_contracts() {
    let build = || async {
        let process = World::new(11).process();
        let ports = process.ports();
        let lose = process.clone();
        Ok(DatabaseUnderTest {
            reader: ports.reader,
            executor: ports.executor,
            reviewer: ports.reviewer,
            verifier: ports.verifier,
            backup_source: ports.backup_source,
            lose_answer: Some(Box::new(move |done| {
                let kind = if done { FaultKind::UnknownDone } else { FaultKind::UnknownNotDone };
                lose.inject(Fault::at(lose.trace().len() as u64 + 1, kind));
            })),
            keep: Some(Box::new(Arc::new(process))),
        })
    };
    all_held(block_on(database::run_all(build)), 38);
}

#[test]
fn work_queue_contracts() {
    let build = || async {
        let queue = MemoryWorkQueue::new("2026-01-02T03:04:05Z".parse().unwrap());
        let clock = queue.clone();
        Ok(QueueUnderTest {
            workers: (0..4).map(|_| Arc::new(queue.another()) as Arc<dyn WorkQueue>).collect(),
            advance: Box::new(move |time| clock.advance(time)),
            keep: None,
        })
    };
    all_held(block_on(work_queue::run_all(build)), 29);
}

#[test]
fn cut_request_contracts() {
    let build = || async {
        let world = World::new(11);
        let ports = world.process().ports();
        let database = DatabaseUnderTest {
            reader: ports.reader,
            executor: ports.executor,
            reviewer: ports.reviewer,
            verifier: ports.verifier,
            backup_source: ports.backup_source,
            lose_answer: None,
            keep: None,
        };
        let a_year_passes = Box::new(move || world.advance(366 * 86_400_000));
        Ok(RequestsUnderTest { requests: ports.requests, database, a_year_passes })
    };
    all_held(block_on(cut_request::run_all(build)), 22);
}

#[test]
fn backlog_contracts() {
    let build = || async {
        let ports = World::new(11).process().ports();
        let database = DatabaseUnderTest {
            reader: ports.reader,
            executor: ports.executor,
            reviewer: ports.reviewer,
            verifier: ports.verifier,
            backup_source: ports.backup_source,
            lose_answer: None,
            keep: None,
        };
        Ok(BacklogUnderTest { backlog: ports.backlog, database })
    };
    all_held(block_on(backlog::run_all(build)), 13);
}

#[test]
fn command_ledger_contracts() {
    let build = || async {
        let world = World::new(11);
        let ledger = world.process().ledger();
        Ok(LedgerUnderTest { ledger, pass: Box::new(move |millis| world.advance(millis)), keep: None })
    };
    all_held(block_on(command_ledger::run_all(build)), 18);
}
