//! The rate of requests.

/// The time over which requests are counted, in nanoseconds.
const STEP_NS: u64 = 10_000_000;

/// The steps in a second.
const STEPS: u64 = 1_000_000_000 / STEP_NS;

/// Counts requests in steps of time.
#[derive(Debug, Default)]
pub(super) struct Rate {
    /// The number of the step since the machine's start.
    step: u64,
    requests: u64,
    /// The last rate that was given.
    given: u64,
}

impl Rate {
    /// Adds a request at the time to which the rate has gone on.
    pub(super) fn add(&mut self) {
        self.requests += 1;
    }

    /// Goes on to a time. Gives the changes of the rate a second until then, each with its time: that of the step that
    /// is over, at its end, and 0 if there was none in the next one.
    pub(super) fn at(&mut self, time_ns: u64) -> impl Iterator<Item = (u64, u64)> {
        let step = time_ns / STEP_NS;
        let mut changes = [None; 2];
        if step > self.step {
            let ended_ns = (self.step + 1) * STEP_NS;
            let requests = std::mem::take(&mut self.requests);
            changes[0] = self.give(ended_ns, requests * STEPS);
            if step > self.step + 1 {
                changes[1] = self.give(ended_ns + STEP_NS, 0);
            }
            self.step = step;
        }
        changes.into_iter().flatten()
    }

    fn give(&mut self, time_ns: u64, rate: u64) -> Option<(u64, u64)> {
        let before = std::mem::replace(&mut self.given, rate);
        (rate != before).then_some((time_ns, rate))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_change_is_given_once_when_its_step_is_over() {
        let mut rate = Rate::default();
        let mut changes = Vec::new();
        for step in [100, 100, 101, 102, 105, 106] {
            changes.extend(rate.at(step * STEP_NS + 7));
            rate.add();
        }
        changes.extend(rate.at(110 * STEP_NS));
        let steps: Vec<_> = changes.iter().map(|(time, rate)| (time / STEP_NS, *rate)).collect();
        assert_eq!(steps, [(101, 2 * STEPS), (102, STEPS), (104, 0), (106, STEPS), (108, 0)]);
        assert!(changes.iter().all(|(time, _)| time % STEP_NS == 0));
    }
}
