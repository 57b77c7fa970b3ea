//! Write permits: a page is written out only after the flush.
//!
//! A page may be written out once every store to it can be seen. That is so after a flush of the translations through
//! which CPUs could still store without touching the page table. A batch [withholds](crate::Unmapping::withhold) such a
//! page and returns it with the permit, after that flush.

/// Permission to write a page out: from here on no store can land in it unseen.
///
/// Only [`Batch::write_permit`](crate::Batch::write_permit) makes one. No other code can:
///
/// ```compile_fail,E0423
/// let permit = ceasefire::WritePermit(7);
/// ```
///
/// The permit holds the page, so no other code can use the page meanwhile. Before that the batch holds the page, so no
/// other batch can make the permit:
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

    /// Returns the page, once it was written.
    pub fn into_page(self) -> T {
        self.0
    }
}
