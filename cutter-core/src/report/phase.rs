//! The phase report: spec 2 §2's template, exactly.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;
use core::fmt::Write as _;

use super::text::{bullets, bytes, code, one_line, prose, scalar, table, yaml};
use super::{ReportError, fitted};
use crate::base::digest::Digest;
use crate::machine::run::Phase;
use crate::record::check::{Check, GateReport};

/// What the last phase alone may say: what is kept, and what comes next.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FinalSections {
    /// What is preserved, backup included.
    pub preserved: Vec<String>,
    /// What an operator may do now.
    pub next_steps: Vec<String>,
}

/// Everything that a phase report shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PhaseReport {
    /// The phase.
    pub phase: Phase,
    /// The run.
    pub run_id: String,
    /// Did its gate pass?
    pub pass: bool,
    /// `NONE`, or which tables were written.
    pub production_mutation: String,
    /// Pins that the phase started from; an excerpt, never the whole sidecar.
    pub inputs: Vec<(String, String)>,
    /// What was done, one line per step.
    pub work: Vec<String>,
    /// What moved: name, before, after.
    pub diff: Vec<(String, String, String)>,
    /// The gate's verdict.
    pub gate: GateReport,
    /// What was made: path, sha256, bytes.
    pub artifacts: Vec<(String, Digest, u64)>,
    /// The closing block.
    pub verdict: Vec<(String, String)>,
    /// Only for the last phase; ignored for any other (spec 2 §2: no speculative next steps).
    pub final_sections: Option<FinalSections>,
}

const INPUTS_MAX: usize = 40;
const WORK_MAX: usize = 24;
const DIFF_MAX: usize = 24;
const CHECKS_MAX: usize = 44;
const ARTIFACTS_MAX: usize = 20;
const VERDICT_MAX: usize = 12;
pub(super) const PRESERVED_MAX: usize = 16;
const NEXT_MAX: usize = 8;

/// Renders a phase report: at most 250 lines, deterministic.
///
/// # Errors
/// [`ReportError`] if it would show a secret or another run, or is too long even when cut.
pub fn render_phase(report: &PhaseReport) -> Result<String, ReportError> {
    fitted(&report.run_id, |cell| render(report, cell))
}

pub(super) fn render(report: &PhaseReport, cell: usize) -> String {
    let phase = report.phase;
    let run_id = one_line(&report.run_id);
    let head = [
        ("phase", phase.as_str().to_string()),
        ("outcome", if report.pass { "PASS" } else { "FAIL" }.to_string()),
        ("production_mutation", report.production_mutation.clone()),
        ("run_id", run_id.to_string()),
    ];
    let mut out = format!("{}\n\n> ```yaml\n", title(phase, &run_id, cell));
    for (key, value) in &head {
        let _ = writeln!(out, "> {key:<21}: {}", scalar(value, cell));
    }
    out.push_str("> ```\n\n## 1. Inputs (RunContext snapshot)\n\n```yaml\n");
    out.push_str(&yaml(&report.inputs, "", INPUTS_MAX, cell));
    out.push_str("```\n\n## 2. Work performed\n\n");
    out.push_str(&bullets(&report.work, WORK_MAX, cell));
    out.push_str("\n## 3. Live snapshot diff (pre vs post)\n\n");
    let diff: Vec<Vec<String>> = report
        .diff
        .iter()
        .map(|(name, pre, post)| vec![code(name, cell), code(pre, cell), code(post, cell)])
        .collect();
    out.push_str(&or_none(&["what", "pre", "post"], &diff, DIFF_MAX));
    out.push_str("\n## 4. Internal-gate invariants\n\n");
    out.push_str(&gate_line(&report.gate));
    out.push_str("\n\n");
    out.push_str(&checks(&report.gate, CHECKS_MAX, cell));
    out.push_str("\n## 5. Artifacts produced\n\n");
    let artifacts: Vec<Vec<String>> = report
        .artifacts
        .iter()
        .map(|(path, sha, n)| vec![code(path, cell), code(&sha.to_hex(), 64), bytes(*n)])
        .collect();
    out.push_str(&or_none(&["path", "sha256", "bytes"], &artifacts, ARTIFACTS_MAX));
    out.push_str("\n## 6. Verdict\n\n```yaml\n");
    out.push_str(&yaml(&report.verdict, "", VERDICT_MAX, cell));
    out.push_str("```\n");
    if let Some(last) = report.final_sections.as_ref().filter(|_| phase == Phase::Closeout) {
        out.push_str("\n### Preserved artifacts\n\n");
        out.push_str(&bullets(&last.preserved, PRESERVED_MAX, cell));
        out.push_str("\n### Next steps\n\n");
        out.push_str(&bullets(&last.next_steps, NEXT_MAX, cell));
    }
    out
}

/// The first line.
pub(super) fn title(phase: Phase, run_id: &str, cell: usize) -> String {
    format!("# {} · {:02} of {} · {}", phase.title(), phase.number(), Phase::COUNT, prose(run_id, cell))
}

fn or_none(header: &[&str], rows: &[Vec<String>], max: usize) -> String {
    if rows.is_empty() { "None.\n".into() } else { table(header, rows, max) }
}

/// One sentence: how many invariants of which gate held.
pub(super) fn gate_line(gate: &GateReport) -> String {
    let (total, failed) = (gate.checks.len(), gate.failures().len());
    if failed == 0 && total > 0 {
        format!("`{}`: all {total} invariants hold.", gate.gate.as_str())
    } else {
        format!("`{}`: {failed} of {total} invariants do not hold.", gate.gate.as_str())
    }
}

/// The table of invariants. Where there are more than fit, failed ones come first: none of them
/// is cut for one that passed.
pub(super) fn checks(gate: &GateReport, max: usize, cell: usize) -> String {
    let mut ordered: Vec<&Check> = gate.checks.iter().collect();
    if ordered.len() > max {
        ordered.sort_by_key(|c| c.ok);
    }
    let rows: Vec<Vec<String>> = ordered
        .iter()
        .map(|c| {
            let ok = if c.ok { "yes" } else { "**NO**" };
            vec![code(&c.invariant, cell), code(&c.expected, cell), code(&c.observed, cell), ok.to_string()]
        })
        .collect();
    or_none(&["invariant", "expected", "observed", "ok"], &rows, max)
}
