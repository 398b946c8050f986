//! Spoilers of an approval, and the attacks that D14 names.

use super::*;
use crate::approval::Approver;
use crate::gate::Spoiled;

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
    use crate::approval::{CUT_AUTHORIZATION, DRIFT_ACK, LIFECYCLE_ENACTMENT, STOP_RESUME, VOID};
    for kind in [CUT_AUTHORIZATION, LIFECYCLE_ENACTMENT, STOP_RESUME, DRIFT_ACK, VOID] {
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
    let facts = changed(|f| f.ask.gate = "IG_mark".into());
    assert!(failed(&facts).contains(&"approval.ask_complete".to_owned()));
    assert_eq!(judge(&facts).gate, GateId::FailureEscalation);
    for key in ["decision", "Run", "function.name", ""] {
        let facts = changed(|f| {
            f.ask.required.insert(key.into(), "x".into());
        });
        assert!(failed(&facts).contains(&"approval.ask_complete".to_owned()), "{key}");
    }
}
