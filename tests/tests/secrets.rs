//! What may never be written: connection strings, keys and passwords, in any document, log line,
//! record or row. And what a document may hold: of a run of 1,000 units each has at most 250
//! lines, names no other run, and shows at most 50 lines of the record.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::process::Command;

use cutter_pg::login::Login;
use cutter_tests::cli::{Deployment, Ran, finish, law};

/// A mark in a place where a secret is.
struct Secret {
    what: String,
    text: String,
}

/// Every secret of the deployment: passwords, seeds, and each line of each secret key's armor.
fn secrets(d: &Deployment) -> Vec<Secret> {
    let mut found = Vec::new();
    for login in Login::ALL {
        let dsn = d.database.connection_string(login);
        let password = dsn.split(' ').find_map(|part| part.strip_prefix("password=")).unwrap();
        found.push(Secret { what: format!("password of {login}"), text: password.to_owned() });
        found.push(Secret { what: format!("DSN of {login}"), text: dsn });
    }
    for (path, bytes) in d.files("keys") {
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        let text = String::from_utf8(bytes).unwrap();
        if name.ends_with(".seed") {
            found.push(Secret { what: name, text: text.trim().to_owned() });
        } else if name.ends_with(".secret.asc") {
            let body = text.lines().filter(|l| l.len() > 40 && !l.starts_with("----"));
            let public = std::fs::read_to_string(path.with_file_name(name.replace("secret", "public")));
            let public = public.unwrap_or_default();
            // the public half is in there, too
            let secret = body.filter(|line| !public.contains(line));
            found.extend(secret.map(|line| Secret { what: name.clone(), text: line.to_owned() }));
        }
    }
    assert!(found.len() > 15, "{} secrets", found.len());
    found
}

fn holds(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|window| window == text.as_bytes())
}

#[track_caller]
fn assert_none(secrets: &[Secret], place: &str, bytes: &[u8]) {
    for secret in secrets {
        assert!(!holds(bytes, &secret.text), "{place} holds: {}", secret.what);
    }
}

/// What every table holds, as text.
fn dump(d: &Deployment) -> String {
    let mut client = d.database.client(Login::Admin);
    let sql = "SELECT format('%I.%I', schemaname, tablename) FROM pg_tables
               WHERE schemaname NOT IN ('pg_catalog', 'information_schema')";
    let tables: Vec<String> = client.query(sql, &[]).unwrap().iter().map(|row| row.get(0)).collect();
    assert!(tables.len() > 20);
    let rows = |table: &String| -> String {
        let sql = format!("SELECT coalesce(string_agg(t::text, E'\\n'), '') FROM {table} t");
        client.query_one(&sql, &[]).unwrap().get(0)
    };
    tables.iter().map(rows).collect()
}

/// Runs commands and keeps what they said.
struct Listening<'a> {
    d: &'a Deployment,
    said: Vec<(String, Ran)>,
}

impl Listening<'_> {
    fn say(&mut self, what: &str, command: Command) -> &Ran {
        let ran = finish(command);
        self.said.push((what.to_owned(), ran));
        &self.said.last().unwrap().1
    }

    fn run(&mut self, arguments: &[&str]) -> &Ran {
        let mut all = vec!["-vv"];
        all.extend(arguments);
        let command = self.d.command(&all);
        self.say(&arguments.join(" "), command)
    }

    fn with_variable(&mut self, name: &str, value: &str, arguments: &[&str]) {
        let mut command = self.d.command(arguments);
        command.env(name, value).env("RUST_BACKTRACE", "1");
        self.say(&format!("{name} {}", arguments.join(" ")), command);
    }
}

#[test]
fn no_secret_is_written_anywhere() {
    let d = Deployment::new();
    let mut secrets = secrets(&d);
    let marked = "marked-secret-5d41402abc4b2a76";
    secrets.push(Secret { what: "marked password".into(), text: marked.into() });
    d.register("LAW-SECRET", &law(5, "the secret"));
    let mut l = Listening { d: &d, said: Vec::new() };
    let run_id = l.run(&["orchestrate", "cut", "--document-id", "LAW-SECRET"]).text("/run_id").to_owned();
    assert!(run_id.starts_with("ictr-"));
    let resume = ["orchestrate", "resume", "--run-id", &run_id];

    // connections that fail, and texts that are none
    let right = d.database.connection_string(Login::Exec);
    let socket = right.split(' ').next().unwrap();
    for wrong in [
        format!("{socket} port=1 user=cutter_exec password={marked} dbname=x"),
        format!("{socket} user=cutter_exec password={marked} dbname={}", d.database.name()),
        format!("postgres://cutter_exec:{marked}@127.0.0.1:1/x"),
        format!("postgres://cutter_exec:{marked}@db.example.invalid/x?sslmode=require"),
        format!("postgres//cutter_exec:{marked}@nowhere"),
        format!("password={marked} hots=typo"),
        marked.to_owned(),
    ] {
        for variable in ["CUTTER_DSN_EXECUTOR", "CUTTER_DSN_READER"] {
            l.with_variable(variable, &wrong, &resume);
            l.with_variable(variable, &wrong, &["doctor"]);
            assert_ne!(l.said.last().unwrap().1.code, None);
        }
        l.with_variable("CUTTER_DSN_ADMIN", &wrong, &["db", "status"]);
    }
    // drift, an answer, and on to the end
    d.tamper("ALTER FUNCTION iu_core.fn_iu_create SET work_mem = '8MB'");
    let _ = d.answer(&run_id, "cut", &[]);
    l.run(&resume);
    for what in ["cut", "lifecycle"] {
        l.run(&resume);
        let ran = d.answer(&run_id, what, &[]).exits(0);
        l.said.push((format!("approve {what}"), ran));
    }
    assert_eq!(l.run(&resume).state(), "closeout_reported");
    for arguments in [
        &["verify", "--run-id", &run_id][..],
        &["why", "--run-id", &run_id],
        &["orchestrate", "status", "--run-id", &run_id],
        &["orchestrate", "list"],
        &["doctor"],
        &["db", "status"],
        &["unit", "export", "--document-id", "LAW-SECRET"],
        &["graph", "run"],
    ] {
        l.run(arguments);
    }
    // a key that is no key, and a line of the configuration that is none
    let key = d.path("keys/executor.seed");
    let seed = std::fs::read_to_string(&key).unwrap();
    std::fs::write(&key, format!("{marked}\n")).unwrap();
    d.register("LAW-OTHER", &law(2, "the other"));
    l.run(&["orchestrate", "cut", "--document-id", "LAW-OTHER"]);
    std::fs::write(&key, seed).unwrap();
    d.append_config(&format!("\nwrong = password {marked}\n"));
    assert_eq!(l.run(&["orchestrate", "list"]).code, Some(2));

    for (what, ran) in &l.said {
        assert_none(&secrets, &format!("stdout of {what}"), ran.stdout.as_bytes());
        assert_none(&secrets, &format!("stderr of {what}"), ran.stderr.as_bytes());
    }
    let mut files = 0;
    for (path, bytes) in d.files("kb").into_iter().chain(d.files("runs")) {
        assert_none(&secrets, &path.display().to_string(), &bytes);
        files += 1;
    }
    assert!(files > 40 && l.said.len() > 40, "{files} files, {} commands", l.said.len());
    let rows = dump(&d);
    assert!(rows.contains("Whoever acts") || rows.contains(&run_id));
    assert_none(&secrets, "the database", rows.as_bytes());
}

/// Run ids in a text.
fn run_ids(text: &str) -> Vec<&str> {
    let length = "ictr-20260102T030405Z-019b7ca9-8c88-7945-98cb-026e35c60833".len();
    text.match_indices("ictr-2").filter_map(|(at, _)| text.get(at..at + length)).collect()
}

#[test]
fn of_a_run_of_1000_units_every_document_is_short_and_speaks_of_this_run_alone() {
    let d = Deployment::new();
    d.register("LAW-BEFORE", &law(3, "before"));
    let other = d.whole_run("LAW-BEFORE");
    d.register("LAW-LONG", &law(999, "the length"));
    let run_id = d.cut("LAW-LONG");
    assert_eq!(d.status(&run_id).exits(0).json["units"], 1000);
    d.approve(&run_id, "cut");
    // a stop, for its report shows the record
    d.tamper("ALTER FUNCTION iu_core.fn_iu_create SET work_mem = '8MB'");
    let _ = d.resume(&run_id).exits(3);
    d.finish_run(&run_id);
    let folder = d.status(&run_id).exits(0).text("/kb_folder").to_owned();
    let (mut documents, mut excerpts) = (0, 0);
    for (path, bytes) in d.files("kb") {
        let place = path.display().to_string();
        if !place.contains(&folder) {
            continue;
        }
        let text = String::from_utf8(bytes).unwrap();
        documents += 1;
        assert!(!text.contains(&other), "{place} names another run");
        let foreign: Vec<&str> = run_ids(&text).into_iter().filter(|id| *id != run_id).collect();
        assert!(foreign.is_empty(), "{place}: {foreign:?}");
        assert!(run_ids(&text).contains(&run_id.as_str()), "{place} names its run");
        let lines = text.lines().count();
        let whole_record = text.contains("\"record_version\"");
        if place.contains("stop-route-report") {
            // the one document that holds the whole record, to rebuild it from
            assert!(whole_record, "{place}");
            continue;
        }
        assert!(lines <= 250, "{place}: {lines} lines");
        assert!(!whole_record, "{place} holds the record");
        if let Some((_, tail)) = text.split_once("## 1. Inputs") {
            let excerpt = tail.split("\n## ").next().unwrap().lines().count();
            assert!(excerpt <= 54, "{place}: an excerpt of {excerpt} lines, fences included");
            excerpts += 1;
        }
    }
    assert!(documents >= 17, "{documents}");
    assert!(excerpts >= 10, "{excerpts} excerpts of the record");
    // the record itself stays small, whatever the document
    let largest = d.files(&format!("runs/{run_id}/rev")).into_iter().map(|(_, b)| b.len()).max().unwrap();
    assert!(largest <= 64 * 1024, "{largest}");
    d.verify(&run_id);
}
