-- The work queue (spec 4): an item stands in exactly one of four places, and a move takes it from
-- one to the next. work_item holds what never changes while it is open; work_ready what a claim
-- finds, in its order; work_wait what waits for a time or a human; work_lease who executes;
-- work_done what ended, in day partitions that are dropped whole. Each row says where it came
-- from, and its CHECK is the table of legal moves. Nobody writes but these functions. Times are
-- the server's; no function takes one.
CREATE SCHEMA IF NOT EXISTS cutter_queue AUTHORIZATION cutter_owner;
-- The days have a schema of their own: a new day is no change of the pinned catalogue.
CREATE SCHEMA cutter_queue_day AUTHORIZATION cutter_owner;
COMMENT ON SCHEMA cutter_queue_day IS 'Partitions of cutter_queue.work_done, one a day (UTC).';

-- To tell how old the oldest snapshot is, whoever holds it. Without it the answer is "not known".
DO $do$
BEGIN
    IF NOT pg_has_role('cutter_owner', 'pg_read_all_stats', 'MEMBER') THEN
        GRANT pg_read_all_stats TO cutter_owner;
    END IF;
EXCEPTION WHEN insufficient_privilege THEN
    NULL;
END
$do$;

SET ROLE cutter_owner;

CREATE SEQUENCE cutter_queue.work_item_seq AS bigint;

-- One row per key, from the enqueueing to the drop of the day on which its item ended.
CREATE TABLE cutter_queue.work_key (
    key            text COLLATE "C" PRIMARY KEY CHECK (octet_length(key) BETWEEN 1 AND 200),
    item_id        bigint NOT NULL,
    payload_sha256 bytea NOT NULL CHECK (octet_length(payload_sha256) = 32)
);
COMMENT ON TABLE cutter_queue.work_key IS 'What makes enqueueing idempotent: a key stands for one payload.';

CREATE TABLE cutter_queue.work_item (
    item_id        bigint PRIMARY KEY CHECK (item_id > 0),
    key            text COLLATE "C" NOT NULL,
    kind           text COLLATE "C" NOT NULL CHECK (octet_length(kind) BETWEEN 1 AND 64),
    payload        bytea NOT NULL CHECK (octet_length(payload) <= 65536),
    payload_sha256 bytea NOT NULL
        CHECK (payload_sha256 = sha256(convert_to(kind, 'UTF8') || '\x0a'::bytea || payload)),
    priority       integer NOT NULL,
    max_attempts   integer NOT NULL CHECK (max_attempts > 0),
    max_failures   integer NOT NULL CHECK (max_failures > 0),
    base_ms        integer NOT NULL CHECK (base_ms >= 0),
    cap_ms         integer NOT NULL CHECK (cap_ms >= 0),
    jitter         smallint NOT NULL CHECK (jitter BETWEEN 0 AND 100),
    side_effects   boolean NOT NULL,
    enqueued_by    text NOT NULL,
    enqueued_at    timestamptz NOT NULL
);
COMMENT ON TABLE cutter_queue.work_item IS 'What does not change of an item that has not ended.';

CREATE TABLE cutter_queue.work_ready (
    priority      integer NOT NULL,
    item_id       bigint NOT NULL,
    came_from     text NOT NULL,
    state         text NOT NULL,
    attempts      integer NOT NULL CHECK (attempts >= 0),
    failures      integer NOT NULL CHECK (failures >= 0),
    epoch         bigint NOT NULL CHECK (epoch >= 0),
    ready_at      timestamptz NOT NULL,
    holder        uuid,
    claimed_at    timestamptz,
    gate          text,
    reason_code   text,
    reason_detail text,
    PRIMARY KEY (priority, item_id),
    CONSTRAINT work_ready_move CHECK (came_from || '>' || state IN ('received>queued',
        'executing>awaiting_tool', 'executing>awaiting_user_confirmation'))
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000,
    autovacuum_vacuum_cost_delay = 0);
COMMENT ON TABLE cutter_queue.work_ready IS 'What a claim finds, in claim order: queued items and those whose wait is over.';

CREATE TABLE cutter_queue.work_wait (
    item_id       bigint PRIMARY KEY,
    priority      integer NOT NULL,
    came_from     text NOT NULL,
    state         text NOT NULL,
    attempts      integer NOT NULL CHECK (attempts >= 0),
    failures      integer NOT NULL CHECK (failures >= 0),
    epoch         bigint NOT NULL CHECK (epoch > 0),
    ready_at      timestamptz,
    holder        uuid NOT NULL,
    claimed_at    timestamptz NOT NULL,
    gate          text,
    reason_code   text,
    reason_detail text,
    CONSTRAINT work_wait_move CHECK (came_from || '>' || state IN ('executing>awaiting_tool',
        'executing>awaiting_user_confirmation')),
    CHECK ((state = 'awaiting_tool') = (ready_at IS NOT NULL)),
    CHECK ((state = 'awaiting_user_confirmation') = (gate IS NOT NULL))
);
COMMENT ON TABLE cutter_queue.work_wait IS 'What waits for a retry''s delay or for a human.';
CREATE INDEX work_wait_due ON cutter_queue.work_wait (ready_at) WHERE ready_at IS NOT NULL;

-- No index on expires_at: heartbeats stay within their page.
CREATE TABLE cutter_queue.work_lease (
    item_id    bigint PRIMARY KEY,
    priority   integer NOT NULL,
    came_from  text NOT NULL,
    state      text NOT NULL DEFAULT 'executing' CHECK (state = 'executing'),
    attempts   integer NOT NULL CHECK (attempts > 0),
    failures   integer NOT NULL CHECK (failures >= 0),
    epoch      bigint NOT NULL CHECK (epoch > 0),
    holder     uuid NOT NULL,
    claimed_at timestamptz NOT NULL,
    expires_at timestamptz NOT NULL,
    CONSTRAINT work_lease_move CHECK (came_from || '>' || state IN ('queued>executing', 'executing>executing',
        'awaiting_tool>executing', 'awaiting_user_confirmation>executing'))
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000,
    autovacuum_vacuum_cost_delay = 0);
COMMENT ON TABLE cutter_queue.work_lease IS 'Who executes what, until when, under which epoch.';

CREATE TABLE cutter_queue.work_done (
    finished_on    date NOT NULL,
    item_id        bigint NOT NULL,
    key            text COLLATE "C" NOT NULL,
    kind           text COLLATE "C" NOT NULL,
    payload        bytea NOT NULL,
    payload_sha256 bytea NOT NULL,
    priority       integer NOT NULL,
    max_attempts   integer NOT NULL,
    max_failures   integer NOT NULL,
    base_ms        integer NOT NULL,
    cap_ms         integer NOT NULL,
    jitter         smallint NOT NULL,
    side_effects   boolean NOT NULL,
    enqueued_by    text NOT NULL,
    enqueued_at    timestamptz NOT NULL,
    came_from      text NOT NULL,
    state          text NOT NULL,
    attempts       integer NOT NULL,
    failures       integer NOT NULL,
    epoch          bigint NOT NULL,
    holder         uuid,
    claimed_at     timestamptz,
    reason_code    text,
    reason_detail  text,
    reason_actor   text,
    finished_at    timestamptz NOT NULL,
    PRIMARY KEY (item_id, finished_on),
    CONSTRAINT work_done_move CHECK (came_from || '>' || state IN ('received>failed', 'received>cancelled',
        'queued>failed', 'queued>cancelled', 'executing>completed', 'executing>failed', 'executing>cancelled',
        'awaiting_tool>failed', 'awaiting_tool>cancelled',
        'awaiting_user_confirmation>failed', 'awaiting_user_confirmation>cancelled')),
    CHECK ((state = 'completed') = (reason_code IS NULL)),
    CHECK (finished_on = (finished_at AT TIME ZONE 'UTC')::date)
) PARTITION BY RANGE (finished_on);
COMMENT ON TABLE cutter_queue.work_done IS 'What ended, by day (UTC). Rows never change; days are dropped whole.';

CREATE TABLE cutter_queue.work_attempt (
    item_id    bigint NOT NULL,
    epoch      bigint NOT NULL,
    holder     uuid NOT NULL,
    claimed_at timestamptz NOT NULL,
    ended_at   timestamptz NOT NULL,
    ending     text NOT NULL CHECK (ending IN ('failed', 'await_user', 'handed_back', 'lease_lost')),
    code       text NOT NULL,
    detail     text NOT NULL,
    PRIMARY KEY (item_id, epoch)
);
COMMENT ON TABLE cutter_queue.work_attempt IS 'Attempts that ended without finishing their item.';

-- One row a batch, added up by the retention: counting what ended reads no day.
CREATE TABLE cutter_queue.work_tally (
    day   date NOT NULL,
    state text NOT NULL,
    items bigint NOT NULL
);
COMMENT ON TABLE cutter_queue.work_tally IS 'How many items ended how on which day.';

-- The one clock of the queue.
CREATE FUNCTION cutter_queue.fn_work_now() RETURNS timestamptz
LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $fn$ SELECT clock_timestamp() $fn$;

-- The matrix of spec 4, in its order.
CREATE FUNCTION cutter_queue.fn_work_item_targets(p_state text) RETURNS text[]
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $fn$
    SELECT CASE p_state
        WHEN 'received' THEN ARRAY['received', 'queued', 'failed', 'cancelled']
        WHEN 'queued' THEN ARRAY['queued', 'executing', 'failed', 'cancelled']
        WHEN 'executing' THEN ARRAY['executing', 'awaiting_tool', 'awaiting_user_confirmation', 'completed',
            'failed', 'cancelled']
        WHEN 'awaiting_tool' THEN ARRAY['awaiting_tool', 'executing', 'failed', 'cancelled']
        WHEN 'awaiting_user_confirmation' THEN ARRAY['awaiting_user_confirmation', 'executing', 'failed', 'cancelled']
        WHEN 'completed' THEN ARRAY['completed']
        WHEN 'failed' THEN ARRAY['failed']
        WHEN 'cancelled' THEN ARRAY['cancelled']
    END
$fn$;

CREATE FUNCTION cutter_queue.fn_work_item_check(p_from text, p_to text) RETURNS void
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $fn$
BEGIN
    IF NOT coalesce(p_to = ANY (cutter_queue.fn_work_item_targets(p_from)), false) THEN
        RAISE EXCEPTION 'illegal work_item transition %->% (legal=%)', p_from, p_to,
            array_to_string(cutter_queue.fn_work_item_targets(p_from), ',') USING ERRCODE = 'CUC09';
    END IF;
END
$fn$;

-- The day's partition, made when it is first needed. Dynamic SQL: what is put into it is a date.
CREATE FUNCTION cutter_queue.fn_work_day(p_day date) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $fn$
DECLARE
    v_name text := 'd' || to_char(p_day, 'YYYYMMDD');
BEGIN
    IF to_regclass('cutter_queue_day.' || v_name) IS NOT NULL THEN
        -- Whoever made it may have committed and not yet told the other sessions, which then still
        -- route rows without it. Its lock goes only afterwards: wait that out, and hold nothing.
        PERFORM pg_advisory_lock_shared(hashtext('cutter_queue.fn_work_day'));
        PERFORM pg_advisory_unlock_shared(hashtext('cutter_queue.fn_work_day'));
        RETURN;
    END IF;
    PERFORM pg_advisory_xact_lock(hashtext('cutter_queue.fn_work_day'));
    -- By a snapshot of its own: to_regclass remembers what it did not find before the wait.
    IF EXISTS (SELECT FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
               WHERE n.nspname = 'cutter_queue_day' AND c.relname = v_name) THEN
        RETURN;
    END IF;
    -- Attached rather than made in place: that does not wait for who writes to other days.
    EXECUTE format('CREATE TABLE cutter_queue_day.%I (LIKE cutter_queue.work_done INCLUDING ALL)', v_name);
    EXECUTE format('ALTER TABLE cutter_queue.work_done ATTACH PARTITION cutter_queue_day.%I
        FOR VALUES FROM (%L) TO (%L)', v_name, p_day, p_day + 1);
END
$fn$;

-- Items into the queue, all or none. The numbers follow the order given.
CREATE FUNCTION cutter_queue.fn_work_enqueue(
    p_keys text[], p_kinds text[], p_payloads bytea[], p_sha256 bytea[], p_priorities integer[],
    p_max_attempts integer[], p_max_failures integer[], p_base_ms integer[], p_cap_ms integer[],
    p_jitter smallint[], p_side_effects boolean[], p_actors text[])
RETURNS TABLE (place bigint, item_id bigint, is_new boolean)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off SET jit = off AS $fn$
DECLARE
    v_now timestamptz := cutter_queue.fn_work_now();
    v_ids bigint[];
    v_new bigint[];
    v_wrong record;
BEGIN
    SELECT array_agg(nextval('cutter_queue.work_item_seq') ORDER BY n) INTO v_ids
    FROM generate_series(1, cardinality(p_keys)) n;
    -- In key order: two batches never wait for each other in a circle.
    WITH added AS (
        INSERT INTO cutter_queue.work_key AS k (key, item_id, payload_sha256)
        SELECT a.key, v_ids[a.place], p_sha256[a.place]
        FROM (SELECT u.key COLLATE "C" AS key, min(u.place) AS place
              FROM unnest(p_keys) WITH ORDINALITY AS u(key, place) GROUP BY u.key COLLATE "C") a
        ORDER BY a.key COLLATE "C"
        ON CONFLICT DO NOTHING
        RETURNING k.item_id
    )
    SELECT coalesce(array_agg(added.item_id), '{}') INTO v_new FROM added;
    -- What was there before, and what this batch holds twice, must come with the same payload.
    IF cardinality(v_new) < cardinality(p_keys) THEN
        SELECT u.key, k.payload_sha256 AS expected, u.sha256 AS observed, k.item_id INTO v_wrong
        FROM unnest(p_keys, p_sha256) WITH ORDINALITY AS u(key, sha256, place)
        LEFT JOIN cutter_queue.work_key k ON k.key = u.key COLLATE "C"
        WHERE k.payload_sha256 IS DISTINCT FROM u.sha256
        ORDER BY u.place LIMIT 1;
        IF FOUND AND v_wrong.item_id IS NULL THEN
            -- Its day was dropped since: once more will find the key free.
            RAISE EXCEPTION 'key % was dropped meanwhile', v_wrong.key USING ERRCODE = '40001';
        ELSIF FOUND THEN
            RAISE EXCEPTION 'enqueue.same_payload: expected % for key %, observed %',
                encode(v_wrong.expected, 'hex'), v_wrong.key, encode(v_wrong.observed, 'hex')
                USING ERRCODE = 'CUC11';
        END IF;
    END IF;
    IF cardinality(v_new) > 0 THEN
        WITH added AS (
            INSERT INTO cutter_queue.work_item AS i (item_id, key, kind, payload, payload_sha256, priority,
                max_attempts, max_failures, base_ms, cap_ms, jitter, side_effects, enqueued_by, enqueued_at)
            SELECT u.item_id, u.key, u.kind, u.payload, u.sha256, u.priority, u.max_attempts, u.max_failures,
                u.base_ms, u.cap_ms, u.jitter, u.side_effects, u.actor, v_now
            FROM unnest(v_ids, p_keys, p_kinds, p_payloads, p_sha256, p_priorities, p_max_attempts, p_max_failures,
                    p_base_ms, p_cap_ms, p_jitter, p_side_effects, p_actors)
                AS u(item_id, key, kind, payload, sha256, priority, max_attempts, max_failures, base_ms, cap_ms,
                    jitter, side_effects, actor)
            WHERE cardinality(v_new) = cardinality(p_keys) OR u.item_id = ANY (v_new)
            RETURNING i.item_id, i.priority
        )
        INSERT INTO cutter_queue.work_ready (priority, item_id, came_from, state, attempts, failures, epoch, ready_at)
        SELECT added.priority, added.item_id, 'received', 'queued', 0, 0, 0, v_now FROM added;
        PERFORM pg_notify('cutter_queue', '');
    END IF;
    IF cardinality(v_new) = cardinality(p_keys) THEN
        RETURN QUERY SELECT u.place, u.item_id, true FROM unnest(v_ids) WITH ORDINALITY AS u(item_id, place);
    ELSE
        RETURN QUERY
            SELECT u.place, k.item_id, k.item_id = v_ids[u.place]
            FROM unnest(p_keys) WITH ORDINALITY AS u(key, place)
            JOIN cutter_queue.work_key k ON k.key = u.key COLLATE "C"
            ORDER BY u.place;
    END IF;
END
$fn$;

-- Waits that are over become ready, in their old place.
CREATE FUNCTION cutter_queue.fn_work_due() RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off SET jit = off AS $fn$
DECLARE
    v_now timestamptz := cutter_queue.fn_work_now();
BEGIN
    WITH due AS MATERIALIZED (
        SELECT w.item_id FROM cutter_queue.work_wait w
        WHERE w.ready_at IS NOT NULL AND w.ready_at <= v_now
        ORDER BY w.ready_at LIMIT 10000 FOR UPDATE SKIP LOCKED
    ), gone AS (
        DELETE FROM cutter_queue.work_wait w USING due WHERE w.item_id = due.item_id RETURNING w.*
    )
    INSERT INTO cutter_queue.work_ready (priority, item_id, came_from, state, attempts, failures, epoch, ready_at,
        holder, claimed_at, gate, reason_code, reason_detail)
    SELECT g.priority, g.item_id, g.came_from, g.state, g.attempts, g.failures, g.epoch, g.ready_at,
        g.holder, g.claimed_at, g.gate, g.reason_code, g.reason_detail
    FROM gone g;
END
$fn$;

-- A batch in claim order, under leases of p_lease_ms.
CREATE FUNCTION cutter_queue.fn_work_claim(p_holder uuid, p_limit integer, p_lease_ms integer)
RETURNS TABLE (item_id bigint, key text, kind text, payload bytea, payload_sha256 bytea, priority integer,
    max_attempts integer, max_failures integer, base_ms integer, cap_ms integer, jitter smallint,
    side_effects boolean, enqueued_by text, enqueued_at timestamptz, attempts integer, failures integer,
    epoch bigint, claimed_at timestamptz, lease_until timestamptz)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET jit = off AS $fn$
DECLARE
    v_now timestamptz := cutter_queue.fn_work_now();
BEGIN
    IF EXISTS (SELECT FROM cutter_queue.work_wait w WHERE w.ready_at IS NOT NULL AND w.ready_at <= v_now) THEN
        PERFORM cutter_queue.fn_work_due();
    END IF;
    RETURN QUERY
    WITH picked AS MATERIALIZED (
        SELECT r.priority, r.item_id FROM cutter_queue.work_ready r
        ORDER BY r.priority, r.item_id LIMIT p_limit FOR UPDATE SKIP LOCKED
    ), gone AS (
        DELETE FROM cutter_queue.work_ready r USING picked p
        WHERE r.priority = p.priority AND r.item_id = p.item_id
        RETURNING r.item_id, r.priority, r.state, r.attempts, r.failures, r.epoch
    ), leased AS (
        INSERT INTO cutter_queue.work_lease AS l (item_id, priority, came_from, attempts, failures, epoch, holder,
            claimed_at, expires_at)
        SELECT g.item_id, g.priority, g.state, g.attempts + 1, g.failures, g.epoch + 1, p_holder,
            v_now, v_now + p_lease_ms * interval '1 ms'
        FROM gone g
        RETURNING l.item_id, l.attempts, l.failures, l.epoch, l.expires_at
    )
    SELECT i.item_id, i.key, i.kind, i.payload, i.payload_sha256, i.priority, i.max_attempts, i.max_failures,
        i.base_ms, i.cap_ms, i.jitter, i.side_effects, i.enqueued_by, i.enqueued_at,
        l.attempts, l.failures, l.epoch, v_now, l.expires_at
    FROM leased l JOIN cutter_queue.work_item i ON i.item_id = l.item_id
    ORDER BY i.priority, i.item_id;
END
$fn$;

-- Moves items to their end: for the functions below, nobody is granted it. The caller has taken
-- them from where they stood.
CREATE FUNCTION cutter_queue.fn_work_finish(
    p_now timestamptz, p_state text, p_items bigint[], p_came_from text[], p_attempts integer[],
    p_failures integer[], p_epochs bigint[], p_holders uuid[], p_claimed_at timestamptz[],
    p_code text[], p_detail text[], p_actor text)
RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off AS $fn$
DECLARE
    v_day date := (p_now AT TIME ZONE 'UTC')::date;
BEGIN
    PERFORM cutter_queue.fn_work_day(v_day);
    WITH ended AS (
        SELECT u.* FROM unnest(p_items, p_came_from, p_attempts, p_failures, p_epochs, p_holders, p_claimed_at,
                p_code, p_detail)
            AS u(item_id, came_from, attempts, failures, epoch, holder, claimed_at, code, detail)
    ), gone AS (
        DELETE FROM cutter_queue.work_item i USING ended e WHERE i.item_id = e.item_id
        RETURNING i.*, e.came_from, e.attempts, e.failures, e.epoch, e.holder, e.claimed_at, e.code, e.detail
    )
    INSERT INTO cutter_queue.work_done (finished_on, item_id, key, kind, payload, payload_sha256, priority,
        max_attempts, max_failures, base_ms, cap_ms, jitter, side_effects, enqueued_by, enqueued_at,
        came_from, state, attempts, failures, epoch, holder, claimed_at, reason_code, reason_detail, reason_actor,
        finished_at)
    SELECT v_day, g.item_id, g.key, g.kind, g.payload, g.payload_sha256, g.priority,
        g.max_attempts, g.max_failures, g.base_ms, g.cap_ms, g.jitter, g.side_effects, g.enqueued_by, g.enqueued_at,
        g.came_from, p_state, g.attempts, g.failures, g.epoch, g.holder, g.claimed_at, g.code, g.detail,
        p_actor, p_now
    FROM gone g;
    INSERT INTO cutter_queue.work_tally (day, state, items) VALUES (v_day, p_state, cardinality(p_items));
END
$fn$;

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
    oldest_ready timestamptz, oldest_lease timestamptz, expired_leases bigint, oldest_snapshot timestamptz)
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
        d.completed, d.failed, d.cancelled, r.ready + w.ready, least(r.oldest, w.oldest), l.oldest, l.expired, s.oldest
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
    'work_item_seq']) AS t(name);
GRANT USAGE ON SCHEMA cutter_queue_day TO cutter_ro;
ALTER DEFAULT PRIVILEGES IN SCHEMA cutter_queue_day GRANT SELECT ON TABLES TO cutter_ro;
INSERT INTO cutter_governance.grant_expectation (grantee, privilege, kind, object)
SELECT v.grantee, 'EXECUTE', 'FUNCTION', 'cutter_queue.fn_work_' || o.name
FROM (VALUES
    ('cutter_exec', 'enqueue claim complete fail await_user ready hand_back heartbeat take_over cancel retain'),
    ('cutter_exec', 'statistics item_targets item_check'), ('cutter_verify', 'statistics item_targets item_check'),
    ('cutter_ro', 'statistics item_targets item_check')
) AS v(grantee, names)
CROSS JOIN LATERAL string_to_table(v.names, ' ') AS o(name);
INSERT INTO cutter_governance.grant_expectation (grantee, privilege, kind, object, wanted)
SELECT g.grantee, p.privilege, 'TABLE', 'cutter_queue.work_lease', false
FROM unnest(ARRAY['cutter_exec', 'cutter_verify', 'cutter_review', 'cutter_ro', 'directus']) AS g(grantee),
    unnest(ARRAY['INSERT', 'UPDATE', 'DELETE']) AS p(privilege);

DO $do$
DECLARE
    r record;
BEGIN
    FOR r IN SELECT * FROM cutter_governance.grant_expectation
             WHERE wanted AND object ~ '^cutter_queue($|[.](v_|fn_)?work_)'
    LOOP
        EXECUTE format('GRANT %s ON %s %s TO %I', r.privilege, r.kind, r.object, r.grantee);
    END LOOP;
END
$do$;

RESET ROLE;
