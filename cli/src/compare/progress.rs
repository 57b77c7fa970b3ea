//! The progress of the runs: on a terminal a bar for each run under way, elsewhere a line every ten seconds.

use std::io::{stderr, IsTerminal, Write as _};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use ceasefire_experiments::Plan;
use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};

/// The number of steps of a bar.
const STEPS: u64 = 1000;
/// The time between two lines.
const EVERY: Duration = Duration::from_secs(10);

/// The progress of all runs.
pub(crate) struct Progress {
    bars: MultiProgress,
    /// Whether lines are written.
    lines: bool,
    state: Mutex<State>,
    ended: Condvar,
    begun: Instant,
}

/// The runs so far.
#[derive(Debug)]
struct State {
    all: usize,
    done: usize,
    /// The fractions of the runs under way that are done.
    parts: Vec<(usize, f64)>,
    is_over: bool,
}

impl State {
    /// The fraction of all runs that is done. All count as equally long.
    fn part(&self) -> f64 {
        let under_way: f64 = self.parts.iter().map(|(_, part)| part.clamp(0.0, 1.0)).sum();
        if self.all == 0 {
            1.0
        } else {
            (self.done as f64 + under_way) / self.all as f64
        }
    }

    fn line(&self, passed: Duration) -> String {
        format!(
            "ceasefire: {} of {} runs done, {:.0}% of the work, after {} s",
            self.done,
            self.all,
            self.part() * 100.0,
            passed.as_secs()
        )
    }
}

impl Progress {
    /// The progress of that many runs. It is `quiet` if nothing is to be shown.
    pub(crate) fn new(all: usize, quiet: bool) -> Self {
        let is_terminal = stderr().is_terminal();
        let target =
            if is_terminal && !quiet { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        Self {
            bars: MultiProgress::with_draw_target(target),
            lines: !is_terminal && !quiet,
            state: Mutex::new(State { all, done: 0, parts: Vec::new(), is_over: false }),
            ended: Condvar::new(),
            begun: Instant::now(),
        }
    }

    /// Writes a line now and then until the runs are over, if there is no terminal.
    pub(crate) fn write_lines(&self) {
        let mut state = self.state();
        while self.lines && !state.is_over {
            let waited = self.ended.wait_timeout(state, EVERY).unwrap_or_else(PoisonError::into_inner);
            state = waited.0;
            if waited.1.timed_out() && !state.is_over {
                // There is no other place to report that standard error is closed.
                let _ = writeln!(stderr(), "{}", state.line(self.begun.elapsed()));
            }
        }
    }

    /// Ends [`write_lines`](Self::write_lines).
    pub(crate) fn end(&self) {
        self.state().is_over = true;
        self.ended.notify_all();
    }

    /// Shows a run that begins.
    pub(crate) fn begin(&self, number: usize, plan: &Plan) -> Bar<'_> {
        let bar = self.bars.add(ProgressBar::new(STEPS));
        if let Ok(style) = ProgressStyle::with_template("{msg:40} [{bar:24}] {percent:>3}% {eta:>4}") {
            bar.set_style(style.progress_chars("=> "));
        }
        bar.set_message(format!("{} {} {}", plan.experiment.name, plan.machine.name, plan.mechanism));
        self.state().parts.push((number, 0.0));
        Bar { progress: self, number, shown: bar }
    }

    /// Runs `body`, which prints, while no bar is on the screen.
    pub(crate) fn suspend<R>(&self, body: impl FnOnce() -> R) -> R {
        self.bars.suspend(body)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The progress of one run.
pub(crate) struct Bar<'a> {
    progress: &'a Progress,
    number: usize,
    shown: ProgressBar,
}

impl Bar<'_> {
    /// Sets the fraction that is done.
    pub(crate) fn set(&self, part: f64) {
        self.shown.set_position((part * STEPS as f64) as u64);
        let mut state = self.progress.state();
        if let Some((_, known)) = state.parts.iter_mut().find(|(number, _)| *number == self.number) {
            *known = part;
        }
    }
}

impl Drop for Bar<'_> {
    fn drop(&mut self) {
        self.shown.finish_and_clear();
        let mut state = self.progress.state();
        state.parts.retain(|(number, _)| *number != self.number);
        state.done += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_counts_runs_and_parts_of_runs() {
        let state = State { all: 4, done: 1, parts: vec![(1, 0.5), (2, 0.1)], is_over: false };
        assert_eq!(
            state.line(Duration::from_millis(20_400)),
            "ceasefire: 1 of 4 runs done, 40% of the work, after 20 s"
        );
        assert!((State { all: 0, ..state }.part() - 1.0).abs() < f64::EPSILON);
    }

    #[test]
    fn no_line_is_written_once_the_runs_are_over() {
        let progress = Progress::new(1, false);
        progress.end();
        progress.write_lines();
        assert!(progress.state().is_over);
    }
}
