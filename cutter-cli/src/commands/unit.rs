//! `cutter unit`: the result, read-only.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use cutter_core::address::Address;
use cutter_core::port::database::{Reader as _, UnitQuery, UnitRow};
use cutter_pg::PgDatabase;
use futures_executor::block_on;
use serde_json::{Value, json};

use crate::app::Context;
use crate::exit_code::Exit;
use crate::failure::{Failure, Outcome};
use crate::render::{self, DIM, HEAD, paint};
use crate::wire;

/// Units are read in pages of this many.
const PAGE: u64 = 1000;

/// Look at the units of a document: list, show, export.
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
  cutter unit list --document-id CITY-CHARTER --version 1")]
struct ListArgs {
    /// The document.
    #[arg(long, value_name = "ID")]
    document_id: String,
    /// Only this address and what is below it.
    #[arg(long, value_name = "ADDRESS")]
    under: Option<String>,
    /// A version [default: the newest that has units].
    #[arg(long, value_name = "N")]
    version: Option<i32>,
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
    /// A version [default: the newest that has units].
    #[arg(long, value_name = "N")]
    version: Option<i32>,
    /// How to write it.
    #[arg(long, value_enum, default_value = "markdown")]
    format: Format,
}

/// Export units, in document order.
///
/// `text` is the units' bytes and nothing else: of all units, exactly the source's body
/// region, byte for byte. `markdown` puts each unit under its address.
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
    /// A version [default: the newest that has units].
    #[arg(long, value_name = "N")]
    version: Option<i32>,
    /// How to write them.
    #[arg(long, value_enum, default_value = "text")]
    format: Format,
    /// Write into this file instead of stdout.
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
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

/// All units that a query names, page by page. The version is fixed by the first page.
pub(crate) fn read_all(database: &PgDatabase, mut query: UnitQuery) -> Result<Vec<UnitRow>, Failure> {
    let mut units: Vec<UnitRow> = Vec::new();
    query.limit = PAGE;
    loop {
        let page = block_on(database.units(&query))?;
        let is_last = u64::try_from(page.len()).unwrap_or(u64::MAX) < PAGE;
        units.extend(page);
        let Some(last) = units.last() else { return Ok(units) };
        query.after_ordinal = Some(last.ordinal);
        query.version_no = Some(last.version_no);
        if is_last {
            return Ok(units);
        }
    }
}

fn query(
    document: &str,
    under: Option<&str>,
    version: Option<i32>,
    with_content: bool,
) -> Result<UnitQuery, Failure> {
    let under = under.map(Address::parse).transpose();
    let under = under.map_err(|e| Failure::usage(format!("--under: {e}")))?;
    Ok(UnitQuery {
        document_id: document.to_owned(),
        version_no: version,
        under: under.map(|a| a.as_str().to_owned()),
        after_ordinal: None,
        limit: PAGE,
        with_content,
    })
}

fn some(units: Vec<UnitRow>, document: &str) -> Result<Vec<UnitRow>, Failure> {
    if units.is_empty() {
        return Err(Failure::usage(format!("no units of {document} are stored there"))
            .next(format!("cutter orchestrate list --document-id {document}")));
    }
    Ok(units)
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
    let query = query(&args.document_id, args.under.as_deref(), args.version, false)?;
    let units = some(read_all(database, query)?, &args.document_id)?;
    let value: Vec<Value> = units.iter().map(machine).collect();
    let people = || {
        let mut text = String::new();
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
    cx.out.result(people, &json!({ "document_id": args.document_id, "units": value }))
}

fn show(cx: &Context, database: &PgDatabase, args: &ShowArgs) -> Outcome {
    let address = Address::parse(&args.address).map_err(|e| Failure::usage(e.to_string()))?;
    let mut query = query(address.document(), Some(address.as_str()), args.version, true)?;
    query.limit = 1;
    let found = block_on(database.units(&query))?;
    let unit =
        found.into_iter().find(|unit| unit.canonical_address == address.as_str()).ok_or_else(|| {
            Failure::usage(format!("no unit {address} is stored"))
                .next(format!("cutter unit list --document-id {}", address.document()))
        })?;
    if args.format == Format::Text && !cx.out.is_json() {
        cx.out.document(unit.content.as_deref().unwrap_or_default())?;
        return Ok(Exit::DONE);
    }
    let value = machine(&unit);
    if args.format == Format::Json {
        cx.out.machine(&format!("{value:#}"))?;
        return Ok(Exit::DONE);
    }
    let people = || {
        let mut text = format!("{}\n", paint(HEAD, &unit.canonical_address));
        let citation = unit.citation_address.clone().unwrap_or_else(|| "-".to_owned());
        text.push_str(&render::fields(&[
            ("quoted as", citation),
            ("kind", format!("{} · {}", unit.unit_kind, unit.section_type)),
            ("status", unit.lifecycle_status.clone()),
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
    let query = query(&args.document_id, args.under.as_deref(), args.version, true)?;
    let units = some(read_all(database, query)?, &args.document_id)?;
    let format = if cx.out.is_json() { Format::Json } else { args.format };
    let mut bytes = Vec::new();
    match format {
        Format::Text => {
            units.iter().for_each(|u| bytes.extend_from_slice(u.content.as_deref().unwrap_or_default()))
        }
        Format::Markdown => {
            for unit in &units {
                bytes.extend_from_slice(format!("<!-- {} -->\n", unit.canonical_address).as_bytes());
                bytes.extend_from_slice(unit.content.as_deref().unwrap_or_default());
                if !bytes.ends_with(b"\n") {
                    bytes.push(b'\n');
                }
            }
        }
        Format::Json => {
            let value: Vec<Value> = units.iter().map(machine).collect();
            let document = json!({ "document_id": args.document_id, "units": value });
            bytes = format!("{document:#}\n").into_bytes();
        }
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
