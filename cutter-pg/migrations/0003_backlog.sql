-- The backlog (spec 3): entries, their history, and the sweep log.
SET ROLE cutter_owner;

CREATE TABLE cutter_governance.decision_backlog_entry (
    entry_id           uuid PRIMARY KEY,
    run_id             text COLLATE "C" NOT NULL,
    document_id        text COLLATE "C" NOT NULL,
    source_document_id uuid NOT NULL,
    source_version_id  uuid NOT NULL REFERENCES iu_core.source_version,
    status             text COLLATE "C" NOT NULL CHECK (status IN ('marked', 'review_pending',
        'reviewed_approved', 'reviewed_deferred', 'reviewed_rejected', 'cut_in_progress', 'cut_applied',
        'verify_in_progress', 'verified_complete', 'verify_failed_escalated', 'abandoned')),
    idempotency_key    text COLLATE "C" NOT NULL CHECK (idempotency_key ~ '^[0-9a-f]{64}$'),
    region_sha         text COLLATE "C" NOT NULL CHECK (region_sha ~ '^[0-9a-f]{64}$'),
    manifest_digest    text COLLATE "C" NOT NULL CHECK (manifest_digest ~ '^[0-9a-f]{64}$'),
    candidate_count    bigint NOT NULL CHECK (candidate_count >= 0),
    escalates_entry_id uuid REFERENCES cutter_governance.decision_backlog_entry,
    actor              text NOT NULL,
    at                 timestamptz NOT NULL,
    FOREIGN KEY (source_document_id, document_id)
        REFERENCES iu_core.source_document (source_document_id, document_id)
);
COMMENT ON TABLE cutter_governance.decision_backlog_entry IS
    'One marked manifest under review. status is the only column that ever changes, through fn_backlog_transition.';
-- IK-MARK among live entries: an abandoned one gives its key back.
CREATE UNIQUE INDEX decision_backlog_entry_key ON cutter_governance.decision_backlog_entry (idempotency_key)
    WHERE status <> 'abandoned';
CREATE INDEX decision_backlog_entry_document ON cutter_governance.decision_backlog_entry (document_id);
CREATE INDEX decision_backlog_entry_run ON cutter_governance.decision_backlog_entry (run_id);
-- For sweeps: only what may still be promoted.
CREATE INDEX decision_backlog_entry_promotable ON cutter_governance.decision_backlog_entry (status, entry_id)
    WHERE status IN ('marked', 'reviewed_deferred');

-- Exactly the nine columns of A-1 and D28.
CREATE TABLE cutter_governance.decision_backlog_history (
    history_id    uuid PRIMARY KEY,
    entry_id      uuid NOT NULL REFERENCES cutter_governance.decision_backlog_entry,
    from_state    text COLLATE "C",
    to_state      text COLLATE "C" NOT NULL,
    actor         text NOT NULL,
    reason        text NOT NULL,
    at            timestamptz NOT NULL,
    change_set_id uuid,
    detail        jsonb NOT NULL DEFAULT '{}'
);
COMMENT ON TABLE cutter_governance.decision_backlog_history IS
    'One row per move of an entry; from_state is NULL for the first.';
CREATE INDEX decision_backlog_history_entry ON cutter_governance.decision_backlog_history (entry_id, at);

CREATE TABLE cutter_governance.decision_backlog_sweep_log (
    sweep_id    uuid PRIMARY KEY,
    run_id      text COLLATE "C",
    document_id text COLLATE "C",
    promoted    uuid[] NOT NULL,
    actor       text NOT NULL,
    at          timestamptz NOT NULL
);
COMMENT ON TABLE cutter_governance.decision_backlog_sweep_log IS
    'One row per sweep pass (A-3), with the entries that it promoted.';
CREATE INDEX decision_backlog_sweep_log_document ON cutter_governance.decision_backlog_sweep_log (document_id);

CREATE TRIGGER trg_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON cutter_governance.decision_backlog_history
    FOR EACH STATEMENT EXECUTE FUNCTION cutter_governance.fn_append_only();
CREATE TRIGGER trg_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON cutter_governance.decision_backlog_sweep_log
    FOR EACH STATEMENT EXECUTE FUNCTION cutter_governance.fn_append_only();
CREATE TRIGGER trg_no_removal BEFORE DELETE OR TRUNCATE ON cutter_governance.decision_backlog_entry
    FOR EACH STATEMENT EXECUTE FUNCTION cutter_governance.fn_append_only();

-- The targets of a state, as the table of the core has them (spec 3 §2).
CREATE FUNCTION cutter_governance.fn_backlog_targets(p_from text) RETURNS text[]
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $fn$
    SELECT CASE p_from
        WHEN 'marked' THEN ARRAY['review_pending', 'abandoned']
        WHEN 'review_pending' THEN
            ARRAY['reviewed_approved', 'reviewed_deferred', 'reviewed_rejected', 'abandoned']
        WHEN 'reviewed_approved' THEN ARRAY['cut_in_progress', 'reviewed_deferred', 'abandoned']
        WHEN 'reviewed_deferred' THEN ARRAY['review_pending', 'abandoned']
        WHEN 'reviewed_rejected' THEN ARRAY['abandoned']
        WHEN 'cut_in_progress' THEN ARRAY['cut_applied', 'abandoned']
        WHEN 'cut_applied' THEN ARRAY['verify_in_progress', 'abandoned']
        WHEN 'verify_in_progress' THEN
            ARRAY['verified_complete', 'verify_failed_escalated', 'abandoned']
        WHEN 'verified_complete' THEN ARRAY['abandoned']
        WHEN 'verify_failed_escalated' THEN ARRAY['abandoned']
        ELSE ARRAY[]::text[]
    END
$fn$;

-- An entry changes its status alone, along a legal edge.
CREATE FUNCTION cutter_governance.fn_backlog_entry_guard() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $fn$
DECLARE
    v_old cutter_governance.decision_backlog_entry := OLD;
BEGIN
    IF TG_OP = 'INSERT' THEN
        IF NEW.status <> 'marked' THEN
            RAISE EXCEPTION 'backlog entry % must begin as marked, observed %', NEW.entry_id, NEW.status
                USING ERRCODE = 'CU003';
        END IF;
        RETURN NEW;
    END IF;
    v_old.status := NEW.status;
    IF v_old IS DISTINCT FROM NEW THEN
        RAISE EXCEPTION 'backlog entry %: only its status may change', OLD.entry_id USING ERRCODE = 'CU003';
    END IF;
    IF NOT NEW.status = ANY (cutter_governance.fn_backlog_targets(OLD.status)) THEN
        RAISE EXCEPTION 'illegal backlog transition %->% (legal=%)', OLD.status, NEW.status,
            array_to_string(cutter_governance.fn_backlog_targets(OLD.status), ',') USING ERRCODE = 'CUC09';
    END IF;
    RETURN NEW;
END
$fn$;
CREATE TRIGGER trg_backlog_entry_guard BEFORE INSERT OR UPDATE ON cutter_governance.decision_backlog_entry
    FOR EACH ROW EXECUTE FUNCTION cutter_governance.fn_backlog_entry_guard();

-- Status and history agree (A-5), checked at the end of the transaction or at SET CONSTRAINTS
-- IMMEDIATE. History is a path from nothing to the status: every state is entered as often as
-- it is left, but for the status, which is entered once more.
CREATE FUNCTION cutter_governance.fn_backlog_agreement() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $fn$
DECLARE
    v_status text;
    v_end text[];
BEGIN
    SELECT e.status INTO v_status FROM cutter_governance.decision_backlog_entry e
    WHERE e.entry_id = NEW.entry_id;
    SELECT array_agg(s.state || '=' || s.balance ORDER BY s.state) INTO v_end
    FROM (
        SELECT m.state, sum(m.step) AS balance
        FROM cutter_governance.decision_backlog_history h
        CROSS JOIN LATERAL (VALUES (h.to_state, 1), (h.from_state, -1)) AS m(state, step)
        WHERE h.entry_id = NEW.entry_id AND m.state IS NOT NULL
        GROUP BY m.state
        HAVING sum(m.step) <> 0
    ) s;
    IF v_end IS DISTINCT FROM ARRAY[v_status || '=1'] THEN
        RAISE EXCEPTION 'backlog entry %: status % and its history disagree (history ends in %)',
            NEW.entry_id, v_status, coalesce(array_to_string(v_end, ','), 'nothing') USING ERRCODE = 'CU005';
    END IF;
    IF v_status IN ('cut_in_progress', 'verify_in_progress') THEN
        RAISE EXCEPTION 'backlog entry %: % is never committed', NEW.entry_id, v_status USING ERRCODE = 'CU005';
    END IF;
    RETURN NULL;
END
$fn$;
CREATE CONSTRAINT TRIGGER trg_backlog_agreement AFTER INSERT OR UPDATE
    ON cutter_governance.decision_backlog_entry DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION cutter_governance.fn_backlog_agreement();
CREATE CONSTRAINT TRIGGER trg_backlog_agreement AFTER INSERT
    ON cutter_governance.decision_backlog_history DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION cutter_governance.fn_backlog_agreement();

RESET ROLE;
