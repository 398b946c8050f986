//! Several workers at once: whose turn it is to watch, and two that work on one item.

use cutter_core::port::Port;
use std::collections::BTreeMap;
use std::sync::atomic::AtomicUsize;

use cutter_core::record::queue::NewItem;
use cutter_core::testing::crash::{FaultyPorts, Plan, Strike};
use cutter_core::testing::memory::{Fault, FaultKind};

use super::deaf::Deaf;
use super::*;

#[test]
fn one_of_several_watches_looks_and_another_does_when_that_one_died() {
    let mut shop = Shop::new(12);
    let mut other = Watch::new(Uuid::from_u128(78), LEASE);
    let id = shop.add(&shop.job(SMALL), None);
    let worked = shop.turn();
    assert!(shop.look().is_empty());
    shop.sign(&worked, ReviewVerdict::Approve);
    let (ports, requests) = shop.ports();
    let look = |watch: &mut Watch| block_on(watch.pass(&ports, requests.as_ref(), &shop.queue)).unwrap();
    assert!(look(&mut other).is_empty(), "it is not its turn");
    shop.queue.advance(LEASE);
    assert_eq!(look(&mut other), [id], "the first is dead");
    assert!(!block_on(shop.watch.take_turn(&shop.queue)).unwrap());
    block_on(other.leave(&shop.queue)).unwrap();
    assert!(block_on(shop.watch.take_turn(&shop.queue)).unwrap(), "left, and free at once");
}

#[test]
fn a_watch_that_cannot_see_says_so_and_one_that_can_makes_ready() {
    let mut shop = Shop::new(13);
    let id = shop.add(&shop.job(SMALL), None);
    let worked = shop.turn();
    shop.sign(&worked, ReviewVerdict::Approve);
    for (port, op) in [(Port::KnowledgeBase, "list"), (Port::KnowledgeBase, "read"), (Port::RunStore, "load")]
    {
        let kind = FaultKind::Fail { kind: PortErrorKind::Unavailable, times: 1 };
        let memory = shop.world().process_with(FaultPlan::one(Fault::on(port, op, kind))).ports();
        let (requests, ports) = (memory.requests.clone(), Ports::from(memory));
        let mut blind = Watch::new(HOLDER, LEASE);
        let error = block_on(blind.pass(&ports, requests.as_ref(), &shop.queue)).unwrap_err();
        assert_eq!((error.port, error.kind), (port, PortErrorKind::Unavailable), "{op}");
    }
    assert_eq!(shop.look(), [id]);
}

/// An item parked at a gate that no run stands behind.
fn park_another(shop: &Shop, key: &str) {
    let item = NewItem::new(key, "other", "{}").unwrap();
    block_on(shop.queue.enqueue(&[item])).unwrap();
    let token = shop.claim().unwrap().token().unwrap();
    block_on(shop.queue.await_user(&token, "SG_cut_authz")).unwrap();
}

#[test]
fn a_look_that_ended_early_is_gone_on_with() {
    let mut shop = Shop::new(15);
    (0..70).for_each(|n| park_another(&shop, &format!("other {n}")));
    let id = shop.add(&shop.job(SMALL), None);
    let worked = shop.turn();
    shop.sign(&worked, ReviewVerdict::Approve);
    let kind = FaultKind::Fail { kind: PortErrorKind::Unavailable, times: 1 };
    let plan = FaultPlan::one(Fault::on(Port::RunStore, "load", kind));
    let memory = shop.world().process_with(plan).ports();
    let (requests, ports) = (memory.requests.clone(), Ports::from(memory));
    let error = block_on(shop.watch.pass(&ports, requests.as_ref(), &shop.queue)).unwrap_err();
    assert_eq!(error.kind, PortErrorKind::Unavailable);
    // The next look begins at that page, and the one after it at the first.
    assert_eq!(shop.look(), [id]);
    let worked = shop.turn();
    shop.sign(&worked, ReviewVerdict::Approve);
    assert_eq!(shop.look(), [id]);
}

#[test]
fn a_word_that_the_queue_did_not_take_is_seen_again() {
    let mut shop = Shop::new(18);
    let id = shop.add(&shop.job(SMALL), None);
    let worked = shop.turn();
    assert!(shop.look().is_empty());
    shop.sign(&worked, ReviewVerdict::Approve);
    let queue = Deaf { inner: shop.queue.clone(), is_deaf: true.into() };
    let (ports, requests) = shop.ports();
    let error = block_on(shop.watch.pass(&ports, requests.as_ref(), &queue)).unwrap_err();
    assert_eq!((error.port, error.op.as_str()), (Port::WorkQueue, "ready"));
    assert_eq!(block_on(shop.watch.pass(&ports, requests.as_ref(), &queue)).unwrap(), [id]);
}

#[test]
fn one_run_that_does_not_read_hides_no_other() {
    let shop = Shop::new(16);
    let id = shop.add(&shop.job(SMALL), None);
    let worked = shop.turn();
    shop.sign(&worked, ReviewVerdict::Approve);
    for kind in [PortErrorKind::Corrupt, PortErrorKind::Invalid, PortErrorKind::Denied] {
        park_another(&shop, &format!("{kind}"));
        // The page cannot be read at once; the run alone can.
        let plan = FaultPlan::one(Fault::on(Port::RunStore, "load", FaultKind::Fail { kind, times: 1 }));
        let memory = shop.world().process_with(plan).ports();
        let (requests, ports) = (memory.requests.clone(), Ports::from(memory));
        let mut watch = Watch::new(HOLDER, LEASE);
        assert_eq!(block_on(watch.pass(&ports, requests.as_ref(), &shop.queue)).unwrap(), [id], "{kind}");
        let again = shop.claim().unwrap().token().unwrap();
        block_on(shop.queue.await_user(&again, "SG_cut_authz")).unwrap();
    }
}

#[test]
fn a_base_that_is_not_mounted_is_not_taken_for_silence() {
    let mut shop = Shop::new(17);
    let _ = shop.add(&shop.job(SMALL), None);
    let worked = shop.turn();
    shop.sign(&worked, ReviewVerdict::Approve);
    let (mut ports, requests) = shop.ports();
    ports.kb = World::new(1).process().ports().kb;
    let error = block_on(shop.watch.pass(&ports, requests.as_ref(), &shop.queue)).unwrap_err();
    assert_eq!((error.port, error.kind), (Port::KnowledgeBase, PortErrorKind::Unavailable), "{error}");
    assert_eq!(shop.look().len(), 1);
}

/// A worker that lost its lease and does not know yet, and the one that took the item over, at the same
/// run: whichever of its first calls the slow one stands still before, no word is waited for that nobody
/// would give, and the item comes to its gate.
#[test]
fn two_workers_at_one_item_never_wait_for_each_other() {
    let mut ends = BTreeMap::<String, u32>::new();
    for call in 1..=24 {
        for steps in [0, 2, usize::MAX] {
            let mut shop = Shop::new(100 + call);
            let id = shop.add(&shop.job(SMALL), None);
            let item = shop.claim().unwrap();
            let (ports, requests) = shop.ports();
            let (ports, life) = FaultyPorts::wrap(ports, Plan::at(call, Strike::FreezeBefore));
            let slow = std::thread::scope(|scope| {
                let slow = scope.spawn(|| {
                    let settings = &shop.scenario.settings;
                    let worked = block_on(work_on(&ports, requests.as_ref(), &caller(), settings, &item));
                    life.end();
                    worked
                });
                assert!(life.wait_frozen(), "call {call} never came");
                let leave = After(AtomicUsize::new(steps));
                let _ = shop.work_under(&item, Some(Arc::new(leave)));
                life.thaw();
                slow.join().unwrap()
            });
            let end = match &slow.disposition {
                Disposition::Await(gate) => {
                    assert_eq!(gate, "SG_cut_authz", "call {call}, {steps} steps");
                    gate.clone()
                }
                Disposition::Fail(failure) => {
                    assert_eq!(failure.kind, FailureKind::Transient, "call {call}, {steps}: {failure:?}");
                    failure.code.clone()
                }
                other => panic!("call {call}, {steps} steps: {other:?}"),
            };
            *ends.entry(end).or_default() += 1;
            let answer = block_on(settle(&shop.queue, &item.token().unwrap(), &slow.disposition)).unwrap();
            assert!(matches!(answer, Answer::Applied(_)), "{answer:?}");
            shop.queue.advance(Duration::from_secs(60));
            while let Some(again) = shop.claim() {
                let worked = shop.work(&again);
                block_on(settle(&shop.queue, &again.token().unwrap(), &worked.disposition)).unwrap();
            }
            assert_eq!(shop.item(id).gate.as_deref(), Some("SG_cut_authz"), "call {call}, {steps} steps");
            assert!(shop.look().is_empty());
        }
    }
    assert!(ends.len() >= 2, "both go on and step back: {ends:?}");
}

/// An older worker left an item waiting for the document that its own run has.
#[test]
fn an_item_does_not_wait_for_its_own_run() {
    let mut shop = Shop::new(14);
    let id = shop.add(&shop.job(SMALL), None);
    let item = shop.claim().unwrap();
    let leave = After(AtomicUsize::new(2));
    assert_eq!(shop.work_under(&item, Some(Arc::new(leave))).disposition, Disposition::HandBack);
    let gate = format!("{DOCUMENT_GATE}{DOCUMENT}");
    block_on(shop.queue.await_user(&item.token().unwrap(), &gate)).unwrap();
    assert_eq!(shop.look(), [id]);
    assert_eq!(shop.turn().disposition, Disposition::Await("SG_cut_authz".into()));
}
