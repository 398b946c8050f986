//! What attack stories share, whatever world they are told in: who attacks, and how a story that
//! broke the law is cut down to the acts that it takes.
#![allow(clippy::panic, clippy::expect_used, clippy::unwrap_used, reason = "for tests only")]

pub mod record;

use cutter_core::base::canonical::to_canonical;
use cutter_core::base::digest::Digest;
use serde_json::{Value, json};

/// Who attacks, with what he has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Role {
    /// A text to submit, and nothing else.
    Outsider,
    /// The run's folder, the configuration, executor's and verifier's keys and logins.
    Operator,
    /// Every document of the knowledge base.
    KbWriter,
    /// The executor's login.
    Executor,
    /// The verifier's login.
    Verifier,
    /// The reviewer's login.
    Reviewer,
    /// Everything in the database, and, on a private server, everything of the operator's.
    Superuser,
}

impl Role {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Outsider,
        Self::Operator,
        Self::KbWriter,
        Self::Executor,
        Self::Verifier,
        Self::Reviewer,
        Self::Superuser,
    ];
}

/// The fewest acts with which a story still breaks the law: each one is left out in turn while it does.
pub fn shrink<A: Clone>(acts: &[A], breaks: impl Fn(&[A]) -> bool) -> Vec<A> {
    let mut kept = acts.to_vec();
    let mut at = 0;
    while at < kept.len() {
        let mut fewer = kept.clone();
        fewer.remove(at);
        if breaks(&fewer) {
            kept = fewer;
            at = 0;
        } else {
            at += 1;
        }
    }
    kept
}

/// A record with a change, its digest computed again, as somebody does who knows how it is made.
///
/// # Panics
/// If it is no JSON object.
pub fn edited(bytes: &[u8], change: impl FnOnce(&mut Value)) -> Vec<u8> {
    let mut value: Value = serde_json::from_slice(bytes).unwrap();
    change(&mut value);
    value.as_object_mut().unwrap().remove("digest");
    let digest = Digest::of(to_canonical(&value).unwrap().as_bytes());
    value["digest"] = json!(digest.to_hex());
    to_canonical(&value).unwrap().into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_story_shrinks_to_what_it_takes() {
        let acts: Vec<u32> = (0..20).collect();
        let breaks = |acts: &[u32]| acts.contains(&3) && acts.contains(&17);
        assert_eq!(shrink(&acts, breaks), [3, 17]);
        assert_eq!(shrink(&acts, |_| true), Vec::<u32>::new());
        assert_eq!(shrink(&acts, |acts| acts.len() == 20), acts);
    }
}
