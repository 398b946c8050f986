//! Hooks: a command that is told about a gate or a stop. What it does, or fails to do,
//! never changes the run.

use std::io::{BufRead as _, BufReader, PipeReader, Read as _, Write as _};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::render::Out;

/// A hook that takes longer is ended.
const PATIENCE: Duration = Duration::from_secs(30);

/// How long what a hook wrote is waited for once it has ended: what it left running may hold
/// its output open.
const REST: Duration = Duration::from_secs(1);

/// Bytes of its output that are passed on at once, if no line ends before.
const LINE_MAX: u64 = 64 * 1024;

/// Runs a hook with one JSON document on its stdin. Its output goes to stderr, made safe to look
/// at as all that we show.
pub(crate) fn tell(out: &Out, name: &str, command: &[String], document: &Value) {
    let Some((program, arguments)) = command.split_first() else { return };
    if let Err(why) = run(out, program, arguments, document) {
        out.warn(format!("hook {name} ({program}): {why}; the run is as it was"));
    }
}

/// Passes on what comes until all writers are gone; says so on the channel.
fn pass_on(out: Out, output: PipeReader) -> mpsc::Receiver<()> {
    let (ended, when) = mpsc::channel();
    std::thread::spawn(move || {
        let mut output = BufReader::new(output);
        let mut line = Vec::new();
        while matches!((&mut output).take(LINE_MAX).read_until(b'\n', &mut line), Ok(1..)) {
            out.passed_on(&line);
            line.clear();
        }
        // nobody waits any more if it took long
        let _ = ended.send(());
    });
    when
}

fn run(out: &Out, program: &str, arguments: &[String], document: &Value) -> Result<(), String> {
    let cannot = |e: std::io::Error| format!("cannot start: {e}");
    let (output, writer) = std::io::pipe().map_err(cannot)?;
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(writer.try_clone().map_err(cannot)?)
        .stderr(writer)
        .spawn()
        .map_err(cannot)?;
    let passed_on = pass_on(*out, output);
    let result = ended(&mut child, document);
    // late or not, the hook's own end is what counts
    let _ = passed_on.recv_timeout(REST);
    result
}

/// Hands the document over and waits for the end.
fn ended(child: &mut Child, document: &Value) -> Result<(), String> {
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

    fn out() -> Out {
        Out::new(false, true, 0, true)
    }

    #[test]
    fn what_a_hook_leaves_running_holds_nobody_up() {
        let started = Instant::now();
        run(&out(), "sh", &words(&["-c", "sleep 6 & echo told"]), &json!({})).unwrap();
        assert!(started.elapsed() < Duration::from_secs(5));
    }

    #[test]
    fn a_hook_reads_the_document() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("told");
        let script = words(&["-c", "cat > \"$0\"", path.to_str().unwrap()]);
        run(&out(), "sh", &script, &json!({"gate": "SG_cut_authz"})).unwrap();
        let told: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
        assert_eq!(told["gate"], "SG_cut_authz");
    }

    #[test]
    fn a_hook_that_fails_or_is_not_there_is_only_reported() {
        assert!(run(&out(), "sh", &words(&["-c", "exit 3"]), &json!({})).unwrap_err().contains('3'));
        assert!(run(&out(), "/nowhere/at/all", &[], &json!({})).unwrap_err().contains("cannot start"));
        run(&out(), "true", &[], &json!({"large": "x".repeat(1 << 20)})).unwrap();
    }
}
