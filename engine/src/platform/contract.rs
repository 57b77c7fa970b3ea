//! All that the engine asks of a machine.
//!
//! A kernel implements [`Platform`] once. It says which CPU this is, invalidates entries of *this* CPU, loads
//! roots, and carries interrupts to others; the engine decides when. What a processor promises beyond the minimum
//! it states in [`Capabilities`]: where a promise is missing, the engine does the safe thing instead.

use core::fmt::Debug;

use super::capabilities::Capabilities;
use super::guard::{InterruptsOff, Pinned};
use super::look::{Look, LOOK_EVERY, WIDE};
use super::remote::Remote;
use super::trace::FlushEvent;
use crate::cpu::Cpu;
use crate::cpu_set::{CpuId, CpuSet};
use crate::flush::{Flush, PageSize};
use crate::space::{AddressSpace, Asid, Generation, Root};

/// A machine, as the engine sees it. Implemented by the kernel.
///
/// # Safety
/// The engine keeps per-CPU state that it touches without a lock, relying on this:
/// - [`Platform::this_cpu`] names the CPU that executes the call, and that does not change between
///   [`Platform::save_interrupts`] and [`Platform::restore_interrupts`], nor between [`Platform::pin`] and
///   [`Platform::unpin`];
/// - between [`Platform::save_interrupts`] and [`Platform::restore_interrupts`] no other code runs on this CPU that calls
///   the engine. No kernel can keep out an interrupt that cannot be masked (NMI): its handler may call
///   [`Engine::may_access`](crate::Engine::may_access) and nothing else of the engine;
/// - [`Platform::cpu`] gives each CPU its own [`Cpu`], always the same one;
/// - what the engine calls with interrupts off (all of this trait but [`Platform::wait`] and
///   [`Platform::invalidate_devices`]; `clone` and `as_ref` of [`Platform::Space`]) does not call the engine for this CPU;
/// - where [`Capabilities::broadcast`] is stated, a task that moves to another CPU between [`Platform::broadcast`] and
///   [`Platform::broadcast_wait`] had its broadcasts waited for on the CPU that it left (on Arm the DSB in the task
///   switch does it, on x86 a TLBSYNC there must).
pub unsafe trait Platform: Sized + Debug {
    /// The kernel's reference to an address space. A CPU that has a space loaded owns one, so that the space
    /// lives as long as any CPU may walk its tables.
    type Space: Clone + AsRef<AddressSpace> + Debug;

    /// What [`Platform::save_interrupts`] found: whether interrupts were on, or how deep they were off.
    type Saved: Copy;

    /// What the processor promises.
    fn capabilities(&self) -> Capabilities;

    /// The CPU that executes this.
    fn this_cpu(&self) -> CpuId;

    /// The engine's state of a CPU.
    fn cpu(&self, cpu: CpuId) -> &Cpu<Self::Space>;

    /// Turns this CPU's interrupts off and says how they were. May nest.
    fn save_interrupts(&self) -> Self::Saved;

    /// Turns this CPU's interrupts on again if `saved` says that they were on.
    fn restore_interrupts(&self, saved: Self::Saved);

    /// Whether this CPU's interrupts are on.
    fn interrupts_on(&self) -> bool;

    /// From here to [`Platform::unpin`] the caller is not moved to another CPU and no other task runs on this one
    /// (preemption off), interrupts as they are. May nest.
    fn pin(&self);

    /// Ends the innermost [`Platform::pin`].
    fn unpin(&self);

    /// Runs `body` with this CPU's interrupts off. They are restored if `body` panics too.
    fn interrupts_off<R>(&self, body: impl FnOnce() -> R) -> R {
        let _off = InterruptsOff::new(self);
        body()
    }

    /// Runs `body` pinned to this CPU: see [`Platform::pin`]. The pin ends if `body` panics too.
    fn pinned<R>(&self, body: impl FnOnce() -> R) -> R {
        let _pinned = Pinned::new(self);
        body()
    }

    /// Makes this CPU translate through `root`, tagging entries with `asid`; with `flush`, what was tagged with
    /// it before is invalidated, in the same step or after the root (the old root may be loaded under the same
    /// ASID, and must not fill more), or before it, once the old root is gone. Where walkers store, as Arm's do to set
    /// access flags, it is before it: what they cached may lead them to a table that was freed. A full barrier.
    fn load_root(&self, root: Root, asid: Asid, flush: bool);

    /// Makes this CPU translate through the kernel's own tables, which map no program. A full barrier, as
    /// [`Platform::load_root`]: nothing is walked through the old root after it.
    fn load_kernel_root(&self);

    /// Invalidates one translation of this CPU, and what its walker cached on the way to it. The ASID is the one
    /// loaded.
    fn invalidate_page(&self, asid: Asid, address: u64, size: PageSize);

    /// Invalidates `count` translations of this CPU that lie `size` apart.
    fn invalidate_range(&self, asid: Asid, start: u64, count: u32, size: PageSize) {
        for index in 0..u64::from(count) {
            self.invalidate_page(asid, start + (index << size.shift()), size);
        }
    }

    /// Invalidates everything of this CPU that is tagged with `asid`, walk caches too.
    fn invalidate_asid(&self, asid: Asid);

    /// Invalidates every non-global entry of this CPU, whatever its tag.
    fn invalidate_all(&self);

    /// Answers for CPUs among `targets`, and takes them out. They are not interrupted, and answer nothing.
    ///
    /// For a hypervisor that flushes the entries of a virtual CPU which does not run, before it runs again (KVM's flag for
    /// preempted CPUs, the hypercalls of Hyper-V and Xen), and for hardware that invalidates on chosen CPUs without a
    /// handler (Intel's remote action requests). From the return on, a CPU that was taken out uses no entry which `request`
    /// covers and which it held before the call. Where the tag has to be named, it is what [`Cpu::loaded_asid`] of
    /// that CPU says: a CPU that runs the space under another tag by now came later, and has read the newest generation.
    /// More may be invalidated than is asked for.
    ///
    /// Page-table stores that this CPU made before, or has seen others make, are seen by every walk that starts after the
    /// invalidation. CPUs that have to do more than invalidate are not among `targets`: those that have to leave their
    /// tables or change their tag, and those that are switching.
    fn flush_for(&self, targets: &mut CpuSet, request: &Remote) {
        let _ = (targets, request);
    }

    /// Interrupts `targets`; each then calls [`Engine::handle_interrupt`](crate::Engine::handle_interrupt) once.
    /// Everything this CPU stored before is visible to the handlers. Interrupts are off.
    fn interrupt(&self, targets: &CpuSet);

    /// Waits until `done` says so, answering interrupts that come. Interrupts are on: with interrupts off the engine waits
    /// by itself, and calls [`Platform::spin`].
    ///
    /// For answers, of whose last [`Platform::answered`] tells; or, seldom, until another CPU has flushed all global ASIDs,
    /// of which nothing does: a platform that sleeps here has to look again by itself, at its next tick for one.
    fn wait(&self, done: &dyn Fn() -> bool);

    /// A moment passes on a CPU that waits for others with interrupts off, because a flush was started so. Called again and
    /// again: between two calls the engine answers what other CPUs ask of this one, so two CPUs that wait like this do not
    /// wait for each other.
    fn spin(&self) {
        core::hint::spin_loop();
    }

    /// This CPU has answered `initiator`'s request; `last` if no other answer is outstanding. For platforms whose
    /// [`Platform::wait`] sleeps; one that spins ignores it.
    fn answered(&self, initiator: CpuId, last: bool) {
        let _ = (initiator, last);
    }

    /// Starts to invalidate what `flush` says of what is tagged with `asid` on every CPU, this one included. Returns
    /// before it is done.
    ///
    /// What walkers cached on the way to a page goes with it if `flush.tables` is set; else the translations alone will do
    /// (on Arm the forms for the last level), and unless they are `flush.mixed` those of that size (with a level hint). At
    /// least one page, and at most as many as [`Broadcast::pages`](crate::Broadcast::pages) says. Where page tables are
    /// isolated an ASID stands for two tags, and both are meant. Page-table stores that this CPU made before, or has seen
    /// others make, are seen by every walk that starts after the invalidation. Called only where
    /// [`Capabilities::broadcast`] is stated, with page-table locks held or not.
    fn broadcast(&self, asid: Asid, flush: Flush) {
        let _ = (asid, flush);
        unclaimed("broadcast");
    }

    /// Starts to invalidate everything of every program on every CPU, this one included, whatever its tag. What is said of
    /// page-table stores at [`Platform::broadcast`] holds here too; most of them are other CPUs'. Called only where
    /// [`Capabilities::broadcast`] is stated.
    fn broadcast_everything(&self) {
        unclaimed("broadcast_everything");
    }

    /// Waits until all broadcasts that *this* CPU started are done on every CPU. Those that others started may not be.
    /// Interrupts may be off: the hardware answers, and no other CPU's program.
    ///
    /// A task may start broadcasts and wait for them later, moving to another CPU in between: the task switch has to
    /// wait for them then, as this trait's contract says. Called only where [`Capabilities::broadcast`] is stated.
    fn broadcast_wait(&self) {
        unclaimed("broadcast_wait");
    }

    /// Whether to look now how many CPUs run `space`, of which `generation` was just flushed, and ask
    /// [`Platform::deserves_asid`]. Asked after each flush where [`Holders::Wide`](crate::Holders::Wide) is stated; one
    /// flush in [`LOOK_EVERY`] unless the kernel knows better.
    fn looks_at(&self, space: &AddressSpace, generation: Generation) -> bool {
        let _ = space;
        generation.get() % LOOK_EVERY == 0
    }

    /// Whether `space` should have a global ASID, after what was seen of it. Unless the kernel knows better: what
    /// [`Look::deserves`] says of [`WIDE`] CPUs.
    fn deserves_asid(&self, space: &AddressSpace, look: Look) -> bool {
        let _ = space;
        look.deserves(WIDE)
    }

    /// Makes every TLB outside the CPUs that walks the space's tables (an IOMMU's, an accelerator's) forget what
    /// `flush` covers, before it returns.
    ///
    /// Called only for a space with [devices attached](AddressSpace::attach_device): after the CPUs are done, with
    /// interrupts on, and for each translation that a [`Batch`](crate::Batch) records, under the page-table lock.
    fn invalidate_devices(&self, space: &AddressSpace, flush: Flush) {
        let _ = (space, flush);
    }

    /// Invalidates what `flush` says of the kernel's ranges on this CPU: global entries too, under every tag, and what its
    /// walker cached on the way to them. An address in the kernel's half means the same in every space.
    ///
    /// A kernel that calls [`Engine::flush_kernel`](crate::Engine::flush_kernel) implements it. Interrupts are off.
    fn invalidate_kernel(&self, flush: Flush) {
        let _ = flush;
        debug_assert!(false, "the kernel's ranges are flushed and the platform has no `invalidate_kernel`");
    }

    /// Starts to invalidate what `flush` says of the kernel's ranges on every CPU, this one included, as
    /// [`Platform::invalidate_kernel`] does on one. Returns before it is done; [`Platform::broadcast_wait`] waits for it.
    /// The platform splits what its hardware cannot do in one operation. Page-table stores that this CPU made before, or has
    /// seen others make, are seen by every walk that starts after the invalidation. Returns `false`, with nothing started,
    /// where the hardware does not carry it: the engine interrupts then.
    fn broadcast_kernel(&self, flush: Flush) -> bool {
        let _ = flush;
        false
    }

    /// Whether `cpu`, which is this CPU and about to run a program, is not to be interrupted for flushes of the kernel's
    /// ranges. For an isolated CPU that runs a program without ticks. [`Engine::enter_user`](crate::Engine::enter_user) asks.
    fn runs_undisturbed(&self, cpu: CpuId) -> bool {
        let _ = cpu;
        false
    }

    /// Makes every TLB outside the CPUs that translates the kernel's ranges (of a device that shares the kernel's tables)
    /// forget what `flush` covers, before it returns. Called once for each flush of kernel ranges, after the CPUs are done,
    /// with the interrupts that the caller of the flush has.
    fn invalidate_kernel_devices(&self, flush: Flush) {
        let _ = flush;
    }

    /// Nanoseconds since some moment, never falling.
    fn now(&self) -> u64;

    /// Sees every flush.
    fn trace(&self, event: FlushEvent) {
        let _ = event;
    }
}

/// The engine came to a function that a platform did not write: what it stated in its capabilities it does not have.
fn unclaimed(function: &str) {
    debug_assert!(false, "the platform states that it can broadcast and has no `{function}`");
}

#[cfg(test)]
mod tests {
    #[test]
    #[cfg(debug_assertions)]
    #[should_panic(expected = "states that it can broadcast and has no `broadcast_wait`")]
    fn a_platform_that_cannot_do_what_it_states_is_caught() {
        super::unclaimed("broadcast_wait");
    }
}
