//! Dying at every port call, and looking whether it made a difference: for any ports.
//!
//! [`FaultyPorts::wrap`] puts a gate around a full set of [`Ports`]: it counts every call,
//! records it, and at the call that a [`Plan`] names the process dies (or freezes, or loses
//! an answer). [`crash_everywhere`] plays a whole story of an embedder's [`CrashWorld`] once
//! undisturbed, then again for every call at which a life may end, for pairs of them and for
//! random series, and compares what was left behind:
//!
//! ```text
//!   fresh world ─ life 1 ✗ at call k ─ life 2 ✗ at call j ─ life 3 … to the end ─ snapshot
//!                                                                       must equal the first
//! ```
//!
//! Calls are counted, not listed: a port call that is added tomorrow is crashed at tomorrow.
//! [`freeze_everywhere`] does the same with a driver that stands still while its successor
//! finishes the work, and then goes on (PROTOCOL §3).
//!
//! For the comparison to say anything, a world must give equal clocks and equal identifiers
//! to equal stories; [`crate::testing::memory`] does, and its clock and id source fit any ports. The
//! gate's own clock never waits. What the gate cannot show: a call that is torn in its
//! middle. That is each adapter's own promise, tested with the adapter.

mod database;
mod freeze;
mod life;
mod play;
mod report;
mod stores;

use alloc::string::String;
use alloc::sync::Arc;

use crate::driver::{DriveError, Ports};

pub use freeze::freeze_everywhere;
pub use life::{Call, Life, Plan, Strike, When};
pub use play::{
    Effort, Pairs, Schedule, crash_everywhere, every_commit, every_pair, every_point, random, these,
    undisturbed,
};
pub use report::{CrashReport, Finding, Reference};

use database::Struck;
use stores::{ImpatientClock, StruckRuns};

/// Puts the gate around ports.
#[derive(Debug, Clone, Copy)]
pub struct FaultyPorts;

impl FaultyPorts {
    /// Ports of a new life, and the handle on it.
    #[must_use]
    pub fn wrap(ports: Ports, plan: Plan) -> (Ports, Life) {
        let life = Life::new(plan);
        (life.wrap(ports), life)
    }
}

impl Life {
    /// Ports that belong to this life. A life may go through several sets of ports, one after
    /// the other, as an operator's session goes through several commands: calls count on.
    #[must_use]
    pub fn wrap(&self, ports: Ports) -> Ports {
        self.gate(ports, true)
    }

    /// As [`wrap`](Self::wrap), but run locks exclude nobody, as between two machines whose
    /// store does not carry the lock. What must hold then is what the fence and
    /// compare-and-set hold alone.
    #[must_use]
    pub fn wrap_without_locks(&self, ports: Ports) -> Ports {
        self.gate(ports, false)
    }

    fn gate(&self, ports: Ports, locks: bool) -> Ports {
        Ports {
            reader: Arc::new(self.around(ports.reader)),
            executor: Arc::new(self.around(ports.executor)),
            reviewer: ports.reviewer.map(|reviewer| Arc::new(self.around(reviewer)) as _),
            verifier: Arc::new(self.around(ports.verifier)),
            kb: Arc::new(self.around(ports.kb)),
            runs: Arc::new(StruckRuns { life: self.clone(), inner: ports.runs, locks }),
            backup_source: Arc::new(self.around(ports.backup_source)),
            backup_target: Arc::new(self.around(ports.backup_target)),
            clock: Arc::new(ImpatientClock(ports.clock)),
            ids: ports.ids,
            signer: Arc::new(self.around(ports.signer)),
            signatures: Arc::new(self.around(ports.signatures)),
            observer: ports.observer,
            own_gates: ports.own_gates,
            interrupt: ports.interrupt,
        }
    }

    fn around<T: ?Sized>(&self, inner: Arc<T>) -> Struck<T> {
        Struck { life: self.clone(), inner }
    }
}

/// What a story is told in: the embedder's side of the crash tests.
///
/// A story is a function of the world alone. A life can end anywhere in it, so `drive` looks
/// at the world (past the ports, which may be dead) to find out what comes next.
pub trait CrashWorld: Sync {
    /// Everything outside of the driver.
    type World: Send + Sync;

    /// A new world, at the beginning of the story. Equal every time, clock and identifiers
    /// included. What is done here is not crashed at.
    fn fresh(&self) -> Self::World;

    /// The ports of a new process in this world.
    fn ports(&self, world: &Self::World) -> Ports;

    /// One command (a cut, a resume, a stop, …) with these ports, and what people do after it
    /// (sign, refuse). In a world at the story's end it changes nothing and gives
    /// [`Step::Done`].
    ///
    /// # Errors
    /// What the driver said. In a life that was struck the story goes on with the next life
    /// or command; in one that was not, it is a finding.
    fn drive(&self, world: &Self::World, ports: &Ports) -> Result<Step, DriveError>;

    /// All that must be equal however often the story was interrupted: rows with their
    /// identifiers, documents with their bytes, what the sidecar says at the end. One thing a
    /// line, so that a difference can be shown.
    fn snapshot(&self, world: &Self::World) -> String;
}

/// Where a story stands after a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Another command is needed.
    More,
    /// At its end.
    Done,
}
