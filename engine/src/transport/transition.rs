//! Transitions: a space between slots and a global ASID, which some CPUs run under the one and some under the other.
//!
//! During a transition a flush uses both transports. The broadcast reaches the CPUs that run under the ASID, and is
//! under way while the others are interrupted. An interrupted CPU does more than flush: it moves to the tag that the
//! space is going to ([`Engine::retag`]). A CPU that has moved has done every flush, for two reasons. A global ASID is
//! clean on every CPU when a space gets it. And a slot is compared with the space's generation. CPUs that load the
//! space meanwhile use the new tag too.
//!
//! A flush that afterwards finds every CPU on the new tag ends the transition. From then on one transport is enough,
//! and an ASID that is given back is free. (Linux: `finish_asid_transition`. Linux has no way back to slots.)
//!
//! Why no CPU is missed: a flush raises the generation, then reads the tag. A CPU that loads the space announces that
//! it is switching, joins the space's set, reads the tag, then the generation. Suppose a flush read the tag from before
//! a change. Its translations were then cleared before any CPU could run under the new tag. And the flush that ends a
//! transition reads the set after the change, so a CPU that it does not find there finds the change.

use super::shootdown::Sent;
use crate::cpu::{Asked, Flushed, Reach, Seen};
use crate::cpu_set::{CpuId, CpuSet};
use crate::flush::Flush;
use crate::platform::Platform;
use crate::sabotage::Guard;
use crate::space::{AddressSpace, Asid, Generation, Reading, SpaceId, Tagged};
use crate::this_cpu::Here;
use crate::Engine;

/// How far a CPU in a space's set has come with a transition of the space.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Progress {
    /// It does not run the space, or runs it under the new tag.
    Moved,
    /// It runs the space under the old tag.
    Behind,
    /// It is switching, between any spaces, and may not make the transition.
    Switching,
}

impl Progress {
    /// How far a CPU has come with the transition that `reading` shows. What a CPU did under the old tag has happened
    /// before it is found to have moved: whoever frees a page next relies on that.
    pub(crate) fn of(seen: &Seen, space: SpaceId, reading: Reading) -> Self {
        let moved = match seen.loaded() {
            SpaceId::SWITCHING => return Self::Switching,
            loaded if loaded != space => true,
            _ => match reading.tagged() {
                Tagged::Adopting(asid) => seen.runs_under(asid),
                Tagged::Leaving(asid) | Tagged::Ending(asid) => !seen.runs_under(asid),
                Tagged::Slots | Tagged::Global(_) => true,
            },
        };
        if moved {
            Self::Moved
        } else {
            Self::Behind
        }
    }
}

impl<P: Platform> Engine<P> {
    /// Starts to flush a part of `space` that some CPUs run under `asid` and others under slots, or under
    /// [`Asid::SHARED`] where CPUs have no slots. Returns what was sent, and whether broadcasts were started.
    /// The caller is pinned.
    pub(super) fn start_in_transition(
        &self,
        asid: Asid,
        generation: Generation,
        space: &AddressSpace,
        flush: Flush,
    ) -> (Sent, bool) {
        // The hardware works while the other CPUs are asked.
        let started = self.start_broadcasts(asid, flush);
        if space.tag.read().is_from_birth() {
            return (Sent::NOTHING, self.start_broadcasts(Asid::SHARED, flush) || started);
        }
        (self.ask_stragglers(generation, space, flush), started)
    }

    /// Interrupts the CPUs whose entries the broadcast does not reach.
    fn ask_stragglers(&self, generation: Generation, space: &AddressSpace, flush: Flush) -> Sent {
        // R1, R3
        if !self.guarded(Guard::Transition) {
            return Sent::NOTHING;
        }
        let mut targets = CpuSet::new();
        targets.unite(space.cpus());
        // Lazy CPUs too, this one and others: the transition must end.
        let asked = Asked { space: space.id(), generation, flush: Flush { tables: true, ..flush } };
        let leaves = space.asid().is_none();
        self.ask(&mut targets, asked, |cpu| match cpu.seen.loaded() {
            SpaceId::SWITCHING => Reach::Itself,
            // It must change its tag.
            loaded if loaded == space.id() && (leaves || !cpu.seen.is_global()) => Reach::Itself,
            _ => Reach::Not,
        })
    }

    /// Ends the transition that `reading` shows, if all CPUs have made it.
    pub(super) fn end_transition(&self, space: &AddressSpace, reading: Reading) {
        if matches!(reading.tagged(), Tagged::Slots | Tagged::Global(_)) {
            return;
        }
        let mut moved = true;
        // The tag was read before the set: see the end of the module's description.
        space.cpus().for_each(|cpu| moved &= self.progress(cpu, space, reading) == Progress::Moved);
        // R1, R3
        if moved || !self.guarded(Guard::Transition) {
            if let Some(asid) = space.tag.end(reading) {
                self.asids.free(asid);
            }
        }
    }

    /// How far `cpu` has come with the transition that `reading` shows.
    pub(super) fn progress(&self, cpu: CpuId, space: &AddressSpace, reading: Reading) -> Progress {
        Progress::of(&self.platform().cpu(cpu).seen, space.id(), reading)
    }

    /// Brings this CPU up to date with a space that has a global ASID, or that the CPU runs under one. True if it was
    /// not.
    #[cold]
    pub(crate) fn catch_up_by_tag(&self, here: &mut Here<'_, P>) -> bool {
        let Some(loaded) = &here.own.loaded else { return false };
        if loaded.global && loaded.space.as_ref().asid().is_some() {
            // Broadcasts keep it up to date.
            return false;
        }
        self.retag(here);
        true
    }

    /// Makes this CPU run its loaded space under the tag that the space is going to, as if the CPU loaded it now.
    fn retag(&self, here: &mut Here<'_, P>) {
        let Some(loaded) = &mut here.own.loaded else { return };
        let space = loaded.space.as_ref();
        here.cpu.seen.set_loaded(SpaceId::SWITCHING);
        let (asid, global, flushed) = self.choose(here.id, &mut here.own.slots, space);
        self.platform().load_root(space.root(), asid, flushed != Flushed::No);
        self.account_load(here.cpu, space, flushed);
        (loaded.asid, loaded.global) = (asid, global);
        here.cpu.seen.set_tag(asid, global);
        here.cpu.seen.set_loaded(space.id());
    }
}
