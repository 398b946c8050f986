//! PostgreSQL adapter of `cutter`.
pub mod cluster;
pub mod connection;
pub mod error;
pub mod migrate;
