//! Timers of jobs: one thread for all connections of the process, which sleeps to the earliest of them.
//!
//! A statement takes well under a millisecond and its limit is some seconds, so nearly every timer is taken
//! back before it fires. Arming wakes the thread only if it would oversleep; taking back never does.

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// What a timer does once its time is over, on a thread of its own: it may take long.
type Action = Box<dyn FnOnce(&Done) + Send>;

/// Whether the timer was taken back meanwhile.
#[derive(Clone, Default)]
pub(super) struct Done(Arc<AtomicBool>);

impl Done {
    pub(super) fn is_set(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

struct Entry {
    action: Action,
    done: Done,
}

struct Timers {
    /// By time, and a number that tells those of one instant apart.
    entries: BTreeMap<(Instant, u64), Entry>,
    next: u64,
    is_thread_up: bool,
    /// When the thread wakes by itself; `None`: not at all.
    wakes_at: Option<Instant>,
}

static TIMERS: Mutex<Timers> =
    Mutex::new(Timers { entries: BTreeMap::new(), next: 0, is_thread_up: false, wakes_at: None });
static CHANGED: Condvar = Condvar::new();

fn timers() -> MutexGuard<'static, Timers> {
    TIMERS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A timer that runs. Dropping it takes it back; if it fired already, tells its action so.
pub(super) struct Armed {
    key: (Instant, u64),
    done: Done,
}

impl Drop for Armed {
    fn drop(&mut self) {
        self.done.0.store(true, Ordering::Release);
        let entry = timers().entries.remove(&self.key);
        // Outside the lock: what the action owns ends here.
        drop(entry);
    }
}

/// Runs `action` after `limit`, unless the timer is dropped before.
///
/// # Errors
/// The system's, if there is no thread to be had.
pub(super) fn arm(limit: Duration, action: impl FnOnce(&Done) + Send + 'static) -> io::Result<Armed> {
    let now = Instant::now();
    let at = now.checked_add(limit).unwrap_or(now + FAR);
    let mut timers = timers();
    if !timers.is_thread_up {
        std::thread::Builder::new().name("cutter-pg-timer".to_owned()).spawn(keep)?;
        timers.is_thread_up = true;
    }
    let key = (at, timers.next);
    timers.next = timers.next.wrapping_add(1);
    let done = Done::default();
    timers.entries.insert(key, Entry { action: Box::new(action), done: done.clone() });
    let oversleeps = timers.wakes_at.is_none_or(|wakes_at| wakes_at > at);
    drop(timers);
    if oversleeps {
        CHANGED.notify_one();
    }
    Ok(Armed { key, done })
}

/// For a limit beyond the clock's range.
const FAR: Duration = Duration::from_secs(365 * 24 * 3600);

/// The thread. It lives as long as the process.
fn keep() {
    let mut state = timers();
    loop {
        let now = Instant::now();
        match state.entries.first_key_value().map(|(key, _)| key.0) {
            Some(at) if at <= now => {
                if let Some((_, entry)) = state.entries.pop_first() {
                    drop(state);
                    fire(entry);
                    state = timers();
                }
            }
            Some(at) => {
                state.wakes_at = Some(at);
                state = CHANGED.wait_timeout(state, at - now).unwrap_or_else(PoisonError::into_inner).0;
            }
            None => {
                state.wakes_at = None;
                state = CHANGED.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
        }
    }
}

/// Without a thread for it the action runs here: late timers are better than none.
fn fire(entry: Entry) {
    let slot = Arc::new(Mutex::new(Some(entry)));
    let run = |slot: &Mutex<Option<Entry>>| {
        let entry = slot.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(Entry { action, done }) = entry {
            action(&done);
        }
    };
    let there = slot.clone();
    let spawned = std::thread::Builder::new().name("cutter-pg-timer".to_owned()).spawn(move || run(&there));
    if spawned.is_err() {
        run(&slot);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn a_timer_fires_after_its_time_and_the_nearer_one_first() {
        let (sender, fired) = mpsc::channel();
        let began = Instant::now();
        let arm_one = |ms: u64| {
            let sender = sender.clone();
            arm(Duration::from_millis(ms), move |_| sender.send((ms, Instant::now())).unwrap()).unwrap()
        };
        let _far = arm_one(60_000);
        // Armed while the thread sleeps for the far one.
        let _later = arm_one(120);
        let _sooner = arm_one(40);
        for expected in [40, 120] {
            let (ms, at) = fired.recv_timeout(Duration::from_secs(20)).unwrap();
            assert_eq!(ms, expected);
            assert!(at.duration_since(began) >= Duration::from_millis(ms));
        }
        assert!(fired.try_recv().is_err());
    }

    #[test]
    fn a_timer_that_was_taken_back_does_not_fire() {
        let (sender, fired) = mpsc::channel();
        for ms in 1..50 {
            let sender = sender.clone();
            drop(arm(Duration::from_millis(ms + 20), move |_| sender.send(ms).unwrap()).unwrap());
        }
        let (last, is_last) = mpsc::channel();
        let _last = arm(Duration::from_millis(120), move |_| last.send(()).unwrap()).unwrap();
        is_last.recv_timeout(Duration::from_secs(20)).unwrap();
        assert!(fired.try_recv().is_err());
    }

    #[test]
    fn an_action_is_told_that_its_timer_was_taken_back() {
        let (sender, fired) = mpsc::channel();
        let (go, gone) = mpsc::channel::<()>();
        let armed = arm(Duration::from_millis(1), move |done| {
            sender.send(done.is_set()).unwrap();
            gone.recv().unwrap();
            sender.send(done.is_set()).unwrap();
        })
        .unwrap();
        assert!(!fired.recv_timeout(Duration::from_secs(20)).unwrap());
        drop(armed);
        go.send(()).unwrap();
        assert!(fired.recv_timeout(Duration::from_secs(20)).unwrap());
    }
}
