//! The adapter's trait, and a provider in memory behind it that keeps keys: it can be asked by key
//! what became of a call, and once it answered "nothing" under an epoch, it takes no call of a
//! lower one. It outlives the processes that call it, and can be told to misbehave.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use cutter_core::port::{Port, PortError, PortErrorKind, PortResult};

use super::machine::{DEPLOYMENT, DeploymentState, DeploymentTrigger, ORDER, OrderState, OrderTrigger};
use super::{CancelOrder, CreateDeployment, PlaceOrder, StopDeployment};

/// What the provider has under a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Found {
    /// The call took effect, on this object.
    Done(String),
    /// The call was refused, and why.
    Refused(String),
    /// No call under this key, and none of a lower epoch will be taken any more.
    Nothing,
}

/// All that the program knows of a provider. The four writes carry key and epoch; the reads are
/// reads: no key, no command, no ledger.
#[async_trait]
pub trait ExecutionAdapter: Send + Sync {
    /// Creates a deployment; gives its id.
    ///
    /// # Errors
    /// By the rules of `CommandHandler`.
    async fn create_deployment(&self, key: &str, epoch: u32, ask: &CreateDeployment) -> PortResult<String>;
    /// Stops a deployment; gives its id.
    ///
    /// # Errors
    /// `Conflict` if it does not run.
    async fn stop_deployment(&self, key: &str, epoch: u32, ask: &StopDeployment) -> PortResult<String>;
    /// Places an order; gives its id.
    ///
    /// # Errors
    /// `Conflict` if its deployment does not run.
    async fn place_order(&self, key: &str, epoch: u32, ask: &PlaceOrder) -> PortResult<String>;
    /// Cancels an order; gives its id.
    ///
    /// # Errors
    /// `Conflict` if it is not open any more.
    async fn cancel_order(&self, key: &str, epoch: u32, ask: &CancelOrder) -> PortResult<String>;
    /// What became of the call under a key.
    ///
    /// # Errors
    /// The provider could not be asked.
    async fn find(&self, key: &str, epoch: u32) -> PortResult<Found>;
    /// A deployment's state.
    ///
    /// # Errors
    /// The provider could not be asked.
    async fn get_deployment(&self, deployment_id: &str) -> PortResult<Option<DeploymentState>>;
    /// All orders, by id.
    ///
    /// # Errors
    /// The provider could not be asked.
    async fn list_orders(&self) -> PortResult<Vec<(String, OrderState)>>;
}

/// What goes wrong with the next call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mishap {
    /// Not reached: nothing happened.
    Down,
    /// It happened and the answer is lost.
    LoseAnswer,
    /// The call is lost and nothing happened, which the caller cannot know.
    LoseCall,
}

#[derive(Default)]
struct State {
    deployments: BTreeMap<String, DeploymentState>,
    orders: BTreeMap<String, OrderState>,
    by_key: BTreeMap<String, Found>,
    fences: BTreeMap<String, u32>,
    calls: Vec<String>,
    mishaps: VecDeque<Mishap>,
}

/// The provider.
#[derive(Default)]
pub struct Provider(Mutex<State>);

fn error(op: &str, kind: PortErrorKind, message: impl Into<String>) -> PortError {
    PortError::new(Port::Of("provider"), op, kind, message)
}

impl Provider {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Plans what goes wrong with the calls to come, one each.
    pub fn misbehave(&self, mishaps: impl IntoIterator<Item = Mishap>) {
        self.lock().mishaps.extend(mishaps);
    }

    /// The market meets an order: not by a command.
    pub fn fill(&self, order_id: &str) {
        if let Some(order) = self.lock().orders.get_mut(order_id)
            && let Ok(next) = ORDER.step(*order, OrderTrigger::Fill)
        {
            *order = next;
        }
    }

    /// Writes that were called so far, `operation key`, whatever became of them.
    #[must_use]
    pub fn calls(&self) -> Vec<String> {
        self.lock().calls.clone()
    }

    /// How many deployments and orders there are.
    #[must_use]
    pub fn count(&self) -> (usize, usize) {
        let state = self.lock();
        (state.deployments.len(), state.orders.len())
    }

    /// One write: fence, key, effect.
    fn write(
        &self,
        op: &str,
        key: &str,
        epoch: u32,
        effect: impl FnOnce(&mut State) -> Result<String, String>,
    ) -> PortResult<String> {
        let mut state = self.lock();
        state.calls.push(format!("{op} {key}"));
        let mishap = state.mishaps.pop_front();
        match mishap {
            Some(Mishap::Down) => return Err(error(op, PortErrorKind::Unavailable, "connection refused")),
            Some(Mishap::LoseCall) => return Err(error(op, PortErrorKind::OutcomeUnknown, "no answer")),
            Some(Mishap::LoseAnswer) | None => {}
        }
        let fence = state.fences.entry(key.to_owned()).or_insert(epoch);
        if *fence > epoch {
            let message = format!("key {key}: epoch {epoch} is below {fence}");
            return Err(error(op, PortErrorKind::Fenced, message));
        }
        *fence = epoch;
        if state.by_key.contains_key(key) {
            return Err(error(op, PortErrorKind::Conflict, format!("key {key} was used")));
        }
        let outcome = effect(&mut state);
        let found = outcome.clone().map_or_else(Found::Refused, Found::Done);
        state.by_key.insert(key.to_owned(), found);
        if mishap == Some(Mishap::LoseAnswer) {
            return Err(error(op, PortErrorKind::OutcomeUnknown, "no answer"));
        }
        outcome.map_err(|why| error(op, PortErrorKind::Conflict, why))
    }
}

#[async_trait]
impl ExecutionAdapter for Provider {
    async fn create_deployment(&self, key: &str, epoch: u32, _: &CreateDeployment) -> PortResult<String> {
        self.write("create_deployment", key, epoch, |state| {
            let id = format!("d-{}", state.deployments.len() + 1);
            state.deployments.insert(id.clone(), DEPLOYMENT.initial());
            Ok(id)
        })
    }

    async fn stop_deployment(&self, key: &str, epoch: u32, ask: &StopDeployment) -> PortResult<String> {
        self.write("stop_deployment", key, epoch, |state| {
            let id = &ask.deployment_id;
            let found = state.deployments.get_mut(id).ok_or_else(|| format!("no deployment {id}"))?;
            *found = DEPLOYMENT.step(*found, DeploymentTrigger::Stop).map_err(|e| e.to_string())?;
            Ok(id.clone())
        })
    }

    async fn place_order(&self, key: &str, epoch: u32, ask: &PlaceOrder) -> PortResult<String> {
        self.write("place_order", key, epoch, |state| {
            match state.deployments.get(&ask.deployment_id) {
                Some(DeploymentState::Running) => {}
                Some(other) => return Err(format!("deployment {} is {other}", ask.deployment_id)),
                None => return Err(format!("no deployment {}", ask.deployment_id)),
            }
            let id = format!("o-{}", state.orders.len() + 1);
            state.orders.insert(id.clone(), ORDER.initial());
            Ok(id)
        })
    }

    async fn cancel_order(&self, key: &str, epoch: u32, ask: &CancelOrder) -> PortResult<String> {
        self.write("cancel_order", key, epoch, |state| {
            let id = &ask.order_id;
            let found = state.orders.get_mut(id).ok_or_else(|| format!("no order {id}"))?;
            *found = ORDER.step(*found, OrderTrigger::Cancel).map_err(|e| e.to_string())?;
            Ok(id.clone())
        })
    }

    async fn find(&self, key: &str, epoch: u32) -> PortResult<Found> {
        let mut state = self.lock();
        let fence = state.fences.entry(key.to_owned()).or_insert(epoch);
        *fence = epoch.max(*fence);
        Ok(state.by_key.get(key).cloned().unwrap_or(Found::Nothing))
    }

    async fn get_deployment(&self, deployment_id: &str) -> PortResult<Option<DeploymentState>> {
        Ok(self.lock().deployments.get(deployment_id).copied())
    }

    async fn list_orders(&self) -> PortResult<Vec<(String, OrderState)>> {
        Ok(self.lock().orders.iter().map(|(id, state)| (id.clone(), *state)).collect())
    }
}
