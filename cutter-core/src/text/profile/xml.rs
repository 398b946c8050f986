//! What a profile says about an XML format: which elements are units, where their numbers
//! and headings stand, and which attributes name them.

use alloc::string::String;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use super::{ProfileError, is_default};
use crate::text::address::unit_kind_of;

/// How one XML format is cut. Elements are named by their local names and count only in
/// the namespace of the root element.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct XmlRules {
    /// The root elements that the profile is for.
    pub roots: Vec<XmlRoot>,
    /// Elements that hold no unit, and whose text belongs to no number and no heading:
    /// metadata, tables of contents, notes, and the text of other laws that this one quotes.
    pub skip: Vec<String>,
    /// The elements that are units, the largest first; the first rule that fits an element
    /// wins. The root element is the document, never a unit.
    pub units: Vec<XmlUnit>,
    /// The address kind at which the cut ends: rules after the last rule of this kind are
    /// not used, and what they name stays in the unit around it. `null` cuts all.
    pub deepest: Option<String>,
    /// Where a unit's number stands; the first place that holds one wins.
    pub number: Vec<XmlSource>,
    /// Where a unit's heading stands; the first place that holds text wins.
    pub heading: Vec<XmlSource>,
    /// Attributes of a unit's element whose values are other names of it.
    pub aliases: Vec<String>,
    /// Elements inside a number or heading that separate words, as a line break does.
    pub breaks: Vec<String>,
    /// Elements whose digits are printed above the line: `Article 14<sup>1</sup>` is 14+1.
    pub superscript: Vec<XmlMatch>,
    /// The `section_type` by an attribute of the unit's element, before all other rules.
    pub section_types: Vec<XmlSectionType>,
    /// The `publication_type` by an element anywhere in the document; the first that
    /// stands in the document wins.
    pub publication_types: Vec<XmlPublicationType>,
}

/// A root element.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct XmlRoot {
    /// Its namespace, empty for none; a `*` at the end stands for any rest.
    pub namespace: String,
    /// Its local names; empty for any.
    pub names: Vec<String>,
}

/// An element, perhaps with one attribute.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct XmlMatch {
    /// Its local name.
    pub element: String,
    /// The attribute that it must have.
    #[serde(default, skip_serializing_if = "is_default")]
    pub attribute: Option<String>,
    /// The attribute's value.
    #[serde(default, skip_serializing_if = "is_default")]
    pub value: Option<String>,
}

/// An element that is a unit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct XmlUnit {
    /// Its local name.
    pub element: String,
    /// The attribute that it must have.
    #[serde(default, skip_serializing_if = "is_default")]
    pub attribute: Option<String>,
    /// The attribute's value.
    #[serde(default, skip_serializing_if = "is_default")]
    pub value: Option<String>,
    /// The address kind.
    pub kind: String,
    /// Where no number is printed the kind alone is the name (`preamble`), not the heading.
    #[serde(default, skip_serializing_if = "is_default")]
    pub alone: bool,
    /// A designator in the number's or heading's words says the kind (`CHAPTER I`), and
    /// `kind` stands where there is none.
    #[serde(default, skip_serializing_if = "is_default")]
    pub kind_by_words: bool,
    /// Where its number stands, in place of the rules' `number`.
    #[serde(default, skip_serializing_if = "is_default")]
    pub number: Option<Vec<XmlSource>>,
}

/// A place below a unit's element.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct XmlSource {
    /// The local names from the unit's element down, joined by `/`: `num`, `TITLE/TI`.
    /// The first such element of a unit is taken.
    pub path: String,
    /// The value of this attribute, in place of the element's text.
    #[serde(default, skip_serializing_if = "is_default")]
    pub attribute: Option<String>,
    /// The text is a title: it holds a number only where it begins with a designator.
    #[serde(default, skip_serializing_if = "is_default")]
    pub title: bool,
}

/// A `section_type` by an attribute.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct XmlSectionType {
    /// The attribute of a unit's element.
    pub attribute: String,
    /// Its value.
    pub value: String,
    /// The `section_type`.
    pub section_type: String,
}

/// A `publication_type` by an element.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct XmlPublicationType {
    /// The element.
    pub is: XmlMatch,
    /// The `publication_type`.
    pub publication_type: String,
}

impl XmlRules {
    /// True where the profile is for documents with this root element.
    #[must_use]
    pub fn fits(&self, namespace: &str, name: &str) -> bool {
        let is_namespace = |want: &str| match want.strip_suffix('*') {
            Some(start) => namespace.starts_with(start),
            None => namespace == want,
        };
        let is_name = |names: &[String]| names.is_empty() || names.iter().any(|want| want == name);
        self.roots.iter().any(|root| is_namespace(&root.namespace) && is_name(&root.names))
    }

    /// The rules that cut, as `deepest` leaves them.
    #[must_use]
    pub fn cut_units(&self) -> &[XmlUnit] {
        let last = self
            .deepest
            .as_ref()
            .and_then(|deepest| self.units.iter().rposition(|unit| unit.kind == *deepest))
            .unwrap_or(self.units.len().saturating_sub(1));
        self.units.get(..=last).unwrap_or_default()
    }

    pub(super) fn check(&self) -> Result<(), ProfileError> {
        let wrong = |field, expected, observed: &str| {
            Err(ProfileError::Value { field, expected, observed: observed.into() })
        };
        if self.roots.is_empty() {
            return wrong("xml.roots", "at least one root element", "none");
        }
        if self.units.is_empty() {
            return wrong("xml.units", "at least one element", "none");
        }
        if let Some(unit) = self.units.iter().find(|unit| unit_kind_of(&unit.kind).is_none()) {
            return wrong("xml.units.kind", "an address kind", &unit.kind);
        }
        if let Some(unit) = self.units.iter().find(|unit| unit.value.is_some() && unit.attribute.is_none()) {
            return wrong("xml.units.value", "an attribute to go with it", &unit.element);
        }
        if let Some(deepest) = self.deepest.as_ref().filter(|d| self.units.iter().all(|u| u.kind != **d)) {
            return wrong("xml.deepest", "the kind of one of xml.units", deepest);
        }
        let own = self.units.iter().flat_map(|unit| unit.number.iter().flatten());
        for source in self.number.iter().chain(&self.heading).chain(own) {
            let here = source.path.is_empty() && source.attribute.is_some();
            if !here && source.path.split('/').any(str::is_empty) {
                return wrong("xml paths", "local names joined by single slashes", &source.path);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::base::vocabulary::Vocabulary;
    use crate::text::profile::Profile;
    use alloc::string::ToString;

    #[test]
    fn rules_that_find_nothing_are_refused() {
        let good = Profile::built_in("akn").unwrap().xml.unwrap();
        assert_eq!(good.check(), Ok(()));
        let without = |change: fn(&mut super::XmlRules)| {
            let mut rules = good.clone();
            change(&mut rules);
            rules.check().unwrap_err().to_string()
        };
        assert!(without(|rules| rules.roots.clear()).contains("xml.roots"));
        assert!(without(|rules| rules.units.clear()).contains("xml.units"));
    }

    #[test]
    fn the_built_in_profiles_read_and_use_known_words() {
        let words = Vocabulary::default();
        for name in ["akn", "uslm", "formex"] {
            let profile = Profile::built_in(name).unwrap();
            assert_eq!(profile.name, name);
            let rules = profile.xml.as_ref().unwrap();
            let types = profile.kind_section_types.values().chain([&profile.default_section_type]);
            let types = types.chain(profile.title_section_types.iter().map(|rule| &rule.section_type));
            let types = types.chain(rules.section_types.iter().map(|rule| &rule.section_type));
            let publications = rules.publication_types.iter().map(|rule| &rule.publication_type);
            let publications = publications.chain([&profile.publication_type]);
            let unknown = words.unknown(
                types
                    .map(|word| ("section_type", word.as_str()))
                    .chain(publications.map(|word| ("publication_type", word.as_str()))),
            );
            assert!(unknown.is_empty(), "{name}: {unknown:?}");
            let deepest = rules.deepest.as_ref().unwrap();
            assert!(rules.cut_units().len() < rules.units.len(), "{name}");
            assert_eq!(&rules.cut_units().last().unwrap().kind, deepest, "{name}");
        }
    }

    #[test]
    fn roots_choose_profiles() {
        let name = |namespace: &str, root: &str| {
            let fits = |p: &Profile| p.xml.as_ref().is_some_and(|rules| rules.fits(namespace, root));
            Profile::names().map(|name| Profile::built_in(name).unwrap()).find(fits).map(|p| p.name)
        };
        let akn = "http://docs.oasis-open.org/legaldocml/ns/akn/3.0/WD17";
        assert_eq!(name(akn, "akomaNtoso").as_deref(), Some("akn"));
        assert_eq!(name("http://www.akomantoso.org/2.0", "akomaNtoso").as_deref(), Some("akn"));
        assert_eq!(name(akn, "act"), None);
        assert_eq!(name("http://schemas.gpo.gov/xml/uslm", "pLaw").as_deref(), Some("uslm"));
        assert_eq!(name("http://xml.house.gov/schemas/uslm/1.0", "uscDoc").as_deref(), Some("uslm"));
        assert_eq!(name("", "CONS.ACT").as_deref(), Some("formex"));
        assert_eq!(name("", "html"), None);
        assert_eq!(name("http://www.w3.org/1999/xhtml", "html"), None);
    }

    #[test]
    fn errors_name_the_field() {
        let text = include_str!("akn.json");
        let edit = |from: &str, to: &str| {
            assert!(text.contains(from), "{from}");
            Profile::from_json(text.replacen(from, to, 1).as_bytes()).unwrap_err().to_string()
        };
        for (from, to, want) in [
            ("\"format\": \"xml\"", "\"format\": \"markdown\"", "no rules for XML"),
            ("\"deepest\": \"art\"", "\"deepest\": \"pg\"", "xml.deepest"),
            ("\"kind\": \"book\"}", "\"kind\": \"tome\"}", "an address kind"),
            ("{\"path\": \"num\"}", "{\"path\": \"a//b\"}", "single slashes"),
            ("{\"path\": \"num\"}", "{\"path\": \"\"}", "single slashes"),
            (
                "\"attribute\": \"name\", \"value\": \"crossheading\"",
                "\"value\": \"x\"",
                "an attribute to go with",
            ),
            ("\"roots\": [", "\"stems\": [", "stems"),
        ] {
            let error = edit(from, to);
            assert!(error.contains(want), "{from}: {error}");
        }
    }

    #[test]
    fn profiles_without_rules_for_xml_keep_their_digests() {
        let text = serde_json::to_string(&Profile::built_in("markdown").unwrap()).unwrap();
        assert!(!text.contains("xml"), "{text}");
    }
}
