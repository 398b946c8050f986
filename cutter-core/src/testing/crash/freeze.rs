//! A driver that stands still while its successor does the work, and then goes on.

use alloc::format;
use alloc::string::{String, ToString};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, PoisonError};
use std::thread;

use super::life::{Life, Plan, Strike};
use super::play::command;
use super::report::{CrashReport, Reference, difference};
use super::{CrashWorld, Step};
use crate::driver::DriveError;

/// Commands until a successor counts as stuck.
const COMMANDS_MAX: u32 = 200;

/// Freezes a driver before and after every call of the story; another one, which no lock
/// keeps out, tells the story to its end; then the first goes on. Nothing of what the
/// successor left may change by that, and it must equal the undisturbed story.
pub fn freeze_everywhere<W: CrashWorld>(story: &W, reference: &Reference) -> CrashReport {
    let calls = reference.trace.len() as u64;
    let points = (1..=calls).flat_map(|call| [(call, Strike::FreezeBefore), (call, Strike::FreezeAfter)]);
    let queue = Mutex::new(points);
    let results = Mutex::new(CrashReport { calls, ..CrashReport::default() });
    let threads = thread::available_parallelism().map_or(1, |n| n.get());
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let next = queue.lock().unwrap_or_else(PoisonError::into_inner).next();
                    let Some((call, strike)) = next else { break };
                    let ended = freeze(story, Plan::at(call, strike), reference);
                    let mut report = results.lock().unwrap_or_else(PoisonError::into_inner);
                    report.schedules += 1;
                    match ended {
                        Ok(ending) => {
                            report.strikes += 1;
                            *report.struck.entry(strike.to_string()).or_default() += 1;
                            *report.thawed.entry(ending).or_default() += 1;
                        }
                        Err(difference) => {
                            let at = usize::try_from(call - 1).ok().and_then(|i| reference.trace.get(i));
                            let at = at.map(ToString::to_string).unwrap_or_default();
                            report.find(format!("{strike} call {call} ({at})"), difference);
                        }
                    }
                }
            });
        }
    });
    results.into_inner().unwrap_or_else(PoisonError::into_inner)
}

/// How the frozen driver's command ended.
fn freeze<W: CrashWorld>(story: &W, plan: Plan, reference: &Reference) -> Result<String, String> {
    let world = story.fresh();
    let life = Life::new(plan);
    thread::scope(|scope| {
        let frozen = scope.spawn(|| {
            let ending = drive_until_frozen(story, &world, &life);
            life.end();
            ending
        });
        if !life.wait_frozen() {
            return Err("the call never came".to_string());
        }
        let succeeded = finish(story, &world);
        let before = story.snapshot(&world);
        life.thaw();
        let ending = frozen.join().unwrap_or_else(|_| "panicked".to_string());
        succeeded?;
        if let Some(d) = difference(&reference.snapshot, &before) {
            return Err(format!("the successor ended differently: {d}"));
        }
        if let Some(d) = difference(&before, &story.snapshot(&world)) {
            return Err(format!("the thawed driver changed something ({ending}): {d}"));
        }
        Ok(ending)
    })
}

fn drive_until_frozen<W: CrashWorld>(story: &W, world: &W::World, life: &Life) -> String {
    loop {
        let ports = life.wrap_without_locks(story.ports(world));
        let result = catch_unwind(AssertUnwindSafe(|| story.drive(world, &ports)));
        let Ok(result) = result else { return "panicked".to_string() };
        if life.was_frozen() || result.is_err() || result == Ok(Step::Done) {
            return kind(&result);
        }
    }
}

fn kind(result: &Result<Step, DriveError>) -> String {
    match result {
        Ok(_) => "nothing left to do".to_string(),
        Err(DriveError::Fenced { .. }) => "fenced".to_string(),
        Err(DriveError::ReplayConflict { .. }) => "replay conflict".to_string(),
        Err(error) => error.to_string(),
    }
}

fn finish<W: CrashWorld>(story: &W, world: &W::World) -> Result<(), String> {
    let mut last = String::new();
    for _ in 0..COMMANDS_MAX {
        let ports = Life::default().wrap_without_locks(story.ports(world));
        match command(story, world, &ports) {
            Ok(Step::Done) => return Ok(()),
            Ok(Step::More) => last.clear(),
            Err(error) if last == error => return Err(format!("the successor failed twice: {error}")),
            Err(error) => last = error,
        }
    }
    Err(format!("the successor did not end in {COMMANDS_MAX} commands"))
}
