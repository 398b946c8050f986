//! `cutter backup`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use cutter_core::sidecar::{BackupRecord, Sidecar};
use cutter_kb::openpgp::decrypt_stream;
use serde_json::json;

use crate::app::Context;
use crate::commands::RunArg;
use crate::commands::orchestrate::load;
use crate::config::Config;
use crate::exit_code::Exit;
use crate::failure::{Failure, Outcome};
use crate::render::{self, BAD, GOOD, paint};
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
    }
}

/// The recorded backup of a run.
pub(crate) fn recorded(sidecar: &Sidecar) -> Result<&BackupRecord, Failure> {
    sidecar.backup.as_ref().ok_or_else(|| {
        Failure::usage(format!("{} has taken no backup yet ({})", sidecar.run_id, sidecar.state))
            .next(format!("cutter why --run-id {}", sidecar.run_id))
    })
}

/// The stored ciphertext.
pub(crate) fn open(
    stores: &Stores,
    sidecar: &Sidecar,
    record: &BackupRecord,
) -> Result<std::fs::File, Failure> {
    let path = stores.files.run_path(sidecar.run_id.as_str()).join(&record.blob.name);
    std::fs::File::open(&path).map_err(|e| Failure::io("read", &path, &e))
}

fn inspect(cx: &Context, config: &Config, args: &InspectArgs) -> Outcome {
    let stores = wire::stores(config);
    let sidecar = load(&stores, &args.run.run_id)?;
    let record = recorded(&sidecar)?;
    let mut head = Vec::new();
    let (ciphertext, plaintext) = match &args.key {
        None => (hash(open(&stores, &sidecar, record)?, record)?, None),
        Some(path) => {
            let key = wire::load_pair(path)?;
            let mut plain = Head { bytes: &mut head };
            let facts = decrypt_stream(&key, open(&stores, &sidecar, record)?, &mut plain)
                .map_err(|e| Failure::evidence(e.to_string()))?;
            (facts.ciphertext_sha256, Some(facts.plaintext_sha256))
        }
    };
    let is_cipher = ciphertext == record.blob.sha256;
    let is_plain = plaintext.is_none_or(|digest| digest == record.blob.plaintext_sha256);
    let exit = if is_cipher && is_plain { Exit::DONE } else { Exit::EVIDENCE };
    let header = String::from_utf8_lossy(&head).lines().nth(1).and_then(|l| serde_json::from_str(l).ok());
    let header: Option<serde_json::Value> = header;
    let machine = json!({
        "run_id": sidecar.run_id,
        "recorded": record,
        "ciphertext_sha256": ciphertext.to_hex(),
        "ciphertext_matches": is_cipher,
        "plaintext_matches": plaintext.map(|_| is_plain),
        "header": header,
    });
    let verdict = |ok: bool| if ok { paint(GOOD, "as recorded") } else { paint(BAD, "NOT as recorded") };
    let people = || {
        let mut rows = vec![
            ("blob", record.blob.name.clone()),
            ("size", render::size(record.blob.bytes)),
            ("taken", record.at.to_string()),
            ("recipient", record.blob.fingerprint.clone()),
            ("content rows", record.content_rows.to_string()),
            ("base state", record.base_state_sha.to_hex()),
            ("ciphertext", verdict(is_cipher)),
        ];
        if plaintext.is_some() {
            rows.push(("plaintext", verdict(is_plain)));
        }
        if let Some(header) = &header {
            rows.push(("header", header.to_string()));
        }
        render::fields(&rows)
    };
    cx.out.result_as(exit, people, &machine)
}

fn hash(file: std::fs::File, record: &BackupRecord) -> Result<cutter_core::digest::Digest, Failure> {
    use std::io::Read as _;
    let mut hasher = cutter_core::digest::Hasher::new();
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

/// Keeps the beginning of a plaintext and lets the rest go by.
struct Head<'a> {
    bytes: &'a mut Vec<u8>,
}

impl std::io::Write for Head<'_> {
    fn write(&mut self, chunk: &[u8]) -> std::io::Result<usize> {
        const KEEP: usize = 64 * 1024;
        let room = KEEP.saturating_sub(self.bytes.len()).min(chunk.len());
        self.bytes.extend_from_slice(chunk.get(..room).unwrap_or_default());
        Ok(chunk.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
