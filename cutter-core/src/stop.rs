//! Stops.
