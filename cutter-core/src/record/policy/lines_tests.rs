//! What `policy show` and a checker print of a policy.

use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use super::*;
use crate::base::digest::Digest;

#[test]
fn a_policy_shows_its_rules_and_every_key() {
    let since = Timestamp::from_second(1_767_323_045).unwrap();
    let key = |person: &str, is_active, compromised_since| {
        let fingerprint = format!("{person}'s");
        let key = PublicKeyRef { kind: OPENPGP.into(), sha256: Digest::of(person.as_bytes()), fingerprint };
        PolicyKey { person: person.into(), key, is_active, compromised_since }
    };
    let policy = Policy {
        answers_valid_hours: Some(48),
        needed: [("SG_cut_authz".into(), 2)].into(),
        only: [("SG_lifecycle_authz".into(), ["sue".into(), "tom".into()].into())].into(),
        keys: vec![key("sue", true, None), key("bob", false, None), key("eve", false, Some(since))],
        ..Policy::default()
    };
    let lines: Vec<String> = policy.lines().iter().map(|(name, value)| format!("{name}: {value}")).collect();
    let compromised = format!("eve: {OPENPGP} eve's: compromised since {since}");
    let expected = [
        "signature: required",
        "creator: may not approve",
        "answers_valid: 48 hours",
        "may_answer SG_lifecycle_authz: sue, tom",
        "approvals_needed SG_cut_authz: 2",
        "sue: openpgp sue's: may approve",
        "bob: openpgp bob's: approves nothing",
        &compromised,
    ];
    assert_eq!(lines[..expected.len()], expected);
}
