//! A whole run, effect by effect, and its other endings.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::DatabaseUnderTest;
use crate::base::digest::Digest;
use crate::gate::drift;
use crate::port::database::Begun;
use crate::record::effect::{EffectName, EffectRecord, ReviewVerdict, SweepWrite, Verdict};
use crate::record::effect::{ExecutorEffect, fact};
use crate::record::observed::{CutState, Lifecycle, StructuralFacts, UnitQuery, UnitRow, UnitScope};
use crate::testing::conformance::fixture::{Case, Chain, Request, WHOLE};
use crate::testing::conformance::{Broken, Held, equal, holds};

pub(super) async fn a_whole_run_moves_what_it_must_and_nothing_else(db: &DatabaseUnderTest) -> Held {
    let chain = Chain::start(db, Case::new(1)).await?;
    let mut pins = db.reader.survey(&chain.case.scope()).await?;
    for effect in WHOLE {
        let record = chain.commit(effect).await?;
        let facts = &record.facts;
        equal(&format!("what {effect} saw before its write"), &pins, &facts.survey_before)?;
        let strange = drift::unexplained(effect, 4, &facts.survey_before, &facts.survey_after);
        holds(&format!("only what {effect} explains"), strange.is_empty(), strange)?;
        let live = db.reader.survey(&chain.case.scope()).await?;
        equal(&format!("what stands after {effect} is what it saw"), &facts.survey_after, &live)?;
        pins = live;
    }
    let value = |name: &str| pins.0.get(name).cloned().unwrap_or_default();
    equal(
        "rows, status, decisions and approvals at the end",
        ["4", "verified_complete", "1", "2"].map(String::from),
        [drift::UNIT_ROWS, drift::BACKLOG_STATUS, drift::REVIEW_DECISIONS, drift::APPROVALS].map(value),
    )
}

fn observed(record: &EffectRecord, expected: &[(&str, String)]) -> Held {
    for (name, value) in expected {
        let found = record.facts.values.get(*name);
        equal(&format!("{} of {}", name, record.key.effect), Some(value), found)?;
    }
    Ok(())
}

pub(super) async fn every_effect_observes_its_facts(db: &DatabaseUnderTest) -> Held {
    let chain = Chain::start(db, Case::new(1)).await?;
    let grants = db.reader.survey(&chain.case.scope()).await?.0.remove(drift::GRANTS).unwrap_or_default();
    let text = |values: &[(&'static str, &str)]| -> Vec<(&'static str, String)> {
        values.iter().map(|(name, value)| (*name, (*value).to_string())).collect()
    };
    for effect in WHOLE {
        let record = chain.commit(effect).await?;
        let principal = match effect {
            EffectName::Sg1Review | EffectName::Sg2Review => "cutter_review",
            EffectName::WriteVerify => "cutter_verify",
            _ => "cutter_exec",
        };
        equal("the login", principal, record.facts.principal.as_str())?;
        let stored = (record.verdict, record.fence_epoch, record.key.effect);
        equal("verdict, epoch and effect", (Verdict::Commit, 1, effect), stored)?;
        let expected = match effect {
            EffectName::Mark => text(&[(fact::ENTRY_STATUS, "marked")]),
            EffectName::Sweep => text(&[(fact::ENTRY_STATUS, "review_pending")]),
            EffectName::Sg1Review => text(&[(fact::ENTRY_STATUS, "reviewed_approved")]),
            EffectName::LegA => text(&[
                (fact::CREATED, "4"),
                (fact::NON_DRAFT, "0"),
                (fact::WRITER_DIGEST, &chain.case.writer_digest().to_hex()),
                (fact::APPROVAL_USED_HERE, "true"),
                (fact::APPROVAL_DECISION, "approve"),
                (fact::GRANTS, &grants),
                (fact::ENTRY_STATUS, "cut_applied"),
            ]),
            EffectName::LegB => text(&[
                (fact::ENVELOPES, "1"),
                (fact::CHANGE_SETS, "1"),
                (fact::EXECUTOR_SIGNATURE, "true"),
                (fact::LANE_OVERLAPS, "0"),
            ]),
            EffectName::WriteVerify => {
                let counted = record.facts.structural.as_ref().map(|s| s.units);
                equal("the recount", Some(4), counted)?;
                text(&[
                    (fact::VERIFY_RESULTS, "1"),
                    (fact::EXECUTOR_PRINCIPAL, "cutter_exec"),
                    (fact::ENTRY_STATUS, "verified_complete"),
                ])
            }
            EffectName::Sg2Request => text(&[
                (fact::DECISION_REUSED, "0"),
                (fact::DECISION_TYPE, "lifecycle_enactment"),
                (fact::EXPECTED_ACTOR, "sovereign"),
            ]),
            EffectName::Enact => text(&[
                (fact::APPROVAL_USED_HERE, "true"),
                (fact::APPROVAL_DECISION, "approve"),
                (fact::APPROVAL_ACTOR, "sovereign"),
                (fact::DECISION_TYPE, "lifecycle_enactment"),
                (fact::EXPECTED_ACTOR, "sovereign"),
                (fact::ENACTED, "4"),
                (fact::NOT_ENACTED, "0"),
                (fact::LOG_ROWS, "4"),
                (fact::TRIGGER_IU, "O"),
                (fact::TRIGGER_UV, "O"),
                (fact::REPLICATION_ROLE, "origin"),
                (fact::GRANTS, &grants),
                (fact::UNIT_SET, &chain.case.unit_set().to_hex()),
            ]),
            _ => Vec::new(),
        };
        observed(&record, &expected)?;
    }
    Ok(())
}

pub(super) async fn the_evidence_tells_the_whole_story(db: &DatabaseUnderTest) -> Held {
    let nothing = db.reader.evidence(&Case::new(1).run_id()).await?;
    holds("no evidence of a run that never was", nothing.effects.is_empty(), &nothing)?;
    let chain = Chain::through(db, Case::new(1), EffectName::Enact).await?;
    let case = &chain.case;
    let evidence = db.reader.evidence(&case.run_id()).await?;
    let mut names: Vec<_> = evidence.effects.iter().map(|e| e.key.effect).collect();
    names.sort();
    equal("all effects", WHOLE.to_vec(), names)?;
    equal("the entry", Some("verified_complete"), evidence.entry_status.as_deref())?;
    let history = [
        ("", "marked"),
        ("marked", "review_pending"),
        ("review_pending", "reviewed_approved"),
        ("reviewed_approved", "cut_in_progress"),
        ("cut_in_progress", "cut_applied"),
        ("cut_applied", "verify_in_progress"),
        ("verify_in_progress", "verified_complete"),
    ];
    let expected: Vec<_> = history.iter().map(|(a, b)| ((*a).to_string(), (*b).to_string())).collect();
    equal("the history", expected, evidence.history)?;
    let mut duties: Vec<_> = evidence.signatures.iter().map(|s| s.duty.as_str()).collect();
    duties.sort_unstable();
    equal("the signatures", Vec::from(["executor", "verifier"]), duties)?;
    let mut uses: Vec<_> =
        evidence.approvals.iter().map(|a| (a.gate.as_str(), a.used_by.as_deref())).collect();
    uses.sort_unstable();
    let expected = Vec::from([("cut_authorization", Some("leg_a")), ("lifecycle_enactment", Some("enact"))]);
    equal("the approvals and what used them", expected, uses)?;
    equal("verify results", Vec::from([(case.id("verify result"), true)]), evidence.verify_results)?;
    let rest = (evidence.enacted_log_rows, evidence.voided, evidence.fence_epoch);
    equal("log rows, void, epoch", (4, false, Some(1)), rest)
}

pub(super) async fn structural_counts_are_those_of_the_rows(db: &DatabaseUnderTest) -> Held {
    let chain = Chain::through(db, Case::new(1), EffectName::LegA).await?;
    let case = &chain.case;
    let set = case.id("change set");
    let facts = db.reader.structural(set, &case.document_id, &[]).await?;
    let addresses = "CONF-DOC/art-1\nCONF-DOC/art-2\nCONF-DOC/art-3\nCONF-DOC/preamble\n";
    let counts = |pairs: &[(&str, u64)]| pairs.iter().map(|(k, n)| ((*k).to_string(), *n)).collect();
    let expected = StructuralFacts {
        units: 4,
        versions: 4,
        anchors: 4,
        distinct_addresses: 4,
        addresses_sha: Some(Digest::of(addresses.as_bytes())),
        hash_mismatches: 0,
        section_types: counts(&[("general", 3), ("preamble", 1)]),
        unit_kinds: counts(&[("article", 3), ("preamble", 1)]),
        non_draft: 0,
        orphans: 0,
        region_sha: Some(Digest::of(case.text.as_bytes())),
        forbidden: 0,
    };
    equal("the counts", &expected, &facts)?;
    let prefixes = |list: &[&str]| list.iter().map(|p| (*p).to_string()).collect::<Vec<String>>();
    for (list, forbidden) in [(vec_of(&["CONF-DOC/art-1"]), 1), (prefixes(&["CONF-DOC/art"]), 0)] {
        let found = db.reader.structural(set, &case.document_id, &list).await?.forbidden;
        equal(&format!("units under {list:?}"), forbidden, found)?;
    }
    let other = db.reader.structural(set, "CONF", &[]).await?.forbidden;
    equal("units outside of a document called CONF", 4, other)?;
    let none = db.reader.structural(case.id("no set"), &case.document_id, &[]).await?;
    equal("units of no change set", 0, none.units)
}

fn vec_of(list: &[&str]) -> Vec<String> {
    list.iter().map(|p| (*p).to_string()).collect()
}

pub(super) async fn units_are_listed_by_ordinal_in_pages(db: &DatabaseUnderTest) -> Held {
    let chain = Chain::through(db, Case::new(1), EffectName::LegA).await?;
    let all = UnitQuery {
        document_id: "CONF-DOC".into(),
        scope: UnitScope::Live,
        limit: 100,
        ..UnitQuery::default()
    };
    let rows = db.reader.units(&UnitQuery { with_content: true, ..all.clone() }).await?;
    let expected: Vec<_> = chain
        .case
        .units()
        .into_iter()
        .map(|u| UnitRow {
            unit_id: u.unit_id,
            change_set_id: chain.case.id("change set"),
            version_no: 1,
            ordinal: u.ordinal,
            canonical_address: u.canonical_address,
            citation_address: u.citation_address,
            unit_kind: u.unit_kind,
            section_type: u.section_type,
            lifecycle_status: "draft".into(),
            start: u.start,
            end: u.end,
            content_hash: u.content_hash,
            body_hash: u.body_hash,
            idempotency_key: u.idempotency_key,
            content: Some(u.content),
        })
        .collect();
    equal("all units with their texts", expected, rows)?;
    let ordinals = |rows: Vec<UnitRow>| rows.iter().map(|r| r.ordinal).collect::<Vec<_>>();
    let page = db.reader.units(&UnitQuery { limit: 2, ..all.clone() }).await?;
    holds("no texts unless asked for", page.iter().all(|r| r.content.is_none()), "a text")?;
    equal("the first page", Vec::from([0, 1]), ordinals(page))?;
    let page = UnitQuery { limit: 2, after_ordinal: Some(1), ..all.clone() };
    equal("the second page", Vec::from([2, 3]), ordinals(db.reader.units(&page).await?))?;
    let under = |prefix: &str| UnitQuery { under: Some(prefix.into()), ..all.clone() };
    equal("one address", Vec::from([2]), ordinals(db.reader.units(&under("CONF-DOC/art-2")).await?))?;
    equal("no half address", Vec::new(), ordinals(db.reader.units(&under("CONF-DOC/art")).await?))?;
    let everything = db.reader.units(&under("CONF-DOC")).await?;
    equal("the document", Vec::from([0, 1, 2, 3]), ordinals(everything))?;
    let version = UnitQuery { version_no: Some(2), ..all.clone() };
    equal("no such version", Vec::new(), ordinals(db.reader.units(&version).await?))?;
    let none = UnitQuery { document_id: "CONF".into(), scope: UnitScope::Live, ..all };
    equal("no such document", Vec::new(), ordinals(db.reader.units(&none).await?))
}

pub(super) async fn a_swept_entry_may_be_swept_again(db: &DatabaseUnderTest) -> Held {
    let chain = Chain::through(db, Case::new(1), EffectName::Sweep).await?;
    let case = &chain.case;
    let sweep = Request::Execute(ExecutorEffect::Sweep(SweepWrite {
        entry_id: case.id("entry"),
        sweep_id: case.id("sweep 2"),
        history_id: case.id("history sweep 2"),
    }));
    let cx = chain.context(EffectName::Sweep, 2, "second sweep");
    let Begun::Pending(open) = chain.begin_as(&cx, &sweep).await? else {
        return Err(Broken::new("a second sweep", "a record"));
    };
    open.finish(Verdict::Commit).await?;
    let evidence = db.reader.evidence(&case.run_id()).await?;
    equal("the entry stays", Some("review_pending"), evidence.entry_status.as_deref())?;
    equal("no second move", 2, evidence.history.len())
}

pub(super) async fn a_failed_verify_commits_its_own_record(db: &DatabaseUnderTest) -> Held {
    let chain = Chain::through(db, Case::new(1), EffectName::LegB).await?;
    let record = chain.finish(EffectName::WriteVerify, Verdict::CommitFailure).await?;
    equal("the verdict", Verdict::CommitFailure, record.verdict)?;
    let seen = record.facts.survey_after.0.get(drift::BACKLOG_STATUS).cloned();
    equal(
        "the record's survey is that of what was committed",
        Some("verify_failed_escalated"),
        seen.as_deref(),
    )?;
    let live = db.reader.survey(&chain.case.scope()).await?;
    equal("and it stands", &record.facts.survey_after, &live)?;
    equal("the stored record", Some(&record), db.reader.effect(&record.key).await?.as_ref())?;
    let evidence = db.reader.evidence(&chain.case.run_id()).await?;
    equal("the entry", Some("verify_failed_escalated"), evidence.entry_status.as_deref())?;
    let results = Vec::from([(chain.case.id("verify result"), false)]);
    equal("the result", results, evidence.verify_results)?;
    let failed = chain.case.write_verify().signature_fail.signature_id;
    let stored = evidence.signatures.iter().any(|s| s.signature_id == failed);
    holds("the signature over the failure", stored, &evidence.signatures)?;
    equal("both signatures", 2, evidence.signatures.len())
}

pub(super) async fn a_void_marks_rows_and_frees_their_keys(db: &DatabaseUnderTest) -> Held {
    let chain = Chain::through(db, Case::new(1), EffectName::LegB).await?;
    chain.commit(EffectName::Sg3Review).await?;
    let record = chain.commit(EffectName::Void).await?;
    let expected = [
        (fact::VOIDED, "4"),
        (fact::ENACTED_UNITS, "0"),
        (fact::LOG_ROWS, "4"),
        (fact::ENTRY_STATUS, "abandoned"),
        (fact::APPROVAL_USED_HERE, "true"),
    ];
    observed(&record, &expected.map(|(name, value)| (name, value.to_string())))?;
    let strange =
        drift::unexplained(EffectName::Void, 4, &record.facts.survey_before, &record.facts.survey_after);
    holds("only what the void explains", strange.is_empty(), strange)?;
    let rows = record.facts.survey_after.0.get(drift::UNIT_ROWS).cloned();
    equal("rows are marked, not deleted", Some("4"), rows.as_deref())?;
    holds("evidence of the void", db.reader.evidence(&chain.case.run_id()).await?.voided, "none")?;
    let live = UnitQuery {
        document_id: "CONF-DOC".into(),
        scope: UnitScope::Live,
        limit: 100,
        ..UnitQuery::default()
    };
    equal("live units", 0, db.reader.units(&live).await?.len())?;
    let in_force = UnitQuery { scope: UnitScope::InForce, ..live.clone() };
    let next = Chain::through(db, Case::new(2), EffectName::LegA).await?;
    equal("live drafts", 4, db.reader.units(&live).await?.len())?;
    equal("drafts are not in force", 0, db.reader.units(&in_force).await?.len())?;
    for effect in [EffectName::LegB, EffectName::WriteVerify, EffectName::Sg2Request, EffectName::Sg2Review] {
        next.commit(effect).await?;
    }
    next.commit(EffectName::Enact).await?;
    let units = db.reader.units(&live).await?;
    equal("what is in force", &units, &db.reader.units(&in_force).await?)?;
    let set = next.case.id("change set");
    let voided = UnitQuery { scope: UnitScope::ChangeSet(chain.case.id("change set")), ..live.clone() };
    let voided = db.reader.units(&voided).await?;
    holds(
        "what was voided, by name",
        voided.len() == 4 && voided.iter().all(|u| u.lifecycle_status == "voided"),
        voided,
    )?;
    let cut = |case: &Case, status| CutState {
        change_set_id: case.id("change set"),
        run_id: case.run_id(),
        unit_count: 4,
        status,
        is_enacted: status == Lifecycle::Enacted,
    };
    let cuts = Vec::from([cut(&chain.case, Lifecycle::Voided), cut(&next.case, Lifecycle::Enacted)]);
    let versions = db.reader.versions("CONF-DOC").await?;
    equal("the versions", Vec::from([1, 1]), versions.iter().map(|v| v.version_no).collect())?;
    equal("their cuts", cuts, versions.into_iter().filter_map(|v| v.cut).collect())?;
    equal("no such document", Vec::new(), db.reader.versions("CONF").await?)?;
    let enacted = db.reader.enacted_runs("CONF-DOC").await?;
    equal("the runs that enacted one", Vec::from([next.case.run_id()]), enacted)?;
    equal("those of no such document", Vec::new(), db.reader.enacted_runs("CONF").await?)?;
    let new = units.iter().all(|u| u.change_set_id == set && u.lifecycle_status == "enacted");
    holds("the new run's four enacted units", units.len() == 4 && new, units)
}

pub(super) async fn a_decision_moves_the_entry_as_it_says(db: &DatabaseUnderTest) -> Held {
    let chain = Chain::through(db, Case::new(1), EffectName::Sweep).await?;
    let case = &chain.case;
    let decide = |decision, name: &str| Request::Review(case.review("cut_authorization", decision, name));
    let sweep = |n: u32| {
        Request::Execute(ExecutorEffect::Sweep(SweepWrite {
            entry_id: case.id("entry"),
            sweep_id: case.id(&format!("sweep {n}")),
            history_id: case.id(&format!("history sweep {n}")),
        }))
    };
    let word = |name: &str, moves: bool| {
        let mut word = case.review("drift_ack", ReviewVerdict::Approve, name);
        word.change_set_id = None;
        word.history_id = moves.then(|| case.id("history sg3"));
        Request::Review(word)
    };
    for (effect, occurrence, request, expected) in [
        (EffectName::Sg1Review, 1, decide(ReviewVerdict::Defer, "deferred"), "reviewed_deferred"),
        // a deferred entry is promoted by a later sweep, then decided again
        (EffectName::Sweep, 2, sweep(2), "review_pending"),
        (EffectName::Sg1Review, 2, decide(ReviewVerdict::Approve, "approved"), "reviewed_approved"),
        // a word at SG_3 takes an approval back that will be asked for again, and only then
        (EffectName::Sg3Review, 1, word("1", false), "reviewed_approved"),
        (EffectName::Sg3Review, 2, word("2", true), "reviewed_deferred"),
        (EffectName::Sweep, 3, sweep(3), "review_pending"),
        (EffectName::Sg1Review, 3, decide(ReviewVerdict::Reject, "rejected"), "reviewed_rejected"),
    ] {
        let cx = chain.context(effect, occurrence, expected);
        let Begun::Pending(open) = chain.begin_as(&cx, &request).await? else {
            return Err(Broken::new("a new effect", "a record"));
        };
        open.finish(Verdict::Commit).await?;
        let status = db.reader.evidence(&case.run_id()).await?.entry_status;
        equal("the entry", Some(expected), status.as_deref())?;
    }
    Ok(())
}
