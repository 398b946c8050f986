//! The contract of each port, as tests that any implementation can run.
//!
//! One module per port, one entry each: `run_all(build)`, where `build` makes a fresh, empty
//! instance for every contract. A contract's name is the statement that it checks. The suites
//! are plain futures: run them under any executor, [`crate::testing::memory::block_on`] will do.
//! Contracts about races start threads of their own.
//!
//! ```
//! use cutter_core::testing::conformance::{Fresh, run_store};
//! use cutter_core::testing::memory::{World, block_on};
//!
//! let build = || async { Ok(Fresh::new(World::new(1).process().ports().runs)) };
//! let held = block_on(run_store::run_all(build))?;
//! assert!(held.contains(&"a_run_is_created_once"));
//! # Ok::<(), cutter_core::testing::conformance::ConformanceFailure>(())
//! ```

use alloc::boxed::Box;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use core::any::Any;
use core::fmt;

use crate::port::{PortError, PortErrorKind, PortResult};

pub mod backlog;
pub mod backup;
pub mod command_ledger;
pub mod cut_request;
pub mod database;
pub mod environment;
mod fixture;
pub mod knowledge_base;
pub mod policy;
pub mod run_store;
pub mod signatures;
pub mod work_queue;

pub use fixture::{Case, Chain};

/// A contract that an implementation does not keep.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{port}: {contract}: expected {expected}, observed {observed}")]
pub struct ConformanceFailure {
    /// Which port.
    pub port: &'static str,
    /// The contract, in words joined by `_`.
    pub contract: &'static str,
    /// What must be.
    pub expected: String,
    /// What is.
    pub observed: String,
}

/// A fresh instance of a port, and what must outlive it (a folder, a server).
pub struct Fresh<T: ?Sized> {
    /// The instance.
    pub port: Arc<T>,
    keep: Option<Box<dyn Any + Send + Sync>>,
}

impl<T: ?Sized> Fresh<T> {
    /// An instance that needs nothing else.
    #[must_use]
    pub fn new(port: Arc<T>) -> Self {
        Self { port, keep: None }
    }

    /// An instance, and what is dropped after it.
    #[must_use]
    pub fn keeping(port: Arc<T>, keep: impl Any + Send + Sync) -> Self {
        Self { port, keep: Some(Box::new(keep)) }
    }
}

impl<T: ?Sized> fmt::Debug for Fresh<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fresh").field("keeps", &self.keep.is_some()).finish_non_exhaustive()
    }
}

/// What broke, before it is known whose contract it was.
#[derive(Debug)]
pub struct Broken {
    expected: String,
    observed: String,
}

impl Broken {
    fn new(expected: impl Into<String>, observed: impl Into<String>) -> Self {
        Self { expected: expected.into(), observed: observed.into() }
    }

    fn of(self, port: &'static str, contract: &'static str) -> ConformanceFailure {
        ConformanceFailure { port, contract, expected: self.expected, observed: self.observed }
    }
}

impl From<PortError> for Broken {
    fn from(error: PortError) -> Self {
        Self::new("a call that succeeds", error.to_string())
    }
}

type Held = Result<(), Broken>;

fn equal<T: PartialEq + fmt::Debug>(what: &str, expected: T, observed: T) -> Held {
    if expected == observed {
        return Ok(());
    }
    Err(Broken::new(format!("{what} {expected:?}"), format!("{observed:?}")))
}

fn holds(what: &str, condition: bool, observed: impl fmt::Debug) -> Held {
    if condition { Ok(()) } else { Err(Broken::new(what, format!("{observed:?}"))) }
}

fn refused<T>(what: &str, kinds: &[PortErrorKind], result: PortResult<T>) -> Held {
    match result {
        Err(error) if kinds.contains(&error.kind) => Ok(()),
        Err(error) => Err(Broken::new(format!("{what}: an error of {kinds:?}"), error.to_string())),
        Ok(_) => Err(Broken::new(format!("{what}: an error of {kinds:?}"), "success")),
    }
}

/// Runs contracts one after the other, each on a fresh instance, and names those that held.
macro_rules! contracts {
    ($port:literal, $build:expr, [$($name:ident),+ $(,)?]) => {{
        let mut held = alloc::vec::Vec::new();
        $(
            let contract = stringify!($name);
            let failed = |broken: $crate::testing::conformance::Broken| broken.of($port, contract);
            let fresh = $build().await.map_err(|error| failed(error.into()))?;
            $name(&fresh).await.map_err(failed)?;
            held.push(contract);
        )+
        Ok(held)
    }};
}
use contracts;

/// Runs `work(0)`, …, `work(n - 1)` at the same time and gives their results in order.
fn at_once<T: Send, F: Fn(usize) -> T + Sync>(n: usize, work: F) -> Result<alloc::vec::Vec<T>, Broken> {
    let barrier = std::sync::Barrier::new(n);
    let (barrier, work) = (&barrier, &work);
    std::thread::scope(|scope| {
        let threads: alloc::vec::Vec<_> = (0..n)
            .map(|i| {
                scope.spawn(move || {
                    barrier.wait();
                    work(i)
                })
            })
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().map_err(|_| Broken::new("a call that returns", "a panic")))
            .collect()
    })
}
