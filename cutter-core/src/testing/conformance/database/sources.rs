//! Sources, surveys, grants, backups: what is observed.

use alloc::string::ToString;
use alloc::vec::Vec;

use super::DatabaseUnderTest;
use crate::base::digest::Digest;
use crate::gate::drift;
use crate::port::PortErrorKind;
use crate::record::backup::{BackupRequest, BackupScope, BackupSummary};
use crate::record::effect::EffectName;
use crate::record::observed::SurveyScope;
use crate::testing::conformance::fixture::{Case, Chain};
use crate::testing::conformance::{Broken, Held, equal, holds, refused};

pub(super) async fn the_schema_is_known_and_the_vocabularies_are_there(db: &DatabaseUnderTest) -> Held {
    db.reader.check_schema().await?;
    let stored = db.reader.vocabulary().await?;
    for (word, found) in [
        ("article", stored.unit_kind.contains("article")),
        ("general", stored.section_type.contains("general")),
        ("act", stored.publication_type.contains("act")),
    ] {
        holds(&alloc::format!("the word {word}"), found, &stored)?;
    }
    Ok(())
}

pub(super) async fn a_source_is_registered_by_digest(db: &DatabaseUnderTest) -> Held {
    holds("no source yet", db.reader.source("CONF-DOC").await?.is_none(), "a source")?;
    let first = Case::new(1);
    let done = db.executor.register_source(&first.registration()).await?;
    let latest = done.source.latest.clone().ok_or_else(|| Broken::new("a version", "none"))?;
    equal("a new version", (false, 1), (done.already, latest.version_no))?;
    let text = first.text.as_bytes();
    equal("its digest and length", (Digest::of(text), text.len() as u64), (latest.sha256, latest.bytes))?;

    let mut again = first.registration();
    again.source_document_id = first.id("another document id");
    again.source_version_id = first.id("another version id");
    let done_again = db.executor.register_source(&again).await?;
    equal("the same bytes", (true, &done.source), (done_again.already, &done_again.source))?;

    let second = Case { text: first.text.replace("Third", "3rd"), ..Case::new(1) };
    let next = db.executor.register_source(&second.registration()).await?.source.latest;
    equal("the next version", Some(2), next.as_ref().map(|v| v.version_no))?;
    let stored = db.reader.source("CONF-DOC").await?;
    equal("the newest version", next, stored.and_then(|s| s.latest))?;
    let old = db.reader.source_text(latest.source_version_id).await?;
    equal("the first text stays", text, old.as_slice())?;
    let none = db.reader.source_text(first.id("nothing")).await;
    refused("the text of no version", &[PortErrorKind::NotFound], none)
}

pub(super) async fn a_registration_whose_digest_is_wrong_is_refused(db: &DatabaseUnderTest) -> Held {
    let mut registration = Case::new(1).registration();
    registration.sha256 = Digest::of(b"something else");
    let result = db.executor.register_source(&registration).await;
    refused("a wrong digest", &[PortErrorKind::Invalid], result)?;
    holds("nothing stored", db.reader.source("CONF-DOC").await?.is_none(), "a source")
}

pub(super) async fn a_survey_has_every_dimension_and_stands_still(db: &DatabaseUnderTest) -> Held {
    let case = Case::new(1);
    let source = db.executor.register_source(&case.registration()).await?.source;
    let scope = SurveyScope { entry_id: None, review_decision_id: None, ..case.scope() };
    let survey = db.reader.survey(&scope).await?;
    for dimension in drift::DIMENSIONS {
        holds(&alloc::format!("dimension {dimension}"), survey.0.contains_key(dimension), &survey)?;
    }
    for function in ["fn_iu_create", "fn_iu_enact", "fn_iu_apply_edit_draft"] {
        let pinned = survey.0.keys().any(|k| k.starts_with(drift::FUNCTION_PREFIX) && k.ends_with(function));
        holds(&alloc::format!("a dimension for {function}"), pinned, &survey)?;
    }
    let value = |name: &str| survey.0.get(name).map_or("", |v| v.as_str());
    let zero = (value(drift::UNIT_ROWS), value(drift::BACKLOG_STATUS), value(drift::REVIEW_DECISIONS));
    equal("no rows, no entry, no decision", ("0", "", "0"), zero)?;
    let latest = source.latest.map(|v| alloc::format!("{}/{}", v.source_version_id, v.sha256));
    equal("the newest version", latest.as_deref(), Some(value(drift::LATEST_VERSION)))?;
    equal("the same survey again", &survey, &db.reader.survey(&scope).await?)?;

    let mut other = Case { text: case.text.replace("Third", "3rd"), ..case }.registration();
    other.actor = "someone".into();
    db.executor.register_source(&other).await?;
    let moved = drift::compare(&survey, &db.reader.survey(&scope).await?);
    let names: Vec<_> = moved.iter().map(|d| d.dimension.as_str()).collect();
    equal("what a new version moves", Vec::from([drift::LATEST_VERSION]), names)
}

pub(super) async fn the_grant_probe_is_clean_and_ordered(db: &DatabaseUnderTest) -> Held {
    let grants = db.reader.grants().await?;
    let names: Vec<_> = grants.facts.iter().map(|f| f.name.clone()).collect();
    let mut sorted = names.clone();
    sorted.sort();
    sorted.dedup();
    equal("names in byte order, each once", &sorted, &names)?;
    let wrong: Vec<_> = grants.facts.iter().filter(|f| f.wanted != f.holds).collect();
    holds("every privilege as wanted", wrong.is_empty(), wrong)?;
    holds("nothing for PUBLIC", grants.public_execute.is_empty(), &grants.public_execute)?;
    holds("no violations", grants.violations.is_empty(), &grants.violations)?;
    let create = names.iter().any(|n| n.contains("cutter_exec") && n.contains("fn_iu_create"));
    holds("a fact about fn_iu_create", create, names)
}

async fn back_up(db: &DatabaseUnderTest, case: &Case) -> Result<(Vec<u8>, BackupSummary), Broken> {
    let request = BackupRequest {
        run_id: case.run_id(),
        document_id: case.document_id.clone(),
        scope: BackupScope::Document,
        at: "2026-01-02T03:04:05Z".to_string(),
        deadline_ms: 30_000,
    };
    let mut stream = db.backup_source.open(&request).await?;
    let mut bytes = Vec::new();
    while let Some(chunk) = stream.next().await? {
        holds("a chunk of 1 byte to 1 MiB", (1..=1 << 20).contains(&chunk.len()), chunk.len())?;
        bytes.extend_from_slice(&chunk);
    }
    Ok((bytes, stream.finish().await?))
}

pub(super) async fn a_backup_streams_in_chunks_and_sums_up(db: &DatabaseUnderTest) -> Held {
    let chain = Chain::through(db, Case::new(1), EffectName::LegA).await?;
    let (bytes, summary) = back_up(db, &chain.case).await?;
    holds("some bytes", !bytes.is_empty(), bytes.len())?;
    equal("content rows", 4, summary.content_rows)?;
    let units = summary.tables.iter().find(|t| t.table.ends_with("information_unit")).map(|t| t.rows);
    equal("rows of information_unit", Some(4), units)?;
    let zero = summary.tables.iter().any(|t| t.rows == 0);
    holds("tables without rows are counted too", zero, &summary.tables)?;
    equal("the same summary again", &summary, &back_up(db, &chain.case).await?.1)?;

    let request = BackupRequest {
        run_id: chain.case.run_id(),
        document_id: chain.case.document_id.clone(),
        scope: BackupScope::Document,
        at: "2026-01-02T03:04:05Z".to_string(),
        deadline_ms: 30_000,
    };
    let unread = db.backup_source.open(&request).await?;
    refused("a summary before the end", &[PortErrorKind::Invalid], unread.finish().await)
}

pub(super) async fn the_base_state_does_not_follow_the_run_s_own_rows(db: &DatabaseUnderTest) -> Held {
    let chain = Chain::start(db, Case::new(1)).await?;
    let before = back_up(db, &chain.case).await?.1.base_state_sha;
    let stranger = Case::new(2);
    let strange = back_up(db, &stranger).await?.1.base_state_sha;
    equal("the base state of two runs without rows", before, strange)?;
    let mut leg_a = None;
    for effect in [EffectName::Mark, EffectName::Sweep, EffectName::Sg1Review, EffectName::LegA] {
        leg_a =
            chain.commit(effect).await?.facts.values.get(crate::record::effect::fact::BASE_STATE).cloned();
    }
    equal("the base state in leg A", Some(before.to_hex()), leg_a)?;
    equal("the base state after leg A", before, back_up(db, &chain.case).await?.1.base_state_sha)?;
    let seen = back_up(db, &stranger).await?.1.base_state_sha;
    holds("another run sees these rows", seen != before, seen)
}
