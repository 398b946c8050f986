//! What each table says to an insert, to the update of each column, to a removal and to being
//! emptied, beside a list (`triggers.tsv`, written by `scripts/fix`): by an administrator, with one
//! row made up of values that mean nothing, in each status that the table has a word for. A trigger
//! that is gone, or fires less, changes a line.

use super::tried::{Bench, Column, List, grouped, short};
use cutter_pg::testing::TestServer;

/// A made-up row in a database: which one it is, and its values in SQL.
fn rows(columns: &[Column]) -> Vec<(String, Vec<String>)> {
    let values = |other: &dyn Fn(&Column) -> Option<String>| -> Vec<String> {
        columns.iter().map(|c| other(c).unwrap_or_else(|| c.value().to_owned())).collect()
    };
    let bare = |c: &Column| c.may_be_null.then(|| "NULL".to_owned());
    let mut found = vec![("full".to_owned(), values(&|_| None)), ("bare".to_owned(), values(&bare))];
    for column in columns {
        for word in &column.words {
            let is = |c: &Column| (c.name == column.name).then(|| format!("'{word}'"));
            found.push((format!("{}={word}", column.name), values(&|c| is(c).or_else(|| bare(c)))));
        }
    }
    found
}

/// Takes the foreign keys off a table, or those that refer to it.
fn without_keys(side: &str, table: &str) -> String {
    format!(
        "DO $$ DECLARE s text; BEGIN FOR s IN SELECT format('ALTER TABLE %s DROP CONSTRAINT %I', conrelid::regclass,
            conname) FROM pg_constraint WHERE contype = 'f' AND conparentid = 0 AND {side} = '{table}'::regclass LOOP
            EXECUTE s; END LOOP; END $$"
    )
}

#[test]
fn each_table_refuses_what_its_triggers_forbid() {
    let database = TestServer::shared().fresh_database();
    let mut bench = Bench::of(&database);
    let mut list = List::of("triggers.tsv");
    list.say("# What each table says to a change of a row. Written by scripts/fix.");
    for (table, columns) in bench.tables.clone() {
        let names: Vec<&str> = columns.iter().map(|c| c.name.as_str()).collect();
        for (row, values) in rows(&columns) {
            let insert = format!(
                "INSERT INTO {table} ({}) OVERRIDING SYSTEM VALUE VALUES ({})",
                names.join(", "),
                values.join(", ")
            );
            let mut ops = vec![
                ("insert".to_owned(), String::new(), insert.clone()),
                ("delete".to_owned(), insert.clone(), format!("DELETE FROM {table}")),
            ];
            if row == "full" {
                // what refers to it would be emptied with it, and refuse first
                let free = without_keys("confrelid", &table);
                ops.push(("empty".to_owned(), free, format!("TRUNCATE {table}")));
            }
            for column in &columns {
                for (how, value) in column.others() {
                    let update = format!("UPDATE {table} SET {} = {value}", column.name);
                    ops.push((format!("{}={how}", column.name), insert.clone(), update.clone()));
                    // the one move that is looked at less
                    if table == "cutter_governance.decision_backlog_entry" && column.name != "status" {
                        let swept = format!("{update}, status = 'review_pending'");
                        ops.push((format!("swept-{}={how}", column.name), insert.clone(), swept));
                    }
                }
            }
            let (names, pairs): (Vec<String>, Vec<(String, String)>) =
                ops.into_iter().map(|(name, before, op)| (name, (before, op))).unzip();
            let mut outcomes = bench.tried("cutter_admin", &pairs);
            // a foreign key refuses first: what would the rest say?
            let behind: Vec<usize> = (0..outcomes.len()).filter(|n| outcomes[*n] == "23503").collect();
            let free = without_keys("conrelid", &table);
            let again: Vec<(String, String)> =
                behind.iter().map(|n| (format!("{}; {free}", pairs[*n].0), pairs[*n].1.clone())).collect();
            for (n, outcome) in behind.into_iter().zip(bench.tried("cutter_admin", &again)) {
                outcomes[n] = format!("23503 {outcome}");
            }
            for (outcome, names) in grouped(names.into_iter().zip(outcomes)) {
                list.say(&format!("{table}\t{row}\t{outcome}\t{names}"));
            }
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
        let value = |c: &Column| match c.value() {
            value if !refers.contains(&c.name) => value,
            "'x'" => "'y'",
            "1" => "2",
            _ => "'00000000-0000-4000-8000-000000000001'",
        };
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
