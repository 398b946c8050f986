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

#[cfg(test)]
mod tests {
    use super::*;

    fn twice(more: usize, prefix: &str) -> Option<String> {
        let others: Vec<String> = (0..more).map(|i| format!("a{i}")).collect();
        let of = |(prefix, local)| Attribute { prefix, local, raw: "" };
        let own = [("", "id"), ("xml", "id"), (prefix, "id")];
        let all = others.iter().map(|local| ("", local.as_str())).chain(own).map(of);
        repeated(&all.collect::<Vec<_>>())
    }

    #[test]
    fn a_name_that_stands_twice_is_told_as_it_is_written() {
        for more in [0, 9] {
            assert_eq!(twice(more, "xml").as_deref(), Some("xml:id"));
            assert_eq!(twice(more, "").as_deref(), Some("id"));
            assert_eq!(twice(more, "x"), None);
        }
    }
}
