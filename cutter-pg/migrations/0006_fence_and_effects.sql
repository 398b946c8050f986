-- Functions: fence, effects, backlog moves.
SET ROLE cutter_owner;

-- Takes the fence of a run: inserts its row or raises the epoch by one, and gives the epoch.
-- A transaction of the former holder keeps the row locked FOR SHARE until it ends. If one
-- does, the sessions of this run (by application_name, run logins only) are ended, and the
-- bump waits for the lock: whatever is read afterwards is final.
CREATE FUNCTION cutter_governance.fn_run_fence_take(p_run_id text, p_document_id text, p_holder uuid)
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
    RETURN v_epoch;
END
$fn$;

-- Holds the fence FOR SHARE to the end of the transaction, or raises CUF01.
CREATE FUNCTION cutter_governance.fn_run_fence_assert(p_run_id text, p_epoch bigint, p_holder uuid)
RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $fn$
DECLARE
    v_fence record;
BEGIN
    SELECT f.epoch, f.holder INTO v_fence
    FROM cutter_governance.run_fence f WHERE f.run_id = p_run_id FOR SHARE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'run %: no fence was ever taken', p_run_id USING ERRCODE = 'CUF01';
    END IF;
    IF v_fence.epoch <> p_epoch OR v_fence.holder <> p_holder THEN
        RAISE EXCEPTION 'run %: expected fence epoch % of %, observed % of %',
            p_run_id, p_epoch, p_holder, v_fence.epoch, v_fence.holder USING ERRCODE = 'CUF01';
    END IF;
END
$fn$;

-- Stores an effect's row. Each login stores its own effects only; one that needs a human's
-- consent is not stored as committed without an approval that says so and is used here.
CREATE FUNCTION cutter_governance.fn_run_effect_record(
    p_run_id text, p_effect text, p_occurrence integer, p_effect_id uuid, p_fence_epoch bigint,
    p_payload_sha256 text, p_verdict text, p_facts text, p_at timestamptz, p_document_id text)
RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $fn$
DECLARE
    v_login name := CASE
        WHEN p_effect IN ('sg1_review', 'sg2_review', 'sg3_review') THEN 'cutter_review'
        WHEN p_effect = 'write_verify' THEN 'cutter_verify'
        ELSE 'cutter_exec' END;
BEGIN
    IF session_user <> v_login THEN
        RAISE EXCEPTION 'effect % is stored by %, not by %', p_effect, v_login, session_user USING ERRCODE = 'CUD01';
    END IF;
    IF p_effect IN ('leg_a', 'enact', 'void') AND NOT EXISTS (
        SELECT FROM cutter_governance.approval_use u
        JOIN cutter_governance.review_approval a USING (approval_id)
        WHERE u.effect_id = p_effect_id AND u.effect = p_effect AND u.run_id = p_run_id
            AND a.decision = 'approve')
    THEN
        RAISE EXCEPTION 'effect % of run % relies on no approval', p_effect, p_run_id USING ERRCODE = 'CUD02';
    END IF;
    INSERT INTO cutter_governance.run_effect (run_id, effect, occurrence, effect_id, fence_epoch,
        payload_sha256, verdict, facts, at, document_id)
    VALUES (p_run_id, p_effect, p_occurrence, p_effect_id, p_fence_epoch,
        p_payload_sha256, p_verdict, p_facts::jsonb, p_at, p_document_id);
END
$fn$;

-- Marks an approval as used by an effect. False if it is another run's, of another type, or
-- was used before: the caller's gate then refuses.
CREATE FUNCTION cutter_governance.fn_approval_use(
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
    ON CONFLICT (approval_id) DO NOTHING;
    RETURN FOUND;
END
$fn$;

-- MARK: an entry at S0 with its first history row.
CREATE FUNCTION cutter_governance.fn_backlog_mark(
    p_entry_id uuid, p_history_id uuid, p_run_id text, p_document_id text,
    p_source_document_id uuid, p_source_version_id uuid, p_idempotency_key text, p_region_sha text,
    p_manifest_digest text, p_candidate_count bigint, p_escalates_entry_id uuid,
    p_actor text, p_reason text, p_at timestamptz)
RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $fn$
BEGIN
    INSERT INTO cutter_governance.decision_backlog_entry (entry_id, run_id, document_id, source_document_id,
        source_version_id, status, idempotency_key, region_sha, manifest_digest, candidate_count,
        escalates_entry_id, actor, at)
    VALUES (p_entry_id, p_run_id, p_document_id, p_source_document_id, p_source_version_id, 'marked',
        p_idempotency_key, p_region_sha, p_manifest_digest, p_candidate_count, p_escalates_entry_id,
        p_actor, p_at);
    INSERT INTO cutter_governance.decision_backlog_history (history_id, entry_id, from_state, to_state,
        actor, reason, at)
    VALUES (p_history_id, p_entry_id, NULL, 'marked', p_actor, p_reason, p_at);
END
$fn$;

-- Moves an entry: legal edge, this login's duty, compare-and-set, and the history row, all in
-- one transaction. CUC09 illegal edge; CUD03 another login's move; CUN02 no such entry;
-- CUC04 the entry is elsewhere, or another run's.
CREATE FUNCTION cutter_governance.fn_backlog_transition(
    p_entry_id uuid, p_from text, p_to text, p_history_id uuid, p_actor text, p_reason text,
    p_run_id text, p_change_set_id uuid, p_detail jsonb, p_at timestamptz)
RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $fn$
DECLARE
    v_entry record;
BEGIN
    IF NOT p_to = ANY (cutter_governance.fn_backlog_targets(p_from)) THEN
        RAISE EXCEPTION 'illegal backlog transition %->% (legal=%)', p_from, p_to,
            array_to_string(cutter_governance.fn_backlog_targets(p_from), ',') USING ERRCODE = 'CUC09';
    END IF;
    IF (session_user = 'cutter_exec' AND NOT (p_to IN ('review_pending', 'cut_in_progress', 'cut_applied', 'abandoned')))
        OR (session_user = 'cutter_review'
            AND NOT (p_to IN ('reviewed_approved', 'reviewed_deferred', 'reviewed_rejected')))
        OR (session_user = 'cutter_verify'
            AND NOT (p_to IN ('verify_in_progress', 'verified_complete', 'verify_failed_escalated')))
    THEN
        RAISE EXCEPTION 'backlog transition %->% is not %''s', p_from, p_to, session_user USING ERRCODE = 'CUD03';
    END IF;
    UPDATE cutter_governance.decision_backlog_entry e SET status = p_to
    WHERE e.entry_id = p_entry_id AND e.status = p_from AND e.run_id = coalesce(p_run_id, e.run_id);
    IF NOT FOUND THEN
        SELECT e.status, e.run_id INTO v_entry
        FROM cutter_governance.decision_backlog_entry e WHERE e.entry_id = p_entry_id;
        IF NOT FOUND THEN
            RAISE EXCEPTION 'no backlog entry %', p_entry_id USING ERRCODE = 'CUN02';
        END IF;
        RAISE EXCEPTION 'backlog entry %: expected status % of run %, observed % of run %',
            p_entry_id, p_from, p_run_id, v_entry.status, v_entry.run_id USING ERRCODE = 'CUC04';
    END IF;
    INSERT INTO cutter_governance.decision_backlog_history (history_id, entry_id, from_state, to_state,
        actor, reason, at, change_set_id, detail)
    VALUES (p_history_id, p_entry_id, p_from, p_to, p_actor, p_reason, p_at, p_change_set_id,
        coalesce(p_detail, '{}'));
END
$fn$;

-- One sweep pass over one entry: S0 or S3 goes to S1; an entry that is there already is
-- success, with nothing promoted. Any other status is an illegal edge.
CREATE FUNCTION cutter_governance.fn_backlog_sweep(
    p_sweep_id uuid, p_entry_id uuid, p_history_id uuid, p_run_id text, p_actor text, p_at timestamptz)
RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $fn$
DECLARE
    v_entry record;
    v_promote boolean;
BEGIN
    SELECT e.status, e.document_id INTO v_entry
    FROM cutter_governance.decision_backlog_entry e WHERE e.entry_id = p_entry_id FOR UPDATE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'no backlog entry %', p_entry_id USING ERRCODE = 'CUN02';
    END IF;
    v_promote := v_entry.status <> 'review_pending';
    IF v_promote THEN
        PERFORM cutter_governance.fn_backlog_transition(p_entry_id, v_entry.status, 'review_pending',
            p_history_id, p_actor, 'sweep', p_run_id, NULL, NULL, p_at);
    END IF;
    INSERT INTO cutter_governance.decision_backlog_sweep_log (sweep_id, run_id, document_id, promoted, actor, at)
    VALUES (p_sweep_id, p_run_id, v_entry.document_id,
        CASE WHEN v_promote THEN ARRAY[p_entry_id] ELSE '{}' END, p_actor, p_at);
    RETURN 'review_pending';
END
$fn$;

RESET ROLE;
