//! `cutter policy`: the rules, and how an event gets into the database's chain.

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand, ValueEnum};
use cutter_core::base::limits::POLICY_EVENT_MAX_BYTES;
use cutter_core::machine::run::GateId;
use cutter_core::record::approval::SignaturePolicy;
use cutter_core::record::policy::{Chain, Change};
use serde_json::json;

use crate::config::Config;
use crate::context::Context;
use crate::failure::{Failure, Outcome};
use crate::files::{read_bounded, read_text};
use crate::render::{self, GOOD, HEAD, WARN, paint};
use crate::wire::policy::{Appended, Book, Draft};
use crate::wire::{self};

/// The rules for approvals, which the database holds: show, set, append.
///
/// Every change is an event that an approver signs; an administrator's event without a signature
/// is a new founding, which every request, `doctor` and `verify` name from then on.
#[derive(Debug, Args)]
pub(crate) struct PolicyArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Show who may approve, the rules, the duties' keys, and the events behind them.
    #[command(after_help = "Examples:\n  cutter policy show\n  cutter policy show --json | jq .events")]
    Show,
    Set(SetArgs),
    /// Append an event that was signed elsewhere: the text that another command printed.
    #[command(after_help = "Examples:\n  cutter policy append event.txt.asc --public-key bob.asc")]
    Append {
        /// The signed event.
        file: PathBuf,
        /// A public key that the event names; as often as needed.
        #[arg(long, value_name = "FILE")]
        public_key: Vec<PathBuf>,
    },
}

/// Set rules.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  cutter policy set --signature required --key sue.secret.asc
  cutter policy set --answers-valid-hours 48 --key sue.secret.asc
  cutter policy set --may-answer SG_lifecycle_authz=sue
  cutter policy set --approvals-needed SG_cut_authz=2")]
pub(crate) struct SetArgs {
    /// Whether an approval must be signed.
    #[arg(long, value_enum)]
    signature: Option<Signature>,
    /// Whether the creator of a run may approve it.
    #[arg(long, value_enum)]
    creator: Option<Creator>,
    /// So many hours after its request an answer may be used; 0: as long as it says.
    #[arg(long, value_name = "HOURS")]
    answers_valid_hours: Option<u32>,
    /// At a gate only this approver, and others who are named, may answer.
    #[arg(long, value_name = "GATE=NAME")]
    may_answer: Vec<String>,
    /// At a gate every approver may answer.
    #[arg(long, value_name = "GATE")]
    anyone_may_answer: Vec<GateId>,
    /// At the gate of the cut or of enactment so many different people must approve.
    #[arg(long, value_name = "GATE=N")]
    approvals_needed: Vec<String>,
    #[command(flatten)]
    word: Word,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Signature {
    Required,
    Optional,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Creator {
    MayApprove,
    MayNotApprove,
}

/// Whose word a change is.
#[derive(Debug, Args)]
pub(crate) struct Word {
    /// Sign with this secret OpenPGP key of an approver; without it, the text to sign is printed.
    #[arg(long, value_name = "FILE")]
    pub(crate) key: Option<PathBuf>,
    /// Append without a signature, by the administrator's word alone: a new founding, of which
    /// everybody who relies on the policy is told.
    #[arg(long, conflicts_with = "key")]
    pub(crate) without_signature: bool,
    /// Why, in one line, for whoever reads the events later.
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub(crate) why: String,
}

pub(crate) fn run(cx: &Context, args: &PolicyArgs) -> Outcome {
    let config = cx.config()?;
    match &args.command {
        Command::Show => show(cx, &config),
        Command::Set(args) => {
            let draft = Draft { changes: rules(args)?, keys: Vec::new() };
            write(cx, &config, draft, &args.word)
        }
        Command::Append { file, public_key } => append(cx, &config, file, public_key),
    }
}

fn rules(args: &SetArgs) -> Result<Vec<Change>, Failure> {
    let mut changes = Vec::new();
    changes.extend(args.signature.map(|signature| {
        Change::Signature(match signature {
            Signature::Required => SignaturePolicy::Required,
            Signature::Optional => SignaturePolicy::Optional,
        })
    }));
    changes.extend(
        args.creator.map(|creator| Change::Creator { may_approve: matches!(creator, Creator::MayApprove) }),
    );
    changes.extend(
        args.answers_valid_hours
            .map(|hours| Change::AnswersValid { hours: Some(hours).filter(|hours| *hours > 0) }),
    );
    changes.extend(args.anyone_may_answer.iter().map(|gate| Change::AnyoneMayAnswer { gate: *gate }));
    for said in &args.may_answer {
        let parts = said.split_once('=').and_then(|(gate, name)| Some((gate.parse().ok()?, name)));
        let (gate, name) = parts.ok_or_else(|| {
            Failure::usage("--may-answer cannot be read").broken(
                "policy.may_answer",
                "SG_cut_authz, SG_lifecycle_authz or SG_failure_escalation, `=`, and a name",
                said.as_str(),
            )
        })?;
        changes.push(Change::MayAnswer { gate, person: name.to_owned() });
    }
    for said in &args.approvals_needed {
        let change = said.split_once('=').map(|(gate, people)| format!("approvals_needed {gate} {people}"));
        changes.push(change.and_then(|change| change.parse().ok()).ok_or_else(|| {
            Failure::usage("--approvals-needed cannot be read").broken(
                "policy.approvals_needed",
                "SG_cut_authz or SG_lifecycle_authz, `=`, and a number from 1",
                said.as_str(),
            )
        })?);
    }
    if changes.is_empty() {
        return Err(Failure::usage("nothing to set").next("cutter policy set --help"));
    }
    Ok(changes)
}

/// Appends a draft by the word that was given, or prints the text to sign.
pub(crate) fn write(cx: &Context, config: &Config, draft: Draft, word: &Word) -> Outcome {
    let book = Book::read(config)?;
    if book.is_empty() {
        return Err(Failure::usage("this database holds no policy yet").next("cutter approver import"));
    }
    let text = book.event(draft.changes, &word.why)?.text();
    let document = match &word.key {
        Some(path) => {
            let pair = wire::load_pair(path)?;
            pair.clearsign(&text, wire::now())
                .map_err(|e| Failure::usage(format!("{}: {e}", path.display())))?
        }
        None if word.without_signature || !book.has_approvers()? => text.clone(),
        None => return to_sign(cx, &text, draft.keys.len()),
    };
    done(cx, &book.append(config, &document, draft.keys)?)
}

/// Nothing is changed: the text to sign, and how to go on.
fn to_sign(cx: &Context, text: &str, keys: usize) -> Outcome {
    let public_keys = " --public-key FILE".repeat(keys);
    let next = [
        "save this text as event.txt".to_owned(),
        "an approver signs it: gpg --clearsign event.txt".to_owned(),
        format!("cutter policy append event.txt.asc{public_keys}"),
    ];
    let exit = cx.out.result(|| text.to_owned(), &json!({ "to_sign": text, "next": next }))?;
    cx.out.note("nothing is changed yet: an approver signs this text, or says it with --key FILE");
    for (n, step) in next.iter().enumerate() {
        cx.out.note(format!("{} {step}", if n == 0 { "next:" } else { "then:" }));
    }
    Ok(exit)
}

fn done(cx: &Context, appended: &Appended) -> Outcome {
    let people = || {
        let mut text = format!("{} policy event {}\n", paint(GOOD, "recorded"), appended.seq);
        for notice in &appended.notices {
            text.push_str(&format!("{} {notice}\n", paint(WARN, "notice")));
        }
        text.push_str(&format!("{} cutter policy show\n", paint(HEAD, "next:")));
        text
    };
    cx.out.result(people, appended)
}

fn append(cx: &Context, config: &Config, file: &Path, public_keys: &[PathBuf]) -> Outcome {
    let document = read_bounded(file, POLICY_EVENT_MAX_BYTES as u64)?;
    let document =
        String::from_utf8(document).map_err(|e| Failure::usage(format!("{}: {e}", file.display())))?;
    let mut draft = Draft::default();
    for path in public_keys {
        draft.key(&wire::load_public(path)?)?;
    }
    let book = Book::read(config)?;
    done(cx, &book.append(config, &document, draft.keys)?)
}

/// The lines of a chain for people.
pub(crate) fn lines(chain: &Chain) -> String {
    let now = chain.now();
    let rules: Vec<(String, String)> = now.lines();
    let mut text = render::table(&["", ""], rules.into_iter().map(|(k, v)| vec![k, v]).collect());
    let rows = chain.links().iter().map(|link| {
        let who = link.signer.as_ref().map_or("the administrator", |(person, _)| person.as_str());
        let changes: Vec<String> = link.event.changes.iter().map(ToString::to_string).collect();
        let first = changes.first().cloned().unwrap_or_default();
        let more = changes.len().saturating_sub(1);
        let what = if more > 0 { format!("{first} and {more} more") } else { first };
        vec![link.event.seq.to_string(), link.recorded_at.to_string(), who.to_owned(), what]
    });
    text.push_str(&render::table(&["event", "recorded", "word of", "what"], rows.collect()));
    for notice in chain.notices() {
        text.push_str(&format!("{} {notice}\n", paint(WARN, "notice")));
    }
    text
}

fn show(cx: &Context, config: &Config) -> Outcome {
    let chain = wire::policy::chain(config)?;
    if chain.is_empty() {
        return Err(Failure::usage("this database holds no policy yet").next("cutter approver import"));
    }
    let now = chain.now();
    let events: Vec<_> = chain
        .links()
        .iter()
        .map(|link| {
            json!({
                "seq": link.event.seq, "sha256": link.sha256, "recorded_at": link.recorded_at,
                "signer": link.signer.as_ref().map(|(person, _)| person),
                "fingerprint": link.signer.as_ref().map(|(_, fingerprint)| fingerprint),
                "why": link.event.why,
                "changes": link.event.changes.iter().map(ToString::to_string).collect::<Vec<_>>(),
            })
        })
        .collect();
    let machine = json!({
        "head": chain.head(), "approvers": now.approvers(),
        "rules": now.lines().into_iter().map(|(k, v)| json!([k, v])).collect::<Vec<_>>(),
        "events": events, "notices": chain.notices(),
    });
    cx.out.result(|| lines(&chain), &machine)
}

/// A file with a secret of an approver in this home, if there is one whom the policy knows.
pub(crate) fn own_approver_key(config: &Config, chain: &Chain) -> Option<PathBuf> {
    let now = chain.now();
    let path = |name: &&str| config.home.join("keys").join(format!("{name}.secret.asc"));
    now.approvers().iter().map(path).find(|path| {
        let pair = read_text(path).ok().and_then(|_| wire::load_pair(path).ok());
        pair.is_some_and(|pair| now.key(pair.fingerprint().as_str()).is_some_and(|k| k.is_active))
    })
}
