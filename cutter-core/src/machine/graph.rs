//! Transition tables as Mermaid, DOT and JSON.
