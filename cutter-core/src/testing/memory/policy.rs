//! The policy of the model, and how a test founds and changes it.

use alloc::boxed::Box;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use async_trait::async_trait;

use super::database::MemoryDatabase;
use super::world::World;
use crate::base::cas::CasOutcome;
use crate::base::digest::Digest;
use crate::base::id::mint_v7;
use crate::port::policy::PolicyStore;
use crate::port::{Port, PortError, PortErrorKind, PortResult};
use crate::record::policy::{Change, Event, NewEvent, OPENPGP, PolicyRecord, PublicKeyRef};
use crate::record::signature::Duty;

#[async_trait]
impl PolicyStore for MemoryDatabase {
    async fn append(&self, event: &NewEvent) -> PortResult<CasOutcome<u64>> {
        self.0.call(Port::Database, "append_policy", |data| {
            let now = data.now;
            event.append_to(&mut data.policy, now).map_err(|unfit| {
                PortError::new(Port::Database, "append_policy", PortErrorKind::Invalid, unfit.to_string())
            })
        })
    }
}

impl World {
    /// Founds the policy: the strict rules, the duties' own keys, and these people, who may approve.
    pub fn found_policy(&self, people: &[&str]) {
        let mut changes = alloc::vec![Change::Founded { chain: mint_v7(1, [7; 10]) }];
        for duty in [Duty::Executor, Duty::Verifier] {
            changes.push(Change::DutyKeyRegistered { duty, public_key: self.duty_key(duty) });
        }
        changes.extend(people.iter().map(|person| self.approver(person)));
        self.change_policy(changes, None);
    }

    /// The change that lets a person approve with the key of [`World::person`].
    #[must_use]
    pub fn approver(&self, person: &str) -> Change {
        Change::ApproverAdded { person: person.to_string(), key: key_of(&self.person(person)) }
    }

    /// The change that lets a person approve with this key.
    #[must_use]
    pub fn approver_with(&self, person: &str, fingerprint: &str) -> Change {
        Change::ApproverAdded { person: person.to_string(), key: key_of(fingerprint) }
    }

    /// How the policy writes a key.
    #[must_use]
    pub fn policy_key(&self, fingerprint: &str) -> PublicKeyRef {
        key_of(fingerprint)
    }

    /// The database holds no policy any more.
    pub fn forget_policy(&self) {
        self.lock().data.policy = PolicyRecord::default();
    }

    /// Appends an event, signed by a person's key or by nobody.
    ///
    /// # Panics
    /// If it does not follow what stands.
    pub fn change_policy(&self, changes: Vec<Change>, signer: Option<&str>) {
        let mut inner = self.lock();
        let (now, record) = (inner.data.now, &mut inner.data.policy);
        let previous = record.events.last().map(|e| Digest::of(e.document.as_bytes()));
        let seq = record.events.len() as u64 + 1;
        let keys = changes.iter().filter_map(|change| match change {
            Change::ApproverAdded { key, .. } | Change::KeyAdded { key, .. } => Some(key.fingerprint.clone()),
            _ => None,
        });
        let keys: Vec<String> = keys.collect();
        let text = Event { seq, previous, at: now, why: String::new(), changes }.text();
        let document = signer.map_or_else(|| text.clone(), |key| super::signer::seal(key, now, &text));
        let event = NewEvent { seq, previous, document, keys };
        let outcome = event.append_to(record, now);
        assert_eq!(outcome, Ok(CasOutcome::Applied), "policy event {seq}");
    }
}

fn key_of(fingerprint: &str) -> PublicKeyRef {
    PublicKeyRef {
        kind: OPENPGP.to_string(),
        fingerprint: fingerprint.to_string(),
        sha256: Digest::of(fingerprint.as_bytes()),
    }
}
