//! The documentation keeps up with the code: generated pages are fresh, links lead somewhere,
//! every command shown parses, every name that must be documented is, and the code keeps the
//! shape that `ARCHITECTURE.md` promises.
//!
//! `CUTTER_BLESS=1 cargo test -p cutter-tests --test docs` writes the generated pages.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "docs/boundary.rs"]
mod boundary;
#[path = "docs/commands.rs"]
mod commands;
#[path = "docs/generated.rs"]
mod generated;
#[path = "docs/links.rs"]
mod links;
#[path = "docs/named.rs"]
mod named;
#[path = "docs/profiles.rs"]
mod profiles;
#[path = "docs/tidy.rs"]
mod tidy;
#[path = "docs/trust.rs"]
mod trust;
#[path = "docs/wings.rs"]
mod wings;
#[path = "docs/words.rs"]
mod words;

use std::fs;
use std::path::{Path, PathBuf};

/// The workspace's folder.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

/// A file of the workspace as text.
fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Every file of the workspace with this extension, relative to its root, sorted; build
/// folders and hidden ones left out.
fn files(extension: &str) -> Vec<String> {
    fn walk(folder: &Path, extension: &str, found: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            if name == "target" || name.starts_with('.') {
                continue;
            }
            if path.is_dir() {
                walk(&path, extension, found);
            } else if path.extension().is_some_and(|e| e == extension) {
                found.push(path);
            }
        }
    }
    let root = root();
    let mut found = Vec::new();
    walk(&root, extension, &mut found);
    let relative = |path: PathBuf| path.strip_prefix(&root).unwrap().to_string_lossy().into_owned();
    let mut files: Vec<String> = found.into_iter().map(relative).collect();
    files.sort();
    assert!(!files.is_empty(), "no .{extension} file below {}", root.display());
    files
}

/// The pages that people read: every Markdown file but sample documents.
fn pages() -> Vec<String> {
    let is_page = |path: &String| !path.contains("/src/") && !path.contains("/fixtures/");
    files("md").into_iter().filter(is_page).collect()
}

/// Fails with all findings at once.
#[track_caller]
fn none(what: &str, findings: &[String]) {
    assert!(findings.is_empty(), "{what}:\n  {}", findings.join("\n  "));
}
