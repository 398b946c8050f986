//! Runs driven from the queue, all in memory: gates that park an item, words that make it ready,
//! documents that are held, workers that leave, items that are cancelled, and what each rest of a
//! run means for its item.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "work/deaf.rs"]
mod deaf;
#[path = "work/together.rs"]
mod together;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use cutter_core::base::digest::Digest;
use cutter_core::base::id::RunId;
use cutter_core::driver::{DriveError, Interrupt, Outcome, Ports, ServeError};
use cutter_core::gate::staged::PlanSettings;
use cutter_core::machine::work_item::WorkItemState as S;
use cutter_core::operate::fleet::{
    CutJob, DOCUMENT_GATE, Disposition, Job, RunRisk, Watch, Worked, disposition, run_behind, settle,
    stop_cancelled, work_on,
};
use cutter_core::port::cut_request::CutRequests;
use cutter_core::port::work_queue::{Answer, WorkQueue, admit};
use cutter_core::port::{Port, PortError, PortErrorKind};
use cutter_core::record::effect::ReviewVerdict;
use cutter_core::record::queue::{FailureKind, ItemId, WorkItem};
use cutter_core::record::sidecar::Mode;
use cutter_core::testing::memory::{FaultPlan, MemoryWorkQueue, World, block_on};
use cutter_tests::{DOCUMENT, SMALL, Scenario, caller};
use uuid::Uuid;

const LEASE: Duration = Duration::from_secs(30);
const HOLDER: Uuid = Uuid::from_u128(77);

/// A scenario with a queue beside it.
struct Shop {
    scenario: Scenario,
    queue: MemoryWorkQueue,
    watch: Watch,
}

impl Shop {
    fn new(seed: u64) -> Self {
        let scenario = Scenario::with_text(seed, SMALL);
        let queue = MemoryWorkQueue::new(scenario.world.now());
        Self { scenario, queue, watch: Watch::new(HOLDER, LEASE) }
    }

    fn world(&self) -> &World {
        &self.scenario.world
    }

    fn ports(&self) -> (Ports, Arc<dyn CutRequests>) {
        let memory = self.world().process_with(FaultPlan::default()).ports();
        let requests = memory.requests.clone();
        (memory.into(), requests)
    }

    fn job(&self, text: &str) -> Job {
        let plan = PlanSettings {
            document_id: DOCUMENT.into(),
            profile: self.scenario.settings.profile.clone(),
            detection: None,
            publication_type: None,
            depends_on: Vec::new(),
            manifest: None,
        };
        Job::Cut(Box::new(CutJob { mode: Mode::Live, source_sha256: Digest::of(text.as_bytes()), plan }))
    }

    fn add(&self, job: &Job, key: Option<&str>) -> ItemId {
        let item = job.to_item(key).unwrap().actor("olga");
        block_on(self.queue.enqueue(&[item])).unwrap()[0].item
    }

    fn claim(&self) -> Option<WorkItem> {
        block_on(self.queue.claim(HOLDER, 1, LEASE)).unwrap().pop()
    }

    fn work(&self, item: &WorkItem) -> Worked {
        self.work_under(item, None)
    }

    fn work_under(&self, item: &WorkItem, interrupt: Option<Arc<dyn Interrupt>>) -> Worked {
        let (mut ports, requests) = self.ports();
        if let Some(interrupt) = interrupt {
            ports.interrupt = interrupt;
        }
        block_on(work_on(&ports, requests.as_ref(), &caller(), &self.scenario.settings, item))
    }

    /// Takes the next item, works on it, and writes down what became of it.
    fn turn(&self) -> Worked {
        let item = self.claim().expect("something to claim");
        let worked = self.work(&item);
        let answer = block_on(settle(&self.queue, &item.token().unwrap(), &worked.disposition)).unwrap();
        assert!(matches!(answer, Answer::Applied(_)), "{answer:?}");
        worked
    }

    fn look(&mut self) -> Vec<ItemId> {
        let (ports, requests) = self.ports();
        block_on(self.watch.pass(&ports, requests.as_ref(), &self.queue)).unwrap()
    }

    fn item(&self, id: ItemId) -> WorkItem {
        block_on(self.queue.item(id)).unwrap().unwrap()
    }

    fn sign(&self, worked: &Worked, verdict: ReviewVerdict) {
        let Outcome::Paused { ask, .. } = &worked.driven.as_ref().unwrap().outcome else {
            panic!("not paused: {worked:?}")
        };
        self.scenario.sign(ask, verdict);
    }
}

#[test]
fn an_item_parks_at_each_gate_and_goes_on_when_the_signed_word_is_there() {
    let mut shop = Shop::new(1);
    let id = shop.add(&shop.job(SMALL), None);
    for gate in ["SG_cut_authz", "SG_lifecycle_authz"] {
        let worked = shop.turn();
        assert_eq!(worked.disposition, Disposition::Await(gate.into()));
        assert_eq!(
            (shop.item(id).state, shop.item(id).gate.as_deref()),
            (S::AwaitingUserConfirmation, Some(gate))
        );
        assert!(shop.look().is_empty(), "nobody has signed");
        assert!(shop.claim().is_none(), "a parked item costs no worker");
        shop.sign(&worked, ReviewVerdict::Approve);
        assert_eq!(shop.look(), [id]);
        assert!(shop.look().is_empty(), "made ready once");
    }
    let worked = shop.turn();
    assert_eq!(worked.driven.unwrap().outcome, Outcome::Completed);
    let item = shop.item(id);
    assert_eq!((item.state, item.failures, item.attempts), (S::Completed, 0, 1));
}

#[test]
fn a_word_that_does_not_count_wakes_the_run_once_and_not_again() {
    let mut shop = Shop::new(2);
    let id = shop.add(&shop.job(SMALL), None);
    let worked = shop.turn();
    let Outcome::Paused { ask, .. } = &worked.driven.as_ref().unwrap().outcome else { panic!() };
    let path = ask.approval_path.clone();
    shop.world().file(&path, b"approved, believe me\n");
    assert_eq!(shop.look(), [id]);
    let again = shop.turn();
    assert!(
        matches!(&again.driven.as_ref().unwrap().outcome, Outcome::Paused { invalid, .. } if invalid.len() == 1)
    );
    for _ in 0..25 {
        assert!(shop.look().is_empty(), "the same bytes were looked at already");
    }
    // The same name with other bytes is a new word; so is any change of the folder.
    shop.world().file(&format!("{}-2.md", path.trim_end_matches(".md")), b"really\n");
    assert_eq!(shop.look(), [id]);
}

#[test]
fn a_refusal_parks_the_item_at_the_stop_and_a_signed_void_ends_it() {
    let mut shop = Shop::new(3);
    let id = shop.add(&shop.job(SMALL), None);
    let worked = shop.turn();
    shop.sign(&worked, ReviewVerdict::Reject);
    assert_eq!(shop.look(), [id]);
    let stopped = shop.turn();
    assert_eq!(stopped.disposition, Disposition::Await("SG_failure_escalation".into()));
    assert!(matches!(stopped.driven.unwrap().outcome, Outcome::Stopped(_)));
    for _ in 0..12 {
        assert!(shop.look().is_empty(), "nobody has answered the stop");
    }
}

#[test]
fn a_person_who_drives_the_run_by_hand_frees_its_item() {
    let mut shop = Shop::new(4);
    let id = shop.add(&shop.job(SMALL), None);
    let worked = shop.turn();
    assert!(shop.look().is_empty());
    shop.sign(&worked, ReviewVerdict::Approve);
    let run_id = worked.driven.as_ref().unwrap().sidecar.run_id.clone();
    // Before the watch sees the word, somebody types the command.
    let by_hand = shop.scenario.resume(&shop.scenario.ports(), &run_id).unwrap();
    assert!(matches!(by_hand.outcome, Outcome::Paused { .. }), "at the second gate now");
    assert_eq!(shop.look(), [id], "it waits at another gate than the item says");
    assert_eq!(shop.turn().disposition, Disposition::Await("SG_lifecycle_authz".into()));
}

#[test]
fn a_document_that_another_run_holds_is_waited_for() {
    let mut shop = Shop::new(5);
    let first = shop.add(&shop.job(SMALL), None);
    let worked = shop.turn();
    let second = shop.add(&shop.job(SMALL), Some("again"));
    let held = shop.turn();
    assert_eq!(held.disposition, Disposition::Await(format!("{DOCUMENT_GATE}{DOCUMENT}")));
    assert!(shop.look().is_empty(), "the first run still has it");
    shop.sign(&worked, ReviewVerdict::Approve);
    assert_eq!(shop.look(), [first]);
    let worked = shop.turn();
    shop.sign(&worked, ReviewVerdict::Approve);
    assert_eq!(shop.look(), [first]);
    assert_eq!(shop.turn().driven.unwrap().outcome, Outcome::Completed);
    assert_eq!(shop.look(), [second]);
    let replayed = shop.turn();
    assert!(matches!(replayed.driven.unwrap().outcome, Outcome::ReplayedFrom(_)), "nothing is cut twice");
    assert_eq!(shop.item(second).state, S::Completed);
}

#[test]
fn a_newer_version_than_the_one_meant_is_not_cut() {
    let shop = Shop::new(6);
    let id = shop.add(&shop.job(SMALL), None);
    shop.scenario.register("# Charter\n\nWe changed our minds.\n");
    let worked = shop.turn();
    let Disposition::Fail(failure) = &worked.disposition else { panic!("{worked:?}") };
    assert_eq!((failure.kind, failure.code.as_str()), (FailureKind::Permanent, "not_now"));
    assert!(failure.detail.contains("newest version"), "{}", failure.detail);
    assert_eq!(shop.item(id).state, S::Failed);
    let (ports, _) = shop.ports();
    assert!(block_on(ports.runs.list()).unwrap().is_empty(), "no run was made");
}

/// Leaves after so many questions.
struct After(std::sync::atomic::AtomicUsize);

impl Interrupt for After {
    fn is_asked(&self) -> bool {
        self.0.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |n| n.checked_sub(1)).is_err()
    }
}

#[test]
fn a_worker_that_leaves_between_any_two_steps_hands_back_and_another_goes_on() {
    let undisturbed = {
        let shop = Shop::new(7);
        shop.add(&shop.job(SMALL), None);
        shop.turn().driven.unwrap().sidecar.phases.len()
    };
    for steps in 0..7 {
        let shop = Shop::new(7);
        let id = shop.add(&shop.job(SMALL), None);
        let item = shop.claim().unwrap();
        let left = shop.work_under(&item, Some(Arc::new(After(steps.into()))));
        if left.disposition != Disposition::HandBack {
            assert!(steps >= 5, "left to itself only when the gate came first: {steps}");
            continue;
        }
        block_on(settle(&shop.queue, &item.token().unwrap(), &left.disposition)).unwrap();
        let handed = shop.item(id);
        assert_eq!(
            (handed.state, handed.attempts),
            (S::AwaitingTool, 0),
            "shutdown is not cancel, and costs nothing"
        );
        let worked = shop.turn();
        assert_eq!(worked.disposition, Disposition::Await("SG_cut_authz".into()));
        let sidecar = worked.driven.unwrap().sidecar;
        assert_eq!(sidecar.phases.len(), undisturbed);
        let (ports, _) = shop.ports();
        assert_eq!(block_on(ports.runs.list()).unwrap(), [sidecar.run_id], "one run, whoever drove it");
    }
    let flag: Arc<AtomicBool> = Arc::new(AtomicBool::new(true));
    assert!(flag.is_asked());
}

#[test]
fn a_cancelled_item_stops_its_run_in_the_name_of_whoever_cancelled_it() {
    let shop = Shop::new(8);
    let id = shop.add(&shop.job(SMALL), None);
    let worked = shop.turn();
    let answer = block_on(shop.queue.cancel(id, "withdrawn", "vera")).unwrap();
    assert_eq!(answer, Answer::Applied(S::Cancelled));
    let (ports, requests) = shop.ports();
    let stopped =
        block_on(stop_cancelled(&ports, requests.as_ref(), &caller(), &shop.item(id))).unwrap().unwrap();
    assert_eq!(stopped.sidecar.state, "stopped_cancelled");
    assert_eq!(stopped.sidecar.transitions.last().unwrap().actor, "vera");
    assert_eq!(stopped.sidecar.run_id, worked.driven.unwrap().sidecar.run_id);
    let again = block_on(stop_cancelled(&ports, requests.as_ref(), &caller(), &shop.item(id))).unwrap();
    assert_eq!(again, None, "it rests already");
    let open = shop.add(&shop.job(SMALL), Some("other"));
    assert_eq!(
        block_on(stop_cancelled(&ports, requests.as_ref(), &caller(), &shop.item(open))).unwrap(),
        None
    );
}

#[test]
fn the_run_of_an_item_is_the_same_for_every_worker() {
    let shop = Shop::new(9);
    let id = shop.add(&shop.job(SMALL), None);
    let (ports, requests) = shop.ports();
    let of = |item: &WorkItem| block_on(run_behind(&ports, requests.as_ref(), item)).unwrap().unwrap();
    let before = of(&shop.item(id));
    let worked = shop.turn();
    assert_eq!(worked.driven.unwrap().sidecar.run_id, before);
    assert_eq!(of(&shop.item(id)), before);
    let other = shop.add(&shop.job(SMALL), Some("other"));
    assert_ne!(of(&shop.item(other)), before);
}

#[test]
fn jobs_read_back_as_they_were_written_and_ask_once() {
    let shop = Shop::new(10);
    let run_id: RunId = "ictr-20260520T101112Z-0196ed2f-7b00-7abc-8def-001122334455".parse().unwrap();
    let (a, b) = (Uuid::from_u128(1), Uuid::from_u128(2));
    let jobs = [
        shop.job(SMALL),
        Job::Run(run_id.clone()),
        Job::Request { cut_request_id: a, signal_id: Some(b) },
        Job::Request { cut_request_id: a, signal_id: None },
    ];
    let ids: Vec<ItemId> = jobs.iter().map(|job| shop.add(job, None)).collect();
    for (job, id) in jobs.iter().zip(&ids) {
        assert_eq!(Job::of(&shop.item(*id)).unwrap().unwrap(), *job);
        assert_eq!(shop.add(job, None), *id, "asking twice is asking once");
    }
    assert_eq!(shop.item(ids[1]).key, format!("run/{run_id}"));
    let long = Job::Cut(Box::new(CutJob {
        plan: PlanSettings { document_id: "D".repeat(190), ..plan_of(&jobs[0]) },
        ..cut_of(&jobs[0])
    }));
    assert!(long.key().len() <= cutter_core::record::queue::KEY_MAX_BYTES, "{}", long.key());
    let foreign = cutter_core::record::queue::NewItem::new("k", "laundry", *b"{}").unwrap();
    let foreign = foreign.queued(ItemId(9), shop.world().now());
    assert!(Job::of(&foreign).is_none());
    let Disposition::Fail(failure) = shop.work(&foreign).disposition else { panic!() };
    assert_eq!((failure.kind, failure.code.as_str()), (FailureKind::Permanent, "item_kind"));
    let broken = cutter_core::record::queue::NewItem::new("k", "run", *b"{\"run_id\": 3}").unwrap();
    let broken = broken.queued(ItemId(9), shop.world().now());
    let Disposition::Fail(failure) = shop.work(&broken).disposition else { panic!() };
    assert_eq!((failure.kind, failure.code.as_str()), (FailureKind::Permanent, "item_payload"));
}

fn cut_of(job: &Job) -> CutJob {
    match job {
        Job::Cut(cut) => cut.as_ref().clone(),
        _ => panic!("not a cut"),
    }
}

fn plan_of(job: &Job) -> PlanSettings {
    cut_of(job).plan
}

#[test]
fn a_retry_over_a_record_that_does_not_read_is_denied() {
    let shop = Shop::new(11);
    let run_id: RunId = "ictr-20260520T101112Z-0196ed2f-7b00-7abc-8def-001122334455".parse().unwrap();
    let (ports, requests) = shop.ports();
    let lock = ports.runs.clone();
    block_on(lock.create(&run_id, b"{ torn")).unwrap();
    let id = shop.add(&Job::Run(run_id), None);
    let gate = RunRisk { ports, requests };
    let mut item = shop.claim().unwrap();
    assert!(block_on(admit(&shop.queue, &gate, &item)).unwrap(), "the first attempt is no retry");
    item.failures = 1;
    assert!(!block_on(admit(&shop.queue, &gate, &item)).unwrap());
    let failed = shop.item(id);
    assert_eq!((failed.state, failed.reason.unwrap().code.as_str()), (S::Failed, "risk_denied"));
}

#[test]
fn trouble_of_the_surroundings_is_tried_again_and_a_wrong_request_is_not() {
    use PortErrorKind as K;
    for kind in [K::Unavailable, K::OutcomeUnknown, K::Busy, K::Deadline, K::Full, K::Fenced] {
        let error = DriveError::Port(PortError::new(Port::Database, "begin", kind, "x"));
        let Disposition::Fail(failure) = disposition(&Err(error.into())) else { panic!("{kind}") };
        assert_eq!(failure.kind, FailureKind::Transient, "{kind}");
        assert!(failure.code.starts_with("database_"), "{}", failure.code);
    }
    for kind in [K::Denied, K::Conflict, K::Corrupt, K::NotFound, K::Invalid] {
        let error = DriveError::Port(PortError::new(Port::RunStore, "load", kind, "x"));
        let Disposition::Fail(failure) = disposition(&Err(error.into())) else { panic!("{kind}") };
        assert_eq!(failure.kind, FailureKind::Permanent, "{kind}");
    }
    let run_id: RunId = "ictr-20260520T101112Z-0196ed2f-7b00-7abc-8def-001122334455".parse().unwrap();
    let drive = |error: DriveError| disposition(&Err(ServeError::from(error)));
    let code = |what: Disposition| match what {
        Disposition::Fail(failure) => (failure.kind, failure.code),
        other => panic!("{other:?}"),
    };
    let busy = DriveError::Busy { run_id: run_id.clone(), holder: "x".into() };
    assert_eq!(code(drive(busy)), (FailureKind::Transient, "run_busy".into()));
    assert_eq!(
        code(drive(DriveError::Fenced { run_id: run_id.clone() })),
        (FailureKind::Transient, "run_fenced".into())
    );
    assert_eq!(
        code(drive(DriveError::NotFound { run_id: run_id.clone() })),
        (FailureKind::Permanent, "run_not_found".into())
    );
    assert_eq!(drive(DriveError::Interrupted { run_id: run_id.clone() }), Disposition::HandBack);
    let conflict = |state: &str| DriveError::ReplayConflict {
        document_id: "D".into(),
        run_id: run_id.clone(),
        state: state.into(),
    };
    assert_eq!(drive(conflict("cut_marked")), Disposition::Await("document:D".into()));
    let for_good = "closeout_reported, but the database does not hold what its sidecar says";
    assert_eq!(code(drive(conflict(for_good))), (FailureKind::Permanent, "replay_conflict".into()));
    assert_eq!(
        code(disposition(&Err(ServeError::NotNow("x".into())))),
        (FailureKind::Permanent, "not_now".into())
    );
    assert_eq!(
        code(disposition(&Err(ServeError::NotFound(Uuid::nil())))),
        (FailureKind::Permanent, "request_not_found".into())
    );
}
