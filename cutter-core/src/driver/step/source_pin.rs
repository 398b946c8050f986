//! source_pin: the version, its text and what cuts it are pinned.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use async_trait::async_trait;

use super::{Acted, Step};
use crate::base::digest::Digest;
use crate::base::key;
use crate::driver::run::{Halt, Run};
use crate::gate::source_pin;
use crate::record::pin;
use crate::text::plan::CutPlan;

/// IG_source_pin: the version exists; span, sha, profile and manifest digest are pinned.
pub(super) struct SourcePin;

#[async_trait]
impl Step for SourcePin {
    async fn act(&self, run: &mut Run<'_>) -> Result<Acted, Halt> {
        let document_id = run.sidecar.document_id.clone();
        let found = run.ports.reader.source(&document_id).await.map_err(|e| run.halt(e))?;
        let mut facts = source_pin::SourcePinFacts {
            document_id,
            source: found.clone(),
            text_sha: None,
            text_bytes: 0,
            manifest_digest: None,
            max_bytes: run.sidecar.settings.max_document_bytes,
            utf8: false,
            refused: None,
        };
        let mut work = Vec::new();
        if let Some((source, version)) = found.and_then(|s| s.latest.clone().map(|v| (s, v))) {
            run.sidecar.source_document_id = Some(source.source_document_id);
            run.sidecar.source_version_id = Some(version.source_version_id);
            run.pin(pin::SOURCE_SHA256, version.sha256);
            run.pin(pin::SOURCE_VERSION_NO, version.version_no.unsigned_abs().into());
            let read = run.read_source().await?;
            facts.text_sha = Some(Digest::of(&read.text));
            facts.text_bytes = read.text.len() as u64;
            facts.utf8 = core::str::from_utf8(&read.text).is_ok();
            match run.counted(&read) {
                Ok((plan, _)) => {
                    facts.manifest_digest = Some(plan.manifest_digest);
                    run.pin_plan(&plan);
                    work.push(format!("read version {} of {} bytes", version.version_no, facts.text_bytes));
                    work.push(format!("pinned region {}..{}", plan.region.start, plan.region.end));
                    work.push(format!("profile {} version {}", plan.profile.name, plan.profile.version));
                }
                Err(text) => facts.refused = Some(text),
            }
        }
        let gate = source_pin::judge(&facts);
        let key = run.sidecar.source_version_id.map(|id| key::source_pin(&run.sidecar.document_id, id));
        let pins = ["manifest_digest", "region_sha", "profile_digest"];
        Ok(Acted {
            key: key.map_or_else(String::new, |k| k.to_string()),
            work,
            diff: run.pinned(&pins),
            ..Acted::of(gate, "source_pinned")
        })
    }
}

impl Run<'_> {
    fn pin_plan(&mut self, plan: &CutPlan) {
        self.pin(pin::MANIFEST_DIGEST, plan.manifest_digest);
        self.pin(pin::REGION_SHA, plan.region.sha256);
        self.pin(pin::REGION_START, plan.region.start);
        self.pin(pin::REGION_END, plan.region.end);
        self.pin(pin::PROFILE, format!("{}/{}", plan.profile.name, plan.profile.version));
        self.pin(pin::PROFILE_DIGEST, plan.profile.digest);
        self.pin(pin::VOCABULARY_DIGEST, plan.vocabulary_digest);
        self.pin(pin::PUBLICATION_TYPE, plan.publication_type.clone());
    }
}
