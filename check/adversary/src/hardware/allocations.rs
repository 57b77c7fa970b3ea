//! Frames and their allocations: who has them, and which accesses through old entries break a rule.

use super::frame::{Allocation, Frame};
use super::tlb::{Filled, Tag};
use super::Hardware;
use crate::model::removed::Removed;
use crate::model::rule::Rule;

impl Hardware {
    /// The allocator hands a frame out.
    pub(crate) fn hand_out(&self, frame: u32) {
        let since = self.tick();
        let mut frames = self.frames.borrow_mut();
        let state = &mut frames[frame as usize];
        (state.allocated, state.since) = (true, since);
        state.allocation.0 += 1;
        let reused = state.allocation != Allocation(1);
        drop(frames);
        if reused {
            self.note(|| format!("reuse frame {frame}"));
        }
    }

    /// A frame goes back to the allocator. Its next user overwrites it, so every access to it must have happened
    /// before.
    pub(crate) fn take_back(&self, frame: u32) {
        self.note(|| format!("free frame {frame}"));
        let content = self.frames.borrow()[frame as usize].content;
        if self.misses(content) {
            let what = format!("frame {frame} is freed by a CPU that does not know of the last access to it");
            self.break_rule(Rule::R1, self.me(), what);
        }
        self.frames.borrow_mut()[frame as usize].allocated = false;
    }

    /// Whether each access is judged by what the CPU that ends it knows. Without a guard the run goes on to the use of a
    /// stale entry, which says more.
    pub(super) fn looks(&self) -> bool {
        self.model.removed.iter().all(|removed| matches!(removed, Removed::Ordering(..) | Removed::Order(_)))
    }

    pub(crate) fn allocation(&self, frame: u32) -> Allocation {
        self.frames.borrow()[frame as usize].allocation
    }

    /// The allocation of a frame that is in use.
    pub(crate) fn allocation_in_use(&self, frame: u32) -> Option<Allocation> {
        let state = self.frames.borrow()[frame as usize];
        state.allocated.then_some(state.allocation)
    }

    /// From now on, stores to the frame must set its mark anew.
    ///
    /// With `put`, it is the page that was put into the frame with this allocation that is clean, and the CPU must know
    /// of the last store to it. The page may have left the frame since; then nothing is said of the next one.
    pub(crate) fn declare_clean(&self, frame: u32, put: Option<Allocation>) {
        let Frame { stored, allocation, .. } = self.frames.borrow()[frame as usize];
        if put.is_some_and(|put| put != allocation) {
            return;
        }
        if put.is_some() && self.misses(stored) {
            let what = format!("frame {frame} is clean for a CPU that does not know of the last store to it");
            self.break_rule(Rule::R5, self.me(), what);
        }
        let now = self.tick();
        self.frames.borrow_mut()[frame as usize].clean = now;
    }

    /// The hardware may look at the page from now on.
    pub(crate) fn warm(&self, tag: Tag, page: u64) {
        let mut hot = self.hot.borrow_mut();
        if !hot.contains(&(tag, page)) {
            hot.push((tag, page));
        }
    }

    /// Judges the use of an entry.
    pub(super) fn judge(&self, column: usize, entry: &Filled, root: u32, store: bool) {
        let frame = self.frames.borrow()[entry.frame as usize];
        let found = if entry.tag != Tag::Global && entry.root != root {
            let what = format!("page {} leads to frame {}, of another space", entry.page, entry.frame);
            Some((Rule::R4, what))
        } else {
            self.paging.judge(entry, frame, store)
        };
        if let Some((rule, what)) = found {
            self.break_rule(rule, column, what);
        }
    }

    /// The tag is not the space's any more, whose tables start at `root`.
    pub(crate) fn give_back(&self, root: u32, tag: Tag) {
        let tag = self.tag(tag);
        self.given_back.borrow_mut().push((root, tag));
        for (number, core) in self.cores.iter().enumerate() {
            self.judge_tag(number, core.root.get());
        }
    }

    /// Judges the tag under which a CPU runs.
    pub(crate) fn judge_tag(&self, column: usize, loaded: Option<(u32, Allocation, Tag)>) {
        let Some((root, _, tag)) = loaded else { return };
        if self.given_back.borrow().contains(&(root, tag)) {
            let what = format!("root {root} is loaded under a tag that was given back");
            self.break_rule(Rule::R4, column, what);
        }
    }
}
