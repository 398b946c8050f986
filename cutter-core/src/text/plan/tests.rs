//! The plan: digests, order, and every refusal.

use super::*;
use crate::base::key;
use crate::gate::staged::{PlanSettings, StagedPlan};
use std::vec::Vec;

struct Given {
    document_id: DocumentId,
    profile: Profile,
    vocabulary: Vocabulary,
    publication_type: Option<&'static str>,
    depends_on: Vec<String>,
}

fn build(text: &[u8], change: impl FnOnce(&mut Given)) -> CutPlan {
    let mut given = Given {
        document_id: DocumentId::parse("ICX-CONST").unwrap(),
        profile: Profile::built_in("markdown").unwrap(),
        vocabulary: Vocabulary::default(),
        publication_type: None,
        depends_on: Vec::new(),
    };
    change(&mut given);
    let limits = MarkLimits::default();
    CutPlan::build(&PlanInput {
        document_id: &given.document_id,
        text,
        profile: &given.profile,
        vocabulary: &given.vocabulary,
        publication_type: given.publication_type,
        depends_on: &given.depends_on,
        limits: &limits,
        marker: None,
    })
    .unwrap()
}

const TEXT: &[u8] = b"---\ntitle: x\n---\n# Constitution\n\n## Chapter I\n\n### Article 1\n\nFirst.\n\n### Article 2. Name\n\nSecond.\n";

#[test]
fn rows_hash_their_own_bytes_and_join_to_the_region() {
    let plan = build(TEXT, |_| {});
    let joined: Vec<u8> = plan.rows.iter().flat_map(|row| &TEXT[row.start..row.end]).copied().collect();
    assert_eq!(joined, &TEXT[plan.region.start..plan.region.end]);
    assert_eq!(plan.region.sha256, Digest::of(&joined));
    assert_eq!(plan.region.start, 17);
    let addresses: Vec<&str> = plan.rows.iter().map(|row| row.canonical_address.as_str()).collect();
    assert_eq!(addresses, ["ICX-CONST", "ICX-CONST/ch-1", "ICX-CONST/ch-1/art-1", "ICX-CONST/ch-1/art-2"]);
    for row in &plan.rows {
        assert_eq!(row.content_hash, Digest::of(&TEXT[row.start..row.end]));
        assert_eq!(
            row.idempotency_key,
            key::unit(&plan.document.sha256, row.canonical_address.as_str(), &row.content_hash)
        );
    }
    assert_eq!(plan.rows[3].body_hash, Digest::of(b"Name\n\nSecond.\n"));
    assert_eq!(plan.rows[3].citation_address.as_ref().unwrap().as_str(), "ICX-CONST/art-2");
    assert!(plan.unknown_words.is_empty());
}

#[test]
fn digests_equal_an_independent_computation() {
    let plan = build(TEXT, |_| {});
    let mut rows: Vec<serde_json::Value> = plan
        .rows
        .iter()
        .map(|r| {
            serde_json::json!([
                r.canonical_address,
                r.unit_kind,
                r.section_type,
                r.content_hash,
                r.idempotency_key
            ])
        })
        .collect();
    rows.sort_by_key(|row| row[0].as_str().unwrap().as_bytes().to_vec());
    let oracle = serde_json_canonicalizer::to_vec(&rows).unwrap();
    assert_eq!(plan.writer_digest, Digest::of(&oracle));

    let envelope = serde_json::json!({
        "schema": ENVELOPE_SCHEMA,
        "document_id": "ICX-CONST",
        "text": {"sha256": Digest::of(TEXT), "bytes": TEXT.len()},
        "region": {"start": 17, "end": TEXT.len(), "sha256": Digest::of(&TEXT[17..])},
        "profile": plan.profile,
        "marker": "markdown/1",
        "publication_type": "standard",
        "vocabulary": Vocabulary::default(),
        "depends_on": [],
    });
    let oracle = serde_json_canonicalizer::to_vec(&envelope).unwrap();
    assert_eq!(plan.manifest_digest, Digest::of(&oracle));

    let mut pairs: Vec<(&str, String)> =
        plan.rows.iter().map(|r| (r.canonical_address.as_str(), r.content_hash.to_hex())).collect();
    pairs.sort();
    assert_eq!(plan.set_digest, Digest::of(&serde_json_canonicalizer::to_vec(&pairs).unwrap()));
}

#[test]
fn the_order_of_rows_does_not_matter_to_the_digests() {
    let plan = build(TEXT, |_| {});
    let mut rows = plan.rows.clone();
    rows.reverse();
    assert_eq!(writer_digest(&rows), plan.writer_digest);
    rows[0].section_type = "penal".into();
    assert_ne!(writer_digest(&rows), plan.writer_digest);
}

#[test]
fn every_input_is_covered_by_the_manifest_digest() {
    let base = build(TEXT, |_| {});
    assert_eq!(base, build(TEXT, |_| {}));
    let mut digests = std::vec![base.manifest_digest];
    digests
        .push(build(TEXT, |given| given.document_id = DocumentId::parse("OTHER").unwrap()).manifest_digest);
    digests.push(build(TEXT, |given| given.publication_type = Some("constitution")).manifest_digest);
    digests.push(build(TEXT, |given| given.depends_on.push("BASE-LAW".into())).manifest_digest);
    digests.push(
        build(TEXT, |given| assert!(given.vocabulary.unit_kind.insert("verse".into()))).manifest_digest,
    );
    digests.push(build(TEXT, |given| given.profile.depth = Some(1)).manifest_digest);
    let mut text = TEXT.to_vec();
    text[5] = b'T';
    digests.push(build(&text, |_| {}).manifest_digest);
    let count = digests.len();
    digests.sort();
    digests.dedup();
    assert_eq!(digests.len(), count);
}

#[test]
fn depends_on_is_a_set() {
    let with = |list: &[&str]| {
        build(TEXT, |given| given.depends_on = list.iter().map(ToString::to_string).collect()).manifest_digest
    };
    assert_eq!(with(&["B", "A"]), with(&["A", "B", "A"]));
    assert_ne!(with(&["B", "A"]), with(&["B"]));
}

#[test]
fn unknown_words_are_reported_not_refused() {
    let plan = build(TEXT, |given| {
        assert!(given.vocabulary.unit_kind.remove("article"));
        given.publication_type = Some("poem");
    });
    let words: Vec<&str> = plan.unknown_words.iter().map(|w| w.word.as_str()).collect();
    assert_eq!(words, ["poem", "article"]);
}

#[test]
fn an_empty_region_is_a_plan_without_units() {
    for text in ["", "---\ntitle: x\n---\n"] {
        let plan = build(text.as_bytes(), |_| {});
        assert!(plan.rows.is_empty());
        assert_eq!(plan.warnings[0].code, "empty_region");
        assert_eq!(plan.writer_digest, Digest::of(b"[]"));
    }
}

#[test]
fn the_tree_shows_every_unit_once() {
    let plan = build(TEXT, |_| {});
    let tree = UnitTree::new(&plan.rows).render();
    let want = "ICX-CONST  document · preface · 16 B\n\
                └─ ch-1  chapter · general · 14 B\n   \
                   ├─ art-1  article · general · 23 B\n   \
                   └─ art-2  article · general · 29 B\n";
    assert_eq!(tree, want);
}

#[test]
fn a_plan_reads_back_from_its_json() {
    let plan = build(TEXT, |_| {});
    let text = serde_json::to_string(&plan).unwrap();
    assert!(text.contains("\"units\":[{\"ordinal\":0,\"address\":\"ICX-CONST\""));
    assert_eq!(serde_json::from_str::<CutPlan>(&text).unwrap(), plan);
}

#[test]
fn a_staged_plan_is_made_again_and_compared() {
    let plan = build(TEXT, |_| {});
    let staged = serde_json::json!({
        "document": plan.document, "region": plan.region,
        "manifest_digest": plan.manifest_digest, "writer_digest": plan.writer_digest,
        "settings": PlanSettings {
            document_id: "ICX-CONST".into(),
            profile: Profile::built_in("markdown").unwrap(),
            detection: None,
            publication_type: None,
            depends_on: Vec::new(),
            manifest: None,
        },
        "added later": true,
    });
    let staged = StagedPlan::from_json(staged.to_string().as_bytes()).unwrap();
    let other = Profile::built_in("rfc").unwrap();
    let mut settings = crate::record::settings::RunSettings::new("s", "f", other);
    staged.settings.apply(&mut settings);
    let (again, checks) = staged.judge(TEXT, &Vocabulary::default(), &settings).unwrap();
    assert_eq!(again, plan);
    assert!(checks.iter().all(|check| check.ok), "{checks:?}");
    let mut changed = TEXT.to_vec();
    changed.push(b'\n');
    let (_, checks) = staged.judge(&changed, &Vocabulary::default(), &settings).unwrap();
    let failed: Vec<&str> = checks.iter().filter(|c| !c.ok).map(|c| c.invariant.as_str()).collect();
    assert_eq!(
        failed,
        ["mark.document_sha256", "mark.region_sha256", "mark.manifest_digest", "mark.writer_digest"]
    );
    assert!(StagedPlan::from_json(b"{}").unwrap_err().contains("cutter plan FILE"));
}
