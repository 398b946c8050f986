//! Asks and the answers to them, in the model.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use jiff::Timestamp;
use uuid::Uuid;

use super::observe::Catalogue;
use super::rows::{ApprovalRow, EntryRow, Tables};
use super::transaction::{Effect, Performed, Written, perform, record as effect_row};
use crate::base::id::RunId;
use crate::base::key::refusal_id;
use crate::machine::backlog::BacklogState;
use crate::machine::run::GateId;
use crate::port::{Port, PortError, PortErrorKind, PortResult};
use crate::record::approval::{field, named_rows, parse_field};
use crate::record::ask::{AnswerWrite, AskWrite, DecisionWrite, OpenAsk, StoredAnswer, StoredAsk};
use crate::record::effect::{EffectContext, EffectKey, EffectName, ReviewVerdict, Verdict};
use crate::record::intent::IdName;
use crate::record::observed::{Fence, SurveyScope};

fn error(op: &str, kind: PortErrorKind, message: String) -> PortError {
    PortError::new(Port::Database, op, kind, message)
}

/// Stores an ask; the fence was asserted.
pub(super) fn open(tables: &mut Tables, fence: &Fence, write: &AskWrite) -> PortResult<()> {
    let (ask, op) = (&write.ask, "open_ask");
    let required = |key: &str| ask.required.get(key).map(String::as_str);
    let own = required(field::RUN_ID) == Some(fence.run_id.as_str())
        && required(field::DOCUMENT_ID) == Some(fence.document_id.as_str());
    let named =
        [field::NONCE, field::REQUEST_SHA256, field::ROWS_DIGEST].iter().all(|k| required(k).is_some());
    let nonce_taken = tables.asks.iter().any(|((run, gate, n), stored)| {
        stored.asked.ask.required.get(field::NONCE) == ask.required.get(field::NONCE)
            && (run, gate, n) != (&fence.run_id, &ask.gate, &ask.occurrence)
    });
    if !own || !named || nonce_taken {
        let message =
            format!("{} asks for another run, or names no rows, request or nonce of its own", ask.gate);
        return Err(error(op, PortErrorKind::Conflict, message));
    }
    let key = (fence.run_id.clone(), ask.gate, ask.occurrence);
    let new = StoredAsk { asked: write.clone(), closed: false, answers: Vec::new() };
    let mut begun = tables
        .asks
        .iter()
        .filter(|((run, ..), _)| *run == fence.run_id)
        .filter_map(|(_, s)| s.asked.begun.as_ref());
    if write.begun.as_ref().is_some_and(|own| begun.any(|other| other != own)) {
        let message = format!("{} was begun with other settings, or by another statement", fence.run_id);
        return Err(error(op, PortErrorKind::Conflict, message));
    }
    let past = |effect: &EffectName| match effect {
        EffectName::Void | EffectName::Enact => true,
        EffectName::LegA => ask.gate == GateId::CutAuthz,
        _ => false,
    };
    let done =
        tables.effects.iter().filter(|(of, r)| of.run_id == fence.run_id && r.verdict == Verdict::Commit);
    let is_past = done.into_iter().any(|(of, _)| past(&of.effect));
    let is_same = tables.asks.get(&key).is_some_and(|stored| stored.asked.ask == *ask);
    if !is_same && (is_past || tables.ended_runs.contains_key(&fence.run_id)) {
        let message = format!("{} is over, or past {}: it asks nothing there", fence.run_id, ask.gate);
        return Err(error(op, PortErrorKind::Conflict, message));
    }
    let stored = tables.asks.entry(key).or_insert(new);
    if stored.asked.ask == *ask {
        stored.asked.begun = stored.asked.begun.take().or_else(|| write.begun.clone());
        return Ok(());
    }
    let message = format!("{} asked otherwise at {} occurrence {}", fence.run_id, ask.gate, ask.occurrence);
    Err(error(op, PortErrorKind::Conflict, message))
}

/// Stores answers, late where the ask had closed before.
pub(super) fn record(tables: &mut Tables, run_id: &RunId, answers: &[AnswerWrite]) -> PortResult<()> {
    let op = "record_answers";
    let key = |answer: &AnswerWrite| (run_id.clone(), answer.gate, answer.occurrence);
    let late: Vec<bool> = answers.iter().map(|answer| closed(tables, &key(answer))).collect();
    for (answer, late) in answers.iter().zip(late) {
        let Some(stored) = tables.asks.get_mut(&key(answer)) else {
            let message = format!("{run_id} has no ask at {} occurrence {}", answer.gate, answer.occurrence);
            return Err(error(op, PortErrorKind::NotFound, message));
        };
        let nonce = stored.asked.ask.required.get(field::NONCE).map(String::as_str);
        let names = |name: &str| parse_field(&answer.document, name);
        if names(field::NONCE) != nonce || names("decision") != Some(answer.decision.as_str()) {
            let message = "the document of an answer names another nonce or decision".to_string();
            return Err(error(op, PortErrorKind::Denied, message));
        }
        if stored.answers.iter().all(|a| a.answer.sha256() != answer.sha256()) {
            stored.answers.push(StoredAnswer { answer: answer.clone(), late, recorded_at: None });
        }
    }
    Ok(())
}

/// Whether an ask's answer has been carried out, it was refused, or it was asked anew.
pub(super) fn closed(tables: &Tables, key: &(RunId, GateId, u32)) -> bool {
    let Some(stored) = tables.asks.get(key) else { return false };
    let nonce = stored.asked.ask.required.get(field::NONCE);
    let used = tables.approvals.values().any(|a| {
        a.run_id == key.0 && Some(&a.nonce) == nonce && tables.approval_uses.contains_key(&a.approval_id)
    });
    used || stored.refusal().is_some() || asked_anew(tables, stored)
}

fn asked_anew(tables: &Tables, stored: &StoredAsk) -> bool {
    let ask = &stored.asked.ask;
    let run = ask.required.get(field::RUN_ID);
    tables.asks.keys().any(|(r, gate, n)| {
        Some(r.as_str()) == run.map(String::as_str) && *gate == ask.gate && *n > ask.occurrence
    })
}

/// The asks that may still be decided, or were and nothing relied on it.
pub(super) fn open_asks(tables: &Tables, now: Timestamp) -> Vec<OpenAsk> {
    let is_open = |stored: &&StoredAsk, run: &RunId| {
        let nonce = stored.asked.ask.required.get(field::NONCE);
        let own = |a: &&ApprovalRow| a.run_id == *run && Some(&a.nonce) == nonce;
        let used =
            tables.approvals.values().filter(own).any(|a| tables.approval_uses.contains_key(&a.approval_id));
        let over = tables.ended_runs.contains_key(run)
            || tables.effects.keys().any(|key| key.run_id == *run && key.effect == EffectName::Void);
        !used && !over && !asked_anew(tables, stored)
    };
    let of = |((run_id, gate, occurrence), stored): (&(RunId, GateId, u32), &StoredAsk)| {
        let nonce = stored.asked.ask.required.get(field::NONCE);
        let decisions = tables.approvals.values().filter(|a| a.run_id == *run_id && Some(&a.nonce) == nonce);
        let decisions: Vec<ReviewVerdict> = decisions.map(|a| a.decision).collect();
        let refused = decisions.iter().find(|d| **d != ReviewVerdict::Approve);
        let entry = own_entry(tables, run_id);
        let set = tables.change_sets.values().find(|c| c.run_id == *run_id && c.kind == "cut");
        let is_cut = *gate == GateId::CutAuthz;
        OpenAsk {
            run_id: run_id.clone(),
            gate: *gate,
            occurrence: *occurrence,
            recorded_at: now,
            decided: refused.or(decisions.first()).copied(),
            entry: entry.map(|e| (e.entry_id, e.status.as_str().to_string())),
            change_set_id: set.filter(|_| !is_cut).map(|c| c.change_set_id),
            version_no: entry.and_then(|e| Some(tables.versions.get(&e.source_version_id)?.version_no)),
        }
    };
    tables.asks.iter().filter(|((run, ..), stored)| is_open(stored, run)).map(of).collect()
}

fn own_entry<'t>(tables: &'t Tables, run_id: &RunId) -> Option<&'t EntryRow> {
    tables.entries.values().find(|e| e.run_id == *run_id && e.kind == "manifest")
}

/// Carries out a stored answer, without a fence. `None`: it was carried out before.
pub(super) fn decide(
    tables: &Tables,
    catalogue: &Catalogue,
    run_id: &RunId,
    decision: &DecisionWrite,
    now: Timestamp,
) -> PortResult<Option<Tables>> {
    let op = "record_decision";
    let (ask, answer) = stored_answer(tables, run_id, decision)?;
    let required = |key: &str| ask.asked.ask.required.get(key).cloned().unwrap_or_default();
    let nonce = required(field::NONCE);
    let own: Vec<&ApprovalRow> =
        tables.approvals.values().filter(|a| a.run_id == *run_id && a.nonce == nonce).collect();
    if own.iter().any(|a| a.sha256 == decision.sha256) {
        return Ok(None);
    }
    let approves = answer.answer.decision == ReviewVerdict::Approve;
    let named = |name: &str| parse_field(&answer.answer.document, name).unwrap_or_default().to_string();
    let agrees = |names: &[&str]| names.iter().all(|name| named(name) == required(name));
    let why = if answer.late {
        "it came when the ask had closed"
    } else if asked_anew(tables, ask) {
        "it was asked anew"
    } else if own.iter().any(|a| tables.approval_uses.contains_key(&a.approval_id)) {
        "an approval of it was relied on"
    } else if approves && ask.refusal().is_some() {
        "a refusal of it stands"
    } else if own.iter().any(|a| approves || a.decision != ReviewVerdict::Approve) {
        "it is decided already"
    } else if !agrees(&[field::NONCE, field::RUN_ID, field::DOCUMENT_ID])
        || (approves && !agrees(&[field::REQUEST_SHA256, field::ROWS_DIGEST]))
        || named("decision") != answer.answer.decision.as_str()
        || named("actor") != answer.answer.actor
        || named("approval_type") != ask.asked.ask.approval_type
    {
        "it names something else than was asked"
    } else {
        ""
    };
    if !why.is_empty() {
        let message = format!("answer {} of {run_id} decides nothing: {why}", decision.sha256);
        return Err(error(op, PortErrorKind::Denied, message));
    }
    let over = tables.ended_runs.contains_key(run_id)
        || tables.effects.keys().any(|key| key.run_id == *run_id && key.effect == EffectName::Void);
    let missing = |what: &str| error(op, PortErrorKind::NotFound, format!("{run_id} has no {what}"));
    let entry = own_entry(tables, run_id).filter(|_| !over).ok_or_else(|| missing("entry that waits"))?;
    let fence = tables.fences.get(run_id).ok_or_else(|| missing("fence"))?;
    let is_cut = decision.gate == GateId::CutAuthz;
    let effect = if is_cut { EffectName::Sg1Review } else { EffectName::Sg2Review };
    let moves = is_cut && !(approves && entry.status == BacklogState::ReviewedApproved);
    if moves != decision.moves {
        return Err(error(
            op,
            PortErrorKind::Conflict,
            format!("entry {}: its move is another", entry.entry_id),
        ));
    }
    let last =
        tables.effects.keys().filter(|k| k.run_id == *run_id && k.effect == effect).map(|k| k.occurrence);
    let set = tables.change_sets.values().find(|c| c.run_id == *run_id && c.kind == "cut");
    let expires = parse_field(&answer.answer.document, "expires").and_then(|text| text.parse().ok());
    let set = set.filter(|_| !is_cut).map(|c| c.change_set_id);
    let write = ask.asked.decision(&answer.answer, expires, Some(entry.entry_id), set, moves);
    let write = write.ok_or_else(|| missing("ids for a decision"))?;
    let effect_id =
        IdName::Effect(effect).among(&ask.asked.ids).ok_or_else(|| missing("id of its effect"))?;
    let cx = EffectContext {
        fence: Fence {
            run_id: run_id.clone(),
            document_id: fence.document_id.clone(),
            epoch: fence.epoch,
            holder: fence.holder,
        },
        key: EffectKey {
            run_id: run_id.clone(),
            effect,
            occurrence: last.max().unwrap_or(0).saturating_add(1).max(decision.occurrence),
        },
        effect_id: if approves { effect_id } else { refusal_id(effect_id) },
        payload_sha256: decision.payload_sha256,
        at: now,
        actor: decision.actor.clone(),
        deadline_ms: 1,
        survey: SurveyScope {
            run_id: run_id.clone(),
            document_id: fence.document_id.clone(),
            entry_id: Some(entry.entry_id),
            review_decision_id: IdName::ReviewDecision.among(&ask.asked.ids).filter(|_| !is_cut),
        },
    };
    match perform(tables, catalogue, &cx, &Effect::Review(write), false)? {
        Performed::Recorded(_) => Ok(None),
        Performed::Written(written) => {
            let Written { tables: mut after, facts, refusal } = *written;
            if let Some(refusal) = refusal {
                return Err(refusal);
            }
            let _ = effect_row(&mut after, &cx, facts, Verdict::Commit);
            Ok(Some(after))
        }
    }
}

fn stored_answer<'t>(
    tables: &'t Tables,
    run_id: &RunId,
    decision: &DecisionWrite,
) -> PortResult<(&'t StoredAsk, &'t StoredAnswer)> {
    let key = (run_id.clone(), decision.gate, decision.occurrence);
    let found = tables
        .asks
        .get(&key)
        .and_then(|ask| Some((ask, ask.answers.iter().find(|a| a.answer.sha256() == decision.sha256)?)));
    found.ok_or_else(|| {
        let message = format!(
            "no answer {} to {} occurrence {} of {run_id} is stored",
            decision.sha256, decision.gate, decision.occurrence
        );
        error("record_decision", PortErrorKind::NotFound, message)
    })
}

/// Whether leg A or enactment may rely on an approval: it answers an ask that is on record, names
/// what was asked, and no refusal was heard.
pub(super) fn heard(tables: &Tables, key: &EffectKey, approval_id: Uuid) -> Result<(), String> {
    if !matches!(key.effect, EffectName::LegA | EffectName::Enact) {
        return Ok(());
    }
    let Some(approval) = tables.approvals.get(&approval_id) else { return Ok(()) };
    let ask = tables.asks.values().find(|stored| {
        let required = &stored.asked.ask.required;
        required.get(field::NONCE) == Some(&approval.nonce)
            && required.get(field::RUN_ID).map(String::as_str) == Some(approval.run_id.as_str())
            && stored.asked.ask.approval_type == approval.gate
    });
    let Some(ask) = ask else {
        return Err(format!("approval {approval_id} answers no ask that is on record"));
    };
    let asked = |name: &str| ask.asked.ask.required.get(name).cloned();
    if asked(field::REQUEST_SHA256) != Some(approval.request_sha256.to_hex())
        || asked(field::ROWS_DIGEST) != named_rows(&approval.document).map(|d| d.to_hex())
    {
        return Err(format!(
            "approval {approval_id} names another request or other rows than were asked about"
        ));
    }
    if asked_anew(tables, ask) {
        return Err(format!("approval {approval_id} answers an ask that was asked anew"));
    }
    match ask.refusal() {
        Some(refusal) => Err(format!(
            "approval {approval_id} is not relied on: {} by {} stands ({})",
            refusal.decision.as_str(),
            refusal.actor,
            refusal.approval_kb_id
        )),
        None => Ok(()),
    }
}

/// The asks of a run.
pub(super) fn of_run(tables: &Tables, run_id: &RunId) -> Vec<StoredAsk> {
    let own = tables.asks.iter().filter(|((run, ..), _)| run == run_id);
    own.map(|(key, stored)| StoredAsk { closed: closed(tables, key), ..stored.clone() }).collect()
}
