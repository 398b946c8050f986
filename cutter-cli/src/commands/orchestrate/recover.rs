//! `cutter orchestrate recover`.

use clap::Args;
use cutter_core::base::cas::CasOutcome;
use cutter_core::base::id::RunId;
use cutter_core::driver::{DriveError, check_history};
use cutter_core::operate::inspect::recover::{Origin, missing, unknown_to};
use cutter_core::port::database::Reader as _;
use cutter_core::port::run_store::RunStore as _;
use cutter_core::record::sidecar::{Sidecar, SidecarError};
use cutter_core::report::naming::DocumentName;
use futures_executor::block_on;
use serde_json::json;

use crate::commands::RunArg;
use crate::commands::sovereign::RunFolder;
use crate::config::Config;
use crate::context::Context;
use crate::exit_code::Exit;
use crate::failure::{Failure, Outcome};
use crate::render::{self, GOOD, HEAD, paint};
use crate::wire::{self, Stores};

/// Rebuild a lost or broken record of a run.
///
/// Takes the newest readable revision, else the dump in the newest stop-route report, and
/// compares it with what the database and the knowledge base hold: only a record after which
/// nothing happened is used. It is published as the next revision; nothing is overwritten.
/// Otherwise this says exactly what is missing, writes nothing, and exits with 6.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  cutter orchestrate recover --run-id RUN --dry-run
  cutter orchestrate recover --run-id RUN && cutter orchestrate resume --run-id RUN")]
pub(crate) struct RecoverArgs {
    #[command(flatten)]
    run: RunArg,
    /// Say what would be done; write nothing.
    #[arg(long)]
    dry_run: bool,
}

/// What stands in the store.
enum Standing {
    Whole(Box<Sidecar>),
    Broken { revision: u64, why: String },
    Absent,
}

pub(crate) fn run(cx: &Context, args: &RecoverArgs) -> Outcome {
    let config = cx.config()?;
    let stores = wire::stores(&config)?;
    let run_id = &args.run.run_id;
    let _lock = match block_on(stores.runs.load(run_id))? {
        Some(_) => {
            let caller = wire::caller(&config, "orchestrate recover");
            Some(block_on(stores.runs.lock(run_id, &caller.holder))?)
        }
        None => None,
    };
    let standing = standing(&stores, run_id)?;
    if let Standing::Whole(sidecar) = &standing {
        let revision = sidecar.revision;
        let unknown = after(&config, &stores, sidecar)?;
        if !unknown.is_empty() {
            let what =
                format!("the record of {run_id} is older than what happened since (revision {revision})");
            let failure = unknown.into_iter().fold(Failure::evidence(what), |failure, line| {
                failure.broken("recover.newest", "a record after which nothing happened", line)
            });
            return Err(failure
                .next(restore(&stores, run_id))
                .next(format!("cutter verify --run-id {run_id}")));
        }
        let machine = json!({ "run_id": run_id, "recovered": false, "revision": revision, "reason": "the record is whole" });
        return cx.out.result(
            || format!("{} the record is whole (revision {revision})\n", paint(GOOD, "ok")),
            &machine,
        );
    }
    let documents = RunFolder::find(stores.kb.as_ref(), run_id).ok();
    let database = wire::reader(&config)?;
    let evidence = block_on(database.evidence(run_id))?;
    let paths = documents.as_ref().map(|d| d.paths.clone()).unwrap_or_default();
    let mut reasons = Vec::new();
    for (origin, sidecar) in candidates(&stores, run_id, &standing, documents.as_ref())? {
        let unknown = unknown_to(&sidecar, &evidence, &paths);
        if unknown.is_empty() {
            return publish(cx, &stores, run_id, &standing, &origin, sidecar, args.dry_run);
        }
        reasons.push(format!("{}: too old", name(&origin)));
        reasons.extend(unknown.into_iter().map(|line| format!("  {line}")));
    }
    reasons.extend(missing(&evidence, &paths));
    let what = match &standing {
        Standing::Broken { revision, why } => format!("revision {revision} of {run_id} is broken ({why})"),
        _ => format!("the record of {run_id} is lost"),
    };
    let mut failure = Failure::evidence(format!("{what} and cannot be rebuilt without guessing"));
    for reason in reasons {
        failure = failure.broken("recover.complete", "a record after which nothing happened", reason);
    }
    Err(failure.next(restore(&stores, run_id)).next(format!("cutter verify --run-id {run_id}")))
}

/// What happened after a record that reads was written: it is whole, but it is not the newest.
fn after(config: &Config, stores: &Stores, sidecar: &Sidecar) -> Result<Vec<String>, Failure> {
    let evidence = block_on(wire::reader(config)?.evidence(&sidecar.run_id))?;
    let paths = match &sidecar.kb_folder {
        Some(folder) => block_on(stores.kb.list(folder))?,
        None => Vec::new(),
    };
    Ok(unknown_to(sidecar, &evidence, &paths))
}

/// What puts the newest record back.
fn restore(stores: &Stores, run_id: &RunId) -> String {
    match &stores.shared {
        Some(shared) => format!("restore {} from a backup of the database", shared.sidecar_location(run_id)),
        None => {
            let folder = stores.files.run_path(run_id.as_str());
            format!("restore the folder {} from a backup of it", folder.display())
        }
    }
}

fn standing(stores: &Stores, run_id: &RunId) -> Result<Standing, Failure> {
    let Some(stored) = block_on(stores.runs.load(run_id))? else { return Ok(Standing::Absent) };
    let revision = stored.revision;
    Ok(match Sidecar::from_bytes(&stored.bytes) {
        Ok(sidecar) if sidecar.revision == revision && sidecar.run_id == *run_id => {
            let history = block_on(stores.runs.history(run_id, revision))?;
            match check_history(&sidecar, &history) {
                Ok(()) => Standing::Whole(Box::new(sidecar)),
                Err(error) => Standing::Broken { revision, why: error.to_string() },
            }
        }
        Ok(_) => Standing::Broken { revision, why: "it is another run's or another revision".to_owned() },
        // Whole, for a newer program: an older revision must not take its place.
        Err(error @ SidecarError::Newer { .. }) => {
            return Err(DriveError::Sidecar { run_id: run_id.clone(), error }.into());
        }
        Err(error) => Standing::Broken { revision, why: error.to_string() },
    })
}

/// Readable records, the newest first.
fn candidates(
    stores: &Stores,
    run_id: &RunId,
    standing: &Standing,
    documents: Option<&RunFolder>,
) -> Result<Vec<(Origin, Sidecar)>, Failure> {
    let mut found: Vec<(Origin, Sidecar)> = Vec::new();
    if let Standing::Broken { revision, .. } = standing {
        for n in (1..*revision).rev() {
            let Some(stored) = block_on(stores.runs.load_revision(run_id, n))? else { continue };
            if let Ok(sidecar) = Sidecar::from_bytes(&stored.bytes)
                && sidecar.run_id == *run_id
                && check_history(&sidecar, &block_on(stores.runs.history(run_id, n))?).is_ok()
            {
                found.push((Origin::Revision(n), sidecar));
            }
        }
    }
    let reports = documents.map(|d| d.paths.as_slice()).unwrap_or_default().iter().filter(|path| {
        let name = path.rsplit('/').next().unwrap_or(path);
        matches!(DocumentName::parse(name), Ok((DocumentName::StopReport { .. }, _)))
    });
    for path in reports {
        let Some(document) = block_on(stores.kb.read(path))? else { continue };
        if let Some(sidecar) = dump_of(&String::from_utf8_lossy(&document.bytes))
            && sidecar.run_id == *run_id
        {
            found.push((Origin::StopReport(path.clone()), sidecar));
        }
    }
    found.sort_by_key(|(_, sidecar)| std::cmp::Reverse(sidecar.revision));
    Ok(found)
}

/// The record that a stop-route report holds, if its rules hold.
fn dump_of(text: &str) -> Option<Sidecar> {
    let (_, tail) = text.rsplit_once("\n## 3. Sidecar\n")?;
    let start = tail.find("json\n")? + "json\n".len();
    let body = tail.get(start..)?;
    let end = body.rfind("\n```")?;
    let sidecar: Sidecar = serde_json::from_str(body.get(..end)?.trim_end_matches('`')).ok()?;
    sidecar.check_rules().ok()?;
    Some(sidecar)
}

fn name(origin: &Origin) -> String {
    match origin {
        Origin::Revision(n) => format!("revision {n}"),
        Origin::StopReport(path) => path.clone(),
    }
}

fn publish(
    cx: &Context,
    stores: &Stores,
    run_id: &RunId,
    standing: &Standing,
    origin: &Origin,
    mut sidecar: Sidecar,
    dry_run: bool,
) -> Outcome {
    let (expected, revision) = match standing {
        Standing::Broken { revision, .. } => (*revision, revision + 1),
        _ => (0, 1),
    };
    if !dry_run {
        sidecar.revision = revision;
        let bytes = sidecar.to_bytes().map_err(|e| Failure::evidence(e.to_string()))?;
        let outcome = if expected == 0 {
            block_on(stores.runs.create(run_id, &bytes))?
        } else {
            block_on(stores.runs.publish(run_id, expected, &bytes))?
        };
        if let CasOutcome::Conflict { found } = outcome {
            return Err(Failure::stopped(
                "STOP_FENCED",
                format!("revision {found} of {run_id} was written meanwhile; nothing was recovered"),
            )
            .next(format!("cutter why --run-id {run_id}")));
        }
    }
    let word = if dry_run { "would recover" } else { "recovered" };
    let people = || {
        format!(
            "{} {word}\n{}{} cutter orchestrate resume --run-id {run_id}\n",
            paint(GOOD, "ok"),
            render::fields(&[
                ("from", name(origin)),
                ("state", sidecar.state.clone()),
                ("revision", revision.to_string())
            ]),
            paint(HEAD, "next:")
        )
    };
    let machine = json!({
        "run_id": run_id, "recovered": !dry_run, "from": name(origin),
        "state": sidecar.state, "revision": revision,
    });
    cx.out.result_as(Exit::DONE, people, &machine)
}
