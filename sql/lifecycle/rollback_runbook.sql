-- Emergency revert of one document, from a restored backup. For the sovereign's hand only.
--
-- WHEN. Units of a document must go although they are enacted, or are damaged in place: a case
-- that no governed act covers. Before units are enacted, void the run instead (cutter orchestrate
-- void); a text that was cut wrongly is cut again as a new version. No program calls this file.
--
-- WHO. The sovereign decides, in writing: a clear-signed statement that names the document and the
-- backup's base state, checked with gpgv before anything is run here. An administrator
-- (superuser) carries it out, with a second pair of eyes.
--
-- WHAT IT DOES, in one transaction, for one document:
--   1. raises the fence of every run of the document and locks the document, so no run writes;
--   2. reads the content tables from the scratch database, whose base state must be the one that
--      you give: information_unit, unit_version, unit_anchor, iu_lifecycle_log;
--   3. stores the signed statement as the reviewer's consent;
--   4. removes the document's content rows, immutability triggers off, and puts those of the
--      backup there;
--   5. ends the change sets that the backup does not have: a change_set_void row, live off, their
--      entries abandoned. Decisions, approvals, signatures, verdicts and history all stay: they
--      tell what happened, this revert included;
--   6. compares the content tables with the scratch database, row by row, and fails on any
--      difference.
-- It never touches source texts, and refuses if the backup has a change set that is not live here
-- any more: what a governed act voided stays void.
--
-- BEFORE.
--   a. cutter orchestrate stop, for every open run of the document.
--   b. Take a backup of how it stands now; this is the only copy of what will be removed.
--   c. cutter backup inspect BLOB         → base_state_sha, run_id
--   d. cutter backup restore BLOB --into SCRATCH, on the same server.
--   e. Rehearse (the default): everything happens, and is rolled back.
--
-- RUN, as a superuser connected to the database in use, PGPASSWORD or a password file for both
-- sessions:
--   psql -X -f sql/lifecycle/rollback_runbook.sql \
--        -v document_id=LAW-1 -v confirm='REVERT LAW-1' -v scratch=SCRATCH \
--        -v base_state=<64 hex digits> -v run_id=<the backup's run> \
--        -v statement=<file> -v fingerprint=<signer's primary key> -v sovereign=<name> \
--        -v mode=rehearse            (then once more with -v mode=commit)
--
-- CHECK, AFTER.
--   * it printed "reverted" and psql ended with status 0; anything else changed nothing;
--   * a new backup of the document has, by cutter backup inspect, the same count and sha256 as the
--     restored one for the four content tables and unit_version.content;
--   * cutter db check is clean: the triggers are on again;
--   * open runs of the document stop with drift; void them. Drop the scratch database.
--
-- Locks: the content tables take no writes of other documents while this runs.

\set ON_ERROR_STOP on
\set QUIET on
\pset tuples_only on
\pset format unaligned
\timing off

\if :{?document_id} \else \set document_id '' \endif
\if :{?confirm} \else \set confirm '' \endif
\if :{?scratch} \else \set scratch '' \endif
\if :{?base_state} \else \set base_state '' \endif
\if :{?run_id} \else \set run_id '' \endif
\if :{?statement} \else \set statement '' \endif
\if :{?fingerprint} \else \set fingerprint '' \endif
\if :{?sovereign} \else \set sovereign '' \endif
\if :{?mode} \else \set mode rehearse \endif

BEGIN ISOLATION LEVEL READ COMMITTED;
SET LOCAL search_path = pg_catalog, pg_temp;
SET LOCAL lock_timeout = '10s';
SET LOCAL client_min_messages = warning;
SET LOCAL synchronous_commit = on;

SELECT set_config('cutter.document_id', :'document_id', true),
    set_config('cutter.confirm', :'confirm', true), set_config('cutter.scratch', :'scratch', true),
    set_config('cutter.base_state', :'base_state', true), set_config('cutter.run_id', :'run_id', true),
    set_config('cutter.fingerprint', :'fingerprint', true), set_config('cutter.sovereign', :'sovereign', true),
    set_config('cutter.mode', :'mode', true) \g /dev/null

-- Nothing below runs by accident: every value must be given, and the document named twice.
DO $do$
DECLARE
    v_document text := current_setting('cutter.document_id');
BEGIN
    IF v_document !~ '^[A-Z][A-Z0-9]*(-[A-Z0-9]+)*$' THEN
        RAISE EXCEPTION 'runbook: expected -v document_id=<a document''s id>, observed "%"', v_document;
    END IF;
    IF current_setting('cutter.confirm') <> 'REVERT ' || v_document THEN
        RAISE EXCEPTION 'runbook: expected -v confirm=''REVERT %'', observed "%"', v_document,
            current_setting('cutter.confirm');
    END IF;
    IF current_setting('cutter.base_state') !~ '^[0-9a-f]{64}$' THEN
        RAISE EXCEPTION 'runbook: expected -v base_state=<64 hex digits, from cutter backup inspect>';
    END IF;
    IF current_setting('cutter.run_id') !~ '^[A-Za-z0-9-]{1,128}$' THEN
        RAISE EXCEPTION 'runbook: expected -v run_id=<the run that took the backup>';
    END IF;
    IF current_setting('cutter.scratch') !~ '^[a-z][a-z0-9_]*$' OR current_setting('cutter.scratch') = current_database() THEN
        RAISE EXCEPTION 'runbook: expected -v scratch=<the restored database, another than this one>';
    END IF;
    IF current_setting('cutter.fingerprint') !~ '^[0-9A-Fa-f]{40,64}$' OR current_setting('cutter.sovereign') = '' THEN
        RAISE EXCEPTION 'runbook: expected -v fingerprint=<of the key that signed the statement> and -v sovereign=<name>';
    END IF;
    IF current_setting('cutter.mode') NOT IN ('rehearse', 'commit') THEN
        RAISE EXCEPTION 'runbook: expected -v mode=rehearse or -v mode=commit, observed "%"', current_setting('cutter.mode');
    END IF;
    IF NOT (SELECT r.rolsuper FROM pg_roles r WHERE r.rolname = session_user) THEN
        RAISE EXCEPTION 'runbook: % is no superuser', session_user;
    END IF;
END
$do$;

-- The values are plain names from here on, so they may stand in a shell's command line.
\setenv CUTTER_STATEMENT :statement
\set statement_base64 `base64 < "$CUTTER_STATEMENT" | tr -d '\n'`
SELECT set_config('cutter.statement', :'statement_base64', true) \g /dev/null
DO $do$
DECLARE
    v_statement bytea := decode(current_setting('cutter.statement'), 'base64');
    v_text text := convert_from(v_statement, 'UTF8');
BEGIN
    IF length(v_statement) NOT BETWEEN 1 AND 65536 THEN
        RAISE EXCEPTION 'runbook: expected -v statement=<file with the signed statement, 1 to 65536 bytes>, observed % bytes',
            length(v_statement);
    END IF;
    IF strpos(v_text, current_setting('cutter.document_id')) = 0
        OR strpos(v_text, current_setting('cutter.base_state')) = 0
        OR strpos(v_text, '-----BEGIN PGP SIGNATURE-----') = 0
    THEN
        RAISE EXCEPTION 'runbook: the statement must be clear-signed and name the document and the base state';
    END IF;
END
$do$;

-- 1. No run writes: fence first, then document, the order in which every run takes them.
DO $do$
BEGIN
    UPDATE cutter_governance.run_fence f
    SET epoch = f.epoch + 1, holder = gen_random_uuid(), backend_pids = '{}', taken_at = clock_timestamp()
    WHERE f.document_id = current_setting('cutter.document_id');
    IF iu_core.fn_document_lock(current_setting('cutter.document_id')) IS NULL THEN
        RAISE EXCEPTION 'runbook: there is no document %', current_setting('cutter.document_id');
    END IF;
END
$do$;

-- 2. What the backup holds, from the scratch database.
CREATE TEMPORARY TABLE r_unit ON COMMIT DROP AS SELECT * FROM iu_core.information_unit WITH NO DATA;
CREATE TEMPORARY TABLE r_version ON COMMIT DROP AS SELECT * FROM iu_core.unit_version WITH NO DATA;
CREATE TEMPORARY TABLE r_anchor ON COMMIT DROP AS SELECT * FROM iu_core.unit_anchor WITH NO DATA;
CREATE TEMPORARY TABLE r_log ON COMMIT DROP AS SELECT * FROM iu_core.iu_lifecycle_log WITH NO DATA;
CREATE TEMPORARY TABLE r_set (change_set_id uuid, live boolean, idempotency_key text, source_version_id uuid) ON COMMIT DROP;
CREATE TEMPORARY TABLE r_state (base_state text, migrations text) ON COMMIT DROP;

\setenv PGHOST :HOST
\setenv PGPORT :PORT
\setenv PGUSER :USER
\setenv PGDATABASE :scratch
\setenv CUTTER_DOCUMENT :document_id
\setenv CUTTER_RUN :run_id
\copy r_state from program 'psql -X -q -v ON_ERROR_STOP=1 -c "COPY (SELECT cutter_governance.fn_base_state(''$CUTTER_DOCUMENT'', ''$CUTTER_RUN''), (SELECT string_agg(m.sha256, '' '' ORDER BY m.version) FROM cutter_meta.migration m)) TO STDOUT"'
\copy r_set from program 'psql -X -q -v ON_ERROR_STOP=1 -c "COPY (SELECT c.change_set_id, c.live, c.idempotency_key, c.source_version_id FROM cutter_governance.cut_change_set c WHERE c.document_id = ''$CUTTER_DOCUMENT'') TO STDOUT"'
\copy r_unit from program 'psql -X -q -v ON_ERROR_STOP=1 -c "COPY (SELECT u.* FROM iu_core.information_unit u WHERE u.document_id = ''$CUTTER_DOCUMENT'') TO STDOUT"'
\copy r_version from program 'psql -X -q -v ON_ERROR_STOP=1 -c "COPY (SELECT v.* FROM iu_core.information_unit u JOIN iu_core.unit_version v USING (unit_id) WHERE u.document_id = ''$CUTTER_DOCUMENT'') TO STDOUT"'
\copy r_anchor from program 'psql -X -q -v ON_ERROR_STOP=1 -c "COPY (SELECT a.* FROM iu_core.information_unit u JOIN iu_core.unit_anchor a USING (unit_id) WHERE u.document_id = ''$CUTTER_DOCUMENT'') TO STDOUT"'
\copy r_log from program 'psql -X -q -v ON_ERROR_STOP=1 -c "COPY (SELECT l.* FROM iu_core.information_unit u JOIN iu_core.iu_lifecycle_log l USING (unit_id) WHERE u.document_id = ''$CUTTER_DOCUMENT'') TO STDOUT"'

DO $do$
DECLARE
    v_state record;
    v_wrong text;
BEGIN
    SELECT * INTO STRICT v_state FROM pg_temp.r_state;
    IF v_state.base_state IS DISTINCT FROM current_setting('cutter.base_state') THEN
        RAISE EXCEPTION 'runbook: % is not this backup: expected base state %, observed %',
            current_setting('cutter.scratch'), current_setting('cutter.base_state'), v_state.base_state;
    END IF;
    IF v_state.migrations IS DISTINCT FROM
        (SELECT string_agg(m.sha256, ' ' ORDER BY m.version) FROM cutter_meta.migration m)
    THEN
        RAISE EXCEPTION 'runbook: % has other migrations than this database; migrate the scratch database first',
            current_setting('cutter.scratch');
    END IF;
    SELECT string_agg(r.change_set_id::text, ', ') INTO v_wrong
    FROM pg_temp.r_set r
    LEFT JOIN cutter_governance.cut_change_set c ON c.change_set_id = r.change_set_id
        AND c.document_id = current_setting('cutter.document_id') AND c.idempotency_key = r.idempotency_key
        AND c.source_version_id = r.source_version_id AND c.live = r.live
    WHERE c.change_set_id IS NULL;
    IF v_wrong IS NOT NULL THEN
        RAISE EXCEPTION 'runbook: change sets of the backup are not here, or were voided since: %', v_wrong;
    END IF;
END
$do$;

-- 3. The consent, under the reviewer's authority: no other login may write it.
SELECT gen_random_uuid() AS decision_id, gen_random_uuid() AS approval_id, gen_random_uuid() AS void_effect_id \gset
SET LOCAL SESSION AUTHORIZATION cutter_review;
SELECT cutter_governance.fn_review_decision_record(:'decision_id', :'run_id', :'document_id', 'void', 'approve', NULL, NULL,
    NULL, NULL, NULL, :'decision_id', :'base_state', :'sovereign', clock_timestamp()) \g /dev/null
INSERT INTO cutter_governance.review_approval (approval_id, review_decision_id, run_id, document_id, type, decision,
    approval_kb_id, document, sha256, nonce, fingerprint, actor, request_sha256, at)
SELECT :'approval_id', :'decision_id', :'run_id', :'document_id', 'void', 'approve', 'out-of-band/rollback_runbook',
    s.bytes, encode(sha256(s.bytes), 'hex'), :'decision_id', :'fingerprint', :'sovereign', :'base_state', clock_timestamp()
FROM (SELECT decode(current_setting('cutter.statement'), 'base64') AS bytes) s;
RESET SESSION AUTHORIZATION;
INSERT INTO cutter_governance.approval_use (approval_id, run_id, effect, effect_id, at)
VALUES (:'approval_id', :'run_id', 'void', :'void_effect_id', clock_timestamp());

-- 4. The content. Named triggers only: foreign keys and checks stay on.
ALTER TABLE iu_core.information_unit DISABLE TRIGGER trg_iu_enacted_immut;
ALTER TABLE iu_core.unit_version DISABLE TRIGGER trg_uv_enacted_immut;
ALTER TABLE iu_core.unit_version DISABLE TRIGGER trg_uv_later_version;
ALTER TABLE iu_core.unit_anchor DISABLE TRIGGER trg_append_only;
ALTER TABLE iu_core.iu_lifecycle_log DISABLE TRIGGER trg_append_only;

CREATE TEMPORARY TABLE r_here ON COMMIT DROP AS
    SELECT u.unit_id FROM iu_core.information_unit u WHERE u.document_id = :'document_id'
        AND u.source_document_id = (SELECT d.source_document_id FROM iu_core.source_document d
                                    WHERE d.document_id = :'document_id');
DELETE FROM iu_core.iu_lifecycle_log l USING pg_temp.r_here h WHERE l.unit_id = h.unit_id;
DELETE FROM iu_core.unit_anchor a USING pg_temp.r_here h WHERE a.unit_id = h.unit_id;
DELETE FROM iu_core.unit_version v USING pg_temp.r_here h WHERE v.unit_id = h.unit_id;
DELETE FROM iu_core.information_unit u USING pg_temp.r_here h WHERE u.unit_id = h.unit_id;
-- By name: `live` is generated from lifecycle_status and takes no value.
INSERT INTO iu_core.information_unit (
    unit_id, change_set_id, document_id, source_document_id, source_version_id, ordinal,
    canonical_address, citation_address, unit_kind, section_type, content_hash, body_hash,
    idempotency_key, lifecycle_status, created_at)
SELECT unit_id, change_set_id, document_id, source_document_id, source_version_id, ordinal,
    canonical_address, citation_address, unit_kind, section_type, content_hash, body_hash,
    idempotency_key, lifecycle_status, created_at
FROM pg_temp.r_unit;
INSERT INTO iu_core.unit_version SELECT * FROM pg_temp.r_version;
INSERT INTO iu_core.unit_anchor SELECT * FROM pg_temp.r_anchor;
INSERT INTO iu_core.iu_lifecycle_log SELECT * FROM pg_temp.r_log;

ALTER TABLE iu_core.information_unit ENABLE TRIGGER trg_iu_enacted_immut;
ALTER TABLE iu_core.unit_version ENABLE TRIGGER trg_uv_enacted_immut;
ALTER TABLE iu_core.unit_version ENABLE TRIGGER trg_uv_later_version;
ALTER TABLE iu_core.unit_anchor ENABLE TRIGGER trg_append_only;
ALTER TABLE iu_core.iu_lifecycle_log ENABLE TRIGGER trg_append_only;

-- 5. Change sets that the backup does not have end here.
CREATE TEMPORARY TABLE r_ended ON COMMIT DROP AS
    SELECT c.change_set_id, c.run_id, c.entry_id, c.live FROM cutter_governance.cut_change_set c
    WHERE c.document_id = :'document_id' AND c.kind = 'cut'
        AND NOT EXISTS (SELECT FROM pg_temp.r_set r WHERE r.change_set_id = c.change_set_id);
INSERT INTO cutter_governance.change_set_void (void_id, change_set_id, run_id, approval_id, reason, actor, at)
SELECT gen_random_uuid(), e.change_set_id, e.run_id, :'approval_id', 'emergency revert to base state ' || :'base_state',
    :'sovereign', clock_timestamp()
FROM pg_temp.r_ended e WHERE e.live;
UPDATE cutter_governance.cut_change_set c SET live = false
FROM pg_temp.r_ended e WHERE c.change_set_id = e.change_set_id AND e.live;
SELECT cutter_governance.fn_backlog_transition(b.entry_id, b.status, 'abandoned', gen_random_uuid(), :'sovereign',
    'emergency revert', NULL, e.change_set_id, NULL, clock_timestamp())
FROM pg_temp.r_ended e JOIN cutter_governance.decision_backlog_entry b ON b.entry_id = e.entry_id
WHERE b.status <> 'abandoned' \g /dev/null
SET CONSTRAINTS ALL IMMEDIATE;

-- 6. The comparison.
DO $do$
DECLARE
    v_document uuid := (SELECT d.source_document_id FROM iu_core.source_document d
                        WHERE d.document_id = current_setting('cutter.document_id'));
    v_different bigint;
BEGIN
    CREATE TEMPORARY TABLE h_unit ON COMMIT DROP AS
        SELECT u.* FROM iu_core.information_unit u WHERE u.source_document_id = v_document;
    SELECT sum(s.rows) INTO v_different FROM (
        SELECT count(*) AS rows FROM ((TABLE pg_temp.h_unit EXCEPT TABLE pg_temp.r_unit)
            UNION ALL (TABLE pg_temp.r_unit EXCEPT TABLE pg_temp.h_unit)) x
        UNION ALL
        SELECT count(*) FROM ((SELECT v.* FROM pg_temp.h_unit u JOIN iu_core.unit_version v USING (unit_id)
            EXCEPT TABLE pg_temp.r_version) UNION ALL (TABLE pg_temp.r_version EXCEPT
            SELECT v.* FROM pg_temp.h_unit u JOIN iu_core.unit_version v USING (unit_id))) x
        UNION ALL
        SELECT count(*) FROM ((SELECT a.* FROM pg_temp.h_unit u JOIN iu_core.unit_anchor a USING (unit_id)
            EXCEPT TABLE pg_temp.r_anchor) UNION ALL (TABLE pg_temp.r_anchor EXCEPT
            SELECT a.* FROM pg_temp.h_unit u JOIN iu_core.unit_anchor a USING (unit_id))) x
        UNION ALL
        SELECT count(*) FROM ((SELECT l.* FROM pg_temp.h_unit u JOIN iu_core.iu_lifecycle_log l USING (unit_id)
            EXCEPT TABLE pg_temp.r_log) UNION ALL (TABLE pg_temp.r_log EXCEPT
            SELECT l.* FROM pg_temp.h_unit u JOIN iu_core.iu_lifecycle_log l USING (unit_id))) x
    ) s;
    IF v_different <> 0 THEN
        RAISE EXCEPTION 'runbook: % rows differ from the backup after the revert', v_different;
    END IF;
    IF EXISTS (SELECT FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid JOIN pg_namespace n ON n.oid = c.relnamespace
               WHERE n.nspname IN ('iu_core', 'cutter_governance') AND t.tgenabled <> 'O') THEN
        RAISE EXCEPTION 'runbook: a trigger is still off';
    END IF;
END
$do$;

SELECT 'units before: ' || (SELECT count(*) FROM pg_temp.r_here) || ', after: ' || (SELECT count(*) FROM pg_temp.r_unit)
    || ', change sets ended: ' || (SELECT count(*) FROM pg_temp.r_ended WHERE live);

SELECT current_setting('cutter.mode') = 'commit' AS is_commit \gset
\if :is_commit
COMMIT;
\echo reverted
\else
ROLLBACK;
\echo rehearsed: nothing was changed
\endif
