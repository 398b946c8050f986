-- The same answers for less: what each transaction of a run asks again and again is asked in a way that
-- the server plans and computes faster, and the rows of a cut are digested once in a transaction.
SET ROLE cutter_owner;

-- One text for one state of everything that fn_catalogue and fn_grant_probe read. Not sorted: rows in
-- another order are no more than another text, and what was known is read once more.
CREATE OR REPLACE FUNCTION cutter_governance.fn_catalogue_stamp() RETURNS text
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan AS $fn$
DECLARE
    v_schemas oid[];
    v_public oid;
    v_owner oid;
    v_stamp text;
BEGIN
    SELECT array_agg(n.oid) FILTER (WHERE n.nspname <> 'public'), min(n.oid) FILTER (WHERE n.nspname = 'public')
    INTO v_schemas, v_public
    FROM pg_namespace n WHERE n.nspname IN ('iu_core', 'cutter_governance', 'cutter_queue', 'cutter_run', 'public');
    SELECT r.oid INTO v_owner FROM pg_roles r WHERE r.rolname = 'cutter_owner';
    WITH classes AS MATERIALIZED (
        SELECT c.oid, c.xmin, c.ctid, c.relkind FROM pg_class c
        WHERE c.relnamespace = ANY (v_schemas) OR c.relnamespace = v_public
    ), versions(kind, oid, version) AS (
        SELECT 1, n.oid, xidsend(n.xmin) || tidsend(n.ctid) FROM pg_namespace n WHERE n.oid = ANY (v_schemas || v_public)
        UNION ALL
        SELECT 2, d.oid, xidsend(d.xmin) || tidsend(d.ctid) FROM pg_database d WHERE d.datname = current_database()
        UNION ALL
        SELECT 3, p.oid, xidsend(p.xmin) || tidsend(p.ctid) FROM pg_proc p WHERE p.pronamespace = ANY (v_schemas)
        UNION ALL
        SELECT 3, p.oid, xidsend(p.xmin) || tidsend(p.ctid) FROM pg_proc p
        WHERE p.pronamespace = v_public AND p.proowner = v_owner
        UNION ALL
        SELECT 4, c.oid, xidsend(c.xmin) || tidsend(c.ctid) FROM classes c
        UNION ALL
        SELECT 5, t.oid, xidsend(t.xmin) || tidsend(t.ctid) FROM classes c JOIN pg_trigger t ON t.tgrelid = c.oid
        UNION ALL
        SELECT 6, k.oid, xidsend(k.xmin) || tidsend(k.ctid) FROM classes c JOIN pg_constraint k ON k.conrelid = c.oid
        UNION ALL
        -- by the index, table by table: most of the catalogue's columns are not ours
        SELECT 7, c.oid, int2send(a.attnum) || xidsend(a.xmin) || tidsend(a.ctid)
        FROM classes c CROSS JOIN LATERAL (
            SELECT f.attnum, f.xmin, f.ctid FROM pg_attribute f
            WHERE f.attrelid = c.oid AND f.attacl IS NOT NULL OFFSET 0) a
        WHERE c.relkind <> 'i'
        UNION ALL
        SELECT 8, r.oid, sha256(convert_to(ROW(r.*)::text, 'UTF8')) FROM pg_roles r
        UNION ALL
        SELECT 9, m.roleid, oidsend(m.member) || xidsend(m.xmin) || tidsend(m.ctid) FROM pg_auth_members m
        UNION ALL
        SELECT 10, 0, xidsend(e.xmin) || tidsend(e.ctid) FROM cutter_governance.grant_expectation e
    )
    -- kind and length tell where a row ends
    SELECT encode(sha256((SELECT int8send(s.system_identifier) FROM pg_control_system() s)
        || string_agg(int2send(r.kind::int2) || int2send(length(r.version)::int2) || oidsend(r.oid) || r.version,
            ''::bytea)), 'hex')
    INTO v_stamp FROM versions r;
    RETURN v_stamp;
END
$fn$;

-- Whether the rows that an effect writes are there: no effect is recorded without them. Of its
-- questions only the one that is asked is planned.
CREATE OR REPLACE FUNCTION cutter_governance.fn_effect_stands(p_run_id text, p_effect text, p_verdict text)
RETURNS boolean
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $fn$
BEGIN
    CASE p_effect
    WHEN 'mark' THEN
        RETURN EXISTS (SELECT FROM cutter_governance.decision_backlog_entry e WHERE e.run_id = p_run_id);
    WHEN 'sweep' THEN
        RETURN EXISTS (
            SELECT FROM cutter_governance.decision_backlog_sweep_log s
            JOIN cutter_governance.decision_backlog_entry e ON e.document_id = s.document_id
            WHERE e.run_id = p_run_id AND s.run_id = p_run_id);
    WHEN 'sg1_review' THEN
        RETURN EXISTS (
            SELECT FROM cutter_governance.review_decision d JOIN cutter_governance.review_approval a
                ON a.review_decision_id = d.id AND a.decision = d.decision
            WHERE d.run_id = p_run_id AND d.type = 'cut_authorization');
    WHEN 'leg_a' THEN
        RETURN EXISTS (
            SELECT FROM cutter_governance.cut_change_set c WHERE c.run_id = p_run_id AND c.kind = 'cut');
    WHEN 'leg_b' THEN
        RETURN EXISTS (SELECT FROM cutter_governance.manifest_envelope m WHERE m.run_id = p_run_id);
    WHEN 'write_verify' THEN
        RETURN EXISTS (
            SELECT FROM cutter_governance.cut_change_set c JOIN cutter_governance.verify_result r USING (change_set_id)
            WHERE c.run_id = p_run_id AND r.run_id = p_run_id AND r.passed = (p_verdict = 'commit'));
    WHEN 'sg2_request' THEN
        RETURN EXISTS (
            SELECT FROM cutter_governance.review_decision d
            WHERE d.run_id = p_run_id AND d.type = 'lifecycle_enactment');
    WHEN 'sg2_review' THEN
        RETURN EXISTS (
            SELECT FROM cutter_governance.review_approval a
            WHERE a.run_id = p_run_id AND a.type = 'lifecycle_enactment');
    WHEN 'enact' THEN
        RETURN EXISTS (
            SELECT FROM cutter_governance.cut_change_set c
            WHERE c.run_id = p_run_id AND c.kind = 'cut' AND c.live
                AND EXISTS (SELECT FROM iu_core.information_unit u WHERE u.change_set_id = c.change_set_id)
                AND NOT EXISTS (SELECT FROM iu_core.information_unit u
                                WHERE u.change_set_id = c.change_set_id AND u.lifecycle_status <> 'enacted'));
    WHEN 'sg3_review' THEN
        RETURN EXISTS (
            SELECT FROM cutter_governance.review_approval a
            WHERE a.run_id = p_run_id AND a.type IN ('stop_resume', 'drift_ack', 'void'));
    -- that it relies on an approval is looked at by the caller
    WHEN 'void' THEN
        RETURN true;
    ELSE
        RETURN false;
    END CASE;
END
$fn$;

-- Whether an ask's answer has been carried out, it was refused, or it was asked anew.
-- Of answers that are heard together none is late for another: p_refused_before is when they came.
CREATE OR REPLACE FUNCTION cutter_governance.fn_ask_closed(
    p_run_id text, p_gate text, p_occurrence integer, p_refused_before timestamptz)
RETURNS boolean
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $fn$
BEGIN
    RETURN EXISTS (
        SELECT FROM cutter_governance.approval_answer w
        WHERE w.run_id = p_run_id AND w.gate = p_gate AND w.occurrence = p_occurrence
            AND w.decision <> 'approve' AND NOT w.late AND w.recorded_at < p_refused_before)
    OR EXISTS (
        SELECT FROM cutter_governance.approval_ask k
        WHERE k.run_id = p_run_id AND k.gate = p_gate AND k.occurrence > p_occurrence)
    OR EXISTS (
        SELECT FROM cutter_governance.approval_ask k
        JOIN cutter_governance.review_approval a ON a.run_id = k.run_id AND a.nonce = k.nonce
        JOIN cutter_governance.approval_use u ON u.approval_id = a.approval_id
        WHERE k.run_id = p_run_id AND k.gate = p_gate AND k.occurrence = p_occurrence);
END
$fn$;

-- Refuses (CUD09) unless the stored rows of a change set are those that the consent names. Where
-- p_or_before, a consent of a run that had begun before rows were digested may name none.
-- What was found to be so is left to the transaction: its driver reads it there.
CREATE OR REPLACE FUNCTION cutter_governance.fn_rows_check(p_change_set_id uuid, p_approval_id uuid, p_or_before boolean)
RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $fn$
DECLARE
    v_named text := cutter_governance.fn_consent_rows(p_approval_id);
    v_observed text;
BEGIN
    IF v_named IS NULL AND p_or_before AND EXISTS (
        SELECT FROM cutter_governance.cut_change_set c
        JOIN cutter_governance.before_trust b ON b.run_id = c.run_id
        WHERE c.change_set_id = p_change_set_id)
    THEN
        RETURN;
    END IF;
    v_observed := cutter_governance.fn_rows_digest(p_change_set_id);
    IF v_named IS NULL OR v_observed IS DISTINCT FROM v_named THEN
        RAISE EXCEPTION 'change set %: expected the rows that approval % names (%), observed %', p_change_set_id,
            p_approval_id, coalesce(v_named, 'none'), coalesce(v_observed, 'none') USING ERRCODE = 'CUD09';
    END IF;
    PERFORM set_config('cutter.rows_checked', p_change_set_id || ' ' || v_observed, true);
END
$fn$;

-- rows_digest of a change set, from the rows as they are stored. Texts are hashed again from
-- their bytes; a stored hash that is not theirs, a unit with another number of versions or
-- anchors than one, or with a version or an anchor that contradicts it, makes another digest.
-- Texts and anchors are fetched unit by unit, so that no plan reads those of all documents.
-- A field is its number, its length in eight bytes (-1: NULL) and its bytes in UTF-8.
CREATE OR REPLACE FUNCTION cutter_governance.fn_rows_digest(p_change_set_id uuid) RETURNS text
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan AS $fn$
DECLARE
    v_header bytea;
    v_leaves bytea[];
    v_start bigint;
    v_end bigint;
BEGIN
    SELECT array_agg(sha256('\x00'::bytea
            || '\x11'::bytea || int8send(octet_length(r.ordinal)) || convert_to(r.ordinal, 'UTF8')
            || '\x12'::bytea || int8send(octet_length(r.address)) || convert_to(r.address, 'UTF8')
            || coalesce('\x13'::bytea || int8send(octet_length(r.citation)) || convert_to(r.citation, 'UTF8'),
                '\x13ffffffffffffffff'::bytea)
            || '\x14'::bytea || int8send(octet_length(r.unit_kind)) || convert_to(r.unit_kind, 'UTF8')
            || '\x15'::bytea || int8send(octet_length(r.section_type)) || convert_to(r.section_type, 'UTF8')
            -- designator, title and language: no profile gives them yet
            || '\x16ffffffffffffffff17ffffffffffffffff18ffffffffffffffff'::bytea
            || coalesce('\x19'::bytea || int8send(octet_length(r.span)) || convert_to(r.span, 'UTF8'),
                '\x19ffffffffffffffff'::bytea)
            || coalesce('\x1a0000000000000040'::bytea || convert_to(r.content_hash, 'UTF8'),
                '\x1affffffffffffffff'::bytea)
            || coalesce('\x1b0000000000000040'::bytea || convert_to(r.body_hash, 'UTF8'),
                '\x1bffffffffffffffff'::bytea)
            || '\x1c'::bytea || int8send(octet_length(r.key)) || convert_to(r.key, 'UTF8'))
            ORDER BY r.place, r.unit_id),
        min(r.start_byte), max(r.end_byte)
    INTO v_leaves, v_start, v_end
    FROM (
        SELECT u.ordinal AS place, u.unit_id, u.ordinal::text AS ordinal, u.canonical_address AS address,
            u.citation_address AS citation, u.unit_kind, u.section_type,
            a.start_byte || '-' || a.end_byte AS span, a.start_byte, a.end_byte,
            CASE WHEN u.content_hash = v.content_hash AND u.content_hash = h.hash THEN h.hash END AS content_hash,
            CASE WHEN u.body_hash = v.body_hash THEN u.body_hash END AS body_hash,
            u.idempotency_key AS key
        FROM iu_core.information_unit u
        LEFT JOIN LATERAL (
            SELECT t.content, t.content_hash, t.body_hash FROM iu_core.unit_version t
            WHERE t.unit_id = u.unit_id OFFSET 0) v ON true
        LEFT JOIN LATERAL (
            SELECT t.start_byte, t.end_byte FROM iu_core.unit_anchor t
            WHERE t.unit_id = u.unit_id AND t.change_set_id = u.change_set_id
                AND t.source_version_id = u.source_version_id OFFSET 0) a ON true
        CROSS JOIN LATERAL (SELECT encode(sha256(v.content), 'hex') AS hash) h
        WHERE u.change_set_id = p_change_set_id
    ) r;
    SELECT sha256('\x00'::bytea || string_agg(set_byte('\x00'::bytea, 0, f.tag)
        || int8send(octet_length(convert_to(f.value, 'UTF8'))) || convert_to(f.value, 'UTF8'), ''::bytea ORDER BY f.tag))
    INTO v_header
    FROM cutter_governance.cut_change_set c
    JOIN iu_core.source_version s ON s.source_version_id = c.source_version_id
    CROSS JOIN LATERAL (VALUES (1, 'cutter.rows/1'), (2, c.document_id), (3, s.version_no::text),
        (4, encode(sha256(s.content), 'hex')), (5, coalesce(v_start || '-' || v_end, '')), (6, c.publication_type),
        (7, c.unit_count::text)) AS f(tag, value)
    WHERE c.change_set_id = p_change_set_id;
    -- NULL where there is no such change set
    RETURN encode(CASE WHEN v_header IS NOT NULL
        THEN cutter_governance.fn_merkle_root(v_header || v_leaves) END, 'hex');
END
$fn$;

-- These ask whether one unit of a change set is there: to a planner any unit looks near, so that it would
-- read the units of all documents.
ALTER FUNCTION cutter_governance.fn_effect_stands(text, text, text) SET enable_seqscan = off SET jit = off;
ALTER FUNCTION cutter_governance.fn_change_set_void(uuid, uuid, text, uuid, text, text, timestamptz) SET enable_seqscan = off SET jit = off;

RESET ROLE;
