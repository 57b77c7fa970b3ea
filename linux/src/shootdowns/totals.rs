//! Sums over shootdowns: by cause, by process, by CPU.

use std::collections::BTreeMap;

use foldhash::HashMap;

use crate::events::Name;
use crate::shootdowns::{Cause, Shootdown};

/// Sums over some shootdowns.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sum {
    /// The flushes that asked other CPUs.
    pub flushes: u64,
    /// The CPUs that they asked: a CPU counts once for each flush.
    pub requests: u64,
    /// The interrupts that this took: none for a CPU on which a request waited already.
    pub interrupts: u64,
    /// The pages of those flushes of which it is known, and that do not flush all.
    pub pages: u64,
    /// The number of these flushes.
    pub counted: u64,
    /// The flushes that flush all.
    pub whole: u64,
    /// The time for which senders waited, in nanoseconds.
    pub sender_ns: u64,
    /// The time for which handlers ran, in nanoseconds.
    pub victim_ns: u64,
}

/// A process with the name of one of its threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Process {
    /// Its number; 0 for idle CPUs.
    pub id: u32,
    /// The name of its first thread, or of another one if that was not seen.
    pub program: Name,
}

/// The sums of a CPU.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CpuSum {
    /// The shootdowns that it sent.
    pub sent: Sum,
    /// The requests that it received.
    pub received: u64,
    /// The time for which its handlers ran, in nanoseconds.
    pub handler_ns: u64,
    /// The longest time between a request and its handler, in nanoseconds.
    pub slowest_ns: u64,
}

/// Sums over all shootdowns of a time.
#[derive(Debug, Clone, Default)]
pub struct Totals {
    /// All.
    pub all: Sum,
    /// By cause.
    pub causes: BTreeMap<Cause, Sum>,
    /// By process and cause.
    pub processes: HashMap<(u32, Cause), Sum>,
    /// The time that other processes' shootdowns took from a process, and their requests.
    pub victims: HashMap<u32, (u64, u64)>,
    /// The requests to a CPU by the process that it ran.
    pub hit: HashMap<(u32, u32), u64>,
    /// The names of processes.
    pub names: HashMap<u32, Name>,
    /// By CPU.
    pub cpus: BTreeMap<u32, CpuSum>,
    /// The requests from a CPU to another.
    pub pairs: HashMap<(u32, u32), u64>,
}

/// Values in damaged files may be any: sums of them stay at the largest number.
impl Sum {
    pub(super) fn add(&mut self, shootdown: &Shootdown) {
        self.flushes += 1;
        self.requests += shootdown.requests.len() as u64;
        self.interrupts += shootdown.interrupts();
        match shootdown.pages {
            Some(Some(pages)) => {
                self.pages = self.pages.saturating_add(pages);
                self.counted += 1;
            }
            Some(None) => self.whole += 1,
            None => {}
        }
        self.sender_ns = self.sender_ns.saturating_add(shootdown.sender_ns());
        self.victim_ns = self.victim_ns.saturating_add(shootdown.victim_ns());
    }

    /// The sum of two.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            flushes: self.flushes + other.flushes,
            requests: self.requests + other.requests,
            interrupts: self.interrupts + other.interrupts,
            pages: self.pages.saturating_add(other.pages),
            counted: self.counted + other.counted,
            whole: self.whole + other.whole,
            sender_ns: self.sender_ns.saturating_add(other.sender_ns),
            victim_ns: self.victim_ns.saturating_add(other.victim_ns),
        }
    }
}

impl Sum {
    /// All counts and times so often.
    fn times(self, factor: f64) -> Self {
        Self {
            flushes: times(self.flushes, factor),
            requests: times(self.requests, factor),
            interrupts: times(self.interrupts, factor),
            pages: times(self.pages, factor),
            counted: times(self.counted, factor),
            whole: times(self.whole, factor),
            sender_ns: times(self.sender_ns, factor),
            victim_ns: times(self.victim_ns, factor),
        }
    }
}

impl CpuSum {
    /// The sum of two.
    fn plus(self, other: Self) -> Self {
        Self {
            sent: self.sent.plus(other.sent),
            received: self.received + other.received,
            handler_ns: self.handler_ns.saturating_add(other.handler_ns),
            slowest_ns: self.slowest_ns.max(other.slowest_ns),
        }
    }

    /// All counts and times so often. The slowest stays.
    fn times(self, factor: f64) -> Self {
        Self {
            sent: self.sent.times(factor),
            received: times(self.received, factor),
            handler_ns: times(self.handler_ns, factor),
            slowest_ns: self.slowest_ns,
        }
    }
}

fn times(value: u64, factor: f64) -> u64 {
    (value as f64 * factor).round() as u64
}

impl Totals {
    /// Adds the sums of another time.
    pub(crate) fn add(&mut self, more: &Self) {
        self.all = self.all.plus(more.all);
        for (cause, sum) in &more.causes {
            let to = self.causes.entry(*cause).or_default();
            *to = to.plus(*sum);
        }
        for (key, sum) in &more.processes {
            let to = self.processes.entry(*key).or_default();
            *to = to.plus(*sum);
        }
        for (process, (requests, time_ns)) in &more.victims {
            let to = self.victims.entry(*process).or_default();
            *to = (to.0 + requests, to.1.saturating_add(*time_ns));
        }
        for (key, requests) in &more.hit {
            *self.hit.entry(*key).or_default() += requests;
        }
        self.names.extend(&more.names);
        for (cpu, sum) in &more.cpus {
            let to = self.cpus.entry(*cpu).or_default();
            *to = to.plus(*sum);
        }
        for (pair, requests) in &more.pairs {
            *self.pairs.entry(*pair).or_default() += requests;
        }
    }

    /// All counts and times so often. The slowest stays.
    pub(crate) fn times(&self, factor: f64) -> Self {
        let Self { all, causes, processes, victims, hit, names, cpus, pairs } = self;
        let pair = |of: &(u64, u64)| (times(of.0, factor), times(of.1, factor));
        Self {
            all: all.times(factor),
            causes: causes.iter().map(|(cause, of)| (*cause, of.times(factor))).collect(),
            processes: processes.iter().map(|(key, of)| (*key, of.times(factor))).collect(),
            victims: victims.iter().map(|(id, of)| (*id, pair(of))).collect(),
            hit: hit.iter().map(|(key, requests)| (*key, times(*requests, factor))).collect(),
            names: names.clone(),
            cpus: cpus.iter().map(|(id, of)| (*id, of.times(factor))).collect(),
            pairs: pairs.iter().map(|(pair, requests)| (*pair, times(*requests, factor))).collect(),
        }
    }

    /// The processes that sent shootdowns, those with the most requests first.
    pub fn senders(&self) -> Vec<(Process, Sum)> {
        let mut sums: BTreeMap<u32, Sum> = BTreeMap::new();
        for ((process, _), sum) in &self.processes {
            let of_process = sums.entry(*process).or_default();
            *of_process = of_process.plus(*sum);
        }
        let named = |(id, sum): (u32, Sum)| Some((Process { id, program: *self.names.get(&id)? }, sum));
        let mut senders: Vec<_> = sums.into_iter().filter_map(named).collect();
        senders.sort_by_key(|(process, sum)| (std::cmp::Reverse((sum.requests, sum.flushes)), process.id));
        senders
    }
}
