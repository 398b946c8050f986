//! A second version of a document: what the approver is shown, and the operator.

use super::bench::Bench;

/// Articles under one heading, numbered from 1: each body a sentence of its own.
fn rules(bodies: &[&str]) -> String {
    let mut out = "# Rules\n\nThese are the rules of the house.\n\n".to_owned();
    for (n, body) in bodies.iter().enumerate() {
        out.push_str(&format!("## Article {}\n\n{body}\n\n", n + 1));
    }
    out
}

const DOORS: &str = "The doors are open from dawn until the lamps are lit.";
const LAMPS: &str = "The lamps are lit by whoever sees the dark come first.";
const GUESTS: &str = "A guest is given water, bread and a place near the fire.";
const QUIET: &str = "Nobody sings, quarrels or plays the drum after the tenth hour.";

#[test]
fn the_request_and_the_command_show_what_a_new_version_changes() {
    let bench = Bench::shared();
    let first = bench.finished("HOUSE", &rules(&[DOORS, LAMPS, QUIET]));
    let new = bench.register("HOUSE", &rules(&[DOORS, GUESTS, LAMPS, &QUIET.replace("tenth", "ninth")]));
    let new = new.to_str().unwrap();

    // before it is cut
    let shown = bench.run(&["diff", "db:HOUSE", new]).expect(0);
    let shown = String::from_utf8(shown.stdout).unwrap();
    assert!(shown.contains("db:HOUSE@1 (in force)"), "{shown}");
    assert!(shown.contains("4 → 5 units: 2 same, 1 new, 1 renumbered, 1 possibly renumbered"), "{shown}");
    let document = bench.run(&["diff", "db:HOUSE@1", new, "--json", "--exit-code"]).expect(6).json();
    let stored = &document["units"][1]["old"];
    assert_eq!(stored["address"], "HOUSE/art-2");
    assert_eq!(document["units"][1]["new"]["address"], "HOUSE/art-3");
    assert_eq!(document["units"][1]["same_body"], true);
    assert_eq!(document["units"][1]["new"]["body_hash"], stored["body_hash"]);
    let lines = bench.run(&["diff", "db:HOUSE", new, "--text"]).expect(0);
    let lines = String::from_utf8(lines.stdout).unwrap();
    assert!(lines.contains("-Nobody sings") && lines.contains("+Nobody sings"), "{lines}");
    bench.run(&["diff", "db:NOBODY", new]).expect(2);
    bench.run(&["diff", "db:HOUSE@7", new]).expect(2);
    bench.run(&["diff", "db:HOUSE:draft", new]).expect(2);

    // at the first gate
    let cut = bench.run(&["orchestrate", "cut", "--document-id", "HOUSE", "--json"]).expect(0).json();
    let run = cut["run_id"].as_str().unwrap();
    assert_ne!(run, first);
    let request = bench.run(&["sovereign", "show", "--run-id", run, "--json"]).expect(0).json();
    let request = request["request"].as_str().unwrap();
    for line in [
        "Against version 1, 4 → 5 units: 2 same, 1 new, 1 renumbered, 1 possibly renumbered.",
        "+   art-2  new · 72 B",
        "#   art-3  renumbered · was HOUSE/art-2 · 70 B",
        "All that differs is listed. `cutter diff db:HOUSE@1 FILE --text` shows it line by line.",
    ] {
        assert!(request.contains(line), "{line}: {request}");
    }
    assert!(request.contains("?   art-4  possibly renumbered · was HOUSE/art-3 · "), "{request}");

    // and afterwards, version against version
    bench.approve(run, "cut");
    let drafts = bench.resume(run).expect(0).json();
    assert_eq!(drafts["state"], "awaiting_lifecycle_authorization", "{drafts}");
    let stored = bench.run(&["diff", "db:HOUSE@1", "db:HOUSE@2:draft", "--json"]).expect(0).json();
    assert_eq!(stored["summary"], document["summary"]);
    assert_eq!(stored["new"]["lifecycle_status"], "draft");
    let same = bench.run(&["diff", new, "db:HOUSE:draft", "--exit-code"]).expect(0);
    assert!(String::from_utf8_lossy(&same.stdout).contains("5 units, all the same"));
}
