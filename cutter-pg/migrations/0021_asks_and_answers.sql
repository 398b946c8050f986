-- What a sovereign gate asked, and every valid answer to it, as rows of their own: a refusal that
-- was heard while the ask was open stands in the way of whatever relies on an approval of it.
SET ROLE cutter_owner;

-- One row per ask of SG_1 and SG_2, stored before the run parks. It closes when the effect that its
-- answer allows commits, with the first refusal, or when the same gate asks anew.
CREATE TABLE cutter_governance.approval_ask (
    run_id         text COLLATE "C" NOT NULL,
    gate           text COLLATE "C" NOT NULL CHECK (gate IN ('SG_cut_authz', 'SG_lifecycle_authz')),
    occurrence     integer NOT NULL CHECK (occurrence > 0),
    document_id    text COLLATE "C" NOT NULL,
    approval_type  text COLLATE "C" NOT NULL CHECK (approval_type =
        CASE gate WHEN 'SG_cut_authz' THEN 'cut_authorization' ELSE 'lifecycle_enactment' END),
    nonce          text COLLATE "C" NOT NULL UNIQUE,
    request_sha256 text COLLATE "C" NOT NULL CHECK (request_sha256 ~ '^[0-9a-f]{64}$'),
    rows_digest    text COLLATE "C" NOT NULL CHECK (rows_digest ~ '^[0-9a-f]{64}$'),
    -- The policy that stood when this was asked; NULL where none was on record.
    policy_head    text COLLATE "C" CHECK (policy_head ~ '^[0-9a-f]{64}$'),
    -- Everything that an answer must repeat, and where request and answer stand.
    ask            jsonb NOT NULL,
    -- The identifiers that carrying out the answer will use.
    ids            jsonb NOT NULL,
    at             timestamptz NOT NULL,
    recorded_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    inserted_by    name NOT NULL DEFAULT session_user CHECK (inserted_by = 'cutter_exec'),
    PRIMARY KEY (run_id, gate, occurrence)
);
COMMENT ON TABLE cutter_governance.approval_ask IS
    'What a sovereign gate asked, stored before the run parks: nonce, request and rows that an answer must name.';
CREATE TRIGGER trg_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON cutter_governance.approval_ask
    FOR EACH STATEMENT EXECUTE FUNCTION cutter_governance.fn_append_only();

CREATE TABLE cutter_governance.approval_answer (
    run_id         text COLLATE "C" NOT NULL,
    gate           text COLLATE "C" NOT NULL,
    occurrence     integer NOT NULL,
    sha256         text COLLATE "C" NOT NULL CHECK (sha256 = encode(sha256(document), 'hex')),
    decision       text COLLATE "C" NOT NULL CHECK (decision IN ('approve', 'defer', 'reject')),
    approval_kb_id text NOT NULL,
    document       bytea NOT NULL,
    fingerprint    text COLLATE "C" NOT NULL,
    actor          text NOT NULL,
    -- It was heard after its ask had closed: it is kept, and decides nothing.
    late           boolean NOT NULL,
    recorded_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    inserted_by    name NOT NULL DEFAULT session_user CHECK (inserted_by = 'cutter_review'),
    PRIMARY KEY (run_id, gate, occurrence, sha256),
    FOREIGN KEY (run_id, gate, occurrence) REFERENCES cutter_governance.approval_ask
);
COMMENT ON TABLE cutter_governance.approval_answer IS
    'Every valid answer to an ask, byte for byte, in the order in which it was heard (recorded_at, by the server''s clock).';
CREATE TRIGGER trg_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON cutter_governance.approval_answer
    FOR EACH STATEMENT EXECUTE FUNCTION cutter_governance.fn_append_only();

-- A nonce is approved once; a refusal may follow.
ALTER TABLE cutter_governance.review_approval DROP CONSTRAINT review_approval_nonce_key;
ALTER TABLE cutter_governance.review_approval ADD CONSTRAINT review_approval_nonce_key UNIQUE (nonce, decision);

-- The value of a field that stands once in a document, on a line of its own; else NULL.
CREATE FUNCTION cutter_governance.fn_document_field(p_document bytea, p_field text) RETURNS text
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $fn$
    SELECT CASE WHEN count(*) = 1 THEN min(substring(m.line[1] FROM '^' || p_field || ': (.*?)\r?$')) END
    FROM regexp_matches(convert_from(p_document, 'UTF8'), '^(' || p_field || '[ \t]*:.*)$', 'gn') AS m(line)
$fn$;

-- Stores an ask under the driver's fence. The same ask again is fine; another one is CUC10.
CREATE FUNCTION cutter_governance.fn_ask_open(
    p_run_id text, p_epoch bigint, p_holder uuid, p_ask text, p_ids text, p_policy_head text, p_at timestamptz)
RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $fn$
DECLARE
    v_ask jsonb := p_ask::jsonb;
BEGIN
    PERFORM cutter_governance.fn_run_fence_assert(p_run_id, p_epoch, p_holder);
    INSERT INTO cutter_governance.approval_ask (run_id, gate, occurrence, document_id, approval_type, nonce,
        request_sha256, rows_digest, policy_head, ask, ids, at)
    SELECT f.run_id, v_ask ->> 'gate', (v_ask ->> 'occurrence')::integer, f.document_id, v_ask ->> 'approval_type',
        r.required ->> 'nonce', r.required ->> 'request_sha256', r.required ->> 'rows_digest', p_policy_head, v_ask,
        p_ids::jsonb, p_at
    FROM cutter_governance.run_fence f, LATERAL (SELECT v_ask -> 'required') AS r(required)
    WHERE f.run_id = p_run_id AND r.required ->> 'run_id' = p_run_id
        AND r.required ->> 'document_id' = f.document_id
    ON CONFLICT DO NOTHING;
    IF NOT EXISTS (
        SELECT FROM cutter_governance.approval_ask k
        WHERE k.run_id = p_run_id AND k.gate = v_ask ->> 'gate'
            AND k.occurrence = (v_ask ->> 'occurrence')::integer AND k.ask = v_ask)
    THEN
        RAISE EXCEPTION 'run % asked otherwise at % occurrence %, or this asks for another run', p_run_id,
            v_ask ->> 'gate', v_ask ->> 'occurrence' USING ERRCODE = 'CUC10';
    END IF;
END
$fn$;

-- Stores a valid answer. The document itself must name the ask's nonce and the decision. Whether it
-- came while the ask was open is found here: the ask's row is locked.
CREATE FUNCTION cutter_governance.fn_answer_record(
    p_run_id text, p_gate text, p_occurrence integer, p_decision text, p_approval_kb_id text, p_document bytea,
    p_fingerprint text, p_actor text)
RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $fn$
DECLARE
    v_nonce text;
BEGIN
    SELECT k.nonce INTO v_nonce FROM cutter_governance.approval_ask k
    WHERE k.run_id = p_run_id AND k.gate = p_gate AND k.occurrence = p_occurrence
    FOR UPDATE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'run % has no ask at % occurrence %', p_run_id, p_gate, p_occurrence USING ERRCODE = 'CUN10';
    END IF;
    IF cutter_governance.fn_document_field(p_document, 'nonce') IS DISTINCT FROM v_nonce
        OR cutter_governance.fn_document_field(p_document, 'decision') IS DISTINCT FROM p_decision
    THEN
        RAISE EXCEPTION 'the document of an answer to % occurrence % of run % names another nonce or decision', p_gate,
            p_occurrence, p_run_id USING ERRCODE = 'CUD10';
    END IF;
    INSERT INTO cutter_governance.approval_answer (run_id, gate, occurrence, sha256, decision, approval_kb_id,
        document, fingerprint, actor, late)
    SELECT p_run_id, p_gate, p_occurrence, encode(sha256(p_document), 'hex'), p_decision, p_approval_kb_id,
        p_document, p_fingerprint, p_actor,
        cutter_governance.fn_ask_closed(p_run_id, p_gate, p_occurrence, transaction_timestamp())
    ON CONFLICT DO NOTHING;
END
$fn$;

-- Whether an ask's answer has been carried out, it was refused, or it was asked anew.
-- Of answers that are heard together none is late for another: p_refused_before is when they came.
CREATE FUNCTION cutter_governance.fn_ask_closed(
    p_run_id text, p_gate text, p_occurrence integer, p_refused_before timestamptz)
RETURNS boolean
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $fn$
    SELECT EXISTS (
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
        WHERE k.run_id = p_run_id AND k.gate = p_gate AND k.occurrence = p_occurrence)
$fn$;

-- At the end of the transaction that relies on an approval of SG_1 or SG_2: it answers an ask that is
-- on record, names what was asked, and no refusal was heard. The ask's row stays locked to COMMIT, so
-- an answer that is stored after this is late.
CREATE FUNCTION cutter_governance.fn_ask_heard() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $fn$
DECLARE
    v_ask record;
    v_refusal record;
BEGIN
    SELECT k.gate, k.occurrence, k.rows_digest, k.request_sha256, a.request_sha256 AS answered INTO v_ask
    FROM cutter_governance.review_approval a
    JOIN cutter_governance.approval_ask k
        ON k.run_id = a.run_id AND k.nonce = a.nonce AND k.approval_type = a.type
    WHERE a.approval_id = NEW.approval_id
    FOR SHARE OF k;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'approval % answers no ask that is on record', NEW.approval_id USING ERRCODE = 'CUD10';
    END IF;
    IF EXISTS (
        SELECT FROM cutter_governance.approval_ask k
        WHERE k.run_id = NEW.run_id AND k.gate = v_ask.gate AND k.occurrence > v_ask.occurrence)
    THEN
        RAISE EXCEPTION 'approval % answers an ask of % that was asked anew', NEW.approval_id, v_ask.gate
            USING ERRCODE = 'CUD10';
    END IF;
    IF v_ask.answered <> v_ask.request_sha256
        OR cutter_governance.fn_consent_rows(NEW.approval_id) IS DISTINCT FROM v_ask.rows_digest
    THEN
        RAISE EXCEPTION 'approval % names another request or other rows than % occurrence % asked about',
            NEW.approval_id, v_ask.gate, v_ask.occurrence USING ERRCODE = 'CUD10';
    END IF;
    SELECT w.decision, w.actor, w.approval_kb_id INTO v_refusal
    FROM cutter_governance.approval_answer w
    WHERE w.run_id = NEW.run_id AND w.gate = v_ask.gate AND w.occurrence = v_ask.occurrence
        AND w.decision <> 'approve' AND NOT w.late
    ORDER BY w.recorded_at LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'approval % is not relied on: % by % stands (%)', NEW.approval_id, v_refusal.decision,
            v_refusal.actor, v_refusal.approval_kb_id USING ERRCODE = 'CUD10';
    END IF;
    RETURN NULL;
END
$fn$;
CREATE CONSTRAINT TRIGGER trg_ask_heard AFTER INSERT ON cutter_governance.approval_use
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (NEW.effect IN ('leg_a', 'enact'))
    EXECUTE FUNCTION cutter_governance.fn_ask_heard();

INSERT INTO cutter_governance.grant_expectation (grantee, privilege, kind, object)
SELECT g.grantee, 'SELECT', 'TABLE', t.object
FROM unnest(ARRAY['cutter_exec', 'cutter_verify', 'cutter_ro', 'cutter_review']) AS g(grantee),
    unnest(ARRAY['cutter_governance.approval_ask', 'cutter_governance.approval_answer']) AS t(object)
UNION ALL
SELECT g.grantee, 'EXECUTE', 'FUNCTION', 'cutter_governance.fn_ask_closed'
FROM unnest(ARRAY['cutter_exec', 'cutter_verify', 'cutter_ro', 'cutter_review']) AS g(grantee)
UNION ALL
VALUES ('cutter_exec', 'EXECUTE', 'FUNCTION', 'cutter_governance.fn_ask_open'),
    ('cutter_review', 'EXECUTE', 'FUNCTION', 'cutter_governance.fn_answer_record');

SELECT cutter_meta.fn_grant_expected('^cutter_governance[.](approval_ask|approval_answer|fn_ask_open|fn_ask_closed|fn_answer_record)$');

RESET ROLE;
