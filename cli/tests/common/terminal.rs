//! A terminal of a test's own.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;

use rustix::fs::{open, Mode, OFlags};
use rustix::pty::{grantpt, openpt, ptsname, unlockpt, OpenptFlags};
use rustix::termios::{tcsetwinsize, Winsize};

/// The two ends of a terminal with so many columns and rows: the terminal's own, and the program's.
pub(crate) fn terminal(columns: u16, rows: u16) -> io::Result<(File, OwnedFd)> {
    let own = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?;
    grantpt(&own)?;
    unlockpt(&own)?;
    let program =
        open(ptsname(&own, Vec::new())?, OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC, Mode::empty())?;
    tcsetwinsize(&program, Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 })?;
    Ok((File::from(own), program))
}
