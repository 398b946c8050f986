//! What a run does to the request that names it, and what comes after.

use super::*;
use crate::base::limits::CLEANUP_AFTER_DAYS;
use crate::machine::backlog::BacklogState;
use crate::port::PortErrorKind as K;
use crate::port::cut_request::{CatchUp, Cleanup};
use crate::port::database::Begun;
use crate::record::cut_request::{CutVerdict, Standing, consistency};
use crate::record::effect::{EffectKey, EffectName, Verdict};
use crate::testing::conformance::{Chain, refused};

/// The effects before leg A.
const BEFORE: [EffectName; 3] = [EffectName::Mark, EffectName::Sweep, EffectName::Sg1Review];

async fn chain<'a>(customer: &Customer<'a>) -> Result<Chain<'a>, Broken> {
    let chain = Chain::start(&customer.under.database, customer.case.clone()).await?;
    for effect in BEFORE {
        chain.commit(effect).await?;
    }
    Ok(chain)
}

/// The three machines agree, as the core says it.
async fn agree(customer: &Customer<'_>) -> Held {
    let request = customer.stands().await?;
    let run_id = customer.case.run_id();
    let evidence = customer.under.database.reader.evidence(&run_id).await?;
    let has = |name: EffectName| {
        evidence.effects.iter().any(|e| e.key.effect == name && e.verdict == Verdict::Commit)
    };
    let entry = evidence.entry_status.as_deref().and_then(|status| status.parse::<BacklogState>().ok());
    let standing = Standing {
        status: request.status,
        mark_verdict: request.mark_verdict,
        names_run: request.cut_run_id.is_some(),
        entry,
        has_cut: has(EffectName::LegA),
        has_passed: evidence.verify_results.first().map(|(_, passed)| *passed),
        is_enacted: has(EffectName::Enact),
        stage: None,
    };
    let broken: Vec<_> = consistency(&standing).into_iter().filter(|check| !check.ok).collect();
    holds("the three machines agree", broken.is_empty(), broken)
}

fn catch_up(customer: &Customer<'_>, ended: Option<&str>) -> CatchUp {
    CatchUp { cut_request_id: customer.id(), ended: ended.map(ToString::to_string), asked: asked(60) }
}

pub(super) async fn a_run_moves_its_request_inside_its_own_transactions(under: &RequestsUnderTest) -> Held {
    let customer = Customer::new(under, 1);
    customer.to_cutting().await?;
    let chain = chain(&customer).await?;
    agree(&customer).await?;
    for verdict in [Verdict::Rollback, Verdict::Commit] {
        let Begun::Pending(pending) = chain.begin(EffectName::LegA).await? else {
            return Err(Broken::new("a new leg A", "a record"));
        };
        customer.stands_at(S::CutInProgress).await?;
        pending.finish(verdict).await?;
        let expected = if verdict == Verdict::Commit { S::CutDone } else { S::CutInProgress };
        customer.stands_at(expected).await?;
        agree(&customer).await?;
    }
    let asked_for = customer.port().verify_cut(&customer.on(50)).await?;
    equal("no verdict yet", None, asked_for.verdict)?;
    customer.port().verify_cut(&customer.on(51)).await?;
    equal("asked for once", 1, customer.take(SignalName::VerifyCut, 52, 0).await?.len())?;
    chain.commit(EffectName::LegB).await?;
    chain.commit(EffectName::WriteVerify).await?;
    agree(&customer).await?;
    let request = customer.stands().await?;
    equal("status", S::CutVerified, request.status)?;
    equal("verdict", Some(CutVerdict::Verified), request.cut_verdict)?;
    holds("dated", request.cut_done_at.is_some() && request.cut_verified_at.is_some(), &request)?;
    equal("over", 0, customer.take(SignalName::VerifyCut, 99, 98).await?.len())?;
    let told = customer.port().verify_cut(&customer.on(53)).await?;
    equal("the verdict that stands", Some(CutVerdict::Verified), told.verdict)?;
    let again = customer.port().catch_up(&catch_up(&customer, Some("failed_IG_lifecycle_enact"))).await?;
    is_old(&again, S::CutVerified)?;
    let rows = customer.port().timeline(customer.id()).await?;
    let last = rows.last().and_then(|row| row.detail.get("run_id")).cloned();
    equal("the timeline names the run", Some(json!(customer.case.run_id())), last)
}

pub(super) async fn a_failed_verification_fails_the_request(under: &RequestsUnderTest) -> Held {
    let customer = Customer::new(under, 1);
    customer.to_cutting().await?;
    let chain = chain(&customer).await?;
    chain.commit(EffectName::LegA).await?;
    chain.commit(EffectName::LegB).await?;
    chain.finish(EffectName::WriteVerify, Verdict::CommitFailure).await?;
    agree(&customer).await?;
    let request = customer.stands().await?;
    equal("verdict", (S::CutFailed, Some(CutVerdict::Failed)), (request.status, request.cut_verdict))?;
    refused("complete", &[K::Conflict], customer.port().complete(&customer.on(70)).await)?;
    let path = customer.path().await?;
    holds("path", path.ends_with("cut_in_progress cut_done cut_failed"), path)
}

pub(super) async fn a_voided_run_fails_its_request(under: &RequestsUnderTest) -> Held {
    let customer = Customer::new(under, 1);
    customer.to_cutting().await?;
    let chain = chain(&customer).await?;
    for effect in [EffectName::LegA, EffectName::LegB, EffectName::Sg3Review, EffectName::Void] {
        chain.commit(effect).await?;
        agree(&customer).await?;
    }
    customer.stands_at(S::CutFailed).await
}

pub(super) async fn a_run_that_ended_fails_its_request_and_commits_nothing_more(
    under: &RequestsUnderTest,
) -> Held {
    let customer = Customer::new(under, 1);
    customer.to_cutting().await?;
    is_old(&customer.port().catch_up(&catch_up(&customer, None)).await?, S::CutInProgress)?;
    let chain = chain(&customer).await?;
    is_new(&customer.port().catch_up(&catch_up(&customer, Some("stopped_refused"))).await?, S::CutFailed)?;
    is_old(&customer.port().catch_up(&catch_up(&customer, Some("stopped_refused"))).await?, S::CutFailed)?;
    match chain.begin(EffectName::LegA).await {
        Ok(Begun::Pending(pending)) => {
            refused("leg A for a failed request", &[K::Conflict], pending.finish(Verdict::Commit).await)?;
        }
        other => refused("leg A for a failed request", &[K::Conflict], other.map(|_| ()))?,
    }
    agree(&customer).await?;
    let rows = customer.port().timeline(customer.id()).await?;
    let why = rows.last().and_then(|row| row.detail.get("reason")).cloned();
    equal("why", Some(json!("stopped_refused")), why)
}

pub(super) async fn what_a_run_did_before_is_caught_up(under: &RequestsUnderTest) -> Held {
    let customer = Customer::new(under, 1);
    customer.to_verified().await?;
    let chain = chain(&customer).await?;
    for effect in [EffectName::LegA, EffectName::LegB, EffectName::WriteVerify] {
        chain.commit(effect).await?;
    }
    customer.stands_at(S::MarkVerified).await?;
    customer.port().start_cut(&customer.start()).await?;
    is_new(&customer.port().catch_up(&catch_up(&customer, None)).await?, S::CutVerified)?;
    agree(&customer).await?;
    let path = customer.path().await?;
    holds("one edge at a time", path.ends_with("cut_in_progress cut_done cut_verified"), path)
}

pub(super) async fn a_run_of_another_manifest_cuts_for_no_request(under: &RequestsUnderTest) -> Held {
    // The run has marked before: it is refused when it is to begin.
    let customer = Customer::new(under, 1);
    customer.to_verified_by("another").await?;
    let marked = chain(&customer).await?;
    refused("start", &[K::Conflict], customer.port().start_cut(&customer.start()).await)?;
    customer.stands_at(S::MarkVerified).await?;
    marked.commit(EffectName::LegA).await?;
    refused("after its cut", &[K::Conflict], customer.port().start_cut(&customer.start()).await)?;
    // It marks afterwards: it cannot.
    let mut customer = Customer::new(under, 2);
    customer.case.document_id = "CONF-OTHER".into();
    customer.to_verified_by("another").await?;
    customer.port().start_cut(&customer.start()).await?;
    let chain = Chain::start(&customer.under.database, customer.case.clone()).await?;
    match chain.begin(EffectName::Mark).await {
        Ok(Begun::Pending(pending)) => {
            refused("mark of another manifest", &[K::Conflict], pending.finish(Verdict::Commit).await)?;
        }
        other => refused("mark of another manifest", &[K::Conflict], other.map(|_| ()))?,
    }
    let evidence = under.database.reader.evidence(&customer.case.run_id()).await?;
    holds("nothing is stored", evidence.effects.is_empty() && evidence.entry_status.is_none(), &evidence)?;
    customer.stands_at(S::CutInProgress).await
}

pub(super) async fn a_run_that_ended_stores_nothing_more_but_its_void(under: &RequestsUnderTest) -> Held {
    let customer = Customer::new(under, 1);
    customer.to_cutting().await?;
    let chain = chain(&customer).await?;
    chain.commit(EffectName::LegA).await?;
    is_new(
        &customer.port().catch_up(&catch_up(&customer, Some("failed_IG_structural"))).await?,
        S::CutFailed,
    )?;
    match chain.begin(EffectName::LegB).await {
        Ok(Begun::Pending(pending)) => {
            refused("leg B after the end", &[K::Conflict], pending.finish(Verdict::Commit).await)?;
        }
        other => refused("leg B after the end", &[K::Conflict], other.map(|_| ()))?,
    }
    for effect in [EffectName::Sg3Review, EffectName::Void] {
        chain.commit(effect).await?;
    }
    customer.stands_at(S::CutFailed).await
}

pub(super) async fn nothing_is_complete_before_it_is_enacted(under: &RequestsUnderTest) -> Held {
    let customer = Customer::new(under, 1);
    customer.to_cutting().await?;
    let chain = chain(&customer).await?;
    for effect in [EffectName::LegA, EffectName::LegB, EffectName::WriteVerify] {
        refused("early", &[K::Conflict], customer.port().complete(&customer.on(70)).await)?;
        chain.commit(effect).await?;
    }
    for effect in [EffectName::Sg2Request, EffectName::Sg2Review, EffectName::Enact] {
        refused("not enacted", &[K::Conflict], customer.port().complete(&customer.on(70)).await)?;
        chain.commit(effect).await?;
    }
    let key = EffectKey { run_id: customer.case.run_id(), effect: EffectName::Enact, occurrence: 1 };
    holds("enacted", under.database.reader.effect(&key).await?.is_some(), &key)?;
    let completed = customer.port().complete(&customer.on(80)).await?;
    is_new(&completed, S::CleanupScheduled)?;
    equal("when", Some(at(80)), completed.request.completed_at)?;
    let days = 86_400 * i64::from(CLEANUP_AFTER_DAYS);
    equal("due", Some(at(80 + days)), completed.request.cleanup_scheduled_at)?;
    is_old(&customer.port().complete(&customer.on(90)).await?, S::CleanupScheduled)?;
    agree(&customer).await
}

/// A request that is handed over, of a run that is enacted.
async fn handed_over(customer: &Customer<'_>) -> Held {
    customer.to_cutting().await?;
    let chain = chain(customer).await?;
    for effect in [
        EffectName::LegA,
        EffectName::LegB,
        EffectName::WriteVerify,
        EffectName::Sg2Request,
        EffectName::Sg2Review,
        EffectName::Enact,
    ] {
        chain.commit(effect).await?;
    }
    customer.port().complete(&customer.on(80)).await?;
    Ok(())
}

pub(super) async fn staged_bytes_go_when_they_are_due_and_nothing_else_does(
    under: &RequestsUnderTest,
) -> Held {
    let customer = Customer::new(under, 1);
    handed_over(&customer).await?;
    let rejected = Customer::new(under, 2);
    rejected.to_marked().await?;
    rejected.port().verify_mark(&rejected.verdict(false)).await?;
    let decade = at(10 * 366 * 86_400);
    // However late the caller says that it is: only the store's clock counts.
    let now = Cleanup { asked: Asked { at: decade, ..asked(0) }, as_of: None, limit: 10 };
    let then = Cleanup { as_of: Some(decade), ..now.clone() };
    let early = customer.port().cleanup(&now).await?;
    equal("nothing is due", (0, 0), (early.requests.len(), early.records))?;
    let (mine, bytes) = (customer.copy().content.len(), customer.mark("1").manifest.len());
    let all = (mine + bytes + rejected.mark("1").manifest.len()) as u64;
    let told = customer.port().cleanup(&then).await?;
    equal("what would go", ([customer.id()].to_vec(), 3, all), (told.requests, told.records, told.bytes))?;
    customer.stands_at(S::CleanupScheduled).await?;
    let held = ["source_copy consumed", "mark_manifest consumed"].map(ToString::to_string).to_vec();
    equal("asking removes nothing", held, customer.lifecycles().await?)?;
    (under.a_year_passes)();
    let before = customer.stands().await?;
    let done = customer.port().cleanup(&now).await?;
    equal("what goes", ([customer.id()].to_vec(), 3, all), (done.requests, done.records, done.bytes))?;
    let again = customer.port().cleanup(&now).await?;
    equal("once", (0, 0, 0), (again.requests.len(), again.records, again.bytes))?;
    let after = customer.stands().await?;
    equal("status", S::Cleaned, after.status)?;
    holds("by the store's clock", after.cleaned_at.is_some_and(|at| at < decade), after.cleaned_at)?;
    let expected = CutRequest { status: S::Cleaned, cleaned_at: after.cleaned_at, ..before };
    equal("all else stays", expected, after)?;
    let records = ["source_copy cleaned", "mark_manifest cleaned"].map(ToString::to_string).to_vec();
    equal("records stay", records, customer.lifecycles().await?)?;
    equal(
        "path",
        "requested copied mark_in_progress marked mark_verified cut_in_progress cut_done cut_verified completed \
         cleanup_scheduled cleaned",
        &*customer.path().await?,
    )?;
    agree(&customer).await?;
    equal("the other's copy stays", 1, {
        let staged = rejected.port().staging(rejected.id()).await?;
        staged.iter().filter(|record| record.cleaned_at.is_none()).count()
    })
}

pub(super) async fn every_operation_again_changes_nothing(under: &RequestsUnderTest) -> Held {
    let customer = Customer::new(under, 1);
    handed_over(&customer).await?;
    let port = customer.port();
    let (add, copy, mark) = (customer.add(), customer.copy(), customer.mark("1"));
    let (verdict, start, on) = (customer.verdict(true), customer.start(), customer.on(500));
    let caught = catch_up(&customer, None);
    let before = (customer.stands().await?, port.timeline(customer.id()).await?);
    let all: Vec<BoxedOutcome<'_>> = [
        port.add(&add),
        port.copy(&copy),
        port.mark(&mark),
        port.verify_mark(&verdict),
        port.start_cut(&start),
        port.catch_up(&caught),
        port.complete(&on),
    ]
    .into();
    for again in all {
        is_old(&again.await?, S::CleanupScheduled)?;
    }
    equal("verdict", Some(CutVerdict::Verified), port.verify_cut(&on).await?.verdict)?;
    equal("signal", None, port.apply(&on, false).await?.signal)?;
    equal("row and timeline", before, (customer.stands().await?, port.timeline(customer.id()).await?))
}
