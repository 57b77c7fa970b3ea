//! Counters of the work of each CPU.
//!
//! Only its own CPU writes a counter, so counting is a load and a store, and reading is a sum over the CPUs. If an
//! interrupt may come in between and count the same, counting is one atomic step ([`Count::add_at_once`]). The names
//! are those of the command line's JSON.

use crate::primitive::{AtomicU64, Ordering};

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {
        /// A reading of one CPU's counters, or the sum of several readings.
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
        pub struct Counters {
            $($(#[$doc])* pub $name: u64,)*
        }

        impl Counters {
            /// Adds another reading to this one; `debt_age_max_ns` becomes the larger.
            pub fn add(&mut self, other: &Self) {
                let oldest = self.debt_age_max_ns.max(other.debt_age_max_ns);
                $(self.$name = self.$name.wrapping_add(other.$name);)*
                self.debt_age_max_ns = oldest;
            }
        }

        impl Counters {
            /// The counts since an `earlier` reading; `debt_age_max_ns` is the largest of all time.
            #[must_use]
            pub fn since(&self, earlier: &Self) -> Self {
                let mut since = Self { $($name: self.$name.wrapping_sub(earlier.$name),)* };
                since.debt_age_max_ns = self.debt_age_max_ns;
                since
            }
        }

        /// The counters of one CPU.
        #[derive(Debug)]
        pub(crate) struct Tally {
            $(pub(crate) $name: Count,)*
        }

        impl Tally {
            pub(crate) const fn new() -> Self {
                Self { $($name: Count(AtomicU64::new(0)),)* }
            }

            pub(crate) fn read(&self) -> Counters {
                Counters { $($name: self.$name.0.load(Ordering::Relaxed),)* }
            }
        }
    };
}

counters! {
    /// Interrupts received for TLB work.
    interrupts,
    /// Flush requests handled. There are more than `interrupts` if requests found the CPU interrupted already.
    requests,
    /// Operations that sent any interrupt.
    shootdowns,
    /// CPUs for which the platform flushed, so they were not interrupted.
    flushes_elsewhere,
    /// CPUs in a set that a flush looked at and passed over: they run another space, or no program.
    passed_over,
    /// Sets of CPUs that the CPU joined, because it loaded a space in whose set it kept no place.
    places_taken,
    /// Sets of CPUs that the CPU left.
    places_given_up,
    /// Flushes that the hardware carried to every CPU: the number of times that this CPU waited for broadcasts that it
    /// had started.
    broadcasts,
    /// Flushes of everything under one ASID, local and remote. A broadcast counts once, for the CPU that started it.
    flushes_full,
    /// Single pages invalidated, local and remote. Broadcast ones count once, for the CPU that started them.
    flushes_page,
    /// Flushes at events that happened anyway (a switch, leaving lazy mode, a timer tick) and that settled debts.
    flushes_free,
    /// Translations cleared whose flush was deferred.
    debts_created,
    /// Of these, settled by interrupting other CPUs.
    debts_by_interrupt,
    /// Of these, settled by waiting for broadcasts.
    debts_by_broadcast,
    /// Of these, settled because the CPUs that had them stopped using the space.
    debts_by_switch,
    /// Of these, settled at CPUs' timer ticks.
    debts_by_tick,
    /// Of these, settled without reaching any other CPU.
    debts_by_local,
    /// The greatest age of a debt, in nanoseconds. It is measured from the first clearing of a batch to its flush, or
    /// from the opening of an epoch of lazy debts until it is settled.
    debt_age_max_ns,
}

impl Tally {
    /// Counts an invalidation of single pages, or of everything, with interrupts off.
    pub(crate) fn invalidated(&self, pages: Option<u32>) {
        match pages {
            Some(pages) => self.flushes_page.add(u64::from(pages)),
            None => self.flushes_full.add(1),
        }
    }

    /// Counts an invalidation that was broadcast, with interrupts on.
    pub(crate) fn invalidated_everywhere(&self, pages: Option<u32>) {
        match pages {
            Some(pages) => self.flushes_page.add_at_once(u64::from(pages)),
            None => self.flushes_full.add_at_once(1),
        }
    }
}

/// One counter, written by one CPU.
#[derive(Debug)]
pub(crate) struct Count(AtomicU64);

impl Count {
    /// Adds `n`, with interrupts off, or to a counter that no interrupt touches.
    pub(crate) fn add(&self, n: u64) {
        self.0.store(self.0.load(Ordering::Relaxed).wrapping_add(n), Ordering::Relaxed);
    }

    /// Adds `n` with interrupts on, to a counter that interrupts touch too.
    pub(crate) fn add_at_once(&self, n: u64) {
        self.0.fetch_add(n, Ordering::Relaxed);
    }

    pub(crate) fn at_least(&self, n: u64) {
        if self.0.load(Ordering::Relaxed) < n {
            self.0.fetch_max(n, Ordering::Relaxed);
        }
    }
}
