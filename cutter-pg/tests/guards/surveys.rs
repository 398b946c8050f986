//! Of what is looked at before anything is written: a survey, and the catalogue's stamp.

use std::collections::BTreeMap;

use super::support::World;
use super::{Scene, beside};

#[test]
fn a_survey_tells_of_its_own_document_run_and_database() {
    let world = World::new();
    let mut run = world.run(&world.register(1));
    run.up_to_verified();
    let call = format!(
        "SELECT s.dimension || '=' || s.value FROM cutter_governance.fn_survey('{}', '{}', '{}', '{}',
             cutter_governance.fn_catalogue_stamp()) s",
        run.source.document, run.run_id, run.entry, run.cut_decision
    );
    let mut scene = Scene::of(&world, "cutter_ro");
    let mut survey = |spoil: &str| {
        let (rows, said) = scene.said(spoil, &call);
        let pairs: Vec<(String, String)> = rows
            .split(',')
            .map(|row| {
                row.split_once('=')
                    .map(|(name, value)| (name.to_owned(), value.to_owned()))
                    .unwrap_or_default()
            })
            .collect();
        let found: BTreeMap<String, String> = pairs.iter().cloned().collect();
        assert_eq!(found.len(), pairs.len(), "{spoil}: a dimension twice: {rows} {said}");
        found
    };
    let clean = survey("");
    let names: Vec<&str> = clean.keys().map(String::as_str).collect();
    assert_eq!(
        names,
        [
            "approvals",
            "backlog_status",
            "catalogue_stamp",
            "database_identity",
            "latest_version",
            "migrations",
            "review_decisions",
            "unit_digest",
            "unit_rows",
            "vocabulary"
        ]
    );
    let own = world.count("SELECT oid::bigint FROM pg_database WHERE datname = current_database()");
    assert!(clean["database_identity"].ends_with(&format!("/{own}")), "{clean:?}");
    let is = |name: &str, value: &str| assert_eq!(clean[name], value, "{name}");
    is("approvals", "1");
    is("backlog_status", "verified_complete");
    is("review_decisions", "1");
    is("unit_rows", "1");
    is("latest_version", &format!("{}/{}", run.source.source_version_id, run.source.sha256.to_hex()));

    let version = |differs: &str| {
        beside("iu_core.source_version", &format!("'source_version_id', gen_random_uuid(), {differs}"))
    };
    // generated columns are not copied
    let unit = "INSERT INTO iu_core.information_unit (unit_id, change_set_id, document_id, source_document_id,
            source_version_id, ordinal, canonical_address, unit_kind, section_type, content_hash, body_hash, idempotency_key, created_at)
        SELECT gen_random_uuid(), gen_random_uuid(), 'Y', gen_random_uuid(), gen_random_uuid(), 0, 'Y/1', u.unit_kind,
            u.section_type, u.content_hash, u.body_hash, repeat('0', 64), now() FROM iu_core.information_unit u";
    let other = "gen_random_uuid()";
    let governance = |table: &str, what: &str| format!("UPDATE cutter_governance.{table} SET {what}");
    let others = [
        beside("iu_core.source_document", &format!("'source_document_id', {other}, 'document_id', 'Y'")),
        version(&format!("'source_document_id', {other}, 'version_no', 9")),
        unit.to_owned(),
        beside(
            "cutter_governance.decision_backlog_entry",
            &format!("'entry_id', {other}, 'status', 'marked', 'idempotency_key', repeat('0', 64)"),
        ),
        beside("cutter_governance.review_decision", &format!("'id', {other}, 'nonce', 'n'")),
        "INSERT INTO public.dot_config VALUES ('vocab.other.x', '1', 'x')".to_owned(),
    ];
    let lines: Vec<(String, &[&str])> = vec![
        (others.join("; "), &[]),
        (version("'version_no', 9"), &["latest_version"]),
        (format!("UPDATE iu_core.source_version SET version_no = 5; {}", version("'version_no', 1")), &[]),
        (
            "UPDATE iu_core.source_version SET content = 'x', byte_length = 1, sha256 = encode(sha256('x'), 'hex')".to_owned(),
            &["latest_version"],
        ),
        (
            "UPDATE iu_core.source_document SET document_id = 'Z'".to_owned(),
            &["latest_version", "unit_digest", "unit_rows"],
        ),
        ("UPDATE iu_core.information_unit SET content_hash = repeat('0', 64)".to_owned(), &["unit_digest"]),
        ("UPDATE iu_core.information_unit SET lifecycle_status = 'voided'".to_owned(), &["unit_digest"]),
        ("UPDATE iu_core.information_unit SET canonical_address = 'X-LAW-1/x'".to_owned(), &["unit_digest"]),
        ("DELETE FROM iu_core.information_unit".to_owned(), &["unit_digest", "unit_rows"]),
        (governance("decision_backlog_entry", "status = 'marked'"), &["backlog_status"]),
        (governance("decision_backlog_entry", &format!("entry_id = {other}")), &["backlog_status"]),
        (governance("review_decision", &format!("id = {other}")), &["review_decisions"]),
        (governance("review_approval", "run_id = 'another'"), &["approvals"]),
        ("DELETE FROM public.dot_config WHERE config_key LIKE 'vocab.unit_kind.%'".to_owned(), &["vocabulary"]),
        ("DELETE FROM cutter_meta.migration WHERE version = 1".to_owned(), &["migrations"]),
    ];
    for (spoil, changes) in lines {
        let mut seen = survey(&spoil);
        seen.retain(|name, value| clean.get(name) != Some(value));
        assert_eq!(seen.keys().map(String::as_str).collect::<Vec<_>>(), changes, "{spoil}");
    }
}

#[test]
fn the_catalogues_stamp_is_another_after_a_change_of_ours_and_no_strangers() {
    let (world, elsewhere) = (World::new(), World::new());
    let mut scene = Scene::of(&world, "cutter_ro");
    let call = "SELECT cutter_governance.fn_catalogue_stamp()";
    let clean = scene.outcome("", call);
    assert_eq!(clean.len(), 64, "{clean}");
    let body = "RETURNS int LANGUAGE sql AS 'SELECT 1'";
    let own = world.database.name().to_owned();
    for (change, is_ours) in [
        (String::new(), false),
        ("ALTER FUNCTION public.fn_cut_complete COST 101".to_owned(), true),
        ("ALTER FUNCTION iu_core.fn_iu_create COST 101".to_owned(), true),
        ("ALTER FUNCTION cutter_queue.fn_work_now COST 101".to_owned(), true),
        (format!("CREATE FUNCTION iu_core.strange() {body}"), true),
        // whoever else has something in the schema that all share
        (format!("CREATE FUNCTION public.strange() {body}"), false),
        (format!("CREATE SCHEMA strangers; CREATE FUNCTION strangers.strange() {body}"), false),
        ("ALTER TABLE public.cut_request DISABLE TRIGGER trg_no_removal".to_owned(), true),
        ("ALTER TABLE iu_core.unit_anchor ADD CONSTRAINT strange CHECK (true)".to_owned(), true),
        ("GRANT UPDATE (status) ON public.cut_request TO cutter_ro".to_owned(), true),
        ("GRANT CREATE ON SCHEMA public TO cutter_ro".to_owned(), true),
        ("GRANT CREATE ON SCHEMA iu_core TO cutter_ro".to_owned(), true),
        (format!("GRANT TEMPORARY ON DATABASE {own} TO cutter_ro"), true),
        (format!("GRANT TEMPORARY ON DATABASE {} TO cutter_ro", elsewhere.database.name()), false),
        ("UPDATE cutter_governance.grant_expectation SET wanted = NOT wanted".to_owned(), true),
    ] {
        assert_eq!(scene.outcome(&change, call) != clean, is_ours, "{change}");
    }
}
