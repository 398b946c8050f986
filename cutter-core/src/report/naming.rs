//! Names in the knowledge base: the folder of a run, its documents, the runs index and its
//! lines (spec 2 §1, §8, §9). Every name is built here and parsed here, and every path that
//! reaches a store has passed [`KbPath`], so no identifier can lead out of the folder.

use alloc::borrow::{Cow, ToOwned};
use alloc::format;
use alloc::string::{String, ToString};
use core::fmt;
use core::str::FromStr;

use jiff::Timestamp;
use jiff::civil::{Date, DateTime};
use jiff::tz::Offset;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use uuid::Uuid;

use crate::base::digest::Digest;
use crate::base::id::RunId;
use crate::base::limits::{INDEX_LINE_MAX, KB_PATH_COMPONENT_MAX, KB_PATH_MAX};
use crate::machine::phase::Phase;
use crate::machine::spelled;
use crate::record::approval::Purpose;

/// The folder above all laws.
pub const LAWS_ROOT: &str = "knowledge/dev/laws";

/// The runs index: one line per closed run.
pub const RUNS_INDEX_PATH: &str = "knowledge/dev/laws/_orchestrator-runs-index/v0.6-runs.md";

/// A name that cannot be built or read. Shown to whoever gave the value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("bad {what}: observed {observed:?}, expected {expected}")]
pub struct NamingError {
    /// Which name or part of one.
    pub what: &'static str,
    /// The text as given, cut to 120 characters.
    pub observed: String,
    /// What would have been right.
    pub expected: String,
}

fn bad(what: &'static str, observed: &str, expected: impl ToString) -> NamingError {
    NamingError { what, observed: observed.chars().take(120).collect(), expected: expected.to_string() }
}

/// A path in the knowledge base: relative, `/` between components; a component has 1 to
/// [`KB_PATH_COMPONENT_MAX`] bytes of `A`–`Z`, `a`–`z`, `0`–`9`, `-`, `_`, `.` and begins with
/// neither `.` nor `-`, so there is no `..`, no hidden file, no option and no drive or stream.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KbPath(String);

impl KbPath {
    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The last component.
    #[must_use]
    pub fn file_name(&self) -> &str {
        self.0.rsplit('/').next().unwrap_or(&self.0)
    }

    /// The path above; `None` for a single component.
    #[must_use]
    pub fn parent(&self) -> Option<Self> {
        self.0.rsplit_once('/').map(|(parent, _)| Self(parent.to_owned()))
    }

    /// The path with one more component.
    ///
    /// # Errors
    /// [`NamingError`] if `name` is not one valid component, or the whole becomes too long.
    pub fn join(&self, name: &str) -> Result<Self, NamingError> {
        component(name)?;
        format!("{}/{name}", self.0).parse()
    }
}

fn component(text: &str) -> Result<(), NamingError> {
    let chars = text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'));
    let begins = !text.is_empty() && !text.starts_with(['.', '-']);
    if chars && begins && text.len() <= KB_PATH_COMPONENT_MAX {
        return Ok(());
    }
    let expected = format!(
        "1 to {KB_PATH_COMPONENT_MAX} of the characters A to Z, a to z, 0 to 9, - _ . beginning with neither . nor -"
    );
    Err(bad("path component", text, expected))
}

impl FromStr for KbPath {
    type Err = NamingError;
    fn from_str(text: &str) -> Result<Self, NamingError> {
        if text.len() > KB_PATH_MAX {
            return Err(bad("knowledge base path", text, format!("at most {KB_PATH_MAX} bytes")));
        }
        text.split('/').try_for_each(component)?;
        Ok(Self(text.to_owned()))
    }
}

impl fmt::Display for KbPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl Serialize for KbPath {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for KbPath {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = <Cow<'de, str>>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// The UTC date on which something is rendered: the `<date>` of its name (D16).
#[must_use]
pub fn utc_date(at: Timestamp) -> Date {
    Offset::UTC.to_datetime(at).date()
}

/// How far a folder's suffix goes (D33): the store creates exclusively, and takes the next on
/// a collision.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FolderSuffix {
    /// `-<YYYYMMDD>`.
    Day,
    /// `-<YYYYMMDD>-<HHMM>`.
    Minute,
    /// `-<YYYYMMDD>-<HHMMSS>`.
    Second,
}

spelled!(FolderSuffix, "folder suffix", {
    Day => "day",
    Minute => "minute",
    Second => "second",
});

/// The folder of one run:
/// `knowledge/dev/laws/<law-id>/v<version16>-automation-cut-<YYYYMMDD>[-HHMM|-HHMMSS]`,
/// where the law id is the document id in lower case.
///
/// # Errors
/// [`NamingError`] if the document id is not a valid component, or the year has not four digits.
pub fn run_folder(
    document_id: &str,
    version: &Digest,
    created: Timestamp,
    suffix: FolderSuffix,
) -> Result<KbPath, NamingError> {
    let law = document_id.to_ascii_lowercase();
    component(&law)?;
    if law.starts_with('_') {
        return Err(bad("document id", document_id, "no leading underscore, which marks the index folder"));
    }
    let t: DateTime = Offset::UTC.to_datetime(created);
    let (year, month, day) = (t.year(), t.month(), t.day());
    if !(0..=9999).contains(&year) {
        return Err(bad("folder date", &created.to_string(), "a year of four digits"));
    }
    let mut name = format!("v{}-automation-cut-{year:04}{month:02}{day:02}", version.short(16));
    let (hour, minute, second) = (t.hour(), t.minute(), t.second());
    match suffix {
        FolderSuffix::Day => {}
        FolderSuffix::Minute => name.push_str(&format!("-{hour:02}{minute:02}")),
        FolderSuffix::Second => name.push_str(&format!("-{hour:02}{minute:02}{second:02}")),
    }
    format!("{LAWS_ROOT}/{law}/{name}").parse()
}

/// A gate at which the sovereign is asked in a document of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AuthorizationGate {
    /// SG_1.
    Cut,
    /// SG_2.
    Lifecycle,
}

spelled!(AuthorizationGate, "authorization gate", {
    Cut => "SG1-cut-authz",
    Lifecycle => "SG2-lifecycle-authz",
});

/// What a signed SG3 word allows (PROTOCOL §5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EscalationKind {
    /// Going on after a stop.
    Resume,
    /// Going on although live values drifted.
    DriftAck,
    /// Voiding the run.
    Void,
}

spelled!(EscalationKind, "escalation kind", {
    Resume => "resume",
    DriftAck => "drift-ack",
    Void => "void",
});

impl EscalationKind {
    /// What its approval is for.
    #[must_use]
    pub const fn purpose(self) -> Purpose {
        match self {
            Self::Resume => Purpose::Resume,
            Self::DriftAck => Purpose::Drift,
            Self::Void => Purpose::Void,
        }
    }
}

/// Every document that can stand in a run's folder. `file_name` and `parse` are inverse.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DocumentName {
    /// `<NN>-<phase>-<date>.md`.
    Phase(Phase),
    /// `SG1-cut-authz-request-<date>.md`, from the second on `…-request-<n>-<date>.md`.
    Request {
        /// Which gate asks.
        gate: AuthorizationGate,
        /// 1 for the first.
        occurrence: u32,
    },
    /// The answer, with the same occurrence. Written by the sovereign, never by the orchestrator.
    Approval {
        /// Which gate is answered.
        gate: AuthorizationGate,
        /// 1 for the first.
        occurrence: u32,
    },
    /// `stop-route-report-<n>-<date>.md`.
    StopReport {
        /// The number of the stop in its run, from 1.
        number: u32,
    },
    /// `SG3-<kind>-approval-<n>-<date>.md`. Written by the sovereign.
    EscalationApproval {
        /// What it allows.
        kind: EscalationKind,
        /// The number of the stop that it answers.
        number: u32,
    },
}

impl DocumentName {
    /// The file name. The date is `YYYY-MM-DD`.
    #[must_use]
    pub fn file_name(self, date: Date) -> String {
        let authz = |gate: AuthorizationGate, kind: &str, occurrence: u32| match occurrence {
            0 | 1 => format!("{gate}-{kind}"),
            n => format!("{gate}-{kind}-{n}"),
        };
        let stem = match self {
            Self::Phase(phase) => phase.file_stem().to_owned(),
            Self::Request { gate, occurrence } => authz(gate, "request", occurrence),
            Self::Approval { gate, occurrence } => authz(gate, "approval", occurrence),
            Self::StopReport { number } => format!("stop-route-report-{number}"),
            Self::EscalationApproval { kind, number } => format!("SG3-{kind}-approval-{number}"),
        };
        format!("{stem}-{date}.md")
    }

    /// Reads a file name.
    ///
    /// # Errors
    /// [`NamingError`] if it is none that [`DocumentName::file_name`] gives.
    pub fn parse(file_name: &str) -> Result<(Self, Date), NamingError> {
        let parts = || {
            let stem = file_name.strip_suffix(".md")?;
            let cut = stem.len().checked_sub("-YYYY-MM-DD".len())?;
            let date: Date = stem.get(cut + 1..)?.parse().ok()?;
            let name = Self::from_stem(stem.get(..cut)?)?;
            // one spelling only: no leading zeros, no "-1" for the first, no other date form
            (name.file_name(date) == file_name).then_some((name, date))
        };
        parts().ok_or_else(|| bad("document name", file_name, "the name of a document in a run's folder"))
    }

    fn from_stem(stem: &str) -> Option<Self> {
        if let Some(&phase) = Phase::ALL.iter().find(|phase| phase.file_stem() == stem) {
            return Some(Self::Phase(phase));
        }
        if let Some(number) = stem.strip_prefix("stop-route-report-") {
            return Some(Self::StopReport { number: number.parse().ok()? });
        }
        if let Some(rest) = stem.strip_prefix("SG3-") {
            let (kind, number) = rest.split_once("-approval-")?;
            return Some(Self::EscalationApproval { kind: kind.parse().ok()?, number: number.parse().ok()? });
        }
        AuthorizationGate::ALL.iter().find_map(|&gate| {
            let rest = stem.strip_prefix(gate.as_str())?;
            let read = |rest: &str| match rest {
                "" => Some(1),
                rest => rest.strip_prefix('-')?.parse().ok(),
            };
            if let Some(rest) = rest.strip_prefix("-request") {
                return Some(Self::Request { gate, occurrence: read(rest)? });
            }
            let rest = rest.strip_prefix("-approval")?;
            Some(Self::Approval { gate, occurrence: read(rest)? })
        })
    }

    /// Whether the orchestrator writes it; the others are the sovereign's alone.
    #[must_use]
    pub const fn is_orchestrators(self) -> bool {
        !matches!(self, Self::Approval { .. } | Self::EscalationApproval { .. })
    }
}

/// One line of the runs index (spec 2 §9): nine whole fields, at most
/// [`INDEX_LINE_MAX`] bytes (D4).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndexLine {
    /// The run.
    pub run_id: RunId,
    /// The document.
    pub document_id: String,
    /// Its version.
    pub source_version_id: Uuid,
    /// The final state's text.
    pub state: String,
    /// The run's folder.
    pub kb_folder: KbPath,
    /// The cut.
    pub change_set_id: Uuid,
    /// The decision that allowed the enactment.
    pub lifecycle_review_decision_id: Uuid,
    /// Who created the run.
    pub actor: String,
    /// When it closed.
    pub closeout_utc: Timestamp,
}

const SEPARATOR: &str = "` · `";

impl IndexLine {
    /// The line, without a newline.
    ///
    /// # Errors
    /// [`NamingError`] if a field is empty, has a backtick or a control character, or the line
    /// is too long.
    pub fn render(&self) -> Result<String, NamingError> {
        for (what, text) in
            [("document id", &self.document_id), ("state", &self.state), ("actor", &self.actor)]
        {
            if text.is_empty() || text.chars().any(|c| c == '`' || is_line_break(c)) {
                return Err(bad(what, text, "some text without backticks and control characters"));
            }
        }
        let line = format!("- `{}`", self.fields().join(SEPARATOR));
        if line.len() > INDEX_LINE_MAX {
            let observed = format!("{} bytes: {line}", line.len());
            return Err(bad("index line", &observed, format!("at most {INDEX_LINE_MAX} bytes")));
        }
        Ok(line)
    }

    fn fields(&self) -> [String; 9] {
        [
            self.run_id.to_string(),
            self.document_id.clone(),
            self.source_version_id.to_string(),
            self.state.clone(),
            self.kb_folder.to_string(),
            self.change_set_id.to_string(),
            self.lifecycle_review_decision_id.to_string(),
            self.actor.clone(),
            self.closeout_utc.to_string(),
        ]
    }

    /// Reads a line, without its newline. Only the exact form that [`IndexLine::render`] gives
    /// is accepted.
    ///
    /// # Errors
    /// [`NamingError`] saying which field is wrong.
    pub fn parse(line: &str) -> Result<Self, NamingError> {
        let whole = |expected: &str| bad("index line", line, expected);
        let inner = line.strip_prefix("- `").and_then(|rest| rest.strip_suffix('`'));
        let inner = inner.ok_or_else(|| whole("\"- `\", nine fields, \"`\""))?;
        let mut fields = inner.split(SEPARATOR);
        let mut next = || fields.next().ok_or_else(|| whole("nine fields"));
        let parsed = Self {
            run_id: next()?.parse().map_err(|e: crate::base::id::ParseRunIdError| whole(&e.to_string()))?,
            document_id: next()?.to_owned(),
            source_version_id: uuid_field("source_version_id", next()?)?,
            state: next()?.to_owned(),
            kb_folder: next()?.parse()?,
            change_set_id: uuid_field("change_set_id", next()?)?,
            lifecycle_review_decision_id: uuid_field("lifecycle_review_decision_id", next()?)?,
            actor: next()?.to_owned(),
            closeout_utc: timestamp_field(next()?)?,
        };
        if fields.next().is_some() || parsed.render()? != line {
            return Err(whole("nine fields, each in its one spelling"));
        }
        Ok(parsed)
    }
}

fn is_line_break(c: char) -> bool {
    c.is_control() || matches!(c, '\u{2028}' | '\u{2029}')
}

fn uuid_field(what: &'static str, text: &str) -> Result<Uuid, NamingError> {
    text.parse().map_err(|_| bad(what, text, "a UUID"))
}

fn timestamp_field(text: &str) -> Result<Timestamp, NamingError> {
    text.parse().map_err(|_| bad("closeout_utc", text, "an RFC 3339 time in UTC"))
}

#[cfg(test)]
mod tests;
