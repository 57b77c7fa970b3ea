//! Where things are: the kernel sees the first 4 GiB, devices and memory, from the middle of the upper half of the addresses
//! on, and itself there (see `boot.s` and `kernel.ld`). It has tables of its own, for the upper half alone.

use core::arch::asm;

use ceasefire_memory::{Table, PAGE_BYTES};

/// Where the kernel's view of all memory begins.
pub(super) const DIRECT: u64 = 0xffff_8000_0000_0000;
/// What that view reaches.
pub(super) const DIRECT_BYTES: u64 = 1 << 32;

/// Kinds of memory, by their place in `MAIR_EL1`. Page-table entries of programs' pages name the first (see
/// `ceasefire_memory::Aarch64`).
mod kind {
    /// Cached, written back.
    pub(super) const NORMAL: u64 = 0;
    /// Not cached nor reordered, but acknowledged early (nGnRE).
    pub(super) const DEVICE: u64 = 1;
}

/// `MAIR_EL1`: what those kinds are.
pub(super) const MAIR: u64 = 0xff << (8 * kind::NORMAL) | 0x04 << (8 * kind::DEVICE);

/// Attributes of the kernel's entries, whatever they lead to: used, no program may execute there.
const KERNEL: u64 = 1 << 10 | 1 << 54;
/// Of memory: shared with the other CPUs (inner).
pub(super) const NORMAL: u64 = KERNEL | 3 << 8 | kind::NORMAL << 2;
/// Of devices: nobody executes there.
pub(super) const DEVICE: u64 = KERNEL | 1 << 53 | kind::DEVICE << 2;
/// An entry that leads to a table, or of the lowest level to a page.
const VALID: u64 = 3;
const FRAME: u64 = 0x0000_ffff_ffff_f000;

/// What free frames hold: as a page-table entry of any level it leads beyond what addresses of this machine can be
/// (`tlb::TCR`), so that a walk through a table that was freed faults with a reason of its own.
pub(crate) const POISON: u64 = 0x5eed_dead_f4ee_d003;

/// Where the kernel sees physical `address`. A pointer to be used only by who owns that memory.
pub(crate) fn direct<T>(address: u64) -> *mut T {
    debug_assert!(address < DIRECT_BYTES, "{address:#x} is beyond the kernel's view of memory");
    (DIRECT + address) as *mut T
}

/// The physical address of something of the kernel's image.
pub(super) fn physical<T>(pointer: *const T) -> u64 {
    pointer as u64 - DIRECT
}

/// Where the kernel's image ends, in physical memory.
pub(super) fn kernel_end() -> u64 {
    unsafe extern "C" {
        static kernel_end: u8;
    }
    physical(&raw const kernel_end)
}

/// Where kernel stacks are, each below a page that is not there.
pub(crate) const STACKS: u64 = 0xffff_8080_0000_0000;

/// Maps a page of the kernel's own, in the part of the addresses where [`STACKS`] is. `table` gives zeroed pages for tables.
///
/// # Safety
/// While the kernel runs on one CPU and no program's root exists; the frame is the caller's.
pub(crate) unsafe fn map(address: u64, frame: u64, table: &mut dyn FnMut() -> u64) {
    unsafe extern "C" {
        static boot_root: u8;
    }
    let mut at = physical(&raw const boot_root);
    for level in (1..4).rev() {
        // SAFETY: `at` is a table of the kernel's, which nobody else changes now.
        let entry = unsafe { &mut *direct::<u64>(at + 8 * Table::index(address, level) as u64) };
        if *entry == 0 {
            *entry = table() | VALID;
        }
        at = *entry & FRAME;
    }
    // SAFETY: as above. Nothing was there before, so that nothing has to be invalidated; the walker sees it after the barrier.
    unsafe {
        *direct::<u64>(at + 8 * Table::index(address, 0) as u64) = frame | NORMAL | VALID;
        asm!("dsb ishst", "isb", options(nostack, preserves_flags));
    }
}

/// Bytes were put into `frame`, which may be executed from now on: instruction caches need not look there by themselves. One that
/// goes by virtual addresses may have the frame under programs' addresses too, so all of it goes.
pub(crate) fn publish_code(frame: u64) {
    const POLICY: u64 = 3 << 14;
    const BY_PHYSICAL_ADDRESS: u64 = 3 << 14;
    const IDC: u64 = 1 << 28;
    const DIC: u64 = 1 << 29;
    let types: u64;
    // SAFETY: reads what the caches are like.
    unsafe { asm!("mrs {}, ctr_el0", out(reg) types, options(nomem, nostack, preserves_flags)) };
    let start = direct::<u8>(frame * PAGE_BYTES) as u64;
    let lines = |width: u64| (start..start + PAGE_BYTES).step_by(4 << (width & 15));
    // SAFETY: cleaning and invalidating caches of memory that is mapped changes no contents.
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
