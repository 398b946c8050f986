//! What a report may not show: secrets, and runs other than its own.
//!
//! The patterns are those of connection strings and private keys. They err towards refusing; a
//! stop-route report, which must always appear, withholds the word instead ([`withhold`]).

use alloc::borrow::ToOwned;
use alloc::string::{String, ToString};
use core::ops::Range;

use super::ReportError;
use crate::base::id::RunId;

/// Refuses a text with a secret or another run's id.
pub(super) fn check(text: &str, run_id: &str) -> Result<(), ReportError> {
    // Most texts hold none of the words that every pattern has, and need no look at each line.
    let is_suspect = has_a_pattern(text) || (text.contains("&#") && has_a_pattern(&unescaped(text)));
    if !is_suspect && other_run(text, run_id).is_none() {
        return Ok(());
    }
    for (i, line) in text.lines().enumerate() {
        if is_suspect && let Some((_, what)) = secret(line).or_else(|| secret(&unescaped(line))) {
            return Err(ReportError::Secret { line: i + 1, what });
        }
        if let Some(observed) = other_run(line, run_id) {
            return Err(ReportError::OtherRun { run_id: run_id.to_owned(), line: i + 1, observed });
        }
    }
    Ok(())
}

/// The text with every secret replaced, up to the next space or quote.
pub(super) fn withhold(text: &str) -> String {
    let mut rest = text;
    let mut out = String::with_capacity(text.len());
    while let Some((range, what)) = secret(rest) {
        out.push_str(rest.get(..range.start).unwrap_or_default());
        out.push_str("[withheld: ");
        out.push_str(what);
        out.push(']');
        rest = rest.get(range.end..).unwrap_or_default();
    }
    out.push_str(rest);
    out
}

/// Undoes the entities that `report::text` writes, so that they hide nothing from the patterns.
fn unescaped(line: &str) -> String {
    let mut out = line.to_owned();
    if !line.contains("&#") {
        return out;
    }
    for c in (b'!'..=b'~').filter(u8::is_ascii_punctuation).map(char::from) {
        let entity = super::text::entity(c);
        if out.contains(&entity) {
            out = out.replace(&entity, &c.to_string());
        }
    }
    out
}

/// Words before a value that is nobody's to see.
const KEYS: [&str; 7] =
    ["password", "passwd", "passphrase", "pgpassword", "secret_key", "api_key", "access_token"];

/// One of them is in whatever [`secret`] finds, and each of [`KEYS`] has one.
const STEMS: [&str; 6] = ["://", "begin ", "passw", "passp", "_key", "_token"];

/// Whether a text holds a word without which [`secret`] finds nothing.
fn has_a_pattern(text: &str) -> bool {
    let lower = text.to_ascii_lowercase();
    STEMS.iter().any(|word| lower.contains(word))
}

/// The first thing in a text that looks like a secret.
fn secret(text: &str) -> Option<(Range<usize>, &'static str)> {
    let lower = text.to_ascii_lowercase();
    let mut first: Option<(Range<usize>, &'static str)> = None;
    let mut found = |start: usize, what: &'static str| {
        if first.as_ref().is_none_or(|(r, _)| start < r.start) {
            first = Some((word_at(text, start), what));
        }
    };
    for scheme in ["postgres://", "postgresql://"] {
        if let Some(at) = lower.find(scheme) {
            found(at, "a database address");
        }
    }
    for (at, _) in lower.match_indices("://") {
        let authority = lower.get(at + 3..).unwrap_or_default();
        let end = authority.find(|c: char| matches!(c, '/' | '"' | '\'') || c.is_whitespace());
        let authority = authority.get(..end.unwrap_or(authority.len())).unwrap_or_default();
        if authority.split_once('@').is_some_and(|(user, _)| user.contains(':')) {
            let start = lower.get(..at).map_or(0, |head| {
                head.rfind(|c: char| !c.is_ascii_alphanumeric() && c != '+').map_or(0, |i| i + 1)
            });
            found(start.min(at), "an address with a password");
        }
    }
    for key in KEYS {
        for (at, _) in lower.match_indices(key) {
            let rest = lower.get(at + key.len()..).unwrap_or_default();
            let rest = rest.strip_prefix('"').unwrap_or(rest).trim_start();
            let value = rest.strip_prefix('=').or_else(|| rest.strip_prefix("\":"));
            let value = value.or_else(|| {
                rest.strip_prefix(':').filter(|_| lower.as_bytes().get(at.wrapping_sub(1)) == Some(&b'"'))
            });
            if value.is_some_and(|v| {
                !v.trim_matches(|c: char| matches!(c, '"' | '\'' | ' ' | ',' | '`')).is_empty()
            }) {
                found(at, "a password or key");
            }
        }
    }
    if let Some(at) =
        lower.find("begin ").filter(|at| lower.get(*at..).is_some_and(|r| r.contains("private key")))
    {
        found(at, "a private key");
    }
    first
}

/// From `start` to the next space or quote; a value after ` = ` or `": "` belongs to it.
fn word_at(text: &str, start: usize) -> Range<usize> {
    let rest = text.get(start..).unwrap_or_default();
    let stop = |c: char| c.is_whitespace() || matches!(c, '"' | '\'' | '`');
    let mut end = rest.find(stop).unwrap_or(rest.len());
    let tail = rest.get(end..).unwrap_or_default();
    let gap = tail.len() - tail.trim_start_matches([' ', '"', '\'', ':', '=']).len();
    let joined = tail.get(..gap).is_some_and(|g| g.contains([':', '=']))
        || rest.get(..end).is_some_and(|w| w.ends_with(['=', ':']));
    if joined {
        let value = tail.get(gap..).unwrap_or_default();
        end += gap + value.find(stop).unwrap_or(value.len());
    }
    start..start + end
}

/// A run id in the text that is not this run's.
fn other_run(text: &str, run_id: &str) -> Option<String> {
    const LENGTH: usize = "ictr-20260520T101112Z-".len() + 36;
    text.match_indices("ictr-")
        .filter_map(|(at, _)| text.get(at..at + LENGTH))
        .find(|id| *id != run_id && id.parse::<RunId>().is_ok())
        .map(ToOwned::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    const RUN: &str = "ictr-20260520T101112Z-0196ed9a-1c00-7000-8000-000000000001";

    #[test]
    fn secrets_are_found_however_they_stand_there() {
        for line in [
            "postgres://u:p@h/db",
            "see POSTGRESQL://host/db for it",
            "https://user:hunter2@example.org/x",
            "password=hunter2",
            "PGPASSWORD = hunter2",
            "{\"password\": \"hunter2\"}",
            "host=h user=u password='hunter2'",
            "-----BEGIN PGP PRIVATE KEY BLOCK-----",
            "-----BEGIN OPENSSH PRIVATE KEY-----",
            "password&#61;hunter2",
        ] {
            assert!(matches!(check(line, RUN), Err(ReportError::Secret { line: 1, .. })), "{line}");
            let kept = withhold(line);
            assert!(!kept.contains("hunter2") || line.contains("&#"), "{kept}");
        }
    }

    #[test]
    fn every_key_has_a_stem() {
        assert!(KEYS.iter().all(|key| STEMS.iter().any(|stem| key.contains(stem))));
    }

    #[test]
    fn plain_words_are_no_secrets() {
        for line in [
            "ICX-CONST/ch-1/h-password-policy",
            "the password is never written",
            "https://example.org/a:b@c",
            "password=",
            "knowledge/dev/laws/icx-const/v1",
            "Password: see article 3",
        ] {
            assert_eq!(check(line, RUN), Ok(()), "{line}");
            assert_eq!(withhold(line), line);
        }
    }

    #[test]
    fn what_is_withheld_leaves_the_rest_as_it_is() {
        let text = "a\n  \"dsn\": \"postgres://u:p@h/db\",\n  \"password\": \"x y\",\n  \"n\": 1\n";
        let kept = withhold(text);
        assert_eq!(
            kept,
            "a\n  \"dsn\": \"[withheld: a database address]\",\n  \"[withheld: a password or key] y\",\n  \"n\": 1\n"
        );
    }

    #[test]
    fn another_run_is_found_and_this_one_is_not() {
        let other = RUN.replace("000001", "000002");
        assert_eq!(check(RUN, RUN), Ok(()));
        let error = check(&alloc::format!("a\nsee {other}"), RUN).unwrap_err();
        assert_eq!(error, ReportError::OtherRun { run_id: RUN.to_owned(), line: 2, observed: other });
        assert_eq!(check("ictr-20260520T101112Z-not-a-uuid-at-all-0000000000000000000", RUN), Ok(()));
    }
}
