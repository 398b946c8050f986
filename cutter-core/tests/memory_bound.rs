//! Planning and comparing take memory in proportion to the text, whatever stands in it: every byte that
//! is allowed at once is counted, the text's own among them. Alone in its process, for the counting
//! allocator sees everything.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "../../benches/src/hostile.rs"]
#[allow(unreachable_pub, dead_code)]
mod hostile;

use cutter_core::base::vocabulary::Vocabulary;
use cutter_core::text::address::DocumentId;
use cutter_core::text::compare::{Comparison, UnitFact};
use cutter_core::text::detect::{Detection, Profiles};
use cutter_core::text::mark::{MarkError, MarkLimits, Stop};
use cutter_core::text::plan::{CutPlan, PlanError, PlanInput, UnitTree};
use cutter_core::text::profile::{Format, Profile};
use peak_alloc::PeakAlloc;

#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;

/// The most memory, in multiples of the text.
const MOST: usize = 12;
/// A shorter text counts as one of so many bytes.
const LEAST_BYTES: usize = 2 << 20;

/// The bytes that `work` holds at once, at most, beyond what is held already.
fn peak(work: impl FnOnce()) -> usize {
    MEMORY.reset_peak_usage();
    let before = MEMORY.current_usage();
    work();
    MEMORY.peak_usage().saturating_sub(before)
}

/// What is over the bound, and by how much.
fn judge(what: &str, bytes: usize, peak: usize) -> Option<String> {
    let times = (peak + bytes) as f64 / bytes.max(LEAST_BYTES) as f64;
    if std::env::var_os("SHOW_MEMORY").is_some_and(|least| times > least.to_string_lossy().parse().unwrap()) {
        println!("{times:5.1} {what} ({bytes} bytes)");
    }
    (times > MOST as f64).then(|| format!("{what}: {times:.1} times its {bytes} bytes"))
}

fn plan(profile: &Profile, text: &[u8], limits: &MarkLimits) -> Result<CutPlan, PlanError> {
    CutPlan::build(&PlanInput {
        document_id: &DocumentId::parse("X").unwrap(),
        text,
        profile,
        vocabulary: &Vocabulary::default(),
        publication_type: None,
        depends_on: &[],
        limits,
        marker: None,
    })
}

#[test]
fn memory_is_in_proportion_to_the_text() {
    let profiles = Profiles::built_in().unwrap();
    let limits = MarkLimits { stop: Stop::AtDensity, ..MarkLimits::default() };
    let mut over = Vec::new();
    for name in ["markdown", "vn", "rst", "rfc-text", "akn"] {
        let mut profile = Profile::built_in(name).unwrap();
        profile.deepest = None;
        let is_xml = profile.format == Format::Xml;
        let texts = if is_xml { hostile::xml_texts(name, 4) } else { hostile::tiny(name, 1) };
        // An article before it matters where lines are its clauses, or its names.
        let wanted = |what: &str| ["vn", "markdown"].contains(&name) || !what.contains("an article of");
        for (what, text) in texts.into_iter().filter(|(what, _)| wanted(what)) {
            let work = || match plan(&profile, text.as_bytes(), &limits) {
                Ok(plan) => assert!(!UnitTree::new(&plan.rows).render().is_empty(), "{what}"),
                Err(PlanError::Mark(MarkError::TooDense { .. } | MarkError::Xml { .. })) => {}
                Err(other) => panic!("{name}, {what}: {other}"),
            };
            over.extend(judge(&format!("{name}, {what}"), text.len(), peak(work)));
            if name != "markdown" {
                continue;
            }
            let detected = peak(|| {
                let found = profiles.detect(text.as_bytes());
                let chosen = profiles.get(&found.profile).unwrap();
                let weighed = Detection::weigh(&found, chosen, None, text.as_bytes(), &limits);
                assert!(weighed.evidence.len() < 10);
            });
            over.extend(judge(&format!("detecting {what}"), text.len(), detected));
        }
    }
    // As many units as are followed at all, in a text that is not short.
    let units =
        |name: &dyn Fn(usize) -> String| (0..2 << 14).map(|i| unit_of_128(&name(i))).collect::<String>();
    for (what, text) in [("other", units(&|i| format!("w{i:x}"))), ("equal", units(&|_| "same".to_owned()))] {
        let profile = Profile::built_in("markdown").unwrap();
        let work = || {
            let plan = plan(&profile, text.as_bytes(), &limits).unwrap();
            assert_eq!(plan.rows.len(), 2 << 14);
            assert!(!UnitTree::new(&plan.rows).render().is_empty());
        };
        over.extend(judge(&format!("{what} units of 128 bytes"), text.len(), peak(work)));
    }
    for (what, old, new) in hostile::pairs(1) {
        let profile = Profile::built_in("markdown").unwrap();
        let work = || {
            let plans = [&old, &new].map(|text| plan(&profile, text.as_bytes(), &limits).unwrap());
            let (a, b) =
                (UnitFact::of_plan(&plans[0], old.as_bytes()), UnitFact::of_plan(&plans[1], new.as_bytes()));
            assert!(Comparison::between(&a, &b).entries().len() >= a.len());
        };
        over.extend(judge(&format!("two versions, {what}"), old.len() + new.len(), peak(work)));
    }
    assert!(over.is_empty(), "{}", over.join("\n"));
}

/// A unit of 128 bytes.
fn unit_of_128(name: &str) -> String {
    format!("# {name:124}\n\n")
}
