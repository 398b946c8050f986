//! The first line: who allowed what, when, over which text; and whoever refused it.

use std::collections::BTreeSet;

use cutter_core::base::digest::Digest;
use cutter_core::gate::plain::{is_said_plainly_since, not_an_approval, speaks_of};
use cutter_core::machine::run::{GateId, Stage};
use cutter_core::operate::inspect::verify::{Allowed, Answer};
use cutter_core::operate::inspect::{Claims, asked};
use cutter_core::record::approval::{Ask, Purpose, field, parse_field, parse_verdict};
use cutter_core::record::effect::ReviewVerdict;
use cutter_core::record::evidence::RunEvidence;
use cutter_core::record::observed::Lifecycle;
use cutter_core::record::signature::SignatureFacts;
use jiff::Timestamp;
use serde::Serialize;

use super::Verified;
use super::documents::{Sources, answered, look, observed, words};
use super::gather::{Gathered, is_enacted_by};
use crate::failure::Failure;
use crate::render::name;
use crate::wire::{self, Stores};

/// Whether anybody heard a refusal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Heard {
    /// The run did, while its gate was open.
    InTime,
    /// It did, when its gate was decided already.
    Late,
    /// It lies in the folder, and nothing says that the run read it.
    No,
}

/// What a signed word that is no approval decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Decided {
    /// Not now.
    Defer,
    /// No.
    Reject,
    /// Nobody can say.
    Unclear,
}

impl From<ReviewVerdict> for Decided {
    fn from(verdict: ReviewVerdict) -> Self {
        if verdict == ReviewVerdict::Defer { Self::Defer } else { Self::Reject }
    }
}

/// A refusal.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Refused {
    gate: GateId,
    occurrence: u32,
    decision: Decided,
    actor: String,
    recorded_at: Option<Timestamp>,
    approval: String,
    heard: Heard,
    /// Whether nothing has opened the gate since: then it is in the way.
    stands: bool,
    /// Whether the gate was asked again since.
    #[serde(skip_serializing_if = "core::ops::Not::not")]
    asked_again: bool,
    #[serde(skip)]
    sha256: Digest,
}

/// Every refusal that a source shows, the gates that wait, and which approvals were asked for again.
pub(super) fn refusals(
    stores: &Stores,
    claims: &Claims,
    evidence: &RunEvidence,
    from: Sources<'_>,
    texts: &[(String, String)],
    out: &mut Gathered,
) -> Result<(), Failure> {
    let asks = asked::asks(texts, &claims.run_id);
    let mut found = Vec::new();
    // a row says whose word it is, the signature in it proves it
    let is_signed = |document: &str, at: Option<Timestamp>| -> Result<bool, Failure> {
        let facts = observed(from.ring, from.chain, document.as_bytes(), at.unwrap_or_else(wire::now))?;
        Ok(matches!(facts, SignatureFacts::Good { .. }))
    };
    for ask in from.rows.iter().flat_map(|rows| rows.asks) {
        for one in ask.answers.iter().filter(|a| a.answer.decision != ReviewVerdict::Approve) {
            if !is_signed(&one.answer.document, one.recorded_at)? {
                continue;
            }
            found.push(Refused {
                gate: ask.asked.ask.gate,
                occurrence: ask.asked.ask.occurrence,
                decision: one.answer.decision.into(),
                actor: one.answer.actor.clone(),
                recorded_at: one.recorded_at,
                approval: one.answer.approval_kb_id.clone(),
                heard: if one.late { Heard::Late } else { Heard::InTime },
                stands: false,
                asked_again: false,
                sha256: one.answer.sha256(),
            });
        }
    }
    for one in evidence.approvals.iter().filter(|a| a.decision != ReviewVerdict::Approve) {
        if !is_signed(&one.document, one.recorded_at)? {
            continue;
        }
        let said = |field: &str| parse_field(&one.document, field).unwrap_or_default().to_owned();
        found.push(Refused {
            gate: said("gate").parse().unwrap_or(GateId::FailureEscalation),
            occurrence: said("occurrence").parse().unwrap_or_default(),
            decision: one.decision.into(),
            actor: one.actor.clone(),
            recorded_at: one.recorded_at,
            approval: one.approval_kb_id.clone(),
            heard: Heard::InTime,
            stands: false,
            asked_again: false,
            sha256: one.sha256,
        });
    }
    for one in claims.approvals.iter().filter(|a| !a.decision.allows()) {
        found.extend(one.sha256.map(|sha256| Refused {
            gate: one.gate,
            occurrence: one.occurrence,
            decision: one.decision.into(),
            actor: one.actor.clone(),
            recorded_at: None,
            approval: one.approval_kb_id.clone(),
            heard: Heard::InTime,
            stands: false,
            asked_again: false,
            sha256,
        }));
    }
    let stored = from.rows.iter().flat_map(|rows| rows.asks).map(|stored| &stored.asked.ask);
    let stored = stored.filter_map(|ask| ask.required.get(field::NONCE).cloned());
    let mut nonces = asked::nonces(&asks);
    nonces.extend(stored.chain(claims.approvals.iter().map(|one| one.nonce.clone())));
    for (path, text) in texts {
        let Some(ask) = answered(&asks, &nonces, path, text) else { continue };
        let bytes = look(stores, path)?.1.map(|document| document.bytes).unwrap_or_default();
        let words = words(from.ring, from.chain, &bytes)?;
        let policy = if from.chain.is_empty() {
            claims.policy.clone()
        } else {
            let head = ask.required.get(field::POLICY_HEAD).map_or("", String::as_str);
            from.chain.might_refuse_since(head)
        };
        let who = |fingerprint: &str| {
            let is_brought = from.chain.is_empty() && from.keys.brought.iter().any(|one| one == fingerprint);
            let people =
                if is_brought { policy.people_of(fingerprint) } else { policy.actors_of(fingerprint) };
            match people.as_slice() {
                [] if is_brought => Some(format!("the key {fingerprint}")),
                people => people.first().map(|person| (*person).to_owned()),
            }
        };
        let is_unsaid =
            |word: &SignatureFacts| Some((not_an_approval(ask, &nonces, word, who)?.0, word.clone()));
        let Some((actor, signature)) = words.iter().find_map(is_unsaid) else { continue };
        if is_overtaken(from, texts, ask, &signature)? {
            continue;
        }
        let said = match &signature {
            SignatureFacts::Good { text, .. } => parse_field(text, "decision").unwrap_or_default(),
            _ => "",
        };
        let said = parse_verdict(said).filter(|verdict| !verdict.allows());
        found.push(Refused {
            gate: ask.gate,
            occurrence: ask.occurrence,
            decision: said.map_or(Decided::Unclear, Decided::from),
            actor,
            recorded_at: None,
            approval: path.clone(),
            heard: Heard::No,
            stands: false,
            asked_again: false,
            sha256: Digest::of(text.as_bytes()),
        });
    }
    let mut seen = BTreeSet::new();
    found.retain(|one| seen.insert(one.sha256));
    let last_asked = |gate: GateId| {
        let stored = from.rows.iter().flat_map(|rows| rows.asks).map(|ask| &ask.asked.ask);
        let all = stored.chain(asks.iter().map(|asked| &asked.ask));
        all.filter(|ask| ask.gate == gate && !ask.is_for(Purpose::Void)).map(|ask| ask.occurrence).max()
    };
    let is_enacted = is_enacted_by(claims, evidence, from.rows.is_some());
    // only the record tells a gate from a stop there
    let asked_last = asks.last().map(|asked| asked.ask.gate).filter(|_| claims.creator.is_none());
    for one in &mut found {
        let is_past = |a: &cutter_core::record::sidecar::ApprovalRecord| {
            a.gate == one.gate && a.decision.allows() && a.occurrence > one.occurrence
        };
        let opened = one.heard != Heard::InTime
            && (claims.has_opened(evidence, one.gate) && (is_enacted || one.gate != GateId::LifecycleAuthz));
        let is_over = is_enacted || claims.is_void(evidence);
        one.asked_again = last_asked(one.gate).is_some_and(|last| last > one.occurrence);
        let taken_up = one.asked_again && one.gate != GateId::FailureEscalation;
        one.stands = !(is_over || opened || taken_up || claims.approvals.iter().any(is_past));
    }
    for gate in [GateId::CutAuthz, GateId::LifecycleAuthz] {
        let at = match claims.stage {
            Some(Stage::AwaitingCutAuthorization) => GateId::CutAuthz,
            Some(Stage::AwaitingLifecycleAuthorization) => GateId::LifecycleAuthz,
            _ => continue,
        };
        let is_refused = found.iter().any(|one| one.gate == gate && one.stands && one.heard == Heard::InTime);
        let is_asked = asked_last.is_none_or(|last| last == gate);
        let is_answered = from.rows.is_none() && out.allowed.iter().any(|one| one.gate == gate);
        if at == gate && !is_answered && is_asked && !is_refused && !is_enacted && !claims.is_void(evidence) {
            out.waits.push(gate);
        }
    }
    for one in &mut out.allowed {
        let is_gate = one.gate != GateId::FailureEscalation;
        one.asked_again = is_gate && last_asked(one.gate).is_some_and(|last| last > one.occurrence);
    }
    // a refusal is told with all that is known of it, whether or not its document still holds
    out.allowed.retain(|one| one.decision.allows());
    out.refused = found;
    Ok(())
}

/// Whether whoever signed a word that is no plain refusal has answered plainly since.
fn is_overtaken(
    from: Sources<'_>,
    texts: &[(String, String)],
    ask: &Ask,
    word: &SignatureFacts,
) -> Result<bool, Failure> {
    let SignatureFacts::Good { text, .. } = word else { return Ok(false) };
    if parse_field(text, "decision").and_then(parse_verdict).is_some() {
        return Ok(false);
    }
    for (_, other) in texts.iter().filter(|(_, other)| speaks_of(other, ask)) {
        let facts = observed(from.ring, from.chain, other.as_bytes(), wire::now())?;
        if is_said_plainly_since(word, &facts, ask) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The stages of a run whose units were enacted.
const ENACTED: [Stage; 2] = [Stage::LifecycleEnacted, Stage::CloseoutReported];

fn what(gate: GateId) -> &'static str {
    match gate {
        GateId::CutAuthz => "the cut",
        GateId::LifecycleAuthz => "the enactment",
        _ => "going on, or a void",
    }
}

const fn did(decision: Decided) -> &'static str {
    match decision {
        Decided::Defer => "deferred",
        Decided::Reject => "refused",
        Decided::Unclear => "did not plainly approve",
    }
}

/// Who allowed what, when, over which text, and what stands against it.
pub(super) fn said(verified: &Verified) -> String {
    let text = &verified.text;
    let mut line = name(&text.document_id).to_string();
    if let Some(version) = &text.version {
        line.push_str(&format!(" version {}", name(version)));
    }
    if let Some(sha256) = &text.source_sha256 {
        line.push_str(&format!(" (sha256 {})", name(sha256)));
    }
    let standing = verified.refused.iter().find(|one| one.stands);
    if let Some(later) = text.replaced_by.filter(|_| standing.is_none() && verified.answer != Answer::Fails) {
        line.push_str(&format!(", replaced by version {later}"));
    }
    line.push_str(match (text.reached.as_deref(), standing, text.in_force) {
        (Some(reached), ..) if reached == Lifecycle::Voided.as_str() => ", VOID, nothing of it is in force",
        (_, Some(one), _) => match one.decision {
            Decided::Defer => ", DEFERRED, not in force",
            Decided::Reject => ", REFUSED, not in force",
            Decided::Unclear => ", NOT PLAINLY APPROVED, not in force",
        },
        _ if verified.answer == Answer::Fails => ", DOES NOT HOLD",
        (_, None, Some(false)) => ", not in force",
        (Some(reached), None, None) if ENACTED.iter().any(|stage| stage.as_str() == reached) => {
            ", enacted by what is here; whether it is in force only the database says"
        }
        (_, None, None) => ", not enacted by what is here; whether it is in force only the database says",
        (_, None, Some(true)) => "",
    });
    let allowed = |one: &Allowed| {
        // the database's clock where it was asked; the signer's own proves nothing
        let at = match (one.recorded_at, one.signed_at) {
            (Some(at), _) => format!(" at {at}"),
            (None, Some(at)) => format!(" (signed at {at} by the signer's own clock)"),
            (None, None) => String::new(),
        };
        let people: Vec<String> = core::iter::once(&one.actor).chain(&one.beside).map(name).collect();
        let again = if one.asked_again { ", and it was asked again" } else { "" };
        let unsigned = if one.fingerprint.is_empty() { ", unsigned" } else { "" };
        format!("{} {} {}{at}{unsigned}{again}", people.join(" and "), "allowed", what(one.gate))
    };
    let refused = |one: &Refused| {
        let at = one.recorded_at.map(|at| format!(" at {at}")).unwrap_or_default();
        let heard = match one.heard {
            Heard::InTime if one.asked_again => ", and it was asked again".to_owned(),
            Heard::InTime => String::new(),
            Heard::Late => ", when it was decided already".to_owned(),
            Heard::No => format!(" in {}, and nothing says that the run heard it", name(&one.approval)),
        };
        format!("{} {} {}{at}{heard}", name(&one.actor), did(one.decision), what(one.gate))
    };
    let waits = verified.waits.iter().map(|gate| format!("{} waits for an answer", what(*gate)));
    let mut words: Vec<String> = verified.allowed.iter().map(allowed).collect();
    if words.is_empty() {
        words.push("nobody is shown to have allowed anything".to_owned());
    }
    words.extend(verified.refused.iter().map(refused).chain(waits));
    format!("{line}: {}", words.join("; "))
}
