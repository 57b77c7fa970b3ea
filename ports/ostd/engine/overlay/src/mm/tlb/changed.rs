//! Changes that one flush covers.

use ceasefire::{Flush, PageSize};

use super::{TlbFlushOp, processor};
use crate::mm::Vaddr;

/// Translations that were changed: those between the first and the last.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum Changed {
    Nothing,
    Pages {
        start: Vaddr,
        end: Vaddr,
        /// Page tables were taken away too.
        tables: bool,
    },
    Everything,
}

impl Changed {
    /// Adds a change.
    pub(super) fn add(&mut self, TlbFlushOp(other): &TlbFlushOp) {
        *self = match (&*self, other) {
            (Self::Everything, _) | (_, Self::Everything) => Self::Everything,
            (Self::Nothing, one) => one.clone(),
            (one, Self::Nothing) => one.clone(),
            (&Self::Pages { start, end, tables }, &Self::Pages { start: from, end: to, tables: more }) => {
                Self::Pages { start: start.min(from), end: end.max(to), tables: tables | more }
            }
        };
    }

    /// The flush that covers them.
    pub(super) fn flush(&self) -> Option<Flush> {
        match *self {
            Self::Nothing => None,
            Self::Pages { start, end, tables } => {
                Some(Flush { tables, ..Flush::range(start as u64, end as u64, PageSize::KIB_4) })
            }
            Self::Everything => Some(Flush::ALL),
        }
    }

    /// Flushes them on this CPU alone, under any tag: the kernel's own may be among them.
    pub(super) fn perform_on_current(&self) {
        if let Some(flush) = self.flush() {
            processor::invalidate_kernel(flush);
        }
    }
}
