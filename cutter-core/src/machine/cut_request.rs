//! The cut_request machine (spec 5).
