//! The steps of a long task, with the time that each took.

use std::time::{Duration, Instant};

use crate::failure::Failure;
use crate::table;

/// The time of a step: how long it took, and how long processors worked for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Time {
    pub(crate) passed: Duration,
    /// The processor time of the step's commands; none where the host does not tell.
    pub(crate) processor: Option<Duration>,
}

impl Time {
    /// Runs `step`, and returns the time that it took.
    pub(crate) fn of<T>(step: impl FnOnce() -> T) -> (T, Self) {
        let used = || processor_time("self", Of::Ended);
        let (start, before) = (Instant::now(), used());
        let result = step();
        let processor = used().zip(before).map(|(after, before)| after.saturating_sub(before));
        (result, Self { passed: start.elapsed(), processor })
    }
}

/// The steps so far.
#[derive(Debug, Default)]
pub(crate) struct Steps {
    taken: Vec<(String, Time)>,
}

impl Steps {
    /// Takes a step.
    ///
    /// # Errors
    /// The step's.
    pub(crate) fn take<T>(
        &mut self,
        name: &str,
        step: impl FnOnce() -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let (result, time) = Time::of(step);
        self.add(name, time);
        result
    }

    /// Adds a step that was taken.
    pub(crate) fn add(&mut self, name: &str, time: Time) {
        self.taken.push((name.to_owned(), time));
    }

    /// A table of the steps, and their sum.
    pub(crate) fn table(&self) -> String {
        let sum = Time {
            passed: self.taken.iter().map(|(_, time)| time.passed).sum(),
            processor: self.taken.iter().map(|(_, time)| time.processor).sum(),
        };
        let row = |name: &str, time: Time| {
            let processor = time.processor.map_or("-".to_owned(), |time| time.as_secs().to_string());
            [name.to_owned(), time.passed.as_secs().to_string(), processor]
        };
        let mut rows: Vec<_> = self.taken.iter().map(|(name, time)| row(name, *time)).collect();
        rows.push(row("all", sum));
        table::format(["step", "seconds", "of processors"], &rows)
    }
}

/// Whose processor time, by the place of its two numbers after the name in `/proc/PROCESS/stat` (proc(5)).
#[derive(Debug, Clone, Copy)]
pub(crate) enum Of {
    /// Of all threads of the process.
    Itself = 11,
    /// Of its children that have ended, and of theirs.
    Ended = 13,
}

/// A processor time. None where the host does not say.
pub(crate) fn processor_time(process: &str, of: Of) -> Option<Duration> {
    let text = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The name may have blanks, and ends with a parenthesis.
    let (_, fields) = text.rsplit_once(')')?;
    let ticks = fields.split_whitespace().skip(of as usize).take(2).map(|field| field.parse::<u64>().ok());
    // Hundredths of a second, on every architecture of today.
    Some(Duration::from_millis(ticks.sum::<Option<u64>>()? * 10))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_has_each_step_and_the_sum() {
        let step = |name: &str, passed, processor| {
            let time =
                Time { passed: Duration::from_secs(passed), processor: Some(Duration::from_secs(processor)) };
            (name.to_owned(), time)
        };
        let steps = Steps { taken: vec![step("format", 2, 3), step("tests", 90, 130)] };
        assert_eq!(
            steps.table(),
            "step    seconds  of processors\nformat        2              3\ntests        90            130\n\
             all          92            133\n"
        );
    }

    #[test]
    fn a_failing_step_is_counted() {
        let mut steps = Steps::default();
        assert!(steps.take("no", || Err::<(), _>(Failure::new("no"))).is_err());
        assert!(steps.table().contains("\nno "));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn the_processor_time_of_a_command_counts() {
        let busy = "i=0; while [ $i -lt 200000 ]; do i=$((i + 1)); done";
        let ((), time) = Time::of(|| {
            std::process::Command::new("sh").args(["-c", busy]).status().expect("a shell");
        });
        assert!(time.processor.is_some_and(|time| !time.is_zero()), "{time:?}");
    }
}
