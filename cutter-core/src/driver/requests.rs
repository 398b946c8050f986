//! Asking the sovereign: the request document, its nonce, and the pause.
//!
//! Nonce, name, date and the document itself are fixed in the write that ends the phase
//! before; then the request row (SG_2) is inserted and the document uploaded; then one
//! write parks the run (PROTOCOL §2).

use alloc::borrow::ToOwned;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use jiff::Timestamp;

use super::Outcome;
use super::perform::{Act, Performance, commit_if_status};
use super::run::{Halt, Run, payload_digest};
use super::step::{self, Request};
use crate::base::digest::Digest;
use crate::gate::drift;
use crate::machine::backlog::BacklogState;
use crate::machine::run::{GateId, Phase, Stage, Trigger};
use crate::machine::stop::StopReason;
use crate::record::approval::{Ask, Purpose, field};
use crate::record::effect::{EffectName, ExecutorEffect, SweepWrite};
use crate::record::intent::{IdName, Intent};
use crate::record::observed::UnitQuery;
use crate::record::pin;
use crate::record::policy::Chain;
use crate::record::settings::RunSettings;
use crate::record::sidecar::StopRecord;
use crate::report::naming::{DocumentName, utc_date};
use crate::report::{
    BackupLine, RequestReport, SINCE_THE_FIRST_GATE, UnitLine, VersionDiff, render_request, shows,
};
use crate::text::compare::{Comparison, UnitFact};
use crate::text::plan::CutPlan;

/// So many lines of one drift are shown again; its report has all of them.
const ACKNOWLEDGED_LINES: usize = 20;

/// What a request must show, as far as it does not rest on the run's record alone: from what is asked, the
/// settings, the plan and the policy.
pub(crate) fn report_of(
    ask: &Ask,
    created_by: &str,
    settings: &RunSettings,
    plan: &CutPlan,
    chain: &Chain,
    version_diff: Option<VersionDiff>,
) -> RequestReport {
    let required = |key: &str| ask.required.get(key).cloned().unwrap_or_default();
    let units = plan.rows.iter().map(|r| UnitLine {
        address: r.canonical_address.to_string(),
        unit_kind: r.unit_kind.clone(),
        section_type: r.section_type.clone(),
        bytes: (r.end - r.start) as u64,
    });
    let duplicates = plan.duplicates.iter();
    let duplicates = duplicates.map(|d| format!("{} (line {}): {} was taken", d.address, d.line, d.of));
    let unsure = settings.detection.as_ref().and_then(|d| d.warning(&settings.profile.name));
    let warnings = plan.warnings.iter().map(|w| match w.line {
        Some(line) => format!("line {line}: {}: {}", w.code, w.message),
        None => format!("{}: {}", w.code, w.message),
    });
    let facts = [
        ("source_sha256", plan.document.sha256.to_hex()),
        ("manifest_digest", plan.manifest_digest.to_hex()),
        ("region_sha", plan.region.sha256.to_hex()),
        ("region_start", plan.region.start.to_string()),
        ("region_end", plan.region.end.to_string()),
        ("profile", format!("{}/{}", plan.profile.name, plan.profile.version)),
        ("profile_digest", plan.profile.digest.to_hex()),
        ("publication_type", plan.publication_type.to_string()),
        ("candidate_count", plan.rows.len().to_string()),
        ("duplicates", plan.duplicates.len().to_string()),
        ("warnings", plan.warnings.len().to_string()),
        ("writer_digest", plan.writer_digest.to_hex()),
        ("unit_set_digest", plan.set_digest.to_hex()),
    ];
    RequestReport {
        ask: ask.clone(),
        run_id: required(field::RUN_ID),
        document_id: required(field::DOCUMENT_ID),
        created_by: created_by.to_owned(),
        at: Timestamp::UNIX_EPOCH,
        sidecar_path: String::new(),
        facts: facts.map(|(name, value)| (name.to_owned(), value)).into(),
        units: units.collect(),
        duplicates: duplicates.collect(),
        warnings: chain.notices().into_iter().chain(unsure).chain(warnings).collect(),
        changes: Vec::new(),
        version_diff,
        content_rows: 0,
        backup: None,
        grants: None,
        pins: Vec::new(),
        settings: settings.lines(),
        evidence: Vec::new(),
        policy: super::policy::allowed(chain, ask),
    }
}

impl Run<'_> {
    /// Whether the outbox holds a request of a gate.
    pub(super) fn asks(&self) -> bool {
        self.sidecar.intent.as_ref().is_some_and(|i| i.name.starts_with("SG_"))
    }

    /// Chooses a request's nonce and renders it into the outbox. Nothing is written yet. `again` says why
    /// it is asked once more, where no stop says it.
    pub(super) async fn prepare_request(
        &mut self,
        stage: Stage,
        occurrence: u32,
        again: Option<String>,
    ) -> Result<(), Halt> {
        let request = step::request_at(match stage {
            Stage::GrantsProbed | Stage::AwaitingCutAuthorization => GateId::CutAuthz,
            _ => GateId::LifecycleAuthz,
        });
        let (gate, name) = (request.gate(), request.named());
        let intent = self.choose(gate.as_str(), occurrence, request.ids(), true);
        request.chosen(self, &intent)?;
        let rows = self.rows_digest().await?;
        let chain = self.chain().await?;
        let none = || Halt::stop(StopReason::Internal, "the policy has no event");
        let head = chain.head().ok_or_else(none)?;
        let folder = self.sidecar.kb_folder.clone().unwrap_or_default();
        let date = utc_date(intent.at);
        let file = DocumentName::Request { gate: name, occurrence }.file_name(date);
        let answer = DocumentName::Approval { gate: name, occurrence }.file_name(date);
        let mut ask = Ask {
            gate,
            occurrence,
            approval_type: Purpose::at(gate).to_string(),
            required: self.required(request, &intent, rows, head)?,
            expected_actor: self.expected_at(gate, &chain),
            approval_path: format!("{folder}/{answer}"),
            request_path: format!("{folder}/{file}"),
        };
        let needed = chain.now().needed_at(gate.as_str());
        if needed > 1 {
            ask.required.insert(field::APPROVALS_NEEDED.to_owned(), needed.to_string());
        }
        let report = self.request_report(&intent, &ask, &chain, again).await?;
        let text = render_request(&report)?;
        let sha256 = self.owe(file, text);
        ask.required.insert(field::REQUEST_SHA256.to_owned(), sha256.to_hex());
        self.sidecar.ask = Some(ask);
        self.sidecar.intent = Some(intent);
        Ok(())
    }

    /// What the answer must repeat, less the request's own digest.
    fn required(
        &self,
        request: &dyn Request,
        intent: &Intent,
        rows: Digest,
        policy_head: Digest,
    ) -> Result<BTreeMap<String, String>, Halt> {
        let mut required = BTreeMap::new();
        let mut put = |name: &str, value: String| required.insert(name.to_owned(), value);
        put(field::RUN_ID, self.sidecar.run_id.to_string());
        put(field::DOCUMENT_ID, self.sidecar.document_id.clone());
        put(field::NONCE, intent.nonce.clone().unwrap_or_default());
        for pin in [pin::WRITER_DIGEST, pin::MANIFEST_DIGEST, pin::REGION_SHA, pin::BASE_STATE_SHA] {
            put(pin.name(), self.sidecar.pinned(pin)?.to_hex());
        }
        put(field::ROWS_DIGEST, rows.to_hex());
        put(field::SETTINGS_SHA256, self.settings_sha256().to_hex());
        put(field::POLICY_HEAD, policy_head.to_hex());
        put(field::SOURCE_VERSION_ID, self.source_ids()?.1.to_string());
        for (name, value) in request.fields(self, intent)? {
            put(name, value);
        }
        Ok(required)
    }

    async fn request_report(
        &mut self,
        intent: &Intent,
        ask: &Ask,
        chain: &Chain,
        again: Option<String>,
    ) -> Result<RequestReport, Halt> {
        self.backup_stands().await?;
        let version_diff = self.version_diff().await?;
        let grants = self.ports.reader.grants().await.map_err(|e| self.halt(e))?;
        let again = again.map(|why| format!("asked once more: {why}"));
        let mut changes = self.acknowledged();
        let unsaid = self.since_the_first_gate(ask, chain).await?;
        let unsaid = unsaid.into_iter().filter(|way| !changes.iter().any(|line| line.contains(way)));
        let unsaid: Vec<String> = unsaid.map(|way| format!("{SINCE_THE_FIRST_GATE}{way}")).collect();
        changes.extend(unsaid.into_iter().chain(again));
        self.plan().await?;
        let none = || Halt::stop(StopReason::Internal, "the text is not planned");
        let plan = self.plan.as_ref().ok_or_else(none)?;
        let sidecar = &self.sidecar;
        let known = report_of(ask, &sidecar.created_by, &sidecar.settings, plan, chain, version_diff);
        Ok(RequestReport {
            at: intent.at,
            sidecar_path: self.ports.runs.sidecar_location(&sidecar.run_id),
            facts: self.inputs(),
            changes,
            content_rows: sidecar.backup.as_ref().map_or(0, |b| b.content_rows),
            backup: sidecar.backup.as_ref().map(|b| BackupLine {
                name: "pre_write.gpg".to_owned(),
                bytes: b.blob.bytes,
                sha256: b.blob.sha256,
                plaintext_sha256: b.blob.plaintext_sha256,
                fingerprint: b.blob.fingerprint.clone(),
                scope: sidecar.settings.backup_scope.as_str().to_owned(),
            }),
            grants: Some(crate::gate::grant_probe::judge(&grants)),
            pins: sidecar.drift_pins.0.iter().map(|(k, v)| (k.clone(), v.clone())).collect(),
            evidence: sidecar.documents.iter().map(|d| (d.path.clone(), d.sha256)).collect(),
            ..known
        })
    }

    /// Why the open request is not to be relied on: it shows something else than the program does.
    pub(super) async fn shown_otherwise(&mut self, ask: &Ask) -> Result<Option<String>, Halt> {
        let found = self.live_request(&ask.request_path).await?;
        let asked = ask.required.get(field::REQUEST_SHA256);
        let Some(document) = found.filter(|found| asked == Some(&found.sha256.to_hex())) else {
            // the gate's own check names that
            return Ok(None);
        };
        let version_diff = self.version_diff().await?;
        let head = ask.required.get(field::POLICY_HEAD).map_or("", String::as_str);
        let chain = self.chain().await?.until(head).unwrap_or_default();
        self.plan().await?;
        let Some(plan) = &self.plan else { return Ok(None) };
        let sidecar = &self.sidecar;
        let report = report_of(ask, &sidecar.created_by, &sidecar.settings, plan, &chain, version_diff);
        let text = String::from_utf8_lossy(&document.bytes);
        Ok(shows(&text, &report, true)
            .err()
            .map(|differs| format!("the request before was another one: {differs}")))
    }

    /// What moved since the head that the first gate's ask names, which is a row, whatever the record pins.
    async fn since_the_first_gate(&self, ask: &Ask, chain: &Chain) -> Result<Vec<String>, Halt> {
        if ask.gate != GateId::LifecycleAuthz {
            return Ok(Vec::new());
        }
        let asks = self.stored_asks().await?;
        let mut first = asks.iter().rev().filter(|stored| stored.asked.ask.gate == GateId::CutAuthz);
        let Some(head) = first.find_map(|stored| stored.asked.policy_head) else { return Ok(Vec::new()) };
        let ways = chain.drift_since(&head.to_hex(), &self.consumed());
        Ok(ways.unwrap_or_else(|foreign| alloc::vec![foreign.to_string()]))
    }

    /// What changed on the way here: who approves the request accepts it.
    fn acknowledged(&self) -> Vec<String> {
        // neither a refusal nor what lay beside an approval is passed over in silence by asking anew
        let told = [StopReason::Refused.code(), StopReason::ApprovalChanged.code()];
        let is_told = |s: &&StopRecord| !s.observed.is_empty() || told.iter().any(|code| *code == s.code);
        let stops = self.sidecar.stops.iter().filter(|s| s.resolved_by.is_some()).filter(is_told);
        let mut lines = Vec::new();
        for stop in stops {
            let shown = stop.detail.iter().take(ACKNOWLEDGED_LINES);
            lines.extend(shown.map(|d| format!("changed before this request (stop {}): {d}", stop.n)));
            let more = stop.detail.len().saturating_sub(ACKNOWLEDGED_LINES);
            if more > 0 {
                lines.push(format!(
                    "changed before this request (stop {}): {more} more, in {}",
                    stop.n, stop.name
                ));
            }
        }
        lines
    }

    /// What changes against the version that stands now, if one does (D24): its units with their
    /// texts, so that what was only numbered anew is told from what was changed.
    async fn version_diff(&mut self) -> Result<Option<VersionDiff>, Halt> {
        let one =
            UnitQuery { document_id: self.sidecar.document_id.clone(), limit: 1, ..UnitQuery::default() };
        let newest = self.ports.reader.units(&one).await.map_err(|e| self.halt(e))?;
        let own = self.sidecar.pinned(pin::CHANGE_SET_ID).ok();
        let Some(newest) = newest.first().filter(|u| Some(u.change_set_id) != own) else { return Ok(None) };
        let against_version = newest.version_no;
        let all = UnitQuery {
            version_no: Some(against_version),
            limit: u64::from(u32::MAX),
            with_content: true,
            ..one
        };
        let standing = self.ports.reader.units(&all).await.map_err(|e| self.halt(e))?;
        self.plan().await?;
        let Some(plan) = &self.plan else { return Ok(None) };
        let old: Vec<UnitFact<'_>> = standing.iter().map(UnitFact::of_stored).collect();
        let new = UnitFact::of_plan(plan, &self.text);
        Ok(Some(VersionDiff::of(against_version, &Comparison::between(&old, &new))))
    }

    /// Publishes the request and parks the run: one write.
    pub(super) async fn request(&mut self, stage: Stage) -> Result<Option<Outcome>, Halt> {
        if self.adopting && stage == Stage::WriteVerified {
            self.adopt(EffectName::Sg2Request, self.intent()?.occurrence).await?;
        }
        self.check_drift().await?;
        self.policy_stands().await?;
        if self.sidecar.outbox.is_none() || !self.asks() {
            // The phase before passed, but its last write could not prepare the request.
            let gate = if stage == Stage::GrantsProbed { GateId::CutAuthz } else { GateId::LifecycleAuthz };
            let asked = self.sidecar.ask.as_ref().filter(|a| a.gate == gate);
            let occurrence = asked.map_or(1, |a| a.occurrence);
            self.prepare_request(stage, occurrence, None).await?;
            self.persist().await?;
        }
        self.publish_request().await?;
        let now = self.ports.clock.now();
        self.step(Trigger::RequestPublished, now)?;
        self.persist().await?;
        self.adopting = false;
        Ok(None)
    }

    /// The request row at SG_2, then the document.
    async fn publish_request(&mut self) -> Result<(), Halt> {
        self.store_ask().await?;
        if self.sidecar.stops.iter().any(|stop| !stop.observed.is_empty()) {
            // drift took a new backup: what a lost attempt at it left goes
            self.discard_leftovers().await?;
        }
        if let Ok(gate) = self.intent()?.name.parse() {
            step::request_at(gate).stored(self).await?;
        }
        let filed = self.upload().await?;
        self.sidecar.documents.push(filed);
        self.sidecar.outbox = None;
        Ok(())
    }

    /// A later occurrence, published while the run is parked already.
    pub(super) async fn publish_request_again(&mut self) -> Result<(), Halt> {
        self.publish_request().await?;
        self.persist().await
    }

    /// After a refusal, a changed approval or acknowledged drift: asks once more, under the
    /// next occurrence. A deferred entry is swept first (S3 → S1); a rejected one never comes
    /// here ([`super::stop_kinds`]).
    pub(super) async fn ask_again(&mut self, stop: &StopRecord, stage: Stage) -> Result<(), Halt> {
        let status = self.sidecar.drift_pins.0.get(drift::BACKLOG_STATUS).cloned().unwrap_or_default();
        if status == BacklogState::ReviewedDeferred.as_str() {
            self.sweep_again(stop).await?;
        }
        self.ask_anew(stage, None).await
    }

    /// Asks at a gate once more, under the next occurrence, and begins nothing on the answer before. `why`
    /// as [`Self::prepare_request`] has it.
    pub(super) async fn ask_anew(&mut self, stage: Stage, why: Option<String>) -> Result<(), Halt> {
        let occurrence = self.sidecar.ask.as_ref().map_or(1, |a| a.occurrence + 1);
        if matches!(stage, Stage::WriteVerified | Stage::AwaitingLifecycleAuthorization) {
            // the next request is a row of its own, and there is none yet
            self.sidecar.drift_pins.0.insert(drift::REVIEW_DECISIONS.to_owned(), "0".to_owned());
        }
        self.forget_running();
        self.prepare_request(stage, occurrence, why).await
    }

    async fn sweep_again(&mut self, stop: &StopRecord) -> Result<(), Halt> {
        let intent = self.stop_intent(stop);
        let write = SweepWrite {
            entry_id: self.sidecar.pinned(pin::ENTRY_ID)?,
            sweep_id: intent.id(IdName::Sweep)?,
            history_id: intent.id(IdName::SweepHistory)?,
        };
        let payload = payload_digest(&write)?;
        let judge = commit_if_status(BacklogState::ReviewPending);
        let adopting = core::mem::replace(&mut self.adopting, true);
        let performed = self
            .perform_by_word(Performance {
                occurrence: stop.n + 1,
                ..Performance::once(
                    Act::Execute(&ExecutorEffect::Sweep(write)),
                    payload,
                    &intent,
                    Phase::Mark,
                    0,
                    &judge,
                )
            })
            .await;
        self.adopting = adopting;
        performed.map(|_| ())
    }
}
