-- An ask has the form that its readers expect, and its run may still ask. What stands beside a statement
-- without being it holds nobody: a run may have several, each under its digest, and any number of
-- signatures; the one that counts is the one that both duties have signed, as readers verify.
SET ROLE cutter_owner;

-- Whether an ask has exactly its fields, each of its kind, and chose identifiers.
CREATE FUNCTION cutter_governance.fn_ask_is_formed(p_ask jsonb, p_ids jsonb) RETURNS boolean
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $fn$
    SELECT CASE WHEN jsonb_typeof(p_ask) = 'object' AND jsonb_typeof(p_ids) = 'object'
        AND jsonb_typeof(p_ask -> 'required') = 'object'
    THEN (SELECT array_agg(k ORDER BY k COLLATE "C") FROM jsonb_object_keys(p_ask) AS k) = ARRAY['approval_path',
            'approval_type', 'expected_actor', 'gate', 'occurrence', 'request_path', 'required']
        AND NOT EXISTS (
            SELECT FROM unnest(ARRAY['gate', 'approval_type', 'approval_path', 'request_path']) AS f(name)
            WHERE jsonb_typeof(p_ask -> f.name) <> 'string')
        AND jsonb_typeof(p_ask -> 'expected_actor') IN ('string', 'null')
        AND jsonb_typeof(p_ask -> 'occurrence') = 'number' AND p_ask ->> 'occurrence' ~ '^[1-9][0-9]{0,8}$'
        AND NOT EXISTS (
            SELECT FROM jsonb_each(p_ask -> 'required') AS r(key, value) WHERE jsonb_typeof(r.value) <> 'string')
        AND NOT EXISTS (
            SELECT FROM jsonb_each_text(p_ids) AS i(key, value)
            WHERE i.value IS NULL OR i.value !~ '^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$')
    ELSE false END
$fn$;

-- Stores an ask under the driver's fence. The same ask again is fine; another one is CUC10. CUD10: it has
-- not the form of an ask. CUC20: the run is over, or carried out an answer of this gate already.
CREATE OR REPLACE FUNCTION cutter_governance.fn_ask_open(
    p_run_id text, p_epoch bigint, p_holder uuid, p_ask text, p_ids text, p_policy_head text, p_at timestamptz)
RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $fn$
DECLARE
    v_ask jsonb := p_ask::jsonb;
BEGIN
    PERFORM cutter_governance.fn_run_fence_assert(p_run_id, p_epoch, p_holder);
    IF cutter_governance.fn_ask_is_formed(v_ask, p_ids::jsonb) IS NOT TRUE
        OR (p_at >= '2000-01-01T00:00:00Z' AND p_at < '9999-01-01T00:00:00Z') IS NOT TRUE
    THEN
        RAISE EXCEPTION 'what run % asks has not the form of an ask', p_run_id USING ERRCODE = 'CUD10';
    END IF;
    IF EXISTS (
        SELECT FROM cutter_governance.approval_ask k
        WHERE k.run_id = p_run_id AND k.gate = v_ask ->> 'gate'
            AND k.occurrence = (v_ask ->> 'occurrence')::integer AND k.ask = v_ask)
    THEN
        RETURN;
    END IF;
    IF EXISTS (SELECT FROM cutter_governance.run_ended e WHERE e.run_id = p_run_id)
        OR EXISTS (SELECT FROM cutter_governance.run_effect e WHERE e.run_id = p_run_id AND e.verdict = 'commit'
            AND e.effect IN ('void', 'enact', CASE v_ask ->> 'gate' WHEN 'SG_cut_authz' THEN 'leg_a' END))
    THEN
        RAISE EXCEPTION 'run % is over, or past %: it asks nothing there any more', p_run_id, v_ask ->> 'gate'
            USING ERRCODE = 'CUC20';
    END IF;
    INSERT INTO cutter_governance.approval_ask (run_id, gate, occurrence, document_id, approval_type, nonce,
        request_sha256, rows_digest, policy_head, ask, ids, at)
    SELECT f.run_id, v_ask ->> 'gate', (v_ask ->> 'occurrence')::integer, f.document_id, v_ask ->> 'approval_type',
        r.required ->> 'nonce', r.required ->> 'request_sha256', r.required ->> 'rows_digest', p_policy_head, v_ask,
        p_ids::jsonb, p_at
    FROM cutter_governance.run_fence f, LATERAL (SELECT v_ask -> 'required') AS r(required)
    WHERE f.run_id = p_run_id AND r.required ->> 'run_id' = p_run_id
        AND r.required ->> 'document_id' = f.document_id
    ON CONFLICT DO NOTHING;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'run % asked otherwise at % occurrence %, or this asks for another run', p_run_id,
            v_ask ->> 'gate', v_ask ->> 'occurrence' USING ERRCODE = 'CUC10';
    END IF;
END
$fn$;

-- What a run was begun with is text.
ALTER TABLE cutter_governance.run_begun ADD CONSTRAINT run_begun_text_check
    CHECK (convert_from(settings, 'UTF8') IS NOT NULL AND convert_from(creation, 'UTF8') IS NOT NULL) NOT VALID;

-- A statement is known by its digest, and signed under it.
ALTER TABLE cutter_governance.run_statement DISABLE TRIGGER trg_append_only;
ALTER TABLE cutter_governance.statement_signature DISABLE TRIGGER trg_append_only;
ALTER TABLE cutter_governance.run_statement ADD COLUMN sha256 text COLLATE "C";
UPDATE cutter_governance.run_statement SET sha256 = encode(sha256(convert_to(body, 'UTF8')), 'hex');
ALTER TABLE cutter_governance.statement_signature ADD COLUMN statement_sha256 text COLLATE "C";
UPDATE cutter_governance.statement_signature g SET statement_sha256 = t.sha256
FROM cutter_governance.run_statement t WHERE t.run_id = g.run_id;
ALTER TABLE cutter_governance.statement_signature
    DROP CONSTRAINT statement_signature_pkey,
    DROP CONSTRAINT statement_signature_run_id_fkey;
ALTER TABLE cutter_governance.run_statement
    DROP CONSTRAINT run_statement_pkey,
    ADD CONSTRAINT run_statement_sha256_check CHECK (sha256 = encode(sha256(convert_to(body, 'UTF8')), 'hex')),
    ADD PRIMARY KEY (run_id, sha256);
ALTER TABLE cutter_governance.statement_signature
    ADD PRIMARY KEY (run_id, statement_sha256, duty, public_key, signature),
    ADD CONSTRAINT statement_signature_statement_fkey
        FOREIGN KEY (run_id, statement_sha256) REFERENCES cutter_governance.run_statement;
ALTER TABLE cutter_governance.run_statement ENABLE TRIGGER trg_append_only;
ALTER TABLE cutter_governance.statement_signature ENABLE TRIGGER trg_append_only;

-- As before. Another statement of the run stands beside this one: only what both duties have signed counts.
CREATE OR REPLACE FUNCTION cutter_governance.fn_statement_store(
    p_run_id text, p_epoch bigint, p_holder uuid, p_body text, p_public_key text, p_signature text)
RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $fn$
DECLARE
    v_set record;
    v_subjects jsonb;
    v_sha256 text := encode(sha256(convert_to(p_body, 'UTF8')), 'hex');
BEGIN
    PERFORM cutter_governance.fn_run_fence_assert(p_run_id, p_epoch, p_holder);
    SELECT c.change_set_id, encode(sha256(s.content), 'hex') AS sha256, u.approval_id INTO v_set
    FROM cutter_governance.cut_change_set c
    JOIN iu_core.source_version s ON s.source_version_id = c.source_version_id
    JOIN cutter_governance.run_effect e ON e.run_id = c.run_id AND e.effect = 'enact' AND e.verdict = 'commit'
    JOIN cutter_governance.approval_use u ON u.effect_id = e.effect_id
    WHERE c.run_id = p_run_id AND c.kind = 'cut' AND c.live;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'run % has nothing in force that a statement could be about', p_run_id USING ERRCODE = 'CUD24';
    END IF;
    v_subjects := jsonb_build_array(
        jsonb_build_object('name', 'text', 'digest', jsonb_build_object('sha256', v_set.sha256)),
        jsonb_build_object('name', 'units', 'digest', jsonb_build_object('cutterRowsV1', coalesce(
            cutter_governance.fn_consent_rows(v_set.approval_id),
            cutter_governance.fn_rows_digest(v_set.change_set_id)))));
    IF p_body::jsonb -> 'subject' IS DISTINCT FROM v_subjects THEN
        RAISE EXCEPTION 'statement of run %: expected the subjects %, observed %', p_run_id, v_subjects,
            p_body::jsonb -> 'subject' USING ERRCODE = 'CUD24';
    END IF;
    INSERT INTO cutter_governance.run_statement (run_id, sha256, body) VALUES (p_run_id, v_sha256, p_body)
    ON CONFLICT DO NOTHING;
    INSERT INTO cutter_governance.statement_signature (run_id, statement_sha256, duty, public_key, signature)
    VALUES (p_run_id, v_sha256, 'executor', p_public_key, p_signature) ON CONFLICT DO NOTHING;
END
$fn$;

DROP FUNCTION cutter_governance.fn_statement_sign(text, bigint, uuid, text, text);
-- The verifier's signature over a stored statement, by a key of its own.
CREATE FUNCTION cutter_governance.fn_statement_sign(
    p_run_id text, p_epoch bigint, p_holder uuid, p_sha256 text, p_public_key text, p_signature text)
RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $fn$
BEGIN
    PERFORM cutter_governance.fn_run_fence_assert(p_run_id, p_epoch, p_holder);
    IF NOT EXISTS (
        SELECT FROM cutter_governance.statement_signature g
        WHERE g.run_id = p_run_id AND g.statement_sha256 = p_sha256 AND g.duty = 'executor'
            AND g.public_key <> p_public_key)
    THEN
        RAISE EXCEPTION 'run % has no such statement that another key has signed', p_run_id USING ERRCODE = 'CUD24';
    END IF;
    INSERT INTO cutter_governance.statement_signature (run_id, statement_sha256, duty, public_key, signature)
    VALUES (p_run_id, p_sha256, 'verifier', p_public_key, p_signature) ON CONFLICT DO NOTHING;
END
$fn$;

SELECT cutter_meta.fn_grant_expected('^cutter_governance[.]fn_statement_sign$');

RESET ROLE;
