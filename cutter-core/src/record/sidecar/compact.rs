//! What a record lets go of when many detours would take it past its bound.

use super::{Sidecar, StopRecord};

impl Sidecar {
    /// Shortens what a run with many detours has settled: identifiers, observed values and
    /// detail of older stops, which their filed reports hold in full, and all but the newest
    /// approvals that were not accepted. What is owed, open or checked later stays whole.
    pub fn compact(&mut self) {
        const LINE: usize = 120;
        const CONSIDERED: usize = 2;
        let last = self.stops.last().map_or(0, |s| s.n);
        let settled = |s: &&mut StopRecord| s.uploaded.is_some() && (s.n < last || s.resolved_by.is_some());
        for stop in self.stops.iter_mut().filter(settled) {
            stop.ids.clear();
            stop.detail.truncate(1);
            for line in &mut stop.detail {
                *line = line.chars().take(LINE).collect();
            }
            for value in stop.observed.values_mut() {
                *value = value.chars().take(LINE / 10).collect();
            }
            while stop.observed.len() > 1 {
                stop.observed.pop_last();
            }
        }
        let extra = self.considered.len().saturating_sub(CONSIDERED);
        self.considered.drain(..extra);
    }
}
