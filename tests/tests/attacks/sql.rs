//! SQL as each login can send it: every function that it may call and every table that there is, with
//! values of the same name from anywhere in the database; and what a superuser does with triggers off.

use std::collections::BTreeMap;

use cutter_pg::login::Login;
use cutter_tests::cli::{Deployment, Dice};
use postgres::Client;

use crate::stage::Theatre;

const SCHEMAS: &str =
    "n.nspname IN ('iu_core', 'cutter_governance', 'cutter_queue', 'cutter_run', 'cutter_meta', 'public')";

/// Statements that one login sends, each by itself: what is refused does not take the others along.
#[derive(Debug, Clone, PartialEq)]
pub struct SqlAct {
    pub login: String,
    pub script: Vec<String>,
}

#[derive(Debug, Clone)]
struct Function {
    name: String,
    /// Name and type of each argument.
    arguments: Vec<(String, String)>,
}

#[derive(Debug, Clone)]
struct Column {
    table: String,
    name: String,
    kind: String,
}

/// What can be reached, and the values that stand there.
#[derive(Debug, Default)]
pub struct Reach {
    functions: BTreeMap<&'static str, Vec<Function>>,
    columns: Vec<Column>,
    /// Values by the name of their column, as text.
    values: BTreeMap<String, Vec<String>>,
    /// Values by type.
    by_kind: BTreeMap<String, Vec<String>>,
}

const LOGINS: [&str; 5] = ["cutter_exec", "cutter_verify", "cutter_review", "cutter_ro", "directus"];

impl Reach {
    /// Of a database as it stands.
    pub fn of(d: &Deployment) -> Self {
        let mut admin = d.database.client(Login::Admin);
        let mut reach = Self::default();
        for login in LOGINS {
            reach.functions.insert(login, functions(&mut admin, login));
        }
        let columns = format!(
            "SELECT n.nspname || '.' || c.relname, a.attname::text, format_type(a.atttypid, NULL)
             FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
             JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = ''
             WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition AND {SCHEMAS} ORDER BY 1, a.attnum"
        );
        for row in admin.query(&columns, &[]).unwrap() {
            let column = Column { table: row.get(0), name: row.get(1), kind: row.get(2) };
            let sql = format!(
                "SELECT DISTINCT \"{}\"::text FROM {} WHERE \"{0}\" IS NOT NULL ORDER BY 1 LIMIT 8",
                column.name, column.table
            );
            let found: Vec<String> = admin.query(&sql, &[]).unwrap().iter().map(|row| row.get(0)).collect();
            reach.values.entry(column.name.clone()).or_default().extend(found.clone());
            reach.by_kind.entry(column.kind.clone()).or_default().extend(found);
            reach.columns.push(column);
        }
        reach
    }

    fn value(&self, theatre: &Theatre, name: &str, kind: &str, dice: &mut Dice) -> String {
        let name = name.trim_start_matches("p_");
        match name {
            // who drives now, as everybody may read it
            "epoch" | "holder" if dice.below(4) > 0 => {
                let run = quoted(&theatre.run_id);
                return format!("(SELECT {name} FROM cutter_governance.run_fence WHERE run_id = {run})");
            }
            "run_id" if dice.below(4) > 0 => return quoted(&theatre.run_id),
            "at" | "now" => {
                return ["now()", "'2000-01-01T00:00:00Z'", "'2312-01-01T00:00:00Z'"][dice.below(3) as usize]
                    .into();
            }
            "effect_id" | "unit_id" | "log_id" if dice.below(2) == 0 => return "gen_random_uuid()".into(),
            _ => {}
        }
        let own = self.values.get(name).filter(|values| !values.is_empty() && dice.below(5) > 0);
        let values = own.or_else(|| self.by_kind.get(kind));
        let value = values.and_then(|values| values.get(dice.below(values.len() as u64) as usize));
        match (value, kind) {
            (Some(value), _) => format!("{}::{kind}", quoted(value)),
            (None, "boolean") => ["true", "false"][dice.below(2) as usize].into(),
            (None, "integer" | "bigint" | "smallint") => dice.below(3).to_string(),
            (None, kind) if kind.ends_with("[]") => format!("'{{}}'::{kind}"),
            (None, _) => "NULL".into(),
        }
    }
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

fn functions(admin: &mut Client, login: &str) -> Vec<Function> {
    let sql = format!(
        "SELECT quote_ident(n.nspname) || '.' || quote_ident(p.proname),
                coalesce(p.proargnames[1:p.pronargs], '{{}}')::text[],
                ARRAY(SELECT format_type(t, NULL) FROM unnest(p.proargtypes) WITH ORDINALITY AS x (t, i) ORDER BY i)
         FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
         WHERE {SCHEMAS} AND p.prokind = 'f' AND p.prorettype <> 'pg_catalog.trigger'::regtype
             AND p.proname LIKE 'fn%' AND has_function_privilege($1, p.oid, 'EXECUTE')
         ORDER BY 1, p.oid"
    );
    let of = |row: postgres::Row| {
        let (names, kinds): (Vec<String>, Vec<String>) = (row.get(1), row.get(2));
        Function { name: row.get(0), arguments: names.into_iter().zip(kinds).collect() }
    };
    admin.query(&sql, &[&login]).unwrap().into_iter().map(of).collect()
}

/// Statements that a login could send.
pub fn draw(theatre: &Theatre, login: &str, dice: &mut Dice) -> SqlAct {
    let reach = &theatre.reach;
    let mut script = Vec::new();
    for _ in 0..=dice.below(4) {
        script.push(match dice.below(8) {
            0 => write(theatre, dice),
            1 if login == "cutter_exec" => enact(theatre, dice),
            _ => {
                let all = &reach.functions[login];
                let Some(function) = all.get(dice.below(all.len().max(1) as u64) as usize) else { continue };
                let arguments = function.arguments.iter().map(|(n, k)| reach.value(theatre, n, k, dice));
                format!("SELECT {}({})", function.name, arguments.collect::<Vec<_>>().join(", "))
            }
        });
    }
    SqlAct { login: login.to_owned(), script }
}

/// A column of a table changed, a row deleted or added, as no login may.
fn write(theatre: &Theatre, dice: &mut Dice) -> String {
    let reach = &theatre.reach;
    let column = &reach.columns[dice.below(reach.columns.len() as u64) as usize];
    let Column { table, name, kind } = column;
    let one = format!("ctid = (SELECT ctid FROM {table} ORDER BY ctid OFFSET {} LIMIT 1)", dice.below(4));
    match dice.below(8) {
        0 => format!("DELETE FROM {table} WHERE {one}"),
        1 => {
            let own: Vec<&Column> = reach.columns.iter().filter(|c| c.table == *table).collect();
            let names: Vec<String> = own.iter().map(|c| format!("\"{}\"", c.name)).collect();
            let value = |c: &&Column| match c.kind.as_str() {
                _ if c.name == *name => reach.value(theatre, &c.name, &c.kind, &mut Dice::from_seed(7)),
                "uuid" if c.name.ends_with("_id") && c.name != "entry_id" => "gen_random_uuid()".to_owned(),
                _ => format!("\"{}\"", c.name),
            };
            let values: Vec<String> = own.iter().map(value).collect();
            format!(
                "INSERT INTO {table} ({}) SELECT {} FROM {table} WHERE {one}",
                names.join(", "),
                values.join(", ")
            )
        }
        _ => {
            format!("UPDATE {table} SET \"{name}\" = {} WHERE {one}", reach.value(theatre, name, kind, dice))
        }
    }
}

/// The executor enacts by itself: the fence, the use of an approval, every unit, and the effect's row.
fn enact(theatre: &Theatre, dice: &mut Dice) -> String {
    let (run, document) = (quoted(&theatre.run_id), quoted("LAW"));
    let approvals = theatre.reach.values.get("approval_id").map(Vec::as_slice).unwrap_or_default();
    let approval =
        approvals.get(dice.below(approvals.len().max(1) as u64) as usize).cloned().unwrap_or_default();
    let approval = format!("{}::uuid", quoted(&approval));
    format!(
        "DO $$
         DECLARE v_effect uuid := gen_random_uuid(); v_holder uuid := gen_random_uuid(); v_epoch bigint;
         BEGIN
             v_epoch := cutter_governance.fn_run_fence_take({run}, {document}, v_holder);
             PERFORM cutter_governance.fn_approval_use({approval}, {run}, 'enact', v_effect, now());
             PERFORM iu_core.fn_iu_enact(u.unit_id, {approval}, {run}, 'op', now())
             FROM iu_core.information_unit u WHERE u.lifecycle_status = 'draft';
             PERFORM cutter_governance.fn_run_effect_record({run}, 'enact', 1, v_effect, v_epoch, v_holder,
                 repeat('0', 64), 'commit', '{{}}', 'op', now(), {document});
         END $$"
    )
}

/// What a superuser does, with triggers off.
pub fn by_superuser(theatre: &Theatre, dice: &mut Dice) -> SqlAct {
    let mut script = vec!["SET session_replication_role = replica".to_owned()];
    for _ in 0..=dice.below(3) {
        script.push(match dice.below(5) {
            0 => "UPDATE iu_core.information_unit SET lifecycle_status = 'enacted' WHERE lifecycle_status = 'draft'"
                .to_owned(),
            1 => "DELETE FROM cutter_governance.approval_answer".to_owned(),
            2 => {
                let words = ["unit_kind = 'clause'", "citation_address = 'LAW/art-9'", "section_type = 'x'"];
                format!("UPDATE iu_core.information_unit SET {} WHERE ordinal = 1", words[dice.below(3) as usize])
            }
            3 => "UPDATE iu_core.unit_version SET content = 'Anything.'::bytea,
                      content_hash = encode(sha256('Anything.'::bytea), 'hex')
                  WHERE version_id = (SELECT version_id FROM iu_core.unit_version ORDER BY 1 DESC LIMIT 1)"
                .to_owned(),
            _ => write(theatre, dice),
        });
    }
    if dice.below(4) == 0 {
        script.push("RESET session_replication_role".into());
        script.push("ALTER TABLE cutter_governance.approval_use DISABLE TRIGGER ALL".into());
    }
    SqlAct { login: "cutter_admin".into(), script }
}

/// Sends it. What the server says is for nobody to hear: the law looks at what is stored.
pub fn act(theatre: &Theatre, act: &SqlAct) {
    let login = Login::from_role(&act.login).unwrap();
    let mut client = theatre.d.database.client(login);
    client.batch_execute("SET statement_timeout = '5s'; SET lock_timeout = '500ms'").unwrap();
    for statement in &act.script {
        let [accepted, refused] = theatre.sent.get();
        theatre.sent.set(match client.batch_execute(statement) {
            Ok(()) => [accepted + 1, refused],
            Err(_) => [accepted, refused + 1],
        });
    }
}
