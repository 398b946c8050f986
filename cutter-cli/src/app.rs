//! The command line: its types, and the way from arguments to an exit code.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{ArgAction, Args, CommandFactory as _, Parser, Subcommand};

use crate::commands;
use crate::config::Overrides;
use crate::context::Context;
use crate::exit_code::{self, Exit};
use crate::failure::Outcome;
use crate::render::{BAD, Out, paint};
use crate::terminal::{self, Stream};
use crate::wire;

/// The commands by what one wants; a test holds it to the commands that there are.
const GROUPS: &str = "\
Start here:
  demo          The whole story on a private database, narrated, in a minute
  init          Make home folder, private database, keys and cutter.toml
  plan          Show the units that a cut would make; no database
  profile       Conventions of documents: list, show, test, explain
  diff          What a new version of a document changes, unit by unit
  doctor        What is installed, reachable, granted, pinned; each finding with its fix

Cut:
  source        Register a source document or a new version of one
  orchestrate   Start a run, resume, stop, void or recover it; list runs
  queue         Work for workers: add, list, show, cancel; the queue in numbers
  worker        Drive runs from the queue, as many at once as you like
  request       A customer's request: copy, mark, review, cut, hand over, clean up
  why           Why a run stands where it stands, and the exact next command

Approve:
  sovereign     The approving human's side: show, approve, refuse
  approver      Who may approve: add, retire, revoke, list, import
  policy        The rules for approvals, which the database holds: show, set, append
  duty-key      The keys that executor and verifier sign with: list, register, rotate

Look and check:
  unit          The result: list, show or export units
  verify        Re-check a run from its evidence
  backlog       The governance backlog: list, show, sweep, review, requeue, audit
  backup        Inspect a run's backup, or restore it into a scratch database

Keep:
  db            The database: migrate, status, start, stop, check
  kb            The knowledge base: put back what a run filed and relied on
  graph         The state machines as diagrams
  completions   Shell completions
  man           Manual pages
";

const EXAMPLES: &str = "\
Examples:
  cutter demo
  cutter plan charter.md
  cutter init --sovereign sue
  cutter source add charter.md --document-id CITY-CHARTER
  cutter orchestrate cut --document-id CITY-CHARTER
  cutter sovereign approve --run-id RUN
  cutter orchestrate resume --run-id RUN

Settings: flags, then CUTTER_* variables, then cutter.toml, then defaults.
`cutter COMMAND --help` explains each command with examples.";

/// Cut a source document into addressed, immutable information units in PostgreSQL, under
/// human sign-off, leaving a paper trail that anyone can check later.
///
/// A run can be killed at any instant and resumed to the same result. Nothing happens
/// without its gate, nothing happens twice, nothing is lost, nothing is hidden.
#[derive(Debug, Parser)]
#[command(
    name = "cutter",
    version,
    max_term_width = 100,
    help_template = "{about-with-newline}\n{usage-heading} {usage}{after-help}\n\nOptions:\n{options}",
    subcommand_required = true,
    arg_required_else_help = true,
    disable_help_subcommand = true
)]
pub(crate) struct Cli {
    #[command(flatten)]
    globals: Globals,
    #[command(subcommand)]
    command: Command,
}

/// Options of every command.
#[derive(Debug, Args)]
#[command(next_help_heading = "Global options")]
pub(crate) struct Globals {
    /// Configuration file [env: CUTTER_CONFIG] [default: HOME/cutter.toml].
    #[arg(long, global = true, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Home folder [env: CUTTER_HOME] [default: ~/.local/share/cutter].
    #[arg(long, global = true, value_name = "DIR")]
    home: Option<PathBuf>,
    /// Who operates [env: CUTTER_ACTOR] [default: `actor` of cutter.toml].
    #[arg(long, global = true, value_name = "NAME")]
    actor: Option<String>,
    /// One JSON document on stdout; everything for people on stderr.
    #[arg(long, global = true)]
    json: bool,
    /// Say more; twice for even more.
    #[arg(short, long, global = true, action = ArgAction::Count)]
    verbose: u8,
    /// Say results, warnings and errors only.
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    quiet: bool,
    /// No colour (NO_COLOR does the same).
    #[arg(long, global = true)]
    no_color: bool,
    /// No moving progress.
    #[arg(long, global = true)]
    no_progress: bool,
}

#[derive(Debug, Subcommand)]
enum Command {
    Demo(commands::demo::DemoArgs),
    Init(commands::init::InitArgs),
    Plan(commands::plan::PlanArgs),
    Profile(commands::profile::ProfileArgs),
    Diff(commands::diff::DiffArgs),
    Doctor(commands::doctor::DoctorArgs),
    Source(commands::source::SourceArgs),
    Orchestrate(commands::orchestrate::OrchestrateArgs),
    Queue(commands::queue::QueueArgs),
    Worker(commands::worker::WorkerArgs),
    Request(commands::request::RequestArgs),
    Why(commands::why::WhyArgs),
    Sovereign(commands::sovereign::SovereignArgs),
    Approver(commands::approver::ApproverArgs),
    Policy(commands::policy::PolicyArgs),
    DutyKey(commands::duty_key::DutyKeyArgs),
    Unit(commands::unit::UnitArgs),
    Verify(commands::verify::VerifyArgs),
    Backlog(commands::backlog::BacklogArgs),
    Backup(commands::backup::BackupArgs),
    Db(commands::db::DbArgs),
    Kb(commands::kb::KbArgs),
    Graph(commands::graph::GraphArgs),
    Completions(commands::completions::CompletionsArgs),
    Man(commands::man::ManArgs),
}

/// The whole command line as clap knows it, with the texts that derive cannot write.
pub(crate) fn command() -> clap::Command {
    let after = format!("{GROUPS}\n{EXAMPLES}\n\n{}", exit_code::TABLE);
    Cli::command()
        .after_help(format!("{GROUPS}\nRun `cutter --help` for examples and exit codes."))
        .after_long_help(after)
}

/// Parses, runs, renders.
pub(crate) fn main() -> ExitCode {
    wire::prepare_process();
    let cli =
        match command().try_get_matches().and_then(|m| <Cli as clap::FromArgMatches>::from_arg_matches(&m)) {
            Ok(cli) => cli,
            Err(error) => return unparsed(&error).into(),
        };
    let globals = cli.globals;
    let verbosity = if globals.quiet { -1 } else { i16::from(globals.verbose) };
    let out = Out::new(globals.json, globals.no_color, verbosity, globals.no_progress)
        .at(globals.config.as_deref(), globals.home.as_deref());
    let overrides = Overrides { config: globals.config, home: globals.home, actor: globals.actor };
    let context = Context { out, overrides };
    match dispatch(&context, cli.command) {
        Ok(exit) => exit.into(),
        Err(failure) => {
            out.failure(&failure);
            failure.exit.into()
        }
    }
}

/// Help and version as they are; a usage error repeats arguments, which anyone may have written.
fn unparsed(error: &clap::Error) -> Exit {
    if !error.use_stderr() {
        terminal::help(error);
        return Exit::DONE;
    }
    // once more without clap's styles: what is left of the text is ours and the arguments'
    let plain = command().styles(clap::builder::Styles::plain()).try_get_matches().err();
    let text = plain.map_or_else(|| error.to_string(), |plain| plain.render().ansi().to_string());
    let text = text.replacen("error:", &paint(BAD, "error:"), usize::from(text.starts_with("error:")));
    // Nothing is left to do if the terminal is gone.
    let _ = terminal::people(Stream::Stderr, anstream::ColorChoice::Auto, &text);
    Exit::USAGE
}

fn dispatch(cx: &Context, command: Command) -> Outcome {
    match command {
        Command::Demo(args) => commands::demo::run(cx, &args),
        Command::Init(args) => commands::init::run(cx, &args),
        Command::Plan(args) => commands::plan::run(cx, &args),
        Command::Profile(args) => commands::profile::run(cx, &args),
        Command::Diff(args) => commands::diff::run(cx, &args),
        Command::Doctor(args) => commands::doctor::run(cx, &args),
        Command::Source(args) => commands::source::run(cx, &args),
        Command::Orchestrate(args) => commands::orchestrate::run(cx, args),
        Command::Queue(args) => commands::queue::run(cx, &args),
        Command::Worker(args) => commands::worker::run(cx, &args),
        Command::Request(args) => commands::request::run(cx, &args),
        Command::Why(args) => commands::why::run(cx, &args),
        Command::Sovereign(args) => commands::sovereign::run(cx, &args),
        Command::Approver(args) => commands::approver::run(cx, &args),
        Command::Policy(args) => commands::policy::run(cx, &args),
        Command::DutyKey(args) => commands::duty_key::run(cx, &args),
        Command::Unit(args) => commands::unit::run(cx, &args),
        Command::Verify(args) => commands::verify::run(cx, &args),
        Command::Backlog(args) => commands::backlog::run(cx, &args),
        Command::Backup(args) => commands::backup::run(cx, &args),
        Command::Db(args) => commands::db::run(cx, &args),
        Command::Kb(args) => commands::kb::run(cx, &args),
        Command::Graph(args) => commands::graph::run(cx, &args),
        Command::Completions(args) => commands::completions::run(cx, &args),
        Command::Man(args) => commands::man::run(cx, &args),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        command().debug_assert();
    }

    #[test]
    fn the_groups_name_every_command_once_and_no_other() {
        let named: Vec<&str> = GROUPS
            .lines()
            .filter_map(|line| line.strip_prefix("  "))
            .filter_map(|line| line.split_whitespace().next())
            .collect();
        let command = command();
        let known: Vec<&str> = command.get_subcommands().map(clap::Command::get_name).collect();
        let sorted = |mut names: Vec<&str>| {
            names.sort_unstable();
            names.iter().map(|n| (*n).to_owned()).collect::<Vec<String>>()
        };
        assert_eq!(sorted(named), sorted(known));
    }

    #[test]
    fn every_command_has_an_example_in_its_help() {
        fn check(command: &clap::Command) {
            let mut leaves = true;
            for sub in command.get_subcommands() {
                leaves = false;
                check(sub);
            }
            if leaves {
                let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
                assert!(help.contains("cutter "), "{} has no example", command.get_name());
            }
        }
        check(&command());
    }
}
