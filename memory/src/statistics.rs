//! The memory manager's counters, one set for each CPU.

use crate::primitive::{AtomicU64, Ordering};

macro_rules! statistics {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {
        /// The memory manager's counters, summed over all CPUs.
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
        pub struct Statistics {
            $($(#[$doc])* pub $name: u64,)*
        }

        impl Statistics {
            /// The difference to an `earlier` reading.
            #[must_use]
            pub fn since(&self, earlier: &Self) -> Self {
                Self { $($name: self.$name - earlier.$name,)* }
            }
        }

        /// One CPU's counters, on cache lines of their own.
        #[derive(Debug, Default)]
        #[repr(align(64))]
        pub(crate) struct Share {
            $(pub(crate) $name: Count,)*
        }

        impl Share {
            pub(crate) fn add_to(&self, sum: &mut Statistics) {
                $(sum.$name += self.$name.0.load(Ordering::Relaxed);)*
            }
        }
    };
}

statistics! {
    /// Faults handled.
    faults,
    /// Pages that background reclaim freed.
    reclaimed_background,
    /// Pages that allocations reclaimed themselves.
    reclaimed_direct,
    /// Pages that reclaim scanned.
    scanned,
    /// Pages written out.
    written,
    /// Pages of files read from their device.
    read,
    /// Pages read from the swap device.
    swapped_in,
    /// Small pages moved to another node; a huge page counts 512.
    migrated,
    /// Huge pages moved to another node.
    migrated_huge,
    /// Small pages moved to slower memory instead of being freed.
    demoted,
    /// Small pages moved to the node of the CPU that used them; a huge page counts 512.
    promoted,
    /// Hidden pages that were used.
    hints,
    /// Huge pages split.
    splits,
    /// Huge pages made of small ones.
    collapses,
    /// Allocations that had to pay the debts of free frames.
    allocations_paid,
    /// Free frames whose debts were settled while they were free.
    frames_matured,
}

/// A counter that one CPU writes. If an interrupt on that CPU counts at the same moment, a kernel may lose a count, but
/// never a page.
#[derive(Debug, Default)]
pub(crate) struct Count(AtomicU64);

impl Count {
    pub(crate) fn add(&self, n: u64) {
        self.0.store(self.0.load(Ordering::Relaxed) + n, Ordering::Relaxed);
    }
}
