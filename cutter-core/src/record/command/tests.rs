//! Spellings, digests, the table's laws, the judgement over every state.

use alloc::string::{String, ToString};
use alloc::{format, vec};

use jiff::Timestamp;
use proptest::prelude::*;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use uuid::Uuid;

use super::*;
use crate::gate::command::{Judgement, Standing, judge};
use crate::machine::command::COMMAND;
use crate::operate::command::{READS, SIDE_EFFECTS, effect_key, kind_of_effect};
use crate::record::command_entry::CommandEntry;
use crate::record::effect::{EffectKey, EffectName};

const ME: Uuid = Uuid::from_u128(1);
const OTHER: Uuid = Uuid::from_u128(2);

fn command(payload: Value) -> Command {
    Command::new("deployment.create", "k-1", &payload).unwrap()
}

fn standing(settlement: Option<Settlement>, holder: Uuid, left: u64) -> Standing {
    let recorded = command(json!({ "size": 3 }));
    let entry = CommandEntry {
        key: recorded.key().clone(),
        kind: recorded.kind().clone(),
        body: recorded.body().to_string(),
        payload_sha256: recorded.payload_sha256(),
        actor: "operator".into(),
        at: Timestamp::UNIX_EPOCH,
        epoch: 1,
        holder,
        settlement,
        failures: 0,
    };
    Standing { entry, lease_left_ms: left, delay_left_ms: left }
}

fn receipt() -> Receipt {
    Receipt::new(&json!({ "id": "d-7" })).unwrap()
}

fn settlements() -> [Option<Settlement>; 4] {
    [
        None,
        Some(Settlement::waiting(50, "busy")),
        Some(Settlement::Done { receipt: receipt() }),
        Some(Settlement::failed(FailureCode::Refused, "no")),
    ]
}

#[test]
fn kinds_and_keys_have_one_spelling() {
    for good in ["a", "deployment.create", "order_2.cancel"] {
        assert_eq!(CommandKind::new(good).unwrap().as_str(), good);
    }
    let long = "a".repeat(COMMAND_KIND_MAX_BYTES + 1);
    for bad in ["", ".", "a.", "A", "a b", "1a", "a..b", "a\n", "é", &long] {
        assert!(matches!(CommandKind::new(bad), Err(InvalidCommand::Kind { .. })), "{bad:?}");
    }
    assert!(CommandKey::new("run-1/leg_a/1").is_ok());
    let long = "k".repeat(COMMAND_KEY_MAX_BYTES + 1);
    for bad in ["", "a b", "a\n", "é", "\u{7f}", &long] {
        assert!(matches!(CommandKey::new(bad), Err(InvalidCommand::Key { .. })), "{bad:?}");
    }
}

#[test]
fn the_digest_is_of_kind_and_payload_whatever_the_order_of_fields() {
    let a = command(json!({ "b": 1, "a": [2, "ế"] }));
    let b = command(serde_json::from_str(r#"{"a":[2,"ế"],"b":1}"#).unwrap());
    assert_eq!((a.body(), a.payload_sha256()), (b.body(), b.payload_sha256()));
    assert_eq!(a.body(), r#"{"kind":"deployment.create","payload":{"a":[2,"ế"],"b":1}}"#);
    assert_eq!(a.payload_sha256(), Digest::of(a.body().as_bytes()));
    let stop = Command::new("deployment.stop", "k-1", a.payload()).unwrap();
    assert_ne!(stop.payload_sha256(), a.payload_sha256());
    assert_eq!(Command::from_body(a.key(), a.body()).unwrap(), a);
}

#[test]
fn what_cannot_be_stored_as_it_is_is_no_command() {
    let new = |payload: Value| Command::new("a", "k", &payload);
    assert!(matches!(new(json!(1.5)), Err(InvalidCommand::NotCanonical { .. })));
    assert!(matches!(new(json!({ "a": ["\0"] })), Err(InvalidCommand::Nul { .. })));
    assert!(matches!(new(json!({ "\0": 1 })), Err(InvalidCommand::Nul { .. })));
    let long = "x".repeat(COMMAND_BODY_MAX_BYTES);
    assert!(matches!(new(json!(long)), Err(InvalidCommand::TooLong { .. })));
    assert!(matches!(Receipt::new(&1.5), Err(InvalidCommand::NotCanonical { .. })));
    let key = CommandKey::new("k").unwrap();
    for bad in ["", "{}", r#"{"kind":"a","payload":1,"more":2}"#, r#"{"kind":"a", "payload":1}"#] {
        assert!(matches!(Command::from_body(&key, bad), Err(InvalidCommand::Recorded { .. })), "{bad}");
    }
}

#[test]
fn ends_are_immutable_and_every_state_is_reached() {
    for &end in COMMAND.terminals() {
        assert_eq!(COMMAND.targets(end), vec![end]);
        for &trigger in CommandTrigger::ALL {
            let step = COMMAND.step(end, trigger);
            assert_eq!(step.is_ok(), trigger == CommandTrigger::Replay, "{end} {trigger}");
        }
    }
    let refused = COMMAND.check(CommandState::Done, CommandState::Intended).unwrap_err();
    assert_eq!(refused.to_string(), "illegal command transition done->intended (legal=done)");
    let reached: BTreeSet<_> = COMMAND.edges().into_iter().map(|(_, to)| to).collect();
    assert_eq!(reached.len(), CommandState::ALL.len());
    for settlement in settlements().into_iter().flatten() {
        let to = COMMAND.step(CommandState::Intended, settlement.trigger()).unwrap();
        assert_eq!(to, settlement.state());
        assert_eq!(Settlement::parse(&settlement.text().unwrap()).unwrap(), settlement);
    }
}

#[test]
fn another_payload_is_a_conflict_in_every_state_and_says_the_same() {
    let offered = command(json!({ "size": 4 }));
    let mut texts = BTreeSet::new();
    for settlement in settlements() {
        for (holder, left) in [(ME, 0), (ME, 9), (OTHER, 0), (OTHER, 9)] {
            let judgement = judge(Some(&standing(settlement.clone(), holder, left)), &offered, ME);
            let Judgement::Conflict(conflict) = judgement else { panic!("{judgement:?}") };
            texts.insert(conflict.to_string());
        }
    }
    assert_eq!(texts.len(), 1, "{texts:?}");
}

#[test]
fn the_same_payload_is_judged_by_state_lease_and_holder() {
    let offered = command(json!({ "size": 3 }));
    assert_eq!(judge(None, &offered, ME), Judgement::Fresh);
    let [open, waiting, done, failed] = settlements();
    let at = |settlement: &Option<Settlement>, holder, left| {
        judge(Some(&standing(settlement.clone(), holder, left)), &offered, ME)
    };
    assert_eq!(at(&open, OTHER, 9), Judgement::Busy { left_ms: 9 });
    assert_eq!(at(&open, OTHER, 0), Judgement::Unresolved);
    assert_eq!(at(&open, ME, 9), Judgement::Unresolved);
    assert_eq!(at(&waiting, ME, 9), Judgement::Waiting { left_ms: 9 });
    assert_eq!(at(&waiting, OTHER, 0), Judgement::Retry);
    for (holder, left) in [(ME, 0), (OTHER, 9)] {
        let code = FailureCode::Refused;
        assert_eq!(at(&done, holder, left), Judgement::Replay(Outcome::Done { receipt: receipt() }));
        let end = Outcome::Failed { code, message: "no".into() };
        assert_eq!(at(&failed, holder, left), Judgement::Replay(end));
    }
}

#[test]
fn every_effect_of_a_run_has_its_line_and_a_kind_and_key_of_a_command() {
    let run_id =
        crate::base::id::RunId::new(Timestamp::UNIX_EPOCH, crate::base::id::mint_v7(0, [7; 10])).unwrap();
    for effect in EffectName::ALL {
        let kind = kind_of_effect(effect);
        assert_eq!(kind, format!("run.{effect}"));
        assert_eq!(SIDE_EFFECTS.iter().filter(|line| line.kind == kind).count(), 1, "{kind}");
        let key = EffectKey { run_id: run_id.clone(), effect, occurrence: 2 };
        assert_eq!(effect_key(&key).unwrap().as_str(), format!("{run_id}/{effect}/2"));
    }
    let kinds: BTreeSet<_> = SIDE_EFFECTS.iter().map(|line| line.kind).collect();
    assert_eq!(kinds.len(), SIDE_EFFECTS.len(), "each kind once");
    for line in SIDE_EFFECTS {
        CommandKind::new(line.kind).unwrap();
        for text in [line.key, line.recorded, line.replay, line.conflict] {
            assert!(!text.is_empty() && !text.contains(['|', '\n']), "{line:?}");
        }
        assert!(!READS.contains(&line.operation), "{}", line.operation);
    }
}

#[test]
fn long_words_are_cut_at_a_character() {
    let Settlement::Failed { message, .. } = Settlement::failed(FailureCode::Refused, &"ế".repeat(2_000))
    else {
        panic!("a failure")
    };
    assert!(message.len() <= COMMAND_MESSAGE_MAX_BYTES && message.chars().all(|c| c == 'ế'));
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        "[^\0]{0,12}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 20, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::btree_map("[^\0]{0,8}", inner, 0..5)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn equal_payloads_and_only_those_share_a_digest(a in any_json(), b in any_json()) {
        let (one, two) = (command(a.clone()), command(b.clone()));
        prop_assert_eq!(one.payload_sha256() == two.payload_sha256(), a == b);
        prop_assert_eq!(Command::from_body(one.key(), one.body()).unwrap(), one);
    }

    #[test]
    fn receipts_read_back(value in any_json()) {
        let settlement = Settlement::Done { receipt: Receipt::new(&value).unwrap() };
        let text: String = settlement.text().unwrap();
        prop_assert_eq!(Settlement::parse(&text).unwrap(), settlement);
    }
}

#[test]
fn a_command_is_taken_at_its_bounds_and_not_beyond() {
    let key = |n: usize| CommandKey::new(&"k".repeat(n)).is_ok();
    let kind = |n: usize| CommandKind::new(&"k".repeat(n)).is_ok();
    assert_eq!(
        [key(0), key(1), key(COMMAND_KEY_MAX_BYTES), key(COMMAND_KEY_MAX_BYTES + 1)],
        [false, true, true, false]
    );
    assert_eq!(
        [kind(0), kind(1), kind(COMMAND_KIND_MAX_BYTES), kind(COMMAND_KIND_MAX_BYTES + 1)],
        [false, true, true, false]
    );
    // with a body of exactly so many bytes, and of one more
    let with = |n: usize| Command::new("k", "k", &"x".repeat(n));
    let around = with(0).unwrap().body().len();
    assert!(with(COMMAND_BODY_MAX_BYTES - around).is_ok());
    assert!(matches!(with(COMMAND_BODY_MAX_BYTES - around + 1), Err(InvalidCommand::TooLong { .. })));
    // what PostgreSQL cannot store stands nowhere in a payload
    for payload in [json!("a\0"), json!(["a", ["\0"]]), json!({ "a\0": 1 }), json!({ "a": { "b": "\0" } })] {
        assert!(matches!(Command::new("k", "k", &payload), Err(InvalidCommand::Nul { .. })), "{payload}");
    }
    assert!(Command::new("k", "k", &json!({ "a": [null, true, 1, "\\0"] })).is_ok());
}
