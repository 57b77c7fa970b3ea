//! Something that a kernel did.

use crate::events::names::Name;

/// The bits of an address within a page, and within the part that one page table translates.
pub(crate) const PAGE_SHIFT: u32 = 12;
pub(crate) const TABLE_SHIFT: u32 = 21;

/// One event of a recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event {
    /// The time on the kernel's monotonic clock, in nanoseconds.
    pub time_ns: u64,
    /// The CPU on which it happened.
    pub cpu: u32,
    /// The thread that ran there (`gettid`); 0 when the CPU was idle.
    pub thread: u32,
    /// What happened.
    pub kind: Kind,
}

/// The kinds of events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A CPU queues a function call for another one. It interrupts it unless a call waited there already.
    Sent {
        /// The CPU that is to run it.
        target: u32,
        /// The function.
        work: Work,
        /// The call's number, which pairs it with its handler. It is used again.
        call: u64,
        /// The function that sent it.
        site: Name,
    },
    /// The called function begins.
    HandlerBegan {
        /// The function.
        work: Work,
        /// The call's number.
        call: u64,
    },
    /// The called function has ended.
    HandlerEnded {
        /// The function.
        work: Work,
        /// The call's number.
        call: u64,
    },
    /// A CPU flushes translations, or asks others to.
    Flush {
        /// The reason.
        reason: FlushReason,
        /// The number of pages; none for all.
        pages: Option<u64>,
    },
    /// The CPU goes on to another thread.
    Switch {
        /// The next thread; 0 for the idle one.
        next: u32,
    },
    /// A program's access to a page faults.
    Fault {
        /// The address.
        address: u64,
        /// The processor's code for the fault: of x86, bit 0 for a present page and bit 1 for a store.
        code: u64,
    },
    /// A thread enters a system call that changes mappings.
    CallBegan {
        /// The call.
        call: SystemCall,
        /// Its first argument: an address, but of `process_madvise` a descriptor.
        address: u64,
        /// Its second argument: a length, or the number of ranges.
        bytes: u64,
        /// Its third argument: advice, protection or new length.
        flags: u64,
    },
    /// A thread leaves it.
    CallEnded {
        /// The call.
        call: SystemCall,
        /// The result: below 0, the number of an error.
        result: i64,
    },
    /// A migration of pages begins.
    MigrationBegan {
        /// The reason.
        reason: MigrationReason,
    },
    /// A migration of pages has ended.
    MigrationEnded {
        /// The reason.
        reason: MigrationReason,
        /// The pages that were moved.
        moved: u64,
        /// The pages that could not be moved.
        failed: u64,
    },
    /// A thread begins to reclaim frames.
    ReclaimBegan,
    /// It has ended.
    ReclaimEnded {
        /// The frames that it reclaimed.
        frames: u64,
    },
    /// Small pages were collapsed into a huge one, or it was tried.
    Collapsed {
        /// Whether it was done.
        done: bool,
    },
    /// A thread finds a lock taken and begins to wait. It begins again when it goes from spinning to sleeping.
    WaitBegan {
        /// The lock's address in the kernel.
        lock: u64,
        /// The kind of lock, and what the thread wants of it.
        kind: LockKind,
    },
    /// The wait has ended.
    WaitEnded {
        /// The lock's address in the kernel.
        lock: u64,
        /// 0 if the thread has the lock; below 0, the number of an error.
        result: i64,
    },
    /// Frames are allocated.
    Allocated {
        /// The first frame.
        frame: u64,
        /// The logarithm of their number.
        order: u32,
    },
    /// Frames are freed.
    Freed {
        /// The first frame.
        frame: u64,
        /// The logarithm of their number.
        order: u32,
    },
    /// A page of a file enters the page cache.
    Cached {
        /// Its frame.
        frame: u64,
        /// The file.
        inode: u64,
        /// The page's number in the file.
        index: u64,
    },
    /// A page of a file leaves the page cache.
    Uncached {
        /// Its frame.
        frame: u64,
        /// The file.
        inode: u64,
        /// The page's number in the file.
        index: u64,
    },
    /// A fault maps pages of a file that are in memory.
    FileMapped {
        /// The file.
        inode: u64,
        /// The first page's number in the file.
        first: u64,
        /// The last one's.
        last: u64,
    },
    /// Pages that a process has mapped when the recording begins.
    Mapped {
        /// The first frame.
        frame: u64,
        /// The number of pages, in neighbouring frames.
        pages: u64,
        /// The file; 0 for anonymous memory.
        inode: u64,
        /// The first page's number in the file; of anonymous memory any that is its own.
        index: u64,
        /// Whether the process may store to them.
        stores: bool,
    },
    /// A thread is made.
    ThreadBegan {
        /// The thread.
        thread: u32,
        /// Whether it belongs to the process of its maker.
        same_process: bool,
        /// Its name.
        name: Name,
    },
    /// A thread has a new name.
    ThreadNamed {
        /// The thread.
        thread: u32,
        /// The name.
        name: Name,
    },
    /// The thread ends.
    ThreadEnded,
    /// The kernel functions under which the event before this one of the same CPU happened, innermost first.
    Stack {
        /// Their names, separated by semicolons.
        functions: Name,
    },
    /// Events of this CPU were lost between the one before and this moment.
    Lost {
        /// How many; at least so many if the kernel did not count them.
        events: u64,
    },
}

impl Kind {
    /// Whether a CPU is asked to flush.
    pub fn asks(&self) -> bool {
        matches!(self, Self::Sent { work: Work::Flush | Work::FlushAll | Work::FlushKernelRange, .. })
    }
}

/// The function that a CPU runs for another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Work {
    /// The flush of a process's translations, which the TLB row of `/proc/interrupts` counts.
    Flush,
    /// The flush of all translations.
    FlushAll,
    /// The flush of a range of the kernel.
    FlushKernelRange,
    /// Any other.
    Other,
}

/// The reason for a flush (enum `tlb_flush_reason` in `include/linux/mm_types.h`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum FlushReason {
    /// The CPU loads a space whose translations are out of date.
    TaskSwitch,
    /// Another CPU asked for it.
    RemoteShootdown,
    /// The kernel flushes on this CPU.
    LocalShootdown,
    /// The same, for the loaded space.
    LocalSpace,
    /// The CPU asks others to flush. Some of them may be left out, or may have been asked already.
    RemoteSend,
    /// A CPU was asked that has another space loaded.
    WrongCpu,
    /// Any other.
    Other,
}

/// The system calls that change mappings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs)] // Their names say it.
pub enum SystemCall {
    Mmap,
    Munmap,
    Madvise,
    ProcessMadvise,
    Mprotect,
    PkeyMprotect,
    Mremap,
    Msync,
    MovePages,
    MigratePages,
    Mbind,
    Brk,
    Shmdt,
    Fork,
    Vfork,
    Clone,
    Clone3,
    Execve,
    Execveat,
    Exit,
    ExitGroup,
    Ftruncate,
    Truncate,
    Fallocate,
}

/// The reason for a migration of pages (`include/trace/events/migrate.h`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum MigrationReason {
    /// Free frames are made adjacent.
    Compaction,
    /// A process, or its set of nodes, asked for it.
    Asked,
    /// A page is used on another node than its own.
    NumaBalancing,
    /// Cold pages go to slow memory.
    Demotion,
    /// Any other.
    Other,
}

/// The kinds of locks for which threads wait, and whether they want to read or to write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum LockKind {
    /// A lock whose waiters spin, such as that of a page table.
    Spin,
    /// A reader-writer lock whose waiters spin, for reading.
    SpinRead,
    /// The same, for writing.
    SpinWrite,
    /// A reader-writer semaphore, such as `mmap_lock`, for reading.
    SleepRead,
    /// The same, for writing.
    SleepWrite,
    /// A reader-writer semaphore with a counter for each CPU, for reading.
    PerCpuRead,
    /// The same, for writing.
    PerCpuWrite,
    /// A mutex.
    Mutex,
    /// A semaphore.
    Semaphore,
    /// A lock with inheritance of priorities.
    RealTime,
    /// A reader-writer lock of kernels with real-time preemption, for reading.
    RealTimeRead,
    /// The same, for writing.
    RealTimeWrite,
    /// Any other.
    Other,
}

/// A closed set of values that files and formats spell.
pub trait Spelled: Copy + Eq + 'static {
    /// Every value with its word, in order.
    const WORDS: &'static [(Self, &'static str)];

    /// The value's word.
    fn word(self) -> &'static str {
        Self::WORDS.iter().find(|(value, _)| *value == self).map_or("other", |(_, word)| word)
    }

    /// The value of a word. Capitals do not count: Linux 6.12 prints "remote ipi send", and 6.18 "remote IPI send".
    fn of_word(word: &str) -> Option<Self> {
        Self::WORDS.iter().find(|(_, of_value)| of_value.eq_ignore_ascii_case(word)).map(|(value, _)| *value)
    }
}

/// The words are the kernel's names of the functions, in the order of Linux versions.
impl Spelled for Work {
    const WORDS: &'static [(Self, &'static str)] = &[
        (Self::Flush, "flush_tlb_func"),
        (Self::FlushAll, "do_flush_tlb_all"),
        (Self::FlushKernelRange, "do_kernel_range_flush"),
        (Self::Other, "other"),
    ];
}

/// The words are those that the kernel prints.
impl Spelled for FlushReason {
    const WORDS: &'static [(Self, &'static str)] = &[
        (Self::TaskSwitch, "flush on task switch"),
        (Self::RemoteShootdown, "remote shootdown"),
        (Self::LocalShootdown, "local shootdown"),
        (Self::LocalSpace, "local MM shootdown"),
        (Self::RemoteSend, "remote IPI send"),
        (Self::WrongCpu, "remote wrong CPU"),
        (Self::Other, "other"),
    ];
}

/// The words are those that the kernel prints.
impl Spelled for MigrationReason {
    const WORDS: &'static [(Self, &'static str)] = &[
        (Self::Compaction, "compaction"),
        (Self::Asked, "syscall_or_cpuset"),
        (Self::NumaBalancing, "numa_misplaced"),
        (Self::Demotion, "demotion"),
        (Self::Other, "other"),
    ];
}

/// The words are our own, with the kernel's names of its locks.
impl Spelled for LockKind {
    const WORDS: &'static [(Self, &'static str)] = &[
        (Self::Spin, "spin lock"),
        (Self::SpinRead, "rwlock, for reading"),
        (Self::SpinWrite, "rwlock, for writing"),
        (Self::SleepRead, "rwsem, for reading"),
        (Self::SleepWrite, "rwsem, for writing"),
        (Self::PerCpuRead, "percpu rwsem, for reading"),
        (Self::PerCpuWrite, "percpu rwsem, for writing"),
        (Self::Mutex, "mutex"),
        (Self::Semaphore, "semaphore"),
        (Self::RealTime, "rt mutex"),
        (Self::RealTimeRead, "rt lock, for reading"),
        (Self::RealTimeWrite, "rt lock, for writing"),
        (Self::Other, "other"),
    ];
}

/// The words are the names of the calls.
impl Spelled for SystemCall {
    const WORDS: &'static [(Self, &'static str)] = &[
        (Self::Mmap, "mmap"),
        (Self::Munmap, "munmap"),
        (Self::Madvise, "madvise"),
        (Self::ProcessMadvise, "process_madvise"),
        (Self::Mprotect, "mprotect"),
        (Self::PkeyMprotect, "pkey_mprotect"),
        (Self::Mremap, "mremap"),
        (Self::Msync, "msync"),
        (Self::MovePages, "move_pages"),
        (Self::MigratePages, "migrate_pages"),
        (Self::Mbind, "mbind"),
        (Self::Brk, "brk"),
        (Self::Shmdt, "shmdt"),
        (Self::Fork, "fork"),
        (Self::Vfork, "vfork"),
        (Self::Clone, "clone"),
        (Self::Clone3, "clone3"),
        (Self::Execve, "execve"),
        (Self::Execveat, "execveat"),
        (Self::Exit, "exit"),
        (Self::ExitGroup, "exit_group"),
        (Self::Ftruncate, "ftruncate"),
        (Self::Truncate, "truncate"),
        (Self::Fallocate, "fallocate"),
    ];
}
