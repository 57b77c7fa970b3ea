//! A storage device: the time that a request takes when others are ahead of it.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::num::NonZeroU32;

use crate::config::Picoseconds;

/// A device that works on several requests at once, each in a channel of its own.
#[derive(Debug, Clone)]
pub struct Device {
    queue_depth: usize,
    /// The time at which each used channel is free again, the earliest first.
    channels: BinaryHeap<Reverse<Picoseconds>>,
}

impl Device {
    /// An idle device with `queue_depth` channels.
    pub fn new(queue_depth: NonZeroU32) -> Self {
        Self { queue_depth: queue_depth.get() as usize, channels: BinaryHeap::new() }
    }

    /// Submits a request at `now` that takes `service` once it has a channel, and returns the time at which it is done.
    ///
    /// The request takes the channel that is free first, after all requests submitted before it. `now` may be earlier
    /// than in the previous call, since CPUs run slightly ahead of each other. The order of the calls still decides.
    pub fn submit(&mut self, now: Picoseconds, service: Picoseconds) -> Picoseconds {
        let taken = if self.channels.len() < self.queue_depth { None } else { self.channels.pop() };
        let begin = taken.map_or(now, |Reverse(free)| free.max(now));
        let done = begin.saturating_add(service);
        self.channels.push(Reverse(done));
        done
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn device(queue_depth: u32) -> Device {
        Device::new(NonZeroU32::new(queue_depth).expect("at least one channel"))
    }

    #[test]
    fn one_channel_serialises_requests() {
        let mut device = device(1);
        assert_eq!([0, 0, 0].map(|now| device.submit(now, 100)), [100, 200, 300]);
    }

    #[test]
    fn as_many_requests_overlap_as_there_are_channels() {
        let mut device = device(3);
        let done = [0; 7].map(|now| device.submit(now, 100));
        assert_eq!(done, [100, 100, 100, 200, 200, 200, 300]);
    }

    #[test]
    fn a_request_begins_at_once_if_a_channel_is_free() {
        let mut device = device(1);
        assert_eq!(device.submit(0, 100), 100);
        assert_eq!(device.submit(100, 100), 200, "the channel has just become free");
        assert_eq!(device.submit(500, 100), 600, "the channel has long been free");
        assert_eq!(device.submit(550, 100), 700, "the request ahead is half done");
    }

    #[test]
    fn a_request_takes_the_channel_that_is_free_first() {
        let mut device = device(2);
        assert_eq!(device.submit(0, 1000), 1000);
        assert_eq!(device.submit(10, 50), 60);
        assert_eq!(device.submit(20, 50), 110, "after the short request, not the long one");
        assert_eq!(device.submit(30, 50), 160);
    }

    #[test]
    fn requests_keep_their_order_of_submission() {
        let mut device = device(1);
        assert_eq!(device.submit(200, 100), 300);
        assert_eq!(device.submit(150, 100), 400, "submitted later, by a CPU that is behind");
    }

    #[test]
    fn it_records_no_more_than_its_channels() {
        let mut device = device(2);
        for now in 0..1000 {
            device.submit(now, 1);
        }
        assert_eq!(device.channels.len(), 2);
    }
}
