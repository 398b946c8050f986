//! Who may approve, and how: a chain of signed events that the database holds.
//!
//! ```text
//!  event 1 (founded) <- event 2 <- event 3 (head)      each names the sha256 of the one before
//!     |                    |          |
//!   rules, duty keys,   signed by   signed by an approver of the policy before it;
//!   first approvers     nobody yet  without a signature it is a new founding
//! ```
//!
//! An [`Event`] is text that a person can sign with any OpenPGP program. [`Chain::check`] walks
//! the events as they are stored, with what was found of their signatures, and says whether the
//! chain holds, where it is broken, and where an administrator founded it anew. What stands then
//! is a [`Policy`]; a gate asks for what is allowed now **and** under every policy since it asked
//! ([`Chain::allowed_since`]). The module reads no clock: time is what the database recorded.

use alloc::borrow::ToOwned;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use jiff::Timestamp;

use crate::base::fingerprint::normal_fingerprint;
use crate::record::approval::{ApprovalPolicy, Approver, SignaturePolicy};
use crate::record::signature::Duty;

mod chain;
mod event;
mod stored;

pub use chain::{Broken, Chain, Foreign, Link, NewFounding, NotStanding};
pub use event::{Change, Event, EventError, FORMAT, OPENPGP, PublicKeyRef};
pub use stored::{NewEvent, PolicyRecord, StoredEvent, Unfit};

/// A key of a person, and what became of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyKey {
    /// Whose it is.
    pub person: String,
    /// Which one.
    pub key: PublicKeyRef,
    /// Whether its person may approve with it.
    pub is_active: bool,
    /// Since when somebody else may have it, if that is so.
    pub compromised_since: Option<Timestamp>,
}

/// A key that a duty signs with, or signed with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DutyKey {
    /// Which duty.
    pub duty: Duty,
    /// 64 hexadecimal digits.
    pub public_key: String,
}

/// What stands after an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    /// Must approvals be signed?
    pub signature: SignaturePolicy,
    /// May the creator of a run approve it?
    pub creator_may_approve: bool,
    /// How long an answer may be used, counted from the request.
    pub answers_valid_hours: Option<u32>,
    /// By gate: the only people who may answer there. A gate that is not listed: every approver.
    pub only: BTreeMap<String, BTreeSet<String>>,
    /// By gate: how many different people must approve there. A gate that is not listed: one.
    pub needed: BTreeMap<String, u32>,
    /// Every key that was ever known, in the order in which they came.
    pub keys: Vec<PolicyKey>,
    /// Every duty key that was ever registered; the last one of a duty is the one that signs.
    pub duty_keys: Vec<DutyKey>,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            signature: SignaturePolicy::Required,
            creator_may_approve: false,
            answers_valid_hours: None,
            only: BTreeMap::new(),
            needed: BTreeMap::new(),
            keys: Vec::new(),
            duty_keys: Vec::new(),
        }
    }
}

impl Policy {
    /// The key with this fingerprint, in any spelling.
    #[must_use]
    pub fn key(&self, fingerprint: &str) -> Option<&PolicyKey> {
        let wanted = normal_fingerprint(fingerprint);
        self.keys.iter().find(|k| !wanted.is_empty() && k.key.fingerprint == wanted)
    }

    /// The people who may approve, each once, in byte order.
    #[must_use]
    pub fn approvers(&self) -> Vec<&str> {
        let active: BTreeSet<&str> =
            self.keys.iter().filter(|k| k.is_active).map(|k| k.person.as_str()).collect();
        active.into_iter().collect()
    }

    /// The key that a duty signs with now, if one is registered.
    #[must_use]
    pub fn duty_key(&self, duty: Duty) -> Option<&str> {
        self.duty_keys.iter().rev().find(|k| k.duty == duty).map(|k| k.public_key.as_str())
    }

    /// Whether a duty ever signed with this key.
    #[must_use]
    pub fn is_duty_key(&self, duty: Duty, public_key: &str) -> bool {
        self.duty_keys.iter().any(|k| k.duty == duty && k.public_key == public_key)
    }

    /// What this policy says at a gate.
    #[must_use]
    pub fn at_gate(&self, gate: &str) -> ApprovalPolicy {
        let may = |person: &str| self.only.get(gate).is_none_or(|only| only.contains(person));
        let approver =
            |k: &PolicyKey| Approver { actor: k.person.clone(), fingerprint: k.key.fingerprint.clone() };
        ApprovalPolicy {
            signature: self.signature,
            approver_not_creator: !self.creator_may_approve,
            approvers: self.keys.iter().filter(|k| k.is_active && may(&k.person)).map(approver).collect(),
            known: self.keys.iter().map(approver).collect(),
            valid_hours: self.answers_valid_hours,
            needed: self.needed_at(gate),
        }
    }

    /// What this policy says of refusals: who may approve anywhere may refuse everywhere.
    #[must_use]
    pub fn of_refusals(&self) -> ApprovalPolicy {
        Self { only: BTreeMap::new(), ..self.clone() }.at_gate("")
    }

    /// How many different people must approve at a gate.
    #[must_use]
    pub fn needed_at(&self, gate: &str) -> u32 {
        self.needed.get(gate).copied().unwrap_or(1)
    }

    /// The gates where more people must approve than may: nothing passes there.
    #[must_use]
    pub fn short_of_people(&self) -> Vec<String> {
        let short = |(gate, needed): (&String, &u32)| {
            let people = self.people_at(gate);
            let is_short = usize::try_from(*needed).is_ok_and(|needed| needed > people);
            is_short.then(|| {
                format!(
                    "nothing passes {gate}: {needed} must approve there, and {people} may; add one (cutter \
                     approver add) or want fewer (cutter policy set --approvals-needed {gate}=N)"
                )
            })
        };
        self.needed.iter().filter_map(short).collect()
    }

    fn people_at(&self, gate: &str) -> usize {
        let may: BTreeSet<String> = self.at_gate(gate).approvers.into_iter().map(|a| a.actor).collect();
        may.len()
    }

    /// In which ways `after` allows what this one does not; another approver is not among them.
    #[must_use]
    pub fn loosened_by(&self, after: &Self) -> Vec<String> {
        let mut ways = Vec::new();
        if self.signature == SignaturePolicy::Required && after.signature == SignaturePolicy::Optional {
            ways.push("approvals need no signature any more".to_owned());
        }
        if !self.creator_may_approve && after.creator_may_approve {
            ways.push("the creator of a run may approve it".to_owned());
        }
        if let Some(before) = self.answers_valid_hours
            && after.answers_valid_hours.is_none_or(|hours| hours > before)
        {
            let now = after.answers_valid_hours.map_or("without end".to_owned(), |h| format!("{h} hours"));
            ways.push(format!("answers are valid {now}, before {before} hours"));
        }
        for gate in self.only.keys().filter(|gate| !after.only.contains_key(*gate)) {
            ways.push(format!("every approver may answer at {gate}"));
        }
        for (gate, before) in &self.needed {
            let now = after.needed_at(gate);
            if now < *before {
                ways.push(format!("{now} must approve at {gate}, before {before}"));
            }
        }
        ways
    }

    /// Applies one change.
    ///
    /// # Errors
    /// What does not fit what stands.
    fn apply(&mut self, change: &Change) -> Result<(), String> {
        match change {
            Change::Founded { .. } => {
                // What was known stays known: old signatures go on to name their person.
                for key in &mut self.keys {
                    key.is_active = false;
                }
                *self = Self {
                    keys: core::mem::take(&mut self.keys),
                    duty_keys: core::mem::take(&mut self.duty_keys),
                    ..Self::default()
                };
            }
            Change::ApproverAdded { person, key } => {
                if self.approvers().contains(&person.as_str()) {
                    return Err(format!("{person} may approve already; another key is `key_added`"));
                }
                self.add(person, key, true)?;
            }
            Change::KeyAdded { person, key } => {
                if !self.approvers().contains(&person.as_str()) {
                    return Err(format!("{person} is no approver whose key could be added to"));
                }
                self.add(person, key, true)?;
            }
            Change::FormerKey { person, key } => self.add(person, key, false)?,
            Change::ApproverRetired { person, .. } => {
                if !self.approvers().contains(&person.as_str()) {
                    return Err(format!("{person} is no approver"));
                }
                self.keys.iter_mut().filter(|k| k.person == *person).for_each(|k| k.is_active = false);
            }
            Change::KeyCompromised { since, fingerprint } => {
                let found = self.keys.iter_mut().find(|k| k.key.fingerprint == *fingerprint);
                let key = found.ok_or_else(|| format!("{fingerprint} is no known key"))?;
                key.is_active = false;
                key.compromised_since = Some(key.compromised_since.map_or(*since, |s| s.min(*since)));
            }
            Change::Signature(signature) => self.signature = *signature,
            Change::Creator { may_approve } => self.creator_may_approve = *may_approve,
            Change::AnswersValid { hours } => self.answers_valid_hours = *hours,
            Change::MayAnswer { gate, person } => {
                if !self.approvers().contains(&person.as_str()) {
                    return Err(format!("{person} is no approver"));
                }
                self.only.entry(gate.as_str().to_owned()).or_default().insert(person.clone());
            }
            Change::AnyoneMayAnswer { gate } => {
                self.only.remove(gate.as_str());
            }
            Change::ApprovalsNeeded { gate, people } => {
                let may = self.people_at(gate.as_str());
                if usize::try_from(*people).is_ok_and(|people| people > may) {
                    return Err(format!("{may} may answer at {gate}: {people} could never approve"));
                }
                self.needed.insert(gate.as_str().to_owned(), *people);
            }
            Change::DutyKeyRegistered { duty, public_key } => {
                if let Some(standing) = self.duty_key(*duty) {
                    return Err(format!("{} has the key {standing}; another one is rotated", duty.as_str()));
                }
                self.duty_keys.push(DutyKey { duty: *duty, public_key: public_key.clone() });
            }
            Change::DutyKeyRotated { duty, public_key } => {
                match self.duty_key(*duty) {
                    None => return Err(format!("{} has no key that could be rotated", duty.as_str())),
                    Some(standing) if standing == public_key => {
                        return Err(format!("{} signs with {standing} already", duty.as_str()));
                    }
                    Some(_) => {}
                }
                self.duty_keys.push(DutyKey { duty: *duty, public_key: public_key.clone() });
            }
        }
        Ok(())
    }

    fn add(&mut self, person: &str, key: &PublicKeyRef, is_active: bool) -> Result<(), String> {
        if let Some(known) = self.keys.iter_mut().find(|k| k.key.fingerprint == key.fingerprint) {
            // A retired key may be taken up again by its person, a standing one renewed (its expiry is
            // part of it); one that others may have, never.
            let is_news = !known.is_active || known.key.sha256 != key.sha256;
            if known.person == person && known.compromised_since.is_none() && is_news {
                known.key = key.clone();
                known.is_active |= is_active;
                return Ok(());
            }
            return Err(format!("the key {} is {}'s already", key.fingerprint, known.person));
        }
        self.keys.push(PolicyKey {
            person: person.to_owned(),
            key: key.clone(),
            is_active,
            compromised_since: None,
        });
        Ok(())
    }

    /// The rules as lines for people.
    #[must_use]
    pub fn lines(&self) -> Vec<(String, String)> {
        let signature = match self.signature {
            SignaturePolicy::Required => "required",
            SignaturePolicy::Optional => "optional",
        };
        let creator = if self.creator_may_approve { "may approve" } else { "may not approve" };
        let valid = self.answers_valid_hours.map_or_else(|| "unbounded".to_owned(), |h| format!("{h} hours"));
        let mut lines = alloc::vec![
            ("signature".to_owned(), signature.to_owned()),
            ("creator".to_owned(), creator.to_owned()),
            ("answers_valid".to_owned(), valid),
        ];
        for (gate, only) in &self.only {
            let people: Vec<&str> = only.iter().map(String::as_str).collect();
            lines.push((format!("may_answer {gate}"), people.join(", ")));
        }
        for (gate, people) in &self.needed {
            lines.push((format!("approvals_needed {gate}"), people.to_string()));
        }
        for key in &self.keys {
            let standing = match (key.is_active, key.compromised_since) {
                (_, Some(since)) => format!("compromised since {since}"),
                (true, None) => "may approve".to_owned(),
                (false, None) => "approves nothing".to_owned(),
            };
            lines.push((key.person.clone(), format!("{} {}: {standing}", key.key.kind, key.key.fingerprint)));
        }
        for duty in [Duty::Executor, Duty::Verifier] {
            let key = self.duty_key(duty).map_or_else(|| "not registered".to_owned(), ToString::to_string);
            lines.push((duty.as_str().to_owned(), key));
        }
        lines
    }
}

#[cfg(test)]
mod lines_tests;
#[cfg(test)]
mod tests;
