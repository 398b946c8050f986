//! `cutter man`.

use std::path::PathBuf;

use clap::Args;

use crate::app;
use crate::context::Context;
use crate::exit_code::Exit;
use crate::failure::{Failure, Outcome};

/// Print the manual page, or write one page per command into a folder.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  cutter man | man -l -
  cutter man --dir /usr/local/share/man/man1")]
pub(crate) struct ManArgs {
    /// Write cutter.1, cutter-plan.1, … into this folder.
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

pub(crate) fn run(cx: &Context, args: &ManArgs) -> Outcome {
    let mut command = app::command();
    command.build();
    match &args.dir {
        None => {
            let mut bytes = Vec::new();
            clap_mangen::Man::new(command)
                .render(&mut bytes)
                .map_err(|e| Failure::internal(format!("manual page: {e}")))?;
            cx.out.document(&bytes)?;
        }
        Some(dir) => {
            std::fs::create_dir_all(dir).map_err(|e| Failure::io("create", dir, &e))?;
            clap_mangen::generate_to(command, dir).map_err(|e| Failure::io("write to", dir, &e))?;
            cx.out.note(format!("manual pages are in {}", crate::render::name(dir.display())));
        }
    }
    Ok(Exit::DONE)
}
