-- The run store (PROTOCOL §3, §8): sidecar revisions, leases, claims and stop requests in one place
-- that every worker reaches. Every write is one statement that commits by itself; the answer of a
-- save brings the last stop request along, so that a driver need not ask for it.
--
-- A revision is published by inserting it under its number: of two writers one finds the number
-- taken. A lease has a number of its own, which grows with every holder and is named by every save
-- of that holder; an advisory lock on the run sets its saves and takings in order (two runs of one hash
-- wait for each other, and that is all).
-- The server's clock decides when a lease is over.
--
-- Most of a sidecar stays as it was from save to save, so a row holds what is new, as places in the
-- text of the revision before; fn_run_text gives the text, byte for byte.
CREATE SCHEMA IF NOT EXISTS cutter_run AUTHORIZATION cutter_owner;
COMMENT ON SCHEMA cutter_run IS 'The state of runs, where workers share it: revisions append-only, leases mutable.';

SET ROLE cutter_owner;

CREATE TABLE cutter_run.run (
    run_id     text COLLATE "C" PRIMARY KEY CHECK (run_id ~ '^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$'),
    created_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
COMMENT ON TABLE cutter_run.run IS 'A run that has a sidecar here.';

-- No check, foreign key or trigger on revisions and leases that their functions make needless: a save is
-- what a run does most, and nobody writes but they. fn_run_create writes the first, fn_run_publish each other beside the one before.
CREATE TABLE cutter_run.revision (
    run_id       text COLLATE "C" NOT NULL,
    revision     bigint NOT NULL,
    body         bytea NOT NULL,
    places       integer[],
    length       integer,
    lease_token  bigint,
    published_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (run_id, revision)
);
-- What is new in a revision stands as it is; a whole one is compressed, and beside the rest while it fits
-- into a page: no second table, no second index. All else would leave the row before the body is looked at.
ALTER TABLE cutter_run.revision SET (toast_tuple_target = 4080);
ALTER TABLE cutter_run.revision ALTER COLUMN body SET STORAGE MAIN, ALTER COLUMN run_id SET STORAGE PLAIN,
    ALTER COLUMN places SET STORAGE PLAIN;
DO $do$
BEGIN
    ALTER TABLE cutter_run.revision ALTER COLUMN body SET COMPRESSION lz4;
EXCEPTION WHEN feature_not_supported THEN
    NULL; -- a server that was built without it compresses in its own way, more slowly
END
$do$;
COMMENT ON TABLE cutter_run.revision IS
    'Sidecar revisions as published; the highest is the truth. body: the text, or where places is set what fn_splice puts into the text before, length bytes in all: read it by fn_run_text. lease_token: the lease of the writer, if it had one.';

CREATE TABLE cutter_run.lease (
    run_id      text COLLATE "C" PRIMARY KEY,
    token       bigint NOT NULL,
    attempt     uuid NOT NULL,
    holder      text NOT NULL,
    taken_at    timestamptz NOT NULL,
    renewed_at  timestamptz NOT NULL,
    expires_at  timestamptz NOT NULL,
    released_at timestamptz
) WITH (fillfactor = 50);
COMMENT ON TABLE cutter_run.lease IS
    'Who drives a run. token is the fencing token: one more with every taking. attempt tells a lost answer from another taking. No index but the key, so that renewals stay in their page.';

CREATE TABLE cutter_run.claim (
    document_id text COLLATE "C" NOT NULL CHECK (octet_length(document_id) BETWEEN 1 AND 1024),
    generation  bigint NOT NULL CHECK (generation > 0),
    run_id      text COLLATE "C" NOT NULL CHECK (octet_length(run_id) BETWEEN 1 AND 128),
    claimed_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (document_id, generation)
);
COMMENT ON TABLE cutter_run.claim IS 'Which run may cut a document; the highest generation is the one that counts.';

CREATE TABLE cutter_run.stop_request (
    run_id   text COLLATE "C" NOT NULL REFERENCES cutter_run.run (run_id),
    n        bigint NOT NULL CHECK (n > 0),
    id       uuid NOT NULL,
    reason   text NOT NULL CHECK (octet_length(reason) BETWEEN 1 AND 1024),
    actor    text NOT NULL CHECK (octet_length(actor) BETWEEN 1 AND 1024),
    -- As the asker wrote it; the time of arrival is beside it.
    asked_at text NOT NULL CHECK (octet_length(asked_at) BETWEEN 1 AND 64),
    at       timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (run_id, n),
    UNIQUE (run_id, id)
);
COMMENT ON TABLE cutter_run.stop_request IS 'What people asked of a run while somebody else drove it; the highest n is the last one.';

CREATE TRIGGER trg_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON cutter_run.run
    FOR EACH STATEMENT EXECUTE FUNCTION cutter_governance.fn_append_only();
CREATE TRIGGER trg_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON cutter_run.revision
    FOR EACH STATEMENT EXECUTE FUNCTION cutter_governance.fn_append_only();
CREATE TRIGGER trg_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON cutter_run.claim
    FOR EACH STATEMENT EXECUTE FUNCTION cutter_governance.fn_append_only();
CREATE TRIGGER trg_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON cutter_run.stop_request
    FOR EACH STATEMENT EXECUTE FUNCTION cutter_governance.fn_append_only();
CREATE TRIGGER trg_no_removal BEFORE DELETE OR TRUNCATE ON cutter_run.lease
    FOR EACH STATEMENT EXECUTE FUNCTION cutter_governance.fn_append_only();

-- A lease's token never falls, and under one token its holder is one. Not for a renewal: the
-- columns that it sets call nothing.
CREATE FUNCTION cutter_run.fn_lease_guard() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $fn$
BEGIN
    RAISE EXCEPTION 'lease of run %: token % of % does not follow % of %', OLD.run_id, NEW.token, NEW.attempt,
        OLD.token, OLD.attempt USING ERRCODE = 'CU001';
END
$fn$;
CREATE TRIGGER trg_lease_guard BEFORE UPDATE OF run_id, token, attempt, holder, taken_at, released_at ON cutter_run.lease
    FOR EACH ROW WHEN (NEW.run_id <> OLD.run_id OR NEW.token NOT IN (OLD.token, OLD.token + 1)
        OR NEW.token = OLD.token AND (NEW.attempt, NEW.holder, NEW.taken_at)
            IS DISTINCT FROM (OLD.attempt, OLD.holder, OLD.taken_at)
        OR NEW.token = OLD.token AND OLD.released_at IS NOT NULL)
    EXECUTE FUNCTION cutter_run.fn_lease_guard();

-- A text out of the one before: for each place (from, length, literal) that many bytes of the text
-- before, from that byte on, and then so many of the literal ones.
CREATE FUNCTION cutter_run.fn_splice(p_before bytea, p_places integer[], p_literal bytea) RETURNS bytea
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $fn$
DECLARE
    v_text bytea := '';
    v_at integer := 1;
BEGIN
    FOR i IN 1 .. cardinality(p_places) BY 3 LOOP
        v_text := v_text || substring(p_before FROM p_places[i] + 1 FOR p_places[i + 1])
            || substring(p_literal FROM v_at FOR p_places[i + 2]);
        v_at := v_at + p_places[i + 2];
    END LOOP;
    RETURN v_text;
END
$fn$;

-- The texts of a run's revisions up to p_last, each from the one before: from the last whole one, or all
-- of them. A row that does not give the length that was published ends it: XX001, data_corrupted.
CREATE FUNCTION cutter_run.fn_run_texts(p_run_id text, p_last bigint, p_all boolean)
RETURNS TABLE (revision bigint, published_at timestamptz, body bytea)
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $fn$
DECLARE
    r record;
BEGIN
    FOR r IN SELECT v.* FROM cutter_run.revision v
             WHERE v.run_id = p_run_id AND v.revision <= p_last AND v.revision >= CASE WHEN p_all THEN 1 ELSE
                 (SELECT w.revision FROM cutter_run.revision w
                  WHERE w.run_id = p_run_id AND w.revision <= p_last AND w.places IS NULL
                  ORDER BY w.revision DESC LIMIT 1) END
             ORDER BY v.revision LOOP
        IF r.places IS NULL THEN
            body := r.body;
        ELSIF revision = r.revision - 1 THEN
            body := cutter_run.fn_splice(body, r.places, r.body);
        ELSE
            body := NULL;
        END IF;
        IF octet_length(body) IS DISTINCT FROM coalesce(r.length, octet_length(body)) THEN
            RAISE EXCEPTION 'revision % of run %: expected % bytes, observed %', r.revision, p_run_id, r.length,
                coalesce(octet_length(body)::text, 'no revision before it') USING ERRCODE = 'XX001';
        END IF;
        revision := r.revision;
        published_at := r.published_at;
        IF p_all OR revision = p_last THEN
            RETURN NEXT;
        END IF;
    END LOOP;
END
$fn$;

-- A revision, byte for byte as it was published; NULL if there is none.
CREATE FUNCTION cutter_run.fn_run_text(p_run_id text, p_revision bigint) RETURNS bytea
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $fn$
    SELECT t.body FROM cutter_run.fn_run_texts(p_run_id, p_revision, false) t
$fn$;

-- Revision 1 of a new run. outcome is applied, already_applied or conflict; highest is the highest revision.
CREATE FUNCTION cutter_run.fn_run_create(p_run_id text, p_body bytea, OUT outcome text, OUT highest bigint)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $fn$
BEGIN
    IF octet_length(p_body) NOT BETWEEN 1 AND 65536 THEN
        RAISE EXCEPTION 'a revision has from 1 to 65536 bytes, not %', octet_length(p_body) USING ERRCODE = 'CU001';
    END IF;
    INSERT INTO cutter_run.run (run_id) VALUES (p_run_id) ON CONFLICT (run_id) DO NOTHING;
    IF FOUND THEN
        INSERT INTO cutter_run.revision (run_id, revision, body) VALUES (p_run_id, 1, p_body);
        outcome := 'applied';
        highest := 1;
        RETURN;
    END IF;
    SELECT max(r.revision) INTO highest FROM cutter_run.revision r WHERE r.run_id = p_run_id;
    SELECT CASE WHEN r.body = p_body THEN 'already_applied' ELSE 'conflict' END INTO outcome
    FROM cutter_run.revision r WHERE r.run_id = p_run_id AND r.revision = 1;
END
$fn$;

-- Saves revision p_expected + 1 if the highest is p_expected, and renews the lease of the writer once half
-- of it is over. p_places: what is new in p_body beside revision p_expected, p_length bytes in all; NULL:
-- p_body is all. A writer that names a lease (p_token) must still hold it; one that names none is refused
-- while somebody else's lease runs: CUF02, with the name. CUN10: no such run. NULL: saved, and nobody asked
-- for a stop; else outcome (applied, already_applied, conflict), highest and the last stop request.
-- p_is_last: a save gives the writer's lease back.
CREATE FUNCTION cutter_run.fn_run_publish(
    p_run_id text, p_expected bigint, p_body bytea, p_places integer[], p_length integer, p_token bigint,
    p_lease_ms bigint, p_is_last boolean) RETURNS jsonb
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $fn$
DECLARE
    -- Nobody takes the lease or saves until this save is through; what is read from here on is what the
    -- last of them left. An expression, as that costs no plan.
    v_has_turn boolean := pg_advisory_xact_lock(hashtextextended(p_run_id, 17)) IS NOT NULL;
BEGIN
    IF (p_length BETWEEN 1 AND 65536 AND octet_length(p_body) <= p_length
        AND CASE WHEN p_places IS NULL THEN octet_length(p_body) = p_length ELSE cardinality(p_places) % 3 = 0 END)
        IS NOT TRUE THEN
        RAISE EXCEPTION 'a revision has from 1 to 65536 bytes, not %', greatest(p_length, octet_length(p_body))
            USING ERRCODE = 'CU001';
    END IF;
    -- What nearly every save is, in one look: its lease stands and is young, nobody asked for a stop, and the
    -- revision before is the highest.
    INSERT INTO cutter_run.revision (run_id, revision, body, places, length, lease_token)
    SELECT p_run_id, p_expected + 1, p_body, p_places, p_length, p_token FROM cutter_run.lease l
    WHERE l.run_id = p_run_id AND l.token = p_token AND l.released_at IS NULL
        AND l.expires_at > clock_timestamp() + p_lease_ms * interval '0.5 millisecond'
        AND NOT EXISTS (SELECT FROM cutter_run.stop_request s WHERE s.run_id = p_run_id)
        AND p_expected = (SELECT v.revision FROM cutter_run.revision v WHERE v.run_id = p_run_id
            ORDER BY v.revision DESC LIMIT 1);
    IF FOUND THEN
        IF p_is_last THEN
            UPDATE cutter_run.lease l SET released_at = clock_timestamp()
            WHERE l.run_id = p_run_id AND l.token = p_token AND l.released_at IS NULL;
        END IF;
        RETURN NULL;
    END IF;
    RETURN cutter_run.fn_run_publish_told_apart(p_run_id, p_expected, p_body, p_places, p_length, p_token, p_lease_ms,
        p_is_last);
END
$fn$;

-- The rest of fn_run_publish, which has the run's turn: whatever is not what nearly every save is.
CREATE FUNCTION cutter_run.fn_run_publish_told_apart(
    p_run_id text, p_expected bigint, p_body bytea, p_places integer[], p_length integer, p_token bigint,
    p_lease_ms bigint, p_is_last boolean) RETURNS jsonb
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $fn$
DECLARE
    v_lease cutter_run.lease;
    v_stop jsonb;
    v_highest bigint;
    v_text bytea;
    v_outcome text := 'conflict';
BEGIN
    IF p_token IS NULL THEN
        SELECT l.* INTO v_lease FROM cutter_run.lease l WHERE l.run_id = p_run_id;
        IF v_lease.released_at IS NULL AND v_lease.expires_at > clock_timestamp() THEN
            RAISE EXCEPTION 'run %: lease % is held by %; a save without it is refused',
                p_run_id, v_lease.token, v_lease.holder USING ERRCODE = 'CUF02';
        END IF;
    ELSE
        UPDATE cutter_run.lease l SET renewed_at = clock_timestamp(),
            expires_at = clock_timestamp() + p_lease_ms * interval '1 millisecond'
        WHERE l.run_id = p_run_id AND l.token = p_token AND l.released_at IS NULL;
        IF NOT FOUND THEN
            SELECT l.* INTO v_lease FROM cutter_run.lease l WHERE l.run_id = p_run_id;
        END IF;
        -- The last save of a holder gave its lease back: asked again, it is compared below, and not made.
        IF NOT FOUND OR v_lease.token IS NOT NULL AND NOT (p_is_last AND EXISTS (SELECT FROM cutter_run.revision v
            WHERE v.run_id = p_run_id AND v.revision = p_expected + 1 AND v.lease_token = p_token)) THEN
            RAISE EXCEPTION 'run %: lease % was lost; lease % was taken at % by %',
                p_run_id, p_token, v_lease.token, v_lease.taken_at, v_lease.holder USING ERRCODE = 'CUF02';
        END IF;
    END IF;
    SELECT max(v.revision) INTO v_highest FROM cutter_run.revision v WHERE v.run_id = p_run_id;
    IF v_highest = p_expected THEN
        INSERT INTO cutter_run.revision (run_id, revision, body, places, length, lease_token)
        VALUES (p_run_id, p_expected + 1, p_body, p_places, p_length, p_token);
        IF p_is_last THEN
            UPDATE cutter_run.lease l SET released_at = clock_timestamp()
            WHERE l.run_id = p_run_id AND l.token = p_token AND l.released_at IS NULL;
        END IF;
    END IF;
    SELECT jsonb_build_object('id', s.id, 'reason', s.reason, 'actor', s.actor, 'at', s.asked_at) INTO v_stop
    FROM cutter_run.stop_request s WHERE s.run_id = p_run_id ORDER BY s.n DESC LIMIT 1;
    IF v_highest = p_expected THEN
        RETURN CASE WHEN v_stop IS NOT NULL THEN
            jsonb_build_object('outcome', 'applied', 'highest', p_expected + 1, 'stop', v_stop) END;
    END IF;
    IF v_highest IS NULL THEN
        RAISE EXCEPTION 'there is no run %', p_run_id USING ERRCODE = 'CUN10';
    END IF;
    IF v_highest = p_expected + 1 THEN
        v_text := p_body;
        IF p_places IS NOT NULL THEN
            v_text := cutter_run.fn_splice(cutter_run.fn_run_text(p_run_id, p_expected), p_places, p_body);
        END IF;
        IF v_text = cutter_run.fn_run_text(p_run_id, v_highest) THEN
            v_outcome := 'already_applied';
        END IF;
    END IF;
    RETURN jsonb_build_object('outcome', v_outcome, 'highest', v_highest, 'stop', v_stop);
END
$fn$;

-- Takes the lease of a run that nobody holds, or whose lease ran out, with the next token. token is
-- NULL if somebody holds it: holder says who. The same attempt again has the same token. revision and
-- body are the newest for whoever got it: a save of another is through by now, or is refused.
CREATE FUNCTION cutter_run.fn_lease_take(
    p_run_id text, p_attempt uuid, p_holder text, p_lease_ms bigint,
    OUT token bigint, OUT holder text, OUT left_ms bigint, OUT stop jsonb, OUT revision bigint, OUT body bytea)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $fn$
DECLARE
    v_now timestamptz;
    v_lease cutter_run.lease;
BEGIN
    IF p_lease_ms NOT BETWEEN 1 AND 86400000 THEN
        RAISE EXCEPTION 'a lease lasts from 1 ms to a day, not % ms', p_lease_ms USING ERRCODE = 'CU001';
    END IF;
    IF octet_length(p_holder) NOT BETWEEN 1 AND 16384 THEN
        RAISE EXCEPTION 'a holder has from 1 to 16384 bytes, not %', octet_length(p_holder) USING ERRCODE = 'CU001';
    END IF;
    IF NOT EXISTS (SELECT FROM cutter_run.run r WHERE r.run_id = p_run_id) THEN
        RAISE EXCEPTION 'there is no run %', p_run_id USING ERRCODE = 'CUN10';
    END IF;
    -- Behind every save that found the lease of the one before still standing.
    PERFORM pg_advisory_xact_lock(hashtextextended(p_run_id, 17));
    -- The first taker inserts; a renewal or an end of the lease waits for the row below, or is waited for.
    INSERT INTO cutter_run.lease (run_id, token, attempt, holder, taken_at, renewed_at, expires_at, released_at)
    SELECT p_run_id, 1, p_attempt, p_holder, n.at, n.at, n.at + p_lease_ms * interval '1 millisecond', NULL
    FROM (SELECT clock_timestamp() AS at) n
    ON CONFLICT (run_id) DO NOTHING;
    SELECT l.* INTO v_lease FROM cutter_run.lease l WHERE l.run_id = p_run_id FOR UPDATE;
    -- Not before the row is locked: a wait for it may have been long.
    v_now := clock_timestamp();
    IF v_lease.attempt = p_attempt AND v_lease.released_at IS NULL THEN
        token := v_lease.token;
        UPDATE cutter_run.lease l SET renewed_at = v_now, expires_at = v_now + p_lease_ms * interval '1 millisecond'
        WHERE l.run_id = p_run_id;
    ELSIF v_lease.released_at IS NOT NULL OR v_lease.expires_at <= v_now THEN
        token := v_lease.token + 1;
        UPDATE cutter_run.lease l SET token = v_lease.token + 1, attempt = p_attempt, holder = p_holder, taken_at = v_now,
            renewed_at = v_now, expires_at = v_now + p_lease_ms * interval '1 millisecond', released_at = NULL
        WHERE l.run_id = p_run_id;
    ELSE
        left_ms := ceil(extract(epoch FROM v_lease.expires_at - v_now) * 1000);
    END IF;
    holder := CASE WHEN token IS NULL THEN v_lease.holder ELSE p_holder END;
    SELECT jsonb_build_object('id', s.id, 'reason', s.reason, 'actor', s.actor, 'at', s.asked_at) INTO stop
    FROM cutter_run.stop_request s WHERE s.run_id = p_run_id ORDER BY s.n DESC LIMIT 1;
    IF token IS NOT NULL THEN
        SELECT max(r.revision) INTO revision FROM cutter_run.revision r WHERE r.run_id = p_run_id;
        body := cutter_run.fn_run_text(p_run_id, revision);
    END IF;
END
$fn$;

-- Renews leases; gives the runs whose lease still stands. One that ran out and that nobody took is
-- renewed, too: nothing happened meanwhile.
CREATE FUNCTION cutter_run.fn_lease_renew(p_run_ids text[], p_tokens bigint[], p_lease_ms bigint)
RETURNS SETOF text
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $fn$
    UPDATE cutter_run.lease l SET renewed_at = clock_timestamp(),
        expires_at = clock_timestamp() + p_lease_ms * interval '1 millisecond'
    FROM unnest(p_run_ids, p_tokens) AS h(run_id, token)
    WHERE l.run_id = h.run_id AND l.token = h.token AND l.released_at IS NULL
    RETURNING l.run_id
$fn$;

-- Gives a lease back. False if it was not this one's any more. A person may end another's lease in
-- the same way: its holder is then refused at its next save.
CREATE FUNCTION cutter_run.fn_lease_release(p_run_id text, p_token bigint) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $fn$
BEGIN
    -- Lost in a crash of the server, the lease runs out: not worth a wait for the disk.
    PERFORM set_config('synchronous_commit', 'off', true);
    UPDATE cutter_run.lease l SET released_at = clock_timestamp()
    WHERE l.run_id = p_run_id AND l.token = p_token AND l.released_at IS NULL;
    RETURN FOUND;
END
$fn$;

-- Claims a document for a run. outcome is applied, already_applied, conflict or gap; standing is the
-- run that holds this generation, newest the highest generation.
CREATE FUNCTION cutter_run.fn_claim_put(
    p_document_id text, p_generation bigint, p_run_id text, OUT outcome text, OUT standing text, OUT newest bigint)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $fn$
BEGIN
    SELECT coalesce(max(c.generation), 0) INTO newest FROM cutter_run.claim c WHERE c.document_id = p_document_id;
    IF p_generation < 1 OR p_generation > newest + 1 THEN
        outcome := 'gap';
        RETURN;
    END IF;
    IF p_generation = newest + 1 THEN
        INSERT INTO cutter_run.claim (document_id, generation, run_id)
        VALUES (p_document_id, p_generation, p_run_id) ON CONFLICT (document_id, generation) DO NOTHING;
        IF FOUND THEN
            outcome := 'applied';
            RETURN;
        END IF;
    END IF;
    SELECT c.run_id INTO standing FROM cutter_run.claim c
    WHERE c.document_id = p_document_id AND c.generation = p_generation;
    outcome := CASE WHEN standing = p_run_id THEN 'already_applied' ELSE 'conflict' END;
END
$fn$;

-- The first revision of a run, its lease and the claim on its document: fn_run_create, fn_lease_take and
-- fn_claim_put, up to the first refusal. No document: no claim.
CREATE FUNCTION cutter_run.fn_run_begin(
    p_run_id text, p_body bytea, p_attempt uuid, p_holder text, p_lease_ms bigint, p_document_id text,
    p_generation bigint, OUT created text, OUT highest bigint, OUT token bigint, OUT holder text,
    OUT left_ms bigint, OUT stop jsonb, OUT claimed text, OUT standing text, OUT newest bigint)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $fn$
BEGIN
    IF octet_length(p_body) BETWEEN 1 AND 65536 AND octet_length(p_holder) BETWEEN 1 AND 16384
        AND p_lease_ms BETWEEN 1 AND 86400000 THEN
        -- A run that is new has no lease and no stop request, and nobody else knows it.
        WITH begun AS (
            INSERT INTO cutter_run.run (run_id) VALUES (p_run_id) ON CONFLICT (run_id) DO NOTHING RETURNING created_at AS at
        ), first AS (
            INSERT INTO cutter_run.revision (run_id, revision, body) SELECT p_run_id, 1, p_body FROM begun
        ), leased AS (
            INSERT INTO cutter_run.lease (run_id, token, attempt, holder, taken_at, renewed_at, expires_at)
            SELECT p_run_id, 1, p_attempt, p_holder, at, at, at + p_lease_ms * interval '1 millisecond' FROM begun
        )
        SELECT 'applied', 1, 1, p_holder INTO created, highest, token, holder FROM begun;
    END IF;
    IF token IS NULL THEN
        SELECT c.outcome, c.highest INTO created, highest FROM cutter_run.fn_run_create(p_run_id, p_body) c;
        IF created = 'conflict' THEN
            RETURN;
        END IF;
        SELECT l.token, l.holder, l.left_ms, l.stop INTO token, holder, left_ms, stop
        FROM cutter_run.fn_lease_take(p_run_id, p_attempt, p_holder, p_lease_ms) l;
    END IF;
    IF token IS NOT NULL AND p_document_id IS NOT NULL THEN
        SELECT c.outcome, c.standing, c.newest INTO claimed, standing, newest
        FROM cutter_run.fn_claim_put(p_document_id, p_generation, p_run_id) c;
    END IF;
END
$fn$;

-- Leaves a stop request. The same id again changes nothing. CUN10: no such run.
CREATE FUNCTION cutter_run.fn_stop_request(
    p_run_id text, p_id uuid, p_reason text, p_actor text, p_asked_at text)
RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $fn$
BEGIN
    -- One after the other; a save of the run waits for none of them.
    PERFORM FROM cutter_run.run r WHERE r.run_id = p_run_id FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'there is no run %', p_run_id USING ERRCODE = 'CUN10';
    END IF;
    INSERT INTO cutter_run.stop_request (run_id, n, id, reason, actor, asked_at)
    SELECT p_run_id, coalesce(max(s.n), 0) + 1, p_id, p_reason, p_actor, p_asked_at
    FROM cutter_run.stop_request s WHERE s.run_id = p_run_id
    ON CONFLICT (run_id, id) DO NOTHING;
END
$fn$;

-- The run store is the orchestrator's, whose login is the executor's; whoever reads for people, and
-- takes backups of the whole database, reads it.
INSERT INTO cutter_governance.grant_expectation (grantee, privilege, kind, object)
SELECT g.grantee, v.privilege, v.kind, v.object
FROM unnest(ARRAY['cutter_exec', 'cutter_ro']) AS g(grantee),
    (VALUES ('USAGE', 'SCHEMA', 'cutter_run'), ('SELECT', 'TABLE', 'cutter_run.run'),
        ('SELECT', 'TABLE', 'cutter_run.revision'), ('SELECT', 'TABLE', 'cutter_run.lease'),
        ('SELECT', 'TABLE', 'cutter_run.claim'), ('SELECT', 'TABLE', 'cutter_run.stop_request'))
        AS v(privilege, kind, object);
INSERT INTO cutter_governance.grant_expectation (grantee, privilege, kind, object)
SELECT 'cutter_exec', 'EXECUTE', 'FUNCTION', 'cutter_run.' || f.name
FROM unnest(ARRAY['fn_run_create', 'fn_run_begin', 'fn_run_publish', 'fn_lease_take', 'fn_lease_renew', 'fn_lease_release',
    'fn_claim_put', 'fn_stop_request']) AS f(name);
INSERT INTO cutter_governance.grant_expectation (grantee, privilege, kind, object)
SELECT g.grantee, 'EXECUTE', 'FUNCTION', 'cutter_run.' || f.name
FROM unnest(ARRAY['cutter_exec', 'cutter_ro']) AS g(grantee),
    unnest(ARRAY['fn_splice', 'fn_run_texts', 'fn_run_text']) AS f(name);
-- The ones that a reader of a report wants to see refused.
INSERT INTO cutter_governance.grant_expectation (grantee, privilege, kind, object, wanted)
SELECT g.grantee, p.privilege, 'TABLE', 'cutter_run.revision', false
FROM unnest(ARRAY['cutter_exec', 'cutter_verify', 'cutter_review', 'cutter_ro', 'directus']) AS g(grantee),
    unnest(ARRAY['INSERT', 'UPDATE', 'DELETE']) AS p(privilege);

SELECT cutter_meta.fn_grant_expected('^cutter_run([.]|$)');

-- The catalogue, its stamp and the grant probe list our schemas by name; this one is now among them.
DO $do$
DECLARE
    r record;
    v_before text;
    v_after text;
    v_count integer := 0;
BEGIN
    FOR r IN SELECT p.oid, p.proname FROM pg_catalog.pg_proc p
             WHERE p.pronamespace = 'cutter_governance'::pg_catalog.regnamespace
                 AND pg_catalog.strpos(p.prosrc, '''cutter_governance'', ''cutter_queue''') > 0
    LOOP
        v_before := pg_catalog.pg_get_functiondef(r.oid);
        v_after := replace(v_before, '''cutter_governance'', ''cutter_queue''',
            '''cutter_governance'', ''cutter_queue'', ''cutter_run''');
        EXECUTE v_after;
        v_count := v_count + 1;
    END LOOP;
    IF v_count < 3 THEN
        RAISE EXCEPTION 'expected at least fn_grants_held, fn_catalogue and fn_grant_probe to list the schemas, observed %',
            v_count;
    END IF;
END
$do$;

RESET ROLE;
