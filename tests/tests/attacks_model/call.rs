//! What a login calls by itself, past every driver: the port's methods with other, older and foreign
//! ids. Whoever has the executor's login takes the fence first; the others read it.

use cutter_core::base::digest::Digest;
use cutter_core::base::id::RunId;
use cutter_core::base::key::{RowLabel, unit_id};
use cutter_core::machine::run::GateId;
use cutter_core::port::PortResult;
use cutter_core::port::database::Begun;
use cutter_core::record::approval::{Ask, field, render_approval};
use cutter_core::record::ask::{AnswerWrite, AskWrite};
use cutter_core::record::effect::{
    EffectContext, EffectKey, EffectName, EnactWrite, ExecutorEffect, LegAWrite, ReviewWrite,
    Sg2RequestWrite, Verdict, VoidWrite, WriteVerifyWrite,
};
use cutter_core::record::effect::{LegBWrite, ReviewVerdict, SignatureWrite, SweepWrite, UnitWrite};
use cutter_core::record::observed::{Fence, SurveyScope, UnitQuery, UnitScope};
use cutter_core::testing::memory::block_on;
use cutter_tests::attack::Role;
use cutter_tests::cli::Dice;
use cutter_tests::{DOCUMENT, SOVEREIGN};
use serde_json::Value;
use uuid::Uuid;

use crate::act::{Key, Place};

/// A call. Numbers choose among what there is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Call {
    Fence,
    /// The open ask, or one after it, names the rows as they stand, or another nonce.
    Ask(u8),
    Sweep(u8),
    LegA(u8),
    LegB(u8),
    Request(u8),
    Enact(u8),
    Void(u8),
    Verify(u8),
    /// Stores an answer that nobody gave.
    Answer(u8, Key),
    /// Stores a consent that nobody gave.
    Consent(u8, Key),
}

/// A call that this login may make.
pub fn draw(role: Role, dice: &mut Dice) -> Call {
    let n = dice.below(256) as u8;
    let key = [Key::Nobody, Key::Operator, Key::Stranger, Key::Retired][dice.below(4) as usize];
    match role {
        Role::Verifier => Call::Verify(n),
        Role::Reviewer => match dice.below(3) {
            0 => Call::Answer(n, key),
            _ => Call::Consent(n, key),
        },
        _ => match dice.below(10) {
            0 => Call::Fence,
            1 | 2 => Call::Ask(n),
            3 => Call::Sweep(n),
            4 | 5 => Call::LegA(n),
            6 => Call::LegB(n),
            7 => Call::Request(n),
            8 => Call::Void(n),
            _ => Call::Enact(n),
        },
    }
}

/// An id that nobody chose.
fn new_id(n: u8, what: u128) -> Uuid {
    Uuid::from_u128(0xbad_0000 + u128::from(n) * 64 + what)
}

struct Caller<'p> {
    place: &'p Place,
    run_id: &'p RunId,
    n: u8,
}

impl Caller<'_> {
    fn pick<T>(&self, all: Vec<T>) -> Option<T> {
        let at = usize::from(self.n).checked_rem(all.len())?;
        all.into_iter().nth(at)
    }

    /// The nth value of a column, of this run mostly.
    fn column(&self, table: &str, name: &str) -> Option<Uuid> {
        let rows = self.place.s.rows_of(table);
        let own: Vec<&Value> = rows.iter().filter(|row| row["run_id"] == self.run_id.as_str()).collect();
        let rows = if own.is_empty() || self.n % 5 == 4 { rows.iter().collect() } else { own };
        let ids = rows.into_iter().filter_map(|row| row[name].as_str()?.parse().ok());
        self.pick(ids.collect())
    }

    fn set(&self) -> Option<Uuid> {
        self.place.s.world.change_sets(self.run_id).first().copied()
    }

    fn context(&self, fence: Fence, effect: EffectName) -> EffectContext {
        EffectContext {
            key: EffectKey {
                run_id: self.run_id.clone(),
                effect,
                occurrence: if self.n % 4 == 3 { 2 } else { 1 },
            },
            fence,
            effect_id: new_id(self.n, 1),
            payload_sha256: Digest::of(&[self.n]),
            at: self.place.s.world.now(),
            actor: "op".into(),
            deadline_ms: 60_000,
            survey: SurveyScope {
                run_id: self.run_id.clone(),
                document_id: DOCUMENT.into(),
                entry_id: None,
                review_decision_id: None,
            },
        }
    }

    fn execute(&self, effect: EffectName, write: ExecutorEffect) -> PortResult<()> {
        let ports = self.place.s.ports();
        let fence = block_on(ports.executor.take_fence(self.run_id, DOCUMENT, new_id(self.n, 2)))?;
        finish(block_on(ports.executor.begin(&self.context(fence, effect), &write))?)
    }

    fn signature(&self, duty: &str) -> SignatureWrite {
        SignatureWrite {
            signature_id: new_id(self.n, 3),
            duty: duty.into(),
            payload: "{}".into(),
            public_key: "00".repeat(32),
            signature: "00".repeat(64),
        }
    }

    fn ask(&self, mut ask: Ask) -> Option<()> {
        let rows = self.place.rows_now().unwrap_or_else(|| "0".repeat(64));
        let nonce = Digest::of(&[self.n, 1]).to_hex();
        match self.n % 4 {
            0 => ask.required.insert(field::ROWS_DIGEST.into(), rows),
            1 => ask.required.insert(field::NONCE.into(), nonce),
            n => {
                ask.occurrence += 1;
                if n == 3 {
                    ask.expected_actor = Some("op".into());
                }
                ask.required.insert(field::NONCE.into(), nonce)
            }
        };
        let ports = self.place.s.ports();
        let fence = block_on(ports.executor.take_fence(self.run_id, DOCUMENT, new_id(self.n, 2))).ok()?;
        let ids = ["approval", "review_decision", "review_history"];
        let ids = ids.iter().zip(4..).map(|(name, i)| ((*name).to_owned(), new_id(self.n, i))).collect();
        let write = AskWrite { ask, ids, policy_head: None, at: self.place.s.world.now(), begun: None };
        block_on(ports.executor.open_ask(&fence, &write)).ok()
    }

    /// Units of whatever was cut before, with another text in one of them.
    fn leg_a(&self) -> Option<LegAWrite> {
        let set = new_id(self.n, 9);
        let ports = self.place.s.ports();
        let template = self.column("cut_change_set", "change_set_id");
        let query = |id| UnitQuery {
            document_id: DOCUMENT.into(),
            scope: UnitScope::ChangeSet(id),
            limit: 100,
            with_content: true,
            ..UnitQuery::default()
        };
        let like = template.and_then(|id| block_on(ports.reader.units(&query(id))).ok()).unwrap_or_default();
        let version = block_on(ports.reader.source(DOCUMENT)).ok()??;
        let units = like.into_iter().enumerate().map(|(i, unit)| {
            let text = if i == 1 { b"Anything.\n".to_vec() } else { unit.content.unwrap_or_default() };
            UnitWrite {
                unit_id: unit_id(set, RowLabel::Unit, unit.ordinal),
                version_id: unit_id(set, RowLabel::Version, unit.ordinal),
                anchor_id: unit_id(set, RowLabel::Anchor, unit.ordinal),
                ordinal: unit.ordinal,
                canonical_address: unit.canonical_address,
                citation_address: unit.citation_address,
                unit_kind: unit.unit_kind,
                section_type: unit.section_type,
                start: unit.start,
                end: unit.end,
                content_hash: Digest::of(&text),
                body_hash: unit.body_hash,
                idempotency_key: unit.idempotency_key,
                content: text,
            }
        });
        Some(LegAWrite {
            change_set_id: set,
            idempotency_key: Digest::of(&[self.n, 2]),
            entry_id: self.column("decision_backlog_entry", "entry_id")?,
            history_ids: [new_id(self.n, 10), new_id(self.n, 11)],
            source_document_id: version.source_document_id,
            source_version_id: version.latest?.source_version_id,
            approval_id: self.column("approval", "approval_id")?,
            review_decision_id: self.column("review_decision", "review_decision_id")?,
            writer_digest: Digest::of(b"writer"),
            manifest_digest: Digest::of(b"manifest"),
            region_sha: Digest::of(b"region"),
            publication_type: String::new(),
            signature: self.signature("executor"),
            units: units.collect(),
        })
    }

    /// An answer's text in the sovereign's name, for the rows as they stand or as they were asked about.
    fn answer(&self, ask: &Ask, verdict: ReviewVerdict, by: Key) -> String {
        let mut ask = ask.clone();
        if self.n % 2 == 1
            && let Some(rows) = self.place.rows_now()
        {
            ask.required.insert(field::ROWS_DIGEST.into(), rows);
        }
        let text =
            render_approval(&ask, verdict, SOVEREIGN, self.place.s.world.now(), None, &Default::default());
        self.place.seal(by, &text)
    }

    fn consent(&self, by: Key) -> Option<()> {
        let s = &self.place.s;
        let ports = s.ports();
        let asks = block_on(ports.reader.asks(self.run_id)).ok()?;
        let stored = self.pick(asks)?;
        let ask = &stored.asked.ask;
        let is_cut = ask.gate == GateId::CutAuthz;
        let document = self.answer(ask, ReviewVerdict::Approve, by);
        // the ids of the ask, as the driver itself will choose them, or of the running phase
        let chosen = |name: &str| {
            let intent = s.world.sidecar(self.run_id).and_then(|stored| {
                let value: Value = serde_json::from_slice(&stored.bytes).ok()?;
                value["intent"]["ids"][name].as_str()?.parse().ok()
            });
            intent.or_else(|| stored.asked.ids.get(name).copied()).unwrap_or_else(|| new_id(self.n, 20))
        };
        let decision = match is_cut {
            true => chosen("review_decision"),
            false => ask.required.get(field::REVIEW_DECISION_ID)?.parse().ok()?,
        };
        let write = ReviewWrite {
            approval_id: chosen("approval"),
            review_decision_id: decision,
            decision_type: ask.approval_type.clone(),
            decision: ReviewVerdict::Approve,
            entry_id: self.column("decision_backlog_entry", "entry_id"),
            history_id: is_cut.then(|| chosen("review_history")),
            change_set_id: self.set(),
            approval_kb_id: ask.approval_path.clone(),
            sha256: Digest::of(document.as_bytes()),
            document,
            nonce: ask.required.get(field::NONCE)?.clone(),
            fingerprint: s.world.person(SOVEREIGN),
            actor: SOVEREIGN.into(),
            expires: None,
            request_sha256: ask.required.get(field::REQUEST_SHA256)?.parse().ok()?,
        };
        let effect = if is_cut { EffectName::Sg1Review } else { EffectName::Sg2Review };
        let fence = s.world.fence(self.run_id)?;
        finish(block_on(ports.reviewer.as_ref()?.begin(&self.context(fence, effect), &write)).ok()?).ok()
    }

    fn heard(&self, by: Key) -> Option<()> {
        let ports = self.place.s.ports();
        let ask = self.pick(block_on(ports.reader.asks(self.run_id)).ok()?)?.asked.ask;
        let decision = if self.n.is_multiple_of(3) { ReviewVerdict::Reject } else { ReviewVerdict::Approve };
        let write = AnswerWrite {
            gate: ask.gate,
            occurrence: ask.occurrence,
            decision,
            approval_kb_id: ask.approval_path.clone(),
            document: self.answer(&ask, decision, by),
            fingerprint: self.place.s.world.person(SOVEREIGN),
            actor: SOVEREIGN.into(),
        };
        block_on(ports.reviewer.as_ref()?.record_answers(self.run_id, &[write])).ok()
    }

    fn verify(&self) -> Option<()> {
        let s = &self.place.s;
        let write = WriteVerifyWrite {
            verify_result_id: new_id(self.n, 30),
            change_set_id: self.set()?,
            manifest_envelope_id: self.column("manifest_envelope", "manifest_envelope_id")?,
            entry_id: self.column("decision_backlog_entry", "entry_id")?,
            history_ids: [new_id(self.n, 31), new_id(self.n, 32)],
            signature_pass: self.signature("verifier"),
            signature_fail: self.signature("verifier"),
            compensating_id: new_id(self.n, 33),
            escalation: [new_id(self.n, 34), new_id(self.n, 35)],
            document_id: DOCUMENT.into(),
            forbidden_prefixes: Vec::new(),
        };
        let context = self.context(s.world.fence(self.run_id)?, EffectName::WriteVerify);
        finish(block_on(s.ports().verifier.begin(&context, &write)).ok()?).ok()
    }
}

fn finish(begun: Begun) -> PortResult<()> {
    match begun {
        Begun::Recorded(_) => Ok(()),
        Begun::Pending(pending) => block_on(pending.finish(Verdict::Commit)).map(drop),
    }
}

/// Makes a call. What the database says to it is for nobody to hear: the law looks at what is stored.
pub fn make(place: &Place, run_id: &RunId, call: Call) {
    let with = |n| Caller { place, run_id, n };
    let _ = match call {
        Call::Fence => {
            let taken = place.s.ports();
            block_on(taken.executor.take_fence(run_id, DOCUMENT, new_id(0, 2))).ok().map(drop)
        }
        Call::Ask(n) => place.ask().and_then(|ask| with(n).ask(ask)),
        Call::Sweep(n) => with(n).column("decision_backlog_entry", "entry_id").and_then(|entry_id| {
            let write = SweepWrite { entry_id, sweep_id: new_id(n, 40), history_id: new_id(n, 41) };
            with(n).execute(EffectName::Sweep, ExecutorEffect::Sweep(write)).ok()
        }),
        Call::LegA(n) => with(n)
            .leg_a()
            .and_then(|write| with(n).execute(EffectName::LegA, ExecutorEffect::LegA(write)).ok()),
        Call::LegB(n) => leg_b(&with(n)),
        Call::Request(n) => request(&with(n)),
        Call::Enact(n) => enact(&with(n)),
        Call::Void(n) => with(n).column("approval", "approval_id").and_then(|approval_id| {
            let write = VoidWrite {
                void_id: new_id(n, 50),
                change_set_id: with(n).set(),
                entry: None,
                approval_id,
                reason: "void".into(),
            };
            with(n).execute(EffectName::Void, ExecutorEffect::Void(write)).ok()
        }),
        Call::Verify(n) => with(n).verify(),
        Call::Answer(n, by) => with(n).heard(by),
        Call::Consent(n, by) => with(n).consent(by),
    };
}

fn leg_b(caller: &Caller<'_>) -> Option<()> {
    let write = LegBWrite {
        manifest_envelope_id: new_id(caller.n, 45),
        change_set_id: caller.set()?,
        entry_id: caller.column("decision_backlog_entry", "entry_id")?,
        executor_signature_id: caller.column("dot_pair_signature", "signature_id")?,
        envelope: "{}".into(),
        unit_count: 1,
    };
    caller.execute(EffectName::LegB, ExecutorEffect::LegB(write)).ok()
}

fn request(caller: &Caller<'_>) -> Option<()> {
    let write = Sg2RequestWrite {
        review_decision_id: new_id(caller.n, 46),
        entry_id: caller.column("decision_backlog_entry", "entry_id")?,
        change_set_id: caller.set()?,
        expected_actor: "op".into(),
        unit_count: 3,
        unit_set_digest: Digest::of(b"set"),
        nonce: Digest::of(&[caller.n, 3]).to_hex(),
        request_sha256: Digest::of(b"request"),
    };
    caller.execute(EffectName::Sg2Request, ExecutorEffect::Sg2Request(write)).ok()
}

fn enact(caller: &Caller<'_>) -> Option<()> {
    let write = EnactWrite {
        change_set_id: caller.set()?,
        review_decision_id: caller.column("review_decision", "review_decision_id")?,
        approval_id: caller.column("approval", "approval_id")?,
        unit_count: 3,
    };
    caller.execute(EffectName::Enact, ExecutorEffect::Enact(write)).ok()
}
