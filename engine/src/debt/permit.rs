//! Writing pages out: a permit comes only after the flush.
//!
//! A page may be written out once every store to it can be seen: after the flush of the translations through which CPUs
//! could still store without touching the page table. A batch [withholds](crate::Unmapping::withhold) such a page and
//! gives it out again with the permit, after that flush.

/// Permission to write a page out: no store can land in it unseen from here on.
///
/// Only [`Batch::write_permit`](crate::Batch::write_permit) gives one; it cannot be made by hand:
///
/// ```compile_fail,E0423
/// let permit = ceasefire::WritePermit(7);
/// ```
///
/// The page is in it, so nothing else can use the page meanwhile. Until then the batch has the page, so no other batch can
/// give the permit:
///
/// ```compile_fail,E0382
/// # use ceasefire::{Batch, Owed, Platform};
/// fn elsewhere<P: Platform, T, R: FnMut(Owed<T>)>(
///     batch: &mut Batch<'_, P, T, R>, other: &mut Batch<'_, P, T, R>, page: T,
/// ) {
///     batch.take(page).withhold();
///     other.take(page).withhold();
/// }
/// ```
#[derive(Debug)]
#[must_use = "the page in it is lost with it"]
pub struct WritePermit<T>(pub(crate) T);

impl<T> WritePermit<T> {
    /// The page that may be written.
    pub fn page(&self) -> &T {
        &self.0
    }

    /// The page back, once it was written.
    pub fn into_page(self) -> T {
        self.0
    }
}
