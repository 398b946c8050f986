//! Signing an answer and filing it.

use std::collections::BTreeMap;
use std::io::{BufRead as _, IsTerminal as _};
use std::path::PathBuf;

use cutter_core::base::digest::Digest;
use cutter_core::base::id::RunId;
use cutter_core::gate::plain::{not_an_approval, refuses_plainly, refuses_what_nobody_asked, speaks_of};
use cutter_core::machine::run::GateId;
use cutter_core::operate::inspect::asked::{Asked, answer_name, nonces};
use cutter_core::port::PortErrorKind;
use cutter_core::port::knowledge_base::{CreateOutcome, KnowledgeBase};
use cutter_core::record::approval::{Ask, Purpose, allows, field, render_approval};
use cutter_core::record::effect::ReviewVerdict;
use cutter_core::record::policy::Chain;
use cutter_core::record::signature::SignatureFacts;
use cutter_core::report::naming::utc_date;
use cutter_kb::openpgp::KeyPair;
use cutter_kb::ports::KeyRing;
use futures_executor::block_on;
use jiff::{SignedDuration, Timestamp};
use serde::Serialize;

use super::RunFolder;
use crate::commands::verify::{observed, words};
use crate::config::Config;
use crate::context::Context;
use crate::failure::Failure;
use crate::render::{self, GOOD, HEAD, WARN, paint};
use crate::wire;

/// Free names are looked for this far.
const ATTEMPTS: u32 = 1000;

/// How to sign.
pub(crate) struct Signing {
    pub(crate) verdict: ReviewVerdict,
    pub(crate) key: Option<PathBuf>,
    pub(crate) unsigned: bool,
    pub(crate) expires: Option<String>,
    pub(crate) extra: BTreeMap<String, String>,
    /// Ask on a terminal before signing.
    pub(crate) ask_first: bool,
    /// The request that was read already.
    pub(crate) request_sha256: Option<Digest>,
}

/// A filed answer.
#[derive(Debug, Serialize)]
pub(crate) struct Answered {
    run_id: String,
    gate: GateId,
    #[serde(rename = "for")]
    purpose: String,
    decision: &'static str,
    /// Where it stands.
    pub(crate) approval_kb_id: String,
    sha256: String,
    actor: String,
    fingerprint: Option<String>,
    expires: Option<Timestamp>,
    voice_code: String,
    /// The report that says that the gate was passed before.
    #[serde(skip_serializing_if = "Option::is_none")]
    late: Option<String>,
    next: String,
}

impl Answered {
    pub(crate) fn people(&self) -> String {
        let mut text = format!("{} {} ({})\n", paint(GOOD, "filed"), self.decision, self.purpose);
        let unsigned = "unsigned".to_owned();
        text.push_str(&render::fields(&[
            ("document", &self.approval_kb_id),
            ("sha256", &self.sha256),
            ("actor", &self.actor),
            ("key", self.fingerprint.as_ref().unwrap_or(&unsigned)),
            ("voice code", &self.voice_code),
        ]));
        if let Some(passed) = &self.late {
            text.push_str(&format!("{} {}\n", paint(WARN, "late:"), is_late(passed)));
        }
        text.push_str(&format!("{} {}\n", paint(HEAD, "next:"), self.next));
        text
    }
}

fn is_late(passed: &str) -> String {
    format!(
        "the gate was passed ({passed}); an answer is kept and named by the run's closing and by verify, and decides nothing"
    )
}

/// Signs an answer to what is asked, and files it under the next free name.
pub(crate) fn answer(
    cx: &Context,
    config: &Config,
    kb: &dyn KnowledgeBase,
    folder: &RunFolder,
    asked: &Asked,
    signing: &Signing,
) -> Result<Answered, Failure> {
    let ask = &asked.ask;
    let now = wire::now();
    let expires = signing.expires.as_deref().map(|text| parse_expires(text, now)).transpose()?;
    if signing.unsigned && signing.verdict != ReviewVerdict::Approve {
        return Err(Failure::usage(
            "a refusal is signed, whatever the policy says: unsigned it counts for nothing",
        )
        .next(format!("cutter sovereign refuse --run-id {} --key FILE", folder.run_id)));
    }
    let pair = if signing.unsigned {
        None
    } else {
        Some(wire::load_pair(&key_file(config, signing, &folder.run_id)?)?)
    };
    // anybody may refuse; where several must approve, others may besides who is expected
    let is_only =
        signing.verdict == ReviewVerdict::Approve && !ask.required.contains_key(field::APPROVALS_NEEDED);
    let only = ask.expected_actor.as_deref().filter(|_| is_only);
    let actor = actor(cx, config, pair.as_ref(), ask.expected_actor.as_deref());
    let own = match &pair {
        Some(pair) if signing.verdict == ReviewVerdict::Approve => own_word(kb, folder, ask, pair)?,
        _ => None,
    };
    let now = match &own {
        Some((_, signed_at)) => later_than(*signed_at, now),
        None => now,
    };
    let taken_back = own.map(|(path, _)| path);
    match &taken_back {
        Some(path) => cx.out.note(format!(
            "{} it says plainly what {path} does not; whose approval is asked for is still needed",
            paint(WARN, "your word:")
        )),
        None => fits(config, pair.as_ref(), &actor, only, signing.verdict, &folder.run_id)?,
    }
    let text = render_approval(ask, signing.verdict, &actor, now, expires, &signing.extra);
    let late = folder.passed(asked).cloned();
    if let Some(passed) = &late {
        cx.out.note(format!("{} {}", paint(WARN, "late:"), is_late(passed)));
    }
    confirm(cx, asked, &text, signing)?;
    let document = match &pair {
        Some(pair) => pair
            .clearsign(&text, now)
            .map_err(|e| Failure::approval(format!("the answer cannot be signed: {e}")))?,
        None => text,
    };
    let path = file(kb, folder, asked, document.as_bytes(), now)?;
    let word = ask.word();
    let verb = if ask.is_for(Purpose::Void) { "void" } else { "resume" };
    Ok(Answered {
        run_id: folder.run_id.to_string(),
        gate: ask.gate,
        purpose: word.to_owned(),
        decision: signing.verdict.as_str(),
        sha256: Digest::of(document.as_bytes()).to_hex(),
        actor,
        fingerprint: pair.map(|p| p.fingerprint().to_string()),
        expires,
        voice_code: ask.voice_code(),
        next: match (&late, &taken_back) {
            (Some(_), _) => format!("cutter why --run-id {}", folder.run_id),
            (None, Some(_)) => format!("cutter orchestrate {verb} --run-id {}", folder.run_id),
            (None, None) => {
                format!("cutter orchestrate {verb} --run-id {} --approval-kb-id {path}", folder.run_id)
            }
        },
        late,
        approval_kb_id: path,
    })
}

/// `--key`, else the key of the one who acts, else that of the only sovereign.
fn key_file(config: &Config, signing: &Signing, run_id: &RunId) -> Result<PathBuf, Failure> {
    if let Some(path) = &signing.key {
        return Ok(path.clone());
    }
    let of = |name: &str| config.home.join("keys").join(format!("{name}.secret.asc"));
    let mut names: Vec<&String> = config.sovereigns().map(|(name, _)| name).collect();
    if let Some(own) = names.iter().find(|name| ***name == config.actor) {
        return Ok(of(own));
    }
    names.retain(|name| of(name).exists());
    match names.as_slice() {
        [only] => Ok(of(only)),
        _ => Err(Failure::approval("no key to sign with")
            .broken(
                "approval.key",
                "--key FILE, or one sovereign's key in the home",
                format!("{} keys", names.len()),
            )
            .next(format!("cutter sovereign approve --run-id {run_id} --key FILE"))),
    }
}

/// The name in the answer: it must be the one whose key signs.
fn actor(cx: &Context, config: &Config, pair: Option<&KeyPair>, expected: Option<&str>) -> String {
    if let Some(name) = &cx.overrides.actor {
        return name.clone();
    }
    let by_key = pair.and_then(|p| config.actor_of(p.fingerprint().as_str()).map(ToOwned::to_owned));
    // a key that this file does not name: the policy may, where its database is at hand
    let by_policy = || {
        let chain = wire::policy::chain(config).ok()?;
        Some(chain.now().key(pair?.fingerprint().as_str())?.person.clone())
    };
    by_key
        .or_else(by_policy)
        .or_else(|| expected.map(ToOwned::to_owned))
        .unwrap_or_else(|| config.actor.clone())
}

/// A document in which this key's owner said something about what is asked that is not plainly an approval: whoever
/// signed it may answer plainly, whether or not they are asked.
fn own_word(
    kb: &dyn KnowledgeBase,
    folder: &RunFolder,
    ask: &Ask,
    pair: &KeyPair,
) -> Result<Option<(String, Timestamp)>, Failure> {
    let ring = KeyRing::new(vec![pair.public()]);
    let own = pair.fingerprint().to_string();
    let is_own = |key: &str| (key == own).then(|| key.to_owned());
    let asked = nonces(&folder.asks);
    for path in &folder.paths {
        let Ok(Some(document)) = block_on(kb.read(path)) else { continue };
        let text = String::from_utf8_lossy(&document.bytes);
        if !speaks_of(&text, ask) && !refuses_what_nobody_asked(&text, ask, &asked) {
            continue;
        }
        let whole = observed(&ring, &Chain::default(), &document.bytes, wire::now())?;
        if matches!(&whole, SignatureFacts::Good { text, .. } if refuses_plainly(text, ask)) {
            continue;
        }
        let said = words(&ring, &Chain::default(), &document.bytes)?;
        let is_reply = |word: &SignatureFacts| not_an_approval(ask, &asked, word, is_own).is_some();
        let of = |word: &SignatureFacts| match word {
            SignatureFacts::Good { signed_at, .. } => Some((path.clone(), *signed_at)),
            _ => None,
        };
        if let Some(found) = said.iter().filter(|word| is_reply(word)).find_map(of) {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

/// Signatures are dated by the second, and only a later one takes a word back: the time after it, if that is near.
fn later_than(signed_at: Timestamp, now: Timestamp) -> Timestamp {
    if (0..=2).contains(&(signed_at.as_second() - now.as_second())) {
        let next = signed_at.as_second() + 1;
        while wire::now().as_second() < next {
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
        return wire::now();
    }
    now
}

/// Refuses what the gate would refuse, as far as it can be known here: an answer in another
/// name than the key's owner's, by someone else than was asked, or by one who may not approve.
fn fits(
    config: &Config,
    pair: Option<&KeyPair>,
    actor: &str,
    expected: Option<&str>,
    verdict: ReviewVerdict,
    run_id: &RunId,
) -> Result<(), Failure> {
    let next =
        format!("cutter sovereign approve --run-id {run_id} --key FILE   (the key of the one who is asked)");
    let refuse = |invariant: &str, expected: String, observed: String| {
        Err(Failure::approval("this answer would not be accepted; nothing was filed")
            .broken(invariant, expected, observed)
            .next(next.clone()))
    };
    if let Some(expected) = expected.filter(|expected| *expected != actor) {
        return refuse("approval.expected_actor", expected.to_owned(), actor.to_owned());
    }
    let Some(pair) = pair else { return Ok(()) };
    let fingerprint = pair.fingerprint();
    let owner = config.actor_of(fingerprint.as_str());
    if let Some(owner) = owner.filter(|owner| *owner != actor) {
        return refuse("approval.actor_matches_key", format!("{owner}, whose key signs"), actor.to_owned());
    }
    let known = config.sovereigns().next().is_some();
    let may = owner.is_some_and(|owner| config.sovereigns().any(|(name, _)| name.as_str() == owner));
    // A key that this file does not name may be an approver's all the same: the database decides.
    // Who began the run may refuse it, whoever they are.
    if verdict == ReviewVerdict::Approve && known && owner.is_some() && !may {
        return refuse("approval.signer_pinned", "a sovereign's key".to_owned(), fingerprint.to_string());
    }
    Ok(())
}

fn parse_expires(text: &str, now: Timestamp) -> Result<Timestamp, Failure> {
    let wrong = |observed: String| {
        Failure::usage("--expires cannot be used").broken(
            "approval.not_expired",
            "a later time such as 2026-06-01T00:00:00Z, or a span such as 2h",
            observed,
        )
    };
    let end = match text.parse::<Timestamp>() {
        Ok(end) => end,
        Err(_) => {
            let span: SignedDuration = text.parse().map_err(|_| wrong(text.to_owned()))?;
            now.checked_add(span).map_err(|_| wrong(text.to_owned()))?
        }
    };
    if end <= now { Err(wrong(end.to_string())) } else { Ok(end) }
}

/// What is signed is what was shown: the request is shown now, or the signer says which bytes were
/// read. Then the exact lines, and the question.
fn confirm(cx: &Context, asked: &Asked, text: &str, signing: &Signing) -> Result<(), Failure> {
    let observed = Digest::of(asked.text.as_bytes());
    let run = asked.ask.required.get("run_id").map_or("RUN", String::as_str);
    let word = asked.ask.word();
    match signing.request_sha256 {
        Some(read) if read != observed => {
            return Err(Failure::approval("the request is not the one that was read; nothing was signed")
                .broken("approval.request_sha256", read.to_string(), observed.to_string())
                .next(format!("cutter sovereign show --run-id {run} --for {word}")));
        }
        Some(_) => {}
        None => {
            cx.out.note(asked.text.trim_end());
            cx.out.note(format!("{} {observed}\n", paint(WARN, "request sha256")));
        }
    }
    let is_asked = std::io::stdin().is_terminal() && !cx.out.is_json();
    if !signing.ask_first || (!is_asked && signing.request_sha256.is_some()) {
        return Ok(());
    }
    if !is_asked {
        let verb = if signing.verdict == ReviewVerdict::Approve { "approve" } else { "refuse" };
        return Err(Failure::usage("there is no terminal to ask at; nothing was signed").next(format!(
            "cutter sovereign {verb} --run-id {run} --for {word} --request-sha256 {observed}   (or --yes)"
        )));
    }
    cx.out.note(format!("{}\n", text.trim_end()));
    cx.out.note(match signing.verdict {
        ReviewVerdict::Approve => allows(&asked.ask),
        ReviewVerdict::Defer => "Not now: allows nothing.".to_owned(),
        ReviewVerdict::Reject => "No: allows nothing.".to_owned(),
    });
    cx.out.note(format!("{} {}", paint(WARN, "voice code"), asked.ask.voice_code()));
    cx.out.note("Type yes to sign:");
    let mut line = String::new();
    let read = std::io::stdin().lock().read_line(&mut line);
    if read.is_ok() && line.trim() == "yes" {
        return Ok(());
    }
    Err(Failure::approval("nothing was signed").broken("approval.confirmed", "yes", line.trim().to_owned()))
}

/// Create-only: a document that stands there is never replaced.
fn file(
    kb: &dyn KnowledgeBase,
    folder: &RunFolder,
    asked: &Asked,
    document: &[u8],
    now: Timestamp,
) -> Result<String, Failure> {
    for attempt in 0..ATTEMPTS {
        let name = answer_name(&asked.ask, attempt, utc_date(now))
            .ok_or_else(|| Failure::internal(format!("no name for {}", asked.ask.approval_type)))?;
        let path = format!("{}/{name}", folder.folder);
        if folder.paths.contains(&path) {
            continue;
        }
        match block_on(kb.create(&path, document)) {
            Ok(CreateOutcome::Created | CreateOutcome::Identical) => return Ok(path),
            Ok(CreateOutcome::Different { .. }) => {}
            // a folder, a link or a pipe takes the name, too
            Err(error) if matches!(error.kind, PortErrorKind::Invalid | PortErrorKind::Corrupt) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(Failure::approval(format!("no free name after {ATTEMPTS} answers in {}", folder.folder)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_approval_ends_at_a_time_or_after_a_span_and_never_before_now() {
        let now: Timestamp = "2026-05-20T10:00:00Z".parse().unwrap();
        let end = |text: &str| parse_expires(text, now).map(|t| t.to_string());
        assert_eq!(end("2026-06-01T00:00:00Z").unwrap(), "2026-06-01T00:00:00Z");
        assert_eq!(end("2h").unwrap(), "2026-05-20T12:00:00Z");
        for wrong in ["soon", "", "2020-01-01T00:00:00Z", "-1h"] {
            assert_eq!(end(wrong).unwrap_err().exit.code(), 2, "{wrong}");
        }
    }
}
