//! One hand of a worker: takes an item, drives its run, writes down what became of it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use cutter_core::driver::{self, Caller, Ports};
use cutter_core::machine::work_item::WorkItemState;
use cutter_core::operate::fleet::{self, Disposition, RunRisk, Worked};
use cutter_core::port::environment::Silent;
use cutter_core::port::work_queue::{Answer, WorkQueue as _, admit};
use cutter_core::port::{PortError, PortErrorKind};
use cutter_core::record::queue::{Failure as ItemFailure, Token, WorkItem};
use cutter_pg::PgQueue;
use futures_executor::block_on;

use super::crew::Crew;
use crate::commands::orchestrate;
use crate::failure::Failure;
use crate::render::{BAD, DIM, GOOD, WARN, paint};
use crate::wire::{self, Opened};

/// How often an item's end is written before its lease is left to run out.
const TRIES: u32 = 6;

/// The longest pause between two tries to begin.
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// Works until the crew stops.
pub(super) fn work(crew: &Crew) {
    let queue = crew.queue();
    let first_pause = crew.poll.max(Duration::from_millis(500));
    let mut pause = first_pause;
    let mut opened: Option<Opened> = None;
    while !crew.is_stopping() {
        // Before an item is taken: whoever cannot work must not take. A server that has no connection left
        // for a hand would else cost the items their attempts.
        if opened.is_none() {
            match reached(crew) {
                Ok(open) => opened = Some(quiet(crew, open)),
                Err(failure) => {
                    crew.cx.out.warn(format!("cannot work: {}; trying again", failure.what));
                    crew.sleep(pause);
                    pause = (pause * 2).min(LONGEST_PAUSE.max(first_pause));
                    continue;
                }
            }
            pause = first_pause;
        }
        let Some(open) = &opened else { continue };
        match next(crew, &queue) {
            Ok(Some(item)) => {
                if !one(crew, &queue, open, &item) {
                    opened = None;
                }
            }
            Ok(None) if crew.is_draining && crew.has_looked() && is_drained(crew, &queue) => crew.stop(),
            Ok(None) => crew.rest(),
            Err(error) => {
                crew.complain("taking an item", &error);
                crew.sleep(crew.poll.max(Duration::from_millis(200)));
            }
        }
    }
}

/// All that a run needs, and the way to it open.
fn reached(crew: &Crew) -> Result<Opened, Failure> {
    let open = wire::open(&crew.config, &crew.cx.out)?;
    block_on(open.reach())?;
    Ok(open)
}

/// Phases of many runs at once are noise, unless somebody wants to see them.
fn quiet(crew: &Crew, mut open: Opened) -> Opened {
    if !crew.cx.out.is_verbose(1) {
        open.ports.observer = Arc::new(Silent);
    }
    open
}

/// An item to work on: one whose worker died, else the most urgent one.
fn next(crew: &Crew, queue: &PgQueue) -> Result<Option<WorkItem>, PortError> {
    if crew.is_takeover_due() {
        let taken = block_on(queue.take_over(crew.holder, 1, crew.lease))?;
        for item in &taken.exhausted {
            crew.count("failed");
            crew.cx.out.warn(format!("item {item}: its workers died too often"));
        }
        if let Some(item) = taken.items.into_iter().next() {
            return Ok(Some(item));
        }
    }
    Ok(block_on(queue.claim(crew.holder, 1, crew.lease))?.into_iter().next())
}

/// Nothing can be done now, and nothing will come by itself.
fn is_drained(crew: &Crew, queue: &PgQueue) -> bool {
    use WorkItemState as S;
    crew.busy() == 0
        && block_on(queue.statistics()).is_ok_and(|s| {
            [S::Queued, S::Executing, S::AwaitingTool].iter().all(|state| s.count(*state) == 0)
        })
}

/// Works on one item. `false`: the ports should be opened anew.
fn one(crew: &Crew, queue: &PgQueue, open: &Opened, item: &WorkItem) -> bool {
    let Some(token) = item.token() else { return true };
    let leave = crew.hold(token);
    let started = Instant::now();
    let ports = Ports { interrupt: leave, ..open.ports.clone() };
    let requests = open.requests.clone();
    let gate = RunRisk { ports: ports.clone(), requests: requests.clone() };
    let worked = match block_on(admit(queue, &gate, item)) {
        Ok(false) => {
            crew.release(&token);
            crew.count("failed");
            return true;
        }
        Ok(true) => wire::caught(|| {
            block_on(fleet::work_on(&ports, requests.as_ref(), &crew.caller, &crew.settings, item))
        })
        .unwrap_or_else(|bug| after_bug(&ports, open, &crew.caller, item, &bug)),
        Err(error) => {
            crew.complain("asking whether an item may be tried again", &error);
            Worked { disposition: Disposition::HandBack, driven: None }
        }
    };
    let settled = settle(crew, queue, &token, &worked.disposition);
    crew.release(&token);
    report(crew, item, &worked, &settled, started.elapsed());
    match settled {
        Ok(Answer::Refused(_)) => let_go(crew, queue, open, item),
        _ => tell(crew, open, &worked),
    }
    !is_trouble(&worked.disposition)
}

/// The edge of the driver (D36): a bug is recorded in the run and ends the item, not the worker.
fn after_bug(ports: &Ports, open: &Opened, caller: &Caller, item: &WorkItem, bug: &str) -> Worked {
    let text = format!("a bug in cutter was caught: {bug}");
    let recorded = wire::caught(|| {
        block_on(async {
            let run_id = fleet::run_behind(ports, open.requests.as_ref(), item).await.ok().flatten()?;
            driver::record_internal_error(ports, caller, &run_id, &text).await.ok()
        })
    });
    let disposition = Disposition::Fail(ItemFailure::permanent("internal", text));
    Worked { disposition, driven: recorded.ok().flatten() }
}

/// Writes what became of an item; an unknown outcome is asked for by writing it again.
fn settle(crew: &Crew, queue: &PgQueue, token: &Token, what: &Disposition) -> Result<Answer, PortError> {
    let mut tries = 0;
    loop {
        let error = match block_on(fleet::settle(queue, token, what)) {
            Ok(answer) => return Ok(answer),
            Err(error) => error,
        };
        tries += 1;
        let may_pass = matches!(
            error.kind,
            PortErrorKind::Unavailable | PortErrorKind::OutcomeUnknown | PortErrorKind::Busy
        );
        if !may_pass || tries >= TRIES {
            return Err(error);
        }
        crew.complain("writing what became of an item", &error);
        std::thread::sleep(Duration::from_millis(100) * 2_u32.pow(tries));
    }
}

/// After trouble of the surroundings connections may be bad.
fn is_trouble(what: &Disposition) -> bool {
    matches!(what, Disposition::Fail(failure) if failure.kind == cutter_core::record::queue::FailureKind::Transient)
}

/// The item was taken away: if somebody gave it up, its run stops in their name.
fn let_go(crew: &Crew, queue: &PgQueue, open: &Opened, item: &WorkItem) {
    let Ok(Some(now)) = block_on(queue.item(item.item)) else { return };
    if now.state != WorkItemState::Cancelled {
        return;
    }
    let stopped = block_on(fleet::stop_cancelled(&open.ports, open.requests.as_ref(), &crew.caller, &now));
    if let Err(error) = stopped {
        crew.cx
            .out
            .warn(format!("item {} was cancelled, but its run could not be stopped: {error}", item.item));
    }
}

fn tell(crew: &Crew, open: &Opened, worked: &Worked) {
    if let Some(driven) = &worked.driven {
        orchestrate::present(driven, open.stores.runs.as_ref(), None).tell(&crew.cx, &crew.config);
    }
}

fn report(
    crew: &Crew,
    item: &WorkItem,
    worked: &Worked,
    settled: &Result<Answer, PortError>,
    took: Duration,
) {
    let (what, style, detail) = match (settled, &worked.disposition) {
        (Ok(Answer::Refused(why)), _) => ("lost", WARN, why.clone()),
        (Err(error), _) => ("left", WARN, error.to_string()),
        (Ok(Answer::Applied(WorkItemState::Failed)), Disposition::Fail(f)) => {
            ("failed", BAD, format!("{}: {}", f.code, f.detail))
        }
        (Ok(_), Disposition::Fail(f)) => ("retried", WARN, format!("{}: {}", f.code, f.detail)),
        (Ok(_), Disposition::Complete) => ("completed", GOOD, String::new()),
        (Ok(_), Disposition::Await(gate)) => ("parked", WARN, gate.clone()),
        (Ok(_), Disposition::HandBack) => ("handed back", WARN, String::new()),
    };
    crew.count(what);
    let run = worked.driven.as_ref().map_or(String::new(), |driven| format!(" {}", driven.sidecar.run_id));
    let line = format!("{} item {} {}{run}", paint(style, format!("{what:<11}")), item.item, item.key);
    crew.cx.out.note(format!("{line} {}", paint(DIM, format!("{:.1} s {detail}", took.as_secs_f64()))));
}
