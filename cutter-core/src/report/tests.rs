//! Snapshots of each document, and the properties that hold for any input.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;

use proptest::prelude::*;
use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

use super::*;
use crate::base::digest::Digest;
use crate::gate::authorization::AuthorizationFacts;
use crate::gate::{grant_probe, mark};
use crate::machine::run::{GateId, Phase};
use crate::record::approval::Purpose;
use crate::record::approval::{ApprovalText, Ask, field, render_approval};
use crate::record::check::{Check, GateReport};
use crate::record::effect::ReviewVerdict;
use crate::text::compare::{Class, Comparison, OutlineLine, UnitFact};

const RUN: &str = "ictr-20260520T101112Z-0196ed9a-1c00-7000-8000-000000000001";

pub(super) fn pairs(list: &[(&str, &str)]) -> Vec<(String, String)> {
    list.iter().map(|(k, v)| ((*k).into(), (*v).into())).collect()
}

fn phase() -> PhaseReport {
    PhaseReport {
        phase: Phase::Mark,
        run_id: RUN.into(),
        pass: true,
        production_mutation: "cutter_governance.decision_backlog_entry".into(),
        inputs: pairs(&[("document_id", "ICX-CONST"), ("region_sha", &Digest::of(b"region").to_hex())]),
        work: vec!["extracted 10..90 again from the stored bytes".into(), "marked 7 candidates".into()],
        diff: vec![("candidate_count".into(), String::new(), "7".into())],
        gate: mark::judge(&mark::MarkFacts::example()),
        artifacts: vec![("02-mark-2026-05-20.md".into(), Digest::of(b"report"), 1234)],
        verdict: pairs(&[("outcome", "PASS"), ("state", "marked")]),
        final_sections: Some(FinalSections { preserved: vec!["x".into()], next_steps: vec!["y".into()] }),
    }
}

fn ask(purpose: Purpose, gate: GateId, fields: &[&str]) -> Ask {
    let mut ask = AuthorizationFacts::example().ask;
    ask.gate = gate;
    ask.approval_type = purpose.to_string();
    ask.required.retain(|key, _| fields.contains(&key.as_str()));
    ask
}

/// A version with one chapter and one article, and the next with a second article of that number.
fn version_diff() -> VersionDiff {
    let fact = |address: &'static str, text: &'static str| UnitFact {
        address,
        citation_address: None,
        unit_kind: "article",
        start: 0,
        end: text.len() as u64,
        content_hash: Digest::of(text.as_bytes()),
        body_hash: Digest::of(text.as_bytes()),
        text: Some(text.as_bytes()),
    };
    let old = [fact("ICX-CONST/ch-1", "Chapter"), fact("ICX-CONST/ch-1/art-1", "Nobody is above the law.")];
    let new = [
        old[0],
        fact("ICX-CONST/ch-1/art-1", "Nobody is above or below the law."),
        fact("ICX-CONST/ch-1/art-1~2", "Again."),
    ];
    VersionDiff::of(1, &Comparison::between(&old, &new))
}

pub(super) fn cut_request() -> RequestReport {
    use field::*;
    let fields = [
        RUN_ID,
        DOCUMENT_ID,
        SOURCE_VERSION_ID,
        WRITER_DIGEST,
        MANIFEST_DIGEST,
        REGION_SHA,
        BASE_STATE_SHA,
        NONCE,
    ];
    let unit = |address: &str, kind: &str, bytes| UnitLine {
        address: address.into(),
        unit_kind: kind.into(),
        section_type: "body".into(),
        bytes,
    };
    let policy = AuthorizationFacts::example().policy;
    RequestReport {
        ask: ask(Purpose::Cut, GateId::CutAuthz, &fields),
        run_id: RUN.into(),
        document_id: "ICX-CONST".into(),
        created_by: "operator".into(),
        at: "2026-05-20T10:11:12Z".parse().unwrap(),
        sidecar_path: "/var/lib/cutter/runs/state.json".into(),
        facts: pairs(&[("version", "1"), ("writer_digest", &Digest::of(b"plan").to_hex())]),
        units: vec![
            unit("ICX-CONST/ch-1", "chapter", 20),
            unit("ICX-CONST/ch-1/art-1", "article", 1200),
            unit("ICX-CONST/ch-1/art-1~2", "article", 34),
        ],
        duplicates: vec!["ICX-CONST/ch-1/art-1 stands there 2 times".into()],
        warnings: Vec::new(),
        changes: Vec::new(),
        version_diff: Some(version_diff()),
        content_rows: 0,
        backup: Some(BackupLine {
            name: "pre_write.1.gpg".into(),
            bytes: 4096,
            sha256: Digest::of(b"ciphertext"),
            plaintext_sha256: Digest::of(b"plaintext"),
            fingerprint: "0123456789ABCDEF0123456789ABCDEF01234567".into(),
            scope: "document".into(),
        }),
        grants: Some(grant_probe::judge(&grant_probe::example())),
        pins: pairs(&[("unit_rows", "0"), ("grants", &Digest::of(b"grants").to_hex())]),
        settings: pairs(&[("run_hard_cap_minutes", "60"), ("max_candidates", "1000")]),
        evidence: vec![("01-source-pin-2026-05-20.md".into(), Digest::of(b"01"))],
        policy,
    }
}

fn stop() -> StopReport {
    use field::*;
    let fields = [RUN_ID, DOCUMENT_ID, STOP, STOP_CODE, OBSERVED_SHA256, NONCE];
    let asks = vec![
        ask(Purpose::Drift, GateId::FailureEscalation, &fields),
        ask(Purpose::Void, GateId::FailureEscalation, &[RUN_ID, DOCUMENT_ID, STOP, STOP_CODE, NONCE]),
    ];
    StopReport {
        run_id: RUN.into(),
        document_id: "ICX-CONST".into(),
        n: 1,
        code: "STOP_DRIFT_unit_rows".into(),
        stage: "grants_probed".into(),
        at: "2026-05-20T10:11:12Z".parse().unwrap(),
        nonce: "77".repeat(32),
        detail: vec!["unit_rows: expected 0, observed 3".into()],
        observed: BTreeMap::from([("unit_rows".to_string(), "3".to_string())]),
        asks,
        sidecar_json: "{\n  \"run_id\": \"x\",\n  \"note\": \"```` in a text\"\n}".into(),
    }
}

#[test]
fn a_phase_report_looks_like_this() {
    let text = render_phase(&phase()).unwrap();
    insta::assert_snapshot!("phase_report", text);
    assert!(!text.contains("Next steps"), "only the last phase looks ahead");
}

#[test]
fn the_final_report_lists_what_is_kept_and_what_comes_next() {
    let last = PhaseReport { phase: Phase::Closeout, ..phase() };
    let text = render_phase(&last).unwrap();
    assert!(
        text.contains("### Preserved artifacts\n\n- x\n") && text.ends_with("### Next steps\n\n- y\n"),
        "{text}"
    );
}

#[test]
fn a_request_shows_the_newest_evidence() {
    let named = |n: u8| (format!("f/{n:02}-x.md"), Digest::of(&[n]));
    let report = RequestReport { evidence: (1..=13).map(named).collect(), ..cut_request() };
    let text = render_request(&report).unwrap();
    assert!(text.contains("| `f/04-x.md` |") && text.contains("| `f/13-x.md` |"), "{text}");
    assert!(text.contains("| and 3 more |") && !text.contains("f/03-x.md"), "{text}");
}

#[test]
fn a_failed_phase_shows_expected_and_observed() {
    let facts = mark::MarkFacts { candidate_count: 0, ..mark::MarkFacts::example() };
    let failed = PhaseReport { pass: false, gate: mark::judge(&facts), ..phase() };
    let text = render_phase(&failed).unwrap();
    assert!(text.contains("| `mark.candidate_count_within` | `1 to 7` | `0` | **NO** |"), "{text}");
    assert!(text.contains("outcome              : FAIL"));
}

#[test]
fn no_failed_invariant_is_cut_for_one_that_passed() {
    let mut checks: Vec<Check> = (0..200).map(|i| Check::truth(&format!("own.a{i}"), true)).collect();
    checks.push(Check::truth("own.last", false));
    let text = render_phase(&PhaseReport { gate: GateReport::new(GateId::Mark, checks), ..phase() }).unwrap();
    assert!(text.contains("`own.last`") && text.contains("and 157 more"), "{text}");
}

#[test]
fn a_cut_request_looks_like_this() {
    insta::assert_snapshot!("cut_request", render_request(&cut_request()).unwrap());
}

#[test]
fn a_lifecycle_request_says_that_it_cannot_be_taken_back() {
    use field::*;
    let fields = [RUN_ID, DOCUMENT_ID, CHANGE_SET_ID, REVIEW_DECISION_ID, UNIT_COUNT, UNIT_SET_DIGEST, NONCE];
    let request = RequestReport {
        ask: ask(Purpose::Lifecycle, GateId::LifecycleAuthz, &fields),
        backup: None,
        grants: None,
        version_diff: None,
        ..cut_request()
    };
    let text = render_request(&request).unwrap();
    insta::assert_snapshot!("lifecycle_request", text);
    assert!(text.contains("neither voided nor"));
}

#[test]
fn a_later_cut_names_the_rows_that_stand_already() {
    let text = render_request(&RequestReport { content_rows: 7, ..cut_request() }).unwrap();
    assert!(text.contains("**7 content rows** now; they stay as they are."), "{text}");
}

#[test]
fn a_stop_report_looks_like_this() {
    insta::assert_snapshot!("stop_report", render_stop(&stop()).unwrap());
}

#[test]
fn a_stop_without_asks_is_a_plain_resume_and_a_failure_is_final() {
    let plain = StopReport { asks: Vec::new(), code: "STOP_KB_UPLOAD".into(), ..stop() };
    assert!(render_stop(&plain).unwrap().contains("a plain resume goes on at `grants_probed`"));
    let failed = StopReport { code: "failed_mark".into(), ..stop() };
    assert!(render_stop(&failed).unwrap().contains("This is final"));
}

#[test]
fn a_request_shows_the_grants_that_do_not_hold() {
    let grants = |ok| GateReport::new(GateId::GrantProbe, vec![Check::truth("grants.one", ok)]);
    let text = |ok| render_request(&RequestReport { grants: Some(grants(ok)), ..cut_request() }).unwrap();
    assert!(!text(true).contains("grants.one") && text(false).contains("grants.one"));
}

#[test]
fn a_stop_report_tells_forty_lines_of_why_and_counts_the_rest() {
    let why = |n: usize| StopReport { detail: (0..n).map(|i| format!("why {i}")).collect(), ..stop() };
    assert!(!render_stop(&why(40)).unwrap().contains(" more\n"));
    let text = render_stop(&why(42)).unwrap();
    assert!(text.contains("- why 39\n- and 2 more\n"), "{text}");
}

#[test]
fn a_stop_report_withholds_what_it_cannot_refuse() {
    let dsn = "postgres://u:hunter2@h/db";
    let text =
        render_stop(&StopReport { sidecar_json: format!("{{\"dsn\": \"{dsn}\"}}"), ..stop() }).unwrap();
    assert!(!text.contains("hunter2") && text.contains("[withheld: a database address]"), "{text}");
}

#[test]
fn secrets_and_other_runs_are_refused() {
    let mut report = phase();
    report.work.push("connected to postgres://u:hunter2@h/db".into());
    assert!(matches!(render_phase(&report), Err(ReportError::Secret { .. })));
    let mut report = phase();
    report.diff.push(("dsn".into(), "host=h".into(), "password=hunter2".into()));
    assert!(matches!(render_phase(&report), Err(ReportError::Secret { .. })));
    let mut report = cut_request();
    report.warnings.push(format!("as in {}", RUN.replace("000001", "000002")));
    assert!(matches!(render_request(&report), Err(ReportError::OtherRun { .. })));
}

#[test]
fn what_is_asked_is_read_back_from_the_document_alone() {
    let request = cut_request();
    let text = render_request(&request).unwrap();
    let read = asks_of_document(&text, &request.ask.request_path);
    let mut expected = request.ask;
    expected.required.insert(field::REQUEST_SHA256.into(), Digest::of(text.as_bytes()).to_hex());
    assert_eq!(read, vec![expected]);
    // a stop's report, whether it asks for its own sha256 or an earlier program wrote it
    let report = stop();
    let text = render_stop(&report).unwrap();
    let read = asks_of_document(&text, &report.asks[0].request_path);
    let mut expected = report.asks;
    for ask in &mut expected {
        ask.required.insert(field::REQUEST_SHA256.into(), Digest::of(text.as_bytes()).to_hex());
    }
    assert_eq!(read, expected);
    assert!(asks_of_document("no template", "x").is_empty());
}

#[test]
fn the_template_filled_in_by_hand_is_the_answer_that_the_command_writes() {
    let request = cut_request();
    let text = render_request(&request).unwrap();
    let sha = Digest::of(text.as_bytes()).to_hex();
    let block = text.split("```text\n").last().unwrap().split("```").next().unwrap();
    let filled = block
        .replace("<sha256 of this document>", &sha)
        .replace("<now, as 2026-05-20T10:11:12Z>", "2026-05-20T10:11:12Z");
    let read = ApprovalText::parse(&filled).unwrap();
    let ask = &asks_of_document(&text, &request.ask.request_path)[0];
    let command =
        render_approval(ask, ReviewVerdict::Approve, "sovereign", read.signed_at, None, &BTreeMap::new());
    assert_eq!(filled, command);
    assert!(ApprovalText::parse(block).is_err(), "a template that nobody filled in is no approval");
}

#[test]
fn a_thousand_units_fit_and_the_rest_is_counted() {
    let units = (0..1000).map(|i| UnitLine {
        address: format!("ICX-CONST/ch-{}/art-{i}", i / 20),
        unit_kind: "article".into(),
        section_type: "body".into(),
        bytes: 1 << 20,
    });
    let text = render_request(&RequestReport { units: units.collect(), ..cut_request() }).unwrap();
    assert!(text.lines().count() <= crate::base::limits::REPORT_MAX_LINES);
    assert!(text.contains("of them are not listed. `cutter plan FILE --document-id ICX-CONST` shows all"));
}

/// Tables as (columns, rows), and the headings, as a CommonMark reader sees them.
fn structure(text: &str) -> (Vec<(usize, usize)>, Vec<String>) {
    let mut options = Options::empty();
    options.insert(Options::ENABLE_TABLES);
    let (mut tables, mut headings) = (Vec::new(), Vec::new());
    let mut heading: Option<String> = None;
    for event in Parser::new_ext(text, options) {
        match event {
            Event::Start(Tag::Table(columns)) => tables.push((columns.len(), 0)),
            Event::Start(Tag::TableRow) => tables.last_mut().unwrap().1 += 1,
            Event::Start(Tag::Heading { .. }) => heading = Some(String::new()),
            Event::End(TagEnd::Heading(_)) => headings.extend(heading.take()),
            Event::Text(t) | Event::Code(t) => {
                if let Some(h) = &mut heading {
                    h.push_str(&t);
                }
            }
            Event::Html(html) | Event::InlineHtml(html) => panic!("raw HTML: {html}"),
            _ => {}
        }
    }
    (tables, headings)
}

/// Text that means to break out: Markdown's signs, fences, line breaks, invisible characters.
fn hostile() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        any::<String>(),
        "[|`*_<>#~\\[\\]()&\\\\\n\r\t -]{0,12}",
        Just("```".to_string()),
        Just("\n```\n# x\n".to_string()),
        Just("<script>".to_string()),
        Just("| a | b |\n|---|---|".to_string()),
        Just("\u{202e}\u{2028}".to_string()),
        Just("é".repeat(900)),
    ];
    prop::collection::vec(piece, 0..4).prop_map(|p| p.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn any_phase_report_fits_and_no_table_breaks(
        texts in prop::collection::vec(hostile(), 1..8),
        n in 0usize..70,
        phase_number in 1u8..=11,
    ) {
        let pick = |i: usize| texts[i % texts.len()].clone();
        let many = |k: usize| (0..n).map(move |i| i + k);
        let checks: Vec<Check> = many(5).map(|i| Check::new(&pick(i), pick(i + 1), pick(i + 2), i % 3 > 0)).collect();
        let report = PhaseReport {
            phase: Phase::from_number(phase_number).unwrap(),
            run_id: RUN.into(),
            pass: n % 2 == 0,
            production_mutation: pick(0),
            inputs: many(1).map(|i| (pick(i), pick(i + 1))).collect(),
            work: many(2).map(pick).collect(),
            diff: many(3).map(|i| (pick(i), pick(i + 1), pick(i + 2))).collect(),
            gate: GateReport::new(GateId::Mark, checks),
            artifacts: many(4).map(|i| (pick(i), Digest::of(b"x"), u64::MAX)).collect(),
            verdict: many(6).map(|i| (pick(i), pick(i + 1))).collect(),
            final_sections: Some(FinalSections { preserved: many(7).map(pick).collect(), next_steps: many(8).map(pick).collect() }),
        };
        let text = render_phase(&report).unwrap();
        prop_assert!(text.lines().count() <= 250 && text.len() <= REPORT_MAX_BYTES, "{} lines", text.lines().count());
        let (tables, headings) = structure(&text);
        let wanted: Vec<(usize, usize)> = [(3, 24), (4, 44), (3, 20)]
            .into_iter()
            .filter(|_| n > 0)
            .map(|(columns, max)| (columns, if n > max { max + 1 } else { n }))
            .collect();
        prop_assert_eq!(tables, wanted);
        prop_assert_eq!(headings.len(), 7 + if phase_number == 11 { 2 } else { 0 }, "{:?}", headings);
        prop_assert_eq!(render_phase(&report).unwrap(), text);
    }

    #[test]
    fn any_request_fits_and_asks_for_what_it_should(
        texts in prop::collection::vec(hostile(), 1..8),
        n in 0usize..120,
    ) {
        let pick = |i: usize| texts[i % texts.len()].clone();
        let many = || 0..n;
        let clean = cut_request();
        let report = RequestReport {
            created_by: pick(0),
            sidecar_path: pick(1),
            document_id: pick(2),
            facts: many().map(|i| (pick(i), pick(i + 1))).collect(),
            units: many().map(|i| UnitLine {
                address: pick(i), unit_kind: pick(i + 1), section_type: pick(i + 2), bytes: u64::MAX,
            }).collect(),
            duplicates: many().map(pick).collect(),
            warnings: many().take(n % 9).map(pick).collect(),
            changes: many().map(|i| format!("asked once more: {}", pick(i))).collect(),
            version_diff: Some(VersionDiff {
                lines: many().map(|i| OutlineLine {
                    class: (i % 3 > 0).then_some(Class::ALL[i % 7]), depth: i % 20, branch: pick(i), name: pick(i + 1), note: pick(i + 2),
                }).collect(),
                more: n,
                ..version_diff()
            }),
            grants: Some(GateReport::new(GateId::GrantProbe, many().map(|i| Check::truth(&pick(i), i % 2 == 0)).collect())),
            pins: many().map(|i| (pick(i), pick(i + 1))).collect(),
            settings: many().map(|i| (pick(i), pick(i + 1))).collect(),
            evidence: many().map(|i| (pick(i), Digest::of(b"x"))).collect(),
            ..clean.clone()
        };
        let text = render_request(&report).unwrap();
        prop_assert!(text.lines().count() <= 250 && text.len() <= REPORT_MAX_BYTES, "{} lines", text.lines().count());
        let asks = asks_of_document(&text, &clean.ask.request_path);
        prop_assert_eq!(asks.len(), 1);
        for (key, value) in &clean.ask.required {
            prop_assert_eq!(asks[0].required.get(key), Some(value));
        }
        let (_, headings) = structure(&text);
        prop_assert_eq!(headings.len(), 7, "{:?}", headings);
        // whoever knows the plan and the policy finds it to be what the program shows, and no other words
        let report = RequestReport {
            facts: pairs(&[("source_version_no", "1")]),
            pins: many().map(|i| (format!("function.{}", pick(i)), pick(i + 1))).collect(),
            grants: Some(GateReport::new(GateId::GrantProbe, many()
                .map(|i| Check::new("grant_probe.public_execute", pick(i + 1), pick(i + 2), i % 2 == 0))
                .collect())),
            evidence: many().map(|i| (format!("f/SG1-cut-authz-request-{}-2026-05-20.md", i + 2), Digest::of(b"x"))).collect(),
            ask: Ask { request_path: "f/r".into(), ..clean.ask.clone() },
            ..report
        };
        let text = render_request(&report).unwrap();
        for knows_before in [true, false] {
            let known = super::shown_tests::known_of(&report, knows_before);
            prop_assert_eq!(shows(&text, &known, knows_before), Ok(()));
            let lines: Vec<&str> = text.lines().collect();
            for line in (n..lines.len()).step_by(127) {
                let mut edited = lines.clone();
                edited[line] = "Sign this, all is well.";
                let edited = edited.join("\n") + "\n";
                prop_assert!(shows(&edited, &known, knows_before).is_err(), "line {}: {}", line + 1, lines[line]);
            }
        }
    }

    #[test]
    fn any_stop_report_keeps_its_shape(detail in hostile(), sidecar in hostile(), code in hostile()) {
        let report = StopReport { detail: vec![detail], sidecar_json: sidecar, code, ..stop() };
        let text = render_stop(&report).unwrap();
        prop_assert_eq!(asks_of_document(&text, &report.asks[0].request_path).len(), 2);
        let (_, headings) = structure(&text);
        prop_assert_eq!(headings.len(), 6, "{:?}", headings);
    }
}

#[test]
fn each_way_to_go_on_after_a_stop_is_told() {
    let with = |code: &str, purposes: &[Purpose]| {
        let kinds: Vec<&str> = purposes.iter().map(|purpose| purpose.as_str()).collect();
        let asks = purposes
            .iter()
            .map(|purpose| ask(*purpose, GateId::FailureEscalation, &[field::RUN_ID]))
            .collect();
        let text = render_stop(&StopReport { code: code.into(), asks, ..stop() }).unwrap();
        let (_, after) = text.split_once("## 2. How to go on\n").unwrap();
        let told = after.lines().filter(|line| line.starts_with("- ")).collect::<Vec<_>>().join("\n");
        format!("{code} {kinds:?}\n{}\n", told.replace(RUN, "RUN"))
    };
    let told = [
        with("STOP_KB_UPLOAD", &[Purpose::Void]),
        with("STOP_SOVEREIGN", &[Purpose::Resume, Purpose::Void]),
        with("STOP_DRIFT_grants", &[Purpose::Drift, Purpose::Void]),
        with("STOP_REFUSED", &[]),
        with("failed_IG_mark", &[Purpose::Void]),
    ];
    insta::assert_snapshot!("ways_to_go_on", told.concat());
}
