-- Functions: decisions, change sets, signatures, envelope, escalation, void.
SET ROLE cutter_owner;

-- A decision row. The executor stores requests at SG_2 (lifecycle_enactment), the reviewer
-- everything else.
CREATE FUNCTION cutter_governance.fn_review_decision_record(
    p_id uuid, p_run_id text, p_document_id text, p_type text, p_decision text, p_entry_id uuid,
    p_change_set_id uuid, p_expected_actor text, p_unit_count bigint, p_unit_set_digest text,
    p_nonce text, p_request_sha256 text, p_actor text, p_at timestamptz)
RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $fn$
BEGIN
    IF session_user <> (CASE p_type WHEN 'lifecycle_enactment' THEN 'cutter_exec' ELSE 'cutter_review' END) THEN
        RAISE EXCEPTION 'a review_decision of type % is not %''s to store', p_type, session_user
            USING ERRCODE = 'CUD04';
    END IF;
    INSERT INTO cutter_governance.review_decision (id, run_id, document_id, type, decision, entry_id,
        change_set_id, expected_actor, unit_count, unit_set_digest, nonce, request_sha256, actor, at)
    VALUES (p_id, p_run_id, p_document_id, p_type, p_decision, p_entry_id, p_change_set_id, p_expected_actor,
        p_unit_count, p_unit_set_digest, p_nonce, p_request_sha256, p_actor, p_at);
END
$fn$;

-- Leg A's first write. A second live set for the version, or with this key, is a unique violation.
CREATE FUNCTION cutter_governance.fn_change_set_open(
    p_change_set_id uuid, p_run_id text, p_document_id text, p_source_document_id uuid, p_source_version_id uuid,
    p_entry_id uuid, p_approval_id uuid, p_review_decision_id uuid, p_idempotency_key text,
    p_writer_digest text, p_manifest_digest text, p_region_sha text, p_publication_type text,
    p_unit_count bigint, p_actor text, p_at timestamptz)
RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $fn$
BEGIN
    IF NOT EXISTS (SELECT FROM cutter_governance.review_approval a WHERE a.approval_id = p_approval_id) THEN
        RAISE EXCEPTION 'no approval %', p_approval_id USING ERRCODE = 'CUN07';
    END IF;
    IF NOT EXISTS (SELECT FROM cutter_governance.review_decision r WHERE r.id = p_review_decision_id) THEN
        RAISE EXCEPTION 'no review decision %', p_review_decision_id USING ERRCODE = 'CUN08';
    END IF;
    INSERT INTO cutter_governance.cut_change_set (change_set_id, run_id, document_id, source_document_id,
        source_version_id, source_bytes, entry_id, approval_id, review_decision_id, idempotency_key,
        writer_digest, manifest_digest, region_sha, publication_type, unit_count, actor, at)
    SELECT p_change_set_id, p_run_id, p_document_id, p_source_document_id, p_source_version_id, v.byte_length,
        p_entry_id, p_approval_id, p_review_decision_id, p_idempotency_key, p_writer_digest,
        p_manifest_digest, p_region_sha, p_publication_type, p_unit_count, p_actor, p_at
    FROM iu_core.source_version v
    WHERE v.source_version_id = p_source_version_id AND v.source_document_id = p_source_document_id;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'document % has no source version %', p_document_id, p_source_version_id USING ERRCODE = 'CUN03';
    END IF;
END
$fn$;

-- A signature of this login's own duty over a change set.
CREATE FUNCTION cutter_governance.fn_signature_record(
    p_signature_id uuid, p_run_id text, p_change_set_id uuid, p_duty text, p_payload text,
    p_public_key text, p_signature text, p_at timestamptz)
RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $fn$
BEGIN
    IF session_user <> (CASE p_duty WHEN 'executor' THEN 'cutter_exec' ELSE 'cutter_verify' END) THEN
        RAISE EXCEPTION 'the % signature is not %''s to store', p_duty, session_user USING ERRCODE = 'CUD05';
    END IF;
    INSERT INTO cutter_governance.dot_pair_signature (signature_id, run_id, change_set_id, duty, payload,
        public_key, signature, at)
    VALUES (p_signature_id, p_run_id, p_change_set_id, p_duty, p_payload, p_public_key, p_signature, p_at);
END
$fn$;

-- Leg B. A second envelope for the change set is a unique violation (LegBAlreadyRecorded).
CREATE FUNCTION cutter_governance.fn_envelope_record(
    p_id uuid, p_change_set_id uuid, p_run_id text, p_entry_id uuid, p_executor_signature_id uuid,
    p_envelope text, p_unit_count bigint, p_actor text, p_at timestamptz)
RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $fn$
BEGIN
    INSERT INTO cutter_governance.manifest_envelope (id, change_set_id, run_id, entry_id,
        executor_signature_id, envelope, unit_count, actor, at)
    VALUES (p_id, p_change_set_id, p_run_id, p_entry_id, p_executor_signature_id, p_envelope,
        p_unit_count, p_actor, p_at);
END
$fn$;

-- A failed verification: the compensating set, which holds no units, and the escalation entry
-- at S0 (D11). The verify_result that names both follows in the same transaction.
CREATE FUNCTION cutter_governance.fn_verify_escalate(
    p_compensating_id uuid, p_change_set_id uuid, p_escalation_entry_id uuid, p_history_id uuid,
    p_run_id text, p_actor text, p_at timestamptz)
RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $fn$
DECLARE
    v_set cutter_governance.cut_change_set;
    v_entry cutter_governance.decision_backlog_entry;
BEGIN
    SELECT c.* INTO v_set FROM cutter_governance.cut_change_set c
    WHERE c.change_set_id = p_change_set_id AND c.run_id = p_run_id AND c.kind = 'cut';
    IF NOT FOUND THEN
        RAISE EXCEPTION 'run % has no change set %', p_run_id, p_change_set_id USING ERRCODE = 'CUN04';
    END IF;
    SELECT e.* INTO v_entry FROM cutter_governance.decision_backlog_entry e WHERE e.entry_id = v_set.entry_id;
    INSERT INTO cutter_governance.cut_change_set (change_set_id, kind, live, run_id, document_id,
        source_document_id, source_version_id, source_bytes, entry_id, compensates_id, idempotency_key,
        writer_digest, manifest_digest, region_sha, publication_type, unit_count, actor, at)
    VALUES (p_compensating_id, 'compensating', false, p_run_id, v_set.document_id, v_set.source_document_id,
        v_set.source_version_id, v_set.source_bytes, v_set.entry_id, p_change_set_id,
        encode(sha256(convert_to(p_change_set_id::text || v_set.idempotency_key, 'UTF8')), 'hex'),
        v_set.writer_digest, v_set.manifest_digest, v_set.region_sha, v_set.publication_type, 0, p_actor, p_at);
    PERFORM cutter_governance.fn_backlog_mark(p_escalation_entry_id, p_history_id, p_run_id, v_entry.document_id,
        v_entry.source_document_id, v_entry.source_version_id,
        encode(sha256(convert_to(p_escalation_entry_id::text || v_entry.idempotency_key, 'UTF8')), 'hex'),
        v_entry.region_sha, v_entry.manifest_digest, v_entry.candidate_count, v_entry.entry_id,
        p_actor, 'escalation of a failed verification', p_at);
END
$fn$;

-- Voids a change set: its void row, its draft units through fn_iu_void, then live goes off.
-- Refused if a unit is enacted (CUC05) or the set is not live (CUC06). Gives the units voided.
CREATE FUNCTION cutter_governance.fn_change_set_void(
    p_void_id uuid, p_change_set_id uuid, p_run_id text, p_approval_id uuid, p_reason text,
    p_actor text, p_at timestamptz)
RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $fn$
DECLARE
    v_live boolean;
    v_voided bigint;
BEGIN
    SELECT c.live INTO v_live FROM cutter_governance.cut_change_set c
    WHERE c.change_set_id = p_change_set_id AND c.run_id = p_run_id FOR UPDATE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'run % has no change set %', p_run_id, p_change_set_id USING ERRCODE = 'CUN04';
    END IF;
    IF NOT v_live THEN
        RAISE EXCEPTION 'change set % is not live', p_change_set_id USING ERRCODE = 'CUC06';
    END IF;
    IF NOT EXISTS (SELECT FROM cutter_governance.approval_use u
                   JOIN cutter_governance.review_approval a USING (approval_id)
                   WHERE u.approval_id = p_approval_id AND u.effect = 'void' AND u.run_id = p_run_id) THEN
        RAISE EXCEPTION 'change set %: void without its approval', p_change_set_id USING ERRCODE = 'CUD06';
    END IF;
    IF EXISTS (SELECT FROM iu_core.information_unit u
               WHERE u.change_set_id = p_change_set_id AND u.lifecycle_status = 'enacted') THEN
        RAISE EXCEPTION 'change set % holds enacted units and cannot be voided', p_change_set_id
            USING ERRCODE = 'CUC05';
    END IF;
    INSERT INTO cutter_governance.change_set_void (void_id, change_set_id, run_id, approval_id, reason, actor, at)
    VALUES (p_void_id, p_change_set_id, p_run_id, p_approval_id, p_reason, p_actor, p_at);
    SELECT count(*) FILTER (WHERE s.status = 'voided') INTO v_voided
    FROM (
        SELECT iu_core.fn_iu_void(u.unit_id, p_void_id, p_run_id, p_reason, p_actor, p_at) AS status
        FROM iu_core.information_unit u
        WHERE u.change_set_id = p_change_set_id
        ORDER BY u.ordinal
    ) s;
    UPDATE cutter_governance.cut_change_set c SET live = false WHERE c.change_set_id = p_change_set_id;
    RETURN v_voided;
END
$fn$;

RESET ROLE;
