//! What a kernel under test has to offer.

use core::ops::Range;

use crate::stage::Job;

/// The pages that scenarios use, numbered from 0. The kernel says where they lie: at addresses one after the other, the
/// first of which is a multiple of what a page table of the lowest level covers.
pub const PAGES: usize = 4 * TABLE;

/// The pages that a page table of the lowest level covers (x86-64, and arm64 and RISC-V with pages of 4 KiB).
pub const TABLE: usize = 512;

/// Something that a kernel may lack. Scenarios that need it are left out then, and say so.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ability {
    /// [`Cpu::remap`]
    Remap,
    /// [`Cpu::away`] with [`Away::Idle`]
    Idle,
    /// [`Cpu::away`] with [`Away::OtherSpace`]
    OtherSpace,
    /// [`Cpu::map_kernel`] and its like
    KernelRanges,
    /// [`Cpu::with_interrupts_off`]
    InterruptsOff,
    /// [`Cpu::evict`]
    Evict,
}

/// Where a CPU goes when it stops using the address space.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Away {
    /// It has nothing to do, as in the idle loop. It may keep the space's root loaded.
    Idle,
    /// It runs another address space.
    OtherSpace,
}

/// The kernel could not do something. That ends the scenario, and is no finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failed {
    /// There is no memory.
    NoMemory,
    /// It failed for another reason, which has this number in the kernel.
    Error(u64),
}

/// A kernel under test.
pub trait Kernel {
    /// One of its CPUs.
    type Cpu: Cpu + 'static;

    /// The number of CPUs that run jobs, at most [`CPUS`](crate::CPUS).
    fn cpus(&self) -> usize;

    /// Calls [`Job::run`] on every CPU at once, and returns when all calls have returned. All CPUs run one address space,
    /// which the kernel may keep from one job to the next. None of [`PAGES`] must be used by anything else.
    fn run(&self, job: Job<Self::Cpu>);

    /// Whether the kernel lacks something.
    fn lacks(&self, ability: Ability) -> bool {
        let _ = ability;
        false
    }
}

/// A CPU of a kernel under test, for the code that runs on it.
///
/// Interrupts are on, and the CPU holds no lock. A call that takes something away returns when the kernel promises that
/// no CPU uses it any more, as `munmap` does.
pub trait Cpu {
    /// Its number, from 0 on.
    fn number(&self) -> usize;

    /// Waits a moment for other CPUs: a spin-loop hint, a `yield`, or time that passes.
    fn pause(&self);

    /// Maps a fresh frame at a page, which is not mapped. Its first word is `word`, and programs may load and store.
    ///
    /// # Errors
    /// If there is no memory.
    fn map(&self, page: usize, word: u64) -> Result<(), Failed>;

    /// Unmaps several ranges of pages by one call, or as few as the kernel has, and frees their frames, and tables that
    /// map nothing any more. Some of the pages may not be mapped.
    ///
    /// # Errors
    /// If the kernel cannot do so.
    fn unmap(&self, ranges: &[Range<usize>]) -> Result<(), Failed>;

    /// Takes the right to store to a page away.
    ///
    /// # Errors
    /// If the kernel cannot do so.
    fn protect(&self, page: usize) -> Result<(), Failed>;

    /// Loads the first word of a page as a program does, through this CPU's TLB. None if the access is not possible.
    fn load(&self, page: usize) -> Option<u64>;

    /// Stores to the first word of a page as a program does, through this CPU's TLB. Returns whether that was possible.
    fn store(&self, page: usize, word: u64) -> bool;

    /// Takes free frames, fills each with `word`, and frees them again: those that the kernel would give to another
    /// program next, and more of them than it keeps on lists of its CPUs.
    ///
    /// # Errors
    /// If there is no memory.
    fn reuse(&self, word: u64) -> Result<(), Failed>;

    /// Stops using the address space until `until` returns true, and then uses it again. Calls `until` at least once
    /// after the CPU has left, and now and then; it may run while the CPU is away.
    fn away(&self, to: Away, until: &dyn Fn() -> bool);

    /// Runs `act` with interrupts off: the CPU does not answer flushes meanwhile.
    fn with_interrupts_off(&self, act: &mut dyn FnMut()) {
        let _ = act;
        lacking(Ability::InterruptsOff)
    }

    /// Takes away a page that programs may only read, on the kernel's own account, as reclaim does. No program was promised
    /// anything: CPUs may read the page until it is [unmapped](Cpu::unmap), and the kernel may bring it back.
    ///
    /// # Errors
    /// If the kernel cannot do so.
    fn evict(&self, page: usize) -> Result<(), Failed> {
        let _ = page;
        lacking(Ability::Evict)
    }

    /// Moves a page and its frame to another page, which is not mapped (`mremap`).
    ///
    /// # Errors
    /// If the kernel cannot do so.
    fn remap(&self, from: usize, to: usize) -> Result<(), Failed> {
        let _ = (from, to);
        lacking(Ability::Remap)
    }

    /// Maps a fresh frame whose first word is `word` at addresses of the kernel. Returns the address.
    ///
    /// The word is stored before the frame is mapped, or by another way into the frame. A store through the new address
    /// would reach an old frame by a stale entry, as the loads of all CPUs would.
    ///
    /// # Errors
    /// If there is no memory.
    fn map_kernel(&self, word: u64) -> Result<u64, Failed> {
        let _ = word;
        lacking(Ability::KernelRanges)
    }

    /// Unmaps what [`Cpu::map_kernel`] has mapped.
    ///
    /// # Errors
    /// If the kernel cannot do so.
    fn unmap_kernel(&self, address: u64) -> Result<(), Failed> {
        let _ = address;
        lacking(Ability::KernelRanges)
    }

    /// Loads the word at an address that [`Cpu::map_kernel`] has returned, where a frame is mapped.
    fn load_kernel(&self, address: u64) -> Option<u64> {
        let _ = address;
        lacking(Ability::KernelRanges)
    }
}

/// A call that only a kernel with an ability implements.
fn lacking(ability: Ability) -> ! {
    panic!("the kernel does not say that it lacks {ability:?}, and does not implement its calls")
}
