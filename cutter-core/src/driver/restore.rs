//! What a run has filed and relied on, and the bytes of it that stand elsewhere: for the person who
//! puts a damaged knowledge base right. No run does that.

use alloc::borrow::ToOwned;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use crate::base::digest::Digest;
use crate::driver::report_of_stop;
use crate::machine::run::GateId;
use crate::record::ask::StoredAsk;
use crate::record::evidence::RunEvidence;
use crate::record::pin;
use crate::record::sidecar::{ApprovalRecord, Sidecar, StopRecord};
use crate::report::naming::{FolderSuffix, run_folder};

/// Every document that was filed, asked or accepted as an answer: path and sha256, as the record has
/// them.
#[must_use]
pub fn recorded(sidecar: &Sidecar) -> BTreeMap<String, Digest> {
    let answers = sidecar.sovereign_approvals.iter();
    // a later answer under the same name takes the place of an earlier one
    filed(sidecar).chain(answers.flat_map(of_answer)).collect()
}

/// The folder that is the run's own, and no other one's: where the database's requests stand, else where
/// the name that follows from run and text leads.
#[must_use]
pub fn own_folder(sidecar: &Sidecar, asks: &[StoredAsk]) -> Option<String> {
    if let Some(stored) = asks.first() {
        return stored.asked.ask.request_path.rsplit_once('/').map(|(folder, _)| folder.to_owned());
    }
    let version = sidecar.pinned(pin::SOURCE_SHA256).unwrap_or(Digest::from_bytes([0; 32]));
    let named = |suffix: &FolderSuffix| {
        run_folder(&sidecar.document_id, &version, sidecar.created_utc, *suffix).ok().map(|p| p.to_string())
    };
    FolderSuffix::ALL.iter().filter_map(named).find(|folder| sidecar.kb_folder.as_ref() == Some(folder))
}

/// The document that is filed next. Where another one stands under its name, nothing was lost, and the
/// run waits until that gives way.
#[must_use]
pub fn owed(sidecar: &Sidecar) -> Option<(String, Digest)> {
    let (folder, outbox) = (sidecar.kb_folder.as_ref()?, sidecar.outbox.as_ref()?);
    Some((format!("{folder}/{}", outbox.name), outbox.sha256))
}

/// The same of the report of a stop that is not filed yet: `at` is the record as it was published with it.
#[must_use]
pub fn owed_report(sidecar: &Sidecar, at: &Sidecar) -> Option<(String, Digest)> {
    let is_it = |stop: &&StopRecord| stop.uploaded.is_none() && stop.revision == at.revision;
    let stop = sidecar.stops.iter().find(is_it)?;
    let text = report_of_stop(at, stop).ok()?;
    Some((format!("{}/{}", sidecar.kb_folder.as_ref()?, stop.name), Digest::of(text.as_bytes())))
}

/// Of them what must stand before an approval is spent and before the run is closed: all but answers
/// whose place another one took.
#[must_use]
pub fn relied_on(sidecar: &Sidecar) -> BTreeMap<String, Digest> {
    let answers = &sidecar.sovereign_approvals;
    let is_last = |(n, answer): &(usize, &ApprovalRecord)| {
        let same = |later: &ApprovalRecord| {
            later.gate == answer.gate
                && (answer.gate != GateId::FailureEscalation || later.nonce == answer.nonce)
        };
        !answers.iter().skip(n + 1).any(same)
    };
    let last = answers.iter().enumerate().filter(is_last).flat_map(|(_, answer)| of_answer(answer));
    filed(sidecar).chain(last).collect()
}

/// What a consent was made of, and what was approved beside it.
fn of_answer(answer: &ApprovalRecord) -> impl Iterator<Item = (String, Digest)> {
    let own = answer.sha256.map(|sha256| (answer.approval_kb_id.clone(), sha256));
    own.into_iter().chain(answer.beside.iter().map(|a| (a.approval_kb_id.clone(), a.sha256)))
}

fn filed(sidecar: &Sidecar) -> impl Iterator<Item = (String, Digest)> {
    sidecar.documents.iter().map(|d| (d.path.clone(), d.sha256)).chain(reports_of_stops(sidecar))
}

/// The reports of stops that are filed.
pub(crate) fn reports_of_stops(sidecar: &Sidecar) -> impl Iterator<Item = (String, Digest)> {
    let folder = sidecar.kb_folder.clone().unwrap_or_default();
    sidecar.stops.iter().filter_map(move |s| Some((format!("{folder}/{}", s.name), s.uploaded?)))
}

/// Bytes by their own digest: whatever a caller collects can only be put where it belongs.
#[derive(Debug, Default)]
pub struct Copies(BTreeMap<Digest, Vec<u8>>);

impl Copies {
    /// Adds bytes.
    pub fn add(&mut self, bytes: Vec<u8>) {
        self.0.insert(Digest::of(&bytes), bytes);
    }

    /// Adds what a revision of the record holds: the document that it owed, and the report of a stop
    /// that it recorded.
    pub fn add_revision(&mut self, sidecar: &Sidecar) {
        if let Some(outbox) = &sidecar.outbox {
            self.add(outbox.text.clone().into_bytes());
        }
        for stop in sidecar.stops.iter().filter(|stop| stop.revision == sidecar.revision) {
            if let Ok(text) = report_of_stop(sidecar, stop) {
                self.add(text.into_bytes());
            }
        }
    }

    /// Adds the answers that the database holds: those to requests, and the decisions that were stored, those
    /// on stops among them.
    pub fn add_answers(&mut self, asks: &[StoredAsk], evidence: &RunEvidence) {
        let answers = asks.iter().flat_map(|ask| &ask.answers).map(|stored| &stored.answer.document);
        for document in answers.chain(evidence.approvals.iter().map(|approval| &approval.document)) {
            self.add(document.clone().into_bytes());
        }
    }

    /// The bytes with a digest.
    #[must_use]
    pub fn of(&self, sha256: &Digest) -> Option<&[u8]> {
        self.0.get(sha256).map(Vec::as_slice)
    }
}
