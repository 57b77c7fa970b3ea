//! Helpers of the tests that clear and narrow: former entries, and short forms of the operations.

use ceasefire::{
    AddressSpace, Batch, Condition, Entry, Gather, Owed, PageSize, Place, Platform, Schedule, Settled, Stamp,
    TableGuard, WritePermit,
};
pub(crate) use ceasefire_testing::{SpaceLock, TableLock};

use crate::script::{Machine, Script, Space};

/// A translation as it was before the change.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Was {
    pub(crate) address: u64,
    pub(crate) size: PageSize,
    pub(crate) entry: Entry,
}

/// A translation of a small page.
pub(crate) fn small(address: u64, entry: Entry) -> Was {
    Was { address, size: PageSize::KIB_4, entry }
}

/// A translation of a huge page that allowed only loads.
pub(crate) fn huge(address: u64) -> Was {
    Was { address, size: PageSize::MIB_2, entry: Entry::READ_ONLY }
}

/// A small page that was stored to, or that allowed only loads.
pub(crate) fn was(address: u64, dirty: bool) -> Was {
    small(address, if dirty { Entry::DIRTY } else { Entry::READ_ONLY })
}

/// Room for a gather.
pub(crate) fn room<T, const N: usize>() -> [Place<T>; N] {
    std::array::from_fn(|_| Place::EMPTY)
}

/// Changes a translation under a lock and hands over the page that it led to.
pub(crate) fn unmap<P: Platform, T, R: FnMut(T), G: TableGuard<P>>(
    gather: &mut Gather<'_, P, T, R>,
    lock: Settled<G>,
    was: Was,
    held: Option<T>,
) {
    let mut changes = gather.under(lock);
    changes.clear(was.address, was.size, |_| was.entry, |_| held);
}

/// A batch whose pages need no care when they come out.
pub(crate) fn batch(m: &Machine, schedule: Schedule) -> Batch<'_, Script, u64, impl FnMut(Owed<u64>)> {
    Batch::new(m, schedule, |_| ())
}

/// Short forms of the operations on batches.
pub(crate) trait Hands<S, T> {
    /// Clears a translation of a page and holds the page.
    fn unmap(&mut self, space: &S, was: Was, page: T);
    /// Clears a translation of a page and lets the page go.
    fn unmap_and_release(&mut self, space: &S, was: Was, page: T);
    /// Narrows a translation of a page and holds the page.
    fn restrict(&mut self, space: &S, was: Was, page: T);
    /// Clears a translation of a page that is to be written out.
    fn unmap_to_write(&mut self, space: &S, was: Was, page: T) -> WritePermit<T>;
    /// The permit to write out a page that is no longer mapped.
    fn permit(&mut self, page: T) -> WritePermit<T>;
}

impl<P: Platform, T, R: FnMut(Owed<T>), const N: usize> Hands<P::Space, T> for Batch<'_, P, T, R, N>
where
    P::Space: AsRef<AddressSpace>,
{
    fn unmap(&mut self, space: &P::Space, was: Was, page: T) {
        let mut unmapping = self.take(page);
        unmapping
            .clear::<TableLock<P::Space>, _>(&TableLock(space.clone()), was.address, was.size, |_| was.entry);
        unmapping.hold();
    }

    fn unmap_and_release(&mut self, space: &P::Space, was: Was, page: T) {
        let mut unmapping = self.take(page);
        unmapping.clear(&TableLock(space.clone()), was.address, was.size, |_| was.entry);
        unmapping.release_in_debt(Condition::UNKEPT);
    }

    fn restrict(&mut self, space: &P::Space, was: Was, page: T) {
        let mut unmapping = self.take(page);
        unmapping.narrow(&TableLock(space.clone()), was.address, was.size, |_| was.entry);
        unmapping.hold();
    }

    fn unmap_to_write(&mut self, space: &P::Space, was: Was, page: T) -> WritePermit<T> {
        let mut unmapping = self.take(page);
        unmapping.clear(&TableLock(space.clone()), was.address, was.size, |_| was.entry);
        unmapping.withhold();
        self.write_permit().expect("a page is withheld")
    }

    fn permit(&mut self, page: T) -> WritePermit<T> {
        self.take(page).withhold();
        self.write_permit().expect("a page is withheld")
    }
}

/// Releases in debt a page at `address` to which no CPU could store. Returns the stamp until which it owes.
pub(crate) fn release_in_debt(m: &Machine, space: &Space, address: u64) -> Stamp {
    let mut stamp = None;
    let mut batch: Batch<'_, _, u64, _> =
        Batch::new(m, Schedule::Lazy, |page: Owed<u64>| stamp = Some(page.stamp()));
    batch.unmap_and_release(space, was(address, false), 1);
    drop(batch);
    stamp.expect("it came out")
}
