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
use crate::cpu::{Cpu, Flushed, Loaded, Own, Slots};
use crate::cpu_set::CpuId;
use crate::platform::{FlushEvent, Platform, Reason};
use crate::primitive::{fence, Ordering};
use crate::sabotage::Guard;
use crate::space::{AddressSpace, Asid, SpaceId, Users};
use crate::Engine;

/// The references to spaces that a CPU gave up in a switch.
///
/// Dropping the last reference to a space may free much memory. Do it where that may take time, not with interrupts
/// off.
#[must_use = "drop it outside the switch, where freeing the space is allowed"]
#[derive(Debug)]
pub struct Previous<S>([Option<S>; 2]);

impl<S> Previous<S> {
    const NOTHING: Self = Self([None, None]);

    pub(super) const fn one(given_up: Option<S>) -> Self {
        Self([given_up, None])
    }

    /// Whether the switch gave up any reference.
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(Option::is_none)
    }
}

impl<P: Platform> Engine<P> {
    /// Makes this CPU run `next`, and leaves lazy mode if the CPU was in it.
    pub fn switch_to(&self, next: &P::Space) -> Previous<P::Space> {
        let space = next.as_ref();
        self.on_this_cpu(|here| {
            if here.cpu.seen.loaded() == space.id() {
                if here.cpu.seen.is_lazy() {
                    self.leave_lazy(here, space);
                }
                return Previous::NOTHING;
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

    /// Unloads this CPU's space: before deep idle, or before the space's page tables are torn down. A CPU that goes
    /// offline calls [`Engine::offline`] instead. A CPU that broadcasts did not reach meanwhile must call
    /// [`Engine::flush_here`] before it runs a space again, since ASIDs may have changed owners.
    pub fn unload(&self) -> Previous<P::Space> {
        self.on_this_cpu(|mut here| {
            self.load_kernel(&mut here);
            Previous::one(here.own.parked.take())
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
            if here.own.slots.generation(asid) < newest {
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
            self.arrive(id, cpu, own);
        }
        cpu.seen.set_loaded(SpaceId::SWITCHING);
        cpu.seen.set_lazy(false);
        if !space.cpus().contains(id) {
            space.cpus().insert(id);
        }
        let (asid, global, flushed) = self.choose(id, &mut own.slots, space);
        self.platform().load_root(space.root(), asid, flushed != Flushed::No);
        self.account_load(cpu, space, flushed);
        let left = own.loaded.replace(Loaded { space: next.clone(), asid, global }).map(|left| left.space);
        if let Some(left) = &left {
            // After the root: if the bit were cleared earlier, a flush could skip a CPU that still fills entries
            // (tlb-bugs D4). The slot's generation covers the entries left under the ASID.
            left.as_ref().cpus().remove(id);
        }
        // The root is loaded before it is named. A flush that still reads SWITCHING interrupts needlessly. A flush that
        // read the space too early would be answered before the root was loaded.
        cpu.seen.set_tag(asid, global);
        cpu.seen.set_loaded(space.id());
        Previous([left, own.parked.take()])
    }

    /// Chooses the tag for a space that this CPU is about to load. Returns the ASID, whether it is global, and whether
    /// the CPU must flush. The CPU has published before that it is switching, and has joined the space.
    pub(crate) fn choose(&self, id: CpuId, slots: &mut Slots, space: &AddressSpace) -> (Asid, bool, Flushed) {
        // Published values come before the reads: see the start of the module's description. The set's atomic insertion
        // would suffice, but it is skipped when the bit is set already.
        fence(Ordering::SeqCst);
        // In this order: a flush that saw another tag than this one has raised the generation before.
        let tag = space.asid();
        let newest = space.generation();
        if tag.is_some() && (self.guarded(Guard::SecondCpu) || space.used_on.read() == Users::None) {
            space.used_on.note(id);
        }
        match tag {
            None => {
                let tagged = self.platform().capabilities().asids;
                let (asid, flushed) = slots.choose(space.id(), newest, tagged);
                (asid, false, flushed)
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

    /// Switches to the kernel's own tables. The reference to the space goes to `parked`.
    pub(crate) fn load_kernel(&self, here: &mut Here<'_, P>) {
        let Here { id, cpu, own } = here;
        let Own { loaded, parked, .. } = &mut **own;
        let Some(Loaded { space: left, .. }) = loaded.take() else { return };
        cpu.seen.set_loaded(SpaceId::SWITCHING);
        self.platform().load_kernel_root();
        // After the root, as in `load`.
        left.as_ref().cpus().remove(*id);
        cpu.seen.set_lazy(false);
        cpu.seen.set_loaded(SpaceId::NONE);
        debug_assert!(
            parked.is_none(),
            "a space was parked and another loaded without anybody taking the first"
        );
        *parked = Some(left);
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
