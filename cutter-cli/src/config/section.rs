//! One table of `cutter.toml`, read key by key. A key that nobody asked for is refused, and
//! no message ever shows a value: it could be a password in the wrong place.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use toml::{Table, Value};

use crate::failure::Failure;

/// A table and where it stands.
pub(super) struct Section<'f> {
    file: &'f Path,
    name: String,
    table: Table,
    known: BTreeSet<&'static str>,
}

impl<'f> Section<'f> {
    /// Reads a whole file's text.
    pub(super) fn parse(file: &'f Path, text: &str) -> Result<Self, Failure> {
        let table = text.parse::<Table>().map_err(|error| {
            let before = error.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
            let line = before.matches('\n').count() + 1;
            // The parser's own text would show the line, and with it what may be a secret.
            Failure::usage(format!("{}: line {line} is not valid TOML", file.display()))
                .next("cutter init --help")
        })?;
        Ok(Self { file, name: String::new(), table, known: BTreeSet::new() })
    }

    fn key(&self, key: &str) -> String {
        if self.name.is_empty() { key.to_owned() } else { format!("{}.{key}", self.name) }
    }

    fn wrong(&self, key: &str, expected: &str, observed: &str) -> Failure {
        Failure::usage(format!("{}: key `{}` cannot be used", self.file.display(), self.key(key))).broken(
            format!("config.{}", self.key(key)),
            expected,
            observed,
        )
    }

    /// An error about a key's value, which is not shown.
    pub(super) fn refuse(&self, key: &str, expected: &str) -> Failure {
        self.wrong(key, expected, "another value (not shown)")
    }

    fn take(&mut self, key: &'static str) -> Option<Value> {
        self.known.insert(key);
        self.table.remove(key)
    }

    /// A string.
    pub(super) fn string(&mut self, key: &'static str) -> Result<Option<String>, Failure> {
        match self.take(key) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(other) => Err(self.wrong(key, "a string", other.type_str())),
        }
    }

    /// A path, relative to the file's folder.
    pub(super) fn path(&mut self, key: &'static str) -> Result<Option<PathBuf>, Failure> {
        let base = self.file.parent().unwrap_or(Path::new(""));
        Ok(self.string(key)?.map(|text| base.join(text)))
    }

    /// A whole number from 1.
    pub(super) fn number(&mut self, key: &'static str) -> Result<Option<u64>, Failure> {
        match self.take(key) {
            None => Ok(None),
            Some(Value::Integer(n)) => match u64::try_from(n) {
                Ok(n) if n > 0 => Ok(Some(n)),
                _ => Err(self.wrong(key, "a whole number from 1", &n.to_string())),
            },
            Some(other) => Err(self.wrong(key, "a whole number from 1", other.type_str())),
        }
    }

    /// `true` or `false`.
    pub(super) fn boolean(&mut self, key: &'static str) -> Result<Option<bool>, Failure> {
        match self.take(key) {
            None => Ok(None),
            Some(Value::Boolean(value)) => Ok(Some(value)),
            Some(other) => Err(self.wrong(key, "true or false", other.type_str())),
        }
    }

    /// A list of strings.
    pub(super) fn strings(&mut self, key: &'static str) -> Result<Option<Vec<String>>, Failure> {
        let items = match self.take(key) {
            None => return Ok(None),
            Some(Value::Array(items)) => items,
            Some(other) => return Err(self.wrong(key, "a list of strings", other.type_str())),
        };
        let text = |item: Value| match item {
            Value::String(text) => Ok(text),
            other => Err(self.wrong(key, "a list of strings", other.type_str())),
        };
        items.into_iter().map(text).collect::<Result<_, _>>().map(Some)
    }

    /// A table within.
    pub(super) fn section(&mut self, key: &'static str) -> Result<Option<Section<'f>>, Failure> {
        match self.take(key) {
            None => Ok(None),
            Some(Value::Table(table)) => {
                Ok(Some(Section { file: self.file, name: self.key(key), table, known: BTreeSet::new() }))
            }
            Some(other) => Err(self.wrong(key, "a table", other.type_str())),
        }
    }

    /// The tables within, by names that people choose.
    pub(super) fn named(mut self) -> Result<Vec<(String, Section<'f>)>, Failure> {
        let table = std::mem::take(&mut self.table);
        let inner = |(key, value): (String, Value)| match value {
            Value::Table(table) => {
                let name = self.key(&key);
                Ok((key, Section { file: self.file, name, table, known: BTreeSet::new() }))
            }
            other => Err(self.wrong(&key, "a table", other.type_str())),
        };
        table.into_iter().map(inner).collect()
    }

    /// The numbers within, by name, each name one of `allowed`.
    pub(super) fn numbers(mut self, allowed: &[&'static str]) -> Result<Vec<(&'static str, u64)>, Failure> {
        let mut out = Vec::new();
        for key in allowed {
            if let Some(n) = self.number(key)? {
                out.push((*key, n));
            }
        }
        self.finish()?;
        Ok(out)
    }

    /// Refuses what is left.
    pub(super) fn finish(self) -> Result<(), Failure> {
        let Some(unknown) = self.table.keys().next() else { return Ok(()) };
        let known = self.known.iter().copied().collect::<Vec<_>>().join(", ");
        Err(Failure::usage(format!("{}: unknown key `{}`", self.file.display(), self.key(unknown))).broken(
            "config.known_keys",
            format!("one of: {known}"),
            self.key(unknown),
        ))
    }
}
