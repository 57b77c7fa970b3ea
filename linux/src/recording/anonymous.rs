//! Recordings that a stranger may have: every figure of a replay stays, and what names the machine's programs goes.
//!
//! - Names of programs and threads become `program-1` and so on. The names of the kernel's own threads stay where they
//!   tell a [cause](crate::shootdowns::Cause), and so do the kernel's functions, but for those that BPF programs bring.
//! - Addresses of a process move by one distance. It is a multiple of a huge page, so that pages keep their order and
//!   their place in larger ones. Addresses in the kernel and the numbers of files become small numbers.
//! - Of the facts, the command and the date are left out, and of the kernel's release all but its numbers.
//!
//! The rest is kept: times, CPUs, numbers of threads and of frames, lengths, and the processor.

use std::io::Write;

use foldhash::HashMap;

use crate::events::{Kind, Name, Names, SystemCall, Work, PAGE_SHIFT, TABLE_SHIFT};
use crate::recording::{Facts, Recording, RecordingError, Row, Writer};
use crate::shootdowns::{Cause, Doing};

/// Threads of the kernel whose names tell causes, one for each cause.
const OF_KERNEL: [&str; 4] = ["kswapd", "khugepaged", "kcompactd", "kworker/u flush-"];

/// The words of such names. A name of these, numbers and signs says nothing else.
const WORDS: [&str; 6] = ["kswapd", "khugepaged", "kcompactd", "kworker", "u", "flush"];

/// The beginning of the names of functions that are BPF programs.
const BPF: &str = "bpf_prog_";

/// The end of the addresses of processes on x86 with five levels of page tables, the most that there are.
const USER_END: u64 = 1 << 57;

/// The place of the first address of every process. Those before it stay above all lengths.
const FIRST: u64 = 1 << 60;

/// The first address of the kernel.
const KERNEL: u64 = 1 << 63;

/// The largest number of an error that a system call returns.
const ERRORS: i64 = 4095;

/// Writes a recording anew, for strangers.
///
/// # Errors
/// If it cannot be read or written.
pub fn anonymize<W: Write + Send>(recording: &mut Recording, to: W) -> Result<W, RecordingError> {
    let mut writer = Writer::anonymous(to)?;
    let mut names = Names::default();
    recording.each(&mut names, |row, names| writer.add(&row, names))?;
    let facts = Facts { lost: recording.lost(), ..recording.facts().clone() };
    writer.finish(&facts, &names)
}

/// What replaces the names and the addresses of a recording.
#[derive(Debug, Default)]
pub(super) struct Anonymous {
    programs: HashMap<Name, Name>,
    /// Of programs that got a number.
    numbers: usize,
    functions: HashMap<Name, Name>,
    /// The first address of each process.
    spaces: HashMap<u32, u64>,
    pages: HashMap<u64, u64>,
    locks: HashMap<u64, u64>,
    inodes: HashMap<u64, u64>,
}

impl Anonymous {
    /// A row without what names programs.
    pub(super) fn row(&mut self, row: &Row, names: &mut Names) -> Row {
        let mut row = *row;
        row.program = self.program(row.program, names);
        match &mut row.event.kind {
            Kind::Sent { site, .. } => *site = self.functions(*site, names),
            Kind::Stack { functions } => *functions = self.functions(*functions, names),
            Kind::ThreadBegan { name, .. } | Kind::ThreadNamed { name, .. } => {
                *name = self.program(*name, names);
            }
            Kind::Fault { address, .. } => *address = self.address(row.process, *address),
            Kind::CallBegan { call, address, bytes, flags } => {
                let arguments = [address, bytes, flags];
                for (argument, is_address) in arguments.into_iter().zip(are_addresses(*call)) {
                    if is_address {
                        *argument = self.address(row.process, *argument);
                    }
                }
            }
            Kind::CallEnded { call: SystemCall::Mmap | SystemCall::Brk | SystemCall::Mremap, result }
                if !(-ERRORS..0).contains(result) =>
            {
                *result = self.address(row.process, result.cast_unsigned()).cast_signed();
            }
            Kind::WaitBegan { lock, .. } | Kind::WaitEnded { lock, .. } => {
                *lock = number(&mut self.locks, *lock);
            }
            Kind::Mapped { inode: 0, .. } => {}
            Kind::Cached { inode, .. }
            | Kind::Uncached { inode, .. }
            | Kind::Mapped { inode, .. }
            | Kind::FileMapped { inode, .. } => {
                *inode = number(&mut self.inodes, *inode);
            }
            _ => {}
        }
        row
    }

    /// The facts without what tells of the machine's user.
    pub(super) fn facts(facts: &Facts) -> Facts {
        let version = facts.release().split(|c: char| !(c.is_ascii_digit() || c == '.')).next();
        let name = facts.kernel.split_whitespace().next();
        let kernel = [name, version].map(Option::unwrap_or_default).join(" ");
        Facts {
            command: Vec::new(),
            kernel: kernel.trim_end().to_owned(),
            began_unix_s: 0.0,
            ..facts.clone()
        }
    }

    fn program(&mut self, name: Name, names: &mut Names) -> Name {
        if let Some(known) = self.programs.get(&name) {
            return *known;
        }
        let text = names.get(name);
        let cause = cause_of(text);
        let mut words = text.split(|c: char| c.is_ascii_digit() || c.is_ascii_punctuation());
        let is_of_kernel =
            cause != Cause::Other && words.all(|word| word.is_empty() || WORDS.contains(&word));
        // A thread without a name is not known.
        let neutral = if text.is_empty() || is_of_kernel {
            name
        } else {
            self.numbers += 1;
            let own = OF_KERNEL.iter().find(|own| cause_of(own) == cause).copied().unwrap_or_default();
            names.add(format!("{own} program-{}", self.numbers).trim_start())
        };
        self.programs.insert(name, neutral);
        neutral
    }

    /// The names of functions, separated by semicolons.
    fn functions(&mut self, functions: Name, names: &mut Names) -> Name {
        *self.functions.entry(functions).or_insert_with(|| {
            let neutral = |function| if str::starts_with(function, BPF) { "bpf_prog" } else { function };
            let all: Vec<&str> = names.get(functions).split(';').map(neutral).collect();
            let all = all.join(";");
            names.add(&all)
        })
    }

    /// An address in a process, or in the kernel. No address stays none.
    fn address(&mut self, process: u32, address: u64) -> u64 {
        match address {
            0 => 0,
            1..USER_END => {
                let first = *self.spaces.entry(process).or_insert(address >> TABLE_SHIFT << TABLE_SHIFT);
                FIRST + address - first
            }
            _ => {
                let page = number(&mut self.pages, address >> PAGE_SHIFT);
                KERNEL | page << PAGE_SHIFT | address & ((1 << PAGE_SHIFT) - 1)
            }
        }
    }
}

/// The number of a value, in the order in which they come.
fn number(known: &mut HashMap<u64, u64>, value: u64) -> u64 {
    let next = known.len() as u64 + 1;
    *known.entry(value).or_insert(next)
}

/// The cause that the name of a program tells.
fn cause_of(program: &str) -> Cause {
    Doing::default().cause(Work::Flush, program)
}

/// Whether each of the first three arguments of a call is an address.
fn are_addresses(call: SystemCall) -> [bool; 3] {
    match call {
        SystemCall::Mmap
        | SystemCall::Munmap
        | SystemCall::Madvise
        | SystemCall::Mprotect
        | SystemCall::PkeyMprotect
        | SystemCall::Mremap
        | SystemCall::Msync
        | SystemCall::Mbind
        | SystemCall::Brk
        | SystemCall::Shmdt
        | SystemCall::Clone3
        | SystemCall::Truncate => [true, false, false],
        SystemCall::ProcessMadvise => [false, true, false],
        SystemCall::Clone | SystemCall::Execveat => [false, true, true],
        SystemCall::MovePages | SystemCall::MigratePages => [false, false, true],
        SystemCall::Execve => [true, true, true],
        SystemCall::Fork
        | SystemCall::Vfork
        | SystemCall::Exit
        | SystemCall::ExitGroup
        | SystemCall::Ftruncate
        | SystemCall::Fallocate => [false; 3],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::events::{Event, LockKind};

    fn row(process: u32, kind: Kind, names: &mut Names) -> Row {
        let event = Event { time_ns: 5, cpu: 1, thread: process, kind };
        Row { event, process, program: names.add("secret") }
    }

    #[test]
    fn names_stay_where_they_tell_a_cause_and_nothing_else() {
        let mut names = Names::default();
        let mut anonymous = Anonymous::default();
        for (name, neutral) in [
            ("", ""),
            ("secret", "program-1"),
            ("kworker/0:1-events", "program-2"),
            ("kswapd0", "kswapd0"),
            ("khugepaged", "khugepaged"),
            ("kworker/u8:2-flush-259:0", "kworker/u8:2-flush-259:0"),
            ("kworker/u8:2+flush-btrfs-1", "kworker/u flush- program-3"),
            ("kswapd-secret", "kswapd program-4"),
            ("kcompactd\u{5bc6}", "kcompactd program-5"),
            ("secret", "program-1"),
            ("program-1", "program-6"),
        ] {
            let before = names.add(name);
            let after = anonymous.program(before, &mut names);
            assert_eq!(names.get(after), neutral);
            assert_eq!(cause_of(name), cause_of(neutral), "{name}");
        }
        let functions = names.add("smp_call_function_many_cond;bpf_prog_6deef7357e7b4530_secret;do_exit");
        let functions = anonymous.functions(functions, &mut names);
        assert_eq!(names.get(functions), "smp_call_function_many_cond;bpf_prog;do_exit");
    }

    #[test]
    fn addresses_of_a_process_move_by_one_distance_and_others_get_numbers() {
        let mut names = Names::default();
        let mut anonymous = Anonymous::default();
        let mut after = |process, kind| {
            let row = row(process, kind, &mut names);
            let after = anonymous.row(&row, &mut names);
            assert_eq!((after.process, after.event.time_ns, after.event.cpu), (process, 5, 1));
            after.event.kind
        };
        let call = |call, address, bytes, flags| Kind::CallBegan { call, address, bytes, flags };
        let ended = |result| Kind::CallEnded { call: SystemCall::Mmap, result };
        let fault = |address| Kind::Fault { address, code: 6 };
        let lock = |lock| Kind::WaitBegan { lock, kind: LockKind::Spin };
        for (process, before, expected) in [
            (7, fault(0x7f12_3456_7123), fault(FIRST + 0x16_7123)),
            (
                7,
                call(SystemCall::Munmap, 0x7f12_3440_0000, 4096, 0),
                call(SystemCall::Munmap, FIRST, 4096, 0),
            ),
            // It lies before the first.
            (7, fault(0x7f12_343f_f000), fault(FIRST - 0x1000)),
            (7, ended(0x7f12_3460_0000), ended(FIRST.cast_signed() + 0x20_0000)),
            (7, ended(-12), ended(-12)),
            (7, call(SystemCall::Mmap, 0, 8192, 3), call(SystemCall::Mmap, 0, 8192, 3)),
            (7, call(SystemCall::Fallocate, 5, 1, 8192), call(SystemCall::Fallocate, 5, 1, 8192)),
            (8, fault(0x5500_0020_0fff), fault(FIRST + 0xfff)),
            (8, fault(0xffff_ffff_ff60_0400), fault(KERNEL + 0x1400)),
            (8, fault(0xffff_8880_0000_0001), fault(KERNEL + 0x2001)),
            (7, lock(0xffff_8880_0012_3456), lock(1)),
            (8, lock(0xffff_8880_0012_3458), lock(2)),
            (8, lock(0xffff_8880_0012_3456), lock(1)),
        ] {
            assert_eq!(after(process, before), expected);
        }
        let cached = |inode| Kind::Cached { frame: 9, inode, index: 4 };
        assert_eq!([after(0, cached(123_456)), after(0, cached(99))], [cached(1), cached(2)]);
    }

    #[test]
    fn facts_of_the_machine_stay_and_those_of_its_user_go() {
        for (kernel, left) in [
            ("Linux 6.12.95+deb12-cloud-amd64 #1 SMP Debian 6.12.95-1 (2026-07-05)", "Linux 6.12.95"),
            ("Linux 7.2-secret", "Linux 7.2"),
            ("Linux", "Linux"),
            ("", ""),
        ] {
            let facts = Facts {
                kernel: kernel.into(),
                command: vec!["ceasefire".into(), "secret".into()],
                began_unix_s: 1.5e9,
                ended_ns: 77,
                processor: "AMD EPYC".into(),
                ..Facts::default()
            };
            let expected = Facts { kernel: left.into(), command: vec![], began_unix_s: 0.0, ..facts.clone() };
            assert_eq!(Anonymous::facts(&facts), expected);
        }
    }
}
