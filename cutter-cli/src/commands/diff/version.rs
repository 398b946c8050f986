//! Where the two versions come from: a file that is planned, or units that are stored.

use std::path::Path;

use cutter_core::base::limits;
use cutter_core::base::vocabulary::Vocabulary;
use cutter_core::operate::inspect::in_force::Shown;
use cutter_core::port::database::Reader as _;
use cutter_core::record::observed::{Lifecycle, UnitQuery, UnitRow};
use cutter_core::text::address::DocumentId;
use cutter_core::text::compare::UnitFact;
use cutter_core::text::plan::{CutPlan, PlanInput};
use cutter_core::text::profile::Profile;
use futures_executor::block_on;
use serde_json::{Value, json};

use super::DiffArgs;
use crate::commands::profile::Chosen;
use crate::commands::{plan, unit};
use crate::context::Context;
use crate::failure::Failure;
use crate::files::read_bounded;
use crate::render::name;
use crate::wire;

const STORED: &str = "db:";

/// One version, loaded.
pub(super) struct Version {
    /// What the operator called it, and what it is.
    pub(super) label: String,
    /// The document.
    pub(super) document_id: String,
    from: From,
}

enum From {
    File { path: String, text: Vec<u8>, plan: Box<CutPlan> },
    Stored { units: Vec<UnitRow>, cut: Shown },
}

impl Version {
    pub(super) fn units(&self) -> Vec<UnitFact<'_>> {
        match &self.from {
            From::File { text, plan, .. } => UnitFact::of_plan(plan, text),
            From::Stored { units, .. } => units.iter().map(UnitFact::of_stored).collect(),
        }
    }

    /// Whether both are files whose bytes differ.
    pub(super) fn differs_outside(&self, other: &Self) -> bool {
        match (&self.from, &other.from) {
            (From::File { text: a, .. }, From::File { text: b, .. }) => a != b,
            _ => false,
        }
    }

    pub(super) fn machine(&self) -> Value {
        match &self.from {
            From::File { path, plan, .. } => json!({
                "path": path,
                "sha256": plan.document.sha256.to_hex(),
                "profile": { "name": plan.profile.name, "version": plan.profile.version },
            }),
            From::Stored { cut, .. } => json!({
                "version": cut.version_no,
                "lifecycle_status": cut.status,
                "in_force": cut.is_in_force(),
            }),
        }
    }
}

/// `db:ID`, `db:ID@N`, either with `:STATUS`.
struct Stored<'a> {
    document_id: &'a str,
    version_no: Option<i32>,
    status: Lifecycle,
}

fn stored(given: &str) -> Result<Option<Stored<'_>>, Failure> {
    let Some(rest) = given.strip_prefix(STORED) else { return Ok(None) };
    let wrong = |what: String| Failure::usage(format!("{given}: {what}"));
    let (rest, status) = match rest.split_once(':') {
        None => (rest, Lifecycle::Enacted),
        Some((rest, status)) => (rest, status.parse().map_err(wrong)?),
    };
    let (document_id, version_no) = match rest.split_once('@') {
        None => (rest, None),
        Some((document_id, number)) => {
            let number: Result<i32, _> = number.parse();
            (document_id, Some(number.map_err(|_| wrong("expected a version number after @".to_owned()))?))
        }
    };
    DocumentId::parse(document_id).map_err(|e| wrong(e.to_string()))?;
    Ok(Some(Stored { document_id, version_no, status }))
}

/// Both versions, under one document id: addresses of different documents have nothing in common.
pub(super) fn load(cx: &Context, args: &DiffArgs) -> Result<(Version, Version), Failure> {
    let (old, new) = (stored(&args.old)?, stored(&args.new)?);
    let named = [
        args.document_id.as_deref(),
        old.as_ref().map(|s| s.document_id),
        new.as_ref().map(|s| s.document_id),
    ];
    let mut named = named.into_iter().flatten();
    let first = named.next();
    if let Some(first) = first
        && let Some(other) = named.find(|id| *id != first)
    {
        return Err(Failure::usage(format!(
            "{first} and {other} are two documents: expected two versions of one"
        )));
    }
    let document_id = plan::document_id(first, Path::new(&args.new))?;
    let max = args.cut.max_document_bytes.unwrap_or(limits::MAX_DOCUMENT_BYTES);
    let text = |given: &str, stored: &Option<Stored<'_>>| match stored {
        Some(_) => Ok(None),
        None => read_bounded(Path::new(given), max).map(Some),
    };
    let (old_text, new_text) = (text(&args.old, &old)?, text(&args.new, &new)?);
    // Both are cut with one profile: the one that fits the newer text.
    let chosen = match new_text.as_ref().or(old_text.as_ref()) {
        Some(text) => Some(args.cut.choose(text, &plan::mark_limits(&args.cut, max)?)?),
        None => None,
    };
    if let Some(warning) = chosen.as_ref().and_then(Chosen::warning) {
        let file = if new_text.is_some() { &args.new } else { &args.old };
        cx.out.warn(format!("{}: {warning}", name(file)));
    }
    let one = |given: &str, stored: Option<Stored<'_>>, text: Option<Vec<u8>>| match (stored, text, &chosen) {
        (Some(stored), _, _) => from_database(cx, &stored),
        (None, Some(text), Some(chosen)) => from_file(cx, args, given, &document_id, text, &chosen.profile),
        _ => Err(Failure::internal(format!("{given} was not read"))),
    };
    Ok((one(&args.old, old, old_text)?, one(&args.new, new, new_text)?))
}

fn from_file(
    cx: &Context,
    args: &DiffArgs,
    given: &str,
    document_id: &DocumentId,
    text: Vec<u8>,
    profile: &Profile,
) -> Result<Version, Failure> {
    let max = args.cut.max_document_bytes.unwrap_or(limits::MAX_DOCUMENT_BYTES);
    let plan = CutPlan::build(&PlanInput {
        document_id,
        text: &text,
        profile,
        vocabulary: &Vocabulary::default(),
        publication_type: args.cut.publication_type.as_deref(),
        depends_on: &args.cut.depends_on,
        limits: &plan::mark_limits(&args.cut, max)?,
        marker: None,
    })
    .map_err(|e| plan::refused(given, &format!("cutter diff {} {}", args.old, args.new), e))?;
    if plan.rows.is_empty() {
        cx.out.warn(format!("{}: the region is empty, so there are no units", name(given)));
    }
    Ok(Version {
        label: given.to_owned(),
        document_id: document_id.as_str().to_owned(),
        from: From::File { path: given.to_owned(), text, plan: Box::new(plan) },
    })
}

fn from_database(cx: &Context, stored: &Stored<'_>) -> Result<Version, Failure> {
    let database = wire::reader(&cx.config()?)?;
    block_on(database.check_schema())?;
    let cut = unit::find(&database, stored.document_id, stored.version_no, stored.status)?;
    let query = UnitQuery { with_content: true, ..unit::units_of(stored.document_id, &cut) };
    let units = unit::read_all(&database, query)?;
    Ok(Version {
        label: format!("db:{}@{} ({})", stored.document_id, cut.version_no, cut.standing()),
        document_id: stored.document_id.to_owned(),
        from: From::Stored { units, cut },
    })
}
