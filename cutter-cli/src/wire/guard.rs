//! The driver's edge (D36): a bug inside is caught here, recorded in the run as
//! `stopped_internal_error`, and ends the process with exit code 1.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, PoisonError};

use cutter_core::base::id::RunId;
use cutter_core::driver::{self, Caller, DriveError, Driven, Ports};

use crate::failure::Failure;

static LAST_PANIC: Mutex<String> = Mutex::new(String::new());

/// Keeps a panic's message instead of printing it: the edge reports it, once.
pub(super) fn quiet_panics() {
    std::panic::set_hook(Box::new(|info| {
        let mut last = LAST_PANIC.lock().unwrap_or_else(PoisonError::into_inner);
        *last = info.to_string().replace('\n', ": ");
    }));
}

fn last_panic() -> String {
    LAST_PANIC.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

/// Who drives what, so that a caught bug finds the run.
#[derive(Clone, Copy)]
pub(crate) struct Driving<'a> {
    pub(crate) ports: &'a Ports,
    pub(crate) caller: &'a Caller,
    /// Known for every command but `cut`, which chooses it.
    pub(crate) run_id: Option<&'a RunId>,
    /// Finds the run of a `cut`: the document's newest claim.
    pub(crate) document_id: Option<&'a str>,
}

/// Runs what must not end the process: a bug inside is its text.
pub(crate) fn caught<T>(what: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(what)).map_err(|_| last_panic())
}

/// Runs a command of the driver to its end.
pub(crate) fn drive<F>(driving: Driving<'_>, command: F) -> Result<Driven, Failure>
where
    F: Future<Output = Result<Driven, DriveError>>,
{
    let caught = catch_unwind(AssertUnwindSafe(|| futures_executor::block_on(command)));
    match caught {
        Ok(result) => result.map_err(Failure::from),
        Err(_) => Err(record(driving, &last_panic())),
    }
}

fn record(driving: Driving<'_>, message: &str) -> Failure {
    let failure = Failure::internal(format!("a bug in cutter was caught: {message}"));
    // A second bug while the first is recorded must not hide it.
    let recorded = catch_unwind(AssertUnwindSafe(|| {
        futures_executor::block_on(async {
            let run_id = match (driving.run_id, driving.document_id) {
                (Some(run_id), _) => Some(run_id.clone()),
                (None, Some(document)) => {
                    let claim = driving.ports.runs.latest_claim(document).await.ok().flatten();
                    claim.map(|claim| claim.run_id)
                }
                (None, None) => None,
            }?;
            driver::record_internal_error(driving.ports, driving.caller, &run_id, message).await.ok()?;
            Some(run_id)
        })
    }));
    match recorded {
        Ok(Some(run_id)) => failure
            .next(format!("cutter why --run-id {run_id}"))
            .next(format!("cutter orchestrate resume --run-id {run_id}")),
        _ => failure.next("cutter orchestrate list"),
    }
}
