//! The `cutter` command: parse, wire, drive, render.
#![deny(unsafe_op_in_unsafe_fn)]
mod app;
mod commands;
mod config;
mod context;
mod exit_code;
mod failure;
mod files;
mod progress;
mod render;
mod terminal;
mod wire;

fn main() -> std::process::ExitCode {
    app::main()
}
