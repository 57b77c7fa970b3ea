//! The progress of a study: on a terminal a bar, elsewhere a line every ten seconds.

use std::io::{stderr, IsTerminal as _};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use ceasefire_studies::{Progress, Row, Watch};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::failure::complain;
use crate::output::interrupt;

/// The time between two lines.
const EVERY: Duration = Duration::from_secs(10);
/// The number of failed runs that are told one by one.
const TOLD: u64 = 5;

/// Shows the progress.
pub(crate) struct Shown {
    bar: ProgressBar,
    /// The time of the last line, if lines are written.
    last: Option<Mutex<Instant>>,
    begun: Instant,
    failed: AtomicU64,
    stopped: Box<dyn Fn() -> bool + Sync>,
}

impl Shown {
    /// Shows nothing but failures if it is `quiet`.
    pub(crate) fn new(quiet: bool) -> Self {
        let is_terminal = stderr().is_terminal();
        let target =
            if is_terminal && !quiet { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(None, target);
        if let Ok(style) = ProgressStyle::with_template("[{bar:40}] {msg}") {
            bar.set_style(style.progress_chars("=> "));
        }
        Self {
            bar,
            last: (!is_terminal && !quiet).then(|| Mutex::new(Instant::now())),
            begun: Instant::now(),
            failed: AtomicU64::new(0),
            stopped: Box::new(interrupt::stops_early()),
        }
    }

    pub(crate) fn end(&self) {
        self.bar.finish_and_clear();
    }
}

impl Watch for Shown {
    fn goes_on(&self) -> bool {
        !(self.stopped)()
    }

    fn progress(&self, progress: &Progress) {
        let line = progress.line(self.begun.elapsed());
        self.bar.set_length(progress.all);
        self.bar.set_position(progress.before + progress.done);
        self.bar.set_message(line.clone());
        if let Some(last) = &self.last {
            let mut last = last.lock().unwrap_or_else(PoisonError::into_inner);
            if last.elapsed() >= EVERY {
                complain(&line);
                *last = Instant::now();
            }
        }
    }

    fn failed(&self, row: &Row) {
        let number = self.failed.fetch_add(1, Ordering::Relaxed);
        let error = row.error.as_deref().unwrap_or_default();
        match number.cmp(&TOLD) {
            std::cmp::Ordering::Less => {
                self.bar.suspend(|| complain(&format!("failed: {}: {error}", row.command)));
            }
            std::cmp::Ordering::Equal => {
                self.bar.suspend(|| complain("more points failed: see the column `error`"));
            }
            std::cmp::Ordering::Greater => {}
        }
    }
}
