-- What was approved is what is enacted: the database computes the digest of the rows of a cut
-- from the rows as they are stored, and lets neither leg A nor a passed verdict nor enactment
-- commit unless the consent names exactly that digest. Consent names it in its own signed text.
--
-- And what readers see by default: the newest version that is in force.
SET ROLE cutter_owner;

-- Runs that had begun before rows were digested: what their SG_1 consent allowed and leg A wrote
-- then may go on to a verdict although that consent names no rows.
CREATE TABLE cutter_governance.before_trust (
    run_id      text COLLATE "C" PRIMARY KEY,
    recorded_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
COMMENT ON TABLE cutter_governance.before_trust IS
    'Runs that had taken a fence before consent named the rows; written once, by the migration. The only way to say "made before".';
INSERT INTO cutter_governance.before_trust (run_id) SELECT f.run_id FROM cutter_governance.run_fence f;
CREATE TRIGGER trg_append_only BEFORE INSERT OR UPDATE OR DELETE OR TRUNCATE ON cutter_governance.before_trust
    FOR EACH STATEMENT EXECUTE FUNCTION cutter_governance.fn_append_only();

-- The root of an RFC 6962 tree over leaf hashes, level by level: of each level's nodes the odd
-- one out goes up as it is.
CREATE FUNCTION cutter_governance.fn_merkle_root(p_leaves bytea[]) RETURNS bytea
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $fn$
DECLARE
    v_level bytea[] := p_leaves;
BEGIN
    IF coalesce(cardinality(v_level), 0) = 0 THEN
        RETURN sha256(''::bytea);
    END IF;
    WHILE cardinality(v_level) > 1 LOOP
        SELECT array_agg(coalesce(sha256('\x01'::bytea || p.hash || p.next), p.hash) ORDER BY p.place) INTO v_level
        FROM (
            SELECT n.hash, n.place, lead(n.hash) OVER (ORDER BY n.place) AS next
            FROM unnest(v_level) WITH ORDINALITY AS n(hash, place)
        ) p
        WHERE p.place % 2 = 1;
    END LOOP;
    RETURN v_level[1];
END
$fn$;

-- rows_digest of a change set, from the rows as they are stored. Texts are hashed again from
-- their bytes; a stored hash that is not theirs, a unit with another number of versions or
-- anchors than one, or with a version or an anchor that contradicts it, makes another digest.
-- A field is its number, its length in eight bytes (-1: NULL) and its bytes in UTF-8.
CREATE FUNCTION cutter_governance.fn_rows_digest(p_change_set_id uuid) RETURNS text
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan AS $fn$
DECLARE
    v_header bytea;
    v_leaves bytea[];
    v_start bigint;
    v_end bigint;
BEGIN
    SELECT array_agg(sha256('\x00'::bytea
            || '\x11'::bytea || int8send(octet_length(r.ordinal)) || convert_to(r.ordinal, 'UTF8')
            || '\x12'::bytea || int8send(octet_length(r.address)) || convert_to(r.address, 'UTF8')
            || coalesce('\x13'::bytea || int8send(octet_length(r.citation)) || convert_to(r.citation, 'UTF8'),
                '\x13ffffffffffffffff'::bytea)
            || '\x14'::bytea || int8send(octet_length(r.unit_kind)) || convert_to(r.unit_kind, 'UTF8')
            || '\x15'::bytea || int8send(octet_length(r.section_type)) || convert_to(r.section_type, 'UTF8')
            -- designator, title and language: no profile gives them yet
            || '\x16ffffffffffffffff17ffffffffffffffff18ffffffffffffffff'::bytea
            || coalesce('\x19'::bytea || int8send(octet_length(r.span)) || convert_to(r.span, 'UTF8'),
                '\x19ffffffffffffffff'::bytea)
            || coalesce('\x1a0000000000000040'::bytea || convert_to(r.content_hash, 'UTF8'),
                '\x1affffffffffffffff'::bytea)
            || coalesce('\x1b0000000000000040'::bytea || convert_to(r.body_hash, 'UTF8'),
                '\x1bffffffffffffffff'::bytea)
            || '\x1c'::bytea || int8send(octet_length(r.key)) || convert_to(r.key, 'UTF8'))
            ORDER BY r.place, r.unit_id),
        min(r.start_byte), max(r.end_byte)
    INTO v_leaves, v_start, v_end
    FROM (
        SELECT u.ordinal AS place, u.unit_id, u.ordinal::text AS ordinal, u.canonical_address AS address,
            u.citation_address AS citation, u.unit_kind, u.section_type,
            a.start_byte || '-' || a.end_byte AS span, a.start_byte, a.end_byte,
            CASE WHEN u.content_hash = v.content_hash AND u.content_hash = h.hash THEN h.hash END AS content_hash,
            CASE WHEN u.body_hash = v.body_hash THEN u.body_hash END AS body_hash,
            u.idempotency_key AS key
        FROM iu_core.information_unit u
        LEFT JOIN iu_core.unit_version v ON v.unit_id = u.unit_id
        LEFT JOIN iu_core.unit_anchor a ON a.unit_id = u.unit_id AND a.change_set_id = u.change_set_id
            AND a.source_version_id = u.source_version_id
        CROSS JOIN LATERAL (SELECT encode(sha256(v.content), 'hex') AS hash) h
        WHERE u.change_set_id = p_change_set_id
    ) r;
    SELECT sha256('\x00'::bytea || string_agg(set_byte('\x00'::bytea, 0, f.tag)
        || int8send(octet_length(convert_to(f.value, 'UTF8'))) || convert_to(f.value, 'UTF8'), ''::bytea ORDER BY f.tag))
    INTO v_header
    FROM cutter_governance.cut_change_set c
    JOIN iu_core.source_version s ON s.source_version_id = c.source_version_id
    CROSS JOIN LATERAL (VALUES (1, 'cutter.rows/1'), (2, c.document_id), (3, s.version_no::text),
        (4, encode(sha256(s.content), 'hex')), (5, coalesce(v_start || '-' || v_end, '')), (6, c.publication_type),
        (7, c.unit_count::text)) AS f(tag, value)
    WHERE c.change_set_id = p_change_set_id;
    -- NULL where there is no such change set
    RETURN encode(CASE WHEN v_header IS NOT NULL
        THEN cutter_governance.fn_merkle_root(v_header || v_leaves) END, 'hex');
END
$fn$;

-- The rows_digest that a stored consent names, once and on a line of its own; else NULL.
CREATE FUNCTION cutter_governance.fn_consent_rows(p_approval_id uuid) RETURNS text
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $fn$
    SELECT CASE WHEN count(*) = 1 THEN min(substring(m.line[1] FROM '^rows_digest: ([0-9a-f]{64})\r?$')) END
    FROM cutter_governance.review_approval a
    CROSS JOIN LATERAL regexp_matches(convert_from(a.document, 'UTF8'), '^(rows_digest[ \t]*:.*)$', 'gn') AS m(line)
    WHERE a.approval_id = p_approval_id
$fn$;

-- Refuses (CUD09) unless the stored rows of a change set are those that the consent names. Where
-- p_or_before, a consent of a run that had begun before rows were digested may name none.
CREATE FUNCTION cutter_governance.fn_rows_check(p_change_set_id uuid, p_approval_id uuid, p_or_before boolean)
RETURNS void
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $fn$
DECLARE
    v_named text := cutter_governance.fn_consent_rows(p_approval_id);
    v_observed text;
BEGIN
    IF v_named IS NULL AND p_or_before AND EXISTS (
        SELECT FROM cutter_governance.cut_change_set c
        JOIN cutter_governance.before_trust b ON b.run_id = c.run_id
        WHERE c.change_set_id = p_change_set_id)
    THEN
        RETURN;
    END IF;
    v_observed := cutter_governance.fn_rows_digest(p_change_set_id);
    IF v_named IS NULL OR v_observed IS DISTINCT FROM v_named THEN
        RAISE EXCEPTION 'change set %: expected the rows that approval % names (%), observed %', p_change_set_id,
            p_approval_id, coalesce(v_named, 'none'), coalesce(v_observed, 'none') USING ERRCODE = 'CUD09';
    END IF;
END
$fn$;

-- At the end of leg A's transaction, of enactment's, and of one that stores a passed verdict.
CREATE FUNCTION cutter_governance.fn_rows_approved() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $fn$
DECLARE
    v_set record;
BEGIN
    CASE TG_TABLE_NAME
    WHEN 'cut_change_set' THEN
        PERFORM cutter_governance.fn_rows_check(NEW.change_set_id, NEW.approval_id, false);
    WHEN 'verify_result' THEN
        PERFORM cutter_governance.fn_rows_check(c.change_set_id, c.approval_id, true)
        FROM cutter_governance.cut_change_set c WHERE c.change_set_id = NEW.change_set_id;
    ELSE
        SELECT c.change_set_id, c.approval_id INTO v_set
        FROM cutter_governance.review_approval a
        JOIN cutter_governance.review_decision r ON r.id = a.review_decision_id
        JOIN cutter_governance.cut_change_set c ON c.change_set_id = r.change_set_id
        WHERE a.approval_id = NEW.approval_id;
        PERFORM cutter_governance.fn_rows_check(v_set.change_set_id, NEW.approval_id, false);
        -- both consents are for the same rows
        PERFORM cutter_governance.fn_rows_check(v_set.change_set_id, v_set.approval_id, true)
        WHERE cutter_governance.fn_consent_rows(v_set.approval_id)
            IS DISTINCT FROM cutter_governance.fn_consent_rows(NEW.approval_id);
    END CASE;
    RETURN NULL;
END
$fn$;
CREATE CONSTRAINT TRIGGER trg_rows_approved AFTER INSERT ON cutter_governance.cut_change_set
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (NEW.kind = 'cut')
    EXECUTE FUNCTION cutter_governance.fn_rows_approved();
CREATE CONSTRAINT TRIGGER trg_rows_approved AFTER INSERT ON cutter_governance.verify_result
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (NEW.passed)
    EXECUTE FUNCTION cutter_governance.fn_rows_approved();
CREATE CONSTRAINT TRIGGER trg_rows_approved AFTER INSERT ON cutter_governance.approval_use
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (NEW.effect = 'enact')
    EXECUTE FUNCTION cutter_governance.fn_rows_approved();

-- Enacted units of the newest version that is in force, in document order: "current".
CREATE OR REPLACE VIEW iu_core.v_current_unit AS
SELECT u.*, v.version_no
FROM iu_core.source_document d
CROSS JOIN LATERAL (
    SELECT s.source_version_id, s.version_no
    FROM iu_core.source_version s
    JOIN cutter_governance.cut_change_set c ON c.source_version_id = s.source_version_id AND c.live
    WHERE s.source_document_id = d.source_document_id
        AND EXISTS (SELECT FROM iu_core.information_unit e
                    WHERE e.change_set_id = c.change_set_id AND e.lifecycle_status = 'enacted')
    ORDER BY s.version_no DESC LIMIT 1
) v
JOIN iu_core.information_unit u
    ON u.source_version_id = v.source_version_id AND u.lifecycle_status = 'enacted'
    -- Said again, so that who asks for one document reads that document alone.
    AND u.document_id = d.document_id AND u.source_document_id = d.source_document_id;
COMMENT ON VIEW iu_core.v_current_unit IS
    'Enacted units of the newest version that is in force; never a draft, never what was refused.';

INSERT INTO cutter_governance.grant_expectation (grantee, privilege, kind, object)
SELECT g.grantee, v.privilege, v.kind, v.object
FROM unnest(ARRAY['cutter_exec', 'cutter_verify', 'cutter_ro']) AS g(grantee),
    (VALUES ('SELECT', 'TABLE', 'cutter_governance.before_trust'),
        ('EXECUTE', 'FUNCTION', 'cutter_governance.fn_rows_digest'),
        ('EXECUTE', 'FUNCTION', 'cutter_governance.fn_consent_rows')) AS v(privilege, kind, object);

SELECT cutter_meta.fn_grant_expected('^cutter_governance[.](before_trust|fn_rows_digest|fn_consent_rows)$');

RESET ROLE;
