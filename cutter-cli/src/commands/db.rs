//! `cutter db`: the database as such.

use clap::{Args, Subcommand};
use cutter_core::port::database::Reader as _;
use cutter_core::record::observed::{GrantFact, GrantSnapshot};
use cutter_pg::cluster::ClusterStatus;
use cutter_pg::connection::{Connection, SessionSettings};
use cutter_pg::dsn::Dsn;
use cutter_pg::error::PgError;
use cutter_pg::login::{Login, LoginPasswords};
use cutter_pg::migrate::{MigrateError, MigrationStatus, Migrator, ensure_logins};
use cutter_pg::surroundings::{Server, Surroundings};
use futures_executor::block_on;
use serde_json::json;

use crate::config::Config;
use crate::context::Context;
use crate::exit_code::Exit;
use crate::failure::{Failure, Outcome};
use crate::render::{self, BAD, GOOD, HEAD, WARN, paint};
use crate::wire;

/// The database: migrate, status, start, stop, check.
///
/// Without configured connections this is a private PostgreSQL under the home folder: a
/// unix socket only, no TCP, made with the machine's own PostgreSQL.
#[derive(Debug, Args)]
pub(crate) struct DbArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Bring the schema up to what this program knows.
    ///
    /// Forward only, checksummed, idempotent, safe under two concurrent runners. Makes the
    /// logins first, with the passwords of the configured connections. Needs the
    /// administrator's connection (CUTTER_DSN_ADMIN) unless the database is the private one.
    #[command(
        after_help = "Examples:\n  cutter db migrate\n  cutter db migrate --dry-run\n  CUTTER_DSN_ADMIN=postgres://… cutter db migrate"
    )]
    Migrate {
        /// Say what would be applied; apply nothing.
        #[arg(long)]
        dry_run: bool,
    },
    /// Show which migrations are applied, and whether the server runs.
    #[command(after_help = "Examples:\n  cutter db status\n  cutter db status --json | jq .pending")]
    Status,
    /// Start the private server, making it first if there is none.
    #[command(after_help = "Examples:\n  cutter db start")]
    Start,
    /// Stop the private server. Nothing committed is lost; any command starts it again.
    #[command(after_help = "Examples:\n  cutter db stop")]
    Stop,
    /// Compare everything that is defined, and what stands around it, with what the migrations make.
    ///
    /// Defined are functions, triggers, constraints, indexes, columns, views, policies, owners and grants.
    /// Around it stand settings, roles, code of others that ours would run, rights handed out elsewhere,
    /// views and publications over our tables.
    ///
    /// Each difference is named with its object, what is expected and what is there, and with the SQL that
    /// undoes it where there is some. What a database service has of its own is noted. A run probes grants,
    /// functions and triggers itself before it asks to cut.
    #[command(after_help = "Examples:\n  cutter db check\n  cutter db check -v")]
    Check,
}

impl From<PgError> for Failure {
    fn from(error: PgError) -> Self {
        error.to_port("connect").into()
    }
}

impl From<MigrateError> for Failure {
    fn from(error: MigrateError) -> Self {
        let next = match error {
            MigrateError::AtWork { .. } | MigrateError::Busy { .. } => "cutter db migrate",
            _ => "cutter db status",
        };
        Self::stopped("STOP_SCHEMA_MISMATCH", error.to_string()).next(next)
    }
}

pub(crate) fn run(cx: &Context, args: &DbArgs) -> Outcome {
    let config = cx.config()?;
    match &args.command {
        Command::Migrate { dry_run } => migrate(cx, &config, *dry_run),
        Command::Status => status(cx, &config),
        Command::Start => start(cx, &config),
        Command::Stop => stop(cx, &config),
        Command::Check => check(cx, &config),
    }
}

/// The connection that may change the schema.
pub(crate) fn admin_dsn(config: &Config) -> Result<Dsn, Failure> {
    let found = wire::connections(config, &[Login::Admin])?;
    found.into_iter().next().map(|(_, dsn)| dsn).ok_or_else(|| {
        Failure::usage("no administrator's connection is configured").broken(
            "config.database.admin",
            "CUTTER_DSN_ADMIN or database.admin",
            "nothing",
        )
    })
}

/// The databases that connections lead to: nothing is ever restored over one.
pub(crate) fn database_names(config: &Config) -> Result<Vec<String>, Failure> {
    let logins: Vec<Login> = Login::ALL.into_iter().collect();
    let mut names = Vec::new();
    for (_, dsn) in wire::connections(config, &logins)? {
        names.extend(dsn.config()?.get_dbname().map(ToOwned::to_owned));
    }
    names.sort();
    names.dedup();
    Ok(names)
}

/// The passwords of the configured connections, so that the logins can be made with them.
fn passwords(config: &Config) -> Result<LoginPasswords, Failure> {
    let mut passwords = LoginPasswords::new();
    for login in Login::RUN_ROLES {
        let Some(dsn) = config.dsns.get(&login) else { continue };
        if let Some(password) = dsn.config()?.get_password() {
            passwords.set(login, String::from_utf8_lossy(password).into_owned().into());
        }
    }
    Ok(passwords)
}

fn admin(config: &Config) -> Result<Connection, Failure> {
    Ok(block_on(Connection::open(admin_dsn(config)?, SessionSettings::admin()))?)
}

/// Makes the logins and applies what is pending; gives the versions applied.
pub(crate) fn bring_up(config: &Config) -> Result<Vec<u32>, Failure> {
    let connection = admin(config)?;
    if !config.is_private_database() {
        let passwords = passwords(config)?;
        block_on(connection.run(move |client| ensure_logins(client, &passwords)))?;
    }
    let applied = block_on(connection.run(|client| Ok(Migrator::shipped().and_then(|m| m.run(client)))))??;
    Ok(applied)
}

fn migrate(cx: &Context, config: &Config, dry_run: bool) -> Outcome {
    let applied = if dry_run {
        let connection = admin(config)?;
        block_on(connection.run(|client| Ok(Migrator::shipped().and_then(|m| m.dry_run(client)))))??
    } else {
        bring_up(config)?
    };
    let founded = if dry_run { None } else { wire::policy::found(config)? };
    let word = if dry_run { "would apply" } else { "applied" };
    let people = || {
        let founded = founded.iter().map(|said| format!("{} {said}\n", paint(GOOD, "ok")));
        let founded: String = founded.collect();
        founded
            + &if applied.is_empty() {
                format!("{} the schema is current\n", paint(GOOD, "ok"))
            } else {
                let list: Vec<String> = applied.iter().map(ToString::to_string).collect();
                format!("{} {word} {}\n", paint(GOOD, "ok"), list.join(", "))
            }
    };
    cx.out.result(people, &json!({ "applied": applied, "dry_run": dry_run, "founded": founded }))
}

/// A session of whoever sees most of those that are configured.
fn looking(config: &Config) -> Result<Connection, Failure> {
    let found = wire::connections(config, &[Login::Admin, Login::Ro])?;
    let dsn = found.into_iter().next().map(|(_, dsn)| dsn);
    let dsn = dsn.ok_or_else(|| Failure::usage("no connection is configured"))?;
    Ok(block_on(Connection::open(dsn, SessionSettings::reader()))?)
}

/// What stands around the schema.
pub(crate) fn surroundings(config: &Config) -> Result<Surroundings, Failure> {
    let server = if config.is_private_database() { Server::Own } else { Server::Given };
    let connection = looking(config)?;
    Ok(block_on(connection.run(move |client| Surroundings::observed(client, server)))?)
}

/// How database and program compare, read by whoever may read it.
pub(crate) fn migration_status(config: &Config) -> Result<MigrationStatus, Failure> {
    let connection = looking(config)?;
    Ok(block_on(connection.run(|client| Ok(Migrator::shipped().and_then(|m| m.status(client)))))??)
}

fn status(cx: &Context, config: &Config) -> Outcome {
    let server = if config.is_private_database() {
        match wire::private_cluster(config)?.status()? {
            ClusterStatus::Absent => "absent",
            ClusterStatus::Stopped => "stopped",
            ClusterStatus::Changing => "starting or stopping",
            ClusterStatus::Running(_) => "running",
        }
    } else {
        "configured"
    };
    if server != "running" && server != "configured" {
        let people = || {
            format!(
                "{}{} cutter db start\n",
                render::fields(&[("server", paint(WARN, server))]),
                paint(HEAD, "next:")
            )
        };
        return cx.out.result(people, &json!({ "server": server, "applied": null, "pending": null }));
    }
    let status = migration_status(config)?;
    let applied: Vec<_> = status
        .applied
        .iter()
        .map(|m| json!({ "version": m.version, "name": m.name, "sha256": m.sha256, "applied_at": m.applied_at }))
        .collect();
    let machine = json!({ "server": server, "applied": applied, "pending": status.pending, "checksums": status.checksums_digest() });
    let people = || {
        let mut text =
            render::fields(&[("server", server.to_owned()), ("checksums", status.checksums_digest())]);
        let row = |m: &cutter_pg::migrate::AppliedMigration| {
            vec![m.version.to_string(), m.name.clone(), m.applied_at.clone()]
        };
        text.push_str(&render::table(
            &["version", "name", "applied"],
            status.applied.iter().map(row).collect(),
        ));
        if status.is_current() {
            text.push_str(&format!("{} the schema is current\n", paint(GOOD, "ok")));
        } else {
            text.push_str(&format!(
                "{} {} pending\n{} cutter db migrate\n",
                paint(WARN, "behind"),
                status.pending.len(),
                paint(HEAD, "next:")
            ));
        }
        text
    };
    cx.out.result(people, &machine)
}

fn only_private(config: &Config) -> Result<(), Failure> {
    if config.is_private_database() {
        return Ok(());
    }
    Err(Failure::usage("connections are configured: that server is not cutter's to start or stop"))
}

fn start(cx: &Context, config: &Config) -> Outcome {
    only_private(config)?;
    let running = wire::private_cluster(config)?.start()?;
    let people = || {
        render::fields(&[
            ("server", paint(GOOD, "running")),
            ("pid", running.pid.to_string()),
            ("socket", running.socket_dir.display().to_string()),
        ])
    };
    let machine = json!({ "server": "running", "pid": running.pid, "socket_dir": running.socket_dir, "port": running.port });
    cx.out.result(people, &machine)
}

fn stop(cx: &Context, config: &Config) -> Outcome {
    only_private(config)?;
    let stopped = wire::private_cluster(config)?.stop()?;
    let word = if stopped { "stopped" } else { "there was nothing to stop" };
    cx.out.result(|| format!("{} {word}\n", paint(GOOD, "ok")), &json!({ "stopped": stopped }))
}

/// Everything in a grant snapshot that is not as it must be.
pub(crate) fn grant_faults(snapshot: &GrantSnapshot) -> Vec<String> {
    let wrong = |fact: &&GrantFact| fact.wanted != fact.holds;
    let fact = |fact: &GrantFact| {
        let word = if fact.wanted { "is missing" } else { "must not be" };
        format!("{} {word}", fact.name)
    };
    let mut faults: Vec<String> = snapshot.facts.iter().filter(wrong).map(fact).collect();
    faults.extend(snapshot.public_execute.iter().map(|f| format!("PUBLIC may execute {f}")));
    faults.extend(snapshot.violations.iter().cloned());
    faults
}

fn check(cx: &Context, config: &Config) -> Outcome {
    let database = wire::reader(config)?;
    block_on(database.check_schema())?;
    let snapshot = block_on(database.grants())?;
    let (definitions, mut faults) = block_on(database.definition_faults())?;
    faults.extend(grant_faults(&snapshot));
    let around = surroundings(config)?;
    let undo: Vec<Option<&str>> =
        faults.iter().map(|_| None).chain(around.faults.iter().map(|f| f.undo.as_deref())).collect();
    faults.extend(around.faults.iter().map(|fault| fault.what.clone()));
    let exit = if faults.is_empty() { Exit::DONE } else { Exit::FAILED };
    let people = || {
        let mut text = String::new();
        if cx.out.is_verbose(1) {
            for fact in &snapshot.facts {
                let word = if fact.wanted == fact.holds { paint(GOOD, "ok ") } else { paint(BAD, "bad") };
                text.push_str(&format!("{word} {}\n", fact.name));
            }
        }
        for note in &around.notes {
            text.push_str(&format!("{} {note}\n", paint(WARN, "note")));
        }
        for (fault, undo) in faults.iter().zip(&undo) {
            text.push_str(&format!("{} {fault}\n", paint(BAD, "bad")));
            if let Some(undo) = undo {
                text.push_str(&format!("    {} {undo}\n", paint(HEAD, "undo:")));
            }
        }
        if faults.is_empty() {
            text.push_str(&format!(
                "{} {} grants and {definitions} definitions as they must be\n",
                paint(GOOD, "ok"),
                snapshot.facts.len()
            ));
        } else {
            text.push_str(
                "the administrator undoes this (by the SQL, where some is named), or restores a dump anew\n",
            );
            text.push_str(&format!("{} cutter backup --help\n", paint(HEAD, "next:")));
        }
        text
    };
    cx.out.result_as(
        exit,
        people,
        &json!({
            "ok": faults.is_empty(), "definitions": definitions, "faults": faults, "undo": undo,
            "notes": around.notes, "snapshot": snapshot,
        }),
    )
}
