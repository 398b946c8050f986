//! Two hosts that share a database and an object store, and nothing else: one dies in the middle
//! of a run, the other finishes it. The object store is a real server over S3 (SeaweedFS from
//! `scripts/s3`, or a bucket of your own in `CUTTER_TEST_S3`), which first passes the create race.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use cutter_pg::login::Login;
use cutter_tests::cli::{Deployment, Ran, Running, SOVEREIGN, Signal, UNITS, command_at, finish, law};

/// A host: its home, and what it may see of the world.
struct Host {
    home: PathBuf,
    store: Vec<(String, String)>,
}

impl Host {
    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = command_at(&self.home, arguments);
        command.envs(self.store.iter().cloned());
        command
    }
}

fn copy_keys(from: &Path, to: &Path) {
    std::fs::create_dir(to.join("keys")).unwrap();
    for entry in std::fs::read_dir(from.join("keys")).unwrap() {
        let path = entry.unwrap().path();
        std::fs::copy(&path, to.join("keys").join(path.file_name().unwrap())).unwrap();
    }
}

#[test]
fn one_host_dies_in_the_middle_of_a_run_and_the_other_finishes_it() {
    let Ok(bucket) = std::env::var("CUTTER_TEST_S3") else {
        let _ =
            writeln!(std::io::stderr(), "two_hosts: SKIPPED, CUTTER_TEST_S3 is not set (scripts/s3 start)");
        return;
    };
    let d = Deployment::new();
    let text = law(60, "two hosts");
    d.register("REFERENCE", &text);
    let before = d.counts();
    let _ = d.whole_run("REFERENCE");
    let (of_one, units) = (d.added_since(&before), d.texts(UNITS, &[&"REFERENCE"]));
    d.register("SHARED", &text);

    let unique = uuid::Uuid::from_u128(u128::from(std::process::id()) << 64 | millis()).simple().to_string();
    let at = format!("{}/two-hosts-{unique}", bucket.trim_end_matches('/'));
    let settings = std::fs::read_to_string(d.path("cutter.toml")).unwrap();
    let settings = format!("runs = \"pg\"\nkb = \"{at}/kb\"\n{settings}\n[backup]\nurl = \"{at}/backups\"\n");
    let store: Vec<(String, String)> =
        std::env::vars().filter(|(name, _)| name.starts_with("AWS_")).collect();
    let homes = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let hosts = homes.each_ref().map(|home| {
        copy_keys(&d.path(""), home.path());
        std::fs::write(home.path().join("cutter.toml"), &settings).unwrap();
        Host { home: home.path().to_owned(), store: store.clone() }
    });
    let [a, b] = &hosts;
    let on = |host: &Host, arguments: &[&str]| -> Ran { finish(host.command(arguments)) };

    // The store first passes the create race.
    let doctor = on(a, &["doctor"]).exits(0);
    let findings = doctor.json["findings"].as_array().unwrap();
    let kb = findings
        .iter()
        .find(|f| f["name"] == "knowledge base")
        .unwrap_or_else(|| panic!("{}", doctor.stdout));
    assert_eq!(kb["status"], "ok", "{kb}");

    let before = d.counts();
    let item = on(a, &["queue", "add", "--document-id", "SHARED"]).exits(0).json["item"]
        .as_u64()
        .unwrap()
        .to_string();
    let worker = |host: &Host| -> Running {
        Running::start(host.command(&["worker", "--concurrency", "1", "--lease", "2", "--poll", "100"]))
    };
    let key = a.home.join(format!("keys/{SOVEREIGN}.secret.asc"));
    let approve = |run: &str, what: &str| {
        let _ = on(
            b,
            &[
                "sovereign",
                "approve",
                "--yes",
                "--run-id",
                run,
                "--for",
                what,
                "--key",
                key.to_str().unwrap(),
            ],
        )
        .exits(0);
    };

    // A works until the run is in the middle of its first half, and dies.
    let mut first = worker(a);
    let mut admin = d.database.client(Login::Admin);
    let mut passed = |least: i64| -> Option<String> {
        let sql = "SELECT run_id, max(revision) FROM cutter_run.revision GROUP BY run_id";
        let row = admin.query_opt(sql, &[]).unwrap()?;
        (row.get::<_, i64>(1) >= least).then(|| row.get(0))
    };
    let run = until("the run's third revision", || passed(3));
    assert!(first.signal(Signal::KILL), "it died in the middle of its run");
    let died = first.wait();
    assert_eq!(died.code, None, "{died:#?}");
    let state = on(b, &["orchestrate", "status", "--run-id", &run]).exits(0).state().to_owned();
    assert!(!state.starts_with("awaiting") && !state.starts_with("stopped"), "killed too late: {state}");

    // B takes over when the lease ran out, and goes on through both gates.
    let mut second = worker(b);
    for (gate, what) in [("SG_cut_authz", "cut"), ("SG_lifecycle_authz", "lifecycle")] {
        until(gate, || {
            let item = on(b, &["queue", "show", &item]).exits(0);
            (item.json["gate"] == gate).then_some(())
        });
        approve(&run, what);
    }
    until("the item's end", || {
        let item = on(b, &["queue", "show", &item]).exits(0);
        (item.json["state"] == "completed").then_some(())
    });
    assert!(second.signal(Signal::TERM));
    let ended = second.wait().exits(0);
    assert_eq!(ended.json["items"]["completed"], 1, "{ended:#?}");

    assert_eq!(on(a, &["orchestrate", "status", "--run-id", &run]).exits(0).state(), "closeout_reported");
    let attempts = on(a, &["queue", "show", &item]).exits(0).json["attempts_ended"].clone();
    assert_eq!(attempts[0]["ending"], "lease_lost", "{attempts}");
    assert_eq!(d.added_since(&before), of_one, "rows are missing or doubled");
    assert_eq!(d.texts(UNITS, &[&"SHARED"]), units);
    let _ = on(b, &["verify", "--run-id", &run]).exits(0);
    // the backup reads back every time, on the host that did not make it, too
    let secret = b.home.join("keys/backup.secret.asc");
    for i in 0..30 {
        let host = &hosts[i % 2];
        let _ = on(host, &["backup", "inspect", "--run-id", &run]).exits(0);
        if i % 10 == 0 {
            let key = secret.to_str().unwrap();
            let _ = on(host, &["backup", "inspect", "--run-id", &run, "--key", key]).exits(0);
        }
    }
    for host in &hosts {
        let left = std::fs::read_dir(host.home.join("runs")).map_or(0, Iterator::count);
        assert_eq!(left, 0, "nothing of the run is on {}", host.home.display());
    }
}

fn millis() -> u128 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_millis()
}

/// Asks again and again for at most a minute and a half.
#[track_caller]
fn until<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + Duration::from_secs(90);
    loop {
        if let Some(found) = ask() {
            return found;
        }
        assert!(Instant::now() < end, "{what} did not come");
        std::thread::sleep(Duration::from_millis(5));
    }
}
