//! x86 in 64-bit mode. The loader enters in 32-bit mode (PVH).

use core::arch::{asm, global_asm};

use super::Page::{Global, Large, Small};
use super::{case, Case, Page, Table};

/// The first address of the memory.
pub(super) const MEMORY: u64 = 0;

global_asm!(
    ".section .note.pvh, \"a\", @note",
    ".long 4, 8, 18",
    ".asciz \"Xen\"",
    ".quad start",
    ".section .start, \"ax\"",
    ".code32",
    ".globl start",
    "start:",
    "    mov esp, offset STACK_END",
    "    mov eax, offset ROOT",
    "    mov cr3, eax",
    "    mov dword ptr [ROOT], offset UPPER + 3",
    // A page of a gigabyte, as it is.
    "    mov dword ptr [UPPER], 0x83",
    "    mov eax, 0xa0", // PAE, PGE
    "    mov cr4, eax",
    "    mov ecx, 0xc0000080", // EFER: LME
    "    mov eax, 0x100",
    "    xor edx, edx",
    "    wrmsr",
    "    mov eax, 0x80010001", // PG, WP, PE
    "    mov cr0, eax",
    "    lgdt [DESCRIPTORS]",
    "    ljmp 8, offset in_64_bits",
    ".code64",
    "in_64_bits:",
    "    mov ax, 16",
    "    mov ss, ax",
    "    mov ds, ax",
    "    call run",
    ".align 8",
    "SEGMENTS: .quad 0, 0x00209a0000000000, 0x0000920000000000",
    "DESCRIPTORS: .word 23",
    "    .long SEGMENTS",
    ".bss",
    ".align 4096",
    "STACK: .skip 16384",
    "STACK_END:",
);

#[no_mangle]
static ROOT: Table = Table::empty();
#[no_mangle]
static UPPER: Table = Table::empty();

pub(super) fn root() -> &'static Table {
    &ROOT
}

pub(super) fn table(address: u64) -> u64 {
    address | 3
}

pub(super) fn table_of(entry: u64) -> u64 {
    entry & 0x000f_ffff_ffff_f000
}

pub(super) fn page(frame: u64, page: Page) -> u64 {
    frame | 3 | if page == Large { 1 << 7 } else { 0 } | if page == Global { 1 << 8 } else { 0 }
}

/// Stores are seen by the CPU's own walks.
pub(super) fn publish() {}

/// INVPCID may be absent.
pub(super) fn has(name: &str) -> bool {
    !name.starts_with("invpcid") || core::arch::x86_64::__cpuid_count(7, 0).ebx >> 10 & 1 != 0
}

pub(super) fn send(byte: u8) {
    // SAFETY: the first serial port of a PC, which nobody else uses.
    unsafe { asm!("out dx, al", in("dx") 0x3f8_u16, in("al") byte, options(nomem, nostack)) }
}

pub(super) fn end() -> ! {
    loop {
        // SAFETY: the power management of QEMU's q35: soft off.
        unsafe { asm!("out dx, ax", in("dx") 0x604_u16, in("ax") 0x2000_u16, options(nomem, nostack)) }
    }
}

fn invlpg(address: u64) {
    // SAFETY: a TLB may be flushed at any time.
    unsafe { asm!("invlpg [{}]", in(reg) address, options(nostack)) }
}

fn invpcid(kind: u64, pcid: u64, address: u64) {
    let descriptor = [pcid, address];
    // SAFETY: as above; the type and the descriptor are valid.
    unsafe { asm!("invpcid {}, [{}]", in(reg) kind, in(reg) &raw const descriptor, options(nostack)) }
}

fn reload(_: u64) {
    // SAFETY: the same tables.
    unsafe { asm!("mov {0}, cr3", "mov cr3, {0}", out(reg) _, options(nostack)) }
}

/// CR4.PGE is cleared and set.
fn toggle(_: u64) {
    // SAFETY: a TLB may be flushed at any time.
    unsafe {
        asm!("mov {0}, cr4", "xor {0}, 0x80", "mov cr4, {0}", "xor {0}, 0x80", "mov cr4, {0}", out(reg) _, options(nostack));
    }
}

/// What the processor's manual says of each instruction (Intel SDM volume 3, section 4.10.4.1).
pub(super) const CASES: &[Case] = &[
    case!("nothing", Small, true, |_| ()),
    case!("invlpg", Small, false, invlpg),
    case!("invlpg of another byte of the page", Small, false, |address| invlpg(address + 4095)),
    case!("invlpg of the next page", Small, true, |address| invlpg(address + 4096)),
    case!("invlpg of a global page", Global, false, invlpg),
    case!("nothing, of a large page", Large, true, |_| ()),
    case!("invlpg inside a large page", Large, false, |address| invlpg(address + (1 << 20))),
    case!("mov to cr3", Small, false, reload),
    case!("mov to cr3, of a global page", Global, true, reload),
    case!("cr4.pge, of a global page", Global, false, toggle),
    case!("cr4.pge", Small, false, toggle),
    case!("invpcid of an address", Small, false, |address| invpcid(0, 0, address)),
    case!("invpcid of the next page", Small, true, |address| invpcid(0, 0, address + 4096)),
    case!("invpcid of an address, of a global page", Global, true, |address| invpcid(0, 0, address)),
    case!("invpcid of a pcid", Small, false, |_| invpcid(1, 0, 0)),
    case!("invpcid of a pcid, of a global page", Global, true, |_| invpcid(1, 0, 0)),
    case!("invpcid of everything", Global, false, |_| invpcid(2, 0, 0)),
    case!("invpcid of all but global pages", Small, false, |_| invpcid(3, 0, 0)),
    case!("invpcid of all but global pages, of a global page", Global, true, |_| invpcid(3, 0, 0)),
];
