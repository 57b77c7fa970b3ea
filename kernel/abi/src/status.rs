//! The machine's exit status, by which `cargo xtask kernel` knows how a run ended.

/// The run ended well.
pub const DONE: u32 = 0x10;
/// A rule was broken: a forbidden state was found.
pub const RULE: u32 = 0x11;
/// The kernel panicked or faulted, or a program did.
pub const FAULT: u32 = 0x12;
/// The run made no progress.
pub const HANG: u32 = 0x13;
/// The options ask for something that the machine cannot do.
pub const OPTIONS: u32 = 0x14;

/// The run found nothing wrong, but could not test enough in time.
pub const INCONCLUSIVE: u32 = 0x15;

/// QEMU's exit status: its debug-exit device doubles the status and adds one.
pub const fn of_qemu(status: u32) -> i32 {
    (status << 1 | 1).cast_signed()
}
