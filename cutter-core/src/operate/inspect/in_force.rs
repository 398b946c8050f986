//! What a reader of a document is shown: what is in force, unless something else is asked for.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use crate::base::id::RunId;
use crate::record::observed::{Lifecycle, VersionCut};

/// The cut that is shown, and how it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shown {
    /// Its version.
    pub version_no: i32,
    /// Its change set.
    pub change_set_id: uuid::Uuid,
    /// The run that made it.
    pub run_id: RunId,
    /// Where its units stand.
    pub status: Lifecycle,
    /// The newest version that is in force, if one is.
    pub in_force_version: Option<i32>,
}

impl Shown {
    /// Whether this is the text that is in force.
    #[must_use]
    pub fn is_in_force(&self) -> bool {
        self.status == Lifecycle::Enacted && self.in_force_version == Some(self.version_no)
    }

    /// How it stands, in a few words.
    #[must_use]
    pub fn standing(&self) -> String {
        match (self.status, self.in_force_version) {
            (Lifecycle::Enacted, Some(newest)) if newest != self.version_no => {
                format!("enacted, replaced by version {newest}")
            }
            (Lifecycle::Enacted, _) => "in force".to_string(),
            (status, _) => format!("{status}, not in force"),
        }
    }
}

/// Why nothing is shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotShown {
    /// What was asked for and is not there.
    pub what: String,
    /// What is there instead: one line a cut, the newest first.
    pub found: Vec<String>,
    /// Commands to type next.
    pub next: Vec<String>,
}

/// The newest cut of a document that stands as asked, of one version or of all.
///
/// # Errors
/// [`NotShown`], with what there is instead.
pub fn shown(
    document_id: &str,
    versions: &[VersionCut],
    version_no: Option<i32>,
    status: Lifecycle,
) -> Result<Shown, NotShown> {
    let with_status = |status: Lifecycle| {
        versions.iter().rev().filter(move |v| v.cut.as_ref().is_some_and(|cut| cut.status == status))
    };
    let in_force_version = with_status(Lifecycle::Enacted).map(|v| v.version_no).max();
    let is_meant = |v: &&VersionCut| version_no.is_none_or(|n| n == v.version_no);
    match with_status(status).find(is_meant) {
        Some(VersionCut { version_no, cut: Some(cut), .. }) => Ok(Shown {
            version_no: *version_no,
            change_set_id: cut.change_set_id,
            run_id: cut.run_id.clone(),
            status,
            in_force_version,
        }),
        _ => Err(not_shown(document_id, versions, version_no, status)),
    }
}

fn not_shown(
    document_id: &str,
    versions: &[VersionCut],
    version_no: Option<i32>,
    status: Lifecycle,
) -> NotShown {
    let of = match version_no {
        Some(n) => format!("version {n} of {document_id}"),
        None => document_id.to_string(),
    };
    let what = match (status, version_no) {
        (Lifecycle::Enacted, None) => format!("nothing of {of} is in force"),
        (Lifecycle::Enacted, Some(_)) => format!("{of} is not in force"),
        (status, _) => format!("nothing of {of} is {status}"),
    };
    let mut next = Vec::new();
    let meant: Vec<&VersionCut> =
        versions.iter().rev().filter(|v| version_no.is_none_or(|n| n == v.version_no)).collect();
    let line = |v: &&VersionCut| match &v.cut {
        Some(cut) => format!(
            "version {}: {}, {} units, {}",
            v.version_no,
            match cut.status {
                Lifecycle::Enacted => "enacted",
                Lifecycle::Draft => "drafts, never enacted",
                Lifecycle::Voided => "voided",
            },
            cut.unit_count,
            cut.run_id
        ),
        None => format!("version {}: registered, never cut", v.version_no),
    };
    if versions.is_empty() {
        next.push(format!("cutter source add FILE --document-id {document_id}"));
    } else if meant.is_empty() {
        next.push(format!("cutter orchestrate list --document-id {document_id}"));
    }
    for version in &meant {
        let Some(cut) = &version.cut else { continue };
        if cut.status == Lifecycle::Draft {
            next.push(format!("cutter why --run-id {}", cut.run_id));
        }
        if cut.status != status {
            next.push(format!(
                "cutter unit list --document-id {document_id} --version {} --status {}",
                version.version_no, cut.status
            ));
        }
    }
    let newest = versions.last().map(|v| v.version_no);
    let is_free = !meant.iter().any(|v| v.cut.as_ref().is_some_and(|cut| cut.status == Lifecycle::Draft));
    if is_free && meant.first().is_some_and(|v| Some(v.version_no) == newest) && next.is_empty() {
        next.push(format!("cutter orchestrate cut --document-id {document_id}"));
    }
    let found = meant.iter().map(line).collect();
    NotShown { what, found, next }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::observed::CutState;
    use Lifecycle::{Draft, Enacted, Voided};
    use uuid::Uuid;

    /// A version with a cut that stands so, named by `n`.
    fn version(version_no: i32, n: u128, status: Lifecycle) -> VersionCut {
        let run = format!("ictr-20260520T101112Z-{}", Uuid::from_u128(0x019e_44f1_2a00_7123_8abc << 48 | n));
        let cut = CutState {
            change_set_id: Uuid::from_u128(n),
            run_id: run.parse().unwrap(),
            unit_count: 3,
            status,
            is_enacted: status == Enacted,
        };
        VersionCut { version_no, source_version_id: Uuid::nil(), cut: Some(cut) }
    }

    #[test]
    fn the_newest_that_stands_as_asked_is_shown() {
        let all =
            [version(1, 1, Enacted), version(2, 2, Voided), version(2, 3, Enacted), version(3, 4, Draft)];
        let seen = |version, status| {
            let seen = shown("A", &all, version, status).ok()?;
            Some((seen.change_set_id.as_u128(), seen.standing(), seen.is_in_force()))
        };
        assert_eq!(seen(None, Enacted), Some((3, "in force".into(), true)));
        assert_eq!(seen(Some(1), Enacted), Some((1, "enacted, replaced by version 2".into(), false)));
        assert_eq!(seen(None, Draft), Some((4, "draft, not in force".into(), false)));
        assert_eq!(seen(Some(2), Voided), Some((2, "voided, not in force".into(), false)));
        for (version, status) in [(Some(3), Enacted), (Some(1), Draft), (Some(4), Enacted)] {
            assert_eq!(seen(version, status), None);
        }
    }

    #[test]
    fn what_is_not_in_force_names_what_waits_and_the_command() {
        let registered = VersionCut { version_no: 1, source_version_id: Uuid::nil(), cut: None };
        let why = |versions: &[VersionCut], version| shown("A", versions, version, Enacted).unwrap_err();
        assert_eq!(why(&[], None).next, ["cutter source add FILE --document-id A"]);
        let only_registered = why(core::slice::from_ref(&registered), None);
        assert_eq!(only_registered.what, "nothing of A is in force");
        assert_eq!(only_registered.found, ["version 1: registered, never cut"]);
        assert_eq!(only_registered.next, ["cutter orchestrate cut --document-id A"]);
        let waits = why(&[version(1, 1, Voided), version(1, 2, Draft)], None);
        assert!(waits.found[0].starts_with("version 1: drafts, never enacted, 3 units, ictr-"), "{waits:?}");
        assert!(waits.next[0].starts_with("cutter why --run-id ictr-"), "{waits:?}");
        assert_eq!(waits.next[1], "cutter unit list --document-id A --version 1 --status draft");
        let second = why(&[version(1, 1, Enacted), version(2, 2, Voided)], Some(2));
        assert_eq!(second.what, "version 2 of A is not in force");
        assert_eq!(second.next, ["cutter unit list --document-id A --version 2 --status voided"]);
        assert_eq!(why(&[registered], Some(7)).next, ["cutter orchestrate list --document-id A"]);
    }
}
