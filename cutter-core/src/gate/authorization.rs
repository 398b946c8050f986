//! SG_1, SG_2, SG_3: is this document a genuine, unused answer to exactly what was asked?
//!
//! One invariant per thing, so that a refused approval says what to change. A refusal by the
//! sovereign is a genuine answer and passes; what it decides is read from the proof
//! ([`crate::gate::verified::verify`]).

use alloc::borrow::ToOwned;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::base::digest::Digest;
use crate::base::fingerprint::normal_fingerprint;
use crate::machine::run::GateId;
use crate::record::approval::{self, ApprovalPolicy, Ask, FORMAT, SignaturePolicy, field};
use crate::record::check::invariant;
use crate::record::check::{ABSENT, Check, GateReport, Invariant};
use crate::record::signature::SignatureFacts;

const G: GateId = GateId::CutAuthz;

/// The invariants of an approval, the same at all three sovereign gates. Of the `approval.<field>`
/// ones, those are judged that the ask requires; a required field that is not listed here is
/// judged as `approval.<field>` all the same.
pub const INVARIANTS: &[Invariant] = &[
    invariant(
        "approval.signature",
        G,
        "one good signature, not later than now; unsigned only if the policy says optional",
        "D14, D15, DQ_2",
    ),
    invariant("approval.signer_pinned", G, "the signing key is pinned to one actor", "D14, D31"),
    invariant("approval.actor_matches_key", G, "the actor named is the one whose key signed", "D31"),
    invariant(
        "approval.expected_actor",
        G,
        "the actor named is the one who was asked, if one was",
        "spec 1 §3 SG_2",
    ),
    invariant(
        "approval.not_creator",
        G,
        "the approver is not the run's creator, neither by key nor by name",
        "D14, D31",
    ),
    invariant(
        "approval.well_formed",
        G,
        "the text is of the known format, dated, each field once, all of it visible",
        "D14",
    ),
    invariant(
        "approval.ask_complete",
        G,
        "what was asked names at least what its type needs, each on one line",
        "D14, PROTOCOL §5",
    ),
    invariant("approval.type", G, "approval_type is what was asked", "spec 1 §3 SG_2"),
    invariant("approval.gate", G, "gate is the gate that asked", "D14"),
    invariant("approval.occurrence", G, "occurrence is the occurrence that asked", "D14"),
    invariant("approval.decision", G, "decision is approve, defer or reject", "D32"),
    invariant("approval.run_id", G, "run_id is as asked", "D14"),
    invariant("approval.document_id", G, "document_id is as asked", "D14"),
    invariant("approval.source_version_id", G, "source_version_id is as asked", "spec 1 §3 SG_1"),
    invariant(
        "approval.writer_digest",
        G,
        "writer_digest is as asked",
        "spec 1 §4 IG_cut_leg_a_execute, D14",
    ),
    invariant("approval.rows_digest", G, "rows_digest is as asked", "DESIGN D39"),
    invariant("approval.manifest_digest", G, "manifest_digest is as asked", "spec 1 §3 SG_1"),
    invariant("approval.region_sha", G, "region_sha is as asked", "spec 1 §3 SG_1"),
    invariant("approval.base_state_sha", G, "base_state_sha is as asked", "D14, PROTOCOL §7"),
    invariant("approval.settings_sha256", G, "settings_sha256 is as asked", "DESIGN D37"),
    invariant("approval.policy_head", G, "policy_head is as asked", "DESIGN D37"),
    invariant("approval.approvals_needed", G, "approvals_needed is as asked", "TRUST §2"),
    invariant("approval.change_set_id", G, "change_set_id is as asked", "PROTOCOL §2 SG2"),
    invariant("approval.review_decision_id", G, "review_decision_id is as asked", "spec 1 §3 SG_2"),
    invariant("approval.unit_count", G, "unit_count is as asked", "PROTOCOL §2 SG2"),
    invariant("approval.unit_set_digest", G, "unit_set_digest is as asked", "PROTOCOL §2 SG2"),
    invariant("approval.stop", G, "stop is as asked", "PROTOCOL §5"),
    invariant("approval.stop_code", G, "stop_code is as asked", "PROTOCOL §5"),
    invariant("approval.observed_sha256", G, "observed_sha256 is as asked", "PROTOCOL §5"),
    invariant("approval.request_sha256", G, "request_sha256 is as asked", "D14"),
    invariant("approval.nonce", G, "nonce is the request's own", "D14"),
    invariant(
        "approval.request_unedited",
        G,
        "the request, read again, has the sha256 that was asked about",
        "spec 2 §8",
    ),
    invariant("approval.not_expired", G, "expires is never or later than now", "D14"),
    invariant(
        "approval.within_validity",
        G,
        "it is used within the hours that the policy gives an answer",
        "DESIGN D37",
    ),
    invariant("approval.single_use", G, "no effect of any run used it before", "D14"),
    invariant("approval.unedited", G, "the document was not edited after it was validated", "D14"),
];

/// What was observed of an approval, beside what was asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuthorizationFacts {
    /// What was asked.
    pub ask: Ask,
    /// Whose signature it is, and whether it is good.
    pub signature: SignatureFacts,
    /// Who may approve, and how.
    pub policy: ApprovalPolicy,
    /// Now.
    pub now: Timestamp,
    /// When the request was fixed, if it is known.
    pub requested_at: Option<Timestamp>,
    /// Fingerprint of the key that signed the run's creation.
    pub creator_fingerprint: String,
    /// Who created the run, by name.
    pub creator_actor: String,
    /// Did any effect or run use this document or its nonce before?
    pub used_before: bool,
    /// Does the document differ from what was validated earlier?
    pub edited_after_validation: bool,
    /// sha256 of the request as it stands now; `None` if it is not there.
    pub request_sha256_live: Option<Digest>,
    /// Nonces of all that the run ever asked.
    #[serde(default)]
    pub asked: BTreeSet<String>,
}

/// Judges a decision as it is stored; see [`super::stored_approval`].
pub use super::stored_approval::judge as judge_stored;

/// Judges an approval.
#[must_use]
pub fn judge(facts: &AuthorizationFacts) -> GateReport {
    let (text, signer, signed_at) = match &facts.signature {
        SignatureFacts::Good { text, fingerprint, signed_at } => {
            (Some(text.as_str()), Some(fingerprint.as_str()), Some(*signed_at))
        }
        SignatureFacts::Unsigned { text } => (Some(text.as_str()), None, None),
        SignatureFacts::Bad { .. } => (None, None, None),
    };
    let (fields, errors) = text.map_or_else(Default::default, approval::scan);
    let mut checks = Vec::new();
    let refuses =
        fields.get("decision").and_then(|d| approval::parse_verdict(d)).is_some_and(|d| !d.allows());
    signature(facts, signer, signed_at, &fields, refuses, &mut checks);
    checks.push(well_formed(text, &fields, &errors));
    checks.push(ask_complete(&facts.ask, refuses));
    let same =
        |id: &str, expected: &str, key: &str| Check::equal_some(id, &expected.to_owned(), fields.get(key));
    let ask = &facts.ask;
    checks.push(same("approval.type", &ask.approval_type, "approval_type"));
    checks.push(same("approval.gate", ask.gate.as_str(), "gate"));
    checks.push(same("approval.occurrence", &ask.occurrence.to_string(), "occurrence"));
    let decision = fields.get("decision").map_or(ABSENT, String::as_str);
    let decided = approval::parse_verdict(decision).is_some();
    checks.push(Check::new("approval.decision", "approve, defer or reject", decision, decided));
    for (key, value) in ask.ordered() {
        if !refuses || OF_A_REFUSAL.contains(&key) {
            checks.push(same(&format!("approval.{key}"), value, key));
        }
    }
    checks.push(request_unedited(facts, refuses));
    let expires = fields.get("expires").map_or(ABSENT, String::as_str);
    let live = expires == "never" || expires.parse::<Timestamp>().is_ok_and(|t| refuses || t > facts.now);
    let expected = match refuses {
        true => "never, or any time: a refusal does not expire".to_owned(),
        false => format!("never or after {}", facts.now),
    };
    checks.push(Check::new("approval.not_expired", expected, expires, live));
    checks.push(within_validity(facts, refuses));
    let said = |yes: bool, text: &'static str, other: &'static str| if yes { text } else { other };
    let used = said(facts.used_before, "used before", "unused");
    checks.push(Check::new("approval.single_use", "unused", used, !facts.used_before));
    let edited = said(facts.edited_after_validation, "edited", "unedited");
    // who turns an approval into a refusal means it
    let fine = refuses || !facts.edited_after_validation;
    checks.push(Check::new("approval.unedited", "unedited", edited, fine));
    GateReport::new(gate_of(ask), checks)
}

/// The gate that asks. An ask of a gate that asks nobody is judged as SG_3, the gate of everything
/// unusual; `approval.ask_complete` refuses it.
fn gate_of(ask: &Ask) -> GateId {
    if ask.gate.is_sovereign() { ask.gate } else { GateId::FailureEscalation }
}

fn signature(
    facts: &AuthorizationFacts,
    signer: Option<&str>,
    signed_at: Option<Timestamp>,
    fields: &BTreeMap<String, String>,
    refuses: bool,
    checks: &mut Vec<Check>,
) {
    let policy = &facts.policy;
    // a refusal is signed, whatever the policy
    let optional = policy.signature == SignaturePolicy::Optional && !refuses;
    let unsigned = matches!(facts.signature, SignatureFacts::Unsigned { .. });
    let excused = unsigned && optional;
    let observed = match &facts.signature {
        SignatureFacts::Good { fingerprint, signed_at, .. } => {
            format!("good, by {fingerprint}, made {signed_at}")
        }
        SignatureFacts::Unsigned { .. } => "unsigned".to_owned(),
        SignatureFacts::Bad { code, detail } => format!("{code}: {detail}"),
    };
    let made = format!("one good signature made by {}", facts.now);
    let expected = if optional { made + ", or none" } else { made };
    let good = signed_at.is_some_and(|t| t <= facts.now);
    checks.push(Check::new("approval.signature", expected, observed, good || excused));

    let actor = fields.get("actor").map_or("", String::as_str);
    let mut owners = signer.map(|s| policy.actors_of(s)).unwrap_or_default();
    let created = normal_fingerprint(&facts.creator_fingerprint);
    if refuses && owners.is_empty() && signer.is_some_and(|s| normal_fingerprint(s) == created) {
        // who began a run may refuse it
        owners.push(&facts.creator_actor);
    }
    let shown = if owners.is_empty() { "nobody".to_owned() } else { owners.join(", ") };
    if excused {
        let known = policy.approvers.iter().any(|a| a.actor == actor);
        let none = "unsigned, as the policy allows";
        checks.push(Check::new("approval.signer_pinned", none, none, true));
        checks.push(Check::new("approval.actor_matches_key", "a configured approver", actor, known));
    } else {
        let pinned = format!("{} of {shown}", signer.unwrap_or(ABSENT));
        checks.push(Check::new("approval.signer_pinned", "a key of one approver", pinned, owners.len() == 1));
        checks.push(Check::new("approval.actor_matches_key", shown, actor, owners.contains(&actor)));
    }
    checks.push(match &facts.ask.expected_actor {
        // where several must approve, the one who is expected is among them, and others besides
        Some(wanted) if !refuses && policy.needed == 1 => {
            Check::new("approval.expected_actor", wanted, actor, wanted == actor && !actor.is_empty())
        }
        _ => Check::new("approval.expected_actor", "any approver", actor, !actor.is_empty()),
    });
    checks.push(not_creator(facts, signer, actor, excused, refuses));
}

fn not_creator(
    facts: &AuthorizationFacts,
    signer: Option<&str>,
    actor: &str,
    excused: bool,
    refuses: bool,
) -> Check {
    let id = "approval.not_creator";
    if refuses {
        return Check::new(id, "anyone may refuse", actor, true);
    }
    if !facts.policy.approver_not_creator {
        return Check::new(id, "anyone, as the policy allows", actor, true);
    }
    let creator = normal_fingerprint(&facts.creator_fingerprint);
    let other_key = match signer {
        Some(s) => !creator.is_empty() && normal_fingerprint(s) != creator,
        None => excused,
    };
    // Persons are compared over all their keys: the creator's may be an approver's second one.
    let creators = facts.policy.people_of(&creator);
    let signers = signer.map(|s| facts.policy.people_of(s)).unwrap_or_default();
    let other_person = !creators.contains(&actor) && !signers.iter().any(|s| creators.contains(s));
    let other_name = !actor.is_empty() && actor != facts.creator_actor && other_person;
    let observed =
        format!("{} ({})", if actor.is_empty() { ABSENT } else { actor }, signer.unwrap_or("no key"));
    let expected = format!("other than {} ({creator})", facts.creator_actor);
    Check::new(id, expected, observed, other_key && other_name)
}

fn well_formed(
    text: Option<&str>,
    fields: &BTreeMap<String, String>,
    errors: &[approval::ApprovalParseError],
) -> Check {
    let id = "approval.well_formed";
    let mut found: Vec<String> = errors.iter().map(ToString::to_string).collect();
    if text.is_none() {
        found.push("no text that a good signature covers".to_owned());
    } else {
        // whoever reads only the bytes, as the database does, must read the same
        let otherwise = |key: &&String| {
            text.and_then(|text| approval::parse_field(text, key)) != fields.get(*key).map(String::as_str)
        };
        found
            .extend(fields.keys().filter(otherwise).map(|key| format!("{key}: it stands there in two ways")));
        if fields.get("format").is_none_or(|f| f != FORMAT) {
            found.push(format!("format: {}", fields.get("format").map_or(ABSENT, String::as_str)));
        }
        let dated = fields.get("signed_at").is_some_and(|t| t.parse::<Timestamp>().is_ok());
        if !dated {
            found.push(format!("signed_at: {}", fields.get("signed_at").map_or(ABSENT, String::as_str)));
        }
    }
    Check { expected: format!("{FORMAT}, dated, no fault"), ..Check::empty(id, &found) }
}

/// What a refusal must repeat: what it refuses. It counts whatever the request looked like to who refused
/// it, and allows nothing that the rest would name.
pub(crate) const OF_A_REFUSAL: [&str; 2] = [field::RUN_ID, field::NONCE];

/// What requests that were made before did not name.
const LATER_FIELDS: [&str; 3] = [field::ROWS_DIGEST, field::SETTINGS_SHA256, field::POLICY_HEAD];

/// A refusal allows nothing, so it may answer a request that was made before requests named all.
fn ask_complete(ask: &Ask, refuses: bool) -> Check {
    let id = "approval.ask_complete";
    let mut found = Vec::new();
    match Ask::minimum(&ask.approval_type) {
        Some(minimum) => found.extend(
            minimum
                .iter()
                .filter(|k| !(refuses && LATER_FIELDS.contains(k)))
                .filter(|k| ask.required.get(**k).is_none_or(String::is_empty))
                .map(|k| format!("{k} is not asked for")),
        ),
        None => found.push(format!("no such approval_type: {}", ask.approval_type)),
    }
    let fits = |v: &str| v.chars().all(approval::is_visible) && v.trim() == v;
    found.extend(
        ask.required.iter().filter(|(_, v)| !fits(v)).map(|(k, _)| format!("{k} is not one plain line")),
    );
    let writable = |k: &str| approval::is_key(k) && !approval::RESERVED.contains(&k);
    found.extend(ask.required.keys().filter(|k| !writable(k)).map(|k| format!("{k} cannot be a field")));
    if !ask.gate.is_sovereign() || ask.occurrence == 0 {
        found.push(format!("no such gate: {} occurrence {}", ask.gate, ask.occurrence));
    }
    Check { expected: "complete".into(), ..Check::empty(id, &found) }
}

/// Counted from the request, by the time at which it was fixed.
fn within_validity(facts: &AuthorizationFacts, refuses: bool) -> Check {
    let id = "approval.within_validity";
    let hours = match facts.policy.valid_hours {
        None => return Check::new(id, "no bound, as the policy says", "no bound", true),
        Some(_) if refuses => {
            return Check::new(id, "any time: a refusal does not expire", "a refusal", true);
        }
        Some(hours) => hours,
    };
    let age = facts.requested_at.map(|at| facts.now.duration_since(at).as_hours());
    let ok = age.is_some_and(|age| age >= 0 && age < i64::from(hours));
    let observed = age.map_or_else(|| ABSENT.to_owned(), |age| format!("{age} hours old"));
    Check::new(id, format!("less than {hours} hours after the request"), observed, ok)
}

fn request_unedited(facts: &AuthorizationFacts, refuses: bool) -> Check {
    let id = "approval.request_unedited";
    if refuses {
        return Check::new(id, "whatever became of the request", "a refusal", true);
    }
    match facts.ask.required.get(field::REQUEST_SHA256) {
        // a stop goes on even while its report is still owed to the knowledge base (PROTOCOL §2)
        Some(wanted) if facts.ask.gate == GateId::FailureEscalation => {
            Check::new(id, "the answer names the report", wanted.clone(), true)
        }
        Some(wanted) => Check::equal_some(id, wanted, facts.request_sha256_live.map(|d| d.to_hex()).as_ref()),
        None => Check::new(id, "no request document is named", "no request document is named", true),
    }
}

#[cfg(any(test, feature = "memory"))]
impl AuthorizationFacts {
    /// A clean answer at SG_1 that requires every known field.
    #[must_use]
    pub fn example() -> Self {
        let now: Timestamp = Timestamp::from_second(1_779_271_872).unwrap_or_default();
        let sha = |text: &str| Digest::of(text.as_bytes()).to_hex();
        let required: BTreeMap<String, String> = field::ALL
            .iter()
            .map(|key| {
                let value = match *key {
                    field::RUN_ID => "ictr-20260520T101112Z-0196ed9a-1c00-7000-8000-000000000001".to_owned(),
                    field::DOCUMENT_ID => "ICX-CONST".to_owned(),
                    field::SOURCE_VERSION_ID => "0196ed9a-1c00-7000-8000-000000000002".to_owned(),
                    field::CHANGE_SET_ID => "0196ed9a-1c00-7000-8000-000000000003".to_owned(),
                    field::REVIEW_DECISION_ID => "0196ed9a-1c00-7000-8000-000000000004".to_owned(),
                    field::UNIT_COUNT => "7".to_owned(),
                    field::STOP => "1".to_owned(),
                    field::STOP_CODE => "STOP_DRIFT_grants".to_owned(),
                    other => sha(other),
                };
                ((*key).to_owned(), value)
            })
            .collect();
        let ask = Ask {
            gate: GateId::CutAuthz,
            occurrence: 1,
            approval_type: approval::Purpose::Cut.to_string(),
            required,
            expected_actor: Some("sovereign".to_owned()),
            approval_path: "knowledge/dev/laws/icx-const/v1/SG1-cut-authz-approval-2026-05-20.md".to_owned(),
            request_path: "knowledge/dev/laws/icx-const/v1/SG1-cut-authz-request-2026-05-20.md".to_owned(),
        };
        let fingerprint = "AAAABBBBCCCCDDDDEEEEFFFF0000111122223333".to_owned();
        let extra = BTreeMap::from([("reason".to_owned(), "checked".to_owned())]);
        let verdict = crate::record::effect::ReviewVerdict::Approve;
        let text = approval::render_approval(&ask, verdict, "sovereign", now, None, &extra);
        let approver =
            approval::Approver { actor: "sovereign".to_owned(), fingerprint: fingerprint.to_lowercase() };
        Self {
            signature: SignatureFacts::Good { fingerprint, signed_at: now, text },
            policy: ApprovalPolicy { approvers: alloc::vec![approver], ..ApprovalPolicy::nobody() },
            now,
            requested_at: Some(now),
            creator_fingerprint: "99998888777766665555444433332222FFFFEEEE".to_owned(),
            creator_actor: "operator".to_owned(),
            used_before: false,
            edited_after_validation: false,
            request_sha256_live: Some(Digest::of(field::REQUEST_SHA256.as_bytes())),
            asked: BTreeSet::new(),
            ask,
        }
    }
}

#[cfg(test)]
#[path = "authorization_tests.rs"]
pub(crate) mod tests;
