//! structural_verify: what stands there is counted and hashed.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;

use async_trait::async_trait;

use super::{Acted, Step};
use crate::base::digest::Digest;
use crate::base::key;
use crate::driver::run::{Halt, Run, payload_digest};
use crate::gate::structural_verify;
use crate::record::pin;

/// IG_structural_verify: D18's eleven, and nothing under a forbidden prefix.
pub(super) struct StructuralVerify;

#[async_trait]
impl Step for StructuralVerify {
    // Between leg A and leg B a run is in a state of its own, which its record says at once (PROTOCOL §2).
    fn leaves_something(&self) -> bool {
        true
    }

    async fn act(&self, run: &mut Run<'_>) -> Result<Acted, Halt> {
        let change_set_id = run.sidecar.pinned(pin::CHANGE_SET_ID)?;
        let expected = run.structural_expected().await?;
        let (document, prefixes) =
            (run.sidecar.document_id.clone(), run.sidecar.settings.forbidden_prefixes.clone());
        let observed = run.ports.reader.structural(change_set_id, &document, &prefixes).await;
        let observed = observed.map_err(|e| run.halt(e))?;
        let gate = structural_verify::judge(&expected, &observed);
        let sha = payload_digest(&observed)?;
        run.pin(pin::STRUCTURAL_VERIFY_SHA, sha);
        Ok(Acted {
            key: key::structural_verify(change_set_id, &sha).to_string(),
            work: vec![format!("counted {} units, hashed their bytes in the database", observed.units)],
            diff: run.pinned(&["structural_verify_sha"]),
            ..Acted::of(gate, "structural_verified")
        })
    }
}

impl Run<'_> {
    pub(in crate::driver) async fn structural_expected(
        &mut self,
    ) -> Result<structural_verify::StructuralExpected, Halt> {
        let region_sha = self.sidecar.pinned(pin::REGION_SHA)?;
        let plan = self.plan().await?;
        let mut addresses: Vec<&str> = plan.rows.iter().map(|r| r.canonical_address.as_str()).collect();
        addresses.sort_unstable();
        let mut text = String::new();
        for address in addresses {
            text.push_str(address);
            text.push('\n');
        }
        let mut section_types: BTreeMap<String, u64> = BTreeMap::new();
        let mut unit_kinds: BTreeMap<String, u64> = BTreeMap::new();
        for row in &plan.rows {
            *section_types.entry(row.section_type.clone()).or_default() += 1;
            *unit_kinds.entry(row.unit_kind.clone()).or_default() += 1;
        }
        Ok(structural_verify::StructuralExpected {
            units: plan.rows.len() as u64,
            addresses_sha: Digest::of(text.as_bytes()),
            section_types,
            unit_kinds,
            region_sha,
        })
    }
}
