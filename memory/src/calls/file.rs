//! Files: read, write, truncate, invalidate and sync, over the page cache that mappings share.
//!
//! A page of a file is locked while it is written out. Before that, every entry through which it could be stored to is
//! narrowed and flushed. A fault that would make the page writable again waits for the lock, and so does write.
//!
//! Truncation takes a page out of its file before it looks for the page's mappings. A fault that found the page earlier
//! looks again.
//!
//! The caller keeps system calls that change the bytes or the length of one file apart, as under every file system
//! (Linux: the inode's lock). Loads, stores and reads need no such care.

use alloc::vec::Vec;
use core::fmt;

use ceasefire::{Batch, Gather, Owed, PageSize, Stamp, Unmapping, BATCH};

use crate::address::{Block, FrameNumber, ObjectId, Store, PAGE_BYTES, PAGE_SHIFT};
use crate::cache::page_cache::Cached;
use crate::cache::page_lock::PageLock;
use crate::calls::zap::{Held, Room};
use crate::frames::allocate::OutOfMemory;
use crate::frames::released::Released;
use crate::locks::RwLock;
use crate::machine::{Event, Machine};
use crate::objects::object::TooManyObjects;
use crate::objects::pages::Pages;
use crate::spaces::area::Protection;
use crate::upkeep::reclaim::Why;
use crate::Memory;

/// The longest file, in bytes: its pages are numbered in 32 bits.
const LONGEST: u64 = (u32::MAX as u64) << PAGE_SHIFT;

/// The reason why a file cannot be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WriteError {
    /// The file would end after this byte, beyond the longest file (Linux: EFBIG).
    TooLong(u64),
    /// There is no frame for a page of the file (ENOMEM). The bytes before that page are written.
    OutOfMemory {
        /// The number of bytes written.
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

impl core::error::Error for WriteError {}

/// The reason why a file cannot be given a length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TruncateError {
    /// The length exceeds that of the longest file (Linux: EFBIG).
    TooLong(u64),
    /// The last page must be brought in so that its rest can be cleared, and there is no frame for it (ENOMEM).
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

impl core::error::Error for TruncateError {}

/// Pages stayed in memory because they were in use all the time (Linux: EBUSY).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Busy {
    /// The number of pages.
    pub pages: u64,
}

impl fmt::Display for Busy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} pages are in use", self.pages)
    }
}

impl core::error::Error for Busy {}

impl<P: Machine> Memory<P> {
    /// Creates a file of `pages` pages that reads as zeros: a hole, with nothing on any device.
    ///
    /// # Errors
    /// [`TooManyObjects`] beyond the configured number.
    pub fn create_file(&self, pages: u32) -> Result<ObjectId, TooManyObjects> {
        self.objects.create_file(self.platform(), Pages::new(u64::from(pages) << PAGE_SHIFT))
    }

    /// Opens a file of `pages` pages that its device holds completely, as if it had been written and synced before the
    /// machine was started. The device determines its contents. No page of it is in memory.
    ///
    /// # Errors
    /// [`TooManyObjects`] beyond the configured number.
    pub fn open_stored_file(&self, pages: u32) -> Result<ObjectId, TooManyObjects> {
        self.objects.create_file(self.platform(), Pages::stored(u64::from(pages) << PAGE_SHIFT))
    }

    /// The length of a file in bytes.
    pub fn file_bytes(&self, file: ObjectId) -> u64 {
        self.objects.get(file).pages.lock(self.platform()).bytes
    }

    /// The number of pages of a file that are in memory.
    pub fn cached_pages(&self, file: ObjectId) -> u64 {
        self.objects.get(file).pages.lock(self.platform()).present()
    }

    /// Whether a part of a file is mapped in any space.
    pub fn is_mapped(&self, file: ObjectId) -> bool {
        !self.objects.get(file).mappers.read(self.platform()).is_empty()
    }

    /// Deletes a file that no space maps, and drops its pages.
    ///
    /// # Panics
    /// In debug builds, if the file is still mapped.
    pub fn delete_file(&self, file: ObjectId) {
        let object = self.objects.get(file);
        debug_assert!(!self.is_mapped(file), "{file:?} is deleted while it is mapped");
        object.pages.lock(self.platform()).bytes = 0;
        self.drop_pages(file, 0);
        // Another file may get its number.
        self.settle_file(file);
        self.objects.destroy(self.platform(), file);
    }

    /// Reads bytes of a file from `offset` on. Returns their number, which is smaller than asked for only at the end of
    /// the file.
    ///
    /// # Errors
    /// [`OutOfMemory`] if there is no frame for a page of the file.
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

    /// Writes bytes to a file from `offset` on, and extends the file if needed.
    ///
    /// The file is extended before its new page is there. If the write fails, the file gets its length back, and what
    /// mappings stored behind that end meanwhile is lost.
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
            // Bytes that a mapping stored behind the end must not become part of the file.
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

    /// Sets the length of a file. Pages beyond it are removed wherever they are mapped, private copies too. If the file
    /// grows, the new part reads as zeros.
    ///
    /// # Errors
    /// [`TruncateError`]; then nothing has changed.
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
            // The order matters. A fault that found a page before it was dropped checks again with the table locked. So
            // a page that is not mapped by now never will be, and no program sees the file's page in place of its
            // private copy.
            self.drop_pages(file, first);
            self.zap_mappings(file, first);
            // Pages that were evicted before are removed too, and no CPU may go on reading them.
            self.settle_file(file);
        }
    }

    /// Fills the rest of the page behind byte `end` with zeros.
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

    /// Writes the dirty ones of `count` pages from `first` on, and drops all of them from memory wherever they are
    /// mapped. The next access reads them from the device (Linux: `invalidate_inode_pages2_range`).
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
                    // The page is moving to another frame.
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
        // The device may hold a newer version than the pages evicted before.
        self.settle_file(file);
        if busy > 0 {
            Err(Busy { pages: busy })
        } else {
            Ok(())
        }
    }

    /// Writes a file's dirty pages to its device (fsync); returns how many. Later stores make pages dirty again.
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
                // A task that holds page locks does not wait for another one.
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
                // The copy will be dirty too, under the same number.
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
                // The page may have left the file before it was locked.
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

    /// The next dirty page of a file from page `at` on, and whether it is held now. A page that is moving to another
    /// frame cannot be held, and its state says nothing.
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

    /// Takes the right to store from every entry of a locked page, and records whether they were stored through.
    fn clean_entries<T, R: FnMut(Owed<T>)>(
        &self,
        frame: FrameNumber,
        page: &mut Unmapping<'_, '_, P, T, R, BATCH>,
    ) {
        let info = self.frames.get(frame);
        // This walk is needed even if the page counts no mapping: a fault or an unmap may be about to change the count,
        // with the table locked.
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

    /// A page of a file, locked and held, brought in if needed; `None` beyond the end. No lock may be held.
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
                    // The page left the file while this task waited for its lock.
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

    /// Drops the pages of a file from page `first` on, and the device's copies of them.
    fn drop_pages(&self, file: ObjectId, first: u32) {
        let pages = &self.objects.get(file).pages;
        let mut released = Released::new(self);
        let mut from = first;
        loop {
            let next = pages.lock(self.platform()).next(from);
            let Some((index, frame)) = next else {
                if from == first {
                    break;
                }
                // Starts again, for pages that were behind this point while they moved to another frame.
                from = first;
                continue;
            };
            from = index + 1;
            self.platform().reschedule();
            // The hold keeps the frame from becoming another page while this task waits for the lock.
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
            drop(lock);
            released.put(frame);
            if removed {
                released.put(frame);
            }
        }
        pages.lock(self.platform()).forget_stored(first);
    }

    /// Clears all mappings of a file from page `first` on, private copies too.
    fn zap_mappings(&self, file: ObjectId, first: u32) {
        let mappers = self.objects.get(file).mappers.read(self.platform());
        for mapper in mappers.iter() {
            let skipped = first.saturating_sub(mapper.first);
            if skipped >= mapper.pages {
                continue;
            }
            let start = mapper.start + u64::from(skipped) * PAGE_BYTES;
            let mut released = Released::new(self);
            let mut room = Room::for_pages(PageSize::MIB_2.bytes() / PAGE_BYTES);
            let coherence = mapper.space.coherence();
            let mut gather = Gather::<P, Held, _>::new(&self.engine, coherence, room.places(), |held| {
                released.give_up(held);
            });
            self.zap(&mapper.space, &mut gather, (start, mapper.end()));
            gather.finish();
            let (space, end) = (mapper.space.coherence(), mapper.end());
            self.platform().observe(Event::Returned { space, start, end, allowed: Protection::None });
        }
    }
}
