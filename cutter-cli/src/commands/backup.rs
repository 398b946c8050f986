//! `cutter backup`.

use std::fs::File;
use std::io::{Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use cutter_core::record::backup::TableSummary;
use cutter_core::record::sidecar::{BackupRecord, Sidecar};
use cutter_kb::openpgp::{DecryptFacts, decrypt_stream};
use cutter_pg::restore::{self, RestoreError};
use serde_json::json;

use crate::commands::orchestrate::load;
use crate::commands::{RunArg, db};
use crate::config::Config;
use crate::context::Context;
use crate::exit_code::Exit;
use crate::failure::{Failure, Outcome};
use crate::render::{self, BAD, GOOD, WARN, paint};
use crate::wire::{self, Stores};

/// A run's backup: inspect it, or restore it into a scratch database.
#[derive(Debug, Args)]
pub(crate) struct BackupArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Inspect(InspectArgs),
    Restore(RestoreArgs),
}

/// Restore a run's backup into a new scratch database.
///
/// Refused if the database is there already or is a configured one. Every table is compared
/// with what the backup says of it; if anything differs there is no database afterwards. No
/// command restores over live data: that is a sovereign's decision, out of band.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  cutter backup restore --run-id RUN --into scratch_charter
  cutter backup restore --run-id RUN --into scratch_charter --key /mnt/usb/backup.secret.asc")]
struct RestoreArgs {
    #[command(flatten)]
    run: RunArg,
    /// Name of the new database.
    #[arg(long, value_name = "DATABASE")]
    into: String,
    /// The recipient's secret key [default: HOME/keys/backup.secret.asc].
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,
}

/// Compare a stored backup with its record; with the secret key, read it to its end.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  cutter backup inspect --run-id RUN
  cutter backup inspect --run-id RUN --key HOME/keys/backup.secret.asc")]
struct InspectArgs {
    #[command(flatten)]
    run: RunArg,
    /// The recipient's secret key: decrypt, and compare the plaintext, too.
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,
}

pub(crate) fn run(cx: &Context, args: &BackupArgs) -> Outcome {
    let config = cx.config()?;
    match &args.command {
        Command::Inspect(args) => inspect(cx, &config, args),
        Command::Restore(args) => restore(cx, &config, args),
    }
}

/// The recorded backup of a run.
pub(crate) fn recorded(sidecar: &Sidecar) -> Result<&BackupRecord, Failure> {
    sidecar.backup.as_ref().ok_or_else(|| {
        Failure::usage(format!("{} has taken no backup yet ({})", sidecar.run_id, sidecar.state))
            .next(format!("cutter why --run-id {}", sidecar.run_id))
    })
}

/// The stored ciphertext and its length.
fn open(
    config: &Config,
    stores: &Stores,
    sidecar: &Sidecar,
    record: &BackupRecord,
) -> Result<(File, u64), Failure> {
    let file = wire::open_backup(config, &stores.files, &sidecar.run_id, &record.blob.name)?;
    let facts = file.metadata().map_err(|e| Failure::io("read", Path::new(&record.blob.name), &e))?;
    Ok((file, facts.len()))
}

/// Decrypts a run's backup into a file without a name, and compares both digests.
fn decrypt(
    config: &Config,
    stores: &Stores,
    sidecar: &Sidecar,
    key: &Path,
) -> Result<(File, DecryptFacts), Failure> {
    let record = recorded(sidecar)?;
    let pair = wire::load_pair(key)?;
    let (file, bytes) = open(config, stores, sidecar, record)?;
    if bytes != record.blob.bytes {
        return Err(Failure::evidence(format!(
            "the stored backup {} is not the recorded one",
            record.blob.name
        ))
        .broken("backup.bytes", record.blob.bytes.to_string(), bytes.to_string()));
    }
    let mut plain = wire::unnamed(&config.home)?;
    let facts = decrypt_stream(&pair, file, &mut plain).map_err(|e| Failure::evidence(e.to_string()))?;
    plain.seek(SeekFrom::Start(0)).map_err(|e| Failure::io("read back", &config.home, &e))?;
    Ok((plain, facts))
}

fn inspect(cx: &Context, config: &Config, args: &InspectArgs) -> Outcome {
    let stores = wire::stores(config)?;
    let sidecar = load(&stores, &args.run.run_id)?;
    let record = recorded(&sidecar)?;
    let (bytes, ciphertext, plaintext, info) = match &args.key {
        None => {
            let (file, bytes) = open(config, &stores, &sidecar, record)?;
            (bytes, hash(file, record)?, None, None)
        }
        Some(path) => {
            let (mut plain, facts) = decrypt(config, &stores, &sidecar, path)?;
            let info = restore::inspect(&mut plain).map_err(|e| Failure::evidence(e.to_string()))?;
            (record.blob.bytes, facts.ciphertext_sha256, Some(facts.plaintext_sha256), Some(info))
        }
    };
    let is_cipher = ciphertext == record.blob.sha256;
    let is_plain = plaintext.is_none_or(|digest| digest == record.blob.plaintext_sha256);
    let is_whole = info.as_ref().is_none_or(|info| info.complete);
    let exit = if is_cipher && is_plain && is_whole { Exit::DONE } else { Exit::EVIDENCE };
    let machine = json!({
        "run_id": sidecar.run_id,
        "recorded": record,
        "ciphertext_bytes": bytes,
        "ciphertext_sha256": ciphertext.to_hex(),
        "ciphertext_matches": is_cipher,
        "plaintext_matches": plaintext.map(|_| is_plain),
        "archive": info.as_ref().map(|info| json!({
            "format": info.format, "scope": info.scope, "document_id": info.document_id, "at": info.at,
            "server": info.server, "migrations": info.migrations.len(), "tables": info.tables,
            "complete": info.complete, "problem": info.problem,
        })),
    });
    let verdict = |ok: bool| if ok { paint(GOOD, "as recorded") } else { paint(BAD, "NOT as recorded") };
    let people = || {
        let mut is_stored = verdict(is_cipher);
        if bytes != record.blob.bytes {
            is_stored.push_str(&format!(": expected {} bytes, observed {bytes}", record.blob.bytes));
        }
        let mut rows = vec![
            ("blob", record.blob.name.clone()),
            ("size", render::size(record.blob.bytes)),
            ("taken", record.at.to_string()),
            ("recipient", record.blob.fingerprint.clone()),
            ("content rows", record.content_rows.to_string()),
            ("base state", record.base_state_sha.to_hex()),
            ("ciphertext", is_stored),
        ];
        if plaintext.is_some() {
            rows.push(("plaintext", verdict(is_plain)));
        }
        let mut text = render::fields(&rows);
        if let Some(info) = &info {
            let row = |t: &TableSummary| vec![t.table.clone(), t.rows.to_string(), t.sha256.short(16)];
            text.push_str(&render::table(
                &["table", "rows", "sha256"],
                info.tables.iter().map(row).collect(),
            ));
            if let Some(problem) = &info.problem {
                text.push_str(&format!("{} {problem}\n", paint(BAD, "damaged:")));
            }
        }
        text
    };
    cx.out.result_as(exit, people, &machine)
}

fn restore(cx: &Context, config: &Config, args: &RestoreArgs) -> Outcome {
    let stores = wire::stores(config)?;
    let sidecar = load(&stores, &args.run.run_id)?;
    let record = recorded(&sidecar)?;
    let key = args.key.clone().unwrap_or_else(|| config.home.join("keys/backup.secret.asc"));
    let (mut plain, facts) = decrypt(config, &stores, &sidecar, &key)?;
    if facts.ciphertext_sha256 != record.blob.sha256 || facts.plaintext_sha256 != record.blob.plaintext_sha256
    {
        return Err(Failure::evidence("the stored backup is not the recorded one; nothing was restored")
            .broken(
                "backup.plaintext_sha256",
                record.blob.plaintext_sha256.to_hex(),
                facts.plaintext_sha256.to_hex(),
            ));
    }
    let admin = db::admin_dsn(config)?;
    let protected = db::database_names(config)?;
    let protected: Vec<&str> = protected.iter().map(String::as_str).collect();
    let report =
        restore::restore_archive(&mut plain, &admin, &args.into, &protected).map_err(|e| match e {
            RestoreError::Target { .. } => Failure::usage(format!("nothing was restored: {e}")),
            _ => Failure::evidence(format!("nothing was restored: {e}")),
        })?;
    let differing: Vec<&str> =
        report.fingerprints.iter().filter(|f| !f.is_equal).map(|f| f.name.as_str()).collect();
    let machine = json!({
        "run_id": report.run_id, "database": report.database, "document_id": report.document_id, "at": report.at,
        "tables": report.tables, "base_state_sha": report.base_state_sha, "content_rows": report.content_rows,
        "differing_fingerprints": differing,
    });
    let people = || {
        let row = |t: &TableSummary| vec![t.table.clone(), t.rows.to_string(), t.sha256.short(16)];
        let mut text =
            format!("{} restored into {}, every table compared\n", paint(GOOD, "ok"), report.database);
        text.push_str(&render::table(&["table", "rows", "sha256"], report.tables.iter().map(row).collect()));
        for name in &differing {
            text.push_str(&format!("{} {name} differs from the one that was saved\n", paint(WARN, "note:")));
        }
        text.push_str("It holds plaintext: drop it when it has served.\n");
        text
    };
    cx.out.result(people, &machine)
}

fn hash(file: File, record: &BackupRecord) -> Result<cutter_core::base::digest::Digest, Failure> {
    use std::io::Read as _;
    let mut hasher = cutter_core::base::digest::Hasher::new();
    let mut reader = std::io::BufReader::new(file);
    let mut chunk = vec![0; 64 * 1024];
    loop {
        let n = reader
            .read(&mut chunk)
            .map_err(|e| Failure::io("read", std::path::Path::new(&record.blob.name), &e))?;
        match chunk.get(..n) {
            Some(bytes) if n > 0 => hasher.update(bytes),
            _ => return Ok(hasher.finish()),
        }
    }
}
