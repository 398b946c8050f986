//! Reading what is to be judged. Whatever cannot be read is either a fact that fails its
//! check, or listed as not checked: nothing is left out in silence.

use std::collections::BTreeMap;

use cutter_core::approval::{Ask, field};
use cutter_core::digest::Digest;
use cutter_core::gate::Check;
use cutter_core::id::RunId;
use cutter_core::inspect::Claims;
use cutter_core::inspect::asked;
use cutter_core::inspect::verify::{
    self, ApprovalFact, DatabaseFacts, DocumentFact, RecordFacts, documents, one_document_per_phase,
};
use cutter_core::naming::{DocumentName, RUNS_INDEX_PATH};
use cutter_core::port::database::{Reader as _, UnitQuery, UnitScope};
use cutter_core::port::signer::{SignatureFacts, SignatureVerifier as _};
use cutter_core::sidecar::{ApprovalRecord, Sidecar};
use cutter_kb::openpgp::Recipient;
use cutter_kb::ports::KeyRing;
use futures_executor::block_on;

use crate::commands::sovereign::RunFolder;
use crate::commands::unit::read_all;
use crate::config::Config;
use crate::failure::Failure;
use crate::wire::{self, Stores};

/// Judged checks, and what was not looked at.
#[derive(Default)]
pub(super) struct Gathered {
    pub(super) checks: Vec<Check>,
    pub(super) not_checked: Vec<String>,
}

/// Reads and judges everything that can be reached.
pub(super) fn gather(config: &Config, run_id: &RunId, with_database: bool) -> Result<Gathered, Failure> {
    let stores = wire::stores(config)?;
    let ring = wire::key_ring(config)?;
    let mut out = Gathered::default();
    let sidecar = record(&stores, &ring, run_id, &mut out)?;
    let claims = match &sidecar {
        Some(sidecar) => Claims::of_sidecar(sidecar),
        None => {
            out.not_checked.push(
                "the run's record: its folder is not here; what follows is what its documents say".to_owned(),
            );
            from_documents(config, &stores, &ring, run_id)?
        }
    };
    filed(&stores, &claims, sidecar.as_ref(), &mut out)?;
    let facts = approvals(&stores, &ring, &claims)?;
    out.checks.extend(verify::approvals(&claims, &facts));
    let line = block_on(stores.kb.index_line(RUNS_INDEX_PATH, run_id.as_str()))?;
    out.checks.extend(verify::index(&claims, line.as_deref()));
    if let Some(sidecar) = &sidecar {
        backup(config, &stores, sidecar, &mut out)?;
    }
    if with_database {
        database(config, &claims, &mut out)?;
    } else {
        out.not_checked.push("the database: left out as asked".to_owned());
    }
    Ok(out)
}

/// The record, if its folder is here. One that does not read is a failed check, and the
/// documents speak instead.
fn record(
    stores: &Stores,
    ring: &KeyRing,
    run_id: &RunId,
    out: &mut Gathered,
) -> Result<Option<Sidecar>, Failure> {
    let Some(stored) = block_on(stores.runs.load(run_id))? else { return Ok(None) };
    let sidecar = match Sidecar::from_bytes(&stored.bytes) {
        Ok(sidecar) => sidecar,
        Err(error) => {
            out.checks.push(Check::new("verify.record.readable", "a sidecar, whole", error, false));
            return Ok(None);
        }
    };
    let mut history = Vec::new();
    let mut unreadable = Vec::new();
    for n in 1..stored.revision {
        match block_on(stores.runs.load_revision(run_id, n))? {
            Some(old) => match Sidecar::from_bytes(&old.bytes) {
                Ok(old) => history.push((n, old.transitions.into_vec())),
                Err(error) => unreadable.push((n, error.to_string())),
            },
            None => unreadable.push((n, "it is not there".to_owned())),
        }
    }
    let creation = block_on(ring.observe(sidecar.creation.document.as_bytes(), wire::now()))?;
    let own = Check::equal("verify.record.run_id", &run_id.to_string(), &sidecar.run_id.to_string());
    out.checks.push(own);
    out.checks.extend(verify::record(&RecordFacts {
        sidecar: sidecar.clone(),
        revision: stored.revision,
        history,
        unreadable,
        creation,
    }));
    Ok(Some(sidecar))
}

/// What a run claims by its documents alone.
fn from_documents(
    config: &Config,
    stores: &Stores,
    ring: &KeyRing,
    run_id: &RunId,
) -> Result<Claims, Failure> {
    let folder = RunFolder::find(stores.kb.as_ref(), run_id)?;
    let mut texts = Vec::new();
    for path in &folder.paths {
        if let Some(document) = block_on(stores.kb.read(path))? {
            texts.push((path.clone(), String::from_utf8_lossy(&document.bytes).into_owned()));
        }
    }
    let asks = asked::asks(&texts, run_id);
    let mut records = Vec::new();
    for (path, text) in &texts {
        let name = path.rsplit('/').next().unwrap_or(path);
        if DocumentName::parse(name).is_ok_and(|(name, _)| name.is_orchestrators()) {
            continue;
        }
        let facts = block_on(ring.observe(text.as_bytes(), wire::now()))?;
        let (covered, fingerprint) = match &facts {
            SignatureFacts::Good { text, fingerprint, .. } => (text, fingerprint.clone()),
            SignatureFacts::Unsigned { text } => (text, String::new()),
            SignatureFacts::Bad { .. } => continue,
        };
        let answers = |ask: &&Ask| {
            let nonce = ask.required.get(field::NONCE);
            nonce.is_some_and(|nonce| covered.contains(&format!("nonce: {nonce}")))
        };
        if let Some(ask) = asks.iter().map(|a| &a.ask).find(answers)
            && covered.contains("decision: approve")
        {
            records.push(approval_record(ask, path, text, covered, fingerprint));
        }
    }
    Ok(Claims::of_documents(run_id, &texts, wire::policy(config), records))
}

fn approval_record(ask: &Ask, path: &str, text: &str, covered: &str, fingerprint: String) -> ApprovalRecord {
    let actor = covered.lines().find_map(|line| line.strip_prefix("actor: ")).unwrap_or_default();
    ApprovalRecord {
        gate: ask.gate.clone(),
        requested_utc: wire::now(),
        approval_kb_id: path.to_owned(),
        review_decision_id: None,
        validated_utc: wire::now(),
        sha256: Some(Digest::of(text.as_bytes())),
        actor: actor.to_owned(),
        fingerprint,
        decision: "approve".to_owned(),
        occurrence: ask.occurrence,
        expires_utc: None,
        request_sha256: ask.required.get(field::REQUEST_SHA256).and_then(|t| t.parse().ok()),
        nonce: ask.required.get(field::NONCE).cloned().unwrap_or_default(),
    }
}

/// The filed documents, and the reports of stops.
fn filed(
    stores: &Stores,
    claims: &Claims,
    sidecar: Option<&Sidecar>,
    out: &mut Gathered,
) -> Result<(), Failure> {
    let mut facts = Vec::new();
    for (path, recorded) in &claims.documents {
        let found = block_on(stores.kb.read(path))?.map(|d| d.sha256);
        facts.push(DocumentFact { path: path.clone(), recorded: *recorded, found });
    }
    out.checks.extend(documents(&facts));
    let Some(sidecar) = sidecar else { return Ok(()) };
    out.checks.extend(one_document_per_phase(sidecar));
    let mut stops = Vec::new();
    for stop in &sidecar.stops {
        let path = format!("{}/{}", sidecar.kb_folder.as_deref().unwrap_or_default(), stop.name);
        let found = if stop.uploaded.is_some() { block_on(stores.kb.read(&path))? } else { None };
        stops.push((stop.clone(), found.map(|d| d.sha256)));
    }
    out.checks.extend(verify::stops(&stops));
    Ok(())
}

/// The approvals, read again, their signatures judged as of the time of their acceptance.
fn approvals(stores: &Stores, ring: &KeyRing, claims: &Claims) -> Result<Vec<ApprovalFact>, Failure> {
    let mut facts = Vec::new();
    for record in &claims.approvals {
        let document = block_on(stores.kb.read(&record.approval_kb_id))?;
        let signature = match &document {
            Some(document) => Some(block_on(ring.observe(&document.bytes, record.validated_utc))?),
            None => None,
        };
        let request = match &record.request_sha256 {
            Some(wanted) => {
                let found = claims.documents.iter().find(|(_, digest)| digest == wanted);
                match found {
                    Some((path, _)) => block_on(stores.kb.read(path))?.map(|d| d.sha256),
                    None => Some(*wanted).filter(|_| claims.creator.is_none()),
                }
            }
            None => None,
        };
        let found = document.map(|d| d.sha256);
        facts.push(ApprovalFact { record: record.clone(), found, signature, request });
    }
    Ok(facts)
}

/// The stored backup is the one that was recorded.
fn backup(config: &Config, stores: &Stores, sidecar: &Sidecar, out: &mut Gathered) -> Result<(), Failure> {
    let Some(recorded) = &sidecar.backup else { return Ok(()) };
    let key = wire::load_public(&config.keys.backup_public);
    let pinned = recorded.blob.fingerprint.parse();
    let (Ok(key), Ok(pinned)) = (key, pinned) else {
        out.not_checked.push("the backup: its recipient's public key is not here".to_owned());
        return Ok(());
    };
    let Ok(recipient) = Recipient::new(&key, &pinned, wire::now()) else {
        out.not_checked.push("the backup: its recipient's key cannot be used any more".to_owned());
        return Ok(());
    };
    let target = wire::backup_target(config, &stores.files, recipient)?;
    let found = block_on(target.rehash(&sidecar.run_id, &recorded.blob.name))?;
    let observed = found.map(|(digest, _)| digest);
    out.checks.push(Check::equal_some("verify.backup.sha256", &recorded.blob.sha256, observed.as_ref()));
    Ok(())
}

fn database(config: &Config, claims: &Claims, out: &mut Gathered) -> Result<(), Failure> {
    let database = wire::reader(config)?;
    block_on(database.check_schema())?;
    let evidence = block_on(database.evidence(&claims.run_id))?;
    let source = match claims.pins.get("source_version_no") {
        Some(number) => {
            // the run's own version, which need not be the newest any more
            let version = match claims.pins.get("source_version_id").and_then(|id| id.parse().ok()) {
                Some(id) => Some(id),
                None => {
                    let latest = block_on(database.source(&claims.document_id))?.and_then(|f| f.latest);
                    latest.filter(|v| v.version_no.to_string() == *number).map(|v| v.source_version_id)
                }
            };
            match version {
                Some(id) => block_on(database.source_text(id)).ok(),
                None => None,
            }
        }
        None => None,
    };
    let units = read_all(
        &database,
        UnitQuery {
            document_id: claims.document_id.clone(),
            scope: UnitScope::Live,
            version_no: claims.pins.get("source_version_no").and_then(|n| n.parse().ok()),
            with_content: true,
            ..UnitQuery::default()
        },
    )?;
    let mut public_keys = BTreeMap::new();
    for (duty, path) in [("executor", &config.keys.executor), ("verifier", &config.keys.verifier)] {
        match wire::duty_public_key(path) {
            Ok(key) => {
                public_keys.insert(duty.to_owned(), key);
            }
            Err(_) => out.not_checked.push(format!(
                "whether the {duty}'s key is the configured one: {} is not here",
                wire::public_half(path).display()
            )),
        }
    }
    out.checks.extend(verify::database(claims, &DatabaseFacts { evidence, units, source, public_keys }));
    Ok(())
}
