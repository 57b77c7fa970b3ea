//! The memory in which the CPUs of a scenario meet.

use core::sync::atomic::Ordering::SeqCst;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize};

use crate::actor::{Actor, Stop};
use crate::kernel::{Cpu, Failed, PAGES};
use crate::verdict::{Broken, Finding, Verdict};

/// The most CPUs.
pub const CPUS: usize = 256;

/// What a scenario does on each CPU.
pub(crate) type Body<C> = fn(&Actor<'_, C>) -> Result<(), Stop>;

/// One scenario's part for each CPU. It has no lifetime, so a kernel can pass it on to its CPUs as it likes.
#[derive(Debug)]
pub struct Job<C: 'static> {
    body: Body<C>,
    stage: &'static Stage,
}

impl<C> Clone for Job<C> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<C> Copy for Job<C> {}

impl<C: Cpu> Job<C> {
    pub(crate) fn new(body: Body<C>, stage: &'static Stage) -> Self {
        Self { body, stage }
    }

    /// Runs on a CPU, and returns when the scenario ends there. It waits for the other CPUs meanwhile.
    pub fn run(self, cpu: &C) {
        let actor = Actor { cpu, stage: self.stage };
        if let Err(Stop::Because(verdict)) = (self.body)(&actor) {
            self.stage.stop(verdict);
        }
    }
}

/// The memory in which the CPUs of a scenario meet. Scenarios use it one after the other.
#[derive(Debug)]
pub struct Stage {
    pub(crate) cpus: AtomicUsize,
    pub(crate) rounds: AtomicU32,
    /// How many CPUs wait for the others, and how many times all have met.
    pub(crate) arrived: AtomicUsize,
    pub(crate) meetings: AtomicUsize,
    /// Work that a scenario counts.
    pub(crate) count: AtomicUsize,
    /// A number that a scenario passes from one CPU to the others.
    pub(crate) shared: AtomicU64,
    /// The CPUs that race with the first one are to end.
    pub(crate) over: AtomicBool,
    pub(crate) versions: AtomicU64,
    /// The accesses that each CPU has made.
    pub(crate) accesses: [AtomicU64; CPUS],
    pub(crate) pages: [Page; PAGES],
    /// The last version that each CPU has seen.
    pub(crate) seen: [AtomicU64; CPUS],
    stopped: AtomicBool,
    /// Why, in numbers, since CPUs share it without a lock.
    why: [AtomicU64; 5],
}

/// What a page may show.
#[derive(Debug)]
pub(crate) struct Page {
    /// The first version that an access may show that begins now. It grows when a version was taken away.
    pub(crate) least: AtomicU64,
    /// The last version that was put there, or is being put there.
    pub(crate) most: AtomicU64,
    /// The version that is there all the time from when it was put there until it is about to be taken away; 0 for none.
    pub(crate) there: AtomicU64,
    /// The same, for the right to store.
    pub(crate) open: AtomicU64,
    /// Odd while no CPU may store.
    pub(crate) sealed: AtomicU64,
}

impl Page {
    const fn new() -> Self {
        let [least, most, there, open, sealed] = [const { AtomicU64::new(0) }; 5];
        Self { least, most, there, open, sealed }
    }

    /// No version is there.
    fn clear(&self) {
        self.least.store(1, SeqCst);
        for number in [&self.most, &self.there, &self.open, &self.sealed] {
            number.store(0, SeqCst);
        }
    }
}

impl Default for Stage {
    fn default() -> Self {
        Self::new()
    }
}

impl Stage {
    /// A stage for any number of scenarios.
    #[allow(clippy::large_stack_arrays, reason = "it becomes a static")]
    pub const fn new() -> Self {
        Self {
            cpus: AtomicUsize::new(0),
            rounds: AtomicU32::new(0),
            arrived: AtomicUsize::new(0),
            meetings: AtomicUsize::new(0),
            count: AtomicUsize::new(0),
            shared: AtomicU64::new(0),
            over: AtomicBool::new(false),
            versions: AtomicU64::new(0),
            accesses: [const { AtomicU64::new(0) }; CPUS],
            pages: [const { Page::new() }; PAGES],
            seen: [const { AtomicU64::new(0) }; CPUS],
            stopped: AtomicBool::new(false),
            why: [const { AtomicU64::new(0) }; 5],
        }
    }

    /// Sets the stage for a scenario. No job runs.
    pub(crate) fn set(&self, cpus: usize, rounds: u32) {
        assert!((1..=CPUS).contains(&cpus), "{cpus} CPUs; 1 to {CPUS} can run scenarios");
        self.cpus.store(cpus, SeqCst);
        self.rounds.store(rounds, SeqCst);
        self.arrived.store(0, SeqCst);
        self.count.store(0, SeqCst);
        self.shared.store(0, SeqCst);
        self.over.store(false, SeqCst);
        self.versions.store(0, SeqCst);
        self.pages.iter().for_each(Page::clear);
        self.accesses.iter().chain(&self.seen).for_each(|number| number.store(0, SeqCst));
        self.stopped.store(false, SeqCst);
        self.why[0].store(0, SeqCst);
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.stopped.load(SeqCst)
    }

    /// Ends the scenario, unless another CPU has.
    fn stop(&self, verdict: Verdict) {
        let numbers = encode(verdict);
        if self.why[0].compare_exchange(0, numbers[0], SeqCst, SeqCst).is_ok() {
            // They are read after all CPUs have ended.
            for (to, number) in self.why.iter().zip(numbers) {
                to.store(number, SeqCst);
            }
        }
        self.stopped.store(true, SeqCst);
    }

    /// The verdict, after all CPUs have ended.
    pub(crate) fn verdict(&self) -> Verdict {
        let accesses = self.accesses.iter().map(|accesses| accesses.load(SeqCst)).sum();
        let passed = Verdict::Passed { accesses };
        decode(self.why.each_ref().map(|number| number.load(SeqCst))).unwrap_or(passed)
    }
}

/// A verdict that ends a scenario, in numbers. The first one is not 0.
fn encode(verdict: Verdict) -> [u64; 5] {
    let found = |kind, Finding { cpu, place, .. }, one, other| [kind, cpu as u64, place, one, other];
    match verdict {
        Verdict::Broken(finding) => match finding.broken {
            Broken::Stale { loaded, least } => found(1, finding, loaded, least),
            Broken::Foreign { loaded } => found(2, finding, loaded, 0),
            Broken::Missing => found(3, finding, 0, 0),
            Broken::Stored => found(4, finding, 0, 0),
        },
        Verdict::Failed(Failed::NoMemory) => [5, 0, 0, 0, 0],
        Verdict::Failed(Failed::Error(number)) => [6, number, 0, 0, 0],
        Verdict::Untried => [7, 0, 0, 0, 0],
        Verdict::Passed { .. } | Verdict::Lacks(_) => [0; 5],
    }
}

fn decode([kind, cpu, place, one, other]: [u64; 5]) -> Option<Verdict> {
    let found = |broken| Some(Verdict::Broken(Finding { cpu: cpu as usize, place, broken }));
    match kind {
        1 => found(Broken::Stale { loaded: one, least: other }),
        2 => found(Broken::Foreign { loaded: one }),
        3 => found(Broken::Missing),
        4 => found(Broken::Stored),
        5 => Some(Verdict::Failed(Failed::NoMemory)),
        6 => Some(Verdict::Failed(Failed::Error(cpu))),
        7 => Some(Verdict::Untried),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verdict_is_the_same_after_it_was_numbers() {
        let found = |broken| Verdict::Broken(Finding { cpu: 3, place: 9, broken });
        for verdict in [
            found(Broken::Stale { loaded: 5, least: 6 }),
            found(Broken::Foreign { loaded: 1 }),
            found(Broken::Missing),
            found(Broken::Stored),
            Verdict::Failed(Failed::NoMemory),
            Verdict::Failed(Failed::Error(4)),
            Verdict::Untried,
        ] {
            assert_eq!(decode(encode(verdict)), Some(verdict));
        }
        assert_eq!(decode(encode(Verdict::Passed { accesses: 1 })), None);
    }

    #[test]
    fn the_first_verdict_stands() {
        let stage = Stage::new();
        stage.set(2, 1);
        stage.stop(Verdict::Untried);
        stage.stop(Verdict::Failed(Failed::NoMemory));
        assert!(stage.is_stopped());
        assert_eq!(stage.verdict(), Verdict::Untried);
        stage.set(2, 1);
        assert_eq!(stage.verdict(), Verdict::Passed { accesses: 0 });
    }
}
