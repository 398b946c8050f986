//! cutplan: what would be written, built twice.

use alloc::borrow::ToOwned;
use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec;

use async_trait::async_trait;

use super::{Acted, Step};
use crate::base::key;
use crate::driver::run::{Halt, Run};
use crate::gate::cutplan;
use crate::record::pin;

/// IG_cutplan: two independent rebuilds give one writer digest.
pub(super) struct Cutplan;

#[async_trait]
impl Step for Cutplan {
    async fn act(&self, run: &mut Run<'_>) -> Result<Acted, Halt> {
        let first = {
            let source = run.read_source().await?;
            run.build(&source)?
        };
        let source = run.read_source().await?;
        let second = run.build(&source)?;
        let distinct = |values: BTreeSet<String>| values.len() as u64;
        let facts = cutplan::CutplanFacts {
            writer_digests: [first.writer_digest, second.writer_digest],
            rows: second.rows.len() as u64,
            candidates: run.sidecar.pinned(pin::CANDIDATE_COUNT)?,
            unmapped: second.unknown_words.iter().map(|w| format!("{}:{}", w.vocabulary, w.word)).collect(),
            distinct_keys: distinct(second.rows.iter().map(|r| r.idempotency_key.to_string()).collect()),
            distinct_addresses: distinct(
                second.rows.iter().map(|r| r.canonical_address.to_string()).collect(),
            ),
            forbidden: second.forbidden.len() as u64,
            manifest_digest_pin: run.sidecar.pinned(pin::MANIFEST_DIGEST)?,
            manifest_digest: second.manifest_digest,
        };
        run.pin(pin::WRITER_DIGEST, second.writer_digest);
        run.pin(pin::UNIT_SET_DIGEST, second.set_digest);
        let key = key::cutplan(second.writer_digest).to_string();
        let rows = second.rows.len();
        run.plan = Some(second);
        run.text = source.text;
        Ok(Acted {
            key,
            work: vec!["built the plan twice from the stored bytes".to_owned(), format!("{rows} rows")],
            diff: run.pinned(&["writer_digest", "unit_set_digest"]),
            ..Acted::of(cutplan::judge(&facts), "cutplan_ok")
        })
    }
}
