//! Atomic accesses: what the memory model lets a load read, and when a store is made.

use std::cell::Cell;
use std::rc::Rc;

use ceasefire_atomics::{Checker, Ordering, Place};

use super::Hardware;
use crate::model::promise::Promise;
use crate::model::schedule::{self, below};
use crate::model::sites::{self, common, Access, Kind, Site};

/// The machine whose CPUs make this thread's accesses.
pub(crate) struct Memories(pub(crate) Rc<Hardware>);

impl Memories {
    /// The ordering of the access that is made now, as this machine keeps it. `weaker` is what is left of `SeqCst`
    /// without consistency.
    fn kept(&self, kind: Kind, order: Ordering, weaker: Ordering) -> Ordering {
        let access = Access { site: self.0.site.get(), kind };
        match self.0.weakened {
            Some((weakened, to)) if weakened == access => common(order, to),
            _ if order == Ordering::SeqCst && !self.0.keeps(Promise::Consistent) => weaker,
            _ => order,
        }
    }

    /// Notes the access that is made now, and its ordering.
    fn note(&self, kind: Kind, order: Ordering) {
        sites::note(Access { site: self.0.site.get(), kind }, order);
    }

    fn pick(&self, bound: u32) -> u32 {
        if below(self.0.freshness) == 0 {
            below(bound)
        } else {
            0
        }
    }
}

impl Checker for Memories {
    fn run(&self) -> u32 {
        schedule::run()
    }

    fn at(&self, place: &'static Place<'static>) {
        self.0.site.set(Site { file: place.file(), line: place.line(), column: place.column() });
    }

    fn register(&self, value: u64) -> u32 {
        self.0.views.borrow_mut().add(value)
    }

    fn load(&self, location: u32, order: Ordering) -> u64 {
        let machine = &*self.0;
        if machine.looking.get() {
            return machine.views.borrow().peek(machine.me(), location, [], &mut |_| 0).0;
        }
        if let Some(thread) = machine.walker.get() {
            let cpus = machine.cores.len();
            let floor = machine
                .cores
                .get(thread)
                .map_or_else(|| &machine.devices[thread - cpus].floor, |core| &core.floor);
            let newer = Cell::new(0);
            let pick: &mut dyn FnMut(u32) -> u32 = &mut |bound| {
                newer.set(self.pick(bound));
                newer.get()
            };
            let (floor, way) = (floor.borrow(), machine.way.take());
            let floors = [&*floor].into_iter().chain(way.as_deref());
            let (value, carried) = machine.views.borrow().peek(thread, location, floors, pick);
            machine.walked.set((location, newer.get()));
            machine.way.replace(carried);
            return value;
        }
        self.note(Kind::Load, order);
        let order = self.kept(Kind::Load, order, Ordering::Acquire);
        // A weakened access often shows what it may: that is what the run is for.
        let weakened = machine.weakened.is_some_and(|(access, _)| access.site == machine.site.get());
        machine.step();
        let freely = weakened && below(2) == 0;
        let mut pick = |bound| if freely { below(bound) } else { self.pick(bound) };
        machine.views.borrow_mut().load(machine.me(), location, order, &mut pick)
    }

    fn store(&self, location: u32, value: u64, order: Ordering) {
        let machine = &*self.0;
        self.note(Kind::Store, order);
        let order = self.kept(Kind::Store, order, Ordering::Release);
        machine.step();
        machine.tick();
        machine.note_stored(location, value);
        let late = machine.model.late && machine.acting.get().is_none() && order != Ordering::SeqCst;
        let mut views = machine.views.borrow_mut();
        if late && below(2) == 0 {
            views.store_late(machine.me(), location, value, order);
        } else {
            views.store(machine.me(), location, value, order);
        }
    }

    fn update(
        &self,
        location: u32,
        success: Ordering,
        failure: Ordering,
        change: &mut dyn FnMut(u64) -> Option<u64>,
    ) -> Result<u64, u64> {
        let machine = &*self.0;
        let mut stored = None;
        let mut noting = |old| {
            stored = change(old);
            stored
        };
        let result = if machine.walker.get().is_some() {
            machine.views.borrow_mut().mark(location, &mut noting)
        } else {
            let orders = (
                self.kept(Kind::Exchange, success, Ordering::AcqRel),
                self.kept(Kind::Failure, failure, Ordering::Acquire),
            );
            let site = machine.site.get();
            machine.step();
            let mut pick = |bound| self.pick(bound);
            let result =
                machine.views.borrow_mut().update(machine.me(), location, orders, &mut noting, &mut pick);
            let (kind, order) =
                if result.is_ok() { (Kind::Exchange, success) } else { (Kind::Failure, failure) };
            sites::note(Access { site, kind }, order);
            result
        };
        if let (Ok(_), Some(value)) = (&result, stored) {
            machine.tick();
            machine.note_stored(location, value);
        }
        result
    }

    fn fence(&self, order: Ordering) {
        let machine = &*self.0;
        self.note(Kind::Fence, order);
        let order = self.kept(Kind::Fence, order, Ordering::AcqRel);
        machine.step();
        machine.views.borrow_mut().fence(machine.me(), order);
    }

    fn between(&self) {
        self.0.linger();
    }
}
