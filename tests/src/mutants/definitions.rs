//! The mutants of a database: every function, view, trigger, check, key and right of a freshly
//! migrated one as the server itself prints it, so that what was replaced is mutated once.
//!
//! Columns that may not be NULL, defaults, and primary keys are left as they are.

use postgres::Client;

use super::conditions::{Change, Class, of_body, of_expression};
use super::ledger::{Mutant, tell_apart};

/// A change of the database, and what it touches.
#[derive(Debug, Clone)]
pub struct SqlMutant {
    /// Its name.
    pub mutant: Mutant,
    /// The statements that make it.
    pub sql: String,
    /// Whose reach it has.
    pub touches: Touches,
}

/// What a test must touch to notice a mutant.
#[derive(Debug, Clone)]
pub enum Touches {
    /// A function.
    Function(String),
    /// A table that is written.
    Table(String),
    /// A table that is written, and a function that then is called.
    Trigger(String, String),
    /// A view, and the tables that it reads.
    View(String, Vec<String>),
    /// Rights: whoever looks at those.
    Rights,
}

impl Touches {
    /// The word that a test's text says if it is about this.
    #[must_use]
    pub fn word(&self) -> &str {
        let name = match self {
            Self::Function(name) | Self::Table(name) | Self::Trigger(name, _) | Self::View(name, _) => name,
            Self::Rights => "grants",
        };
        name.rsplit('.').next().unwrap_or(name)
    }
}

/// The schemas that are cutter's, and what is cutter's in `public`.
const OURS: &str =
    "(n.nspname IN ('iu_core', 'cutter_governance', 'cutter_queue', 'cutter_run', 'cutter_meta')
    OR n.nspname = 'public')";

/// All mutants of a database, by the administrator's connection, in a fixed order.
///
/// # Errors
/// What the database says.
pub fn mutants(client: &mut Client) -> Result<Vec<SqlMutant>, postgres::Error> {
    client.batch_execute("SET search_path = pg_catalog, pg_temp")?;
    let mut found = Vec::new();
    functions(client, &mut found)?;
    views(client, &mut found)?;
    triggers(client, &mut found)?;
    constraints(client, &mut found)?;
    indexes(client, &mut found)?;
    rights(client, &mut found)?;
    tell_apart(found.iter_mut().map(|one| &mut one.mutant));
    Ok(found)
}

/// The same definitions, written a little differently, and one harmless trigger on each
/// table: a test that fails on this compares definitions, and holds no rule.
///
/// # Errors
/// What the database says.
pub fn harmless(client: &mut Client) -> Result<String, postgres::Error> {
    client.batch_execute("SET search_path = pg_catalog, pg_temp")?;
    let mut sql = String::new();
    for row in client.query(FUNCTIONS, &[])? {
        let (definition, body): (String, String) = (row.get(1), row.get(2));
        sql.push_str(&definition.replacen(&body, &format!("{body}\n-- the same\n"), 1));
        sql.push_str(";\n");
    }
    sql.push_str(
        "CREATE FUNCTION cutter_meta.fn_harmless() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';\n",
    );
    let tables = format!(
        "SELECT c.oid::regclass::text FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
         WHERE {OURS} AND c.relkind IN ('r', 'p') AND pg_get_userbyid(c.relowner) = 'cutter_owner' ORDER BY 1"
    );
    for row in client.query(&tables, &[])? {
        let table: String = row.get(0);
        sql.push_str(&format!(
            "CREATE TRIGGER harmless AFTER INSERT ON {table} FOR EACH STATEMENT EXECUTE FUNCTION cutter_meta.fn_harmless();\n"
        ));
    }
    Ok(sql)
}

fn named(object: &str, class: Class, change: String) -> Mutant {
    Mutant { object: object.to_owned(), change: format!("{}: {change}", class.as_str()), class }
}

const FUNCTIONS: &str = "SELECT p.oid::regprocedure::text, pg_get_functiondef(p.oid), p.prosrc,
        n.nspname || '.' || p.proname, p.prosecdef
    FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
    WHERE n.nspname IN ('iu_core', 'cutter_governance', 'cutter_queue', 'cutter_run', 'cutter_meta', 'public')
        AND pg_get_userbyid(p.proowner) = 'cutter_owner' AND p.prokind = 'f'
    ORDER BY 1";

fn functions(client: &mut Client, found: &mut Vec<SqlMutant>) -> Result<(), postgres::Error> {
    for row in client.query(FUNCTIONS, &[])? {
        let (object, definition, body): (String, String, String) = (row.get(0), row.get(1), row.get(2));
        let (name, definer): (String, bool) = (row.get(3), row.get(4));
        let touches = Touches::Function(name);
        for change in of_body(&body) {
            found.push(SqlMutant {
                mutant: named(&object, change.class, change.words(&body)),
                sql: definition.replacen(&body, &change.made_in(&body), 1),
                touches: touches.clone(),
            });
        }
        let mut alter = |change: &str, words: &str| {
            found.push(SqlMutant {
                mutant: named(&object, Class::Definer, words.to_owned()),
                sql: format!("ALTER FUNCTION {object} {change}"),
                touches: touches.clone(),
            });
        };
        alter("RESET search_path", "the caller's search path");
        if definer {
            alter("SECURITY INVOKER", "the caller's rights");
        }
    }
    Ok(())
}

fn views(client: &mut Client, found: &mut Vec<SqlMutant>) -> Result<(), postgres::Error> {
    let views = format!(
        "SELECT c.oid::regclass::text, pg_get_viewdef(c.oid), array_to_string(c.reloptions, ', '),
            array(WITH RECURSIVE read (oid) AS (
                SELECT c.oid
                UNION
                SELECT d.refobjid FROM read JOIN pg_rewrite w ON w.ev_class = read.oid
                    JOIN pg_depend d ON d.classid = 'pg_rewrite'::regclass AND d.objid = w.oid
                        AND d.refclassid = 'pg_class'::regclass
            ) SELECT read.oid::regclass::text FROM read JOIN pg_class t USING (oid) WHERE t.relkind IN ('r', 'p'))
         FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
         WHERE {OURS} AND c.relkind = 'v' AND pg_get_userbyid(c.relowner) = 'cutter_owner' ORDER BY 1"
    );
    for row in client.query(&views, &[])? {
        let (object, body, options): (String, String, Option<String>) = (row.get(0), row.get(1), row.get(2));
        let touches = Touches::View(object.clone(), row.get(3));
        let with = options.map(|options| format!(" WITH ({options})")).unwrap_or_default();
        for change in of_body(&body) {
            found.push(SqlMutant {
                mutant: named(&object, change.class, change.words(&body)),
                sql: format!("CREATE OR REPLACE VIEW {object}{with} AS {}", change.made_in(&body)),
                touches: touches.clone(),
            });
        }
    }
    Ok(())
}

fn triggers(client: &mut Client, found: &mut Vec<SqlMutant>) -> Result<(), postgres::Error> {
    let triggers = format!(
        "SELECT t.tgname::text, t.tgrelid::regclass::text, pg_get_triggerdef(t.oid),
            (SELECT n.nspname || '.' || p.proname FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
             WHERE p.oid = t.tgfoid)
         FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid JOIN pg_namespace n ON n.oid = c.relnamespace
         WHERE {OURS} AND NOT t.tgisinternal AND t.tgparentid = 0 AND pg_get_userbyid(c.relowner) = 'cutter_owner'
         ORDER BY 2, 1"
    );
    for row in client.query(&triggers, &[])? {
        let (name, table, definition): (String, String, String) = (row.get(0), row.get(1), row.get(2));
        let object = format!("{table} {name}");
        let drop = format!("DROP TRIGGER {name} ON {table};\n");
        let called = Touches::Trigger(table.clone(), row.get(3));
        let mut push = |touches: &Touches, words: String, sql: String| {
            found.push(SqlMutant {
                mutant: named(&object, Class::Trigger, words),
                sql,
                touches: touches.clone(),
            });
        };
        push(&called, "dropped".to_owned(), drop.clone());
        for (event, without) in without_an_event(&definition) {
            push(&called, format!("not on {event}"), format!("{drop}{without}"));
        }
        let when = definition.find(" WHEN (").zip(definition.rfind(") EXECUTE "));
        if let Some((start, end)) = when {
            let condition = start + " WHEN ".len()..end + 1;
            for (change, made) in inside(&definition, condition) {
                // it may be called where it was not before
                let made = made.replacen(" WHEN TRUE EXECUTE ", " WHEN (TRUE) EXECUTE ", 1);
                push(&Touches::Table(table.clone()), change, format!("{drop}{made}"));
            }
        }
    }
    Ok(())
}

/// The changes of an expression that stands inside a definition, and the definition with each.
fn inside(definition: &str, at: std::ops::Range<usize>) -> Vec<(String, String)> {
    let expression = &definition[at.clone()];
    let made = |change: Change| {
        let words = change.words(expression);
        (words, format!("{}{}{}", &definition[..at.start], change.made_in(expression), &definition[at.end..]))
    };
    of_expression(expression).into_iter().map(made).collect()
}

/// A trigger's definition without one of its events, for each of several.
fn without_an_event(definition: &str) -> Vec<(String, String)> {
    let Some((start, end)) = [" BEFORE ", " AFTER ", " INSTEAD OF "]
        .into_iter()
        .find_map(|word| definition.find(word).map(|n| n + word.len()))
        .and_then(|start| definition[start..].find(" ON ").map(|n| (start, start + n)))
    else {
        return Vec::new();
    };
    let events: Vec<&str> = definition[start..end].split(" OR ").collect();
    if events.len() < 2 {
        return Vec::new();
    }
    let without = |event: &&str| {
        let left: Vec<&str> = events.iter().copied().filter(|other| other != event).collect();
        ((*event).to_owned(), format!("{}{}{}", &definition[..start], left.join(" OR "), &definition[end..]))
    };
    events.iter().map(without).collect()
}

fn constraints(client: &mut Client, found: &mut Vec<SqlMutant>) -> Result<(), postgres::Error> {
    let constraints = format!(
        "SELECT k.conname::text, k.conrelid::regclass::text, pg_get_constraintdef(k.oid), k.contype::text
         FROM pg_constraint k JOIN pg_class c ON c.oid = k.conrelid JOIN pg_namespace n ON n.oid = c.relnamespace
         WHERE {OURS} AND k.contype IN ('c', 'u', 'f', 'x') AND k.conparentid = 0
            AND pg_get_userbyid(c.relowner) = 'cutter_owner'
         ORDER BY 2, 1"
    );
    for row in client.query(&constraints, &[])? {
        let (name, table): (String, String) = (row.get(0), row.get(1));
        let (definition, kind): (String, String) = (row.get(2), row.get(3));
        let object = format!("{table} {name}");
        let drop = format!("ALTER TABLE {table} DROP CONSTRAINT {name} CASCADE;\n");
        let class = if kind == "c" { Class::Check } else { Class::Key };
        let touches = Touches::Table(table.clone());
        let mut push = |words: String, sql: String| {
            found.push(SqlMutant { mutant: named(&object, class, words), sql, touches: touches.clone() });
        };
        let words: Vec<&str> = definition.split_whitespace().collect();
        push(format!("dropped: {}", words.join(" ")), drop.clone());
        if let (true, Some(end)) = (kind == "c", definition.rfind(')')) {
            let whole = "CHECK ".len()..end + 1;
            for (words, made) in inside(&definition, whole) {
                // the whole condition taken out is the check dropped
                if !made.starts_with("CHECK TRUE") {
                    // rows that the migrations wrote are not asked
                    push(words, format!("{drop}ALTER TABLE {table} ADD CONSTRAINT {name} {made} NOT VALID;"));
                }
            }
        }
    }
    Ok(())
}

fn indexes(client: &mut Client, found: &mut Vec<SqlMutant>) -> Result<(), postgres::Error> {
    let indexes = format!(
        "SELECT i.indexrelid::regclass::text, i.indrelid::regclass::text, pg_get_indexdef(i.indexrelid)
         FROM pg_index i JOIN pg_class c ON c.oid = i.indrelid JOIN pg_namespace n ON n.oid = c.relnamespace
         WHERE {OURS} AND i.indisunique AND pg_get_userbyid(c.relowner) = 'cutter_owner'
            AND NOT EXISTS (SELECT FROM pg_constraint k WHERE k.conindid = i.indexrelid AND k.contype IN ('p', 'u', 'x'))
            AND NOT c.relispartition
         ORDER BY 1"
    );
    for row in client.query(&indexes, &[])? {
        let (index, table, definition): (String, String, String) = (row.get(0), row.get(1), row.get(2));
        let drop = format!("DROP INDEX {index};\n");
        let object = format!("{table} {index}");
        let mut push = |words: String, sql: String| {
            let mutant = named(&object, Class::Key, words);
            found.push(SqlMutant { mutant, sql, touches: Touches::Table(table.clone()) });
        };
        push("dropped".to_owned(), drop.clone());
        if let Some(start) = definition.find(" WHERE ") {
            for (words, made) in inside(&definition, start + " WHERE ".len()..definition.len()) {
                push(words, format!("{drop}{made}"));
            }
        }
    }
    Ok(())
}

/// Every right that a login, or anybody, lacks.
fn rights(client: &mut Client, found: &mut Vec<SqlMutant>) -> Result<(), postgres::Error> {
    let rights = format!(
        "WITH grantee AS (
            SELECT r.rolname::text AS name FROM pg_roles r
            WHERE (r.rolname ~ '^cutter_(copy|exec|verify|review|ro)$' OR r.rolname = 'directus') AND NOT r.rolsuper
        )
        SELECT g.name, 'EXECUTE', 'FUNCTION ' || p.oid::regprocedure
        FROM grantee g, pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
        WHERE {OURS} AND pg_get_userbyid(p.proowner) = 'cutter_owner'
            AND NOT has_function_privilege(g.name, p.oid, 'EXECUTE')
        UNION ALL
        SELECT 'PUBLIC', 'EXECUTE', 'FUNCTION ' || p.oid::regprocedure
        FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
        WHERE {OURS} AND pg_get_userbyid(p.proowner) = 'cutter_owner'
        UNION ALL
        SELECT g.name, v.privilege, 'TABLE ' || c.oid::regclass
        FROM grantee g, unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE', 'TRUNCATE']) v(privilege),
            pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
        WHERE {OURS} AND c.relkind IN ('r', 'p', 'v') AND pg_get_userbyid(c.relowner) = 'cutter_owner'
            AND NOT has_table_privilege(g.name, c.oid, v.privilege)
        ORDER BY 3, 1, 2"
    );
    for row in client.query(&rights, &[])? {
        let (grantee, privilege, object): (String, String, String) = (row.get(0), row.get(1), row.get(2));
        let sql = format!("GRANT {privilege} ON {object} TO {grantee}");
        let mutant = named(&object, Class::Grant, format!("{privilege} to {grantee}"));
        found.push(SqlMutant { mutant, sql, touches: Touches::Rights });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trigger_loses_one_event_at_a_time() {
        let definition =
            "CREATE TRIGGER a BEFORE DELETE OR UPDATE OF x, y ON s.t FOR EACH ROW EXECUTE FUNCTION f()";
        let without: Vec<String> = without_an_event(definition).into_iter().map(|(_, sql)| sql).collect();
        assert_eq!(
            without,
            [
                "CREATE TRIGGER a BEFORE UPDATE OF x, y ON s.t FOR EACH ROW EXECUTE FUNCTION f()",
                "CREATE TRIGGER a BEFORE DELETE ON s.t FOR EACH ROW EXECUTE FUNCTION f()",
            ]
        );
        assert!(without_an_event("CREATE TRIGGER a AFTER INSERT ON s.t EXECUTE FUNCTION f()").is_empty());
    }

    #[test]
    fn a_check_loses_one_condition_at_a_time() {
        let definition = "CHECK (((a > 0) AND (b IS NULL)))";
        let made: Vec<String> =
            inside(definition, 6..definition.len()).into_iter().map(|(_, sql)| sql).collect();
        assert!(made.contains(&"CHECK (((a > 0) AND TRUE))".to_owned()), "{made:#?}");
        assert!(made.contains(&"CHECK (((a >= 0) AND (b IS NULL)))".to_owned()), "{made:#?}");
    }
}
