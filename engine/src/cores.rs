//! The cores of the protocol by themselves, for models that try every order of a core's accesses.
//!
//! Only the checked build has this module. Its functions pass a call on; they decide nothing.

use core::fmt;

use crate::cpu::{Asked, Inbox, Posted};
use crate::flush::Flush;
use crate::lazy::Ledger;
use crate::platform::Platform;
use crate::space::{Reading, Tagged};
use crate::transport::{GlobalAsids, Progress};
use crate::{AddressSpace, Asid, AtomicCpuSet, Cpu, CpuId, CpuSet, Engine, Generation, Root, SpaceId, Stamp};

/// A space with this number, which has an ASID from birth or is on slots.
pub fn space(number: u64, asid: Option<Asid>) -> AddressSpace {
    AddressSpace::new(SpaceId::new(SpaceId::FIRST + number), Root(number), asid)
}

/// The generation with this number.
pub const fn generation(number: u64) -> Generation {
    Generation::from_raw(number)
}

/// The ASID with this number.
pub const fn asid(number: u16) -> Asid {
    Asid::new(number)
}

/// Whether any guard of the engine was removed.
pub fn is_whole<P: Platform>(engine: &Engine<P>) -> bool {
    engine.removed.is_empty()
}

/// The order of `Engine::retag`: the CPU runs `space` under an ASID, its own or a global one, once it has loaded the
/// root.
pub fn run_under<S>(
    cpu: &Cpu<S>,
    space: &AddressSpace,
    (asid, global): (Asid, bool),
    load_root: impl FnOnce(),
) {
    cpu.seen.set_loaded(SpaceId::SWITCHING);
    load_root();
    cpu.seen.set_tag(asid, global);
    cpu.seen.set_loaded(space.id());
}

/// Whether `Progress::of` finds that the CPU has made the transition that `reading` shows.
pub fn has_moved<S>(cpu: &Cpu<S>, space: &AddressSpace, reading: TagReading) -> bool {
    Progress::of(&cpu.seen, space.id(), reading.0) == Progress::Moved
}

/// `AtomicCpuSet::insert`.
pub fn join(set: &AtomicCpuSet, cpu: CpuId) {
    set.insert(cpu);
}

/// `AtomicCpuSet::drain`.
pub fn drain(set: &AtomicCpuSet, take: impl FnMut(CpuId)) {
    set.drain(take);
}

/// The result of [`post`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Post {
    /// The sender must interrupt the CPU.
    Interrupt,
    /// The CPU is about to read it.
    Expected,
    /// The CPU is offline.
    Closed,
}

/// A CPU that is online.
#[must_use]
pub fn online() -> Cpu<()> {
    let mut cpu = Cpu::new();
    cpu.inbox = Inbox::opened();
    cpu
}

/// `Inbox::post` in the inbox of `target`.
pub fn post<S>(target: &Cpu<S>, sender: CpuId, looks: bool) -> Post {
    match target.inbox.post(sender, looks) {
        Posted::Interrupt => Post::Interrupt,
        Posted::Expected => Post::Expected,
        Posted::Closed => Post::Closed,
    }
}

/// `Inbox::empty` of the CPU's inbox.
pub fn empty<S>(cpu: &Cpu<S>, answer: impl FnMut(CpuId)) {
    cpu.inbox.empty(answer);
}

/// `Inbox::close` of the CPU's inbox.
pub fn close<S>(cpu: &Cpu<S>) {
    cpu.inbox.close();
}

/// `Inbox::open` of the CPU's inbox.
pub fn open<S>(cpu: &Cpu<S>) {
    cpu.inbox.open();
}

/// `Request::begin` of the CPU's request, for a flush of everything in `space`.
pub fn begin<S>(sender: &Cpu<S>, space: SpaceId, generation: Generation, targets: u32) -> u64 {
    sender.request.begin(Asked { space, generation, flush: Flush::ALL }, targets)
}

/// `Request::read` of the CPU's request.
pub fn asked<S>(sender: &Cpu<S>) -> (SpaceId, Generation, Flush) {
    let Asked { space, generation, flush } = sender.request.read();
    (space, generation, flush)
}

/// `Request::answered_by_one` of the CPU's request.
pub fn answered_by_one<S>(sender: &Cpu<S>) -> bool {
    sender.request.answered_by_one()
}

/// `Request::is_free` of the CPU's request.
pub fn is_free<S>(sender: &Cpu<S>) -> bool {
    sender.request.is_free()
}

/// `Request::is_answered` of the CPU's request.
pub fn is_answered<S>(sender: &Cpu<S>, number: u64) -> bool {
    sender.request.is_answered(number)
}

/// Raises the space's generation.
pub fn raise(space: &AddressSpace) -> Generation {
    space.generation.raise()
}

/// The generation that every CPU is known to have done.
pub fn reached(space: &AddressSpace) -> Generation {
    space.reached.load()
}

/// `AtomicGeneration::extend` of the reached generation.
pub fn extend_reached(space: &AddressSpace, first: Generation, last: Generation) {
    space.reached.extend(first, last);
}

/// `AtomicGeneration::raise_to` of the reached generation.
pub fn raise_reached(space: &AddressSpace, to: Generation) {
    space.reached.raise_to(to);
}

/// A ledger of lazy debts.
#[derive(Debug)]
pub struct Debts(Ledger);

impl Debts {
    /// `Ledger::new`.
    #[must_use]
    pub const fn new() -> Self {
        Self(Ledger::new())
    }

    /// `Ledger::enter` of one debt of `cpus`, at the time `now` and in epochs of `length`.
    pub fn enter(&self, cpus: &CpuSet, (now, length): (u64, u64)) -> Stamp {
        self.0.enter((cpus, false), 1, (now, length), |_| true)
    }

    /// `Ledger::enter` of one debt of any CPU.
    pub fn enter_everywhere(&self, (now, length): (u64, u64)) -> Stamp {
        self.0.enter((&CpuSet::new(), true), 1, (now, length), |_| true)
    }

    /// `Ledger::close_after`.
    pub fn close_after(&self, length: u64, now: u64) {
        self.0.close_after(length, now);
    }

    /// The order of `Engine::sweep`: reads the closed epochs, lets the CPU `flush` if it has debts there, and leaves.
    pub fn sweep(&self, cpu: CpuId, flush: impl FnOnce()) {
        let closed = self.0.closed();
        if self.0.has(closed, cpu) {
            flush();
            self.0.leave(closed, cpu);
        }
    }

    /// The order of `Engine::sweep_everywhere`: `flush` flushes everything on every CPU.
    pub fn sweep_everywhere(&self, flush: impl FnOnce()) {
        let closed = self.0.closed();
        if self.0.begin_broadcast(closed) {
            flush();
            self.0.leave_all(closed);
            self.0.end_broadcast();
        }
    }

    /// The order of `Engine::settle_everywhere`: `flush` flushes everything on every CPU.
    pub fn settle_everywhere(&self, flush: impl FnOnce()) {
        let closed = self.0.closed();
        flush();
        self.0.leave_all(closed);
    }

    /// `Ledger::leave_for_good`.
    pub fn leave_for_good(&self, cpu: CpuId) {
        self.0.leave_for_good(cpu);
    }

    /// `Ledger::settled`.
    pub fn settled(&self) -> Stamp {
        self.0.settled()
    }

    /// `Ledger::advance`. Returns the number of debts that it settled.
    pub fn advance(&self) -> u64 {
        let mut debts = 0;
        self.0.advance(|ended| debts += ended.debts);
        debts
    }

    /// `Ledger::is_settled`.
    pub fn is_settled(&self, stamp: Stamp) -> bool {
        self.0.is_settled(stamp)
    }
}

impl Default for Debts {
    fn default() -> Self {
        Self::new()
    }
}

/// The pool of global ASIDs.
#[derive(Debug)]
pub struct Pool(GlobalAsids);

impl Pool {
    /// `GlobalAsids::new`.
    #[must_use]
    pub const fn new() -> Self {
        Self(GlobalAsids::new())
    }

    /// `GlobalAsids::take` of one of the ASIDs from 1 on and below `end`.
    pub fn take(&self, end: u32, flush: impl FnMut(), wait: impl FnMut(&dyn Fn() -> bool)) -> Option<Asid> {
        self.0.take(1..end, 1, flush, wait)
    }

    /// `GlobalAsids::free`.
    pub fn free(&self, asid: Asid) {
        self.0.free(asid);
    }
}

impl Default for Pool {
    fn default() -> Self {
        Self::new()
    }
}

/// A reading of a space's tag.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct TagReading(Reading);

impl TagReading {
    /// Whether each CPU has a slot of its own.
    pub fn is_slots(self) -> bool {
        self.0.is_slots()
    }

    /// The ASID for a CPU that starts to run the space.
    pub fn asid(self) -> Option<Asid> {
        self.0.asid()
    }

    /// Whether CPUs change between two tags.
    pub fn is_in_transition(self) -> bool {
        !matches!(self.0.tagged(), Tagged::Slots | Tagged::Global(_))
    }
}

impl fmt::Debug for TagReading {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.tagged().fmt(f)
    }
}

/// `Tag::read`.
pub fn tag(space: &AddressSpace) -> TagReading {
    TagReading(space.tag.read())
}

/// `AddressSpace::to_load`.
pub fn to_load(space: &AddressSpace) -> (Option<Asid>, Generation) {
    space.to_load()
}

/// `Tag::claim`.
pub fn claim(space: &AddressSpace) -> bool {
    space.tag.claim()
}

/// `Tag::adopt`.
pub fn adopt(space: &AddressSpace, asid: Asid) -> Option<Asid> {
    space.tag.adopt(Some(asid))
}

/// `Tag::leave`.
pub fn leave(space: &AddressSpace, from: TagReading) -> bool {
    space.tag.leave(from.0)
}

/// `Tag::retire`.
pub fn retire(space: &AddressSpace) -> TagReading {
    TagReading(space.tag.retire())
}

/// `Tag::end`.
pub fn end(space: &AddressSpace, from: TagReading) -> Option<Asid> {
    space.tag.end(from.0)
}
