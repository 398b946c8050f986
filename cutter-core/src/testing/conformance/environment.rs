//! The contract of [`Clock`] and [`IdSource`].

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::vec::Vec;

use super::{ConformanceFailure, Held, contracts, equal, holds};
use crate::port::PortError;
use crate::port::environment::{Clock, IdSource};
use alloc::sync::Arc;

type Pair = (Arc<dyn Clock>, Arc<dyn IdSource>);

/// Checks every contract; gives the names of those that held.
///
/// # Errors
/// The first contract that is not kept.
pub async fn run_all<B>(build: B) -> Result<Vec<&'static str>, ConformanceFailure>
where
    B: Fn() -> Pair,
{
    let build = || async { Ok::<Pair, PortError>(build()) };
    contracts!(
        "environment",
        build,
        [
            time_never_goes_back,
            sleeping_takes_the_time_asked_for,
            ids_are_version_7_and_unique_by_purpose,
            nonces_are_64_hex_digits_and_unique_by_purpose,
        ]
    )
}

async fn time_never_goes_back((clock, _): &Pair) -> Held {
    let mut last = clock.now();
    for _ in 0..100 {
        let now = clock.now();
        holds("a later time", now >= last, (last, now))?;
        last = now;
    }
    Ok(())
}

async fn sleeping_takes_the_time_asked_for((clock, _): &Pair) -> Held {
    let before = clock.now();
    clock.sleep(15).await;
    let passed = clock.now().duration_since(before).as_millis();
    // a real clock may be set while it sleeps, but not in a test
    holds("at least 15 ms", passed >= 14, passed)
}

async fn ids_are_version_7_and_unique_by_purpose((clock, ids): &Pair) -> Held {
    let mut seen = BTreeSet::new();
    for n in 0..1_000 {
        let id = ids.uuid_v7(clock.now(), &format!("purpose {n}"));
        equal("the version", 7, id.get_version_num())?;
        holds("the RFC variant", id.get_variant() == uuid::Variant::RFC4122, id)?;
        holds("a new id", seen.insert(id), id)?;
    }
    Ok(())
}

async fn nonces_are_64_hex_digits_and_unique_by_purpose((_, ids): &Pair) -> Held {
    let mut seen = BTreeSet::new();
    for n in 0..1_000 {
        let nonce = ids.nonce(&format!("purpose {n}"));
        let hex = nonce.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
        holds("64 lowercase hex digits", nonce.len() == 64 && hex, &nonce)?;
        holds("a new nonce", seen.insert(nonce.clone()), nonce)?;
    }
    Ok(())
}
