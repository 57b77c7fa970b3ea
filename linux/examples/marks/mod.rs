//! Tells an emulator that counts instructions when a load begins and ends (`check/sanitizer/plugin/src/count.rs`). Elsewhere
//! nothing happens.

#[cfg(target_arch = "x86_64")]
use std::arch::asm;

/// The numbers of the marks: the count is of what is executed between them.
const BEGINS: u32 = 0x7ea5_e0b0;
const ENDS: u32 = BEGINS + 1;

/// A no-operation with this number as its displacement.
#[cfg(target_arch = "x86_64")]
fn mark<const NUMBER: u32>() {
    // SAFETY: the instruction does nothing.
    unsafe {
        asm!(".byte 0x0f, 0x1f, 0x84, 0x00", ".long {}", const NUMBER, options(nomem, nostack, preserves_flags));
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn mark<const NUMBER: u32>() {}

pub(crate) fn begins() {
    mark::<BEGINS>();
}

pub(crate) fn ends() {
    mark::<ENDS>();
}
