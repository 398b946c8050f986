//! Completions, cancellations, lists, numbers, retention, waits.

use super::*;

pub(super) async fn a_completion_is_recorded_once(test: &QueueUnderTest) -> Held {
    let batch: Vec<NewItem> = (0..5).map(|i| new(&format!("k{i}"))).collect();
    test.queue().enqueue(&batch).await?;
    let claimed = test.queue().claim(id(1), 5, LEASE).await?;
    let tokens = claimed.iter().map(token).collect::<Result<Vec<_>, _>>()?;
    let mixed = [tokens[3], Token { epoch: 7, ..tokens[1] }, tokens[0]];
    let answers = test.queue().complete(&mixed).await?;
    equal("the first", Answer::Applied(S::Completed), answers[0].clone())?;
    says("the second", "lease.token", &answers[1])?;
    equal("the third", Answer::Applied(S::Completed), answers[2].clone())?;
    let all = test.queue().complete(&tokens).await?;
    let again = |i: usize| if i == 0 || i == 3 { Answer::Already } else { Answer::Applied(S::Completed) };
    equal("each once", (0..5).map(again).collect(), all)?;
    let ended = test.stands(tokens[0].item).await?;
    holds("with its time", ended.finished_at >= ended.claimed_at && ended.reason.is_none(), &ended)?;
    equal("and its holder", (Some(id(1)), 1, 0), (ended.holder, ended.attempts, ended.failures))
}

pub(super) async fn an_item_that_is_not_there_is_refused(test: &QueueUnderTest) -> Held {
    let queue = test.queue();
    let nobody = Token { item: ItemId(999_999), epoch: 1, holder: id(1) };
    for answer in [
        test.complete(&nobody).await?,
        one(queue.heartbeat(&[nobody], LEASE).await?)?,
        one(queue.hand_back(&[nobody]).await?)?,
        queue.fail(&nobody, &Failure::transient("x", "")).await?,
        queue.await_user(&nobody, "SG1").await?,
        queue.ready(nobody.item, "SG1").await?,
        queue.cancel(nobody.item, "why", "me").await?,
    ] {
        says("an unknown item", "item.known: expected item 999999, observed absent", &answer)?;
    }
    equal("none", None, queue.item(nobody.item).await?)?;
    equal("no attempts", 0, queue.attempts(nobody.item).await?.len())
}

pub(super) async fn a_cancellation_reaches_every_open_state_and_no_other(test: &QueueUnderTest) -> Held {
    let queue = test.queue();
    for state in [S::Queued, S::Executing, S::AwaitingTool, S::AwaitingUserConfirmation] {
        for is_ready in [true, false] {
            let item = test.add(&format!("{state} {is_ready}")).await?;
            if state != S::Queued {
                let token = test.claimed(id(1)).await?;
                match (state, is_ready) {
                    (S::AwaitingTool, true) => drop(queue.hand_back(&[token]).await?),
                    (S::AwaitingTool, false) => drop(queue.fail(&token, &Failure::transient("x", "")).await?),
                    (S::AwaitingUserConfirmation, _) => {
                        queue.await_user(&token, "SG1").await?;
                        if is_ready {
                            queue.ready(item, "SG1").await?;
                        }
                    }
                    _ => {}
                }
            }
            equal("the state", state, test.stands(item).await?.state)?;
            says("a reason", "cancel.reason", &queue.cancel(item, " ", "me").await?)?;
            let cancelled = queue.cancel(item, "no need", "me").await?;
            equal("cancelled", Answer::Applied(S::Cancelled), cancelled)?;
            equal("asked again", Answer::Already, queue.cancel(item, "another", "you").await?)?;
            let stands = test.stands(item).await?;
            let reason = stands.reason.clone().map(|r| (r.code, r.detail, r.actor));
            let expected = (CANCELLED.to_string(), "no need".to_string(), Some("me".to_string()));
            equal("the first reason", Some(expected), reason)?;
            if let Some(holder) = stands.holder {
                let token = Token { item, epoch: stands.epoch, holder };
                let late = test.complete(&token).await?;
                says(
                    "its worker",
                    "illegal work_item transition cancelled->completed (legal=cancelled)",
                    &late,
                )?;
                says("its heartbeat", "lease.token", &one(queue.heartbeat(&[token], LEASE).await?)?)?;
            }
            test.pass(100_000);
            equal("never claimed", 0, queue.claim(id(2), 9, LEASE).await?.len())?;
            equal("never taken", 0, queue.take_over(id(2), 9, LEASE).await?.items.len())?;
        }
    }
    Ok(())
}

pub(super) async fn a_cancellation_races_a_completion_to_one_outcome(test: &QueueUnderTest) -> Held {
    for round in 0..50 {
        let item = test.add(&format!("k{round}")).await?;
        let token = test.claimed(id(1)).await?;
        let workers = &test.workers;
        let answers = at_once(2, |i| {
            if i == 0 {
                block_on(workers[0].cancel(item, "race", "me"))
            } else {
                block_on(workers[1].complete(&[token])).map(|mut answers| answers.remove(0))
            }
        })?
        .into_iter()
        .collect::<PortResult<Vec<_>>>()?;
        let state = test.stands(item).await?.state;
        let (won, lost, text) = match state {
            S::Cancelled => (0, 1, "illegal work_item transition cancelled->completed"),
            _ => (1, 0, "illegal work_item transition completed->cancelled"),
        };
        equal("the winner", Answer::Applied(state), answers[won].clone())?;
        says("the other", text, &answers[lost])?;
    }
    Ok(())
}

pub(super) async fn what_ended_never_changes(test: &QueueUnderTest) -> Held {
    let queue = test.queue();
    for end in [S::Completed, S::Failed, S::Cancelled] {
        let item = test.add(end.as_str()).await?;
        let token = test.claimed(id(1)).await?;
        match end {
            S::Completed => drop(test.complete(&token).await?),
            S::Failed => drop(queue.fail(&token, &Failure::permanent("x", "")).await?),
            _ => drop(queue.cancel(item, "why", "me").await?),
        }
        let stands = test.stands(item).await?;
        equal("ended", end, stands.state)?;
        let illegal = |to: S| format!("illegal work_item transition {end}->{to} (legal={end})");
        let mut answers = Vec::from([
            (S::AwaitingTool, one(queue.hand_back(&[token]).await?)?),
            (S::AwaitingUserConfirmation, queue.await_user(&token, "SG1").await?),
        ]);
        if end != S::Failed {
            answers.push((S::Failed, queue.fail(&token, &Failure::transient("x", "")).await?));
        }
        if end != S::Completed {
            answers.push((S::Completed, test.complete(&token).await?));
        }
        if end != S::Cancelled {
            answers.push((S::Cancelled, queue.cancel(item, "why", "me").await?));
        }
        for (to, answer) in &answers {
            says("a move from the end", &illegal(*to), answer)?;
        }
        equal("it stands", &stands, &test.stands(item).await?)?;
    }
    Ok(())
}

pub(super) async fn items_are_listed_by_number(test: &QueueUnderTest) -> Held {
    for i in 0..6 {
        test.put(new(&format!("k{i}")).priority(-i)).await?;
    }
    let token = test.claimed(id(1)).await?;
    test.complete(&token).await?;
    let other = NewItem::new("other", "other", "").map_err(invalid)?;
    test.put(other).await?;
    let any = ItemQuery { state: None, kind: None, after: None, limit: 99 };
    let keys = |list: Vec<WorkItem>| list.iter().map(|item| item.key.clone()).collect::<Vec<_>>().join(" ");
    let list = async |query: &ItemQuery| test.queue().list(query).await.map(keys);
    equal("all", "k0 k1 k2 k3 k4 k5 other", &*list(&any).await?)?;
    equal("two", "k0 k1", &*list(&ItemQuery { limit: 2, ..any.clone() }).await?)?;
    let second = test.queue().item_by_key("k1").await?.map(|item| item.item);
    equal("the rest", "k2 k3 k4 k5 other", &*list(&ItemQuery { after: second, ..any.clone() }).await?)?;
    let done = ItemQuery { state: Some(S::Completed), ..any.clone() };
    equal("by state", "k5", &*list(&done).await?)?;
    let kind = ItemQuery { kind: Some("other".to_string()), ..any };
    equal("by kind", "other", &*list(&kind).await?)
}

pub(super) async fn statistics_count_every_state(test: &QueueUnderTest) -> Held {
    let queue = test.queue();
    let batch: Result<Vec<NewItem>, _> = (0..9).map(|i| new(&format!("k{i}")).policy(budget(5, 5))).collect();
    queue.enqueue(&batch.map_err(invalid)?).await?;
    let held = queue.claim(id(1), 7, LEASE).await?;
    let tokens = held.iter().map(token).collect::<Result<Vec<_>, _>>()?;
    queue.complete(&tokens[..2]).await?;
    queue.fail(&tokens[2], &Failure::permanent("x", "")).await?;
    queue.fail(&tokens[3], &Failure::transient("x", "")).await?;
    queue.await_user(&tokens[4], "SG1").await?;
    queue.cancel(tokens[5].item, "why", "me").await?;
    test.pass(1);
    let before = queue.statistics().await?;
    let counts: Vec<(S, u64)> = Vec::from([
        (S::Queued, 2),
        (S::Executing, 1),
        (S::AwaitingTool, 1),
        (S::AwaitingUserConfirmation, 1),
        (S::Completed, 2),
        (S::Failed, 1),
        (S::Cancelled, 1),
    ]);
    equal("by state", counts, before.by_state.clone())?;
    equal("ready, expired", (2, 0), (before.ready, before.expired_leases))?;
    let enqueued = test.stands(ItemId(tokens[6].item.0 + 1)).await?.enqueued_at;
    equal("the oldest ready", Some(enqueued), before.oldest_ready)?;
    equal("the oldest lease", held[6].claimed_at, before.oldest_lease)?;
    holds("time passes", before.now > enqueued, before.now)?;
    test.pass(600);
    let after = queue.statistics().await?;
    equal("ready, expired", (3, 1), (after.ready, after.expired_leases))
}

pub(super) async fn one_worker_at_a_time_has_the_turn_to_watch(test: &QueueUnderTest) -> Held {
    let queue = test.queue();
    refused("no lease", &[PortErrorKind::Invalid], queue.take_watch(id(1), Duration::ZERO).await)?;
    refused("too long a lease", &[PortErrorKind::Invalid], queue.take_watch(id(1), LEASE_MAX * 2).await)?;
    equal("nobody watches", None, queue.statistics().await?.watched_by)?;
    let turns =
        at_once(12, |i| block_on(test.workers[i % test.workers.len()].take_watch(id(i as u64), LEASE)))?;
    let turns = turns.into_iter().collect::<PortResult<Vec<_>>>()?;
    equal("one of many", 1, turns.iter().filter(|is_mine| **is_mine).count())?;
    let first = id(turns.iter().position(|is_mine| *is_mine).unwrap_or_default() as u64);
    let (second, third) = (id(100), id(101));
    equal("it is the one", Some(first), queue.statistics().await?.watched_by)?;
    test.pass(40);
    equal("it goes on", true, queue.take_watch(first, LEASE).await?)?;
    test.pass(40);
    equal("its lease began anew", false, queue.take_watch(second, LEASE).await?)?;
    queue.leave_watch(second).await?;
    equal("nobody leaves for another", false, queue.take_watch(second, LEASE).await?)?;
    test.pass(21);
    equal("its lease ran out", None, queue.statistics().await?.watched_by)?;
    equal("a lapsed turn is anybody's", true, queue.take_watch(second, LEASE).await?)?;
    equal("the first lost it", false, queue.take_watch(first, LEASE).await?)?;
    queue.leave_watch(second).await?;
    queue.leave_watch(second).await?;
    equal("left", None, queue.statistics().await?.watched_by)?;
    equal("free at once", true, queue.take_watch(third, LEASE).await?)
}

pub(super) async fn retention_drops_whole_days_with_their_keys(test: &QueueUnderTest) -> Held {
    const DAY: u64 = 86_400;
    let queue = test.queue();
    let ended = test.add("ended").await?;
    let token = test.claimed(id(1)).await?;
    queue.hand_back(&[token]).await?;
    let token = test.claimed(id(1)).await?;
    test.complete(&token).await?;
    let open = test.add("open").await?;
    test.pass(DAY);
    equal("yesterday stays", 0, queue.retain(1).await?.items)?;
    let late = test.add("late").await?;
    let first = test.claim_one(id(1)).await?;
    let second = test.claim_one(id(1)).await?;
    equal("in order", (open, late), (first.item, second.item))?;
    test.complete(&self::token(&second)?).await?;
    test.pass(DAY);
    let gone = queue.retain(1).await?;
    equal("one day, one item", (1, 1), (gone.days.len(), gone.items))?;
    equal("gone", None, queue.item(ended).await?)?;
    equal("its attempts, too", 0, queue.attempts(ended).await?.len())?;
    equal("not asked twice", 0, queue.retain(1).await?.items)?;
    let stays = (queue.item(late).await?.is_some(), queue.item(open).await?.is_some());
    equal("the others stay", (true, true), stays)?;
    let again = one(queue.enqueue(&[payload("ended", "other")]).await?)?;
    holds("its key is free", again.is_new, again)?;
    let kept = one(queue.enqueue(&[new("late")]).await?)?;
    equal("the other's key is not", Enqueued { item: late, is_new: false }, kept)
}

pub(super) async fn a_wait_ends_by_a_notice_or_by_its_limit(test: &QueueUnderTest) -> Held {
    const LONG: Duration = Duration::from_secs(20);
    let waiter = &test.workers[1];
    // What happened before may wake it once more.
    let mut wake = waiter.wait(Duration::from_millis(1)).await?;
    for _ in 0..5 {
        if wake == Wake::Elapsed {
            break;
        }
        wake = waiter.wait(Duration::from_millis(50)).await?;
    }
    equal("nothing happens", Wake::Elapsed, wake)?;
    test.add("a").await?;
    equal("an enqueue before the wait", Wake::Notified, waiter.wait(LONG).await?)?;
    let token = test.claimed(id(1)).await?;
    test.queue().hand_back(&[token]).await?;
    equal("a handback", Wake::Notified, waiter.wait(LONG).await?)?;
    let token = test.claimed(id(1)).await?;
    test.queue().await_user(&token, "SG1").await?;
    test.queue().ready(token.item, "SG1").await?;
    equal("a word", Wake::Notified, waiter.wait(LONG).await?)?;
    let wakes = at_once(2, |i| {
        if i == 0 {
            block_on(waiter.wait(LONG)).map(Some)
        } else {
            block_on(test.queue().enqueue(&[new("b")])).map(|_| None)
        }
    })?;
    let wakes = wakes.into_iter().collect::<PortResult<Vec<_>>>()?;
    equal("an enqueue during the wait", Some(Wake::Notified), wakes[0])
}
