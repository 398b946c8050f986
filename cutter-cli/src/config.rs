//! Settings: flags > environment (`CUTTER_*`) > `cutter.toml` > defaults.
//!
//! `cutter.toml` is the file named by `--config` or `CUTTER_CONFIG`, else
//! `<home>/cutter.toml`, and never a file that merely lies in the working directory: it
//! may name commands to run (hooks). The home is `--home`, `CUTTER_HOME`, the folder of the
//! configuration file, or `$XDG_DATA_HOME/cutter` (`~/.local/share/cutter`).
//!
//! Database connections come from the environment or the file, never from a flag: flags
//! show in every process list.

mod place;
mod section;
mod template;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use cutter_core::base::limits::ACTOR_MAX_BYTES;
use cutter_core::machine::run::Phase;
use cutter_core::record::backup::BackupScope;
use cutter_kb::object_store::KbUrl;
use cutter_kb::openpgp::Fingerprint;
use cutter_pg::dsn::Dsn;
use cutter_pg::login::Login;

use self::section::Section;
pub(crate) use self::template::{actor_block, template};
use crate::failure::Failure;
use crate::files::read_text;

/// The variables that `cutter` reads; `doctor` names any other `CUTTER_*`.
pub(crate) const VARIABLES: &[(&str, &str)] = &[
    ("CUTTER_CONFIG", "configuration file"),
    ("CUTTER_HOME", "home folder"),
    ("CUTTER_RUNS", "where the state of runs is: file or pg"),
    ("CUTTER_RUNS_DIR", "folder of the runs"),
    ("CUTTER_KB_DIR", "folder of the knowledge base"),
    ("CUTTER_KB", "URL of the knowledge base"),
    ("CUTTER_BACKUP_URL", "URL of the place of backups"),
    ("CUTTER_ACTOR", "who operates"),
    ("CUTTER_DSN_READER", "connection of the login that reads"),
    ("CUTTER_DSN_EXECUTOR", "connection of the login that cuts and enacts"),
    ("CUTTER_DSN_VERIFIER", "connection of the login that verifies"),
    ("CUTTER_DSN_REVIEWER", "connection of the login that stores decisions"),
    ("CUTTER_DSN_ADMIN", "connection for migrations"),
    ("CUTTER_PG_BIN", "folder of initdb, pg_ctl and postgres"),
];

/// What the flags say, before anything else does.
#[derive(Debug, Clone, Default)]
pub(crate) struct Overrides {
    pub(crate) config: Option<PathBuf>,
    pub(crate) home: Option<PathBuf>,
    pub(crate) actor: Option<String>,
}

/// Where the state of runs is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub(crate) enum RunsIn {
    /// In folders below `runs_dir`.
    #[default]
    File,
    /// In the database, where every worker reaches it.
    Pg,
}

impl RunsIn {
    /// As the configuration writes it.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::File => "file",
            Self::Pg => "pg",
        }
    }

    fn parse(text: &str) -> Option<Self> {
        [Self::File, Self::Pg].into_iter().find(|place| place.as_str() == text)
    }
}

/// A person: who they are is their key (D31).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Actor {
    /// Primary key fingerprint.
    pub(crate) fingerprint: Fingerprint,
    /// File of the public key.
    pub(crate) public_key: PathBuf,
    /// Whether this person may approve.
    pub(crate) is_sovereign: bool,
}

/// Key files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct KeyFiles {
    /// Ed25519 seed of the executor, 64 hex digits.
    pub(crate) executor: PathBuf,
    /// Ed25519 seed of the verifier.
    pub(crate) verifier: PathBuf,
    /// The operator's secret OpenPGP key.
    pub(crate) operator: PathBuf,
    /// The backup recipient's public key.
    pub(crate) backup_public: PathBuf,
    /// Its pinned fingerprint; IG_backup compares.
    pub(crate) backup_fingerprint: Option<Fingerprint>,
}

/// Rules for approvals (D14).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Approvals {
    /// Whether an approval must be signed.
    pub(crate) must_be_signed: bool,
    /// Whether the creator of a run may approve it.
    pub(crate) creator_may_approve: bool,
    /// Who is expected to sign at SG2; else the first sovereign.
    pub(crate) lifecycle_actor: Option<String>,
}

/// Bounds of a run (D34).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Bounds {
    pub(crate) max_candidates: Option<u64>,
    pub(crate) max_document_bytes: Option<u64>,
    pub(crate) run_hard_cap_minutes: Option<u32>,
    pub(crate) phase_soft_cap_minutes: BTreeMap<String, u32>,
    pub(crate) forbidden_prefixes: Vec<String>,
}

/// Commands that are told about gates and stops.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Hooks {
    pub(crate) on_gate: Vec<String>,
    pub(crate) on_stop: Vec<String>,
}

/// Everything, resolved.
#[derive(Debug, Clone)]
pub(crate) struct Config {
    /// The file that was read, if there was one.
    pub(crate) file: Option<PathBuf>,
    /// Where the file is, or would be.
    pub(crate) file_path: PathBuf,
    pub(crate) home: PathBuf,
    /// Where the state of runs is.
    pub(crate) runs: RunsIn,
    /// How long a run in the database is its driver's without a sign of life.
    pub(crate) run_lease: Duration,
    pub(crate) runs_dir: PathBuf,
    /// The folder of the knowledge base, where it is one.
    pub(crate) kb_dir: PathBuf,
    /// The knowledge base in an object store.
    pub(crate) kb_url: Option<KbUrl>,
    /// Backups in an object store instead of the runs' folders.
    pub(crate) backup_url: Option<KbUrl>,
    pub(crate) actor: String,
    /// Connections by login; empty for the private database.
    pub(crate) dsns: BTreeMap<Login, Dsn>,
    pub(crate) pg_bin: Option<PathBuf>,
    pub(crate) keys: KeyFiles,
    pub(crate) actors: BTreeMap<String, Actor>,
    pub(crate) approvals: Approvals,
    pub(crate) bounds: Bounds,
    pub(crate) backup_scope: BackupScope,
    pub(crate) hooks: Hooks,
}

impl Config {
    /// Reads flags, environment and file.
    pub(crate) fn load(flags: &Overrides, env: &dyn Fn(&str) -> Option<String>) -> Result<Self, Failure> {
        let named = flags.config.clone().or_else(|| env("CUTTER_CONFIG").map(PathBuf::from));
        let home = match flags.home.clone().or_else(|| env("CUTTER_HOME").map(PathBuf::from)) {
            Some(home) => home,
            None => match named.as_deref().and_then(Path::parent) {
                Some(folder) => folder.to_owned(),
                None => default_home(env)?,
            },
        };
        let home = absolute(&home)?;
        let file_path = match &named {
            Some(path) => absolute(path)?,
            None => home.join("cutter.toml"),
        };
        let text = if named.is_none() && !file_path.exists() {
            None
        } else {
            Some(read_text(&file_path).map_err(|e| e.next("cutter init"))?)
        };
        let mut root = Section::parse(&file_path, text.as_deref().unwrap_or_default())?;
        let mut config = Self::read(&mut root, &home, &file_path, env)?;
        root.finish()?;
        config.file = text.map(|_| file_path.clone());
        if let Some(actor) = flags.actor.clone().or_else(|| env("CUTTER_ACTOR")) {
            config.actor = actor;
        }
        check_actor(&config.actor)?;
        if !config.dsns.is_empty() && !config.dsns.contains_key(&Login::Ro) && !config.is_review_host() {
            return Err(Failure::usage("connections are configured, but none for the login that reads")
                .broken("config.database.reader", "database.reader or CUTTER_DSN_READER", "nothing"));
        }
        Ok(config)
    }

    fn read(
        root: &mut Section<'_>,
        home: &Path,
        file_path: &Path,
        env: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Self, Failure> {
        let var_path = |name: &str| env(name).map(PathBuf::from);
        let runs_dir = root.path("runs_dir")?;
        let runs = read_runs(root, env)?;
        let (kb_dir, kb_url) = place::knowledge_base(root, file_path, env)?;
        let actor = root.string("actor")?;
        let mut database = root.section("database")?;
        let mut dsns = BTreeMap::new();
        for (login, key, variable) in [
            (Login::Ro, "reader", "CUTTER_DSN_READER"),
            (Login::Exec, "executor", "CUTTER_DSN_EXECUTOR"),
            (Login::Verify, "verifier", "CUTTER_DSN_VERIFIER"),
            (Login::Review, "reviewer", "CUTTER_DSN_REVIEWER"),
            (Login::Admin, "admin", "CUTTER_DSN_ADMIN"),
        ] {
            let from_file = match &mut database {
                Some(section) => section.string(key)?,
                None => None,
            };
            if let Some(text) = env(variable) {
                dsns.insert(login, dsn(variable, &text)?);
            } else if let Some(text) = from_file {
                dsns.insert(login, dsn(&format!("{}: database.{key}", file_path.display()), &text)?);
            }
        }
        let mut pg_bin = var_path("CUTTER_PG_BIN");
        if let Some(mut section) = database {
            let from_file = section.path("bin")?;
            pg_bin = pg_bin.or(from_file);
            section.finish()?;
        }
        let (backup_scope, backup_url) = place::backup(root, file_path, env)?;
        Ok(Self {
            file: None,
            file_path: file_path.to_owned(),
            home: home.to_owned(),
            runs,
            run_lease: Duration::from_secs(30),
            runs_dir: var_path("CUTTER_RUNS_DIR").or(runs_dir).unwrap_or_else(|| home.join("runs")),
            kb_dir: kb_dir.unwrap_or_else(|| home.join("kb")),
            kb_url,
            actor: actor
                .or_else(|| env("USER"))
                .or_else(|| env("LOGNAME"))
                .unwrap_or_else(|| "operator".into()),
            dsns,
            pg_bin,
            keys: read_keys(root, home)?,
            actors: read_actors(root, home)?,
            approvals: read_approvals(root)?,
            bounds: read_bounds(root)?,
            backup_scope,
            backup_url,
            hooks: read_hooks(root)?,
        })
    }

    /// Whether the private database is used.
    pub(crate) fn is_private_database(&self) -> bool {
        self.dsns.is_empty()
    }

    /// Whether this host has the reviewer's login and none that cuts or verifies: it stores decisions, and
    /// drives no run.
    pub(crate) fn is_review_host(&self) -> bool {
        let has = |login| self.dsns.contains_key(&login);
        has(Login::Review) && !has(Login::Exec) && !has(Login::Verify)
    }

    /// The people who may approve.
    pub(crate) fn sovereigns(&self) -> impl Iterator<Item = (&String, &Actor)> {
        self.actors.iter().filter(|(_, actor)| actor.is_sovereign)
    }

    /// The name of the person with this key.
    pub(crate) fn actor_of(&self, fingerprint: &str) -> Option<&str> {
        let found = self.actors.iter().find(|(_, actor)| actor.fingerprint.as_str() == fingerprint);
        found.map(|(name, _)| name.as_str())
    }
}

fn default_home(env: &dyn Fn(&str) -> Option<String>) -> Result<PathBuf, Failure> {
    if let Some(data) = env("XDG_DATA_HOME").filter(|d| Path::new(d).is_absolute()) {
        return Ok(PathBuf::from(data).join("cutter"));
    }
    let home = env("HOME").filter(|h| !h.is_empty()).ok_or_else(|| {
        Failure::usage("no home folder: neither --home, CUTTER_HOME, XDG_DATA_HOME nor HOME is set")
    })?;
    Ok(PathBuf::from(home).join(".local/share/cutter"))
}

fn absolute(path: &Path) -> Result<PathBuf, Failure> {
    std::path::absolute(path).map_err(|e| Failure::io("resolve", path, &e))
}

/// Connection strings never reach a message, not even a wrong one: the parser's reasons
/// hold none of the text.
fn dsn(place: &str, text: &str) -> Result<Dsn, Failure> {
    Dsn::parse(text).map_err(|why| {
        Failure::usage(format!("{place}: the connection string cannot be used: {why}")).broken(
            "config.dsn",
            "postgres://LOGIN:PASSWORD@HOST:PORT/DATABASE or key=value pairs",
            "another text (not shown)",
        )
    })
}

fn check_actor(actor: &str) -> Result<(), Failure> {
    let is_word = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '.' | '@' | ' ');
    if actor.is_empty()
        || actor.len() > ACTOR_MAX_BYTES
        || !actor.chars().all(is_word)
        || actor.trim() != actor
    {
        let expected = format!("1 to {ACTOR_MAX_BYTES} bytes of letters, digits, blanks and - _ . @");
        return Err(Failure::usage("the actor's name cannot be used").broken(
            "config.actor",
            expected,
            actor,
        ));
    }
    Ok(())
}

/// `runs`, by variable or file.
fn read_runs(root: &mut Section<'_>, env: &dyn Fn(&str) -> Option<String>) -> Result<RunsIn, Failure> {
    let from_file = match root.string("runs")? {
        None => RunsIn::default(),
        Some(text) => RunsIn::parse(&text).ok_or_else(|| root.refuse("runs", "file or pg"))?,
    };
    match env("CUTTER_RUNS") {
        None => Ok(from_file),
        Some(text) => RunsIn::parse(&text).ok_or_else(|| {
            Failure::usage("CUTTER_RUNS cannot be used").broken("config.runs", "file or pg", text)
        }),
    }
}

fn fingerprint(section: &mut Section<'_>, key: &'static str) -> Result<Option<Fingerprint>, Failure> {
    match section.string(key)? {
        None => Ok(None),
        Some(text) => match text.parse() {
            Ok(fingerprint) => Ok(Some(fingerprint)),
            Err(_) => Err(section.refuse(key, "40 or 64 hexadecimal digits")),
        },
    }
}

fn read_keys(root: &mut Section<'_>, home: &Path) -> Result<KeyFiles, Failure> {
    let folder = home.join("keys");
    let mut keys = KeyFiles {
        executor: folder.join("executor.seed"),
        verifier: folder.join("verifier.seed"),
        operator: folder.join("operator.secret.asc"),
        backup_public: folder.join("backup.public.asc"),
        backup_fingerprint: None,
    };
    if let Some(mut section) = root.section("keys")? {
        for (key, place) in [
            ("executor", &mut keys.executor),
            ("verifier", &mut keys.verifier),
            ("operator", &mut keys.operator),
            ("backup_recipient", &mut keys.backup_public),
        ] {
            if let Some(path) = section.path(key)? {
                *place = path;
            }
        }
        keys.backup_fingerprint = fingerprint(&mut section, "backup_fingerprint")?;
        section.finish()?;
    }
    Ok(keys)
}

fn read_actors(root: &mut Section<'_>, home: &Path) -> Result<BTreeMap<String, Actor>, Failure> {
    let mut actors = BTreeMap::new();
    let Some(section) = root.section("actors")? else { return Ok(actors) };
    for (name, mut section) in section.named()? {
        check_actor(&name)?;
        let fingerprint = fingerprint(&mut section, "fingerprint")?
            .ok_or_else(|| section.refuse("fingerprint", "the fingerprint of this person's key"))?;
        let public_key = section
            .path("public_key")?
            .unwrap_or_else(|| home.join("keys").join(format!("{name}.public.asc")));
        let is_sovereign = match section.string("role")?.as_deref() {
            Some("sovereign") => true,
            Some("operator") | None => false,
            Some(_) => return Err(section.refuse("role", "operator or sovereign")),
        };
        section.finish()?;
        actors.insert(name, Actor { fingerprint, public_key, is_sovereign });
    }
    Ok(actors)
}

fn read_approvals(root: &mut Section<'_>) -> Result<Approvals, Failure> {
    let mut approvals = Approvals { must_be_signed: true, creator_may_approve: false, lifecycle_actor: None };
    if let Some(mut section) = root.section("approval")? {
        approvals.must_be_signed = match section.string("signatures")?.as_deref() {
            None | Some("required") => true,
            Some("optional") => false,
            Some(_) => return Err(section.refuse("signatures", "required or optional")),
        };
        approvals.creator_may_approve = section.boolean("creator_may_approve")?.unwrap_or(false);
        approvals.lifecycle_actor = section.string("lifecycle_actor")?;
        section.finish()?;
    }
    Ok(approvals)
}

fn minutes(section: &Section<'_>, key: &str, n: u64) -> Result<u32, Failure> {
    u32::try_from(n).map_err(|_| section.refuse(key, "a number of minutes"))
}

fn read_bounds(root: &mut Section<'_>) -> Result<Bounds, Failure> {
    let mut bounds = Bounds::default();
    let Some(mut section) = root.section("limits")? else { return Ok(bounds) };
    bounds.max_candidates = section.number("max_candidates")?;
    bounds.max_document_bytes = section.number("max_document_bytes")?;
    if let Some(n) = section.number("run_hard_cap_minutes")? {
        bounds.run_hard_cap_minutes = Some(minutes(&section, "run_hard_cap_minutes", n)?);
    }
    bounds.forbidden_prefixes = section.strings("forbidden_prefixes")?.unwrap_or_default();
    if let Some(caps) = section.section("phase_soft_cap_minutes")? {
        let names: Vec<&'static str> = Phase::ALL.iter().map(|p| p.as_str()).collect();
        for (name, n) in caps.numbers(&names)? {
            bounds.phase_soft_cap_minutes.insert(name.to_owned(), minutes(&section, name, n)?);
        }
    }
    section.finish()?;
    Ok(bounds)
}

fn read_hooks(root: &mut Section<'_>) -> Result<Hooks, Failure> {
    let Some(mut section) = root.section("hooks")? else { return Ok(Hooks::default()) };
    let hooks = Hooks {
        on_gate: section.strings("on_gate")?.unwrap_or_default(),
        on_stop: section.strings("on_stop")?.unwrap_or_default(),
    };
    section.finish()?;
    Ok(hooks)
}

#[cfg(test)]
mod tests;
