//! One event: the text that is signed, written and read strictly. What is read is what would be
//! written: there is one text for one event.

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;
use core::str::FromStr;

use jiff::Timestamp;
use uuid::Uuid;

use crate::base::digest::Digest;
use crate::base::limits::{PERSON_MAX_BYTES, POLICY_EVENT_MAX_BYTES};
use crate::machine::run::GateId;
use crate::record::approval::{SignaturePolicy, is_visible};
use crate::record::signature::Duty;

/// The value of the `format` field.
pub const FORMAT: &str = "cutter-policy/1";
/// The kind of key that is read now.
pub const OPENPGP: &str = "openpgp";

/// A person's public key, by what is known of it without reading it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct PublicKeyRef {
    /// Which program reads it; [`OPENPGP`] is the one that is known.
    pub kind: String,
    /// Its fingerprint, upper case, without blanks.
    pub fingerprint: String,
    /// sha256 of the public key as it is kept beside the events.
    pub sha256: Digest,
}

/// What an event changes. One line each.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// The policy begins, or begins anew: nobody may approve, the rules are the strict ones.
    Founded {
        /// Tells this chain from every other one.
        chain: Uuid,
    },
    /// Somebody may approve from now on.
    ApproverAdded {
        /// Who.
        person: String,
        /// With which key.
        key: PublicKeyRef,
    },
    /// An approver has another key besides.
    KeyAdded {
        /// Whose.
        person: String,
        /// The key.
        key: PublicKeyRef,
    },
    /// A key that once was somebody's: what it signed is verified, it approves nothing.
    FormerKey {
        /// Whose.
        person: String,
        /// The key.
        key: PublicKeyRef,
    },
    /// An approver approves no more, with any key. What was approved stays approved.
    ApproverRetired {
        /// Since when, for people.
        since: Timestamp,
        /// Who.
        person: String,
    },
    /// Somebody else may have a key: what was recorded after `since` is not to be believed.
    KeyCompromised {
        /// Since when.
        since: Timestamp,
        /// Which key.
        fingerprint: String,
    },
    /// Whether approvals must be signed.
    Signature(SignaturePolicy),
    /// Whether the creator of a run may approve it.
    Creator {
        /// May they?
        may_approve: bool,
    },
    /// How long after the request an answer may be used; `None`: as long as it says.
    AnswersValid {
        /// So many hours.
        hours: Option<u32>,
    },
    /// At this gate only this person, and others of whom this is said, may answer.
    MayAnswer {
        /// The gate.
        gate: GateId,
        /// Who.
        person: String,
    },
    /// At this gate every approver may answer.
    AnyoneMayAnswer {
        /// The gate.
        gate: GateId,
    },
    /// So many different people must approve before this gate lets a run past.
    ApprovalsNeeded {
        /// The gate: of cut or of enactment.
        gate: GateId,
        /// 1, 2, …
        people: u32,
    },
    /// The key that a duty signs with.
    DutyKeyRegistered {
        /// The duty.
        duty: Duty,
        /// 64 hexadecimal digits.
        public_key: String,
    },
    /// The key that a duty signs with from now on; what the one before signed stays signed.
    DutyKeyRotated {
        /// The duty.
        duty: Duty,
        /// 64 hexadecimal digits.
        public_key: String,
    },
}

/// What is wrong with an event's text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{place}: expected {expected}, observed {observed:?}")]
pub struct EventError {
    /// Which line, or the whole.
    pub place: String,
    /// What it should be.
    pub expected: &'static str,
    /// What stands there, shortened.
    pub observed: String,
}

impl EventError {
    fn new(place: impl Into<String>, expected: &'static str, observed: &str) -> Self {
        Self { place: place.into(), expected, observed: observed.chars().take(120).collect() }
    }
}

/// One event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// 1, 2, …
    pub seq: u64,
    /// sha256 of the document of the event before; `None` for the first.
    pub previous: Option<Digest>,
    /// When it was written, by the writer's clock: for people. The database's time decides.
    pub at: Timestamp,
    /// Why, in one line; may be empty.
    pub why: String,
    /// What changes, in this order; at least one.
    pub changes: Vec<Change>,
}

impl Event {
    /// The text to sign.
    #[must_use]
    pub fn text(&self) -> String {
        let previous = self.previous.map_or_else(|| "none".to_owned(), |d| d.to_hex());
        let mut text = format!(
            "# Policy event {}\n\nformat: {FORMAT}\nseq: {}\nprevious: {previous}\nat: {}\n",
            self.seq, self.seq, self.at
        );
        if !self.why.is_empty() {
            text.push_str(&format!("why: {}\n", self.why));
        }
        for change in &self.changes {
            text.push_str(&format!("change: {change}\n"));
        }
        text
    }

    /// Whether it can be written: read back, its text is this event.
    ///
    /// # Errors
    /// [`EventError`], what cannot be written.
    pub fn check(&self) -> Result<(), EventError> {
        let text = self.text();
        match Self::parse(&text) {
            Ok(read) if read == *self => Ok(()),
            Ok(_) => Err(EventError::new("event", "values of one visible line", &text)),
            Err(error) => Err(error),
        }
    }

    /// Reads a text; line ends at its end do not matter, everything else does.
    ///
    /// # Errors
    /// [`EventError`], the first one found.
    pub fn parse(text: &str) -> Result<Self, EventError> {
        if text.len() > POLICY_EVENT_MAX_BYTES {
            let observed = format!("{} bytes", text.len());
            return Err(EventError::new("event", "a text of at most 64 KiB", &observed));
        }
        let text = text.trim_end_matches(['\n', '\r']);
        if let Some(c) = text.chars().find(|c| !is_visible(*c) && *c != '\n' && *c != '\r') {
            return Err(EventError::new("event", "visible text", &format!("U+{:04X}", u32::from(c))));
        }
        let (mut seq, mut previous, mut at, mut why) = (None, None, None, String::new());
        let mut changes = Vec::new();
        for line in text.split('\n') {
            let line = line.strip_suffix('\r').unwrap_or(line);
            let Some((key, value)) = line.split_once(": ") else { continue };
            let wrong = |expected| EventError::new(format!("field {key}"), expected, value);
            match key {
                "format" if value == FORMAT => {}
                "format" => return Err(wrong(FORMAT)),
                "seq" => seq = Some(value.parse().map_err(|_| wrong("a number from 1"))?),
                "previous" if value == "none" => previous = Some(None),
                "previous" => previous = Some(Some(value.parse().map_err(|_| wrong("none or a sha256"))?)),
                "at" => at = Some(value.parse().map_err(|_| wrong("a time"))?),
                "why" => why = value.to_owned(),
                "change" => changes.push(value.parse()?),
                _ => return Err(wrong("a field that events have")),
            }
        }
        let missing = |key| EventError::new(format!("field {key}"), "a value", "nothing");
        let event = Self {
            seq: seq.ok_or_else(|| missing("seq"))?,
            previous: previous.ok_or_else(|| missing("previous"))?,
            at: at.ok_or_else(|| missing("at"))?,
            why,
            changes,
        };
        if event.changes.is_empty() {
            return Err(missing("change"));
        }
        // One text for one event: no line twice, none in another order or spelling, none besides.
        let written = event.text();
        let differs = written.trim_end().lines().zip(text.lines()).find(|(a, b)| a != b);
        if let Some((expected, observed)) = differs {
            return Err(EventError::new(format!("line {expected:?}"), "exactly this line", observed));
        }
        if written.trim_end().lines().count() != text.lines().count() {
            return Err(EventError::new("event", "no line besides", "more lines"));
        }
        Ok(event)
    }
}

impl fmt::Display for PublicKeyRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.kind, self.fingerprint, self.sha256)
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Founded { chain } => write!(f, "founded {chain}"),
            Self::ApproverAdded { person, key } => write!(f, "approver_added {key} {person}"),
            Self::KeyAdded { person, key } => write!(f, "key_added {key} {person}"),
            Self::FormerKey { person, key } => write!(f, "former_key {key} {person}"),
            Self::ApproverRetired { since, person } => write!(f, "approver_retired {since} {person}"),
            Self::KeyCompromised { since, fingerprint } => {
                write!(f, "key_compromised {since} {fingerprint}")
            }
            Self::Signature(SignaturePolicy::Required) => f.write_str("signature required"),
            Self::Signature(SignaturePolicy::Optional) => f.write_str("signature optional"),
            Self::Creator { may_approve: true } => f.write_str("creator may_approve"),
            Self::Creator { may_approve: false } => f.write_str("creator may_not_approve"),
            Self::AnswersValid { hours: Some(hours) } => write!(f, "answers_valid_hours {hours}"),
            Self::AnswersValid { hours: None } => f.write_str("answers_valid_hours unbounded"),
            Self::MayAnswer { gate, person } => write!(f, "may_answer {gate} {person}"),
            Self::AnyoneMayAnswer { gate } => write!(f, "anyone_may_answer {gate}"),
            Self::ApprovalsNeeded { gate, people } => write!(f, "approvals_needed {gate} {people}"),
            Self::DutyKeyRegistered { duty, public_key } => {
                write!(f, "duty_key_registered {} {public_key}", duty.as_str())
            }
            Self::DutyKeyRotated { duty, public_key } => {
                write!(f, "duty_key_rotated {} {public_key}", duty.as_str())
            }
        }
    }
}

impl FromStr for Change {
    type Err = EventError;

    fn from_str(text: &str) -> Result<Self, EventError> {
        let wrong = |expected| EventError::new("change", expected, text);
        let (word, rest) = text.split_once(' ').ok_or_else(|| wrong("a word and its value"))?;
        let keyed = || {
            let mut parts = rest.splitn(4, ' ');
            let (kind, fingerprint) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
            let sha256 = parts.next().unwrap_or_default().parse().map_err(|_| wrong("sha256 of a key"))?;
            let person = person(parts.next().unwrap_or_default()).ok_or_else(|| wrong("a person's name"))?;
            if kind != OPENPGP {
                return Err(wrong("a key of the kind openpgp"));
            }
            if !is_fingerprint(fingerprint) {
                return Err(wrong("a fingerprint: 40 or 64 upper-case hexadecimal digits"));
            }
            Ok((person, PublicKeyRef { kind: kind.to_owned(), fingerprint: fingerprint.to_owned(), sha256 }))
        };
        let dated = || {
            let (since, rest) = rest.split_once(' ').ok_or_else(|| wrong("a time and what it is of"))?;
            Ok((since.parse::<Timestamp>().map_err(|_| wrong("a time"))?, rest))
        };
        let duty = || {
            let (duty, key) = rest.split_once(' ').ok_or_else(|| wrong("a duty and its key"))?;
            let duty = match duty {
                "executor" => Duty::Executor,
                "verifier" => Duty::Verifier,
                _ => return Err(wrong("executor or verifier")),
            };
            let is_key = key.len() == 64 && key.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
            if is_key { Ok((duty, key.to_owned())) } else { Err(wrong("64 hexadecimal digits")) }
        };
        let gate = |text: &str| {
            let gate = text.parse().ok().filter(|g: &GateId| g.is_sovereign());
            gate.ok_or_else(|| wrong("SG_cut_authz, SG_lifecycle_authz or SG_failure_escalation"))
        };
        Ok(match word {
            "founded" => Self::Founded { chain: rest.parse().map_err(|_| wrong("a UUID"))? },
            "approver_added" => keyed().map(|(person, key)| Self::ApproverAdded { person, key })?,
            "key_added" => keyed().map(|(person, key)| Self::KeyAdded { person, key })?,
            "former_key" => keyed().map(|(person, key)| Self::FormerKey { person, key })?,
            "approver_retired" => {
                let (since, who) = dated()?;
                let person = person(who).ok_or_else(|| wrong("a person's name"))?;
                Self::ApproverRetired { since, person }
            }
            "key_compromised" => {
                let (since, key) = dated()?;
                if !is_fingerprint(key) {
                    return Err(wrong("a fingerprint: 40 or 64 upper-case hexadecimal digits"));
                }
                Self::KeyCompromised { since, fingerprint: key.to_owned() }
            }
            "signature" => Self::Signature(match rest {
                "required" => SignaturePolicy::Required,
                "optional" => SignaturePolicy::Optional,
                _ => return Err(wrong("required or optional")),
            }),
            "creator" => match rest {
                "may_approve" => Self::Creator { may_approve: true },
                "may_not_approve" => Self::Creator { may_approve: false },
                _ => return Err(wrong("may_approve or may_not_approve")),
            },
            "answers_valid_hours" => Self::AnswersValid {
                hours: match rest {
                    "unbounded" => None,
                    _ => {
                        let hours = rest.parse().ok().filter(|h: &u32| *h > 0);
                        Some(hours.ok_or_else(|| wrong("unbounded or a number of hours"))?)
                    }
                },
            },
            "may_answer" => {
                let (at, who) = rest.split_once(' ').ok_or_else(|| wrong("a gate and a person"))?;
                let person = person(who).ok_or_else(|| wrong("a person's name"))?;
                Self::MayAnswer { gate: gate(at)?, person }
            }
            "anyone_may_answer" => Self::AnyoneMayAnswer { gate: gate(rest)? },
            "approvals_needed" => {
                let (at, people) =
                    rest.split_once(' ').ok_or_else(|| wrong("a gate and a number of people"))?;
                // a stop is answered by one: what it lets go on meets the next gate
                let gate = gate(at).ok().filter(|g| *g != GateId::FailureEscalation);
                Self::ApprovalsNeeded {
                    gate: gate.ok_or_else(|| wrong("SG_cut_authz or SG_lifecycle_authz"))?,
                    people: people.parse().ok().filter(|n| *n > 0).ok_or_else(|| wrong("a number from 1"))?,
                }
            }
            "duty_key_registered" => {
                duty().map(|(duty, public_key)| Self::DutyKeyRegistered { duty, public_key })?
            }
            "duty_key_rotated" => {
                duty().map(|(duty, public_key)| Self::DutyKeyRotated { duty, public_key })?
            }
            _ => return Err(wrong("a change that events make")),
        })
    }
}

/// A name that can stand on one line as it is.
fn person(text: &str) -> Option<String> {
    let fits = !text.is_empty() && text.len() <= PERSON_MAX_BYTES && text.trim() == text;
    (fits && text.chars().all(is_visible)).then(|| text.to_string())
}

fn is_fingerprint(text: &str) -> bool {
    matches!(text.len(), 40 | 64) && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'A'..=b'F'))
}
