//! Progress bars, one for each run under way, shown only on a terminal.

use std::io::{stderr, IsTerminal};

use ceasefire_experiments::Plan;
use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};

/// The number of steps of a bar.
const STEPS: u64 = 1000;

/// The bars of all runs.
pub(crate) struct Progress(MultiProgress);

impl Progress {
    pub(crate) fn new() -> Self {
        let target =
            if stderr().is_terminal() { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        Self(MultiProgress::with_draw_target(target))
    }

    /// Shows a bar for a run that begins.
    pub(crate) fn begin(&self, plan: &Plan) -> Bar {
        let bar = self.0.add(ProgressBar::new(STEPS));
        if let Ok(style) = ProgressStyle::with_template("{msg:40} [{bar:30}] {percent:>3}% {eta:>4}") {
            bar.set_style(style.progress_chars("=> "));
        }
        bar.set_message(format!("{} {} {}", plan.experiment.name, plan.machine.name, plan.mechanism));
        Bar(bar)
    }
}

/// The bar of one run, removed when the run ends.
pub(crate) struct Bar(ProgressBar);

impl Bar {
    /// Sets the fraction that is done.
    pub(crate) fn set(&self, part: f64) {
        self.0.set_position((part * STEPS as f64) as u64);
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
