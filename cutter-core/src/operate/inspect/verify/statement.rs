//! The statement of a closed run, against everything that it was made of.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::NotChecked;
use crate::base::canonical;
use crate::machine::run::Stage;
use crate::operate::inspect::claims::Claims;
use crate::record::attestation;
use crate::record::check::{ABSENT, Check};
use crate::record::pin;
use crate::record::signature::Duty;
use crate::record::statement::{differences, digest, signed_bytes};
use crate::record::stored_statement::StoredStatement;

/// No two statements of a run are signed by both duties. What one login stored beside the one that is counts
/// for nothing.
#[must_use]
pub fn one_statement(found: &[StoredStatement]) -> Option<Check> {
    let signed = found.iter().filter(|s| s.is_signed()).map(|s| digest(&s.body).to_hex());
    let beside: Vec<String> = signed.skip(1).collect();
    (found.len() > 1).then(|| Check::empty("verify.statement.only", &beside))
}

/// What a statement is compared with.
pub struct StatementFacts<'a> {
    /// The stored one, if there is one.
    pub stored: Option<&'a StoredStatement>,
    /// Its body, made again from what is stored otherwise; or why it can't be.
    pub expected: Result<String, String>,
    /// The key that a duty signs with, as of when a signature was stored.
    pub key: &'a dyn Fn(Duty, Option<jiff::Timestamp>) -> Option<String>,
}

/// Judges it. A run that was closed before there were statements has its two attestations.
#[must_use]
pub fn statement(claims: &Claims, facts: &StatementFacts<'_>) -> (Vec<Check>, Option<NotChecked>) {
    let named = claims.pins.get(pin::STATEMENT_SHA256.name());
    let Some(stored) = facts.stored else {
        if let Some(named) = named.filter(|_| claims.stage == Some(Stage::CloseoutReported)) {
            return (alloc::vec![Check::new("verify.statement.there", named, ABSENT, false)], None);
        }
        let note = (claims.live && claims.stage == Some(Stage::CloseoutReported)).then(|| {
            NotChecked::new(
                "the statement",
                "closed before statements were made: executor's and verifier's attestations are what was signed",
                "",
            )
        });
        return (Vec::new(), note);
    };
    let observed = digest(&stored.body).to_hex();
    let mut checks = alloc::vec![
        Check::truth("verify.statement.canonical", is_canonical(&stored.body)),
        Check::equal_some("verify.statement.as_recorded", &observed, named),
    ];
    for duty in [Duty::Executor, Duty::Verifier] {
        let id = |what: &str| format!("verify.statement.{}.{what}", duty.as_str());
        let found = stored.signatures.iter().find(|s| s.duty == duty);
        // the second signature may be owed by a run that has yet to close
        let owed = found.is_none() && claims.stage != Some(Stage::CloseoutReported);
        if owed {
            continue;
        }
        let Some(signature) = found else {
            checks.push(Check::new(&id("there"), "a signature", ABSENT, false));
            continue;
        };
        let bytes = signed_bytes(&stored.body);
        let good = attestation::verify_bytes(&signature.public_key, &bytes, &signature.signature).is_ok();
        checks.push(Check::truth(&id("genuine"), good));
        if let Some(key) = (facts.key)(duty, signature.recorded_at) {
            checks.push(Check::equal(&id("key_pinned"), &key, &signature.public_key));
        }
    }
    if let [one, other] = stored.signatures.as_slice() {
        checks.push(Check::truth("verify.statement.keys_differ", one.public_key != other.public_key));
    }
    match &facts.expected {
        Err(why) => checks.push(Check::new("verify.statement.says", "what is stored", why, false)),
        Ok(expected) => {
            let (tables, says): (Vec<_>, Vec<_>) = differences(&stored.body, expected)
                .into_iter()
                .partition(|(name, ..)| name.starts_with("tables."));
            let show = |found: Vec<(String, String, String)>| {
                let line = |(name, said, stands): (String, String, String)| {
                    format!("{name}: said {said}, stands {stands}")
                };
                found.into_iter().map(line).collect::<Vec<_>>()
            };
            checks.push(Check::empty("verify.statement.says", &show(says)));
            checks.push(Check::empty("verify.statement.tables", &show(tables)));
        }
    }
    (checks, None)
}

fn is_canonical(body: &str) -> bool {
    let value = canonical::parse_strict(body.as_bytes());
    value.ok().and_then(|value| canonical::to_canonical(&value).ok()).is_some_and(|text| text == body)
}
