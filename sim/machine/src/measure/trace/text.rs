//! The trace as text.
//!
//! Lines that begin with `#` name the run's circumstances. Then each flush and each interrupt has a line
//! `time-us cpu event`, separated by spaces. A flush gives Linux's reason in quotes, the number of pages (`all` for
//! everything) and the space (0 for a batch over several).

use std::io::{self, Write};

use ceasefire::FlushEvent;

use super::event::{Event, Format, Record};
use crate::config::Picoseconds;

/// The writer of text.
pub(super) struct Text<W> {
    out: W,
    /// The circumstances, until they are written.
    about: Vec<(String, String)>,
}

impl<W: Write> Text<W> {
    pub(super) fn new(out: W, about: Vec<(String, String)>) -> Self {
        Self { out, about }
    }
}

impl<W: Write> Format for Text<W> {
    fn begin(&mut self, _: Picoseconds) -> io::Result<()> {
        for (name, value) in self.about.drain(..) {
            // Each has one line.
            let value: Vec<&str> = value.split_whitespace().collect();
            writeln!(self.out, "# {name} = {}", value.join(" "))?;
        }
        Ok(())
    }

    fn record(&mut self, record: &Record) -> io::Result<()> {
        let (micros, nanos, cpu) = (record.time / 1_000_000, record.time / 1000 % 1000, record.cpu);
        match &record.event {
            Event::Asks(event, _) | Event::Flushed(_, event) => {
                let FlushEvent { reason, pages, space } = event;
                let pages = pages.map_or("all".to_owned(), |pages| pages.to_string());
                let (reason, space) = (reason.name(), space.get());
                writeln!(self.out, "{micros}.{nanos:03} {cpu} flush \"{reason}\" pages={pages} space={space}")
            }
            Event::Interrupted(_) => writeln!(self.out, "{micros}.{nanos:03} {cpu} interrupt"),
            Event::Answered | Event::Flushes(..) | Event::Returns => Ok(()),
        }
    }

    fn end(&mut self, _: Picoseconds) -> io::Result<()> {
        self.out.flush()
    }
}
