//! Slots: a CPU's own ASIDs, each with its space and the age of its entries.
//!
//! A CPU tags its entries with one of a few ASIDs and hands them out in turn. A slot records a space and a generation.
//! The promise: the TLB holds no entry under that ASID that is older than the generation. So a return to a space whose
//! generation has not moved costs no flush. A slot's generation may rise only once every flush up to it was done. A
//! flush that does not raise it is always allowed. (Linux: `choose_new_asid`.)

use crate::space::{Asid, Generation, SpaceId, DYNAMIC_ASIDS};

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

    /// Picks the slot for a space at `generation`, and says whether the entries tagged with it must be flushed first.
    ///
    /// `generation` was read before the flush that may follow, so the slot claims no more than was done. Without
    /// hardware tags there is one slot, which is always flushed.
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
        (Asid::new(index as u16), flushed)
    }

    pub(crate) fn generation(&self, asid: Asid) -> Generation {
        self.slots[usize::from(asid.get())].generation
    }

    /// Records that every flush up to `generation` was done under `asid`.
    pub(crate) fn reach(&mut self, asid: Asid, generation: Generation) {
        self.slots[usize::from(asid.get())].generation = generation;
    }
}

/// Whether choosing a slot requires a flush, and why.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flushed {
    /// The entries tagged with the slot are current.
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
        assert_eq!(slots.choose(space(99), Generation::FIRST, true), (Asid::new(0), Flushed::Recycled));
        assert_eq!(slots.choose(space(2), Generation::FIRST, true), (Asid::new(1), Flushed::Recycled));
    }

    #[test]
    fn without_tags_every_switch_flushes() {
        let mut slots = Slots::new();
        for _ in 0..3 {
            assert_eq!(slots.choose(space(2), Generation::FIRST, false), (Asid::new(0), Flushed::Recycled));
        }
    }
}
