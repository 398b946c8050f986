//! Deployments and orders through the command boundary, on the public interface alone: the
//! boundary is not tied to cutting.
//!
//! | command | payload | state machine |
//! | --- | --- | --- |
//! | `deployment.create` | [`CreateDeployment`] | ∅ → `running` |
//! | `deployment.stop` | [`StopDeployment`] | `running` → `stopped` |
//! | `order.place` | [`PlaceOrder`] | ∅ → `open` |
//! | `order.cancel` | [`CancelOrder`] | `open` → `cancelled`; a `filled` one is refused |
//!
//! [`machine`] has the two machines as data, [`handler`] the handlers, [`provider`] the adapter
//! and a provider that keeps keys. Handlers know the adapter's trait, and nobody else knows the
//! provider. Reads ([`ExecutionAdapter::list_orders`] and its like) go to the adapter directly.

pub mod handler;
pub mod machine;
pub mod provider;

use std::sync::Arc;

use cutter_core::operate::command::{Boundary, CommandError, Executor};
use cutter_core::record::command::{Command, InvalidCommand};
use cutter_core::testing::memory::Process;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

pub use handler::{DeploymentCommands, OrderCommands};
pub use provider::{ExecutionAdapter, Mishap, Provider};

/// Asks for a deployment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CreateDeployment {
    /// What to run.
    pub strategy: String,
    /// In minor units of its currency: money is an integer.
    pub capital_cents: u64,
}

/// Ends a deployment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StopDeployment {
    /// Which one, by the provider's id.
    pub deployment_id: String,
}

/// Places an order for a deployment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlaceOrder {
    /// For which deployment.
    pub deployment_id: String,
    /// What is bought.
    pub symbol: String,
    /// How many; at least 1.
    pub quantity: u64,
}

/// Cancels an order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CancelOrder {
    /// Which one, by the provider's id.
    pub order_id: String,
}

macro_rules! commands {
    ($($payload:ident => $kind:literal),+ $(,)?) => {$(
        impl $payload {
            /// The command's kind.
            pub const KIND: &'static str = $kind;

            /// This request as a command under `key`.
            ///
            /// # Errors
            /// A key that is none, or a payload too long to keep.
            pub fn command(&self, key: &str) -> Result<Command, InvalidCommand> {
                Command::new(Self::KIND, key, self)
            }
        }
    )+};
}
commands! {
    CreateDeployment => "deployment.create",
    StopDeployment => "deployment.stop",
    PlaceOrder => "order.place",
    CancelOrder => "order.cancel",
}

/// A boundary with both handlers, for one process. With PostgreSQL, give it a
/// `cutter_pg::PgLedger` instead of the process's own ledger.
///
/// # Errors
/// If two handlers took one kind.
pub fn boundary(process: &Process, adapter: &Arc<dyn ExecutionAdapter>) -> Result<Boundary, CommandError> {
    Boundary::new(process.ledger(), process.ports().clock)
        .handler(Arc::new(DeploymentCommands(adapter.clone())))?
        .handler(Arc::new(OrderCommands(adapter.clone())))
}

/// A worker, by number.
#[must_use]
pub fn worker(number: u128) -> Executor {
    Executor { actor: format!("worker-{number}"), holder: Uuid::from_u128(number) }
}
