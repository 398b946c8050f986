//! The writes of MARK, sweep, leg A, leg B and write-verify.

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use uuid::Uuid;

use super::observe;
use super::rows::{
    ChangeSetRow, EntryRow, EnvelopeRow, Lifecycle, SignatureRow, SweepRow, UnitRecord, VerifyRow,
};
use super::transaction::Tx;
use crate::base::digest::Digest;
use crate::machine::backlog::{BacklogGuard, BacklogState as S};
use crate::port::{PortErrorKind, PortResult};
use crate::record::effect::{
    LegAWrite, LegBWrite, MarkWrite, SignatureWrite, SweepWrite, UnitWrite, WriteVerifyWrite, fact,
};

impl Tx<'_> {
    /// ∅ → S0.
    pub(super) fn mark(&mut self, write: &MarkWrite) -> PortResult<()> {
        let document_id = self.cx.fence.document_id.clone();
        match self.tables.documents.get(&document_id) {
            Some(row) if row.source_document_id == write.source_document_id => {}
            _ => return Err(self.missing("source_document", write.source_document_id)),
        }
        match self.tables.versions.get(&write.source_version_id) {
            Some(row) if row.document_id == document_id => {}
            _ => return Err(self.missing("source_version", write.source_version_id)),
        }
        let twin = self
            .tables
            .entries
            .values()
            .find(|e| e.idempotency_key == write.idempotency_key && e.status != S::Abandoned);
        if let Some(twin) = twin {
            let message = format!("IK-MARK {} is live in entry {}", write.idempotency_key, twin.entry_id);
            return Err(self.conflict(message));
        }
        let wrong: Vec<Uuid> = (write.depends_on.iter().copied())
            .filter(|id| *id == write.entry_id || !self.tables.entries.contains_key(id))
            .collect();
        if !wrong.is_empty() {
            return Err(self.conflict(format!("mark.depends_on: expected none, observed {wrong:?}")));
        }
        self.new_entry(
            EntryRow {
                entry_id: write.entry_id,
                run_id: self.cx.key.run_id.clone(),
                document_id,
                kind: "manifest",
                source_version_id: write.source_version_id,
                idempotency_key: write.idempotency_key,
                region_sha: write.region_sha,
                manifest_digest: write.manifest_digest,
                candidate_count: write.candidate_count,
                depends_on: write.depends_on.clone(),
                escalates: None,
                status: S::Marked,
            },
            write.history_id,
            "marked",
        )?;
        self.follow_request()?;
        self.put_status(write.entry_id);
        Ok(())
    }

    fn new_entry(&mut self, row: EntryRow, history_id: Uuid, reason: &str) -> PortResult<()> {
        let (entry_id, document_id, status) = (row.entry_id, row.document_id.clone(), row.status);
        if self.tables.entries.contains_key(&entry_id) {
            return Err(self.conflict(format!("entry {entry_id} exists")));
        }
        self.tables.entries.insert(entry_id, row);
        self.add_history(entry_id, document_id, None, status, history_id, reason, None)
    }

    /// S0 or S3 → S1, with its log row. An entry at S1 already is success: the pass is logged
    /// with nothing promoted.
    pub(super) fn sweep(&mut self, write: &SweepWrite) -> PortResult<()> {
        let Some(entry) = self.tables.entries.get(&write.entry_id) else {
            return Err(self.missing("decision_backlog_entry", write.entry_id));
        };
        let (status, document_id) = (entry.status, entry.document_id.clone());
        let mut promoted = Vec::new();
        if status != S::ReviewPending {
            promoted.push(write.entry_id);
            self.move_entry(write.entry_id, S::ReviewPending, write.history_id, "sweep", None)?;
        }
        if self.tables.sweeps.contains_key(&write.sweep_id) {
            return Err(self.conflict(format!("sweep row {} exists", write.sweep_id)));
        }
        self.tables.sweeps.insert(
            write.sweep_id,
            SweepRow {
                sweep_id: write.sweep_id,
                run_id: Some(self.cx.key.run_id.clone()),
                document_id,
                promoted,
                at: self.cx.at,
            },
        );
        self.put_status(write.entry_id);
        Ok(())
    }

    /// G-CUT-DEPS: what the entry's manifest depends on is verified.
    fn dependencies_stand(&self, entry_id: Uuid) -> PortResult<()> {
        let depends_on = self.tables.entries.get(&entry_id).map(|e| e.depends_on.as_slice());
        let status = |id: &Uuid| self.tables.entries.get(id).map(|e| e.status);
        let open: Vec<String> = (depends_on.unwrap_or_default().iter())
            .filter(|id| status(id) != Some(S::VerifiedComplete))
            .map(|id| format!("{id} is {}", status(id).map_or("absent", S::as_str)))
            .collect();
        if open.is_empty() {
            return Ok(());
        }
        let (guard, open) = (BacklogGuard::CutDeps.as_str(), open.join(", "));
        let message = format!("{guard}: entry {entry_id} waits: expected none, observed {open}");
        Err(self.error(PortErrorKind::Waits, message))
    }

    /// The change set first, then units, signature, S2 → S5 → S6.
    pub(super) fn leg_a(&mut self, write: &LegAWrite) -> PortResult<()> {
        self.dependencies_stand(write.entry_id)?;
        self.new_change_set(write)?;
        let document_id = self.cx.fence.document_id.clone();
        let base =
            observe::base_state(&self.tables, &self.catalogue.vocabulary, &document_id, &self.cx.key.run_id);
        for unit in &write.units {
            self.create_unit(write, unit)?;
        }
        let signature = self.signature(write.change_set_id, &write.signature)?;
        self.sign(signature)?;
        self.use_approval(write.approval_id);
        let set = Some(write.change_set_id);
        self.move_entry(write.entry_id, S::CutInProgress, write.history_ids[0], "cut started", set)?;
        self.move_entry(write.entry_id, S::CutApplied, write.history_ids[1], "cut committed", set)?;

        let stored = observe::units_of(&self.tables, write.change_set_id);
        let (created, drafts) =
            (stored.len(), stored.iter().filter(|u| u.lifecycle_status == Lifecycle::Draft).count());
        let writer = observe::writer_digest(&self.tables, write.change_set_id);
        let grants = observe::json_digest(&self.catalogue.grants);
        self.put(fact::CREATED, created);
        self.put(fact::NON_DRAFT, created - drafts);
        self.put(fact::WRITER_DIGEST, writer);
        self.put_rows(write.change_set_id, Some(write.approval_id));
        self.put(fact::BASE_STATE, base);
        self.put(fact::GRANTS, grants);
        self.put_approval(write.approval_id, write.review_decision_id);
        self.follow_request()?;
        self.put_status(write.entry_id);
        Ok(())
    }

    fn new_change_set(&mut self, write: &LegAWrite) -> PortResult<()> {
        let document_id = self.cx.fence.document_id.clone();
        match self.tables.versions.get(&write.source_version_id) {
            Some(row) if row.document_id == document_id => {}
            _ => return Err(self.missing("source_version", write.source_version_id)),
        }
        if !self.tables.decisions.contains_key(&write.review_decision_id) {
            return Err(self.missing("review_decision", write.review_decision_id));
        }
        if self.tables.change_sets.contains_key(&write.change_set_id) {
            return Err(self.conflict(format!("change set {} exists", write.change_set_id)));
        }
        let live = self.tables.change_sets.values().find(|set| {
            (set.source_version_id == write.source_version_id || set.idempotency_key == write.idempotency_key)
                && observe::is_live(&self.tables, set.change_set_id)
        });
        if let Some(live) = live {
            let message = format!(
                "source version {} has the live change set {} of {}",
                live.source_version_id, live.change_set_id, live.run_id
            );
            return Err(self.conflict(message));
        }
        self.tables.change_sets.insert(
            write.change_set_id,
            ChangeSetRow {
                change_set_id: write.change_set_id,
                run_id: self.cx.key.run_id.clone(),
                document_id,
                kind: "cut",
                idempotency_key: write.idempotency_key,
                entry_id: write.entry_id,
                source_version_id: write.source_version_id,
                review_decision_id: write.review_decision_id,
                writer_digest: write.writer_digest,
                manifest_digest: write.manifest_digest,
                region_sha: write.region_sha,
                publication_type: write.publication_type.clone(),
                at: self.cx.at,
            },
        );
        Ok(())
    }

    /// `fn_iu_create`.
    fn create_unit(&mut self, write: &LegAWrite, unit: &UnitWrite) -> PortResult<()> {
        let document_id = self.cx.fence.document_id.clone();
        let invalid = |message| self.error(PortErrorKind::Invalid, message);
        if Digest::of(&unit.content) != unit.content_hash {
            return Err(invalid(format!(
                "{}: content_hash is not the sha256 of the content: expected {}, observed {}",
                unit.canonical_address,
                Digest::of(&unit.content),
                unit.content_hash
            )));
        }
        if !observe::is_under(&unit.canonical_address, &document_id) {
            return Err(invalid(format!("{} is not an address of {document_id}", unit.canonical_address)));
        }
        let length = self.tables.versions.get(&write.source_version_id).map_or(0, |v| v.content.len() as u64);
        if unit.start > unit.end || unit.end > length {
            return Err(invalid(format!(
                "{}: the span {}..{} is not within the {length} bytes of the source",
                unit.canonical_address, unit.start, unit.end
            )));
        }
        let twin = self.tables.units.values().find(|u| {
            u.lifecycle_status != Lifecycle::Voided
                && (u.idempotency_key == unit.idempotency_key
                    || (u.source_version_id == write.source_version_id
                        && u.canonical_address == unit.canonical_address))
        });
        if let Some(twin) = twin {
            let message = format!("{} is live as unit {}", twin.canonical_address, twin.unit_id);
            return Err(self.conflict(message));
        }
        let taken = self.tables.units.values().any(|u| {
            u.unit_id == unit.unit_id || u.version_id == unit.version_id || u.anchor_id == unit.anchor_id
        });
        if taken {
            return Err(self.conflict(format!("a row id of unit {} exists", unit.unit_id)));
        }
        self.tables.units.insert(
            unit.unit_id,
            UnitRecord {
                unit_id: unit.unit_id,
                version_id: unit.version_id,
                anchor_id: unit.anchor_id,
                change_set_id: write.change_set_id,
                run_id: self.cx.key.run_id.clone(),
                document_id,
                source_version_id: write.source_version_id,
                ordinal: unit.ordinal,
                canonical_address: unit.canonical_address.clone(),
                citation_address: unit.citation_address.clone(),
                unit_kind: unit.unit_kind.clone(),
                section_type: unit.section_type.clone(),
                lifecycle_status: Lifecycle::Draft,
                start: unit.start,
                end: unit.end,
                content_hash: unit.content_hash,
                body_hash: unit.body_hash,
                idempotency_key: unit.idempotency_key,
                content: Arc::new(unit.content.clone()),
            },
        );
        Ok(())
    }

    fn signature(&self, change_set_id: Uuid, write: &SignatureWrite) -> PortResult<SignatureRow> {
        let principal = match write.duty.as_str() {
            "executor" => "cutter_exec",
            "verifier" => "cutter_verify",
            other => return Err(self.error(PortErrorKind::Invalid, format!("no duty is called {other:?}"))),
        };
        Ok(SignatureRow {
            signature_id: write.signature_id,
            change_set_id,
            run_id: self.cx.key.run_id.clone(),
            document_id: self.cx.fence.document_id.clone(),
            duty: write.duty.clone(),
            payload: write.payload.clone(),
            public_key: write.public_key.clone(),
            signature: write.signature.clone(),
            principal,
            at: self.cx.at,
        })
    }

    fn sign(&mut self, row: SignatureRow) -> PortResult<()> {
        if self.tables.signatures.contains_key(&row.signature_id) {
            return Err(self.conflict(format!("signature {} exists", row.signature_id)));
        }
        self.tables.signatures.insert(row.signature_id, row);
        Ok(())
    }

    /// The envelope, once per change set (G-LEG-B-ONCE).
    pub(super) fn leg_b(&mut self, write: &LegBWrite) -> PortResult<()> {
        let set = write.change_set_id;
        self.own_live_change_set(set)?;
        let taken = self
            .tables
            .envelopes
            .values()
            .any(|e| e.change_set_id == set || e.manifest_envelope_id == write.manifest_envelope_id);
        if taken {
            return Err(self.conflict(format!("leg B of change set {set} is recorded already")));
        }
        self.tables.envelopes.insert(
            write.manifest_envelope_id,
            EnvelopeRow {
                manifest_envelope_id: write.manifest_envelope_id,
                change_set_id: set,
                run_id: self.cx.key.run_id.clone(),
                document_id: self.cx.fence.document_id.clone(),
                executor_signature_id: write.executor_signature_id,
                envelope: write.envelope.clone(),
                unit_count: write.unit_count,
                at: self.cx.at,
            },
        );
        let envelopes = self.tables.envelopes.values().filter(|e| e.change_set_id == set).count();
        let sets = self.tables.change_sets.values().filter(|c| c.change_set_id == set).count();
        let signed = self
            .tables
            .signatures
            .get(&write.executor_signature_id)
            .is_some_and(|s| s.change_set_id == set && s.duty == "executor");
        let overlaps = self.lane_overlaps(set);
        self.put(fact::ENVELOPES, envelopes);
        self.put(fact::CHANGE_SETS, sets);
        self.put(fact::EXECUTOR_SIGNATURE, signed);
        self.put(fact::LANE_OVERLAPS, overlaps);
        self.put_status(write.entry_id);
        Ok(())
    }

    /// The change set exists, is not voided, and belongs to this run.
    pub(super) fn own_live_change_set(&self, set: Uuid) -> PortResult<()> {
        match self.tables.change_sets.get(&set) {
            None => Err(self.missing("cut_change_set", set)),
            Some(row) if row.run_id != self.cx.key.run_id => {
                Err(self.conflict(format!("change set {set} belongs to {}", row.run_id)))
            }
            Some(_) if !observe::is_live(&self.tables, set) => {
                Err(self.conflict(format!("change set {set} is voided")))
            }
            Some(_) => Ok(()),
        }
    }

    /// Other live change sets with an anchor over these spans in this version (D30).
    fn lane_overlaps(&self, set: Uuid) -> usize {
        let ours = observe::units_of(&self.tables, set);
        let Some(version) = ours.first().map(|u| u.source_version_id) else { return 0 };
        let others: BTreeSet<Uuid> = self
            .tables
            .units
            .values()
            .filter(|u| u.change_set_id != set && u.source_version_id == version)
            .filter(|u| ours.iter().any(|o| u.start < o.end && o.start < u.end))
            .map(|u| u.change_set_id)
            .filter(|id| observe::is_live(&self.tables, *id))
            .collect();
        others.len()
    }

    /// S6 → S7 → S8, or with `failing` S9, the compensating set and the escalation entry.
    pub(super) fn write_verify(&mut self, write: &WriteVerifyWrite, failing: bool) -> PortResult<()> {
        let set = write.change_set_id;
        self.own_live_change_set(set)?;
        match self.tables.envelopes.get(&write.manifest_envelope_id) {
            Some(envelope) if envelope.change_set_id == set => {}
            _ => return Err(self.missing("manifest_envelope", write.manifest_envelope_id)),
        }
        let taken = self
            .tables
            .verify_results
            .values()
            .any(|v| v.change_set_id == set || v.verify_result_id == write.verify_result_id);
        if taken {
            return Err(self.conflict(format!("change set {set} has a verify result already")));
        }
        self.structural =
            Some(observe::structural(&self.tables, set, &write.document_id, &write.forbidden_prefixes));
        self.tables.verify_results.insert(
            write.verify_result_id,
            VerifyRow {
                verify_result_id: write.verify_result_id,
                change_set_id: set,
                run_id: self.cx.key.run_id.clone(),
                document_id: self.cx.fence.document_id.clone(),
                manifest_envelope_id: write.manifest_envelope_id,
                passed: !failing,
                escalated: failing.then_some([write.compensating_id, write.escalation[0]]),
                principal: "cutter_verify",
                at: self.cx.at,
            },
        );
        let signed = if failing { &write.signature_fail } else { &write.signature_pass };
        let signature = self.signature(set, signed)?;
        self.sign(signature)?;
        let (to, reason) = if failing {
            (S::VerifyFailedEscalated, "verify failed")
        } else {
            (S::VerifiedComplete, "verified")
        };
        self.move_entry(
            write.entry_id,
            S::VerifyInProgress,
            write.history_ids[0],
            "verify started",
            Some(set),
        )?;
        self.move_entry(write.entry_id, to, write.history_ids[1], reason, Some(set))?;
        if failing {
            self.escalate(write)?;
        }
        let results = self.tables.verify_results.values().filter(|v| v.change_set_id == set).count();
        let executor = self
            .tables
            .signatures
            .values()
            .find(|s| s.change_set_id == set && s.duty == "executor")
            .map(|s| s.principal);
        self.put(fact::VERIFY_RESULTS, results);
        let refused = self.refusal.clone();
        self.put_rows(set, None);
        if failing {
            // a failure may be recorded over any rows
            self.refusal = refused;
        }
        if let Some(principal) = executor {
            self.put(fact::EXECUTOR_PRINCIPAL, principal);
        }
        self.follow_request()?;
        self.put_status(write.entry_id);
        Ok(())
    }

    fn escalate(&mut self, write: &WriteVerifyWrite) -> PortResult<()> {
        let Some(set) = self.tables.change_sets.get(&write.change_set_id).cloned() else {
            return Err(self.missing("cut_change_set", write.change_set_id));
        };
        let Some(failed) = self.tables.entries.get(&write.entry_id).cloned() else {
            return Err(self.missing("decision_backlog_entry", write.entry_id));
        };
        let compensation = ChangeSetRow {
            change_set_id: write.compensating_id,
            kind: "compensating",
            idempotency_key: Digest::of(format!("compensates {}", set.change_set_id).as_bytes()),
            at: self.cx.at,
            ..set
        };
        if self.tables.change_sets.contains_key(&write.compensating_id) {
            return Err(self.conflict(format!("change set {} exists", write.compensating_id)));
        }
        self.tables.change_sets.insert(write.compensating_id, compensation);
        let [entry_id, history_id] = write.escalation;
        let key = format!("escalates {} {}", failed.entry_id, write.verify_result_id);
        self.new_entry(
            EntryRow {
                entry_id,
                kind: "escalation",
                idempotency_key: Digest::of(key.as_bytes()),
                escalates: Some(failed.entry_id),
                status: S::Marked,
                ..failed
            },
            history_id,
            "escalated from a failed verify",
        )
    }
}
