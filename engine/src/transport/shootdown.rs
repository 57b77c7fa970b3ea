//! The interrupt transport: reach every CPU that may hold an entry, and wait for the answers.
//!
//! Each CPU has one outgoing `Request` and one `Inbox`. A CPU that flushes fills its request and puts its own number
//! into each target's inbox. It interrupts the targets whose inbox was empty; the others are interrupted already. It
//! does its own part while they work, then waits until every target has answered. Nothing is allocated and nothing can
//! overflow: an inbox holds a bit for each possible sender. A CPU that waits still answers requests, whether its
//! interrupts are on or off. So two CPUs that flush at once do not block each other.

use crate::cpu::Cpu;
use crate::cpu::{Asked, Loaded, Posted, Reach};
use crate::cpu_set::{CpuId, CpuSet};
use crate::flush::{work, Flush, Work};
use crate::platform::{FlushEvent, InterruptsOff, Platform, Reason};
use crate::sabotage::Guard;
use crate::space::{AddressSpace, Generation, SpaceId};
use crate::this_cpu::Here;
use crate::Engine;

/// A request that was sent: its sender, and its number there.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ticket {
    cpu: CpuId,
    number: u64,
}

/// What became of a flush that other CPUs must do.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sent {
    /// The request to wait for, if one was sent.
    pub(crate) ticket: Option<Ticket>,
    /// The platform flushed for some CPU.
    pub(super) elsewhere: bool,
}

impl Sent {
    pub(super) const NOTHING: Self = Self { ticket: None, elsewhere: false };
}

impl<P: Platform> Engine<P> {
    /// Asks the CPUs that may use entries of `space`, each of which has a slot of its own for it, and does this CPU's
    /// part. The caller is pinned.
    pub(super) fn ask_runners(&self, generation: Generation, space: &AddressSpace, flush: Flush) -> Sent {
        let me = self.platform().this_cpu();
        let asked = Asked { space: space.id(), generation, flush };
        // R1, R3
        if space.cpus().any_but(me) && self.guarded(Guard::Others) {
            let mut targets = CpuSet::new();
            targets.unite(space.cpus());
            let reaches_lazy = flush.tables && self.guarded(Guard::LazyTables); // R2
            return self.ask(&mut targets, asked, |cpu| {
                // The loaded space is read before laziness: a CPU that switches publishes the switch first.
                match cpu.seen.loaded() {
                    SpaceId::SWITCHING => Reach::Itself,
                    loaded if loaded != space.id() => Reach::Not,
                    _ if !cpu.seen.is_lazy() => Reach::Anyhow,
                    // It must leave the tables.
                    _ if reaches_lazy => Reach::Itself,
                    _ => Reach::Not,
                }
            });
        }
        if space.cpus().contains(me) {
            self.local(asked);
        }
        Sent::NOTHING
    }

    /// Brings the space that each CPU of `targets` runs up to date, if the flush `concerns` it, before it returns;
    /// empties `targets`. True if any CPU was interrupted.
    pub(crate) fn flush_loaded(&self, targets: &mut CpuSet, concerns: impl Fn(SpaceId) -> bool) -> bool {
        self.platform().pinned(|| {
            // A CPU on the kernel's own tables has nothing to bring up to date. A CPU that is switching may have.
            let sent = self.ask(targets, Asked::UP_TO_DATE, |cpu| cpu.reach(&concerns));
            targets.clear();
            self.await_answers(sent.ticket)
        })
    }

    /// Answers all requests that wait for this CPU. The platform calls it once for each interrupt, with interrupts off.
    pub fn handle_interrupt(&self) {
        self.on_this_cpu(|mut here| {
            here.cpu.tally.interrupts.add(1);
            self.answer_all(&mut here);
        });
    }

    /// Answers all requests in this CPU's inbox.
    pub(crate) fn answer_all(&self, here: &mut Here<'_, P>) {
        let cpu = here.cpu;
        cpu.inbox.empty(|initiator| {
            let request = &self.platform().cpu(initiator).request;
            cpu.tally.requests.add(1);
            if !Self::has_caught_up(here, request.space(), request.generation()) {
                self.answer(here, request.read(), Reason::RemoteShootdown);
            }
            let last = request.answered_by_one();
            self.platform().answered(initiator, last);
        });
    }

    /// Waits until `done`, which another CPU brings about. With interrupts off this CPU answers requests here, since no
    /// interrupt does so. Otherwise two CPUs that flush in this way would wait for each other for ever.
    pub(crate) fn wait_until(&self, done: &dyn Fn() -> bool) {
        let platform = self.platform();
        if platform.interrupts_on() {
            platform.wait(done);
            return;
        }
        while !done() {
            self.on_this_cpu(|mut here| self.answer_all(&mut here));
            platform.spin();
        }
    }

    /// Waits for the answers to a request, on whatever CPU the task is by now. True if there was a request.
    pub(crate) fn await_answers(&self, ticket: Option<Ticket>) -> bool {
        let Some(ticket) = ticket else { return false };
        // R1, R3
        if self.guarded(Guard::Answers) {
            self.wait_until(&|| self.is_answered(ticket));
        }
        true
    }

    pub(super) fn is_answered(&self, Ticket { cpu, number }: Ticket) -> bool {
        self.platform().cpu(cpu).request.is_answered(number)
    }

    /// Sends `asked` to those of `targets` that `reach` picks. Meanwhile it does this CPU's part, if this CPU is among
    /// them. The caller is pinned.
    pub(crate) fn ask(
        &self,
        targets: &mut CpuSet,
        asked: Asked,
        reach: impl Fn(&Cpu<P::Space>) -> Reach,
    ) -> Sent {
        let platform = self.platform();
        let me = platform.this_cpu();
        let mine = targets.contains(me);
        targets.remove(me);
        let (mut anyhow, mut alone, mut passed_over) = (0, 0, 0);
        targets.retain(|target| match reach(platform.cpu(target)) {
            Reach::Not => {
                passed_over += 1;
                false
            }
            Reach::Anyhow => {
                anyhow += 1;
                true
            }
            Reach::Itself => {
                alone += 1;
                true
            }
        });
        if passed_over > 0 {
            platform.cpu(me).tally.passed_over.add_at_once(passed_over);
        }
        let mut count = anyhow + alone;
        let mut sent = Sent::NOTHING;
        if anyhow > 0 {
            if alone == 0 {
                platform.flush_for(targets, asked.space, asked.flush);
            } else {
                self.flush_some_for(targets, asked, &reach);
            }
            let left = targets.len();
            if left != count {
                self.count_elsewhere(count - left);
                sent.elsewhere = true;
            }
            count = left;
        }
        if count > 0 {
            sent.ticket = Some(self.send_traced(targets, count, asked));
        }
        if mine {
            self.local(asked);
        }
        sent
    }

    /// Sends `asked` to all of `targets`, without this CPU. Returns the request to wait for, if there are any. The
    /// caller is pinned.
    pub(crate) fn ask_themselves(&self, targets: &mut CpuSet, asked: Asked) -> Option<Ticket> {
        let count = targets.len();
        (count > 0).then(|| self.send_traced(targets, count, asked))
    }

    fn send_traced(&self, targets: &mut CpuSet, count: usize, asked: Asked) -> Ticket {
        self.trace(Reason::RemoteSend, asked.flush.pages(), asked.space);
        Ticket { cpu: self.platform().this_cpu(), number: self.send(targets, count, asked) }
    }

    /// Lets the platform flush for those of `targets` that need to do nothing else; others must do their part
    /// themselves.
    #[cold]
    fn flush_some_for(&self, targets: &mut CpuSet, asked: Asked, reach: &impl Fn(&Cpu<P::Space>) -> Reach) {
        let platform = self.platform();
        let mut offered = targets.clone();
        // Checked again: a CPU that has begun to switch by now is not offered either.
        offered.retain(|target| reach(platform.cpu(target)) == Reach::Anyhow);
        let mut taken = offered.clone();
        platform.flush_for(&mut offered, asked.space, asked.flush);
        taken.subtract(&offered);
        targets.subtract(&taken);
    }

    #[cold]
    fn count_elsewhere(&self, cpus: usize) {
        let platform = self.platform();
        platform.cpu(platform.this_cpu()).tally.flushes_elsewhere.add_at_once(cpus as u64);
    }

    /// Sends `asked` to `targets` and returns the request's number. `count` is the number of targets, at least one. The
    /// caller is pinned.
    ///
    /// If an earlier request of this CPU is unanswered, it waits for that one first. The earlier request belongs to a
    /// flush that this one interrupted, or to one that was [begun](Engine::begin_flush) and not waited for.
    fn send(&self, targets: &mut CpuSet, count: usize, asked: Asked) -> u64 {
        let platform = self.platform();
        let me = platform.this_cpu();
        let Cpu { request, tally, .. } = platform.cpu(me);
        loop {
            // Off until the targets are interrupted: see `Request::is_free`.
            let off = InterruptsOff::new(platform);
            if request.is_free() {
                tally.shootdowns.add(1);
                let number = request.begin(asked, count as u32);
                let looks = self.guarded(Guard::Closed);
                targets.retain(|target| match platform.cpu(target).inbox.post(me, looks) {
                    Posted::Interrupt => true,
                    Posted::Expected => false,
                    // It uses no entry, and comes back without any.
                    Posted::Closed => {
                        request.answered_by_one();
                        false
                    }
                });
                if !targets.is_empty() {
                    platform.interrupt(targets);
                }
                return number;
            }
            drop(off);
            self.wait_until(&|| request.is_free());
        }
    }

    /// Does this CPU's own part of its own request.
    fn local(&self, asked: Asked) {
        let reason =
            if asked.space == SpaceId::NONE { Reason::LocalShootdown } else { Reason::LocalSpaceShootdown };
        self.on_this_cpu(|mut here| {
            let concerned = asked.space == SpaceId::NONE || here.cpu.seen.loaded() == asked.space;
            // A kernel thread that borrows the space uses no entry of it. The CPU catches up before it runs the program
            // again.
            if concerned && (asked.flush.tables || !here.cpu.seen.is_lazy()) {
                self.answer(&mut here, asked, reason);
            }
        });
    }

    /// Whether this CPU runs `space` and an earlier request has brought it up to `generation` there. Not even the space's
    /// generation is read, so its cache line stays where it is.
    #[inline]
    fn has_caught_up(here: &Here<'_, P>, space: SpaceId, generation: Generation) -> bool {
        let Some(Loaded { space: own, asid, global: false }) = &here.own.loaded else { return false };
        space == here.cpu.seen.loaded()
            && own.as_ref().tag.read().is_slots()
            && generation.is_covered_by(here.own.slots.generation(*asid))
    }

    /// Does what `asked` requires of this CPU. True if anything had to be invalidated.
    #[inline]
    pub(crate) fn answer(&self, here: &mut Here<'_, P>, asked: Asked, reason: Reason) -> bool {
        let loaded = here.cpu.seen.loaded();
        if asked.space != SpaceId::NONE && asked.space != loaded {
            match asked.space {
                SpaceId::KERNEL => return self.answer_kernel(here.cpu, asked, reason),
                SpaceId::NO_FLUSH => {
                    self.answer_meeting();
                    return false;
                }
                _ => {}
            }
            // It has left the space since it was asked. Its slot's generation stays behind, so it flushes when it comes
            // back.
            self.trace(Reason::RemoteWrongCpu, Some(0), asked.space);
            return false;
        }
        let Some(Loaded { space, asid, global }) = &here.own.loaded else { return false };
        if here.cpu.seen.is_lazy() {
            // No code here could use an entry, but a walker may: leave the tables altogether.
            self.load_kernel(here);
            return false;
        }
        let (space, asid) = (space.as_ref(), *asid);
        if *global || !space.tag.read().is_slots() {
            return self.catch_up_by_tag(here);
        }
        let local = here.own.slots.generation(asid);
        // R1, R3
        if asked.generation.is_covered_by(local)
            || !self.guarded(Guard::NoGeneration) && asked.generation <= local
        {
            return false;
        }
        let newest = space.generation();
        let flush = match work(asked.flush.extent, local, asked.generation, newest) {
            Work::Nothing => {
                self.trace(reason, Some(0), loaded);
                return false;
            }
            Work::Pages => asked.flush,
            Work::Everything if !self.guarded(Guard::OneBehind) => asked.flush, // R1, R3
            // The CPU may have missed flushes of page-table pages too.
            Work::Everything => Flush::ALL,
        };
        self.platform().invalidate(asid, flush);
        here.cpu.tally.invalidated(flush.pages());
        self.trace(reason, flush.pages(), loaded);
        here.own.slots.reach(asid, newest);
        true
    }

    pub(crate) fn trace(&self, reason: Reason, pages: Option<u32>, space: SpaceId) {
        self.platform().trace(FlushEvent { reason, pages, space });
    }
}
