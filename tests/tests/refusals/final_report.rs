//! The final report, edited after the run was closed, with a record that fits it.

use cutter_core::digest::Digest;
use cutter_core::inspect::verify::Found;
use cutter_tests::Scenario;
use cutter_tests::look::{Facts, gather, judge};

/// No later document names the final report: each of its lines is held by something else.
#[test]
fn no_line_of_the_final_report_can_be_another() {
    let s = Scenario::new(9_000);
    let driven = s.whole_run().expect("it comes to its end");
    let facts = gather(&s.ports(), &driven.sidecar);
    let failing = |facts: &Facts| {
        let failed = judge(facts, &[]).into_iter().filter(|c| !c.ok).map(|c| c.invariant);
        failed.collect::<Vec<String>>()
    };
    assert_eq!(failing(&facts), [""; 0]);
    let place = facts.texts.iter().position(|(path, _)| path.contains("/11-final")).unwrap();
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
            facts.texts[place].1 = edited.join("\n") + "\n";
            // as an edited record would have it
            let record = &mut facts.documents[..];
            record.iter_mut().filter(|d| d.path.contains("/11-final")).for_each(|d| {
                d.recorded = Digest::of(facts.texts[place].1.as_bytes());
                d.found = Found::Bytes(d.recorded);
            });
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
