//! The pages about profiles: what each field means, made of the documentation of the code, and
//! the list of the built-in ones.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use cutter_core::text::profile::{Format, Profile};
use serde_json::Value;

use super::{none, read};

/// Where profiles are declared; [`Profile`] itself is the first type.
const SOURCES: [&str; 3] = [
    "cutter-core/src/text/profile.rs",
    "cutter-core/src/text/profile/rules.rs",
    "cutter-core/src/text/profile/xml.rs",
];

/// A type that a profile is made of.
struct Declared {
    name: String,
    about: String,
    is_enum: bool,
    /// Name, type, whether it may be left out, what it means.
    fields: Vec<(String, String, bool, String)>,
}

/// The documented types with a serialised form, in the order of the sources.
fn declared() -> Vec<Declared> {
    let mut found = Vec::new();
    for path in SOURCES {
        let source = read(path);
        let (mut about, mut serialised, mut optional) = (String::new(), false, false);
        let mut open: Option<Declared> = None;
        for line in source.lines().take_while(|line| !line.starts_with("#[cfg(test)]")) {
            let trimmed = line.trim();
            if let Some(text) = trimmed.strip_prefix("///") {
                about.push_str(text);
                continue;
            }
            if trimmed.starts_with("#[") {
                serialised |= trimmed.contains("Deserialize");
                optional |= trimmed.contains("serde(default");
                continue;
            }
            let named = |lead: &str| trimmed.strip_prefix(lead)?.strip_suffix(" {").map(str::to_owned);
            if let Some(name) = named("pub struct ").or_else(|| named("pub enum ")) {
                let is_enum = trimmed.starts_with("pub enum");
                open =
                    serialised.then(|| Declared { name, about: about.clone(), is_enum, fields: Vec::new() });
            } else if line == "}" {
                found.extend(open.take());
            } else if let Some(declared) = &mut open {
                let field = trimmed.strip_prefix("pub ").and_then(|f| f.strip_suffix(',')?.split_once(": "));
                let variant = trimmed.strip_suffix(',').filter(|_| declared.is_enum);
                if let Some((name, kind)) = field {
                    declared.fields.push((name.to_owned(), kind.to_owned(), optional, about.clone()));
                } else if let Some(name) = variant {
                    declared.fields.push((name.to_lowercase(), String::new(), false, about.clone()));
                }
            }
            if !trimmed.is_empty() {
                (about, serialised, optional) = (String::new(), false, false);
            }
        }
    }
    found.retain(|d| !matches!(d.name.as_str(), "ProfileId" | "ProfileError"));
    found
}

/// A type as authors of JSON know it, and whether it may be `null`.
fn json_type(kind: &str, types: &[Declared]) -> String {
    let inner = |lead: &str| kind.strip_prefix(lead).and_then(|k| k.strip_suffix('>'));
    if let Some(inner) = inner("Option<") {
        return format!("{} or `null`", json_type(inner, types));
    }
    if let Some(inner) = inner("Vec<") {
        return format!("list of {}", json_type(inner, types));
    }
    match kind {
        "String" => "text".to_owned(),
        "bool" => "`true` or `false`".to_owned(),
        "u32" => "number".to_owned(),
        "BTreeMap<String, String>" => "object of texts".to_owned(),
        _ => {
            let name = kind.rsplit("::").next().unwrap_or(kind);
            let name = if name == "DetectionRules" { "Detection" } else { name };
            assert!(types.iter().any(|t| t.name == name), "no documentation of {kind}");
            format!("[{name}](#{})", name.to_lowercase())
        }
    }
}

/// Links of the code's documentation are names here.
fn plain(about: &str) -> String {
    let mut text = about.trim().replace("|", "\\|");
    for (from, to) in [
        ("[`PROFILE_SCHEMA`]", "1"),
        ("[`Nesting::Rank`]", "`nesting` `rank`"),
        ("[`Format::Xml`]", "`format` `xml`"),
    ] {
        text = text.replace(from, to);
    }
    assert!(!text.contains("`]"), "{text}");
    text
}

/// What each field means.
pub(super) fn schema() -> String {
    let types = declared();
    let mut out = String::from(
        "# The fields of a profile\n\n\
         Generated from the code; do not edit. A profile is one JSON object, read strictly: a field that is not\n\
         listed here is refused, and so is a float. Fields marked *optional* may be left out.\n",
    );
    for declared in &types {
        let _ = write!(out, "\n## {}\n\n{}\n\n", declared.name, plain(&declared.about));
        if declared.is_enum {
            out.push_str("| word | means |\n| --- | --- |\n");
            for (name, _, _, about) in &declared.fields {
                let _ = writeln!(out, "| `{name}` | {} |", plain(about));
            }
            continue;
        }
        out.push_str("| field | holds | means |\n| --- | --- | --- |\n");
        for (name, kind, optional, about) in &declared.fields {
            let optional = if *optional { ", *optional*" } else { "" };
            let _ = writeln!(out, "| `{name}` | {}{optional} | {} |", json_type(kind, &types), plain(about));
        }
    }
    out
}

/// The built-in profiles as a table.
pub(super) fn built_in() -> String {
    let mut out = String::from("| name | version | languages | format | cuts down to | for |\n");
    out.push_str("| --- | --- | --- | --- | --- | --- |\n");
    for name in Profile::names() {
        let profile = Profile::built_in(name).unwrap();
        let format = match profile.format {
            Format::Markdown => "markdown",
            Format::Text => "text",
            Format::Underlined => "underlined",
            Format::Xml => "xml",
        };
        let deepest = match &profile.xml {
            Some(rules) => rules.deepest.clone(),
            None => profile.deepest.clone(),
        };
        let deepest = deepest.map_or_else(|| "all".to_owned(), |kind| format!("`{kind}`"));
        let languages = profile.languages.join(" ");
        let (version, about) = (profile.version, &profile.description);
        let _ = writeln!(out, "| `{name}` | {version} | {languages} | {format} | {deepest} | {about} |");
    }
    out.trim_end().to_owned()
}

/// The keys of objects in a profile, but those that its author chooses.
fn keys(value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                found.insert(key.clone());
                if !matches!(key.as_str(), "number_words" | "kind_section_types") {
                    keys(value, found);
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| keys(item, found)),
        _ => {}
    }
}

#[test]
fn every_field_that_a_built_in_profile_uses_is_explained() {
    let page = schema();
    let mut used = BTreeSet::new();
    for name in Profile::names() {
        keys(&serde_json::from_str(Profile::built_in_json(name).unwrap()).unwrap(), &mut used);
    }
    assert!(used.len() > 50, "{used:?}");
    let missing: Vec<String> =
        used.into_iter().filter(|key| !page.contains(&format!("| `{key}` |"))).collect();
    none("fields without an explanation", &missing);
    assert!(!page.contains("|  |"), "a field without documentation");
}

#[test]
fn the_example_of_the_page_is_a_profile_that_works() {
    let page = read("docs/profiles.md");
    let json = page.split("```json\n").nth(1).unwrap().split("```").next().unwrap();
    let profile =
        Profile::from_json(json.as_bytes()).unwrap_or_else(|error| panic!("docs/profiles.md: {error}"));
    let text = page.split("```markdown\n").nth(1).unwrap().split("```").next().unwrap();
    let plan = cutter_core::text::plan::CutPlan::build(&cutter_core::text::plan::PlanInput {
        document_id: &cutter_core::text::address::DocumentId::parse("GUILD").unwrap(),
        text: text.as_bytes(),
        profile: &profile,
        vocabulary: &cutter_core::base::vocabulary::Vocabulary::default(),
        publication_type: None,
        depends_on: &[],
        limits: &cutter_core::text::mark::MarkLimits::default(),
        marker: None,
    })
    .unwrap();
    let addresses: Vec<&str> = plan.rows.iter().map(|row| row.canonical_address.as_str()).collect();
    for address in &addresses {
        assert!(page.contains(&format!("{address}\n")), "{address} is not on the page: {addresses:?}");
    }
    assert_eq!(addresses.len(), 8, "{addresses:?}");
}
