//! The risk gate of runs (AG-RISK): asked before an item is tried again.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;

use async_trait::async_trait;

use super::behind::run_behind;
use crate::driver::Ports;
use crate::port::PortResult;
use crate::port::cut_request::CutRequests;
use crate::port::work_queue::RiskGate;
use crate::record::queue::WorkItem;
use crate::record::sidecar::Sidecar;

/// A run may be tried again if its record can be read: what an earlier attempt did is then known,
/// and the run goes on from it instead of doing it twice. Over a record that does not read nothing
/// is retried.
pub struct RunRisk {
    /// Where the record is.
    pub ports: Ports,
    /// The requests whose runs these are.
    pub requests: Arc<dyn CutRequests>,
}

#[async_trait]
impl RiskGate for RunRisk {
    async fn allows(&self, item: &WorkItem) -> PortResult<Result<(), String>> {
        let Some(run_id) = run_behind(&self.ports, self.requests.as_ref(), item).await? else {
            return Ok(Ok(()));
        };
        let Some(stored) = self.ports.runs.load(&run_id).await? else { return Ok(Ok(())) };
        Ok(Sidecar::from_bytes(&stored.bytes)
            .map(|_| ())
            .map_err(|error| format!("the record of run {run_id} cannot be read: {error}")))
    }
}
