//! Any table as a diagram: Mermaid, DOT or JSON. Nothing is drawn by hand, so a picture
//! cannot disagree with the machine.
//!
//! The run's three families of endings are outcomes and not rows; [`Diagram::run`] adds them
//! by asking [`RunState`] itself which endings are legal from each stage.

use alloc::borrow::ToOwned;
use alloc::string::String;
use alloc::vec::Vec;
use alloc::{format, vec};
use core::fmt::Write as _;

use serde::Serialize;

use super::run::{GateId, RUN, RunState, Stage, Trigger};
use super::{Spelled, TransitionTable, spelled};
use crate::machine::stop::{Slug, StopReason};

/// How to write a diagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum GraphFormat {
    /// A Mermaid `stateDiagram-v2`.
    Mermaid,
    /// A Graphviz `digraph`.
    Dot,
    /// One JSON document: `machine`, `initial`, `states`, `terminals`, `edges`.
    Json,
}

spelled!(GraphFormat, "graph format", {
    Mermaid => "mermaid",
    Dot => "dot",
    Json => "json",
});

/// One arrow.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Edge {
    /// Where it starts.
    pub from: String,
    /// Where it ends.
    pub to: String,
    /// What arrives.
    pub trigger: String,
    /// The gates that must pass.
    pub gates: Vec<String>,
}

/// A machine, ready to be drawn. Its serde form is the JSON document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Diagram {
    /// The machine's name.
    pub machine: String,
    /// Where it starts.
    pub initial: String,
    /// All states; families of states as a pattern, `failed_<gate>`.
    pub states: Vec<String>,
    /// The states that are ends.
    pub terminals: Vec<String>,
    /// All arrows.
    pub edges: Vec<Edge>,
}

/// The patterns of the run's three families.
pub const RUN_FAMILIES: [&str; 3] = ["failed_<gate>", "stopped_<reason>", "voided_<reason>"];

impl Diagram {
    /// The diagram of a table.
    #[must_use]
    pub fn of<S: Spelled, T: Spelled, G: Spelled>(table: &TransitionTable<S, T, G>) -> Self {
        let names = |states: &[S]| states.iter().map(|s| s.spelling().to_owned()).collect::<Vec<_>>();
        let edges = table.rows().iter().map(|row| Edge {
            from: row.from.spelling().to_owned(),
            to: row.to.spelling().to_owned(),
            trigger: row.trigger.spelling().to_owned(),
            gates: row.gates.iter().map(|gate| gate.spelling().to_owned()).collect(),
        });
        Self {
            machine: table.machine().to_owned(),
            initial: table.initial().spelling().to_owned(),
            states: names(table.states()),
            terminals: names(table.terminals()),
            edges: edges.collect(),
        }
    }

    /// The diagram of the run machine, its three families of endings included.
    #[must_use]
    pub fn run() -> Self {
        let mut diagram = Self::of(&RUN);
        let [failed, stopped, voided] = RUN_FAMILIES;
        diagram.states.extend(RUN_FAMILIES.map(str::to_owned));
        diagram.terminals.extend([failed.to_owned(), voided.to_owned()]);
        let mut add = |from: &str, to: &str, trigger: Trigger, gates: &[GateId]| {
            diagram.edges.push(Edge {
                from: from.to_owned(),
                to: to.to_owned(),
                trigger: trigger.as_str().to_owned(),
                gates: gates.iter().map(|gate| gate.as_str().to_owned()).collect(),
            });
        };
        let voids = |state: &RunState| Slug::from_words("v").is_ok_and(|reason| state.void(reason).is_ok());
        let mut voidable_families = false;
        for &stage in Stage::ALL {
            let state = RunState::At(stage);
            if state.fail(GateId::FailureEscalation).is_ok() {
                add(stage.as_str(), failed, Trigger::GateFailed, &[GateId::FailureEscalation]);
            }
            if let Ok(stop) = state.stop(&StopReason::Refused) {
                add(stage.as_str(), stopped, Trigger::Stop, &[GateId::FailureEscalation]);
                if stop.resume() == Ok(state.clone()) {
                    add(stopped, stage.as_str(), Trigger::Resume, &[]);
                }
            }
            if voids(&state) {
                voidable_families = true;
                add(stage.as_str(), voided, Trigger::Void, &[]);
            }
        }
        if voidable_families {
            add(failed, voided, Trigger::Void, &[]);
            add(stopped, voided, Trigger::Void, &[]);
        }
        diagram
    }

    /// Writes the diagram, ending in a newline.
    #[must_use]
    pub fn render(&self, format: GraphFormat) -> String {
        match format {
            GraphFormat::Mermaid => self.mermaid(),
            GraphFormat::Dot => self.dot(),
            GraphFormat::Json => self.json(),
        }
    }

    /// A Mermaid `stateDiagram-v2`. Arrows between the same two states share one line.
    #[must_use]
    pub fn mermaid(&self) -> String {
        let mut out = String::from("stateDiagram-v2\n");
        for state in self.states.iter().filter(|state| id(state) != **state) {
            let label = state.replace('<', "#lt;").replace('>', "#gt;");
            let _ = writeln!(out, "    state \"{label}\" as {}", id(state));
        }
        let _ = writeln!(out, "    [*] --> {}", id(&self.initial));
        for (from, to, label) in self.arrows() {
            let _ = writeln!(out, "    {} --> {}: {label}", id(from), id(to));
        }
        for terminal in &self.terminals {
            let _ = writeln!(out, "    {} --> [*]", id(terminal));
        }
        out
    }

    /// A Graphviz `digraph`; ends have a double border.
    #[must_use]
    pub fn dot(&self) -> String {
        let mut out =
            format!("digraph {} {{\n    rankdir=LR;\n    node [shape=box, style=rounded];\n", self.machine);
        out.push_str("    start [shape=point];\n");
        for state in &self.states {
            let peripheries = if self.terminals.contains(state) { " [peripheries=2]" } else { "" };
            let _ = writeln!(out, "    \"{state}\"{peripheries};");
        }
        let _ = writeln!(out, "    start -> \"{}\";", self.initial);
        for (from, to, label) in self.arrows() {
            let _ = writeln!(out, "    \"{from}\" -> \"{to}\" [label=\"{label}\"];");
        }
        out.push_str("}\n");
        out
    }

    /// One JSON document.
    #[must_use]
    pub fn json(&self) -> String {
        // strings and lists alone: serialisation has nothing to fail on
        let mut out = serde_json::to_string_pretty(self).unwrap_or_default();
        out.push('\n');
        out
    }

    /// Arrows with the same ends put together, in the order of the first of them.
    fn arrows(&self) -> Vec<(&str, &str, String)> {
        let mut out: Vec<(&str, &str, String)> = vec![];
        for edge in &self.edges {
            let mut label = edge.trigger.clone();
            if !edge.gates.is_empty() {
                let _ = write!(label, " [{}]", edge.gates.join(" + "));
            }
            match out.iter_mut().find(|(from, to, _)| *from == edge.from && *to == edge.to) {
                Some((_, _, labels)) => {
                    let _ = write!(labels, " / {label}");
                }
                None => out.push((&edge.from, &edge.to, label)),
            }
        }
        out
    }
}

/// A state's name as an identifier: a family's pattern loses its brackets.
fn id(state: &str) -> String {
    state.chars().filter(|c| c.is_ascii_alphanumeric() || *c == '_').collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::backlog::BACKLOG;
    use crate::machine::cut_request::CUT_REQUEST;
    use crate::machine::work_item::WORK_ITEM;
    use std::collections::BTreeSet;

    fn all() -> [Diagram; 4] {
        [Diagram::run(), Diagram::of(&BACKLOG), Diagram::of(&WORK_ITEM), Diagram::of(&CUT_REQUEST)]
    }

    #[test]
    fn json_holds_every_row() {
        for diagram in all() {
            let value: serde_json::Value = serde_json::from_str(&diagram.render(GraphFormat::Json)).unwrap();
            assert_eq!(value["machine"], diagram.machine.as_str());
            assert_eq!(value["edges"].as_array().unwrap().len(), diagram.edges.len());
            for key in ["states", "terminals"] {
                assert!(!value[key].as_array().unwrap().is_empty());
            }
            for edge in value["edges"].as_array().unwrap() {
                for end in ["from", "to"] {
                    assert!(diagram.states.iter().any(|s| edge[end] == s.as_str()));
                }
                assert!(edge["trigger"].is_string() && edge["gates"].is_array());
            }
        }
        assert_eq!(Diagram::of(&BACKLOG).edges.len(), BACKLOG.rows().len());
    }

    #[test]
    fn mermaid_and_dot_have_one_arrow_per_pair() {
        for diagram in all() {
            let pairs: BTreeSet<_> = diagram.edges.iter().map(|e| (&e.from, &e.to)).collect();
            let mermaid = diagram.render(GraphFormat::Mermaid);
            assert!(mermaid.starts_with("stateDiagram-v2\n"));
            let ends = diagram.terminals.len() + 1;
            assert_eq!(mermaid.matches(" --> ").count(), pairs.len() + ends, "{mermaid}");
            let dot = diagram.render(GraphFormat::Dot);
            assert_eq!(dot.matches(" -> ").count(), pairs.len() + 1, "{dot}");
            assert_eq!(dot.matches("peripheries=2").count(), diagram.terminals.len());
            assert!(dot.starts_with("digraph ") && dot.ends_with("}\n"));
            assert_eq!(dot.matches("\n    start [shape=point];\n").count(), 1, "{dot}");
            for line in mermaid.lines().filter(|l| l.contains(": ")) {
                let (ends, label) = line.split_once(": ").unwrap();
                assert!(!label.contains([':', ';']) && !ends.contains(['<', '(']), "{line}");
            }
        }
    }

    #[test]
    fn the_run_shows_its_three_families() {
        let run = Diagram::run();
        let count = |to: &str| run.edges.iter().filter(|e| e.to == to).count();
        assert_eq!(count("failed_<gate>"), 13);
        assert_eq!(count("stopped_<reason>"), 13);
        assert_eq!(count("voided_<reason>"), 12 + 2, "twelve stages before enactment, and two families");
        assert_eq!(
            run.edges.iter().filter(|e| e.from == "stopped_<reason>" && e.trigger == "resume").count(),
            13
        );
        assert!(!run.edges.iter().any(|e| e.from == "lifecycle_enacted" && e.to == "voided_<reason>"));
        let mermaid = run.mermaid();
        assert!(mermaid.contains("state \"failed_#lt;gate#gt;\" as failed_gate\n"), "{mermaid}");
        assert!(mermaid.contains(
            "awaiting_cut_authorization --> cut_leg_a_committed: \
             approval_received [SG_cut_authz + IG_cut_leg_a_execute]\n"
        ));
    }
}
