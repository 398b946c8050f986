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

use cutter_benches::{Corpus, Failure, Planner, hostile, judge};

/// The documents that are measured are at least this large.
const LARGE: usize = 1_000_000;
/// The most memory above the base, in multiples of the document's size.
const MOST: f64 = 6.0;
/// The same of a text made to be costly.
const MOST_HOSTILE: f64 = 12.0;

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
    let hostile = hostile(base)?;
    judge(&[
        ("a plan takes at most 6 times its text's size above the base", worst <= MOST),
        ("of a hostile text at most 12 times", hostile <= MOST_HOSTILE),
    ])
}

/// The worst ratio of the hostile texts at full size that are large enough to be measured.
fn hostile(base: u64) -> Result<f64, Failure> {
    let mut worst = (0f64, String::new());
    for name in ["markdown", "vn", "rst", "rfc-text", "akn"] {
        let texts = if name == "akn" { hostile::xml_texts(name, 1) } else { hostile::texts(name, 1) };
        for (what, text) in texts.into_iter().filter(|(_, text)| text.len() >= LARGE) {
            let mut file = tempfile::NamedTempFile::new()?;
            file.write_all(text.as_bytes())?;
            file.flush()?;
            #[allow(clippy::cast_precision_loss)]
            let ratio = peak(file.path())?.saturating_sub(base) as f64 / text.len() as f64;
            if ratio > worst.0 {
                worst = (ratio, format!("{name}, {what}"));
            }
        }
    }
    println!("{:.2} times its size: the worst of the hostile texts ({})", worst.0, worst.1);
    Ok(worst.0)
}

/// Plans one file and prints the peak of this process in bytes.
fn child(path: &Path) -> Result<(), Failure> {
    let text = std::fs::read(path)?;
    // Refused is planned too: what counts is what it took.
    let units = Planner::new()?.plan(&text).map_or(0, |plan| plan.rows.len());
    let status = std::fs::read_to_string("/proc/self/status")?;
    let kilobytes = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB")?.parse::<u64>().ok())
        .ok_or_else(|| Failure("/proc/self/status: expected a line VmHWM, observed none".into()))?;
    println!("{} {}", kilobytes * 1024, units);
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
