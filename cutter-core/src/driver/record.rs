//! What a record may not rewrite: who the run is, its settings, how it was created, and what it
//! went through. The record is a file of the person whom it binds, so it is compared, at enter,
//! with every revision before it and with what was signed at creation.

use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use serde::Deserialize;

use super::run::{Halt, Run};
use super::{DriveError, Ports, policy};
use crate::base::digest::Digest;
use crate::base::id::RunId;
use crate::gate::authorization::{self, AuthorizationFacts};
use crate::gate::verified::verify;
use crate::machine::stop::StopReason;
use crate::port::run_store::StoredRevision;
use crate::record::approval::{Ask, Purpose, field};
use crate::record::sidecar::{ApprovalRecord, Sidecar, SidecarError};
use crate::record::signature::{SignatureFacts, SignedText};

/// Of a revision what no later one may change.
#[derive(Deserialize)]
struct Kept {
    run_id: RunId,
    document_id: String,
    created_by: String,
    settings: serde_json::Value,
    creation: SignedText,
    transitions: Vec<LinkHash>,
}

#[derive(Deserialize)]
struct LinkHash {
    hash: Digest,
}

impl Kept {
    /// What `after` says otherwise than this revision fixed.
    fn rewritten_by(&self, after: &Self) -> Option<&'static str> {
        let is_chain = self.transitions.len() <= after.transitions.len()
            && self.transitions.iter().zip(&after.transitions).all(|(a, b)| a.hash == b.hash);
        [
            ("run_id", self.run_id == after.run_id),
            ("document_id", self.document_id == after.document_id),
            (
                "the creation statement",
                self.creation == after.creation && self.created_by == after.created_by,
            ),
            ("the settings", self.settings == after.settings),
            ("an earlier transition", is_chain),
        ]
        .into_iter()
        .find_map(|(what, stays)| (!stays).then_some(what))
    }
}

/// Whether the newest revision, the last one of `history`, keeps what those before it fixed, and
/// what was signed at creation. One before it that is no whole record, or rewrites itself, counts
/// for nothing: no command went on from it.
///
/// # Errors
/// [`SidecarError::Invalid`], what was rewritten and where.
pub fn check_history(sidecar: &Sidecar, history: &[StoredRevision]) -> Result<(), SidecarError> {
    let mut kept_before: Vec<(&StoredRevision, Kept)> = Vec::new();
    let mut fault = None;
    for stored in history {
        let kept = match serde_json::from_slice::<Kept>(&stored.bytes) {
            Ok(kept) => kept,
            Err(error) => {
                fault = Some(SidecarError::Malformed(format!("revision {}: {error}", stored.revision)));
                continue;
            }
        };
        fault = None;
        while let Some((before, fixed)) = kept_before.last() {
            let Some(what) = fixed.rewritten_by(&kept) else { break };
            if Sidecar::from_bytes(&before.bytes).is_ok() {
                fault = Some(SidecarError::Invalid(format!(
                    "revision {}: expected what revision {} says of {what}, observed another text",
                    stored.revision, before.revision
                )));
                break;
            }
            kept_before.pop();
        }
        if fault.is_none() {
            kept_before.push((stored, kept));
        }
    }
    match fault {
        Some(fault) => Err(fault),
        None => check_creation(sidecar),
    }
}

/// Whether the creation statement is of this run and of these settings.
fn check_creation(sidecar: &Sidecar) -> Result<(), SidecarError> {
    let settings = Digest::of(sidecar.settings.text().as_bytes());
    let document = &sidecar.creation.document;
    creation_names(document, &sidecar.run_id, &sidecar.document_id, &settings)
        .map_err(SidecarError::Invalid)?;
    match said_once(document, "created_by") {
        Some(creator) if creator == sidecar.created_by => Ok(()),
        said => Err(SidecarError::Invalid(not_signed("created_by", said, &sidecar.created_by))),
    }
}

/// Whether a creation statement is of this run, this document and these settings; the error says what is
/// not as it was signed.
pub(crate) fn creation_names(
    creation: &str,
    run_id: &RunId,
    document_id: &str,
    settings: &Digest,
) -> Result<(), String> {
    for (key, expected) in [
        ("run_id", format!("{run_id}")),
        ("document_id", document_id.into()),
        ("settings_sha256", settings.to_hex()),
    ] {
        let said = said_once(creation, key);
        if said != Some(expected.as_str()) {
            return Err(not_signed(key, said, &expected));
        }
    }
    Ok(())
}

/// What a creation statement says, once and on a line of its own.
pub(crate) fn said_once<'d>(creation: &'d str, key: &str) -> Option<&'d str> {
    let value = |line: &'d str| line.strip_prefix(key)?.strip_prefix(": ");
    let mut lines = creation.lines().filter_map(value);
    let (only, more) = (lines.next()?, lines.next());
    Some(only.trim_end()).filter(|_| more.is_none())
}

fn not_signed(key: &str, said: Option<&str>, expected: &str) -> String {
    format!(
        "{key}: expected {}, which was signed when the run was created, observed {expected}",
        said.unwrap_or("nothing")
    )
}

/// What is wrong with the signature of a creation statement. A key that is known nowhere cannot be an
/// approver's, so it can't hide who created the run.
pub(crate) fn creation_fault(facts: &SignatureFacts, fingerprint: &str) -> Option<String> {
    match facts {
        SignatureFacts::Good { fingerprint: own, .. } if own == fingerprint => None,
        SignatureFacts::Good { fingerprint: own, .. } => {
            Some(format!("creation: expected the signature of {fingerprint}, observed one of {own}"))
        }
        SignatureFacts::Unsigned { .. } => Some("creation: expected a signature, observed none".into()),
        SignatureFacts::Bad { code, detail } => match code.as_str() {
            "bad_signature" | "text_outside_block" => {
                Some(format!("creation: expected a good signature, observed {code}: {detail}"))
            }
            // A key that expired or was retired since, or that is not known here.
            _ => None,
        },
    }
}

/// Reads every revision before the newest and compares.
pub(super) async fn check_kept(ports: &Ports, sidecar: &Sidecar) -> Result<(), DriveError> {
    let history = ports.runs.history(&sidecar.run_id, sidecar.revision).await?;
    check_history(sidecar, &history)
        .map_err(|error| DriveError::Sidecar { run_id: sidecar.run_id.clone(), error })
}

impl Run<'_> {
    /// Digest of the run's settings, as its creation signed it.
    pub(super) fn settings_sha256(&self) -> Digest {
        Digest::of(self.sidecar.settings.text().as_bytes())
    }

    pub(super) fn corrupt(&self, text: String) -> Halt {
        let (run_id, error) = (self.sidecar.run_id.clone(), SidecarError::Invalid(text));
        Halt::Abort(Box::new(DriveError::Sidecar { run_id, error }))
    }

    /// Folder and settings are those that the database was told when it was asked, and the creation
    /// statement carries the signature of the key that the record names.
    pub(super) async fn creation_stands(&self) -> Result<(), Halt> {
        let own = self.settings_sha256().to_hex();
        for stored in self.stored_asks().await? {
            let asked_in = stored.asked.ask.request_path.rsplit_once('/').map(|(folder, _)| folder);
            if asked_in != self.sidecar.kb_folder.as_deref() {
                return Err(self.corrupt(format!(
                    "kb_folder: expected {}, where {} was asked, observed {}",
                    asked_in.unwrap_or_default(),
                    stored.asked.ask.gate,
                    self.sidecar.kb_folder.as_deref().unwrap_or("none")
                )));
            }
            let asked = stored.asked.ask.required.get(field::SETTINGS_SHA256);
            if let Some(asked) = asked.filter(|asked| **asked != own) {
                return Err(self.corrupt(format!(
                    "the settings: expected sha256 {asked}, which {} asked about, observed {own}",
                    stored.asked.ask.gate
                )));
            }
        }
        let creation = &self.sidecar.creation;
        let chain = self.chain().await?;
        let now = self.ports.clock.now();
        let facts =
            policy::observe(self.ports.signatures.as_ref(), &chain, creation.document.as_bytes(), now);
        let facts = facts.await.map_err(|e| self.halt(e))?;
        creation_fault(&facts, &creation.fingerprint).map_or(Ok(()), |fault| Err(self.corrupt(fault)))
    }

    /// Before anything rests on an approval that the record calls valid: its document is judged
    /// again, against what was asked, the settings, and the policy.
    pub(super) async fn approval_stands(&self, record: &ApprovalRecord) -> Result<(), Halt> {
        let changed = |text: String| Halt::stop(StopReason::ApprovalChanged, text);
        let found = self.ports.kb.read(&record.approval_kb_id).await.map_err(|e| self.halt(e))?;
        let document = found.ok_or_else(|| {
            changed(format!("{}: expected the approval, observed no document", record.approval_kb_id))
        })?;
        if Some(document.sha256) != record.sha256 {
            return Err(changed(format!(
                "{}: expected sha256 {}, observed {}",
                record.approval_kb_id,
                record.sha256.map_or_else(|| "none".into(), |d| d.to_hex()),
                document.sha256
            )));
        }
        let ask = self.answered_ask(record)?;
        self.ask_is_stored(&ask).await?;
        let chain = self.chain().await?;
        let now = self.judged_at().await?;
        let signature = policy::observe(self.ports.signatures.as_ref(), &chain, &document.bytes, now);
        let signature = signature.await.map_err(|e| self.halt(e))?;
        let request = self.ports.kb.read(&ask.request_path).await.map_err(|e| self.halt(e))?;
        let facts = AuthorizationFacts {
            policy: policy::allowed(&chain, &ask),
            requested_at: Some(record.requested_utc),
            ask,
            signature,
            now,
            creator_fingerprint: self.sidecar.creation.fingerprint.clone(),
            creator_actor: self.sidecar.created_by.clone(),
            used_before: false,
            edited_after_validation: false,
            request_sha256_live: request.map(|d| d.sha256),
            asked: BTreeSet::new(),
        };
        let report = authorization::judge(&facts);
        match verify(&facts, &report, document.sha256) {
            Ok(approval) if approval.decision() == record.decision => Ok(()),
            Ok(approval) => Err(self.corrupt(format!(
                "approval {}: expected decision {}, observed {}",
                record.approval_kb_id,
                record.decision,
                approval.decision().as_str()
            ))),
            Err(not) => {
                let failed: Vec<&str> = not.0.failures().iter().map(|c| c.invariant.as_str()).collect();
                Err(changed(match (failed.as_slice(), record.expires_utc) {
                    (["approval.not_expired"], Some(end)) => {
                        format!("approval {}: expired at {end}, now {}", record.approval_kb_id, facts.now)
                    }
                    _ => format!("{}: {not}", record.approval_kb_id),
                }))
            }
        }
    }

    /// What the record says was asked is what the database was told before the run parked.
    async fn ask_is_stored(&self, ask: &Ask) -> Result<(), Halt> {
        let is_it = |stored: &&Ask| stored.gate == ask.gate && stored.occurrence == ask.occurrence;
        let asks = self.stored_asks().await?;
        match asks.iter().map(|s| &s.asked.ask).find(is_it) {
            Some(stored) if stored == ask => Ok(()),
            found => Err(self.corrupt(format!(
                "the ask {} occurrence {}: expected the one that the database holds, observed {}",
                ask.gate,
                ask.occurrence,
                if found.is_some() { "another" } else { "none there" }
            ))),
        }
    }

    /// The ask that an approval of a gate answered: the open one, of this run and these settings.
    fn answered_ask(&self, record: &ApprovalRecord) -> Result<Ask, Halt> {
        let ask = self.sidecar.ask.clone().filter(|a| a.gate == record.gate);
        let ask = ask.filter(|a| a.occurrence == record.occurrence);
        let ask = ask.ok_or_else(|| {
            self.corrupt(format!(
                "approval {}: expected the ask {} occurrence {}, observed another or none",
                record.approval_kb_id, record.gate, record.occurrence
            ))
        })?;
        let refuses = !record.decision.allows();
        for (key, expected) in [
            (field::RUN_ID, format!("{}", self.sidecar.run_id)),
            (field::DOCUMENT_ID, self.sidecar.document_id.clone()),
            (field::SETTINGS_SHA256, self.settings_sha256().to_hex()),
        ] {
            let observed = ask.required.get(key).map(String::as_str);
            // a refusal may answer what was asked before requests named the settings
            if observed != Some(&expected) && !(refuses && observed.is_none()) {
                return Err(self.corrupt(format!(
                    "the ask's {key}: expected {expected}, observed {}",
                    observed.unwrap_or("nothing")
                )));
            }
        }
        if !ask.is_for(Purpose::at(ask.gate)) {
            return Err(self.corrupt(format!("the ask's approval_type: observed {}", ask.approval_type)));
        }
        Ok(ask)
    }
}
