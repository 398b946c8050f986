-- What one login can hold against the others is bounded: how long a lease runs, what its holder says, whose
-- claim stands, and how long a lock that anybody can take is waited for, which is then named.
SET ROLE cutter_owner;

-- Old rows are not checked; whoever writes one again is.
ALTER TABLE cutter_run.lease ADD CONSTRAINT lease_length
    CHECK (expires_at <= renewed_at + interval '1 day') NOT VALID;

-- Waits for a turn, briefly; then says who has it. An advisory lock is anybody's to take. p_is_passing: for
-- others' turns to be over, holding nothing.
CREATE FUNCTION cutter_run.fn_turn(p_key bigint, p_what text, p_is_passing boolean DEFAULT false) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $fn$
DECLARE
    v_limit text := current_setting('lock_timeout');
    v_holder text;
BEGIN
    IF p_is_passing THEN
        IF pg_try_advisory_lock_shared(p_key) THEN
            RETURN pg_advisory_unlock_shared(p_key);
        END IF;
    ELSIF pg_try_advisory_xact_lock(p_key) THEN
        RETURN true;
    END IF;
    IF v_limit = '0' THEN
        PERFORM set_config('lock_timeout', '5s', true);
    END IF;
    BEGIN
        IF p_is_passing THEN
            PERFORM pg_advisory_lock_shared(p_key);
            PERFORM pg_advisory_unlock_shared(p_key);
        ELSE
            PERFORM pg_advisory_xact_lock(p_key);
        END IF;
    EXCEPTION WHEN lock_not_available THEN
        SELECT string_agg('server process ' || l.pid || ', login ' || coalesce(a.usename::text, '?')
            || ', application ' || quote_literal(coalesce(a.application_name, '')), '; ' ORDER BY l.pid) INTO v_holder
        FROM pg_locks l LEFT JOIN pg_stat_activity a ON a.pid = l.pid
        WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 1
            AND l.classid = ((p_key >> 32) & 4294967295)::oid AND l.objid = (p_key & 4294967295)::oid
            AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database());
        RAISE EXCEPTION '% waits for its turn in vain: an advisory lock (%) is held by %', p_what, p_key,
            coalesce(v_holder, 'nobody any more')
            USING ERRCODE = '55P03', HINT = 'An administrator ends that session: SELECT pg_terminate_backend(<process>).';
    END;
    PERFORM set_config('lock_timeout', v_limit, true);
    RETURN true;
END
$fn$;

CREATE FUNCTION cutter_queue.fn_lease_check(p_lease_ms integer) RETURNS void
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $fn$
BEGIN
    IF p_lease_ms BETWEEN 1 AND 86400000 IS NOT TRUE THEN
        RAISE EXCEPTION 'a lease lasts from 1 ms to a day, not % ms', p_lease_ms USING ERRCODE = 'CU001';
    END IF;
END
$fn$;

-- Renews leases; gives the runs whose lease still stands. One that ran out and that nobody took is
-- renewed, too: nothing happened meanwhile.
CREATE OR REPLACE FUNCTION cutter_run.fn_lease_renew(p_run_ids text[], p_tokens bigint[], p_lease_ms bigint)
RETURNS SETOF text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $fn$
BEGIN
    IF p_lease_ms BETWEEN 1 AND 86400000 IS NOT TRUE THEN
        RAISE EXCEPTION 'a lease lasts from 1 ms to a day, not % ms', p_lease_ms USING ERRCODE = 'CU001';
    END IF;
    RETURN QUERY
    UPDATE cutter_run.lease l SET renewed_at = clock_timestamp(),
        expires_at = clock_timestamp() + p_lease_ms * interval '1 millisecond'
    FROM unnest(p_run_ids, p_tokens) AS h(run_id, token)
    WHERE l.run_id = h.run_id AND l.token = h.token AND l.released_at IS NULL
    RETURNING l.run_id;
END
$fn$;

-- Who holds a lease, as the program says it: a JSON object, so that whoever is refused can read it.
CREATE FUNCTION cutter_run.fn_lease_holder() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $fn$
BEGIN
    IF json_typeof(NEW.holder::json) IS DISTINCT FROM 'object'
        OR NOT NEW.holder::jsonb ?& ARRAY['holder', 'host', 'pid', 'since', 'command']
    THEN
        RAISE EXCEPTION 'the holder of a lease is an object with holder, host, pid, since and command'
            USING ERRCODE = 'CU001';
    END IF;
    RETURN NEW;
EXCEPTION WHEN invalid_text_representation THEN
    RAISE EXCEPTION 'the holder of a lease is an object with holder, host, pid, since and command, not %',
        left(NEW.holder, 40) USING ERRCODE = 'CU001';
END
$fn$;
-- Not for a renewal, which is what a lease sees most.
CREATE TRIGGER trg_lease_holder BEFORE INSERT OR UPDATE OF holder ON cutter_run.lease
    FOR EACH ROW EXECUTE FUNCTION cutter_run.fn_lease_holder();

-- A claim is a run's that is there.
CREATE FUNCTION cutter_run.fn_claim_guard() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $fn$
BEGIN
    IF NOT EXISTS (SELECT FROM cutter_run.run r WHERE r.run_id = NEW.run_id) THEN
        RAISE EXCEPTION 'there is no run %', NEW.run_id USING ERRCODE = 'CUN10';
    END IF;
    RETURN NEW;
END
$fn$;
CREATE TRIGGER trg_claim_guard BEFORE INSERT ON cutter_run.claim
    FOR EACH ROW EXECUTE FUNCTION cutter_run.fn_claim_guard();

-- The functions that wait for a lock of anybody's, and those of the queue that lease.
DO $do$
DECLARE
    r record;
    v_text text;
    v_count integer := 0;
BEGIN
    FOR r IN SELECT p.oid, p.oid::pg_catalog.regprocedure AS name, p.prosrc, n.nspname = 'cutter_queue' AS is_queue
             FROM pg_catalog.pg_proc p JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace
             WHERE n.nspname IN ('cutter_run', 'cutter_queue') AND p.proname <> 'fn_turn'
                 AND (p.prosrc ~ 'pg_advisory_(xact_)?lock' OR n.nspname = 'cutter_queue' AND p.prosrc ~ 'p_lease_ms [*]')
    LOOP
        v_text := pg_catalog.pg_get_functiondef(r.oid);
        v_text := replace(v_text, 'pg_advisory_xact_lock(hashtextextended(p_run_id, 17)) IS NOT NULL',
            'cutter_run.fn_turn(hashtextextended(p_run_id, 17), ''run '' || p_run_id)');
        v_text := replace(v_text, 'pg_advisory_xact_lock(hashtextextended(p_run_id, 17))',
            'cutter_run.fn_turn(hashtextextended(p_run_id, 17), ''run '' || p_run_id)');
        v_text := replace(v_text, 'pg_advisory_xact_lock(hashtext(''cutter_queue.fn_work_day''))',
            'cutter_run.fn_turn(hashtext(''cutter_queue.fn_work_day''), ''the queue'')');
        v_text := regexp_replace(v_text, 'PERFORM pg_advisory_lock_shared[^;]*;\s*PERFORM pg_advisory_unlock_shared[^;]*;',
            'PERFORM cutter_run.fn_turn(hashtext(''cutter_queue.fn_work_day''), ''the queue'', true);');
        IF v_text ~ 'pg_advisory_(xact_)?lock' THEN
            RAISE EXCEPTION '% still waits for an advisory lock without a bound', r.name;
        END IF;
        IF r.is_queue AND r.prosrc ~ 'p_lease_ms [*]' THEN
            v_text := regexp_replace(v_text, E'\nBEGIN\n', E'\nBEGIN\n    PERFORM cutter_queue.fn_lease_check(p_lease_ms);\n');
            IF v_text !~ 'fn_lease_check' THEN
                RAISE EXCEPTION '% was expected to begin with BEGIN', r.name;
            END IF;
        END IF;
        EXECUTE v_text;
        v_count := v_count + 1;
    END LOOP;
    IF v_count < 6 THEN
        RAISE EXCEPTION 'expected at least six functions that wait or lease, observed %', v_count;
    END IF;
END
$do$;

RESET ROLE;
