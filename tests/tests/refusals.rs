//! Refusals: what `cutter` does not do, what it says, what it leaves behind, and how it goes on.
//!
//! One file per theme. Every case runs the whole driver on memory ports and checks the outcome,
//! the stop's code or the gate with the invariant by name, the stored state, that nothing was
//! written that should not be, the stop-route report, and what happens next.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "refusals/alone.rs"]
mod alone;
#[path = "refusals/approvals.rs"]
mod approvals;
#[path = "refusals/changed.rs"]
mod changed;
#[path = "refusals/decisions.rs"]
mod decisions;
#[path = "refusals/drift.rs"]
mod drift;
#[path = "refusals/final_report.rs"]
mod final_report;
#[path = "refusals/forged_request.rs"]
mod forged_request;
#[path = "refusals/gates.rs"]
mod gates;
#[path = "refusals/interleavings.rs"]
mod interleavings;
#[path = "refusals/late.rs"]
mod late;
#[path = "refusals/minds.rs"]
mod minds;
#[path = "refusals/misfiled.rs"]
mod misfiled;
#[path = "refusals/much_drift.rs"]
mod much_drift;
#[path = "refusals/policy.rs"]
mod policy;
#[path = "refusals/policy_moves.rs"]
mod policy_moves;
#[path = "refusals/several.rs"]
mod several;
#[path = "refusals/sidecars.rs"]
mod sidecars;
#[path = "refusals/stops.rs"]
mod stops;
#[path = "refusals/unclear.rs"]
mod unclear;
#[path = "refusals/voided.rs"]
mod voided;
