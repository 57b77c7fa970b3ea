//! Windows: kernel ranges that each CPU flushes by itself.
//!
//! A kernel that maps pages for moments, at addresses set aside for that, pays no interrupt for each (Linux:
//! `kmap_local_page`). The entry that a CPU holds from the last time is flushed on that CPU, before it uses the window
//! again.

use crate::flush::Flush;
use crate::platform::{Platform, Reason};
use crate::primitive::{fence, Ordering};
use crate::sabotage::Guard;
use crate::Engine;

impl<P: Platform> Engine<P> {
    /// Runs `body` with a window of the kernel's ranges in use on this CPU, and returns its result.
    ///
    /// `map` stores the translations of the window. The CPU then invalidates its own entries of `flush`, also if `map`
    /// found the window as it should be: another CPU may have set it, and this one may hold an older entry
    /// (Serenity, #3902). `body` uses the window. The caller is pinned all the while.
    ///
    /// One CPU uses a window at a time: it has windows of its own, or the caller holds a lock around the call. An
    /// interrupt handler uses other addresses than the code that it interrupted. No device uses a window, and no flush
    /// by [`Engine::flush_kernel`] is owed for one. The tables of a window are never freed.
    pub fn window<R>(&self, flush: Flush, map: impl FnOnce(), body: impl FnOnce() -> R) -> R {
        debug_assert!(!flush.tables, "the tables of a window are never freed");
        let limited = flush.limited(self.ceiling);
        self.platform().pinned(|| {
            map();
            // R7
            if self.guarded(Guard::Window) {
                self.on_this_cpu(|here| {
                    // The translations are stored before the invalidation. No other CPU looks for either.
                    fence(Ordering::Release);
                    self.invalidate_kernel(here.cpu, limited, Reason::LocalShootdown);
                });
            }
            body()
        })
    }
}
