//! Lines of all CPUs on the serial port.

use core::fmt;

use crate::lock::IrqLock;
use crate::serial;

/// Keeps lines whole.
static CONSOLE: IrqLock<()> = IrqLock::new(());

/// Prints a line.
pub(crate) fn line(text: fmt::Arguments<'_>) {
    let _whole = CONSOLE.lock();
    serial::line(text);
}
