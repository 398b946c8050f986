//! What somebody with the run's folder writes into its record, the digest computed again each time.
#![allow(clippy::panic, clippy::expect_used, clippy::unwrap_used, reason = "for tests only")]

use std::collections::BTreeMap;

use cutter_core::base::canonical::to_canonical;
use cutter_core::base::digest::Digest;
use cutter_core::machine::run::{GateId, RunState, Stage, Trigger};
use cutter_core::record::approval::{Ask, field};
use cutter_core::record::effect::ReviewVerdict;
use cutter_core::record::intent::Intent;
use cutter_core::record::pin;
use cutter_core::record::sidecar::{ApprovalRecord, PhaseRecord, PhaseResult, Sidecar};
use jiff::Timestamp;
use serde_json::{Value, json};
use uuid::Uuid;

use super::edited;
use crate::SOVEREIGN;

/// What whoever writes knows and has.
pub struct Hand<'h> {
    /// The time.
    pub now: Timestamp,
    /// Signs with the operator's key.
    pub sign: &'h dyn Fn(&str) -> String,
    /// Fingerprint of the sovereign's key.
    pub sovereign: String,
    /// What stands at a path of the knowledge base.
    pub stands: &'h dyn Fn(&str) -> Option<Digest>,
    /// The digest of the rows as they are stored, where there are some.
    pub rows: Option<String>,
}

/// A record as it was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Written {
    /// In the place of the newest revision.
    Over(Vec<u8>),
    /// As the revision after it.
    Next(Vec<u8>),
    /// The same is to be written over every revision.
    Everywhere,
}

/// An edit of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Edit {
    /// The nth value becomes another one: the value of another field, or a word.
    Leaf(u16, u8),
    /// No signature needed, and the operator may approve.
    Loosen,
    /// The same in every revision, with a creation statement that fits.
    LoosenFromTheStart,
    /// The operator is the one who is asked.
    Actor,
    /// The run is further on, its chain of transitions whole.
    Jump(u8),
    /// The document that stands where the answer is expected was found valid.
    Approved,
    /// Every stop is answered, and what was refused is forgotten.
    Settled,
    /// What is asked names the rows that are stored now.
    AskRows,
    /// A pin becomes another value.
    Pin(u8),
}

fn leaves<'v>(value: &'v mut Value, found: &mut Vec<&'v mut Value>) {
    match value {
        Value::Object(map) => map.values_mut().for_each(|v| leaves(v, found)),
        Value::Array(list) => list.iter_mut().for_each(|v| leaves(v, found)),
        other => found.push(other),
    }
}

/// Another value in the place of the nth.
fn leaf(value: &mut Value, n: u16, how: u8) {
    let mut found = Vec::new();
    leaves(value, &mut found);
    let others: Vec<Value> = found.iter().map(|v| (**v).clone()).collect();
    let at = usize::from(n) % found.len();
    let same =
        |v: &&Value| v.is_string() == others[at].is_string() && v.is_number() == others[at].is_number();
    *found[at] = match (how % 6, &others[at]) {
        (0, Value::Number(n)) => json!(n.as_u64().unwrap_or_default() + 1),
        (1, Value::Number(_)) => json!(0),
        (_, Value::Bool(b)) => json!(!b),
        (0, Value::String(_)) => json!(""),
        (1, Value::String(_)) => json!("approve"),
        (2, Value::String(_)) => json!("0".repeat(64)),
        (3, _) => Value::Null,
        _ => {
            let fit: Vec<&Value> = others.iter().filter(same).collect();
            fit[usize::from(how) * 31 % fit.len()].clone()
        }
    };
}

fn loosened(value: &mut Value) {
    value["settings"]["approval"] = json!({
        "signature": "optional", "approver_not_creator": false,
        "approvers": [{ "actor": "op", "fingerprint": value["creation"]["fingerprint"] }],
    });
    value["settings"]["lifecycle_actor"] = json!("op");
}

/// A record that is loose from its creation on, which the operator signs again.
#[must_use]
pub fn created_anew(bytes: &[u8], hand: &Hand<'_>) -> Option<Vec<u8>> {
    serde_json::from_slice::<Value>(bytes).ok()?;
    Some(edited(bytes, |value| begin_anew(value, hand)))
}

fn begin_anew(value: &mut Value, hand: &Hand<'_>) {
    loosened(value);
    let settings = Digest::of(to_canonical(&value["settings"]).unwrap().as_bytes());
    let old = value["creation"]["document"].as_str().unwrap().to_owned();
    let Some(from) = old.find("record: run creation") else { return };
    let line = |l: &str| match l.starts_with("settings_sha256: ") {
        true => format!("settings_sha256: {settings}\n"),
        false => format!("{l}\n"),
    };
    let text: String = old[from..].lines().take_while(|l| !l.starts_with('-')).map(line).collect();
    value["creation"]["document"] = json!((hand.sign)(&text));
}

/// A record that says that an answer was found valid, and that what it allows has begun.
fn approved(hand: &Hand<'_>, sidecar: &mut Sidecar, ask: &Ask) {
    let phase = if ask.gate == GateId::CutAuthz { "cut_leg_a" } else { "lifecycle_enact" };
    let ids = [
        "effect.sg1_review",
        "effect.leg_a",
        "approval",
        "review_decision",
        "review_history",
        "change_set",
        "cut_history_1",
        "cut_history_2",
        "executor_signature",
        "effect.sg2_review",
        "effect.enact",
    ];
    let at = hand.now;
    sidecar.intent = Some(Intent {
        at,
        date: at.strftime("%Y-%m-%d").to_string(),
        ids: ids.iter().zip(0xa11..).map(|(n, i)| ((*n).to_owned(), Uuid::from_u128(i))).collect(),
        name: phase.into(),
        nonce: None,
        occurrence: ask.occurrence,
    });
    sidecar.phases.insert(
        phase.into(),
        PhaseRecord {
            active_ms: 0,
            artifacts: Vec::new(),
            finished_utc: None,
            gate_invariants: BTreeMap::new(),
            kb_doc_id: None,
            phase: phase.into(),
            result: PhaseResult::Running,
            started_utc: at,
        },
    );
    sidecar.sovereign_approvals.push(ApprovalRecord {
        gate: ask.gate,
        requested_utc: at,
        approval_kb_id: ask.approval_path.clone(),
        review_decision_id: sidecar.pinned(pin::REVIEW_DECISION_ID).ok(),
        validated_utc: at,
        sha256: (hand.stands)(&ask.approval_path),
        actor: SOVEREIGN.into(),
        fingerprint: hand.sovereign.clone(),
        decision: ReviewVerdict::Approve,
        occurrence: ask.occurrence,
        expires_utc: None,
        request_sha256: ask.required.get(field::REQUEST_SHA256).and_then(|t| t.parse().ok()),
        nonce: ask.required.get(field::NONCE).cloned().unwrap_or_default(),
        beside: Vec::new(),
    });
}

const STAGES: [Stage; 5] = [
    Stage::CutLegACommitted,
    Stage::WriteVerified,
    Stage::AwaitingLifecycleAuthorization,
    Stage::LifecycleEnacted,
    Stage::CloseoutReported,
];

/// An edit of a run's newest record. `None` where it has no place.
#[must_use]
pub fn rewritten(bytes: &[u8], edit: Edit, hand: &Hand<'_>) -> Option<Written> {
    serde_json::from_slice::<Value>(bytes).ok()?;
    let over = |change: &dyn Fn(&mut Value)| Some(Written::Over(edited(bytes, |value| change(value))));
    // a new revision that is whole
    let next = |change: &dyn Fn(&mut Sidecar) -> Option<()>| {
        let mut sidecar = Sidecar::from_bytes(bytes).ok()?;
        change(&mut sidecar)?;
        sidecar.revision += 1;
        sidecar.to_bytes().ok().map(Written::Next)
    };
    match edit {
        Edit::Leaf(n, how) => over(&|value| leaf(value, n, how)),
        Edit::Loosen => over(&loosened),
        Edit::Actor => over(&|value| value["settings"]["lifecycle_actor"] = json!("op")),
        Edit::LoosenFromTheStart => Some(Written::Everywhere),
        Edit::Jump(n) => next(&|sidecar| {
            let stage = STAGES[usize::from(n) % STAGES.len()];
            sidecar.transition(&RunState::At(stage), Trigger::Advance.as_str(), "op", hand.now);
            sidecar.intent = None;
            Some(())
        }),
        Edit::Approved => next(&|sidecar| {
            let ask = sidecar.ask.clone()?;
            approved(hand, sidecar, &ask);
            Some(())
        }),
        Edit::Settled => next(&|sidecar| {
            for stop in &mut sidecar.stops {
                stop.resolved_by = Some("nobody".into());
            }
            sidecar.sovereign_approvals.retain(|a| a.decision.allows());
            Some(())
        }),
        Edit::AskRows => next(&|sidecar| {
            let ask = sidecar.ask.as_mut()?;
            ask.required.insert(field::ROWS_DIGEST.to_owned(), hand.rows.clone()?);
            Some(())
        }),
        Edit::Pin(n) => over(&|value| {
            let Some(pins) = value["context_pins"].as_object_mut() else { return };
            let names: Vec<String> = pins.keys().cloned().collect();
            if let Some(name) = names.get(usize::from(n) % names.len().max(1)) {
                let other = names[usize::from(n) * 7 % names.len()].clone();
                pins[name] = pins[&other].clone();
            }
        }),
    }
}

/// An edit that numbers choose.
#[must_use]
pub fn draw(which: u64, n: u8, leaf: u16) -> Edit {
    match which % 14 {
        0 => Edit::Loosen,
        1 => Edit::LoosenFromTheStart,
        2 => Edit::Actor,
        3 | 4 => Edit::Jump(n),
        5 | 6 => Edit::Approved,
        7 => Edit::Settled,
        8 => Edit::AskRows,
        9 => Edit::Pin(n),
        _ => Edit::Leaf(leaf, n),
    }
}
