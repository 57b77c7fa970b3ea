//! The causes that the errors of several calls share.

use crate::calls::advise::AdviseError;
use crate::calls::collapse::CollapseError;
use crate::calls::fork::ForkError;
use crate::calls::lock_pages::LockError;
use crate::calls::map::MapError;
use crate::calls::migrate::MigrateError;
use crate::calls::protect::ProtectError;
use crate::calls::remap::RemapError;
use crate::calls::unmap::UnmapError;
use crate::faults::fault::FaultError;
use crate::frames::allocate::OutOfMemory;
use crate::spaces::area::RangeError;
use crate::spaces::space::Ended;

/// Makes errors from a cause.
macro_rules! from {
    ($cause:ty, $make:expr, $($error:ty),+) => {
        $(impl From<$cause> for $error {
            fn from(cause: $cause) -> Self {
                $make(cause)
            }
        })+
    };
}

from!(RangeError, Self::Range, AdviseError, LockError, ProtectError, RemapError, UnmapError);
from!(OutOfMemory, |_| Self::OutOfMemory, AdviseError, ForkError, ProtectError, RemapError, UnmapError);
from!(
    Ended,
    |_| Self::Ended,
    AdviseError,
    CollapseError,
    FaultError,
    ForkError,
    LockError,
    MapError,
    MigrateError,
    ProtectError,
    RemapError,
    UnmapError
);
