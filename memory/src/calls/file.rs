//! Files: read, write, truncate, invalidate, sync, over the page cache that mappings share.
//!
//! A page of a file is written out while it is locked, after every entry through which it could be stored to was narrowed
//! and flushed; a fault that would make it writable again waits for the lock, and so does write. A page that leaves the
//! file because of a truncation is out of it before its mappings are looked for; a fault that found it before looks again. As under every file system, the caller keeps changes of one file's length or bytes by system
//! calls apart (Linux: the inode's lock); loads, stores and reads need no such care.

use alloc::vec::Vec;
use core::fmt;

use ceasefire::{Batch, Gather, Owed, PageSize, Stamp, Unmapping, BATCH};

use crate::address::{Block, FrameNumber, ObjectId, Store, PAGE_BYTES, PAGE_SHIFT};
use crate::cache::page_cache::Cached;
use crate::cache::page_lock::PageLock;
use crate::calls::zap::{Held, Room};
use crate::frames::allocate::OutOfMemory;
use crate::locks::{Lock, RwLock};
use crate::machine::{Event, Machine};
use crate::objects::object::TooManyObjects;
use crate::objects::pages::Pages;
use crate::spaces::area::Protection;
use crate::upkeep::reclaim::Why;
use crate::Memory;

/// The longest file, in bytes: its pages are numbered in 32 bits.
const LONGEST: u64 = (u32::MAX as u64) << PAGE_SHIFT;

/// Why a file cannot be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WriteError {
    /// It would end after this byte, beyond the longest file (Linux: EFBIG).
    TooLong(u64),
    /// There is no frame for a page of it (ENOMEM). What was written before it is written.
    OutOfMemory {
        /// How many bytes that is.
        written: usize,
    },
}

impl fmt::Display for WriteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLong(end) => write!(f, "a file cannot end at byte {end}: at most at {LONGEST}"),
            Self::OutOfMemory { written } => write!(f, "out of memory after {written} bytes"),
        }
    }
}

/// Why a file cannot have a length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TruncateError {
    /// It is longer than the longest file (Linux: EFBIG).
    TooLong(u64),
    /// Its last page has to be brought in to clear the rest of it, and there is no frame for that (ENOMEM).
    OutOfMemory,
}

impl fmt::Display for TruncateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLong(bytes) => write!(f, "a file cannot have {bytes} bytes: at most {LONGEST}"),
            Self::OutOfMemory => OutOfMemory.fmt(f),
        }
    }
}

/// Pages stayed in memory because somebody used them all the time (Linux: EBUSY).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Busy {
    /// How many.
    pub pages: u64,
}

impl fmt::Display for Busy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} pages are in use", self.pages)
    }
}

impl<P: Machine> Memory<P> {
    /// A new file of `pages` pages that reads as zeros: a hole, with nothing on any device.
    ///
    /// # Errors
    /// [`TooManyObjects`] beyond the configured number.
    pub fn create_file(&self, pages: u32) -> Result<ObjectId, TooManyObjects> {
        self.objects.create_file(self.platform(), Pages::new(u64::from(pages) << PAGE_SHIFT))
    }

    /// A file of `pages` pages that its device holds already, each of them, as if it had been written and synced before
    /// the machine was started. What is in it is the device's affair; none of it is in memory.
    ///
    /// # Errors
    /// [`TooManyObjects`] beyond the configured number.
    pub fn open_stored_file(&self, pages: u32) -> Result<ObjectId, TooManyObjects> {
        self.objects.create_file(self.platform(), Pages::stored(u64::from(pages) << PAGE_SHIFT))
    }

    /// A file's length in bytes.
    pub fn file_bytes(&self, file: ObjectId) -> u64 {
        self.objects.get(file).pages.lock(self.platform()).bytes
    }

    /// How many pages of a file are in memory.
    pub fn cached_pages(&self, file: ObjectId) -> u64 {
        self.objects.get(file).pages.lock(self.platform()).present()
    }

    /// Whether a part of a file is mapped somewhere.
    pub fn is_mapped(&self, file: ObjectId) -> bool {
        !self.objects.get(file).mappers.read(self.platform()).is_empty()
    }

    /// Deletes a file that nothing maps any more, and drops its pages.
    ///
    /// # Panics
    /// In debug builds, if it is still mapped.
    pub fn delete_file(&self, file: ObjectId) {
        let object = self.objects.get(file);
        debug_assert!(!self.is_mapped(file), "{file:?} is deleted while it is mapped");
        object.pages.lock(self.platform()).bytes = 0;
        self.drop_pages(file, 0);
        // Another file will have its number.
        self.settle_file(file);
        self.objects.destroy(self.platform(), file);
    }

    /// Reads bytes of a file from `offset` on; how many, fewer only at its end.
    ///
    /// # Errors
    /// [`OutOfMemory`] if there is no frame for a page of it.
    pub fn read(&self, file: ObjectId, offset: u64, into: &mut [u8]) -> Result<usize, OutOfMemory> {
        let mut done = 0;
        while done < into.len() {
            let at = offset + done as u64;
            let left = self.file_bytes(file).saturating_sub(at);
            let part = (into.len() - done).min((PAGE_BYTES - at % PAGE_BYTES) as usize);
            let part = part.min(usize::try_from(left).unwrap_or(usize::MAX));
            if part == 0 {
                break;
            }
            match self.cached_page(file, (at / PAGE_BYTES) as u32)? {
                None => break,
                Some(Cached::Wait(frame)) => self.wait_for_page(frame),
                Some(Cached::Here(page)) => {
                    self.load_bytes(page, (at % PAGE_BYTES) as usize, &mut into[done..done + part]);
                    self.put(page);
                    done += part;
                }
            }
        }
        Ok(done)
    }

    /// Writes bytes to a file from `offset` on, extending it if it is shorter.
    ///
    /// # Errors
    /// [`WriteError`].
    pub fn write(&self, file: ObjectId, offset: u64, from: &[u8]) -> Result<(), WriteError> {
        let end = offset.saturating_add(from.len() as u64);
        if end > LONGEST {
            return Err(WriteError::TooLong(end));
        }
        let before = self.file_bytes(file);
        if end > before {
            // What a mapping stored behind the end does not become part of the file.
            self.clear_tail(file, before).map_err(|OutOfMemory| WriteError::OutOfMemory { written: 0 })?;
        }
        let mut written = 0;
        while written < from.len() {
            let at = offset + written as u64;
            let part = (from.len() - written).min((PAGE_BYTES - at % PAGE_BYTES) as usize);
            {
                let mut pages = self.objects.get(file).pages.lock(self.platform());
                pages.bytes = pages.bytes.max(at + part as u64);
            }
            match self.locked_page(file, (at / PAGE_BYTES) as u32) {
                Ok(Some(page)) => {
                    let bytes = &from[written..written + part];
                    self.store_bytes(page.frame(), (at % PAGE_BYTES) as usize, bytes);
                    self.frames.get(page.frame()).set_dirty();
                    self.unlock_and_put(page);
                }
                Ok(None) => {}
                Err(OutOfMemory) => {
                    self.cut(file, before.max(at));
                    return Err(WriteError::OutOfMemory { written });
                }
            }
            written += part;
        }
        Ok(())
    }

    /// Gives a file a length. Pages beyond it are gone, wherever they are mapped, private copies too; a file that grows
    /// reads as zeros there.
    ///
    /// # Errors
    /// [`TruncateError`]; nothing has changed then.
    pub fn truncate(&self, file: ObjectId, bytes: u64) -> Result<(), TruncateError> {
        if bytes > LONGEST {
            return Err(TruncateError::TooLong(bytes));
        }
        let before = self.file_bytes(file);
        self.clear_tail(file, bytes.min(before)).map_err(|OutOfMemory| TruncateError::OutOfMemory)?;
        self.cut(file, bytes);
        Ok(())
    }

    /// Sets the length of a file, and drops the pages beyond it.
    fn cut(&self, file: ObjectId, bytes: u64) {
        let before = core::mem::replace(&mut self.objects.get(file).pages.lock(self.platform()).bytes, bytes);
        if bytes < before {
            let first = bytes.div_ceil(PAGE_BYTES) as u32;
            // In this order: a fault that found a page before it was dropped asks again with the table locked, so what is
            // not mapped by now never will be, and nobody sees the file's page where a private copy was.
            self.drop_pages(file, first);
            self.zap_mappings(file, first);
            // What was evicted before is gone too, and nobody shall go on reading it.
            self.settle_file(file);
        }
    }

    /// Fills what lies behind byte `end` in its page with zeros, whatever was stored there.
    fn clear_tail(&self, file: ObjectId, end: u64) -> Result<(), OutOfMemory> {
        if end.is_multiple_of(PAGE_BYTES) {
            return Ok(());
        }
        if let Some(page) = self.locked_page(file, (end / PAGE_BYTES) as u32)? {
            let offset = (end % PAGE_BYTES) as usize;
            self.store_bytes(page.frame(), offset, &[0; PAGE_BYTES as usize][offset..]);
            self.frames.get(page.frame()).set_dirty();
            self.unlock_and_put(page);
        }
        Ok(())
    }

    /// Writes what is dirty of `count` pages from `first` on, and drops all of them from memory, wherever they are mapped:
    /// whoever uses them next reads them from the device (Linux: `invalidate_inode_pages2_range`).
    ///
    /// # Errors
    /// [`Busy`] if some are in use; the others are dropped.
    pub fn invalidate(&self, file: ObjectId, first: u32, count: u32) -> Result<(), Busy> {
        self.list_collected();
        let mut at = first;
        let mut busy = 0;
        loop {
            let mut pages = Vec::with_capacity(BATCH);
            let mut more = true;
            while more && pages.len() < BATCH {
                let found = {
                    let cached = self.objects.get(file).pages.lock(self.platform());
                    let found = cached.next(at).filter(|(index, _)| *index < first.saturating_add(count));
                    found.map(|(index, frame)| (index, frame, self.frames.get(frame).try_hold()))
                };
                match found {
                    None => more = false,
                    // It is on its way to another frame.
                    Some((index, _, false)) => {
                        at = index + 1;
                        busy += 1;
                    }
                    Some((index, frame, true)) => {
                        at = index + 1;
                        match self.isolate_page(frame) {
                            Some(page) => pages.push(page),
                            None => busy += 1,
                        }
                        self.put(frame);
                    }
                }
            }
            if pages.is_empty() {
                break;
            }
            let (_, kept) = self.evict(pages.into_iter(), Why::Invalid);
            busy += u64::from(kept);
        }
        // What the device holds may be newer than what was evicted before.
        self.settle_file(file);
        if busy > 0 {
            Err(Busy { pages: busy })
        } else {
            Ok(())
        }
    }

    /// Writes a file's dirty pages to its device (fsync); how many. Stores that come later make pages dirty again.
    pub fn sync(&self, file: ObjectId) -> u64 {
        let (mut at, mut written) = (0, 0);
        loop {
            let mut blocks = Vec::with_capacity(BATCH);
            let mut batch: Batch<'_, P, (u32, PageLock<'_, P>), _> =
                Batch::new(&self.engine, self.config.schedule, |page: Owed<(u32, PageLock<'_, P>)>| {
                    self.unlock_and_put(self.engine.pay(page).1);
                });
            let mut cleaned = 0;
            let mut moving = None;
            while cleaned < BATCH {
                let Some((index, frame, held)) = self.next_dirty(file, at) else { break };
                if !held {
                    moving = Some(frame);
                    break;
                }
                // Whoever has pages locked does not wait for another's.
                let lock = if cleaned == 0 { Some(self.lock_page(frame)) } else { self.try_lock_page(frame) };
                let Some(lock) = lock else {
                    self.put(frame);
                    break;
                };
                at = index + 1;
                let mut page = batch.take((index, lock));
                self.clean_entries(frame, &mut page);
                page.withhold();
                cleaned += 1;
            }
            if let Some(frame) = moving.filter(|_| cleaned == 0) {
                // Its copy will be just as dirty, under the same number.
                self.wait_for_page(frame);
                continue;
            }
            if cleaned == 0 {
                break written;
            }
            let mut permits = Vec::with_capacity(BATCH);
            while let Some(permit) = batch.write_permit() {
                let (index, ref lock) = *permit.page();
                let frame = lock.frame();
                // It may have left the file before it was locked.
                if self.frames.get(frame).place() == Some((file, index)) {
                    self.frames.get(frame).clear_dirty();
                    self.platform().observe(Event::WriteOut(frame));
                    blocks.push((Block { store: Store::File(file), index }, frame));
                }
                permits.push(permit);
            }
            self.write_blocks(&blocks);
            written += blocks.len() as u64;
            for permit in permits {
                batch.hold(permit.into_page());
            }
        }
    }

    /// The next dirty page of a file from page `at` on, and whether it is held now: one on its way to another frame
    /// cannot be, and its state says nothing.
    fn next_dirty(&self, file: ObjectId, mut at: u32) -> Option<(u32, FrameNumber, bool)> {
        let pages = self.objects.get(file).pages.lock(self.platform());
        loop {
            let (index, frame) = pages.next(at)?;
            let info = self.frames.get(frame);
            if info.references() == 0 || info.dirty() {
                return Some((index, frame, info.try_hold()));
            }
            at = index + 1;
        }
    }

    /// Takes the right to store from every entry of a locked page, and carries over that they were stored through.
    fn clean_entries<T, R: FnMut(Owed<T>)>(
        &self,
        frame: FrameNumber,
        page: &mut Unmapping<'_, '_, P, T, R, BATCH>,
    ) {
        let info = self.frames.get(frame);
        // Even if nothing seems to map it: a fault or an unmap may be about to say so, with the table locked.
        self.for_each_mapping(frame, |_, leaf, address| {
            let entry = leaf.get(address);
            if entry.writable() || entry.dirty() {
                let old = leaf.narrow_in(page, address, |entry| entry.read_only().clean());
                if old.dirty() {
                    info.set_dirty();
                }
            }
        });
    }

    /// A page of a file, locked and held, brought in if need be; `None` beyond the end. No lock may be held.
    fn locked_page(&self, file: ObjectId, index: u32) -> Result<Option<PageLock<'_, P>>, OutOfMemory> {
        loop {
            match self.cached_page(file, index)? {
                None => return Ok(None),
                Some(Cached::Wait(frame)) => self.wait_for_page(frame),
                Some(Cached::Here(page)) => {
                    let lock = self.lock_page(page);
                    if self.frames.get(page).place() == Some((file, index)) {
                        return Ok(Some(lock));
                    }
                    // It left the file while its lock was waited for.
                    self.unlock_and_put(lock);
                }
            }
        }
    }

    fn unlock_and_put(&self, page: PageLock<'_, P>) {
        let frame = page.frame();
        drop(page);
        self.put(frame);
    }

    /// Drops the pages of a file from page `first` on, and what its device holds of them.
    fn drop_pages(&self, file: ObjectId, first: u32) {
        let pages = &self.objects.get(file).pages;
        let mut from = first;
        loop {
            let next = pages.lock(self.platform()).next(from);
            let Some((index, frame)) = next else {
                if from == first {
                    break;
                }
                // Once more from the start, for what was behind while it moved to another frame.
                from = first;
                continue;
            };
            from = index + 1;
            self.platform().reschedule();
            // Held, so that it cannot become another page while its lock is waited for.
            let info = self.frames.get(frame);
            if !info.try_hold() {
                self.wait_for_page(frame);
                continue;
            }
            let lock = self.lock_page(frame);
            let removed = {
                let mut pages = pages.lock(self.platform());
                let there = pages.find(index) == Some(frame);
                if there {
                    pages.remove(index, Stamp::SETTLED);
                    info.clear_dirty();
                    info.orphan();
                }
                there
            };
            self.unlock_and_put(lock);
            if removed {
                self.put(frame);
            }
        }
        pages.lock(self.platform()).forget_stored(first);
    }

    /// Takes away what is mapped of a file from page `first` on, private copies too.
    fn zap_mappings(&self, file: ObjectId, first: u32) {
        let mappers = self.objects.get(file).mappers.read(self.platform());
        for mapper in mappers.iter() {
            let skipped = first.saturating_sub(mapper.first);
            if skipped >= mapper.pages {
                continue;
            }
            let start = mapper.start + u64::from(skipped) * PAGE_BYTES;
            let mut room = Room::for_pages(PageSize::Huge.bytes() / PAGE_BYTES);
            let coherence = mapper.space.coherence();
            let mut gather = Gather::<P, Held, _>::new(&self.engine, coherence, room.places(), |held| {
                self.release(held);
            });
            self.zap(&mapper.space, &mut gather, (start, mapper.end()));
            gather.finish();
            let (space, end) = (mapper.space.coherence(), mapper.end());
            self.platform().observe(Event::Returned { space, start, end, allowed: Protection::None });
        }
    }
}
