//! Pure core of `cutter`: state machines as data, gates that judge facts, ports
//! with written contracts, and the driver that is the only place where order matters.
//!
//! The crate is `no_std`: it reads no clock, no disk, no network, no environment and
//! no randomness. Adapters observe, gates judge, the driver acts.
#![no_std]
extern crate alloc;
#[cfg(any(test, feature = "memory"))]
extern crate std;

pub mod base;
pub mod driver;
pub mod gate;
pub mod machine;
pub mod operate;
pub mod port;
pub mod record;
pub mod report;
#[cfg(feature = "memory")]
pub mod testing;
pub mod text;
