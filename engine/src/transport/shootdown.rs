//! The interrupt transport: reach every CPU that may hold an entry, and wait for the answers.
//!
//! Each CPU has one outgoing [`Request`] and one [`Inbox`]. To flush, a CPU fills its request, puts its own number
//! into each target's inbox, interrupts those whose inbox was empty (the others are interrupted already), does its
//! own part while they work, and waits until every target has answered. Nothing is allocated and nothing can
//! overflow: an inbox holds a bit for each possible sender. A CPU that waits still answers requests, so two that
//! flush at once cannot wait for each other.

use crate::cpu::Cpu;
use crate::cpu::{Asked, Loaded};
use crate::cpu_set::CpuSet;
use crate::flush::{work, Extent, Flush, Work};
use crate::platform::{FlushEvent, Platform, Reason};
use crate::sabotage::Guard;
use crate::space::{AddressSpace, Generation, SpaceId, Tagged};
use crate::this_cpu::Here;
use crate::Engine;

impl<P: Platform> Engine<P> {
    /// Flushes a part of `space` on every CPU that may use it and every device that walks it, before it returns.
    ///
    /// Page-table changes come first; the flush covers all that were made before the call. Interrupts must be on.
    /// The generation returned has been reached by every CPU.
    pub fn flush(&self, space: &AddressSpace, flush: Flush) -> Generation {
        let generation = space.generation.raise();
        self.flush_to(generation, space, flush);
        generation
    }

    /// Does the flush for which `generation` was just raised.
    pub(crate) fn flush_to(&self, generation: Generation, space: &AddressSpace, flush: Flush) {
        let limited = flush.limited(self.ceiling);
        let begun = self.begin_pace();
        // After the generation was raised: a CPU that comes reads the two the other way round.
        let tag = space.tag.read();
        match tag.tagged() {
            Tagged::Slots => self.flush_by_interrupt(generation, space, limited),
            Tagged::Global(asid) => self.flush_by_broadcast(asid, generation, space, limited),
            Tagged::Adopting(asid) | Tagged::Leaving(asid) => {
                self.flush_in_transition(asid, generation, space, limited);
            }
        }
        if let Some(begun) = begun {
            space.pace.add(tag, self.platform().now().saturating_sub(begun));
            self.consider(space, generation);
        }
        self.flush_devices(space, flush);
    }

    /// Makes devices that walk the space's tables forget what `flush` covers.
    pub(crate) fn flush_devices(&self, space: &AddressSpace, flush: Flush) {
        if space.has_devices() {
            self.platform().invalidate_devices(space, flush);
        }
    }

    fn flush_by_interrupt(&self, generation: Generation, space: &AddressSpace, flush: Flush) {
        self.platform().pinned(|| {
            let me = self.platform().this_cpu();
            let asked = Asked { space: space.id(), generation, extent: flush.extent };
            if space.cpus().any_but(me) {
                let mut targets = CpuSet::new();
                targets.unite(space.cpus());
                let reaches_lazy = flush.tables && self.guarded(Guard::LazyTables);
                self.ask(&mut targets, asked, flush.tables, |cpu| {
                    // What is loaded is read before laziness: a CPU that switches publishes the switch first.
                    let loaded = cpu.seen.loaded();
                    loaded == SpaceId::SWITCHING
                        || (loaded == space.id() && (!cpu.seen.is_lazy() || reaches_lazy))
                });
            } else if space.cpus().contains(me) {
                self.local(asked, flush.tables);
            }
        });
        space.reached.raise_to(generation);
    }

    /// Brings whatever space each CPU of `targets` runs up to date, before it returns; empties `targets`. Whether
    /// any CPU had to be interrupted.
    pub(crate) fn flush_loaded(&self, targets: &mut CpuSet) -> bool {
        self.platform().pinned(|| {
            // A CPU on the kernel's own tables has nothing to bring up to date; one that is switching may.
            let sent = self.ask(targets, Asked::UP_TO_DATE, false, Cpu::uses_entries);
            targets.clear();
            sent
        })
    }

    /// Answers all requests that wait for this CPU. The platform calls it once for each interrupt, with interrupts
    /// off.
    pub fn handle_interrupt(&self) {
        self.on_this_cpu(|mut here| {
            here.cpu.tally.interrupts.add(1);
            let cpu = here.cpu;
            cpu.inbox.empty(|initiator| {
                let request = &self.platform().cpu(initiator).request;
                here.cpu.tally.requests.add(1);
                self.answer(&mut here, request.read(), Reason::RemoteShootdown);
                let last = request.answered_by_one();
                self.platform().answered(initiator, last);
            });
        });
    }

    /// Sends `asked` to those of `targets` that `needed` picks, does this CPU's part meanwhile if it is among them,
    /// and waits. Whether anything was sent.
    pub(crate) fn ask(
        &self,
        targets: &mut CpuSet,
        asked: Asked,
        tables: bool,
        needed: impl Fn(&Cpu<P::Space>) -> bool,
    ) -> bool {
        let platform = self.platform();
        let me = platform.this_cpu();
        let cpu = platform.cpu(me);
        let mine = targets.contains(me);
        targets.remove(me);
        targets.retain(|target| needed(platform.cpu(target)));
        let sent = !targets.is_empty();
        if sent {
            let pages = match asked.extent {
                Extent::All => None,
                Extent::Pages { count, .. } => Some(count),
            };
            self.trace(Reason::RemoteSend, pages, asked.space);
            cpu.tally.shootdowns.add(1);
            cpu.request.begin(asked, targets.len() as u32);
            targets.retain(|target| platform.cpu(target).inbox.post(me));
            if !targets.is_empty() {
                platform.interrupt(targets);
            }
        }
        if mine {
            self.local(asked, tables);
        }
        if sent {
            platform.wait(&|| cpu.request.is_answered());
        }
        sent
    }

    /// This CPU's own part of a request of its own.
    fn local(&self, asked: Asked, tables: bool) {
        let reason =
            if asked.space == SpaceId::NONE { Reason::LocalShootdown } else { Reason::LocalSpaceShootdown };
        self.on_this_cpu(|mut here| {
            let concerned = asked.space == SpaceId::NONE || here.cpu.seen.loaded() == asked.space;
            // A kernel thread that borrows the space uses no entry of it; its owner catches up when it is back.
            if concerned && (tables || !here.cpu.seen.is_lazy()) {
                self.answer(&mut here, asked, reason);
            }
        });
    }

    /// Does what `asked` requires of this CPU; whether anything had to be invalidated.
    #[inline]
    pub(crate) fn answer(&self, here: &mut Here<'_, P>, asked: Asked, reason: Reason) -> bool {
        let loaded = here.cpu.seen.loaded();
        if asked.space != SpaceId::NONE && asked.space != loaded {
            // It has left the space since it was asked. Its slot's generation stays behind, so coming back flushes.
            self.trace(Reason::RemoteWrongCpu, Some(0), asked.space);
            return false;
        }
        let Some(Loaded { space, asid, global }) = &here.own.loaded else { return false };
        if here.cpu.seen.is_lazy() {
            // Nothing runs here that could use an entry, but a walker may: leave the tables altogether.
            self.load_kernel(here);
            return false;
        }
        let (space, asid) = (space.as_ref(), *asid);
        if *global || !space.tag.read().is_slots() {
            return self.catch_up_by_tag(here);
        }
        let local = here.own.slots.generation(asid);
        if asked.generation != Generation::NONE && asked.generation <= local {
            // Caught up by an earlier request; not even reading the space's generation keeps its line where it is.
            return false;
        }
        let newest = space.generation();
        let work = work(asked.extent, local, asked.generation, newest);
        match work {
            Work::Nothing => self.trace(reason, Some(0), loaded),
            Work::Pages => {
                if let Extent::Pages { start, count, size } = asked.extent {
                    self.platform().invalidate_range(asid, start, count, size);
                    here.cpu.tally.flushes_page.add(u64::from(count));
                    self.trace(reason, Some(count), loaded);
                }
                here.own.slots.reach(asid, newest);
            }
            Work::Everything => {
                self.platform().invalidate_asid(asid);
                here.cpu.tally.flushes_full.add(1);
                self.trace(reason, None, loaded);
                here.own.slots.reach(asid, newest);
            }
        }
        work != Work::Nothing
    }

    pub(crate) fn trace(&self, reason: Reason, pages: Option<u32>, space: SpaceId) {
        self.platform().trace(FlushEvent { reason, pages, space });
    }
}
