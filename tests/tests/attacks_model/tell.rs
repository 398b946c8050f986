//! Telling a story: the run, the people, and the attacker at his moments; then everything that is
//! honest goes on until it ends.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use cutter_core::base::id::RunId;
use cutter_core::driver::{DriveError, Driven, Outcome, Ports, check_history};
use cutter_core::record::policy::Change;
use cutter_core::record::settings::RunSettings;
use cutter_core::record::sidecar::Sidecar;
use cutter_core::testing::memory::{Fault, FaultKind, FaultPlan, World, block_on};
use cutter_tests::Scenario;
use cutter_tests::attack::Role;
use cutter_tests::cli::Dice;

use crate::act::{Act, Place, draw};
use crate::kb::{Event, Eventful};
use crate::law::{self, Before};
use crate::people::{Approver, Mind, TEXTS};
use crate::walls::{Skewed, Wall, without};

/// When an act happens in the course of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum When {
    Before,
    /// The process has died at this call.
    Dead(u64),
    /// Between this call of the knowledge base and the next, while the process goes on.
    During(u64),
}

/// An act with its moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Move {
    pub turn: usize,
    pub when: When,
    pub act: Act,
}

/// A story.
#[derive(Debug, Clone)]
pub struct Story {
    pub seed: u64,
    pub role: Role,
    /// Another version was cut before.
    pub has_past: bool,
    pub minds: Vec<Mind>,
    pub moves: Vec<Move>,
}

/// How a story ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Ending {
    Enacted,
    Refused,
    /// Nobody answers.
    Waiting,
    Stopped,
}

/// What a story came to.
#[derive(Debug, Clone)]
pub struct Told {
    pub ending: Ending,
}

/// Turns in which the attacker acts.
const TURNS: usize = 5;
/// Turns after which everything honest must have come to its end.
const PATIENCE: usize = 16;

impl Story {
    /// The story of a seed.
    pub fn of(seed: u64) -> Self {
        let mut dice = Dice::from_seed(seed.wrapping_mul(0x9e37) ^ 0xa77ac);
        let role = Role::ALL[seed as usize % Role::ALL.len()];
        let mind = |dice: &mut Dice| match dice.below(16) {
            0..=6 => Mind::Approves,
            7 => Mind::ApprovesShortly,
            8 => Mind::Refuses,
            9 => Mind::Defers,
            10 => Mind::Repents,
            11 => Mind::GivesIn,
            12 => Mind::Waits(2),
            _ => Mind::Silent,
        };
        let minds = (0..6).map(|_| mind(&mut dice)).collect();
        let has_past = dice.below(2) == 0;
        let mut moves = Vec::new();
        for turn in 0..TURNS {
            if dice.below(3) == 0 {
                continue;
            }
            let when = match dice.below(4) {
                0 => When::Dead(1 + dice.below(70)),
                1 => When::During(1 + dice.below(30)),
                _ => When::Before,
            };
            for _ in 0..=dice.below(3) {
                moves.push(Move { turn, when, act: draw(role, &mut dice) });
            }
        }
        Self { seed, role, has_past, minds, moves }
    }

    pub fn with(&self, moves: Vec<Move>) -> Self {
        Self { moves, ..self.clone() }
    }

    fn acts(&self, turn: usize) -> Vec<(When, Act)> {
        self.moves.iter().filter(|m| m.turn == turn).map(|m| (m.when, m.act)).collect()
    }
}

/// Where stories begin: with a policy, and a text to cut; with a past, after another was cut.
fn beginning(has_past: bool) -> (Scenario, Approver) {
    static BOTH: OnceLock<[(World, RunSettings, Vec<crate::people::Signed>); 2]> = OnceLock::new();
    let both = BOTH.get_or_init(|| {
        [false, true].map(|has_past| {
            let s = Scenario::with_text(1, TEXTS[0]);
            let rex = s.world.approver("rex");
            s.change_policy(vec![rex]);
            s.change_policy(vec![Change::ApproverRetired { since: s.world.now(), person: "rex".into() }]);
            let mut approver = Approver::default();
            if has_past {
                let mut driven = s.cut(&s.ports()).unwrap();
                while matches!(driven.outcome, Outcome::Paused { .. }) {
                    approver.turn(&s, &[Mind::Approves], 0);
                    driven = s.resume(&s.ports(), &driven.sidecar.run_id).unwrap();
                }
                assert_eq!(driven.outcome, Outcome::Completed);
                s.world.advance(90_000);
                s.register(TEXTS[1]);
            }
            (s.world, s.settings, approver.signed)
        })
    });
    let (world, settings, signed) = &both[usize::from(has_past)];
    let s = Scenario { world: world.fork(), settings: settings.clone(), text: TEXTS[0].into() };
    (s, Approver::with(signed.clone()))
}

struct Telling<'s> {
    story: &'s Story,
    place: Arc<Place>,
    wall: Option<Wall>,
    past: Option<RunId>,
}

impl Telling<'_> {
    fn before(&self, is_command: bool) -> Before {
        Before {
            enacted: law::enacted(&self.place),
            now: self.place.s.world.now(),
            moment: self.place.moment.fetch_add(1, Ordering::SeqCst) + 1,
            is_command,
        }
    }

    fn judged(&self, before: &Before) -> Result<(), String> {
        law::of(self.story.role, &self.place, before, self.wall).map_or(Ok(()), Err)
    }

    fn act(&self, act: Act) -> Result<(), String> {
        let before = self.before(false);
        self.place.act(act);
        self.judged(&before)
    }

    fn people(&self) {
        let moment = self.place.moment.fetch_add(1, Ordering::SeqCst) + 1;
        self.place.approver.lock().unwrap().turn(&self.place.s, &self.story.minds, moment);
    }

    fn ports(&self, ports: Ports, at: u64, event: Option<Event>) -> Ports {
        let mut ports = ports;
        let minutes = self.place.skew.load(Ordering::SeqCst);
        ports.clock = Arc::new(Skewed { inner: ports.clock, minutes });
        ports.kb = Arc::new(Eventful {
            inner: ports.kb,
            calls: AtomicU64::new(0),
            at,
            event: Mutex::new(event),
            deaf: self.wall == Some(Wall::Listening),
        });
        without(self.wall, &mut ports, &self.place.s.world);
        ports
    }

    fn run(&self, ports: &Ports) -> Result<Driven, DriveError> {
        let s = &self.place.s;
        // what was chosen once is chosen by nobody else
        s.world.reseed(7_000 + self.place.moment.load(Ordering::SeqCst));
        let stands = self.place.run_id().filter(|run_id| s.world.sidecar(run_id).is_some());
        let driven = match stands {
            Some(run_id) => s.resume(ports, &run_id),
            None => s.cut(ports),
        };
        let newest = s.world.runs().into_iter().rfind(|run| Some(run) != self.past.as_ref());
        let mut run_id = self.place.run_id.lock().unwrap();
        *run_id = newest.or(run_id.take());
        driven
    }

    /// One command, with what happens in its course.
    fn command(&self, acts: &[(When, Act)]) -> Result<Result<Driven, DriveError>, String> {
        let (mut plan, mut at, mut during, mut after) = (FaultPlan::default(), 0, Vec::new(), Vec::new());
        for (when, act) in acts {
            match when {
                When::Before => {}
                When::Dead(call) => {
                    let kind =
                        if call.is_multiple_of(2) { FaultKind::DieBefore } else { FaultKind::DieAfter };
                    plan = FaultPlan::one(Fault::at(*call, kind));
                    after.push(*act);
                }
                When::During(call) => {
                    at = *call;
                    during.push(*act);
                }
            }
        }
        let before = self.before(during.is_empty());
        let (process, ports) = self.place.s.process(plan);
        let place = Arc::clone(&self.place);
        let event: Event = Box::new(move || during.into_iter().for_each(|act| place.act(act)));
        let driven = self.run(&self.ports(ports, at, Some(event)));
        if !after.is_empty() {
            process.kill();
        }
        self.judged(&before)?;
        for act in after {
            self.act(act)?;
        }
        Ok(driven)
    }

    /// What an operator does who means well, before he resumes.
    fn mend(&self, driven: &Result<Driven, DriveError>) {
        let (s, Some(run_id)) = (&self.place.s, self.place.run_id()) else { return };
        match driven {
            Err(DriveError::Sidecar { .. }) => {
                // the newest record that is whole, as `orchestrate recover` finds it
                let newest = s.world.sidecar(&run_id).map_or(0, |stored| stored.revision);
                let whole = (1..newest).rev().find(|n| {
                    let history = block_on(s.ports().runs.history(&run_id, *n)).unwrap();
                    let last = history.last().and_then(|stored| Sidecar::from_bytes(&stored.bytes).ok());
                    last.is_some_and(|sidecar| check_history(&sidecar, &history).is_ok())
                });
                if let Some(n) = whole {
                    s.world.put_back_revision(&run_id, n);
                }
            }
            Ok(Driven { outcome: Outcome::Stopped(stop), .. }) if stop.code == "STOP_KB_CONFLICT" => {
                let whole = |n| {
                    let stored = block_on(s.ports().runs.load_revision(&run_id, n)).ok().flatten();
                    stored.is_some_and(|stored| Sidecar::from_bytes(&stored.bytes).is_ok())
                };
                let newest = s.world.sidecar(&run_id).map_or(0, |stored| stored.revision);
                if (1..=newest).all(whole) {
                    s.put_back(&run_id);
                }
            }
            _ => {}
        }
    }

    fn ending(&self, driven: &Result<Driven, DriveError>) -> Option<Ending> {
        match driven {
            Ok(Driven { outcome: Outcome::Completed | Outcome::ReplayedFrom(_), .. }) => {
                Some(Ending::Enacted)
            }
            Ok(Driven { outcome: Outcome::Stopped(stop), .. }) if stop.code == "STOP_REFUSED" => {
                Some(Ending::Refused)
            }
            Ok(Driven { outcome: Outcome::Paused { ask, .. }, .. }) => {
                self.place.approver.lock().unwrap().is_silent(ask).then_some(Ending::Waiting)
            }
            _ => None,
        }
    }
}

/// Tells a story, a wall taken down or none.
///
/// # Errors
/// How it broke the law.
pub fn tell(story: &Story, wall: Option<Wall>) -> Result<Told, String> {
    let (s, approver) = beginning(story.has_past);
    let past = s.world.runs().into_iter().next();
    if wall == Some(Wall::Database) {
        s.world.drop_guards();
    }
    let place = Arc::new(Place {
        s,
        approver: Mutex::new(approver),
        run_id: Mutex::new(None),
        skew: AtomicI64::new(0),
        moment: AtomicU64::new(0),
    });
    let telling = Telling { story, place, wall, past };
    let mut last = Err(DriveError::NotNow(String::new()));
    for turn in 0..TURNS {
        let acts = story.acts(turn);
        for (_, act) in acts.iter().filter(|(when, _)| *when == When::Before) {
            telling.act(*act)?;
        }
        telling.people();
        last = telling.command(&acts)?;
        telling.place.s.world.advance(1_000);
    }
    // everything honest goes on
    telling.place.skew.store(0, Ordering::SeqCst);
    for _ in 0..PATIENCE {
        if let Some(ending) = telling.ending(&last) {
            return Ok(Told { ending });
        }
        telling.mend(&last);
        telling.people();
        last = telling.command(&[])?;
        telling.place.s.world.advance(1_000);
    }
    let is_junk = story.moves.iter().all(|m| m.act.is_junk());
    let said = match &last {
        Ok(driven) => format!("{:?} {:?}", driven.outcome, driven.sidecar.last_error),
        Err(error) => error.to_string(),
    };
    match is_junk {
        true => Err(format!("junk holds the run up for good: {said}")),
        false => Ok(Told { ending: Ending::Stopped }),
    }
}
