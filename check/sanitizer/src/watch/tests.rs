//! Accesses of programs and of the kernel, judged. `given` has frames that were given away, `instructions` what drops
//! translations.

mod given;
mod instructions;

use std::cell::Cell;
use std::path::PathBuf;

use super::changes::{LATE, LATE_ACCESSES, PATIENCE};
use super::*;
use crate::arch::x86::{Instruction, X86};
use crate::arch::{Rights, Translation};
use crate::find::{Find, Kind};
use crate::tlb::Cached;

/// The guest's memory: 16 MiB from address 0.
const BYTES: u64 = 16 << 20;

/// Where the kernel has all memory, in large pages, and an instruction of it.
const KERNEL: u64 = 0xffff_8000_0000_0000;
const CODE: u64 = 0xffff_ffff_8000_0000;

/// An instruction of the program, and one of its pages.
const PROGRAM: u64 = 0x40_0000;
const PAGE_OF_PROGRAM: u64 = 0x5000_0000;

/// Bits of entries.
const READ_ONLY: u64 = 1 << 2 | 1;
const CLEAN: u64 = READ_ONLY | 2;
const WRITABLE: u64 = CLEAN | 1 << 6;
const LARGE: u64 = 1 << 7;
const GLOBAL: u64 = 1 << 8;
const NO_EXECUTE: u64 = 1 << 63;

thread_local! {
    static NOW: Cell<u64> = const { Cell::new(0) };
    static THREAD: Cell<u64> = const { Cell::new(0) };
}

/// A guest of two CPUs whose emulator has a TLB for nothing: each access says which frame it used.
struct Guest {
    memory: Vec<u64>,
    watch: Watch,
    cpus: [Cpu<X86>; 2],
    /// The next free frame for a table.
    free: u64,
    report: PathBuf,
    _folder: tempfile::TempDir,
}

/// The registers at an instruction. CR3 leads to frame 1.
#[derive(Clone, Copy)]
struct Registers {
    first: u64,
}

impl Operands for Registers {
    fn register(&self, index: usize) -> u64 {
        match X86::REGISTERS[index] {
            "cr0" => 1 << 31 | 1 << 16,
            "cr3" => 1 << PAGE,
            "cr4" => 1 << 5 | 1 << 7,
            "efer" => 1 << 8,
            "rax" | "cr2" | "rip" => self.first,
            _ => 0,
        }
    }

    fn load(&self, _: u64) -> Option<u64> {
        None
    }
}

/// What the emulator says of an access.
#[derive(Clone, Copy)]
struct Used(u64);

impl Operands for Used {
    fn register(&self, index: usize) -> u64 {
        if X86::REGISTERS[index] == "fs_base" {
            THREAD.get()
        } else {
            0
        }
    }

    fn load(&self, _: u64) -> Option<u64> {
        None
    }
}

impl Access for Used {
    fn physical(self) -> Option<u64> {
        Some(self.0)
    }

    fn value(self) -> Option<u64> {
        None
    }

    fn bytes(self) -> u64 {
        8
    }
}

impl Guest {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let report = folder.path().join("report");
        NOW.set(0);
        THREAD.set(0);
        let memory = vec![0; (BYTES / 8) as usize];
        let created = Report::create(&report).expect("a file");
        let mut watch = Watch::new("x86_64", 2, Code::default(), created, || {
            NOW.set(NOW.get() + 1000);
            NOW.get()
        });
        watch.ram = Ram::known(0, BYTES, memory.as_ptr() as u64);
        let mut guest =
            Self { memory, watch, cpus: [Cpu::new(0), Cpu::new(1)], free: 2, report, _folder: folder };
        for page in 0..BYTES >> 21 {
            let entry = guest.entry(KERNEL + (page << 21), 1);
            guest.set(entry, page << 21 | LARGE | GLOBAL | WRITABLE & !4);
        }
        for cpu in &mut guest.cpus {
            cpu.learn(&Registers { first: 0 });
        }
        guest
    }

    /// One in which CPU 1 has loaded from the program's page, frame 100.
    fn used() -> Self {
        let mut guest = Self::new();
        guest.map(0, 100 << PAGE | WRITABLE);
        guest.loads(1, 100);
        guest
    }

    /// Unlinks the table of the program's page. Returns the entry that led to it, and its frame.
    fn unlinks(&mut self) -> (u64, u64) {
        let upper = self.entry(PAGE_OF_PROGRAM, 1);
        let table = self.memory[(upper / 8) as usize] >> PAGE;
        self.kernel_stores(0, upper, 0);
        (upper, table)
    }

    /// The kernel overwrites a frame.
    fn overwrites(&mut self, frame: u64) {
        for word in 0..512 {
            self.kernel_stores(0, (frame << PAGE) + 8 * word, 0);
        }
    }

    /// Sets a word without anybody's knowledge.
    fn set(&mut self, physical: u64, value: u64) {
        let place = std::ptr::from_mut(&mut self.memory[(physical / 8) as usize]);
        // SAFETY: the word is in the vector. `Ram` reads it as an atomic too, on this thread.
        unsafe { (*place.cast::<AtomicU64>()).store(value, Ordering::Relaxed) }
    }

    /// The entry of an address in the table of a level, with the tables above it.
    fn entry(&mut self, address: u64, level: u32) -> u64 {
        let mut table = 1 << PAGE;
        for above in (level..4).rev() {
            let entry = table + (address >> (PAGE + 9 * above) & 0x1ff) * 8;
            if above == level {
                return entry;
            }
            if self.memory[(entry / 8) as usize] == 0 {
                self.set(entry, self.free << PAGE | WRITABLE);
                self.free += 1;
            }
            table = self.memory[(entry / 8) as usize] & !0xfff;
        }
        unreachable!("the level is below 4")
    }

    /// An access, which used a frame.
    fn access(&mut self, cpu: usize, address: u64, frame: u64, store: bool, by: u64) {
        let what = Accessed { address, by, store, fetch: false };
        self.watch.access(&mut self.cpus[cpu], what, Used(frame << PAGE | address & 0xfff));
    }

    /// The program loads from its page.
    fn loads(&mut self, cpu: usize, frame: u64) {
        self.access(cpu, PAGE_OF_PROGRAM, frame, false, PROGRAM);
    }

    fn stores(&mut self, cpu: usize, frame: u64) {
        self.access(cpu, PAGE_OF_PROGRAM, frame, true, PROGRAM);
    }

    /// The kernel stores to memory.
    fn kernel_stores(&mut self, cpu: usize, physical: u64, value: u64) {
        self.set(physical, value);
        self.access(cpu, KERNEL + physical, physical >> PAGE, true, CODE);
    }

    /// The kernel changes the entry of the program's page.
    fn map(&mut self, cpu: usize, entry: u64) {
        let place = self.entry(PAGE_OF_PROGRAM, 0);
        self.kernel_stores(cpu, place, entry);
    }

    /// INVLPG of the program's page.
    fn flushes(&mut self, cpu: usize) {
        let rax = crate::arch::x86::Address::base(0);
        let what = Instruction::Page(rax);
        self.watch.execute(&mut self.cpus[cpu], what, CODE, &Registers { first: PAGE_OF_PROGRAM });
    }

    /// A CPU loads the same tables.
    fn switches(&mut self, cpu: usize) {
        let what = Instruction::Control { number: 3, from: 0 };
        self.watch.execute(&mut self.cpus[cpu], what, CODE, &Registers { first: 1 << PAGE });
    }

    /// So much time passes that whoever has changed an entry has flushed.
    fn returns(&self) {
        NOW.set(NOW.get() + LATE);
        for shared in &self.watch.shared {
            shared.accesses.fetch_add(LATE_ACCESSES + 1, Ordering::Relaxed);
        }
    }

    /// The finds so far.
    fn finds(&self) -> Vec<Find> {
        let text = std::fs::read_to_string(&self.report).expect("it was written");
        let lines = text.lines().map(|line| serde_json::from_str(line).expect("a line of a report"));
        lines.filter_map(|line| if let Line::Find(find) = line { Some(*find) } else { None }).collect()
    }

    fn kinds(&self) -> Vec<Kind> {
        self.finds().iter().map(|find| find.kind).collect()
    }
}

#[test]
fn a_flushed_change_is_no_find() {
    let mut guest = Guest::new();
    guest.map(0, 100 << PAGE | WRITABLE);
    for frame in 101..110 {
        for cpu in [0, 1] {
            guest.stores(cpu, frame - 1);
            guest.loads(cpu, frame - 1);
        }
        guest.map(0, 0);
        guest.flushes(0);
        if frame % 2 == 0 {
            guest.flushes(1);
        } else {
            guest.switches(1);
        }
        guest.map(0, frame << PAGE | WRITABLE);
    }
    guest.loads(1, 109);
    assert_eq!(guest.kinds(), []);
}

#[test]
fn a_cpu_that_may_have_an_older_frame_is_found() {
    let mut guest = Guest::used();
    guest.map(0, 0);
    guest.flushes(0);
    guest.map(0, 101 << PAGE | WRITABLE);
    // CPU 0 has flushed, CPU 1 has not.
    guest.loads(0, 101);
    assert_eq!(guest.kinds(), []);
    guest.returns();
    guest.loads(1, 101);
    let finds = guest.finds();
    let [find] = &finds[..] else { panic!("{finds:?}") };
    assert_eq!((find.kind, find.frame, find.other, find.used.cpu), (Kind::StaleUse, 101, 100, 1));
    let changed = find.changed.clone().expect("it was seen");
    assert_eq!(
        (changed.before, changed.after, changed.place.cpu),
        (100 << PAGE | WRITABLE, 101 << PAGE | WRITABLE, 0)
    );
    assert!(changed.place.instruction == CODE && find.cached.time < changed.place.time);
    assert_eq!(find.dropped, None);
}

#[test]
fn a_cpu_that_uses_an_older_frame_is_found() {
    let mut guest = Guest::used();
    guest.map(0, 101 << PAGE | WRITABLE);
    guest.loads(1, 100);
    assert_eq!(guest.kinds(), [], "CPU 0 may be about to flush");
    guest.returns();
    guest.loads(1, 100);
    assert_eq!(guest.kinds(), [Kind::Incoherence]);
    assert_eq!((guest.finds()[0].frame, guest.finds()[0].other), (100, 101));
}

#[test]
fn two_frames_at_once_are_found_once_the_newer_one_was_written() {
    for (written, again, flushed) in
        [(true, true, false), (false, true, false), (true, false, false), (true, true, true)]
    {
        let mut guest = Guest::used();
        guest.map(0, 0);
        guest.map(0, 101 << PAGE | WRITABLE);
        guest.loads(0, 101);
        guest.loads(1, 100);
        guest.loads(1, 100);
        assert_eq!(guest.kinds(), [], "nobody can tell the frames apart");
        if flushed {
            guest.flushes(1);
        }
        if written {
            guest.stores(0, 101);
        }
        let frame = if flushed { 101 } else { 100 };
        guest.loads(1, frame);
        assert_eq!(guest.kinds(), [], "it may have been made before the store");
        if again {
            guest.loads(1, frame);
        }
        let is_found = written && again && !flushed;
        assert_eq!(guest.kinds(), if is_found { vec![Kind::Incoherence] } else { vec![] });
        let is_named = |find: &Find| find.written.as_ref().is_some_and(|place| place.instruction == PROGRAM);
        assert!(guest.finds().iter().all(is_named));
    }
}

#[test]
fn two_frames_at_once_are_found_once_a_thread_is_back_that_has_put_the_newer_one_there() {
    for (putter, returns, again) in [(8, true, true), (8, false, true), (8, true, false), (7, false, true)] {
        let mut guest = Guest::used();
        THREAD.set(7);
        guest.map(0, 0);
        THREAD.set(putter);
        guest.map(0, 101 << PAGE | WRITABLE);
        if returns {
            guest.loads(0, 101);
        }
        THREAD.set(9);
        guest.loads(1, 100);
        assert_eq!(guest.kinds(), [], "it may have been made before the return");
        if again {
            guest.loads(1, 100);
        }
        let is_found = returns && again;
        assert_eq!(guest.kinds(), if is_found { vec![Kind::Incoherence] } else { vec![] });
    }
}

#[test]
fn a_thread_that_was_interrupted_may_be_about_to_flush_its_own_cpu() {
    for (user, expected) in [(8, vec![]), (7, vec![Kind::Incoherence])] {
        let mut guest = Guest::new();
        guest.map(0, 100 << PAGE | WRITABLE);
        guest.loads(0, 100);
        THREAD.set(7);
        guest.map(0, 101 << PAGE | WRITABLE);
        THREAD.set(user);
        // The CPU is in the kernel all the time, so nothing says that thread 7 has returned.
        guest.access(0, PAGE_OF_PROGRAM, 100, false, CODE);
        assert_eq!(guest.kinds(), expected);
    }
}

#[test]
fn an_address_of_the_kernel_is_flushed_before_it_is_handed_out_again() {
    const AREA: u64 = 0xffff_c000_0000_0000;
    for (steps, flushed, used) in [(2, false, 100), (2, false, 101), (2, true, 101), (1, false, 100)] {
        let mut guest = Guest::new();
        let entry = guest.entry(AREA, 0);
        guest.kernel_stores(0, entry, 100 << PAGE | GLOBAL | WRITABLE);
        guest.access(1, AREA, 100, false, CODE);
        if steps == 2 {
            guest.kernel_stores(0, entry, 0);
        }
        if flushed {
            guest.watch.execute(
                &mut guest.cpus[1],
                Instruction::Page(crate::arch::x86::Address::base(0)),
                CODE,
                &Registers { first: AREA },
            );
        }
        guest.kernel_stores(0, entry, 101 << PAGE | GLOBAL | WRITABLE);
        guest.access(1, AREA, used, false, CODE);
        let expected = match (steps, flushed, used) {
            (2, false, 100) => vec![Kind::Incoherence],
            (2, false, _) => vec![Kind::StaleUse],
            // It may be about to flush.
            _ => vec![],
        };
        assert_eq!(guest.kinds(), expected, "{steps} {flushed} {used}");
    }
}

#[test]
fn a_mark_where_a_translation_was_is_a_promise_of_whoever_put_it_there() {
    for marked in [false, true] {
        let mut guest = Guest::used();
        THREAD.set(7);
        guest.map(0, 0);
        THREAD.set(8);
        if marked {
            guest.map(0, 0x800);
        }
        guest.access(0, PROGRAM, 99, false, PROGRAM);
        guest.loads(1, 100);
        assert_eq!(guest.kinds(), if marked { vec![Kind::LateUse] } else { vec![] });
    }
}

#[test]
fn a_lost_translation_may_be_used_until_the_change_is_over() {
    for late in [false, true] {
        let mut guest = Guest::used();
        guest.map(0, 0);
        if late {
            guest.returns();
        }
        guest.loads(1, 100);
        assert_eq!(guest.kinds(), if late { vec![Kind::LateUse] } else { vec![] });
    }
}

#[test]
fn a_change_of_another_frame_is_told_apart() {
    for again in [false, true] {
        let mut guest = Guest::used();
        guest.map(0, 0);
        if again {
            guest.map(0, 101 << PAGE | WRITABLE);
            guest.map(0, 0);
        }
        guest.returns();
        guest.loads(1, 100);
        let changes: Vec<_> = guest.finds().into_iter().filter_map(|find| find.changed).collect();
        assert_eq!(changes.iter().map(|changed| changed.again).collect::<Vec<_>>(), [again]);
    }
}

#[test]
fn once_a_thread_is_back_in_its_program_nobody_has_the_right_that_it_took_away() {
    for (back, flushed, stores) in [(7, false, 1), (7, false, 2), (8, false, 1), (7, true, 1), (7, true, 2)] {
        for user in [0, 1] {
            let mut guest = Guest::new();
            guest.map(0, 100 << PAGE | WRITABLE);
            guest.stores(user, 100);
            THREAD.set(7);
            if stores == 2 {
                guest.map(0, 0);
            }
            guest.map(0, 100 << PAGE | READ_ONLY);
            if flushed {
                guest.flushes(user);
            }
            // Loads are allowed.
            THREAD.set(back);
            guest.loads(0, 100);
            THREAD.set(9);
            guest.stores(user, 100);
            let expected = if back == 7 && !flushed { vec![Kind::LateUse] } else { vec![] };
            assert_eq!(guest.kinds(), expected, "{back} {flushed} {stores} {user}");
        }
    }
}

#[test]
fn a_page_that_is_clean_again_is_marked_by_the_next_store() {
    for (back, flushed, user) in [(7, false, 0), (7, false, 1), (8, false, 1), (7, true, 0), (7, true, 1)] {
        let mut guest = Guest::new();
        let entry = guest.entry(PAGE_OF_PROGRAM, 0);
        guest.map(0, 100 << PAGE | CLEAN);
        // The processor does that, and nobody sees it.
        guest.set(entry, 100 << PAGE | WRITABLE);
        guest.stores(user, 100);
        THREAD.set(7);
        guest.map(0, 100 << PAGE | CLEAN);
        if flushed {
            guest.flushes(user);
            guest.set(entry, 100 << PAGE | WRITABLE);
        }
        THREAD.set(back);
        guest.loads(0, 100);
        THREAD.set(9);
        guest.stores(user, 100);
        let expected = if back == 7 && !flushed { vec![Kind::LateUse] } else { vec![] };
        assert_eq!(guest.kinds(), expected, "{back} {flushed} {user}");
    }
}

#[test]
fn a_thread_with_a_program_has_more_time_than_one_without() {
    for (thread, seconds, expected) in
        [(0, 1, vec![Kind::LateUse]), (7, 1, vec![]), (7, PATIENCE, vec![Kind::LateUse])]
    {
        let mut guest = Guest::used();
        THREAD.set(thread);
        guest.map(0, 0);
        THREAD.set(0);
        (0..seconds).for_each(|_| guest.returns());
        guest.loads(1, 100);
        assert_eq!(guest.kinds(), expected, "{thread} {seconds}");
    }
}

#[test]
fn a_thread_that_still_changes_entries_has_yet_to_flush() {
    for (busy, expected) in [(7, vec![]), (8, vec![Kind::LateUse])] {
        let mut guest = Guest::used();
        let other = guest.entry(PAGE_OF_PROGRAM + (1 << PAGE), 0);
        THREAD.set(7);
        guest.map(0, 0);
        for step in 0..2 * PATIENCE {
            guest.returns();
            THREAD.set(busy);
            guest.kernel_stores(0, other, (200 + step) << PAGE | WRITABLE);
        }
        THREAD.set(9);
        guest.loads(1, 100);
        assert_eq!(guest.kinds(), expected);
    }
}

#[test]
fn rights_that_grow_need_no_flush() {
    let mut guest = Guest::new();
    guest.map(0, 100 << PAGE | READ_ONLY);
    guest.loads(1, 100);
    guest.map(0, 100 << PAGE | WRITABLE);
    guest.stores(1, 100);
    // The page is copied for a store: the processor drops what does not allow it.
    guest.map(0, 100 << PAGE | READ_ONLY);
    guest.flushes(1);
    guest.loads(1, 100);
    guest.map(0, 101 << PAGE | WRITABLE);
    guest.stores(1, 101);
    guest.loads(1, 101);
    assert_eq!(guest.kinds(), []);
    // What it may store through now, it may not later.
    guest.map(0, 0);
    guest.map(0, 102 << PAGE | WRITABLE);
    guest.returns();
    guest.stores(1, 102);
    assert_eq!(guest.kinds(), [Kind::StaleUse]);
}

#[test]
fn instructions_are_not_fetched_from_where_they_were() {
    for (after, flushed, used, expected) in [
        (101 << PAGE | WRITABLE, false, 100, vec![Kind::Incoherence]),
        (101 << PAGE | WRITABLE, false, 101, vec![Kind::StaleUse]),
        (101 << PAGE | WRITABLE, true, 101, vec![]),
        (100 << PAGE | WRITABLE | NO_EXECUTE, false, 100, vec![Kind::LateUse]),
        (100 << PAGE | WRITABLE, false, 100, vec![]),
    ] {
        let mut guest = Guest::new();
        guest.map(0, 100 << PAGE | WRITABLE);
        let fetches = |guest: &mut Guest, frame: u64| {
            let at = Registers { first: PAGE_OF_PROGRAM };
            guest.watch.fetch(&mut guest.cpus[1], PAGE_OF_PROGRAM, frame << PAGE, at);
        };
        fetches(&mut guest, 100);
        guest.map(0, after);
        if flushed {
            guest.flushes(1);
        }
        guest.returns();
        fetches(&mut guest, used);
        assert_eq!(guest.kinds(), expected);
        assert!(guest.finds().iter().all(|find| find.fetch && !find.store));
    }
}

#[test]
fn a_block_that_was_translated_for_another_address_is_fetched_from_its_own() {
    for (first, expected) in [(PAGE_OF_PROGRAM + 0x1000, vec![]), (PAGE_OF_PROGRAM, vec![Kind::StaleUse])] {
        let mut guest = Guest::used();
        let entry = guest.entry(PAGE_OF_PROGRAM + 0x1000, 0);
        guest.set(entry, 101 << PAGE | READ_ONLY);
        let physical = 101 << PAGE;
        guest.watch.fetch(&mut guest.cpus[1], PAGE_OF_PROGRAM, physical, Registers { first });
        assert_eq!(guest.kinds(), expected);
    }
}

#[test]
fn a_snapshot_makes_nobody_guilty() {
    for loaded in [false, true] {
        let mut guest = Guest::used();
        guest.map(0, 0);
        guest.map(0, 101 << PAGE | WRITABLE);
        guest.returns();
        if loaded {
            // The emulator puts the memory back to a time at which the page was another one.
            let entry = guest.entry(PAGE_OF_PROGRAM, 0);
            guest.set(entry, 102 << PAGE | WRITABLE);
            guest.watch.forget();
        }
        let frame = if loaded { 102 } else { 101 };
        (0..2).for_each(|_| guest.loads(1, frame));
        assert_eq!(guest.kinds(), if loaded { vec![] } else { vec![Kind::StaleUse] });
        if loaded {
            assert!(!guest.cpus[1].is_known(), "its registers are others");
            guest.cpus.iter_mut().for_each(|cpu| cpu.learn(&Registers { first: 0 }));
            guest.loads(1, 102);
            guest.loads(0, 102);
            guest.cpus[0].learn(&Registers { first: 0 });
            guest.map(0, 103 << PAGE | WRITABLE);
            guest.returns();
            guest.loads(1, 103);
            assert_eq!(guest.kinds(), [Kind::StaleUse], "all is seen again");
        }
    }
}

#[test]
fn a_report_ends_with_what_was_seen() {
    let mut guest = Guest::used();
    guest.map(0, 0);
    guest.flushes(1);
    // Nothing is there, so it is not compared.
    guest.access(1, 0x7000_0000, 0, false, PROGRAM);
    guest.watch.end();
    let text = std::fs::read_to_string(&guest.report).expect("it was written");
    let Some(Ok(Line::End(summary))) = text.lines().last().map(serde_json::from_str) else {
        panic!("{text}")
    };
    assert_eq!((summary.finds, summary.accesses, summary.invalidations, summary.unread), (0, 3, 1, 1));
    let [window] = &summary.windows[..] else { panic!("{text}") };
    assert!(window.longest > 0 && window.sum == window.longest && (window.count, window.given) == (1, 0));
}
