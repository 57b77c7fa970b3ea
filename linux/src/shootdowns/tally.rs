//! Adds shootdowns up, with little work for each.
//!
//! A live view adds tens of thousands a second. So a shootdown takes one place in one table, and each of its requests
//! one in another. The sums by cause, process and CPU follow from the two tables when they are asked for.

use std::collections::BTreeMap;

use foldhash::HashMap;

use crate::events::Name;
use crate::shootdowns::{Cause, Sender, Shootdown, Sum, Totals, Victim};

/// Sums over shootdowns.
#[derive(Debug, Clone, Default)]
pub struct Tally {
    sent: HashMap<Sent, (Sum, Program)>,
    received: HashMap<Received, (Handled, Program)>,
}

/// The shootdowns that are summed together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Sent {
    process: u32,
    cpu: u32,
    cause: Cause,
}

/// The requests that are summed together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Received {
    sender: u32,
    target: u32,
    /// The process that the target ran; none if the handler's events were lost.
    process: Option<u32>,
}

/// Sums over requests.
#[derive(Debug, Clone, Copy, Default)]
struct Handled {
    requests: u64,
    handler_ns: u64,
    slowest_ns: u64,
}

/// The name of a process: that of its first thread, or of another one; of several the latest. The fields are in the
/// order of what counts more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Program {
    /// Whether its first thread has the name.
    is_first: bool,
    /// When it had the name.
    time_ns: u64,
    name: Name,
}

impl Program {
    fn of(sender: Sender, time_ns: u64) -> Self {
        Self { is_first: sender.thread == sender.process, time_ns, name: sender.program }
    }

    fn of_victim(victim: Victim) -> Self {
        let Victim { thread, process, began_ns, program, .. } = victim;
        Self { is_first: thread == process, time_ns: began_ns, name: program }
    }
}

impl Tally {
    /// Adds a shootdown.
    pub fn add(&mut self, shootdown: &Shootdown) {
        let sender = shootdown.sender;
        let key = Sent { process: sender.process, cpu: sender.cpu, cause: shootdown.cause };
        let program = Program::of(sender, shootdown.began_ns);
        let (sum, name) = self.sent.entry(key).or_insert((Sum::default(), program));
        sum.add(shootdown);
        *name = program.max(*name);
        for request in &shootdown.requests {
            let process = request.victim.map(|victim| victim.process);
            let key = Received { sender: sender.cpu, target: request.target, process };
            let program = request.victim.map_or(program, Program::of_victim);
            let (sum, name) = self.received.entry(key).or_insert((Handled::default(), program));
            sum.requests += 1;
            *name = program.max(*name);
            if let Some(victim) = request.victim {
                sum.handler_ns = sum.handler_ns.saturating_add(victim.handler_ns());
                sum.slowest_ns = sum.slowest_ns.max(victim.began_ns.saturating_sub(request.sent_ns));
            }
        }
    }

    /// The sums so far.
    pub fn totals(&self) -> Totals {
        let mut totals = Totals::default();
        let mut programs: BTreeMap<u32, Program> = BTreeMap::new();
        let mut learn = |process: u32, program: Program| {
            let known = programs.entry(process).or_insert(program);
            *known = program.max(*known);
        };
        for (key, (sum, program)) in &self.sent {
            learn(key.process, *program);
            let cpu = &mut totals.cpus.entry(key.cpu).or_default().sent;
            let of_cause = totals.causes.entry(key.cause).or_default();
            let of_process = totals.processes.entry((key.process, key.cause)).or_default();
            for total in [&mut totals.all, cpu, of_cause, of_process] {
                *total = total.plus(*sum);
            }
        }
        for (key, (sum, program)) in &self.received {
            *totals.pairs.entry((key.sender, key.target)).or_default() += sum.requests;
            let cpu = totals.cpus.entry(key.target).or_default();
            cpu.received += sum.requests;
            cpu.handler_ns = cpu.handler_ns.saturating_add(sum.handler_ns);
            cpu.slowest_ns = cpu.slowest_ns.max(sum.slowest_ns);
            let Some(process) = key.process else { continue };
            learn(process, *program);
            let lost = totals.victims.entry(process).or_default();
            *lost = (lost.0 + sum.requests, lost.1.saturating_add(sum.handler_ns));
            *totals.hit.entry((key.target, process)).or_default() += sum.requests;
        }
        totals.names = programs.into_iter().map(|(process, program)| (process, program.name)).collect();
        totals
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::events::{Names, Work};
    use crate::shootdowns::Request;

    #[test]
    fn every_sum_counts_each_request_once() {
        let mut names = Names::default();
        let [program, helper] = ["program", "helper"].map(|name| names.add(name));
        let mut tally = Tally::default();
        for (process, cause, targets) in
            [(1, Cause::Munmap, 2_u32), (1, Cause::Madvise, 1), (2, Cause::Munmap, 3), (2, Cause::Exit, 0)]
        {
            let request = |target| Request {
                target,
                sent_ns: 100,
                interrupts: target != 2,
                victim: Some(Victim { began_ns: 103, ended_ns: 105, thread: 5, process: 5, program }),
            };
            tally.add(&Shootdown {
                sender: Sender { cpu: 0, thread: process, process, program },
                began_ns: 100,
                ended_ns: 110,
                work: Work::Flush,
                cause,
                pages: Some(Some(4)),
                requests: (1..=targets).map(request).collect(),
            });
        }
        // Another thread of process 1, on another CPU, whose handler was lost.
        tally.add(&Shootdown {
            sender: Sender { cpu: 3, thread: 9, process: 1, program: helper },
            began_ns: 200,
            ended_ns: 200,
            work: Work::Flush,
            cause: Cause::Munmap,
            pages: None,
            requests: vec![Request { target: 0, sent_ns: 200, interrupts: true, victim: None }],
        });
        let totals = tally.totals();
        assert_eq!(
            (totals.all.flushes, totals.all.requests, totals.all.interrupts, totals.all.pages),
            (5, 7, 5, 16)
        );
        assert_eq!((totals.all.sender_ns, totals.all.victim_ns), (40, 12));
        let sum = |sums: &mut dyn Iterator<Item = Sum>| sums.fold(Sum::default(), Sum::plus);
        assert_eq!(sum(&mut totals.causes.values().copied()), totals.all);
        assert_eq!(sum(&mut totals.processes.values().copied()), totals.all);
        assert_eq!(sum(&mut totals.cpus.values().map(|cpu| cpu.sent)), totals.all);
        assert_eq!(totals.pairs.values().sum::<u64>(), 7);
        assert_eq!(totals.cpus.values().map(|cpu| cpu.received).sum::<u64>(), 7);
        assert_eq!((totals.cpus[&1].handler_ns, totals.cpus[&1].slowest_ns), (6, 3));
        assert_eq!((totals.victims.len(), totals.victims[&5]), (1, (6, 12)));
        assert_eq!([1, 2, 3].map(|cpu| totals.hit[&(cpu, 5)]), [3, 2, 1]);
        assert_eq!(names.get(totals.names[&1]), "program", "the first thread's");
        let senders: Vec<_> =
            totals.senders().iter().map(|(process, sum)| (process.id, sum.requests)).collect();
        assert_eq!(senders, [(1, 4), (2, 3)]);
    }

    #[test]
    fn a_process_has_its_first_threads_name_or_else_the_latest() {
        let mut names = Names::default();
        let [first, older, later] = ["first", "older", "later"].map(|name| names.add(name));
        let mut tally = Tally::default();
        let mut add = |process, thread, cpu, began_ns, program| {
            tally.add(&Shootdown {
                sender: Sender { cpu, thread, process, program },
                began_ns,
                ended_ns: began_ns,
                work: Work::Flush,
                cause: Cause::Munmap,
                pages: None,
                requests: Vec::new(),
            });
        };
        // The sums are in tables without an order: so there are many processes.
        for process in (100..200).step_by(10) {
            add(process, process + 1, 1, 300, later);
            add(process, process + 2, 0, 200, older);
        }
        add(1, 1, 0, 100, first);
        add(1, 2, 1, 200, later);
        let totals = tally.totals();
        assert!((100..200).step_by(10).all(|process| totals.names[&process] == later));
        assert_eq!(totals.names[&1], first);
    }
}
