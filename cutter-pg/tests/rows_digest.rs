//! The digest of the rows: SQL and Rust agree, and nothing but what a consent names is cut,
//! verified or enacted, whoever writes the rows.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use cutter_core::base::digest::Digest;
use cutter_core::port::PortErrorKind;
use cutter_core::port::database::Executor as _;
use cutter_core::record::effect::{
    EffectName as N, ExecutorEffect as E, ReviewVerdict, ReviewWrite, UnitWrite, Verdict, fact,
};
use cutter_pg::login::Login;
use futures_executor::block_on;
use postgres::Client;
use proptest::prelude::*;
use proptest::test_runner::TestRunner;

mod support;

use support::{Run, World, pending};

/// The digest that the database makes of a change set.
fn in_sql(admin: &mut Client, run: &Run<'_>) -> Option<String> {
    let sql = "SELECT cutter_governance.fn_rows_digest($1)";
    admin.query_one(sql, &[&run.change_set]).unwrap().get(0)
}

/// A consent to the cut of exactly these units.
fn consent(run: &Run<'_>, units: &[UnitWrite]) -> ReviewWrite {
    let document = format!("consent\nrows_digest: {}\n", run.rows_of(units));
    ReviewWrite { sha256: Digest::of(document.as_bytes()), document, ..run.sg1_write(ReviewVerdict::Approve) }
}

#[test]
fn sql_and_rust_make_the_same_digest_of_the_same_rows() {
    let world = World::new();
    let admin = std::cell::RefCell::new(world.database.client(Login::Admin));
    let word = "[a-zđ\u{3b1}\u{4e2d}\u{1f600} \"\\\\]{1,9}";
    let unit = (proptest::option::of(word), word, word, "[\\PC\r\n]{0,40}", any::<u64>());
    let n = std::cell::Cell::new(0);
    let mut runner =
        TestRunner::new(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() });
    let strategy = proptest::collection::vec(unit, 1..20);
    let outcome = runner.run(&strategy, |units| {
        n.set(n.get() + 1);
        let texts: Vec<String> = units.iter().map(|(_, _, _, text, _)| text.clone()).collect();
        let source = world.register_as(&format!("LAW-{}", n.get()), &texts);
        let mut run = world.run(&source);
        run.do_mark();
        run.do_sweep();
        let mut write = run.leg_a_write();
        for (row, (citation, kind, section, _, seed)) in write.units.iter_mut().zip(&units) {
            row.citation_address = citation.as_ref().map(|c| format!("{}/{c}", source.document));
            (row.unit_kind, row.section_type) = (kind.clone(), section.clone());
            row.body_hash = Digest::of(&seed.to_be_bytes());
        }
        let expected = run.rows_of(&write.units).to_hex();
        let mut review = consent(&run, &write.units);
        review.nonce.push_str(" once more");
        let mut asked = run.ask_write("SG_cut_authz", &review);
        asked.ask.occurrence = 2;
        asked.ask.required.insert("rows_digest".to_owned(), expected.clone());
        block_on(world.port.open_ask(&run.fence, &asked)).unwrap();
        run.commit(run.review(N::Sg1Review, &review));
        let record = run.commit(run.exec(N::LegA, E::LegA(write)));
        prop_assert_eq!(record.facts.values.get(fact::ROWS_DIGEST), Some(&expected));
        prop_assert_eq!(in_sql(&mut admin.borrow_mut(), &run), Some(expected));
        Ok(())
    });
    outcome.unwrap();
}

#[test]
fn there_is_no_digest_of_no_change_set_and_roots_are_those_of_the_tree() {
    let world = World::new();
    let mut admin = world.database.client(Login::Admin);
    let none: Option<String> =
        admin.query_one("SELECT cutter_governance.fn_rows_digest($1)", &[&support::id()]).unwrap().get(0);
    assert_eq!(none, None);
    let mut tree = cutter_core::base::merkle::Tree::default();
    let mut leaves: Vec<Vec<u8>> = Vec::new();
    for n in 0..70_u8 {
        let root: Vec<u8> =
            admin.query_one("SELECT cutter_governance.fn_merkle_root($1)", &[&leaves]).unwrap().get(0);
        assert_eq!(root, tree.root().as_bytes(), "{n} leaves");
        let leaf = cutter_core::base::merkle::leaf(&[n]);
        tree.push(leaf);
        leaves.push(leaf.as_bytes().to_vec());
    }
}

/// Every way to cut other rows than the consent names, by the run's own login.
#[test]
fn leg_a_commits_no_rows_but_those_that_the_consent_names() {
    type Spoil = fn(&mut UnitWrite);
    let spoil: [(&str, Spoil); 5] = [
        ("kind", |u| u.unit_kind = "chapter".to_owned()),
        ("type", |u| u.section_type = "annex".to_owned()),
        ("citation", |u| u.citation_address = None),
        ("address", |u| u.canonical_address.push('x')),
        ("body", |u| u.body_hash = Digest::of(b"another")),
    ];
    let world = World::new();
    let source = world.register(3);
    let mut run = world.run(&source);
    run.up_to_sg1();
    for (what, spoil) in spoil {
        let mut write = run.leg_a_write();
        spoil(&mut write.units[1]);
        let open = pending(run.exec(N::LegA, E::LegA(write.clone())));
        let stored = open.facts().values.get(fact::ROWS_DIGEST).cloned();
        assert_eq!(stored, Some(run.rows_of(&write.units).to_hex()), "{what}");
        let error = block_on(open.finish(Verdict::Commit)).unwrap_err();
        assert_eq!(error.kind, PortErrorKind::Conflict, "{what}");
    }
    let mut write = run.leg_a_write();
    write.publication_type = "decree".to_owned();
    // only a verification can be recorded as failed
    for verdict in [Verdict::Commit, Verdict::CommitFailure] {
        let open = pending(run.exec(N::LegA, E::LegA(write.clone())));
        assert_eq!(block_on(open.finish(verdict)).unwrap_err().kind, PortErrorKind::Conflict);
    }
    assert_eq!(world.count("SELECT count(*) FROM iu_core.information_unit"), 0);
    run.do_leg_a();
}

#[test]
fn a_consent_that_names_no_rows_or_two_allows_nothing() {
    let world = World::new();
    for (n, document) in
        ["yes", "rows_digest: 12", "rows_digest: ROWS\nrows_digest: ROWS", "x rows_digest: ROWS"]
            .into_iter()
            .enumerate()
    {
        let source = world.register_as(&format!("LAW-{n}"), &["# 1\n".to_owned()]);
        let mut run = world.run(&source);
        run.do_mark();
        run.do_sweep();
        let rows = run.rows_of(&run.unit_writes()).to_hex();
        let document = document.replace("ROWS", &rows);
        let write = ReviewWrite {
            sha256: Digest::of(document.as_bytes()),
            document: document.clone(),
            ..run.sg1_write(ReviewVerdict::Approve)
        };
        run.commit(run.review(N::Sg1Review, &write));
        let open = pending(run.exec(N::LegA, E::LegA(run.leg_a_write())));
        assert!(block_on(open.finish(Verdict::Commit)).is_err(), "{document}");
    }
}

/// What a superuser may do to rows while SG_2 waits: the enactment does not go through, neither
/// as the driver asks for it nor by the login's own statements.
#[test]
fn rows_changed_while_a_run_waits_are_not_enacted() {
    let world = World::new();
    let one = "unit_id = (SELECT u.unit_id FROM iu_core.information_unit u ORDER BY u.ordinal LIMIT 1)";
    let damages = [
        ("unit_kind", format!("UPDATE iu_core.information_unit SET unit_kind = 'x' WHERE {one}")),
        ("section_type", format!("UPDATE iu_core.information_unit SET section_type = 'x' WHERE {one}")),
        ("citation", format!("UPDATE iu_core.information_unit SET citation_address = NULL WHERE {one}")),
        ("address", format!(
            "UPDATE iu_core.information_unit SET canonical_address = canonical_address || 'x' WHERE {one}"
        )),
        ("body_hash", format!(
            "UPDATE iu_core.information_unit SET body_hash = repeat('0', 64) WHERE {one}"
        )),
        ("key", format!("UPDATE iu_core.information_unit SET idempotency_key = repeat('0', 64) WHERE {one}")),
        ("ordinal", format!("UPDATE iu_core.information_unit SET ordinal = 99 WHERE {one}")),
        ("text with its hash", format!(
            "WITH v AS (UPDATE iu_core.unit_version SET content = 'x', content_hash = encode(sha256('x'), 'hex')
                 WHERE {one} RETURNING unit_id, content_hash)
             UPDATE iu_core.information_unit u SET content_hash = v.content_hash FROM v WHERE u.unit_id = v.unit_id"
        )),
        ("version's body_hash", format!(
            "UPDATE iu_core.unit_version SET body_hash = repeat('0', 64) WHERE {one}"
        )),
        ("anchor", format!("UPDATE iu_core.unit_anchor SET end_byte = end_byte - 1 WHERE {one}")),
        ("another version", format!(
            "INSERT INTO iu_core.unit_version (version_id, unit_id, version_seq, content, content_hash, body_hash,
                 actor, created_at)
             SELECT gen_random_uuid(), unit_id, 2, content, content_hash, body_hash, actor, created_at
             FROM iu_core.unit_version WHERE {one}"
        )),
        ("no version", format!("DELETE FROM iu_core.unit_version WHERE {one}")),
        ("no anchor", format!("DELETE FROM iu_core.unit_anchor WHERE {one}")),
        ("publication_type", "UPDATE cutter_governance.cut_change_set SET publication_type = 'x'".to_owned()),
        ("unit_count", "UPDATE cutter_governance.cut_change_set SET unit_count = 9".to_owned()),
        ("source text", "UPDATE iu_core.source_version SET content = overlay(content PLACING 'x' FROM 1),
             sha256 = encode(sha256(overlay(content PLACING 'x' FROM 1)), 'hex')".to_owned()),
    ];
    let source = world.register(3);
    let mut run = world.run(&source);
    run.up_to_verified();
    run.do_sg2();
    let mut admin = world.database.client(Login::Admin);
    let clean = in_sql(&mut admin, &run);
    for (what, damage) in damages {
        // Enactment, as the login itself would state it, behind the damage in one transaction.
        let mut tx = admin.transaction().unwrap();
        tx.batch_execute("SET LOCAL session_replication_role = replica").unwrap();
        tx.batch_execute(&damage).unwrap_or_else(|e| panic!("{what}: {e}"));
        tx.batch_execute("SET LOCAL session_replication_role = origin").unwrap();
        let sql = "SELECT cutter_governance.fn_rows_digest($1)";
        let damaged: Option<String> = tx.query_one(sql, &[&run.change_set]).unwrap().get(0);
        assert_ne!(damaged, clean, "{what}");
        tx.execute(
            "INSERT INTO cutter_governance.approval_use (approval_id, run_id, effect, effect_id, at)
             VALUES ($1, $2, 'enact', gen_random_uuid(), now())",
            &[&run.enact_approval, &run.run_id.as_str()],
        )
        .unwrap();
        let refused = tx.batch_execute("SET CONSTRAINTS ALL IMMEDIATE").unwrap_err();
        assert_eq!(refused.code().map(|c| c.code()), Some("CUD09"), "{what}: {refused}");
        tx.rollback().unwrap();
    }
    // and as the driver asks for it
    admin
        .batch_execute(
            "SET session_replication_role = replica;
             UPDATE iu_core.information_unit SET unit_kind = 'chapter' WHERE ordinal = 1;
             SET session_replication_role = origin",
        )
        .unwrap();
    let open = pending(run.exec(N::Enact, E::Enact(run.enact_write())));
    assert_ne!(open.facts().values.get(fact::ROWS_DIGEST), clean.as_ref());
    let error = block_on(open.finish(Verdict::Commit)).unwrap_err();
    assert!(error.message.contains("rows"), "{error}");
    assert_eq!(
        world.count("SELECT count(*) FROM iu_core.information_unit WHERE lifecycle_status = 'enacted'"),
        0
    );
}

#[test]
fn a_verdict_passes_no_rows_but_those_that_were_approved() {
    let world = World::new();
    let source = world.register(3);
    let mut run = world.run(&source);
    run.up_to_sg1();
    run.do_leg_a();
    run.do_leg_b();
    let mut admin = world.database.client(Login::Admin);
    admin
        .batch_execute(
            "SET session_replication_role = replica;
             UPDATE iu_core.information_unit SET section_type = 'annex' WHERE ordinal = 1;
             SET session_replication_role = origin",
        )
        .unwrap();
    let open = pending(run.verify(&run.verify_write()));
    assert!(block_on(open.finish(Verdict::Commit)).is_err());
    // the failure itself can be recorded
    let open = pending(run.verify(&run.verify_write()));
    block_on(open.finish(Verdict::CommitFailure)).unwrap();
    assert_eq!(world.count("SELECT count(*) FROM cutter_governance.verify_result WHERE NOT passed"), 1);
}

#[test]
fn both_consents_are_for_the_same_rows() {
    let world = World::new();
    let source = world.register(2);
    let mut run = world.run(&source);
    run.up_to_verified();
    run.do_sg2();
    let mut admin = world.database.client(Login::Admin);
    // SG_1's consent, rewritten to name others: SG_2's alone would be right
    let other = format!("rows_digest: {}\n", Digest::of(b"other rows"));
    let mut tx = admin.transaction().unwrap();
    tx.batch_execute("SET LOCAL session_replication_role = replica").unwrap();
    tx.execute(
        "UPDATE cutter_governance.review_approval SET document = $1, sha256 = encode(sha256($1), 'hex')
         WHERE approval_id = $2",
        &[&other.as_bytes(), &run.cut_approval],
    )
    .unwrap();
    tx.commit().unwrap();
    admin.batch_execute("SET session_replication_role = origin").unwrap();
    let open = run.exec(N::Enact, E::Enact(run.enact_write()));
    let error = match open {
        Err(error) => error,
        Ok(cutter_core::port::database::Begun::Pending(open)) => {
            block_on(open.finish(Verdict::Commit)).unwrap_err()
        }
        Ok(_) => panic!("recorded"),
    };
    assert!(error.message.contains("rows"), "{error}");
}

#[test]
fn the_current_view_shows_what_is_in_force_and_no_draft() {
    let world = World::new();
    let shown = "SELECT coalesce(max(version_no), 0)::bigint * 100 + count(*) FROM iu_core.v_current_unit";
    let source = world.register(3);
    let mut run = world.run(&source);
    run.up_to_verified();
    assert_eq!(world.count(shown), 0, "a first cut in draft");
    run.do_sg2();
    run.do_enact();
    assert_eq!(world.count(shown), 103);
    let next = world.register_as(support::DOCUMENT, &support::texts(5));
    assert_eq!(next.version_no, 2);
    let mut run = world.run(&next);
    run.up_to_verified();
    assert_eq!(world.count(shown), 103, "the next version waits");
    run.do_sg2();
    run.do_enact();
    assert_eq!(world.count(shown), 205);
}
