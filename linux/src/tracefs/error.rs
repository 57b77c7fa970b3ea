//! What is missing for reading the kernel's events, and how to get it.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use crate::tracefs::format::FormatError;

/// A reason for which the kernel's events cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unavailable {
    /// tracefs is not mounted.
    NotMounted,
    /// The files may not be read or written.
    NoRights(PathBuf),
    /// A file could not be read or written.
    Failed(PathBuf, io::ErrorKind),
    /// An event's format is not understood.
    Format(FormatError),
    /// The kernel has none of the events that count shootdowns.
    NoEvents,
    /// The kernel hides the addresses of its functions.
    NoSymbols,
}

impl Unavailable {
    /// The reason for which a file could not be used.
    pub(crate) fn of(path: &Path, error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::PermissionDenied => Self::NoRights(path.to_owned()),
            kind => Self::Failed(path.to_owned(), kind),
        }
    }
}

impl From<FormatError> for Unavailable {
    fn from(error: FormatError) -> Self {
        Self::Format(error)
    }
}

impl fmt::Display for Unavailable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotMounted => write!(
                f,
                "tracefs is not mounted: as root, 'mount -t tracefs nodev /sys/kernel/tracing' (a kernel without \
                 CONFIG_FTRACE has none)"
            ),
            Self::NoRights(path) => {
                write!(f, "{} may not be used by this user: run the command as root (sudo)", path.display())
            }
            Self::Failed(path, kind) => write!(f, "{}: {kind}", path.display()),
            Self::Format(error) => error.fmt(f),
            Self::NoEvents => write!(
                f,
                "this kernel has neither the events csd:* (Linux 6.4 and later) nor tlb:tlb_flush, which count \
                 shootdowns"
            ),
            Self::NoSymbols => write!(
                f,
                "the kernel hides the addresses of its functions: as root, 'sysctl kernel.kptr_restrict=1' or 0"
            ),
        }
    }
}

impl std::error::Error for Unavailable {}
