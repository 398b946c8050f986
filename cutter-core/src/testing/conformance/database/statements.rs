//! What a closed run says of itself: about what is in force, signed by two keys; what else is stored stands
//! beside it.

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use serde_json::json;

use super::DatabaseUnderTest;
use crate::base::digest::Digest;
use crate::port::PortErrorKind;
use crate::record::effect::EffectName;
use crate::record::signature::Duty;
use crate::record::statement::{digest, subjects};
use crate::record::stored_statement::StatementSignature;
use crate::testing::conformance::fixture::{Case, Chain};
use crate::testing::conformance::{Held, equal, refused};

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

pub(super) async fn a_statement_is_about_what_is_in_force(db: &DatabaseUnderTest) -> Held {
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
    let sha256 = digest(&said);
    let early = db.verifier.sign_statement(&chain.fence, &sha256, &verifier).await;
    refused("a signature under no statement", DENIED, early)?;
    let mut stale = chain.fence.clone();
    stale.epoch -= 1;
    let late = db.executor.store_statement(&stale, &said, &signed).await;
    refused("a stale fence", &[PortErrorKind::Fenced], late)?;
    equal("no statement", 0, db.reader.statements(&run_id).await?.len())?;
    for _ in 0..2 {
        store(said.clone()).await?;
    }
    let beside = body(&chain.case, &rows, "two");
    store(beside.clone()).await?;
    let same = signature(Duty::Verifier, "executor");
    refused(
        "the executor's key twice",
        DENIED,
        db.verifier.sign_statement(&chain.fence, &sha256, &same).await,
    )?;
    let late = db.verifier.sign_statement(&stale, &sha256, &verifier).await;
    refused("a stale fence", &[PortErrorKind::Fenced], late)?;
    for _ in 0..2 {
        db.verifier.sign_statement(&chain.fence, &sha256, &verifier).await?;
    }
    let another = signature(Duty::Verifier, "another");
    db.verifier.sign_statement(&chain.fence, &sha256, &another).await?;
    let none = db.verifier.sign_statement(&chain.fence, &Digest::of(b"none"), &verifier).await;
    refused("a signature under a statement that is not there", DENIED, none)?;
    let found = db.reader.statements(&run_id).await?;
    let bodies: Vec<&str> = found.iter().map(|s| s.body.as_str()).collect();
    equal("the bodies, oldest first", alloc::vec![said.as_str(), beside.as_str()], bodies)?;
    let of = |s: &StatementSignature| (s.duty, s.public_key.clone(), s.signature.clone());
    let signatures: Vec<Vec<_>> = found.iter().map(|s| s.signatures.iter().map(of).collect()).collect();
    let expected = [alloc::vec![of(&signed), of(&verifier), of(&another)], alloc::vec![of(&signed)]];
    equal("the signatures, executor's first", expected.to_vec(), signatures)
}
