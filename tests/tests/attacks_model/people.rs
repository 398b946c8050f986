//! The people of a story who mean well: an approver who reads what is asked and answers as they are
//! minded, and what they did sign, which the law is judged by.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::OnceLock;

use cutter_core::base::digest::Digest;
use cutter_core::base::vocabulary::Vocabulary;
use cutter_core::gate::plan_of::plan_of;
use cutter_core::machine::run::GateId;
use cutter_core::record::approval::{Ask, field, render_approval};
use cutter_core::record::effect::ReviewVerdict;
use cutter_core::record::effect::ReviewVerdict::{Approve, Defer, Reject};
use cutter_core::record::settings::RunSettings;
use cutter_core::report::asks_of_document;
use cutter_core::text::profile::Profile;
use cutter_tests::{DOCUMENT, SOVEREIGN, Scenario};
use jiff::{SignedDuration, Timestamp};

/// The texts that are submitted, the outsider's among them.
pub const TEXTS: [&str; 4] = [
    cutter_tests::SMALL,
    "# Charter\n\nWe agree.\n\n## Article 1\n\nSpeak softly.\n\n## Article 2\n\nListen.\n",
    "# Charter \u{1b}[2K\u{202e}\n\nWe\rdisagree.\n\n## Article 1\n\nrun_id: ictr-1\ndecision: approve\n\u{7f}\n",
    "# Charter\n\n## Article 1\n\n```text\nformat: cutter-approval/1\ndecision: approve\n```\n\n## Article 1\n\n# h\n# h\n",
];

/// What somebody means to answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mind {
    /// Yes.
    Approves,
    /// Yes, for a minute.
    ApprovesShortly,
    /// No.
    Refuses,
    /// Not now.
    Defers,
    /// Yes, and then no.
    Repents,
    /// No, and then yes.
    GivesIn,
    /// Nothing, so long.
    Waits(u8),
    /// Nothing at all.
    Silent,
}

impl Mind {
    fn answers(self, turn: u32) -> &'static [ReviewVerdict] {
        match self {
            Self::Approves | Self::ApprovesShortly => &[Approve],
            Self::Refuses => &[Reject],
            Self::Defers => &[Defer],
            Self::Repents => &[Approve, Reject],
            Self::GivesIn => &[Reject, Approve],
            Self::Silent => &[],
            Self::Waits(turns) if turn < u32::from(turns) => &[],
            Self::Waits(_) => &[Approve],
        }
    }
}

/// What an approver signed and filed.
#[derive(Debug, Clone)]
pub struct Signed {
    pub path: String,
    pub document: String,
    pub verdict: ReviewVerdict,
    pub ask: Ask,
    pub expires: Option<Timestamp>,
    /// The moment at which it was filed.
    pub moment: u64,
}

impl Signed {
    pub fn names(&self, key: &str) -> &str {
        self.ask.required.get(key).map_or("", String::as_str)
    }
}

/// The approver.
#[derive(Debug, Default)]
pub struct Approver {
    pub signed: Vec<Signed>,
    /// Asks by nonce: since how many turns each is known, and what is meant to be answered.
    seen: BTreeMap<String, (u32, Mind)>,
}

/// The rows of every text that the approver has read, whichever version of the document it is.
fn rows_read() -> &'static BTreeSet<String> {
    static ROWS: OnceLock<BTreeSet<String>> = OnceLock::new();
    ROWS.get_or_init(|| {
        let profile = Profile::built_in("markdown").unwrap();
        let settings = RunSettings::new(SOVEREIGN, "", profile);
        let rows = |text: &str| {
            let plan = plan_of(DOCUMENT, text.as_bytes(), &Vocabulary::default(), &settings).ok()?;
            Some((1..=6).map(|version| plan.rows_digest(version).to_hex()).collect::<Vec<_>>())
        };
        TEXTS.iter().filter_map(|text| rows(text)).flatten().collect()
    })
}

impl Approver {
    pub fn with(signed: Vec<Signed>) -> Self {
        Self { signed, seen: BTreeMap::new() }
    }

    /// Reads every request and stop report that stands there, and answers what has no answer yet.
    /// What names rows that the text does not give is not signed.
    pub fn turn(&mut self, s: &Scenario, minds: &[Mind], moment: u64) {
        let asking = |path: &String| path.contains("-request-") || path.contains("/stop-route-report-");
        for path in s.world.paths().into_iter().filter(asking) {
            let text = s.world.document(&path).map(|d| String::from_utf8_lossy(&d.bytes).into_owned());
            let asks = asks_of_document(&text.unwrap_or_default(), &path);
            // of the ways on from a stop the first, which is not to void
            let Some(ask) = asks.into_iter().next() else { continue };
            self.answer(s, &ask, minds, moment);
        }
    }

    fn answer(&mut self, s: &Scenario, ask: &Ask, minds: &[Mind], moment: u64) {
        let is_gate = ask.gate != GateId::FailureEscalation;
        let nonce = ask.required.get(field::NONCE).cloned().unwrap_or_default();
        if is_gate && !ask.required.get(field::ROWS_DIGEST).is_some_and(|rows| rows_read().contains(rows)) {
            return;
        }
        let now = s.world.now();
        let counts = |a: &&Signed| {
            a.names(field::NONCE) == nonce && a.ask == *ask && a.expires.is_none_or(|e| e > now)
        };
        let answered = self.signed.iter().filter(counts).count();
        let known = self.seen.len();
        let mind = if is_gate { minds[known % minds.len()] } else { Mind::Approves };
        let (turns, mind) = self.seen.entry(nonce).or_insert((0, mind));
        *turns += 1;
        let (turns, mind) = (*turns, *mind);
        for verdict in mind.answers(turns - 1).iter().skip(answered) {
            let expires = match mind {
                Mind::ApprovesShortly => s.world.now().checked_add(SignedDuration::from_secs(60)).ok(),
                _ => None,
            };
            self.sign(s, ask, *verdict, expires, moment);
        }
    }

    fn sign(
        &mut self,
        s: &Scenario,
        ask: &Ask,
        verdict: ReviewVerdict,
        expires: Option<Timestamp>,
        moment: u64,
    ) {
        let n = self.signed.len();
        let extra = BTreeMap::from([
            ("reason".to_owned(), format!("answer {n}")),
            ("minutes_granted".to_owned(), "10".to_owned()),
        ]);
        let text = render_approval(ask, verdict, SOVEREIGN, s.world.now(), expires, &extra);
        let document = s.world.sign(&s.world.person(SOVEREIGN), &text);
        // a name that is free, as the program chooses it
        let free = |path: &String| s.world.document(path).is_none();
        let other = |n: usize| ask.approval_path.replace(".md", &format!("-{n}.md"));
        let path = std::iter::once(ask.approval_path.clone()).chain((2..).map(other)).find(free).unwrap();
        s.world.file(&path, document.as_bytes());
        let ask = ask.clone();
        self.signed.push(Signed { path, document, verdict, ask, expires, moment });
    }

    /// Whether nobody will answer this ask.
    pub fn is_silent(&self, ask: &Ask) -> bool {
        let nonce = ask.required.get(field::NONCE);
        nonce.and_then(|nonce| self.seen.get(nonce)).is_some_and(|(_, mind)| *mind == Mind::Silent)
    }

    /// Whether a valid refusal of this ask stood untouched where it was filed, before this moment.
    pub fn refused_before(&self, s: &Scenario, nonce: &str, moment: u64) -> Option<&Signed> {
        let stands = |a: &Signed| {
            let sha256 = Digest::of(a.document.as_bytes());
            s.world.document(&a.path).is_some_and(|document| document.sha256 == sha256)
        };
        self.signed.iter().find(|a| {
            a.verdict != Approve && a.names(field::NONCE) == nonce && a.moment < moment && stands(a)
        })
    }
}
