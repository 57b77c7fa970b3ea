//! Judging each access, each store to a page table, and each instruction that drops translations.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Mutex;

use foldhash::HashMap;

use crate::arch::{Arch, Effect, Invalidation, Operands, Translation, Walk, PAGE};
use crate::find::{Changed, Find, Kind, Line, Place, Report, Summary};
use crate::frames::Frames;
use crate::lock;
use crate::owners::Owners;
use crate::ram::Ram;
use crate::tables::{Change, Tables};
use crate::tlb::{Cached, Tlb};

/// The threads that are remembered.
const THREADS: usize = 64;

/// The places for pages that were compared and may be used again without a look.
const QUICK: usize = 1 << 11;

/// The time, in nanoseconds, after which whoever changed an entry has returned: one second. Until then another CPU may use
/// what was there before, since the flush may still be to come.
const LATE: u64 = 1_000_000_000;

/// A page that a CPU may use as it did before, until something changes.
#[derive(Debug, Clone, Copy, Default)]
struct Quick {
    page: u64,
    frame: u64,
    /// Stores too.
    store: bool,
    /// The table of its entry, and that table's version.
    table: u64,
    version: u32,
    /// The CPU's own number of changes, and that of all.
    own: u32,
    all: u64,
}

/// What is known of a CPU. It is touched by that CPU's own callbacks alone.
#[derive(Debug)]
pub struct Cpu<A> {
    index: usize,
    arch: A,
    /// Whether its registers were read.
    is_known: bool,
    tlb: Tlb,
    quick: Box<[Quick]>,
    own: u32,
    dropped: Option<Place>,
    begun: Vec<Begun>,
    /// The threads that have changed entries here and were not seen in their programs since.
    changers: Vec<u64>,
    /// Its last access was of a program.
    in_program: bool,
}

/// What a CPU has begun to drop and not completed.
#[derive(Debug, Clone, Copy)]
struct Begun {
    what: Invalidation,
    /// Of its own translations.
    own: bool,
    /// Of those of all others.
    others: bool,
}

impl<A: Arch> Cpu<A> {
    /// The CPU with this number.
    pub fn new(index: usize) -> Self {
        Self {
            index,
            arch: A::default(),
            is_known: false,
            tlb: Tlb::default(),
            quick: vec![Quick { page: u64::MAX, ..Quick::default() }; QUICK].into_boxed_slice(),
            own: 0,
            dropped: None,
            begun: Vec::new(),
            changers: Vec::new(),
            in_program: false,
        }
    }

    /// Whether its registers were read.
    pub fn is_known(&self) -> bool {
        self.is_known
    }

    /// It has no translation of an address under an ASID.
    fn lacks(&mut self, asid: u16, address: u64) {
        self.tlb.remove(asid, address);
        self.quick[(address >> PAGE) as usize % QUICK].page = u64::MAX;
    }

    /// Reads its registers.
    pub fn learn(&mut self, operands: &dyn Operands) {
        self.arch.read(operands);
        self.is_known = true;
    }
}

/// What others may read or write of a CPU.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Shared {
    /// What others drop of its translations, which it looks at before its next access.
    inbox: Mutex<Vec<(Invalidation, Place)>>,
    has_mail: AtomicBool,
    /// What it has begun to drop of others.
    going: Mutex<Going>,
    accesses: AtomicU64,
    looks: AtomicU64,
    unread: AtomicU64,
    invalidations: AtomicU64,
}

/// What a CPU has begun to drop of the translations of others, which they may have or not until that is complete.
#[derive(Debug, Default)]
struct Going {
    what: Vec<Invalidation>,
    /// The entries of page tables that it has made since. It must not before it is complete, if they were those.
    made: Vec<u64>,
}

/// One more, by the only thread that counts here.
fn count(counter: &AtomicU64) {
    counter.store(counter.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
}

/// An access, after it was made.
#[derive(Debug, Clone, Copy)]
pub struct Accessed {
    /// Its virtual address.
    pub address: u64,
    /// The address of its instruction.
    pub by: u64,
    /// The number of its bytes.
    pub bytes: u64,
    /// It is a store.
    pub store: bool,
}

/// What the emulator is asked about an access, if it matters.
pub trait Access: Copy {
    /// The physical address that the CPU used. `None`: a device's, or not known.
    ///
    /// It is asked about memory alone, since QEMU 10.0 ends with an assertion where an access to a device has changed the
    /// map of devices.
    fn physical(self) -> Option<u64>;

    /// The value that it read or wrote. `None`: it has more than eight bytes.
    fn value(self) -> Option<u64>;

    /// The thread of a program that made it. `None`: it is not known.
    fn thread(self) -> Option<u64>;
}

/// An access that is looked at: the frame that it used, and the page tables a moment later.
#[derive(Debug, Clone, Copy)]
struct Seen {
    what: Accessed,
    frame: u64,
    walk: Walk,
    now: u64,
}

/// An access may be a find, but whoever changed its entry may be about to flush. The next access is looked at again.
#[derive(Debug)]
struct TooEarly;

/// All that is known of a machine, but for its CPUs.
#[derive(Debug)]
pub struct Watch {
    shared: Box<[Shared]>,
    frames: Frames,
    tables: Tables,
    owners: Owners,
    /// When threads that had changed entries were last seen in their programs.
    returned: Mutex<HashMap<u64, u64>>,
    ram: Ram,
    /// Rises when an entry of an upper table changes.
    all: AtomicU64,
    report: Mutex<Report>,
    longest: Mutex<Option<(u64, Changed)>>,
    /// The time in nanoseconds since the beginning.
    clock: Clock,
}

/// Tells the time in nanoseconds.
pub type Clock = fn() -> u64;

impl Watch {
    /// A machine of an architecture with so many CPUs.
    pub fn new(target: &str, cpus: usize, mut report: Report, clock: Clock) -> Self {
        report.write(&Line::Begin { target: target.to_owned(), cpus });
        Self {
            shared: (0..cpus).map(|_| Shared::default()).collect(),
            frames: Frames::new(),
            tables: Tables::new(),
            owners: Owners::new(),
            returned: Mutex::default(),
            ram: Ram::default(),
            all: AtomicU64::new(0),
            report: Mutex::new(report),
            longest: Mutex::new(None),
            clock,
        }
    }

    fn now(&self) -> u64 {
        (self.clock)()
    }

    /// A CPU is about to execute an instruction that concerns translations.
    pub fn execute<A: Arch>(&self, cpu: &mut Cpu<A>, what: A::Instruction, by: u64, operands: &dyn Operands) {
        if !cpu.is_known {
            cpu.learn(operands);
        }
        let place = |cpu: usize| Place { cpu, time: self.now(), instruction: by };
        match cpu.arch.execute(what, operands) {
            // Under another ASID, a page that it may use quickly is not one that it has cached.
            Effect::Nothing => cpu.own = cpu.own.wrapping_add(1),
            Effect::Loads => {
                cpu.own = cpu.own.wrapping_add(1);
                cpu.is_known = false;
            }
            Effect::Drops(what) => {
                count(&self.shared[cpu.index].invalidations);
                self.drop(cpu, what, place(cpu.index));
            }
            Effect::Begins { what, everywhere } => {
                count(&self.shared[cpu.index].invalidations);
                cpu.begun.push(Begun { what, own: true, others: everywhere });
                if everywhere {
                    lock(&self.shared[cpu.index].going).what.push(what);
                }
            }
            Effect::Lacks { address, asids } => {
                for asid in asids {
                    cpu.lacks(asid, address);
                }
            }
            Effect::Completes { .. } if cpu.begun.is_empty() => {}
            Effect::Completes { everywhere } => {
                let place = place(cpu.index);
                for begun in std::mem::take(&mut cpu.begun) {
                    if begun.own {
                        self.drop(cpu, begun.what, place);
                    }
                    if begun.others && everywhere {
                        self.mail(cpu.index, begun.what, place);
                    } else if begun.others {
                        cpu.begun.push(Begun { own: false, ..begun });
                    }
                }
                if cpu.begun.is_empty() {
                    // After the mail: who finds nothing here has it.
                    *lock(&self.shared[cpu.index].going) = Going::default();
                }
            }
        }
    }

    /// Drops translations of all CPUs but one, before their next accesses.
    fn mail(&self, from: usize, what: Invalidation, place: Place) {
        for (_, shared) in self.shared.iter().enumerate().filter(|(other, _)| *other != from) {
            lock(&shared.inbox).push((what, place));
            shared.has_mail.store(true, Ordering::Release);
        }
    }

    /// Drops translations of a CPU.
    fn drop<A: Arch>(&self, cpu: &mut Cpu<A>, what: Invalidation, place: Place) {
        cpu.own = cpu.own.wrapping_add(1);
        cpu.dropped = Some(place);
        cpu.tlb.invalidate(what, &mut |_, cached| self.note_window::<A>(&cached, place.time));
    }

    /// Drops what others have dropped of a CPU's translations.
    #[cold]
    fn read_mail<A: Arch>(&self, cpu: &mut Cpu<A>) {
        let shared = &self.shared[cpu.index];
        shared.has_mail.store(false, Ordering::Relaxed);
        let mail = std::mem::take(&mut *lock(&shared.inbox));
        for (what, place) in mail {
            self.drop(cpu, what, place);
        }
    }

    /// A translation is dropped: notes how long it could be used after its entry changed.
    fn note_window<A: Arch>(&self, cached: &Cached, now: u64) {
        if self.frames.version(cached.entry >> PAGE) == cached.version {
            return;
        }
        let Some(change) = self.tables.change(cached.entry).filter(|change| change.time > cached.since)
        else {
            return;
        };
        if !A::narrows(change.before, change.after) {
            return;
        }
        let window = now.saturating_sub(change.time);
        let mut longest = lock(&self.longest);
        if longest.is_none_or(|(most, _)| window > most) {
            *longest = Some((window, changed(change)));
        }
    }

    /// A CPU has made an access.
    #[inline]
    pub fn access<A: Arch>(&self, cpu: &mut Cpu<A>, what: Accessed, access: impl Access) {
        let shared = &self.shared[cpu.index];
        count(&shared.accesses);
        if shared.has_mail.load(Ordering::Acquire) {
            self.read_mail(cpu);
        }
        let in_program = is_program(what.by);
        let was_in_program = std::mem::replace(&mut cpu.in_program, in_program);
        if in_program && !was_in_program && !cpu.changers.is_empty() {
            self.returns(cpu, access);
        }
        let page = what.address >> PAGE;
        let quick = cpu.quick[page as usize % QUICK];
        let is_quick = quick.page == page
            && (quick.store || !what.store)
            && quick.own == cpu.own
            && quick.all == self.all.load(Ordering::Acquire)
            && quick.version == self.frames.version(quick.table);
        let frame = if is_quick { access.physical().map(|physical| physical >> PAGE) } else { None };
        let frame = frame.filter(|&frame| frame == quick.frame).or_else(|| self.look(cpu, what, access));
        let Some(frame) = frame.filter(|_| what.store) else { return };
        if self.frames.version(frame) != 0 {
            self.stored(cpu, frame, what, access);
        }
        if Owners::begins_line(what.address) && self.frames.is_watched(frame) && !is_program(what.by) {
            let place = Place { cpu: cpu.index, time: self.now(), instruction: what.by };
            self.owners.stored(frame, what.address, place, &self.frames);
        }
    }

    /// A CPU is back in a program: in which thread?
    #[cold]
    fn returns<A: Arch>(&self, cpu: &mut Cpu<A>, access: impl Access) {
        let Some(thread) = access.thread() else { return };
        let Some(place) = cpu.changers.iter().position(|&changer| changer == thread) else { return };
        cpu.changers.swap_remove(place);
        let mut returned = lock(&self.returned);
        if returned.len() >= THREADS {
            returned.clear();
        }
        returned.insert(thread, self.now());
    }

    /// A CPU has stored to a page table.
    #[cold]
    fn stored<A: Arch>(&self, cpu: &mut Cpu<A>, frame: u64, what: Accessed, access: impl Access) {
        let thread = access.thread();
        if let Some(thread) = thread.filter(|thread| !cpu.changers.contains(thread)) {
            // A thread that has moved to another CPU is seen there after its next change.
            cpu.changers.truncate(THREADS - 1);
            cpu.changers.push(thread);
        }
        let change = Change { before: 0, after: 0, cpu: cpu.index, thread, time: self.now(), by: what.by };
        let first = frame << PAGE | what.address & 0xff8;
        let words = (what.bytes / 8).max(1);
        for word in 0..words {
            let owners = &mut |before, after, is_upper: bool| {
                let [before, after] = [before, after].map(|entry| A::frame(entry).filter(|_| !is_upper));
                if before != after {
                    if let Some(frame) = before {
                        self.owners.unmapped(frame, &self.frames);
                    }
                    if let Some(frame) = after {
                        self.owners.mapped(frame, &self.frames);
                    }
                }
            };
            if self.tables.stored::<A>(first + 8 * word, &self.frames, &self.ram, change, owners) {
                self.all.fetch_add(1, Ordering::AcqRel);
            }
        }
        if cpu.begun.iter().any(|begun| begun.others) {
            let entries = (0..words).map(|word| first + 8 * word);
            let is_made = |&entry: &u64| self.ram.load(entry).is_some_and(|entry| A::meaning(entry) != 0);
            lock(&self.shared[cpu.index].going).made.extend(entries.filter(is_made));
        }
    }

    /// Whether another CPU has begun to drop a translation, and has not made its entry anew: a third, or the CPU itself,
    /// may have done that before, with the frame that the CPU uses instead.
    fn is_going(&self, cpu: usize, asid: u16, address: u64, shift: u32, cached: &Cached, entry: u64) -> bool {
        self.shared.iter().enumerate().filter(|(other, _)| *other != cpu).any(|(_, shared)| {
            let going = lock(&shared.going);
            let is_named = |what: &Invalidation| what.names(asid, cached.global, shift, address);
            going.what.iter().any(is_named) && !going.made.contains(&entry)
        })
    }

    /// Walks the tables, and notes those that were not known.
    fn walk<A: Arch>(&self, arch: &A, address: u64) -> Option<Walk> {
        let walk = || arch.walk(address, &|physical| self.ram.load(physical));
        let first = walk()?;
        if self.tables.note(&first, &self.frames, &self.ram) {
            // They may have changed before their changes were seen.
            return walk();
        }
        Some(first)
    }

    /// Compares an access with what the CPU may have cached and with the page tables. Returns the frame that it used.
    /// `None`: a device's, or not known.
    #[cold]
    fn look<A: Arch>(&self, cpu: &mut Cpu<A>, what: Accessed, access: impl Access) -> Option<u64> {
        if !cpu.is_known || !cpu.arch.translates() {
            count(&self.shared[cpu.index].unread);
            return None;
        }
        if !self.ram.is_found() {
            count(&self.shared[cpu.index].unread);
            if what.store && what.bytes == 8 {
                self.ram.learn(access.physical()?, access.value()?);
            }
            return None;
        }
        let all = self.all.load(Ordering::Acquire);
        let Some(walk) = self.walk(&cpu.arch, what.address) else {
            count(&self.shared[cpu.index].unread);
            return None;
        };
        if self.is_device(cpu, &walk, what.address) {
            return None;
        }
        count(&self.shared[cpu.index].looks);
        let frame = access.physical()? >> PAGE;
        let table = walk.last() >> PAGE;
        let version = self.frames.version(table);
        let page = what.address >> PAGE;
        let quick = Quick { page, frame, store: true, table, version, own: cpu.own, all };
        if A::UNTRANSLATED && frame == page {
            cpu.quick[page as usize % QUICK] = quick;
            return Some(frame);
        }
        // Again, since the version was read after it.
        let walk = self.walk(&cpu.arch, what.address).filter(|again| again.last() >> PAGE == table)?;
        let seen = Seen { what, frame, walk, now: self.now() };
        let Ok(held) = self.compare_with_cached(cpu, &seen) else { return Some(frame) };
        if self.compare_with_tables(cpu, &seen, held) {
            // A right to store that it has got since counts from its first store.
            let is_new = held.is_none_or(|held| what.store && !held.rights.store);
            if let Some(translation) = walk.translation.filter(|_| is_new) {
                let Translation { frame, rights, global, .. } = translation;
                let cached = Cached {
                    frame,
                    rights,
                    global,
                    entry: walk.last(),
                    version,
                    since: seen.now,
                    by: what.by,
                };
                cpu.tlb.insert(cpu.arch.asid(what.address), what.address, &translation, cached);
            }
            let store = walk.translation.is_some_and(|translation| translation.rights.store);
            cpu.quick[page as usize % QUICK] = Quick { store, ..quick };
        }
        Some(frame)
    }

    /// Whether an address leads to a device, as far as page tables and TLB say. The emulator is not asked.
    fn is_device<A: Arch>(&self, cpu: &Cpu<A>, walk: &Walk, address: u64) -> bool {
        let is_memory = |frame: u64| self.ram.load(frame << PAGE).is_some();
        match walk.translation {
            Some(translation) => !is_memory(translation.frame_of(address)),
            None => cpu.tlb.find(cpu.arch.asid(address), address).all(|(_, cached)| !is_memory(cached.frame)),
        }
    }

    /// Whether whoever made a change has returned since: a kernel has flushed by then.
    fn is_over(&self, change: &Change, now: u64) -> bool {
        // A thread of the kernel's own has no program to return to.
        let returned = change.thread.and_then(|thread| lock(&self.returned).get(&thread).copied());
        now.saturating_sub(change.time) > LATE || returned.is_some_and(|time| time > change.time)
    }

    /// Whether another CPU has changed an entry and may be about to flush: kernels change many entries before they flush all
    /// of them, and give no page away in between. A CPU whose own TLB happens to hold none of them may have faulted by then,
    /// and use what another page has become.
    fn is_pending(&self, cpu: usize, entry: u64, now: u64) -> bool {
        self.tables.change(entry).is_some_and(|change| change.cpu != cpu && !self.is_over(&change, now))
    }

    /// Compares the frame with that of each translation that the CPU may have cached. Returns the one to the same frame.
    fn compare_with_cached<A: Arch>(
        &self,
        cpu: &mut Cpu<A>,
        seen: &Seen,
    ) -> Result<Option<Cached>, TooEarly> {
        let Seen { what, frame, now, .. } = *seen;
        let asid = cpu.arch.asid(what.address);
        let (mut held, mut outgrown, mut stale) = (None, false, None);
        for (shift, cached) in cpu.tlb.find(asid, what.address) {
            let own = cached.frame + (what.address >> PAGE & ((1 << (shift - PAGE)) - 1));
            if own == frame {
                held = Some(cached);
            } else if what.store && !cached.rights.store {
                // It could not serve this store: the CPU has faulted, or walked anew for rights that it lacked.
                outgrown = true;
            } else {
                stale = Some((own, shift, cached));
            }
        }
        if let Some((_, shift, cached)) = &stale {
            if self.is_going(cpu.index, asid, what.address, *shift, cached, seen.walk.last()) {
                (outgrown, stale) = (true, None);
            } else if self.shared[cpu.index].has_mail.load(Ordering::Acquire) {
                // It was complete, but after the access began to be looked at.
                self.read_mail(cpu);
                return self.compare_with_cached(cpu, seen);
            }
        }
        if stale.is_some_and(|(_, _, cached)| self.is_pending(cpu.index, cached.entry, now)) {
            return Err(TooEarly);
        }
        if let Some((other, _, cached)) = stale {
            self.found(Find { other, ..self.find(cpu, seen, Kind::StaleUse, cached) });
        }
        if outgrown || stale.is_some() {
            cpu.tlb.remove(asid, what.address);
            return Ok(None);
        }
        Ok(held)
    }

    /// Compares the frame and the rights with the page tables. Returns whether they allow the access.
    fn compare_with_tables<A: Arch>(&self, cpu: &Cpu<A>, seen: &Seen, held: Option<Cached>) -> bool {
        let Seen { what, frame, walk, now } = *seen;
        let current = walk.translation.map(|translation| translation.frame_of(what.address));
        let allows = |translation: Translation| translation.rights.store || !what.store;
        let allowed = current == Some(frame) && walk.translation.is_some_and(allows);
        // Of what the CPU did not hold before, a store to the tables has yet to be looked at.
        let Some(held) = held.filter(|_| !allowed) else { return allowed };
        if let Some(other) = current.filter(|&current| current != frame) {
            if !self.is_pending(cpu.index, walk.last(), now) {
                self.found(Find { other, ..self.find(cpu, seen, Kind::Incoherence, held) });
            }
            return false;
        }
        let change = self.tables.last_change::<A>(walk.last(), &self.ram);
        let Some(change) = change.filter(|change| held.since < change.time) else { return false };
        let given = self.owners.given(frame).filter(|given| given.time > change.time);
        let kind = if given.is_some() {
            Kind::Reuse
        } else if self.is_over(&change, now) {
            Kind::LateUse
        } else {
            return false;
        };
        self.found(Find { given, ..self.find(cpu, seen, kind, held) });
        false
    }

    /// A find. Its other frame is its own.
    fn find<A: Arch>(&self, cpu: &Cpu<A>, seen: &Seen, kind: Kind, cached: Cached) -> Find {
        let Seen { what, frame, now, .. } = *seen;
        let place = |time, instruction| Place { cpu: cpu.index, time, instruction };
        Find {
            kind,
            used: place(now, what.by),
            address: what.address,
            store: what.store,
            frame,
            other: frame,
            cached: place(cached.since, cached.by),
            changed: self.tables.change(cached.entry).map(changed),
            given: None,
            dropped: cpu.dropped,
        }
    }

    fn found(&self, find: Find) {
        lock(&self.report).found(find);
    }

    /// Writes what was seen.
    pub fn end(&self) {
        let mut summary =
            Summary { tables: self.tables.len(), longest: *lock(&self.longest), ..Summary::default() };
        for counts in &self.shared {
            let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
            summary.accesses += of(&counts.accesses);
            summary.looks += of(&counts.looks);
            summary.unread += of(&counts.unread);
            summary.invalidations += of(&counts.invalidations);
        }
        let mut report = lock(&self.report);
        (summary.finds, summary.written) = (report.finds, report.written);
        report.write(&Line::End(summary));
    }
}

/// Whether an instruction is of a program: kernels are in the upper half of the addresses.
fn is_program(instruction: u64) -> bool {
    instruction >> 63 == 0
}

fn changed(change: Change) -> Changed {
    let place = Place { cpu: change.cpu, time: change.time, instruction: change.by };
    Changed { place, before: change.before, after: change.after }
}

#[cfg(test)]
mod tests;

#[cfg(test)]
mod riscv64_tests;
