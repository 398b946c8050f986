//! What needs no run: a request up to its approved mark, its pages and its signals.

use super::*;
use crate::port::PortErrorKind as K;
use crate::port::cut_request::{RequestQuery, TakeSignals};
use crate::testing::conformance::{at_once, refused};
use crate::testing::memory::block_on;

pub(super) async fn a_request_is_added_once_and_its_id_stands_for_one_source(
    under: &RequestsUnderTest,
) -> Held {
    let customer = Customer::new(under, 1);
    let added = customer.port().add(&customer.add()).await?;
    is_new(&added, S::Requested)?;
    equal("when", at(1), added.request.requested_at)?;
    equal("who", "operator", &*added.request.requested_by)?;
    let mut later = customer.add();
    later.asked.at = at(500);
    let again = customer.port().add(&later).await?;
    is_old(&again, S::Requested)?;
    equal("the request", added.request, again.request)?;
    let mut other = customer.add();
    other.source_ref = "laws/another.md".into();
    refused("another source under the id", &[K::Conflict], customer.port().add(&other).await)?;
    let mut blank = Customer::new(under, 2).add();
    blank.source_ref = " \n\t".into();
    refused("no source", &[K::Conflict], customer.port().add(&blank).await)?;
    equal("path", "requested", &*customer.path().await?)
}

pub(super) async fn a_copy_is_the_bytes_that_were_named(under: &RequestsUnderTest) -> Held {
    let customer = Customer::new(under, 1);
    customer.port().add(&customer.add()).await?;
    let mut wrong = customer.copy();
    wrong.sha256 = Digest::of(b"other bytes");
    refused("another sha256", &[K::Conflict], customer.port().copy(&wrong).await)?;
    equal("nothing was staged", 0, customer.port().staging(customer.id()).await?.len())?;
    let copied = customer.port().copy(&customer.copy()).await?;
    is_new(&copied, S::Copied)?;
    equal("sha256", Some(customer.copy().sha256), copied.request.source_hash)?;
    equal("bytes", Some(customer.case.text.len() as u64), copied.request.source_bytes)?;
    equal("path", Some("conf-doc.md"), copied.request.source_path.as_deref())?;
    equal("when", Some(at(10)), copied.request.copied_at)?;
    let mut again = customer.copy();
    again.staging_record_id = customer.case.id("another record");
    is_old(&customer.port().copy(&again).await?, S::Copied)?;
    let mut other = customer.copy();
    other.content.push(b'x');
    other.sha256 = Digest::of(&other.content);
    refused("other bytes later", &[K::Conflict], customer.port().copy(&other).await)?;
    let bytes = customer.port().staged_bytes(customer.case.id("staged copy")).await?;
    equal("the staged bytes", Some(customer.copy().content), bytes)?;
    equal("records", ["source_copy staged".to_string()].to_vec(), customer.lifecycles().await?)
}

pub(super) async fn a_mark_partitions_the_copy_or_is_refused(under: &RequestsUnderTest) -> Held {
    let customer = Customer::new(under, 1);
    customer.port().add(&customer.add()).await?;
    refused("a mark before the copy", &[K::Conflict], customer.port().mark(&customer.mark("1")).await)?;
    customer.port().copy(&customer.copy()).await?;
    let end = customer.case.text.len() as u64;
    for (what, spans) in [
        ("a gap", [(0, 5), (6, end)].to_vec()),
        ("an overlap", [(0, 5), (4, end)].to_vec()),
        ("an end too early", [(0, 5)].to_vec()),
        ("no units", Vec::new()),
        ("an empty unit", [(0, 0), (0, end)].to_vec()),
    ] {
        let mut mark = customer.mark("1");
        mark.manifest = customer.manifest("1", &spans);
        refused(what, &[K::Conflict], customer.port().mark(&mark).await)?;
    }
    let mut mark = customer.mark("1");
    mark.manifest_digest = customer.digest("another");
    refused("another manifest digest", &[K::Conflict], customer.port().mark(&mark).await)?;
    let mut mark = customer.mark("1");
    mark.manifest = b"{}".to_vec();
    refused("no manifest", &[K::Invalid], customer.port().mark(&mark).await)?;
    let text = String::from_utf8_lossy(&customer.mark("1").manifest).into_owned();
    let mut mark = customer.mark("1");
    mark.manifest = text.replace(&customer.copy().sha256.to_hex(), &Digest::of(b"x").to_hex()).into_bytes();
    refused("a manifest of another text", &[K::Conflict], customer.port().mark(&mark).await)?;
    customer.stands_at(S::Copied).await?;
    equal("nothing was half-written", 1, customer.port().staging(customer.id()).await?.len())?;

    let marked = customer.port().mark(&customer.mark("1")).await?;
    is_new(&marked, S::Marked)?;
    equal("digest", Some(customer.digest("1")), marked.request.manifest_digest)?;
    equal("when", Some(at(20)), marked.request.marked_at)?;
    is_old(&customer.port().mark(&customer.mark("1")).await?, S::Marked)?;
    refused("another mark of a marked one", &[K::Conflict], customer.port().mark(&customer.mark("2")).await)?;
    let staged = customer.port().staged_bytes(customer.mark("1").staging_record_id).await?;
    equal("the manifest, byte for byte", Some(customer.mark("1").manifest), staged)?;
    equal("path", "requested copied mark_in_progress marked", &*customer.path().await?)
}

pub(super) async fn a_rejected_mark_is_made_again_and_its_bytes_expire(under: &RequestsUnderTest) -> Held {
    let customer = Customer::new(under, 1);
    customer.to_marked().await?;
    is_new(&customer.port().verify_mark(&customer.verdict(false)).await?, S::MarkRejected)?;
    is_old(&customer.port().verify_mark(&customer.verdict(false)).await?, S::MarkRejected)?;
    refused("approved unmarked", &[K::Conflict], customer.port().verify_mark(&customer.verdict(true)).await)?;
    let records = ["source_copy staged", "mark_manifest expired"].map(ToString::to_string).to_vec();
    equal("records", records, customer.lifecycles().await?)?;
    // Even the same manifest may be sent again, as a record of its own.
    let mut same = customer.mark("1");
    same.staging_record_id = customer.case.id("staged again");
    is_new(&customer.port().mark(&same).await?, S::Marked)?;
    equal("no verdict yet", None, customer.stands().await?.mark_verdict)?;
    customer.port().verify_mark(&customer.verdict(false)).await?;
    is_new(&customer.port().mark(&customer.mark("2")).await?, S::Marked)?;
    let approved = customer.port().verify_mark(&customer.verdict(true)).await?;
    is_new(&approved, S::MarkVerified)?;
    equal("the newest mark", Some(customer.digest("2")), approved.request.manifest_digest)?;
    let mut lifecycles = customer.lifecycles().await?;
    lifecycles.sort();
    let records =
        ["mark_manifest approved", "mark_manifest expired", "mark_manifest expired", "source_copy approved"];
    equal("records", records.map(ToString::to_string).to_vec(), lifecycles)?;
    equal(
        "path",
        "requested copied mark_in_progress marked mark_rejected mark_in_progress marked mark_rejected \
         mark_in_progress marked mark_verified",
        &*customer.path().await?,
    )
}

pub(super) async fn a_verdict_on_a_mark_says_where_or_why(under: &RequestsUnderTest) -> Held {
    let customer = Customer::new(under, 1);
    customer.to_copied().await?;
    refused("before the mark", &[K::Conflict], customer.port().verify_mark(&customer.verdict(true)).await)?;
    customer.port().mark(&customer.mark("1")).await?;
    let mut nowhere = customer.verdict(true);
    nowhere.approval_doc_id = None;
    refused("an approval without its document", &[K::Conflict], customer.port().verify_mark(&nowhere).await)?;
    let mut why = customer.verdict(false);
    why.reason = Some(" ".into());
    refused("a rejection without a reason", &[K::Conflict], customer.port().verify_mark(&why).await)?;
    let approved = customer.port().verify_mark(&customer.verdict(true)).await?;
    is_new(&approved, S::MarkVerified)?;
    equal("where", customer.verdict(true).approval_doc_id, approved.request.mark_approval_doc_id)?;
    equal("when", Some(at(30)), approved.request.mark_verified_at)?;
    is_old(&customer.port().verify_mark(&customer.verdict(true)).await?, S::MarkVerified)?;
    refused("rejected after", &[K::Conflict], customer.port().verify_mark(&customer.verdict(false)).await)
}

pub(super) async fn the_cut_is_asked_for_once_and_waits_for_an_approved_mark(
    under: &RequestsUnderTest,
) -> Held {
    let customer = Customer::new(under, 1);
    customer.to_marked().await?;
    refused(
        "asked before the approval",
        &[K::Conflict],
        customer.port().apply(&customer.on(31), false).await,
    )?;
    refused(
        "started before the approval",
        &[K::Conflict],
        customer.port().start_cut(&customer.start()).await,
    )?;
    customer.port().verify_mark(&customer.verdict(true)).await?;
    let dry = customer.port().apply(&customer.on(32), true).await?;
    let units = customer.spans().len() as u64;
    equal(
        "what would be done",
        (Some(SignalName::Cut), units, true),
        (dry.signal, dry.units, dry.is_dry_run),
    )?;
    equal("a dry run writes nothing", 0, customer.take(SignalName::Cut, 33, 0).await?.len())?;
    for _ in 0..3 {
        let applied = customer.port().apply(&customer.on(34), false).await?;
        equal("asked for", (Some(SignalName::Cut), false), (applied.signal, applied.is_dry_run))?;
        equal("and nothing moved", S::MarkVerified, applied.request.status)?;
    }
    equal("one signal", 1, customer.take(SignalName::Cut, 35, 0).await?.len())?;
    let started = customer.port().start_cut(&customer.start()).await?;
    is_new(&started, S::CutInProgress)?;
    equal("the run's UUID", Some(customer.case.run_id().uuid()), started.request.cut_run_id)?;
    equal("the whole run id", Some(customer.case.run_id()), started.request.run_id())?;
    is_old(&customer.port().start_cut(&customer.start()).await?, S::CutInProgress)?;
    equal(
        "found by its run",
        Some(customer.id()),
        customer.port().of_run(&customer.case.run_id()).await?.map(|r| r.cut_request_id),
    )?;
    let applied = customer.port().apply(&customer.on(41), false).await?;
    equal("a run has begun", None, applied.signal)?;
    let records = ["source_copy consumed", "mark_manifest consumed"].map(ToString::to_string).to_vec();
    equal("records", records, customer.lifecycles().await?)
}

pub(super) async fn of_many_runs_one_cuts_for_a_request(under: &RequestsUnderTest) -> Held {
    let customer = Customer::new(under, 1);
    customer.to_verified().await?;
    let starts: Vec<StartCut> =
        (10..16).map(|n| StartCut { run_id: Case::new(n).run_id(), ..customer.start() }).collect();
    let outcomes = at_once(starts.len(), |i| block_on(under.requests.start_cut(&starts[i])))?;
    let won: Vec<usize> = (0..starts.len()).filter(|&i| outcomes[i].is_ok()).collect();
    equal("winners", 1, won.len())?;
    for outcome in outcomes.into_iter().filter(Result::is_err) {
        refused("the others", &[K::Conflict], outcome)?;
    }
    let winner = won.first().and_then(|&i| starts.get(i)).map(|start| start.run_id.uuid());
    equal("the run", winner, customer.stands().await?.cut_run_id)
}

pub(super) async fn a_run_cuts_for_one_request(under: &RequestsUnderTest) -> Held {
    let (first, second) = (Customer::new(under, 1), Customer::new(under, 2));
    first.to_cutting().await?;
    second.to_verified().await?;
    let start = StartCut { run_id: first.case.run_id(), ..second.start() };
    refused("a run that is taken", &[K::Conflict], second.port().start_cut(&start).await)?;
    second.stands_at(S::MarkVerified).await
}

pub(super) async fn what_is_not_there_is_not_found(under: &RequestsUnderTest) -> Held {
    let customer = Customer::new(under, 1);
    let port = customer.port();
    equal("get", None, port.get(customer.id()).await?)?;
    equal("of_run", None, port.of_run(&customer.case.run_id()).await?)?;
    equal("timeline", 0, port.timeline(customer.id()).await?.len())?;
    equal("staging", 0, port.staging(customer.id()).await?.len())?;
    equal("staged_bytes", None, port.staged_bytes(customer.id()).await?)?;
    refused("copy", &[K::NotFound], port.copy(&customer.copy()).await)?;
    refused("mark", &[K::NotFound], port.mark(&customer.mark("1")).await)?;
    refused("verify_mark", &[K::NotFound], port.verify_mark(&customer.verdict(true)).await)?;
    refused("apply", &[K::NotFound], port.apply(&customer.on(1), true).await)?;
    refused("start_cut", &[K::NotFound], port.start_cut(&customer.start()).await)?;
    refused("verify_cut", &[K::NotFound], port.verify_cut(&customer.on(1)).await)?;
    refused("complete", &[K::NotFound], port.complete(&customer.on(1)).await)?;
    port.finish_signal(customer.id(), at(1)).await?;
    equal("signals", 0, customer.take(SignalName::Copy, 1, 0).await?.len())
}

pub(super) async fn pages_follow_each_other_by_key(under: &RequestsUnderTest) -> Held {
    // Some share their time, so that the id decides.
    for n in 1..=7_u8 {
        let customer = Customer::new(under, n);
        let mut add = customer.add();
        add.asked.at = at(i64::from(n / 2));
        add.source_ref = format!("laws/{}.md", n % 3);
        customer.port().add(&add).await?;
        if n % 2 == 0 {
            customer.port().copy(&customer.copy()).await?;
        }
    }
    let all = under.requests.list(&RequestQuery { limit: 100, ..RequestQuery::default() }).await?;
    equal("all", 7, all.len())?;
    let key = |r: &CutRequest| (r.requested_at, r.cut_request_id);
    holds("newest first", all.windows(2).all(|pair| key(&pair[0]) > key(&pair[1])), &all)?;
    for (status, source_ref) in [
        (None, None),
        (Some(S::Copied), None),
        (None, Some("laws/1.md")),
        (Some(S::Requested), Some("laws/1.md")),
        (Some(S::Cleaned), None),
    ] {
        let expected: Vec<Uuid> = all
            .iter()
            .filter(|r| status.is_none_or(|s| r.status == s) && source_ref.is_none_or(|s| r.source_ref == s))
            .map(|r| r.cut_request_id)
            .collect();
        let (mut found, mut after) = (Vec::new(), None);
        loop {
            let source_ref = source_ref.map(ToString::to_string);
            let page = under.requests.list(&RequestQuery { status, source_ref, after, limit: 2 }).await?;
            let Some(last) = page.last() else { break };
            after = Some(key(last));
            found.extend(page.iter().map(|r| r.cut_request_id));
        }
        equal("pages put together", expected, found)?;
    }
    Ok(())
}

pub(super) async fn signals_are_taken_finished_and_over_with_their_status(under: &RequestsUnderTest) -> Held {
    let customer = Customer::new(under, 1);
    customer.port().add(&customer.add()).await?;
    let copy = customer.take(SignalName::Copy, 100, 0).await?;
    equal("of a new request", [customer.id()].to_vec(), copy.iter().map(|s| s.cut_request_id).collect())?;
    equal("asked by", Some("operator"), copy.first().map(|s| &*s.enqueued_by))?;
    equal("taken", 0, customer.take(SignalName::Copy, 101, 50).await?.len())?;
    equal("stale", copy, customer.take(SignalName::Copy, 200, 150).await?)?;
    customer.port().copy(&customer.copy()).await?;
    equal("over", 0, customer.take(SignalName::Copy, 300, 250).await?.len())?;
    let mark = customer.take(SignalName::Mark, 300, 0).await?;
    equal("of a copy", 1, mark.len())?;
    for signal in &mark {
        customer.port().finish_signal(signal.signal_id, at(301)).await?;
        customer.port().finish_signal(signal.signal_id, at(302)).await?;
    }
    equal("finished", 0, customer.take(SignalName::Mark, 400, 350).await?.len())?;
    customer.port().mark(&customer.mark("1")).await?;
    equal("of a mark", 1, customer.take(SignalName::VerifyMark, 400, 0).await?.len())?;
    refused("no cut to verify", &[K::Conflict], customer.port().verify_cut(&customer.on(401)).await)?;
    equal("nobody asked", 0, customer.take(SignalName::Cut, 400, 0).await?.len())
}

pub(super) async fn a_signal_that_rests_starves_no_other(under: &RequestsUnderTest) -> Held {
    let customers = [1, 2, 3].map(|n| Customer::new(under, n));
    for customer in &customers {
        customer.port().add(&customer.add()).await?;
    }
    let mut seen = Vec::new();
    for second in 500..506 {
        let take = TakeSignals {
            names: [SignalName::Copy].to_vec(),
            stale_before: at(second),
            limit: 1,
            asked: asked(second),
        };
        let taken = under.requests.take_signals(&take).await?;
        seen.extend(taken.iter().map(|signal| signal.cut_request_id));
    }
    let (first, second) = seen.split_at(seen.len() / 2);
    equal("the same again in the same order", first, second)?;
    let mut once = first.to_vec();
    once.sort_unstable();
    once.dedup();
    equal("everybody once before anybody twice", 3, once.len())
}
