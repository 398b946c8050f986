//! Knowledge base, run store, backup target and approvals of `cutter`, on a folder; knowledge
//! base and backups in an object store, too.
//!
//! Everything durable goes through [`atomic_file`]: a document, a revision or a backup is
//! either there whole or not there. Everything OpenPGP goes through [`openpgp`], which
//! hides the library and adds the policy that the library does not have.
//!
//! ```text
//! ports: the core's traits over what follows
//! folder ──────┐
//! run_store ───┼──> atomic_file ──> plain_file ──> file_error
//! backup_target┘  └─> file_lock
//!     └──> openpgp
//!             ↑
//! object_store: the same ports over S3, Google Cloud Storage, Azure, a folder, memory
//! ```
pub mod atomic_file;
pub mod backup_target;
pub mod file_error;
pub mod file_lock;
pub mod folder;
pub mod object_store;
pub mod openpgp;
pub mod plain_file;
pub mod ports;
mod process;
pub mod run_store;
