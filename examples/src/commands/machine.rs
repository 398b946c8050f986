//! The life of a deployment and of an order, as data: from the same rows come the next state and
//! the refusal's words.

use std::fmt;

use cutter_core::machine::run::GateId;
use cutter_core::machine::{Row, Spelled, TransitionTable, deterministic};
use serde::Serialize;

macro_rules! words {
    ($name:ident { $($variant:ident => $text:literal),+ $(,)? }) => {
        impl Spelled for $name {
            fn spelling(self) -> &'static str {
                match self { $(Self::$variant => $text),+ }
            }
        }
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(self.spelling())
            }
        }
    };
}

/// Where a deployment stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DeploymentState {
    /// Created, at work.
    Running,
    /// Ended: for good.
    Stopped,
}
words!(DeploymentState { Running => "running", Stopped => "stopped" });

/// What moves a deployment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeploymentTrigger {
    /// `deployment.stop`.
    Stop,
}
words!(DeploymentTrigger { Stop => "stop" });

/// Where an order stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum OrderState {
    /// Placed, not yet met.
    Open,
    /// Met: for good.
    Filled,
    /// Taken back: for good.
    Cancelled,
}
words!(OrderState { Open => "open", Filled => "filled", Cancelled => "cancelled" });

/// What moves an order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OrderTrigger {
    /// The market met it. No command: it happens at the provider.
    Fill,
    /// `order.cancel`.
    Cancel,
}
words!(OrderTrigger { Fill => "fill", Cancel => "cancel" });

const NONE: &[GateId] = &[];

const DEPLOYMENT_ROWS: &[Row<DeploymentState, DeploymentTrigger>] = &[Row::keyed(
    (DeploymentState::Running as u8, DeploymentTrigger::Stop as u8),
    DeploymentState::Running,
    DeploymentTrigger::Stop,
    NONE,
    DeploymentState::Stopped,
)];
const _: () = assert!(deterministic(DEPLOYMENT_ROWS));

/// The table of a deployment.
pub static DEPLOYMENT: TransitionTable<DeploymentState, DeploymentTrigger> = TransitionTable::new(
    "deployment",
    &[DeploymentState::Running, DeploymentState::Stopped],
    DeploymentState::Running,
    &[DeploymentState::Stopped],
    DEPLOYMENT_ROWS,
);

const fn order(trigger: OrderTrigger, to: OrderState) -> Row<OrderState, OrderTrigger> {
    Row::keyed((OrderState::Open as u8, trigger as u8), OrderState::Open, trigger, NONE, to)
}

const ORDER_ROWS: &[Row<OrderState, OrderTrigger>] =
    &[order(OrderTrigger::Fill, OrderState::Filled), order(OrderTrigger::Cancel, OrderState::Cancelled)];
const _: () = assert!(deterministic(ORDER_ROWS));

/// The table of an order.
pub static ORDER: TransitionTable<OrderState, OrderTrigger> = TransitionTable::new(
    "order",
    &[OrderState::Open, OrderState::Filled, OrderState::Cancelled],
    OrderState::Open,
    &[OrderState::Filled, OrderState::Cancelled],
    ORDER_ROWS,
);
