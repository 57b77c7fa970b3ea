//! Roots and invalidations: the processor's side of `ceasefire::Platform`.
//!
//! Without PCIDs a load of CR3 flushes all entries that are not global. With PCIDs, ASID `n` is PCID `n + 1`, since the
//! kernel's own tables run under PCID 0. A load then keeps tagged entries unless told otherwise.

use core::sync::atomic::{AtomicU32, Ordering};

use ceasefire::{Asid, Broadcast, Capabilities, Extent, Flush, Holders, PageSize, Root, Walkers};
use ceasefire_memory::{Entry, FrameNumber, Table, KERNEL_ENTRIES, PAGE_SHIFT};
use x86_64::instructions::tlb::{self, InvPcidCommand, InvlpgbFlushBuilder, Pcid};
use x86_64::registers::control::{Cr3, Cr3Flags, Cr4, Cr4Flags};
use x86_64::structures::paging::page::{NotGiantPageSize, PageRange};
use x86_64::structures::paging::{Page, PhysFrame, Size2MiB, Size4KiB};
use x86_64::{PhysAddr, VirtAddr};

use super::features;
use super::memory::{direct, kernel_root};

/// The PCIDs without the kernel's own: all of 12 bits, or fewer if the options say so.
static ASIDS: AtomicU32 = AtomicU32::new((1 << PCID_BITS) - 1);
const PCID_BITS: u32 = 12;
/// The processor's promises (SDM volume 3, sections 4.8 and 4.10), without broadcasts.
pub(crate) fn capabilities() -> Capabilities {
    Capabilities {
        clean_stores_walk: true,
        asids: features::PCID.is_there(),
        broadcast: None,
        walkers: Walkers::Locked,
    }
}

/// How this processor broadcasts invalidations: for wide spaces, under PCIDs.
///
/// # Errors
/// The feature that is missing.
pub(crate) fn broadcasting() -> Result<Broadcast, &'static str> {
    let hardware = features::invlpgb().filter(|_| features::PCID.is_there());
    let hardware = hardware.ok_or("INVLPGB with PCIDs (CPUID 8000_0008, EBX bit 3; CPUID 1, ECX bit 17)")?;
    let pages = u32::from(hardware.invlpgb_count_max());
    let asids = ASIDS.load(Ordering::Relaxed);
    Broadcast::new(asids, pages, Holders::Wide).map_err(|_| "more ASIDs than each CPU's own slots take")
}

/// Limits ASIDs to `bits` bits; with 0, or with more than there are, all are used. Call it before any program's root is
/// loaded.
pub(crate) fn set_asid_bits(bits: u32) {
    let bits = if bits == 0 { PCID_BITS } else { bits.min(PCID_BITS) };
    ASIDS.store((1 << bits) - 1, Ordering::Relaxed);
}

/// Copies the kernel's half into a program's root. It never changes once programs run.
pub(crate) fn share_kernel(root: &Table) {
    let kernel = table(kernel_root_frame());
    for index in KERNEL_ENTRIES {
        root.set(index, kernel.get(index));
    }
}

/// The frame of the kernel's own root.
pub(crate) fn kernel_root_frame() -> FrameNumber {
    FrameNumber::new((kernel_root() >> PAGE_SHIFT) as u32)
}

/// Makes translations of the kernel that were installed visible to walkers, which see all stores in order.
pub(crate) fn publish_kernel() {}

/// Removes from the kernel's own root the mappings that `boot.s` made in the half of programs. Each CPU runs it when
/// all have started.
pub(super) fn forget_low_memory() {
    let kernel = table(kernel_root_frame());
    kernel.set(0, Entry::NONE);
    reload();
}

/// A page table by its frame.
pub(crate) fn table(frame: FrameNumber) -> &'static Table {
    // SAFETY: the kernel maps all of memory all the time. A table is 4096 bytes of atomics, valid with any contents,
    // and frames are never taken away. The memory manager decides which code may change which entry.
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

/// Loads the kernel's own root. Tagged entries stay, since no program runs under this root.
pub(crate) fn load_kernel_root() {
    load(kernel_root(), 0, !features::PCID.is_there());
}

fn load(root: u64, pcid: u16, flush: bool) {
    let frame = PhysFrame::containing_address(PhysAddr::new(root));
    // SAFETY: the root has the kernel's half, so that the code continues where it is. A PCID other than 0 is used only
    // where CR4 turned PCIDs on.
    unsafe {
        match Pcid::new(pcid) {
            Ok(pcid) if pcid.value() != 0 && flush => Cr3::write_pcid(frame, pcid),
            Ok(pcid) if features::PCID.is_there() => Cr3::write_pcid_no_flush(frame, pcid),
            _ => Cr3::write(frame, Cr3Flags::empty()),
        }
    }
}

/// Loads the present root again, under its PCID, which flushes all entries of that PCID that are not global.
fn reload() {
    let (root, pcid) = Cr3::read_raw();
    // SAFETY: addresses translate as before.
    unsafe { Cr3::write_raw(root, pcid) };
}

/// Invalidates the entries that `flush` covers, tagged with `asid`. INVLPG also drops everything that the walker cached
/// on the way to any page (SDM volume 3, section 4.10.4.1).
pub(crate) fn invalidate(asid: Asid, flush: Flush) {
    let Some(addresses) = flush.addresses() else { return invalidate_asid(asid) };
    let pages = addresses.map(VirtAddr::new_truncate);
    match Pcid::new(asid.pcid()) {
        // The engine asks for an ASID that is not loaded only where it broadcasts. Those processors have INVPCID.
        Ok(pcid) if features::invlpgb().is_some() && pcid.value() != Cr3::read_raw().1 & 0xfff => {
            // SAFETY: the processor has the instruction.
            pages.for_each(|page| unsafe { tlb::flush_pcid(InvPcidCommand::Address(page, pcid)) });
        }
        _ => pages.for_each(tlb::flush),
    }
}

fn invalidate_asid(asid: Asid) {
    match Pcid::new(asid.pcid()) {
        Ok(pcid) if features::PCID.is_there() && features::INVPCID.is_there() => {
            // SAFETY: the processor has the instruction.
            unsafe { tlb::flush_pcid(InvPcidCommand::Single(pcid)) };
        }
        // The engine asks for the ASID that is loaded.
        _ => reload(),
    }
}

/// Invalidates all entries that are not global, under any tag.
pub(crate) fn invalidate_all() {
    if features::INVPCID.is_there() {
        // SAFETY: the processor has the instruction.
        unsafe { tlb::flush_pcid(InvPcidCommand::AllExceptGlobal) };
    } else if features::PCID.is_there() {
        toggle_global();
    } else {
        reload();
    }
}

/// Invalidates all entries, those that are global and those of any tag, by a change of PGE (SDM volume 3, section
/// 4.10.4.1).
fn toggle_global() {
    let flags = Cr4::read();
    // SAFETY: the kernel's pages translate alike whether they are global or not.
    unsafe {
        Cr4::write(flags - Cr4Flags::PAGE_GLOBAL);
        Cr4::write(flags);
    }
}

/// Invalidates a part of the kernel's half.
///
/// INVLPG takes global entries of any tag, and what walkers cached under the loaded tag alone (SDM volume 3, section
/// 4.10.4.1). Where there are other tags, freed page-table pages need a flush of everything.
pub(crate) fn invalidate_kernel(flush: Flush) {
    match flush.addresses() {
        Some(addresses) if !(flush.tables && features::PCID.is_there()) => {
            addresses.for_each(|address| tlb::flush(VirtAddr::new_truncate(address)));
        }
        _ if features::INVPCID.is_there() => {
            // SAFETY: the processor has the instruction.
            unsafe { tlb::flush_pcid(InvPcidCommand::All) };
        }
        _ => toggle_global(),
    }
}

/// Whose entries a broadcast takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Whose {
    /// Those tagged with a PCID.
    Tagged(Pcid),
    /// Those of any tag and those that are global.
    Every,
}

/// Starts the invalidation of a part of the kernel's half on every CPU, under any tag, with the entries that walkers
/// cached on the way. Returns whether the processor can.
pub(crate) fn broadcast_kernel(flush: Flush) -> bool {
    let Some(hardware) = features::invlpgb() else { return false };
    start_broadcast(hardware.build(), Whose::Every, flush.extent);
    true
}

/// Starts the invalidation of `flush` on every CPU, with the entries that walkers cached on the way.
pub(crate) fn broadcast(asid: Asid, flush: Flush) {
    let Some(hardware) = features::invlpgb() else { return };
    let Ok(pcid) = Pcid::new(asid.pcid()) else { return };
    start_broadcast(hardware.build(), Whose::Tagged(pcid), flush.extent);
}

/// Starts a broadcast. INVLPGB steps through a range by 4 KiB or 2 MiB (AMD's manual, volume 3); a larger page is
/// covered by steps of 2 MiB.
fn start_broadcast(flush: InvlpgbFlushBuilder<'_>, whose: Whose, extent: Extent) {
    match extent {
        Extent::All => flush_of(flush, whose),
        Extent::Pages { start, count, size } if size < PageSize::MIB_2 => {
            flush_of(flush.pages(steps::<Size4KiB>(start, count, size)), whose);
        }
        Extent::Pages { start, count, size } => {
            flush_of(flush.pages(steps::<Size2MiB>(start, count, size)), whose);
        }
    }
}

/// The steps over `count` pages of `size`, which is at least a step.
fn steps<S: NotGiantPageSize>(start: u64, count: u32, size: PageSize) -> PageRange<S> {
    let first = Page::containing_address(VirtAddr::new_truncate(start));
    PageRange { start: first, end: first + (u64::from(count) << size.shift()) / S::SIZE }
}

fn flush_of<S: NotGiantPageSize>(mut flush: InvlpgbFlushBuilder<'_, S>, whose: Whose) {
    match whose {
        // SAFETY: PCIDs are on where broadcasts are claimed.
        Whose::Tagged(pcid) => unsafe { flush.pcid(pcid) },
        Whose::Every => flush.include_global(),
    };
    flush.flush();
}

/// Starts the invalidation of all entries that are not global on every CPU.
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
