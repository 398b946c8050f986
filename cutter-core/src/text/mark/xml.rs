//! The XML marker: elements that the profile names are the units of the cut.
//!
//! A unit starts at the `<` of its element and ends where the next one starts, so white
//! space, closing tags and what follows a last child belong to the unit before them; what
//! stands before the first unit is `front`. The document is read once, token by token:
//! entities are never expanded, nothing is fetched, and depth is bounded.

use alloc::borrow::Cow;
use alloc::format;
use alloc::string::String;

use xmlparser::{ElementEnd, Token, Tokenizer};

use super::{MarkContext, MarkError, Marked, Marker, Region, check_text, region_text};

mod attribute;
mod name;
mod number;
mod read;
mod text;

#[cfg(test)]
mod tests;

/// The most elements inside each other. Laws nest some twenty deep.
pub const MAX_XML_DEPTH: usize = 256;

/// Cuts Akoma Ntoso, USLM, Formex and whatever else a profile describes.
#[derive(Debug, Clone, Copy, Default)]
pub struct XmlMarker;

impl Marker for XmlMarker {
    fn mark(&self, source: &[u8], region: Region, context: &MarkContext<'_>) -> Result<Marked, MarkError> {
        let whole = check_text(source, context.limits)?;
        let text = region_text(whole, region)?;
        let Some(rules) = &context.profile.xml else {
            return Err(MarkError::Xml {
                line: 1,
                expected: "a profile with rules for XML".into(),
                observed: format!("the profile {}, which has none", context.profile.name),
            });
        };
        let read = read::read(source, text, region, rules, context)?;
        name::assemble(source, region, context, rules, read)
    }

    fn identity(&self) -> String {
        "xml/1".into()
    }
}

/// The namespace (empty for none) and local name of the root element, where the text
/// begins as XML does; reads no further than the root's start tag.
#[must_use]
pub fn xml_root(source: &[u8]) -> Option<(Cow<'_, str>, &str)> {
    let start = source.strip_prefix("\u{feff}".as_bytes()).unwrap_or(source).trim_ascii_start();
    if !start.starts_with(b"<") {
        return None;
    }
    let text = match core::str::from_utf8(source) {
        Ok(text) => text,
        Err(error) => core::str::from_utf8(source.get(..error.valid_up_to())?).ok()?,
    };
    let mut root = None;
    let mut namespace = Cow::Borrowed("");
    for token in Tokenizer::from(text) {
        match token.ok()? {
            Token::ElementStart { prefix, local, .. } => root = Some((prefix.as_str(), local.as_str())),
            Token::Attribute { prefix, local, value, .. }
                if declares(root?.0, prefix.as_str(), local.as_str()) =>
            {
                namespace = text::attribute_value(value.as_str());
            }
            Token::ElementEnd { end: ElementEnd::Open | ElementEnd::Empty, .. } => {
                return root.map(|(_, local)| (namespace, local));
            }
            _ => {}
        }
    }
    None
}

/// True where the attribute `prefix:local` binds the element prefix `element`.
fn declares(element: &str, prefix: &str, local: &str) -> bool {
    if element.is_empty() {
        prefix.is_empty() && local == "xmlns"
    } else {
        prefix == "xmlns" && local == element
    }
}
