//! `cutter orchestrate cut`.

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use cutter_core::base::limits;
use cutter_core::driver::{self, Driven, NewRun};
use cutter_core::machine::run::Phase;
use cutter_core::record::backup::BackupScope;
use cutter_core::record::settings::RunSettings;
use cutter_core::record::sidecar::Mode;
use cutter_core::text::profile::Profile;
use futures_executor::block_on;

use super::present;
use crate::commands::plan::{self, CutOptions, ManifestOption};
use crate::commands::profile::{AUTO, Chosen};
use crate::config::Config;
use crate::context::Context;
use crate::failure::{Failure, Outcome};
use crate::wire::{self, Driving, Opened};

/// The profile of a run whose own is not chosen yet.
const PLAIN: &str = "markdown";

/// Start a run and drive it to the first gate.
///
/// The document must be registered (`cutter source add`). The run marks and plans it, takes
/// an encrypted backup, probes the grants, files a document for each phase, and pauses where
/// the sovereign must approve. `--dry-run` stops before any write outside its own folder.
/// All settings are fixed here and shown to the sovereign, with the profile: which one, by what
/// evidence it was detected, and what the runner-up would cost.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  cutter orchestrate cut --document-id CITY-CHARTER
  cutter orchestrate cut --document-id CITY-CHARTER --dry-run
  cutter orchestrate cut --document-id GG --profile de --depth article
  cutter orchestrate cut --document-id BGB --max-candidates 6000 --phase-cap mark=10 --json")]
pub(crate) struct CutArgs {
    /// The document, as registered.
    #[arg(long, value_name = "ID")]
    pub(crate) document_id: String,
    /// Stop before the first gate; write nothing outside the run's own folder.
    #[arg(long)]
    pub(crate) dry_run: bool,
    #[command(flatten)]
    pub(crate) cut: CutOptions,
    #[command(flatten)]
    pub(crate) manifest: ManifestOption,
    /// Hard cap on active time, in minutes.
    #[arg(long, value_name = "MINUTES", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) hard_cap: Option<u32>,
    /// Soft cap of one phase on active time, in minutes; may be given again.
    #[arg(long = "phase-cap", value_name = "PHASE=MINUTES", value_parser = phase_cap)]
    pub(crate) phase_caps: Vec<(Phase, u32)>,
    /// How much the backup saves.
    #[arg(long, value_name = "SCOPE", value_parser = scope_parser())]
    pub(crate) backup_scope: Option<BackupScope>,
}

fn scope_parser() -> impl TypedValueParser<Value = BackupScope> {
    PossibleValuesParser::new(BackupScope::ALL.iter().map(|scope| scope.as_str()))
        .try_map(|scope| scope.parse::<BackupScope>())
}

fn phase_cap(text: &str) -> Result<(Phase, u32), String> {
    let (phase, minutes) = text.split_once('=').ok_or("expected PHASE=MINUTES")?;
    let phase: Phase = phase.parse().map_err(|e: cutter_core::machine::UnknownName| e.to_string())?;
    match minutes.parse() {
        Ok(minutes) if minutes > 0 => Ok((phase, minutes)),
        _ => Err(format!("expected a number of minutes from 1, observed {minutes:?}")),
    }
}

pub(crate) fn run(cx: &Context, args: &CutArgs) -> Outcome {
    let config = cx.config()?;
    let opened = wire::open(&config, &cx.out)?;
    let driven = start(&config, &opened, args)?;
    present(&driven, opened.stores.runs.as_ref(), None).show(cx, &config)
}

/// Starts a run under this configuration.
pub(crate) fn start(config: &Config, opened: &Opened, args: &CutArgs) -> Result<Driven, Failure> {
    let bounds = &config.bounds;
    let bytes = args.cut.max_document_bytes.or(bounds.max_document_bytes);
    let mut limits = plan::mark_limits(&args.cut, bytes.unwrap_or(limits::MAX_DOCUMENT_BYTES))?;
    let allowed = args.cut.max_candidates.or(bounds.max_candidates);
    limits.max_candidates = allowed.map_or(limits.max_candidates, |n| u32::try_from(n).unwrap_or(u32::MAX));
    let chosen = args.cut.choose(&source_text(opened, args)?, &limits)?;
    let settings = settings(config, &opened.backup_fingerprint, args, chosen)?;
    let mode = if args.dry_run { Mode::Dryrun } else { Mode::Live };
    let request = NewRun { document_id: args.document_id.clone(), mode, settings, run_id: None };
    cut(config, opened, request)
}

/// Starts a run with these settings.
pub(crate) fn cut(config: &Config, opened: &Opened, request: NewRun) -> Result<Driven, Failure> {
    let caller = wire::caller(config, "orchestrate cut");
    let document_id = request.document_id.clone();
    let driving =
        Driving { ports: &opened.ports, caller: &caller, run_id: None, document_id: Some(&document_id) };
    wire::drive(driving, driver::cut(&opened.ports, &caller, request))
}

/// The newest text of the document, to detect its convention by; nothing where there is none,
/// which the run itself finds and says.
fn source_text(opened: &Opened, args: &CutArgs) -> Result<Vec<u8>, Failure> {
    if args.cut.profile != AUTO {
        return Ok(Vec::new());
    }
    let found = block_on(opened.ports.reader.source(&args.document_id))?;
    match found.and_then(|source| source.latest) {
        Some(version) => Ok(block_on(opened.ports.reader.source_text(version.source_version_id))?),
        None => Ok(Vec::new()),
    }
}

/// The run's settings: flags over configuration over the spec's own.
fn settings(
    config: &Config,
    backup_fingerprint: &str,
    args: &CutArgs,
    chosen: Chosen,
) -> Result<RunSettings, Failure> {
    let detection = chosen.detection().cloned();
    let mut settings = deployment_settings(config, backup_fingerprint)?;
    settings.profile = chosen.profile;
    settings.detection = detection;
    settings.max_candidates = args.cut.max_candidates.unwrap_or(settings.max_candidates);
    settings.max_document_bytes = args.cut.max_document_bytes.unwrap_or(settings.max_document_bytes);
    settings.run_hard_cap_minutes = args.hard_cap.unwrap_or(settings.run_hard_cap_minutes);
    settings.forbidden_prefixes.extend(args.cut.forbidden_prefixes.iter().cloned());
    for (phase, minutes) in &args.phase_caps {
        settings.phase_soft_cap_minutes.insert(phase.as_str().to_owned(), *minutes);
    }
    settings.publication_type.clone_from(&args.cut.publication_type);
    settings.depends_on.clone_from(&args.cut.depends_on);
    settings.manifest = args.manifest.read()?;
    settings.backup_scope = args.backup_scope.unwrap_or(settings.backup_scope);
    Ok(settings)
}

/// What the configuration alone says of every run: the spec's own settings under it.
///
/// The profile is the plain one until somebody says which.
pub(crate) fn deployment_settings(config: &Config, backup_fingerprint: &str) -> Result<RunSettings, Failure> {
    // Where nobody is named the driver takes the first who may approve.
    let lifecycle_actor = config.approvals.lifecycle_actor.clone().unwrap_or_default();
    let profile = Profile::built_in(PLAIN).map_err(|e| Failure::internal(e.to_string()))?;
    let mut settings = RunSettings::new(&lifecycle_actor, backup_fingerprint, profile);
    let bounds = &config.bounds;
    for (phase, minutes) in &bounds.phase_soft_cap_minutes {
        settings.phase_soft_cap_minutes.insert(phase.clone(), *minutes);
    }
    settings.max_candidates = bounds.max_candidates.unwrap_or(settings.max_candidates);
    settings.max_document_bytes = bounds.max_document_bytes.unwrap_or(settings.max_document_bytes);
    settings.run_hard_cap_minutes = bounds.run_hard_cap_minutes.unwrap_or(settings.run_hard_cap_minutes);
    settings.forbidden_prefixes.clone_from(&bounds.forbidden_prefixes);
    settings.backup_scope = config.backup_scope;
    Ok(settings)
}
