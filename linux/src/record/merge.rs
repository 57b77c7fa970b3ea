//! The events of all CPUs in the order of time.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::io;

use crate::events::{Decoder, Event, Kind, Lookup};
use crate::record::spool::Spooled;
use crate::recording::Loss;
use crate::tracefs::{Layout, Missed};

/// The events of one CPU.
struct Stream {
    cpu: u32,
    /// The number of the next page.
    next: usize,
    /// Events that were read from pages and not given out.
    ready: VecDeque<Event>,
    /// The time of the last event.
    time_ns: u64,
}

/// All events that were spooled.
pub(super) struct Merge<'a> {
    pages: &'a Spooled,
    layout: Layout,
    decoder: &'a Decoder,
    streams: Vec<Stream>,
    /// The time of the next event of each stream, and the stream.
    order: BinaryHeap<Reverse<(u64, usize)>>,
    /// A page.
    buffer: Vec<u8>,
    /// What was lost so far.
    pub(super) lost: Loss,
}

impl<'a> Merge<'a> {
    /// The events of the streams, which belong to these CPUs.
    pub(super) fn new(
        pages: &'a Spooled,
        layout: Layout,
        decoder: &'a Decoder,
        cpus: &[u32],
        lookup: &mut Lookup,
    ) -> io::Result<Self> {
        let stream = |cpu: &u32| Stream { cpu: *cpu, next: 0, ready: VecDeque::new(), time_ns: 0 };
        let mut merge = Self {
            pages,
            layout,
            decoder,
            streams: cpus.iter().map(stream).collect(),
            order: BinaryHeap::new(),
            buffer: Vec::new(),
            lost: Loss::default(),
        };
        for stream in 0..cpus.len() {
            merge.queue(stream, lookup)?;
        }
        Ok(merge)
    }

    /// The next event.
    pub(super) fn next(&mut self, lookup: &mut Lookup) -> io::Result<Option<Event>> {
        let Some(Reverse((_, stream))) = self.order.pop() else { return Ok(None) };
        let event = self.streams[stream].ready.pop_front();
        self.queue(stream, lookup)?;
        Ok(event)
    }

    /// Queues a stream by its next event, for which it may read pages.
    fn queue(&mut self, stream: usize, lookup: &mut Lookup) -> io::Result<()> {
        while self.streams[stream].ready.is_empty() {
            if !self.pages.read(stream, self.streams[stream].next, &mut self.buffer)? {
                return Ok(());
            }
            self.streams[stream].next += 1;
            self.read(stream, lookup);
        }
        if let Some(event) = self.streams[stream].ready.front() {
            self.order.push(Reverse((event.time_ns, stream)));
        }
        Ok(())
    }

    /// Reads the events of the page in the buffer.
    fn read(&mut self, stream: usize, lookup: &mut Lookup) {
        let stream = &mut self.streams[stream];
        let Some(page) = self.layout.page(&self.buffer) else {
            self.lost.unreadable += 1;
            return;
        };
        let missed = match page.missed {
            Missed::Records(events) => events,
            Missed::Unknown => {
                self.lost.uncounted = true;
                1
            }
        };
        if missed > 0 {
            self.lost.events += missed;
            let kind = Kind::Lost { events: missed };
            let time_ns = stream.time_ns;
            stream.ready.push_back(Event { time_ns, cpu: stream.cpu, thread: 0, kind });
        }
        for (time_ns, record) in page {
            // A record that an interrupt's record overtook comes with an earlier time.
            stream.time_ns = stream.time_ns.max(time_ns);
            stream.ready.extend(self.decoder.event(stream.cpu, stream.time_ns, record, lookup));
        }
    }
}
