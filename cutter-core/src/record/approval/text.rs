//! The text that a person signs: written, and read strictly.

use alloc::borrow::ToOwned;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use jiff::Timestamp;

use super::{Ask, RESERVED, allows};
use crate::base::limits::APPROVAL_MAX_BYTES;
use crate::base::visible::{self, one_line};
use crate::record::effect::ReviewVerdict;

/// The value of the `format` field.
pub const FORMAT: &str = "cutter-approval/1";

/// What is wrong with an approval's text. For the person who wrote it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ApprovalParseError {
    /// Longer than any approval is.
    #[error("the approval is {bytes} bytes long, expected at most {max}", max = APPROVAL_MAX_BYTES)]
    TooLong {
        /// Its length.
        bytes: usize,
    },
    /// The same field twice: nobody can say which one was meant.
    #[error("line {line}: field {key} stands there a second time, expected once")]
    Duplicate {
        /// From 1.
        line: usize,
        /// The field.
        key: String,
    },
    /// Characters that a reader cannot see, or that change the order of what is seen.
    #[error("line {line}: invisible or direction-changing character U+{code:04X}, expected plain text")]
    Invisible {
        /// From 1.
        line: usize,
        /// The character.
        code: u32,
    },
    /// A field is not there.
    #[error("field {key} is missing, expected a line `{key}: …`")]
    Missing {
        /// The field.
        key: &'static str,
    },
    /// A field cannot be read.
    #[error("field {key}: expected {expected}, observed {observed:?}")]
    Unreadable {
        /// The field.
        key: &'static str,
        /// What it should be.
        expected: &'static str,
        /// What stands there.
        observed: String,
    },
}

/// An approval's text, read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApprovalText {
    /// What kind of approval.
    pub approval_type: String,
    /// What was decided.
    pub decision: ReviewVerdict,
    /// Which gate it answers.
    pub gate: String,
    /// Which occurrence of it.
    pub occurrence: u32,
    /// Who decided, by name.
    pub actor: String,
    /// When, by the signer's own clock.
    pub signed_at: Timestamp,
    /// When it ends; `None` for `never`.
    pub expires: Option<Timestamp>,
    /// All fields as written, the ones above and unknown ones included.
    pub fields: BTreeMap<String, String>,
}

/// Can a reader see this character, and only where it stands?
pub(crate) fn is_visible(c: char) -> bool {
    !(visible::is_hidden(c) || visible::is_joiner(c))
}

/// A key of a field line: `[a-z][a-z0-9_]*`.
pub(crate) fn is_key(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_lowercase())
        && text.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
}

/// Fields by name (the first of each) and everything that is wrong with the lines as such.
pub(crate) fn scan(text: &str) -> (BTreeMap<String, String>, Vec<ApprovalParseError>) {
    let (mut fields, mut errors) = (BTreeMap::new(), Vec::new());
    if text.len() > APPROVAL_MAX_BYTES {
        errors.push(ApprovalParseError::TooLong { bytes: text.len() });
        return (fields, errors);
    }
    for (i, line) in text.split('\n').enumerate() {
        let line = line.strip_suffix('\r').unwrap_or(line);
        if let Some(c) = line.chars().find(|c| !is_visible(*c) && *c != '\t') {
            errors.push(ApprovalParseError::Invisible { line: i + 1, code: u32::from(c) });
        }
        let Some((key, value)) = line.split_once(':').filter(|(key, _)| is_key(key)) else { continue };
        if fields.contains_key(key) {
            errors.push(ApprovalParseError::Duplicate { line: i + 1, key: key.to_owned() });
        } else {
            fields.insert(key.to_owned(), value.trim_matches([' ', '\t']).to_owned());
        }
    }
    (fields, errors)
}

/// Reads a decision; the words of [`ReviewVerdict::as_str`] and no others.
#[must_use]
pub fn parse_verdict(text: &str) -> Option<ReviewVerdict> {
    [ReviewVerdict::Approve, ReviewVerdict::Defer, ReviewVerdict::Reject]
        .into_iter()
        .find(|v| v.as_str() == text)
}

/// Reads `expires`: `never` or a time. `None` if it is neither.
pub(crate) fn parse_expires(text: &str) -> Option<Option<Timestamp>> {
    if text == "never" { Some(None) } else { text.parse().ok().map(Some) }
}

impl ApprovalText {
    /// Reads an approval's text (the text that the signature covers, not the armour). Every
    /// field at most once; lines that are no `key: value` line are prose; unknown fields are
    /// kept; line ends may be LF or CRLF.
    ///
    /// # Errors
    /// [`ApprovalParseError`], the first one found.
    pub fn parse(text: &str) -> Result<Self, ApprovalParseError> {
        let (fields, errors) = scan(text);
        if let Some(error) = errors.into_iter().next() {
            return Err(error);
        }
        let get = |key: &'static str| {
            fields.get(key).filter(|v| !v.is_empty()).cloned().ok_or(ApprovalParseError::Missing { key })
        };
        fn read<T>(
            key: &'static str,
            expected: &'static str,
            text: &str,
            value: Option<T>,
        ) -> Result<T, ApprovalParseError> {
            value.ok_or_else(|| ApprovalParseError::Unreadable {
                key,
                expected,
                observed: text.chars().take(80).collect(),
            })
        }
        let format = get("format")?;
        read("format", FORMAT, &format, (format == FORMAT).then_some(()))?;
        let (decision, occurrence) = (get("decision")?, get("occurrence")?);
        let (signed_at, expires) = (get("signed_at")?, get("expires")?);
        Ok(Self {
            approval_type: get("approval_type")?,
            decision: read("decision", "approve, defer or reject", &decision, parse_verdict(&decision))?,
            gate: get("gate")?,
            occurrence: read(
                "occurrence",
                "a number from 1",
                &occurrence,
                occurrence.parse().ok().filter(|n| *n > 0),
            )?,
            actor: get("actor")?,
            signed_at: read(
                "signed_at",
                "a time such as 2026-05-20T10:11:12Z",
                &signed_at,
                signed_at.parse().ok(),
            )?,
            expires: read(
                "expires",
                "never, or a time such as 2026-05-20T10:11:12Z",
                &expires,
                parse_expires(&expires),
            )?,
            fields,
        })
    }
}

/// The text to sign: deterministic, a function of its arguments alone. `extra` (say `reason` or
/// `minutes_granted`) is written after the required fields; an extra that would repeat one of
/// them, or that is no field name, is left out.
#[must_use]
pub fn render_approval(
    ask: &Ask,
    decision: ReviewVerdict,
    actor: &str,
    signed_at: Timestamp,
    expires: Option<Timestamp>,
    extra: &BTreeMap<String, String>,
) -> String {
    let expires = expires.map_or_else(|| "never".to_owned(), |t| t.to_string());
    render(ask, decision.as_str(), actor, &signed_at.to_string(), &expires, extra)
}

/// As [`render_approval`], with placeholders for what the approver fills in by hand.
pub(crate) fn render(
    ask: &Ask,
    decision: &str,
    actor: &str,
    signed_at: &str,
    expires: &str,
    extra: &BTreeMap<String, String>,
) -> String {
    let (title, sentence) = match parse_verdict(decision) {
        Some(ReviewVerdict::Defer) => ("Deferral", "Not now: allows nothing.".to_owned()),
        Some(ReviewVerdict::Reject) => ("Refusal", "No: allows nothing.".to_owned()),
        _ => ("Approval", allows(ask)),
    };
    let mut out =
        format!("# {title}: {}\n\n{}\n\n", ask.approval_type.replace('_', " "), one_line(&sentence));
    let mut line = |key: &str, value: &str| {
        // no space at a line's end: clear-signing does not cover it
        out.push_str(format!("{key}: {}", one_line(value)).trim_end());
        out.push('\n');
    };
    line("format", FORMAT);
    line("approval_type", &ask.approval_type);
    line("decision", decision);
    line("gate", ask.gate.as_str());
    line("occurrence", &ask.occurrence.to_string());
    for (key, value) in ask.ordered().into_iter().filter(|(k, _)| is_key(k) && !RESERVED.contains(k)) {
        line(key, value);
    }
    let free = |key: &str| is_key(key) && !RESERVED.contains(&key) && !ask.required.contains_key(key);
    for (key, value) in extra.iter().filter(|(key, _)| free(key)) {
        line(key, value);
    }
    line("actor", actor);
    line("signed_at", signed_at);
    line("expires", expires);
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gate::authorization::AuthorizationFacts;
    use proptest::prelude::*;

    fn at() -> Timestamp {
        "2026-05-20T10:11:12Z".parse().unwrap()
    }

    fn extra(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
    }

    #[test]
    fn what_is_written_is_read_back() {
        let ask = AuthorizationFacts::example().ask;
        let more = extra(&[("reason", "checked by two people"), ("minutes_granted", "30")]);
        let text = render_approval(&ask, ReviewVerdict::Approve, "sovereign", at(), Some(at()), &more);
        insta::assert_snapshot!("approval_text", text);
        let read = ApprovalText::parse(&text).unwrap();
        assert_eq!((read.decision, read.occurrence), (ReviewVerdict::Approve, ask.occurrence));
        assert_eq!((read.actor.as_str(), read.signed_at, read.expires), ("sovereign", at(), Some(at())));
        for (key, value) in &ask.required {
            assert_eq!(read.fields.get(key), Some(value), "{key}");
        }
        assert_eq!(read.fields.get("minutes_granted").map(String::as_str), Some("30"));
        assert_eq!(ApprovalText::parse(&text.replace('\n', "\r\n")).unwrap(), read);
    }

    #[test]
    fn a_field_twice_is_refused_known_or_not() {
        let ask = AuthorizationFacts::example().ask;
        let text = render_approval(&ask, ReviewVerdict::Reject, "a", at(), None, &BTreeMap::new());
        for again in ["decision: approve", "run_id: other", "note: a\nnote: b"] {
            let error = ApprovalText::parse(&format!("{text}{again}\n")).unwrap_err();
            assert!(matches!(error, ApprovalParseError::Duplicate { .. }), "{error}");
        }
    }

    #[test]
    fn what_does_not_read_is_shown_in_short() {
        let ask = AuthorizationFacts::example().ask;
        let text = render_approval(&ask, ReviewVerdict::Approve, "a", at(), None, &BTreeMap::new());
        let long = text.replace("decision: approve", &format!("decision: {}", "y".repeat(99)));
        let Err(ApprovalParseError::Unreadable { observed, .. }) = ApprovalText::parse(&long) else {
            panic!("it reads")
        };
        assert_eq!(observed, "y".repeat(80));
    }

    #[test]
    fn each_missing_or_unreadable_field_is_named() {
        let ask = AuthorizationFacts::example().ask;
        let text = render_approval(&ask, ReviewVerdict::Approve, "a", at(), None, &BTreeMap::new());
        for key in RESERVED {
            let cut: String = text
                .lines()
                .filter(|l| !l.starts_with(&format!("{key}: ")))
                .map(|l| format!("{l}\n"))
                .collect();
            assert_eq!(ApprovalText::parse(&cut), Err(ApprovalParseError::Missing { key }));
        }
        for (from, to) in [
            ("decision: approve", "decision: yes"),
            ("decision: approve", "decision: Approve"),
            ("occurrence: 1", "occurrence: 0"),
            ("signed_at: 2026", "signed_at: at 2026"),
            ("expires: never", "expires: soon"),
            (FORMAT, "cutter-approval/2"),
        ] {
            assert!(text.contains(from));
            let error = ApprovalText::parse(&text.replace(from, to)).unwrap_err();
            assert!(matches!(error, ApprovalParseError::Unreadable { .. }), "{to}: {error}");
        }
    }

    #[test]
    fn what_a_reader_cannot_see_is_refused() {
        let ask = AuthorizationFacts::example().ask;
        let text = render_approval(&ask, ReviewVerdict::Approve, "a", at(), None, &BTreeMap::new());
        for c in ['\u{202e}', '\u{200b}', '\u{2028}', '\u{0}', '\r', '\u{feff}'] {
            let hidden = text.replace("actor: a", &format!("actor: a{c}b"));
            let error = ApprovalText::parse(&hidden).unwrap_err();
            assert!(matches!(error, ApprovalParseError::Invisible { .. }), "{c:?}: {error}");
        }
        let long = format!("{text}{}", "x".repeat(APPROVAL_MAX_BYTES));
        assert!(matches!(ApprovalText::parse(&long), Err(ApprovalParseError::TooLong { .. })));
    }

    #[test]
    fn faults_name_their_line_and_sizes_are_held_at_their_bound() {
        let of = |text: &str| scan(text).1;
        assert_eq!(of("a: 1\nb: 2\na: 3"), [ApprovalParseError::Duplicate { line: 3, key: "a".into() }]);
        assert_eq!(of("a: 1\nx\u{200b}\n"), [ApprovalParseError::Invisible { line: 2, code: 0x200b }]);
        assert_eq!(of("a: 1\ttabs\tare seen\r\n"), []);
        let full = "x".repeat(APPROVAL_MAX_BYTES);
        assert_eq!(of(&full), []);
        let bytes = APPROVAL_MAX_BYTES + 1;
        assert_eq!(of(&format!("{full}x")), [ApprovalParseError::TooLong { bytes }]);
        let fields = scan("a:  1 \t\nB: 2\nno field\nc:3\n").0;
        let read: Vec<(&str, &str)> = fields.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
        assert_eq!(read, [("a", "1"), ("c", "3")]);
    }

    #[test]
    fn a_refusal_says_that_it_allows_nothing() {
        let ask = AuthorizationFacts::example().ask;
        for verdict in [ReviewVerdict::Defer, ReviewVerdict::Reject] {
            let text = render_approval(&ask, verdict, "a", at(), None, &BTreeMap::new());
            assert!(text.contains("allows nothing") && !text.contains("Allows run"), "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_value_can_add_a_field(actor in any::<String>(), reason in any::<String>(), key in any::<String>()) {
            let ask = AuthorizationFacts::example().ask;
            let actor = format!("a{actor}");
            let more = extra(&[("reason", &reason), (&key, "x\ndecision: approve")]);
            let text = render_approval(&ask, ReviewVerdict::Reject, &actor, at(), None, &more);
            let read = ApprovalText::parse(&text).unwrap();
            prop_assert_eq!(read.decision, ReviewVerdict::Reject);
            for (key, value) in &ask.required {
                prop_assert_eq!(read.fields.get(key), Some(value));
            }
            // nothing that clear-signing would have to escape or would cut
            prop_assert!(text.lines().all(|l| !l.starts_with('-') && l.trim_end() == l));
        }

        #[test]
        fn reading_never_panics(text in any::<String>()) {
            let _ = ApprovalText::parse(&text);
        }
    }
}
