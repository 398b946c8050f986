//! `cutter graph`: the state machines as diagrams, from the tables that drive them.

use clap::{Args, ValueEnum};
use cutter_core::machine::backlog::BACKLOG;
use cutter_core::machine::cut_request::CUT_REQUEST;
use cutter_core::machine::graph::{Diagram, GraphFormat};
use cutter_core::machine::work_item::WORK_ITEM;

use crate::context::Context;
use crate::exit_code::Exit;
use crate::failure::Outcome;

/// Print a state machine as a diagram.
///
/// The diagram comes from the same table that drives the machine, so it cannot disagree
/// with it. `--json` is the same as `--format json`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  cutter graph run
  cutter graph backlog --format dot | dot -Tsvg > backlog.svg
  cutter graph cut-request --format json")]
pub(crate) struct GraphArgs {
    /// Which machine.
    machine: Machine,
    /// How to write it.
    #[arg(long, value_enum, default_value = "mermaid")]
    format: Format,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Machine {
    Run,
    Backlog,
    WorkItem,
    CutRequest,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Format {
    Mermaid,
    Dot,
    Json,
}

pub(crate) fn run(cx: &Context, args: &GraphArgs) -> Outcome {
    let diagram = match args.machine {
        Machine::Run => Diagram::run(),
        Machine::Backlog => Diagram::of(&BACKLOG),
        Machine::WorkItem => Diagram::of(&WORK_ITEM),
        Machine::CutRequest => Diagram::of(&CUT_REQUEST),
    };
    let format = match args.format {
        _ if cx.out.is_json() => GraphFormat::Json,
        Format::Mermaid => GraphFormat::Mermaid,
        Format::Dot => GraphFormat::Dot,
        Format::Json => GraphFormat::Json,
    };
    let mut text = diagram.render(format);
    if !text.ends_with('\n') {
        text.push('\n');
    }
    cx.out.document(text.as_bytes())?;
    Ok(Exit::DONE)
}
