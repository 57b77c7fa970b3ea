//! How a kernel flushes.

use ceasefire::Schedule;

use crate::replay::calls::Calls;
use crate::replay::linux::Linux;

/// How a kernel flushes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mechanism {
    /// The schedule of flushes in reclaim.
    pub reclaim: Schedule,
    /// The schedule of flushes in migration.
    pub migration: Schedule,
    /// Whether the hardware carries flushes to other CPUs for processes that several CPUs run.
    pub broadcasts: bool,
    /// Whether a batch interrupts CPUs that ran one of its processes before and run another now, as Linux does since
    /// 6.13. The engine does not.
    pub keeps_masks: bool,
    /// How programs make the calls that give memory back.
    pub calls: Calls,
}

impl Mechanism {
    /// One schedule for reclaim and migration.
    pub const fn new(schedule: Schedule, broadcasts: bool) -> Self {
        Self {
            reclaim: schedule,
            migration: schedule,
            broadcasts,
            keeps_masks: false,
            calls: Calls::Recorded,
        }
    }

    /// The schedule of migration or of reclaim.
    pub(super) fn of(&self, is_migration: bool) -> Schedule {
        if is_migration {
            self.migration
        } else {
            self.reclaim
        }
    }

    /// That of a Linux kernel on x86, by its release such as `6.12.43+deb13`.
    pub fn of_linux(release: &str) -> Self {
        Linux::of_release(release).mechanism()
    }
}
