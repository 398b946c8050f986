//! PostgreSQL adapter of `cutter`: the reference schema, connections with one thread each,
//! error sorting, and the private server that is used when no connection is configured.
//!
//! - [`dsn`]: connection strings that cannot be printed
//! - [`cluster`]: the private server under the home folder
//! - [`connection`]: an async handle over a blocking client on a thread of its own
//! - [`database`]: the database port, one connection per login
//! - [`queue`]: the work queue port, with connections of its own
//! - [`PgLedger`]: the command ledger port
//! - [`run_store`]: the state of runs, shared by workers
//! - [`migrate`], [`migrations`]: forward-only schema changes
//! - [`definitions`]: whether the schema is what the migrations made
//! - [`surroundings`]: whether anything around it makes it behave otherwise
//! - [`policy`]: the administrator's side of the policy's chain
//! - [`backup`], [`restore`]: a document's or the database's archive, and its way back
//! - [`error`]: SQLSTATE to port errors
//! - [`login`]: who connects
mod asks;
pub mod backlog;
pub mod backup;
pub mod cluster;
mod command_ledger;
pub mod connection;
mod cut_request;
pub mod database;
pub mod definitions;
pub mod dsn;
mod effect;
pub mod error;
mod executor;
pub mod login;
pub mod migrate;
pub mod migrations;
pub mod policy;
pub mod queue;
mod reader;
pub mod restore;
mod reviewer;
mod row;
mod run_rows;
pub mod run_store;
mod statement;
mod strays;
pub mod surroundings;
mod survey;
#[cfg(feature = "testing")]
pub mod testing;
mod typed;
mod verifier;
mod versions;

pub use command_ledger::PgLedger;
pub use database::PgDatabase;
pub use queue::PgQueue;
pub use run_store::PgRunStore;
