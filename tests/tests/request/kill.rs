//! `kill -9` at random moments of the whole way of a request.

use std::cell::Cell;
use std::time::{Duration, Instant};

use cutter_tests::cli::{Counts, Deployment, Dice, Ran, UNITS, is_full, law};

use super::support::{WHOLE, assert_agreement, fifteen_days_pass, timeline};

struct Torture<'a> {
    d: &'a Deployment,
    file: String,
    /// The longest that a whole command took lately.
    took: Cell<Duration>,
    kills: Cell<u32>,
}

impl Torture<'_> {
    /// Starts a command and may kill it; gives what it said if it was not killed.
    fn step(&self, dice: &mut Dice, arguments: &[&str]) -> Option<Ran> {
        let started = Instant::now();
        let running = self.d.start(arguments);
        let limit = u64::try_from(self.took.get().as_micros()).unwrap() * 9 / 8;
        let ran = match dice.below(3) {
            0 => Some(running.wait()),
            _ => running.kill_after(Duration::from_micros(dice.below(limit))),
        };
        match &ran {
            Some(_) => self.took.set(self.took.get().max(started.elapsed())),
            None => self.kills.set(self.kills.get() + 1),
        }
        ran
    }

    /// Drives a request from nothing to `cleaned`, by whatever its status asks for.
    fn drive(&self, dice: &mut Dice, n: usize) -> String {
        let id = format!("0192f0c1-7c3e-7000-8000-{n:012}");
        let document_id = format!("LAW-{n:04}");
        let of = ["--request-id", id.as_str()];
        for _ in 0..120 {
            let shown = self.d.run(&["request", "show", of[0], of[1]]);
            let run_id = shown.text("/request/metadata/run_id").to_owned();
            let status = shown.text("/request/status").to_owned();
            if shown.code == Some(66) {
                let add = ["request", "add", &self.file, "--source-kind", "file", of[0], of[1]];
                let _ = self.step(dice, &add);
                continue;
            }
            assert_agreement(self.d, &id);
            let step = |dice: &mut Dice, step: &str, more: &[&str]| {
                let mut arguments = vec!["request", step, of[0], of[1]];
                arguments.extend(more);
                self.step(dice, &arguments)
            };
            let _ = match status.as_str() {
                "requested" => step(dice, "copy", &[]),
                "copied" => step(dice, "mark", &["--document-id", &document_id]),
                "marked" => {
                    step(dice, "verify-mark", &["--approve", "--approval-doc", &self.d.review("one")])
                }
                "mark_verified" => step(dice, "cut", &[]),
                "cut_in_progress" | "cut_done" | "cut_verified" => {
                    match self.d.status(&run_id).state() {
                        "awaiting_cut_authorization" => self.approve(&run_id, "cut"),
                        "awaiting_lifecycle_authorization" => self.approve(&run_id, "lifecycle"),
                        _ => {}
                    }
                    match (dice.below(3), status.as_str()) {
                        (0, "cut_verified") => step(dice, "complete", &[]),
                        (1, _) => self.step(dice, &["request", "work"]),
                        _ => step(dice, "cut", &[]),
                    }
                }
                "cleanup_scheduled" => {
                    fifteen_days_pass(self.d);
                    self.step(dice, &["request", "cleanup"])
                }
                "cleaned" => return run_id,
                other => panic!("{id} stands at {other:?}: {}\n{}", shown.stdout, shown.stderr),
            };
        }
        panic!("{id} does not come to its end");
    }

    /// The sovereign answers if nothing is answered yet: an approval may stand from before a kill.
    fn approve(&self, run_id: &str, what: &str) {
        let _ = self.d.answer(run_id, what, &[]);
    }
}

#[test]
fn killed_at_random_moments_a_request_comes_to_the_same_end() {
    let wanted = if is_full() { 50 } else { 8 };
    let mut dice = Dice::new("request kill");
    let d = Deployment::new();
    let file = d.path("the-law.md");
    std::fs::write(&file, law(8, "the request")).unwrap();
    let torture = Torture {
        d: &d,
        file: file.to_str().unwrap().to_owned(),
        took: Cell::new(Duration::from_millis(400)),
        kills: Cell::new(0),
    };
    let mut first: Option<(Vec<String>, Counts)> = None;
    for n in 1.. {
        let before = d.counts();
        let run_id = torture.drive(&mut dice, n);
        let id = format!("0192f0c1-7c3e-7000-8000-{n:012}");
        assert_eq!(timeline(&d, &id), WHOLE, "each move once");
        // Handed over once it is in force; a run that died before its last paper files it now.
        d.finish_run(&run_id);
        d.verify(&run_id);
        let (units, mut added) = (d.texts(UNITS, &[&format!("LAW-{n:04}")]), d.added_since(&before));
        // an approver whose command died signs again, and every valid answer is kept
        assert!(added.remove("cutter_governance.approval_answer").is_some_and(|answers| answers >= 2));
        assert_eq!(units.len(), 9);
        let (expected, rows) = first.get_or_insert_with(|| (units.clone(), added.clone()));
        assert_eq!(&units, expected);
        assert_eq!(&added, rows, "rows are missing or doubled");
        if torture.kills.get() >= wanted {
            break;
        }
        assert!(n < 60, "{} kills in {n} requests: the moments are badly chosen", torture.kills.get());
    }
    let stale = d.texts(
        "SELECT application_name FROM pg_stat_activity WHERE application_name LIKE 'cutter/%'
        AND datname = current_database()",
        &[],
    );
    assert!(stale.is_empty(), "{stale:?}");
}
