//! From the loader to the kernel's main function, on every CPU.

use core::arch::global_asm;
use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use spin::Once;

use super::memory::{self, direct, kernel_end, physical};
use super::{clock, console, features, gic, interrupts, psci, this_cpu, tlb, trap};
use crate::cpu::{self, MOST_CPUS};
use crate::device_tree::{Node, Tree};
use crate::failure::refuse;

/// How long all CPUs together may take to start, in nanoseconds: they may be emulated by few.
const PATIENCE: u64 = 10_000_000_000;
/// The stack that the first CPU begins with; it becomes its idle thread's. The memory manager comes to be here, 33 KiB of it,
/// and is moved a few times on its way to where it stays.
const BOOT_STACK: usize = 256 * 1024;

global_asm!(
    include_str!("boot.s"),
    start = sym start,
    start_other = sym start_other,
    stacks = sym STACKS,
    boot_stack = const BOOT_STACK,
    mair = const memory::MAIR,
    tcr = const tlb::TCR,
    sctlr = const tlb::SCTLR,
    direct = const memory::DIRECT,
    normal = const memory::NORMAL,
    device = const memory::DEVICE,
);

unsafe extern "C" {
    fn boot_other();
    /// Where memory begins, as the linker script has it.
    static memory_start: u8;
}

#[repr(C, align(16))]
struct BootStack(UnsafeCell<[u8; BOOT_STACK]>);

// SAFETY: only the first CPU runs on it.
unsafe impl Sync for BootStack {}

#[unsafe(export_name = "BOOT_STACK")]
static STACK: BootStack = BootStack(UnsafeCell::new([0; BOOT_STACK]));

/// The ends of the stacks that other CPUs begin with.
static STACKS: [AtomicU64; MOST_CPUS] = [const { AtomicU64::new(0) }; MOST_CPUS];
/// Other CPUs that have come as far as the kernel.
static STARTED: AtomicUsize = AtomicUsize::new(0);

static TREE: Once<Tree<'static>> = Once::new();

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
extern "C" fn start(argument: u64) -> ! {
    clock::begin();
    // SAFETY: the first CPU, which has told nobody of its data yet.
    unsafe { this_cpu::set(cpu::get(0)) };
    cpu::adopt_idle();
    trap::load();
    tlb::set_asid_bits(0);
    if !features::manages_entries() {
        refuse(format_args!(
            "the processor does not manage dirty state (FEAT_HAFDBS; QEMU's `-cpu max` does)"
        ));
    }
    let tree = TREE.call_once(|| find_tree(argument));
    if let Some(port) = tree.find("arm,pl011").and_then(|node| node.registers().next()) {
        console::set_port(port.0);
    }
    psci::set_secure(tree.find("arm,psci-1.0").is_some_and(|node| node.text("method") == Some("smc")));
    let Some(mut places) = tree.find("arm,gic-v3").map(|node| node.registers().map(|(address, _)| address))
    else {
        refuse(format_args!(
            "there is no interrupt controller of version 3 (QEMU's `-M virt,gic-version=3` has it)"
        ));
    };
    if let (Some(distributor), Some(redistributors)) = (places.next(), places.next()) {
        gic::set_place(distributor, redistributors);
    }
    interrupts::set_affinity(0, interrupts::own_affinity());
    gic::enable(interrupts::own_affinity());
    interrupts::let_be_stopped();
    crate::start(loaded(tree))
}

/// The device tree: where the loader says, or where QEMU puts it for a kernel that is no Linux, at the beginning of memory.
fn find_tree(argument: u64) -> Tree<'static> {
    let start = physical(&raw const memory_start);
    // SAFETY: memory that the kernel sees and has not used yet; nothing is changed where a tree is, as `loaded` leaves it out.
    let tree = [argument, start]
        .into_iter()
        .filter(|&address| address >= start)
        .find_map(|address| unsafe { Tree::at(direct::<u8>(address)) });
    tree.unwrap_or_else(|| refuse(format_args!("there is no device tree")))
}

fn loaded(tree: &Tree<'static>) -> Loaded {
    let programs = tree.find("multiboot,ramdisk").and_then(|node| node.registers().next()).unwrap_or((0, 0));
    let piece = |(start, bytes): (u64, u64)| {
        let (start, end) = (start.max(kernel_end()), start + bytes);
        // The programs' file is at one end or the other.
        match programs.0 {
            file if file >= start && file - start < end.saturating_sub(file) => (file + programs.1, end),
            file if file >= start => (start, file.min(end)),
            _ => (start, end),
        }
    };
    let pieces = tree.of_type("memory").flat_map(Node::registers).map(piece);
    Loaded {
        memory: pieces
            .filter(|(start, end)| start < end)
            .max_by_key(|(start, end)| end - start)
            .unwrap_or((0, 0)),
        // SAFETY: the loader put it there, where it stays: `memory` leaves it out.
        programs: unsafe { core::slice::from_raw_parts(direct(programs.0), programs.1 as usize) },
        command_line: tree.text("chosen", "bootargs").unwrap_or(""),
    }
}

/// How many CPUs there are, the first included. They are numbered from 0 in the order of the device tree, the first first.
pub(crate) fn count_cpus() -> usize {
    let Some(tree) = TREE.get() else { return 1 };
    let first = interrupts::affinity(0);
    let others = tree.of_type("cpu").filter_map(Node::number).filter(|&affinity| affinity != first);
    let mut count = 1;
    for affinity in others {
        if count < MOST_CPUS {
            interrupts::set_affinity(count, affinity);
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
    for (number, &stack) in (1..).zip(stacks) {
        STACKS[number].store(stack, Ordering::SeqCst);
        // SAFETY: the entry point makes it a CPU of the kernel's, on the stack that was set.
        unsafe {
            psci::start(interrupts::affinity(number), physical(boot_other as *const u8), number as u64)
        };
    }
    let deadline = clock::now() + PATIENCE;
    while STARTED.load(Ordering::Acquire) < stacks.len() && clock::now() < deadline {
        core::hint::spin_loop();
    }
    forget_low_memory();
    STARTED.load(Ordering::Acquire)
}

/// Another CPU comes from the firmware.
extern "C" fn start_other(number: usize) -> ! {
    // SAFETY: this CPU's own data, by the number that it was started with.
    unsafe { this_cpu::set(cpu::get(number)) };
    cpu::adopt_idle();
    trap::load();
    tlb::enable_asids();
    gic::enable(interrupts::affinity(number));
    interrupts::let_be_stopped();
    STARTED.fetch_add(1, Ordering::AcqRel);
    crate::start_other()
}

/// The processor's features that matter here, by name.
pub(crate) fn features() -> impl Iterator<Item = &'static str> {
    features::names()
}

/// This CPU leaves what only booting needed: see `boot.s`.
pub(crate) fn forget_low_memory() {
    tlb::load_kernel_root();
    tlb::invalidate_all();
}
