//! The approver's own copy of the text, cut again before anything is signed.

use std::path::Path;

use cutter_core::operate::inspect::asked::Asked;
use cutter_core::record::approval::field;

use crate::commands::plan::{self, CutOptions, ManifestOption};
use crate::commands::profile::AUTO;
use crate::failure::Failure;

/// The text that the approver holds, and what cuts it where the request's word is not enough.
pub(crate) struct OwnText<'a> {
    pub(crate) file: &'a Path,
    pub(crate) profile: Option<&'a Path>,
    pub(crate) manifest: &'a ManifestOption,
}

impl OwnText<'_> {
    /// Refuses unless this text gives the rows that the request names.
    pub(crate) fn gives(&self, asked: &Asked) -> Result<(), Failure> {
        let run = asked.ask.required.get(field::RUN_ID).map_or("RUN", String::as_str);
        let refused = |what: String, expected: &str, observed: String| {
            Failure::approval(what)
                .broken("approval.rows_digest", expected, observed)
                .next(format!("cutter sovereign refuse --run-id {run}"))
        };
        let file = self.file.display();
        let Some(expected) = asked.ask.required.get(field::ROWS_DIGEST) else {
            let what = format!("{} names no rows to compare {file} with", asked.ask.request_path);
            return Err(refused(what, "a request to cut or to enact", asked.ask.approval_type.clone()));
        };
        // as requests say it: `en version 1, down to article`
        let profile = said(&asked.text, "profile", " version ").unwrap_or(AUTO);
        let depth = match profile.split_once(", ") {
            Some((_, how)) => {
                how.strip_prefix("down to ").or_else(|| how.strip_prefix("at most ")?.strip_suffix(" levels"))
            }
            None => None,
        };
        let name = match self.profile {
            Some(own) => own.display().to_string(),
            None => profile.split(' ').next().unwrap_or(AUTO).to_owned(),
        };
        let options = CutOptions {
            profile: name,
            depth: depth.and_then(|depth| depth.parse().ok()),
            publication_type: said(&asked.text, "publication_type", "").map(ToOwned::to_owned),
            depends_on: Vec::new(),
            max_candidates: Some(u64::from(u32::MAX)),
            max_document_bytes: None,
            forbidden_prefixes: Vec::new(),
        };
        let document_id = asked.ask.required.get(field::DOCUMENT_ID).map(String::as_str);
        let document_id = plan::document_id(document_id, self.file)?;
        let version = said(&asked.text, "source_version_no", "").and_then(|n| n.parse().ok()).unwrap_or(1);
        let planned = plan::of_file(self.file, &document_id, &options, self.manifest)?;
        let observed = planned.plan.rows_digest(version).to_hex();
        if observed == *expected {
            return Ok(());
        }
        Err(refused(
            format!("{file}, cut by {profile} as version {version}, gives other rows than the request names"),
            expected,
            observed,
        ))
    }
}

/// The value of a request's first line `name : value` that holds these words.
fn said<'t>(text: &'t str, name: &str, words: &str) -> Option<&'t str> {
    let value = |line: &'t str| line.strip_prefix(name)?.trim_start().strip_prefix(':');
    let values = text.lines().filter_map(value).map(|value| value.trim().trim_matches('"'));
    values.into_iter().find(|value| value.contains(words))
}
