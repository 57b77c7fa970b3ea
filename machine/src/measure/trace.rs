//! The trace of a run: one line for each flush and each interrupt.
//!
//! A line is `time-us cpu event`, separated by spaces. A flush gives Linux's reason in quotes, the number of pages
//! (`all` for everything) and the space (0 for a batch over several).

use std::cell::{Cell, RefCell};
use std::fmt;
use std::io::{self, Write};

use ceasefire::FlushEvent;

use crate::config::Picoseconds;

/// The output for the lines, if there is one.
#[derive(Default)]
pub(crate) struct Trace {
    out: Option<RefCell<Box<dyn Write>>>,
    /// The run is over. Events while the machine comes to rest are not part of it.
    closed: Cell<bool>,
    /// The first error in writing.
    error: Cell<Option<io::Error>>,
}

impl fmt::Debug for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Trace").field("on", &self.out.is_some()).finish_non_exhaustive()
    }
}

impl Trace {
    pub(crate) fn to(out: Option<Box<dyn Write>>) -> Self {
        Self { out: out.map(RefCell::new), closed: Cell::new(false), error: Cell::new(None) }
    }

    fn line(&self, time: Picoseconds, cpu: usize, event: fmt::Arguments<'_>) {
        let Some(out) = self.out.as_ref().filter(|_| !self.closed.get()) else { return };
        let (micros, nanos) = (time / 1_000_000, time / 1000 % 1000);
        if let Err(error) = writeln!(out.borrow_mut(), "{micros}.{nanos:03} {cpu} {event}") {
            let first = self.error.take();
            self.error.set(Some(first.unwrap_or(error)));
        }
    }

    pub(crate) fn flush(&self, time: Picoseconds, cpu: usize, event: FlushEvent) {
        if self.out.is_none() {
            return;
        }
        let (reason, space) = (event.reason.name(), event.space.get());
        match event.pages {
            Some(pages) => {
                self.line(time, cpu, format_args!("flush \"{reason}\" pages={pages} space={space}"));
            }
            None => self.line(time, cpu, format_args!("flush \"{reason}\" pages=all space={space}")),
        }
    }

    pub(crate) fn interrupt(&self, time: Picoseconds, cpu: usize) {
        if self.out.is_some() {
            self.line(time, cpu, format_args!("interrupt"));
        }
    }

    /// Begins another run.
    pub(crate) fn open(&self) {
        self.closed.set(false);
    }

    /// Writes the buffered lines and ends the run.
    ///
    /// # Errors
    /// The first error in writing any line.
    pub(crate) fn finish(&self) -> io::Result<()> {
        self.closed.set(true);
        if let Some(error) = self.error.take() {
            return Err(error);
        }
        self.out.as_ref().map_or(Ok(()), |out| out.borrow_mut().flush())
    }
}
