//! Whether connections and files are what is relied on: each login who it should be, and nobody else's
//! hand at what decides.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt as _;

use cutter_pg::connection::{Connection, SessionSettings};
use cutter_pg::login::Login;
use futures_executor::block_on;

use super::{Findings, Status};
use crate::commands::db;
use crate::config::Config;
use crate::files::word;
use crate::wire;

/// Every configured connection is tried: it must be the login that it stands for, and all of them must
/// lead to one database.
pub(super) fn logins(config: &Config, findings: &mut Findings) {
    let all = [Login::Ro, Login::Exec, Login::Verify, Login::Review];
    let found = match wire::connections(config, &all) {
        Err(failure) => return findings.failure("logins", &failure),
        Ok(found) => found,
    };
    let mut databases: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (login, dsn) in found {
        let (name, fix) = (format!("login {login}"), format!("set {} rightly", variable_of(login)));
        let answer = block_on(Connection::open(dsn, SessionSettings::reader())).and_then(|connection| {
            block_on(connection.run(|client| {
                let row = client.query_one(WHO_AND_WHERE, &[])?;
                Ok((row.try_get::<_, String>(0)?, row.try_get::<_, String>(1)?))
            }))
        });
        match answer {
            Err(error) => findings.add(Status::Bad, name, error.to_string(), fix),
            Ok((who, place)) => {
                if who == login.as_str() {
                    findings.ok(name, format!("connects as {who}"));
                } else {
                    let detail = format!("expected a connection as {}, observed {who}", login.as_str());
                    findings.add(Status::Bad, name, detail, fix);
                }
                databases.entry(place).or_default().push(login.to_string());
            }
        }
    }
    if databases.len() > 1 {
        let places: Vec<String> =
            databases.iter().map(|(place, who)| format!("{} on {place}", who.join(", "))).collect();
        let detail = format!("expected one database, observed {}", places.join("; "));
        let fix = format!("lead all connections in {} to one database", config.file_path.display());
        findings.add(Status::Bad, "one database", detail, fix);
    }
}

/// Whether everything of ours is defined as the migrations made it.
pub(super) fn definitions(config: &Config, findings: &mut Findings) {
    match wire::reader(config).and_then(|database| Ok(block_on(database.definition_faults())?)) {
        Err(failure) => findings.failure("definitions", &failure),
        Ok((count, faults)) if faults.is_empty() => {
            findings.ok("definitions", format!("{count} as the migrations made them"));
        }
        Ok((_, faults)) => findings.add(Status::Bad, "definitions", first_of(&faults), "cutter db check"),
    }
}

/// Whether anything around the schema makes it behave otherwise.
pub(super) fn surroundings(config: &Config, findings: &mut Findings) {
    match db::surroundings(config) {
        Err(failure) => findings.failure("surroundings", &failure),
        Ok(found) if !found.faults.is_empty() => {
            let faults: Vec<String> = found.faults.into_iter().map(|fault| fault.what).collect();
            findings.add(Status::Bad, "surroundings", first_of(&faults), "cutter db check");
        }
        Ok(found) if found.notes.is_empty() => {
            findings.ok("surroundings", "no setting, role or code of others reaches the schema");
        }
        Ok(found) => findings.ok("surroundings", format!("noted: {}", first_of(&found.notes))),
    }
}

/// The first three, and how many there are.
fn first_of(all: &[String]) -> String {
    let first: Vec<&str> = all.iter().take(3).map(String::as_str).collect();
    let more = if all.len() > 3 { format!("; and {} more", all.len() - 3) } else { String::new() };
    format!("{}{more}", first.join("; "))
}

/// The session's login, and the database by the server's own number and name.
const WHO_AND_WHERE: &str =
    "SELECT session_user::text, (SELECT s.system_identifier FROM pg_catalog.pg_control_system() s)
    || '/' || d.oid || ' (' || d.datname || ')' FROM pg_catalog.pg_database d
    WHERE d.datname = pg_catalog.current_database()";

/// The variable that says how a login connects.
const fn variable_of(login: Login) -> &'static str {
    match login {
        Login::Exec => "CUTTER_DSN_EXECUTOR",
        Login::Verify => "CUTTER_DSN_VERIFIER",
        Login::Review => "CUTTER_DSN_REVIEWER",
        Login::Ro => "CUTTER_DSN_READER",
        _ => "CUTTER_DSN_ADMIN",
    }
}

/// A file whose words decide may be written by its owner alone; a secret is nobody else's to read.
pub(super) fn files(config: &Config, findings: &mut Findings) {
    let passwords = config.home.join("pg-secrets.json");
    let secrets = [
        ("executor key file", &config.keys.executor),
        ("verifier key file", &config.keys.verifier),
        ("operator key file", &config.keys.operator),
        ("file of the logins' passwords", &passwords),
    ];
    let file = config.file.as_ref().map(|path| ("configuration file", path, 0o022, "written"));
    let secrets = secrets.into_iter().map(|(name, path)| (name, path, 0o077, "read or written"));
    for (name, path, forbidden, verb) in file.into_iter().chain(secrets) {
        // What is not there is told elsewhere.
        let Ok(meta) = std::fs::metadata(path) else { continue };
        let mode = meta.permissions().mode() & 0o777;
        if mode & forbidden != 0 {
            let detail = format!("{} may be {verb} by others (mode {mode:04o})", path.display());
            findings.add(Status::Bad, name, detail, format!("chmod 600 {}", word(path)));
        }
    }
}
