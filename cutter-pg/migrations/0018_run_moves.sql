-- The run machine (spec 1 §2) for whoever audits the run store by SQL alone: the legal edges, the
-- message of an illegal one, and every move that the revisions of a run record. Nothing asks these
-- while a run is driven: the core judges a move before it is saved, and a save must stay cheap.
SET ROLE cutter_owner;

CREATE FUNCTION cutter_run.fn_run_targets(p_stage text) RETURNS text[]
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $fn$
    SELECT CASE p_stage
        WHEN 'pending' THEN ARRAY['source_pinned']
        WHEN 'source_pinned' THEN ARRAY['marked']
        WHEN 'marked' THEN ARRAY['cutplan_ok']
        WHEN 'cutplan_ok' THEN ARRAY['pre_write_backup_taken']
        WHEN 'pre_write_backup_taken' THEN ARRAY['grants_probed']
        WHEN 'grants_probed' THEN ARRAY['awaiting_cut_authorization']
        WHEN 'awaiting_cut_authorization' THEN ARRAY['cut_leg_a_committed']
        WHEN 'cut_leg_a_committed' THEN ARRAY['structural_verified']
        WHEN 'structural_verified' THEN ARRAY['leg_b_recorded']
        WHEN 'leg_b_recorded' THEN ARRAY['write_verified']
        WHEN 'write_verified' THEN ARRAY['awaiting_lifecycle_authorization']
        WHEN 'awaiting_lifecycle_authorization' THEN ARRAY['lifecycle_enacted']
        WHEN 'lifecycle_enacted' THEN ARRAY['closeout_reported']
        WHEN 'closeout_reported' THEN ARRAY[]::text[]
    END
$fn$;

CREATE FUNCTION cutter_run.fn_run_check(p_from text, p_to text) RETURNS void
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $fn$
BEGIN
    IF NOT coalesce(p_to = ANY (cutter_run.fn_run_targets(p_from)), false) THEN
        RAISE EXCEPTION 'illegal run transition %->% (legal=%)', p_from, p_to,
            array_to_string(cutter_run.fn_run_targets(p_from), ',') USING ERRCODE = 'CUC09';
    END IF;
END
$fn$;

-- Every move of every run. A stage that an ending kept (D2) is where the run goes on, or is voided
-- from; what is enacted is voided no more (D10); a stopped run may be stopped otherwise.
CREATE VIEW cutter_run.v_run_move AS
WITH stands AS (
    SELECT r.run_id, r.revision, r.published_at, s.body ->> 'state' AS state,
        coalesce(s.body ->> 'kept_stage', s.body ->> 'state') AS stage
    FROM (SELECT DISTINCT run_id FROM cutter_run.revision) u,
        LATERAL (SELECT u.run_id, t.* FROM cutter_run.fn_run_texts(u.run_id, 9223372036854775807, true) t) r,
        LATERAL (SELECT convert_from(r.body, 'UTF8')::json AS body) s
), moves AS (
    SELECT run_id, revision, published_at, state, stage,
        lag(state) OVER w AS before, lag(stage) OVER w AS stage_before
    FROM stands WINDOW w AS (PARTITION BY run_id ORDER BY revision)
)
SELECT run_id, revision, published_at, before AS from_state, state AS to_state, CASE
        WHEN before IS NULL THEN state = 'pending'
        WHEN before ~ '^voided_' THEN false
        WHEN state ~ '^voided_' THEN stage_before NOT IN ('lifecycle_enacted', 'closeout_reported')
        WHEN before ~ '^failed_' THEN false
        -- It ends where it stood, or one stage on: before a phase that only looks its move and its end
        -- are one revision.
        WHEN state ~ '^(failed|stopped)_' THEN before <> 'closeout_reported'
            AND (stage = stage_before OR stage = ANY (cutter_run.fn_run_targets(stage_before)))
        WHEN before ~ '^stopped_' THEN state = stage_before
            OR state = ANY (cutter_run.fn_run_targets(stage_before))
        ELSE coalesce(state = ANY (cutter_run.fn_run_targets(before)), false)
    END AS is_legal
FROM moves WHERE before IS DISTINCT FROM state;
COMMENT ON VIEW cutter_run.v_run_move IS 'Moves of runs as their revisions record them, and whether the machine allows each.';

INSERT INTO cutter_governance.grant_expectation (grantee, privilege, kind, object)
SELECT 'cutter_ro', v.privilege, v.kind, v.object
FROM (VALUES ('SELECT', 'TABLE', 'cutter_run.v_run_move'), ('EXECUTE', 'FUNCTION', 'cutter_run.fn_run_targets'),
    ('EXECUTE', 'FUNCTION', 'cutter_run.fn_run_check')) AS v(privilege, kind, object);

SELECT cutter_meta.fn_grant_expected('^cutter_run[.](v_run_move|fn_run_targets|fn_run_check)$');

RESET ROLE;
