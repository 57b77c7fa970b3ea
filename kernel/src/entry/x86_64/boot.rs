//! From the loader to the kernel's main function, on every CPU.

use core::arch::global_asm;
use core::sync::atomic::AtomicUsize;

use super::trap;
use crate::arch::first_stacks;
use crate::arch::x86_64::memory::{adopt_kernel_root, direct, kernel_end, DIRECT_BYTES};
use crate::arch::x86_64::{boot, clock, features, interrupts, local_apic, this_cpu};
use crate::failure::refuse;
use crate::loader::free_memory::{largest, piece};
use crate::loader::Loaded;
use crate::start;

global_asm!(
    include_str!("boot.s"),
    start = sym enter,
    ap_start = sym enter_other,
    next = sym NEXT,
    stacks = sym first_stacks::STACKS,
    boot_stack = const first_stacks::BOOT_STACK,
    trampoline_at = const boot::TRAMPOLINE,
);

/// The number of the next application processor.
static NEXT: AtomicUsize = AtomicUsize::new(1);

/// The loader's information: Xen's `hvm_start_info`, from version 1 on with a memory map.
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

/// A file that the loader loaded.
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

/// The first CPU enters here from the loader, with interrupts off.
extern "C" fn enter(at: u64) -> ! {
    clock::begin();
    features::detect();
    // SAFETY: this is the first CPU, and no other CPU knows its data yet.
    unsafe { this_cpu::set(0) };
    trap::load();
    features::enable();
    adopt_kernel_root();
    interrupts::mask_old_controllers();
    local_apic::enable(interrupts::vector::SPURIOUS);
    clock::measure();
    // SAFETY: the loader put it there, in memory that the kernel maps and has not used yet.
    let info = unsafe { &*direct::<StartInfo>(at) };
    if info.magic != MAGIC || info.version < 1 {
        refuse(format_args!("the loader does not speak PVH with a memory map (QEMU from 4.0 on does)"));
    }
    boot::set_root_pointer(info.root_pointer);
    start::start(loaded(at, info))
}

/// Reads the loader's information `info`, which lies at physical address `at`.
fn loaded(at: u64, info: &StartInfo) -> Loaded {
    // SAFETY: the lists and the memory that they name lie where the loader says, and stay there: they are `taken`
    // below.
    let (map, modules, command_line) = unsafe {
        (
            core::slice::from_raw_parts(direct::<MemoryEntry>(info.memory_map), info.memory_entries as usize),
            core::slice::from_raw_parts(direct::<Module>(info.module_list), info.modules as usize),
            core::ffi::CStr::from_ptr(direct(info.command_line)),
        )
    };
    let programs = modules.first().map_or(&[][..], |module| {
        // SAFETY: as above.
        unsafe { core::slice::from_raw_parts(direct::<u8>(module.address), module.bytes as usize) }
    });
    let ram = map.iter().filter(|entry| entry.kind == RAM);
    let taken = [
        (0, kernel_end()),
        piece(at, size_of_val(info) as u64),
        piece(info.memory_map, size_of_val(map) as u64),
        piece(info.module_list, size_of_val(modules) as u64),
        piece(info.command_line, command_line.count_bytes() as u64 + 1),
        modules.first().map_or((0, 0), |module| piece(module.address, module.bytes)),
        (DIRECT_BYTES, u64::MAX),
    ];
    Loaded {
        memory: largest(ram.map(|entry| piece(entry.address, entry.bytes)), &taken),
        programs,
        command_line: command_line.to_str().unwrap_or(""),
    }
}

/// Another CPU enters here from the trampoline.
extern "C" fn enter_other() -> ! {
    local_apic::enable(interrupts::vector::SPURIOUS);
    let Some(number) = interrupts::cpu_of_apic(local_apic::id()) else {
        // A CPU that the firmware's table does not list is not used.
        loop {
            x86_64::instructions::hlt();
        }
    };
    // SAFETY: this CPU's own data, by the number of its APIC.
    unsafe { this_cpu::set(number) };
    trap::load();
    features::enable();
    start::start_other()
}
