//! Knowledge base, run store, backup target and approvals of `cutter`, on a folder.
pub mod atomic_file;
pub mod folder;
pub mod openpgp;
