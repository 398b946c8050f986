//! What each key says alone, beside lists (`keys.tsv`, `uniques.tsv`, written by `scripts/fix`): a
//! foreign key to a row that refers to nothing, a unique one to the same twice, wherever it holds. A
//! key that is gone, or holds elsewhere, changes a line.

use super::tried::{Bench, Column, List, short, without_keys};
use cutter_pg::testing::TestServer;

/// Another value than the made-up one.
fn another(column: &Column) -> &'static str {
    match column.value() {
        "'x'" => "'y'",
        "1" => "2",
        "true" => "false",
        "'2026-01-01'" => "'2026-01-02'",
        _ => "'00000000-0000-4000-8000-000000000001'",
    }
}

/// Takes every key off a table but one of that name, and turns its triggers off.
fn alone(table: &str, key: &str) -> String {
    format!(
        "{}; {}; DO $$ DECLARE s text; BEGIN
            FOR s IN SELECT format('ALTER TABLE %s DROP CONSTRAINT %I CASCADE', k.conrelid::regclass, k.conname)
                FROM pg_constraint k WHERE k.contype IN ('p', 'u') AND k.conrelid = '{table}'::regclass
                    AND k.conname <> '{key}' LOOP
                EXECUTE s;
            END LOOP;
            FOR s IN SELECT format('DROP INDEX %s', i.indexrelid::regclass) FROM pg_index i
                JOIN pg_class c ON c.oid = i.indexrelid
                WHERE i.indisunique AND i.indrelid = '{table}'::regclass AND c.relname <> '{key}' LOOP
                EXECUTE s;
            END LOOP; END $$; ALTER TABLE {table} DISABLE TRIGGER USER",
        without_keys("confrelid", table),
        without_keys("conrelid", table)
    )
}

#[test]
fn each_unique_key_refuses_the_same_twice_where_it_holds() {
    let database = TestServer::shared().fresh_database();
    let mut bench = Bench::of(&database);
    let keys = "SELECT i.indrelid::regclass::text, c.relname::text, coalesce(pg_get_expr(i.indpred, i.indrelid), ''),
            ARRAY(SELECT a.attname::text FROM unnest(i.indkey) WITH ORDINALITY AS k(n, place)
                JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.n ORDER BY place)
        FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_class t ON t.oid = i.indrelid
        WHERE i.indisunique AND NOT i.indisprimary AND NOT t.relispartition
            AND pg_get_userbyid(c.relowner) = 'cutter_owner' ORDER BY 1, 2";
    let keys: Vec<(String, String, String, Vec<String>)> = bench
        .admin
        .query(keys, &[])
        .unwrap()
        .iter()
        .map(|row| (row.get(0), row.get(1), row.get(2), row.get(3)))
        .collect();
    let mut list = List::of("uniques.tsv");
    list.say("# What each unique key says alone to the same twice, and which column tells apart. Written by scripts/fix.");
    for (table, key, holds, of) in keys {
        let columns = bench.tables[&table].clone();
        let names: Vec<&str> = columns.iter().map(|c| c.name.as_str()).collect();
        let full = |c: &Column| c.value().to_owned();
        let insert = |value: &dyn Fn(&Column) -> String| {
            let values: Vec<String> = columns.iter().map(value).collect();
            format!(
                "INSERT INTO {table} ({}) OVERRIDING SYSTEM VALUE VALUES ({})",
                names.join(", "),
                values.join(", ")
            )
        };
        // where it holds depends on these
        let mut rows = vec![("full".to_owned(), insert(&full))];
        let said =
            |name: &str| holds.split(|c: char| !c.is_alphanumeric() && c != '_').any(|word| word == name);
        for column in columns.iter().filter(|c| said(&c.name)) {
            let others = column.words.iter().map(|word| format!("'{word}'"));
            for other in others.chain(["NULL".to_owned(), another(column).to_owned()]) {
                let value = |c: &Column| if c.name == column.name { other.clone() } else { full(c) };
                rows.push((format!("{}={}", column.name, other.trim_matches('\'')), insert(&value)));
            }
        }
        // generated, and not there to be set
        if said("live") && !names.contains(&"live") {
            let voided =
                |c: &Column| if c.name == "lifecycle_status" { "'voided'".to_owned() } else { full(c) };
            rows.push(("voided".to_owned(), insert(&voided)));
        }
        let mut calls: Vec<(String, String)> =
            rows.iter().map(|(_, row)| (format!("{}; {row}", alone(&table, &key)), row.clone())).collect();
        for name in &of {
            let apart = |c: &Column| if c.name == *name { another(c).to_owned() } else { full(c) };
            calls.push((calls[0].0.clone(), insert(&apart)));
        }
        let outcomes = bench.tried("cutter_admin", &calls);
        let told: Vec<&str> = outcomes[rows.len()..]
            .iter()
            .zip(&of)
            .filter_map(|(outcome, name)| outcome.is_empty().then_some(name.as_str()))
            .collect();
        for ((row, _), outcome) in rows.iter().zip(&outcomes) {
            list.say(&format!("{table}\t{key}\t{row}\t{}\t{}", short(outcome), told.join(" ")));
        }
    }
    list.end();
}

#[test]
fn each_foreign_key_refuses_a_row_that_refers_to_nothing() {
    let database = TestServer::shared().fresh_database();
    let mut bench = Bench::of(&database);
    let keys =
        "SELECT conrelid::regclass::text, conname::text, ARRAY(SELECT a.attname::text FROM pg_attribute a
            WHERE a.attrelid = conrelid AND a.attnum = ANY (conkey)) FROM pg_constraint
        WHERE contype = 'f' AND conparentid = 0 AND connamespace <> 'pg_catalog'::regnamespace ORDER BY 1, 2";
    let keys: Vec<(String, String, Vec<String>)> = bench
        .admin
        .query(keys, &[])
        .unwrap()
        .iter()
        .map(|row| (row.get(0), row.get(1), row.get(2)))
        .collect();
    let mut list = List::of("keys.tsv");
    list.say("# What each foreign key says alone to a row that refers to nothing. Written by scripts/fix.");
    for (table, key, refers) in keys {
        let columns = &bench.tables[&table];
        let names: Vec<&str> = columns.iter().map(|c| c.name.as_str()).collect();
        // nor to itself
        let value = |c: &Column| if refers.contains(&c.name) { another(c) } else { c.value() };
        let values: Vec<&str> = columns.iter().map(value).collect();
        let alone = without_keys(&format!("conname <> '{key}' AND conrelid"), &table);
        let alone = format!("{alone}; ALTER TABLE {table} DISABLE TRIGGER USER");
        let insert = format!(
            "INSERT INTO {table} ({}) OVERRIDING SYSTEM VALUE VALUES ({})",
            names.join(", "),
            values.join(", ")
        );
        let outcome = bench.tried("cutter_admin", &[(alone, insert)]).remove(0);
        list.say(&format!("{table}\t{key}\t{}", short(&outcome)));
    }
    list.end();
}
