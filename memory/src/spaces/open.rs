//! The areas that a task may use under the area's own lock, without the lock of the space (Linux: per-VMA locks).
//!
//! They are published: a task finds one without a lock, locks it shared, and looks whether it is still open. An
//! operation that changes areas holds the space's lock exclusively. It first closes the areas that it is going to
//! change: it takes them from the list and then waits once for each area's lock, so that every task that found it open
//! has left. What it leaves is opened again at its end, with new locks. A task that finds no open area takes the lock of
//! the space, which tells whether there is one.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;

use crate::locks::{self, Rcu, RwLock};
use crate::machine::Machine;
use crate::spaces::area::{Area, Areas};

/// The operations that lock one area instead of its space, if it is all that they need.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum AreaLocks {
    /// None (Linux before 6.4).
    None,
    /// Faults (Linux from 6.4 on).
    Faults,
    /// Faults, and advice that drops pages of one area, DONTNEED and FREE (Linux from 6.17 on).
    #[default]
    Advice,
}

/// An open area, and its lock.
struct OpenArea<P: Machine> {
    area: Area,
    lock: Arc<P::RwLock<()>>,
}

impl<P: Machine> Clone for OpenArea<P> {
    fn clone(&self) -> Self {
        Self { area: self.area, lock: self.lock.clone() }
    }
}

/// The open areas of a space by address, as they are published.
struct List<P: Machine>(Vec<OpenArea<P>>);

impl<P: Machine> Clone for List<P> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<P: Machine> fmt::Debug for List<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().map(|open| &open.area)).finish()
    }
}

impl<P: Machine> List<P> {
    fn before(&self, address: u64) -> usize {
        self.0.partition_point(|open| open.area.end <= address)
    }

    fn find(&self, address: u64) -> Option<&OpenArea<P>> {
        self.0.get(self.before(address)).filter(|open| open.area.start <= address)
    }
}

/// The open areas of a space.
pub(crate) struct OpenAreas<P: Machine>(P::Rcu<List<P>>);

impl<P: Machine> fmt::Debug for OpenAreas<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<P: Machine> OpenAreas<P> {
    pub(crate) fn new() -> Self {
        Self(P::Rcu::new(List(Vec::new())))
    }

    /// Calls `body` with the open area at an address, locked shared; `None` if there is none. `looks_again` says
    /// whether the area must still be open once it is locked.
    pub(crate) fn with<R>(
        &self,
        platform: &P,
        address: u64,
        looks_again: bool,
        body: impl FnOnce(&Area) -> R,
    ) -> Option<R> {
        let OpenArea { area, lock } = self.0.read(platform, |open| open.find(address).cloned())?;
        let _held = lock.read(platform);
        let is_open = |open: &List<P>| open.find(address).is_some_and(|now| Arc::ptr_eq(&now.lock, &lock));
        if looks_again && !self.0.read(platform, is_open) {
            return None;
        }
        Some(body(&area))
    }

    /// Closes the areas that overlap or touch `[start, end)`. With `waits`, no task uses them any more when the call
    /// returns. The caller holds the space's lock exclusively.
    pub(crate) fn close(&self, platform: &P, (start, end): (u64, u64), waits: bool) {
        let mut closed = Vec::new();
        self.0.update(platform, |open| {
            // One that ends at the start touches.
            let first = open.0.partition_point(|open| open.area.end < start);
            let last = open.0.partition_point(|open| open.area.start <= end);
            closed.extend(open.0.drain(first..last));
        });
        if waits {
            for open in &closed {
                drop(open.lock.write(platform));
            }
        }
    }

    /// Opens the areas that overlap or touch `[start, end)` and are not open.
    pub(crate) fn open(&self, platform: &P, areas: &Areas, (start, end): (u64, u64)) {
        self.0.update(platform, |open| {
            for area in areas.overlapping(start.saturating_sub(1), end.saturating_add(1)) {
                let at = open.before(area.start);
                if open.0.get(at).is_none_or(|next| next.area.start >= area.end) {
                    let lock = Arc::new(P::RwLock::new(&locks::AREA, ()));
                    open.0.insert(at, OpenArea { area: *area, lock });
                }
            }
        });
    }
}
