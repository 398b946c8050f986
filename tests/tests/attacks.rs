//! Attack stories on a real database with real files, by the program and by SQL under each login. One
//! home is brought from gate to gate, and kept at each; a story puts one of these back, lets somebody do
//! what he can do with what he has, lets the people answer and the run go on, and judges what is stored
//! by what was really signed.
//!
//! `CUTTER_FULL=1` tells two hundred, else a dozen. `CUTTER_STORY=<seed>` tells one, and prints it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "attacks/files.rs"]
mod files;
#[path = "attacks/law.rs"]
mod law;
#[path = "attacks/sql.rs"]
mod sql;
#[path = "attacks/stage.rs"]
mod stage;

use std::collections::BTreeMap;
use std::io::Write as _;

use cutter_tests::attack::{Role, shrink};
use cutter_tests::cli::{Dice, Ran, is_full};

use crate::files::FileAct;
use crate::law::{broken, enacted};
use crate::sql::SqlAct;
use crate::stage::{STAGES, Theatre};

const ALL: u64 = 200;
const SLICE: u64 = 12;

/// One act.
#[derive(Debug, Clone, PartialEq)]
enum Act {
    File(FileAct),
    Sql(SqlAct),
}

/// What the people do when it is their turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mind {
    Approves,
    Refuses,
    Silent,
}

#[derive(Debug, Clone)]
struct Story {
    seed: u64,
    role: Role,
    stage: usize,
    mind: Mind,
    /// Before the people answer, before the run goes on, and after it did.
    moves: Vec<(usize, Act)>,
}

impl Story {
    fn of(seed: u64, theatre: &Theatre) -> Self {
        let mut dice = Dice::from_seed(seed.wrapping_mul(0x51ed) ^ 0xa77ac);
        let role = Role::ALL[seed as usize % Role::ALL.len()];
        let stage = dice.below(STAGES.len() as u64) as usize;
        let mind = [Mind::Approves, Mind::Approves, Mind::Refuses, Mind::Silent][dice.below(4) as usize];
        let mut moves = Vec::new();
        for turn in 0..3 {
            for _ in 0..dice.below(if turn == 0 { 4 } else { 3 }) {
                moves.push((turn, draw(role, theatre, &mut dice)));
            }
        }
        Self { seed, role, stage, mind, moves }
    }
}

fn draw(role: Role, theatre: &Theatre, dice: &mut Dice) -> Act {
    match (role, dice.below(4)) {
        (Role::Outsider, _) => Act::File(FileAct::Submit(dice.below(4) as u8)),
        (Role::KbWriter, _) => Act::File(files::of_kb_writer(dice)),
        (Role::Operator, 0) => {
            Act::Sql(sql::draw(theatre, ["cutter_exec", "cutter_verify"][dice.below(2) as usize], dice))
        }
        (Role::Operator, _) | (Role::Superuser, 0) => Act::File(files::of_operator(dice)),
        (Role::Executor, _) => Act::Sql(sql::draw(theatre, "cutter_exec", dice)),
        (Role::Verifier, 0) => {
            Act::Sql(sql::draw(theatre, ["cutter_ro", "directus"][dice.below(2) as usize], dice))
        }
        (Role::Verifier, _) => Act::Sql(sql::draw(theatre, "cutter_verify", dice)),
        (Role::Reviewer, _) => Act::Sql(sql::draw(theatre, "cutter_review", dice)),
        (Role::Superuser, _) => Act::Sql(sql::by_superuser(theatre, dice)),
    }
}

/// Tells a story; what is wrong with how it ended, if something is, and whether anything was enacted in it.
fn tell(theatre: &Theatre, story: &Story) -> (Option<String>, bool) {
    let mut signed = theatre.put_back(story.stage);
    let (d, run_id) = (&theatre.d, theatre.run_id.as_str());
    let begun = enacted(theatre);
    let act = |turn: usize| {
        for (_, act) in story.moves.iter().filter(|(t, _)| *t == turn) {
            match act {
                Act::File(act) => files::act(theatre, act),
                Act::Sql(act) => sql::act(theatre, act),
            }
        }
    };
    act(0);
    let mut refused = None;
    if let Some(what) = theatre.asks(story.stage) {
        let verb = match story.mind {
            Mind::Approves => "approve",
            Mind::Refuses => "refuse",
            Mind::Silent => "",
        };
        if !verb.is_empty() {
            let (ran, document) = theatre.answer(verb, what);
            signed.extend(document.clone());
            // whoever can take the document away again is heard by nobody
            let may_suppress = matches!(story.role, Role::KbWriter | Role::Superuser);
            refused = document.filter(|_| verb == "refuse" && ran.code == Some(0) && !may_suppress);
        }
    }
    let before = enacted(theatre);
    act(1);
    let mut ran = d.resume(run_id);
    if ran.state() == "awaiting_lifecycle_authorization" && story.mind == Mind::Approves {
        signed.extend(theatre.answer("approve", "lifecycle").1);
    }
    act(2);
    if matches!(ran.code, Some(0 | 3)) {
        ran = d.resume(run_id);
    }
    let wrong = broken(theatre, &signed);
    let newly = enacted(theatre) > before;
    let why = match story.role {
        Role::Superuser => wrong.and_then(|why| unnoticed(theatre, &why)),
        _ => wrong.or_else(|| {
            let overheard = refused.filter(|_| newly && theatre.asks(story.stage) == Some("lifecycle"));
            overheard.map(|_| "enacted although it was refused before the run went on".to_owned())
        }),
    };
    (why.map(|why| format!("{why}\nlast command: {}", said(&ran))), enacted(theatre) > begun)
}

fn said(ran: &Ran) -> String {
    format!("{:?} {} {}", ran.code, ran.state(), ran.text("/stop/reason"))
}

/// What a superuser did must be found by whoever brings the approvers' keys along.
fn unnoticed(theatre: &Theatre, why: &str) -> Option<String> {
    let key = theatre.sovereign_key();
    let verify = |run_id: &str| theatre.d.run(&["verify", "--run-id", run_id, "--approver", &key]);
    let is_found = [&theatre.run_id, &theatre.past].iter().any(|run_id| verify(run_id).code != Some(0));
    (!is_found).then(|| format!("{why}, and verify says that all holds"))
}

#[test]
fn whatever_one_of_them_does_nothing_is_enacted_without_a_valid_word() {
    let theatre = Theatre::new();
    if let Some(seed) = std::env::var("CUTTER_STORY").ok().and_then(|text| text.parse().ok()) {
        let story = Story::of(seed, &theatre);
        panic!("{story:#?}\n{:?}", tell(&theatre, &story));
    }
    let (mut broke, mut ends) = (Vec::new(), BTreeMap::new());
    let started = std::time::Instant::now();
    let n = if is_full() { ALL } else { SLICE };
    for seed in 0..n {
        let story = Story::of(seed, &theatre);
        let (why, is_enacted) = tell(&theatre, &story);
        *ends.entry((theatre.name(story.stage), is_enacted)).or_insert(0) += 1;
        if why.is_some() {
            let fails = |moves: &[(usize, Act)]| {
                tell(&theatre, &Story { moves: moves.to_vec(), ..story.clone() }).0.is_some()
            };
            let least = Story { moves: shrink(&story.moves, fails), ..story.clone() };
            let why = tell(&theatre, &least).0.unwrap_or_default();
            broke.push(format!("seed {}: {why}\n{least:#?}", story.seed));
        }
    }
    if is_full() {
        let (took, [accepted, refused]) = (started.elapsed(), theatre.sent.get());
        let _ = writeln!(
            std::io::stderr(),
            "attacks: {n} stories in {took:.0?}, {accepted} statements accepted, {refused} refused: {ends:?}"
        );
    }
    assert!(broke.is_empty(), "{} stories broke the law:\n{}", broke.len(), broke.join("\n\n"));
    for wanted in [true, false] {
        assert!(ends.keys().any(|(_, is_enacted)| *is_enacted == wanted), "all ended alike: {ends:?}");
    }
    let [accepted, refused] = theatre.sent.get();
    assert!(accepted > 0 && refused > 0, "{accepted} statements accepted, {refused} refused");
}

/// A law that cannot be broken is none: units that are called enacted before anybody allowed it.
#[test]
fn the_law_and_verify_notice_a_unit_that_nobody_enacted() {
    let theatre = Theatre::new();
    let signed = theatre.put_back(2);
    assert_eq!(broken(&theatre, &signed), None);
    sql::act(
        &theatre,
        &SqlAct {
            login: "cutter_admin".into(),
            script: vec![
                "SET session_replication_role = replica".into(),
                "UPDATE iu_core.information_unit SET lifecycle_status = 'enacted'".into(),
            ],
        },
    );
    let why = broken(&theatre, &signed).expect("the law is broken");
    assert!(why.contains("without a valid word"), "{why}");
    assert_eq!(unnoticed(&theatre, &why), None);
}
