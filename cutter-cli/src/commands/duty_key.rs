//! `cutter duty-key`: the keys that executor and verifier sign with.

use std::path::Path;

use clap::{Args, Subcommand, ValueEnum};
use cutter_core::record::policy::Change;
use cutter_core::record::signature::Duty;
use serde_json::json;

use crate::commands::policy::{self, Word};
use crate::config::Config;
use crate::context::Context;
use crate::failure::{Failure, Outcome};
use crate::render::{self, BAD, GOOD, paint};
use crate::wire;
use crate::wire::policy::Draft;

/// The keys of the duties: list, register, rotate.
///
/// A run signs with the key that is registered in the database and with no other; what an earlier
/// key signed stays signed.
#[derive(Debug, Args)]
pub(crate) struct DutyKeyArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Show the registered keys beside those of this home.
    #[command(after_help = "Examples:\n  cutter duty-key list")]
    List,
    /// Register the key of a duty that has none.
    #[command(after_help = "Examples:\n  cutter duty-key register executor --key sue.secret.asc")]
    Register(KeyArgs),
    /// Register another key for a duty: from now on it signs, and no other.
    #[command(after_help = "Examples:\n  cutter duty-key rotate executor --key sue.secret.asc")]
    Rotate(KeyArgs),
}

#[derive(Debug, Args)]
pub(crate) struct KeyArgs {
    /// Which duty.
    duty: DutyName,
    /// The public key, 64 hexadecimal digits [default: this home's].
    #[arg(long, value_name = "HEX")]
    public_key: Option<String>,
    #[command(flatten)]
    word: Word,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum DutyName {
    Executor,
    Verifier,
}

impl DutyName {
    const fn duty(self) -> Duty {
        match self {
            Self::Executor => Duty::Executor,
            Self::Verifier => Duty::Verifier,
        }
    }
}

pub(crate) fn run(cx: &Context, args: &DutyKeyArgs) -> Outcome {
    let config = cx.config()?;
    let change = |args: &KeyArgs, is_rotation: bool| {
        let duty = args.duty.duty();
        let public_key = match &args.public_key {
            Some(key) => key.to_ascii_lowercase(),
            None => {
                if let Some((what, fix)) = wire::public_half_differs(seed(&config, duty)) {
                    cx.out.warn(format!("{what}; the seed counts; fix: {fix}"));
                }
                own(&config, duty)?
            }
        };
        Ok::<_, Failure>(if is_rotation {
            Change::DutyKeyRotated { duty, public_key }
        } else {
            Change::DutyKeyRegistered { duty, public_key }
        })
    };
    let (change, word) = match &args.command {
        Command::List => return list(cx, &config),
        Command::Register(args) => (change(args, false)?, &args.word),
        Command::Rotate(args) => (change(args, true)?, &args.word),
    };
    policy::write(cx, &config, Draft { changes: vec![change], keys: Vec::new() }, word)
}

fn seed(config: &Config, duty: Duty) -> &Path {
    match duty {
        Duty::Executor => &config.keys.executor,
        Duty::Verifier => &config.keys.verifier,
    }
}

fn own(config: &Config, duty: Duty) -> Result<String, Failure> {
    wire::duty_public_key(seed(config, duty))
}

fn list(cx: &Context, config: &Config) -> Outcome {
    let chain = wire::policy::chain(config)?;
    let now = chain.now();
    let mut rows = Vec::new();
    let mut machine = Vec::new();
    for duty in [Duty::Executor, Duty::Verifier] {
        let (registered, here) = (now.duty_key(duty), own(config, duty).ok());
        let is_same = registered.is_none() || registered == here.as_deref();
        let word = match (registered, is_same) {
            (None, _) => "not registered".to_owned(),
            (_, true) => paint(GOOD, "signs"),
            (_, false) => paint(BAD, "would not sign: another key is registered"),
        };
        let differs = wire::public_half_differs(seed(config, duty));
        let word = match &differs {
            Some((what, fix)) => format!("{word}; {}; fix: {fix}", paint(BAD, what)),
            None => word,
        };
        let shown = |key: Option<&str>| key.unwrap_or("none").to_owned();
        rows.push(vec![duty.as_str().to_owned(), shown(registered), shown(here.as_deref()), word]);
        machine.push(json!({
            "duty": duty.as_str(), "registered": registered, "here": here, "signs": is_same,
            "public_file": differs.map(|(what, fix)| json!({ "what": what, "fix": fix })),
            "earlier": now.duty_keys.iter().filter(|k| k.duty == duty).map(|k| &k.public_key).collect::<Vec<_>>(),
        }));
    }
    cx.out.result(|| render::table(&["duty", "registered", "here", ""], rows), &json!({ "keys": machine }))
}
