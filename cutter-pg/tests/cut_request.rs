//! Cut requests on a real server: the database has the core's edges and answers as the core judges,
//! nothing is written around the functions, and the specification's functions drive a request from
//! SQL alone up to where the governed run takes over.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::collections::BTreeMap;

use cutter_core::base::digest::Digest;
use cutter_core::machine::cut_request::{CUT_REQUEST, CutRequestStatus as S};
use cutter_core::port::cut_request::CutRequests as _;
use cutter_core::record::cut_request::{
    CutRequest, Judgement, ManifestFacts, MarkVerdict, Operation, Refusal, RunCommitted, SignalName, judge,
};
use cutter_pg::login::Login;
use futures_executor::block_on;
use postgres::Client;
use support::{World, digest, id};
use uuid::Uuid;

const LOGINS: [Login; 5] = [Login::Exec, Login::Verify, Login::Review, Login::Ro, Login::Directus];
const TEXT: &str = "Điều 1. Một.\nĐiều 2. Hai.\n";

type Answer<T> = Result<T, (String, String)>;

fn refusal(error: postgres::Error) -> (String, String) {
    let error = error.as_db_error().unwrap_or_else(|| panic!("{error:?}"));
    (error.code().code().to_owned(), error.message().to_owned())
}

fn add(client: &mut Client) -> Uuid {
    let row = client.query_one("SELECT public.fn_cut_request_add('laws/a.md', NULL, 'customer')", &[]);
    row.unwrap().get(0)
}

/// Along legal edges, by the owner's internal function.
fn walk(admin: &mut Client, to: S) -> Uuid {
    let mut path = vec![to];
    while path[0] != S::Requested {
        let edges = CUT_REQUEST.edges();
        let (from, _) = edges.into_iter().find(|(from, to)| *to == path[0] && !path.contains(from)).unwrap();
        path.insert(0, from);
    }
    let request = add(admin);
    for step in &path[1..] {
        transition(admin, request, *step).unwrap();
    }
    request
}

fn transition(client: &mut Client, request: Uuid, to: S) -> Answer<u64> {
    let call = "SELECT public.fn_cut_request_transition($1, $2, 'me', NULL)";
    client.execute(call, &[&request, &to.as_str()]).map_err(refusal)
}

#[test]
fn the_database_has_exactly_the_edges_of_the_core() {
    let world = World::new();
    let mut admin = world.database.client(Login::Admin);
    for &from in S::ALL {
        let request = walk(&mut admin, from);
        for &to in S::ALL {
            admin.batch_execute("BEGIN").unwrap();
            let outcome = transition(&mut admin, request, to);
            admin.batch_execute("ROLLBACK; BEGIN").unwrap();
            // The table itself has the same edges, whoever writes.
            let update = "UPDATE public.cut_request SET status = $2 WHERE cut_request_id = $1";
            let direct = admin.execute(update, &[&request, &to.as_str()]).map_err(refusal);
            admin.batch_execute("ROLLBACK").unwrap();
            match CUT_REQUEST.check(from, to) {
                Ok(()) => {
                    assert_eq!(outcome, Ok(1), "{from}->{to}");
                    assert_eq!(direct, Ok(1), "{from}->{to} by UPDATE");
                }
                Err(illegal) => {
                    let expected = Err(("CUC09".to_owned(), illegal.to_string()));
                    assert_eq!(outcome, expected);
                    assert_eq!(direct, expected, "by UPDATE");
                }
            }
        }
    }
    let check =
        "SELECT pg_get_constraintdef(oid) FROM pg_constraint WHERE conname = 'cut_request_status_check'";
    let check: String = admin.query_one(check, &[]).unwrap().get(0);
    let words = admin
        .query(
            "SELECT split_part(config_key, '.', 3) FROM public.dot_config
             WHERE starts_with(config_key, 'vocab.cut_request_status.') ORDER BY config_value",
            &[],
        )
        .unwrap();
    let words: Vec<String> = words.iter().map(|row| row.get(0)).collect();
    let statuses: Vec<&str> = S::ALL.iter().map(|status| status.as_str()).collect();
    assert_eq!(words, statuses, "the vocabulary, in order");
    assert!(statuses.iter().all(|status| check.contains(&format!("'{status}'"))), "{check}");
    assert_eq!(check.matches("::text").count(), 13, "{check}");
    for name in SignalName::ALL {
        let row = admin.query_one("SELECT cutter_governance.fn_cut_signal_statuses($1)", &[&name.as_str()]);
        let stored: Vec<String> = row.unwrap().get(0);
        let expected: Vec<&str> = name.statuses().iter().map(|status| status.as_str()).collect();
        assert_eq!(stored, expected, "{name}");
    }
}

fn manifest(gap: usize, name: &str) -> String {
    let (middle, end) = (TEXT.find("Điều 2").unwrap(), TEXT.len());
    serde_json::json!({
        "document": { "path": "a.md", "bytes": end, "sha256": digest(TEXT).to_hex() },
        "region": { "start": 0, "end": end, "sha256": digest(TEXT).to_hex() },
        "detection": { "confidence": 0.75 },
        "units": [{ "ordinal": 0, "start": 0, "end": middle }, { "ordinal": 1, "start": middle + gap, "end": end }],
        "manifest_digest": digest(name).to_hex(),
    })
    .to_string()
}

/// An operation with the call that asks the database for it.
fn operations() -> Vec<(Operation, String)> {
    let hash = digest(TEXT);
    let bytes = format!("convert_to('{TEXT}', 'UTF8')");
    let run = "ictr-20260520T101112Z-01970000-0000-7000-8000-00000000aaaa";
    let mark = |text: &str, named: Digest| {
        let manifest = ManifestFacts::from_json(text.as_bytes()).unwrap();
        let call = format!(
            "SELECT cutter_governance.fn_cut_request_marked($1, gen_random_uuid(), '{text}', '{named}', 'me', now())"
        );
        (Operation::Mark { manifest, manifest_digest: named }, call)
    };
    let verdict = |verdict: MarkVerdict, doc: Option<&str>, reason: Option<&str>| {
        let sql = |text: Option<&str>| text.map_or("NULL".to_owned(), |text| format!("'{text}'"));
        let call = format!(
            "SELECT cutter_governance.fn_cut_request_mark_decided($1, {}, 'me', {}, {}, now())",
            verdict == MarkVerdict::Approved,
            sql(doc),
            sql(reason)
        );
        let said = |text: Option<&str>| text.map(str::to_owned);
        (Operation::VerifyMark { verdict, approval_doc_id: said(doc), reason: said(reason) }, call)
    };
    let copy = |expected: Digest, call: &str| {
        let operation = Operation::Copy { expected, observed: hash, bytes: TEXT.len() as u64 };
        let call = format!(
            "SELECT cutter_governance.fn_cut_request_copied($1, gen_random_uuid(), {call}, '{expected}', NULL, 'me', now())"
        );
        (operation, call)
    };
    let ended = RunCommitted { ended: Some("failed_IG_mark".to_owned()), ..RunCommitted::default() };
    vec![
        copy(hash, &bytes),
        copy(digest("another text"), &bytes),
        mark(&manifest(0, "1"), digest("1")),
        mark(&manifest(1, "1"), digest("1")),
        mark(&manifest(0, "1"), digest("2")),
        mark(&manifest(0, "1").replace(&hash.to_hex(), &digest("x").to_hex()), digest("1")),
        verdict(MarkVerdict::Approved, Some("laws/approval.md"), None),
        verdict(MarkVerdict::Approved, Some(" "), None),
        verdict(MarkVerdict::Rejected, None, Some("no")),
        verdict(MarkVerdict::Rejected, None, None),
        (Operation::AskCut, "SELECT iu_core.fn_iu_op_cut($1, false, 'me', now())".to_owned()),
        (Operation::AskVerifyCut, "SELECT iu_core.fn_iu_op_verify_cut($1, 'me', now())".to_owned()),
        (
            Operation::CutStart { cut_run_id: run[run.len() - 36..].parse().unwrap(), is_free: true },
            format!("SELECT cutter_governance.fn_cut_request_start($1, '{run}', 'me', now())"),
        ),
        (
            Operation::Follow { within: None, run: ended },
            "SELECT cutter_governance.fn_cut_request_run_ended($1, 'failed_IG_mark', 'me', now())".to_owned(),
        ),
        (
            Operation::Complete { is_enacted: false },
            "SELECT cutter_governance.fn_cut_request_completed($1, 'me', now())".to_owned(),
        ),
    ]
}

fn stands(world: &World, request: Uuid) -> CutRequest {
    block_on(world.port.get(request)).unwrap().unwrap()
}

/// Requests at each status, as operations leave them and (beyond those) as the owner moves them.
fn requests(admin: &mut Client) -> Vec<Uuid> {
    let steps: Vec<String> = operations().into_iter().map(|(_, call)| call).collect();
    let (copy, mark, approve, reject, start, fail) =
        (&steps[0], &steps[2], &steps[6], &steps[8], &steps[12], &steps[13]);
    let paths: [&[&String]; 7] = [
        &[],
        &[copy],
        &[copy, mark],
        &[copy, mark, reject],
        &[copy, mark, approve],
        &[copy, mark, approve, start],
        &[copy, mark, approve, start, fail],
    ];
    let mut all = Vec::new();
    for (n, path) in paths.into_iter().enumerate() {
        let request = add(admin);
        for call in path {
            // A run of its own each time.
            let call = call.replace("00000000aaaa", &format!("00000000000{n}"));
            admin.query(&call, &[&request]).unwrap();
        }
        all.push(request);
    }
    for status in [S::CutDone, S::CutVerified, S::CutFailed, S::CleanupScheduled, S::Cleaned] {
        let request = add(admin);
        for call in [copy, mark, approve, start] {
            let call = call.replace("00000000aaaa", &format!("0000000001{}0", status as u8 % 10));
            let call = call.replace("'01970000", "'01980000");
            admin
                .query(&call.replace("Z-01970000", &format!("Z-0198000{}", status as u8 % 10)), &[&request])
                .unwrap();
        }
        let path: &[S] = match status {
            S::CutDone => &[S::CutDone],
            S::CutVerified => &[S::CutDone, S::CutVerified],
            S::CutFailed => &[S::CutDone, S::CutFailed],
            S::CleanupScheduled => &[S::CutDone, S::CutVerified, S::Completed, S::CleanupScheduled],
            _ => &[S::CutDone, S::CutVerified, S::Completed, S::CleanupScheduled, S::Cleaned],
        };
        for &step in path {
            transition(admin, request, step).unwrap();
        }
        all.push(request);
    }
    all
}

#[test]
fn the_database_answers_as_the_core_judges() {
    let world = World::new();
    let mut admin = world.database.client(Login::Admin);
    let mut answers = BTreeMap::<&str, usize>::new();
    for request in requests(&mut admin) {
        let before = stands(&world, request);
        for (operation, call) in operations() {
            admin.batch_execute("BEGIN").unwrap();
            let outcome = admin.query(&call, &[&request]).map_err(refusal).and_then(|_| {
                admin.batch_execute("SET CONSTRAINTS ALL IMMEDIATE").map_err(refusal)?;
                let status = "SELECT status FROM public.cut_request WHERE cut_request_id = $1";
                Ok(admin.query_one(status, &[&request]).unwrap().get::<_, String>(0))
            });
            admin.batch_execute("ROLLBACK").unwrap();
            let at = format!("{} {operation:?}", before.status);
            match (judge(&before, &operation), outcome) {
                (Judgement::Apply(moves), Ok(status)) => {
                    *answers.entry("apply").or_default() += 1;
                    let to = moves.last().map_or(before.status, |step| step.to);
                    assert_eq!(to.as_str(), status, "{at}");
                }
                (Judgement::Replay, Ok(status)) => {
                    *answers.entry("replay").or_default() += 1;
                    assert_eq!(status, before.status.as_str(), "{at}");
                }
                (Judgement::Refused(Refusal::Illegal(illegal)), Err((code, message))) => {
                    *answers.entry("illegal").or_default() += 1;
                    assert_eq!((code.as_str(), message), ("CUC09", illegal.to_string()), "{at}");
                }
                (Judgement::Refused(Refusal::Rules(checks)), Err((code, message))) => {
                    *answers.entry("rule").or_default() += 1;
                    let named = format!("{}: expected {}", checks[0].invariant, checks[0].expected);
                    assert!(
                        code == "CUC10" && message.starts_with(&named),
                        "{at}: {code} {message}: {checks:?}"
                    );
                }
                // asked over what the function gives back: the functions of the spec take its word
                (Judgement::Refused(Refusal::Rules(checks)), Ok(_))
                    if checks[0].invariant == "verify_mark.same_document" => {}
                (judged, answered) => panic!("{at}: {judged:?}, but {answered:?}"),
            }
        }
        assert_eq!(stands(&world, request), before);
    }
    assert!(answers.len() == 4 && answers.values().all(|n| *n >= 5), "{answers:?}");
}

#[test]
fn nothing_is_written_around_the_functions() {
    let world = World::new();
    let mut admin = world.database.client(Login::Admin);
    let request = walk(&mut admin, S::Marked);
    let statements = [
        "UPDATE public.cut_request SET status = 'mark_verified'",
        "UPDATE public.cut_request SET requested_by = 'another'",
        "INSERT INTO public.cut_request (source_ref, requested_by) VALUES ('x', 'me')",
        "DELETE FROM public.cut_request",
        "TRUNCATE public.cut_request CASCADE",
        "UPDATE public.cut_request_transition SET actor = 'another'",
        "INSERT INTO public.cut_request_transition (cut_request_id, to_status, actor)
             SELECT cut_request_id, 'mark_verified', 'me' FROM public.cut_request",
        "DELETE FROM public.cut_request_transition",
        "TRUNCATE public.cut_request_transition",
        "UPDATE cutter_queue.job_signal SET signal = 'cut'",
        "DELETE FROM cutter_queue.job_signal",
        "TRUNCATE cutter_queue.job_signal",
        "DELETE FROM iu_core.iu_staging_record",
        "TRUNCATE iu_core.iu_staging_payload",
        "INSERT INTO cutter_governance.copy_folder (folder) VALUES ('/etc')",
        "SELECT public.fn_cut_request_transition(cut_request_id, 'mark_verified', 'me', NULL) FROM public.cut_request",
        "SELECT cutter_governance.fn_cut_request_move(NULL, 'marked', 'mark_verified', NULL, 'me', NULL, now())",
        "SELECT cutter_governance.fn_copy_read('/etc/passwd', 10)",
        "SELECT cutter_queue.fn_job_enqueue('cut', '{}', 'me')",
        "SELECT iu_core.fn_iu_op_verify_mark(NULL, NULL, true, now())",
    ];
    for login in LOGINS {
        let mut client = world.database.client(login);
        for statement in statements {
            let (code, message) = client.batch_execute(statement).map_err(refusal).expect_err(statement);
            assert_eq!(code, "42501", "{login}: {statement}: {message}");
        }
    }
    // The administrator is no exception where the schema can say so.
    for statement in statements.iter().filter(|s| !s.contains("copy_folder") && !s.starts_with("SELECT")) {
        let (code, message) = admin.batch_execute(statement).map_err(refusal).expect_err(statement);
        assert!(code.starts_with("CU"), "{statement}: {code} {message}");
    }
    assert_eq!(stands(&world, request).status, S::Marked);
}

#[test]
fn what_was_said_once_of_a_request_stands() {
    let world = World::new();
    let mut admin = world.database.client(Login::Admin);
    for (at, next, set) in [
        (S::Copied, "mark_in_progress", "source_ref = 'another'"),
        (S::Copied, "mark_in_progress", "copied_at = now() + interval '1 day'"),
        (S::Copied, "mark_in_progress", "requested_at = now() + interval '1 day'"),
        (S::MarkVerified, "cut_in_progress", "mark_verdict = NULL"),
        (S::CleanupScheduled, "cleaned", "cleanup_scheduled_at = now()"),
    ] {
        let request = walk(&mut admin, at);
        let update = format!(
            "UPDATE public.cut_request SET status = '{next}', {set} WHERE cut_request_id = '{request}'"
        );
        let (code, message) = admin.batch_execute(&update).map_err(refusal).expect_err(set);
        assert!(code == "CU003" && message.contains("may not change any more"), "{message}");
    }
    let insert = "INSERT INTO public.cut_request (source_ref, requested_by, status) VALUES ('x', 'me', 'cut_verified')";
    assert_eq!(admin.batch_execute(insert).map_err(refusal).unwrap_err().0, "CU003");
    let insert = "INSERT INTO public.cut_request (source_ref, requested_by) VALUES ('x', 'me')";
    assert_eq!(admin.batch_execute(insert).map_err(refusal).unwrap_err().0, "CU005", "no timeline");
}

#[test]
fn the_functions_of_the_specification_drive_a_request_to_its_approved_mark() {
    let world = World::new();
    let mut exec = world.database.client(Login::Exec);
    let mut review = world.database.client(Login::Review);
    let request = add(&mut exec);
    let copied: bool = exec.query_one(&operations()[0].1, &[&request]).unwrap().get(0);
    assert!(copied);
    let mut mark = |gap: usize, named: &str| -> Answer<Uuid> {
        let call = "SELECT public.fn_cut_mark_staged_file($1, $2::text::jsonb, $3, 'me')";
        let row = exec.query_one(call, &[&request, &manifest(gap, "1"), &digest(named).to_hex()]);
        Ok(row.map_err(refusal)?.get(0))
    };
    for (gap, named, rule) in [(1, "1", "mark.partition: "), (0, "2", "mark.manifest_digest: ")] {
        let (code, message) = mark(gap, named).unwrap_err();
        assert!(code == "CUC10" && message.starts_with(rule), "{message}");
    }
    assert_eq!(stands(&world, request).status, S::Copied, "a refused mark leaves nothing half-written");
    let first = mark(0, "1").unwrap();
    assert_eq!(mark(0, "1"), Ok(first), "the same mark again");
    let mut decide = |approve: bool, doc: Option<&str>, reason: Option<&str>| -> Answer<String> {
        let call = "SELECT public.fn_cut_verify_mark($1, $2, 'reviewer', $3, $4)";
        Ok(review.query_one(call, &[&request, &approve, &doc, &reason]).map_err(refusal)?.get(0))
    };
    assert_eq!(decide(false, None, Some("no")).unwrap(), "mark_rejected");
    let second = mark(0, "1").unwrap();
    assert_ne!(first, second);
    assert_eq!(decide(true, Some("laws/approval.md"), None).unwrap(), "mark_verified");

    let mut apply = |dry: bool| -> (String, String) {
        let call = "SELECT public.fn_cut_apply($1, $2, 'me') ->> 'signal', (SELECT q.status FROM public.cut_request q)";
        let row = exec.query_one(call, &[&request, &dry]).unwrap();
        (row.get(0), row.get(1))
    };
    let open = "SELECT count(*) FROM cutter_queue.job_signal WHERE signal = 'cut' AND finished_at IS NULL";
    for (dry, signals) in [(true, 0), (false, 1), (false, 1)] {
        assert_eq!(apply(dry), ("cut".to_owned(), "mark_verified".to_owned()));
        assert_eq!(world.count(open), signals);
    }
    let mut verify = world.database.client(Login::Verify);
    let (code, message) =
        verify.query("SELECT public.fn_cut_verify_cut($1, 'me')", &[&request]).map_err(refusal).unwrap_err();
    assert_eq!(
        (&*code, &*message),
        ("CUC09", "illegal cut_request transition mark_verified->cut_verified (legal=cut_in_progress)")
    );
    let (code, _) =
        exec.query("SELECT public.fn_cut_complete($1, 'me')", &[&request]).map_err(refusal).unwrap_err();
    assert_eq!(code, "CUC09");

    let staging = block_on(world.port.staging(request)).unwrap();
    let mut staging: Vec<(&str, &str)> =
        staging.iter().map(|r| (r.record_kind.as_str(), r.lifecycle_status.as_str())).collect();
    staging.sort_unstable();
    let expected = [("mark_manifest", "approved"), ("mark_manifest", "expired"), ("source_copy", "approved")];
    assert_eq!(staging, expected);
    for (login, call) in [
        (Login::Exec, "SELECT public.fn_cut_verify_mark(NULL, true, 'me', 'd', NULL)"),
        (Login::Exec, "SELECT public.fn_cut_verify_cut(NULL, 'me')"),
        (Login::Review, "SELECT public.fn_cut_apply(NULL, false, 'me')"),
        (Login::Verify, "SELECT public.fn_cut_complete(NULL, 'me')"),
        (Login::Directus, "SELECT public.fn_cut_request_add('x', NULL, 'me')"),
    ] {
        let (code, _) = world.database.client(login).batch_execute(call).map_err(refusal).unwrap_err();
        assert_eq!(code, "42501", "{login}: {call}");
    }
    // No scheduler, no outbox, no vector store is anywhere near.
    let strangers =
        "SELECT count(*) FROM pg_class WHERE relname ~ 'outbox|qdrant|vector' AND relkind IN ('r', 'v')";
    assert_eq!(world.count(strangers), 0);
    assert_eq!(world.count("SELECT count(*) FROM pg_extension WHERE extname IN ('pg_cron', 'vector')"), 0);
}

#[test]
fn a_signal_carries_ids_and_nothing_else() {
    let world = World::new();
    let mut exec = world.database.client(Login::Exec);
    let request = add(&mut exec);
    let mut signal = |name: &str, payload: &str| -> Answer<Uuid> {
        let call = "SELECT public.fn_cut_request_signal($1, $2, 'me', $3::text::jsonb)";
        Ok(exec.query_one(call, &[&name, &request, &payload]).map_err(refusal)?.get(0))
    };
    let standing = signal("copy", "{}").unwrap();
    assert_eq!(signal("copy", "{}"), Ok(standing), "once while it is open");
    for name in ["mark", "cut", "cleanup", "anything"] {
        assert_eq!(signal(name, "{}").unwrap_err().0, "CUC11", "{name} of a new request");
    }
    let mut admin = world.database.client(Login::Admin);
    for payload in [r#"{"text":"the law itself"}"#, r#"{"content":"x"}"#, "[]"] {
        let call = format!(
            "SELECT cutter_queue.fn_job_enqueue('copy', '{payload}'::jsonb || '{{\"cut_request_id\":\"{request}\"}}', 'me')"
        );
        admin
            .batch_execute("UPDATE cutter_queue.job_signal SET finished_at = now() WHERE finished_at IS NULL")
            .unwrap();
        let code = admin.batch_execute(&call).map_err(refusal).unwrap_err().0;
        assert!(["23514", "23502"].contains(&code.as_str()), "{payload}: {code}");
    }
}

#[test]
fn the_server_copies_only_what_its_owner_put_into_the_folder() {
    let world = World::new();
    let mut exec = world.database.client(Login::Exec);
    let mut admin = world.database.client(Login::Admin);
    let request = add(&mut exec);
    let mut copy = |name: Option<&str>| -> Answer<Uuid> {
        let call = "SELECT public.fn_cut_copy_to_staging($1, $2, 'me')";
        Ok(exec.query_one(call, &[&request, &name]).map_err(refusal)?.get(0))
    };
    assert_eq!(copy(Some("a.md")).unwrap_err().0, "CUD08", "off until the owner sets a folder");
    let folder = std::env::temp_dir().join(format!("cutter-copy-{}", id()));
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(folder.join("Điều 1.md"), TEXT).unwrap();
    for path in [folder.clone(), folder.join("Điều 1.md")] {
        let mode = if path.is_dir() { 0o755 } else { 0o644 };
        let mode = <std::fs::Permissions as std::os::unix::fs::PermissionsExt>::from_mode(mode);
        std::fs::set_permissions(path, mode).unwrap();
    }
    for bad in ["relative", "/a/../b", "/a/./b"] {
        let insert = "INSERT INTO cutter_governance.copy_folder (folder) VALUES ($1)";
        assert_eq!(admin.execute(insert, &[&bad]).map_err(refusal).unwrap_err().0, "23514", "{bad}");
    }
    let insert = "INSERT INTO cutter_governance.copy_folder (folder) VALUES ($1)";
    admin.execute(insert, &[&folder.to_string_lossy().into_owned()]).unwrap();
    let long = "x".repeat(256);
    for name in [
        None,
        Some(""),
        Some("."),
        Some(".."),
        Some("../a"),
        Some("a/b"),
        Some("/etc/passwd"),
        Some("a\\b"),
        Some("a\nb"),
        Some(&*long),
    ] {
        assert_eq!(copy(name).unwrap_err().0, "CU003", "{name:?}");
    }
    assert!(copy(Some("missing.md")).is_err());
    let staged = copy(Some("Điều 1.md")).unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
    assert_eq!(copy(Some("Điều 1.md")), Ok(staged), "a copy that stands is not read again");
    let stands = stands(&world, request);
    assert_eq!((stands.status, stands.source_hash), (S::Copied, Some(digest(TEXT))));
    assert_eq!(stands.source_path.as_deref(), Some("Điều 1.md"));
    assert_eq!(block_on(world.port.staged_bytes(staged)).unwrap().unwrap(), TEXT.as_bytes());
}
