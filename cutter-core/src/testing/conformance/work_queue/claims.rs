//! Enqueueing, order, leases and takeovers.

use super::*;

pub(super) async fn the_same_key_and_payload_give_the_recorded_item(test: &QueueUnderTest) -> Held {
    let first = one(test.queue().enqueue(&[new("a")]).await?)?;
    holds("the first is new", first.is_new, first)?;
    let again = test.queue().enqueue(&[new("b"), new("a").priority(-5), new("b")]).await?;
    equal("new or not", Vec::from([true, false, false]), again.iter().map(|e| e.is_new).collect())?;
    equal("the recorded item", first.item, again[1].item)?;
    equal("the item of the same batch", again[0].item, again[2].item)?;
    equal("its priority", 0, test.stands(first.item).await?.priority)?;
    equal("by key", Some(first.item), test.queue().item_by_key("a").await?.map(|item| item.item))?;
    equal("no such key", None, test.queue().item_by_key("z").await?)
}

pub(super) async fn the_same_key_with_another_payload_is_a_conflict_and_writes_nothing(
    test: &QueueUnderTest,
) -> Held {
    test.add("a").await?;
    let other = payload("a", "other");
    let expected = format!(
        "enqueue.same_payload: expected {} for key a, observed {}",
        new("a").digest(),
        other.digest()
    );
    for batch in [Vec::from([new("b"), other.clone()]), Vec::from([new("b"), payload("b", "other")])] {
        let result = test.queue().enqueue(&batch).await;
        if batch[1].key() == "a" {
            let text = result.as_ref().err().map(ToString::to_string).unwrap_or_default();
            holds("names key and digests", text.contains(&expected), &text)?;
        }
        refused("another payload", &[PortErrorKind::Conflict], result)?;
        equal("nothing of the batch", None, test.queue().item_by_key("b").await?)?;
    }
    // Another kind is other work, too.
    let kind = NewItem::new("a", "other", "{}").map_err(invalid)?;
    refused("another kind", &[PortErrorKind::Conflict], test.queue().enqueue(&[kind]).await)
}

pub(super) async fn a_key_stands_after_its_item_ended(test: &QueueUnderTest) -> Held {
    let item = test.add("a").await?;
    let token = test.claimed(id(1)).await?;
    test.complete(&token).await?;
    let again = one(test.queue().enqueue(&[new("a")]).await?)?;
    equal("recorded", Enqueued { item, is_new: false }, again)?;
    refused("another payload", &[PortErrorKind::Conflict], test.queue().enqueue(&[payload("a", "x")]).await)?;
    equal("nothing to claim", 0, test.queue().claim(id(1), 9, LEASE).await?.len())
}

pub(super) async fn of_fifty_enqueuers_of_one_key_one_is_new(test: &QueueUnderTest) -> Held {
    let workers = &test.workers;
    let work = |i: usize| block_on(workers[i % workers.len()].enqueue(&[new("x"), new("a"), new("m")]));
    let all = at_once(50, work)?.into_iter().collect::<PortResult<Vec<_>>>()?;
    for place in 0..3 {
        let items: BTreeSet<ItemId> = all.iter().map(|batch| batch[place].item).collect();
        equal("items of a key", 1, items.len())?;
        equal("of them new", 1, all.iter().filter(|batch| batch[place].is_new).count())?;
    }
    equal("items to claim", 3, test.queue().claim(id(1), 99, LEASE).await?.len())
}

pub(super) async fn bounds_are_kept(test: &QueueUnderTest) -> Held {
    let queue = test.queue();
    let invalid = &[PortErrorKind::Invalid];
    refused("no lease", invalid, queue.claim(id(1), 1, Duration::ZERO).await)?;
    refused("a lease over the limit", invalid, queue.claim(id(1), 1, LEASE_MAX * 2).await)?;
    refused("no lease", invalid, queue.take_over(id(1), 1, Duration::ZERO).await)?;
    refused("too many items", invalid, queue.claim(id(1), u32::MAX, LEASE).await)?;
    refused("no days", invalid, queue.retain(0).await)?;
    equal("an empty batch", Vec::new(), queue.enqueue(&[]).await?)?;
    equal("no tokens", Vec::new(), queue.complete(&[]).await?)?;
    equal("a claim of none", 0, queue.claim(id(1), 0, LEASE).await?.len())?;
    holds("an empty key", NewItem::new("", "test", "").is_err(), "taken")?;
    holds("a long payload", NewItem::new("a", "t", " ".repeat(PAYLOAD_MAX_BYTES + 1)).is_err(), "taken")?;
    let longest =
        NewItem::new("k".repeat(200), "ế", " ".repeat(PAYLOAD_MAX_BYTES)).map_err(super::invalid)?;
    let item = test.put(longest.clone()).await?;
    let stands = test.stands(item).await?;
    equal("the key", longest.key(), stands.key.as_str())?;
    equal("the digest", longest.digest(), stands.digest)?;
    equal("the payload", PAYLOAD_MAX_BYTES, stands.payload.len())
}

pub(super) async fn lower_priority_numbers_go_first_and_equal_ones_in_sequence(
    test: &QueueUnderTest,
) -> Held {
    let batch: Vec<NewItem> = [("a", 5), ("b", -1), ("c", 5), ("d", 0), ("e", -1), ("f", i32::MIN)]
        .map(|(key, priority)| new(key).priority(priority))
        .into();
    test.queue().enqueue(&batch).await?;
    test.put(new("g").priority(0)).await?;
    let mut order = String::new();
    for limit in [1, 3, 9] {
        for item in test.queue().claim(id(1), limit, LEASE).await? {
            order.push_str(&item.key);
            equal("executing", (S::Executing, 1, 1), (item.state, item.epoch, item.attempts))?;
            equal("the holder", Some(id(1)), item.holder)?;
        }
    }
    equal("the order", "fbedgac", order.as_str())
}

pub(super) async fn of_many_claimants_each_item_has_one_holder(test: &QueueUnderTest) -> Held {
    let batch: Vec<NewItem> = (0..400).map(|i| new(&format!("k{i}")).priority(i % 3)).collect();
    test.queue().enqueue(&batch).await?;
    let workers = &test.workers;
    let claims = at_once(workers.len(), |i| {
        let mut mine = Vec::new();
        loop {
            let claimed = block_on(workers[i].claim(id(i as u64 + 1), 7, LEASE))?;
            if claimed.is_empty() {
                return PortResult::Ok(mine);
            }
            // Within one claim, order is strict whatever the others do.
            mine.push(claimed);
        }
    })?;
    let mut seen = BTreeMap::new();
    for (worker, claims) in claims.into_iter().enumerate() {
        for claim in claims? {
            let order: Vec<_> = claim.iter().map(|item| (item.priority, item.item)).collect();
            holds("one claim is in order", order.is_sorted(), &order)?;
            for item in claim {
                equal("the holder", Some(id(worker as u64 + 1)), item.holder)?;
                holds("claimed once", seen.insert(item.item, worker).is_none(), item.item)?;
            }
        }
    }
    equal("items claimed", batch.len(), seen.len())
}

pub(super) async fn a_late_urgent_item_overtakes_and_an_early_one_is_not_starved_by_its_equals(
    test: &QueueUnderTest,
) -> Held {
    let patient = test.put(new("patient").priority(1)).await?;
    for round in 0..20 {
        // As many urgent items as one claim takes: the patient one waits.
        for i in 0..2 {
            test.put(new(&format!("urgent {round} {i}"))).await?;
        }
        test.put(new(&format!("equal {round}")).priority(1)).await?;
        let claimed = test.queue().claim(id(1), 2, LEASE).await?;
        equal("urgent items first", Vec::from([0, 0]), claimed.iter().map(|i| i.priority).collect())?;
    }
    // The first claim with room takes it, before every later one of its priority.
    equal("then the patient one", patient, test.claim_one(id(1)).await?.item)
}

pub(super) async fn a_heartbeat_keeps_the_lease(test: &QueueUnderTest) -> Held {
    test.add("a").await?;
    let token = test.claimed(id(1)).await?;
    for _ in 0..4 {
        test.pass(40);
        let beat = one(test.queue().heartbeat(&[token], LEASE).await?)?;
        equal("a heartbeat", Answer::Applied(S::Executing), beat)?;
        equal("nothing to take", 0, test.workers[1].take_over(id(2), 9, LEASE).await?.items.len())?;
    }
    equal("completed", Answer::Applied(S::Completed), test.complete(&token).await?)?;
    let late = one(test.queue().heartbeat(&[token], LEASE).await?)?;
    says("a heartbeat after the end", "lease.token", &late)
}

pub(super) async fn leases_run_out_by_the_queues_own_clock(test: &QueueUnderTest) -> Held {
    test.add("a").await?;
    let held = test.claim_one(id(1)).await?;
    let length = held.lease_until.zip(held.claimed_at).map(|(until, at)| until.duration_since(at).as_secs());
    equal("the lease's length by the queue's clock", Some(60), length)?;
    test.pass(59);
    equal("not yet", 0, test.workers[1].take_over(id(2), 9, LEASE).await?.items.len())?;
    equal("not ready either", 0, test.workers[1].claim(id(2), 9, LEASE).await?.len())?;
    test.pass(1);
    let taken = one(test.workers[1].take_over(id(2), 9, LEASE).await?.items)?;
    equal("executing under a new epoch", (S::Executing, 2, 2), (taken.state, taken.epoch, taken.attempts))?;
    equal("a failure", (1, Some(id(2))), (taken.failures, taken.holder))?;
    let lost = one(test.queue().attempts(held.item).await?)?;
    equal("the attempt", (1, id(1), Ending::LeaseLost), (lost.epoch, lost.holder, lost.ending))
}

pub(super) async fn of_many_that_take_over_one_holds(test: &QueueUnderTest) -> Held {
    let batch: Vec<NewItem> = (0..40).map(|i| new(&format!("k{i}"))).collect();
    test.queue().enqueue(&batch).await?;
    test.queue().claim(id(99), 40, LEASE).await?;
    test.pass(61);
    let workers = &test.workers;
    let work = |i: usize| block_on(workers[i].take_over(id(i as u64 + 1), 40, LEASE));
    let all = at_once(workers.len(), work)?.into_iter().collect::<PortResult<Vec<_>>>()?;
    let taken: Vec<ItemId> = all.iter().flat_map(|t| &t.items).map(|item| item.item).collect();
    let distinct: BTreeSet<ItemId> = taken.iter().copied().collect();
    equal("each taken once", (40, 40), (taken.len(), distinct.len()))
}

pub(super) async fn a_worker_that_lost_its_lease_writes_nothing(test: &QueueUnderTest) -> Held {
    let item = test.add("a").await?;
    let stale = test.claimed(id(1)).await?;
    test.pass(61);
    let now = token(&one(test.workers[1].take_over(id(2), 1, LEASE).await?.items)?)?;
    let stands = test.stands(item).await?;
    let queue = test.queue();
    let forged = Token { holder: id(3), ..now };
    for bad in [stale, forged, Token { epoch: 9, ..now }] {
        let answers = [
            one(queue.heartbeat(&[bad], LEASE).await?)?,
            test.complete(&bad).await?,
            queue.fail(&bad, &Failure::transient("late", "")).await?,
            queue.fail(&bad, &Failure::permanent("late", "")).await?,
            queue.await_user(&bad, "SG1").await?,
            one(queue.hand_back(&[bad]).await?)?,
        ];
        for answer in &answers {
            says("a write without the lease", "lease.token", answer)?;
        }
        equal("nothing changed", &stands, &test.stands(item).await?)?;
    }
    equal("the holder completes", Answer::Applied(S::Completed), test.complete(&now).await?)?;
    says("and then the stale one", "lease.token", &test.complete(&stale).await?)
}

pub(super) async fn an_expired_lease_that_nobody_took_still_completes(test: &QueueUnderTest) -> Held {
    test.add("a").await?;
    let token = test.claimed(id(1)).await?;
    test.pass(600);
    equal("completed", Answer::Applied(S::Completed), test.complete(&token).await?)
}
