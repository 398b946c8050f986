//! The database's policy: read and checked, and how an administrator appends to it.

use std::collections::BTreeMap;

use cutter_core::base::cas::CasOutcome;
use cutter_core::base::digest::Digest;
use cutter_core::driver::policy_of;
use cutter_core::port::database::Reader as _;
use cutter_core::port::policy::PolicyStore as _;
use cutter_core::port::signer::SignatureVerifier as _;
use cutter_core::port::{Port, PortError, PortErrorKind};
use cutter_core::record::approval::SignaturePolicy;
use cutter_core::record::policy::{
    Broken, Chain, Change, Event, NewEvent, OPENPGP, PolicyRecord, PublicKeyRef, StoredEvent,
};
use cutter_core::record::signature::{Duty, SignatureFacts};
use cutter_kb::openpgp::PublicKey;
use cutter_kb::ports::KeyRing;
use cutter_pg::policy::PgPolicyStore;
use futures_executor::block_on;

use super::{RandomIds, duty_public_key, load_public, now};
use crate::commands::db;
use crate::config::{Actor, Config};
use crate::failure::Failure;

/// The policy as the database holds it, checked; empty if there is none.
pub(crate) fn chain(config: &Config) -> Result<Chain, Failure> {
    let database = super::reader(config)?;
    block_on(policy_of(&database, &KeyRing::new(Vec::new()))).map_err(Into::into)
}

/// Changes, and the public keys that they name.
#[derive(Debug, Clone, Default)]
pub(crate) struct Draft {
    pub(crate) changes: Vec<Change>,
    pub(crate) keys: Vec<String>,
}

impl Draft {
    /// The reference to a public key, which is kept beside the event.
    pub(crate) fn key(&mut self, key: &PublicKey) -> Result<PublicKeyRef, Failure> {
        let text = key.armored().map_err(|e| Failure::usage(e.to_string()))?;
        let sha256 = Digest::of(text.as_bytes());
        self.keys.push(text);
        Ok(PublicKeyRef { kind: OPENPGP.to_owned(), fingerprint: key.fingerprint().to_string(), sha256 })
    }

    /// What founds the policy by a configuration: its rules, its duties' keys, the people who may
    /// approve, and everybody else's keys as such that approve nothing.
    pub(crate) fn founding(config: &Config) -> Result<Self, Failure> {
        let mut draft = Self::default();
        let approvals = &config.approvals;
        draft.changes.push(Change::Founded { chain: RandomIds.random_uuid(now()) });
        draft.changes.push(Change::Signature(if approvals.must_be_signed {
            SignaturePolicy::Required
        } else {
            SignaturePolicy::Optional
        }));
        draft.changes.push(Change::Creator { may_approve: approvals.creator_may_approve });
        for (duty, seed) in [(Duty::Executor, &config.keys.executor), (Duty::Verifier, &config.keys.verifier)]
        {
            // A home that only looks has no keys of its own.
            if seed.exists() || super::public_half(seed).exists() {
                let public_key = duty_public_key(seed)?;
                draft.changes.push(Change::DutyKeyRegistered { duty, public_key });
            }
        }
        let mut taken: BTreeMap<String, String> = BTreeMap::new();
        // Whoever may approve comes first: a key that two names share is the approver's.
        let (sovereigns, others): (Vec<_>, Vec<_>) = config.actors.iter().partition(|(_, a)| a.is_sovereign);
        for (name, actor) in sovereigns.into_iter().chain(others) {
            let key = pinned_key(name, actor)?;
            if let Some(other) = taken.insert(actor.fingerprint.to_string(), name.clone()) {
                if actor.is_sovereign {
                    return Err(Failure::usage(format!("{name} and {other} have one key")).broken(
                        "approval.signer_pinned",
                        "a key of one approver",
                        actor.fingerprint.to_string(),
                    ));
                }
                continue;
            }
            let person = name.clone();
            let key = draft.key(&key)?;
            draft.changes.push(if actor.is_sovereign {
                Change::ApproverAdded { person, key }
            } else {
                Change::FormerKey { person, key }
            });
        }
        Ok(draft)
    }
}

/// A configured person's public key, which must be the pinned one.
pub(crate) fn pinned_key(name: &str, actor: &Actor) -> Result<PublicKey, Failure> {
    let key = load_public(&actor.public_key)?;
    if key.fingerprint() == actor.fingerprint {
        return Ok(key);
    }
    Err(Failure::usage(format!("the key of {name} is not the pinned one")).broken(
        format!("config.actors.{name}.fingerprint"),
        actor.fingerprint.to_string(),
        format!("{} in {}", key.fingerprint(), actor.public_key.display()),
    ))
}

/// The policy's events as they are stored, for whoever appends the next one.
pub(crate) struct Book {
    record: PolicyRecord,
}

/// What was appended.
#[derive(Debug, Clone, serde::Serialize)]
pub(crate) struct Appended {
    pub(crate) seq: u64,
    pub(crate) sha256: Digest,
    pub(crate) notices: Vec<String>,
}

impl Book {
    pub(crate) fn read(config: &Config) -> Result<Self, Failure> {
        Ok(Self { record: block_on(super::reader(config)?.policy())? })
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.record.events.is_empty()
    }

    /// The next event with these changes.
    pub(crate) fn event(&self, changes: Vec<Change>, why: &str) -> Result<Event, Failure> {
        let event = Event {
            seq: self.record.events.len() as u64 + 1,
            previous: self.record.events.last().map(|e| Digest::of(e.document.as_bytes())),
            at: now(),
            why: why.to_owned(),
            changes,
        };
        event.check().map_err(|e| Failure::usage(e.to_string()))?;
        Ok(event)
    }

    /// The chain with a document appended: whether it would hold.
    fn with(&self, document: &str, keys: &[String]) -> Result<Chain, Failure> {
        let mut record = self.record.clone();
        let seq = record.events.len() as u64 + 1;
        record.events.push(StoredEvent { seq, document: document.to_owned(), recorded_at: now() });
        record.keys.extend(keys.iter().map(|k| (Digest::of(k.as_bytes()), k.clone())));
        let chain = match walk(&record)? {
            Ok(chain) => chain,
            // what is there holds, and this does not fit it
            Err(broken) if broken.seq == seq => {
                return Err(
                    Failure::usage(format!("nothing was changed: {}", broken.why)).next("cutter policy show")
                );
            }
            Err(broken) => return Err(corrupt(&broken)),
        };
        if chain.head() == Some(Digest::of(document.as_bytes())) {
            return Ok(chain);
        }
        Err(Failure::usage(format!("policy event {seq} would not hold")))
    }

    /// Appends a document, signed or bare, if the chain holds with it.
    pub(crate) fn append(
        &self,
        config: &Config,
        document: &str,
        keys: Vec<String>,
    ) -> Result<Appended, Failure> {
        let chain = self.with(document, &keys)?;
        let seq = self.record.events.len() as u64 + 1;
        let previous = self.record.events.last().map(|e| Digest::of(e.document.as_bytes()));
        let store = PgPolicyStore::connect(db::admin_dsn(config)?);
        let event = NewEvent { seq, previous, document: document.to_owned(), keys };
        match block_on(store.append(&event))? {
            CasOutcome::Applied | CasOutcome::AlreadyApplied => {
                Ok(Appended { seq, sha256: Digest::of(document.as_bytes()), notices: chain.notices() })
            }
            CasOutcome::Conflict { found } => {
                Err(Failure::usage("another event was appended meanwhile; nothing was changed")
                    .broken("policy.seq", (seq - 1).to_string(), found.to_string())
                    .next("cutter policy show"))
            }
        }
    }

    /// Whether an event needs an approver's signature not to be a new founding.
    pub(crate) fn has_approvers(&self) -> Result<bool, Failure> {
        Ok(check(&self.record)?.links().iter().any(|l| !l.policy.approvers().is_empty()))
    }
}

fn check(record: &PolicyRecord) -> Result<Chain, Failure> {
    walk(record)?.map_err(|broken| corrupt(&broken))
}

fn corrupt(broken: &Broken) -> Failure {
    PortError::new(Port::Policy, "check", PortErrorKind::Corrupt, broken.to_string()).into()
}

/// Walks the chain; the inner error says where it does not hold.
fn walk(record: &PolicyRecord) -> Result<Result<Chain, Broken>, Failure> {
    let ring = KeyRing::new(Vec::new());
    let keys: Vec<&str> = record.keys.values().map(String::as_str).collect();
    let mut facts: Vec<SignatureFacts> = Vec::new();
    for event in &record.events {
        facts.push(block_on(ring.observe_with(event.document.as_bytes(), &keys, event.recorded_at))?);
    }
    Ok(Chain::check(record, &facts))
}

/// Founds the policy by the home's configuration, if there is none yet: the sentence to show.
pub(crate) fn found(config: &Config) -> Result<Option<String>, Failure> {
    let book = Book::read(config)?;
    if !book.is_empty() || config.file.is_none() {
        return Ok(None);
    }
    let draft = Draft::founding(config)?;
    let text = book.event(draft.changes, "")?.text();
    book.append(config, &text, draft.keys)?;
    let people: Vec<&str> = config.sovereigns().map(|(name, _)| name.as_str()).collect();
    let people = if people.is_empty() { "nobody yet".to_owned() } else { people.join(", ") };
    Ok(Some(format!("the policy is founded by {}; who may approve: {people}", config.file_path.display())))
}
