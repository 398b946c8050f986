//! Spoilers of an approval, and the attacks that D14 names.

use super::*;
use crate::gate::Spoiled;
use crate::machine::run::GateId;
use crate::record::approval::Approver;

/// The example with one piece of the signed text replaced.
fn rewritten(from: &str, to: &str) -> AuthorizationFacts {
    let mut facts = AuthorizationFacts::example();
    if let SignatureFacts::Good { text, .. } = &mut facts.signature {
        assert!(text.contains(from), "{from} is not in the text");
        *text = text.replace(from, to);
    }
    facts
}

fn changed(change: impl FnOnce(&mut AuthorizationFacts)) -> AuthorizationFacts {
    let mut facts = AuthorizationFacts::example();
    change(&mut facts);
    facts
}

pub(crate) fn spoilers() -> Spoiled {
    let mut all = Spoiled::new();
    let mut spoil = |id, facts: AuthorizationFacts| all.push((id, judge(&facts)));
    spoil("approval.signature", changed(|f| f.now = Timestamp::UNIX_EPOCH));
    spoil(
        "approval.signer_pinned",
        changed(|f| {
            let fingerprint = f.policy.approvers[0].fingerprint.clone();
            f.policy.approvers.push(Approver { actor: "another".into(), fingerprint });
        }),
    );
    spoil(
        "approval.actor_matches_key",
        changed(|f| {
            f.policy.approvers[0].actor = "another".into();
        }),
    );
    spoil("approval.expected_actor", changed(|f| f.ask.expected_actor = Some("another".into())));
    spoil("approval.not_creator", changed(|f| f.creator_actor = "sovereign".into()));
    spoil(
        "approval.not_creator",
        changed(|f| f.creator_fingerprint = f.policy.approvers[0].fingerprint.clone()),
    );
    spoil("approval.not_creator", changed(|f| f.creator_fingerprint.clear()));
    spoil("approval.well_formed", rewritten("reason: checked", "reason: checked\ndecision: approve"));
    spoil("approval.well_formed", rewritten("reason: checked", "reason: check\u{202e}ed"));
    spoil("approval.well_formed", rewritten(FORMAT, "cutter-approval/0"));
    spoil("approval.well_formed", rewritten("signed_at: ", "signed_at: about "));
    spoil(
        "approval.ask_complete",
        changed(|f| {
            f.ask.required.remove(field::BASE_STATE_SHA);
        }),
    );
    spoil("approval.type", rewritten("approval_type: cut_authorization", "approval_type: void"));
    spoil("approval.gate", rewritten("gate: SG_cut_authz", "gate: SG_lifecycle_authz"));
    spoil("approval.occurrence", rewritten("occurrence: 1", "occurrence: 2"));
    spoil("approval.decision", rewritten("decision: approve", "decision: approved"));
    for key in field::ALL {
        let id =
            INVARIANTS.iter().map(|i| i.id).find(|id| id.strip_prefix("approval.") == Some(key)).unwrap();
        spoil(id, rewritten(&format!("\n{key}: "), &format!("\n{key}: x")));
        spoil(id, rewritten(&format!("\n{key}: "), &format!("\nother_{key}: ")));
    }
    spoil("approval.request_unedited", changed(|f| f.request_sha256_live = None));
    spoil("approval.request_unedited", changed(|f| f.request_sha256_live = Some(Digest::of(b"edited"))));
    spoil("approval.not_expired", rewritten("expires: never", "expires: 2026-05-20T10:11:12Z"));
    spoil("approval.not_expired", rewritten("expires: never", "expires: tomorrow"));
    spoil(
        "approval.within_validity",
        changed(|f| {
            f.policy.valid_hours = Some(2);
            f.requested_at = f.requested_at.map(|at| at - jiff::SignedDuration::from_hours(3));
        }),
    );
    spoil(
        "approval.within_validity",
        changed(|f| {
            f.policy.valid_hours = Some(2);
            f.requested_at = None;
        }),
    );
    spoil("approval.single_use", changed(|f| f.used_before = true));
    spoil("approval.unedited", changed(|f| f.edited_after_validation = true));
    all
}

fn failed(facts: &AuthorizationFacts) -> Vec<String> {
    judge(facts).failures().iter().map(|c| c.invariant.clone()).collect()
}

#[test]
fn an_unknown_key_is_refused_by_key_and_by_name() {
    let facts = changed(|f| f.policy.approvers.clear());
    assert_eq!(failed(&facts), ["approval.signer_pinned", "approval.actor_matches_key"]);
}

#[test]
fn an_unsigned_answer_passes_only_under_policy_optional() {
    let unsigned = |policy| {
        changed(|f| {
            if let SignatureFacts::Good { text, .. } = f.signature.clone() {
                f.signature = SignatureFacts::Unsigned { text };
            }
            f.policy.signature = policy;
        })
    };
    assert_eq!(failed(&unsigned(SignaturePolicy::Optional)), Vec::<String>::new());
    let required = failed(&unsigned(SignaturePolicy::Required));
    assert_eq!(
        required,
        [
            "approval.signature",
            "approval.signer_pinned",
            "approval.actor_matches_key",
            "approval.not_creator"
        ]
    );
    let mut by_creator = unsigned(SignaturePolicy::Optional);
    by_creator.creator_actor = "sovereign".into();
    assert_eq!(failed(&by_creator), ["approval.not_creator"]);
    let mut by_stranger = unsigned(SignaturePolicy::Optional);
    by_stranger.policy.approvers.clear();
    assert_eq!(failed(&by_stranger), ["approval.actor_matches_key"]);
}

#[test]
fn under_policy_optional_a_bad_signature_is_still_bad() {
    let facts = changed(|f| {
        f.policy.signature = SignaturePolicy::Optional;
        f.signature = SignatureFacts::Bad { code: "bad_signature".into(), detail: "digest differs".into() };
    });
    assert!(failed(&facts).contains(&"approval.signature".to_owned()));
}

#[test]
fn the_creator_may_approve_where_the_policy_says_so() {
    let facts = changed(|f| {
        f.policy.approver_not_creator = false;
        f.creator_actor = "sovereign".into();
        f.creator_fingerprint = f.policy.approvers[0].fingerprint.clone();
    });
    assert_eq!(failed(&facts), Vec::<String>::new());
}

#[test]
fn a_refusal_is_a_genuine_answer() {
    for decision in ["defer", "reject"] {
        let facts = rewritten("decision: approve", &format!("decision: {decision}"));
        assert_eq!(failed(&facts), Vec::<String>::new());
    }
}

#[test]
fn an_answer_to_another_run_or_an_earlier_occurrence_fits_nothing_here() {
    let answer = AuthorizationFacts::example().signature;
    let other = changed(|f| {
        f.ask.required.insert(field::RUN_ID.into(), "another".into());
        f.ask.required.insert(field::NONCE.into(), "new".into());
        f.ask.occurrence = 2;
        f.signature = answer;
    });
    assert_eq!(failed(&other), ["approval.occurrence", "approval.run_id", "approval.nonce"]);
}

#[test]
fn a_field_that_no_list_knows_is_judged_all_the_same() {
    let facts = changed(|f| {
        f.ask.required.insert("seal_number".into(), "12".into());
    });
    assert_eq!(failed(&facts), ["approval.seal_number"]);
}

#[test]
fn each_type_has_its_minimum_and_no_other_type_exists() {
    use crate::record::approval::Purpose;
    for kind in Purpose::ALL.iter().map(|purpose| purpose.as_str()) {
        let minimum = Ask::minimum(kind).unwrap();
        for key in minimum {
            let facts = changed(|f| {
                f.ask.approval_type = kind.into();
                f.ask.required.remove(*key);
            });
            assert!(failed(&facts).contains(&"approval.ask_complete".to_owned()), "{kind} without {key}");
        }
    }
    let facts = changed(|f| f.ask.approval_type = "anything".into());
    assert!(failed(&facts).contains(&"approval.ask_complete".to_owned()));
    let facts = changed(|f| f.ask.gate = GateId::Mark);
    assert!(failed(&facts).contains(&"approval.ask_complete".to_owned()));
    assert_eq!(judge(&facts).gate, GateId::FailureEscalation);
    for key in ["decision", "Run", "function.name", ""] {
        let facts = changed(|f| {
            f.ask.required.insert(key.into(), "x".into());
        });
        assert!(failed(&facts).contains(&"approval.ask_complete".to_owned()), "{key}");
    }
}

/// A refusal of the example, changed further.
fn refusal(change: impl FnOnce(&mut AuthorizationFacts)) -> AuthorizationFacts {
    let mut facts = rewritten("decision: approve", "decision: reject");
    change(&mut facts);
    facts
}

type Change = fn(&mut AuthorizationFacts);

#[test]
fn a_refusal_counts_where_an_approval_no_longer_would() {
    let excused: [(&str, Change); 9] = [
        ("approval.within_validity", |f| {
            f.policy.valid_hours = Some(2);
            f.requested_at = None;
        }),
        ("approval.unedited", |f| f.edited_after_validation = true),
        ("approval.request_unedited", |f| f.request_sha256_live = None),
        ("approval.not_creator", |f| f.creator_actor = "sovereign".into()),
        ("approval.not_creator", |f| f.creator_fingerprint.clone_from(&f.policy.approvers[0].fingerprint)),
        ("approval.expected_actor", |f| f.ask.expected_actor = Some("another".into())),
        ("approval.ask_complete", |f| drop(f.ask.required.remove(field::ROWS_DIGEST))),
        ("approval.ask_complete", |f| drop(f.ask.required.remove(field::SETTINGS_SHA256))),
        ("approval.not_expired", |f| {
            if let SignatureFacts::Good { text, .. } = &mut f.signature {
                *text = text.replace("expires: never", "expires: 2020-01-01T00:00:00Z");
            }
        }),
    ];
    for (id, change) in excused {
        assert_eq!(failed(&changed(change)), [id]);
        assert_eq!(failed(&refusal(change)), Vec::<String>::new(), "{id}");
    }
    // who began the run may refuse it, with the key that it was begun with and under that name
    let by_creator = |f: &mut AuthorizationFacts| {
        f.policy.approvers.clear();
        f.creator_actor = "sovereign".into();
        f.creator_fingerprint = "AAAA BBBB CCCC DDDD EEEE FFFF 0000 1111 2222 3333".into();
    };
    assert_eq!(failed(&refusal(by_creator)), Vec::<String>::new());
    assert!(failed(&changed(by_creator)).contains(&"approval.signer_pinned".to_owned()));
}

/// It refuses what was asked, whatever the request showed to who refused it.
#[test]
fn a_refusal_names_the_run_and_the_nonce_and_no_more() {
    let example = refusal(|_| ());
    for (key, value) in &example.ask.required {
        let other = |f: &mut AuthorizationFacts| {
            let SignatureFacts::Good { text, .. } = &mut f.signature else { panic!("it is signed") };
            *text = text.replace(&std::format!("{key}: {value}"), &std::format!("{key}: another"));
        };
        let id = std::format!("approval.{key}");
        assert!(failed(&changed(other)).contains(&id), "{key}");
        let needed = [field::RUN_ID, field::NONCE].contains(&key.as_str());
        assert_eq!(failed(&refusal(other)), if needed { std::vec![id] } else { std::vec![] }, "{key}");
    }
}

#[test]
fn a_refusal_is_held_to_the_rest() {
    let held: [(&str, Change); 6] = [
        ("approval.single_use", |f| f.used_before = true),
        ("approval.signer_pinned", |f| f.policy.approvers.clear()),
        ("approval.actor_matches_key", |f| f.policy.approvers[0].actor = "another".into()),
        ("approval.ask_complete", |f| drop(f.ask.required.remove(field::NONCE))),
        ("approval.signature", |f| f.now = Timestamp::UNIX_EPOCH),
        ("approval.signature", |f| {
            f.policy.signature = SignaturePolicy::Optional;
            if let SignatureFacts::Good { text, .. } = f.signature.clone() {
                f.signature = SignatureFacts::Unsigned { text };
            }
        }),
    ];
    for (id, change) in held {
        assert!(failed(&refusal(change)).contains(&id.to_owned()), "{id}");
    }
}

#[test]
fn times_are_judged_to_the_second_at_their_bounds() {
    let seconds = jiff::SignedDuration::from_secs;
    let valid = |age: i64| {
        changed(|f| {
            f.policy.valid_hours = Some(2);
            f.requested_at = Some(f.now - seconds(age));
        })
    };
    for (age, fits) in [(0, true), (7199, true), (7200, false), (-1, true), (-3600, false)] {
        assert_eq!(failed(&valid(age)).is_empty(), fits, "{age} s old");
    }
    let now = AuthorizationFacts::example().now;
    for (left, fits) in [(-1, false), (0, false), (1, true)] {
        let facts = rewritten("expires: never", &std::format!("expires: {}", now + seconds(left)));
        assert_eq!(failed(&facts).is_empty(), fits, "{left} s left");
    }
    for (late, fits) in [(-1, true), (0, true), (1, false)] {
        let facts = changed(|f| {
            if let SignatureFacts::Good { signed_at, .. } = &mut f.signature {
                *signed_at = f.now + seconds(late);
            }
        });
        assert_eq!(failed(&facts).is_empty(), fits, "signed {late} s after now");
    }
}

#[test]
fn where_several_must_approve_any_of_them_may() {
    for (needed, fits) in [(1, false), (2, true)] {
        let facts = changed(|f| {
            f.policy.needed = needed;
            f.ask.expected_actor = Some("another".into());
        });
        assert_eq!(failed(&facts).is_empty(), fits, "{needed}");
    }
}

#[test]
fn an_answer_lasts_as_long_as_its_ask_is_plain_and_of_a_gate() {
    let asks: [Change; 4] = [
        |f| f.ask.occurrence = 0,
        |f| f.ask.gate = GateId::Closeout,
        |f| drop(f.ask.required.insert("seal".into(), " 12".into())),
        |f| drop(f.ask.required.insert("seal".into(), "1\u{202e}2".into())),
    ];
    for change in asks {
        assert!(failed(&changed(change)).contains(&"approval.ask_complete".to_owned()));
    }
    let bad = changed(|f| {
        f.signature = SignatureFacts::Bad { code: "bad_signature".into(), detail: "x".into() };
    });
    for id in ["approval.signature", "approval.well_formed", "approval.decision", "approval.signer_pinned"] {
        assert!(failed(&bad).contains(&id.to_owned()), "{id}");
    }
    let undated = rewritten("\nsigned_at: ", "\nwritten_at: ");
    assert!(failed(&undated).contains(&"approval.well_formed".to_owned()));
}
