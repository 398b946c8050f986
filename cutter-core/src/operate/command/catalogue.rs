//! How each side effect of the system itself keeps the contract of a command: its kind, its key,
//! where intent and outcome are recorded, what the same key does again, and what another payload
//! meets.
//!
//! A run's effects are commands whose ledger is `run_effect`: the intent stands in the sidecar,
//! the effect and its outcome are one transaction, and so there is nothing between them to ask an
//! adapter for. The others write one object or one transaction under a key of their own. A test
//! compares [`SIDE_EFFECTS`] and [`READS`] with the ports' own methods, so no
//! write can be added without its line here.

use alloc::format;

mod reads;

pub use reads::READS;

use crate::record::command::{CommandKey, InvalidCommand};
use crate::record::effect::{EffectKey, EffectName};

/// One kind of write, and how it keeps the contract.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SideEffect {
    /// The kind, spelled as a command's.
    pub kind: &'static str,
    /// The port's method, `Trait.method`.
    pub operation: &'static str,
    /// What the idempotency key is.
    pub key: &'static str,
    /// Where it is recorded.
    pub recorded: &'static str,
    /// What the same key and payload does again.
    pub replay: &'static str,
    /// What the same key and another payload meets.
    pub conflict: &'static str,
}

const fn effect(
    kind: &'static str,
    operation: &'static str,
    key: &'static str,
    recorded: &'static str,
    replay: &'static str,
    conflict: &'static str,
) -> SideEffect {
    SideEffect { kind, operation, key, recorded, replay, conflict }
}

/// An effect of a run: one transaction with its row.
const fn of_run(kind: &'static str, operation: &'static str) -> SideEffect {
    effect(
        kind,
        operation,
        "(run, effect, occurrence); its ids in the intent",
        "`run_effect`, in the effect's own transaction",
        "the stored facts are judged again; no write",
        "`STOP_REPLAY_CONFLICT`",
    )
}

const ON_REQUEST: &str = "`cut_request` and `cut_request_transition`, one transaction";
const ON_BACKLOG: &str = "`decision_backlog_history` and its decision or sweep row, one transaction";
const ON_QUEUE: &str = "the queue's tables, one statement";
const STANDS: &str = "gives what stands; no write";
const REFUSED: &str = "`Conflict`, with the judgement's text";

/// Every write that a port has, the effects of a run one by one.
pub const SIDE_EFFECTS: &[SideEffect] = &[
    of_run("run.mark", "Executor.begin"),
    of_run("run.sweep", "Executor.begin"),
    of_run("run.sg1_review", "Reviewer.begin"),
    of_run("run.leg_a", "Executor.begin"),
    of_run("run.leg_b", "Executor.begin"),
    of_run("run.write_verify", "Verifier.begin"),
    of_run("run.sg2_request", "Executor.begin"),
    of_run("run.sg2_review", "Reviewer.begin"),
    of_run("run.enact", "Executor.begin"),
    of_run("run.sg3_review", "Reviewer.begin"),
    of_run("run.void", "Executor.begin"),
    of_run("run.commit", "PendingEffect.finish"),
    effect(
        "run.fence",
        "Executor.take_fence",
        "run id; a rising epoch",
        "`run_fence`",
        "raises the epoch again, which is what it is for",
        "none: a lower epoch is `Fenced` ever after",
    ),
    effect(
        "run.ask",
        "Executor.open_ask",
        "(run id, gate, occurrence)",
        "`approval_ask`",
        "no write",
        "`Conflict`",
    ),
    effect(
        "run.answers",
        "Reviewer.record_answers",
        "(run id, gate, occurrence, sha256)",
        "`approval_answer`, one transaction",
        "no write",
        "another document is another answer",
    ),
    effect(
        "run.decision",
        "Reviewer.record_decision",
        "(run id, gate, occurrence, sha256)",
        "`review_decision`, `review_approval`, `decision_backlog_history`, `run_effect`, one transaction",
        "no write",
        "another approval of the ask is refused",
    ),
    effect(
        "run.statement",
        "Executor.store_statement",
        "(run id, sha256)",
        "`run_statement`, the executor's `statement_signature`, one transaction",
        "no write",
        "another statement stands beside it, and counts only if both duties sign it",
    ),
    effect(
        "run.statement_signature",
        "Verifier.sign_statement",
        "(run id, sha256)",
        "the verifier's `statement_signature`",
        "no write",
        "another signature stands beside it: what is none counts for nothing",
    ),
    effect(
        "source.register",
        "Executor.register_source",
        "(document id, sha256)",
        "`source_document`, `source_version`",
        "the newest version has these bytes: no write",
        "other bytes are a new version; a digest that is not theirs is refused",
    ),
    effect(
        "policy.append",
        "PolicyStore.append",
        "the event's number",
        "`policy_event`, `policy_key`, one transaction",
        "`AlreadyApplied`",
        "`CasOutcome::Conflict`; an event that does not follow the last, too",
    ),
    effect(
        "run_record.create",
        "RunStore.create",
        "run id",
        "revision 1 of the sidecar, create-only",
        "`AlreadyApplied`",
        "`CasOutcome::Conflict`",
    ),
    effect(
        "run_record.begin",
        "RunStore.begin",
        "run id; (document id, generation)",
        "revision 1, the lock and the claim, as by the three calls",
        "as theirs",
        "as theirs, in their order",
    ),
    effect(
        "run_record.publish",
        "RunStore.publish",
        "(run id, revision)",
        "that revision of the sidecar, create-only",
        "`AlreadyApplied`",
        "`CasOutcome::Conflict`; the driver stops",
    ),
    effect(
        "run_record.publish_last",
        "RunStore.publish_last",
        "(run id, revision)",
        "that revision of the sidecar, create-only; the lock is given back",
        "`AlreadyApplied`",
        "`CasOutcome::Conflict`; the driver stops",
    ),
    effect(
        "run_record.mirror",
        "RunStore.mirror",
        "(run id, name)",
        "a copy for people, derived from the record",
        "written again, the same bytes",
        "none: never read back",
    ),
    effect(
        "run_record.lock",
        "RunStore.lock",
        "run id",
        "the lock's file or row; released with its process",
        "`Busy` while another holds it",
        "none: it saves work, the fence keeps it right",
    ),
    effect(
        "run_record.lock_and_load",
        "RunStore.lock_and_load",
        "run id",
        "as the lock alone; the record is read under it",
        "`Busy` while another holds it",
        "none: it saves work, the fence keeps it right",
    ),
    effect(
        "run_record.request_stop",
        "RunStore.request_stop",
        "run id",
        "beside the sidecar, until a driver reads it",
        STANDS,
        "the first request stands",
    ),
    effect(
        "run_record.claim",
        "RunStore.put_claim",
        "(document id, generation)",
        "the claim, create-only",
        "`AlreadyApplied`",
        "`CasOutcome::Conflict`, with the run that holds it",
    ),
    effect(
        "kb.create",
        "KnowledgeBase.create",
        "path",
        "the document, create-only; name and sha256 in the sidecar before it",
        "`Identical`: counts as done",
        "`Different`: `STOP_KB_CONFLICT`",
    ),
    effect(
        "kb.append_index",
        "KnowledgeBase.append_index",
        "(index, run id)",
        "one line of the index; the line in the sidecar before it",
        "the same line is there: done",
        "another line: `STOP_KB_CONFLICT`",
    ),
    effect(
        "backup.begin",
        "BackupTarget.begin",
        "(run id, fence epoch)",
        "nothing until it is finished",
        "a new stream; the one before is not published",
        "none",
    ),
    effect(
        "backup.write",
        "BackupSink.write",
        "its stream",
        "nothing until it is finished",
        "a new stream",
        "none",
    ),
    effect(
        "backup.publish",
        "BackupSink.finish",
        "(run id, fence epoch)",
        "`pre_write.<epoch>.gpg`, create-only; its digests in the sidecar",
        "the recorded blob is hashed again, never replaced",
        "another blob under the name is refused",
    ),
    effect(
        "backup.discard_unrecorded",
        "BackupTarget.discard_unrecorded",
        "(run id, recorded name)",
        "nothing: blobs that no record names go, under the run's lock",
        "nothing is left to go",
        "none: the recorded blob stays",
    ),
    effect("backlog.sweep", "Backlog.sweep", "sweep id", ON_BACKLOG, STANDS, REFUSED),
    effect("backlog.review", "Backlog.review", "review_decision id", ON_BACKLOG, STANDS, REFUSED),
    effect("backlog.requeue", "Backlog.requeue", "(entry, sweep id)", ON_BACKLOG, STANDS, REFUSED),
    effect("backlog.abandon", "Backlog.abandon", "entry id", ON_BACKLOG, STANDS, REFUSED),
    effect("request.add", "CutRequests.add", "cut_request_id", ON_REQUEST, STANDS, REFUSED),
    effect("request.copy", "CutRequests.copy", "(request, sha256)", ON_REQUEST, STANDS, REFUSED),
    effect("request.mark", "CutRequests.mark", "(request, manifest_digest)", ON_REQUEST, STANDS, REFUSED),
    effect(
        "request.verify_mark",
        "CutRequests.verify_mark",
        "(request, verdict)",
        ON_REQUEST,
        STANDS,
        REFUSED,
    ),
    effect("request.apply", "CutRequests.apply", "request", "`job_signal`, once while open", STANDS, REFUSED),
    effect("request.start_cut", "CutRequests.start_cut", "(request, run id)", ON_REQUEST, STANDS, REFUSED),
    effect(
        "request.catch_up",
        "CutRequests.catch_up",
        "(request, what the run did)",
        ON_REQUEST,
        STANDS,
        REFUSED,
    ),
    effect(
        "request.verify_cut",
        "CutRequests.verify_cut",
        "request",
        "`job_signal`, once while open",
        STANDS,
        REFUSED,
    ),
    effect("request.complete", "CutRequests.complete", "request", ON_REQUEST, STANDS, REFUSED),
    effect(
        "request.cleanup",
        "CutRequests.cleanup",
        "each request that is due",
        ON_REQUEST,
        "nothing is left to go",
        "none: a record outlives its bytes",
    ),
    effect(
        "signal.take",
        "CutRequests.take_signals",
        "signal id, until it is stale",
        "`job_signal`",
        "not given again until it is stale",
        "none: the request's status decides what a signal means",
    ),
    effect(
        "signal.finish",
        "CutRequests.finish_signal",
        "signal id",
        "`job_signal`",
        STANDS,
        "the first time stands",
    ),
    effect(
        "signature.executor_or_verifier",
        "Signer.sign",
        "its payload, which holds no clock value but the intent's",
        "`dot_pair_signature`, in the effect's transaction",
        "the same signature (Ed25519 is deterministic)",
        "another payload is another signature",
    ),
    effect(
        "signature.creation",
        "Signer.sign_creation",
        "the creation text",
        "the sidecar, at the run's creation",
        "read from the record",
        "another text does not verify",
    ),
    effect(
        "command.claim",
        "CommandLedger.claim",
        "the command's key, and a holder",
        "`command`, `command_attempt`",
        "the outcome, or the open attempt",
        "`Judgement::Conflict`",
    ),
    effect(
        "command.settle",
        "CommandLedger.settle",
        "(key, epoch)",
        "`command_settlement`",
        STANDS,
        "`Conflict`; a lower epoch is `Fenced`",
    ),
    effect(
        "queue.enqueue",
        "WorkQueue.enqueue",
        "the item's key",
        ON_QUEUE,
        "the recorded item, wherever it stands",
        "`enqueue.same_payload`; nothing of the batch is written",
    ),
    effect(
        "queue.claim",
        "WorkQueue.claim",
        "none: whoever asks gets what is next",
        ON_QUEUE,
        "other items; a lease whose answer was lost runs out",
        "none: every claim raises the item's epoch",
    ),
    effect(
        "queue.take_over",
        "WorkQueue.take_over",
        "(item, epoch)",
        "`work_lease`, and the lost attempt in `work_attempt`",
        "other items; a lease whose answer was lost runs out",
        "none: every takeover raises the item's epoch",
    ),
    of_holder("queue.heartbeat", "WorkQueue.heartbeat", "the lease begins anew"),
    of_holder("queue.complete", "WorkQueue.complete", "`Already`"),
    of_holder("queue.fail", "WorkQueue.fail", "`Already`"),
    of_holder("queue.await_user", "WorkQueue.await_user", "`Already`"),
    of_holder("queue.hand_back", "WorkQueue.hand_back", "`Already`"),
    effect("queue.ready", "WorkQueue.ready", "(item, gate)", ON_QUEUE, "`Already`", "`ready.gate`"),
    effect(
        "queue.take_watch",
        "WorkQueue.take_watch",
        "holder",
        "`work_watch`",
        "its lease begins anew",
        "`false`: another has the turn",
    ),
    effect(
        "queue.leave_watch",
        "WorkQueue.leave_watch",
        "holder",
        "`work_watch`",
        "nothing more",
        "none: another's turn stands",
    ),
    effect(
        "queue.cancel",
        "WorkQueue.cancel",
        "item",
        ON_QUEUE,
        "`Already`; the first reason stands",
        "what ended otherwise stays: the illegal transition",
    ),
    effect(
        "queue.retain",
        "WorkQueue.retain",
        "day (UTC)",
        "nothing: what ended on it goes, with its keys",
        "nothing is left to go",
        "none",
    ),
];

/// A write of an item's holder.
const fn of_holder(kind: &'static str, operation: &'static str, replay: &'static str) -> SideEffect {
    effect(
        kind,
        operation,
        "(item, epoch, holder)",
        "the one of `work_ready`, `work_wait`, `work_lease`, `work_done` that it moves to",
        replay,
        "`lease.token`: nothing is written",
    )
}

/// The kind of a run's effect. A new effect does not compile without one.
#[must_use]
pub const fn kind_of_effect(effect: EffectName) -> &'static str {
    match effect {
        EffectName::Mark => "run.mark",
        EffectName::Sweep => "run.sweep",
        EffectName::Sg1Review => "run.sg1_review",
        EffectName::LegA => "run.leg_a",
        EffectName::LegB => "run.leg_b",
        EffectName::WriteVerify => "run.write_verify",
        EffectName::Sg2Request => "run.sg2_request",
        EffectName::Sg2Review => "run.sg2_review",
        EffectName::Enact => "run.enact",
        EffectName::Sg3Review => "run.sg3_review",
        EffectName::Void => "run.void",
    }
}

/// A run effect's key as a command's: `<run id>/<effect>/<occurrence>`.
///
/// # Errors
/// [`InvalidCommand::Key`], which no run id gives.
pub fn effect_key(key: &EffectKey) -> Result<CommandKey, InvalidCommand> {
    CommandKey::new(&format!("{}/{}/{}", key.run_id, key.effect, key.occurrence))
}
