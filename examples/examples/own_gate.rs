//! A rule of your own: named checks that join a phase's gate. It sees the record and
//! nothing else, so that a resumed run judges as the first one did.

use std::sync::Arc;

use cutter_core::driver::{Outcome, OwnGate, Ports};
use cutter_core::machine::run::GateId;
use cutter_core::record::check::Check;
use cutter_core::record::pin;
use cutter_core::record::sidecar::Sidecar;
use cutter_examples::{Result, Setup};

/// This house cuts small documents only.
struct AtMost(u64);

impl OwnGate for AtMost {
    fn checks(&self, gate: GateId, sidecar: &Sidecar) -> Vec<Check> {
        if gate != GateId::Cutplan {
            return Vec::new();
        }
        let count = sidecar.pinned(pin::CANDIDATE_COUNT).ok();
        let observed = count.map_or("no count".to_owned(), |n| n.to_string());
        let ok = count.is_some_and(|n| n <= self.0);
        vec![Check::new("house.small_documents_only", format!("at most {} units", self.0), observed, ok)]
    }
}

pub fn main() -> Result<()> {
    for limit in [100, 2] {
        let setup = Setup::new()?;
        let ports = Ports { own_gates: vec![Arc::new(AtMost(limit))], ..setup.ports() };
        let driven = setup.command(&ports)?;
        println!("at most {limit} units: {}", driven.sidecar.state);
        match driven.outcome {
            Outcome::Paused { ask, .. } => println!("  the sovereign is asked in {}", ask.request_path),
            Outcome::Failed(stop) => {
                assert!(stop.detail[0].starts_with("house.small_documents_only"), "{:?}", stop.detail);
                println!("  {}", stop.detail.join("\n  "));
            }
            other => return Err(format!("unexpected: {other:?}").into()),
        }
    }
    Ok(())
}
