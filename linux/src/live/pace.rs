//! For which part of the time events are on.
//!
//! Each event costs time, so all of them may cost a program that flushes a third of its time. The events are on in
//! windows then, of which there are ten a second, so short that the cost stays within a bound.

/// The part of one CPU's time that the events may cost.
const BOUND: f64 = 0.01;

/// The time of a window and of the gap before it.
const CYCLE_S: f64 = 0.1;

/// The shortest window.
const SHORTEST_S: f64 = 0.001;

/// The times that are remembered.
const REMEMBERED_S: f64 = 0.4;

/// With fewer requests a second, it is not by the events that there are fewer in windows.
const LEAST: f64 = 1000.0;

/// What happened in some time.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Spent {
    pub(super) seconds: f64,
    /// The change of the TLB row.
    pub(super) requests: f64,
    /// The time that the kernel and this program took for the events.
    pub(super) cost_s: f64,
}

/// What the events cost lately.
#[derive(Debug, Default)]
pub(super) struct Pace {
    on: Spent,
    off: Spent,
}

impl Spent {
    fn add(&mut self, more: Spent) {
        let kept = if self.seconds > REMEMBERED_S { 0.5 } else { 1.0 };
        self.seconds = self.seconds * kept + more.seconds;
        self.requests = self.requests * kept + more.requests;
        self.cost_s = self.cost_s * kept + more.cost_s;
    }

    fn rate(&self) -> f64 {
        if self.seconds > 0.0 {
            self.requests / self.seconds
        } else {
            0.0
        }
    }
}

impl Pace {
    /// Learns what happened in a window.
    pub(super) fn window(&mut self, spent: Spent) {
        self.on.add(spent);
    }

    /// Learns what happened in a gap between windows.
    pub(super) fn gap(&mut self, spent: Spent) {
        self.off.add(spent);
    }

    /// The part of the time for which events may be on.
    pub(super) fn share(&self) -> f64 {
        let Spent { seconds, cost_s, .. } = self.on;
        let (on, off) = (self.on.rate(), self.off.rate());
        let known = if seconds > 0.0 { cost_s / seconds } else { 0.0 };
        // Events slow the program down, so it asks for more without them.
        let (cost, lost) =
            if off > LEAST && off > on { (known * off / on.max(1.0), 1.0 - on / off) } else { (known, 0.0) };
        let cost = cost.max(lost);
        if cost > BOUND {
            BOUND / cost
        } else {
            1.0
        }
    }

    /// The length of the next window, in seconds.
    pub(super) fn window_s(&self) -> f64 {
        (self.share() * CYCLE_S).max(SHORTEST_S)
    }

    /// The length of the next gap, in seconds, with a number at random from 0 to 1: so that no program that does something
    /// ten times a second does it always in a window. None if events may stay on.
    pub(super) fn gap_s(&self, random: f64) -> Option<f64> {
        let share = self.share();
        let gap = self.window_s() * (1.0 - share) / share;
        (share < 1.0).then_some(gap * (0.5 + random))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spent(seconds: f64, rate: f64, cost: f64) -> Spent {
        Spent { seconds, requests: rate * seconds, cost_s: cost * seconds }
    }

    #[test]
    fn what_costs_little_is_watched_all_the_time() {
        let mut pace = Pace::default();
        assert_eq!((pace.share(), pace.gap_s(0.5)), (1.0, None));
        pace.window(spent(0.1, 3000.0, BOUND));
        assert_eq!((pace.share(), pace.gap_s(0.5), pace.window_s()), (1.0, None, CYCLE_S));
    }

    #[test]
    fn windows_cost_the_bound_whatever_an_event_costs() {
        for cost in [0.03, 0.3, 0.9] {
            let mut pace = Pace::default();
            pace.window(spent(0.1, 1e5, cost));
            let (window, gap) = (pace.window_s(), pace.gap_s(0.5).expect("windows"));
            let part = window / (window + gap) * cost;
            assert!((part - BOUND).abs() < 1e-9, "{part} of {cost}");
        }
    }

    #[test]
    fn a_program_that_is_faster_in_gaps_is_watched_less() {
        let mut pace = Pace::default();
        pace.window(spent(0.1, 60_000.0, 0.05));
        let before = pace.share();
        // It loses four of ten flushes, more than the known cost.
        pace.gap(spent(0.1, 100_000.0, 0.0));
        assert!((pace.share() - BOUND / 0.4).abs() < 1e-9 && pace.share() < before, "{}", pace.share());
        let mut idle = Pace::default();
        idle.window(spent(0.1, 0.0, 0.001));
        idle.gap(spent(0.1, 500.0, 0.0));
        assert_eq!(idle.gap_s(0.5), None);
    }

    #[test]
    fn what_was_long_ago_is_forgotten() {
        let mut pace = Pace::default();
        pace.window(spent(0.4, 1e5, 0.5));
        for _ in 0..100 {
            pace.window(spent(0.1, 10.0, 0.001));
        }
        assert_eq!(pace.gap_s(0.5), None);
    }

    #[test]
    fn gaps_differ_around_their_mean() {
        let mut pace = Pace::default();
        pace.window(spent(0.1, 1e5, 0.4));
        let gap = |random| pace.gap_s(random).expect("a gap");
        assert!(gap(0.0) < gap(0.5) && gap(0.5) < gap(1.0));
        assert!((gap(0.0) + gap(1.0) - 2.0 * gap(0.5)).abs() < 1e-12);
    }
}
