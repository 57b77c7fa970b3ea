//! The memory manager's reports to the shadow record, and the checks of the record.

use ceasefire::{CpuId, PageSize, Root};

use super::cleared::{Cleared, Gone};
use super::{Misuse, Place, Shadow, Wrong};
use crate::address::{Block, FrameNumber, Store, HUGE_FRAMES, PAGE_SHIFT};

impl Shadow {
    /// A translation to `frame` was cleared in the tables at `root`, at `since` on the machine's clock.
    pub(crate) fn gone(&mut self, root: Root, address: u64, size: PageSize, frame: FrameNumber, since: u64) {
        let (place, frame, time) = (Place::new(root, address, size), frame.get(), self.tick());
        if !self.slots_of.contains_key(&root.0) {
            // No CPU ever walked these tables.
            return;
        }
        self.gone.add(place, frame, time, since);
        if self.gone.len() >= self.purge_at {
            self.purge();
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
        if self.gone.len() == 0 {
            return Ok(());
        }
        let small = Place::new(root, address, PageSize::KIB_4);
        let count = match size {
            PageSize::KIB_4 => 1,
            _ => u64::from(HUGE_FRAMES),
        };
        let smaller = (small.page..small.page + count).map(|page| Place { page, ..small });
        let places = smaller.chain([Place::new(root, address, PageSize::MIB_2)]);
        // The frames that both translations have for the first address that they share.
        let differs = |old: &Gone| {
            let at = old.place.address().max(small.address());
            let led = u64::from(old.frame) + ((at - old.place.address()) >> PAGE_SHIFT);
            led != u64::from(frame.get()) + ((at - small.address()) >> PAGE_SHIFT)
        };
        let next =
            |gone: &Cleared| places.clone().flat_map(|place| gone.at(place)).find(|&at| differs(&gone[at]));
        let mut result = Ok(());
        while let Some(number) = next(&self.gone) {
            result = result.and(self.take(number, Wrong::Retranslated));
        }
        result
    }

    /// `count` neighbouring frames are free, whether or not they owe. The memory manager calls this for its own frames.
    /// A kernel may call it for frames of its own.
    pub fn frees(&mut self, first: FrameNumber, count: u32) {
        self.set_used(first, count, false);
    }

    /// A free frame is handed out.
    ///
    /// # Errors
    /// [`Wrong::Reused`].
    pub fn hands_out(&mut self, frame: FrameNumber) -> Result<(), Misuse> {
        self.set_used(frame, 1, true);
        self.copies.remove(frame.get());
        self.out_of_reach(frame.get(), Wrong::Reused)
    }

    /// The kernel is about to read or write `count` neighbouring frames itself.
    pub(crate) fn touches(&self, first: FrameNumber, count: u32) -> Result<(), Misuse> {
        let start = (first.get() - self.first) as usize;
        let Some(at) = self.used[start..start + count as usize].iter().position(|&used| !used) else {
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
        let mut holders = self.gone.to(frame).map(|at| &self.gone[at]).filter_map(|gone| {
            let cpu = CpuId::new(self.cpu_of(self.holders(gone).next()?)).ok();
            Some(Misuse { cpu, address: Some(gone.place.address()), since: Some(gone.since), ..unheld })
        });
        Err(holders.next().unwrap_or(unheld))
    }

    /// The page of a block is in another frame from now on, or in none: this frame holds an older copy.
    pub(crate) fn outdated(&mut self, frame: FrameNumber, block: Block) {
        self.copies.add(frame.get(), block);
    }

    /// The pages of a store from `first` up to `last` may be found, brought in or changed from now on.
    pub(crate) fn finds(&mut self, store: Store, first: u32, last: u32) -> Result<(), Misuse> {
        let mut result = Ok(());
        for frame in self.copies.of(store, first, last) {
            self.copies.remove(frame);
            result = result.and(self.out_of_reach(frame, Wrong::Replaced));
        }
        result
    }

    fn set_used(&mut self, first: FrameNumber, count: u32, used: bool) {
        let start = (first.get() - self.first) as usize;
        self.used[start..start + count as usize].fill(used);
    }
}
