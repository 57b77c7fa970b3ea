//! Judging an access: whether the CPU could have used something else, and whether it used what the page tables have.

use std::sync::atomic::Ordering;

use super::cpu::{count, Cpu, Mode, Quick};
use super::{Access, Accessed, Watch};
use crate::arch::{Arch, Rights, Translation, Walk, PAGE};
use crate::find::{is_of_kernel, Changed, Find, Kind, Place};
use crate::frames::Word;
use crate::lock;
use crate::stack::{Spot, Stack};
use crate::tables::Change;
use crate::tlb::Cached;

/// An access that is looked at: the frame that it used, and the page tables a moment later.
#[derive(Debug, Clone, Copy)]
struct Seen<U> {
    what: Accessed,
    access: U,
    frame: u64,
    walk: Walk,
    now: u64,
}

/// A frame that a CPU has used, or a table that it has walked, since a time, by an instruction, and the change that took
/// it away, if that was seen.
#[derive(Debug, Clone, Copy)]
pub(super) struct Held {
    pub(super) frame: u64,
    pub(super) since: u64,
    pub(super) by: u64,
    pub(super) change: Option<Change>,
}

/// An access may be a find, but whoever changed its entry may be about to flush. The next access is looked at again.
#[derive(Debug)]
struct TooEarly;

impl Watch {
    /// Walks the tables, and notes those that were not known.
    fn walk<A: Arch>(&self, arch: &A, address: u64) -> Option<Walk> {
        let walk = || arch.walk(address, &|physical| self.ram.load(physical));
        let first = walk()?;
        if self.tables.note(&first, &self.frames, &self.ram) {
            // They may have changed before their changes were seen.
            return walk();
        }
        Some(first)
    }

    /// Compares an access with what the CPU may have cached and with the page tables. Returns the frame that it used.
    /// `None`: a device's, or not known.
    #[cold]
    pub(super) fn look<A: Arch>(&self, cpu: &mut Cpu<A>, what: Accessed, access: impl Access) -> Option<u64> {
        let shared = &self.shared[cpu.index];
        if !cpu.is_known || !cpu.arch.translates() {
            count(&shared.unread);
            return None;
        }
        if !self.ram.is_found() {
            count(&shared.unread);
            if what.store && access.bytes() == 8 {
                self.ram.learn(access.physical()?, access.value()?);
            }
            return None;
        }
        let all = self.all.load(Ordering::Acquire);
        let Some(walk) = self.walk(&cpu.arch, what.address) else {
            count(&shared.unread);
            return None;
        };
        if self.is_device(cpu, &walk, what.address) {
            count(&shared.unread);
            if let Some(translation) = walk.translation.filter(|_| what.store && access.bytes() == 8) {
                // Or a part of the memory that is not known yet.
                let physical = translation.frame_of(what.address) << PAGE | what.address & ((1 << PAGE) - 1);
                self.ram.learn(physical, access.value()?);
            }
            return None;
        }
        count(&shared.looks);
        let frame = access.physical()? >> PAGE;
        let table = walk.last() >> PAGE;
        let word = self.frames.made(table);
        let version = word.map_or(0, Word::version);
        let page = what.address >> PAGE;
        let quick = Quick {
            page,
            frame,
            word: self.frames.made(frame),
            store: true,
            is_of_kernel: is_of_kernel(what.by),
            is_untranslated: cpu.mode == Mode::Untranslated,
            table: word,
            version,
            own: cpu.own,
            all,
        };
        if A::UNTRANSLATED && frame == page {
            if cpu.mode == Mode::Untranslated {
                *cpu.quick(page) = quick;
            }
            return Some(frame);
        }
        // Again, since the version was read after it.
        let walk = self.walk(&cpu.arch, what.address).filter(|again| again.last() >> PAGE == table)?;
        let seen = Seen { what, access, frame, walk, now: self.now() };
        let asid = cpu.arch.asid(what.address);
        cpu.note_asid(|| seen.now);
        cpu.walks.note(&walk, asid, what.address, seen.now, what.by);
        let Ok(held) = self.compare_with_cached(cpu, &seen) else { return Some(frame) };
        if self.compare_with_tables(cpu, &seen, held) {
            // A right to store that it has got since counts from its first store.
            let is_new = held.is_none_or(|held| what.store && !held.rights.store);
            if let Some(translation) = walk.translation.filter(|_| is_new) {
                let Translation { frame, rights, global, .. } = translation;
                let cached = Cached {
                    frame,
                    rights,
                    global,
                    joint: 0,
                    entry: walk.last(),
                    version,
                    since: seen.now,
                    by: what.by,
                };
                cpu.tlb.insert(asid, what.address, &translation, cached);
            }
            let store = walk.translation.is_some_and(|translation| translation.rights.store);
            *cpu.quick(page) = Quick { store, ..quick };
        }
        Some(frame)
    }

    /// Whether an address leads to a device, as far as page tables and TLB say. The emulator is not asked.
    fn is_device<A: Arch>(&self, cpu: &Cpu<A>, walk: &Walk, address: u64) -> bool {
        let is_memory = |frame: u64| self.ram.load(frame << PAGE).is_some();
        match walk.translation {
            Some(translation) => !is_memory(translation.frame_of(address)),
            None => cpu.tlb.find(cpu.arch.asid(address), address).all(|(_, cached)| !is_memory(cached.frame)),
        }
    }

    /// Whether another CPU or thread has changed an entry and may be about to flush: kernels change many entries before they
    /// flush all of them, and give no page away in between. A CPU whose own TLB happens to hold none of them may have
    /// faulted by then, and use what another page has become.
    ///
    /// No fault gives an address of the kernel another frame. So where that was done in two steps, the kernel has taken the
    /// address back and handed it out again, and had to flush between.
    fn is_pending<A: Arch, U: Access>(&self, cpu: &Cpu<A>, entry: u64, seen: &Seen<U>) -> bool {
        let is_other = |change: &Change| {
            change.at.cpu != cpu.index || change.thread.is_some() && change.thread != A::thread(&seen.access)
        };
        let is_handed_out = |change: &Change| change.anew && is_of_kernel(seen.what.address);
        self.tables.change(entry).is_some_and(|change| {
            is_other(&change) && !is_handed_out(&change) && !self.is_over(&change, seen.now)
        })
    }

    /// Where the frame that an entry leads to now was first written after the entry's change. A program can tell then.
    fn written(&self, entry: u64, frame: u64) -> Option<Spot> {
        let change = self.tables.change(entry)?;
        self.owners.written_at(frame).filter(|written| written.time > change.at.time)
    }

    /// Compares the frame with that of each translation that the CPU may have cached. Returns the one to the same frame, of
    /// the page alone.
    fn compare_with_cached<A: Arch, U: Access>(
        &self,
        cpu: &mut Cpu<A>,
        seen: &Seen<U>,
    ) -> Result<Option<Cached>, TooEarly> {
        let Seen { what, frame, .. } = *seen;
        let asid = cpu.arch.asid(what.address);
        let (mut held, mut outgrown, mut stale) = (None, false, None);
        for (shift, cached) in cpu.tlb.find(asid, what.address) {
            let own = cached.frame + (what.address >> PAGE & ((1 << (shift - PAGE)) - 1));
            if own == frame {
                held = Some(cached).filter(|cached| cached.joint == 0).or(held);
            } else if what.store && !cached.rights.store {
                // It could not serve this store: the CPU has faulted, or walked anew for rights that it lacked.
                outgrown = true;
            } else {
                stale = Some((own, shift, cached));
            }
        }
        if let Some((_, shift, cached)) = &stale {
            if self.is_going(cpu.index, asid, what.address, *shift, cached, seen.walk.last()) {
                (outgrown, stale) = (true, None);
            } else if self.shared[cpu.index].has_mail.load(Ordering::Acquire) {
                // It was complete, but after the access began to be looked at.
                self.read_mail(cpu);
                return self.compare_with_cached(cpu, seen);
            }
        }
        if stale.is_some_and(|(_, _, cached)| self.is_pending(cpu, cached.entry, seen)) {
            return Err(TooEarly);
        }
        if let Some((other, _, cached)) = stale {
            self.found(Find { other, ..self.find(cpu, seen, Kind::StaleUse, cached) });
        }
        if outgrown || stale.is_some() {
            cpu.tlb.remove(asid, what.address);
            return Ok(None);
        }
        Ok(held)
    }

    /// Compares the frame and the rights with the page tables. Returns whether they allow the access.
    fn compare_with_tables<A: Arch, U: Access>(
        &self,
        cpu: &mut Cpu<A>,
        seen: &Seen<U>,
        held: Option<Cached>,
    ) -> bool {
        let Seen { what, frame, walk, now, .. } = *seen;
        let current = walk.translation.map(|translation| translation.frame_of(what.address));
        let allows = |translation: Translation| {
            let Rights { store, execute, .. } = translation.rights;
            (store || !what.store) && (execute || !what.fetch)
        };
        let allowed = current == Some(frame) && walk.translation.is_some_and(allows);
        // Of what the CPU did not hold before, a store to the tables has yet to be looked at.
        let Some(held) = held.filter(|_| !allowed) else { return allowed };
        if let Some(other) = current.filter(|&current| current != frame) {
            let written = self.written(walk.last(), other);
            let is_pending = self.is_pending(cpu, walk.last(), seen);
            let is_told = written.is_some() || self.is_put(walk.last());
            // A use that was made before the store, or the return, may be looked at after it.
            if !is_pending || is_told && cpu.suspects(what.address >> PAGE) {
                let written = written.map(|spot| self.place(cpu, &spot));
                self.found(Find { other, written, ..self.find(cpu, seen, Kind::Incoherence, held) });
            }
            return false;
        }
        let change = self.tables.last_change::<A>(walk.last(), &self.ram);
        let Some(change) = change.filter(|change| held.since < change.at.time) else { return false };
        let given = self.owners.given(frame).filter(|given| given.at.time > change.at.time);
        let kind = if given.is_some() {
            Kind::Reuse
        } else if self.is_over(&change, now) {
            Kind::LateUse
        } else {
            return false;
        };
        let given = given.map(|given| self.place(cpu, &given.at));
        self.found(Find { given, ..self.find(cpu, seen, kind, held) });
        false
    }

    pub(super) fn place<A: Arch>(&self, cpu: &Cpu<A>, spot: &Spot) -> Place {
        spot.place(&self.code, &cpu.arch, &self.ram)
    }

    /// The change that took a frame away, or one after that.
    fn changed<A: Arch>(&self, cpu: &Cpu<A>, change: &Change, frame: u64) -> Changed {
        let again = A::frame(change.before).is_some_and(|before| before != frame);
        Changed { place: self.place(cpu, &change.at), before: change.before, after: change.after, again }
    }

    /// A find. Its other frame is its own.
    fn find<A: Arch, U: Access>(&self, cpu: &Cpu<A>, seen: &Seen<U>, kind: Kind, cached: Cached) -> Find {
        let Seen { what, access, frame, now, .. } = *seen;
        let used = Spot { time: now, ..self.spot(cpu, what.by, &access) };
        let find = self.find_at(cpu, &used, what.address, kind, self.held(&cached));
        Find { store: what.store, fetch: what.fetch, frame, other: frame, ..find }
    }

    /// What a CPU held by a translation.
    pub(super) fn held(&self, cached: &Cached) -> Held {
        let Cached { frame, since, by, entry, .. } = *cached;
        Held { frame, since, by, change: self.tables.change(entry) }
    }

    /// A find at a place. Its frames are the one that the CPU held.
    pub(super) fn find_at<A: Arch>(
        &self,
        cpu: &Cpu<A>,
        used: &Spot,
        address: u64,
        kind: Kind,
        held: Held,
    ) -> Find {
        let Held { frame, since, by, change } = held;
        let first = Spot { cpu: cpu.index, time: since, instruction: by, stack: Stack::default() };
        let changed = change.map(|change| self.changed(cpu, &change, frame));
        let dropped = cpu.dropped.map(|spot| self.place(cpu, &spot));
        let (used, cached) = (self.place(cpu, used), self.place(cpu, &first));
        Find { changed, dropped, ..Find::new(kind, used, address, frame, cached) }
    }

    pub(super) fn found(&self, find: Find) {
        lock(&self.report).found(find);
    }
}
