//! Knowledge base and backups in an object store: S3, Google Cloud Storage, Azure, a folder,
//! memory. One library for all of them (`object_store`), one adapter, the folder's contracts.
//!
//! Everything rests on one thing that the store must do: **create a key only if it is not
//! there** (`If-None-Match: *`), with one winner among many. [`race`] asks a store to show it.
//! Nothing is ever overwritten but what can be made again, so versioned and locked buckets
//! are fine.
//!
//! ```text
//! url ───> place <── runtime        a location, its requests, their time limits and errors
//!            ├──> kb ──> index      documents, revisions, the runs index
//!            ├──> backup ─> upload  the encrypted stream
//!            └──> race              does this store keep its word?
//! ```
//!
//! What it does not do: retry (the driver has the policy), delete documents, cache, or block a
//! caller's thread. It owns one thread with a runtime; callers wait on channels that any
//! executor can poll.

pub mod backup;
mod body;
mod error;
mod index;
pub mod kb;
pub mod place;
pub mod race;
mod runtime;
mod upload;
pub mod url;

pub use backup::{BackupReader, ObjectBackupTarget};
pub use kb::ObjectKb;
pub use place::{Place, TimeLimits};
pub use race::{RaceReport, create_race};
pub use url::{KbUrl, KbUrlError};
