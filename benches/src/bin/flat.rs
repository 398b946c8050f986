//! The same run with no other unit stored and with very many, in alternating pairs.
//!
//! Two databases of one durable server: an empty one, and one that holds the documents of
//! other runs, 500 units each, with everything that those runs would have left. `--stored N`
//! units (50,000 unless told), `--full` for 1,000,000; `--units N` of the run, `--rounds N`.
#![allow(clippy::panic, clippy::expect_used, clippy::unwrap_used, reason = "a benchmark")]

use cutter_benches::measured::{Pairs, ROUNDS, timed};
use cutter_benches::pg::{argument, fill, fresh_id, has};
use cutter_pg::testing::TestServer;
use cutter_tests::pg::{PgWorld, document_of};

fn main() {
    let units = argument("--units", 1_000);
    let rounds = argument("--rounds", ROUNDS);
    let stored = if has("--full") { 1_000_000 } else { argument("--stored", 50_000) };
    let server = TestServer::durable();
    let [empty, full] = [(); 2].map(|()| PgWorld::new(&server));
    let (time, held) = timed(|| fill(&full.database, stored));
    println!("stored {held} units of other documents in {:.0} s", time.as_secs_f64());
    let run = |world: &PgWorld| {
        let ports = world.ports();
        // A small run first: what a session or a cache learns once belongs to neither.
        let warm = fresh_id("LAW");
        world.register(&ports, &warm, &document_of(3, &warm));
        world.cut(&warm, || ports.clone());
        let id = fresh_id("LAW");
        world.register(&ports, &id, &document_of(units, &id));
        world.cut(&id, || ports.clone()).total
    };
    let pairs = Pairs::measure(rounds, || run(&full), || run(&empty));
    println!("a run of {units} units: {}", pairs.line(&format!("beside {held}"), "beside none", 1.2));
}
