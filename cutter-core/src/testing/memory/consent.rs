//! The writes around people's decisions: review, the request at SG_2, enactment, void.

use alloc::format;
use alloc::vec::Vec;

use uuid::Uuid;

use super::observe;
use super::rows::{ApprovalRow, DecisionRow, Lifecycle, LogRow, VoidRow};
use super::transaction::Tx;
use crate::base::key::{RowLabel, unit_id};
use crate::machine::backlog::BacklogState as S;
use crate::port::{PortErrorKind, PortResult};
use crate::record::effect::{
    EffectName, EnactWrite, ReviewVerdict, ReviewWrite, Sg2RequestWrite, VoidWrite, fact,
};

impl Tx<'_> {
    /// Stores a decision: approval always, `review_decision` for SG_1 and SG_3, the entry's
    /// move where the request brings a history id.
    pub(super) fn review(&mut self, write: &ReviewWrite) -> PortResult<()> {
        let sg2 = self.cx.key.effect == EffectName::Sg2Review;
        if sg2 != (write.decision_type == "lifecycle_enactment")
            || (self.cx.key.effect == EffectName::Sg1Review) != (write.decision_type == "cut_authorization")
        {
            let message = format!("a {} is not decided by {}", write.decision_type, self.cx.key.effect);
            return Err(self.error(PortErrorKind::Invalid, message));
        }
        if crate::base::digest::Digest::of(write.document.as_bytes()) != write.sha256 {
            return Err(
                self.error(PortErrorKind::Invalid, "sha256 is not the digest of the approval document")
            );
        }
        self.unused_approval(write)?;
        if let Some(id) = write.entry_id.filter(|id| !self.tables.entries.contains_key(id)) {
            return Err(self.missing("decision_backlog_entry", id));
        }
        if let Some(id) = write.change_set_id.filter(|id| !self.tables.change_sets.contains_key(id)) {
            return Err(self.missing("cut_change_set", id));
        }
        let known = self.tables.decisions.get(&write.review_decision_id);
        match (sg2, known) {
            (true, None) => return Err(self.missing("review_decision", write.review_decision_id)),
            (true, Some(row))
                if row.decision_type != write.decision_type || row.run_id != self.cx.key.run_id =>
            {
                let message =
                    format!("{} is a {} of {}", row.review_decision_id, row.decision_type, row.run_id);
                return Err(self.conflict(message));
            }
            (false, Some(row)) => {
                let message = format!("review decision {} of {} exists", row.review_decision_id, row.run_id);
                return Err(self.conflict(message));
            }
            (true, Some(_)) => {}
            (false, None) => {
                self.tables.decisions.insert(
                    write.review_decision_id,
                    DecisionRow {
                        review_decision_id: write.review_decision_id,
                        run_id: self.cx.key.run_id.clone(),
                        document_id: self.cx.fence.document_id.clone(),
                        decision_type: write.decision_type.clone(),
                        decision: Some(write.decision),
                        entry_id: write.entry_id,
                        change_set_id: write.change_set_id,
                        expected_actor: None,
                        unit_count: None,
                        unit_set_digest: None,
                        nonce: write.nonce.clone(),
                        request_sha256: write.request_sha256,
                        at: self.cx.at,
                    },
                );
            }
        }
        self.tables.approvals.insert(
            write.approval_id,
            ApprovalRow {
                approval_id: write.approval_id,
                review_decision_id: write.review_decision_id,
                run_id: self.cx.key.run_id.clone(),
                document_id: self.cx.fence.document_id.clone(),
                gate: write.decision_type.clone(),
                decision: write.decision,
                approval_kb_id: write.approval_kb_id.clone(),
                document: write.document.clone(),
                sha256: write.sha256,
                nonce: write.nonce.clone(),
                fingerprint: write.fingerprint.clone(),
                actor: write.actor.clone(),
                expires: write.expires,
                request_sha256: write.request_sha256,
                at: self.cx.at,
            },
        );
        if let (false, Some(entry_id), Some(history_id)) = (sg2, write.entry_id, write.history_id) {
            let to = match write.decision {
                // at SG_3 what was approved before is to be asked again
                _ if self.cx.key.effect == EffectName::Sg3Review => S::ReviewedDeferred,
                // what was approved once is not rejected any more, but it waits
                ReviewVerdict::Reject
                    if self.tables.entries.get(&entry_id).map(|e| e.status) == Some(S::ReviewedApproved) =>
                {
                    S::ReviewedDeferred
                }
                ReviewVerdict::Approve => S::ReviewedApproved,
                ReviewVerdict::Defer => S::ReviewedDeferred,
                ReviewVerdict::Reject => S::ReviewedRejected,
            };
            self.move_entry(entry_id, to, history_id, write.decision.as_str(), write.change_set_id)?;
        }
        if let Some(entry_id) = write.entry_id {
            self.put_status(entry_id);
        }
        Ok(())
    }

    /// An approval document is used once, by any run, and a nonce is approved once.
    fn unused_approval(&self, write: &ReviewWrite) -> PortResult<()> {
        for row in self.tables.approvals.values() {
            let what = if row.approval_id == write.approval_id {
                "id"
            } else if row.sha256 == write.sha256 {
                "document"
            } else if row.nonce == write.nonce
                && row.decision == ReviewVerdict::Approve
                && write.decision == ReviewVerdict::Approve
            {
                "nonce"
            } else {
                continue;
            };
            return Err(self.conflict(format!(
                "the approval's {what} was used before, by {} at {}",
                row.run_id, row.gate
            )));
        }
        Ok(())
    }

    /// The immutable request row.
    pub(super) fn sg2_request(&mut self, write: &Sg2RequestWrite) -> PortResult<()> {
        self.own_live_change_set(write.change_set_id)?;
        let id = write.review_decision_id;
        let earlier = self.tables.decisions.get(&id).map(|row| row.run_id.clone());
        self.put(fact::DECISION_REUSED, u64::from(earlier.is_some()));
        match earlier {
            Some(run) => self.refuse(format!("review decision {id} was used by {run}")),
            None => {
                self.tables.decisions.insert(
                    id,
                    DecisionRow {
                        review_decision_id: id,
                        run_id: self.cx.key.run_id.clone(),
                        document_id: self.cx.fence.document_id.clone(),
                        decision_type: "lifecycle_enactment".into(),
                        decision: None,
                        entry_id: Some(write.entry_id),
                        change_set_id: Some(write.change_set_id),
                        expected_actor: Some(write.expected_actor.clone()),
                        unit_count: Some(write.unit_count),
                        unit_set_digest: Some(write.unit_set_digest),
                        nonce: write.nonce.clone(),
                        request_sha256: write.request_sha256,
                        at: self.cx.at,
                    },
                );
            }
        }
        self.put_decision(id);
        self.put_status(write.entry_id);
        Ok(())
    }

    /// `fn_iu_enact` for every unit, each with its log row.
    pub(super) fn enact(&mut self, write: &EnactWrite) -> PortResult<()> {
        let set = write.change_set_id;
        self.own_live_change_set(set)?;
        if !self.tables.decisions.contains_key(&write.review_decision_id) {
            return Err(self.missing("review_decision", write.review_decision_id));
        }
        self.use_approval(write.approval_id);
        self.put_approval(write.approval_id, write.review_decision_id);
        self.put_decision(write.review_decision_id);
        let unit_set = observe::unit_set_digest(&self.tables, set);
        self.put_rows(set, Some(write.approval_id));
        let enacted = self.change_status(set, Lifecycle::Enacted)?;
        let not_enacted = observe::units_of(&self.tables, set)
            .iter()
            .filter(|u| u.lifecycle_status != Lifecycle::Enacted)
            .count();
        self.put(fact::ENACTED, enacted);
        self.put(fact::NOT_ENACTED, not_enacted);
        let logged = self.log_rows(set, Lifecycle::Enacted);
        self.put(fact::LOG_ROWS, logged);
        self.put(fact::UNIT_SET, unit_set);
        for name in [fact::TRIGGER_IU, fact::TRIGGER_UV] {
            if let Some(enabled) = self.catalogue.triggers.get(name) {
                self.put(name, enabled);
            }
        }
        let (role, grants) =
            (self.catalogue.replication_role.clone(), observe::json_digest(&self.catalogue.grants));
        self.put(fact::REPLICATION_ROLE, role);
        self.put(fact::GRANTS, grants);
        Ok(())
    }

    /// Moves the draft units of a change set; the log row's id follows from the change set.
    fn change_status(&mut self, set: Uuid, to: Lifecycle) -> PortResult<u64> {
        let drafts: Vec<(Uuid, u64)> = observe::units_of(&self.tables, set)
            .iter()
            .filter(|u| u.lifecycle_status == Lifecycle::Draft)
            .map(|u| (u.unit_id, u.ordinal))
            .collect();
        for (id, ordinal) in &drafts {
            let log_id = unit_id(set, RowLabel::Log, *ordinal);
            if self.tables.log.contains_key(&log_id) {
                return Err(self.conflict(format!("lifecycle log row {log_id} exists")));
            }
            if let Some(unit) = self.tables.units.get_mut(id) {
                unit.lifecycle_status = to;
            }
            self.tables.log.insert(
                log_id,
                LogRow {
                    log_id,
                    unit_id: *id,
                    change_set_id: set,
                    run_id: self.cx.key.run_id.clone(),
                    document_id: self.cx.fence.document_id.clone(),
                    from_status: Lifecycle::Draft,
                    to_status: to,
                    actor: self.cx.actor.clone(),
                    at: self.cx.at,
                },
            );
        }
        Ok(drafts.len() as u64)
    }

    fn log_rows(&self, set: Uuid, to: Lifecycle) -> usize {
        self.tables.log.values().filter(|l| l.change_set_id == set && l.to_status == to).count()
    }

    /// Forward compensation: rows are marked. A change set with enacted units is refused.
    pub(super) fn void(&mut self, write: &VoidWrite) -> PortResult<()> {
        self.use_approval(write.approval_id);
        let (mut voided, mut enacted, mut logged) = (0, 0, 0);
        if let Some(set) = write.change_set_id {
            self.own_live_change_set(set)?;
            enacted = observe::units_of(&self.tables, set)
                .iter()
                .filter(|u| u.lifecycle_status == Lifecycle::Enacted)
                .count();
            if enacted == 0 {
                voided = self.change_status(set, Lifecycle::Voided)?;
                self.add_void(write, set)?;
            } else {
                self.refuse(format!("change set {set} has {enacted} enacted units, which cannot be voided"));
            }
            logged = self.log_rows(set, Lifecycle::Voided);
        }
        if let Some([entry_id, history_id]) = write.entry {
            // somebody may have given the entry up meanwhile
            let is_given_up = self.tables.entries.get(&entry_id).is_some_and(|e| e.status == S::Abandoned);
            if enacted == 0 && !is_given_up {
                self.move_entry(entry_id, S::Abandoned, history_id, &write.reason, write.change_set_id)?;
            }
            self.put_status(entry_id);
        }
        if self.refusal.is_none() {
            self.follow_request()?;
        }
        self.put(fact::LOG_ROWS, logged);
        self.put(fact::VOIDED, voided);
        self.put(fact::ENACTED_UNITS, enacted);
        Ok(())
    }

    fn add_void(&mut self, write: &VoidWrite, change_set_id: Uuid) -> PortResult<()> {
        if self.tables.voids.contains_key(&write.void_id) {
            return Err(self.conflict(format!("void row {} exists", write.void_id)));
        }
        let row = VoidRow {
            void_id: write.void_id,
            change_set_id,
            run_id: self.cx.key.run_id.clone(),
            document_id: self.cx.fence.document_id.clone(),
            approval_id: write.approval_id,
            reason: write.reason.clone(),
            at: self.cx.at,
        };
        self.tables.voids.insert(write.void_id, row);
        Ok(())
    }
}
