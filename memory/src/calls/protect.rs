//! mprotect: the rights of a program in a range.
//!
//! Taking rights away narrows the entries and flushes before the call returns. The space's lock keeps faults out until
//! then. Giving rights changes no entry: the next store faults, and the fault finds whether the page must be copied
//! first, made dirty, or simply allowed. A page that may not be used at all keeps its entry, hidden.

use alloc::vec::Vec;
use core::fmt;

use ceasefire::Gather;

use crate::address::Pages;
use crate::frames::allocate::OutOfMemory;
use crate::machine::{Event, Machine, Work};
use crate::spaces::area::{checked_end, Protection, RangeError};
use crate::spaces::space::{Ended, SpaceHandle};
use crate::tables::leaf::{narrow, LeafChanges};
use crate::Memory;

/// The reason why the protection of a range cannot be changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProtectError {
    /// The range is not made of pages of a program (Linux: EINVAL).
    Range(RangeError),
    /// Nothing is mapped at this address of the range (ENOMEM).
    NotMapped(u64),
    /// The mapping at this address may never be stored to (EACCES).
    Forbidden(u64),
    /// The range ends within a huge page, and there is no frame for the table that splits it (ENOMEM).
    OutOfMemory,
    /// The space has ended (ESRCH).
    Ended,
}

impl fmt::Display for ProtectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Range(error) => error.fmt(f),
            Self::NotMapped(address) => write!(f, "nothing is mapped at {address:#x}"),
            Self::Forbidden(address) => write!(f, "the file mapped at {address:#x} may not be written"),
            Self::OutOfMemory => OutOfMemory.fmt(f),
            Self::Ended => Ended.fmt(f),
        }
    }
}

impl core::error::Error for ProtectError {}

impl<P: Machine> Memory<P> {
    /// Sets the rights of a program in a range (mprotect).
    ///
    /// # Errors
    /// [`ProtectError`]; then nothing has changed. (Linux changes the part before a hole, and a program can see that.)
    pub fn protect(
        &self,
        space: &SpaceHandle<P>,
        start: u64,
        pages: Pages,
        protection: Protection,
    ) -> Result<(), ProtectError> {
        self.platform().work(Work::AreaChange, 1);
        let end = checked_end(start, pages)?;
        let mut areas = self.lock_to_change::<ProtectError>(space, &[(start, end)])?;
        if let Some(hole) = areas.hole(start, end) {
            return Err(ProtectError::NotMapped(hole));
        }
        if let Some(area) = areas.overlapping(start, end).find(|area| area.limit < protection) {
            return Err(ProtectError::Forbidden(area.start.max(start)));
        }
        let narrowed: Vec<(u64, u64)> = areas
            .overlapping(start, end)
            .filter(|area| area.protection > protection)
            .map(|area| (area.start.max(start), area.end.min(end)))
            .collect();
        areas.change(start, end, |area| area.protection = protection);
        let mut gather: Gather<'_, P, (), _> = Gather::keeping(&self.engine, &areas, &mut [], drop);
        for &range in &narrowed {
            self.for_each_leaf(space, range, |leaf, part| {
                let mut changes = gather.under(leaf);
                for address in changes.addresses(part) {
                    restrict(&mut changes, address, protection);
                }
            });
        }
        gather.finish();
        drop(areas);
        for (start, end) in narrowed {
            let space = space.coherence();
            self.platform().observe(Event::Returned { space, start, end, allowed: protection });
        }
        Ok(())
    }
}

/// Takes the rights that `protection` does not give from one entry.
fn restrict<P: Machine>(
    leaf: &mut LeafChanges<'_, '_, '_, P, (), impl FnMut(())>,
    address: u64,
    protection: Protection,
) {
    let entry = leaf.get(address);
    if entry.maps() {
        let changes = match protection {
            // The right to store goes too: a later change to Read takes no right away, and finds no entry to change.
            Protection::None => entry.present() || entry.writable(),
            _ => entry.writable(),
        };
        if changes && protection < Protection::ReadWrite {
            narrow(leaf, address, |entry| match protection {
                Protection::None => entry.read_only().hide(),
                _ => entry.read_only(),
            });
        }
    } else if entry.is_moving() {
        let narrowed = match protection {
            Protection::None => entry.read_only().hide_after(),
            Protection::Read => entry.read_only(),
            Protection::ReadWrite => entry,
        };
        leaf.note(address, narrowed);
    }
}
