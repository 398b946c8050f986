//! Marking stays linear: texts made to be slow, with every built-in profile and with every
//! kind of unit switched on. The whole sizes are judged by the benchmark `marking`; here the
//! same texts are smaller, and the time allowed is many times what linear work needs, so that
//! only square work misses it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "../../benches/src/hostile.rs"]
mod hostile;

use std::time::{Duration, Instant};

use cutter_core::address::DocumentId;
use cutter_core::detect::Profiles;
use cutter_core::mark::{MarkContext, MarkLimits, body_region, check_partition, marker_for};
use cutter_core::profile::{Format, Profile};

/// A quarter of the size: a sixteenth of square work, which still takes seconds.
const SCALE: usize = 4;
const ALLOWED: Duration = Duration::from_secs(4);

fn scale() -> usize {
    std::env::var("HOSTILE_SCALE").ok().and_then(|s| s.parse().ok()).unwrap_or(SCALE)
}

fn mark(profile: &Profile, text: &str) -> usize {
    let (id, limits) = (DocumentId::parse("X").unwrap(), MarkLimits::default());
    let context = MarkContext { document_id: &id, profile, limits: &limits };
    let region = body_region(text.as_bytes(), profile).unwrap();
    let marked = marker_for(profile).mark(text.as_bytes(), region, &context).unwrap();
    check_partition(region, marked.candidates.iter().map(|c| (c.start, c.end))).unwrap();
    marked.candidates.len()
}

#[test]
fn no_text_takes_square_time() {
    let only = std::env::var("HOSTILE_ONLY").unwrap_or_default();
    let mut slow = Vec::new();
    for name in Profile::names() {
        let mut profile = Profile::built_in(name).unwrap();
        if profile.format == Format::Xml || !name.contains(&only) {
            continue;
        }
        profile.deepest = None;
        for (what, text) in hostile::texts(name, scale()) {
            let started = Instant::now();
            let units = mark(&profile, &text);
            let took = started.elapsed();
            if took > ALLOWED / 40 {
                println!("{name:12} {what:50} {:6} ms {units} units", took.as_millis());
            }
            if took > ALLOWED {
                slow.push(format!("{name}: {what}: {took:?}"));
            }
        }
    }
    assert!(slow.is_empty(), "{}", slow.join("\n"));
}

#[test]
fn detection_takes_no_square_time() {
    let profiles = Profiles::built_in().unwrap();
    for name in ["markdown", "vn", "cn", "rst"] {
        for (what, text) in hostile::texts(name, SCALE) {
            let started = Instant::now();
            let found = profiles.detect(text.as_bytes());
            assert!(profiles.get(&found.profile).is_some(), "{}", found.profile);
            assert!(started.elapsed() < ALLOWED, "{name}: {what}: {:?}", started.elapsed());
        }
    }
}
