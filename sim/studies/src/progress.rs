//! The points of a study that are done, and the time that the others take.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::row::Row;

/// The points so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    /// The points of the study.
    pub all: u64,
    /// Those that the data set had before.
    pub before: u64,
    /// Those that were run.
    pub done: u64,
    /// Those of them that failed.
    pub failed: u64,
    /// Those of them that broke a rule or loaded a wrong value.
    pub broken: u64,
}

impl Progress {
    /// Counts a result.
    pub fn count(&mut self, row: &Row) {
        self.done += 1;
        self.failed += u64::from(row.error.is_some());
        self.broken += u64::from(row.is_broken());
    }

    /// The points that are left.
    pub fn left(&self) -> u64 {
        self.all.saturating_sub(self.before + self.done)
    }

    /// The progress in words, with the time until the end, when so much has passed.
    pub fn line(&self, passed: Duration) -> String {
        let Self { all, before, done, failed, .. } = self;
        let failed = if *failed > 0 { format!(", {failed} failed") } else { String::new() };
        let end = if *done > 0 {
            let seconds = passed.as_secs_f64() / *done as f64 * self.left() as f64;
            format!(", ends in about {}", time(seconds))
        } else {
            String::new()
        };
        format!("{} of {all} points{failed}, after {}{end}", before + done, time(passed.as_secs_f64()))
    }
}

/// A time in the unit that fits.
fn time(seconds: f64) -> String {
    match seconds {
        _ if seconds < 100.0 => format!("{seconds:.0} s"),
        _ if seconds < 6000.0 => format!("{:.0} min", seconds / 60.0),
        _ if seconds < 172_800.0 => format!("{:.0} h", seconds / 3600.0),
        _ => format!("{:.0} days", seconds / 86_400.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_tells_the_points_and_the_end() {
        let progress = Progress { all: 2000, before: 500, done: 100, failed: 3, broken: 0 };
        assert_eq!(
            progress.line(Duration::from_secs(40)),
            "600 of 2000 points, 3 failed, after 40 s, ends in about 9 min"
        );
        let begun = Progress { all: 10, ..Progress::default() };
        assert_eq!(begun.line(Duration::from_secs(1)), "0 of 10 points, after 1 s");
        assert_eq!(time(1e6), "12 days");
    }
}
