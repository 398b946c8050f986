//! grant_probe: who may do what is known.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::ToString;
use alloc::vec;

use async_trait::async_trait;

use super::{Acted, Step};
use crate::base::key;
use crate::driver::run::{Halt, Run, payload_digest};
use crate::gate::grant_probe;
use crate::machine::run::Phase;
use crate::record::pin;

/// IG_grant_probe: surveyed, never applied.
pub(super) struct GrantProbe;

#[async_trait]
impl Step for GrantProbe {
    async fn act(&self, run: &mut Run<'_>) -> Result<Acted, Halt> {
        let snapshot = run.ports.reader.grants().await.map_err(|e| run.halt(e))?;
        let gate = grant_probe::judge(&snapshot);
        let sha = payload_digest(&snapshot)?;
        run.pin(pin::GRANT_PROBE_SHA, sha);
        let previous = run.derived_key(Phase::Backup)?;
        let wanted = snapshot.facts.iter().filter(|f| f.wanted).count();
        Ok(Acted {
            key: key::grant_probe(&previous, &sha).to_string(),
            work: vec![
                format!("looked at {} privileges, {wanted} of them wanted", snapshot.facts.len()),
                format!("{} functions that PUBLIC may execute", snapshot.public_execute.len()),
            ],
            diff: run.pinned(&["grant_probe_sha"]),
            ..Acted::of(gate, "grants_probed")
        })
    }
}
