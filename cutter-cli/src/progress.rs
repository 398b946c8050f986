//! The driver's progress, for people: a moving line on a terminal, single lines elsewhere.
//! Nothing here is ever an input to a decision.

use std::time::Duration;

use cutter_core::port::environment::{Observer, Progress};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::render::{self, DIM, GOOD, Out, WARN, paint};

/// Shows what the driver reports.
pub(crate) struct Shown {
    out: Out,
    bar: ProgressBar,
}

impl Shown {
    pub(crate) fn new(out: Out) -> Self {
        let bar = if out.shows_progress() {
            let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
            if let Ok(style) = ProgressStyle::with_template("{spinner} {msg} {elapsed}") {
                bar.set_style(style);
            }
            bar
        } else {
            ProgressBar::hidden()
        };
        Self { out, bar }
    }

    fn line(&self, text: impl std::fmt::Display) {
        self.bar.suspend(|| self.out.note(text));
    }
}

impl Observer for Shown {
    fn progress(&self, progress: &Progress) {
        match progress {
            Progress::PhaseStarted { phase, number } => {
                self.bar.set_message(format!("{number:>2}/11 {phase}"));
                self.bar.enable_steady_tick(Duration::from_millis(120));
            }
            Progress::PhasePassed { phase, kb_doc_id } => {
                let name = kb_doc_id.rsplit('/').next().unwrap_or(kb_doc_id);
                self.line(format!("{} {phase:<18} {}", paint(GOOD, "passed"), paint(DIM, name)));
            }
            Progress::BackupBytes(bytes) => self.bar.set_message(format!("backup {}", render::size(*bytes))),
            Progress::Units(n) => self.bar.set_message(format!("writing {}", render::count(*n, "unit"))),
            Progress::NotAccepted { kb_doc_id, why } => {
                self.out.warn(format!("approval not accepted: {kb_doc_id}: {why}"));
            }
            Progress::UploadRetry { attempt, delay_ms } => {
                self.line(format!(
                    "{} upload attempt {attempt} failed; trying again in {delay_ms} ms",
                    paint(WARN, "retry ")
                ));
            }
            Progress::Paused { gate, .. } => {
                self.bar.finish_and_clear();
                self.line(format!("{} {gate}", paint(WARN, "paused")));
            }
            Progress::Stopped { code } => {
                self.bar.finish_and_clear();
                self.line(format!("{} {code}", paint(WARN, "stopped")));
            }
        }
    }
}

impl Drop for Shown {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
