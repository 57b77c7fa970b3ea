//! The region of a scenario.

use ceasefire_kernel_abi::Error;

use super::board::{Board, Control};
use super::mark::Owner;
use super::placement;
use super::region::Region;
use super::sizes::{LARGE, TABLE};
use crate::call;
use crate::machine::Machine;
use crate::memory::{FAR, PAGE};

/// The first address of the scenarios' places. No other mapping ever lies there.
const FIRST_PLACE: u64 = FAR;
/// Bytes from one place to the next.
const APART: u64 = 1 << 30;
/// Pages by which the places of small regions are shifted from scenario to scenario, and within one. So they do not
/// compete for the same entries of a TLB, and lie differently in their page tables.
const SHIFTS: [u64; 2] = [67, 201];
/// Large regions need a memory of this many frames.
const LARGE_FRAMES: u64 = 8192;

/// A scenario's region as one of its threads knows it.
#[derive(Debug)]
pub(super) struct Site {
    /// The scenario's number.
    pub(super) scenario: usize,
    region: Region,
    pub(super) machine: Machine,
    pub(super) board: &'static Board,
    /// How many readers there are.
    pub(super) readers: usize,
    /// Pages of the region.
    pub(super) pages: u64,
    /// The two addresses at which it may be.
    pub(super) places: [u64; 2],
    /// The file that it maps, and one that takes its place.
    pub(super) files: [Option<u64>; 2],
    /// Operations that the operator has done.
    pub(super) round: u64,
}

impl Site {
    /// A new region, of which nothing is mapped.
    pub(super) fn new(scenario: usize, region: Region, control: &'static Control, machine: &Machine) -> Self {
        let pages = pages(region.is_large(), machine);
        Self {
            scenario,
            region,
            machine: *machine,
            board: control.board(scenario),
            readers: placement::readers(machine),
            pages,
            places: [0, 1].map(|which| place(scenario, which, pages)),
            files: [None; 2],
            round: 0,
        }
    }

    /// The region that the operator has published.
    pub(super) fn of(scenario: usize, region: Region, control: &'static Control, machine: &Machine) -> Self {
        let site = Self::new(scenario, region, control, machine);
        Self { places: site.board.places(), files: site.board.files(), ..site }
    }

    pub(super) fn bytes(&self) -> u64 {
        self.pages * PAGE
    }

    /// The file, in a scenario that has made one.
    pub(super) fn file(&self) -> u64 {
        self.files[0].expect("the scenario has no file")
    }

    /// Makes the file, if it does not exist yet.
    pub(super) fn make_file(&mut self, pages: u64) -> Result<u64, Error> {
        make(&mut self.files[0], pages)
    }

    /// Makes the file that takes its place, too.
    pub(super) fn make_second_file(&mut self, pages: u64) -> Result<u64, Error> {
        make(&mut self.files[1], pages)
    }

    /// The word of a slot in a page.
    pub(super) fn owner(&self, slot: usize, page: u64) -> Owner {
        Owner { scenario: self.scenario, slot, page }
    }

    /// Maps fresh memory at one of the places.
    pub(super) fn map_anonymous(&self, place: usize) -> Result<(), Error> {
        map_at(self.places[place], self.bytes(), call::map_anonymous(self.pages)?)
    }

    /// Maps the file at the first place.
    pub(super) fn map_file(&self, writable: bool) -> Result<(), Error> {
        map_at(self.places[0], self.bytes(), call::map_shared(self.file(), self.pages, writable)?)
    }

    /// Maps fresh memory of the kernel, and publishes its address.
    pub(super) fn map_kernel(&self) -> Result<(), Error> {
        self.board.set_place(call::map_kernel(self.area(), self.pages)?);
        Ok(())
    }

    /// Unmaps the kernel's memory, if it is mapped.
    pub(super) fn unmap_kernel(&self, lazily: bool) -> Result<(), Error> {
        match call::unmap_kernel(self.board.place(0), lazily) {
            Err(Error::NotMapped) => Ok(()),
            done => done,
        }
    }

    /// The area of the kernel, in a scenario that has one.
    pub(super) fn area(&self) -> u64 {
        match self.region {
            Region::Kernel(area) => area,
            Region::Small | Region::Large => panic!("the region is the program's"),
        }
    }

    /// Unmaps the region for good.
    pub(super) fn unmap_all(&self) {
        let done = match self.region {
            Region::Kernel(_) => self.unmap_kernel(false),
            Region::Small | Region::Large => (0..self.places.len()).try_for_each(|place| self.unmap(place)),
        };
        done.expect("a region stays mapped");
    }

    /// Unmaps a place.
    pub(super) fn unmap(&self, place: usize) -> Result<(), Error> {
        call::unmap(self.places[place], self.bytes())
    }
}

fn make(file: &mut Option<u64>, pages: u64) -> Result<u64, Error> {
    let made = match *file {
        Some(file) => file,
        None => call::create_file(pages)?,
    };
    *file = Some(made);
    Ok(made)
}

/// Moves a new mapping to its place.
pub(super) fn map_at(place: u64, bytes: u64, mapped: u64) -> Result<(), Error> {
    call::move_to(mapped, bytes, place).inspect_err(|_| {
        let _ = call::unmap(mapped, bytes);
    })
}

/// How many pages a region has: more than one cache line of page-table entries, and little of the memory.
fn pages(large: bool, machine: &Machine) -> u64 {
    if large && machine.frames >= LARGE_FRAMES {
        LARGE
    } else {
        (machine.frames / 256).clamp(16, 64)
    }
}

/// The address of a place, which belongs to this scenario alone. Large regions begin with a table.
fn place(scenario: usize, which: usize, pages: u64) -> u64 {
    let (scenario, which) = (scenario as u64, which as u64);
    let shift = if pages > TABLE { 0 } else { (scenario * SHIFTS[0] + which * SHIFTS[1]) % TABLE };
    FIRST_PLACE + (scenario * 2 + which) * APART + shift * PAGE
}

#[cfg(test)]
mod tests {
    use super::super::sizes::COUNT;
    use super::*;

    #[test]
    fn places_do_not_overlap() {
        for pages in [16, 64, LARGE] {
            let places = (0..2 * COUNT).map(|number| place(number / 2, number % 2, pages));
            let places: Vec<u64> = places.collect();
            assert!(places.windows(2).all(|pair| pair[0] + pages * PAGE <= pair[1]));
            assert!(places.iter().all(|place| place.is_multiple_of(PAGE)));
        }
    }

    #[test]
    fn small_regions_cover_all_of_a_tlb() {
        let shifts = (0..COUNT).map(|scenario| place(scenario, 0, 64) / PAGE % TABLE / 64);
        assert_eq!(shifts.collect::<std::collections::HashSet<u64>>().len(), 8);
    }
}
