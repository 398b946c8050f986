//! What went wrong in PostgreSQL, and who must act.
//!
//! [`PgError`] keeps what an adapter needs (SQLSTATE, message, detail), never a connection
//! string or a password. [`PgError::to_port`] sorts it into [`PortErrorKind`].
//!
//! Our own SQLSTATE class is `CU`, raised by the functions of the reference schema:
//!
//! | code | means | kind |
//! | --- | --- | --- |
//! | `CUF..` | fence or lease: a newer driver holds the run | `Fenced` |
//! | `CUC..` | another value stands there, or the row moved on | `Conflict` |
//! | `CUD..` | this principal may not do this | `Denied` |
//! | `CUN..` | what was named is not there | `NotFound` |
//! | other `CU...` | the argument breaks the contract | `Invalid` |
//!
//! **COMMIT.** Whatever its code, an error after COMMIT was sent says nothing about what is
//! durable: [`PgError::commit_outcome`] makes it [`PortErrorKind::OutcomeUnknown`], and the
//! identifier in the intent must be looked up.

use cutter_core::machine::backlog::BacklogGuard;
use cutter_core::port::{Port, PortError, PortErrorKind};
use postgres::error::{DbError, ErrorPosition};

/// The name of the port in every error of this crate.
pub const PORT: Port = Port::Database;

/// SQLSTATE that `fn_run_fence_assert` raises.
pub const FENCED: &str = "CUF01";

/// Longest message or detail kept, in characters: a detail can quote a whole row.
const MAX_TEXT_CHARS: usize = 600;

/// A failure at the PostgreSQL boundary.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PgError {
    /// The server refused a statement.
    #[error("{message}{} (SQLSTATE {sqlstate})", detail.as_deref().map(|d| format!(": {d}")).unwrap_or_default())]
    Database {
        /// Five characters, PostgreSQL appendix "Error Codes", or our class `CU`.
        sqlstate: String,
        /// The primary message.
        message: String,
        /// The detail line, if the server sent one.
        detail: Option<String>,
        /// Where in the statement, counted in characters from 1.
        position: Option<u32>,
    },
    /// The connection could not be made, or was lost.
    #[error("connection to the database lost or not made: {0}")]
    Connection(String),
    /// The client's timer ended the call before COMMIT was sent.
    #[error("no answer from the database within {waited_ms} ms; the call was ended before COMMIT was sent")]
    Deadline {
        /// How long the caller allowed, in milliseconds.
        waited_ms: u64,
    },
    /// COMMIT was sent and no good answer came back.
    #[error("COMMIT was sent and its outcome is unknown: {0}; look the identifier up in the database")]
    OutcomeUnknown(String),
    /// The connection string or a setting cannot be used.
    #[error("{0}")]
    Configuration(String),
    /// A value did not have the expected type or shape.
    #[error("unexpected value from the database: {0}")]
    Shape(String),
    /// A job panicked on the connection's thread; the connection is given up.
    #[error("internal error on the connection's thread: {0}")]
    Internal(String),
}

impl PgError {
    /// The SQLSTATE, if the server answered with one.
    #[must_use]
    pub fn sqlstate(&self) -> Option<&str> {
        match self {
            Self::Database { sqlstate, .. } => Some(sqlstate),
            _ => None,
        }
    }

    /// Who must act.
    #[must_use]
    pub fn kind(&self) -> PortErrorKind {
        match self {
            Self::Database { message, .. } if message.starts_with(BacklogGuard::CutDeps.as_str()) => {
                PortErrorKind::Waits
            }
            Self::Database { sqlstate, .. } => kind_of_sqlstate(sqlstate),
            Self::Connection(_) => PortErrorKind::Unavailable,
            Self::Deadline { .. } => PortErrorKind::Deadline,
            Self::OutcomeUnknown(_) => PortErrorKind::OutcomeUnknown,
            Self::Configuration(_) | Self::Internal(_) => PortErrorKind::Invalid,
            Self::Shape(_) => PortErrorKind::Corrupt,
        }
    }

    /// The same failure as the port reports it.
    #[must_use]
    pub fn to_port(&self, op: impl Into<String>) -> PortError {
        PortError::new(PORT, op, self.kind(), self.to_string())
    }

    /// Whether the same transaction under the same identifiers may be tried again at once:
    /// deadlock, serialization failure, lock timeout. Never after COMMIT was sent.
    #[must_use]
    pub fn is_retriable(&self) -> bool {
        self.sqlstate().is_some_and(|code| matches!(code, "40P01" | "40001" | "55P03"))
    }

    /// Whether the connection is of no more use.
    #[must_use]
    pub fn is_connection_loss(&self) -> bool {
        match self {
            Self::Connection(_) => true,
            Self::Database { sqlstate, .. } => {
                sqlstate.starts_with("08")
                    || matches!(sqlstate.as_str(), "57P01" | "57P02" | "57P03" | "57P05" | "25P03" | "25P04")
            }
            _ => false,
        }
    }

    /// What an error means once COMMIT was sent: always unknown, whatever its code.
    #[must_use]
    pub fn commit_outcome(self) -> Self {
        match self {
            Self::OutcomeUnknown(_) => self,
            other => Self::OutcomeUnknown(other.to_string()),
        }
    }

    /// What an error means for one writing statement outside a transaction block, where the
    /// server commits by itself: an answer of the server stands, silence is unknown.
    #[must_use]
    pub fn autocommit_outcome(self) -> Self {
        match &self {
            Self::Database { .. } if !self.is_connection_loss() => self,
            Self::Configuration(_) | Self::Shape(_) => self,
            _ => self.commit_outcome(),
        }
    }
}

/// Any error after COMMIT was sent is `OutcomeUnknown`: the port's form of
/// [`PgError::commit_outcome`].
#[must_use]
pub fn commit_outcome(op: impl Into<String>, error: PgError) -> PortError {
    error.commit_outcome().to_port(op)
}

/// Sorts a SQLSTATE by who must act.
#[must_use]
pub fn kind_of_sqlstate(code: &str) -> PortErrorKind {
    match code {
        "57014" => PortErrorKind::Deadline,
        "42501" | "28000" | "28P01" | "25006" => PortErrorKind::Denied,
        "23505" | "23P01" => PortErrorKind::Conflict,
        "53100" => PortErrorKind::Full,
        "40P01" | "40001" | "55P03" | "25P03" | "25P04" | "55006" => PortErrorKind::Unavailable,
        "3D000" | "02000" | "P0002" => PortErrorKind::NotFound,
        "XX001" | "XX002" => PortErrorKind::Corrupt,
        _ => match code.get(..2) {
            Some("CU") => match code.get(2..3) {
                Some("F") => PortErrorKind::Fenced,
                Some("C") => PortErrorKind::Conflict,
                Some("D") => PortErrorKind::Denied,
                Some("N") => PortErrorKind::NotFound,
                _ => PortErrorKind::Invalid,
            },
            Some("08" | "53" | "57" | "58") => PortErrorKind::Unavailable,
            _ => PortErrorKind::Invalid,
        },
    }
}

impl From<&DbError> for PgError {
    fn from(error: &DbError) -> Self {
        Self::Database {
            sqlstate: error.code().code().to_owned(),
            message: bounded(error.message()),
            detail: error.detail().map(bounded),
            position: match error.position() {
                Some(ErrorPosition::Original(at)) => Some(*at),
                _ => None,
            },
        }
    }
}

impl From<postgres::Error> for PgError {
    fn from(error: postgres::Error) -> Self {
        if let Some(database) = error.as_db_error() {
            return Self::from(database);
        }
        let text = with_sources(&error);
        // A conversion error is about one value; everything else that is not an answer of
        // the server is about the connection.
        if text.starts_with("error deserializing")
            || text.starts_with("error serializing")
            || text.starts_with("query returned an unexpected number of rows")
            || text.starts_with("invalid column")
        {
            return Self::Shape(text);
        }
        Self::Connection(text)
    }
}

/// An error with its causes, which this client's errors leave out of `Display`.
fn with_sources(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        source = cause.source();
    }
    bounded(&text)
}

fn bounded(text: &str) -> String {
    match text.char_indices().nth(MAX_TEXT_CHARS) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn database(code: &str) -> PgError {
        PgError::Database {
            sqlstate: code.to_owned(),
            message: "m".to_owned(),
            detail: Some("d".to_owned()),
            position: None,
        }
    }

    #[test]
    fn each_code_goes_to_whoever_must_act() {
        use PortErrorKind as K;
        for (code, kind) in [
            ("08006", K::Unavailable),
            ("57P01", K::Unavailable),
            ("53300", K::Unavailable),
            ("58030", K::Unavailable),
            ("57014", K::Deadline),
            ("42501", K::Denied),
            ("28P01", K::Denied),
            ("25006", K::Denied),
            ("23505", K::Conflict),
            ("23503", K::Invalid),
            ("53100", K::Full),
            ("40P01", K::Unavailable),
            ("40001", K::Unavailable),
            ("55P03", K::Unavailable),
            ("3D000", K::NotFound),
            ("XX001", K::Corrupt),
            (FENCED, K::Fenced),
            ("CUC07", K::Conflict),
            ("CUN01", K::NotFound),
            ("CUD01", K::Denied),
            ("CU001", K::Invalid),
            ("P0001", K::Invalid),
            ("", K::Invalid),
            ("é", K::Invalid),
        ] {
            assert_eq!(database(code).kind(), kind, "{code}");
        }
    }

    #[test]
    fn only_lost_races_are_retried() {
        for code in ["40P01", "40001", "55P03"] {
            assert!(database(code).is_retriable(), "{code}");
            assert!(!database(code).commit_outcome().is_retriable(), "{code} at COMMIT");
        }
        for code in ["57014", "23505", "08006", FENCED] {
            assert!(!database(code).is_retriable(), "{code}");
        }
    }

    #[test]
    fn whatever_the_code_an_error_at_commit_is_unknown() {
        for code in ["23505", "40001", "57014", "08006", "53100", FENCED] {
            let port = commit_outcome("commit leg_a", database(code));
            assert_eq!(port.kind, PortErrorKind::OutcomeUnknown, "{code}");
            assert!(port.message.contains(code), "{}", port.message);
        }
    }

    #[test]
    fn outside_a_transaction_silence_is_unknown_and_an_answer_stands() {
        assert_eq!(database("23505").autocommit_outcome().kind(), PortErrorKind::Conflict);
        assert_eq!(database("57P01").autocommit_outcome().kind(), PortErrorKind::OutcomeUnknown);
        let lost = PgError::Connection("reset".to_owned());
        assert_eq!(lost.autocommit_outcome().kind(), PortErrorKind::OutcomeUnknown);
    }

    #[test]
    fn long_details_are_cut_at_a_character() {
        let long = "ế".repeat(2 * MAX_TEXT_CHARS);
        assert_eq!(bounded(&long).chars().count(), MAX_TEXT_CHARS + 1);
        assert_eq!(bounded("short"), "short");
    }

    #[test]
    fn display_has_message_detail_and_code() {
        assert_eq!(database("23505").to_string(), "m: d (SQLSTATE 23505)");
    }
}
