-- A statement is stored without the rows being digested once more.
SET ROLE cutter_owner;

-- Stores the statement under the driver's fence, with the executor's signature. Text and units are
-- looked up here: a statement about others is refused. The transaction that enacted compared the rows
-- with what the approval names, and they are immutable since, so the approval says which they are; only
-- one of before approvals named rows leaves them to be digested. The same statement again is fine,
-- another is CUC11.
CREATE OR REPLACE FUNCTION cutter_governance.fn_statement_store(
    p_run_id text, p_epoch bigint, p_holder uuid, p_body text, p_public_key text, p_signature text)
RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $fn$
DECLARE
    v_set record;
    v_subjects jsonb;
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
    INSERT INTO cutter_governance.run_statement (run_id, body) VALUES (p_run_id, p_body) ON CONFLICT DO NOTHING;
    IF NOT EXISTS (SELECT FROM cutter_governance.run_statement t WHERE t.run_id = p_run_id AND t.body = p_body) THEN
        RAISE EXCEPTION 'run % has made another statement already', p_run_id USING ERRCODE = 'CUC11';
    END IF;
    INSERT INTO cutter_governance.statement_signature (run_id, duty, public_key, signature)
    VALUES (p_run_id, 'executor', p_public_key, p_signature) ON CONFLICT DO NOTHING;
END
$fn$;

RESET ROLE;
