//! Do two recordings differ, and in what?
//!
//! The time of each recording is divided into parts. A figure of one, a rate, is compared with that of the other by
//! drawing parts of both at random: see [`crate::spread`]. Two rates differ if 1 lies outside the range of their ratio.

use std::collections::BTreeMap;

use crate::events::{LockKind, Names};
use crate::locks::{Wait, Waits};
use crate::recording::{Facts, Loss, Recording, RecordingError};
use crate::shootdowns::{Cause, Shootdown, Tracker};
use crate::spread::{of_independent, Spread};

/// The parts into which the time of a recording is divided.
pub const PARTS: usize = 20;

/// What is compared.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Figure {
    /// Flushes that asked other CPUs.
    Flushes,
    /// Interrupts.
    Interrupts,
    /// The time for which senders waited, in nanoseconds.
    SenderNs,
    /// The time for which handlers ran, in nanoseconds.
    VictimNs,
    /// Waits for locks.
    Waits,
    /// The time for which threads waited for locks, in nanoseconds.
    WaitNs,
    /// Interrupts of a cause.
    OfCause(Cause),
    /// Interrupts that a program's threads sent, by its name.
    OfProgram(String),
    /// The time for which threads waited for locks of a kind, in calls of a cause, in nanoseconds.
    OfLock(LockKind, Cause),
}

impl Figure {
    fn is_of_waits(&self) -> bool {
        matches!(self, Self::Waits | Self::WaitNs | Self::OfLock(..))
    }
}

/// The figures of one recording, in each part of its time.
#[derive(Debug, Clone)]
pub struct Profile {
    /// The facts of the recording.
    pub facts: Facts,
    /// What it lacks.
    pub lost: Loss,
    figures: BTreeMap<Figure, [u64; PARTS]>,
}

/// A figure of two recordings.
#[derive(Debug, Clone, PartialEq)]
pub struct Difference {
    /// The figure.
    pub figure: Figure,
    /// Its rates in the two recordings, a second.
    pub rates: [f64; 2],
    /// The second rate in relation to the first; none if the first is 0.
    pub ratio: Option<f64>,
    /// Where the ratio lies with nine chances of ten; none if there is too little to tell.
    pub spread: Option<Spread>,
}

impl Difference {
    /// Whether the rates differ by more than chance explains.
    pub fn is_clear(&self) -> bool {
        self.spread.is_some_and(|spread| spread.low > 1.0 || spread.high < 1.0)
    }
}

impl Profile {
    /// The figures of a recording.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn of(recording: &mut Recording) -> Result<Self, RecordingError> {
        let facts = recording.facts().clone();
        let mut profile = Self { facts, lost: Loss::default(), figures: BTreeMap::new() };
        let mut names = Names::default();
        let (mut tracker, mut waits) = (Tracker::default(), Waits::default());
        recording.each::<RecordingError>(&mut names, |row, names| {
            let doing = || *tracker.doing(row.event.thread);
            waits.add(&row, doing, names, |wait| profile.add_wait(wait));
            tracker.add(&row.event, || row.of_thread(), names, |shootdown| profile.add(shootdown, names));
            Ok(())
        })?;
        tracker.finish(|shootdown| profile.add(shootdown, &names));
        profile.lost = recording.lost();
        Ok(profile)
    }

    fn add(&mut self, shootdown: &Shootdown, names: &Names) {
        let interrupts = shootdown.interrupts.len() as u64;
        let figures = [
            (Figure::Flushes, 1),
            (Figure::Interrupts, interrupts),
            (Figure::SenderNs, shootdown.sender_ns()),
            (Figure::VictimNs, shootdown.victim_ns()),
            (Figure::OfCause(shootdown.cause), interrupts),
            (Figure::OfProgram(names.get(shootdown.sender.program).to_owned()), interrupts),
        ];
        self.add_at(shootdown.began_ns, figures);
    }

    fn add_wait(&mut self, wait: &Wait) {
        let of_lock = Figure::OfLock(wait.kind, wait.cause);
        self.add_at(wait.began_ns, [(Figure::Waits, 1), (Figure::WaitNs, wait.ns()), (of_lock, wait.ns())]);
    }

    fn add_at(&mut self, time_ns: u64, figures: impl IntoIterator<Item = (Figure, u64)>) {
        let part = self.facts.part(time_ns, PARTS);
        for (figure, value) in figures {
            let sum = &mut self.figures.entry(figure).or_default()[part];
            *sum = sum.saturating_add(value);
        }
    }
}

/// Compares the figures of two recordings: every figure that one of them has. Waits are compared if both tell them.
pub fn differences(one: &Profile, other: &Profile) -> Vec<Difference> {
    let mut figures: Vec<&Figure> = one.figures.keys().chain(other.figures.keys()).collect();
    figures.sort();
    figures.dedup();
    let tell_waits = one.facts.tells_waits() && other.facts.tells_waits();
    figures.retain(|figure| tell_waits || !figure.is_of_waits());
    let compare = |figure: &Figure| {
        let parts = [one, other].map(|profile| profile.figures.get(figure).copied().unwrap_or_default());
        let seconds = [one, other].map(|profile| profile.facts.seconds());
        let rate = |at: usize| parts[at].iter().sum::<u64>() as f64 / seconds[at];
        let rates = [rate(0), rate(1)];
        // Of parts of different lengths, rates are compared.
        let scale = seconds[0] / seconds[1];
        let spread = of_independent(&parts[1], &parts[0]);
        Difference {
            figure: figure.clone(),
            rates,
            ratio: (rates[0] > 0.0).then(|| rates[1] / rates[0]),
            spread: spread.map(|spread| Spread { low: spread.low * scale, high: spread.high * scale }),
        }
    };
    figures.into_iter().map(compare).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn profile(seconds: u64, parts: [u64; PARTS]) -> Profile {
        let facts = Facts { ended_ns: seconds * 1_000_000_000, ..Facts::default() };
        Profile { facts, lost: Loss::default(), figures: BTreeMap::from([(Figure::Interrupts, parts)]) }
    }

    fn noisy(mean: u64) -> [u64; PARTS] {
        std::array::from_fn(|part| mean + [7_u64, 0, 13, 4][part % 4])
    }

    #[test]
    fn a_longer_recording_of_the_same_is_no_different() {
        let found = differences(&profile(10, noisy(100)), &profile(20, noisy(100).map(|count| count * 2)));
        assert_eq!(found.len(), 1);
        assert!(!found[0].is_clear() && found[0].ratio == Some(1.0), "{found:?}");
    }

    #[test]
    fn a_tenth_more_is_a_difference_and_noise_is_none() {
        let clear =
            |more: u64| differences(&profile(10, noisy(100)), &profile(10, noisy(100 + more)))[0].is_clear();
        assert!(clear(10) && !clear(1));
    }

    #[test]
    fn waits_are_compared_if_both_recordings_tell_them() {
        let waits = |tells: bool| {
            let events = if tells {
                vec!["lock:contention_begin".into(), "lock:contention_end".into()]
            } else {
                vec![]
            };
            let facts = Facts { ended_ns: 1_000_000_000, events, ..Facts::default() };
            let of_lock = Figure::OfLock(LockKind::SleepWrite, Cause::Munmap);
            let figures =
                [Figure::Interrupts, Figure::Waits, Figure::WaitNs, of_lock].map(|of| (of, noisy(9)));
            Profile { facts, lost: Loss::default(), figures: figures.into() }
        };
        let count = |one, other| differences(&waits(one), &waits(other)).len();
        assert_eq!((count(true, true), count(true, false), count(false, true)), (4, 1, 1));
    }

    #[test]
    fn what_only_one_recording_has_is_listed_without_a_ratio() {
        let found = differences(&profile(10, [0; PARTS]), &profile(10, noisy(5)));
        assert_eq!((found[0].ratio, found[0].spread), (None, None));
    }
}
