//! `cutter demo`: the whole story on a private database of its own.

use std::path::{Path, PathBuf};

use clap::Args;
use cutter_core::base::digest::Digest;
use cutter_core::base::id::RunId;
use cutter_core::base::limits;
use cutter_core::driver::{Driven, Outcome as Driver};
use cutter_core::operate::inspect::{Summary, document_id_of_file_name};
use cutter_core::record::approval::Purpose;
use cutter_core::record::effect::ReviewVerdict;
use futures_executor::block_on;
use serde_json::json;

use crate::commands::RunArg;
use crate::commands::init::{self, InitArgs};
use crate::commands::orchestrate::{self, CutArgs};
use crate::commands::plan::{CutOptions, ManifestOption};
use crate::commands::profile::AUTO;
use crate::commands::source::{self, AddArgs};
use crate::commands::sovereign::{self, RunFolder, Signing};
use crate::commands::verify::{self, VerifyArgs};
use crate::config::Config;
use crate::context::Context;
use crate::failure::{Failure, Outcome};
use crate::files::read_bounded;
use crate::render::{self, DIM, GOOD, HEAD, paint};
use crate::wire::{self, Opened};

/// A short charter, written for this program.
const CHARTER: &str = include_str!("demo/charter.md");
/// Who approves in the demo.
const SOVEREIGN: &str = "demo-sovereign";

/// Show the whole story on a private database.
///
/// Registers a document (FILE, or a short charter that comes with the program), cuts it up
/// to the first gate, shows the request, approves it with a throw-away key, goes on to the
/// second gate, approves, enacts, closes out, and verifies everything from the evidence. All
/// of it happens in a home of its own, with the same code, SQL and grants as in earnest;
/// operator's and sovereign's keys are both yours here. Everything is left there to look at.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  cutter demo
  cutter demo law.md
  cutter demo --clean        # stop the demo's server and remove its home")]
pub(crate) struct DemoArgs {
    /// A document to cut instead of the charter.
    file: Option<PathBuf>,
    /// Remove the demo's home, with everything in it.
    #[arg(long, conflicts_with = "file")]
    clean: bool,
}

/// Narrates on stderr.
struct Narrator<'a> {
    cx: &'a Context,
    step: u32,
}

impl Narrator<'_> {
    fn step(&mut self, title: &str, command: &str) {
        self.step += 1;
        self.cx.out.note(format!("\n{}", paint(HEAD, format!("{}. {title}", self.step))));
        if !command.is_empty() {
            self.cx.out.note(paint(DIM, format!("   $ {command}")));
        }
    }

    fn say(&self, text: impl std::fmt::Display) {
        self.cx.out.note(format!("   {text}"));
    }
}

pub(crate) fn run(cx: &Context, args: &DemoArgs) -> Outcome {
    let home = home(cx)?;
    if args.clean {
        return clean(cx, &home);
    }
    let mut inner = cx.clone();
    inner.overrides.home = Some(home.clone());
    inner.overrides.config = Some(home.join("cutter.toml"));
    inner.overrides.actor = Some("demo-operator".to_owned());
    story(&inner, &home, args.file.as_deref())
}

/// The demo's own home; connections that are configured elsewhere play no part.
fn home(cx: &Context) -> Result<PathBuf, Failure> {
    let outer = Config::load(&cx.overrides, &|name| {
        wire::variable(name).filter(|_| !name.starts_with("CUTTER_DSN_"))
    });
    Ok(match outer {
        Ok(config) => config.home.join("demo"),
        Err(failure) => return Err(failure),
    })
}

fn clean(cx: &Context, home: &Path) -> Outcome {
    let existed = home.exists();
    if existed {
        if !home.join("cutter.toml").exists() {
            return Err(Failure::usage(format!("{} is not a demo's home", home.display())));
        }
        let options = cutter_pg::cluster::ClusterOptions::new();
        let cluster = cutter_pg::cluster::PrivateCluster::open(home, options)?;
        cluster.stop()?;
        let data = cluster.folder()?;
        if data.exists() && !data.starts_with(home) {
            std::fs::remove_dir_all(&data).map_err(|e| Failure::io("remove", &data, &e))?;
        }
        std::fs::remove_dir_all(home).map_err(|e| Failure::io("remove", home, &e))?;
    }
    let word = if existed { "removed" } else { "there was no" };
    cx.out.result(
        || format!("{} {word} {}\n", paint(GOOD, "ok"), home.display()),
        &json!({ "removed": existed }),
    )
}

fn story(cx: &Context, home: &Path, file: Option<&Path>) -> Outcome {
    let mut tell = Narrator { cx, step: 0 };
    cx.out.note("Two throw-away keys are made, the operator's and the sovereign's. Both are yours here;");
    cx.out.note("in earnest they belong to two people, and cutter refuses a run approved by its creator.");

    tell.step("A home, keys, and a private PostgreSQL", &format!("cutter init --sovereign {SOVEREIGN}"));
    prepare(cx, home)?;
    let config = demo_config(cx)?;
    tell.say(home.display());

    let (document_id, path, content) = document(&config, file)?;
    tell.step(
        "Register the source",
        &format!("cutter source add {} --document-id {document_id}", path.display()),
    );
    let add = AddArgs { file: path, document_id: document_id.clone(), title: None, manifest_digest: None };
    let registered = source::add(&config, &add, content)?;
    if let Some(version) = &registered.source.latest {
        tell.say(format!(
            "version {}, {} bytes, sha256 {}",
            version.version_no, version.bytes, version.sha256
        ));
    }

    tell.step("Cut, up to the first gate", &format!("cutter orchestrate cut --document-id {document_id}"));
    let opened = wire::open(&config, &cx.out)?;
    let cut = CutArgs {
        document_id: document_id.clone(),
        dry_run: false,
        cut: generous(),
        manifest: ManifestOption::default(),
        hard_cap: None,
        phase_caps: Vec::new(),
        backup_scope: None,
    };
    let mut driven = match open_run(&opened, &document_id)? {
        Some(run_id) => orchestrate::resume(&config, &opened, &run_id, None)?,
        None => orchestrate::start(&config, &opened, &cut)?,
    };
    let run_id = driven.sidecar.run_id.clone();
    if let Driver::ReplayedFrom(run_id) = &driven.outcome {
        tell.say(format!("nothing to do: {run_id} has cut exactly this version already"));
        return finish(cx, &mut tell, home, &run_id.clone(), &driven, &opened);
    }
    for purpose in [Purpose::Cut, Purpose::Lifecycle] {
        let parked = expect_gate(&driven, &opened, purpose)?;
        if !parked {
            continue;
        }
        approve(cx, &config, &opened, &mut tell, &run_id, purpose)?;
        tell.step("Go on", &format!("cutter orchestrate resume --run-id {run_id}"));
        driven = orchestrate::resume(&config, &opened, &run_id, None)?;
    }
    if driven.outcome != Driver::Completed {
        return Err(unexpected(&driven, &opened, "a finished run"));
    }
    finish(cx, &mut tell, home, &run_id, &driven, &opened)
}

/// The demo is generous: any document of the size that cutter reads may be shown.
fn generous() -> CutOptions {
    CutOptions {
        profile: AUTO.to_owned(),
        depth: None,
        publication_type: None,
        depends_on: Vec::new(),
        max_candidates: Some(1_000_000),
        max_document_bytes: None,
        forbidden_prefixes: Vec::new(),
    }
}

fn prepare(cx: &Context, home: &Path) -> Result<(), Failure> {
    use std::os::unix::fs::DirBuilderExt as _;
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(home)
        .map_err(|e| Failure::io("create", home, &e))?;
    // a named configuration must be there, and init is what makes it
    let mut first = cx.clone();
    first.overrides.config = None;
    let args =
        InitArgs { sovereign: Some(SOVEREIGN.to_owned()), public_key: None, no_database: true, runs: None };
    init::init(&first, &args)?;
    let config = demo_config(cx)?;
    crate::commands::db::bring_up(&config)?;
    wire::policy::found(&config)?;
    Ok(())
}

/// The demo's configuration: its own folders and its own database, whatever the environment
/// says about others.
fn demo_config(cx: &Context) -> Result<Config, Failure> {
    let own = |name: &str| wire::variable(name).filter(|_| name == "CUTTER_PG_BIN");
    Config::load(&cx.overrides, &own)
}

fn document(config: &Config, file: Option<&Path>) -> Result<(String, PathBuf, Vec<u8>), Failure> {
    match file {
        Some(path) => {
            let content = read_bounded(path, limits::MAX_DOCUMENT_BYTES)?;
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let id = document_id_of_file_name(&name).map_err(|e| Failure::usage(e.to_string()))?;
            Ok((id.as_str().to_owned(), path.to_owned(), content))
        }
        None => {
            let path = config.home.join("charter.md");
            if !path.exists() {
                wire::write_public(&path, CHARTER.as_bytes())?;
            }
            Ok(("DEMO-CHARTER".to_owned(), path, CHARTER.as_bytes().to_vec()))
        }
    }
}

/// A run of an earlier demo that was interrupted.
fn open_run(opened: &Opened, document_id: &str) -> Result<Option<RunId>, Failure> {
    let Some(claim) = block_on(opened.stores.runs.latest_claim(document_id))? else { return Ok(None) };
    let sidecar = orchestrate::load(&opened.stores, &claim.run_id)?;
    let is_open = sidecar.run_state().is_ok_and(|state| !state.is_terminal());
    Ok(is_open.then_some(claim.run_id))
}

/// Whether the run is parked at this gate. It may have passed it in an earlier demo.
fn expect_gate(driven: &Driven, opened: &Opened, purpose: Purpose) -> Result<bool, Failure> {
    match &driven.outcome {
        Driver::Paused { ask, .. } => Ok(ask.is_for(purpose)),
        Driver::Completed => Ok(false),
        _ => Err(unexpected(driven, opened, "a gate")),
    }
}

fn unexpected(driven: &Driven, opened: &Opened, expected: &str) -> Failure {
    let run_id = &driven.sidecar.run_id;
    let presented = orchestrate::present(driven, opened.stores.runs.as_ref(), None);
    let stop = presented.summary.stop;
    let mut failure = Failure::stopped("demo", format!("{run_id} did not come to {expected}")).broken(
        "demo.state",
        expected,
        stop.map_or_else(|| presented.summary.state.clone(), |s| format!("{}: {}", s.code, s.reason)),
    );
    failure.exit = presented.exit;
    if failure.exit == crate::exit_code::Exit::DONE {
        failure.exit = crate::exit_code::Exit::INTERNAL;
    }
    failure
}

fn approve(
    cx: &Context,
    config: &Config,
    opened: &Opened,
    tell: &mut Narrator<'_>,
    run_id: &RunId,
    purpose: Purpose,
) -> Result<(), Failure> {
    let word = purpose.word();
    tell.step("What the sovereign reads", &format!("cutter sovereign show --run-id {run_id} --for {word}"));
    let folder = RunFolder::find(opened.stores.kb.as_ref(), run_id)?;
    let asked = folder.asked(Some(purpose))?;
    for line in asked.text.lines().take_while(|line| !line.starts_with("## 4")) {
        cx.out.note(paint(DIM, format!("   │ {line}")));
    }
    tell.say(format!("the rest is in {}", asked.ask.request_path));
    tell.say(format!("voice code {}", asked.ask.voice_code()));
    tell.step("Approve", &format!("cutter sovereign approve --run-id {run_id} --for {word}"));
    let mut sovereign = cx.clone();
    sovereign.overrides.actor = None;
    let signing = Signing {
        verdict: ReviewVerdict::Approve,
        key: Some(config.home.join("keys").join(format!("{SOVEREIGN}.secret.asc"))),
        unsigned: false,
        expires: None,
        extra: std::iter::once(("reason".to_owned(), "demo".to_owned())).collect(),
        ask_first: false,
        request_sha256: Some(Digest::of(asked.text.as_bytes())),
    };
    let answered =
        sovereign::answer(&sovereign, config, opened.stores.kb.as_ref(), &folder, asked, &signing)?;
    tell.say(format!("signed: {}", answered.approval_kb_id));
    Ok(())
}

fn finish(
    cx: &Context,
    tell: &mut Narrator<'_>,
    home: &Path,
    run_id: &RunId,
    driven: &Driven,
    opened: &Opened,
) -> Outcome {
    tell.step("Verify everything from the evidence", &format!("cutter verify --run-id {run_id}"));
    let args = VerifyArgs {
        run: RunArg { run_id: run_id.clone() },
        no_database: false,
        approver: Vec::new(),
        statement: None,
    };
    let verified = verify::verify_with(&demo_config(cx)?, &args)?;
    for check in verified.checks.iter().map(|judged| &judged.check).filter(|c| !c.ok) {
        tell.say(format!("{}: expected {}, observed {}", check.invariant, check.expected, check.observed));
    }
    if !verified.ok {
        return Err(Failure::evidence(format!("the evidence of {run_id} does not match"))
            .next(format!("cutter --home {} verify --run-id {run_id}", home.display())));
    }
    tell.say(format!("all {} checks hold", verified.checks.len()));
    let summary = Summary::of(&driven.sidecar, &opened.stores.runs.sidecar_location(run_id));
    let units = summary.units.unwrap_or_default();
    let at = |command: &str| format!("cutter --home {} {command}", home.display());
    let document = &summary.document_id;
    let look = [
        at(&format!("unit list --document-id {document}")),
        at(&format!("unit export --document-id {document}")),
        at(&format!("verify --run-id {run_id} -v")),
        at(&format!("why --run-id {run_id}")),
    ];
    let kb = home.join("kb").join(summary.kb_folder.clone().unwrap_or_default());
    let people = || {
        let mut text =
            format!("\n{} {} of {document} are enacted\n", paint(GOOD, "done"), render::count(units, "unit"));
        text.push_str(&render::fields(&[
            ("run", run_id.to_string()),
            ("state", summary.state.clone()),
            ("home", home.display().to_string()),
            ("documents", kb.display().to_string()),
            ("sidecar", summary.sidecar_path.clone()),
        ]));
        for command in &look {
            text.push_str(&format!("{} {command}\n", paint(HEAD, "look:")));
        }
        text.push_str(&format!("{} cutter demo --clean\n", paint(HEAD, "clean up:")));
        text
    };
    let machine = json!({
        "run_id": run_id, "home": home, "kb_folder": kb, "checks": verified.checks.len(),
        "summary": summary, "look": look,
    });
    cx.out.result(people, &machine)
}
