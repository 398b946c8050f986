//! The backup's source: a document's closure, or the whole database, as one stream (`IG_backup`).
//!
//! Everything of a backup is read in one REPEATABLE READ, READ ONLY transaction on a connection
//! of its own: rows, fingerprints, the record of migrations, and `fn_base_state`, which is what
//! the approver signs. COPY is streamed in chunks of 256 KiB, of which four may wait, so memory
//! does not follow the document. Nothing here encrypts or stores: that is the target's.
//!
//! **Login.** Scope `document` runs as `cutter_ro`: its SELECT on the tables and EXECUTE on
//! `fn_catalogue` and `fn_base_state` suffice. Scope `database` runs `pg_dump`, which must read
//! everything that the database holds: `cutter_ro` may where it holds this schema alone;
//! elsewhere give [`PgBackupSource::dump_login`] a member of `pg_read_all_data`.
//!
//! **Time.** The deadline of the request is the session's statement timeout, and a timer on our
//! side; a reader that takes nothing for [`PgBackupSource::stall_limit`] ends the backup, too. So
//! no snapshot outlives its use, whoever hangs.
//!
//! The form is described in [`mod@format`]; [`crate::restore`] reads it.

mod document;
mod dump;
pub mod format;
mod stream;
pub(crate) mod tables;

use std::time::{Duration, Instant};

use async_trait::async_trait;
use cutter_core::port::backup::{BackupSource, BackupStream};
use cutter_core::port::{Port, PortError, PortErrorKind, PortResult};
use cutter_core::record::backup::{BackupRequest, BackupScope};

pub(crate) use self::document::{base_state, copy_failed, document_row, hash_section};
pub(crate) use self::dump::{ToolRun, tool};
pub use self::format::{ArchiveHeader, ArchiveTrailer, ArchivedMigration, DumpSummary, ServerIdentity};
use self::stream::PgBackupStream;
use crate::connection::{Connection, SessionSettings};
use crate::dsn::Dsn;
use crate::error::PgError;

/// The port's name in errors.
const PORT: Port = Port::BackupSource;

/// How long a reader may take for one chunk, if nobody says otherwise.
const STALL_LIMIT: Duration = Duration::from_secs(120);

/// Backups from PostgreSQL.
#[derive(Debug, Clone)]
pub struct PgBackupSource {
    reader: Dsn,
    dump_login: Option<Dsn>,
    stall_limit: Duration,
}

impl PgBackupSource {
    /// Reads as this login: `cutter_ro`.
    #[must_use]
    pub fn new(reader: Dsn) -> Self {
        Self { reader, dump_login: None, stall_limit: STALL_LIMIT }
    }

    /// Another login for scope `database`. It also needs EXECUTE on `fn_base_state` and
    /// `fn_catalogue`.
    #[must_use]
    pub fn dump_login(mut self, login: Dsn) -> Self {
        self.dump_login = Some(login);
        self
    }

    /// How long the reader of a stream may take for one chunk.
    #[must_use]
    pub const fn stall_limit(mut self, limit: Duration) -> Self {
        self.stall_limit = limit;
        self
    }
}

#[async_trait]
impl BackupSource for PgBackupSource {
    async fn open(&self, request: &BackupRequest) -> PortResult<Box<dyn BackupStream>> {
        if request.deadline_ms == 0 {
            let message = "no time is left of the cap, so no backup was begun";
            return Err(PortError::new(PORT, "open", PortErrorKind::Deadline, message));
        }
        let limit = Duration::from_millis(request.deadline_ms);
        let until = Instant::now() + limit;
        let dsn = match (request.scope, &self.dump_login) {
            (BackupScope::Database, Some(login)) => login.clone(),
            _ => self.reader.clone(),
        };
        let mut settings =
            SessionSettings::reader().application_name(format!("cutter/{}/backup", request.run_id));
        settings.statement_timeout = limit;
        // Between two COPYs the session waits for the reader, with scope `database` for the dump.
        settings.idle_in_transaction_timeout = limit;
        let connection = Connection::open(dsn.clone(), settings)
            .await
            .map_err(|error| PortError::new(PORT, "open", error.kind(), error.to_string()))?;
        let (outlet, inlet) = stream::channel(until, self.stall_limit);
        let request = request.clone();
        let left = until.saturating_duration_since(Instant::now());
        // The connection belongs to the job: whoever drops the stream ends both.
        let job = Box::pin(async move {
            connection
                .run_with_deadline(left, move |client| match request.scope {
                    BackupScope::Document => document::back_up(client, &request, outlet),
                    BackupScope::Database => dump::back_up(client, &request, &dsn, outlet),
                })
                .await
        });
        Ok(Box::new(PgBackupStream::start(inlet, job).await?))
    }
}

/// The queries of a document's backup by table, for looking at their plans, which is what tests
/// and operators do with them. Run [`explain_settings`] in the transaction first.
///
/// # Errors
/// The database's; [`PgError::Shape`] if the document is not registered.
pub fn explain_queries(
    client: &mut postgres::Client,
    document_id: &str,
) -> Result<Vec<(&'static str, String)>, PgError> {
    let row = document_row(client, document_id)?
        .ok_or_else(|| PgError::Shape(format!("document {document_id} is not registered")))?;
    Ok(tables::TABLES.iter().map(|table| (table.name, table.query(document_id, row))).collect())
}

/// What the transaction of a backup is told first.
#[must_use]
pub const fn explain_settings() -> &'static str {
    tables::SETTINGS
}
