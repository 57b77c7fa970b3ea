//! Judging each access, each store to a page table, and each instruction that drops translations.
//!
//! `cpu` is what is known of a CPU, `flush` does what its instructions drop, `changes` notes stores that matter, and `judge`
//! compares an access with the CPU's TLB and with the page tables.

mod changes;
mod cpu;
mod flush;
mod judge;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Mutex;

use foldhash::HashMap;

use self::changes::{Busy, THREADS};
pub use self::cpu::Cpu;
use self::cpu::{count, Going, Mode, Quick, Shared};
use crate::arch::{Arch, Operands, PAGE};
use crate::find::{is_of_kernel, Line, Report, Summary};
use crate::frames::{Frames, Word};
use crate::lock;
use crate::owners::Owners;
use crate::ram::Ram;
use crate::recent::Recent;
pub use crate::stack::Code;
use crate::tables::Tables;
use crate::windows::Windows;

/// An access, after it was made.
#[derive(Debug, Clone, Copy)]
pub struct Accessed {
    /// Its virtual address.
    pub address: u64,
    /// The address of its instruction.
    pub by: u64,
    /// It is a store.
    pub store: bool,
    /// It is the fetch of an instruction.
    pub fetch: bool,
}

/// The fetch of a block of instructions.
#[derive(Clone, Copy)]
struct Fetched<O>(u64, O);

impl<O: Operands> Operands for Fetched<O> {
    fn register(&self, index: usize) -> u64 {
        self.1.register(index)
    }

    fn load(&self, address: u64) -> Option<u64> {
        self.1.load(address)
    }
}

impl<O: Operands + Copy> Access for Fetched<O> {
    fn physical(self) -> Option<u64> {
        Some(self.0)
    }

    fn value(self) -> Option<u64> {
        None
    }

    fn bytes(self) -> u64 {
        1
    }
}

/// What the emulator is asked about an access, if it matters.
pub trait Access: Operands + Copy {
    /// The physical address that the CPU used. `None`: a device's, or not known.
    ///
    /// It is asked about memory alone, since QEMU 10.0 ends with an assertion where an access to a device has changed the
    /// map of devices.
    fn physical(self) -> Option<u64>;

    /// The value that it read or wrote. `None`: it has more than eight bytes.
    fn value(self) -> Option<u64>;

    /// The number of its bytes.
    fn bytes(self) -> u64;
}

/// All that is known of a machine, but for its CPUs.
#[derive(Debug)]
pub struct Watch {
    shared: Box<[Shared]>,
    frames: Frames,
    tables: Tables,
    owners: Owners,
    /// When threads that had changed entries were last seen in their programs.
    returned: Mutex<HashMap<u64, u64>>,
    /// When threads last changed entries.
    busy: Mutex<Recent<Busy>>,
    ram: Ram,
    /// Rises when an entry of an upper table changes.
    all: AtomicU64,
    code: Code,
    windows: Windows,
    freed: Counts,
    report: Mutex<Report>,
    /// The time in nanoseconds since the beginning.
    clock: Clock,
}

/// Of the calls that free frames.
#[derive(Debug, Default)]
struct Counts {
    /// The frames.
    frames: AtomicU64,
    /// The calls with frames that are not known.
    unknown: AtomicU64,
}

/// Tells the time in nanoseconds.
pub type Clock = fn() -> u64;

impl Watch {
    /// A machine of an architecture with so many CPUs, and the code of its kernel.
    pub fn new(target: &str, cpus: usize, code: Code, mut report: Report, clock: Clock) -> Self {
        report.write(&Line::Begin { target: target.to_owned(), cpus });
        Self {
            shared: (0..cpus).map(|_| Shared::default()).collect(),
            frames: Frames::new(),
            tables: Tables::new(),
            owners: Owners::new(),
            returned: Mutex::default(),
            busy: Mutex::new(Recent::new(THREADS)),
            ram: Ram::default(),
            all: AtomicU64::new(0),
            code,
            windows: Windows::default(),
            freed: Counts::default(),
            report: Mutex::new(report),
            clock,
        }
    }

    fn now(&self) -> u64 {
        (self.clock)()
    }

    /// A CPU has made an access. Returns the frame that it used. `None`: a device's, or not known.
    #[inline]
    pub fn access<A: Arch>(&self, cpu: &mut Cpu<A>, what: Accessed, access: impl Access) -> Option<u64> {
        let shared = &self.shared[cpu.index];
        count(&shared.accesses);
        if shared.has_mail.load(Ordering::Acquire) {
            self.read_mail(cpu);
        }
        let in_program = !is_of_kernel(what.by) && cpu.mode != Mode::Untranslated;
        let was_in_program = std::mem::replace(&mut cpu.in_program, in_program);
        if in_program != was_in_program {
            self.crosses(cpu, access);
        }
        // The emulator has used the frame that it had for the same entry, unless it translates otherwise now. To ask it
        // takes as long as all else here.
        let is_asked = what.fetch || cpu.mode != Mode::Told;
        let is_same =
            |frame: u64| !is_asked || access.physical().is_some_and(|physical| physical >> PAGE == frame);
        let (frame, matters) = match self.quick(cpu, &what) {
            Some(quick) if is_same(quick.frame) => {
                (quick.frame, what.store && quick.word.is_some_and(Word::matters))
            }
            _ => {
                let frame = self.look(cpu, what, access)?;
                (frame, what.store && self.frames.matters(frame))
            }
        };
        if matters {
            self.stored(cpu, frame, what, access);
        }
        Some(frame)
    }

    /// A page that a CPU may use as it did before.
    #[inline]
    fn quick<'a, A: Arch>(&self, cpu: &'a mut Cpu<A>, what: &Accessed) -> Option<&'a Quick> {
        let page = what.address >> PAGE;
        let (own, is_untranslated) = (cpu.own, cpu.mode == Mode::Untranslated);
        let quick = &*cpu.quick(page);
        let is_quick = quick.page == page
            && (quick.store || !what.store)
            && quick.is_of_kernel == is_of_kernel(what.by)
            && quick.is_untranslated == is_untranslated
            && quick.own == own
            && quick.all == self.all.load(Ordering::Acquire)
            && quick.table.is_some_and(|table| table.version() == quick.version);
        is_quick.then_some(quick)
    }

    /// The physical address of a place in the emulator's memory. `None`: it is not in the guest's, or that was not found yet.
    pub fn physical(&self, place: u64) -> Option<u64> {
        self.ram.physical(place)
    }

    /// A CPU begins a block of instructions at a virtual address, which the emulator has found at a physical one.
    ///
    /// The emulator keeps a block for all addresses at which programs have its frame, and tells the one at which it was
    /// translated. So where that does not fit, the program counter is asked.
    #[inline]
    pub fn fetch<A: Arch>(
        &self,
        cpu: &mut Cpu<A>,
        address: u64,
        physical: u64,
        operands: impl Operands + Copy,
    ) {
        let is_untranslated = A::UNTRANSLATED && physical == address;
        cpu.mode = if is_untranslated { Mode::Untranslated } else { Mode::Told };
        let of = |address| Accessed { address, by: address, store: false, fetch: true };
        let what = of(address);
        let fits = is_of_kernel(address)
            || is_untranslated
            || self.quick(cpu, &what).is_some_and(|quick| quick.frame == physical >> PAGE);
        let what = if fits { what } else { of(operands.register(A::PC)) };
        if self.access(cpu, what, Fetched(physical, operands)).is_none() && !is_untranslated {
            cpu.mode = Mode::Unknown;
        }
    }

    /// The guest's memory and registers may have become others, by a snapshot: all that is known of them is forgotten.
    /// No CPU is in a callback.
    pub fn forget(&self) {
        self.frames.forget();
        self.tables.forget_all();
        self.owners.forget();
        lock(&self.returned).clear();
        lock(&self.busy).clear();
        for shared in &self.shared {
            *lock(&shared.going) = Going::default();
            lock(&shared.inbox).clear();
            shared.is_forgotten.store(true, Ordering::Release);
            shared.has_mail.store(true, Ordering::Release);
        }
    }

    /// Writes what was seen.
    pub fn end(&self) {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let mut seen = Summary {
            tables: self.tables.len(),
            windows: self.windows.longest(),
            freed: of(&self.freed.frames),
            unknown: of(&self.freed.unknown),
            ..Summary::default()
        };
        for counts in &self.shared {
            seen.accesses += of(&counts.accesses).saturating_sub(of(&counts.unread));
            seen.looks += of(&counts.looks);
            seen.unread += of(&counts.unread);
            seen.invalidations += of(&counts.invalidations);
        }
        lock(&self.report).end(seen);
    }
}

#[cfg(test)]
mod tests;

#[cfg(test)]
mod riscv64_tests;
