//! The contract of the cut request port, together with the database port: a run's own transactions
//! move the request that names it.

mod life;
mod run;

use alloc::boxed::Box;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::future::Future;

use jiff::{SignedDuration, Timestamp};
use serde_json::json;
use uuid::Uuid;

use super::database::DatabaseUnderTest;
use super::{Broken, Case, ConformanceFailure, Held, contracts, equal, holds};
use crate::base::digest::Digest;
use crate::machine::cut_request::CutRequestStatus as S;
use crate::port::PortResult;
use crate::port::cut_request::{
    AddRequest, Asked, CopySource, CutRequests, OnRequest, RequestOutcome, Signal, StageMark, StartCut,
    TakeSignals, VerifyMark,
};
use crate::record::cut_request::{CutRequest, SignalName};

use life::*;
use run::*;

/// A fresh database with its requests.
pub struct RequestsUnderTest {
    /// The port, each operation by its login.
    pub requests: Arc<dyn CutRequests>,
    /// The same database, for the runs.
    pub database: DatabaseUnderTest,
    /// A year passes on the store's own clock: whatever it recorded is so much older.
    pub a_year_passes: Box<dyn Fn() + Send + Sync>,
}

/// Checks every contract; gives the names of those that held.
///
/// # Errors
/// The first contract that is not kept.
pub async fn run_all<B, F>(build: B) -> Result<Vec<&'static str>, ConformanceFailure>
where
    B: Fn() -> F,
    F: Future<Output = PortResult<RequestsUnderTest>>,
{
    contracts!(
        "cut_request",
        build,
        [
            a_request_is_added_once_and_its_id_stands_for_one_source,
            a_copy_is_the_bytes_that_were_named,
            a_mark_partitions_the_copy_or_is_refused,
            a_rejected_mark_is_made_again_and_its_bytes_expire,
            a_verdict_on_a_mark_says_where_or_why,
            the_cut_is_asked_for_once_and_waits_for_an_approved_mark,
            of_many_runs_one_cuts_for_a_request,
            a_run_cuts_for_one_request,
            what_is_not_there_is_not_found,
            pages_follow_each_other_by_key,
            signals_are_taken_finished_and_over_with_their_status,
            a_signal_that_rests_starves_no_other,
            a_run_moves_its_request_inside_its_own_transactions,
            a_failed_verification_fails_the_request,
            a_voided_run_fails_its_request,
            a_run_that_ended_fails_its_request_and_commits_nothing_more,
            what_a_run_did_before_is_caught_up,
            a_run_of_another_manifest_cuts_for_no_request,
            a_run_that_ended_stores_nothing_more_but_its_void,
            nothing_is_complete_before_it_is_enacted,
            staged_bytes_go_when_they_are_due_and_nothing_else_does,
            every_operation_again_changes_nothing,
        ]
    )
}

/// 2026-05-20T10:11:12Z and so many seconds.
fn at(seconds: i64) -> Timestamp {
    let begin = Timestamp::from_second(1_779_271_872).unwrap_or_default();
    begin.checked_add(SignedDuration::from_secs(seconds)).unwrap_or(begin)
}

fn asked(seconds: i64) -> Asked {
    Asked { actor: "operator".into(), at: at(seconds) }
}

/// A request for the document of a case, and everything that is asked of it.
struct Customer<'a> {
    under: &'a RequestsUnderTest,
    case: Case,
}

impl<'a> Customer<'a> {
    fn new(under: &'a RequestsUnderTest, n: u8) -> Self {
        Self { under, case: Case::new(n) }
    }

    fn port(&self) -> &dyn CutRequests {
        &*self.under.requests
    }

    fn id(&self) -> Uuid {
        self.case.id("cut request")
    }

    fn on(&self, seconds: i64) -> OnRequest {
        OnRequest { cut_request_id: self.id(), asked: asked(seconds) }
    }

    fn add(&self) -> AddRequest {
        AddRequest {
            cut_request_id: self.id(),
            source_ref: "laws/conf-doc.md".into(),
            source_kind: crate::record::cut_request::DEFAULT_SOURCE_KIND.into(),
            asked: asked(i64::from(self.case.n)),
        }
    }

    fn copy(&self) -> CopySource {
        let content = self.case.text.clone().into_bytes();
        CopySource {
            cut_request_id: self.id(),
            staging_record_id: self.case.id("staged copy"),
            sha256: Digest::of(&content),
            content,
            source_path: Some("conf-doc.md".into()),
            asked: asked(10),
        }
    }

    /// The run of the case marks by the manifest of this name, and by no other.
    const OF_THE_RUN: &'static str = "1";

    fn digest(&self, name: &str) -> Digest {
        let text = format!("manifest {name}");
        Digest::of(if name == Self::OF_THE_RUN { b"manifest" } else { text.as_bytes() })
    }

    /// What `cutter plan --json` would print, as far as a mark is judged by it.
    fn manifest(&self, name: &str, spans: &[(u64, u64)]) -> Vec<u8> {
        let bytes = self.case.text.len();
        let units: Vec<_> = spans.iter().map(|(start, end)| json!({ "start": start, "end": end })).collect();
        json!({
            "document": { "path": "conf-doc.md", "bytes": bytes,
                "sha256": Digest::of(self.case.text.as_bytes()) },
            "region": { "start": 0, "end": bytes },
            "settings": { "document_id": self.case.document_id },
            "units": units,
            "manifest_digest": self.digest(name),
        })
        .to_string()
        .into_bytes()
    }

    fn spans(&self) -> Vec<(u64, u64)> {
        self.case.units().iter().map(|unit| (unit.start, unit.end)).collect()
    }

    fn mark(&self, name: &str) -> StageMark {
        StageMark {
            cut_request_id: self.id(),
            staging_record_id: self.case.id(&format!("staged manifest {name}")),
            manifest: self.manifest(name, &self.spans()),
            manifest_digest: self.digest(name),
            asked: asked(20),
        }
    }

    fn verdict(&self, approve: bool) -> VerifyMark {
        VerifyMark {
            cut_request_id: self.id(),
            approve,
            approval_doc_id: approve.then(|| "laws/mark-approval.md".to_string()),
            reason: (!approve).then(|| "article 2 is two articles".to_string()),
            asked: Asked { actor: "sovereign".into(), at: at(30) },
        }
    }

    fn start(&self) -> StartCut {
        StartCut { cut_request_id: self.id(), run_id: self.case.run_id(), asked: asked(40) }
    }

    async fn to_copied(&self) -> Result<(), Broken> {
        self.port().add(&self.add()).await?;
        self.port().copy(&self.copy()).await?;
        Ok(())
    }

    async fn to_marked(&self) -> Result<(), Broken> {
        self.to_marked_by(Self::OF_THE_RUN).await
    }

    async fn to_marked_by(&self, name: &str) -> Result<(), Broken> {
        self.to_copied().await?;
        self.port().mark(&self.mark(name)).await?;
        Ok(())
    }

    async fn to_verified(&self) -> Result<(), Broken> {
        self.to_verified_by(Self::OF_THE_RUN).await
    }

    async fn to_verified_by(&self, name: &str) -> Result<(), Broken> {
        self.to_marked_by(name).await?;
        self.port().verify_mark(&self.verdict(true)).await?;
        Ok(())
    }

    async fn to_cutting(&self) -> Result<(), Broken> {
        self.to_verified().await?;
        self.port().start_cut(&self.start()).await?;
        Ok(())
    }

    async fn stands(&self) -> Result<CutRequest, Broken> {
        let found = self.port().get(self.id()).await?;
        found.ok_or_else(|| Broken::new("the request to be there", "none"))
    }

    async fn stands_at(&self, status: S) -> Held {
        equal("status", status, self.stands().await?.status)
    }

    /// The statuses that the timeline went through.
    async fn path(&self) -> Result<String, Broken> {
        let rows = self.port().timeline(self.id()).await?;
        for pair in rows.windows(2) {
            equal(
                "each move begins where the one before ended",
                Some(pair[0].to_status),
                pair[1].from_status,
            )?;
            holds("rows rise", pair[0].transition_id < pair[1].transition_id, pair)?;
        }
        equal("the first row comes from nothing", None, rows.first().and_then(|row| row.from_status))?;
        Ok(rows.iter().map(|row| row.to_status.as_str()).collect::<Vec<_>>().join(" "))
    }

    /// `kind lifecycle` of each staging record.
    async fn lifecycles(&self) -> Result<Vec<String>, Broken> {
        let records = self.port().staging(self.id()).await?;
        for record in &records {
            holds("no vector store takes staged bytes", record.vector_excluded, record)?;
            let bytes = self.port().staged_bytes(record.staging_record_id).await?;
            match bytes {
                Some(bytes) => equal("the bytes hash as recorded", record.sha256, Digest::of(&bytes))?,
                None => equal("bytes go with the cleanup alone", "cleaned", &*record.lifecycle_status)?,
            }
        }
        Ok(records.iter().map(|r| format!("{} {}", r.record_kind, r.lifecycle_status)).collect())
    }

    async fn take(&self, name: SignalName, now: i64, stale_before: i64) -> PortResult<Vec<Signal>> {
        let take = TakeSignals {
            names: [name].to_vec(),
            stale_before: at(stale_before),
            limit: 100,
            asked: asked(now),
        };
        self.port().take_signals(&take).await
    }
}

fn is_new(outcome: &RequestOutcome, status: S) -> Held {
    equal("new, and status", (false, status), (outcome.already, outcome.request.status))
}

fn is_old(outcome: &RequestOutcome, status: S) -> Held {
    equal("already, and status", (true, status), (outcome.already, outcome.request.status))
}

type BoxedOutcome<'a> = core::pin::Pin<Box<dyn Future<Output = PortResult<RequestOutcome>> + Send + 'a>>;
