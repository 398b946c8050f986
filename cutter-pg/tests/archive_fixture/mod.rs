//! Documents to back up, made by the schema's own functions, and archives as bytes.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use cutter_core::base::id::RunId;
use cutter_core::port::backup::BackupSource as _;
use cutter_core::port::{PortError, PortResult};
use cutter_core::record::backup::{BackupRequest, BackupScope, BackupSummary};
use cutter_pg::backup::PgBackupSource;
use cutter_pg::login::Login;
use cutter_pg::testing::{TestDatabase, TestServer};
use futures_executor::block_on;
use postgres::Client;
use uuid::Uuid;

/// The run that takes the backups.
pub const RUN: &str = "ictr-20260520T101112Z-019e44f1-2a00-7123-8abc-0123456789ab";

/// Another document's units, in bulk.
pub const FOREIGN: &str = "OTHER-1";

/// `cut(document, run, text, units, outcome)`: registers the text and cuts it into equal parts.
/// Outcomes: marked, draft, enacted, failed.
pub const FUNCTIONS: &str = r#"
CREATE FUNCTION public.hex(p text) RETURNS text LANGUAGE sql IMMUTABLE AS
    $$ SELECT encode(sha256(convert_to(p, 'UTF8')), 'hex') $$;

CREATE FUNCTION public.consent(p_doc text, p_run text, p_type text, p_set uuid, p_entry uuid) RETURNS uuid
LANGUAGE plpgsql AS $$
DECLARE v_decision uuid := gen_random_uuid(); v_approval uuid := gen_random_uuid(); v_at timestamptz := '2026-05-20 10:11:12.5+00';
BEGIN
    INSERT INTO cutter_governance.review_decision (id, run_id, document_id, type, decision, entry_id, change_set_id,
        expected_actor, unit_count, unit_set_digest, nonce, request_sha256, actor, at)
    VALUES (v_decision, p_run, p_doc, p_type, CASE p_type WHEN 'lifecycle_enactment' THEN NULL ELSE 'approve' END,
        p_entry, p_set, 'sovereign', 1, public.hex('set'), v_decision::text, public.hex('request'), 'sovereign', v_at);
    INSERT INTO cutter_governance.review_approval (approval_id, review_decision_id, run_id, document_id, type,
        decision, approval_kb_id, document, sha256, nonce, fingerprint, actor, request_sha256, inserted_by, at)
    SELECT v_approval, v_decision, p_run, p_doc, p_type, 'approve', 'kb', d, encode(sha256(d), 'hex'),
        v_approval::text, 'ABCD', E'sover\teign\\ \n"x"', public.hex('request'), 'cutter_review', v_at
    FROM (SELECT convert_to('signed ' || v_approval, 'UTF8') AS d) x;
    RETURN v_approval;
END $$;

CREATE FUNCTION public.cut(p_doc text, p_run text, p_text bytea, p_units int, p_outcome text) RETURNS uuid
LANGUAGE plpgsql AS $$
DECLARE
    v_source record; v_entry uuid := gen_random_uuid(); v_set uuid := gen_random_uuid(); v_approval uuid;
    v_decision uuid; v_signature uuid := gen_random_uuid(); v_envelope uuid := gen_random_uuid();
    v_at timestamptz := '2026-05-20 10:11:12+00'::timestamptz + random() * interval '1 day'; v_part int;
BEGIN
    SELECT * INTO v_source FROM iu_core.fn_source_register(p_doc, 'Title', gen_random_uuid(), gen_random_uuid(),
        p_text, encode(sha256(p_text), 'hex'), NULL, 'registrar');
    PERFORM cutter_governance.fn_backlog_mark(v_entry, gen_random_uuid(), p_run, p_doc, v_source.source_document_id,
        v_source.source_version_id, public.hex(p_doc || encode(sha256(p_text), 'hex')), public.hex('r'), public.hex('m'), p_units, NULL, 'marker',
        E'with a \\ and\ta tab', v_at);
    PERFORM cutter_governance.fn_backlog_sweep(gen_random_uuid(), v_entry, gen_random_uuid(), p_run, 'sweeper', v_at);
    IF p_outcome = 'marked' THEN RETURN v_entry; END IF;
    v_approval := public.consent(p_doc, p_run, 'cut_authorization', NULL, v_entry);
    SELECT review_decision_id INTO v_decision FROM cutter_governance.review_approval WHERE approval_id = v_approval;
    PERFORM cutter_governance.fn_backlog_transition(v_entry, 'review_pending', 'reviewed_approved', gen_random_uuid(),
        'a', 'r', p_run, NULL, '{"b": [1, "x\ty"], "a": null}', (SELECT d.at FROM cutter_governance.review_decision d
            WHERE d.id = v_decision));
    -- as an older cutter left it: its consents name no rows
    PERFORM set_config('session_replication_role', 'replica', true);
    PERFORM cutter_governance.fn_approval_use(v_approval, p_run, 'leg_a', v_set, v_at);
    PERFORM cutter_governance.fn_change_set_open(v_set, p_run, p_doc, v_source.source_document_id,
        v_source.source_version_id, v_entry, v_approval, v_decision, public.hex(p_doc || encode(sha256(p_text), 'hex')), public.hex('w'), public.hex('m'),
        public.hex('r'), 'act', p_units, 'executor', v_at);
    PERFORM set_config('session_replication_role', 'origin', true);
    v_part := length(p_text) / p_units;
    PERFORM iu_core.fn_iu_create(v_set, gen_random_uuid(), gen_random_uuid(), gen_random_uuid(), n,
        p_doc || '/u' || n, 'u' || n, 'article', 'general', n * v_part,
        n * v_part + length(c), c, encode(sha256(c), 'hex'), encode(sha256(c), 'hex'), public.hex(encode(sha256(c), 'hex') || n))
    FROM (SELECT n, substring(p_text FROM n * v_part + 1
            FOR CASE n WHEN p_units - 1 THEN length(p_text) ELSE v_part END) AS c
          FROM generate_series(0, p_units - 1) n) s;
    PERFORM cutter_governance.fn_backlog_transition(v_entry, f, t, gen_random_uuid(), 'a', 'r', p_run, v_set, NULL, v_at)
    FROM (VALUES ('reviewed_approved', 'cut_in_progress'), ('cut_in_progress', 'cut_applied')) s(f, t);
    INSERT INTO cutter_governance.dot_pair_signature (signature_id, run_id, change_set_id, duty, payload, public_key,
        signature, inserted_by, at)
    VALUES (v_signature, p_run, v_set, 'executor', '{"a":"ế"}', public.hex('k'), public.hex('s') || public.hex('s'),
        'cutter_exec', v_at);
    PERFORM cutter_governance.fn_envelope_record(v_envelope, v_set, p_run, v_entry, v_signature, '{}', p_units, 'e', v_at);
    IF p_outcome = 'draft' THEN RETURN v_set; END IF;
    PERFORM cutter_governance.fn_backlog_transition(v_entry, 'cut_applied', 'verify_in_progress', gen_random_uuid(),
        'v', 'r', p_run, v_set, NULL, v_at);
    PERFORM cutter_governance.fn_backlog_transition(v_entry, 'verify_in_progress', CASE p_outcome WHEN 'failed' THEN
        'verify_failed_escalated' ELSE 'verified_complete' END, gen_random_uuid(), 'v', 'r', p_run, v_set, NULL, v_at);
    IF p_outcome = 'failed' THEN
        PERFORM cutter_governance.fn_verify_escalate(v_signature, v_set, v_envelope, gen_random_uuid(), p_run, 'v', v_at);
    END IF;
    INSERT INTO cutter_governance.dot_pair_signature (signature_id, run_id, change_set_id, duty, payload, public_key,
        signature, inserted_by, at)
    VALUES (gen_random_uuid(), p_run, v_set, 'verifier', '{"a":"ế"}', public.hex('v'),
        public.hex('s') || public.hex('t'), 'cutter_verify', v_at);
    PERFORM set_config('session_replication_role', 'replica', true);
    INSERT INTO cutter_governance.verify_result (id, change_set_id, run_id, manifest_envelope_id, entry_id, passed,
        compensating_id, escalation_entry_id, actor, inserted_by, at)
    VALUES (gen_random_uuid(), v_set, p_run, v_envelope, v_entry, p_outcome <> 'failed',
        CASE p_outcome WHEN 'failed' THEN v_signature END, CASE p_outcome WHEN 'failed' THEN v_envelope END,
        'v', 'cutter_verify', v_at);
    PERFORM set_config('session_replication_role', 'origin', true);
    IF p_outcome = 'failed' THEN
        PERFORM iu_core.fn_iu_apply_edit_draft(u.unit_id, gen_random_uuid(), 'edited'::bytea,
            encode(sha256('edited'), 'hex'), encode(sha256('edited'), 'hex'), 'editor', v_at)
        FROM iu_core.information_unit u WHERE u.change_set_id = v_set AND u.ordinal = 0;
        RETURN v_set;
    END IF;
    v_approval := public.consent(p_doc, p_run, 'lifecycle_enactment', v_set, v_entry);
    PERFORM set_config('session_replication_role', 'replica', true);
    PERFORM cutter_governance.fn_approval_use(v_approval, p_run, 'enact', gen_random_uuid(), v_at);
    PERFORM set_config('session_replication_role', 'origin', true);
    PERFORM iu_core.fn_iu_enact(u.unit_id, v_approval, p_run, 'e', v_at)
    FROM iu_core.information_unit u WHERE u.change_set_id = v_set;
    RETURN v_set;
END $$;

CREATE FUNCTION public.void(p_set uuid) RETURNS void LANGUAGE plpgsql AS $$
DECLARE v_set record; v_approval uuid; v_void uuid := gen_random_uuid();
BEGIN
    SELECT * INTO v_set FROM cutter_governance.cut_change_set WHERE change_set_id = p_set;
    v_approval := public.consent(v_set.document_id, v_set.run_id, 'void', p_set, v_set.entry_id);
    PERFORM set_config('session_replication_role', 'replica', true);
    PERFORM cutter_governance.fn_approval_use(v_approval, v_set.run_id, 'void', v_void, now());
    PERFORM set_config('session_replication_role', 'origin', true);
    PERFORM cutter_governance.fn_change_set_void(v_void, p_set, v_set.run_id, v_approval, 'r', 'a', now());
    PERFORM cutter_governance.fn_backlog_transition(e.entry_id, e.status, 'abandoned', gen_random_uuid(), 'a', 'r',
        NULL, p_set, NULL, now())
    FROM cutter_governance.decision_backlog_entry e WHERE e.entry_id = v_set.entry_id;
END $$;
"#;

/// A database of one's own with the functions above.
pub fn database() -> TestDatabase {
    let database = TestServer::shared().fresh_database();
    database.client(Login::Admin).batch_execute(FUNCTIONS).unwrap();
    database
}

/// Cuts a text; gives the change set (or the entry, if only marked).
pub fn cut(client: &mut Client, document: &str, run: &str, text: &[u8], units: i32, outcome: &str) -> Uuid {
    client
        .query_one("SELECT public.cut($1, $2, $3, $4, $5)", &[&document, &run, &text, &units, &outcome])
        .unwrap_or_else(|error| panic!("{error:?}"))
        .get(0)
}

/// A document that has been through everything: failed, edited and voided twice over the same
/// text, enacted; a second version in draft; staging rows; and a run of its own that is marked.
pub fn eventful(client: &mut Client, document: &str) {
    let text = "Điều 1.\nFirst \\ tab\tand more.\nĐiều 2.\n".repeat(40).into_bytes();
    for run in ["run-a", "run-b"] {
        let set = cut(client, document, run, &text, 5, "failed");
        client.execute("SELECT public.void($1)", &[&set]).unwrap();
    }
    cut(client, document, "run-c", &text, 7, "enacted");
    cut(client, document, "run-d", b"a second version", 4, "draft");
    client
        .execute(
            "INSERT INTO iu_core.iu_staging_record (staging_record_id, record_kind, document_id, source_ref, sha256,
                byte_length, created_by, metadata)
             SELECT gen_random_uuid(), 'source_copy', $1, 'ref', public.hex(n::text), n, 'x', '{\"k\": 1}'
             FROM generate_series(0, 2) n",
            &[&document],
        )
        .unwrap();
    client
        .execute(
            "INSERT INTO iu_core.iu_staging_payload SELECT staging_record_id,
                convert_to(repeat('é', (byte_length * 100000)::int), 'UTF8')
             FROM iu_core.iu_staging_record WHERE document_id = $1",
            &[&document],
        )
        .unwrap();
    cut(client, document, RUN, b"a third version", 1, "marked");
}

/// A request for a document.
pub fn request(document: &str, scope: BackupScope) -> BackupRequest {
    BackupRequest {
        run_id: RUN.parse::<RunId>().unwrap(),
        document_id: document.to_owned(),
        scope,
        at: "2026-05-20T10:11:12Z".to_owned(),
        deadline_ms: 60_000,
    }
}

/// A whole archive.
pub fn archive(source: &PgBackupSource, request: &BackupRequest) -> PortResult<(Vec<u8>, BackupSummary)> {
    block_on(async {
        let mut stream = source.open(request).await?;
        let mut bytes = Vec::new();
        while let Some(chunk) = stream.next().await? {
            assert!(!chunk.is_empty() && chunk.len() <= 1024 * 1024);
            bytes.extend(chunk);
        }
        Ok::<_, PortError>((bytes, stream.finish().await?))
    })
}

/// The reader login's source.
pub fn source(database: &TestDatabase) -> PgBackupSource {
    PgBackupSource::new(database.dsn(Login::Ro))
}

/// A name for a scratch database.
pub fn scratch_name(database: &TestDatabase) -> String {
    format!("{}_s{:08x}", database.name(), Uuid::from_u128(rand_bits()).as_fields().0)
}

fn rand_bits() -> u128 {
    use std::hash::{BuildHasher as _, RandomState};
    u128::from(RandomState::new().hash_one(0_u8)) << 64 | u128::from(RandomState::new().hash_one(1_u8))
}

/// Whether a database is there.
pub fn exists(database: &TestDatabase, name: &str) -> bool {
    let mut client = database.client(Login::Admin);
    !client.query("SELECT 1 FROM pg_database WHERE datname = $1", &[&name]).unwrap().is_empty()
}

/// A scratch database's end.
pub struct Dropped<'a>(pub &'a TestDatabase, pub String);

impl Drop for Dropped<'_> {
    fn drop(&mut self) {
        let statement = format!("DROP DATABASE IF EXISTS {} WITH (FORCE)", self.1);
        let _ = self.0.client(Login::Admin).batch_execute(&statement);
    }
}
