//! Runs driven from the work queue, by many workers on many hosts (spec 4; PROTOCOL §8).
//!
//! - [`Job`] is what an item of ours asks for: cut a document, drive a run on, serve a request.
//! - [`work_on`] does it, as far as it gets: any rest of a run is an answer, none is an error.
//! - [`disposition`] says what that means for the item, as a table.
//! - [`Watch`] looks whether what parked items wait for has come, and makes them ready.
//!
//! An item at a gate costs no worker: it is `awaiting_user_confirmation` until a signed approval
//! stands in the run's folder. The queue's lease only says who works; that nothing happens twice
//! is the run's own affair (lock, compare-and-set, fence), so a worker that lost its lease and
//! goes on does no harm: whatever it still writes is refused.

mod behind;
mod job;
mod risk;
mod step;
mod watch;

pub use behind::run_behind;
pub use job::{CutJob, Job, KIND_CUT, KIND_REQUEST, KIND_RUN};
pub use risk::RunRisk;
pub use step::{DOCUMENT_GATE, Disposition, Worked, disposition, settle, stop_cancelled, work_on};
pub use watch::{Watch, enqueue_signals};
