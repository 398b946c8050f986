//! The documents that may answer an ask.

use alloc::collections::BTreeSet;
use alloc::string::String;
use alloc::vec::Vec;

use super::ReviewPorts;
use crate::driver::{approval_prefix, is_called, may_answer};
use crate::port::PortResult;
use crate::port::knowledge_base::Document;
use crate::record::approval::Ask;

/// Every document beside the request.
pub(super) async fn beside(ports: &ReviewPorts, ask: &Ask) -> PortResult<Vec<String>> {
    let Some((folder, _)) = ask.request_path.rsplit_once('/') else { return Ok(Vec::new()) };
    ports.kb.list(folder).await
}

/// Of the documents beside the request those that may answer: by their names, or, if they refuse, by what
/// they say.
pub(super) async fn candidates(
    ports: &ReviewPorts,
    ask: &Ask,
    nonces: &BTreeSet<String>,
    beside: Vec<String>,
) -> PortResult<Vec<String>> {
    let mut paths = Vec::new();
    for path in beside {
        let may = is_called(&path, approval_prefix(ask.gate))
            || match ports.kb.read(&path).await {
                Ok(Some(found)) => {
                    ask.request_path != path && may_answer(&found.bytes, core::slice::from_ref(ask), nonces)
                }
                Ok(None) => false,
                Err(error) if error.kind.is_junk() => false,
                Err(error) => return Err(error),
            };
        if may {
            paths.push(path);
        }
    }
    Ok(paths)
}

/// The request as it stands now, if it can be read.
pub(super) async fn live_request(ports: &ReviewPorts, ask: &Ask) -> PortResult<Option<Document>> {
    match ports.kb.read(&ask.request_path).await {
        Err(error) if error.kind.is_junk() => Ok(None),
        found => found,
    }
}
