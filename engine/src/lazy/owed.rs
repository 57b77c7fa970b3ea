//! A thing that may be reused only once its debt is settled.
//!
//! Reclaim or migration may release a page before all CPUs have flushed, if they can only read its old content. The
//! frame then comes out of its [`Batch`](crate::Batch) as an [`Owed`], with a [`Stamp`] that says until when CPUs may
//! reach it. An allocator keeps the stamp with the free frame, through its lists, merges and splits. Only the engine
//! takes the frame out of the [`Owed`]. [`Engine::redeem`] does so if the debt is settled by now; [`Engine::pay`]
//! settles it. The same stamp marks the other things that the debt endangers: the page's slot in its file, and the
//! addresses where it was mapped.

use core::fmt;

use crate::platform::Platform;
use crate::space::Stamp;
use crate::Engine;

/// A thing that CPUs may still reach through old translations, for loads only.
///
/// It cannot be taken out while its debt stands:
///
/// ```compile_fail,E0616
/// fn reuse(frame: ceasefire::Owed<Box<u8>>) -> Box<u8> {
///     frame.held
/// }
/// ```
///
/// Dropping it loses the thing in it, and the compiler warns of that:
///
/// ```compile_fail
/// #![deny(unused_must_use)]
/// # fn free(frame: Box<u8>) -> ceasefire::Owed<Box<u8>> { ceasefire::Owed::settled(frame) }
/// fn lost(frame: Box<u8>) {
///     free(frame);
/// }
/// ```
#[must_use = "dropping it loses the thing in it: store both with the stamp, or settle the debt"]
#[derive(Debug, PartialEq, Eq)]
pub struct Owed<T> {
    held: T,
    stamp: Stamp,
}

impl<T> Owed<T> {
    /// Joins a thing and its stamp again, after they were stored together.
    pub const fn new(held: T, stamp: Stamp) -> Self {
        Self { held, stamp }
    }

    /// A thing for which nothing is owed.
    pub const fn settled(held: T) -> Self {
        Self::new(held, Stamp::SETTLED)
    }

    /// The stamp until which CPUs may reach it.
    pub const fn stamp(&self) -> Stamp {
        self.stamp
    }

    /// The thing, to look at.
    pub const fn get(&self) -> &T {
        &self.held
    }

    /// Takes the thing out, to be stored, and leaves its debt in `place`, which must be stored with it. `place` then
    /// stands for both debts, its former one and this one: it is settled when the later of the two is. [`Owed::new`]
    /// joins the thing and its stamp again.
    #[must_use = "dropping it loses the thing: store it with its stamp"]
    pub fn leave_in(self, place: &mut Stamp) -> T {
        *place = place.with(self.stamp);
        self.held
    }

    /// Changes the thing and keeps its debt.
    pub fn map<U>(self, change: impl FnOnce(T) -> U) -> Owed<U> {
        Owed::new(change(self.held), self.stamp)
    }
}

impl<T: fmt::Display> fmt::Display for Owed<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} owing {}", self.held, self.stamp.get())
    }
}

impl<P: Platform> Engine<P> {
    /// Returns the thing if its debt is settled by now. Never waits, so any context may call it.
    ///
    /// # Errors
    /// The same [`Owed`], while CPUs may reach the thing.
    pub fn redeem<T>(&self, owed: Owed<T>) -> Result<T, Owed<T>> {
        if self.is_settled(owed.stamp) {
            Ok(owed.held)
        } else {
            Err(owed)
        }
    }

    /// Pays the debt and returns the thing. It interrupts the CPUs that may still reach the thing, if there are any.
    /// The same round pays for all debts that exist by then.
    ///
    /// Interrupts must be on. The caller must hold no lock that is also held with interrupts off.
    pub fn pay<T>(&self, owed: Owed<T>) -> T {
        self.pay_to(owed.stamp);
        owed.held
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use super::*;

    #[test]
    fn a_thing_that_owes_shows_its_debt() {
        assert_eq!(std::format!("{}", Owed::new("page 3", Stamp::stored(5))), "page 3 owing 5");
    }

    #[test]
    fn two_things_that_merge_owe_the_newer_debt() {
        let (old, new) = (Stamp::stored(7), Stamp::stored(8));
        assert_eq!((old.with(new), new.with(old)), (new, new));
        assert_eq!(Stamp::SETTLED.with(old), old);
        assert_eq!(Stamp::stored(old.get()), old);
    }

    #[test]
    fn the_debt_follows_what_it_is_for() {
        let owed = Owed::new(3_u32, Stamp::stored(5)).map(|number| number + 1);
        assert_eq!((*owed.get(), owed.stamp()), (4, Stamp::stored(5)));
        let mut place = Stamp::stored(2);
        assert_eq!((owed.leave_in(&mut place), place), (4, Stamp::stored(5)));
        assert_eq!(
            (Owed::settled(1).leave_in(&mut place), place),
            (1, Stamp::stored(5)),
            "an older debt stays"
        );
    }
}
