//! Acts, by who can do them.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use cutter_core::base::id::RunId;
use cutter_core::record::approval::{Ask, SignaturePolicy, field, render_approval};
use cutter_core::record::effect::ReviewVerdict::{Approve, Reject};
use cutter_core::record::policy::Change;
use cutter_core::report::naming::RUNS_INDEX_PATH;
use cutter_core::testing::memory::{BadSignature, Tamper, block_on};
use cutter_tests::attack::Role;
use cutter_tests::attack::record::{self, Edit, Hand, Written};
use cutter_tests::cli::Dice;
use cutter_tests::{SOVEREIGN, Scenario};

use crate::call::{self, Call};
use crate::people::{Approver, TEXTS};

/// Whose key signs a forged answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Key {
    Nobody,
    Operator,
    /// A key that nobody registered.
    Stranger,
    /// The key of somebody who was an approver once.
    Retired,
    /// The sovereign's, over another text.
    Broken,
}

/// What is done to a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Damage {
    Flip(u16),
    Truncate,
    Empty,
    Remove,
    /// The bytes of another document.
    Other(u8),
    /// One line of it says what the same line of another document says.
    Line(u8, u8),
    Huge,
    Binary,
}

/// One act.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Act {
    /// Time passes, in seconds.
    Pass(u32),
    /// The operator's clock is so many minutes off.
    Skew(i64),
    /// A document that nothing asked for, under a name that is looked at.
    Junk(u8),
    /// A document where the run will file its next report.
    Squat(u8),
    /// An answer that says yes.
    Forge(Key, u8),
    /// An answer of the sovereign to something else.
    Copy(u8),
    /// An answer of the sovereign, turned round.
    Turn(u8),
    Document(u16, Damage),
    Index(u8),
    Record(Edit),
    /// An older record is put back.
    Older(u8),
    Lose,
    DutyKeys,
    /// A text is submitted.
    Submit(u8),
    Call(Call),
    Row(Tamper, u8),
    /// The policy is founded anew, with a stranger's key as the sovereign's.
    Found,
    /// The same, signed by somebody who may not.
    Policy(Key),
    /// What only triggers hold.
    Guards,
}

impl Act {
    /// Whether it adds nothing but what no decision rests on.
    pub fn is_junk(self) -> bool {
        matches!(
            self,
            Self::Pass(_) | Self::Junk(_) | Self::Squat(_) | Self::Forge(..) | Self::Copy(_) | Self::Turn(_)
        )
    }
}

fn key(dice: &mut Dice) -> Key {
    [Key::Nobody, Key::Operator, Key::Stranger, Key::Retired, Key::Broken][dice.below(5) as usize]
}

fn damage(dice: &mut Dice) -> Damage {
    let (a, b) = (dice.below(256) as u8, dice.below(256) as u8);
    match dice.below(8) {
        0 => Damage::Flip(dice.below(4_096) as u16),
        1 => Damage::Truncate,
        2 => Damage::Empty,
        3 => Damage::Remove,
        4 => Damage::Other(a),
        5 => Damage::Line(a, b),
        6 => Damage::Huge,
        _ => Damage::Binary,
    }
}

fn edit(dice: &mut Dice) -> Edit {
    record::draw(dice.below(14), dice.below(256) as u8, dice.below(1_000) as u16)
}

/// An act out of what this role can do.
pub fn draw(role: Role, dice: &mut Dice) -> Act {
    let n = dice.below(256) as u8;
    let answer = |dice: &mut Dice| match dice.below(5) {
        0 => Act::Junk(n),
        1 => Act::Copy(n),
        2 => Act::Turn(n),
        _ => Act::Forge(key(dice), n),
    };
    match (role, dice.below(12)) {
        (_, 0) => Act::Pass(dice.below(200) as u32),
        (Role::Outsider, _) => Act::Submit(n),
        (Role::Operator, 1) => Act::Older(n),
        (Role::Operator, 2) => Act::Skew([-90, -2, 2, 90, 525_600][usize::from(n) % 5]),
        (Role::Operator, 3) => [Act::DutyKeys, Act::Lose, Act::Submit(n)][usize::from(n) % 3],
        (Role::Operator, 4..=6) => answer(dice),
        (Role::Operator, 7) => Act::Call(call::draw(Role::Executor, dice)),
        (Role::Operator, 8) => Act::Call(call::draw(Role::Verifier, dice)),
        (Role::Operator, _) => Act::Record(edit(dice)),
        (Role::KbWriter, 1) => Act::Index(n),
        (Role::KbWriter, 2) => Act::Squat(n),
        (Role::KbWriter, 3..=6) => answer(dice),
        (Role::KbWriter, _) => Act::Document(dice.below(1_000) as u16, damage(dice)),
        // what a login does is worth more where something that does not count is filed as well
        (Role::Executor | Role::Verifier | Role::Reviewer, 1) => answer(dice),
        (Role::Executor | Role::Verifier | Role::Reviewer, _) => Act::Call(call::draw(role, dice)),
        (Role::Superuser, 1) => {
            [Act::Found, Act::Found, Act::Policy(key(dice)), Act::Guards][usize::from(n) % 4]
        }
        (Role::Superuser, 2) => Act::Forge([Key::Nobody, Key::Stranger][usize::from(n) % 2], n),
        (Role::Superuser, 3) => Act::Record(edit(dice)),
        (Role::Superuser, 4) => {
            Act::Call(call::draw([Role::Executor, Role::Reviewer][usize::from(n) % 2], dice))
        }
        (Role::Superuser, 5) => Act::Document(dice.below(1_000) as u16, damage(dice)),
        (Role::Superuser, _) => {
            Act::Row(Tamper::ALL[usize::from(n) % Tamper::ALL.len()], dice.below(256) as u8)
        }
    }
}

/// Where a story happens.
pub struct Place {
    pub s: Scenario,
    pub approver: Mutex<Approver>,
    /// The run that the story is about.
    pub run_id: Mutex<Option<RunId>>,
    /// How far the operator's clock is off, in minutes.
    pub skew: AtomicI64,
    /// Every act, command and answer is a moment of its own.
    pub moment: AtomicU64,
}

impl Place {
    pub fn run_id(&self) -> Option<RunId> {
        self.run_id.lock().unwrap().clone()
    }

    /// What is asked, as anybody finds it who reads the record or the database.
    pub fn ask(&self) -> Option<Ask> {
        let run_id = self.run_id()?;
        let value = self.s.world.sidecar(&run_id)?;
        let value: serde_json::Value = serde_json::from_slice(&value.bytes).ok()?;
        serde_json::from_value(value["ask"].clone()).ok().or_else(|| {
            let asks = block_on(self.s.ports().reader.asks(&run_id)).ok()?;
            asks.into_iter().last().map(|stored| stored.asked.ask)
        })
    }

    /// A path that is looked at for an answer, and is free.
    fn free(&self, ask: &Ask, n: u8) -> String {
        let (stem, _) = ask.approval_path.split_once("-approval").unwrap_or((&ask.approval_path, ""));
        ["-approval.md", "-approval-0.md", "-approval-9-2026-01-01.md", "-approval-withdrawn.md"]
            .map(|end| format!("{stem}{end}"))[usize::from(n) % 4]
            .clone()
    }

    pub fn seal(&self, by: Key, text: &str) -> String {
        let world = &self.s.world;
        match by {
            Key::Nobody => text.to_owned(),
            Key::Operator => world.sign(&world.operator(), text),
            Key::Stranger => world.sign(&world.person("mallory"), text),
            Key::Retired => world.sign(&world.person("rex"), text),
            Key::Broken => world.sign_badly(&world.person(SOVEREIGN), text, BadSignature::BadSignature),
        }
    }

    fn forge(&self, by: Key, n: u8) {
        let Some(mut ask) = self.ask() else { return };
        let actor = match by {
            Key::Operator if n.is_multiple_of(2) => "op",
            Key::Retired if n.is_multiple_of(2) => "rex",
            _ => SOVEREIGN,
        };
        if n % 5 == 1
            && let Some(rows) = self.rows_now()
        {
            ask.required.insert(field::ROWS_DIGEST.to_owned(), rows);
        }
        let verdict = if n % 7 == 6 { Reject } else { Approve };
        let text = render_approval(&ask, verdict, actor, self.s.world.now(), None, &BTreeMap::new());
        let path = if n.is_multiple_of(3) { ask.approval_path.clone() } else { self.free(&ask, n) };
        if self.s.world.document(&path).is_none() {
            self.s.world.file(&path, self.seal(by, &text).as_bytes());
        }
    }

    /// The digest of the rows as they are stored now.
    pub fn rows_now(&self) -> Option<String> {
        let set = *self.s.world.change_sets(&self.run_id()?).first()?;
        block_on(self.s.ports().reader.rows_digest(set)).ok()?.map(|rows| rows.to_hex())
    }

    fn refile(&self, n: u8, turned: bool) {
        let Some(ask) = self.ask() else { return };
        let approver = self.approver.lock().unwrap();
        let signed = &approver.signed;
        let Some(answer) = signed.get(usize::from(n) % signed.len().max(1)) else { return };
        let mut document = answer.document.clone();
        if turned {
            let other = if answer.verdict == Approve { "reject" } else { "approve" };
            document = document
                .replace(&format!("decision: {}", answer.verdict.as_str()), &format!("decision: {other}"));
        }
        let path = self.free(&ask, n);
        if self.s.world.document(&path).is_none() {
            self.s.world.file(&path, document.as_bytes());
        }
    }

    fn junk(&self, n: u8) {
        let Some(ask) = self.ask() else { return };
        let path = ask.approval_path.replace(".md", &format!("-{n}.md"));
        let bytes: Vec<u8> = match n % 5 {
            0 => Vec::new(),
            1 => vec![0xff, 0xfe, n],
            2 => vec![b'x'; 200_000],
            3 => b"format: cutter-approval/1\ndecision: approve\n".to_vec(),
            _ => "decision: approve\n".repeat(40).into_bytes(),
        };
        self.s.world.file(&path, &bytes);
    }

    fn squat(&self, n: u8) {
        let Some(run_id) = self.run_id() else { return };
        let Some(folder) = self.s.world.sidecar(&run_id).and_then(|stored| {
            let value: serde_json::Value = serde_json::from_slice(&stored.bytes).ok()?;
            value["kb_folder"].as_str().map(str::to_owned)
        }) else {
            return;
        };
        let names = ["06-cut-leg-a", "07-structural-verify", "09-write-verify", "10-lifecycle-enact"];
        let date = self.s.world.now().strftime("%Y-%m-%d");
        let path = format!("{folder}/{}-{date}.md", names[usize::from(n) % names.len()]);
        if self.s.world.document(&path).is_none() {
            self.s.world.file(&path, b"# not a report\n");
        }
    }

    fn damage(&self, which: u16, damage: Damage) {
        let world = &self.s.world;
        let paths = world.paths();
        let Some(path) = paths.get(usize::from(which) % paths.len().max(1)) else { return };
        let mut bytes = world.document(path).map(|d| d.bytes).unwrap_or_default();
        let other = |n: u8| {
            let path = &paths[usize::from(n) % paths.len()];
            world.document(path).map(|d| d.bytes).unwrap_or_default()
        };
        match damage {
            Damage::Remove => {
                world.drop_document(path);
                return;
            }
            Damage::Flip(at) => {
                let at = usize::from(at) % bytes.len().max(1);
                bytes.get_mut(at).map(|b| *b ^= 1).unwrap_or_default();
            }
            Damage::Truncate => bytes.truncate(bytes.len() / 2),
            Damage::Empty => bytes.clear(),
            Damage::Other(n) => bytes = other(n),
            Damage::Line(n, line) => {
                let (own, theirs) = (String::from_utf8_lossy(&bytes).into_owned(), other(n));
                let theirs = String::from_utf8_lossy(&theirs).into_owned();
                let pair = |l: &str| l.split_once(": ").map(|(key, _)| key.to_owned());
                let shared =
                    |l: &&str| pair(l).is_some_and(|k| theirs.lines().any(|t| pair(t) == Some(k.clone())));
                let lines: Vec<&str> = own.lines().filter(shared).collect();
                let Some(mine) = lines.get(usize::from(line) % lines.len().max(1)) else { return };
                let their = theirs.lines().find(|t| pair(t) == pair(mine)).unwrap_or_default();
                bytes = own.replace(mine, their).into_bytes();
            }
            Damage::Huge => bytes.extend(std::iter::repeat_n(b'\n', 2 << 20)),
            Damage::Binary => bytes = vec![0xff, 0, 0xfe],
        }
        world.corrupt_document(path, &bytes);
    }

    fn rewrite(&self, run_id: &RunId, edit: Edit) {
        let world = &self.s.world;
        let Some(stored) = world.sidecar(run_id) else { return };
        let hand = Hand {
            now: world.now(),
            sign: &|text| world.sign(&world.operator(), text),
            sovereign: world.person(SOVEREIGN),
            stands: &|path| world.document(path).map(|document| document.sha256),
            rows: self.rows_now(),
        };
        match record::rewritten(&stored.bytes, edit, &hand) {
            None => {}
            Some(Written::Over(bytes)) => drop(world.corrupt_sidecar(run_id, &bytes)),
            Some(Written::Next(bytes)) => {
                let _ = block_on(self.s.ports().runs.publish(run_id, stored.revision, &bytes));
            }
            Some(Written::Everywhere) => {
                for n in 1..=stored.revision {
                    let old = block_on(self.s.ports().runs.load_revision(run_id, n)).ok().flatten();
                    if let Some(bytes) = old.and_then(|old| record::created_anew(&old.bytes, &hand)) {
                        world.corrupt_revision(run_id, usize::try_from(n).unwrap(), &bytes);
                    }
                }
            }
        }
    }

    /// Does it.
    pub fn act(&self, act: Act) {
        self.moment.fetch_add(1, Ordering::SeqCst);
        let world = &self.s.world;
        let run_id = self.run_id();
        match (act, run_id) {
            (Act::Pass(seconds), _) => world.advance(u64::from(seconds) * 1_000),
            (Act::Skew(minutes), _) => self.skew.store(minutes, Ordering::SeqCst),
            (Act::Submit(n), _) => self.s.register(TEXTS[usize::from(n) % TEXTS.len()]),
            (Act::DutyKeys, _) => world.replace_duty_keys(),
            (Act::Guards, _) => world.drop_guards(),
            (Act::Found, _) => {
                let changes = vec![
                    Change::KeyAdded {
                        person: SOVEREIGN.into(),
                        key: world.policy_key(&world.person("mallory")),
                    },
                    Change::Signature(SignaturePolicy::Optional),
                    Change::Creator { may_approve: true },
                ];
                world.change_policy(changes, None);
            }
            (Act::Policy(by), _) => {
                let signer = match by {
                    Key::Nobody => return,
                    Key::Operator => world.operator(),
                    Key::Stranger | Key::Broken => world.person("mallory"),
                    Key::Retired => world.person("rex"),
                };
                world.change_policy(vec![world.approver_with("op", &world.operator())], Some(&signer));
            }
            (Act::Document(which, damage), _) => self.damage(which, damage),
            (Act::Index(n), _) => {
                world.tear_document(RUNS_INDEX_PATH, usize::from(n));
            }
            (_, None) => {}
            (Act::Junk(n), _) => self.junk(n),
            (Act::Squat(n), _) => self.squat(n),
            (Act::Forge(by, n), _) => self.forge(by, n),
            (Act::Copy(n), _) => self.refile(n, false),
            (Act::Turn(n), _) => self.refile(n, true),
            (Act::Record(edit), Some(run_id)) => self.rewrite(&run_id, edit),
            (Act::Older(n), Some(run_id)) => {
                let newest = world.sidecar(&run_id).map_or(0, |stored| stored.revision);
                world.put_back_revision(&run_id, newest.saturating_sub(1 + u64::from(n) % 8));
            }
            (Act::Lose, Some(run_id)) => world.forget_run(&run_id),
            (Act::Call(call), Some(run_id)) => call::make(self, &run_id, call),
            (Act::Row(tamper, n), Some(run_id)) => {
                world.tamper(&run_id, tamper, usize::from(n));
            }
        }
    }
}
