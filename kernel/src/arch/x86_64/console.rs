//! The serial port, and QEMU's door out.

use x86_64::instructions::port::Port;

/// The first serial port, and QEMU's `isa-debug-exit` at the address that `cargo xtask kernel` gives it.
const SERIAL: u16 = 0x3f8;
const EXIT: u16 = 0xf4;
/// In the line status register: another byte may be sent.
const READY: u8 = 1 << 5;

/// Sends bytes. The caller keeps others from doing so at the same time, if the lines shall stay whole.
pub(crate) fn write(bytes: &[u8]) {
    let (mut data, mut status) = (Port::<u8>::new(SERIAL), Port::<u8>::new(SERIAL + 5));
    for &byte in bytes {
        // SAFETY: the port is the console's alone, and its registers touch no memory.
        unsafe {
            while status.read() & READY == 0 {
                core::hint::spin_loop();
            }
            data.write(byte);
        }
    }
}

/// Leaves the machine with a status; stops this CPU if there is no way out.
pub(crate) fn exit(status: u32) -> ! {
    // SAFETY: writing to the debug port ends the emulator; without one it does nothing.
    unsafe { Port::<u32>::new(EXIT).write(status) };
    loop {
        x86_64::instructions::interrupts::disable();
        x86_64::instructions::hlt();
    }
}
