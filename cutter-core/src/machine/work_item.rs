//! The work item machine (spec 4).
