//! The serial port (a PL011), and QEMU's exit.

use core::arch::asm;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use ceasefire_kernel_abi::status;

use super::memory::direct;
use super::psci;

/// The address of the port. Until the device tree gives it, the address on QEMU's `virt`.
static PORT: AtomicU64 = AtomicU64::new(0x0900_0000);
/// Registers by their offset, and the bit of the second that says that the port takes no further byte.
const DATA: u64 = 0;
const FLAGS: u64 = 0x18;
const FULL: u32 = 1 << 5;

/// Sets the address of the port.
pub(crate) fn set_port(address: u64) {
    PORT.store(address, Ordering::Relaxed);
}

/// Sends bytes. To keep lines whole, the caller must keep other CPUs from sending at the same time.
pub(crate) fn write(bytes: &[u8]) {
    let port = PORT.load(Ordering::Relaxed);
    let (data, flags) = (direct::<u32>(port + DATA), direct::<u32>(port + FLAGS));
    for &byte in bytes {
        // SAFETY: the port belongs to the console alone, is mapped all the time, and its registers touch no memory.
        unsafe {
            while flags.read_volatile() & FULL != 0 {
                core::hint::spin_loop();
            }
            data.write_volatile(u32::from(byte));
        }
    }
}

/// Ends the machine with a status by semihosting, or without a status where there is no semihosting.
pub(crate) fn exit(status: u32) -> ! {
    /// The operation, and the reason that carries a status (Arm's semihosting specification, `SYS_EXIT`).
    const EXIT: u64 = 0x18;
    const APPLICATION_EXIT: u64 = 0x20026;
    let block = [APPLICATION_EXIT, status::of_qemu(status) as u64];
    LEAVING.store(true, Ordering::SeqCst);
    // SAFETY: ends the emulator, which reads the block.
    unsafe { asm!("hlt #0xf000", in("x0") EXIT, in("x1") &raw const block, options(nostack, readonly)) };
    psci::off()
}

static LEAVING: AtomicBool = AtomicBool::new(false);

/// Handles an undefined instruction of the kernel. Without semihosting its call is one; the machine is then turned off.
pub(crate) fn undefined() {
    if LEAVING.load(Ordering::SeqCst) {
        psci::off();
    }
}
