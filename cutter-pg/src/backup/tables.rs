//! What a document's backup holds: one list, in the order in which foreign keys let it be loaded.
//!
//! Every query names its columns, follows an index from the document, and orders by key in bytes
//! (a uuid's own order is that of its bytes; text keys are `COLLATE "C"`). Large texts travel in
//! pieces in a section of their own, so that no row is ever as large as a document.
//!
//! Not in the list: fences and effects (they say who drives, not what stands); what closed runs said of
//! themselves; the queue; cut
//! requests and their staged bytes, which go their own way while a run waits and must be no drift of
//! it (their staging records carry no document id); the list of expected grants and the record of
//! migrations (both made by the migrations); and `cut_change_set.created_xid`, a number that means
//! nothing on another server.

/// Bytes of one piece of a text. As a row of the archive it is twice as long, in hexadecimal.
pub(crate) const PIECE_BYTES: usize = 128 * 1024;

/// One section of the archive: rows of a table, or of one of its texts in pieces.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Table {
    /// Qualified name; a text's section is `schema.table.content`.
    pub(crate) name: &'static str,
    /// Columns, in the order in which they stand in the archive.
    pub(crate) columns: &'static [&'static str],
    /// What stands after FROM, with the table as `x`, `{document}` for the literal of the
    /// document's id and `{row}` for the literal of its row id.
    from: &'static str,
    /// The key, as it orders the rows.
    order: &'static str,
    /// The first column is a row id, the third a text to be cut into pieces.
    is_pieces: bool,
}

impl Table {
    const fn rows(
        name: &'static str,
        columns: &'static [&'static str],
        order: &'static str,
        from: &'static str,
    ) -> Self {
        Self { name, columns, from, order, is_pieces: false }
    }

    const fn pieces(name: &'static str, columns: &'static [&'static str], from: &'static str) -> Self {
        Self { name, columns, from, order: columns[0], is_pieces: true }
    }

    /// Whether it is a text in pieces.
    pub(crate) const fn is_pieces(&self) -> bool {
        self.is_pieces
    }

    /// The query of a document's rows. `document` is its id, `row` its row id.
    pub(crate) fn query(&self, document: &str, row: uuid::Uuid) -> String {
        let from = self
            .from
            .replace("{document}", &literal(document))
            .replace("{row}", &format!("{}::uuid", literal(&row.to_string())));
        if !self.is_pieces {
            let columns: Vec<String> = self.columns.iter().map(|name| format!("x.{name}")).collect();
            return format!("SELECT {} FROM {from} ORDER BY {}", columns.join(", "), self.order);
        }
        // Ordered first and read whole second, once for each row: sorting carries no texts, and a
        // compressed text is not unpacked again for each of its pieces.
        let (key, bytes) = (self.columns[0], PIECE_BYTES);
        format!(
            "SELECT v.{key}, p.piece, substring(v.content FROM p.piece * {bytes} + 1 FOR {bytes}) \
             FROM (SELECT o.{key}, o.content || ''::bytea AS content \
                   FROM (SELECT x.{key}, x.content FROM {from} ORDER BY x.{key}) o OFFSET 0) v \
             CROSS JOIN LATERAL generate_series(0, greatest(length(v.content) - 1, 0) / {bytes}) AS p(piece) \
             ORDER BY v.{key}, p.piece"
        )
    }
}

/// The same query as a COPY of text rows.
pub(crate) fn copy_out(query: &str) -> String {
    format!("COPY ({query}) TO STDOUT (FORMAT text, ENCODING 'UTF8')")
}

/// A string constant. The session's `standard_conforming_strings` is on.
fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// What the transaction of a backup, or of the comparison after a restore, is told first: fixed
/// output, and plans that go from key to key. Hash and merge joins would read tables that other
/// documents fill.
pub(crate) const SETTINGS: &str = "SET LOCAL DateStyle = 'ISO, YMD';
    SET LOCAL IntervalStyle = 'postgres';
    SET LOCAL TimeZone = 'UTC';
    SET LOCAL bytea_output = 'hex';
    SET LOCAL extra_float_digits = 1;
    SET LOCAL client_encoding = 'UTF8';
    SET LOCAL standard_conforming_strings = on;
    SET LOCAL enable_hashjoin = off;
    SET LOCAL enable_mergejoin = off;
    SET LOCAL enable_seqscan = off;
    SET LOCAL max_parallel_workers_per_gather = 0;
    SET LOCAL jit = off;";

/// The closure of a document (`PROTOCOL` §7), in loading order.
pub(crate) const TABLES: &[Table] = &[
    Table::rows(
        "public.dot_config",
        &["config_key", "config_value", "description"],
        "x.config_key",
        "public.dot_config x WHERE x.config_key >= 'vocab.' AND x.config_key < 'vocab/'",
    ),
    Table::rows(
        "iu_core.source_document",
        &["source_document_id", "document_id", "title", "registered_by", "registered_at"],
        "x.source_document_id",
        "iu_core.source_document x WHERE x.source_document_id = {row}",
    ),
    Table::rows(
        "iu_core.source_version",
        &[
            "source_version_id",
            "source_document_id",
            "version_no",
            "sha256",
            "byte_length",
            "manifest_digest",
            "registered_by",
            "registered_at",
        ],
        "x.source_version_id",
        "iu_core.source_version x WHERE x.source_document_id = {row}",
    ),
    Table::pieces(
        "iu_core.source_version.content",
        &["source_version_id", "piece", "content"],
        "iu_core.source_version x WHERE x.source_document_id = {row}",
    ),
    Table::rows(
        "iu_core.iu_staging_record",
        &[
            "staging_record_id",
            "record_kind",
            "document_id",
            "source_ref",
            "sha256",
            "byte_length",
            "lifecycle_status",
            "vector_excluded",
            "created_by",
            "created_at",
            "approved_at",
            "consumed_at",
            "expires_at",
            "cleaned_at",
            "metadata",
        ],
        "x.staging_record_id",
        "iu_core.iu_staging_record x WHERE x.document_id = {document}",
    ),
    Table::pieces(
        "iu_core.iu_staging_payload",
        &["staging_record_id", "piece", "content"],
        "iu_core.iu_staging_record r JOIN iu_core.iu_staging_payload x \
         ON x.staging_record_id = r.staging_record_id WHERE r.document_id = {document}",
    ),
    Table::rows(
        "cutter_governance.decision_backlog_entry",
        &[
            "entry_id",
            "run_id",
            "document_id",
            "source_document_id",
            "source_version_id",
            "status",
            "idempotency_key",
            "region_sha",
            "manifest_digest",
            "candidate_count",
            "escalates_entry_id",
            "actor",
            "at",
        ],
        "x.entry_id",
        "cutter_governance.decision_backlog_entry x WHERE x.document_id = {document}",
    ),
    Table::rows(
        "cutter_governance.decision_backlog_history",
        &[
            "history_id",
            "entry_id",
            "from_state",
            "to_state",
            "actor",
            "reason",
            "at",
            "change_set_id",
            "detail",
        ],
        "x.history_id",
        "cutter_governance.decision_backlog_entry e JOIN cutter_governance.decision_backlog_history x \
         ON x.entry_id = e.entry_id WHERE e.document_id = {document}",
    ),
    Table::rows(
        "cutter_governance.decision_backlog_sweep_log",
        &["sweep_id", "run_id", "document_id", "promoted", "actor", "at"],
        "x.sweep_id",
        "cutter_governance.decision_backlog_sweep_log x WHERE x.document_id = {document}",
    ),
    Table::rows(
        "cutter_governance.review_decision",
        &[
            "id",
            "run_id",
            "document_id",
            "type",
            "decision",
            "entry_id",
            "change_set_id",
            "expected_actor",
            "unit_count",
            "unit_set_digest",
            "nonce",
            "request_sha256",
            "actor",
            "inserted_by",
            "at",
        ],
        "x.id",
        "cutter_governance.review_decision x WHERE x.document_id = {document}",
    ),
    Table::rows(
        "cutter_governance.review_approval",
        &[
            "approval_id",
            "review_decision_id",
            "run_id",
            "document_id",
            "type",
            "decision",
            "approval_kb_id",
            "document",
            "sha256",
            "nonce",
            "fingerprint",
            "actor",
            "expires_at",
            "request_sha256",
            "inserted_by",
            "at",
        ],
        "x.approval_id",
        "cutter_governance.review_approval x WHERE x.document_id = {document}",
    ),
    Table::rows(
        "cutter_governance.approval_use",
        &["approval_id", "run_id", "effect", "effect_id", "at"],
        "x.approval_id",
        "cutter_governance.review_approval a JOIN cutter_governance.approval_use x \
         ON x.approval_id = a.approval_id WHERE a.document_id = {document}",
    ),
    Table::rows(
        "cutter_governance.cut_change_set",
        &[
            "change_set_id",
            "kind",
            "live",
            "run_id",
            "document_id",
            "source_document_id",
            "source_version_id",
            "source_bytes",
            "entry_id",
            "approval_id",
            "review_decision_id",
            "compensates_id",
            "idempotency_key",
            "writer_digest",
            "manifest_digest",
            "region_sha",
            "publication_type",
            "unit_count",
            "actor",
            "inserted_by",
            "at",
        ],
        "x.change_set_id",
        "cutter_governance.cut_change_set x WHERE x.document_id = {document}",
    ),
    Table::rows(
        "cutter_governance.change_set_void",
        &["void_id", "change_set_id", "run_id", "approval_id", "reason", "actor", "at"],
        "x.void_id",
        "cutter_governance.cut_change_set c JOIN cutter_governance.change_set_void x \
         ON x.change_set_id = c.change_set_id WHERE c.document_id = {document}",
    ),
    Table::rows(
        "cutter_governance.dot_pair_signature",
        &[
            "signature_id",
            "run_id",
            "change_set_id",
            "duty",
            "payload",
            "public_key",
            "signature",
            "inserted_by",
            "at",
        ],
        "x.signature_id",
        "cutter_governance.cut_change_set c JOIN cutter_governance.dot_pair_signature x \
         ON x.change_set_id = c.change_set_id WHERE c.document_id = {document}",
    ),
    Table::rows(
        "cutter_governance.manifest_envelope",
        &[
            "id",
            "change_set_id",
            "run_id",
            "entry_id",
            "executor_signature_id",
            "envelope",
            "unit_count",
            "actor",
            "at",
        ],
        "x.id",
        "cutter_governance.cut_change_set c JOIN cutter_governance.manifest_envelope x \
         ON x.change_set_id = c.change_set_id WHERE c.document_id = {document}",
    ),
    Table::rows(
        "cutter_governance.verify_result",
        &[
            "id",
            "change_set_id",
            "run_id",
            "manifest_envelope_id",
            "entry_id",
            "passed",
            "compensating_id",
            "escalation_entry_id",
            "prior_verify_result_id",
            "actor",
            "inserted_by",
            "at",
        ],
        "x.id",
        "cutter_governance.cut_change_set c JOIN cutter_governance.verify_result x \
         ON x.change_set_id = c.change_set_id WHERE c.document_id = {document}",
    ),
    Table::rows(
        UNITS,
        &[
            "unit_id",
            "change_set_id",
            "document_id",
            "source_document_id",
            "source_version_id",
            "ordinal",
            "canonical_address",
            "citation_address",
            "unit_kind",
            "section_type",
            "content_hash",
            "body_hash",
            "idempotency_key",
            "lifecycle_status",
            "created_at",
        ],
        "x.unit_id",
        "iu_core.information_unit x WHERE x.source_document_id = {row}",
    ),
    Table::rows(
        "iu_core.unit_version",
        &["version_id", "unit_id", "version_seq", "content_hash", "body_hash", "actor", "created_at"],
        "x.version_id",
        "iu_core.information_unit u JOIN iu_core.unit_version x ON x.unit_id = u.unit_id \
         WHERE u.source_document_id = {row}",
    ),
    Table::pieces(
        "iu_core.unit_version.content",
        &["version_id", "piece", "content"],
        "iu_core.information_unit u JOIN iu_core.unit_version x ON x.unit_id = u.unit_id \
         WHERE u.source_document_id = {row}",
    ),
    Table::rows(
        "iu_core.iu_lifecycle_log",
        &[
            "unit_id",
            "change_set_id",
            "run_id",
            "from_status",
            "to_status",
            "reason_id",
            "reason",
            "actor",
            "at",
        ],
        "x.unit_id, x.to_status",
        "cutter_governance.cut_change_set c JOIN iu_core.iu_lifecycle_log x \
         ON x.change_set_id = c.change_set_id WHERE c.document_id = {document}",
    ),
    Table::rows(
        "iu_core.unit_anchor",
        &[
            "anchor_id",
            "unit_id",
            "change_set_id",
            "source_version_id",
            "source_bytes",
            "start_byte",
            "end_byte",
        ],
        "x.anchor_id",
        "iu_core.information_unit u JOIN iu_core.unit_anchor x ON x.unit_id = u.unit_id \
         WHERE u.source_document_id = {row}",
    ),
];

/// The section whose rows are the content rows of a summary.
pub(crate) const UNITS: &str = "iu_core.information_unit";

/// The fingerprints that stand after the rows: of functions, triggers, and access lists.
pub(crate) const FINGERPRINTS: [(&str, &str); 3] =
    [("fingerprint.function", "function"), ("fingerprint.trigger", "trigger"), ("fingerprint.acl", "acl")];

/// Columns of a section of fingerprints.
pub(crate) const FINGERPRINT_COLUMNS: [&str; 2] = ["name", "value"];

/// The query of one kind of fingerprints.
pub(crate) fn fingerprint_query(kind: &str) -> String {
    format!(
        "SELECT c.name, c.value FROM cutter_governance.fn_catalogue({}) c \
         ORDER BY c.name COLLATE \"C\", c.value COLLATE \"C\"",
        literal(kind)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_query_names_the_document_and_quotes_it() {
        let row = uuid::Uuid::nil();
        for table in TABLES {
            let query = table.query("A'B", row);
            assert!(!query.contains('{') && !query.contains('*') || table.is_pieces, "{query}");
            let is_about = query.contains("'A''B'") || query.contains(&row.to_string());
            assert!(is_about || table.name == "public.dot_config", "{query}");
            assert!(query.contains("ORDER BY"), "{query}");
        }
    }
}
