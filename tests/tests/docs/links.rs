//! Relative links lead to a file that is there, and to a heading of it.

use std::collections::BTreeSet;

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

use super::{none, pages, read, root};

struct Page {
    links: Vec<String>,
    anchors: BTreeSet<String>,
}

/// Links and heading anchors, as a forge makes them: lower case, blanks to `-`, everything
/// but letters, digits, `-` and `_` dropped.
fn look(text: &str) -> Page {
    let mut page = Page { links: Vec::new(), anchors: BTreeSet::new() };
    let mut heading: Option<String> = None;
    for event in Parser::new_ext(text, Options::ENABLE_TABLES) {
        match event {
            Event::Start(Tag::Link { dest_url, .. }) => page.links.push(dest_url.into_string()),
            Event::Start(Tag::Heading { .. }) => heading = Some(String::new()),
            Event::Text(text) | Event::Code(text) => {
                if let Some(title) = &mut heading {
                    title.push_str(&text);
                }
            }
            Event::End(TagEnd::Heading(_)) => {
                let title = heading.take().unwrap_or_default().to_lowercase();
                let kept = title.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
                page.anchors.insert(kept.map(|c| if c == ' ' { '-' } else { c }).collect());
            }
            _ => {}
        }
    }
    page
}

#[test]
fn relative_links_lead_somewhere() {
    let mut broken = Vec::new();
    let mut seen = 0;
    for path in pages() {
        let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
        for link in look(&read(&path)).links {
            if link.contains("://") || link.starts_with("mailto:") {
                continue;
            }
            seen += 1;
            let (file, anchor) = link.split_once('#').unwrap_or((&link, ""));
            let target = if file.is_empty() { root().join(&path) } else { root().join(folder).join(file) };
            if !target.exists() {
                broken.push(format!("{path}: {link}"));
            } else if !anchor.is_empty() {
                let text = std::fs::read_to_string(&target).unwrap();
                if !look(&text).anchors.contains(anchor) {
                    broken.push(format!("{path}: {link} (no such heading)"));
                }
            }
        }
    }
    assert!(seen > 20, "only {seen} links were looked at");
    none("links that lead nowhere", &broken);
}

#[test]
fn anchors_are_made_as_a_forge_makes_them() {
    let page = look("# The `run` machine\n\n## Kill, and *resume*\n\n[a](b.md#c)\n");
    assert!(page.anchors.contains("the-run-machine") && page.anchors.contains("kill-and-resume"));
    assert_eq!(page.links, ["b.md#c"]);
}
