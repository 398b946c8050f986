//! One file per command: its arguments and what it does with them. No rule of the business
//! lives here; where one is needed it is a pure function of the core.

pub(crate) mod approver;
pub(crate) mod backlog;
pub(crate) mod backup;
pub(crate) mod completions;
pub(crate) mod db;
pub(crate) mod demo;
pub(crate) mod diff;
pub(crate) mod doctor;
pub(crate) mod duty_key;
pub(crate) mod graph;
pub(crate) mod init;
pub(crate) mod kb;
pub(crate) mod man;
pub(crate) mod orchestrate;
pub(crate) mod plan;
pub(crate) mod policy;
pub(crate) mod profile;
pub(crate) mod queue;
pub(crate) mod request;
pub(crate) mod source;
pub(crate) mod sovereign;
pub(crate) mod unit;
pub(crate) mod verify;
pub(crate) mod why;
pub(crate) mod worker;

use clap::Args;
use cutter_core::base::id::RunId;

/// Which run.
#[derive(Debug, Args)]
pub(crate) struct RunArg {
    /// The run, as `cutter orchestrate list` shows it.
    #[arg(long, value_name = "RUN")]
    pub(crate) run_id: RunId,
}
