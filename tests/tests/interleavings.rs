//! Customers, reviewers, workers, sovereigns and deaths in random order: request, backlog entry
//! and run agree after every step, and everything that was not given up comes to its end.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "interleavings/keeper.rs"]
mod keeper;
#[path = "interleavings/on_a_server.rs"]
mod on_a_server;

use cutter_core::gate::plan_of::plan_of;
use std::cell::Cell;
use std::sync::Arc;

use cutter_core::base::digest::Digest;
use cutter_core::base::id::mint_v7;
use cutter_core::driver::{self, Caller, Outcome, Ports};
use cutter_core::gate::staged::PlanSettings;
use cutter_core::machine::backlog::BacklogState;
use cutter_core::machine::cut_request::CutRequestStatus as S;
use cutter_core::port::backlog::Backlog;
use cutter_core::port::cut_request::{
    AddRequest, Asked, Cleanup, CopySource, CutRequests, OnRequest, StageMark, VerifyMark,
};
use cutter_core::record::approval::Ask;
use cutter_core::record::cut_request::{CutRequest, Standing, consistency};
use cutter_core::record::effect::{EffectName, ReviewVerdict, Verdict};
use cutter_core::record::settings::RunSettings;
use cutter_core::record::sidecar::Sidecar;
use cutter_core::testing::memory::{Fault, FaultKind, FaultPlan, block_on};
use cutter_pg::login::Login;
use cutter_tests::Scenario;
use cutter_tests::pg::PgWorld;
use keeper::Keep;
use proptest::prelude::*;
use uuid::Uuid;

/// How many customers there are; each asks for a document of its own, or for the same one.
const REQUESTS: u8 = 4;

/// Where the story takes place.
trait Land {
    /// A new process, which dies at this call if it gets so far.
    fn process(&self, dies_at: Option<u64>) -> (Ports, Arc<dyn CutRequests>);
    /// Whoever keeps the backlog.
    fn backlog(&self) -> Arc<dyn Backlog>;
    fn caller(&self) -> Caller;
    fn settings(&self) -> &RunSettings;
    fn sign(&self, ask: &Ask, word: ReviewVerdict);
    /// So many days pass for the store.
    fn pass(&self, days: u8);
}

struct Memory(Scenario);

impl Land for Memory {
    fn process(&self, dies_at: Option<u64>) -> (Ports, Arc<dyn CutRequests>) {
        let plan = dies_at.map_or_else(FaultPlan::default, |call| {
            let kind = if call % 2 == 0 { FaultKind::DieBefore } else { FaultKind::DieAfter };
            FaultPlan::one(Fault::at(call, kind))
        });
        let ports = self.0.world.process_with(plan).ports();
        let requests = ports.requests.clone();
        (ports.into(), requests)
    }
    fn backlog(&self) -> Arc<dyn Backlog> {
        self.0.world.process().ports().backlog
    }
    fn caller(&self) -> Caller {
        cutter_tests::caller()
    }
    fn settings(&self) -> &RunSettings {
        &self.0.settings
    }
    fn sign(&self, ask: &Ask, word: ReviewVerdict) {
        self.0.sign(ask, word);
    }
    fn pass(&self, days: u8) {
        self.0.world.advance(u64::from(days) * 86_400_000);
    }
}

/// A real server; nobody dies here, which the tests with processes see to.
struct Server(PgWorld);

impl Land for Server {
    fn process(&self, _: Option<u64>) -> (Ports, Arc<dyn CutRequests>) {
        let database = self.0.port();
        (self.0.ports_over(database.clone()), database)
    }
    fn backlog(&self) -> Arc<dyn Backlog> {
        self.0.port()
    }
    fn caller(&self) -> Caller {
        cutter_tests::pg::caller()
    }
    fn settings(&self) -> &RunSettings {
        &self.0.settings
    }
    fn sign(&self, ask: &Ask, word: ReviewVerdict) {
        self.0.sign(ask, word);
    }
    /// What was recorded is so much older: nobody sets a real server's clock.
    fn pass(&self, days: u8) {
        let older = format!(
            "SET session_replication_role = replica;
             UPDATE public.cut_request SET cleanup_scheduled_at = cleanup_scheduled_at - interval '{days} days';
             UPDATE public.cut_request_transition SET recorded_at = recorded_at - interval '{days} days';
             UPDATE iu_core.iu_staging_record SET expires_at = expires_at - interval '{days} days'"
        );
        self.0.database.client(Login::Admin).batch_execute(&older).unwrap();
    }
}

/// What somebody does. The number says to which request.
#[derive(Debug, Clone, Copy)]
enum Act {
    Add(u8),
    Copy(u8),
    /// Marked, or marked otherwise: a rejected mark is not made again as it was.
    Mark(u8, bool),
    Review(u8, bool),
    Apply(u8),
    VerifyCut(u8),
    /// Somebody serves the request, and may die at a call.
    Serve(u8, Option<u64>),
    /// A worker takes whatever is asked for, and may die.
    Work(Option<u64>),
    /// The sovereign answers what the run asks.
    Answer(u8, Word),
    Void(u8),
    Complete(u8),
    /// So many days later the staged bytes that are due go.
    Cleanup(u8),
    /// A sweep pass over the document of a request.
    Sweep(u8),
    /// The backlog's keeper decides on the document's entries, all of them.
    Keep(u8, Keep),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Word {
    Approve,
    Defer,
    Refuse,
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let n = || 0..REQUESTS;
    let death = || proptest::option::weighted(0.6, 1_u64..120);
    let word = prop_oneof![6 => Just(Word::Approve), 1 => Just(Word::Defer), 1 => Just(Word::Refuse)];
    let keep = prop_oneof![
        4 => Just(Keep::Defer),
        1 => Just(Keep::Reject),
        1 => Just(Keep::Abandon),
        2 => Just(Keep::Requeue),
    ];
    let act = prop_oneof![
        2 => n().prop_map(Act::Add),
        3 => n().prop_map(Act::Copy),
        3 => (n(), any::<bool>()).prop_map(|(n, other)| Act::Mark(n, other)),
        3 => (n(), any::<bool>()).prop_map(|(n, yes)| Act::Review(n, yes)),
        2 => n().prop_map(Act::Apply),
        1 => n().prop_map(Act::VerifyCut),
        5 => (n(), death()).prop_map(|(n, at)| Act::Serve(n, at)),
        3 => death().prop_map(Act::Work),
        5 => (n(), word).prop_map(|(n, word)| Act::Answer(n, word)),
        1 => n().prop_map(Act::Void),
        2 => n().prop_map(Act::Complete),
        1 => (0_u8..40).prop_map(Act::Cleanup),
        2 => n().prop_map(Act::Sweep),
        1 => (n(), keep).prop_map(|(n, keep)| Act::Keep(n, keep)),
    ];
    proptest::collection::vec(act, 20..90)
}

/// One land with its people.
struct Stage<'a, L: Land> {
    land: &'a L,
    /// Tells the requests of one story from those of another.
    story: u64,
    /// How many ids were minted.
    minted: Cell<u32>,
}

impl<L: Land> Stage<'_, L> {
    fn id(&self, n: u8) -> Uuid {
        let mut random = [0; 10];
        random[..8].copy_from_slice(&self.story.to_be_bytes());
        random[9] = n;
        mint_v7(1, random)
    }

    /// Memory makes ids from labels: no two are the same.
    fn label(&self, what: &str) -> String {
        self.minted.set(self.minted.get() + 1);
        format!("{what} {} {}", self.story, self.minted.get())
    }

    fn asked(&self, ports: &Ports) -> Asked {
        Asked { actor: "op".into(), at: ports.clock.now() }
    }

    fn on(&self, ports: &Ports, n: u8) -> OnRequest {
        OnRequest { cut_request_id: self.id(n), asked: self.asked(ports) }
    }

    /// The last two customers ask for the same document, with texts of their own.
    fn document_id(&self, n: u8) -> String {
        format!("LAW-{}-{}", self.story, n.min(REQUESTS - 2))
    }

    fn text(&self, n: u8) -> String {
        format!(
            "# Law {}\n\nWe agree.\n\n## Article 1\n\nSpeak {n}.\n\n## Article 2\n\nListen.\n",
            self.story
        )
    }

    /// What somebody does. That it is refused, or that whoever does it dies, is fine: what must
    /// not be is a state that does not fit together.
    fn act(&self, act: Act) {
        let (ports, requests) = self.land.process(match act {
            Act::Serve(_, dies_at) | Act::Work(dies_at) => dies_at,
            _ => None,
        });
        let caller = self.land.caller();
        let settings = self.land.settings();
        match act {
            Act::Add(n) => {
                let add = AddRequest {
                    cut_request_id: self.id(n),
                    source_ref: format!("law-{n}.md"),
                    source_kind: "file".into(),
                    asked: self.asked(&ports),
                };
                // Asked for again, by whoever asked first.
                let _ = block_on(requests.add(&add));
            }
            Act::Copy(n) => {
                let content = self.text(n).into_bytes();
                let copy = CopySource {
                    cut_request_id: self.id(n),
                    staging_record_id: ports.ids.uuid_v7(ports.clock.now(), &self.label("copy")),
                    sha256: Digest::of(&content),
                    content,
                    source_path: None,
                    asked: self.asked(&ports),
                };
                let _ = block_on(requests.copy(&copy));
            }
            Act::Mark(n, other) => {
                let _ = self.mark(&ports, requests.as_ref(), n, other);
            }
            Act::Review(n, approve) => {
                let verdict = VerifyMark {
                    cut_request_id: self.id(n),
                    approve,
                    approval_doc_id: approve.then(|| "doc".into()),
                    reason: (!approve).then(|| "again".into()),
                    asked: self.asked(&ports),
                };
                let _ = block_on(requests.verify_mark(&verdict));
            }
            Act::Apply(n) => drop(block_on(requests.apply(&self.on(&ports, n), false))),
            Act::VerifyCut(n) => drop(block_on(requests.verify_cut(&self.on(&ports, n)))),
            Act::Serve(n, _) => {
                drop(block_on(driver::serve(&ports, requests.as_ref(), &caller, self.id(n), settings)));
            }
            Act::Work(_) => drop(block_on(driver::work(&ports, requests.as_ref(), &caller, settings, 10))),
            Act::Answer(n, word) => self.answer(&ports, requests.as_ref(), n, word),
            Act::Void(n) => self.void(&ports, requests.as_ref(), n),
            Act::Complete(n) => {
                let handed =
                    block_on(driver::hand_over(&ports, requests.as_ref(), &caller, self.id(n), settings));
                if let Ok(outcome) = handed
                    && let Some(sidecar) = self.sidecar(&ports, &outcome.request)
                {
                    assert_eq!(sidecar.state, "closeout_reported", "handed over before the last papers");
                }
            }
            Act::Cleanup(days) => {
                self.land.pass(days);
                let cleanup = Cleanup { asked: self.asked(&ports), as_of: None, limit: 2 };
                let _ = block_on(requests.cleanup(&cleanup));
            }
            Act::Sweep(n) => self.sweep(&ports, n),
            Act::Keep(n, keep) => self.keep(&ports, n, keep),
        }
    }

    fn mark(&self, ports: &Ports, requests: &dyn CutRequests, n: u8, other: bool) -> Option<()> {
        let text = self.text(n);
        let mut settings = self.land.settings().clone();
        settings.publication_type = other.then(|| "standard".into());
        let vocabulary = block_on(ports.reader.vocabulary()).ok()?;
        let document_id = self.document_id(n);
        let plan = plan_of(&document_id, text.as_bytes(), &vocabulary, &settings).unwrap();
        let staged = PlanSettings {
            document_id,
            profile: settings.profile.clone(),
            detection: None,
            publication_type: settings.publication_type.clone(),
            depends_on: Vec::new(),
            manifest: None,
        };
        let manifest = serde_json::json!({
            "document": plan.document, "region": plan.region, "units": plan.rows,
            "manifest_digest": plan.manifest_digest, "writer_digest": plan.writer_digest, "settings": staged,
        });
        let mark = StageMark {
            cut_request_id: self.id(n),
            staging_record_id: ports.ids.uuid_v7(ports.clock.now(), &self.label("mark")),
            manifest: manifest.to_string().into_bytes(),
            manifest_digest: plan.manifest_digest,
            asked: self.asked(ports),
        };
        block_on(requests.mark(&mark)).ok().map(drop)
    }

    fn request(&self, requests: &dyn CutRequests, n: u8) -> Option<CutRequest> {
        block_on(requests.get(self.id(n))).unwrap()
    }

    fn sidecar(&self, ports: &Ports, request: &CutRequest) -> Option<Sidecar> {
        let stored = block_on(ports.runs.load(&request.run_id()?)).unwrap()?;
        Some(Sidecar::from_bytes(&stored.bytes).unwrap())
    }

    fn answer(&self, ports: &Ports, requests: &dyn CutRequests, n: u8, word: Word) {
        let Some(request) = self.request(requests, n) else { return };
        let Some(sidecar) = self.sidecar(ports, &request) else { return };
        let Some(ask) = sidecar.ask else { return };
        // One answer to one question: the second would be another document under its name.
        if block_on(ports.kb.read(&ask.approval_path)).unwrap().is_some() {
            return;
        }
        let verdict = match word {
            Word::Approve => ReviewVerdict::Approve,
            Word::Defer => ReviewVerdict::Defer,
            Word::Refuse => ReviewVerdict::Reject,
        };
        self.land.sign(&ask, verdict);
    }

    fn void(&self, ports: &Ports, requests: &dyn CutRequests, n: u8) {
        let caller = self.land.caller();
        let Some(run_id) = self.request(requests, n).and_then(|request| request.run_id()) else { return };
        let asked = block_on(driver::void(ports, &caller, &run_id, None));
        if let Ok(driven) = asked
            && let Outcome::Paused { ask, .. } = driven.outcome
        {
            if block_on(ports.kb.read(&ask.approval_path)).unwrap().is_none() {
                self.land.sign(&ask, ReviewVerdict::Approve);
            }
            let _ = block_on(driver::void(ports, &caller, &run_id, None));
        }
        // Whoever voids tells the request; if it is not told, whoever serves it next does.
        let _ = block_on(driver::settle_request(ports, requests, &caller, &run_id));
    }

    /// What stands of the three machines about one request.
    fn standing(&self, ports: &Ports, requests: &dyn CutRequests, n: u8) -> Option<Standing> {
        let request = self.request(requests, n)?;
        let mut standing = Standing {
            status: request.status,
            mark_verdict: request.mark_verdict,
            names_run: request.cut_run_id.is_some(),
            entry: None,
            has_cut: false,
            has_passed: None,
            is_enacted: false,
            stage: None,
        };
        let Some(run_id) = request.run_id() else { return Some(standing) };
        let evidence = block_on(ports.reader.evidence(&run_id)).unwrap();
        let verdict = |name: EffectName| {
            evidence.effects.iter().find(|effect| effect.key.effect == name).map(|effect| effect.verdict)
        };
        standing.entry = evidence.entry_status.as_deref().map(|status| status.parse().unwrap());
        standing.has_cut = verdict(EffectName::LegA) == Some(Verdict::Commit);
        standing.has_passed = verdict(EffectName::WriteVerify).map(|verdict| verdict == Verdict::Commit);
        standing.is_enacted = verdict(EffectName::Enact) == Some(Verdict::Commit);
        standing.stage =
            self.sidecar(ports, &request).and_then(|s| s.run_state().unwrap().stage()).or(standing.stage);
        Some(standing)
    }

    fn assert_agreement(&self, after: &str) {
        let (ports, requests) = self.land.process(None);
        for n in 0..REQUESTS {
            let Some(standing) = self.standing(&ports, requests.as_ref(), n) else { continue };
            let failed: Vec<_> = consistency(&standing).into_iter().filter(|check| !check.ok).collect();
            assert!(failed.is_empty(), "request {n} after {after}: {failed:?}\n{standing:?}");
            self.assert_timeline(requests.as_ref(), n);
        }
        // A run serves one request, and a request one run.
        let mut runs: Vec<Uuid> =
            (0..REQUESTS).filter_map(|n| self.request(requests.as_ref(), n)?.cut_run_id).collect();
        let all = runs.len();
        runs.sort_unstable();
        runs.dedup();
        assert_eq!(runs.len(), all, "{after}");
    }

    /// The moves of a request are a path of the table from nothing to where it stands.
    fn assert_timeline(&self, requests: &dyn CutRequests, n: u8) {
        let timeline = block_on(requests.timeline(self.id(n))).unwrap();
        let mut at: Option<S> = None;
        for step in &timeline {
            assert_eq!(step.from_status, at, "{timeline:?}");
            if let Some(from) = at {
                cutter_core::machine::cut_request::CUT_REQUEST.check(from, step.to_status).unwrap();
            }
            at = Some(step.to_status);
        }
        assert_eq!(at, self.request(requests, n).map(|request| request.status), "{timeline:?}");
    }

    /// Nobody dies or refuses any more: everything that was not given up is cut and cleaned.
    fn come_to_an_end(&self) {
        for n in 0..REQUESTS {
            let marks = [Act::Mark(n, false), Act::Mark(n, true)];
            for act in [Act::Add(n), Act::Copy(n), marks[0], marks[1], Act::Review(n, true)] {
                self.act(act);
            }
            for _ in 0..8 {
                self.act(Act::Serve(n, None));
                self.act(Act::Answer(n, Word::Approve));
                self.act(Act::Complete(n));
            }
            self.act(Act::Cleanup(39));
            self.act(Act::Cleanup(39));
            self.assert_agreement("the end");
            self.assert_audit("the end");
            let (ports, requests) = self.land.process(None);
            let request = self.request(requests.as_ref(), n).unwrap();
            let state = self.sidecar(&ports, &request).map(|sidecar| sidecar.state);
            let is_held = request.status == S::MarkVerified && n >= REQUESTS - 2;
            let is_refused = state.as_deref().is_some_and(|state| {
                state.starts_with("stopped_refused")
                    || state.starts_with("voided")
                    || state.starts_with("failed")
            });
            // A void after the verdict, or a refusal at the second gate, leaves what was verified
            // unfinished; the document's other customer waits for as long as its run stands.
            let fine = matches!(request.status, S::Cleaned | S::CutFailed) || is_refused || is_held;
            // What the backlog's keeper took back is not cut without the sovereign's new word.
            let is_kept =
                self.standing(&ports, requests.as_ref(), n).and_then(|s| s.entry).is_some_and(|entry| {
                    matches!(
                        entry,
                        BacklogState::ReviewPending
                            | BacklogState::ReviewedDeferred
                            | BacklogState::ReviewedRejected
                            | BacklogState::Abandoned
                    )
                });
            assert!(fine || is_kept, "request {n} ends as {} with its run at {state:?}", request.status);
        }
    }
}

fn tell<L: Land>(land: &L, story: u64, acts: &[Act]) {
    let stage = Stage { land, story, minted: Cell::new(0) };
    for act in acts {
        stage.act(*act);
        let after = format!("{act:?}");
        stage.assert_agreement(&after);
        stage.assert_audit(&after);
    }
    stage.come_to_an_end();
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: if std::env::var_os("CUTTER_FULL").is_some() { 2_000 } else { 60 },
        max_shrink_iters: 400,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn in_memory_the_machines_agree_whatever_happens(acts in acts(), seed in 0_u64..1_000_000) {
        tell(&Memory(Scenario::new(seed)), seed, &acts);
    }
}
