//! Lines for whoever watches.

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

/// Prints a line whoever else may be printing: when nothing else runs any more.
pub(crate) fn line_at_once(text: fmt::Arguments<'_>) {
    // The serial port takes what it is given.
    let _ = writeln!(Serial, "{text}");
}
