//! `cutter request mark`.

use std::path::Path;

use clap::Args;
use cutter_core::base::limits;
use cutter_core::port::cut_request::{CutRequests, StageMark};
use cutter_core::port::database::Reader as _;
use cutter_core::record::cut_request::CutRequest;
use cutter_core::text::address::{Address, DocumentId};
use cutter_core::text::mark::{ManifestMarker, Marker, Stop};
use cutter_core::text::plan::{CutPlan, PlanInput};
use futures_executor::block_on;

use super::{RequestArg, answer, asked, get, open, refused};
use crate::commands::plan::{self, CutOptions, ManifestOption};
use crate::config::Config;
use crate::context::Context;
use crate::failure::{Failure, Outcome};
use crate::wire::{self, RandomIds};

/// Mark the staged copy: make the plan of its units, and stage it for review.
///
/// The plan is the one that `cutter plan` prints for the same text and options. What a gate
/// would refuse later is refused now: words that the vocabularies lack, forbidden addresses, more
/// units than the cap, no unit at all. A rejected mark is made again with other options.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  cutter request mark --request-id REQUEST
  cutter request mark --request-id REQUEST --document-id CITY-CHARTER --profile de --depth article
  cutter request mark --request-id REQUEST --manifest spans.json")]
pub(super) struct MarkArgs {
    #[command(flatten)]
    request: RequestArg,
    /// First part of every address [default: from the name of the source, as `cutter plan` does].
    #[arg(long, value_name = "ID")]
    document_id: Option<String>,
    #[command(flatten)]
    cut: CutOptions,
    #[command(flatten)]
    manifest: ManifestOption,
}

pub(super) fn run(cx: &Context, args: &MarkArgs) -> Outcome {
    let config = cx.config()?;
    let requests = open(&config)?;
    let request = get(requests.as_ref(), args.request.id)?;
    let text = staged_copy(requests.as_ref(), &request)?;
    let source = request.source_path.clone().unwrap_or_else(|| request.source_ref.clone());
    let document_id = plan::document_id(args.document_id.as_deref(), Path::new(&source))?;
    let (manifest, digest, units) = manifest(cx, &config, args, &document_id, &text, &source)?;
    let asked = asked(&config);
    let mark = StageMark {
        cut_request_id: args.request.id,
        staging_record_id: RandomIds.random_uuid(asked.at),
        manifest,
        manifest_digest: digest,
        asked,
    };
    let outcome =
        block_on(requests.mark(&mark)).map_err(|e| refused(requests.as_ref(), args.request.id, e))?;
    cx.out.note(format!("{units} units of {document_id}"));
    answer(cx, outcome)
}

/// The bytes that were copied for a request.
pub(super) fn staged_copy(requests: &dyn CutRequests, request: &CutRequest) -> Result<Vec<u8>, Failure> {
    let id = request.cut_request_id;
    let missing = || {
        let failure = Failure::gate(format!("request {id} ({}) has no staged copy", request.status));
        match super::steps::first_next(request) {
            Some(next) => failure.next(next),
            None => failure,
        }
    };
    let record = request.copy_staging_record_id.ok_or_else(missing)?;
    block_on(requests.staged_bytes(record))?.ok_or_else(missing)
}

/// The plan as it is staged, its digest, and how many units it has.
fn manifest(
    cx: &Context,
    config: &Config,
    args: &MarkArgs,
    document_id: &DocumentId,
    text: &[u8],
    source: &str,
) -> Result<(Vec<u8>, cutter_core::base::digest::Digest, usize), Failure> {
    let bounds = &config.bounds;
    let max = args.cut.max_document_bytes.or(bounds.max_document_bytes).unwrap_or(limits::MAX_DOCUMENT_BYTES);
    let cap = args.cut.max_candidates.or(bounds.max_candidates).unwrap_or(limits::MAX_CANDIDATES_PER_DOC);
    let mut mark_limits = plan::mark_limits(&args.cut, max)?;
    mark_limits.stop = Stop::AtCandidates;
    mark_limits.max_candidates = u32::try_from(cap).unwrap_or(u32::MAX);
    let chosen = args.cut.choose(text, &mark_limits)?;
    for prefix in &bounds.forbidden_prefixes {
        let prefix =
            Address::parse(prefix).map_err(|e| Failure::usage(format!("forbidden_prefixes: {e}")))?;
        mark_limits.forbidden_prefixes.push(prefix);
    }
    let explicit = args.manifest.read()?;
    let marker = explicit.clone().map(ManifestMarker::from_value).transpose();
    let marker = marker.map_err(|e| Failure::usage(e.to_string()))?;
    let vocabulary = block_on(wire::reader(config)?.vocabulary())?;
    let plan = CutPlan::build(&PlanInput {
        document_id,
        text,
        profile: &chosen.profile,
        vocabulary: &vocabulary,
        publication_type: args.cut.publication_type.as_deref(),
        depends_on: &args.cut.depends_on,
        limits: &mark_limits,
        marker: marker.as_ref().map(|m| m as &dyn Marker),
    })
    .map_err(|e| plan::refused(source, "cutter request mark", e).next("cutter request mark --help"))?;
    if let Some(warning) = chosen.warning() {
        cx.out.warn(format!("{source}: {warning}"));
    }
    for warning in &plan.warnings {
        cx.out.warn(format!("{source}: {} ({})", warning.message, warning.code));
    }
    let mut failure = Failure::gate(format!("{source} cannot be cut like this"));
    let units = u64::try_from(plan.rows.len()).unwrap_or(u64::MAX);
    if units == 0 {
        failure = failure.broken("mark.candidate_count_within", format!("1 to {cap}"), units.to_string());
    }
    if let Some(address) = plan.forbidden.first() {
        failure = failure.broken("cutplan.forbidden", "no forbidden address", address.to_string());
    }
    if let Some(word) = plan.unknown_words.first() {
        failure = failure.broken(
            "cutplan.vocabulary",
            format!("words of the vocabulary {}", word.vocabulary),
            word.word.clone(),
        );
    }
    if !failure.broken.is_empty() {
        return Err(failure.next("cutter request mark --help"));
    }
    let settings = plan::plan_settings(&args.cut, &chosen, document_id, explicit);
    let json = serde_json::to_vec(&plan::machine(Path::new(source), &plan, &chosen, &settings, None)?);
    let json = json.map_err(|e| Failure::internal(e.to_string()))?;
    Ok((json, plan.manifest_digest, plan.rows.len()))
}
