//! The proof that a space owes nothing for what is found gone.
//!
//! A batch clears translations and flushes later. In between, an operation that a program asked for (munmap,
//! mprotect, mremap, madvise) may find a translation gone or narrowed already, have nothing to do, and return while
//! some CPU still uses the old one. So it settles what batches owe in the space first, under the page-table lock
//! that they record under, and *after each time it takes that lock*: a batch may have recorded while nobody held it.
//! (Linux: `flush_tlb_batched_pending`; two loops of madvise that took the lock again without it were fixed in 2025,
//! 383c4613c67c.) A [`Settled`] is the lock with that done, and a [`Gather`](crate::Gather) takes translations of
//! nothing less.

use core::ops::{Deref, DerefMut};

use crate::flush::Flush;
use crate::platform::Platform;
use crate::sabotage::Guard;
use crate::space::AddressSpace;
use crate::Engine;

/// A page-table lock that is held, in a space which owes nothing for the translations found gone under it.
///
/// Only [`Engine::settle`] makes one. It keeps the lock's guard and never gives it back: dropping the proof drops the
/// lock, so that a proof cannot outlive what it says.
///
/// ```compile_fail,E0382
/// # use ceasefire::{Cleared, Engine, Gather, Platform};
/// fn late<P: Platform, R: FnMut(u32), L>(
///     engine: &Engine<P>, space: &P::Space, gather: &mut Gather<'_, P, u32, R>, lock: L, cleared: Cleared,
/// ) {
///     let proof = engine.settle(space.as_ref(), lock);
///     drop(proof); // the lock, too: from here on a batch may record
///     gather.unmap(&proof, cleared, None);
/// }
/// ```
///
/// Nor can the guard be taken out of it, or be exchanged for that of a lock under which nothing was settled:
///
/// ```compile_fail,E0507
/// # use ceasefire::Settled;
/// fn take<L>(proof: Settled<'_, L>) -> L {
///     *proof
/// }
/// ```
///
/// ```compile_fail,E0596
/// # use ceasefire::Settled;
/// fn exchange<L>(proof: &mut Settled<'_, L>, other: L) -> L {
///     std::mem::replace(&mut **proof, other)
/// }
/// ```
#[must_use = "dropping it releases the page-table lock"]
#[derive(Debug)]
pub struct Settled<'s, G> {
    space: &'s AddressSpace,
    guard: G,
}

impl<'s, G> Settled<'s, G> {
    /// The space that owed nothing when the lock was taken.
    pub fn space(&self) -> &'s AddressSpace {
        self.space
    }

    /// What the lock guards, to change it.
    pub fn entries(&mut self) -> &mut G::Target
    where
        G: DerefMut,
    {
        &mut self.guard
    }
}

impl<G> Deref for Settled<'_, G> {
    type Target = G;

    fn deref(&self) -> &G {
        &self.guard
    }
}

impl<P: Platform> Engine<P> {
    /// Pays what batches owe in `space`, and what they let go of owing, before an operation examines its translations on a program's behalf.
    ///
    /// `guard` is the page-table lock, just taken: batches record under the same lock, so nothing new can be owed for
    /// its translations until the proof is dropped. The lock is given up by dropping the proof; taken again, it is
    /// settled again.
    pub fn settle<'s, G>(&self, space: &'s AddressSpace, guard: G) -> Settled<'s, G> {
        debug_assert!(
            core::mem::needs_drop::<G>(),
            "{:?} was settled without a lock: a guard unlocks when it is dropped, and this does nothing",
            space.id()
        );
        if self.guarded(Guard::Settle) && self.owes(space) {
            self.flush(space, Flush::TRANSLATIONS);
        }
        Settled { space, guard }
    }
}
