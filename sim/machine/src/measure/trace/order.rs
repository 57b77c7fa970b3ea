//! The events that are held back until their order is known.

use super::event::Record;
use crate::config::Picoseconds;

/// The number of events that are worth a sort.
const LEAST: usize = 4096;

/// Events that are held back.
#[derive(Debug)]
pub(super) struct Order {
    records: Vec<Record>,
    /// The number of events at which it is full: twice those that could not be released, so each event takes part in
    /// few sorts.
    most: usize,
}

impl Default for Order {
    fn default() -> Self {
        Self { records: Vec::new(), most: LEAST }
    }
}

impl Order {
    pub(super) fn push(&mut self, record: Record) {
        self.records.push(record);
    }

    pub(super) fn is_full(&self) -> bool {
        self.records.len() >= self.most
    }

    /// Takes the events before `time`, in the order of their times, and those of one time in the order in which they
    /// came.
    pub(super) fn before(&mut self, time: Picoseconds) -> Vec<Record> {
        self.records.sort_by_key(|record| record.time);
        let later = self.records.partition_point(|record| record.time < time);
        let rest = self.records.split_off(later);
        self.most = LEAST.max(2 * rest.len());
        std::mem::replace(&mut self.records, rest)
    }
}

#[cfg(test)]
mod tests {
    use super::super::event::Event;
    use super::*;

    #[test]
    fn events_leave_in_the_order_of_their_times_and_then_of_their_coming() {
        let mut order = Order::default();
        for (cpu, time) in [30, 10, 20, 10, 40].into_iter().enumerate() {
            order.push(Record { time, cpu, event: Event::Returns });
        }
        let mut before =
            |time| order.before(time).iter().map(|record| (record.time, record.cpu)).collect::<Vec<_>>();
        assert_eq!(before(30), [(10, 1), (10, 3), (20, 2)]);
        assert_eq!(before(30), []);
        assert_eq!(before(u64::MAX), [(30, 0), (40, 4)]);
    }

    #[test]
    fn it_is_full_again_after_as_many_events_as_it_still_holds() {
        let mut order = Order::default();
        let fill = |order: &mut Order| {
            let mut count = 0;
            while !order.is_full() {
                order.push(Record { time: 7, cpu: 0, event: Event::Returns });
                count += 1;
            }
            count
        };
        assert_eq!(fill(&mut order), LEAST);
        assert!(order.before(7).is_empty());
        assert_eq!(fill(&mut order), LEAST);
        assert_eq!(order.before(8).len(), 2 * LEAST);
        assert_eq!(fill(&mut order), LEAST);
    }
}
