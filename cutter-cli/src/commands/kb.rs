//! `cutter kb`: putting a damaged knowledge base right. A person's command: no run revises documents.

use std::collections::BTreeMap;

use clap::{Args, Subcommand};
use cutter_core::base::digest::Digest;
use cutter_core::base::id::RunId;
use cutter_core::driver::approval_prefix;
use cutter_core::driver::restore::{Copies, owed, owed_report, own_folder, recorded};
use cutter_core::gate::plain::approves_plainly;
use cutter_core::machine::run::GateId;
use cutter_core::port::PortErrorKind;
use cutter_core::port::database::Reader as _;
use cutter_core::port::knowledge_base::{CreateOutcome, Document};
use cutter_core::record::approval::{Purpose, parse_field};
use cutter_core::record::sidecar::Sidecar;
use cutter_core::record::signature::SignatureFacts;
use futures_executor::block_on;
use serde::Serialize;

use crate::commands::RunArg;
use crate::commands::orchestrate::load;
use crate::commands::verify::words;
use crate::config::Config;
use crate::context::Context;
use crate::exit_code::Exit;
use crate::failure::{Failure, Outcome};
use crate::render::{self, BAD, GOOD, HEAD, paint};
use crate::wire::{self, Stores};

/// The knowledge base: put back what a run filed and relied on.
#[derive(Debug, Args)]
pub(crate) struct KbArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Restore(RestoreArgs),
}

/// Put back documents of a run that were changed or removed.
///
/// Compares what the run's record says was filed, asked and answered with what stands in the
/// knowledge base, and puts back the bytes with the recorded sha256: from the record's revisions,
/// from the answers in the database, from earlier revisions of the document. What stood there is
/// kept as a revision; a signed refusal that stands there is filed once more beside it, so that it is
/// heard. What lies outside the run's own folder is left as it is. Nothing else is ever written.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  cutter kb restore --run-id RUN
  cutter kb restore --run-id RUN && cutter orchestrate resume --run-id RUN")]
struct RestoreArgs {
    #[command(flatten)]
    run: RunArg,
}

/// What was done about one document.
#[derive(Debug, Serialize)]
struct Restored {
    path: String,
    sha256: Digest,
    /// `created`, `revised`, `no_copy`; `unreadable`: what stands there is no document, and only a free
    /// name can be used; `not_its_own`: outside the run's own folder; `moved`: a signed refusal that stood
    /// there, under the name where it stands now.
    did: &'static str,
    /// What stood there.
    observed: Option<Digest>,
}

pub(crate) fn run(cx: &Context, args: &KbArgs) -> Outcome {
    match &args.command {
        Command::Restore(args) => restore(cx, args),
    }
}

/// Whether a document is the word of somebody whom the policy knows about the run, and not plainly an approval:
/// that must be heard, not replaced.
fn refuses(config: &Config, run_id: &RunId, document: &Document) -> bool {
    if !document.bytes.windows(run_id.as_str().len()).any(|part| part == run_id.as_str().as_bytes()) {
        return false;
    }
    let words =
        wire::key_ring(config).and_then(|ring| words(&ring, &wire::policy::chain(config)?, &document.bytes));
    let is_one =
        |word: &SignatureFacts| matches!(word, SignatureFacts::Good { text, .. } if !approves_plainly(text));
    words.is_ok_and(|words| words.iter().any(is_one))
}

/// Files an answer once more in its folder, under the first name of its gate that is free or holds it
/// already: where the run listens.
fn filed_anew(stores: &Stores, path: &str, document: &Document) -> Result<String, Failure> {
    let text = String::from_utf8_lossy(&document.bytes);
    let gate = parse_field(&text, "gate").and_then(|gate| gate.parse().ok());
    let prefix = match parse_field(&text, "approval_type") {
        Some(kind) if kind == Purpose::Void.as_str() => "SG3-void-approval",
        _ => approval_prefix(gate.unwrap_or(GateId::CutAuthz)).trim_end_matches('-'),
    };
    let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
    for n in 2..=99 {
        let path = format!("{folder}/{prefix}-moved-{n}.md");
        match block_on(stores.kb.create(&path, &document.bytes)) {
            Ok(CreateOutcome::Created | CreateOutcome::Identical) => return Ok(path),
            Ok(CreateOutcome::Different { .. }) => {}
            Err(error) if matches!(error.kind, PortErrorKind::Invalid | PortErrorKind::Corrupt) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(Failure::usage(format!("{path}: expected a free name beside it for the refusal, observed none")))
}

fn restore(cx: &Context, args: &RestoreArgs) -> Outcome {
    let config = cx.config()?;
    let stores = wire::stores(&config)?;
    let run_id = &args.run.run_id;
    let sidecar = load(&stores, run_id)?;
    let documents = recorded(&sidecar);
    let answers = wire::reader(&config)
        .and_then(|reader| Ok((block_on(reader.asks(run_id))?, block_on(reader.evidence(run_id))?)));
    let (asks, evidence) = answers.unwrap_or_else(|failure| {
        cx.out.note(format!("the database was not asked for answers: {}", failure.what));
        Default::default()
    });
    let own = own_folder(&sidecar, &asks);
    let mut owed = Vec::from_iter(owed(&sidecar));
    for stop in sidecar.stops.iter().filter(|stop| stop.uploaded.is_none()) {
        let stored = block_on(stores.runs.load_revision(run_id, stop.revision))?;
        let at = stored.and_then(|stored| Sidecar::from_bytes(&stored.bytes).ok());
        owed.extend(at.and_then(|at| owed_report(&sidecar, &at)));
    }
    let mut damaged = BTreeMap::new();
    let mut done = Vec::new();
    for (path, sha256) in documents.iter().chain(owed.iter().map(|(path, sha256)| (path, sha256))) {
        if path.rsplit_once('/').map(|(folder, _)| folder) != own.as_deref() {
            done.push(Restored { path: path.clone(), sha256: *sha256, did: "not_its_own", observed: None });
            continue;
        }
        let observed = match block_on(stores.kb.read(path)) {
            Ok(found) => {
                let other = found.iter().find(|document| document.sha256 != *sha256);
                if let Some(refusal) = other.filter(|document| refuses(&config, run_id, document)) {
                    let (path, sha256) = (filed_anew(&stores, path, refusal)?, refusal.sha256);
                    done.push(Restored { path, sha256, did: "moved", observed: None });
                }
                found.map(|document| (document.revision, document.sha256))
            }
            Err(error) if error.kind.is_junk() => {
                let (path, sha256) = (path.clone(), *sha256);
                done.push(Restored { path, sha256, did: "unreadable", observed: None });
                continue;
            }
            Err(error) => return Err(error.into()),
        };
        // what is owed is the run's to file, unless another one stands in its place
        let is_owed = observed.is_none() && !documents.contains_key(path);
        if observed.map(|(_, found)| found) != Some(*sha256) && !is_owed {
            damaged.insert(path.clone(), (*sha256, observed));
        }
    }
    let mut copies = Copies::default();
    if !damaged.is_empty() {
        for revision in 1..=sidecar.revision {
            let stored = block_on(stores.runs.load_revision(run_id, revision))?;
            if let Some(before) = stored.and_then(|stored| Sidecar::from_bytes(&stored.bytes).ok()) {
                copies.add_revision(&before);
            }
        }
        for (path, (_, observed)) in &damaged {
            for revision in 1..=observed.map_or(0, |(revision, _)| revision) {
                if let Some(bytes) = wire::kb_revision(&config, path, revision)? {
                    copies.add(bytes);
                }
            }
        }
        copies.add_answers(&asks, &evidence);
    }
    for (path, (sha256, observed)) in damaged {
        let did = match (copies.of(&sha256), observed) {
            (None, _) => "no_copy",
            (Some(bytes), None) => match block_on(stores.kb.create(&path, bytes))? {
                CreateOutcome::Different { .. } => "no_copy",
                CreateOutcome::Created | CreateOutcome::Identical => "created",
            },
            (Some(bytes), Some((revision, _))) => {
                wire::kb_revise(&config, &path, revision, bytes)?;
                "revised"
            }
        };
        done.push(Restored { path, sha256, did, observed: observed.map(|(_, found)| found) });
    }
    let unreadable: Vec<&str> =
        done.iter().filter(|d| d.did == "unreadable").map(|d| d.path.as_str()).collect();
    let missing =
        unreadable.len() + done.iter().filter(|d| ["no_copy", "not_its_own"].contains(&d.did)).count();
    let next = match (missing, unreadable.first()) {
        (_, Some(path)) => {
            format!("cutter kb restore --run-id {run_id}   (once {} is removed)", render::name(path))
        }
        (0, None) => format!("cutter orchestrate resume --run-id {run_id}"),
        (_, None) => {
            format!("cutter verify --run-id {run_id}   (or put the bytes with that sha256 back by hand)")
        }
    };
    let machine = serde_json::json!({
        "run_id": run_id, "documents": documents.len(), "restored": done, "missing": missing, "next": next,
    });
    let people = || {
        let mut text = String::new();
        for one in &done {
            let word = match one.did {
                "no_copy" => paint(BAD, "no copy anywhere"),
                "not_its_own" => paint(BAD, "outside the run's own folder, left as it is:"),
                "moved" => paint(GOOD, "a signed refusal stood there, filed as"),
                "unreadable" => paint(BAD, "no readable document, and in the way:"),
                did => paint(GOOD, did),
            };
            text.push_str(&format!("{word} {} (sha256 {})\n", render::name(&one.path), one.sha256));
        }
        let stand = documents.len() - done.len();
        text.push_str(&format!("{stand} of {} documents stood as recorded\n", documents.len()));
        text.push_str(&format!("{} {next}\n", paint(HEAD, "next:")));
        text
    };
    cx.out.result_as(if missing == 0 { Exit::DONE } else { Exit::EVIDENCE }, people, &machine)
}
