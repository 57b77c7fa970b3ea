//! Writing pages out: what has to come first is in the types.
//!
//! A page is written out only after every store that was made to it can be seen, so after the flush of translations
//! through which CPUs could still store without touching the page table. A page whose translations a batch recorded is
//! [withheld](crate::Batch::withhold) from being let go of, and only then the batch gives the permit to write it.

/// A page whose translations a batch recorded, kept back by the caller until it was written out.
///
/// Only [`Batch::withhold`](crate::Batch::withhold) gives one, and only [`Batch::write_permit`](crate::Batch::write_permit)
/// takes it.
#[must_use = "it is to be written out, with the permit of the batch that recorded its translations"]
#[derive(Debug)]
pub struct Withheld<T>(pub(crate) T);

impl<T> Withheld<T> {
    /// The page, to look at.
    pub fn page(&self) -> &T {
        &self.0
    }
}

/// Permission to write a page out: no store can land in it unseen from here on.
///
/// Only [`Batch::write_permit`](crate::Batch::write_permit) gives one; it cannot be made by hand:
///
/// ```compile_fail,E0423
/// let permit = ceasefire::WritePermit(7);
/// ```
///
/// And the page is in it, so nothing else can use the page meanwhile:
///
/// ```compile_fail,E0382
/// # use ceasefire::{Batch, Owed, Platform};
/// fn reuse<P: Platform, T, R: FnMut(Owed<T>)>(batch: &mut Batch<'_, P, T, R>, page: T) {
///     let permit = batch.withhold(page);
///     batch.hold(page);
/// }
/// ```
///
/// A page that was not withheld gets none:
///
/// ```compile_fail,E0308
/// # use ceasefire::{Batch, Owed, Platform};
/// fn early<P: Platform, T, R: FnMut(Owed<T>)>(batch: &mut Batch<'_, P, T, R>, page: T) {
///     let permit = batch.write_permit(page);
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
