//! What a run filed and fixed, edited after it was closed, with a record that fits it.

use cutter_core::base::canonical::to_canonical;
use cutter_core::base::digest::Digest;
use cutter_core::operate::inspect::verify::{Found, one_statement};
use cutter_core::port::{Port, PortErrorKind};
use cutter_core::record::effect::ReviewVerdict::Approve;
use cutter_core::record::pin;
use cutter_core::record::signature::Duty;
use cutter_core::record::statement;
use cutter_core::record::stored_statement::{StatementSignature, StoredStatement};
use cutter_core::testing::memory::{Fault, FaultKind, FaultPlan, block_on};
use cutter_tests::look::{Facts, gather, judge};
use cutter_tests::refusal::Gate;
use cutter_tests::{DOCUMENT, Scenario};

fn failing(facts: &Facts) -> Vec<String> {
    judge(facts, &[]).into_iter().filter(|c| !c.ok).map(|c| c.invariant).collect()
}

/// A document says something else, and the record has it so.
fn edit(facts: &mut Facts, place: usize, text: String) {
    let path = facts.texts[place].0.clone();
    facts.documents.iter_mut().filter(|d| d.path == path).for_each(|d| {
        d.recorded = Digest::of(text.as_bytes());
        d.found = Found::Bytes(d.recorded);
    });
    facts.claims.documents.iter_mut().filter(|d| d.0 == path).for_each(|d| d.1 = Digest::of(text.as_bytes()));
    facts.texts[place].1 = text;
}

fn final_report(facts: &Facts) -> usize {
    facts.texts.iter().position(|(path, _)| path.contains("/11-final")).expect("it is closed")
}

/// No row names the reports after the last request, nor each pin: the statement does.
#[test]
fn no_document_and_no_pin_of_a_closed_run_can_be_another() {
    let s = Scenario::new(9_100);
    let driven = s.whole_run().expect("it comes to its end");
    let facts = gather(&s.ports(), &driven.sidecar);
    assert_eq!(failing(&facts), [""; 0]);
    let last = final_report(&facts);
    let mut documents = 0;
    for (path, _) in &facts.claims.documents {
        let place = facts.texts.iter().position(|(other, _)| other == path).expect("it is read");
        let mut edited = facts.clone();
        let before = Digest::of(facts.texts[place].1.as_bytes()).to_hex();
        edit(&mut edited, place, format!("{} ", facts.texts[place].1));
        let after = Digest::of(edited.texts[place].1.as_bytes()).to_hex();
        if place != last {
            let report = facts.texts[last].1.replace(&before, &after);
            edit(&mut edited, last, report);
            documents += 1;
        }
        let found = failing(&edited);
        let expected = if place == last { "verify.documents.final" } else { "verify.statement.documents" };
        assert!(found.iter().any(|f| f == expected), "{path}: {found:?}");
    }
    assert_eq!(documents, 12);
    for (name, value) in &facts.claims.pins {
        let mut edited = facts.clone();
        let digit = |c: char| if c == '7' { '8' } else { '7' };
        let other: String = value.chars().map(|c| if c.is_ascii_digit() { digit(c) } else { c }).collect();
        let other = if other == *value { format!("{value}s") } else { other };
        edit(&mut edited, last, facts.texts[last].1.replace(value.as_str(), &other));
        edited.claims.pins.insert(name.clone(), other);
        assert!(!failing(&edited).is_empty(), "{name}: {value:?}");
        let mut without = facts.clone();
        without.claims.pins.remove(name);
        // the row of the text has the one, and the command compares the other with the row of the statement
        let has_a_row = ["source_version_id", pin::STATEMENT_SHA256.name()].contains(&name.as_str());
        assert!(!failing(&without).is_empty() || has_a_row, "without {name}");
    }
}

/// Whoever writes the record can have a report of his own named by all that comes after it; it says at least
/// that its phase passed.
#[test]
fn a_report_that_does_not_say_that_its_phase_passed_is_found() {
    let s = Scenario::new(9_300);
    let driven = s.whole_run().expect("it comes to its end");
    let facts = gather(&s.ports(), &driven.sidecar);
    let is_report =
        |path: &str| path.rsplit('/').next().is_some_and(|name| name.as_bytes()[1].is_ascii_digit());
    let reports: Vec<usize> = (0..facts.texts.len()).filter(|n| is_report(&facts.texts[*n].0)).collect();
    assert_eq!(reports.len(), 11);
    for place in reports {
        let (path, text) = &facts.texts[place];
        let table = text.split_once("## 4.").expect("it has invariants").1;
        let row = table.lines().find(|line| line.ends_with(" | yes |")).expect("one holds");
        let others = [
            text.replacen("outcome              : PASS", "outcome              : FAIL", 1),
            text.replace("outcome: PASS", "outcome: FAIL"),
            text.replacen(" | yes |", " | **NO** |", 1),
            text.replacen(&format!("{row}\n"), "", 1),
            text.replace("invariants hold", "invariants do not hold"),
            text.replacen("\n## 5.", "\n## 5. More\n\n## 5.", 1),
            text.replacen("# ", "# Not ", 1),
            "x".to_owned(),
        ];
        for other in others.into_iter().filter(|other| other != text) {
            let mut edited = facts.clone();
            edit(&mut edited, place, other.clone());
            let found = failing(&edited);
            assert!(found.iter().any(|f| f == "verify.documents.say_pass"), "{path}: {found:?}\n{other}");
        }
    }
}

/// An earlier program's statement names neither: what it was closed with holds.
#[test]
fn a_statement_that_names_no_documents_holds() {
    let s = Scenario::new(9_200);
    let driven = s.whole_run().expect("it comes to its end");
    let mut facts = gather(&s.ports(), &driven.sidecar);
    let stored = facts.statement.as_mut().expect("it is closed");
    let named = statement::digest(&stored.body).to_hex();
    let mut body: serde_json::Value = serde_json::from_str(&stored.body).expect("it is JSON");
    for name in ["pins", "documents"] {
        let removed = body["predicate"].as_object_mut().expect("a predicate").remove(name);
        assert!(removed.is_some(), "{name}");
    }
    stored.body = to_canonical(&body).expect("it is canonical");
    let earlier = statement::digest(&stored.body).to_hex();
    let last = final_report(&facts);
    let report = facts.texts[last].1.replace(&named, &earlier);
    edit(&mut facts, last, report);
    facts.claims.pins.insert(pin::STATEMENT_SHA256.name().to_owned(), earlier);
    assert_eq!(failing(&facts), [""; 0]);
}

/// No later document names the final report: each of its lines is held by something else.
#[test]
fn no_line_of_the_final_report_can_be_another() {
    let s = Scenario::new(9_000);
    let driven = s.whole_run().expect("it comes to its end");
    let facts = gather(&s.ports(), &driven.sidecar);
    assert_eq!(failing(&facts), [""; 0]);
    let place = final_report(&facts);
    let text = facts.texts[place].1.clone();
    let lines: Vec<&str> = text.lines().collect();
    let mut odd = Vec::new();
    for (n, line) in lines.iter().enumerate() {
        let digit = |c: char| if c == '9' { '0' } else { char::from_u32(c as u32 + 1).unwrap_or(c) };
        let last = line.rfind(|c: char| c.is_ascii_digit()).map(|at| {
            let (before, rest) = line.split_at(at);
            [before, &rest.chars().take(1).map(digit).collect::<String>(), &rest[1..]].concat()
        });
        let others = [Some(String::new()), Some(format!("{line} and more")), last];
        for other in others.into_iter().flatten().filter(|other| other != line) {
            let mut edited = lines.clone();
            edited[n] = &other;
            let mut facts = facts.clone();
            edit(&mut facts, place, edited.join("\n") + "\n");
            odd.extend(failing(&facts).is_empty().then(|| format!("line {}: {line:?} as {other:?}", n + 1)));
        }
        let mut without = lines.clone();
        without.remove(n);
        let mut facts = facts.clone();
        facts.texts[place].1 = without.join("\n") + "\n";
        odd.extend(failing(&facts).is_empty().then(|| format!("line {}: without {line:?}", n + 1)));
    }
    assert!(odd.is_empty(), "unseen:\n{}", odd.join("\n"));
}

/// Between enactment and the final report a login stores a statement, and a signature, that are none: the
/// run is closed all the same, by its own.
#[test]
fn what_a_login_says_before_the_run_does_holds_nobody() {
    let s = Scenario::new(9_400);
    let (run_id, _) = s.parked(Gate::Lifecycle);
    let (ask, ports) = (s.stored(&run_id).ask.expect("it asks"), s.ports());
    s.sign(&ask, Approve);
    let away = FaultKind::Fail { kind: PortErrorKind::Unavailable, times: 9 };
    let (_, disturbed) = s.process(FaultPlan::one(Fault::on(Port::Database, "store_statement", away)));
    let _ = s.resume(&disturbed, &run_id);
    assert_eq!(block_on(ports.reader.statements(&run_id)).unwrap(), [], "it died before");
    assert_eq!(s.rows_of("approval_use").len(), 2, "it is enacted");
    let sidecar = s.stored(&run_id);
    let (source, rows) = (sidecar.pinned(pin::SOURCE_SHA256).unwrap(), {
        let set = sidecar.pinned(pin::CHANGE_SET_ID).unwrap();
        block_on(ports.reader.rows_digest(set)).unwrap().unwrap()
    });
    let body = serde_json::json!({ "predicate": "a lie", "subject": statement::subjects(&source, &rows) });
    let body = to_canonical(&body).unwrap();
    let fence = block_on(ports.executor.take_fence(&run_id, DOCUMENT, uuid::Uuid::from_u128(7))).unwrap();
    let none = |duty, key: &str| StatementSignature {
        duty,
        public_key: key.repeat(64),
        signature: "0".repeat(128),
        recorded_at: None,
    };
    block_on(ports.executor.store_statement(&fence, &body, &none(Duty::Executor, "1"))).unwrap();
    let sha256 = statement::digest(&body);
    block_on(ports.verifier.sign_statement(&fence, &sha256, &none(Duty::Verifier, "2"))).unwrap();
    let driven = s.finish(&run_id);
    let facts = gather(&s.ports(), &driven.sidecar);
    assert_eq!(failing(&facts), [""; 0]);
    let found = block_on(ports.reader.statements(&run_id)).unwrap();
    assert_eq!(found.len(), 2);
    let counted = StoredStatement::that_counts(&found).unwrap();
    assert!(counted.is_signed() && counted.body != body);
    assert!(one_statement(&found).is_some_and(|check| check.ok));
    let both = [found[1].clone(), StoredStatement { body: counted.body.clone(), ..found[1].clone() }];
    assert!(one_statement(&both).is_some_and(|check| !check.ok), "two that are signed are one too many");
}
