//! What the port moves.

use super::*;

pub(super) async fn a_pass_promotes_once_and_is_known_by_its_id(under: &BacklogUnderTest) -> Held {
    let keeper = Keeper(under);
    let entry = keeper.through(case(1, "SWEPT-A"), EffectName::Mark).await?.case.id("entry");
    let other = keeper.through(case(2, "SWEPT-B"), EffectName::Mark).await?.case.id("entry");
    let first = pass("first", "SWEPT-A", None, 10);
    equal("promoted", [entry].to_vec(), keeper.port().sweep(&first).await?)?;
    keeper.stands_at(other, S::Marked).await?;
    keeper
        .unchanged("nothing more", async {
            equal("a known pass", [entry].to_vec(), keeper.port().sweep(&first).await?)?;
            let next = keeper.port().sweep(&pass("second", "SWEPT-A", None, 10)).await?;
            equal("nothing is left", Vec::<Uuid>::new(), next)?;
            let elsewhere = SweepBatch { document_id: "SWEPT-B".into(), ..first.clone() };
            refused("the pass over another document", &[K::Conflict], keeper.port().sweep(&elsewhere).await)
        })
        .await?;
    let standing = keeper.standing(entry).await?.entry;
    let step = standing.history.last().map(|step| (step.to_state, &*step.actor, step.at));
    equal("history", Some((S::ReviewPending, "keeper", at(10))), step)?;
    equal("promotions", 1, standing.promotions)?;
    // What is deferred is promoted anew, and that is another promotion.
    keeper.port().review(&decision("1", entry, ReviewVerdict::Defer, 20)).await?;
    equal("a known pass", [entry].to_vec(), keeper.port().sweep(&first).await?)?;
    keeper.stands_at(entry, S::ReviewedDeferred).await?;
    equal("again", [entry].to_vec(), keeper.port().sweep(&pass("third", "SWEPT-A", None, 10)).await?)?;
    equal("promotions", 2, keeper.standing(entry).await?.entry.promotions)?;
    equal("path", "S0 S1 S3 S1", &*keeper.path(entry).await?)?;
    keeper.audited().await.map(drop)
}

pub(super) async fn batches_of_a_sweep_go_on_where_they_were_interrupted(under: &BacklogUnderTest) -> Held {
    let keeper = Keeper(under);
    let mut ids = Vec::new();
    for n in 1..=5 {
        ids.push(keeper.through(case(n, "BATCHED"), EffectName::Mark).await?.case.id("entry"));
    }
    ids.sort_unstable();
    let mut promoted = keeper.port().sweep(&pass("1", "BATCHED", None, 2)).await?;
    equal("the first two by id", ids.get(..2), Some(&*promoted))?;
    let next = keeper.port().sweep(&pass("2", "BATCHED", promoted.last().copied(), 1)).await?;
    equal("the one after", ids.get(2..3), Some(&*next))?;
    promoted.extend(next);
    // Interrupted here: whoever begins at the beginning misses nothing and promotes nothing twice.
    promoted.extend(keeper.port().sweep(&pass("3", "BATCHED", None, 10)).await?);
    equal("all, once", &ids, &promoted)?;
    for entry in keeper.audited().await? {
        equal("promotions", (S::ReviewPending, 1), (entry.status, entry.promotions))?;
    }
    equal("nothing to promote", None, keeper.port().promotable(None).await?)
}

pub(super) async fn a_decision_again_is_the_one_that_stands(under: &BacklogUnderTest) -> Held {
    let keeper = Keeper(under);
    let entry = keeper.through(case(1, "DECIDED"), EffectName::Sweep).await?.case.id("entry");
    let other = keeper.through(case(2, "DECIDED"), EffectName::Sweep).await?.case.id("entry");
    let defer = decision("1", entry, ReviewVerdict::Defer, 20);
    equal("the new one", defer.decision_id, keeper.port().review(&defer).await?)?;
    let known = keeper.standing(entry).await?.entry;
    let stored = known.current_decision().map(|d| (d.id, d.verdict, d.has_consent));
    equal("decision", Some((defer.decision_id, ReviewVerdict::Defer, false)), stored)?;
    let step = known.history.last().map(|step| (&*step.actor, &*step.reason, step.at));
    equal("history", Some(("reviewer", &*defer.reason, at(20))), step)?;
    keeper
        .unchanged("a decision again writes nothing", async {
            equal("the same", defer.decision_id, keeper.port().review(&defer).await?)?;
            let again = decision("2", entry, ReviewVerdict::Defer, 30);
            equal("the one that stands", defer.decision_id, keeper.port().review(&again).await?)?;
            let otherwise = ReviewRequest { verdict: ReviewVerdict::Reject, ..defer.clone() };
            by_rule(
                "another verdict under the id",
                "review.decision_new",
                keeper.port().review(&otherwise).await,
            )?;
            let elsewhere = ReviewRequest { entry_id: other, ..defer.clone() };
            by_rule(
                "another entry under the id",
                "review.decision_new",
                keeper.port().review(&elsewhere).await,
            )
        })
        .await?;
    // Promoted and deferred once more: asked anew, decided anew.
    keeper.port().sweep(&pass("1", "DECIDED", None, 10)).await?;
    let anew = decision("3", entry, ReviewVerdict::Defer, 40);
    equal("a new decision", anew.decision_id, keeper.port().review(&anew).await?)?;
    keeper.port().sweep(&pass("2", "DECIDED", None, 10)).await?;
    let reject = decision("4", entry, ReviewVerdict::Reject, 50);
    equal("a rejection", reject.decision_id, keeper.port().review(&reject).await?)?;
    let defer = decision("5", entry, ReviewVerdict::Defer, 60);
    by_rule(
        "a deferral of what was rejected (F-1)",
        "reviewed_rejected",
        keeper.port().review(&defer).await,
    )?;
    equal("path", "S0 S1 S3 S1 S3 S1 S4", &*keeper.path(entry).await?)?;
    equal("decisions", 3, keeper.standing(entry).await?.entry.decisions.len())?;
    keeper.audited().await.map(drop)
}

pub(super) async fn a_decision_is_on_the_marked_manifest_and_an_approval_is_signed(
    under: &BacklogUnderTest,
) -> Held {
    let keeper = Keeper(under);
    let entry = keeper.through(Case::new(1), EffectName::Sweep).await?.case.id("entry");
    keeper
        .unchanged("refusals write nothing", async {
            let mut other = decision("1", entry, ReviewVerdict::Defer, 20);
            other.manifest_digest = Digest::of(b"another manifest");
            by_rule("another manifest", "review.manifest", keeper.port().review(&other).await)?;
            let approve = decision("2", entry, ReviewVerdict::Approve, 20);
            by_rule("an unsigned approval", "review.consent", keeper.port().review(&approve).await)?;
            by_rule("no escalation", "requeue.escalation", keeper.port().requeue(&requeue("1", entry)).await)
        })
        .await?;
    let marked = keeper.through(case(2, "UNSWEPT"), EffectName::Mark).await?.case.id("entry");
    let skipped = decision("3", marked, ReviewVerdict::Defer, 20);
    by_rule("a deferral at S0 (F-8)", "marked->reviewed_deferred", keeper.port().review(&skipped).await)?;
    // An approval that stands is the answer to who asks for it.
    let signed = keeper.through(case(3, "SIGNED"), EffectName::LegA).await?.case;
    let approve = decision("4", signed.id("entry"), ReviewVerdict::Approve, 20);
    equal(
        "the signed one",
        signed.id("decision cut_authorization 1"),
        keeper.port().review(&approve).await?,
    )?;
    keeper.audited().await.map(drop)
}

pub(super) async fn a_deferred_approval_cuts_nothing(under: &BacklogUnderTest) -> Held {
    let keeper = Keeper(under);
    let chain = keeper.through(Case::new(1), EffectName::Sg1Review).await?;
    let entry = chain.case.id("entry");
    keeper.port().review(&decision("1", entry, ReviewVerdict::Defer, 20)).await?;
    refused("a cut at S3 (F-3)", &[K::Conflict], chain.begin(EffectName::LegA).await)?;
    keeper.port().sweep(&pass("1", "CONF-DOC", None, 10)).await?;
    refused("a cut at S1 (F-3)", &[K::Conflict], chain.begin(EffectName::LegA).await)?;
    equal("path", "S0 S1 S2 S3 S1", &*keeper.path(entry).await?)?;
    equal("change sets", 0, keeper.standing(entry).await?.entry.change_sets.len())?;
    keeper.audited().await.map(drop)
}

pub(super) async fn an_abandonment_says_why_and_is_final(under: &BacklogUnderTest) -> Held {
    let keeper = Keeper(under);
    let chain = keeper.through(Case::new(1), EffectName::Sg1Review).await?;
    let entry = chain.case.id("entry");
    let blank = keeper.port().abandon(&abandonment("1", entry, " \n")).await;
    by_rule("no reason", "abandon.reason", blank)?;
    equal("moved", true, keeper.port().abandon(&abandonment("1", entry, "superseded")).await?)?;
    keeper
        .unchanged("what is given up stays so", async {
            for (name, why) in [("1", "superseded"), ("2", "for another reason"), ("3", "")] {
                let again = keeper.port().abandon(&abandonment(name, entry, why)).await?;
                equal("moved", false, again)?;
            }
            let swept = keeper.port().sweep(&pass("1", "CONF-DOC", None, 10)).await?;
            equal("promoted", Vec::<Uuid>::new(), swept)?;
            for verdict in [ReviewVerdict::Defer, ReviewVerdict::Reject] {
                let late = decision("late", entry, verdict, 950);
                by_rule("a decision", "abandoned->", keeper.port().review(&late).await)?;
            }
            refused("a cut", &[K::Conflict], chain.begin(EffectName::LegA).await)
        })
        .await?;
    let last = keeper.port().history(entry).await?.pop().map(|step| (step.to_state, step.reason));
    equal("history", Some((S::Abandoned, "superseded".to_string())), last)?;
    // The key of what was given up is free.
    let again = keeper.through(Case::new(2), EffectName::Mark).await?.case.id("entry");
    keeper.stands_at(again, S::Marked).await?;
    keeper.audited().await.map(drop)
}

pub(super) async fn an_escalation_goes_on_by_its_requeue_alone(under: &BacklogUnderTest) -> Held {
    let keeper = Keeper(under);
    let case = keeper.failed(Case::new(1)).await?.case;
    let (entry, escalation) = (case.id("entry"), case.id("escalation"));
    let Standing { row, entry: shown } = keeper.standing(escalation).await?;
    equal(
        "escalation",
        (S::Marked, Some(entry), manifest()),
        (row.status, row.escalates, row.manifest_digest),
    )?;
    equal("document", "CONF-DOC", &*row.document_id)?;
    equal("no cut of its own", 0, shown.change_sets.len() + shown.signatures.len())?;
    let failed = keeper.standing(entry).await?.entry;
    let verdict = failed.change_set(case.id("change set")).and_then(|set| set.verdict);
    let said = verdict.map(|v| (v.has_passed, v.compensating_id, v.escalation_entry_id));
    equal("verdict", Some((false, Some(case.id("compensating set")), Some(escalation))), said)?;

    let swept = keeper.port().sweep(&pass("1", "CONF-DOC", None, 10)).await?;
    equal("no sweep promotes it", Vec::<Uuid>::new(), swept)?;
    by_rule(
        "the failed entry is frozen",
        "verify_failed_escalated->review_pending",
        keeper.port().requeue(&requeue("1", entry)).await,
    )?;
    equal("moved", true, keeper.port().requeue(&requeue("1", escalation)).await?)?;
    keeper
        .unchanged("a requeue again writes nothing", async {
            for name in ["1", "2"] {
                equal("moved", false, keeper.port().requeue(&requeue(name, escalation)).await?)?;
            }
            Ok(())
        })
        .await?;
    equal("promotions", 1, keeper.standing(escalation).await?.entry.promotions)?;
    // Once deferred, a sweep promotes it like any other.
    keeper.port().review(&decision("1", escalation, ReviewVerdict::Defer, 30)).await?;
    let swept = keeper.port().sweep(&pass("2", "CONF-DOC", None, 10)).await?;
    equal("promoted", [escalation].to_vec(), swept)?;
    keeper.port().review(&decision("2", escalation, ReviewVerdict::Reject, 40)).await?;
    equal("path", "S0 S1 S3 S1 S4", &*keeper.path(escalation).await?)?;
    equal("path of the failed", "S0 S1 S2 S5 S6 S7 S9", &*keeper.path(entry).await?)?;
    equal("entries", 2, keeper.audited().await?.len())
}

pub(super) async fn an_escalation_inherits_what_its_manifest_depends_on(under: &BacklogUnderTest) -> Held {
    let keeper = Keeper(under);
    let base = keeper.through(case(1, "BASE"), EffectName::WriteVerify).await?.case.id("entry");
    let chain = Chain::start(&under.database, case(2, "LATER")).await?;
    let mut mark = chain.case.mark(&chain.source);
    mark.depends_on = [base].to_vec();
    let cx = chain.context(EffectName::Mark, 1, "depends on the base");
    match chain.begin_as(&cx, &Request::Execute(ExecutorEffect::Mark(mark))).await? {
        Begun::Pending(open) => drop(open.finish(Verdict::Commit).await?),
        Begun::Recorded(_) => return Err(Broken::new("a new effect", "a record")),
    }
    for effect in [EffectName::Sweep, EffectName::Sg1Review, EffectName::LegA, EffectName::LegB] {
        chain.commit(effect).await?;
    }
    chain.finish(EffectName::WriteVerify, Verdict::CommitFailure).await?;
    for name in ["entry", "escalation"] {
        let shown = keeper.standing(chain.case.id(name)).await?.entry;
        let depends_on: Vec<_> = shown.depends_on.iter().map(|d| (d.entry_id, d.status)).collect();
        equal(name, [(base, Some(S::VerifiedComplete))].to_vec(), depends_on)?;
    }
    equal("entries", 3, keeper.audited().await?.len())
}
