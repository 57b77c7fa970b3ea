//! What is known of a CPU: by its own callbacks alone, and by those of others.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Mutex;

use foldhash::HashMap;

use crate::arch::{Arch, Invalidation, Operands, PAGE};
use crate::find::is_of_kernel;
use crate::frames::Word;
use crate::stack::Spot;
use crate::tlb::Tlb;
use crate::walks::{Walked, Walks};

/// The places for pages that were compared and may be used again without a look.
const QUICK: usize = 1 << 11;

/// The uses that are remembered until the next look at their pages.
const SUSPECTS: usize = 8;

/// A page that a CPU may use as it did before, until something changes.
#[derive(Debug, Clone, Copy, Default)]
#[repr(align(64))]
pub(super) struct Quick {
    pub(super) page: u64,
    pub(super) frame: u64,
    /// The frame's word.
    pub(super) word: Option<&'static Word>,
    /// Stores too.
    pub(super) store: bool,
    /// For the kernel, or a program. The emulator has a TLB for each, and one may be older than the other. It has more, as for
    /// SMAP and PAN, which no register here tells apart: of an old entry in one of these nothing is known.
    pub(super) is_of_kernel: bool,
    /// In a mode in which the CPU translates nothing.
    pub(super) is_untranslated: bool,
    /// The word of its entry's table, and that table's version. `None`: there is no such page.
    pub(super) table: Option<&'static Word>,
    pub(super) version: u32,
    /// The CPU's own number of changes, and that of all.
    pub(super) own: u32,
    pub(super) all: u64,
}

/// What a CPU has begun to drop and not completed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Begun {
    pub(super) what: Invalidation,
    /// Of its own translations.
    pub(super) own: bool,
    /// Of those of all others.
    pub(super) others: bool,
}

/// How a CPU translates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    /// As its registers tell.
    Told,
    /// Not at all, in a mode that no register tells.
    Untranslated,
    /// Perhaps otherwise: its last fetch had no frame that was known.
    Unknown,
}

/// What is known of a CPU. It is touched by that CPU's own callbacks alone.
#[derive(Debug)]
pub struct Cpu<A> {
    pub(super) index: usize,
    pub(super) arch: A,
    /// Whether its registers were read.
    pub(super) is_known: bool,
    pub(super) tlb: Tlb,
    pub(super) walks: Walks,
    /// The ASID that it has, and when it last left each of the others.
    asid: u16,
    left: HashMap<u16, u64>,
    /// When it last left a program for the kernel, by ASID.
    ran: HashMap<u16, u64>,
    quick: Box<[Quick]>,
    pub(super) own: u32,
    pub(super) dropped: Option<Spot>,
    pub(super) begun: Vec<Begun>,
    /// The threads that have changed entries here and were not seen in their programs since.
    pub(super) changers: Vec<u64>,
    pub(super) mode: Mode,
    /// Its last access was of a program.
    pub(super) in_program: bool,
    /// Pages of uses that would be finds, if they were not made before the other frame was written.
    suspects: [u64; SUSPECTS],
    next_suspect: usize,
}

impl<A: Arch> Cpu<A> {
    /// The CPU with this number.
    pub fn new(index: usize) -> Self {
        Self {
            index,
            arch: A::default(),
            is_known: false,
            tlb: Tlb::default(),
            walks: Walks::default(),
            asid: 0,
            left: HashMap::default(),
            ran: HashMap::default(),
            quick: vec![Quick::default(); QUICK].into_boxed_slice(),
            own: 0,
            dropped: None,
            begun: Vec::new(),
            changers: Vec::new(),
            mode: Mode::Told,
            in_program: false,
            suspects: [u64::MAX; SUSPECTS],
            next_suspect: 0,
        }
    }

    /// Whether its registers were read.
    pub fn is_known(&self) -> bool {
        self.is_known
    }

    /// It was reset: it has nothing cached.
    pub(super) fn restarts(&mut self) {
        let arch = std::mem::take(&mut self.arch);
        self.forget();
        (self.arch, self.is_known) = (arch, true);
    }

    /// Nothing is known of it any longer.
    pub(super) fn forget(&mut self) {
        *self = Self::new(self.index);
    }

    /// Reads its registers.
    pub fn learn(&mut self, operands: &dyn Operands) {
        self.arch.read(operands);
        self.is_known = true;
    }

    /// Its registers have changed: whether it has another ASID now.
    pub(super) fn note_asid(&mut self, now: impl FnOnce() -> u64) {
        let asid = self.arch.asid(0);
        if asid != self.asid {
            self.left.insert(self.asid, now());
            self.asid = asid;
        }
    }

    /// It leaves a program for the kernel.
    pub(super) fn leaves_program(&mut self, now: u64) {
        self.ran.insert(self.asid, now);
    }

    /// When it was last in a program that has an ASID.
    pub(super) fn ran(&self, asid: u16, now: u64) -> Option<u64> {
        let is_there = self.in_program && self.asid == asid;
        is_there.then_some(now).or_else(|| self.ran.get(&asid).copied())
    }

    /// Whether it could walk tables of an ASID after a time. Those of the kernel's half serve every ASID.
    pub(super) fn could_walk(&self, walked: &Walked, after: u64) -> bool {
        let left = || self.left.get(&walked.asid).copied();
        is_of_kernel(walked.address) || walked.asid == self.asid || left().is_some_and(|left| left > after)
    }

    /// What is known of a page's last look, if that was not about another page.
    #[inline]
    pub(super) fn quick(&mut self, page: u64) -> &mut Quick {
        &mut self.quick[page as usize % QUICK]
    }

    /// It has no translation of an address under an ASID.
    pub(super) fn lacks(&mut self, asid: u16, address: u64) {
        self.tlb.remove(asid, address);
        self.quick(address >> PAGE).table = None;
    }

    /// A use of a page is suspect. True if an earlier one was: this one was made after that one was looked at.
    pub(super) fn suspects(&mut self, page: u64) -> bool {
        if let Some(known) = self.suspects.iter_mut().find(|suspect| **suspect == page) {
            *known = u64::MAX;
            return true;
        }
        self.suspects[self.next_suspect] = page;
        self.next_suspect = (self.next_suspect + 1) % SUSPECTS;
        false
    }
}

/// What others may read or write of a CPU.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(super) struct Shared {
    /// What others drop of its translations, which it looks at before its next access.
    pub(super) inbox: Mutex<Vec<(Invalidation, Spot)>>,
    pub(super) has_mail: AtomicBool,
    /// It is to be forgotten before that.
    pub(super) is_forgotten: AtomicBool,
    /// What it has begun to drop of others.
    pub(super) going: Mutex<Going>,
    pub(super) accesses: AtomicU64,
    pub(super) looks: AtomicU64,
    pub(super) unread: AtomicU64,
    pub(super) invalidations: AtomicU64,
}

/// What a CPU has begun to drop of the translations of others, which they may have or not until that is complete.
#[derive(Debug, Default)]
pub(super) struct Going {
    pub(super) what: Vec<Invalidation>,
    /// The entries of page tables that it has made since. It must not before it is complete, if they were those.
    pub(super) made: Vec<u64>,
}

/// One more, by the only thread that counts here.
#[inline]
pub(super) fn count(counter: &AtomicU64) {
    counter.store(counter.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arch::riscv64::Riscv64;

    /// SATP with Sv39 and an ASID. The others are 0.
    struct Registers(u64);

    impl Operands for Registers {
        fn register(&self, index: usize) -> u64 {
            match Riscv64::REGISTERS[index] {
                "satp" => 8 << 60 | self.0 << 44,
                _ => 0,
            }
        }

        fn load(&self, _: u64) -> Option<u64> {
            None
        }
    }

    #[test]
    fn tables_of_an_asid_are_walked_while_the_cpu_has_it() {
        let mut cpu = Cpu::<Riscv64>::new(0);
        for (asid, now) in [(5, 10), (6, 20)] {
            cpu.learn(&Registers(asid));
            cpu.note_asid(|| now);
        }
        let walked = |asid, address| Walked { asid, shift: 21, address, since: 11, by: 0 };
        let could = |asid, address, after| cpu.could_walk(&walked(asid, address), after);
        assert_eq!([15, 25].map(|after| could(5, 0x1000, after)), [true, false]);
        assert_eq!([15, 25].map(|after| could(6, 0x1000, after)), [true, true]);
        assert!(could(5, u64::MAX << 12, 25) && !could(7, 0x1000, 5));
    }
}
