-- Decisions by a host that holds no more than the reviewer's login: it stores what was answered under
-- the lock of the ask, without the fence of the run, and writes the rows that a driver's own effect
-- writes. What a run was begun with stands beside its asks, so that such a host can compute for itself
-- what is asked about.
SET ROLE cutter_owner;

-- One row per run that asked: the settings that its plan follows from, and who began it.
CREATE TABLE cutter_governance.run_begun (
    run_id          text COLLATE "C" PRIMARY KEY CHECK (run_id ~ '^[A-Za-z0-9-]{1,128}$'),
    settings        bytea NOT NULL CHECK (octet_length(settings) BETWEEN 2 AND 131072),
    settings_sha256 text COLLATE "C" NOT NULL CHECK (settings_sha256 = encode(sha256(settings), 'hex')),
    creation        bytea NOT NULL CHECK (octet_length(creation) BETWEEN 1 AND 65536),
    fingerprint     text COLLATE "C" NOT NULL CHECK (octet_length(fingerprint) <= 128),
    recorded_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
    inserted_by     name NOT NULL DEFAULT session_user CHECK (inserted_by = 'cutter_exec')
);
COMMENT ON TABLE cutter_governance.run_begun IS
    'What a run was begun with: its settings, whose digest each of its asks names, and its creation statement as it was signed.';
CREATE TRIGGER trg_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON cutter_governance.run_begun
    FOR EACH STATEMENT EXECUTE FUNCTION cutter_governance.fn_append_only();

CREATE INDEX approval_ask_recorded ON cutter_governance.approval_ask (recorded_at);

-- Stores what a run was begun with, under the driver's fence. The same again is fine; other settings or
-- another statement are CUC10.
CREATE FUNCTION cutter_governance.fn_run_begun_record(
    p_run_id text, p_epoch bigint, p_holder uuid, p_settings bytea, p_creation bytea, p_fingerprint text)
RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $fn$
BEGIN
    PERFORM cutter_governance.fn_run_fence_assert(p_run_id, p_epoch, p_holder);
    INSERT INTO cutter_governance.run_begun (run_id, settings, settings_sha256, creation, fingerprint)
    VALUES (p_run_id, p_settings, encode(sha256(p_settings), 'hex'), p_creation, p_fingerprint)
    ON CONFLICT DO NOTHING;
    IF NOT EXISTS (
        SELECT FROM cutter_governance.run_begun b
        WHERE b.run_id = p_run_id AND b.settings = p_settings AND b.creation = p_creation
            AND b.fingerprint = p_fingerprint)
    THEN
        RAISE EXCEPTION 'run % was begun with other settings, or by another statement', p_run_id
            USING ERRCODE = 'CUC10';
    END IF;
END
$fn$;

-- The id of a row of a refusal: a refusal may follow a stored approval of the same ask, whose rows have
-- the ask's own ids. A UUID of version 7's shape: the 48-bit time of the ask's id, and 74 bits of the
-- sha256 of that id's text and the word.
CREATE FUNCTION cutter_governance.fn_refusal_id(p_id uuid) RETURNS uuid
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $fn$
    SELECT encode(set_byte(set_byte(b.bytes, 6, get_byte(b.bytes, 6) & 15 | 112), 8,
        get_byte(b.bytes, 8) & 63 | 128), 'hex')::uuid
    FROM (SELECT substring(uuid_send(p_id) FROM 1 FOR 6)
        || substring(sha256(convert_to(p_id || 'refusal', 'UTF8')) FROM 1 FOR 10) AS bytes) b
$fn$;

-- Live values by dimension, as one object.
CREATE FUNCTION cutter_governance.fn_survey_object(
    p_document_id text, p_run_id text, p_entry_id uuid, p_review_decision_id uuid) RETURNS jsonb
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $fn$
    SELECT jsonb_object_agg(s.dimension, s.value)
    FROM cutter_governance.fn_survey(p_document_id, p_run_id, p_entry_id, p_review_decision_id) s
    WHERE s.dimension <> 'catalogue_stamp'
$fn$;

-- Carries out a stored answer to the newest ask of a gate: the decision, the approval, the move of the
-- entry at SG_1, and the effect's row, by the reviewer's login alone. It locks the document and the ask.
-- An approval is stored under the ask's own ids, only while the ask is open and nothing refused it. The
-- same again is fine and writes nothing (false). p_moves: whether whoever computed the request's digest
-- saw that the entry moves. CUN10: no such ask, or no such answer; CUD10: the ask is closed, was asked anew
-- or was refused, or the answer is late or names something else; CUC10: the entry is elsewhere; CUC20: the
-- run is over.
CREATE FUNCTION cutter_governance.fn_decision_record(
    p_run_id text, p_gate text, p_occurrence integer, p_sha256 text, p_payload_sha256 text, p_moves boolean,
    p_actor text)
RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $fn$
DECLARE
    v_ask cutter_governance.approval_ask;
    v_answer cutter_governance.approval_answer;
    v_entry record;
    v_effect text := CASE p_gate WHEN 'SG_cut_authz' THEN 'sg1_review' ELSE 'sg2_review' END;
    v_is_cut boolean := p_gate = 'SG_cut_authz';
    v_approves boolean;
    v_ids jsonb;
    v_decision_id uuid;
    v_set uuid;
    v_to text;
    v_number integer;
    v_epoch bigint;
    v_before jsonb;
    v_why text;
BEGIN
    IF session_user <> 'cutter_review' THEN
        RAISE EXCEPTION 'a decision is stored by cutter_review, not by %', session_user USING ERRCODE = 'CUD01';
    END IF;
    -- The document first, as a driver's transaction takes it.
    PERFORM iu_core.fn_document_lock(k.document_id) FROM cutter_governance.approval_ask k
    WHERE k.run_id = p_run_id AND k.gate = p_gate AND k.occurrence = p_occurrence;
    SELECT k.* INTO v_ask FROM cutter_governance.approval_ask k
    WHERE k.run_id = p_run_id AND k.gate = p_gate AND k.occurrence = p_occurrence
    FOR UPDATE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'run % has no ask at % occurrence %', p_run_id, p_gate, p_occurrence USING ERRCODE = 'CUN10';
    END IF;
    SELECT w.* INTO v_answer FROM cutter_governance.approval_answer w
    WHERE w.run_id = p_run_id AND w.gate = p_gate AND w.occurrence = p_occurrence AND w.sha256 = p_sha256;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'no answer % to % occurrence % of run % is stored', p_sha256, p_gate, p_occurrence, p_run_id
            USING ERRCODE = 'CUN10';
    END IF;
    v_approves := v_answer.decision = 'approve';
    IF EXISTS (
        SELECT FROM cutter_governance.review_approval a
        WHERE a.run_id = p_run_id AND a.sha256 = p_sha256 AND a.nonce = v_ask.nonce)
    THEN
        RETURN false;
    END IF;
    v_why := CASE
        WHEN v_answer.late THEN 'it came when the ask had closed'
        WHEN EXISTS (SELECT FROM cutter_governance.approval_ask k
            WHERE k.run_id = p_run_id AND k.gate = p_gate AND k.occurrence > p_occurrence) THEN 'it was asked anew'
        WHEN EXISTS (SELECT FROM cutter_governance.review_approval a
            JOIN cutter_governance.approval_use u USING (approval_id)
            WHERE a.run_id = p_run_id AND a.nonce = v_ask.nonce) THEN 'an approval of it was relied on'
        WHEN v_approves AND EXISTS (SELECT FROM cutter_governance.approval_answer w
            WHERE w.run_id = p_run_id AND w.gate = p_gate AND w.occurrence = p_occurrence
                AND w.decision <> 'approve' AND NOT w.late) THEN 'a refusal of it stands'
        WHEN EXISTS (SELECT FROM cutter_governance.review_approval a
            WHERE a.run_id = p_run_id AND a.nonce = v_ask.nonce
                AND (a.decision <> 'approve' OR v_approves)) THEN 'it is decided already'
        END;
    IF v_why IS NULL THEN
        SELECT 'it does not name the ' || f.name INTO v_why
        FROM (VALUES ('decision', v_answer.decision), ('nonce', v_ask.nonce), ('run_id', p_run_id),
            ('approval_type', v_ask.approval_type), ('document_id', v_ask.document_id),
            ('actor', v_answer.actor)) AS f(name, value)
        WHERE cutter_governance.fn_document_field(v_answer.document, f.name) IS DISTINCT FROM f.value
        LIMIT 1;
    END IF;
    IF v_why IS NULL AND v_approves THEN
        SELECT 'it does not name the ' || f.name INTO v_why
        FROM (VALUES ('request_sha256', v_ask.request_sha256), ('rows_digest', v_ask.rows_digest)) AS f(name, value)
        WHERE cutter_governance.fn_document_field(v_answer.document, f.name) IS DISTINCT FROM f.value
        LIMIT 1;
    END IF;
    IF v_why IS NOT NULL THEN
        RAISE EXCEPTION 'answer % to % occurrence % of run % decides nothing: %', p_sha256, p_gate, p_occurrence,
            p_run_id, v_why USING ERRCODE = 'CUD10';
    END IF;
    IF EXISTS (SELECT FROM cutter_governance.run_ended e WHERE e.run_id = p_run_id)
        OR EXISTS (SELECT FROM cutter_governance.run_effect e WHERE e.run_id = p_run_id AND e.effect = 'void')
    THEN
        RAISE EXCEPTION 'run % is over: nothing is decided of it any more', p_run_id USING ERRCODE = 'CUC20';
    END IF;

    SELECT jsonb_object_agg(i.key, CASE WHEN v_approves THEN i.value
        ELSE to_jsonb(cutter_governance.fn_refusal_id((i.value #>> '{}')::uuid)) END) INTO v_ids
    FROM jsonb_each(v_ask.ids) AS i(key, value);
    SELECT e.entry_id, e.status INTO v_entry FROM cutter_governance.decision_backlog_entry e
    WHERE e.run_id = p_run_id AND e.escalates_entry_id IS NULL
    FOR UPDATE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'run % has no backlog entry', p_run_id USING ERRCODE = 'CUN10';
    END IF;
    SELECT coalesce(max(e.occurrence), 0) + 1 INTO v_number FROM cutter_governance.run_effect e
    WHERE e.run_id = p_run_id AND e.effect = v_effect;
    v_number := greatest(v_number, p_occurrence);
    SELECT f.epoch INTO v_epoch FROM cutter_governance.run_fence f WHERE f.run_id = p_run_id;

    IF v_is_cut THEN
        v_to := CASE
            WHEN v_answer.decision = 'reject' AND v_entry.status <> 'reviewed_approved' THEN 'reviewed_rejected'
            WHEN NOT v_approves THEN 'reviewed_deferred'
            WHEN v_entry.status <> 'reviewed_approved' THEN 'reviewed_approved' END;
        v_decision_id := (v_ids ->> 'review_decision')::uuid;
    ELSE
        v_decision_id := (v_ask.ids ->> 'review_decision')::uuid;
        SELECT d.change_set_id INTO v_set FROM cutter_governance.review_decision d
        WHERE d.id = v_decision_id AND d.run_id = p_run_id AND d.type = 'lifecycle_enactment';
        IF NOT FOUND THEN
            RAISE EXCEPTION 'the request % of run % is not stored yet', v_decision_id, p_run_id USING ERRCODE = 'CUN10';
        END IF;
    END IF;
    IF p_moves IS DISTINCT FROM (v_to IS NOT NULL) THEN
        RAISE EXCEPTION 'entry %: its status is % now, by which its move is another', v_entry.entry_id, v_entry.status
            USING ERRCODE = 'CUC10';
    END IF;
    v_before := cutter_governance.fn_survey_object(v_ask.document_id, p_run_id, v_entry.entry_id,
        CASE WHEN NOT v_is_cut THEN v_decision_id END);
    IF v_is_cut THEN
        INSERT INTO cutter_governance.review_decision (id, run_id, document_id, type, decision, entry_id, nonce,
            request_sha256, actor, at)
        VALUES (v_decision_id, p_run_id, v_ask.document_id, v_ask.approval_type, v_answer.decision, v_entry.entry_id,
            v_ask.nonce, v_ask.request_sha256, v_answer.actor, v_answer.recorded_at);
    END IF;
    INSERT INTO cutter_governance.review_approval (approval_id, review_decision_id, run_id, document_id, type,
        decision, approval_kb_id, document, sha256, nonce, fingerprint, actor, expires_at, request_sha256, at)
    VALUES ((v_ids ->> 'approval')::uuid, v_decision_id, p_run_id, v_ask.document_id, v_ask.approval_type,
        v_answer.decision, v_answer.approval_kb_id, v_answer.document, v_answer.sha256, v_ask.nonce,
        v_answer.fingerprint, v_answer.actor,
        nullif(cutter_governance.fn_document_field(v_answer.document, 'expires'), 'never')::timestamptz,
        v_ask.request_sha256, v_answer.recorded_at);
    IF v_to IS NOT NULL THEN
        PERFORM cutter_governance.fn_backlog_transition(v_entry.entry_id, v_entry.status, v_to,
            (v_ids ->> 'review_history')::uuid, p_actor, v_answer.decision, p_run_id, NULL, NULL,
            v_answer.recorded_at);
    END IF;
    INSERT INTO cutter_governance.run_effect (run_id, effect, occurrence, effect_id, fence_epoch, payload_sha256,
        verdict, facts, at, document_id)
    VALUES (p_run_id, v_effect, v_number, (v_ids ->> ('effect.' || v_effect))::uuid, v_epoch, p_payload_sha256,
        'commit', jsonb_build_object('survey_before', v_before, 'survey_after',
            cutter_governance.fn_survey_object(v_ask.document_id, p_run_id, v_entry.entry_id,
                CASE WHEN NOT v_is_cut THEN v_decision_id END),
            'principal', session_user, 'values', jsonb_build_object('entry_status', coalesce(v_to, v_entry.status))),
        v_answer.recorded_at, v_ask.document_id);
    RETURN true;
END
$fn$;

INSERT INTO cutter_governance.grant_expectation (grantee, privilege, kind, object)
SELECT g.grantee, 'SELECT', 'TABLE', 'cutter_governance.run_begun'
FROM unnest(ARRAY['cutter_exec', 'cutter_verify', 'cutter_review', 'cutter_ro']) AS g(grantee)
UNION ALL
VALUES ('cutter_exec', 'EXECUTE', 'FUNCTION', 'cutter_governance.fn_run_begun_record'),
    ('cutter_review', 'EXECUTE', 'FUNCTION', 'cutter_governance.fn_decision_record'),
    -- What a host that has this login alone reads: the text, the words that it is marked by, the rows.
    ('cutter_review', 'SELECT', 'TABLE', 'iu_core.source_version'),
    ('cutter_review', 'SELECT', 'TABLE', 'public.dot_config'),
    ('cutter_review', 'SELECT', 'TABLE', 'cutter_governance.cut_change_set'),
    ('cutter_review', 'SELECT', 'TABLE', 'cutter_governance.run_ended'),
    ('cutter_review', 'EXECUTE', 'FUNCTION', 'cutter_governance.fn_rows_digest');
-- The ones that a reader of a report wants to see refused.
INSERT INTO cutter_governance.grant_expectation (grantee, privilege, kind, object, wanted)
VALUES ('cutter_exec', 'EXECUTE', 'FUNCTION', 'cutter_governance.fn_decision_record', false),
    ('cutter_verify', 'EXECUTE', 'FUNCTION', 'cutter_governance.fn_decision_record', false);

SELECT cutter_meta.fn_grant_expected('^(cutter_governance[.](run_begun|run_ended|cut_change_set|fn_run_begun_record|fn_decision_record'
    '|fn_rows_digest)|iu_core[.]source_version|public[.]dot_config)$');

RESET ROLE;
