//! Playing stories: which lives end where, and what it came to.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;
use core::fmt;
use core::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, PoisonError};
use std::thread;

use super::life::{Life, Plan, Strike, When};
use super::report::{CrashReport, Reference, difference};
use super::{CrashWorld, Step};
use crate::driver::Ports;

/// Commands until a story counts as stuck.
const COMMANDS_MAX: u32 = 200;
/// Commands in a row that fail without a strike until a story counts as stuck.
const FAILURES_MAX: u32 = 4;

/// What strikes each life of a story; lives after the last go on undisturbed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Schedule {
    /// Life by life.
    pub lives: Vec<Plan>,
    /// The seed that it was drawn from.
    pub seed: Option<u64>,
}

impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(seed) = self.seed {
            write!(f, "seed {seed}: ")?;
        }
        for (i, plan) in self.lives.iter().enumerate() {
            let semicolon = if i == 0 { "" } else { "; " };
            write!(f, "{semicolon}life {}: {plan}", i + 1)?;
        }
        Ok(())
    }
}

/// How many of the pairs of calls to die at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pairs {
    /// None.
    None,
    /// Every `n`th, and each call in some pair.
    Every(u64),
    /// All.
    All,
}

/// How hard to try.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Effort {
    /// Pairs of calls to die at.
    pub pairs: Pairs,
    /// Seeds of random series of deaths and lost answers.
    pub seeds: Range<u64>,
    /// At most so many deaths in a series.
    pub deaths: u64,
}

impl Default for Effort {
    /// Every single call, some pairs, a hundred random series.
    fn default() -> Self {
        Self { pairs: Pairs::Every(101), seeds: 0..100, deaths: 6 }
    }
}

struct Played {
    lives: Vec<Life>,
    snapshot: String,
    stuck: Option<String>,
}

impl Played {
    /// What was planned, and at which calls it struck.
    fn story(&self, schedule: &Schedule) -> String {
        let mut text = schedule.to_string();
        for (i, life) in self.lives.iter().enumerate() {
            for (number, strike, call) in life.struck() {
                text.push_str(&format!("\n  life {} {strike} call {number} ({call})", i + 1));
            }
        }
        text
    }
}

/// Tells a story to its end. The lives are those of the schedule, then undisturbed ones.
fn play<W: CrashWorld>(story: &W, schedule: &Schedule) -> Played {
    let world = story.fresh();
    let mut lives: Vec<Life> = Vec::new();
    let mut stuck = None;
    let (mut commands, mut failures) = (0, 0);
    let mut life = begin(&mut lives, schedule);
    loop {
        commands += 1;
        let step = command(story, &world, &life.wrap(story.ports(&world)));
        match step {
            Ok(Step::Done) if !life.is_dead() => break,
            Ok(_) => failures = 0,
            Err(_) if life.is_dead() => {}
            Err(error) => {
                failures += 1;
                if failures == FAILURES_MAX {
                    stuck = Some(format!("{failures} commands failed in a row: {error}"));
                    break;
                }
            }
        }
        if commands == COMMANDS_MAX {
            stuck = Some(format!("no end after {commands} commands"));
            break;
        }
        if life.is_dead() {
            life = begin(&mut lives, schedule);
        }
    }
    let snapshot = story.snapshot(&world);
    if stuck.is_none() {
        stuck = not_idle(story, &world, &snapshot);
    }
    Played { lives, snapshot, stuck }
}

fn begin(lives: &mut Vec<Life>, schedule: &Schedule) -> Life {
    let life = Life::new(schedule.lives.get(lives.len()).cloned().unwrap_or_default());
    lives.push(life.clone());
    life
}

/// At the story's end a further command must change nothing.
fn not_idle<W: CrashWorld>(story: &W, world: &W::World, snapshot: &str) -> Option<String> {
    match command(story, world, &Life::default().wrap(story.ports(world))) {
        Ok(Step::Done) => difference(snapshot, &story.snapshot(world))
            .map(|d| format!("a command after the end changed something: {d}")),
        Ok(Step::More) => Some("a command after the end wanted another one".to_string()),
        Err(error) => Some(format!("a command after the end failed: {error}")),
    }
}

/// One command; a panic counts as an error of it.
pub(super) fn command<W: CrashWorld>(story: &W, world: &W::World, ports: &Ports) -> Result<Step, String> {
    match catch_unwind(AssertUnwindSafe(|| story.drive(world, ports))) {
        Ok(Ok(step)) => Ok(step),
        Ok(Err(error)) => Err(error.to_string()),
        Err(panic) => {
            let text = panic.downcast_ref::<String>().cloned();
            let text = text.or_else(|| panic.downcast_ref::<&str>().map(|s| (*s).to_string()));
            Err(format!("panicked: {}", text.unwrap_or_default()))
        }
    }
}

/// Plays the story undisturbed.
///
/// # Errors
/// The story does not end, or two tellings of it differ.
pub fn undisturbed<W: CrashWorld>(story: &W) -> Result<Reference, String> {
    let first = play(story, &Schedule::default());
    if let Some(stuck) = first.stuck {
        return Err(format!("undisturbed: {stuck}"));
    }
    let second = play(story, &Schedule::default());
    if let Some(difference) = difference(&first.snapshot, &second.snapshot) {
        return Err(format!("two undisturbed stories differ (clock? identifiers?): {difference}"));
    }
    let trace = first.lives.iter().flat_map(Life::trace).collect();
    Ok(Reference { snapshot: first.snapshot, trace })
}

/// Plays all schedules, on as many threads as there are processors. Gives, besides the
/// report, how many calls the last life of each story made.
fn play_all<W: CrashWorld>(
    story: &W,
    reference: &Reference,
    schedules: impl Iterator<Item = Schedule> + Send,
) -> (CrashReport, Vec<(Schedule, u64)>) {
    let queue = Mutex::new(schedules);
    let results = Mutex::new((CrashReport::default(), Vec::new()));
    let threads = thread::available_parallelism().map_or(1, |n| n.get());
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let next = queue.lock().unwrap_or_else(PoisonError::into_inner).next();
                    let Some(schedule) = next else { break };
                    let played = play(story, &schedule);
                    let finding = played.stuck.clone().or(difference(&reference.snapshot, &played.snapshot));
                    let mut results = results.lock().unwrap_or_else(PoisonError::into_inner);
                    let (report, last) = &mut *results;
                    report.schedules += 1;
                    for (_, strike, _) in played.lives.iter().flat_map(Life::struck) {
                        report.strikes += 1;
                        *report.struck.entry(strike.to_string()).or_default() += 1;
                    }
                    if let Some(difference) = finding {
                        report.find(played.story(&schedule), difference);
                    }
                    last.push((schedule, played.lives.last().map_or(0, Life::calls)));
                }
            });
        }
    });
    let (mut report, last) = results.into_inner().unwrap_or_else(PoisonError::into_inner);
    report.calls = reference.trace.len() as u64;
    (report, last)
}

fn points(reference: &Reference, strikes: &[Strike]) -> impl Iterator<Item = Schedule> + Send {
    let calls = 1..=reference.trace.len() as u64;
    let strikes = strikes.to_vec();
    calls.flat_map(move |call| {
        let plans: Vec<_> = strikes.iter().map(|s| Plan::at(call, *s)).collect();
        plans.into_iter().map(|plan| Schedule { lives: vec![plan], seed: None })
    })
}

/// Schedules of the caller's own, say those of a bug report.
pub fn these<W: CrashWorld>(
    story: &W,
    reference: &Reference,
    schedules: impl IntoIterator<Item = Schedule, IntoIter: Send>,
) -> CrashReport {
    play_all(story, reference, schedules.into_iter()).0
}

/// Every strike at every single call.
pub fn every_point<W: CrashWorld>(story: &W, reference: &Reference, strikes: &[Strike]) -> CrashReport {
    play_all(story, reference, points(reference, strikes)).0
}

/// Every strike at every end of a transaction.
pub fn every_commit<W: CrashWorld>(story: &W, reference: &Reference, strikes: &[Strike]) -> CrashReport {
    let strikes = strikes.to_vec();
    let schedules = (1..=reference.commits()).flat_map(move |commit| {
        let plans: Vec<_> = strikes.iter().map(|s| Plan::at_commit(commit, *s)).collect();
        plans.into_iter().map(|plan| Schedule { lives: vec![plan], seed: None })
    });
    play_all(story, reference, schedules).0
}

const DEATHS: [Strike; 2] = [Strike::DieBefore, Strike::DieAfter];

/// Dies at one call, and the next life at another: every `thin`th such pair.
pub fn every_pair<W: CrashWorld>(story: &W, reference: &Reference, thin: u64) -> CrashReport {
    let (_, firsts) = play_all(story, reference, points(reference, &DEATHS));
    let pairs = firsts.into_iter().flat_map(|(first, calls)| {
        (1..=calls).flat_map(move |call| {
            let first = first.clone();
            DEATHS.into_iter().map(move |strike| {
                let mut both = first.clone();
                both.lives.push(Plan::at(call, strike));
                both
            })
        })
    });
    let thin = usize::try_from(thin.max(1)).unwrap_or(1);
    play_all(story, reference, pairs.step_by(thin)).0
}

/// Random series of deaths and of lost answers to COMMIT, one for each seed.
pub fn random<W: CrashWorld>(
    story: &W,
    reference: &Reference,
    seeds: Range<u64>,
    deaths: u64,
) -> CrashReport {
    let (calls, commits) = (reference.trace.len() as u64, reference.commits());
    play_all(story, reference, seeds.map(move |seed| draw(seed, calls, commits, deaths))).0
}

/// The schedule of a seed.
fn draw(seed: u64, calls: u64, commits: u64, deaths: u64) -> Schedule {
    let mut random = Random(seed);
    let count = 1 + random.below(deaths.max(1));
    let lives = (0..count).map(|_| {
        let mut plan = Plan::none();
        // half of the deaths come early in a life: where recovery itself is at work
        let span = if random.below(2) == 0 { calls.min(25) } else { calls };
        let strike = DEATHS[usize::from(random.below(2) == 1)];
        plan.0.insert(When::Call(1 + random.below(span.max(1))), strike);
        if random.below(3) == 0 {
            let lost = [Strike::UnknownDone, Strike::UnknownNotDone][usize::from(random.below(2) == 1)];
            plan.0.insert(When::Commit(1 + random.below(commits.max(1))), lost);
        }
        plan
    });
    Schedule { lives: lives.collect(), seed: Some(seed) }
}

/// SplitMix64: small, and equal on every platform.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % bound.max(1)
    }
}

/// Dies before and after every call, loses the answer of every COMMIT (done and not done),
/// dies at pairs of calls and in random series: all that `effort` asks for.
///
/// # Errors
/// The undisturbed story does not end, or is not the same twice.
pub fn crash_everywhere<W: CrashWorld>(story: &W, effort: &Effort) -> Result<CrashReport, String> {
    let reference = undisturbed(story)?;
    let mut report = every_point(story, &reference, &DEATHS);
    report.merge(every_commit(story, &reference, &[Strike::UnknownDone, Strike::UnknownNotDone]));
    match effort.pairs {
        Pairs::None => {}
        Pairs::Every(thin) => report.merge(every_pair(story, &reference, thin)),
        Pairs::All => report.merge(every_pair(story, &reference, 1)),
    }
    report.merge(random(story, &reference, effort.seeds.clone(), effort.deaths));
    Ok(report)
}
