//! Laws of the policy: what holds, what breaks, and what is never silent.

use super::*;
use crate::base::cas::CasOutcome;
use crate::base::digest::Digest;
use crate::base::id::mint_v7;
use crate::base::limits::{PERSON_MAX_BYTES, POLICY_EVENT_MAX_BYTES};
use crate::machine::run::GateId;
use crate::record::signature::SignatureFacts;
use alloc::vec;
use proptest::prelude::*;

const GATE: &str = "SG_cut_authz";

fn time(second: i64) -> Timestamp {
    Timestamp::from_second(1_767_323_045 + second).unwrap()
}

fn fingerprint(person: &str) -> String {
    Digest::of(person.as_bytes()).short(40).to_uppercase()
}

fn key(person: &str) -> PublicKeyRef {
    let text = fingerprint(person);
    PublicKeyRef { kind: OPENPGP.into(), sha256: Digest::of(text.as_bytes()), fingerprint: text }
}

fn added(person: &str) -> Change {
    Change::ApproverAdded { person: person.into(), key: key(person) }
}

fn founded() -> Change {
    Change::Founded { chain: mint_v7(1, [1; 10]) }
}

/// A record and what was found of its signatures. A signed document is its text behind a mark.
#[derive(Clone, Default)]
struct Book {
    record: PolicyRecord,
    facts: Vec<SignatureFacts>,
}

impl Book {
    fn founded() -> Self {
        let mut book = Self::default();
        book.write(vec![founded(), added("sue")], None);
        book
    }

    fn write(&mut self, changes: Vec<Change>, signer: Option<&str>) {
        let seq = self.record.events.len() as u64 + 1;
        let previous = self.record.events.last().map(|e| Digest::of(e.document.as_bytes()));
        let at = time(seq as i64 * 60);
        let text = Event { seq, previous, at, why: "a reason".into(), changes: changes.clone() }.text();
        let document = signer.map_or_else(|| text.clone(), |who| format!("signed by {who}\n{text}"));
        self.facts.push(match signer {
            Some(who) => SignatureFacts::Good { fingerprint: fingerprint(who), signed_at: at, text },
            None => SignatureFacts::Unsigned { text },
        });
        let keys = changes.iter().filter_map(|c| match c {
            Change::ApproverAdded { key, .. } | Change::KeyAdded { key, .. } => Some(key.fingerprint.clone()),
            _ => None,
        });
        let event = NewEvent { seq, previous, document, keys: keys.collect() };
        assert_eq!(event.append_to(&mut self.record, at), Ok(CasOutcome::Applied));
    }

    fn check(&self) -> Result<Chain, Broken> {
        Chain::check(&self.record, &self.facts)
    }
}

fn all_changes() -> Vec<Change> {
    let more = PublicKeyRef { fingerprint: fingerprint("sue 2"), ..key("sue 2") };
    vec![
        founded(),
        Change::DutyKeyRegistered { duty: Duty::Executor, public_key: "0a".repeat(32) },
        Change::DutyKeyRotated { duty: Duty::Executor, public_key: "0b".repeat(32) },
        Change::Signature(SignaturePolicy::Optional),
        Change::Signature(SignaturePolicy::Required),
        Change::Creator { may_approve: true },
        Change::Creator { may_approve: false },
        Change::AnswersValid { hours: Some(48) },
        Change::AnswersValid { hours: None },
        added("sue"),
        Change::KeyAdded { person: "sue".into(), key: more },
        Change::FormerKey { person: "Old Hand".into(), key: key("old") },
        Change::MayAnswer { gate: GateId::LifecycleAuthz, person: "sue".into() },
        Change::AnyoneMayAnswer { gate: GateId::LifecycleAuthz },
        Change::KeyCompromised { since: time(1), fingerprint: fingerprint("sue 2") },
        Change::ApproverRetired { since: time(2), person: "sue".into() },
    ]
}

#[test]
fn every_change_is_written_and_read_back() {
    let event =
        Event { seq: 1, previous: None, at: time(0), why: "it begins".into(), changes: all_changes() };
    insta::assert_snapshot!("policy_event", event.text());
    assert_eq!(Event::parse(&event.text()), Ok(event.clone()));
    assert_eq!(Event::parse(&event.text().replace('\n', "\r\n")), Ok(event.clone()), "as mail sends it");
    assert_eq!(Event::parse(event.text().trim_end()), Ok(event));
}

#[test]
fn a_text_that_is_not_exactly_an_events_is_refused() {
    let event = Event {
        seq: 2,
        previous: Some(Digest::of(b"x")),
        at: time(0),
        why: String::new(),
        changes: vec![added("sue")],
    };
    let text = event.text();
    for (from, to) in [
        ("seq: 2\n", "seq: 2\nseq: 3\n"),
        ("seq: 2\n", "seq: 02\n"),
        ("format: cutter-policy/1", "format: cutter-policy/2"),
        ("change: approver_added", "change: signature optional\nchange: approver_added"),
        ("change: approver_added", "change: approver_added openpgp"),
        ("openpgp", "openssh"),
        ("sue\n", "su\u{200b}e\n"),
        ("sue\n", "sue\nnote: more\n"),
        ("sue\n", "sue\nmore\n"),
        ("previous: ", "before: "),
    ] {
        assert!(text.contains(from), "{from}");
        let changed = text.replacen(from, to, 1);
        let is_other = Event::parse(&changed).is_ok_and(|e| e.changes.len() == 2);
        assert!(Event::parse(&changed).is_err() || is_other, "{changed}");
    }
    for odd in ["", " sue", "sue\nchange: signature optional", &"s".repeat(201)] {
        let event = Event { changes: vec![added(odd)], ..event.clone() };
        assert!(event.check().is_err(), "{odd:?}");
    }
    let event = Event { why: "one\nchange: signature optional".into(), ..event };
    assert!(event.check().is_err());
}

#[test]
fn a_change_is_read_at_its_bounds_and_not_beyond() {
    let (sha, print, hex) = ("a".repeat(64), "A".repeat(40), "0a".repeat(32));
    let long = "s".repeat(PERSON_MAX_BYTES);
    for (good, bad) in [
        ("answers_valid_hours 1", "answers_valid_hours 0"),
        ("answers_valid_hours 4294967295", "answers_valid_hours 4294967296"),
        ("answers_valid_hours unbounded", "answers_valid_hours"),
        ("approvals_needed SG_cut_authz 1", "approvals_needed SG_cut_authz 0"),
        ("approvals_needed SG_lifecycle_authz 2", "approvals_needed SG_failure_escalation 2"),
        ("may_answer SG_failure_escalation sue", "may_answer IG_mark sue"),
        ("may_answer SG_cut_authz sue", "may_answer SG_cut_authz"),
        ("anyone_may_answer SG_cut_authz", "anyone_may_answer IG_mark"),
        ("signature optional", "signature maybe"),
        ("creator may_approve", "creator may"),
        (
            &alloc::format!("duty_key_registered executor {hex}"),
            &alloc::format!("duty_key_registered other {hex}"),
        ),
        (
            &alloc::format!("duty_key_rotated verifier {hex}"),
            &alloc::format!("duty_key_rotated verifier {hex}0"),
        ),
        (
            &alloc::format!("duty_key_rotated verifier {hex}"),
            &alloc::format!("duty_key_rotated verifier {}", hex.to_uppercase()),
        ),
        (
            &alloc::format!("approver_added openpgp {print} {sha} sue"),
            &alloc::format!("approver_added openssh {print} {sha} sue"),
        ),
        (
            &alloc::format!("key_added openpgp {print} {sha} sue"),
            &alloc::format!("key_added openpgp {} {sha} sue", print.to_lowercase()),
        ),
        (
            &alloc::format!("former_key openpgp {print} {sha} sue b"),
            &alloc::format!("former_key openpgp {print} {print} sue b"),
        ),
        (
            &alloc::format!("approver_added openpgp {}{} {sha} sue", print, "B".repeat(24)),
            &alloc::format!("approver_added openpgp {print}B {sha} sue"),
        ),
        (
            &alloc::format!("may_answer SG_cut_authz {long}"),
            &alloc::format!("may_answer SG_cut_authz {long}s"),
        ),
        ("approver_retired 2026-05-20T10:11:12Z sue", "approver_retired yesterday sue"),
        (
            &alloc::format!("key_compromised 2026-05-20T10:11:12Z {print}"),
            "key_compromised 2026-05-20T10:11:12Z sue",
        ),
        ("founded 0196ed9a-1c00-7000-8000-000000000001", "founded today"),
        ("signature required", "unknown required"),
    ] {
        let read: Change = good.parse().unwrap_or_else(|error| panic!("{good}: {error}"));
        assert_eq!(alloc::format!("{read}"), good, "written as it was read");
        assert!(bad.parse::<Change>().is_err(), "{bad}");
    }
}

#[test]
fn an_event_of_the_largest_size_is_read_and_one_byte_more_is_not() {
    let of = |why: usize| Event {
        seq: 2,
        previous: Some(Digest::of(b"x")),
        at: time(0),
        why: "w".repeat(why),
        changes: vec![added("sue")],
    };
    let around = of(1).text().trim_end().len() - 1;
    for (size, fits) in [(POLICY_EVENT_MAX_BYTES, true), (POLICY_EVENT_MAX_BYTES + 1, false)] {
        let text = of(size - around).text();
        assert_eq!(Event::parse(text.trim_end()).is_ok(), fits, "{size}");
    }
}

#[test]
fn a_chain_holds_and_says_what_stands() {
    let mut book = Book::founded();
    book.write(vec![added("bob")], Some("sue"));
    book.write(vec![Change::ApproverRetired { since: time(0), person: "sue".into() }], Some("bob"));
    let chain = book.check().unwrap();
    assert!(chain.notices().is_empty());
    assert_eq!(chain.now().approvers(), ["bob"]);
    assert_eq!(chain.links()[1].signer, Some(("sue".into(), fingerprint("sue"))));
    assert_eq!(chain.head(), Some(Digest::of(book.record.events[2].document.as_bytes())));
    assert_eq!(chain.at(time(60)).unwrap().approvers(), ["sue"]);
    assert_eq!(chain.at(time(59)), None);
}

#[test]
fn each_damage_breaks_the_chain_where_it_is() {
    let mut clean = Book::founded();
    clean.write(vec![added("bob")], Some("sue"));
    clean.write(vec![Change::Signature(SignaturePolicy::Optional)], Some("bob"));
    type Damage = fn(&mut Book);
    let damages: [(u64, Damage); 8] = [
        (2, |b| b.record.events[0].document.push('\n')),
        (2, |b| b.facts[1] = SignatureFacts::Bad { code: "bad_signature".into(), detail: String::new() }),
        (2, |b| {
            if let SignatureFacts::Good { fingerprint: f, .. } = &mut b.facts[1] {
                *f = fingerprint("mallory");
            }
        }),
        (2, |b| {
            b.record.events.remove(1);
            b.facts.remove(1);
        }),
        (2, |b| b.record.events[1].seq = 7),
        (1, |b| b.record.keys.clear()),
        (3, |b| {
            let text = match &b.facts[2] {
                SignatureFacts::Good { text, .. } => text.replace("optional", "required"),
                _ => String::new(),
            };
            // signed over another text than the chain's: the document's sha256 stays, the text is no event
            b.facts[2] = SignatureFacts::Good {
                fingerprint: fingerprint("bob"),
                signed_at: time(0),
                text: format!("{text}and more"),
            };
        }),
        (1, |b| {
            b.record.events.remove(0);
            b.facts.remove(0);
        }),
    ];
    for (place, (seq, damage)) in damages.into_iter().enumerate() {
        let mut book = clean.clone();
        damage(&mut book);
        let broken = book.check().expect_err("it is broken");
        // What rests on it does not hold either; the last one is named.
        assert!(broken.seq >= seq, "{place}: {broken}");
    }
    assert!(clean.check().is_ok());
}

#[test]
fn a_changed_event_that_nobody_signed_is_a_new_founding_and_never_silent() {
    let mut book = Book::founded();
    book.write(vec![Change::Signature(SignaturePolicy::Optional)], None);
    book.write(vec![added("bob")], Some("sue"));
    let chain = book.check().unwrap();
    assert_eq!(chain.foundings().iter().map(|f| f.seq).collect::<Vec<_>>(), [2]);
    assert!(chain.notices()[0].contains("new founding"), "{:?}", chain.notices());
    // until somebody may approve, nobody could have signed
    let mut book = Book::default();
    book.write(vec![founded()], None);
    book.write(vec![added("sue")], None);
    assert!(book.check().unwrap().notices().is_empty());
    book.write(vec![Change::ApproverRetired { since: time(0), person: "sue".into() }], Some("sue"));
    book.write(vec![added("bob")], None);
    assert_eq!(book.check().unwrap().foundings().len(), 1, "there had been somebody");
}

#[test]
fn a_gate_that_too_few_people_are_left_for_is_named() {
    let needs = |people| Change::ApprovalsNeeded { gate: GateId::CutAuthz, people };
    let mut book = Book::founded();
    book.write(vec![added("bob"), needs(2)], Some("sue"));
    assert!(book.check().unwrap().notices().is_empty());
    // somebody may always be retired: the gate waits, and everybody is told
    book.write(vec![Change::ApproverRetired { since: time(0), person: "bob".into() }], Some("sue"));
    let notices = book.check().unwrap().notices();
    assert!(
        notices[0].starts_with("nothing passes SG_cut_authz: 2 must approve there, and 1 may"),
        "{notices:?}"
    );
    book.write(vec![needs(1)], Some("sue"));
    assert!(book.check().unwrap().notices().is_empty());
}

#[test]
fn behind_a_break_only_a_founding_begins_again_and_says_so() {
    let mut book = Book::founded();
    book.write(vec![added("bob")], Some("mallory"));
    assert_eq!(book.check().unwrap_err().seq, 2);
    book.write(vec![added("eve")], None);
    assert_eq!(book.check().unwrap_err().seq, 3);
    book.write(vec![founded(), added("sue")], None);
    let chain = book.check().unwrap();
    assert_eq!(chain.now().approvers(), ["sue"]);
    assert_eq!(chain.broken().len(), 2);
    assert_eq!(chain.notices().len(), 3);
}

#[test]
fn what_does_not_fit_what_stands_is_refused() {
    let other = Change::KeyAdded { person: "bob".into(), key: key("sue") };
    for change in [
        added("sue"),
        other,
        Change::KeyAdded { person: "bob".into(), key: key("bob") },
        Change::ApproverRetired { since: time(0), person: "bob".into() },
        Change::KeyCompromised { since: time(0), fingerprint: fingerprint("bob") },
        Change::MayAnswer { gate: GateId::CutAuthz, person: "bob".into() },
        Change::DutyKeyRotated { duty: Duty::Verifier, public_key: "0a".repeat(32) },
    ] {
        let mut book = Book::founded();
        book.write(vec![change.clone()], Some("sue"));
        assert_eq!(book.check().unwrap_err().seq, 2, "{change}");
    }
    let mut book = Book::founded();
    book.write(vec![Change::KeyCompromised { since: time(0), fingerprint: fingerprint("sue") }], Some("sue"));
    book.write(vec![added("sue")], None);
    assert_eq!(book.check().unwrap_err().seq, 3, "a key that others may have stays out");
}

#[test]
fn retirement_fails_nothing_later_and_compromise_flags_what_came_after() {
    let mut book = Book::founded();
    book.write(vec![added("bob")], Some("sue"));
    book.write(vec![Change::ApproverRetired { since: time(0), person: "sue".into() }], Some("bob"));
    let chain = book.check().unwrap();
    assert_eq!(chain.person_at(&fingerprint("sue"), time(120)), Ok("sue"), "it was good when it was made");
    assert!(chain.person_at(&fingerprint("sue"), time(180)).is_err());
    assert!(chain.person_at(&fingerprint("sue"), time(1)).is_err(), "before the founding");
    book.write(
        vec![Change::KeyCompromised { since: time(90), fingerprint: fingerprint("sue") }],
        Some("bob"),
    );
    let chain = book.check().unwrap();
    assert_eq!(chain.person_at(&fingerprint("sue"), time(60)), Ok("sue"));
    let why = chain.person_at(&fingerprint("sue"), time(120)).unwrap_err().to_string();
    assert!(why.contains("compromised") && why.contains("sue"), "{why}");
}

#[test]
fn an_answer_must_be_allowed_now_and_since_the_ask() {
    let mut book = Book::founded();
    let head = |book: &Book| book.check().unwrap().head().unwrap().to_hex();
    let first = head(&book);
    book.write(vec![added("bob")], Some("sue"));
    let second = head(&book);
    let allowed = |book: &Book, head: &str| {
        let policy = book.check().unwrap().allowed_since(head, GATE).unwrap();
        policy.approvers.iter().map(|a| a.actor.clone()).collect::<Vec<_>>()
    };
    assert_eq!(allowed(&book, &first), ["sue"], "who came later was not asked");
    assert_eq!(allowed(&book, &second), ["sue", "bob"]);
    book.write(vec![Change::Signature(SignaturePolicy::Optional)], Some("sue"));
    let chain = book.check().unwrap();
    assert_eq!(chain.allowed_since(&second, GATE).unwrap().signature, SignaturePolicy::Required);
    assert_eq!(chain.allowed_since(&head(&book), GATE).unwrap().signature, SignaturePolicy::Optional);
    book.write(vec![Change::ApproverRetired { since: time(0), person: "sue".into() }], Some("bob"));
    assert_eq!(allowed(&book, &second), ["bob"]);
    assert!(book.check().unwrap().allowed_since(&"0".repeat(64), GATE).is_err());
}

#[test]
fn what_loosens_is_drift_and_another_approver_is_not() {
    let sue = fingerprint("sue");
    for (change, drifts) in [
        (added("bob"), false),
        (Change::AnswersValid { hours: Some(1) }, false),
        (Change::MayAnswer { gate: GateId::CutAuthz, person: "sue".into() }, false),
        (Change::Signature(SignaturePolicy::Optional), true),
        (Change::Creator { may_approve: true }, true),
        (Change::KeyCompromised { since: time(0), fingerprint: sue.clone() }, true),
    ] {
        let mut book = Book::founded();
        let head = book.check().unwrap().head().unwrap().to_hex();
        book.write(vec![change.clone()], Some("sue"));
        let chain = book.check().unwrap();
        let ways = chain.drift_since(&head, &[&sue.to_lowercase()]).unwrap();
        assert_eq!(!ways.is_empty(), drifts, "{change}: {ways:?}");
        assert!(ways.iter().all(|way| way.starts_with("policy event 2: ")), "{ways:?}");
        let head = chain.head().unwrap().to_hex();
        assert_eq!(chain.drift_since(&head, &[&sue]), Ok(Vec::new()), "pinned anew");
    }
    let mut book = Book::founded();
    book.write(vec![Change::AnswersValid { hours: Some(2) }], Some("sue"));
    book.write(vec![Change::MayAnswer { gate: GateId::CutAuthz, person: "sue".into() }], Some("sue"));
    let head = book.check().unwrap().head().unwrap().to_hex();
    book.write(vec![Change::AnswersValid { hours: None }], Some("sue"));
    book.write(vec![Change::AnyoneMayAnswer { gate: GateId::CutAuthz }], Some("sue"));
    assert_eq!(book.check().unwrap().drift_since(&head, &[]).unwrap().len(), 2);
}

#[test]
fn old_duty_signatures_are_judged_by_the_key_of_then() {
    let mut book = Book::founded();
    let (old, new) = ("0a".repeat(32), "0b".repeat(32));
    book.write(
        vec![Change::DutyKeyRegistered { duty: Duty::Executor, public_key: old.clone() }],
        Some("sue"),
    );
    book.write(vec![Change::DutyKeyRotated { duty: Duty::Executor, public_key: new.clone() }], Some("sue"));
    let chain = book.check().unwrap();
    assert_eq!(chain.duty_key_at(Duty::Executor, time(120)), Some(old.as_str()));
    assert_eq!(chain.duty_key_at(Duty::Executor, time(180)), Some(new.as_str()));
    assert_eq!(chain.duty_key_at(Duty::Verifier, time(180)), None);
    assert!(chain.now().is_duty_key(Duty::Executor, &old), "it was registered once");
}

fn some_changes() -> impl Strategy<Value = Vec<Change>> {
    let pool = all_changes();
    proptest::collection::vec((1..pool.len()).prop_map(move |i| pool[i].clone()), 1..4)
}

proptest! {
    /// Any changes, signed or not, in any order: the chain never panics, what it says now is the
    /// last link's, and what it allows since a head is never more than at any link since.
    #[test]
    fn what_is_allowed_since_is_allowed_by_each(steps in proptest::collection::vec((some_changes(), any::<bool>()), 0..6)) {
        let mut book = Book::founded();
        for (changes, is_signed) in steps {
            let mut next = book.clone();
            next.write(changes, is_signed.then_some("sue"));
            if next.check().is_ok() {
                book = next;
            }
        }
        let chain = book.check().unwrap();
        prop_assert_eq!(Some(&chain.now()), chain.links().last().map(|l| &l.policy));
        for (place, link) in chain.links().iter().enumerate() {
            let all = chain.allowed_since(&link.sha256.to_hex(), GATE).unwrap();
            for later in &chain.links()[place..] {
                let one = later.policy.at_gate(GATE);
                prop_assert!(all.approvers.iter().all(|a| one.approvers.contains(a)));
                prop_assert!(all.signature == SignaturePolicy::Required || one.signature == SignaturePolicy::Optional);
                prop_assert!(all.approver_not_creator || !one.approver_not_creator);
                prop_assert!(one.valid_hours.is_none_or(|h| all.valid_hours.is_some_and(|a| a <= h)));
            }
        }
    }

    /// One byte changed anywhere in the stored documents never goes unnoticed: the chain breaks, or
    /// its head is another.
    #[test]
    fn no_changed_byte_leaves_the_head(place in any::<prop::sample::Index>(), event in 0usize..3, byte in 32u8..127) {
        let mut book = Book::founded();
        book.write(vec![added("bob")], None);
        book.write(vec![Change::AnswersValid { hours: Some(4) }], None);
        let head = book.check().unwrap().head();
        let document = &mut book.record.events[event].document;
        let at = place.index(document.len());
        if document.as_bytes()[at] != byte {
            document.replace_range(at..=at, core::str::from_utf8(&[byte]).unwrap());
            let text = document.clone();
            book.facts[event] = SignatureFacts::Unsigned { text };
            prop_assert!(book.check().map_or(true, |chain| chain.head() != head));
        }
    }

    #[test]
    fn reading_never_panics(text in any::<String>()) {
        let _ = Event::parse(&text);
        let _ = text.parse::<Change>();
    }
}
