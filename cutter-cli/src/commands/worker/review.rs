//! The review duty: passes over the open asks until told to stop.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use cutter_core::operate::review::{Outcome as Became, Review, ReviewPorts, Reviewed};
use cutter_core::port::{Port, PortError, PortErrorKind};
use futures_executor::block_on;
use serde_json::json;

use crate::context::Context;
use crate::exit_code::Exit;
use crate::failure::{Failure, Outcome};
use crate::render::{self, BAD, DIM, GOOD, WARN, paint};
use crate::wire;

/// How long it sleeps at a stretch before it looks whether it must stop.
const TICK: Duration = Duration::from_millis(50);
/// The longest pause after trouble.
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// Stores answers and decisions. With `drain` it ends when a pass found nothing to store.
pub(super) fn run(cx: &Context, poll: Duration, drain: bool) -> Outcome {
    let config = cx.config()?;
    let mut ports = Some(wire::review(&config)?);
    let stop = super::told_to_stop()?;
    let mut review = Review::new(config.actor.clone());
    let mut tally: BTreeMap<&'static str, u64> = BTreeMap::new();
    let mut pause = poll;
    cx.out.note("worker for the review duty: stores answers and decisions, drives nothing");
    let mut is_checked = false;
    while !stop.load(Ordering::SeqCst) {
        let open = match ports.take() {
            Some(open) => open,
            None => wire::review(&config)?,
        };
        let passed = pass(&mut review, &open, &mut is_checked);
        match passed {
            Ok(reviewed) => {
                ports = Some(open);
                pause = poll;
                for one in &reviewed {
                    *tally.entry(word(&one.outcome)).or_default() += 1;
                    tell(cx, one);
                }
                let is_idle =
                    reviewed.iter().all(|one| matches!(one.outcome, Became::Junk { .. } | Became::Unfit(_)));
                if drain && is_idle {
                    break;
                }
            }
            Err(error) if may_pass(&error) => {
                cx.out.warn(format!("{error}; trying again"));
                pause = (pause * 2).min(LONGEST_PAUSE.max(poll));
            }
            Err(error) => return Err(Failure::from(error)),
        }
        let until = Instant::now() + pause;
        while !stop.load(Ordering::SeqCst) && Instant::now() < until {
            thread::sleep(TICK.min(pause));
        }
    }
    let people = || {
        let parts: Vec<String> = tally.iter().map(|(what, n)| format!("{n} {what}")).collect();
        format!("{}\n", if parts.is_empty() { "nothing to do".to_owned() } else { parts.join(", ") })
    };
    cx.out.result_as(Exit::DONE, people, &json!({ "duty": "review", "asks": tally }))
}

fn pass(review: &mut Review, ports: &ReviewPorts, is_checked: &mut bool) -> Result<Vec<Reviewed>, PortError> {
    if !*is_checked {
        block_on(ports.reader.check_schema())?;
        *is_checked = true;
    }
    block_on(review.pass(ports))
}

/// Trouble of the surroundings, and a policy that the administrator has yet to found or mend.
fn may_pass(error: &PortError) -> bool {
    use PortErrorKind as K;
    error.port == Port::Policy
        || matches!(error.kind, K::Unavailable | K::Deadline | K::Busy | K::OutcomeUnknown | K::Full)
}

const fn word(outcome: &Became) -> &'static str {
    match outcome {
        Became::Answered(_) => "answered",
        Became::Decided { .. } => "decided",
        Became::Junk { .. } => "not_accepted",
        Became::Unfit(_) => "unfit",
        Became::Missed(_) => "missed",
    }
}

fn tell(cx: &Context, one: &Reviewed) {
    let (style, detail) = match &one.outcome {
        Became::Answered(n) => (DIM, render::count(*n as u64, "answer")),
        Became::Decided { decision, actor, approval_kb_id } => {
            (GOOD, format!("{} by {actor}: {approval_kb_id}", decision.as_str()))
        }
        Became::Junk { path, why } => (WARN, format!("{path}: {why}")),
        Became::Unfit(why) => (BAD, why.clone()),
        Became::Missed(error) => (WARN, format!("{error}; trying again")),
    };
    let what = word(&one.outcome);
    let line = format!("{} {} {} {}", paint(style, format!("{what:<12}")), one.gate, one.run_id, detail);
    cx.out.note(line);
}
