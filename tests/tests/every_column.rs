//! Each column of each table of ours changed, one at a time, by a superuser with triggers off; a
//! row deleted; a row added: `verify`, `backlog audit` or `db check` reports it, or it is on the list
//! below with its reason (docs/audit.md has the same list).
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::{BTreeMap, BTreeSet};

use cutter_pg::login::Login;
use cutter_tests::cli::{Deployment, SOVEREIGN, is_full, law};
use postgres::Client;

/// Tables, or columns of tables, that nothing is compared with, and why.
const UNSEEN: &[(&str, &[&str], &str)] = &[
    ("cutter_governance.run_begun", &["*"], ASKED),
    (
        "cutter_governance.run_statement",
        &["recorded_at", ADDED],
        "when it was stored, by the server's clock; one of a run that is not there is shown to nobody",
    ),
    ("cutter_governance.statement_signature", &["recorded_at"], STORED_AT),
    ("cutter_governance.policy_key", &["inserted_by", "recorded_at"], STORED_AT),
    (
        "cutter_governance.policy_event",
        &["inserted_by", "recorded_at", DELETED],
        "when and by which login it was stored; a chain that is cut short at its end still holds, and only a run that \
         pinned its head shows it",
    ),
    ("cutter_queue.work_key", &["*"], QUEUE),
    ("cutter_queue.work_item", &["*"], QUEUE),
    ("cutter_queue.work_ready", &["*"], QUEUE),
    ("cutter_queue.work_wait", &["*"], QUEUE),
    ("cutter_queue.work_lease", &["*"], QUEUE),
    ("cutter_queue.work_done", &["*"], QUEUE),
    ("cutter_queue.work_attempt", &["*"], QUEUE),
    ("cutter_queue.work_tally", &["*"], QUEUE),
    ("cutter_queue.work_watch", &["*"], QUEUE),
    ("cutter_queue.job_signal", &["*"], "a wake-up; the request's status decides what it means"),
    ("cutter_governance.command", &["*"], LEDGER),
    ("cutter_governance.command_attempt", &["*"], LEDGER),
    ("cutter_governance.command_settlement", &["*"], LEDGER),
    ("cutter_governance.command_open", &["*"], LEDGER),
    ("cutter_run.run", &["*"], RUN_STORE),
    ("cutter_run.revision", &["*"], RUN_STORE),
    ("cutter_run.lease", &["*"], RUN_STORE),
    ("cutter_run.claim", &["*"], RUN_STORE),
    ("cutter_run.stop_request", &["*"], RUN_STORE),
    ("public.cut_request", &["source_ref", "source_kind", "source_path", "metadata", DELETED], REQUEST),
    (
        "public.cut_request_transition",
        &["transition_id", "actor", "occurred_at", "detail", "recorded_at"],
        REQUEST,
    ),
    (
        "iu_core.iu_staging_record",
        &[
            "record_kind",
            "source_ref",
            "document_id",
            "lifecycle_status",
            "created_by",
            "created_at",
            "approved_at",
            "consumed_at",
            "expires_at",
            "cleaned_at",
            "metadata",
            "vector_excluded",
            ADDED,
        ],
        REQUEST,
    ),
    ("iu_core.iu_staging_payload", &[ADDED], REQUEST),
    ("cutter_governance.copy_folder", &["*"], "where requests may copy from: configuration, no decision"),
    (
        "cutter_governance.backlog_promotion_check",
        &["*"],
        "the rules of a sweep: configuration, read anew by each pass",
    ),
    (
        "cutter_governance.grant_expectation",
        &["*"],
        "what `db check` compares grants with; its own content is the catalogue's",
    ),
    (
        "cutter_governance.catalogue_reading",
        &["*"],
        "what was read of the catalogue, for its stamp: `db check` reads anew and compares",
    ),
    (
        "cutter_governance.before_trust",
        &["*"],
        "says only that a run began before rows were named, and opens nothing that stands",
    ),
    ("cutter_meta.migration_move", &["*"], "moves pins of runs that wait; a wrong one is drift"),
    (
        "cutter_meta.migration",
        &["name", "applied_at"],
        "labels: a migration is its number and the digest of its text",
    ),
    (
        "public.dot_config",
        &["*"],
        "vocabularies: pinned by each run (manifest_digest), and drift where one waits",
    ),
    ("iu_core.information_unit", &["live"], "generated"),
    ("iu_core.unit_version", &[ADDED], ORPHAN),
    ("iu_core.unit_anchor", &[ADDED], ORPHAN),
    (
        "cutter_governance.run_fence",
        &["epoch", "holder", "backend_pids", "taken_at", ADDED],
        "who drives now, not what was decided",
    ),
];

const ORPHAN: &str = "of no unit: no reader is shown it";
const ASKED: &str = "used while a run goes on; afterwards the documents that it names, the approvals and the record say \
    the same, but for late answers";
const STORED_AT: &str = "when it was stored, by the server's clock: nothing else says that";
const QUEUE: &str = "who works on what, and when; what was decided and cut stands in the run's own rows";
const LEDGER: &str = "an embedder's commands: it knows what they mean";
const RUN_STORE: &str = "the runs' records where they are kept in the database: each revision has its digest and chain, which verify checks there";
const REQUEST: &str =
    "labels, and times of the pipeline around runs: what is cut is compared with the run's own rows";

/// How the list calls a row that was added.
const ADDED: &str = "(a row added)";
const DELETED: &str = "(a row deleted)";

fn is_listed(table: &str, column: &str) -> bool {
    UNSEEN.iter().any(|(t, columns, _)| *t == table && (columns.contains(&"*") || columns.contains(&column)))
}

struct Column {
    table: String,
    name: String,
    kind: String,
}

/// Our tables with their columns, as the catalogue has them.
fn columns(client: &mut Client) -> Vec<Column> {
    let rows = client
        .query(
            "SELECT n.nspname || '.' || c.relname, a.attname::text, format_type(a.atttypid, NULL)
             FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
             JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
             WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition
                 AND (n.nspname IN ('iu_core', 'cutter_governance', 'cutter_queue', 'cutter_run', 'cutter_meta')
                     OR n.nspname = 'public' AND c.relname IN ('cut_request', 'cut_request_transition', 'dot_config'))
             ORDER BY 1, a.attnum",
            &[],
        )
        .unwrap();
    rows.iter().map(|r| Column { table: r.get(0), name: r.get(1), kind: r.get(2) }).collect()
}

/// Another value of the same type.
fn other(column: &Column) -> String {
    let c = format!("\"{}\"", column.name);
    match column.kind.as_str() {
        "uuid" => "gen_random_uuid()".to_owned(),
        "uuid[]" => "ARRAY[gen_random_uuid()]".to_owned(),
        "integer" | "bigint" => format!("coalesce({c}, 0) + 1"),
        "integer[]" => "ARRAY[1, 2]".to_owned(),
        "boolean" => format!("NOT coalesce({c}, false)"),
        "timestamp with time zone" => format!("coalesce({c}, now()) + interval '1 minute'"),
        "jsonb" => format!("{c} || '{{\"x\": 1}}'"),
        "bytea" => format!("coalesce({c}, '') || '\\x78'::bytea"),
        "xid8" => "'1'::xid8".to_owned(),
        "text[]" => "ARRAY['x']".to_owned(),
        // A digest stays a digest; a word stays one of its kind where there are others.
        _ => format!(
            "CASE WHEN {c} ~ '^[0-9a-f]{{64,128}}$' THEN reverse({c}) ELSE coalesce({c}, '') || 'x' END"
        ),
    }
}

/// As a superuser does who knows how to switch triggers off. False where a constraint refuses.
fn tamper(client: &mut Client, sql: &str) -> bool {
    let script = format!("BEGIN; SET LOCAL session_replication_role = replica; {sql}; COMMIT");
    let done = client.batch_execute(&script).is_ok();
    if !done {
        client.batch_execute("ROLLBACK").unwrap();
    }
    done
}

/// Columns of a table that a unique index holds.
fn unique_columns(client: &mut Client, table: &str) -> BTreeSet<String> {
    let rows = client
        .query(
            "SELECT DISTINCT a.attname::text FROM pg_index i
             JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = ANY (i.indkey)
             WHERE i.indisunique AND i.indrelid = to_regclass($1)",
            &[&table],
        )
        .unwrap();
    rows.iter().map(|row| row.get(0)).collect()
}

/// Whether anybody notices.
fn is_reported(d: &Deployment, run_id: &str) -> bool {
    let looks: [&[&str]; 3] = [&["verify", "--run-id", run_id], &["backlog", "audit"], &["db", "check"]];
    // stopped (another schema), failed, or evidence that does not match; never a bug or a half answer
    looks.iter().any(|arguments| matches!(d.run(arguments).code, Some(3 | 4 | 6)))
}

/// Puts a table back as it was.
fn restore(client: &mut Client, table: &str) {
    let generated = if table == "iu_core.information_unit" {
        let columns: String = client
            .query_one(
                "SELECT string_agg(quote_ident(attname), ', ') FROM pg_attribute
                 WHERE attrelid = 'iu_core.information_unit'::regclass AND attnum > 0 AND attgenerated = ''",
                &[],
            )
            .unwrap()
            .get(0);
        Some(columns)
    } else {
        None
    };
    let (into, from) = generated.map_or((String::new(), "*".to_owned()), |c| (format!("({c})"), c));
    let done = tamper(
        client,
        &format!("DELETE FROM {table}; INSERT INTO {table} {into} SELECT {from} FROM kept.\"{table}\""),
    );
    assert!(done, "{table} does not go back");
}

/// A finished run, an entry that was refused, a request and a queued item.
fn world() -> (Deployment, String) {
    let d = Deployment::new();
    d.register("LAW", &law(3, "all"));
    let run_id = d.whole_run("LAW");
    d.register("REFUSED", &law(2, "none"));
    let refused = d.cut("REFUSED");
    let key = d.path(&format!("keys/{SOVEREIGN}.secret.asc"));
    let arguments = ["sovereign", "refuse", "--yes", "--run-id", &refused, "--for", "cut", "--reason", "no"];
    let _ = d.run(&[&arguments[..], &["--key", key.to_str().unwrap()]].concat()).exits(0);
    let _ = d.resume(&refused);
    d.register("QUEUED", &law(2, "queued"));
    let file = d.path("asked.md");
    std::fs::write(&file, law(2, "asked")).unwrap();
    let added = d.run(&["request", "add", file.to_str().unwrap(), "--source-kind", "file"]).exits(0);
    let id = added.text("/cut_request_id").to_owned();
    let review = d.review("one");
    for (step, more) in [
        ("copy", &[][..]),
        ("mark", &["--document-id", "ASKED"][..]),
        ("verify-mark", &["--approve", "--approval-doc", &review][..]),
    ] {
        let _ = d.run(&[&["request", step, "--request-id", &id], more].concat()).exits(0);
    }
    let _ = d.run(&["queue", "add", "--document-id", "QUEUED"]).exits(0);
    (d, run_id)
}

#[test]
fn each_column_is_covered_or_on_the_list_with_its_reason() {
    let (d, run_id) = world();
    let mut client = d.database.client(Login::Admin);
    client.batch_execute("CREATE SCHEMA kept").unwrap();
    assert!(!is_reported(&d, &run_id), "{}", d.run(&["verify", "--run-id", &run_id]).stdout);
    let all = columns(&mut client);
    let mut unseen = BTreeMap::new();
    let mut needed: BTreeSet<String> = BTreeSet::new();
    let mut tried = 0;
    for table in all.iter().map(|c| c.table.clone()).collect::<BTreeSet<_>>() {
        if UNSEEN.iter().any(|(t, columns, _)| *t == table && columns.contains(&"*")) {
            continue;
        }
        client.batch_execute(&format!("CREATE TABLE kept.\"{table}\" AS SELECT * FROM {table}")).unwrap();
        // a row of the finished run, where the table has such
        let has = |name: &str| all.iter().any(|c| c.table == table && c.name == name);
        let units = "(SELECT unit_id FROM iu_core.information_unit WHERE document_id = 'LAW')";
        let own = match table.as_str() {
            "cutter_governance.decision_backlog_history" => {
                let entries = "SELECT entry_id FROM cutter_governance.decision_backlog_entry";
                format!("WHERE entry_id IN ({entries} WHERE run_id = '{run_id}')")
            }
            "iu_core.source_version" => {
                let document =
                    "SELECT source_document_id FROM iu_core.source_document WHERE document_id = 'LAW'";
                format!("WHERE source_document_id = ({document})")
            }
            _ if has("run_id") => format!("WHERE run_id = '{run_id}'"),
            _ if has("document_id") => "WHERE document_id = 'LAW'".to_owned(),
            _ if has("unit_id") => format!("WHERE unit_id IN {units}"),
            _ => String::new(),
        };
        let one = format!("ctid = (SELECT ctid FROM {table} {own} ORDER BY ctid LIMIT 1)");
        let n: i64 = client.query_one(&format!("SELECT count(*) FROM {table} {own}"), &[]).unwrap().get(0);
        if n == 0 {
            continue;
        }
        // Every row with CUTTER_FULL, else one of them.
        let rows = if is_full() { n } else { 1 };
        for (column, skip) in
            all.iter().filter(|c| c.table == table).flat_map(|c| (0..rows).map(move |n| (c, n)))
        {
            let one = one.replace("LIMIT 1", &format!("OFFSET {skip} LIMIT 1"));
            let sql = format!("UPDATE {table} SET \"{}\" = {} WHERE {one}", column.name, other(column));
            if !tamper(&mut client, &sql) {
                continue;
            }
            tried += 1;
            let name = format!("{table}.{}", column.name);
            let seen = is_reported(&d, &run_id);
            if !seen && !is_listed(&table, &column.name) {
                unseen.insert(name, sql);
            } else if !seen {
                needed.insert(name);
            }
            restore(&mut client, &table);
        }
        if tamper(&mut client, &format!("DELETE FROM {table} WHERE {one}")) {
            tried += 1;
            if !is_reported(&d, &run_id) && !is_listed(&table, DELETED) {
                unseen.insert(format!("{table}: a row deleted"), String::new());
            }
            restore(&mut client, &table);
        }
        // A row like it, with another value in each column that must be unique.
        let unique = unique_columns(&mut client, &table);
        let of_table: Vec<&Column> = all
            .iter()
            .filter(|c| c.table == table && !(c.name == "live" && table.starts_with("iu_core")))
            .collect();
        let names: Vec<String> = of_table.iter().map(|c| format!("\"{}\"", c.name)).collect();
        let value = |c: &&Column| if unique.contains(&c.name) { other(c) } else { format!("\"{}\"", c.name) };
        let values: Vec<String> = of_table.iter().map(value).collect();
        let (names, values) = (names.join(", "), values.join(", "));
        if tamper(
            &mut client,
            &format!("INSERT INTO {table} ({names}) SELECT {values} FROM {table} WHERE {one}"),
        ) {
            tried += 1;
            if !is_reported(&d, &run_id) && !is_listed(&table, ADDED) {
                unseen.insert(format!("{table}: a row added"), values);
            }
            restore(&mut client, &table);
        }
    }
    d.verify(&run_id);
    assert!(!is_reported(&d, &run_id), "everything is back");
    assert!(unseen.is_empty(), "not noticed of {tried}: {unseen:#?}");
    if is_full() {
        let listed =
            UNSEEN.iter().flat_map(|(table, names, _)| names.iter().map(move |n| format!("{table}.{n}")));
        let needless: Vec<String> = listed
            .filter(|name| !name.ends_with(".*") && !name.ends_with(ADDED) && !needed.contains(name))
            .collect();
        assert!(needless.is_empty(), "on the list, but noticed in every row, or refused: {needless:#?}");
    }
    assert!(tried > 150, "only {tried} columns were tried");
}

/// The list names what there is.
#[test]
fn the_list_names_tables_and_columns_that_exist_and_the_page_has_it() {
    let d = Deployment::new();
    let all = columns(&mut d.database.client(Login::Admin));
    let page = include_str!("../../docs/audit.md");
    for (table, names, reason) in UNSEEN {
        for name in *names {
            let exists = all
                .iter()
                .any(|c| c.table == *table && (["*", ADDED, DELETED].contains(name) || c.name == *name));
            assert!(exists, "{table}.{name}");
        }
        let of = if names.contains(&"*") { "all".to_owned() } else { names.join(", ") };
        let row = format!("| `{table}` | {of} | {reason} |");
        assert!(page.contains(&row), "docs/audit.md lacks: {row}");
    }
}
