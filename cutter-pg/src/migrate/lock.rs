//! The advisory lock of the migration runner: one per database, held by the session.

use std::time::{Duration, Instant};

use postgres::Client;

use super::MigrateError;
use crate::error::PgError;

/// The lock's number. It was thrown, and means nothing: whoever makes numbers up, or hashes names into
/// half of this width, does not meet it.
const KEY: i64 = 0x4d1f_93a6_627b_085c;

/// The lock, held. It saves work and orders runners; what keeps the schema right is that a
/// migration and its record commit together under a primary key.
pub(super) struct MigrationLock<'c> {
    client: &'c mut Client,
    is_held: bool,
}

impl<'c> MigrationLock<'c> {
    /// Waits for the lock, for so long, by asking again, so that no lock timeout of the session cuts in.
    pub(super) fn take(client: &'c mut Client, wait: Duration) -> Result<Self, MigrateError> {
        let until = Instant::now() + wait;
        loop {
            let row = client
                .query_one("SELECT pg_catalog.pg_try_advisory_lock($1)", &[&KEY])
                .map_err(PgError::from)?;
            if row.try_get(0).map_err(PgError::from)? {
                return Ok(Self { client, is_held: true });
            }
            if Instant::now() >= until {
                // Whoever gave it back just now held it for the whole wait.
                let holder = holder(client)?.unwrap_or_else(|| "somebody who has just gone".to_owned());
                return Err(MigrateError::Busy { seconds: wait.as_secs(), holder });
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
            self.client.execute("SELECT pg_catalog.pg_advisory_unlock($1)", &[&KEY])?;
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

/// Who has it, and the way to end that session. What a login may not see of others is left out.
fn holder(client: &mut Client) -> Result<Option<String>, PgError> {
    let row = client.query_one(
        "SELECT pg_catalog.string_agg(pg_catalog.format('server process %s (%s)', l.pid,
             pg_catalog.concat_ws(', ', 'login ' || a.usename, 'application ' || pg_catalog.quote_literal(nullif(a.application_name, '')),
                 'connected since ' || pg_catalog.to_char(a.backend_start AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS\"Z\"'),
                 a.state || ' since ' || pg_catalog.to_char(a.state_change AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS\"Z\"')))
             || ', which SELECT pg_catalog.pg_terminate_backend(' || l.pid || ') ends', '; ' ORDER BY l.pid)
         FROM pg_catalog.pg_locks l LEFT JOIN pg_catalog.pg_stat_activity a ON a.pid = l.pid
         WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 1
           AND (l.classid::bigint << 32 | l.objid::bigint) = $1
           AND l.database = (SELECT d.oid FROM pg_catalog.pg_database d WHERE d.datname = pg_catalog.current_database())",
        &[&KEY],
    )?;
    Ok(row.try_get(0)?)
}
