//! fork: a second space with the same memory.
//!
//! Files mapped shared stay shared. Private pages are shared for loads only, and the first store makes a copy. So every
//! writable entry of a private page in the parent is narrowed. Before the parent goes on, no CPU may store through an
//! old one (Linux flushes at the end of `dup_mmap`). Entries are copied with the space's lock and the mappers held
//! exclusively, so no other task can move, reclaim or look up their pages meanwhile.

use alloc::vec::Vec;
use core::fmt;

use ceasefire::{Gather, PageSize};

use crate::address::{ObjectId, PAGE_BYTES, USER_END};
use crate::frames::allocate::OutOfMemory;
use crate::locks::RwLock;
use crate::machine::{Event, Machine, Work};
use crate::objects::reverse::area_mapper;
use crate::spaces::area::{Area, Areas, Protection};
use crate::spaces::space::{Ended, SpaceHandle};
use crate::tables::entry::Entry;
use crate::tables::huge::HUGE_BYTES;
use crate::tables::leaf::{narrow, LeafChanges};
use crate::Memory;

/// The reason why a space cannot be forked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ForkError {
    /// There is no frame for a table (Linux: ENOMEM).
    OutOfMemory,
    /// The space has ended (ESRCH).
    Ended,
}

impl fmt::Display for ForkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OutOfMemory => OutOfMemory.fmt(f),
            Self::Ended => Ended.fmt(f),
        }
    }
}

impl core::error::Error for ForkError {}

impl<P: Machine> Memory<P> {
    /// Creates a space that maps the same memory as `parent`, private pages copy-on-write (fork). Locks on pages are
    /// not inherited.
    ///
    /// # Errors
    /// [`ForkError`]; then the parent is as before.
    pub fn fork(&self, parent: &SpaceHandle<P>) -> Result<SpaceHandle<P>, ForkError> {
        self.platform().work(Work::AreaChange, 1);
        let child = self.new_space()?;
        match self.fork_into(parent, &child) {
            Ok(()) => Ok(child),
            Err(error) => {
                self.end(&child);
                Err(error)
            }
        }
    }

    fn fork_into(&self, parent: &SpaceHandle<P>, child: &SpaceHandle<P>) -> Result<(), ForkError> {
        let areas = self.lock_to_fork::<ForkError>(parent)?;
        // Tables first: reclaim may be needed to get frames for them, and it needs the mappers.
        for area in areas.all().iter().filter(|area| area.anonymous().is_some()) {
            for base in self.tables_of(parent, area) {
                self.make_table(child, base)?;
            }
        }
        let mut gather: Gather<'_, P, (), _> = Gather::keeping(&self.engine, &areas, &mut [], drop);
        let mut copies = Areas::default();
        for area in areas.all() {
            let copy = Area { locked: false, ..*area };
            copies.insert(copy);
            self.copy_area(parent, child, &copy, &mut gather);
        }
        gather.finish();
        for area in areas.all().iter().filter(|area| area.anonymous().is_some()) {
            let (space, allowed) = (parent.coherence(), Protection::Read);
            self.platform().observe(Event::Returned { space, start: area.start, end: area.end, allowed });
        }
        drop(areas);
        // No other task knows the child yet. Its lock is taken only now because two locks of one rank are never held
        // together.
        *self.close_areas(child, &[(0, USER_END)])? = copies;
        Ok(())
    }

    /// Hooks the child's copy of an area, and copies the entries of its private pages.
    fn copy_area<R: FnMut(())>(
        &self,
        parent: &SpaceHandle<P>,
        child: &SpaceHandle<P>,
        area: &Area,
        gather: &mut Gather<'_, P, (), R>,
    ) {
        let platform = self.platform();
        let mappers = |object| self.objects.get(object).mappers.write(platform);
        let mut file = area.file().map(mappers);
        let mut own = area.anonymous().map(mappers);
        for mappers in file.iter_mut().chain(&mut own) {
            mappers.add(area_mapper(child, area));
        }
        let Some(object) = area.anonymous() else { return };
        let mut copied = Vec::new();
        for base in self.tables_of(parent, area) {
            let range = (base.max(area.start), area.end.min(base + HUGE_BYTES));
            if let Some(leaf) = self.settled_leaf(parent, range.0) {
                debug_assert_eq!(leaf.size(), PageSize::KIB_4, "fork split all huge pages");
                self.share_entries(&mut gather.under(leaf), range, object, &mut copied);
            }
            if copied.is_empty() {
                continue;
            }
            if let Some(leaf) = self.lock_leaf(child, range.0) {
                for (address, entry) in copied.drain(..) {
                    leaf.put_back(address, entry);
                }
            }
            debug_assert!(copied.is_empty(), "the child's tables exist already");
        }
    }

    /// Makes the private pages of a part of a table read-only, and counts the child's mappings of them. `copied`
    /// receives the child's entries.
    fn share_entries<R: FnMut(())>(
        &self,
        leaf: &mut LeafChanges<'_, '_, '_, P, (), R>,
        (start, end): (u64, u64),
        object: ObjectId,
        copied: &mut Vec<(u64, Entry)>,
    ) {
        for address in (start..end).step_by(PAGE_BYTES as usize) {
            let entry = leaf.get(address);
            let shared = if let Some(slot) = entry.slot() {
                self.name_slot(slot);
                entry
            } else if entry.is_moving() {
                // The entry leads to a private page or to a page of a file. The child would find the latter by itself,
                // but telling them apart is not worth the effort. The page is mapped in both spaces when it arrives.
                leaf.note(address, entry.read_only());
                entry.read_only()
            } else if entry.maps() && entry.frame() != self.zero {
                let info = self.frames.get(entry.frame());
                if info.place().map(|(owner, _)| owner) != Some(object) {
                    continue;
                }
                info.hold();
                info.mapped();
                let mut old = entry;
                if entry.writable() {
                    old = narrow(leaf, address, Entry::read_only);
                }
                old.read_only()
            } else {
                continue;
            };
            copied.push((address, shared));
        }
    }
}
