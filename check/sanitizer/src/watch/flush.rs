//! Instructions that drop translations, and faults.

use std::sync::atomic::Ordering;

use super::cpu::{count, Begun, Cpu, Going};
use super::judge::Held;
use super::Watch;
use crate::arch::{Arch, Effect, Invalidation, Operands, Walks, PAGE};
use crate::find::{is_of_kernel, Find, Kind};
use crate::lock;
use crate::owners::Given;
use crate::stack::{Spot, Stack};
use crate::tables::Change;
use crate::tlb::Cached;
use crate::walks::Walked;

impl Watch {
    /// A CPU is about to execute an instruction that concerns translations.
    pub fn execute<A: Arch>(&self, cpu: &mut Cpu<A>, what: A::Instruction, by: u64, operands: &dyn Operands) {
        if self.shared[cpu.index].is_forgotten.load(Ordering::Acquire) {
            self.read_mail(cpu);
        }
        if !cpu.is_known {
            cpu.learn(operands);
        }
        let spot = |cpu: &Cpu<A>| self.spot(cpu, by, operands);
        let effect = cpu.arch.execute(what, operands);
        cpu.note_asid(|| self.now());
        match effect {
            // Under another ASID, a page that it may use quickly is not one that it has cached.
            Effect::Nothing => cpu.own = cpu.own.wrapping_add(1),
            Effect::Restarts => cpu.restarts(),
            Effect::Loads => {
                cpu.own = cpu.own.wrapping_add(1);
                cpu.is_known = false;
            }
            Effect::Drops(what) => {
                count(&self.shared[cpu.index].invalidations);
                let spot = spot(cpu);
                self.drop(cpu, what, spot);
            }
            Effect::Begins { what, everywhere } => {
                count(&self.shared[cpu.index].invalidations);
                cpu.begun.push(Begun { what, own: true, others: everywhere });
                if everywhere {
                    lock(&self.shared[cpu.index].going).what.push(what);
                }
            }
            Effect::Lacks { address, asids, walks } => {
                let spot = spot(cpu);
                // They are often the same.
                let count = 1 + usize::from(asids[0] != asids[1]);
                for &asid in &asids[..count] {
                    self.faulted(cpu, asid, address, spot);
                    cpu.lacks(asid, address);
                    let range = Some((address, 1));
                    let of_tables =
                        Invalidation { asid: Some(asid), range, walks, ..Invalidation::EVERYTHING };
                    self.drop_walks(cpu, of_tables, &spot);
                }
            }
            Effect::Zeroes { address } => {
                let walk = cpu.arch.walk(address, &|physical| self.ram.load(physical));
                let frame = walk.and_then(|walk| Some(walk.translation?.frame_of(address)));
                if let Some(frame) = frame.filter(|&frame| self.frames.version(frame) != 0) {
                    self.tables.forget(frame, &self.frames);
                }
            }
            Effect::Completes { .. } if cpu.begun.is_empty() => {}
            Effect::Completes { everywhere } => {
                let spot = spot(cpu);
                for begun in std::mem::take(&mut cpu.begun) {
                    if begun.own {
                        self.drop(cpu, begun.what, spot);
                    }
                    if begun.others && everywhere {
                        self.mail(cpu.index, begun.what, spot);
                    } else if begun.others {
                        cpu.begun.push(Begun { own: false, ..begun });
                    }
                }
                if cpu.begun.is_empty() {
                    // After the mail: who finds nothing here has it.
                    *lock(&self.shared[cpu.index].going) = Going::default();
                }
            }
        }
    }

    /// Where a CPU is.
    pub(super) fn spot<A: Arch>(&self, cpu: &Cpu<A>, instruction: u64, operands: &dyn Operands) -> Spot {
        let stack = Stack::of(&self.code, &cpu.arch, operands, &self.ram);
        Spot { cpu: cpu.index, time: self.now(), instruction, stack }
    }

    /// Drops translations of all CPUs but one, before their next accesses.
    pub(super) fn mail(&self, from: usize, what: Invalidation, spot: Spot) {
        for (_, shared) in self.shared.iter().enumerate().filter(|(other, _)| *other != from) {
            lock(&shared.inbox).push((what, spot));
            shared.has_mail.store(true, Ordering::Release);
        }
    }

    /// Drops translations and cached tables of a CPU.
    fn drop<A: Arch>(&self, cpu: &mut Cpu<A>, what: Invalidation, spot: Spot) {
        cpu.own = cpu.own.wrapping_add(1);
        let mut tlb = std::mem::take(&mut cpu.tlb);
        tlb.invalidate(what, &mut |asid, address, cached| {
            let Some(change) = self.missed::<A>(&cached) else { return };
            let given = self.owners.given(cached.frame);
            let given = given.filter(|given| given.is_between(change.at.time, spot.time));
            let place = || change.at.place(&self.code, &cpu.arch, &self.ram);
            let late = spot.time.saturating_sub(change.at.time);
            self.windows.note(change.at.instruction, late, given.is_some(), place);
            if let Some(given) = given.filter(|given| given.is_freed) {
                self.note_held(cpu, asid, address, &cached, &given, &spot);
            }
        });
        cpu.tlb = tlb;
        self.drop_walks(cpu, what, &spot);
        cpu.dropped = Some(spot);
    }

    /// Drops cached tables of a CPU.
    fn drop_walks<A: Arch>(&self, cpu: &mut Cpu<A>, what: Invalidation, spot: &Spot) {
        if what.walks == Walks::No {
            return;
        }
        let mut walks = std::mem::take(&mut cpu.walks);
        walks.invalidate(what, &mut |frame, walked| self.note_walked(cpu, frame, &walked, spot));
        cpu.walks = walks;
    }

    /// A table that a CPU may have cached is dropped: had it been given to somebody else while the CPU could walk it?
    fn note_walked<A: Arch>(&self, cpu: &Cpu<A>, frame: u64, walked: &Walked, spot: &Spot) {
        let Some(unlinked) = self.tables.unlinked(frame).filter(|change| change.at.time > walked.since)
        else {
            return;
        };
        // A CPU may learn late what others have dropped.
        let is_found = |given: &Given| {
            given.is_between(unlinked.at.time, spot.time) && cpu.could_walk(walked, given.at.time)
        };
        let Some(given) = self.owners.given(frame).filter(is_found) else { return };
        let Walked { address, since, by, .. } = *walked;
        let held = Held { frame, since, by, change: Some(unlinked) };
        let find = self.find_at(cpu, spot, address, Kind::TableReuse, held);
        self.found(Find { given: Some(self.place(cpu, &given.at)), ..find });
    }

    /// Drops what others have dropped of a CPU's translations.
    #[cold]
    pub(super) fn read_mail<A: Arch>(&self, cpu: &mut Cpu<A>) {
        let shared = &self.shared[cpu.index];
        shared.has_mail.store(false, Ordering::Relaxed);
        if shared.is_forgotten.swap(false, Ordering::AcqRel) {
            cpu.forget();
        }
        let mail = std::mem::take(&mut *lock(&shared.inbox));
        for (what, spot) in mail {
            self.drop(cpu, what, spot);
        }
    }

    /// Whether another CPU has begun to drop a translation, and has not made its entry anew: a third, or the CPU itself,
    /// may have done that before, with the frame that the CPU uses instead.
    pub(super) fn is_going(
        &self,
        cpu: usize,
        asid: u16,
        address: u64,
        shift: u32,
        cached: &Cached,
        entry: u64,
    ) -> bool {
        self.shared.iter().enumerate().filter(|(other, _)| *other != cpu).any(|(_, shared)| {
            let going = lock(&shared.going);
            let is_named = |what: &Invalidation| what.names(asid, cached.global, shift, address);
            going.what.iter().any(is_named) && !going.made.contains(&entry)
        })
    }

    /// The change of an entry since a CPU cached it, if that took something away.
    fn missed<A: Arch>(&self, cached: &Cached) -> Option<Change> {
        if self.frames.version(cached.entry >> PAGE) == cached.version {
            return None;
        }
        let change = self.tables.change(cached.entry).filter(|change| change.at.time > cached.since)?;
        A::narrows(change.before, change.after).then_some(change)
    }

    /// A translation is dropped whose frame was freed meanwhile: was the CPU in the program that could use it since?
    ///
    /// A CPU that is idle, or runs another program, may have it: kernels flush before they go back. What a frame that was
    /// overwritten has become is not known; a file's page may still be that.
    fn note_held<A: Arch>(
        &self,
        cpu: &Cpu<A>,
        asid: Option<u16>,
        address: u64,
        cached: &Cached,
        freed: &Given,
        spot: &Spot,
    ) {
        let ran = asid.filter(|_| !is_of_kernel(address)).and_then(|asid| cpu.ran(asid, spot.time));
        if ran.is_some_and(|ran| ran > freed.at.time) {
            let find = self.find_at(cpu, spot, address, Kind::Held, self.held(cached));
            self.found(Find { given: Some(self.place(cpu, &freed.at)), ..find });
        }
    }

    /// A CPU has faulted for an address that it may have cached. A processor with a larger TLB would have used that.
    fn faulted<A: Arch>(&self, cpu: &Cpu<A>, asid: u16, address: u64, spot: Spot) {
        if !self.ram.is_found() {
            return;
        }
        // A translation that allows all that programs do: the fault is not for a lack of rights.
        let allows = |cached: &Cached| cached.rights.store && cached.rights.user && !is_of_kernel(address);
        for (shift, cached) in cpu.tlb.find(asid, address).filter(|(_, cached)| allows(cached)) {
            if self.is_going(cpu.index, asid, address, shift, &cached, cached.entry) {
                continue;
            }
            let Some(change) = self.tables.last_change::<A>(cached.entry, &self.ram) else { continue };
            let is_lost = A::meaning(change.after) == 0 && change.at.time > cached.since;
            if is_lost && self.is_over(&change, spot.time) {
                let find = self.find_at(cpu, &spot, address, Kind::LateUse, self.held(&cached));
                self.found(Find { faulted: true, ..find });
            }
        }
    }
}
