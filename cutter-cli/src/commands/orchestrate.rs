//! `cutter orchestrate`: runs, from start to end (spec 1 §7).

mod cut;
mod list;
mod outcome;
mod recover;
mod resume;
mod status;
mod stop;
mod void;
mod wait;

pub(crate) use cut::{CutArgs, deployment_settings, start};
pub(crate) use outcome::{Presented, people, present};
pub(crate) use resume::resume;
pub(crate) use status::load;

use clap::{Args, Subcommand};

use crate::context::Context;
use crate::failure::Outcome;

/// Start a run, resume it, stop it, look at it.
#[derive(Debug, Args)]
pub(crate) struct OrchestrateArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Cut(Box<CutArgs>),
    Resume(resume::ResumeArgs),
    Status(status::StatusArgs),
    List(list::ListArgs),
    Stop(stop::StopArgs),
    Void(void::VoidArgs),
    Wait(wait::WaitArgs),
    Recover(recover::RecoverArgs),
}

pub(crate) fn run(cx: &Context, args: OrchestrateArgs) -> Outcome {
    match args.command {
        Command::Cut(args) => cut::run(cx, &args),
        Command::Resume(args) => resume::run(cx, &args),
        Command::Status(args) => status::run(cx, &args),
        Command::List(args) => list::run(cx, &args),
        Command::Stop(args) => stop::run(cx, &args),
        Command::Void(args) => void::run(cx, &args),
        Command::Wait(args) => wait::run(cx, &args),
        Command::Recover(args) => recover::run(cx, &args),
    }
}
