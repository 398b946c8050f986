//! What people and machines see.
//!
//! A command has one result. Without `--json` its text goes to stdout; with `--json` the
//! one JSON document does. Everything else (notes, warnings, errors) goes to stderr.
//! Colour only on a terminal, and never with `NO_COLOR` or `--no-color`. How it gets there, and
//! what of a text does not, is the business of [`crate::terminal`].

use std::fmt::Display;
use std::io;
use std::path::Path;

use anstyle::{AnsiColor, Style};
use serde::Serialize;
use serde_json::Value;

use crate::exit_code::Exit;
use crate::failure::{Failure, Outcome};
use crate::terminal::{self, Stream};
pub(crate) use crate::terminal::{name, paint};

/// Bad news.
pub(crate) const BAD: Style = AnsiColor::Red.on_default().bold();
/// Good news.
pub(crate) const GOOD: Style = AnsiColor::Green.on_default().bold();
/// What needs a look.
pub(crate) const WARN: Style = AnsiColor::Yellow.on_default().bold();
/// A heading.
pub(crate) const HEAD: Style = Style::new().bold();
/// What may be skipped.
pub(crate) const DIM: Style = Style::new().dimmed();

/// How loud, how coloured, for whom.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Out {
    json: bool,
    color: anstream::ColorChoice,
    verbosity: i16,
    progress: bool,
    /// What `cutter` must be followed by in a command to type, so that it means this home.
    place: &'static str,
}

impl Out {
    pub(crate) fn new(json: bool, no_color: bool, verbosity: i16, no_progress: bool) -> Self {
        let color = if no_color { anstream::ColorChoice::Never } else { anstream::ColorChoice::Auto };
        let progress = !no_progress && verbosity >= 0 && Stream::Stderr.is_terminal();
        Self { json, color, verbosity, progress, place: "" }
    }

    /// Names the home in every command to type. For a home or file that was given as a flag:
    /// the next command would not find it otherwise.
    pub(crate) fn at(mut self, config: Option<&Path>, home: Option<&Path>) -> Self {
        let mut place = String::new();
        for (flag, path) in [("--config", config), ("--home", home)] {
            if let Some(path) = path {
                place.push_str(&format!(" {flag} {}", path.display()));
            }
        }
        // once per process, and needed to its end
        self.place = Box::leak(place.into_boxed_str());
        self
    }

    /// A command to type, complete; also one that follows another.
    fn complete(&self, command: &str) -> String {
        let (before, own) = match command.split_once("&& cutter ") {
            Some((before, rest)) => (format!("{before}&& "), Some(rest)),
            None => (String::new(), command.strip_prefix("cutter ")),
        };
        match own {
            Some(rest) if !self.place.is_empty() && !rest.starts_with("--") => {
                format!("{before}cutter{} {rest}", self.place)
            }
            _ => command.to_owned(),
        }
    }

    /// The commands in a text: those after a label that says that one follows.
    fn completed(&self, text: String) -> String {
        const LABELS: [&str; 5] = ["next:", "then:", "or:", "fix:", "  cutter "];
        if self.place.is_empty() {
            return text;
        }
        let line = |line: &str| match line.find("cutter ") {
            Some(at) if LABELS.iter().any(|label| line.contains(label)) => {
                format!("{}{}", &line[..at], self.complete(&line[at..]))
            }
            _ => line.to_owned(),
        };
        let mut out = String::with_capacity(text.len());
        for (i, text) in text.split('\n').enumerate() {
            if i > 0 {
                out.push('\n');
            }
            out.push_str(&line(text));
        }
        out
    }

    /// The commands in a document: the values of `next` and `fix`.
    fn complete_all(&self, value: &mut Value, is_command: bool) {
        match value {
            Value::String(text) if is_command => *text = self.complete(text),
            Value::Array(items) => items.iter_mut().for_each(|item| self.complete_all(item, is_command)),
            Value::Object(map) => {
                map.iter_mut().for_each(|(key, item)| self.complete_all(item, key == "next" || key == "fix"));
            }
            _ => {}
        }
    }

    /// Whether the result is JSON.
    pub(crate) const fn is_json(&self) -> bool {
        self.json
    }

    /// Whether moving progress may be drawn.
    pub(crate) const fn shows_progress(&self) -> bool {
        self.progress
    }

    /// Whether `-v` was given at least `n` times.
    pub(crate) const fn is_verbose(&self, n: i16) -> bool {
        self.verbosity >= n
    }

    fn stderr(&self, text: &str) {
        // Nobody is left to tell if stderr is gone.
        let _ = terminal::people(Stream::Stderr, self.color, text);
    }

    /// A line for people, on stderr; silent with `-q`.
    pub(crate) fn note(&self, text: impl Display) {
        if self.verbosity >= 0 {
            self.stderr(&self.completed(format!("{text}\n")));
        }
    }

    /// A warning, on stderr, even with `-q`.
    pub(crate) fn warn(&self, text: impl Display) {
        self.stderr(&format!("{} {}\n", paint(WARN, "warning:"), hanging(&text.to_string(), 9)));
    }

    /// What another program wrote, on stderr.
    pub(crate) fn passed_on(&self, bytes: &[u8]) {
        self.stderr(&String::from_utf8_lossy(bytes));
    }

    /// The command's result.
    pub(crate) fn result<T: Serialize>(&self, people: impl FnOnce() -> String, machine: &T) -> Outcome {
        self.result_as(Exit::DONE, people, machine)
    }

    /// The command's result, with an exit code of its own.
    pub(crate) fn result_as<T: Serialize>(
        &self,
        exit: Exit,
        people: impl FnOnce() -> String,
        machine: &T,
    ) -> Outcome {
        if self.json {
            written(terminal::json_of(machine))?;
        } else {
            let mut text = self.completed(people());
            if !text.is_empty() && !text.ends_with('\n') {
                text.push('\n');
            }
            written(terminal::people(Stream::Stdout, self.color, &text))?;
        }
        Ok(exit)
    }

    /// A document on stdout, its exact bytes unless that is a terminal: exported text,
    /// diagrams, completions.
    pub(crate) fn document(&self, bytes: &[u8]) -> Result<(), Failure> {
        written(terminal::document(bytes))
    }

    /// One JSON document on stdout.
    pub(crate) fn machine(&self, json: &str) -> Result<(), Failure> {
        written(terminal::json(&format!("{json}\n")))
    }

    /// A result that is shown again and again, in its place on a terminal. False once nobody
    /// reads it.
    pub(crate) fn redraw(&self, text: &str) -> bool {
        terminal::redraw(self.color, text).is_ok()
    }

    /// Shows why a command ended without its result.
    pub(crate) fn failure(&self, failure: &Failure) {
        if self.json {
            let mut value = failure.json();
            self.complete_all(&mut value, false);
            // The exit code still tells.
            let _ = self.machine(&value.to_string());
        }
        self.stderr(&self.completed(failure_text(failure)));
    }
}

/// A list that is written item by item and never held whole.
pub(crate) struct Each<F>(pub(crate) F);

impl<I: Iterator<Item: Serialize>, F: Fn() -> I> Serialize for Each<F> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq((self.0)())
    }
}

/// A reader that went away (`| head`) is no failure; anything else is.
fn written(result: io::Result<()>) -> Result<(), Failure> {
    match result {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure::io("write to", Path::new("standard output"), &error))
        }
        _ => Ok(()),
    }
}

fn failure_text(failure: &Failure) -> String {
    let code = if failure.code.starts_with("STOP_") { format!("{}: ", failure.code) } else { String::new() };
    let mut text = format!("{} {code}{}\n", paint(BAD, "error:"), hanging(&failure.what, 7));
    for broken in &failure.broken {
        text.push_str(&format!(
            "  invariant  {}\n  expected   {}\n  observed   {}\n",
            broken.invariant,
            hanging(&broken.expected, 13),
            hanging(&broken.observed, 13)
        ));
    }
    for (i, next) in failure.next.iter().enumerate() {
        let label = paint(HEAD, if i == 0 { "next:" } else { "  or:" });
        text.push_str(&format!("{label} {}\n", hanging(next, 6)));
    }
    text
}

/// A text whose further lines stand below its first: what it holds cannot pass for a line of ours.
fn hanging(text: &str, width: usize) -> String {
    text.trim_end_matches('\n').replace('\n', &format!("\n{:width$}", ""))
}

/// `label  value` lines with the labels aligned.
pub(crate) fn fields<L: AsRef<str>, V: Display>(rows: &[(L, V)]) -> String {
    let width = rows.iter().map(|(label, _)| label.as_ref().chars().count()).max().unwrap_or(0);
    let line = |(label, value): &(L, V)| {
        format!("{:width$}  {}\n", label.as_ref(), hanging(&value.to_string(), width + 2))
    };
    rows.iter().map(line).collect()
}

/// A table without frames, its columns as wide as they must be.
pub(crate) fn table(header: &[&str], rows: Vec<Vec<String>>) -> String {
    let mut table = comfy_table::Table::new();
    table.load_style(comfy_table::presets::NOTHING);
    table.set_header(header.iter().map(|h| h.to_uppercase()));
    for row in rows {
        table.add_row(row);
    }
    let mut text: String = table
        .lines()
        .map(|line| format!("{}\n", line.strip_prefix(' ').unwrap_or(&line).trim_end()))
        .collect();
    if text.is_empty() {
        text.push('\n');
    }
    text
}

/// `1 unit`, `3 units`.
pub(crate) fn count(n: u64, what: &str) -> String {
    if n == 1 { format!("1 {what}") } else { format!("{n} {what}s") }
}

/// Bytes as people read them.
pub(crate) fn size(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut scaled = bytes;
    let mut rest = 0;
    let mut unit = "B";
    for name in UNITS {
        if scaled < 1024 {
            break;
        }
        rest = scaled % 1024;
        scaled /= 1024;
        unit = name;
    }
    format!("{scaled}.{} {unit}", rest * 10 / 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_read_well() {
        assert_eq!(size(0), "0 B");
        assert_eq!(size(1023), "1023 B");
        assert_eq!(size(1536), "1.5 KiB");
        assert_eq!(size(64 * 1024 * 1024), "64.0 MiB");
    }

    #[test]
    fn a_failure_says_what_which_rule_and_what_next() {
        let failure = Failure::usage("nothing to cut")
            .broken("mark.count_positive", "at least 1", "0")
            .next("cutter plan x.md");
        let text = anstream::adapter::strip_str(&terminal::shown(&failure_text(&failure))).to_string();
        for part in ["error: nothing to cut", "mark.count_positive", "at least 1", "next: cutter plan x.md"] {
            assert!(text.contains(part), "{text}");
        }
        assert_eq!(failure.json()["error"]["invariants"][0]["observed"], "0");
    }

    #[test]
    fn commands_to_type_name_the_home_that_was_given() {
        let out = Out::new(false, true, 0, true).at(None, Some(Path::new("/h")));
        let text = out.completed("next: cutter why --run-id R\nthe cutter is sharp\n".to_owned());
        assert_eq!(text, "next: cutter --home /h why --run-id R\nthe cutter is sharp\n");
        let mut value = serde_json::json!({ "next": ["cutter doctor"], "stop": { "next": "cutter list" }, "x": "cutter x" });
        out.complete_all(&mut value, false);
        assert_eq!(
            value,
            serde_json::json!({ "next": ["cutter --home /h doctor"], "stop": { "next": "cutter --home /h list" }, "x": "cutter x" })
        );
        let plain = Out::new(false, true, 0, true);
        assert_eq!(plain.completed("next: cutter why".to_owned()), "next: cutter why");
        assert_eq!(out.complete("cutter --home /other x"), "cutter --home /other x");
    }

    #[test]
    fn labels_line_up() {
        assert_eq!(fields(&[("a", 1), ("long", 2)]), "a     1\nlong  2\n");
        assert_eq!(fields(&[("a", "x\nnext: y")]), "a  x\n   next: y\n");
        let failure = Failure::usage("cannot read x\nnext: y").next("cutter plan a\nnext: z");
        let text = anstream::adapter::strip_str(&terminal::shown(&failure_text(&failure))).to_string();
        assert_eq!(text, "error: cannot read x\n       next: y\nnext: cutter plan a\n      next: z\n");
    }
}
