//! What a closed run says of itself: stored once, about what is in force, signed by two keys.

use alloc::string::{String, ToString};

use serde_json::json;

use super::DatabaseUnderTest;
use crate::base::digest::Digest;
use crate::port::PortErrorKind;
use crate::record::effect::EffectName;
use crate::record::signature::Duty;
use crate::record::statement::subjects;
use crate::record::stored_statement::StatementSignature;
use crate::testing::conformance::fixture::{Case, Chain};
use crate::testing::conformance::{Held, equal, holds, refused};

const DENIED: &[PortErrorKind] = &[PortErrorKind::Denied];

fn body(case: &Case, rows: &Digest, says: &str) -> String {
    let source = Digest::of(case.text.as_bytes());
    json!({ "subject": subjects(&source, rows), "predicate": { "says": says } }).to_string()
}

fn signature(duty: Duty, key: &str) -> StatementSignature {
    let (key, other) = (Digest::of(key.as_bytes()), Digest::of(duty.as_str().as_bytes()));
    StatementSignature {
        duty,
        public_key: key.to_hex(),
        signature: alloc::format!("{key}{other}"),
        recorded_at: None,
    }
}

pub(super) async fn a_statement_is_made_once_about_what_is_in_force(db: &DatabaseUnderTest) -> Held {
    let chain = Chain::through(db, Case::new(1), EffectName::Sg2Review).await?;
    let run_id = chain.case.run_id();
    let rows = chain.case.rows_digest();
    let said = body(&chain.case, &rows, "one");
    let signed = signature(Duty::Executor, "executor");
    let store = |body: String| {
        let (fence, signed) = (chain.fence.clone(), signed.clone());
        async move { db.executor.store_statement(&fence, &body, &signed).await }
    };
    refused("a statement about drafts", DENIED, store(said.clone()).await)?;
    chain.commit(EffectName::Enact).await?;
    let other = body(&chain.case, &Digest::of(b"other rows"), "one");
    refused("a statement about other units", DENIED, store(other).await)?;
    let verifier = signature(Duty::Verifier, "verifier");
    let early = db.verifier.sign_statement(&chain.fence, &verifier).await;
    refused("a signature under no statement", DENIED, early)?;
    let mut stale = chain.fence.clone();
    stale.epoch -= 1;
    let late = db.executor.store_statement(&stale, &said, &signed).await;
    refused("a stale fence", &[PortErrorKind::Fenced], late)?;
    equal("no statement", None, db.reader.statement(&run_id).await?.map(|s| s.body))?;
    for _ in 0..2 {
        store(said.clone()).await?;
    }
    refused("another statement", &[PortErrorKind::Conflict], store(body(&chain.case, &rows, "two")).await)?;
    let same = signature(Duty::Verifier, "executor");
    refused("the executor's key twice", DENIED, db.verifier.sign_statement(&chain.fence, &same).await)?;
    let late = db.verifier.sign_statement(&stale, &verifier).await;
    refused("a stale fence", &[PortErrorKind::Fenced], late)?;
    for _ in 0..2 {
        db.verifier.sign_statement(&chain.fence, &verifier).await?;
    }
    let Some(stored) = db.reader.statement(&run_id).await? else {
        return holds("the statement", false, "absent".to_string());
    };
    equal("the body", said, stored.body)?;
    let keys: alloc::vec::Vec<_> =
        stored.signatures.iter().map(|s| (s.duty, s.public_key.clone(), s.signature.clone())).collect();
    let of = |s: StatementSignature| (s.duty, s.public_key, s.signature);
    equal("both signatures", alloc::vec![of(signed), of(verifier)], keys)
}
