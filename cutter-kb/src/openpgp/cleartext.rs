//! The clear-signed frame: exactly one block and nothing else in the document.
//!
//! Only lines that the signature covers come out of here. What other readers repair or
//! skip (text around the block, unescaped dashes, foreign headers, a CR alone) is refused,
//! because a human who looks at the file would take it for signed text.

use super::certificate::Fault;

const BEGIN: &str = "-----BEGIN PGP SIGNED MESSAGE-----";
const BEGIN_SIGNATURE: &str = "-----BEGIN PGP SIGNATURE-----";
const END_SIGNATURE: &str = "-----END PGP SIGNATURE-----";

/// The parts of a well-formed document.
#[derive(Debug)]
pub(super) struct Frame<'a> {
    /// Covered lines: unescaped, without trailing blanks and line endings.
    pub(super) lines: Vec<&'a str>,
    /// The hash names announced, as written.
    pub(super) hashes: Vec<&'a str>,
    /// The armored signature, headers included, LF line endings.
    pub(super) signature: String,
}

fn trim_line(line: &str) -> &str {
    line.trim_end_matches([' ', '\t'])
}

/// Splits into lines without their endings; an error names the line with a CR alone.
fn lines_of(text: &str) -> Result<Vec<&str>, usize> {
    let mut lines = Vec::new();
    for (index, line) in text.split('\n').enumerate() {
        let line = line.strip_suffix('\r').unwrap_or(line);
        if line.contains('\r') {
            return Err(index + 1);
        }
        lines.push(line);
    }
    Ok(lines)
}

/// The lines of `text` as a signature covers them; the final line ending is not covered.
pub(super) fn signable_lines(text: &str) -> Result<Vec<&str>, String> {
    if text.contains('\0') {
        return Err("it holds a NUL character".to_owned());
    }
    let mut lines =
        lines_of(text).map_err(|line| format!("line {line} holds a carriage return that ends no line"))?;
    if lines.len() > 1 && lines.last().is_some_and(|l| l.is_empty()) {
        lines.pop();
    }
    Ok(lines.into_iter().map(trim_line).collect())
}

/// Writes the document.
pub(super) fn compose(lines: &[&str], hash: &str, armored_signature: &str) -> String {
    let mut out = format!("{BEGIN}\nHash: {hash}\n\n");
    for line in lines {
        if line.starts_with('-') {
            out.push_str("- ");
        }
        out.push_str(line);
        out.push('\n');
    }
    out.push_str(armored_signature);
    if !out.ends_with('\n') {
        out.push('\n');
    }
    out
}

/// A block taken apart by whoever wants to know who signed, and relies on nothing.
#[derive(Debug)]
pub(super) struct Parts {
    /// What the signature may cover: signers differ in what they leave out of a line.
    pub(super) readings: Vec<Vec<u8>>,
    /// The armored signature, LF line endings.
    pub(super) signature: String,
}

/// Takes one block apart, whatever its bytes are.
pub(super) fn parts(block: &[u8]) -> Option<Parts> {
    let mut lines = block.split(|byte| *byte == b'\n');
    let is = |line: &[u8], wanted: &str| line.trim_ascii() == wanted.as_bytes();
    lines.find(|line| is(line, BEGIN))?;
    lines.find(|line| line.trim_ascii().is_empty())?;
    let mut covered: Vec<&[u8]> = Vec::new();
    loop {
        let line = lines.next()?;
        if is(line, BEGIN_SIGNATURE) {
            break;
        }
        covered.push(line);
    }
    let mut signature = format!("{BEGIN_SIGNATURE}\n");
    for line in lines {
        signature.push_str(String::from_utf8_lossy(line.trim_ascii()).as_ref());
        signature.push('\n');
        if is(line, END_SIGNATURE) {
            break;
        }
    }
    let reading = |blanks: &[u8]| {
        let line = |line: &&[u8]| {
            let line = line.strip_prefix(b"- ").unwrap_or(line);
            let end = line.iter().rposition(|byte| !blanks.contains(byte)).map_or(0, |last| last + 1);
            line[..end].to_vec()
        };
        covered.iter().map(line).collect::<Vec<_>>().join(&b"\r\n"[..])
    };
    let readings = vec![reading(b" \t\r"), reading(b"\r")];
    Some(Parts { readings, signature })
}

/// Takes a document apart, refusing whatever is not exactly one block.
pub(super) fn parse(text: &str) -> Result<Frame<'_>, Fault> {
    if text.contains('\0') {
        return Err(Fault::new("malformed", "the document holds a NUL character"));
    }
    let all = lines_of(text).map_err(|line| {
        Fault::new("bare_carriage_return", format!("line {line} holds a carriage return that ends no line"))
    })?;
    let mut lines = all.into_iter().enumerate().map(|(index, line)| (index + 1, line));
    skip_to_begin(&mut lines, text)?;

    let mut hashes = Vec::new();
    loop {
        let (number, line) = lines.next().ok_or_else(|| cut_short("its headers"))?;
        if line.is_empty() {
            break;
        }
        let Some(values) = line.strip_prefix("Hash: ") else {
            return Err(Fault::new(
                "header",
                format!("line {number}: expected a Hash header, observed {line:?}"),
            ));
        };
        hashes.extend(values.split(',').map(str::trim));
    }

    let mut covered = Vec::new();
    loop {
        let (number, line) = lines.next().ok_or_else(|| cut_short("its text"))?;
        if line == BEGIN_SIGNATURE {
            break;
        }
        let plain = match line.strip_prefix("- ") {
            Some(plain) => plain,
            None if line.starts_with("-----BEGIN PGP SIGNED") => {
                return Err(Fault::new("more_than_one_block", format!("line {number} begins another block")));
            }
            None if line.starts_with('-') => {
                let detail = format!("line {number} begins with a dash that is not escaped");
                return Err(Fault::new("dash_escape", detail));
            }
            None => line,
        };
        covered.push(trim_line(plain));
    }

    let mut signature = format!("{BEGIN_SIGNATURE}\n");
    loop {
        let (_, line) = lines.next().ok_or_else(|| cut_short("its signature"))?;
        signature.push_str(line);
        signature.push('\n');
        if line == END_SIGNATURE {
            break;
        }
        if line.starts_with('-') {
            return Err(Fault::new("malformed", format!("unexpected line in the signature: {line:?}")));
        }
    }
    check_tail(lines)?;
    Ok(Frame { lines: covered, hashes, signature })
}

fn cut_short(part: &str) -> Fault {
    Fault::new("malformed", format!("the document ends within {part}"))
}

fn skip_to_begin<'a>(lines: &mut impl Iterator<Item = (usize, &'a str)>, text: &str) -> Result<(), Fault> {
    for (number, line) in lines {
        if line == BEGIN {
            return Ok(());
        }
        if !line.is_empty() {
            return Err(if text.contains(BEGIN) {
                Fault::new("text_outside_block", format!("line {number} stands before the signed block"))
            } else {
                Fault::new("not_clearsigned", format!("expected {BEGIN:?} as the first line"))
            });
        }
    }
    Err(Fault::new("not_clearsigned", "the document is empty"))
}

fn check_tail<'a>(lines: impl Iterator<Item = (usize, &'a str)>) -> Result<(), Fault> {
    let mut outside = None;
    for (number, line) in lines {
        if line.starts_with("-----BEGIN PGP SIGNED") {
            return Err(Fault::new("more_than_one_block", format!("line {number} begins another block")));
        }
        if !line.is_empty() && outside.is_none() {
            outside = Some(number);
        }
    }
    match outside {
        Some(number) => {
            Err(Fault::new("text_outside_block", format!("line {number} stands behind the signed block")))
        }
        None => Ok(()),
    }
}
