//! Ends a test's server with its process, however that ends.

use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// Waits for the end of its input, which is the end of the process that holds the other end
/// of the pipe, a kill -9 included; then ends the server and removes its folders.
const SCRIPT: &str = r#"
cat >/dev/null
home=$1
cluster=$home/pg
if [ -f "$home/pg.location" ]; then
  outside=$(sed -n 's/.*"folder":"\([^"]*\)".*/\1/p' "$home/pg.location")
  [ -n "$outside" ] && cluster=$outside
fi
n=0
while [ -f "$cluster/data/postmaster.pid" ] && [ $n -lt 200 ]; do
  n=$((n + 1))
  pid=$(head -n 1 "$cluster/data/postmaster.pid" 2>/dev/null)
  [ -n "$pid" ] || { sleep 0.05; continue; }
  case $(cat "/proc/$pid/comm" 2>/dev/null || ps -o comm= -p "$pid" 2>/dev/null) in
    *postgres* | *postmaster*) kill -QUIT "$pid" 2>/dev/null || break ;;
    *) break ;;
  esac
  sleep 0.05
done
rm -rf -- "$cluster" "$home"
"#;

/// The process that watches. Dropped: it acts at once, and is waited for.
#[derive(Debug)]
pub(super) struct Watchdog(Child);

impl Watchdog {
    pub(super) fn over(home: &Path) -> Self {
        let child = Command::new("/bin/sh")
            .args(["-c", SCRIPT, "cutter-test-watchdog"])
            .arg(home)
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // Ctrl-C in the terminal ends the tests, and must not end this before its work.
            .process_group(0)
            .spawn()
            .expect("a shell for the watchdog");
        Self(child)
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}
