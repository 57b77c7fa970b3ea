//! The memory of this computer, shared out to the runs.

use std::fs;
use std::sync::{Condvar, Mutex, PoisonError};

/// The memory that this process may still take, in bytes; as much as can be imagined if the system does not say.
pub(crate) fn available() -> u64 {
    let free = fs::read_to_string("/proc/meminfo").ok().and_then(|text| available_of(&text));
    let number =
        |file: &str| fs::read_to_string(format!("/sys/fs/cgroup/{file}")).ok()?.trim().parse::<u64>().ok();
    // A container has a limit of its own. Without one the file says `max`, which is no number.
    let limit =
        number("memory.max").zip(number("memory.current")).map(|(most, now)| most.saturating_sub(now));
    [free, limit].into_iter().flatten().min().unwrap_or(u64::MAX)
}

/// `MemAvailable` of `/proc/meminfo`, in bytes.
fn available_of(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// Memory from which runs take their share, and wait if there is not enough.
#[derive(Debug)]
pub(super) struct Budget {
    all: u64,
    left: Mutex<u64>,
    returned: Condvar,
}

impl Budget {
    pub(super) fn new(all: u64) -> Self {
        Self { all, left: Mutex::new(all), returned: Condvar::new() }
    }

    /// Waits until there is so much, or until there is all for a run that takes more, and takes it.
    pub(super) fn take(&self, bytes: u64) -> Share<'_> {
        let bytes = bytes.min(self.all);
        let left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        let mut left =
            self.returned.wait_while(left, |left| *left < bytes).unwrap_or_else(PoisonError::into_inner);
        *left -= bytes;
        Share { budget: self, bytes }
    }
}

/// A run's share, given back when it is dropped.
#[derive(Debug)]
pub(super) struct Share<'a> {
    budget: &'a Budget,
    bytes: u64,
}

impl Drop for Share<'_> {
    fn drop(&mut self) {
        *self.budget.left.lock().unwrap_or_else(PoisonError::into_inner) += self.bytes;
        self.budget.returned.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::thread;

    use super::*;

    #[test]
    fn the_available_memory_is_read_from_meminfo() {
        let text = "MemTotal:       24576000 kB\nMemFree:         1000000 kB\nMemAvailable:   20000000 kB\n";
        assert_eq!(available_of(text), Some(20_000_000 * 1024));
        for text in ["", "MemAvailable: many kB", "MemAvailable: 5"] {
            assert_eq!(available_of(text), None, "{text}");
        }
        assert!(available() > 1 << 20);
    }

    #[test]
    fn shares_never_exceed_the_budget_and_every_run_gets_one() {
        let (budget, taken, most) = (Budget::new(10), AtomicU64::new(0), AtomicU64::new(0));
        thread::scope(|scope| {
            for bytes in [3, 4, 10, 5, 25, 1, 7, 10] {
                let (budget, taken, most) = (&budget, &taken, &most);
                scope.spawn(move || {
                    let share = budget.take(bytes);
                    most.fetch_max(
                        taken.fetch_add(share.bytes, Ordering::SeqCst) + share.bytes,
                        Ordering::SeqCst,
                    );
                    taken.fetch_sub(share.bytes, Ordering::SeqCst);
                });
            }
        });
        assert!(most.into_inner() <= 10);
        assert_eq!(*budget.left.lock().expect("no panic"), 10);
    }
}
