//! Roots and invalidations: the processor's side of `ceasefire::Platform`.
//!
//! The kernel has tables of its own for the upper half of the addresses. A program's root is for the lower half alone;
//! where no program runs an empty root is loaded. ASID `n` is hardware's ASID `n + 1`, since the empty root has 0.
//!
//! An invalidation is one instruction between barriers. A barrier before it makes the stores to page tables visible to
//! walkers. A barrier after it waits until it is done, and another keeps later instructions from having begun with the
//! old translations. For this CPU's own TLB it is the plain form of TLBI, with barriers that reach as far as the CPU
//! (NSH). Hardware broadcasts the inner-shareable form (IS), and DSB ISH waits for all broadcasts of *this* CPU. The
//! barrier before is not the form for stores alone (ISHST): often another CPU changed the tables, and this one only
//! read that it had.
//!
//! Arm's own model judges each sequence, and each with a barrier removed or weaker (`cargo xtask litmus`). The functions
//! name the tests that need their barriers, and the rules of DDI 0487 M.b.

use core::arch::asm;
use core::sync::atomic::{AtomicU32, Ordering};

use ceasefire::{Asid, Broadcast, Capabilities, Errata, Extent, Flush, Holders, Root, Walkers};
use ceasefire_memory::{FrameNumber, Table, ENTRIES, PAGE_SHIFT};

use super::features;
use super::memory::{direct, physical};
use crate::arch::aarch64_formats::tlbi::Operation;

/// `TCR_EL1` without the width of ASIDs. Both halves have 48 bits and pages of 4 KiB. Tables are cached, written back
/// and shared with all CPUs (inner). Physical addresses have 32 bits. Hardware sets access flags and marks entries as
/// dirty.
pub(crate) const TCR: u64 = {
    const HALF: u64 = 16 | 1 << 8 | 1 << 10 | 3 << 12;
    const PAGES_OF_UPPER_HALF: u64 = 2 << 30;
    const MANAGED: u64 = 1 << 39 | 1 << 40;
    HALF | HALF << 16 | PAGES_OF_UPPER_HALF | MANAGED
};
/// In it: ASIDs have 16 bits.
const WIDE: u64 = 1 << 36;
/// `SCTLR_EL1`: the bits that must be one; stack pointers are checked, caches and MMU are on.
pub(crate) const SCTLR: u64 = 0x30d0_0800 | 1 << 12 | 1 << 4 | 1 << 3 | 1 << 2 | 1;

/// Bits of an ASID.
static ASID_BITS: AtomicU32 = AtomicU32::new(8);

/// A root that translates nothing.
static EMPTY: Table = Table::new();

/// The processor's promises, without broadcasts.
///
/// Where hardware manages entries, a store through a cached clean entry must mark the entry in memory as dirty, by an
/// atomic change of the value that it reads there. If the translation is gone the store faults (DDI 0487, hardware
/// management of the dirty state; litmus: `clean-store.no-flush`). The boot refuses a processor without this.
pub(crate) fn capabilities() -> Capabilities {
    Capabilities { clean_stores_walk: true, asids: true, broadcast: None, walkers: Walkers::Locked }
}

/// How this processor broadcasts invalidations: for every space.
///
/// # Errors
/// None.
pub(crate) fn broadcasting() -> Result<Broadcast, &'static str> {
    let asids = (1 << ASID_BITS.load(Ordering::Relaxed)) - 1;
    let errata = Errata { repeated: features::repeats_broadcasts(), everyone: false };
    let broadcast = Broadcast::new(asids, features::tlbi().pages(), Holders::Every).map_err(|_| "ASIDs")?;
    Ok(broadcast.with_errata(errata))
}

/// Limits ASIDs to `bits` bits; with 0, or with more than there are, all are used. Call it on the first CPU before
/// others start and before any program's root is loaded.
pub(crate) fn set_asid_bits(bits: u32) {
    let most = features::asid_bits();
    ASID_BITS.store(if bits == 0 { most } else { bits.min(most) }, Ordering::Relaxed);
    enable_asids();
}

/// Makes this CPU use ASIDs as wide as the first CPU's. Call it before the CPU loads any program's root.
pub(crate) fn enable_asids() {
    // Hardware knows two widths. For a narrower limit fewer ASIDs are given out.
    let wide = if ASID_BITS.load(Ordering::Relaxed) > 8 { WIDE } else { 0 };
    // SAFETY: all else stays as `boot.s` set it, and nothing is tagged with an ASID yet. The register counts from the
    // barrier on; no litmus test has registers.
    unsafe { asm!("msr tcr_el1, {}", "isb", in(reg) TCR | wide, options(nostack, preserves_flags)) };
    invalidate_all();
}

/// The frame of the kernel's own root.
pub(crate) fn kernel_root_frame() -> FrameNumber {
    unsafe extern "C" {
        static boot_root: u8;
    }
    FrameNumber::new((physical(&raw const boot_root) >> PAGE_SHIFT) as u32)
}

/// Makes translations of the kernel that were installed visible to walkers. Litmus: `publish.kernel` needs both barriers.
/// Nothing is invalidated, since no TLB holds an entry that faults (D8.17, `I_WZCBG`).
pub(crate) fn publish_kernel() {
    // SAFETY: waits.
    unsafe { asm!("dsb ishst", "isb", options(nostack, preserves_flags)) };
}

/// Does nothing: the kernel has tables of its own.
pub(crate) fn share_kernel(_root: &Table) {}

/// A page table by its frame.
pub(crate) fn table(frame: FrameNumber) -> &'static Table {
    // SAFETY: the kernel maps all of memory all the time. A table is 4096 bytes of atomics, valid with any contents,
    // and frames are never taken away. The memory manager decides which code may change which entry.
    unsafe { &*direct::<Table>(u64::from(frame.get()) << PAGE_SHIFT) }
}

/// Hardware's tag for an ASID.
fn tag(asid: Asid) -> u64 {
    u64::from(asid.get() + 1) << 48
}

/// Loads a root. Litmus: `move` needs the DSB, since only a DSB of the CPU that broadcast waits for it (D8.17.8, `R_YNJCP`);
/// `root.new-table` needs the DSB and the ISB.
fn set_root(root: u64) {
    // SAFETY: the lower half is for programs alone. The barrier makes new tables visible to the walker, and completes
    // this CPU's broadcasts before another thread runs here.
    unsafe { asm!("dsb ish", "msr ttbr0_el1, {}", "isb", in(reg) root, options(nostack, preserves_flags)) };
}

/// Loads a program's root.
///
/// A flush comes first, while nothing is translated under that ASID. Walkers may have cached the way to page-table
/// pages that were freed since. A walk along that way, even for a speculative access, would set access flags in the
/// present contents of those frames.
///
/// Litmus: `root.recycled-asid`. Of the barriers there, each but the first ISB does its part; another covers it.
pub(crate) fn load_root(root: Root, asid: Asid, flush: bool) {
    if flush {
        load_kernel_root();
        invalidate_asid(asid);
    }
    set_root(root.0 | tag(asid));
}

/// Loads the root that translates nothing.
pub(crate) fn load_kernel_root() {
    set_root(physical(&raw const EMPTY));
}

/// In an operand of TLBI: the number of the page.
const NUMBER: u64 = (1 << 44) - 1;

/// Invalidates the entries that `flush` covers, tagged with `asid`.
///
/// Litmus: `local-VAE1` needs each barrier. `handler-VAE1.inbox` needs the first to be more than one for stores, because
/// another CPU changed the entry; `local-VAE1` more than one for loads. NSH suffices for a TLBI of one CPU (D8.17.8,
/// `R_PSMWS`; in the text since issue H.a). The model has taken DSB NSH for a barrier since January 2026 only; by that of
/// herd 7.58 every test of it occurs. The DSB completes the TLBI for this CPU only with the ISB (`R_BLDZX`).
pub(crate) fn invalidate(asid: Asid, flush: Flush) {
    let Some(addresses) = flush.addresses() else { return invalidate_asid(asid) };
    // SAFETY: translations that are still valid are found again.
    unsafe {
        asm!("dsb nsh", options(nostack, preserves_flags));
        for address in addresses {
            let page = tag(asid) | address >> PAGE_SHIFT & NUMBER;
            if flush.tables {
                asm!("tlbi vae1, {}", in(reg) page, options(nostack, preserves_flags));
            } else {
                asm!("tlbi vale1, {}", in(reg) page, options(nostack, preserves_flags));
            }
        }
        asm!("dsb nsh", "isb", options(nostack, preserves_flags));
    }
}

/// Invalidates all entries tagged with `asid`. Litmus: `local-ASIDE1`, as for [`invalidate`].
fn invalidate_asid(asid: Asid) {
    // SAFETY: as above.
    unsafe {
        asm!("dsb nsh", "tlbi aside1, {}", "dsb nsh", "isb", in(reg) tag(asid), options(nostack, preserves_flags));
    }
}

/// Invalidates all entries, under any tag. Litmus: `local-VMALLE1`, as for [`invalidate`].
pub(crate) fn invalidate_all() {
    // SAFETY: as above.
    unsafe { asm!("dsb nsh", "tlbi vmalle1", "dsb nsh", "isb", options(nostack, preserves_flags)) };
}

/// Invalidates a part of the kernel's half, with the entries that walkers cached on the way. Its entries have no tag.
/// Litmus: `local-VAAE1`, as for [`invalidate`].
pub(crate) fn invalidate_kernel(flush: Flush) {
    let Some(addresses) = flush.addresses() else { return invalidate_all() };
    // SAFETY: as above.
    unsafe {
        asm!("dsb nsh", options(nostack, preserves_flags));
        for address in addresses {
            let page = address >> PAGE_SHIFT & NUMBER;
            asm!("tlbi vaae1, {}", in(reg) page, options(nostack, preserves_flags));
        }
        asm!("dsb nsh", "isb", options(nostack, preserves_flags));
    }
}

/// Makes this CPU drop a translation with fewer rights, after an access was refused that the tables now allow. (Other
/// architectures drop it themselves when they refuse an access.) Litmus: `narrow.more-rights` needs each barrier.
pub(crate) fn invalidate_narrow(address: u64) {
    const TAG: u64 = 0xffff << 48;
    let loaded: u64;
    // SAFETY: as above; reads which root is loaded.
    unsafe {
        asm!("mrs {}, ttbr0_el1", out(reg) loaded, options(nomem, nostack, preserves_flags));
        let page = loaded & TAG | address >> PAGE_SHIFT;
        asm!("dsb nsh", "tlbi vae1, {}", "dsb nsh", "isb", in(reg) page, options(nostack, preserves_flags));
    }
}

/// Whose entries a broadcast of single translations takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Whose {
    /// Those tagged with the ASID in the operand, and those without a tag.
    Tagged,
    /// Those of every tag.
    Every,
}

/// Starts the invalidation of `flush` on every CPU. Litmus: `broadcast-ASIDE1IS`, as for [`broadcast_pages`].
pub(crate) fn broadcast(asid: Asid, flush: Flush) {
    if !broadcast_pages(tag(asid), Whose::Tagged, flush) {
        // SAFETY: as above.
        unsafe {
            asm!("dsb ish", "tlbi aside1is, {}", in(reg) tag(asid), options(nostack, preserves_flags));
        }
    }
}

/// Starts the invalidation of a part of the kernel's half on every CPU. Returns that the processor can.
pub(crate) fn broadcast_kernel(flush: Flush) -> bool {
    if !broadcast_pages(0, Whose::Every, flush) {
        broadcast_everything();
    }
    true
}

/// Starts the invalidation of the single translations of `flush` on every CPU. Returns whether it has any: a flush of
/// everything has none.
///
/// Litmus: `broadcast-VAE1IS` needs the DSB (D8.17.1, `R_DDMVT`, step 2), in its tests `.own` for stores, in those `.other`
/// for loads. In `batch-first` it also waits for the page before.
fn broadcast_pages(tag: u64, whose: Whose, Flush { extent, tables, mixed }: Flush) -> bool {
    let Extent::Pages { start, count, size } = extent else { return false };
    // SAFETY: as above.
    unsafe { asm!("dsb ish", options(nostack, preserves_flags)) };
    let alone = !tables && !mixed;
    for operation in features::tlbi().operations(tag, start, count, size, alone) {
        start_broadcast(operation, whose, tables);
    }
    true
}

/// Starts one broadcast, of entries of the last level or with the `tables` on the way to them.
fn start_broadcast(operation: Operation, whose: Whose, tables: bool) {
    // `VAE1IS`, `VALE1IS`, `VAAE1IS`, `VAALE1IS`, and for ranges the same with an `R` before them.
    match (whose, tables) {
        (Whose::Tagged, true) => start_numbered::<1>(operation),
        (Whose::Tagged, false) => start_numbered::<5>(operation),
        (Whose::Every, true) => start_numbered::<3>(operation),
        (Whose::Every, false) => start_numbered::<7>(operation),
    }
}

/// Starts one broadcast by the number of its TLBI instruction, since the assembler takes the names of ranges only where
/// it may assume ranges.
fn start_numbered<const NUMBER: u8>(operation: Operation) {
    // SAFETY: as above. A range is made only where the processor has ranges.
    unsafe {
        match operation {
            Operation::Page(bits) => {
                asm!("sys #0, c8, c3, #{}, {}", const NUMBER, in(reg) bits, options(nostack, preserves_flags));
            }
            Operation::Range(bits) => {
                asm!("sys #0, c8, c2, #{}, {}", const NUMBER, in(reg) bits, options(nostack, preserves_flags));
            }
        }
    }
}

/// Starts the invalidation of all entries on every CPU. Litmus: `broadcast-VMALLE1IS`, as for [`broadcast_pages`].
pub(crate) fn broadcast_everything() {
    // SAFETY: as above.
    unsafe { asm!("dsb ish", "tlbi vmalle1is", options(nostack, preserves_flags)) };
}

/// Waits for the broadcasts that this CPU started. Litmus: every `broadcast-` needs the DSB, for loads and stores (D8.17.8,
/// `R_PSMWS`, `R_LXHLD`); the tests `.self` need the ISB, for this CPU's own accesses (`R_BLDZX`).
pub(crate) fn broadcast_wait() {
    // SAFETY: waits.
    unsafe { asm!("dsb ish", "isb", options(nostack, preserves_flags)) };
}

const _: () = assert!(size_of::<Table>() == 8 * ENTRIES);
