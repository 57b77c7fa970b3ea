//! 64-bit Arm: `svc #0` with the number in x8, arguments in x0 to x4, and the result in x0.

use core::arch::{asm, global_asm};

// Both accesses lie between `access_load` and `access_end`, and only they can fault there. Neither has moved the stack,
// so after either fails `access_failed` can return to its caller. A load completes before all later instructions of the
// program, because its meaning depends on later loads.
global_asm!(
    r#"
    .section .text.access, "ax", @progbits
    .global access_load, access_store, access_end, access_failed
access_load:
    ldr x0, [x0]
    mov x1, #1
    dmb ishld
    ret
access_store:
    str x1, [x0]
    mov x0, #1
    ret
access_end:
access_failed:
    mov x0, #0
    mov x1, #0
    ret
    "#
);

/// Calls the kernel.
///
/// # Safety
/// Rust code must not otherwise rely on the memory that the call changes.
pub(crate) unsafe fn call(number: u64, arguments: [u64; 5]) -> u64 {
    let [first, second, third, fourth, fifth] = arguments;
    let result;
    // SAFETY: the kernel preserves all registers but x0. The caller is responsible for memory.
    unsafe {
        asm!(
            "svc #0",
            in("x8") number,
            inlateout("x0") first => result,
            in("x1") second,
            in("x2") third,
            in("x3") fourth,
            in("x4") fifth,
        );
    }
    result
}

/// Loads the 8 bytes at an address. An impossible load ends the run.
pub(crate) fn load(address: u64) -> u64 {
    let value;
    // SAFETY: a load that succeeds changes nothing.
    unsafe {
        asm!("ldr {value}, [{address}]", address = in(reg) address, value = out(reg) value, options(nostack, readonly));
    }
    value
}

/// The entry of the first process. The kernel has made the stack.
#[unsafe(no_mangle)]
extern "C" fn start(argument: u64) -> ! {
    crate::run(argument)
}
