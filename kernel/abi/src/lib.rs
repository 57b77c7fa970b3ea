//! The interface between the kernel and its programs.
//!
//! A system call puts its number ([`Call`]) and up to five arguments into registers, and finds one value there
//! afterwards: a result, or the number of an [`Error`]. Ranges are given in bytes, page counts in pages of 4 KiB. The
//! architecture defines the registers (`arch` of `ceasefire-kernel`, and the programs' `system_call`).
#![no_std]

pub mod options;
pub mod sizes;
pub mod status;

/// Defines an enum of numbers, and the conversion from a number.
#[macro_export]
macro_rules! numbers {
    ($(#[$doc:meta])* $name:ident { $($(#[$item_doc:meta])* $item:ident),* $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[repr(u64)]
        pub enum $name {
            $($(#[$item_doc])* $item,)*
        }

        impl $name {
            /// All of them, in the order of their numbers.
            pub const ALL: &'static [Self] = &[$(Self::$item),*];

            /// The one with this number.
            pub fn from_number(number: u64) -> Option<Self> {
                Self::ALL.get(usize::try_from(number).ok()?).copied()
            }
        }
    };
}

numbers! {
    /// System calls, with their arguments and results.
    Call {
        /// `(code)`: ends the calling thread. The process ends with its last thread, with the first code that is not 0.
        Exit,
        /// `(address, bytes)`: prints a line of UTF-8 text, at most [`LINE`] bytes.
        Log,
        /// `(entry, argument, cpu)`: starts a process with nothing mapped but the same image and a stack. Its thread
        /// starts at `entry` with `argument` as its first argument, and runs on `cpu` alone, or on any CPU with
        /// [`ANYWHERE`]. Returns its number.
        Spawn,
        /// `(entry, argument, cpu, stack)`: starts a thread of this process at `entry`, with `argument` as its first
        /// argument and `stack` as the end of its stack. It runs on `cpu` alone, or on any CPU with [`ANYWHERE`].
        /// Returns its number.
        Thread,
        /// `()`: copies the process with the calling thread alone. Returns 0 in the copy, and the copy's number in the
        /// original.
        Fork,
        /// `(number)`: waits until that process or thread has ended. Returns its code.
        Wait,
        /// `()`: lets other threads run.
        Yield,
        /// `(nanoseconds)`: sleeps that long, rounded up to a tick.
        Sleep,
        /// `()`: returns the nanoseconds since the machine started.
        Now,
        /// `()`: returns the CPU that the caller runs on.
        Cpu,
        /// `(cpu)`: ties the caller to that CPU, or to none with [`ANYWHERE`].
        Pin,
        /// `(parameter)`: returns the value of a [`Parameter`].
        Parameter,
        /// `(start, end, to)`: makes an impossible access by an instruction in `[start, end)` continue at `to` instead
        /// of ending the run. Holds for the whole process and its forks.
        Recover,
        /// `(pages)`: maps fresh memory. Returns its address.
        MapAnonymous,
        /// `(file, first, pages, writable)`: maps a part of a file, shared. Returns its address.
        MapShared,
        /// `(file, first, pages)`: maps a part of a file, with stores private to the process. Returns its address.
        MapPrivate,
        /// `(start, bytes)`: unmaps a range.
        Unmap,
        /// `(start, bytes, new_bytes, to)`: gives a mapping a new length and place: `to`, or any place with
        /// [`ANYWHERE`]. Returns its address.
        Remap,
        /// `(start, bytes, protection)`: sets the allowed accesses: 0 none, 1 loads, 2 loads and stores.
        Protect,
        /// `(start, bytes, advice)`: gives an [`Advice`].
        Advise,
        /// `(pages)`: makes a file of that size that reads as zeros. Returns its number.
        CreateFile,
        /// `(file)`: deletes a file; [`Error::Busy`] if it is mapped.
        DeleteFile,
        /// `(file, offset, address, bytes)`: reads from a file. Returns how many bytes.
        ReadFile,
        /// `(file, offset, address, bytes)`: writes to a file.
        WriteFile,
        /// `(file, bytes)`: gives a file a new length.
        Truncate,
        /// `(file)`: writes dirty pages to the device. Returns how many.
        SyncFile,
        /// `(process, from, to)`: moves the pages of a process (0: the caller's) from one node to another. Returns how
        /// many.
        Migrate,
        /// `(start, bytes, node)`: moves the pages of a range of the caller's to a node, each by itself, at most
        /// [`MOVE_PAGES`]. Returns how many are there now.
        MovePages,
        /// `(start, bytes)`: reclaims the pages of a range that only the caller maps, as the kernel does when memory is
        /// short. Returns how many.
        Reclaim,
        /// `()`: begins the measurement for the report.
        MeasureBegin,
        /// `(operations)`: ends the measurement, with that many pages read, moved, and so on.
        MeasureEnd,
        /// `(counter)`: returns the present value of a [`Counter`].
        Counter,
        /// `(finding, address, expected, found)`: reports a [`Finding`], which ends the run as failed. A run of `stale`
        /// that is to go on does, unless the program is broken.
        Report,
        /// `(area, pages)`: maps fresh pages at addresses of the kernel, in one of the [`KERNEL_AREAS`]. Returns the
        /// address.
        MapKernel,
        /// `(address, lazily)`: unmaps what [`Call::MapKernel`] has mapped there, before the call returns (0), or some
        /// time after it (1); [`Error::NotMapped`] if nothing is mapped.
        UnmapKernel,
        /// `(area)`: completes all lazy unmaps of an area.
        PurgeKernel,
        /// `(address)`: loads 8 bytes in kernel mode, from an area of the kernel. Returns them; [`Error::NotMapped`] if
        /// the access faults.
        LoadKernel,
        /// `(address, value)`: stores 8 bytes in kernel mode, to an area of the kernel; [`Error::NotMapped`] if the
        /// access faults.
        StoreKernel,
        /// `(cpu, nanoseconds)`: takes a CPU other than the first offline, and brings it back after that time.
        /// [`Error::Busy`] if another call is doing so.
        Offline,
    }
}

numbers! {
    /// The options of a run.
    Parameter {
        /// The program, by its place in [`PROGRAMS`].
        Program,
        /// CPUs.
        Cpus,
        /// Nodes; CPUs and memory are shared out among them evenly and in order.
        Nodes,
        /// Frames of the memory manager.
        Frames,
        /// How long `stale`, `migrate` and `conformance` measure, in seconds.
        Seconds,
        /// After how many seconds `stale` ends even if some scenario has not done its least work.
        Limit,
        /// The seed of random choices.
        Seed,
        /// Whether threads that may stay on one CPU do: 0 or 1.
        Pinned,
        /// Whether `stale` goes on after what a stale translation showed: 0 or 1.
        Unchecked,
        /// How many pages a program uses: the range of `migrate`, all files of `mmap-read` together; 0 for the
        /// program's choice.
        Pages,
        /// Threads or processes that use memory; 0 for the program's choice.
        Threads,
        /// Pages of the swap device.
        Swap,
        /// The scenarios of `stale` that run: a bit for each of [`SCENARIOS`], or 0 for all.
        Scenarios,
    }
}

numbers! {
    /// Counters of the whole machine.
    Counter {
        /// Interrupts received for TLB work.
        Interrupts,
        /// Faults handled.
        Faults,
        /// Pages freed by reclaim.
        Reclaimed,
        /// Pages moved between nodes.
        Migrated,
        /// Pages written to devices.
        Written,
        /// Pages read from devices, the swap device among them.
        Read,
        /// Free frames.
        Free,
    }
}

numbers! {
    /// A program's advice about a range.
    Advice {
        /// Drop the contents: the range reads as zeros, or as its file, from now on.
        Discard,
        /// The contents may be dropped unwritten when memory is short.
        Free,
        /// The range is not needed soon.
        Cold,
        /// Write the range out to its device now.
        PageOut,
        /// Use pages of 2 MiB.
        Huge,
    }
}

numbers! {
    /// A program's proof that something went wrong.
    Finding {
        /// A load showed contents that were gone.
        StaleRead,
        /// A store that was made is not there.
        LostWrite,
        /// A forbidden access succeeded.
        Forbidden,
        /// Another assumption of the program failed; `address` is the program's own number for it.
        Broken,
    }
}

numbers! {
    /// Why a call failed. The result register counts it down from the largest number.
    Error {
        /// An argument names nothing, or is out of its bounds.
        Invalid,
        /// Out of memory or of room.
        NoMemory,
        /// Too many files, processes or threads.
        TooMany,
        /// A part of the range is not mapped.
        NotMapped,
        /// Not allowed there.
        Denied,
        /// In use at present.
        Busy,
        /// No such call.
        NoCall,
    }
}

impl Error {
    /// The value of the result register for this error.
    pub const fn encode(self) -> u64 {
        u64::MAX - self as u64
    }

    /// Reads a call's result from its register.
    ///
    /// # Errors
    /// The error that [`Error::encode`] put there.
    pub fn decode(register: u64) -> Result<u64, Self> {
        Self::from_number(u64::MAX - register).map_or(Ok(register), Err)
    }
}

/// The programs, by their names on the command line. The last four end in failures, to show that failures are reported.
pub const PROGRAMS: &[&str] =
    &["mmap-read", "migrate", "stale", "conformance", "hello", "panic", "fault", "hang", LOCKUP];
/// The program whose last CPU turns its interrupts off for good.
pub const LOCKUP: &str = "lockup";
/// The code with which a first process ends that found nothing wrong, but could not test enough in time.
pub const INCONCLUSIVE: u64 = 75;
/// The beginning of the line in which it says what was not tested.
pub const LACKS: &str = "INCONCLUSIVE ";
/// The scenarios of `stale`, in the order in which they start.
pub const SCENARIOS: &[&str] = &[
    "rewrite",
    "alias",
    "replace",
    "protect",
    "unmap",
    "reuse",
    "remap",
    "discard",
    "truncate",
    "migrate",
    "fork",
    "sync",
    "page-out",
    "free",
    "write",
    "unmap-huge",
    "remap-tables",
    "reclaim",
    "drain",
    "kernel-unmap",
    "kernel-purge",
    "offline",
];
/// Any CPU, any place.
pub const ANYWHERE: u64 = u64::MAX;
/// The areas of kernel addresses that system calls map pages in.
pub const KERNEL_AREAS: u64 = 2;
/// Pages of each of them.
pub const KERNEL_AREA_PAGES: u32 = 256;
/// The most bytes of a line that is logged.
pub const LINE: usize = 256;
/// The most pages that one call moves.
pub const MOVE_PAGES: u64 = 1024;
/// The period of each CPU's ticks, in milliseconds (Linux: 4, with its default of 250 Hz).
pub const TICK: u64 = 10;
/// The default age that debts may reach under mechanism `lazy`, in milliseconds. It is three ticks, the least for which
/// an epoch of debts lasts as long as a tick. (Ticks can keep no bound below two ticks.)
pub const MAX_AGE: u64 = 3 * TICK;
/// The most threads and processes that a program starts and waits for.
pub const CREW: usize = 256;
/// The address of a program's image: the memory manager puts the first mapping of an empty space there.
pub const IMAGE: u64 = 0x20_0000;
/// Pages of the stack of a process's first thread.
pub const STACK_PAGES: u64 = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_lead_back_to_what_they_stand_for() {
        for (number, &call) in Call::ALL.iter().enumerate() {
            assert_eq!((call as u64, Call::from_number(call as u64)), (number as u64, Some(call)));
        }
        assert_eq!(Call::from_number(Call::ALL.len() as u64), None);
    }

    #[test]
    fn results_and_errors_share_a_register() {
        for &error in Error::ALL {
            assert_eq!(Error::decode(error.encode()), Err(error));
        }
        for result in [0, 1, 0x7fff_ffff_f000, u64::MAX - Error::ALL.len() as u64] {
            assert_eq!(Error::decode(result), Ok(result));
        }
    }
}
