//! The observing principal: `cutter_ro`, read-only sessions (F-6).

use std::collections::BTreeSet;

use async_trait::async_trait;
use cutter_core::base::{digest::Digest, id::RunId, vocabulary::Vocabulary};
use cutter_core::port::database::Reader;
use cutter_core::port::{PortError, PortErrorKind, PortResult};
use cutter_core::record::ask::{OpenAsk, StoredAsk};
use cutter_core::record::effect::{EffectKey, EffectRecord};
use cutter_core::record::evidence::{RunEvidence, RunRows, StoredApproval, StoredSignature};
use cutter_core::record::observed::{
    GrantSnapshot, PinMove, SourceFacts, SourceVersionFacts, StructuralFacts, Survey, SurveyScope, UnitQuery,
    UnitRow, UnitScope, VersionCut,
};
use cutter_core::record::policy::PolicyRecord;
use cutter_core::record::stored_statement::StoredStatement;
use postgres::types::ToSql;
use postgres::{Client, GenericClient, IsolationLevel};
use uuid::Uuid;

use crate::database::{PgDatabase, connection, give_up_after_deadline};
use crate::error::{PORT, PgError};
use crate::login::Login;
use crate::migrate::{MigrateError, Migrator};
use crate::row::{
    EFFECT_COLUMNS, bigint, effect_record, get, parsed, parsed_opt, timestamp, timestamp_opt, unsigned,
};
use crate::run_rows::run_rows;
use crate::survey;
use crate::typed::params;

impl PgDatabase {
    pub(crate) async fn read<T, F>(&self, op: &str, job: F) -> PortResult<T>
    where
        T: Send + 'static,
        F: FnOnce(&mut Client) -> Result<T, PgError> + Send + 'static,
    {
        let mut held = self.hold(Login::Ro, op).await?;
        let outcome = match connection(&held) {
            Ok(connection) => connection.run_with_deadline(self.limit_of_reads(), job).await,
            Err(error) => Err(error),
        };
        // Nothing was written, so there is nothing that could be unknown.
        if let Err(error) = &outcome {
            give_up_after_deadline(&mut held, error);
        }
        outcome.map_err(|error| match error {
            PgError::OutcomeUnknown(message) => PgError::Connection(message).to_port(op),
            other => other.to_port(op),
        })
    }
}

#[async_trait]
impl Reader for PgDatabase {
    async fn check_schema(&self) -> PortResult<()> {
        let op = "check_schema";
        let invalid = |message: String| PortError::new(PORT, op, PortErrorKind::Invalid, message);
        let migrator = Migrator::shipped().map_err(|error| invalid(error.to_string()))?;
        let status = self
            .read(op, move |client| match migrator.status(client) {
                Err(MigrateError::Database(error)) => Err(error),
                other => Ok(other.map_err(|error| error.to_string())),
            })
            .await?
            .map_err(invalid)?;
        if status.is_current() {
            return Ok(());
        }
        let found = status.applied.last().map_or(0, |m| m.version);
        let known = status.pending.last().copied().unwrap_or(found);
        Err(invalid(format!(
            "the database's schema is at version {found}, this binary needs {known}; run `cutter db migrate`"
        )))
    }

    async fn now(&self) -> PortResult<jiff::Timestamp> {
        self.read("now", |client| {
            timestamp(
                &client.query_typed_one("SELECT pg_catalog.clock_timestamp() AS now", params![])?,
                "now",
            )
        })
        .await
    }

    async fn source(&self, document_id: &str) -> PortResult<Option<SourceFacts>> {
        let document_id = document_id.to_owned();
        self.read("source", move |client| source(client, &document_id)).await
    }

    async fn source_text(&self, source_version_id: Uuid) -> PortResult<Vec<u8>> {
        let op = "source_text";
        let text: Option<Vec<u8>> = self
            .read(op, move |client| {
                let row = client.query_opt(
                    "SELECT v.content FROM iu_core.source_version v WHERE v.source_version_id = $1",
                    &[&source_version_id],
                )?;
                row.map(|row| get(&row, 0)).transpose()
            })
            .await?;
        text.ok_or_else(|| {
            let message = format!("no row {source_version_id} in iu_core.source_version");
            PortError::new(PORT, op, PortErrorKind::NotFound, message)
        })
    }

    async fn vocabulary(&self) -> PortResult<Vocabulary> {
        self.read("vocabulary", vocabulary).await
    }

    async fn survey(&self, scope: &SurveyScope) -> PortResult<Survey> {
        let scope = scope.clone();
        let cache = self.catalogue();
        self.read("survey", move |client| survey::survey(client, &scope, &cache)).await
    }

    async fn migration_moves(&self) -> PortResult<Vec<PinMove>> {
        self.read("migration_moves", |client| {
            let rows = client.query(
                "SELECT m.dimension, m.before_value, m.after_value FROM cutter_meta.migration_move m
                 ORDER BY m.version, m.dimension",
                &[],
            )?;
            let of = |row| Ok(PinMove { dimension: get(row, 0)?, before: get(row, 1)?, after: get(row, 2)? });
            rows.iter().map(of).collect()
        })
        .await
    }

    async fn policy(&self) -> PortResult<PolicyRecord> {
        self.read("policy", crate::policy::read).await
    }

    async fn grants(&self) -> PortResult<GrantSnapshot> {
        let cache = self.catalogue();
        self.read("grants", move |client| survey::grants(client, &cache)).await
    }

    async fn effect(&self, key: &EffectKey) -> PortResult<Option<EffectRecord>> {
        let key = key.clone();
        self.read("effect", move |client| find_effect(client, &key)).await
    }

    async fn structural(
        &self,
        change_set_id: Uuid,
        document_id: &str,
        forbidden_prefixes: &[String],
    ) -> PortResult<StructuralFacts> {
        let (document_id, forbidden) = (document_id.to_owned(), forbidden_prefixes.to_vec());
        self.read("structural", move |client| {
            survey::structural(client, change_set_id, &document_id, &forbidden)
        })
        .await
    }

    async fn versions(&self, document_id: &str) -> PortResult<Vec<VersionCut>> {
        let document_id = document_id.to_owned();
        self.read("versions", move |client| crate::versions::versions(client, &document_id)).await
    }

    async fn units(&self, query: &UnitQuery) -> PortResult<Vec<UnitRow>> {
        let query = query.clone();
        self.read("units", move |client| units(client, &query)).await
    }

    async fn asks(&self, run_id: &RunId) -> PortResult<Vec<StoredAsk>> {
        let run_id = run_id.as_str().to_owned();
        self.read("asks", move |client| crate::asks::of_run(client, &run_id)).await
    }

    async fn open_asks(&self, since: Option<jiff::Timestamp>) -> PortResult<Vec<OpenAsk>> {
        self.read("open_asks", move |client| crate::asks::open_asks(client, since)).await
    }

    async fn rows(&self, run_id: &RunId) -> PortResult<Option<RunRows>> {
        let run_id = run_id.clone();
        self.read("rows", move |client| {
            let mut snapshot = client
                .build_transaction()
                .isolation_level(IsolationLevel::RepeatableRead)
                .read_only(true)
                .start()?;
            let rows = run_rows(&mut snapshot, run_id.as_str())?;
            snapshot.rollback()?;
            Ok(Some(rows))
        })
        .await
    }

    async fn enacted_runs(&self, document_id: &str) -> PortResult<Vec<RunId>> {
        let document_id = document_id.to_owned();
        self.read("enacted_runs", move |client| crate::versions::enacted_runs(client, &document_id)).await
    }

    async fn statements(&self, run_id: &RunId) -> PortResult<Vec<StoredStatement>> {
        let run_id = run_id.as_str().to_owned();
        self.read("statements", move |client| crate::statement::of_run(client, &run_id)).await
    }

    async fn rows_digest(&self, change_set_id: Uuid) -> PortResult<Option<Digest>> {
        self.read("rows_digest", move |client| {
            let digest = "SELECT cutter_governance.fn_rows_digest($1) AS digest";
            parsed_opt(&client.query_one(digest, &[&change_set_id])?, "digest")
        })
        .await
    }

    async fn evidence(&self, run_id: &RunId) -> PortResult<RunEvidence> {
        let run_id = run_id.clone();
        self.read("evidence", move |client| {
            let mut snapshot = client
                .build_transaction()
                .isolation_level(IsolationLevel::RepeatableRead)
                .read_only(true)
                .start()?;
            let evidence = evidence(&mut snapshot, run_id.as_str())?;
            snapshot.rollback()?;
            Ok(evidence)
        })
        .await
    }
}

/// The stored source of a document with its newest version.
pub(crate) fn source(
    client: &mut impl GenericClient,
    document_id: &str,
) -> Result<Option<SourceFacts>, PgError> {
    let row = client.query_opt(
        "SELECT d.source_document_id, v.source_version_id, v.version_no, v.sha256, v.byte_length, v.manifest_digest
         FROM iu_core.source_document d
         LEFT JOIN LATERAL (
             SELECT s.* FROM iu_core.source_version s WHERE s.source_document_id = d.source_document_id
             ORDER BY s.version_no DESC LIMIT 1
         ) v ON true
         WHERE d.document_id = $1",
        &[&document_id],
    )?;
    let Some(row) = row else { return Ok(None) };
    let latest = match get::<_, Option<Uuid>>(&row, "source_version_id")? {
        None => None,
        Some(source_version_id) => Some(SourceVersionFacts {
            source_version_id,
            version_no: get(&row, "version_no")?,
            sha256: parsed(&row, "sha256")?,
            bytes: unsigned(&row, "byte_length")?,
            manifest_digest: parsed_opt(&row, "manifest_digest")?,
        }),
    };
    Ok(Some(SourceFacts {
        source_document_id: get(&row, "source_document_id")?,
        document_id: document_id.to_owned(),
        latest,
    }))
}

fn vocabulary(client: &mut Client) -> Result<Vocabulary, PgError> {
    let rows = client.query(
        "SELECT split_part(c.config_key, '.', 2), split_part(c.config_key, '.', 3)
         FROM public.dot_config c WHERE starts_with(c.config_key, 'vocab.')",
        &[],
    )?;
    let mut vocabulary = Vocabulary {
        publication_type: BTreeSet::new(),
        section_type: BTreeSet::new(),
        unit_kind: BTreeSet::new(),
    };
    for row in &rows {
        let word: String = get(row, 1)?;
        match get::<_, &str>(row, 0)? {
            "publication_type" => vocabulary.publication_type.insert(word),
            "section_type" => vocabulary.section_type.insert(word),
            "unit_kind" => vocabulary.unit_kind.insert(word),
            // Other machines keep their words there, too.
            _ => false,
        };
    }
    Ok(vocabulary)
}

/// One committed effect.
pub(crate) fn find_effect(
    client: &mut impl GenericClient,
    key: &EffectKey,
) -> Result<Option<EffectRecord>, PgError> {
    let occurrence = i32::try_from(key.occurrence)
        .map_err(|_| PgError::Shape(format!("occurrence {} does not fit", key.occurrence)))?;
    let row = client.query_typed_opt(
        &format!(
            "SELECT {EFFECT_COLUMNS} FROM cutter_governance.run_effect
             WHERE run_id = $1 AND effect = $2 AND occurrence = $3"
        ),
        params![key.run_id.as_str(), key.effect.as_str(), occurrence],
    )?;
    row.as_ref().map(effect_record).transpose()
}

/// The one change set that is read, so that a page is a range of its index; `{cut}` says which,
/// `{unit}` which of its units.
const UNITS: &str = "
WITH cut AS (
    SELECT c.change_set_id, s.version_no
    FROM iu_core.source_document d
    JOIN iu_core.source_version s ON s.source_document_id = d.source_document_id
    JOIN cutter_governance.cut_change_set c ON c.source_version_id = s.source_version_id AND c.kind = 'cut'
    WHERE d.document_id = $1 AND ($2::int IS NULL OR s.version_no = $2) AND {cut}
    ORDER BY s.version_no DESC LIMIT 1
)
SELECT u.unit_id, u.change_set_id, cut.version_no, u.ordinal, u.canonical_address, u.citation_address,
    u.unit_kind, u.section_type, u.lifecycle_status, a.start_byte, a.end_byte, v.content_hash,
    v.body_hash, u.idempotency_key, CASE WHEN $6 THEN v.content END AS content
FROM cut
JOIN iu_core.information_unit u ON u.change_set_id = cut.change_set_id AND u.ordinal > $4
JOIN iu_core.unit_anchor a ON a.unit_id = u.unit_id
CROSS JOIN LATERAL (
    SELECT w.content_hash, w.body_hash, w.content FROM iu_core.unit_version w
    WHERE w.unit_id = u.unit_id ORDER BY w.version_seq DESC LIMIT 1
) v
WHERE {unit}
    AND ($3::text IS NULL OR u.canonical_address = $3 COLLATE \"C\" OR starts_with(u.canonical_address, $3 || '/'))
ORDER BY u.ordinal
LIMIT $5";

fn units(client: &mut Client, query: &UnitQuery) -> Result<Vec<UnitRow>, PgError> {
    let after = query.after_ordinal.map_or(Ok(-1), bigint)?;
    let limit = i64::try_from(query.limit).unwrap_or(i64::MAX);
    let (cut, unit, set) = match query.scope {
        UnitScope::InForce => {
            let has_enacted = "c.live AND EXISTS (SELECT FROM iu_core.information_unit e
                WHERE e.change_set_id = c.change_set_id AND e.lifecycle_status = 'enacted')";
            (has_enacted, "u.lifecycle_status = 'enacted'", None)
        }
        UnitScope::Live => ("c.live", "u.lifecycle_status <> 'voided'", None),
        UnitScope::ChangeSet(id) => ("c.change_set_id = $7", "true", Some(id)),
    };
    let statement = UNITS.replace("{cut}", cut).replace("{unit}", unit);
    let mut given: Vec<&(dyn ToSql + Sync)> =
        vec![&query.document_id, &query.version_no, &query.under, &after, &limit, &query.with_content];
    given.extend(set.iter().map(|id| id as &(dyn ToSql + Sync)));
    let rows = client.query(&statement, &given)?;
    rows.iter()
        .map(|row| {
            Ok(UnitRow {
                unit_id: get(row, "unit_id")?,
                change_set_id: get(row, "change_set_id")?,
                version_no: get(row, "version_no")?,
                ordinal: unsigned(row, "ordinal")?,
                canonical_address: get(row, "canonical_address")?,
                citation_address: get(row, "citation_address")?,
                unit_kind: get(row, "unit_kind")?,
                section_type: get(row, "section_type")?,
                lifecycle_status: get(row, "lifecycle_status")?,
                start: unsigned(row, "start_byte")?,
                end: unsigned(row, "end_byte")?,
                content_hash: parsed(row, "content_hash")?,
                body_hash: parsed(row, "body_hash")?,
                idempotency_key: parsed(row, "idempotency_key")?,
                content: get(row, "content")?,
            })
        })
        .collect()
}

const HISTORY: &str = "
SELECT coalesce(h.from_state, ''), h.to_state
FROM cutter_governance.decision_backlog_history h
WHERE h.entry_id = $1
ORDER BY h.at, h.history_id";

/// History in order: rows of one instant (S5 and S7 lie inside a transaction) follow each other
/// as their states do. Rows that fit nowhere come last, so that nobody misses them.
fn in_order(mut rows: Vec<(String, String)>) -> Vec<(String, String)> {
    let mut ordered = Vec::with_capacity(rows.len());
    let mut state = String::new();
    while let Some(next) = rows.iter().position(|(from, _)| *from == state) {
        let row = rows.remove(next);
        state.clone_from(&row.1);
        ordered.push(row);
    }
    ordered.append(&mut rows);
    ordered
}

fn evidence(client: &mut impl GenericClient, run_id: &str) -> Result<RunEvidence, PgError> {
    let mut evidence = RunEvidence::default();
    let fence = client.query_typed_opt(
        "SELECT epoch FROM cutter_governance.run_fence WHERE run_id = $1",
        params![run_id],
    )?;
    evidence.fence_epoch = fence.map(|row| get(&row, 0)).transpose()?;
    let effects = client.query_typed(
        &format!(
            "SELECT {EFFECT_COLUMNS} FROM cutter_governance.run_effect WHERE run_id = $1
             ORDER BY at, effect, occurrence"
        ),
        params![run_id],
    )?;
    evidence.effects = effects.iter().map(effect_record).collect::<Result<_, _>>()?;
    let entry = client.query_typed_opt(
        "SELECT entry_id, status FROM cutter_governance.decision_backlog_entry
         WHERE run_id = $1 AND escalates_entry_id IS NULL ORDER BY at, entry_id LIMIT 1",
        params![run_id],
    )?;
    if let Some(row) = entry {
        let entry_id: Uuid = get(&row, 0)?;
        evidence.entry_status = Some(get(&row, 1)?);
        let rows = client.query_typed(HISTORY, params![entry_id])?;
        let rows = rows.iter().map(|row| Ok((get(row, 0)?, get(row, 1)?))).collect::<Result<_, PgError>>()?;
        evidence.history = in_order(rows);
    }
    for row in &client.query_typed(
        "SELECT signature_id, duty, payload, public_key, signature, recorded_at FROM cutter_governance.dot_pair_signature
         WHERE run_id = $1 ORDER BY duty, signature_id",
        params![run_id],
    )? {
        evidence.signatures.push(StoredSignature {
            signature_id: get(row, 0)?,
            duty: get(row, 1)?,
            payload: get(row, 2)?,
            public_key: get(row, 3)?,
            signature: get(row, 4)?,
            recorded_at: timestamp_opt(row, "recorded_at")?,
        });
    }
    for row in &client.query_typed(
        "SELECT a.approval_id, a.type, a.sha256, a.nonce, a.fingerprint, u.effect, a.decision, a.actor, a.document,
             a.approval_kb_id, a.expires_at, a.at, a.recorded_at
         FROM cutter_governance.review_approval a
         LEFT JOIN cutter_governance.approval_use u ON u.approval_id = a.approval_id
         WHERE a.run_id = $1 ORDER BY a.at, a.approval_id",
        params![run_id],
    )? {
        evidence.approvals.push(StoredApproval {
            approval_id: get(row, 0)?,
            gate: get(row, 1)?,
            sha256: parsed(row, "sha256")?,
            nonce: get(row, 3)?,
            fingerprint: get(row, 4)?,
            decision: crate::asks::verdict(get(row, "decision")?),
            actor: get(row, "actor")?,
            document: String::from_utf8_lossy(get(row, "document")?).into_owned(),
            approval_kb_id: get(row, "approval_kb_id")?,
            expires: timestamp_opt(row, "expires_at")?,
            at: timestamp(row, "at")?,
            used_by: get(row, 5)?,
            recorded_at: timestamp_opt(row, "recorded_at")?,
        });
    }
    for row in &client.query_typed(
        "SELECT r.id, r.passed FROM cutter_governance.cut_change_set c
         JOIN cutter_governance.verify_result r ON r.change_set_id = c.change_set_id
         WHERE c.run_id = $1 ORDER BY r.id",
        params![run_id],
    )? {
        evidence.verify_results.push((get(row, 0)?, get(row, 1)?));
    }
    let row = client.query_typed_one(
        "SELECT EXISTS (SELECT FROM cutter_governance.cut_change_set c
                        JOIN cutter_governance.change_set_void v ON v.change_set_id = c.change_set_id
                        WHERE c.run_id = $1) AS voided,
                (SELECT count(*) FROM cutter_governance.cut_change_set c
                 JOIN iu_core.iu_lifecycle_log l ON l.change_set_id = c.change_set_id
                 WHERE c.run_id = $1 AND l.to_status = 'enacted') AS enacted",
        params![run_id],
    )?;
    evidence.voided = get(&row, "voided")?;
    evidence.enacted_log_rows = unsigned(&row, "enacted")?;
    Ok(evidence)
}
