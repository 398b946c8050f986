#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
use cutter_core::crash::*;
use cutter_tests::story::*;
#[test]
fn scratch() {
    for plot in Plot::ALL {
        let story = Story::small(plot);
        let world = story.fresh();
        for i in 0..12 {
            let r = story.drive(&world, &story.ports(&world));
            let s = newest(&world.world).unwrap();
            println!(
                "{plot:?} {i} {r:?} state {} ask {:?} last {:?} stops {:?}",
                s.state,
                s.ask.as_ref().map(|a| (a.gate.clone(), a.occurrence)),
                s.last_error.as_ref().map(|e| &e.message),
                s.stops
                    .iter()
                    .map(|s| (s.code.clone(), s.resolved_by.is_some(), s.uploaded.is_some()))
                    .collect::<Vec<_>>()
            );
            println!("    considered {:?}", s.considered);
            if r == Ok(Step::Done) {
                break;
            }
        }
        if plot == Plot::Whole {
            println!(
                "{}",
                world
                    .world
                    .snapshot()
                    .lines()
                    .filter(|l| l.starts_with("information_unit"))
                    .map(|l| l[..300].to_string())
                    .collect::<Vec<_>>()
                    .join("\n")
            );
        }
        println!("{:#?}", world.world.paths());
    }
}
