//! Atomic integers whose every access a checker decides.
//!
//! They take the place of `core::sync::atomic` in the engine where it is built to be checked. Their constructors are
//! constants, like the originals', so nothing else in the engine changes.
//!
//! A thread [installs](install) a [`Checker`], which then gets every access of the thread with its ordering. It decides
//! which other CPU acts before the access, and which of the values stored so far a load reads. Without a checker the
//! types behave like the originals.
//!
//! A location is known by a number that it gets at its first access under a checker. The number moves with the value,
//! so an atomic that was moved before it was shared keeps its history.

#![forbid(unsafe_code)]
#![warn(unreachable_pub)]

use std::cell::{Cell, RefCell};
use std::fmt;
pub use std::panic::Location as Place;
use std::rc::Rc;
use std::sync::atomic as plain;
pub use std::sync::atomic::Ordering;

/// Decides what atomic accesses do.
pub trait Checker {
    /// The number of the run. A location that was registered in another run is registered again: a static lives longer
    /// than a run.
    fn run(&self) -> u32 {
        0
    }

    /// The next access, or the next fence, stands at this place of the source.
    fn at(&self, place: &'static Place<'static>) {
        let _ = place;
    }

    /// The number of a new location, which holds `value`. Numbers start at 1.
    fn register(&self, value: u64) -> u32;

    /// The value that a load reads.
    fn load(&self, location: u32, order: Ordering) -> u64;

    /// Stores a value.
    fn store(&self, location: u32, value: u64, order: Ordering);

    /// Reads the newest value and replaces it by the result of `change`, in one step. Returns the old value.
    ///
    /// # Errors
    /// The value that was read, with nothing stored, if `change` returned `None`.
    fn update(
        &self,
        location: u32,
        success: Ordering,
        failure: Ordering,
        change: &mut dyn FnMut(u64) -> Option<u64>,
    ) -> Result<u64, u64>;

    /// A fence.
    fn fence(&self, order: Ordering);

    /// The thread is between two exchanged statements: see [`between`].
    fn between(&self) {}
}

thread_local! {
    static CHECKER: RefCell<Option<Rc<dyn Checker>>> = const { RefCell::new(None) };
}

/// Puts a checker in charge of every access that this thread makes from here on, or none.
pub fn install(checker: Option<Rc<dyn Checker>>) {
    CHECKER.set(checker);
}

thread_local! {
    static EXCHANGED: Cell<u32> = const { Cell::new(0) };
}

/// Exchanges a pair of statements of a copy of the engine, for this thread; 0 for none.
pub fn exchange(pair: u32) {
    EXCHANGED.set(pair);
}

/// Whether a pair of statements is exchanged. Only a copy of the engine asks, whose statements were rewritten.
pub fn is_exchanged(pair: u32) -> bool {
    EXCHANGED.get() == pair
}

/// Stands between the two statements of an exchanged pair. What needs their order shows itself if much happens here.
pub fn between() {
    if let Some(checker) = checker() {
        checker.between();
    }
}

fn checker() -> Option<Rc<dyn Checker>> {
    CHECKER.with_borrow(Clone::clone)
}

/// A fence, like [`std::sync::atomic::fence`].
#[track_caller]
pub fn fence(order: Ordering) {
    match checker() {
        Some(checker) => {
            checker.at(Place::caller());
            checker.fence(order);
        }
        None => plain::fence(order),
    }
}

/// One location: its newest value, and its number under the checker with the run's above it; 0 before the first access.
struct Location {
    value: plain::AtomicU64,
    number: plain::AtomicU64,
}

impl Location {
    const fn new(value: u64) -> Self {
        Self { value: plain::AtomicU64::new(value), number: plain::AtomicU64::new(0) }
    }

    fn number(&self, checker: &dyn Checker) -> u32 {
        let (run, known) = (u64::from(checker.run()) << 32, self.number.load(Ordering::Relaxed));
        if known != 0 && known & !u64::from(u32::MAX) == run {
            return known as u32;
        }
        let number = checker.register(self.value.load(Ordering::Relaxed));
        self.number.store(run | u64::from(number), Ordering::Relaxed);
        number
    }

    #[track_caller]
    fn load(&self, order: Ordering) -> u64 {
        match checker() {
            Some(checker) => {
                checker.at(Place::caller());
                checker.load(self.number(&*checker), order)
            }
            None => self.value.load(order),
        }
    }

    #[track_caller]
    fn store(&self, value: u64, order: Ordering) {
        match checker() {
            Some(checker) => {
                checker.at(Place::caller());
                checker.store(self.number(&*checker), value, order);
                self.value.store(value, Ordering::Relaxed);
            }
            None => self.value.store(value, order),
        }
    }

    #[track_caller]
    fn update(
        &self,
        success: Ordering,
        failure: Ordering,
        mut change: impl FnMut(u64) -> Option<u64>,
    ) -> Result<u64, u64> {
        let Some(checker) = checker() else { return self.value.fetch_update(success, failure, change) };
        checker.at(Place::caller());
        let mut stored = None;
        let result = checker.update(self.number(&*checker), success, failure, &mut |old| {
            stored = change(old);
            stored
        });
        if let Some(value) = stored {
            self.value.store(value, Ordering::Relaxed);
        }
        result
    }

    /// The newest value, to print.
    fn newest(&self) -> u64 {
        self.value.load(Ordering::Relaxed)
    }
}

/// The ordering of the read in a failed exchange with this ordering.
const fn of_failure(order: Ordering) -> Ordering {
    match order {
        Ordering::AcqRel | Ordering::Acquire => Ordering::Acquire,
        Ordering::SeqCst => Ordering::SeqCst,
        _ => Ordering::Relaxed,
    }
}

macro_rules! integers {
    ($($(#[$about:meta])* $name:ident $value:ty;)*) => {$(
        $(#[$about])*
        pub struct $name(Location);

        impl $name {
            /// A location that holds `value`.
            pub const fn new(value: $value) -> Self {
                Self(Location::new(value as u64))
            }

            /// Reads the value.
            #[track_caller]
            pub fn load(&self, order: Ordering) -> $value {
                self.0.load(order) as $value
            }

            /// Stores a value.
            #[track_caller]
            pub fn store(&self, value: $value, order: Ordering) {
                self.0.store(value as u64, order);
            }

            /// Replaces the value and returns the old one.
            #[track_caller]
            pub fn swap(&self, value: $value, order: Ordering) -> $value {
                self.change(order, |_| value)
            }

            /// Replaces the value by `new` if it is `current`. Returns the old value.
            ///
            /// # Errors
            /// The value, if it is another.
            #[track_caller]
            pub fn compare_exchange(
                &self,
                current: $value,
                new: $value,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$value, $value> {
                self.fetch_update(success, failure, |old| (old == current).then_some(new))
            }

            /// The same. It never fails without a reason.
            ///
            /// # Errors
            /// The value, if it is another.
            #[track_caller]
            pub fn compare_exchange_weak(
                &self,
                current: $value,
                new: $value,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$value, $value> {
                self.compare_exchange(current, new, success, failure)
            }

            /// Replaces the value by the result of `change` and returns the old one.
            ///
            /// # Errors
            /// The value, if `change` returned `None`.
            #[track_caller]
            pub fn fetch_update(
                &self,
                success: Ordering,
                failure: Ordering,
                mut change: impl FnMut($value) -> Option<$value>,
            ) -> Result<$value, $value> {
                let result = self.0.update(success, failure, |old| change(old as $value).map(|new| new as u64));
                result.map(|old| old as $value).map_err(|old| old as $value)
            }

            /// Adds to the value, and wraps; returns the old value.
            #[track_caller]
            pub fn fetch_add(&self, count: $value, order: Ordering) -> $value {
                self.change(order, |old| old.wrapping_add(count))
            }

            /// Subtracts from the value, and wraps; returns the old value.
            #[track_caller]
            pub fn fetch_sub(&self, count: $value, order: Ordering) -> $value {
                self.change(order, |old| old.wrapping_sub(count))
            }

            /// Sets bits and returns the old value.
            #[track_caller]
            pub fn fetch_or(&self, bits: $value, order: Ordering) -> $value {
                self.change(order, |old| old | bits)
            }

            /// Keeps only these bits and returns the old value.
            #[track_caller]
            pub fn fetch_and(&self, bits: $value, order: Ordering) -> $value {
                self.change(order, |old| old & bits)
            }

            /// Raises the value to at least `least` and returns the old one.
            #[track_caller]
            pub fn fetch_max(&self, least: $value, order: Ordering) -> $value {
                self.change(order, |old| old.max(least))
            }

            /// Lowers the value to at most `most` and returns the old one.
            #[track_caller]
            pub fn fetch_min(&self, most: $value, order: Ordering) -> $value {
                self.change(order, |old| old.min(most))
            }

            #[track_caller]
            fn change(&self, order: Ordering, change: impl Fn($value) -> $value) -> $value {
                let (Ok(old) | Err(old)) = self.fetch_update(order, of_failure(order), |old| Some(change(old)));
                old
            }
        }

        impl Default for $name {
            fn default() -> Self {
                Self::new(0)
            }
        }

        impl From<$value> for $name {
            fn from(value: $value) -> Self {
                Self::new(value)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&(self.0.newest() as $value), f)
            }
        }
    )*};
}

integers! {
    /// 8 bits, like [`std::sync::atomic::AtomicU8`].
    AtomicU8 u8;
    /// 16 bits, like [`std::sync::atomic::AtomicU16`].
    AtomicU16 u16;
    /// 32 bits, like [`std::sync::atomic::AtomicU32`].
    AtomicU32 u32;
    /// 64 bits, like [`std::sync::atomic::AtomicU64`].
    AtomicU64 u64;
    /// The size of an address, like [`std::sync::atomic::AtomicUsize`].
    AtomicUsize usize;
}

/// A truth value, like [`std::sync::atomic::AtomicBool`].
pub struct AtomicBool(Location);

impl AtomicBool {
    /// A location that holds `value`.
    pub const fn new(value: bool) -> Self {
        Self(Location::new(value as u64))
    }

    /// Reads the value.
    #[track_caller]
    pub fn load(&self, order: Ordering) -> bool {
        self.0.load(order) != 0
    }

    /// Stores a value.
    #[track_caller]
    pub fn store(&self, value: bool, order: Ordering) {
        self.0.store(value.into(), order);
    }

    /// Replaces the value and returns the old one.
    #[track_caller]
    pub fn swap(&self, value: bool, order: Ordering) -> bool {
        let (Ok(old) | Err(old)) = self.0.update(order, of_failure(order), |_| Some(value.into()));
        old != 0
    }

    /// Replaces the value by `new` if it is `current`. Returns the old value.
    ///
    /// # Errors
    /// The value, if it is another.
    #[track_caller]
    pub fn compare_exchange(
        &self,
        current: bool,
        new: bool,
        success: Ordering,
        failure: Ordering,
    ) -> Result<bool, bool> {
        let result = self.0.update(success, failure, |old| ((old != 0) == current).then_some(new.into()));
        result.map(|old| old != 0).map_err(|old| old != 0)
    }
}

impl Default for AtomicBool {
    fn default() -> Self {
        Self::new(false)
    }
}

impl fmt::Debug for AtomicBool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&(self.0.newest() != 0), f)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn without_a_checker_they_are_the_originals() {
        let number = AtomicU16::new(u16::MAX);
        assert_eq!((number.fetch_add(2, Ordering::SeqCst), number.load(Ordering::Relaxed)), (u16::MAX, 1));
        assert_eq!((number.fetch_or(6, Ordering::AcqRel), number.fetch_and(5, Ordering::AcqRel)), (1, 7));
        assert_eq!((number.fetch_max(9, Ordering::Release), number.fetch_min(3, Ordering::Acquire)), (5, 9));
        assert_eq!((number.fetch_sub(4, Ordering::Relaxed), number.swap(8, Ordering::SeqCst)), (3, u16::MAX));
        let exchange =
            |current, new| number.compare_exchange(current, new, Ordering::SeqCst, Ordering::Relaxed);
        assert_eq!((exchange(7, 1), exchange(8, 1), exchange(8, 2)), (Err(8), Ok(8), Err(1)));
        let flag = AtomicBool::new(false);
        let set = |current, new| flag.compare_exchange(current, new, Ordering::SeqCst, Ordering::Relaxed);
        assert_eq!(
            (set(true, false), set(false, true), flag.swap(false, Ordering::SeqCst)),
            (Err(false), Ok(false), true)
        );
        assert_eq!(format!("{number:?} {flag:?}"), "1 false");
    }

    /// Counts the accesses and gives every load the same value.
    #[derive(Default)]
    struct Stubborn {
        accesses: Cell<u32>,
        registered: Cell<u32>,
    }

    impl Stubborn {
        fn count(&self) {
            self.accesses.set(self.accesses.get() + 1);
        }
    }

    impl Checker for Stubborn {
        fn register(&self, _: u64) -> u32 {
            self.registered.set(self.registered.get() + 1);
            self.registered.get()
        }

        fn load(&self, location: u32, _: Ordering) -> u64 {
            self.count();
            u64::from(location) * 10
        }

        fn store(&self, _: u32, _: u64, _: Ordering) {
            self.count();
        }

        fn update(
            &self,
            _: u32,
            _: Ordering,
            _: Ordering,
            change: &mut dyn FnMut(u64) -> Option<u64>,
        ) -> Result<u64, u64> {
            self.count();
            change(40).map_or(Err(40), |_| Ok(40))
        }

        fn fence(&self, _: Ordering) {
            self.count();
        }
    }

    #[test]
    fn a_checker_decides_every_access_while_it_is_in_charge() {
        let (one, two) = (AtomicU64::new(1), AtomicU32::new(2));
        let checker = Rc::new(Stubborn::default());
        install(Some(checker.clone()));
        assert_eq!((two.load(Ordering::Relaxed), one.load(Ordering::Relaxed)), (10, 20), "numbered as used");
        one.store(7, Ordering::Relaxed);
        assert_eq!(one.fetch_add(2, Ordering::Relaxed), 40);
        assert_eq!(one.compare_exchange(3, 4, Ordering::SeqCst, Ordering::SeqCst), Err(40));
        fence(Ordering::SeqCst);
        install(None);
        assert_eq!((checker.accesses.get(), checker.registered.get()), (6, 2));
        assert_eq!(one.load(Ordering::SeqCst), 42, "the newest value stays when the checker has gone");
    }
}
