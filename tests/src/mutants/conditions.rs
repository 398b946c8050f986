//! The conditions of a piece of SQL or PL/pgSQL, and what each becomes when it is taken out or
//! turned. Knows no database: text in, changes of the text out.

use std::ops::Range;

use super::lexer::{Kind, Token, tokens};

/// What kind of change it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// One of the conditions that stand together is taken out.
    Condition,
    /// A comparison is turned round, or takes in its bound.
    Comparison,
    /// A refusal is taken out.
    Refusal,
    /// A call of another function, for what it refuses or does, is taken out.
    Call,
    /// A whole number is one more.
    Number,
    /// A row's or a number's lock is taken out.
    Lock,
    /// A trigger is taken off its table, or one of its events.
    Trigger,
    /// A CHECK is taken off, or one of its conditions.
    Check,
    /// A unique or a foreign key is taken off.
    Key,
    /// A right is given that nobody has.
    Grant,
    /// A function runs as its caller, or with its caller's search path.
    Definer,
}

impl Class {
    /// All of them.
    pub const ALL: [Self; 11] = [
        Self::Condition,
        Self::Comparison,
        Self::Refusal,
        Self::Call,
        Self::Number,
        Self::Trigger,
        Self::Check,
        Self::Key,
        Self::Lock,
        Self::Grant,
        Self::Definer,
    ];

    /// Its name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Condition => "condition",
            Self::Comparison => "comparison",
            Self::Refusal => "refusal",
            Self::Call => "call",
            Self::Number => "number",
            Self::Lock => "lock",
            Self::Trigger => "trigger",
            Self::Check => "check",
            Self::Key => "key",
            Self::Grant => "grant",
            Self::Definer => "definer",
        }
    }

    /// The class of this name.
    #[must_use]
    pub fn of(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|class| class.as_str() == name)
    }
}

/// A change of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// Which bytes go.
    pub bytes: Range<usize>,
    /// What comes in their place.
    pub with: String,
    /// What kind it is.
    pub class: Class,
}

impl Change {
    /// The text with the change made.
    #[must_use]
    pub fn made_in(&self, text: &str) -> String {
        format!("{}{}{}", &text[..self.bytes.start], self.with, &text[self.bytes.end..])
    }

    /// The change in words, on one line.
    #[must_use]
    pub fn words(&self, text: &str) -> String {
        let line = |text: &str| {
            let words: Vec<&str> = tokens(text).iter().map(|token| token.text).collect();
            words.join(" ").replace(['\n', '\t'], " ")
        };
        format!("{} => {}", line(&text[self.bytes.clone()]), line(&self.with))
    }
}

/// Where an expression stands: what its being taken out means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// WHERE, ON, HAVING, CHECK: nothing is asked any more.
    Filter,
    /// IF and WHEN: what follows is not done any more.
    Branch,
    /// An IF that only refuses: its refusal is a change of its own.
    Refusing,
    /// An assigned or returned value.
    Value,
}

/// All changes of the body of a function, or of a view.
#[must_use]
pub fn of_body(text: &str) -> Vec<Change> {
    let all = tokens(text);
    let mut finder = Finder { text, all: &all, changes: Vec::new() };
    finder.scan();
    finder.changes
}

/// All changes of one boolean expression: a CHECK's, a trigger's WHEN, an index's WHERE.
#[must_use]
pub fn of_expression(text: &str) -> Vec<Change> {
    let all = tokens(text);
    let mut finder = Finder { text, all: &all, changes: Vec::new() };
    finder.expression(0..all.len(), Place::Filter);
    finder.scan();
    finder.changes
}

/// What an END ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Block {
    Body { handles: bool },
    If,
    Loop,
    SearchedCase,
    SimpleCase,
}

const AFTER_A_FILTER: &[&str] = &[
    "GROUP",
    "ORDER",
    "LIMIT",
    "OFFSET",
    "FETCH",
    "RETURNING",
    "UNION",
    "EXCEPT",
    "INTERSECT",
    "HAVING",
    "WINDOW",
    "LOOP",
    "INTO",
    "ON",
    "WHERE",
    "JOIN",
    "LEFT",
    "RIGHT",
    "INNER",
    "CROSS",
    "FULL",
    "FOR",
    "THEN",
    "ELSE",
    "END",
    "WHEN",
    "SET",
];

struct Finder<'t> {
    text: &'t str,
    all: &'t [Token<'t>],
    changes: Vec<Change>,
}

impl Finder<'_> {
    fn scan(&mut self) {
        let mut open: Vec<Block> = Vec::new();
        let mut n = 0;
        while n < self.all.len() {
            let token = self.all[n];
            let before = n.checked_sub(1).map(|n| self.all[n]);
            let begins = before
                .is_none_or(|b| b.kind == Kind::Semicolon || b.is_any(&["THEN", "ELSE", "LOOP", "BEGIN"]));
            let next = self.all.get(n + 1).copied();
            if token.is("BEGIN") {
                open.push(Block::Body { handles: false });
            } else if token.is("EXCEPTION") && begins {
                if let Some(Block::Body { handles }) = open.last_mut() {
                    *handles = true;
                }
            } else if token.is("CASE") && !before.is_some_and(|b| b.is("END")) {
                let searched = next.is_some_and(|next| next.is("WHEN"));
                open.push(if searched { Block::SearchedCase } else { Block::SimpleCase });
            } else if token.is("LOOP") && !before.is_some_and(|b| b.is("END")) {
                open.push(Block::Loop);
            } else if token.is("END") {
                open.pop();
                if next.is_some_and(|next| next.is_any(&["IF", "LOOP", "CASE"])) {
                    n += 1;
                }
            } else if token.is("IF") && begins || token.is_any(&["ELSIF", "ELSEIF"]) {
                if token.is("IF") {
                    open.push(Block::If);
                }
                let end = self.until(n + 1, &["THEN"]);
                let refuses = self.all.get(end + 1).is_some_and(|t| t.is("RAISE"));
                self.expression(n + 1..end, if refuses { Place::Refusing } else { Place::Branch });
            } else if token.is("WHEN") {
                let leaves = before.is_some_and(|b| b.is_any(&["EXIT", "CONTINUE"]));
                if leaves || open.last() == Some(&Block::SearchedCase) {
                    let end = self.until(n + 1, &["THEN"]);
                    self.expression(n + 1..end, Place::Branch);
                }
            } else if token.is_any(&["WHERE", "HAVING"])
                || token.is("ON") && next.is_some_and(|next| !next.is("CONFLICT"))
            {
                let end = self.until(n + 1, AFTER_A_FILTER);
                self.expression(n + 1..end, Place::Filter);
            } else if token.text == ":="
                || token.is("RETURN") && next.is_some_and(|t| !t.is_any(&["NEXT", "QUERY"]))
            {
                let end = self.until(n + 1, &[]);
                self.expression(n + 1..end, Place::Value);
            } else if token.is("SELECT") && n == 0 {
                let end = self.until(n + 1, &["FROM", "WHERE", "INTO"]);
                self.expression(n + 1..end, Place::Value);
            }
            self.statements(n, begins);
            n += 1;
        }
    }

    /// Statements that go as a whole: refusals, calls, locks.
    fn statements(&mut self, n: usize, begins: bool) {
        let token = self.all[n];
        let Some(next) = self.all.get(n + 1) else { return };
        let whole = |end: usize| token.at..self.all.get(end).map_or(token.end(), |t| t.at);
        if token.is("RAISE") && begins && !next.is_any(&["NOTICE", "WARNING", "LOG", "INFO", "DEBUG"]) {
            let bytes = whole(self.until(n, &[]));
            self.changes.push(Change { bytes, with: "NULL".to_owned(), class: Class::Refusal });
        } else if token.is("PERFORM") && begins && next.kind == Kind::Word && !next.is("FROM") {
            let locks = next.text.contains("advisory")
                || self.all.get(n + 3).is_some_and(|t| t.text.contains("advisory"));
            let bytes = whole(self.until(n, &[]));
            let class = if locks { Class::Lock } else { Class::Call };
            self.changes.push(Change { bytes, with: "NULL".to_owned(), class });
        } else if token.is("FOR") && next.is_any(&["UPDATE", "SHARE", "NO", "KEY"]) {
            let mut end = n + 1;
            while self.all.get(end).is_some_and(|t| {
                t.is_any(&["UPDATE", "SHARE", "NO", "KEY", "OF", "SKIP", "LOCKED", "NOWAIT"])
                    || self.all[end - 1].is("OF")
            }) {
                end += 1;
            }
            let bytes = token.at..self.all[end - 1].end();
            self.changes.push(Change { bytes, with: String::new(), class: Class::Lock });
        }
    }

    /// The first token from here that ends an expression: one of the words, a semicolon, or a
    /// bracket that was opened before, neither inside brackets nor inside a CASE.
    fn until(&self, from: usize, words: &[&str]) -> usize {
        let (mut depth, mut cases) = (0_usize, 0_usize);
        for (n, token) in self.all.iter().enumerate().skip(from) {
            match token.kind {
                Kind::Open => depth += 1,
                Kind::Close if depth == 0 => return n,
                Kind::Close => depth -= 1,
                Kind::Semicolon if depth == 0 => return n,
                _ if token.is("CASE") => cases += 1,
                _ if token.is("END") && cases > 0 => cases -= 1,
                // a comma of a FROM or of a select list, never one of an expression
                Kind::Comma if depth == 0 && cases == 0 && !words.is_empty() => return n,
                // DISTINCT FROM is no FROM
                _ if token.is("FROM") && n > 0 && self.all[n - 1].is("DISTINCT") => {}
                _ if depth == 0 && cases == 0 && token.is_any(words) => return n,
                _ => {}
            }
        }
        self.all.len()
    }

    fn expression(&mut self, range: Range<usize>, place: Place) {
        if range.is_empty() {
            return;
        }
        // what is several conditions goes one by one, where one gone is less than all gone
        let inner = self.without_brackets(range.clone());
        let is_or = self.parts(&inner, "OR").len() > 1;
        let is_whole = !is_or && self.parts(&inner, "AND").len() == 1;
        let is_query = self.all[inner.start].is_any(&["SELECT", "WITH", "VALUES"]);
        match place {
            Place::Filter if is_or || is_whole => self.take_out(&range, "TRUE"),
            Place::Branch if !is_or => self.take_out(&range, "FALSE"),
            Place::Value if is_whole && self.all[range.start].is("EXISTS") => self.take_out(&range, "FALSE"),
            _ => {}
        }
        if !is_query {
            self.operands(range);
        }
    }

    /// The operands of AND and OR, each taken out, and their comparisons, each turned.
    fn operands(&mut self, range: Range<usize>) {
        let range = self.without_brackets(range);
        if range.is_empty() || self.all[range.start].is_any(&["SELECT", "WITH", "VALUES"]) {
            return;
        }
        for (word, with) in [("OR", "FALSE"), ("AND", "TRUE")] {
            let parts = self.parts(&range, word);
            if parts.len() > 1 {
                for part in parts {
                    self.take_out(&part, with);
                    self.operands(part);
                }
                return;
            }
        }
        if self.all[range.start].is("NOT") {
            return self.operands(range.start + 1..range.end);
        }
        self.turn(&range);
    }

    fn take_out(&mut self, range: &Range<usize>, with: &str) {
        let (Some(first), Some(last)) = (self.all.get(range.start), self.all.get(range.end.wrapping_sub(1)))
        else {
            return;
        };
        if range.len() == 1 && first.is_any(&["TRUE", "FALSE"]) {
            return;
        }
        let change = Change { bytes: first.at..last.end(), with: with.to_owned(), class: Class::Condition };
        if !self.changes.iter().any(|known| known.bytes == change.bytes && known.with == change.with) {
            self.changes.push(change);
        }
    }

    /// The parts between a word at this level; the AND of a BETWEEN is none.
    fn parts(&self, range: &Range<usize>, word: &str) -> Vec<Range<usize>> {
        let (mut parts, mut start, mut depth, mut between) = (Vec::new(), range.start, 0_usize, 0_usize);
        for n in range.clone() {
            let token = &self.all[n];
            match token.kind {
                Kind::Open => depth += 1,
                Kind::Close => depth = depth.saturating_sub(1),
                _ if token.is("CASE") => depth += 1,
                _ if token.is("END") => depth = depth.saturating_sub(1),
                _ if depth > 0 => {}
                _ if token.is("BETWEEN") => between += 1,
                _ if token.is("AND") && between > 0 => between -= 1,
                _ if token.is(word) => {
                    parts.push(start..n);
                    start = n + 1;
                }
                _ => {}
            }
        }
        parts.push(start..range.end);
        parts
    }

    fn without_brackets(&self, mut range: Range<usize>) -> Range<usize> {
        while range.len() >= 2
            && self.all[range.start].text == "("
            && self.closes(range.start) == range.end - 1
        {
            range = range.start + 1..range.end - 1;
        }
        range
    }

    fn closes(&self, open: usize) -> usize {
        let mut depth = 0_usize;
        for (n, token) in self.all.iter().enumerate().skip(open) {
            match token.kind {
                Kind::Open => depth += 1,
                Kind::Close if depth == 1 => return n,
                Kind::Close => depth -= 1,
                _ => {}
            }
        }
        self.all.len()
    }

    /// The first comparison at this level, turned.
    fn turn(&mut self, range: &Range<usize>) {
        let mut depth = 0_usize;
        for n in range.clone() {
            let token = self.all[n];
            match token.kind {
                Kind::Open => depth += 1,
                Kind::Close => depth = depth.saturating_sub(1),
                _ if token.is("CASE") => depth += 1,
                _ if token.is("END") => depth = depth.saturating_sub(1),
                _ => {}
            }
            if depth > 0 || token.kind == Kind::Close {
                continue;
            }
            let next = self.all.get(n + 1).filter(|_| n + 1 < range.end);
            let (bytes, with) = match token.text.to_ascii_uppercase().as_str() {
                // none of them, which is not the same as another than one of them
                "=" if next.is_some_and(|t| t.is("ANY")) => {
                    (token.at..next.map_or(token.end(), Token::end), "<> ALL")
                }
                "=" => (token.at..token.end(), "<>"),
                "<>" | "!=" => (token.at..token.end(), "="),
                "<" => (token.at..token.end(), "<="),
                "<=" => (token.at..token.end(), "<"),
                ">" => (token.at..token.end(), ">="),
                ">=" => (token.at..token.end(), ">"),
                "~" => (token.at..token.end(), "!~"),
                "!~" => (token.at..token.end(), "~"),
                "IS" => match next {
                    Some(not) if not.is("NOT") => (not.at..not.end(), ""),
                    _ => (token.end()..token.end(), " NOT"),
                },
                "NOT" if next.is_some_and(|t| t.is_any(&["IN", "LIKE", "BETWEEN"])) => {
                    (token.at..token.end(), "")
                }
                "IN" | "LIKE" | "BETWEEN" => (token.at..token.at, "NOT "),
                _ => continue,
            };
            // with its operands, so that the words of the change say which comparison it is
            let whole = self.all[range.start].at..self.all[range.end - 1].end();
            let (before, after) = (&self.text[whole.start..bytes.start], &self.text[bytes.end..whole.end]);
            let with = format!("{before}{with}{after}");
            self.changes.push(Change { bytes: whole, with, class: Class::Comparison });
            return;
        }
    }
}

#[cfg(test)]
#[path = "conditions_tests.rs"]
mod tests;
