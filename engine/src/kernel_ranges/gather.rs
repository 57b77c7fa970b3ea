//! Unmaps of kernel ranges: addresses and frames are kept back until a flush.
//!
//! No program sees a translation of a kernel range, so no program waits for its flush. The kernel chooses when to
//! flush. In the lazy form a [`KernelGather`] lives behind a lock of the kernel and collects address ranges from many
//! calls. One flush serves all of them, and only then the addresses are used again (Linux: vmap's lazy purge). In the
//! strict form the gather is finished before the call returns.

use core::fmt;

use crate::debt::{Place, Room};
use crate::entry::{exchanged, may_be_held_in_kernel, Translation};
use crate::flush::PageSize;
use crate::platform::Platform;
use crate::Engine;

/// Translations of kernel ranges changed and not flushed yet, with the things that they led to.
///
/// `release` gets each held thing (an address range, a frame or a page-table page) once no CPU can reach it. The caller
/// lends the room; a full gather flushes by itself. Dropping a gather finishes it. The caller changes the tables under
/// a lock of its own.
///
/// ```
/// use ceasefire::{Engine, Entry, KernelGather, PageSize, Place, Platform};
///
/// fn free_stack<P: Platform>(engine: &Engine<P>, address: u64, free: impl FnMut(u64)) {
///     let mut room = [Place::EMPTY; 1];
///     let mut gather = KernelGather::new(engine, &mut room, free);
///     // The kernel exchanges its page-table entry here, and returns the old one.
///     gather.clear(address, PageSize::KIB_4, || Entry::DIRTY);
///     gather.hold(address);
///     gather.finish(); // only now `free` has got the address
/// }
/// ```
///
/// A thing that it holds cannot be used before the flush:
///
/// ```compile_fail,E0382
/// # use ceasefire::{KernelGather, Platform};
/// # fn early<P: Platform, R: FnMut(Box<u8>)>(gather: &mut KernelGather<'_, P, Box<u8>, R>, stack: Box<u8>) {
///     gather.hold(stack);
///     drop(stack);
/// # }
/// ```
#[must_use = "a gather that is dropped flushes at once"]
pub struct KernelGather<'e, P: Platform, T, R: FnMut(T)> {
    engine: &'e Engine<P>,
    room: Room<'e, T, R>,
}

impl<'e, P: Platform, T, R: FnMut(T)> KernelGather<'e, P, T, R> {
    /// A gather with room for as many things as `room` has places.
    pub fn new(engine: &'e Engine<P>, room: &'e mut [Place<T>], release: R) -> Self {
        Self { engine, room: Room::new(room, release) }
    }

    /// Clears the translation of `size` at `address`. `exchange` puts an entry that no CPU can use in its place, in one
    /// atomic step, and returns the old entry. Pass the frame and the address to [`KernelGather::hold`].
    pub fn clear<E: Translation>(&mut self, address: u64, size: PageSize, exchange: impl FnOnce() -> E) -> E {
        let mut cover = || self.room.changed.cover(address, size, size.bytes());
        let (old, entry) = exchanged(exchange, &mut cover);
        if may_be_held_in_kernel(entry) {
            cover();
        }
        old
    }

    /// Narrows the translation of `size` at `address`. `exchange` puts an entry with fewer rights to the same frame in
    /// its place, in one atomic step, and returns the old entry. CPUs may use the old rights until the flush is done.
    pub fn narrow<E: Translation>(
        &mut self,
        address: u64,
        size: PageSize,
        exchange: impl FnOnce() -> E,
    ) -> E {
        self.clear(address, size, exchange)
    }

    /// Unlinks a page-table page that no longer translates anything. `unlink` takes it out of the table above and
    /// returns it, to be held; `None` if there is none. The page-table page, or a table below it, translated pages of
    /// `size` from `address` on. The flush interrupts CPUs that run a program undisturbed too: their walkers may read
    /// the page-table page.
    pub fn unlink(&mut self, address: u64, size: PageSize, unlink: impl FnOnce() -> Option<T>) {
        // Before the table is taken out: `unlink` may panic behind that.
        self.room.changed.cover_table(address, size, size.bytes());
        if let Some(table) = unlink() {
            self.hold(table);
        }
    }

    /// Keeps `held` until the next flush is done. Flushes by itself if there is no room; interrupts should be on.
    pub fn hold(&mut self, held: T) {
        self.room.hold(held, |flush| self.engine.flush_kernel(self.engine.noted(flush)));
    }

    /// Flushes the changes so far and releases the things that it held. Interrupts should be on, as for
    /// [`Engine::flush_kernel`].
    pub fn flush(&mut self) {
        self.room.flush(|flush| self.engine.flush_kernel(self.engine.noted(flush)));
    }

    /// Whether anything was changed since the last flush.
    pub fn owes(&self) -> bool {
        !self.room.changed.is_empty()
    }

    /// Flushes and releases.
    pub fn finish(self) {}
}

/// Written by hand, so that `release` may be a closure.
impl<P: Platform, T, R: FnMut(T)> fmt::Debug for KernelGather<'_, P, T, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KernelGather").field("changed", &self.room.changed).finish_non_exhaustive()
    }
}

impl<P: Platform, T, R: FnMut(T)> Drop for KernelGather<'_, P, T, R> {
    fn drop(&mut self) {
        self.flush();
    }
}
