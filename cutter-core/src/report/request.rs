//! The requests at SG_1 and SG_2: everything that an approver reads before signing, and the exact
//! text to sign. The text is also what `cutter sovereign approve` reads back ([`asks_of_document`]):
//! what a person sees and what the command signs are the same lines.

use alloc::borrow::ToOwned;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;

use jiff::Timestamp;

use super::phase::{checks, gate_line};
use super::text::{bullets, bytes, code, one_line, prose, scalar, table, yaml};
use super::version::VersionDiff;
use super::{ReportError, fitted, tree, version};
use crate::base::digest::Digest;
use crate::base::limits::REPORT_MAX_LINES;
use crate::base::visible::is_hidden;
use crate::gate::drift::FUNCTION_PREFIX;
use crate::machine::run::GateId;
use crate::record::approval::{self, ApprovalPolicy, Ask, Purpose, SignaturePolicy, allows, field};
use crate::record::check::GateReport;

/// One unit that would be cut or enacted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnitLine {
    /// Canonical address.
    pub address: String,
    /// From the vocabulary.
    pub unit_kind: String,
    /// From the vocabulary.
    pub section_type: String,
    /// Length of its text.
    pub bytes: u64,
}

/// The stored backup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackupLine {
    /// Name within the run's own place.
    pub name: String,
    /// Length of the ciphertext.
    pub bytes: u64,
    /// sha256 of the ciphertext (`backup_sha`).
    pub sha256: Digest,
    /// sha256 of the plaintext.
    pub plaintext_sha256: Digest,
    /// The recipient's fingerprint.
    pub fingerprint: String,
    /// `document` or `database`.
    pub scope: String,
}

/// Everything that a request shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestReport {
    /// What is asked. `request_sha256` need not be among its required fields yet: it is the digest
    /// of the document that this renders.
    pub ask: Ask,
    /// The run.
    pub run_id: String,
    /// Its document.
    pub document_id: String,
    /// Who created the run.
    pub created_by: String,
    /// When the request was fixed.
    pub at: Timestamp,
    /// Where the operator finds the sidecar.
    pub sidecar_path: String,
    /// Facts and digests by name, in the order shown.
    pub facts: Vec<(String, String)>,
    /// The units, in document order.
    pub units: Vec<UnitLine>,
    /// Duplicate addresses that got a number.
    pub duplicates: Vec<String>,
    /// Warnings of the policy, of detection, marking and planning.
    pub warnings: Vec<String>,
    /// What changed on the way here, and why it is asked once more.
    pub changes: Vec<String>,
    /// What changed since the version before, if there is one.
    pub version_diff: Option<VersionDiff>,
    /// Content rows of the document that stand already.
    pub content_rows: u64,
    /// The backup.
    pub backup: Option<BackupLine>,
    /// The grant probe's verdict.
    pub grants: Option<GateReport>,
    /// Drift pins.
    pub pins: Vec<(String, String)>,
    /// Caps and settings of the run.
    pub settings: Vec<(String, String)>,
    /// Documents filed so far: path and sha256.
    pub evidence: Vec<(String, Digest)>,
    /// Who may answer, and how.
    pub policy: ApprovalPolicy,
}

const FACTS_MAX: usize = 36;
pub(super) const LISTED_MAX: usize = 6;
const PINS_MAX: usize = 22;
const SETTINGS_MAX: usize = 24;
const EVIDENCE_MAX: usize = 10;
const KINDS_MAX: usize = 8;

pub(super) const AT: &str = "at";
pub(super) const SIDECAR_PATH: &str = "sidecar_path";
pub(super) const FACTS: &str = "\n## 2. Facts and digests\n\n```yaml\n";
pub(super) const UNITS: &str = "```\n\n## 3. Units\n\n";
pub(super) const WARNINGS: &str = "\nWarnings: ";
pub(super) const SAFETY_NET: &str = "\n## 4. Safety net\n\n";
pub(super) const PINNED: &str = "\nPinned; any difference stops the run:\n\n```yaml\n";
pub(super) const EVIDENCE: &str = "```\n\n## 5. Evidence\n\n";
pub(super) const ANSWER: &str = "\n## 6. How to answer\n\n";

/// Renders a request: at most 250 lines, deterministic. What differs from the version before and the
/// list of units share the lines that the rest leaves; what is left out is counted, with the command
/// that shows it.
///
/// # Errors
/// [`ReportError`] if it would show a secret or another run, or is too long even when cut.
pub fn render_request(report: &RequestReport) -> Result<String, ReportError> {
    fitted(&report.run_id, |cell| {
        let differing = report.version_diff.as_ref().map_or(0, |diff| diff.lines.len());
        let left = lines_left(report, &Told::of(report, 0, cell), cell);
        // with an earlier version, what differs is read before what there is
        let diff_lines = differing.min(left / 2);
        lay_out(report, &Told::of(report, diff_lines, cell), left - diff_lines, cell)
    })
}

/// How many lines the rest leaves to the list of units.
pub(super) fn lines_left(report: &RequestReport, told: &Told, cell: usize) -> usize {
    REPORT_MAX_LINES.saturating_sub(lay_out(report, told, 0, cell).lines().count() + 1)
}

/// What a request says that only the run's own record and host can know: rendered, as it stands there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Told {
    pub(super) at: String,
    pub(super) sidecar_path: String,
    pub(super) facts: String,
    /// The warnings that are shown, behind those of the report.
    pub(super) changes: Vec<String>,
    /// How many warnings are not shown.
    pub(super) more: usize,
    pub(super) version_diff: String,
    pub(super) content_rows: u64,
    pub(super) safety_net: String,
    pub(super) pins: String,
    pub(super) evidence: String,
}

impl Told {
    pub(super) fn of(report: &RequestReport, diff_lines: usize, cell: usize) -> Self {
        let mut safety_net = backup(report, cell);
        if let Some(grants) = &report.grants {
            safety_net.push_str(&format!("\n{}\n", gate_line(grants)));
            let failed: Vec<_> = grants.checks.iter().filter(|c| !c.ok).cloned().collect();
            if !failed.is_empty() {
                safety_net.push_str(&format!(
                    "\n{}",
                    checks(&GateReport::new(grants.gate, failed), LISTED_MAX, cell)
                ));
            }
        }
        // functions last: where pins must be cut, the values that move between runs stay
        let mut pins: Vec<_> = report.pins.iter().map(|(key, value)| (word(key), word(value))).collect();
        pins.sort_by_key(|(name, _)| name.starts_with(FUNCTION_PREFIX));
        let evidence = report.evidence.iter();
        let mut evidence: Vec<Vec<String>> =
            evidence.map(|(path, sha)| vec![code(path, cell), code(&sha.to_hex(), 64)]).collect();
        // what was filed last is shown, and what came before it is counted
        let earlier = evidence.len().saturating_sub(EVIDENCE_MAX);
        evidence.rotate_left(earlier);
        let room = LISTED_MAX.saturating_sub(report.warnings.len());
        let changes: Vec<String> = report.changes.iter().take(room).map(|c| prose(c, cell)).collect();
        let all = report.warnings.len() + report.changes.len();
        let document = one_line(&report.document_id);
        let diff = report.version_diff.as_ref();
        Self {
            at: scalar(&report.at.to_string(), cell),
            sidecar_path: scalar(&report.sidecar_path, cell),
            facts: yaml(&report.facts, "", FACTS_MAX, cell),
            more: all.saturating_sub(LISTED_MAX),
            changes,
            version_diff: diff.map_or_else(String::new, |d| version::render(d, &document, diff_lines, cell)),
            content_rows: report.content_rows,
            safety_net,
            pins: yaml(&pins, "", PINS_MAX, cell.min(100)),
            evidence: if evidence.is_empty() {
                "None.\n".into()
            } else {
                table(&["document", "sha256"], &evidence, EVIDENCE_MAX)
            },
        }
    }
}

/// Whether a character may stand in what the record pins: such words leave no place for a sentence.
pub(super) fn is_of_a_word(c: char) -> bool {
    (c.is_alphanumeric() && !is_hidden(c)) || matches!(c, '_' | '.' | ':' | '/' | '+' | '-' | '|' | '…')
}

/// A pin as one word. What is more than a word stands as its digest: a function may have any name.
fn word(text: &str) -> String {
    if !text.is_empty() && text.chars().all(is_of_a_word) {
        text.to_owned()
    } else {
        Digest::of(text.as_bytes()).to_hex()
    }
}

pub(super) fn lay_out(report: &RequestReport, told: &Told, tree_lines: usize, cell: usize) -> String {
    let ask = &report.ask;
    let cut = !ask.is_for(Purpose::Lifecycle);
    let run_id = one_line(&report.run_id);
    let title = if cut { "Cut Authorization Request" } else { "Lifecycle Enact Authorization Request" };
    let mut out =
        format!("# {title} · {} · {}\n\n> ```yaml\n", prose(&report.document_id, cell), prose(&run_id, cell));
    let own = |text: &str| scalar(text, cell);
    for (key, value) in [
        ("gate", own(ask.gate.as_str())),
        ("occurrence", own(&ask.occurrence.to_string())),
        ("production_mutation", own("NONE until you approve")),
        ("run_id", own(&run_id)),
        ("created_by", own(&report.created_by)),
        (AT, told.at.clone()),
        (SIDECAR_PATH, told.sidecar_path.clone()),
        ("voice_code", own(&ask.voice_code())),
    ] {
        out.push_str(&format!("> {key:<21}: {value}\n"));
    }
    out.push_str("> ```\n\n## 1. What you are asked\n\n");
    out.push_str(&format!("{}\n\n{}\n\n", prose(&allows(ask), 600), consequence(told.content_rows, cut)));
    out.push_str(&format!(
        "Compare by voice with the operator: `{}`. It stands for every value below but the digest of this document.\n",
        ask.voice_code()
    ));
    out.push_str(FACTS);
    out.push_str(&told.facts);
    out.push_str(UNITS);
    out.push_str(&units(report, cut, tree_lines, cell));
    out.push_str(&format!("\nDuplicate addresses: {}.\n\n", report.duplicates.len()));
    out.push_str(&bullets(&report.duplicates, LISTED_MAX, cell));
    let warnings = report.warnings.iter().take(LISTED_MAX).map(|w| prose(w, cell));
    let mut warnings: Vec<String> = warnings.chain(told.changes.iter().cloned()).collect();
    out.push_str(&format!("{WARNINGS}{}.\n\n", warnings.len() + told.more));
    match (warnings.is_empty(), told.more) {
        (true, 0) => warnings.push("none".to_owned()),
        (_, 0) => {}
        (_, more) => warnings.push(format!("and {more} more")),
    }
    warnings.iter().for_each(|warning| out.push_str(&format!("- {warning}\n")));
    out.push_str(&told.version_diff);
    out.push_str(SAFETY_NET);
    out.push_str(&told.safety_net);
    out.push_str(PINNED);
    out.push_str(&told.pins);
    out.push_str("```\n\nCaps and settings:\n\n```yaml\n");
    out.push_str(&yaml(&report.settings, "", SETTINGS_MAX, cell));
    out.push_str(EVIDENCE);
    out.push_str(&told.evidence);
    out.push_str(&format!("{ANSWER}{}\n\n", who(&report.policy, ask, cell)));
    out.push_str(&approval_template(ask));
    out.push('\n');
    out.push_str(&by_hand(ask, &run_id));
    out
}

/// What follows from a yes, and how far it can be taken back.
pub(super) fn consequence(content_rows: u64, cut: bool) -> String {
    match (cut, content_rows) {
        (true, 0) => "The document has **0 content rows** now: this is a first cut. To revert means to void."
            .to_owned(),
        (true, n) => format!(
            "The document has **{n} content rows** now; they stay as they are. To revert means to void the new ones."
        ),
        (false, _) => {
            "The units are drafts now and can be voided. Once enacted they can be neither voided nor \
                       changed; only a new version follows them."
                .to_owned()
        }
    }
}

fn units(report: &RequestReport, cut: bool, tree_lines: usize, cell: usize) -> String {
    let n = report.units.len();
    let total = report.units.iter().fold(0u64, |sum, u| sum.saturating_add(u.bytes));
    let mut kinds: BTreeMap<(&str, &str), (u64, u64)> = BTreeMap::new();
    for unit in &report.units {
        let entry = kinds.entry((&unit.unit_kind, &unit.section_type)).or_default();
        *entry = (entry.0 + 1, entry.1.saturating_add(unit.bytes));
    }
    let rows: Vec<Vec<String>> = kinds
        .iter()
        .map(|((kind, section), (count, size))| {
            vec![code(kind, cell), code(section, cell), count.to_string(), bytes(*size)]
        })
        .collect();
    let mut out = format!("{n} units, {}, in document order:\n\n", bytes(total));
    out.push_str(&table(&["unit_kind", "section_type", "units", "bytes"], &rows, KINDS_MAX));
    out.push('\n');
    let shown = tree::render(&report.units, tree_lines, cell);
    out.push_str(&format!("```text\n{}```\n\n", shown.text));
    let document = one_line(&report.document_id);
    let (command, why) = if cut {
        (format!("cutter plan FILE --document-id {document}"), "its writer_digest must be the one asked for")
    } else {
        (format!("cutter unit list --document-id {document} --status draft"), "it reads the stored drafts")
    };
    let left_out = if shown.left_out == 0 {
        "All of them are listed.".to_owned()
    } else {
        format!("{} of them are not listed.", shown.left_out)
    };
    out + &format!("{left_out} {} shows all with their hashes; {why}.\n", code(&command, 300))
}

fn backup(report: &RequestReport, cell: usize) -> String {
    let Some(backup) = &report.backup else {
        return "No backup is part of this request: what would be changed was written by this run.\n".into();
    };
    let row = |name: &str, value: String| vec![name.to_owned(), value];
    let rows = [
        row("name", code(&backup.name, cell)),
        row("scope", code(&backup.scope, cell)),
        row("size", bytes(backup.bytes)),
        row("sha256 (encrypted)", code(&backup.sha256.to_hex(), 64)),
        row("sha256 (plaintext)", code(&backup.plaintext_sha256.to_hex(), 64)),
        row("recipient key", code(&backup.fingerprint, cell)),
        row("content rows in it", report.content_rows.to_string()),
    ];
    table(&["backup", ""], &rows, rows.len())
}

fn who(policy: &ApprovalPolicy, ask: &Ask, cell: usize) -> String {
    let signed = match policy.signature {
        SignaturePolicy::Required => "signed with a pinned key",
        SignaturePolicy::Optional => "signed with a pinned key, or unsigned as the policy allows",
    };
    let named = match &ask.expected_actor {
        Some(actor) => format!("{} must answer", prose(actor, cell)),
        None => "one of these may answer".to_owned(),
    };
    let needed = match policy.needed {
        1 => String::new(),
        people => format!("; {people} different people must approve"),
    };
    let creator = if policy.approver_not_creator { "; not the run's creator" } else { "" };
    let shown: Vec<String> = policy
        .approvers
        .iter()
        .take(LISTED_MAX)
        .map(|a| format!("{} ({})", prose(&a.actor, cell.min(64)), code(&a.fingerprint, 80)))
        .collect();
    let more = policy.approvers.len().saturating_sub(shown.len());
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("The answer is {signed}; {named}{needed}{creator}: {}{more}.", shown.join(", "))
}

/// Stands in a template where the approver fills in.
const YOU: &str = "<your name>";
const NOW: &str = "<now, as 2026-05-20T10:11:12Z>";
/// Where a document is asked about by its own digest, which it cannot hold.
pub(crate) const THIS: &str = "<sha256 of this document>";
const ANSWER_PATH: &str = "Path of the answer: ";
const TEMPLATE: &str = "```text";

/// The exact text to sign, between fences, with its path before it.
pub(super) fn approval_template(ask: &Ask) -> String {
    let mut asked = ask.clone();
    if asked.is_at_a_gate() {
        asked.required.insert(field::REQUEST_SHA256.to_owned(), THIS.to_owned());
    }
    let actor = asked.expected_actor.clone().unwrap_or_else(|| YOU.to_owned());
    let text = approval::render(&asked, "approve", &actor, NOW, "never", &BTreeMap::new());
    format!("{ANSWER_PATH}{}\n\n{TEMPLATE}\n{text}```\n", code(&ask.approval_path, 600))
}

/// How to sign, with the command and without it.
pub(super) fn by_hand(ask: &Ask, run_id: &str) -> String {
    let what = ask.word();
    let own_name = ask.request_path.rsplit('/').next().unwrap_or_default();
    let command = |text: String| code(&text, 700);
    let hash = if ask.is_at_a_gate() || ask.required.contains_key(field::REQUEST_SHA256) {
        format!(", `request_sha256` (from {})", command(format!("sha256sum {own_name}")))
    } else {
        String::new()
    };
    let go_on = if ask.is_for(Purpose::Void) { "void" } else { "resume" };
    format!(
        "With the command: {}. It shows these lines, asks, and signs them. To refuse: {}.\n\n\
         By hand, with any OpenPGP program:\n\n\
         1. Save the block above, without the fences, as `approval.md`; fill in `actor`, `signed_at`{hash}.\n\
         \u{20}  To refuse, write `decision: reject` or `decision: defer`. Change nothing else.\n\
         2. Sign it: `gpg --clearsign approval.md`\n\
         3. File `approval.md.asc` in the knowledge base under the path above.\n\
         4. The operator goes on: {}\n",
        command(format!("cutter sovereign approve --run-id {run_id} --for {what}")),
        command(format!("cutter sovereign refuse --run-id {run_id}")),
        command(format!(
            "cutter orchestrate {go_on} --run-id {run_id} --approval-kb-id {}",
            ask.approval_path
        )),
    )
}

/// What a request or a stop-route report asks, read from the document alone: the lines of its
/// templates. `request_path` is where the document stands; its digest is taken from `text`. Empty
/// if it holds no readable template.
#[must_use]
pub fn asks_of_document(text: &str, request_path: &str) -> Vec<Ask> {
    let sha256 = Digest::of(text.as_bytes()).to_hex();
    let mut asks = Vec::new();
    let mut path: Option<String> = None;
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if let Some(rest) = line.strip_prefix(ANSWER_PATH) {
            path = Some(rest.trim_matches('`').to_owned());
        } else if line == TEMPLATE {
            let Some(approval_path) = path.take() else { continue };
            let body: Vec<&str> = lines.by_ref().take_while(|l| *l != "```").collect();
            let (fields, errors) = approval::scan(&body.join("\n"));
            if errors.is_empty() {
                asks.extend(ask_of(fields, approval_path, request_path, &sha256));
            }
        }
    }
    asks
}

fn ask_of(
    mut fields: BTreeMap<String, String>,
    approval_path: String,
    request_path: &str,
    sha256: &str,
) -> Option<Ask> {
    if fields.get("format").is_none_or(|f| f != approval::FORMAT) {
        return None;
    }
    let actor = fields.get("actor").filter(|a| *a != YOU).cloned();
    let (gate, approval_type) = (fields.get("gate")?.parse().ok()?, fields.get("approval_type")?.clone());
    let occurrence = fields.get("occurrence")?.parse().ok()?;
    fields.retain(|key, _| !approval::RESERVED.contains(&key.as_str()));
    // an answer to a stop says what was read, also where an earlier program did not ask for it
    let asks_for_none = gate == GateId::FailureEscalation && !fields.contains_key(field::REQUEST_SHA256);
    if asks_for_none || fields.get(field::REQUEST_SHA256).is_some_and(|value| value == THIS) {
        fields.insert(field::REQUEST_SHA256.to_owned(), sha256.to_owned());
    }
    Some(Ask {
        gate,
        occurrence,
        approval_type,
        required: fields,
        expected_actor: actor,
        approval_path,
        request_path: request_path.to_owned(),
    })
}
