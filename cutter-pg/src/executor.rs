//! The principal that cuts and enacts: `cutter_exec`.

mod leg_a;

use std::time::Duration;

use async_trait::async_trait;
use cutter_core::base::id::RunId;
use cutter_core::machine::backlog::BacklogState;
use cutter_core::port::database::{Begun, Executor};
use cutter_core::port::{PortError, PortErrorKind, PortResult};
use cutter_core::record::ask::AskWrite;
use cutter_core::record::effect::{
    EffectContext, EnactWrite, ExecutorEffect, LegBWrite, MarkWrite, ReviewVerdict, Sg2RequestWrite,
    SignatureWrite, SweepWrite, VoidWrite, fact,
};
use cutter_core::record::observed::{Fence, Registered, SourceRegistration};
use cutter_core::record::stored_statement::StatementSignature;
use postgres::Client;
use uuid::Uuid;

use crate::connection::commit;
use crate::database::{PgDatabase, connection};
use crate::effect::{Effect, Tx, missing};
use crate::error::{PORT, PgError};
use crate::login::Login;
use crate::reader;
use crate::row::{bigint, get, system_time};

/// Longest wait for the registration of a source text.
const REGISTER_LIMIT: Duration = Duration::from_secs(120);
/// Longest wait for a fence: the server waits 5 s for the former holder's lock.
const FENCE_LIMIT: Duration = Duration::from_secs(30);

#[async_trait]
impl Executor for PgDatabase {
    async fn register_source(&self, registration: &SourceRegistration) -> PortResult<Registered> {
        let op = "register_source";
        // Registration is outside every run, so there is no fence to raise first.
        self.forget_lost().await;
        let held = self.hold(Login::Exec, op).await?;
        let registration = registration.clone();
        connection(&held)
            .map_err(|error| error.to_port(op))?
            .run_with_deadline(REGISTER_LIMIT, move |client| register(client, &registration))
            .await
            .map_err(|error| error.to_port(op))
    }

    async fn take_fence(&self, run_id: &RunId, document_id: &str, holder: Uuid) -> PortResult<Fence> {
        let op = "take_fence";
        self.forget_lost().await;
        let held = self.hold(Login::Exec, op).await?;
        let (run, document) = (run_id.as_str().to_owned(), document_id.to_owned());
        let epoch = connection(&held)
            .map_err(|error| error.to_port(op))?
            .run_with_deadline(FENCE_LIMIT, move |client| {
                let row = client.query_one(
                    "SELECT cutter_governance.fn_run_fence_take($1, $2, $3)",
                    &[&run, &document, &holder],
                );
                get(&row.map_err(|error| PgError::from(error).autocommit_outcome())?, 0)
            })
            .await;
        let epoch: i64 = epoch.map_err(|error| match error {
            // Taking the fence again is always right, so an unknown take is only unavailable.
            PgError::OutcomeUnknown(text) => PortError::new(PORT, op, PortErrorKind::Unavailable, text),
            other => other.to_port(op),
        })?;
        Ok(Fence { run_id: run_id.clone(), document_id: document_id.to_owned(), epoch, holder })
    }

    async fn open_ask(&self, fence: &Fence, ask: &AskWrite) -> PortResult<()> {
        self.store_ask(fence, ask).await
    }

    async fn store_statement(
        &self,
        fence: &Fence,
        body: &str,
        signature: &StatementSignature,
    ) -> PortResult<()> {
        self.put_statement(fence, body, signature).await
    }

    async fn begin(&self, cx: &EffectContext, effect: &ExecutorEffect) -> PortResult<Begun> {
        self.begin_effect(cx, Effect::Executor(effect.clone())).await
    }
}

fn register(client: &mut Client, registration: &SourceRegistration) -> Result<Registered, PgError> {
    let mut transaction = client.transaction()?;
    let row = transaction.query_one(
        "SELECT r.already FROM iu_core.fn_source_register($1, $2, $3, $4, $5, $6, $7, $8) r",
        &[
            &registration.document_id,
            &registration.title,
            &registration.source_document_id,
            &registration.source_version_id,
            &registration.content,
            &registration.sha256.to_hex(),
            &registration.manifest_digest.map(|digest| digest.to_hex()),
            &registration.actor,
        ],
    )?;
    let already = get(&row, 0)?;
    let source = reader::source(&mut transaction, &registration.document_id)?
        .ok_or_else(|| PgError::Shape("the registered source does not read back".to_owned()))?;
    commit(transaction)?;
    Ok(Registered { source, already })
}

/// Performs one effect in the open transaction.
pub(crate) fn write(tx: &mut Tx<'_>, effect: &ExecutorEffect) -> Result<(), PgError> {
    match effect {
        ExecutorEffect::Mark(write) => mark(tx, write),
        ExecutorEffect::Sweep(write) => sweep(tx, write),
        ExecutorEffect::LegA(write) => leg_a::write(tx, write),
        ExecutorEffect::LegB(write) => leg_b(tx, write),
        ExecutorEffect::Sg2Request(write) => sg2_request(tx, write),
        ExecutorEffect::Enact(write) => enact(tx, write),
        ExecutorEffect::Void(write) => void(tx, write),
    }
}

/// ∅ → S0.
fn mark(tx: &mut Tx<'_>, write: &MarkWrite) -> Result<(), PgError> {
    let known = tx.client.query_opt(
        "SELECT 1 FROM iu_core.source_version v JOIN iu_core.source_document d USING (source_document_id)
         WHERE v.source_version_id = $1 AND d.source_document_id = $2 AND d.document_id = $3",
        &[&write.source_version_id, &write.source_document_id, &tx.cx.fence.document_id],
    )?;
    if known.is_none() {
        return Err(missing("source_version", write.source_version_id));
    }
    tx.client.execute(
        "SELECT cutter_governance.fn_backlog_mark($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, NULL, $11, 'marked', $12,
             $13)",
        &[
            &write.entry_id,
            &write.history_id,
            &tx.cx.key.run_id.as_str(),
            &tx.cx.fence.document_id,
            &write.source_document_id,
            &write.source_version_id,
            &write.idempotency_key.to_hex(),
            &write.region_sha.to_hex(),
            &write.manifest_digest.to_hex(),
            &bigint(write.candidate_count)?,
            &tx.cx.actor,
            &system_time(tx.cx.at),
            &write.depends_on,
        ],
    )?;
    tx.put_status(write.entry_id)
}

/// S0 or S3 → S1, with its log row (A-3).
fn sweep(tx: &mut Tx<'_>, write: &SweepWrite) -> Result<(), PgError> {
    tx.client.execute(
        "SELECT cutter_governance.fn_backlog_sweep($1, $2, $3, $4, $5, $6)",
        &[
            &write.sweep_id,
            &write.entry_id,
            &write.history_id,
            &tx.cx.key.run_id.as_str(),
            &tx.cx.actor,
            &system_time(tx.cx.at),
        ],
    )?;
    tx.put_status(write.entry_id)
}

/// The envelope, once per change set (G-LEG-B-ONCE).
fn leg_b(tx: &mut Tx<'_>, write: &LegBWrite) -> Result<(), PgError> {
    let set = write.change_set_id;
    tx.own_live_change_set(set)?;
    tx.client.execute(
        "SELECT cutter_governance.fn_envelope_record($1, $2, $3, $4, $5, $6, $7, $8, $9)",
        &[
            &write.manifest_envelope_id,
            &set,
            &tx.cx.key.run_id.as_str(),
            &write.entry_id,
            &write.executor_signature_id,
            &write.envelope,
            &bigint(write.unit_count)?,
            &tx.cx.actor,
            &system_time(tx.cx.at),
        ],
    )?;
    let envelopes = tx.count(
        "SELECT count(*) FROM cutter_governance.manifest_envelope m WHERE m.change_set_id = $1",
        &[&set],
    )?;
    tx.put(fact::ENVELOPES, envelopes);
    let sets = tx.count(
        "SELECT count(*) FROM cutter_governance.cut_change_set c WHERE c.change_set_id = $1",
        &[&set],
    )?;
    tx.put(fact::CHANGE_SETS, sets);
    let signed = tx.client.query_opt(
        "SELECT 1 FROM cutter_governance.dot_pair_signature s
         WHERE s.signature_id = $1 AND s.change_set_id = $2 AND s.duty = 'executor'",
        &[&write.executor_signature_id, &set],
    )?;
    tx.put(fact::EXECUTOR_SIGNATURE, signed.is_some());
    let overlaps = tx.count(LANE_OVERLAPS, &[&set])?;
    tx.put(fact::LANE_OVERLAPS, overlaps);
    tx.put_status(write.entry_id)
}

/// Other live change sets of this version with an anchor over these spans (D30). The set's own
/// units tile their region, so its extent is enough.
pub(crate) const LANE_OVERLAPS: &str = "
WITH mine AS MATERIALIZED (
    SELECT c.change_set_id, c.source_version_id
    FROM cutter_governance.cut_change_set c WHERE c.change_set_id = $1
), extent AS MATERIALIZED (
    SELECT min(a.start_byte) AS start_byte, max(a.end_byte) AS end_byte
    FROM mine
    JOIN iu_core.information_unit u ON u.change_set_id = mine.change_set_id
    JOIN iu_core.unit_anchor a ON a.unit_id = u.unit_id
)
SELECT count(DISTINCT a.change_set_id)
FROM mine
CROSS JOIN extent e
JOIN iu_core.unit_anchor a ON a.source_version_id = mine.source_version_id
    AND a.start_byte < e.end_byte AND a.end_byte > e.start_byte AND a.change_set_id <> mine.change_set_id
JOIN cutter_governance.cut_change_set o ON o.change_set_id = a.change_set_id AND o.live";

/// The immutable request row.
fn sg2_request(tx: &mut Tx<'_>, write: &Sg2RequestWrite) -> Result<(), PgError> {
    tx.own_live_change_set(write.change_set_id)?;
    let id = write.review_decision_id;
    let reused =
        tx.count("SELECT count(*) FROM cutter_governance.review_decision r WHERE r.id = $1", &[&id])?;
    tx.put(fact::DECISION_REUSED, reused);
    if reused > 0 {
        tx.refusal = Some(format!("review decision {id} was used before"));
    } else {
        tx.client.execute(
            "SELECT cutter_governance.fn_review_decision_record($1, $2, $3, 'lifecycle_enactment', NULL, $4, $5, $6,
                 $7, $8, $9, $10, $11, $12)",
            &[
                &id,
                &tx.cx.key.run_id.as_str(),
                &tx.cx.fence.document_id,
                &write.entry_id,
                &write.change_set_id,
                &write.expected_actor,
                &bigint(write.unit_count)?,
                &write.unit_set_digest.to_hex(),
                &write.nonce,
                &write.request_sha256.to_hex(),
                &tx.cx.actor,
                &system_time(tx.cx.at),
            ],
        )?;
    }
    put_decision(tx, id)?;
    tx.put_status(write.entry_id)
}

/// What the request row says.
fn put_decision(tx: &mut Tx<'_>, id: Uuid) -> Result<bool, PgError> {
    let row = tx.client.query_opt(
        "SELECT r.type, coalesce(r.expected_actor, '') FROM cutter_governance.review_decision r WHERE r.id = $1",
        &[&id],
    )?;
    let Some(row) = row else { return Ok(false) };
    let (kind, actor): (String, String) = (get(&row, 0)?, get(&row, 1)?);
    tx.put(fact::DECISION_TYPE, kind);
    tx.put(fact::EXPECTED_ACTOR, actor);
    Ok(true)
}

/// Binds an approval to this effect, once and for all.
fn use_approval(tx: &mut Tx<'_>, approval_id: Uuid) -> Result<(), PgError> {
    let known = tx.client.query_opt(
        "SELECT 1 FROM cutter_governance.review_approval a WHERE a.approval_id = $1",
        &[&approval_id],
    )?;
    if known.is_none() {
        return Err(missing("review_approval", approval_id));
    }
    let row = tx.client.query_one(
        "SELECT cutter_governance.fn_approval_use($1, $2, $3, $4, $5)",
        &[
            &approval_id,
            &tx.cx.key.run_id.as_str(),
            &tx.cx.key.effect.as_str(),
            &tx.cx.effect_id,
            &system_time(tx.cx.at),
        ],
    )?;
    let here: bool = get(&row, 0)?;
    tx.put(fact::APPROVAL_USED_HERE, here);
    if !here {
        tx.refusal = Some(format!("approval {approval_id} is not for this effect, or was used before"));
    }
    Ok(())
}

/// What the approval says, if it answers this decision.
fn put_approval(tx: &mut Tx<'_>, approval_id: Uuid, review_decision_id: Uuid) -> Result<(), PgError> {
    let row = tx.client.query_opt(
        "SELECT a.decision, a.actor FROM cutter_governance.review_approval a
         WHERE a.approval_id = $1 AND a.review_decision_id = $2",
        &[&approval_id, &review_decision_id],
    )?;
    if let Some(row) = row {
        let (decision, actor): (String, String) = (get(&row, 0)?, get(&row, 1)?);
        tx.put(fact::APPROVAL_DECISION, decision);
        tx.put(fact::APPROVAL_ACTOR, actor);
    }
    Ok(())
}

/// A signature of this login's duty.
pub(crate) fn sign(tx: &mut Tx<'_>, change_set_id: Uuid, write: &SignatureWrite) -> Result<(), PgError> {
    tx.client.execute(
        "SELECT cutter_governance.fn_signature_record($1, $2, $3, $4, $5, $6, $7, $8)",
        &[
            &write.signature_id,
            &tx.cx.key.run_id.as_str(),
            &change_set_id,
            &write.duty,
            &write.payload,
            &write.public_key,
            &write.signature,
            &system_time(tx.cx.at),
        ],
    )?;
    Ok(())
}

/// One statement, one `fn_iu_enact` per unit.
pub(crate) const ENACT: &str = "
SELECT count(*) FILTER (WHERE s.status = 'enacted')
FROM (
    SELECT iu_core.fn_iu_enact(u.unit_id, $2, $3, $4, $5) AS status
    FROM (SELECT i.unit_id FROM iu_core.information_unit i
          WHERE i.change_set_id = $1 AND i.lifecycle_status = 'draft' ORDER BY i.ordinal OFFSET 0) u
    OFFSET 0
) s";

/// sha256 over the canonical JSON of `[address, content_hash]` pairs, sorted by address.
pub(crate) const UNIT_SET: &str = "
SELECT encode(sha256(convert_to('[' || coalesce(string_agg('[' || to_json(u.canonical_address)::text || ','
    || to_json(u.content_hash)::text || ']', ',' ORDER BY u.canonical_address), '') || ']', 'UTF8')), 'hex')
FROM iu_core.information_unit u WHERE u.change_set_id = $1";

/// The digest of the rows as they are stored, among the facts. If the consent names another one
/// (or none), the transaction cannot be committed as passed: the owner's deferred trigger would
/// refuse. Without `consent` it is SG_1's, which may name none in a run begun before rows were.
///
/// The trigger is asked first: what it found is the digest, and it is not computed twice.
pub(crate) fn put_rows(tx: &mut Tx<'_>, change_set_id: Uuid, consent: Option<Uuid>) -> Result<(), PgError> {
    if let Some(observed) = checked_rows(tx, change_set_id)? {
        tx.put(fact::ROWS_DIGEST, observed);
        return Ok(());
    }
    let row = tx.client.query_one(
        "SELECT cutter_governance.fn_rows_digest(c.change_set_id),
             cutter_governance.fn_consent_rows(coalesce($2, c.approval_id)),
             $2 IS NULL AND EXISTS (SELECT FROM cutter_governance.before_trust b WHERE b.run_id = c.run_id)
         FROM cutter_governance.cut_change_set c WHERE c.change_set_id = $1",
        &[&change_set_id, &consent],
    )?;
    let (observed, named): (String, Option<String>) = (get(&row, 0)?, get(&row, 1)?);
    let may_name_none: bool = get(&row, 2)?;
    if named.as_ref().map_or(!may_name_none, |named| *named != observed) {
        let named = named.as_deref().unwrap_or("none");
        tx.refusal = Some(format!("the consent names the rows {named}, the rows stored are {observed}"));
    }
    tx.put(fact::ROWS_DIGEST, observed);
    Ok(())
}

/// What the trigger that compares rows with their consent found in this transaction, if there was
/// something for it to compare and it found no difference.
fn checked_rows(tx: &mut Tx<'_>, change_set_id: Uuid) -> Result<Option<String>, PgError> {
    const NOW: &str = "SAVEPOINT rows; SET CONSTRAINTS cutter_governance.trg_rows_approved IMMEDIATE;
        SET CONSTRAINTS cutter_governance.trg_rows_approved DEFERRED; RELEASE SAVEPOINT rows";
    if let Err(error) = tx.client.batch_execute(NOW) {
        let is_difference = error.code().is_some_and(|code| code.code() == "CUD09");
        if !is_difference {
            return Err(error.into());
        }
        tx.client.batch_execute("ROLLBACK TO SAVEPOINT rows; RELEASE SAVEPOINT rows")?;
        return Ok(None);
    }
    let row = tx.client.query_one("SELECT current_setting('cutter.rows_checked', true)", &[])?;
    let checked: Option<String> = get(&row, 0)?;
    let of_this = format!("{change_set_id} ");
    Ok(checked.and_then(|checked| checked.strip_prefix(&of_this).map(str::to_owned)))
}

const LOG_ROWS: &str =
    "SELECT count(*) FROM iu_core.iu_lifecycle_log l WHERE l.change_set_id = $1 AND l.to_status = $2";

/// All units of a change set, in one transaction, each with its log row.
fn enact(tx: &mut Tx<'_>, write: &EnactWrite) -> Result<(), PgError> {
    let set = write.change_set_id;
    tx.own_live_change_set(set)?;
    if !put_decision(tx, write.review_decision_id)? {
        return Err(missing("review_decision", write.review_decision_id));
    }
    use_approval(tx, write.approval_id)?;
    put_approval(tx, write.approval_id, write.review_decision_id)?;
    let unit_set: String = get(&tx.client.query_one(UNIT_SET, &[&set])?, 0)?;
    tx.put(fact::UNIT_SET, unit_set);
    let may = tx.values.get(fact::APPROVAL_USED_HERE).is_some_and(|used| used == "true")
        && tx
            .values
            .get(fact::APPROVAL_DECISION)
            .is_some_and(|decision| decision == ReviewVerdict::Approve.as_str());
    // Without consent fn_iu_enact refuses; the facts say why, and the gate judges them.
    let enacted = if may {
        let (run, actor, at) = (tx.run().to_owned(), tx.cx.actor.clone(), system_time(tx.cx.at));
        tx.count(ENACT, &[&set, &write.approval_id, &run, &actor, &at])?
    } else {
        0
    };
    tx.put(fact::ENACTED, enacted);
    let rest = tx.count(
        "SELECT count(*) FROM iu_core.information_unit u
         WHERE u.change_set_id = $1 AND u.lifecycle_status <> 'enacted'",
        &[&set],
    )?;
    tx.put(fact::NOT_ENACTED, rest);
    let rows = tx.count(LOG_ROWS, &[&set, &"enacted"])?;
    tx.put(fact::LOG_ROWS, rows);
    for (table, trigger) in [("information_unit", fact::TRIGGER_IU), ("unit_version", fact::TRIGGER_UV)] {
        let row = tx.client.query_opt(
            "SELECT t.tgenabled::text FROM pg_catalog.pg_trigger t
             JOIN pg_catalog.pg_class c ON c.oid = t.tgrelid
             JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
             WHERE n.nspname = 'iu_core' AND c.relname = $1 AND t.tgname = $2",
            &[&table, &trigger],
        )?;
        if let Some(row) = row {
            let enabled: String = get(&row, 0)?;
            tx.put(trigger, enabled);
        }
    }
    let role: String =
        get(&tx.client.query_one("SELECT current_setting('session_replication_role')", &[])?, 0)?;
    tx.put(fact::REPLICATION_ROLE, role);
    put_rows(tx, set, Some(write.approval_id))
}

/// Forward compensation (D10). A change set with enacted units is refused.
fn void(tx: &mut Tx<'_>, write: &VoidWrite) -> Result<(), PgError> {
    use_approval(tx, write.approval_id)?;
    let may = tx.refusal.is_none();
    let (mut voided, mut enacted) = (0, 0);
    if let Some(set) = write.change_set_id {
        tx.own_live_change_set(set)?;
        enacted = tx.count(
            "SELECT count(*) FROM iu_core.information_unit u
             WHERE u.change_set_id = $1 AND u.lifecycle_status = 'enacted'",
            &[&set],
        )?;
        if enacted > 0 {
            tx.refusal =
                Some(format!("change set {set} has {enacted} enacted units, which cannot be voided"));
        } else if may {
            let (run, actor, at) = (tx.run().to_owned(), tx.cx.actor.clone(), system_time(tx.cx.at));
            voided = tx.count(
                "SELECT cutter_governance.fn_change_set_void($1, $2, $3, $4, $5, $6, $7)",
                &[&write.void_id, &set, &run, &write.approval_id, &write.reason, &actor, &at],
            )?;
        }
        let rows = tx.count(LOG_ROWS, &[&set, &"voided"])?;
        tx.put(fact::LOG_ROWS, rows);
    }
    if let Some([entry_id, history_id]) = write.entry {
        if tx.refusal.is_none() {
            let from = tx.status_of(entry_id)?;
            // somebody may have given the entry up meanwhile
            if from != BacklogState::Abandoned.as_str() {
                tx.transition(
                    entry_id,
                    (&from, BacklogState::Abandoned.as_str()),
                    history_id,
                    &write.reason,
                    write.change_set_id,
                )?;
            }
        }
        tx.put_status(entry_id)?;
    }
    tx.put(fact::VOIDED, voided);
    tx.put(fact::ENACTED_UNITS, enacted);
    Ok(())
}
