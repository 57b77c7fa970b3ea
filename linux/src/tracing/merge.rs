//! The events of all CPUs in the order of time.

use std::cmp::Reverse;
use std::collections::binary_heap::{BinaryHeap, PeekMut};
use std::collections::VecDeque;
use std::io;

use crate::events::{Decoder, Event, Kind, Lookup};
use crate::recording::Loss;
use crate::tracefs::{Layout, Missed};

/// The events of one CPU.
#[derive(Debug)]
struct Stream {
    cpu: u32,
    /// Events that were read from pages and not given out.
    ready: VecDeque<Event>,
    /// The time of the last event.
    time_ns: u64,
}

/// The pages of some streams.
pub(crate) trait Pages {
    /// Reads the next page of a stream. Returns whether there is one.
    fn next(&mut self, stream: usize, page: &mut Vec<u8>) -> io::Result<bool>;
}

/// The events in the pages of all streams.
#[derive(Debug)]
pub(crate) struct Merge<P> {
    pages: P,
    layout: Layout,
    decoder: Decoder,
    streams: Vec<Stream>,
    /// The time of the next event of each stream, and the stream.
    order: BinaryHeap<Reverse<(u64, usize)>>,
    /// A page.
    buffer: Vec<u8>,
    /// What was lost so far.
    pub(crate) lost: Loss,
}

impl<P: Pages> Merge<P> {
    /// The events of the streams, which belong to these CPUs. None is read yet.
    pub(crate) fn new(pages: P, layout: Layout, decoder: Decoder, cpus: &[u32]) -> Self {
        let stream = |cpu: &u32| Stream { cpu: *cpu, ready: VecDeque::new(), time_ns: 0 };
        Self {
            pages,
            layout,
            decoder,
            streams: cpus.iter().map(stream).collect(),
            order: BinaryHeap::new(),
            buffer: Vec::new(),
            lost: Loss::default(),
        }
    }

    /// The pages.
    pub(crate) fn pages(&self) -> &P {
        &self.pages
    }

    pub(crate) fn decoder(&self) -> &Decoder {
        &self.decoder
    }

    /// Reads on where a stream had no more pages. Called first, and whenever there may be more.
    pub(crate) fn read_on(&mut self, lookup: &mut Lookup) -> io::Result<()> {
        for stream in 0..self.streams.len() {
            if self.streams[stream].ready.is_empty() {
                self.queue(stream, lookup)?;
            }
        }
        Ok(())
    }

    /// Leaves out the events that were read and not given out.
    pub(crate) fn skip(&mut self) {
        self.order.clear();
        for stream in &mut self.streams {
            stream.ready.clear();
        }
    }

    /// The next event, if it happened before a time.
    pub(crate) fn next(&mut self, before_ns: u64, lookup: &mut Lookup) -> io::Result<Option<Event>> {
        let Some(mut first) = self.order.peek_mut() else { return Ok(None) };
        let Reverse((time_ns, stream)) = *first;
        if time_ns >= before_ns {
            return Ok(None);
        }
        let ready = &mut self.streams[stream].ready;
        let event = ready.pop_front();
        // Mostly the same stream goes on.
        if let Some(next) = ready.front() {
            *first = Reverse((next.time_ns, stream));
            return Ok(event);
        }
        PeekMut::pop(first);
        self.queue(stream, lookup)?;
        Ok(event)
    }

    /// Queues a stream by its next event, for which it may read pages.
    fn queue(&mut self, stream: usize, lookup: &mut Lookup) -> io::Result<()> {
        while self.streams[stream].ready.is_empty() {
            if !self.pages.next(stream, &mut self.buffer)? {
                return Ok(());
            }
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
            self.lost.events = self.lost.events.saturating_add(missed);
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
