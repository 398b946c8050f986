//! What each CHECK lets in and what it refuses, tried value by value at its bounds, beside a list
//! (`checks.tsv`, written by `scripts/fix`): a check that is gone, or lets in more, changes a line.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeSet;
use std::fmt::Write as _;

use cutter_pg::login::Login;
use cutter_pg::testing::TestServer;
use postgres::Client;

/// The most rows that are tried for one check.
const ROWS_MAX: usize = 3000;

/// Tries one row on a copy of a table that has its checks and nothing else: which check refuses it.
const TRIED: &str = "CREATE FUNCTION pg_temp.tried(p_table text, p_columns text, p_values text) RETURNS text
    LANGUAGE plpgsql AS $$
    DECLARE
        v_check text;
    BEGIN
        EXECUTE format('INSERT INTO %s (%s) SELECT %s', p_table, p_columns, p_values);
        RETURN '';
    EXCEPTION WHEN check_violation THEN
        GET STACKED DIAGNOSTICS v_check = CONSTRAINT_NAME;
        RETURN v_check;
    WHEN data_exception THEN
        -- a text that is no JSON, where a check reads it so
        RETURN SQLSTATE;
    END $$";

struct Check {
    table: String,
    name: String,
    definition: String,
    /// Name and type.
    columns: Vec<(String, String)>,
}

fn checks(client: &mut Client) -> Vec<Check> {
    let rows = client
        .query(
            "SELECT k.conrelid::regclass::text, k.conname::text, pg_get_constraintdef(k.oid),
                array(SELECT a.attname::text FROM unnest(k.conkey) WITH ORDINALITY c(n, o)
                    JOIN pg_attribute a ON a.attrelid = k.conrelid AND a.attnum = c.n ORDER BY c.o),
                array(SELECT format_type(a.atttypid, NULL) FROM unnest(k.conkey) WITH ORDINALITY c(n, o)
                    JOIN pg_attribute a ON a.attrelid = k.conrelid AND a.attnum = c.n ORDER BY c.o)
             FROM pg_constraint k JOIN pg_class c ON c.oid = k.conrelid
             WHERE k.contype = 'c' AND k.conparentid = 0 AND pg_get_userbyid(c.relowner) = 'cutter_owner'
             ORDER BY 1, 2",
            &[],
        )
        .unwrap();
    rows.into_iter()
        .map(|row| {
            let (names, types): (Vec<String>, Vec<String>) = (row.get(3), row.get(4));
            Check {
                table: row.get(0),
                name: row.get(1),
                definition: row.get(2),
                columns: names.into_iter().zip(types).collect(),
            }
        })
        .collect()
}

/// The quoted texts of a definition, as SQL.
fn texts(definition: &str) -> Vec<String> {
    let texts: BTreeSet<&str> = definition.split('\'').skip(1).step_by(2).collect();
    texts
        .into_iter()
        .filter(|text| !text.contains(['\\', '^', '[']))
        .map(|text| format!("'{text}'"))
        .collect()
}

/// Both sides of a text like `from>to`.
fn halves(text: &str) -> Vec<String> {
    let inside = text.trim_matches('\'');
    inside.split_once('>').map_or_else(Vec::new, |(from, to)| vec![format!("'{from}'"), format!("'{to}'")])
}

/// The whole numbers of a definition.
fn numbers(definition: &str) -> BTreeSet<u64> {
    definition.split(|c: char| !c.is_ascii_digit()).filter_map(|digits| digits.parse().ok()).collect()
}

const JSON: &str = "'{\"kind\":\"x\",\"state\":\"x\"}'";

/// What a column is tried with: at every bound that the definition names, and what is never meant.
/// Columns that are combined with others `beside` them have fewer.
fn values(definition: &str, kind: &str, beside: usize) -> Vec<String> {
    let is_alone = beside == 0;
    let is_text = ["text", "name"].contains(&kind);
    let least = if is_alone { 2 } else { 64 };
    let numbers: Vec<u64> = numbers(definition).into_iter().filter(|n| *n >= least || !is_text).collect();
    let around = |n: u64| [n.saturating_sub(1), n, n + 1, n + 2];
    let hashes = definition.contains("sha256(");
    let mut found: Vec<String> = match kind {
        "bigint" | "integer" | "smallint" => {
            let bounds = numbers.iter().copied().filter(|n| *n < 1_000_000).flat_map(around);
            bounds.chain([0, 1]).map(|n| n.to_string()).chain(["-1".to_owned()]).collect()
        }
        "boolean" => vec!["true".into(), "false".into()],
        "uuid" => vec!["gen_random_uuid()".into()],
        "date" => vec!["'2026-01-01'".into(), "'2026-01-02'".into()],
        "timestamp with time zone" if is_alone => {
            let bounds =
                ["1899-12-31Z", "1900-01-01Z", "9999-12-30Z", "9999-12-31Z", "infinity", "-infinity"];
            bounds.map(|time| format!("'{time}'")).into()
        }
        "timestamp with time zone" => {
            ["'2026-01-01T12:00Z'", "'2026-01-02T12:00Z'", "'2026-01-02T12:00:01Z'"].map(str::to_owned).into()
        }
        "jsonb" => {
            let long = |n: u64| format!("jsonb_build_object('signal', repeat('x', {n} - 14))");
            let texts = ["{}", "[]", "1", "{\"signal\":1}", "{\"run_id\":1}", "{\"other\":1}"];
            let bounds = numbers.iter().filter(|n| **n > 16).flat_map(|n| around(*n)).map(long);
            texts.map(|json| format!("'{json}'")).into_iter().chain(bounds).collect()
        }
        "bytea" => {
            let long = |n: u64| format!("convert_to(repeat('a', {n}), 'UTF8')");
            let mut all = vec!["''".to_owned(), "'x'".to_owned()];
            if hashes {
                all.extend(
                    ["'y'", "sha256('x')", "sha256(convert_to('x', 'UTF8') || '\\x0a' || 'x')"]
                        .map(str::to_owned),
                );
            } else {
                all.extend(numbers.iter().flat_map(|n| around(*n)).map(long));
            }
            all
        }
        _ => {
            let mut all = texts(definition);
            // two columns that are compared together
            let parts: Vec<String> = all.iter().flat_map(|text| halves(text)).collect();
            if !parts.is_empty() {
                all = parts;
            }
            all.extend(["x", "x/1", "xx/1"].map(|text| format!("'{text}'")));
            if is_alone {
                let never = [
                    "", " ", "X", "X-1", "X-", "-X", "1", "a.b", "a..b", "a_1", "/a", "/a/../b", "/a/.", "é",
                ];
                all.extend(never.map(|text| format!("'{text}'")));
                all.push("E'\\n'".to_owned());
                for n in &numbers {
                    all.extend(around(*n).map(|n| format!("repeat('a', {n})")));
                    all.extend(["A", "g", "-"].map(|letter| format!("repeat('{letter}', {n})")));
                }
            } else if hashes {
                all.push("encode(sha256('x'), 'hex')".to_owned());
                all.push(format!("encode(sha256(convert_to({JSON}, 'UTF8')), 'hex')"));
            } else {
                all.extend(
                    numbers.iter().flat_map(|n| [*n, n + 1]).map(|n| format!("rpad('x/1', {n}, '1')")),
                );
            }
            if definition.contains("json") || hashes {
                all.push(JSON.to_owned());
                all.extend(numbers.iter().flat_map(|n| [*n, n + 1]).map(|n| format!("rpad({JSON}, {n})")));
            }
            all
        }
    };
    if beside > 2 {
        // many columns: one value of each that the definition does not name
        found.retain(|value| !["1", "-1", "'x/1'", "'xx/1'"].contains(&value.as_str()));
    }
    found.push("NULL".to_owned());
    let mut seen = BTreeSet::new();
    found.retain(|value| seen.insert(value.clone()));
    found
}

/// Every combination, thinned evenly where there are too many.
fn rows(of: &[Vec<String>]) -> Vec<Vec<String>> {
    let mut all = vec![Vec::new()];
    for values in of {
        all = all
            .iter()
            .flat_map(|row: &Vec<String>| {
                values.iter().map(move |value| row.iter().cloned().chain([value.clone()]).collect())
            })
            .collect();
    }
    let thin = all.len().div_ceil(ROWS_MAX);
    all.into_iter().step_by(thin).collect()
}

#[test]
fn each_check_refuses_what_it_names_and_nothing_else() {
    let database = TestServer::shared().fresh_database();
    let mut client = database.client(Login::Admin);
    client.batch_execute(TRIED).unwrap();
    let mut made = String::from("# What each CHECK lets in and refuses. Written by scripts/fix.\n");
    let mut untold = Vec::new();
    for check in checks(&mut client) {
        // a copy with this check alone; what is not tried is unknown, and an unknown check lets in
        client
            .batch_execute(&format!(
                "DROP TABLE IF EXISTS pg_temp.copy;
                 CREATE TEMP TABLE copy (LIKE {} INCLUDING CONSTRAINTS);
                 DO $$ DECLARE c text; BEGIN
                     FOR c IN SELECT attname FROM pg_attribute WHERE attrelid = 'pg_temp.copy'::regclass AND attnum > 0 LOOP
                         EXECUTE format('ALTER TABLE pg_temp.copy ALTER %I DROP NOT NULL', c);
                     END LOOP;
                     FOR c IN SELECT conname FROM pg_constraint
                         WHERE conrelid = 'pg_temp.copy'::regclass AND conname <> '{}' LOOP
                         EXECUTE format('ALTER TABLE pg_temp.copy DROP CONSTRAINT %I', c);
                     END LOOP; END $$",
                check.table, check.name
            ))
            .unwrap();
        let tried: Vec<Vec<String>> = check
            .columns
            .iter()
            .map(|(_, kind)| values(&check.definition, kind, check.columns.len() - 1))
            .collect();
        let rows: Vec<String> = rows(&tried).into_iter().map(|row| row.join(", ")).collect();
        let names: Vec<&str> = check.columns.iter().map(|(name, _)| name.as_str()).collect();
        let columns = names.join(", ");
        let outcomes = client
            .query(
                "SELECT pg_temp.tried($1, $2, v) FROM unnest($3::text[]) WITH ORDINALITY AS t(v, n) ORDER BY n",
                &[&"pg_temp.copy", &columns, &rows],
            )
            .unwrap();
        let (mut holds, mut refused) = (Vec::new(), Vec::new());
        for (row, outcome) in rows.iter().zip(outcomes) {
            let outcome: String = outcome.get(0);
            if outcome.is_empty() {
                holds.push(row.as_str());
            } else if outcome == check.name {
                refused.push(row.as_str());
            }
        }
        if holds.is_empty() || refused.is_empty() {
            untold.push(format!("{} {}: {}", check.table, check.name, check.definition));
        }
        let several = names.len() > 1;
        let one = |rows: &[&str]| if several { format!("({})", rows.join(") (")) } else { rows.join(" ") };
        // of combinations those that are let in say it all
        let out = if several { format!("{} others", refused.len()) } else { one(&refused) };
        let _ = writeln!(
            made,
            "{} {} ({columns})\n    in: {}\n    out: {out}",
            check.table,
            check.name,
            one(&holds)
        );
    }
    assert!(untold.is_empty(), "no value tells these apart: {untold:#?}");
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/checks.tsv");
    if std::env::var_os("CUTTER_BLESS").is_some() {
        std::fs::write(path, made).unwrap();
        return;
    }
    let listed = std::fs::read_to_string(path).unwrap();
    for (n, (is, was)) in made.lines().zip(listed.lines()).enumerate() {
        assert_eq!(is, was, "line {}: a check lets in something else; if it should, run scripts/fix", n + 1);
    }
    assert_eq!(
        made.lines().count(),
        listed.lines().count(),
        "checks came or went; if they should, run scripts/fix"
    );
}
