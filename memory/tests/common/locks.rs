//! The locks of the threads that act as CPUs. They spin, and answer interrupts meanwhile unless their class forbids it.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, RwLockReadGuard, RwLockWriteGuard, TryLockError};

use ceasefire_memory::locks::{AREA, FILE_MAPPERS, PAGES};
use ceasefire_memory::{Lock, LockClass, Rcu, RwLock};

use super::{Moment, Threads};

/// A lock that is held. On drop the guard goes first; then the lock is forgotten and interrupts come back.
pub(crate) struct Held<'a, G> {
    guard: G,
    _section: Section<'a>,
}

impl<'a, G> Held<'a, G> {
    pub(super) fn new(guard: G, platform: &'a Threads, class: &'static LockClass) -> Self {
        Self { guard, _section: Section { platform, class } }
    }
}

struct Section<'a> {
    platform: &'a Threads,
    class: &'static LockClass,
}

impl Drop for Section<'_> {
    fn drop(&mut self) {
        self.platform.core().held.release(self.class);
        if self.class.interrupts_off {
            self.platform.interrupts_back();
        }
        let moment = match self.class.rank {
            rank if rank == PAGES.rank => Moment::Unlock,
            rank if rank == FILE_MAPPERS.rank => Moment::UnlockMappers,
            _ => return,
        };
        self.platform.reach(moment);
    }
}

impl<G: Deref> Deref for Held<'_, G> {
    type Target = G::Target;

    fn deref(&self) -> &G::Target {
        &self.guard
    }
}

impl<G: DerefMut> DerefMut for Held<'_, G> {
    fn deref_mut(&mut self) -> &mut G::Target {
        &mut self.guard
    }
}

fn got<G>(attempt: Result<G, TryLockError<G>>) -> Option<G> {
    match attempt {
        Ok(guard) => Some(guard),
        Err(TryLockError::WouldBlock) => None,
        Err(TryLockError::Poisoned(_)) => panic!("a CPU failed while it held this lock"),
    }
}

#[derive(Debug)]
pub(crate) struct SpinLock<T> {
    class: &'static LockClass,
    value: Mutex<T>,
}

impl<T: fmt::Debug> Lock<T, Threads> for SpinLock<T> {
    type Guard<'a>
        = Held<'a, MutexGuard<'a, T>>
    where
        T: 'a;

    fn new(class: &'static LockClass, value: T) -> Self {
        Self { class, value: Mutex::new(value) }
    }

    fn lock<'a>(&'a self, platform: &'a Threads) -> Self::Guard<'a> {
        platform.acquire(self.class, || got(self.value.try_lock()))
    }
}

#[derive(Debug)]
pub(crate) struct RwSpin<T> {
    class: &'static LockClass,
    value: std::sync::RwLock<T>,
    /// Readers let writers go first. Otherwise writers might wait forever.
    writers: AtomicU64,
}

impl<T: fmt::Debug> RwLock<T, Threads> for RwSpin<T> {
    type Read<'a>
        = Held<'a, RwLockReadGuard<'a, T>>
    where
        T: 'a;
    type Write<'a>
        = Held<'a, RwLockWriteGuard<'a, T>>
    where
        T: 'a;

    fn new(class: &'static LockClass, value: T) -> Self {
        Self { class, value: std::sync::RwLock::new(value), writers: AtomicU64::new(0) }
    }

    fn read<'a>(&'a self, platform: &'a Threads) -> Self::Read<'a> {
        if self.class.rank == AREA.rank {
            platform.reach(Moment::ShareArea);
        }
        platform.acquire(self.class, || {
            let free = self.writers.load(Ordering::Relaxed) == 0;
            free.then(|| got(self.value.try_read())).flatten()
        })
    }

    fn write<'a>(&'a self, platform: &'a Threads) -> Self::Write<'a> {
        if self.class.rank == AREA.rank {
            platform.reach(Moment::CloseArea);
        }
        self.writers.fetch_add(1, Ordering::Relaxed);
        let held = platform.acquire(self.class, || got(self.value.try_write()));
        self.writers.fetch_sub(1, Ordering::Relaxed);
        held
    }
}

/// A value that readers take a reference to.
#[derive(Debug)]
pub(crate) struct Published<T>(Mutex<Arc<T>>);

impl<T: Clone + fmt::Debug> Rcu<T, Threads> for Published<T> {
    fn new(value: T) -> Self {
        Self(Mutex::new(Arc::new(value)))
    }

    fn read<R>(&self, _: &Threads, body: impl FnOnce(&T) -> R) -> R {
        let value = self.0.lock().unwrap().clone();
        body(&value)
    }

    fn update(&self, _: &Threads, body: impl FnOnce(&mut T)) {
        body(Arc::make_mut(&mut self.0.lock().unwrap()));
    }
}
