//! Loading address spaces: switching, lazy mode, and the window in between.
//!
//! Switching to a space reads its generation *after* publishing that a switch is under way; a flusher raises the
//! generation *before* it looks at what CPUs have loaded. So either the switch sees the new generation and flushes,
//! or the flusher sees the switch and interrupts; never neither (Linux fixed both halves in 2025: fea4e317f9e7 and
//! 83b0177a6c48). A CPU in lazy mode keeps the space loaded but runs no program; nobody interrupts it unless page
//! tables are freed, and it catches up when it leaves lazy mode. Under a global ASID none of this matters: broadcasts
//! reach every CPU, whatever it runs. Which of the two a space runs under is read in the same window, before the
//! generation ([`transition`](crate::transition) says why).

use super::here::Here;
use crate::cpu::{Cpu, Flushed, Loaded, Own, Slots};
use crate::platform::{FlushEvent, Platform, Reason};
use crate::primitive::{fence, Ordering};
use crate::space::{AddressSpace, Asid, SpaceId};
use crate::Engine;

/// The references to spaces that a CPU gave up by switching away.
///
/// Dropping the last reference to a space may free a lot: do it where the kernel may take its time, not with
/// interrupts off.
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
    /// Makes this CPU run `next`, leaving lazy mode if it was in it.
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

    /// Tells that this CPU runs no program until the next [`Engine::switch_to`]: an idle loop or a kernel thread.
    /// The space stays loaded, and nobody interrupts the CPU for flushes of pages. Where flushes are broadcast it is
    /// left at once: coming back costs no flush, and nobody would interrupt the CPU when the space's tables are freed.
    pub fn enter_lazy(&self) {
        self.on_this_cpu(|mut here| match &here.own.loaded {
            None => {}
            Some(loaded) if loaded.global => self.load_kernel(&mut here),
            Some(_) => here.cpu.seen.set_lazy(true),
        });
    }

    /// Takes whatever space is loaded off this CPU: before deep idle, or before the space's page tables are torn down. A CPU
    /// that goes offline calls [`Engine::offline`]. A CPU that broadcasts did not reach meanwhile calls [`Engine::flush_here`] before it
    /// runs a space again: ASIDs may have changed hands.
    pub fn unload(&self) -> Previous<P::Space> {
        self.on_this_cpu(|mut here| {
            self.load_kernel(&mut here);
            Previous::one(here.own.parked.take())
        })
    }

    /// Catches up with what was flushed while this CPU was lazy.
    fn leave_lazy(&self, here: Here<'_, P>, space: &AddressSpace) {
        // An NMI that comes before the CPU has caught up must not find the space loaded: see `may_access`.
        here.cpu.seen.set_loaded(SpaceId::SWITCHING);
        here.cpu.seen.set_lazy(false);
        // Either the generation read below is new, or the flusher sees that this CPU is lazy no more.
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
        let (asid, global, flushed) = self.choose(&mut own.slots, space);
        self.platform().load_root(space.root(), asid, flushed != Flushed::No);
        self.account_load(cpu, space, flushed);
        let left = own.loaded.replace(Loaded { space: next.clone(), asid, global }).map(|left| left.space);
        if let Some(left) = &left {
            // After the root: cleared earlier, a flusher could skip a CPU that still fills entries (tlb-bugs D4).
            // What stays behind under the ASID is covered by the slot's generation.
            left.as_ref().cpus().remove(id);
        }
        // The root is loaded before it is named: a flusher that still reads SWITCHING interrupts needlessly, one
        // that read the space too early would be answered before the root was there.
        cpu.seen.set_tag(asid, global);
        cpu.seen.set_loaded(space.id());
        Previous([left, own.parked.take()])
    }

    /// What this CPU runs a space under that it is about to load, whether that is global, and whether it has to be flushed.
    /// That the CPU is switching, and that it has joined the space, was published before.
    pub(crate) fn choose(&self, slots: &mut Slots, space: &AddressSpace) -> (Asid, bool, Flushed) {
        // What is published comes before what is read: see the module's first lines. The set's atomic insertion would
        // do, but it is skipped when the bit is there already.
        fence(Ordering::SeqCst);
        // In this order: a flusher that saw another tag than this has raised the generation before.
        let tag = space.asid();
        let newest = space.generation();
        match tag {
            None => {
                let tagged = self.platform().capabilities().asids;
                let (asid, flushed) = slots.choose(space.id(), newest, tagged);
                (asid, false, flushed)
            }
            Some(Asid::SHARED) => (Asid::SHARED, true, Flushed::Recycled),
            // Its own on every CPU, and kept current by broadcasts, wherever the space runs.
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

    /// Leaves for the kernel's own tables. The reference goes to `parked`.
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

    /// Whether this CPU runs a program of `space` at this moment, so that its handler of an interrupt that cannot be masked
    /// (NMI) may read what the program has mapped (Linux: `nmi_uaccess_okay`).
    ///
    /// Such a handler may come at any point of the engine, also between the loading of a root and the naming of its space,
    /// or before a CPU that leaves lazy mode has flushed. This reads what the CPU has published, and nothing else: the
    /// space is named only while its root is loaded and the CPU has done every flush that it was not asked for. All that
    /// it calls of the platform is `this_cpu` and `cpu`. The answer holds for as long as the handler runs.
    pub fn may_access(&self, space: &AddressSpace) -> bool {
        let seen = &self.platform().cpu(self.platform().this_cpu()).seen;
        seen.loaded() == space.id() && !seen.is_lazy()
    }

    /// The ASID under which this CPU runs its space, for assertions of the platform's.
    pub fn loaded_asid(&self) -> Option<Asid> {
        self.on_this_cpu(|here| here.own.loaded.as_ref().map(|loaded| loaded.asid))
    }

    fn trace_switch(&self, space: SpaceId, pages: Option<u32>) {
        self.platform().trace(FlushEvent { reason: Reason::TaskSwitch, pages, space });
    }
}
