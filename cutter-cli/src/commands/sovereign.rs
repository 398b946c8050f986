//! `cutter sovereign`: the approving human's side. Works from the knowledge base and a key
//! alone: no database, no run folder, nothing of the operator's.

mod answer;
mod text;

pub(crate) use answer::{Signing, answer};

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use clap::{Args, Subcommand, ValueEnum};
use cutter_core::base::digest::Digest;
use cutter_core::base::id::RunId;
use cutter_core::base::visible;
use cutter_core::driver::approval_prefix;
use cutter_core::machine::run::{GateId, Phase};
use cutter_core::operate::inspect::asked::{self, Asked};
use cutter_core::port::knowledge_base::KnowledgeBase;
use cutter_core::record::approval::{Purpose, allows, field};
use cutter_core::record::effect::ReviewVerdict;
use cutter_core::report::naming::{DocumentName, LAWS_ROOT};
use cutter_kb::folder::FolderKb;
use futures_executor::block_on;
use serde_json::json;

use crate::commands::RunArg;
use crate::commands::plan::ManifestOption;
use crate::commands::sovereign::text::OwnText;
use crate::config::Config;
use crate::context::Context;
use crate::exit_code::Exit;
use crate::failure::{Failure, Outcome};
use crate::render::{self, BAD, DIM, HEAD, WARN, paint};
use crate::wire;

/// The approving human's side: show what is asked, approve, refuse.
///
/// Reads requests and writes signed answers in the knowledge base; needs neither database
/// nor run folder. The orchestrator never writes these documents.
#[derive(Debug, Args)]
pub(crate) struct SovereignArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Show(ShowArgs),
    Approve(ApproveArgs),
    Refuse(RefuseArgs),
}

/// What is answered.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum For {
    /// To cut (SG_1).
    Cut,
    /// To enact (SG_2).
    Lifecycle,
    /// To go on after a stop.
    Resume,
    /// To accept observed drift.
    Drift,
    /// To void the run.
    Void,
}

impl From<For> for Purpose {
    fn from(word: For) -> Self {
        match word {
            For::Cut => Self::Cut,
            For::Lifecycle => Self::Lifecycle,
            For::Resume => Self::Resume,
            For::Drift => Self::Drift,
            For::Void => Self::Void,
        }
    }
}

/// Where to look.
#[derive(Debug, Args)]
struct Where {
    #[command(flatten)]
    run: RunArg,
    /// Folder of the knowledge base [env: CUTTER_KB_DIR] [default: of cutter.toml].
    #[arg(long, value_name = "DIR")]
    kb_dir: Option<PathBuf>,
    /// Folder of the run within the knowledge base, or any document in it, where you know it: then
    /// it is not searched for among all.
    #[arg(long, value_name = "FOLDER")]
    folder: Option<String>,
    /// What to look at; else the newest request or stop.
    #[arg(long = "for", value_enum, value_name = "WHAT")]
    purpose: Option<For>,
}

/// Show everything that an approver reads before signing.
///
/// The request as it stands in the knowledge base, its digest, the code to compare with
/// the operator by voice, and the answers that stand there already.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  cutter sovereign show --run-id RUN
  cutter sovereign show --run-id RUN --for lifecycle --kb-dir /mnt/kb
  cutter sovereign show --run-id RUN --folder knowledge/dev/laws/charter/v7317a5d40cdd0553-automation-cut-20260520")]
struct ShowArgs {
    #[command(flatten)]
    place: Where,
}

/// How to sign.
#[derive(Debug, Args)]
struct Sign {
    /// Your secret OpenPGP key [default: HOME/keys/NAME.secret.asc].
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,
    /// Write the answer unsigned, where the deployment's policy allows it.
    #[arg(long, conflicts_with = "key")]
    unsigned: bool,
    /// A reason, kept in the document.
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    /// Sign only if the request has this sha256, which `show` prints: it was read already, so it is
    /// not shown again.
    #[arg(long, value_name = "SHA256")]
    request_sha256: Option<Digest>,
    /// Do not ask before signing. Needed where there is no terminal to ask at, unless the request's
    /// sha256 is given.
    #[arg(long, short = 'y')]
    yes: bool,
}

/// Approve: write a clear-signed approval into the knowledge base.
///
/// It shows the request and signs exactly those bytes, or those that have the sha256 that you
/// give. It repeats what was asked, value for value, so it fits this one request of this one
/// run, and is used once. The same document can be made by hand with `gpg --clearsign`;
/// the request shows how.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  cutter sovereign approve --run-id RUN
  cutter sovereign approve --run-id RUN --for cut --key sue.secret.asc --expires 2026-06-01T00:00:00Z
  cutter sovereign approve --run-id RUN --for cut --text charter.md
  cutter sovereign approve --run-id RUN --for resume --grant-minutes 30 --reason 'large document'
  cutter sovereign approve --run-id RUN --for void --reason 'wrong edition'")]
struct ApproveArgs {
    #[command(flatten)]
    place: Where,
    #[command(flatten)]
    sign: Sign,
    /// Until when it may be used: a time such as 2026-06-01T00:00:00Z, or a span such as 2h.
    #[arg(long, value_name = "TIME|SPAN")]
    expires: Option<String>,
    /// Your own copy of the text: it is cut here again, and nothing is signed unless that gives the
    /// rows that the request names.
    #[arg(long, value_name = "FILE")]
    text: Option<PathBuf>,
    /// With `--text`: the profile, where it is none of the built-in ones.
    #[arg(long, value_name = "FILE", requires = "text")]
    profile: Option<PathBuf>,
    #[command(flatten)]
    manifest: ManifestOption,
    /// Minutes of active time to grant on top of the caps.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    grant_minutes: Option<u32>,
}

/// Refuse: write a clear-signed refusal into the knowledge base.
///
/// A refusal is final for this cut: the run is voided and a new one begins. With `--defer`
/// it means not now: the same run may ask again.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  cutter sovereign refuse --run-id RUN --reason 'article 7 is missing'
  cutter sovereign refuse --run-id RUN --defer")]
struct RefuseArgs {
    #[command(flatten)]
    place: Where,
    #[command(flatten)]
    sign: Sign,
    /// Not now, instead of no.
    #[arg(long)]
    defer: bool,
}

pub(crate) fn run(cx: &Context, args: &SovereignArgs) -> Outcome {
    let config = cx.config()?;
    match &args.command {
        Command::Show(args) => show(cx, &config, &args.place),
        Command::Approve(args) => {
            let extra = args.grant_minutes.map(|n| ("minutes_granted".to_owned(), n.to_string()));
            let signing = signing(&args.sign, ReviewVerdict::Approve, args.expires.clone(), extra);
            if args.manifest.is_given() && args.text.is_none() {
                return Err(Failure::usage(
                    "--manifest says how your own text is cut: expected --text FILE beside it",
                ));
            }
            let own = args.text.as_deref().map(|file| OwnText {
                file,
                profile: args.profile.as_deref(),
                manifest: &args.manifest,
            });
            sign(cx, &config, &args.place, signing, own)
        }
        Command::Refuse(args) => {
            let verdict = if args.defer { ReviewVerdict::Defer } else { ReviewVerdict::Reject };
            sign(cx, &config, &args.place, signing(&args.sign, verdict, None, None), None)
        }
    }
}

fn signing(
    sign: &Sign,
    verdict: ReviewVerdict,
    expires: Option<String>,
    extra: Option<(String, String)>,
) -> Signing {
    let reason = sign.reason.clone().map(|text| ("reason".to_owned(), text));
    Signing {
        verdict,
        key: sign.key.clone(),
        unsigned: sign.unsigned,
        expires,
        extra: reason.into_iter().chain(extra).collect(),
        ask_first: !sign.yes,
        request_sha256: sign.request_sha256,
    }
}

fn kb_of(config: &Config, place: &Where) -> Result<Arc<dyn KnowledgeBase>, Failure> {
    match &place.kb_dir {
        Some(folder) => Ok(Arc::new(FolderKb::new(folder))),
        None => wire::knowledge_base(config),
    }
}

fn folder_of(kb: &dyn KnowledgeBase, place: &Where) -> Result<RunFolder, Failure> {
    let run_id = &place.run.run_id;
    match &place.folder {
        Some(folder) => RunFolder::at(kb, run_id, folder),
        None => RunFolder::find(kb, run_id),
    }
}

fn sign(cx: &Context, config: &Config, place: &Where, signing: Signing, own: Option<OwnText<'_>>) -> Outcome {
    let kb = kb_of(config, place)?;
    let folder = folder_of(&*kb, place)?;
    let purpose = place.purpose.map(Purpose::from);
    let asked = match signing.verdict {
        ReviewVerdict::Approve => folder.asked(purpose)?,
        _ => folder.refused(purpose)?,
    };
    own.map(|own| own.gives(asked)).transpose()?;
    let answered = answer(cx, config, &*kb, &folder, asked, &signing)?;
    cx.out.result(|| answered.people(), &answered)
}

/// The documents of one run, as the knowledge base has them.
pub(crate) struct RunFolder {
    pub(crate) run_id: RunId,
    pub(crate) folder: String,
    pub(crate) paths: Vec<String>,
    asks: Vec<Asked>,
    /// Stops that somebody has approved to go on from, by their nonces.
    settled: BTreeSet<String>,
}

impl RunFolder {
    /// Finds a run's folder by its date and by what its documents say.
    pub(crate) fn find(kb: &dyn KnowledgeBase, run_id: &RunId) -> Result<Self, Failure> {
        let all = block_on(kb.list(LAWS_ROOT))?;
        Self::among(kb, run_id, &all)?.ok_or_else(|| {
            let mut failure = Failure::no_run(run_id.as_str());
            failure.what = format!("the knowledge base holds no documents of {run_id}");
            failure
        })
    }

    /// The run's folder where it is known, by its own path or that of a document in it.
    fn at(kb: &dyn KnowledgeBase, run_id: &RunId, place: &str) -> Result<Self, Failure> {
        let place = place.trim_end_matches('/');
        let folder = match place.rsplit_once('/') {
            Some((folder, _)) if place.ends_with(".md") => folder,
            _ => place,
        };
        let inside = block_on(kb.list(folder))?;
        Self::among(kb, run_id, &inside)?.ok_or_else(|| {
            let mut failure = Failure::no_run(run_id.as_str());
            failure.what = format!("{folder} holds no documents of {run_id}");
            failure.next(format!("cutter sovereign show --run-id {run_id}"))
        })
    }

    /// The folder among these documents whose first one names the run.
    fn among(kb: &dyn KnowledgeBase, run_id: &RunId, all: &[String]) -> Result<Option<Self>, Failure> {
        for (folder, paths) in asked::folders_of(all, run_id) {
            let own = |path: &&&str| {
                let name = path.rsplit_once('/').filter(|(above, _)| *above == folder);
                name.and_then(|(_, name)| DocumentName::parse(name).ok())
                    .is_some_and(|(name, _)| name.is_orchestrators())
            };
            let mut first = None;
            for path in paths.iter().filter(own) {
                first = read(kb, path)?;
                if first.is_some() {
                    break;
                }
            }
            if !first.is_some_and(|text| asked::is_document_of(&text, run_id)) {
                continue;
            }
            let mut documents = Vec::new();
            for path in paths.iter().filter(|path| asked::may_ask(path)) {
                documents.extend(read(kb, path)?.map(|text| ((*path).to_owned(), text)));
            }
            let asks = asked::asks(&documents, run_id);
            let settled = settled(kb, &paths, &asks)?;
            let paths = paths.into_iter().map(ToOwned::to_owned).collect();
            return Ok(Some(Self {
                run_id: run_id.clone(),
                folder: folder.to_owned(),
                paths,
                asks,
                settled,
            }));
        }
        Ok(None)
    }

    /// The ask to refuse: where a gate waits and a stop, whoever refuses says which.
    fn refused(&self, purpose: Option<Purpose>) -> Result<&Asked, Failure> {
        let asked = self.asked(purpose)?;
        let is_stop = |a: &Asked| a.ask.gate == GateId::FailureEscalation;
        let Some(gate) = self.asks.iter().rev().find(|a| !is_stop(a)) else { return Ok(asked) };
        if purpose.is_some() || !is_stop(asked) {
            return Ok(asked);
        }
        let run = &self.run_id;
        let command = |word: &str| format!("cutter sovereign refuse --run-id {run} --for {word}");
        Err(Failure::usage(format!("{run} asks at a gate and after a stop: which is refused?"))
            .next(command(gate.ask.word()))
            .next(command(asked.ask.word())))
    }

    /// The ask to answer. A stop that somebody has approved to go on from is not it, unless it is named.
    pub(crate) fn asked(&self, purpose: Option<Purpose>) -> Result<&Asked, Failure> {
        let is_open = |a: &Asked| a.ask.required.get(field::NONCE).is_none_or(|n| !self.settled.contains(n));
        let open = asked::newest(&self.asks, purpose, is_open);
        open.or_else(|| asked::newest(&self.asks, purpose, |_| true)).ok_or_else(|| {
            let words: Vec<&str> = self.asks.iter().map(|a| a.ask.word()).collect();
            let observed = if words.is_empty() { "nothing".to_owned() } else { words.join(", ") };
            let wanted = purpose.map_or("a request or a stop", Purpose::word);
            Failure::approval(format!("{} does not ask for that", self.run_id))
                .broken("approval.asked_for", wanted, observed)
                .next(format!("cutter why --run-id {}", self.run_id))
        })
    }

    /// The report that says that a gate was passed: what is answered there now comes late.
    pub(crate) fn passed(&self, asked: &Asked) -> Option<&String> {
        let phase = match asked.ask.gate {
            GateId::CutAuthz => Phase::CutLegA,
            GateId::LifecycleAuthz => Phase::LifecycleEnact,
            _ => return None,
        };
        let is_its = |path: &&String| {
            let name = path.rsplit('/').next().unwrap_or(path);
            DocumentName::parse(name).is_ok_and(|(name, _)| name == DocumentName::Phase(phase))
        };
        self.paths.iter().find(is_its)
    }

    /// Answers that stand there for an ask.
    fn answers(&self, asked: &Asked) -> Vec<&String> {
        let prefix = |name: &str| {
            let (stem, _) = name.split_once("-approval").unwrap_or((name, ""));
            format!("{stem}-approval")
        };
        let name = |path: &str| path.rsplit('/').next().unwrap_or(path).to_owned();
        let wanted = prefix(&name(&asked.ask.approval_path));
        self.paths.iter().filter(|path| name(path).starts_with(&wanted)).collect()
    }
}

/// The nonces of the stops for which a document says that the run may go on. Whether it may, a gate says.
fn settled(kb: &dyn KnowledgeBase, paths: &[&str], asks: &[Asked]) -> Result<BTreeSet<String>, Failure> {
    let stops = asks.iter().filter(|a| a.ask.gate == GateId::FailureEscalation);
    let nonces: BTreeSet<&String> = stops.filter_map(|a| a.ask.required.get(field::NONCE)).collect();
    let mut settled = BTreeSet::new();
    let name = |path: &str| path.rsplit('/').next().unwrap_or(path).to_owned();
    let prefix = approval_prefix(GateId::FailureEscalation);
    for path in paths.iter().filter(|path| !nonces.is_empty() && name(path).starts_with(prefix)) {
        let Some(text) = read(kb, path)? else { continue };
        let says = |line: &str| text.lines().any(|own| own.trim_end() == line);
        let of = nonces.iter().filter(|n| says("decision: approve") && says(&format!("nonce: {n}")));
        settled.extend(of.map(|nonce| (*nonce).clone()));
    }
    Ok(settled)
}

/// The text of a document; `None` where it is gone, or junk, which says nothing and blocks nobody.
fn read(kb: &dyn KnowledgeBase, path: &str) -> Result<Option<String>, Failure> {
    match block_on(kb.read(path)) {
        Ok(found) => Ok(found.and_then(|document| String::from_utf8(document.bytes).ok())),
        Err(error) if error.kind.is_junk() => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn show(cx: &Context, config: &Config, place: &Where) -> Outcome {
    let kb = kb_of(config, place)?;
    let folder = folder_of(&*kb, place)?;
    let asked = folder.asked(place.purpose.map(Purpose::from))?;
    let ask = &asked.ask;
    let answers = folder.answers(asked);
    let hidden = visible::count(&asked.text);
    let sha256 = Digest::of(asked.text.as_bytes());
    let machine = json!({
        "run_id": folder.run_id,
        "for": ask.word(),
        "gate": ask.gate,
        "occurrence": ask.occurrence,
        "approval_type": ask.approval_type,
        "allows": allows(ask),
        "required": ask.required,
        "expected_actor": ask.expected_actor,
        "request_path": ask.request_path,
        "request_sha256": sha256,
        "approval_path": ask.approval_path,
        "voice_code": ask.voice_code(),
        "answers": answers,
        "request": asked.text,
        "hidden_characters": hidden,
    });
    let people = || {
        let mut text = asked.text.trim_end().to_owned();
        text.push_str("\n\n");
        text.push_str(&paint(HEAD, "To compare with the operator by voice"));
        text.push('\n');
        text.push_str(&render::fields(&[
            ("voice code", paint(WARN, ask.voice_code())),
            ("document", ask.request_path.clone()),
            ("sha256", sha256.to_hex()),
            ("answer", ask.approval_path.clone()),
        ]));
        if hidden > 0 {
            text.push_str(&format!(
                "{} the document holds {hidden} control or direction-changing characters, shown above as \\u{{…}}; \
                 the orchestrator writes none: somebody may have edited it\n",
                paint(BAD, "careful:")
            ));
        }
        for answer in &answers {
            text.push_str(&format!("{} {}\n", paint(DIM, "an answer stands there:"), render::name(answer)));
        }
        let word = ask.word();
        let run = &folder.run_id;
        text.push_str(&format!(
            "{} cutter sovereign approve --run-id {run} --for {word} --request-sha256 {sha256}\n{} cutter sovereign refuse --run-id {run} --for {word}\n",
            paint(HEAD, "next:"),
            paint(HEAD, "  or:")
        ));
        text
    };
    cx.out.result_as(Exit::DONE, people, &machine)
}
