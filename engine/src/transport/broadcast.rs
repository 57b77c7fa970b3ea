//! The broadcast transport: the hardware carries an invalidation to every CPU, and the sender waits until it is done.
//!
//! Arm's inner-shareable TLBI with DSB, x86's INVLPGB with TLBSYNC. It takes a tag that means the same everywhere, so
//! it is for spaces that have a [global ASID](crate::global_asid): all of them, or the [wide](crate::width) ones; and in
//! return nobody has to be known or asked: CPUs that run the space, are lazy in it or left it long ago are reached alike,
//! and a switch never flushes. Everything of every program at once needs no ASID. What is unlike the
//! interrupts is who may claim what. Invalidations are asynchronous, and *a wait covers only those that the same CPU
//! started*: so one batch's wait says nothing of another's, and whoever finds a space in debt flushes it himself
//! instead of waiting (Linux got that wrong on Arm until 4b634918384c, 2025).

use crate::flush::{Extent, Flush};
use crate::platform::{Broadcast, Holders, Platform, Reason};
use crate::sabotage::Guard;
use crate::space::{AddressSpace, Asid, SpaceId};
use crate::Engine;

impl<P: Platform> Engine<P> {
    /// The tag that a new space has everywhere; `None` where it begins on slots.
    pub(crate) fn first_asid(&self) -> Option<Asid> {
        let capabilities = self.platform().capabilities();
        let broadcast = capabilities.broadcast.filter(|broadcast| broadcast.holders() == Holders::Every)?;
        if !capabilities.asids {
            return Some(Asid::SHARED);
        }
        Some(self.take_asid(broadcast).unwrap_or(Asid::SHARED))
    }

    /// An ASID that no other space has, clean on every CPU; `None` if all are in use.
    pub(crate) fn take_asid(&self, broadcast: Broadcast) -> Option<Asid> {
        let platform = self.platform();
        // Pinned as a whole: other CPUs may wait for the one that flushes, so it must not be taken from it.
        platform.pinned(|| {
            let asids = broadcast.first()..broadcast.asids();
            self.asids.take(
                asids,
                broadcast.worth_a_flush(),
                || self.flush_everywhere(),
                |done| self.wait_until(done),
            )
        })
    }

    /// Starts what `flush` takes, as many pages at a time as the hardware can; whether there was anything. The caller is
    /// pinned, or waits wherever the task is by then.
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
            // The last page of all has none after it.
            start = start.wrapping_add(u64::from(count) << size.shift());
            left -= count;
        }
        count > 0
    }

    /// Waits for the broadcasts of a flush of `space`.
    pub(crate) fn finish_flush(&self, space: &AddressSpace, flush: Flush) {
        let tally = &self.platform().cpu(self.platform().this_cpu()).tally;
        match flush.extent {
            Extent::Pages { count, .. } => {
                self.await_broadcasts(Some(count), space.id());
                tally.flushes_page.add_at_once(u64::from(count));
            }
            Extent::All => {
                self.await_broadcasts(None, space.id());
                tally.flushes_full.add_at_once(1);
            }
        }
    }

    /// Waits for the broadcasts of `pages` single pages that a batch started.
    pub(crate) fn finish_broadcasts(&self, pages: u64) {
        if !self.guarded(Guard::BroadcastWait) {
            return;
        }
        let platform = self.platform();
        platform.pinned(|| {
            self.await_broadcasts(Some(u32::try_from(pages).unwrap_or(u32::MAX)), SpaceId::NONE);
            platform.cpu(platform.this_cpu()).tally.flushes_page.add_at_once(pages);
        });
    }

    /// Makes every CPU forget everything of every program, and waits until all have.
    pub(crate) fn flush_everywhere(&self) {
        let platform = self.platform();
        platform.broadcast_everything();
        self.await_broadcasts(None, SpaceId::NONE);
        platform.cpu(platform.this_cpu()).tally.flushes_full.add_at_once(1);
    }

    pub(crate) fn await_broadcasts(&self, pages: Option<u32>, space: SpaceId) {
        let platform = self.platform();
        platform.broadcast_wait();
        platform.cpu(platform.this_cpu()).tally.broadcasts.add_at_once(1);
        self.trace(Reason::Broadcast, pages, space);
    }
}
