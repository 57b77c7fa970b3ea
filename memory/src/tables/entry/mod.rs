//! One entry of a page table, in the bits of its architecture.
//!
//! Entries mean the same on every architecture. A present entry says where it leads, whether stores are allowed,
//! whether it was used and stored through, and its size. An entry that is not present is hidden, moving, on the swap
//! device, or none. The [`Format`] of an architecture is a list of constants that name the bits, and [`EntryOf`] is
//! written on those constants. [`Entry`] has the format of the processor that the build targets; the other formats are
//! compiled so that they can be tested.
//!
//! The hardware reads the bit that says whether an entry translates. If it does not, the hardware reads no other bit,
//! and software may use the rest. If it does, some bits are left to software.

mod aarch64;
mod x86_64;

use core::fmt;
use core::marker::PhantomData;

pub use aarch64::Aarch64;
pub use x86_64::X86_64;

use ceasefire::Mark;

use crate::address::{FrameNumber, PAGE_SHIFT};

/// The format that this processor walks.
#[cfg(target_arch = "aarch64")]
type Native = Aarch64;
/// The format that this processor walks. A host without a format of its own uses the simulator's.
#[cfg(not(target_arch = "aarch64"))]
type Native = X86_64;

/// An entry that this processor walks.
pub type Entry = EntryOf<Native>;

/// The meaning of the bits in the entries of an architecture.
///
/// No two constants share a bit, except that [`Format::TABLE`] contains those of the others that also have a meaning
/// for a table.
pub trait Format: Copy + Eq {
    /// The entry translates.
    const PRESENT: u64;
    /// Further bits of an entry of the lowest level for a page of a program.
    const PAGE: u64;
    /// Further bits of an entry of the lowest level for a page of the kernel: the same in every space, and not
    /// executable. They may be bits with another meaning in entries that are not present.
    const KERNEL: u64;
    /// Further bits of an entry that leads to a table.
    const TABLE: u64;
    /// Stores are allowed, once the entry is marked as stored through if the hardware needs that.
    const WRITABLE: u64;
    /// Nothing was stored through the entry, if the hardware clears a bit to record stores; 0 if it sets
    /// [`Format::DIRTY`].
    const CLEAN: u64;
    /// The entry was used.
    const ACCESSED: u64;
    /// Something was stored through the entry.
    const DIRTY: u64;
    /// The entry translates 2 MiB itself, or would if it were present.
    const HUGE: u64;
    /// Bits that an entry of 4 KiB must have and one of 2 MiB must not; 0 if there are none.
    const SMALL: u64;
    /// The frame that the entry leads to.
    const FRAME: u64;
    /// Two neighbouring bits for the kind of an entry that is not present: hidden, moving or on the swap device. No
    /// other constant contains them.
    const KIND: u64;
    /// A flush may be owed for the previous entry. Only in entries that are not present.
    const OWING: u64;
    /// The entry was hidden before its page began to move, and will be hidden again. Only in entries that are not
    /// present.
    const HIDE_AFTER: u64;
}

/// One entry of a page table in the format `F`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct EntryOf<F: Format>(u64, PhantomData<F>);

impl<F: Format> EntryOf<F> {
    /// No translation.
    pub const NONE: Self = Self::from_bits(0);
    pub(crate) const ACCESSED: u64 = F::ACCESSED;
    const LOWEST_KIND: u64 = F::KIND & F::KIND.wrapping_neg();
    const HIDDEN: u64 = Self::LOWEST_KIND;
    const MIGRATING: u64 = 2 * Self::LOWEST_KIND;
    const SWAPPED: u64 = 3 * Self::LOWEST_KIND;

    /// An entry out of a table.
    pub const fn from_bits(bits: u64) -> Self {
        Self(bits, PhantomData)
    }

    /// Its value in a table.
    pub const fn bits(self) -> u64 {
        self.0
    }

    const fn has(self, bits: u64) -> bool {
        self.0 & bits != 0
    }

    const fn with(self, bits: u64) -> Self {
        Self::from_bits(self.0 | bits)
    }

    const fn without(self, bits: u64) -> Self {
        Self::from_bits(self.0 & !bits)
    }

    /// The same, leading to another frame.
    const fn to(self, frame: FrameNumber) -> Self {
        self.without(F::FRAME).with((frame.get() as u64) << PAGE_SHIFT)
    }

    /// A translation to `frame`, not yet used.
    pub const fn page(frame: FrameNumber, writable: bool) -> Self {
        let rights = if writable { F::WRITABLE } else { 0 };
        Self::from_bits(F::PRESENT | F::PAGE | F::SMALL | F::CLEAN | rights).to(frame)
    }

    /// A translation of the kernel's to `frame`, for loads and stores, marked as used.
    pub(crate) const fn kernel(frame: FrameNumber) -> Self {
        Self::from_bits(F::PRESENT | F::KERNEL | F::SMALL | F::WRITABLE).to(frame).used(true)
    }

    /// An entry that leads to a table of the level below.
    pub(crate) const fn table(table: FrameNumber) -> Self {
        Self::from_bits(F::PRESENT | F::TABLE).to(table)
    }

    /// The same, of the size of `other`.
    #[must_use]
    pub(crate) const fn with_size_of(self, other: Self) -> Self {
        if other.is_huge() {
            self.huge()
        } else {
            self
        }
    }

    /// The same, marked as already used, and with `dirty` as already stored through.
    #[must_use]
    pub const fn used(self, dirty: bool) -> Self {
        let used = self.with(F::ACCESSED);
        if !dirty {
            used
        } else if F::CLEAN != 0 && self.writable() {
            used.without(F::CLEAN)
        } else {
            used.with(F::DIRTY)
        }
    }

    /// The same, as one translation of 2 MiB.
    #[must_use]
    pub const fn huge(self) -> Self {
        self.without(F::SMALL).with(F::HUGE)
    }

    /// The same for one small page of the huge one, in `frame`.
    pub(crate) const fn part(self, frame: FrameNumber) -> Self {
        self.without(F::HUGE).with(F::SMALL).to(frame)
    }

    /// Whether the entry translates 2 MiB itself, or did before it was hidden or its page began to move.
    pub const fn is_huge(self) -> bool {
        self.has(F::HUGE)
    }

    /// The same with only loads allowed. A dirty entry stays dirty: CPUs may still store through the entries that they
    /// hold, so a flush is needed before the page is written out (Linux: `pte_wrprotect`).
    #[must_use]
    pub const fn read_only(self) -> Self {
        let dirty = if self.dirty() { F::DIRTY } else { 0 };
        self.without(F::WRITABLE).with(F::CLEAN | dirty)
    }

    /// The same as if nothing had been stored through it.
    #[must_use]
    pub const fn clean(self) -> Self {
        self.without(F::DIRTY).with(F::CLEAN)
    }

    /// The same as if it had not been used.
    #[must_use]
    pub const fn unused(self) -> Self {
        self.without(F::ACCESSED)
    }

    /// The same, not present for now: every access faults, and the entry keeps its frame.
    #[must_use]
    pub const fn hide(self) -> Self {
        self.without(F::PRESENT | F::KIND).with(Self::HIDDEN)
    }

    /// A hidden entry, present again.
    #[must_use]
    pub const fn reveal(self) -> Self {
        self.without(F::KIND | F::OWING).with(F::PRESENT)
    }

    /// A moving entry whose page is in `frame` from now on, hidden. CPUs may still read the previous frame, so the debt
    /// must be settled before the entry is revealed.
    #[must_use]
    pub const fn end_move_owing(self, frame: FrameNumber) -> Self {
        self.hide_after().end_move(frame).with(F::OWING)
    }

    /// Whether CPUs may still use the entry before this hidden one.
    pub const fn owes(self) -> bool {
        self.is_hidden() && self.has(F::OWING)
    }

    /// The same while its page moves to another frame: every access waits.
    #[must_use]
    pub const fn begin_move(self) -> Self {
        let hidden = if self.is_hidden() { F::HIDE_AFTER } else { 0 };
        self.without(F::PRESENT | F::KIND).with(Self::MIGRATING | hidden)
    }

    /// A moving entry that will be hidden when its page has arrived.
    #[must_use]
    pub const fn hide_after(self) -> Self {
        self.with(F::HIDE_AFTER)
    }

    /// A moving entry whose page is in `frame` from now on: hidden or present, as it was before the move.
    #[must_use]
    pub const fn end_move(self, frame: FrameNumber) -> Self {
        let kind = if self.has(F::HIDE_AFTER) { Self::HIDDEN } else { F::PRESENT };
        self.without(F::KIND | F::HIDE_AFTER).to(frame).with(kind)
    }

    /// The page is in `slot` of the swap device.
    pub const fn swapped(slot: u32) -> Self {
        Self::from_bits(Self::SWAPPED).to(FrameNumber::new(slot))
    }

    /// Nothing is here, but CPUs may still hold the previous entry: the debt must be settled before a new translation
    /// appears here. Where reclaim leaves [`EntryOf::NONE`] instead, the page stays in its cache until the flush, and
    /// no other page takes its place.
    pub(crate) const GONE: Self = Self::from_bits(F::OWING);

    /// Whether it is [`EntryOf::GONE`].
    pub(crate) const fn is_gone(self) -> bool {
        self.0 == F::OWING
    }

    /// Nothing is here, but CPUs may still hold the previous entry until the gather that left the mark has flushed.
    pub(crate) const fn marked(mark: Mark) -> Self {
        Self::from_bits(F::OWING | F::HIDE_AFTER).to(FrameNumber::new(mark.bits()))
    }

    /// The mark that a gather left here.
    pub(crate) const fn mark(self) -> Option<Mark> {
        if self.0 & !F::FRAME == F::OWING | F::HIDE_AFTER {
            Some(Mark::from_bits(self.frame().get()))
        } else {
            None
        }
    }

    /// Whether it stands for nothing.
    pub const fn is_none(self) -> bool {
        self.0 == 0
    }

    /// Whether it stands for no page: it is none, or has a mark.
    pub(crate) const fn is_empty(self) -> bool {
        self.is_none() || self.mark().is_some()
    }

    const fn is_of_kind(self, kind: u64) -> bool {
        self.0 & (F::PRESENT | F::KIND) == kind
    }

    /// Whether it leads to a frame, but no access may use it for now.
    pub const fn is_hidden(self) -> bool {
        self.is_of_kind(Self::HIDDEN)
    }

    /// Whether its page is moving.
    pub const fn is_moving(self) -> bool {
        self.is_of_kind(Self::MIGRATING)
    }

    /// The swap slot that holds the page, if one does.
    pub const fn slot(self) -> Option<u32> {
        if self.is_of_kind(Self::SWAPPED) {
            Some(self.frame().get())
        } else {
            None
        }
    }

    /// Whether it counts as a mapping of its frame: present or hidden.
    pub const fn maps(self) -> bool {
        self.present() || self.is_hidden()
    }

    /// Whether it translates.
    pub const fn present(self) -> bool {
        self.has(F::PRESENT)
    }

    /// Whether stores are allowed.
    pub const fn writable(self) -> bool {
        self.has(F::WRITABLE)
    }

    /// Whether the hardware has used it.
    pub const fn accessed(self) -> bool {
        self.has(F::ACCESSED)
    }

    /// Whether the hardware has stored through it.
    pub const fn dirty(self) -> bool {
        self.has(F::DIRTY) || (F::CLEAN != 0 && self.writable() && !self.has(F::CLEAN))
    }

    /// The frame that it leads to.
    pub const fn frame(self) -> FrameNumber {
        FrameNumber::new(((self.0 & F::FRAME) >> PAGE_SHIFT) as u32)
    }
}

impl<F: Format> fmt::Debug for EntryOf<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Entry({:#x})", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: FrameNumber = FrameNumber::new(0x1234_5678);
    const THERE: FrameNumber = FrameNumber::new(0xffff_ffff);

    /// Entries for pages with every combination of flags. All are present.
    fn pages<F: Format>() -> impl Iterator<Item = EntryOf<F>> {
        let flags = || [false, true].into_iter();
        flags().flat_map(move |writable| {
            flags().flat_map(move |huge| {
                let page = EntryOf::page(HERE, writable);
                let page = if huge { page.huge() } else { page };
                [page, page.used(false), page.used(true), page.used(true).clean()]
            })
        })
    }

    /// The properties of an entry that a change of kind must preserve.
    fn said<F: Format>(entry: EntryOf<F>) -> (bool, bool, bool, bool) {
        (entry.writable(), entry.accessed(), entry.dirty(), entry.is_huge())
    }

    fn constants_are_apart<F: Format>() {
        let single = [F::PRESENT, F::WRITABLE, F::ACCESSED, F::DIRTY, F::HUGE, F::OWING, F::HIDE_AFTER];
        let all = [F::CLEAN, F::SMALL, F::FRAME, F::KIND];
        let mut seen = 0_u64;
        for bits in single.into_iter().chain(all) {
            assert_eq!(seen & bits, 0, "{bits:#x}");
            seen |= bits;
        }
        assert!(single.iter().all(|bits| bits.is_power_of_two()));
        assert_eq!(F::KIND / (F::KIND & F::KIND.wrapping_neg()), 3);
        assert_eq!(F::PAGE & seen, 0);
        // The bits for the kind of a non-present entry do not overlap the fixed bits of a page or a table.
        assert_eq!((F::KIND | F::OWING | F::HIDE_AFTER) & (F::PAGE | F::TABLE), 0);
    }

    fn an_entry_keeps_its_properties<F: Format>() {
        for entry in pages::<F>() {
            assert!(
                entry.present() && entry.maps() && !entry.is_none() && entry.frame() == HERE,
                "{entry:?}"
            );
            assert_eq!(entry.slot(), None);
            let read_only = entry.read_only();
            assert!(!read_only.writable() && read_only.dirty() == entry.dirty(), "{entry:?}");
            assert!(!entry.clean().dirty() && entry.clean().writable() == entry.writable());
            assert!(!read_only.clean().dirty() && entry.used(true).dirty() && entry.used(false).accessed());
            assert_eq!(entry.used(false).dirty(), entry.dirty());
            assert_eq!(entry.unused().used(false), entry.used(false));
            assert!(!entry.unused().accessed());
            let part = entry.part(THERE);
            assert!(!part.is_huge() && part.frame() == THERE && part.present());
            assert_eq!(EntryOf::<F>::page(HERE, true).with_size_of(entry).is_huge(), entry.is_huge());
        }
    }

    fn an_entry_that_is_not_present_keeps_its_meaning<F: Format>() {
        for entry in pages::<F>() {
            let (hidden, moving) = (entry.hide(), entry.begin_move());
            assert!(hidden.is_hidden() && hidden.maps() && !hidden.present() && !hidden.owes());
            assert!(moving.is_moving() && !moving.maps() && !moving.present());
            assert_eq!((said(hidden), said(moving)), (said(entry), said(entry)));
            assert_eq!((hidden.reveal(), moving.end_move(HERE)), (entry, entry));
            assert_eq!(hidden.begin_move().end_move(THERE).reveal().part(HERE), entry.part(HERE));
            assert!(hidden.begin_move().end_move(THERE).is_hidden());
            let owing = moving.end_move_owing(THERE);
            assert!(owing.owes() && owing.frame() == THERE && said(owing) == said(entry));
            assert_eq!(owing.reveal(), moving.end_move(THERE));
        }
        let swapped = EntryOf::<F>::swapped(0xffff_fffe);
        assert_eq!(swapped.slot(), Some(0xffff_fffe));
        for entry in [EntryOf::<F>::GONE, EntryOf::NONE, swapped] {
            assert!(!entry.present() && !entry.maps() && !entry.is_huge() && !entry.is_moving());
            assert_eq!((entry.is_none(), entry.is_gone()), (entry == EntryOf::NONE, entry == EntryOf::GONE));
        }
        let table = EntryOf::<F>::table(HERE);
        assert!(table.present() && !table.is_huge() && table.frame() == HERE);
    }

    /// Each test on each format.
    fn on_both(x86_64: fn(), aarch64: fn()) {
        x86_64();
        aarch64();
    }

    #[test]
    fn all_formats_have_the_same_meaning() {
        on_both(constants_are_apart::<X86_64>, constants_are_apart::<Aarch64>);
        on_both(an_entry_keeps_its_properties::<X86_64>, an_entry_keeps_its_properties::<Aarch64>);
        on_both(
            an_entry_that_is_not_present_keeps_its_meaning::<X86_64>,
            an_entry_that_is_not_present_keeps_its_meaning::<Aarch64>,
        );
    }
}
