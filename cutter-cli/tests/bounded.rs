//! What a file may do to the command line: block it, never end, or be made to be costly.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::path::Path;
use std::time::{Duration, Instant};

use snapbox::cmd::Command;

fn cutter(folder: &Path, arguments: &[&str]) -> Command {
    Command::new(snapbox::cmd::cargo_bin!("cutter"))
        .args(arguments)
        .current_dir(folder)
        .env_remove("CUTTER_HOME")
        .env_remove("CUTTER_CONFIG")
        .env("HOME", "/nonexistent")
        .env("NO_COLOR", "1")
        .timeout(Duration::from_secs(30))
}

fn says(folder: &Path, arguments: &[&str], code: i32) -> String {
    let output = cutter(folder, arguments).assert().code(code).get_output().clone();
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn pipes_and_devices_are_refused_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    std::fs::write(at.join("a.md"), "# a\n").unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        at.join("pipe.md"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
        0,
    )
    .unwrap();
    let started = Instant::now();
    for special in ["./pipe.md", "/dev/zero"] {
        for arguments in [
            vec!["plan", special, "--document-id", "X"],
            vec!["plan", "a.md", "--profile", special],
            vec!["plan", "a.md", "--manifest", special],
            vec!["diff", special, "a.md"],
            vec!["diff", "a.md", special, "--document-id", "X"],
            vec!["profile", "test", special],
            vec!["profile", "show", special],
            vec!["--config", special, "source", "add", "a.md", "--document-id", "X"],
        ] {
            let text = says(at, &arguments, 2);
            assert!(text.contains("expected a regular file"), "{arguments:?}: {text}");
        }
    }
    assert!(started.elapsed() < Duration::from_secs(20), "{:?}", started.elapsed());
}

#[test]
fn a_text_of_nothing_but_headings_is_refused_before_anything_is_built() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    std::fs::write(at.join("h.md"), "# h\n".repeat(20_000)).unwrap();
    std::fs::write(at.join("a.md"), "# a\n".repeat(100)).unwrap();
    for arguments in
        [vec!["plan", "h.md"], vec!["diff", "a.md", "h.md"], vec!["plan", "h.md", "--max-candidates", "9"]]
    {
        let text = says(at, &arguments, 4);
        // the command that was given, once more
        let again = if arguments[0] == "diff" { "diff a.md h.md" } else { "plan h.md" };
        let next = format!("next: cutter {again} --max-candidates 80000");
        for part in ["h.md", "mark.candidate_count_within", "at most 16384 in 80000 bytes", next.as_str()] {
            assert!(text.contains(part), "{arguments:?}: {text}");
        }
    }
    let few = says(at, &["plan", "a.md", "--max-candidates", "99"], 4);
    assert!(few.contains("1 to 99") && few.contains("next: cutter plan a.md --max-candidates 100"), "{few}");
    let all = cutter(at, &["plan", "h.md", "--max-candidates", "20000", "--json"])
        .assert()
        .code(0)
        .get_output()
        .clone();
    let plan: serde_json::Value = serde_json::from_slice(&all.stdout).unwrap();
    assert_eq!(plan["units"].as_array().unwrap().len(), 20_000);
}
