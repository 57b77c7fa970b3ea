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
    /// The interrupts that they sent.
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
    /// The interrupts that it received.
    pub received: u64,
    /// The time for which its handlers ran, in nanoseconds.
    pub handler_ns: u64,
    /// The longest time between an interrupt's sending and its handler, in nanoseconds.
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
    /// The time that other processes' shootdowns took from a process, and their interrupts.
    pub victims: HashMap<u32, (u64, u64)>,
    /// The interrupts of a CPU by the process that it ran.
    pub hit: HashMap<(u32, u32), u64>,
    /// The names of processes.
    pub names: HashMap<u32, Name>,
    /// By CPU.
    pub cpus: BTreeMap<u32, CpuSum>,
    /// The interrupts from a CPU to another.
    pub pairs: HashMap<(u32, u32), u64>,
}

impl Sum {
    fn add(&mut self, shootdown: &Shootdown) {
        self.flushes += 1;
        self.interrupts += shootdown.interrupts.len() as u64;
        match shootdown.pages {
            Some(Some(pages)) => (self.pages, self.counted) = (self.pages + pages, self.counted + 1),
            Some(None) => self.whole += 1,
            None => {}
        }
        self.sender_ns += shootdown.sender_ns();
        self.victim_ns += shootdown.victim_ns();
    }

    /// The sum of two.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            flushes: self.flushes + other.flushes,
            interrupts: self.interrupts + other.interrupts,
            pages: self.pages + other.pages,
            counted: self.counted + other.counted,
            whole: self.whole + other.whole,
            sender_ns: self.sender_ns + other.sender_ns,
            victim_ns: self.victim_ns + other.victim_ns,
        }
    }
}

impl Totals {
    /// Adds a shootdown.
    pub fn add(&mut self, shootdown: &Shootdown) {
        let sender = shootdown.sender;
        self.all.add(shootdown);
        self.causes.entry(shootdown.cause).or_default().add(shootdown);
        self.processes.entry((sender.process, shootdown.cause)).or_default().add(shootdown);
        self.name(sender.process, sender.thread, sender.program);
        self.cpus.entry(sender.cpu).or_default().sent.add(shootdown);
        for interrupt in &shootdown.interrupts {
            *self.pairs.entry((sender.cpu, interrupt.target)).or_default() += 1;
            let cpu = self.cpus.entry(interrupt.target).or_default();
            cpu.received += 1;
            if let Some(victim) = interrupt.victim {
                cpu.handler_ns += victim.handler_ns();
                cpu.slowest_ns = cpu.slowest_ns.max(victim.began_ns.saturating_sub(interrupt.sent_ns));
                let lost = self.victims.entry(victim.process).or_default();
                *lost = (lost.0 + 1, lost.1 + victim.handler_ns());
                *self.hit.entry((interrupt.target, victim.process)).or_default() += 1;
                self.name(victim.process, victim.thread, victim.program);
            }
        }
    }

    fn name(&mut self, process: u32, thread: u32, program: Name) {
        let name = self.names.entry(process).or_insert(program);
        if process == thread {
            *name = program;
        }
    }

    /// The processes that sent shootdowns, those with the most interrupts first.
    pub fn senders(&self) -> Vec<(Process, Sum)> {
        let mut sums: BTreeMap<u32, Sum> = BTreeMap::new();
        for ((process, _), sum) in &self.processes {
            let of_process = sums.entry(*process).or_default();
            *of_process = of_process.plus(*sum);
        }
        let named = |(id, sum): (u32, Sum)| Some((Process { id, program: *self.names.get(&id)? }, sum));
        let mut senders: Vec<_> = sums.into_iter().filter_map(named).collect();
        senders.sort_by_key(|(process, sum)| (std::cmp::Reverse((sum.interrupts, sum.flushes)), process.id));
        senders
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::events::{Names, Work};
    use crate::shootdowns::{Interrupt, Sender, Victim};

    #[test]
    fn every_sum_counts_each_interrupt_once() {
        let mut names = Names::default();
        let program = names.add("program");
        let mut totals = Totals::default();
        for (process, cause, targets) in
            [(1, Cause::Munmap, 2_u32), (1, Cause::Madvise, 1), (2, Cause::Munmap, 3), (2, Cause::Exit, 0)]
        {
            let interrupt = |target| Interrupt {
                target,
                sent_ns: 100,
                victim: Some(Victim { began_ns: 103, ended_ns: 105, thread: 5, process: 5, program }),
            };
            totals.add(&Shootdown {
                sender: Sender { cpu: 0, thread: process, process, program },
                began_ns: 100,
                ended_ns: 110,
                work: Work::Flush,
                cause,
                pages: Some(Some(4)),
                interrupts: (1..=targets).map(interrupt).collect(),
            });
        }
        assert_eq!((totals.all.flushes, totals.all.interrupts, totals.all.pages), (4, 6, 16));
        assert_eq!((totals.all.sender_ns, totals.all.victim_ns), (40, 12));
        let sum = |sums: &mut dyn Iterator<Item = Sum>| sums.fold(Sum::default(), Sum::plus);
        assert_eq!(sum(&mut totals.causes.values().copied()), totals.all);
        assert_eq!(sum(&mut totals.processes.values().copied()), totals.all);
        assert_eq!(totals.pairs.values().sum::<u64>(), 6);
        assert_eq!(totals.cpus.values().map(|cpu| cpu.received).sum::<u64>(), 6);
        assert_eq!(totals.victims[&5], (6, 12));
        assert_eq!([1, 2, 3].map(|cpu| totals.hit[&(cpu, 5)]), [3, 2, 1]);
        let senders: Vec<_> =
            totals.senders().iter().map(|(process, sum)| (process.id, sum.interrupts)).collect();
        assert_eq!(senders, [(1, 3), (2, 3)]);
    }
}
