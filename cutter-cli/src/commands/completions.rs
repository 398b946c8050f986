//! `cutter completions`.

use clap::Args;
use clap_complete::Shell;

use crate::app;
use crate::context::Context;
use crate::exit_code::Exit;
use crate::failure::Outcome;

/// Print shell completions.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  cutter completions bash > ~/.local/share/bash-completion/completions/cutter
  cutter completions zsh > ~/.zfunc/_cutter
  cutter completions fish > ~/.config/fish/completions/cutter.fish")]
pub(crate) struct CompletionsArgs {
    /// For which shell.
    shell: Shell,
}

pub(crate) fn run(cx: &Context, args: &CompletionsArgs) -> Outcome {
    let mut bytes = Vec::new();
    clap_complete::generate(args.shell, &mut app::command(), "cutter", &mut bytes);
    cx.out.document(&bytes)?;
    Ok(Exit::DONE)
}
