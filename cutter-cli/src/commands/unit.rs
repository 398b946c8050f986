//! `cutter unit`: the result, read-only.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use cutter_core::operate::inspect::in_force::{NotShown, Shown, shown};
use cutter_core::port::database::Reader as _;
use cutter_core::record::observed::{Lifecycle, UnitQuery, UnitRow, UnitScope};
use cutter_core::text::address::Address;
use cutter_pg::PgDatabase;
use futures_executor::block_on;
use serde_json::{Value, json};

use crate::context::Context;
use crate::exit_code::Exit;
use crate::failure::{Failure, Outcome};
use crate::render::{self, DIM, HEAD, WARN, paint};
use crate::wire;

/// Units are read in pages of this many.
const PAGE: u64 = 1000;

/// Look at the units of a document: list, show, export.
///
/// What is in force is read: the newest version that was enacted. Drafts and voided units only
/// with `--status`, and then what is shown says that they are not in force.
#[derive(Debug, Args)]
pub(crate) struct UnitArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    List(ListArgs),
    Show(ShowArgs),
    Export(ExportArgs),
}

/// List a document's units in order.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  cutter unit list --document-id CITY-CHARTER
  cutter unit list --document-id CITY-CHARTER --under CITY-CHARTER/ch-2 --json
  cutter unit list --document-id CITY-CHARTER --version 1
  cutter unit list --document-id CITY-CHARTER --status draft    # what waits for SG2")]
struct ListArgs {
    /// The document.
    #[arg(long, value_name = "ID")]
    document_id: String,
    /// Only this address and what is below it.
    #[arg(long, value_name = "ADDRESS")]
    under: Option<String>,
    #[command(flatten)]
    which: Which,
}

/// Show one unit: its place, its digests, its text.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  cutter unit show CITY-CHARTER/ch-2/art-7
  cutter unit show CITY-CHARTER/ch-2/art-7 --format text > article-7.txt")]
struct ShowArgs {
    /// The full address.
    address: String,
    #[command(flatten)]
    which: Which,
    /// How to write it.
    #[arg(long, value_enum, default_value = "markdown")]
    format: Format,
}

/// Export units, in document order.
///
/// `text` is the units' bytes and nothing else: of all units, exactly the source's body
/// region, byte for byte. `markdown` puts each unit under its address. What is not in force says
/// so: `markdown` and `json` in the file itself, `text` in a warning.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  cutter unit export --document-id CITY-CHARTER > region.md
  cutter unit export --document-id CITY-CHARTER --format json --output units.json
  cutter unit export --document-id CITY-CHARTER --under CITY-CHARTER/ch-2 --format markdown")]
struct ExportArgs {
    /// The document.
    #[arg(long, value_name = "ID")]
    document_id: String,
    /// Only this address and what is below it.
    #[arg(long, value_name = "ADDRESS")]
    under: Option<String>,
    #[command(flatten)]
    which: Which,
    /// How to write them.
    #[arg(long, value_enum, default_value = "text")]
    format: Format,
    /// Write into this file instead of stdout.
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Which cut of a document.
#[derive(Debug, Args)]
struct Which {
    /// A version [default: the newest].
    #[arg(long, value_name = "N")]
    version: Option<i32>,
    /// Where its units stand; drafts wait or were refused.
    #[arg(long, value_enum, default_value = "enacted")]
    status: Status,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Status {
    Enacted,
    Draft,
    Voided,
}

impl From<Status> for Lifecycle {
    fn from(status: Status) -> Self {
        match status {
            Status::Enacted => Self::Enacted,
            Status::Draft => Self::Draft,
            Status::Voided => Self::Voided,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    Text,
    Markdown,
    Json,
}

pub(crate) fn run(cx: &Context, args: &UnitArgs) -> Outcome {
    let database = wire::reader(&cx.config()?)?;
    block_on(database.check_schema())?;
    match &args.command {
        Command::List(args) => list(cx, &database, args),
        Command::Show(args) => show(cx, &database, args),
        Command::Export(args) => export(cx, &database, args),
    }
}

/// All units of a query that names its change set, page by page.
pub(crate) fn read_all(database: &PgDatabase, mut query: UnitQuery) -> Result<Vec<UnitRow>, Failure> {
    let mut units: Vec<UnitRow> = Vec::new();
    query.limit = PAGE;
    loop {
        let page = block_on(database.units(&query))?;
        let is_last = u64::try_from(page.len()).unwrap_or(u64::MAX) < PAGE;
        units.extend(page);
        let Some(last) = units.last() else { return Ok(units) };
        query.after_ordinal = Some(last.ordinal);
        if is_last {
            return Ok(units);
        }
    }
}

/// The cut that is asked for.
pub(crate) fn find(
    database: &PgDatabase,
    document_id: &str,
    version: Option<i32>,
    status: Lifecycle,
) -> Result<Shown, Failure> {
    let versions = block_on(database.versions(document_id))?;
    shown(document_id, &versions, version, status).map_err(|NotShown { what, found, next }| {
        let mut failure = Failure::usage(what);
        for line in found {
            failure = failure.broken("unit.status", status.as_str(), line);
        }
        next.into_iter().fold(failure, Failure::next)
    })
}

/// A query for the units of a cut.
pub(crate) fn units_of(document_id: &str, cut: &Shown) -> UnitQuery {
    UnitQuery {
        document_id: document_id.to_owned(),
        scope: UnitScope::ChangeSet(cut.change_set_id),
        limit: PAGE,
        ..UnitQuery::default()
    }
}

/// Says that a cut is not what is in force, wherever it goes.
fn warn(cx: &Context, document_id: &str, cut: &Shown) {
    if !cut.is_in_force() {
        cx.out.warn(not_in_force(document_id, cut));
    }
}

fn not_in_force(document_id: &str, cut: &Shown) -> String {
    format!("version {} of {document_id}: {} ({})", cut.version_no, cut.standing(), cut.run_id)
}

fn under(given: Option<&str>) -> Result<Option<String>, Failure> {
    let under = given.map(Address::parse).transpose();
    let under = under.map_err(|e| Failure::usage(format!("--under: {e}")))?;
    Ok(under.map(|a| a.as_str().to_owned()))
}

fn some(units: Vec<UnitRow>, document: &str) -> Result<Vec<UnitRow>, Failure> {
    if units.is_empty() {
        return Err(Failure::usage(format!("no units of {document} are stored there"))
            .next(format!("cutter unit list --document-id {document}")));
    }
    Ok(units)
}

/// What is shown, with how it stands.
fn document(document_id: &str, cut: &Shown, units: &[UnitRow]) -> Value {
    json!({
        "document_id": document_id,
        "version": cut.version_no,
        "lifecycle_status": cut.status,
        "in_force": cut.is_in_force(),
        "run_id": cut.run_id,
        "change_set_id": cut.change_set_id,
        "units": units.iter().map(machine).collect::<Vec<_>>(),
    })
}

fn machine(unit: &UnitRow) -> Value {
    let mut value = json!({
        "ordinal": unit.ordinal,
        "address": unit.canonical_address,
        "citation_address": unit.citation_address,
        "unit_kind": unit.unit_kind,
        "section_type": unit.section_type,
        "lifecycle_status": unit.lifecycle_status,
        "version": unit.version_no,
        "start": unit.start,
        "end": unit.end,
        "content_hash": unit.content_hash.to_hex(),
        "unit_id": unit.unit_id,
        "change_set_id": unit.change_set_id,
    });
    if let (Some(content), Some(map)) = (&unit.content, value.as_object_mut()) {
        map.insert("text".to_owned(), String::from_utf8_lossy(content).into_owned().into());
    }
    value
}

fn list(cx: &Context, database: &PgDatabase, args: &ListArgs) -> Outcome {
    let cut = find(database, &args.document_id, args.which.version, args.which.status.into())?;
    let query = UnitQuery { under: under(args.under.as_deref())?, ..units_of(&args.document_id, &cut) };
    let units = some(read_all(database, query)?, &args.document_id)?;
    let people = || {
        let mut text = String::new();
        if !cut.is_in_force() {
            text.push_str(&format!("{}\n", paint(WARN, not_in_force(&args.document_id, &cut))));
        }
        let document_depth = 1;
        for unit in &units {
            let depth = unit.canonical_address.split('/').count().saturating_sub(document_depth + 1);
            let shown = unit.canonical_address.rsplit('/').next().unwrap_or_default();
            let shown = if depth == 0 { unit.canonical_address.as_str() } else { shown };
            text.push_str(&format!(
                "{}{shown}  {}\n",
                "  ".repeat(depth),
                paint(
                    DIM,
                    format!(
                        "{} · {} · {} · {}",
                        unit.unit_kind,
                        unit.section_type,
                        unit.lifecycle_status,
                        render::size(unit.end.saturating_sub(unit.start))
                    )
                )
            ));
        }
        text
    };
    cx.out.result(people, &document(&args.document_id, &cut, &units))
}

fn show(cx: &Context, database: &PgDatabase, args: &ShowArgs) -> Outcome {
    let address = Address::parse(&args.address).map_err(|e| Failure::usage(e.to_string()))?;
    let document_id = address.document();
    let cut = find(database, document_id, args.which.version, args.which.status.into())?;
    let query = UnitQuery {
        under: Some(address.as_str().to_owned()),
        limit: 1,
        with_content: true,
        ..units_of(document_id, &cut)
    };
    let found = block_on(database.units(&query))?;
    let unit =
        found.into_iter().find(|unit| unit.canonical_address == address.as_str()).ok_or_else(|| {
            Failure::usage(format!("no unit {address} is stored in version {}", cut.version_no)).next(
                format!(
                    "cutter unit list --document-id {document_id} --version {} --status {}",
                    cut.version_no, cut.status
                ),
            )
        })?;
    if args.format == Format::Text && !cx.out.is_json() {
        warn(cx, document_id, &cut);
        cx.out.document(unit.content.as_deref().unwrap_or_default())?;
        return Ok(Exit::DONE);
    }
    let mut value = machine(&unit);
    if let Some(map) = value.as_object_mut() {
        map.insert("in_force".to_owned(), cut.is_in_force().into());
        map.insert("run_id".to_owned(), cut.run_id.as_str().into());
    }
    if args.format == Format::Json {
        cx.out.machine(&format!("{value:#}"))?;
        return Ok(Exit::DONE);
    }
    let people = || {
        let mut text = format!("{}\n", paint(HEAD, &unit.canonical_address));
        let citation = unit.citation_address.clone().unwrap_or_else(|| "-".to_owned());
        let standing = cut.standing();
        text.push_str(&render::fields(&[
            ("quoted as", citation),
            ("kind", format!("{} · {}", unit.unit_kind, unit.section_type)),
            ("status", if cut.is_in_force() { standing } else { paint(WARN, standing) }),
            ("version", unit.version_no.to_string()),
            ("bytes", format!("{} to {} of the source", unit.start, unit.end)),
            ("content_hash", unit.content_hash.to_hex()),
        ]));
        text.push('\n');
        text.push_str(&String::from_utf8_lossy(unit.content.as_deref().unwrap_or_default()));
        text
    };
    cx.out.result(people, &value)
}

fn export(cx: &Context, database: &PgDatabase, args: &ExportArgs) -> Outcome {
    let cut = find(database, &args.document_id, args.which.version, args.which.status.into())?;
    let query = UnitQuery {
        under: under(args.under.as_deref())?,
        with_content: true,
        ..units_of(&args.document_id, &cut)
    };
    let units = some(read_all(database, query)?, &args.document_id)?;
    warn(cx, &args.document_id, &cut);
    let format = if cx.out.is_json() { Format::Json } else { args.format };
    let mut bytes = Vec::new();
    match format {
        Format::Text => {
            units.iter().for_each(|u| bytes.extend_from_slice(u.content.as_deref().unwrap_or_default()))
        }
        Format::Markdown => {
            if !cut.is_in_force() {
                bytes = format!("<!-- {} -->\n", not_in_force(&args.document_id, &cut)).into_bytes();
            }
            for unit in &units {
                bytes.extend_from_slice(format!("<!-- {} -->\n", unit.canonical_address).as_bytes());
                bytes.extend_from_slice(unit.content.as_deref().unwrap_or_default());
                if !bytes.ends_with(b"\n") {
                    bytes.push(b'\n');
                }
            }
        }
        Format::Json => bytes = format!("{:#}\n", document(&args.document_id, &cut, &units)).into_bytes(),
    }
    match &args.output {
        Some(path) => {
            std::fs::write(path, &bytes).map_err(|e| Failure::io("write", path, &e))?;
            let n = u64::try_from(units.len()).unwrap_or(u64::MAX);
            cx.out.note(format!("{} in {}", render::count(n, "unit"), render::name(path.display())));
        }
        None if format == Format::Json => cx.out.machine(String::from_utf8_lossy(&bytes).trim_end())?,
        None => cx.out.document(&bytes)?,
    }
    Ok(Exit::DONE)
}
