//! When threads can be forgotten.

use std::collections::HashSet;

use crate::events::{Event, Kind};
use crate::kernel::threads::Threads;

/// The threads that have ended. The kernel says that a thread ends before it frees its memory, so flushes may follow.
#[derive(Debug, Default)]
pub(super) struct Lifetimes {
    /// Those that ended since the last call of [`forget`](Self::forget).
    ended: HashSet<u32>,
    /// Those that ended before.
    gone: HashSet<u32>,
}

impl Lifetimes {
    /// Learns from an event.
    pub(super) fn learn(&mut self, event: &Event) {
        match event.kind {
            Kind::ThreadEnded => {
                self.ended.insert(event.thread);
            }
            // The number is used again.
            Kind::ThreadBegan { thread, .. } => {
                self.ended.remove(&thread);
                self.gone.remove(&thread);
            }
            _ => {}
        }
    }

    /// Forgets the threads that had ended at the call before. The first thread of a process names it, so it is kept until
    /// no other one is known.
    pub(super) fn forget(&mut self, threads: &mut Threads) {
        let is_first = |thread: &u32| threads.get(*thread).is_some_and(|is| is.process == *thread);
        let (mut firsts, others): (HashSet<u32>, HashSet<u32>) = self.gone.drain().partition(is_first);
        for thread in others {
            threads.forget(thread);
        }
        let others: HashSet<u32> =
            threads.all().filter(|(thread, is)| *thread != is.process).map(|(_, is)| is.process).collect();
        firsts.retain(|first| {
            let stays = others.contains(first);
            if !stays {
                threads.forget(*first);
            }
            stays
        });
        self.gone = std::mem::take(&mut self.ended);
        self.gone.extend(firsts);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::events::Names;
    use crate::kernel::threads::Thread;

    #[test]
    fn a_thread_is_forgotten_an_interval_after_its_end_unless_its_number_is_used_again() {
        let name = Names::default().add("program");
        let mut threads = Threads::default();
        let mut lifetimes = Lifetimes::default();
        let event = |thread, kind| Event { time_ns: 0, cpu: 0, thread, kind };
        for thread in 1..=3 {
            threads.add(thread, Thread { process: 9, name });
        }
        for thread in [2, 3] {
            lifetimes.learn(&event(thread, Kind::ThreadEnded));
        }
        lifetimes.forget(&mut threads);
        assert_eq!(threads.all().count(), 3);
        lifetimes.learn(&event(1, Kind::ThreadBegan { thread: 3, same_process: true, name }));
        lifetimes.forget(&mut threads);
        assert!(threads.get(1).is_some() && threads.get(2).is_none() && threads.get(3).is_some());
    }

    #[test]
    fn the_first_thread_of_a_process_is_kept_as_long_as_another_one() {
        let name = Names::default().add("program");
        let mut threads = Threads::default();
        let mut lifetimes = Lifetimes::default();
        threads.add(1, Thread { process: 1, name });
        threads.add(2, Thread { process: 1, name });
        let mut known = |ended: &[u32]| {
            for thread in ended {
                lifetimes.learn(&Event { time_ns: 0, cpu: 0, thread: *thread, kind: Kind::ThreadEnded });
            }
            lifetimes.forget(&mut threads);
            threads.all().count()
        };
        assert_eq!([known(&[1]), known(&[]), known(&[2]), known(&[])], [2, 2, 2, 0]);
    }
}
