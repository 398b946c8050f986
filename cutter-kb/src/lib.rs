//! Knowledge base, run store, backup target and approvals of `cutter`, on a folder.
//!
//! Everything durable goes through [`atomic_file`]: a document, a revision or a backup is
//! either there whole or not there. Everything OpenPGP goes through [`openpgp`], which
//! hides the library and adds the policy that the library does not have.
pub mod atomic_file;
pub mod openpgp;
