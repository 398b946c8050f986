//! Walking the chain: does it hold, and what stood when.

use alloc::borrow::ToOwned;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use jiff::Timestamp;

use super::event::{Change, Event};
use super::stored::{PolicyRecord, StoredEvent};
use super::{Policy, PolicyKey};
use crate::base::digest::Digest;
use crate::base::fingerprint::normal_fingerprint;
use crate::record::approval::{ApprovalPolicy, SignaturePolicy};
use crate::record::signature::{Duty, SignatureFacts};

/// An event that held, and what stands after it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Link {
    /// The event.
    pub event: Event,
    /// sha256 of its document: what the next event, runs and requests name it by.
    pub sha256: Digest,
    /// When the database took it.
    pub recorded_at: Timestamp,
    /// Who signed it: name and fingerprint. `None`: the administrator wrote it.
    pub signer: Option<(String, String)>,
    /// What stands after it.
    pub policy: Policy,
}

/// An administrator's event that no approver signed although there were approvers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewFounding {
    /// Which event.
    pub seq: u64,
    /// When the database took it.
    pub recorded_at: Timestamp,
}

/// Where the chain does not hold.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("policy event {seq}: {why}")]
pub struct Broken {
    /// Which event.
    pub seq: u64,
    /// Expected and observed.
    pub why: String,
}

/// A head that is no event of this chain.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no event of the policy has the sha256 {0}")]
pub struct Foreign(pub String);

/// Why a signature that the database took does not count.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotStanding {
    /// It was taken before there was a policy.
    #[error("no policy was founded at {0}")]
    NoPolicy(Timestamp),
    /// It was taken when somebody else might have had the key already.
    #[error("{fingerprint} of {person} is compromised since {since}")]
    Compromised {
        /// The key.
        fingerprint: String,
        /// Whose it is.
        person: String,
        /// Since when.
        since: Timestamp,
    },
    /// The key was known, and approved nothing then.
    #[error("{fingerprint} of {person} might not approve at {at}")]
    Inactive {
        /// The key.
        fingerprint: String,
        /// Whose it is.
        person: String,
        /// When the database took the signature.
        at: Timestamp,
    },
    /// Nobody had that key.
    #[error("{fingerprint} was nobody's known key at {at}")]
    Unknown {
        /// The key.
        fingerprint: String,
        /// When the database took the signature.
        at: Timestamp,
    },
}

/// A chain that holds, as far as it must.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Chain {
    /// Its events, oldest first.
    links: Vec<Link>,
    foundings: Vec<NewFounding>,
    broken: Vec<Broken>,
    keys: BTreeMap<Digest, String>,
}

impl Chain {
    /// Walks the events as they are stored. `signatures` is what was found of each document's
    /// signature, in the same order, as of the time at which the database took it.
    ///
    /// An event that does not hold ends the chain, and with it everything that would rest on it,
    /// unless an administrator founded the policy anew behind it.
    ///
    /// # Errors
    /// [`Broken`], where nothing holds at the end.
    pub fn check(record: &PolicyRecord, signatures: &[SignatureFacts]) -> Result<Self, Broken> {
        let mut chain = Self { keys: record.keys.clone(), ..Self::default() };
        let (mut standing, mut had_approver) = (Some(Policy::default()), false);
        let mut previous = None;
        for (place, stored) in record.events.iter().enumerate() {
            let sha256 = Digest::of(stored.document.as_bytes());
            let expected = (place as u64 + 1, previous);
            previous = Some(sha256);
            let missing = SignatureFacts::Unsigned { text: String::new() };
            let facts = signatures.get(place).unwrap_or(&missing);
            let read = linked(stored, expected, facts);
            let founds = |event: &Event| matches!(event.changes.first(), Some(Change::Founded { .. }));
            let step = match (read, standing.take()) {
                (Ok((event, signer)), Some(before)) => next(&before, event, signer, &record.keys),
                // Behind a break only a founding begins again, and with nobody's word but its own.
                (Ok((event, None)), None) if founds(&event) => {
                    had_approver = true;
                    next(&chain.last_policy(), event, None, &record.keys)
                }
                (Ok(_), None) => Err("rests on an event that does not hold".to_owned()),
                (Err(why), _) => Err(why),
            };
            match step {
                Ok((event, signer, policy)) => {
                    if had_approver && signer.is_none() {
                        chain.foundings.push(NewFounding { seq: event.seq, recorded_at: stored.recorded_at });
                    }
                    had_approver |= !policy.approvers().is_empty();
                    standing = Some(policy.clone());
                    let recorded_at = stored.recorded_at;
                    chain.links.push(Link { event, sha256, recorded_at, signer, policy });
                }
                Err(why) => chain.broken.push(Broken { seq: stored.seq, why }),
            }
        }
        match (standing, chain.broken.last()) {
            (None, Some(broken)) => Err(broken.clone()),
            _ => Ok(chain),
        }
    }

    fn last_policy(&self) -> Policy {
        self.links.last().map(|l| l.policy.clone()).unwrap_or_default()
    }

    /// Whether there is no policy yet.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.links.is_empty()
    }

    /// Its events that hold, oldest first.
    #[must_use]
    pub fn links(&self) -> &[Link] {
        &self.links
    }

    /// What an administrator founded anew, oldest first. Allowed, never silent.
    #[must_use]
    pub fn foundings(&self) -> &[NewFounding] {
        &self.foundings
    }

    /// What does not hold, before the founding that stands now.
    #[must_use]
    pub fn broken(&self) -> &[Broken] {
        &self.broken
    }

    /// The lines that everybody who relies on the policy must read: foundings without an
    /// approver's signature, what was broken before one, what was signed with a key that was not its owner's
    /// alone any more, and gates that too few people are left for.
    #[must_use]
    pub fn notices(&self) -> Vec<String> {
        let broken = self.broken.iter().map(|b| format!("policy event {} does not hold: {}", b.seq, b.why));
        let founding = |f: &NewFounding| {
            format!(
                "policy event {} of {} is a new founding: the administrator's word, signed by no approver",
                f.seq, f.recorded_at
            )
        };
        let now = self.now();
        let doubtful = self.links.iter().filter_map(|link| {
            let (person, fingerprint) = link.signer.as_ref()?;
            let since = now.key(fingerprint)?.compromised_since.filter(|since| *since <= link.recorded_at)?;
            let changes: Vec<String> = link.event.changes.iter().map(ToString::to_string).collect();
            Some(format!(
                "policy event {} of {} is signed with {person}'s key, which somebody else may have had since {since}. \
                 It stands until another event takes it back: {}",
                link.event.seq,
                link.recorded_at,
                changes.join("; ")
            ))
        });
        let foundings = self.foundings.iter().map(founding);
        broken.chain(foundings).chain(doubtful).chain(now.short_of_people()).collect()
    }

    /// The chain as it stood when `head` was its last event.
    ///
    /// # Errors
    /// [`Foreign`] if `head` is no event of this chain.
    pub fn until(&self, head: &str) -> Result<Self, Foreign> {
        let since = self.since(head)?.len();
        let mut before = self.clone();
        before.links.truncate(self.links.len() - since + 1);
        let last = before.links.last().map_or(0, |link| link.event.seq);
        before.foundings.retain(|founding| founding.seq <= last);
        before.broken.retain(|broken| broken.seq <= last);
        Ok(before)
    }

    /// The last event's sha256; `None` where there is no policy yet.
    #[must_use]
    pub fn head(&self) -> Option<Digest> {
        self.links.last().map(|l| l.sha256)
    }

    /// What stands now. Where there is no policy yet: nobody may approve.
    #[must_use]
    pub fn now(&self) -> Policy {
        self.last_policy()
    }

    /// What stood at a time of the database; `None` before the policy was founded.
    #[must_use]
    pub fn at(&self, time: Timestamp) -> Option<&Policy> {
        self.links.iter().rev().find(|l| l.recorded_at <= time).map(|l| &l.policy)
    }

    /// The public key with this sha256, if it is kept beside the events.
    #[must_use]
    pub fn public_key(&self, sha256: &Digest) -> Option<&str> {
        self.keys.get(sha256).map(String::as_str)
    }

    /// Every public key that is kept beside the events.
    #[must_use]
    pub fn public_keys(&self) -> Vec<&str> {
        self.keys.values().map(String::as_str).collect()
    }

    fn since(&self, head: &str) -> Result<&[Link], Foreign> {
        let foreign = || Foreign(head.to_owned());
        let digest: Digest = head.parse().map_err(|_| foreign())?;
        let place = self.links.iter().position(|l| l.sha256 == digest).ok_or_else(foreign)?;
        self.links.get(place..).ok_or_else(foreign)
    }

    /// What is allowed at a gate now **and** was under every policy since `head`.
    ///
    /// # Errors
    /// [`Foreign`] if `head` is no event of this chain.
    pub fn allowed_since(&self, head: &str, gate: &str) -> Result<ApprovalPolicy, Foreign> {
        let mut policies = self.since(head)?.iter().map(|l| l.policy.at_gate(gate));
        let first = policies.next().ok_or_else(|| Foreign(head.to_owned()))?;
        Ok(policies.fold(first, |all, one| all.and(&one)))
    }

    /// Who may refuse now, and who might have by any policy from `head` on, with a key that is still theirs alone.
    /// Where `head` is no event of this chain: who may now.
    #[must_use]
    pub fn might_refuse_since(&self, head: &str) -> ApprovalPolicy {
        let mut all = self.now().of_refusals();
        for link in self.since(head).unwrap_or_default() {
            for approver in link.policy.of_refusals().approvers {
                let is_theirs = self.compromised(&approver.fingerprint).is_none();
                if is_theirs && !all.approvers.contains(&approver) {
                    all.approvers.push(approver);
                }
            }
        }
        all
    }

    /// How many different people had to approve at a gate, by every policy from `head` to a time of the
    /// database.
    ///
    /// # Errors
    /// [`Foreign`] if `head` is no event of this chain.
    pub fn needed_between(&self, head: &str, until: Timestamp, gate: &str) -> Result<u32, Foreign> {
        let links = self.since(head)?.iter().filter(|l| l.recorded_at <= until);
        Ok(links.map(|l| l.policy.needed_at(gate)).max().unwrap_or(1))
    }

    /// What moved since `head` that a run which pinned it must not pass over: a rule that allows
    /// more, or a key that somebody else may have and that one of `consumed` was signed with.
    /// Another approver is not among it.
    ///
    /// # Errors
    /// [`Foreign`] if `head` is no event of this chain.
    pub fn drift_since(&self, head: &str, consumed: &[&str]) -> Result<Vec<String>, Foreign> {
        let links = self.since(head)?;
        let mut ways = Vec::new();
        for (before, after) in links.iter().zip(links.iter().skip(1)) {
            let seq = after.event.seq;
            for way in before.policy.loosened_by(&after.policy) {
                ways.push(format!("policy event {seq}: {way}"));
            }
            for change in &after.event.changes {
                let Change::KeyCompromised { since, fingerprint } = change else { continue };
                if consumed.iter().any(|used| normal_fingerprint(used) == *fingerprint) {
                    ways.push(format!(
                        "policy event {seq}: the key {fingerprint}, by which this run was answered, is compromised since {since}"
                    ));
                }
            }
        }
        Ok(ways)
    }

    /// Everybody whose key was ever known, under the loosest rules that ever stood: what a
    /// signature of an unknown time may be judged by.
    #[must_use]
    pub fn ever(&self) -> ApprovalPolicy {
        let now = self.now().at_gate("");
        let is_loose = |of: fn(&Policy) -> bool| self.links.iter().any(|l| of(&l.policy));
        ApprovalPolicy {
            approvers: now.known.clone(),
            approver_not_creator: !is_loose(|p| p.creator_may_approve),
            signature: if is_loose(|p| p.signature == SignaturePolicy::Optional) {
                SignaturePolicy::Optional
            } else {
                SignaturePolicy::Required
            },
            ..now
        }
    }

    /// How a signature by this key that the database took at `recorded_at` is to be judged by the
    /// policy of then. A key that was retired later was good; one that is compromised since before
    /// then was not.
    ///
    /// # Errors
    /// [`NotStanding`], why it does not count.
    pub fn person_at(&self, fingerprint: &str, recorded_at: Timestamp) -> Result<&str, NotStanding> {
        let (fingerprint, at) = (fingerprint.to_owned(), recorded_at);
        if let Some((person, since)) = self.compromised(&fingerprint).filter(|(_, since)| *since <= at) {
            return Err(NotStanding::Compromised { fingerprint, person: person.to_owned(), since });
        }
        let stood = self.at(at).ok_or(NotStanding::NoPolicy(at))?;
        match stood.key(&fingerprint) {
            None => Err(NotStanding::Unknown { fingerprint, at }),
            Some(key) if key.is_active => Ok(&key.person),
            Some(key) => Err(NotStanding::Inactive { fingerprint, person: key.person.clone(), at }),
        }
    }

    /// Whose key somebody else may have, and since when, by what is known now.
    #[must_use]
    pub fn compromised(&self, fingerprint: &str) -> Option<(&str, Timestamp)> {
        let key: &PolicyKey = self.links.last()?.policy.key(fingerprint)?;
        Some((&key.person, key.compromised_since?))
    }

    /// The key that a duty signed with when the database took its signature; where that time is
    /// not known, any key that was ever registered fits ([`Policy::is_duty_key`] of [`Self::now`]).
    #[must_use]
    pub fn duty_key_at(&self, duty: Duty, recorded_at: Timestamp) -> Option<&str> {
        self.at(recorded_at).and_then(|policy| policy.duty_key(duty))
    }
}

/// The event of a document, and whose signature covers it.
fn linked(
    stored: &StoredEvent,
    (seq, previous): (u64, Option<Digest>),
    facts: &SignatureFacts,
) -> Result<(Event, Option<String>), String> {
    let (text, signer) = match facts {
        SignatureFacts::Good { text, fingerprint, .. } => (text.as_str(), Some(fingerprint.clone())),
        SignatureFacts::Unsigned { .. } => (stored.document.as_str(), None),
        SignatureFacts::Bad { code, detail } => {
            return Err(format!("expected one good signature, or none, observed {code}: {detail}"));
        }
    };
    let event = Event::parse(text).map_err(|e| e.to_string())?;
    let named = |digest: Option<Digest>| digest.map_or_else(|| "none".to_owned(), |d| d.to_hex());
    if (event.seq, event.previous) != (seq, previous) || stored.seq != seq {
        return Err(format!(
            "expected event {seq} after {}, observed event {} after {}, stored as {}",
            named(previous),
            event.seq,
            named(event.previous),
            stored.seq
        ));
    }
    Ok((event, signer))
}

type Next = (Event, Option<(String, String)>, Policy);

/// What stands after an event.
fn next(
    before: &Policy,
    event: Event,
    signer: Option<String>,
    keys: &BTreeMap<Digest, String>,
) -> Result<Next, String> {
    let founds = event.changes.iter().position(|c| matches!(c, Change::Founded { .. }));
    match (event.seq, founds) {
        (1, Some(0)) | (2.., None | Some(0)) => {}
        (1, _) => return Err("expected `founded` as the first change, observed another".to_owned()),
        _ => return Err("`founded` stands behind another change".to_owned()),
    }
    let signer = match signer {
        None => None,
        Some(fingerprint) => {
            let key = before.key(&fingerprint).filter(|k| k.is_active);
            let key = key.ok_or_else(|| {
                format!("expected the signature of an approver, observed one by {fingerprint}")
            })?;
            Some((key.person.clone(), fingerprint))
        }
    };
    let mut policy = before.clone();
    for change in &event.changes {
        if let Change::ApproverAdded { key, .. } | Change::KeyAdded { key, .. } = change
            && !keys.contains_key(&key.sha256)
        {
            return Err(format!("expected the public key {} beside it, observed none", key.sha256));
        }
        policy.apply(change).map_err(|why| format!("{change}: {why}"))?;
    }
    Ok((event, signer, policy))
}
