//! What a CPU did, counted.
//!
//! Every counter is written by its own CPU only, so counting is a load and a store, and reading is a sum over
//! the CPUs. Where an interrupt may come in between and count the same, it is one step ([`Count::add_at_once`]). The
//! names are those of the command line's JSON.

use crate::primitive::{AtomicU64, Ordering};

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {
        /// A reading of one CPU's counters, or of several added up.
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
            /// What was counted since an `earlier` reading; `debt_age_max_ns` is the largest of all time.
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
    /// Flush requests handled; more than `interrupts` where requests found the CPU interrupted already.
    requests,
    /// Operations that sent any interrupt.
    shootdowns,
    /// CPUs for which the platform flushed, so that they were not interrupted.
    flushes_elsewhere,
    /// Flushes that the hardware carried to every CPU: times that this CPU waited for broadcasts it had started.
    broadcasts,
    /// Flushes of everything under one ASID, local and remote; a broadcast counts once, for the CPU that started it.
    flushes_full,
    /// Single pages invalidated, local and remote; broadcast ones count once, for the CPU that started them.
    flushes_page,
    /// Flushes at moments that came anyway (a switch, leaving lazy mode, a timer tick) and that settled something.
    flushes_free,
    /// Translations cleared whose flush was put off.
    debts_created,
    /// Of these, settled by interrupting other CPUs.
    debts_by_interrupt,
    /// Of these, settled by waiting for broadcasts.
    debts_by_broadcast,
    /// Of these, settled because the CPUs that had them stopped using the space by themselves.
    debts_by_switch,
    /// Of these, settled at CPUs' timer ticks.
    debts_by_tick,
    /// Of these, settled without reaching any other CPU.
    debts_by_local,
    /// How long the oldest of them stood, in nanoseconds: from the first clearing of a batch to its flush, or from when an
    /// epoch of lazy debts was opened until it was settled; the largest seen.
    debt_age_max_ns,
}

/// One counter, written by one CPU.
#[derive(Debug)]
pub(crate) struct Count(AtomicU64);

impl Count {
    /// Counts, with interrupts off, or what none of them counts.
    pub(crate) fn add(&self, n: u64) {
        self.0.store(self.0.load(Ordering::Relaxed).wrapping_add(n), Ordering::Relaxed);
    }

    /// Counts what interrupts count too, with interrupts on.
    pub(crate) fn add_at_once(&self, n: u64) {
        self.0.fetch_add(n, Ordering::Relaxed);
    }

    pub(crate) fn at_least(&self, n: u64) {
        if self.0.load(Ordering::Relaxed) < n {
            self.0.fetch_max(n, Ordering::Relaxed);
        }
    }
}
