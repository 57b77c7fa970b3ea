//! Loading address spaces: switches, lazy mode, and the window in a switch.
//!
//! A switch to a space publishes that it is under way, and *then* reads the space's generation. A flush raises the
//! generation, and *then* looks at the spaces that CPUs have loaded. So either the switch sees the new generation and
//! flushes, or the flush sees the switch and interrupts. (Linux fixed both halves in 2025: fea4e317f9e7 and
//! 83b0177a6c48.)
//!
//! A CPU in lazy mode keeps the space loaded but runs no program. It is interrupted only before page-table pages are
//! freed, and catches up when it leaves lazy mode. Under a global ASID none of this matters: broadcasts reach every
//! CPU, whatever it runs. The switch reads the space's tag in the same window, before the generation
//! (`transport::transition` says why).

use super::here::Here;
use crate::cpu::{Cpu, Flushed, Loaded, Slots};
use crate::cpu_set::CpuId;
use crate::limits::PLACES;
use crate::platform::{FlushEvent, Platform, Reason};
use crate::primitive::{fence, Ordering};
use crate::sabotage::Guard;
use crate::space::{AddressSpace, Asid, SpaceId, Users};
use crate::Engine;

/// The references to spaces that a CPU gave up.
///
/// Dropping the last reference to a space may free much memory. Do it where that may take time, not with interrupts
/// off.
#[must_use = "drop it outside the switch, where freeing the space is allowed"]
#[derive(Debug)]
pub struct Previous<S, const N: usize = 1>([Option<S>; N]);

impl<S, const N: usize> Previous<S, N> {
    /// Whether the CPU gave up any reference.
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(Option::is_none)
    }

    /// The spaces whose references and places the CPU gave up.
    pub fn spaces(&self) -> impl Iterator<Item = &S> {
        self.0.iter().flatten()
    }
}

impl<P: Platform> Engine<P> {
    /// Makes this CPU run `next`, and leaves lazy mode if the CPU was in it.
    ///
    /// The CPU keeps a reference to the space that it leaves, and its place in the space's set, for its return. With
    /// [`PLACES`] of them it gives up the oldest.
    pub fn switch_to(&self, next: &P::Space) -> Previous<P::Space> {
        let space = next.as_ref();
        self.on_this_cpu(|here| {
            if here.cpu.seen.loaded() == space.id() {
                if here.cpu.seen.is_lazy() {
                    self.leave_lazy(here, space);
                }
                return Previous([None]);
            }
            self.load(here, next)
        })
    }

    /// Announces that this CPU runs no program until the next [`Engine::switch_to`]: it enters an idle loop or a kernel
    /// thread. The space stays loaded, and flushes of pages do not interrupt the CPU. Where flushes are broadcast, the
    /// CPU leaves the space at once: coming back costs no flush, and no interrupt would reach the CPU when the space's
    /// tables are freed.
    pub fn enter_lazy(&self) {
        self.on_this_cpu(|mut here| match &here.own.loaded {
            None => {}
            Some(loaded) if loaded.global => self.load_kernel(&mut here),
            Some(_) => here.cpu.seen.set_lazy(true),
        });
    }

    /// Unloads this CPU's space, and gives up its references to spaces that it has left: before deep idle, or before
    /// the space's page tables are torn down. A CPU that goes offline calls [`Engine::offline`] instead. A CPU that
    /// broadcasts did not reach meanwhile must call [`Engine::flush_here`] before it runs a space again, since ASIDs
    /// may have changed owners.
    pub fn unload(&self) -> Previous<P::Space, PLACES> {
        self.on_this_cpu(|mut here| {
            self.load_kernel(&mut here);
            give_up_places(&mut here)
        })
    }

    /// Catches up with the flushes made while this CPU was lazy.
    // Not inlined, nor is `load`: a switch to the loaded space is the short path.
    #[inline(never)]
    fn leave_lazy(&self, here: Here<'_, P>, space: &AddressSpace) {
        // An NMI before the CPU has caught up must not find the space loaded: see `may_access`.
        here.cpu.seen.set_loaded(SpaceId::SWITCHING);
        here.cpu.seen.set_lazy(false);
        // Either the generation read below is new, or the flush sees that this CPU is no longer lazy.
        fence(Ordering::SeqCst);
        let newest = space.generation();
        // On a slot: no CPU is lazy under a global ASID.
        if let Some(Loaded { asid, .. }) = here.own.loaded {
            // R1, R3
            if here.own.slots.generation(asid) < newest && self.guarded(Guard::CatchUp) {
                self.platform().load_root(space.root(), asid, true);
                here.own.slots.reach(asid, newest);
                here.cpu.tally.flushes_free.add(1);
                here.cpu.tally.flushes_full.add(1);
                self.trace_switch(space.id(), None);
            }
        }
        here.cpu.seen.set_loaded(space.id());
    }

    #[inline(never)]
    fn load(&self, here: Here<'_, P>, next: &P::Space) -> Previous<P::Space> {
        let space = next.as_ref();
        let Here { id, cpu, own } = here;
        if cpu.inbox.is_closed() {
            self.arrive(id, cpu);
        }
        self.assert_own(space);
        self.assert_alone(id, cpu);
        // Either order: a CPU that arrives holds no entry, and reads the space's generation afterwards.
        // R1, R3
        if self.guarded(Guard::Switching) {
            cpu.seen.set_loaded(SpaceId::SWITCHING);
        }
        cpu.seen.set_lazy(false);
        let kept = own.left.take(space.id());
        let joins = kept.is_none();
        // R1, R3
        if joins && self.guarded(Guard::JoinFirst) {
            join(id, cpu, space);
        }
        // R2
        if let (Some(Loaded { space: left, .. }), false) = (&own.loaded, self.guarded(Guard::LeaveLast)) {
            leave(id, cpu, left.as_ref());
        }
        let (asid, global, flushed) = self.choose(id, &mut own.slots, space);
        self.platform().load_root(space.root(), asid, flushed != Flushed::No);
        // R1, R3
        if joins && !self.guarded(Guard::JoinFirst) {
            join(id, cpu, space);
        }
        self.account_load(cpu, space, flushed);
        let reference = kept.unwrap_or_else(|| next.clone());
        if let Some(Loaded { space: left, .. }) =
            own.loaded.replace(Loaded { space: reference, asid, global })
        {
            own.left.keep(left);
        }
        let given_up = own.left.excess();
        if let Some(left) = &given_up {
            leave(id, cpu, left.as_ref());
        }
        // The root is loaded before it is named. A flush that still reads SWITCHING interrupts needlessly. A flush that
        // read the space too early would be answered before the root was loaded.
        cpu.seen.set_tag(asid, global);
        cpu.seen.set_loaded(space.id());
        Previous([given_up])
    }

    /// Chooses the tag for a space that this CPU is about to load. Returns the ASID, whether it is global, and whether
    /// the CPU must flush. The CPU has published before that it is switching, and has joined the space.
    pub(crate) fn choose(&self, id: CpuId, slots: &mut Slots, space: &AddressSpace) -> (Asid, bool, Flushed) {
        // Published values come before the reads: see the start of the module's description. The set's atomic insertion
        // would suffice, but a CPU that kept its place does without.
        fence(Ordering::SeqCst);
        let (tag, newest) = space.to_load();
        // Either order: under a global ASID the generation is not read.
        // R1, R3
        if tag.is_some() && (self.guarded(Guard::SecondCpu) || space.used_on.read() == Users::None) {
            space.used_on.note(id);
        }
        match tag {
            None => {
                let tagged = self.platform().capabilities().asids;
                let (asid, flushed) = slots.choose(space.id(), newest, tagged);
                let stands = match flushed {
                    Flushed::No => true,
                    Flushed::Behind => self.guarded(Guard::Behind), // R1, R3
                    Flushed::Recycled => self.guarded(Guard::Recycled), // R4
                };
                (asid, false, if stands { flushed } else { Flushed::No })
            }
            Some(Asid::SHARED) => (Asid::SHARED, true, Flushed::Recycled),
            // The ASID is the space's own on every CPU. Broadcasts keep it current, wherever the space runs.
            Some(asid) => (asid, true, Flushed::No),
        }
    }

    /// Counts and traces that a space was loaded.
    pub(crate) fn account_load(&self, cpu: &Cpu<P::Space>, space: &AddressSpace, flushed: Flushed) {
        if flushed == Flushed::Behind {
            cpu.tally.flushes_free.add(1);
        }
        if flushed != Flushed::No {
            cpu.tally.flushes_full.add(1);
        }
        self.trace_switch(space.id(), (flushed == Flushed::No).then_some(0));
    }

    /// Switches to the kernel's own tables. The CPU keeps its place in the space: an interrupt may be the cause, in
    /// which the reference must not be dropped.
    pub(crate) fn load_kernel(&self, here: &mut Here<'_, P>) {
        let Here { cpu, own, .. } = here;
        let Some(Loaded { space: left, .. }) = own.loaded.take() else { return };
        cpu.seen.set_loaded(SpaceId::SWITCHING);
        self.platform().load_kernel_root();
        own.left.keep(left);
        cpu.seen.set_lazy(false);
        // Either order: nothing asks whether a CPU without a space is lazy.
        cpu.seen.set_loaded(SpaceId::NONE);
    }

    /// Whether this CPU runs a program of `space` at this moment. If so, the CPU's handler of an interrupt that cannot
    /// be masked (NMI) may read the program's mapped memory (Linux: `nmi_uaccess_okay`).
    ///
    /// Such a handler may run at any point of the engine: between the loading of a root and the naming of its space, or
    /// before a CPU that leaves lazy mode has flushed. This function reads only what the CPU has published. The space
    /// is named only while its root is loaded and the CPU has done every flush that it was not asked for. It calls only
    /// `this_cpu` and `cpu` of the platform. The answer holds for as long as the handler runs.
    pub fn may_access(&self, space: &AddressSpace) -> bool {
        let seen = &self.platform().cpu(self.platform().this_cpu()).seen;
        seen.loaded() == space.id() && !seen.is_lazy()
    }

    /// The ASID under which this CPU runs its space, for assertions of the platform.
    pub fn loaded_asid(&self) -> Option<Asid> {
        self.on_this_cpu(|here| here.own.loaded.as_ref().map(|loaded| loaded.asid))
    }

    fn trace_switch(&self, space: SpaceId, pages: Option<u32>) {
        self.platform().trace(FlushEvent { reason: Reason::TaskSwitch, pages, space });
    }
}

/// Leaves the sets of all spaces. The CPU is on the kernel's own tables.
pub(super) fn give_up_places<P: Platform>(here: &mut Here<'_, P>) -> Previous<P::Space, PLACES> {
    let left = here.own.left.give_up();
    for space in left.iter().flatten() {
        leave(here.id, here.cpu, space.as_ref());
    }
    Previous(left)
}

/// Joins the set of a space whose root the CPU is about to load.
fn join<S>(id: CpuId, cpu: &Cpu<S>, space: &AddressSpace) {
    space.cpus().insert(id);
    cpu.tally.places_taken.add(1);
}

/// Leaves the set of a space whose root the CPU has not loaded. If it left earlier, a flush could skip a CPU that still
/// fills entries (tlb-bugs D4). The slot's generation covers the entries left under the ASID.
fn leave<S>(id: CpuId, cpu: &Cpu<S>, space: &AddressSpace) {
    space.cpus().remove(id);
    cpu.tally.places_given_up.add(1);
}
