//! Stores: to page tables, to frames that replace others, and to frames that lost their owners. And what frees these.

use std::sync::atomic::Ordering;

use super::cpu::Cpu;
use super::{Access, Accessed, Watch};
use crate::arch::{Arch, Operands, PAGE};
use crate::find::is_of_kernel;
use crate::free::Free;
use crate::lock;
use crate::owners::Owners;
use crate::tables::Change;

/// The threads that are remembered.
pub(super) const THREADS: usize = 64;

/// The time, in nanoseconds, after which whoever changed an entry has returned: one second. Until then another CPU may use
/// what was there before, since the flush may still be to come.
pub(super) const LATE: u64 = 1_000_000_000;

/// The accesses that the CPU which changed an entry has made by then, at least: it may have been the emulator that rested.
pub(super) const LATE_ACCESSES: u64 = 100_000;

/// How many times as much a thread with a program has, whose return is seen: it may change many entries in one call.
pub(super) const PATIENCE: u64 = 10;

/// The last change of entries that a thread made.
#[derive(Debug, Clone, Copy)]
pub(super) struct Busy {
    cpu: usize,
    time: u64,
    /// The CPU's accesses until then.
    accesses: u64,
}

impl Watch {
    /// A CPU has stored to a frame in which stores matter.
    #[cold]
    pub(super) fn stored<A: Arch>(&self, cpu: &mut Cpu<A>, frame: u64, what: Accessed, access: impl Access) {
        if self.frames.version(frame) != 0 {
            self.changes(cpu, frame, what, access);
        }
        if self.frames.is_fresh(frame) {
            let spot = self.spot(cpu, what.by, &access);
            self.owners.written(frame, spot, &self.frames);
        }
        if Owners::begins_line(what.address) && self.frames.is_watched(frame) && is_of_kernel(what.by) {
            let spot = || self.spot(cpu, what.by, &access);
            if self.owners.stored(frame, what.address, spot, &self.frames) {
                self.tables.forget(frame, &self.frames);
            }
        }
    }

    /// A CPU calls a function that frees frames.
    pub fn frees<A: Arch>(&self, cpu: &Cpu<A>, free: &Free, operands: &dyn Operands) {
        if !self.ram.is_found() {
            return;
        }
        let is_memory = |frame: u64| frame >> (64 - PAGE) == 0 && self.ram.load(frame << PAGE).is_some();
        let Some(frames) = free.frames::<A>(operands, is_memory) else {
            self.freed.unknown.fetch_add(1, Ordering::Relaxed);
            return;
        };
        self.freed.frames.fetch_add(frames.end - frames.start, Ordering::Relaxed);
        for frame in frames {
            let at = || self.spot(cpu, free.function, operands);
            if self.owners.freed(frame, at, &self.frames) {
                self.tables.forget(frame, &self.frames);
            }
        }
    }

    /// A CPU has stored to a page table.
    fn changes<A: Arch>(&self, cpu: &mut Cpu<A>, frame: u64, what: Accessed, access: impl Access) {
        let thread = A::thread(&access);
        if let Some(thread) = thread.filter(|thread| !cpu.changers.contains(thread)) {
            // A thread that has moved to another CPU is seen there after its next change.
            cpu.changers.truncate(THREADS - 1);
            cpu.changers.push(thread);
        }
        let accesses = self.shared[cpu.index].accesses.load(Ordering::Relaxed);
        let at = self.spot(cpu, what.by, &access);
        if let Some(thread) = thread {
            lock(&self.busy).insert(thread, Busy { cpu: cpu.index, time: at.time, accesses });
        }
        let first = frame << PAGE | what.address & 0xff8;
        let words = (access.bytes() / 8).max(1);
        for word in 0..words {
            let change = Change { before: 0, after: 0, anew: false, at, thread, accesses, put: None };
            let changed = self.tables.stored::<A>(first + 8 * word, &self.frames, &self.ram, change);
            let Some(changed) = changed else { continue };
            let frame = |entry: u64| {
                if changed.is_upper {
                    A::table(entry).map(|table| table >> PAGE)
                } else {
                    A::frame(entry)
                }
            };
            let [before, after] = [changed.before, changed.after].map(frame);
            if changed.is_upper && A::table(changed.before).is_some() {
                self.all.fetch_add(1, Ordering::AcqRel);
            }
            if before == after {
                continue;
            }
            if let Some(frame) = before {
                if changed.is_upper {
                    let change = Change { before: changed.before, after: changed.after, ..change };
                    self.tables.unlinks(frame, change);
                }
                self.owners.unmapped(frame, &self.frames);
            }
            if let Some(frame) = after {
                if changed.is_upper {
                    self.tables.links(frame, self.owners.given(frame).map(|given| given.at.time));
                } else if changed.replaces {
                    self.frames.freshen(frame, true);
                }
                self.owners.mapped(frame, &self.frames);
            }
        }
        if cpu.begun.iter().any(|begun| begun.others) {
            let entries = (0..words).map(|word| first + 8 * word);
            let is_made = |&entry: &u64| self.ram.load(entry).is_some_and(|entry| A::meaning(entry) != 0);
            lock(&self.shared[cpu.index].going).made.extend(entries.filter(is_made));
        }
    }

    /// A CPU has gone from a program to the kernel, or back: in which thread?
    #[cold]
    pub(super) fn crosses<A: Arch>(&self, cpu: &mut Cpu<A>, access: impl Access) {
        if !cpu.in_program {
            // Nobody asks before a frame was freed.
            if self.freed.frames.load(Ordering::Relaxed) != 0 {
                cpu.leaves_program(self.now());
            }
            return;
        }
        if cpu.changers.is_empty() {
            return;
        }
        let Some(thread) = A::thread(&access) else { return };
        let Some(place) = cpu.changers.iter().position(|&changer| changer == thread) else { return };
        cpu.changers.swap_remove(place);
        let mut returned = lock(&self.returned);
        if returned.len() >= THREADS {
            returned.clear();
        }
        returned.insert(thread, self.now());
    }

    /// Whether a thread was back in its program after a time.
    fn has_returned(&self, thread: u64, after: u64) -> bool {
        lock(&self.returned).get(&thread).is_some_and(|&time| time > after)
    }

    /// Whether another thread than the one that took a frame away has put another one there, and goes on with that.
    pub(super) fn is_put(&self, entry: u64) -> bool {
        let put = self.tables.change(entry).and_then(|change| change.put);
        put.is_some_and(|(thread, time)| self.has_returned(thread, time))
    }

    /// Whether whoever made a change has returned since: a kernel has flushed by then.
    pub(super) fn is_over(&self, change: &Change, now: u64) -> bool {
        // A thread of the kernel's own has no program to return to.
        let has_returned = change.thread.is_some_and(|thread| self.has_returned(thread, change.at.time));
        // One that still changes entries has yet to come to its flush.
        let busy = change.thread.and_then(|thread| lock(&self.busy).get(thread).copied());
        let own = Busy { cpu: change.at.cpu, time: change.at.time, accesses: change.accesses };
        let last = busy.filter(|busy| busy.time > own.time).unwrap_or(own);
        let accesses = self.shared[last.cpu].accesses.load(Ordering::Relaxed);
        let patience = if change.thread.is_some() { PATIENCE } else { 1 };
        let is_late = now.saturating_sub(last.time) > LATE * patience
            && accesses.saturating_sub(last.accesses) > LATE_ACCESSES * patience;
        is_late || has_returned
    }
}
