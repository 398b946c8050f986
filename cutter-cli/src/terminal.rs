//! The one place that writes to stdout and stderr; a test finds any other.
//!
//! What people read goes out through [`people`]: hidden characters of whatever the text holds
//! (documents, names, errors of other programs) become visible escapes
//! ([`cutter_core::base::visible`]), and only what this process sealed itself (colours, names made
//! safe) passes as it is. A seal is a random word, new with every process, so no stored text
//! can carry one. Documents and JSON are exact wherever stdout is no terminal.

use std::borrow::Cow;
use std::fmt::Display;
use std::io::{self, IsTerminal as _, Write};
use std::sync::OnceLock;

use anstream::{AutoStream, ColorChoice};
use anstyle::Style;
use cutter_core::base::visible;
use serde::Serialize;

use crate::wire;

/// Where to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stream {
    /// Results.
    Stdout,
    /// Everything beside them.
    Stderr,
}

impl Stream {
    /// Whether a person looks at it right now.
    pub(crate) fn is_terminal(self) -> bool {
        match self {
            Self::Stdout => io::stdout().is_terminal(),
            Self::Stderr => io::stderr().is_terminal(),
        }
    }
}

/// Stands before and after what this process means to be taken as it is.
fn seal() -> &'static str {
    static SEAL: OnceLock<String> = OnceLock::new();
    SEAL.get_or_init(|| {
        let mut random = [0; 16];
        wire::fill(&mut random);
        wire::hex(&random)
    })
}

fn sealed(text: impl Display) -> String {
    format!("{seal}{text}{seal}", seal = seal())
}

/// Text in a style; for people only.
pub(crate) fn paint(style: Style, text: impl Display) -> String {
    format!("{}{text}{}", sealed(style), sealed(format_args!("{style:#}")))
}

/// A name or a path on one line, whatever it holds; for people only.
pub(crate) fn name(text: impl Display) -> String {
    sealed(visible::line(&text.to_string()))
}

/// What people are given of a text: our own pieces as they are, all else visible.
pub(crate) fn shown(text: &str) -> String {
    let pieces = text.split(seal()).enumerate();
    pieces.map(|(i, piece)| if i % 2 == 1 { Cow::Borrowed(piece) } else { visible::text(piece) }).collect()
}

/// Writes a text for people.
pub(crate) fn people(stream: Stream, color: ColorChoice, text: &str) -> io::Result<()> {
    let text = shown(text);
    match stream {
        Stream::Stdout => write(AutoStream::new(io::stdout().lock(), color), text.as_bytes()),
        Stream::Stderr => write(AutoStream::new(io::stderr().lock(), color), text.as_bytes()),
    }
}

/// As [`people`] on stdout, over what stood there before if it is a terminal.
pub(crate) fn redraw(color: ColorChoice, text: &str) -> io::Result<()> {
    if Stream::Stdout.is_terminal() {
        // to the upper left corner, and clear what is below
        write(io::stdout(), b"\x1b[H\x1b[J")?;
        people(Stream::Stdout, color, text)
    } else {
        people(Stream::Stdout, color, &format!("{text}\n"))
    }
}

/// Writes a document to stdout: the exact bytes, but for a terminal.
pub(crate) fn document(bytes: &[u8]) -> io::Result<()> {
    if Stream::Stdout.is_terminal() {
        return write(io::stdout(), visible::text(&String::from_utf8_lossy(bytes)).as_bytes());
    }
    write(io::stdout(), bytes)
}

/// Writes a JSON document to stdout: as it is, but for a terminal, where hidden characters are
/// written as JSON's own escapes and read back as the same values.
pub(crate) fn json(text: &str) -> io::Result<()> {
    let text = if Stream::Stdout.is_terminal() { visible::json(text) } else { Cow::Borrowed(text) };
    write(io::stdout(), text.as_bytes())
}

/// As [`json`], written piece by piece: it may be very long.
pub(crate) fn json_of(value: &impl Serialize) -> io::Result<()> {
    if Stream::Stdout.is_terminal() {
        return json(&format!("{}\n", serde_json::to_string_pretty(value)?));
    }
    let mut stream = io::BufWriter::new(io::stdout().lock());
    serde_json::to_writer_pretty(&mut stream, value)?;
    write(stream, b"\n")
}

/// Shows clap's own text, which holds nothing but what was compiled in.
pub(crate) fn help(help: &clap::Error) {
    // Nothing is left to do if the terminal is gone.
    let _ = help.print();
}

/// Says why the process ends when it has no randomness, and so no seal.
pub(crate) fn last_words(text: &str) {
    // Nothing is left to do if stderr is gone.
    let _ = write(io::stderr(), visible::text(text).as_bytes());
}

fn write(mut stream: impl Write, bytes: &[u8]) -> io::Result<()> {
    stream.write_all(bytes).and_then(|()| stream.flush())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::BAD;

    #[test]
    fn our_colours_pass_and_no_others() {
        let text = format!("{} \x1b[8mhidden\x1b[0m {}", paint(BAD, "a\x1b[2Kb"), name("c\nd\u{202e}"));
        let shown = shown(&text);
        assert_eq!(
            shown,
            format!("{BAD}a\\u{{1b}}[2Kb{BAD:#} \\u{{1b}}[8mhidden\\u{{1b}}[0m c\\u{{a}}d\\u{{202e}}")
        );
        assert!(!shown.contains(seal()));
    }

    #[test]
    fn a_styled_name_and_a_style_in_a_cell_pass_too() {
        let nested = paint(BAD, name("a\tb"));
        assert_eq!(shown(&nested), format!("{BAD}a\\u{{9}}b{BAD:#}"));
    }
}
