//! Walkers: they fill entries for accesses and by themselves, and read page tables as their CPU may see them.

use std::rc::Rc;

use super::entry::Read;
use super::frame::Allocation;
use super::paging::Past;
use super::tlb::{Filled, Tag, Tlb, Walked, Walking};
use super::Hardware;
use crate::model::ordering::View;
use crate::model::promise::Promise;
use crate::model::rule::Rule;
use crate::model::schedule::below;

/// How far a walk has come.
pub(super) enum Walk {
    Nothing,
    On(Walking),
    Leaf(Walking, Read),
}

impl Hardware {
    /// Accesses tables as the walker of a thread.
    fn as_walker<R>(&self, thread: usize, body: impl FnOnce() -> R) -> R {
        let before = self.walker.replace(Some(thread));
        let result = body();
        self.walker.set(before);
        result
    }

    /// Reads an entry as the walker of a thread, and what the entry carries. The address of the entry depends on the way
    /// to its table, so no processor reads it earlier (Linux: the comment in `pmd_install`).
    fn read_as_walker(&self, thread: usize, walk: &Walking, index: usize) -> (Read, Option<Rc<View>>) {
        self.way.replace(walk.way.clone().filter(|_| self.keeps(Promise::WalksFollow)));
        let read = self.as_walker(thread, || self.paging.read(self, walk.table, index, walk.level));
        (read, self.way.take())
    }

    /// The first table of a walk: the lowest that the walker remembers, or the root.
    pub(super) fn begin_walk(
        &self,
        tlb: &Tlb,
        tag: Tag,
        (root, allocation): (u32, Allocation),
        page: u64,
    ) -> Walking {
        let at = self.tick();
        match tlb.way(tag, page) {
            // As old as the way that it takes.
            Some(Walked { level, table, allocation, at, way, .. }) => {
                Walking { tag, root, page, level, table, allocation, at, read: at, way }
            }
            None => Walking {
                tag,
                root,
                page,
                level: self.paging.shape().top,
                table: root,
                allocation,
                at,
                read: at,
                way: None,
            },
        }
    }

    /// Reads one entry on the way. A walk that ends fills an entry, or finds nothing.
    pub(super) fn walk_on(&self, thread: usize, tlb: &mut Tlb, walk: Walking) -> Walk {
        let state = self.frames.borrow()[walk.table as usize];
        if !state.allocated || state.allocation != walk.allocation {
            let what = format!("the walk to page {} reads table {}, which was freed", walk.page, walk.table);
            self.break_rule(Rule::R2, thread, what);
            return Walk::Nothing;
        }
        let shape = self.paging.shape();
        let index = shape.index(walk.page, walk.level);
        let (pte, way) = self.read_as_walker(thread, &walk, index);
        if !pte.present {
            return Walk::Nothing;
        }
        if pte.leaf {
            return Walk::Leaf(Walking { read: pte.stood, ..walk }, pte);
        }
        if walk.level == 0 {
            return Walk::Nothing;
        }
        let (level, table, allocation) = (walk.level - 1, pte.frame, pte.allocation());
        let shift = shape.bits * walk.level;
        let prefix = walk.page >> shift;
        let (tag, at) = (walk.tag, walk.at);
        tlb.remember(Walked { tag, level, shift, prefix, table, allocation, at, way: way.clone() });
        Walk::On(Walking { level, table, allocation, way, ..walk })
    }

    /// Marks the entry that a walk has read. `None` if it is another by now.
    pub(super) fn mark(
        &self,
        thread: usize,
        walk: Walking,
        pte: Read,
        store: bool,
    ) -> Option<(Walking, Read)> {
        let (index, atomic) =
            (self.paging.shape().index(walk.page, walk.level), self.keeps(Promise::MarksAtomic));
        let marked = self.as_walker(thread, || self.paging.mark(walk.table, index, pte, store, atomic))?;
        let read = if marked.bits == pte.bits { walk.read } else { self.tick() };
        Some((Walking { read, ..walk }, marked))
    }

    pub(super) fn fill(&self, column: usize, tlb: &mut Tlb, entry: Filled) {
        if tlb.fill(entry) {
            self.note_on(column, || {
                format!("fill page {} -> frame {}{}", entry.page, entry.frame, rights(&entry))
            });
        }
    }

    /// The hardware may do something that nobody asked for.
    pub(super) fn act_by_itself(&self) {
        if self.model.eagerness == 0 || below(self.model.eagerness) != 0 {
            return;
        }
        let thread = below((self.cores.len() + self.devices.len()) as u32) as usize;
        let hot = self.hot.borrow();
        if hot.is_empty() {
            return;
        }
        let (tag, page) = hot[below(hot.len() as u32) as usize];
        drop(hot);
        if thread >= self.cores.len() {
            let tlb = &self.devices[thread - self.cores.len()].tlb;
            let root = if tag == Tag::Global { self.kernel_root.get() } else { self.device_root(thread) };
            if let Some(root) = root {
                let tag = if tag == Tag::Global { tag } else { Tag::Asid(0) };
                self.walk_by_itself(thread, &mut tlb.borrow_mut(), tag, root, page);
            }
            return;
        }
        self.carry_by_itself(thread);
        let core = &self.cores[thread];
        let root = if tag == Tag::Global {
            self.kernel_root.get().map(|root| (root, tag))
        } else {
            core.root.get().map(|(root, allocation, tag)| ((root, allocation), tag))
        };
        if let Some((root, tag)) = root {
            self.walk_by_itself(thread, &mut core.tlb.borrow_mut(), tag, root, page);
        }
    }

    fn walk_by_itself(&self, thread: usize, tlb: &mut Tlb, tag: Tag, root: (u32, Allocation), page: u64) {
        let mut walk = if tlb.walking.is_empty() || below(2) == 0 {
            Walk::On(self.begin_walk(tlb, tag, root, page))
        } else {
            let chosen = below(tlb.walking.len() as u32) as usize;
            match tlb.walking.swap_remove(chosen) {
                (walking, Some(pte)) => Walk::Leaf(walking, pte),
                (walking, None) => Walk::On(walking),
            }
        };
        loop {
            // It may stop half-way, and go on later: also between the last read and the fill.
            let stops = below(4) == 0;
            match walk {
                Walk::Nothing => return,
                Walk::On(walking) if stops => return tlb.walking.push((walking, None)),
                Walk::Leaf(walking, pte) if stops => return tlb.walking.push((walking, Some(pte))),
                Walk::On(walking) => walk = self.walk_on(thread, tlb, walking),
                Walk::Leaf(walking, pte) => {
                    if let Some((walking, pte)) = self.mark(thread, walking, pte, false) {
                        self.fill(thread, tlb, walking.fills(self.paging.shape(), &pte));
                    }
                    return;
                }
            }
        }
    }

    /// A broadcast of another CPU takes effect on this one now.
    fn carry_by_itself(&self, thread: usize) {
        let issuer = &self.cores[below(self.cores.len() as u32) as usize];
        let unfinished = below(2) == 0;
        let mut started = if unfinished { &issuer.unfinished } else { &issuer.started }.borrow_mut();
        if !started.is_empty() {
            let chosen = below(started.len() as u32) as usize;
            self.carry(thread, &mut started[chosen]);
        }
    }
}

impl Past for Hardware {
    fn moment(&self) -> u64 {
        self.tick()
    }

    fn stood(&self, same: &dyn Fn(u64) -> bool) -> u64 {
        let (location, newer) = self.walked.get();
        let stored = self.stored.borrow();
        let values = stored.get(location as usize).map_or(&[][..], |values| values);
        let newer = &values[values.len().saturating_sub(newer as usize)..];
        newer.iter().find(|(value, _)| !same(*value)).map_or_else(|| self.tick(), |(_, moment)| *moment)
    }

    fn allocation_at(&self, frame: u32, moment: u64) -> Allocation {
        let state = self.frames.borrow()[frame as usize];
        if state.since <= moment {
            state.allocation
        } else {
            Allocation::NONE
        }
    }
}

fn rights(entry: &Filled) -> &'static str {
    match (entry.writable, entry.dirty) {
        (_, true) => " dirty",
        (true, false) => " rw",
        (false, false) => " ro",
    }
}
