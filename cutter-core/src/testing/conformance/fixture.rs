//! One small document and every request that a run makes about it.

mod chain;

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use jiff::Timestamp;
use uuid::Uuid;

use crate::base::digest::Digest;
use crate::base::id::{RunId, mint_v7};
use crate::base::key::{self, RowLabel};
use crate::machine::run::GateId;
use crate::record::approval::{Ask, field};
use crate::record::ask::{AnswerWrite, AskWrite};
use crate::record::effect::{
    EffectName, EnactWrite, LegAWrite, LegBWrite, MarkWrite, ReviewVerdict, ReviewWrite, Sg2RequestWrite,
    SignatureWrite, UnitWrite, VoidWrite, WriteVerifyWrite,
};
use crate::record::observed::{SourceFacts, SourceRegistration, SurveyScope};
use crate::record::rows::{RowFields, RowsHeader, rows_digest};

pub use chain::Chain;
pub(super) use chain::{Request, WHOLE};

const MILLIS: u64 = 1_767_323_045_000;

/// An id that follows from a name.
pub(super) fn id(name: &str) -> Uuid {
    let digest = Digest::of(name.as_bytes());
    let mut random = [0; 10];
    random.copy_from_slice(&digest.as_bytes()[..10]);
    mint_v7(MILLIS, random)
}

/// The id of a run with a number.
pub(super) fn run_id(n: u8) -> RunId {
    let created = Timestamp::from_second(1_767_323_045).unwrap_or_default();
    match RunId::new(created, id(&format!("run {n}"))) {
        Ok(run_id) => run_id,
        Err(error) => unreachable!("the fixture's ids are valid: {error}"),
    }
}

/// A run over the fixture's document. Two cases with different numbers share nothing but the
/// document.
#[derive(Debug, Clone)]
pub struct Case {
    /// Tells the ids of one run from those of another.
    pub n: u8,
    /// The document.
    pub document_id: String,
    /// Its text.
    pub text: String,
}

impl Case {
    /// Run number `n` over the document `CONF-DOC`.
    #[must_use]
    pub fn new(n: u8) -> Self {
        let text = "A preamble, with a ê.\n\n## Article 1\n\nFirst.\n\n## Article 2\n\nSecond.\n\n\
                    ## Article 3\n\nThird.\n";
        Self { n, document_id: "CONF-DOC".into(), text: text.into() }
    }

    /// The run.
    #[must_use]
    pub fn run_id(&self) -> RunId {
        run_id(self.n)
    }

    /// An id of this run by name.
    #[must_use]
    pub fn id(&self, name: &str) -> Uuid {
        id(&format!("{} {name}", self.n))
    }

    /// The source.
    #[must_use]
    pub fn registration(&self) -> SourceRegistration {
        SourceRegistration {
            document_id: self.document_id.clone(),
            title: "A document for conformance".into(),
            source_document_id: id(&format!("document {}", self.document_id)),
            source_version_id: id(&format!("version {} {}", self.document_id, self.text)),
            content: self.text.clone().into_bytes(),
            sha256: Digest::of(self.text.as_bytes()),
            manifest_digest: None,
            actor: "operator".into(),
        }
    }

    /// What every survey of the run looks at.
    #[must_use]
    pub fn scope(&self) -> SurveyScope {
        SurveyScope {
            run_id: self.run_id(),
            document_id: self.document_id.clone(),
            entry_id: Some(self.id("entry")),
            review_decision_id: Some(self.id("sg2 decision")),
        }
    }

    /// The units: a preamble and three articles, which tile the text.
    #[must_use]
    pub fn units(&self) -> Vec<UnitWrite> {
        let mut starts: Vec<usize> = self.text.match_indices("## ").map(|(at, _)| at).collect();
        starts.insert(0, 0);
        let ends = starts.iter().skip(1).copied().chain([self.text.len()]).collect::<Vec<_>>();
        let source = Digest::of(self.text.as_bytes());
        let set = self.id("change set");
        (0_u64..)
            .zip(starts.into_iter().zip(ends))
            .map(|(ordinal, (start, end))| {
                let content = self.text.get(start..end).unwrap_or_default().as_bytes().to_vec();
                let body = content.iter().position(|b| *b == b'\n').map_or(0, |at| at + 1);
                let (segment, kind, section) = match ordinal {
                    0 => ("preamble".to_string(), "preamble", "preamble"),
                    n => (format!("art-{n}"), "article", "general"),
                };
                let address = format!("{}/{segment}", self.document_id);
                let content_hash = Digest::of(&content);
                UnitWrite {
                    unit_id: key::unit_id(set, RowLabel::Unit, ordinal),
                    version_id: key::unit_id(set, RowLabel::Version, ordinal),
                    anchor_id: key::unit_id(set, RowLabel::Anchor, ordinal),
                    ordinal,
                    citation_address: Some(address.clone()),
                    unit_kind: kind.into(),
                    section_type: section.into(),
                    start: start as u64,
                    end: end as u64,
                    body_hash: Digest::of(content.get(body..).unwrap_or_default()),
                    idempotency_key: *key::unit(&source, &address, &content_hash).digest(),
                    canonical_address: address,
                    content,
                    content_hash,
                }
            })
            .collect()
    }

    /// Digest of the units' set.
    #[must_use]
    pub fn unit_set(&self) -> Digest {
        let units = self.units();
        crate::text::plan::set_digest(units.iter().map(|u| (u.canonical_address.as_str(), &u.content_hash)))
    }

    /// Digest of the rows that a cut of the text stores as version 1.
    #[must_use]
    pub fn rows_digest(&self) -> Digest {
        let units = self.units();
        let header = RowsHeader {
            document_id: &self.document_id,
            version_no: 1,
            source_sha256: &Digest::of(self.text.as_bytes()),
            region: (0, self.text.len() as u64),
            publication_type: "act",
            unit_count: units.len() as u64,
        };
        rows_digest(&header, units.iter().map(RowFields::of_write))
    }

    fn signature(&self, duty: &str, payload: &str) -> SignatureWrite {
        let (a, b) = (Digest::of(payload.as_bytes()), Digest::of(duty.as_bytes()));
        SignatureWrite {
            signature_id: self.id(&format!("{duty} {payload}")),
            duty: duty.into(),
            payload: format!("{{\"predicate\":\"{payload}\"}}"),
            public_key: b.to_hex(),
            signature: format!("{a}{b}"),
        }
    }

    /// A decision of the given type; `name` tells occurrences apart.
    #[must_use]
    pub fn review(&self, decision_type: &str, decision: ReviewVerdict, name: &str) -> ReviewWrite {
        let rows = self.rows_digest();
        let nonce = Digest::of(format!("nonce {} {decision_type} {name}", self.n).as_bytes()).to_hex();
        let request_sha256 = Digest::of(format!("request {} {decision_type}", self.n).as_bytes());
        let document = format!(
            "{decision_type} {} {name}\napproval_type: {decision_type}\ndecision: {}\nrun_id: {}\ndocument_id: {}\n\
             nonce: {nonce}\nrows_digest: {rows}\nrequest_sha256: {request_sha256}\nactor: sovereign\nexpires: never\n",
            self.n,
            decision.as_str(),
            self.run_id(),
            self.document_id
        );
        let sg2 = decision_type == "lifecycle_enactment";
        let moves = decision_type == "cut_authorization";
        let cut = !moves;
        ReviewWrite {
            approval_id: self.id(&format!("approval {decision_type} {name}")),
            review_decision_id: if sg2 {
                self.id("sg2 decision")
            } else {
                self.id(&format!("decision {decision_type} {name}"))
            },
            decision_type: decision_type.into(),
            decision,
            entry_id: Some(self.id("entry")),
            history_id: moves.then(|| self.id(&format!("history review {name}"))),
            change_set_id: cut.then(|| self.id("change set")),
            approval_kb_id: format!("laws/{}/{decision_type}-{name}.md", self.n),
            sha256: Digest::of(document.as_bytes()),
            document,
            nonce,
            fingerprint: Digest::of(b"approver").short(40).to_uppercase(),
            actor: "sovereign".into(),
            expires: None,
            request_sha256,
        }
    }

    /// A stored decision of SG_1 or SG_2, as an answer to [`Self::ask`].
    #[must_use]
    pub fn answer(&self, approval_type: &str, decision: ReviewVerdict) -> AnswerWrite {
        let review = self.review(approval_type, decision, "1");
        AnswerWrite {
            gate: self.ask(approval_type).ask.gate,
            occurrence: 1,
            decision,
            approval_kb_id: review.approval_kb_id,
            document: review.document,
            fingerprint: review.fingerprint,
            actor: review.actor,
        }
    }

    /// The ask that [`Self::review`] answers at SG_1 or SG_2.
    #[must_use]
    pub fn ask(&self, approval_type: &str) -> AskWrite {
        let review = self.review(approval_type, ReviewVerdict::Approve, "1");
        let gate = match approval_type {
            "cut_authorization" => GateId::CutAuthz,
            _ => GateId::LifecycleAuthz,
        };
        let rows =
            crate::record::approval::named_rows(&review.document).map(|d| d.to_hex()).unwrap_or_default();
        let required = [
            (field::RUN_ID, self.run_id().to_string()),
            (field::DOCUMENT_ID, self.document_id.clone()),
            (field::NONCE, review.nonce),
            (field::REQUEST_SHA256, review.request_sha256.to_hex()),
            (field::ROWS_DIGEST, rows),
        ];
        let review_of = match gate {
            GateId::CutAuthz => EffectName::Sg1Review,
            _ => EffectName::Sg2Review,
        };
        let ids = [
            (format!("effect.{review_of}"), self.id(&format!("effect {review_of} 1"))),
            ("approval".into(), review.approval_id),
            ("review_decision".into(), review.review_decision_id),
            ("review_history".into(), self.id("history review 1")),
        ];
        let ids = ids.into_iter().collect();
        AskWrite {
            ask: Ask {
                gate,
                occurrence: 1,
                approval_type: approval_type.into(),
                required: required.into_iter().map(|(k, v)| (k.into(), v)).collect(),
                expected_actor: None,
                approval_path: review.approval_kb_id,
                request_path: format!("laws/{}/{approval_type}-request.md", self.n),
            },
            ids,
            policy_head: None,
            begun: None,
            at: Timestamp::from_second(1_767_323_000).unwrap_or_default(),
        }
    }

    /// MARK.
    #[must_use]
    pub fn mark(&self, source: &SourceFacts) -> MarkWrite {
        let version = source.latest.as_ref().map_or(Uuid::nil(), |v| v.source_version_id);
        let (region, manifest) = (Digest::of(self.text.as_bytes()), Digest::of(b"manifest"));
        MarkWrite {
            entry_id: self.id("entry"),
            history_id: self.id("history mark"),
            source_document_id: source.source_document_id,
            source_version_id: version,
            idempotency_key: *key::ik_mark(&self.document_id, version, &manifest, &region).digest(),
            region_sha: region,
            manifest_digest: manifest,
            candidate_count: self.units().len() as u64,
            depends_on: Vec::new(),
        }
    }

    /// Leg A.
    #[must_use]
    pub fn leg_a(&self, source: &SourceFacts) -> LegAWrite {
        let approval = self.review("cut_authorization", ReviewVerdict::Approve, "1");
        LegAWrite {
            change_set_id: self.id("change set"),
            idempotency_key: Digest::of(format!("change set {}", self.n).as_bytes()),
            entry_id: self.id("entry"),
            history_ids: [self.id("history cut 1"), self.id("history cut 2")],
            source_document_id: source.source_document_id,
            source_version_id: source.latest.as_ref().map_or(Uuid::nil(), |v| v.source_version_id),
            approval_id: approval.approval_id,
            review_decision_id: approval.review_decision_id,
            writer_digest: self.writer_digest(),
            manifest_digest: Digest::of(b"manifest"),
            region_sha: Digest::of(self.text.as_bytes()),
            publication_type: "act".into(),
            signature: self.signature("executor", "cut"),
            units: self.units(),
        }
    }

    /// The formula of spec 2 §6 over the fixture's units, written out: the suite must not
    /// share code with what it checks.
    #[must_use]
    pub fn writer_digest(&self) -> Digest {
        let mut units = self.units();
        units.sort_by(|a, b| a.canonical_address.cmp(&b.canonical_address));
        let rows: Vec<String> = units
            .iter()
            .map(|u| {
                format!(
                    "[\"{}\",\"{}\",\"{}\",\"{}\",\"{}\"]",
                    u.canonical_address, u.unit_kind, u.section_type, u.content_hash, u.idempotency_key
                )
            })
            .collect();
        Digest::of(format!("[{}]", rows.join(",")).as_bytes())
    }

    /// Leg B.
    #[must_use]
    pub fn leg_b(&self) -> LegBWrite {
        LegBWrite {
            manifest_envelope_id: self.id("envelope"),
            change_set_id: self.id("change set"),
            entry_id: self.id("entry"),
            executor_signature_id: self.signature("executor", "cut").signature_id,
            envelope: "{\"units\":4}".into(),
            unit_count: self.units().len() as u64,
        }
    }

    /// Write-verify.
    #[must_use]
    pub fn write_verify(&self) -> WriteVerifyWrite {
        WriteVerifyWrite {
            verify_result_id: self.id("verify result"),
            change_set_id: self.id("change set"),
            manifest_envelope_id: self.id("envelope"),
            entry_id: self.id("entry"),
            history_ids: [self.id("history verify 1"), self.id("history verify 2")],
            signature_pass: self.signature("verifier", "verified"),
            signature_fail: self.signature("verifier", "verify_failed"),
            compensating_id: self.id("compensating set"),
            escalation: [self.id("escalation"), self.id("history escalation")],
            document_id: self.document_id.clone(),
            forbidden_prefixes: Vec::new(),
        }
    }

    /// The request at SG_2.
    #[must_use]
    pub fn sg2_request(&self) -> Sg2RequestWrite {
        let review = self.review("lifecycle_enactment", ReviewVerdict::Approve, "1");
        Sg2RequestWrite {
            review_decision_id: review.review_decision_id,
            entry_id: self.id("entry"),
            change_set_id: self.id("change set"),
            expected_actor: "sovereign".into(),
            unit_count: self.units().len() as u64,
            unit_set_digest: self.unit_set(),
            nonce: review.nonce,
            request_sha256: review.request_sha256,
        }
    }

    /// Enactment.
    #[must_use]
    pub fn enact(&self) -> EnactWrite {
        EnactWrite {
            change_set_id: self.id("change set"),
            review_decision_id: self.id("sg2 decision"),
            approval_id: self.review("lifecycle_enactment", ReviewVerdict::Approve, "1").approval_id,
            unit_count: self.units().len() as u64,
        }
    }

    /// Void.
    #[must_use]
    pub fn void(&self) -> VoidWrite {
        VoidWrite {
            void_id: self.id("void"),
            change_set_id: Some(self.id("change set")),
            entry: Some([self.id("entry"), self.id("history void")]),
            approval_id: self.review("void", ReviewVerdict::Approve, "1").approval_id,
            reason: "cut from the wrong text".into(),
        }
    }
}
