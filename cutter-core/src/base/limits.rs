//! Every bound of the system, and why it is what it is. Those that a deployment may change are
//! settings whose default stands here; the others are part of a stored format or a promise.

/// Units in one document (IG_mark). Setting; shown at SG1.
pub const MAX_CANDIDATES_PER_DOC: u64 = 1000;

/// Bytes of one source document: it is held in memory once, and its units once more.
pub const MAX_DOCUMENT_BYTES: u64 = 64 * 1024 * 1024;

/// Bytes of a sidecar. It holds no per-unit list, so it does not grow with the document, and
/// one publication stays one small write.
pub const SIDECAR_MAX_BYTES: usize = 64 * 1024;
/// From here on a stop that a plain resume gets over is told, and not recorded: what is left is kept for
/// decisions, an enactment with its closing, or a void.
pub const SIDECAR_STOPS_MAX_BYTES: usize = 48 * 1024;
/// What an enactment and its closing add to the sidecar: seen is 12.6 KiB, most of it the final report that is owed.
pub const SIDECAR_CLOSING_BYTES: usize = 13 * 1024 + 256;

/// Bytes of an explicit manifest among a run's settings, as JSON without spaces: the sidecar
/// holds it, beside everything else.
pub const SETTINGS_MANIFEST_MAX_BYTES: usize = 16 * 1024;
/// Lines of a phase report (spec 2 §2).
pub const REPORT_MAX_LINES: usize = 250;

/// Lines of the sidecar excerpt in a phase report (spec 2 §2).
pub const REPORT_EXCERPT_MAX_LINES: usize = 50;

/// Bytes of one line of the runs index, its newline not counted (D4: nine whole fields do not
/// fit into 200).
pub const INDEX_LINE_MAX: usize = 512;

/// Documents that an undisturbed run leaves: eleven phases and two requests (D3).
pub const KB_DOCUMENTS_PER_RUN: usize = 13;

/// Minutes of active time of one run (spec 1 §6). Setting; shown at SG1.
pub const RUN_HARD_CAP_MINUTES: u32 = 60;

/// Retries of a KB upload before STOP_KB_UPLOAD (spec 2 §3).
pub const KB_UPLOAD_RETRIES: u32 = 3;

/// First delay between KB uploads, in milliseconds.
pub const KB_UPLOAD_BASE_MS: u64 = 1_000;

/// Longest delay between KB uploads, in milliseconds (spec 2 §3).
pub const KB_UPLOAD_CAP_MS: u64 = 30_000;

/// Bytes of an approval document: a page of text and one signature fit many times.
pub const APPROVAL_MAX_BYTES: usize = 64 * 1024;

/// Bytes of any KB document that the orchestrator reads back.
pub const KB_DOCUMENT_MAX_BYTES: usize = 4 * 1024 * 1024;

/// Bytes of one component of a KB path: what common file systems hold.
pub const KB_PATH_COMPONENT_MAX: usize = 200;

/// Bytes of a whole KB path.
pub const KB_PATH_MAX: usize = 512;

/// Bytes of a reason in a stored state.
pub const SLUG_MAX: usize = 64;

/// Bytes of an actor's name, so that an index line holds it.
pub const ACTOR_MAX_BYTES: usize = 64;

/// Longest name of a person in the policy, in bytes.
pub const PERSON_MAX_BYTES: usize = 200;

/// Longest event of the policy, signature included, in bytes.
pub const POLICY_EVENT_MAX_BYTES: usize = 64 * 1024;

/// Longest public key that is kept beside the policy, armoured, in bytes.
pub const POLICY_KEY_MAX_BYTES: usize = 256 * 1024;

/// Bytes of a command's kind, say `deployment.create`.
pub const COMMAND_KIND_MAX_BYTES: usize = 64;

/// Bytes of a command's idempotency key.
pub const COMMAND_KEY_MAX_BYTES: usize = 200;

/// Bytes of a command's canonical body, and of a recorded outcome: a ledger keeps both for ever.
pub const COMMAND_BODY_MAX_BYTES: usize = 64 * 1024;

/// Bytes of the words with a failure; more is cut at a character.
pub const COMMAND_MESSAGE_MAX_BYTES: usize = 2_000;

/// Milliseconds for which whoever claimed a command holds it: an adapter's call ends well before.
pub const COMMAND_LEASE_MS: u64 = 60_000;

/// Days between completion of a cut request and the removal of its staging rows (spec 5).
pub const CLEANUP_AFTER_DAYS: u32 = 15;

/// Milliseconds that a statement waits for a lock (PROTOCOL §6).
pub const LOCK_TIMEOUT_MS: u64 = 5_000;

/// Milliseconds that a transaction may sit idle (PROTOCOL §6).
pub const IDLE_IN_TRANSACTION_TIMEOUT_MS: u64 = 15_000;

/// Milliseconds between the server's checks that the client still lives (PROTOCOL §6).
pub const CLIENT_CONNECTION_CHECK_INTERVAL_MS: u64 = 5_000;

/// Milliseconds that a reader's statement may take (PROTOCOL §6).
pub const READER_STATEMENT_TIMEOUT_MS: u64 = 30_000;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::phase::Phase;

    #[test]
    fn bounds_fit_into_each_other() {
        const { assert!(REPORT_EXCERPT_MAX_LINES < REPORT_MAX_LINES) };
        const { assert!(KB_PATH_COMPONENT_MAX < KB_PATH_MAX) };
        const { assert!(APPROVAL_MAX_BYTES <= KB_DOCUMENT_MAX_BYTES) };
        assert_eq!(KB_DOCUMENTS_PER_RUN, Phase::ALL.len() + 2);
        let longest = Phase::ALL.iter().map(|p| p.soft_cap_minutes()).max();
        assert!(longest < Some(RUN_HARD_CAP_MINUTES), "a phase fits into the run");
    }
}
