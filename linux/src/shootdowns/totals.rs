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

impl Totals {
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
