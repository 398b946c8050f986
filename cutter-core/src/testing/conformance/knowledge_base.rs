//! The contract of [`KnowledgeBase`].

use alloc::format;
use alloc::vec::Vec;
use core::future::Future;

use super::fixture::run_id;
use super::{Broken, ConformanceFailure, Fresh, Held, at_once, contracts, equal, holds, refused};
use crate::base::digest::Digest;
use crate::port::knowledge_base::{AppendOutcome, CreateOutcome, KnowledgeBase};
use crate::port::{PortErrorKind, PortResult};
use crate::testing::memory::block_on;

type Base = Fresh<dyn KnowledgeBase>;

const INDEX: &str = "knowledge/index/runs.md";

/// Checks every contract; gives the names of those that held.
///
/// # Errors
/// The first contract that is not kept.
pub async fn run_all<B, F>(build: B) -> Result<Vec<&'static str>, ConformanceFailure>
where
    B: Fn() -> F,
    F: Future<Output = PortResult<Base>>,
{
    contracts!(
        "knowledge_base",
        build,
        [
            a_document_is_created_once_and_never_replaced,
            a_new_document_has_revision_1_and_its_digest,
            bytes_are_kept_as_they_are,
            an_absent_document_is_none,
            of_many_creators_exactly_one_creates,
            of_many_creators_of_the_same_bytes_one_creates,
            listing_is_by_folder_and_in_byte_order,
            a_path_that_leaves_the_base_is_refused,
            an_index_line_is_appended_once,
            another_line_of_the_same_run_conflicts,
            a_line_break_in_a_line_is_refused,
            of_many_appenders_every_line_stands_whole,
        ]
    )
}

/// A torn last line is cut before the next append. `tear` removes the last `n` bytes of an
/// index document, as a crash of its writer does; the suite cannot know how.
///
/// # Errors
/// The contract, if it is not kept.
pub async fn a_torn_tail_is_cut_first(
    base: &dyn KnowledgeBase,
    tear: impl Fn(&str, usize),
) -> Result<(), ConformanceFailure> {
    let check = async {
        append(base, 1, "first").await?;
        append(base, 2, "second").await?;
        tear(INDEX, 4);
        let torn = base.index_line(INDEX, run_id(2).as_str()).await?;
        holds("no line of the run whose line is torn", torn.is_none(), torn)?;
        equal("an append after a torn line", AppendOutcome::Appended, append(base, 2, "again").await?)?;
        let text = base.read(INDEX).await?.map(|d| d.bytes).unwrap_or_default();
        let expected = format!("{}\n{}\n", line(1, "first"), line(2, "again"));
        equal("the whole index", expected.as_bytes(), text.as_slice())
    };
    check.await.map_err(|broken: Broken| broken.of("knowledge_base", "a_torn_tail_is_cut_first"))
}

fn line(run: u8, text: &str) -> alloc::string::String {
    format!("- `{}` · `CONF-DOC` · {text}", run_id(run))
}

async fn append(base: &dyn KnowledgeBase, run: u8, text: &str) -> PortResult<AppendOutcome> {
    base.append_index(INDEX, run_id(run).as_str(), &line(run, text)).await
}

async fn a_document_is_created_once_and_never_replaced(base: &Base) -> Held {
    let path = "laws/run/01-source-pin-2026-01-02.md";
    equal("the first create", CreateOutcome::Created, base.port.create(path, b"one").await?)?;
    equal("the same bytes", CreateOutcome::Identical, base.port.create(path, b"one").await?)?;
    let other = base.port.create(path, b"two").await?;
    equal("other bytes", CreateOutcome::Different { found: Digest::of(b"one") }, other)?;
    let bytes = base.port.read(path).await?.map(|d| d.bytes);
    equal("what stands there", Some(b"one".to_vec()), bytes)
}

async fn a_new_document_has_revision_1_and_its_digest(base: &Base) -> Held {
    base.port.create("laws/a.md", b"one").await?;
    let found = base.port.read("laws/a.md").await?.map(|d| (d.revision, d.sha256));
    equal("revision and digest", Some((1, Digest::of(b"one"))), found)
}

async fn bytes_are_kept_as_they_are(base: &Base) -> Held {
    let bytes = b"\xef\xbb\xbf\r\n trailing \t\r\n\r\nno newline at the end \xf0\x9f\x93\x9c";
    base.port.create("laws/a.md", bytes).await?;
    let found = base.port.read("laws/a.md").await?.map(|d| d.bytes);
    equal("the bytes", Some(bytes.to_vec()), found)
}

async fn an_absent_document_is_none(base: &Base) -> Held {
    holds("no document", base.port.read("laws/none.md").await?.is_none(), "a document")?;
    equal("an empty folder", Vec::new(), base.port.list("laws").await?)?;
    let line = base.port.index_line(INDEX, run_id(1).as_str()).await?;
    holds("no index line", line.is_none(), line)
}

async fn of_many_creators_exactly_one_creates(base: &Base) -> Held {
    let outcomes =
        at_once(8, |i| block_on(base.port.create("laws/a.md", format!("creator {i}").as_bytes())))?;
    let outcomes = outcomes.into_iter().collect::<PortResult<Vec<_>>>()?;
    let created = outcomes.iter().filter(|o| **o == CreateOutcome::Created).count();
    let winner = outcomes.iter().position(|o| *o == CreateOutcome::Created).unwrap_or(8);
    equal("creators that created", 1, created)?;
    let expected = format!("creator {winner}");
    let found = base.port.read("laws/a.md").await?.map(|d| d.bytes);
    equal("the winner's bytes", Some(expected.clone().into_bytes()), found)?;
    let different = CreateOutcome::Different { found: Digest::of(expected.as_bytes()) };
    equal("losers that saw the winner", 7, outcomes.iter().filter(|o| **o == different).count())
}

async fn of_many_creators_of_the_same_bytes_one_creates(base: &Base) -> Held {
    let outcomes = at_once(8, |_| block_on(base.port.create("laws/a.md", b"same")))?;
    let outcomes = outcomes.into_iter().collect::<PortResult<Vec<_>>>()?;
    let count = |outcome| outcomes.iter().filter(|o| **o == outcome).count();
    let counted = (count(CreateOutcome::Created), count(CreateOutcome::Identical));
    equal("one created, the others found it identical", (1, 7), counted)
}

async fn listing_is_by_folder_and_in_byte_order(base: &Base) -> Held {
    for path in ["laws/x/b.md", "laws/x/a.md", "laws/x/deep/c.md", "laws/x2/d.md", "laws/e.md"] {
        base.port.create(path, b"text").await?;
    }
    let listed = base.port.list("laws/x").await?;
    let listed: Vec<&str> = listed.iter().map(alloc::string::String::as_str).collect();
    equal("documents below laws/x", Vec::from(["laws/x/a.md", "laws/x/b.md", "laws/x/deep/c.md"]), listed)
}

async fn a_path_that_leaves_the_base_is_refused(base: &Base) -> Held {
    for path in ["../out.md", "/etc/out.md", "laws/../../out.md", "laws//a.md", "laws/./a.md", "", "a\0b"] {
        let what = format!("creating {path:?}");
        refused(&what, &[PortErrorKind::Invalid], base.port.create(path, b"x").await)?;
    }
    Ok(())
}

async fn an_index_line_is_appended_once(base: &Base) -> Held {
    let kb = &*base.port;
    equal("the first line", AppendOutcome::Appended, append(kb, 1, "done").await?)?;
    equal("another run's", AppendOutcome::Appended, append(kb, 2, "done").await?)?;
    equal("the first again", AppendOutcome::AlreadyThere, append(kb, 1, "done").await?)?;
    let text = kb.read(INDEX).await?.map(|d| d.bytes).unwrap_or_default();
    let expected = format!("{}\n{}\n", line(1, "done"), line(2, "done"));
    equal("the whole index", expected.as_bytes(), text.as_slice())?;
    equal("the run's line", Some(line(2, "done")), kb.index_line(INDEX, run_id(2).as_str()).await?)
}

async fn another_line_of_the_same_run_conflicts(base: &Base) -> Held {
    let kb = &*base.port;
    append(kb, 1, "done").await?;
    let other = append(kb, 1, "done otherwise").await?;
    equal("another line", AppendOutcome::Conflict { found: line(1, "done") }, other)?;
    equal("the line", Some(line(1, "done")), kb.index_line(INDEX, run_id(1).as_str()).await?)
}

async fn a_line_break_in_a_line_is_refused(base: &Base) -> Held {
    let two = format!("{}\n{}", line(1, "a"), line(2, "b"));
    let result = base.port.append_index(INDEX, run_id(1).as_str(), &two).await;
    refused("two lines as one", &[PortErrorKind::Invalid], result)?;
    let found = base.port.index_line(INDEX, run_id(2).as_str()).await?;
    holds("nothing written", found.is_none(), found)
}

async fn of_many_appenders_every_line_stands_whole(base: &Base) -> Held {
    let results = at_once(8, |i| {
        let run = u8::try_from(i).unwrap_or(0) + 1;
        block_on(append(&*base.port, run, "done"))
    })?;
    for result in results {
        equal("an append", AppendOutcome::Appended, result?)?;
    }
    for run in 1..=8 {
        let found = base.port.index_line(INDEX, run_id(run).as_str()).await?;
        equal("a line", Some(line(run, "done")), found)?;
    }
    Ok(())
}
