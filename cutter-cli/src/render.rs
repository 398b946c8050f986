//! What people and machines see.
//!
//! A command has one result. Without `--json` its text goes to stdout; with `--json` the
//! one JSON document does. Everything else (notes, warnings, errors) goes to stderr.
//! Colour only on a terminal, and never with `NO_COLOR` or `--no-color`.

use std::fmt::Display;
use std::io::{self, IsTerminal as _, Write};
use std::path::Path;

use anstyle::{AnsiColor, Style};
use serde::Serialize;
use serde_json::Value;

use crate::exit_code::Exit;
use crate::failure::{Failure, Outcome};

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

/// Text in a style.
pub(crate) fn paint(style: Style, text: impl Display) -> String {
    format!("{style}{text}{style:#}")
}

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
        let progress = !no_progress && verbosity >= 0 && io::stderr().is_terminal();
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

    /// A command to type, complete.
    fn complete(&self, command: &str) -> String {
        match command.strip_prefix("cutter ") {
            Some(rest) if !self.place.is_empty() && !rest.starts_with("--") => {
                format!("cutter{} {rest}", self.place)
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
        let mut stream = anstream::AutoStream::new(io::stderr(), self.color).lock();
        // Nobody is left to tell if stderr is gone.
        let _ = stream.write_all(text.as_bytes());
        let _ = stream.flush();
    }

    /// A line for people, on stderr; silent with `-q`.
    pub(crate) fn note(&self, text: impl Display) {
        if self.verbosity >= 0 {
            self.stderr(&self.completed(format!("{text}\n")));
        }
    }

    /// A warning, on stderr, even with `-q`.
    pub(crate) fn warn(&self, text: impl Display) {
        self.stderr(&format!("{} {text}\n", paint(WARN, "warning:")));
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
            let mut stream = io::BufWriter::new(io::stdout().lock());
            let document = serde_json::to_writer_pretty(&mut stream, machine).map_err(io::Error::from);
            written(document.and_then(|()| stream.write_all(b"\n")).and_then(|()| stream.flush()))?;
        } else {
            let mut text = self.completed(people());
            if !text.is_empty() && !text.ends_with('\n') {
                text.push('\n');
            }
            let mut stream = anstream::AutoStream::new(io::stdout(), self.color).lock();
            written(stream.write_all(text.as_bytes()).and_then(|()| stream.flush()))?;
        }
        Ok(exit)
    }

    /// Bytes on stdout as they are: documents, completions, exported text.
    pub(crate) fn stdout(&self, bytes: &[u8]) -> Result<(), Failure> {
        let mut stream = io::stdout().lock();
        written(stream.write_all(bytes).and_then(|()| stream.flush()))
    }

    /// Shows why a command ended without its result.
    pub(crate) fn failure(&self, failure: &Failure) {
        if self.json {
            let mut value = failure.json();
            self.complete_all(&mut value, false);
            let mut bytes = value.to_string().into_bytes();
            bytes.push(b'\n');
            // The exit code still tells.
            let _ = self.stdout(&bytes);
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
    let mut text = format!("{} {code}{}\n", paint(BAD, "error:"), failure.what);
    for broken in &failure.broken {
        text.push_str(&format!(
            "  invariant  {}\n  expected   {}\n  observed   {}\n",
            broken.invariant, broken.expected, broken.observed
        ));
    }
    for (i, next) in failure.next.iter().enumerate() {
        text.push_str(&format!("{} {next}\n", paint(HEAD, if i == 0 { "next:" } else { "  or:" })));
    }
    text
}

/// `label  value` lines with the labels aligned.
pub(crate) fn fields<L: AsRef<str>, V: Display>(rows: &[(L, V)]) -> String {
    let width = rows.iter().map(|(label, _)| label.as_ref().chars().count()).max().unwrap_or(0);
    let line = |(label, value): &(L, V)| format!("{:width$}  {value}\n", label.as_ref());
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
        let text = anstream::adapter::strip_str(&failure_text(&failure)).to_string();
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
    }
}
