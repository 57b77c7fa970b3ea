//! Which process uses which frame, as far as the recording tells it.
//!
//! A fault that allocates a frame maps it for its process. A fault that maps pages of a file maps the frames in which the
//! page cache has them. A frame's users go when it is freed, so the record is bounded by the frames in use.

use foldhash::HashMap;

use crate::events::{Kind, PAGE_SHIFT};
use crate::kernel::mappings::MOST_PAGES;
use crate::recording::Row;

/// A translation to a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct User {
    /// The process.
    pub(super) process: u32,
    /// The page: of anonymous memory its address, of a file its number there. It only has to differ from others.
    pub(super) page: u64,
    /// Whether a store faulted on it.
    pub(super) stores: bool,
}

/// The largest number of pages that one fault maps around its own (Linux: `fault_around_bytes`, 64 KiB).
const AROUND: u64 = 64;

/// The bits of a fault's code on x86 for a store.
const STORE: u64 = 2;

/// A fault that a thread handles.
#[derive(Debug, Clone, Copy)]
struct Fault {
    page: u64,
    stores: bool,
}

/// The frames that are in use.
#[derive(Debug, Default)]
pub(super) struct Frames {
    users: HashMap<u64, Vec<User>>,
    /// The frame of each page in the page cache, and back.
    cached: HashMap<(u64, u64), u64>,
    slots: HashMap<u64, (u64, u64)>,
    /// The latest fault of each thread, until it does something else.
    faults: HashMap<u32, Fault>,
    /// The pages that were mapped when the recording began.
    mapped: u64,
    /// The largest number of frames that were known to be used.
    most: usize,
}

impl Frames {
    /// Learns from an event. Returns the users of a frame that is freed.
    pub(super) fn learn(&mut self, row: &Row) -> Vec<User> {
        let thread = row.event.thread;
        match row.event.kind {
            Kind::Fault { address, code } => {
                self.faults.insert(thread, Fault { page: address >> PAGE_SHIFT, stores: code & STORE != 0 });
            }
            Kind::Allocated { frame, order: 0 } => {
                if let Some(fault) = self.faults.get(&thread).filter(|_| row.process != 0) {
                    let user = User { process: row.process, page: fault.page, stores: fault.stores };
                    self.users.entry(frame).or_default().push(user);
                    self.most = self.most.max(self.users.len());
                }
            }
            Kind::Cached { frame, inode, index } => {
                self.cached.insert((inode, index), frame);
                self.slots.insert(frame, (inode, index));
                // It was allocated for the file, perhaps ahead of its use. The mapping comes later.
                self.users.remove(&frame);
            }
            Kind::FileMapped { inode, first, last } if row.process != 0 => {
                let stores = self.faults.get(&thread).is_some_and(|fault| fault.stores);
                for index in first..=last.min(first.saturating_add(AROUND - 1)) {
                    let Some(frame) = self.cached.get(&(inode, index)) else { continue };
                    let users = self.users.entry(*frame).or_default();
                    match users.iter_mut().find(|user| user.process == row.process) {
                        Some(user) => user.stores |= stores,
                        None => users.push(User { process: row.process, page: index, stores }),
                    }
                }
                self.most = self.most.max(self.users.len());
            }
            Kind::Mapped { frame, pages, inode, index, stores } => {
                // A damaged file may have any number.
                let known = pages.min(MOST_PAGES - self.mapped);
                self.mapped += known;
                for place in 0..known {
                    let (frame, index) = (frame.saturating_add(place), index.saturating_add(place));
                    if inode != 0 {
                        self.cached.insert((inode, index), frame);
                        self.slots.insert(frame, (inode, index));
                    }
                    let user = User { process: row.process, page: index, stores };
                    self.users.entry(frame).or_default().push(user);
                }
                self.most = self.most.max(self.users.len());
            }
            Kind::Uncached { frame, inode, index } => {
                self.cached.remove(&(inode, index));
                self.slots.remove(&frame);
            }
            Kind::Freed { frame, order } => {
                let mut freed = self.users.remove(&frame).unwrap_or_default();
                // Large blocks are rarely of pages that were mapped one by one.
                for frame in frame + 1..frame.saturating_add(1 << order.min(9)) {
                    freed.extend(self.users.remove(&frame).unwrap_or_default());
                }
                return freed;
            }
            Kind::CallBegan { .. } | Kind::CallEnded { .. } | Kind::ThreadEnded => {
                self.faults.remove(&thread);
            }
            _ => {}
        }
        Vec::new()
    }

    /// The largest number of frames that were known to be used at one time.
    pub(super) fn most(&self) -> usize {
        self.most
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::events::{Event, Names};

    fn users(frames: &Frames, frame: u64) -> &[User] {
        frames.users.get(&frame).map_or(&[], Vec::as_slice)
    }

    fn learn(frames: &mut Frames, process: u32, kind: Kind) -> Vec<User> {
        let program = Names::default().add("program");
        let event = Event { time_ns: 0, cpu: 0, thread: process, kind };
        frames.learn(&Row { event, process, program })
    }

    #[test]
    fn a_frame_of_anonymous_memory_belongs_to_the_process_whose_fault_allocated_it() {
        let mut frames = Frames::default();
        learn(&mut frames, 1, Kind::Fault { address: 0x5000, code: 6 });
        learn(&mut frames, 1, Kind::Allocated { frame: 9, order: 0 });
        learn(&mut frames, 2, Kind::Allocated { frame: 10, order: 0 });
        assert_eq!(users(&frames, 9), [User { process: 1, page: 5, stores: true }]);
        assert_eq!((users(&frames, 10).len(), frames.users.len()), (0, 1));
        assert_eq!(learn(&mut frames, 1, Kind::Freed { frame: 9, order: 0 }).len(), 1);
        assert_eq!((frames.users.len(), frames.most()), (0, 1));
    }

    #[test]
    fn a_frame_of_a_file_belongs_to_every_process_that_maps_it() {
        let mut frames = Frames::default();
        for index in 0..4 {
            learn(&mut frames, 1, Kind::Cached { frame: 100 + index, inode: 3, index });
        }
        learn(&mut frames, 1, Kind::FileMapped { inode: 3, first: 0, last: 2 });
        learn(&mut frames, 2, Kind::FileMapped { inode: 3, first: 1, last: 1 });
        let processes =
            |frames: &Frames, frame| users(frames, frame).iter().map(|user| user.process).collect::<Vec<_>>();
        assert_eq!(processes(&frames, 100), [1]);
        assert_eq!(processes(&frames, 101), [1, 2]);
        assert_eq!(processes(&frames, 103), [0_u32; 0]);
        learn(&mut frames, 0, Kind::Uncached { frame: 101, inode: 3, index: 1 });
        assert_eq!(learn(&mut frames, 0, Kind::Freed { frame: 101, order: 0 }).len(), 2);
    }
}
