//! A run against a database of its own: ids, requests and the ports.
#![allow(dead_code, unreachable_pub, reason = "each test file uses its part")]

use cutter_core::base::digest::Digest;
use cutter_core::base::id::RunId;
use cutter_core::base::key;
use cutter_core::port::PortResult;
use cutter_core::port::database::{Begun, Executor, PendingEffect, Reviewer, Verifier};
use cutter_core::record::approval::Ask;
use cutter_core::record::ask::AskWrite;
use cutter_core::record::effect::{
    EffectContext, EffectKey, EffectName, EffectRecord, EnactWrite, ExecutorEffect, LegAWrite, LegBWrite,
    MarkWrite, ReviewVerdict, ReviewWrite, Sg2RequestWrite, SignatureWrite, SweepWrite, UnitWrite, Verdict,
    VoidWrite, WriteVerifyWrite,
};
use cutter_core::record::observed::{Fence, SourceRegistration, SurveyScope};
use cutter_core::record::rows::{RowFields, RowsHeader, rows_digest};
use cutter_pg::PgDatabase;
use cutter_pg::login::Login;
use cutter_pg::testing::{TestDatabase, TestServer};
use futures_executor::block_on;
use uuid::Uuid;

pub const DOCUMENT: &str = "X-LAW-1";
pub const AT: &str = "2026-05-20T10:11:12.123456789Z";

pub struct World {
    pub database: TestDatabase,
    pub port: PgDatabase,
}

impl World {
    pub fn new() -> Self {
        let database = TestServer::shared().fresh_database();
        let port = port_of(&database);
        Self { database, port }
    }

    /// Registers a text of `n` articles, each a unit of its own.
    pub fn register(&self, n: usize) -> Source {
        self.register_as(DOCUMENT, &texts(n))
    }

    pub fn register_as(&self, document: &str, units: &[String]) -> Source {
        let content = units.concat().into_bytes();
        let registration = SourceRegistration {
            document_id: document.to_owned(),
            title: "A law".to_owned(),
            source_document_id: id(),
            source_version_id: id(),
            sha256: Digest::of(&content),
            content,
            manifest_digest: None,
            actor: "operator".to_owned(),
        };
        let registered = block_on(self.port.register_source(&registration)).unwrap();
        let latest = registered.source.latest.unwrap();
        Source {
            document: document.to_owned(),
            source_document_id: registered.source.source_document_id,
            source_version_id: latest.source_version_id,
            version_no: latest.version_no.try_into().unwrap(),
            sha256: latest.sha256,
            units: units.to_vec(),
        }
    }

    pub fn run(&self, source: &Source) -> Run<'_> {
        let run_id = RunId::new("2026-05-20T10:11:12Z".parse().unwrap(), id()).unwrap();
        let fence = block_on(self.port.take_fence(&run_id, &source.document, id())).unwrap();
        let run = Run {
            world: self,
            source: source.clone(),
            survey: SurveyScope {
                run_id: run_id.clone(),
                document_id: source.document.clone(),
                entry_id: None,
                review_decision_id: None,
            },
            run_id,
            fence,
            entry: id(),
            change_set: id(),
            envelope: id(),
            executor_signature: id(),
            cut_approval: id(),
            cut_decision: id(),
            enact_approval: id(),
            enact_decision: id(),
        };
        let approve = ReviewVerdict::Approve;
        for (gate, review) in
            [("SG_cut_authz", run.sg1_write(approve)), ("SG_lifecycle_authz", run.sg2_write(approve))]
        {
            block_on(self.port.open_ask(&run.fence, &run.ask_write(gate, &review))).unwrap();
        }
        run
    }

    /// One number, seen by the administrator.
    pub fn count(&self, sql: &str) -> i64 {
        self.database.client(Login::Admin).query_one(sql, &[]).unwrap().get(0)
    }
}

pub fn port_of(database: &TestDatabase) -> PgDatabase {
    PgDatabase::connect(
        [Login::Exec, Login::Verify, Login::Review, Login::Ro].map(|login| (login, database.dsn(login))),
    )
}

#[derive(Clone)]
pub struct Source {
    pub document: String,
    pub source_document_id: Uuid,
    pub source_version_id: Uuid,
    pub version_no: u64,
    pub sha256: Digest,
    pub units: Vec<String>,
}

pub struct Run<'w> {
    pub world: &'w World,
    pub source: Source,
    pub run_id: RunId,
    pub fence: Fence,
    pub survey: SurveyScope,
    pub entry: Uuid,
    pub change_set: Uuid,
    pub envelope: Uuid,
    pub executor_signature: Uuid,
    pub cut_approval: Uuid,
    pub cut_decision: Uuid,
    pub enact_approval: Uuid,
    pub enact_decision: Uuid,
}

pub fn id() -> Uuid {
    static NEXT: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(1);
    let n = NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let mut random = [0; 10];
    random[..8].copy_from_slice(&n.to_be_bytes());
    random[8] = (std::process::id() & 0xff) as u8;
    cutter_core::base::id::mint_v7(1_779_271_872_000 + n, random)
}

pub fn texts(n: usize) -> Vec<String> {
    (1..=n).map(|i| format!("Điều {i}. Nội dung số {i}.\r\n")).collect()
}

pub fn digest(text: &str) -> Digest {
    Digest::of(text.as_bytes())
}

impl Run<'_> {
    pub fn cx(&self, effect: EffectName, payload: &str) -> EffectContext {
        EffectContext {
            fence: self.fence.clone(),
            key: EffectKey { run_id: self.run_id.clone(), effect, occurrence: 1 },
            effect_id: Uuid::from_u128(
                digest(&format!("{} {effect}", self.run_id)).as_bytes()[..16]
                    .iter()
                    .fold(0, |n, b| n << 8 | u128::from(*b)),
            ),
            payload_sha256: digest(payload),
            at: AT.parse().unwrap(),
            actor: "operator".to_owned(),
            deadline_ms: 20_000,
            survey: self.survey.clone(),
        }
    }

    pub fn mark_write(&self) -> MarkWrite {
        MarkWrite {
            entry_id: self.entry,
            history_id: id(),
            source_document_id: self.source.source_document_id,
            source_version_id: self.source.source_version_id,
            idempotency_key: digest(&format!("mark {}", self.source.source_version_id)),
            region_sha: digest(&self.source.units.concat()),
            manifest_digest: digest("manifest"),
            candidate_count: self.source.units.len() as u64,
            depends_on: Vec::new(),
        }
    }

    pub fn sweep_write(&self) -> SweepWrite {
        SweepWrite { entry_id: self.entry, sweep_id: id(), history_id: id() }
    }

    pub fn sg1_write(&self, decision: ReviewVerdict) -> ReviewWrite {
        let document = format!(
            "consent to cut of {}\nrows_digest: {}\n",
            self.run_id,
            self.rows_of(&self.unit_writes())
        );
        ReviewWrite {
            approval_id: self.cut_approval,
            review_decision_id: self.cut_decision,
            decision_type: "cut_authorization".to_owned(),
            decision,
            entry_id: Some(self.entry),
            history_id: Some(id()),
            change_set_id: None,
            approval_kb_id: "kb/SG1".to_owned(),
            sha256: digest(&document),
            document,
            nonce: format!("cut {}", self.run_id),
            fingerprint: "F00D".to_owned(),
            actor: "sovereign".to_owned(),
            expires: Some("2027-01-01T00:00:00Z".parse().unwrap()),
            request_sha256: digest("request"),
        }
    }

    /// The ask that a review answers.
    pub fn ask_write(&self, gate: &str, review: &ReviewWrite) -> AskWrite {
        let required = [
            ("run_id", self.run_id.to_string()),
            ("document_id", self.source.document.clone()),
            ("nonce", review.nonce.clone()),
            ("request_sha256", review.request_sha256.to_hex()),
            ("rows_digest", self.rows_of(&self.unit_writes()).to_hex()),
        ];
        AskWrite {
            begun: None,
            ask: Ask {
                gate: gate.parse().unwrap(),
                occurrence: 1,
                approval_type: review.decision_type.clone(),
                required: required.into_iter().map(|(k, v)| (k.to_owned(), v)).collect(),
                expected_actor: None,
                approval_path: review.approval_kb_id.clone(),
                request_path: "kb/request".to_owned(),
            },
            ids: Default::default(),
            policy_head: None,
            at: AT.parse().unwrap(),
        }
    }

    /// The digest of the rows that these units become.
    pub fn rows_of(&self, units: &[UnitWrite]) -> Digest {
        let ends = (units.first().map_or(0, |u| u.start), units.last().map_or(0, |u| u.end));
        let header = RowsHeader {
            document_id: &self.source.document,
            version_no: self.source.version_no,
            source_sha256: &self.source.sha256,
            region: ends,
            publication_type: "act",
            unit_count: units.len() as u64,
        };
        rows_digest(&header, units.iter().map(RowFields::of_write))
    }

    pub fn unit_writes(&self) -> Vec<UnitWrite> {
        let mut start = 0;
        let mut units = Vec::new();
        for (i, text) in self.source.units.iter().enumerate() {
            let end = start + text.len() as u64;
            let address = format!("{}/art-{}", self.source.document, i + 1);
            let content_hash = digest(text);
            units.push(UnitWrite {
                unit_id: id(),
                version_id: id(),
                anchor_id: id(),
                ordinal: i as u64,
                citation_address: Some(address.clone()),
                idempotency_key: *key::unit(&self.source.sha256, &address, &content_hash).digest(),
                canonical_address: address,
                unit_kind: "article".to_owned(),
                section_type: "general".to_owned(),
                start,
                end,
                content: text.clone().into_bytes(),
                content_hash,
                body_hash: content_hash,
            });
            start = end;
        }
        units
    }

    pub fn signature(&self, duty: &str, signature_id: Uuid, payload: &str) -> SignatureWrite {
        SignatureWrite {
            signature_id,
            duty: duty.to_owned(),
            payload: payload.to_owned(),
            public_key: "ab".repeat(32),
            signature: "cd".repeat(64),
        }
    }

    pub fn leg_a_write(&self) -> LegAWrite {
        LegAWrite {
            change_set_id: self.change_set,
            idempotency_key: digest(&format!("leg a {}", self.source.source_version_id)),
            entry_id: self.entry,
            history_ids: [id(), id()],
            source_document_id: self.source.source_document_id,
            source_version_id: self.source.source_version_id,
            approval_id: self.cut_approval,
            review_decision_id: self.cut_decision,
            writer_digest: digest("writer"),
            manifest_digest: digest("manifest"),
            region_sha: digest(&self.source.units.concat()),
            publication_type: "act".to_owned(),
            signature: self.signature("executor", self.executor_signature, "{}"),
            units: self.unit_writes(),
        }
    }

    pub fn leg_b_write(&self) -> LegBWrite {
        LegBWrite {
            manifest_envelope_id: self.envelope,
            change_set_id: self.change_set,
            entry_id: self.entry,
            executor_signature_id: self.executor_signature,
            envelope: "{}".to_owned(),
            unit_count: self.source.units.len() as u64,
        }
    }

    pub fn verify_write(&self) -> WriteVerifyWrite {
        WriteVerifyWrite {
            verify_result_id: id(),
            change_set_id: self.change_set,
            manifest_envelope_id: self.envelope,
            entry_id: self.entry,
            history_ids: [id(), id()],
            signature_pass: self.signature("verifier", id(), "pass"),
            signature_fail: self.signature("verifier", id(), "fail"),
            compensating_id: id(),
            escalation: [id(), id()],
            document_id: self.source.document.clone(),
            forbidden_prefixes: vec![format!("{}/art-44", self.source.document)],
        }
    }

    pub fn sg2_request_write(&self) -> Sg2RequestWrite {
        Sg2RequestWrite {
            review_decision_id: self.enact_decision,
            entry_id: self.entry,
            change_set_id: self.change_set,
            expected_actor: "sovereign".to_owned(),
            unit_count: self.source.units.len() as u64,
            unit_set_digest: digest("set"),
            nonce: format!("enact {}", self.run_id),
            request_sha256: digest("request 2"),
        }
    }

    pub fn sg2_write(&self, decision: ReviewVerdict) -> ReviewWrite {
        let rows = self.rows_of(&self.unit_writes());
        let document = format!("consent to enactment of {}\nrows_digest: {rows}\n", self.run_id);
        ReviewWrite {
            approval_id: self.enact_approval,
            review_decision_id: self.enact_decision,
            decision_type: "lifecycle_enactment".to_owned(),
            history_id: None,
            change_set_id: Some(self.change_set),
            nonce: format!("enact {}", self.run_id),
            sha256: digest(&document),
            document,
            ..self.sg1_write(decision)
        }
    }

    pub fn enact_write(&self) -> EnactWrite {
        EnactWrite {
            change_set_id: self.change_set,
            review_decision_id: self.enact_decision,
            approval_id: self.enact_approval,
            unit_count: self.source.units.len() as u64,
        }
    }

    /// Stores an approval to void, and gives the write that relies on it.
    pub fn void_write(&self) -> VoidWrite {
        let approval_id = id();
        let document = format!("void {} {approval_id}", self.run_id);
        let review = ReviewWrite {
            approval_id,
            review_decision_id: id(),
            decision_type: "void".to_owned(),
            history_id: None,
            nonce: format!("void {approval_id}"),
            sha256: digest(&document),
            document,
            ..self.sg1_write(ReviewVerdict::Approve)
        };
        let cx = self.cx(EffectName::Sg3Review, "void approval");
        self.commit(block_on(Reviewer::begin(&self.world.port, &cx, &review)));
        VoidWrite {
            void_id: id(),
            change_set_id: Some(self.change_set),
            entry: Some([self.entry, id()]),
            approval_id,
            reason: "asked for".to_owned(),
        }
    }

    pub fn exec(&self, effect: EffectName, write: ExecutorEffect) -> PortResult<Begun> {
        block_on(Executor::begin(&self.world.port, &self.cx(effect, "payload"), &write))
    }

    pub fn review(&self, effect: EffectName, write: &ReviewWrite) -> PortResult<Begun> {
        block_on(Reviewer::begin(&self.world.port, &self.cx(effect, "payload"), write))
    }

    pub fn verify(&self, write: &WriteVerifyWrite) -> PortResult<Begun> {
        block_on(Verifier::begin(&self.world.port, &self.cx(EffectName::WriteVerify, "payload"), write))
    }

    pub fn commit(&self, begun: PortResult<Begun>) -> EffectRecord {
        block_on(pending(begun).finish(Verdict::Commit)).unwrap().unwrap()
    }

    pub fn do_mark(&mut self) -> EffectRecord {
        self.survey.entry_id = Some(self.entry);
        self.commit(self.exec(EffectName::Mark, ExecutorEffect::Mark(self.mark_write())))
    }

    pub fn do_sweep(&self) -> EffectRecord {
        self.commit(self.exec(EffectName::Sweep, ExecutorEffect::Sweep(self.sweep_write())))
    }

    pub fn do_sg1(&self) -> EffectRecord {
        self.commit(self.review(EffectName::Sg1Review, &self.sg1_write(ReviewVerdict::Approve)))
    }

    pub fn do_leg_a(&self) -> EffectRecord {
        self.commit(self.exec(EffectName::LegA, ExecutorEffect::LegA(self.leg_a_write())))
    }

    pub fn do_leg_b(&self) -> EffectRecord {
        self.commit(self.exec(EffectName::LegB, ExecutorEffect::LegB(self.leg_b_write())))
    }

    pub fn do_verify(&self) -> EffectRecord {
        self.commit(self.verify(&self.verify_write()))
    }

    pub fn do_sg2(&mut self) {
        self.survey.review_decision_id = Some(self.enact_decision);
        self.commit(self.exec(EffectName::Sg2Request, ExecutorEffect::Sg2Request(self.sg2_request_write())));
        self.commit(self.review(EffectName::Sg2Review, &self.sg2_write(ReviewVerdict::Approve)));
    }

    pub fn do_enact(&self) -> EffectRecord {
        self.commit(self.exec(EffectName::Enact, ExecutorEffect::Enact(self.enact_write())))
    }

    /// Everything up to the cut's approval.
    pub fn up_to_sg1(&mut self) {
        self.do_mark();
        self.do_sweep();
        self.do_sg1();
    }

    /// Everything up to the verification.
    pub fn up_to_verified(&mut self) {
        self.up_to_sg1();
        self.do_leg_a();
        self.do_leg_b();
        self.do_verify();
    }
}

pub fn pending(begun: PortResult<Begun>) -> Box<dyn PendingEffect> {
    match begun.unwrap() {
        Begun::Pending(pending) => pending,
        Begun::Recorded(record) => panic!("recorded before: {record:?}"),
    }
}

pub fn recorded(begun: PortResult<Begun>) -> EffectRecord {
    match begun.unwrap() {
        Begun::Recorded(record) => record,
        Begun::Pending(pending) => panic!("not recorded: {:?}", pending.facts()),
    }
}

pub fn refused(begun: PortResult<Begun>) -> cutter_core::port::PortError {
    match begun {
        Err(error) => error,
        Ok(Begun::Recorded(_)) => panic!("recorded before"),
        Ok(Begun::Pending(_)) => panic!("was written"),
    }
}
