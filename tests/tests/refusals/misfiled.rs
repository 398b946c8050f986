//! A refusal counts whatever its document is called: nobody who files documents takes its weight by a name.

use cutter_core::operate::review::{Outcome as Became, Review};
use cutter_core::record::approval::Ask;
use cutter_core::record::effect::ReviewVerdict::{Approve, Reject};
use cutter_core::testing::memory::block_on;
use cutter_tests::Scenario;
use cutter_tests::refusal::{Gate, stopped};

/// Names that other documents of a run have, or none.
const NAMES: [&str; 6] = [
    "07-structural-verify-2026-01-03.md",
    "11-final-closeout-report-2026-01-02.md",
    "01-cut-authz-request-7-2026-01-02.md",
    "SG3-stop-report-4-2026-01-02.md",
    "runs.md",
    "notes",
];

fn called(ask: &Ask, name: &str) -> Ask {
    let (folder, _) = ask.request_path.rsplit_once('/').expect("it stands in a folder");
    Ask { approval_path: format!("{folder}/{name}"), ..ask.clone() }
}

#[test]
fn a_refusal_under_any_name_is_heard_and_an_approval_is_not() {
    for (n, gate) in Gate::ALL.into_iter().enumerate() {
        for (m, name) in NAMES.into_iter().enumerate() {
            let seed = 9_300 + (n * NAMES.len() + m) as u64;
            let s = Scenario::new(seed);
            let (run_id, ask) = s.parked(gate);
            s.sign(&called(&ask, name), Approve);
            drop(s.resumed(&run_id));
            assert_eq!(s.stored(&run_id).sovereign_approvals.len(), n, "{gate:?}: {name}: no approval");
            let s = Scenario::new(seed);
            let (run_id, ask) = s.parked(gate);
            s.sign(&called(&ask, name), Reject);
            s.sign(&ask, Approve);
            drop(s.resumed(&run_id));
            let last = s.stored(&run_id).sovereign_approvals.last().cloned().expect("it is heard");
            assert_eq!(last.decision, Reject, "{gate:?}: {name}");
            assert_eq!(s.count("information_unit", "lifecycle_status", "enacted"), 0);
        }
    }
}

/// In the place of one of the run's own documents it holds the run up before the approval is spent; whoever
/// puts the document back files the refusal beside it.
#[test]
fn a_refusal_in_the_place_of_a_report_lets_nothing_pass() {
    let s = Scenario::new(9_350);
    let (run_id, ask) = s.parked(Gate::Lifecycle);
    let documents = s.stored(&run_id).documents;
    let report = documents.iter().find(|d| d.path.contains("/07-")).expect("it is filed").path.clone();
    s.sign(&Ask { approval_path: report, ..ask.clone() }, Reject);
    s.sign(&ask, Approve);
    assert_eq!(stopped(&s.resumed(&run_id)).code, "STOP_KB_CONFLICT");
    assert_eq!(s.count("information_unit", "lifecycle_status", "enacted"), 0);
}

#[test]
fn the_review_duty_hears_it_too() {
    for (m, name) in NAMES.into_iter().enumerate() {
        for verdict in [Reject, Approve] {
            let s = Scenario::new(9_400 + m as u64);
            let (_, ask) = s.parked(Gate::Cut);
            s.sign(&called(&ask, name), verdict);
            if verdict == Reject {
                s.sign(&ask, Approve);
            }
            let ports = s.review_ports();
            let reviewed = block_on(Review::new("rita".into()).pass(&ports)).expect("it looks");
            let decided = reviewed.iter().find_map(|r| match &r.outcome {
                Became::Decided { decision, .. } => Some(*decision),
                _ => None,
            });
            assert_eq!(decided, (verdict == Reject).then_some(Reject), "{name}: {reviewed:?}");
        }
    }
}
