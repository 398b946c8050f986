//! Transition tables, and the one `step` that reads them.
pub mod backlog;
pub mod cut_request;
pub mod graph;
pub mod run;
pub mod work_item;
