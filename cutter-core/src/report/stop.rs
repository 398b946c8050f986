//! The stop-route report (SG_3): what stopped the run, how it may go on, and the full sidecar (D12).

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use jiff::Timestamp;

use super::ReportError;
use super::guard::withhold;
use super::request::{approval_template, by_hand};
use super::text::{bullets, code, fence, one_line, prose, scalar, table};
use crate::base::limits::KB_DOCUMENT_MAX_BYTES;
use crate::base::visible;
use crate::record::approval::{Ask, Purpose, allows};

/// Everything that a stop-route report shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StopReport {
    /// The run.
    pub run_id: String,
    /// Its document.
    pub document_id: String,
    /// Which stop of the run, 1, 2, ….
    pub n: u32,
    /// `STOP_…` or `failed_<gate>`.
    pub code: String,
    /// Where the run stood, and where a resume enters again.
    pub stage: String,
    /// When.
    pub at: Timestamp,
    /// An answer must repeat it.
    pub nonce: String,
    /// What happened: each failed invariant with expected and observed.
    pub detail: Vec<String>,
    /// For drift: dimension → value observed.
    pub observed: BTreeMap<String, String>,
    /// What a sovereign may answer; none if a plain resume goes on.
    pub asks: Vec<Ask>,
    /// The sidecar at the revision that records the stop.
    pub sidecar_json: String,
}

/// Renders a stop-route report. It has no limit of lines, because it holds the whole sidecar, and
/// it always appears: what looks like a secret is withheld word by word instead of refused.
///
/// # Errors
/// [`ReportError::TooLong`] if it is larger than any document of the knowledge base may be.
pub fn render_stop(report: &StopReport) -> Result<String, ReportError> {
    const CELL: usize = 600;
    let terminal = report.code.starts_with("failed_");
    let outcome = if terminal { "FAIL" } else { "STOPPED" };
    let run_id = one_line(&report.run_id);
    let mut out = format!(
        "# Stop-route report {} · {} · {}\n\n> ```yaml\n",
        report.n,
        prose(&report.code, CELL),
        prose(&run_id, CELL)
    );
    for (key, value) in [
        ("gate", "SG_failure_escalation"),
        ("outcome", outcome),
        ("code", &report.code),
        ("stage", &report.stage),
        ("document_id", &report.document_id),
        ("run_id", &report.run_id),
        ("stop", &report.n.to_string()),
        ("at", &report.at.to_string()),
        ("nonce", &report.nonce),
    ] {
        out.push_str(&format!("> {key:<21}: {}\n", scalar(value, CELL)));
    }
    out.push_str("> ```\n\n## 1. What happened\n\n");
    out.push_str(&bullets(&report.detail, 40, CELL));
    if !report.observed.is_empty() {
        out.push_str("\nObserved now:\n\n");
        let rows: Vec<Vec<String>> =
            report.observed.iter().map(|(k, v)| alloc::vec![code(k, CELL), code(v, CELL)]).collect();
        out.push_str(&table(&["dimension", "observed"], &rows, 60));
    }
    out.push_str("\n## 2. How to go on\n\n");
    out.push_str(&how_to_go_on(report, &run_id, terminal));
    for ask in &report.asks {
        out.push_str(&format!("\n### Answer: {}\n\n", prose(&ask.approval_type.replace('_', " "), CELL)));
        out.push_str(&format!("{}\n\n", prose(&allows(ask), CELL)));
        out.push_str(&format!("Compare by voice: `{}`\n\n", ask.voice_code()));
        out.push_str(&approval_template(ask));
        out.push('\n');
        out.push_str(&by_hand(ask, &run_id));
    }
    out.push_str("\n## 3. Sidecar\n\n");
    let sidecar = visible::json(report.sidecar_json.trim_end());
    let fence = fence(&sidecar);
    out.push_str(&format!("{fence}json\n{sidecar}\n{fence}\n"));
    let out = withhold(&out);
    if out.len() > KB_DOCUMENT_MAX_BYTES {
        return Err(ReportError::TooLong { lines: out.lines().count(), bytes: out.len() });
    }
    Ok(out)
}

fn how_to_go_on(report: &StopReport, run_id: &str, terminal: bool) -> String {
    let run = code(run_id, 120);
    let resume = format!("cutter orchestrate resume --run-id {run_id}");
    let mut lines = Vec::new();
    if terminal {
        lines.push(format!(
            "This is final: {run} does not resume. Void it with a signed approval, then start a new run."
        ));
    } else if report.asks.iter().any(|a| !a.is_for(Purpose::Void)) {
        lines.push(
            "This stop needs a sovereign's word. Nothing goes on, and no gate is skipped, without it."
                .to_string(),
        );
    } else {
        lines.push(format!(
            "Once the cause is gone, a plain resume goes on at {} after the last passed gate was judged again: {}",
            code(&report.stage, 120),
            code(&resume, 200)
        ));
    }
    for ask in &report.asks {
        let (word, purpose) = (ask.word(), ask.purpose());
        lines.push(format!(
            "To {}: {}",
            match purpose {
                Some(Purpose::Resume) => "let it go on",
                Some(Purpose::Void) => "void it",
                _ => "accept what was observed",
            },
            code(&format!("cutter sovereign approve --run-id {run_id} --for {word}"), 200)
        ));
        let then = if purpose == Some(Purpose::Void) {
            format!("cutter orchestrate void --run-id {run_id}")
        } else {
            resume.clone()
        };
        lines.push(format!("and then: {}", code(&then, 200)));
    }
    lines.push(format!("To look closer: {}", code(&format!("cutter why --run-id {run_id}"), 200)));
    lines.iter().map(|l| format!("- {l}\n")).collect()
}
