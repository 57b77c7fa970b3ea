//! Judging each access, each store to a page table, and each instruction that drops translations.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Mutex;
use std::time::Instant;

use crate::arch::{Arch, Effect, Invalidation, Operands, Walk, PAGE};
use crate::find::{Changed, Find, Kind, Line, Place, Report, Summary};
use crate::frames::Frames;
use crate::ram::Ram;
use crate::tables::{lock, Change, Tables};
use crate::tlb::{Cached, Tlb};

/// The places for pages that were compared and may be used again without a look.
const QUICK: usize = 1 << 11;

/// A page that a CPU may use as it did before, until something changes.
#[derive(Debug, Clone, Copy, Default)]
struct Quick {
    page: u64,
    frame: u64,
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
    quick: Box<[Quick; QUICK]>,
    own: u32,
    dropped: Option<Place>,
    begun: Vec<Begun>,
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
            quick: Box::new([Quick { page: u64::MAX, ..Quick::default() }; QUICK]),
            own: 0,
            dropped: None,
            begun: Vec::new(),
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
}

/// All that is known of a machine, but for its CPUs.
#[derive(Debug)]
pub struct Watch {
    shared: Box<[Shared]>,
    frames: Frames,
    tables: Tables,
    ram: Ram,
    /// Rises when an entry of an upper table changes.
    all: AtomicU64,
    report: Mutex<Report>,
    longest: Mutex<Option<(u64, Changed)>>,
    begun: Instant,
}

impl Watch {
    /// A machine of an architecture with so many CPUs.
    pub fn new(target: &str, cpus: usize, mut report: Report) -> Self {
        report.write(&Line::Begin { target: target.to_owned(), cpus });
        Self {
            shared: (0..cpus).map(|_| Shared::default()).collect(),
            frames: Frames::new(),
            tables: Tables::new(),
            ram: Ram::default(),
            all: AtomicU64::new(0),
            report: Mutex::new(report),
            longest: Mutex::new(None),
            begun: Instant::now(),
        }
    }

    fn now(&self) -> u64 {
        self.begun.elapsed().as_nanos() as u64
    }

    /// A CPU is about to execute an instruction that concerns translations.
    pub fn execute<A: Arch>(&self, cpu: &mut Cpu<A>, what: A::Instruction, by: u64, operands: &dyn Operands) {
        if !cpu.is_known {
            cpu.learn(operands);
        }
        let place = |cpu: usize| Place { cpu, time: self.now(), instruction: by };
        match cpu.arch.execute(what, operands) {
            Effect::Nothing => {}
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
            Effect::Lacks { address, asids } => asids.iter().for_each(|&asid| cpu.lacks(asid, address)),
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
        mail.into_iter().for_each(|(what, place)| self.drop(cpu, what, place));
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
        let page = what.address >> PAGE;
        let quick = cpu.quick[page as usize % QUICK];
        let is_quick = quick.page == page
            && quick.own == cpu.own
            && quick.all == self.all.load(Ordering::Acquire)
            && quick.version == self.frames.version(quick.table);
        let frame = if is_quick { access.physical().map(|physical| physical >> PAGE) } else { None };
        let frame = frame.filter(|&frame| frame == quick.frame).or_else(|| self.look(cpu, what, access));
        if let Some(frame) = frame.filter(|&frame| what.store && self.frames.version(frame) != 0) {
            self.stored(cpu, frame, what);
        }
    }

    /// A CPU has stored to a page table.
    #[cold]
    fn stored<A: Arch>(&self, cpu: &Cpu<A>, frame: u64, what: Accessed) {
        let change = Change { before: 0, after: 0, cpu: cpu.index, time: self.now(), by: what.by };
        let first = frame << PAGE | what.address & 0xff8;
        let words = (what.bytes / 8).max(1);
        for word in 0..words {
            if self.tables.stored::<A>(first + 8 * word, &self.frames, &self.ram, change) {
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
        let mut walk = self.walk(&cpu.arch, what.address)?;
        let (asid, now) = (cpu.arch.asid(what.address), self.now());
        let is_memory = |frame: u64| self.ram.load(frame << PAGE).is_some();
        let is_device = match walk.translation {
            Some(translation) => !is_memory(translation.frame_of(what.address)),
            None => cpu.tlb.find(asid, what.address).all(|(_, cached)| !is_memory(cached.frame)),
        };
        if is_device {
            return None;
        }
        count(&self.shared[cpu.index].looks);
        let frame = access.physical()? >> PAGE;
        let table = walk.last() >> PAGE;
        let version = self.frames.version(table);
        // Again, since the version was read after it.
        walk = self.walk(&cpu.arch, what.address).filter(|again| again.last() >> PAGE == table)?;
        let (mut is_cached, mut outgrown, mut stale) = (false, false, None);
        for (shift, cached) in cpu.tlb.find(asid, what.address) {
            let own = cached.frame + (what.address >> PAGE & ((1 << (shift - PAGE)) - 1));
            if own == frame {
                is_cached = true;
            } else if what.store && !cached.rights.store {
                // It could not serve this store: the CPU has faulted, or walked anew for rights that it lacked.
                outgrown = true;
            } else {
                stale = Some((own, shift, cached));
            }
        }
        if let Some((_, shift, cached)) = &stale {
            if self.is_going(cpu.index, asid, what.address, *shift, cached, walk.last()) {
                (outgrown, stale) = (true, None);
            } else if self.shared[cpu.index].has_mail.load(Ordering::Acquire) {
                // It was complete, but after the access began to be looked at.
                self.read_mail(cpu);
                return self.look(cpu, what, access);
            }
        }
        let dropped = cpu.dropped;
        let used = Place { cpu: cpu.index, time: now, instruction: what.by };
        let find = |kind, other, cached: Option<Cached>, entry| Find {
            kind,
            used,
            address: what.address,
            store: what.store,
            frame,
            other,
            cached: cached.map_or(used, |cached| Place {
                cpu: used.cpu,
                time: cached.since,
                instruction: cached.by,
            }),
            changed: self.tables.change(entry).map(changed),
            dropped,
        };
        if let Some((other, _, cached)) = stale {
            lock(&self.report).found(find(Kind::StaleUse, other, Some(cached), cached.entry));
        }
        if outgrown || stale.is_some() {
            cpu.tlb.remove(asid, what.address);
            is_cached = false;
        }
        let current = walk.translation.map(|translation| translation.frame_of(what.address));
        if let Some(other) = current.filter(|&current| current != frame) {
            lock(&self.report).found(find(Kind::Incoherence, other, None, walk.last()));
            return Some(frame);
        }
        let Some(translation) = walk.translation else { return Some(frame) };
        if !is_cached {
            let cached = Cached {
                frame: translation.frame,
                rights: translation.rights,
                global: translation.global,
                entry: walk.last(),
                version,
                since: now,
                by: what.by,
            };
            cpu.tlb.insert(asid, what.address, &translation, cached);
        }
        let page = what.address >> PAGE;
        cpu.quick[page as usize % QUICK] = Quick { page, frame, table, version, own: cpu.own, all };
        Some(frame)
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

fn changed(change: Change) -> Changed {
    let place = Place { cpu: change.cpu, time: change.time, instruction: change.by };
    Changed { place, before: change.before, after: change.after }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arch::aarch64::Aarch64;
    use crate::arch::{Rights, Translation};

    /// Registers of a CPU that are all zero.
    struct Zeros;

    impl Operands for Zeros {
        fn register(&self, _: usize) -> u64 {
            0
        }

        fn load(&self, _: u64) -> Option<u64> {
            None
        }
    }

    #[test]
    fn a_tlbi_drops_nothing_before_a_barrier_that_reaches_as_far() {
        let report = Report::create(std::path::Path::new("/dev/null")).expect("a file that takes all");
        let watch = Watch::new("aarch64", 2, report);
        let mut cpus = [0, 1].map(Cpu::<Aarch64>::new);
        let rights = Rights::default();
        let cached = Cached { frame: 1, rights, global: false, entry: 0x1000, version: 0, since: 0, by: 0 };
        let translation = Translation { frame: 1, shift: 12, rights, global: false };
        let run = |cpu: &mut Cpu<Aarch64>, word: u32| {
            let what = Aarch64::decode(&word.to_le_bytes()).expect("an instruction that matters");
            watch.execute(cpu, what, 0, &Zeros);
        };
        let has_mail = |cpu: usize| watch.shared[cpu].has_mail.load(Ordering::Relaxed);
        let fill = |cpu: &mut Cpu<Aarch64>| cpu.tlb.insert(0, 0, &translation, cached);
        let is_going = |entry| watch.is_going(1, 0, 0, 12, &cached, entry);
        cpus.iter_mut().for_each(fill);
        assert!(!is_going(0x1000));
        // tlbi vmalle1is, dsb nsh, dsb ish.
        run(&mut cpus[0], 0xd508_831f);
        assert_eq!((cpus[0].tlb.len(), has_mail(1), is_going(0x1000)), (1, false, true));
        lock(&watch.shared[0].going).made.push(0x1000);
        assert!(!is_going(0x1000) && is_going(0x1008) && !watch.is_going(0, 0, 0, 12, &cached, 0));
        run(&mut cpus[0], 0xd503_379f);
        assert_eq!((cpus[0].tlb.len(), has_mail(1), is_going(0x1008)), (0, false, true));
        fill(&mut cpus[0]);
        run(&mut cpus[0], 0xd503_3b9f);
        // Its own were complete before.
        assert_eq!((cpus[0].tlb.len(), has_mail(0), has_mail(1), is_going(0x1008)), (1, false, true, false));
        watch.read_mail(&mut cpus[1]);
        assert_eq!(cpus[1].tlb.len(), 0);
        // tlbi vmalle1, dsb ish.
        cpus.iter_mut().for_each(fill);
        run(&mut cpus[1], 0xd508_871f);
        assert!(!watch.is_going(0, 0, 0, 12, &cached, 0));
        run(&mut cpus[1], 0xd503_3b9f);
        assert_eq!((cpus[0].tlb.len(), cpus[1].tlb.len(), has_mail(0)), (1, 0, false));
    }

    #[test]
    fn a_cpu_has_nothing_cached_for_what_it_has_faulted_for() {
        let (mut cpu, rights) = (Cpu::<Aarch64>::new(0), Rights::default());
        let cached = Cached { frame: 1, rights, global: false, entry: 0, version: 0, since: 0, by: 0 };
        for page in 0..2 {
            cpu.tlb.insert(
                0,
                page << 12,
                &Translation { frame: 1, shift: 12, rights, global: false },
                cached,
            );
        }
        cpu.lacks(0, 0x1008);
        assert_eq!((cpu.tlb.find(0, 0).count(), cpu.tlb.find(0, 0x1000).count()), (1, 0));
    }
}
