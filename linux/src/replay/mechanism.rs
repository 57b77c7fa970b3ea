//! How a kernel flushes, and how Linux does since which version.

use ceasefire::Schedule;

use crate::replay::calls::Calls;

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

    /// That of a Linux kernel on x86, by its release such as `6.12.43+deb13`. Reclaim has had batches since 4.8
    /// (72b252aed506) and migration since 6.3 (7e12beb8ca2a).
    pub fn of_linux(release: &str) -> Self {
        let mut numbers =
            release.split(|c: char| !c.is_ascii_digit()).map_while(|number| number.parse::<u32>().ok());
        let version = (numbers.next().unwrap_or(u32::MAX), numbers.next().unwrap_or(0));
        let since = |first| if version >= first { Schedule::Batched } else { Schedule::PerPage };
        Self {
            reclaim: since((4, 8)),
            migration: since((6, 3)),
            broadcasts: false,
            keeps_masks: version >= (6, 13),
            calls: Calls::Recorded,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn linux_has_batches_from_its_versions_on() {
        let schedules = |release| {
            let mechanism = Mechanism::of_linux(release);
            (mechanism.reclaim, mechanism.migration)
        };
        assert_eq!(schedules("6.1.0-44-cloud-amd64"), (Schedule::Batched, Schedule::PerPage));
        assert_eq!(schedules("6.12.43+deb13"), (Schedule::Batched, Schedule::Batched));
        assert_eq!(schedules("7.2.1"), (Schedule::Batched, Schedule::Batched));
        assert_eq!(schedules("4.4.0"), (Schedule::PerPage, Schedule::PerPage));
    }
}
