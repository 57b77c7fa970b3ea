//! The kernel's addresses: the first 4 GiB, devices and memory with the kernel in it, from the middle of the upper half
//! on (see `boot.s` in `entry`, and `kernel.ld`). The kernel has tables of its own, for the upper half alone.

use core::arch::asm;

use ceasefire_memory::{Table, PAGE_BYTES};

/// The address at which the kernel maps all of memory.
pub(crate) const DIRECT: u64 = 0xffff_8000_0000_0000;
/// Bytes that are mapped there.
pub(crate) const DIRECT_BYTES: u64 = 1 << 32;

/// Kinds of memory, by their place in `MAIR_EL1`. Entries of programs' pages name the first (see
/// `ceasefire_memory::Aarch64`).
mod kind {
    /// Cached, written back.
    pub(super) const NORMAL: u64 = 0;
    /// Not cached and not reordered, but acknowledged early (nGnRE).
    pub(super) const DEVICE: u64 = 1;
}

/// `MAIR_EL1`: the attributes of those kinds.
pub(crate) const MAIR: u64 = 0xff << (8 * kind::NORMAL) | 0x04 << (8 * kind::DEVICE);

/// Attributes of all entries of the kernel: accessed, and not executable by programs.
const KERNEL: u64 = 1 << 10 | 1 << 54;
/// Of memory: shared with the other CPUs (inner).
pub(crate) const NORMAL: u64 = KERNEL | 3 << 8 | kind::NORMAL << 2;
/// Of devices: not executable by the kernel either.
pub(crate) const DEVICE: u64 = KERNEL | 1 << 53 | kind::DEVICE << 2;
/// An entry that leads to a table, or of the lowest level to a page.
const VALID: u64 = 3;
const FRAME: u64 = 0x0000_ffff_ffff_f000;

/// The pattern in free frames. As a page-table entry of any level it leads beyond the addresses of this machine
/// (`tlb::TCR`), so that a walk through a freed page-table page faults with a reason of its own.
pub(crate) const POISON: u64 = 0x5eed_dead_f4ee_d003;

/// The address at which the kernel maps physical `address`. Only the owner of that memory may use the pointer.
pub(crate) fn direct<T>(address: u64) -> *mut T {
    debug_assert!(address < DIRECT_BYTES, "{address:#x} is beyond the memory that the kernel maps");
    (DIRECT + address) as *mut T
}

/// The physical address of an item in the kernel's image.
pub(crate) fn physical<T>(pointer: *const T) -> u64 {
    pointer as u64 - DIRECT
}

/// The end of the kernel's image in physical memory.
pub(crate) fn kernel_end() -> u64 {
    unsafe extern "C" {
        static kernel_end: u8;
    }
    physical(&raw const kernel_end)
}

/// The address of the areas of kernel ranges; each has a GiB.
pub(crate) const AREAS: u64 = 0xffff_8100_0000_0000;
/// The address of kernel stacks, each above an unmapped page.
pub(crate) const STACKS: u64 = 0xffff_8080_0000_0000;

/// Maps a page of the kernel, in the part of the addresses where [`STACKS`] is. `table` gives zeroed pages for tables.
///
/// # Safety
/// Call it only while the kernel runs on one CPU and no program's root exists. The frame must be the caller's.
pub(crate) unsafe fn map(address: u64, frame: u64, table: &mut dyn FnMut() -> u64) {
    unsafe extern "C" {
        static boot_root: u8;
    }
    let mut at = physical(&raw const boot_root);
    for level in (1..4).rev() {
        // SAFETY: `at` is a table of the kernel, which nothing else changes now.
        let entry = unsafe { &mut *direct::<u64>(at + 8 * Table::index(address, level) as u64) };
        if *entry == 0 {
            *entry = table() | VALID;
        }
        at = *entry & FRAME;
    }
    // SAFETY: as above. The entry was empty before, so nothing has to be invalidated. The walker sees it after the
    // barriers (litmus: `publish.map`, see `tlb::publish_kernel`).
    unsafe {
        *direct::<u64>(at + 8 * Table::index(address, 0) as u64) = frame | NORMAL | VALID;
        asm!("dsb ishst", "isb", options(nostack, preserves_flags));
    }
}

/// Called when bytes were put into `frame` that may be executed. Instruction caches do not see them without help. A
/// cache that goes by virtual addresses may hold the frame under programs' addresses too, so all of it is invalidated.
/// Litmus: `publish.code` needs both DSBs, since a DMB completes no cache maintenance (DDI 0487 M.b, B2.3). The ISB is for
/// this CPU's own fetches.
pub(crate) fn publish_code(frame: u64) {
    const POLICY: u64 = 3 << 14;
    const BY_PHYSICAL_ADDRESS: u64 = 3 << 14;
    const IDC: u64 = 1 << 28;
    const DIC: u64 = 1 << 29;
    let types: u64;
    // SAFETY: reads the properties of the caches.
    unsafe { asm!("mrs {}, ctr_el0", out(reg) types, options(nomem, nostack, preserves_flags)) };
    let start = direct::<u8>(frame * PAGE_BYTES) as u64;
    let lines = |width: u64| (start..start + PAGE_BYTES).step_by(4 << (width & 15));
    // SAFETY: cleaning and invalidating caches of mapped memory changes no contents.
    unsafe {
        if types & IDC == 0 {
            for line in lines(types >> 16) {
                asm!("dc cvau, {}", in(reg) line, options(nostack, preserves_flags));
            }
        }
        asm!("dsb ish", options(nostack, preserves_flags));
        if types & DIC == 0 {
            if types & POLICY == BY_PHYSICAL_ADDRESS {
                for line in lines(types) {
                    asm!("ic ivau, {}", in(reg) line, options(nostack, preserves_flags));
                }
            } else {
                asm!("ic ialluis", options(nostack, preserves_flags));
            }
            asm!("dsb ish", options(nostack, preserves_flags));
        }
        asm!("isb", options(nostack, preserves_flags));
    }
}
