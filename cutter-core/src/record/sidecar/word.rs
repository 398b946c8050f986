//! Whose word a run waits for.

use super::Sidecar;
use crate::machine::run::{GateId, RunState};

impl Sidecar {
    /// The sovereign gate at which the run is parked and no word is counted yet. From the write that
    /// counts one until the phase behind the gate is through, the stage is still the gate's, and the
    /// run waits for nobody.
    #[must_use]
    pub fn awaits_word(&self) -> Option<GateId> {
        let RunState::At(stage) = self.run_state().ok()? else { return None };
        let gate = stage.parked_at()?;
        self.intent.as_ref().is_none_or(|intent| intent.name == gate.as_str()).then_some(gate)
    }
}
