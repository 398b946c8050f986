//! Failures, budgets, pauses and handbacks.

use super::*;

pub(super) async fn a_failure_waits_as_the_matrix_says_and_then_is_claimed(test: &QueueUnderTest) -> Held {
    let policy = budget(3, 9);
    let item = test.put(new("a").policy(policy).map_err(invalid)?).await?;
    let held = test.claim_one(id(1)).await?;
    let mine = token(&held)?;
    let failure = Failure::transient("no_disk", "full");
    equal("a retry", Answer::Applied(S::AwaitingTool), test.queue().fail(&mine, &failure).await?)?;
    let waits = test.stands(item).await?;
    let RetryDecision::Retry { delay_ms, .. } = decide(&policy, 1, 1, false, held.seed()) else {
        return Err(Broken::new("a retry", "none"));
    };
    let record = one(test.queue().attempts(item).await?)?;
    let waited = waits.ready_at.map(|at| at.duration_since(record.ended_at).as_millis());
    equal("the delay by the key's seed", Some(i128::from(delay_ms)), waited)?;
    equal(
        "the record",
        (Ending::Failed, "no_disk", "full"),
        (record.ending, &*record.code, &*record.detail),
    )?;
    equal("the reason", Some("no_disk"), code(&waits))?;
    equal("asked again", Answer::Already, test.queue().fail(&mine, &failure).await?)?;
    equal("not ready yet", 0, test.queue().claim(id(2), 9, LEASE).await?.len())?;
    (test.advance)(Duration::from_millis(delay_ms));
    let again = test.claim_one(id(2)).await?;
    equal("the second attempt", (2, 1, 2), (again.attempts, again.failures, again.epoch))?;
    says("the first one's token", "lease.token", &test.queue().fail(&mine, &failure).await?)
}

/// Fails the item again and again; gives how many attempts began.
async fn fail_until_it_ends(test: &QueueUnderTest, item: ItemId) -> Result<u32, Broken> {
    let mut attempts = 0;
    loop {
        let token = test.claimed(id(1)).await?;
        attempts += 1;
        let answer = test.queue().fail(&token, &Failure::transient("broken", "it")).await?;
        match answer {
            Answer::Applied(S::AwaitingTool) if attempts < 99 => test.pass(61),
            Answer::Applied(S::Failed) => {
                equal(
                    "asked again",
                    Answer::Already,
                    test.queue().fail(&token, &Failure::transient("broken", "")).await?,
                )?;
                holds("it ended", test.stands(item).await?.finished_at.is_some(), "no time")?;
                return Ok(attempts);
            }
            other => return Err(Broken::new("a retry or the end", format!("{other:?}"))),
        }
    }
}

pub(super) async fn the_budget_ends_it_with_its_reason_code(test: &QueueUnderTest) -> Held {
    for (key, policy, expected) in [
        ("attempts", budget(3, 9), (3, "max_attempts_exhausted")),
        ("failures", budget(9, 2), (2, "max_failures_exhausted")),
        ("both", budget(2, 2), (2, "max_attempts_exhausted")),
        ("one", budget(1, 1), (1, "max_attempts_exhausted")),
    ] {
        let item = test.put(new(key).policy(policy).map_err(invalid)?).await?;
        let attempts = fail_until_it_ends(test, item).await?;
        let stands = test.stands(item).await?;
        equal(key, expected, (attempts, code(&stands).unwrap_or("none")))?;
        let detail = stands.reason.as_ref().map(|reason| reason.detail.as_str());
        equal("the last failure", Some("broken: it"), detail)?;
        equal("records", attempts as usize, test.queue().attempts(item).await?.len())?;
    }
    Ok(())
}

pub(super) async fn a_poison_item_ends_after_exactly_its_budget(test: &QueueUnderTest) -> Held {
    for (key, policy, expected) in [
        ("attempts", budget(3, 9), (3, "max_attempts_exhausted")),
        ("failures", budget(9, 4), (4, "max_failures_exhausted")),
    ] {
        let item = test.put(new(key).policy(policy).map_err(invalid)?).await?;
        test.claimed(id(1)).await?;
        let mut deaths = 0;
        loop {
            // The worker dies: nothing is heard of it.
            test.pass(61);
            deaths += 1;
            let taken = test.queue().take_over(id(deaths + 1), 9, LEASE).await?;
            if taken.items.is_empty() {
                equal("the item", Vec::from([item]), taken.exhausted)?;
                break;
            }
            holds("within the budget", deaths < 20, deaths)?;
        }
        let stands = test.stands(item).await?;
        equal(key, expected, (deaths, code(&stands).unwrap_or("none")))?;
        equal("failed", S::Failed, stands.state)?;
        equal("records", expected.0 as usize, test.queue().attempts(item).await?.len())?;
        test.pass(61);
        equal("nothing left", 0, test.queue().take_over(id(1), 9, LEASE).await?.items.len())?;
    }
    Ok(())
}

pub(super) async fn a_permanent_failure_is_not_retried(test: &QueueUnderTest) -> Held {
    let item = test.add("a").await?;
    let token = test.claimed(id(1)).await?;
    for bad in ["", "Not A Code", "handback"] {
        says("a code", "fail.code", &test.queue().fail(&token, &Failure::permanent(bad, "")).await?)?;
    }
    let failure = Failure::permanent("no_such_run", "gone");
    equal("failed", Answer::Applied(S::Failed), test.queue().fail(&token, &failure).await?)?;
    let stands = test.stands(item).await?;
    equal("the code", Some("no_such_run"), code(&stands))?;
    equal("one failure", (1, 1), (stands.attempts, stands.failures))
}

pub(super) async fn a_denied_risk_ends_the_item(test: &QueueUnderTest) -> Held {
    let item = test.put(new("a").side_effects(true)).await?;
    let token = test.claimed(id(1)).await?;
    let answer = test.queue().fail(&token, &Failure::risk_denied("the order may stand")).await?;
    equal("failed", Answer::Applied(S::Failed), answer)?;
    let stands = test.stands(item).await?;
    equal("the code", (Some("risk_denied"), true), (code(&stands), stands.has_side_effects))
}

pub(super) async fn a_pause_for_a_human_costs_no_attempt_and_ends_by_the_word_for_its_gate(
    test: &QueueUnderTest,
) -> Held {
    let item = test.put(new("a").policy(budget(1, 1)).map_err(invalid)?).await?;
    let queue = test.queue();
    for round in 1..4_u64 {
        let gate = format!("SG{round}");
        let token = test.claimed(id(round)).await?;
        says("a word before the pause", "ready.gate", &queue.ready(item, &gate).await?)?;
        says("a gate without a name", "await.gate", &queue.await_user(&token, " ").await?)?;
        let paused = queue.await_user(&token, &gate).await?;
        equal("paused", Answer::Applied(S::AwaitingUserConfirmation), paused)?;
        equal("asked again", Answer::Already, queue.await_user(&token, &gate).await?)?;
        says("no lease meanwhile", "lease.token", &one(queue.heartbeat(&[token], LEASE).await?)?)?;
        says("not completed meanwhile", "illegal work_item transition", &test.complete(&token).await?)?;
        test.pass(100_000);
        equal("not claimed meanwhile", 0, queue.claim(id(9), 9, LEASE).await?.len())?;
        equal("not taken meanwhile", 0, queue.take_over(id(9), 9, LEASE).await?.items.len())?;
        says("a word for another gate", "ready.gate", &queue.ready(item, "SG9").await?)?;
        equal("the word", Answer::Applied(S::AwaitingUserConfirmation), queue.ready(item, &gate).await?)?;
        equal("asked again", Answer::Already, queue.ready(item, &gate).await?)?;
    }
    let held = test.claim_one(id(7)).await?;
    equal("one attempt, four claims", (1, 4, 0), (held.attempts, held.epoch, held.failures))?;
    equal("completed", Answer::Applied(S::Completed), test.complete(&token(&held)?).await?)?;
    says("a word after the end", "ready.gate", &queue.ready(item, "SG3").await?)
}

pub(super) async fn a_handback_keeps_the_place_and_the_budget(test: &QueueUnderTest) -> Held {
    let first = test.put(new("a").policy(budget(1, 1)).map_err(invalid)?).await?;
    test.add("b").await?;
    for round in 1..4_u64 {
        let held = test.claim_one(id(round)).await?;
        equal("its place is the first", (first, 1), (held.item, held.attempts))?;
        let token = token(&held)?;
        let back = one(test.queue().hand_back(&[token]).await?)?;
        equal("handed back", Answer::Applied(S::AwaitingTool), back)?;
        equal("asked again", Answer::Already, one(test.queue().hand_back(&[token]).await?)?)?;
        equal("the reason", Some(HANDBACK), code(&test.stands(first).await?))?;
    }
    let endings: Vec<Ending> = test.queue().attempts(first).await?.iter().map(|a| a.ending).collect();
    equal("records", Vec::from([Ending::HandedBack; 3]), endings)
}
