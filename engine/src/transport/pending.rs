//! A flush from its beginning to its end, in one step or in two.
//!
//! The beginning raises the generation, then reads the space's tag, and starts what the tag requires. The end waits for
//! the CPUs, tells the space what they reached, and then flushes devices. The caller may do other work in between; the
//! flush continues without it.

use core::fmt;
use core::marker::PhantomData;
use core::mem;

use super::shootdown::{Sent, Ticket};
use crate::flush::Flush;
use crate::platform::Platform;
use crate::sabotage::Guard;
use crate::space::{AddressSpace, Generation, Reading, Tagged};
use crate::Engine;

/// A flush that is under way. Dropping it waits for its end.
///
/// The frames that were unmapped and the page-table pages must not be reused before the end.
///
/// The task may move to another CPU meanwhile. Where flushes are broadcast, the task switch waits for the broadcasts,
/// as the contract of [`Platform`] demands. The task may begin other flushes before it waits for this one. A CPU
/// carries only one request at a time, so the next flush that must interrupt waits until this one's targets have
/// answered.
///
/// It stays with its task: another task, on another CPU, would wait for the wrong CPU's broadcasts.
///
/// ```compile_fail,E0277
/// # use ceasefire::{Pending, Platform};
/// fn elsewhere<P: Platform + Sync>(pending: Pending<'static, P>) {
///     std::thread::spawn(move || drop(pending));
/// }
/// ```
#[must_use = "dropping it waits at once: do something else first, or call `flush`"]
pub struct Pending<'a, P: Platform> {
    engine: &'a Engine<P>,
    space: &'a AddressSpace,
    generation: Generation,
    /// The flush as the caller asked for it, and as the CPUs do it, limited by the ceiling.
    asked: Flush,
    limited: Flush,
    /// When it began, if its time counts.
    begun: Option<u64>,
    tag: Reading,
    /// The request to the CPUs that were interrupted.
    ticket: Option<Ticket>,
    /// Broadcasts were started.
    started: bool,
    /// The platform flushed for some CPU, which has not done more than that.
    elsewhere: bool,
    ended: bool,
    /// Broadcasts are waited for on the CPU that started them, or that their task moved to.
    here: PhantomData<*const ()>,
}

impl<P: Platform> Engine<P> {
    /// Flushes a part of `space` on every CPU that may use it and every device that walks it, before it returns. If
    /// `flush.tables` is set, it also waits for the kernel's own [walkers](crate::Walkers).
    ///
    /// Change the page tables first: the flush covers all changes that were made before the call. Interrupts should be
    /// on. With interrupts off, this CPU answers other CPUs' requests while it waits, and nothing else. It returns the
    /// flush's generation.
    pub fn flush(&self, space: &AddressSpace, flush: Flush) -> Generation {
        self.assert_own(space);
        // R1, R3
        if !self.guarded(Guard::RaiseFirst) {
            self.flush_to(space.generation.next(), space, flush);
            return space.generation.raise();
        }
        let generation = space.generation.raise();
        self.flush_to(generation, space, flush);
        generation
    }

    /// Begins an [`Engine::flush`]: asks the other CPUs and does this CPU's own part. [`Pending::wait`] ends it.
    pub fn begin_flush<'a>(&'a self, space: &'a AddressSpace, flush: Flush) -> Pending<'a, P> {
        self.begin(space.generation.raise(), space, flush)
    }

    /// Does a flush whose `generation` was just raised.
    pub(crate) fn flush_to(&self, generation: Generation, space: &AddressSpace, flush: Flush) {
        // Pinned once, for both halves.
        let pinned = self.pin();
        let mut pending = self.begin(generation, space, flush);
        pending.await_cpus();
        drop(pinned);
        pending.conclude();
        mem::forget(pending);
    }

    #[inline]
    fn begin<'a>(&'a self, generation: Generation, space: &'a AddressSpace, flush: Flush) -> Pending<'a, P> {
        let limited = flush.limited(self.ceiling);
        let begun = self.begin_pace();
        // After the generation was raised: a CPU that starts to run the space reads the two in the opposite order.
        let tag = space.tag.read();
        let _pinned = self.pin();
        let (Sent { ticket, elsewhere }, started) = match tag.tagged() {
            Tagged::Slots => (self.ask_runners(generation, space, limited), false),
            Tagged::Global(asid) => (Sent::NOTHING, self.start_globally(asid, space, limited)),
            Tagged::Adopting(asid) | Tagged::Leaving(asid) | Tagged::Ending(asid) => {
                self.start_in_transition(asid, generation, space, limited)
            }
        };
        Pending {
            engine: self,
            space,
            generation,
            asked: flush,
            limited,
            begun,
            tag,
            ticket,
            started,
            elsewhere,
            ended: false,
            here: PhantomData,
        }
    }

    /// Makes devices that walk the space's tables invalidate what `flush` covers.
    pub(crate) fn flush_devices(&self, space: &AddressSpace, flush: Flush) {
        // R1, R3
        if space.has_devices() && self.guarded(Guard::Devices) {
            self.platform().invalidate_devices(space, flush);
        }
    }
}

impl<P: Platform> Pending<'_, P> {
    /// Waits until the flush is done everywhere, and returns its generation. Interrupts should be on, as for
    /// [`Engine::flush`].
    pub fn wait(mut self) -> Generation {
        self.end();
        self.generation
    }

    /// Whether every CPU is known to be done, so the wait for CPUs ends at once. Broadcasts and devices are known to be
    /// done only after the wait.
    pub fn is_done(&self) -> bool {
        !self.started && self.ticket.map_or(true, |ticket| self.engine.is_answered(ticket))
    }

    fn end(&mut self) {
        if !mem::replace(&mut self.ended, true) {
            let pinned = self.engine.pin();
            self.await_cpus();
            drop(pinned);
            self.conclude();
        }
    }

    /// Waits for the CPUs and tells the space what they reached. The caller is pinned.
    #[inline]
    fn await_cpus(&mut self) {
        let Self { engine, space, generation, .. } = *self;
        engine.await_answers(self.ticket);
        if self.started {
            engine.finish_flush(space.id(), self.limited);
        }
        match self.tag.tagged() {
            // R3, R7: a CPU that answered has caught up with every flush, or with this one alone if it missed no other. A
            // CPU that the platform flushed has done this one alone.
            Tagged::Slots if !(self.elsewhere && engine.guarded(Guard::Elsewhere)) => {
                space.reached.raise_to(generation);
            }
            Tagged::Slots | Tagged::Global(_) => space.reach_by_broadcast(generation, self.limited.extent),
            Tagged::Adopting(_) | Tagged::Leaving(_) | Tagged::Ending(_) => {
                engine.end_transition(space, space.tag.read());
                space.reach_by_broadcast(generation, self.limited.extent);
            }
        }
    }

    /// Does what follows once all CPUs are done.
    #[inline]
    fn conclude(&self) {
        let (engine, space) = (self.engine, self.space);
        if let Some(begun) = self.begun {
            space.pace.add(self.tag, engine.platform().now().saturating_sub(begun));
            engine.consider(space, self.generation);
        }
        if self.asked.tables {
            // A CPU between two tags may have been passed over.
            let interrupted = self.tag.tagged() == Tagged::Slots && !self.elsewhere;
            engine.await_walkers(Some(space), interrupted);
        }
        engine.flush_devices(space, self.asked);
    }
}

impl<P: Platform> Drop for Pending<'_, P> {
    fn drop(&mut self) {
        self.end();
    }
}

impl<P: Platform> fmt::Debug for Pending<'_, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pending")
            .field("space", &self.space.id())
            .field("generation", &self.generation)
            .field("asked", &self.asked)
            .finish_non_exhaustive()
    }
}
