//! The test server itself: shared by processes, and gone with them.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use cutter_pg::cluster::{ClusterOptions, ClusterStatus, PrivateCluster};
use cutter_pg::login::Login;
use cutter_pg::testing::{HOME_VARIABLE, TestServer};

/// Starts this binary again as another test process.
fn other_process(temporary: &Path, shared: Option<&Path>, seconds: u32) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["another_process", "--exact", "--ignored"])
        .env("TMPDIR", temporary)
        .env("CUTTER_TEST_STAY_SECONDS", seconds.to_string())
        .env_remove(HOME_VARIABLE)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    if let Some(home) = shared {
        command.env(HOME_VARIABLE, home);
    }
    command.spawn().unwrap()
}

/// Not a test: the other process of these tests.
#[test]
#[ignore = "the other process of these tests"]
fn another_process() {
    let Some(seconds) = std::env::var("CUTTER_TEST_STAY_SECONDS").ok().and_then(|text| text.parse().ok())
    else {
        return;
    };
    let database = TestServer::shared().fresh_database();
    assert!(!database.client(Login::Ro).query("SELECT 1", &[]).unwrap().is_empty());
    std::thread::sleep(Duration::from_secs(seconds));
}

fn open_folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    folder
}

fn until(what: &str, condition: impl Fn() -> bool) {
    let end = Instant::now() + Duration::from_secs(30);
    while !condition() {
        assert!(Instant::now() < end, "waited in vain: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn home_in(temporary: &Path) -> Option<std::path::PathBuf> {
    std::fs::read_dir(temporary).unwrap().map(|entry| entry.unwrap().path()).next()
}

fn server_pid(home: &Path) -> Option<i32> {
    let cluster = PrivateCluster::open(home, ClusterOptions::new()).unwrap();
    match cluster.status() {
        Ok(ClusterStatus::Running(running)) => Some(running.pid),
        _ => None,
    }
}

#[test]
fn a_killed_test_process_leaves_neither_server_nor_files() {
    let temporary = open_folder();
    let mut process = other_process(temporary.path(), None, 60);
    until("the server of the other process", || {
        home_in(temporary.path()).is_some_and(|home| server_pid(&home).is_some())
    });
    let pid = server_pid(&home_in(temporary.path()).unwrap()).unwrap();
    process.kill().unwrap();
    process.wait().unwrap();
    until("its folders are removed", || home_in(temporary.path()).is_none());
    let is_alive = || {
        std::fs::read_to_string(format!("/proc/{pid}/stat"))
            .is_ok_and(|stat| !stat.contains(") Z") && stat.contains("postgres"))
    };
    until("its server is gone", || !is_alive());
}

#[test]
fn processes_share_the_named_home_from_the_first_moment() {
    let temporary = open_folder();
    let shared = temporary.path().join("shared");
    std::fs::create_dir(&shared).unwrap();
    std::fs::set_permissions(&shared, std::fs::Permissions::from_mode(0o755)).unwrap();
    let processes: Vec<Child> = (0..3).map(|_| other_process(temporary.path(), Some(&shared), 0)).collect();
    for process in processes {
        assert!(process.wait_with_output().unwrap().status.success());
    }
    let cluster = PrivateCluster::open(&shared, ClusterOptions::new()).unwrap();
    let mut client = cluster
        .admin_dsn()
        .unwrap()
        .with_database("postgres")
        .config()
        .unwrap()
        .connect(postgres::NoTls)
        .unwrap();
    let rows = client
        .query("SELECT datname::text FROM pg_database WHERE datname ~ '^(test_|cutter_template_)'", &[])
        .unwrap();
    let names: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
    assert_eq!(names.len(), 1, "one template and no leftovers: {names:?}");
    drop(client);
    assert!(cluster.stop().unwrap(), "whoever named the home stops its server");
}

#[test]
fn a_server_of_ones_own_ends_with_its_value() {
    let server = TestServer::own();
    let socket = match server.cluster().status().unwrap() {
        ClusterStatus::Running(running) => running.socket_dir,
        other => panic!("{other:?}"),
    };
    drop(server);
    assert!(!socket.exists());
}
