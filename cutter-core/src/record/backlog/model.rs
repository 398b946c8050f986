//! The executable model that the tests run: entries in a map, judged and written.

use std::collections::BTreeMap;
use std::string::ToString;
use std::vec::Vec;

use jiff::Timestamp;
use uuid::Uuid;

use super::*;
use crate::machine::backlog::BacklogState as S;

pub(super) const EXECUTOR: &str = "cutter_exec";
pub(super) const VERIFIER: &str = "cutter_verify";

pub(super) fn uuid(n: u64) -> Uuid {
    Uuid::from_u128(0x0190_0000_0000_7000_8000_0000_0000_0000 + u128::from(n))
}

pub(super) fn manifest() -> Digest {
    Digest::of(b"manifest")
}

/// The executable model: what a database does with a judgement, all of it or nothing.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Model {
    pub(super) entries: BTreeMap<Uuid, Entry>,
    pub(super) ids: u64,
    pub(super) clock: i64,
}

impl Model {
    pub(super) fn id(&mut self) -> Uuid {
        self.ids += 1;
        uuid(self.ids)
    }

    pub(super) fn mark(&mut self, escalates: Option<Uuid>, depends_on: &[Uuid]) -> Uuid {
        let entry_id = self.id();
        let key = Digest::of(entry_id.as_bytes());
        let depends_on = depends_on.iter().map(|&entry_id| Dependency { entry_id, status: Some(S::Marked) });
        let mark = Mark {
            entry_id,
            idempotency_key: key,
            manifest_digest: manifest(),
            depends_on: depends_on.collect(),
        };
        assert_eq!(judge_mark(None, &mark), Judgement::Apply(Vec::new()));
        let mut entry = Entry {
            entry_id,
            status: S::Marked,
            idempotency_key: key,
            manifest_digest: manifest(),
            escalates,
            depends_on: mark.depends_on.clone(),
            history: Vec::new(),
            promotions: 0,
            stop_answers: 0,
            decisions: Vec::new(),
            change_sets: Vec::new(),
            signatures: Vec::new(),
        };
        self.write(&mut entry, None, S::Marked, "marked", None);
        assert_eq!(judge_mark(Some(&entry), &mark), Judgement::Replay(Some(entry_id)));
        self.entries.insert(entry_id, entry);
        entry_id
    }

    pub(super) fn write(
        &mut self,
        entry: &mut Entry,
        from: Option<S>,
        to: S,
        reason: &str,
        set: Option<Uuid>,
    ) {
        let row = HistoryRow {
            history_id: self.id(),
            from_state: from,
            to_state: to,
            actor: "someone".to_string(),
            reason: reason.to_string(),
            at: Timestamp::from_second(self.clock).unwrap(),
            change_set_id: set,
        };
        entry.status = to;
        entry.history.push(row);
    }

    /// The entry as a transaction would read it, its dependencies included.
    pub(super) fn read(&self, id: Uuid) -> Entry {
        let mut entry = self.entries[&id].clone();
        for dependency in &mut entry.depends_on {
            dependency.status = self.entries.get(&dependency.entry_id).map(|e| e.status);
        }
        entry
    }

    pub(super) fn ask(&mut self, id: Uuid, operation: &Operation) -> Judgement {
        let mut entry = self.read(id);
        let judgement = judge(&entry, operation);
        let Judgement::Apply(moves) = &judgement else { return judgement };
        self.clock += 1;
        let (mut set, mut reason) = (None, "asked for".to_string());
        match operation {
            Operation::Sweep | Operation::Requeue => entry.promotions += 1,
            Operation::Review { decision_id, verdict, has_consent, .. } => {
                let row = Decision { id: *decision_id, verdict: *verdict, has_consent: *has_consent };
                entry.decisions.push(row);
            }
            Operation::Cut { change_set_id, review_decision_id } => {
                set = Some(*change_set_id);
                entry.change_sets.push(ChangeSet {
                    change_set_id: *change_set_id,
                    review_decision_id: *review_decision_id,
                    is_live: true,
                    envelope_id: None,
                    verdict: None,
                });
                let signature_id = self.id();
                entry.signatures.push(signature(signature_id, *change_set_id, Duty::Executor, EXECUTOR));
            }
            Operation::RecordLegB { envelope_id, change_set_id } => {
                let found = entry.change_sets.iter_mut().find(|s| s.change_set_id == *change_set_id);
                found.unwrap().envelope_id = Some(*envelope_id);
            }
            Operation::Verify {
                verify_result_id,
                change_set_id,
                principal,
                has_passed,
                compensating_id,
                escalation_entry_id,
            } => {
                set = Some(*change_set_id);
                let found = entry.change_sets.iter_mut().find(|s| s.change_set_id == *change_set_id);
                found.unwrap().verdict = Some(VerifyResult {
                    id: *verify_result_id,
                    has_passed: *has_passed,
                    compensating_id: *compensating_id,
                    escalation_entry_id: *escalation_entry_id,
                });
                let signature_id = self.id();
                entry.signatures.push(signature(signature_id, *change_set_id, Duty::Verifier, principal));
            }
            Operation::Abandon { reason: why } => reason.clone_from(why),
        }
        for step in moves {
            assert_eq!(step.from, entry.status, "compare-and-set");
            self.write(&mut entry, Some(step.from), step.to, &reason, set);
        }
        self.entries.insert(id, entry);
        judgement
    }
}

pub(super) fn signature(signature_id: Uuid, change_set_id: Uuid, duty: Duty, principal: &str) -> Signature {
    Signature { signature_id, change_set_id, duty, principal: principal.to_string() }
}

pub(super) fn review(decision_id: Uuid, verdict: ReviewVerdict) -> Operation {
    Operation::Review { decision_id, verdict, manifest_digest: manifest(), has_consent: true }
}

pub(super) fn verify(id: u64, set: Uuid, has_passed: bool) -> Operation {
    Operation::Verify {
        verify_result_id: uuid(id),
        change_set_id: set,
        principal: VERIFIER.to_string(),
        has_passed,
        compensating_id: (!has_passed).then(|| uuid(id + 1)),
        escalation_entry_id: (!has_passed).then(|| uuid(id + 2)),
    }
}
