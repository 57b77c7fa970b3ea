//! The page cache: finding a page of a file in memory, and bringing it in with its successors.
//!
//! A page is in the cache before its bytes are. A second task that wants it waits for the task that reads it, so no
//! page is read twice or in an old version. A page that neither memory nor the device holds is a hole, and reads as
//! zeros.

use ceasefire::Stamp;

use crate::address::{Block, FrameNumber, ObjectId, Store};
use crate::frames::allocate::OutOfMemory;
use crate::frames::frame::{Frame, LruState};
use crate::machine::{Event, Machine, Work};
use crate::Memory;

/// The most pages that one miss brings in.
const MOST_AHEAD: usize = 64;

/// A page in the cache of a file or of the swap device.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Cached {
    /// In memory, and held for the caller.
    Here(FrameNumber),
    /// Locked, on its way in or to another frame.
    Wait(FrameNumber),
}

impl<P: Machine> Memory<P> {
    /// A page of `file`. If it is not in memory, it is brought in with its successors. `None` beyond the end of the
    /// file.
    pub(crate) fn cached_page(&self, file: ObjectId, index: u32) -> Result<Option<Cached>, OutOfMemory> {
        loop {
            self.platform().work(Work::CacheFind, 1);
            if let Some(found) = self.find_in_place(&self.objects.get(file).pages, Store::File(file), index) {
                return Ok(Some(found));
            }
            let pages = self.settled_pages(file, index, 1);
            if index >= pages.len() {
                return Ok(None);
            }
            if let Some(frame) = pages.find(index) {
                return Ok(Some(self.hold_cached(frame)));
            }
            let mut stored = 0u64;
            let missing = (index..pages.len())
                .take((self.config.read_ahead as usize).clamp(1, MOST_AHEAD))
                .map_while(|next| Some((next - index, pages.missing(next)?)))
                .inspect(|&(at, on_device)| stored |= u64::from(on_device) << at)
                .count();
            drop(pages);
            if missing > 1 {
                // Debts of the pages that come in with it must be settled too.
                drop(self.settled_pages(file, index, missing as u32));
            }
            self.read_ahead(file, index, missing, stored)?;
        }
    }

    /// A page found in a cache: held, or to be waited for because it is on its way in or out.
    pub(crate) fn hold_cached(&self, frame: FrameNumber) -> Cached {
        let info = self.frames.get(frame);
        if info.arriving() || !info.try_hold() {
            return Cached::Wait(frame);
        }
        Cached::Here(frame)
    }

    /// Brings `count` pages of a file into memory. If memory is short, it brings fewer, but always the first. Bit n of
    /// `stored` says that the device holds the n-th page.
    fn read_ahead(&self, file: ObjectId, index: u32, count: usize, stored: u64) -> Result<(), OutOfMemory> {
        // All frames are allocated first. An allocation may reclaim for a long time, and meanwhile the file's other
        // readers should find either no pages or complete ones.
        let mut fresh: [Option<Frame>; MOST_AHEAD] = [const { None }; MOST_AHEAD];
        let mut got = 0;
        while got < count {
            match self.allocate(self.home()) {
                Ok(frame) => fresh[got] = Some(frame),
                Err(error) if got == 0 => return Err(error),
                Err(_) => break,
            }
            got += 1;
        }
        let mut arriving: [(Block, FrameNumber); MOST_AHEAD] =
            [(Block { store: Store::File(file), index }, FrameNumber::new(0)); MOST_AHEAD];
        let mut asked = 0;
        for (frame, at) in fresh.into_iter().take(got).flatten().zip(index..) {
            let on_device = stored >> (at - index) & 1 != 0;
            if !on_device {
                self.zero(frame.number(), 1);
                let block = Block { store: Store::File(file), index: at };
                self.platform().observe(Event::HoleFilled { frame: frame.number(), block });
            }
            match self.insert(file, at, frame, on_device) {
                Ok(page) if on_device => {
                    arriving[asked] = (Block { store: Store::File(file), index: at }, page);
                    asked += 1;
                }
                Ok(page) => self.list_soon(page),
                Err(surplus) => self.free(surplus),
            }
        }
        if asked > 0 {
            self.read_in(&arriving[..asked]);
            self.count(|share| &share.read, asked as u64);
            for &(_, page) in &arriving[..asked] {
                self.unlock_page(page);
                self.list_soon(page);
            }
        }
        Ok(())
    }

    /// Puts a page into a file, locked if its bytes are still to come. The error returns the frame: there is a page
    /// already, the state on the device has changed, or the slot owes. The caller has one reference to the page.
    fn insert(&self, file: ObjectId, index: u32, frame: Frame, arriving: bool) -> Result<FrameNumber, Frame> {
        let mut pages = self.objects.get(file).pages.lock(self.platform());
        let owes = self.slot_owes(pages.owed(index));
        if pages.missing(index) != Some(arriving) || index >= pages.len() || owes {
            return Err(frame);
        }
        self.platform().work(Work::CacheInsert, 1);
        self.finds(Store::File(file), index, 1);
        // One reference is for the cache, one for the caller.
        let info = self.frames.get(frame.number());
        info.adopt(file, index, 2, 0, LruState::new(false));
        if arriving {
            info.set_arriving();
            info.try_lock();
        }
        let number = frame.into_number();
        pages.insert(index, number);
        Ok(number)
    }

    /// Takes a clean page out of its cache (a file's or the swap device's), if there are exactly `references`
    /// references, the cache's own among them. The caller then owns them all, and with them the frame, which CPUs may
    /// read until `stamp` is settled.
    pub(crate) fn take_from_cache(&self, frame: FrameNumber, references: u32, stamp: Stamp) -> bool {
        let info = self.frames.get(frame);
        let Some((object, index)) = info.place() else { return false };
        if object.is_anonymous() {
            return self.take_from_swap(frame, references, stamp, |named| named == 0 || !info.dirty());
        }
        let mut pages = self.objects.get(object).pages.lock(self.platform());
        // Deleting or truncating a file takes the page out first and drops its reference later. That reference must not
        // be taken here.
        if pages.find(index) != Some(frame) || !info.take(references) {
            return false;
        }
        // Checked only now, because a page without holders can no longer become dirty (Linux: `__remove_mapping`).
        if info.dirty() {
            info.give_back(references);
            return false;
        }
        pages.remove(index, stamp);
        self.outdated(frame, Block { store: Store::File(object), index });
        pages.forget_settled(self.engine.settled_stamp());
        self.platform().work(Work::CacheRemove, 1);
        self.left(frame, stamp, Some(Block { store: Store::File(object), index }));
        true
    }

    /// From here on the frame's page may be found elsewhere, while CPUs may read this frame until `stamp` is settled.
    pub(crate) fn left(&self, frame: FrameNumber, stamp: Stamp, block: Option<Block>) {
        let owing = stamp != Stamp::SETTLED;
        self.platform().observe(if owing { Event::Left { frame, block } } else { Event::Superseded(frame) });
    }
}
