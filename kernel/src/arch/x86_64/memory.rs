//! The kernel's addresses: all of memory from the start of the upper half on, and the kernel itself in the last 2 GiB
//! (see `boot.s` in `entry`).

use core::sync::atomic::{AtomicU64, Ordering};

use x86_64::registers::control::Cr3;

/// The address at which the kernel maps all of memory.
const DIRECT: u64 = 0xffff_8000_0000_0000;
/// Bytes of memory that are mapped there.
pub(crate) const DIRECT_BYTES: u64 = 1 << 39;

/// The pattern in free frames. As a page-table entry it is present and has reserved bits set.
pub(crate) const POISON: u64 = 0x5eed_dead_f4ee_d001;

/// The address at which the kernel maps physical `address`. Only the owner of that memory may use the pointer.
pub(crate) fn direct<T>(address: u64) -> *mut T {
    debug_assert!(address < DIRECT_BYTES, "{address:#x} is beyond the memory that the kernel maps");
    (DIRECT + address) as *mut T
}

/// The end of the kernel's image in physical memory.
pub(crate) fn kernel_end() -> u64 {
    unsafe extern "C" {
        static kernel_end: u8;
    }
    // The linker script counts from the image's physical start.
    &raw const kernel_end as u64
}

/// The kernel's own root.
static KERNEL_ROOT: AtomicU64 = AtomicU64::new(0);

/// Notes that the root that is loaded now is the kernel's own.
pub(crate) fn adopt_kernel_root() {
    KERNEL_ROOT.store(Cr3::read().0.start_address().as_u64(), Ordering::Relaxed);
}

/// The address of the kernel's own root.
pub(super) fn kernel_root() -> u64 {
    KERNEL_ROOT.load(Ordering::Relaxed)
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
    const PRESENT_WRITABLE_GLOBAL: u64 = 0x103;
    const PRESENT_WRITABLE: u64 = 3;
    const FRAME: u64 = 0x000f_ffff_ffff_f000;
    let mut at = kernel_root();
    for level in (1..4).rev() {
        // SAFETY: `at` is a table of the kernel, which nothing else changes now.
        let entry =
            unsafe { &mut *direct::<u64>(at + 8 * ceasefire_memory::Table::index(address, level) as u64) };
        if *entry == 0 {
            *entry = table() | PRESENT_WRITABLE;
        }
        at = *entry & FRAME;
    }
    // SAFETY: as above.
    unsafe {
        *direct::<u64>(at + 8 * ceasefire_memory::Table::index(address, 0) as u64) =
            frame | PRESENT_WRITABLE_GLOBAL;
    };
}

/// Called when bytes were put into `frame` that may be executed. Instruction caches of this architecture see them
/// without help.
pub(crate) fn publish_code(_frame: u64) {}
