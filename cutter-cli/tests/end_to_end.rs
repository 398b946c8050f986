//! Whole stories through the binary, on a private database as a user has it.
//!
//! All tests share one home, each with documents of its own, because a server takes seconds
//! to make. A watchdog stops it and removes the home once this process is gone.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "end_to_end/backlog.rs"]
mod backlog;
#[path = "end_to_end/bench.rs"]
mod bench;
#[path = "end_to_end/evidence.rs"]
mod evidence;
#[path = "end_to_end/gates.rs"]
mod gates;
#[path = "end_to_end/story.rs"]
mod story;
#[path = "end_to_end/versions.rs"]
mod versions;
