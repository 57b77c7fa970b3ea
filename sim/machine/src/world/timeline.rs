//! The CPUs in order of a time, such as that of their next event.
//!
//! A winner tree: each CPU is a leaf, and each inner node holds the earlier of its two children, so the root is the CPU
//! with the earliest event. A change of one CPU's time replays the matches on its path to the root, up to the first
//! with the same result as before. Their number is at most the number of bits in the number of CPUs. This code runs
//! several times for each simulated page. So a time and its CPU are one number, a match is one comparison without a
//! branch, and the tree has room for the most CPUs, which spares every access the check of its bounds. Only the part
//! for the machine's CPUs is ever touched.

use std::cell::Cell;

use crate::config::Picoseconds;

/// The time of an event that never comes.
pub(crate) const NEVER: Picoseconds = Picoseconds::MAX;

/// The number of bits that hold the CPU.
const CPU_BITS: u32 = 13;
/// The number of low bits of a time that are dropped. Events less than 8 ps apart are ordered by CPU.
const COARSE: u32 = 3;

/// The end of simulated time, five hours: the largest time that fits in the remaining bits. All later events are
/// taken to come then.
pub(crate) const END: Picoseconds = (1 << (u64::BITS - CPU_BITS + COARSE)) - (2 << COARSE);

/// The number of nodes of a tree for the most CPUs.
const NODES: usize = 2 << CPU_BITS;

/// A time for each CPU, such as that of its next event.
#[derive(Debug)]
pub(crate) struct Timeline {
    /// The winner of each match: the final at index 1, the CPUs from `leaves` on.
    nodes: Box<[Cell<u64>; NODES]>,
    leaves: usize,
}

impl Timeline {
    /// `cpus` CPUs without an event.
    ///
    /// # Panics
    /// If the tree has no room for so many.
    pub(crate) fn new(cpus: usize) -> Self {
        let leaves = cpus.next_power_of_two();
        assert!(2 * leaves <= NODES, "{cpus} CPUs, and the timeline has room for {}", NODES / 2);
        let nodes: Box<[Cell<u64>]> = vec![Cell::new(NEVER); NODES].into();
        let Ok(nodes) = nodes.try_into() else { unreachable!("as many nodes as were made") };
        Self { nodes, leaves }
    }

    /// The leaf of a CPU.
    fn leaf(&self, cpu: usize) -> usize {
        (self.leaves + cpu) % NODES
    }

    /// Sets the time of a CPU's event.
    pub(crate) fn set(&self, cpu: usize, time: Picoseconds) {
        let mut winner = number(time, cpu);
        let mut node = self.leaf(cpu);
        while self.nodes[node].replace(winner) != winner && node > 1 {
            winner = winner.min(self.nodes[node ^ 1].get());
            node /= 2;
        }
    }

    /// The CPU with the earliest event, if there is one.
    pub(crate) fn first(&self) -> Option<usize> {
        let winner = self.nodes[1].get();
        (winner != NEVER).then_some((winner & ((1 << CPU_BITS) - 1)) as usize)
    }

    /// The time of that event, to within 8 ps; [`NEVER`] if there is none.
    pub(crate) fn earliest(&self) -> Picoseconds {
        time(self.nodes[1].get())
    }

    /// Takes the earliest event out and returns its CPU, if there is one.
    pub(crate) fn take_first(&self) -> Option<usize> {
        let first = self.first()?;
        let (mut node, mut winner) = (self.leaf(first), NEVER);
        self.nodes[node].set(NEVER);
        while node > 1 {
            // The opponent does not depend on the matches below, so the loads of all levels overlap.
            winner = winner.min(self.nodes[node ^ 1].get());
            node /= 2;
            self.nodes[node].set(winner);
        }
        Some(first)
    }

    /// The CPUs whose events come at or before `time`, to within 8 ps, in ascending order. The search skips subtrees
    /// without one.
    pub(crate) fn until(&self, time: Picoseconds) -> impl Iterator<Item = usize> + '_ {
        let last = number(time, (1 << CPU_BITS) - 1);
        let mut from = 0;
        std::iter::from_fn(move || {
            let cpu = self.next_until(from, last)?;
            from = cpu + 1;
            Some(cpu)
        })
    }

    /// The first CPU from `from` on whose number is at most `last`.
    fn next_until(&self, from: usize, last: u64) -> Option<usize> {
        let leaves = self.leaves;
        if from >= leaves {
            return None;
        }
        let mut node = leaves + from;
        while self.nodes[node].get() > last {
            // Move right, to the largest subtree that begins there.
            while node % 2 == 1 {
                node /= 2;
            }
            if node == 0 {
                return None;
            }
            node += 1;
        }
        while node < leaves {
            node *= 2;
            node += usize::from(self.nodes[node].get() > last);
        }
        Some(node - leaves)
    }
}

/// The time in a number.
fn time(number: u64) -> Picoseconds {
    if number == NEVER {
        NEVER
    } else {
        number >> CPU_BITS << COARSE
    }
}

/// A time and its CPU as one number. Earlier events have smaller numbers.
fn number(time: Picoseconds, cpu: usize) -> u64 {
    if time == NEVER {
        return NEVER;
    }
    (time.min(END) >> COARSE) << CPU_BITS | cpu as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_after_the_end_of_time_comes_at_the_end() {
        let timeline = Timeline::new(1 << CPU_BITS);
        let last = (1 << CPU_BITS) - 1;
        for time in [END, END + 1, NEVER - 1] {
            timeline.set(last, time);
            assert_eq!((timeline.first(), timeline.earliest()), (Some(last), END));
        }
        timeline.set(0, END - (1 << COARSE));
        assert_eq!((timeline.first(), timeline.earliest()), (Some(0), END - (1 << COARSE)));
    }

    #[test]
    fn the_earliest_wins_and_ties_go_to_the_lowest_number() {
        for cpus in [1, 2, 3, 48, 100] {
            let timeline = Timeline::new(cpus);
            assert_eq!((timeline.first(), timeline.earliest()), (None, NEVER));
            let mut times = vec![NEVER; cpus];
            let mut state = 1u64;
            for _ in 0..2000 {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let (cpu, time) = ((state >> 40) as usize % cpus, state >> 60);
                let time = if time == 0 { NEVER } else { 8 * time };
                times[cpu] = time;
                timeline.set(cpu, time);
                let earliest = *times.iter().min().unwrap_or(&NEVER);
                assert_eq!(timeline.earliest(), earliest);
                let first = times.iter().position(|&time| time == earliest).filter(|_| earliest != NEVER);
                assert_eq!(timeline.first(), first);
                if let Some(first) = first.filter(|_| state >> 30 & 7 < 2) {
                    assert_eq!(timeline.take_first(), Some(first));
                    times[first] = NEVER;
                    assert_eq!(timeline.earliest(), *times.iter().min().unwrap_or(&NEVER));
                }
                let limit = state >> 20 & 0x7f;
                let due = (0..cpus).filter(|&cpu| times[cpu] <= limit).collect::<Vec<_>>();
                assert_eq!(timeline.until(limit | 7).collect::<Vec<_>>(), due);
            }
        }
    }
}
