-- An approval is used by the transaction that carries out its effect, whole, or by none; an effect has the
-- form that its readers expect and a time to be stored; a run has one entry of its own; and no stored time
-- is one that no clock shows.
SET ROLE cutter_owner;

-- The owner brings rows back as they were, and is held by none of this.

-- At the end of the transaction that uses an approval: the effect is recorded there. So a use that nothing
-- was done with closes no ask, and lets nothing be done later.
CREATE FUNCTION cutter_governance.fn_use_carried_out() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $fn$
BEGIN
    IF NOT EXISTS (
        SELECT FROM cutter_governance.run_effect e
        WHERE e.run_id = NEW.run_id AND e.effect = NEW.effect AND e.effect_id = NEW.effect_id)
    THEN
        RAISE EXCEPTION 'approval % is used for % of run %, which is not recorded', NEW.approval_id, NEW.effect,
            NEW.run_id USING ERRCODE = 'CUD02';
    END IF;
    RETURN NULL;
END
$fn$;
CREATE CONSTRAINT TRIGGER trg_use_carried_out AFTER INSERT ON cutter_governance.approval_use
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (session_user = 'cutter_exec')
    EXECUTE FUNCTION cutter_governance.fn_use_carried_out();

-- The value of a field that stands once in a document, on a line of its own, without the blanks around it;
-- else NULL. Whoever judges the document reads it by the same rule.
CREATE OR REPLACE FUNCTION cutter_governance.fn_document_field(p_document bytea, p_field text) RETURNS text
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $fn$
    SELECT CASE WHEN count(*) = 1 THEN min(btrim(regexp_replace(
        substring(m.line[1] FROM '^' || p_field || ':(.*)$'), '\r$', ''), E' \t')) END
    FROM regexp_matches(convert_from(p_document, 'UTF8'), '^(' || p_field || '[ \t]*:.*)$', 'gn') AS m(line)
$fn$;

-- The rows_digest that a stored consent names, once and on a line of its own; else NULL.
CREATE OR REPLACE FUNCTION cutter_governance.fn_consent_rows(p_approval_id uuid) RETURNS text
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $fn$
    SELECT CASE WHEN count(*) = 1 THEN min(substring(m.line[1]
        FROM '^rows_digest:[ \t]*([0-9a-f]{64})[ \t]*\r?$')) END
    FROM cutter_governance.review_approval a
    CROSS JOIN LATERAL regexp_matches(convert_from(a.document, 'UTF8'), '^(rows_digest[ \t]*:.*)$', 'gn') AS m(line)
    WHERE a.approval_id = p_approval_id
$fn$;

-- As before; beyond it, facts have their form (CUD10), what is done once has occurrence 1, and a run that is
-- past a gate stores no more of what leads there (CUC20).
CREATE OR REPLACE FUNCTION cutter_governance.fn_run_effect_record(
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
    v_facts jsonb := p_facts::jsonb;
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
    -- paths, which are looked at without a plan: this is asked at each effect, in a session of its own
    IF (v_facts @? 'strict $ ? (@.survey_before.type() == "object" && @.survey_after.type() == "object"
            && @.values.type() == "object" && @.principal.type() == "string")') IS NOT TRUE
        OR v_facts @? 'strict $.survey_before.* ? (@.type() != "string")'
        OR v_facts @? 'strict $.survey_after.* ? (@.type() != "string")'
        OR v_facts @? 'strict $.values.* ? (@.type() != "string")'
        OR v_facts ? 'structural' AND (v_facts @? 'strict $.structural ? (@.type() == "null"
            || (@.units.type() == "number" && @.versions.type() == "number" && @.anchors.type() == "number"
            && @.distinct_addresses.type() == "number" && @.hash_mismatches.type() == "number"
            && @.non_draft.type() == "number" && @.orphans.type() == "number" && @.forbidden.type() == "number"
            && @.section_types.type() == "object" && @.unit_kinds.type() == "object"
            && (@.addresses_sha.type() == "null" || @.addresses_sha like_regex "^[0-9a-f]{64}$")
            && (@.region_sha.type() == "null" || @.region_sha like_regex "^[0-9a-f]{64}$")))') IS NOT TRUE
        OR v_facts @? 'strict $.structural.section_types.* ? (@.type() != "number" || @ < 0 || @.floor() != @)'
        OR v_facts @? 'strict $.structural.unit_kinds.* ? (@.type() != "number" || @ < 0 || @.floor() != @)'
        OR v_facts @? 'strict $.structural.* ? (@.type() == "number" && (@ < 0 || @.floor() != @))'
        OR p_occurrence <> 1 AND p_effect IN ('mark', 'leg_a', 'leg_b', 'write_verify', 'enact', 'void')
    THEN
        RAISE EXCEPTION 'effect % of run % has not the form of one', p_effect, p_run_id USING ERRCODE = 'CUD10';
    END IF;
    IF EXISTS (SELECT FROM cutter_governance.run_effect e WHERE e.run_id = p_run_id AND e.verdict = 'commit'
        AND e.effect = CASE WHEN p_effect IN ('sweep', 'sg1_review') THEN 'leg_a'
            WHEN p_effect IN ('sg2_request', 'sg2_review') THEN 'enact' END)
    THEN
        RAISE EXCEPTION 'run % is past that: no % of it is stored any more', p_run_id, p_effect USING ERRCODE = 'CUC20';
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
        p_payload_sha256, p_verdict, v_facts, p_at, p_document_id);
    IF p_effect IN ('mark', 'leg_a', 'write_verify', 'void') THEN
        PERFORM cutter_governance.fn_cut_request_follow(p_run_id, p_effect, p_actor, p_at);
    END IF;
END
$fn$;

-- A run has one entry of its own, of the document that it cuts.
CREATE FUNCTION cutter_governance.fn_entry_of_run() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $fn$
DECLARE
    v_other text;
BEGIN
    SELECT 'another entry, ' || e.entry_id INTO v_other
    FROM cutter_governance.decision_backlog_entry e
    WHERE e.run_id = NEW.run_id AND e.escalates_entry_id IS NULL AND e.entry_id <> NEW.entry_id
        AND e.status <> 'abandoned'
    UNION ALL
    SELECT 'another document, ' || f.document_id
    FROM cutter_governance.run_fence f
    WHERE f.run_id = NEW.run_id AND f.document_id <> NEW.document_id
    LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'entry % is none of run %, which has %', NEW.entry_id, NEW.run_id, v_other
            USING ERRCODE = 'CUC03';
    END IF;
    RETURN NULL;
END
$fn$;
CREATE CONSTRAINT TRIGGER trg_entry_of_run AFTER INSERT ON cutter_governance.decision_backlog_entry
    NOT DEFERRABLE FOR EACH ROW
    WHEN (session_user = 'cutter_exec' AND NEW.run_id IS NOT NULL AND NEW.escalates_entry_id IS NULL)
    EXECUTE FUNCTION cutter_governance.fn_entry_of_run();

-- Every time that somebody gives lies in the years that clocks show: what reads it can. Not of units, which
-- are written one a statement, each of which would read the check anew: whoever reads them reads one document.
DO $do$
DECLARE
    r record;
BEGIN
    FOR r IN
        SELECT n.nspname, c.relname, a.attname
        FROM pg_class c
        JOIN pg_namespace n ON n.oid = c.relnamespace
        JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
        WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition AND a.atttypid = 'timestamptz'::regtype
            AND c.relowner = 'cutter_owner'::regrole AND n.nspname NOT LIKE 'pg\_%'
            AND c.relname NOT IN ('information_unit', 'unit_version', 'iu_lifecycle_log')
        ORDER BY n.nspname, c.relname, a.attnum
    LOOP
        EXECUTE format('ALTER TABLE %I.%I ADD CONSTRAINT %I CHECK (%I >= %L AND %4$I < %6$L) NOT VALID', r.nspname,
            r.relname, r.relname || '_' || r.attname || '_time_check', r.attname, '1900-01-01 00:00:00+00',
            '9999-12-31 00:00:00+00');
    END LOOP;
END
$do$;

RESET ROLE;
