//! The processor's side: roots, tags, and invalidations on this CPU.
//!
//! x86-64 tags entries with PCIDs where it has them. ASID `n` is PCID `n + 1`, since the kernel's own tables have PCID 0.
//! A load of a root then keeps the entries of all tags unless it is told otherwise. Other processors load a root without
//! tags, and drop all entries.

use ceasefire::{Asid, Flush, Root};

use crate::{
    arch::mm,
    mm::{Paddr, kspace::KERNEL_PAGE_TABLE},
};

/// Turns tags on, on this CPU, and says whether they are: the same on all CPUs that have called [`turn_on`].
pub(super) use self::tags::{are_on as tags_are_on, turn_on as turn_tags_on};

/// Loads the root of a space under a tag, and drops the entries of that tag if `flush` says so.
///
/// # Safety
/// The root maps the kernel, and its tables live while it is loaded.
pub(super) unsafe fn load_root(root: Root, asid: Asid, flush: bool) {
    // SAFETY: the caller's promise.
    unsafe { tags::load(root.0 as Paddr, Some(asid), flush) }
}

/// Loads the kernel's own root.
pub(super) fn load_kernel_root() {
    let table = KERNEL_PAGE_TABLE.get().expect("a CPU is online after the kernel's tables were made");
    // SAFETY: these are the kernel's own tables, which are never freed.
    unsafe { tags::load(table.root_paddr(), None, false) }
}

/// Drops entries of the space that is loaded.
pub(super) fn invalidate(flush: Flush) {
    if !invalidate_pages(flush) {
        tags::flush_loaded();
    }
}

/// Drops the entries of single pages under the tag that is loaded, if that is enough for the flush.
fn invalidate_pages(flush: Flush) -> bool {
    // Only x86 drops the entries on the way to a page with the page.
    let addresses = flush.addresses().filter(|_| cfg!(target_arch = "x86_64") || !flush.tables);
    let enough = addresses.is_some();
    addresses.into_iter().flatten().for_each(|address| mm::tlb_flush_addr(address as usize));
    enough
}

/// Drops the entries of all spaces.
pub(super) fn invalidate_all() {
    if tags_are_on() {
        // On x86 it takes the entries of all tags; there is nothing between it and a flush of one.
        mm::tlb_flush_all_including_global();
    } else {
        tags::flush_loaded();
    }
}

/// Drops entries of the kernel's own addresses.
pub(super) fn invalidate_kernel(flush: Flush) {
    // Kernel ranges are not global in ostd. Where there are tags, each may have an entry of its own.
    if tags_are_on() || !invalidate_pages(flush) {
        mm::tlb_flush_all_including_global();
    }
}

/// x86-64.
#[cfg(target_arch = "x86_64")]
mod tags {
    use core::sync::atomic::{AtomicBool, Ordering};

    use ceasefire::Asid;
    use x86_64::{
        PhysAddr,
        instructions::tlb::Pcid,
        registers::control::{Cr3, Cr4, Cr4Flags},
        structures::paging::PhysFrame,
    };

    use crate::{arch::cpu::cpuid::cpuid, mm::Paddr};

    static ARE_ON: AtomicBool = AtomicBool::new(false);

    pub(in super::super) fn are_on() -> bool {
        ARE_ON.load(Ordering::Relaxed)
    }

    pub(in super::super) fn turn_on() {
        // Intel SDM volume 2, CPUID: leaf 1, ECX bit 17.
        if cpuid(1, 0).is_some_and(|leaf| leaf.ecx & 1 << 17 != 0) {
            // SAFETY: CR3 holds PCID 0, as the change of the bit demands: the kernel's tables are loaded, or those of
            // the boot, and neither has a tag.
            unsafe { Cr4::write(Cr4::read() | Cr4Flags::PCID) };
            ARE_ON.store(true, Ordering::Relaxed);
        }
    }

    /// # Safety
    /// The root maps the kernel, and its tables live while it is loaded.
    pub(super) unsafe fn load(root: Paddr, asid: Option<Asid>, flush: bool) {
        let frame = PhysFrame::containing_address(PhysAddr::new(root as u64));
        let pcid = asid.filter(|_| are_on()).map_or(0, Asid::pcid);
        match Pcid::new(pcid) {
            // SAFETY: the caller's promise for the root. The bit that keeps entries is used where tags are on.
            Ok(pcid) if are_on() && !flush => unsafe { Cr3::write_pcid_no_flush(frame, pcid) },
            // SAFETY: the caller's promise. Without tags the PCID is 0, and the bits are those of the cache policy.
            _ => unsafe { Cr3::write_raw(frame, pcid) },
        }
    }

    /// Drops all entries of the tag that is loaded but the global ones.
    pub(super) fn flush_loaded() {
        let (frame, bits) = Cr3::read_raw();
        // SAFETY: addresses translate as before.
        unsafe { Cr3::write_raw(frame, bits) };
    }
}

/// Other processors.
#[cfg(not(target_arch = "x86_64"))]
mod tags {
    use ceasefire::Asid;

    use crate::{arch::mm, mm::Paddr};

    pub(in super::super) const fn are_on() -> bool {
        false
    }

    pub(in super::super) const fn turn_on() {}

    /// # Safety
    /// The root maps the kernel, and its tables live while it is loaded.
    pub(super) unsafe fn load(root: Paddr, _: Option<Asid>, _: bool) {
        // SAFETY: the caller's promise.
        unsafe { mm::activate_page_table(root) };
        flush_loaded();
    }

    /// Drops all entries but the global ones.
    pub(super) fn flush_loaded() {
        mm::tlb_flush_all_excluding_global();
    }
}
