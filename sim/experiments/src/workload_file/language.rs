//! The parts of a workload, as its file states them.
//!
//! Amounts stand as they are written, until a machine and a scale give them values. Some parts are generic over `A`
//! therefore: an [`Amount`] or its value.
//!
//! A workload is made of groups of like processes. The threads of a group work through its phases, and a phase repeats
//! its operations. An operation uses a mapping or an allocator of its process.

use ceasefire_machine::config::{Linux, Machine};
use ceasefire_machine::document::Error;
use ceasefire_memory::LruDrain;

use super::amount::Amount;
use super::time::Time;
use crate::experiment::Mechanism;

/// A workload.
#[derive(Debug)]
pub(super) struct Workload {
    pub(super) description: String,
    pub(super) paper: String,
    pub(super) machines: Vec<String>,
    pub(super) mechanisms: Vec<Mechanism>,
    pub(super) scale: f64,
    /// The smallest scale whose ratios are known to be those of scale 1.
    pub(super) faithful_from: f64,
    /// The number of runs of each case.
    pub(super) repeats: u16,
    /// The machine's memory. `None`: all that it has.
    pub(super) memory: Option<Amount>,
    pub(super) kernel: Kernel,
    /// The measured part of the run. `None`: all of it.
    pub(super) measure: Option<Measure>,
    pub(super) sweep: Option<Sweep>,
    pub(super) groups: Vec<Group>,
}

/// The settings of the memory manager that differ from its own choice.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Kernel {
    /// The release of Linux that it is like.
    pub(super) linux: Option<Linux>,
    pub(super) read_ahead: Option<u32>,
    pub(super) fault_around: Option<u32>,
}

/// The measured part of a run, in picoseconds at scale 1.
#[derive(Debug, Clone, Copy)]
pub(super) struct Measure {
    /// The time before it.
    pub(super) warm_up: u64,
    /// Its length.
    pub(super) time: u64,
}

/// The numbers of threads and the times of listing new pages that the experiment varies.
#[derive(Debug)]
pub(super) struct Sweep {
    pub(super) threads: Vec<Amount>,
    pub(super) lru_drains: Vec<LruDrain>,
    /// What it varies on some machines in place of these.
    pub(super) on: Vec<SweepOn>,
}

/// The values that the experiment varies on a machine of this name with so many CPUs.
#[derive(Debug)]
pub(super) struct SweepOn {
    pub(super) machine: String,
    pub(super) cpus: u32,
    pub(super) threads: Vec<Amount>,
    /// `None`: those of the other machines.
    pub(super) lru_drains: Option<Vec<LruDrain>>,
}

impl Sweep {
    /// The values for a machine, if it has some of its own.
    pub(super) fn on(&self, machine: &Machine) -> Option<&SweepOn> {
        let cpus = u32::from(machine.topology.cpu_count());
        self.on.iter().find(|on| on.machine == machine.name && on.cpus == cpus)
    }
}

/// Like processes, or like threads in each process of another group.
#[derive(Debug)]
pub(super) struct Group {
    pub(super) name: String,
    /// The place of the group in the file.
    pub(super) place: Error,
    pub(super) role: Role,
    pub(super) cpus: Cpus,
    pub(super) processes: Option<Amount>,
    pub(super) threads: Option<Amount>,
    /// The threads of all processes together, where this is given in place of the processes.
    pub(super) threads_in_all: Option<Amount>,
    /// The time from the start of one process to that of the next, in picoseconds at scale 1.
    pub(super) start_interval: u64,
    /// The mappings of a process, those of the groups inside it included.
    pub(super) mappings: Vec<Mapping>,
    pub(super) allocators: Vec<Allocator>,
    pub(super) phases: Vec<Phase>,
}

/// How the threads of a group come to their process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// Each process of the group is one of its own.
    Own,
    /// The threads run in each process of that group.
    Inside(usize),
    /// A thread of that group forks the process.
    ForkedBy(usize),
}

/// The CPUs on which the threads of a group run, one after the other.
#[derive(Debug)]
pub(super) enum Cpus {
    /// So many, the next that no earlier group has.
    Next(Amount),
    /// Those that no other group with `Next` has.
    Rest,
    /// All CPUs.
    All,
    /// These.
    These(Vec<Amount>),
}

/// The owner of a mapping or an allocator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Owner {
    Thread,
    Process,
    /// All processes of the group map one file.
    Group,
    /// The processes of the group share out the files of that mapping of another group.
    FilesOf(usize, usize),
}

/// A range of addresses that a process maps.
#[derive(Debug)]
#[allow(clippy::struct_excessive_bools, reason = "each is a key of the file, independent of the others")]
pub(super) struct Mapping {
    pub(super) name: String,
    /// The group that declares it, whose threads map it.
    pub(super) group: usize,
    pub(super) owner: Owner,
    /// `None`: as large as the files of another group that it maps.
    pub(super) size: Option<Amount>,
    pub(super) file: Option<File>,
    pub(super) writable: bool,
    pub(super) huge: bool,
    /// Whether threads map it before their first phase.
    pub(super) mapped: bool,
    /// Whether a sequential access at its end unmaps it and maps it anew.
    pub(super) renew: bool,
    /// Whether it is mapped or unmapped during the run.
    pub(super) comes_and_goes: bool,
    /// The number of operations that walk through it.
    pub(super) walks: usize,
}

/// The kind of a file at the start of the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum File {
    /// A hole: the kernel makes its pages up.
    Sparse,
    /// Stored on the device.
    Stored,
}

/// An allocator: a range of memory, divided into objects of one size.
#[derive(Debug)]
pub(super) struct Allocator<A = Amount> {
    pub(super) name: String,
    /// The mapping that holds its objects, of the same name.
    pub(super) mapping: usize,
    pub(super) object: A,
    /// The first part of an object, which its user stores to. `None`: all of it.
    pub(super) used: Option<A>,
    pub(super) purge: Purge,
    /// The number of free objects that one call gives back.
    pub(super) batch: A,
}

/// When an allocator gives the pages of free objects back to the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purge {
    /// Not by itself.
    Never,
    /// When an object is freed.
    AtOnce,
    /// When an object has been free for so many picoseconds.
    After(u64),
}

/// A part of the work of a group's threads, one after the other.
#[derive(Debug)]
pub(super) struct Phase<A = Amount> {
    pub(super) times: Option<A>,
    /// The group whose end ends the phase.
    pub(super) until: Option<usize>,
    /// The time between two rounds.
    pub(super) think: Option<Time>,
    /// The time from the start of a round to that of the next.
    pub(super) every: Option<u64>,
    /// Whether its rounds count as the run's operations.
    pub(super) counts: bool,
    /// Whether the time of each round is measured.
    pub(super) latency: bool,
    pub(super) operations: Vec<Operation<A>>,
}

/// One step of a thread.
#[derive(Debug)]
pub(super) enum Operation<A = Amount> {
    /// Loads from pages and stores to them.
    Access(Access<A>),
    /// Writes a word to a file by a system call.
    Write(usize),
    Map(usize),
    Unmap(usize),
    Advise(Advise<A>),
    /// Allows stores to a mapping, or loads alone.
    Protect {
        mapping: usize,
        writable: bool,
    },
    Compute(Time),
    Sleep(Time),
    /// One of several, by weight. The flag says whether it counts as an operation of the run.
    Choose(Vec<(u32, bool, Operation<A>)>),
    Repeat(A, Vec<Operation<A>>),
    Fork {
        group: usize,
        wait: bool,
    },
    /// Takes free objects and stores to the used pages of each.
    Allocate {
        allocator: usize,
        objects: A,
    },
    /// Frees objects that the thread holds, the oldest or random ones.
    Free {
        allocator: usize,
        objects: A,
        oldest: bool,
    },
    /// Gives free objects back to the kernel, the oldest first.
    Purge {
        allocator: usize,
        objects: A,
    },
}

/// Loads and stores.
#[derive(Debug)]
pub(super) struct Access<A = Amount> {
    pub(super) mapping: usize,
    pub(super) stores: Stores,
    pub(super) pattern: Pattern,
    pub(super) pages: A,
    /// The words used in each page.
    pub(super) words: u32,
    /// Whether the threads of the process share the pages out: of n threads, each uses every n-th page.
    pub(super) striped: bool,
}

/// The share of stores among accesses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stores {
    None,
    All,
    /// So many of so many.
    Some(u64, u64),
}

/// The order in which pages are used.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Pattern {
    /// In the order of their addresses, from the first, or from a random one in the first round. The operation has its
    /// own place in the mapping, with the number `walk`.
    Sequential { anywhere: bool, walk: usize },
    /// A random word at a time.
    Random,
    /// The same with few favourites: the page of rank k has a share in proportion to 1 / k to the power of this number.
    Zipf(f64),
    /// The page that the thread used last.
    Same,
    /// All pages at once.
    Whole,
}

/// Advice to the kernel about pages (madvise).
#[derive(Debug)]
pub(super) struct Advise<A = Amount> {
    pub(super) mapping: usize,
    pub(super) advice: Advice,
    pub(super) pattern: Pattern,
    pub(super) pages: A,
    /// The number of pages that one call names.
    pub(super) batch: A,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Advice {
    DontNeed,
    Free,
    Cold,
    PageOut,
}
