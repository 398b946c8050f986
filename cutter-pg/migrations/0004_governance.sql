-- Decisions, consent, change sets, signatures, verdicts, fences and effects. Every table but
-- run_fence is append-only; cut_change_set has one guarded flag.
SET ROLE cutter_owner;

CREATE TABLE cutter_governance.review_decision (
    id              uuid PRIMARY KEY,
    run_id          text COLLATE "C" NOT NULL,
    document_id     text COLLATE "C" NOT NULL REFERENCES iu_core.source_document (document_id),
    type            text COLLATE "C" NOT NULL CHECK (type IN
        ('cut_authorization', 'lifecycle_enactment', 'stop_resume', 'drift_ack', 'void')),
    decision        text COLLATE "C" CHECK (decision IN ('approve', 'defer', 'reject')),
    entry_id        uuid REFERENCES cutter_governance.decision_backlog_entry,
    change_set_id   uuid,
    expected_actor  text,
    unit_count      bigint,
    unit_set_digest text COLLATE "C" CHECK (unit_set_digest ~ '^[0-9a-f]{64}$'),
    nonce           text COLLATE "C" NOT NULL,
    request_sha256  text COLLATE "C" NOT NULL CHECK (request_sha256 ~ '^[0-9a-f]{64}$'),
    actor           text NOT NULL,
    inserted_by     name NOT NULL DEFAULT session_user,
    at              timestamptz NOT NULL,
    -- A lifecycle_enactment row is the request; what was decided stands in the approval.
    CHECK ((type = 'lifecycle_enactment') = (decision IS NULL)),
    CHECK (type <> 'lifecycle_enactment' OR (expected_actor IS NOT NULL AND change_set_id IS NOT NULL
        AND unit_count IS NOT NULL AND unit_set_digest IS NOT NULL))
);
COMMENT ON TABLE cutter_governance.review_decision IS
    'A decision of the reviewer (SG_1, SG_3), or the request for one (SG_2: type lifecycle_enactment).';
CREATE INDEX review_decision_document ON cutter_governance.review_decision (document_id);
CREATE INDEX review_decision_run ON cutter_governance.review_decision (run_id);

CREATE TABLE cutter_governance.review_approval (
    approval_id        uuid PRIMARY KEY,
    review_decision_id uuid NOT NULL REFERENCES cutter_governance.review_decision (id),
    run_id             text COLLATE "C" NOT NULL,
    document_id        text COLLATE "C" NOT NULL,
    type               text COLLATE "C" NOT NULL CHECK (type IN
        ('cut_authorization', 'lifecycle_enactment', 'stop_resume', 'drift_ack', 'void')),
    decision           text COLLATE "C" NOT NULL CHECK (decision IN ('approve', 'defer', 'reject')),
    approval_kb_id     text NOT NULL,
    document           bytea NOT NULL,
    sha256             text COLLATE "C" NOT NULL UNIQUE CHECK (sha256 = encode(sha256(document), 'hex')),
    nonce              text COLLATE "C" NOT NULL UNIQUE,
    fingerprint        text COLLATE "C" NOT NULL,
    actor              text NOT NULL,
    expires_at         timestamptz,
    request_sha256     text COLLATE "C" NOT NULL CHECK (request_sha256 ~ '^[0-9a-f]{64}$'),
    -- Consent is written by the reviewer's login and by no other.
    inserted_by        name NOT NULL DEFAULT session_user CHECK (inserted_by = 'cutter_review'),
    at                 timestamptz NOT NULL
);
COMMENT ON TABLE cutter_governance.review_approval IS
    'A human''s consent or refusal: the signed document, byte for byte. Its sha256 and the nonce that it answers are unique, so neither serves twice.';
CREATE INDEX review_approval_decision ON cutter_governance.review_approval (review_decision_id);
CREATE INDEX review_approval_run ON cutter_governance.review_approval (run_id);
CREATE INDEX review_approval_document ON cutter_governance.review_approval (document_id);

CREATE TABLE cutter_governance.approval_use (
    approval_id uuid PRIMARY KEY REFERENCES cutter_governance.review_approval,
    run_id      text COLLATE "C" NOT NULL,
    effect      text COLLATE "C" NOT NULL CHECK (effect IN ('leg_a', 'enact', 'void')),
    effect_id   uuid NOT NULL UNIQUE,
    at          timestamptz NOT NULL
);
COMMENT ON TABLE cutter_governance.approval_use IS
    'Which effect relied on an approval. The primary key makes an approval serve once.';

CREATE TABLE cutter_governance.cut_change_set (
    change_set_id      uuid PRIMARY KEY,
    kind               text COLLATE "C" NOT NULL DEFAULT 'cut' CHECK (kind IN ('cut', 'compensating')),
    live               boolean NOT NULL DEFAULT true,
    run_id             text COLLATE "C" NOT NULL,
    document_id        text COLLATE "C" NOT NULL,
    source_document_id uuid NOT NULL,
    source_version_id  uuid NOT NULL,
    source_bytes       bigint NOT NULL,
    entry_id           uuid NOT NULL REFERENCES cutter_governance.decision_backlog_entry,
    approval_id        uuid REFERENCES cutter_governance.review_approval,
    review_decision_id uuid REFERENCES cutter_governance.review_decision (id),
    compensates_id     uuid REFERENCES cutter_governance.cut_change_set,
    idempotency_key    text COLLATE "C" NOT NULL CHECK (idempotency_key ~ '^[0-9a-f]{64}$'),
    writer_digest      text COLLATE "C" NOT NULL CHECK (writer_digest ~ '^[0-9a-f]{64}$'),
    manifest_digest    text COLLATE "C" NOT NULL CHECK (manifest_digest ~ '^[0-9a-f]{64}$'),
    region_sha         text COLLATE "C" NOT NULL CHECK (region_sha ~ '^[0-9a-f]{64}$'),
    publication_type   text NOT NULL,
    unit_count         bigint NOT NULL CHECK (unit_count >= 0),
    actor              text NOT NULL,
    inserted_by        name NOT NULL DEFAULT session_user,
    created_xid        xid8 NOT NULL DEFAULT pg_current_xact_id(),
    at                 timestamptz NOT NULL,
    UNIQUE (change_set_id, source_version_id, source_document_id, document_id),
    UNIQUE (change_set_id, source_version_id, source_bytes),
    FOREIGN KEY (source_document_id, document_id)
        REFERENCES iu_core.source_document (source_document_id, document_id),
    FOREIGN KEY (source_version_id, source_document_id, source_bytes)
        REFERENCES iu_core.source_version (source_version_id, source_document_id, byte_length),
    -- No cut without consent; a compensating set never holds units.
    CHECK (kind <> 'cut' OR (approval_id IS NOT NULL AND review_decision_id IS NOT NULL)),
    CHECK (kind <> 'compensating' OR (NOT live AND compensates_id IS NOT NULL AND unit_count = 0))
);
COMMENT ON TABLE cutter_governance.cut_change_set IS
    'One row per cut. Append-only but for live, which fn_change_set_void turns off once, after its change_set_void row. created_xid: units can be added by the same transaction only.';
CREATE UNIQUE INDEX cut_change_set_live_version ON cutter_governance.cut_change_set (source_version_id) WHERE live;
CREATE UNIQUE INDEX cut_change_set_live_key ON cutter_governance.cut_change_set (idempotency_key) WHERE live;
CREATE INDEX cut_change_set_document ON cutter_governance.cut_change_set (document_id);
CREATE INDEX cut_change_set_run ON cutter_governance.cut_change_set (run_id);
CREATE INDEX cut_change_set_entry ON cutter_governance.cut_change_set (entry_id);

CREATE TABLE cutter_governance.change_set_void (
    void_id       uuid PRIMARY KEY,
    change_set_id uuid NOT NULL UNIQUE REFERENCES cutter_governance.cut_change_set,
    run_id        text COLLATE "C" NOT NULL,
    approval_id   uuid NOT NULL REFERENCES cutter_governance.review_approval,
    reason        text NOT NULL,
    actor         text NOT NULL,
    at            timestamptz NOT NULL
);
COMMENT ON TABLE cutter_governance.change_set_void IS 'Forward compensation (D10): the set and its draft units no longer count.';

CREATE TABLE cutter_governance.dot_pair_signature (
    signature_id  uuid PRIMARY KEY,
    run_id        text COLLATE "C" NOT NULL,
    change_set_id uuid NOT NULL REFERENCES cutter_governance.cut_change_set,
    duty          text COLLATE "C" NOT NULL CHECK (duty IN ('executor', 'verifier')),
    payload       text NOT NULL,
    public_key    text COLLATE "C" NOT NULL CHECK (public_key ~ '^[0-9a-f]{64}$'),
    signature     text COLLATE "C" NOT NULL CHECK (signature ~ '^[0-9a-f]{128}$'),
    inserted_by   name NOT NULL DEFAULT session_user,
    at            timestamptz NOT NULL,
    UNIQUE (change_set_id, duty),
    CHECK (inserted_by = CASE duty WHEN 'executor' THEN 'cutter_exec' ELSE 'cutter_verify' END)
);
COMMENT ON TABLE cutter_governance.dot_pair_signature IS 'Executor and verifier, each by its own login (A-2).';
CREATE INDEX dot_pair_signature_run ON cutter_governance.dot_pair_signature (run_id);

CREATE TABLE cutter_governance.manifest_envelope (
    id                    uuid PRIMARY KEY,
    change_set_id         uuid NOT NULL UNIQUE REFERENCES cutter_governance.cut_change_set,
    run_id                text COLLATE "C" NOT NULL,
    entry_id              uuid NOT NULL REFERENCES cutter_governance.decision_backlog_entry,
    executor_signature_id uuid NOT NULL UNIQUE REFERENCES cutter_governance.dot_pair_signature,
    envelope              text NOT NULL,
    unit_count            bigint NOT NULL CHECK (unit_count >= 0),
    actor                 text NOT NULL,
    at                    timestamptz NOT NULL
);
COMMENT ON TABLE cutter_governance.manifest_envelope IS 'Leg B, once per change set (G-LEG-B-ONCE).';

CREATE TABLE cutter_governance.verify_result (
    id                     uuid PRIMARY KEY,
    change_set_id          uuid NOT NULL UNIQUE REFERENCES cutter_governance.cut_change_set,
    run_id                 text COLLATE "C" NOT NULL,
    manifest_envelope_id   uuid NOT NULL REFERENCES cutter_governance.manifest_envelope (id),
    entry_id               uuid NOT NULL REFERENCES cutter_governance.decision_backlog_entry,
    passed                 boolean NOT NULL,
    compensating_id        uuid REFERENCES cutter_governance.cut_change_set,
    escalation_entry_id    uuid REFERENCES cutter_governance.decision_backlog_entry,
    prior_verify_result_id uuid REFERENCES cutter_governance.verify_result (id),
    actor                  text NOT NULL,
    inserted_by            name NOT NULL DEFAULT session_user CHECK (inserted_by = 'cutter_verify'),
    at                     timestamptz NOT NULL,
    CHECK (passed = (compensating_id IS NULL) AND passed = (escalation_entry_id IS NULL))
);
COMMENT ON TABLE cutter_governance.verify_result IS 'The verdict on a change set, once (G-VERIFY-ONCE), by another login than the executor''s.';

CREATE TABLE cutter_governance.run_fence (
    run_id       text COLLATE "C" PRIMARY KEY CHECK (run_id ~ '^[A-Za-z0-9-]{1,128}$'),
    document_id  text COLLATE "C" NOT NULL,
    epoch        bigint NOT NULL CHECK (epoch >= 1),
    holder       uuid NOT NULL,
    backend_pids integer[] NOT NULL DEFAULT '{}',
    taken_at     timestamptz NOT NULL DEFAULT clock_timestamp()
);
COMMENT ON TABLE cutter_governance.run_fence IS 'Who drives a run now. A higher epoch refuses all lower ones.';

CREATE TABLE cutter_governance.run_effect (
    run_id         text COLLATE "C" NOT NULL,
    effect         text COLLATE "C" NOT NULL CHECK (effect IN ('mark', 'sweep', 'sg1_review', 'leg_a', 'leg_b',
        'write_verify', 'sg2_request', 'sg2_review', 'enact', 'sg3_review', 'void')),
    occurrence     integer NOT NULL CHECK (occurrence >= 1),
    effect_id      uuid NOT NULL UNIQUE,
    fence_epoch    bigint NOT NULL,
    payload_sha256 text COLLATE "C" NOT NULL CHECK (payload_sha256 ~ '^[0-9a-f]{64}$'),
    verdict        text COLLATE "C" NOT NULL CHECK (verdict IN ('commit', 'commit_failure')),
    facts          jsonb NOT NULL,
    at             timestamptz NOT NULL,
    document_id    text COLLATE "C" NOT NULL,
    inserted_by    name NOT NULL DEFAULT session_user,
    PRIMARY KEY (run_id, effect, occurrence)
);
COMMENT ON TABLE cutter_governance.run_effect IS 'One row per committed effect, in the effect''s own transaction, with the facts that were judged.';
CREATE INDEX run_effect_document ON cutter_governance.run_effect (document_id);

-- The one flag that moves: live, from true to false, once a void row stands.
CREATE FUNCTION cutter_governance.fn_change_set_guard() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $fn$
DECLARE
    v_old cutter_governance.cut_change_set := OLD;
BEGIN
    v_old.live := NEW.live;
    IF v_old IS DISTINCT FROM NEW OR NEW.live OR NOT OLD.live
        OR NOT EXISTS (SELECT FROM cutter_governance.change_set_void v WHERE v.change_set_id = OLD.change_set_id)
    THEN
        RAISE EXCEPTION 'change set %: append-only, but for the end of live after its void row', OLD.change_set_id
            USING ERRCODE = 'CU001';
    END IF;
    RETURN NEW;
END
$fn$;
CREATE TRIGGER trg_change_set_guard BEFORE UPDATE ON cutter_governance.cut_change_set
    FOR EACH ROW EXECUTE FUNCTION cutter_governance.fn_change_set_guard();
CREATE TRIGGER trg_no_removal BEFORE DELETE OR TRUNCATE ON cutter_governance.cut_change_set
    FOR EACH STATEMENT EXECUTE FUNCTION cutter_governance.fn_append_only();
CREATE TRIGGER trg_no_removal BEFORE DELETE OR TRUNCATE ON cutter_governance.run_fence
    FOR EACH STATEMENT EXECUTE FUNCTION cutter_governance.fn_append_only();
CREATE TRIGGER trg_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON cutter_governance.review_decision
    FOR EACH STATEMENT EXECUTE FUNCTION cutter_governance.fn_append_only();
CREATE TRIGGER trg_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON cutter_governance.review_approval
    FOR EACH STATEMENT EXECUTE FUNCTION cutter_governance.fn_append_only();
CREATE TRIGGER trg_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON cutter_governance.approval_use
    FOR EACH STATEMENT EXECUTE FUNCTION cutter_governance.fn_append_only();
CREATE TRIGGER trg_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON cutter_governance.change_set_void
    FOR EACH STATEMENT EXECUTE FUNCTION cutter_governance.fn_append_only();
CREATE TRIGGER trg_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON cutter_governance.dot_pair_signature
    FOR EACH STATEMENT EXECUTE FUNCTION cutter_governance.fn_append_only();
CREATE TRIGGER trg_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON cutter_governance.manifest_envelope
    FOR EACH STATEMENT EXECUTE FUNCTION cutter_governance.fn_append_only();
CREATE TRIGGER trg_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON cutter_governance.verify_result
    FOR EACH STATEMENT EXECUTE FUNCTION cutter_governance.fn_append_only();
CREATE TRIGGER trg_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON cutter_governance.run_effect
    FOR EACH STATEMENT EXECUTE FUNCTION cutter_governance.fn_append_only();

RESET ROLE;
