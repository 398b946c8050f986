//! The list of migrations, oldest first.
//!
//! To add one: put `NNNN_name.sql` into `cutter-pg/migrations/` and append a line here. A
//! migration that was published is never edited; its checksum is recorded in every database.

use crate::migrate::Migration;

/// Every migration that this binary knows.
const MIGRATIONS: &[Migration] = &[
    Migration { version: 1, name: "schemas", sql: include_str!("../migrations/0001_schemas.sql") },
    Migration { version: 2, name: "source", sql: include_str!("../migrations/0002_source.sql") },
    Migration { version: 3, name: "backlog", sql: include_str!("../migrations/0003_backlog.sql") },
    Migration { version: 4, name: "governance", sql: include_str!("../migrations/0004_governance.sql") },
    Migration { version: 5, name: "units", sql: include_str!("../migrations/0005_units.sql") },
    Migration {
        version: 6,
        name: "fence_and_effects",
        sql: include_str!("../migrations/0006_fence_and_effects.sql"),
    },
    Migration { version: 7, name: "records", sql: include_str!("../migrations/0007_records.sql") },
    Migration {
        version: 8,
        name: "unit_functions",
        sql: include_str!("../migrations/0008_unit_functions.sql"),
    },
    Migration { version: 9, name: "survey", sql: include_str!("../migrations/0009_survey.sql") },
    Migration { version: 10, name: "grants", sql: include_str!("../migrations/0010_grants.sql") },
    Migration {
        version: 11,
        name: "backlog_operations",
        sql: concat!(
            include_str!("../migrations/0011_backlog_sweeps.sql"),
            include_str!("../migrations/0011_backlog_operations.sql")
        ),
    },
    Migration { version: 12, name: "cut_request", sql: include_str!("../migrations/0012_cut_request.sql") },
    Migration {
        version: 13,
        name: "cut_request_operations",
        sql: include_str!("../migrations/0013_cut_request_operations.sql"),
    },
    Migration {
        version: 14,
        name: "cut_request_grants",
        sql: include_str!("../migrations/0014_cut_request_grants.sql"),
    },
    Migration {
        version: 15,
        name: "work_queue",
        sql: concat!(
            include_str!("../migrations/0015_work_queue.sql"),
            include_str!("../migrations/0015_work_leases.sql")
        ),
    },
    Migration {
        version: 16,
        name: "command_ledger",
        sql: include_str!("../migrations/0016_command_ledger.sql"),
    },
    Migration { version: 17, name: "run_store", sql: include_str!("../migrations/0017_run_store.sql") },
    Migration { version: 18, name: "run_moves", sql: include_str!("../migrations/0018_run_moves.sql") },
    Migration { version: 19, name: "rows_digest", sql: include_str!("../migrations/0019_rows_digest.sql") },
    Migration {
        version: 20,
        name: "no_ones_word",
        sql: concat!(
            include_str!("../migrations/0020_no_ones_word.sql"),
            include_str!("../migrations/0020_bounds.sql")
        ),
    },
    Migration {
        version: 21,
        name: "asks_and_answers",
        sql: include_str!("../migrations/0021_asks_and_answers.sql"),
    },
    Migration { version: 22, name: "policy", sql: include_str!("../migrations/0022_policy.sql") },
    Migration {
        version: 23,
        name: "cheaper_looks",
        sql: include_str!("../migrations/0023_cheaper_looks.sql"),
    },
    Migration { version: 24, name: "review_duty", sql: include_str!("../migrations/0024_review_duty.sql") },
    Migration { version: 25, name: "statement", sql: include_str!("../migrations/0025_statement.sql") },
    Migration {
        version: 26,
        name: "cheaper_statement",
        sql: include_str!("../migrations/0026_cheaper_statement.sql"),
    },
    Migration {
        version: 27,
        name: "catalogue_reading",
        sql: include_str!("../migrations/0027_catalogue_reading.sql"),
    },
    Migration {
        version: 28,
        name: "well_formed_asks",
        sql: include_str!("../migrations/0028_well_formed_asks.sql"),
    },
    Migration { version: 29, name: "carried_out", sql: include_str!("../migrations/0029_carried_out.sql") },
];

/// Every migration that this binary knows, oldest first.
#[must_use]
pub fn migrations() -> &'static [Migration] {
    MIGRATIONS
}
