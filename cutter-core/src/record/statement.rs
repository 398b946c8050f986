//! What a run says of itself once its units are in force: an in-toto Statement v1 in a DSSE envelope,
//! signed by both duties.
//!
//! ```text
//! subject    text                sha256
//!            units               cutterRowsV1: the root that the approvers signed (`crate::record::rows`)
//! predicate  document, version, run, in force since
//!            allowed: who, at which gate, with which answer (sha256)
//!            previous: the version before, with its root
//!            tables: the digest of the run's rows in each table, as they stood then
//!            pins: what the run's record had fixed
//!            documents: sha256 of what it had filed before its final report
//! ```
//!
//! The body is canonical JSON and follows from what is stored, so that a process which died over it
//! makes the same one again. It is stored once, and nothing is added to it: a reader of this version
//! passes over members that it does not know, which is where a log of the document's versions will
//! stand.

use alloc::borrow::ToOwned;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use base64ct::{Base64, Encoding as _};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::base::canonical::{CanonicalError, to_canonical};
use crate::base::digest::Digest;
use crate::machine::run::GateId;
use crate::record::effect::{EffectRecord, Verdict};
use crate::record::evidence::RunRows;
use crate::record::observed::{Lifecycle, VersionCut};
use crate::record::sidecar::ApprovalRecord;
use crate::record::stored_statement::StatementSignature;

/// The type of the statement.
pub const STATEMENT_TYPE: &str = "https://in-toto.io/Statement/v1";
/// The type of the envelope's payload.
pub const PAYLOAD_TYPE: &str = "application/vnd.in-toto+json";
/// The type of the predicate: what its members mean.
pub const PREDICATE_TYPE: &str = "urn:cutter:in-force:1";
/// The name of the digest of the units: the root of an RFC 6962 tree, and no sha256 of any file.
pub const ROWS_V1: &str = "cutterRowsV1";

/// Gates whose answers stand in a statement.
const GATES: [GateId; 2] = [GateId::CutAuthz, GateId::LifecycleAuthz];

/// The rows of a run in one table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TableDigest {
    /// How many.
    pub rows: u64,
    /// sha256 over their canonical texts, in byte order, each followed by `\n`.
    pub sha256: Digest,
}

/// Columns that may still move once a run is closed, by table.
pub const MOVING: &[(&str, &[&str])] = &[
    // who drives: each process that takes the run up raises it
    ("run_fence", &["epoch", "holder", "backend_pids", "taken_at"]),
];

/// The digest of a run's rows in each table. A column that is NULL is as one that is not there: so a
/// column that a later schema adds changes no digest of before. Answers that came late and answers to
/// stops are left out: they may still come, while the statement is on its way and after it.
///
/// # Errors
/// [`CanonicalError`] for a number that JSON does not keep exact.
pub fn table_digests(rows: &RunRows) -> Result<BTreeMap<String, TableDigest>, CanonicalError> {
    let mut digests = BTreeMap::new();
    for (table, rows) in &rows.0 {
        let moving = MOVING.iter().find(|(name, _)| name == table).map_or(&[][..], |(_, columns)| columns);
        let mut lines = Vec::with_capacity(rows.len());
        for row in rows.iter().filter(|row| !may_still_come(row)) {
            let kept = row
                .iter()
                .filter(|(column, value)| !value.is_null() && !moving.contains(&column.as_str()))
                .map(|(column, value)| (column.clone(), value.clone()));
            lines.push(to_canonical(&Value::Object(kept.collect()))?);
        }
        lines.sort();
        let text: String = lines.iter().flat_map(|line| [line.as_str(), "\n"]).collect();
        let digest = TableDigest { rows: lines.len() as u64, sha256: Digest::of(text.as_bytes()) };
        digests.insert(table.clone(), digest);
    }
    Ok(digests)
}

/// Whether a row is one that a run takes up to its very end: a late answer, or what a stop's answer left.
fn may_still_come(row: &BTreeMap<String, Value>) -> bool {
    let says = |column: &str, words: &[&str]| {
        row.get(column).and_then(Value::as_str).is_some_and(|word| words.contains(&word))
    };
    row.get("late") == Some(&Value::Bool(true))
        || says("type", &["stop_resume", "drift_ack", "void"])
        || says("effect", &["sg3_review"])
}

/// The version before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Before {
    /// Its number.
    pub version: i32,
    /// The root of its units.
    pub rows: Digest,
}

/// What a statement is made of: read from what is stored, when it is made and when it is checked.
#[derive(Debug, Clone)]
pub struct Material<'a> {
    /// The run.
    pub run_id: &'a str,
    /// The document.
    pub document_id: &'a str,
    /// The version that was cut: 1, 2, …
    pub version: &'a str,
    /// sha256 of its text.
    pub source_sha256: Digest,
    /// The root of its units, as they are stored.
    pub rows_digest: Digest,
    /// How many units.
    pub units: u64,
    /// The effect that enacted them.
    pub enacted: Option<&'a EffectRecord>,
    /// Its rows.
    pub rows: &'a RunRows,
    /// The answers that the run took.
    pub approvals: &'a [ApprovalRecord],
    /// The version that was in force before, if there was one.
    pub before: Option<Before>,
    /// What no row holds. An earlier program's statements lack it.
    pub recorded: Option<Recorded>,
}

/// Why no statement can be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unmade {
    /// Nothing is in force.
    #[error("the database holds no enactment of run {0}")]
    NotEnacted(String),
    /// A number that JSON does not keep exact.
    #[error(transparent)]
    Canonical(#[from] CanonicalError),
}

impl Material<'_> {
    /// The body: canonical JSON.
    ///
    /// # Errors
    /// [`Unmade`].
    pub fn body(&self) -> Result<String, Unmade> {
        let enacted = self.enacted.filter(|e| e.verdict == Verdict::Commit);
        let since = enacted.ok_or_else(|| Unmade::NotEnacted(self.run_id.to_owned()))?.at;
        let mut predicate = json!({
            "document": self.document_id,
            "version": self.version,
            "run": self.run_id,
            "units": self.units,
            "inForceSince": since.to_string(),
            "allowed": GATES.into_iter().filter_map(|gate| self.word(gate)).collect::<Vec<Value>>(),
            "tables": table_digests(self.rows)?,
        });
        let previous = self.before.as_ref().map(|before| {
            let rows = json!({ ROWS_V1: before.rows.to_hex() });
            json!({ "version": before.version.to_string(), "digest": rows })
        });
        let others = [
            ("previous", previous),
            ("pins", self.recorded.as_ref().map(|recorded| json!(recorded.pins))),
            ("documents", self.recorded.as_ref().map(|recorded| json!(recorded.documents))),
        ];
        for (name, value) in others {
            if let (Some(members), Some(value)) = (predicate.as_object_mut(), value) {
                members.insert(name.to_owned(), value);
            }
        }
        Ok(to_canonical(&json!({
            "_type": STATEMENT_TYPE,
            "subject": subjects(&self.source_sha256, &self.rows_digest),
            "predicateType": PREDICATE_TYPE,
            "predicate": predicate,
        }))?)
    }

    /// The answer that opened a gate: the last one there.
    fn word(&self, gate: GateId) -> Option<Value> {
        let answer = self.approvals.iter().rfind(|a| a.gate == gate && a.decision.allows())?;
        let mut word = json!({
            "gate": gate,
            "actor": answer.actor,
            "fingerprint": answer.fingerprint,
            "answer": { "sha256": answer.sha256.map(|d| d.to_hex()) },
            "request": { "sha256": answer.request_sha256.map(|d| d.to_hex()) },
        });
        let beside = answer.beside.iter().map(|a| {
            json!({
                "actor": a.actor, "fingerprint": a.fingerprint, "answer": { "sha256": a.sha256.to_hex() }
            })
        });
        let beside: Vec<Value> = beside.collect();
        if let (Some(members), false) = (word.as_object_mut(), beside.is_empty()) {
            members.insert("beside".to_owned(), Value::Array(beside));
        }
        Some(word)
    }
}

/// What a statement is about: the text, and the units by their root.
#[must_use]
pub fn subjects(source_sha256: &Digest, rows_digest: &Digest) -> Value {
    json!([
        { "name": "text", "digest": { "sha256": source_sha256.to_hex() } },
        { "name": "units", "digest": { ROWS_V1: rows_digest.to_hex() } },
    ])
}

/// The newest version below this one that is in force: its number and change set.
#[must_use]
pub fn version_before(versions: &[VersionCut], version: &str) -> Option<(i32, Uuid)> {
    let own: i32 = version.parse().ok()?;
    let enacted = versions.iter().filter(|v| v.version_no < own).filter_map(|v| {
        let cut = v.cut.as_ref().filter(|cut| cut.status == Lifecycle::Enacted)?;
        Some((v.version_no, cut.change_set_id))
    });
    enacted.max_by_key(|(number, _)| *number)
}

/// The digests of the run's rows that a statement holds, by table.
#[must_use]
pub fn tables_of(body: &str) -> BTreeMap<String, TableDigest> {
    let value: Value = serde_json::from_str(body).unwrap_or_default();
    let tables = value.get("predicate").and_then(|p| p.get("tables")).cloned().unwrap_or_default();
    serde_json::from_value(tables).unwrap_or_default()
}

/// What a statement says that no row holds.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub struct Recorded {
    /// What the run's record had fixed, by name.
    pub pins: BTreeMap<String, String>,
    /// What it had filed before its final report, by file name.
    pub documents: BTreeMap<String, Digest>,
}

impl Recorded {
    /// As a statement has it; `None` where an earlier program made it.
    #[must_use]
    pub fn of(body: &str) -> Option<Self> {
        let value: Value = serde_json::from_str(body).ok()?;
        serde_json::from_value(value.get("predicate")?.clone()).ok()
    }
}

/// The members in which a stored body differs from what is stored otherwise: name, what the body
/// says, what it should say. Members of the predicate are named by their own names. What the record
/// and the documents say is no part of it.
#[must_use]
pub fn differences(body: &str, expected: &str) -> Vec<(String, String, String)> {
    let read = |text: &str| serde_json::from_str::<Value>(text).unwrap_or_default();
    let (said, expected) = (read(body), read(expected));
    let mut found = Vec::new();
    let mut compare = |name: &str, said: Option<&Value>, expected: Option<&Value>| {
        if said != expected {
            let show = |value: Option<&Value>| value.map_or_else(|| "absent".to_owned(), ToString::to_string);
            found.push((name.to_owned(), show(said), show(expected)));
        }
    };
    for name in ["_type", "predicateType"] {
        compare(name, said.get(name), expected.get(name));
    }
    for name in ["text", "units"] {
        compare(name, digest_of(&said, name), digest_of(&expected, name));
    }
    let subjects = |value: &Value| value.get("subject").and_then(Value::as_array).map_or(0, Vec::len);
    compare("subject", Some(&json!(subjects(&said))), Some(&json!(subjects(&expected))));
    let predicate =
        |value: &Value| value.get("predicate").and_then(Value::as_object).cloned().unwrap_or_default();
    let (said, expected) = (predicate(&said), predicate(&expected));
    for name in ["document", "version", "run", "units", "inForceSince", "allowed", "previous"] {
        compare(name, said.get(name), expected.get(name));
    }
    let tables = |value: &serde_json::Map<String, Value>| {
        value.get("tables").and_then(Value::as_object).cloned().unwrap_or_default()
    };
    let (said, expected) = (tables(&said), tables(&expected));
    for table in said.keys() {
        compare(&format!("tables.{table}"), said.get(table), expected.get(table));
    }
    found
}

fn digest_of<'v>(statement: &'v Value, name: &str) -> Option<&'v Value> {
    let subjects = statement.get("subject")?.as_array()?;
    subjects.iter().find(|subject| subject.get("name").and_then(Value::as_str) == Some(name))?.get("digest")
}

/// The bytes that a DSSE signature covers.
#[must_use]
pub fn pre_authentication(payload_type: &str, body: &str) -> Vec<u8> {
    format!("DSSEv1 {} {payload_type} {} {body}", payload_type.len(), body.len()).into_bytes()
}

/// The bytes that both duties sign.
#[must_use]
pub fn signed_bytes(body: &str) -> Vec<u8> {
    pre_authentication(PAYLOAD_TYPE, body)
}

/// The envelope as DSSE writes it: one line of JSON. A key's id is its 64 hexadecimal digits.
#[must_use]
pub fn envelope(body: &str, signatures: &[StatementSignature]) -> Value {
    let signatures: Vec<Value> = signatures
        .iter()
        .map(|s| json!({ "keyid": s.public_key, "sig": Base64::encode_string(&bytes_of(&s.signature)) }))
        .collect();
    json!({
        "payloadType": PAYLOAD_TYPE,
        "payload": Base64::encode_string(body.as_bytes()),
        "signatures": signatures,
    })
}

/// Hexadecimal digits as bytes; what is none is left out, and then nothing verifies.
fn bytes_of(hex: &str) -> Vec<u8> {
    let pair = |pair: &[u8]| u8::from_str_radix(core::str::from_utf8(pair).ok()?, 16).ok();
    hex.as_bytes().chunks(2).filter_map(pair).collect()
}

/// The sha256 of a body: what the run's record and its final report name it by.
#[must_use]
pub fn digest(body: &str) -> Digest {
    Digest::of(body.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    /// The example of the DSSE protocol's own page.
    #[test]
    fn what_is_signed_is_put_together_as_dsse_says() {
        let bytes = pre_authentication("http://example.com/HelloWorld", "hello world");
        assert_eq!(bytes, b"DSSEv1 29 http://example.com/HelloWorld 11 hello world");
        // lengths are of bytes
        assert_eq!(pre_authentication("t", "§"), "DSSEv1 1 t 2 §".as_bytes());
    }

    /// Signed once by `openssl pkeyutl -sign -rawin`, with the seed 00 01 … 1f.
    #[test]
    fn a_signature_is_the_one_that_other_tools_make() {
        use ed25519_dalek::{Signer as _, SigningKey};
        let seed: [u8; 32] = core::array::from_fn(|i| u8::try_from(i).unwrap());
        let key = SigningKey::from_bytes(&seed);
        let body = "{\"_type\":\"https://in-toto.io/Statement/v1\"}";
        let signature = crate::base::digest::to_hex(&key.sign(&signed_bytes(body)).to_bytes());
        let public_key = crate::base::digest::to_hex(key.verifying_key().as_bytes());
        assert_eq!(public_key, "03a107bff3ce10be1d70dd18e74bc09967e4d6309ba50d5f1ddc8664125531b8");
        assert_eq!(
            signature,
            "168ea33973fd830d72c4516a7314f739138683d30727d1b63ecdb2086e25add2\
             52f18962f71747efcaf3b0645d5fbbcdd01bd99ed78d18f83d17bf421b9d540d"
        );
        let duty = crate::record::signature::Duty::Executor;
        let signed =
            StatementSignature { duty, public_key: public_key.clone(), signature, recorded_at: None };
        assert_eq!(
            envelope(body, &[signed]),
            json!({
                "payloadType": "application/vnd.in-toto+json",
                "payload": "eyJfdHlwZSI6Imh0dHBzOi8vaW4tdG90by5pby9TdGF0ZW1lbnQvdjEifQ==",
                "signatures": [{
                    "keyid": public_key,
                    "sig": "Fo6jOXP9gw1yxFFqcxT3OROGg9MHJ9G2Ps2yCG4lrdJS8Yli9xdH78rzsGRdX7vN0BvZnteNGPg9F79CG51UDQ==",
                }],
            })
        );
    }

    #[test]
    fn rows_are_digested_in_any_order_and_by_what_is_there() {
        let row = |pairs: &[(&str, Value)]| {
            pairs.iter().map(|(k, v)| ((*k).to_owned(), v.clone())).collect::<BTreeMap<_, _>>()
        };
        let of = |rows: Vec<BTreeMap<String, Value>>| {
            table_digests(&RunRows(BTreeMap::from([("run_fence".to_owned(), rows)]))).unwrap()["run_fence"]
                .clone()
        };
        let (a, b) = (row(&[("id", json!(1))]), row(&[("id", json!(2)), ("epoch", json!(7))]));
        let one = of(vec![a.clone(), b.clone()]);
        assert_eq!(one.rows, 2);
        assert_eq!(one, of(vec![b.clone(), a.clone()]));
        let later = row(&[("id", json!(1)), ("added_later", Value::Null)]);
        assert_eq!(one, of(vec![later, row(&[("id", json!(2)), ("epoch", json!(8))])]));
        assert_ne!(one, of(vec![a.clone()]));
        assert_ne!(one, of(vec![a.clone(), b.clone(), a.clone()]));
        assert_eq!(one, of(vec![a, b, row(&[("id", json!(3)), ("late", json!(true))])]));
        // sha256 of {"id":1}\n{"id":2}\n
        assert_eq!(one.sha256.to_hex(), Digest::of(b"{\"id\":1}\n{\"id\":2}\n").to_hex());
    }

    #[test]
    fn differences_are_named() {
        let body = |units: u64| {
            json!({
                "_type": STATEMENT_TYPE, "predicateType": PREDICATE_TYPE,
                "subject": [{ "name": "text", "digest": { "sha256": "aa" } }],
                "predicate": { "units": units, "tables": { "unit": { "rows": units, "sha256": "bb" } } },
            })
            .to_string()
        };
        assert_eq!(differences(&body(1), &body(1)), []);
        let names: Vec<String> = differences(&body(1), &body(2)).into_iter().map(|(name, ..)| name).collect();
        assert_eq!(names, ["units", "tables.unit"]);
    }
}
