//! A driver that stands still while its successor does the work, and then goes on.

use alloc::format;
use alloc::string::{String, ToString};
use std::panic::{AssertUnwindSafe, catch_unwind};
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
    let mut report = CrashReport { calls: reference.trace.len() as u64, ..CrashReport::default() };
    for call in 1..=report.calls {
        for strike in [Strike::FreezeBefore, Strike::FreezeAfter] {
            report.schedules += 1;
            let name = || {
                let at = usize::try_from(call - 1).ok().and_then(|i| reference.trace.get(i));
                format!("{strike} call {call} ({})", at.map(ToString::to_string).unwrap_or_default())
            };
            match freeze(story, Plan::at(call, strike), reference) {
                Ok(Some(ending)) => {
                    report.strikes += 1;
                    *report.thawed.entry(ending).or_default() += 1;
                }
                Ok(None) => report.find(name(), "the call never came".to_string()),
                Err(difference) => report.find(name(), difference),
            }
        }
    }
    report
}

/// How the frozen driver's command ended; `None` if it never froze.
fn freeze<W: CrashWorld>(story: &W, plan: Plan, reference: &Reference) -> Result<Option<String>, String> {
    let world = story.fresh();
    let life = Life::new(plan);
    thread::scope(|scope| {
        let frozen = scope.spawn(|| {
            let ending = drive_until_frozen(story, &world, &life);
            life.end();
            ending
        });
        if !life.wait_frozen() {
            return Ok(None);
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
        Ok(Some(ending))
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
