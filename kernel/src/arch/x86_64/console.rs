//! The serial port, and QEMU's exit.

use x86_64::instructions::port::Port;

/// The first serial port, and QEMU's `isa-debug-exit` at the address that `cargo xtask kernel` gives it.
const SERIAL: u16 = 0x3f8;
const EXIT: u16 = 0xf4;
/// In the line status register: the port takes another byte.
const READY: u8 = 1 << 5;

/// Sends bytes. To keep lines whole, the caller must keep other CPUs from sending at the same time.
pub(crate) fn write(bytes: &[u8]) {
    let (mut data, mut status) = (Port::<u8>::new(SERIAL), Port::<u8>::new(SERIAL + 5));
    for &byte in bytes {
        // SAFETY: the port belongs to the console alone, and its registers touch no memory.
        unsafe {
            while status.read() & READY == 0 {
                core::hint::spin_loop();
            }
            data.write(byte);
        }
    }
}

/// Ends the machine with a status. Stops this CPU if the machine cannot be ended.
pub(crate) fn exit(status: u32) -> ! {
    // SAFETY: a write to the debug port ends the emulator; without one it has no effect.
    unsafe { Port::<u32>::new(EXIT).write(status) };
    loop {
        x86_64::instructions::interrupts::disable();
        x86_64::instructions::hlt();
    }
}
