//! Cut requests through the built program: a whole law by the commands, the same by the SQL
//! functions and `request work`, and every step killed at random moments.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "request/flow.rs"]
mod flow;
#[path = "request/kill.rs"]
mod kill;
#[path = "request/sql.rs"]
mod sql;
#[path = "request/support.rs"]
mod support;
