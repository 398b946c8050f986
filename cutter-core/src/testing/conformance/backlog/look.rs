//! What observers see.

use super::*;

pub(super) async fn an_entry_is_shown_as_its_run_left_it(under: &BacklogUnderTest) -> Held {
    let keeper = Keeper(under);
    let chain = keeper.through(Case::new(1), EffectName::WriteVerify).await?;
    let (case, entry_id) = (&chain.case, chain.case.id("entry"));
    let Standing { row, entry } = keeper.standing(entry_id).await?;
    let shown = (row.status, &*row.document_id, &*row.run_id, row.candidate_count);
    let run_id = case.run_id().to_string();
    equal("row", (S::VerifiedComplete, &*case.document_id, &*run_id, case.units().len() as u64), shown)?;
    equal("manifest and escalation", (manifest(), None), (row.manifest_digest, row.escalates))?;
    equal("who marked it", "operator", &*row.actor)?;
    equal("when", entry.history.first().map(|step| step.at), Some(row.at))?;
    equal("in the list", [row].to_vec(), keeper.port().list(&every()).await?)?;
    let path = keeper.path(entry_id).await?;
    equal("path", "S0 S1 S2 S5 S6 S7 S8", &*path)?;
    equal("history", &entry.history, &keeper.port().history(entry_id).await?)?;
    equal("promotions", 1, entry.promotions)?;
    let decided = entry.current_decision().map(|d| (d.id, d.verdict, d.has_consent));
    let approval = case.id("decision cut_authorization 1");
    equal("decision", Some((approval, ReviewVerdict::Approve, true)), decided)?;
    let set = entry.change_set(case.id("change set"));
    let cut = set.map(|s| (s.review_decision_id, s.is_live, s.envelope_id, s.verdict.map(|v| v.has_passed)));
    equal("cut", Some((approval, true, Some(case.id("envelope")), Some(true))), cut)?;
    equal("signatures", 2, entry.signatures.len())?;
    keeper.audited().await.map(drop)
}

pub(super) async fn pages_follow_each_other_by_key(under: &BacklogUnderTest) -> Held {
    let keeper = Keeper(under);
    let mut ids = Vec::new();
    for n in 1..=5 {
        let last = if n % 2 == 0 { EffectName::Mark } else { EffectName::Sweep };
        let document = if n < 4 { "PAGES-A" } else { "PAGES-B" };
        ids.push(keeper.through(case(n, document), last).await?.case.id("entry"));
    }
    ids.sort_unstable();
    for limit in 1..=6 {
        let (mut query, mut seen) = (BacklogQuery { limit, ..BacklogQuery::default() }, Vec::new());
        loop {
            let rows = keeper.port().list(&query).await?;
            let entries = keeper.port().entries(&query).await?;
            let page: Vec<Uuid> = rows.iter().map(|row| row.entry_id).collect();
            equal("the records of the same", &page, &entries.iter().map(|e| e.entry_id).collect())?;
            holds("no page is longer than asked for", page.len() <= limit as usize, &page)?;
            query.after = page.last().copied();
            seen.extend(page);
            if query.after.is_none() {
                break;
            }
        }
        equal("all, once, in order", &ids, &seen)?;
    }
    let of = |status: Option<S>, document: Option<&str>| BacklogQuery {
        status,
        document_id: document.map(ToString::to_string),
        ..every()
    };
    let (marked, a, b) = (Some(S::Marked), Some("PAGES-A"), Some("PAGES-B"));
    for (query, expected) in [
        (of(marked, None), 2),
        (of(None, a), 3),
        (of(None, b), 2),
        (of(marked, a), 1),
        (of(Some(S::ReviewPending), a), 2),
        (of(Some(S::Abandoned), None), 0),
        (of(None, Some("PAGES")), 0),
    ] {
        let rows = keeper.port().list(&query).await?;
        let fits = rows.iter().all(|row| {
            query.status.is_none_or(|status| status == row.status)
                && query.document_id.as_ref().is_none_or(|document| *document == row.document_id)
        });
        holds("rows of what was asked for, in order", fits && rows.is_sorted_by_key(|r| r.entry_id), &rows)?;
        equal(&format!("rows of {query:?}"), expected, rows.len())?;
    }
    Ok(())
}

pub(super) async fn limits_are_held(under: &BacklogUnderTest) -> Held {
    let keeper = Keeper(under);
    keeper.through(Case::new(1), EffectName::Mark).await?;
    for limit in [0, crate::port::backlog::MAX_PAGE + 1] {
        let query = BacklogQuery { limit, ..BacklogQuery::default() };
        refused("a list", &[K::Invalid], keeper.port().list(&query).await)?;
        refused("entries", &[K::Invalid], keeper.port().entries(&query).await)?;
        let batch = pass("odd", "CONF-DOC", None, limit);
        refused("a sweep", &[K::Invalid], keeper.port().sweep(&batch).await)?;
    }
    keeper.stands_at(Case::new(1).id("entry"), S::Marked).await
}

pub(super) async fn what_is_not_there_is_said(under: &BacklogUnderTest) -> Held {
    let keeper = Keeper(under);
    let (port, nobody) = (keeper.port(), id("nobody"));
    equal("nothing listed", 0, port.list(&every()).await?.len())?;
    equal("nothing shown", None, port.show(nobody).await?)?;
    equal("nothing to promote", None, port.promotable(None).await?)?;
    let missing = &[K::NotFound];
    refused("history", missing, port.history(nobody).await)?;
    refused("a sweep", missing, port.sweep(&pass("none", "NO-SUCH-DOC", None, 10)).await)?;
    let defer = decision("none", nobody, ReviewVerdict::Defer, 1);
    refused("a review", missing, port.review(&defer).await)?;
    refused("a requeue", missing, port.requeue(&requeue("none", nobody)).await)?;
    refused("an abandonment", missing, port.abandon(&abandonment("none", nobody, "gone")).await)
}

pub(super) async fn documents_with_something_to_promote_follow_each_other(under: &BacklogUnderTest) -> Held {
    let keeper = Keeper(under);
    for (n, document, last) in
        [(1, "PROMA", EffectName::Mark), (2, "PROM-B", EffectName::Mark), (3, "PROM-C", EffectName::Sweep)]
    {
        keeper.through(case(n, document), last).await?;
    }
    // An escalation at S0 is nothing to sweep.
    keeper.failed(case(4, "PROM-D")).await?;
    let defer = decision("3", case(3, "PROM-C").id("entry"), ReviewVerdict::Defer, 1);
    let walk = async || -> Result<Vec<String>, Broken> {
        let mut found: Vec<String> = Vec::new();
        while let Some(next) = keeper.port().promotable(found.last().map(String::as_str)).await? {
            found.push(next);
        }
        Ok(found)
    };
    equal("marked, in byte order", ["PROM-B", "PROMA"].map(String::from).to_vec(), walk().await?)?;
    keeper.port().review(&defer).await?;
    let all = ["PROM-B", "PROM-C", "PROMA"].map(String::from).to_vec();
    equal("and deferred", all, walk().await?)
}
