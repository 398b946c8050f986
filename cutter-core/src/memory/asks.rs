//! Asks and the answers to them, in the model.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use uuid::Uuid;

use super::rows::Tables;
use crate::approval::{field, named_rows, parse_field};
use crate::id::RunId;
use crate::port::ask::{AnswerWrite, AskWrite, StoredAnswer, StoredAsk};
use crate::port::database::Fence;
use crate::port::effect::{EffectKey, EffectName};
use crate::port::{PortError, PortErrorKind, PortResult};

fn error(op: &str, kind: PortErrorKind, message: String) -> PortError {
    PortError::new("database", op, kind, message)
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
    let key = (fence.run_id.clone(), ask.gate.clone(), ask.occurrence);
    let new = StoredAsk { asked: write.clone(), closed: false, answers: Vec::new() };
    let stored = tables.asks.entry(key).or_insert(new);
    if stored.asked.ask == *ask {
        return Ok(());
    }
    let message = format!("{} asked otherwise at {} occurrence {}", fence.run_id, ask.gate, ask.occurrence);
    Err(error(op, PortErrorKind::Conflict, message))
}

/// Stores answers, late where the ask had closed before.
pub(super) fn record(tables: &mut Tables, run_id: &RunId, answers: &[AnswerWrite]) -> PortResult<()> {
    let op = "record_answers";
    let key = |answer: &AnswerWrite| (run_id.clone(), answer.gate.clone(), answer.occurrence);
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
pub(super) fn closed(tables: &Tables, key: &(RunId, String, u32)) -> bool {
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
