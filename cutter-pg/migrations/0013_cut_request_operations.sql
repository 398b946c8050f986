-- The operations on cut requests (spec 5): each is idempotent and one transaction. First those that
-- take ids and time from their caller, then the specification's own functions, which wrap them.
GRANT CREATE ON SCHEMA public TO cutter_owner;
SET ROLE cutter_owner;

-- ADD. True if the request is new.
CREATE FUNCTION cutter_governance.fn_cut_request_new(
    p_cut_request_id uuid, p_source_ref text, p_source_kind text, p_requested_by text, p_at timestamptz)
RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $fn$
DECLARE
    v_standing public.cut_request;
    v_kind text := coalesce(p_source_kind, 'kb_document');
BEGIN
    SELECT q.* INTO v_standing FROM public.cut_request q WHERE q.cut_request_id = p_cut_request_id;
    IF NOT FOUND THEN
        IF coalesce(p_source_ref, '') !~ '\S' OR v_kind !~ '\S' OR coalesce(p_requested_by, '') !~ '\S' THEN
            RAISE EXCEPTION 'add.source_ref: expected true, observed false' USING ERRCODE = 'CUC10';
        END IF;
        INSERT INTO public.cut_request (cut_request_id, source_ref, source_kind, requested_by, requested_at)
        VALUES (p_cut_request_id, p_source_ref, v_kind, p_requested_by, p_at)
        ON CONFLICT (cut_request_id) DO NOTHING;
        IF FOUND THEN
            INSERT INTO public.cut_request_transition (cut_request_id, to_status, actor, occurred_at)
            VALUES (p_cut_request_id, 'requested', p_requested_by, p_at);
            PERFORM cutter_governance.fn_cut_request_notify('copy', p_cut_request_id, p_requested_by, NULL, p_at);
            RETURN true;
        END IF;
        SELECT q.* INTO v_standing FROM public.cut_request q WHERE q.cut_request_id = p_cut_request_id;
    END IF;
    IF (v_standing.source_ref, v_standing.source_kind, v_standing.requested_by)
        IS DISTINCT FROM (p_source_ref, v_kind, p_requested_by)
    THEN
        RAISE EXCEPTION 'add.same_request: expected % % by %, observed % % by %', v_standing.source_kind,
            v_standing.source_ref, v_standing.requested_by, v_kind, p_source_ref, p_requested_by
            USING ERRCODE = 'CUC10';
    END IF;
    RETURN false;
END
$fn$;

-- COPY. True if it is new.
CREATE FUNCTION cutter_governance.fn_cut_request_copied(
    p_cut_request_id uuid, p_staging_record_id uuid, p_content bytea, p_sha256 text, p_source_path text,
    p_actor text, p_at timestamptz)
RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $fn$
DECLARE
    v_request public.cut_request := cutter_governance.fn_cut_request_lock(p_cut_request_id);
    v_observed text := encode(sha256(p_content), 'hex');
BEGIN
    IF v_request.source_hash = p_sha256 AND v_observed = p_sha256 THEN
        RETURN false;
    END IF;
    PERFORM cutter_governance.fn_cut_request_assert(v_request.status, 'copied');
    IF octet_length(p_content) > 67108864 THEN
        RAISE EXCEPTION 'copy.size: expected 0 to 67108864, observed %', octet_length(p_content)
            USING ERRCODE = 'CUC10';
    END IF;
    IF v_observed IS DISTINCT FROM p_sha256 THEN
        RAISE EXCEPTION 'copy.source_hash: expected %, observed %', p_sha256, v_observed USING ERRCODE = 'CUC10';
    END IF;
    INSERT INTO iu_core.iu_staging_record (staging_record_id, record_kind, source_ref, sha256, byte_length,
        created_by, created_at, metadata)
    VALUES (p_staging_record_id, 'source_copy', v_request.source_ref, v_observed, octet_length(p_content),
        p_actor, p_at, jsonb_build_object('cut_request_id', p_cut_request_id));
    INSERT INTO iu_core.iu_staging_payload (staging_record_id, content) VALUES (p_staging_record_id, p_content);
    PERFORM cutter_governance.fn_cut_request_move(p_cut_request_id, v_request.status, 'copied',
        jsonb_build_object('source_hash', v_observed, 'source_bytes', octet_length(p_content),
            'source_path', p_source_path, 'copy_staging_record_id', p_staging_record_id),
        p_actor, jsonb_build_object('sha256', v_observed, 'staging_record_id', p_staging_record_id), p_at);
    PERFORM cutter_governance.fn_cut_request_notify('mark', p_cut_request_id, p_actor, NULL, p_at);
    RETURN true;
END
$fn$;

-- Stages a manifest, which is what `cutter plan --json` prints: of the staged copy, with units that
-- partition its region. Gives the units. Wrapped by MARK.
CREATE FUNCTION iu_core.fn_iu_op_mark_file(
    p_staging_record_id uuid, p_cut_request_id uuid, p_manifest text, p_manifest_digest text, p_actor text,
    p_at timestamptz)
RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $fn$
DECLARE
    v_request public.cut_request := cutter_governance.fn_cut_request_lock(p_cut_request_id);
    v_manifest jsonb := p_manifest;
    v_start bigint := v_manifest #>> '{region,start}';
    v_end bigint := v_manifest #>> '{region,end}';
    v_bytes bigint := v_manifest #>> '{document,bytes}';
    v_units bigint;
    v_last bigint;
    v_wrong bigint;
    v_partial boolean;
BEGIN
    IF v_start IS NULL OR v_end IS NULL OR v_bytes IS NULL OR v_manifest #>> '{document,sha256}' IS NULL
        OR v_manifest ->> 'manifest_digest' IS NULL OR jsonb_typeof(v_manifest -> 'units') IS DISTINCT FROM 'array'
    THEN
        RAISE EXCEPTION 'the manifest is not what `cutter plan FILE --document-id ID --json` prints'
            USING ERRCODE = 'CU003';
    END IF;
    IF (v_request.source_hash, v_request.source_bytes) IS DISTINCT FROM (v_manifest #>> '{document,sha256}', v_bytes) THEN
        RAISE EXCEPTION 'mark.source_hash: expected %, observed %',
            coalesce(v_request.source_hash || ', ' || v_request.source_bytes || ' bytes', 'absent'),
            (v_manifest #>> '{document,sha256}') || ', ' || v_bytes || ' bytes' USING ERRCODE = 'CUC10';
    END IF;
    IF p_manifest_digest IS DISTINCT FROM v_manifest ->> 'manifest_digest' OR p_manifest_digest !~ '^[0-9a-f]{64}$' THEN
        RAISE EXCEPTION 'mark.manifest_digest: expected %, observed %', p_manifest_digest,
            v_manifest ->> 'manifest_digest' USING ERRCODE = 'CUC10';
    END IF;
    SELECT count(*), max(s.stop) FILTER (WHERE s.n = s.last),
        min(s.n) FILTER (WHERE s.start IS DISTINCT FROM s.expected OR s.stop <= s.start OR s.stop IS NULL)
    INTO v_units, v_last, v_wrong
    FROM (
        SELECT u.n, (u.unit ->> 'start')::bigint AS start, (u.unit ->> 'end')::bigint AS stop, count(*) OVER () AS last,
            lag((u.unit ->> 'end')::bigint, 1, v_start) OVER (ORDER BY u.n) AS expected
        FROM jsonb_array_elements(v_manifest -> 'units') WITH ORDINALITY AS u(unit, n)
    ) s;
    v_partial := coalesce(v_last, v_start) <> v_end;
    IF v_wrong IS NOT NULL OR v_partial OR v_start < 0 OR v_start > v_end OR v_end > v_bytes THEN
        RAISE EXCEPTION 'mark.partition: expected a partition of the region, observed %', CASE
            WHEN v_start < 0 OR v_start > v_end OR v_end > v_bytes THEN 'region ' || v_start || '..' || v_end || ' of '
                || v_bytes || ' bytes'
            WHEN v_wrong IS NOT NULL THEN 'a gap or an overlap at unit ' || v_wrong - 1
            ELSE 'units to ' || coalesce(v_last, v_start) || ', region to ' || v_end END USING ERRCODE = 'CUC10';
    END IF;
    INSERT INTO iu_core.iu_staging_record (staging_record_id, record_kind, source_ref, sha256, byte_length,
        created_by, created_at, metadata)
    VALUES (p_staging_record_id, 'mark_manifest', v_request.source_ref,
        encode(sha256(convert_to(p_manifest, 'UTF8')), 'hex'), octet_length(convert_to(p_manifest, 'UTF8')), p_actor,
        p_at, jsonb_build_object('cut_request_id', p_cut_request_id, 'units', v_units));
    INSERT INTO iu_core.iu_staging_payload (staging_record_id, content)
    VALUES (p_staging_record_id, convert_to(p_manifest, 'UTF8'));
    RETURN v_units;
END
$fn$;

-- MARK. True if it is new.
CREATE FUNCTION cutter_governance.fn_cut_request_marked(
    p_cut_request_id uuid, p_staging_record_id uuid, p_manifest text, p_manifest_digest text, p_actor text,
    p_at timestamptz)
RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $fn$
DECLARE
    v_request public.cut_request := cutter_governance.fn_cut_request_lock(p_cut_request_id);
    v_units bigint;
BEGIN
    IF v_request.manifest_digest = p_manifest_digest
        AND NOT v_request.status IN ('copied', 'mark_in_progress', 'mark_rejected')
    THEN
        RETURN false;
    END IF;
    PERFORM cutter_governance.fn_cut_request_assert(v_request.status, 'mark_in_progress');
    v_units := iu_core.fn_iu_op_mark_file(p_staging_record_id, p_cut_request_id, p_manifest, p_manifest_digest,
        p_actor, p_at);
    PERFORM cutter_governance.fn_cut_request_move(p_cut_request_id, v_request.status, 'mark_in_progress', NULL,
        p_actor, NULL, p_at);
    PERFORM cutter_governance.fn_cut_request_move(p_cut_request_id, 'mark_in_progress', 'marked',
        jsonb_build_object('manifest_staging_record_id', p_staging_record_id, 'manifest_digest', p_manifest_digest),
        p_actor, jsonb_build_object('manifest_digest', p_manifest_digest, 'units', v_units,
            'staging_record_id', p_staging_record_id), p_at);
    PERFORM cutter_governance.fn_cut_request_notify('verify_mark', p_cut_request_id, p_actor, NULL, p_at);
    RETURN true;
END
$fn$;

-- What the reviewer's word does to the staged bytes: approved, or the mark's expire after fifteen
-- days. Wrapped by VERIFY_MARK.
CREATE FUNCTION iu_core.fn_iu_op_verify_mark(
    p_copy_staging_record_id uuid, p_manifest_staging_record_id uuid, p_approve boolean, p_at timestamptz)
RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $fn$
BEGIN
    IF p_approve THEN
        UPDATE iu_core.iu_staging_record r SET lifecycle_status = 'approved', approved_at = p_at
        WHERE r.staging_record_id IN (p_copy_staging_record_id, p_manifest_staging_record_id);
    ELSE
        UPDATE iu_core.iu_staging_record r SET lifecycle_status = 'expired', expires_at = p_at + interval '360 hours'
        WHERE r.staging_record_id = p_manifest_staging_record_id;
    END IF;
END
$fn$;

-- VERIFY_MARK. True if it is new.
CREATE FUNCTION cutter_governance.fn_cut_request_mark_decided(
    p_cut_request_id uuid, p_approve boolean, p_actor text, p_approval_doc_id text, p_reason text, p_at timestamptz)
RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $fn$
DECLARE
    v_request public.cut_request := cutter_governance.fn_cut_request_lock(p_cut_request_id);
    v_to text := CASE WHEN p_approve THEN 'mark_verified' WHEN NOT p_approve THEN 'mark_rejected' END;
BEGIN
    IF v_to IS NULL THEN
        RAISE EXCEPTION 'expected approve true or false, observed NULL' USING ERRCODE = 'CU003';
    END IF;
    IF v_request.mark_verdict = (CASE WHEN p_approve THEN 'approved' ELSE 'rejected' END)
        AND (p_approve OR v_request.status = 'mark_rejected')
    THEN
        RETURN false;
    END IF;
    PERFORM cutter_governance.fn_cut_request_assert(v_request.status, v_to);
    IF p_approve AND coalesce(p_approval_doc_id, '') !~ '\S' THEN
        RAISE EXCEPTION 'verify_mark.approval_doc: expected true, observed false' USING ERRCODE = 'CUC10';
    END IF;
    IF NOT p_approve AND coalesce(p_reason, '') !~ '\S' THEN
        RAISE EXCEPTION 'verify_mark.reason: expected true, observed false' USING ERRCODE = 'CUC10';
    END IF;
    PERFORM iu_core.fn_iu_op_verify_mark(v_request.copy_staging_record_id, v_request.manifest_staging_record_id,
        p_approve, p_at);
    PERFORM cutter_governance.fn_cut_request_move(p_cut_request_id, v_request.status, v_to,
        jsonb_build_object('mark_approval_doc_id', p_approval_doc_id), p_actor,
        jsonb_build_object('manifest_digest', v_request.manifest_digest, 'approval_doc_id', p_approval_doc_id,
            'reason', p_reason), p_at);
    IF NOT p_approve THEN
        PERFORM cutter_governance.fn_cut_request_notify('mark', p_cut_request_id, p_actor, NULL, p_at);
    END IF;
    RETURN true;
END
$fn$;

CREATE FUNCTION cutter_governance.fn_cut_request_assert_marked(p_request public.cut_request) RETURNS void
LANGUAGE plpgsql IMMUTABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $fn$
BEGIN
    IF p_request.mark_verdict IS DISTINCT FROM 'approved' OR p_request.source_hash IS NULL
        OR p_request.manifest_digest IS NULL
    THEN
        RAISE EXCEPTION 'cut.mark_verified: expected true, observed false' USING ERRCODE = 'CUC10';
    END IF;
END
$fn$;

-- Asks for the cut (D35): nothing moves until a worker starts the governed run. Wrapped by CUT.
CREATE FUNCTION iu_core.fn_iu_op_cut(p_cut_request_id uuid, p_dry_run boolean, p_actor text, p_at timestamptz)
RETURNS jsonb
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $fn$
DECLARE
    v_request public.cut_request := cutter_governance.fn_cut_request_lock(p_cut_request_id);
    v_signal text;
BEGIN
    IF v_request.cut_run_id IS NULL THEN
        PERFORM cutter_governance.fn_cut_request_assert(v_request.status, 'cut_in_progress');
        PERFORM cutter_governance.fn_cut_request_assert_marked(v_request);
        v_signal := 'cut';
        IF p_dry_run IS NOT TRUE THEN
            PERFORM cutter_governance.fn_cut_request_notify(v_signal, p_cut_request_id, p_actor, NULL, p_at);
        END IF;
    END IF;
    RETURN jsonb_build_object('cut_request_id', p_cut_request_id, 'status', v_request.status,
        'dry_run', p_dry_run IS TRUE, 'signal', v_signal, 'cut_run_id', v_request.cut_run_id,
        'source_hash', v_request.source_hash, 'manifest_digest', v_request.manifest_digest,
        'units', (SELECT (r.metadata ->> 'units')::bigint FROM iu_core.iu_staging_record r
                  WHERE r.staging_record_id = v_request.manifest_staging_record_id));
END
$fn$;

-- CUT: the governed run begins. True if it is new.
CREATE FUNCTION cutter_governance.fn_cut_request_start(
    p_cut_request_id uuid, p_run_id text, p_actor text, p_at timestamptz)
RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $fn$
DECLARE
    v_request public.cut_request := cutter_governance.fn_cut_request_lock(p_cut_request_id);
    v_run uuid := right(p_run_id, 36);
BEGIN
    IF v_request.cut_run_id = v_run THEN
        RETURN false;
    END IF;
    PERFORM cutter_governance.fn_cut_request_assert(v_request.status, 'cut_in_progress');
    PERFORM cutter_governance.fn_cut_request_assert_marked(v_request);
    IF EXISTS (SELECT FROM public.cut_request q WHERE q.cut_run_id = v_run) THEN
        RAISE EXCEPTION 'cut.run_free: expected true, observed false' USING ERRCODE = 'CUC10';
    END IF;
    UPDATE iu_core.iu_staging_record r SET lifecycle_status = 'consumed', consumed_at = p_at
    WHERE r.staging_record_id IN (v_request.copy_staging_record_id, v_request.manifest_staging_record_id);
    PERFORM cutter_governance.fn_cut_request_move(p_cut_request_id, v_request.status, 'cut_in_progress',
        jsonb_build_object('cut_run_id', v_run,
            'metadata', v_request.metadata || jsonb_build_object('run_id', p_run_id)),
        p_actor, jsonb_build_object('run_id', p_run_id), p_at);
    RETURN true;
END
$fn$;

-- Moves a request to where its run is; p_ended: why the run ended without a verdict.
CREATE FUNCTION cutter_governance.fn_cut_request_catch_up(
    p_cut_request_id uuid, p_ended text, p_actor text, p_at timestamptz)
RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $fn$
DECLARE
    v_request public.cut_request := cutter_governance.fn_cut_request_lock(p_cut_request_id);
BEGIN
    RETURN coalesce(cutter_governance.fn_cut_request_follow(v_request.cut_run_id, v_request.metadata ->> 'run_id',
        NULL, p_ended, p_actor, p_at), false);
END
$fn$;

-- The verdict on the request's cut, or NULL and the signal that a worker turns into the governed
-- verification. Wrapped by VERIFY_CUT.
CREATE FUNCTION iu_core.fn_iu_op_verify_cut(p_cut_request_id uuid, p_actor text, p_at timestamptz) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $fn$
DECLARE
    v_request public.cut_request := cutter_governance.fn_cut_request_lock(p_cut_request_id);
BEGIN
    IF v_request.cut_verdict IS NULL THEN
        IF NOT v_request.status = ANY (cutter_governance.fn_cut_signal_statuses('verify_cut')) THEN
            PERFORM cutter_governance.fn_cut_request_assert(v_request.status, 'cut_verified');
        END IF;
        PERFORM cutter_governance.fn_cut_request_notify('verify_cut', p_cut_request_id, p_actor, NULL, p_at);
    END IF;
    RETURN v_request.cut_verdict;
END
$fn$;

-- COMPLETE, once the run is enacted. True if it is new.
CREATE FUNCTION cutter_governance.fn_cut_request_completed(p_cut_request_id uuid, p_actor text, p_at timestamptz)
RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $fn$
DECLARE
    v_request public.cut_request := cutter_governance.fn_cut_request_lock(p_cut_request_id);
BEGIN
    IF v_request.completed_at IS NOT NULL THEN
        RETURN false;
    END IF;
    PERFORM cutter_governance.fn_cut_request_assert(v_request.status, 'completed');
    IF NOT EXISTS (SELECT FROM cutter_governance.run_effect e
                   WHERE e.run_id = v_request.metadata ->> 'run_id' AND e.effect = 'enact' AND e.verdict = 'commit')
    THEN
        RAISE EXCEPTION 'complete.enacted: expected true, observed false' USING ERRCODE = 'CUC10';
    END IF;
    UPDATE iu_core.iu_staging_record r SET lifecycle_status = 'consumed', expires_at = p_at + interval '360 hours'
    WHERE r.staging_record_id IN (v_request.copy_staging_record_id, v_request.manifest_staging_record_id);
    PERFORM cutter_governance.fn_cut_request_move(p_cut_request_id, v_request.status, 'completed', NULL, p_actor,
        jsonb_build_object('run_id', v_request.metadata ->> 'run_id'), p_at);
    PERFORM cutter_governance.fn_cut_request_move(p_cut_request_id, 'completed', 'cleanup_scheduled', NULL, p_actor,
        jsonb_build_object('cleanup_scheduled_at', p_at + interval '360 hours'), p_at);
    PERFORM cutter_governance.fn_cut_request_notify('cleanup', p_cut_request_id, p_actor, NULL, p_at);
    RETURN true;
END
$fn$;

-- Removes the bytes of these staging records, which stay as cleaned.
CREATE FUNCTION cutter_governance.fn_staging_clean(p_ids uuid[], p_at timestamptz, OUT records bigint, OUT bytes bigint)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $fn$
BEGIN
    UPDATE iu_core.iu_staging_record r SET lifecycle_status = 'cleaned', cleaned_at = p_at
    WHERE r.staging_record_id = ANY (p_ids);
    WITH gone AS (
        DELETE FROM iu_core.iu_staging_payload p WHERE p.staging_record_id = ANY (p_ids)
        RETURNING octet_length(p.content) AS length
    )
    SELECT count(*), coalesce(sum(g.length), 0) INTO records, bytes FROM gone g;
END
$fn$;

-- CLEANUP: one pass over what is due by p_now. One row per request, and one without for rejected marks.
CREATE FUNCTION public.fn_cut_cleanup(p_now timestamptz, p_limit integer, p_actor text)
RETURNS TABLE (cut_request_id uuid, records bigint, bytes bigint)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $fn$
DECLARE
    v_due record;
    v_expired uuid[];
BEGIN
    FOR v_due IN
        SELECT q.cut_request_id AS id, ARRAY[q.copy_staging_record_id, q.manifest_staging_record_id] AS staged
        FROM public.cut_request q
        WHERE q.status = 'cleanup_scheduled' AND q.cleanup_scheduled_at <= p_now
        ORDER BY q.cleanup_scheduled_at, q.cut_request_id LIMIT p_limit FOR UPDATE SKIP LOCKED
    LOOP
        cut_request_id := v_due.id;
        SELECT c.records, c.bytes INTO records, bytes FROM cutter_governance.fn_staging_clean(v_due.staged, p_now) c;
        PERFORM cutter_governance.fn_cut_request_move(v_due.id, 'cleanup_scheduled', 'cleaned', NULL, p_actor,
            jsonb_build_object('records', records, 'bytes', bytes), p_now);
        RETURN NEXT;
    END LOOP;
    v_expired := ARRAY(SELECT r.staging_record_id FROM iu_core.iu_staging_record r
        WHERE r.lifecycle_status = 'expired' AND r.expires_at <= p_now
        ORDER BY r.expires_at, r.staging_record_id LIMIT p_limit FOR UPDATE SKIP LOCKED);
    IF v_expired <> '{}' THEN
        cut_request_id := NULL;
        SELECT c.records, c.bytes INTO records, bytes FROM cutter_governance.fn_staging_clean(v_expired, p_now) c;
        RETURN NEXT;
    END IF;
END
$fn$;

-- The first bytes of a file of the server. Its owner may read files and nothing else; only
-- fn_cut_copy_to_staging calls it.
CREATE FUNCTION cutter_governance.fn_copy_read(p_path text, p_bytes bigint) RETURNS bytea
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $fn$
    SELECT pg_read_binary_file(p_path, 0, p_bytes)
$fn$;

-- The specification's functions.

-- Internal: any legal move with its log row. Nobody is granted it.
CREATE FUNCTION public.fn_cut_request_transition(p_cut_request_id uuid, p_to text, p_actor text, p_detail jsonb)
RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $fn$
DECLARE
    v_request public.cut_request := cutter_governance.fn_cut_request_lock(p_cut_request_id);
BEGIN
    PERFORM cutter_governance.fn_cut_request_move(p_cut_request_id, v_request.status, p_to, NULL, p_actor, p_detail, now());
END
$fn$;

-- Internal: a signal that fits the request's status; the payload holds ids.
CREATE FUNCTION public.fn_cut_request_signal(p_signal text, p_cut_request_id uuid, p_actor text, p_payload jsonb)
RETURNS uuid
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $fn$
    SELECT cutter_governance.fn_cut_request_notify(p_signal, p_cut_request_id, p_actor, p_payload, now())
$fn$;

CREATE FUNCTION public.fn_cut_request_add(p_source_ref text, p_source_kind text, p_requested_by text) RETURNS uuid
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $fn$
DECLARE
    v_id uuid := gen_random_uuid();
BEGIN
    PERFORM cutter_governance.fn_cut_request_new(v_id, p_source_ref, p_source_kind, p_requested_by, now());
    RETURN v_id;
END
$fn$;

-- The server copies a file of the owner's folder by itself; off until the owner sets one.
CREATE FUNCTION public.fn_cut_copy_to_staging(p_cut_request_id uuid, p_name text, p_actor text) RETURNS uuid
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $fn$
DECLARE
    v_request public.cut_request := cutter_governance.fn_cut_request_lock(p_cut_request_id);
    v_folder text;
    v_content bytea;
    v_id uuid := gen_random_uuid();
BEGIN
    IF v_request.source_path = p_name THEN
        RETURN v_request.copy_staging_record_id;
    END IF;
    PERFORM cutter_governance.fn_cut_request_assert(v_request.status, 'copied');
    SELECT rtrim(f.folder, '/') INTO v_folder FROM cutter_governance.copy_folder f;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'the server copies nothing: its owner set no folder; send the bytes'
            USING ERRCODE = 'CUD08', HINT = 'cutter request copy sends them.';
    END IF;
    IF p_name IS NULL OR p_name IN ('', '.', '..') OR p_name ~ '[/\\[:cntrl:]]' OR octet_length(p_name) > 255 THEN
        RAISE EXCEPTION 'expected the name of a file in the folder, without /, observed %', quote_nullable(p_name)
            USING ERRCODE = 'CU003';
    END IF;
    v_content := cutter_governance.fn_copy_read(v_folder || '/' || p_name, 67108865);
    PERFORM cutter_governance.fn_cut_request_copied(p_cut_request_id, v_id, v_content,
        encode(sha256(v_content), 'hex'), p_name, p_actor, now());
    RETURN v_id;
END
$fn$;

CREATE FUNCTION public.fn_cut_mark_staged_file(
    p_cut_request_id uuid, p_manifest jsonb, p_manifest_digest text, p_actor text)
RETURNS uuid
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $fn$
BEGIN
    PERFORM cutter_governance.fn_cut_request_marked(p_cut_request_id, gen_random_uuid(), p_manifest::text,
        p_manifest_digest, p_actor, now());
    RETURN (SELECT q.manifest_staging_record_id FROM public.cut_request q WHERE q.cut_request_id = p_cut_request_id);
END
$fn$;

-- Gives the status.
CREATE FUNCTION public.fn_cut_verify_mark(
    p_cut_request_id uuid, p_approve boolean, p_actor text, p_approval_doc_id text, p_reason text)
RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $fn$
BEGIN
    PERFORM cutter_governance.fn_cut_request_mark_decided(p_cut_request_id, p_approve, p_actor, p_approval_doc_id,
        p_reason, now());
    RETURN (SELECT q.status FROM public.cut_request q WHERE q.cut_request_id = p_cut_request_id);
END
$fn$;

CREATE FUNCTION public.fn_cut_apply(p_cut_request_id uuid, p_dry_run boolean, p_actor text) RETURNS jsonb
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $fn$
    SELECT iu_core.fn_iu_op_cut(p_cut_request_id, p_dry_run, p_actor, now())
$fn$;

CREATE FUNCTION public.fn_cut_verify_cut(p_cut_request_id uuid, p_actor text) RETURNS text
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $fn$
    SELECT iu_core.fn_iu_op_verify_cut(p_cut_request_id, p_actor, now())
$fn$;

-- Gives the day on which the staged bytes go.
CREATE FUNCTION public.fn_cut_complete(p_cut_request_id uuid, p_actor text) RETURNS timestamptz
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $fn$
BEGIN
    PERFORM cutter_governance.fn_cut_request_completed(p_cut_request_id, p_actor, now());
    RETURN (SELECT q.cleanup_scheduled_at FROM public.cut_request q WHERE q.cut_request_id = p_cut_request_id);
END
$fn$;

CREATE VIEW public.v_cut_requests_by_status AS
    SELECT q.status, count(*) AS requests FROM public.cut_request q GROUP BY q.status;
CREATE VIEW public.v_cut_request_ready_to_mark AS
    SELECT q.* FROM public.cut_request q WHERE q.status = 'copied';
CREATE VIEW public.v_cut_request_ready_to_cut AS
    SELECT q.* FROM public.cut_request q WHERE q.status = 'mark_verified';
CREATE VIEW public.v_cut_request_ready_to_verify_cut AS
    SELECT q.* FROM public.cut_request q WHERE q.status = 'cut_done';
COMMENT ON VIEW public.v_cut_requests_by_status IS 'How many requests stand where.';
COMMENT ON VIEW public.v_cut_request_ready_to_mark IS 'Copied, to be marked.';
COMMENT ON VIEW public.v_cut_request_ready_to_cut IS 'With an approved mark, to be cut.';
COMMENT ON VIEW public.v_cut_request_ready_to_verify_cut IS 'Cut, to be verified.';

RESET ROLE;
REVOKE CREATE ON SCHEMA public FROM cutter_owner;

-- The reading function changes hands; its owner may create nothing afterwards.
DO $do$
BEGIN
    IF NOT (SELECT r.rolsuper FROM pg_roles r WHERE r.rolname = current_user)
        AND NOT pg_has_role('cutter_copy', 'MEMBER')
    THEN
        GRANT cutter_copy TO CURRENT_USER;
    END IF;
END
$do$;
GRANT CREATE ON SCHEMA cutter_governance TO cutter_copy;
ALTER FUNCTION cutter_governance.fn_copy_read(text, bigint) OWNER TO cutter_copy;
REVOKE CREATE ON SCHEMA cutter_governance FROM cutter_copy;
REVOKE ALL ON FUNCTION cutter_governance.fn_copy_read(text, bigint) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION cutter_governance.fn_copy_read(text, bigint) TO cutter_owner;
