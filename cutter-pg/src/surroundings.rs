//! What stands around the schema and makes a login or a function of ours behave otherwise than shipped:
//! settings, roles, code of others that ours would run, rights handed out elsewhere, what others made over
//! our tables.
//!
//! [`Definitions`](crate::definitions::Definitions) says whether our own objects are what they were; here
//! everything else is compared with what a new database has, which is: nothing. What a managed service
//! brings along is a note there, with its name, and a fault where the server is ours alone.
//!
//! **Limit.** It is the server that answers. Whoever changes the server's program, its libraries or its
//! files is believed, and so is a superuser who rewrites the views of the server's own catalogue so that
//! neither they nor the rows behind them show it (`docs/trust.md`).

use postgres::GenericClient;

use crate::error::PgError;
use crate::row::get;

/// Whose server it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Server {
    /// A private one: nobody but cutter has any business there.
    Own,
    /// One that was given: others have databases there, and a service may run it.
    Given,
}

/// Something that is not as it was shipped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// What and where, what is expected and what is observed.
    pub what: String,
    /// The SQL by which a superuser undoes it, where there is such.
    pub undo: Option<String>,
}

/// What was found around the schema.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Surroundings {
    /// What must be undone.
    pub faults: Vec<Fault>,
    /// What may be as it is, said so that somebody knows; and what this login cannot see.
    pub notes: Vec<String>,
}

/// One look: a statement after [`COMMON`], giving rows (class, what, undo).
struct Look {
    sql: &'static str,
    /// The first version of the server that has what it looks at.
    since: i32,
    /// What it looks at, and the relation and the function behind it that not every login may read.
    needs: Option<(&'static str, &'static str, &'static str)>,
}

impl Look {
    const fn new(sql: &'static str) -> Self {
        Self { sql, since: 0, needs: None }
    }
}

const COMMON: &str = include_str!("surroundings/common.sql");

const LOOKS: [Look; 8] = [
    Look::new(include_str!("surroundings/settings.sql")),
    Look {
        needs: Some(("what the server's files say", "pg_file_settings", "pg_show_all_file_settings()")),
        ..Look::new(include_str!("surroundings/files.sql"))
    },
    Look {
        needs: Some(("who is let in (pg_hba.conf)", "pg_hba_file_rules", "pg_hba_file_rules()")),
        ..Look::new(include_str!("surroundings/entry.sql"))
    },
    Look { since: 150_000, ..Look::new(include_str!("surroundings/parameters.sql")) },
    Look::new(include_str!("surroundings/roles.sql")),
    Look::new(include_str!("surroundings/code.sql")),
    Look::new(include_str!("surroundings/grants.sql")),
    Look::new(include_str!("surroundings/reach.sql")),
];

impl Surroundings {
    /// What this connection's login can see. Any login may look; the administrator sees everything.
    ///
    /// # Errors
    /// The database's.
    pub fn observed(client: &mut impl GenericClient, server: Server) -> Result<Self, PgError> {
        let mut found = Self::default();
        // Names are printed in full whatever the session's path is.
        client.batch_execute("SET search_path = pg_catalog, pg_temp")?;
        let version = client.query_one("SELECT current_setting('server_version_num')::int", &[])?;
        let version: i32 = get(&version, 0)?;
        for look in LOOKS.iter().filter(|look| look.since <= version) {
            if let Some((of_what, relation, function)) = look.needs {
                let may = client.query_one(
                    "SELECT has_table_privilege($1::text, 'SELECT') AND has_function_privilege($2::text, 'EXECUTE')",
                    &[&relation, &function],
                )?;
                let may: bool = get(&may, 0)?;
                if !may {
                    found
                        .notes
                        .push(format!("not looked at: {of_what}, which only the administrator may see"));
                    continue;
                }
            }
            for row in &client.query(&format!("{COMMON}{}", look.sql), &[])? {
                let (class, what): (String, String) = (get(row, 0)?, get(row, 1)?);
                match (class.as_str(), server) {
                    ("bad", _) | ("own" | "home", Server::Own) => {
                        found.faults.push(Fault { what, undo: get(row, 2)? });
                    }
                    ("home", Server::Given) => {}
                    _ => found.notes.push(what),
                }
            }
        }
        found.faults.sort_by(|a, b| a.what.cmp(&b.what));
        // What was found comes before what was not looked at.
        found.notes.sort_by_key(|note| (note.starts_with("not looked at"), note.clone()));
        shorten(&mut found.notes);
        Ok(found)
    }
}

/// A service may have changed very many functions of its server: some say it for all.
fn shorten(notes: &mut Vec<String>) {
    const SAID: usize = 5;
    let mut changes = 0;
    notes.retain(|note| {
        let is_change = note.ends_with("observed a change since");
        changes += usize::from(is_change);
        !is_change || changes <= SAID
    });
    if changes > SAID {
        notes.push(format!("and {} more of the server's own were changed since", changes - SAID));
    }
}
