//! The tokens of a piece of SQL or PL/pgSQL, with where they stand. Knows no grammar.

/// What a token is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A keyword or a name, quoted or not.
    Word,
    /// A string, in quotes or in dollars.
    Text,
    /// A number or a numbered parameter.
    Number,
    /// An operator, a dot or a colon.
    Sign,
    /// `(` or `[`.
    Open,
    /// `)` or `]`.
    Close,
    /// `,`
    Comma,
    /// `;`
    Semicolon,
}

/// A token.
#[derive(Debug, Clone, Copy)]
pub struct Token<'a> {
    /// What it is.
    pub kind: Kind,
    /// As it is written.
    pub text: &'a str,
    /// Its first byte.
    pub at: usize,
}

impl Token<'_> {
    /// Whether it is this keyword, in whatever case.
    #[must_use]
    pub fn is(&self, word: &str) -> bool {
        self.kind == Kind::Word && self.text.eq_ignore_ascii_case(word)
    }

    /// Whether it is one of these keywords.
    #[must_use]
    pub fn is_any(&self, words: &[&str]) -> bool {
        words.iter().any(|word| self.is(word))
    }

    /// The byte after its last.
    #[must_use]
    pub fn end(&self) -> usize {
        self.at + self.text.len()
    }
}

const SIGNS: &str = "+-*/<>=~!@#%^&|?:.";

/// The tokens of a text; comments and white space are left out.
#[must_use]
pub fn tokens(text: &str) -> Vec<Token<'_>> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(first) = text[at..].chars().next() {
        let rest = &text[at..];
        let word = |c: char| c.is_alphanumeric() || c == '_' || c == '$';
        let (kind, length) = if first.is_whitespace() {
            (None, first.len_utf8())
        } else if rest.starts_with("--") {
            (None, rest.find('\n').unwrap_or(rest.len()))
        } else if rest.starts_with("/*") {
            (None, rest.find("*/").map_or(rest.len(), |n| n + 2))
        } else if first == '\'' {
            (Some(Kind::Text), quoted(rest, '\'', false))
        } else if (rest.starts_with("E'") || rest.starts_with("e'")) && !after_word(text, at) {
            (Some(Kind::Text), 1 + quoted(&rest[1..], '\'', true))
        } else if first == '"' {
            (Some(Kind::Word), quoted(rest, '"', false))
        } else if first == '$' {
            match dollars(rest) {
                Some(length) => (Some(Kind::Text), length),
                None => (Some(Kind::Number), 1 + rest[1..].find(|c: char| !c.is_ascii_digit()).unwrap_or(0)),
            }
        } else if first.is_ascii_digit() {
            (Some(Kind::Number), rest.find(|c: char| !word(c)).unwrap_or(rest.len()))
        } else if word(first) {
            (Some(Kind::Word), rest.find(|c: char| !word(c)).unwrap_or(rest.len()))
        } else {
            match first {
                '(' | '[' => (Some(Kind::Open), 1),
                ')' | ']' => (Some(Kind::Close), 1),
                ',' => (Some(Kind::Comma), 1),
                ';' => (Some(Kind::Semicolon), 1),
                c if SIGNS.contains(c) => {
                    let end = rest
                        .char_indices()
                        .find(|(n, c)| !SIGNS.contains(*c) || rest[*n..].starts_with("--"));
                    (Some(Kind::Sign), end.map_or(rest.len(), |(n, _)| n.max(1)))
                }
                c => (Some(Kind::Sign), c.len_utf8()),
            }
        };
        if let Some(kind) = kind {
            found.push(Token { kind, text: &rest[..length], at });
        }
        at += length;
    }
    found
}

fn after_word(text: &str, at: usize) -> bool {
    text[..at].chars().next_back().is_some_and(|c| c.is_alphanumeric() || c == '_')
}

/// The length of a quoted piece with its quotes; a doubled quote stands for itself.
fn quoted(text: &str, quote: char, escapes: bool) -> usize {
    let mut inside = text.char_indices().skip(1).peekable();
    while let Some((n, c)) = inside.next() {
        if escapes && c == '\\' {
            inside.next();
        } else if c == quote {
            if inside.peek().is_some_and(|(_, next)| *next == quote) {
                inside.next();
            } else {
                return n + 1;
            }
        }
    }
    text.len()
}

/// The length of `$tag$ … $tag$`, if one begins here.
fn dollars(text: &str) -> Option<usize> {
    let tag = &text[..text[1..].find('$')? + 2];
    let is_tag = tag[1..tag.len() - 1]
        .chars()
        .enumerate()
        .all(|(n, c)| c == '_' || c.is_alphabetic() || n > 0 && c.is_ascii_digit());
    is_tag.then_some(())?;
    text[tag.len()..].find(tag).map(|n| n + 2 * tag.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_comments_and_signs_are_told_apart() {
        let text = "IF a<>'it''s -- no' AND b::text = $q$;$q$ -- ; gone\n OR E'\\';' || \"Is\" >= $1 THEN /* ; */ x[1] := 2;";
        let seen: Vec<&str> = tokens(text).iter().map(|t| t.text).collect();
        let expected = [
            "IF",
            "a",
            "<>",
            "'it''s -- no'",
            "AND",
            "b",
            "::",
            "text",
            "=",
            "$q$;$q$",
            "OR",
            "E'\\';'",
            "||",
            "\"Is\"",
            ">=",
            "$1",
            "THEN",
            "x",
            "[",
            "1",
            "]",
            ":=",
            "2",
            ";",
        ];
        assert_eq!(seen, expected);
        for token in tokens(text) {
            assert_eq!(&text[token.at..token.end()], token.text);
        }
    }
}
