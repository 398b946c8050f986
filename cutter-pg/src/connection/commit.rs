//! COMMIT, which two things make special: an error after it was sent says nothing, and
//! PostgreSQL answers COMMIT in an aborted transaction with success, having rolled back.

use postgres::{Client, Transaction};

use super::job::mark_commit_sent;
use crate::error::PgError;

/// Commits a transaction. Use this and never [`Transaction::commit`]: it makes every later
/// error [`PgError::OutcomeUnknown`], tells the connection's timer, and finds an aborted
/// transaction before the server turns its COMMIT into a silent rollback.
///
/// # Errors
/// [`PgError::OutcomeUnknown`] once COMMIT was sent; anything else came before, and then
/// nothing was committed.
pub fn commit(mut transaction: Transaction<'_>) -> Result<(), PgError> {
    transaction.batch_execute("SELECT 1")?;
    announce()?;
    transaction.commit().map_err(|error| PgError::from(error).commit_outcome())
}

/// Commits a transaction that was begun by a statement (`BEGIN`), so that it may span
/// several jobs. As [`commit`] otherwise.
///
/// # Errors
/// As [`commit`].
pub fn commit_session(client: &mut Client) -> Result<(), PgError> {
    client.batch_execute("SELECT 1")?;
    announce()?;
    client.batch_execute("COMMIT").map_err(|error| PgError::from(error).commit_outcome())
}

fn announce() -> Result<(), PgError> {
    if mark_commit_sent() {
        Ok(())
    } else {
        Err(PgError::Connection(
            "the call was given up before COMMIT was sent; nothing was committed".to_owned(),
        ))
    }
}
