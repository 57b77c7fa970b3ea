//! The requests that wait on each CPU.
//!
//! A request is put into the queue of the CPU that it asks. An interrupt is sent only if that queue was empty. The CPU
//! takes all that wait at once, and runs their functions one after the other (`smp_call_function_many_cond`,
//! `__flush_smp_call_function_queue`, kernel/smp.c).

use foldhash::HashSet;

/// The calls that wait on each CPU.
#[derive(Debug, Default)]
pub(crate) struct Queues(Vec<HashSet<u64>>);

impl Queues {
    /// A call is queued for a CPU. Returns whether the CPU is interrupted.
    pub(crate) fn add(&mut self, cpu: u32, call: u64) -> bool {
        let waiting = self.of(cpu);
        let interrupts = waiting.is_empty();
        if !waiting.insert(call) {
            // Its number is used again: it was run, without an event, and with it all that waited.
            waiting.clear();
            waiting.insert(call);
            return true;
        }
        interrupts
    }

    /// A CPU runs a call. Returns all that it took from the queue for that; none if it had taken this one before.
    pub(crate) fn take(&mut self, cpu: u32, call: u64) -> HashSet<u64> {
        let waiting = self.of(cpu);
        if waiting.contains(&call) {
            std::mem::take(waiting)
        } else {
            HashSet::default()
        }
    }

    /// The calls that wait on a CPU.
    pub(crate) fn waiting(&self, cpu: u32) -> impl Iterator<Item = u64> + '_ {
        self.0.get(cpu as usize).into_iter().flatten().copied()
    }

    /// Events of a CPU were lost.
    pub(crate) fn lose(&mut self, cpu: u32) {
        self.of(cpu).clear();
    }

    fn of(&mut self, cpu: u32) -> &mut HashSet<u64> {
        let cpu = cpu as usize;
        if self.0.len() <= cpu {
            self.0.resize_with(cpu + 1, HashSet::default);
        }
        &mut self.0[cpu]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cpu_is_interrupted_if_nothing_waits_and_takes_all_that_does() {
        let mut queues = Queues::default();
        assert!(queues.add(1, 10) && !queues.add(1, 11) && queues.add(2, 12));
        assert_eq!(queues.take(1, 10).len(), 2);
        assert!(queues.add(1, 13), "the queue was taken");
        assert_eq!((queues.take(1, 11).len(), queues.take(1, 13).len()), (0, 1));
    }

    #[test]
    fn a_call_that_ran_without_an_event_waits_no_more() {
        let mut queues = Queues::default();
        assert!(queues.add(1, 10) && !queues.add(1, 11) && queues.add(1, 10));
        assert!(!queues.add(1, 12));
        queues.lose(1);
        assert!(queues.add(1, 13));
    }
}
