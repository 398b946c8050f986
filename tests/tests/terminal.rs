//! What hostile text can do to a terminal: nothing. The real program on a real pseudo-terminal,
//! over documents, names and a request that hold what erases, recolours and turns around; and the
//! exact bytes where no terminal is.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::fs::File;
use std::io::Read as _;
use std::path::Path;
use std::process::{Command, Stdio};

use cutter_tests::cli::{Deployment, binary};
use rustix::fs::{Mode, OFlags};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

/// Erases `900`, shows `100`; hides; sets the title; turns the direction; C1's CSI, a tag, DEL.
const HOSTILE: &str =
    "900\x1b[2K\r100 \x1b[8mx\x1b[1my \x1b]0;t\x07 \u{202e}z\u{2066} \u{9b}31m \u{e0041}\u{7f}\u{2028}.";

/// What of colour is ours.
const OURS: [&str; 6] = ["\x1b[0m", "\x1b[1m", "\x1b[2m", "\x1b[31m", "\x1b[32m", "\x1b[33m"];

fn plain(d: &Deployment, arguments: &[&str]) -> Command {
    let mut command = Command::new(binary());
    command.env_clear().env("PATH", std::env::var_os("PATH").unwrap());
    command.env("TERM", "xterm").env("USER", "op").current_dir(d.path(""));
    command.arg("--home").arg(d.path("")).arg("--no-progress").args(arguments);
    command
}

/// Runs a command on a pseudo-terminal; gives all that it showed, our colours taken out.
#[track_caller]
fn on_terminal(d: &Deployment, arguments: &[&str]) -> String {
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
    grantpt(&master).unwrap();
    unlockpt(&master).unwrap();
    let name = ptsname(&master, Vec::new()).unwrap();
    let slave = || {
        let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
        Stdio::from(rustix::fs::open(name.as_c_str(), flags, Mode::empty()).unwrap())
    };
    let mut command = plain(d, arguments);
    let mut child = command.stdin(slave()).stdout(slave()).stderr(slave()).spawn().unwrap();
    // the last of our own ends: then the end of the child is the end of what there is to read
    drop(command);
    let mut bytes = Vec::new();
    // EIO says that nobody writes any more
    let _ = File::from(master).read_to_end(&mut bytes);
    child.wait().unwrap();
    let mut text = String::from_utf8(bytes).expect("UTF-8");
    for ours in OURS {
        text = text.replace(ours, "");
    }
    // a terminal's own line ends
    let text = text.replace("\r\r\n", "\n").replace("\r\n", "\n");
    let raw = text.chars().find(|&c| cutter_core::base::visible::is_hidden(c) && c != '\n' && c != '\t');
    assert_eq!(raw, None, "{arguments:?}: {text:?}");
    text
}

/// That it was there to be shown, and how it is shown.
#[track_caller]
fn shows_escaped(text: &str) {
    for part in ["900\\u{1b}[2K\\u{d}100", "\\u{1b}[8mx\\u{1b}[1my", "\\u{202e}z", "\\u{9b}31m", "\\u{e0041}"]
    {
        assert!(text.contains(part), "{part}: {text}");
    }
}

fn request_of(d: &Deployment, run: &str) -> std::path::PathBuf {
    let shown = d.run(&["sovereign", "show", "--run-id", run]).exits(0);
    d.path("kb").join(shown.text("/request_path"))
}

fn write(path: &Path, text: &str) {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).unwrap();
    std::fs::write(path, text).unwrap();
}

#[test]
fn no_text_of_others_reaches_a_terminal_as_it_is() {
    let d = Deployment::new();
    let law = format!("# Law\n\n## Article 1\n\n{HOSTILE}\n\n## Article 2\n\nPlain.\r\n");
    d.register("HOSTILE", &law);

    // files and arguments with such names
    let file = d.path("a\x1b[2K\rb\u{202e}\nnext: c.md");
    std::fs::write(&file, law.replace("Plain", "Other")).unwrap();
    let file = file.to_str().unwrap();
    for arguments in [
        &["plan", file, "--document-id", "HOSTILE"][..],
        &["plan", "/nowhere/\x1b[2K\r\u{9b}"],
        &["profile", "explain", file],
        &["profile", "test", file, "--profile", "no\x1b[8msuch"],
        &["no\x1b]0;t\x07such"],
        &["plan", "--no\u{202e}such"],
        &["why", "--run-id", "\x1b[2K\r\u{9b}"],
        &["unit", "show", "A/\x1b[2K\u{2028}"],
        &["--config", "/nowhere/\x1b[2K\u{9b}.toml", "doctor"],
    ] {
        let text = on_terminal(&d, arguments);
        assert!(!text.trim().is_empty() && !text.lines().any(|l| l.starts_with("next: c.md")), "{text}");
    }
    let old = d.path("old.md");
    std::fs::write(&old, law.replace("900", "800")).unwrap();
    let old = old.to_str().unwrap();
    let text = on_terminal(&d, &["diff", old, file, "--text", "--document-id", "HOSTILE"]);
    assert!(text.contains("-800\\u{1b}[2K\\u{d}") && text.contains("+900\\u{1b}[2K\\u{d}"), "{text}");

    // a request that somebody edited
    let run = d.cut("HOSTILE");
    let request = request_of(&d, &run);
    let before = std::fs::read_to_string(&request).unwrap();
    assert!(!on_terminal(&d, &["sovereign", "show", "--run-id", &run]).contains("careful:"));
    write(&request, &format!("{before}\n{HOSTILE}\n"));
    let text = on_terminal(&d, &["sovereign", "show", "--run-id", &run]);
    shows_escaped(&text);
    assert!(text.contains("careful: the document holds 12 control"), "{text}");
    write(&request, &before);

    // the stored units
    d.approve(&run, "cut");
    assert_eq!(d.resume(&run).state(), "awaiting_lifecycle_authorization");
    let unit = "HOSTILE/art-1";
    shows_escaped(&on_terminal(&d, &["unit", "show", unit, "--status", "draft"]));
    shows_escaped(&on_terminal(&d, &["unit", "show", unit, "--status", "draft", "--format", "text"]));
    shows_escaped(&on_terminal(&d, &["unit", "export", "--document-id", "HOSTILE", "--status", "draft"]));
    let json = on_terminal(&d, &["unit", "show", unit, "--status", "draft", "--json"]);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert!(json["text"].as_str().unwrap().contains(HOSTILE), "{json}");

    // and where no terminal is: for programs the exact bytes, for people not
    let redirected = |arguments: &[&str]| plain(&d, arguments).stdin(Stdio::null()).output().unwrap().stdout;
    let region = redirected(&["unit", "export", "--document-id", "HOSTILE", "--status", "draft"]);
    assert_eq!(String::from_utf8(region).unwrap(), law);
    let text =
        String::from_utf8(redirected(&["unit", "show", unit, "--status", "draft", "--format", "text"]))
            .unwrap();
    assert!(text.contains(HOSTILE), "{text:?}");
    let json = String::from_utf8(redirected(&["unit", "show", unit, "--status", "draft", "--json"])).unwrap();
    assert!(json.contains('\u{9b}') && json.contains('\u{202e}'), "{json}");
    shows_escaped(&String::from_utf8(redirected(&["unit", "show", unit, "--status", "draft"])).unwrap());
}
