//! What the database holds, seen by its administrator.

use std::collections::BTreeMap;

use cutter_pg::login::Login;

use super::Deployment;

/// Rows by table, of every table of ours.
pub type Counts = BTreeMap<String, i64>;

/// A document's live units without what differs between two runs: ordinal, address below the
/// document, kinds, status, span, content hash.
pub const UNITS: &str = "
    SELECT u.ordinal || ' ' || substr(u.canonical_address, length(u.document_id) + 1) || ' ' || u.unit_kind
           || ' ' || u.section_type || ' ' || u.lifecycle_status || ' ' || v.content_hash
    FROM iu_core.information_unit u JOIN iu_core.unit_version v USING (unit_id)
    WHERE u.document_id = $1 ORDER BY u.ordinal";

impl Deployment {
    /// Counts the rows of every table, but for what is kept of the catalogue: that is no run's.
    #[must_use]
    pub fn counts(&self) -> Counts {
        let mut client = self.database.client(Login::Admin);
        let tables = client
            .query(
                "SELECT quote_ident(schemaname) || '.' || quote_ident(tablename) FROM pg_tables
                 WHERE schemaname IN ('iu_core', 'cutter_governance') AND tablename <> 'catalogue_reading'",
                &[],
            )
            .unwrap();
        let count = |row: postgres::Row| {
            let table: String = row.get(0);
            let rows = client.query_one(&format!("SELECT count(*) FROM {table}"), &[]).unwrap().get(0);
            (table, rows)
        };
        tables.into_iter().map(count).collect()
    }

    /// What was added since `before`, tables that stayed left out.
    #[must_use]
    pub fn added_since(&self, before: &Counts) -> Counts {
        let added = |(table, n): (String, i64)| {
            let more = n - before.get(&table).copied().unwrap_or(0);
            (more != 0).then_some((table, more))
        };
        self.counts().into_iter().filter_map(added).collect()
    }

    /// Texts from one column.
    #[must_use]
    pub fn texts(&self, sql: &str, parameters: &[&(dyn postgres::types::ToSql + Sync)]) -> Vec<String> {
        let rows = self.database.client(Login::Admin).query(sql, parameters).unwrap();
        rows.iter().map(|row| row.get(0)).collect()
    }

    /// Changes something behind the program's back, as the administrator.
    pub fn tamper(&self, sql: &str) {
        self.database.client(Login::Admin).batch_execute(sql).unwrap();
    }
}
