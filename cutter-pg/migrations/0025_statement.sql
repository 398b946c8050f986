-- What a closed run says of itself: a statement, stored once, and a signature of each duty over it.
SET ROLE cutter_owner;

CREATE TABLE cutter_governance.run_statement (
    run_id      text COLLATE "C" PRIMARY KEY REFERENCES cutter_governance.run_fence,
    -- An in-toto Statement v1, canonical JSON: what the signatures cover, in DSSE's encoding.
    body        text NOT NULL CHECK (octet_length(body) BETWEEN 2 AND 65536),
    recorded_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    inserted_by name NOT NULL DEFAULT session_user CHECK (inserted_by = 'cutter_exec')
);
COMMENT ON TABLE cutter_governance.run_statement IS
    'What a run says of itself once its units are in force: text, units, who allowed it, the version before, digests of its rows.';
CREATE TRIGGER trg_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON cutter_governance.run_statement
    FOR EACH STATEMENT EXECUTE FUNCTION cutter_governance.fn_append_only();

CREATE TABLE cutter_governance.statement_signature (
    run_id      text COLLATE "C" NOT NULL REFERENCES cutter_governance.run_statement,
    duty        text COLLATE "C" NOT NULL CHECK (duty IN ('executor', 'verifier')),
    public_key  text COLLATE "C" NOT NULL CHECK (public_key ~ '^[0-9a-f]{64}$'),
    signature   text COLLATE "C" NOT NULL CHECK (signature ~ '^[0-9a-f]{128}$'),
    recorded_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    inserted_by name NOT NULL DEFAULT session_user CHECK (inserted_by =
        CASE duty WHEN 'executor' THEN 'cutter_exec' ELSE 'cutter_verify' END),
    PRIMARY KEY (run_id, duty)
);
COMMENT ON TABLE cutter_governance.statement_signature IS
    'Ed25519 over a run''s statement, one row for each duty, each stored by its own login.';
CREATE TRIGGER trg_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON cutter_governance.statement_signature
    FOR EACH STATEMENT EXECUTE FUNCTION cutter_governance.fn_append_only();
CREATE TRIGGER trg_duty_key_guard BEFORE INSERT ON cutter_governance.statement_signature
    FOR EACH ROW EXECUTE FUNCTION cutter_governance.fn_duty_key_guard();

-- Stores the statement under the driver's fence, with the executor's signature. Text and units are
-- looked up here: a statement about others is refused. The same one again is fine, another is CUC11.
CREATE FUNCTION cutter_governance.fn_statement_store(
    p_run_id text, p_epoch bigint, p_holder uuid, p_body text, p_public_key text, p_signature text)
RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $fn$
DECLARE
    v_set record;
    v_subjects jsonb;
BEGIN
    PERFORM cutter_governance.fn_run_fence_assert(p_run_id, p_epoch, p_holder);
    SELECT c.change_set_id, encode(sha256(s.content), 'hex') AS sha256 INTO v_set
    FROM cutter_governance.cut_change_set c
    JOIN iu_core.source_version s ON s.source_version_id = c.source_version_id
    WHERE c.run_id = p_run_id AND c.kind = 'cut' AND c.live AND EXISTS (
        SELECT FROM cutter_governance.run_effect e
        WHERE e.run_id = p_run_id AND e.effect = 'enact' AND e.verdict = 'commit');
    IF NOT FOUND THEN
        RAISE EXCEPTION 'run % has nothing in force that a statement could be about', p_run_id USING ERRCODE = 'CUD24';
    END IF;
    v_subjects := jsonb_build_array(
        jsonb_build_object('name', 'text', 'digest', jsonb_build_object('sha256', v_set.sha256)),
        jsonb_build_object('name', 'units', 'digest', jsonb_build_object('cutterRowsV1',
            cutter_governance.fn_rows_digest(v_set.change_set_id))));
    IF p_body::jsonb -> 'subject' IS DISTINCT FROM v_subjects THEN
        RAISE EXCEPTION 'statement of run %: expected the subjects %, observed %', p_run_id, v_subjects,
            p_body::jsonb -> 'subject' USING ERRCODE = 'CUD24';
    END IF;
    INSERT INTO cutter_governance.run_statement (run_id, body) VALUES (p_run_id, p_body) ON CONFLICT DO NOTHING;
    IF NOT EXISTS (SELECT FROM cutter_governance.run_statement t WHERE t.run_id = p_run_id AND t.body = p_body) THEN
        RAISE EXCEPTION 'run % has made another statement already', p_run_id USING ERRCODE = 'CUC11';
    END IF;
    INSERT INTO cutter_governance.statement_signature (run_id, duty, public_key, signature)
    VALUES (p_run_id, 'executor', p_public_key, p_signature) ON CONFLICT DO NOTHING;
END
$fn$;

-- The verifier's signature over the stored statement, by a key of its own.
CREATE FUNCTION cutter_governance.fn_statement_sign(
    p_run_id text, p_epoch bigint, p_holder uuid, p_public_key text, p_signature text)
RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $fn$
BEGIN
    PERFORM cutter_governance.fn_run_fence_assert(p_run_id, p_epoch, p_holder);
    IF NOT EXISTS (
        SELECT FROM cutter_governance.statement_signature g
        WHERE g.run_id = p_run_id AND g.duty = 'executor' AND g.public_key <> p_public_key)
    THEN
        RAISE EXCEPTION 'run % has no statement that another key has signed', p_run_id USING ERRCODE = 'CUD24';
    END IF;
    INSERT INTO cutter_governance.statement_signature (run_id, duty, public_key, signature)
    VALUES (p_run_id, 'verifier', p_public_key, p_signature) ON CONFLICT DO NOTHING;
END
$fn$;

INSERT INTO cutter_governance.grant_expectation (grantee, privilege, kind, object)
SELECT g.grantee, 'SELECT', 'TABLE', 'cutter_governance.' || t.name
FROM unnest(ARRAY['cutter_exec', 'cutter_verify', 'cutter_ro']) AS g(grantee),
    unnest(ARRAY['run_statement', 'statement_signature']) AS t(name)
UNION ALL
VALUES ('cutter_exec', 'EXECUTE', 'FUNCTION', 'cutter_governance.fn_statement_store'),
    ('cutter_verify', 'EXECUTE', 'FUNCTION', 'cutter_governance.fn_statement_sign');

SELECT cutter_meta.fn_grant_expected('^cutter_governance[.](run_statement|statement_signature|fn_statement_store|fn_statement_sign)$');

RESET ROLE;
