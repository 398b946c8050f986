//! What a void run has filed: the report of each phase that passed, or it is owed on record.

use cutter_core::driver;
use cutter_core::port::{Port, PortErrorKind};
use cutter_core::record::effect::ReviewVerdict::Approve;
use cutter_core::testing::memory::{Fault, FaultKind, FaultPlan, block_on};
use cutter_tests::look::{gather, judge};
use cutter_tests::refusal::{Gate, asked, stopped};
use cutter_tests::{Scenario, caller};

fn nothing_is_created() -> FaultPlan {
    let full = FaultKind::Fail { kind: PortErrorKind::Full, times: 1_000 };
    FaultPlan::one(Fault::on(Port::KnowledgeBase, "create", full))
}

#[test]
fn a_run_that_is_voided_after_its_upload_failed_holds() {
    for is_away_again in [false, true] {
        let s = Scenario::new(9_500);
        let (run_id, ask) = s.parked(Gate::Cut);
        s.sign(&ask, Approve);
        let (_, full) = s.process(nothing_is_created());
        let stop = stopped(&s.resume(&full, &run_id).expect("it stops"));
        assert_eq!(stop.code, "STOP_DISK_FULL");
        assert_eq!(s.count("cut_change_set", "run_id", run_id.as_str()), 1, "leg A is committed");
        let _ = s.void(&run_id).map(|driven| s.sign(&asked(&driven), Approve));
        if is_away_again {
            let (_, full) = s.process(nothing_is_created());
            let voided = block_on(driver::void(&full, &caller(), &run_id, None));
            assert!(voided.is_ok(), "{voided:?}");
        } else {
            let _ = s.void(&run_id).expect("it is voided");
        }
        assert!(s.stored(&run_id).state.starts_with("voided_"), "{}", s.stored(&run_id).state);
        assert_eq!(s.stored(&run_id).outbox.is_some(), is_away_again, "filed, or owed");
        let facts = gather(&s.ports(), &s.stored(&run_id));
        let failed: Vec<String> =
            judge(&facts, &[]).into_iter().filter(|c| !c.ok).map(|c| c.invariant).collect();
        assert_eq!(failed, [""; 0], "{is_away_again}");
    }
}
