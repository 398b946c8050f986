-- The backlog's operations (spec 3): what a status rests on, checked at the end of every
-- transaction, whoever writes; and the operations that need no run. Guards raise CUC10 with their
-- name first, as the core words it; a move of another login raises CUD03.
SET ROLE cutter_owner;

-- F-5: a decision is cut once. A voided cut is cut again by a new decision only.
CREATE UNIQUE INDEX g_cut_once ON cutter_governance.cut_change_set (entry_id, review_decision_id)
    WHERE kind = 'cut';
CREATE INDEX review_decision_entry ON cutter_governance.review_decision (entry_id);
CREATE INDEX verify_result_entry ON cutter_governance.verify_result (entry_id);
CREATE INDEX decision_backlog_entry_escalates ON cutter_governance.decision_backlog_entry (escalates_entry_id)
    WHERE escalates_entry_id IS NOT NULL;

-- What an entry's manifest depends on (D30): fixed in the detail of its first history row.
CREATE FUNCTION cutter_governance.fn_backlog_depends_on(p_entry_id uuid) RETURNS uuid[]
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $fn$
    SELECT coalesce(array_agg(DISTINCT d.id::uuid ORDER BY d.id::uuid), '{}')
    FROM cutter_governance.decision_backlog_history h
    CROSS JOIN LATERAL jsonb_array_elements_text(coalesce(h.detail -> 'depends_on', '[]')) AS d(id)
    WHERE h.entry_id = p_entry_id AND h.from_state IS NULL
$fn$;

-- What a move rests on, at the end of its transaction.
CREATE FUNCTION cutter_governance.fn_backlog_records() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $fn$
DECLARE
    v_set cutter_governance.cut_change_set;
    v_verdict cutter_governance.verify_result;
    v_executor name;
    v_verifier name;
    v_observed text;
BEGIN
    IF TG_OP = 'INSERT' THEN
        IF NEW.escalates_entry_id IS NOT NULL AND NOT EXISTS (
            SELECT FROM cutter_governance.verify_result r
            WHERE r.escalation_entry_id = NEW.entry_id AND r.entry_id = NEW.escalates_entry_id AND NOT r.passed)
        THEN
            RAISE EXCEPTION 'verify.failure_complete: entry % escalates %, but no failed verdict says so',
                NEW.entry_id, NEW.escalates_entry_id USING ERRCODE = 'CUC10';
        END IF;
        RETURN NULL;
    END IF;

    IF NEW.status = 'review_pending' THEN
        IF NEW.escalates_entry_id IS NOT NULL AND OLD.status = 'marked' AND session_user = 'cutter_exec' THEN
            RAISE EXCEPTION 'sweep.no_escalation: entry % escalates %; the reviewer requeues it',
                NEW.entry_id, NEW.escalates_entry_id USING ERRCODE = 'CUD03';
        END IF;

    ELSIF NEW.status = 'reviewed_approved' THEN
        IF NOT EXISTS (
            SELECT FROM cutter_governance.review_decision d
            JOIN cutter_governance.review_approval a ON a.review_decision_id = d.id AND a.decision = 'approve'
            WHERE d.entry_id = NEW.entry_id AND d.type = 'cut_authorization' AND d.decision = 'approve')
        THEN
            RAISE EXCEPTION 'review.consent: entry % was approved without a stored consent', NEW.entry_id
                USING ERRCODE = 'CUC10';
        END IF;

    ELSIF NEW.status IN ('cut_applied', 'verified_complete', 'verify_failed_escalated') THEN
        SELECT c.* INTO v_set
        FROM cutter_governance.decision_backlog_history h
        JOIN cutter_governance.cut_change_set c ON c.change_set_id = h.change_set_id AND c.entry_id = h.entry_id
        WHERE h.entry_id = NEW.entry_id AND h.to_state = NEW.status AND c.kind = 'cut';
        IF NOT FOUND THEN
            RAISE EXCEPTION 'G-VERIFY-CUT: entry % is % without a change set of its own', NEW.entry_id, NEW.status
                USING ERRCODE = 'CUC10';
        END IF;
        SELECT s.inserted_by INTO v_executor FROM cutter_governance.dot_pair_signature s
        WHERE s.change_set_id = v_set.change_set_id AND s.duty = 'executor';
        IF NOT FOUND THEN
            RAISE EXCEPTION 'G-VERIFY-CUT: change set % of entry % is not signed by the executor',
                v_set.change_set_id, NEW.entry_id USING ERRCODE = 'CUC10';
        END IF;

        IF NEW.status = 'cut_applied' THEN
            IF NOT EXISTS (
                SELECT FROM cutter_governance.review_decision d
                JOIN cutter_governance.review_approval a ON a.review_decision_id = d.id AND a.decision = 'approve'
                WHERE d.id = v_set.review_decision_id AND d.entry_id = NEW.entry_id
                    AND d.type = 'cut_authorization' AND d.decision = 'approve')
                -- What superseded a decision later is history's own affair when it is loaded again.
                OR session_user = 'cutter_exec' AND EXISTS (
                    SELECT FROM cutter_governance.review_decision d
                    JOIN cutter_governance.review_decision mine ON mine.id = v_set.review_decision_id
                    WHERE d.entry_id = NEW.entry_id AND d.type = 'cut_authorization' AND d.at > mine.at)
            THEN
                RAISE EXCEPTION 'G-CUT-APPROVED: decision % is not the approving and current one of entry %',
                    v_set.review_decision_id, NEW.entry_id USING ERRCODE = 'CUC10';
            END IF;
            IF session_user = 'cutter_exec' THEN
                -- Held to the end: what this cut rests on does not move meanwhile.
                PERFORM FROM cutter_governance.decision_backlog_entry e
                WHERE e.entry_id = ANY (cutter_governance.fn_backlog_depends_on(NEW.entry_id))
                ORDER BY e.entry_id FOR SHARE;
                SELECT string_agg(d.id || ' is ' || coalesce(e.status, 'absent'), ', ' ORDER BY d.id)
                INTO v_observed
                FROM unnest(cutter_governance.fn_backlog_depends_on(NEW.entry_id)) AS d(id)
                LEFT JOIN cutter_governance.decision_backlog_entry e ON e.entry_id = d.id
                WHERE e.status IS DISTINCT FROM 'verified_complete';
                IF v_observed IS NOT NULL THEN
                    RAISE EXCEPTION 'G-CUT-DEPS: entry % waits: expected none, observed %', NEW.entry_id, v_observed
                        USING ERRCODE = 'CUC10';
                END IF;
            END IF;
        ELSE
            SELECT r.* INTO v_verdict FROM cutter_governance.verify_result r
            WHERE r.change_set_id = v_set.change_set_id AND r.entry_id = NEW.entry_id
                AND r.passed = (NEW.status = 'verified_complete');
            IF NOT FOUND THEN
                RAISE EXCEPTION 'G-VERIFY-CUT: entry % is % without such a verdict on change set %',
                    NEW.entry_id, NEW.status, v_set.change_set_id USING ERRCODE = 'CUC10';
            END IF;
            SELECT s.inserted_by INTO v_verifier FROM cutter_governance.dot_pair_signature s
            WHERE s.change_set_id = v_set.change_set_id AND s.duty = 'verifier';
            IF v_verifier IS NULL OR v_verifier = v_executor THEN
                RAISE EXCEPTION 'G-VERIFY-SOD: change set % of entry %: expected a verifier other than %, observed %',
                    v_set.change_set_id, NEW.entry_id, v_executor, coalesce(v_verifier, 'absent')
                    USING ERRCODE = 'CUC10';
            END IF;
            IF NOT v_verdict.passed AND NOT EXISTS (
                SELECT FROM cutter_governance.cut_change_set c
                JOIN cutter_governance.decision_backlog_entry e ON e.entry_id = v_verdict.escalation_entry_id
                WHERE c.change_set_id = v_verdict.compensating_id AND c.kind = 'compensating'
                    AND c.compensates_id = v_set.change_set_id AND e.escalates_entry_id = NEW.entry_id)
            THEN
                RAISE EXCEPTION 'verify.failure_complete: entry % failed without its compensating set and escalation',
                    NEW.entry_id USING ERRCODE = 'CUC10';
            END IF;
        END IF;

    ELSIF NEW.status = 'abandoned' THEN
        IF NOT EXISTS (
            SELECT FROM cutter_governance.decision_backlog_history h
            WHERE h.entry_id = NEW.entry_id AND h.to_state = 'abandoned' AND h.reason ~ '\S')
        THEN
            RAISE EXCEPTION 'abandon.reason: entry % was abandoned without a reason', NEW.entry_id
                USING ERRCODE = 'CUC10';
        END IF;
        IF session_user = 'cutter_exec' AND NOT EXISTS (
            SELECT FROM cutter_governance.approval_use u
            JOIN cutter_governance.review_approval a USING (approval_id)
            WHERE u.effect = 'void' AND u.run_id = NEW.run_id AND a.decision = 'approve')
        THEN
            RAISE EXCEPTION 'backlog transition %->abandoned of entry % relies on no approval', OLD.status, NEW.entry_id
                USING ERRCODE = 'CUD03';
        END IF;
    END IF;
    RETURN NULL;
END
$fn$;
-- Promotions are judged by the statement, below; whose escalation it is, row by row.
CREATE CONSTRAINT TRIGGER trg_backlog_records AFTER INSERT OR UPDATE
    ON cutter_governance.decision_backlog_entry DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW WHEN (NEW.status <> 'review_pending' OR NEW.escalates_entry_id IS NOT NULL)
    EXECUTE FUNCTION cutter_governance.fn_backlog_records();

-- The other way round: a verdict moves its entry, a compensating set belongs to a failed verdict.
CREATE FUNCTION cutter_governance.fn_verdict_records() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $fn$
BEGIN
    IF NOT EXISTS (
        SELECT FROM cutter_governance.cut_change_set c
        JOIN cutter_governance.manifest_envelope m ON m.change_set_id = c.change_set_id
        JOIN cutter_governance.decision_backlog_history h ON h.entry_id = c.entry_id
            AND h.change_set_id = c.change_set_id
        WHERE c.change_set_id = NEW.change_set_id AND c.kind = 'cut' AND c.entry_id = NEW.entry_id
            AND m.id = NEW.manifest_envelope_id
            AND h.to_state = CASE WHEN NEW.passed THEN 'verified_complete' ELSE 'verify_failed_escalated' END)
    THEN
        RAISE EXCEPTION 'G-VERIFY-CUT: verdict % is on no cut with envelope whose entry moved by it', NEW.id
            USING ERRCODE = 'CUC10';
    END IF;
    RETURN NULL;
END
$fn$;
CREATE CONSTRAINT TRIGGER trg_verdict_records AFTER INSERT ON cutter_governance.verify_result
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION cutter_governance.fn_verdict_records();

CREATE FUNCTION cutter_governance.fn_change_set_records() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $fn$
BEGIN
    IF NEW.kind = 'compensating' AND NOT EXISTS (
        SELECT FROM cutter_governance.verify_result r
        WHERE r.compensating_id = NEW.change_set_id AND r.change_set_id = NEW.compensates_id AND NOT r.passed)
        -- The executor's own cuts; what an administrator loads is the audit's affair.
        OR NEW.kind = 'cut' AND session_user = 'cutter_exec' AND NOT EXISTS (
            SELECT FROM cutter_governance.decision_backlog_history h
            WHERE h.entry_id = NEW.entry_id AND h.change_set_id = NEW.change_set_id AND h.to_state = 'cut_applied')
    THEN
        RAISE EXCEPTION 'change set % (%): entry % did not move by it', NEW.change_set_id, NEW.kind, NEW.entry_id
            USING ERRCODE = 'CUC10';
    END IF;
    RETURN NULL;
END
$fn$;
CREATE CONSTRAINT TRIGGER trg_change_set_records AFTER INSERT ON cutter_governance.cut_change_set
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION cutter_governance.fn_change_set_records();

-- An entry, locked behind its document as every writer does.
CREATE FUNCTION cutter_governance.fn_backlog_lock(p_entry_id uuid)
RETURNS cutter_governance.decision_backlog_entry
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $fn$
DECLARE
    v_entry cutter_governance.decision_backlog_entry;
BEGIN
    PERFORM iu_core.fn_document_lock(e.document_id)
    FROM cutter_governance.decision_backlog_entry e WHERE e.entry_id = p_entry_id;
    SELECT e.* INTO v_entry FROM cutter_governance.decision_backlog_entry e
    WHERE e.entry_id = p_entry_id FOR UPDATE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'no backlog entry %', p_entry_id USING ERRCODE = 'CUN02';
    END IF;
    RETURN v_entry;
END
$fn$;

-- Compare-and-set with the history row, for the functions below: nobody is granted it.
CREATE FUNCTION cutter_governance.fn_backlog_move(
    p_entry_id uuid, p_from text, p_to text, p_history_id uuid, p_actor text, p_reason text,
    p_detail jsonb, p_at timestamptz)
RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $fn$
BEGIN
    IF NOT p_to = ANY (cutter_governance.fn_backlog_targets(p_from)) THEN
        RAISE EXCEPTION 'illegal backlog transition %->% (legal=%)', p_from, p_to,
            array_to_string(cutter_governance.fn_backlog_targets(p_from), ',') USING ERRCODE = 'CUC09';
    END IF;
    UPDATE cutter_governance.decision_backlog_entry e SET status = p_to
    WHERE e.entry_id = p_entry_id AND e.status = p_from;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'backlog entry %: status is not % any more', p_entry_id, p_from USING ERRCODE = 'CUC04';
    END IF;
    INSERT INTO cutter_governance.decision_backlog_history (history_id, entry_id, from_state, to_state,
        actor, reason, at, detail)
    VALUES (p_history_id, p_entry_id, p_from, p_to, p_actor, p_reason, p_at, coalesce(p_detail, '{}'));
END
$fn$;

-- What a manifest depends on: there, and not the entry itself.
CREATE FUNCTION cutter_governance.fn_backlog_depends_on_check(p_entry_id uuid, p_depends_on uuid[])
RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $fn$
DECLARE
    v_wrong text;
BEGIN
    SELECT string_agg(d.id::text, ', ' ORDER BY d.id) INTO v_wrong
    FROM unnest(p_depends_on) AS d(id)
    WHERE d.id = p_entry_id
        OR NOT EXISTS (SELECT FROM cutter_governance.decision_backlog_entry e WHERE e.entry_id = d.id);
    IF v_wrong IS NOT NULL THEN
        RAISE EXCEPTION 'mark.depends_on: expected none, observed %', v_wrong USING ERRCODE = 'CUC10';
    END IF;
END
$fn$;

-- MARK of a run, now with what its manifest depends on. An escalation entry is about the manifest of
-- the failed one and depends on the same.
DROP FUNCTION cutter_governance.fn_backlog_mark(uuid, uuid, text, text, uuid, uuid, text, text, text, bigint, uuid,
    text, text, timestamptz);
CREATE FUNCTION cutter_governance.fn_backlog_mark(
    p_entry_id uuid, p_history_id uuid, p_run_id text, p_document_id text,
    p_source_document_id uuid, p_source_version_id uuid, p_idempotency_key text, p_region_sha text,
    p_manifest_digest text, p_candidate_count bigint, p_escalates_entry_id uuid,
    p_actor text, p_reason text, p_at timestamptz, p_depends_on uuid[] DEFAULT '{}')
RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $fn$
DECLARE
    v_depends_on uuid[];
BEGIN
    SELECT coalesce(array_agg(DISTINCT d.id ORDER BY d.id), '{}') INTO v_depends_on
    FROM unnest(p_depends_on || cutter_governance.fn_backlog_depends_on(p_escalates_entry_id)) AS d(id);
    PERFORM cutter_governance.fn_backlog_depends_on_check(p_entry_id, v_depends_on);
    INSERT INTO cutter_governance.decision_backlog_entry (entry_id, run_id, document_id, source_document_id,
        source_version_id, status, idempotency_key, region_sha, manifest_digest, candidate_count,
        escalates_entry_id, actor, at)
    VALUES (p_entry_id, p_run_id, p_document_id, p_source_document_id, p_source_version_id, 'marked',
        p_idempotency_key, p_region_sha, p_manifest_digest, p_candidate_count, p_escalates_entry_id,
        p_actor, p_at);
    INSERT INTO cutter_governance.decision_backlog_history (history_id, entry_id, from_state, to_state,
        actor, reason, at, detail)
    VALUES (p_history_id, p_entry_id, NULL, 'marked', p_actor, p_reason, p_at,
        CASE WHEN v_depends_on = '{}' THEN '{}'::jsonb
            ELSE jsonb_build_object('depends_on', to_jsonb(v_depends_on)) END);
END
$fn$;

-- MARK with dependencies, idempotent on IK-MARK: gives the entry that stands.
CREATE FUNCTION cutter_governance.fn_backlog_mark_once(
    p_entry_id uuid, p_history_id uuid, p_run_id text, p_document_id text,
    p_source_document_id uuid, p_source_version_id uuid, p_idempotency_key text, p_region_sha text,
    p_manifest_digest text, p_candidate_count bigint, p_depends_on uuid[], p_actor text, p_reason text,
    p_at timestamptz)
RETURNS uuid
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $fn$
DECLARE
    v_entry cutter_governance.decision_backlog_entry;
    v_depends_on uuid[];
BEGIN
    PERFORM iu_core.fn_document_lock(p_document_id);
    SELECT coalesce(array_agg(DISTINCT d.id ORDER BY d.id), '{}') INTO v_depends_on
    FROM unnest(p_depends_on) AS d(id);
    SELECT e.* INTO v_entry FROM cutter_governance.decision_backlog_entry e
    WHERE e.idempotency_key = p_idempotency_key AND e.status <> 'abandoned';
    IF FOUND THEN
        IF v_entry.manifest_digest <> p_manifest_digest OR v_entry.region_sha <> p_region_sha
            OR v_entry.source_version_id <> p_source_version_id
            OR cutter_governance.fn_backlog_depends_on(v_entry.entry_id) <> v_depends_on
        THEN
            RAISE EXCEPTION 'mark.same_content: expected manifest %, observed %', v_entry.manifest_digest,
                p_manifest_digest USING ERRCODE = 'CUC10';
        END IF;
        RETURN v_entry.entry_id;
    END IF;
    PERFORM cutter_governance.fn_backlog_mark(p_entry_id, p_history_id, p_run_id, p_document_id,
        p_source_document_id, p_source_version_id, p_idempotency_key, p_region_sha, p_manifest_digest,
        p_candidate_count, NULL, p_actor, p_reason, p_at, v_depends_on);
    RETURN p_entry_id;
END
$fn$;

-- The reviewer puts an escalation entry into the queue: a pass of one, logged as such. True if it
-- moved now.
CREATE FUNCTION cutter_governance.fn_backlog_requeue(
    p_sweep_id uuid, p_entry_id uuid, p_history_id uuid, p_reason text, p_actor text, p_at timestamptz)
RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $fn$
DECLARE
    v_entry cutter_governance.decision_backlog_entry := cutter_governance.fn_backlog_lock(p_entry_id);
BEGIN
    -- Where the table has no such move, its message comes first, as everywhere.
    IF v_entry.escalates_entry_id IS NULL AND (v_entry.status = 'review_pending'
        OR 'review_pending' = ANY (cutter_governance.fn_backlog_targets(v_entry.status)))
    THEN
        RAISE EXCEPTION 'requeue.escalation: entry % escalates none; a sweep promotes it', p_entry_id
            USING ERRCODE = 'CUC10';
    END IF;
    IF v_entry.status = 'review_pending' THEN
        RETURN false;
    END IF;
    PERFORM cutter_governance.fn_backlog_move(p_entry_id, v_entry.status, 'review_pending', p_history_id,
        p_actor, p_reason, jsonb_build_object('sweep_id', p_sweep_id), p_at);
    INSERT INTO cutter_governance.decision_backlog_sweep_log (sweep_id, run_id, document_id, promoted, actor, at)
    VALUES (p_sweep_id, NULL, v_entry.document_id, ARRAY[p_entry_id], p_actor, p_at);
    RETURN true;
END
$fn$;

-- REVIEW outside a run, idempotent on (entry, manifest digest): gives the decision that stands. An
-- approval needs its review_approval row in the same transaction.
CREATE FUNCTION cutter_governance.fn_backlog_review(
    p_decision_id uuid, p_entry_id uuid, p_decision text, p_manifest_digest text, p_history_id uuid,
    p_reason text, p_nonce text, p_request_sha256 text, p_actor text, p_at timestamptz)
RETURNS uuid
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $fn$
DECLARE
    v_entry cutter_governance.decision_backlog_entry := cutter_governance.fn_backlog_lock(p_entry_id);
    v_known record;
    v_to text := CASE p_decision WHEN 'approve' THEN 'reviewed_approved' WHEN 'defer' THEN 'reviewed_deferred'
        WHEN 'reject' THEN 'reviewed_rejected' END;
BEGIN
    IF v_to IS NULL THEN
        RAISE EXCEPTION 'expected approve, defer or reject, observed %', p_decision USING ERRCODE = 'CU003';
    END IF;
    IF p_manifest_digest IS DISTINCT FROM v_entry.manifest_digest THEN
        RAISE EXCEPTION 'review.manifest: expected %, observed %', v_entry.manifest_digest, p_manifest_digest
            USING ERRCODE = 'CUC10';
    END IF;
    SELECT d.decision, d.entry_id INTO v_known FROM cutter_governance.review_decision d WHERE d.id = p_decision_id;
    IF FOUND THEN
        IF v_known.decision = p_decision AND v_known.entry_id = p_entry_id THEN
            RETURN p_decision_id;
        END IF;
        RAISE EXCEPTION 'review.decision_new: decision % is % of entry %', p_decision_id, v_known.decision,
            v_known.entry_id USING ERRCODE = 'CUC10';
    END IF;
    IF v_entry.status = v_to OR p_decision = 'approve'
        AND v_entry.status IN ('cut_applied', 'verified_complete', 'verify_failed_escalated')
    THEN
        SELECT d.id, d.decision INTO v_known FROM cutter_governance.review_decision d
        WHERE d.entry_id = p_entry_id AND d.type = 'cut_authorization'
        ORDER BY d.at DESC, d.id DESC LIMIT 1;
        IF FOUND AND v_known.decision = p_decision THEN
            RETURN v_known.id;
        END IF;
    END IF;
    PERFORM cutter_governance.fn_review_decision_record(p_decision_id, v_entry.run_id, v_entry.document_id,
        'cut_authorization', p_decision, p_entry_id, NULL, NULL, NULL, NULL, p_nonce, p_request_sha256, p_actor, p_at);
    PERFORM cutter_governance.fn_backlog_move(p_entry_id, v_entry.status, v_to, p_history_id, p_actor, p_reason,
        jsonb_build_object('review_decision_id', p_decision_id), p_at);
    RETURN p_decision_id;
END
$fn$;

-- The reviewer gives an entry up. True if it moved now.
CREATE FUNCTION cutter_governance.fn_backlog_abandon(
    p_entry_id uuid, p_history_id uuid, p_reason text, p_actor text, p_at timestamptz)
RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $fn$
DECLARE
    v_entry cutter_governance.decision_backlog_entry := cutter_governance.fn_backlog_lock(p_entry_id);
BEGIN
    IF v_entry.status = 'abandoned' THEN
        RETURN false;
    END IF;
    IF coalesce(p_reason, '') !~ '\S' THEN
        RAISE EXCEPTION 'abandon.reason: expected a reason, observed none' USING ERRCODE = 'CUC10';
    END IF;
    PERFORM cutter_governance.fn_backlog_move(p_entry_id, v_entry.status, 'abandoned', p_history_id, p_actor,
        p_reason, NULL, p_at);
    RETURN true;
END
$fn$;

-- For observers: what an audit needs, without payloads, documents, nonces and signature bytes.
CREATE VIEW cutter_governance.v_backlog_entry AS
    SELECT e.entry_id, e.run_id, e.document_id, e.source_version_id, e.status, e.idempotency_key,
        e.manifest_digest, e.region_sha, e.candidate_count, e.escalates_entry_id,
        ARRAY(SELECT jsonb_array_elements_text(coalesce(h.detail -> 'depends_on', '[]'))::uuid
              FROM cutter_governance.decision_backlog_history h
              WHERE h.entry_id = e.entry_id AND h.from_state IS NULL) AS depends_on,
        e.actor, e.at
    FROM cutter_governance.decision_backlog_entry e;
CREATE VIEW cutter_governance.v_backlog_history AS
    SELECT h.history_id, h.entry_id, h.from_state, h.to_state, h.actor, h.reason, h.at, h.change_set_id,
        encode(sha256(convert_to(h.detail::text, 'UTF8')), 'hex') AS detail_sha256
    FROM cutter_governance.decision_backlog_history h;
CREATE VIEW cutter_governance.v_backlog_decision AS
    SELECT d.id AS review_decision_id, d.entry_id, d.decision,
        EXISTS (SELECT FROM cutter_governance.review_approval a
                WHERE a.review_decision_id = d.id AND a.decision = d.decision) AS has_consent,
        d.actor, d.at
    FROM cutter_governance.review_decision d
    WHERE d.type = 'cut_authorization' AND d.entry_id IS NOT NULL;
CREATE VIEW cutter_governance.v_backlog_cut AS
    SELECT c.change_set_id, c.entry_id, c.review_decision_id, c.live, m.id AS manifest_envelope_id,
        r.id AS verify_result_id, r.passed, r.compensating_id, r.escalation_entry_id, c.actor, c.at
    FROM cutter_governance.cut_change_set c
    LEFT JOIN cutter_governance.manifest_envelope m ON m.change_set_id = c.change_set_id
    LEFT JOIN cutter_governance.verify_result r ON r.change_set_id = c.change_set_id
    WHERE c.kind = 'cut';
CREATE VIEW cutter_governance.v_backlog_signature AS
    SELECT s.signature_id, c.entry_id, s.change_set_id, s.duty, s.inserted_by::text AS principal, s.public_key,
        encode(sha256(convert_to(s.payload, 'UTF8')), 'hex') AS payload_sha256, s.at
    FROM cutter_governance.dot_pair_signature s
    JOIN cutter_governance.cut_change_set c ON c.change_set_id = s.change_set_id;
COMMENT ON VIEW cutter_governance.v_backlog_entry IS 'Entries, with what their manifests depend on.';
COMMENT ON VIEW cutter_governance.v_backlog_history IS 'Moves; the detail as its digest.';
COMMENT ON VIEW cutter_governance.v_backlog_decision IS 'Decisions on entries, and whether consent stands with each.';
COMMENT ON VIEW cutter_governance.v_backlog_cut IS 'Cuts with envelope and verdict; no contents.';
COMMENT ON VIEW cutter_governance.v_backlog_signature IS 'Who signed what; payload as its digest, no signature bytes.';

-- Grants: rows of the one list, then the grants made from these rows.
INSERT INTO cutter_governance.grant_expectation (grantee, privilege, kind, object)
SELECT v.grantee, v.privilege, v.kind, o.object
FROM (VALUES
    ('cutter_exec', 'EXECUTE', 'FUNCTION',
        'cutter_governance.fn_backlog_mark_once cutter_governance.fn_backlog_sweep_pass'),
    ('cutter_review', 'EXECUTE', 'FUNCTION', 'cutter_governance.fn_backlog_review
        cutter_governance.fn_backlog_requeue cutter_governance.fn_backlog_abandon')
) AS v(grantee, privilege, kind, objects)
CROSS JOIN LATERAL regexp_split_to_table(v.objects, '\s+') AS o(object);
INSERT INTO cutter_governance.grant_expectation (grantee, privilege, kind, object)
SELECT g.grantee, 'SELECT', 'TABLE', 'cutter_governance.v_backlog_' || v.name
FROM unnest(ARRAY['cutter_exec', 'cutter_verify', 'cutter_review', 'cutter_ro', 'directus']) AS g(grantee),
    unnest(ARRAY['entry', 'history', 'decision', 'cut', 'signature']) AS v(name);
INSERT INTO cutter_governance.grant_expectation (grantee, privilege, kind, object)
SELECT g.grantee, 'SELECT', 'TABLE', 'cutter_governance.backlog_promotion_check'
FROM unnest(ARRAY['cutter_exec', 'cutter_verify', 'cutter_ro']) AS g(grantee);
INSERT INTO cutter_governance.grant_expectation (grantee, privilege, kind, object)
SELECT g.grantee, 'EXECUTE', 'FUNCTION', 'cutter_governance.fn_backlog_promotions'
FROM unnest(ARRAY['cutter_exec', 'cutter_verify', 'cutter_review', 'cutter_ro']) AS g(grantee);
-- The front end reads history through its view.
DELETE FROM cutter_governance.grant_expectation
WHERE grantee = 'directus' AND object = 'cutter_governance.decision_backlog_history';
REVOKE SELECT ON cutter_governance.decision_backlog_history FROM directus;
INSERT INTO cutter_governance.grant_expectation (grantee, privilege, kind, object, wanted)
SELECT g.grantee, 'UPDATE', 'TABLE', 'cutter_governance.decision_backlog_entry', false
FROM unnest(ARRAY['cutter_exec', 'cutter_verify', 'cutter_review', 'cutter_ro', 'directus']) AS g(grantee);

SELECT cutter_meta.fn_grant_expected(
    '[.](v_backlog_|backlog_promotion_check$|fn_backlog_(mark|mark_once|sweep_pass|review|requeue|abandon|promotions)$)');

RESET ROLE;
