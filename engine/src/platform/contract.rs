//! The interface that the engine requires of a machine.
//!
//! A kernel implements [`Platform`] once. The platform names the current CPU, invalidates entries of *this* CPU, loads
//! roots, and sends interrupts to other CPUs. The engine decides when. The platform states in [`Capabilities`] what the
//! processor promises beyond the minimum. Where a promise is missing, the engine takes the safe way.

use core::fmt::Debug;

use super::capabilities::Capabilities;
use super::guard::{InterruptsOff, Pinned};
use super::look::{Look, LOOK_EVERY, WIDE};
use super::trace::FlushEvent;
use crate::cpu::Cpu;
use crate::cpu_set::{CpuId, CpuSet};
use crate::flush::Flush;
use crate::space::{AddressSpace, Asid, Generation, Root, SpaceId};

/// A machine, as the engine sees it. The kernel implements it.
///
/// # Safety
/// The engine touches per-CPU state without a lock. It relies on these rules:
/// - [`Platform::this_cpu`] names the CPU that executes the call. Its result does not change between
///   [`Platform::save_interrupts`] and [`Platform::restore_interrupts`], nor between [`Platform::pin`] and
///   [`Platform::unpin`].
/// - Between [`Platform::save_interrupts`] and [`Platform::restore_interrupts`] no other code on this CPU calls the
///   engine. A kernel cannot keep out an interrupt that cannot be masked (NMI). The handler of such an interrupt may
///   call [`Engine::may_access`](crate::Engine::may_access) and no other function of the engine.
/// - [`Platform::cpu`] gives each CPU a [`Cpu`] of its own, always the same one.
/// - Functions that the engine calls with interrupts off do not call the engine for this CPU. These are all functions
///   of this trait but [`Platform::wait`] and [`Platform::invalidate_devices`], and `clone` and `as_ref` of
///   [`Platform::Space`].
/// - Where [`Capabilities::broadcast`] is stated, a task may move to another CPU between [`Platform::broadcast`] and
///   [`Platform::broadcast_wait`]. The CPU that it leaves then waits for the task's broadcasts first. On Arm the DSB in
///   the task switch does so; on x86 the task switch must execute a TLBSYNC.
pub unsafe trait Platform: Sized + Debug {
    /// The kernel's reference to an address space. A CPU that has a space loaded owns one, so the space lives as long
    /// as any CPU may walk its tables.
    type Space: Clone + AsRef<AddressSpace> + Debug;

    /// The interrupt state that [`Platform::save_interrupts`] found: whether interrupts were on, or how deep they were
    /// off.
    type Saved: Copy;

    /// The promises of the processor.
    fn capabilities(&self) -> Capabilities;

    /// The CPU that executes this call.
    fn this_cpu(&self) -> CpuId;

    /// The engine's state of a CPU.
    fn cpu(&self, cpu: CpuId) -> &Cpu<Self::Space>;

    /// Turns this CPU's interrupts off and returns their previous state. Calls may nest.
    fn save_interrupts(&self) -> Self::Saved;

    /// Turns this CPU's interrupts on again if they were on in `saved`.
    fn restore_interrupts(&self, saved: Self::Saved);

    /// Whether this CPU's interrupts are on.
    fn interrupts_on(&self) -> bool;

    /// Pins the caller to this CPU until [`Platform::unpin`]: the caller does not move and no other task runs here
    /// (preemption off). Interrupts stay as they are. Calls may nest.
    fn pin(&self);

    /// Ends the innermost [`Platform::pin`].
    fn unpin(&self);

    /// Runs `body` with this CPU's interrupts off. They are restored even if `body` panics.
    fn interrupts_off<R>(&self, body: impl FnOnce() -> R) -> R {
        let _off = InterruptsOff::new(self);
        body()
    }

    /// Runs `body` pinned to this CPU (see [`Platform::pin`]). The pin ends even if `body` panics.
    fn pinned<R>(&self, body: impl FnOnce() -> R) -> R {
        let _pinned = Pinned::new(self);
        body()
    }

    /// Makes this CPU translate through `root` and tag its entries with `asid`.
    ///
    /// With `flush`, it also invalidates the entries tagged with `asid` until now. It does so in the same step, or
    /// before it once the old root is gone: the old root may be loaded under the same ASID and must not fill more. It
    /// may not do so after the root is loaded, since entries that the walker cached may lead it to a table that was
    /// freed (R2).
    ///
    /// Root and tag change in one step: no entry is filled through one root under the other's tag (R4).
    ///
    /// A full barrier.
    fn load_root(&self, root: Root, asid: Asid, flush: bool);

    /// Makes this CPU translate through the kernel's own tables, which map no program. A full barrier, like
    /// [`Platform::load_root`]: no walk goes through the old root after it.
    fn load_kernel_root(&self);

    /// Invalidates the entries of this CPU that `flush` covers and that are tagged with `asid`.
    ///
    /// - If `flush.tables` is set, the entries that this CPU's walker cached on the way to a page go too. Otherwise the
    ///   translations alone suffice (on Arm the forms for the last level). RISC-V's `sfence.vma` with an address leaves
    ///   them in place, so there a flush with `tables` needs the form without an address.
    /// - Unless `flush.mixed` is set, the translations are all of the stated size.
    /// - There is at least one page, and at most the engine's [ceiling](crate::Engine::with_ceiling).
    /// - A walk that has read such an entry, or is in such a table, has ended too.
    ///
    /// `asid` is the ASID that is loaded. Where [`Capabilities::broadcast`] is stated, it may be another one.
    fn invalidate(&self, asid: Asid, flush: Flush);

    /// Invalidates every non-global entry of this CPU, under every tag.
    fn invalidate_all(&self);

    /// Flushes `space` for some of `targets`, and removes those CPUs from the set. [`SpaceId::NONE`] stands for the
    /// space that each of them has loaded. The engine does not interrupt them and waits for no answer from them.
    ///
    /// It is for a hypervisor that flushes the entries of a virtual CPU that is not running, before that CPU runs again
    /// (KVM's flag for preempted CPUs, the hypercalls of Hyper-V and Xen). It is also for hardware that invalidates on
    /// chosen CPUs without a handler (Intel's remote action requests).
    ///
    /// Once the call returns, a CPU that was removed uses no entry that `flush` covers and that it held before the
    /// call, and its accesses through such entries have landed. If the platform must name the tag, it is
    /// [`Cpu::loaded_asid`] of that CPU. A CPU that now runs the space under another tag came later and has read the
    /// newest generation. One that has left the space since may keep entries under the tag that it left, but its
    /// accesses through them have landed. The platform may invalidate more than `flush` covers.
    ///
    /// Every walk that starts after the invalidation sees the page-table stores that this CPU made before, or has seen
    /// other CPUs make. `targets` never holds a CPU that must do more than invalidate: one that must leave its tables
    /// or change its tag, or one that is switching.
    fn flush_for(&self, targets: &mut CpuSet, space: SpaceId, flush: Flush) {
        let _ = (targets, space, flush);
    }

    /// Interrupts `targets`. Each of them then calls [`Engine::handle_interrupt`](crate::Engine::handle_interrupt)
    /// once. Everything that this CPU stored before is visible to the handlers. Interrupts are off.
    fn interrupt(&self, targets: &CpuSet);

    /// Waits until `done` returns true, and answers interrupts meanwhile. Interrupts are on. With interrupts off the
    /// engine waits by itself and calls [`Platform::spin`].
    ///
    /// Most waits are for answers; [`Platform::answered`] reports the last of them. Rare waits end when another CPU has
    /// flushed all global ASIDs or has ended a switch, and no call reports that. So a platform that sleeps here must
    /// check `done` again by itself, for instance at its next tick.
    fn wait(&self, done: &dyn Fn() -> bool);

    /// Passes a moment on a CPU that waits for others with interrupts off, because the flush was started with
    /// interrupts off. The engine calls it repeatedly. Between two calls the engine answers requests of other CPUs, so
    /// two CPUs that wait in this way do not block each other.
    fn spin(&self) {
        core::hint::spin_loop();
    }

    /// Reports that this CPU has answered `initiator`'s request. `last` is true if no other answer is outstanding. It
    /// is for platforms whose [`Platform::wait`] sleeps; one that spins ignores it.
    fn answered(&self, initiator: CpuId, last: bool) {
        let _ = (initiator, last);
    }

    /// Starts to invalidate the entries that `flush` covers and that are tagged with `asid`, on every CPU, this one
    /// included. Returns before the invalidation is done.
    ///
    /// - If `flush.tables` is set, the entries that walkers cached on the way to a page go too. Otherwise the
    ///   translations alone suffice (on Arm the forms for the last level).
    /// - Unless `flush.mixed` is set, the translations are all of the stated size (a level hint may be used).
    /// - There is at least one page, and at most [`Broadcast::pages`](crate::Broadcast::pages).
    /// - Where page tables are isolated, an ASID stands for two tags, and both are invalidated.
    ///
    /// Every walk that starts after the invalidation sees the page-table stores that this CPU made before, or has seen
    /// other CPUs make. The engine calls it only where [`Capabilities::broadcast`] is stated, with or without
    /// page-table locks held.
    fn broadcast(&self, asid: Asid, flush: Flush) {
        let _ = (asid, flush);
        unclaimed("broadcast");
    }

    /// Starts to invalidate all entries of all programs on every CPU, this one included, under every tag. The rule
    /// for page-table stores of [`Platform::broadcast`] holds here too; most of those stores are other CPUs'. Called
    /// only where [`Capabilities::broadcast`] is stated.
    fn broadcast_everything(&self) {
        unclaimed("broadcast_everything");
    }

    /// Waits until all broadcasts that *this* CPU started are done on every CPU, and accesses through the invalidated
    /// entries have landed. ([`Errata`](crate::Errata) names processors that end the wait earlier.) Broadcasts that
    /// other CPUs started may still be under way. Interrupts may be off: the hardware answers without any program's
    /// help.
    ///
    /// A task may start broadcasts, move to another CPU, and wait for them there. The task switch must then wait for
    /// them, as this trait's contract says. Called only where [`Capabilities::broadcast`] is stated.
    fn broadcast_wait(&self) {
        unclaimed("broadcast_wait");
    }

    /// Waits until every walk of page tables without a lock that began before this call has ended. Called only where
    /// [`Walkers::Awaited`](crate::Walkers::Awaited) is stated, with interrupts as the caller of the flush has them. The
    /// caller may hold page-table locks, so the walks must not wait for one.
    fn await_walkers(&self) {
        debug_assert!(false, "the platform states that it awaits walkers and has no `await_walkers`");
    }

    /// Whether to count now how many CPUs run `space`, whose `generation` was just flushed, and to ask
    /// [`Platform::deserves_asid`]. The engine asks after each flush where [`Holders::Wide`](crate::Holders::Wide) is
    /// stated. The default says yes for one flush in [`LOOK_EVERY`].
    fn looks_at(&self, space: &AddressSpace, generation: Generation) -> bool {
        let _ = space;
        generation.get() % LOOK_EVERY == 0
    }

    /// Whether `space` should have a global ASID, given `look`. The default is [`Look::deserves`] with [`WIDE`] CPUs.
    fn deserves_asid(&self, space: &AddressSpace, look: Look) -> bool {
        let _ = space;
        look.deserves(WIDE)
    }

    /// Invalidates what `flush` covers in every TLB outside the CPUs that walks the space's tables (of an IOMMU or an
    /// accelerator). The TLBs are done when the call returns, and accesses through the entries have landed.
    ///
    /// Called only for a space with [devices attached](AddressSpace::attach_device). A flush calls it after the CPUs
    /// are done, with interrupts on. A [`Batch`](crate::Batch) calls it for each translation that it records, under the
    /// page-table lock.
    fn invalidate_devices(&self, space: &AddressSpace, flush: Flush) {
        let _ = (space, flush);
    }

    /// Invalidates the entries of the kernel's ranges that `flush` covers on this CPU: global ones, and those under
    /// every tag. The rules for `flush` are those of [`Platform::invalidate`].
    ///
    /// A kernel that calls [`Engine::flush_kernel`](crate::Engine::flush_kernel) must implement it. Interrupts are off.
    fn invalidate_kernel(&self, flush: Flush) {
        let _ = flush;
        debug_assert!(false, "the kernel's ranges are flushed and the platform has no `invalidate_kernel`");
    }

    /// Starts to invalidate the entries of the kernel's ranges that `flush` covers on every CPU, this one included, as
    /// [`Platform::invalidate_kernel`] does on one. Returns before it is done; [`Platform::broadcast_wait`] waits for
    /// it. If the hardware takes fewer pages at a time, the platform makes several operations. The rule for page-table
    /// stores of [`Platform::broadcast`] holds here too.
    ///
    /// Returns false, with nothing started, if the hardware does not carry it. The engine then interrupts.
    fn broadcast_kernel(&self, flush: Flush) -> bool {
        let _ = flush;
        false
    }

    /// Whether `cpu`, which is this CPU and about to run a program, must not be interrupted for flushes of the kernel's
    /// ranges. It is for isolated CPUs that run a program without ticks.
    /// [`Engine::enter_user`](crate::Engine::enter_user) asks.
    fn runs_undisturbed(&self, cpu: CpuId) -> bool {
        let _ = cpu;
        false
    }

    /// Invalidates the entries that `flush` covers in every TLB outside the CPUs that translates the kernel's ranges
    /// (of a device that shares the kernel's tables), before it returns. Each flush of kernel ranges calls it once,
    /// after the CPUs are done, with interrupts as the caller of the flush has them.
    fn invalidate_kernel_devices(&self, flush: Flush) {
        let _ = flush;
    }

    /// The time in nanoseconds since a fixed moment. It never decreases.
    fn now(&self) -> u64;

    /// Receives an event for every flush.
    fn trace(&self, event: FlushEvent) {
        let _ = event;
    }
}

/// Reports that the engine called a function that the platform did not write, although its capabilities promise it.
fn unclaimed(function: &str) {
    debug_assert!(false, "the platform states that it can broadcast and has no `{function}`");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::space::SpaceId;

    /// A platform that relies on every default.
    #[derive(Debug)]
    struct Plain;

    // SAFETY: no engine is made on it, so none of the promises is relied on.
    unsafe impl Platform for Plain {
        type Space = &'static AddressSpace;
        type Saved = ();

        fn capabilities(&self) -> Capabilities {
            unreachable!()
        }
        fn this_cpu(&self) -> CpuId {
            unreachable!()
        }
        fn cpu(&self, _: CpuId) -> &Cpu<Self::Space> {
            unreachable!()
        }
        fn save_interrupts(&self) {}
        fn restore_interrupts(&self, (): ()) {}
        fn interrupts_on(&self) -> bool {
            true
        }
        fn pin(&self) {}
        fn unpin(&self) {}
        fn load_root(&self, _: Root, _: Asid, _: bool) {}
        fn load_kernel_root(&self) {}
        fn invalidate(&self, _: Asid, _: Flush) {}
        fn invalidate_all(&self) {}
        fn interrupt(&self, _: &CpuSet) {}
        fn wait(&self, _: &dyn Fn() -> bool) {}
        fn now(&self) -> u64 {
            0
        }
    }

    #[test]
    fn by_default_wide_spaces_deserve_an_asid_and_one_flush_of_many_looks() {
        let space = AddressSpace::new(SpaceId::new(SpaceId::FIRST), Root(1), None);
        let looks =
            (1..=4 * crate::LOOK_EVERY).filter(|&raw| Plain.looks_at(&space, Generation::from_raw(raw)));
        assert_eq!(looks.count(), 4);
        let look = |running| Look { running, holds: false, narrow: 0, interrupt_ns: 1, broadcast_ns: 1 };
        assert!(Plain.deserves_asid(&space, look(WIDE)) && !Plain.deserves_asid(&space, look(WIDE - 1)));
    }

    #[test]
    fn by_default_every_cpu_is_interrupted_for_kernel_ranges() {
        assert!(!Plain.broadcast_kernel(Flush::TRANSLATIONS));
        assert!(!Plain.runs_undisturbed(CpuId::new(0).expect("there is one")));
    }

    #[test]
    #[cfg(debug_assertions)]
    #[should_panic(expected = "states that it can broadcast and has no `broadcast`")]
    fn a_broadcast_that_the_platform_has_not_is_caught() {
        Plain.broadcast(Asid::new(1), Flush::TRANSLATIONS);
    }

    #[test]
    #[cfg(debug_assertions)]
    #[should_panic(expected = "has no `broadcast_everything`")]
    fn a_broadcast_of_everything_that_the_platform_has_not_is_caught() {
        Plain.broadcast_everything();
    }

    #[test]
    #[cfg(debug_assertions)]
    #[should_panic(expected = "has no `broadcast_wait`")]
    fn a_wait_that_the_platform_has_not_is_caught() {
        Plain.broadcast_wait();
    }

    #[test]
    #[cfg(debug_assertions)]
    #[should_panic(expected = "has no `invalidate_kernel`")]
    fn a_flush_of_kernel_ranges_that_the_platform_has_not_is_caught() {
        Plain.invalidate_kernel(Flush::TRANSLATIONS);
    }

    #[test]
    #[cfg(debug_assertions)]
    #[should_panic(expected = "states that it can broadcast and has no `broadcast_wait`")]
    fn a_platform_that_cannot_do_what_it_states_is_caught() {
        super::unclaimed("broadcast_wait");
    }
}
