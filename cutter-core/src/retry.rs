//! Retry and failure budgets (AG-ORCH-03).
