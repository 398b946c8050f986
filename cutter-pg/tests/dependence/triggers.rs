//! What each table says to an insert, to the update of each column, to a removal and to being
//! emptied, beside a list (`triggers.tsv`, written by `scripts/fix`): by an administrator, with one
//! row made up of values that mean nothing, in each status that the table has a word for. A trigger
//! that is gone, or fires less, changes a line.

use super::tried::{Bench, Column, List, grouped, without_keys};
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
