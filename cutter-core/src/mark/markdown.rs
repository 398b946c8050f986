//! The Markdown marker.
