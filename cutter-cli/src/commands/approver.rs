//! `cutter approver`: who may approve.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use cutter_core::record::policy::{Chain, Change};
use jiff::Timestamp;
use serde_json::json;

use crate::commands::policy::{self, Word};
use crate::config::{Config, Overrides};
use crate::context::Context;
use crate::exit_code::Exit;
use crate::failure::{Failure, Outcome};
use crate::render::{self, BAD, GOOD, HEAD, paint};
use crate::wire;
use crate::wire::policy::{Book, Draft};

/// Who may approve: add, retire, revoke, list, import.
///
/// The database holds it, as signed events; the administrator's connection writes them. What
/// cutter.toml says of people is for display.
#[derive(Debug, Args)]
pub(crate) struct ApproverArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Let somebody approve, or give an approver another key.
    #[command(after_help = "\
Examples:
  cutter approver add bob --public-key bob.asc --key sue.secret.asc
  cutter approver add bob --public-key bob.asc
  cutter approver add bob --public-key bob.asc --without-signature")]
    Add {
        /// The person's name, as approvals write it.
        name: String,
        /// Their public OpenPGP key.
        #[arg(long, value_name = "FILE")]
        public_key: PathBuf,
        #[command(flatten)]
        word: Word,
    },
    /// Let somebody approve no more. What they approved stays approved.
    #[command(after_help = "Examples:\n  cutter approver retire bob --why 'left' --key sue.secret.asc")]
    Retire {
        /// The person's name.
        name: String,
        #[command(flatten)]
        word: Word,
    },
    /// Say that somebody else may have a key: what was recorded after that time is not to be believed.
    #[command(after_help = "\
Examples:
  cutter approver revoke --fingerprint 0123… --since 2026-05-20T00:00:00Z --key sue.secret.asc")]
    Revoke {
        /// The key.
        #[arg(long, value_name = "HEX")]
        fingerprint: String,
        /// Since when.
        #[arg(long, value_name = "TIME")]
        since: Timestamp,
        #[command(flatten)]
        word: Word,
    },
    /// List who may approve, with which keys.
    #[command(after_help = "Examples:\n  cutter approver list\n  cutter approver list --json")]
    List,
    /// Take a configuration's people, rules and duty keys into a database that has no policy yet;
    /// where there is one, say what differs.
    #[command(after_help = "\
Examples:
  cutter approver import
  cutter approver import /srv/other/cutter.toml")]
    Import {
        /// The configuration [default: the own one].
        file: Option<PathBuf>,
        /// Found the policy anew by this configuration, by the administrator's word: what stood
        /// before approves no more, and everybody who relies on the policy is told.
        #[arg(long)]
        found_anew: bool,
    },
}

pub(crate) fn run(cx: &Context, args: &ApproverArgs) -> Outcome {
    let config = cx.config()?;
    match &args.command {
        Command::Add { name, public_key, word } => {
            let key = wire::load_public(public_key)?;
            key.check_usable(false, wire::now())
                .map_err(|e| Failure::usage(format!("{}: {e}", public_key.display())))?;
            let mut draft = Draft::default();
            let key = draft.key(&key)?;
            let stands = wire::policy::chain(&config)?.now().approvers().contains(&name.as_str());
            let person = name.clone();
            draft.changes.push(if stands {
                Change::KeyAdded { person, key }
            } else {
                Change::ApproverAdded { person, key }
            });
            policy::write(cx, &config, draft, word)
        }
        Command::Retire { name, word } => {
            let change = Change::ApproverRetired { since: wire::now(), person: name.clone() };
            policy::write(cx, &config, Draft { changes: vec![change], keys: Vec::new() }, word)
        }
        Command::Revoke { fingerprint, since, word } => {
            let now = wire::now();
            if *since > now {
                return Err(Failure::usage("--since lies ahead").broken(
                    "revoke.since",
                    format!("no later than now, {now}"),
                    since.to_string(),
                ));
            }
            let plain: String = fingerprint.split_whitespace().collect();
            let change = Change::KeyCompromised { since: *since, fingerprint: plain.to_ascii_uppercase() };
            policy::write(cx, &config, Draft { changes: vec![change], keys: Vec::new() }, word)
        }
        Command::List => list(cx, &config),
        Command::Import { file, found_anew } => import(cx, &config, file.as_ref(), *found_anew),
    }
}

fn list(cx: &Context, config: &Config) -> Outcome {
    let chain = wire::policy::chain(config)?;
    let now = chain.now();
    let standing = |k: &cutter_core::record::policy::PolicyKey| match (k.is_active, k.compromised_since) {
        (_, Some(since)) => format!("compromised since {since}"),
        (true, None) => "may approve".to_owned(),
        (false, None) => "approves nothing".to_owned(),
    };
    let machine: Vec<_> = now
        .keys
        .iter()
        .map(|k| {
            json!({
                "name": k.person, "kind": k.key.kind, "fingerprint": k.key.fingerprint,
                "may_approve": k.is_active, "compromised_since": k.compromised_since,
            })
        })
        .collect();
    let people = || {
        let rows = now
            .keys
            .iter()
            .map(|k| vec![k.person.clone(), k.key.kind.clone(), k.key.fingerprint.clone(), standing(k)]);
        render::table(&["name", "kind", "fingerprint", ""], rows.collect())
    };
    cx.out.result(people, &json!({ "head": chain.head(), "keys": machine, "notices": chain.notices() }))
}

fn import(cx: &Context, config: &Config, file: Option<&PathBuf>, found_anew: bool) -> Outcome {
    let source = match file {
        Some(file) => {
            let overrides = Overrides { config: Some(file.clone()), home: None, actor: None };
            // The file alone: what the environment says is about this home.
            Config::load(&overrides, &|name| wire::variable(name).filter(|_| name == "HOME"))?
        }
        None => config.clone(),
    };
    if source.file.is_none() {
        return Err(
            Failure::usage(format!("{} is not there", source.file_path.display())).next("cutter init")
        );
    }
    let book = Book::read(config)?;
    if !book.is_empty() && !found_anew {
        return compare(cx, &source, &wire::policy::chain(config)?);
    }
    let mut draft = Draft::founding(&source)?;
    if !book.is_empty() {
        keep_known(config, &mut draft);
    }
    let text = book.event(draft.changes, "")?.text();
    let appended = book.append(config, &text, draft.keys)?;
    let people = || {
        let mut text =
            format!("{} the policy is founded by {}\n", paint(GOOD, "ok"), source.file_path.display());
        for notice in &appended.notices {
            text.push_str(&format!("notice {notice}\n"));
        }
        text.push_str(&format!("{} cutter policy show\n", paint(HEAD, "next:")));
        text
    };
    cx.out.result(people, &appended)
}

/// A duty key that is registered is not registered again: another one is rotated.
fn keep_known(config: &Config, draft: &mut Draft) {
    let Ok(chain) = wire::policy::chain(config) else { return };
    let now = chain.now();
    draft.changes = std::mem::take(&mut draft.changes)
        .into_iter()
        .filter_map(|change| match change {
            Change::DutyKeyRegistered { duty, public_key } => match now.duty_key(duty) {
                None => Some(Change::DutyKeyRegistered { duty, public_key }),
                Some(standing) if standing == public_key => None,
                Some(_) => Some(Change::DutyKeyRotated { duty, public_key }),
            },
            // What is known and retired by the founding stays known as it is.
            Change::FormerKey { ref key, .. } if now.key(&key.fingerprint).is_some() => None,
            other => Some(other),
        })
        .collect();
}

/// What a configuration says otherwise than the database does.
fn compare(cx: &Context, source: &Config, chain: &Chain) -> Outcome {
    let draft = Draft::founding(source)?;
    let now = chain.now();
    let mut differs = Vec::new();
    for change in &draft.changes {
        let (what, observed) = match change {
            Change::ApproverAdded { person, key } => {
                let found = now.key(&key.fingerprint);
                if found.is_some_and(|k| k.is_active && k.person == *person) {
                    continue;
                }
                let observed = found.map_or("nobody's key".to_owned(), |k| {
                    if k.is_active {
                        format!("{}'s key", k.person)
                    } else {
                        format!("a key of {} that approves nothing", k.person)
                    }
                });
                (format!("{person} may approve with {}", key.fingerprint), observed)
            }
            Change::Signature(signature) if *signature != now.signature => {
                (change.to_string(), format!("{:?}", now.signature).to_lowercase())
            }
            Change::Creator { may_approve } if *may_approve != now.creator_may_approve => {
                (change.to_string(), "the other".to_owned())
            }
            Change::DutyKeyRegistered { duty, public_key } if now.duty_key(*duty) != Some(public_key) => {
                let observed = now.duty_key(*duty).unwrap_or("none").to_owned();
                (format!("{} signs with {public_key}", duty.as_str()), observed)
            }
            _ => continue,
        };
        differs.push((what, observed));
    }
    let rows: Vec<Vec<String>> = differs.iter().map(|(a, b)| vec![a.clone(), b.clone()]).collect();
    let exit = if differs.is_empty() { Exit::DONE } else { Exit::EVIDENCE };
    let people = || {
        if differs.is_empty() {
            return format!(
                "{} {} says what the database's policy says: nothing to import\n",
                paint(GOOD, "ok"),
                source.file_path.display()
            );
        }
        format!(
            "{} {} differs from the database's policy, which decides:\n{}{} cutter approver add NAME --public-key FILE\n",
            paint(BAD, "differs"),
            source.file_path.display(),
            render::table(&["the file says", "the database has"], rows.clone()),
            paint(HEAD, "next:")
        )
    };
    cx.out.result_as(exit, people, &json!({ "imported": false, "differs": differs }))
}
