//! What every session is told before its first statement (`PROTOCOL` §6).

use std::time::Duration;

use postgres::Client;

use crate::error::PgError;

/// Longest application name that PostgreSQL keeps.
const MAX_APPLICATION_NAME_BYTES: usize = 63;

/// Settings of one session. Time limits of zero mean no limit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionSettings {
    /// Shown in `pg_stat_activity`: `cutter/<run>/<epoch>`.
    pub application_name: String,
    /// Every transaction is read-only unless it says otherwise.
    pub is_read_only: bool,
    /// A statement is ended after this long.
    pub statement_timeout: Duration,
    /// A wait for a lock is ended after this long.
    pub lock_timeout: Duration,
    /// A transaction left open and idle is ended, with its session, after this long.
    pub idle_in_transaction_timeout: Duration,
}

impl SessionSettings {
    /// A principal that writes: locks 5 s, idle in transaction 15 s. What is left of the cap
    /// bounds its statements, set per transaction.
    #[must_use]
    pub fn writer() -> Self {
        Self {
            application_name: "cutter".to_owned(),
            is_read_only: false,
            statement_timeout: Duration::ZERO,
            lock_timeout: Duration::from_secs(5),
            idle_in_transaction_timeout: Duration::from_secs(15),
        }
    }

    /// A principal that reads: read-only, statements 30 s.
    #[must_use]
    pub fn reader() -> Self {
        Self { is_read_only: true, statement_timeout: Duration::from_secs(30), ..Self::writer() }
    }

    /// The administrator, for migrations: an index may take its time to build.
    #[must_use]
    pub fn admin() -> Self {
        Self { idle_in_transaction_timeout: Duration::from_secs(300), ..Self::writer() }
    }

    /// The same with another application name.
    #[must_use]
    pub fn application_name(mut self, name: impl Into<String>) -> Self {
        self.application_name = name.into();
        self
    }

    /// Tells the server.
    pub(super) fn apply(&self, client: &mut Client) -> Result<(), PgError> {
        client.batch_execute(&self.batch())?;
        set_application_name(client, &self.application_name)?;
        optional(client.batch_execute(LOOK_FOR_CLIENT))
    }

    /// As [`Self::apply`], for a client that does not wait by itself.
    pub(crate) async fn apply_to(&self, client: &tokio_postgres::Client) -> Result<(), PgError> {
        client.batch_execute(&self.batch()).await?;
        let name = cut(&self.application_name, MAX_APPLICATION_NAME_BYTES);
        client.execute(NAME_SESSION, &[&name]).await?;
        optional(client.batch_execute(LOOK_FOR_CLIENT).await)
    }

    /// Statements of ours look up by key, so one plan fits all values; to plan again for each unit
    /// would cost more than to write it, and to compile a plan more than to run it.
    fn batch(&self) -> String {
        let on_off = if self.is_read_only { "on" } else { "off" };
        format!(
            "SET search_path = pg_catalog, pg_temp;
             SET TimeZone = 'UTC';
             SET synchronous_commit = on;
             SET plan_cache_mode = force_generic_plan;
             SET jit = off;
             SET default_transaction_isolation = 'read committed';
             SET default_transaction_read_only = {on_off};
             SET statement_timeout = {};
             SET lock_timeout = {};
             SET idle_in_transaction_session_timeout = {};",
            milliseconds(self.statement_timeout),
            milliseconds(self.lock_timeout),
            milliseconds(self.idle_in_transaction_timeout),
        )
    }
}

const NAME_SESSION: &str = "SELECT pg_catalog.set_config('application_name', $1, false)";

const LOOK_FOR_CLIENT: &str = "SET client_connection_check_interval = '5s'";

/// Not every platform can look for a client that went away; the rest goes on without.
fn optional(outcome: Result<(), postgres::Error>) -> Result<(), PgError> {
    match outcome.map_err(PgError::from) {
        Err(error) if error.sqlstate().is_none() || error.is_connection_loss() => Err(error),
        _ => Ok(()),
    }
}

/// Names the session.
pub(super) fn set_application_name(client: &mut Client, name: &str) -> Result<(), PgError> {
    client.execute(NAME_SESSION, &[&cut(name, MAX_APPLICATION_NAME_BYTES)])?;
    Ok(())
}

fn cut(text: &str, bytes: usize) -> &str {
    let mut end = text.len().min(bytes);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// For a setting: whole milliseconds, at least 1 for a limit that is not zero.
fn milliseconds(limit: Duration) -> i32 {
    if limit.is_zero() { 0 } else { i32::try_from(limit.as_millis()).unwrap_or(i32::MAX).max(1) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_limit_never_becomes_no_limit() {
        assert_eq!(milliseconds(Duration::ZERO), 0);
        assert_eq!(milliseconds(Duration::from_micros(1)), 1);
        assert_eq!(milliseconds(Duration::from_secs(5)), 5000);
        assert_eq!(milliseconds(Duration::MAX), i32::MAX);
    }

    #[test]
    fn names_are_cut_between_characters() {
        assert_eq!(cut("cutter", 63), "cutter");
        assert_eq!(cut("aế", 3), "a");
    }
}
