//! What a closed run says of itself: a statement that other people's tools read, and that `verify`
//! holds against everything it was made of.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use cutter_core::base::digest::Digest;
use cutter_core::record::statement::{PAYLOAD_TYPE, PREDICATE_TYPE, ROWS_V1, STATEMENT_TYPE};
use cutter_pg::login::Login;
use cutter_tests::cli::{Deployment, Ran, law};
use serde_json::Value;

/// The envelope of a run, by the command, and the statement inside.
fn statement(d: &Deployment, run_id: &str) -> (Value, Value) {
    let file = d.path("run.dsse.json");
    let ran = d.run(&["verify", "--run-id", run_id, "--statement", file.to_str().unwrap()]).exits(0);
    let envelope: Value = serde_json::from_slice(&fs::read(file).unwrap()).unwrap();
    assert_eq!(ran.json["statement"], envelope, "{}", ran.stdout);
    let body = decoded(envelope["payload"].as_str().unwrap());
    (envelope, serde_json::from_slice(&body).unwrap())
}

/// Base64, by hand: the test believes nobody else's reading of it.
fn decoded(text: &str) -> Vec<u8> {
    let value = |c: u8| match c {
        b'A'..=b'Z' => u32::from(c - b'A'),
        b'a'..=b'z' => u32::from(c - b'a') + 26,
        b'0'..=b'9' => u32::from(c - b'0') + 52,
        b'+' => 62,
        _ => 63,
    };
    let mut bytes = Vec::new();
    for four in text.as_bytes().chunks(4) {
        let kept = four.iter().filter(|c| **c != b'=').count();
        let n = four.iter().fold(0, |n, c| n << 6 | if *c == b'=' { 0 } else { value(*c) });
        bytes.extend_from_slice(&n.to_be_bytes()[1..kept]);
    }
    bytes
}

fn subject<'v>(statement: &'v Value, name: &str) -> &'v Value {
    let subjects = statement["subject"].as_array().unwrap();
    &subjects.iter().find(|s| s["name"] == name).unwrap()["digest"]
}

fn failures(ran: &Ran) -> Vec<String> {
    let checks = ran.json["checks"].as_array().unwrap();
    let failed = checks.iter().filter(|c| c["ok"] == false);
    failed.map(|c| c["invariant"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn it_says_who_allowed_what_and_names_the_version_before() {
    let d = Deployment::new();
    let text = law(2, "first");
    d.register("LAW", &text);
    let first = d.whole_run("LAW");
    let (_, one) = statement(&d, &first);
    assert_eq!(one["_type"], STATEMENT_TYPE);
    assert_eq!(one["predicateType"], PREDICATE_TYPE);
    assert_eq!(subject(&one, "text")["sha256"], Digest::of(text.as_bytes()).to_hex());
    let said = &one["predicate"];
    assert_eq!(
        (&said["document"], &said["version"], &said["run"]),
        (&"LAW".into(), &"1".into(), &first.as_str().into())
    );
    assert!(said.get("previous").is_none(), "{said}");
    let allowed = said["allowed"].as_array().unwrap();
    assert_eq!(
        allowed.iter().map(|a| a["gate"].as_str().unwrap()).collect::<Vec<_>>(),
        ["SG_cut_authz", "SG_lifecycle_authz"]
    );
    for word in allowed {
        // the answer is in the folder under the digest that the statement names, and names the units' root
        let sha256 = word["answer"]["sha256"].as_str().unwrap();
        let files = d.files("kb");
        let (_, answer) =
            files.iter().find(|(_, bytes)| Digest::of(bytes).to_hex() == sha256).expect("the answer");
        let answer = String::from_utf8(answer.clone()).unwrap();
        let root = subject(&one, "units")[ROWS_V1].as_str().unwrap();
        assert!(answer.lines().any(|line| line == format!("rows_digest: {root}")), "{answer}");
    }
    let since = said["inForceSince"].as_str().unwrap();
    let sql = "SELECT at::text FROM cutter_governance.run_effect WHERE effect = 'enact' AND at = $1::text::timestamptz";
    assert_eq!(d.texts(sql, &[&since]).len(), 1, "{since}");
    // the final report names the statement, and the digest of each table's rows
    let report =
        d.files("kb").into_iter().find(|(path, _)| path.to_str().unwrap().contains("11-final")).unwrap();
    let report = String::from_utf8(report.1).unwrap();
    for (table, digest) in said["tables"].as_object().unwrap() {
        assert!(
            report.contains(&format!("`rows.{table}`"))
                && report.contains(digest["sha256"].as_str().unwrap())
        );
    }
    d.register("LAW", &law(3, "second"));
    let second = d.whole_run("LAW");
    let (_, two) = statement(&d, &second);
    assert_eq!(two["predicate"]["previous"]["version"], "1");
    assert_eq!(two["predicate"]["previous"]["digest"], *subject(&one, "units"));
    d.verify(&first);
}

/// As `openssl` checks it, which knows nothing of this program.
#[test]
fn other_peoples_tools_check_the_signatures() {
    let d = Deployment::new();
    d.register("LAW", &law(2, "signed"));
    let run_id = d.whole_run("LAW");
    let (envelope, _) = statement(&d, &run_id);
    assert_eq!(envelope["payloadType"], PAYLOAD_TYPE);
    let body = decoded(envelope["payload"].as_str().unwrap());
    let mut signed = format!("DSSEv1 28 application/vnd.in-toto+json {} ", body.len()).into_bytes();
    signed.extend_from_slice(&body);
    let signatures = envelope["signatures"].as_array().unwrap();
    let duties = d.run(&["duty-key", "list"]).exits(0).stdout;
    assert_eq!(signatures.len(), 2);
    for signature in signatures {
        let key = signature["keyid"].as_str().unwrap();
        assert!(duties.contains(key), "{duties}");
        let bytes = decoded(signature["sig"].as_str().unwrap());
        match openssl(d.path("").as_path(), key, &signed, &bytes) {
            Some(is_good) => assert!(is_good, "{key}"),
            None => {
                let _ =
                    writeln!(std::io::stderr(), "signatures by openssl: SKIPPED, there is no openssl 3 here");
            }
        }
        let mut other = signed.clone();
        other.push(b' ');
        assert_ne!(openssl(d.path("").as_path(), key, &other, &bytes), Some(true), "{key}");
    }
}

fn openssl(folder: &Path, key: &str, text: &[u8], signature: &[u8]) -> Option<bool> {
    let version = Command::new("openssl").arg("version").output().ok()?;
    if !version.stdout.starts_with(b"OpenSSL 3") {
        return None;
    }
    let file = |name: &str, bytes: &[u8]| {
        let path = folder.join(name);
        fs::write(&path, bytes).unwrap();
        path
    };
    // a public key of Ed25519 in DER is its 32 bytes behind this
    let mut der = b"\x30\x2a\x30\x05\x06\x03\x2b\x65\x70\x03\x21\x00".to_vec();
    der.extend((0..32).map(|i| u8::from_str_radix(&key[2 * i..2 * i + 2], 16).unwrap()));
    let (key, text, signature) = (file("key.der", &der), file("text", text), file("signature", signature));
    let mut command = Command::new("openssl");
    command.args(["pkeyutl", "-verify", "-rawin", "-pubin", "-keyform", "DER", "-inkey"]).arg(key);
    command.arg("-in").arg(text).arg("-sigfile").arg(signature);
    Some(command.stdout(Stdio::null()).stderr(Stdio::null()).status().unwrap().success())
}

/// The page's own queries and script, which share nothing with the program that they check.
#[test]
fn every_digest_can_be_computed_by_hand_as_the_page_says() {
    let d = Deployment::new();
    d.register("LAW", &law(5, "by hand — §, ü, \u{1f4dc}, \"quoted\""));
    let run_id = d.cut("LAW");
    // what is left out must be there: an answer to a stop, and one that came late
    let _ = d.run(&["orchestrate", "stop", "--run-id", &run_id, "--reason", "look"]);
    d.approve(&run_id, "resume");
    d.finish_run(&run_id);
    let _ = statement(&d, &run_id);
    let page = include_str!("../../docs/by-hand.md");
    let block = |language: &str| {
        let (_, rest) = page.split_once(&format!("```{language}\n")).unwrap();
        rest.split_once("```").unwrap().0
    };
    let file = |name: &str| d.path(name).to_str().unwrap().to_owned();
    fs::write(file("rows.sql"), block("sql")).unwrap();
    fs::write(file("by-hand.py"), block("python")).unwrap();
    let variable = format!("run={run_id}");
    let dsn = d.database.connection_string(Login::Ro);
    let has = |program: &str| Command::new(program).arg("--version").output().is_ok();
    if !has("psql") || !has("python3") {
        let _ = writeln!(std::io::stderr(), "digests by hand: SKIPPED, psql or python3 is not here");
        return;
    }
    let read = Command::new("psql")
        .args([&dsn, "-XAtq", "-F", " ", "-v", "ON_ERROR_STOP=1", "-v", &variable, "-f", &file("rows.sql")])
        .output()
        .unwrap();
    assert!(read.status.success(), "{}", String::from_utf8_lossy(&read.stderr));
    let check = |rows: &[u8]| {
        fs::write(file("rows.txt"), rows).unwrap();
        let mut command = Command::new("python3");
        let ran = command.args(["by-hand.py", "run.dsse.json", "rows.txt"].map(file)).output().unwrap();
        (ran.status.success(), format!("{ran:?}"))
    };
    let (is_good, said) = check(&read.stdout);
    assert!(is_good && said.contains("20 of 20 digests are the same"), "{said}");
    let folder = d.path("kb").join(d.status(&run_id).exits(0).text("/kb_folder"));
    let documents = || {
        let script = block("bash").replace("FOLDER", folder.to_str().unwrap());
        let mut command = Command::new("bash");
        let ran = command.args(["-ec", &script]).current_dir(d.path(".")).output().unwrap();
        (ran.status.success(), String::from_utf8_lossy(&ran.stdout).matches(": OK\n").count())
    };
    assert_eq!(documents(), (true, 12));
    let report = fs::read_dir(&folder).unwrap().map(|e| e.unwrap().path());
    let report = report.into_iter().find(|p| p.to_str().unwrap().contains("/10-")).unwrap();
    let kept = fs::read(&report).unwrap();
    fs::write(&report, [&kept[..], b"x"].concat()).unwrap();
    assert_eq!(documents(), (false, 11));
    fs::write(&report, kept).unwrap();
    let rows = String::from_utf8(read.stdout).unwrap();
    for table in ["review_decision", "unit", "leaf"] {
        let begins = format!("{table} ");
        let at = rows.lines().position(|line| line.starts_with(&begins)).unwrap();
        let without: Vec<&str> =
            rows.lines().enumerate().filter(|(n, _)| *n != at).map(|(_, line)| line).collect();
        let (is_good, said) = check(format!("{}\n", without.join("\n")).as_bytes());
        assert!(!is_good, "{table}: {said}");
    }
}

#[test]
fn what_was_changed_afterwards_is_found_by_it() {
    let d = Deployment::new();
    d.register("LAW", &law(2, "tampered"));
    let run_id = d.whole_run("LAW");
    let tables = "SELECT body FROM cutter_governance.run_statement";
    let body = d.texts(tables, &[]).remove(0);
    let reset = |sql: &str| d.tamper(&format!("SET session_replication_role = replica; {sql}"));
    reset("ALTER TABLE cutter_governance.run_statement DROP CONSTRAINT run_statement_sha256_check");
    let quoted = body.replace('\'', "''");
    let back = format!("UPDATE cutter_governance.run_statement SET body = '{quoted}'");
    for (sql, undo, finding) in [
        // what nothing but the statement covers
        (
            "UPDATE cutter_governance.review_decision SET actor = actor || 'x'",
            "UPDATE cutter_governance.review_decision SET actor = left(actor, -1)",
            "verify.statement.tables",
        ),
        (
            "UPDATE cutter_governance.run_statement SET body = replace(body, '\"units\":', '\"unitz\":')",
            back.as_str(),
            "verify.statement.executor.genuine",
        ),
        (
            "UPDATE cutter_governance.run_statement SET body = replace(body, ':', ': ')",
            back.as_str(),
            "verify.statement.canonical",
        ),
        (
            "UPDATE cutter_governance.statement_signature SET signature = reverse(signature) WHERE duty = 'verifier'",
            "UPDATE cutter_governance.statement_signature SET signature = reverse(signature) WHERE duty = 'verifier'",
            "verify.statement.verifier.genuine",
        ),
    ] {
        reset(sql);
        let ran = d.run(&["verify", "--run-id", &run_id]).exits(6);
        assert!(failures(&ran).iter().any(|f| f == finding), "{sql}: {:?}", failures(&ran));
        reset(undo);
        d.verify(&run_id);
    }
    reset("DELETE FROM cutter_governance.statement_signature WHERE duty = 'verifier'");
    let ran = d.run(&["verify", "--run-id", &run_id]).exits(6);
    assert!(failures(&ran).contains(&"verify.statement.verifier.there".to_owned()), "{:?}", failures(&ran));
    reset("DELETE FROM cutter_governance.statement_signature; DELETE FROM cutter_governance.run_statement");
    let ran = d.run(&["verify", "--run-id", &run_id]).exits(6);
    assert!(failures(&ran).contains(&"verify.statement.there".to_owned()), "{:?}", failures(&ran));
    let none = d.run(&["verify", "--run-id", &run_id, "--statement", d.path("none").to_str().unwrap()]);
    assert_eq!(none.code, Some(6), "{}{}", none.stdout, none.stderr);
    assert!(!d.path("none").exists());
}

/// One about another text is refused; another about this one stands beside it, unsigned: it counts for
/// nothing, and so does a second signature that is none.
#[test]
fn what_a_login_stores_beside_the_statement_counts_for_nothing() {
    let d = Deployment::new();
    d.register("LAW", &law(2, "psql"));
    let run_id = d.whole_run("LAW");
    let (epoch, holder): (i64, String) = {
        let sql = "SELECT epoch, holder::text FROM cutter_governance.run_fence WHERE run_id = $1";
        let row = d.database.client(Login::Admin).query_one(sql, &[&run_id]).unwrap();
        (row.get(0), row.get(1))
    };
    let body = d.texts("SELECT body FROM cutter_governance.run_statement", &[]).remove(0);
    let keys = "SELECT public_key FROM cutter_governance.statement_signature ORDER BY duty";
    let keys = d.texts(keys, &[]);
    let [executors, verifiers] = keys.as_slice() else { panic!("{keys:?}") };
    let none = "0".repeat(128);
    let store = "SELECT cutter_governance.fn_statement_store($1, $2, $3::text::uuid, $4, $5, $6)";
    let mut exec = d.database.client(Login::Exec);
    let mut stored = |body: &str| {
        exec.execute(store, &[&run_id, &epoch, &holder, &body, executors, &none])
            .map_err(|e| e.as_db_error().unwrap().code().code().to_owned())
    };
    let false_one = body.replace("\"version\":\"1\"", "\"version\":\"2\"");
    assert_eq!(stored(&body), Ok(1), "the same once more, with a signature that is none");
    assert_eq!(stored(&false_one), Ok(1));
    assert_eq!(stored(&body.replace("\"name\":\"text\"", "\"name\":\"other\"")), Err("CUD24".to_owned()));
    let sign = "SELECT cutter_governance.fn_statement_sign($1, $2, $3::text::uuid, $4, $5, $6)";
    let mut verify = d.database.client(Login::Verify);
    for said in [&body, &false_one] {
        let sha256 = Digest::of(said.as_bytes()).to_hex();
        verify.execute(sign, &[&run_id, &epoch, &holder, &sha256, verifiers, &none]).unwrap();
    }
    d.verify(&run_id);
    let file = d.path("run.dsse.json");
    let _ = d.run(&["verify", "--run-id", &run_id, "--statement", file.to_str().unwrap()]).exits(0);
    let envelope: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    assert_eq!(decoded(envelope["payload"].as_str().unwrap()), body.into_bytes());
    let signatures = envelope["signatures"].as_array().unwrap();
    assert!(signatures.len() == 2 && !envelope.to_string().contains("AAAAAAAAAAAAAAAAAAAA"), "{envelope}");
}
