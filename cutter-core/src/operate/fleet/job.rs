//! What an item of the queue asks for.

use alloc::borrow::ToOwned;
use alloc::boxed::Box;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::base::canonical;
use crate::base::digest::Digest;
use crate::base::id::{RunId, mint_v7};
use crate::gate::staged::PlanSettings;
use crate::machine::retry::RetryPolicy;
use crate::record::queue::{InvalidItem, KEY_MAX_BYTES, NewItem, WorkItem};
use crate::record::sidecar::Mode;

/// Cut a document.
pub const KIND_CUT: &str = "cut";
/// Drive a run on.
pub const KIND_RUN: &str = "run";
/// Serve a cut request.
pub const KIND_REQUEST: &str = "request";

/// One version of a document, to be cut.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CutJob {
    /// Dry run or live.
    pub mode: Mode,
    /// sha256 of the version that is meant. If a newer one is registered when the work begins,
    /// the item fails: nobody asked for that one.
    pub source_sha256: Digest,
    /// Document, profile, and what else the plan follows from; the rest are the settings of the
    /// worker's deployment.
    pub plan: PlanSettings,
}

/// What an item asks for.
#[derive(Debug, Clone, PartialEq)]
pub enum Job {
    /// Cut a document: a new run, or the one that holds it already for this item.
    Cut(Box<CutJob>),
    /// Drive a run on.
    Run(RunId),
    /// Serve a cut request (spec 5), because of this signal of its.
    Request {
        /// Which.
        cut_request_id: Uuid,
        /// The signal that asked; another signal is another item. `None`: a person did.
        signal_id: Option<Uuid>,
    },
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RunPayload {
    run_id: RunId,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RequestPayload {
    cut_request_id: Uuid,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    signal_id: Option<Uuid>,
}

impl Job {
    /// The key that makes asking for the same twice one item: the document with its version, the
    /// run, or the request with its signal.
    #[must_use]
    pub fn key(&self) -> String {
        match self {
            Self::Cut(job) => {
                let verb = match job.mode {
                    Mode::Live => "cut",
                    Mode::Dryrun => "dryrun",
                };
                let version: String = job.source_sha256.to_hex().chars().take(16).collect();
                let key = format!("{verb}/{}/{version}", job.plan.document_id);
                if key.len() <= KEY_MAX_BYTES {
                    return key;
                }
                format!("{verb}/{}/{version}", Digest::of(job.plan.document_id.as_bytes()).to_hex())
            }
            Self::Run(run_id) => format!("run/{run_id}"),
            Self::Request { cut_request_id, signal_id: Some(signal) } => {
                format!("request/{cut_request_id}/{signal}")
            }
            Self::Request { cut_request_id, signal_id: None } => format!("request/{cut_request_id}"),
        }
    }

    /// The kind.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Cut(_) => KIND_CUT,
            Self::Run(_) => KIND_RUN,
            Self::Request { .. } => KIND_REQUEST,
        }
    }

    /// The item to enqueue, under `key` or its own; it has side effects, and the budget of a run.
    ///
    /// # Errors
    /// [`InvalidItem`]: a key or payload that the queue does not take.
    pub fn to_item(&self, key: Option<&str>) -> Result<NewItem, InvalidItem> {
        let payload = self.payload().map_err(|observed| InvalidItem {
            part: "payload",
            expected: "what canonical JSON can say".to_owned(),
            observed,
        })?;
        let key = key.map_or_else(|| self.key(), ToOwned::to_owned);
        Ok(NewItem::new(key, self.kind(), payload)?.policy(RetryPolicy::run_item())?.side_effects(true))
    }

    fn payload(&self) -> Result<Vec<u8>, String> {
        let value = match self {
            Self::Cut(job) => serde_json::to_value(job.as_ref()),
            Self::Run(run_id) => serde_json::to_value(RunPayload { run_id: run_id.clone() }),
            Self::Request { cut_request_id, signal_id } => {
                let (cut_request_id, signal_id) = (*cut_request_id, *signal_id);
                serde_json::to_value(RequestPayload { cut_request_id, signal_id })
            }
        };
        let text = canonical::to_canonical(&value.map_err(|e| e.to_string())?);
        text.map(String::into_bytes).map_err(|e| e.to_string())
    }

    /// Reads an item. `None`: its kind is none of ours.
    ///
    /// # Errors
    /// A text for people: the payload is not what the kind promises.
    pub fn of(item: &WorkItem) -> Option<Result<Self, String>> {
        fn read<'a, T: Deserialize<'a>>(item: &'a WorkItem) -> Result<T, String> {
            serde_json::from_slice(&item.payload)
                .map_err(|e| format!("the payload of a {} item: {e}", item.kind))
        }
        Some(match item.kind.as_str() {
            KIND_CUT => read(item).map(|job| Self::Cut(Box::new(job))),
            KIND_RUN => read::<RunPayload>(item).map(|p| Self::Run(p.run_id)),
            KIND_REQUEST => read::<RequestPayload>(item)
                .map(|p| Self::Request { cut_request_id: p.cut_request_id, signal_id: p.signal_id }),
            _ => return None,
        })
    }
}

/// The nth run of a `cut` item: the same on every worker, before the run exists.
///
/// # Errors
/// A text for people: the item's time has no four-digit year.
pub(super) fn run_of(item: &WorkItem, nth: u32) -> Result<RunId, String> {
    let seed = format!("{}\n{}\n{}\n{nth}", item.key, item.item, item.enqueued_at.as_nanosecond());
    let digest = Digest::of(seed.as_bytes());
    let mut random = [0; 10];
    random.copy_from_slice(&digest.as_bytes()[..10]);
    let created = item.enqueued_at;
    let millis = u64::try_from(created.as_millisecond()).unwrap_or(0);
    RunId::new(created, mint_v7(millis, random)).map_err(|e| e.to_string())
}
