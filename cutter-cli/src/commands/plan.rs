//! `cutter plan`: what a cut would make of a file. No database, no home, no keys.

use std::path::{Path, PathBuf};

use clap::Args;
use cutter_core::base::digest::Digest;
use cutter_core::base::limits;
use cutter_core::base::vocabulary::Vocabulary;
use cutter_core::gate::staged::PlanSettings;
use cutter_core::operate::inspect::document_id_of_file_name;
use cutter_core::text::address::{Address, DocumentId};
use cutter_core::text::mark::{Duplicate, ManifestMarker, MarkError, MarkLimits, Marker, Stop};
use cutter_core::text::plan::{CutPlan, PlanError, PlanInput, PlanRow, UnitTree};
use serde::Serialize;
use serde_json::{Value, json};

use crate::commands::profile::{self, AUTO, Chosen, Depth};
use crate::context::Context;
use crate::exit_code::Exit;
use crate::failure::{Failure, Outcome};
use crate::files::{read_bounded, read_small};
use crate::render::{self, DIM, Each, HEAD, paint};

/// Show the units that a cut of FILE would make.
///
/// Reads the file and nothing else: no database, no configuration, no keys. The digests are
/// the ones that a run of the same document prints. The document id, if none is given, is
/// the file's name without its extension, in capitals, with `-` for everything that is
/// neither letter nor digit, and `DOC-` before it if it does not begin with a letter.
///
/// The convention of the document is detected: the plan says which profile cut, how sure that
/// is, on what evidence, and what the runner-up would cost. Look at it before you cut: with
/// low confidence, at numbers that are missing, at duplicates. `--profile` overrides it.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  cutter plan charter.md
  cutter plan charter.md --document-id CITY-CHARTER --depth 2
  cutter plan decree.md --depth clause       # articles and their clauses
  cutter plan gesetz.md --profile de --depth Absatz
  cutter plan charter.md --json | jq '.units[].address'
  cutter plan law.md --profile ./my-profile.json
  cutter plan law.md --manifest spans.json")]
pub(crate) struct PlanArgs {
    /// The source document: UTF-8 text.
    file: PathBuf,
    /// First part of every address.
    #[arg(long, value_name = "ID")]
    document_id: Option<String>,
    #[command(flatten)]
    cut: CutOptions,
    #[command(flatten)]
    manifest: ManifestOption,
    /// Which version of the document the text becomes: the digest of its rows follows from it.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    version_no: u32,
}

/// What `plan` and `orchestrate cut` have in common.
#[derive(Debug, Args)]
pub(crate) struct CutOptions {
    /// `auto` detects the built-in profile that fits; else its name, or the path of your own.
    #[arg(long, value_name = "auto|NAME|FILE", default_value = AUTO)]
    pub(crate) profile: String,
    /// How deep: a number of levels, or a kind (article, clause, point, or its name in the law's
    /// language: khoản, Absatz, 항); what is deeper stays in the unit above it.
    #[arg(long, value_name = "N|KIND")]
    pub(crate) depth: Option<Depth>,
    /// From the vocabulary publication_type; else the profile's.
    #[arg(long, value_name = "WORD")]
    pub(crate) publication_type: Option<String>,
    /// A backlog entry that must be verified before this cut; may be given again.
    #[arg(long, value_name = "ENTRY", value_parser = entry_id)]
    pub(crate) depends_on: Vec<String>,
    /// Refuse more units than this.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) max_candidates: Option<u64>,
    /// Refuse a longer document.
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) max_document_bytes: Option<u64>,
    /// No unit's address may be this one or below it; may be given again.
    #[arg(long = "forbid", value_name = "ADDRESS")]
    pub(crate) forbidden_prefixes: Vec<String>,
}

/// Spans that somebody else chose.
#[derive(Debug, Default, Args)]
pub(crate) struct ManifestOption {
    /// Take the units from a manifest of spans (JSON) instead of marking the text.
    #[arg(long, value_name = "FILE")]
    manifest: Option<PathBuf>,
}

/// An entry's id, in the one spelling that digests are made of.
fn entry_id(text: &str) -> Result<String, String> {
    let id: uuid::Uuid = text.parse().map_err(|e| format!("{e}; `cutter backlog list` shows entries"))?;
    Ok(id.to_string())
}

impl CutOptions {
    /// The profile for a text: the one named, or the one detected.
    pub(crate) fn choose(&self, text: &[u8], limits: &MarkLimits) -> Result<Chosen, Failure> {
        profile::choose(&self.profile, self.depth.as_ref(), text, limits)
    }
}

impl ManifestOption {
    /// Whether a manifest was named.
    pub(crate) const fn is_given(&self) -> bool {
        self.manifest.is_some()
    }

    /// The explicit manifest, if one was named: a JSON value that was read as one.
    pub(crate) fn read(&self) -> Result<Option<Value>, Failure> {
        let Some(path) = &self.manifest else { return Ok(None) };
        let bytes = read_small(path)?;
        let refused = |e: String| Failure::usage(format!("{}: {e}", path.display()));
        ManifestMarker::from_json(&bytes).map_err(|e| refused(e.to_string()))?;
        serde_json::from_slice(&bytes).map(Some).map_err(|e| refused(e.to_string()))
    }
}

/// The plan of a file, and what it follows from.
pub(crate) struct Planned {
    pub(crate) plan: CutPlan,
    chosen: Chosen,
    settings: PlanSettings,
}

/// Plans a file as a run would.
pub(crate) fn of_file(
    file: &Path,
    document_id: &DocumentId,
    cut: &CutOptions,
    manifest: &ManifestOption,
) -> Result<Planned, Failure> {
    let max = cut.max_document_bytes.unwrap_or(limits::MAX_DOCUMENT_BYTES);
    let text = read_bounded(file, max)?;
    let mark_limits = mark_limits(cut, max)?;
    let chosen = cut.choose(&text, &mark_limits)?;
    let manifest = manifest.read()?;
    let marker = manifest.clone().map(ManifestMarker::from_value).transpose();
    let marker = marker.map_err(|e| Failure::usage(e.to_string()))?;
    let vocabulary = Vocabulary::default();
    let plan = CutPlan::build(&PlanInput {
        document_id,
        text: &text,
        profile: &chosen.profile,
        vocabulary: &vocabulary,
        publication_type: cut.publication_type.as_deref(),
        depends_on: &cut.depends_on,
        limits: &mark_limits,
        marker: marker.as_ref().map(|m| m as &dyn Marker),
    })
    .map_err(|e| {
        let file = file.display().to_string();
        refused(&file, &format!("cutter plan {file}"), e)
    })?;
    let settings = plan_settings(cut, &chosen, document_id, manifest);
    Ok(Planned { plan, chosen, settings })
}

pub(crate) fn run(cx: &Context, args: &PlanArgs) -> Outcome {
    let document_id = document_id(args.document_id.as_deref(), &args.file)?;
    let Planned { plan, chosen, settings } = of_file(&args.file, &document_id, &args.cut, &args.manifest)?;
    if let Some(warning) = chosen.warning() {
        cx.out.warn(format!("{}: {warning}", render::name(args.file.display())));
        cx.out.note(format!("next: cutter profile explain {}", render::name(args.file.display())));
    }
    for warning in &plan.warnings {
        let line = warning.line.map(|n| format!(":{n}")).unwrap_or_default();
        cx.out.warn(format!(
            "{}{line}: {} ({})",
            render::name(args.file.display()),
            warning.message,
            warning.code
        ));
    }
    if plan.rows.is_empty() && plan.warnings.is_empty() {
        cx.out.warn(format!(
            "{}: the region is empty; a cut of it is refused",
            render::name(args.file.display())
        ));
    }
    for word in &plan.unknown_words {
        cx.out.warn(format!("`{}` is not in the vocabulary {}", word.word, word.vocabulary));
    }
    for address in &plan.forbidden {
        cx.out.warn(format!("{address} is forbidden for this document"));
    }
    warn_of_count(cx, args, &plan);
    let version = u64::from(args.version_no);
    let json = machine(&args.file, &plan, &chosen, &settings, Some(version))?;
    let exit =
        if plan.forbidden.is_empty() && plan.unknown_words.is_empty() { Exit::DONE } else { Exit::FAILED };
    cx.out.result_as(exit, || people(&args.file, &plan, &chosen, version), &json)
}

/// A run refuses more units than the cap. A plan shows them all the same, unless a cap was
/// given here.
fn warn_of_count(cx: &Context, args: &PlanArgs, plan: &CutPlan) {
    let units = u64::try_from(plan.rows.len()).unwrap_or(u64::MAX);
    let cap = limits::MAX_CANDIDATES_PER_DOC;
    if units > cap && args.cut.max_candidates.is_none() {
        cx.out.warn(format!(
            "{}: {units} units; a run refuses more than {cap} unless --max-candidates says otherwise",
            render::name(args.file.display())
        ));
    }
}

/// Why there is no plan of a text; `again` is the command to give once more with a higher bound.
pub(crate) fn refused(source: &str, again: &str, error: PlanError) -> Failure {
    let count = "mark.candidate_count_within";
    match error {
        PlanError::TooMany { limit, observed, .. } => {
            Failure::gate(format!("{source} has more units than allowed"))
                .broken(count, format!("1 to {limit}"), observed.to_string())
                .next(format!("{again} --max-candidates {observed}"))
        }
        PlanError::Mark(MarkError::TooDense { limit, bytes }) => {
            Failure::gate(format!("{source} is little else than headings and beginnings of units"))
                .broken(count, format!("at most {limit} in {bytes} bytes"), "more; none was built".to_owned())
                .next(format!("{again} --max-candidates {bytes}"))
        }
        other => Failure::usage(format!("{source}: {other}")),
    }
}

pub(crate) fn document_id(given: Option<&str>, file: &Path) -> Result<DocumentId, Failure> {
    match given {
        Some(text) => DocumentId::parse(text).map_err(|e| Failure::usage(format!("--document-id: {e}"))),
        None => document_id_of_file_name(&file.file_name().unwrap_or_default().to_string_lossy())
            .map_err(|e| Failure::usage(e.to_string())),
    }
}

pub(crate) fn mark_limits(cut: &CutOptions, max_bytes: u64) -> Result<MarkLimits, Failure> {
    let prefix = |text: &String| Address::parse(text).map_err(|e| Failure::usage(format!("--forbid: {e}")));
    Ok(MarkLimits {
        max_candidates: u32::try_from(cut.max_candidates.unwrap_or(limits::MAX_CANDIDATES_PER_DOC))
            .unwrap_or(u32::MAX),
        stop: if cut.max_candidates.is_some() { Stop::AtCandidates } else { Stop::AtDensity },
        max_bytes: usize::try_from(max_bytes).unwrap_or(usize::MAX),
        forbidden_prefixes: cut.forbidden_prefixes.iter().map(prefix).collect::<Result<_, _>>()?,
    })
}

/// What the plan follows from: whoever has these and the text makes it again.
pub(crate) fn plan_settings(
    cut: &CutOptions,
    chosen: &Chosen,
    document_id: &DocumentId,
    manifest: Option<Value>,
) -> PlanSettings {
    PlanSettings {
        document_id: document_id.as_str().to_owned(),
        profile: chosen.profile.clone(),
        detection: chosen.detection().cloned(),
        publication_type: cut.publication_type.clone(),
        depends_on: cut.depends_on.clone(),
        manifest,
    }
}

/// Exactly the fields that are documented, in the order of their names. Units are written one by one:
/// there may be very many.
pub(crate) fn machine(
    file: &Path,
    plan: &CutPlan,
    chosen: &Chosen,
    settings: &PlanSettings,
    version: Option<u64>,
) -> Result<impl Serialize, Failure> {
    #[derive(Serialize)]
    struct Machine<D, U> {
        detection: Value,
        document: Value,
        duplicates: D,
        manifest_digest: Digest,
        profile: Value,
        region: Value,
        #[serde(skip_serializing_if = "Option::is_none")]
        rows_digest: Option<Value>,
        settings: Value,
        units: U,
        warnings: Value,
        writer_digest: Digest,
    }
    let unit = |row: &PlanRow| {
        json!({
            "ordinal": row.ordinal,
            "address": row.canonical_address.as_str(),
            "citation_address": row.citation_address.as_ref().map(Address::as_str),
            "unit_kind": row.unit_kind,
            "section_type": row.section_type,
            "start": row.start,
            "end": row.end,
            "content_hash": row.content_hash.to_hex(),
        })
    };
    let value = |v: Result<Value, serde_json::Error>| v.map_err(|e| Failure::internal(e.to_string()));
    Ok(Machine {
        detection: chosen.machine(),
        document: json!({
            "path": file.to_string_lossy(),
            "bytes": plan.document.bytes,
            "sha256": plan.document.sha256.to_hex(),
        }),
        duplicates: Each(|| {
            let line = |d: &Duplicate| json!({ "address": d.address, "of": d.of, "ordinal": d.ordinal, "line": d.line });
            plan.duplicates.iter().map(line)
        }),
        manifest_digest: plan.manifest_digest,
        profile: json!({ "name": plan.profile.name, "version": plan.profile.version, "why": plan.why }),
        region: json!({
            "start": plan.region.start,
            "end": plan.region.end,
            "sha256": plan.region.sha256.to_hex(),
        }),
        rows_digest: version.map(|n| json!({ "version_no": n, "sha256": plan.rows_digest(n).to_hex() })),
        settings: value(serde_json::to_value(settings))?,
        units: Each(move || plan.rows.iter().map(unit)),
        warnings: value(serde_json::to_value(&plan.warnings))?,
        writer_digest: plan.writer_digest,
    })
}

fn people(file: &Path, plan: &CutPlan, chosen: &Chosen, version: u64) -> String {
    let mut text = format!(
        "{}  {}\n{}\n\n",
        paint(HEAD, plan.document_id.as_str()),
        paint(DIM, format!("profile {} {}", plan.profile.name, plan.profile.version)),
        paint(DIM, plan.why.join("; ")),
    );
    text.push_str(&UnitTree::new(&plan.rows).render());
    if !plan.duplicates.is_empty() {
        text.push_str(&format!("\n{}\n", paint(HEAD, "Duplicate numbers")));
        for duplicate in &plan.duplicates {
            text.push_str(&format!(
                "  {} repeats {} (line {})\n",
                duplicate.address, duplicate.of, duplicate.line
            ));
        }
    }
    text.push('\n');
    text.push_str(&chosen.people());
    text.push('\n');
    text.push_str(&render::fields(&[
        ("document", format!("{} ({} bytes)", file.display(), plan.document.bytes)),
        ("units", plan.rows.len().to_string()),
        ("region", format!("bytes {} to {}", plan.region.start, plan.region.end)),
        ("region_sha", plan.region.sha256.to_hex()),
        ("manifest_digest", plan.manifest_digest.to_hex()),
        ("writer_digest", plan.writer_digest.to_hex()),
        ("rows_digest", format!("{} as version {version}", plan.rows_digest(version))),
    ]));
    text
}
