//! The age that lazy debts may reach, and the events that settle them.

use core::fmt;

/// The greatest age that a kernel may allow a debt: 1 s, in nanoseconds.
///
/// The ticks of the CPUs that have debts settle them. One second is the slowest tick of any CPU that runs programs:
/// Linux keeps it even where ticks are turned off (`CONFIG_NO_HZ_FULL`, the residual 1 Hz tick). No tick would enforce
/// a longer age.
pub const LONGEST_AGE: u64 = 1_000_000_000;

/// The default greatest age of a debt: 10 ms, in nanoseconds.
pub const DEFAULT_AGE: u64 = 10_000_000;

/// The means by which lazy debts are paid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Payment {
    /// Events that happen anyway: switches, leaving a space, timer ticks. Interrupts only where an operation cannot
    /// wait.
    #[default]
    Free,
    /// Interrupts alone, when a frame or page in debt is needed or its debt is too old. LUF worked so (B. Park, 2024).
    Demand,
}

/// The age that debts may reach, and the events that settle them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    max_age: u64,
    tick: u64,
    payment: Payment,
}

/// Why bounds cannot be kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BoundsError {
    /// The age is beyond the slowest tick.
    TooOld {
        /// The requested age, in nanoseconds.
        max_age: u64,
    },
    /// Ticks are too far apart to keep debts that young. (An age of 0, no debts at all, can be kept.)
    TooYoung {
        /// The requested age, in nanoseconds.
        max_age: u64,
        /// The smallest age that these ticks keep: two of them.
        least: u64,
    },
    /// There is no tick.
    NoTick,
}

impl fmt::Display for BoundsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooOld { max_age } => {
                write!(f, "a debt may not stand for {max_age} ns: at most {LONGEST_AGE} ns")
            }
            Self::TooYoung { max_age, least } => {
                write!(f, "ticks cannot keep debts below {max_age} ns: at least {least} ns, two ticks, or 0 for none")
            }
            Self::NoTick => f.write_str("debts cannot be kept young by ticks that are 0 ns apart"),
        }
    }
}

impl Bounds {
    /// Nothing is owed longer than an operation lasts.
    pub const STRICT: Self = Self { max_age: 0, tick: 1, payment: Payment::Free };

    /// Allows debts up to `max_age` old, on a machine whose CPUs each call [`Engine::tick`](crate::Engine::tick) every
    /// `tick`. Both are in nanoseconds. An age of 0 is [`Bounds::STRICT`].
    ///
    /// # Errors
    /// [`BoundsError`] names the bound that is broken: [`LONGEST_AGE`], two ticks, or a tick of 0.
    pub const fn new(max_age: u64, tick: u64, payment: Payment) -> Result<Self, BoundsError> {
        if tick == 0 {
            return Err(BoundsError::NoTick);
        }
        if max_age > LONGEST_AGE {
            return Err(BoundsError::TooOld { max_age });
        }
        let least = tick.saturating_mul(2);
        if max_age != 0 && max_age < least {
            return Err(BoundsError::TooYoung { max_age, least });
        }
        Ok(Self { max_age, tick, payment })
    }

    /// The age that no debt exceeds by more than a tick, in nanoseconds; 0 if nothing may be owed.
    pub const fn max_age(self) -> u64 {
        self.max_age
    }

    /// The time between two ticks of a CPU, in nanoseconds.
    pub const fn tick(self) -> u64 {
        self.tick
    }

    /// The means by which debts are paid.
    pub const fn payment(self) -> Payment {
        self.payment
    }

    /// Whether nothing may be owed.
    pub const fn is_strict(self) -> bool {
        self.max_age == 0
    }

    /// How long an epoch takes debts. A debt then waits for two ticks at most: one on any CPU, which closes its epoch,
    /// and one on each CPU that has the debt. The length is at least a quarter of a tick, so no more than ten epochs
    /// stand at a time.
    pub(crate) const fn epoch(self) -> u64 {
        let spare = self.max_age - self.max_age_of_ticks();
        let least = self.tick / 4;
        if spare < least {
            least
        } else {
            spare
        }
    }

    /// The age at which any CPU that notices a debt pays it. If ticks alone should have settled it, some CPU had none.
    pub(crate) const fn overdue(self) -> u64 {
        match self.payment {
            Payment::Free => self.max_age,
            // Ticks only notice here, so the last tick in time must already count.
            Payment::Demand => self.max_age.saturating_sub(self.tick),
        }
    }

    const fn max_age_of_ticks(self) -> u64 {
        if self.is_strict() {
            0
        } else {
            self.tick.saturating_mul(2)
        }
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn ages_that_ticks_cannot_keep_are_refused_with_the_bound() {
        let refused = |max_age, tick| Bounds::new(max_age, tick, Payment::Free).expect_err("refused");
        assert_eq!(refused(LONGEST_AGE + 1, MS), BoundsError::TooOld { max_age: LONGEST_AGE + 1 });
        assert_eq!(refused(7 * MS, 4 * MS), BoundsError::TooYoung { max_age: 7 * MS, least: 8 * MS });
        assert_eq!(refused(MS, 0), BoundsError::NoTick);
        assert_eq!(refused(1, u64::MAX), BoundsError::TooYoung { max_age: 1, least: u64::MAX });
    }

    #[test]
    fn an_epoch_and_two_ticks_are_an_age_and_at_most_a_tick() {
        for (max_age, tick) in [(10, 4), (8, 4), (1000, 1), (20, 10), (10, 1)] {
            let bounds = Bounds::new(max_age * MS, tick * MS, Payment::Free).expect("they can be kept");
            assert!(bounds.epoch() + 2 * tick * MS <= (max_age + tick) * MS, "{bounds:?}");
            assert!(!bounds.is_strict() && bounds.overdue() == max_age * MS);
        }
        assert!(Bounds::new(0, 4 * MS, Payment::Free).expect("strict").is_strict());
        assert!(Bounds::STRICT.is_strict());
    }

    #[test]
    fn an_epoch_takes_debts_for_what_two_ticks_leave_of_the_age_but_at_least_a_quarter_of_a_tick() {
        for (max_age, tick, epoch) in [
            (10 * MS, 4 * MS, 2 * MS),
            (8 * MS, 4 * MS, MS),
            (9 * MS, 4 * MS, MS),
            (1000, 10, 980),
            (0, 8, 2),
        ] {
            let bounds = Bounds::new(max_age, tick, Payment::Free).expect("they can be kept");
            assert_eq!((bounds.max_age(), bounds.tick(), bounds.epoch()), (max_age, tick, epoch));
        }
    }

    #[test]
    fn errors_name_the_age_and_the_bound() {
        let text = |max_age, tick| {
            std::format!("{}", Bounds::new(max_age, tick, Payment::Free).expect_err("it cannot be kept"))
        };
        assert_eq!(text(7, 4), "ticks cannot keep debts below 7 ns: at least 8 ns, two ticks, or 0 for none");
        assert!(text(LONGEST_AGE + 1, 4).ends_with(&std::format!("at most {LONGEST_AGE} ns")));
        assert!(text(7, 0).contains("0 ns apart"));
    }
}
