//! Whether whoever answered might answer then: each answer judged by the policy that stood when the
//! database took it, and by what is known of its key now.
//!
//! A signer's own date proves nothing: whoever has a stolen key writes the date that they like. So an
//! answer counts from when the database took it. A key that was retired later was good then; one
//! that somebody else may have had by then was not.

use alloc::borrow::ToOwned;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::ToString;
use alloc::vec::Vec;

use jiff::Timestamp;

use super::asked::enough;
use super::{ApprovalFact, NotChecked};
use crate::base::digest::Digest;
use crate::record::ask::StoredAsk;
use crate::record::check::Check;
use crate::record::evidence::RunEvidence;
use crate::record::policy::{Chain, NotStanding};

/// When the database took each answer, by the sha256 of its document; `None` where it took it before
/// it kept such times.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Taken(BTreeMap<Digest, Option<Timestamp>>);

impl Taken {
    /// By the rows: an answer that was heard before it was consumed was there from then on.
    #[must_use]
    pub fn of(evidence: &RunEvidence, asks: &[StoredAsk]) -> Self {
        let heard = asks.iter().flat_map(|ask| &ask.answers).map(|a| (a.answer.sha256(), a.recorded_at));
        let stored = evidence.approvals.iter().map(|a| (a.sha256, a.recorded_at));
        let mut taken: BTreeMap<Digest, Option<Timestamp>> = BTreeMap::new();
        for (sha256, at) in heard.chain(stored) {
            let first = taken.entry(sha256).or_insert(at);
            *first = match (*first, at) {
                (Some(one), Some(other)) => Some(one.min(other)),
                (one, other) => one.or(other),
            };
        }
        Self(taken)
    }

    /// Whether the database took these bytes.
    #[must_use]
    pub fn holds(&self, sha256: &Digest) -> bool {
        self.0.contains_key(sha256)
    }

    /// When the answer with these bytes was taken, if that was kept.
    #[must_use]
    pub fn at(&self, sha256: &Digest) -> Option<Timestamp> {
        self.0.get(sha256).copied().flatten()
    }
}

/// Judges each answer that the run relied on. Without the rows of a database nothing dates them.
#[must_use]
pub fn standing(
    chain: &Chain,
    taken: Option<&Taken>,
    approvals: &[ApprovalFact],
) -> (Vec<Check>, Vec<NotChecked>) {
    let (mut checks, mut open) = (Vec::new(), Vec::new());
    // those beside a consent are counted where their ask is judged; what was not allowed opened nothing
    let opens = |fact: &&ApprovalFact| fact.place == 0 && fact.record.decision.allows();
    let signed = approvals.iter().filter(opens).map(|fact| &fact.record);
    for record in signed.filter(|r| !r.fingerprint.is_empty()) {
        let id = format!("verify.approval.{}.{}.key_stood", record.gate, record.occurrence);
        let Some(taken) = taken else {
            open.push(NotChecked::new(
                id,
                "when an answer was recorded, and what the policy was then, only the database says",
                "a login that reads: database.reader, or CUTTER_DSN_READER",
            ));
            continue;
        };
        // one that was accepted and never stored opened nothing: another check misses it where it must
        let Some(at) = record.sha256.and_then(|sha256| taken.0.get(&sha256)) else { continue };
        match judge(chain, &id, &record.actor, &record.fingerprint, *at) {
            Ok(check) => checks.push(check),
            Err(item) => open.push(item),
        }
    }
    (checks, open)
}

/// The same of every answer that an effect relied on, by the rows alone; where several people had to
/// approve, whether they did.
#[must_use]
pub fn consumed_standing(chain: &Chain, evidence: &RunEvidence, asks: &[StoredAsk]) -> Vec<Check> {
    let taken = Taken::of(evidence, asks);
    let consumed = evidence.approvals.iter().filter(|a| a.used_by.is_some() && !a.fingerprint.is_empty());
    let of = |a: &crate::record::evidence::StoredApproval| {
        let id = format!("verify.approval.{}.key_stood", a.approval_id);
        judge(chain, &id, &a.actor, &a.fingerprint, taken.at(&a.sha256)).ok()
    };
    let several = asks.iter().filter_map(|ask| enough(chain, evidence, ask, &taken, &[]));
    consumed.filter_map(of).chain(several).collect()
}

fn judge(
    chain: &Chain,
    id: &str,
    actor: &str,
    fingerprint: &str,
    taken: Option<Timestamp>,
) -> Result<Check, NotChecked> {
    let Some(at) = taken else {
        // Nothing can date it any more; where its key is in question that matters.
        let why = "it was recorded before the database kept the time of that";
        return Err(match chain.compromised(fingerprint) {
            None => NotChecked::new(id, why, ""),
            Some((person, since)) => NotChecked::new(
                id,
                format!("{why}, and {fingerprint} of {person} is compromised since {since}"),
                "the answer in a backup of the database, or of the knowledge base, from before that time",
            ),
        });
    };
    match chain.person_at(fingerprint, at) {
        Ok(person) => Ok(Check::equal(id, &actor.to_owned(), &person.to_owned())),
        Err(NotStanding::NoPolicy(_)) => {
            Err(NotChecked::new(id, "it was recorded before this database had a policy", ""))
        }
        Err(wrong) => Ok(Check::new(
            id,
            format!("{actor}'s key, good when the database took the answer at {at}"),
            wrong.to_string(),
            false,
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::effect::ReviewVerdict;
    use crate::record::evidence::StoredApproval;
    use alloc::string::String;
    use uuid::Uuid;

    fn time(second: i64) -> Timestamp {
        Timestamp::from_second(1_780_000_000 + second).unwrap()
    }

    #[test]
    fn an_answer_dates_from_when_it_was_first_heard() {
        let sha256 = Digest::of(b"yes");
        let stored = |at| StoredApproval {
            approval_id: Uuid::nil(),
            gate: "cut_authorization".to_owned(),
            sha256,
            nonce: String::new(),
            fingerprint: "AB".to_owned(),
            decision: ReviewVerdict::Approve,
            actor: "ada".to_owned(),
            document: "yes".to_owned(),
            approval_kb_id: String::new(),
            expires: None,
            at: time(0),
            used_by: None,
            recorded_at: at,
        };
        let of = |times: &[Option<Timestamp>]| {
            let approvals = times.iter().map(|at| stored(*at)).collect();
            Taken::of(&RunEvidence { approvals, ..RunEvidence::default() }, &[]).at(&sha256)
        };
        assert_eq!(of(&[Some(time(2)), Some(time(1)), Some(time(3))]), Some(time(1)));
        assert_eq!(of(&[None, Some(time(3))]), Some(time(3)));
        assert_eq!(of(&[None]), None);
    }
}
