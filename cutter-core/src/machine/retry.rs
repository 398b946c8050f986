//! Retries: deterministic, bounded exponential backoff (spec 4, AG-ORCH-03).
//!
//! [`decide`] is a pure function of the policy, the counts and a seed: the same question gets
//! the same answer on every machine, so a recorded decision can be checked later. It neither
//! sleeps nor counts; whoever calls it does.

use crate::base::limits::{KB_UPLOAD_BASE_MS, KB_UPLOAD_CAP_MS, KB_UPLOAD_RETRIES};
use crate::machine::spelled;
use crate::machine::work_item::WorkItemState;

/// How often, and how far apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct RetryPolicy {
    /// Attempts in all, the first included.
    pub max_attempts: u32,
    /// Failures that use the budget up.
    pub max_failures: u32,
    /// Delay before the second attempt, in milliseconds; 0 counts as 1.
    pub base_ms: u64,
    /// Longest delay, in milliseconds; 0 counts as 1.
    pub cap_ms: u64,
    /// How much of a delay the seed may take away, in percent; above 100 counts as 100.
    pub jitter: u8,
}

impl RetryPolicy {
    /// Uploads to the knowledge base: three retries, at most 30 s apart (spec 2 §3).
    #[must_use]
    pub const fn kb_upload() -> Self {
        Self {
            max_attempts: KB_UPLOAD_RETRIES + 1,
            max_failures: KB_UPLOAD_RETRIES + 1,
            base_ms: KB_UPLOAD_BASE_MS,
            cap_ms: KB_UPLOAD_CAP_MS,
            jitter: 20,
        }
    }

    /// Items of the work queue: five attempts, 1 s to 5 min apart.
    #[must_use]
    pub const fn work_item() -> Self {
        Self { max_attempts: 5, max_failures: 5, base_ms: 1_000, cap_ms: 300_000, jitter: 20 }
    }

    /// Items that drive a run: twenty attempts, 1 s to 30 s apart. A run is resumed and not begun
    /// anew, so an attempt costs little, and workers that die must not use it up.
    #[must_use]
    pub const fn run_item() -> Self {
        Self { max_attempts: 20, max_failures: 20, base_ms: 1_000, cap_ms: 30_000, jitter: 20 }
    }

    /// The delay after `attempts` attempts, in milliseconds: base doubled for every attempt
    /// after the first, capped, less the jitter; never 0, never above the cap.
    #[must_use]
    pub fn delay_ms(&self, attempts: u32, seed: u64) -> u64 {
        let cap = self.cap_ms.max(1);
        let factor = 1_u64.checked_shl(attempts.saturating_sub(1)).unwrap_or(u64::MAX);
        let full = self.base_ms.max(1).saturating_mul(factor).min(cap);
        let span = u128::from(full) * u128::from(self.jitter.min(100)) / 100;
        let taken = u128::from(mix(seed, attempts)) * (span + 1) / (1 << 64);
        // `taken` ≤ `span` ≤ `full`, so it fits
        full.saturating_sub(u64::try_from(taken).unwrap_or(u64::MAX)).max(1)
    }
}

/// Spreads (seed, attempts) over all 64-bit values (the finaliser of SplitMix64).
const fn mix(seed: u64, attempts: u32) -> u64 {
    let mut x = seed.wrapping_add((attempts as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// Why no further attempt is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RetryReasonCode {
    /// All attempts are used.
    MaxAttempts,
    /// The failure budget is used.
    MaxFailures,
    /// The work has ended already; its end is immutable.
    AlreadyTerminal,
    /// The risk gate refused a side-effecting retry (AG-RISK).
    RiskDenied,
}

spelled!(RetryReasonCode, "retry reason code", {
    MaxAttempts => "max_attempts_exhausted",
    MaxFailures => "max_failures_exhausted",
    AlreadyTerminal => "already_terminal",
    RiskDenied => "risk_denied",
});

/// The answer to "once more?".
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RetryDecision {
    /// Wait, then try again.
    Retry {
        /// How long to wait, in milliseconds.
        delay_ms: u64,
        /// The number of the attempt that follows; the first of all is 1.
        attempt: u32,
        /// Where the work waits: always `awaiting_tool`.
        next_state: WorkItemState,
    },
    /// No more.
    Exhausted {
        /// Why.
        reason_code: RetryReasonCode,
    },
}

impl RetryDecision {
    /// The work item's next state by the decision matrix.
    #[must_use]
    pub const fn next_state(&self) -> WorkItemState {
        match self {
            Self::Retry { next_state, .. } => *next_state,
            Self::Exhausted { .. } => WorkItemState::Failed,
        }
    }

    /// The decision after the risk gate was asked: a denied retry is exhausted.
    #[must_use]
    pub const fn after_risk_gate(self, allowed: bool) -> Self {
        match self {
            Self::Retry { .. } if !allowed => Self::Exhausted { reason_code: RetryReasonCode::RiskDenied },
            _ => self,
        }
    }
}

/// Decides by the matrix of spec 4. `attempts` and `failures` are those made so far, the one
/// that just failed included; `terminal` says that the work has ended already.
#[must_use]
pub fn decide(
    policy: &RetryPolicy,
    attempts: u32,
    failures: u32,
    terminal: bool,
    seed: u64,
) -> RetryDecision {
    let reason_code = if terminal {
        RetryReasonCode::AlreadyTerminal
    } else if attempts >= policy.max_attempts {
        RetryReasonCode::MaxAttempts
    } else if failures >= policy.max_failures {
        RetryReasonCode::MaxFailures
    } else {
        return RetryDecision::Retry {
            delay_ms: policy.delay_ms(attempts, seed),
            attempt: attempts + 1,
            next_state: WorkItemState::AwaitingTool,
        };
    };
    RetryDecision::Exhausted { reason_code }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::vec::Vec;

    const POLICY: RetryPolicy =
        RetryPolicy { max_attempts: 5, max_failures: 3, base_ms: 100, cap_ms: 1_000, jitter: 0 };

    #[test]
    fn matrix_within_budget_retries_with_bounded_backoff() {
        let decision = decide(&POLICY, 2, 2, false, 0);
        let expected =
            RetryDecision::Retry { delay_ms: 200, attempt: 3, next_state: WorkItemState::AwaitingTool };
        assert_eq!(decision, expected);
        assert_eq!(decision.next_state(), WorkItemState::AwaitingTool);
    }

    #[test]
    fn matrix_max_attempts_exhausted_fails() {
        let decision = decide(&POLICY, 5, 1, false, 0);
        assert_eq!(decision, RetryDecision::Exhausted { reason_code: RetryReasonCode::MaxAttempts });
        assert_eq!(decision.next_state(), WorkItemState::Failed);
        assert!(matches!(decide(&POLICY, 4, 1, false, 0), RetryDecision::Retry { attempt: 5, .. }));
    }

    #[test]
    fn matrix_max_failures_exhausted_fails() {
        let decision = decide(&POLICY, 3, 3, false, 0);
        assert_eq!(decision, RetryDecision::Exhausted { reason_code: RetryReasonCode::MaxFailures });
        assert_eq!(decision.next_state(), WorkItemState::Failed);
    }

    #[test]
    fn matrix_terminal_stays_failed_whatever_the_budget() {
        let decision = decide(&POLICY, 0, 0, true, 0);
        assert_eq!(decision, RetryDecision::Exhausted { reason_code: RetryReasonCode::AlreadyTerminal });
        assert_eq!(decision.next_state(), WorkItemState::Failed);
    }

    #[test]
    fn a_denied_risk_ends_a_retry_and_changes_no_other_reason() {
        let retry = decide(&POLICY, 1, 1, false, 0);
        let denied = retry.after_risk_gate(false);
        assert_eq!(denied, RetryDecision::Exhausted { reason_code: RetryReasonCode::RiskDenied });
        assert_eq!(retry.after_risk_gate(true), retry);
        let exhausted = decide(&POLICY, 5, 1, false, 0);
        assert_eq!(exhausted.after_risk_gate(false), exhausted);
        assert_eq!(RetryReasonCode::RiskDenied.as_str(), "risk_denied");
    }

    #[test]
    fn a_kb_upload_is_tried_four_times() {
        let policy = RetryPolicy::kb_upload();
        let mut made = 1;
        let mut delays = Vec::new();
        while let RetryDecision::Retry { delay_ms, attempt, .. } = decide(&policy, made, made, false, 7) {
            delays.push(delay_ms);
            made = attempt;
        }
        assert_eq!((made, delays.len()), (4, 3));
        assert!(delays.iter().all(|&d| d <= 30_000) && delays.windows(2).all(|w| w[0] < w[1]));
    }

    fn any_policy() -> impl Strategy<Value = RetryPolicy> {
        (any::<u32>(), any::<u32>(), any::<u64>(), any::<u64>(), any::<u8>()).prop_map(
            |(max_attempts, max_failures, base_ms, cap_ms, jitter)| RetryPolicy {
                max_attempts,
                max_failures,
                base_ms,
                cap_ms,
                jitter,
            },
        )
    }

    proptest! {
        #[test]
        fn delays_are_bounded_and_repeatable(
            policy in any_policy(), attempts in any::<u32>(), seed in any::<u64>(),
        ) {
            let delay = policy.delay_ms(attempts, seed);
            prop_assert!(delay >= 1 && delay <= policy.cap_ms.max(1));
            prop_assert_eq!(delay, policy.delay_ms(attempts, seed));
            let plain = RetryPolicy { jitter: 0, ..policy }.delay_ms(attempts, seed);
            prop_assert!(delay <= plain);
            let taken = u128::from(plain - delay) * 100;
            prop_assert!(taken <= u128::from(plain) * u128::from(policy.jitter.min(100)));
        }

        #[test]
        fn without_jitter_delays_never_fall(policy in any_policy(), attempts in 0..200_u32) {
            let policy = RetryPolicy { jitter: 0, ..policy };
            prop_assert!(policy.delay_ms(attempts, 0) <= policy.delay_ms(attempts + 1, 0));
        }

        #[test]
        fn budgets_bind(
            policy in any_policy(), attempts in any::<u32>(), failures in any::<u32>(), terminal: bool,
        ) {
            let within = !terminal && attempts < policy.max_attempts && failures < policy.max_failures;
            let retries = matches!(decide(&policy, attempts, failures, terminal, 1), RetryDecision::Retry { .. });
            prop_assert_eq!(retries, within);
        }

        #[test]
        fn seeds_spread_the_delays(seed in any::<u64>()) {
            let policy = RetryPolicy { max_attempts: 9, max_failures: 9, base_ms: 1 << 40, cap_ms: 1 << 40, jitter: 50 };
            let delays: std::collections::BTreeSet<_> =
                (0..32).map(|i| policy.delay_ms(1, seed.wrapping_add(i))).collect();
            prop_assert!(delays.len() >= 31);
        }
    }
}
