//! `migrate_pages` and `move_pages`: a program's pages move to the nodes that it asks for.

use alloc::vec::Vec;
use core::fmt;

use crate::address::{PAGE_BYTES, USER_END};
use crate::frames::lru::Isolated;
use crate::frames::node::NodeId;
use crate::machine::Machine;
use crate::spaces::space::{Ended, SpaceHandle};
use crate::tables::table::LEAF_SHIFT;
use crate::upkeep::migrate::{Journey, MIGRATE_BATCH};
use crate::Memory;

/// The result of a request to move pages.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Migrated {
    /// Small pages moved; a huge page counts 512.
    pub moved: u64,
    /// Small pages that stayed because they were in use elsewhere all the time.
    pub busy: u64,
}

/// The reason why pages were not moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MigrateError {
    /// There is no such node (Linux: ENODEV).
    NoNode(NodeId),
    /// The target has no frame for the remaining pages (Linux: ENOMEM). Pages already moved stay moved, which no
    /// program can see.
    Full {
        /// The target.
        node: NodeId,
        /// The pages moved before.
        migrated: Migrated,
    },
    /// The space has ended (ESRCH).
    Ended,
}

impl fmt::Display for MigrateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoNode(node) => write!(f, "there is no node {}", node.0),
            Self::Full { node, migrated } => {
                write!(f, "node {} is full: {} pages were moved before", node.0, migrated.moved)
            }
            Self::Ended => Ended.fmt(f),
        }
    }
}

impl core::error::Error for MigrateError {}

/// The result for one page (Linux: the status array of `move_pages`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moved {
    /// The page is on the node asked for.
    There,
    /// No page is in memory at that address (ENOENT).
    Absent,
    /// Nothing is mapped at that address, the address is invalid (EFAULT), or the space has ended.
    NotMapped,
    /// Other programs map the page too (EACCES).
    Shared,
    /// The page was in use all the time (EBUSY).
    Busy,
    /// The node has no frame for the page (ENOMEM).
    Full,
    /// There is no such node (ENODEV).
    NoNode,
}

impl<P: Machine> Memory<P> {
    /// Moves the pages of a program that are on one node to another (`migrate_pages`). Pages that other programs map
    /// too stay, as in Linux.
    ///
    /// # Errors
    /// [`MigrateError`].
    pub fn migrate_space(
        &self,
        space: &SpaceHandle<P>,
        from: NodeId,
        to: NodeId,
    ) -> Result<Migrated, MigrateError> {
        if let Some(&node) = [from, to].iter().find(|node| node.index() >= self.nodes.len()) {
            return Err(MigrateError::NoNode(node));
        }
        // Pages on their way to the lists cannot be taken off them (Linux: `lru_add_drain_all`).
        self.list_collected();
        let journey = Journey::to(to);
        let mut migrated = Migrated::default();
        let mut pages = Vec::with_capacity(MIGRATE_BATCH);
        let mut at = 0;
        while at < USER_END && !journey.full.get() && from != to {
            at = self.collect(space, from, at, &mut pages)?;
            migrated.busy += self.travel(&mut pages, &journey);
            self.platform().reschedule();
        }
        migrated.moved = journey.moved.get();
        if journey.full.get() {
            return Err(MigrateError::Full { node: to, migrated });
        }
        Ok(migrated)
    }

    /// Moves single pages of a program (`move_pages`); returns the result for each, in order.
    pub fn move_pages(&self, space: &SpaceHandle<P>, pages: &[(u64, NodeId)]) -> Vec<Moved> {
        self.list_collected();
        pages.iter().map(|&(address, to)| self.move_page(space, address, to)).collect()
    }

    fn move_page(&self, space: &SpaceHandle<P>, address: u64, to: NodeId) -> Moved {
        if to.index() >= self.nodes.len() {
            return Moved::NoNode;
        }
        let page = match self.isolate_at(space, address & !(PAGE_BYTES - 1), to) {
            Ok(page) => page,
            Err(status) => return status,
        };
        let journey = Journey::to(to);
        let busy = self.travel(&mut alloc::vec![page], &journey);
        match (journey.full.get(), busy) {
            (true, _) => Moved::Full,
            (false, 0) => Moved::There,
            _ => Moved::Busy,
        }
    }

    /// Takes up to a batch of a space's pages that are on a node off the lists, from address `start` on; returns the
    /// address where it stopped.
    fn collect(
        &self,
        space: &SpaceHandle<P>,
        from: NodeId,
        start: u64,
        pages: &mut Vec<Isolated>,
    ) -> Result<u64, Ended> {
        let areas = space.share_areas(self.platform())?;
        for area in areas.overlapping(start, USER_END) {
            let mut at = start.max(area.start);
            while at < area.end {
                let next = area.end.min(((at >> LEAF_SHIFT) + 1) << LEAF_SHIFT);
                let Some(leaf) = self.lock_leaf(space, at) else {
                    at = self.next_table(space, at).min(area.end);
                    continue;
                };
                for address in leaf.addresses((at, next)) {
                    if pages.len() == MIGRATE_BATCH {
                        return Ok(address);
                    }
                    let entry = leaf.get(address);
                    if entry.maps() && entry.frame() != self.zero {
                        let info = self.frames.get(entry.frame());
                        if info.node() == from && info.maps() == 1 {
                            pages.extend(self.isolate_page(entry.frame()));
                        }
                    }
                }
                at = next;
            }
        }
        Ok(USER_END)
    }

    /// Takes the page at an address off the lists, or returns the reason why it cannot.
    fn isolate_at(&self, space: &SpaceHandle<P>, address: u64, to: NodeId) -> Result<Isolated, Moved> {
        let areas = space.share_areas(self.platform()).map_err(|Ended| Moved::NotMapped)?;
        areas.find(address).ok_or(Moved::NotMapped)?;
        let leaf = self.lock_leaf(space, address).ok_or(Moved::Absent)?;
        let entry = leaf.get(address);
        if entry.is_moving() {
            return Err(Moved::Busy);
        }
        if !entry.maps() || entry.frame() == self.zero {
            return Err(Moved::Absent);
        }
        let info = self.frames.get(entry.frame());
        if info.node() == to {
            return Err(Moved::There);
        }
        if info.maps() > 1 {
            return Err(Moved::Shared);
        }
        self.isolate_page(entry.frame()).ok_or(Moved::Busy)
    }
}
