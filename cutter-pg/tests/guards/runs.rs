//! Of leases, and of moves that the run store shows.

use cutter_pg::login::Login;

use super::Scene;
use super::support::{World, id};

#[test]
fn a_lease_that_was_given_back_is_not_renewed_and_not_given_back_again() {
    let world = World::new();
    let mut exec = world.database.client(Login::Exec);
    exec.batch_execute("SELECT cutter_run.fn_run_create('r', convert_to('{}', 'UTF8'))").unwrap();
    let holder = r#"{"holder":"h","host":"h","pid":1,"since":"s","command":"c"}"#;
    let take = format!("SELECT token FROM cutter_run.fn_lease_take('r', '{}', '{holder}', 60000)", id());
    let mut scene = Scene::of(&world, "cutter_exec").before(&take);
    let renew = "SELECT cutter_run.fn_lease_renew(ARRAY['r'], ARRAY[1], 60000)";
    let release = "SELECT cutter_run.fn_lease_release('r', 1)";
    let released = "UPDATE cutter_run.lease SET released_at = clock_timestamp()";
    scene.holds(&[
        ("", renew, "r"),
        ("", release, "t"),
        (released, renew, ""),
        (released, release, "f"),
        ("", "SELECT cutter_run.fn_lease_renew(ARRAY['r'], ARRAY[2], 60000)", ""),
        ("", "SELECT cutter_run.fn_lease_renew(ARRAY['s'], ARRAY[1], 60000)", ""),
        ("", "SELECT cutter_run.fn_lease_renew(ARRAY['r'], ARRAY[1], 0)", "CU001"),
        ("", "SELECT cutter_run.fn_lease_renew(ARRAY['r'], ARRAY[1], 1)", "r"),
        ("", "SELECT cutter_run.fn_lease_renew(ARRAY['r'], ARRAY[1], 86400000)", "r"),
        ("", "SELECT cutter_run.fn_lease_renew(ARRAY['r'], ARRAY[1], 86400001)", "CU001"),
        ("", "SELECT cutter_run.fn_lease_renew(ARRAY['r'], ARRAY[1], NULL)", "CU001"),
        ("", "SELECT cutter_run.fn_lease_release('r', 2)", "f"),
        ("", "SELECT cutter_run.fn_lease_release('s', 1)", "f"),
    ]);
}

#[test]
fn no_move_out_of_an_end_is_legal() {
    let world = World::new();
    let moves = |states: &[&str]| {
        let mut client = world.database.client(Login::Admin);
        client.batch_execute("BEGIN; SET LOCAL session_replication_role = replica").unwrap();
        client
            .batch_execute(
                "SELECT cutter_run.fn_run_create('r', convert_to('{\"state\":\"pending\"}', 'UTF8'))",
            )
            .unwrap();
        for (n, state) in (2_i64..).zip(states) {
            let body = match state.split_once('/') {
                Some((state, kept)) => serde_json::json!({ "state": state, "kept_stage": kept }),
                None => serde_json::json!({ "state": state }),
            };
            let body = body.to_string().into_bytes();
            let insert = "INSERT INTO cutter_run.revision (run_id, revision, body) VALUES ('r', $1, $2)";
            client.execute(insert, &[&n, &body]).unwrap();
        }
        let legal =
            client.query("SELECT is_legal FROM cutter_run.v_run_move ORDER BY revision", &[]).unwrap();
        client.batch_execute("ROLLBACK").unwrap();
        legal.iter().map(|row| row.get(0)).collect::<Vec<bool>>()
    };
    assert_eq!(moves(&["source_pinned", "marked"]), [true, true, true]);
    assert_eq!(moves(&["marked"]), [true, false], "a step is left out");
    let cases: [(&[&str], &[bool]); 9] = [
        (&["voided_by_sovereign/pending"], &[true, true]),
        (&["voided_by_sovereign/pending", "source_pinned"], &[true, true, false]),
        (&["voided_by_sovereign/pending", "stopped_x/pending"], &[true, true, false]),
        (&["voided_by_sovereign/pending", "voided_again/pending"], &[true, true, false]),
        (&["failed_x/pending"], &[true, true]),
        (&["failed_x/pending", "source_pinned"], &[true, true, false]),
        (&["failed_x/pending", "voided_by_sovereign/pending"], &[true, true, true]),
        (&["stopped_x/pending", "source_pinned"], &[true, true, true]),
        (&["stopped_x/pending", "marked"], &[true, true, false]),
    ];
    for (states, legal) in cases {
        assert_eq!(moves(states), legal, "{states:?}");
    }
}

const HOLDER: &str = r#"'{"holder":"h","host":"h","pid":1,"since":"s","command":"c"}'"#;

/// Two runs, each with a lease of the first token, and the second with more revisions.
fn two_runs() -> String {
    let run = |run: &str| {
        format!(
            "SELECT FROM cutter_run.fn_run_begin('{run}', 'abc', '{}', {HOLDER}, 60000, NULL, NULL);",
            id()
        )
    };
    run("r") + &run("s")
}

#[test]
fn a_run_begins_once_with_a_holder_and_a_lease_within_their_bounds() {
    let world = World::new();
    let begin = |body: &str, holder: &str, lease: &str, document: &str| {
        format!(
            "SELECT concat_ws(' ', b.created, b.highest, b.token, b.holder = {holder}, b.claimed, b.newest)
             FROM cutter_run.fn_run_begin('r', convert_to({body}, 'UTF8'), '{}', {holder}, {lease}, {document}, 1) b",
            id()
        )
    };
    let of = |holder: &str, lease: &str| begin("'abc'", holder, lease, "'D'");
    let (long, longer) = (format!("rpad({HOLDER}, 16384)"), format!("rpad({HOLDER}, 16385)"));
    let known = "INSERT INTO cutter_run.run (run_id) VALUES ('r');
        INSERT INTO cutter_run.revision (run_id, revision, body) VALUES ('r', 1, 'abc')";
    let taken = format!(
        "{known}; INSERT INTO cutter_run.lease (run_id, token, attempt, holder, taken_at, renewed_at, expires_at)
         VALUES ('r', 1, '{}', 'other', now(), now(), now() + interval '1 hour')",
        id()
    );
    let begun = "applied 1 1 t applied 0";
    let mut exec = Scene::of(&world, "cutter_exec");
    exec.holds(&[
        ("", of(HOLDER, "60000"), begun),
        ("", of(&long, "60000"), begun),
        ("", of(&longer, "60000"), "CU001"),
        ("", of("''", "60000"), "CU001"),
        ("", of(HOLDER, "1"), begun),
        ("", of(HOLDER, "0"), "CU001"),
        ("", of(HOLDER, "86400000"), begun),
        ("", of(HOLDER, "86400001"), "CU001"),
        ("", begin("repeat('a', 65536)", HOLDER, "60000", "'D'"), begun),
        ("", begin("repeat('a', 65537)", HOLDER, "60000", "'D'"), "CU001"),
        ("", begin("''", HOLDER, "60000", "'D'"), "CU001"),
        ("", begin("'abc'", HOLDER, "60000", "NULL"), "applied 1 1 t"),
        (known, of(HOLDER, "60000"), "already_applied 1 1 t applied 0"),
        (known, begin("'abd'", HOLDER, "60000", "'D'"), "conflict 1"),
        // who does not get the lease claims nothing
        (&taken, of(HOLDER, "60000"), "already_applied 1 f"),
    ]);
}

#[test]
fn a_save_renews_gives_back_and_compares_what_is_its_own_runs() {
    let world = World::new();
    let saved = |name: &str, expected: u32, body: &str, token: &str, is_last: bool| {
        format!(
            "SELECT coalesce(r ->> 'outcome', 'saved') || coalesce(r -> 'stop' ->> 'reason', '') FROM
                 cutter_run.{name}('r', {expected}, '{body}', NULL, 3, {token}, 60000, {is_last}) r;
             SELECT coalesce(string_agg(l.run_id, '' ORDER BY l.run_id), 'none') FROM cutter_run.lease l
             WHERE l.released_at IS NOT NULL"
        )
    };
    let released =
        |run: &str| format!("UPDATE cutter_run.lease SET released_at = taken_at WHERE run_id = '{run}'");
    let lapsed =
        |run: &str| format!("UPDATE cutter_run.lease SET expires_at = taken_at WHERE run_id = '{run}'");
    let stop = |run: &str| {
        format!(
            "INSERT INTO cutter_run.stop_request (run_id, n, id, reason, actor, asked_at)
             VALUES ('{run}', 1, '{}', '!', 'me', 'now')",
            id()
        )
    };
    let revision = |run: &str, number: u32, body: &str, token: u32| {
        format!(
            "INSERT INTO cutter_run.revision (run_id, revision, body, lease_token)
             VALUES ('{run}', {number}, '{body}', {token})"
        )
    };
    let gave_back = |run: &str, number: u32, token: u32| {
        format!("{}; {}", released("r"), revision(run, number, "abd", token))
    };
    let mut owner = Scene::of(&world, "cutter_owner").before(&two_runs());
    for name in ["fn_run_publish", "fn_run_publish_told_apart"] {
        let save = |token: &str, is_last: bool| saved(name, 1, "abd", token, is_last);
        let own = || save("1", false);
        let last = || save("1", true);
        owner.holds(&[
            (String::new(), own(), "saved,none"),
            // the last save gives back this lease, and no other
            (String::new(), last(), "saved,r"),
            (lapsed("r"), last(), "saved,r"),
            (String::new(), save("2", true), "CUF02"),
            (released("r"), own(), "CUF02"),
            (released("s"), own(), "saved,s"),
            (String::new(), save("NULL", false), "CUF02"),
            (released("r"), save("NULL", false), "saved,r"),
            (lapsed("r"), save("NULL", false), "saved,none"),
            ("DELETE FROM cutter_run.lease WHERE run_id = 'r'".to_owned(), save("NULL", false), "saved,none"),
            ("DELETE FROM cutter_run.lease WHERE run_id = 'r'".to_owned(), own(), "CUF02"),
            (stop("r"), own(), "applied!,none"),
            (stop("s"), own(), "saved,none"),
            (stop("r"), last(), "applied!,r"),
            // the last save once more, by who made it
            (gave_back("r", 2, 1), last(), "already_applied,r"),
            (gave_back("r", 2, 1), own(), "CUF02"),
            (gave_back("r", 2, 2), last(), "CUF02"),
            (gave_back("r", 3, 1), last(), "CUF02"),
            (gave_back("s", 2, 1), last(), "CUF02"),
            (revision("r", 2, "abd", 1), own(), "already_applied,none"),
            (revision("r", 2, "abe", 1), own(), "conflict,none"),
            (revision("r", 3, "abd", 1), own(), "conflict,none"),
            (revision("s", 2, "abd", 1), own(), "saved,none"),
            ("DELETE FROM cutter_run.revision WHERE run_id = 'r'".to_owned(), own(), "CUN10"),
        ]);
    }
    // a save of what changed is compared as the text that it makes
    let (whole, changed) = ("'abX', NULL, 3", "'X', '{0,2,1}', 3");
    let saved_as = |sent: &str| {
        ["fn_run_publish", "fn_run_publish_told_apart"].map(|name| {
            format!("SELECT r ->> 'outcome' FROM cutter_run.{name}('r', 1, {sent}, 1, 60000, false) r")
        })
    };
    for call in saved_as(whole).into_iter().chain(saved_as(changed)) {
        owner.holds(&[
            (revision("r", 2, "abX", 1), &call, "already_applied"),
            (revision("r", 2, "abY", 1), &call, "conflict"),
            (revision("r", 2, "X", 1), &call, "conflict"),
        ]);
    }
    // a young lease is left as it is, an older one is renewed, and no other run's
    let renewed = "SELECT cutter_run.fn_run_publish('r', 1, 'abd', NULL, 3, 1, 60000, false);
        SELECT l.run_id FROM cutter_run.lease l WHERE l.renewed_at > l.taken_at AND l.expires_at > l.renewed_at";
    let left = |seconds: u32| {
        format!("UPDATE cutter_run.lease SET expires_at = clock_timestamp() + interval '{seconds} s'")
    };
    let told_apart = renewed.replace("publish", "publish_told_apart");
    owner.holds(&[
        (left(60), renewed, "NULL"),
        (left(29), renewed, "NULL,r"),
        (lapsed("r"), renewed, "NULL,r"),
        (left(60), &told_apart, "NULL,r"),
    ]);
}

#[test]
fn a_text_is_made_of_its_own_runs_revisions() {
    let world = World::new();
    let changed = "INSERT INTO cutter_run.revision (run_id, revision, body, places, length)
        VALUES ('r', 2, 'X', '{0,2,1}', 3), ('r', 3, 'Y', '{1,2,1}', 3)";
    let full = |run: &str, number: u32| {
        format!(
            "{changed}; INSERT INTO cutter_run.revision (run_id, revision, body) VALUES ('{run}', {number}, 'full')"
        )
    };
    let texts = |last: &str, all: bool| {
        format!("SELECT convert_from(t.body, 'UTF8') FROM cutter_run.fn_run_texts('r', {last}, {all}) t")
    };
    let (one, all) = (texts("3", false), texts("3", true));
    let mut owner = Scene::of(&world, "cutter_owner").before(&two_runs());
    owner.holds(&[
        (changed.to_owned(), &one, "bXY"),
        (changed.to_owned(), &all, "abc,abX,bXY"),
        (changed.to_owned(), &texts("2", false), "abX"),
        (changed.to_owned(), &texts("2", true), "abc,abX"),
        (changed.to_owned(), &texts("4", false), ""),
        // a whole one of another run, or of later, is none to begin with
        (full("s", 2), &one, "bXY"),
        (full("s", 3), &one, "bXY"),
        (full("r", 4), &one, "bXY"),
        (full("r", 4), &texts("4", false), "full"),
        // and what is older than that is not read
        (
            format!(
                "{}; UPDATE cutter_run.revision SET length = 9 WHERE run_id = 'r' AND revision < 4",
                full("r", 4)
            ),
            &texts("4", false),
            "full",
        ),
        (
            format!("{changed}; DELETE FROM cutter_run.revision WHERE run_id = 'r' AND revision = 2"),
            &one,
            "XX001",
        ),
        (
            format!(
                "{changed}; UPDATE cutter_run.revision SET length = 4 WHERE run_id = 'r' AND revision = 3"
            ),
            &one,
            "XX001",
        ),
    ]);
}

#[test]
fn a_later_revision_rewrites_nothing_that_is_fixed() {
    let world = World::new();
    let with = |key: &str, value: serde_json::Value| {
        let mut record = serde_json::json!({ "run_id": "r", "document_id": "d", "created_by": "c", "created_utc": "u",
            "settings": {}, "creation": {}, "transitions": [1, 2], "state": "a" });
        if value.is_null() {
            record.as_object_mut().unwrap().remove(key);
        } else {
            record[key] = value;
        }
        record.to_string()
    };
    let list = |links: &[u32]| with("transitions", links.into());
    let base = list(&[1, 2]);
    let earlier = "an earlier transition";
    let mut cases = vec![
        (base.clone(), base.clone(), "NULL"),
        (base.clone(), with("state", "b".into()), "NULL"),
        (base.clone(), list(&[1, 2, 3]), "NULL"),
        (base.clone(), list(&[1]), earlier),
        (base.clone(), list(&[]), earlier),
        (base.clone(), list(&[2, 1]), earlier),
        (base.clone(), list(&[1, 3, 2]), earlier),
        (base.clone(), list(&[3, 2]), earlier),
        (base.clone(), with("transitions", ().into()), earlier),
        (base.clone(), with("transitions", "x".into()), earlier),
        (list(&[]), list(&[]), "NULL"),
        (list(&[]), list(&[1]), "NULL"),
        (list(&[]), with("transitions", ().into()), earlier),
        (base.clone(), "no record".to_owned(), "the whole"),
        // what is no record fixes nothing
        ("no record".to_owned(), base.clone(), "NULL"),
        ("no record".to_owned(), "nor this".to_owned(), "NULL"),
        (with("transitions", ().into()), with("run_id", "s".into()), "NULL"),
        (with("transitions", "x".into()), "no record".to_owned(), "NULL"),
    ];
    for key in ["run_id", "document_id", "created_by", "created_utc", "settings", "creation"] {
        cases.push((base.clone(), with(key, "other".into()), key));
        cases.push((base.clone(), with(key, ().into()), key));
        cases.push((with(key, ().into()), base.clone(), key));
    }
    let lines: Vec<_> = cases
        .into_iter()
        .map(|(before, after, out)| {
            let text = |text: String| format!("convert_to('{text}', 'UTF8')");
            ("", format!("SELECT cutter_run.fn_rewritten({}, {})", text(before), text(after)), out)
        })
        .collect();
    Scene::of(&world, "cutter_owner").holds(&lines);
}
