//! The broadcast transport: the hardware carries an invalidation to every CPU, and the sender waits until it is done.
//!
//! The instructions are Arm's inner-shareable TLBI with DSB, and x86's INVLPGB with TLBSYNC. They name the entries by a
//! tag that means the same on every CPU. So this transport is for spaces that have a [global
//! ASID](super::global_asids): all spaces, or those that [deserve one](super::adoption). The hardware reaches every
//! CPU, whether it runs the space, is lazy in it or left it long ago. So the sender need not know the CPUs, and a
//! switch never flushes. A broadcast of everything needs no ASID. A space that has run on the sender's CPU alone is
//! invalidated there, without a broadcast (`space::used_on`).
//!
//! Broadcasts differ from interrupts in what a wait proves. Invalidations are asynchronous, and *a wait covers only
//! those that the same CPU started*. One batch's wait proves nothing about another's. So an operation that finds a
//! space in debt flushes it and does not wait for the other CPU. (Linux got this wrong on Arm until 4b634918384c,
//! 2025.)

use crate::flush::{Extent, Flush, PageSize};
use crate::platform::{Broadcast, Errata, Holders, Platform, Reason};
use crate::sabotage::Guard;
use crate::space::{AddressSpace, Asid, SpaceId, Users};
use crate::Engine;

impl<P: Platform> Engine<P> {
    /// The global ASID of a new space; `None` if it begins on slots.
    pub(crate) fn first_asid(&self) -> Option<Asid> {
        let capabilities = self.platform().capabilities();
        let broadcast = capabilities.broadcast.filter(|broadcast| broadcast.holders() == Holders::Every)?;
        // R4
        if !capabilities.asids && self.guarded(Guard::Untagged) {
            return Some(Asid::SHARED);
        }
        Some(self.take_asid(broadcast).unwrap_or(Asid::SHARED))
    }

    /// Takes an ASID that no other space has and that is clean on every CPU; `None` if all are in use.
    pub(crate) fn take_asid(&self, broadcast: Broadcast) -> Option<Asid> {
        let platform = self.platform();
        // Pinned as a whole: other CPUs may wait for the task that flushes, so it must keep its CPU.
        platform.pinned(|| {
            let asids = broadcast.first()..broadcast.asids();
            self.asids.take(
                asids,
                broadcast.worth_a_flush(),
                || self.flush_for_new_owners(),
                |done| self.wait_until(done),
            )
        })
    }

    /// Starts to flush a space that every CPU runs under `asid`. True if broadcasts were started. The caller is pinned.
    ///
    /// If no other CPU has run the space under the ASID, this CPU invalidates its own entries and no broadcast is
    /// needed. A device that walks the tables may rely on broadcasts, so it gets them.
    pub(crate) fn start_globally(&self, asid: Asid, space: &AddressSpace, flush: Flush) -> bool {
        if self.is_used_elsewhere(space) {
            return self.start_broadcasts(asid, flush);
        }
        if space.used_on.read() != Users::None {
            self.on_this_cpu(|here| {
                self.platform().invalidate(asid, flush);
                here.cpu.tally.invalidated(flush.pages());
                self.trace(Reason::LocalSpaceShootdown, flush.pages(), space.id());
            });
        }
        false
    }

    /// Whether any TLB but this CPU's may hold entries of the space under its global ASID. Page tables were changed and
    /// the generation was raised before.
    pub(crate) fn is_used_elsewhere(&self, space: &AddressSpace) -> bool {
        space.has_devices()
            || match space.used_on.read() {
                Users::None => false,
                Users::One(cpu) => cpu != self.platform().this_cpu().index(),
                Users::Several => true,
            }
    }

    /// Starts the broadcasts for `flush`, as many pages at a time as the hardware can take. True if any was started.
    /// The caller is pinned, or will wait on whatever CPU the task is on by then.
    pub(crate) fn start_broadcasts(&self, asid: Asid, flush: Flush) -> bool {
        let platform = self.platform();
        let Extent::Pages { mut start, count, size } = flush.extent else {
            platform.broadcast(asid, flush);
            return true;
        };
        let most = platform.capabilities().broadcast.map_or(1, Broadcast::pages);
        let mut left = count;
        while left > 0 {
            let count = left.min(most);
            platform.broadcast(asid, Flush { extent: Extent::Pages { start, count, size }, ..flush });
            // At the last page of the address range this wraps, and the loop has ended.
            start = start.wrapping_add(u64::from(count) << size.shift());
            left -= count;
        }
        count > 0
    }

    /// Waits for the broadcasts of a flush of `space`. The caller is pinned.
    pub(crate) fn finish_flush(&self, space: SpaceId, flush: Flush) {
        self.await_broadcasts(flush.pages(), space);
        self.platform().cpu(self.platform().this_cpu()).tally.invalidated_everywhere(flush.pages());
    }

    /// Waits for the broadcasts of `pages` single pages that a batch started.
    pub(crate) fn finish_broadcasts(&self, pages: u64) {
        // R1
        if !self.guarded(Guard::BroadcastWait) {
            return;
        }
        let platform = self.platform();
        platform.pinned(|| {
            self.await_broadcasts(Some(u32::try_from(pages).unwrap_or(u32::MAX)), SpaceId::NONE);
            platform.cpu(platform.this_cpu()).tally.flushes_page.add_at_once(pages);
        });
    }

    /// Makes every CPU invalidate all entries of all programs, and waits until all have.
    pub(crate) fn flush_everywhere(&self) {
        let platform = self.platform();
        platform.broadcast_everything();
        self.await_broadcasts(None, SpaceId::NONE);
        platform.cpu(platform.this_cpu()).tally.flushes_full.add_at_once(1);
    }

    /// Cleans all ASIDs that were given back.
    fn flush_for_new_owners(&self) {
        // R4
        if self.guarded(Guard::Rollover) {
            self.flush_everywhere();
        }
    }

    pub(crate) fn await_broadcasts(&self, pages: Option<u32>, space: SpaceId) {
        let platform = self.platform();
        platform.broadcast_wait();
        let Errata { repeated, everyone } =
            platform.capabilities().broadcast.map_or(Errata::NONE, Broadcast::errata);
        // R1, R3
        if repeated && self.guarded(Guard::Repeated) {
            // Any operation will do.
            platform.broadcast(Asid::SHARED, Flush::page(0, PageSize::KIB_4));
            platform.broadcast_wait();
        }
        // R1, R3
        if everyone && self.guarded(Guard::Everyone) {
            self.meet_everyone();
        }
        platform.cpu(platform.this_cpu()).tally.broadcasts.add_at_once(1);
        self.trace(Reason::Broadcast, pages, space);
    }
}
