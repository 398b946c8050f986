//! The private server: made whole, found again, stopped, and safe from two starters.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use cutter_pg::cluster::{ClusterError, ClusterOptions, ClusterStatus, PrivateCluster};
use cutter_pg::login::Login;
use postgres::NoTls;

/// A home that the server's user can enter, removed with its server at the end.
struct Home {
    path: PathBuf,
    _folder: tempfile::TempDir,
}

impl Home {
    fn new() -> Self {
        Self::with_mode(0o755)
    }

    fn with_mode(mode: u32) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("home");
        std::fs::create_dir(&path).unwrap();
        for (at, mode) in [(folder.path(), 0o755), (path.as_path(), mode)] {
            std::fs::set_permissions(at, std::fs::Permissions::from_mode(mode)).unwrap();
        }
        Self { path, _folder: folder }
    }

    fn cluster(&self) -> PrivateCluster {
        PrivateCluster::open(&self.path, ClusterOptions::new().without_durability_for_tests()).unwrap()
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        let cluster = self.cluster();
        let _ = cluster.stop();
        if let Ok(folder) = cluster.folder()
            && !folder.starts_with(&self.path)
        {
            let _ = std::fs::remove_dir_all(folder);
        }
    }
}

fn is_root() -> bool {
    std::fs::metadata("/proc/self").unwrap().uid() == 0
}

fn ask(cluster: &PrivateCluster, login: Login, question: &str) -> String {
    let mut client = cluster.dsn(login).unwrap().config().unwrap().connect(NoTls).unwrap();
    client.query_one(question, &[]).unwrap().get(0)
}

fn kill(signal: &str, pid: i32) {
    assert!(Command::new("kill").args([signal, &pid.to_string()]).status().unwrap().success());
}

#[test]
fn a_cluster_is_made_found_stopped_and_started_again() {
    let home = Home::new();
    let cluster = home.cluster();
    assert_eq!(cluster.status().unwrap(), ClusterStatus::Absent);
    assert!(!cluster.stop().unwrap());
    assert!(matches!(cluster.dsn(Login::Ro), Err(ClusterError::NotRunning { .. })));

    let running = cluster.start().unwrap();
    assert_eq!(cluster.status().unwrap(), ClusterStatus::Running(running.clone()));
    assert_eq!(running.socket_dir, home.path.join("pg/run"));
    assert_eq!(cluster.start().unwrap(), running, "a second start finds the first");

    // Every login gets in with its password, and is who it says.
    for login in Login::ALL {
        assert_eq!(ask(&cluster, login, "SELECT session_user::text"), login.as_str());
    }
    assert_eq!(ask(&cluster, Login::Admin, "SELECT current_database()::text"), "cutter");
    assert_eq!(ask(&cluster, Login::Admin, "SHOW listen_addresses"), "");
    assert_eq!(ask(&cluster, Login::Admin, "SHOW data_checksums"), "on");
    assert_eq!(
        ask(
            &cluster,
            Login::Admin,
            "SELECT string_agg(DISTINCT left(rolpassword, 13), ',') FROM pg_authid WHERE rolcanlogin"
        ),
        "SCRAM-SHA-256"
    );

    // Private files, of the right people.
    let secrets = std::fs::metadata(home.path.join("pg-secrets.json")).unwrap();
    assert_eq!(secrets.permissions().mode() & 0o777, 0o600);
    let data = std::fs::metadata(home.path.join("pg/data")).unwrap();
    assert!(data.uid() != 0, "PostgreSQL never runs as root");
    assert!(!home.path.join("pg.location").exists());

    let mut client = cluster.admin_dsn().unwrap().config().unwrap().connect(NoTls).unwrap();
    client.batch_execute("CREATE TABLE public.kept AS SELECT 'kept'::text AS v").unwrap();
    drop(client);
    assert!(cluster.stop().unwrap());
    assert_eq!(cluster.status().unwrap(), ClusterStatus::Stopped);
    assert!(!cluster.stop().unwrap());
    let again = cluster.start().unwrap();
    assert_ne!(again.pid, running.pid);
    assert_eq!(ask(&cluster, Login::Admin, "SELECT v FROM public.kept"), "kept");
}

#[test]
fn a_wrong_password_is_refused_even_on_the_machine_itself() {
    let home = Home::new();
    let cluster = home.cluster();
    let running = cluster.start().unwrap();
    for password in ["wrong", ""] {
        let mut config = postgres::Config::new();
        config.host_path(&running.socket_dir).port(running.port).user("cutter_admin").dbname("cutter");
        if !password.is_empty() {
            config.password(password);
        }
        assert!(config.connect(NoTls).is_err(), "password {password:?}");
    }
}

#[test]
fn the_default_is_durable() {
    let home = Home::new();
    let cluster = PrivateCluster::open(&home.path, ClusterOptions::new()).unwrap();
    cluster.start().unwrap();
    for setting in ["fsync", "synchronous_commit", "full_page_writes"] {
        assert_eq!(ask(&cluster, Login::Ro, &format!("SHOW {setting}")), "on", "{setting}");
    }
}

#[test]
fn starters_at_once_make_one_server() {
    let home = Home::new();
    let pids: Vec<i32> = std::thread::scope(|scope| {
        let starters: Vec<_> = (0..4).map(|_| scope.spawn(|| home.cluster().start().unwrap().pid)).collect();
        starters.into_iter().map(|starter| starter.join().unwrap()).collect()
    });
    assert!(pids.iter().all(|pid| *pid == pids[0]), "{pids:?}");
    let leftovers: Vec<_> = std::fs::read_dir(home.path.join("pg"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.starts_with("init"))
        .collect();
    assert!(leftovers.is_empty(), "{leftovers:?}");
}

#[test]
fn a_crashed_server_and_its_pid_file_are_no_obstacle() {
    let home = Home::new();
    let cluster = home.cluster();
    let first = cluster.start().unwrap();
    let mut client = cluster.admin_dsn().unwrap().config().unwrap().connect(NoTls).unwrap();
    client.batch_execute("CREATE TABLE public.kept AS SELECT 'kept'::text AS v").unwrap();
    // With a client still connected, so that a backend outlives the postmaster for a moment.
    kill("-KILL", first.pid);
    let until = Instant::now() + Duration::from_secs(10);
    while cluster.status().unwrap() != ClusterStatus::Stopped {
        assert!(Instant::now() < until, "the killed server still counts as running");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(home.path.join("pg/data/postmaster.pid").exists());
    let second = cluster.start().unwrap();
    assert_ne!(second.pid, first.pid);
    assert_eq!(ask(&cluster, Login::Admin, "SELECT v FROM public.kept"), "kept");
}

#[cfg(target_os = "linux")]
#[test]
fn a_pid_file_that_names_somebody_else_now_is_cleared() {
    let home = Home::new();
    let cluster = home.cluster();
    cluster.start().unwrap();
    let pid_file = home.path.join("pg/data/postmaster.pid");
    let text = std::fs::read_to_string(&pid_file).unwrap();
    cluster.stop().unwrap();
    // This test's own number: alive, and no server.
    let rest = text.split_once('\n').unwrap().1;
    std::fs::write(&pid_file, format!("{}\n{rest}", std::process::id())).unwrap();
    assert_eq!(cluster.status().unwrap(), ClusterStatus::Stopped);
    assert!(!cluster.stop().unwrap(), "this process must not be stopped");
    cluster.start().unwrap();
    assert_eq!(ask(&cluster, Login::Ro, "SELECT 'up'::text"), "up");
}

#[test]
fn a_kill_while_it_is_made_leaves_nothing_half_made() {
    // The test binary starts itself as the process to be killed.
    for delay_ms in [5, 60, 250, 600, 1100] {
        let home = Home::new();
        let mut starter = starter(&home.path);
        std::thread::sleep(Duration::from_millis(delay_ms));
        starter.kill().unwrap();
        starter.wait().unwrap();
        let cluster = home.cluster();
        cluster.start().unwrap_or_else(|error| panic!("after a kill at {delay_ms} ms: {error}"));
        for login in Login::ALL {
            assert_eq!(ask(&cluster, login, "SELECT session_user::text"), login.as_str(), "{delay_ms} ms");
        }
    }
}

#[test]
fn a_database_that_a_killed_starter_still_makes_is_waited_for() {
    let home = Home::new();
    let cluster = home.cluster();
    cluster.start().unwrap();
    let marker = home.path.join("pg/data/cutter.provisioned");
    let server = cluster.dsn(Login::Admin).unwrap();
    let session = |database| server.with_database(database).config().unwrap().connect(NoTls).unwrap();
    for _ in 0..3 {
        session("postgres").batch_execute("DROP DATABASE cutter").unwrap();
        std::fs::remove_file(&marker).unwrap();
        // Nobody copies a template that is in use: both wait until this session leaves.
        let template = session("template1");
        let (home, mut left_behind) = (&home, session("postgres"));
        let started = std::thread::scope(|scope| {
            scope.spawn(move || left_behind.batch_execute("CREATE DATABASE cutter"));
            let started = scope.spawn(|| home.cluster().start().map(|_| ()));
            std::thread::sleep(Duration::from_millis(400));
            drop(template);
            started.join().unwrap()
        });
        started.unwrap();
        assert_eq!(ask(&cluster, Login::Ro, "SELECT 'up'::text"), "up");
    }
}

#[test]
fn the_server_outlives_the_kill_of_whoever_started_it() {
    let home = Home::new();
    let cluster = home.cluster();
    let mut starter = starter(&home.path);
    let until = Instant::now() + Duration::from_secs(60);
    let pid = loop {
        if let Ok(ClusterStatus::Running(running)) = cluster.status() {
            break running.pid;
        }
        assert!(Instant::now() < until, "it never started");
        std::thread::sleep(Duration::from_millis(20));
    };
    starter.kill().unwrap();
    starter.wait().unwrap();
    assert_eq!(cluster.start().unwrap().pid, pid);
    // Not in the starter's session, so no terminal takes it along.
    #[cfg(target_os = "linux")]
    {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
        assert_eq!(fields[3], pid.to_string(), "session of {stat}");
    }
}

fn starter(home: &Path) -> std::process::Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["start_for_the_kill_tests", "--exact", "--ignored", "--nocapture"])
        .env("CUTTER_TEST_KILL_HOME", home)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// Not a test: the process that the kill tests start and kill. It starts a server and stays.
#[test]
#[ignore = "the process that the kill tests kill"]
fn start_for_the_kill_tests() {
    let Some(home) = std::env::var_os("CUTTER_TEST_KILL_HOME") else { return };
    let options = ClusterOptions::new().without_durability_for_tests();
    PrivateCluster::open(PathBuf::from(home), options).unwrap().start().unwrap();
    std::thread::sleep(Duration::from_secs(60));
}

#[test]
fn a_home_that_the_servers_user_cannot_enter_is_left_closed() {
    if !is_root() {
        eprintln!("not root: the server's user is this user, nothing to test here");
        return;
    }
    let home = Home::with_mode(0o700);
    let cluster = home.cluster();
    cluster.start().unwrap();
    let folder = cluster.folder().unwrap();
    assert!(!folder.starts_with(&home.path), "{}", folder.display());
    assert_eq!(std::fs::metadata(&folder).unwrap().permissions().mode() & 0o777, 0o700);
    assert_eq!(std::fs::metadata(&home.path).unwrap().permissions().mode() & 0o777, 0o700);
    assert!(home.path.join("pg.location").exists());
    assert_eq!(ask(&cluster, Login::Ro, "SELECT 'up'::text"), "up");
    cluster.stop().unwrap();
    cluster.start().unwrap();
    assert_eq!(cluster.folder().unwrap(), folder, "the record is believed");
}

#[test]
fn a_home_of_an_ordinary_user_gets_a_server_of_that_user() {
    if !is_root() {
        eprintln!("not root: cannot make another user's home");
        return;
    }
    let home = Home::with_mode(0o700);
    // uid 65534 is nobody everywhere that matters.
    std::os::unix::fs::chown(&home.path, Some(65534), Some(65534)).unwrap();
    let cluster = home.cluster();
    cluster.start().unwrap();
    assert_eq!(cluster.folder().unwrap(), home.path.join("pg"));
    for name in ["pg/data", "pg-secrets.json", "pg.lock"] {
        assert_eq!(std::fs::metadata(home.path.join(name)).unwrap().uid(), 65534, "{name}");
    }
}

#[test]
fn whoever_closes_a_home_is_told_that_the_servers_user_goes_through_it() {
    if !is_root() {
        eprintln!("not root: the server's user is this user, nothing to test here");
        return;
    }
    let closed = Home::with_mode(0o700);
    closed.cluster().start().unwrap();
    assert!(!closed.cluster().is_entered_through_home(), "the server is elsewhere");
    let home = Home::with_mode(0o755);
    assert!(!home.cluster().is_entered_through_home(), "there is no server yet");
    let cluster = home.cluster();
    cluster.start().unwrap();
    assert!(cluster.is_entered_through_home());
    // As closed as it may be: the server starts, and is reached.
    std::fs::set_permissions(&home.path, std::fs::Permissions::from_mode(0o711)).unwrap();
    cluster.stop().unwrap();
    cluster.start().unwrap();
    assert_eq!(ask(&cluster, Login::Ro, "SELECT 'up'::text"), "up");
}

#[test]
fn a_long_path_gets_a_short_socket() {
    let mut home = Home::new();
    let long = home.path.join("n".repeat(60)).join("m".repeat(60));
    std::fs::create_dir_all(&long).unwrap();
    home.path = long;
    let cluster = home.cluster();
    let running = cluster.start().unwrap();
    assert!(running.socket_dir.as_os_str().len() < 90, "{}", running.socket_dir.display());
    assert_eq!(std::fs::metadata(&running.socket_dir).unwrap().permissions().mode() & 0o777, 0o700);
    assert_eq!(ask(&cluster, Login::Ro, "SELECT 'up'::text"), "up");
    cluster.stop().unwrap();
    // Swept by a cleaner of /tmp, and something else put in its place.
    std::fs::remove_dir_all(&running.socket_dir).unwrap();
    std::fs::write(&running.socket_dir, "a file").unwrap();
    let again = cluster.start().unwrap();
    assert_ne!(again.socket_dir, running.socket_dir);
    cluster.stop().unwrap();
    std::fs::remove_file(&running.socket_dir).unwrap();
    std::fs::remove_dir_all(&again.socket_dir).unwrap();
}

#[test]
fn odd_characters_in_the_path_reach_no_shell() {
    let mut home = Home::new();
    let marker = home.path.join("marker");
    let odd = home.path.join("a b'c \"d $(touch marker) `touch marker`, é");
    std::fs::create_dir(&odd).unwrap();
    home.path = odd;
    let cluster = home.cluster();
    let running = cluster.start().unwrap();
    assert_eq!(ask(&cluster, Login::Ro, "SELECT 'up'::text"), "up");
    cluster.stop().unwrap();
    assert!(!marker.exists());
    std::fs::remove_dir_all(&running.socket_dir).unwrap();
}

#[test]
fn lost_secrets_are_made_anew_and_spoiled_ones_are_refused() {
    let home = Home::new();
    let cluster = home.cluster();
    cluster.start().unwrap();
    let secrets = home.path.join("pg-secrets.json");
    let before = std::fs::read(&secrets).unwrap();
    std::fs::remove_file(&secrets).unwrap();
    cluster.start().unwrap();
    assert_ne!(std::fs::read(&secrets).unwrap(), before);
    for login in Login::ALL {
        assert_eq!(ask(&cluster, login, "SELECT session_user::text"), login.as_str());
    }
    std::fs::write(&secrets, "{").unwrap();
    assert!(matches!(cluster.start(), Err(ClusterError::Corrupt { .. })));
}

#[test]
fn a_missing_postgresql_is_named_with_its_package() {
    let home = Home::new();
    let options = ClusterOptions::new().bin_folder("/nonexistent");
    let error = PrivateCluster::open(&home.path, options).unwrap().start().unwrap_err();
    assert!(matches!(error, ClusterError::NotInstalled { .. }), "{error}");
    let text = error.to_string();
    assert!(text.contains("/nonexistent") && text.contains("nstall"), "{text}");
}

#[test]
fn settings_of_the_users_environment_do_not_redirect_it() {
    let home = Home::new();
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["a_cluster_is_made_found_stopped_and_started_again", "--exact"])
        .envs([
            ("PGDATA", "/nonexistent"),
            ("PGPORT", "1"),
            ("PGHOST", "nowhere"),
            ("PGOPTIONS", "-c fsync=maybe"),
        ])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    drop(home);
}
