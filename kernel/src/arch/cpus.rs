//! The CPUs by number: how many there may be, and how many run.

use core::sync::atomic::{AtomicUsize, Ordering};

/// The most CPUs that can be used.
pub(crate) const MOST_CPUS: usize = 64;

const _: () = assert!(
    ceasefire::MAX_CPUS == MOST_CPUS,
    "the kernel is built with CEASEFIRE_MAX_CPUS=64 in the environment, as `cargo xtask kernel` does"
);

static COUNT: AtomicUsize = AtomicUsize::new(1);

/// The number of CPUs that run. At first it is one.
pub(crate) fn count() -> usize {
    COUNT.load(Ordering::Acquire)
}

/// Sets the number of CPUs that run.
pub(crate) fn set_count(count: usize) {
    COUNT.store(count, Ordering::Release);
}

/// Numbers the CPUs from 0: `first` first, the others in the order in which they are `listed`. Calls `name` for each
/// CPU that can be used. Returns how many CPUs there are.
pub(super) fn number<I: Copy + PartialEq>(
    first: I,
    listed: impl Iterator<Item = I>,
    name: impl Fn(usize, I),
) -> usize {
    let all = core::iter::once(first).chain(listed.filter(|&id| id != first));
    let named = all.enumerate().map(|(number, id)| {
        if number < MOST_CPUS {
            name(number, id);
        }
    });
    named.count()
}
