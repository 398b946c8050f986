//! The contract of the backlog port, together with the database port: runs make the entries, and
//! what the port moves the runs see.

mod look;
mod operate;

use alloc::format;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::future::Future;

use jiff::{SignedDuration, Timestamp};
use uuid::Uuid;

use super::database::DatabaseUnderTest;
use super::fixture::{Request, id};
use super::{Broken, Case, Chain, ConformanceFailure, Held, contracts, equal, holds, refused};
use crate::base::digest::Digest;
use crate::machine::backlog::BacklogState as S;
use crate::port::backlog::{
    AbandonRequest, Backlog, BacklogQuery, RequeueRequest, ReviewRequest, Standing, SweepBatch,
};
use crate::port::database::Begun;
use crate::port::{PortError, PortErrorKind as K, PortResult};
use crate::record::backlog::{Entry, audit};
use crate::record::effect::{EffectName, ExecutorEffect, ReviewVerdict, Verdict};

use look::*;
use operate::*;

/// A fresh database with its backlog.
pub struct BacklogUnderTest {
    /// The port, each operation by its login.
    pub backlog: Arc<dyn Backlog>,
    /// The same database, for the runs.
    pub database: DatabaseUnderTest,
}

/// Checks every contract; gives the names of those that held.
///
/// # Errors
/// The first contract that is not kept.
pub async fn run_all<B, F>(build: B) -> Result<Vec<&'static str>, ConformanceFailure>
where
    B: Fn() -> F,
    F: Future<Output = PortResult<BacklogUnderTest>>,
{
    contracts!(
        "backlog",
        build,
        [
            an_entry_is_shown_as_its_run_left_it,
            pages_follow_each_other_by_key,
            limits_are_held,
            what_is_not_there_is_said,
            documents_with_something_to_promote_follow_each_other,
            a_pass_promotes_once_and_is_known_by_its_id,
            batches_of_a_sweep_go_on_where_they_were_interrupted,
            a_decision_again_is_the_one_that_stands,
            a_decision_is_on_the_marked_manifest_and_an_approval_is_signed,
            a_deferred_approval_cuts_nothing,
            an_abandonment_says_why_and_is_final,
            an_escalation_goes_on_by_its_requeue_alone,
            an_escalation_inherits_what_its_manifest_depends_on,
        ]
    )
}

/// 2026-05-20T10:11:12Z and so many seconds.
fn at(seconds: i64) -> Timestamp {
    let begin = Timestamp::from_second(1_779_271_872).unwrap_or_default();
    begin.checked_add(SignedDuration::from_secs(seconds)).unwrap_or(begin)
}

fn manifest() -> Digest {
    Digest::of(b"manifest")
}

fn every() -> BacklogQuery {
    BacklogQuery { limit: 100, ..BacklogQuery::default() }
}

/// A case over a document of its own, so that several entries are marked side by side.
fn case(n: u8, document_id: &str) -> Case {
    let mut case = Case::new(n);
    case.document_id = document_id.into();
    case.text.push_str(&format!("\n## Article 4\n\nOf {n}.\n"));
    case
}

/// A refusal by a rule, which is named, or by the table, which is quoted.
fn by_rule<T>(what: &str, rule: &str, result: PortResult<T>) -> Held {
    match result {
        Err(PortError { kind: K::Conflict, message, .. }) if message.contains(rule) => Ok(()),
        Err(error) => Err(Broken::new(format!("{what}: a conflict by {rule}"), error.to_string())),
        Ok(_) => Err(Broken::new(format!("{what}: a conflict by {rule}"), "success")),
    }
}

/// Who keeps the queue.
struct Keeper<'a>(&'a BacklogUnderTest);

impl<'a> Keeper<'a> {
    fn port(&self) -> &'a dyn Backlog {
        &*self.0.backlog
    }

    async fn through(&self, case: Case, last: EffectName) -> Result<Chain<'a>, Broken> {
        Chain::through(&self.0.database, case, last).await
    }

    /// A run whose verification failed.
    async fn failed(&self, case: Case) -> Result<Chain<'a>, Broken> {
        let chain = self.through(case, EffectName::LegB).await?;
        chain.finish(EffectName::WriteVerify, Verdict::CommitFailure).await?;
        Ok(chain)
    }

    async fn standing(&self, entry_id: Uuid) -> Result<Standing, Broken> {
        let found = self.port().show(entry_id).await?;
        found.ok_or_else(|| Broken::new("the entry to be there", "none"))
    }

    async fn stands_at(&self, entry_id: Uuid, status: S) -> Held {
        equal("status", status, self.standing(entry_id).await?.row.status)
    }

    /// The states that the history of an entry went through.
    async fn path(&self, entry_id: Uuid) -> Result<String, Broken> {
        let rows = self.port().history(entry_id).await?;
        let mut from = None;
        for row in &rows {
            equal("each move begins where the one before ended", from, row.from_state)?;
            from = Some(row.to_state);
        }
        Ok(rows.iter().map(|row| row.to_state.code()).collect::<Vec<_>>().join(" "))
    }

    /// Every audit is green, and pages show what single entries do. Gives the entries.
    async fn audited(&self) -> Result<Vec<Entry>, Broken> {
        let entries = self.port().entries(&every()).await?;
        for entry in &entries {
            let report = audit(entry);
            let broken: Vec<_> = report.checks.iter().filter(|check| !check.ok).collect();
            holds("a green audit", report.ok(), broken)?;
            equal("as shown alone", entry.status, self.standing(entry.entry_id).await?.entry.status)?;
        }
        Ok(entries)
    }

    /// Whatever it does, it writes nothing.
    async fn unchanged<T>(
        &self,
        what: &str,
        work: impl Future<Output = Result<T, Broken>>,
    ) -> Result<T, Broken> {
        let before = self.port().entries(&every()).await?;
        let answer = work.await?;
        equal(what, before, self.port().entries(&every()).await?)?;
        Ok(answer)
    }
}

fn pass(name: &str, document_id: &str, after: Option<Uuid>, limit: u32) -> SweepBatch {
    SweepBatch {
        sweep_id: id(&format!("pass {name}")),
        document_id: document_id.into(),
        after,
        limit,
        actor: "keeper".into(),
        at: at(10),
    }
}

fn decision(name: &str, entry_id: Uuid, verdict: ReviewVerdict, seconds: i64) -> ReviewRequest {
    ReviewRequest {
        entry_id,
        decision_id: id(&format!("decision {name}")),
        history_id: id(&format!("history of decision {name}")),
        verdict,
        manifest_digest: manifest(),
        reason: format!("because of {name}"),
        actor: "reviewer".into(),
        at: at(seconds),
    }
}

fn requeue(name: &str, entry_id: Uuid) -> RequeueRequest {
    RequeueRequest {
        entry_id,
        sweep_id: id(&format!("requeue {name}")),
        history_id: id(&format!("history of requeue {name}")),
        reason: "looked at it".into(),
        actor: "reviewer".into(),
        at: at(20),
    }
}

fn abandonment(name: &str, entry_id: Uuid, reason: &str) -> AbandonRequest {
    AbandonRequest {
        entry_id,
        history_id: id(&format!("history of abandonment {name}")),
        reason: reason.into(),
        actor: "reviewer".into(),
        at: at(900),
    }
}
