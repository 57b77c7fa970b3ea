//! A storage device: how long a request takes when others are before it.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::num::NonZeroU32;

use crate::config::Picoseconds;

/// A device that works on several requests at once, each in a place of its own.
#[derive(Debug, Clone)]
pub struct Device {
    queue_depth: usize,
    /// When each place that was ever taken is free again, the earliest first.
    places: BinaryHeap<Reverse<Picoseconds>>,
}

impl Device {
    /// An idle device with `queue_depth` places.
    pub fn new(queue_depth: NonZeroU32) -> Self {
        Self { queue_depth: queue_depth.get() as usize, places: BinaryHeap::new() }
    }

    /// Submits a request at `now` that takes `service` once it has a place, and says when it is done.
    ///
    /// It gets the place that is free first, after every request that was submitted before it. A `now` earlier than that
    /// of the call before is allowed, since CPUs run ahead of each other a little; the request still comes after.
    pub fn submit(&mut self, now: Picoseconds, service: Picoseconds) -> Picoseconds {
        let taken = if self.places.len() < self.queue_depth { None } else { self.places.pop() };
        let begin = taken.map_or(now, |Reverse(free)| free.max(now));
        let done = begin.saturating_add(service);
        self.places.push(Reverse(done));
        done
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn device(queue_depth: u32) -> Device {
        Device::new(NonZeroU32::new(queue_depth).expect("at least one place"))
    }

    #[test]
    fn serialises_with_one_place() {
        let mut device = device(1);
        assert_eq!([0, 0, 0].map(|now| device.submit(now, 100)), [100, 200, 300]);
    }

    #[test]
    fn overlaps_as_many_as_it_has_places() {
        let mut device = device(3);
        let done = [0; 7].map(|now| device.submit(now, 100));
        assert_eq!(done, [100, 100, 100, 200, 200, 200, 300]);
    }

    #[test]
    fn begins_at_once_when_a_place_is_free_again() {
        let mut device = device(1);
        assert_eq!(device.submit(0, 100), 100);
        assert_eq!(device.submit(100, 100), 200, "just free");
        assert_eq!(device.submit(500, 100), 600, "long free");
        assert_eq!(device.submit(550, 100), 700, "half done");
    }

    #[test]
    fn gives_the_place_that_is_free_first() {
        let mut device = device(2);
        assert_eq!(device.submit(0, 1000), 1000);
        assert_eq!(device.submit(10, 50), 60);
        assert_eq!(device.submit(20, 50), 110, "after the short one, not the long one");
        assert_eq!(device.submit(30, 50), 160);
    }

    #[test]
    fn keeps_the_order_of_submission() {
        let mut device = device(1);
        assert_eq!(device.submit(200, 100), 300);
        assert_eq!(device.submit(150, 100), 400, "submitted later, by a CPU that is behind");
    }

    #[test]
    fn holds_no_more_than_its_places() {
        let mut device = device(2);
        for now in 0..1000 {
            device.submit(now, 1);
        }
        assert_eq!(device.places.len(), 2);
    }
}
