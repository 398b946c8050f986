//! The attributes of one start tag.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::text::attribute_value;

/// An attribute as it is written.
pub(super) struct Attribute<'a> {
    pub(super) prefix: &'a str,
    pub(super) local: &'a str,
    pub(super) raw: &'a str,
}

impl Attribute<'_> {
    /// True for the name as a profile writes it: `eId`, `xml:id`.
    pub(super) fn is(&self, name: &str) -> bool {
        match name.split_once(':') {
            Some((prefix, local)) => self.prefix == prefix && self.local == local,
            None => self.prefix.is_empty() && self.local == name,
        }
    }
}

/// True where the attributes hold this one, with this value.
pub(super) fn has(attributes: &[Attribute<'_>], name: Option<&str>, value: Option<&str>) -> bool {
    name.is_none_or(|name| {
        let attribute = attributes.iter().find(|a| a.is(name));
        attribute.is_some_and(|a| value.is_none_or(|value| attribute_value(a.raw) == value))
    })
}

/// The name that stands twice.
pub(super) fn repeated(attributes: &[Attribute<'_>]) -> Option<String> {
    let name = |a: &Attribute<'_>| qualified(a.prefix, a.local);
    if attributes.len() <= 8 {
        let same = |a: &Attribute<'_>, b: &Attribute<'_>| (a.prefix, a.local) == (b.prefix, b.local);
        let mut all = attributes.iter().enumerate();
        return all.find(|(i, a)| attributes.iter().take(*i).any(|b| same(a, b))).map(|(_, a)| name(a));
    }
    let mut sorted: Vec<_> = attributes.iter().map(|a| (a.prefix, a.local)).collect();
    sorted.sort_unstable();
    let twice = sorted.iter().zip(sorted.iter().skip(1)).find(|(a, b)| a == b);
    twice.map(|((prefix, local), _)| qualified(prefix, local))
}

/// A name as it is written.
pub(super) fn qualified(prefix: &str, local: &str) -> String {
    if prefix.is_empty() { local.into() } else { format!("{prefix}:{local}") }
}
