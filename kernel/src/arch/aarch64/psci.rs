//! PSCI: firmware that starts CPUs and turns the machine off (DEN 0022). It is called by HVC, or by SMC where the
//! kernel could have a hypervisor of its own.

use core::arch::asm;
use core::sync::atomic::{AtomicBool, Ordering};

/// Functions, by their numbers.
const CPU_ON: u64 = 0xc400_0003;
const SYSTEM_OFF: u64 = 0x8400_0008;

/// Whether it is called by SMC.
static SECURE: AtomicBool = AtomicBool::new(false);

/// Sets the way of calling, from the device tree.
pub(crate) fn set_secure(secure: bool) {
    SECURE.store(secure, Ordering::Relaxed);
}

fn call(function: u64, arguments: [u64; 3]) -> i64 {
    let [first, second, third] = arguments;
    let result;
    // SAFETY: these functions do not return to this CPU, or return with the registers of the C ABI changed at most.
    unsafe {
        if SECURE.load(Ordering::Relaxed) {
            asm!("smc #0", inlateout("x0") function => result, in("x1") first, in("x2") second, in("x3") third, clobber_abi("C"));
        } else {
            asm!("hvc #0", inlateout("x0") function => result, in("x1") first, in("x2") second, in("x3") third, clobber_abi("C"));
        }
    }
    result
}

/// Starts the CPU with that affinity at the physical address `entry`, with `argument`. It sees all that this CPU stored
/// before.
///
/// # Errors
/// The firmware's refusal (DEN 0022, return error codes).
///
/// # Safety
/// The code at `entry` must make the CPU one of the kernel's.
pub(super) unsafe fn start(affinity: u64, entry: u64, argument: u64) -> Result<(), i64> {
    // SAFETY: a barrier; the call itself is none. Litmus: `start-cpu` needs it.
    unsafe { asm!("dsb ishst", options(nostack, preserves_flags)) };
    match call(CPU_ON, [affinity, entry, argument]) {
        0 => Ok(()),
        error => Err(error),
    }
}

/// Turns the machine off.
pub(super) fn off() -> ! {
    call(SYSTEM_OFF, [0; 3]);
    loop {
        super::interrupts::off();
        super::interrupts::stop();
    }
}
