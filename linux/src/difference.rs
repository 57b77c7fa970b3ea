//! Do two recordings differ, and in what?
//!
//! The time of each recording is divided into parts. A figure of one, a rate, is compared with that of the other by
//! drawing parts of both at random: see [`crate::spread`]. Two rates differ if 1 lies outside the range of their ratio.
//! A figure is compared only if both recordings count it alike: see [`Figure::is_compared`].

use std::collections::BTreeMap;

use crate::events::{Kind, LockKind, Names};
use crate::kernel::threads::Threads;
use crate::locks::{Wait, WaitSum};
use crate::observer::{Observer, Sink};
use crate::recording::{Count, Facts, Loss, Recording, RecordingError};
use crate::shootdowns::{Cause, Shootdown, Tally};
use crate::spread::{of_independent, Spread};

/// The parts into which the time of a recording is divided.
pub const PARTS: usize = 20;

/// What is compared.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Figure {
    /// Flushes that asked other CPUs.
    Flushes,
    /// Flushes that asked other CPUs, as `tlb:tlb_flush` tells them.
    Asked,
    /// Flushes of CPUs that another one asked, as `tlb:tlb_flush` tells them.
    Answered,
    /// CPUs that were asked to flush.
    Requests,
    /// Interrupts that this took.
    Interrupts,
    /// The time for which senders waited, in nanoseconds.
    SenderNs,
    /// The time for which handlers ran, in nanoseconds.
    VictimNs,
    /// Waits for locks.
    Waits,
    /// The time for which threads waited for locks, in nanoseconds.
    WaitNs,
    /// Requests of a cause.
    OfCause(Cause),
    /// Requests that processes of a name sent.
    OfProgram(String),
    /// The time for which threads waited for locks of a kind, in calls of a cause, in nanoseconds.
    OfLock(LockKind, Cause),
}

impl Figure {
    /// The figures that are of no part: if none of them is compared, nothing is.
    pub const TOTALS: [Self; 9] = [
        Self::Flushes,
        Self::Asked,
        Self::Answered,
        Self::Requests,
        Self::Interrupts,
        Self::SenderNs,
        Self::VictimNs,
        Self::Waits,
        Self::WaitNs,
    ];

    /// Whether both recordings count it, and alike.
    ///
    /// - Requests, with their interrupts, their times and who sent them, need the events `csd:*`, which kernels before Linux 6.4 do not
    ///   have. Flushes as `tlb:tlb_flush` tells them stand in for them.
    /// - With `tlb:tlb_flush`, a flush counts even if it interrupts no CPU, and its sender waits from that event on.
    ///   Light recordings do not have it.
    /// - Causes and waits have events of their own.
    pub fn is_compared(&self, one: &Profile, other: &Profile) -> bool {
        let both = |tells: fn(&Profile) -> bool| tells(one) && tells(other);
        let sent = both(Profile::tells_requests);
        match self {
            Self::Flushes | Self::SenderNs => sent && one.tells_flushes() == other.tells_flushes(),
            Self::Asked | Self::Answered => !sent && both(Profile::tells_flushes),
            Self::Requests | Self::Interrupts | Self::VictimNs | Self::OfProgram(_) => sent,
            Self::OfCause(_) => sent && both(Profile::tells_causes),
            Self::Waits | Self::WaitNs | Self::OfLock(..) => both(|profile| profile.facts.tells_waits()),
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
    /// The waits that are [idle](Wait::is_idle). They are in no figure.
    pub idle: WaitSum,
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
        let (lost, idle) = (Loss::default(), WaitSum::default());
        Self { facts, lost, idle, has_stacks: false, figures: BTreeMap::new() }
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
            if Count::Flushed.counts(&row.event.kind) {
                observer.sink.add(row.event.time_ns, [(Figure::Answered, 1)]);
            }
            has_stacks |= matches!(row.event.kind, Kind::Stack { .. });
            observer.add(&row, names);
            Ok(())
        })?;
        let (sums, threads) = observer.finish();
        Ok(Self { lost: recording.lost(), has_stacks, ..sums.named(&threads, &names) })
    }

    /// Whether it tells interrupts.
    pub fn tells_requests(&self) -> bool {
        self.facts.counted == Count::Sent
    }

    /// Whether it tells flushes, beside interrupts or without them.
    pub fn tells_flushes(&self) -> bool {
        self.facts.has_event("tlb:tlb_flush")
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
            let program = match programs.get(&process) {
                // The kernel's own threads have a name each.
                _ if process == 0 => "kernel",
                Some(name) => names.get(*name),
                None => "",
            };
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
        let requests = shootdown.requests.len() as u64;
        let figures = [
            (Figure::Flushes, 1),
            // That event tells the pages.
            (Figure::Asked, shootdown.pages.is_some().into()),
            (Figure::Requests, requests),
            (Figure::Interrupts, shootdown.interrupts()),
            (Figure::SenderNs, shootdown.sender_ns()),
            (Figure::VictimNs, shootdown.victim_ns()),
            (Figure::OfCause(shootdown.cause), requests),
        ];
        let part = self.add(shootdown.began_ns, figures);
        self.processes.entry(shootdown.sender.process).or_default()[part] += requests;
        self.tally.add(shootdown);
    }

    fn wait(&mut self, wait: &Wait) {
        if wait.is_idle() {
            self.profile.idle.add(wait);
            return;
        }
        let of_lock = Figure::OfLock(wait.kind, wait.cause);
        self.add(wait.began_ns, [(Figure::Waits, 1), (Figure::WaitNs, wait.ns()), (of_lock, wait.ns())]);
    }
}

/// Compares the figures of two recordings: every figure that one of them has, and that [both count
/// alike](Figure::is_compared).
pub fn differences(one: &Profile, other: &Profile) -> Vec<Difference> {
    let mut figures: Vec<&Figure> = one.figures.keys().chain(other.figures.keys()).collect();
    figures.sort();
    figures.dedup();
    figures.retain(|figure| figure.is_compared(one, other));
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
        let of_cause = Figure::OfCause(Cause::Munmap);
        let figures =
            Figure::TOTALS.into_iter().chain([of_cause, Figure::OfProgram("program".into()), of_lock]);
        Profile { figures: figures.map(|of| (of, noisy(9))).collect(), ..Profile::new(facts) }
    }

    /// What of it is compared with another one.
    fn compared(one: &Profile, other: &Profile) -> Vec<Figure> {
        differences(one, other).into_iter().map(|difference| difference.figure).collect()
    }

    const CALLS: &str = "syscalls:sys_enter_munmap";
    const FLUSH: &str = "tlb:tlb_flush";

    #[test]
    fn flushes_are_not_compared_with_requests() {
        let with = of_events(&[FLUSH, CALLS]);
        let mut before = with.clone();
        before.facts.counted = Count::Flushed;
        let alike = [Figure::Asked, Figure::Answered];
        assert_eq!(compared(&with, &before), alike);
        assert_eq!(compared(&before, &with), alike);
        assert_eq!(compared(&before, &before), alike);
        let light = of_events(&[]);
        assert_eq!(compared(&light, &before), []);
        assert!(Figure::TOTALS.iter().all(|figure| !figure.is_compared(&light, &before)));
    }

    #[test]
    fn a_light_recording_and_a_full_one_have_interrupts_alike() {
        let (light, full) = (of_events(&[]), of_events(&[FLUSH, CALLS]));
        let alike =
            [Figure::Requests, Figure::Interrupts, Figure::VictimNs, Figure::OfProgram("program".into())];
        assert_eq!(compared(&light, &full), alike);
        assert_eq!(compared(&full, &light), alike);
        for same in [light, full] {
            let found = compared(&same, &same);
            assert!(found.contains(&Figure::Flushes) && found.contains(&Figure::SenderNs), "{found:?}");
        }
    }

    #[test]
    fn waits_are_compared_if_both_recordings_tell_them() {
        let waits = |tells: bool| {
            of_events(if tells { &["lock:contention_begin", "lock:contention_end"] } else { &[] })
        };
        let of_lock = Figure::OfLock(LockKind::SleepWrite, Cause::Munmap);
        let has = |one, other| {
            let found = compared(&waits(one), &waits(other));
            [&Figure::Waits, &Figure::WaitNs, &of_lock].map(|figure| found.contains(figure))
        };
        assert_eq!(
            [has(true, true), has(true, false), has(false, true)],
            [[true; 3], [false; 3], [false; 3]]
        );
    }

    #[test]
    fn causes_are_compared_if_both_recordings_tell_them() {
        let (light, full) = (|| of_events(&[]), || of_events(&[FLUSH, CALLS]));
        let with_stacks = || Profile { has_stacks: true, ..light() };
        let compares =
            |one, other| compared(&one, &other).iter().any(|figure| matches!(figure, Figure::OfCause(_)));
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
