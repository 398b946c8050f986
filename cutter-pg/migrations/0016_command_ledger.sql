-- The command ledger (spec 4, AG-EXE-01): intents, attempts and how they ended, append-only. An
-- entry's state follows from its newest attempt; nothing is ever changed in place.
SET ROLE cutter_owner;

CREATE TABLE cutter_governance.command (
    command_key    text COLLATE "C" PRIMARY KEY CHECK (command_key ~ '^[!-~]{1,200}$'),
    kind           text COLLATE "C" NOT NULL
        CHECK (kind ~ '^[a-z][a-z0-9_]*([.][a-z][a-z0-9_]*)*$' AND octet_length(kind) <= 64),
    body           text NOT NULL CHECK (octet_length(body) <= 65536 AND body::jsonb ->> 'kind' = kind),
    payload_sha256 text NOT NULL CHECK (payload_sha256 = encode(sha256(convert_to(body, 'UTF8')), 'hex')),
    actor          text NOT NULL CHECK (octet_length(actor) BETWEEN 1 AND 64),
    principal      text NOT NULL DEFAULT session_user,
    at             timestamptz NOT NULL
);
COMMENT ON TABLE cutter_governance.command IS
    'One side effect that was asked for: canonical JSON of kind and payload under its idempotency key. Append-only.';

CREATE TABLE cutter_governance.command_attempt (
    command_key text COLLATE "C" NOT NULL REFERENCES cutter_governance.command,
    epoch       integer NOT NULL CHECK (epoch >= 1),
    cause       text NOT NULL CHECK (cause IN ('fresh', 'retry', 'unresolved')),
    holder      uuid NOT NULL,
    actor       text NOT NULL CHECK (octet_length(actor) BETWEEN 1 AND 64),
    principal   text NOT NULL DEFAULT session_user,
    lease_until timestamptz NOT NULL,
    at          timestamptz NOT NULL,
    PRIMARY KEY (command_key, epoch)
);
COMMENT ON TABLE cutter_governance.command_attempt IS
    'One attempt; its epoch is the fencing token. lease_until is the server''s time, at the caller''s. Append-only.';

CREATE TABLE cutter_governance.command_settlement (
    command_key text COLLATE "C" NOT NULL,
    epoch       integer NOT NULL,
    state       text COLLATE "C" NOT NULL CHECK (state IN ('waiting', 'done', 'failed')),
    settlement  text NOT NULL CHECK (octet_length(settlement) <= 65536 AND settlement::jsonb ->> 'state' = state),
    due_at      timestamptz CHECK ((due_at IS NOT NULL) = (state = 'waiting')),
    at          timestamptz NOT NULL,
    PRIMARY KEY (command_key, epoch),
    FOREIGN KEY (command_key, epoch) REFERENCES cutter_governance.command_attempt
);
COMMENT ON TABLE cutter_governance.command_settlement IS
    'How an attempt ended: canonical JSON with the receipt, the failure, or the delay. Append-only.';
-- A command ends once.
CREATE UNIQUE INDEX command_settlement_end ON cutter_governance.command_settlement (command_key)
    WHERE state IN ('done', 'failed');

CREATE TABLE cutter_governance.command_open (
    command_key text COLLATE "C" PRIMARY KEY REFERENCES cutter_governance.command
);
COMMENT ON TABLE cutter_governance.command_open IS
    'Keys that have not ended, so that a recovery costs what is open. Follows from the other tables; no evidence.';

CREATE VIEW cutter_governance.v_command AS
SELECT c.command_key, c.kind, c.body, c.payload_sha256, c.actor, c.at, a.epoch, a.holder, a.lease_until,
    coalesce(s.state, 'intended') AS state, s.settlement, s.due_at,
    (SELECT count(*) FROM cutter_governance.command_settlement w
     WHERE w.command_key = c.command_key AND w.state = 'waiting') AS failures
FROM cutter_governance.command c
CROSS JOIN LATERAL (
    SELECT n.epoch, n.holder, n.lease_until FROM cutter_governance.command_attempt n
    WHERE n.command_key = c.command_key ORDER BY n.epoch DESC LIMIT 1
) a
LEFT JOIN cutter_governance.command_settlement s ON s.command_key = c.command_key AND s.epoch = a.epoch;
COMMENT ON VIEW cutter_governance.v_command IS 'Each command with its newest attempt, and where it stands.';

CREATE TRIGGER trg_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON cutter_governance.command
    FOR EACH STATEMENT EXECUTE FUNCTION cutter_governance.fn_append_only();
CREATE TRIGGER trg_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON cutter_governance.command_attempt
    FOR EACH STATEMENT EXECUTE FUNCTION cutter_governance.fn_append_only();
CREATE TRIGGER trg_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON cutter_governance.command_settlement
    FOR EACH STATEMENT EXECUTE FUNCTION cutter_governance.fn_append_only();
CREATE TRIGGER trg_no_edit BEFORE UPDATE OR TRUNCATE ON cutter_governance.command_open
    FOR EACH STATEMENT EXECUTE FUNCTION cutter_governance.fn_append_only();

-- The targets of a state, as the table of the core has them.
CREATE FUNCTION cutter_governance.fn_command_targets(p_from text) RETURNS text[]
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $fn$
    SELECT CASE p_from
        WHEN 'intended' THEN ARRAY['intended', 'waiting', 'done', 'failed']
        WHEN 'waiting' THEN ARRAY['intended']
        WHEN 'done' THEN ARRAY['done']
        WHEN 'failed' THEN ARRAY['failed']
        ELSE ARRAY[]::text[]
    END
$fn$;

CREATE FUNCTION cutter_governance.fn_command_assert(p_from text, p_to text) RETURNS void
LANGUAGE plpgsql IMMUTABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $fn$
BEGIN
    IF p_to = ANY (cutter_governance.fn_command_targets(p_from)) THEN
        RETURN;
    END IF;
    RAISE EXCEPTION 'illegal command transition %->% (legal=%)', p_from, p_to,
        array_to_string(cutter_governance.fn_command_targets(p_from), ',') USING ERRCODE = 'CUC15';
END
$fn$;

-- The next attempt follows the newest one, and only where the table has the edge.
CREATE FUNCTION cutter_governance.fn_command_attempt_guard() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $fn$
DECLARE
    v_epoch integer;
    v_state text;
BEGIN
    PERFORM FROM cutter_governance.command c WHERE c.command_key = NEW.command_key FOR UPDATE;
    SELECT v.epoch, v.state INTO v_epoch, v_state
    FROM cutter_governance.v_command v WHERE v.command_key = NEW.command_key;
    IF NEW.epoch <> coalesce(v_epoch, 0) + 1 OR (v_epoch IS NULL) <> (NEW.cause = 'fresh') THEN
        RAISE EXCEPTION 'command %: attempt % (%) does not follow attempt %', NEW.command_key, NEW.epoch, NEW.cause,
            coalesce(v_epoch, 0) USING ERRCODE = 'CUC16';
    END IF;
    IF v_epoch IS NULL THEN
        INSERT INTO cutter_governance.command_open (command_key) VALUES (NEW.command_key);
    ELSE
        PERFORM cutter_governance.fn_command_assert(v_state, 'intended');
    END IF;
    RETURN NEW;
END
$fn$;
CREATE TRIGGER trg_command_attempt_guard BEFORE INSERT ON cutter_governance.command_attempt
    FOR EACH ROW EXECUTE FUNCTION cutter_governance.fn_command_attempt_guard();

-- The newest attempt alone ends, once.
CREATE FUNCTION cutter_governance.fn_command_settlement_guard() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $fn$
DECLARE
    v_epoch integer;
    v_state text;
BEGIN
    PERFORM FROM cutter_governance.command c WHERE c.command_key = NEW.command_key FOR UPDATE;
    SELECT v.epoch, v.state INTO v_epoch, v_state
    FROM cutter_governance.v_command v WHERE v.command_key = NEW.command_key;
    IF NEW.epoch IS DISTINCT FROM v_epoch THEN
        RAISE EXCEPTION 'command %: attempt % is not the newest, which is %', NEW.command_key, NEW.epoch, v_epoch
            USING ERRCODE = 'CUF15';
    END IF;
    IF v_state <> 'intended' THEN
        RAISE EXCEPTION 'illegal command transition %->% (legal=%)', v_state, NEW.state,
            array_to_string(cutter_governance.fn_command_targets(v_state), ',') USING ERRCODE = 'CUC15';
    END IF;
    RETURN NEW;
END
$fn$;
CREATE TRIGGER trg_command_settlement_guard BEFORE INSERT ON cutter_governance.command_settlement
    FOR EACH ROW EXECUTE FUNCTION cutter_governance.fn_command_settlement_guard();

CREATE FUNCTION cutter_governance.fn_command_close() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $fn$
BEGIN
    DELETE FROM cutter_governance.command_open o WHERE o.command_key = NEW.command_key;
    RETURN NULL;
END
$fn$;
CREATE TRIGGER trg_command_close AFTER INSERT ON cutter_governance.command_settlement
    FOR EACH ROW WHEN (NEW.state IN ('done', 'failed')) EXECUTE FUNCTION cutter_governance.fn_command_close();

CREATE FUNCTION cutter_governance.fn_command_open_guard() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $fn$
BEGIN
    IF NOT EXISTS (SELECT FROM cutter_governance.command_settlement s
                   WHERE s.command_key = OLD.command_key AND s.state IN ('done', 'failed')) THEN
        RAISE EXCEPTION 'command % has not ended', OLD.command_key USING ERRCODE = 'CU003';
    END IF;
    RETURN OLD;
END
$fn$;
CREATE TRIGGER trg_command_open_guard BEFORE DELETE ON cutter_governance.command_open
    FOR EACH ROW EXECUTE FUNCTION cutter_governance.fn_command_open_guard();

-- Judges a command beside what stands under its key, as the core's judge does, and opens the next
-- attempt where the judgement says so. left_ms: of the lease, or of the delay.
CREATE FUNCTION cutter_governance.fn_command_claim(
    p_key text, p_body text, p_sha256 text, p_actor text, p_holder uuid, p_lease_ms bigint, p_at timestamptz)
RETURNS TABLE (judgement text, attempt integer, left_ms bigint)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $fn$
DECLARE
    v record;
    v_now timestamptz;
    v_left numeric := 0;
BEGIN
    INSERT INTO cutter_governance.command (command_key, kind, body, payload_sha256, actor, at)
    VALUES (p_key, p_body::jsonb ->> 'kind', p_body, p_sha256, p_actor, p_at)
    ON CONFLICT (command_key) DO NOTHING;
    IF FOUND THEN
        judgement := 'fresh';
        attempt := 1;
    ELSE
        PERFORM FROM cutter_governance.command c WHERE c.command_key = p_key FOR UPDATE;
        SELECT w.* INTO v FROM cutter_governance.v_command w WHERE w.command_key = p_key;
        v_now := clock_timestamp();
        attempt := v.epoch + 1;
        v_left := ceil(greatest(extract(epoch FROM CASE v.state WHEN 'waiting' THEN v.due_at ELSE v.lease_until END
            - v_now), 0) * 1000);
        judgement := CASE
            WHEN v.payload_sha256 <> p_sha256 THEN 'conflict'
            WHEN v.state IN ('done', 'failed') THEN 'replay'
            WHEN v.state = 'waiting' AND v_left = 0 THEN 'retry'
            WHEN v.state = 'waiting' THEN 'waiting'
            WHEN v_left = 0 OR v.holder = p_holder THEN 'unresolved'
            ELSE 'busy' END;
    END IF;
    left_ms := v_left;
    IF judgement IN ('fresh', 'retry', 'unresolved') THEN
        INSERT INTO cutter_governance.command_attempt (command_key, epoch, cause, holder, actor, lease_until, at)
        VALUES (p_key, attempt, judgement, p_holder, p_actor,
            clock_timestamp() + least(p_lease_ms, 315360000000) * interval '1 millisecond', p_at);
    ELSE
        attempt := NULL;
    END IF;
    RETURN NEXT;
END
$fn$;

-- Records how an attempt ended; the same settlement again finds itself.
CREATE FUNCTION cutter_governance.fn_command_settle(
    p_key text, p_epoch integer, p_holder uuid, p_settlement text, p_at timestamptz)
RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $fn$
DECLARE
    v_stands record;
    v_state text := p_settlement::jsonb ->> 'state';
BEGIN
    PERFORM FROM cutter_governance.command c WHERE c.command_key = p_key FOR UPDATE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'no command %', p_key USING ERRCODE = 'CUN15';
    END IF;
    IF NOT EXISTS (SELECT FROM cutter_governance.command_attempt a
                   WHERE a.command_key = p_key AND a.epoch = p_epoch AND a.holder = p_holder) THEN
        RAISE EXCEPTION 'command %: attempt % is not the newest, or another''s', p_key, p_epoch
            USING ERRCODE = 'CUF15';
    END IF;
    SELECT s.state, s.settlement INTO v_stands FROM cutter_governance.command_settlement s
    WHERE s.command_key = p_key AND s.epoch = p_epoch;
    IF FOUND THEN
        IF v_stands.settlement = p_settlement THEN
            RETURN;
        END IF;
        RAISE EXCEPTION 'command %: attempt % ended as %, observed %', p_key, p_epoch, v_stands.state, v_state
            USING ERRCODE = 'CUC17';
    END IF;
    INSERT INTO cutter_governance.command_settlement (command_key, epoch, state, settlement, due_at, at)
    VALUES (p_key, p_epoch, v_state, p_settlement, CASE v_state WHEN 'waiting' THEN clock_timestamp()
        + least((p_settlement::jsonb ->> 'delay_ms')::bigint, 315360000000) * interval '1 millisecond' END, p_at);
END
$fn$;

INSERT INTO cutter_governance.grant_expectation (grantee, privilege, kind, object)
SELECT g.grantee, 'SELECT', 'TABLE', 'cutter_governance.' || t.name
FROM unnest(ARRAY['cutter_exec', 'cutter_verify', 'cutter_ro']) AS g(grantee),
    unnest(ARRAY['command', 'command_attempt', 'command_settlement', 'command_open', 'v_command']) AS t(name);
INSERT INTO cutter_governance.grant_expectation (grantee, privilege, kind, object)
SELECT g.grantee, 'EXECUTE', 'FUNCTION', 'cutter_governance.fn_command_targets'
FROM unnest(ARRAY['cutter_exec', 'cutter_verify', 'cutter_review', 'cutter_ro']) AS g(grantee);
INSERT INTO cutter_governance.grant_expectation (grantee, privilege, kind, object)
VALUES ('cutter_exec', 'EXECUTE', 'FUNCTION', 'cutter_governance.fn_command_claim'),
    ('cutter_exec', 'EXECUTE', 'FUNCTION', 'cutter_governance.fn_command_settle');
-- The one that a reader of a report wants to see refused.
INSERT INTO cutter_governance.grant_expectation (grantee, privilege, kind, object, wanted)
SELECT g.grantee, 'INSERT', 'TABLE', 'cutter_governance.command_settlement', false
FROM unnest(ARRAY['cutter_exec', 'cutter_verify', 'cutter_review', 'cutter_ro', 'directus']) AS g(grantee);

SELECT cutter_meta.fn_grant_expected('^cutter_governance[.](v_|fn_)?command(_|$)');

RESET ROLE;
