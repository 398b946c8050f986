//! The scratch database: new, and either whole under its name or not there.

use std::time::{Duration, Instant};

use postgres::{Client, NoTls};

use super::error::RestoreError;
use crate::dsn::Dsn;
use crate::error::PgError;

/// What a database is called until everything in it was compared.
const HALF: &str = "__half";

/// Longest name: with the suffix it must fit PostgreSQL's 63 bytes.
const MAX_NAME_BYTES: usize = 63 - HALF.len();

/// Databases that every server has.
const OF_THE_SERVER: [&str; 3] = ["postgres", "template0", "template1"];

/// A database in the making, dropped with this value unless it was finished.
pub(super) struct Scratch {
    admin: Dsn,
    name: String,
    half: String,
    is_finished: bool,
}

impl Scratch {
    /// Creates it, or refuses.
    pub(super) fn create(admin: &Dsn, name: &str, protected: &[&str]) -> Result<Self, RestoreError> {
        let refuse = |reason: String| RestoreError::Target { name: name.to_owned(), reason };
        check_name(name).map_err(refuse)?;
        let own = admin.config()?.get_dbname().map(str::to_owned);
        if OF_THE_SERVER.contains(&name) || protected.contains(&name) || own.as_deref() == Some(name) {
            return Err(refuse("it is a database of the server or of the configuration".to_owned()));
        }
        let half = format!("{name}{HALF}");
        let mut client = connect(admin)?;
        for existing in [name, half.as_str()] {
            let find = "SELECT 1 FROM pg_catalog.pg_database WHERE datname = $1";
            if client.query_opt(find, &[&existing])?.is_some() {
                let hint = if existing == name {
                    "it exists already".to_owned()
                } else {
                    format!("an earlier restore was killed and left {existing}; DROP DATABASE {existing}")
                };
                return Err(refuse(hint));
            }
        }
        client.batch_execute(&format!(
            "CREATE DATABASE {half} TEMPLATE template0 ENCODING 'UTF8' LOCALE 'C'"
        ))?;
        let scratch = Self { admin: admin.clone(), name: name.to_owned(), half, is_finished: false };
        // Plaintext of a backup: for whoever restores it, and nobody else.
        client.batch_execute(&format!("REVOKE ALL ON DATABASE {} FROM PUBLIC", scratch.half))?;
        Ok(scratch)
    }

    /// Its name for now.
    pub(super) fn half(&self) -> &str {
        &self.half
    }

    /// A session in it.
    pub(super) fn client(&self) -> Result<Client, PgError> {
        connect(&self.admin.with_database(&self.half))
    }

    /// Gives it its name. Sessions that were just closed take a moment to leave.
    pub(super) fn finish(mut self) -> Result<String, RestoreError> {
        let mut client = connect(&self.admin)?;
        let rename = format!("ALTER DATABASE {} RENAME TO {}", self.half, self.name);
        let until = Instant::now() + Duration::from_secs(10);
        loop {
            match client.batch_execute(&rename).map_err(PgError::from) {
                Ok(()) => break,
                Err(error) if error.sqlstate() == Some("55006") && Instant::now() < until => {
                    std::thread::sleep(Duration::from_millis(20));
                }
                Err(error) => return Err(error.into()),
            }
        }
        self.is_finished = true;
        Ok(self.name.clone())
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if !self.is_finished
            && let Ok(mut client) = connect(&self.admin)
        {
            // What stays after a lost connection is refused by name the next time.
            let _ = client.batch_execute(&format!("DROP DATABASE IF EXISTS {} WITH (FORCE)", self.half));
        }
    }
}

/// Names that need no quotes.
fn check_name(name: &str) -> Result<(), String> {
    let is_plain = name.starts_with(|c: char| c.is_ascii_lowercase())
        && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
    if is_plain && name.len() <= MAX_NAME_BYTES && !name.ends_with(HALF) {
        return Ok(());
    }
    Err(format!(
        "expected a letter and then lowercase letters, digits and _, at most {MAX_NAME_BYTES}, not ending in {HALF}"
    ))
}

fn connect(dsn: &Dsn) -> Result<Client, PgError> {
    let mut client = dsn.config()?.connect(NoTls)?;
    client.batch_execute(
        "SET search_path = pg_catalog, pg_temp; SET application_name = 'cutter/restore';
         SET lock_timeout = '10s'; SET client_min_messages = warning;",
    )?;
    Ok(client)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_names_are_taken() {
        for name in ["scratch", "cutter_scratch_2", "a"] {
            assert!(check_name(name).is_ok(), "{name}");
        }
        let long = "a".repeat(MAX_NAME_BYTES + 1);
        for name in ["", "1a", "A", "a-b", "a b", "a;b", "é", "a\"", "x__half", long.as_str()] {
            assert!(check_name(name).is_err(), "{name}");
        }
    }
}
