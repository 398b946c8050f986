-- The policy is the database's: who may approve, and how, is a chain of events that only the
-- administrator appends and that approvers sign. PostgreSQL can't check their signatures, so what
-- stands here is transport: every driver walks the chain before it relies on it.
--
-- And a run's record keeps what it fixed: no later revision may say otherwise.
SET ROLE cutter_owner;

CREATE TABLE cutter_governance.policy_event (
    seq         bigint PRIMARY KEY CHECK (seq >= 1),
    previous    text COLLATE "C" UNIQUE CHECK ((previous IS NULL) = (seq = 1)),
    document    bytea NOT NULL CHECK (octet_length(document) BETWEEN 1 AND 65536),
    sha256      text COLLATE "C" NOT NULL UNIQUE CHECK (sha256 = encode(sha256(document), 'hex')),
    inserted_by name NOT NULL DEFAULT session_user,
    recorded_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    FOREIGN KEY (previous) REFERENCES cutter_governance.policy_event (sha256)
);
COMMENT ON TABLE cutter_governance.policy_event IS
    'Who may approve, and how: one event a row, byte for byte, each naming the sha256 of the one before. recorded_at is the server''s clock, by which old signatures are judged.';

CREATE TABLE cutter_governance.policy_key (
    sha256      text COLLATE "C" PRIMARY KEY CHECK (sha256 = encode(sha256(public_key), 'hex')),
    public_key  bytea NOT NULL CHECK (octet_length(public_key) BETWEEN 1 AND 262144),
    inserted_by name NOT NULL DEFAULT session_user,
    recorded_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
COMMENT ON TABLE cutter_governance.policy_key IS 'Public keys that policy events name by their sha256.';

CREATE TRIGGER trg_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON cutter_governance.policy_event
    FOR EACH STATEMENT EXECUTE FUNCTION cutter_governance.fn_append_only();
CREATE TRIGGER trg_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON cutter_governance.policy_key
    FOR EACH STATEMENT EXECUTE FUNCTION cutter_governance.fn_append_only();

-- Appends an event and the keys that it names: applied, already_applied (the same document under
-- the same number), or conflict; highest is the highest number. The owner's alone: no login of a
-- run may call it.
CREATE FUNCTION cutter_governance.fn_policy_append(
    p_seq bigint, p_previous text, p_document bytea, p_keys bytea[], OUT outcome text, OUT highest bigint)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $fn$
DECLARE
    v_text text := convert_from(p_document, 'UTF8');
    v_last cutter_governance.policy_event;
    v_line text;
BEGIN
    FOREACH v_line IN ARRAY ARRAY['seq: ' || p_seq, 'previous: ' || coalesce(p_previous, 'none')] LOOP
        IF (SELECT count(*) FROM regexp_split_to_table(v_text, '\r?\n') AS l(line) WHERE l.line = v_line) <> 1 THEN
            RAISE EXCEPTION 'policy event %: expected one line %, observed another number of them', p_seq, v_line
                USING ERRCODE = 'CU001';
        END IF;
    END LOOP;
    -- One after the other.
    LOCK TABLE cutter_governance.policy_event IN SHARE ROW EXCLUSIVE MODE;
    SELECT e.* INTO v_last FROM cutter_governance.policy_event e ORDER BY e.seq DESC LIMIT 1;
    highest := coalesce(v_last.seq, 0);
    IF EXISTS (SELECT FROM cutter_governance.policy_event e WHERE e.seq = p_seq AND e.document = p_document) THEN
        outcome := 'already_applied';
        RETURN;
    END IF;
    IF p_seq <> highest + 1 OR p_previous IS DISTINCT FROM v_last.sha256 THEN
        outcome := 'conflict';
        RETURN;
    END IF;
    INSERT INTO cutter_governance.policy_key (sha256, public_key)
    SELECT encode(sha256(k.public_key), 'hex'), k.public_key FROM unnest(p_keys) AS k(public_key)
    ON CONFLICT (sha256) DO NOTHING;
    INSERT INTO cutter_governance.policy_event (seq, previous, document, sha256)
    VALUES (p_seq, p_previous, p_document, encode(sha256(p_document), 'hex'));
    outcome := 'applied';
    highest := p_seq;
END
$fn$;

-- The key that a duty signs with, by the last event that names one; NULL where none is registered.
CREATE FUNCTION cutter_governance.fn_duty_key(p_duty text) RETURNS text
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $fn$
    SELECT m.found[2]
    FROM cutter_governance.policy_event e
    CROSS JOIN LATERAL regexp_matches(convert_from(e.document, 'UTF8'),
        '^change: duty_key_(registered|rotated) ' || p_duty || ' ([0-9a-f]{64})\r?$', 'gn')
        WITH ORDINALITY AS m(found, place)
    ORDER BY e.seq DESC, m.place DESC LIMIT 1
$fn$;

-- When a signature and a consent were stored, by the server's clock: the policy of then judges
-- them. NULL in rows of before.
ALTER TABLE cutter_governance.dot_pair_signature ADD COLUMN IF NOT EXISTS recorded_at timestamptz;
ALTER TABLE cutter_governance.dot_pair_signature ALTER COLUMN recorded_at SET DEFAULT clock_timestamp();
ALTER TABLE cutter_governance.review_approval ADD COLUMN IF NOT EXISTS recorded_at timestamptz;
ALTER TABLE cutter_governance.review_approval ALTER COLUMN recorded_at SET DEFAULT clock_timestamp();

-- As before, but for the columns of a signature, which are named: when it was stored is no state.
CREATE OR REPLACE FUNCTION cutter_governance.fn_base_state_tables(p_document_id text, p_exclude_run text)
RETURNS TABLE (table_name text, row_count bigint, sha256 text)
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan
SET timezone = 'UTC' SET datestyle = 'ISO, YMD'
SET bytea_output = 'hex' SET extra_float_digits = 1 AS $fn$
DECLARE
    v_document uuid;
BEGIN
    SELECT d.source_document_id INTO v_document
    FROM iu_core.source_document d WHERE d.document_id = p_document_id;

    RETURN QUERY
    WITH sets AS MATERIALIZED (
        SELECT c.* FROM cutter_governance.cut_change_set c
        WHERE c.document_id = p_document_id AND c.run_id <> p_exclude_run
    ), entries AS MATERIALIZED (
        SELECT e.* FROM cutter_governance.decision_backlog_entry e
        WHERE e.document_id = p_document_id AND e.run_id <> p_exclude_run
    ), units AS MATERIALIZED (
        SELECT u.* FROM iu_core.information_unit u
        WHERE u.source_document_id = v_document AND u.change_set_id IN (SELECT s.change_set_id FROM sets s)
    ), lines(tab, key, line) AS (
        SELECT 'iu_core.source_document', d.source_document_id::text, ROW(d.*)::text
        FROM iu_core.source_document d WHERE d.source_document_id = v_document
        UNION ALL
        SELECT 'iu_core.source_version', v.source_version_id::text, ROW(v.source_version_id, v.source_document_id,
            v.version_no, v.sha256, v.byte_length, v.manifest_digest, v.registered_by, v.registered_at)::text
        FROM iu_core.source_version v WHERE v.source_document_id = v_document
        UNION ALL
        SELECT 'iu_core.information_unit', u.unit_id::text, ROW(u.unit_id, u.change_set_id, u.document_id,
            u.source_document_id, u.source_version_id, u.ordinal, u.canonical_address, u.citation_address,
            u.unit_kind, u.section_type, u.content_hash, u.body_hash, u.idempotency_key, u.lifecycle_status,
            u.created_at)::text
        FROM units u
        UNION ALL
        SELECT 'iu_core.unit_version', v.version_id::text, ROW(v.version_id, v.unit_id, v.version_seq,
            v.content_hash, v.body_hash, v.actor, v.created_at)::text
        FROM units u JOIN iu_core.unit_version v ON v.unit_id = u.unit_id
        UNION ALL
        SELECT 'iu_core.unit_anchor', a.anchor_id::text, ROW(a.anchor_id, a.unit_id, a.change_set_id,
            a.source_version_id, a.source_bytes, a.start_byte, a.end_byte)::text
        FROM units u JOIN iu_core.unit_anchor a ON a.unit_id = u.unit_id
        UNION ALL
        SELECT 'iu_core.iu_lifecycle_log', l.unit_id || ' ' || l.to_status, ROW(l.unit_id, l.change_set_id,
            l.run_id, l.from_status, l.to_status, l.reason_id, l.reason, l.actor, l.at)::text
        FROM sets s JOIN iu_core.iu_lifecycle_log l ON l.change_set_id = s.change_set_id
        UNION ALL
        SELECT 'iu_core.iu_staging_record', r.staging_record_id::text, ROW(r.*)::text
        FROM iu_core.iu_staging_record r WHERE r.document_id = p_document_id
        UNION ALL
        SELECT 'iu_core.iu_staging_payload', p.staging_record_id::text,
            ROW(p.staging_record_id, encode(pg_catalog.sha256(p.content), 'hex'))::text
        FROM iu_core.iu_staging_record r JOIN iu_core.iu_staging_payload p USING (staging_record_id)
        WHERE r.document_id = p_document_id
        UNION ALL
        SELECT 'cutter_governance.cut_change_set', s.change_set_id::text, ROW(s.change_set_id, s.kind, s.live,
            s.run_id, s.document_id, s.source_document_id, s.source_version_id, s.source_bytes, s.entry_id,
            s.approval_id, s.review_decision_id, s.compensates_id, s.idempotency_key, s.writer_digest,
            s.manifest_digest, s.region_sha, s.publication_type, s.unit_count, s.actor, s.inserted_by, s.at)::text
        FROM sets s
        UNION ALL
        SELECT 'cutter_governance.change_set_void', v.void_id::text, ROW(v.*)::text
        FROM sets s JOIN cutter_governance.change_set_void v USING (change_set_id)
        UNION ALL
        SELECT 'cutter_governance.manifest_envelope', m.id::text, ROW(m.*)::text
        FROM sets s JOIN cutter_governance.manifest_envelope m USING (change_set_id)
        UNION ALL
        SELECT 'cutter_governance.dot_pair_signature', g.signature_id::text, ROW(g.signature_id, g.run_id,
            g.change_set_id, g.duty, g.payload, g.public_key, g.signature, g.inserted_by, g.at)::text
        FROM sets s JOIN cutter_governance.dot_pair_signature g USING (change_set_id)
        UNION ALL
        SELECT 'cutter_governance.verify_result', r.id::text, ROW(r.*)::text
        FROM sets s JOIN cutter_governance.verify_result r USING (change_set_id)
        UNION ALL
        SELECT 'cutter_governance.review_decision', r.id::text, ROW(r.*)::text
        FROM cutter_governance.review_decision r
        WHERE r.document_id = p_document_id AND r.run_id <> p_exclude_run
        UNION ALL
        SELECT 'cutter_governance.review_approval', a.approval_id::text, ROW(a.approval_id, a.review_decision_id,
            a.run_id, a.document_id, a.type, a.decision, a.approval_kb_id, a.sha256, a.nonce, a.fingerprint,
            a.actor, a.expires_at, a.request_sha256, a.inserted_by, a.at)::text
        FROM cutter_governance.review_approval a
        WHERE a.document_id = p_document_id AND a.run_id <> p_exclude_run
        UNION ALL
        SELECT 'cutter_governance.approval_use', p.approval_id::text, ROW(p.*)::text
        FROM cutter_governance.review_approval a JOIN cutter_governance.approval_use p USING (approval_id)
        WHERE a.document_id = p_document_id AND a.run_id <> p_exclude_run
        UNION ALL
        SELECT 'cutter_governance.decision_backlog_entry', e.entry_id::text, ROW(e.entry_id, e.run_id,
            e.document_id, e.source_document_id, e.source_version_id, e.status, e.idempotency_key, e.region_sha,
            e.manifest_digest, e.candidate_count, e.escalates_entry_id, e.actor, e.at)::text
        FROM entries e
        UNION ALL
        SELECT 'cutter_governance.decision_backlog_history', h.history_id::text, ROW(h.*)::text
        FROM entries e JOIN cutter_governance.decision_backlog_history h USING (entry_id)
        UNION ALL
        SELECT 'public.dot_config', c.config_key, ROW(c.config_key, c.config_value, c.description)::text
        FROM public.dot_config c WHERE starts_with(c.config_key, 'vocab.')
    )
    SELECT t.tab, count(l.key), cutter_governance.fn_sha256_text(
        coalesce(string_agg(l.line || E'\n', '' ORDER BY l.key COLLATE "C"), ''))
    FROM unnest(ARRAY['iu_core.source_document', 'iu_core.source_version', 'iu_core.information_unit',
        'iu_core.unit_version', 'iu_core.unit_anchor', 'iu_core.iu_lifecycle_log', 'iu_core.iu_staging_record',
        'iu_core.iu_staging_payload', 'cutter_governance.cut_change_set', 'cutter_governance.change_set_void',
        'cutter_governance.manifest_envelope', 'cutter_governance.dot_pair_signature',
        'cutter_governance.verify_result', 'cutter_governance.review_decision',
        'cutter_governance.review_approval', 'cutter_governance.approval_use',
        'cutter_governance.decision_backlog_entry', 'cutter_governance.decision_backlog_history',
        'public.dot_config']) AS t(tab)
    LEFT JOIN lines l ON l.tab = t.tab
    GROUP BY t.tab
    ORDER BY t.tab COLLATE "C";
END
$fn$;

-- A duty's signature is by the key that is registered for it, where one is.
CREATE FUNCTION cutter_governance.fn_duty_key_guard() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $fn$
DECLARE
    v_key text := cutter_governance.fn_duty_key(NEW.duty);
BEGIN
    IF v_key <> NEW.public_key THEN
        RAISE EXCEPTION 'signature of the %: expected the registered key %, observed %', NEW.duty, v_key, NEW.public_key
            USING ERRCODE = 'CUD20';
    END IF;
    RETURN NEW;
END
$fn$;
CREATE TRIGGER trg_duty_key_guard BEFORE INSERT ON cutter_governance.dot_pair_signature
    FOR EACH ROW EXECUTE FUNCTION cutter_governance.fn_duty_key_guard();

-- Where a revision rewrites what the one before it fixed: the field, else NULL. A text that is no
-- record fixes nothing; behind a record nothing else may come.
CREATE FUNCTION cutter_run.fn_rewritten(p_before bytea, p_after bytea) RETURNS text
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $fn$
DECLARE
    v_before jsonb;
    v_after jsonb;
    v_key text;
    v_links integer;
BEGIN
    BEGIN
        v_before := convert_from(p_before, 'UTF8')::jsonb;
    EXCEPTION WHEN data_exception THEN
        RETURN NULL;
    END;
    IF jsonb_typeof(v_before -> 'transitions') IS DISTINCT FROM 'array' THEN
        RETURN NULL;
    END IF;
    BEGIN
        v_after := convert_from(p_after, 'UTF8')::jsonb;
    EXCEPTION WHEN data_exception THEN
        RETURN 'the whole';
    END;
    FOREACH v_key IN ARRAY ARRAY['run_id', 'document_id', 'created_by', 'created_utc', 'settings', 'creation'] LOOP
        IF v_before -> v_key IS DISTINCT FROM v_after -> v_key THEN
            RETURN v_key;
        END IF;
    END LOOP;
    v_links := jsonb_array_length(v_before -> 'transitions');
    IF jsonb_typeof(v_after -> 'transitions') IS DISTINCT FROM 'array'
        OR (SELECT jsonb_agg(t.link ORDER BY t.place)
            FROM jsonb_array_elements(v_after -> 'transitions') WITH ORDINALITY AS t(link, place)
            WHERE t.place <= v_links) IS DISTINCT FROM nullif(v_before -> 'transitions', '[]'::jsonb)
    THEN
        RETURN 'an earlier transition';
    END IF;
    RETURN NULL;
END
$fn$;

CREATE FUNCTION cutter_run.fn_revision_keeps() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $fn$
DECLARE
    v_before bytea := cutter_run.fn_run_text(NEW.run_id, NEW.revision - 1);
    v_what text := cutter_run.fn_rewritten(v_before,
        CASE WHEN NEW.places IS NULL THEN NEW.body ELSE cutter_run.fn_splice(v_before, NEW.places, NEW.body) END);
BEGIN
    IF v_what IS NOT NULL THEN
        RAISE EXCEPTION 'revision % of run %: expected % as revision % has it, observed another',
            NEW.revision, NEW.run_id, v_what, NEW.revision - 1 USING ERRCODE = 'CUD21';
    END IF;
    RETURN NEW;
END
$fn$;
CREATE TRIGGER trg_revision_keeps BEFORE INSERT ON cutter_run.revision
    FOR EACH ROW WHEN (NEW.revision > 1) EXECUTE FUNCTION cutter_run.fn_revision_keeps();

INSERT INTO cutter_governance.grant_expectation (grantee, privilege, kind, object)
SELECT g.grantee, 'SELECT', 'TABLE', 'cutter_governance.' || t.name
FROM unnest(ARRAY['cutter_exec', 'cutter_verify', 'cutter_review', 'cutter_ro']) AS g(grantee),
    unnest(ARRAY['policy_event', 'policy_key']) AS t(name);
-- The ones that a reader of a report wants to see refused.
INSERT INTO cutter_governance.grant_expectation (grantee, privilege, kind, object, wanted)
SELECT g.grantee, v.privilege, v.kind, v.object, false
FROM unnest(ARRAY['cutter_exec', 'cutter_verify', 'cutter_review', 'cutter_ro', 'directus']) AS g(grantee),
    (VALUES ('INSERT', 'TABLE', 'cutter_governance.policy_event'),
        ('UPDATE', 'TABLE', 'cutter_governance.policy_event'),
        ('DELETE', 'TABLE', 'cutter_governance.policy_event'),
        ('EXECUTE', 'FUNCTION', 'cutter_governance.fn_policy_append')) AS v(privilege, kind, object);

SELECT cutter_meta.fn_grant_expected('^cutter_governance[.](policy_event|policy_key)$');

RESET ROLE;
