//! The handlers: from a command's payload to the adapter's call, and from its answer to a receipt.

use std::sync::Arc;

use async_trait::async_trait;
use cutter_core::operate::command::{CommandHandler, Inquiry};
use cutter_core::port::command_ledger::Lease;
use cutter_core::port::{Port, PortError, PortErrorKind, PortResult};
use cutter_core::record::command::{Command, CommandKind, InvalidCommand, Receipt};
use serde::de::DeserializeOwned;

use super::provider::{ExecutionAdapter, Found};
use super::{CancelOrder, CreateDeployment, PlaceOrder, StopDeployment};

/// Performs `deployment.create` and `deployment.stop`.
pub struct DeploymentCommands(pub Arc<dyn ExecutionAdapter>);

/// Performs `order.place` and `order.cancel`.
pub struct OrderCommands(pub Arc<dyn ExecutionAdapter>);

fn kinds(spellings: [&str; 2]) -> Vec<CommandKind> {
    spellings.into_iter().filter_map(|text| CommandKind::new(text).ok()).collect()
}

fn payload<T: DeserializeOwned>(command: &Command) -> PortResult<T> {
    let invalid =
        |text| PortError::new(Port::Of("handler"), command.kind().as_str(), PortErrorKind::Invalid, text);
    command.payload_as().map_err(invalid)
}

/// The effect happened; a receipt that cannot be kept is an answer that was lost.
fn receipt(id: &str) -> PortResult<Receipt> {
    let lost = |e: InvalidCommand| {
        PortError::new(Port::Of("handler"), "receipt", PortErrorKind::OutcomeUnknown, e.to_string())
    };
    Receipt::new(&serde_json::json!({ "id": id })).map_err(lost)
}

async fn inquire(adapter: &dyn ExecutionAdapter, command: &Command, lease: &Lease) -> PortResult<Inquiry> {
    Ok(match adapter.find(command.key().as_str(), lease.epoch).await? {
        Found::Done(id) => Inquiry::Happened(receipt(&id)?),
        Found::Refused(why) => Inquiry::Refused(why),
        Found::Nothing => Inquiry::NotHappened,
    })
}

#[async_trait]
impl CommandHandler for DeploymentCommands {
    fn kinds(&self) -> Vec<CommandKind> {
        kinds([CreateDeployment::KIND, StopDeployment::KIND])
    }

    fn check(&self, command: &Command) -> Result<(), String> {
        if command.kind().as_str() == StopDeployment::KIND {
            return command.payload_as::<StopDeployment>().map(drop);
        }
        let create: CreateDeployment = command.payload_as()?;
        if create.strategy.is_empty() || create.capital_cents == 0 {
            return Err("expected a strategy and some capital".to_owned());
        }
        Ok(())
    }

    async fn perform(&self, command: &Command, lease: &Lease) -> PortResult<Receipt> {
        let key = command.key().as_str();
        let id = if command.kind().as_str() == StopDeployment::KIND {
            self.0.stop_deployment(key, lease.epoch, &payload(command)?).await?
        } else {
            self.0.create_deployment(key, lease.epoch, &payload(command)?).await?
        };
        receipt(&id)
    }

    async fn inquire(&self, command: &Command, lease: &Lease) -> PortResult<Inquiry> {
        inquire(&*self.0, command, lease).await
    }
}

#[async_trait]
impl CommandHandler for OrderCommands {
    fn kinds(&self) -> Vec<CommandKind> {
        kinds([PlaceOrder::KIND, CancelOrder::KIND])
    }

    fn check(&self, command: &Command) -> Result<(), String> {
        if command.kind().as_str() == CancelOrder::KIND {
            return command.payload_as::<CancelOrder>().map(drop);
        }
        let place: PlaceOrder = command.payload_as()?;
        if place.quantity == 0 {
            return Err("expected a quantity of at least 1, observed 0".to_owned());
        }
        Ok(())
    }

    async fn perform(&self, command: &Command, lease: &Lease) -> PortResult<Receipt> {
        let key = command.key().as_str();
        let id = if command.kind().as_str() == CancelOrder::KIND {
            self.0.cancel_order(key, lease.epoch, &payload(command)?).await?
        } else {
            self.0.place_order(key, lease.epoch, &payload(command)?).await?
        };
        receipt(&id)
    }

    async fn inquire(&self, command: &Command, lease: &Lease) -> PortResult<Inquiry> {
        inquire(&*self.0, command, lease).await
    }
}
