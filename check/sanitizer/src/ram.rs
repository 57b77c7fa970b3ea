//! The guest's memory by physical address, in the memory of the emulator.
//!
//! The plugin interface has no physical addresses to read at. But the guest's memory is a mapping of the process that the
//! plugin is part of. Each store tells a physical address and the value that is there now. So a mapping in which some
//! stores in a row are found at the places where a layout puts them is the guest's memory, in that layout.

use std::fs;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock};

use crate::lock;

/// The smallest mapping that may be a guest's memory.
const LEAST: u64 = 16 << 20;

/// The stores that must be found in a row.
const ENOUGH: u32 = 24;

const GIB: u64 = 1 << 30;

/// The address from which QEMU's machines have their memory: of PCs, of `virt` for RISC-V, of `virt` for Arm.
const BASES: [u64; 3] = [0, 2 * GIB, GIB];

/// The memory of a PC below its hole, if it has more than that: q35 and i440fx. The rest begins at 4 GiB.
const BELOW_HOLE: [u64; 4] = [2 * GIB, 3 * GIB - (GIB >> 2), 3 * GIB, 4 * GIB - (GIB >> 1)];

/// A range of physical addresses and its place in the emulator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Part {
    first: u64,
    bytes: u64,
    place: u64,
}

/// A mapping in a layout, and the number of stores in a row that were found in it.
#[derive(Debug, Clone)]
struct Guess {
    parts: Vec<Part>,
    found: u32,
}

/// Parts of the memory that were found at once, and those that were found later: a guest with nodes has a mapping for each.
#[derive(Debug)]
struct Known {
    parts: Vec<Part>,
    more: OnceLock<Box<Known>>,
}

/// The memory of a guest, which is looked for until it is found.
#[derive(Debug, Default)]
pub(crate) struct Ram {
    known: OnceLock<Box<Known>>,
    /// The guesses for what is not known, if some of it was looked for.
    guesses: Mutex<Option<Vec<Guess>>>,
}

impl Ram {
    /// Memory that is known from the beginning: its first physical address, its bytes, and its place.
    #[cfg(test)]
    pub(crate) fn known(first: u64, bytes: u64, place: u64) -> Self {
        let known = Known { parts: vec![Part { first, bytes, place }], more: OnceLock::new() };
        Self { known: OnceLock::from(Box::new(known)), guesses: Mutex::default() }
    }

    /// Whether the memory was found, or the first part of it.
    pub(crate) fn is_found(&self) -> bool {
        self.known.get().is_some()
    }

    /// The parts that were found.
    #[inline]
    fn parts(&self) -> impl Iterator<Item = &Part> {
        let all = std::iter::successors(self.known.get(), |known| known.more.get());
        all.flat_map(|known| &known.parts)
    }

    /// Looks whether a store of eight bytes is found where a layout puts it, if it is in no part that is known.
    #[cold]
    pub(crate) fn learn(&self, physical: u64, value: u64) {
        // Zeros are everywhere.
        if value == 0 || !physical.is_multiple_of(8) || self.load(physical).is_some() {
            return;
        }
        let mut all = lock(&self.guesses);
        let guesses = all.get_or_insert_with(|| {
            let maps = fs::read_to_string("/proc/self/maps").unwrap_or_default();
            let known: Vec<Part> = self.parts().copied().collect();
            if known.is_empty() {
                guesses(&maps)
            } else {
                further(&maps, &known)
            }
        });
        for guess in guesses.iter_mut() {
            let found = place(guess.parts.iter(), physical).is_some_and(|place| word(place) == value);
            guess.found = if found { guess.found + 1 } else { 0 };
        }
        let Some(guess) = guesses.iter().find(|guess| guess.found >= ENOUGH) else { return };
        let known = Known { parts: guess.parts.clone(), more: OnceLock::new() };
        let last = std::iter::successors(self.known.get(), |known| known.more.get()).last();
        // Nobody else is here, since the guesses are locked.
        let _ = last.map_or(&self.known, |last| &last.more).set(Box::new(known));
        *all = None;
    }

    /// The physical address of a place in the emulator's memory. `None`: it is not in the guest's memory, or that was not
    /// found yet.
    #[inline]
    pub(crate) fn physical(&self, place: u64) -> Option<u64> {
        let part = self.parts().find(|part| place.wrapping_sub(part.place) < part.bytes)?;
        Some(part.first + (place - part.place))
    }

    /// The aligned word at a physical address. `None`: not in memory, or the memory was not found yet.
    #[inline]
    pub(crate) fn load(&self, physical: u64) -> Option<u64> {
        place(self.parts(), physical).map(word)
    }
}

/// The place of a physical address.
#[inline]
fn place<'a>(mut parts: impl Iterator<Item = &'a Part>, physical: u64) -> Option<u64> {
    let part = parts.find(|part| physical.wrapping_sub(part.first) < part.bytes)?;
    Some(part.place + (physical - part.first))
}

/// The word at an aligned place in one of the guest's mappings.
fn word(place: u64) -> u64 {
    // SAFETY: `place` is aligned, and in a mapping that could be written when /proc/self/maps was read. QEMU keeps the
    // guest's memory until it ends. While it is looked for, other mappings are read too: large ones, which are kept as
    // long. The guest's CPUs write at the same time, by aligned words.
    unsafe { (*(place as *const AtomicU64)).load(Ordering::Relaxed) }
}

/// The mappings that may be a guest's memory, in each layout.
fn guesses(maps: &str) -> Vec<Guess> {
    let regions = regions(maps);
    let of = |&(place, bytes): &(u64, u64)| {
        let whole = BASES.map(|first| vec![Part { first, bytes, place }]);
        let split = BELOW_HOLE.into_iter().filter(move |&below| bytes > below).map(move |below| {
            let low = Part { first: 0, bytes: below, place };
            vec![low, Part { first: 4 * GIB, bytes: bytes - below, place: place + below }]
        });
        // A PC's memory below 2 GiB is where all its layouts have it, so those with a hole come first.
        split.chain(whole).map(|parts| Guess { parts, found: 0 })
    };
    regions.iter().flat_map(of).collect()
}

/// The mappings that may be a further part: it begins where another one ends, or behind the hole of a PC.
fn further(maps: &str, known: &[Part]) -> Vec<Guess> {
    let is_new = |&(place, bytes): &(u64, u64)| {
        !known.iter().any(|part| part.place < place + bytes && place < part.place + part.bytes)
    };
    let firsts: Vec<u64> = known.iter().map(|part| part.first + part.bytes).chain([4 * GIB]).collect();
    let of = |(place, bytes)| {
        let part = move |&first: &u64| Guess { parts: vec![Part { first, bytes, place }], found: 0 };
        firsts.iter().map(part).collect::<Vec<_>>()
    };
    regions(maps).into_iter().filter(is_new).flat_map(of).collect()
}

/// The places and the bytes of the mappings that may be memory, largest first.
fn regions(maps: &str) -> Vec<(u64, u64)> {
    let mut regions: Vec<(u64, u64)> = maps.lines().filter_map(region).collect();
    regions.sort_by_key(|&(_, bytes)| std::cmp::Reverse(bytes));
    regions
}

/// The place and the bytes of a mapping in a line of /proc/self/maps, if it is large, can be written, and is no library's.
fn region(line: &str) -> Option<(u64, u64)> {
    let mut words = line.split_ascii_whitespace();
    let (from, to) = words.next()?.split_once('-')?;
    let (from, to) = (u64::from_str_radix(from, 16).ok()?, u64::from_str_radix(to, 16).ok()?);
    let rights = words.next()?;
    let fits = rights.starts_with("rw-")
        && to - from >= LEAST
        && !line.contains("[heap]")
        && !line.contains("[stack]");
    fits.then_some((from, to - from))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_found_by_its_stores_part_by_part() {
        let memory = vec![0_u64; (2 * LEAST / 8) as usize];
        let place = memory.as_ptr() as u64;
        let line = |from: u64| format!("{from:x}-{:x} rw-p 00000000 00:00 0 \n", from + LEAST);
        let maps = line(place) + &line(place + LEAST);
        let ram = Ram::default();
        let stores = |ram: &Ram, from: u64, first: u64| {
            for index in 1..=u64::from(ENOUGH) {
                assert_eq!(ram.load(first + 8 * index), None);
                // SAFETY: the word is in the vector, which nobody reads otherwise.
                unsafe {
                    (*((from + 8 * index) as *const AtomicU64)).store(first + index, Ordering::Relaxed);
                };
                ram.learn(first + 8 * index, first + index);
            }
        };
        *ram.guesses.lock().unwrap() = Some(guesses(&maps));
        stores(&ram, place, GIB);
        assert_eq!(
            (ram.load(GIB + 16), ram.load(GIB - 8), ram.load(GIB + LEAST)),
            (Some(GIB + 2), None, None)
        );
        let known: Vec<Part> = ram.parts().copied().collect();
        *ram.guesses.lock().unwrap() = Some(further(&maps, &known));
        stores(&ram, place + LEAST, GIB + LEAST);
        assert_eq!(ram.load(GIB + LEAST + 16), Some(GIB + LEAST + 2));
        assert_eq!(ram.physical(place + LEAST + 8), Some(GIB + LEAST + 8));
        assert_eq!(ram.physical(place + 2 * LEAST), None);
    }

    #[test]
    fn a_large_pc_has_a_hole() {
        let all = guesses(
            "7f0000000000-7f0100000000 rw-p 00000000 00:00 0\n7f0200000000-7f0200001000 rw-p 0 00:00 0",
        );
        let hole = |guess: &&Guess| guess.parts.len() == 2;
        assert_eq!((all.len(), all.iter().filter(hole).count()), (7, 4));
        let q35 = || all.iter().find(hole).unwrap().parts.iter();
        assert_eq!(place(q35(), 2 * GIB - 8), Some(0x7f00_0000_0000 + 2 * GIB - 8));
        assert_eq!((place(q35(), 3 * GIB), place(q35(), 4 * GIB)), (None, Some(0x7f00_8000_0000)));
    }
}
