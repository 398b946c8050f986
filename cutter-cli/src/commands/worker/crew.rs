//! What the hands of one worker process share, and the threads beside them: the heart that renews
//! leases, the ear that is woken, the eye that watches for approvals.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use cutter_core::driver::Caller;
use cutter_core::operate::fleet::{Watch, enqueue_signals};
use cutter_core::port::work_queue::{Answer, WorkQueue as _};
use cutter_core::port::{PortError, PortErrorKind};
use cutter_core::record::queue::Token;
use cutter_core::record::settings::RunSettings;
use cutter_pg::PgQueue;
use cutter_pg::dsn::Dsn;
use cutter_pg::login::Login;
use futures_executor::block_on;
use uuid::Uuid;

use super::hand;
use super::metrics::Server;
use crate::commands::orchestrate::deployment_settings;
use crate::config::Config;
use crate::context::Context;
use crate::failure::Failure;
use crate::wire;

/// How many times as long as a look took the next one waits at least, and the most that it waits for that:
/// where thousands are parked, looks must leave the processors to the hands.
const REST: u32 = 9;
const LONGEST_REST: Duration = Duration::from_secs(10);

/// The longest lease of the turn to watch: so long others wait for a worker that died while it had it.
const WATCH_LEASE: Duration = Duration::from_secs(15);

/// Signals turned into items in one pass.
const SIGNALS: u32 = 200;
/// How long a worker sleeps at a stretch before it looks whether it must stop.
const TICK: Duration = Duration::from_millis(50);

/// One worker process.
pub(super) struct Crew {
    pub(super) cx: Context,
    pub(super) config: Config,
    pub(super) settings: RunSettings,
    pub(super) caller: Caller,
    pub(super) holder: Uuid,
    pub(super) lease: Duration,
    pub(super) poll: Duration,
    pub(super) is_draining: bool,
    /// Whether what is parked was looked at once, by this worker or by the one whose turn it is.
    has_looked: AtomicBool,
    dsn: Dsn,
    stop: Arc<AtomicBool>,
    held: Mutex<Vec<Held>>,
    tally: Mutex<BTreeMap<String, u64>>,
    woken: (Mutex<u64>, Condvar),
    taken_over: Mutex<Option<Instant>>,
}

/// An item that a hand holds.
struct Held {
    token: Token,
    leave: Arc<AtomicBool>,
}

impl Crew {
    /// Opens everything once, so that what is wrong is said before the first item is taken.
    pub(super) fn gather(
        cx: &Context,
        lease: Duration,
        poll: Duration,
        is_draining: bool,
    ) -> Result<Self, Failure> {
        let mut config = cx.config()?;
        // A dead worker's item and its run are free at the same time.
        config.run_lease = lease;
        let opened = wire::open(&config, &cx.out)?;
        await_database(cx, &opened, poll)?;
        let settings = deployment_settings(&config, &opened.backup_fingerprint)?;
        let caller = wire::caller(&config, "worker");
        let dsn = queue_dsn(&config)?;
        let stop = super::told_to_stop()?;
        Ok(Self {
            cx: cx.clone(),
            config,
            settings,
            holder: caller.holder.holder,
            caller,
            lease,
            poll,
            is_draining,
            has_looked: AtomicBool::new(false),
            dsn,
            stop,
            held: Mutex::new(Vec::new()),
            tally: Mutex::new(BTreeMap::new()),
            woken: (Mutex::new(0), Condvar::new()),
            taken_over: Mutex::new(None),
        })
    }

    /// A connection to the queue of one's own.
    pub(super) fn queue(&self) -> PgQueue {
        PgQueue::connect(self.dsn.clone()).application_name("cutter/worker")
    }

    /// Works until told to stop, or until nothing is left.
    pub(super) fn work(&self, hands: u16, server: Option<&Server>) {
        thread::scope(|scope| {
            scope.spawn(|| self.heart());
            scope.spawn(|| self.ear());
            scope.spawn(|| self.eye());
            if let Some(server) = server {
                scope.spawn(move || server.serve(self));
            }
            let hands: Vec<_> = (0..hands).map(|_| scope.spawn(|| hand::work(self))).collect();
            for hand in hands {
                if hand.join().is_err() {
                    self.cx.out.warn("a hand of this worker ended by a bug; its item is taken over later");
                }
            }
            self.stop.store(true, Ordering::SeqCst);
        });
    }

    /// Whether to take nothing more.
    pub(super) fn is_stopping(&self) -> bool {
        self.stop.load(Ordering::SeqCst)
    }

    /// Ends the process in good order.
    pub(super) fn stop(&self) {
        self.stop.store(true, Ordering::SeqCst);
        self.wake();
    }

    /// Counts an item by what became of it.
    pub(super) fn count(&self, what: &str) {
        *locked(&self.tally).entry(what.to_owned()).or_default() += 1;
    }

    /// What became of items so far.
    pub(super) fn tally(&self) -> BTreeMap<String, u64> {
        locked(&self.tally).clone()
    }

    /// How many items are being worked on.
    pub(super) fn busy(&self) -> usize {
        locked(&self.held).len()
    }

    /// From here on the heart renews this lease; the flag says when to leave the run.
    pub(super) fn hold(&self, token: Token) -> Arc<AtomicBool> {
        let leave = Arc::new(AtomicBool::new(self.is_stopping()));
        locked(&self.held).push(Held { token, leave: leave.clone() });
        leave
    }

    /// The item is settled, or lost.
    pub(super) fn release(&self, token: &Token) {
        locked(&self.held).retain(|held| held.token != *token);
    }

    /// Whether to look for leases that ran out: once in a poll interval by any hand.
    pub(super) fn is_takeover_due(&self) -> bool {
        let mut last = locked(&self.taken_over);
        let is_due = last.is_none_or(|at| at.elapsed() >= self.poll);
        if is_due {
            *last = Some(Instant::now());
        }
        is_due
    }

    /// Waits until something may be there to claim, at most the poll interval.
    pub(super) fn rest(&self) {
        let (count, condition) = &self.woken;
        let before = *locked(count);
        let guard = locked(count);
        // Whoever wakes us has raised the number.
        let waited =
            condition.wait_timeout_while(guard, self.poll, |now| *now == before && !self.is_stopping());
        drop(waited);
    }

    fn wake(&self) {
        *locked(&self.woken.0) += 1;
        self.woken.1.notify_all();
    }

    /// Sleeps, but not over a stop.
    pub(super) fn sleep(&self, time: Duration) {
        let until = Instant::now() + time;
        while !self.is_stopping() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            thread::sleep(left.min(TICK));
        }
    }

    /// Says once in a while what does not work; the next turn tries again.
    pub(super) fn complain(&self, doing: &str, error: &PortError) {
        self.cx.out.warn(format!("{doing}: {error}; trying again"));
    }

    /// Renews the leases, and beats on while the hands put their items down.
    fn heart(&self) {
        let queue = self.queue();
        let beat = self.lease / 3;
        let mut last = Instant::now();
        while !self.is_stopping() || self.busy() > 0 {
            thread::sleep(TICK.min(beat));
            if self.is_stopping() {
                locked(&self.held).iter().for_each(|held| held.leave.store(true, Ordering::SeqCst));
            }
            if last.elapsed() < beat {
                continue;
            }
            let tokens: Vec<Token> = locked(&self.held).iter().map(|held| held.token).collect();
            if tokens.is_empty() {
                last = Instant::now();
                continue;
            }
            match block_on(queue.heartbeat(&tokens, self.lease)) {
                Ok(answers) => {
                    last = Instant::now();
                    for (token, answer) in tokens.iter().zip(answers) {
                        if matches!(answer, Answer::Refused(_)) {
                            self.lose(token);
                        }
                    }
                }
                Err(error) => self.complain("renewing leases", &error),
            }
        }
    }

    /// The item is another's, or cancelled: leave its run at the next step.
    fn lose(&self, token: &Token) {
        for held in locked(&self.held).iter().filter(|held| held.token == *token) {
            held.leave.store(true, Ordering::SeqCst);
        }
    }

    fn ear(&self) {
        let queue = self.queue();
        while !self.is_stopping() {
            match block_on(queue.wait(self.poll)) {
                Ok(_) => self.wake(),
                Err(error) => {
                    self.complain("listening", &error);
                    self.sleep(self.poll);
                }
            }
        }
        self.wake();
    }

    /// Looks for approvals, for documents that became free, and for signals of cut requests, while it is
    /// this worker's turn.
    fn eye(&self) {
        let queue = self.queue();
        let lease = self.lease.min(WATCH_LEASE);
        let mut watch = Watch::new(self.holder, lease);
        let mut opened = None;
        let mut next_look = Instant::now();
        while !self.is_stopping() {
            match block_on(watch.take_turn(&queue)) {
                Ok(true) if next_look <= Instant::now() => {
                    let began = Instant::now();
                    let is_made = self.look(&mut opened, &mut watch, &queue);
                    self.looked();
                    if !is_made {
                        // Another worker may see what this one cannot: leave the turn, and the time to take it.
                        let _ = block_on(watch.leave(&queue));
                        self.sleep(lease / 2);
                        continue;
                    }
                    let rest = self.poll.max((began.elapsed() * REST).min(LONGEST_REST));
                    next_look = Instant::now() + rest;
                }
                Ok(_) => self.looked(),
                Err(error) => self.complain("asking whose turn it is to watch", &error),
            }
            // Both who has the turn and who waits for it ask a few times in a lease.
            let until_look = next_look.saturating_duration_since(Instant::now()).max(self.poll);
            self.sleep(until_look.min(lease / 3));
        }
        // If it cannot be said, the lease runs out.
        let _ = block_on(watch.leave(&queue));
    }

    /// Whether a hand that finds nothing may believe that nothing is there.
    pub(super) fn has_looked(&self) -> bool {
        self.has_looked.load(Ordering::SeqCst)
    }

    fn looked(&self) {
        if !self.has_looked.swap(true, Ordering::SeqCst) {
            self.wake();
        }
    }

    /// One look. `false`: it could not be made.
    fn look(&self, opened: &mut Option<wire::Opened>, watch: &mut Watch, queue: &PgQueue) -> bool {
        if opened.is_none() {
            match wire::open(&self.config, &self.cx.out) {
                Ok(open) => *opened = Some(open),
                Err(failure) => self.cx.out.warn(format!("watching: {}; trying again", failure.what)),
            }
        }
        let Some(open) = opened.as_ref() else { return false };
        let requests = open.requests.as_ref();
        let looked = block_on(async {
            let looked = watch.pass(&open.ports, requests, queue).await;
            // Signals wait for nothing that a look may miss.
            enqueue_signals(requests, queue, &self.caller, wire::now(), SIGNALS).await?;
            looked
        });
        if let Err(error) = &looked {
            self.complain("watching", error);
            *opened = None;
        }
        looked.is_ok()
    }
}

/// A database that is down for the moment is waited for: a worker outlives it later, too.
fn await_database(cx: &Context, opened: &wire::Opened, poll: Duration) -> Result<(), Failure> {
    loop {
        match block_on(opened.ports.reader.check_schema()) {
            Ok(()) => return Ok(()),
            Err(error) if matches!(error.kind, PortErrorKind::Unavailable | PortErrorKind::Deadline) => {
                cx.out.warn(format!("{error}; trying again"));
                thread::sleep(poll.max(TICK));
            }
            Err(error) => return Err(error.into()),
        }
    }
}

fn queue_dsn(config: &Config) -> Result<Dsn, Failure> {
    let dsns = wire::connections(config, &[Login::Exec])?;
    dsns.into_iter().map(|(_, dsn)| dsn).next().ok_or_else(|| {
        Failure::usage("no connection is configured for the login that works on the queue").broken(
            "config.dsn.executor",
            "a connection string",
            "nothing",
        )
    })
}

/// A lock that a bug elsewhere cannot take away: what it guards is whole at any time.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
