//! A text becomes units: profiles, markers, addresses, the plan of a cut, and two versions compared.
//!
//! Uses `base` and `machine`. It refuses to know runs, approvals and databases: the same bytes give the same
//! units wherever they are cut.

pub mod address;
pub mod compare;
pub mod detect;
pub mod mark;
pub mod plan;
pub mod profile;
