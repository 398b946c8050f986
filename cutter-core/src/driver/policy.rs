//! The policy that gates judge by: read from the database and checked, each time anew.

use alloc::borrow::ToOwned;
use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use jiff::Timestamp;

use super::run::{Halt, Run};
use super::{DriveError, Ports};
use crate::gate::drift::{Difference, POLICY};
use crate::machine::run::GateId;
use crate::machine::stop::StopReason;
use crate::port::database::Reader;
use crate::port::signer::SignatureVerifier;
use crate::port::{Port, PortError, PortErrorKind, PortResult};
use crate::record::approval::{ApprovalPolicy, Ask, field};
use crate::record::observed::Survey;
use crate::record::policy::{Chain, Event};
use crate::record::signature::{Duty, SignatureFacts};

/// The policy's chain as the database holds it, checked against the keys that it keeps beside it.
/// Empty where none was founded yet.
///
/// # Errors
/// The ports'; [`PortErrorKind::Corrupt`] of the port `policy` where the chain does not hold.
pub async fn policy_of(reader: &dyn Reader, signatures: &dyn SignatureVerifier) -> PortResult<Chain> {
    let record = reader.policy().await?;
    let keys: Vec<&str> = record.keys.values().map(String::as_str).collect();
    let mut facts = Vec::with_capacity(record.events.len());
    for event in &record.events {
        // What reads as an event as it stands is bare: a signed one has its armour around it.
        facts.push(if Event::parse(&event.document).is_ok() {
            SignatureFacts::Unsigned { text: event.document.clone() }
        } else {
            signatures.observe_with(event.document.as_bytes(), &keys, event.recorded_at).await?
        });
    }
    let broken = |why: crate::record::policy::Broken| {
        PortError::new(Port::Policy, "check", PortErrorKind::Corrupt, why.to_string())
    };
    Chain::check(&record, &facts).map_err(broken)
}

/// As [`policy_of`], where there must be one.
///
/// # Errors
/// As [`policy_of`]; [`PortErrorKind::NotFound`] of the port `policy` where none was founded.
pub async fn founded_policy(reader: &dyn Reader, signatures: &dyn SignatureVerifier) -> PortResult<Chain> {
    let chain = policy_of(reader, signatures).await?;
    if chain.is_empty() {
        let message = "this database holds no policy yet: nobody may approve anything";
        return Err(PortError::new(Port::Policy, "read", PortErrorKind::NotFound, message));
    }
    Ok(chain)
}

/// Whose signature a person's document carries: by the keys that are configured here, else by
/// those that the policy keeps.
pub(crate) async fn observe(
    signatures: &dyn SignatureVerifier,
    chain: &Chain,
    document: &[u8],
    now: Timestamp,
) -> PortResult<SignatureFacts> {
    let facts = genuine(signatures, chain, document, now).await?;
    let (SignatureFacts::Good { text, .. } | SignatureFacts::Unsigned { text }) = &facts else {
        return Ok(facts);
    };
    Ok(match read_otherwise(document, text) {
        Some(detail) => SignatureFacts::Bad { code: "read_otherwise".to_owned(), detail },
        None => facts,
    })
}

pub(super) async fn genuine(
    signatures: &dyn SignatureVerifier,
    chain: &Chain,
    document: &[u8],
    now: Timestamp,
) -> PortResult<SignatureFacts> {
    match signatures.observe(document, now).await? {
        SignatureFacts::Bad { code, .. } if code == "unknown_key" => {
            signatures.observe_with(document, &chain.public_keys(), now).await
        }
        facts => Ok(facts),
    }
}

/// A signature holds over a text whose lines lost their trailing blanks and leading dashes, and lines that
/// are not signed stand around it. Whoever reads the bytes as they are stored, as the database does, must
/// find the same fields; else: the first line that is not the same.
fn read_otherwise(document: &[u8], text: &str) -> Option<String> {
    fn field(line: &str) -> Option<&str> {
        let name = line.split_once(':')?.0.trim_end_matches([' ', '\t']);
        let is_name = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_';
        (!name.is_empty() && name.bytes().all(is_name)).then_some(name)
    }
    let Ok(document) = core::str::from_utf8(document) else { return Some("it is no UTF-8".to_owned()) };
    if document.contains('\0') {
        return Some("it holds a zero byte".to_owned());
    }
    let signed: Vec<&str> = text.lines().map(str::trim_end).filter(|line| field(line).is_some()).collect();
    let fields: BTreeSet<&str> = signed.iter().filter_map(|line| field(line)).collect();
    let is_ours = |line: &&str| field(line).is_some_and(|name| fields.contains(name));
    let bare = |line| str::strip_suffix(line, '\r').unwrap_or(line);
    let stored: Vec<&str> = document.split('\n').map(bare).filter(is_ours).collect();
    if stored == signed {
        return None;
    }
    let odd = stored.iter().find(|line| !signed.contains(line));
    let odd = odd.or_else(|| signed.iter().find(|line| !stored.contains(line)));
    Some(format!(
        "it is stored otherwise than it was signed: {}",
        odd.unwrap_or(&"a line stands there twice")
    ))
}

/// What may answer an ask: what is allowed now and was since the head that the ask names. A stop is
/// answered under the policy now. A head that is not of this chain allows nobody.
pub(crate) fn allowed(chain: &Chain, ask: &Ask) -> ApprovalPolicy {
    if ask.gate == GateId::FailureEscalation {
        return chain.now().at_gate(ask.gate.as_str());
    }
    let head = ask.required.get(field::POLICY_HEAD).map_or("", String::as_str);
    chain.allowed_since(head, ask.gate.as_str()).unwrap_or_else(|_| ApprovalPolicy::nobody())
}

/// Who may refuse what an ask asks.
pub(crate) struct MayRefuse {
    /// Whose refusal counts: who may approve anywhere now.
    pub(crate) now: ApprovalPolicy,
    /// Whose word is not passed over: those, and who might have refused when it was asked, or since, with a key that
    /// is still theirs alone.
    pub(crate) since_asked: ApprovalPolicy,
}

impl MayRefuse {
    pub(crate) fn of(chain: &Chain, ask: &Ask) -> Self {
        let head = ask.required.get(field::POLICY_HEAD).map_or("", String::as_str);
        let now = chain.now().of_refusals();
        let since_asked = chain.might_refuse_since(head);
        Self { now, since_asked }
    }
}

impl Run<'_> {
    /// The chain as it stands. Where it does not hold, or there is none, nothing is recorded: no run
    /// is at fault.
    pub(super) async fn chain(&self) -> Result<Chain, Halt> {
        let Ports { reader, signatures, .. } = self.ports;
        founded_policy(reader.as_ref(), signatures.as_ref()).await.map_err(|error| match error.port {
            Port::Policy => Halt::Abort(Box::new(DriveError::Port(error))),
            _ => self.halt(error),
        })
    }

    /// The pinned head, as long as nothing moved since it that this run must not pass over; else the
    /// head that is. A run of before the policy pins the one that it meets first.
    pub(super) async fn policy_dimension(&self) -> Result<String, Halt> {
        let chain = self.chain().await?;
        let head = chain.head().map(|d| d.to_hex()).unwrap_or_default();
        let Some(pinned) = self.policy_pin(&chain) else { return Ok(head) };
        match chain.drift_since(&pinned, &self.consumed()) {
            Ok(ways) if ways.is_empty() => Ok(pinned),
            _ => Ok(head),
        }
    }

    /// Whose answers the run rests on, by their keys.
    pub(super) fn consumed(&self) -> Vec<&str> {
        self.sidecar.sovereign_approvals.iter().map(|a| a.fingerprint.as_str()).collect()
    }

    /// The head that the record pins; the one that the open request names, which is a row, where more moved
    /// since that one.
    fn policy_pin(&self, chain: &Chain) -> Option<String> {
        let pinned = self.sidecar.drift_pins.0.get(POLICY)?;
        let asked = self.sidecar.ask.as_ref().filter(|_| self.asks());
        let asked = asked.and_then(|ask| ask.required.get(field::POLICY_HEAD));
        let has_moved =
            |head: &&String| chain.drift_since(head, &self.consumed()).is_ok_and(|ways| !ways.is_empty());
        Some(asked.filter(has_moved).unwrap_or(pinned).clone())
    }

    /// Takes a survey as the new pins. The policy's pin is none of the survey's, and stays.
    pub(super) fn pin_survey(&mut self, mut survey: Survey) {
        let pins = &mut self.sidecar.drift_pins.0;
        survey.0.extend(pins.remove_entry(POLICY));
        *pins = survey.0;
    }

    /// Stops the run if the policy moved since its pin in a way that it must not pass over.
    pub(super) async fn policy_stands(&mut self) -> Result<(), Halt> {
        let live = self.policy_dimension().await?;
        self.sidecar.drift_pins.0.entry(POLICY.to_string()).or_insert_with(|| live.clone());
        let chain = self.chain().await?;
        let pinned = self.policy_pin(&chain).filter(|pinned| *pinned != live);
        let Some(pinned) = pinned else { return Ok(()) };
        let consumed = self.consumed();
        let ways =
            chain.drift_since(&pinned, &consumed).unwrap_or_else(|foreign| alloc::vec![foreign.to_string()]);
        let difference =
            Difference { dimension: POLICY.to_string(), expected: Some(pinned), observed: Some(live) };
        let mut halt = Halt::drift(&[difference]);
        if let Halt::Stop(stop) = &mut halt {
            stop.detail.extend(ways);
        }
        Err(halt)
    }

    /// Who is expected to answer at a gate: at SG_2 whom the settings name, or else the first one by name
    /// whom the policy lets answer there.
    pub(super) fn expected_at(&self, gate: GateId, chain: &Chain) -> Option<String> {
        if gate == GateId::CutAuthz {
            return None;
        }
        let named = &self.sidecar.settings.lifecycle_actor;
        let policy = chain.now().at_gate(gate.as_str());
        let people = self.people(&policy);
        let first = people.first().filter(|_| !people.contains(named.as_str()));
        Some(first.map_or_else(|| named.clone(), |first| (*first).to_owned()))
    }

    fn people<'a>(&self, policy: &'a ApprovalPolicy) -> BTreeSet<&'a str> {
        policy.people(&self.sidecar.created_by, &self.sidecar.creation.fingerprint)
    }

    /// Why no approval of the open request can be relied on, while a new request's could: it was made
    /// before requests named all, or the policy changed since.
    pub(super) async fn why_anew(&self, gate: GateId) -> Result<Option<String>, Halt> {
        let Some(ask) = &self.sidecar.ask else { return Ok(None) };
        if !self.names_all() {
            return Ok(Some("what was asked before named no rows".to_owned()));
        }
        if !self.asks() {
            return Ok(None);
        }
        let chain = self.chain().await?;
        let (since, now) = (allowed(&chain, ask), chain.now().at_gate(gate.as_str()));
        let expected = self.expected_at(gate, &chain);
        if !now.are_enough(&self.people(&now), expected.as_deref()) {
            return Ok(None);
        }
        let said = ask.required.get(field::APPROVALS_NEEDED).and_then(|n| n.parse().ok()).unwrap_or(1);
        if since.needed > said {
            return Ok(Some(format!("{} people must approve now, where {said} had to", since.needed)));
        }
        let is_open = since.are_enough(&self.people(&since), ask.expected_actor.as_deref());
        Ok((!is_open)
            .then(|| "the policy changed, and who may answer now could not answer that request".to_owned()))
    }

    /// The key that a duty is about to sign with must be the registered one.
    pub(super) async fn duty_key_stands(&self, duty: Duty, observed: &str) -> Result<(), Halt> {
        let chain = self.chain().await?;
        match chain.now().duty_key(duty) {
            Some(registered) if registered != observed => Err(Halt::stop(
                StopReason::DutyKey,
                alloc::format!(
                    "the {}'s key: expected {registered}, which is registered, observed {observed}; put the \
                     registered key back, or register the new one: cutter duty-key rotate {} --public-key {observed}",
                    duty.as_str(),
                    duty.as_str()
                ),
            )),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::read_otherwise;
    use alloc::borrow::ToOwned;
    use alloc::format;

    #[test]
    fn a_field_that_is_stored_otherwise_than_it_was_signed_is_named() {
        let text = "# Approval\n\nAllows: nothing else\n\ndecision: approve\nnonce: abc\nexpires: never";
        let stored = |body: &str| {
            let (begin, sign) = ("-----BEGIN PGP SIGNED MESSAGE-----", "-----BEGIN PGP SIGNATURE-----");
            format!(
                "{begin}\nHash: SHA512\n\n{body}\n{sign}\nComment: by hand\n\nwnUE\n-----END PGP SIGNATURE-----\n"
            )
        };
        for good in [
            stored(text),
            stored(text).replace('\n', "\r\n"),
            text.to_owned(),
            stored(text).replace("# App", "- # App"),
        ] {
            assert_eq!(read_otherwise(good.as_bytes(), text), None, "{good}");
        }
        for (before, after, named) in [
            ("nonce: abc", "nonce: abc ", "nonce: abc "),
            ("nonce: abc", "nonce: abc\t", "nonce: abc\t"),
            ("nonce: abc", "- nonce: abc", "nonce: abc"),
            ("expires: never", "- expires: never", "expires: never"),
            ("Comment: by hand", "decision: reject", "decision: reject"),
            ("Comment: by hand", "decision : reject", "decision : reject"),
            ("Hash: SHA512", "Hash: SHA512\nnonce: abc", "twice"),
            ("by hand", "\0", "zero byte"),
        ] {
            let odd = stored(text).replace(before, after);
            let said = read_otherwise(odd.as_bytes(), text).unwrap_or_else(|| panic!("{after:?} passes"));
            assert!(said.contains(named), "{after:?}: {said}");
        }
    }
}
