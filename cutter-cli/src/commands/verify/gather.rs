//! Reading what is to be judged. Whatever cannot be read is either a fact that fails its
//! check, or listed as not checked: nothing is left out in silence.

use std::collections::BTreeMap;

use cutter_core::approval::{ApprovalPolicy, Approver};
use cutter_core::digest::Digest;
use cutter_core::gate::Check;
use cutter_core::id::RunId;
use cutter_core::inspect::Claims;
use cutter_core::inspect::verify::{
    self, Allowed, ApprovalFact, Approvals, AskSources, DatabaseFacts, NotChecked, RecordFacts,
    StatementFacts, Taken,
};
use cutter_core::machine::run::Stage;
use cutter_core::naming::RUNS_INDEX_PATH;
use cutter_core::policy::Chain;
use cutter_core::port::ask::{StoredAnswer, StoredAsk};
use cutter_core::port::database::{EffectName, Reader as _, RunEvidence, RunRows, UnitQuery, UnitScope};
use cutter_core::port::signer::{Duty, SignatureVerifier as _};
use cutter_core::port::statement::StoredStatement;
use cutter_core::sidecar::Sidecar;
use cutter_core::statement::{Before, Material, version_before};
use cutter_kb::openpgp::{PublicKey, Recipient};
use cutter_kb::ports::KeyRing;
use cutter_pg::PgDatabase;
use futures_executor::block_on;

use super::DATABASE;
use super::documents::{self, Sources, answers, filed, texts};
use crate::commands::sovereign::RunFolder;
use crate::commands::unit::read_all;
use crate::config::Config;
use crate::exit_code::Exit;
use crate::failure::Failure;
use crate::wire::{self, Stores};

/// Judged checks, what was not looked at, and who allowed what.
#[derive(Default)]
pub(super) struct Gathered {
    pub(super) checks: Vec<Check>,
    pub(super) not_checked: Vec<NotChecked>,
    pub(super) allowed: Vec<Allowed>,
    pub(super) text: Text,
    /// What everybody who relies on the policy must read.
    pub(super) notices: Vec<String>,
    /// What the run said of itself when it was closed.
    pub(super) statement: Option<StoredStatement>,
}

/// What the database holds of the run.
struct Stored {
    database: PgDatabase,
    evidence: RunEvidence,
    rows: Option<RunRows>,
    asks: Vec<StoredAsk>,
    statement: Option<StoredStatement>,
}

/// Over which text.
#[derive(Debug, Default, serde::Serialize)]
pub(super) struct Text {
    pub(super) document_id: String,
    pub(super) version: Option<String>,
    pub(super) source_sha256: Option<String>,
    pub(super) units: Option<String>,
    /// How far the run came, by whatever source shows most.
    pub(super) reached: Option<String>,
}

/// A run that moves while it is looked at is looked at again, so many times.
const LOOKS: u32 = 3;

/// Reads and judges everything that can be reached.
pub(super) fn gather(
    config: &Config,
    run_id: &RunId,
    with_database: bool,
    brought: &[PublicKey],
) -> Result<Gathered, Failure> {
    let stores = wire::stores(config)?;
    let revision = || block_on(stores.runs.load(run_id)).map(|stored| stored.map(|s| s.revision));
    let mut look = 1;
    loop {
        let before = revision()?;
        let gathered = once(config, &stores, run_id, with_database, brought)?;
        if look == LOOKS || revision()? == before {
            return Ok(gathered);
        }
        look += 1;
    }
}

fn once(
    config: &Config,
    stores: &Stores,
    run_id: &RunId,
    with_database: bool,
    brought: &[PublicKey],
) -> Result<Gathered, Failure> {
    let mut ring = wire::key_ring(config)?.keys().to_vec();
    ring.extend(brought.iter().cloned());
    let ring = KeyRing::new(ring);
    let mut out = Gathered::default();
    let database = if with_database { reach(config, run_id, &mut out) } else { None };
    let chain = if database.is_some() { wire::policy::chain(config)? } else { Chain::default() };
    let policy = policy(config, &chain, &mut out);
    if !with_database {
        out.open(DATABASE, "left out as asked", format!("cutter verify --run-id {run_id}"));
    }
    let no_evidence = RunEvidence::default();
    let evidence = database.as_ref().map_or(&no_evidence, |stored| &stored.evidence);
    let taken = database.as_ref().map(|stored| Taken::of(&stored.evidence, &stored.asks));
    let record = record(stores, &ring, run_id, &mut out)?;
    let keys = Approvals {
        brought: brought.iter().map(|key| key.fingerprint().to_string()).collect(),
        has_keys: !brought.is_empty() || !policy.approvers.is_empty() || !chain.public_keys().is_empty(),
        undated: record.is_none() && taken.is_none(),
    };
    let paths = match record.as_ref().and_then(|s| s.kb_folder.as_deref()) {
        Some(folder) => block_on(stores.kb.list(folder))?,
        None => match RunFolder::find(stores.kb.as_ref(), run_id) {
            Ok(folder) => folder.paths,
            Err(failure) if failure.exit == Exit::NO_RUN => Vec::new(),
            Err(failure) => return Err(failure),
        },
    };
    // directly in the folder
    let line = block_on(stores.kb.index_line(RUNS_INDEX_PATH, run_id.as_str()))?;
    if record.is_none() && paths.is_empty() && evidence.effects.is_empty() && line.is_none() {
        return Err(Failure::no_run(run_id.as_str()));
    }
    let texts = texts(stores, &paths)?;
    let newest = record.as_ref().map(|r| verify::record_is_newest(r, evidence, &paths, line.as_deref()));
    let is_behind = newest.as_ref().is_some_and(|check| !check.ok);
    out.checks.extend(newest);
    if record.is_none() {
        let what = "the record: its hash chain, its settings, who created it, its backup";
        out.open(what, "the run's folder is not here", "the folder of the run, or the runs in the database");
    }
    let (mut claims, facts) = match &record {
        Some(record) => {
            let claims = Claims { policy, ..Claims::of_sidecar(record) };
            let facts = documents::approvals(stores, &ring, &chain, taken.as_ref(), &claims)?;
            (claims, facts)
        }
        None => {
            let sources = Sources { ring: &ring, chain: &chain, keys: &keys, taken: taken.as_ref() };
            documents::claims(policy, sources, run_id, &texts)?
        }
    };
    if record.is_none() || is_behind {
        let shown = [verify::reached_by_documents(&paths), verify::reached_by_evidence(evidence)];
        let closed = line.is_some().then_some(Stage::CloseoutReported);
        if let Some(stage) = shown.into_iter().flatten().chain(closed).max() {
            claims.reach(stage);
        }
        claims.enacted |= evidence.enacted_log_rows > 0;
        claims.voided |= evidence.voided;
    }
    let owed = record.as_ref().and_then(|r| r.outbox.as_ref()).map(|o| o.name.as_str());
    out.checks.extend(verify::phase_documents(&claims, &paths, owed));
    out.checks.push(verify::no_strays(&paths, &answers(&texts, &claims)));
    filed(stores, &claims, record.as_ref(), &mut out)?;
    let (mut checks, mut open) = verify::approvals(&claims, &facts, evidence, &keys);
    if !chain.is_empty() || taken.is_none() {
        let (stood, undated) = verify::standing(&chain, taken.as_ref(), &facts);
        checks.extend(stood);
        open.extend(undated);
    }
    out.checks.extend(checks);
    out.not_checked.extend(open);
    out.checks.extend(verify::index(&claims, line.as_deref()));
    if let Some(record) = &record {
        backup(config, stores, record, &mut out)?;
    }
    if let Some(stored) = &database {
        let sources = AskSources {
            run_id,
            record: record.as_ref(),
            documents: &texts,
            chain: &chain,
            evidence: &stored.evidence,
        };
        let signature = |answer: &StoredAnswer| {
            let at = answer.recorded_at.unwrap_or_else(wire::now);
            documents::observed(&ring, &chain, answer.answer.document.as_bytes(), at).ok()
        };
        out.checks.extend(verify::asks(sources, &stored.asks, &signature));
    }
    out.allowed = verify::allowed(&claims.policy, &facts, &out.checks, taken.as_ref());
    if let Some(stored) = database {
        judge_database(config, stored, &chain, &claims, &facts, &mut out)?;
    }
    out.text = Text {
        document_id: claims.document_id.clone(),
        version: claims.pins.get("source_version_no").cloned(),
        source_sha256: claims.pins.get("source_sha256").cloned(),
        units: claims.pins.get("candidate_count").cloned(),
        reached: match claims.voided {
            true => Some("voided".to_owned()),
            false => claims.stage.map(|stage| stage.to_string()),
        },
    };
    Ok(out)
}

impl Gathered {
    fn open(&mut self, item: &str, why: impl Into<String>, to_check: impl Into<String>) {
        self.not_checked.push(NotChecked::new(item, why, to_check));
    }
}

/// What the database holds of a run: its evidence, and its rows as of the same effects.
pub(crate) fn stored(
    database: &PgDatabase,
    run_id: &RunId,
) -> Result<(RunEvidence, Option<RunRows>), Failure> {
    let mut look = 1;
    loop {
        let evidence = block_on(database.evidence(run_id))?;
        let rows = block_on(database.rows(run_id))?;
        let effects = rows.as_ref().and_then(|rows| rows.0.get("run_effect")).map_or(0, Vec::len);
        if look == LOOKS || rows.is_none() || effects == evidence.effects.len() {
            return Ok((evidence, rows));
        }
        look += 1;
    }
}

/// The database, if it can be read. One that cannot is not checked, and says why.
fn reach(config: &Config, run_id: &RunId, out: &mut Gathered) -> Option<Stored> {
    let read = || -> Result<_, Failure> {
        let database = wire::reader(config)?;
        block_on(database.check_schema())?;
        let (evidence, rows) = stored(&database, run_id)?;
        let asks = block_on(database.asks(run_id))?;
        let statement = block_on(database.statement(run_id))?;
        Ok(Stored { database, evidence, rows, asks, statement })
    };
    match read() {
        Ok(found) => Some(found),
        // what stands there and does not read is no evidence of anything but that
        Err(failure) if failure.exit == Exit::EVIDENCE => {
            out.checks.push(Check::new("verify.database.readable", "rows that read", failure.what, false));
            None
        }
        Err(failure) => {
            out.open(DATABASE, failure.what, "a login that reads: database.reader, or CUTTER_DSN_READER");
            None
        }
    }
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

/// The stored backup is the one that was recorded.
fn backup(config: &Config, stores: &Stores, sidecar: &Sidecar, out: &mut Gathered) -> Result<(), Failure> {
    let Some(recorded) = &sidecar.backup else { return Ok(()) };
    let key = wire::load_public(&config.keys.backup_public);
    let pinned = recorded.blob.fingerprint.parse();
    let (Ok(key), Ok(pinned)) = (key, pinned) else {
        out.open(
            "the backup",
            "its recipient's public key is not here",
            config.keys.backup_public.display().to_string(),
        );
        return Ok(());
    };
    let Ok(recipient) = Recipient::new(&key, &pinned, wire::now()) else {
        out.open(
            "the backup",
            "its recipient's key cannot be used any more",
            "a key of the recipient that is valid",
        );
        return Ok(());
    };
    let target = wire::backup_target(config, &stores.files, recipient)?;
    let found = block_on(target.rehash(&sidecar.run_id, &recorded.blob.name))?;
    let observed = found.map(|(digest, _)| digest);
    out.checks.push(Check::equal_some("verify.backup.sha256", &recorded.blob.sha256, observed.as_ref()));
    Ok(())
}

fn judge_database(
    config: &Config,
    stored: Stored,
    chain: &Chain,
    claims: &Claims,
    approvals: &[ApprovalFact],
    out: &mut Gathered,
) -> Result<(), Failure> {
    let Stored { database, evidence, rows, statement, .. } = stored;
    // by the pin, else by what the database itself says of the run
    let of_rows = || {
        let sets = rows.as_ref()?.0.get("cut_change_set")?;
        let cut = sets.iter().find(|row| row.get("kind").is_some_and(|kind| kind == "cut"))?;
        cut.get("change_set_id")?.as_str()?.parse().ok()
    };
    let set = claims.pins.get("change_set_id").and_then(|id| id.parse().ok()).or_else(of_rows);
    let (mut units, mut rows_digest) = (Vec::new(), None);
    if let Some(set) = set {
        units = read_all(
            &database,
            UnitQuery {
                document_id: claims.document_id.clone(),
                scope: UnitScope::ChangeSet(set),
                with_content: true,
                ..UnitQuery::default()
            },
        )?;
        rows_digest = block_on(database.rows_digest(set))?;
    }
    let source = match source_version(&database, claims)? {
        Some(id) => block_on(database.source_text(id)).ok(),
        None => None,
    };
    let mut public_keys = BTreeMap::new();
    for (duty, path) in [("executor", &config.keys.executor), ("verifier", &config.keys.verifier)] {
        match wire::duty_public_key(path) {
            Ok(key) => {
                public_keys.insert(duty.to_owned(), key);
            }
            Err(_) => {
                let file = wire::public_half(path).display().to_string();
                out.open(&format!("whether the {duty}'s key is the configured one"), "it is not here", file);
            }
        }
    }
    registered_keys(chain, &evidence, &mut public_keys);
    let (checks, note) = verify::rows_signed(approvals, rows_digest.as_ref());
    if set.is_some() {
        out.checks.extend(checks);
        out.not_checked.extend(note);
    }
    judge_statement(
        config,
        &database,
        chain,
        claims,
        Said { statement, evidence: &evidence, rows: &rows, rows_digest },
        out,
    )?;
    let facts = DatabaseFacts { evidence, units, source, public_keys, rows, rows_digest };
    out.checks.extend(verify::database(claims, &facts));
    Ok(())
}

/// A statement, and what it is compared with.
struct Said<'a> {
    statement: Option<StoredStatement>,
    evidence: &'a RunEvidence,
    rows: &'a Option<RunRows>,
    rows_digest: Option<Digest>,
}

/// The statement that the run made when it was closed, against everything that it was made of.
fn judge_statement(
    config: &Config,
    database: &PgDatabase,
    chain: &Chain,
    claims: &Claims,
    said: Said<'_>,
    out: &mut Gathered,
) -> Result<(), Failure> {
    let version = claims.pin("source_version_no");
    let versions = block_on(database.versions(&claims.document_id))?;
    let before = match version_before(&versions, &version) {
        Some((version, set)) => block_on(database.rows_digest(set))?.map(|rows| Before { version, rows }),
        None => None,
    };
    let no_rows = RunRows::default();
    let expected = match (claims.pin("source_sha256").parse(), said.rows_digest) {
        (Ok(source_sha256), Some(rows_digest)) => Material {
            run_id: claims.run_id.as_str(),
            document_id: &claims.document_id,
            version: &version,
            source_sha256,
            rows_digest,
            units: claims.pin("candidate_count").parse().unwrap_or_default(),
            enacted: said.evidence.effects.iter().find(|e| e.key.effect == EffectName::Enact),
            rows: said.rows.as_ref().unwrap_or(&no_rows),
            approvals: &claims.approvals,
            before,
        }
        .body()
        .map_err(|e| e.to_string()),
        _ => Err("the rows of its units, or its text, are not there".to_owned()),
    };
    let own = |duty: Duty| {
        let path = if duty == Duty::Executor { &config.keys.executor } else { &config.keys.verifier };
        wire::duty_public_key(path).ok()
    };
    let key = |duty: Duty, at: Option<jiff::Timestamp>| {
        let registered = at.and_then(|at| chain.duty_key_at(duty, at)).map(ToOwned::to_owned);
        // A checker's own key that the policy never knew stays the one to compare with.
        let own = own(duty).filter(|own| !chain.now().is_duty_key(duty, own));
        own.or(registered)
    };
    let facts = StatementFacts { stored: said.statement.as_ref(), expected, key: &key };
    let (checks, note) = verify::statement(claims, &facts);
    out.checks.extend(checks);
    out.not_checked.extend(note);
    out.statement = said.statement;
    Ok(())
}

/// Who may have approved: what the database's policy ever said; without the database, the people
/// whom the configuration names.
fn policy(config: &Config, chain: &Chain, out: &mut Gathered) -> ApprovalPolicy {
    if !chain.is_empty() {
        out.notices.extend(chain.notices());
        return chain.ever();
    }
    out.open(
        "who may approve",
        "no policy of a database was read; the configuration's people were taken",
        "a login that reads, and a policy that the administrator founded: cutter policy show",
    );
    let approvers = config
        .sovereigns()
        .map(|(name, a)| Approver { actor: name.clone(), fingerprint: a.fingerprint.to_string() });
    ApprovalPolicy { approvers: approvers.collect(), ..ApprovalPolicy::nobody() }
}

/// A signature is judged by the key that was registered for its duty when it was stored; where
/// that time was not kept, by any that ever was.
fn registered_keys(chain: &Chain, evidence: &RunEvidence, public_keys: &mut BTreeMap<String, String>) {
    let now = chain.now();
    for duty in [Duty::Executor, Duty::Verifier] {
        let Some(latest) = now.duty_key(duty) else { continue };
        // A checker's own key that the policy never knew stays the one to compare with.
        if public_keys.get(duty.as_str()).is_some_and(|own| !now.is_duty_key(duty, own)) {
            continue;
        }
        let signature = evidence.signatures.iter().find(|s| s.duty == duty.as_str());
        let of_then = signature.and_then(|s| chain.duty_key_at(duty, s.recorded_at?));
        let expected = match (of_then, signature) {
            (Some(key), _) => key.to_owned(),
            (None, Some(s)) if now.is_duty_key(duty, &s.public_key) => s.public_key.clone(),
            _ => latest.to_owned(),
        };
        public_keys.insert(duty.as_str().to_owned(), expected);
    }
}

/// The run's own version, which need not be the newest any more.
fn source_version(database: &PgDatabase, claims: &Claims) -> Result<Option<uuid::Uuid>, Failure> {
    let Some(number) = claims.pins.get("source_version_no") else { return Ok(None) };
    if let Some(id) = claims.pins.get("source_version_id").and_then(|id| id.parse().ok()) {
        return Ok(Some(id));
    }
    let versions = block_on(database.versions(&claims.document_id))?;
    Ok(versions.iter().find(|v| v.version_no.to_string() == *number).map(|v| v.source_version_id))
}
