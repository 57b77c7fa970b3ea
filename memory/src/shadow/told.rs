//! The memory manager's reports to the shadow record, and the checks of the record.

use alloc::vec::Vec;

use ceasefire::{CpuId, PageSize, Root};

use super::{forget, Gone, Misuse, Place, Shadow, Wrong};
use crate::address::{Block, FrameNumber, Store, HUGE_FRAMES, PAGE_SHIFT};

/// When a frame has been mapped at this many places, or at a power of two beyond, the record drops those that no CPU
/// can hold any more.
const PURGE: usize = 8;

impl Shadow {
    /// A translation to `frame` was cleared in the tables at `root`, at `since` on the machine's clock.
    pub(crate) fn gone(&mut self, root: Root, address: u64, size: PageSize, frame: FrameNumber, since: u64) {
        let (place, frame, time) = (Place::new(root, address, size), frame.get(), self.tick());
        if !self.slots_of.contains_key(&root.0) {
            // No CPU ever walked these tables.
            return;
        }
        let gone = self.gone.entry(place).or_default();
        if let Some(again) = gone.iter_mut().find(|one| one.frame == frame) {
            *again = Gone { frame, time, since, done: Vec::new() };
            return;
        }
        gone.push(Gone { frame, time, since, done: Vec::new() });
        let places = self.places.entry(frame).or_default();
        places.push(place);
        // The page is mapped and unmapped by many spaces, and is never free in between.
        if places.len() >= PURGE && places.len().is_power_of_two() {
            for place in places.clone() {
                if let Some(gone) = self.gone.remove(&place) {
                    self.put_back(place, gone);
                }
            }
        }
    }

    /// A translation to `frame` is about to be installed in the tables at `root`.
    pub(crate) fn installs(
        &mut self,
        root: Root,
        address: u64,
        size: PageSize,
        frame: FrameNumber,
    ) -> Result<(), Misuse> {
        if self.gone.is_empty() {
            return Ok(());
        }
        let huge = Place::new(root, address, PageSize::MIB_2);
        let small = Place::new(root, address, PageSize::KIB_4);
        let last = match size {
            PageSize::KIB_4 => small,
            _ => Place { page: small.page + u64::from(HUGE_FRAMES) - 1, ..small },
        };
        let smaller = self.gone.range(small..=last).map(|(place, _)| *place);
        let places: Vec<Place> = smaller.chain(self.gone.contains_key(&huge).then_some(huge)).collect();
        let mut result = Ok(());
        for place in places {
            let Some(gone) = self.gone.remove(&place) else { continue };
            let (same, others): (Vec<_>, Vec<_>) = gone.into_iter().partition(|one| {
                // The frames that both translations have for the first address that they share.
                let at = place.address().max(small.address());
                let led = u64::from(one.frame) + ((at - place.address()) >> PAGE_SHIFT);
                led == u64::from(frame.get()) + ((at - small.address()) >> PAGE_SHIFT)
            });
            for one in others {
                forget(&mut self.places, one.frame, &place);
                result = result.and(self.user(place, &one, Wrong::Retranslated));
            }
            if !same.is_empty() {
                self.gone.insert(place, same);
            }
        }
        result
    }

    /// `count` neighbouring frames are free, whether or not they owe. The memory manager calls this for its own frames.
    /// A kernel may call it for frames of its own.
    pub fn frees(&mut self, first: FrameNumber, count: u32) {
        self.set_free(first, count, true);
    }

    /// A free frame is handed out.
    ///
    /// # Errors
    /// [`Wrong::Reused`].
    pub fn hands_out(&mut self, frame: FrameNumber) -> Result<(), Misuse> {
        self.set_free(frame, 1, false);
        if let Some(block) = self.block_of.remove(&frame.get()) {
            forget(&mut self.copies, block, &frame.get());
        }
        self.out_of_reach(frame.get(), Wrong::Reused)
    }

    /// The kernel is about to read or write `count` neighbouring frames itself.
    pub(crate) fn touches(&self, first: FrameNumber, count: u32) -> Result<(), Misuse> {
        let start = (first.get() - self.first) as usize;
        let Some(at) = self.free[start..start + count as usize].iter().position(|&free| free) else {
            return Ok(());
        };
        let frame = first.get() + at as u32;
        let unheld = Misuse {
            wrong: Wrong::Accessed,
            frame: FrameNumber::new(frame),
            cpu: None,
            address: None,
            since: None,
        };
        let places = self.places.get(&frame).into_iter().flatten();
        let held = places
            .flat_map(|&place| self.gone.get(&place).into_iter().flatten().map(move |one| (place, one)));
        let mut holders = held.filter(|(_, one)| one.frame == frame).filter_map(|(place, one)| {
            let cpu = CpuId::new(self.holders(place, one).next()? / self.asids).ok();
            Some(Misuse { cpu, address: Some(place.address()), since: Some(one.since), ..unheld })
        });
        Err(holders.next().unwrap_or(unheld))
    }

    /// The page of a block is in another frame from now on, or in none: this frame holds an older copy.
    pub(crate) fn outdated(&mut self, frame: FrameNumber, block: Block) {
        self.block_of.insert(frame.get(), block);
        self.copies.entry(block).or_default().push(frame.get());
    }

    /// The pages of a store from `first` up to `last` may be found, brought in or changed from now on.
    pub(crate) fn finds(&mut self, store: Store, first: u32, last: u32) -> Result<(), Misuse> {
        let mut result = Ok(());
        while let Some((&block, _)) =
            self.copies.range(Block { store, index: first }..=Block { store, index: last }).next()
        {
            for frame in self.copies.remove(&block).into_iter().flatten() {
                self.block_of.remove(&frame);
                result = result.and(self.out_of_reach(frame, Wrong::Replaced));
            }
        }
        result
    }

    fn set_free(&mut self, first: FrameNumber, count: u32, free: bool) {
        let start = (first.get() - self.first) as usize;
        self.free[start..start + count as usize].fill(free);
    }
}
