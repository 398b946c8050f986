//! From configuration to ports: the one place that knows every adapter.
//!
//! Also what the process owes to its surroundings: signals, environment, panics.

mod environment;
mod guard;
mod hooks;
mod keys;
mod objects;
pub(crate) mod policy;
mod ports;
mod process;

pub(crate) use environment::{RandomIds, SystemClock, fill, hex, now};
pub(crate) use guard::{Driving, caught, drive};
pub(crate) use hooks::tell;
pub(crate) use keys::{
    KeySigner, duty_public_key, key_ring, load_pair, load_public, new_seed, public_half, public_half_differs,
    read_seed, replace_secret, write_new_secret, write_public,
};
pub(crate) use objects::{
    backup_target, kb_revise, kb_revision, knowledge_base, open_backup, place, unnamed,
};
pub(crate) use ports::{
    Opened, Stores, connections, file_failure, home_mode, open, private_cluster, reader, review, shared_runs,
    stores,
};
pub(crate) use process::{caller, prepare_process, variable};
