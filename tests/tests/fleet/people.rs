//! Whoever approves: in random order, at random times.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use cutter_tests::cli::{Deployment, Dice};
use serde_json::Value;

/// How old a listing may be that a helper works from.
const FRESH: Duration = Duration::from_secs(2);

/// The list of open runs that all helpers work from: each run is one helper's alone.
#[derive(Default)]
pub(super) struct Board(Mutex<(Option<Instant>, Vec<Value>)>);

impl Board {
    /// What waits for this helper.
    fn waiting(&self, d: &Deployment, helper: u64, helpers: u64) -> Vec<Value> {
        let mut board = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if board.0.is_none_or(|at| at.elapsed() > FRESH) {
            let listed = d.run(&["orchestrate", "list", "--open", "--limit", "1000000"]);
            // Nothing while the server is down.
            let runs = listed.json["runs"].as_array().cloned().unwrap_or_default();
            *board = (Some(Instant::now()), runs);
        }
        let waits = |run: &&Value| {
            let id = run["run_id"].as_str().unwrap_or_default();
            let is_mine = id.bytes().last().is_some_and(|last| u64::from(last) % helpers == helper);
            is_mine && run["paused_at"].is_object() && !is_answered(d, run)
        };
        board.1.iter().filter(waits).cloned().collect()
    }
}

/// Approves until it is over.
pub(super) fn approve(
    d: &Deployment,
    board: &Board,
    is_over: &AtomicBool,
    seed: u64,
    (helper, helpers): (u64, u64),
) {
    let mut dice = Dice::from_seed(seed);
    while !is_over.load(Ordering::SeqCst) {
        let mut waiting = board.waiting(d, helper, helpers);
        // Some of them, in any order; the others must wait for another day.
        let mut some = waiting.len().min(8.max(waiting.len() / 2));
        while some > 0 && !is_over.load(Ordering::SeqCst) {
            some -= 1;
            let one = waiting.swap_remove(usize::try_from(dice.below(waiting.len() as u64)).unwrap());
            let what = if one["state"] == "awaiting_cut_authorization" { "cut" } else { "lifecycle" };
            let place = one["paused_at"]["approval_path"].as_str().unwrap();
            // The run may have moved, or the server be down: then it is asked again.
            let _ = d.answer(one["run_id"].as_str().unwrap(), what, &["--folder", place]);
        }
        std::thread::sleep(Duration::from_millis(50 + dice.below(250)));
    }
}

fn is_answered(d: &Deployment, run: &Value) -> bool {
    let path = run["paused_at"]["approval_path"].as_str().unwrap_or_default();
    d.path("kb").join(path).exists()
}
