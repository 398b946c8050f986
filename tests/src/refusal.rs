//! What the refusal tests share: bringing a run to a place, answering as a person, and
//! checking everything that a stop promises.

mod kb;

use std::collections::BTreeMap;

use cutter_core::base::digest::Digest;
use cutter_core::base::id::RunId;
use cutter_core::driver::restore::{Copies, owed, recorded};
use cutter_core::driver::{
    self, DriveError, Driven, Outcome, Ports, ResumeOptions, ask_for_stop, stop_kinds,
};
use cutter_core::operate::inspect::recover::unknown_to;
use cutter_core::operate::review::ReviewPorts;
use cutter_core::record::approval::{Ask, render_approval};
use cutter_core::record::effect::ReviewVerdict;
use cutter_core::record::sidecar::{Sidecar, StopRecord};
use cutter_core::report::naming::EscalationKind;
use cutter_core::testing::memory::{MemoryPorts, block_on};

pub use kb::{Meanwhile, SlowKnowledgeBase};

use crate::{SOVEREIGN, Scenario, caller};

/// Which sovereign gate a case is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gate {
    /// SG_1.
    Cut,
    /// SG_2.
    Lifecycle,
}

impl Gate {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Cut, Self::Lifecycle];

    /// The state of a run that waits there.
    pub const fn awaiting(self) -> &'static str {
        match self {
            Self::Cut => "awaiting_cut_authorization",
            Self::Lifecycle => "awaiting_lifecycle_authorization",
        }
    }
}

/// What is asked, of a run that is parked.
pub fn asked(driven: &Driven) -> Ask {
    match &driven.outcome {
        Outcome::Paused { ask, .. } => ask.clone(),
        other => panic!("expected a pause, observed {other:?}"),
    }
}

/// The stop that a command ended in; the sidecar as persisted says the same.
pub fn stopped(driven: &Driven) -> StopRecord {
    match &driven.outcome {
        Outcome::Stopped(stop) => stop.clone(),
        other => panic!("expected a stop, observed {other:?} ({:?})", driven.sidecar.last_error),
    }
}

/// The failure that a command ended in.
pub fn failed(driven: &Driven) -> StopRecord {
    match &driven.outcome {
        Outcome::Failed(stop) => stop.clone(),
        other => panic!("expected a failure, observed {other:?} ({:?})", driven.sidecar.last_error),
    }
}

impl Scenario {
    /// A run that is parked at a gate, with what it asks.
    pub fn parked(&self, gate: Gate) -> (RunId, Ask) {
        let driven = self.cut(&self.ports()).expect("the run starts");
        let (run_id, ask) = (driven.sidecar.run_id.clone(), asked(&driven));
        if gate == Gate::Cut {
            return (run_id, ask);
        }
        self.sign(&ask, ReviewVerdict::Approve);
        let driven = self.resume(&self.ports(), &run_id).expect("the run goes on");
        let ask = asked(&driven);
        (run_id, ask)
    }

    /// What the review duty has, in a process of its own.
    pub fn review_ports(&self) -> ReviewPorts {
        let MemoryPorts { reader, reviewer, kb, signatures, .. } = self.world.process().ports();
        ReviewPorts { reader, reviewer, kb, signatures }
    }

    /// Resumes in a process of its own.
    pub fn resumed(&self, run_id: &RunId) -> Driven {
        let driven = self.resume(&self.ports(), run_id).expect("resume ends in an outcome");
        self.assert_knows(&driven);
        driven
    }

    /// Where a run rests, its record knows of everything that happened to it in the database.
    fn assert_knows(&self, driven: &Driven) {
        let evidence =
            block_on(self.ports().reader.evidence(&driven.sidecar.run_id)).expect("evidence reads");
        assert_eq!(
            unknown_to(&driven.sidecar, &evidence, &[]),
            Vec::<String>::new(),
            "{}",
            driven.sidecar.state
        );
    }

    /// Resumes with a named approval.
    pub fn resume_with(&self, run_id: &RunId, path: &str) -> Result<Driven, DriveError> {
        self.resume_options(&self.ports(), run_id, path)
    }

    /// Resumes with a named approval, on these ports.
    pub fn resume_options(&self, ports: &Ports, run_id: &RunId, path: &str) -> Result<Driven, DriveError> {
        let options = ResumeOptions { approval_kb_id: Some(path.into()) };
        block_on(driver::resume(ports, &caller(), run_id, &options))
    }

    /// Stops a run in the operator's name.
    pub fn stop(&self, run_id: &RunId, reason: &str) -> Result<Driven, DriveError> {
        block_on(driver::stop(&self.ports(), &caller(), run_id, reason))
    }

    /// Voids a run with whatever void approval stands in its folder.
    pub fn void(&self, run_id: &RunId) -> Result<Driven, DriveError> {
        block_on(driver::void(&self.ports(), &caller(), run_id, None))
    }

    /// The sidecar as it is stored.
    pub fn stored(&self, run_id: &RunId) -> Sidecar {
        let stored = self.world.sidecar(run_id).expect("the run exists");
        Sidecar::from_bytes(&stored.bytes).expect("the stored sidecar holds its rules")
    }

    /// Rows and claims, without the documents of the knowledge base.
    pub fn rows(&self) -> String {
        let snapshot = self.world.snapshot();
        // an answer that was heard is kept, whatever becomes of the run
        let rows =
            snapshot.lines().filter(|l| !l.starts_with("document ") && !l.starts_with("approval_ask "));
        rows.map(|l| format!("{l}\n")).collect()
    }

    /// Rows of one table.
    pub fn rows_of(&self, table: &str) -> Vec<serde_json::Value> {
        let snapshot = self.world.snapshot();
        let rows = snapshot.lines().filter_map(|l| l.strip_prefix(table)?.strip_prefix(' '));
        rows.map(|l| serde_json::from_str(l).expect("rows are JSON")).collect()
    }

    /// How many rows of `table` have `field` equal to `value`.
    pub fn count(&self, table: &str, field: &str, value: &str) -> usize {
        self.rows_of(table).iter().filter(|r| r[field].as_str() == Some(value)).count()
    }

    /// Files a good answer to an open stop.
    pub fn answer_stop(&self, run_id: &RunId, kind: EscalationKind, extra: &[(&str, &str)]) -> Ask {
        self.answer_stop_with(run_id, kind, ReviewVerdict::Approve, extra)
    }

    /// Files an answer to an open stop.
    pub fn answer_stop_with(
        &self,
        run_id: &RunId,
        kind: EscalationKind,
        decision: ReviewVerdict,
        extra: &[(&str, &str)],
    ) -> Ask {
        let sidecar = self.stored(run_id);
        let stop = sidecar.stops.last().expect("there is a stop");
        let ask = ask_for_stop(&sidecar, stop, kind);
        let extra: BTreeMap<String, String> =
            extra.iter().map(|(k, v)| ((*k).to_string(), (*v).to_string())).collect();
        let text = render_approval(&ask, decision, SOVEREIGN, self.world.now(), None, &extra);
        let document = self.world.sign(&self.world.person(SOVEREIGN), &text);
        self.world.file(&ask.approval_path, document.as_bytes());
        ask
    }

    /// Voids a run as it must be possible for every run before enactment: by signed word.
    pub fn void_signed(&self, run_id: &RunId) -> Driven {
        let open = self.stored(run_id).open_stop().is_some();
        if !open {
            let driven = self.void(run_id).expect("an open run is stopped to be voided");
            assert!(matches!(driven.outcome, Outcome::Paused { .. }), "{:?}", driven.outcome);
        }
        self.answer_stop(run_id, EscalationKind::Void, &[("reason", "given up")]);
        let driven = self.void(run_id).expect("a signed void goes through");
        assert_eq!(driven.outcome, Outcome::Voided);
        assert_eq!(driven.sidecar.state, "voided_given_up");
        driven
    }

    /// After a void: drafts are marked, nothing live is left, and a new run goes through.
    pub fn assert_void_frees(&self, run_id: &RunId) {
        self.void_signed(run_id);
        assert_eq!(self.stored(run_id).state, "voided_given_up");
        for row in self.rows_of("information_unit").iter().filter(|r| r["run_id"] == run_id.as_str()) {
            assert_eq!(row["lifecycle_status"], "voided");
        }
        for row in self.rows_of("decision_backlog_entry").iter().filter(|r| r["run_id"] == run_id.as_str()) {
            let escalation = row["kind"] == "escalation";
            assert_eq!(row["status"], if escalation { "marked" } else { "abandoned" });
        }
        assert_eq!(self.resumed(run_id).outcome, Outcome::Voided);
        assert_eq!(self.void(run_id).expect("voiding again does nothing").outcome, Outcome::Voided);
        self.world.reseed(9_001);
        self.world.advance(61_000);
        let again = self.whole_run().expect("a new run goes through");
        assert_eq!(again.outcome, Outcome::Completed, "{:?}", again.sidecar.last_error);
        assert_ne!(again.sidecar.run_id, *run_id);
        assert_ne!(again.sidecar.kb_folder, self.stored(run_id).kb_folder, "one folder, one run");
        self.assert_documents_are_their_own(&again.sidecar.run_id);
        self.assert_documents_are_their_own(run_id);
    }

    /// Drives a run to its end, signing what is asked.
    pub fn finish(&self, run_id: &RunId) -> Driven {
        let mut driven = self.resumed(run_id);
        while self.sign_if_asked(&driven.outcome) {
            driven = self.resumed(run_id);
        }
        assert_eq!(driven.outcome, Outcome::Completed, "{:?}", driven.sidecar.last_error);
        self.assert_complete(&driven.sidecar.run_id);
        driven
    }

    /// A person puts back what the run filed and relied on, as far as its bytes stand anywhere.
    pub fn put_back(&self, run_id: &RunId) {
        let (sidecar, ports) = (self.stored(run_id), self.ports());
        let mut copies = Copies::default();
        for n in 1..=sidecar.revision {
            let stored = block_on(ports.runs.load_revision(run_id, n)).expect("revisions read");
            let before = stored.and_then(|stored| Sidecar::from_bytes(&stored.bytes).ok());
            copies.add_revision(&before.expect("every revision is kept"));
        }
        let asks = block_on(ports.reader.asks(run_id)).expect("asks read");
        copies.add_answers(&asks, &block_on(ports.reader.evidence(run_id)).expect("evidence reads"));
        let squatted = owed(&sidecar).filter(|(path, _)| self.world.document(path).is_some());
        for (path, sha256) in recorded(&sidecar).into_iter().chain(squatted) {
            let stands = self.world.document(&path).is_some_and(|document| document.sha256 == sha256);
            if let Some(bytes) = copies.of(&sha256).filter(|_| !stands) {
                self.world.file(&path, bytes);
            }
        }
    }

    /// A finished run left the rows of exactly one run.
    pub fn assert_complete(&self, run_id: &RunId) {
        let run = run_id.as_str();
        let sidecar = self.stored(run_id);
        assert_eq!(
            (sidecar.state.as_str(), sidecar.status.as_deref()),
            ("closeout_reported", Some("success"))
        );
        let units: usize = sidecar.context_pins["candidate_count"].parse().expect("a count");
        let own = |table: &str| self.rows_of(table).into_iter().filter(|r| r["run_id"] == run).count();
        assert_eq!(own("information_unit"), units);
        assert_eq!(own("iu_lifecycle_log"), units);
        let enacted = self.rows_of("information_unit");
        let enacted = enacted.iter().filter(|r| r["run_id"] == run && r["lifecycle_status"] == "enacted");
        assert_eq!(enacted.count(), units);
        for table in ["cut_change_set", "manifest_envelope", "verify_result"] {
            assert_eq!(own(table), 1, "{table}");
        }
        assert_eq!(own("dot_pair_signature"), 2);
        let index =
            self.world.document(cutter_core::report::naming::RUNS_INDEX_PATH).expect("the index stands");
        let index = String::from_utf8(index.bytes).expect("text");
        assert_eq!(index.lines().filter(|l| l.contains(run)).count(), 1);
        self.assert_documents_are_their_own(run_id);
    }

    /// Documents of a run name no other run, stay within 250 lines (the stop-route report
    /// aside, which dumps the sidecar), and are what the sidecar says they are.
    pub fn assert_documents_are_their_own(&self, run_id: &RunId) {
        let sidecar = self.stored(run_id);
        let Some(folder) = &sidecar.kb_folder else { return };
        let others: Vec<RunId> = self.world.runs().into_iter().filter(|r| r != run_id).collect();
        let own = |path: &&String| path.starts_with(&format!("{folder}/"));
        for path in self.world.paths().iter().filter(own) {
            let document = self.world.document(path).expect("it is listed");
            let text = String::from_utf8(document.bytes).expect("documents are text");
            let other = others.iter().find(|o| text.contains(o.as_str()));
            assert!(other.is_none(), "{path} names {other:?}");
            if !path.contains("stop-route-report") {
                assert!(text.lines().count() <= 250, "{path}: {} lines", text.lines().count());
            }
        }
        for filed in &sidecar.documents {
            assert!(filed.path.starts_with(&format!("{folder}/")), "{}", filed.path);
        }
    }

    /// A stop is recorded, reported and class-conform: state text, code, what it names, the
    /// report under its name with the dump, and who may go on.
    pub fn assert_stopped(&self, driven: &Driven, code: &str, state: &str, stage: &str, says: &[&str]) {
        let stop = stopped(driven);
        self.assert_reported(driven, &stop, code, state, stage, says);
    }

    /// The same for a failed gate.
    pub fn assert_failed(&self, driven: &Driven, gate: &str, stage: &str, says: &[&str]) {
        let stop = failed(driven);
        let state = format!("failed_{gate}");
        self.assert_reported(driven, &stop, &state, &state, stage, says);
        let run_id = &driven.sidecar.run_id;
        let again = self.resumed(run_id);
        assert_eq!(failed(&again).n, stop.n, "a failed run does not resume");
        let sidecar = self.stored(run_id);
        assert_eq!(stop_kinds(&sidecar, &stop), [EscalationKind::Void], "void is the only exit");
        let document = sidecar.documents.last().expect("the failed phase's own document");
        let filed = self.world.document(&document.path).expect("it is filed");
        assert_eq!(filed.sha256, document.sha256);
        let text = String::from_utf8(filed.bytes).expect("text");
        assert!(text.contains("FAIL"), "{text}");
        for word in says.iter().filter(|w| !w.starts_with("expected")) {
            assert!(text.contains(word), "{}: expected {word:?} in:\n{text}", document.path);
        }
    }

    fn assert_reported(
        &self,
        driven: &Driven,
        stop: &StopRecord,
        code: &str,
        state: &str,
        stage: &str,
        says: &[&str],
    ) {
        let sidecar = self.stored(&driven.sidecar.run_id);
        assert_eq!(stop.code, code, "{stop:?}");
        assert_eq!(sidecar.state, state);
        assert_eq!(driven.sidecar.state, state, "what is returned is what is stored");
        assert_eq!(stop.stage, stage);
        assert_eq!(sidecar.kept_stage.map(|s| s.as_str()), Some(stage));
        let error = sidecar.last_error.as_ref().expect("the last error is recorded");
        assert_eq!(error.code, code);
        for word in says {
            assert!(error.message.contains(word), "expected {word:?} in {}", error.message);
        }
        let kept = sidecar.stops.last().expect("the stop is recorded");
        assert_eq!((kept.n, &kept.nonce), (stop.n, &stop.nonce));
        assert!(!stop.nonce.is_empty());
        self.assert_report_filed(&sidecar, kept);
    }

    /// The stop-route report stands under its name, with nonce, code and the whole sidecar.
    pub fn assert_report_filed(&self, sidecar: &Sidecar, stop: &StopRecord) {
        let date = stop.at.strftime("%Y-%m-%d").to_string();
        assert_eq!(stop.name, format!("stop-route-report-{}-{date}.md", stop.n));
        let folder = sidecar.kb_folder.as_ref().expect("a report was filed, so there is a folder");
        let path = format!("{folder}/{}", stop.name);
        let document = self.world.document(&path).unwrap_or_else(|| panic!("{path} is not filed"));
        assert_eq!(stop.uploaded, Some(document.sha256));
        let text = String::from_utf8(document.bytes).expect("text");
        for word in [stop.code.as_str(), &stop.nonce, sidecar.run_id.as_str()] {
            assert!(text.contains(word), "{path}: expected {word:?}");
        }
        let dump = text.split("json\n").nth(1).and_then(|t| t.rsplit_once("\n```")).expect("a dump").0;
        let dump: serde_json::Value = serde_json::from_str(dump).expect("the dump is JSON");
        assert_eq!(dump["revision"].as_u64(), Some(stop.revision), "the dump is the stop's own revision");
        assert_eq!(dump["run_id"].as_str(), Some(sidecar.run_id.as_str()));
        for kind in stop_kinds(sidecar, stop) {
            let ask = ask_for_stop(sidecar, stop, kind);
            assert!(text.contains(&ask.approval_path), "{path}: expected {}", ask.approval_path);
            assert!(text.contains(&format!("approval_type: {}", ask.approval_type)), "{path}");
        }
    }

    /// The same for an older stop.
    pub fn assert_report_filed_at_stop(&self, sidecar: &Sidecar, index: usize) {
        let stop = &sidecar.stops[index];
        let path = format!("{}/{}", sidecar.kb_folder.as_ref().expect("a folder"), stop.name);
        let document = self.world.document(&path).unwrap_or_else(|| panic!("{path} is not filed"));
        assert_eq!(stop.uploaded, Some(document.sha256));
    }

    /// Goes on from where a command ended, to the end.
    pub fn finish_from(&self, driven: &Driven) -> Driven {
        self.sign_if_asked(&driven.outcome);
        self.finish(&driven.sidecar.run_id)
    }

    /// A document that answers `ask`, with lines replaced before it is signed.
    pub fn edited_answer(&self, ask: &Ask, edits: &[(&str, &str)]) -> String {
        let mut text = self.answer(ask, ReviewVerdict::Approve);
        for (key, value) in edits {
            let start = format!("{key}: ");
            let lines = text
                .lines()
                .map(|l| if l.starts_with(&start) { format!("{start}{value}") } else { l.into() });
            let edited: Vec<String> = lines.collect();
            let edited = edited.join("\n") + "\n";
            assert_ne!(edited, text, "{key} is a line of the answer");
            text = edited;
        }
        text
    }

    /// Signs a text as the sovereign.
    pub fn seal(&self, text: &str) -> String {
        self.world.sign(&self.world.person(SOVEREIGN), text)
    }
}

/// sha256 of a text.
pub fn sha(text: &str) -> Digest {
    Digest::of(text.as_bytes())
}
