//! Every bound, and why.
