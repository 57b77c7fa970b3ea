//! 64-bit Arm at EL1.

use core::arch::{asm, global_asm};

use super::Page::{Global, Joined, Large, Small};
use super::{case, Case, Page, Table};

/// The first address of the memory of QEMU's `virt`.
pub(super) const MEMORY: u64 = 1 << 30;

global_asm!(
    ".section .start, \"ax\"",
    ".globl start",
    "start:",
    "    adrp x0, STACK_END",
    "    mov sp, x0",
    "    bl prepare",
    "    adrp x0, ROOT",
    "    msr ttbr0_el1, x0",
    // Device memory, and normal memory that is cached.
    "    mov x0, #0xff00",
    "    msr mair_el1, x0",
    // 48 bits, granules of 4 KiB, cached walks, no other half, 16 bits of ASID, 44 bits of physical addresses.
    "    ldr x0, =0x0000001400803510",
    "    msr tcr_el1, x0",
    "    isb",
    "    mrs x0, sctlr_el1",
    "    orr x0, x0, #1",
    "    msr sctlr_el1, x0",
    "    isb",
    "    bl run",
    ".bss",
    ".align 12",
    "STACK: .skip 16384",
    ".globl STACK_END",
    "STACK_END:",
    "    .skip 8",
);

#[no_mangle]
static ROOT: Table = Table::empty();
static UPPER: Table = Table::empty();

/// An entry: valid, used, inner shareable.
const VALID: u64 = 1 << 10 | 3 << 8 | 1;

/// The devices' gigabyte and the memory's, as they are.
#[no_mangle]
extern "C" fn prepare() {
    use core::sync::atomic::Ordering::Relaxed;
    ROOT.0[0].store(core::ptr::from_ref(&UPPER) as u64 | 3, Relaxed);
    UPPER.0[0].store(VALID, Relaxed);
    UPPER.0[1].store(1 << 30 | VALID | 1 << 2, Relaxed);
}

pub(super) fn root() -> &'static Table {
    &ROOT
}

pub(super) fn table(address: u64) -> u64 {
    address | 3
}

pub(super) fn table_of(entry: u64) -> u64 {
    entry & 0x0000_ffff_ffff_f000
}

pub(super) fn page(frame: u64, page: Page) -> u64 {
    let contiguous = if page == Joined { 1 << 52 } else { 0 };
    frame
        | VALID
        | 1 << 2
        | contiguous
        | if page == Large { 0 } else { 2 }
        | if page == Global { 0 } else { 1 << 11 }
}

/// Stores are seen by walks after a barrier.
pub(super) fn publish() {
    // SAFETY: barriers.
    unsafe { asm!("dsb ishst", "isb", options(nostack)) }
}

pub(super) fn has(_: &str) -> bool {
    true
}

pub(super) fn send(byte: u8) {
    // SAFETY: the serial port of QEMU's `virt`.
    unsafe { core::ptr::with_exposed_provenance_mut::<u8>(0x0900_0000).write_volatile(byte) }
}

pub(super) fn end() -> ! {
    loop {
        // SAFETY: PSCI's SYSTEM_OFF.
        unsafe { asm!("hvc #0", inout("x0") 0x8400_0008_u64 => _, options(nomem, nostack)) }
    }
}

macro_rules! tlbi {
    ($what:literal, $operand:expr, $after:literal) => {{
        let operand: u64 = $operand;
        // SAFETY: a TLB may be flushed at any time.
        unsafe { asm!(".arch_extension tlb-rmi", concat!("tlbi ", $what), $after, "isb", in("x0") operand, options(nostack)) }
    }};
}

/// The operand that names an address, and one with the ASID above it.
fn named(address: u64) -> u64 {
    address >> 12
}

const OTHER_ASID: u64 = 5 << 48;

/// A hint: granules of 4 KiB and the last level; granules of 64 KiB and the last level.
const RIGHT: u64 = 0b0111 << 44;
const WRONG: u64 = 0b1111 << 44;

/// A range: granules of 4 KiB, two of them from the address on.
fn range(address: u64) -> u64 {
    1 << 46 | address >> 12
}

/// What the architecture says of each instruction (Arm ARM, sections C5.5 and D8.16).
pub(super) const CASES: &[Case] = &[
    case!("nothing", Small, true, |_| ()),
    case!("vae1", Small, false, |address| tlbi!("vae1, x0", named(address), "dsb nsh")),
    case!("vae1 without a barrier", Small, true, |address| tlbi!("vae1, x0", named(address), "")),
    case!("vae1 with a barrier of stores", Small, true, |address| {
        tlbi!("vae1, x0", named(address), "dsb ishst");
    }),
    case!("vae1 of the next page", Small, true, |address| tlbi!(
        "vae1, x0",
        named(address + 4096),
        "dsb nsh"
    )),
    case!("vae1 of another asid", Small, true, |address| {
        tlbi!("vae1, x0", OTHER_ASID | named(address), "dsb nsh");
    }),
    case!("vae1 of another asid, of a global page", Global, false, |address| {
        tlbi!("vae1, x0", OTHER_ASID | named(address), "dsb nsh");
    }),
    case!("vae1 with a hint", Small, false, |address| tlbi!("vae1, x0", RIGHT | named(address), "dsb nsh")),
    case!("vae1 with a wrong hint", Small, true, |address| {
        tlbi!("vae1, x0", WRONG | named(address), "dsb nsh");
    }),
    case!("vae1 inside a large page", Large, false, |address| {
        tlbi!("vae1, x0", named(address + (1 << 20)), "dsb nsh");
    }),
    case!("nothing, of a large page", Large, true, |_| ()),
    case!("nothing, of contiguous pages", Joined, true, |_| ()),
    case!("vae1 of contiguous pages", Joined, false, |address| tlbi!("vae1, x0", named(address), "dsb nsh")),
    case!("vae1 with a hint, of another contiguous page", Joined, false, |address| {
        tlbi!("vae1, x0", RIGHT | named(address + (5 << 12)), "dsb nsh");
    }),
    case!("vale1", Small, false, |address| tlbi!("vale1, x0", named(address), "dsb nsh")),
    case!("vaae1", Small, false, |address| tlbi!("vaae1, x0", OTHER_ASID | named(address), "dsb nsh")),
    case!("vaale1", Global, false, |address| tlbi!("vaale1, x0", named(address), "dsb nsh")),
    case!("aside1", Small, false, |_| tlbi!("aside1, x0", 0, "dsb nsh")),
    case!("aside1 of another asid", Small, true, |_| tlbi!("aside1, x0", OTHER_ASID, "dsb nsh")),
    case!("aside1, of a global page", Global, true, |_| tlbi!("aside1, x0", 0, "dsb nsh")),
    case!("vmalle1", Global, false, |_| tlbi!("vmalle1", 0, "dsb nsh")),
    case!("vae1is", Small, false, |address| tlbi!("vae1is, x0", named(address), "dsb ish")),
    case!("vaale1is", Small, false, |address| tlbi!("vaale1is, x0", named(address), "dsb ish")),
    case!("vmalle1is", Small, false, |_| tlbi!("vmalle1is", 0, "dsb ish")),
    case!("rvae1", Small, false, |address| tlbi!("rvae1, x0", range(address), "dsb nsh")),
    case!("rvae1 of the pages before", Small, true, |address| {
        tlbi!("rvae1, x0", range(address - 8192), "dsb nsh");
    }),
    case!("rvale1is", Small, false, |address| tlbi!("rvale1is, x0", range(address), "dsb ish")),
];
