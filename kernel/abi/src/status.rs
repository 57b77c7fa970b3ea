//! What the machine leaves with, for `cargo xtask kernel` to know how a run ended.

/// The run ended well.
pub const DONE: u32 = 0x10;
/// A rule was broken: something was found that must not be.
pub const RULE: u32 = 0x11;
/// The kernel or a program did what it must not.
pub const FAULT: u32 = 0x12;
/// Nothing went on.
pub const HANG: u32 = 0x13;
/// The machine was started with what it cannot do.
pub const OPTIONS: u32 = 0x14;

/// What QEMU exits with: its debug-exit device doubles the status and adds one.
pub const fn of_qemu(status: u32) -> i32 {
    (status << 1 | 1).cast_signed()
}
