//! What is signed in a document that is not one whole signed text.

use alloc::string::String;
use alloc::vec::Vec;

use jiff::{SignedDuration, Timestamp};

use super::policy::genuine;
use crate::gate::authorization::AuthorizationFacts;
use crate::gate::plain;
use crate::port::PortResult;
use crate::port::signer::SignatureVerifier;
use crate::record::check::GateReport;
use crate::record::policy::Chain;
use crate::record::signature::SignatureFacts;

/// At most so many signed texts of one document are looked at,
const PARTS_MAX: usize = 16;
/// and a signature may be so much ahead of the clock.
const AHEAD: SignedDuration = SignedDuration::from_hours(24 * 400);

/// The genuine signatures in a document that is not one whole signed text: something stands around or
/// between, it is quoted, its lines are stored with blanks that no signature covers, or a clock was ahead. What
/// they cover is nobody's answer, and may be meant as one.
async fn signed_parts(
    signatures: &dyn SignatureVerifier,
    chain: &Chain,
    document: &[u8],
    now: Timestamp,
) -> PortResult<Vec<SignatureFacts>> {
    let text = String::from_utf8_lossy(document);
    let mut parts = Vec::new();
    for block in blocks(&text).into_iter().take(PARTS_MAX) {
        let mut facts = genuine(signatures, chain, block.as_bytes(), now).await?;
        if matches!(&facts, SignatureFacts::Bad { code, .. } if code == "signature_in_future") {
            let then = now.checked_add(AHEAD).unwrap_or(now);
            facts = genuine(signatures, chain, block.as_bytes(), then).await?;
        }
        parts.extend(matches!(facts, SignatureFacts::Good { .. }).then_some(facts));
    }
    Ok(parts)
}

/// Every clear-signed block of a text, without what mail programs put before its lines.
fn blocks(text: &str) -> Vec<String> {
    let (mut blocks, mut open, mut quote) = (Vec::new(), None::<String>, "");
    for line in text.lines() {
        if let Some((before, _)) =
            line.split_once("-----BEGIN ").filter(|(_, after)| after.contains(" SIGNED MESSAGE-----"))
        {
            (open, quote) = (Some(String::new()), before);
        }
        if let Some(block) = &mut open {
            let line =
                line.strip_prefix(quote).or_else(|| line.strip_prefix(quote.trim_end())).unwrap_or(line);
            block.push_str(line);
            block.push('\n');
            if line.starts_with("-----") && line.contains(" SIGNATURE") && !line.contains("BEGIN ") {
                blocks.extend(open.take());
            }
        }
    }
    blocks
}

/// Of a document that is no whole signed text the signed part that is not plain, if it has one: the report then
/// says so.
pub(crate) async fn unclear_part(
    signatures: &dyn SignatureVerifier,
    chain: &Chain,
    document: &[u8],
    facts: AuthorizationFacts,
    report: &mut GateReport,
) -> PortResult<Option<SignatureFacts>> {
    if !matches!(facts.signature, SignatureFacts::Bad { .. }) {
        return Ok(None);
    }
    for part in signed_parts(signatures, chain, document, facts.now).await? {
        let facts = AuthorizationFacts { signature: part.clone(), ..facts.clone() };
        if let Some(unclear) = plain::unclear(&facts, report) {
            report.checks.insert(0, unclear);
            return Ok(Some(part));
        }
    }
    Ok(None)
}
