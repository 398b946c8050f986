//! What may be typed next.

use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use super::CutRequest;
use crate::machine::cut_request::CutRequestStatus as S;

/// The commands that bring a request on, the likeliest first; none at its end.
#[must_use]
pub fn next_commands(request: &CutRequest) -> Vec<String> {
    let id = request.cut_request_id;
    let step = |step: &str, options: &str| {
        let gap = if options.is_empty() { "" } else { " " };
        format!("cutter request {step} --request-id {id}{gap}{options}")
    };
    match request.status {
        S::Requested => vec![step("copy", "")],
        S::Copied | S::MarkInProgress | S::MarkRejected => vec![step("mark", "")],
        S::Marked => vec![
            step("show", "--units"),
            step("verify-mark", "--approve --approval-doc DOCUMENT"),
            step("verify-mark", "--reject --reason TEXT"),
        ],
        S::MarkVerified => vec![step("cut", "")],
        S::CutInProgress | S::CutDone => {
            let mut commands: Vec<String> =
                request.run_id().iter().map(|run| format!("cutter why --run-id {run}")).collect();
            commands.push(step("cut", ""));
            commands
        }
        S::CutVerified => {
            let mut commands = vec![step("complete", "")];
            commands.extend(request.run_id().map(|run| format!("cutter why --run-id {run}")));
            commands
        }
        S::Completed | S::CleanupScheduled => vec!["cutter request cleanup".into()],
        S::CutFailed => request.run_id().iter().map(|run| format!("cutter why --run-id {run}")).collect(),
        S::Cleaned => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::Timestamp;
    use std::string::ToString as _;
    use uuid::Uuid;

    #[test]
    fn every_status_but_the_ends_names_a_command_for_this_request() {
        for &status in S::ALL {
            let mut request = CutRequest::new(
                Uuid::from_u128(7),
                "law.md".into(),
                "file".into(),
                "c".into(),
                Timestamp::UNIX_EPOCH,
            );
            request.status = status;
            let next = next_commands(&request);
            assert_eq!(next.is_empty(), matches!(status, S::Cleaned | S::CutFailed), "{status}");
            for command in &next {
                let is_of_all = command == "cutter request cleanup";
                assert!(is_of_all || command.contains(&request.cut_request_id.to_string()), "{command}");
            }
        }
    }
}
