//! Failures of a store, sorted by who must act.

use std::error::Error as StdError;
use std::io;

use cutter_core::port::{Port, PortError, PortErrorKind};

/// What is known of a request that failed.
#[derive(Debug, Clone)]
pub(super) enum Fault {
    /// The key is not there.
    NotFound,
    /// The key is there already, or another request for it is under way.
    Exists,
    /// It was not done, for sure.
    NotDone { kind: PortErrorKind, message: String },
    /// A write that may have been done: ask.
    Unknown { message: String },
}

impl Fault {
    pub(super) fn invalid(message: impl Into<String>) -> Self {
        Self::NotDone { kind: PortErrorKind::Invalid, message: message.into() }
    }

    pub(super) fn unavailable(message: impl Into<String>) -> Self {
        Self::NotDone { kind: PortErrorKind::Unavailable, message: message.into() }
    }

    /// The port's error. `at` names the store and the key.
    pub(super) fn of(self, port: Port, op: &'static str, at: &str) -> PortError {
        let (kind, message) = match self {
            Self::NotFound => (PortErrorKind::NotFound, "it is not there".to_owned()),
            Self::Exists => (PortErrorKind::Conflict, "it is there already".to_owned()),
            Self::NotDone { kind, message } => (kind, message),
            Self::Unknown { message } => {
                let message = format!("whether it was written is not known, ask again: {message}");
                (PortErrorKind::OutcomeUnknown, message)
            }
        };
        PortError::new(port, op, kind, format!("{at}: {message}"))
    }
}

/// Sorts the library's error. `write`: a request that changes something when it arrives.
pub(super) fn fault(error: &::object_store::Error, write: bool) -> Fault {
    use ::object_store::Error as E;
    let kind = match error {
        E::NotFound { .. } if is_store_missing(&text(error)) => PortErrorKind::NotFound,
        E::NotFound { .. } => return Fault::NotFound,
        E::AlreadyExists { .. } | E::Precondition { .. } | E::NotModified { .. } => return Fault::Exists,
        E::PermissionDenied { .. } | E::Unauthenticated { .. } => PortErrorKind::Denied,
        E::InvalidPath { .. }
        | E::NotSupported { .. }
        | E::NotImplemented { .. }
        | E::UnknownConfigurationKey { .. } => PortErrorKind::Invalid,
        other => match inside(other) {
            Some(kind) => kind,
            None if write => return Fault::Unknown { message: text(error) },
            None => PortErrorKind::Unavailable,
        },
    };
    Fault::NotDone { kind, message: text(error) }
}

/// A bucket that is not there is no empty knowledge base.
fn is_store_missing(text: &str) -> bool {
    ["NoSuchBucket", "ContainerNotFound", "specified bucket does not exist"].iter().any(|t| text.contains(t))
}

/// What the error's causes say; `None` if a write may have been done.
fn inside(error: &::object_store::Error) -> Option<PortErrorKind> {
    let mut cause: Option<&(dyn StdError + 'static)> = Some(error);
    while let Some(current) = cause {
        if let Some(kind) = http(current).or_else(|| current.downcast_ref::<io::Error>().and_then(file)) {
            return kind;
        }
        cause = current.source();
    }
    None
}

/// Of a folder: its writes go through a temporary file, so a failed one is not done.
#[allow(clippy::unnecessary_wraps, reason = "the same form as for http: outer None is not recognised")]
fn file(error: &io::Error) -> Option<Option<PortErrorKind>> {
    use io::ErrorKind as K;
    Some(Some(match error.kind() {
        K::StorageFull | K::QuotaExceeded | K::FileTooLarge => PortErrorKind::Full,
        K::PermissionDenied | K::ReadOnlyFilesystem => PortErrorKind::Denied,
        K::NotADirectory | K::IsADirectory | K::InvalidFilename => PortErrorKind::Invalid,
        _ => return None,
    }))
}

#[cfg(feature = "cloud")]
fn http(error: &(dyn StdError + 'static)) -> Option<Option<PortErrorKind>> {
    use ::object_store::client::{HttpError, HttpErrorKind};
    if let Some(error) = error.downcast_ref::<HttpError>() {
        return Some(match error.kind() {
            // it never left; the other kinds (a lost answer is `Request`, too) may have
            HttpErrorKind::Connect => Some(PortErrorKind::Unavailable),
            _ => None,
        });
    }
    answered(&error.to_string())
}

/// By the store's answer. The library keeps the type that has the status to itself, so it is
/// read from its words; a test against a real server holds them.
#[cfg(feature = "cloud")]
fn answered(text: &str) -> Option<Option<PortErrorKind>> {
    let has = |codes: &[&str]| codes.iter().any(|code| text.contains(code));
    let status = text.split_once("status code: ").and_then(|(_, rest)| rest.get(..3)?.parse::<u16>().ok());
    if status.is_none() && !text.contains("Server returned error response") {
        return None;
    }
    Some(match status {
        // the store says that it has not done it
        Some(429 | 503) => Some(PortErrorKind::Unavailable),
        _ if has(&["SlowDown", "ServiceUnavailable"]) => Some(PortErrorKind::Unavailable),
        Some(413 | 507) => Some(PortErrorKind::Full),
        _ if has(&["QuotaExceeded", "StorageFull", "EntityTooLarge"]) => Some(PortErrorKind::Full),
        Some(401 | 403) => Some(PortErrorKind::Denied),
        Some(408) => None,
        Some(400..=499) => Some(PortErrorKind::Invalid),
        _ => None,
    })
}

#[cfg(not(feature = "cloud"))]
fn http(_: &(dyn StdError + 'static)) -> Option<Option<PortErrorKind>> {
    None
}

/// The library's words in one line of bounded length. They hold URLs and the store's answer,
/// never the credentials: those travel in headers.
pub(super) fn text(error: &dyn StdError) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(current) = cause {
        let more = current.to_string();
        if !text.contains(&more) {
            text.push_str(": ");
            text.push_str(&more);
        }
        cause = current.source();
    }
    let line: Vec<&str> = text.split_whitespace().collect();
    line.join(" ").chars().take(600).collect()
}
