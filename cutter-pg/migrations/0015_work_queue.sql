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

-- One row, or none before the first worker asked: a turn guards no data, it saves work.
CREATE TABLE cutter_queue.work_watch (
    one        boolean PRIMARY KEY DEFAULT true CHECK (one),
    holder     uuid NOT NULL,
    expires_at timestamptz NOT NULL
) WITH (fillfactor = 10);
COMMENT ON TABLE cutter_queue.work_watch IS 'Which worker watches over what is parked, until when.';

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

RESET ROLE;
