//! Leg A: the change set, its units, the executor's signature, S2 → S5 → S6.

use cutter_core::record::effect::{LegAWrite, fact};
use uuid::Uuid;

use super::{put_approval, put_rows, sign, use_approval};
use crate::effect::Tx;
use crate::error::PgError;
use crate::row::{bigint, get, system_time};

/// One statement, one `fn_iu_create` per unit. OFFSET 0 keeps the planner from asking for the
/// function's two results with two calls.
pub(crate) const CREATE: &str = "
SELECT count((s.r).unit_id) AS created
FROM (
    SELECT iu_core.fn_iu_create($1, u.unit_id, u.version_id, u.anchor_id, u.ordinal, u.canonical_address,
        u.citation_address, u.unit_kind, u.section_type, u.start_byte, u.end_byte, u.content, u.content_hash,
        u.body_hash, u.idempotency_key) AS r
    FROM unnest($2::uuid[], $3::uuid[], $4::uuid[], $5::bigint[], $6::text[], $7::text[], $8::text[], $9::text[],
        $10::bigint[], $11::bigint[], $12::bytea[], $13::text[], $14::text[], $15::text[])
        AS u(unit_id, version_id, anchor_id, ordinal, canonical_address, citation_address, unit_kind, section_type,
            start_byte, end_byte, content, content_hash, body_hash, idempotency_key)
    OFFSET 0
) s";

/// The writer digest of the stored rows (spec 2 §6): sha256 over the canonical JSON of
/// `[address, unit_kind, section_type, content_hash, idempotency_key]`, sorted by address.
pub(crate) const WRITER_DIGEST: &str = "
SELECT encode(sha256(convert_to('[' || coalesce(string_agg('[' || to_json(u.canonical_address)::text
    || ',' || to_json(u.unit_kind)::text || ',' || to_json(u.section_type)::text
    || ',' || to_json(u.content_hash)::text || ',' || to_json(u.idempotency_key)::text || ']', ','
    ORDER BY u.canonical_address), '') || ']', 'UTF8')), 'hex')
FROM iu_core.information_unit u WHERE u.change_set_id = $1";

pub(super) fn write(tx: &mut Tx<'_>, write: &LegAWrite) -> Result<(), PgError> {
    let set = write.change_set_id;
    open_change_set(tx, write)?;
    let document_id = tx.cx.fence.document_id.clone();
    let base: String = get(
        &tx.client.query_one(
            "SELECT cutter_governance.fn_base_state($1, $2)",
            &[&document_id, &tx.cx.key.run_id.as_str()],
        )?,
        0,
    )?;
    tx.put(fact::BASE_STATE, base);
    let created = create(tx, write)?;
    tx.put(fact::CREATED, created);
    sign(tx, set, &write.signature)?;
    use_approval(tx, write.approval_id)?;
    put_approval(tx, write.approval_id, write.review_decision_id)?;
    let [start, end] = write.history_ids;
    let moves = [
        ("reviewed_approved", "cut_in_progress", start, "cut started"),
        ("cut_in_progress", "cut_applied", end, "cut committed"),
    ];
    for (from, to, history_id, reason) in moves {
        tx.transition(write.entry_id, (from, to), history_id, reason, Some(set))?;
    }
    let not_draft = tx.count(
        "SELECT count(*) FROM iu_core.information_unit u
         WHERE u.change_set_id = $1 AND u.lifecycle_status <> 'draft'",
        &[&set],
    )?;
    tx.put(fact::NON_DRAFT, not_draft);
    let digest: String = get(&tx.client.query_one(WRITER_DIGEST, &[&set])?, 0)?;
    tx.put(fact::WRITER_DIGEST, digest);
    put_rows(tx, set, Some(write.approval_id))?;
    tx.put_status(write.entry_id)
}

fn open_change_set(tx: &mut Tx<'_>, write: &LegAWrite) -> Result<(), PgError> {
    tx.client.execute(
        "SELECT cutter_governance.fn_change_set_open($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15,
             $16)",
        &[
            &write.change_set_id,
            &tx.cx.key.run_id.as_str(),
            &tx.cx.fence.document_id,
            &write.source_document_id,
            &write.source_version_id,
            &write.entry_id,
            &write.approval_id,
            &write.review_decision_id,
            &write.idempotency_key.to_hex(),
            &write.writer_digest.to_hex(),
            &write.manifest_digest.to_hex(),
            &write.region_sha.to_hex(),
            &write.publication_type,
            &bigint(write.units.len() as u64)?,
            &tx.cx.actor,
            &system_time(tx.cx.at),
        ],
    )?;
    Ok(())
}

fn create(tx: &mut Tx<'_>, write: &LegAWrite) -> Result<i64, PgError> {
    let units = &write.units;
    let ids =
        |of: fn(&cutter_core::record::effect::UnitWrite) -> Uuid| units.iter().map(of).collect::<Vec<_>>();
    let numbers = |of: fn(&cutter_core::record::effect::UnitWrite) -> u64| {
        units.iter().map(|unit| bigint(of(unit))).collect::<Result<Vec<_>, _>>()
    };
    let (unit_ids, version_ids, anchor_ids) =
        (ids(|u| u.unit_id), ids(|u| u.version_id), ids(|u| u.anchor_id));
    let (ordinals, starts, ends) = (numbers(|u| u.ordinal)?, numbers(|u| u.start)?, numbers(|u| u.end)?);
    let addresses: Vec<&str> = units.iter().map(|u| u.canonical_address.as_str()).collect();
    let citations: Vec<Option<&str>> = units.iter().map(|u| u.citation_address.as_deref()).collect();
    let kinds: Vec<&str> = units.iter().map(|u| u.unit_kind.as_str()).collect();
    let types: Vec<&str> = units.iter().map(|u| u.section_type.as_str()).collect();
    let contents: Vec<&[u8]> = units.iter().map(|u| u.content.as_slice()).collect();
    let hashes: Vec<String> = units.iter().map(|u| u.content_hash.to_hex()).collect();
    let bodies: Vec<String> = units.iter().map(|u| u.body_hash.to_hex()).collect();
    let keys: Vec<String> = units.iter().map(|u| u.idempotency_key.to_hex()).collect();
    let row = tx.client.query_one(
        CREATE,
        &[
            &write.change_set_id,
            &unit_ids,
            &version_ids,
            &anchor_ids,
            &ordinals,
            &addresses,
            &citations,
            &kinds,
            &types,
            &starts,
            &ends,
            &contents,
            &hashes,
            &bodies,
            &keys,
        ],
    )?;
    get(&row, 0)
}
