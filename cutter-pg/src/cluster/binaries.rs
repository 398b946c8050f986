//! Finding the machine's own PostgreSQL, and running its tools.
//!
//! Tools get a bare environment (no `PG*` variable of the user's can redirect them), English
//! messages, and a working folder that the server's user can enter.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::error::ClusterError;
use super::user::ServerUser;

/// The oldest major version that the schema and the settings are written for.
const OLDEST_MAJOR: u32 = 14;

/// The usual install folders, newest version first within each.
const INSTALL_ROOTS: [(&str, &str); 7] = [
    ("/usr/lib/postgresql", "bin"),
    ("/usr/libexec", ""),
    ("/usr", "bin"),
    ("/opt/homebrew/opt", "bin"),
    ("/usr/local/opt", "bin"),
    ("/Library/PostgreSQL", "bin"),
    ("/Applications/Postgres.app/Contents/Versions", "bin"),
];

/// A folder with `initdb`, `pg_ctl` and `postgres` of one version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Binaries {
    folder: PathBuf,
    pub(crate) major: u32,
}

impl Binaries {
    /// Finds PostgreSQL: the explicit folder, else PATH, else the usual install folders with
    /// the highest version first. With `want_major` (the version that made existing data)
    /// only that version will do.
    pub(crate) fn find(explicit: Option<&Path>, want_major: Option<u32>) -> Result<Self, ClusterError> {
        let folders = match explicit {
            Some(folder) => vec![folder.to_owned()],
            None => candidate_folders(),
        };
        let mut found: Vec<Self> = folders.iter().filter_map(|folder| Self::in_folder(folder)).collect();
        found.retain(|binaries| match want_major {
            Some(major) => binaries.major == major,
            None => binaries.major >= OLDEST_MAJOR,
        });
        found.into_iter().next().ok_or_else(|| {
            let looked_for = match want_major {
                Some(major) => {
                    format!("PostgreSQL {major} (it made the data that is there; initdb, pg_ctl, postgres)")
                }
                None => format!("PostgreSQL {OLDEST_MAJOR} or newer (initdb, pg_ctl, postgres)"),
            };
            let looked_in = match explicit {
                Some(folder) => folder.display().to_string(),
                None => {
                    "PATH, /usr/lib/postgresql/*/bin, /usr/libexec/postgresql*, /usr/pgsql-*/bin, /opt/homebrew/opt/postgresql*/bin, \
                         /usr/local/opt/postgresql*/bin"
                        .to_owned()
                }
            };
            let release = std::fs::read_to_string("/etc/os-release").unwrap_or_default();
            ClusterError::NotInstalled {
                looked_for,
                looked_in,
                install: install_command(&release, want_major),
            }
        })
    }

    fn in_folder(folder: &Path) -> Option<Self> {
        if !["initdb", "pg_ctl", "postgres"].iter().all(|tool| folder.join(tool).is_file()) {
            return None;
        }
        let major = version_of(&folder.join("postgres"))?;
        Some(Self { folder: folder.to_owned(), major })
    }

    /// A command for one of the tools, run as the server's user in `cwd`.
    pub(crate) fn command(&self, tool: &str, user: Option<&ServerUser>, cwd: &Path) -> Command {
        let mut command = bare_command(&self.folder.join(tool), cwd);
        if let Some(user) = user {
            user.apply(&mut command);
        }
        command
    }
}

/// A command with the bare environment.
fn bare_command(program: &Path, cwd: &Path) -> Command {
    let mut command = Command::new(program);
    command.env_clear();
    for name in ["PATH", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "DYLD_FALLBACK_LIBRARY_PATH"] {
        if let Some(value) = std::env::var_os(name) {
            command.env(name, value);
        }
    }
    command.env("LC_ALL", "C").env("LANG", "C").env("TZ", "UTC");
    command.current_dir(cwd).stdin(Stdio::null());
    command
}

/// Finds one of the client tools (`pg_dump`, `pg_restore`, `psql`) of this major version or a
/// newer one, in the same folders; a machine may have the client alone.
///
/// # Errors
/// [`ClusterError::NotInstalled`], with the command that installs it.
pub(crate) fn client_tool(tool: &str, at_least: u32) -> Result<Command, ClusterError> {
    for folder in candidate_folders() {
        let program = folder.join(tool);
        if program.is_file() && version_of(&program).is_some_and(|major| major >= at_least) {
            return Ok(bare_command(&program, Path::new("/")));
        }
    }
    let release = std::fs::read_to_string("/etc/os-release").unwrap_or_default();
    Err(ClusterError::NotInstalled {
        looked_for: format!("{tool} of PostgreSQL {at_least} or newer"),
        looked_in: "PATH and the usual install folders".to_owned(),
        install: install_command(&release, Some(at_least)),
    })
}

/// The major version that a program says it has.
fn version_of(program: &Path) -> Option<u32> {
    let output =
        bare_command(program, Path::new("/")).arg("--version").stderr(Stdio::null()).output().ok()?;
    major_of(std::str::from_utf8(&output.stdout).ok()?)
}

/// Runs a tool to its end; its last lines become the error.
pub(crate) fn run(tool: &'static str, mut command: Command) -> Result<(), ClusterError> {
    let output = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .output()
        .map_err(|error| ClusterError::Tool { tool, output: format!("it could not be run: {error}") })?;
    if output.status.success() {
        return Ok(());
    }
    let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.push_str(&String::from_utf8_lossy(&output.stderr));
    Err(ClusterError::Tool { tool, output: format!("{} ({})", last_lines(&text, 12), output.status) })
}

/// The last lines of a text, joined for one message.
pub(crate) fn last_lines(text: &str, count: usize) -> String {
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    lines[lines.len().saturating_sub(count)..].join(" | ")
}

fn candidate_folders() -> Vec<PathBuf> {
    let mut folders: Vec<PathBuf> =
        std::env::var_os("PATH").map(|path| std::env::split_paths(&path).collect()).unwrap_or_default();
    folders.retain(|folder| folder.is_absolute());
    for (root, bin) in INSTALL_ROOTS {
        let Ok(entries) = std::fs::read_dir(root) else { continue };
        let mut versions: Vec<(u32, PathBuf)> = entries
            .filter_map(Result::ok)
            .filter_map(|entry| {
                let name = entry.file_name().into_string().ok()?;
                Some((version_of_folder(root, &name)?, entry.path().join(bin)))
            })
            .collect();
        versions.sort_by(|a, b| b.cmp(a));
        folders.extend(versions.into_iter().map(|(_, folder)| folder));
    }
    folders
}

/// The version that an install folder's name carries: `15`, `pgsql-15`, `postgresql@15`,
/// `postgresql15`; `postgresql` and `latest` without a number count as 0.
fn version_of_folder(root: &str, name: &str) -> Option<u32> {
    let bare = match root {
        "/usr" => name.strip_prefix("pgsql-")?,
        "/opt/homebrew/opt" | "/usr/local/opt" => name.strip_prefix("postgresql")?.trim_start_matches('@'),
        _ => name.strip_prefix("postgresql").unwrap_or(name),
    };
    if bare.is_empty() || bare == "latest" {
        return Some(0);
    }
    bare.split('.').next()?.parse().ok()
}

/// `postgres (PostgreSQL) 15.18 (Debian …)` → 15.
fn major_of(version: &str) -> Option<u32> {
    let number = version.split_whitespace().find(|word| word.starts_with(|c: char| c.is_ascii_digit()))?;
    let digits: String = number.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().ok()
}

/// What installs PostgreSQL on the system that this `os-release` describes.
fn install_command(release: &str, want_major: Option<u32>) -> String {
    let ids: Vec<String> = release
        .lines()
        .filter_map(|line| line.strip_prefix("ID=").or_else(|| line.strip_prefix("ID_LIKE=")))
        .flat_map(|value| value.trim_matches('"').split_whitespace().map(str::to_owned).collect::<Vec<_>>())
        .collect();
    let is = |names: &[&str]| ids.iter().any(|id| names.contains(&id.as_str()));
    let number = want_major.map(|major| major.to_string()).unwrap_or_default();
    let dashed = want_major.map(|major| format!("-{major}")).unwrap_or_default();
    if is(&["debian", "ubuntu"]) {
        format!("apt-get install postgresql{dashed}")
    } else if is(&["fedora", "rhel", "centos"]) {
        format!("dnf install postgresql{number}-server")
    } else if is(&["alpine"]) {
        format!("apk add postgresql{number}")
    } else if is(&["arch"]) {
        "pacman -S postgresql".to_owned()
    } else if is(&["suse", "opensuse"]) {
        format!("zypper install postgresql{number}-server")
    } else if cfg!(target_os = "macos") {
        format!("brew install postgresql@{}", want_major.unwrap_or(16))
    } else {
        format!("the PostgreSQL {} server package", if number.is_empty() { "14+" } else { &number })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_from_banner_and_folder() {
        assert_eq!(major_of("postgres (PostgreSQL) 15.18 (Debian 15.18-1)\n"), Some(15));
        assert_eq!(major_of("postgres (PostgreSQL) 17beta1"), Some(17));
        assert_eq!(major_of("postgres"), None);
        assert_eq!(version_of_folder("/usr/lib/postgresql", "16"), Some(16));
        assert_eq!(version_of_folder("/usr/libexec", "postgresql17"), Some(17));
        assert_eq!(version_of_folder("/usr/libexec", "coreutils"), None);
        assert_eq!(version_of_folder("/usr", "pgsql-13"), Some(13));
        assert_eq!(version_of_folder("/usr", "local"), None);
        assert_eq!(version_of_folder("/opt/homebrew/opt", "postgresql@16"), Some(16));
    }

    #[test]
    fn the_hint_names_this_systems_package() {
        assert_eq!(install_command("ID=debian\n", None), "apt-get install postgresql");
        assert_eq!(
            install_command("ID=mint\nID_LIKE=\"ubuntu debian\"\n", Some(15)),
            "apt-get install postgresql-15"
        );
        assert_eq!(
            install_command("ID=\"rocky\"\nID_LIKE=\"rhel centos fedora\"\n", None),
            "dnf install postgresql-server"
        );
        assert_eq!(install_command("ID=alpine", Some(16)), "apk add postgresql16");
        assert!(install_command("", None).contains("ostgre"));
    }

    #[test]
    fn an_empty_folder_is_not_an_install_and_the_error_says_what_to_type() {
        let folder = tempfile::tempdir().unwrap();
        let error = Binaries::find(Some(folder.path()), None).unwrap_err().to_string();
        assert!(error.contains(&folder.path().display().to_string()), "{error}");
        assert!(error.contains("initdb"), "{error}");
    }

    #[test]
    fn output_is_cut_to_its_end() {
        assert_eq!(last_lines("a\n\n b \nc\n", 2), "b | c");
        assert_eq!(last_lines("", 2), "");
    }
}
