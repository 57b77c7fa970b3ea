//! From the loader to the kernel's main function, on every CPU.

use core::arch::global_asm;
use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use super::memory::{direct, kernel_end};
use super::{clock, features, interrupts, local_apic, madt, this_cpu, tlb, trap};
use crate::cpu::{self, MOST_CPUS};

/// Where the trampoline of application processors goes: a page below 1 MiB that firmware leaves alone.
const TRAMPOLINE: u64 = 0x8000;
/// How long all CPUs together may take to start, in nanoseconds: they may be emulated by few.
const PATIENCE: u64 = 10_000_000_000;
/// The stack that the first CPU begins with; it becomes its idle thread's. The memory manager comes to be here, 33 KiB of it,
/// and is moved a few times on its way to where it stays.
const BOOT_STACK: usize = 256 * 1024;

global_asm!(
    include_str!("boot.s"),
    start = sym start,
    ap_start = sym ap_start,
    next_stack = sym NEXT_STACK,
    stacks = sym STACKS,
    boot_stack = const BOOT_STACK,
    trampoline_at = const TRAMPOLINE,
);

#[repr(C, align(16))]
struct BootStack(UnsafeCell<[u8; BOOT_STACK]>);

// SAFETY: only the first CPU runs on it.
unsafe impl Sync for BootStack {}

#[unsafe(export_name = "BOOT_STACK")]
static STACK: BootStack = BootStack(UnsafeCell::new([0; BOOT_STACK]));

/// The ends of the stacks that application processors begin with, and which is the next.
static STACKS: [AtomicU64; MOST_CPUS] = [const { AtomicU64::new(0) }; MOST_CPUS];
static NEXT_STACK: AtomicUsize = AtomicUsize::new(0);
/// Application processors that have come as far as the kernel.
static STARTED: AtomicUsize = AtomicUsize::new(0);
/// The ACPI tables' root pointer.
static ROOT_POINTER: AtomicU64 = AtomicU64::new(0);

/// What the loader hands over: Xen's `hvm_start_info`, of version 1 on with a map of memory.
#[repr(C)]
struct StartInfo {
    magic: u32,
    version: u32,
    flags: u32,
    modules: u32,
    module_list: u64,
    command_line: u64,
    root_pointer: u64,
    memory_map: u64,
    memory_entries: u32,
}

/// A file that the loader loaded too.
#[repr(C)]
struct Module {
    address: u64,
    bytes: u64,
}

/// A piece of memory.
#[repr(C)]
struct MemoryEntry {
    address: u64,
    bytes: u64,
    kind: u32,
    reserved: u32,
}

const MAGIC: u32 = 0x336e_c578;
const RAM: u32 = 1;

/// What the loader said.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Loaded {
    /// The largest piece of memory that nothing is in yet, from one physical address up to another.
    pub(crate) memory: (u64, u64),
    /// The file with the programs.
    pub(crate) programs: &'static [u8],
    /// The command line.
    pub(crate) command_line: &'static str,
}

/// The first CPU comes from the loader, with interrupts off.
extern "C" fn start(info: u64) -> ! {
    clock::begin();
    features::detect();
    // SAFETY: the first CPU, which has told nobody of its data yet.
    unsafe { this_cpu::set(cpu::get(0)) };
    cpu::adopt_idle();
    trap::load();
    features::enable();
    tlb::adopt_kernel_root();
    interrupts::mask_old_controllers();
    local_apic::enable(interrupts::vector::SPURIOUS);
    clock::measure();
    // SAFETY: the loader put it there, in memory that the kernel sees and has not used yet.
    let info = unsafe { &*direct::<StartInfo>(info) };
    if info.magic != MAGIC || info.version < 1 {
        crate::failure::refuse(format_args!(
            "the loader does not speak PVH with a map of memory (QEMU from 4.0 on does)"
        ));
    }
    ROOT_POINTER.store(info.root_pointer, Ordering::Relaxed);
    crate::start(loaded(info))
}

fn loaded(info: &StartInfo) -> Loaded {
    // SAFETY: the lists and what they name lie where the loader says, and stay there: `memory` below leaves them out.
    let (map, modules, command_line) = unsafe {
        (
            core::slice::from_raw_parts(direct::<MemoryEntry>(info.memory_map), info.memory_entries as usize),
            core::slice::from_raw_parts(direct::<Module>(info.module_list), info.modules as usize),
            core::ffi::CStr::from_ptr(direct(info.command_line)),
        )
    };
    let free = |entry: &MemoryEntry| {
        let start =
            if entry.address <= kernel_end() { kernel_end().max(entry.address) } else { entry.address };
        // Modules are at one end or the other.
        let end = modules.iter().filter(|module| module.address >= start).map(|module| module.address);
        let start = modules
            .iter()
            .map(|module| module.address + module.bytes)
            .filter(|&end| end > start && end < start + (entry.bytes >> 4))
            .fold(start, u64::max);
        (start, end.filter(|&end| end > start).fold(entry.address + entry.bytes, u64::min))
    };
    let pieces = map.iter().filter(|entry| entry.kind == RAM).map(free).filter(|(start, end)| start < end);
    let programs = modules.first().map_or(&[][..], |module| {
        // SAFETY: as above.
        unsafe { core::slice::from_raw_parts(direct::<u8>(module.address), module.bytes as usize) }
    });
    Loaded {
        memory: pieces.max_by_key(|(start, end)| end - start).unwrap_or((0, 0)),
        programs,
        command_line: command_line.to_str().unwrap_or(""),
    }
}

/// How many CPUs there are, the first included. They are numbered from 0 in the order of the firmware's table, the first first.
pub(crate) fn count_cpus() -> usize {
    let first = local_apic::id();
    interrupts::set_apic(0, first);
    let others = madt::apics(ROOT_POINTER.load(Ordering::Relaxed)).filter(|&id| id != first);
    let mut count = 1;
    for id in others {
        if count < MOST_CPUS {
            interrupts::set_apic(count, id);
        }
        count += 1;
    }
    count
}

/// Starts all other CPUs, each on one of the stacks that end there; how many came in time.
///
/// # Safety
/// The stacks are given up for it.
pub(crate) unsafe fn start_others(stacks: &[u64]) -> usize {
    unsafe extern "C" {
        static trampoline: u8;
        static trampoline_end: u8;
    }
    for (slot, &stack) in STACKS.iter().zip(stacks) {
        slot.store(stack, Ordering::SeqCst);
    }
    let (start, end) = (&raw const trampoline, &raw const trampoline_end);
    // SAFETY: the page is memory that nobody uses, and long enough; the trampoline's code runs wherever it was copied to.
    unsafe { core::ptr::copy_nonoverlapping(start, direct::<u8>(TRAMPOLINE), end as usize - start as usize) };
    local_apic::send_init_to_others();
    let deadline = clock::now() + 10_000_000;
    while clock::now() < deadline {
        core::hint::spin_loop();
    }
    local_apic::send_startup_to_others((TRAMPOLINE >> 12) as u8);
    let deadline = clock::now() + PATIENCE;
    while STARTED.load(Ordering::Acquire) < stacks.len() && clock::now() < deadline {
        core::hint::spin_loop();
    }
    tlb::forget_low_memory();
    STARTED.load(Ordering::Acquire)
}

/// Another CPU comes from the trampoline.
extern "C" fn ap_start() -> ! {
    local_apic::enable(interrupts::vector::SPURIOUS);
    let Some(number) = interrupts::cpu_of_apic(local_apic::id()) else {
        // Not in the firmware's table: it does not exist for us.
        loop {
            x86_64::instructions::hlt();
        }
    };
    // SAFETY: this CPU's own data, as its APIC's number says.
    unsafe { this_cpu::set(cpu::get(number)) };
    cpu::adopt_idle();
    trap::load();
    features::enable();
    STARTED.fetch_add(1, Ordering::AcqRel);
    crate::start_other()
}

/// The processor's features that matter here, by name.
pub(crate) fn features() -> impl Iterator<Item = &'static str> {
    features::names()
}

/// This CPU leaves what only booting needed: see `boot.s`.
pub(crate) fn forget_low_memory() {
    tlb::forget_low_memory();
}
