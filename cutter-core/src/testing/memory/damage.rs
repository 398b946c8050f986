//! What tests do to a world behind the driver's back: drift, corruption, loss.

use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;

use uuid::Uuid;

use super::rows::Lifecycle;
use super::world::World;
use crate::base::id::RunId;
use crate::base::vocabulary::Vocabulary;
use crate::port::{Port, PortError, PortErrorKind, PortResult};
use crate::record::effect::{EffectKey, EffectName};
use crate::record::observed::GrantSnapshot;

impl World {
    fn alter(&self, f: impl FnOnce(&mut super::observe::Catalogue)) {
        let mut inner = self.lock();
        f(&mut inner.data.catalogue);
    }

    /// Replaces a function inside the next transaction of `effect`: after its first survey
    /// and before its write, as another session's commit does under READ COMMITTED.
    pub fn alter_function_inside(&self, effect: EffectName, name: &str, body: &str) {
        let fingerprint = crate::base::digest::Digest::of(body.as_bytes()).to_hex();
        self.alter(|catalogue| catalogue.struck_inside.push((effect, name.to_string(), fingerprint)));
    }

    /// Replaces (or adds) a function: its fingerprint in surveys follows `body`.
    pub fn alter_function(&self, name: &str, body: &str) {
        let fingerprint = crate::base::digest::Digest::of(body.as_bytes()).to_hex();
        self.alter(|catalogue| {
            catalogue.functions.insert(name.to_string(), fingerprint);
        });
    }

    /// Drops a function.
    pub fn drop_function(&self, name: &str) {
        self.alter(|catalogue| {
            catalogue.functions.remove(name);
        });
    }

    /// Sets `tgenabled` of a trigger: `O`, `D`, `R` or `A`.
    pub fn alter_trigger(&self, name: &str, enabled: &str) {
        self.alter(|catalogue| {
            catalogue.triggers.insert(name.to_string(), enabled.to_string());
        });
    }

    /// Sets `session_replication_role`.
    pub fn set_replication_role(&self, role: &str) {
        self.alter(|catalogue| catalogue.replication_role = role.to_string());
    }

    /// Changes what the grant probe sees.
    pub fn alter_grants(&self, f: impl FnOnce(&mut GrantSnapshot)) {
        self.alter(|catalogue| f(&mut catalogue.grants));
    }

    /// Changes the stored vocabularies.
    pub fn alter_vocabulary(&self, f: impl FnOnce(&mut Vocabulary)) {
        self.alter(|catalogue| f(&mut catalogue.vocabulary));
    }

    /// Makes it another database, as a restore or failover does.
    pub fn set_database_identity(&self, identity: &str) {
        self.alter(|catalogue| catalogue.identity = identity.to_string());
    }

    /// Makes the digest of the applied migrations another one.
    pub fn set_migrations(&self, digest: &str) {
        self.alter(|catalogue| catalogue.migrations = digest.to_string());
    }

    /// Whether the schema is the one that the program knows.
    pub fn set_schema_matches(&self, matches: bool) {
        self.alter(|catalogue| catalogue.schema_matches = matches);
    }

    /// Removes the row of an effect, as a database restored to an earlier state lacks it.
    /// Returns whether it was there.
    pub fn drop_effect(&self, key: &EffectKey) -> bool {
        let mut inner = self.lock();
        inner.data.alterations += 1;
        inner.data.tables.effects.remove(key).is_some()
    }

    /// Removes the unit with this address from the newest change set that has it. Returns
    /// whether there was one.
    pub fn drop_unit(&self, canonical_address: &str) -> bool {
        let mut inner = self.lock();
        inner.data.alterations += 1;
        let units = &mut inner.data.tables.units;
        let found =
            units.values().rev().find(|u| u.canonical_address == canonical_address).map(|u| u.unit_id);
        found.and_then(|id| units.remove(&id)).is_some()
    }

    /// Writes other bytes into a live unit, leaving its hash. Enacted units are immutable while
    /// their trigger is enabled.
    ///
    /// # Errors
    /// `NotFound` if no live unit has the address, `Denied` if it is enacted and the trigger
    /// guards it.
    pub fn edit_unit(&self, canonical_address: &str, content: &[u8]) -> PortResult<()> {
        let mut inner = self.lock();
        inner.data.alterations += 1;
        let guarded = inner.data.catalogue.triggers.get("trg_iu_enacted_immut").is_some_and(|t| t == "O");
        let unit =
            inner.data.tables.units.values_mut().find(|u| {
                u.canonical_address == canonical_address && u.lifecycle_status != Lifecycle::Voided
            });
        let error = |kind, message: &str| {
            PortError::new(
                Port::Database,
                "edit_unit",
                kind,
                alloc::format!("{canonical_address}: {message}"),
            )
        };
        match unit {
            None => Err(error(PortErrorKind::NotFound, "there is no such live unit")),
            Some(unit) if guarded && unit.lifecycle_status == Lifecycle::Enacted => {
                Err(error(PortErrorKind::Denied, "enacted units are immutable"))
            }
            Some(unit) => {
                unit.content = Arc::new(content.to_vec());
                Ok(())
            }
        }
    }

    /// Changes a document's title: part of its closure, and so of its base state, but of no
    /// survey. Returns whether there is such a document.
    pub fn retitle(&self, document_id: &str, title: &str) -> bool {
        let mut inner = self.lock();
        inner.data.alterations += 1;
        let row = inner.data.tables.documents.get_mut(document_id);
        row.map(|row| row.title = title.to_string()).is_some()
    }

    /// Adds a copy of a live unit under another address, as a foreign writer would. Returns
    /// whether there was one to copy.
    pub fn intrude_unit(&self, like: &str, canonical_address: &str) -> bool {
        let mut inner = self.lock();
        inner.data.alterations += 1;
        let units = &mut inner.data.tables.units;
        let found = units.values().find(|u| u.canonical_address == like).cloned();
        let Some(mut unit) = found else { return false };
        let id = |salt: u8| {
            let digest =
                crate::base::digest::Digest::of(alloc::format!("{canonical_address}{salt}").as_bytes());
            let mut bytes = [0; 10];
            bytes.copy_from_slice(&digest.as_bytes()[..10]);
            crate::base::id::mint_v7(0, bytes)
        };
        (unit.unit_id, unit.version_id, unit.anchor_id) = (id(0), id(1), id(2));
        unit.canonical_address = canonical_address.to_string();
        units.insert(unit.unit_id, unit);
        true
    }

    /// Ids of all change sets of a run, in order of id.
    #[must_use]
    pub fn change_sets(&self, run_id: &RunId) -> Vec<Uuid> {
        let inner = self.lock();
        let sets = inner.data.tables.change_sets.values().filter(|set| set.run_id == *run_id);
        sets.map(|set| set.change_set_id).collect()
    }

    /// Writes other bytes over the newest revision of a document. Returns whether there is one.
    pub fn corrupt_document(&self, path: &str, bytes: &[u8]) -> bool {
        let mut inner = self.lock();
        let newest = inner.data.documents.newest_mut(path);
        newest.map(|stored| *stored = bytes.to_vec()).is_some()
    }

    /// Removes a document. Returns whether there was one.
    pub fn drop_document(&self, path: &str) -> bool {
        self.lock().data.documents.0.remove(path).is_some()
    }

    /// Tears the last `bytes` bytes off a document, as a crash of its writer does. Returns
    /// whether there is one.
    pub fn tear_document(&self, path: &str, bytes: usize) -> bool {
        let mut inner = self.lock();
        let newest = inner.data.documents.newest_mut(path);
        newest.map(|stored| stored.truncate(stored.len().saturating_sub(bytes))).is_some()
    }

    /// Flips a bit in the middle of a stored backup. Returns whether there is one.
    pub fn corrupt_backup(&self, run_id: &RunId, name: &str) -> bool {
        let mut inner = self.lock();
        let blob = inner.data.backups.blobs.get_mut(&(run_id.clone(), name.to_string()));
        let middle = blob.and_then(|bytes| {
            let at = bytes.len() / 2;
            bytes.get_mut(at)
        });
        middle.map(|byte| *byte ^= 1).is_some()
    }

    /// Removes a stored backup. Returns whether there was one.
    pub fn drop_backup(&self, run_id: &RunId, name: &str) -> bool {
        self.lock().data.backups.blobs.remove(&(run_id.clone(), name.to_string())).is_some()
    }

    /// Loses the asks of a run and the answers to them: it parked before there were any.
    pub fn forget_asks(&self, run_id: &RunId) {
        self.lock().data.tables.asks.retain(|(run, _, _), _| run != run_id);
    }

    /// Loses the run store's part of a run (sidecar, claim, mirrors), as another home on the
    /// same database has none of it.
    pub fn forget_run(&self, run_id: &RunId) {
        let mut inner = self.lock();
        let runs = &mut inner.data.runs;
        runs.revisions.remove(run_id);
        runs.mirrors.retain(|(run, _), _| run != run_id);
        for claims in runs.claims.values_mut() {
            claims.retain(|claim| claim.run_id != *run_id);
        }
    }

    /// Whether the backup target answers.
    pub fn set_backup_reachable(&self, reachable: bool) {
        self.lock().data.backups.reachable = reachable;
    }

    /// The key that the target encrypts to.
    pub fn set_backup_recipient(&self, fingerprint: &str) {
        self.lock().data.backups.fingerprint = String::from(fingerprint);
    }

    /// Puts other bytes in the place of one revision of a run. `false` if there is none.
    pub fn corrupt_revision(&self, run_id: &RunId, revision: usize, bytes: &[u8]) -> bool {
        let mut inner = self.lock();
        let revisions = inner.data.runs.revisions.get_mut(run_id);
        let found = revisions.and_then(|all| all.get_mut(revision.checked_sub(1)?));
        found.map(|standing| *standing = bytes.to_vec()).is_some()
    }

    /// Puts an older revision of a run back: those after it are gone. Returns whether there is one.
    pub fn put_back_revision(&self, run_id: &RunId, revision: u64) -> bool {
        let mut inner = self.lock();
        let Some(all) = inner.data.runs.revisions.get_mut(run_id) else { return false };
        let kept = usize::try_from(revision).unwrap_or(usize::MAX);
        let is_older = kept > 0 && kept < all.len();
        if is_older {
            all.truncate(kept);
        }
        is_older
    }

    /// Writes other bytes over the newest revision of a sidecar. Returns whether there is one.
    pub fn corrupt_sidecar(&self, run_id: &RunId, bytes: &[u8]) -> bool {
        let mut inner = self.lock();
        let newest = inner.data.runs.revisions.get_mut(run_id).and_then(|all| all.last_mut());
        newest.map(|stored| *stored = bytes.to_vec()).is_some()
    }
}
