//! Looking at the store as a whole.

use cutter_core::base::id::RunId;
use cutter_core::port::PortResult;
use cutter_core::port::run_store::StoredRevision;
use postgres::Row;

use super::session::Access;
use super::{PgRunStore, RunStoreProbe};
use crate::row::{bigint, get, unsigned};

impl PgRunStore {
    /// Looks at the store and changes nothing.
    ///
    /// # Errors
    /// The database's: the server does not answer, or the schema has no run store yet.
    pub async fn probe(&self) -> PortResult<RunStoreProbe> {
        self.call("probe", Access::Read, |s| {
            let row = s.one(
                "SELECT has_function_privilege('cutter_run.fn_run_publish(text, bigint, bytea, integer[], integer, bigint, bigint, boolean)',
                        'EXECUTE') AS may_save,
                    (SELECT count(*) FROM cutter_run.run) AS runs,
                    (SELECT count(*) FROM cutter_run.lease l
                     WHERE l.released_at IS NULL AND l.expires_at > clock_timestamp()) AS leases",
                &[],
            )?;
            Ok(RunStoreProbe {
                may_save: get(&row, "may_save")?,
                runs: unsigned(&row, "runs")?,
                leases: unsigned(&row, "leases")?,
            })
        })
        .await
    }

    /// Every revision of a run up to `last`, put together in one pass.
    pub(super) async fn read_history(&self, run_id: &RunId, last: u64) -> PortResult<Vec<StoredRevision>> {
        let run = run_id.to_string();
        let number = bigint(last).map_err(|e| e.to_port("run_store history"))?;
        self.call("history", Access::Read, move |s| {
            let rows = s.all(
                "SELECT t.revision, t.body FROM cutter_run.fn_run_texts($1, $2, true) t ORDER BY t.revision",
                &[&run, &number],
            )?;
            let of = |row: &Row| {
                Ok(StoredRevision { revision: unsigned(row, "revision")?, bytes: get(row, "body")? })
            };
            rows.iter().map(of).collect()
        })
        .await
    }
}
