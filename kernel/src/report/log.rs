//! Lines on the serial port.

use core::fmt::{self, Write};

use crate::arch::console;
use crate::lock::IrqLock;

/// Keeps lines whole.
static CONSOLE: IrqLock<()> = IrqLock::new(());

struct Serial;

impl Write for Serial {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        console::write(text.as_bytes());
        Ok(())
    }
}

/// Prints a line.
pub(crate) fn line(text: fmt::Arguments<'_>) {
    let _whole = CONSOLE.lock();
    line_at_once(text);
}

/// Ends the line that a CPU was printing when it was stopped.
pub(crate) fn end_broken_line() {
    if CONSOLE.is_locked() {
        console::write(b"\n");
    }
}

/// Prints a line without the lock, for when no other CPU runs any more.
pub(crate) fn line_at_once(text: fmt::Arguments<'_>) {
    // Writing to the serial port cannot fail.
    let _ = writeln!(Serial, "{text}");
}
