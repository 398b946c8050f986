//! The contract of [`BackupTarget`]. Backup *sources* are checked with the database that they
//! save, see [`super::database`].

use alloc::vec::Vec;
use core::future::Future;

use super::fixture::run_id;
use super::{Broken, ConformanceFailure, Fresh, Held, contracts, equal, holds, refused};
use crate::base::digest::Digest;
use crate::port::backup::BackupTarget;
use crate::port::{PortErrorKind, PortResult};
use crate::record::backup::BackupBlob;

type Target = Fresh<dyn BackupTarget>;

/// Checks every contract; gives the names of those that held. `build` gives a target under which
/// the runs of [`Case`](super::Case) 1 and 2 exist, without backups.
///
/// # Errors
/// The first contract that is not kept.
pub async fn run_all<B, F>(build: B) -> Result<Vec<&'static str>, ConformanceFailure>
where
    B: Fn() -> F,
    F: Future<Output = PortResult<Target>>,
{
    contracts!(
        "backup_target",
        build,
        [
            a_probe_names_the_recipient,
            a_backup_is_stored_and_reads_back,
            a_backup_is_never_replaced,
            a_dropped_sink_leaves_nothing,
            an_absent_backup_is_none,
            discarding_keeps_the_recorded_backup_of_this_run_and_all_of_others,
        ]
    )
}

async fn store(target: &Target, run: u8, epoch: i64, chunks: &[&[u8]]) -> PortResult<BackupBlob> {
    let mut sink = target.port.begin(&run_id(run), epoch).await?;
    for chunk in chunks {
        sink.write(chunk).await?;
    }
    sink.finish().await
}

async fn a_probe_names_the_recipient(target: &Target) -> Held {
    let facts = target.port.probe(&run_id(1)).await?;
    holds("a target that can be written", facts.reachable, &facts)?;
    let hex = facts.fingerprint.bytes().all(|b| b.is_ascii_digit() || (b'A'..=b'F').contains(&b));
    holds("an upper-case hex fingerprint", facts.fingerprint.len() >= 40 && hex, &facts)
}

async fn a_backup_is_stored_and_reads_back(target: &Target) -> Held {
    let big = alloc::vec![7_u8; 100_000];
    let blob = store(target, 1, 3, &[b"head\n", &big, b"tail\n"]).await?;
    let mut plain = b"head\n".to_vec();
    plain.extend_from_slice(&big);
    plain.extend_from_slice(b"tail\n");
    equal("the name", "pre_write.3.gpg", blob.name.as_str())?;
    equal("the plaintext's digest", Digest::of(&plain), blob.plaintext_sha256)?;
    holds("a ciphertext that is not the plaintext", blob.sha256 != blob.plaintext_sha256, &blob)?;
    let facts = target.port.probe(&run_id(1)).await?;
    equal("the recipient", facts.fingerprint, blob.fingerprint.clone())?;
    let again = target.port.rehash(&run_id(1), &blob.name).await?;
    equal("what reads back", Some((blob.sha256, blob.bytes)), again)
}

async fn a_backup_is_never_replaced(target: &Target) -> Held {
    let blob = store(target, 1, 3, &[b"first"]).await?;
    refused("the same epoch again", &[PortErrorKind::Conflict], store(target, 1, 3, &[b"second"]).await)?;
    let again = target.port.rehash(&run_id(1), &blob.name).await?;
    equal("the first", Some((blob.sha256, blob.bytes)), again)
}

async fn a_dropped_sink_leaves_nothing(target: &Target) -> Held {
    let mut sink = target.port.begin(&run_id(1), 3).await?;
    sink.write(b"half of it").await?;
    drop(sink);
    let found = target.port.rehash(&run_id(1), "pre_write.3.gpg").await?;
    holds("no backup", found.is_none(), found)?;
    // and it blocks nothing
    store(target, 1, 3, &[b"whole"]).await.map(drop).map_err(Broken::from)
}

async fn an_absent_backup_is_none(target: &Target) -> Held {
    let found = target.port.rehash(&run_id(1), "pre_write.1.gpg").await?;
    holds("no backup", found.is_none(), found)?;
    target.port.discard_unrecorded(&run_id(1), None).await.map_err(Broken::from)
}

async fn discarding_keeps_the_recorded_backup_of_this_run_and_all_of_others(target: &Target) -> Held {
    let lost = store(target, 1, 1, &[b"lost"]).await?;
    let kept = store(target, 1, 2, &[b"recorded"]).await?;
    let other = store(target, 2, 1, &[b"another run's"]).await?;
    target.port.discard_unrecorded(&run_id(1), Some(&kept.name)).await?;
    let found = target.port.rehash(&run_id(1), &lost.name).await?;
    holds("the unrecorded one is gone", found.is_none(), found)?;
    let found = target.port.rehash(&run_id(1), &kept.name).await?;
    equal("the recorded one", Some((kept.sha256, kept.bytes)), found)?;
    let found = target.port.rehash(&run_id(2), &other.name).await?;
    equal("another run's", Some((other.sha256, other.bytes)), found)?;
    target.port.discard_unrecorded(&run_id(1), None).await?;
    let found = target.port.rehash(&run_id(1), &kept.name).await?;
    holds("nothing recorded, nothing kept", found.is_none(), found)
}
