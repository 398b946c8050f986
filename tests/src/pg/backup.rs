//! A plain backup source for measurements: the document's rows by COPY.

use std::collections::VecDeque;
use std::io::Read as _;
use std::time::Duration;

use async_trait::async_trait;
use cutter_core::digest::Digest;
use cutter_core::port::backup::{
    BackupRequest, BackupSource, BackupStream, BackupSummary, TableSummary,
};
use cutter_core::port::{PortError, PortErrorKind, PortResult};
use cutter_pg::connection::{Connection, SessionSettings};
use cutter_pg::dsn::Dsn;
use cutter_pg::error::PgError;

/// Reads as `cutter_ro`.
pub struct PgBackupSource(Dsn);

impl PgBackupSource {
    /// Over this connection string.
    #[must_use]
    pub const fn new(dsn: Dsn) -> Self {
        Self(dsn)
    }
}

struct Stream {
    chunks: VecDeque<Vec<u8>>,
    summary: BackupSummary,
}

fn error(error: PgError) -> PortError {
    PortError::new("backup_source", "open", PortErrorKind::Unavailable, error.to_string())
}

#[async_trait]
impl BackupSource for PgBackupSource {
    async fn open(&self, request: &BackupRequest) -> PortResult<Box<dyn BackupStream>> {
        let connection = Connection::open(self.0.clone(), SessionSettings::reader()).await.map_err(error)?;
        let (document, run) = (request.document_id.clone(), request.run_id.to_string());
        let job = connection.run_with_deadline(Duration::from_secs(60), move |client| {
            let mut tx = client.build_transaction().read_only(true).start()?;
            let base: String = tx
                .query_one("SELECT cutter_governance.fn_base_state($1, $2)", &[&document, &run])?
                .try_get(0)?;
            let rows = tx.query(
                "SELECT table_name, row_count, sha256 FROM cutter_governance.fn_base_state_tables($1, $2)",
                &[&document, &run],
            )?;
            let tables = rows.iter().map(|row| TableSummary {
                table: row.get(0),
                rows: u64::try_from(row.get::<_, i64>(1)).unwrap(),
                sha256: row.get::<_, String>(2).parse().unwrap(),
            });
            let tables: Vec<_> = tables.collect();
            let units = tables.iter().find(|t| t.table == "iu_core.information_unit").map_or(0, |t| t.rows);
            let base_state_sha: Digest = base.parse().unwrap();
            let mut bytes = Vec::new();
            tx.copy_out(&format!(
                "COPY (SELECT v.* FROM iu_core.source_version v JOIN iu_core.source_document d
                    USING (source_document_id) WHERE d.document_id = '{document}') TO STDOUT"
            ))?
            .read_to_end(&mut bytes)
            .map_err(|error| PgError::Connection(error.to_string()))?;
            tx.rollback()?;
            Ok((bytes, BackupSummary { tables, base_state_sha, content_rows: units }))
        });
        let (bytes, summary) = job.await.map_err(error)?;
        let chunks = bytes.chunks(256 * 1024).map(<[u8]>::to_vec).collect();
        Ok(Box::new(Stream { chunks, summary }))
    }
}

#[async_trait]
impl BackupStream for Stream {
    async fn next(&mut self) -> PortResult<Option<Vec<u8>>> {
        Ok(self.chunks.pop_front())
    }

    async fn finish(self: Box<Self>) -> PortResult<BackupSummary> {
        Ok(self.summary)
    }
}
