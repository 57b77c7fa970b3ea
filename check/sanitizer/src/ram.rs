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

/// The memory of a guest, which is looked for until it is found.
#[derive(Debug, Default)]
pub(crate) struct Ram {
    parts: OnceLock<Vec<Part>>,
    guesses: Mutex<Option<Vec<Guess>>>,
}

impl Ram {
    /// Memory that is known from the beginning: its first physical address, its bytes, and its place.
    #[cfg(test)]
    pub(crate) fn known(first: u64, bytes: u64, place: u64) -> Self {
        Self { parts: OnceLock::from(vec![Part { first, bytes, place }]), guesses: Mutex::default() }
    }

    /// Whether the memory was found.
    pub(crate) fn is_found(&self) -> bool {
        self.parts.get().is_some()
    }

    /// Looks whether a store of eight bytes is found where a layout puts it.
    pub(crate) fn learn(&self, physical: u64, value: u64) {
        // Zeros are everywhere.
        if value == 0 || !physical.is_multiple_of(8) || self.is_found() {
            return;
        }
        let mut all = lock(&self.guesses);
        let all = all.get_or_insert_with(|| {
            let maps = fs::read_to_string("/proc/self/maps").unwrap_or_default();
            guesses(&maps)
        });
        for guess in all.iter_mut() {
            let found = place(&guess.parts, physical).is_some_and(|place| word(place) == value);
            guess.found = if found { guess.found + 1 } else { 0 };
        }
        if let Some(guess) = all.iter().find(|guess| guess.found >= ENOUGH) {
            // Another thread may have found it.
            let _ = self.parts.set(guess.parts.clone());
        }
    }

    /// The aligned word at a physical address. `None`: not in memory, or the memory was not found yet.
    pub(crate) fn load(&self, physical: u64) -> Option<u64> {
        place(self.parts.get()?, physical).map(word)
    }
}

/// The place of a physical address.
fn place(parts: &[Part], physical: u64) -> Option<u64> {
    let part = parts.iter().find(|part| physical.wrapping_sub(part.first) < part.bytes)?;
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
    let mut regions: Vec<(u64, u64)> = maps.lines().filter_map(region).collect();
    regions.sort_by_key(|&(_, bytes)| std::cmp::Reverse(bytes));
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
    fn memory_is_found_by_its_stores() {
        let memory = vec![0_u64; (LEAST / 8) as usize];
        let place = memory.as_ptr() as u64;
        let ram = Ram::default();
        *ram.guesses.lock().unwrap() =
            Some(guesses(&format!("{place:x}-{:x} rw-p 00000000 00:00 0 \n", place + LEAST)));
        for index in 1..=u64::from(ENOUGH) {
            assert!(!ram.is_found());
            // SAFETY: the word is in the vector, which nobody reads otherwise.
            unsafe { (*((place + 8 * index) as *const AtomicU64)).store(index, Ordering::Relaxed) };
            ram.learn(GIB + 8 * index, index);
        }
        assert_eq!((ram.load(GIB + 16), ram.load(GIB - 8), ram.load(GIB + LEAST)), (Some(2), None, None));
    }

    #[test]
    fn a_large_pc_has_a_hole() {
        let all = guesses(
            "7f0000000000-7f0100000000 rw-p 00000000 00:00 0\n7f0200000000-7f0200001000 rw-p 0 00:00 0",
        );
        let hole = |guess: &&Guess| guess.parts.len() == 2;
        assert_eq!((all.len(), all.iter().filter(hole).count()), (7, 4));
        let q35 = &all.iter().find(hole).unwrap().parts;
        assert_eq!(place(q35, 2 * GIB - 8), Some(0x7f00_0000_0000 + 2 * GIB - 8));
        assert_eq!((place(q35, 3 * GIB), place(q35, 4 * GIB)), (None, Some(0x7f00_8000_0000)));
    }
}
