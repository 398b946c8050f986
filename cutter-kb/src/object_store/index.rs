//! The runs index: one create-only object per line, compacted for reading.
//!
//! An object cannot be appended to, and a read-change-write of one object loses lines unless
//! the store compares. So the line of a run is an object of its own, named after the run: to
//! create it is to append it, and no line is ever torn. The index document itself is a view
//! for people, refreshed after each append as well as it goes; reading it adds what it lacks.
//! Lines that only the view has (a folder's index that was copied here) count, too.

use bytes::Bytes;
use cutter_core::port::knowledge_base::{AppendOutcome, CreateOutcome};
use futures_util::{StreamExt as _, TryStreamExt as _};

use super::error::Fault;
use super::kb::put_new;
use super::place::{Place, check_path, hidden};
use crate::atomic_file::check_name;
use crate::folder::{MAX_DOCUMENT_BYTES, MAX_INDEX_LINE, is_line_of, line_start};
use ::object_store::PutMode;

const LINES: &str = ".lines";
/// Longest object of one line.
const LINE_BYTES: usize = 4 * MAX_INDEX_LINE + 1;
/// How often the view is tried while others refresh it.
const REFRESHES: u32 = 4;
const AT_ONCE: usize = 16;

pub(super) async fn append(
    place: &Place,
    path: &str,
    run_id: &str,
    line: &str,
) -> Result<AppendOutcome, Fault> {
    let at = line_path(path, run_id)?;
    let length = line.chars().count();
    if length > MAX_INDEX_LINE || line.chars().any(char::is_control) || !is_line_of(line, run_id) {
        let start = line_start(run_id);
        return Err(Fault::invalid(format!(
            "expected one line of at most {MAX_INDEX_LINE} characters that begins with {start:?}, observed {length}"
        )));
    }
    // a line that only the view has
    if place.read(&at, LINE_BYTES).await?.is_none()
        && let Some(found) = viewed(place, path, run_id).await?
    {
        return Ok(settled(line, found));
    }
    let outcome = match put_new(place, &at, Bytes::from(format!("{line}\n"))).await? {
        CreateOutcome::Created => AppendOutcome::Appended,
        CreateOutcome::Identical => AppendOutcome::AlreadyThere,
        CreateOutcome::Different { .. } => {
            let found = stored(place, &at).await?;
            settled(line, found.ok_or_else(|| Fault::unavailable("the line vanished while being read"))?)
        }
    };
    // the line stands; its place in the view can wait for the next append
    let _ = refresh(place, path).await;
    Ok(outcome)
}

pub(super) async fn line(place: &Place, path: &str, run_id: &str) -> Result<Option<String>, Fault> {
    match stored(place, &line_path(path, run_id)?).await? {
        Some(line) => Ok(Some(line)),
        None => viewed(place, path, run_id).await,
    }
}

/// The index document with every line that its view lacks; any other document as it is.
pub(super) async fn completed(place: &Place, path: &str, view: Bytes) -> Result<Bytes, Fault> {
    if !view.starts_with(b"- `") {
        return Ok(view);
    }
    let lacking = lacking(place, path, &view).await?;
    Ok(if lacking.is_empty() { view } else { merged(&view, &lacking) })
}

fn settled(line: &str, found: String) -> AppendOutcome {
    if found == line { AppendOutcome::AlreadyThere } else { AppendOutcome::Conflict { found } }
}

fn line_path(path: &str, run_id: &str) -> Result<String, Fault> {
    check_path(path)?;
    check_name(run_id).map_err(|why| Fault::invalid(format!("run id {run_id:?}: {why}")))?;
    Ok(hidden(path, LINES, run_id))
}

/// The line in its own object.
async fn stored(place: &Place, at: &str) -> Result<Option<String>, Fault> {
    let Some(read) = place.read(at, LINE_BYTES).await? else { return Ok(None) };
    let text = String::from_utf8_lossy(&read.bytes);
    Ok(Some(text.trim_end_matches(['\n', '\r']).to_owned()))
}

/// The run's line in the view.
async fn viewed(place: &Place, path: &str, run_id: &str) -> Result<Option<String>, Fault> {
    let Some(read) = place.read(path, MAX_DOCUMENT_BYTES).await? else { return Ok(None) };
    let text = String::from_utf8_lossy(whole(&read.bytes));
    Ok(text.lines().find(|line| is_line_of(line, run_id)).map(str::to_owned))
}

/// Without a tail that has no line ending.
fn whole(bytes: &[u8]) -> &[u8] {
    let end = bytes.iter().rposition(|b| *b == b'\n').map_or(0, |at| at + 1);
    bytes.get(..end).unwrap_or_default()
}

/// The lines of runs that the view does not name, in byte order of the runs.
async fn lacking(place: &Place, path: &str, view: &[u8]) -> Result<Vec<String>, Fault> {
    let text = String::from_utf8_lossy(whole(view)).into_owned();
    let named: std::collections::BTreeSet<&str> = text.lines().filter_map(run_of).collect();
    let all = place.list(&hidden(path, LINES, "")).await?;
    let missing = all.into_iter().filter(|at| !at.rsplit('/').next().is_some_and(|run| named.contains(run)));
    let read = futures_util::stream::iter(missing.map(|at| async move { stored(place, &at).await }));
    let lines: Vec<Option<String>> = read.buffered(AT_ONCE).try_collect().await?;
    Ok(lines.into_iter().flatten().collect())
}

fn run_of(line: &str) -> Option<&str> {
    line.strip_prefix("- `")?.split('`').next()
}

fn merged(view: &[u8], lacking: &[String]) -> Bytes {
    let mut bytes = whole(view).to_vec();
    for line in lacking {
        bytes.extend_from_slice(line.as_bytes());
        bytes.push(b'\n');
    }
    Bytes::from(bytes)
}

/// Brings the view up to date, against others that do the same.
async fn refresh(place: &Place, path: &str) -> Result<(), Fault> {
    for attempt in 0..REFRESHES {
        let current = place.read(path, MAX_DOCUMENT_BYTES).await?;
        let view = current.as_ref().map(|read| read.bytes.clone()).unwrap_or_default();
        let lacking = lacking(place, path, &view).await?;
        if lacking.is_empty() {
            return Ok(());
        }
        let bytes = merged(&view, &lacking);
        let mode = match current {
            None => PutMode::Create,
            Some(read) => PutMode::Update(read.version),
        };
        let is_update = matches!(mode, PutMode::Update(_));
        match place.put(path, bytes.clone(), mode).await {
            Err(Fault::Exists | Fault::NotFound) => place.pause(attempt).await,
            // a folder cannot compare; a line that this loses the next append adds again
            Err(Fault::NotDone { .. }) if is_update => {
                return place.put(path, bytes, PutMode::Overwrite).await;
            }
            other => return other,
        }
    }
    Ok(())
}
