//! Between slots and a global ASID: some CPUs run a space under the one, some under the other.
//!
//! While that is so a flush takes both transports. The broadcast reaches whoever runs under the ASID, and is under way
//! while the others are interrupted; and an interrupted CPU does not only flush, it moves to where the space is going
//! ([`Engine::retag`]): a global ASID is clean on every CPU when a space gets it, and a slot is compared with the space's
//! generation, so a CPU that has moved has done every flush. CPUs that come meanwhile move too. A flusher that then
//! finds every CPU on the right side ends the transition, and only then is one transport enough, and a given-back ASID
//! free. (Linux: `finish_asid_transition`; it has no way back.)
//!
//! Why nothing is missed: a flusher raises the generation, then reads the tag; a CPU that comes says that it is switching,
//! joins the space's set, reads the tag, then the generation. So a flusher that read the tag from before a change has
//! cleared its translations before any CPU could run under what the change brought; and who ends a transition has
//! looked at the set after the change, so a CPU that it does not find there finds the change.

use super::shootdown::Ticket;
use crate::cpu::{Asked, Flushed, Reach};
use crate::cpu_set::{CpuId, CpuSet};
use crate::flush::Flush;
use crate::platform::Platform;
use crate::sabotage::Guard;
use crate::space::{AddressSpace, Asid, Generation, Reading, SpaceId, Tagged};
use crate::this_cpu::Here;
use crate::Engine;

/// A CPU that has not made a transition yet, or is switching.
pub(super) struct Straggler(pub(super) CpuId);

impl<P: Platform> Engine<P> {
    /// Starts to flush a part of `space`, of which some CPUs run under `asid` and some under slots, or under
    /// [`Asid::SHARED`] where CPUs have none. What to wait for, and whether broadcasts were started. The caller is pinned.
    pub(super) fn start_in_transition(
        &self,
        asid: Asid,
        generation: Generation,
        space: &AddressSpace,
        flush: Flush,
    ) -> (Option<Ticket>, bool) {
        // The hardware works while the others are asked.
        let started = self.start_broadcasts(asid, flush);
        if space.tag.read().is_from_birth() {
            return (None, self.start_broadcasts(Asid::SHARED, flush) || started);
        }
        (self.ask_stragglers(generation, space, flush), started)
    }

    /// Interrupts the CPUs whose entries the broadcast does not reach.
    fn ask_stragglers(&self, generation: Generation, space: &AddressSpace, flush: Flush) -> Option<Ticket> {
        if !self.guarded(Guard::Transition) {
            return None;
        }
        let mut targets = CpuSet::new();
        targets.unite(space.cpus());
        let asked = Asked { space: space.id(), generation, extent: flush.extent };
        let leaves = space.asid().is_none();
        // Lazy CPUs too, this one and others: the transition has to end.
        self.ask(&mut targets, asked, true, |cpu| match cpu.seen.loaded() {
            SpaceId::SWITCHING => Reach::Itself,
            // It has to change its tag.
            loaded if loaded == space.id() && (leaves || !cpu.seen.is_global()) => Reach::Itself,
            _ => Reach::Not,
        })
    }

    /// Ends the transition that `reading` is of, if all CPUs have made it.
    pub(super) fn end_transition(&self, space: &AddressSpace, reading: Reading) {
        if matches!(reading.tagged(), Tagged::Slots | Tagged::Global(_)) {
            return;
        }
        if self.straggler(space, reading).is_none() || !self.guarded(Guard::Transition) {
            if let Some(asid) = space.tag.end(reading) {
                self.asids.free(asid);
            }
        }
    }

    /// A CPU that has not made the transition that `reading` is of, or that is switching and may not make it.
    pub(super) fn straggler(&self, space: &AddressSpace, reading: Reading) -> Option<Straggler> {
        let mut found = None;
        // The tag was read before the set: see the module's last lines.
        space.cpus().for_each(|cpu| {
            let seen = &self.platform().cpu(cpu).seen;
            let moved = match seen.loaded() {
                SpaceId::SWITCHING => false,
                loaded if loaded != space.id() => true,
                _ => match reading.tagged() {
                    Tagged::Adopting(asid) => seen.runs_under(asid),
                    Tagged::Leaving(asid) | Tagged::Ending(asid) => !seen.runs_under(asid),
                    Tagged::Slots | Tagged::Global(_) => true,
                },
            };
            if !moved {
                found = found.or(Some(cpu));
            }
        });
        found.map(Straggler)
    }

    /// Brings this CPU up to date with a space that has a global ASID, or that the CPU runs under one; whether it was not.
    #[cold]
    pub(crate) fn catch_up_by_tag(&self, here: &mut Here<'_, P>) -> bool {
        let Some(loaded) = &here.own.loaded else { return false };
        if loaded.global && loaded.space.as_ref().asid().is_some() {
            // Broadcasts keep it so.
            return false;
        }
        self.retag(here);
        true
    }

    /// Makes this CPU run the space that it has loaded under the tag that the space is going to, as if it came now.
    fn retag(&self, here: &mut Here<'_, P>) {
        let Some(loaded) = &mut here.own.loaded else { return };
        let space = loaded.space.as_ref();
        here.cpu.seen.set_loaded(SpaceId::SWITCHING);
        let (asid, global, flushed) = self.choose(&mut here.own.slots, space);
        self.platform().load_root(space.root(), asid, flushed != Flushed::No);
        self.account_load(here.cpu, space, flushed);
        (loaded.asid, loaded.global) = (asid, global);
        here.cpu.seen.set_tag(asid, global);
        here.cpu.seen.set_loaded(space.id());
    }
}
