//! How fast a document becomes a plan: beside its own sha256, beside another splitter, and
//! on texts made to be slow.
//!
//! `CUTTER_CORPUS=folder cargo run --release -p cutter-benches --bin marking [-- --check]`

use cutter_benches::{Corpus, Failure, Planner, judge, paired, speed, timed};
use cutter_core::digest::Digest;
use text_splitter::{ChunkConfig, MarkdownSplitter};

/// Pairs per comparison.
const ROUNDS: usize = 11;
/// A plan may take this many times as long as hashing its text once.
const MOST_HASHES: f64 = 18.0;
/// The other splitter must take at least this many times as long.
const LEAST_FACTOR: f64 = 3.0;
/// The other splitter is slow: it sees every third document of at most so many bytes. Both
/// sides of that comparison work on the same ones.
const SUBSET: (usize, usize) = (3, 400_000);
/// Every hostile text is planned in less.
const MOST_SECONDS: f64 = 1.0;
/// The most characters of the other splitter's pieces: as its manual has it, and four times
/// as many, which it takes more lightly. The target is for the worse of the two.
const PIECES: [usize; 2] = [1000, 4000];

fn main() -> Result<(), Failure> {
    let corpus = Corpus::read()?;
    let planner = Planner::new()?;
    let texts: Vec<&str> = corpus.documents.iter().map(|document| document.text.as_str()).collect();
    let bytes = corpus.bytes();
    println!("{} documents, {bytes} bytes; {} refused", texts.len(), corpus.refused.len());
    for document in &corpus.documents {
        planner
            .plan(document.text.as_bytes())
            .map_err(|error| Failure(format!("{}: {error}", document.path.display())))?;
    }
    let plan_all = |texts: &[&str]| {
        texts
            .iter()
            .filter_map(|text| planner.plan(text.as_bytes()).ok())
            .map(|plan| plan.rows.len())
            .sum::<usize>()
    };

    let hash_all = || texts.iter().map(|text| Digest::of(text.as_bytes())).max();
    let pairs = paired(ROUNDS, || plan_all(&texts), hash_all);
    let hashes = pairs.ratio();
    println!("plan          {} MB/s, {} units", speed(bytes, &pairs.first), plan_all(&texts));
    println!("sha256        {} MB/s", speed(bytes, &pairs.second));
    println!("plan time over sha256 time   {hashes}");

    let small = texts.iter().copied().filter(|text| text.len() <= SUBSET.1);
    let subset: Vec<&str> = small.step_by(SUBSET.0).collect();
    let subset_bytes = subset.iter().map(|text| text.len()).sum();
    println!("subset of {} documents, {subset_bytes} bytes", subset.len());
    let mut factor = f64::INFINITY;
    for piece in PIECES {
        let splitter = MarkdownSplitter::new(ChunkConfig::new(piece));
        let split_all = || subset.iter().map(|text| splitter.chunks(text).count()).sum::<usize>();
        let pairs = paired(ROUNDS, split_all, || plan_all(&subset));
        let factors = pairs.ratio();
        println!("text-splitter {} MB/s in pieces of {piece}", speed(subset_bytes, &pairs.first));
        println!("plan          {} MB/s", speed(subset_bytes, &pairs.second));
        println!("text-splitter time over plan time   {factors}");
        factor = factor.min(factors.median);
    }

    let mut slowest = 0f64;
    for (name, text) in hostile() {
        let mut rows = 0;
        let mut work = || rows = planner.plan(text.as_bytes()).map_or(0, |plan| plan.rows.len());
        // The best of three: what the text needs, not what else the machine is doing.
        let seconds = (0..3).map(|_| timed(&mut work).as_secs_f64()).fold(f64::INFINITY, f64::min);
        println!("{seconds:.3} s for {name}: {} bytes, {rows} units", text.len());
        if rows == 0 {
            return Err(Failure(format!("{name}: expected a plan, observed none")));
        }
        slowest = slowest.max(seconds);
    }
    judge(&[
        ("a plan takes at most 18 times its text's sha256", hashes.median <= MOST_HASHES),
        ("text-splitter takes at least 3 times as long", factor >= LEAST_FACTOR),
        ("every hostile text is planned in under a second", slowest < MOST_SECONDS),
    ])
}

/// Texts that a careless cut takes square time for.
fn hostile() -> Vec<(&'static str, String)> {
    let headings = |one: &dyn Fn(usize) -> String| (0..100_000).map(one).collect::<String>();
    vec![
        (
            "4 MB in one section",
            format!("# One\n\n{}", "A line of text as long as lines are.\n".repeat(4 << 20 >> 5)),
        ),
        ("100,000 headings", headings(&|i| format!("## Heading {i}\n\ntext\n"))),
        ("100,000 equal headings", "## Same\n\ntext\n".repeat(100_000)),
        ("100,000 articles", headings(&|i| format!("## Article {i}\n\ntext\n"))),
        ("100,000 underlined headings", headings(&|i| format!("Heading {i}\n-----\n\n"))),
        ("1 MB of #", "#".repeat(1 << 20)),
        ("1 MB of # lines", "#\n".repeat(1 << 19)),
        ("1 MB of [", "[".repeat(1 << 20)),
        ("1 MB of [ as a title", format!("# {}", "[".repeat(1 << 20))),
        ("1 MB of [ with odd line ends", format!("{}\r# x\r", "[".repeat(1 << 20))),
        ("1 MB of digits", "7".repeat(1 << 20)),
        ("1 MB of digits as a title", format!("# {}", "7".repeat(1 << 20))),
        ("1 MB of >", ">".repeat(1 << 20)),
        ("1 MB of `", "`".repeat(1 << 20)),
        ("1 MB of -", "-".repeat(1 << 20)),
        ("1 MB of <", "<".repeat(1 << 20)),
        ("1 MB of list marks", "- ".repeat(1 << 19)),
        ("1 MB of line ends", "\n".repeat(1 << 20)),
    ]
}
