//! What a run asks of the sovereign, read from the knowledge base alone.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use crate::base::id::RunId;
use crate::record::approval::{Ask, Purpose, field};
use crate::report::asks_of_document;
use crate::report::naming::{AuthorizationGate, DocumentName, EscalationKind, utc_date};

/// An ask with the document that asks it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asked {
    /// What is asked.
    pub ask: Ask,
    /// When the document was fixed, as it says itself.
    pub at: String,
    /// The whole document.
    pub text: String,
}

/// Whether a folder's name fits a run: folders carry the date on which the run was created.
#[must_use]
pub fn may_be_folder_of(folder: &str, run_id: &RunId) -> bool {
    let date = utc_date(run_id.created()).to_string().replace('-', "");
    folder.rsplit('/').next().is_some_and(|name| {
        name.split_once("-automation-cut-").is_some_and(|(_, suffix)| suffix.starts_with(&date))
    })
}

/// The folders among these paths that may be a run's, each with all documents in it, directly or deeper: those
/// of the run, as the knowledge base lists them. One look at each path, however many folders there are.
#[must_use]
pub fn folders_of<'p>(paths: &'p [String], run_id: &RunId) -> BTreeMap<&'p str, Vec<&'p str>> {
    let mut folders: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for path in paths {
        let above = path.match_indices('/').map(|(end, _)| &path[..end]);
        if let Some(folder) = above.into_iter().find(|folder| may_be_folder_of(folder, run_id)) {
            folders.entry(folder).or_default().push(path);
        }
    }
    folders
}

/// The folder that all these documents of a run are in, directly or deeper.
#[must_use]
pub fn folder_over<'p>(paths: impl Iterator<Item = &'p str>) -> &'p str {
    let folders = paths.filter_map(|path| Some(path.rsplit_once('/')?.0));
    folders.min_by_key(|folder| folder.len()).unwrap_or_default()
}

/// Whether a document's first line names the run.
#[must_use]
pub fn is_document_of(text: &str, run_id: &RunId) -> bool {
    text.lines().next().is_some_and(|title| title.contains(run_id.as_str()))
}

/// Whether a document may ask something: requests and stop-route reports do.
#[must_use]
pub fn may_ask(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    matches!(
        DocumentName::parse(name),
        Ok((DocumentName::Request { .. } | DocumentName::StopReport { .. }, _))
    )
}

/// Every ask of a run's documents `(path, text)`, oldest first. An ask that names another run
/// is left out: it was put there by somebody else.
#[must_use]
pub fn asks(documents: &[(String, String)], run_id: &RunId) -> Vec<Asked> {
    let mut found: Vec<Asked> = Vec::new();
    for (path, text) in documents {
        let at = header(text, "at").unwrap_or_default();
        for ask in asks_of_document(text, path) {
            if ask.required.get("run_id").map(String::as_str) == Some(run_id.as_str()) {
                found.push(Asked { ask, at: at.clone(), text: text.clone() });
            }
        }
    }
    // as times: of two texts the shorter one may be the later
    found.sort_by_key(|asked| (asked.at.parse::<jiff::Timestamp>().ok(), asked.ask.occurrence));
    found
}

/// The ask to answer: the newest for the purpose, or the newest of all that is no void. What a stop asks is
/// asked until the run asks something newer. Of the asks only those are taken that `is_open`.
#[must_use]
pub fn newest(asks: &[Asked], purpose: Option<Purpose>, is_open: impl Fn(&Asked) -> bool) -> Option<&Asked> {
    let last = asks.last().map(|asked| &asked.ask.request_path);
    let stands = |ask: &Ask| ask.is_at_a_gate() || Some(&ask.request_path) == last;
    asks.iter().rev().filter(|asked| stands(&asked.ask) && is_open(asked)).find(|asked| match purpose {
        Some(purpose) => asked.ask.is_for(purpose),
        None => !asked.ask.is_for(Purpose::Void),
    })
}

/// The nonces of what was asked.
#[must_use]
pub fn nonces(asks: &[Asked]) -> BTreeSet<String> {
    asks.iter().filter_map(|asked| asked.ask.required.get(field::NONCE).cloned()).collect()
}

/// A value of the block at the head of a document.
fn header(text: &str, key: &str) -> Option<String> {
    let value = |line: &str| {
        let (name, value) = line.strip_prefix("> ")?.split_once(':')?;
        (name.trim() == key).then(|| value.trim().trim_matches('"').to_string())
    };
    text.lines().take(20).find_map(value)
}

/// The file name for the `n`th attempt to answer an ask, from 0: the one asked for first,
/// then later numbers, so that a wrong answer blocks nothing.
#[must_use]
pub fn answer_name(ask: &Ask, attempt: u32, today: jiff::civil::Date) -> Option<String> {
    if attempt == 0 {
        return ask.approval_path.rsplit('/').next().map(ToString::to_string);
    }
    let number = ask.occurrence.checked_add(attempt)?;
    let escalation = |kind| DocumentName::EscalationApproval { kind, number };
    let name = match ask.purpose()? {
        Purpose::Cut => DocumentName::Approval { gate: AuthorizationGate::Cut, occurrence: number },
        Purpose::Lifecycle => {
            DocumentName::Approval { gate: AuthorizationGate::Lifecycle, occurrence: number }
        }
        Purpose::Resume => escalation(EscalationKind::Resume),
        Purpose::Drift => escalation(EscalationKind::DriftAck),
        Purpose::Void => escalation(EscalationKind::Void),
    };
    Some(name.file_name(today))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::run::GateId;
    use alloc::format;

    fn run() -> RunId {
        "ictr-20260520T101112Z-019e44f1-2a00-7123-8abc-0123456789ab".parse().unwrap()
    }

    #[test]
    fn a_folder_fits_its_runs_day() {
        let folder = |suffix: &str| format!("knowledge/dev/laws/x/v008a06ace23a96ea-automation-cut-{suffix}");
        assert!(may_be_folder_of(&folder("20260520"), &run()));
        assert!(may_be_folder_of(&folder("20260520-1011"), &run()));
        assert!(!may_be_folder_of(&folder("20260521"), &run()));
        assert!(!may_be_folder_of("knowledge/dev/laws/x", &run()));
    }

    #[test]
    fn the_documents_of_a_folder_are_all_that_lie_in_it() {
        let day = "knowledge/dev/laws/x/v008a06ace23a96ea-automation-cut-20260520";
        let paths = [
            format!("{day}-1011/01-source-pin-2026-05-20.md"),
            format!("{day}/01-source-pin-2026-05-20.md"),
            format!("{day}/kept/01-source-pin-2026-05-20.md"),
            format!("{day}/02-mark-2026-05-20.md"),
            "knowledge/dev/laws/x/v008a06ace23a96ea-automation-cut-20260521/02-mark-2026-05-21.md".into(),
            "index.md".into(),
        ];
        let later = format!("{day}-1011");
        let expected = [
            (later.as_str(), alloc::vec![&*paths[0]]),
            (day, paths[1..4].iter().map(String::as_str).collect()),
        ];
        assert_eq!(folders_of(&paths, &run()), expected.into_iter().collect());
        assert_eq!(folder_over(paths[1..4].iter().rev().map(String::as_str)), day);
        assert_eq!(folder_over(core::iter::empty()), "");
    }

    #[test]
    fn only_requests_and_stop_reports_ask() {
        assert!(may_ask("a/SG1-cut-authz-request-2026-05-20.md"));
        assert!(may_ask("a/stop-route-report-2-2026-05-20.md"));
        assert!(!may_ask("a/SG1-cut-authz-approval-2026-05-20.md"));
        assert!(!may_ask("a/02-mark-2026-05-20.md"));
    }

    #[test]
    fn a_wrong_answer_blocks_nothing() {
        let ask = Ask {
            gate: GateId::CutAuthz,
            occurrence: 1,
            approval_type: Purpose::Cut.to_string(),
            required: Default::default(),
            expected_actor: None,
            approval_path: "f/SG1-cut-authz-approval-2026-05-20.md".into(),
            request_path: "f/SG1-cut-authz-request-2026-05-20.md".into(),
        };
        let today: jiff::civil::Date = "2026-05-21".parse().unwrap();
        let names: Vec<String> = (0..3).filter_map(|n| answer_name(&ask, n, today)).collect();
        assert_eq!(
            names,
            [
                "SG1-cut-authz-approval-2026-05-20.md",
                "SG1-cut-authz-approval-2-2026-05-21.md",
                "SG1-cut-authz-approval-3-2026-05-21.md"
            ]
        );
        assert!(names.iter().all(|n| DocumentName::parse(n).is_ok()));
    }

    #[test]
    fn asks_of_this_run_come_oldest_first_by_when_they_were_fixed() {
        let document = |at: &str, occurrence: u32, run: &str| {
            let ask = Ask {
                gate: GateId::CutAuthz,
                occurrence,
                approval_type: Purpose::Cut.to_string(),
                required: [("run_id".to_string(), run.to_string())].into(),
                expected_actor: None,
                approval_path: format!("f/SG1-cut-authz-approval-{occurrence}-2026-05-20.md"),
                request_path: "f/r".into(),
            };
            let path = format!("f/SG1-cut-authz-request-{occurrence}-2026-05-20.md");
            let fixed = "2026-05-20T00:00:00Z".parse().unwrap();
            let verdict = crate::record::effect::ReviewVerdict::Approve;
            let text = crate::record::approval::render_approval(
                &ask,
                verdict,
                "ada",
                fixed,
                None,
                &Default::default(),
            );
            (
                path,
                format!(
                    "# request\n\n> at: \"{at}\"\n\nPath of the answer: `{}`\n\n```text\n{text}```\n",
                    ask.approval_path
                ),
            )
        };
        let own = run().to_string();
        let documents = [
            document("2026-05-22T00:00:00Z", 1, &own),
            document("2026-05-20T00:00:00Z", 3, &own),
            document("2026-05-21T00:00:00Z", 2, "another"),
            document("2026-05-20T00:00:00Z", 2, &own),
        ];
        let order = |documents: &[(String, String)]| -> Vec<u32> {
            asks(documents, &run()).iter().map(|asked| asked.ask.occurrence).collect()
        };
        assert_eq!(order(&documents), [2, 3, 1]);
        let close = [document("2026-05-20T00:00:00.2Z", 1, &own), document("2026-05-20T00:00:00Z", 2, &own)];
        assert_eq!(order(&close), [2, 1]);
    }

    #[test]
    fn the_newest_ask_wins_and_a_void_is_never_guessed() {
        let asked = |purpose: Purpose, at: &str| Asked {
            ask: Ask {
                gate: GateId::LifecycleAuthz,
                occurrence: 1,
                approval_type: purpose.to_string(),
                required: Default::default(),
                expected_actor: None,
                approval_path: "a".into(),
                request_path: "r".into(),
            },
            at: at.into(),
            text: String::new(),
        };
        let newest = |asks, purpose| newest(asks, purpose, |_| true);
        let all = [asked(Purpose::Cut, "1"), asked(Purpose::Resume, "2"), asked(Purpose::Void, "2")];
        assert!(newest(&all, None).unwrap().ask.is_for(Purpose::Resume));
        assert!(newest(&all, Some(Purpose::Void)).unwrap().ask.is_for(Purpose::Void));
        assert_eq!(newest(&all, Some(Purpose::Lifecycle)), None);
        assert_eq!(newest(&all[2..], None), None);
        // a stop is asked about until the run asks something newer; a gate's request stands beside a stop
        let mut later = all.to_vec();
        later.push(Asked {
            ask: Ask { request_path: "r2".into(), ..all[0].ask.clone() },
            ..asked(Purpose::Void, "3")
        });
        for purpose in [Purpose::Resume, Purpose::Void] {
            assert_eq!(newest(&later, Some(purpose)), None);
        }
        assert_eq!(newest(&later, None).unwrap().ask.request_path, "r2");
        assert!(newest(&all, Some(Purpose::Cut)).is_some());
        // the newest stop is answered: the one before is not asked about again
        let before = Asked {
            ask: Ask { request_path: "r0".into(), ..all[1].ask.clone() },
            ..asked(Purpose::Void, "1")
        };
        let two = [all[0].clone(), before, all[1].clone()];
        let open = super::newest(&two, None, |asked| asked.at != "2").unwrap();
        assert!(open.ask.is_for(Purpose::Cut));
    }

    #[test]
    fn a_header_is_read_at_the_head_alone() {
        let text = |lines: usize| format!("# title\n{}> at: \"x\"\n", "> k: v\n".repeat(lines));
        assert_eq!(header(&text(18), "at").as_deref(), Some("x"));
        assert_eq!(header(&text(19), "at"), None);
    }
}
