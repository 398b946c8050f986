#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
use cutter_core::crash::*;
use cutter_tests::story::*;
#[test]
fn scratch() {
    let story = Story::small(Plot::Whole);
    let docs = |k: u64| {
        let world = story.fresh();
        let (_, life) = FaultyPorts::wrap(story.ports(&world), if k==0 {Plan::none()} else {Plan::at(k, Strike::DieAfter)});
        let ports = life.wrap(story.ports(&world));
        let _ = story.drive(&world, &ports);
        while let Ok(Step::More) = story.drive(&world, &story.ports(&world)) {}
        world.world.paths().into_iter().map(|p| (p.clone(), String::from_utf8(world.world.document(&p).unwrap().bytes).unwrap())).collect::<Vec<_>>()
    };
    let t = std::time::Instant::now();
    let a = docs(0);
    println!("one run {:?}", t.elapsed());
    let b = docs(7);
    for ((p, x), (q, y)) in a.iter().zip(&b) {
        assert_eq!(p, q);
        for (l, r) in x.lines().zip(y.lines()) { if l != r { println!("{p}\n - {l}\n + {r}"); } }
    }
}
