//! Sidecars that may not be acted on, records of older versions that may, and the size bound.

use std::path::PathBuf;

use cutter_core::base::canonical::to_canonical;
use cutter_core::base::digest::Digest;
use cutter_core::base::limits::SIDECAR_MAX_BYTES;
use cutter_core::driver::{DriveError, Outcome};
use cutter_core::operate::inspect::recover::unknown_to;
use cutter_core::operate::inspect::why;
use cutter_core::port::{Port, PortErrorKind};
use cutter_core::record::effect::ReviewVerdict;
use cutter_core::record::sidecar::{RECORD_VERSION, Sidecar, SidecarError};
use cutter_core::report::naming::EscalationKind::Resume;
use cutter_core::testing::memory::{Fault, FaultKind, FaultPlan, When, block_on};
use cutter_tests::Scenario;
use cutter_tests::refusal::{Gate, asked, stopped};
use serde_json::{Value, json};

/// Damages the sidecar of a run that is parked with a good approval; every command refuses and
/// nothing is written. Mended, the run goes on.
fn refused(damage: impl Fn(&[u8]) -> Vec<u8>, expect: impl Fn(&SidecarError) -> bool) {
    let s = Scenario::new(700);
    let (run_id, ask) = s.parked(Gate::Cut);
    s.sign(&ask, ReviewVerdict::Approve);
    let good = s.world.sidecar(&run_id).unwrap().bytes;
    let bad = damage(&good);
    assert_ne!(bad, good);
    assert!(s.world.corrupt_sidecar(&run_id, &bad));
    let before = s.world.snapshot();
    s.world.reseed(701);
    for (command, result) in [
        ("resume", s.resume(&s.ports(), &run_id)),
        ("stop", s.stop(&run_id, "hold")),
        ("void", s.void(&run_id)),
        ("cut", s.cut(&s.ports())),
    ] {
        match result {
            Err(DriveError::Sidecar { run_id: named, error }) => {
                assert_eq!(named, run_id);
                assert!(expect(&error), "{command}: {error}");
            }
            other => panic!("{command}: {other:?}"),
        }
    }
    assert_eq!(s.world.snapshot(), before, "nothing is repaired, nothing is written");
    assert_eq!(s.world.sidecar(&run_id).unwrap().bytes, bad);
    s.world.corrupt_sidecar(&run_id, &good);
    s.finish(&run_id);
}

#[test]
fn truncated() {
    for part in [0, 1, 2, 3] {
        refused(|b| b[..b.len() * part / 4].to_vec(), |e| matches!(e, SidecarError::Malformed(_)));
    }
    refused(|b| b[..b.len() - 1].to_vec(), |e| matches!(e, SidecarError::Malformed(_)));
}

#[test]
fn overwritten_with_nothing_or_zeros() {
    refused(|b| vec![0; b.len()], |e| matches!(e, SidecarError::Malformed(_)));
    refused(|_| b"{}".to_vec(), |e| matches!(e, SidecarError::Malformed(_)));
    refused(|_| b"[]".to_vec(), |e| matches!(e, SidecarError::Malformed(_)));
}

#[test]
fn bit_flipped_anywhere() {
    let s = Scenario::new(702);
    let (run_id, _) = s.parked(Gate::Cut);
    let good = s.world.sidecar(&run_id).unwrap().bytes;
    for at in (0..good.len()).step_by(61) {
        for bit in [0, 3, 5] {
            let mut bad = good.clone();
            bad[at] ^= 1 << bit;
            assert!(Sidecar::from_bytes(&bad).is_err(), "bit {bit} of byte {at} of {}", good.len());
        }
    }
    refused(
        |b| {
            let mut bad = b.to_vec();
            let at = b.windows(7).position(|w| w == b"ICX-CHA").unwrap();
            bad[at] ^= 1;
            bad
        },
        |e| matches!(e, SidecarError::DigestMismatch { .. }),
    );
}

/// Edits the JSON and makes the digest fit: what a careful hand would do.
fn edited(bytes: &[u8], edit: impl FnOnce(&mut Value)) -> Vec<u8> {
    let mut value: Value = serde_json::from_slice(bytes).unwrap();
    edit(&mut value);
    sealed(value)
}

fn sealed(mut value: Value) -> Vec<u8> {
    value.as_object_mut().unwrap().remove("digest");
    let digest = Digest::of(to_canonical(&value).unwrap().as_bytes());
    value["digest"] = Value::String(digest.to_hex());
    to_canonical(&value).unwrap().into_bytes()
}

#[test]
fn of_a_newer_version() {
    refused(
        |b| edited(b, |v| v["schema_version"] = json!(2)),
        |e| {
            assert!(e.to_string().contains("use a newer cutter"), "{e}");
            matches!(e, SidecarError::Newer { observed: 2, known: 1 })
        },
    );
}

#[test]
fn edited_by_hand_with_a_digest_that_fits() {
    type Edit = fn(&mut Value);
    let cases: [(&str, Edit); 5] = [
        ("state", |v| v["state"] = json!("lifecycle_enacted")),
        ("transition", |v| v["transitions"][3]["actor"] = json!("someone else")),
        ("transition", |v| drop(v["transitions"].as_array_mut().unwrap().remove(2))),
        ("phase", |v| v["phases"]["mark"]["phase"] = json!("cutplan")),
        ("past mark", |v| v["phases"]["mark"]["result"] = json!("failed")),
    ];
    for (says, edit) in cases {
        refused(
            |b| edited(b, edit),
            |e| {
                assert!(e.to_string().contains(says), "{e}");
                matches!(e, SidecarError::Invalid(_))
            },
        );
    }
}

#[test]
fn of_another_run_under_this_ones_name() {
    let twin = Scenario::new(703);
    let (other, _) = twin.parked(Gate::Cut);
    let bytes = twin.world.sidecar(&other).unwrap().bytes;
    refused(|_| bytes.clone(), |e| e.to_string().contains("run_id and revision"));
}

#[test]
fn stays_small_through_every_kind_of_detour() {
    let s = Scenario::new(710);
    let down = |nth| {
        let when = When::Operation { port: Port::KnowledgeBase, op: "create".into(), nth };
        let kind = FaultKind::Fail { kind: PortErrorKind::Unavailable, times: 4 };
        s.process(FaultPlan::one(Fault { when, kind })).1
    };
    let driven = s.cut(&down(2)).unwrap();
    let run_id = driven.sidecar.run_id.clone();
    assert_eq!(stopped(&driven).code, "STOP_KB_UPLOAD");
    let mut open = asked(&s.resumed(&run_id));
    for round in 0..4u32 {
        // bad approvals, a deferral, a stop by name, drift in every function
        for n in 0..3 {
            let path = open.approval_path.replace(".md", &format!("-{round}-{n}.md"));
            s.world.file(&path, format!("not signed {round} {n}\n").as_bytes());
        }
        s.resumed(&run_id);
        s.sign(&open, ReviewVerdict::Defer);
        assert_eq!(stopped(&s.resumed(&run_id)).code, "STOP_REFUSED");
        s.answer_stop(&run_id, Resume, &[]);
        s.resumed(&run_id);
        s.stop(&run_id, "hold").unwrap();
        s.answer_stop(&run_id, Resume, &[("minutes_granted", "1")]);
        open = asked(&s.resumed(&run_id));
        for name in 0..30 {
            s.world.alter_function(&format!("iu_core.fn_{name}"), &format!("body {round}"));
        }
        s.sign(&open, ReviewVerdict::Approve);
        assert!(stopped(&s.resumed(&run_id)).code.starts_with("STOP_DRIFT_"));
        open = asked(&s.resumed(&run_id));
        let size = s.world.sidecar(&run_id).unwrap().bytes.len();
        assert!(size <= SIDECAR_MAX_BYTES, "round {round}: {size} bytes");
    }
    assert_eq!(open.occurrence, 9);
    s.sign(&open, ReviewVerdict::Approve);
    let driven = s.finish(&run_id);
    assert_eq!(driven.sidecar.stops.len(), 13);
    for (i, stop) in driven.sidecar.stops.iter().enumerate() {
        assert_eq!(stop.n as usize, i + 1);
        s.assert_report_filed_at_stop(&driven.sidecar, i);
    }
}

/// The seed of the fixtures' world.
const FIXTURE_SEED: u64 = 4_242;

fn fixture(version: u32) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("fixtures/sidecar/v{version}-parked-at-sg1.json"))
}

/// What later record versions added; version 1 has none of it.
fn without_later_fields(mut value: Value) -> Value {
    let map = value.as_object_mut().unwrap();
    for field in ["record_version", "considered", "stops", "active_ms", "granted_minutes"] {
        map.remove(field);
    }
    for phase in value["phases"].as_object_mut().unwrap().values_mut() {
        phase.as_object_mut().unwrap().remove("active_ms");
        for artifact in phase["artifacts"].as_array_mut().unwrap() {
            artifact.as_object_mut().unwrap().remove("bytes");
        }
    }
    for document in value["documents"].as_array_mut().unwrap() {
        document.as_object_mut().unwrap().remove("bytes");
    }
    value
}

/// Writes the fixture of the current record version; the older ones are never written again.
#[test]
fn every_record_version_ever_written_has_its_fixture() {
    let s = Scenario::new(FIXTURE_SEED);
    let (run_id, _) = s.parked(Gate::Cut);
    let sidecar: Value = serde_json::from_slice(&s.world.sidecar(&run_id).unwrap().bytes).unwrap();
    for version in 1..=RECORD_VERSION {
        let path = fixture(version);
        if std::env::var_os("CUTTER_WRITE_FIXTURES").is_some() && !path.exists() {
            let record = if version == 1 { without_later_fields(sidecar.clone()) } else { sidecar.clone() };
            let folder = s.stored(&run_id).kb_folder.unwrap();
            let paths = s.world.paths().into_iter().filter(|p| p.starts_with(&folder));
            let documents: serde_json::Map<String, Value> = paths
                .map(|p| {
                    let bytes = s.world.document(&p).unwrap().bytes;
                    (p, Value::String(String::from_utf8(bytes).unwrap()))
                })
                .collect();
            let sidecar: Value = serde_json::from_slice(&sealed(record)).unwrap();
            let text =
                serde_json::to_string_pretty(&json!({ "sidecar": sidecar, "documents": documents })).unwrap();
            std::fs::write(&path, text + "\n").unwrap();
        }
        assert!(path.exists(), "{}: set CUTTER_WRITE_FIXTURES=1 once to write it", path.display());
    }
}

/// The world that a fixture's run left, rebuilt from its seed, with the fixture's sidecar and
/// documents in it. What the model of the database itself computes (surveys, the backup) is no
/// part of the format and is taken from the rebuilt world.
fn parked_by(version: u32) -> (Scenario, cutter_core::base::id::RunId) {
    let s = Scenario::new(FIXTURE_SEED);
    let (run_id, _) = s.parked(Gate::Cut);
    let fresh: Value = serde_json::from_slice(&s.world.sidecar(&run_id).unwrap().bytes).unwrap();
    let text = std::fs::read_to_string(fixture(version)).unwrap();
    let fixture: Value = serde_json::from_str(&text).unwrap();
    let mut record = fixture["sidecar"].clone();
    assert!(Sidecar::from_bytes(&serde_json::to_vec(&record).unwrap()).is_ok(), "the fixture reads as it is");
    record["drift_pins"] = fresh["drift_pins"].clone();
    record["backup"] = fresh["backup"].clone();
    record["revision"] = fresh["revision"].clone();
    for pin in ["backup_sha", "backup_bytes", "base_state_sha", "grant_probe_sha"] {
        record["context_pins"][pin] = fresh["context_pins"][pin].clone();
    }
    record["ask"]["required"]["base_state_sha"] = fresh["ask"]["required"]["base_state_sha"].clone();
    for (path, text) in fixture["documents"].as_object().unwrap() {
        if !s.world.corrupt_document(path, text.as_str().unwrap().as_bytes()) {
            s.world.file(path, text.as_str().unwrap().as_bytes());
        }
    }
    s.world.forget_asks(&run_id);
    // Of earlier revisions what a later one may not change is looked at, and nothing else.
    let newest = record["revision"].as_u64().unwrap();
    let mut early = json!({ "transitions": [] });
    for key in ["run_id", "document_id", "created_by", "settings", "creation"] {
        early[key] = record[key].clone();
    }
    for revision in 1..usize::try_from(newest).unwrap() {
        assert!(s.world.corrupt_revision(&run_id, revision, &serde_json::to_vec(&early).unwrap()));
    }
    assert!(s.world.corrupt_sidecar(&run_id, &sealed(record)));
    (s, run_id)
}

#[test]
fn a_run_parked_by_an_older_record_version_consumes_its_approval() {
    for version in 1..=RECORD_VERSION {
        let (s, run_id) = parked_by(version);
        let sidecar = s.stored(&run_id);
        assert_eq!(sidecar.record_version, version);
        let ask = sidecar.ask.clone().unwrap();
        let names_all = ask.required.contains_key("policy_head");
        if names_all {
            // waiting does not rewrite it
            assert!(matches!(s.resumed(&run_id).outcome, Outcome::Paused { .. }));
            assert_eq!(s.stored(&run_id).record_version, version);
        }
        s.sign(&ask, ReviewVerdict::Approve);
        if !names_all {
            // what names neither rows nor policy allows nothing: it is asked once more
            let driven = s.resumed(&run_id);
            assert_eq!(asked(&driven).occurrence, 2);
            assert!(s.rows_of("information_unit").is_empty());
            s.sign_if_asked(&driven.outcome);
        }
        let driven = s.finish(&run_id);
        assert_eq!(
            driven.sidecar.record_version, RECORD_VERSION,
            "the first write is of the current version"
        );
    }
}

#[test]
fn a_run_parked_by_an_older_record_version_can_be_refused_stopped_and_voided() {
    for version in 1..=RECORD_VERSION {
        let (s, run_id) = parked_by(version);
        let ask = s.stored(&run_id).ask.unwrap();
        s.sign(&ask, ReviewVerdict::Defer);
        assert_eq!(stopped(&s.resumed(&run_id)).code, "STOP_REFUSED");
        s.answer_stop(&run_id, Resume, &[]);
        assert_eq!(asked(&s.resumed(&run_id)).occurrence, 2);
        s.assert_void_frees(&run_id);
    }
}

/// A record of before the stop was answered does not know the answer, unless its stop chose that row's id.
#[test]
fn a_record_of_before_a_stop_was_answered_is_told_from_the_one_after() {
    let s = Scenario::new(680);
    let (run_id, _) = s.parked(Gate::Cut);
    s.stop(&run_id, "hold").unwrap();
    s.answer_stop(&run_id, Resume, &[]);
    s.resumed(&run_id);
    let evidence = block_on(s.ports().reader.evidence(&run_id)).unwrap();
    let stored = s.stored(&run_id);
    let with = |resolved: bool| {
        let mut record = stored.clone();
        let stop = record.stops.last_mut().unwrap();
        stop.ids.clear();
        if !resolved {
            stop.resolved_by = None;
        }
        unknown_to(&record, &evidence, &[])
    };
    assert_eq!(with(true), Vec::<String>::new());
    let unknown = with(false);
    assert!(unknown.iter().any(|line| line.contains("sg3_review 1")), "{unknown:?}");
    let mut answer = why(&stored, None, None);
    let before = answer.clone();
    answer.is_older_than(Vec::new());
    assert_eq!(answer, before, "nothing happened since");
    answer.is_older_than(unknown.clone());
    assert!(answer.condition.contains("older") && answer.details == unknown, "{answer:?}");
}

/// However often the world is away while a gate waits, what an enactment and its closing need stays free.
#[test]
fn outages_without_end_leave_room_to_enact_and_close() {
    let s = Scenario::new(411);
    let (run_id, ask) = s.parked(Gate::Lifecycle);
    let mut recorded = 0;
    for _ in 0..120 {
        let when = When::Operation { port: Port::KnowledgeBase, op: "list".into(), nth: 1 };
        let kind = FaultKind::Fail { kind: PortErrorKind::Unavailable, times: 99 };
        let away = s.resume(&s.process(FaultPlan::one(Fault { when, kind })).1, &run_id);
        recorded += u32::from(away.is_ok());
        let back = s.resumed(&run_id);
        assert!(matches!(back.outcome, Outcome::Paused { .. }), "{:?}", back.outcome);
    }
    assert!((5..120).contains(&recorded), "some are recorded, and then told alone: {recorded}");
    s.sign(&ask, ReviewVerdict::Approve);
    s.finish(&run_id);
}
