//! What must hold, judged by what people signed and by nothing that a driver or a record says.

use cutter_core::machine::run::GateId;
use cutter_core::record::approval::field;
use cutter_core::record::ask::{StoredAnswer, StoredAsk};
use cutter_core::record::effect::ReviewVerdict::Approve;
use cutter_core::record::observed::{CutState, Lifecycle, UnitQuery, UnitScope, VersionCut};
use cutter_core::record::sidecar::Sidecar;
use cutter_core::testing::memory::block_on;
use cutter_tests::DOCUMENT;
use cutter_tests::attack::Role;
use cutter_tests::look::{gather, judge};
use jiff::Timestamp;
use uuid::Uuid;

use crate::act::Place;
use crate::walls::Wall;

/// What a moment began with: what was stored by then, and when it was.
pub struct Before {
    pub enacted: Vec<Uuid>,
    pub now: Timestamp,
    pub moment: u64,
    /// A driver was at it, which listens before it relies on an answer.
    pub is_command: bool,
}

fn cuts(place: &Place) -> Vec<CutState> {
    let versions = block_on(place.s.ports().reader.versions(DOCUMENT)).unwrap();
    versions.into_iter().filter_map(|VersionCut { cut, .. }| cut).collect()
}

/// The change sets of which units are enacted.
pub fn enacted(place: &Place) -> Vec<Uuid> {
    let cuts = cuts(place).into_iter().filter(|cut| cut.status == Lifecycle::Enacted);
    cuts.map(|cut| cut.change_set_id).collect()
}

/// What is wrong with a cut whose units are enacted, if something is.
fn unlawful(place: &Place, cut: &CutState, before: &Before) -> Option<String> {
    let ports = place.s.ports();
    let set = cut.change_set_id;
    let query = UnitQuery {
        document_id: DOCUMENT.into(),
        scope: UnitScope::ChangeSet(set),
        limit: 1_000,
        ..UnitQuery::default()
    };
    let units = block_on(ports.reader.units(&query)).unwrap();
    if units.iter().any(|unit| unit.lifecycle_status != "enacted") {
        return Some(format!("{set}: some units are enacted, and some are not"));
    }
    let rows = block_on(ports.reader.rows_digest(set)).unwrap().map(|rows| rows.to_hex())?;
    let is_new = !before.enacted.contains(&set);
    let approver = place.approver.lock().unwrap();
    let asks = block_on(ports.reader.asks(&cut.run_id)).unwrap();
    let evidence = block_on(ports.reader.evidence(&cut.run_id)).unwrap();
    for gate in [GateId::CutAuthz, GateId::LifecycleAuthz] {
        let words = approver.signed.iter().filter(|a| {
            a.verdict == Approve
                && a.ask.gate == gate
                && a.names(field::RUN_ID) == cut.run_id.as_str()
                && a.names(field::ROWS_DIGEST) == rows
        });
        let words: Vec<_> = words.collect();
        if words.is_empty() {
            return Some(format!("{set} is enacted without a valid word at {gate} for its rows {rows}"));
        }
        let (effect, is_last) =
            (if gate == GateId::CutAuthz { "leg_a" } else { "enact" }, gate != GateId::CutAuthz);
        if is_last && is_new && words.iter().all(|a| a.expires.is_some_and(|end| end <= before.now)) {
            return Some(format!(
                "{set} is enacted without a valid word: each had expired by {}",
                before.now
            ));
        }
        // of several answers the one that was relied on
        for relied in evidence.approvals.iter().filter(|a| a.used_by.as_deref() == Some(effect)) {
            let nonce = relied.nonce.as_str();
            let asked = |stored: &&StoredAsk| {
                stored.asked.ask.required.get(field::NONCE).map(String::as_str) == Some(nonce)
            };
            let is_theirs = |a: &&StoredAnswer| {
                let is_signed = approver.signed.iter().any(|s| s.document == a.answer.document);
                !a.late && a.answer.decision != Approve && is_signed
            };
            let mut answers = asks.iter().filter(asked).flat_map(|stored| &stored.answers);
            if let Some(refusal) = answers.find(is_theirs) {
                let path = &refusal.answer.approval_kb_id;
                return Some(format!(
                    "{set} is enacted although it was refused, and that was stored: {path}"
                ));
            }
            let in_time = approver.refused_before(&place.s, nonce, before.moment);
            if let Some(refusal) = in_time.filter(|_| before.is_command && is_new && is_last) {
                return Some(format!("{set} is enacted although it was refused: {}", refusal.path));
            }
        }
    }
    None
}

/// The law for everybody but a superuser.
pub fn broken(place: &Place, before: &Before) -> Option<String> {
    let of = |cut: &CutState| unlawful(place, cut, before);
    let cuts = cuts(place).into_iter().filter(|cut| cut.status == Lifecycle::Enacted);
    cuts.collect::<Vec<_>>().iter().find_map(of)
}

/// The law for a superuser: what he did is found, unless it changed nothing that counts.
pub fn unnoticed(place: &Place, before: &Before, wall: Option<Wall>) -> Option<String> {
    let brought = match wall {
        Some(Wall::KeysBrought) => Vec::new(),
        _ => vec![place.s.world.person(cutter_tests::SOVEREIGN)],
    };
    let cuts = cuts(place).into_iter().filter(|cut| cut.status == Lifecycle::Enacted);
    for cut in cuts {
        let Some(why) = unlawful(place, &cut, before) else { continue };
        // without a record that reads the answer is never "holds"
        let Some(stored) = place.s.world.sidecar(&cut.run_id) else { continue };
        let Ok(sidecar) = Sidecar::from_bytes(&stored.bytes) else { continue };
        let ports = place.s.ports();
        if cutter_core::testing::memory::block_on(cutter_core::driver::policy_of(
            ports.reader.as_ref(),
            ports.signatures.as_ref(),
        ))
        .is_err()
        {
            continue;
        }
        let failed = judge(&gather(&ports, &sidecar), &brought).into_iter().filter(|check| !check.ok);
        let failed: Vec<String> = failed
            .map(|check| check.invariant)
            .filter(|name| wall != Some(Wall::RowsSigned) || !name.starts_with("verify.units."))
            .collect();
        if failed.is_empty() {
            return Some(format!("{why}, and no check fails"));
        }
    }
    None
}

/// Whether the law that is meant for this role is broken now.
pub fn of(role: Role, place: &Place, before: &Before, wall: Option<Wall>) -> Option<String> {
    match role {
        Role::Superuser => unnoticed(place, before, wall),
        _ => broken(place, before),
    }
}
