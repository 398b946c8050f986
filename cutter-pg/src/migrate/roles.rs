//! The roles, which belong to the server and not to one database.

use std::time::Duration;

use postgres::Client;
use secrecy::{ExposeSecret as _, SecretString};

use crate::error::PgError;
use crate::login::{Login, LoginPasswords};

/// Owns every table and function; nobody logs in as it, and no run role is a member.
pub const OWNER_ROLE: &str = "cutter_owner";

/// Owns the one function that reads files of the server, and may do nothing else.
pub const COPY_ROLE: &str = "cutter_copy";

/// What two sessions changing the same role get instead of a wait.
const LOST_RACES: [&str; 4] = ["23505", "42710", "40001", "XX000"];

/// Makes the owner role and the run roles, puts right what differs, and sets the passwords
/// given. Idempotent, and safe from two sessions at once. The administrator's own login is
/// left alone.
///
/// Passwords travel as SCRAM verifiers: no server log ever sees one in clear.
///
/// # Errors
/// The server's: `42501` if this login may not create roles.
pub fn ensure_logins(admin: &mut Client, passwords: &LoginPasswords) -> Result<(), PgError> {
    let mut attempt = 0;
    loop {
        match ensure_once(admin, passwords) {
            Err(error) if attempt < 20 && error.sqlstate().is_some_and(|code| LOST_RACES.contains(&code)) => {
                attempt += 1;
                std::thread::sleep(Duration::from_millis(10 * attempt));
            }
            outcome => return outcome,
        }
    }
}

fn ensure_once(admin: &mut Client, passwords: &LoginPasswords) -> Result<(), PgError> {
    let mut transaction = admin.transaction()?;
    ensure_role(&mut transaction, OWNER_ROLE, false)?;
    ensure_role(&mut transaction, COPY_ROLE, false)?;
    // Only a superuser hands this out; without it the server copies nothing by itself.
    transaction.batch_execute(&format!(
        "DO $do$ BEGIN
             IF (SELECT rolsuper FROM pg_catalog.pg_roles WHERE rolname = current_user)
                 AND NOT pg_catalog.pg_has_role('{COPY_ROLE}', 'pg_read_server_files', 'MEMBER')
             THEN GRANT pg_read_server_files TO {COPY_ROLE}; END IF;
         END $do$"
    ))?;
    for login in Login::RUN_ROLES {
        ensure_role(&mut transaction, login.as_str(), true)?;
        if let Some(password) = passwords.get(login) {
            // A verifier has no quote in it.
            transaction
                .batch_execute(&format!("ALTER ROLE {login} PASSWORD '{}'", scram_verifier(password)))?;
        }
    }
    let members = transaction.query(
        "SELECT m.rolname::text FROM pg_catalog.pg_auth_members a
         JOIN pg_catalog.pg_roles o ON o.oid = a.roleid JOIN pg_catalog.pg_roles m ON m.oid = a.member
         WHERE o.rolname = 'cutter_owner'",
        &[],
    )?;
    for row in members {
        let member: String = row.try_get(0)?;
        if let Some(login) = Login::RUN_ROLES.into_iter().find(|login| login.as_str() == member) {
            transaction.batch_execute(&format!("REVOKE {OWNER_ROLE} FROM {login}"))?;
        }
    }
    // An administrator who is no superuser hands objects over only to a role it is member of.
    let needs_membership: bool = transaction
        .query_one(
            "SELECT NOT rolsuper AND NOT pg_catalog.pg_has_role(oid, 'cutter_owner', 'MEMBER')
             FROM pg_catalog.pg_roles WHERE rolname = current_user",
            &[],
        )?
        .try_get(0)?;
    if needs_membership {
        transaction.batch_execute(&format!("GRANT {OWNER_ROLE} TO CURRENT_USER"))?;
    }
    transaction.commit().map_err(|error| {
        let error = PgError::from(error);
        // Doing it again is harmless, so a lost race stays one.
        if error.sqlstate().is_some() { error } else { error.commit_outcome() }
    })
}

/// A role with no power of its own. What is right already is not touched: some attributes
/// may be named by a superuser only, even to say what they are.
fn ensure_role(
    transaction: &mut postgres::Transaction<'_>,
    name: &str,
    can_login: bool,
) -> Result<(), PgError> {
    let login = if can_login { "LOGIN" } else { "NOLOGIN" };
    let row = transaction.query_opt(
        "SELECT rolsuper, rolcreaterole, rolcreatedb, rolreplication, rolbypassrls, rolcanlogin
         FROM pg_catalog.pg_roles WHERE rolname = $1",
        &[&name],
    )?;
    let Some(row) = row else {
        return Ok(transaction.batch_execute(&format!("CREATE ROLE {name} {login}"))?);
    };
    let attributes = ["NOSUPERUSER", "NOCREATEROLE", "NOCREATEDB", "NOREPLICATION", "NOBYPASSRLS"];
    let mut wanted: Vec<&str> = Vec::new();
    for (column, attribute) in attributes.into_iter().enumerate() {
        if row.try_get::<_, bool>(column)? {
            wanted.push(attribute);
        }
    }
    if row.try_get::<_, bool>(5)? != can_login {
        wanted.push(login);
    }
    if !wanted.is_empty() {
        transaction.batch_execute(&format!("ALTER ROLE {name} {}", wanted.join(" ")))?;
    }
    Ok(())
}

/// What PostgreSQL stores of a password.
pub(crate) fn scram_verifier(password: &SecretString) -> String {
    postgres_protocol::password::scram_sha_256(password.expose_secret().as_bytes())
}
