//! Documents of a run, rendered: phase reports, requests at the sovereign gates, stop-route reports.
//!
//! Rendering is a function of its argument and nothing else, so the same record gives the same
//! bytes after any crash. Whatever a text holds, it stays inside its cell, list item or block:
//! line breaks become spaces, hidden characters visible escapes (`visible`), Markdown's own signs
//! are written as entities where they would mean something (`report::text`). A phase report or
//! request never shows a secret or another run (spec 2 §2): rendering refuses instead.

use alloc::string::String;

use crate::base::limits::REPORT_MAX_LINES;

pub(crate) mod closing;
mod guard;
pub mod naming;
mod phase;
mod request;
mod shown;
mod stop;
mod text;
mod tree;
mod version;

pub use phase::{FinalSections, PhaseReport, render_phase};
pub(crate) use request::THIS;
pub use request::{BackupLine, RequestReport, UnitLine, asks_of_document, render_request};
pub use shown::{NotShown, SINCE_THE_FIRST_GATE, shows};
pub use stop::{StopReport, render_stop};
pub use version::VersionDiff;

/// Version of the renderer, kept with what it rendered.
pub const RENDERER_VERSION: u32 = 1;

/// Bytes of a phase report or request: it is kept in the sidecar until it is uploaded.
pub const REPORT_MAX_BYTES: usize = 28 * 1024;

/// Why a report was not rendered. For the operator; the run stops rather than publish it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReportError {
    /// Something that looks like a secret.
    #[error(
        "report: line {line} holds what looks like a secret ({what}); expected none, nothing was rendered"
    )]
    Secret {
        /// From 1.
        line: usize,
        /// What it looks like; never the value.
        what: &'static str,
    },
    /// Another run is named (spec 2 §2: one folder, one run).
    #[error("report of {run_id}: line {line} names another run, {observed}")]
    OtherRun {
        /// This run.
        run_id: String,
        /// From 1.
        line: usize,
        /// The other one.
        observed: String,
    },
    /// More than a report may be, even cut.
    #[error("report: {lines} lines and {bytes} bytes, expected at most {max_lines} and {max_bytes}",
        max_lines = REPORT_MAX_LINES, max_bytes = REPORT_MAX_BYTES)]
    TooLong {
        /// Its lines.
        lines: usize,
        /// Its bytes.
        bytes: usize,
    },
}

/// How long what stands in a cell or item may be: the first that lets the whole fit.
const CELLS: [usize; 6] = [320, 160, 80, 40, 20, 10];

/// Renders with ever shorter cells until the result fits, then checks it.
fn fitted(run_id: &str, render: impl Fn(usize) -> String) -> Result<String, ReportError> {
    let mut last = String::new();
    for cell in CELLS {
        last = render(cell);
        if last.len() <= REPORT_MAX_BYTES {
            break;
        }
    }
    let (lines, bytes) = (last.lines().count(), last.len());
    if lines > REPORT_MAX_LINES || bytes > REPORT_MAX_BYTES {
        return Err(ReportError::TooLong { lines, bytes });
    }
    guard::check(&last, run_id)?;
    Ok(last)
}

#[cfg(test)]
mod shown_tests;
#[cfg(test)]
mod tests;
