//! The `cutter` command.
fn main() {}
