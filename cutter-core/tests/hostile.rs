//! Marking stays linear: texts made to be slow, with every built-in profile and with every
//! kind of unit switched on. The whole sizes are judged by the benchmark `marking`; here the
//! same texts are smaller, and the time allowed is many times what linear work needs, so that
//! only square work misses it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "../../benches/src/hostile.rs"]
#[allow(unreachable_pub, dead_code)]
mod hostile;

use std::time::{Duration, Instant};

use cutter_core::text::address::DocumentId;
use cutter_core::text::detect::Profiles;
use cutter_core::text::mark::{MarkContext, MarkError, MarkLimits, body_region, check_partition, marker_for};
use cutter_core::text::profile::{Format, Profile};

/// Texts of this part of the whole size are marked first.
const SCALE: usize = 16;
/// One that takes longer is looked at closely, with a quarter of it beside.
const SUSPECT: Duration = Duration::from_millis(100);
/// Four times the text takes four times as long; square work sixteen times.
const MOST_RATIO: f64 = 9.0;

fn mark(profile: &Profile, text: &str) -> usize {
    let (id, limits) = (DocumentId::parse("X").unwrap(), MarkLimits::default());
    let context = MarkContext { document_id: &id, profile, limits: &limits };
    let region = body_region(text.as_bytes(), profile).unwrap();
    let marked = match marker_for(profile).mark(text.as_bytes(), region, &context) {
        Err(MarkError::Xml { .. }) if profile.format == Format::Xml => return 0,
        marked => marked.unwrap(),
    };
    check_partition(region, marked.candidates.iter().map(|c| (c.start, c.end))).unwrap();
    marked.candidates.len()
}

/// So often both are timed before a text is called slow: other work on the machine passes, square work
/// does not.
const ROUNDS: usize = 12;

fn seconds(work: &dyn Fn()) -> f64 {
    let started = Instant::now();
    work();
    started.elapsed().as_secs_f64()
}

/// The shortest times of a text and of a quarter of it, if they speak of square work in every round.
fn square(mut whole: impl FnMut() -> f64, mut part: impl FnMut() -> f64) -> Option<(f64, f64)> {
    let mut least = (f64::INFINITY, f64::INFINITY);
    for _ in 0..ROUNDS {
        least = (least.0.min(whole()), least.1.min(part()));
        if least.0 <= SUSPECT.as_secs_f64() / 2.0 || least.0 <= least.1 * MOST_RATIO {
            return None;
        }
    }
    Some(least)
}

/// What takes more than linear time, of texts by their scale. `work` is done to each of them.
fn suspects(texts: &dyn Fn(usize) -> Vec<hostile::Hostile>, work: &dyn Fn(&str)) -> Vec<String> {
    let mut found = Vec::new();
    for (i, (what, text)) in texts(SCALE).into_iter().enumerate() {
        let started = Instant::now();
        work(&text);
        if started.elapsed() < SUSPECT {
            continue;
        }
        let (name, quarter) = texts(SCALE * 4).swap_remove(i);
        assert_eq!(name, what);
        if let Some((whole, part)) = square(|| seconds(&|| work(&text)), || seconds(&|| work(&quarter))) {
            found.push(format!(
                "{what}: {part:.3} s for {}, {whole:.3} s for {} bytes",
                quarter.len(),
                text.len()
            ));
        }
    }
    found
}

#[test]
fn square_work_is_called_so_and_noise_is_not() {
    assert_eq!(square(|| 1.6, || 0.1), Some((1.6, 0.1)));
    assert_eq!(square(|| 0.4, || 0.1), None);
    assert_eq!(square(|| 0.04, || 0.001), None, "too short to be judged");
    // Ten rounds beside other work, and then one without.
    let mut times = [1.2; ROUNDS - 2].into_iter().chain([0.4, 0.4]);
    assert_eq!(square(|| times.next().unwrap(), || 0.1), None);
}

#[test]
fn no_text_takes_square_time() {
    let mut slow = Vec::new();
    for name in Profile::names() {
        let mut profile = Profile::built_in(name).unwrap();
        profile.deepest = None;
        let texts = if profile.format == Format::Xml { hostile::xml_texts } else { hostile::texts };
        let work = |text: &str| assert!(mark(&profile, text) > 0 || profile.format == Format::Xml);
        let found = suspects(&|scale| texts(name, scale), &work);
        slow.extend(found.into_iter().map(|what| format!("{name}: {what}")));
    }
    assert!(slow.is_empty(), "{}", slow.join("\n"));
}

#[test]
fn detection_takes_no_square_time() {
    let profiles = Profiles::built_in().unwrap();
    for name in ["markdown", "vn", "cn", "rst"] {
        let work = |text: &str| assert!(profiles.get(&profiles.detect(text.as_bytes()).profile).is_some());
        let slow = suspects(&|scale| hostile::texts(name, scale), &work);
        assert!(slow.is_empty(), "{name}: {}", slow.join("\n"));
    }
}
