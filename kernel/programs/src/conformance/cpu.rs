//! A CPU: a thread that is tied to it makes the calls of a scenario.

use core::cell::Cell;
use core::ops::Range;
use core::sync::atomic::Ordering::Relaxed;

use ceasefire_conformance::{Away, Cpu, Failed, PAGES};
use ceasefire_kernel_abi::{Error, Finding, TICK};

use crate::arch;
use crate::call::{self, Protection};
use crate::line::log;
use crate::memory::{Mapping, FAR, PAGE};

/// The address of the first page. Each page is mapped elsewhere first and then moved there, as no call maps memory at
/// a given address. The kernel never chooses an address of the region itself, also while nothing is mapped there: it
/// gives the lowest that is free, and the program never maps so much that [`FAR`] would be the lowest.
const REGION: u64 = FAR;
/// The area of the kernel that holds the kernel's ranges.
const AREA: u64 = 0;
/// Pages that are used and freed again, to give free frames other contents: more than the 186 frames that a CPU of
/// this kernel keeps for itself.
const REUSED: u64 = 256;
/// How often a CPU pauses after an access before it naps. Where few host processors emulate the machine's CPUs, one
/// that spins takes time from the one that it waits for. One that naps catches up with flushes when it wakes, and is
/// not tested like a running CPU. So the spinning lasts about a millisecond: some CPUs then still run when pages go.
const PAUSES: u32 = 1 << 14;
/// Nanoseconds of a nap. It ends with the next tick of any CPU.
const NAP: u64 = 1_000_000;
/// Nanoseconds for which a CPU idles. They must not have passed before the thread has gone to sleep.
const IDLE: u64 = TICK * 1_000_000;

/// The address of a page, or of a range of the kernel, which is its own number.
pub(super) fn address_of(place: u64) -> u64 {
    if place < PAGES as u64 {
        REGION + place * PAGE
    } else {
        place
    }
}

fn address(page: usize) -> u64 {
    debug_assert!(page < PAGES, "page {page}");
    REGION + page as u64 * PAGE
}

/// A thread that is tied to a CPU.
#[derive(Debug)]
pub(super) struct Thread {
    number: usize,
    /// Its pauses since its last access.
    pauses: Cell<u32>,
}

impl Thread {
    /// The calling thread.
    pub(super) fn here() -> Self {
        Self { number: call::cpu() as usize, pauses: Cell::new(0) }
    }
}

/// A failure of a call, as scenarios know it.
fn failed(error: Error) -> Failed {
    match error {
        Error::NoMemory => Failed::NoMemory,
        other => Failed::Error(other as u64),
    }
}

/// Maps a page that holds the word, and moves it to its address.
fn map(page: usize, word: u64) -> Result<(), Error> {
    let start = call::map_anonymous(1)?;
    // No other page is at that address, so a store is impossible only without memory for a frame.
    let stored = if arch::try_store(start, word) { Ok(()) } else { Err(Error::NoMemory) };
    stored.and_then(|()| call::move_to(start, PAGE, address(page))).inspect_err(|_| {
        let _ = call::unmap(start, PAGE);
    })
}

/// Maps pages, fills them with the word, and unmaps them.
fn reuse(word: u64) -> Result<(), Error> {
    let mapping = Mapping::anonymous(REUSED)?;
    for page in 0..REUSED {
        for place in mapping.page(page) {
            place.store(word, Relaxed);
        }
    }
    mapping.unmap()
}

/// Maps a range of the kernel that holds the word.
///
/// The store goes where this CPU's TLB leads. If no CPU has flushed the page that was there, all CPUs would find the
/// word in that page's frame, and nothing would seem wrong. But a fresh page reads as zeros.
fn map_kernel(word: u64) -> Result<u64, Error> {
    let start = call::map_kernel(AREA, 1)?;
    match call::load_kernel(start) {
        Some(0) if call::store_kernel(start, word) => Ok(start),
        Some(0) | None => Err(Error::NotMapped),
        Some(found) => {
            log(format_args!(
                "conformance: BROKEN: a fresh page of the kernel at {start:#x} shows {found:#x}"
            ));
            call::report(Finding::StaleRead, start, 0, found)
        }
    }
}

impl Cpu for Thread {
    fn number(&self) -> usize {
        self.number
    }

    fn pause(&self) {
        let pauses = self.pauses.get();
        if pauses < PAUSES {
            self.pauses.set(pauses + 1);
            core::hint::spin_loop();
        } else {
            call::sleep(NAP);
        }
    }

    fn map(&self, page: usize, word: u64) -> Result<(), Failed> {
        map(page, word).map_err(failed)
    }

    fn unmap(&self, ranges: &[Range<usize>]) -> Result<(), Failed> {
        let mut all = ranges.iter();
        all.try_for_each(|range| call::unmap(address(range.start), range.len() as u64 * PAGE)).map_err(failed)
    }

    fn protect(&self, page: usize) -> Result<(), Failed> {
        call::protect(address(page), PAGE, Protection::Loads).map_err(failed)
    }

    fn load(&self, page: usize) -> Option<u64> {
        self.pauses.set(0);
        arch::try_load(address(page))
    }

    fn store(&self, page: usize, word: u64) -> bool {
        self.pauses.set(0);
        arch::try_store(address(page), word)
    }

    fn reuse(&self, word: u64) -> Result<(), Failed> {
        reuse(word).map_err(failed)
    }

    fn away(&self, to: Away, until: &dyn Fn() -> bool) {
        loop {
            match to {
                // No other thread is tied to this CPU, so it runs its idle loop.
                Away::Idle => call::sleep(IDLE),
                // The companion of this CPU runs, and gives way in turn.
                Away::OtherSpace => call::give_way(),
            }
            if until() {
                return;
            }
        }
    }

    fn remap(&self, from: usize, to: usize) -> Result<(), Failed> {
        call::move_to(address(from), PAGE, address(to)).map_err(failed)
    }

    fn map_kernel(&self, word: u64) -> Result<u64, Failed> {
        map_kernel(word).map_err(failed)
    }

    fn unmap_kernel(&self, address: u64) -> Result<(), Failed> {
        call::unmap_kernel(address, false).map_err(failed)
    }

    fn load_kernel(&self, address: u64) -> Option<u64> {
        self.pauses.set(0);
        call::load_kernel(address)
    }
}

#[cfg(test)]
mod tests {
    use ceasefire_conformance::TABLE;

    use super::*;

    #[test]
    fn the_region_begins_with_a_table_and_has_all_pages_in_a_row() {
        assert!(address(0).is_multiple_of(TABLE as u64 * PAGE));
        assert_eq!(address(PAGES - 1) + PAGE, REGION + PAGES as u64 * PAGE);
        assert_eq!(address_of(PAGES as u64 - 1), address(PAGES - 1));
    }

    #[test]
    fn a_range_of_the_kernel_is_where_it_says() {
        let ranges = 0xffff_c000_0000_1000;
        assert_eq!(address_of(ranges), ranges);
    }

    #[test]
    fn a_lack_of_memory_is_told_from_other_errors() {
        assert_eq!(failed(Error::NoMemory), Failed::NoMemory);
        for &error in Error::ALL.iter().filter(|&&error| error != Error::NoMemory) {
            assert_eq!(failed(error), Failed::Error(error as u64));
        }
    }
}
