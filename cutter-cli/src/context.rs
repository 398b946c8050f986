//! What every command is handed: where its results go, and where its configuration comes from.

use crate::config::{Config, Overrides};
use crate::failure::Failure;
use crate::render::Out;
use crate::wire;

/// What every command is handed.
#[derive(Debug, Clone)]
pub(crate) struct Context {
    /// Where results go.
    pub(crate) out: Out,
    /// What the flags say about the configuration.
    pub(crate) overrides: Overrides,
}

impl Context {
    /// The configuration, read now.
    pub(crate) fn config(&self) -> Result<Config, Failure> {
        Config::load(&self.overrides, &wire::variable)
    }
}
