//! Leases that this process holds: their tokens, the thread that renews them, and their end.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use cutter_core::base::id::RunId;
use cutter_core::port::run_store::{RunLock, StopRequest};
use cutter_core::port::{PortErrorKind, PortResult};

use super::session::{Access, Statements};
use super::splice::Text;
use super::{Shared, error};
use crate::error::PgError;

/// How long giving a lease back may keep its holder; then it runs out by itself.
const RELEASE_WAIT: Duration = Duration::from_secs(3);

/// The longest lease that the schema gives.
const MAX_LEASE: Duration = Duration::from_secs(24 * 60 * 60);

/// A revision that its holder knows, and its number. No other has this number.
pub(super) type Newest = (u64, Arc<Text>);

/// One lease, by run.
struct Lease {
    token: i64,
    /// When it was last known to stand, on this process's clock: only for what to renew.
    renewed: Instant,
    /// What the last save brought along, until somebody asks for it.
    stop: Option<Option<StopRequest>>,
    newest: Option<Newest>,
}

#[derive(Default)]
struct State {
    held: BTreeMap<RunId, Lease>,
    length: Duration,
    is_thread_up: bool,
    /// When the thread wakes by itself; `None`: not at all.
    wakes_at: Option<Instant>,
    /// The store is gone, and so is the need for a thread.
    is_over: bool,
}

/// All leases of the store.
pub(super) struct Leases {
    state: Mutex<State>,
    changed: Condvar,
}

impl Leases {
    pub(super) fn new(length: Duration) -> Self {
        Self { state: Mutex::new(State { length, ..State::default() }), changed: Condvar::new() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn set_length(&self, length: Duration) {
        self.state().length = length.clamp(Duration::from_millis(1), MAX_LEASE);
    }

    pub(super) fn length_ms(&self) -> i64 {
        i64::try_from(self.state().length.as_millis()).unwrap_or(i64::MAX)
    }

    pub(super) fn token(&self, run_id: &RunId) -> Option<i64> {
        self.state().held.get(run_id).map(|lease| lease.token)
    }

    /// This revision, if the holder of the run knows it.
    pub(super) fn newest(&self, run_id: &RunId, revision: u64) -> Option<Arc<Text>> {
        let state = self.state();
        let (number, text) = state.held.get(run_id)?.newest.as_ref()?;
        (*number == revision).then(|| text.clone())
    }

    /// Notes what a save brought along, and what is saved. It is no sign of life: the server renews a
    /// lease with a save only once half of it is over.
    pub(super) fn saved(
        &self,
        run_id: &RunId,
        token: i64,
        stop: Option<StopRequest>,
        newest: Option<Newest>,
    ) {
        if let Some(lease) = self.state().held.get_mut(run_id).filter(|lease| lease.token == token) {
            lease.stop = Some(stop);
            lease.newest = newest;
        }
    }

    /// Forgets a lease; whether it was held.
    pub(super) fn remove(&self, run_id: &RunId, token: i64) -> bool {
        let mut state = self.state();
        let is_held = state.held.get(run_id).is_some_and(|lease| lease.token == token);
        if is_held {
            state.held.remove(run_id);
        }
        is_held
    }

    /// Notes a sign of life.
    fn renewed(&self, run_id: &RunId, token: i64) {
        if let Some(lease) = self.state().held.get_mut(run_id).filter(|lease| lease.token == token) {
            lease.renewed = Instant::now();
        }
    }

    pub(super) fn take_stop(&self, run_id: &RunId) -> Option<Option<StopRequest>> {
        self.state().held.get_mut(run_id)?.stop.take()
    }

    /// Ends the thread.
    pub(super) fn end(&self) {
        self.state().is_over = true;
        self.changed.notify_all();
    }

    pub(super) fn forget_stop(&self, run_id: &RunId) {
        if let Some(lease) = self.state().held.get_mut(run_id) {
            lease.stop = None;
        }
    }
}

/// A held lease, as the port's lock. Dropping it gives the lease back; the end of the process lets
/// it run out.
pub(super) struct HeldLease {
    shared: Arc<Shared>,
    run_id: RunId,
    token: i64,
}

impl HeldLease {
    /// Notes the lease and sees to it that it is renewed.
    pub(super) fn begin(
        shared: Arc<Shared>,
        run_id: RunId,
        token: i64,
        stop: Option<StopRequest>,
        newest: Option<Newest>,
    ) -> PortResult<Self> {
        let renewed = Instant::now();
        let lease = Lease { token, renewed, stop: Some(stop), newest };
        let mut state = shared.leases.state();
        state.held.insert(run_id.clone(), lease);
        let needs_thread = !state.is_thread_up;
        state.is_thread_up = true;
        // The thread sleeps on past the end of a lease, so that the next one need not wake it.
        let due = renewed + state.period();
        let oversleeps = state.wakes_at.is_none_or(|wakes_at| wakes_at > due);
        drop(state);
        // From here on the drop gives the lease back.
        let held = Self { shared, run_id, token };
        if needs_thread {
            let (shared, leases) = (Arc::downgrade(&held.shared), held.shared.leases.clone());
            let thread = std::thread::Builder::new().name("cutter-pg-lease".to_owned());
            if let Err(e) = thread.spawn(move || keep(&shared, &leases)) {
                held.shared.leases.state().is_thread_up = false;
                let message = format!("no thread to renew the lease: {e}");
                return Err(error("lock", PortErrorKind::Unavailable, message));
            }
        } else if oversleeps {
            held.shared.leases.changed.notify_all();
        }
        Ok(held)
    }
}

impl RunLock for HeldLease {
    fn run_id(&self) -> &RunId {
        &self.run_id
    }
}

impl Drop for HeldLease {
    fn drop(&mut self) {
        if !self.shared.leases.remove(&self.run_id, self.token) {
            return;
        }
        // Best effort, and waited for: the process may be about to end. A session that is lost is
        // not opened again here; the lease then runs out.
        let Some(session) = self.shared.sessions.standing() else { return };
        let (run, token) = (self.run_id.to_string(), self.token);
        let release = move |s: &mut Statements<'_>| {
            let _ = s.one("SELECT cutter_run.fn_lease_release($1, $2)", &[&run, &token]);
        };
        if session.run_unheard(RELEASE_WAIT, release).is_ok() {
            self.shared.sessions.count();
        }
    }
}

impl State {
    /// Between two renewals.
    fn period(&self) -> Duration {
        (self.length / 3).max(Duration::from_millis(1))
    }
}

/// Renews every third of a lease, until the store is gone. It holds the
/// store only while it renews, so that the connection ends with its owner.
fn keep(shared: &Weak<Shared>, leases: &Leases) {
    let mut state = leases.state();
    loop {
        if state.is_over {
            state.is_thread_up = false;
            return;
        }
        let period = state.period();
        let now = Instant::now();
        let Some(next) = state.held.values().map(|lease| lease.renewed + period).min() else {
            state.wakes_at = None;
            state = leases.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            continue;
        };
        if next > now {
            state.wakes_at = Some(next);
            state = leases.changed.wait_timeout(state, next - now).unwrap_or_else(PoisonError::into_inner).0;
            continue;
        }
        // All at once, the next due ones too.
        let due: Vec<(RunId, i64)> =
            state.held.iter().map(|(run, lease)| (run.clone(), lease.token)).collect();
        // Awake: whoever comes meanwhile is seen below.
        state.wakes_at = Some(now);
        drop(state);
        let is_renewed = shared.upgrade().is_some_and(|shared| renew(&shared, &due).is_ok());
        if is_renewed {
            // A lease that is lost is no longer due either: its holder hears of it at its next save.
            for (run_id, token) in &due {
                leases.renewed(run_id, *token);
            }
        } else {
            std::thread::sleep((period / 10).min(Duration::from_secs(1)));
        }
        state = leases.state();
    }
}

fn renew(shared: &Shared, due: &[(RunId, i64)]) -> PortResult<()> {
    let runs: Vec<String> = due.iter().map(|(run, _)| run.to_string()).collect();
    let tokens: Vec<i64> = due.iter().map(|(_, token)| *token).collect();
    let length = shared.leases.length_ms();
    let work = move |s: &mut Statements<'_>| -> Result<(), PgError> {
        s.all("SELECT * FROM cutter_run.fn_lease_renew($1, $2, $3)", &[&runs, &tokens, &length]).map(|_| ())
    };
    wait(shared.sessions.call_uncounted("renew", Access::Write, Arc::new(work)))
}

/// Drives a future on this thread, which belongs to no runtime.
fn wait<F: Future>(future: F) -> F::Output {
    struct Unpark(std::thread::Thread);
    impl std::task::Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let mut future = std::pin::pin!(future);
    let waker = Arc::new(Unpark(std::thread::current())).into();
    let mut context = std::task::Context::from_waker(&waker);
    loop {
        if let std::task::Poll::Ready(output) = future.as_mut().poll(&mut context) {
            return output;
        }
        std::thread::park();
    }
}
