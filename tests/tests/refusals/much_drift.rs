//! Much drift at once.

use cutter_core::machine::run::GateId;
use cutter_core::record::effect::ReviewVerdict;
use cutter_tests::Scenario;
use cutter_tests::refusal::{Gate, asked, stopped};

/// Many functions with long lists of rights, moved at both gates: the record has room for it, and what was
/// observed is accepted as it stands.
#[test]
fn drift_of_many_dimensions_fits_the_record() {
    let s = Scenario::new(960);
    let wave = |rights: &str| {
        for n in 0..80 {
            s.world.alter_function(&format!("iu_core.fn_more_{n}"), &format!("{n} {}", rights.repeat(100)));
        }
    };
    let (run_id, ask) = s.parked(Gate::Cut);
    s.sign(&ask, ReviewVerdict::Approve);
    wave("a=X");
    stopped(&s.resumed(&run_id));
    let ask = asked(&s.resumed(&run_id));
    s.sign(&ask, ReviewVerdict::Approve);
    let ask = asked(&s.resumed(&run_id));
    assert_eq!(ask.gate, GateId::LifecycleAuthz);
    s.sign(&ask, ReviewVerdict::Approve);
    wave("b=X");
    let stop = stopped(&s.resumed(&run_id));
    assert!(stop.code.starts_with("STOP_DRIFT_"), "{stop:?}");
    // what is moved once more is not what was observed
    s.world.alter_function("iu_core.fn_more_7", "mended");
    let stop = stopped(&s.resumed(&run_id));
    assert!(stop.detail.concat().contains("iu_core.fn_more_7"), "{stop:?}");
    let ask = asked(&s.resumed(&run_id));
    s.sign(&ask, ReviewVerdict::Approve);
    s.finish(&run_id);
}
