//! The proof that a space owes nothing for the translations that are found gone.
//!
//! A batch clears translations and flushes later. In between, an operation that a program requested (munmap, mprotect,
//! mremap, madvise) may find a translation gone or narrowed already. It then has nothing to do, and would return while
//! some CPU still uses the old entry.
//!
//! So such an operation first settles the space: it pays what batches owe there, under the page-table lock under which
//! they record. It does so *each time it takes that lock*, because a batch may have recorded while the lock was free.
//! (Linux: `flush_tlb_batched_pending`. Two loops of madvise that took the lock again without it were fixed in 2025,
//! 383c4613c67c.)
//!
//! A [`Settled`] is the lock of a settled space. A [`Gather`](crate::Gather) changes translations only under one.

use core::ops::Deref;

use crate::flush::Flush;
use crate::platform::Platform;
use crate::sabotage::Guard;
use crate::Engine;

/// The guard of a page-table lock: the lock is held as long as the guard lives.
///
/// A kernel implements it for the guard type of its page-table lock. The engine takes the space from the guard, so a
/// translation cannot be recorded in another one.
///
/// # Safety
/// R1 to R7 rest on it. While the guard lives, no other CPU changes the translations that it guards.
/// [`TableGuard::space`] names the space to which they belong. Every call names the same space.
pub unsafe trait TableGuard<P: Platform> {
    /// The space whose translations the lock guards.
    fn space(&self) -> &P::Space;
}

/// A page-table lock that is held, in a space that owes nothing for the translations found gone under it.
///
/// Only [`Engine::settle`] makes one. It keeps the lock's guard and never returns it: dropping the proof releases the
/// lock, so the proof cannot outlive its truth. The guard cannot be moved out of it, nor exchanged for the guard of a
/// lock under which nothing was settled:
///
/// ```compile_fail,E0507
/// # use ceasefire::Settled;
/// fn take<L>(proof: Settled<L>) -> L {
///     *proof
/// }
/// ```
///
/// ```compile_fail,E0596
/// # use ceasefire::Settled;
/// fn exchange<L>(proof: &mut Settled<L>, other: L) -> L {
///     std::mem::replace(&mut **proof, other)
/// }
/// ```
///
/// Only the guard of a page-table lock can be settled:
///
/// ```compile_fail,E0277
/// # use ceasefire::{Engine, Platform};
/// fn unlocked<P: Platform>(engine: &Engine<P>) {
///     drop(engine.settle(()));
/// }
/// ```
#[must_use = "dropping it releases the page-table lock"]
#[derive(Debug)]
pub struct Settled<G> {
    guard: G,
}

impl<G> Deref for Settled<G> {
    type Target = G;

    fn deref(&self) -> &G {
        &self.guard
    }
}

impl<P: Platform> Engine<P> {
    /// Pays what batches owe in the guard's space, lazy debts included, before an operation examines translations on a
    /// program's behalf.
    ///
    /// `guard` is the page-table lock, just taken. Batches record under the same lock, so no new debt can arise for its
    /// translations until the proof is dropped. Interrupts must be on.
    pub fn settle<G: TableGuard<P>>(&self, guard: G) -> Settled<G> {
        let space = guard.space().as_ref();
        // R3
        if self.guarded(Guard::Settle) && self.owes(space) {
            self.flush(space, Flush::TRANSLATIONS);
        }
        Settled { guard }
    }
}
