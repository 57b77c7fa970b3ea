//! Roots and invalidations: the processor's side of `ceasefire::Platform`.
//!
//! Without PCIDs loading CR3 flushes all that is not global. With them ASID `n` is PCID `n + 1`, since the kernel's own tables
//! run under PCID 0; loading then keeps what is tagged unless told otherwise.

use core::sync::atomic::{AtomicU32, Ordering};

use ceasefire::{Asid, Broadcast, Capabilities, Extent, Flush, Holders, PageSize, Root};
use ceasefire_memory::{Entry, FrameNumber, Table, KERNEL_ENTRIES, PAGE_SHIFT};
use x86_64::instructions::tlb::{self, InvPcidCommand, Pcid};
use x86_64::registers::control::{Cr3, Cr3Flags, Cr4, Cr4Flags};
use x86_64::structures::paging::page::PageRange;
use x86_64::structures::paging::{Page, PhysFrame, Size2MiB, Size4KiB};
use x86_64::{PhysAddr, VirtAddr};

use super::features;
use super::memory::{direct, kernel_root};

/// PCIDs beyond the kernel's own: those of 12 bits, unless fewer bits are to be used.
static ASIDS: AtomicU32 = AtomicU32::new((1 << PCID_BITS) - 1);
const PCID_BITS: u32 = 12;
/// What the processor promises (SDM volume 3, sections 4.8 and 4.10), but for broadcasts.
pub(crate) fn capabilities() -> Capabilities {
    Capabilities { clean_stores_walk: true, asids: features::PCID.is_there(), broadcast: None }
}

/// How this processor broadcasts invalidations: for wide spaces, under PCIDs.
///
/// # Errors
/// What it lacks for that.
pub(crate) fn broadcasting() -> Result<Broadcast, &'static str> {
    let hardware = features::invlpgb().filter(|_| features::PCID.is_there());
    let hardware = hardware.ok_or("INVLPGB with PCIDs (CPUID 8000_0008, EBX bit 3; CPUID 1, ECX bit 17)")?;
    let pages = u32::from(hardware.invlpgb_count_max());
    let asids = ASIDS.load(Ordering::Relaxed);
    Broadcast::new(asids, pages, Holders::Wide).map_err(|_| "more ASIDs than each CPU's own slots take")
}

/// Uses ASIDs of `bits` bits, if there are that many, or of as many as there are if it is 0. Before any program's root is
/// loaded.
pub(crate) fn set_asid_bits(bits: u32) {
    let bits = if bits == 0 { PCID_BITS } else { bits.min(PCID_BITS) };
    ASIDS.store((1 << bits) - 1, Ordering::Relaxed);
}

/// Copies the kernel's half into a program's root. It never changes once programs run.
pub(crate) fn share_kernel(root: &Table) {
    let kernel = table(FrameNumber::new((kernel_root() >> PAGE_SHIFT) as u32));
    for index in KERNEL_ENTRIES {
        root.set(index, kernel.get(index));
    }
}

/// Takes what `boot.s` mapped where programs will be out of the kernel's own root; on each CPU when all have started.
pub(super) fn forget_low_memory() {
    let kernel = table(FrameNumber::new((kernel_root() >> PAGE_SHIFT) as u32));
    kernel.set(0, Entry::NONE);
    reload();
}

/// A page table by its frame.
pub(crate) fn table(frame: FrameNumber) -> &'static Table {
    // SAFETY: the kernel maps all of memory all the time; a table is 4096 bytes of atomics, valid whatever they hold, and
    // frames are never taken away. Who may change which entry when is the memory manager's business.
    unsafe { &*direct::<Table>(u64::from(frame.get()) << PAGE_SHIFT) }
}

/// Loads a program's root.
pub(crate) fn load_root(root: Root, asid: Asid, flush: bool) {
    if features::PCID.is_there() {
        load(root.0, asid.pcid(), flush);
    } else {
        load(root.0, 0, true);
    }
}

/// Loads the kernel's own. What is tagged stays, where there are tags: no program runs under this one.
pub(crate) fn load_kernel_root() {
    load(kernel_root(), 0, !features::PCID.is_there());
}

fn load(root: u64, pcid: u16, flush: bool) {
    let frame = PhysFrame::containing_address(PhysAddr::new(root));
    // SAFETY: the root has the kernel's half, so that the code goes on where it is; a PCID other than 0 is only used where
    // CR4 turned them on.
    unsafe {
        match Pcid::new(pcid) {
            Ok(pcid) if pcid.value() != 0 && flush => Cr3::write_pcid(frame, pcid),
            Ok(pcid) if features::PCID.is_there() => Cr3::write_pcid_no_flush(frame, pcid),
            _ => Cr3::write(frame, Cr3Flags::empty()),
        }
    }
}

/// Loads the root that is loaded once more, under the PCID that it has: that flushes what is not global.
fn reload() {
    let (root, pcid) = Cr3::read_raw();
    // SAFETY: addresses translate as before.
    unsafe { Cr3::write_raw(root, pcid) };
}

/// Invalidates `count` translations that lie `size` apart, and what walkers cached on the way to them: under the PCID that is
/// loaded, for which the engine asks.
pub(crate) fn invalidate_pages(_asid: Asid, start: u64, count: u32, size: PageSize) {
    for index in 0..u64::from(count) {
        tlb::flush(VirtAddr::new_truncate(start + (index << size.shift())));
    }
}

/// Invalidates all that is tagged with `asid`.
pub(crate) fn invalidate_asid(asid: Asid) {
    match Pcid::new(asid.pcid()) {
        Ok(pcid) if features::PCID.is_there() && features::INVPCID.is_there() => {
            // SAFETY: the processor has the instruction.
            unsafe { tlb::flush_pcid(InvPcidCommand::Single(pcid)) };
        }
        // The engine asks for the ASID that is loaded.
        _ => reload(),
    }
}

/// Invalidates all that is not global, whatever its tag.
pub(crate) fn invalidate_all() {
    if features::INVPCID.is_there() {
        // SAFETY: the processor has the instruction.
        unsafe { tlb::flush_pcid(InvPcidCommand::AllExceptGlobal) };
    } else if features::PCID.is_there() {
        // Changing PGE flushes everything (SDM volume 3, section 4.10.4.1).
        let flags = Cr4::read();
        // SAFETY: whether the kernel's pages are global is no question of what they translate to.
        unsafe {
            Cr4::write(flags - Cr4Flags::PAGE_GLOBAL);
            Cr4::write(flags);
        }
    } else {
        reload();
    }
}

/// Starts to invalidate what `flush` covers on every CPU, with what walkers cached on the way.
pub(crate) fn broadcast(asid: Asid, flush: Flush) {
    let Some(hardware) = features::invlpgb() else { return };
    let Ok(pcid) = Pcid::new(asid.pcid()) else { return };
    match flush.extent {
        Extent::All => {
            let mut all = hardware.build();
            // SAFETY: PCIDs are on where broadcasts are claimed.
            unsafe { all.pcid(pcid) };
            all.flush();
        }
        Extent::Pages { start, count, size } => {
            let (start, bytes) = (VirtAddr::new_truncate(start), u64::from(count.max(1)) << size.shift());
            match size {
                PageSize::Small => {
                    let first = Page::<Size4KiB>::containing_address(start);
                    let mut pages =
                        hardware.build().pages(PageRange { start: first, end: first + (bytes >> 12) });
                    // SAFETY: as above.
                    unsafe { pages.pcid(pcid) };
                    pages.flush();
                }
                PageSize::Huge => {
                    let first = Page::<Size2MiB>::containing_address(start);
                    let mut pages =
                        hardware.build().pages(PageRange { start: first, end: first + (bytes >> 21) });
                    // SAFETY: as above.
                    unsafe { pages.pcid(pcid) };
                    pages.flush();
                }
            }
        }
    }
}

/// Starts to invalidate all that is not global on every CPU.
pub(crate) fn broadcast_everything() {
    if let Some(hardware) = features::invlpgb() {
        hardware.build().flush();
    }
}

/// Waits for the broadcasts that this CPU started.
pub(crate) fn broadcast_wait() {
    if let Some(hardware) = features::invlpgb() {
        hardware.tlbsync();
    }
}
