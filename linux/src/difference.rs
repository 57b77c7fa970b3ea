//! Do two recordings differ, and in what?
//!
//! The time of each recording is divided into parts. A figure of one, a rate, is compared with that of the other by
//! drawing parts of both at random: see [`crate::spread`]. Two rates differ if 1 lies outside the range of their ratio.

use std::collections::BTreeMap;

use crate::events::{Kind, LockKind, Names};
use crate::kernel::threads::Threads;
use crate::locks::Wait;
use crate::observer::{Observer, Sink};
use crate::recording::{Facts, Loss, Recording, RecordingError};
use crate::shootdowns::{Cause, Shootdown, Tally};
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
    /// Interrupts that processes of a name sent.
    OfProgram(String),
    /// The time for which threads waited for locks of a kind, in calls of a cause, in nanoseconds.
    OfLock(LockKind, Cause),
}

impl Figure {
    fn is_told_by(&self, profile: &Profile) -> bool {
        match self {
            Self::Waits | Self::WaitNs | Self::OfLock(..) => profile.facts.tells_waits(),
            Self::OfCause(_) => profile.tells_causes(),
            _ => true,
        }
    }
}

/// The figures of one recording, in each part of its time.
#[derive(Debug, Clone)]
pub struct Profile {
    /// The facts of the recording.
    pub facts: Facts,
    /// What it lacks.
    pub lost: Loss,
    /// Whether it has the kernel functions that led to interrupts.
    has_stacks: bool,
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
    /// No figures yet.
    fn new(facts: Facts) -> Self {
        Self { facts, lost: Loss::default(), has_stacks: false, figures: BTreeMap::new() }
    }

    /// The figures of a recording.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn of(recording: &mut Recording) -> Result<Self, RecordingError> {
        let facts = recording.facts().clone();
        let mut observer = Observer::new(Threads::default(), Sums::of(facts));
        let mut names = Names::default();
        let mut has_stacks = false;
        recording.each::<RecordingError>(&mut names, |row, names| {
            has_stacks |= matches!(row.event.kind, Kind::Stack { .. });
            observer.add(&row, names);
            Ok(())
        })?;
        let (sums, threads) = observer.finish();
        Ok(Self { lost: recording.lost(), has_stacks, ..sums.named(&threads, &names) })
    }

    /// Whether it tells causes: by events or by the kernel's functions.
    pub fn tells_causes(&self) -> bool {
        self.facts.tells_causes() || self.has_stacks
    }
}

/// The figures of a recording whose processes have no names yet.
#[derive(Debug)]
struct Sums {
    profile: Profile,
    /// The interrupts that each process sent.
    processes: BTreeMap<u32, [u64; PARTS]>,
    /// It knows a name of each process.
    tally: Tally,
}

impl Sums {
    fn of(facts: Facts) -> Self {
        let profile = Profile::new(facts);
        Self { profile, processes: BTreeMap::new(), tally: Tally::default() }
    }

    fn add(&mut self, time_ns: u64, figures: impl IntoIterator<Item = (Figure, u64)>) -> usize {
        let part = self.profile.facts.part(time_ns, PARTS);
        for (figure, value) in figures {
            let sum = &mut self.profile.figures.entry(figure).or_default()[part];
            *sum = sum.saturating_add(value);
        }
        part
    }

    /// The figures with those of processes, which are together if they have one name.
    fn named(mut self, threads: &Threads, names: &Names) -> Profile {
        let mut programs = self.tally.totals().names;
        threads.name(&mut programs);
        for (process, parts) in self.processes {
            let program = programs.get(&process).map(|name| names.get(*name)).unwrap_or_default();
            let sums = self.profile.figures.entry(Figure::OfProgram(program.to_owned())).or_default();
            for (sum, interrupts) in sums.iter_mut().zip(parts) {
                *sum += interrupts;
            }
        }
        self.profile
    }
}

impl Sink for Sums {
    const WAITS: bool = true;

    fn shootdown(&mut self, shootdown: &Shootdown) {
        let interrupts = shootdown.requests.len() as u64;
        let figures = [
            (Figure::Flushes, 1),
            (Figure::Interrupts, interrupts),
            (Figure::SenderNs, shootdown.sender_ns()),
            (Figure::VictimNs, shootdown.victim_ns()),
            (Figure::OfCause(shootdown.cause), interrupts),
        ];
        let part = self.add(shootdown.began_ns, figures);
        self.processes.entry(shootdown.sender.process).or_default()[part] += interrupts;
        self.tally.add(shootdown);
    }

    fn wait(&mut self, wait: &Wait) {
        let of_lock = Figure::OfLock(wait.kind, wait.cause);
        self.add(wait.began_ns, [(Figure::Waits, 1), (Figure::WaitNs, wait.ns()), (of_lock, wait.ns())]);
    }
}

/// Compares the figures of two recordings: every figure that one of them has. Causes and waits are compared if both tell
/// them.
pub fn differences(one: &Profile, other: &Profile) -> Vec<Difference> {
    let mut figures: Vec<&Figure> = one.figures.keys().chain(other.figures.keys()).collect();
    figures.sort();
    figures.dedup();
    figures.retain(|figure| [one, other].iter().all(|profile| figure.is_told_by(profile)));
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
    use crate::events::{Event, Work};
    use crate::recording::Row;

    fn profile(seconds: u64, parts: [u64; PARTS]) -> Profile {
        let facts = Facts { ended_ns: seconds * 1_000_000_000, ..Facts::default() };
        Profile { figures: BTreeMap::from([(Figure::Interrupts, parts)]), ..Profile::new(facts) }
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

    /// A recording with these events, and with figures of all kinds.
    fn of_events(events: &[&str]) -> Profile {
        let events = events.iter().map(|event| (*event).to_owned()).collect();
        let facts = Facts { ended_ns: 1_000_000_000, events, ..Facts::default() };
        let of_lock = Figure::OfLock(LockKind::SleepWrite, Cause::Munmap);
        let figures =
            [Figure::Interrupts, Figure::Waits, Figure::WaitNs, Figure::OfCause(Cause::Munmap), of_lock];
        Profile { figures: figures.map(|of| (of, noisy(9))).into(), ..Profile::new(facts) }
    }

    #[test]
    fn waits_are_compared_if_both_recordings_tell_them() {
        let waits = |tells: bool| {
            of_events(if tells { &["lock:contention_begin", "lock:contention_end"] } else { &[] })
        };
        let count = |one, other| differences(&waits(one), &waits(other)).len();
        assert_eq!((count(true, true), count(true, false), count(false, true)), (4, 1, 1));
    }

    #[test]
    fn causes_are_compared_if_both_recordings_tell_them() {
        let light = || of_events(&["csd:csd_queue_cpu", "tlb:tlb_flush", "sched:sched_process_exit"]);
        let full = || of_events(&["csd:csd_queue_cpu", "syscalls:sys_enter_munmap"]);
        let with_stacks = || Profile { has_stacks: true, ..light() };
        let compares = |one, other| {
            let found = differences(&one, &other);
            found.iter().any(|difference| matches!(difference.figure, Figure::OfCause(_)))
        };
        assert!(!compares(full(), light()) && !compares(light(), full()) && !compares(light(), light()));
        assert!(compares(full(), full()) && compares(full(), with_stacks()));
    }

    #[test]
    fn a_process_sends_its_threads_interrupts_under_its_first_threads_name() {
        let mut names = Names::default();
        let [program, helper, other] = ["program", "helper", "other"].map(|name| names.add(name));
        let facts = Facts { ended_ns: 1_000, ..Facts::default() };
        let mut observer = Observer::new(Threads::default(), Sums::of(facts));
        let rows =
            [(10, 10, program), (11, 10, helper), (12, 10, helper), (20, 20, program), (30, 30, other)];
        for (thread, process, program) in rows {
            for (kind, cpu) in [
                (Kind::ThreadNamed { thread, name: program }, 0),
                (Kind::Sent { target: 1, work: Work::Flush, call: thread.into(), site: program }, 0),
                (Kind::HandlerEnded { work: Work::Flush, call: thread.into() }, 1),
            ] {
                // The first thread of process 10 sends nothing.
                if thread != 10 || matches!(kind, Kind::ThreadNamed { .. }) {
                    let event = Event { time_ns: thread.into(), cpu, thread, kind };
                    observer.add(&Row { event, process, program }, &names);
                }
            }
        }
        let (sums, threads) = observer.finish();
        let figures = sums.named(&threads, &names).figures;
        let of = |program: &str| {
            figures.get(&Figure::OfProgram(program.to_owned())).map(|parts| parts.iter().sum())
        };
        assert_eq!([of("program"), of("other"), of("helper")], [Some(3), Some(1), None]);
    }

    #[test]
    fn what_only_one_recording_has_is_listed_without_a_ratio() {
        let found = differences(&profile(10, [0; PARTS]), &profile(10, noisy(5)));
        assert_eq!((found[0].ratio, found[0].spread), (None, None));
    }
}
