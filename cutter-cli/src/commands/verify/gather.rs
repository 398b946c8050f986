//! Reading what is to be judged. Whatever cannot be read is either a fact that fails its
//! check, or listed as not checked: nothing is left out in silence.

use cutter_core::base::id::RunId;
use cutter_core::machine::run::{GateId, Phase, Stage};
use cutter_core::operate::inspect::recover::can_be;
use cutter_core::operate::inspect::verify::{
    self, Allowed, Approvals, AskSources, NotChecked, RecordFacts, Taken,
};
use cutter_core::operate::inspect::{Claims, disagreements};
use cutter_core::port::database::Reader as _;
use cutter_core::record::approval::{ApprovalPolicy, Approver, field};
use cutter_core::record::ask::{StoredAnswer, StoredAsk};
use cutter_core::record::check::Check;
use cutter_core::record::evidence::{RunEvidence, RunRows};
use cutter_core::record::observed::{Lifecycle, UnitQuery};
use cutter_core::record::policy::Chain;
use cutter_core::record::sidecar::Sidecar;
use cutter_core::record::signature::SignatureFacts;
use cutter_core::record::stored_statement::StoredStatement;
use cutter_core::report::naming::RUNS_INDEX_PATH;
use cutter_kb::openpgp::{PublicKey, Recipient};
use cutter_kb::ports::KeyRing;
use cutter_pg::PgDatabase;
use futures_executor::block_on;

use super::DATABASE;
use super::database::judge_database;
use super::documents::{self, Rows, Sources, answers, filed, signed_for, texts};
use super::said::{Refused, refusals};
use crate::commands::sovereign::RunFolder;
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
    /// Who refused, whether or not anybody heard it.
    pub(super) refused: Vec<Refused>,
    /// Gates that wait for an answer.
    pub(super) waits: Vec<GateId>,
    pub(super) text: Text,
    /// What everybody who relies on the policy must read.
    pub(super) notices: Vec<String>,
    /// What the run said of itself when it was closed.
    pub(super) statement: Option<StoredStatement>,
}

/// What the database holds of the run.
pub(super) struct Stored {
    pub(super) database: PgDatabase,
    pub(super) evidence: RunEvidence,
    pub(super) rows: Option<RunRows>,
    pub(super) asks: Vec<StoredAsk>,
    pub(super) statement: Option<StoredStatement>,
    /// The version of the document that is in force now.
    in_force: Option<i32>,
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
    /// Whether its units are enacted, not void, and no later version's are: by the database, which alone can
    /// tell of units that are; not of a run where something fails.
    pub(super) in_force: Option<bool>,
    /// The version of its document that is in force, if that is a later one.
    pub(super) replaced_by: Option<i32>,
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
    let mut out = Gathered::default();
    let database = if with_database { reach(config, run_id, &mut out) } else { None };
    let chain = if database.is_some() { wire::policy::chain(config)? } else { Chain::default() };
    let mut ring = brought.to_vec();
    match wire::key_ring(config) {
        Ok(configured) => ring.extend(configured.keys().iter().cloned()),
        // the policy has the keys, and what a configuration says of them decides nothing
        Err(_) if !chain.is_empty() => {}
        Err(failure) => return Err(failure),
    }
    let ring = KeyRing::new(ring);
    let policy = policy(config, &chain, !brought.is_empty(), &mut out);
    if !with_database {
        out.open(DATABASE, "left out as asked", format!("cutter verify --run-id {run_id}"));
    }
    let no_evidence = RunEvidence::default();
    let evidence = database.as_ref().map_or(&no_evidence, |stored| &stored.evidence);
    let taken = database.as_ref().map(|stored| Taken::of(&stored.evidence, &stored.asks));
    let record = record(stores, &ring, &chain, run_id, &mut out)?;
    let keys = Approvals {
        brought: brought.iter().map(|key| key.fingerprint().to_string()).collect(),
        has_keys: !brought.is_empty() || !chain.public_keys().is_empty(),
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
    let listed = paths;
    let paths: Vec<String> = listed.iter().filter(|path| can_be(path, evidence)).cloned().collect();
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
    let reach = |claims: &mut Claims| {
        let shown = [verify::reached_by_documents(&paths), verify::reached_by_evidence(evidence)];
        let closed = line.is_some().then_some(Stage::CloseoutReported);
        if let Some(stage) = shown.into_iter().flatten().chain(closed).max() {
            claims.reach(stage);
        }
        claims.enacted |= evidence.is_enacted();
        claims.voided |= evidence.voided;
        if database
            .as_ref()
            .and_then(|stored| stored.statement.as_ref())
            .is_some_and(StoredStatement::is_signed)
        {
            // it is signed when the final report is filed
            claims.passed.extend(Phase::ALL);
        }
    };
    let (claims, facts) = match &record {
        Some(record) => {
            let mut claims = Claims { policy, ..Claims::of_sidecar(record) };
            if is_behind {
                reach(&mut claims);
            }
            let facts = documents::approvals(stores, &ring, &chain, taken.as_ref(), &claims)?;
            (claims, facts)
        }
        None => {
            let rows = database.as_ref().zip(taken.as_ref());
            let rows = rows.map(|(stored, taken)| Rows { taken, evidence, asks: &stored.asks });
            let sources = Sources { ring: &ring, chain: &chain, keys: &keys, rows };
            let mut claims = Claims::of_documents(run_id, &texts, policy, Vec::new());
            reach(&mut claims);
            let facts = documents::given(&mut claims, sources, &texts, &mut out)?;
            (claims, facts)
        }
    };
    out.checks.push(Check::empty("verify.documents.agree", &disagreements(&texts)));
    let owed = record.as_ref().and_then(|r| r.outbox.as_ref()).map(|o| o.name.as_str());
    out.checks.extend(verify::phase_documents(&claims, &paths, owed));
    out.checks.push(verify::reports_pass(&claims, &texts));
    let is_reported = verify::reached_by_documents(&paths) >= Some(Stage::LifecycleEnacted);
    if record.is_none() && claims.enacted && !is_reported && !claims.has_passed(Phase::LifecycleEnact) {
        let why = "the units are enacted; their report is owed, or was removed";
        out.open("the report of the enactment", why, "the folder of the run, or the runs in the database");
    }
    out.checks.push(verify::no_strays(&listed, &answers(&texts, &claims), evidence));
    let asked = database.as_ref().map_or(&[][..], |stored| &stored.asks);
    let signed = signed_for(&ring, &chain, &texts)?;
    filed(stores, &claims, record.as_ref(), &paths, asked, &signed, &mut out)?;
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
            brought: &keys.brought,
        };
        let signature = |answer: &StoredAnswer| {
            let at = answer.recorded_at.unwrap_or_else(wire::now);
            documents::observed(&ring, &chain, answer.answer.document.as_bytes(), at).ok()
        };
        out.checks.extend(verify::asks(sources, &stored.asks, &signature));
        out.checks.push(verify::answers_filed(&texts, &stored.evidence, &stored.asks));
        let (statement, asks) = (stored.statement.as_ref(), &stored.asks);
        out.checks.extend(verify::closing(&claims, &texts, statement, &stored.evidence, asks));
    }
    out.allowed = verify::allowed(&claims.policy, &facts, &out.checks, taken.as_ref());
    let sources = Sources {
        ring: &ring,
        chain: &chain,
        keys: &keys,
        rows: database.as_ref().zip(taken.as_ref()).map(|(s, taken)| Rows { taken, evidence, asks: &s.asks }),
    };
    refusals(stores, &claims, evidence, sources, &texts, &mut out)?;
    let own = claims.pins.get("source_version_no").and_then(|version| version.parse::<i32>().ok());
    let is_enacted = is_enacted_by(&claims, evidence, database.is_some()) && !claims.is_void(evidence);
    let replaced_by = database
        .as_ref()
        .and_then(|stored| stored.in_force)
        .filter(|now| is_enacted && own.is_some_and(|own| own < *now));
    out.text = Text {
        document_id: claims.document_id.clone(),
        version: claims.pins.get("source_version_no").cloned(),
        source_sha256: claims.pins.get("source_sha256").cloned(),
        units: claims.pins.get("candidate_count").cloned(),
        reached: match claims.is_void(evidence) {
            true => Some(Lifecycle::Voided.to_string()),
            false => claims.stage.map(|stage| stage.to_string()),
        },
        in_force: match &database {
            Some(stored) => Some(is_enacted && own.is_some() && stored.in_force == own),
            // an older copy of the documents knows no enactment
            None => claims.is_void(evidence).then_some(false),
        },
        replaced_by,
    };
    if let Some(stored) = database {
        judge_database(config, stored, &chain, &claims, &facts, &mut out)?;
    }
    Ok(out)
}

/// By the database where it was asked: a document is anybody's who files documents.
pub(super) fn is_enacted_by(claims: &Claims, evidence: &RunEvidence, has_database: bool) -> bool {
    if has_database { evidence.is_enacted() } else { claims.is_enacted() }
}

impl Gathered {
    pub(super) fn open(&mut self, item: &str, why: impl Into<String>, to_check: impl Into<String>) {
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
    let mut read = || -> Result<_, Failure> {
        let database = wire::reader(config)?;
        block_on(database.check_schema())?;
        let (evidence, rows) = stored(&database, run_id)?;
        let asks = block_on(database.asks(run_id))?;
        let statements = block_on(database.statements(run_id))?;
        let statement = StoredStatement::that_counts(&statements);
        out.checks.extend(verify::one_statement(&statements));
        let in_force = match asks.first().and_then(|ask| ask.asked.ask.required.get(field::DOCUMENT_ID)) {
            Some(document_id) => {
                let one = UnitQuery { document_id: document_id.clone(), limit: 1, ..UnitQuery::default() };
                block_on(database.units(&one))?.first().map(|unit| unit.version_no)
            }
            None => None,
        };
        Ok(Stored { database, evidence, rows, asks, statement, in_force })
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
    chain: &Chain,
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
    let statement = sidecar.creation.document.as_bytes();
    let creation = documents::observed(ring, chain, statement, wire::now())?;
    if let (SignatureFacts::Good { fingerprint, .. }, false) = (&creation, chain.is_empty())
        && chain.now().key(fingerprint).is_none()
    {
        out.open(
            "whose key signed the creation",
            format!("the policy does not know {fingerprint}; the configuration's was taken"),
            "",
        );
    }
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

/// Who may have approved: what the database's policy ever said; without the database, the people
/// whom the configuration names.
fn policy(config: &Config, chain: &Chain, has_keys: bool, out: &mut Gathered) -> ApprovalPolicy {
    if !chain.is_empty() {
        out.notices.extend(chain.notices());
        return chain.ever();
    }
    out.open(
        "who may approve",
        "no policy of a database was read; what the configuration says of people and keys was taken",
        "a login that reads, and a policy that the administrator founded: cutter policy show",
    );
    let approvers = config
        .sovereigns()
        .map(|(name, a)| Approver { actor: name.clone(), fingerprint: a.fingerprint.to_string() });
    let known: Vec<Approver> = approvers.collect();
    // whoever brought keys along believes those, and takes names from the configuration
    let approvers = if has_keys { Vec::new() } else { known.clone() };
    ApprovalPolicy { approvers, known, ..ApprovalPolicy::nobody() }
}
