//! The command boundary (spec 4, AG-EXE-01): a side effect is a [`Command`], recorded before it
//! happens, performed at most once, and answered from the record ever after.
//!
//! ```text
//! Command {kind, key, payload} → Boundary → claim in the ledger → CommandHandler → its adapter
//!                                          └ replay: the recorded outcome, no call
//!                                          └ other payload: a conflict, no call
//!                                          └ intent without outcome: the adapter is asked by key
//! ```
//!
//! - [`Command`] is data; its digest is that of the canonical JSON `{"kind", "payload"}`.
//! - [`judge`](crate::gate::command::judge) is pure: what a command means beside what the ledger has under its key.
//! - [`COMMAND`](crate::machine::command::COMMAND) is the life of a ledger entry as a table; ends are immutable.
//! - [`CommandLedger`](crate::port::command_ledger::CommandLedger) is the port.
//! - [`Boundary`](crate::operate::command::Boundary) is the one place where order matters: intent, effect, outcome.
//! - [`SIDE_EFFECTS`](crate::operate::command::SIDE_EFFECTS) says, for every write of this system, how it keeps the same contract.
//!
//! Reads are no commands: they go to the adapter and leave nothing in the ledger. What the module
//! refuses to know: what a kind means, providers, clocks, storage.

#[cfg(test)]
mod tests;

use alloc::borrow::ToOwned;
use alloc::string::{String, ToString};
use core::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::base::canonical::{self, CanonicalError};
use crate::base::digest::Digest;
use crate::base::limits::{
    COMMAND_BODY_MAX_BYTES, COMMAND_KEY_MAX_BYTES, COMMAND_KIND_MAX_BYTES, COMMAND_MESSAGE_MAX_BYTES,
};
use crate::machine::command::{CommandState, CommandTrigger};
use crate::machine::spelled;

/// Why a value is no command, or no receipt. Shown to whoever made it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidCommand {
    /// A kind is words of `a-z`, `0-9` and `_`, joined by dots, each beginning with a letter.
    #[error(
        "command kind {observed:?}: expected lower-case words joined by dots, at most {COMMAND_KIND_MAX_BYTES} bytes"
    )]
    Kind {
        /// What was given.
        observed: String,
    },
    /// A key is visible ASCII.
    #[error("command key {observed:?}: expected 1 to {COMMAND_KEY_MAX_BYTES} visible ASCII characters")]
    Key {
        /// What was given.
        observed: String,
    },
    /// The value has no canonical text.
    #[error("{what}: {source}")]
    NotCanonical {
        /// `payload` or `receipt`.
        what: &'static str,
        /// Why.
        source: CanonicalError,
    },
    /// U+0000, which databases do not store.
    #[error("{what}: expected no U+0000 in any text")]
    Nul {
        /// `payload` or `receipt`.
        what: &'static str,
    },
    /// Too long to keep.
    #[error("{what}: expected at most {COMMAND_BODY_MAX_BYTES} bytes of canonical JSON, observed {observed}")]
    TooLong {
        /// `payload` or `receipt`.
        what: &'static str,
        /// Its length in bytes.
        observed: usize,
    },
    /// A recorded body does not read back.
    #[error("recorded command {key}: {reason}")]
    Recorded {
        /// Its key.
        key: String,
        /// What is wrong with it.
        reason: String,
    },
}

/// What a command asks for, say `deployment.create`: words joined by dots.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct CommandKind(String);

impl CommandKind {
    /// Checks the spelling.
    ///
    /// # Errors
    /// [`InvalidCommand::Kind`].
    pub fn new(text: &str) -> Result<Self, InvalidCommand> {
        let is_word = |word: &str| {
            word.starts_with(|c: char| c.is_ascii_lowercase())
                && word.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
        };
        if text.len() <= COMMAND_KIND_MAX_BYTES && text.split('.').all(is_word) {
            return Ok(Self(text.to_owned()));
        }
        Err(InvalidCommand::Kind { observed: text.to_owned() })
    }

    /// As it is stored.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The idempotency key: names one effect, across attempts, processes and kinds.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct CommandKey(String);

impl CommandKey {
    /// Checks the spelling.
    ///
    /// # Errors
    /// [`InvalidCommand::Key`].
    pub fn new(text: &str) -> Result<Self, InvalidCommand> {
        let is_good = !text.is_empty() && text.len() <= COMMAND_KEY_MAX_BYTES;
        if is_good && text.bytes().all(|b| b.is_ascii_graphic()) {
            return Ok(Self(text.to_owned()));
        }
        Err(InvalidCommand::Key { observed: text.to_owned() })
    }

    /// As it is stored.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Spreads delays over keys: the first eight bytes of the key's digest.
    #[must_use]
    pub fn seed(&self) -> u64 {
        Digest::of(self.0.as_bytes()).as_bytes().iter().take(8).fold(0, |n, b| n << 8 | u64::from(*b))
    }
}

macro_rules! text {
    ($name:ident) => {
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(&self.0)
            }
        }
        impl From<$name> for String {
            fn from(value: $name) -> Self {
                value.0
            }
        }
        impl TryFrom<String> for $name {
            type Error = InvalidCommand;
            fn try_from(text: String) -> Result<Self, InvalidCommand> {
                Self::new(&text)
            }
        }
        impl core::str::FromStr for $name {
            type Err = InvalidCommand;
            fn from_str(text: &str) -> Result<Self, InvalidCommand> {
                Self::new(text)
            }
        }
    };
}
text!(CommandKind);
text!(CommandKey);

/// A side effect to be: kind, idempotency key, payload. The payload is stored for ever and shown
/// to operators, so it never holds a secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Command {
    kind: CommandKind,
    key: CommandKey,
    payload: Value,
    body: String,
    payload_sha256: Digest,
}

impl Command {
    /// A command whose payload is `payload` as JSON.
    ///
    /// # Errors
    /// [`InvalidCommand`] if kind, key or payload cannot be stored as they are.
    pub fn new<T: Serialize + ?Sized>(kind: &str, key: &str, payload: &T) -> Result<Self, InvalidCommand> {
        let (kind, key) = (CommandKind::new(kind)?, CommandKey::new(key)?);
        let payload = value_of("payload", payload)?;
        let body = canonical_text("payload", &json!({ "kind": kind, "payload": payload }))?;
        let payload_sha256 = Digest::of(body.as_bytes());
        Ok(Self { kind, key, payload, body, payload_sha256 })
    }

    /// The command that a ledger recorded, from its body.
    ///
    /// # Errors
    /// [`InvalidCommand::Recorded`] if the body is not one, or not canonical.
    pub fn from_body(key: &CommandKey, body: &str) -> Result<Self, InvalidCommand> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Body {
            kind: CommandKind,
            payload: Value,
        }
        let bad = |reason: String| InvalidCommand::Recorded { key: key.to_string(), reason };
        let read: Body = serde_json::from_str(body).map_err(|e| bad(e.to_string()))?;
        let command = Self::new(read.kind.as_str(), key.as_str(), &read.payload)?;
        if command.body != body {
            return Err(bad("its body is not canonical JSON".into()));
        }
        Ok(command)
    }

    /// What it asks for.
    #[must_use]
    pub const fn kind(&self) -> &CommandKind {
        &self.kind
    }

    /// Its idempotency key.
    #[must_use]
    pub const fn key(&self) -> &CommandKey {
        &self.key
    }

    /// The payload.
    #[must_use]
    pub const fn payload(&self) -> &Value {
        &self.payload
    }

    /// The payload as a handler's own type.
    ///
    /// # Errors
    /// What does not fit, in serde's words.
    pub fn payload_as<T: serde::de::DeserializeOwned>(&self) -> Result<T, String> {
        T::deserialize(&self.payload).map_err(|error| error.to_string())
    }

    /// The canonical JSON of `{"kind", "payload"}`: what a ledger stores and what is hashed.
    #[must_use]
    pub fn body(&self) -> &str {
        &self.body
    }

    /// sha256 of [`Self::body`]. Same key and another digest is a conflict.
    #[must_use]
    pub const fn payload_sha256(&self) -> Digest {
        self.payload_sha256
    }
}

/// What an adapter gives back for an effect that happened, say the provider's id of it. Stored as
/// the command's outcome, so it never holds a secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Receipt(Value);

impl Receipt {
    /// A receipt that can be stored.
    ///
    /// # Errors
    /// [`InvalidCommand`]. An effect that happened and whose receipt cannot be kept is an
    /// `OutcomeUnknown` of the adapter.
    pub fn new<T: Serialize + ?Sized>(value: &T) -> Result<Self, InvalidCommand> {
        let value = value_of("receipt", value)?;
        canonical_text("receipt", &value)?;
        Ok(Self(value))
    }

    /// The value.
    #[must_use]
    pub const fn value(&self) -> &Value {
        &self.0
    }
}

impl<'de> Deserialize<'de> for Receipt {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::new(&Value::deserialize(deserializer)?).map_err(serde::de::Error::custom)
    }
}

/// Why a command failed for good.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FailureCode {
    /// The adapter refused: denied, invalid, not found, or in conflict with what stands there.
    Refused,
    /// All attempts are used, and none took effect.
    MaxAttempts,
    /// The failure budget is used, and none took effect.
    MaxFailures,
    /// The risk gate refused a retry (AG-RISK).
    RiskDenied,
}

spelled!(FailureCode, "command failure code", {
    Refused => "refused",
    MaxAttempts => "max_attempts_exhausted",
    MaxFailures => "max_failures_exhausted",
    RiskDenied => "risk_denied",
});

/// How an attempt ended, as the ledger records it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case", deny_unknown_fields)]
pub enum Settlement {
    /// The effect happened.
    Done {
        /// What the adapter gave.
        receipt: Receipt,
    },
    /// The effect did not happen and never will under this key.
    Failed {
        /// Why.
        code: FailureCode,
        /// For people.
        message: String,
    },
    /// The effect did not happen; it may be tried again after a delay.
    Waiting {
        /// How long, from the moment of recording, by the ledger's clock.
        delay_ms: u64,
        /// For people.
        message: String,
    },
}

impl Settlement {
    /// A failure, its words bounded.
    #[must_use]
    pub fn failed(code: FailureCode, message: &str) -> Self {
        Self::Failed { code, message: bounded(message) }
    }

    /// A wait, its words bounded.
    #[must_use]
    pub fn waiting(delay_ms: u64, message: &str) -> Self {
        Self::Waiting { delay_ms: delay_ms.min(canonical::MAX_SAFE_INTEGER), message: bounded(message) }
    }

    /// Where the entry stands after it.
    #[must_use]
    pub const fn state(&self) -> CommandState {
        match self {
            Self::Done { .. } => CommandState::Done,
            Self::Failed { .. } => CommandState::Failed,
            Self::Waiting { .. } => CommandState::Waiting,
        }
    }

    /// What it is as a trigger of [`COMMAND`](crate::machine::command::COMMAND).
    #[must_use]
    pub const fn trigger(&self) -> CommandTrigger {
        match self {
            Self::Done { .. } => CommandTrigger::Complete,
            Self::Failed { .. } => CommandTrigger::Fail,
            Self::Waiting { .. } => CommandTrigger::Wait,
        }
    }

    /// The canonical text, which a ledger stores and compares.
    ///
    /// # Errors
    /// [`InvalidCommand`], if a delay passes what JSON keeps exact.
    pub fn text(&self) -> Result<String, InvalidCommand> {
        canonical_text("settlement", &value_of("settlement", self)?)
    }

    /// Reads [`Self::text`].
    ///
    /// # Errors
    /// What does not fit, in serde's words.
    pub fn parse(text: &str) -> Result<Self, String> {
        serde_json::from_str(text).map_err(|error| error.to_string())
    }
}

/// The end of a command, given to whoever asks under its key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum Outcome {
    /// The effect happened, once.
    Done {
        /// What the adapter gave.
        receipt: Receipt,
    },
    /// The effect did not happen and never will under this key.
    Failed {
        /// Why.
        code: FailureCode,
        /// For people.
        message: String,
    },
}

impl TryFrom<Settlement> for Outcome {
    type Error = Settlement;

    /// An end, or the settlement back if it is none.
    fn try_from(settlement: Settlement) -> Result<Self, Settlement> {
        match settlement {
            Settlement::Done { receipt } => Ok(Self::Done { receipt }),
            Settlement::Failed { code, message } => Ok(Self::Failed { code, message }),
            waiting @ Settlement::Waiting { .. } => Err(waiting),
        }
    }
}

fn value_of<T: Serialize + ?Sized>(what: &'static str, value: &T) -> Result<Value, InvalidCommand> {
    serde_json::to_value(value).map_err(|error| InvalidCommand::NotCanonical {
        what,
        source: CanonicalError::NotJson { reason: error.to_string() },
    })
}

fn canonical_text(what: &'static str, value: &Value) -> Result<String, InvalidCommand> {
    if has_nul(value) {
        return Err(InvalidCommand::Nul { what });
    }
    let text =
        canonical::to_canonical(value).map_err(|source| InvalidCommand::NotCanonical { what, source })?;
    if text.len() > COMMAND_BODY_MAX_BYTES {
        return Err(InvalidCommand::TooLong { what, observed: text.len() });
    }
    Ok(text)
}

fn has_nul(value: &Value) -> bool {
    match value {
        Value::String(text) => text.contains('\0'),
        Value::Array(items) => items.iter().any(has_nul),
        Value::Object(fields) => fields.iter().any(|(key, value)| key.contains('\0') || has_nul(value)),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

fn bounded(message: &str) -> String {
    let mut end = message.len().min(COMMAND_MESSAGE_MAX_BYTES);
    while !message.is_char_boundary(end) {
        end -= 1;
    }
    message.get(..end).unwrap_or_default().replace('\0', "\u{fffd}")
}
