//! Names: the examples of the specification, round trips, and every path trick.
use super::*;
use proptest::prelude::*;
use std::vec::Vec;

fn at() -> Timestamp {
    "2026-05-20T23:59:07.5Z".parse().unwrap()
}

fn version() -> Digest {
    std::format!("008a06ace23a96ea{}", "0".repeat(48)).parse().unwrap()
}

#[test]
fn folders_are_those_of_the_specification() {
    let folder = |suffix| run_folder("ICX-CONST", &version(), at(), suffix).unwrap().to_string();
    let day = "knowledge/dev/laws/icx-const/v008a06ace23a96ea-automation-cut-20260520";
    assert_eq!(folder(FolderSuffix::Day), day);
    assert_eq!(folder(FolderSuffix::Minute), std::format!("{day}-2359"));
    assert_eq!(folder(FolderSuffix::Second), std::format!("{day}-235907"));
    assert!(RUNS_INDEX_PATH.parse::<KbPath>().is_ok());
}

#[test]
fn no_document_id_leads_elsewhere() {
    for id in [
        "",
        ".",
        "..",
        "../x",
        "a/b",
        "/etc",
        "_orchestrator-runs-index",
        "-rf",
        ".git",
        "a b",
        "a\0",
        "ä",
        "a\\b",
    ] {
        assert!(run_folder(id, &version(), at(), FolderSuffix::Day).is_err(), "{id:?}");
    }
    assert!(run_folder("A", &version(), Timestamp::MIN, FolderSuffix::Day).is_err());
}

#[test]
fn a_path_has_no_tricks() {
    let long = "a/".repeat(KB_PATH_MAX / 2) + "a";
    let wide = "a".repeat(KB_PATH_COMPONENT_MAX + 1);
    for text in [
        "",
        "/",
        "/a",
        "a/",
        "a//b",
        ".",
        "..",
        "a/..",
        "a/../b",
        "a/./b",
        "./a",
        "a/.hidden",
        "a/-x",
        "a\\b",
        "C:a",
        "a:b",
        "a b",
        "a\n",
        "a\0b",
        "a%2e",
        "~/a",
        "é",
        "a/\u{2024}\u{2024}/b",
        &long,
        &wide,
    ] {
        assert!(text.parse::<KbPath>().is_err(), "{text:?}");
    }
    let path: KbPath = "knowledge/dev/x.md".parse().unwrap();
    assert_eq!(path.file_name(), "x.md");
    assert_eq!(path.parent().unwrap().as_str(), "knowledge/dev");
    assert_eq!(path.parent().unwrap().join("x.md"), Ok(path.clone()));
    for name in ["", "..", "a/b", "/a"] {
        assert!(path.join(name).is_err(), "{name:?}");
    }
    assert_eq!("a".parse::<KbPath>().unwrap().parent(), None);
    let json = serde_json::to_string(&path).unwrap();
    assert_eq!(serde_json::from_str::<KbPath>(&json).unwrap(), path);
    assert!(serde_json::from_str::<KbPath>("\"../x\"").is_err());
}

fn every_name(n: u32) -> Vec<DocumentName> {
    let mut out: Vec<_> = Phase::ALL.iter().copied().map(DocumentName::Phase).collect();
    for &gate in AuthorizationGate::ALL {
        out.push(DocumentName::Request { gate, occurrence: n });
        out.push(DocumentName::Approval { gate, occurrence: n });
    }
    for &kind in EscalationKind::ALL {
        out.push(DocumentName::EscalationApproval { kind, number: n });
    }
    out.push(DocumentName::StopReport { number: n });
    out
}

#[test]
fn document_names_are_those_of_the_specification() {
    let date = utc_date(at());
    let orchestrators: Vec<_> = every_name(1)
        .into_iter()
        .filter(|name| name.is_orchestrators() && !matches!(name, DocumentName::StopReport { .. }))
        .map(|name| name.file_name(date))
        .collect();
    let expected = [
        "01-source-pin",
        "02-mark",
        "03-cutplan",
        "04-pre-write-backup",
        "05-grant-probe",
        "06-cut-leg-a",
        "07-structural-verify",
        "08-leg-b-record",
        "09-write-verify",
        "10-lifecycle-enact",
        "11-final-orchestrator-report",
        "SG1-cut-authz-request",
        "SG2-lifecycle-authz-request",
    ];
    assert_eq!(orchestrators, expected.map(|stem| std::format!("{stem}-2026-05-20.md")));
    let name = |name: DocumentName| name.file_name(date);
    let gate = AuthorizationGate::Cut;
    assert_eq!(name(DocumentName::Request { gate, occurrence: 2 }), "SG1-cut-authz-request-2-2026-05-20.md");
    assert_eq!(name(DocumentName::Approval { gate, occurrence: 1 }), "SG1-cut-authz-approval-2026-05-20.md");
    assert_eq!(name(DocumentName::StopReport { number: 3 }), "stop-route-report-3-2026-05-20.md");
    let ack = DocumentName::EscalationApproval { kind: EscalationKind::DriftAck, number: 1 };
    assert_eq!(name(ack), "SG3-drift-ack-approval-1-2026-05-20.md");
}

#[test]
fn only_exact_document_names_are_read() {
    for text in [
        "",
        ".md",
        "01-source-pin.md",
        "01-source-pin-2026-02-30.md",
        "01-source-pin-20260520.md",
        "01a-source-pin-2026-05-20.md",
        "SG1-cut-authz-request-1-2026-05-20.md",
        "SG1-cut-authz-request-02-2026-05-20.md",
        "SG1-cut-authz-request-+2-2026-05-20.md",
        "SG1-cut-authz-request2-2026-05-20.md",
        "SG3-approve-approval-1-2026-05-20.md",
        "stop-route-report-2026-05-20.md",
        "../01-source-pin-2026-05-20.md",
        "é-2026-05-20.md",
        "01-source-pin-2026-05-20.MD",
        "SG1-cut-authz-request-0-2026-05-20.md",
    ] {
        assert!(DocumentName::parse(text).is_err(), "{text:?}");
    }
}

fn line() -> IndexLine {
    let id = |n| crate::base::id::mint_v7(1_779_271_147_000, [n; 10]);
    IndexLine {
        run_id: RunId::new(at(), id(1)).unwrap(),
        document_id: "ICX-LAW-2026-001".into(),
        source_version_id: id(2),
        state: "closeout_reported".into(),
        kb_folder: run_folder("ICX-LAW-2026-001", &version(), at(), FolderSuffix::Second).unwrap(),
        change_set_id: id(3),
        lifecycle_review_decision_id: id(4),
        actor: "Nguyễn Văn An".into(),
        closeout_utc: at(),
    }
}

#[test]
fn an_index_line_holds_nine_fields_and_fits() {
    let text = line().render().unwrap();
    assert!(text.starts_with("- `ictr-20260520T235907Z-") && text.ends_with("` · `2026-05-20T23:59:07.5Z`"));
    assert_eq!(text.split(" · ").count(), 9);
    assert_eq!(IndexLine::parse(&text), Ok(line()));
    // the longest fields that the limits allow still fit
    let widest = IndexLine { actor: "x".repeat(crate::base::limits::ACTOR_MAX_BYTES), ..line() };
    assert!(widest.render().unwrap().len() <= INDEX_LINE_MAX);
    assert!(IndexLine { actor: "x".repeat(400), ..line() }.render().is_err());
}

#[test]
fn an_index_line_cannot_be_forged_by_a_field() {
    for actor in ["", "a`b", "a` · `b", "a\nb", "a\u{2028}b", "a\rb"] {
        assert!(IndexLine { actor: actor.into(), ..line() }.render().is_err(), "{actor:?}");
    }
    let text = line().render().unwrap();
    for spoiled in [
        text.replace("- `ictr", "-  `ictr"),
        text.replace(" · ", " - "),
        text.replacen("` · `", "` · `x` · `", 1),
        text.replace("knowledge/dev", "knowledge/../dev"),
        text.to_uppercase(),
        text.clone() + "\n",
        text.replace("23:59:07.5Z", "23:59:07.50Z"),
    ] {
        assert!(IndexLine::parse(&spoiled).is_err(), "{spoiled}");
    }
}

proptest! {
    #[test]
    fn document_names_round_trip(n in 1..=u32::MAX, days in 0..30_000_i64) {
        let date = utc_date(Timestamp::from_second(days * 86_400).unwrap());
        for name in every_name(n) {
            let text = name.file_name(date);
            prop_assert_eq!(DocumentName::parse(&text), Ok((name, date)));
            prop_assert!(component(&text).is_ok());
        }
    }

    #[test]
    fn what_parses_as_a_path_stays_below(text in "[a-z./\\\\ -]{0,24}") {
        if let Ok(path) = text.parse::<KbPath>() {
            prop_assert!(!path.as_str().starts_with('/') && !path.as_str().ends_with('/'));
            prop_assert!(path.as_str().split('/').all(|c| !c.is_empty() && c != "." && c != ".."));
            prop_assert_eq!(path.as_str(), text);
        }
    }

    #[test]
    fn parsers_never_panic(text in "\\PC{0,80}") {
        prop_assert!(IndexLine::parse(&text).is_err());
        if let Ok((name, date)) = DocumentName::parse(&text) {
            prop_assert_eq!(name.file_name(date), text);
        }
    }

    #[test]
    fn index_lines_round_trip(actor in "[^`\\p{C}\\u{2028}\\u{2029}]{1,16}", second in 0..4_000_000_000_i64) {
        let closeout_utc = Timestamp::from_second(second).unwrap();
        let line = IndexLine { actor, closeout_utc, ..line() };
        if let Ok(text) = line.render() {
            prop_assert_eq!(IndexLine::parse(&text), Ok(line));
        }
    }
}
