-- What observers ask: the drift survey and the base state. Both follow the document's size.
SET ROLE cutter_owner;

-- Lowercase hex sha256 of a text in UTF-8.
CREATE FUNCTION cutter_governance.fn_sha256_text(p_text text) RETURNS text
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $fn$
    SELECT encode(sha256(convert_to(p_text, 'UTF8')), 'hex')
$fn$;

-- Fingerprints of our objects: p_kind is function, trigger or acl.
CREATE FUNCTION cutter_governance.fn_catalogue(p_kind text)
RETURNS TABLE (name text, value text)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $fn$
    SELECT n.nspname || '.' || p.proname,
        string_agg(md5(p.prosrc) || '|' || encode(sha256(convert_to(pg_get_functiondef(p.oid), 'UTF8')), 'hex')
            || '|' || pg_get_userbyid(p.proowner) || '|' || coalesce(array_to_string(p.proconfig, ';'), '')
            || '|' || coalesce(array_to_string(p.proacl, ';'), ''), '||'
            ORDER BY pg_get_function_identity_arguments(p.oid) COLLATE "C")
    FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
    WHERE p_kind = 'function' AND n.nspname IN ('iu_core', 'cutter_governance') AND p.prokind = 'f'
    GROUP BY n.nspname, p.proname
    UNION ALL
    -- The triggers behind constraints count: DISABLE TRIGGER ALL turns foreign keys off.
    SELECT n.nspname || '.' || c.relname || '.'
            || CASE WHEN t.tgisinternal THEN coalesce(k.conname, '?') || '#' || t.tgtype ELSE t.tgname END,
        string_agg(t.tgenabled::text || '|'
            || CASE WHEN t.tgisinternal THEN '' ELSE pg_get_triggerdef(t.oid) END, '||' ORDER BY t.oid)
    FROM pg_trigger t
    JOIN pg_class c ON c.oid = t.tgrelid
    JOIN pg_namespace n ON n.oid = c.relnamespace
    LEFT JOIN pg_constraint k ON k.oid = t.tgconstraint
    WHERE p_kind = 'trigger' AND (n.nspname IN ('iu_core', 'cutter_governance')
        OR (n.nspname = 'public' AND c.relname = 'dot_config'))
    GROUP BY 1
    UNION ALL
    SELECT n.nspname || '.' || c.relname,
        pg_get_userbyid(c.relowner) || '|' || coalesce(array_to_string(c.relacl, ';'), '')
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE p_kind = 'acl' AND c.relkind IN ('r', 'v') AND (n.nspname IN ('iu_core', 'cutter_governance')
        OR (n.nspname = 'public' AND c.relname = 'dot_config'))
$fn$;

-- Which versions of the catalogue's rows fn_catalogue and fn_grant_digest are made from: who
-- knows their answer to a stamp need not ask again. Any change of a row, a replaced function or a
-- grant say, gives it another xmin and ctid. Cheap, for every survey asks.
CREATE FUNCTION cutter_governance.fn_catalogue_stamp() RETURNS text
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
    FROM pg_namespace n WHERE n.nspname IN ('iu_core', 'cutter_governance', 'cutter_queue', 'public');
    SELECT r.oid INTO v_owner FROM pg_roles r WHERE r.rolname = 'cutter_owner';
    WITH classes AS MATERIALIZED (
        SELECT c.oid, c.xmin, c.ctid FROM pg_class c
        WHERE c.relnamespace = ANY (v_schemas) OR c.relnamespace = v_public
    ), versions(kind, oid, version) AS (
        SELECT 'namespace', n.oid, n.xmin || ' ' || n.ctid FROM pg_namespace n WHERE n.oid = ANY (v_schemas || v_public)
        UNION ALL
        SELECT 'database', d.oid, d.xmin || ' ' || d.ctid FROM pg_database d WHERE d.datname = current_database()
        UNION ALL
        SELECT 'proc', p.oid, p.xmin || ' ' || p.ctid FROM pg_proc p
        WHERE p.pronamespace = ANY (v_schemas) OR p.pronamespace = v_public AND p.proowner = v_owner
        UNION ALL
        SELECT 'class', c.oid, c.xmin || ' ' || c.ctid FROM classes c
        UNION ALL
        SELECT 'trigger', t.oid, t.xmin || ' ' || t.ctid FROM classes c JOIN pg_trigger t ON t.tgrelid = c.oid
        UNION ALL
        SELECT 'constraint', k.oid, k.xmin || ' ' || k.ctid FROM classes c JOIN pg_constraint k ON k.conrelid = c.oid
        UNION ALL
        SELECT 'attribute', a.attrelid, a.attnum || ' ' || a.xmin || ' ' || a.ctid
        FROM classes c JOIN pg_attribute a ON a.attrelid = c.oid
        WHERE a.attacl IS NOT NULL
        UNION ALL
        SELECT 'role', r.oid, ROW(r.*)::text FROM pg_roles r
        UNION ALL
        SELECT 'member', m.roleid, m.member || ' ' || m.xmin || ' ' || m.ctid FROM pg_auth_members m
        UNION ALL
        SELECT 'expectation', 0, e.xmin || ' ' || e.ctid FROM cutter_governance.grant_expectation e
    )
    SELECT encode(sha256(convert_to((SELECT s.system_identifier FROM pg_control_system() s)
        || string_agg(r.kind || ' ' || r.oid || ' ' || r.version, E'\n' ORDER BY r.kind, r.oid, r.version), 'UTF8')), 'hex')
    INTO v_stamp FROM versions r;
    RETURN v_stamp;
END
$fn$;

-- Live values by dimension (spec 1 §8), all from one snapshot. What comes from the catalogue is
-- left out if its stamp is still the one that the caller knows the values of.
CREATE FUNCTION cutter_governance.fn_survey(
    p_document_id text, p_run_id text, p_entry_id uuid, p_review_decision_id uuid, p_known_stamp text DEFAULT NULL)
RETURNS TABLE (dimension text, value text)
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan AS $fn$
DECLARE
    v_document uuid;
    v_stamp text := cutter_governance.fn_catalogue_stamp();
BEGIN
    RETURN QUERY SELECT 'catalogue_stamp', v_stamp;
    IF v_stamp IS DISTINCT FROM p_known_stamp THEN
        RETURN QUERY
        -- md5 of the source as it is live, and half a digest of all that is known of the function: a
        -- run's record pins every one of them and stays small.
        SELECT 'function.' || c.name, split_part(c.value, '|', 1) || '|'
            || left(cutter_governance.fn_sha256_text(c.value), 32)
        FROM cutter_governance.fn_catalogue('function') c;

        RETURN QUERY
        SELECT 'triggers', cutter_governance.fn_sha256_text(
            coalesce(string_agg(c.name || ' ' || c.value || E'\n', '' ORDER BY c.name COLLATE "C"), ''))
        FROM cutter_governance.fn_catalogue('trigger') c;

        RETURN QUERY SELECT 'grants', cutter_governance.fn_grant_digest();
    END IF;

    SELECT d.source_document_id INTO v_document
    FROM iu_core.source_document d WHERE d.document_id = p_document_id;

    RETURN QUERY
    SELECT 'database_identity', (SELECT s.system_identifier FROM pg_control_system() s) || '/' || d.oid
    FROM pg_database d WHERE d.datname = current_database();

    RETURN QUERY
    SELECT 'migrations', cutter_governance.fn_sha256_text(
        coalesce(string_agg(m.version || ' ' || m.name || ' ' || m.sha256 || E'\n', '' ORDER BY m.version), ''))
    FROM cutter_meta.migration m;

    RETURN QUERY
    SELECT s.name, s.text
    FROM (
        SELECT count(*)::text AS rows, cutter_governance.fn_sha256_text(coalesce(string_agg(
            u.canonical_address || E'\t' || u.content_hash || E'\t' || u.lifecycle_status || E'\n', ''
            ORDER BY u.canonical_address, u.unit_id), '')) AS digest
        FROM iu_core.information_unit u
        WHERE u.source_document_id = v_document
    ) t
    CROSS JOIN LATERAL (VALUES ('unit_rows', t.rows), ('unit_digest', t.digest)) AS s(name, text);

    RETURN QUERY
    SELECT 'latest_version', coalesce((
        SELECT v.source_version_id || '/' || v.sha256
        FROM iu_core.source_version v
        WHERE v.source_document_id = v_document
        ORDER BY v.version_no DESC LIMIT 1), '');

    RETURN QUERY
    SELECT 'backlog_status', coalesce((
        SELECT e.status::text FROM cutter_governance.decision_backlog_entry e WHERE e.entry_id = p_entry_id), '');

    RETURN QUERY
    SELECT 'review_decisions', count(*)::text
    FROM cutter_governance.review_decision r WHERE r.id = p_review_decision_id;

    RETURN QUERY
    SELECT 'approvals', count(*)::text
    FROM cutter_governance.review_approval a WHERE a.run_id = p_run_id;

    RETURN QUERY
    -- The canonical JSON of the three lists, as the core digests them.
    SELECT 'vocabulary', cutter_governance.fn_sha256_text('{' || string_agg(to_json(w.list)::text || ':['
        || coalesce((SELECT string_agg(to_json(split_part(c.config_key, '.', 3))::text, ',' ORDER BY c.config_key)
                     FROM public.dot_config c WHERE starts_with(c.config_key, 'vocab.' || w.list || '.')), '')
        || ']', ',' ORDER BY w.list) || '}')
    FROM unnest(ARRAY['publication_type', 'section_type', 'unit_kind']) AS w(list);
END
$fn$;

-- The tables of a document's closure, less the rows of one run: count and sha256 over the rows
-- as text, ordered by key in bytes. Stored texts enter by their sha256. No fences, no effects
-- and no sweep passes: they say who drives or looked, not what stands.
CREATE FUNCTION cutter_governance.fn_base_state_tables(p_document_id text, p_exclude_run text)
RETURNS TABLE (table_name text, row_count bigint, sha256 text)
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan
SET timezone = 'UTC' SET datestyle = 'ISO, YMD'
SET bytea_output = 'hex' SET extra_float_digits = 1 AS $fn$
DECLARE
    v_document uuid;
BEGIN
    SELECT d.source_document_id INTO v_document
    FROM iu_core.source_document d WHERE d.document_id = p_document_id;

    RETURN QUERY
    WITH sets AS MATERIALIZED (
        SELECT c.* FROM cutter_governance.cut_change_set c
        WHERE c.document_id = p_document_id AND c.run_id <> p_exclude_run
    ), entries AS MATERIALIZED (
        SELECT e.* FROM cutter_governance.decision_backlog_entry e
        WHERE e.document_id = p_document_id AND e.run_id <> p_exclude_run
    ), units AS MATERIALIZED (
        SELECT u.* FROM iu_core.information_unit u
        WHERE u.source_document_id = v_document AND u.change_set_id IN (SELECT s.change_set_id FROM sets s)
    ), lines(tab, key, line) AS (
        SELECT 'iu_core.source_document', d.source_document_id::text, ROW(d.*)::text
        FROM iu_core.source_document d WHERE d.source_document_id = v_document
        UNION ALL
        SELECT 'iu_core.source_version', v.source_version_id::text, ROW(v.source_version_id, v.source_document_id,
            v.version_no, v.sha256, v.byte_length, v.manifest_digest, v.registered_by, v.registered_at)::text
        FROM iu_core.source_version v WHERE v.source_document_id = v_document
        UNION ALL
        SELECT 'iu_core.information_unit', u.unit_id::text, ROW(u.unit_id, u.change_set_id, u.document_id,
            u.source_document_id, u.source_version_id, u.ordinal, u.canonical_address, u.citation_address,
            u.unit_kind, u.section_type, u.content_hash, u.body_hash, u.idempotency_key, u.lifecycle_status,
            u.created_at)::text
        FROM units u
        UNION ALL
        SELECT 'iu_core.unit_version', v.version_id::text, ROW(v.version_id, v.unit_id, v.version_seq,
            v.content_hash, v.body_hash, v.actor, v.created_at)::text
        FROM units u JOIN iu_core.unit_version v ON v.unit_id = u.unit_id
        UNION ALL
        SELECT 'iu_core.unit_anchor', a.anchor_id::text, ROW(a.anchor_id, a.unit_id, a.change_set_id,
            a.source_version_id, a.source_bytes, a.start_byte, a.end_byte)::text
        FROM units u JOIN iu_core.unit_anchor a ON a.unit_id = u.unit_id
        UNION ALL
        SELECT 'iu_core.iu_lifecycle_log', l.unit_id || ' ' || l.to_status, ROW(l.unit_id, l.change_set_id,
            l.run_id, l.from_status, l.to_status, l.reason_id, l.reason, l.actor, l.at)::text
        FROM sets s JOIN iu_core.iu_lifecycle_log l ON l.change_set_id = s.change_set_id
        UNION ALL
        SELECT 'iu_core.iu_staging_record', r.staging_record_id::text, ROW(r.*)::text
        FROM iu_core.iu_staging_record r WHERE r.document_id = p_document_id
        UNION ALL
        SELECT 'iu_core.iu_staging_payload', p.staging_record_id::text,
            ROW(p.staging_record_id, encode(pg_catalog.sha256(p.content), 'hex'))::text
        FROM iu_core.iu_staging_record r JOIN iu_core.iu_staging_payload p USING (staging_record_id)
        WHERE r.document_id = p_document_id
        UNION ALL
        SELECT 'cutter_governance.cut_change_set', s.change_set_id::text, ROW(s.change_set_id, s.kind, s.live,
            s.run_id, s.document_id, s.source_document_id, s.source_version_id, s.source_bytes, s.entry_id,
            s.approval_id, s.review_decision_id, s.compensates_id, s.idempotency_key, s.writer_digest,
            s.manifest_digest, s.region_sha, s.publication_type, s.unit_count, s.actor, s.inserted_by, s.at)::text
        FROM sets s
        UNION ALL
        SELECT 'cutter_governance.change_set_void', v.void_id::text, ROW(v.*)::text
        FROM sets s JOIN cutter_governance.change_set_void v USING (change_set_id)
        UNION ALL
        SELECT 'cutter_governance.manifest_envelope', m.id::text, ROW(m.*)::text
        FROM sets s JOIN cutter_governance.manifest_envelope m USING (change_set_id)
        UNION ALL
        SELECT 'cutter_governance.dot_pair_signature', g.signature_id::text, ROW(g.*)::text
        FROM sets s JOIN cutter_governance.dot_pair_signature g USING (change_set_id)
        UNION ALL
        SELECT 'cutter_governance.verify_result', r.id::text, ROW(r.*)::text
        FROM sets s JOIN cutter_governance.verify_result r USING (change_set_id)
        UNION ALL
        SELECT 'cutter_governance.review_decision', r.id::text, ROW(r.*)::text
        FROM cutter_governance.review_decision r
        WHERE r.document_id = p_document_id AND r.run_id <> p_exclude_run
        UNION ALL
        SELECT 'cutter_governance.review_approval', a.approval_id::text, ROW(a.approval_id, a.review_decision_id,
            a.run_id, a.document_id, a.type, a.decision, a.approval_kb_id, a.sha256, a.nonce, a.fingerprint,
            a.actor, a.expires_at, a.request_sha256, a.inserted_by, a.at)::text
        FROM cutter_governance.review_approval a
        WHERE a.document_id = p_document_id AND a.run_id <> p_exclude_run
        UNION ALL
        SELECT 'cutter_governance.approval_use', p.approval_id::text, ROW(p.*)::text
        FROM cutter_governance.review_approval a JOIN cutter_governance.approval_use p USING (approval_id)
        WHERE a.document_id = p_document_id AND a.run_id <> p_exclude_run
        UNION ALL
        SELECT 'cutter_governance.decision_backlog_entry', e.entry_id::text, ROW(e.entry_id, e.run_id,
            e.document_id, e.source_document_id, e.source_version_id, e.status, e.idempotency_key, e.region_sha,
            e.manifest_digest, e.candidate_count, e.escalates_entry_id, e.actor, e.at)::text
        FROM entries e
        UNION ALL
        SELECT 'cutter_governance.decision_backlog_history', h.history_id::text, ROW(h.*)::text
        FROM entries e JOIN cutter_governance.decision_backlog_history h USING (entry_id)
        UNION ALL
        SELECT 'public.dot_config', c.config_key, ROW(c.config_key, c.config_value, c.description)::text
        FROM public.dot_config c WHERE starts_with(c.config_key, 'vocab.')
    )
    SELECT t.tab, count(l.key), cutter_governance.fn_sha256_text(
        coalesce(string_agg(l.line || E'\n', '' ORDER BY l.key COLLATE "C"), ''))
    FROM unnest(ARRAY['iu_core.source_document', 'iu_core.source_version', 'iu_core.information_unit',
        'iu_core.unit_version', 'iu_core.unit_anchor', 'iu_core.iu_lifecycle_log', 'iu_core.iu_staging_record',
        'iu_core.iu_staging_payload', 'cutter_governance.cut_change_set', 'cutter_governance.change_set_void',
        'cutter_governance.manifest_envelope', 'cutter_governance.dot_pair_signature',
        'cutter_governance.verify_result', 'cutter_governance.review_decision',
        'cutter_governance.review_approval', 'cutter_governance.approval_use',
        'cutter_governance.decision_backlog_entry', 'cutter_governance.decision_backlog_history',
        'public.dot_config']) AS t(tab)
    LEFT JOIN lines l ON l.tab = t.tab
    GROUP BY t.tab
    ORDER BY t.tab COLLATE "C";
END
$fn$;

-- base_state_sha: one line per table, `<table> <rows> <sha256>`.
CREATE FUNCTION cutter_governance.fn_base_state(p_document_id text, p_exclude_run text) RETURNS text
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $fn$
    SELECT cutter_governance.fn_sha256_text(string_agg(
        t.table_name || ' ' || t.row_count || ' ' || t.sha256 || E'\n', '' ORDER BY t.table_name COLLATE "C"))
    FROM cutter_governance.fn_base_state_tables(p_document_id, p_exclude_run) t
$fn$;

RESET ROLE;
