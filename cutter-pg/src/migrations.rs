//! The list of migrations, oldest first.
//!
//! To add one: put `NNNN_name.sql` into `cutter-pg/migrations/` and append a line here. A
//! migration that was published is never edited; its checksum is recorded in every database.

use crate::migrate::Migration;

/// Every migration that this binary knows.
const MIGRATIONS: &[Migration] = &[
    // Migration { version: 1, name: "core", sql: include_str!("../migrations/0001_core.sql") },
];

/// Every migration that this binary knows, oldest first.
#[must_use]
pub fn migrations() -> &'static [Migration] {
    MIGRATIONS
}
