//! The contract of [`PolicyStore`], read back through [`Reader::policy`].

use alloc::borrow::ToOwned;
use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::any::Any;
use core::future::Future;

use jiff::Timestamp;

use super::{ConformanceFailure, Held, contracts, equal, holds, refused};
use crate::base::cas::CasOutcome;
use crate::base::digest::Digest;
use crate::base::id::mint_v7;
use crate::base::limits::POLICY_EVENT_MAX_BYTES;
use crate::port::database::Reader;
use crate::port::policy::PolicyStore;
use crate::port::{PortErrorKind, PortResult};
use crate::record::policy::{Change, Event, NewEvent};

/// The store, who reads it, and what must outlive both.
pub struct PolicyUnderTest {
    /// The administrator's side.
    pub store: Arc<dyn PolicyStore>,
    /// Everybody's side.
    pub reader: Arc<dyn Reader>,
    /// What must outlive them.
    pub keep: Option<Box<dyn Any + Send + Sync>>,
}

/// Checks every contract; gives the names of those that held.
///
/// # Errors
/// The first contract that is not kept.
pub async fn run_all<B, F>(build: B) -> Result<Vec<&'static str>, ConformanceFailure>
where
    B: Fn() -> F,
    F: Future<Output = PortResult<PolicyUnderTest>>,
{
    contracts!(
        "policy",
        build,
        [
            events_and_keys_read_back_byte_for_byte,
            the_same_event_again_changes_nothing,
            only_what_follows_the_last_event_is_appended,
            a_text_that_does_not_say_what_it_follows_is_refused,
        ]
    )
}

fn event(seq: u64, previous: Option<&NewEvent>, keys: &[&str]) -> NewEvent {
    let previous = previous.map(|e| Digest::of(e.document.as_bytes()));
    let at = Timestamp::from_second(1_767_323_045).unwrap_or_default();
    let changes = match seq {
        1 => alloc::vec![Change::Founded { chain: mint_v7(1, [1; 10]) }],
        _ => alloc::vec![Change::AnswersValid { hours: u32::try_from(seq).ok() }],
    };
    let document = Event { seq, previous, at, why: "đủ".to_owned(), changes }.text();
    NewEvent { seq, previous, document, keys: keys.iter().map(|k| (*k).to_owned()).collect() }
}

async fn events_and_keys_read_back_byte_for_byte(t: &PolicyUnderTest) -> Held {
    equal("nothing at first", crate::record::policy::PolicyRecord::default(), t.reader.policy().await?)?;
    let first = event(1, None, &["a key", "another ê"]);
    equal("the founding", CasOutcome::Applied, t.store.append(&first).await?)?;
    let second = event(2, Some(&first), &["a key"]);
    equal("the next", CasOutcome::Applied, t.store.append(&second).await?)?;
    let record = t.reader.policy().await?;
    let documents: Vec<&String> = record.events.iter().map(|e| &e.document).collect();
    equal("the documents", alloc::vec![&first.document, &second.document], documents)?;
    let seqs: Vec<u64> = record.events.iter().map(|e| e.seq).collect();
    equal("their numbers", alloc::vec![1, 2], seqs)?;
    let keys: Vec<&str> = record.keys.values().map(String::as_str).collect();
    equal("the keys, each once", 2, keys.len())?;
    for (sha256, key) in &record.keys {
        equal("a key's sha256", Digest::of(key.as_bytes()), *sha256)?;
    }
    holds("the times follow each other", record.events[0].recorded_at <= record.events[1].recorded_at, ())
}

async fn the_same_event_again_changes_nothing(t: &PolicyUnderTest) -> Held {
    let first = event(1, None, &[]);
    equal("the founding", CasOutcome::Applied, t.store.append(&first).await?)?;
    let before = t.reader.policy().await?;
    equal("again", CasOutcome::AlreadyApplied, t.store.append(&first).await?)?;
    equal("what is stored", before, t.reader.policy().await?)
}

async fn only_what_follows_the_last_event_is_appended(t: &PolicyUnderTest) -> Held {
    let first = event(1, None, &[]);
    let second = event(2, Some(&first), &[]);
    equal("a gap", CasOutcome::Conflict { found: 0 }, t.store.append(&second).await?)?;
    equal("the founding", CasOutcome::Applied, t.store.append(&first).await?)?;
    equal("the next", CasOutcome::Applied, t.store.append(&second).await?)?;
    let mut other = event(1, None, &[]);
    other.document = other.document.replace("why: ", "why: not ");
    equal("another first", CasOutcome::Conflict { found: 2 }, t.store.append(&other).await?)?;
    let beside = event(3, Some(&first), &[]);
    equal("not behind the last", CasOutcome::Conflict { found: 2 }, t.store.append(&beside).await?)
}

async fn a_text_that_does_not_say_what_it_follows_is_refused(t: &PolicyUnderTest) -> Held {
    let good = event(1, None, &[]);
    for document in [
        good.document.replace("seq: 1", "seq: 2"),
        good.document.replace("previous: none", "previous: nobody"),
        format!("{}seq: 1\n", good.document),
        format!("{}{}", good.document, " ".repeat(POLICY_EVENT_MAX_BYTES)),
        String::new(),
    ] {
        let bad = NewEvent { document, ..good.clone() };
        refused("such a text", &[PortErrorKind::Invalid], t.store.append(&bad).await)?;
    }
    equal("nothing is stored", 0, t.reader.policy().await?.events.len())
}
