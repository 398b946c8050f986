//! What the answer of each function depends on, beside lists (`dependence/*.tsv`, written by
//! `scripts/fix`): a state in which a call is let through, and then one thing changed at a time, of
//! its arguments and of the tables that it and what it calls and sets off speak of: each column of all
//! rows, a copy of the rows that differs in one column, all rows gone. A condition that is left out
//! or turned changes a line, and needs no test that thought of it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

#[path = "dependence/keys.rs"]
mod keys;
#[path = "dependence/runs.rs"]
mod runs;
#[path = "dependence/stores.rs"]
mod stores;
#[path = "dependence/tried.rs"]
mod tried;
#[path = "dependence/triggers.rs"]
mod triggers;

use std::collections::{BTreeMap, BTreeSet};

use cutter_pg::testing::TestDatabase;
use tried::{Bench, Column, List, grouped, short};

const SIGNATURE: &str = "SELECT coalesce((SELECT r FROM unnest(ARRAY['cutter_exec', 'cutter_verify', 'cutter_review',
        'cutter_ro']) WITH ORDINALITY AS l(r, n) WHERE has_function_privilege(r, p.oid, 'EXECUTE') ORDER BY n LIMIT 1),
        'cutter_owner'),
    ARRAY(SELECT format_type(t, NULL) FROM unnest(p.proargtypes) WITH ORDINALITY AS a(t, n) ORDER BY n)
    FROM pg_proc p WHERE p.oid = $1::text::regproc";

/// A call with its arguments.
fn said(function: &str, arguments: &[&str], kinds: &[String]) -> String {
    let typed: Vec<String> =
        arguments.iter().zip(kinds).map(|(value, kind)| format!("({value})::{kind}")).collect();
    format!("SELECT * FROM {function}({})", typed.join(", "))
}

/// Whether a text calls a function, or reads a view.
fn says(text: &str, name: &str) -> bool {
    text.match_indices(name).any(|(at, _)| {
        let next = text[at + name.len()..].chars().next();
        !next.is_some_and(|c| c.is_ascii_alphanumeric() || c == '_')
    })
}

/// A function of ours, and the tables whose triggers call it; or a view.
struct Function {
    name: String,
    text: String,
    fired_by: Vec<String>,
}

const FUNCTIONS: &str =
    "SELECT n.nspname || '.' || p.proname, p.prosrc, ARRAY(SELECT t.tgrelid::regclass::text
        FROM pg_trigger t WHERE t.tgfoid = p.oid AND p.proname <> 'fn_append_only')
    FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
    WHERE pg_get_userbyid(p.proowner) = 'cutter_owner'
    UNION ALL SELECT c.oid::regclass::text, pg_get_viewdef(c.oid), '{}' FROM pg_class c
    WHERE c.relkind = 'v' AND pg_get_userbyid(c.relowner) = 'cutter_owner' ORDER BY 1";

/// The calls of one list.
struct Calls {
    bench: Bench,
    functions: Vec<Function>,
    list: List,
}

impl Calls {
    fn of(database: &TestDatabase, list: &str) -> Self {
        let mut list = List::of(list);
        list.say("# What each answer depends on. Written by scripts/fix.");
        let mut bench = Bench::of(database);
        let rows = bench.admin.query(FUNCTIONS, &[]).unwrap();
        let function =
            |row: postgres::Row| Function { name: row.get(0), text: row.get(1), fired_by: row.get(2) };
        Self { functions: rows.into_iter().map(function).collect(), bench, list }
    }

    /// One value, as SQL.
    fn literal(&mut self, sql: &str) -> String {
        let sql = format!("SELECT quote_nullable(({sql})::text)");
        self.bench.admin.query_one(&sql, &[]).unwrap_or_else(|error| panic!("{sql}: {error:?}")).get(0)
    }

    /// A function with its arguments in SQL.
    fn call(&mut self, function: &str, arguments: &[&str]) {
        self.call_after("", function, arguments);
    }

    /// The same in a state that differs by this.
    fn call_after(&mut self, before: &str, function: &str, arguments: &[&str]) {
        let (login, kinds) = self.signature(function, arguments);
        let mut others = Vec::new();
        for (n, kind) in kinds.iter().enumerate() {
            let value = format!("({})::{kind}", arguments[n]);
            let bounds = [("none", "0"), ("much", "99999999")].map(|(how, n)| (how.to_owned(), n.to_owned()));
            let bounds = bounds.into_iter().filter(|_| ["bigint", "integer"].contains(&kind.as_str()));
            for (how, other) in Column::of(&value, kind).others().into_iter().chain(bounds) {
                let mut changed = arguments.to_vec();
                changed[n] = &other;
                others.push((format!("{}={how}", n + 1), said(function, &changed, &kinds)));
            }
        }
        self.tried(&login, before, function, &said(function, arguments, &kinds), &others);
    }

    /// What comes of it alone.
    fn outcome_after(&mut self, before: &str, function: &str, arguments: &[&str]) {
        let (login, kinds) = self.signature(function, arguments);
        let call = (before.to_owned(), said(function, arguments, &kinds));
        let outcome = self.bench.tried(&login, &[call]).remove(0);
        self.list.say(&format!("{function}\t{}", short(&outcome)));
    }

    /// Who may call a function, and the types of its arguments.
    fn signature(&mut self, function: &str, arguments: &[&str]) -> (String, Vec<String>) {
        let row = self
            .bench
            .admin
            .query_one(SIGNATURE, &[&function])
            .unwrap_or_else(|error| panic!("{function}: {error:?}"));
        let kinds: Vec<String> = row.get(1);
        assert_eq!(kinds.len(), arguments.len(), "{function}");
        (row.get(0), kinds)
    }

    /// The rows of a table once more, and everything that they set off.
    fn again(&mut self, table: &str) {
        let names: Vec<&str> = self.bench.tables[table].iter().map(|column| column.name.as_str()).collect();
        let names = names.join(", ");
        let rows = self.literal(&format!("SELECT jsonb_agg(to_jsonb(t)) FROM {table} t"));
        let insert = format!(
            "INSERT INTO {table} ({names}) OVERRIDING SYSTEM VALUE
             SELECT {names} FROM jsonb_populate_recordset(NULL::{table}, {rows})"
        );
        self.tried("cutter_admin", &format!("DELETE FROM {table}"), &format!("insert {table}"), &insert, &[]);
    }

    /// Every view.
    fn views(&mut self) {
        let views: Vec<String> =
            self.functions.iter().filter(|f| f.name.contains(".v_")).map(|f| f.name.clone()).collect();
        for view in views {
            self.tried("cutter_ro", "", &view, &format!("SELECT * FROM {view}"), &[]);
        }
    }

    /// An entry's step once more.
    fn step(&mut self, from: &str, to: &str) {
        let table = "cutter_governance.decision_backlog_entry";
        let (before, step) =
            (format!("UPDATE {table} SET status = '{from}'"), format!("UPDATE {table} SET status = '{to}'"));
        self.tried("cutter_admin", &before, &format!("{from} {to}"), &step, &[]);
    }

    fn tried(&mut self, login: &str, before: &str, name: &str, call: &str, others: &[(String, String)]) {
        let spoken_of = self.spoken_of(call);
        let is_changed = |table: &&String| before.contains(table.as_str());
        let kept: Vec<String> = self.bench.tables.keys().filter(is_changed).cloned().collect();
        self.bench.keep(&kept);
        self.bench.now(before);
        let pairs = |call: &str| (String::new(), call.to_owned());
        let clean = [0, 3].map(|milliseconds| {
            // what tells of the time is another then
            std::thread::sleep(std::time::Duration::from_millis(milliseconds));
            self.bench.tried(login, &[pairs(call)]).remove(0)
        });
        let is_same = clean[0] == clean[1];
        let told = |outcome: &str| if is_same { outcome.to_owned() } else { short(outcome) };
        self.list.say(&format!("{name}\t{}", short(&clean[0])));
        let held = self.bench.held(login, &spoken_of, call);
        if !held.is_empty() {
            self.list.say(&format!("\tlocks\t{}", held.join(" ")));
        }
        let calls: Vec<(String, String)> = others.iter().map(|(_, call)| pairs(call)).collect();
        let names: Vec<String> = others.iter().map(|(name, _)| name.clone()).collect();
        let mut all = vec![("arguments".to_owned(), names, self.bench.tried(login, &calls))];
        for (table, columns) in spoken_of {
            let (names, changes): (Vec<String>, Vec<String>) =
                self.bench.changes(&table, &columns).into_iter().unzip();
            let outcomes = self.bench.changed(login, &table, &changes, call);
            all.push((table, names, outcomes));
        }
        for (about, names, outcomes) in all {
            let outcomes = outcomes
                .into_iter()
                .map(|outcome| if told(&outcome) == told(&clean[0]) { "same".to_owned() } else { outcome });
            for (outcome, names) in grouped(names.into_iter().zip(outcomes)) {
                if !["same", "unspoilt"].contains(&outcome.as_str()) {
                    self.list.say(&format!("\t{about}\t{outcome}\t{names}"));
                }
            }
        }
        self.bench.put_back(&kept);
    }

    /// The tables, and of each the columns, that a call speaks of: its own text and those of the functions that it
    /// calls, and of the triggers of what these write.
    fn spoken_of(&self, call: &str) -> BTreeMap<String, BTreeSet<String>> {
        let (mut texts, mut new) = (BTreeSet::new(), vec![call.to_owned()]);
        for _ in 0..3 {
            let mut next = Vec::new();
            for text in new {
                let writes = |table: &str| {
                    ["INSERT INTO", "UPDATE"].iter().any(|word| text.contains(&format!("{word} {table} ")))
                };
                let fired = self.functions.iter().filter(|f| f.fired_by.iter().any(|table| writes(table)));
                let called = self.functions.iter().filter(|f| says(&text, &f.name));
                // a survey looks at everything, and has a line of its own
                let called = called.filter(|f| !f.name.contains(".fn_survey") || text == call);
                next.extend(fired.chain(called).map(|f| f.text.clone()));
                texts.insert(text);
            }
            new = next;
        }
        texts.extend(new);
        let mut found = BTreeMap::<String, BTreeSet<String>>::new();
        for text in texts {
            let words: BTreeSet<&str> =
                text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_' && c != '.').collect();
            let last: BTreeSet<&str> = words.iter().filter_map(|word| word.rsplit('.').next()).collect();
            for (table, columns) in &self.bench.tables {
                if words.contains(table.as_str()) {
                    let of =
                        columns.iter().map(|c| c.name.clone()).filter(|name| last.contains(name.as_str()));
                    found.entry(table.clone()).or_default().extend(of);
                }
            }
        }
        found
    }
}
