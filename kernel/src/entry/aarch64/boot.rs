//! From the loader to the kernel's main function, on every CPU.

use core::arch::global_asm;

use super::trap;
use crate::arch::aarch64::memory::{kernel_end, physical, DIRECT_BYTES};
use crate::arch::aarch64::{
    boot, clock, console, features, gic, interrupts, memory, memory::direct, psci, this_cpu, tlb,
};
use crate::arch::first_stacks;
use crate::failure::refuse;
use crate::loader::device_tree::{self, Node, Tree};
use crate::loader::free_memory::{largest, piece, Piece};
use crate::loader::Loaded;
use crate::start;

global_asm!(
    include_str!("boot.s"),
    start = sym enter,
    start_other = sym enter_other,
    stacks = sym first_stacks::STACKS,
    boot_stack = const first_stacks::BOOT_STACK,
    mair = const memory::MAIR,
    tcr = const tlb::TCR,
    sctlr = const tlb::SCTLR,
    direct = const memory::DIRECT,
    normal = const memory::NORMAL,
    device = const memory::DEVICE,
);

unsafe extern "C" {
    /// Where memory begins, from the linker script.
    static memory_start: u8;
}

/// The first CPU enters here from the loader, with interrupts off.
extern "C" fn enter(argument: u64) -> ! {
    clock::begin();
    // SAFETY: this is the first CPU, and no other CPU knows its data yet.
    unsafe { this_cpu::set(0) };
    trap::load();
    tlb::set_asid_bits(0);
    if !features::manages_entries() {
        refuse(format_args!(
            "the processor does not manage dirty state (FEAT_HAFDBS; QEMU's `-cpu max` does)"
        ));
    }
    let (bytes, tree) = find_tree(argument);
    let tree = boot::set_tree(tree);
    if let Some((port, _)) = tree.find("arm,pl011").and_then(|node| places(node).next()) {
        console::set_port(port);
    }
    let firmware = ["arm,psci-1.0", "arm,psci-0.2"].iter().find_map(|name| tree.find(name));
    psci::set_secure(firmware.is_some_and(|node| node.text("method") == Some("smc")));
    let mut controller = tree.find("arm,gic-v3").into_iter().flat_map(places);
    let (Some((distributor, _)), Some(redistributors)) = (controller.next(), controller.next()) else {
        refuse(format_args!(
            "the machine has no interrupt controller of version 3 (QEMU's `-M virt,gic-version=3` has)"
        ));
    };
    gic::set_place(distributor, redistributors);
    interrupts::set_affinity(0, interrupts::own_affinity());
    take_interrupts();
    start::start(loaded(piece(physical(bytes.as_ptr()), bytes.len() as u64), tree))
}

/// Prepares this CPU for interrupts, which it then turns on. From now on it can be stopped.
fn take_interrupts() {
    let affinity = interrupts::own_affinity();
    if !gic::enable(affinity) {
        refuse(format_args!(
            "the interrupt controller has no redistributor for the CPU with affinity {affinity:#x}"
        ));
    }
    interrupts::let_be_stopped();
}

/// A node's registers at the kernel's addresses: the first, and how many bytes.
fn places(node: Node<'static>) -> impl Iterator<Item = (u64, u64)> {
    node.registers().filter(|&(start, bytes)| piece(start, bytes).1 <= DIRECT_BYTES)
}

/// The device tree and its bytes. They lie where the loader says, or at the start of memory, where QEMU puts them for a
/// kernel that is not Linux.
fn find_tree(argument: u64) -> (&'static [u8], Tree<'static>) {
    let start = physical(&raw const memory_start);
    // SAFETY: memory that the kernel maps and has not used yet. A tree there is not changed, because `loaded` leaves it
    // out.
    let found = [argument, start]
        .into_iter()
        .filter(|address| (start..DIRECT_BYTES).contains(address) && address % device_tree::ALIGNMENT == 0)
        .filter_map(|address| unsafe { device_tree::bytes_at(direct::<u8>(address)) })
        .find_map(|bytes| Some((bytes, Tree::new(bytes)?)));
    found.unwrap_or_else(|| refuse(format_args!("the loader gave no device tree")))
}

/// Reads the loader's information from the device tree, which lies in `place`.
fn loaded(place: Piece, tree: &Tree<'static>) -> Loaded {
    let programs = tree.find("multiboot,ramdisk").and_then(|node| places(node).next()).unwrap_or((0, 0));
    let memory = tree.of_type("memory").flat_map(Node::registers);
    let taken = [(0, kernel_end()), place, piece(programs.0, programs.1), (DIRECT_BYTES, u64::MAX)];
    Loaded {
        memory: largest(memory.map(|(start, bytes)| piece(start, bytes)), &taken),
        // SAFETY: the loader put it there, where it stays: it is `taken`.
        programs: unsafe { core::slice::from_raw_parts(direct(programs.0), programs.1 as usize) },
        command_line: tree.text("chosen", "bootargs").unwrap_or(""),
    }
}

/// Another CPU enters here from the firmware.
extern "C" fn enter_other(number: usize) -> ! {
    // SAFETY: this CPU's own data, by the number with which it was started.
    unsafe { this_cpu::set(number) };
    trap::load();
    tlb::enable_asids();
    take_interrupts();
    start::start_other()
}
