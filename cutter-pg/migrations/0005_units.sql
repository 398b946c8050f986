-- Information units, their versions, anchors and lifecycle; the staging area.
--
-- Cost: leg A writes three rows per unit. What can be said once per change set is said by
-- foreign keys into cut_change_set; what is left per row is CHECKs and index entries.
SET ROLE cutter_owner;

CREATE TABLE iu_core.information_unit (
    unit_id            uuid PRIMARY KEY,
    change_set_id      uuid NOT NULL,
    document_id        text COLLATE "C" NOT NULL,
    source_document_id uuid NOT NULL,
    source_version_id  uuid NOT NULL,
    ordinal            bigint NOT NULL CHECK (ordinal >= 0),
    canonical_address  text COLLATE "C" NOT NULL,
    citation_address   text COLLATE "C",
    unit_kind          text COLLATE "C" NOT NULL,
    section_type       text COLLATE "C" NOT NULL,
    content_hash       text COLLATE "C" NOT NULL,
    body_hash          text COLLATE "C" NOT NULL,
    idempotency_key    text COLLATE "C" NOT NULL,
    lifecycle_status   text COLLATE "C" NOT NULL DEFAULT 'draft'
        CHECK (lifecycle_status IN ('draft', 'enacted', 'voided')),
    created_at         timestamptz NOT NULL,
    -- What the unique indexes ask, so that enactment changes no indexed column (HOT).
    live               boolean NOT NULL GENERATED ALWAYS AS (lifecycle_status <> 'voided') STORED,
    -- The address lies in the document: the document's own, or below it. Never a bare prefix.
    CONSTRAINT information_unit_address_in_document CHECK (octet_length(canonical_address) <= 512
        AND (canonical_address = document_id OR starts_with(canonical_address, document_id || '/'))),
    CONSTRAINT information_unit_digests CHECK (octet_length(content_hash) = 64 AND octet_length(body_hash) = 64
        AND octet_length(idempotency_key) = 64),
    -- Direct, so that inserting a unit needs the document's row lock (no phantoms).
    FOREIGN KEY (source_document_id, document_id)
        REFERENCES iu_core.source_document (source_document_id, document_id),
    -- The version is the change set's, and of the same document.
    FOREIGN KEY (change_set_id, source_version_id, source_document_id, document_id)
        REFERENCES cutter_governance.cut_change_set
            (change_set_id, source_version_id, source_document_id, document_id)
) WITH (fillfactor = 50); -- every unit is updated once; its second row has its place beside the first
COMMENT ON TABLE iu_core.information_unit IS
    'One unit of one source version. Unique by address and by key among live rows of the version (D24); lifecycle_status moves through fn_iu_enact and fn_iu_void only.';
CREATE UNIQUE INDEX information_unit_live_address ON iu_core.information_unit
    (source_version_id, canonical_address) WHERE live;
-- With the version: a text that comes back as a later version has the same unit keys.
CREATE UNIQUE INDEX information_unit_live_key ON iu_core.information_unit
    (idempotency_key, source_version_id) WHERE live;
CREATE UNIQUE INDEX information_unit_change_set ON iu_core.information_unit (change_set_id, ordinal);
CREATE INDEX information_unit_document ON iu_core.information_unit (source_document_id, canonical_address, unit_id);

CREATE TABLE iu_core.unit_version (
    version_id   uuid PRIMARY KEY,
    unit_id      uuid NOT NULL REFERENCES iu_core.information_unit,
    version_seq  integer NOT NULL CHECK (version_seq >= 1),
    content      bytea NOT NULL,
    content_hash text COLLATE "C" NOT NULL,
    body_hash    text COLLATE "C" NOT NULL,
    actor        text NOT NULL,
    created_at   timestamptz NOT NULL,
    UNIQUE (unit_id, version_seq),
    CONSTRAINT unit_version_content_hash CHECK (content_hash = encode(sha256(content), 'hex'))
);
COMMENT ON TABLE iu_core.unit_version IS 'The bytes of a unit. 1 is what was cut; a later one is an edit of a draft (D30).';

CREATE TABLE iu_core.unit_anchor (
    anchor_id         uuid PRIMARY KEY,
    unit_id           uuid NOT NULL UNIQUE REFERENCES iu_core.information_unit,
    change_set_id     uuid NOT NULL,
    source_version_id uuid NOT NULL,
    source_bytes      bigint NOT NULL,
    start_byte        bigint NOT NULL,
    end_byte          bigint NOT NULL,
    CONSTRAINT unit_anchor_span_in_source CHECK
        (start_byte >= 0 AND start_byte <= end_byte AND end_byte <= source_bytes),
    -- source_bytes is the length of the version's text, through the change set.
    FOREIGN KEY (change_set_id, source_version_id, source_bytes)
        REFERENCES cutter_governance.cut_change_set (change_set_id, source_version_id, source_bytes)
);
COMMENT ON TABLE iu_core.unit_anchor IS 'Where a unit stands in the source version: bytes, end exclusive.';
CREATE INDEX unit_anchor_span ON iu_core.unit_anchor (source_version_id, start_byte);

CREATE TABLE iu_core.iu_lifecycle_log (
    unit_id       uuid NOT NULL REFERENCES iu_core.information_unit,
    change_set_id uuid NOT NULL,
    run_id        text COLLATE "C" NOT NULL,
    from_status   text COLLATE "C" NOT NULL,
    to_status     text COLLATE "C" NOT NULL,
    reason_id     uuid NOT NULL,
    reason        text NOT NULL,
    actor         text NOT NULL,
    at            timestamptz NOT NULL,
    PRIMARY KEY (unit_id, to_status),
    CHECK (from_status = 'draft' AND to_status IN ('enacted', 'voided'))
);
COMMENT ON TABLE iu_core.iu_lifecycle_log IS
    'One row per move. reason_id: the approval that enacted, or the void row. Written before the move; the move is refused without it.';
CREATE INDEX iu_lifecycle_log_change_set ON iu_core.iu_lifecycle_log (change_set_id, to_status);

CREATE TABLE iu_core.iu_staging_record (
    staging_record_id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    record_kind       text COLLATE "C" NOT NULL CHECK (record_kind IN ('source_copy', 'mark_manifest')),
    document_id       text COLLATE "C",
    source_ref        text NOT NULL,
    sha256            text COLLATE "C" NOT NULL CHECK (sha256 ~ '^[0-9a-f]{64}$'),
    byte_length       bigint NOT NULL CHECK (byte_length >= 0),
    lifecycle_status  text COLLATE "C" NOT NULL DEFAULT 'staged'
        CHECK (lifecycle_status IN ('staged', 'approved', 'consumed', 'expired', 'cleaned')),
    vector_excluded   boolean NOT NULL DEFAULT true,
    created_by        text NOT NULL,
    created_at        timestamptz NOT NULL DEFAULT clock_timestamp(),
    approved_at       timestamptz,
    consumed_at       timestamptz,
    expires_at        timestamptz,
    cleaned_at        timestamptz,
    metadata          jsonb NOT NULL DEFAULT '{}'
);
COMMENT ON TABLE iu_core.iu_staging_record IS 'What was copied or marked before a cut. Outlived by the request that it serves.';
CREATE INDEX iu_staging_record_document ON iu_core.iu_staging_record (document_id);

CREATE TABLE iu_core.iu_staging_payload (
    staging_record_id uuid PRIMARY KEY REFERENCES iu_core.iu_staging_record,
    content           bytea NOT NULL
);
COMMENT ON TABLE iu_core.iu_staging_payload IS 'The bytes of a staging record; removed when it is cleaned.';

-- The newest version of each document that has live units, in document order: "current" (D24).
CREATE VIEW iu_core.v_current_unit AS
SELECT u.*, v.version_no
FROM iu_core.source_document d
CROSS JOIN LATERAL (
    SELECT s.source_version_id, s.version_no
    FROM iu_core.source_version s
    JOIN cutter_governance.cut_change_set c ON c.source_version_id = s.source_version_id AND c.live
    WHERE s.source_document_id = d.source_document_id
    ORDER BY s.version_no DESC LIMIT 1
) v
JOIN iu_core.information_unit u
    ON u.source_version_id = v.source_version_id AND u.live
    -- Said again, so that who asks for one document reads that document alone.
    AND u.document_id = d.document_id AND u.source_document_id = d.source_document_id;
COMMENT ON VIEW iu_core.v_current_unit IS 'Live units of the newest version that has any.';

-- A unit keeps all but its status; the status leaves draft once, with its log row before it.
CREATE FUNCTION iu_core.fn_iu_enacted_immut() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $fn$
DECLARE
    v_old iu_core.information_unit := OLD;
BEGIN
    IF TG_OP = 'DELETE' THEN
        RAISE EXCEPTION 'unit % is never deleted; void its change set', OLD.unit_id USING ERRCODE = 'CU006';
    END IF;
    IF OLD.lifecycle_status <> 'draft' THEN
        RAISE EXCEPTION 'unit % is % and immutable', OLD.unit_id, OLD.lifecycle_status USING ERRCODE = 'CU006';
    END IF;
    v_old.lifecycle_status := NEW.lifecycle_status;
    v_old.live := NEW.live; -- generated, and only after this trigger
    IF v_old IS DISTINCT FROM NEW OR NEW.lifecycle_status = 'draft' THEN
        RAISE EXCEPTION 'unit %: only lifecycle_status may change', OLD.unit_id USING ERRCODE = 'CU006';
    END IF;
    IF NOT EXISTS (SELECT FROM iu_core.iu_lifecycle_log l
                   WHERE l.unit_id = OLD.unit_id AND l.to_status = NEW.lifecycle_status) THEN
        RAISE EXCEPTION 'unit %: % without a row in iu_lifecycle_log', OLD.unit_id, NEW.lifecycle_status
            USING ERRCODE = 'CU006';
    END IF;
    RETURN NEW;
END
$fn$;
CREATE TRIGGER trg_iu_enacted_immut BEFORE UPDATE OR DELETE ON iu_core.information_unit
    FOR EACH ROW EXECUTE FUNCTION iu_core.fn_iu_enacted_immut();
CREATE TRIGGER trg_no_truncate BEFORE TRUNCATE ON iu_core.information_unit
    FOR EACH STATEMENT EXECUTE FUNCTION cutter_governance.fn_append_only();

-- A version is never changed, and an enacted or voided unit gets no new one.
CREATE FUNCTION iu_core.fn_uv_enacted_immut() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $fn$
DECLARE
    v_status text;
BEGIN
    IF TG_OP <> 'INSERT' THEN
        RAISE EXCEPTION 'version % of unit % is immutable: % refused', OLD.version_seq, OLD.unit_id, TG_OP
            USING ERRCODE = 'CU006';
    END IF;
    SELECT u.lifecycle_status INTO v_status FROM iu_core.information_unit u WHERE u.unit_id = NEW.unit_id FOR SHARE;
    IF v_status IS DISTINCT FROM 'draft' THEN
        RAISE EXCEPTION 'unit % is % and takes no new version', NEW.unit_id, coalesce(v_status, 'absent')
            USING ERRCODE = 'CU006';
    END IF;
    RETURN NEW;
END
$fn$;
CREATE TRIGGER trg_uv_enacted_immut BEFORE UPDATE OR DELETE ON iu_core.unit_version
    FOR EACH ROW EXECUTE FUNCTION iu_core.fn_uv_enacted_immut();
-- The first version comes with its unit; only later ones need the look at its status.
CREATE TRIGGER trg_uv_later_version BEFORE INSERT ON iu_core.unit_version
    FOR EACH ROW WHEN (NEW.version_seq > 1) EXECUTE FUNCTION iu_core.fn_uv_enacted_immut();
CREATE TRIGGER trg_no_truncate BEFORE TRUNCATE ON iu_core.unit_version
    FOR EACH STATEMENT EXECUTE FUNCTION cutter_governance.fn_append_only();

CREATE TRIGGER trg_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON iu_core.unit_anchor
    FOR EACH STATEMENT EXECUTE FUNCTION cutter_governance.fn_append_only();
CREATE TRIGGER trg_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON iu_core.iu_lifecycle_log
    FOR EACH STATEMENT EXECUTE FUNCTION cutter_governance.fn_append_only();

RESET ROLE;
