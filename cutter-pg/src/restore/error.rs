//! Why nothing was restored.

use cutter_core::base::digest::Digest;

use crate::error::PgError;
use crate::migrate::MigrateError;

/// Why nothing was restored. Whatever it is, no scratch database stays behind.
#[derive(Debug, thiserror::Error)]
pub enum RestoreError {
    /// The bytes are no archive of ours, or of a newer form.
    #[error(
        "not a backup that this cutter can read: {0}; decrypt it first, and use a cutter at least as new as the backup"
    )]
    NotAnArchive(String),
    /// The archive ends before its end.
    #[error("the archive is cut off {place}; take the blob whose sha256 the run recorded")]
    Truncated {
        /// Where.
        place: String,
    },
    /// The archive's bytes were changed.
    #[error(
        "the archive was changed {place}: expected {expected}, observed {observed}; take the blob whose sha256 the run recorded"
    )]
    Damaged {
        /// Where.
        place: String,
        /// What the archive says, or must say.
        expected: String,
        /// What is there.
        observed: String,
    },
    /// The archive needs a schema that this binary does not ship.
    #[error("the backup was taken under another schema: {0}; restore with the cutter that took it")]
    Schema(String),
    /// The target may not be used.
    #[error("{name:?} cannot be the scratch database: {reason}; name a new one")]
    Target {
        /// The name.
        name: String,
        /// Why not.
        reason: String,
    },
    /// The server refused rows of a table.
    #[error("{table} was not loaded: {source}")]
    Load {
        /// The section.
        table: String,
        /// The server's reason.
        source: PgError,
    },
    /// What was restored is not what was saved.
    #[error(
        "{table} came back different: expected {expected_rows} rows with sha256 {expected}, observed {observed_rows} with {observed}"
    )]
    Differs {
        /// The section.
        table: String,
        /// Rows in the archive.
        expected_rows: u64,
        /// Digest in the archive.
        expected: Digest,
        /// Rows in the scratch database.
        observed_rows: u64,
        /// Digest in the scratch database.
        observed: Digest,
    },
    /// The schema could not be made.
    #[error("the schema of the scratch database: {0}")]
    Migrate(#[from] MigrateError),
    /// The database failed.
    #[error(transparent)]
    Database(#[from] PgError),
    /// The plaintext could not be read.
    #[error("the backup could not be read: {0}")]
    Read(#[from] std::io::Error),
}

impl From<postgres::Error> for RestoreError {
    fn from(error: postgres::Error) -> Self {
        Self::Database(error.into())
    }
}

/// A value that is not what it must be.
pub(super) fn damaged(
    place: impl Into<String>,
    expected: impl ToString,
    observed: impl ToString,
) -> RestoreError {
    let cut = |text: String| text.chars().take(200).collect();
    RestoreError::Damaged {
        place: place.into(),
        expected: cut(expected.to_string()),
        observed: cut(observed.to_string()),
    }
}
