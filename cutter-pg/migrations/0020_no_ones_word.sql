-- No function decides by its caller's word: a cut request moves only where the rows of its run say
-- so, a reviewer's move stands beside its decision, and what is due is judged by the server's clock.
-- `at` stays the caller's, so that a redo writes the same rows; recorded_at is the server's.
GRANT CREATE ON SCHEMA public TO cutter_owner;
SET ROLE cutter_owner;

-- Runs that are over without a verdict and without a void: what the executor's login says once of a
-- run that a request names, and what binds it from then on.
CREATE TABLE cutter_governance.run_ended (
    run_id      text COLLATE "C" PRIMARY KEY CHECK (run_id ~ '^[A-Za-z0-9-]{1,128}$'),
    reason      text NOT NULL CHECK (reason ~ '\S' AND octet_length(reason) <= 4096),
    actor       text NOT NULL,
    at          timestamptz NOT NULL,
    recorded_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    inserted_by name NOT NULL DEFAULT session_user
);
COMMENT ON TABLE cutter_governance.run_ended IS
    'Runs that ended for good, by the word of whoever drove them: nothing but their void is recorded of them any more.';
CREATE TRIGGER trg_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON cutter_governance.run_ended
    FOR EACH STATEMENT EXECUTE FUNCTION cutter_governance.fn_append_only();

-- The server's clock, beside what the mover said. NULL: moved before it was recorded.
ALTER TABLE public.cut_request_transition ADD COLUMN recorded_at timestamptz;
ALTER TABLE public.cut_request_transition ALTER COLUMN recorded_at SET DEFAULT clock_timestamp();

-- The request that names this run, both by its id and in full, locked; else a row of NULLs.
CREATE FUNCTION cutter_governance.fn_cut_request_of_run(p_run_id text) RETURNS public.cut_request
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $fn$
DECLARE
    v_request public.cut_request;
BEGIN
    IF right(p_run_id, 36) ~ '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$' THEN
        SELECT q.* INTO v_request FROM public.cut_request q
        WHERE q.cut_run_id = right(p_run_id, 36)::uuid AND q.metadata ->> 'run_id' = p_run_id FOR UPDATE;
    END IF;
    RETURN v_request;
END
$fn$;

-- What a run marked or cut is what was marked and approved for its request: text, manifest, document.
-- A run that has stored neither yet is compared when it stores them, in that transaction.
CREATE FUNCTION cutter_governance.fn_cut_request_assert_run(p_request public.cut_request, p_run_id text)
RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $fn$
DECLARE
    v_run record;
    -- Named by what `cutter plan` prints; by its digest alone otherwise.
    v_document text;
BEGIN
    FOR v_run IN
        SELECT m.document_id, m.manifest_digest, v.sha256
        FROM (
            SELECT e.document_id, e.source_version_id, e.manifest_digest
            FROM cutter_governance.decision_backlog_entry e
            WHERE e.run_id = p_run_id AND e.escalates_entry_id IS NULL
            UNION
            SELECT c.document_id, c.source_version_id, c.manifest_digest
            FROM cutter_governance.cut_change_set c WHERE c.run_id = p_run_id AND c.kind = 'cut'
        ) m
        JOIN iu_core.source_version v ON v.source_version_id = m.source_version_id
    LOOP
        IF v_run.sha256 IS DISTINCT FROM p_request.source_hash THEN
            RAISE EXCEPTION 'cut.source_hash: expected %, observed % of run %', p_request.source_hash, v_run.sha256,
                p_run_id USING ERRCODE = 'CUC10';
        END IF;
        IF v_run.manifest_digest IS DISTINCT FROM p_request.manifest_digest THEN
            RAISE EXCEPTION 'cut.manifest_digest: expected %, observed % of run %', p_request.manifest_digest,
                v_run.manifest_digest, p_run_id USING ERRCODE = 'CUC10';
        END IF;
        SELECT convert_from(p.content, 'UTF8')::jsonb #>> '{settings,document_id}' INTO v_document
        FROM iu_core.iu_staging_payload p WHERE p.staging_record_id = p_request.manifest_staging_record_id;
        IF v_run.document_id <> v_document THEN
            RAISE EXCEPTION 'cut.document_id: expected %, observed % of run %', v_document, v_run.document_id,
                p_run_id USING ERRCODE = 'CUC10';
        END IF;
    END LOOP;
END
$fn$;

-- A request goes where the rows of its run are: `cut_done` by its leg A, `cut_verified` by its passed
-- verification, `cut_failed` by a failed one, by its void, or by its end. Called by what stores those
-- rows, in their transaction; nobody is granted it. p_effect: the effect that is being stored, which
-- must find its request on the way; NULL: whatever the rows say. NULL where no request names the run.
DROP FUNCTION cutter_governance.fn_cut_request_follow(uuid, text, text, text, text, timestamptz);
CREATE FUNCTION cutter_governance.fn_cut_request_follow(
    p_run_id text, p_effect text, p_actor text, p_at timestamptz)
RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $fn$
DECLARE
    v_request public.cut_request := cutter_governance.fn_cut_request_of_run(p_run_id);
    v_cut uuid;
    v_passed boolean;
    v_is_voided boolean;
    v_ended text;
    v_to text;
    v_moved boolean := false;
BEGIN
    IF v_request.cut_request_id IS NULL THEN
        RETURN NULL;
    END IF;
    PERFORM cutter_governance.fn_cut_request_assert_run(v_request, p_run_id);
    SELECT c.change_set_id, r.passed INTO v_cut, v_passed
    FROM cutter_governance.run_effect a
    JOIN cutter_governance.approval_use u ON u.effect_id = a.effect_id AND u.run_id = a.run_id
    JOIN cutter_governance.cut_change_set c ON c.run_id = a.run_id AND c.kind = 'cut' AND c.approval_id = u.approval_id
    LEFT JOIN cutter_governance.run_effect w ON w.run_id = a.run_id AND w.effect = 'write_verify'
    LEFT JOIN cutter_governance.verify_result r ON r.change_set_id = c.change_set_id
        AND r.passed = (w.verdict = 'commit')
    WHERE a.run_id = p_run_id AND a.effect = 'leg_a' AND a.verdict = 'commit';
    v_is_voided := EXISTS (
        SELECT FROM cutter_governance.run_effect e
        JOIN cutter_governance.approval_use u ON u.effect_id = e.effect_id AND u.run_id = e.run_id
        JOIN cutter_governance.review_approval a USING (approval_id)
        WHERE e.run_id = p_run_id AND e.effect = 'void' AND e.verdict = 'commit' AND a.decision = 'approve');
    SELECT e.reason INTO v_ended FROM cutter_governance.run_ended e WHERE e.run_id = p_run_id;
    LOOP
        v_to := CASE
            WHEN v_request.status = 'cut_in_progress' AND v_cut IS NOT NULL THEN 'cut_done'
            WHEN v_request.status = 'cut_done' AND v_passed THEN 'cut_verified'
            WHEN v_request.status = 'cut_done' AND v_passed IS NOT NULL
                OR v_request.status IN ('cut_in_progress', 'cut_done') AND (v_is_voided OR v_ended IS NOT NULL)
                THEN 'cut_failed' END;
        EXIT WHEN v_to IS NULL;
        PERFORM cutter_governance.fn_cut_request_move(v_request.cut_request_id, v_request.status, v_to, NULL, p_actor,
            jsonb_build_object('run_id', p_run_id, 'effect', p_effect, 'change_set_id', v_cut,
                'reason', CASE WHEN v_to = 'cut_failed' THEN v_ended END), p_at);
        v_request.status := v_to;
        v_moved := true;
    END LOOP;
    IF NOT v_moved AND p_effect IN ('leg_a', 'write_verify') THEN
        PERFORM cutter_governance.fn_cut_request_assert(v_request.status, CASE WHEN p_effect = 'leg_a' THEN 'cut_done'
            WHEN v_passed THEN 'cut_verified' ELSE 'cut_failed' END);
    END IF;
    RETURN v_moved;
END
$fn$;

-- Moves a request to where its run is, by the rows that stand.
DROP FUNCTION cutter_governance.fn_cut_request_catch_up(uuid, text, text, timestamptz);
CREATE FUNCTION cutter_governance.fn_cut_request_catch_up(p_cut_request_id uuid, p_actor text, p_at timestamptz)
RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $fn$
DECLARE
    v_request public.cut_request := cutter_governance.fn_cut_request_lock(p_cut_request_id);
BEGIN
    RETURN coalesce(cutter_governance.fn_cut_request_follow(v_request.metadata ->> 'run_id', NULL, p_actor, p_at),
        false);
END
$fn$;

-- The run of a request is over, and its rows do not say so: records it and moves the request. It is a
-- promise that the database holds its login to: no effect of the run but its void is stored any more.
-- Where the rows say more, they are followed and nothing is recorded. True if the request moved.
CREATE FUNCTION cutter_governance.fn_cut_request_run_ended(
    p_cut_request_id uuid, p_reason text, p_actor text, p_at timestamptz)
RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $fn$
DECLARE
    v_run text := (SELECT q.metadata ->> 'run_id' FROM public.cut_request q WHERE q.cut_request_id = p_cut_request_id);
    v_status text;
    v_moved boolean;
BEGIN
    -- Behind a transaction of the run that is under way, whose effect then counts.
    PERFORM FROM cutter_governance.run_fence f WHERE f.run_id = v_run FOR UPDATE;
    v_moved := cutter_governance.fn_cut_request_catch_up(p_cut_request_id, p_actor, p_at);
    SELECT q.status INTO v_status FROM public.cut_request q WHERE q.cut_request_id = p_cut_request_id;
    IF v_run IS NULL OR NOT v_status IN ('cut_in_progress', 'cut_done') THEN
        RETURN v_moved;
    END IF;
    INSERT INTO cutter_governance.run_ended (run_id, reason, actor, at) VALUES (v_run, p_reason, p_actor, p_at);
    RETURN cutter_governance.fn_cut_request_catch_up(p_cut_request_id, p_actor, p_at);
END
$fn$;

-- CUT: the governed run begins. True if it is new. What the run has stored already is compared now.
CREATE OR REPLACE FUNCTION cutter_governance.fn_cut_request_start(
    p_cut_request_id uuid, p_run_id text, p_actor text, p_at timestamptz)
RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $fn$
DECLARE
    v_request public.cut_request := cutter_governance.fn_cut_request_lock(p_cut_request_id);
    v_run uuid;
BEGIN
    IF coalesce(p_run_id, '') !~ '^ictr-[0-9]{8}T[0-9]{6}Z-[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$'
    THEN
        RAISE EXCEPTION 'expected the id of a run, ictr-<YYYYMMDDTHHMMSSZ>-<uuid version 7>, observed %',
            quote_nullable(p_run_id) USING ERRCODE = 'CU003';
    END IF;
    v_run := right(p_run_id, 36);
    IF v_request.cut_run_id = v_run AND v_request.metadata ->> 'run_id' = p_run_id THEN
        RETURN false;
    END IF;
    PERFORM cutter_governance.fn_cut_request_assert(v_request.status, 'cut_in_progress');
    PERFORM cutter_governance.fn_cut_request_assert_marked(v_request);
    IF EXISTS (SELECT FROM public.cut_request q WHERE q.cut_run_id = v_run) THEN
        RAISE EXCEPTION 'cut.run_free: expected true, observed false' USING ERRCODE = 'CUC10';
    END IF;
    -- Not past a transaction of the run that marks or cuts meanwhile: it does not see this request yet.
    PERFORM FROM cutter_governance.run_fence f WHERE f.run_id = p_run_id FOR UPDATE;
    PERFORM cutter_governance.fn_cut_request_assert_run(v_request, p_run_id);
    UPDATE iu_core.iu_staging_record r SET lifecycle_status = 'consumed', consumed_at = p_at
    WHERE r.staging_record_id IN (v_request.copy_staging_record_id, v_request.manifest_staging_record_id);
    PERFORM cutter_governance.fn_cut_request_move(p_cut_request_id, v_request.status, 'cut_in_progress',
        jsonb_build_object('cut_run_id', v_run,
            'metadata', v_request.metadata || jsonb_build_object('run_id', p_run_id)),
        p_actor, jsonb_build_object('run_id', p_run_id), p_at);
    RETURN true;
END
$fn$;

-- COMPLETE, once the run is enacted: its effect says so, and every unit of its cut is in force. True if
-- it is new.
CREATE OR REPLACE FUNCTION cutter_governance.fn_cut_request_completed(
    p_cut_request_id uuid, p_actor text, p_at timestamptz)
RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $fn$
DECLARE
    v_request public.cut_request := cutter_governance.fn_cut_request_lock(p_cut_request_id);
    v_run text := v_request.metadata ->> 'run_id';
BEGIN
    IF v_request.completed_at IS NOT NULL THEN
        RETURN false;
    END IF;
    PERFORM cutter_governance.fn_cut_request_assert(v_request.status, 'completed');
    IF cutter_governance.fn_effect_stands(v_run, 'enact', 'commit') IS NOT TRUE OR NOT EXISTS (
        SELECT FROM cutter_governance.run_effect e
        WHERE e.run_id = v_run AND e.effect = 'enact' AND e.verdict = 'commit')
    THEN
        RAISE EXCEPTION 'complete.enacted: expected true, observed false' USING ERRCODE = 'CUC10';
    END IF;
    UPDATE iu_core.iu_staging_record r SET lifecycle_status = 'consumed', expires_at = p_at + interval '360 hours'
    WHERE r.staging_record_id IN (v_request.copy_staging_record_id, v_request.manifest_staging_record_id);
    PERFORM cutter_governance.fn_cut_request_move(p_cut_request_id, v_request.status, 'completed', NULL, p_actor,
        jsonb_build_object('run_id', v_run), p_at);
    PERFORM cutter_governance.fn_cut_request_move(p_cut_request_id, 'completed', 'cleanup_scheduled', NULL, p_actor,
        jsonb_build_object('cleanup_scheduled_at', p_at + interval '360 hours'), p_at);
    PERFORM cutter_governance.fn_cut_request_notify('cleanup', p_cut_request_id, p_actor, NULL, p_at);
    RETURN true;
END
$fn$;

-- Whether the rows that an effect writes are there: no effect is recorded without them.
CREATE FUNCTION cutter_governance.fn_effect_stands(p_run_id text, p_effect text, p_verdict text) RETURNS boolean
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $fn$
    SELECT CASE p_effect
        WHEN 'mark' THEN EXISTS (SELECT FROM cutter_governance.decision_backlog_entry e WHERE e.run_id = p_run_id)
        WHEN 'sweep' THEN EXISTS (
            SELECT FROM cutter_governance.decision_backlog_sweep_log s
            JOIN cutter_governance.decision_backlog_entry e ON e.document_id = s.document_id
            WHERE e.run_id = p_run_id AND s.run_id = p_run_id)
        WHEN 'sg1_review' THEN EXISTS (
            SELECT FROM cutter_governance.review_decision d JOIN cutter_governance.review_approval a
                ON a.review_decision_id = d.id AND a.decision = d.decision
            WHERE d.run_id = p_run_id AND d.type = 'cut_authorization')
        WHEN 'leg_a' THEN EXISTS (
            SELECT FROM cutter_governance.cut_change_set c WHERE c.run_id = p_run_id AND c.kind = 'cut')
        WHEN 'leg_b' THEN EXISTS (SELECT FROM cutter_governance.manifest_envelope m WHERE m.run_id = p_run_id)
        WHEN 'write_verify' THEN EXISTS (
            SELECT FROM cutter_governance.cut_change_set c JOIN cutter_governance.verify_result r USING (change_set_id)
            WHERE c.run_id = p_run_id AND r.run_id = p_run_id AND r.passed = (p_verdict = 'commit'))
        WHEN 'sg2_request' THEN EXISTS (
            SELECT FROM cutter_governance.review_decision d
            WHERE d.run_id = p_run_id AND d.type = 'lifecycle_enactment')
        WHEN 'sg2_review' THEN EXISTS (
            SELECT FROM cutter_governance.review_approval a
            WHERE a.run_id = p_run_id AND a.type = 'lifecycle_enactment')
        WHEN 'enact' THEN EXISTS (
            SELECT FROM cutter_governance.cut_change_set c
            WHERE c.run_id = p_run_id AND c.kind = 'cut' AND c.live
                AND EXISTS (SELECT FROM iu_core.information_unit u WHERE u.change_set_id = c.change_set_id)
                AND NOT EXISTS (SELECT FROM iu_core.information_unit u
                                WHERE u.change_set_id = c.change_set_id AND u.lifecycle_status <> 'enacted'))
        WHEN 'sg3_review' THEN EXISTS (
            SELECT FROM cutter_governance.review_approval a
            WHERE a.run_id = p_run_id AND a.type IN ('stop_resume', 'drift_ack', 'void'))
        -- its approval is asked for below
        WHEN 'void' THEN true
        ELSE false END
$fn$;

-- Stores an effect's row, for the holder of the run's fence alone, and moves the request that names the
-- run. Each login stores its own effects only, beside the rows that they are; one that needs a human's
-- consent is not stored without an approval that says so and is used here.
DROP FUNCTION cutter_governance.fn_run_effect_record(text, text, integer, uuid, bigint, text, text, text, timestamptz,
    text);
CREATE FUNCTION cutter_governance.fn_run_effect_record(
    p_run_id text, p_effect text, p_occurrence integer, p_effect_id uuid, p_fence_epoch bigint, p_holder uuid,
    p_payload_sha256 text, p_verdict text, p_facts text, p_actor text, p_at timestamptz, p_document_id text)
RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $fn$
DECLARE
    v_login name := CASE
        WHEN p_effect IN ('sg1_review', 'sg2_review', 'sg3_review') THEN 'cutter_review'
        WHEN p_effect = 'write_verify' THEN 'cutter_verify'
        ELSE 'cutter_exec' END;
    v_ended text;
BEGIN
    IF session_user <> v_login THEN
        RAISE EXCEPTION 'effect % is stored by %, not by %', p_effect, v_login, session_user USING ERRCODE = 'CUD01';
    END IF;
    PERFORM cutter_governance.fn_run_fence_assert(p_run_id, p_fence_epoch, p_holder);
    IF NOT EXISTS (SELECT FROM cutter_governance.run_fence f
                   WHERE f.run_id = p_run_id AND f.document_id = p_document_id) THEN
        RAISE EXCEPTION 'run % does not cut %', p_run_id, p_document_id USING ERRCODE = 'CUC03';
    END IF;
    SELECT e.reason INTO v_ended FROM cutter_governance.run_ended e WHERE e.run_id = p_run_id;
    IF FOUND AND NOT p_effect IN ('sg3_review', 'void') THEN
        RAISE EXCEPTION 'run % is over (%): no % of it is stored any more', p_run_id, v_ended, p_effect
            USING ERRCODE = 'CUC20';
    END IF;
    IF p_effect IN ('leg_a', 'enact', 'void') AND NOT EXISTS (
        SELECT FROM cutter_governance.approval_use u
        JOIN cutter_governance.review_approval a USING (approval_id)
        WHERE u.effect_id = p_effect_id AND u.effect = p_effect AND u.run_id = p_run_id
            AND a.decision = 'approve')
    THEN
        RAISE EXCEPTION 'effect % of run % relies on no approval', p_effect, p_run_id USING ERRCODE = 'CUD02';
    END IF;
    IF cutter_governance.fn_effect_stands(p_run_id, p_effect, p_verdict) IS NOT TRUE THEN
        RAISE EXCEPTION 'effect % of run % has written nothing', p_effect, p_run_id USING ERRCODE = 'CUD02';
    END IF;
    INSERT INTO cutter_governance.run_effect (run_id, effect, occurrence, effect_id, fence_epoch,
        payload_sha256, verdict, facts, at, document_id)
    VALUES (p_run_id, p_effect, p_occurrence, p_effect_id, p_fence_epoch,
        p_payload_sha256, p_verdict, p_facts::jsonb, p_at, p_document_id);
    IF p_effect IN ('mark', 'leg_a', 'write_verify', 'void') THEN
        PERFORM cutter_governance.fn_cut_request_follow(p_run_id, p_effect, p_actor, p_at);
    END IF;
END
$fn$;

-- An approval that has run out by the server's clock is used by nothing, whatever clock its user has.
CREATE OR REPLACE FUNCTION cutter_governance.fn_approval_use(
    p_approval_id uuid, p_run_id text, p_effect text, p_effect_id uuid, p_at timestamptz)
RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $fn$
BEGIN
    INSERT INTO cutter_governance.approval_use (approval_id, run_id, effect, effect_id, at)
    SELECT a.approval_id, p_run_id, p_effect, p_effect_id, p_at
    FROM cutter_governance.review_approval a
    WHERE a.approval_id = p_approval_id AND a.run_id = p_run_id
        AND a.type = CASE p_effect WHEN 'leg_a' THEN 'cut_authorization'
            WHEN 'enact' THEN 'lifecycle_enactment' WHEN 'void' THEN 'void' END
        AND (a.expires_at IS NULL OR a.expires_at > clock_timestamp())
    ON CONFLICT (approval_id) DO NOTHING;
    RETURN FOUND;
END
$fn$;

-- What a reviewer decided stands beside the move that it made: each history row into a reviewed status
-- has a decision of its own, of the same instant, and an approval its consent.
CREATE FUNCTION cutter_governance.fn_backlog_decided() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $fn$
BEGIN
    IF (SELECT count(*) FROM cutter_governance.review_decision d
        WHERE d.entry_id = NEW.entry_id AND d.at = NEW.at AND CASE
            WHEN d.type = 'cut_authorization' THEN d.decision = ANY (CASE NEW.to_state
                WHEN 'reviewed_approved' THEN ARRAY['approve'] WHEN 'reviewed_rejected' THEN ARRAY['reject']
                ELSE ARRAY['defer', 'reject'] END)
            ELSE NEW.to_state = 'reviewed_deferred' AND d.type <> 'lifecycle_enactment' END)
        < (SELECT count(*) FROM cutter_governance.decision_backlog_history h
           WHERE h.entry_id = NEW.entry_id AND h.at = NEW.at AND h.to_state = NEW.to_state)
    THEN
        RAISE EXCEPTION 'review.decision: entry % became % without a decision of its own', NEW.entry_id, NEW.to_state
            USING ERRCODE = 'CUC10';
    END IF;
    RETURN NULL;
END
$fn$;
CREATE CONSTRAINT TRIGGER trg_backlog_decided AFTER INSERT ON cutter_governance.decision_backlog_history
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
    WHEN (NEW.to_state IN ('reviewed_approved', 'reviewed_deferred', 'reviewed_rejected'))
    EXECUTE FUNCTION cutter_governance.fn_backlog_decided();

-- Staged bytes that are due by a time: those of a request once fifteen days have passed since it was
-- completed, a rejected mark's since it was rejected, by what was said and by the server's clock. One
-- row per request, and one without for each rejected mark.
CREATE FUNCTION public.fn_cut_cleanup_due(p_by timestamptz, p_limit integer)
RETURNS TABLE (cut_request_id uuid, staged uuid[], due_at timestamptz)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $fn$
    (SELECT q.cut_request_id, array_remove(ARRAY[q.copy_staging_record_id, q.manifest_staging_record_id], NULL), d.at
    FROM public.cut_request q
    CROSS JOIN LATERAL (
        SELECT greatest(q.cleanup_scheduled_at, max(t.recorded_at) + interval '360 hours') AS at
        FROM public.cut_request_transition t
        WHERE t.cut_request_id = q.cut_request_id AND t.to_status = 'cleanup_scheduled'
    ) d
    WHERE q.status = 'cleanup_scheduled' AND q.cleanup_scheduled_at <= p_by AND d.at <= p_by
    ORDER BY q.cleanup_scheduled_at, q.cut_request_id LIMIT p_limit)
    UNION ALL
    (SELECT NULL, ARRAY[r.staging_record_id], d.at
    FROM iu_core.iu_staging_record r
    CROSS JOIN LATERAL (
        SELECT greatest(r.expires_at, max(t.recorded_at) + interval '360 hours') AS at
        FROM public.cut_request_transition t
        WHERE t.cut_request_id = (r.metadata ->> 'cut_request_id')::uuid AND t.to_status = 'mark_rejected'
    ) d
    WHERE r.lifecycle_status = 'expired' AND r.expires_at <= p_by AND d.at <= p_by
    ORDER BY r.expires_at, r.staging_record_id LIMIT p_limit)
$fn$;

-- CLEANUP: one pass over what is due now. One row per request, and one without for rejected marks.
DROP FUNCTION public.fn_cut_cleanup(timestamptz, integer, text);
CREATE FUNCTION public.fn_cut_cleanup(p_limit integer, p_actor text)
RETURNS TABLE (cut_request_id uuid, records bigint, bytes bigint)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $fn$
DECLARE
    v_now timestamptz := clock_timestamp();
    v_due record;
    v_expired uuid[] := '{}';
BEGIN
    FOR v_due IN SELECT d.cut_request_id AS id, d.staged FROM public.fn_cut_cleanup_due(v_now, p_limit) d LOOP
        IF v_due.id IS NULL THEN
            PERFORM FROM iu_core.iu_staging_record r
            WHERE r.staging_record_id = ANY (v_due.staged) AND r.lifecycle_status = 'expired' FOR UPDATE SKIP LOCKED;
            IF FOUND THEN
                v_expired := v_expired || v_due.staged;
            END IF;
            CONTINUE;
        END IF;
        -- Another pass has it, or had it.
        PERFORM FROM public.cut_request q
        WHERE q.cut_request_id = v_due.id AND q.status = 'cleanup_scheduled' FOR UPDATE SKIP LOCKED;
        CONTINUE WHEN NOT FOUND;
        cut_request_id := v_due.id;
        SELECT c.records, c.bytes INTO records, bytes FROM cutter_governance.fn_staging_clean(v_due.staged, v_now) c;
        PERFORM cutter_governance.fn_cut_request_move(v_due.id, 'cleanup_scheduled', 'cleaned', NULL, p_actor,
            jsonb_build_object('records', records, 'bytes', bytes), v_now);
        RETURN NEXT;
    END LOOP;
    IF v_expired <> '{}' THEN
        cut_request_id := NULL;
        SELECT c.records, c.bytes INTO records, bytes FROM cutter_governance.fn_staging_clean(v_expired, v_now) c;
        RETURN NEXT;
    END IF;
END
$fn$;

DELETE FROM cutter_governance.grant_expectation WHERE object = 'cutter_governance.fn_cut_request_follow';
INSERT INTO cutter_governance.grant_expectation (grantee, privilege, kind, object)
VALUES ('cutter_exec', 'EXECUTE', 'FUNCTION', 'cutter_governance.fn_cut_request_run_ended');
INSERT INTO cutter_governance.grant_expectation (grantee, privilege, kind, object)
SELECT g.grantee, v.privilege, v.kind, v.object
FROM unnest(ARRAY['cutter_exec', 'cutter_ro']) AS g(grantee),
    (VALUES ('EXECUTE', 'FUNCTION', 'public.fn_cut_cleanup_due')) AS v(privilege, kind, object);
INSERT INTO cutter_governance.grant_expectation (grantee, privilege, kind, object)
SELECT g.grantee, 'SELECT', 'TABLE', 'cutter_governance.run_ended'
FROM unnest(ARRAY['cutter_exec', 'cutter_verify', 'cutter_ro']) AS g(grantee);
-- The ones that a reader of a report wants to see refused.
INSERT INTO cutter_governance.grant_expectation (grantee, privilege, kind, object, wanted)
SELECT g.grantee, 'EXECUTE', 'FUNCTION', 'cutter_governance.fn_cut_request_follow', false
FROM unnest(ARRAY['cutter_exec', 'cutter_verify']) AS g(grantee);

SELECT cutter_meta.fn_grant_expected('^(cutter_governance[.](fn_cut_request_catch_up|fn_cut_request_run_ended'
    '|fn_run_effect_record|run_ended)|public[.](fn_cut_cleanup|fn_cut_cleanup_due))$');

RESET ROLE;
REVOKE CREATE ON SCHEMA public FROM cutter_owner;
