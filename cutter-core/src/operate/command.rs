//! The command boundary (AG-EXE-01): what runs commands, and the catalogue of the system's own side effects.

mod boundary;
mod catalogue;
mod handler;

pub use boundary::{Boundary, CommandError, Executed, Executor, How};
pub use catalogue::{READS, SIDE_EFFECTS, SideEffect, effect_key, kind_of_effect};
pub use handler::{CommandHandler, Inquiry, RiskGate};
