//! One stop or failure of a run.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::base::digest::Digest;

/// A stop or failure: one per stop-route report.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StopRecord {
    /// 1, 2, …
    pub n: u32,
    /// `STOP_…` code or `failed_<gate>`.
    pub code: String,
    /// State suffix, as in `stopped_<reason>`; for failures the gate's.
    pub reason: String,
    /// Where the run stood.
    pub stage: String,
    /// What happened, expected and observed.
    pub detail: Vec<String>,
    /// When.
    pub at: Timestamp,
    /// File name of the stop-route report.
    pub name: String,
    /// An answer (SG_3) must repeat it.
    pub nonce: String,
    /// The sidecar revision whose bytes the report dumps.
    pub revision: u64,
    /// sha256 of the report, once uploaded.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub uploaded: Option<Digest>,
    /// Whether an answer names the sha256 of the report, so that it holds for what was read. Not so of stops
    /// that an earlier program recorded.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub names_report: bool,
    /// Identifiers for the decision on it and for a void, chosen with the stop.
    #[serde(default)]
    pub ids: BTreeMap<String, Uuid>,
    /// The stop request that it honours, if a person asked.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub request_id: Option<Uuid>,
    /// For drift: the observed values that an acknowledgement accepts.
    #[serde(default)]
    pub observed: BTreeMap<String, String>,
    /// Path of the SG_3 approval that let it go on; `the next request` where a gate decides.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub resolved_by: Option<String>,
}
