//! What surrounds a run: workers, the review duty, and whoever looks from outside (`why`, `verify`, `recover`).
//!
//! Uses everything above it. A run refuses to know that it is there.

pub mod command;
pub mod fleet;
pub mod inspect;
pub mod review;
