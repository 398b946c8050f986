//! Hooks: a command that is told about a gate or a stop. What it does, or fails to do,
//! never changes the run.

use std::io::Write as _;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::render::Out;

/// A hook that takes longer is ended.
const PATIENCE: Duration = Duration::from_secs(30);

/// Runs a hook with one JSON document on its stdin. Its output goes to stderr.
pub(crate) fn tell(out: &Out, name: &str, command: &[String], document: &Value) {
    let Some((program, arguments)) = command.split_first() else { return };
    if let Err(why) = run(program, arguments, document) {
        out.warn(format!("hook {name} ({program}): {why}; the run is as it was"));
    }
}

fn run(program: &str, arguments: &[String], document: &Value) -> Result<(), String> {
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(std::io::stderr())
        .spawn()
        .map_err(|e| format!("cannot start: {e}"))?;
    let mut text = document.to_string().into_bytes();
    text.push(b'\n');
    if let Some(mut stdin) = child.stdin.take() {
        // It may not want to read: whoever ignores its input is not at fault. On a thread,
        // because one that neither reads nor ends would hold us for ever.
        std::thread::spawn(move || {
            let _ = stdin.write_all(&text);
        });
    }
    let until = Instant::now() + PATIENCE;
    loop {
        match child.try_wait().map_err(|e| e.to_string())? {
            Some(status) if status.success() => return Ok(()),
            Some(status) => return Err(format!("ended with {status}")),
            None if Instant::now() < until => std::thread::sleep(Duration::from_millis(10)),
            None => {
                // It may have ended in between; then there is nothing to end.
                let _ = child.kill();
                let _ = child.wait();
                return Err(format!("took longer than {} s and was ended", PATIENCE.as_secs()));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn words(text: &[&str]) -> Vec<String> {
        text.iter().map(|w| (*w).to_owned()).collect()
    }

    #[test]
    fn a_hook_reads_the_document() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("told");
        let script = words(&["-c", "cat > \"$0\"", path.to_str().unwrap()]);
        run("sh", &script, &json!({"gate": "SG_cut_authz"})).unwrap();
        let told: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
        assert_eq!(told["gate"], "SG_cut_authz");
    }

    #[test]
    fn a_hook_that_fails_or_is_not_there_is_only_reported() {
        assert!(run("sh", &words(&["-c", "exit 3"]), &json!({})).unwrap_err().contains('3'));
        assert!(run("/nowhere/at/all", &[], &json!({})).unwrap_err().contains("cannot start"));
        run("true", &[], &json!({"large": "x".repeat(1 << 20)})).unwrap();
    }
}
