//! The statement of a closed run, in the model.

use alloc::format;
use alloc::string::ToString;

use serde_json::Value;

use super::observe;
use super::rows::{Lifecycle, Tables};
use crate::base::digest::Digest;
use crate::base::id::RunId;
use crate::port::{Port, PortError, PortErrorKind, PortResult};
use crate::record::observed::Fence;
use crate::record::signature::Duty;
use crate::record::statement::{digest, subjects};
use crate::record::stored_statement::{StatementSignature, StoredStatement};

fn error(op: &str, kind: PortErrorKind, message: alloc::string::String) -> PortError {
    PortError::new(Port::Database, op, kind, message)
}

/// Stores a statement with the executor's signature; the fence was asserted.
pub(super) fn store(
    tables: &mut Tables,
    fence: &Fence,
    body: &str,
    signature: &StatementSignature,
) -> PortResult<()> {
    let (op, run_id) = ("store_statement", &fence.run_id);
    let denied = |message| Err(error(op, PortErrorKind::Denied, message));
    let set = tables.change_sets.values().find(|c| c.run_id == *run_id && c.kind == "cut");
    let in_force =
        |id| tables.units.values().any(|u| u.change_set_id == id && u.lifecycle_status == Lifecycle::Enacted);
    let Some(set) = set.filter(|set| in_force(set.change_set_id)) else {
        return denied(format!("{run_id} has nothing in force that a statement could be about"));
    };
    let source = tables.versions.get(&set.source_version_id).map(|v| v.sha256);
    let rows = observe::rows_digest(tables, set.change_set_id);
    let expected = source.zip(rows).map(|(source, rows)| subjects(&source, &rows));
    let said: Value = serde_json::from_str(body).unwrap_or_default();
    if signature.duty != Duty::Executor || said.get("subject") != expected.as_ref() {
        return denied(format!("the statement of {run_id} is about another text or other units"));
    }
    let stored = tables.statements.entry(run_id.clone()).or_default();
    match stored.iter_mut().find(|stored| stored.body == body) {
        Some(stored) => add(stored, signature),
        None => stored
            .push(StoredStatement { body: body.to_string(), signatures: alloc::vec![signature.clone()] }),
    }
    Ok(())
}

fn add(stored: &mut StoredStatement, signature: &StatementSignature) {
    if !stored.signatures.contains(signature) {
        stored.signatures.push(signature.clone());
    }
}

/// Adds the verifier's signature; the fence was asserted.
pub(super) fn sign(
    tables: &mut Tables,
    run_id: &RunId,
    statement: &Digest,
    signature: &StatementSignature,
) -> PortResult<()> {
    let stored = tables.statements.get_mut(run_id).into_iter().flatten();
    let stored = stored.filter(|stored| digest(&stored.body) == *statement).find(|stored| {
        let mut executors = stored.signatures.iter().filter(|s| s.duty == Duty::Executor);
        executors.any(|e| e.public_key != signature.public_key) && signature.duty == Duty::Verifier
    });
    let Some(stored) = stored else {
        let message = format!("{run_id} has no such statement that another key has signed");
        return Err(error("sign_statement", PortErrorKind::Denied, message));
    };
    add(stored, signature);
    Ok(())
}
