//! Text on the serial port, without a lock: for the line of a CPU that no other CPU interrupts.

use core::fmt::{self, Write};
use core::sync::atomic::{AtomicBool, Ordering};

use crate::arch::console;

/// The last text ended its line.
static WHOLE: AtomicBool = AtomicBool::new(true);

struct Serial;

impl Write for Serial {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        WHOLE.store(false, Ordering::Relaxed);
        console::write(text.as_bytes());
        WHOLE.store(text.ends_with('\n'), Ordering::Relaxed);
        Ok(())
    }
}

/// Prints a line. The caller makes sure that no other CPU prints.
pub(crate) fn line(text: fmt::Arguments<'_>) {
    // Writing to the serial port cannot fail.
    let _ = writeln!(Serial, "{text}");
}

/// Ends the line that a CPU was printing when it was stopped.
pub(crate) fn end_broken_line() {
    if !WHOLE.load(Ordering::Relaxed) {
        console::write(b"\n");
    }
}
