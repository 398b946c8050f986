-- Sweeps: promotions by the thousand, in passes of one transaction each (spec 3 A-3, §5). The first half
-- of migration 11, with 0011_backlog_operations.sql.
SET ROLE cutter_owner;

-- Queues and lists by key: by state, and by document and state. Sweeps read the same.
DROP INDEX cutter_governance.decision_backlog_entry_promotable;
DROP INDEX cutter_governance.decision_backlog_entry_document;
CREATE INDEX decision_backlog_entry_status ON cutter_governance.decision_backlog_entry (status, entry_id);
CREATE INDEX decision_backlog_entry_document
    ON cutter_governance.decision_backlog_entry (document_id, status, entry_id);

-- Promotions come in thousands. They are held to the same rules as every other move, set by set: a
-- statement that makes some leaves one row here, which is checked and taken away at the end of the
-- transaction. No login writes this table, and no committed row stands in it.
CREATE TABLE cutter_governance.backlog_promotion_check (
    xid       xid8 NOT NULL,
    entry_ids uuid[] NOT NULL
);
ALTER TABLE cutter_governance.backlog_promotion_check ALTER entry_ids SET STORAGE EXTERNAL;
CREATE INDEX backlog_promotion_check_xid ON cutter_governance.backlog_promotion_check (xid);
COMMENT ON TABLE cutter_governance.backlog_promotion_check IS
    'Promotions of the open transaction, one row a statement, until its end.';
CREATE TRIGGER trg_append_only BEFORE UPDATE OR TRUNCATE ON cutter_governance.backlog_promotion_check
    FOR EACH STATEMENT EXECUTE FUNCTION cutter_governance.fn_append_only();
-- The check alone, which is a trigger, takes its row away.
CREATE TRIGGER trg_no_removal BEFORE DELETE ON cutter_governance.backlog_promotion_check
    FOR EACH STATEMENT WHEN (pg_trigger_depth() = 0) EXECUTE FUNCTION cutter_governance.fn_append_only();

-- The passes with these ids; what is no id names none.
CREATE FUNCTION cutter_governance.fn_backlog_passes(p_sweep_ids text[])
RETURNS SETOF cutter_governance.decision_backlog_sweep_log
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off AS $fn$
    SELECT s.*
    FROM unnest(p_sweep_ids) AS d(id)
    JOIN cutter_governance.decision_backlog_sweep_log s ON s.sweep_id = CASE
        WHEN d.id ~ '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$' THEN d.id::uuid END
$fn$;

-- How often these entries were promoted, and how often a sweep pass of their document logged it. A
-- move that names its pass is looked up there; only if that proves too few are all passes counted.
CREATE FUNCTION cutter_governance.fn_backlog_promotions(p_entry_ids uuid[])
RETURNS TABLE (entry_id uuid, moves bigint, promotions bigint)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    SET enable_seqscan = off SET enable_mergejoin = off SET enable_hashjoin = off AS $fn$
    WITH moved AS MATERIALIZED (
        SELECT h.entry_id, e.document_id, h.detail ->> 'sweep_id' AS sweep_id
        FROM unnest(p_entry_ids) AS i(id)
        JOIN cutter_governance.decision_backlog_entry e ON e.entry_id = i.id
        JOIN cutter_governance.decision_backlog_history h ON h.entry_id = e.entry_id
        WHERE h.to_state = 'review_pending'
    ), pair AS (
        SELECT b.entry_id, sum(b.moved) AS moved, sum(b.logged) AS logged
        FROM (
            SELECT m.entry_id, m.document_id, m.sweep_id, 1 AS moved, 0 AS logged FROM moved m
            UNION ALL
            SELECT l.entry_id, p.document_id, p.sweep_id::text, 0, 1
            FROM cutter_governance.fn_backlog_passes(ARRAY(SELECT DISTINCT m.sweep_id FROM moved m)) p
            CROSS JOIN LATERAL unnest(p.promoted) AS l(entry_id)
        ) b
        GROUP BY b.entry_id, b.document_id, b.sweep_id
    ), known AS (
        SELECT r.entry_id, sum(r.moved)::bigint AS moves,
            count(*) FILTER (WHERE r.moved > 0 AND r.logged > 0) AS proved
        FROM pair r GROUP BY r.entry_id HAVING sum(r.moved) > 0
    )
    SELECT k.entry_id, k.moves, CASE WHEN k.proved >= k.moves THEN k.proved ELSE (
        SELECT count(*)
        FROM cutter_governance.decision_backlog_entry e
        JOIN cutter_governance.decision_backlog_sweep_log s ON s.document_id = e.document_id
        WHERE e.entry_id = k.entry_id AND k.entry_id = ANY (s.promoted)) END
    FROM known k
$fn$;

CREATE FUNCTION cutter_governance.fn_backlog_promotions_seen() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $fn$
DECLARE
    v_ids uuid[];
BEGIN
    IF TG_TABLE_NAME = 'decision_backlog_entry' THEN
        SELECT array_agg(n.entry_id ORDER BY n.entry_id) INTO v_ids FROM written n WHERE n.status = 'review_pending';
    ELSE
        SELECT array_agg(n.entry_id ORDER BY n.entry_id) INTO v_ids FROM written n WHERE n.to_state = 'review_pending';
    END IF;
    IF v_ids IS NOT NULL THEN
        -- The same entries are checked once, whether their rows or their history came first.
        INSERT INTO cutter_governance.backlog_promotion_check (xid, entry_ids)
        SELECT pg_current_xact_id(), v_ids
        WHERE NOT EXISTS (SELECT FROM cutter_governance.backlog_promotion_check c
                          WHERE c.xid = pg_current_xact_id() AND c.entry_ids = v_ids);
    END IF;
    RETURN NULL;
END
$fn$;
CREATE TRIGGER trg_backlog_promotions AFTER UPDATE ON cutter_governance.decision_backlog_entry
    REFERENCING NEW TABLE AS written FOR EACH STATEMENT
    EXECUTE FUNCTION cutter_governance.fn_backlog_promotions_seen();
CREATE TRIGGER trg_backlog_promotions AFTER INSERT ON cutter_governance.decision_backlog_history
    REFERENCING NEW TABLE AS written FOR EACH STATEMENT
    EXECUTE FUNCTION cutter_governance.fn_backlog_promotions_seen();

-- A-5 and A-3 for all entries of a statement at once, at the end of the transaction. Rows are found by
-- key, one after the other: the cost follows the statement and not the tables.
CREATE FUNCTION cutter_governance.fn_backlog_promotions_hold() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    SET enable_seqscan = off SET enable_mergejoin = off SET enable_hashjoin = off AS $fn$
DECLARE
    v_id uuid;
    v_unproved uuid[];
    v_status text;
    v_end text;
BEGIN
    WITH e AS MATERIALIZED (
        SELECT e.entry_id, e.document_id, e.status
        FROM unnest(NEW.entry_ids) AS i(id)
        JOIN cutter_governance.decision_backlog_entry e ON e.entry_id = i.id
    ), h AS MATERIALIZED (
        SELECT e.entry_id, e.document_id, h.from_state, h.to_state,
            CASE h.to_state WHEN 'review_pending' THEN h.detail ->> 'sweep_id' END AS sweep_id
        FROM e JOIN cutter_governance.decision_backlog_history h ON h.entry_id = e.entry_id
    ), uneven AS (
        -- As fn_backlog_agreement: a state is entered as often as it is left, the status once more.
        SELECT m.entry_id
        FROM (
            SELECT h.entry_id, h.to_state AS state, 1 AS step FROM h
            UNION ALL
            SELECT h.entry_id, h.from_state, -1 FROM h WHERE h.from_state IS NOT NULL
            UNION ALL
            SELECT e.entry_id, e.status, -1 FROM e
        ) m
        GROUP BY m.entry_id, m.state
        HAVING sum(m.step) <> 0
        LIMIT 1
    ), unproved AS (
        -- As fn_backlog_promotions: moves that the passes which they name do not list.
        SELECT b.entry_id
        FROM (
            SELECT h.entry_id, h.document_id, h.sweep_id, 1 AS moved, 0 AS logged
            FROM h WHERE h.to_state = 'review_pending'
            UNION ALL
            SELECT l.entry_id, p.document_id, p.sweep_id::text, 0, 1
            FROM cutter_governance.fn_backlog_passes(ARRAY(SELECT DISTINCT h.sweep_id FROM h)) p
            CROSS JOIN LATERAL unnest(p.promoted) AS l(entry_id)
        ) b
        GROUP BY b.entry_id, b.document_id, b.sweep_id
        HAVING sum(b.moved) > least(sum(b.logged), 1)
    )
    SELECT (SELECT u.entry_id FROM uneven u), (SELECT array_agg(DISTINCT u.entry_id) FROM unproved u)
    INTO v_id, v_unproved;
    IF v_id IS NOT NULL THEN
        SELECT e.status INTO v_status FROM cutter_governance.decision_backlog_entry e WHERE e.entry_id = v_id;
        SELECT string_agg(s.state || '=' || s.balance, ',' ORDER BY s.state) INTO v_end
        FROM (
            SELECT m.state, sum(m.step) AS balance
            FROM cutter_governance.decision_backlog_history h
            CROSS JOIN LATERAL (VALUES (h.to_state, 1), (h.from_state, -1)) AS m(state, step)
            WHERE h.entry_id = v_id AND m.state IS NOT NULL
            GROUP BY m.state
            HAVING sum(m.step) <> 0
        ) s;
        RAISE EXCEPTION 'backlog entry %: status % and its history disagree (history ends in %)',
            v_id, v_status, coalesce(v_end, 'nothing') USING ERRCODE = 'CU005';
    END IF;
    SELECT p.entry_id INTO v_id FROM cutter_governance.fn_backlog_promotions(v_unproved) p
    WHERE p.promotions < p.moves LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'audit.sweeps: entry % was promoted without a row in the sweep log', v_id
            USING ERRCODE = 'CUC10';
    END IF;
    DELETE FROM cutter_governance.backlog_promotion_check c WHERE c.xid = NEW.xid AND c.entry_ids = NEW.entry_ids;
    RETURN NULL;
END
$fn$;
CREATE CONSTRAINT TRIGGER trg_backlog_promotions_hold AFTER INSERT ON cutter_governance.backlog_promotion_check
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION cutter_governance.fn_backlog_promotions_hold();

-- What the set-wise check covers is not queued row by row as well.
DROP TRIGGER trg_backlog_agreement ON cutter_governance.decision_backlog_entry;
CREATE CONSTRAINT TRIGGER trg_backlog_agreement AFTER INSERT OR UPDATE
    ON cutter_governance.decision_backlog_entry DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW WHEN (NEW.status <> 'review_pending') EXECUTE FUNCTION cutter_governance.fn_backlog_agreement();
DROP TRIGGER trg_backlog_agreement ON cutter_governance.decision_backlog_history;
CREATE CONSTRAINT TRIGGER trg_backlog_agreement AFTER INSERT
    ON cutter_governance.decision_backlog_history DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW WHEN (NEW.to_state <> 'review_pending') EXECUTE FUNCTION cutter_governance.fn_backlog_agreement();
-- A promotion that changes the status alone is what the guard would let through: it is not asked.
DROP TRIGGER trg_backlog_entry_guard ON cutter_governance.decision_backlog_entry;
CREATE TRIGGER trg_backlog_entry_guard BEFORE INSERT ON cutter_governance.decision_backlog_entry
    FOR EACH ROW EXECUTE FUNCTION cutter_governance.fn_backlog_entry_guard();
CREATE TRIGGER trg_backlog_entry_guard_update BEFORE UPDATE ON cutter_governance.decision_backlog_entry
    FOR EACH ROW WHEN (NOT (OLD.status IN ('marked', 'reviewed_deferred') AND NEW.status = 'review_pending'
        AND ROW(OLD.entry_id, OLD.run_id, OLD.document_id, OLD.source_document_id, OLD.source_version_id,
                OLD.idempotency_key, OLD.region_sha, OLD.manifest_digest, OLD.candidate_count,
                OLD.escalates_entry_id, OLD.actor, OLD.at)
            IS NOT DISTINCT FROM
            ROW(NEW.entry_id, NEW.run_id, NEW.document_id, NEW.source_document_id, NEW.source_version_id,
                NEW.idempotency_key, NEW.region_sha, NEW.manifest_digest, NEW.candidate_count,
                NEW.escalates_entry_id, NEW.actor, NEW.at)))
    EXECUTE FUNCTION cutter_governance.fn_backlog_entry_guard();

-- A run's own pass over its entry, as before; the move names its pass.
CREATE OR REPLACE FUNCTION cutter_governance.fn_backlog_sweep(
    p_sweep_id uuid, p_entry_id uuid, p_history_id uuid, p_run_id text, p_actor text, p_at timestamptz)
RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $fn$
DECLARE
    v_entry record;
    v_promote boolean;
BEGIN
    SELECT e.status, e.document_id INTO v_entry
    FROM cutter_governance.decision_backlog_entry e WHERE e.entry_id = p_entry_id FOR UPDATE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'no backlog entry %', p_entry_id USING ERRCODE = 'CUN02';
    END IF;
    v_promote := v_entry.status <> 'review_pending';
    IF v_promote THEN
        PERFORM cutter_governance.fn_backlog_transition(p_entry_id, v_entry.status, 'review_pending',
            p_history_id, p_actor, 'sweep', p_run_id, NULL, jsonb_build_object('sweep_id', p_sweep_id), p_at);
    END IF;
    INSERT INTO cutter_governance.decision_backlog_sweep_log (sweep_id, run_id, document_id, promoted, actor, at)
    VALUES (p_sweep_id, p_run_id, v_entry.document_id,
        CASE WHEN v_promote THEN ARRAY[p_entry_id] ELSE '{}' END, p_actor, p_at);
    RETURN 'review_pending';
END
$fn$;

-- One sweep pass over a document, at most p_limit entries after p_after in order of their ids: S0 and
-- S3 go to S1, escalation entries at S0 excepted. A pass that is known gives what it promoted; another
-- promotes what is left. Ids of history rows follow from the pass and the entry. Ranges, so that no
-- other index gives the order.
CREATE FUNCTION cutter_governance.fn_backlog_sweep_pass(
    p_sweep_id uuid, p_document_id text, p_actor text, p_at timestamptz, p_after uuid DEFAULT NULL,
    p_limit integer DEFAULT NULL)
RETURNS uuid[]
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off
    SET enable_mergejoin = off SET enable_hashjoin = off AS $fn$
DECLARE
    v_ids uuid[];
    v_from text[];
    v_detail jsonb := jsonb_build_object('sweep_id', p_sweep_id);
    v_known record;
BEGIN
    IF p_limit < 1 THEN
        RAISE EXCEPTION 'a sweep pass of % entries: expected at least 1', p_limit USING ERRCODE = 'CU003';
    END IF;
    IF iu_core.fn_document_lock(p_document_id) IS NULL THEN
        RAISE EXCEPTION 'document % was never registered', p_document_id USING ERRCODE = 'CUN01';
    END IF;
    SELECT s.promoted, s.document_id INTO v_known FROM cutter_governance.decision_backlog_sweep_log s
    WHERE s.sweep_id = p_sweep_id;
    IF FOUND THEN
        IF v_known.document_id IS DISTINCT FROM p_document_id THEN
            RAISE EXCEPTION 'sweep pass % is one of document %', p_sweep_id, v_known.document_id
                USING ERRCODE = 'CUC10';
        END IF;
        RETURN v_known.promoted;
    END IF;
    SELECT array_agg(c.entry_id), array_agg(c.status) INTO v_ids, v_from
    FROM (
        SELECT s.entry_id, s.status
        FROM (VALUES ('marked'), ('reviewed_deferred')) AS q(status)
        CROSS JOIN LATERAL (
            SELECT e.entry_id, e.status FROM cutter_governance.decision_backlog_entry e
            -- No comparison of rows at the end of the range: the server stops at one only where its
            -- first column changes.
            WHERE e.document_id = ANY (ARRAY[p_document_id])
                AND (e.status, e.entry_id) > (q.status, coalesce(p_after, '00000000-0000-0000-0000-000000000000'))
                AND e.status <= q.status
                AND (q.status = 'reviewed_deferred' OR e.escalates_entry_id IS NULL)
            ORDER BY e.document_id, e.status, e.entry_id LIMIT p_limit
        ) s
        ORDER BY s.entry_id LIMIT p_limit
    ) c;
    -- Compare-and-set: what moved meanwhile is not taken along.
    WITH moved AS (
        UPDATE cutter_governance.decision_backlog_entry e SET status = 'review_pending'
        FROM unnest(v_ids, v_from) AS c(entry_id, status)
        WHERE e.entry_id = c.entry_id AND e.status = c.status
        RETURNING e.entry_id, c.status
    )
    SELECT coalesce(array_agg(m.entry_id ORDER BY m.entry_id), '{}'), array_agg(m.status ORDER BY m.entry_id)
    INTO v_ids, v_from FROM moved m;
    INSERT INTO cutter_governance.decision_backlog_sweep_log (sweep_id, run_id, document_id, promoted, actor, at)
    VALUES (p_sweep_id, NULL, p_document_id, v_ids, p_actor, p_at);
    INSERT INTO cutter_governance.decision_backlog_history (history_id, entry_id, from_state, to_state,
        actor, reason, at, detail)
    SELECT encode(substring(sha256(uuid_send(p_sweep_id) || uuid_send(c.entry_id)) FOR 16), 'hex')::uuid,
        c.entry_id, c.status, 'review_pending', p_actor, 'sweep', p_at, v_detail
    FROM unnest(v_ids, v_from) AS c(entry_id, status);
    RETURN v_ids;
END
$fn$;

RESET ROLE;
