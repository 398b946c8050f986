-- Of the work queue: what the holder of a lease does, what is done about items from outside, the days
-- that are dropped, the numbers, the view and the grants.
SET ROLE cutter_owner;

-- The lease rows of these tokens, taken away in item order: what a holder's moves begin with.
CREATE FUNCTION cutter_queue.fn_work_release(p_items bigint[], p_epochs bigint[], p_holders uuid[])
RETURNS SETOF cutter_queue.work_lease
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET jit = off AS $fn$
BEGIN
    RETURN QUERY
    WITH asked AS MATERIALIZED (
        SELECT u.item_id, u.epoch, u.holder FROM unnest(p_items, p_epochs, p_holders) AS u(item_id, epoch, holder)
        ORDER BY u.item_id
    ), held AS MATERIALIZED (
        SELECT l.item_id FROM asked a
        JOIN cutter_queue.work_lease l ON l.item_id = a.item_id AND l.epoch = a.epoch AND l.holder = a.holder
        FOR UPDATE OF l
    )
    DELETE FROM cutter_queue.work_lease l USING held WHERE l.item_id = held.item_id RETURNING l.*;
END
$fn$;

-- The items of these tokens are done. Gives those that were moved by it.
CREATE FUNCTION cutter_queue.fn_work_complete(p_items bigint[], p_epochs bigint[], p_holders uuid[])
RETURNS bigint[]
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $fn$
DECLARE
    v record;
BEGIN
    SELECT array_agg(l.item_id) AS items, array_agg(l.state) AS came_from, array_agg(l.attempts) AS attempts,
        array_agg(l.failures) AS failures, array_agg(l.epoch) AS epochs, array_agg(l.holder) AS holders,
        array_agg(l.claimed_at) AS claimed_at
    INTO v FROM cutter_queue.fn_work_release(p_items, p_epochs, p_holders) l;
    IF v.items IS NULL THEN
        RETURN '{}';
    END IF;
    PERFORM cutter_queue.fn_work_finish(cutter_queue.fn_work_now(), 'completed', v.items, v.came_from, v.attempts,
        v.failures, v.epochs, v.holders, v.claimed_at, NULL, NULL, NULL);
    RETURN v.items;
END
$fn$;

-- The attempt failed. p_delay_ms: the wait that the core decided on, NULL: never again. The
-- database holds the decision to the budget. True if it was written.
CREATE FUNCTION cutter_queue.fn_work_fail(
    p_item bigint, p_epoch bigint, p_holder uuid, p_delay_ms bigint, p_failure_code text, p_failure_detail text,
    p_reason_code text, p_reason_detail text)
RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $fn$
DECLARE
    v cutter_queue.work_lease;
    v_item cutter_queue.work_item;
    v_now timestamptz;
BEGIN
    SELECT l.* INTO v FROM cutter_queue.fn_work_release(ARRAY[p_item], ARRAY[p_epoch], ARRAY[p_holder]) l;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    v_now := cutter_queue.fn_work_now();
    INSERT INTO cutter_queue.work_attempt (item_id, epoch, holder, claimed_at, ended_at, ending, code, detail)
    VALUES (p_item, p_epoch, p_holder, v.claimed_at, v_now, 'failed', p_failure_code, p_failure_detail);
    IF p_delay_ms IS NULL THEN
        PERFORM cutter_queue.fn_work_finish(v_now, 'failed', ARRAY[p_item], ARRAY[v.state], ARRAY[v.attempts],
            ARRAY[v.failures + 1], ARRAY[v.epoch], ARRAY[v.holder], ARRAY[v.claimed_at],
            ARRAY[p_reason_code], ARRAY[p_reason_detail], NULL);
        RETURN true;
    END IF;
    SELECT i.* INTO STRICT v_item FROM cutter_queue.work_item i WHERE i.item_id = p_item;
    IF v.attempts >= v_item.max_attempts OR v.failures + 1 >= v_item.max_failures
        OR p_delay_ms NOT BETWEEN 1 AND greatest(v_item.cap_ms, 1)
    THEN
        RAISE EXCEPTION 'item %: no retry in % ms after % attempts and % failures', p_item, p_delay_ms,
            v.attempts, v.failures + 1 USING ERRCODE = 'CU004';
    END IF;
    INSERT INTO cutter_queue.work_wait (item_id, priority, came_from, state, attempts, failures, epoch, ready_at,
        holder, claimed_at, reason_code, reason_detail)
    VALUES (p_item, v.priority, v.state, 'awaiting_tool', v.attempts, v.failures + 1, v.epoch,
        v_now + p_delay_ms * interval '1 ms', v.holder, v.claimed_at, p_reason_code, p_reason_detail);
    RETURN true;
END
$fn$;

-- The item waits for a human; the attempt does not count. True if it was written.
CREATE FUNCTION cutter_queue.fn_work_await_user(p_item bigint, p_epoch bigint, p_holder uuid, p_gate text)
RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $fn$
DECLARE
    v cutter_queue.work_lease;
BEGIN
    SELECT l.* INTO v FROM cutter_queue.fn_work_release(ARRAY[p_item], ARRAY[p_epoch], ARRAY[p_holder]) l;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    INSERT INTO cutter_queue.work_attempt (item_id, epoch, holder, claimed_at, ended_at, ending, code, detail)
    VALUES (p_item, p_epoch, p_holder, v.claimed_at, cutter_queue.fn_work_now(), 'await_user', 'await_user', p_gate);
    INSERT INTO cutter_queue.work_wait (item_id, priority, came_from, state, attempts, failures, epoch, holder,
        claimed_at, gate)
    VALUES (p_item, v.priority, v.state, 'awaiting_user_confirmation', v.attempts - 1, v.failures, v.epoch,
        v.holder, v.claimed_at, p_gate);
    RETURN true;
END
$fn$;

-- The human's word for this gate came. True if it was written.
CREATE FUNCTION cutter_queue.fn_work_ready(p_item bigint, p_gate text) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $fn$
DECLARE
    v cutter_queue.work_wait;
BEGIN
    DELETE FROM cutter_queue.work_wait w
    WHERE w.item_id = p_item AND w.state = 'awaiting_user_confirmation' AND w.gate = p_gate
    RETURNING w.* INTO v;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    INSERT INTO cutter_queue.work_ready (priority, item_id, came_from, state, attempts, failures, epoch, ready_at,
        holder, claimed_at, gate)
    VALUES (v.priority, p_item, v.came_from, v.state, v.attempts, v.failures, v.epoch, cutter_queue.fn_work_now(),
        v.holder, v.claimed_at, p_gate);
    PERFORM pg_notify('cutter_queue', '');
    RETURN true;
END
$fn$;

-- The worker leaves these items to others, in their old place. Gives those that were moved by it.
CREATE FUNCTION cutter_queue.fn_work_hand_back(p_items bigint[], p_epochs bigint[], p_holders uuid[])
RETURNS bigint[]
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $fn$
DECLARE
    v_now timestamptz := cutter_queue.fn_work_now();
    v_moved bigint[];
BEGIN
    WITH gone AS MATERIALIZED (
        SELECT l.* FROM cutter_queue.fn_work_release(p_items, p_epochs, p_holders) l
    ), recorded AS (
        INSERT INTO cutter_queue.work_attempt (item_id, epoch, holder, claimed_at, ended_at, ending, code, detail)
        SELECT g.item_id, g.epoch, g.holder, g.claimed_at, v_now, 'handed_back', 'handback', '' FROM gone g
    ), moved AS (
        INSERT INTO cutter_queue.work_ready AS r (priority, item_id, came_from, state, attempts, failures, epoch,
            ready_at, holder, claimed_at, reason_code, reason_detail)
        SELECT g.priority, g.item_id, g.state, 'awaiting_tool', g.attempts - 1, g.failures, g.epoch,
            v_now, g.holder, g.claimed_at, 'handback', '' FROM gone g
        RETURNING r.item_id
    )
    SELECT coalesce(array_agg(moved.item_id), '{}') INTO v_moved FROM moved;
    IF cardinality(v_moved) > 0 THEN
        PERFORM pg_notify('cutter_queue', '');
    END IF;
    RETURN v_moved;
END
$fn$;

-- Leases begin anew. Gives the items that are held still.
CREATE FUNCTION cutter_queue.fn_work_heartbeat(
    p_items bigint[], p_epochs bigint[], p_holders uuid[], p_lease_ms integer)
RETURNS bigint[]
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off AS $fn$
DECLARE
    v_held bigint[];
BEGIN
    WITH held AS MATERIALIZED (
        SELECT l.item_id
        FROM (SELECT u.item_id, u.epoch, u.holder
              FROM unnest(p_items, p_epochs, p_holders) AS u(item_id, epoch, holder) ORDER BY u.item_id) a
        JOIN cutter_queue.work_lease l ON l.item_id = a.item_id AND l.epoch = a.epoch AND l.holder = a.holder
        FOR UPDATE OF l
    ), beat AS (
        UPDATE cutter_queue.work_lease l SET expires_at = cutter_queue.fn_work_now() + p_lease_ms * interval '1 ms'
        FROM held WHERE l.item_id = held.item_id RETURNING l.item_id
    )
    SELECT coalesce(array_agg(beat.item_id), '{}') INTO v_held FROM beat;
    RETURN v_held;
END
$fn$;

-- Leases that ran out, in claim order: under a new epoch to p_holder, or to their end where the
-- budget is used up.
CREATE FUNCTION cutter_queue.fn_work_take_over(p_holder uuid, p_limit integer, p_lease_ms integer)
RETURNS TABLE (item_id bigint, is_exhausted boolean)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET jit = off AS $fn$
DECLARE
    v_now timestamptz := cutter_queue.fn_work_now();
    v record;
    v_code text;
BEGIN
    FOR v IN
        SELECT l.*, i.max_attempts, i.max_failures
        FROM cutter_queue.work_lease l JOIN cutter_queue.work_item i ON i.item_id = l.item_id
        WHERE l.expires_at <= v_now
        ORDER BY l.priority, l.item_id LIMIT p_limit FOR UPDATE OF l SKIP LOCKED
    LOOP
        INSERT INTO cutter_queue.work_attempt (item_id, epoch, holder, claimed_at, ended_at, ending, code, detail)
        VALUES (v.item_id, v.epoch, v.holder, v.claimed_at, v_now, 'lease_lost', 'lease_lost', '');
        v_code := CASE WHEN v.attempts >= v.max_attempts THEN 'max_attempts_exhausted'
            WHEN v.failures + 1 >= v.max_failures THEN 'max_failures_exhausted' END;
        IF v_code IS NULL THEN
            UPDATE cutter_queue.work_lease l
            SET came_from = l.state, attempts = v.attempts + 1, failures = v.failures + 1, epoch = v.epoch + 1,
                holder = p_holder, claimed_at = v_now, expires_at = v_now + p_lease_ms * interval '1 ms'
            WHERE l.item_id = v.item_id;
        ELSE
            DELETE FROM cutter_queue.work_lease l WHERE l.item_id = v.item_id;
            PERFORM cutter_queue.fn_work_finish(v_now, 'failed', ARRAY[v.item_id], ARRAY[v.state], ARRAY[v.attempts],
                ARRAY[v.failures + 1], ARRAY[v.epoch], ARRAY[v.holder], ARRAY[v.claimed_at],
                ARRAY[v_code], ARRAY['lease_lost'], NULL);
        END IF;
        RETURN QUERY SELECT v.item_id, v_code IS NOT NULL;
    END LOOP;
END
$fn$;

-- Whether it is p_holder's turn to watch: nobody else's lease runs. It begins anew then.
CREATE FUNCTION cutter_queue.fn_work_take_watch(p_holder uuid, p_lease_ms integer) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $fn$
DECLARE
    v_now timestamptz := cutter_queue.fn_work_now();
BEGIN
    -- Most ask in vain: they take no lock.
    IF EXISTS (SELECT FROM cutter_queue.work_watch w WHERE w.holder <> p_holder AND w.expires_at > v_now) THEN
        RETURN false;
    END IF;
    INSERT INTO cutter_queue.work_watch AS w (holder, expires_at)
    VALUES (p_holder, v_now + p_lease_ms * interval '1 ms')
    ON CONFLICT (one) DO UPDATE SET holder = excluded.holder, expires_at = excluded.expires_at
    WHERE w.holder = excluded.holder OR w.expires_at <= v_now;
    RETURN FOUND;
END
$fn$;

-- The turn is whoever's asks next.
CREATE FUNCTION cutter_queue.fn_work_leave_watch(p_holder uuid) RETURNS void
LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $fn$
    DELETE FROM cutter_queue.work_watch w WHERE w.holder = p_holder
$fn$;

-- Gives an item up wherever it stands. False: it was nowhere that this can be done from, or it
-- moved on meanwhile.
CREATE FUNCTION cutter_queue.fn_work_cancel(p_item bigint, p_reason text, p_actor text) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off SET jit = off AS $fn$
DECLARE
    v record;
BEGIN
    DELETE FROM cutter_queue.work_lease l WHERE l.item_id = p_item
    RETURNING l.state, l.attempts, l.failures, l.epoch, l.holder, l.claimed_at INTO v;
    IF NOT FOUND THEN
        DELETE FROM cutter_queue.work_ready r
        USING cutter_queue.work_item i
        WHERE i.item_id = p_item AND r.priority = i.priority AND r.item_id = i.item_id
        RETURNING r.state, r.attempts, r.failures, r.epoch, r.holder, r.claimed_at INTO v;
    END IF;
    IF NOT FOUND THEN
        DELETE FROM cutter_queue.work_wait w WHERE w.item_id = p_item
        RETURNING w.state, w.attempts, w.failures, w.epoch, w.holder, w.claimed_at INTO v;
    END IF;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    PERFORM cutter_queue.fn_work_item_check(v.state, 'cancelled');
    PERFORM cutter_queue.fn_work_finish(cutter_queue.fn_work_now(), 'cancelled', ARRAY[p_item], ARRAY[v.state],
        ARRAY[v.attempts], ARRAY[v.failures], ARRAY[v.epoch], ARRAY[v.holder], ARRAY[v.claimed_at],
        ARRAY['cancelled'], ARRAY[p_reason], p_actor);
    RETURN true;
END
$fn$;

-- Drops the oldest day that ended before p_keep whole days, in steps: keys and attempts of up to
-- p_limit items after p_after, then the day itself. NULL day: there is none. NULL next: the day is
-- gone.
CREATE FUNCTION cutter_queue.fn_work_retain(p_keep integer, p_after bigint, p_limit integer)
RETURNS TABLE (day date, items bigint, next_after bigint)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET jit = off AS $fn$
DECLARE
    v_first date := (cutter_queue.fn_work_now() AT TIME ZONE 'UTC')::date - p_keep;
    v_day date;
    v_ids bigint[];
    v_items bigint;
BEGIN
    IF p_keep < 1 THEN
        RAISE EXCEPTION 'expected at least 1 day, observed %', p_keep USING ERRCODE = 'CU005';
    END IF;
    SELECT min(to_date(c.relname, '"d"YYYYMMDD')) INTO v_day
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = 'cutter_queue_day' AND c.relkind = 'r' AND c.relname ~ '^d[0-9]{8}$';
    IF v_day IS NULL OR v_day >= v_first THEN
        RETURN;
    END IF;
    -- One at a time; a day that somebody else is dropping is left to them.
    IF NOT pg_try_advisory_xact_lock(hashtext('cutter_queue.fn_work_retain')) THEN
        RETURN;
    END IF;
    SELECT array_agg(d.item_id ORDER BY d.item_id) INTO v_ids
    FROM (SELECT w.item_id FROM cutter_queue.work_done w
          WHERE w.finished_on = v_day AND w.item_id > p_after ORDER BY w.item_id LIMIT p_limit) d;
    IF v_ids IS NOT NULL THEN
        DELETE FROM cutter_queue.work_key k
        USING cutter_queue.work_done w
        WHERE w.finished_on = v_day AND w.item_id = ANY (v_ids) AND k.key = w.key AND k.item_id = w.item_id;
        DELETE FROM cutter_queue.work_attempt a WHERE a.item_id = ANY (v_ids);
        RETURN QUERY SELECT v_day, 0::bigint, v_ids[cardinality(v_ids)];
        RETURN;
    END IF;
    SELECT count(*) INTO v_items FROM cutter_queue.work_done w WHERE w.finished_on = v_day;
    EXECUTE format('DROP TABLE cutter_queue_day.%I', 'd' || to_char(v_day, 'YYYYMMDD'));
    DELETE FROM cutter_queue.work_tally t WHERE t.day <= v_day;
    -- What is left is added up.
    WITH gone AS (DELETE FROM cutter_queue.work_tally t RETURNING t.day, t.state, t.items)
    INSERT INTO cutter_queue.work_tally (day, state, items)
    SELECT g.day, g.state, sum(g.items)::bigint FROM gone g GROUP BY g.day, g.state;
    RETURN QUERY SELECT v_day, v_items, NULL::bigint;
END
$fn$;

-- The queue in numbers.
CREATE FUNCTION cutter_queue.fn_work_statistics()
RETURNS TABLE (now timestamptz, queued bigint, executing bigint, awaiting_tool bigint,
    awaiting_user_confirmation bigint, completed bigint, failed bigint, cancelled bigint, ready bigint,
    oldest_ready timestamptz, oldest_lease timestamptz, expired_leases bigint, watched_by uuid, oldest_snapshot timestamptz)
LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET jit = off AS $fn$
    WITH clock AS MATERIALIZED (SELECT cutter_queue.fn_work_now() AS now),
    r AS (
        SELECT count(*) FILTER (WHERE r.state = 'queued') AS queued,
            count(*) FILTER (WHERE r.state = 'awaiting_tool') AS awaiting_tool,
            count(*) FILTER (WHERE r.state = 'awaiting_user_confirmation') AS awaiting_user,
            count(*) AS ready, min(r.ready_at) AS oldest
        FROM cutter_queue.work_ready r
    ), w AS (
        SELECT count(*) FILTER (WHERE w.state = 'awaiting_tool') AS awaiting_tool,
            count(*) FILTER (WHERE w.state = 'awaiting_user_confirmation') AS awaiting_user,
            count(*) FILTER (WHERE w.ready_at <= clock.now) AS ready,
            min(w.ready_at) FILTER (WHERE w.ready_at <= clock.now) AS oldest
        FROM cutter_queue.work_wait w CROSS JOIN clock
    ), l AS (
        SELECT count(*) AS executing, min(l.claimed_at) AS oldest,
            count(*) FILTER (WHERE l.expires_at <= clock.now) AS expired
        FROM cutter_queue.work_lease l CROSS JOIN clock
    ), d AS (
        SELECT coalesce(sum(t.items) FILTER (WHERE t.state = 'completed'), 0)::bigint AS completed,
            coalesce(sum(t.items) FILTER (WHERE t.state = 'failed'), 0)::bigint AS failed,
            coalesce(sum(t.items) FILTER (WHERE t.state = 'cancelled'), 0)::bigint AS cancelled
        FROM cutter_queue.work_tally t
    ), s AS (
        SELECT min(a.xact_start) AS oldest FROM pg_stat_activity a
        WHERE a.backend_xmin IS NOT NULL AND a.pid <> pg_backend_pid() AND a.datname = current_database()
    )
    SELECT clock.now, r.queued, l.executing, r.awaiting_tool + w.awaiting_tool, r.awaiting_user + w.awaiting_user,
        d.completed, d.failed, d.cancelled, r.ready + w.ready, least(r.oldest, w.oldest), l.oldest, l.expired,
        (SELECT t.holder FROM cutter_queue.work_watch t WHERE t.expires_at > clock.now), s.oldest
    FROM clock, r, w, l, d, s
$fn$;

-- An item wherever it stands, with everything that is stored about it.
CREATE VIEW cutter_queue.v_work_item AS
    SELECT i.item_id, i.key, i.kind, i.payload, i.payload_sha256, i.priority, i.max_attempts, i.max_failures,
        i.base_ms, i.cap_ms, i.jitter, i.side_effects, i.enqueued_by, i.enqueued_at,
        p.state, p.attempts, p.failures, p.epoch, p.holder, p.claimed_at, p.lease_until, p.ready_at, p.gate,
        p.reason_code, p.reason_detail, NULL::text AS reason_actor, NULL::timestamptz AS finished_at, true AS is_open
    FROM cutter_queue.work_item i
    CROSS JOIN LATERAL (
        SELECT r.state, r.attempts, r.failures, r.epoch, r.holder, r.claimed_at, NULL::timestamptz AS lease_until,
            r.ready_at, r.gate, r.reason_code, r.reason_detail
        FROM cutter_queue.work_ready r WHERE r.priority = i.priority AND r.item_id = i.item_id
        UNION ALL
        SELECT w.state, w.attempts, w.failures, w.epoch, w.holder, w.claimed_at, NULL, w.ready_at, w.gate,
            w.reason_code, w.reason_detail
        FROM cutter_queue.work_wait w WHERE w.item_id = i.item_id
        UNION ALL
        SELECT l.state, l.attempts, l.failures, l.epoch, l.holder, l.claimed_at, l.expires_at, NULL, NULL, NULL, NULL
        FROM cutter_queue.work_lease l WHERE l.item_id = i.item_id
    ) p
    UNION ALL
    SELECT d.item_id, d.key, d.kind, d.payload, d.payload_sha256, d.priority, d.max_attempts, d.max_failures,
        d.base_ms, d.cap_ms, d.jitter, d.side_effects, d.enqueued_by, d.enqueued_at,
        d.state, d.attempts, d.failures, d.epoch, d.holder, d.claimed_at, NULL, NULL, NULL,
        d.reason_code, d.reason_detail, d.reason_actor, d.finished_at, false
    FROM cutter_queue.work_done d;
COMMENT ON VIEW cutter_queue.v_work_item IS 'Every item that is stored, open or ended.';

INSERT INTO cutter_governance.grant_expectation (grantee, privilege, kind, object)
SELECT g.grantee, 'USAGE', 'SCHEMA', 'cutter_queue'
FROM unnest(ARRAY['cutter_exec', 'cutter_verify', 'cutter_ro']) AS g(grantee)
ON CONFLICT DO NOTHING;
INSERT INTO cutter_governance.grant_expectation (grantee, privilege, kind, object)
SELECT g.grantee, 'SELECT', 'TABLE', 'cutter_queue.' || t.name
FROM unnest(ARRAY['cutter_exec', 'cutter_verify', 'cutter_ro']) AS g(grantee),
    unnest(ARRAY['work_key', 'work_attempt', 'v_work_item']) AS t(name);
-- Whoever takes backups reads everything, the days too.
INSERT INTO cutter_governance.grant_expectation (grantee, privilege, kind, object)
SELECT 'cutter_ro', 'SELECT', 'TABLE', 'cutter_queue.' || t.name
FROM unnest(ARRAY['work_item', 'work_ready', 'work_wait', 'work_lease', 'work_done', 'work_tally',
    'work_watch', 'work_item_seq']) AS t(name);
GRANT USAGE ON SCHEMA cutter_queue_day TO cutter_ro;
ALTER DEFAULT PRIVILEGES IN SCHEMA cutter_queue_day GRANT SELECT ON TABLES TO cutter_ro;
INSERT INTO cutter_governance.grant_expectation (grantee, privilege, kind, object)
SELECT v.grantee, 'EXECUTE', 'FUNCTION', 'cutter_queue.fn_work_' || o.name
FROM (VALUES
    ('cutter_exec', 'enqueue claim complete fail await_user ready hand_back heartbeat take_over cancel retain'),
    ('cutter_exec', 'take_watch leave_watch'),
    ('cutter_exec', 'statistics item_targets item_check'), ('cutter_verify', 'statistics item_targets item_check'),
    ('cutter_ro', 'statistics item_targets item_check')
) AS v(grantee, names)
CROSS JOIN LATERAL string_to_table(v.names, ' ') AS o(name);
INSERT INTO cutter_governance.grant_expectation (grantee, privilege, kind, object, wanted)
SELECT g.grantee, p.privilege, 'TABLE', 'cutter_queue.work_lease', false
FROM unnest(ARRAY['cutter_exec', 'cutter_verify', 'cutter_review', 'cutter_ro', 'directus']) AS g(grantee),
    unnest(ARRAY['INSERT', 'UPDATE', 'DELETE']) AS p(privilege);

SELECT cutter_meta.fn_grant_expected('^cutter_queue($|[.](v_|fn_)?work_)');

RESET ROLE;
