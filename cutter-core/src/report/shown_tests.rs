//! A request that shows something else than the program does.

use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use super::tests::{cut_request, pairs};
use super::{RequestReport, render_request, request, shows};
use crate::base::digest::Digest;
use crate::record::approval::field;

/// What somebody knows of a request who has no record of its run.
pub(super) fn known_of(report: &RequestReport, knows_before: bool) -> RequestReport {
    RequestReport {
        at: "1970-01-01T00:00:00Z".parse().unwrap(),
        sidecar_path: String::new(),
        facts: report.facts.iter().filter(|(name, _)| name == field::WRITER_DIGEST).cloned().collect(),
        changes: Vec::new(),
        version_diff: report.version_diff.clone().filter(|_| knows_before),
        content_rows: 0,
        backup: None,
        grants: None,
        pins: Vec::new(),
        evidence: Vec::new(),
        ..report.clone()
    }
}

/// An edit of a request's text: what is replaced, and by what.
type Edit = (&'static str, &'static str);

#[test]
fn a_request_that_shows_something_else_is_told_from_one_that_does_not() {
    let mut report = RequestReport { changes: vec!["asked once more: why".into()], ..cut_request() };
    let asked = report.ask.required[field::WRITER_DIGEST].clone();
    report.facts = pairs(&[("source_version_no", "1"), (field::WRITER_DIGEST, &asked)]);
    report.pins.extend(pairs(&[("function.f", "a|b")]));
    report.evidence = vec![("f/01-source-pin-2026-05-20.md".into(), Digest::of(b"01"))];
    report.ask.request_path = "f/SG1-cut-authz-request-2026-05-20.md".into();
    let text = render_request(&report).unwrap();
    let known = known_of(&report, true);
    assert_eq!(shows(&text, &known, true), Ok(()));
    let edits: [Edit; 31] = [
        ("source_version_no    : 1", "source_version_no    : 1\ntax                  : 10"),
        ("source_version_no    : 1", "source_version_no    : one"),
        ("source_version_no    : 1", "source_version_no    : 1\nsource_version_no    : 1"),
        ("writer_digest        : ", "writer_digest_        : "),
        ("unit_rows            : 0", "unit_rows            : read by the parliament"),
        ("unit_rows            : 0", "unit_rows            : 0\r"),
        ("| scope | `document`", "| scope | `the whole of it was read`"),
        ("| scope | `document` |", "| scope | `document` |\n| note | `document` |"),
        ("| `f/01-source-pin", "| `g/01-source-pin"),
        ("| `f/01-source-pin-2026-05-20.md` |", "| `f/approved.md` |"),
        ("> at                   : \"2026", "> at                   : \"soon, 2026"),
        ("state.json", "state\u{202e}.json"),
        ("# Cut", "# Test Cut"),
        ("NONE until you approve", "NONE"),
        ("created_by           : operator", "created_by           : somebody"),
        ("first cut. To", "rehearsal. To"),
        ("**0 content rows**", "**3 content rows**"),
        ("  - art-1~2  [article body] 34 bytes\n", ""),
        ("chapter body] 20 bytes", "chapter body] 20 bytes, 7 more below"),
        ("- ICX-CONST/ch-1 ", "- ICX-CONST/ch-2 "),
        ("3 units, 1 254 bytes", "3 units, 1 253 bytes"),
        ("Duplicate addresses: 1", "Duplicate addresses: 0"),
        ("Warnings: 1", "Warnings: 0"),
        ("- asked once more: why\n", "- nothing to see here\n"),
        ("run_hard_cap_minutes : 60", "run_hard_cap_minutes : 61"),
        ("## 5. Evidence\n\n", "## 5. Evidence\n\nIgnore the list of units.\n\n"),
        ("```yaml\nsource_version", "```yaml\nThis is a test\nsource_version"),
        ("The answer is signed", "The answer may be signed"),
        ("To refuse: ", "To refuse, do nothing: "),
        ("decision: approve", "decision: approve it"),
        ("4. The operator goes on", "4. Forget it. The operator goes on"),
    ];
    for (before, after) in edits {
        assert!(text.contains(before), "{before} stands in {text}");
        let differs = shows(&text.replacen(before, after, 1), &known, true).expect_err(after);
        assert!(differs.line > 0 && differs.expected != differs.observed, "{after}: {differs}");
    }
    // a digest that the answer repeats stands in the facts as the answer has it
    let mut asked = report.clone();
    asked.facts = pairs(&[(field::WRITER_DIGEST, &Digest::of(b"another").to_hex())]);
    let text = render_request(&asked).unwrap();
    assert_eq!(
        shows(&text, &known_of(&report, true), true).unwrap_err().expected,
        "a line that belongs there"
    );
    // what differs from the version before is known to who looks, or believed
    let other = RequestReport { version_diff: None, ..report.clone() };
    let text = render_request(&report).unwrap();
    assert!(shows(&text, &known_of(&other, true), true).is_err());
    assert_eq!(shows(&text, &known_of(&other, false), false), Ok(()));
    let lied = text.replacen("Against version", "Ignore this: version", 1);
    assert!(shows(&lied, &known_of(&report, false), false).is_err());
    // cut shorter than there was need for
    let mut cut = cut_request();
    cut.units[0].unit_kind = "a".repeat(39);
    let short = request::lay_out(&cut, &request::Told::of(&cut, 9, 10), 9, 10);
    assert!(shows(&short, &known_of(&cut, true), true).is_err());
}
