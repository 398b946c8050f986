//! Whoever approves: in random order, at random times.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use cutter_tests::cli::{Deployment, Dice};
use serde_json::Value;

/// Approves until it is over. Two of them may meet at one gate: the second finds that its word is
/// there already.
pub(super) fn approve(d: &Deployment, is_over: &AtomicBool, seed: u64, helper: u64, helpers: u64) {
    let mut dice = Dice::from_seed(seed);
    while !is_over.load(Ordering::SeqCst) {
        let listed = d.run(&["orchestrate", "list", "--open", "--limit", "1000000"]);
        let none = Vec::new();
        let runs = listed.json["runs"].as_array().unwrap_or(&none);
        let waits = |run: &&Value| {
            let id = run["run_id"].as_str().unwrap_or_default();
            let is_mine = id.bytes().last().is_some_and(|last| u64::from(last) % helpers == helper);
            is_mine && run["paused_at"].is_object() && !is_answered(d, run)
        };
        let mut waiting: Vec<&Value> = runs.iter().filter(waits).collect();
        // Some of them, in any order; the others must wait for another day.
        let mut some = waiting.len().min(8.max(waiting.len() / 2));
        while some > 0 && !is_over.load(Ordering::SeqCst) {
            some -= 1;
            let one = waiting.swap_remove(usize::try_from(dice.below(waiting.len() as u64)).unwrap());
            let what = if one["state"] == "awaiting_cut_authorization" { "cut" } else { "lifecycle" };
            // The run may have moved, or the server be down: then it is asked again.
            let _ = d.answer(one["run_id"].as_str().unwrap(), what, &[]);
        }
        std::thread::sleep(Duration::from_millis(50 + dice.below(250)));
    }
}

fn is_answered(d: &Deployment, run: &Value) -> bool {
    let path = run["paused_at"]["approval_path"].as_str().unwrap_or_default();
    d.path("kb").join(path).exists()
}
