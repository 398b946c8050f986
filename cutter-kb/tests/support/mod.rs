//! A throw-away GnuPG home, whose agent ends with it.
#![allow(dead_code, unreachable_pub)]

use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// A GnuPG home folder of its own; dropping it ends the agent that gpg started for it.
pub struct Gpg {
    home: tempfile::TempDir,
}

impl Gpg {
    /// `None`, said aloud, where gpg is not installed; under CI that is a failure.
    pub fn new(test: &str) -> Option<Self> {
        let there = |program: &str| Command::new(program).arg("--version").output().is_ok();
        if !(there("gpg") && there("gpgv") && there("gpgconf")) {
            let message = format!("{test}: SKIPPED, gpg, gpgv or gpgconf is not installed");
            assert!(std::env::var_os("CI").is_none(), "{message}");
            let _ = writeln!(std::io::stderr(), "{message}");
            return None;
        }
        let home = tempfile::Builder::new().prefix("kbgpg").tempdir().unwrap();
        std::fs::set_permissions(home.path(), std::fs::Permissions::from_mode(0o700)).unwrap();
        Some(Self { home })
    }

    pub fn path(&self) -> &Path {
        self.home.path()
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.env("GNUPGHOME", self.path()).env("LC_ALL", "C").env("TZ", "UTC");
        command
    }

    /// Runs gpg in batch mode and returns its output whatever its exit.
    pub fn try_run(&self, arguments: &[&str], stdin: &[u8]) -> Output {
        let mut command = self.command("gpg");
        command
            .args(["--batch", "--yes", "--quiet", "--no-auto-check-trustdb", "--trust-model", "always"])
            .args(["--pinentry-mode", "loopback", "--passphrase", ""])
            .args(arguments);
        feed(command, stdin)
    }

    /// Runs gpg and returns what it wrote; a failing gpg fails the test.
    pub fn run(&self, arguments: &[&str], stdin: &[u8]) -> Vec<u8> {
        let output = self.try_run(arguments, stdin);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "gpg {arguments:?}: {said}");
        output.stdout
    }

    /// Whether gpgv accepts `document` with exactly these public keys.
    pub fn gpgv(&self, keys: &[&[u8]], document: &[u8]) -> (bool, String) {
        let folder = tempfile::tempdir().unwrap();
        let (ring, file) = (folder.path().join("ring.gpg"), folder.path().join("document"));
        std::fs::write(&ring, keys.concat()).unwrap();
        std::fs::write(&file, document).unwrap();
        let mut command = self.command("gpgv");
        command.arg("--keyring").arg(&ring).arg(&file);
        let output = feed(command, b"");
        (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
    }

    /// Binary public key.
    pub fn export(&self, user: &str) -> Vec<u8> {
        let key = self.run(&["--export", user], b"");
        assert!(!key.is_empty(), "no key {user}");
        key
    }

    /// Imports the revocation that gpg made along with the key.
    pub fn revoke(&self, user: &str) {
        let name = format!("openpgp-revocs.d/{}.rev", self.fingerprint(user));
        let text = std::fs::read_to_string(self.path().join(name)).unwrap();
        // gpg disarms the file with a colon, against accidents
        let at = text.find(":-----BEGIN").unwrap();
        self.run(&["--import"], &text.as_bytes()[at + 1..]);
    }

    pub fn fingerprint(&self, user: &str) -> String {
        let listing = self.run(&["--with-colons", "--list-keys", user], b"");
        let listing = String::from_utf8(listing).unwrap();
        let line = listing.lines().find(|line| line.starts_with("fpr:")).unwrap();
        line.split(':').nth(9).unwrap().to_owned()
    }
}

impl Drop for Gpg {
    fn drop(&mut self) {
        let _ = self.command("gpgconf").args(["--kill", "all"]).output();
    }
}

fn feed(mut command: Command, stdin: &[u8]) -> Output {
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut pipe = child.stdin.take().unwrap();
    let bytes = stdin.to_vec();
    let writer = std::thread::spawn(move || {
        let _ = pipe.write_all(&bytes);
    });
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    output
}
