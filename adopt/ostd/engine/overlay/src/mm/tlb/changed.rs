//! Changes that one flush covers.

use ceasefire::{Flush, PageSize, SINGLE_PAGE_CEILING};

use super::TlbFlushOp;
use crate::{
    arch::mm::{tlb_flush_addr_range, tlb_flush_all_excluding_global},
    mm::{PAGE_SIZE, Vaddr},
};

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

    /// Flushes them on this CPU alone.
    pub(super) fn perform_on_current(&self) {
        match *self {
            Self::Nothing => {}
            Self::Pages { start, end, .. } if (end - start) / PAGE_SIZE <= SINGLE_PAGE_CEILING as usize => {
                tlb_flush_addr_range(&(start..end));
            }
            Self::Pages { .. } | Self::Everything => tlb_flush_all_excluding_global(),
        }
    }
}
