//! The advisory lock of the migration runner: one per database, held by the session.

use std::time::{Duration, Instant};

use postgres::Client;

use super::MigrateError;
use crate::error::PgError;

/// The two halves of the lock's number: `cut` and `mig`.
const LOCK: (i32, i32) = (0x0063_7574, 0x006d_6967);

/// How long a runner waits for another.
const WAIT: Duration = Duration::from_secs(120);

/// The lock, held. It saves work and orders runners; what keeps the schema right is that a
/// migration and its record commit together under a primary key.
pub(super) struct MigrationLock<'c> {
    client: &'c mut Client,
    is_held: bool,
}

impl<'c> MigrationLock<'c> {
    /// Waits for the lock by asking again, so that no lock timeout of the session cuts in.
    pub(super) fn take(client: &'c mut Client) -> Result<Self, MigrateError> {
        let until = Instant::now() + WAIT;
        loop {
            let row = client
                .query_one("SELECT pg_catalog.pg_try_advisory_lock($1, $2)", &[&LOCK.0, &LOCK.1])
                .map_err(PgError::from)?;
            if row.try_get(0).map_err(PgError::from)? {
                return Ok(Self { client, is_held: true });
            }
            if Instant::now() >= until {
                return Err(MigrateError::Busy { seconds: WAIT.as_secs(), holder: holder(client)? });
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// The session that holds it.
    pub(super) fn client(&mut self) -> &mut Client {
        self.client
    }

    /// Gives it back.
    pub(super) fn release(mut self) -> Result<(), PgError> {
        self.unlock()
    }

    fn unlock(&mut self) -> Result<(), PgError> {
        if std::mem::take(&mut self.is_held) {
            self.client.execute("SELECT pg_catalog.pg_advisory_unlock($1, $2)", &[&LOCK.0, &LOCK.1])?;
        }
        Ok(())
    }
}

impl Drop for MigrationLock<'_> {
    fn drop(&mut self) {
        // After a panic between take and release; a lost session has lost the lock anyway.
        let _ = self.unlock();
    }
}

fn holder(client: &mut Client) -> Result<String, PgError> {
    let row = client.query_opt(
        "SELECT pg_catalog.format('server process %s, login %s, application %L', l.pid, coalesce(a.usename::text, '?'),
             coalesce(a.application_name, ''))
         FROM pg_catalog.pg_locks l LEFT JOIN pg_catalog.pg_stat_activity a ON a.pid = l.pid
         WHERE l.locktype = 'advisory' AND l.granted AND l.classid::bigint = $1 AND l.objid::bigint = $2
           AND l.database = (SELECT oid FROM pg_catalog.pg_database WHERE datname = pg_catalog.current_database())
         ORDER BY l.pid LIMIT 1",
        &[&i64::from(LOCK.0), &i64::from(LOCK.1)],
    )?;
    Ok(row.map(|row| row.try_get(0)).transpose()?.unwrap_or_else(|| "nobody any more".to_owned()))
}
