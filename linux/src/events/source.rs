//! The kernel's events from which ours are made.
//!
//! Each source names a tracepoint and the fields that it needs. The kernel describes where these stand in a record.

use foldhash::HashMap;

use crate::events::event::{FlushReason, Kind, LockKind, MigrationReason, Spelled, SystemCall, Work};
use crate::events::names::{Name, Names};
use crate::kernel::symbols::Symbols;
use crate::tracefs::{Field, Format, FormatError};

/// The number of pages with which the kernel says "all" (`TLB_FLUSH_ALL`).
const ALL_PAGES: u64 = u64::MAX;

/// `CLONE_THREAD` of clone(2).
const CLONE_THREAD: u64 = 0x10000;

/// The largest depth of a stack that is kept.
const DEEPEST: usize = 32;

/// How much is recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Interrupts alone.
    Light,
    /// Also the events that tell their causes: system calls, stores to shared pages, reclaim, migration. Of flushes, only
    /// those that ask other CPUs.
    Causes,
    /// Also every flush and every fault, switches, waits for locks, frames and the page cache.
    Full,
}

/// The names to which records refer.
#[derive(Debug, Default)]
pub struct Lookup {
    /// The kernel's functions.
    pub symbols: Symbols,
    /// All names so far.
    pub names: Names,
    /// The names of functions that were met, by address.
    functions: HashMap<u64, (Name, Work)>,
    /// Numbers of calls that were met, by the addresses of their records.
    calls: HashMap<u64, u64>,
}

impl Lookup {
    /// No names yet, for a kernel with these functions.
    pub fn new(symbols: Symbols) -> Self {
        Self { symbols, ..Self::default() }
    }

    fn work(&mut self, address: u64) -> Work {
        self.known(address).1
    }

    fn function(&mut self, address: u64) -> Name {
        self.known(address).0
    }

    fn known(&mut self, address: u64) -> (Name, Work) {
        *self.functions.entry(address).or_insert_with(|| {
            let name = self.symbols.name(address);
            (self.names.add(name), Work::of_word(name).unwrap_or(Work::Other))
        })
    }

    /// A small number for the address of a call's record, which readers of files can represent. A CPU that calls itself
    /// has no record, and no interrupt.
    fn call(&mut self, address: u64) -> Option<u64> {
        let next = self.calls.len() as u64;
        (address != 0).then(|| *self.calls.entry(address).or_insert(next))
    }

    fn text(&mut self, bytes: &[u8]) -> Name {
        let text = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
        self.names.add(&String::from_utf8_lossy(text))
    }
}

/// Makes an event of a record.
pub(super) type Read = Box<dyn Fn(&[u8], &mut Lookup) -> Option<Kind> + Send>;

/// A tracepoint.
#[derive(Debug, Clone, Copy)]
pub struct Source {
    /// The folder of the event.
    pub system: &'static str,
    /// Its name.
    pub event: &'static str,
    /// The least level at which it is recorded.
    pub level: Level,
    /// Whether the kernel can leave out the calls of other functions than flushes.
    pub of_flushes: bool,
    pub(super) read: fn(&Format) -> Result<Read, FormatError>,
}

/// A source whose record is made into an event from the values of some of its fields.
macro_rules! source {
    ($level:ident, $system:literal, $event:literal, [$($field:ident),*], |$lookup:pat_param| $kind:expr) => {
        source!($level, $system, $event, false, [$($field),*], |$lookup| $kind)
    };
    ($level:ident, $system:literal, $event:literal, $of_flushes:literal, [$($field:ident),*],
     |$lookup:pat_param| $kind:expr) => {
        Source {
            system: $system,
            event: $event,
            level: Level::$level,
            of_flushes: $of_flushes,
            read: |_format| {
                $(let $field = _format.field(stringify!($field))?;)*
                Ok(Box::new(move |_record, $lookup| {
                    $(let $field = $field.value(_record)?;)*
                    Some($kind)
                }))
            },
        }
    };
}

/// Every source.
pub const SOURCES: &[Source] = &[
    source!(Light, "csd", "csd_queue_cpu", true, [cpu, callsite, func, csd], |lookup| Kind::Sent {
        target: cpu as u32,
        work: lookup.work(func),
        call: lookup.call(csd)?,
        site: lookup.function(callsite),
    }),
    source!(Light, "csd", "csd_function_entry", true, [func, csd], |lookup| Kind::HandlerBegan {
        work: lookup.work(func),
        call: lookup.call(csd)?,
    }),
    source!(Light, "csd", "csd_function_exit", true, [func, csd], |lookup| Kind::HandlerEnded {
        work: lookup.work(func),
        call: lookup.call(csd)?,
    }),
    Source {
        system: "task",
        event: "task_newtask",
        level: Level::Light,
        of_flushes: false,
        read: |format| {
            let (pid, comm) = (format.field("pid")?, format.field("comm")?);
            let flags = format.field("clone_flags")?;
            Ok(Box::new(move |record, lookup| {
                Some(Kind::ThreadBegan {
                    thread: pid.value(record)? as u32,
                    same_process: flags.value(record)? & CLONE_THREAD != 0,
                    name: lookup.text(comm.bytes(record)?),
                })
            }))
        },
    },
    Source {
        system: "task",
        event: "task_rename",
        level: Level::Light,
        of_flushes: false,
        read: |format| {
            // Linux 6.14 took the thread's number out: it is the thread itself, nearly always.
            let (pid, comm) = (format.find("pid"), format.field("newcomm")?);
            Ok(Box::new(move |record, lookup| {
                let thread = pid.and_then(|pid| pid.value(record)).unwrap_or(0) as u32;
                Some(Kind::ThreadNamed { thread, name: lookup.text(comm.bytes(record)?) })
            }))
        },
    },
    source!(Light, "sched", "sched_process_exit", [], |_| Kind::ThreadEnded),
    Source {
        system: "tlb",
        event: "tlb_flush",
        level: Level::Causes,
        of_flushes: false,
        read: |format| {
            let (reason, pages) = (format.field("reason")?, format.field("pages")?);
            let reason = spelled(format, reason, "reason", FlushReason::Other);
            Ok(Box::new(move |record, _| {
                let pages = pages.value(record)?;
                Some(Kind::Flush { reason: reason(record)?, pages: (pages != ALL_PAGES).then_some(pages) })
            }))
        },
    },
    source!(Full, "sched", "sched_switch", [next_pid], |_| Kind::Switch { next: next_pid as u32 }),
    source!(Causes, "exceptions", "page_fault_user", [address, error_code], |_| Kind::Fault {
        address,
        code: error_code,
    }),
    Source {
        system: "migrate",
        event: "mm_migrate_pages_start",
        level: Level::Causes,
        of_flushes: false,
        read: |format| {
            let reason = format.field("reason")?;
            let reason = spelled(format, reason, "reason", MigrationReason::Other);
            Ok(Box::new(move |record, _| Some(Kind::MigrationBegan { reason: reason(record)? })))
        },
    },
    Source {
        system: "migrate",
        event: "mm_migrate_pages",
        level: Level::Causes,
        of_flushes: false,
        read: |format| {
            let (moved, failed) = (format.field("succeeded")?, format.field("failed")?);
            let reason = format.field("reason")?;
            let reason = spelled(format, reason, "reason", MigrationReason::Other);
            Ok(Box::new(move |record, _| {
                Some(Kind::MigrationEnded {
                    reason: reason(record)?,
                    moved: moved.value(record)?,
                    failed: failed.value(record)?,
                })
            }))
        },
    },
    source!(Causes, "vmscan", "mm_vmscan_direct_reclaim_begin", [], |_| Kind::ReclaimBegan),
    source!(Causes, "vmscan", "mm_vmscan_direct_reclaim_end", [nr_reclaimed], |_| Kind::ReclaimEnded {
        frames: nr_reclaimed,
    }),
    source!(Causes, "vmscan", "mm_vmscan_memcg_reclaim_begin", [], |_| Kind::ReclaimBegan),
    source!(Causes, "vmscan", "mm_vmscan_memcg_reclaim_end", [nr_reclaimed], |_| Kind::ReclaimEnded {
        frames: nr_reclaimed,
    }),
    source!(Causes, "vmscan", "mm_vmscan_node_reclaim_begin", [], |_| Kind::ReclaimBegan),
    source!(Causes, "vmscan", "mm_vmscan_node_reclaim_end", [nr_reclaimed], |_| Kind::ReclaimEnded {
        frames: nr_reclaimed,
    }),
    source!(Causes, "vmscan", "mm_vmscan_kswapd_wake", [], |_| Kind::ReclaimBegan),
    source!(Causes, "vmscan", "mm_vmscan_kswapd_sleep", [], |_| Kind::ReclaimEnded { frames: 0 }),
    source!(Causes, "huge_memory", "mm_collapse_huge_page", [status], |_| Kind::Collapsed {
        done: status == 1
    }),
    Source {
        system: "lock",
        event: "contention_begin",
        level: Level::Full,
        of_flushes: false,
        read: |format| {
            let (lock, flags) = (format.field("lock_addr")?, format.field("flags")?);
            let kind = kind_of_lock(&format.words("flags"));
            Ok(Box::new(move |record, _| {
                Some(Kind::WaitBegan { lock: lock.value(record)?, kind: kind(flags.value(record)?) })
            }))
        },
    },
    source!(Full, "lock", "contention_end", [lock_addr, ret], |_| Kind::WaitEnded {
        lock: lock_addr,
        result: ret.cast_signed(),
    }),
    source!(Full, "kmem", "mm_page_alloc", [pfn, order], |_| Kind::Allocated {
        frame: pfn,
        order: order as u32
    }),
    source!(Full, "kmem", "mm_page_free", [pfn, order], |_| Kind::Freed { frame: pfn, order: order as u32 }),
    source!(Full, "filemap", "mm_filemap_add_to_page_cache", [pfn, i_ino, index], |_| Kind::Cached {
        frame: pfn,
        inode: i_ino,
        index,
    }),
    source!(Full, "filemap", "mm_filemap_delete_from_page_cache", [pfn, i_ino, index], |_| {
        Kind::Uncached { frame: pfn, inode: i_ino, index }
    }),
    source!(Full, "filemap", "mm_filemap_map_pages", [i_ino, index, last_index], |_| Kind::FileMapped {
        inode: i_ino,
        first: index,
        last: last_index,
    }),
    source!(Full, "filemap", "mm_filemap_fault", [i_ino, index], |_| Kind::FileMapped {
        inode: i_ino,
        first: index,
        last: index,
    }),
    Source {
        system: "ftrace",
        event: "kernel_stack",
        level: Level::Light,
        of_flushes: false,
        read: |format| {
            let callers = format.field("caller")?;
            Ok(Box::new(move |record, lookup| {
                let addresses = callers.rest(record)?.as_chunks::<8>().0.iter();
                let addresses = addresses.map(|bytes| u64::from_ne_bytes(*bytes)).take_while(|&at| at != 0);
                let functions: Vec<&str> =
                    addresses.take(DEEPEST).map(|address| lookup.symbols.name(address)).collect();
                let functions = functions.join(";");
                Some(Kind::Stack { functions: lookup.names.add(&functions) })
            }))
        },
    },
];

impl Source {
    /// The kernel's filter for the records that tell causes; none if all do.
    pub(super) fn of_causes(&self, format: &Format) -> Option<String> {
        match self.event {
            "tlb_flush" => {
                let words = format.words("reason");
                let (asked, _) = words
                    .iter()
                    .find(|(_, word)| FlushReason::of_word(word) == Some(FlushReason::RemoteSend))?;
                Some(format!("reason == {asked}"))
            }
            // A fault at a present page that is a store, as x86 codes it.
            "page_fault_user" => Some("error_code & 1 && error_code & 2".to_owned()),
            _ => None,
        }
    }
}

/// Reads the flags of a wait for a lock, whose bits have these words.
fn kind_of_lock(words: &[(u64, &str)]) -> impl Fn(u64) -> LockKind + Send + 'static {
    let names = ["MUTEX", "PERCPU", "RT", "SPIN", "READ", "WRITE"];
    let bits = names.map(|name| words.iter().find(|(_, word)| *word == name).map_or(0, |(bit, _)| *bit));
    move |flags| {
        let [mutex, per_cpu, real_time, spins, reads, writes] = bits.map(|bit| flags & bit != 0);
        match (reads, writes) {
            // A mutex spins at first.
            _ if mutex => LockKind::Mutex,
            (true, _) if per_cpu => LockKind::PerCpuRead,
            (_, true) if per_cpu => LockKind::PerCpuWrite,
            (true, _) if real_time => LockKind::RealTimeRead,
            (_, true) if real_time => LockKind::RealTimeWrite,
            _ if real_time => LockKind::RealTime,
            (true, _) if spins => LockKind::SpinRead,
            (_, true) if spins => LockKind::SpinWrite,
            _ if spins => LockKind::Spin,
            (true, _) => LockKind::SleepRead,
            (_, true) => LockKind::SleepWrite,
            _ if flags == 0 => LockKind::Semaphore,
            _ => LockKind::Other,
        }
    }
}

/// Reads a field that has words.
fn spelled<T: Spelled + Send>(
    format: &Format,
    field: Field,
    name: &str,
    other: T,
) -> impl Fn(&[u8]) -> Option<T> + Send + 'static {
    let words = format.words(name).into_iter();
    let values: Vec<(u64, T)> =
        words.filter_map(|(value, word)| T::of_word(word).map(|known| (value, known))).collect();
    move |record| {
        let value = field.value(record)?;
        Some(values.iter().find(|(of_word, _)| *of_word == value).map_or(other, |(_, known)| *known))
    }
}

/// The reader of an event's records, and the least level at which it is recorded; none of events from which ours are not
/// made.
pub(super) fn reader(format: &Format) -> Option<(Level, Result<Read, FormatError>)> {
    let is_of = |source: &&Source| (source.system, source.event) == (format.system(), format.event());
    if let Some(source) = SOURCES.iter().find(is_of) {
        return Some((source.level, (source.read)(format)));
    }
    let event = (format.system() == "syscalls").then(|| format.event())?;
    let (word, begins) = match event.strip_prefix("sys_enter_") {
        Some(word) => (word, true),
        None => (event.strip_prefix("sys_exit_")?, false),
    };
    Some((Level::Causes, of_call(SystemCall::of_word(word)?, format, begins)))
}

/// The beginning and the end of a system call.
fn of_call(call: SystemCall, format: &Format, begins: bool) -> Result<Read, FormatError> {
    if !begins {
        let result = format.field("ret")?;
        return Ok(Box::new(move |record, _| {
            Some(Kind::CallEnded { call, result: result.value(record)?.cast_signed() })
        }));
    }
    let arguments = format.arguments();
    Ok(Box::new(move |record, _| {
        let argument =
            |number: usize| arguments.get(number).and_then(|field| field.value(record)).unwrap_or(0);
        Some(Kind::CallBegan { call, address: argument(0), bytes: argument(1), flags: argument(2) })
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The end of the format of `tlb:tlb_flush` on Linux 6.12 and 6.18.
    const WORDS: [&str; 2] = [
        r#"{ 0, "flush on task switch" }, { 3, "local mm shootdown" }, { 4, "remote ipi send" }"#,
        r#"{ 0, "flush on task switch" }, { 3, "local MM shootdown" }, { 4, "remote IPI send" }"#,
    ];

    #[test]
    fn the_reasons_of_flushes_are_known_in_each_kernels_spelling() {
        let source = SOURCES.iter().find(|source| source.event == "tlb_flush").expect("a source");
        for words in WORDS {
            let text = format!(
                "name: tlb_flush\nID: 684\nformat:\n\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n\
                 \tfield:int reason;\toffset:8;\tsize:4;\tsigned:1;\n\
                 \tfield:unsigned long pages;\toffset:16;\tsize:8;\tsigned:0;\n\n\
                 print fmt: \"reason:%s\", __print_symbolic(REC->reason, {words})\n"
            );
            let format = Format::parse("tlb", &text).expect("a format");
            assert_eq!(source.of_causes(&format).as_deref(), Some("reason == 4"), "{words}");
            let read = (source.read)(&format).expect("the fields");
            let mut record = [0_u8; 24];
            for (value, reason) in [(3, FlushReason::LocalSpace), (4, FlushReason::RemoteSend)] {
                record[8] = value;
                let expected = Kind::Flush { reason, pages: Some(0) };
                assert_eq!(read(&record, &mut Lookup::default()), Some(expected), "{words}");
            }
        }
    }

    #[test]
    fn the_kind_of_a_lock_follows_from_the_bits_that_the_kernel_names() {
        let words = [(1, "SPIN"), (2, "READ"), (4, "WRITE"), (8, "RT"), (16, "PERCPU"), (32, "MUTEX")];
        let moved: Vec<(u64, &str)> = words.iter().map(|(bit, word)| (bit << 3, *word)).collect();
        for (flags, kind) in [
            (0, LockKind::Semaphore),
            (1, LockKind::Spin),
            (1 | 2, LockKind::SpinRead),
            (1 | 4, LockKind::SpinWrite),
            (2, LockKind::SleepRead),
            (4, LockKind::SleepWrite),
            (8, LockKind::RealTime),
            (8 | 2, LockKind::RealTimeRead),
            (8 | 4, LockKind::RealTimeWrite),
            (16 | 2, LockKind::PerCpuRead),
            (16 | 4, LockKind::PerCpuWrite),
            (32, LockKind::Mutex),
            (32 | 1, LockKind::Mutex),
            (64, LockKind::Other),
        ] {
            assert_eq!(
                (kind_of_lock(&words)(flags), kind_of_lock(&moved)(flags << 3)),
                (kind, kind),
                "{flags}"
            );
        }
        assert_eq!(kind_of_lock(&[])(2), LockKind::Other);
    }
}
