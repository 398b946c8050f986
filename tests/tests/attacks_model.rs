//! Attack stories on the model. A story is a seed: who attacks, a whole run with its people, and what
//! the attacker does at random moments of it. Whatever he does, no unit is enacted without the valid
//! word of somebody who may give it, for exactly these rows; what a superuser does is found by whoever
//! brings the approvers' keys along; and junk that no decision rests on holds nobody up for good.
//!
//! `CUTTER_FULL=1` tells a thousand of them, else a slice. `CUTTER_STORY=<seed>` tells one, and prints it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "attacks_model/act.rs"]
mod act;
#[path = "attacks_model/call.rs"]
mod call;
#[path = "attacks_model/kb.rs"]
mod kb;
#[path = "attacks_model/law.rs"]
mod law;
#[path = "attacks_model/people.rs"]
mod people;
#[path = "attacks_model/tell.rs"]
mod tell;
#[path = "attacks_model/walls.rs"]
mod walls;

use std::collections::BTreeMap;

use cutter_tests::attack::{Role, shrink};
use cutter_tests::cli::is_full;

use crate::tell::{Ending, Story, Told, tell};
use crate::walls::Wall;

const ALL: u64 = 1_000;
const SLICE: u64 = 140;

/// Tells a story; what breaks the law is cut down to the acts that it takes.
fn broken(story: &Story, wall: Option<Wall>) -> Option<String> {
    tell(story, wall).err()?;
    let moves = shrink(&story.moves, |moves| tell(&story.with(moves.to_vec()), wall).is_err());
    let least = story.with(moves);
    let why = tell(&least, wall).expect_err("it was cut down while it broke the law");
    Some(format!("seed {} ({:?}): {why}\n{least:#?}", story.seed, story.role))
}

#[test]
fn whatever_one_of_them_does_nothing_is_enacted_without_a_valid_word() {
    if let Some(seed) = std::env::var("CUTTER_STORY").ok().and_then(|text| text.parse().ok()) {
        let story = Story::of(seed);
        panic!("{story:#?}\n{:?}\n{:?}", tell(&story, None), broken(&story, None));
    }
    let mut broke = Vec::new();
    let mut told: BTreeMap<(String, Ending), usize> = BTreeMap::new();
    for seed in 0..if is_full() { ALL } else { SLICE } {
        let story = Story::of(seed);
        match tell(&story, None) {
            Ok(Told { ending, .. }) => *told.entry((format!("{:?}", story.role), ending)).or_default() += 1,
            Err(_) => broke.extend(broken(&story, None)),
        }
    }
    assert!(broke.is_empty(), "{} stories broke the law:\n{}", broke.len(), broke.join("\n\n"));
    // The stories are about something: of every role some come to their end, and some do not.
    for role in Role::ALL {
        let of = |ending| told.get(&(format!("{role:?}"), ending)).copied().unwrap_or_default();
        assert!(of(Ending::Enacted) > 0, "{role:?}: {told:?}");
    }
    let of = |ending| told.iter().filter(|((_, e), _)| *e == ending).map(|(_, n)| n).sum::<usize>();
    for ending in [Ending::Refused, Ending::Waiting, Ending::Stopped] {
        assert!(of(ending) > 0, "no story ended {ending:?}: {told:?}");
    }
}

/// Each wall taken down is found: a check that cannot fail is none.
#[test]
fn a_wall_that_is_taken_down_is_found_by_a_story() {
    for wall in Wall::ALL {
        let breaks =
            (0..ALL).map(Story::of).filter(|story| wall.is_against(story.role)).map(|s| wall.pressed(s));
        let found =
            breaks.map(|story| (story.seed, tell(&story, Some(wall)))).find(|(_, told)| told.is_err());
        let (seed, why) = found.unwrap_or_else(|| panic!("{wall:?}: no story noticed"));
        let why = why.unwrap_err();
        assert!(why.contains(wall.breaks()), "{wall:?}, seed {seed}: {why}");
    }
}
