//! What the kernel and its programs agree on.
//!
//! A system call puts its number ([`Call`]) and up to five arguments into registers and finds one value there afterwards:
//! a result, or one of [`Error`]'s numbers. Ranges are given in bytes, page counts in pages of 4 KiB. How the registers are
//! called is the architecture's business (`ceasefire-kernel`'s `arch` and the programs' `system_call` agree on it).
#![no_std]

pub mod sizes;
pub mod status;

/// Defines an enum of numbers, and how to get it back from one.
macro_rules! numbers {
    ($(#[$doc:meta])* $name:ident { $($(#[$item_doc:meta])* $item:ident),* $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[repr(u64)]
        pub enum $name {
            $($(#[$item_doc])* $item,)*
        }

        impl $name {
            /// All, in the order of their numbers.
            pub const ALL: &'static [Self] = &[$(Self::$item),*];

            /// The one with this number.
            pub fn from_number(number: u64) -> Option<Self> {
                Self::ALL.get(usize::try_from(number).ok()?).copied()
            }
        }
    };
}

numbers! {
    /// System calls, with their arguments and result.
    Call {
        /// `(code)`: ends the calling thread; the process ends with its last thread, with the first code that is not 0.
        Exit,
        /// `(address, bytes)`: prints a line of UTF-8 text, at most [`LINE`] bytes.
        Log,
        /// `(entry, argument, cpu)`: a new process of the same image with nothing else mapped than that and a stack, whose
        /// thread starts at `entry` with `argument` as its first, on `cpu` alone unless that is [`ANYWHERE`]; its number.
        Spawn,
        /// `(entry, argument, cpu, stack)`: a new thread of this process that starts at `entry` with `argument` as its
        /// first and `stack` as the end of its stack, on `cpu` alone unless that is [`ANYWHERE`]; its number.
        Thread,
        /// `()`: a copy of the process with the calling thread alone. 0 in the copy, its number in the original.
        Fork,
        /// `(number)`: waits until that process or thread has ended; its code.
        Wait,
        /// `()`: lets others run.
        Yield,
        /// `(nanoseconds)`: sleeps that long, at the grain of the timer tick.
        Sleep,
        /// `()`: nanoseconds since the machine started.
        Now,
        /// `()`: the CPU that the caller runs on.
        Cpu,
        /// `(cpu)`: the caller runs on that CPU alone from now on, or on any if it is [`ANYWHERE`].
        Pin,
        /// `(parameter)`: the value of a [`Parameter`].
        Parameter,
        /// `(start, end, to)`: an access that cannot succeed, by an instruction in `[start, end)`, goes on at `to` instead
        /// of ending the run. For the whole process and what it forks.
        Recover,
        /// `(pages)`: maps fresh memory; where.
        MapAnonymous,
        /// `(file, first, pages, writable)`: maps a part of a file as everyone sees it; where.
        MapShared,
        /// `(file, first, pages)`: maps a part of a file, keeping stores to itself; where.
        MapPrivate,
        /// `(start, bytes)`: unmaps a range.
        Unmap,
        /// `(start, bytes, new_bytes, to)`: gives a mapping a new length and place: `to`, or any if it is [`ANYWHERE`];
        /// where it is.
        Remap,
        /// `(start, bytes, protection)`: what is allowed from now on: 0 nothing, 1 loads, 2 loads and stores.
        Protect,
        /// `(start, bytes, advice)`: an [`Advice`].
        Advise,
        /// `(pages)`: a new file of that size that reads as zeros; its number.
        CreateFile,
        /// `(file)`: deletes a file; [`Error::Busy`] if somebody maps it.
        DeleteFile,
        /// `(file, offset, address, bytes)`: reads from a file; how many bytes.
        ReadFile,
        /// `(file, offset, address, bytes)`: writes to a file.
        WriteFile,
        /// `(file, bytes)`: gives a file a new length.
        Truncate,
        /// `(file)`: writes what is dirty to the device; how many pages.
        SyncFile,
        /// `(process, from, to)`: moves the pages of a process (0: the caller's) from one node to another; how many.
        Migrate,
        /// `(start, bytes, node)`: moves the pages of a range of the caller's to a node, each by itself, at most
        /// [`MOVE_PAGES`] of them; how many are there now.
        MovePages,
        /// `(start, bytes)`: the kernel takes the pages of a range of the caller's that nobody else maps, as it does when
        /// memory is short; how many.
        Reclaim,
        /// `()`: what is counted for the report is counted from here on.
        MeasureBegin,
        /// `(operations)`: it is counted no longer; that many pages were read, moved, and so on.
        MeasureEnd,
        /// `(counter)`: the present value of a [`Counter`].
        Counter,
        /// `(finding, address, expected, found)`: a [`Finding`]: the run ends at once and has failed.
        Report,
    }
}

numbers! {
    /// What a run was started with.
    Parameter {
        /// Which program: its place in [`PROGRAMS`].
        Program,
        /// CPUs.
        Cpus,
        /// Nodes; CPUs and memory are shared out among them evenly and in order.
        Nodes,
        /// Frames that the memory manager has.
        Frames,
        /// How long `stale` and `migrate` measure, in seconds.
        Seconds,
        /// Varies what is left to chance.
        Seed,
        /// Whether threads that may stay on one CPU do: 0 or 1.
        Pinned,
        /// How many pages a program uses: the range of `migrate`, all files of `mmap-read` together; 0 for its own choice.
        Pages,
        /// Threads or processes that use memory; 0 for the program's own choice.
        Threads,
        /// Pages that the swap device holds.
        Swap,
    }
}

numbers! {
    /// What a program can ask about the whole machine while it runs.
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
    /// What a program can say about how it will use a range.
    Advice {
        /// It is not needed: it reads as zeros, or as its file, from now on.
        Discard,
        /// It can be dropped unwritten when memory is short.
        Free,
        /// It will not be needed soon.
        Cold,
        /// It should go to its device now.
        PageOut,
        /// Pages of 2 MiB shall be used.
        Huge,
    }
}

numbers! {
    /// What must not be.
    Finding {
        /// A load showed what was no longer there.
        StaleRead,
        /// A store that was made is not there.
        LostWrite,
        /// An access succeeded that had been forbidden.
        Forbidden,
        /// Something else that the program relied on is not so; `address` says which, in its own numbering.
        Broken,
    }
}

numbers! {
    /// Why a call failed. On the way it is counted down from the largest number.
    Error {
        /// An argument names nothing, or is out of its bounds.
        Invalid,
        /// No memory is left, or no room.
        NoMemory,
        /// Too many files, processes or threads.
        TooMany,
        /// A part of the range is not mapped.
        NotMapped,
        /// Not allowed there.
        Denied,
        /// Used by someone else at present.
        Busy,
        /// No such call.
        NoCall,
    }
}

impl Error {
    /// What a call's result register holds instead of a result.
    pub const fn encode(self) -> u64 {
        u64::MAX - self as u64
    }

    /// A call's result out of its register.
    ///
    /// # Errors
    /// What [`Error::encode`] put there.
    pub fn decode(register: u64) -> Result<u64, Self> {
        Self::from_number(u64::MAX - register).map_or(Ok(register), Err)
    }
}

/// The programs, by the names of the command line. The last ones show that what goes wrong is reported.
pub const PROGRAMS: &[&str] = &["mmap-read", "migrate", "stale", "hello", "panic", "fault", "hang"];
/// Any CPU, any place.
pub const ANYWHERE: u64 = u64::MAX;
/// The most bytes of a line that is logged.
pub const LINE: usize = 256;
/// The most pages that one call moves.
pub const MOVE_PAGES: u64 = 1024;
/// How often each CPU ticks, in milliseconds (Linux: 4, with its default of 250 Hz).
pub const TICK: u64 = 10;
/// How old debts may become under mechanism `lazy` unless told otherwise, in milliseconds: three ticks, the least for which
/// an epoch of debts lasts as long as a tick. (Below two ticks there is nothing that ticks can keep.)
pub const MAX_AGE: u64 = 3 * TICK;
/// The most threads and processes that a program starts and waits for.
pub const CREW: usize = 256;
/// Where a program's image begins: where the memory manager puts the first mapping of an empty space.
pub const IMAGE: u64 = 0x20_0000;
/// The stack of a process's first thread, in pages.
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
