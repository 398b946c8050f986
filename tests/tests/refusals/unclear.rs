//! A word that is not plain: whoever may refuse signed it, and it is no whole answer. It may be meant as a
//! refusal, so nothing passes beside it, until it is said plainly or taken away.

use std::collections::BTreeMap;

use cutter_core::base::id::RunId;
use cutter_core::driver::Outcome;
use cutter_core::operate::review::{Outcome as Became, Review};
use cutter_core::record::approval::{Ask, Purpose, field, render_approval};
use cutter_core::record::effect::ReviewVerdict::{Approve, Reject};
use cutter_core::record::policy::Change;
use cutter_core::testing::memory::{BadSignature, block_on};
use cutter_tests::refusal::{Gate, sha};
use cutter_tests::{SOVEREIGN, Scenario};

/// A refusal, and what a hand, an editor or a mail program makes of one of its lines.
fn spoilt(refusal: &str) -> Vec<(String, String)> {
    let mut all = vec![
        ("a mark before it".to_owned(), format!("\u{feff}{refusal}")),
        (
            "without its head".to_owned(),
            refusal.split_once("\nformat:").map(|(_, rest)| rest.to_owned()).unwrap(),
        ),
    ];
    let lines: Vec<&str> = refusal.lines().collect();
    for (n, line) in lines.iter().enumerate() {
        let Some((key, value)) = line.split_once(": ").filter(|(key, _)| !key.contains(' ')) else {
            continue;
        };
        let capital = format!("{}{}", key[..1].to_uppercase(), &key[1..]);
        for (how, line) in [
            ("left out", String::new()),
            ("twice", format!("{line}\n{line}")),
            ("twice, otherwise", format!("{line}\n{key}: other")),
            ("a blank before the colon", format!("{key} : {value}")),
            ("with a capital", format!("{capital}: {value}")),
            ("in capitals", format!("{key}: {}", value.to_uppercase())),
            ("not filled in", format!("{key}: <your {key}>")),
            ("indented", format!("  {line}")),
            ("an unseen sign", format!("{key}:\u{200b} {value}")),
            ("a blank behind it", format!("{line} ")),
            ("a tab behind it", format!("{line}\t")),
            ("no blank after the colon", format!("{key}:{value}")),
            ("another, spelt otherwise", format!("{line}\n{key} : {value}")),
        ] {
            let mut lines: Vec<&str> = lines.clone();
            lines[n] = &line;
            all.push((format!("{key} {how}"), lines.join("\n")));
        }
    }
    all
}

fn refusal(s: &Scenario, ask: &Ask) -> String {
    render_approval(ask, Reject, SOVEREIGN, s.world.now(), None, &BTreeMap::new())
}

fn file(s: &Scenario, ask: &Ask, name: &str, text: &str) {
    let (folder, _) = ask.request_path.rsplit_once('/').unwrap();
    let signed = s.world.sign(&s.world.person(SOVEREIGN), text);
    s.world.file(&format!("{folder}/{name}"), signed.as_bytes());
}

fn has_passed(s: &Scenario, run_id: &RunId) -> bool {
    let is_used = |used: &serde_json::Value, effect: &str| {
        used["run_id"] == run_id.as_str() && used["used_by"]["effect"] == effect
    };
    let passed_before =
        s.stored(run_id).sovereign_approvals.iter().any(|a| a.gate.as_str() == "SG_cut_authz");
    let effect = if passed_before { "enact" } else { "leg_a" };
    s.rows_of("approval_use").iter().any(|used| is_used(used, effect))
}

/// An approval says so and nothing else: what a hand adds to one may be meant as a refusal.
#[test]
fn an_approval_with_anything_beside_its_fields_is_none() {
    for (n, beside) in [
        "Decision: reject",
        "DECISION: REJECT",
        "decision : reject",
        "- decision: reject",
        "**decision: reject**",
        "\tdecision: reject",
        " decision: reject",
        "decision = reject",
        "decision\u{ff1a}reject",
        "d\u{435}cision: reject",
        "nonce : x",
        "I refuse. Do not cut.",
        "answer: reject",
        "ddecision: Refused",
    ]
    .into_iter()
    .enumerate()
    {
        for gate in [Gate::Cut, Gate::Lifecycle] {
            let s = Scenario::new(9_800 + n as u64);
            let (run_id, ask) = s.parked(gate);
            let text = render_approval(&ask, Approve, SOVEREIGN, s.world.now(), None, &BTreeMap::new());
            let text = text.replace("decision: approve", &format!("decision: approve\n{beside}"));
            let name = ask.approval_path.rsplit('/').next().unwrap().to_owned();
            file(&s, &ask, &name, &text);
            let Outcome::Paused { invalid, .. } = s.resumed(&run_id).outcome else {
                panic!("{beside}: it passes")
            };
            let plain = invalid.iter().any(|one| one.invariant == "approval.plain");
            assert!(plain || beside.starts_with("nonce"), "{beside}: {invalid:?}");
            assert!(!has_passed(&s, &run_id), "{beside}");
        }
    }
}

/// A refusal that something stands around, that is quoted, or that stands in one file with another text.
#[test]
fn a_refusal_with_something_around_it_holds_the_gate() {
    type Around = fn(&str) -> String;
    let around: [(&str, Around); 6] = [
        ("a greeting", |signed| format!("Dear operator,\n\n{signed}")),
        ("a name behind it", |signed| format!("{signed}-- \nBob\n")),
        ("a mark before it", |signed| format!("\u{feff}{signed}")),
        ("quoted", |signed| signed.lines().map(|line| format!("> {line}\n")).collect()),
        ("twice", |signed| format!("{signed}{signed}")),
        ("indented", |signed| signed.lines().map(|line| format!("    {line}\n")).collect()),
    ];
    for (n, (how, around)) in around.into_iter().enumerate() {
        for gate in [Gate::Cut, Gate::Lifecycle] {
            let s = Scenario::new(9_900 + n as u64);
            let (run_id, ask) = s.parked(gate);
            let (folder, _) = ask.request_path.rsplit_once('/').unwrap();
            let signed = s.world.sign(&s.world.person(SOVEREIGN), &refusal(&s, &ask));
            s.world.file(&format!("{folder}/notes.md"), around(&signed).as_bytes());
            s.sign(&ask, Approve);
            let Outcome::Paused { invalid, .. } = s.resumed(&run_id).outcome else {
                panic!("{how}: it passes")
            };
            assert!(invalid.iter().any(|one| one.invariant == "approval.plain"), "{how}: {invalid:?}");
            assert!(!has_passed(&s, &run_id), "{how}");
        }
    }
}

/// Whatever becomes of a refusal on its way: it is heard, or nothing passes.
#[test]
fn a_spoilt_refusal_is_never_passed_over() {
    for (g, gate) in [Gate::Cut, Gate::Lifecycle].into_iter().enumerate() {
        let s = Scenario::new(9_500);
        let (_, ask) = s.parked(gate);
        let number = spoilt(&refusal(&s, &ask)).len();
        let (mut held, mut heard) = (0, 0);
        for n in 0..number {
            let s = Scenario::new(9_500 + n as u64);
            let (run_id, ask) = s.parked(gate);
            let (how, text) = spoilt(&refusal(&s, &ask)).swap_remove(n);
            // under the name of an answer, or any other
            let stem = ask.approval_path.rsplit('/').next().unwrap().replace(".md", "-2.md");
            file(&s, &ask, if n % 2 == g { "notes.md" } else { &stem }, &text);
            s.sign(&ask, Approve);
            match s.resumed(&run_id).outcome {
                Outcome::Paused { invalid, .. } => {
                    let said = invalid.iter().find(|c| c.invariant == "approval.plain");
                    let said = said.unwrap_or_else(|| panic!("{gate:?}: {how}: {invalid:?}"));
                    assert!(said.detail.contains(SOVEREIGN), "{}", said.detail);
                    assert!(!has_passed(&s, &run_id), "{gate:?}: {how}");
                    held += 1;
                }
                Outcome::Stopped(stop) if stop.code == "STOP_REFUSED" => heard += 1,
                other => panic!("{gate:?}: {how}: {other:?}"),
            }
        }
        assert!(held > 50 && heard > 10, "{held} held the gate, {heard} were heard");
    }
}

#[test]
fn who_says_it_plainly_afterwards_or_takes_it_away_is_heard() {
    for is_taken_away in [false, true] {
        let s = Scenario::new(9_700);
        let (run_id, ask) = s.parked(Gate::Cut);
        file(&s, &ask, "notes.md", &refusal(&s, &ask).replace("decision: reject", "decision : reject"));
        s.sign(&ask, Approve);
        assert!(matches!(s.resumed(&run_id).outcome, Outcome::Paused { .. }));
        if is_taken_away {
            file(&s, &ask, "notes.md", "It was meant otherwise.\n");
        } else {
            s.world.advance(2_000);
            let text = render_approval(&ask, Approve, SOVEREIGN, s.world.now(), None, &BTreeMap::new());
            let name = ask.approval_path.rsplit('/').next().unwrap().replace(".md", "-2.md");
            file(&s, &ask, &name, &text);
        }
        drop(s.resumed(&run_id));
        assert!(s.count("information_unit", "lifecycle_status", "draft") > 0, "{is_taken_away}");
    }
}

/// What anybody could have filed holds nobody up: junk, what somebody else signed, and an approval with a fault.
#[test]
fn what_nobody_who_may_refuse_signed_blocks_nobody() {
    let s = Scenario::new(9_710);
    let (run_id, ask) = s.parked(Gate::Cut);
    let text = refusal(&s, &ask).replace("decision: reject", "decision : reject");
    let (folder, _) = ask.request_path.rsplit_once('/').unwrap();
    s.world.file(&format!("{folder}/a.md"), text.as_bytes());
    let stranger = s.world.sign("0123456789ABCDEF0123456789ABCDEF01234567", &text);
    s.world.file(&format!("{folder}/b.md"), stranger.as_bytes());
    let faulty = render_approval(&ask, Approve, SOVEREIGN, s.world.now(), None, &BTreeMap::new());
    file(&s, &ask, "c.md", &faulty.replace("signed_at: ", "signed_at: about "));
    s.sign(&ask, Approve);
    drop(s.resumed(&run_id));
    assert!(s.count("information_unit", "lifecycle_status", "draft") > 0);
}

#[test]
fn the_review_duty_decides_nothing_beside_it() {
    let s = Scenario::new(9_720);
    let (_, ask) = s.parked(Gate::Cut);
    file(&s, &ask, "notes.md", &refusal(&s, &ask).replace("decision: reject", "Decision: reject"));
    s.sign(&ask, Approve);
    let ports = s.review_ports();
    let reviewed = block_on(Review::new("rita".into()).pass(&ports)).expect("it looks");
    assert!(!reviewed.iter().any(|r| matches!(r.outcome, Became::Decided { .. })), "{reviewed:?}");
    let is_named =
        |became: &Became| matches!(became, Became::Junk { why, .. } if why.starts_with("approval.plain"));
    assert!(reviewed.iter().any(|r| is_named(&r.outcome)), "{reviewed:?}");
}

/// Only a plain answer to the same ask lifts it, whatever the same person approved elsewhere since.
#[test]
fn what_was_approved_elsewhere_lifts_nothing() {
    for gate in [Gate::Cut, Gate::Lifecycle] {
        let s = Scenario::new(9_730);
        let (run_id, ask) = s.parked(gate);
        s.sign(&ask, Approve);
        s.world.advance(2_000);
        file(&s, &ask, "notes.md", &refusal(&s, &ask).replace("decision: reject", "decision : reject"));
        s.world.advance(2_000);
        let answer_to = |change: &dyn Fn(&mut Ask)| {
            let mut other = ask.clone();
            change(&mut other);
            render_approval(&other, Approve, SOVEREIGN, s.world.now(), None, &BTreeMap::new())
        };
        let changed = |name: &str| {
            let value = if name.ends_with("sha256") || name.ends_with("digest") {
                sha("another").to_hex()
            } else {
                "another".into()
            };
            answer_to(&|other| drop(other.required.insert(name.to_owned(), value.clone())))
        };
        let mut texts: Vec<String> = ask.required.keys().map(|name| changed(name)).collect();
        texts.extend([
            answer_to(&|other| {
                other.required.insert(field::NONCE.into(), "another".into());
                other.required.insert(field::REQUEST_SHA256.into(), sha("another").to_hex());
            }),
            answer_to(&|other| other.occurrence += 1),
            answer_to(&|other| {
                let other_gate = if matches!(gate, Gate::Cut) { Purpose::Lifecycle } else { Purpose::Cut };
                (other.gate, other.approval_type) = (other_gate.gate(), other_gate.to_string());
            }),
            answer_to(&|other| other.approval_type = Purpose::Void.to_string()),
            answer_to(&|_| {}).replace("expires: never", "expires: 2026-01-01T00:00:00Z"),
        ]);
        for (n, text) in texts.iter().enumerate() {
            let name =
                ask.approval_path.rsplit('/').next().unwrap().replace(".md", &format!("-{}.md", n + 5));
            file(&s, &ask, &name, text);
        }
        assert!(matches!(s.resumed(&run_id).outcome, Outcome::Paused { .. }));
        assert!(!has_passed(&s, &run_id), "{gate:?}");
        file(&s, &ask, "SG1-cut-authz-approval-9.md", &answer_to(&|_| {}));
        file(&s, &ask, "SG2-lifecycle-authz-approval-9.md", &answer_to(&|_| {}));
        drop(s.resumed(&run_id));
        let status = if matches!(gate, Gate::Cut) { "draft" } else { "enacted" };
        let number = s.count("information_unit", "lifecycle_status", status);
        assert!(number > 0, "{gate:?}: the plain answer lifts it");
    }
}

/// A signature that is good no more, or too weak, and a nonce that somebody retyped: whoever signed meant it all the same.
#[test]
fn a_refusal_that_does_not_count_as_one_holds_the_gate() {
    type Spoil = fn(&Scenario, &str) -> String;
    let badly: [(&str, Spoil); 5] = [
        ("a weak hash", |s, text| s.world.sign_badly(&s.world.person(SOVEREIGN), text, BadSignature::Sha1)),
        ("an expired key", |s, text| {
            s.world.sign_badly(
                &s.world.person("grace"),
                &text.replace(SOVEREIGN, "grace"),
                BadSignature::ExpiredKey,
            )
        }),
        ("a nonce in capitals", |s, text| {
            let line = text.lines().find(|line| line.starts_with("nonce: ")).unwrap().to_owned();
            let request = text.lines().find(|line| line.starts_with("request_sha256: ")).unwrap();
            let text = text.replace(request, "");
            s.world.sign(&s.world.person(SOVEREIGN), &text.replace(&line, &line.to_uppercase()))
        }),
        ("a wrapped nonce", |s, text| {
            let nonce = text.lines().find_map(|line| line.strip_prefix("nonce: ")).unwrap().to_owned();
            let request = text.lines().find(|line| line.starts_with("request_sha256: ")).unwrap();
            let (first, rest) = nonce.split_at(5);
            let text = text.replace(request, "").replace(&nonce, &format!("{first}\n {rest}"));
            s.world.sign(&s.world.person(SOVEREIGN), &text)
        }),
        ("somebody who was retired since", |s, text| {
            let signed = s.world.sign(&s.world.person("grace"), &text.replace(SOVEREIGN, "grace"));
            let retired = Change::ApproverRetired { since: s.world.now(), person: "grace".into() };
            s.change_policy(vec![retired]);
            signed
        }),
    ];
    for (how, spoil) in badly {
        for gate in [Gate::Cut, Gate::Lifecycle] {
            let s = Scenario::new(9_740);
            s.change_policy(vec![s.world.approver("grace")]);
            let (run_id, ask) = s.parked(gate);
            let text = refusal(&s, &ask);
            let (folder, _) = ask.request_path.rsplit_once('/').unwrap();
            s.world.file(&format!("{folder}/notes.md"), spoil(&s, &text).as_bytes());
            s.sign(&ask, Approve);
            let Outcome::Paused { invalid, .. } = s.resumed(&run_id).outcome else {
                panic!("{how}: it passes")
            };
            assert!(invalid.iter().any(|one| one.invariant == "approval.plain"), "{how}: {invalid:?}");
            assert!(!has_passed(&s, &run_id), "{gate:?}: {how}");
        }
    }
    // and by a key that others may have by now it holds nothing
    let s = Scenario::new(9_750);
    s.change_policy(vec![s.world.approver("grace")]);
    let (run_id, ask) = s.parked(Gate::Cut);
    let (folder, _) = ask.request_path.rsplit_once('/').unwrap();
    let grace = s.world.person("grace");
    let text = refusal(&s, &ask).replace(SOVEREIGN, "grace").replace("decision: reject", "decision : reject");
    s.world.file(&format!("{folder}/notes.md"), s.world.sign(&grace, &text).as_bytes());
    let change = Change::KeyCompromised { since: s.world.now(), fingerprint: grace };
    s.world.change_policy(vec![change], Some(&s.world.person(SOVEREIGN)));
    s.sign(&ask, Approve);
    drop(s.resumed(&run_id));
    assert!(s.count("information_unit", "lifecycle_status", "draft") > 0);
}

/// A refusal of a request that was edited while it was read: its nonce is none that the run ever asked, and it holds
/// the gate all the same. One that answers what was asked before, or another run, holds nothing.
#[test]
fn a_refusal_with_a_nonce_that_nobody_asked_holds_the_gate() {
    for gate in [Gate::Cut, Gate::Lifecycle] {
        for (what, change) in [
            ("its nonce", &[(field::NONCE, "e")][..]),
            ("nonce and request", &[(field::NONCE, "e"), (field::REQUEST_SHA256, "e")]),
            ("all of them", &[(field::NONCE, "e"), (field::REQUEST_SHA256, "e"), (field::ROWS_DIGEST, "e")]),
        ] {
            let s = Scenario::new(9_760);
            let (run_id, ask) = s.parked(gate);
            let mut shown = ask.clone();
            for (name, value) in change {
                shown.required.insert((*name).to_owned(), sha(value).to_hex());
            }
            file(&s, &ask, "letter.md", &refusal(&s, &shown));
            s.world.advance(2_000);
            // of another person: the first one's own would be their plain answer
            s.change_policy(vec![s.world.approver("grace")]);
            let approval = render_approval(&ask, Approve, "grace", s.world.now(), None, &BTreeMap::new());
            s.world.file(&ask.approval_path, s.world.sign(&s.world.person("grace"), &approval).as_bytes());
            drop(s.resumed(&run_id));
            assert!(!has_passed(&s, &run_id), "{gate:?}: {what}");
        }
        let s = Scenario::new(9_761);
        let (run_id, ask) = s.parked(gate);
        let mut other = ask.clone();
        for name in [field::NONCE, field::REQUEST_SHA256] {
            other.required.insert(name.into(), sha("e").to_hex());
        }
        other.required.insert(field::RUN_ID.into(), "2026-run-other".into());
        file(&s, &ask, "letter.md", &refusal(&s, &other));
        s.sign(&ask, Approve);
        drop(s.resumed(&run_id));
        let status = if matches!(gate, Gate::Cut) { "draft" } else { "enacted" };
        assert!(s.count("information_unit", "lifecycle_status", status) > 0, "{gate:?}: of another run");
    }
}
