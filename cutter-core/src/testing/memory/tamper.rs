//! What whoever owns the database does to its rows, past every port and guard; and worlds side by side.

use alloc::string::ToString;
use alloc::sync::Arc;
use alloc::vec::Vec;

use uuid::Uuid;

use super::rows::{ApprovalUseRow, Lifecycle, Tables};
use super::run_store::Runs;
use super::world::{Data, World};
use crate::base::digest::Digest;
use crate::base::id::RunId;
use crate::machine::backlog::BacklogState;
use crate::record::effect::ReviewVerdict;
use crate::record::effect::{EffectKey, EffectName};
use crate::record::observed::Fence;

/// A change of one row of a run, as a superuser makes it with triggers off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tamper {
    /// Another text in a unit, its hash computed again.
    UnitText,
    /// Another kind.
    UnitKind,
    /// Another section type.
    UnitSection,
    /// Another citation address.
    UnitCitation,
    /// Every draft unit is called enacted.
    UnitsEnacted,
    /// A unit is gone.
    UnitDropped,
    /// A row of the lifecycle's log is gone.
    LogDropped,
    /// An approval of a gate becomes one of the other gate.
    ApprovalMoved,
    /// A decision that was no becomes yes.
    ApprovalDecision,
    /// An approval is gone.
    ApprovalDropped,
    /// An approval is used by the enactment, although that never happened.
    UseAdded,
    /// What used an approval is forgotten.
    UseDropped,
    /// Every answer that was heard is forgotten.
    AnswersDropped,
    /// An ask names the rows as they stand.
    AskRows,
    /// An executor's or verifier's signature is zeros.
    SignatureZeroed,
    /// The verdict on what was written is turned round.
    VerdictTurned,
    /// The backlog entry is called verified.
    EntryVerified,
    /// An effect never happened.
    EffectDropped,
    /// The text that was cut is another one, its hash computed again.
    SourceText,
}

impl Tamper {
    /// All of them.
    pub const ALL: [Self; 19] = [
        Self::UnitText,
        Self::UnitKind,
        Self::UnitSection,
        Self::UnitCitation,
        Self::UnitsEnacted,
        Self::UnitDropped,
        Self::LogDropped,
        Self::ApprovalMoved,
        Self::ApprovalDecision,
        Self::ApprovalDropped,
        Self::UseAdded,
        Self::UseDropped,
        Self::AnswersDropped,
        Self::AskRows,
        Self::SignatureZeroed,
        Self::VerdictTurned,
        Self::EntryVerified,
        Self::EffectDropped,
        Self::SourceText,
    ];
}

/// The nth of some, round and round.
fn nth<T>(all: Vec<T>, n: usize) -> Option<T> {
    let n = n.checked_rem(all.len())?;
    all.into_iter().nth(n)
}

impl World {
    /// Another world that stands exactly as this one does, its locks free.
    #[must_use]
    pub fn fork(&self) -> Self {
        let inner = self.lock();
        let data = &inner.data;
        let copy = Data {
            seed: data.seed,
            now: data.now,
            tables: data.tables.clone(),
            commits: data.commits,
            catalogue: data.catalogue.clone(),
            alterations: data.alterations,
            documents: data.documents.clone(),
            runs: Runs::copied(&data.runs),
            backups: data.backups.clone(),
            commands: data.commands.clone(),
            keys: data.keys.clone(),
            policy: data.policy.clone(),
        };
        drop(inner);
        Self::of(copy)
    }

    /// The fence of a run, which every login may read.
    #[must_use]
    pub fn fence(&self, run_id: &RunId) -> Option<Fence> {
        let inner = self.lock();
        inner.data.tables.fences.get(run_id).map(|row| Fence {
            run_id: run_id.clone(),
            document_id: row.document_id.clone(),
            epoch: row.epoch,
            holder: row.holder,
        })
    }

    /// Drops the owner's triggers: what only a trigger refuses is committed from now on.
    pub fn drop_guards(&self) {
        self.lock().data.catalogue.guards_dropped = true;
    }

    /// Changes the nth row of a run that fits. Returns whether there was one.
    pub fn tamper(&self, run_id: &RunId, what: Tamper, n: usize) -> bool {
        let mut inner = self.lock();
        inner.data.alterations += 1;
        tamper(&mut inner.data.tables, run_id, what, n).is_some()
    }
}

fn unit<'t>(tables: &'t mut Tables, run_id: &RunId, n: usize) -> Option<&'t mut super::rows::UnitRecord> {
    nth(tables.units.values_mut().filter(|u| u.run_id == *run_id).collect(), n)
}

fn tamper(tables: &mut Tables, run_id: &RunId, what: Tamper, n: usize) -> Option<()> {
    let approvals = |tables: &Tables| -> Vec<Uuid> {
        tables.approvals.values().filter(|a| a.run_id == *run_id).map(|a| a.approval_id).collect()
    };
    match what {
        Tamper::UnitText => {
            let unit = unit(tables, run_id, n)?;
            unit.content = Arc::new(b"Something else.\n".to_vec());
            unit.content_hash = Digest::of(&unit.content);
        }
        Tamper::UnitKind => unit(tables, run_id, n)?.unit_kind.push('x'),
        Tamper::UnitSection => unit(tables, run_id, n)?.section_type.push('x'),
        Tamper::UnitCitation => unit(tables, run_id, n)?.citation_address = Some("X/art-9".to_string()),
        Tamper::UnitsEnacted => {
            let drafts = tables.units.values_mut();
            let drafts = drafts.filter(|u| u.run_id == *run_id && u.lifecycle_status == Lifecycle::Draft);
            let mut changed = 0;
            for unit in drafts {
                unit.lifecycle_status = Lifecycle::Enacted;
                changed += 1;
            }
            return (changed > 0).then_some(());
        }
        Tamper::UnitDropped => {
            let id = unit(tables, run_id, n)?.unit_id;
            tables.units.remove(&id)?;
        }
        Tamper::LogDropped => {
            let all = tables.log.values().filter(|l| l.run_id == *run_id).map(|l| l.log_id).collect();
            tables.log.remove(&nth(all, n)?)?;
        }
        Tamper::ApprovalMoved => {
            let row = tables.approvals.get_mut(&nth(approvals(tables), n)?)?;
            let other =
                if row.gate == "cut_authorization" { "lifecycle_enactment" } else { "cut_authorization" };
            row.gate = other.to_string();
        }
        Tamper::ApprovalDecision => {
            tables.approvals.get_mut(&nth(approvals(tables), n)?)?.decision = ReviewVerdict::Approve;
        }
        Tamper::ApprovalDropped => {
            tables.approvals.remove(&nth(approvals(tables), n)?)?;
        }
        Tamper::UseAdded => {
            let approval = tables.approvals.get(&nth(approvals(tables), n)?)?;
            let used_by = EffectKey { run_id: run_id.clone(), effect: EffectName::Enact, occurrence: 1 };
            let row = ApprovalUseRow {
                approval_id: approval.approval_id,
                run_id: run_id.clone(),
                document_id: approval.document_id.clone(),
                used_by,
            };
            tables.approval_uses.insert(row.approval_id, row);
        }
        Tamper::UseDropped => {
            tables.approval_uses.remove(&nth(approvals(tables), n)?)?;
        }
        Tamper::AnswersDropped => {
            let own = tables.asks.iter_mut().filter(|((run, ..), _)| run == run_id);
            let mut forgotten = 0;
            for (_, ask) in own {
                forgotten += ask.answers.len();
                ask.answers.clear();
            }
            return (forgotten > 0).then_some(());
        }
        Tamper::AskRows => {
            let sets = tables.change_sets.values().filter(|c| c.run_id == *run_id);
            let set = nth(sets.map(|c| c.change_set_id).collect(), n)?;
            let rows = super::observe::rows_digest(tables, set)?;
            let own = tables.asks.iter_mut().filter(|((run, ..), _)| run == run_id);
            for (_, ask) in own {
                ask.asked
                    .ask
                    .required
                    .insert(crate::record::approval::field::ROWS_DIGEST.to_string(), rows.to_hex());
            }
        }
        Tamper::SignatureZeroed => {
            let all = tables.signatures.values_mut().filter(|s| s.run_id == *run_id).collect();
            nth::<&mut super::rows::SignatureRow>(all, n)?.signature = "00".repeat(64);
        }
        Tamper::VerdictTurned => {
            let all = tables.verify_results.values_mut().filter(|v| v.run_id == *run_id).collect();
            let row = nth::<&mut super::rows::VerifyRow>(all, n)?;
            row.passed = !row.passed;
        }
        Tamper::EntryVerified => {
            let all = tables.entries.values_mut().filter(|e| e.run_id == *run_id).collect();
            nth::<&mut super::rows::EntryRow>(all, n)?.status = BacklogState::VerifiedComplete;
        }
        Tamper::EffectDropped => {
            let all = tables.effects.keys().filter(|key| key.run_id == *run_id).cloned().collect();
            tables.effects.remove(&nth(all, n)?)?;
        }
        Tamper::SourceText => {
            let cut: Vec<Uuid> = tables
                .entries
                .values()
                .filter(|e| e.run_id == *run_id)
                .map(|e| e.source_version_id)
                .collect();
            let row = tables.versions.get_mut(&nth(cut, n)?)?;
            let mut text = row.content.to_vec();
            text.extend_from_slice(b"\n## Article 99\n\nAnything goes.\n");
            (row.sha256, row.content) = (Digest::of(&text), Arc::new(text));
        }
    }
    Some(())
}
