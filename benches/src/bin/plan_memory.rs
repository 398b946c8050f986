//! How much memory a plan takes: the peak of a process that plans one large document, above
//! the peak of one that plans 1 KB, as a multiple of the document's size.
//!
//! `CUTTER_CORPUS=folder cargo run --release -p cutter-benches --bin plan_memory [-- --check]`
//!
//! Each document is planned in a process of its own, this program started again with
//! `--child FILE`, for a peak is never given back. The file's own bytes count.

use std::io::Write as _;
use std::path::Path;
use std::process::Command;

use cutter_benches::{Corpus, Failure, Planner, judge};

/// The documents that are measured are at least this large.
const LARGE: usize = 1_000_000;
/// The most memory above the base, in multiples of the document's size.
const MOST: f64 = 6.0;

fn main() -> Result<(), Failure> {
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next().is_some_and(|argument| argument == "--child") {
        let path = arguments.next().ok_or_else(|| Failure("--child: expected a file".into()))?;
        return child(Path::new(&path));
    }
    let corpus = Corpus::read()?;
    let mut small = tempfile::NamedTempFile::new()?;
    small.write_all("# Title\n\nA line of text.\n\n".repeat(40).as_bytes())?;
    small.flush()?;
    let base = peak(small.path())?;
    println!("{base} bytes for 1 KB");
    let mut worst = 0f64;
    let mut measured = 0;
    for document in corpus.documents.iter().filter(|document| document.text.len() >= LARGE) {
        let peak = peak(&document.path)?;
        #[allow(clippy::cast_precision_loss)]
        let ratio = peak.saturating_sub(base) as f64 / document.text.len() as f64;
        println!("{ratio:.2} times its size: {} ({} bytes)", document.path.display(), document.text.len());
        worst = worst.max(ratio);
        measured += 1;
    }
    if measured == 0 {
        return Err(Failure(format!(
            "the corpus holds no document of {LARGE} bytes or more: nothing measured"
        )));
    }
    judge(&[("a plan takes at most 6 times its text's size above the base", worst <= MOST)])
}

/// Plans one file and prints the peak of this process in bytes.
fn child(path: &Path) -> Result<(), Failure> {
    let text = std::fs::read(path)?;
    let plan = Planner::new()?.plan(&text)?;
    let status = std::fs::read_to_string("/proc/self/status")?;
    let kilobytes = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB")?.parse::<u64>().ok())
        .ok_or_else(|| Failure("/proc/self/status: expected a line VmHWM, observed none".into()))?;
    println!("{} {}", kilobytes * 1024, plan.rows.len());
    Ok(())
}

/// The peak of a child that plans `path`, in bytes.
fn peak(path: &Path) -> Result<u64, Failure> {
    let output = Command::new(std::env::current_exe()?).arg("--child").arg(path).output()?;
    let printed = String::from_utf8_lossy(&output.stdout);
    let number = printed.split(' ').next().and_then(|number| number.parse().ok());
    number.filter(|_| output.status.success()).ok_or_else(|| {
        let errors = String::from_utf8_lossy(&output.stderr);
        Failure(format!("{}: expected a peak from the child, observed {printed:?} {errors}", path.display()))
    })
}
