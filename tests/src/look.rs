//! A checker over ports: reads everything that the command `verify` reads of a run, and judges it.
#![allow(clippy::panic, clippy::expect_used, clippy::unwrap_used, reason = "for tests only")]

use std::collections::BTreeMap;

use cutter_core::base::digest::Digest;
use cutter_core::driver::{Ports, policy_of};
use cutter_core::operate::inspect::verify::{
    self, ApprovalFact, Approvals, AskSources, DatabaseFacts, DocumentFact, Found, RecordFacts, documents,
    one_document_per_phase,
};
use cutter_core::operate::inspect::{Claims, disagreements};
use cutter_core::record::approval::FORMAT;
use cutter_core::record::ask::{StoredAnswer, StoredAsk};
use cutter_core::record::check::Check;
use cutter_core::record::observed::{UnitQuery, UnitScope};
use cutter_core::record::pin;
use cutter_core::record::policy::Chain;
use cutter_core::record::sidecar::{Sidecar, StopRecord};
use cutter_core::record::signature::SignatureFacts;
use cutter_core::record::stored_statement::StoredStatement;
use cutter_core::report::naming::RUNS_INDEX_PATH;
use cutter_core::testing::memory::block_on;

/// Everything that verify looks at.
#[derive(Clone)]
pub struct Facts {
    /// The record with its older revisions.
    pub record: RecordFacts,
    /// What it claims.
    pub claims: Claims,
    /// Its documents.
    pub documents: Vec<DocumentFact>,
    /// The approvals that it relied on.
    pub approvals: Vec<ApprovalFact>,
    /// Its line in the runs index.
    pub line: Option<String>,
    /// Every document in its folder.
    pub paths: Vec<String>,
    /// Of them those that answer something, whatever they are called.
    pub answers: Vec<String>,
    /// What the database holds.
    pub database: DatabaseFacts,
    /// What was asked and answered, as the database has it.
    pub asks: Vec<StoredAsk>,
    /// Its stop-route reports.
    pub stops: Vec<(StopRecord, Found)>,
    /// What it says of itself, once closed.
    pub statement: Option<StoredStatement>,
    /// The texts of the folder's documents.
    pub texts: Vec<(String, String)>,
    /// The policy that the database holds.
    pub chain: Chain,
    /// What was found of the signature of each stored answer.
    pub signatures: BTreeMap<Digest, SignatureFacts>,
}

/// Reads a run's evidence.
///
/// # Panics
/// If a port fails, or the policy's chain does not hold.
#[must_use]
pub fn gather(ports: &Ports, sidecar: &Sidecar) -> Facts {
    let run = &sidecar.run_id;
    let stored = block_on(ports.runs.load(run)).unwrap().unwrap();
    let mut claims = Claims::of_sidecar(sidecar);
    let chain = block_on(policy_of(ports.reader.as_ref(), ports.signatures.as_ref())).unwrap();
    claims.policy = chain.ever();
    let read = |path: &str| block_on(ports.kb.read(path)).unwrap();
    let (mut history, mut unreadable) = (Vec::new(), Vec::new());
    for n in 1..stored.revision {
        let old = block_on(ports.runs.load_revision(run, n)).unwrap().unwrap();
        match Sidecar::from_bytes(&old.bytes) {
            Ok(old) => history.push((n, old.transitions.into_vec())),
            Err(error) => unreadable.push((n, error.to_string())),
        }
    }
    let observe = |bytes: &[u8]| block_on(ports.signatures.observe(bytes, ports.clock.now())).ok();
    let documents = claims.documents.iter().map(|(path, recorded)| DocumentFact {
        path: path.clone(),
        recorded: *recorded,
        found: read(path).map(|d| d.sha256).into(),
    });
    let approvals = claims.approvals.iter().map(|record| {
        let document = read(&record.approval_kb_id);
        ApprovalFact {
            record: record.clone(),
            place: 0,
            found: document.as_ref().map(|d| d.sha256).into(),
            signature: document.and_then(|d| observe(&d.bytes)),
            request: record.request_sha256,
        }
    });
    let (documents, approvals) = (documents.collect(), approvals.collect());
    let set = sidecar.pinned(pin::CHANGE_SET_ID).ok();
    let query = |set| UnitQuery {
        document_id: sidecar.document_id.clone(),
        scope: UnitScope::ChangeSet(set),
        limit: 1000,
        with_content: true,
        ..UnitQuery::default()
    };
    let units = set.map(|set| block_on(ports.reader.units(&query(set))).unwrap());
    let version = sidecar.source_version_id;
    let folder = sidecar.kb_folder.as_deref();
    let paths = folder.map(|folder| block_on(ports.kb.list(folder)).unwrap()).unwrap_or_default();
    let is_answer = |path: &&String| {
        let text = read(path).map(|document| String::from_utf8_lossy(&document.bytes).into_owned());
        text.is_some_and(|text| text.lines().any(|line| line == format!("format: {FORMAT}")))
    };
    let text = |path: &String| String::from_utf8_lossy(&read(path).unwrap().bytes).into_owned();
    let asks = block_on(ports.reader.asks(run)).unwrap();
    let answers = asks.iter().flat_map(|ask| &ask.answers).map(|answer| &answer.answer);
    let signatures = answers.filter_map(|a| Some((a.sha256(), observe(a.document.as_bytes())?))).collect();
    let stops = sidecar.stops.iter().map(|stop| {
        let folder = sidecar.kb_folder.as_deref().unwrap_or_default();
        (stop.clone(), read(&format!("{folder}/{}", stop.name)).map(|document| document.sha256).into())
    });
    Facts {
        texts: paths.iter().map(|path| (path.clone(), text(path))).collect(),
        asks,
        chain,
        signatures,
        statement: StoredStatement::that_counts(&block_on(ports.reader.statements(run)).unwrap()),
        stops: stops.collect(),
        record: RecordFacts {
            sidecar: sidecar.clone(),
            revision: stored.revision,
            history,
            unreadable,
            creation: observe(sidecar.creation.document.as_bytes()).unwrap(),
        },
        claims,
        documents,
        approvals,
        line: block_on(ports.kb.index_line(RUNS_INDEX_PATH, run.as_str())).unwrap(),
        answers: paths.iter().filter(is_answer).cloned().collect(),
        paths,
        database: DatabaseFacts {
            evidence: block_on(ports.reader.evidence(run)).unwrap(),
            units: units.unwrap_or_default(),
            source: version.and_then(|id| block_on(ports.reader.source_text(id)).ok()),
            public_keys: BTreeMap::new(),
            rows: None,
            rows_digest: set.and_then(|set| block_on(ports.reader.rows_digest(set)).unwrap()),
        },
    }
}

/// Judges it, by the approvers' keys that whoever checks brought along.
#[must_use]
pub fn judge(facts: &Facts, brought: &[String]) -> Vec<Check> {
    let sidecar = &facts.record.sidecar;
    let mut checks = verify::record(&facts.record);
    checks.extend(documents(&facts.documents));
    checks.extend(verify::stops(&facts.stops));
    checks.extend(one_document_per_phase(sidecar));
    let keys = Approvals { brought: brought.to_vec(), has_keys: true, undated: false };
    checks.extend(verify::approvals(&facts.claims, &facts.approvals, &facts.database.evidence, &keys).0);
    checks.extend(verify::rows_signed(&facts.approvals, facts.database.rows_digest.as_ref()).0);
    let line = facts.line.as_deref();
    checks.push(verify::record_is_newest(sidecar, &facts.database.evidence, &facts.paths, line));
    let owed = sidecar.outbox.as_ref().map(|owed| owed.name.as_str());
    checks.extend(verify::phase_documents(&facts.claims, &facts.paths, owed));
    checks.push(verify::no_strays(&facts.paths, &facts.answers, &facts.database.evidence));
    let sources = AskSources {
        run_id: &sidecar.run_id,
        record: Some(sidecar),
        documents: &facts.texts,
        chain: &facts.chain,
        evidence: &facts.database.evidence,
        brought,
    };
    let signature = |answer: &StoredAnswer| facts.signatures.get(&answer.answer.sha256()).cloned();
    checks.extend(verify::asks(sources, &facts.asks, &signature));
    let (statement, evidence) = (facts.statement.as_ref(), &facts.database.evidence);
    checks.push(verify::reports_pass(&facts.claims, &facts.texts));
    checks.push(verify::answers_filed(&facts.texts, evidence, &facts.asks));
    checks.extend(verify::closing(&facts.claims, &facts.texts, statement, evidence, &facts.asks));
    checks.push(Check::empty("verify.documents.agree", &disagreements(&facts.texts)));
    checks.extend(verify::index(&facts.claims, line));
    checks.extend(verify::database(&facts.claims, &facts.database));
    checks
}
