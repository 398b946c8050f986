//! Forward-only schema changes, checksummed, safe under two concurrent runners.
//!
//! Each migration and its record commit together, one transaction each, all under one
//! advisory lock of the database; a second runner waits, for a minute, and then finds nothing to do. What
//! was applied is never applied again and never edited: its sha256 is compared every time. A
//! schema newer than this binary knows is refused.
//!
//! Roles are cluster-wide and so no part of a migration: [`ensure_logins`] makes them first.
//! Migrations run as the administrator, with `search_path = pg_catalog, pg_temp`, so every
//! name in them is qualified.

mod lock;
mod moves;
mod roles;

use std::fmt::Write as _;
use std::time::Duration;

use postgres::{Client, Transaction};
use sha2::{Digest as _, Sha256};

use self::lock::MigrationLock;
pub(crate) use self::roles::scram_verifier;
pub use self::roles::{COPY_ROLE, OWNER_ROLE, ensure_logins};
use crate::error::PgError;

/// One forward step of the schema.
#[derive(Debug, Clone, Copy)]
pub struct Migration {
    /// Position, from 1, without gaps.
    pub version: u32,
    /// A short name for people.
    pub name: &'static str,
    /// The statements. No BEGIN or COMMIT: the runner's transaction is around them.
    pub sql: &'static str,
}

impl Migration {
    /// sha256 of the statements, in lowercase hexadecimal.
    #[must_use]
    pub fn checksum(&self) -> String {
        hex_sha256(self.sql.as_bytes())
    }
}

/// A migration as the database recorded it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AppliedMigration {
    /// Its position.
    pub version: u32,
    /// Its name.
    pub name: String,
    /// sha256 of the statements that ran.
    pub sha256: String,
    /// When, RFC 3339 in UTC.
    pub applied_at: String,
}

/// How database and binary compare.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MigrationStatus {
    /// What the database recorded, oldest first.
    pub applied: Vec<AppliedMigration>,
    /// Versions that this binary would apply.
    pub pending: Vec<u32>,
}

impl MigrationStatus {
    /// Nothing is pending.
    #[must_use]
    pub fn is_current(&self) -> bool {
        self.pending.is_empty()
    }

    /// One digest over everything applied, a pin of a run (`PROTOCOL` §4): sha256 over the
    /// lines `version name sha256`.
    #[must_use]
    pub fn checksums_digest(&self) -> String {
        digest_lines(self.applied.iter().map(|m| (m.version, m.name.as_str(), m.sha256.clone())))
    }
}

/// Why the schema was not changed.
#[derive(Debug, thiserror::Error)]
pub enum MigrateError {
    /// The list in the binary is not 1, 2, 3, …
    #[error("the list of migrations is out of order: expected version {expected}, found {found}")]
    List {
        /// The version that should stand there.
        expected: u32,
        /// The version that stands there.
        found: u32,
    },
    /// A migration was edited after it was applied.
    #[error(
        "migration {version} ({name}) was edited after it was applied: the database recorded sha256 {recorded}, \
         this binary has {known}; restore the file, and put the change into a new migration"
    )]
    Edited {
        /// Its position.
        version: u32,
        /// Its name in this binary.
        name: String,
        /// The checksum in the database.
        recorded: String,
        /// The checksum in this binary.
        known: String,
    },
    /// The database is ahead of this binary.
    #[error(
        "the database's schema is at version {database}, this binary knows up to {known}; use a newer cutter"
    )]
    Newer {
        /// The highest version applied.
        database: u32,
        /// The highest version known.
        known: u32,
    },
    /// A version is missing below one that was applied.
    #[error(
        "the database recorded migration {found} where {expected} was expected; its record was tampered with"
    )]
    Gap {
        /// The version that should be there.
        expected: u32,
        /// The version found.
        found: u32,
    },
    /// A migration's statements failed; it was rolled back whole.
    #[error("migration {version} ({name}) failed at line {line}, and was rolled back: {source}")]
    Failed {
        /// Its position.
        version: u32,
        /// Its name.
        name: String,
        /// The line of the file, 0 if the server did not say.
        line: usize,
        /// The server's reason.
        source: PgError,
    },
    /// The statements contain their own COMMIT or ROLLBACK.
    #[error("migration {version} ({name}) ends the transaction by itself; remove its COMMIT or ROLLBACK")]
    EndsTransaction {
        /// Its position.
        version: u32,
        /// Its name.
        name: String,
    },
    /// Another runner holds the lock for too long.
    #[error("nothing was migrated: the lock of migrations was held for {seconds} s by {holder}")]
    Busy {
        /// How long we waited.
        seconds: u64,
        /// Who holds it: server process, login, application, since when, and what ends it. Anybody can.
        holder: String,
    },
    /// Somebody is at work who knows the schema as it stands.
    #[error(
        "the schema moves under nobody: expected no lease, observed {count}, the first {what}, held by {holder} until \
         {until}; end the workers (SIGTERM lets them finish what they do) or wait for that time, then migrate again"
    )]
    AtWork {
        /// How many leases are held.
        count: i64,
        /// A run or an item of the queue.
        what: String,
        /// Who holds it.
        holder: String,
        /// When the last of them ends by itself, RFC 3339 in UTC.
        until: String,
    },
    /// The database failed.
    #[error(transparent)]
    Database(#[from] PgError),
}

impl From<postgres::Error> for MigrateError {
    fn from(error: postgres::Error) -> Self {
        Self::Database(error.into())
    }
}

/// Applies a list of migrations.
#[derive(Debug, Clone, Copy)]
pub struct Migrator<'a> {
    list: &'a [Migration],
    /// How long one runner waits for another.
    wait: Duration,
}

impl Migrator<'static> {
    /// The migrations of this binary.
    ///
    /// # Errors
    /// [`MigrateError::List`].
    pub fn shipped() -> Result<Self, MigrateError> {
        Self::new(crate::migrations::migrations())
    }
}

impl<'a> Migrator<'a> {
    /// A list of one's own, versions 1, 2, 3, ….
    ///
    /// # Errors
    /// [`MigrateError::List`] if they are not.
    pub fn new(list: &'a [Migration]) -> Result<Self, MigrateError> {
        for (migration, expected) in list.iter().zip(1_u32..) {
            if migration.version != expected {
                return Err(MigrateError::List { expected, found: migration.version });
            }
        }
        Ok(Self { list, wait: Duration::from_secs(60) })
    }

    /// Waits so long for another runner; a minute unless told.
    #[must_use]
    pub const fn waiting(mut self, wait: Duration) -> Self {
        self.wait = wait;
        self
    }

    /// The digest that a fully migrated database has: [`MigrationStatus::checksums_digest`].
    #[must_use]
    pub fn checksums_digest(&self) -> String {
        digest_lines(self.list.iter().map(|m| (m.version, m.name, m.checksum())))
    }

    /// Compares, without changing anything. Any login that may read may ask.
    ///
    /// # Errors
    /// An edited migration, a newer schema, a gap; or the database's.
    pub fn status(&self, client: &mut Client) -> Result<MigrationStatus, MigrateError> {
        let mut transaction = client.build_transaction().read_only(true).start()?;
        let status = self.compare(&mut transaction)?;
        transaction.rollback()?;
        Ok(status)
    }

    /// As [`Self::status`], in the snapshot of a transaction that is open already.
    ///
    /// # Errors
    /// As [`Self::status`].
    pub fn status_in(&self, transaction: &mut Transaction<'_>) -> Result<MigrationStatus, MigrateError> {
        self.compare(transaction)
    }

    /// Applies what is pending, each in its own transaction. Returns the versions applied.
    ///
    /// # Errors
    /// As [`MigrateError`] says; what was applied before the failure stays.
    pub fn run(&self, client: &mut Client) -> Result<Vec<u32>, MigrateError> {
        let mut lock = MigrationLock::take(client, self.wait)?;
        let outcome = self.run_locked(lock.client());
        let released = lock.release();
        let applied = outcome?;
        released?;
        Ok(applied)
    }

    fn run_locked(&self, client: &mut Client) -> Result<Vec<u32>, MigrateError> {
        let mut transaction = client.transaction()?;
        prepare(&mut transaction)?;
        let status = self.compare(&mut transaction)?;
        transaction.commit().map_err(|error| PgError::from(error).commit_outcome())?;
        if !status.pending.is_empty() {
            nobody_at_work(client)?;
        }
        for version in &status.pending {
            let mut transaction = client.transaction()?;
            self.apply(&mut transaction, *version)?;
            transaction.commit().map_err(|error| PgError::from(error).commit_outcome())?;
        }
        Ok(status.pending)
    }

    /// Applies everything pending in one transaction and rolls it back: whether it would
    /// work, without doing it. Returns the versions that `run` would apply.
    ///
    /// # Errors
    /// As [`Self::run`].
    pub fn dry_run(&self, client: &mut Client) -> Result<Vec<u32>, MigrateError> {
        let mut lock = MigrationLock::take(client, self.wait)?;
        let outcome = self.dry_run_locked(lock.client());
        let released = lock.release();
        let pending = outcome?;
        released?;
        Ok(pending)
    }

    fn dry_run_locked(&self, client: &mut Client) -> Result<Vec<u32>, MigrateError> {
        let mut transaction = client.transaction()?;
        prepare(&mut transaction)?;
        let status = self.compare(&mut transaction)?;
        for version in &status.pending {
            self.apply(&mut transaction, *version)?;
        }
        transaction.rollback()?;
        Ok(status.pending)
    }

    /// One migration and its record, inside the caller's transaction.
    fn apply(&self, transaction: &mut Transaction<'_>, version: u32) -> Result<(), MigrateError> {
        let Some(migration) = self.list.iter().find(|m| m.version == version) else {
            return Err(MigrateError::List { expected: version, found: 0 });
        };
        transaction.batch_execute("SET LOCAL search_path = pg_catalog, pg_temp")?;
        let surveyed = moves::surveyed(transaction)?;
        let before = transaction_id(transaction)?;
        transaction.batch_execute(migration.sql).map_err(|error| {
            let source = PgError::from(error);
            let line = match &source {
                PgError::Database { position: Some(at), .. } => line_at(migration.sql, *at),
                _ => 0,
            };
            MigrateError::Failed { version, name: migration.name.to_owned(), line, source }
        })?;
        // A migration may have switched the role; the record is the administrator's.
        transaction.batch_execute("RESET ROLE")?;
        if transaction_id(transaction)? != before {
            return Err(MigrateError::EndsTransaction { version, name: migration.name.to_owned() });
        }
        let number =
            i32::try_from(version).map_err(|_| PgError::Shape(format!("version {version} is too large")))?;
        transaction.execute(
            "INSERT INTO cutter_meta.migration (version, name, sha256) VALUES ($1, $2, $3)",
            &[&number, &migration.name, &migration.checksum()],
        )?;
        if let (Some(before), Some(after)) = (surveyed, moves::surveyed(transaction)?) {
            moves::record(transaction, number, &before, &after)?;
        }
        Ok(())
    }

    fn compare(&self, transaction: &mut Transaction<'_>) -> Result<MigrationStatus, MigrateError> {
        let applied = read_applied(transaction)?;
        let known = u32::try_from(self.list.len()).unwrap_or(u32::MAX);
        if let Some(last) = applied.last()
            && last.version > known
        {
            return Err(MigrateError::Newer { database: last.version, known });
        }
        for (found, migration) in applied.iter().zip(self.list) {
            if found.version != migration.version {
                return Err(MigrateError::Gap { expected: migration.version, found: found.version });
            }
            let known = migration.checksum();
            if found.sha256 != known {
                return Err(MigrateError::Edited {
                    version: found.version,
                    name: migration.name.to_owned(),
                    recorded: found.sha256.clone(),
                    known,
                });
            }
        }
        let pending = self.list.iter().skip(applied.len()).map(|m| m.version).collect();
        Ok(MigrationStatus { applied, pending })
    }
}

/// The record's table. Everybody of ours may read it: migration checksums are pins.
fn prepare(transaction: &mut Transaction<'_>) -> Result<(), PgError> {
    if has_table(transaction, "migration_move")? {
        return Ok(());
    }
    transaction.batch_execute(
        "CREATE SCHEMA IF NOT EXISTS cutter_meta;
         CREATE TABLE IF NOT EXISTS cutter_meta.migration (
             version    integer PRIMARY KEY CHECK (version > 0),
             name       text NOT NULL,
             sha256     text NOT NULL CHECK (sha256 ~ '^[0-9a-f]{64}$'),
             applied_at timestamptz NOT NULL DEFAULT pg_catalog.clock_timestamp()
         );
         CREATE TABLE cutter_meta.migration_move (
             version      integer NOT NULL,
             dimension    text COLLATE \"C\" NOT NULL,
             before_value text,
             after_value  text,
             PRIMARY KEY (version, dimension)
         );",
    )?;
    let readers = transaction.query(
        "SELECT rolname::text FROM pg_catalog.pg_roles
         WHERE rolname IN ('cutter_owner', 'cutter_exec', 'cutter_verify', 'cutter_review', 'cutter_ro')",
        &[],
    )?;
    for row in readers {
        let role: String = row.try_get(0)?;
        transaction.batch_execute(&format!(
            "GRANT USAGE ON SCHEMA cutter_meta TO {role}; GRANT SELECT ON cutter_meta.migration, cutter_meta.migration_move TO {role};"
        ))?;
    }
    Ok(())
}

fn has_table(transaction: &mut Transaction<'_>, name: &str) -> Result<bool, PgError> {
    let row = transaction
        .query_one("SELECT pg_catalog.to_regclass('cutter_meta.' || $1::text) IS NOT NULL", &[&name])?;
    Ok(row.try_get(0)?)
}

/// No lease is held, of a run or of an item. Schemas without leases have nobody.
fn nobody_at_work(client: &mut Client) -> Result<(), MigrateError> {
    if client.query_opt("SELECT WHERE to_regclass('cutter_run.lease') IS NOT NULL", &[])?.is_none() {
        return Ok(());
    }
    let held = client.query_opt(
        "SELECT h.what, h.holder, count(*) OVER (),
             to_char(max(h.expires_at) OVER () AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS\"Z\"')
         FROM (SELECT 'run ' || l.run_id AS what, l.holder, l.expires_at FROM cutter_run.lease l
               WHERE l.released_at IS NULL
               UNION ALL
               SELECT 'item ' || q.item_id, q.holder::text, q.expires_at FROM cutter_queue.work_lease q) h
         WHERE h.expires_at > clock_timestamp() ORDER BY h.what LIMIT 1",
        &[],
    )?;
    let Some(row) = held else { return Ok(()) };
    let (what, holder) = (row.try_get(0)?, row.try_get(1)?);
    Err(MigrateError::AtWork { what, holder, count: row.try_get(2)?, until: row.try_get(3)? })
}

fn read_applied(transaction: &mut Transaction<'_>) -> Result<Vec<AppliedMigration>, PgError> {
    if !has_table(transaction, "migration")? {
        return Ok(Vec::new());
    }
    let rows = transaction.query(
        "SELECT version, name, sha256,
                pg_catalog.to_char(applied_at AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.US\"Z\"')
         FROM cutter_meta.migration ORDER BY version",
        &[],
    )?;
    rows.iter()
        .map(|row| {
            let version: i32 = row.try_get(0)?;
            Ok(AppliedMigration {
                version: u32::try_from(version)
                    .map_err(|_| PgError::Shape(format!("migration version {version} is negative")))?,
                name: row.try_get(1)?,
                sha256: row.try_get(2)?,
                applied_at: row.try_get(3)?,
            })
        })
        .collect()
}

fn transaction_id(transaction: &mut Transaction<'_>) -> Result<String, PgError> {
    Ok(transaction.query_one("SELECT pg_catalog.pg_current_xact_id()::text", &[])?.try_get(0)?)
}

/// The line of a position that the server counts in characters from 1.
fn line_at(sql: &str, position: u32) -> usize {
    let before = usize::try_from(position).unwrap_or(usize::MAX).saturating_sub(1);
    1 + sql.chars().take(before).filter(|c| *c == '\n').count()
}

fn digest_lines<'m>(lines: impl Iterator<Item = (u32, &'m str, String)>) -> String {
    let mut text = String::new();
    for (version, name, sha256) in lines {
        // Writing to a String does not fail.
        let _ = writeln!(text, "{version} {name} {sha256}");
    }
    hex_sha256(text.as_bytes())
}

fn hex_sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().fold(String::with_capacity(64), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shipped_list_is_in_order() {
        Migrator::shipped().unwrap();
    }

    #[test]
    fn a_list_with_a_hole_is_refused() {
        let list =
            [Migration { version: 1, name: "a", sql: "" }, Migration { version: 3, name: "b", sql: "" }];
        assert!(matches!(Migrator::new(&list), Err(MigrateError::List { expected: 2, found: 3 })));
    }

    #[test]
    fn lines_are_counted_in_characters() {
        let lines = [1, 6, 16].map(|at| line_at("-- ế\nSELECT 1;\nSELEC 2;", at));
        assert_eq!(lines, [1, 2, 3]);
    }

    #[test]
    fn checksums_are_of_the_bytes() {
        // printf '' | sha256sum
        let empty = Migration { version: 1, name: "a", sql: "" };
        assert_eq!(empty.checksum(), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    }
}
