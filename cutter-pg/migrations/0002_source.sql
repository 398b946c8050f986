-- Source documents and their versions: append-only, byte for byte.
SET ROLE cutter_owner;

CREATE FUNCTION cutter_governance.fn_append_only() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $fn$
BEGIN
    RAISE EXCEPTION '%.% is append-only: % refused', TG_TABLE_SCHEMA, TG_TABLE_NAME, TG_OP
        USING ERRCODE = 'CU001', HINT = 'A correction is a new row.';
END
$fn$;
COMMENT ON FUNCTION cutter_governance.fn_append_only() IS
    'Statement trigger of append-only tables: refuses UPDATE, DELETE and TRUNCATE, whoever asks.';

CREATE TABLE iu_core.source_document (
    source_document_id uuid PRIMARY KEY,
    document_id   text COLLATE "C" NOT NULL UNIQUE
        CHECK (document_id ~ '^[A-Z][A-Z0-9]*(-[A-Z0-9]+)*$' AND octet_length(document_id) <= 512),
    title         text NOT NULL,
    registered_by text NOT NULL,
    registered_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    UNIQUE (source_document_id, document_id)
);
COMMENT ON TABLE iu_core.source_document IS
    'One row per document. document_id is also the prefix of every address in it. Its row lock (fn_document_lock) orders the runs of a document.';

CREATE TABLE iu_core.source_version (
    source_version_id  uuid PRIMARY KEY,
    source_document_id uuid NOT NULL REFERENCES iu_core.source_document,
    version_no      integer NOT NULL CHECK (version_no >= 1),
    sha256          text COLLATE "C" NOT NULL,
    byte_length     bigint NOT NULL,
    content         bytea NOT NULL,
    manifest_digest text COLLATE "C" CHECK (manifest_digest ~ '^[0-9a-f]{64}$'),
    registered_by   text NOT NULL,
    registered_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    UNIQUE (source_document_id, version_no),
    UNIQUE (source_version_id, source_document_id, byte_length),
    CHECK (byte_length = octet_length(content)),
    CHECK (sha256 = encode(sha256(content), 'hex'))
);
COMMENT ON TABLE iu_core.source_version IS
    'One row per registered text. The newest has the highest version_no; the same bytes may come back later as a new version.';

CREATE TRIGGER trg_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON iu_core.source_document
    FOR EACH STATEMENT EXECUTE FUNCTION cutter_governance.fn_append_only();
CREATE TRIGGER trg_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON iu_core.source_version
    FOR EACH STATEMENT EXECUTE FUNCTION cutter_governance.fn_append_only();

-- Locks a document's row until the end of the transaction. NULL if there is no such document.
CREATE FUNCTION iu_core.fn_document_lock(p_document_id text) RETURNS uuid
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $fn$
DECLARE
    v_id uuid;
BEGIN
    SELECT d.source_document_id INTO v_id
    FROM iu_core.source_document d
    WHERE d.document_id = p_document_id
    FOR UPDATE;
    RETURN v_id;
END
$fn$;

-- Registers a text. If the newest version has these bytes, nothing is written and already is
-- true; a manifest digest that differs from the one pinned then is a conflict.
CREATE FUNCTION iu_core.fn_source_register(
    p_document_id text, p_title text, p_source_document_id uuid, p_source_version_id uuid,
    p_content bytea, p_sha256 text, p_manifest_digest text, p_actor text,
    OUT source_document_id uuid, OUT source_version_id uuid, OUT version_no integer, OUT already boolean)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $fn$
DECLARE
    v_latest record;
    v_observed text := encode(sha256(p_content), 'hex');
BEGIN
    IF v_observed IS DISTINCT FROM p_sha256 THEN
        RAISE EXCEPTION 'source text of %: expected sha256 %, observed %', p_document_id, p_sha256, v_observed
            USING ERRCODE = 'CU002';
    END IF;
    INSERT INTO iu_core.source_document AS d (source_document_id, document_id, title, registered_by)
    VALUES (p_source_document_id, p_document_id, p_title, p_actor)
    ON CONFLICT ON CONSTRAINT source_document_document_id_key DO NOTHING;
    source_document_id := iu_core.fn_document_lock(p_document_id);

    SELECT v.source_version_id, v.version_no, v.sha256, v.manifest_digest INTO v_latest
    FROM iu_core.source_version v
    WHERE v.source_document_id = fn_source_register.source_document_id
    ORDER BY v.version_no DESC LIMIT 1;
    already := FOUND AND v_latest.sha256 = p_sha256;
    IF already THEN
        IF v_latest.manifest_digest <> p_manifest_digest THEN
            RAISE EXCEPTION 'version % of % has these bytes with another manifest digest: expected %, observed %',
                v_latest.version_no, p_document_id, p_manifest_digest, v_latest.manifest_digest
                USING ERRCODE = 'CUC01';
        END IF;
        source_version_id := v_latest.source_version_id;
        version_no := v_latest.version_no;
        RETURN;
    END IF;
    source_version_id := p_source_version_id;
    version_no := coalesce(v_latest.version_no, 0) + 1;
    INSERT INTO iu_core.source_version AS v (source_version_id, source_document_id, version_no, sha256,
        byte_length, content, manifest_digest, registered_by)
    VALUES (p_source_version_id, fn_source_register.source_document_id, fn_source_register.version_no, p_sha256,
        octet_length(p_content), p_content, p_manifest_digest, p_actor);
END
$fn$;

RESET ROLE;
