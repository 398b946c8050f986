//! `cutter init`: everything that a deployment needs, made once, kept afterwards.

use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use clap::Args;
use cutter_core::record::policy::Change;
use cutter_kb::openpgp::{KeyKind, KeyPair};
use serde_json::json;

use crate::commands::db;
use crate::commands::policy::own_approver_key;
use crate::config::{Config, RunsIn, actor_block, template};
use crate::context::Context;
use crate::failure::{Failure, Outcome};
use crate::files::read_text;
use crate::render::{self, GOOD, HEAD, paint};
use crate::wire;

/// Make the home folder, keys, cutter.toml and the private database.
///
/// Idempotent: what is there is kept, what is missing is made. Keys: Ed25519 seeds for
/// executor and verifier, the operator's OpenPGP key, the OpenPGP pair that receives
/// backups, and with `--sovereign` a person who may approve. Where the sovereign is somebody
/// else, register their public key with `--public-key`: their secret key then never touches
/// this machine.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  cutter init
  cutter init --sovereign sue
  cutter init --sovereign sue --public-key sue.asc
  cutter init --no-database --home /srv/cutter
  cutter init --runs pg")]
pub(crate) struct InitArgs {
    /// Add a person who may approve; makes a key unless --public-key gives one.
    #[arg(long, value_name = "NAME")]
    pub(crate) sovereign: Option<String>,
    /// The sovereign's public OpenPGP key.
    #[arg(long, value_name = "FILE", requires = "sovereign")]
    pub(crate) public_key: Option<PathBuf>,
    /// Do not make or migrate a database.
    #[arg(long)]
    pub(crate) no_database: bool,
    /// Where the state of runs is: `file`, in this home, or `pg`, in the database, where several
    /// workers share it. Written into a new cutter.toml.
    #[arg(long, value_name = "WHERE")]
    pub(crate) runs: Option<RunsIn>,
}

/// One thing that init looks after.
#[derive(Debug, serde::Serialize)]
pub(crate) struct Made {
    pub(crate) what: &'static str,
    pub(crate) path: PathBuf,
    pub(crate) made: bool,
}

pub(crate) fn run(cx: &Context, args: &InitArgs) -> Outcome {
    let made = init(cx, args)?;
    let config = cx.config()?;
    let people = || {
        let rows = made.iter().map(|m| {
            let word = if m.made { "made" } else { "kept" };
            vec![word.to_owned(), m.what.to_owned(), m.path.display().to_string()]
        });
        let mut text = render::table(&["", "what", "where"], rows.collect());
        text.push_str(&format!("{} {}\n", paint(GOOD, "ready"), config.home.display()));
        for (i, next) in next(&config).iter().enumerate() {
            text.push_str(&format!("{} {next}\n", paint(HEAD, if i == 0 { "next:" } else { "then:" })));
        }
        text
    };
    let machine =
        json!({ "home": config.home, "config": config.file_path, "made": made, "next": next(&config) });
    cx.out.result(people, &machine)
}

fn next(config: &Config) -> Vec<String> {
    let mut next = Vec::new();
    if config.sovereigns().next().is_none() {
        next.push("cutter init --sovereign NAME".to_owned());
    }
    next.push("cutter doctor".to_owned());
    next.push("cutter source add FILE --document-id ID".to_owned());
    next
}

/// Makes what is missing.
pub(crate) fn init(cx: &Context, args: &InitArgs) -> Result<Vec<Made>, Failure> {
    let config = cx.config()?;
    if let Some(wanted) = args.runs.filter(|wanted| config.file.is_some() && *wanted != config.runs) {
        let (wanted, found) = (wanted.as_str(), config.runs.as_str());
        return Err(Failure::usage("where the state of runs is was settled before")
            .broken("config.runs", wanted, found)
            .next(format!(
                "set runs = \"{wanted}\" in {}, once no run is open",
                config.file_path.display()
            )));
    }
    let mut made = Vec::new();
    folder(&config.home, "home", wire::home_mode(&config), &mut made)?;
    let keys = config.home.join("keys");
    folder(&keys, "keys", 0o700, &mut made)?;
    folder(&config.runs_dir, "runs", 0o700, &mut made)?;
    if config.kb_url.is_none() {
        folder(&config.kb_dir, "knowledge base", 0o700, &mut made)?;
    }
    seed(&config.keys.executor, "executor key", &mut made)?;
    seed(&config.keys.verifier, "verifier key", &mut made)?;
    let operator_public = keys.join("operator.public.asc");
    pair(&config.actor, KeyKind::Sign, &config.keys.operator, &operator_public, "operator key", &mut made)?;
    let backup_secret = keys.join("backup.secret.asc");
    if config.keys.backup_public.exists() {
        made.push(Made { what: "backup key", path: config.keys.backup_public.clone(), made: false });
    } else {
        let what = "backup key";
        pair("cutter backup", KeyKind::Encrypt, &backup_secret, &config.keys.backup_public, what, &mut made)?;
    }
    configuration(&config, args.runs.unwrap_or(config.runs), &operator_public, &mut made)?;
    if let Some(name) = &args.sovereign {
        sovereign(cx, name, args.public_key.as_deref(), &mut made)?;
    }
    if !args.no_database {
        let config = cx.config()?;
        let applied = db::bring_up(&config)?;
        let path = if config.is_private_database() { config.home.join("pg") } else { config.home.clone() };
        made.push(Made { what: "database", path, made: !applied.is_empty() });
        let is_new = match &args.sovereign {
            None => wire::policy::found(&config)?.is_some(),
            Some(name) => admit(&config, name)?,
        };
        made.push(Made { what: "policy", path: config.file_path.clone(), made: is_new });
    }
    Ok(made)
}

/// Founds the policy, or lets a new approver into one: by an approver's key that this home has,
/// or by nobody's word where nobody may approve yet. `false` if they stand there already, or if
/// somebody else must sign: `cutter approver add` says so.
fn admit(config: &Config, name: &str) -> Result<bool, Failure> {
    if wire::policy::found(config)?.is_some() {
        return Ok(true);
    }
    let chain = wire::policy::chain(config)?;
    let Some(actor) = config.actors.get(name) else { return Ok(false) };
    if chain.now().key(actor.fingerprint.as_str()).is_some() {
        return Ok(false);
    }
    let mut draft = wire::policy::Draft::default();
    let key = draft.key(&wire::policy::pinned_key(name, actor)?)?;
    draft.changes.push(Change::ApproverAdded { person: name.to_owned(), key });
    let book = wire::policy::Book::read(config)?;
    let text = book.event(draft.changes, "cutter init")?.text();
    let document = match own_approver_key(config, &chain) {
        Some(path) => wire::load_pair(&path)?
            .clearsign(&text, wire::now())
            .map_err(|e| Failure::usage(format!("{}: {e}", path.display())))?,
        None if book.has_approvers()? => {
            return Err(Failure::usage(format!(
                "{name} is in cutter.toml, and may approve once an approver signs that"
            ))
            .next(format!("cutter approver add {name} --public-key {}", actor.public_key.display())));
        }
        None => text,
    };
    book.append(config, &document, draft.keys)?;
    Ok(true)
}

fn folder(path: &Path, what: &'static str, closed: u32, made: &mut Vec<Made>) -> Result<(), Failure> {
    let is_new = !path.exists();
    if is_new {
        std::fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(path)
            .map_err(|e| Failure::io("create", path, &e))?;
    } else if what == "home" || what == "keys" {
        let mode = std::fs::metadata(path).map_err(|e| Failure::io("read", path, &e))?.permissions().mode();
        if mode & 0o777 & !closed != 0 {
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(closed))
                .map_err(|e| Failure::io("close", path, &e))?;
        }
    }
    made.push(Made { what, path: path.to_owned(), made: is_new });
    Ok(())
}

/// A duty's seed, and beside it the public key for whoever verifies without secrets.
fn seed(path: &Path, what: &'static str, made: &mut Vec<Made>) -> Result<(), Failure> {
    let is_new = !path.exists();
    if is_new {
        wire::write_new_secret(path, &wire::new_seed())?;
    }
    let public = wire::public_half(path);
    if !public.exists() {
        let key = wire::hex(wire::read_seed(path)?.verifying_key().as_bytes());
        wire::write_public(&public, format!("{key}\n").as_bytes())?;
    }
    made.push(Made { what, path: path.to_owned(), made: is_new });
    Ok(())
}

/// A key pair: the secret first, so that no public key stands there without one.
fn pair(
    user_id: &str,
    kind: KeyKind,
    secret: &Path,
    public: &Path,
    what: &'static str,
    made: &mut Vec<Made>,
) -> Result<(), Failure> {
    let failed = |e: cutter_kb::openpgp::OpenPgpError| Failure::internal(format!("{what}: {e}"));
    let is_new = !secret.exists();
    if is_new {
        let pair = KeyPair::generate(user_id, kind).map_err(failed)?;
        wire::write_new_secret(secret, pair.secret_armored().map_err(failed)?.as_bytes())?;
    }
    if !public.exists() {
        let pair = wire::load_pair(secret)?;
        wire::write_public(public, pair.public().armored().map_err(failed)?.as_bytes())?;
    }
    made.push(Made { what, path: secret.to_owned(), made: is_new });
    Ok(())
}

fn configuration(
    config: &Config,
    runs: RunsIn,
    operator_public: &Path,
    made: &mut Vec<Made>,
) -> Result<(), Failure> {
    let is_new = config.file.is_none();
    if is_new {
        let backup = wire::load_public(&config.keys.backup_public)?;
        let operator = wire::load_public(operator_public)?;
        let mut text = template(&config.actor, backup.fingerprint().as_str(), runs);
        text.push_str(&actor_block(
            &config.actor,
            operator.fingerprint().as_str(),
            "keys/operator.public.asc",
            false,
        ));
        wire::write_new_secret(&config.file_path, text.as_bytes())?;
    }
    made.push(Made { what: "configuration", path: config.file_path.clone(), made: is_new });
    Ok(())
}

/// Adds a person who may approve to the configuration.
fn sovereign(
    cx: &Context,
    name: &str,
    public_key: Option<&Path>,
    made: &mut Vec<Made>,
) -> Result<(), Failure> {
    let config = cx.config()?;
    if config.actors.contains_key(name) {
        let path = config.file_path;
        if config.actors.get(name).is_some_and(|actor| actor.is_sovereign) {
            made.push(Made { what: "sovereign", path, made: false });
            return Ok(());
        }
        return Err(Failure::usage(format!("{name} is an operator in {}", path.display())).broken(
            "approval.not_creator",
            "another name than the operator's",
            name.to_owned(),
        ));
    }
    let is_word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '@');
    if name.is_empty() || name.starts_with(['.', '-']) || !name.chars().all(is_word) {
        return Err(Failure::usage("the sovereign's name cannot be used").broken(
            "config.actor",
            "letters, digits and - _ . @, beginning with neither . nor -",
            name,
        ));
    }
    let keys = config.home.join("keys");
    let public = keys.join(format!("{name}.public.asc"));
    match public_key {
        Some(given) => {
            let key = wire::load_public(given)?;
            key.check_usable(false, wire::now())
                .map_err(|e| Failure::usage(format!("{}: {e}", given.display())))?;
            let armored = key.armored().map_err(|e| Failure::usage(e.to_string()))?;
            wire::write_public(&public, armored.as_bytes())?;
            made.push(Made { what: "sovereign", path: public.clone(), made: true });
        }
        None => {
            let secret = keys.join(format!("{name}.secret.asc"));
            pair(name, KeyKind::Sign, &secret, &public, "sovereign key", made)?;
        }
    }
    let fingerprint = wire::load_public(&public)?.fingerprint();
    let mut text = read_text(&config.file_path)?;
    let relative = format!("keys/{name}.public.asc");
    let shown = if public.starts_with(config.file_path.parent().unwrap_or(Path::new(""))) {
        relative
    } else {
        public.display().to_string()
    };
    text.push_str(&actor_block(name, fingerprint.as_str(), &shown, true));
    wire::replace_secret(&config.file_path, text.as_bytes())
}
