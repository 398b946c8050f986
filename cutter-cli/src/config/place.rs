//! Where documents and backups live: a folder, or a URL.

use std::path::{Path, PathBuf};

use cutter_core::record::backup::BackupScope;
use cutter_kb::object_store::KbUrl;

use super::section::Section;
use crate::failure::Failure;

type Env<'e> = &'e dyn Fn(&str) -> Option<String>;

/// A URL from the environment or the file. A wrong one is shown without what may be secret.
fn url(place: String, text: &str) -> Result<KbUrl, Failure> {
    text.parse().map_err(|e| Failure::usage(format!("{place}: {e}")))
}

/// Folder and URL of the knowledge base; of the two at most one is given. `kb = "file:///…"` is
/// the folder: one layout per medium.
pub(super) fn knowledge_base(
    root: &mut Section<'_>,
    file: &Path,
    env: Env<'_>,
) -> Result<(Option<PathBuf>, Option<KbUrl>), Failure> {
    let both = |one: &str, other: &str| {
        Failure::usage(format!("{one} and {other} are both set, and a knowledge base is in one place"))
    };
    let (file_dir, file_url) = (root.path("kb_dir")?, root.string("kb")?);
    let (env_dir, env_url) = (env("CUTTER_KB_DIR").map(PathBuf::from), env("CUTTER_KB"));
    let (dir, url) = match (env_dir, env_url, file_dir, file_url) {
        (Some(_), Some(_), _, _) => return Err(both("CUTTER_KB_DIR", "CUTTER_KB")),
        (Some(dir), None, _, _) => return Ok((Some(dir), None)),
        (None, Some(text), _, _) => (None, Some(url("CUTTER_KB".to_owned(), &text)?)),
        (None, None, Some(_), Some(_)) => return Err(both("`kb_dir`", "`kb`")),
        (None, None, dir, None) => (dir, None),
        (None, None, None, Some(text)) => (None, Some(url(format!("{}: kb", file.display()), &text)?)),
    };
    Ok(match url.as_ref().and_then(KbUrl::folder) {
        Some(folder) => (Some(folder.to_owned()), None),
        None => (dir, url),
    })
}

/// Scope and place of backups.
pub(super) fn backup(
    root: &mut Section<'_>,
    file: &Path,
    env: Env<'_>,
) -> Result<(BackupScope, Option<KbUrl>), Failure> {
    let (mut scope, mut text) = (BackupScope::Document, None);
    if let Some(mut section) = root.section("backup")? {
        if let Some(said) = section.string("scope")? {
            scope = said.parse().map_err(|_| section.refuse("scope", "document or database"))?;
        }
        text = section.string("url")?.map(|text| (format!("{}: backup.url", file.display()), text));
        section.finish()?;
    }
    let text = env("CUTTER_BACKUP_URL").map(|text| ("CUTTER_BACKUP_URL".to_owned(), text)).or(text);
    Ok((scope, text.map(|(place, text)| url(place, &text)).transpose()?))
}
