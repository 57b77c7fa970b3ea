//! Per-CPU ASID slots: which spaces' entries a CPU may still hold, and how old they are.
//!
//! A CPU tags its entries with one of a few ASIDs and hands them out round-robin. A slot remembers the space and
//! a generation; the promise is that the TLB holds no entry under that ASID which is older. So coming back to a
//! space whose generation has not moved costs no flush. Raising a slot's generation without having done every
//! flush up to it is never legal; flushing without raising it always is. (Linux: `choose_new_asid`.)

use crate::address_space::SpaceId;
use crate::generation::Generation;

/// ASIDs a CPU hands out on its own (Linux: `TLB_NR_DYN_ASIDS`, sized to two cache lines of slots).
pub const DYNAMIC_ASIDS: usize = 6;

/// A tag on TLB entries. Without broadcasts it belongs to one CPU, which has [`DYNAMIC_ASIDS`] of them; with them it
/// means the same space on every CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Asid(u16);

impl Asid {
    /// What all spaces without an ASID of their own share, where flushes are broadcast.
    pub const SHARED: Self = Self(0);

    pub(crate) const fn new(number: u16) -> Self {
        Self(number)
    }

    /// The number, below [`DYNAMIC_ASIDS`] for the per-CPU ones.
    pub const fn get(self) -> u16 {
        self.0
    }

    /// The x86 tag for it, for ASIDs below 4095: PCID 0 is the kernel's own (Linux: `kern_pcid`).
    pub const fn pcid(self) -> u16 {
        self.0 + 1
    }

    /// Where page tables are isolated, the tag of what a program sees of the space; [`Asid::pcid`] is that of what the kernel
    /// sees while the program's space is loaded (Linux: `user_pcid`). For ASIDs below 2046 no two tags are the same.
    pub const fn user_pcid(self) -> u16 {
        self.pcid() | 1 << 11
    }
}

#[derive(Debug, Clone, Copy)]
struct Slot {
    space: SpaceId,
    generation: Generation,
}

/// The slots of one CPU.
#[derive(Debug)]
pub(crate) struct Slots {
    slots: [Slot; DYNAMIC_ASIDS],
    next: usize,
}

impl Slots {
    pub(crate) const fn new() -> Self {
        Self { slots: [Slot { space: SpaceId::NONE, generation: Generation::NONE }; DYNAMIC_ASIDS], next: 0 }
    }

    /// The slot for a space at `generation`, and whether what is tagged with it must be flushed first.
    ///
    /// `generation` was read before the flush that may follow, so the slot claims no more than was done. Without
    /// hardware tags there is one slot, and it is always flushed.
    pub(crate) fn choose(&mut self, space: SpaceId, generation: Generation, tagged: bool) -> (Asid, Flushed) {
        let (index, found) = if tagged {
            if let Some(index) = self.slots.iter().position(|slot| slot.space == space) {
                (index, Some(self.slots[index].generation))
            } else {
                let index = self.next;
                self.next = if index + 1 == DYNAMIC_ASIDS { 0 } else { index + 1 };
                (index, None)
            }
        } else {
            (0, None)
        };
        let flushed = match found {
            Some(held) if held >= generation => Flushed::No,
            Some(_) => Flushed::Behind,
            None => Flushed::Recycled,
        };
        if flushed != Flushed::No {
            self.slots[index] = Slot { space, generation };
        }
        (Asid(index as u16), flushed)
    }

    pub(crate) fn generation(&self, asid: Asid) -> Generation {
        self.slots[asid.0 as usize].generation
    }

    /// Records that every flush up to `generation` was done under `asid`.
    pub(crate) fn reach(&mut self, asid: Asid, generation: Generation) {
        self.slots[asid.0 as usize].generation = generation;
    }
}

/// Whether choosing a slot requires a flush, and why.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flushed {
    /// What is tagged with the slot is current.
    No,
    /// The slot was the space's own, and flushes were requested since.
    Behind,
    /// The slot held another space or none.
    Recycled,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn space(n: u64) -> SpaceId {
        SpaceId::new(n)
    }

    #[test]
    fn isolated_page_tables_have_two_tags_each_and_none_twice() {
        let mut seen = [false; 1 << 12];
        for number in 0..2046 {
            for tag in [Asid(number).pcid(), Asid(number).user_pcid()] {
                assert!(
                    tag != 0 && !core::mem::replace(&mut seen[usize::from(tag)], true),
                    "{tag} of {number}"
                );
            }
        }
    }

    #[test]
    fn a_space_that_comes_back_unchanged_keeps_its_entries() {
        let mut slots = Slots::new();
        let (first, flushed) = slots.choose(space(2), Generation::FIRST, true);
        assert_eq!(flushed, Flushed::Recycled);
        let (second, _) = slots.choose(space(3), Generation::FIRST, true);
        assert_ne!(first, second);
        assert_eq!(slots.choose(space(2), Generation::FIRST, true), (first, Flushed::No));
        assert_eq!(slots.choose(space(2), Generation::from_raw(2), true), (first, Flushed::Behind));
        assert_eq!(slots.choose(space(2), Generation::from_raw(2), true), (first, Flushed::No));
    }

    #[test]
    fn a_recycled_slot_is_always_flushed() {
        let mut slots = Slots::new();
        for n in 0..DYNAMIC_ASIDS as u64 {
            assert_eq!(slots.choose(space(2 + n), Generation::FIRST, true).1, Flushed::Recycled);
        }
        assert_eq!(slots.choose(space(99), Generation::FIRST, true), (Asid(0), Flushed::Recycled));
        assert_eq!(slots.choose(space(2), Generation::FIRST, true), (Asid(1), Flushed::Recycled));
    }

    #[test]
    fn without_tags_every_switch_flushes() {
        let mut slots = Slots::new();
        for _ in 0..3 {
            assert_eq!(slots.choose(space(2), Generation::FIRST, false), (Asid(0), Flushed::Recycled));
        }
    }
}
