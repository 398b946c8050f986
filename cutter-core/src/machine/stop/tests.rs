//! What every stop must say, and whom it may not pose as.
use super::*;
use alloc::string::ToString;
use proptest::prelude::*;
use std::collections::BTreeSet;

#[test]
fn every_code_is_whole_and_its_own() {
    let examples = StopReason::examples();
    assert_eq!(examples.len(), StopReason::ALL.len());
    let mut codes = BTreeSet::new();
    let mut suffixes = BTreeSet::new();
    for (reason, code) in examples.iter().zip(StopReason::ALL) {
        assert!(reason.code().starts_with(code) && code.starts_with("STOP_"), "{reason}");
        assert!(codes.insert(reason.code()) && suffixes.insert(reason.state_suffix()), "{reason}");
        assert!(reason.state_suffix().as_str().parse::<Slug>().is_ok());
        assert!(reason.next_command("ictr-x").starts_with("cutter ") && !reason.doc().is_empty());
        let json = serde_json::to_string(reason).unwrap();
        assert_eq!(&serde_json::from_str::<StopReason>(&json).unwrap(), reason);
    }
}

#[test]
fn classes_are_those_of_the_protocol() {
    let of = |class| {
        let of_class = StopReason::examples().into_iter().filter(move |r| r.class() == class);
        of_class.map(|r| r.kind().as_str()).collect::<Vec<_>>()
    };
    for code in "KB_UPLOAD KB_CONFLICT DATABASE_UNAVAILABLE DISK_FULL FENCED RUN_BUSY INTERNAL".split(' ') {
        assert!(of(StopClass::Operational).contains(&format!("STOP_{code}").as_str()), "{code}");
    }
    for code in "SOVEREIGN DRIFT REFUSED AND_ESCALATE BETWEEN_LEG_A_AND_LEG_B".split(' ') {
        assert!(of(StopClass::Authority).contains(&format!("STOP_{code}").as_str()), "{code}");
    }
    for reason in StopReason::examples().iter().filter(|r| r.is_recorded()) {
        assert_eq!(StopClass::of_suffix(&reason.state_suffix()), reason.class(), "{reason}");
        assert_ne!(reason.class(), StopClass::Terminal, "a recorded stop is resumable");
    }
}

#[test]
fn exit_codes_and_suffixes_are_those_of_the_design() {
    let exits = |text: &str| text.parse::<StopReason>().unwrap().exit_code();
    for (text, exit) in [
        ("STOP_INTERNAL", 1),
        ("STOP_KB_UPLOAD", 3),
        ("STOP_DRIFT_effect", 3),
        ("STOP_REPLAY_CONFLICT", 4),
        ("STOP_GATE_FAILED:IG_mark", 4),
        ("STOP_REFUSED", 5),
        ("STOP_APPROVAL_INVALID", 5),
        ("STOP_STATE_CORRUPT", 6),
        ("STOP_RUN_NOT_FOUND", 66),
        ("STOP_RUN_BUSY", 75),
    ] {
        assert_eq!(exits(text), exit, "{text}");
    }
    let suffix = |reason: StopReason| reason.state_suffix().to_string();
    assert_eq!(suffix(StopReason::Internal), "internal_error");
    assert_eq!(suffix(StopReason::Refused), "refused");
    assert_eq!(suffix(StopReason::BetweenLegAAndLegB), "between_leg_a_and_leg_b");
    assert_eq!(suffix(StopReason::Drift("base_state".parse().unwrap())), "drift");
}

#[test]
fn a_sovereign_reason_cannot_pose_as_another_stop() {
    for word in ["kb_upload", "drift", "refused", "internal_error"] {
        assert!(StopReason::sovereign(word.parse().unwrap()).is_err(), "{word}");
        assert!(format!("STOP_SOVEREIGN:{word}").parse::<StopReason>().is_err());
    }
    assert_eq!(StopClass::of_suffix(&"hold".parse().unwrap()), StopClass::Authority);
}

#[test]
fn malformed_texts_are_refused() {
    for text in [
        "",
        "STOP_",
        "KB_UPLOAD",
        "STOP_KB_UPLOAD:x",
        "STOP_SOVEREIGN",
        "STOP_SOVEREIGN:",
        "STOP_SOVEREIGN:A",
        "STOP_DRIFT",
        "STOP_DRIFT_",
        "STOP_AND_ESCALATE",
        "STOP_AND_ESCALATE:soft_",
        "STOP_GATE_FAILED",
    ] {
        assert!(text.parse::<StopReason>().is_err(), "{text}");
    }
    for phase in Phase::ALL {
        let reason = StopReason::AndEscalate(Cap::Soft(*phase));
        assert_eq!(reason.to_string().parse(), Ok(reason));
    }
}

proptest! {
    #[test]
    fn words_become_slugs(words in "\\PC{0,90}") {
        match Slug::from_words(&words) {
            Ok(slug) => prop_assert_eq!(slug.as_str().parse::<Slug>(), Ok(slug.clone())),
            Err(_) => prop_assert!(!words.chars().any(|c| c.is_ascii_alphabetic())),
        }
    }

    #[test]
    fn slugs_round_trip(text in "[a-z][a-z0-9_]{0,63}") {
        let drift = StopReason::Drift(text.parse().unwrap());
        prop_assert_eq!(drift.to_string().parse(), Ok(drift));
        if let Ok(stop) = StopReason::sovereign(text.parse().unwrap()) {
            prop_assert_eq!(stop.to_string().parse(), Ok(stop));
        }
    }
}
