//! The verdict on a document that may answer, and what is signed in one that is not one whole signed text.

use alloc::vec;
use alloc::vec::Vec;

use super::policy::MayRefuse;
use crate::base::digest::Digest;
use crate::gate::authorization::{self, AuthorizationFacts};
use crate::gate::plain::{self, NotTaken};
use crate::gate::verified::{NotVerified, VerifiedApproval, verify};
use crate::port::PortResult;
use crate::port::signer::SignatureVerifier;
use crate::record::check::GateReport;
use crate::record::policy::Chain;
use crate::record::signature::SignatureFacts;

/// At most so many signed texts of one document are looked at.
const PARTS_MAX: usize = 16;
const BEGIN: &[u8] = b"-----BEGIN ";
const SIGNED_MESSAGE: &[u8] = b" SIGNED MESSAGE-----";
const SIGNATURE: &[u8] = b" SIGNATURE";

/// The texts that somebody's key signed in a document that is not one whole signed text: something stands around or
/// between, it is quoted, its lines are stored with blanks that no signature covers, a character does not read, or
/// the signature or its key is good no more. What they cover is nobody's answer, and may be meant as one.
///
/// # Errors
/// The port's.
pub async fn signed_parts(
    signatures: &dyn SignatureVerifier,
    chain: &Chain,
    document: &[u8],
) -> PortResult<Vec<SignatureFacts>> {
    let (keys, mut parts) = (chain.public_keys(), Vec::new());
    for block in blocks(document).into_iter().take(PARTS_MAX) {
        for part in signatures.signers(&block, &keys).await? {
            if !parts.contains(&part) {
                parts.push(part);
            }
        }
    }
    Ok(parts)
}

fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes.windows(wanted.len()).position(|window| window == wanted)
}

/// Every clear-signed block of a document, without what mail programs put before its lines: as it stands, and as it
/// reads where an editor stored two bytes a character, or line ends of its own.
fn blocks(document: &[u8]) -> Vec<Vec<u8>> {
    let mut found = blocks_of(document);
    if document.contains(&0) {
        let narrow: Vec<u8> = document.iter().copied().filter(|byte| *byte != 0).collect();
        found.extend(blocks_of(&narrow));
    }
    if !document.contains(&b'\n') && document.contains(&b'\r') {
        let lines: Vec<u8> = document.iter().map(|byte| if *byte == b'\r' { b'\n' } else { *byte }).collect();
        found.extend(blocks_of(&lines));
    }
    if document.windows(3).any(|three| three == b"=3D") || find(document, b"=\n").is_some() {
        found.extend(blocks_of(&unquoted(document)));
    }
    found
}

/// A text without what quoted-printable makes of it.
fn unquoted(document: &[u8]) -> Vec<u8> {
    let (mut plain, mut rest) = (Vec::with_capacity(document.len()), document);
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    while let [first, after @ ..] = rest {
        rest = after;
        match (first, after) {
            (b'=', [b'\n', behind @ ..] | [b'\r', b'\n', behind @ ..]) => rest = behind,
            (b'=', [high, low, behind @ ..]) => match digit(*high).zip(digit(*low)) {
                Some((high, low)) => {
                    plain.push(high << 4 | low);
                    rest = behind;
                }
                None => plain.push(b'='),
            },
            _ => plain.push(*first),
        }
    }
    plain
}

/// One that lost its end goes on to the next, or to the end of the document.
fn blocks_of(document: &[u8]) -> Vec<Vec<u8>> {
    let (mut blocks, mut open, mut quote) = (Vec::new(), None::<Vec<u8>>, &b""[..]);
    for line in document.split(|byte| *byte == b'\n') {
        let begins = find(line, BEGIN).filter(|at| find(&line[*at..], SIGNED_MESSAGE).is_some());
        if let Some(at) = begins {
            blocks.extend(open.take());
            (open, quote) = (Some(Vec::new()), &line[..at]);
        }
        if let Some(block) = &mut open {
            let bare = line.strip_prefix(quote).or_else(|| line.strip_prefix(quote.trim_ascii_end()));
            let line = bare.unwrap_or(line);
            block.extend_from_slice(line);
            block.push(b'\n');
            let is_of = |words: &[u8]| find(line, words).is_some();
            if line.starts_with(b"-----") && is_of(SIGNATURE) && !is_of(b"BEGIN ") {
                blocks.extend(open.take());
            }
        }
    }
    blocks.extend(open);
    blocks.retain(|block| find(block, SIGNATURE).is_some());
    blocks
}

/// The verdict on a document for one ask: the answer, or why it is none. Of a document that is no whole signed text
/// the signed part that is not plain, if it has one: the report then says so.
pub(crate) async fn verdict_on_document(
    signatures: &dyn SignatureVerifier,
    chain: &Chain,
    document: &[u8],
    facts: AuthorizationFacts,
) -> PortResult<Result<VerifiedApproval, NotTaken>> {
    let may_refuse = MayRefuse::of(chain, &facts.ask);
    let mut report = match verdict_on(facts.clone(), &may_refuse, Digest::of(document)) {
        Ok(approval) => return Ok(Ok(approval)),
        Err(NotVerified(report)) => report,
    };
    let parts = match facts.signature {
        SignatureFacts::Bad { .. } => signed_parts(signatures, chain, document).await?,
        _ => vec![],
    };
    let whole = facts.signature.clone();
    let facts = AuthorizationFacts { policy: may_refuse.since_asked, ..facts };
    for part in parts {
        let facts = AuthorizationFacts { signature: part.clone(), ..facts.clone() };
        if let Some(unclear) = plain::unclear(&facts, &report) {
            report.checks.insert(0, unclear);
            return Ok(Err(NotTaken { report, signature: part }));
        }
    }
    Ok(Err(NotTaken { report, signature: whole }))
}

/// The verdict on an answer. Whoever may approve now may refuse, also what was asked before they could.
fn verdict_on(
    facts: AuthorizationFacts,
    may_refuse: &MayRefuse,
    sha256: Digest,
) -> Result<VerifiedApproval, NotVerified> {
    let report = authorization::judge(&facts);
    let verdict = verify(&facts, &report, sha256);
    if verdict.as_ref().is_ok_and(VerifiedApproval::allows)
        && let Some(fault) = plain::not_only_approval(&facts.signature)
    {
        return Err(NotVerified(GateReport { gate: report.gate, checks: vec![fault] }));
    }
    verdict.or_else(|NotVerified(mut report)| {
        let facts = AuthorizationFacts { policy: may_refuse.now.clone(), ..facts };
        let verdict = verify(&facts, &authorization::judge(&facts), sha256);
        verdict.ok().filter(|answer| !answer.allows()).ok_or_else(|| {
            let facts = AuthorizationFacts { policy: may_refuse.since_asked.clone(), ..facts };
            if let Some(unclear) = plain::unclear(&facts, &report) {
                report.checks.insert(0, unclear);
            }
            NotVerified(report)
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::String;

    #[test]
    fn every_signed_block_is_found_however_it_is_stored() {
        let one = b"-----BEGIN X SIGNED MESSAGE-----\n\ntext\n-----BEGIN X SIGNATURE-----\n\na\n-----END X SIGNATURE-----\n";
        let quoted: Vec<u8> =
            one.split_inclusive(|b| *b == b'\n').flat_map(|line| [b"> ", line].concat()).collect();
        let wide: Vec<u8> =
            [&b"\xff\xfe"[..], &one.iter().flat_map(|b| [*b, 0]).collect::<Vec<u8>>()].concat();
        let old: Vec<u8> = one.iter().map(|b| if *b == b'\n' { b'\r' } else { *b }).collect();
        let mailed = String::from_utf8_lossy(one).replace("text", "te=\nx=74").into_bytes();
        for (what, document, number) in [
            ("alone", one.to_vec(), 1),
            ("twice", [&one[..], one].concat(), 2),
            ("behind others", [&b"\xe9 Dear all,\n\n"[..], one].concat(), 1),
            ("quoted", quoted, 1),
            ("of two bytes", wide, 1),
            ("with old line ends", old, 1),
            ("cut short", one[..40].to_vec(), 0),
            ("quoted for mail", mailed, 1),
        ] {
            let found = blocks(&document);
            assert!(found.iter().filter(|block| **block == one).count() == number, "{what}: {found:?}");
        }
        // without its end it is read as far as it goes
        let open = &one[..one.len() - b"-----END X SIGNATURE-----\n".len()];
        for (document, number) in [(open.to_vec(), 1), ([open, one].concat(), 2)] {
            let found = blocks(&document);
            assert_eq!(found.len(), number, "{found:?}");
            assert!(found[0].starts_with(open));
        }
    }
}
