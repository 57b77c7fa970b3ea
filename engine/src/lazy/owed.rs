//! What may be used again only once its debt was paid.
//!
//! A page that reclaim or migration takes away from its programs may be let go of before their CPUs have flushed, if
//! all they could still do is read what was there. Then the frame comes out of a [`Batch`](crate::Batch) not as it went
//! in but as an [`Owed`]: with a [`Stamp`] that says until when CPUs may reach it. An allocator keeps the stamp with the
//! free frame, through its lists, its merges and its splits; and the frame comes out of the [`Owed`] only through the
//! engine, which looks whether the debt was settled meanwhile ([`Engine::redeem`]) or settles it
//! ([`Engine::pay`]). The same stamp marks the other things that the debt endangers: the page's slot in its file and the
//! addresses where it was mapped.

use core::fmt;

use crate::platform::Platform;
use crate::space::Stamp;
use crate::Engine;

/// Something that CPUs may still reach through translations that were taken away, for reading alone.
///
/// It cannot be had while its debt stands:
///
/// ```compile_fail,E0616
/// fn reuse(frame: ceasefire::Owed<Box<u8>>) -> Box<u8> {
///     frame.held
/// }
/// ```
///
/// Whoever drops it loses what is in it, and is told so:
///
/// ```compile_fail
/// #![deny(unused_must_use)]
/// # fn free(frame: Box<u8>) -> ceasefire::Owed<Box<u8>> { ceasefire::Owed::settled(frame) }
/// fn lost(frame: Box<u8>) {
///     free(frame);
/// }
/// ```
#[must_use = "what it holds is lost: store it with its stamp, or settle it"]
#[derive(Debug, PartialEq, Eq)]
pub struct Owed<T> {
    held: T,
    stamp: Stamp,
}

impl<T> Owed<T> {
    /// What `stamp` is owed for: what a batch let go of, or what was stored with it.
    pub const fn new(held: T, stamp: Stamp) -> Self {
        Self { held, stamp }
    }

    /// Something for which nothing is owed.
    pub const fn settled(held: T) -> Self {
        Self::new(held, Stamp::SETTLED)
    }

    /// Until when CPUs may reach it.
    pub const fn stamp(&self) -> Stamp {
        self.stamp
    }

    /// What it is, to look at.
    pub const fn get(&self) -> &T {
        &self.held
    }

    /// What is owed for, to be stored. Its debt goes to `place`, which is stored with it and then stands for both: whatever
    /// was there before is settled when the later of the two is. [`Owed::new`] puts them together again.
    #[must_use = "what is owed for is lost: store it with its stamp"]
    pub fn leave_in(self, place: &mut Stamp) -> T {
        *place = place.with(self.stamp);
        self.held
    }

    /// The same debt for what `change` makes of it.
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
    /// What is owed for, if its debt is settled by now; else as it was. Never waits, so it is for every context.
    ///
    /// # Errors
    /// The same [`Owed`], while CPUs may reach what it holds.
    pub fn redeem<T>(&self, owed: Owed<T>) -> Result<T, Owed<T>> {
        if self.is_settled(owed.stamp) {
            Ok(owed.held)
        } else {
            Err(owed)
        }
    }

    /// What is owed for, once its debt is paid: interrupts the CPUs that may still reach it, if there are any, and with
    /// it pays for all that is owed by then.
    ///
    /// Interrupts must be on, and no lock may be held that is held with interrupts off.
    pub fn pay<T>(&self, owed: Owed<T>) -> T {
        self.pay_to(owed.stamp);
        owed.held
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_that_become_one_owe_what_the_newer_owed() {
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
