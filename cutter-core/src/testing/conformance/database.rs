//! The contract of the database port: reader, executor, reviewer and verifier together, since
//! what one writes the others must see, and nothing but that.

mod asks;
mod chain;
mod constraints;
mod fencing;
mod sources;
mod statements;

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::any::Any;
use core::future::Future;

use super::{Broken, ConformanceFailure, Held, contracts};
use crate::port::backup::BackupSource;
use crate::port::database::{Begun, Executor, Reader, Reviewer, Verifier};
use crate::port::{PortErrorKind, PortResult};
use crate::record::effect::Verdict;

use asks::*;
use chain::*;
use constraints::*;
use fencing::*;
use sources::*;
use statements::*;

/// Loses the answer of the next COMMIT; the argument says whether the commit takes place.
pub type LoseAnswer = Box<dyn Fn(bool) + Send + Sync>;

/// A fresh database with all principals.
pub struct DatabaseUnderTest {
    /// `cutter_ro`.
    pub reader: Arc<dyn Reader>,
    /// `cutter_exec`.
    pub executor: Arc<dyn Executor>,
    /// `cutter_review`.
    pub reviewer: Arc<dyn Reviewer>,
    /// `cutter_verify`.
    pub verifier: Arc<dyn Verifier>,
    /// The source of its backups.
    pub backup_source: Arc<dyn BackupSource>,
    /// Where the implementation can lose answers; without it, that contract says only that it
    /// was not tried.
    pub lose_answer: Option<LoseAnswer>,
    /// What must outlive the instance.
    pub keep: Option<Box<dyn Any + Send + Sync>>,
}

/// Checks every contract; gives the names of those that held.
///
/// # Errors
/// The first contract that is not kept.
pub async fn run_all<B, F>(build: B) -> Result<Vec<&'static str>, ConformanceFailure>
where
    B: Fn() -> F,
    F: Future<Output = PortResult<DatabaseUnderTest>>,
{
    contracts!(
        "database",
        build,
        [
            the_schema_is_known_and_the_vocabularies_are_there,
            a_source_is_registered_by_digest,
            a_registration_whose_digest_is_wrong_is_refused,
            a_survey_has_every_dimension_and_stands_still,
            the_grant_probe_is_clean_and_ordered,
            a_backup_streams_in_chunks_and_sums_up,
            the_base_state_does_not_follow_the_run_s_own_rows,
            every_take_raises_the_epoch,
            a_stale_fence_is_refused,
            another_holder_of_the_same_epoch_is_refused,
            a_fence_taken_in_between_ends_or_waits_for_the_older_transaction,
            of_many_drivers_one_effect_stands,
            nothing_is_visible_before_finish,
            rollback_and_drop_leave_nothing,
            the_same_payload_gives_the_record_and_another_conflicts,
            a_request_that_is_not_the_effect_is_refused,
            a_passed_deadline_ends_the_call,
            an_unknown_outcome_is_found_under_its_key,
            a_whole_run_moves_what_it_must_and_nothing_else,
            every_effect_observes_its_facts,
            the_evidence_tells_the_whole_story,
            structural_counts_are_those_of_the_rows,
            units_are_listed_by_ordinal_in_pages,
            a_swept_entry_may_be_swept_again,
            a_failed_verify_commits_its_own_record,
            a_void_marks_rows_and_frees_their_keys,
            a_decision_moves_the_entry_as_it_says,
            one_live_entry_per_mark_key,
            one_live_change_set_per_version,
            an_approval_document_and_a_nonce_serve_once,
            an_approval_is_used_by_one_effect,
            without_approval_nothing_is_cut,
            a_rejected_entry_is_not_cut,
            leg_b_and_verify_are_recorded_once,
            a_review_decision_is_not_used_again,
            nothing_is_enacted_without_consent,
            enacted_units_cannot_be_voided,
            content_that_does_not_hash_is_not_stored,
            an_ask_is_stored_once_and_stays_what_it_was,
            every_answer_is_kept_once_and_says_what_it_says,
            a_refusal_outweighs_an_approval_until_it_is_relied_on,
            an_answer_after_it_was_relied_on_is_late,
            a_decision_without_a_fence_leaves_what_an_effect_leaves,
            a_decision_is_refused_where_the_ask_is_closed_or_refused,
            an_approval_of_no_ask_is_not_relied_on,
            a_statement_is_about_what_is_in_force,
        ]
    )
}

/// The kinds of error that say: this may not be.
const REFUSALS: [PortErrorKind; 4] =
    [PortErrorKind::Conflict, PortErrorKind::Denied, PortErrorKind::NotFound, PortErrorKind::Invalid];

/// An effect that must not be committed: refused at `begin`, or at `finish` whatever the judge
/// says. Where it is refused late, `seen` looks at the facts that a gate would judge.
async fn never_commits(what: &str, begun: PortResult<Begun>, seen: (&str, &[&str])) -> Held {
    match begun {
        Err(error) if REFUSALS.contains(&error.kind) => Ok(()),
        Err(error) => Err(Broken::new(alloc::format!("{what} refused"), alloc::format!("{error}"))),
        Ok(Begun::Recorded(_)) => Err(Broken::new(alloc::format!("{what} refused"), "a record")),
        Ok(Begun::Pending(pending)) => {
            let (name, allowed) = seen;
            let fact = pending.facts().values.get(name).cloned();
            let shown = fact.as_deref().unwrap_or("absent");
            super::holds(
                &alloc::format!("{what}: {name} one of {allowed:?}"),
                allowed.contains(&shown),
                shown,
            )?;
            super::refused(what, &REFUSALS, pending.finish(Verdict::Commit).await)
        }
    }
}
