-- What a survey says of the catalogue is read once for each state of it, and not by every process anew.
SET ROLE cutter_owner;

CREATE TABLE cutter_governance.catalogue_reading (
    stamp       text COLLATE "C" PRIMARY KEY,
    readings    jsonb NOT NULL,
    recorded_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
COMMENT ON TABLE cutter_governance.catalogue_reading IS
    'What a survey reads of functions, triggers and grants, by the stamp of the catalogue that it was read from. '
    'db check reads anew and compares.';

-- Functions, triggers and grants as they are.
CREATE FUNCTION cutter_governance.fn_catalogue_readings()
RETURNS TABLE(dimension text, value text)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $fn$
BEGIN
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
END
$fn$;

-- Keeps the readings of the catalogue as it is now, and no older ones.
CREATE FUNCTION cutter_governance.fn_catalogue_keep()
RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $fn$
DECLARE
    v_stamp text := cutter_governance.fn_catalogue_stamp();
BEGIN
    IF EXISTS (SELECT FROM cutter_governance.catalogue_reading k WHERE k.stamp = v_stamp) THEN
        RETURN;
    END IF;
    -- who keeps at the same time is not waited for
    DELETE FROM cutter_governance.catalogue_reading k
    WHERE k.stamp IN (SELECT o.stamp FROM cutter_governance.catalogue_reading o FOR UPDATE SKIP LOCKED);
    INSERT INTO cutter_governance.catalogue_reading (stamp, readings)
    SELECT v_stamp, jsonb_object_agg(r.dimension, r.value) FROM cutter_governance.fn_catalogue_readings() r
    ON CONFLICT DO NOTHING;
END
$fn$;

-- As before, but for the readings that are kept.
CREATE OR REPLACE FUNCTION cutter_governance.fn_survey(p_document_id text, p_run_id text, p_entry_id uuid, p_review_decision_id uuid, p_known_stamp text DEFAULT NULL::text)
RETURNS TABLE(dimension text, value text)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan AS $fn$
DECLARE
    v_document uuid;
    v_readings jsonb;
    v_stamp text := cutter_governance.fn_catalogue_stamp();
BEGIN
    RETURN QUERY SELECT 'catalogue_stamp', v_stamp;
    IF v_stamp IS DISTINCT FROM p_known_stamp THEN
        SELECT k.readings INTO v_readings FROM cutter_governance.catalogue_reading k WHERE k.stamp = v_stamp;
        IF FOUND THEN
            RETURN QUERY SELECT e.key, e.value FROM jsonb_each_text(v_readings) e;
        ELSE
            RETURN QUERY SELECT r.dimension, r.value FROM cutter_governance.fn_catalogue_readings() r;
        END IF;
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

-- As before; whoever takes a run keeps the readings.
CREATE OR REPLACE FUNCTION cutter_governance.fn_run_fence_take(p_run_id text, p_document_id text, p_holder uuid)
RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $fn$
DECLARE
    v_epoch bigint;
    v_document text;
BEGIN
    BEGIN
        PERFORM FROM cutter_governance.run_fence f WHERE f.run_id = p_run_id FOR UPDATE NOWAIT;
    EXCEPTION WHEN lock_not_available THEN
        PERFORM pg_terminate_backend(a.pid)
        FROM pg_stat_activity a
        WHERE a.datname = current_database()
            AND a.pid <> pg_backend_pid()
            AND a.usename IN ('cutter_exec', 'cutter_verify', 'cutter_review')
            AND (starts_with(a.application_name, 'cutter/' || p_run_id || '/')
                OR (length(p_run_id) > 36
                    AND starts_with(a.application_name, 'cutter/' || right(p_run_id, 36) || '/')));
    END;
    INSERT INTO cutter_governance.run_fence AS f (run_id, document_id, epoch, holder, backend_pids)
    VALUES (p_run_id, p_document_id, 1, p_holder, ARRAY[pg_backend_pid()])
    ON CONFLICT (run_id) DO UPDATE SET epoch = f.epoch + 1, holder = EXCLUDED.holder,
        backend_pids = EXCLUDED.backend_pids, taken_at = clock_timestamp()
    RETURNING f.epoch, f.document_id INTO v_epoch, v_document;
    IF v_document <> p_document_id THEN
        RAISE EXCEPTION 'run % cuts %, not %', p_run_id, v_document, p_document_id USING ERRCODE = 'CUC03';
    END IF;
    PERFORM cutter_governance.fn_catalogue_keep();
    RETURN v_epoch;
END
$fn$;

INSERT INTO cutter_governance.grant_expectation (grantee, privilege, kind, object)
VALUES ('cutter_ro', 'SELECT', 'TABLE', 'cutter_governance.catalogue_reading'),
    ('cutter_ro', 'EXECUTE', 'FUNCTION', 'cutter_governance.fn_catalogue_readings');

SELECT cutter_meta.fn_grant_expected('^cutter_governance[.](catalogue_reading|fn_catalogue_readings)$');

RESET ROLE;
