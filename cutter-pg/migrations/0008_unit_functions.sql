-- Functions: create, edit, enact and void units. One call per unit; one statement calls for all.
SET ROLE cutter_owner;

-- Creates a draft unit with its first version and its anchor. Only in the transaction that
-- opened the change set, and only while that is live: anything else finds no set (CUN05).
CREATE FUNCTION iu_core.fn_iu_create(
    p_change_set_id uuid, p_unit_id uuid, p_version_id uuid, p_anchor_id uuid, p_ordinal bigint,
    p_canonical_address text, p_citation_address text, p_unit_kind text, p_section_type text,
    p_start_byte bigint, p_end_byte bigint, p_content bytea, p_content_hash text, p_body_hash text,
    p_idempotency_key text,
    OUT unit_id uuid, OUT lifecycle_status text)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $fn$
#variable_conflict use_column
BEGIN
    WITH cs AS (
        SELECT c.* FROM cutter_governance.cut_change_set c
        WHERE c.change_set_id = p_change_set_id AND c.kind = 'cut' AND c.live
            AND c.created_xid = pg_current_xact_id()
    ), u AS (
        INSERT INTO iu_core.information_unit AS i (unit_id, change_set_id, document_id, source_document_id,
            source_version_id, ordinal, canonical_address, citation_address, unit_kind, section_type,
            content_hash, body_hash, idempotency_key, created_at)
        SELECT p_unit_id, cs.change_set_id, cs.document_id, cs.source_document_id, cs.source_version_id,
            p_ordinal, p_canonical_address, p_citation_address, p_unit_kind, p_section_type,
            p_content_hash, p_body_hash, p_idempotency_key, cs.at
        FROM cs
        RETURNING i.unit_id, i.lifecycle_status
    ), v AS (
        INSERT INTO iu_core.unit_version (version_id, unit_id, version_seq, content, content_hash, body_hash,
            actor, created_at)
        SELECT p_version_id, p_unit_id, 1, p_content, p_content_hash, p_body_hash, cs.actor, cs.at FROM cs
    ), a AS (
        INSERT INTO iu_core.unit_anchor (anchor_id, unit_id, change_set_id, source_version_id, source_bytes,
            start_byte, end_byte)
        SELECT p_anchor_id, p_unit_id, cs.change_set_id, cs.source_version_id, cs.source_bytes,
            p_start_byte, p_end_byte
        FROM cs
    )
    SELECT u.unit_id, u.lifecycle_status INTO fn_iu_create.unit_id, fn_iu_create.lifecycle_status FROM u;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'unit %: no live change set % was opened by this transaction',
            p_canonical_address, p_change_set_id USING ERRCODE = 'CUN05';
    END IF;
END
$fn$;

-- Appends a version to a draft unit, outside any open run (D30): the entry of its change set
-- must have ended as verify_failed_escalated, which is the one place where drafts outlive their
-- run. Refuses enacted and voided units. Gives the new version_seq.
CREATE FUNCTION iu_core.fn_iu_apply_edit_draft(
    p_unit_id uuid, p_version_id uuid, p_content bytea, p_content_hash text, p_body_hash text,
    p_actor text, p_at timestamptz)
RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $fn$
DECLARE
    v_unit record;
    v_seq integer;
BEGIN
    SELECT u.lifecycle_status, e.status, c.live, c.run_id INTO v_unit
    FROM iu_core.information_unit u
    JOIN cutter_governance.cut_change_set c ON c.change_set_id = u.change_set_id
    JOIN cutter_governance.decision_backlog_entry e ON e.entry_id = c.entry_id
    WHERE u.unit_id = p_unit_id FOR UPDATE OF u;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'no unit %', p_unit_id USING ERRCODE = 'CUN06';
    END IF;
    IF v_unit.lifecycle_status <> 'draft' THEN
        RAISE EXCEPTION 'unit % is % and takes no edit', p_unit_id, v_unit.lifecycle_status USING ERRCODE = 'CUC07';
    END IF;
    IF NOT v_unit.live OR v_unit.status <> 'verify_failed_escalated' THEN
        RAISE EXCEPTION 'unit % belongs to run %, which is not over (entry %)', p_unit_id, v_unit.run_id, v_unit.status
            USING ERRCODE = 'CUC08';
    END IF;
    SELECT max(v.version_seq) + 1 INTO v_seq FROM iu_core.unit_version v WHERE v.unit_id = p_unit_id;
    INSERT INTO iu_core.unit_version (version_id, unit_id, version_seq, content, content_hash, body_hash,
        actor, created_at)
    VALUES (p_version_id, p_unit_id, v_seq, p_content, p_content_hash, p_body_hash, p_actor, p_at);
    RETURN v_seq;
END
$fn$;

-- Enacts a draft unit of a live change set under a lifecycle_enactment approval that this
-- run's enact effect uses and that says approve. Log row first, then the status.
CREATE FUNCTION iu_core.fn_iu_enact(
    p_unit_id uuid, p_approval_id uuid, p_run_id text, p_actor text, p_at timestamptz)
RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $fn$
DECLARE
    v_status text;
BEGIN
    INSERT INTO iu_core.iu_lifecycle_log (unit_id, change_set_id, run_id, from_status, to_status, reason_id,
        reason, actor, at)
    SELECT u.unit_id, u.change_set_id, p_run_id, 'draft', 'enacted', p_approval_id, 'lifecycle_enactment',
        p_actor, p_at
    FROM iu_core.information_unit u
    JOIN cutter_governance.cut_change_set c ON c.change_set_id = u.change_set_id
        AND c.live AND c.run_id = p_run_id
    JOIN cutter_governance.review_approval a ON a.approval_id = p_approval_id AND a.decision = 'approve'
    JOIN cutter_governance.approval_use s ON s.approval_id = a.approval_id
        AND s.effect = 'enact' AND s.run_id = p_run_id
    JOIN cutter_governance.review_decision r ON r.id = a.review_decision_id
        AND r.change_set_id = u.change_set_id
    WHERE u.unit_id = p_unit_id AND u.lifecycle_status = 'draft';
    IF NOT FOUND THEN
        SELECT u.lifecycle_status INTO v_status FROM iu_core.information_unit u WHERE u.unit_id = p_unit_id;
        IF NOT FOUND THEN
            RAISE EXCEPTION 'no unit %', p_unit_id USING ERRCODE = 'CUN06';
        ELSIF v_status <> 'draft' THEN
            RAISE EXCEPTION 'unit %: expected draft, observed %', p_unit_id, v_status USING ERRCODE = 'CUC07';
        END IF;
        RAISE EXCEPTION 'unit %: approval % does not let run % enact it', p_unit_id, p_approval_id, p_run_id
            USING ERRCODE = 'CUD07';
    END IF;
    UPDATE iu_core.information_unit u SET lifecycle_status = 'enacted' WHERE u.unit_id = p_unit_id
    RETURNING u.lifecycle_status INTO v_status;
    RETURN v_status;
END
$fn$;

-- Voids a draft unit whose change set has the void row named. Log row first, then the status.
CREATE FUNCTION iu_core.fn_iu_void(
    p_unit_id uuid, p_void_id uuid, p_run_id text, p_reason text, p_actor text, p_at timestamptz)
RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $fn$
DECLARE
    v_status text;
BEGIN
    INSERT INTO iu_core.iu_lifecycle_log (unit_id, change_set_id, run_id, from_status, to_status, reason_id,
        reason, actor, at)
    SELECT u.unit_id, u.change_set_id, p_run_id, 'draft', 'voided', p_void_id, p_reason, p_actor, p_at
    FROM iu_core.information_unit u
    JOIN cutter_governance.change_set_void v ON v.change_set_id = u.change_set_id
        AND v.void_id = p_void_id AND v.run_id = p_run_id
    WHERE u.unit_id = p_unit_id AND u.lifecycle_status = 'draft';
    IF NOT FOUND THEN
        SELECT u.lifecycle_status INTO v_status FROM iu_core.information_unit u WHERE u.unit_id = p_unit_id;
        IF NOT FOUND THEN
            RAISE EXCEPTION 'no unit %', p_unit_id USING ERRCODE = 'CUN06';
        END IF;
        RAISE EXCEPTION 'unit % (%) cannot be voided by % of run %', p_unit_id, v_status, p_void_id, p_run_id
            USING ERRCODE = 'CUC07';
    END IF;
    UPDATE iu_core.information_unit u SET lifecycle_status = 'voided' WHERE u.unit_id = p_unit_id
    RETURNING u.lifecycle_status INTO v_status;
    RETURN v_status;
END
$fn$;

RESET ROLE;
