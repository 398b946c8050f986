//! `cutter source`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use cutter_core::base::digest::Digest;
use cutter_core::base::limits;
use cutter_core::port::database::{Executor as _, Reader as _};
use cutter_core::record::observed::{Registered, SourceRegistration};
use cutter_core::text::address::DocumentId;
use cutter_core::text::mark::{MarkLimits, check_text};
use cutter_pg::PgDatabase;
use cutter_pg::login::Login;
use futures_executor::block_on;
use serde_json::json;

use crate::config::Config;
use crate::context::Context;
use crate::failure::{Failure, Outcome};
use crate::files::read_bounded;
use crate::render::{self, GOOD, paint};
use crate::wire::{self, RandomIds};

/// Source documents.
#[derive(Debug, Args)]
pub(crate) struct SourceArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Add(AddArgs),
}

/// Register a source document, or a new version of one.
///
/// Idempotent by digest: if the newest version has these bytes, nothing is written. The
/// bytes are stored as they are.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  cutter source add charter.md --document-id CITY-CHARTER
  cutter source add charter-2027.md --document-id CITY-CHARTER --title 'City Charter'")]
pub(crate) struct AddArgs {
    /// The text: UTF-8.
    pub(crate) file: PathBuf,
    /// The document; the first part of every address.
    #[arg(long, value_name = "ID")]
    pub(crate) document_id: String,
    /// A title for people [default: the file's name].
    #[arg(long, value_name = "TEXT")]
    pub(crate) title: Option<String>,
    /// Pin the manifest digest that `cutter plan` printed: a run that computes another stops.
    #[arg(long, value_name = "SHA256")]
    pub(crate) manifest_digest: Option<Digest>,
}

pub(crate) fn run(cx: &Context, args: &SourceArgs) -> Outcome {
    let Command::Add(args) = &args.command;
    let config = cx.config()?;
    let max = config.bounds.max_document_bytes.unwrap_or(limits::MAX_DOCUMENT_BYTES);
    let content = read_bounded(&args.file, max)?;
    let registered = add(&config, args, content)?;
    let latest = registered.source.latest.clone();
    let machine = json!({
        "document_id": registered.source.document_id,
        "source_document_id": registered.source.source_document_id,
        "version": latest,
        "already": registered.already,
    });
    let people = || {
        let mut rows = vec![("document", registered.source.document_id.clone())];
        if let Some(version) = &latest {
            rows.push(("version", version.version_no.to_string()));
            rows.push(("bytes", version.bytes.to_string()));
            rows.push(("sha256", version.sha256.to_hex()));
        }
        let word = if registered.already { "already registered" } else { "registered" };
        format!("{}\n{}", paint(GOOD, word), render::fields(&rows))
    };
    let exit = cx.out.result(people, &machine)?;
    cx.out.note(format!("next: cutter orchestrate cut --document-id {}", registered.source.document_id));
    Ok(exit)
}

/// Registers a text.
pub(crate) fn add(config: &Config, args: &AddArgs, content: Vec<u8>) -> Result<Registered, Failure> {
    let document_id =
        DocumentId::parse(&args.document_id).map_err(|e| Failure::usage(format!("--document-id: {e}")))?;
    let bounds = MarkLimits { max_bytes: usize::MAX, ..MarkLimits::default() };
    check_text(&content, &bounds).map_err(|e| Failure::usage(format!("{}: {e}", args.file.display())))?;
    let name = args.file.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let now = wire::now();
    let registration = SourceRegistration {
        document_id: document_id.as_str().to_owned(),
        title: args.title.clone().unwrap_or(name),
        source_document_id: RandomIds.random_uuid(now),
        source_version_id: RandomIds.random_uuid(now),
        sha256: Digest::of(&content),
        content,
        manifest_digest: args.manifest_digest,
        actor: config.actor.clone(),
    };
    let database = PgDatabase::connect(wire::connections(config, &[Login::Ro, Login::Exec])?);
    block_on(database.check_schema())?;
    Ok(block_on(database.register_source(&registration))?)
}
