//! Effects on a private copy of the tables: performed, observed, and (by the caller) swapped
//! in or thrown away.
//!
//! An error here is a broken contract or constraint; a failed invariant is a fact that a gate
//! judges. Where a fact says that an effect must not be committed (an approval used by
//! another effect, a review decision seen before, an enacted unit to be voided), the
//! transaction carries a *refusal* as well: committing it anyway is `Conflict`.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};

use uuid::Uuid;

use super::asks;
use super::observe::{self, Catalogue};
use super::rows::{ApprovalUseRow, HistoryRow, Tables};
use crate::gate::command::same_payload;
use crate::machine::backlog::{BACKLOG, BacklogState};
use crate::port::{Port, PortError, PortErrorKind, PortResult};
use crate::record::effect::{
    EffectContext, EffectFacts, EffectName, EffectRecord, ExecutorEffect, ReviewVerdict, ReviewWrite,
    Verdict, WriteVerifyWrite, fact,
};
use crate::record::observed::{Fence, StructuralFacts};

/// Any effect, of any principal.
#[derive(Debug, Clone)]
pub(super) enum Effect {
    Executor(ExecutorEffect),
    Review(ReviewWrite),
    WriteVerify(WriteVerifyWrite),
}

impl Effect {
    pub(super) const fn principal(&self) -> &'static str {
        match self {
            Self::Executor(_) => "cutter_exec",
            Self::Review(_) => "cutter_review",
            Self::WriteVerify(_) => "cutter_verify",
        }
    }

    fn may_be(&self, name: EffectName) -> bool {
        match self {
            Self::Executor(effect) => {
                name == match effect {
                    ExecutorEffect::Mark(_) => EffectName::Mark,
                    ExecutorEffect::Sweep(_) => EffectName::Sweep,
                    ExecutorEffect::LegA(_) => EffectName::LegA,
                    ExecutorEffect::LegB(_) => EffectName::LegB,
                    ExecutorEffect::Sg2Request(_) => EffectName::Sg2Request,
                    ExecutorEffect::Enact(_) => EffectName::Enact,
                    ExecutorEffect::Void(_) => EffectName::Void,
                }
            }
            Self::Review(_) => {
                matches!(name, EffectName::Sg1Review | EffectName::Sg2Review | EffectName::Sg3Review)
            }
            Self::WriteVerify(_) => name == EffectName::WriteVerify,
        }
    }
}

/// What performing an effect gave.
pub(super) enum Performed {
    Recorded(Box<EffectRecord>),
    Written(Box<Written>),
}

/// Tables as they would be after COMMIT, and what was seen in them.
pub(super) struct Written {
    pub(super) tables: Tables,
    pub(super) facts: EffectFacts,
    pub(super) refusal: Option<PortError>,
}

/// The transaction while an effect works in it.
pub(super) struct Tx<'a> {
    pub(super) tables: Tables,
    pub(super) catalogue: &'a Catalogue,
    pub(super) cx: &'a EffectContext,
    pub(super) values: BTreeMap<String, String>,
    pub(super) structural: Option<StructuralFacts>,
    pub(super) refusal: Option<PortError>,
}

/// Performs an effect on a copy of `tables`. `failing` asks for the failure's own rows
/// (write-verify only).
pub(super) fn perform(
    tables: &Tables,
    catalogue: &Catalogue,
    cx: &EffectContext,
    effect: &Effect,
    failing: bool,
) -> PortResult<Performed> {
    let op = format!("begin {}", cx.key.effect);
    let invalid =
        |message: String| PortError::new(Port::Database, op.clone(), PortErrorKind::Invalid, message);
    assert_fence(tables, &cx.fence, &op)?;
    if cx.key.run_id != cx.fence.run_id || cx.survey.run_id != cx.fence.run_id {
        return Err(invalid(format!(
            "expected one run in fence, key and survey, observed {}",
            cx.key.run_id
        )));
    }
    if !effect.may_be(cx.key.effect) {
        return Err(invalid(format!("the request is not an effect {}", cx.key.effect)));
    }
    if cx.deadline_ms == 0 {
        return Err(PortError::new(
            Port::Database,
            op,
            PortErrorKind::Deadline,
            "nothing is left of the cap",
        ));
    }
    if let Some(record) = tables.effects.get(&cx.key) {
        if same_payload(&record.payload_sha256, &cx.payload_sha256) {
            return Ok(Performed::Recorded(Box::new(record.clone())));
        }
        let message = format!(
            "{} occurrence {} of {} stands with payload {}, asked for {}",
            cx.key.effect, cx.key.occurrence, cx.key.run_id, record.payload_sha256, cx.payload_sha256
        );
        return Err(PortError::new(Port::Database, op, PortErrorKind::Conflict, message));
    }
    let may_follow_end = matches!(cx.key.effect, EffectName::Sg3Review | EffectName::Void);
    if let Some(why) = tables.ended_runs.get(&cx.key.run_id).filter(|_| !may_follow_end) {
        let message =
            format!("run {} is over ({why}): no {} of it is stored any more", cx.key.run_id, cx.key.effect);
        return Err(PortError::new(Port::Database, op, PortErrorKind::Conflict, message));
    }
    let survey_before = observe::survey(tables, catalogue, &cx.survey);
    let mut struck = catalogue.clone();
    struck.strike(cx.key.effect);
    let mut tx = Tx {
        tables: tables.clone(),
        catalogue: &struck,
        cx,
        values: BTreeMap::new(),
        structural: None,
        refusal: None,
    };
    match effect {
        Effect::Executor(ExecutorEffect::Mark(write)) => tx.mark(write)?,
        Effect::Executor(ExecutorEffect::Sweep(write)) => tx.sweep(write)?,
        Effect::Executor(ExecutorEffect::LegA(write)) => tx.leg_a(write)?,
        Effect::Executor(ExecutorEffect::LegB(write)) => tx.leg_b(write)?,
        Effect::Executor(ExecutorEffect::Sg2Request(write)) => tx.sg2_request(write)?,
        Effect::Executor(ExecutorEffect::Enact(write)) => tx.enact(write)?,
        Effect::Executor(ExecutorEffect::Void(write)) => tx.void(write)?,
        Effect::Review(write) => tx.review(write)?,
        Effect::WriteVerify(write) => tx.write_verify(write, failing)?,
    }
    let facts = EffectFacts {
        survey_before,
        survey_after: observe::survey(&tx.tables, &struck, &cx.survey),
        principal: effect.principal().to_string(),
        values: tx.values,
        structural: tx.structural,
    };
    Ok(Performed::Written(Box::new(Written { tables: tx.tables, facts, refusal: tx.refusal })))
}

/// The first statement of every writing transaction (PROTOCOL §3).
pub(super) fn assert_fence(tables: &Tables, fence: &Fence, op: &str) -> PortResult<()> {
    match tables.fences.get(&fence.run_id) {
        Some(row)
            if row.epoch == fence.epoch
                && row.holder == fence.holder
                && row.document_id == fence.document_id =>
        {
            Ok(())
        }
        row => {
            let observed = row.map_or("no fence".to_string(), |r| format!("epoch {}", r.epoch));
            let message = format!("expected epoch {} of {}, observed {observed}", fence.epoch, fence.run_id);
            Err(PortError::new(Port::Database, op, PortErrorKind::Fenced, message))
        }
    }
}

/// Adds the effect's own row.
pub(super) fn record(
    tables: &mut Tables,
    cx: &EffectContext,
    facts: EffectFacts,
    verdict: Verdict,
) -> EffectRecord {
    let record = EffectRecord {
        key: cx.key.clone(),
        effect_id: cx.effect_id,
        fence_epoch: cx.fence.epoch,
        payload_sha256: cx.payload_sha256,
        verdict,
        facts,
        at: cx.at,
    };
    tables.effects.insert(cx.key.clone(), record.clone());
    record
}

impl Tx<'_> {
    pub(super) fn error(&self, kind: PortErrorKind, message: impl Into<String>) -> PortError {
        PortError::new(Port::Database, format!("begin {}", self.cx.key.effect), kind, message)
    }

    pub(super) fn conflict(&self, message: impl Into<String>) -> PortError {
        self.error(PortErrorKind::Conflict, message)
    }

    pub(super) fn missing(&self, table: &str, id: impl core::fmt::Display) -> PortError {
        self.error(PortErrorKind::NotFound, format!("no row {id} in {table}"))
    }

    pub(super) fn put(&mut self, name: &str, value: impl ToString) {
        self.values.insert(name.to_string(), value.to_string());
    }

    /// Committing this transaction would break a constraint.
    pub(super) fn refuse(&mut self, message: impl Into<String>) {
        if self.refusal.is_none() && !self.catalogue.guards_dropped {
            self.refusal = Some(PortError::new(
                Port::Database,
                format!("finish {}", self.cx.key.effect),
                PortErrorKind::Conflict,
                message,
            ));
        }
    }

    /// Compare-and-set of an entry's status with its history row.
    pub(super) fn move_entry(
        &mut self,
        entry_id: Uuid,
        to: BacklogState,
        history_id: Uuid,
        reason: &str,
        change_set_id: Option<Uuid>,
    ) -> PortResult<()> {
        let Some(entry) = self.tables.entries.get(&entry_id) else {
            return Err(self.missing("decision_backlog_entry", entry_id));
        };
        if entry.run_id != self.cx.key.run_id {
            return Err(self.conflict(format!("entry {entry_id} belongs to {}", entry.run_id)));
        }
        let from = entry.status;
        BACKLOG.check(from, to).map_err(|illegal| self.conflict(illegal.to_string()))?;
        let document_id = entry.document_id.clone();
        self.add_history(entry_id, document_id, Some(from), to, history_id, reason, change_set_id)?;
        if let Some(entry) = self.tables.entries.get_mut(&entry_id) {
            entry.status = to;
        }
        Ok(())
    }

    /// Appends a history row; its id must be new.
    #[allow(clippy::too_many_arguments)]
    pub(super) fn add_history(
        &mut self,
        entry_id: Uuid,
        document_id: String,
        from: Option<BacklogState>,
        to: BacklogState,
        history_id: Uuid,
        reason: &str,
        change_set_id: Option<Uuid>,
    ) -> PortResult<()> {
        if self.tables.history.iter().any(|row| row.history_id == history_id) {
            return Err(self.conflict(format!("history row {history_id} exists")));
        }
        self.tables.history.push(HistoryRow {
            history_id,
            entry_id,
            run_id: self.cx.key.run_id.clone(),
            document_id,
            from_state: from,
            to_state: to,
            actor: self.cx.actor.clone(),
            reason: reason.to_string(),
            at: self.cx.at,
            change_set_id,
        });
        Ok(())
    }

    /// Puts the entry's status among the facts.
    pub(super) fn put_status(&mut self, entry_id: Uuid) {
        if let Some(entry) = self.tables.entries.get(&entry_id) {
            let status = entry.status.as_str();
            self.put(fact::ENTRY_STATUS, status);
        }
    }

    /// Binds an approval of this run and of the effect's kind to this effect, once and for all.
    /// Anything else is a fact (`false`) that a gate refuses, and a commit that is refused.
    pub(super) fn use_approval(&mut self, approval_id: Uuid) {
        let key = self.cx.key.clone();
        let kind = match key.effect {
            EffectName::LegA => "cut_authorization",
            EffectName::Enact => "lifecycle_enactment",
            _ => "void",
        };
        let fits =
            self.tables.approvals.get(&approval_id).is_some_and(|a| a.run_id == key.run_id && a.gate == kind);
        let used = self.tables.approval_uses.get(&approval_id).map(|row| row.used_by.clone());
        let here = fits && used.as_ref().is_none_or(|by| *by == key);
        self.put(fact::APPROVAL_USED_HERE, here);
        if here {
            let row = ApprovalUseRow {
                approval_id,
                run_id: key.run_id.clone(),
                document_id: self.cx.fence.document_id.clone(),
                used_by: key,
            };
            self.tables.approval_uses.insert(approval_id, row);
        } else {
            let why = used.map_or("does not fit here".to_string(), |by| format!("was used by {}", by.effect));
            self.refuse(format!("approval {approval_id} {why}"));
        }
        let consents =
            self.tables.approvals.get(&approval_id).is_some_and(|a| a.decision == ReviewVerdict::Approve);
        if !consents {
            self.refuse(format!("approval {approval_id} does not approve"));
        }
        if let Err(why) = asks::heard(&self.tables, &self.cx.key, approval_id) {
            self.refuse(why);
        }
    }

    /// Puts what the approval says among the facts.
    pub(super) fn put_approval(&mut self, approval_id: Uuid, review_decision_id: Uuid) {
        let Some(approval) = self.tables.approvals.get(&approval_id) else { return };
        if approval.review_decision_id != review_decision_id {
            return;
        }
        let (decision, actor) = (approval.decision.as_str(), approval.actor.clone());
        self.put(fact::APPROVAL_DECISION, decision);
        self.put(fact::APPROVAL_ACTOR, actor);
    }

    /// Puts the digest of the rows as they are stored among the facts. If the consent names other
    /// rows (SG_1's, unless one is given), committing is refused.
    pub(super) fn put_rows(&mut self, set: Uuid, consent: Option<Uuid>) {
        let Some(observed) = observe::rows_digest(&self.tables, set) else { return };
        let decision = self.tables.change_sets.get(&set).map(|row| row.review_decision_id);
        let named = self.tables.approvals.values().find(|a| match consent {
            Some(id) => a.approval_id == id,
            None => Some(a.review_decision_id) == decision,
        });
        if named.and_then(|a| crate::record::approval::named_rows(&a.document)) != Some(observed) {
            self.refuse(format!("the consent does not name the rows {observed}"));
        }
        self.put(fact::ROWS_DIGEST, observed);
    }

    /// Puts what the request row says among the facts.
    pub(super) fn put_decision(&mut self, review_decision_id: Uuid) {
        let Some(row) = self.tables.decisions.get(&review_decision_id) else { return };
        let (kind, actor) = (row.decision_type.clone(), row.expected_actor.clone().unwrap_or_default());
        self.put(fact::DECISION_TYPE, kind);
        self.put(fact::EXPECTED_ACTOR, actor);
    }
}
