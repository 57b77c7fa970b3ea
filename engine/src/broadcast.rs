//! The broadcast transport: the hardware carries an invalidation to every CPU, and the sender waits until it is done.
//!
//! Arm's inner-shareable TLBI with DSB, x86's INVLPGB with TLBSYNC. It takes a tag that means the same everywhere, so
//! each space has a [global ASID](crate::global_asid), and in return nobody has to be known or asked: CPUs that run
//! the space, are lazy in it or left it long ago are reached alike, and a switch never flushes. What is unlike the
//! interrupts is who may claim what. Invalidations are asynchronous, and *a wait covers only those that the same CPU
//! started*: so one batch's wait says nothing of another's, and whoever finds a space in debt flushes it himself
//! instead of waiting (Linux got that wrong on Arm until 4b634918384c, 2025).

use crate::address_space::{AddressSpace, SpaceId};
use crate::flush::{Extent, Flush};
use crate::generation::Generation;
use crate::platform::{Platform, Reason};
use crate::primitive::Ordering;
use crate::{Asid, Engine};

impl<P: Platform> Engine<P> {
    /// Gives the ASID of a space that ends back, to be used again once it was flushed everywhere.
    ///
    /// No CPU has the space loaded any more, and none will. A space that ends without it takes its ASID along: no
    /// harm but that there is one less until the machine restarts. Does nothing where flushes are not broadcast.
    pub fn retire(&self, space: &AddressSpace) {
        #[cfg(feature = "sabotage")]
        let expected = self.guarded(crate::sabotage::Guard::LazyTables);
        #[cfg(not(feature = "sabotage"))]
        let expected = true;
        debug_assert!(
            !expected || space.cpus().is_empty(),
            "{:?} was retired while a CPU had it loaded",
            space.id()
        );
        let again = space.retired.swap(true, Ordering::AcqRel);
        debug_assert!(!again, "{:?} was retired twice", space.id());
        if let (Some(asid), false) = (space.asid(), again) {
            self.asids.free(asid);
        }
    }

    /// The tag for a new space; `None` where each CPU picks its own.
    pub(crate) fn take_asid(&self) -> Option<Asid> {
        let platform = self.platform();
        let capabilities = platform.capabilities();
        let broadcast = capabilities.broadcast?;
        if !capabilities.asids {
            return Some(Asid::SHARED);
        }
        let flush = || {
            platform.broadcast_everything();
            self.await_broadcasts(None, SpaceId::NONE);
            platform.cpu(platform.this_cpu()).tally.flushes_full.add(1);
        };
        // Pinned as a whole: other CPUs may wait for the one that flushes, so it must not be taken from it.
        let asid = platform.pinned(|| self.asids.take(broadcast.asids, flush, |done| platform.wait(done)));
        Some(asid.unwrap_or(Asid::SHARED))
    }

    /// Flushes a part of `space` everywhere.
    pub(crate) fn flush_by_broadcast(
        &self,
        asid: Asid,
        generation: Generation,
        space: &AddressSpace,
        flush: Flush,
    ) {
        let platform = self.platform();
        platform.pinned(|| {
            let tally = &platform.cpu(platform.this_cpu()).tally;
            match flush.extent {
                Extent::Pages { count: 0, .. } => {}
                Extent::Pages { count, .. } => {
                    platform.broadcast(asid, flush.extent);
                    self.await_broadcasts(Some(count), space.id());
                    tally.flushes_page.add(u64::from(count));
                }
                Extent::All => {
                    platform.broadcast(asid, Extent::All);
                    self.await_broadcasts(None, space.id());
                    tally.flushes_full.add(1);
                }
            }
        });
        match flush.extent {
            // Every entry from before is gone, so every debt up to here is paid.
            Extent::All => space.reached.raise_to(generation),
            Extent::Pages { .. } => space.reached.extend(generation, generation),
        }
    }

    /// Waits for the broadcasts of `pages` single pages that a batch started.
    pub(crate) fn finish_broadcasts(&self, pages: u64) {
        #[cfg(feature = "sabotage")]
        if !self.guarded(crate::sabotage::Guard::BroadcastWait) {
            return;
        }
        let platform = self.platform();
        platform.pinned(|| {
            self.await_broadcasts(Some(u32::try_from(pages).unwrap_or(u32::MAX)), SpaceId::NONE);
            platform.cpu(platform.this_cpu()).tally.flushes_page.add(pages);
        });
    }

    fn await_broadcasts(&self, pages: Option<u32>, space: SpaceId) {
        let platform = self.platform();
        platform.broadcast_wait();
        platform.cpu(platform.this_cpu()).tally.broadcasts.add(1);
        self.trace(Reason::Broadcast, pages, space);
    }
}
