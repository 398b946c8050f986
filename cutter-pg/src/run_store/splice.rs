//! How a revision is stored beside the one before it: most of a sidecar stays as it was from save to save.
//!
//! A splice is a list of places, each (from, length, literal): copy `length` bytes of the text before from
//! `from` on, then take the next `literal` bytes of the row's own. `cutter_run.fn_splice` puts the text
//! together again, byte for byte; nothing else reads places.

use std::fmt;
use std::ops::Range;

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

/// Every so many revisions one is whole, so that what a reader puts together stays short.
pub(super) const WHOLE_EVERY: u64 = 32;

/// What a place costs in a row. A shorter copy is cheaper as it is.
const PLACE_BYTES: usize = 12;

/// More places than a save makes; so many more would not fit into a row beside their bytes.
const MOST_PLACES: usize = 256;

/// So many bytes are compared at once.
const BLOCK: usize = 32;

/// A shorter object is not taken apart.
const OBJECT_BYTES: usize = 256;

/// Objects in objects are taken apart so deep, the outermost counted.
const LEVELS: usize = 3;

/// A revision's text, and where the entries of its outermost object stand in it.
pub(super) struct Text {
    pub(super) bytes: Vec<u8>,
    entries: Vec<Entry>,
}

/// From the end of the entry before: bracket or comma, key, colon; then the value.
struct Entry {
    all: Range<usize>,
    value: usize,
    /// Those of the value, if it is an object and worth it.
    inner: Vec<Entry>,
}

/// What a row holds of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Stored {
    /// The text, or what is new in it.
    pub(super) body: Vec<u8>,
    /// `None` if `body` is the whole text.
    pub(super) places: Option<Vec<i32>>,
}

impl Text {
    /// Any JSON document; one that is no object has no entries. What stands in `before`, too, is not read
    /// again.
    ///
    /// # Errors
    /// What is no JSON.
    pub(super) fn of(bytes: Vec<u8>, before: Option<&Self>) -> serde_json::Result<Self> {
        // Not everything that passes by below looks at this.
        std::str::from_utf8(&bytes).map_err(serde::de::Error::custom)?;
        if bytes.first() != Some(&b'{') {
            serde_json::from_slice::<IgnoredAny>(&bytes)?;
            return Ok(Self { bytes, entries: Vec::new() });
        }
        let nothing = Self { bytes: Vec::new(), entries: Vec::new() };
        let before = before.unwrap_or(&nothing);
        let read = Reading { bytes: &bytes, before }.object(0, &before.entries, 1);
        let entries = match read.filter(|(_, end)| *end == bytes.len()) {
            Some((entries, _)) => entries,
            None => entries(&bytes)?,
        };
        Ok(Self { bytes, entries })
    }

    /// Beside `before`, or whole where that is hardly longer.
    pub(super) fn beside(&self, before: &Self) -> Stored {
        let (body, places) = (Vec::with_capacity(self.bytes.len() / 4), Vec::with_capacity(64));
        let mut splice = Splice { before: &before.bytes, body, places };
        self.object(&mut splice, before, &before.entries, &self.entries, self.bytes.len());
        splice.stored(&self.bytes).unwrap_or_else(|| self.whole())
    }

    pub(super) fn whole(&self) -> Stored {
        Stored { body: self.bytes.clone(), places: None }
    }

    /// The entries of an object beside those of the one that it was, and what is left of it up to `end`.
    fn object(&self, splice: &mut Splice<'_>, before: &Self, old: &[Entry], new: &[Entry], end: usize) {
        for entry in new {
            let key = self.key(entry);
            match old.iter().find(|old| before.key(old) == key) {
                Some(old) => self.entry(splice, before, old, entry),
                None => splice.literal(self.part(&entry.all)),
            }
        }
        let start = new.last().map_or(0, |entry| entry.all.end);
        splice.literal(self.part(&(start..end)));
    }

    fn entry(&self, splice: &mut Splice<'_>, before: &Self, old: &Entry, new: &Entry) {
        if before.part(&old.all) == self.part(&new.all) {
            return splice.copy(old.all.clone());
        }
        let (was, is) = (old.value..old.all.end, new.value..new.all.end);
        let (head, tail) = same_ends(before.part(&was), self.part(&is));
        // What changed in one place needs no taking apart.
        let is_spread = is.len() - head - tail > OBJECT_BYTES;
        if is_spread && !old.inner.is_empty() && !new.inner.is_empty() {
            splice.changed(old.all.start..old.value, self.part(&(new.all.start..new.value)));
            self.object(splice, before, &old.inner, &new.inner, is.end);
        } else {
            splice.changed(old.all.clone(), self.part(&new.all));
        }
    }

    /// As written, quotes and colon included: only where it is the same text is it the same key.
    fn key(&self, entry: &Entry) -> &[u8] {
        self.part(&(entry.all.start + 1..entry.value))
    }

    fn part(&self, place: &Range<usize>) -> &[u8] {
        self.bytes.get(place.clone()).unwrap_or_default()
    }
}

/// A text that is read beside the one before it.
struct Reading<'t> {
    bytes: &'t [u8],
    before: &'t Text,
}

impl Reading<'_> {
    /// The entries of the object that begins at `at`, and its end. What stood in an object before, whose
    /// entries are `known`, is an entry here, too, where it stands byte for byte, behind its comma and
    /// before one. `None` for whoever shall read it all: blanks between the entries, escapes in keys, no entry,
    /// or an error.
    fn object(&self, mut at: usize, known: &[Entry], level: usize) -> Option<(Vec<Entry>, usize)> {
        let start = at;
        let mut entries: Vec<Entry> = Vec::with_capacity(known.len() + 2);
        let mut old = known.iter().peekable();
        while self.bytes.get(at) == Some(if entries.is_empty() { &b'{' } else { &b',' }) {
            let rest = self.bytes.get(at + 1..)?;
            // Keys stand in order, so what is passed by does not come again.
            let same = old.peek().copied().filter(|entry| {
                let was = self.before.part(&(entry.all.start + 1..entry.all.end));
                // One behind a blank begins with its comma: it is no key and value.
                was.starts_with(b"\"")
                    && rest.starts_with(was)
                    && matches!(rest.get(was.len()), Some(b',' | b'}'))
            });
            let entry = match same {
                Some(entry) => {
                    old.next();
                    entry.moved(at)
                }
                None => {
                    let key = leading(rest)?;
                    if !rest.starts_with(b"\"") || rest.get(key) != Some(&b':') {
                        return None;
                    }
                    let named = rest.get(..=key)?;
                    // What an escape stands for is not looked at here.
                    if named.contains(&b'\\') {
                        return None;
                    }
                    // The one that changed, or what stands where others stood.
                    let mut was: Option<&Entry> = None;
                    while let Some(entry) = old.next_if(|entry| self.before.key(entry) <= named) {
                        was = Some(entry).filter(|entry| self.before.key(entry) == named);
                    }
                    let value = at + 1 + named.len();
                    let known = was.map_or(&[][..], |entry| &entry.inner);
                    let (inner, end) = self.value(value, known, level)?;
                    Entry { all: at..end, value, inner }
                }
            };
            at = entry.all.end;
            entries.push(entry);
        }
        (self.bytes.get(at) == Some(&b'}') && at > start).then_some((entries, at + 1))
    }

    fn value(&self, at: usize, known: &[Entry], level: usize) -> Option<(Vec<Entry>, usize)> {
        let rest = self.bytes.get(at..)?;
        if level < LEVELS && rest.starts_with(b"{\"") {
            let (entries, end) = self.object(at, known, level + 1)?;
            let is_worth_it = end - at >= OBJECT_BYTES;
            return Some((if is_worth_it { entries } else { Vec::new() }, end));
        }
        Some((Vec::new(), at + leading(rest)?))
    }
}

impl Entry {
    /// The same, at another place.
    fn moved(&self, to: usize) -> Self {
        let place = |was: usize, base: usize, to: usize| was - base + to;
        let base = self.all.start;
        Self {
            all: to..place(self.all.end, base, to),
            value: place(self.value, base, to),
            inner: self.inner.iter().map(|entry| entry.moved(place(entry.all.start, base, to))).collect(),
        }
    }
}

/// How long the JSON value is with which this begins.
fn leading(bytes: &[u8]) -> Option<usize> {
    let mut values = serde_json::Deserializer::from_slice(bytes).into_iter::<IgnoredAny>();
    values.next()?.ok()?;
    Some(values.byte_offset())
}

/// The entries of an object, however it is written.
fn entries(bytes: &[u8]) -> serde_json::Result<Vec<Entry>> {
    let values: Values<'_> = serde_json::from_slice(bytes)?;
    let origin = bytes.as_ptr().addr();
    let mut entries: Vec<Entry> = Vec::with_capacity(values.0.len());
    for value in values.0 {
        let start = entries.last().map_or(0, |entry| entry.all.end);
        let at = value.get().as_ptr().addr().saturating_sub(origin);
        entries.push(Entry { all: start..at + value.get().len(), value: at, inner: Vec::new() });
    }
    Ok(entries)
}

/// How many bytes are the same at the start, and how many of the rest at the end.
fn same_ends(was: &[u8], is: &[u8]) -> (usize, usize) {
    let blocks = was.chunks_exact(BLOCK).zip(is.chunks_exact(BLOCK)).take_while(|(a, b)| a == b).count();
    let start = blocks * BLOCK;
    let (was, is) = (was.get(start..).unwrap_or_default(), is.get(start..).unwrap_or_default());
    let bytes = was.iter().zip(is).take_while(|(a, b)| a == b).count();
    let (was, is) = (was.get(bytes..).unwrap_or_default(), is.get(bytes..).unwrap_or_default());
    let blocks = was.rchunks_exact(BLOCK).zip(is.rchunks_exact(BLOCK)).take_while(|(a, b)| a == b).count();
    let end = blocks * BLOCK;
    let rest = |text: &'_ [u8]| text.len() - end;
    let (was, is) = (was.get(..rest(was)).unwrap_or_default(), is.get(..rest(is)).unwrap_or_default());
    let tail = was.iter().rev().zip(is.iter().rev()).take_while(|(a, b)| a == b).count();
    (start + bytes, end + tail)
}

/// A splice in the making.
struct Splice<'t> {
    before: &'t [u8],
    body: Vec<u8>,
    places: Vec<[usize; 3]>,
}

impl Splice<'_> {
    /// An entry that was there before: what is the same at its start and at its end is copied.
    fn changed(&mut self, old: Range<usize>, new: &[u8]) {
        let was = self.before.get(old.clone()).unwrap_or_default();
        let (head, tail) = same_ends(was, new);
        self.copy(old.start..old.start + head);
        self.literal(new.get(head..new.len() - tail).unwrap_or_default());
        self.copy(old.end - tail..old.end);
    }

    fn copy(&mut self, place: Range<usize>) {
        match self.places.last_mut() {
            Some([from, length, 0]) if *from + *length == place.start => *length += place.len(),
            _ if place.len() > PLACE_BYTES => self.places.push([place.start, place.len(), 0]),
            _ => {
                let before = self.before;
                self.literal(before.get(place).unwrap_or_default());
            }
        }
    }

    fn literal(&mut self, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        self.body.extend_from_slice(bytes);
        match self.places.last_mut() {
            Some([_, _, literal]) => *literal += bytes.len(),
            None => self.places.push([0, 0, bytes.len()]),
        }
    }

    /// `None` where it would save less than half, has too many places, or would not give the text back.
    fn stored(self, text: &[u8]) -> Option<Stored> {
        let mut places = Vec::with_capacity(self.places.len() * 3);
        for number in self.places.iter().flatten() {
            places.push(i32::try_from(*number).ok()?);
        }
        let is_worth_it = self.places.len() <= MOST_PLACES
            && self.body.len() + self.places.len() * PLACE_BYTES < text.len() / 2;
        (is_worth_it && spliced(self.before, &places, &self.body).as_deref() == Some(text))
            .then_some(Stored { body: self.body, places: Some(places) })
    }
}

/// What `cutter_run.fn_splice` gives. `None` where a place is not there.
fn spliced(before: &[u8], places: &[i32], body: &[u8]) -> Option<Vec<u8>> {
    let mut text = Vec::with_capacity(before.len() + body.len());
    let mut rest = body;
    let (places, []) = places.as_chunks::<3>() else { return None };
    for place in places {
        let [from, length, literal] = place.map(|number| usize::try_from(number).ok());
        text.extend_from_slice(before.get(from?..from?.checked_add(length?)?)?);
        let (taken, left) = rest.split_at_checked(literal?)?;
        text.extend_from_slice(taken);
        rest = left;
    }
    rest.is_empty().then_some(text)
}

/// The values of an object, as they stand in the text.
struct Values<'t>(Vec<&'t RawValue>);

impl<'de> Deserialize<'de> for Values<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Entries;
        impl<'de> Visitor<'de> for Entries {
            type Value = Values<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a JSON object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut values = Vec::new();
                while let Some((IgnoredAny, value)) = map.next_entry()? {
                    values.push(value);
                }
                Ok(Values(values))
            }
        }
        deserializer.deserialize_map(Entries)
    }
}

#[cfg(test)]
mod tests;
