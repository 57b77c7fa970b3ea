//! What is judged otherwise where an architecture has what RISC-V has, and what other CPUs may be about to flush.

use super::*;
use crate::arch::riscv64::Riscv64;

/// The words of a page.
const WORDS: usize = 512;

/// The address of the memory.
const FIRST: u64 = 2 << 30;

/// The virtual address of the kernel's mapping of all memory.
const DIRECT: u64 = 0xffff_ffff_0000_0000;

const PROGRAM: u64 = 0x1_0000;
const KERNEL: u64 = DIRECT + 0x1000;

/// A user's page, and another one.
const PAGES: [u64; 2] = [0x1000_0000, 0x1000_1000];

/// SATP. The others are 0.
struct Registers(u64);

impl Operands for Registers {
    fn register(&self, index: usize) -> u64 {
        if Riscv64::REGISTERS[index] == "satp" {
            self.0
        } else {
            0
        }
    }

    fn load(&self, _: u64) -> Option<u64> {
        None
    }
}

/// SATP as ever, and the address of a block in A0.
struct Block(u64);

impl Operands for Block {
    fn register(&self, index: usize) -> u64 {
        match Riscv64::REGISTERS[index] {
            "a0" => self.0,
            _ => satp(0).register(index),
        }
    }

    fn load(&self, _: u64) -> Option<u64> {
        None
    }
}

#[derive(Clone, Copy)]
struct Seen(u64, u64, u64);

impl Operands for Seen {
    fn register(&self, index: usize) -> u64 {
        match Riscv64::REGISTERS[index] {
            "tp" => self.2,
            "pc" => self.0,
            _ => 0,
        }
    }

    fn load(&self, _: u64) -> Option<u64> {
        None
    }
}

impl Access for Seen {
    fn physical(self) -> Option<u64> {
        Some(self.0)
    }

    fn value(self) -> Option<u64> {
        Some(self.1)
    }

    fn bytes(self) -> u64 {
        8
    }
}

/// Each look at the clock takes a nanosecond.
fn now() -> u64 {
    static NOW: AtomicU64 = AtomicU64::new(0);
    NOW.fetch_add(1, Ordering::Relaxed)
}

/// A machine with two CPUs and tables in its first three pages.
struct Machine {
    memory: Vec<AtomicU64>,
    watch: Watch,
    cpus: [Cpu<Riscv64>; 2],
    _folder: tempfile::TempDir,
}

/// SATP with Sv39, an ASID, and the first page.
fn satp(asid: u64) -> Registers {
    Registers(8 << 60 | asid << 44 | FIRST >> PAGE)
}

fn frame(page: u64) -> u64 {
    (FIRST >> PAGE) + page
}

impl Machine {
    fn new() -> Self {
        let memory: Vec<AtomicU64> = (0..WORDS * 16).map(|_| AtomicU64::new(0)).collect();
        let folder = tempfile::tempdir().expect("a folder");
        let report = Report::create(&folder.path().join("report")).expect("a report");
        let mut watch = Watch::new("riscv64", 2, Code::default(), report, now);
        watch.ram = Ram::known(FIRST, (WORDS * 16 * 8) as u64, memory.as_ptr() as u64);
        let mut own = Self { memory, watch, cpus: [0, 1].map(Cpu::new), _folder: folder };
        for cpu in &mut own.cpus {
            cpu.learn(&satp(0));
        }
        let table = |page: u64| (FIRST + (page << PAGE)) >> 2 | 1;
        own.set(0, 0, table(1));
        own.set(1, 0x80, table(2));
        // The kernel's mapping, by pages of a gigabyte.
        for page in 0..4 {
            own.set(0, 508 + page, (page as u64) << 28 | 0x27);
        }
        own
    }

    fn set(&self, page: usize, index: usize, value: u64) {
        self.memory[WORDS * page + index].store(value, Ordering::Relaxed);
    }

    fn access(&mut self, cpu: usize, by: u64, address: u64, physical: u64, store: Option<u64>) {
        // Firmware has another thread's register.
        let thread = if address == physical { 1 } else { 2 + cpu as u64 };
        let what = Accessed { address, by, store: store.is_some(), fetch: false };
        self.watch.access(&mut self.cpus[cpu], what, Seen(physical, store.unwrap_or(0), thread));
    }

    /// The kernel stores to a word of a page.
    fn store(&mut self, cpu: usize, by: u64, page: usize, index: usize, value: u64) {
        self.set(page, index, value);
        let physical = FIRST + ((WORDS * page + index) * 8) as u64;
        self.access(cpu, by, DIRECT + physical, physical, Some(value));
    }

    /// The kernel has a user's page lead to another page, or nowhere.
    fn map(&mut self, cpu: usize, which: usize, to: Option<u64>) {
        let entry = to.map_or(0, |page| frame(page) << 10 | 0x17);
        self.store(cpu, KERNEL, 2, which, entry);
    }

    /// A program loads from a user's page, and the CPU uses this one.
    fn load(&mut self, cpu: usize, which: usize, page: u64) {
        self.access(cpu, PROGRAM, PAGES[which], frame(page) << PAGE, None);
    }

    /// A CPU fetches an instruction from a page.
    fn fetches(&mut self, cpu: usize, address: u64, page: u64) {
        let registers = Seen(address, 0, 2 + cpu as u64);
        let physical = FIRST + (page << PAGE);
        self.watch.fetch(&mut self.cpus[cpu], address, physical, registers);
    }

    fn fence(&mut self, cpu: usize) {
        let fence = Riscv64::decode(&0x1200_0073_u32.to_le_bytes()).expect("SFENCE.VMA");
        self.watch.execute(&mut self.cpus[cpu], fence, KERNEL, &Registers(0));
    }

    fn finds(&self) -> u64 {
        lock(&self.watch.report).finds()
    }
}

/// A machine in which CPU 1 has used page 4, and CPU 0 has changed the entry.
fn changed() -> Machine {
    let mut machine = Machine::new();
    machine.map(0, 0, Some(4));
    machine.map(0, 1, Some(6));
    machine.load(1, 0, 4);
    machine.load(0, 1, 6);
    machine.map(0, 0, None);
    machine
}

#[test]
fn a_use_without_a_fence_is_found() {
    let mut machine = changed();
    machine.map(0, 0, Some(5));
    machine.load(0, 1, 6);
    machine.load(1, 0, 5);
    assert_eq!(machine.finds(), 1);
    // The translation is another one now.
    machine.load(1, 0, 5);
    assert_eq!(machine.finds(), 1);
    // Neither what it has cached nor what the tables have.
    machine.map(0, 1, Some(7));
    machine.load(1, 0, 4);
    assert_eq!(machine.finds(), 2);
}

#[test]
fn a_table_that_is_cleared_by_blocks_is_one_no_longer() {
    for cleared in [false, true] {
        let mut machine = changed();
        let entry = machine.memory[WORDS * 2].load(Ordering::Relaxed);
        machine.store(0, KERNEL, 2, 0, frame(4) << 10 | 0x17);
        if cleared {
            let zero = Riscv64::decode(&0x0045_200f_u32.to_le_bytes()).expect("CBO.ZERO");
            let registers = Block(DIRECT + FIRST + (2 << PAGE));
            machine.watch.execute(&mut machine.cpus[0], zero, KERNEL, &registers);
        }
        assert_eq!(machine.watch.frames.version(frame(2)) == 0, cleared);
        // What is stored there now may look like an entry.
        machine.store(0, KERNEL, 2, 0, entry);
        let changed = machine.watch.tables.change(FIRST + (2 << PAGE));
        assert_eq!(changed.is_some_and(|change| change.before != 0 && change.after == entry), !cleared);
    }
}

#[test]
fn a_use_after_a_fence_is_not() {
    let mut machine = changed();
    machine.map(0, 0, Some(5));
    machine.fence(1);
    machine.load(0, 1, 6);
    machine.load(1, 0, 5);
    assert_eq!(machine.finds(), 0);
}

#[test]
fn a_use_before_the_changer_can_have_flushed_is_not_yet() {
    let mut machine = changed();
    // The CPU has faulted, and its own kernel has found another page.
    machine.map(1, 0, Some(5));
    machine.load(1, 0, 5);
    assert_eq!(machine.finds(), 0);
    // Firmware does not end that, not even at its first instruction, with the registers of the kernel.
    machine.fetches(0, FIRST, 0);
    machine.access(0, FIRST, FIRST + 8, FIRST + 8, None);
    machine.load(1, 0, 5);
    assert_eq!(machine.finds(), 0);
    machine.store(0, KERNEL, 9, 0, 1);
    // The other page of the program has its code.
    machine.fetches(0, PAGES[1], 6);
    machine.load(1, 0, 5);
    assert_eq!(machine.finds(), 1);
}

#[test]
fn untranslated_accesses_are_not_compared() {
    let mut machine = Machine::new();
    let physical = FIRST + (7 << PAGE);
    // A program's page at the address that page 7 has.
    machine.set(0, 2, (FIRST + (3 << PAGE)) >> 2 | 1);
    machine.set(3, (physical >> 21 & 0x1ff) as usize, (FIRST + (8 << PAGE)) >> 2 | 1);
    machine.set(8, (physical >> PAGE & 0x1ff) as usize, frame(9) << 10 | 0x17);
    let program = |machine: &mut Machine, page: u64| {
        machine.fetches(0, physical, 9);
        machine.access(0, PROGRAM, physical, frame(page) << PAGE, None);
    };
    program(&mut machine, 9);
    machine.fetches(0, FIRST, 0);
    machine.access(0, FIRST, physical, physical, Some(1));
    program(&mut machine, 9);
    assert_eq!(machine.finds(), 0);
    machine.store(0, KERNEL, 8, 0, frame(10) << 10 | 0x17);
    program(&mut machine, 4);
    assert_eq!(machine.finds(), 1);
}

#[test]
fn what_is_loaded_is_read_after_the_instruction() {
    let mut machine = changed();
    let write = Riscv64::decode(&0x1805_1073_u32.to_le_bytes()).expect("csrw satp, a0");
    let load = |machine: &mut Machine, asid: u64| {
        let cpu = &mut machine.cpus[1];
        machine.watch.execute(cpu, write, KERNEL, &Registers(0));
        assert!(!cpu.is_known());
        cpu.learn(&satp(asid));
        machine.load(1, 0, 5);
        machine.finds()
    };
    machine.map(0, 0, Some(5));
    machine.load(0, 1, 6);
    assert_eq!([3, 0].map(|asid| load(&mut machine, asid)), [0, 1]);
}
