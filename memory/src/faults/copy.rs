//! A program's own pages: fresh ones, and copies made for a store.
//!
//! A store to a shared page makes a private copy, so the translation must lead to another frame. The old translation is
//! cleared and flushed everywhere before the new one is visible: no two CPUs ever see different frames at one address
//! (rule R7).

use ceasefire::{Gather, Place};

use crate::address::{FrameNumber, ObjectId};
use crate::faults::fault::{FaultError, Progress};
use crate::frames::frame::{Frame, LruState};
use crate::machine::Machine;
use crate::spaces::area::Area;
use crate::spaces::space::SpaceHandle;
use crate::tables::entry::Entry;
use crate::tables::leaf::{clear, install_new, SettledLeaf};
use crate::Memory;

impl<P: Machine> Memory<P> {
    /// Gives the program a page of zeros where there is no page.
    pub(super) fn fresh_page(
        &self,
        space: &SpaceHandle<P>,
        table: FrameNumber,
        area: &Area,
        object: ObjectId,
        address: u64,
    ) -> Result<Progress, FaultError> {
        let fresh = self.allocate(self.home())?;
        // Before the table is locked: threads that store to other pages of it do not wait for this.
        self.zero(fresh.number(), 1);
        let leaf = self.lock_in_place(space, table, address);
        let Some(leaf) = leaf.filter(|leaf| leaf.is_vacant(address)) else {
            self.free(fresh);
            return Ok(Progress::Again);
        };
        let number = self.adopt_copy(fresh, area, object, address);
        leaf.install(address, Entry::page(number, true).used(true));
        drop(leaf);
        self.list_soon(number);
        Ok(Progress::Done)
    }

    /// Makes a frame the private page of an area at `address`. One reference is the translation's, one is for the way
    /// to the lists.
    fn adopt_copy(&self, fresh: Frame, area: &Area, object: ObjectId, address: u64) -> FrameNumber {
        let number = fresh.into_number();
        self.frames.get(number).adopt(object, area.index(address), 2, 1, LruState::new(true));
        number
    }

    /// Gives the program a frame of its own at `address`, with the contents that it could read there so far: those of
    /// `original`, which is held and put here, or zeros.
    pub(super) fn own_copy(
        &self,
        space: &SpaceHandle<P>,
        table: FrameNumber,
        area: &Area,
        object: ObjectId,
        address: u64,
        original: Option<FrameNumber>,
    ) -> Result<Progress, FaultError> {
        let fresh = match self.allocate(self.home()) {
            Ok(fresh) => fresh,
            Err(error) => {
                if let Some(page) = original {
                    self.put(page);
                }
                return Err(error.into());
            }
        };
        let surplus = {
            let leaf = self.lock_in_place(space, table, address).map(|leaf| self.engine.settle(leaf));
            let shows = |leaf: &SettledLeaf<'_, P>| self.still_shows(leaf, area, address, original);
            if let Some(leaf) = leaf.filter(shows) {
                match original {
                    Some(page) => self.copy(page, fresh.number(), 1),
                    None => self.zero(fresh.number(), 1),
                }
                let number = self.adopt_copy(fresh, area, object, address);
                let entry = Entry::page(number, true).used(true);
                if leaf.get(address).present() {
                    self.put_in_place(space, leaf, address, entry);
                } else {
                    install_new(&leaf, address, entry);
                    drop(leaf);
                }
                self.list_soon(number);
                None
            } else {
                Some(fresh)
            }
        };
        if let Some(page) = original {
            self.put(page);
        }
        Ok(match surplus {
            Some(frame) => {
                self.free(frame);
                Progress::Again
            }
            None => Progress::Done,
        })
    }

    /// Whether `address` still shows the page that is about to be copied.
    fn still_shows(
        &self,
        leaf: &SettledLeaf<'_, P>,
        area: &Area,
        address: u64,
        original: Option<FrameNumber>,
    ) -> bool {
        let entry = leaf.get(address);
        let shown = entry.present() && !entry.writable() && entry.frame() == original.unwrap_or(self.zero);
        let Some(page) = original else { return shown || leaf.is_vacant(address) };
        let place = self.frames.get(page).place();
        match place {
            // Truncation takes a page out of its file before it looks for mappings.
            None => false,
            Some((object, _)) if object.is_anonymous() => shown,
            Some(place) => {
                Some(place) == area.file().map(|file| (file, area.index(address)))
                    && (shown || leaf.is_vacant(address))
            }
        }
    }

    /// Clears and flushes the translation of `address`, and only then installs `entry`.
    fn put_in_place(&self, space: &SpaceHandle<P>, leaf: SettledLeaf<'_, P>, address: u64, entry: Entry) {
        let mut room = [Place::EMPTY];
        let mut gather = Gather::new(&self.engine, space.coherence(), &mut room, |page| self.put(page));
        let mut changes = gather.under(leaf);
        clear(&mut changes, address, |old| self.unmapped_frame(old));
        changes.flush();
        install_new(changes.lock(), address, entry);
        drop(changes);
        gather.finish();
    }
}
