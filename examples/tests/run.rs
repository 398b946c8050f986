//! Every example is run.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "../examples/commands.rs"]
mod commands;
#[path = "../examples/crash_your_ports.rs"]
mod crash_your_ports;
#[path = "../examples/dry_run.rs"]
mod dry_run;
#[path = "../examples/own_gate.rs"]
mod own_gate;
#[path = "../examples/resume_after_crash.rs"]
mod resume_after_crash;

/// An example as a function.
type Main = fn() -> cutter_examples::Result<()>;

#[test]
fn all_examples_run() {
    let all: [(&str, Main); 5] = [
        ("commands", commands::main),
        ("crash_your_ports", crash_your_ports::main),
        ("dry_run", dry_run::main),
        ("own_gate", own_gate::main),
        ("resume_after_crash", resume_after_crash::main),
    ];
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/examples");
    assert_eq!(std::fs::read_dir(folder).unwrap().count(), all.len(), "one in {folder} is not run here");
    for (name, main) in all {
        println!("--- {name}");
        main().unwrap_or_else(|error| panic!("{name}: {error}"));
    }
}
