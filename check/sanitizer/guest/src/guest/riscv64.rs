//! 64-bit RISC-V in S-mode, above firmware, with four levels of tables and ASID 1.

use core::arch::{asm, global_asm};

use super::Page::{Global, Large, Small};
use super::{case, Case, Page, Table};

/// The first address of the memory of QEMU's `virt`.
pub(super) const MEMORY: u64 = 2 << 30;

global_asm!(
    ".section .start, \"ax\"",
    ".globl start",
    "start:",
    "    la sp, STACK_END",
    // No thread.
    "    mv tp, zero",
    "    csrw sscratch, zero",
    "    call prepare",
    "    la t0, ROOT",
    "    srli t0, t0, 12",
    "    li t1, 0x9000100000000000",
    "    or t0, t0, t1",
    "    csrw satp, t0",
    "    sfence.vma",
    "    call run",
    ".bss",
    ".align 12",
    "STACK: .skip 16384",
    "STACK_END:",
);

#[no_mangle]
static ROOT: Table = Table::empty();
static UPPER: Table = Table::empty();

/// An entry: used, stored to, readable, writable, executable, valid.
const VALID: u64 = 0xcf;

/// The memory's gigabyte, as it is.
#[no_mangle]
extern "C" fn prepare() {
    use core::sync::atomic::Ordering::Relaxed;
    ROOT.0[0].store(table(core::ptr::from_ref(&UPPER) as u64), Relaxed);
    UPPER.0[2].store(MEMORY >> 2 | VALID, Relaxed);
}

pub(super) fn root() -> &'static Table {
    &ROOT
}

pub(super) fn table(address: u64) -> u64 {
    address >> 2 | 1
}

pub(super) fn table_of(entry: u64) -> u64 {
    entry >> 10 << 12
}

pub(super) fn page(frame: u64, page: Page) -> u64 {
    frame >> 2 | VALID | if page == Global { 1 << 5 } else { 0 }
}

/// A fence orders stores before walks; these cases are about translations that are cached.
pub(super) fn publish() {}

pub(super) fn has(_: &str) -> bool {
    true
}

/// A call of firmware.
fn call(extension: u64, function: u64, argument: u64) {
    // SAFETY: SBI keeps all registers but a0 and a1.
    unsafe {
        asm!("ecall", in("a7") extension, in("a6") function, inout("a0") argument => _, inout("a1") 0_u64 => _, options(nostack));
    }
}

pub(super) fn send(byte: u8) {
    call(1, 0, byte.into());
}

pub(super) fn end() -> ! {
    loop {
        call(0x5352_5354, 0, 0);
    }
}

macro_rules! fence {
    ($what:literal, $address:expr, $asid:expr) => {{
        let (address, asid): (u64, u64) = ($address, $asid);
        // SAFETY: a TLB may be flushed at any time.
        unsafe { asm!($what, inout("a0") address => _, in("a1") asid, options(nostack)) }
    }};
}

/// What the specification says of each instruction (volume II, "Supervisor Memory-Management Fence Instruction" and
/// "Svinval"). SINVAL.VMA and SFENCE.INVAL.IR are written as words.
pub(super) const CASES: &[Case] = &[
    case!("nothing", Small, true, |_| ()),
    case!("csrw satp", Small, true, |_| fence!("csrr a0, satp\n csrw satp, a0", 0, 0)),
    case!("sfence.vma", Small, false, |_| fence!("sfence.vma", 0, 0)),
    case!("sfence.vma, of a global page", Global, false, |_| fence!("sfence.vma", 0, 0)),
    case!("sfence.vma of an address", Small, false, |address| fence!("sfence.vma a0", address, 0)),
    case!("sfence.vma of an address, of a global page", Global, false, |address| {
        fence!("sfence.vma a0", address, 0);
    }),
    case!("sfence.vma of the next page", Small, true, |address| fence!("sfence.vma a0", address + 4096, 0)),
    case!("sfence.vma inside a large page", Large, false, |address| {
        fence!("sfence.vma a0", address + (1 << 20), 0);
    }),
    case!("nothing, of a large page", Large, true, |_| ()),
    case!("sfence.vma of an asid", Small, false, |_| fence!("sfence.vma zero, a1", 0, 1)),
    case!("sfence.vma of another asid", Small, true, |_| fence!("sfence.vma zero, a1", 0, 2)),
    case!("sfence.vma of an asid, of a global page", Global, true, |_| fence!("sfence.vma zero, a1", 0, 1)),
    case!("sfence.vma of an address and an asid", Small, false, |address| {
        fence!("sfence.vma a0, a1", address, 1);
    }),
    case!("sfence.vma of an address and another asid", Small, true, |address| {
        fence!("sfence.vma a0, a1", address, 2);
    }),
    case!("sinval.vma", Small, false, |address| fence!(".word 0x16050073\n .word 0x18100073", address, 0)),
    case!("sinval.vma that is not completed", Small, true, |address| fence!(".word 0x16050073", address, 0)),
];
