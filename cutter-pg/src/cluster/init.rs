//! Making a cluster: whole or not at all.
//!
//! `initdb` works in `init.<random>`, which is renamed to `data` when it is complete, so a
//! kill at any moment leaves no half-made cluster; leftovers are swept by the next start,
//! under the lock. Databases and logins follow once the server runs and are idempotent; a
//! marker in the data directory records that they are there.

use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::{OpenOptionsExt as _, chown};
use std::path::Path;
use std::process::Stdio;

use secrecy::{ExposeSecret as _, SecretString};

use super::binaries::{Binaries, run};
use super::error::ClusterError;
use super::files::write_durable;
use super::place::{PORT, Place};
use super::user::ServerUser;
use crate::dsn::Dsn;
use crate::error::PgError;
use crate::login::{Login, LoginPasswords, random_hex};
use crate::migrate::ensure_logins;

/// The database of a private cluster.
pub(crate) const DATABASE: &str = "cutter";

const MARKER: &str = "cutter.provisioned";

/// One line: every login, over the socket, with its password.
const PG_HBA: &str = "# Written by cutter. The server listens on a unix socket only.\n\
                      local all all scram-sha-256\n";

/// Makes the data directory. The folder exists, the lock is held, there is no data yet.
pub(crate) fn make_data(
    place: &Place,
    binaries: &Binaries,
    user: Option<&ServerUser>,
    passwords: &LoginPasswords,
    is_durable: bool,
) -> Result<(), ClusterError> {
    let folder = place.folder();
    sweep(&folder);
    let name = format!("init.{}", random_hex::<6>()?);
    let password_name = format!("init-password.{}", random_hex::<6>()?);
    let password_file = folder.join(&password_name);
    write_password(&password_file, user, admin_password(passwords)?)?;

    let mut command = binaries.command("initdb", user, &folder);
    command.args(["-D", &name, "-U", Login::Admin.as_str(), "--auth=scram-sha-256"]);
    command.arg(format!("--pwfile={password_name}"));
    command.args(["--encoding=UTF8", "--locale=C", "--data-checksums"]);
    if !is_durable {
        command.arg("--no-sync");
    }
    let made = run("initdb", command);
    std::fs::remove_file(&password_file).map_err(ClusterError::io("remove", &password_file))?;
    made?;

    let half = folder.join(&name);
    overwrite(&half.join("pg_hba.conf"), PG_HBA.as_bytes(), false)?;
    overwrite(&half.join("postgresql.conf"), b"\ninclude_if_exists = 'cutter.conf'\n", true)?;
    let data = place.data();
    std::fs::rename(&half, &data).map_err(ClusterError::io("publish", &data))?;
    File::open(&folder).and_then(|f| f.sync_all()).map_err(ClusterError::io("sync", &folder))
}

/// The settings of the server, written anew before each start.
pub(crate) fn write_settings(place: &Place, is_durable: bool) -> Result<(), ClusterError> {
    let on = if is_durable { "on" } else { "off" };
    // A tests' server serves all test processes of a run at once.
    let connections = if is_durable { 100 } else { 500 };
    let socket = place.socket();
    let text = format!(
        "# Written by cutter at every start.\n\
         listen_addresses = ''\n\
         port = {PORT}\n\
         unix_socket_directories = '\"{}\"'\n\
         password_encryption = 'scram-sha-256'\n\
         fsync = {on}\n\
         synchronous_commit = on\n\
         full_page_writes = {on}\n\
         max_connections = {connections}\n\
         timezone = 'UTC'\n\
         log_timezone = 'UTC'\n\
         log_line_prefix = '%m [%p] %a '\n\
         logging_collector = off\n",
        socket.display()
    );
    write_durable(&place.data().join("cutter.conf"), text.as_bytes())
}

/// Gives the administrator a new password without asking for the old one: the secrets file
/// was lost, and whoever can run the server on its data owns it. The server is stopped.
pub(crate) fn reset_admin(
    place: &Place,
    binaries: &Binaries,
    user: Option<&ServerUser>,
    passwords: &LoginPasswords,
) -> Result<(), ClusterError> {
    let marker = place.data().join(MARKER);
    match std::fs::remove_file(&marker) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            return Err(ClusterError::io("remove", &marker)(error));
        }
        _ => {}
    }
    let tool_error = |output: String| ClusterError::Tool { tool: "postgres --single", output };
    let verifier = crate::migrate::scram_verifier(admin_password(passwords)?);
    let mut command = binaries.command("postgres", user, &place.folder());
    command.args(["--single", "-D", "data", "postgres"]);
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| tool_error(error.to_string()))?;
    let statement = format!("ALTER ROLE {} PASSWORD '{verifier}'\n", Login::Admin);
    let written = child.stdin.take().map(|mut stdin| stdin.write_all(statement.as_bytes()));
    let output = child.wait_with_output().map_err(|error| tool_error(error.to_string()))?;
    let text = String::from_utf8_lossy(&output.stderr);
    // Single-user mode reports a refused statement, and still exits with 0.
    if !output.status.success() || !matches!(written, Some(Ok(()))) || text.contains("ERROR:") {
        return Err(tool_error(super::binaries::last_lines(&text, 4)));
    }
    Ok(())
}

/// What a server says that has the database: seen at once, or after waiting for who made it.
const IS_THERE: [&str; 2] = ["42P04", "23505"];

/// Makes logins and database; nothing to do if the marker names them all.
pub(crate) fn provision(place: &Place, passwords: &LoginPasswords) -> Result<(), ClusterError> {
    let marker = place.data().join(MARKER);
    let wanted = format!("{DATABASE} {}\n", Login::ALL.map(Login::as_str).join(" "));
    if std::fs::read_to_string(&marker).is_ok_and(|found| found == wanted) {
        return Ok(());
    }
    let dsn =
        Dsn::socket(&place.socket(), PORT, Login::Admin.as_str(), admin_password(passwords)?, "postgres")?;
    let passwords = passwords.clone();
    on_own_thread(move || {
        let mut client = dsn.config()?.connect(postgres::NoTls)?;
        ensure_logins(&mut client, &passwords)?;
        // Asking first would not do: whoever was killed while it made the database left a server process
        // that makes it still.
        match client.batch_execute(&format!("CREATE DATABASE {DATABASE}")).map_err(PgError::from) {
            Err(error) if error.sqlstate().is_some_and(|code| IS_THERE.contains(&code)) => Ok(()),
            outcome => outcome,
        }
    })?;
    write_durable(&marker, wanted.as_bytes())
}

/// Runs database work on a thread of its own: the client must not be used, nor dropped, on
/// a thread of an async runtime.
pub(crate) fn on_own_thread<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, PgError> + Send + 'static,
) -> Result<T, PgError> {
    match std::thread::spawn(work).join() {
        Ok(outcome) => outcome,
        Err(_) => Err(PgError::Internal("the database work panicked".to_owned())),
    }
}

fn admin_password(passwords: &LoginPasswords) -> Result<&SecretString, ClusterError> {
    passwords
        .get(Login::Admin)
        .ok_or_else(|| ClusterError::Denied(format!("no password for {} in pg-secrets.json", Login::Admin)))
}

fn write_password(
    path: &Path,
    user: Option<&ServerUser>,
    password: &SecretString,
) -> Result<(), ClusterError> {
    let io = ClusterError::io("write", path);
    (|| {
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
        if let Some(user) = user {
            chown(path, Some(user.uid), Some(user.gid))?;
        }
        file.write_all(password.expose_secret().as_bytes())?;
        file.write_all(b"\n")
    })()
    .map_err(io)
}

/// Writes into a file that initdb made, which keeps its owner and mode.
fn overwrite(path: &Path, bytes: &[u8], append: bool) -> Result<(), ClusterError> {
    (|| {
        let mut file = OpenOptions::new().write(true).append(append).truncate(!append).open(path)?;
        file.write_all(bytes)?;
        file.sync_all()
    })()
    .map_err(ClusterError::io("write", path))
}

/// Removes what killed starts left. Best effort: an `initdb` whose parent was killed may
/// still write; it fails by itself and the next sweep finishes.
fn sweep(folder: &Path) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for entry in entries.filter_map(Result::ok) {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if name.starts_with("init.") {
            let _ = std::fs::remove_dir_all(entry.path());
        } else if name.starts_with("init-password.") {
            let _ = std::fs::remove_file(entry.path());
        }
    }
}
