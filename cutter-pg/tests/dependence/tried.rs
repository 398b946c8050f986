//! Changes one thing of a database, by a superuser with triggers off, calls something, and says what
//! comes of it. Nothing is kept.

use std::collections::{BTreeMap, BTreeSet};

use cutter_pg::login::Login;
use cutter_pg::testing::TestDatabase;
use postgres::Client;

/// The outcome of a call after a change: a SQLSTATE, or the rows.
const TRIED: &str = "CREATE FUNCTION pg_temp.tried(p_login text, p_spoil text, p_call text) RETURNS text
    LANGUAGE plpgsql AS $$
    DECLARE
        v_rows text := '';
    BEGIN
        IF p_spoil <> '' THEN
            PERFORM set_config('session_replication_role', 'replica', true);
            EXECUTE p_spoil;
            PERFORM set_config('session_replication_role', 'origin', true);
        END IF;
        PERFORM set_config('session_authorization', p_login, true);
        IF p_call LIKE 'SELECT %' THEN
            EXECUTE 'SELECT count(*) || '' rows '' || coalesce(string_agg(t::text, E''\\n'' ORDER BY t::text), '''')
                FROM (' || p_call || ') t' INTO v_rows;
        ELSE
            EXECUTE p_call;
        END IF;
        SET CONSTRAINTS ALL IMMEDIATE;
        RAISE EXCEPTION USING ERRCODE = 'ZZ000', MESSAGE = v_rows;
    EXCEPTION WHEN OTHERS THEN
        RETURN CASE SQLSTATE WHEN 'ZZ000' THEN SQLERRM ELSE SQLSTATE END;
    END $$";

/// A survey of the catalogue takes long, and nothing is changed there.
const NO_CATALOGUE: &str = "
    CREATE OR REPLACE FUNCTION cutter_governance.fn_catalogue(p_kind text) RETURNS TABLE(name text, value text)
        LANGUAGE sql AS $$ SELECT 'x', p_kind $$;
    CREATE OR REPLACE FUNCTION cutter_governance.fn_catalogue_stamp() RETURNS text LANGUAGE sql AS $$ SELECT 'x' $$;
    CREATE OR REPLACE FUNCTION cutter_governance.fn_grant_digest() RETURNS text LANGUAGE sql AS $$ SELECT 'x' $$;";

/// A column of a table of ours.
#[derive(Debug, Clone)]
pub(super) struct Column {
    pub(super) name: String,
    kind: String,
    is_key: bool,
    pub(super) may_be_null: bool,
    /// The texts that its checks name.
    pub(super) words: Vec<String>,
}

impl Column {
    /// A value that stands in a call, and no column.
    pub(super) fn of(value: &str, kind: &str) -> Self {
        Self {
            name: value.to_owned(),
            kind: kind.to_owned(),
            is_key: false,
            may_be_null: true,
            words: Vec::new(),
        }
    }

    /// A value of its type.
    pub(super) fn value(&self) -> &'static str {
        match self.kind.as_str() {
            "uuid" => "'00000000-0000-4000-8000-000000000000'",
            "bigint" | "integer" | "smallint" => "1",
            "boolean" => "true",
            "date" | "timestamp with time zone" => "'2026-01-01'",
            "jsonb" => "'{\"run_id\":\"x\"}'",
            kind if kind.ends_with("[]") => "'{}'",
            _ => "'x'",
        }
    }

    /// Other values than the one that is there, each with a name.
    pub(super) fn others(&self) -> Vec<(String, String)> {
        let c = &self.name;
        let list = |all: &[(&str, String)]| {
            all.iter().map(|(name, sql)| ((*name).to_owned(), sql.clone())).collect::<Vec<_>>()
        };
        let mut found = match self.kind.as_str() {
            "text" | "name" => list(&[("other", format!("coalesce({c}, '') || 'x'"))]),
            "uuid" => list(&[("other", "'00000000-0000-4000-8000-000000000001'::uuid".to_owned())]),
            "bigint" | "integer" | "smallint" | "date" => {
                // of a key no row becomes another's on the way
                let step = if self.is_key { 1000 } else { 1 };
                list(&[("more", format!("{c} + {step}")), ("less", format!("{c} - {step}"))])
            }
            "boolean" => list(&[("not", format!("NOT coalesce({c}, false)"))]),
            "timestamp with time zone" => {
                list(&[("late", "'2100-01-01Z'".to_owned()), ("early", "'2000-01-01Z'".to_owned())])
            }
            "bytea" => list(&[("other", format!("coalesce({c}, '') || 'x'"))]),
            "jsonb" => {
                let full = r#"'{"run_id":"x","depends_on":["00000000-0000-4000-8000-000000000001"]}'"#;
                list(&[("empty", "'{}'".to_owned()), ("full", full.to_owned())])
            }
            _ => Vec::new(),
        };
        found.extend(self.words.iter().map(|word| (word.clone(), format!("'{word}'"))));
        found.push(("null".to_owned(), "NULL".to_owned()));
        found
    }
}

/// A database whose tables hold whatever is put into them: without checks, and nothing must be there.
pub(super) struct Bench {
    pub(super) admin: Client,
    /// One whose triggers are off.
    changer: Client,
    pub(super) tables: BTreeMap<String, Vec<Column>>,
}

impl Bench {
    pub(super) fn of(database: &TestDatabase) -> Self {
        let mut admin = database.client(Login::Admin);
        let mut changer = database.client(Login::Admin);
        changer
            .batch_execute("SET search_path = pg_catalog, pg_temp; SET session_replication_role = replica")
            .unwrap();
        admin.batch_execute("SET search_path = pg_catalog, pg_temp").unwrap();
        let rows = admin
            .query(
                "SELECT c.oid::regclass::text, a.attname::text, format_type(a.atttypid, NULL),
                    EXISTS (SELECT FROM pg_index i WHERE i.indrelid = c.oid AND i.indisprimary AND a.attnum = ANY (i.indkey)),
                    coalesce((SELECT string_agg(pg_get_constraintdef(k.oid), ' ') FROM pg_constraint k
                        WHERE k.conrelid = c.oid AND k.contype = 'c' AND k.conkey = ARRAY[a.attnum]), ''),
                    NOT a.attnotnull
                 FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
                 WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition AND pg_get_userbyid(c.relowner) = 'cutter_owner'
                    AND a.attgenerated = ''
                 ORDER BY 1, a.attnum",
                &[],
            )
            .unwrap();
        let mut tables = BTreeMap::<String, Vec<Column>>::new();
        for row in rows {
            let checks: String = row.get(4);
            let words: BTreeSet<&str> =
                checks.split('\'').skip(1).step_by(2).filter(|word| is_word(word)).collect();
            tables.entry(row.get(0)).or_default().push(Column {
                name: row.get(1),
                kind: row.get(2),
                is_key: row.get(3),
                may_be_null: row.get(5),
                words: words.into_iter().map(str::to_owned).collect(),
            });
        }
        admin
            .batch_execute(
                "DO $$ DECLARE s text; BEGIN
                    FOR s IN SELECT format('ALTER TABLE %s DROP CONSTRAINT %I', k.conrelid::regclass, k.conname)
                        FROM pg_constraint k JOIN pg_class c ON c.oid = k.conrelid
                        WHERE k.contype = 'c' AND k.conparentid = 0 AND k.conislocal
                            AND pg_get_userbyid(c.relowner) = 'cutter_owner' LOOP
                        EXECUTE s;
                    END LOOP;
                    FOR s IN SELECT format('ALTER TABLE %s ALTER %I DROP NOT NULL', c.oid::regclass, a.attname)
                        FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND a.attnotnull
                        WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition AND a.attidentity = ''
                            AND pg_get_userbyid(c.relowner) = 'cutter_owner'
                            AND NOT EXISTS (SELECT FROM pg_index i WHERE i.indrelid = c.oid AND i.indisprimary
                                AND a.attnum = ANY (i.indkey)) LOOP
                        EXECUTE s;
                    END LOOP; END $$",
            )
            .unwrap();
        admin.batch_execute(TRIED).unwrap();
        admin.batch_execute(NO_CATALOGUE).unwrap();
        Self { admin, changer, tables }
    }

    /// The outcome of each call after its change.
    pub(super) fn tried(&mut self, login: &str, all: &[(String, String)]) -> Vec<String> {
        let (spoils, calls): (Vec<&str>, Vec<&str>) =
            all.iter().map(|(spoil, call)| (spoil.as_str(), call.as_str())).unzip();
        let rows = self
            .admin
            .query(
                "SELECT pg_temp.tried($1, s, c) FROM unnest($2::text[], $3::text[]) WITH ORDINALITY AS t(s, c, n)
                 ORDER BY n",
                &[&login, &spoils, &calls],
            )
            .unwrap_or_else(|error| panic!("{all:?}: {error:?}"));
        rows.iter().map(|row| row.get(0)).collect()
    }

    /// Every change of one column of all rows of a table, and of a copy beside each, by a name.
    pub(super) fn changes(&self, table: &str, columns: &BTreeSet<String>) -> Vec<(String, String)> {
        let all = &self.tables[table];
        let names: Vec<&str> = all.iter().map(|column| column.name.as_str()).collect();
        let mut found = vec![("gone".to_owned(), format!("DELETE FROM {table}"))];
        for column in all.iter().filter(|column| columns.contains(&column.name)) {
            let is_free = |other: &Column| other.is_key && other.kind == "uuid" && other.name != column.name;
            for (n, (how, value)) in column.others().into_iter().enumerate() {
                found.push((
                    format!("{}={how}", column.name),
                    format!("UPDATE {table} SET {} = {value}", column.name),
                ));
                if n > 0 {
                    continue;
                }
                let copied: Vec<&str> = all
                    .iter()
                    .map(|other| match other {
                        other if other.name == column.name => value.as_str(),
                        other if is_free(other) => "gen_random_uuid()",
                        other => other.name.as_str(),
                    })
                    .collect();
                let (names, copied) = (names.join(", "), copied.join(", "));
                found.push((
                    format!("+{}", column.name),
                    format!(
                        "INSERT INTO {table} ({names}) OVERRIDING SYSTEM VALUE SELECT {copied} FROM {table}"
                    ),
                ));
            }
        }
        found
    }

    /// The outcome of a call after each of these changes of a table, which is then as it was. Another session
    /// changes: one that turns triggers off and on would plan everything anew each time.
    pub(super) fn changed(
        &mut self,
        login: &str,
        table: &str,
        changes: &[String],
        call: &str,
    ) -> Vec<String> {
        let (keep, back) = self.kept("changed", table);
        self.now(&keep);
        let mut outcomes = Vec::new();
        for change in changes {
            let outcome = match self.changer.batch_execute(change) {
                Ok(()) => self.tried(login, &[(String::new(), call.to_owned())]).remove(0),
                Err(_) => "unspoilt".to_owned(),
            };
            outcomes.push(outcome);
            self.changer.batch_execute(&back).unwrap();
        }
        self.now("DROP TABLE pg_temp.changed");
        outcomes
    }

    /// The tables of which a call leaves a row locked as it was, and the locks of numbers that it holds.
    pub(super) fn held(
        &mut self,
        login: &str,
        tables: &BTreeMap<String, BTreeSet<String>>,
        call: &str,
    ) -> Vec<String> {
        let begin =
            format!("BEGIN; SET LOCAL SESSION AUTHORIZATION {login}; {call}; RESET SESSION AUTHORIZATION");
        let mut held = Vec::new();
        if self.admin.batch_execute(&begin).is_ok() {
            for table in tables.keys() {
                let sql = format!(
                    "SELECT EXISTS (SELECT FROM {table} WHERE xmax::text = pg_current_xact_id()::xid::text)"
                );
                if self.admin.query_one(&sql, &[]).unwrap().get(0) {
                    held.push(table.clone());
                }
            }
            let numbers =
                "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()";
            let numbers: i64 = self.admin.query_one(numbers, &[]).unwrap().get(0);
            held.extend((0..numbers).map(|_| "number".to_owned()));
        }
        self.admin.batch_execute("ROLLBACK").unwrap();
        held
    }

    /// How a table is kept under a name, and put back.
    fn kept(&self, name: &str, table: &str) -> (String, String) {
        let columns: Vec<&str> = self.tables[table].iter().map(|column| column.name.as_str()).collect();
        let columns = columns.join(", ");
        (
            format!("CREATE TEMP TABLE {name} AS SELECT {columns} FROM {table}"),
            format!(
                "DELETE FROM {table}; INSERT INTO {table} ({columns}) OVERRIDING SYSTEM VALUE SELECT {columns}
                 FROM pg_temp.{name}"
            ),
        )
    }

    /// Keeps some tables as they are.
    pub(super) fn keep(&mut self, tables: &[String]) {
        for (n, table) in tables.iter().enumerate() {
            let (keep, _) = self.kept(&format!("kept{n}"), table);
            self.now(&keep);
        }
    }

    /// Puts back what was kept.
    pub(super) fn put_back(&mut self, tables: &[String]) {
        for (n, table) in tables.iter().enumerate() {
            let (_, back) = self.kept(&format!("kept{n}"), table);
            self.now(&format!("{back}; DROP TABLE pg_temp.kept{n}"));
        }
    }

    /// Changes a state for good.
    pub(super) fn now(&mut self, sql: &str) {
        self.changer.batch_execute(sql).unwrap_or_else(|error| panic!("{sql}: {error:?}"));
    }
}

/// Takes the foreign keys off a table, or those that refer to it.
pub(super) fn without_keys(side: &str, table: &str) -> String {
    format!(
        "DO $$ DECLARE s text; BEGIN FOR s IN SELECT format('ALTER TABLE %s DROP CONSTRAINT %I', conrelid::regclass,
            conname) FROM pg_constraint WHERE contype = 'f' AND conparentid = 0 AND {side} = '{table}'::regclass LOOP
            EXECUTE s; END LOOP; END $$"
    )
}

fn is_word(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_lowercase() || c == '_' || c.is_ascii_digit())
}

/// An outcome without what differs from run to run.
pub(super) fn short(outcome: &str) -> String {
    let is_plain = |text: &str| text.chars().all(|c| c.is_ascii_alphanumeric() || "()_ ".contains(c));
    match outcome.split_once('\n') {
        None if outcome.is_empty() => "let in".to_owned(),
        None if outcome.len() <= 40 && is_plain(outcome) => outcome.to_owned(),
        _ => outcome.split_whitespace().take(2).collect::<Vec<_>>().join(" "),
    }
}

/// What came of each change, by the outcome; a column once if all its changes came to the same.
pub(super) fn grouped(all: impl Iterator<Item = (String, String)>) -> BTreeMap<String, String> {
    let all: Vec<(String, String)> = all.map(|(name, outcome)| (name, short(&outcome))).collect();
    let column = |name: &str| name.split_once('=').map_or(name, |(column, _)| column).to_owned();
    let mut columns = BTreeMap::<String, BTreeSet<&str>>::new();
    for (name, outcome) in &all {
        columns.entry(column(name)).or_default().insert(outcome);
    }
    let mut found = BTreeMap::<String, Vec<String>>::new();
    for (name, outcome) in &all {
        let name = if columns[&column(name)].len() == 1 { column(name) } else { name.clone() };
        let names = found.entry(outcome.clone()).or_default();
        if names.last() != Some(&name) {
            names.push(name);
        }
    }
    found.into_iter().map(|(outcome, names)| (outcome, names.join(" "))).collect()
}

/// A list beside the tests, which is compared line by line, or written.
pub(super) struct List {
    path: String,
    made: String,
    listed: Option<std::vec::IntoIter<String>>,
}

impl List {
    pub(super) fn of(name: &str) -> Self {
        let path = format!("{}/tests/dependence/{name}", env!("CARGO_MANIFEST_DIR"));
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        let lines: Vec<String> = text.lines().map(str::to_owned).collect();
        let listed = std::env::var_os("CUTTER_BLESS").is_none().then(|| lines.into_iter());
        Self { path, made: String::new(), listed }
    }

    pub(super) fn say(&mut self, line: &str) {
        if let Some(listed) = &mut self.listed {
            let was = listed.next().unwrap_or_default();
            assert_eq!(line, was, "{}: something else comes of it; if it should, run scripts/fix", self.path);
        }
        self.made.push_str(line);
        self.made.push('\n');
    }

    pub(super) fn end(self) {
        match self.listed {
            Some(mut left) => {
                assert_eq!(left.next(), None, "{}: if lines should go, run scripts/fix", self.path)
            }
            None => std::fs::write(&self.path, self.made).unwrap(),
        }
    }
}
