//! Steps: points at which other CPUs go on, the hardware acts by itself, a late store is made, or an interrupt arrives.

use ceasefire_atomics::Ordering;

use super::Hardware;
use crate::model::ordering::View;
use crate::model::promise::Promise;
use crate::model::schedule::below;

impl Hardware {
    /// A point at which anything may happen.
    pub(crate) fn step(&self) {
        if self.pause() && self.me() < self.cores.len() {
            if self.model.unmasked && below(4) == 0 {
                self.take_unmasked();
            }
            if below(2) == 0 {
                self.take_interrupt();
            }
        }
    }

    /// A point at which other CPUs and the hardware may act, but no interrupt arrives here. True if it was one.
    pub(crate) fn pause(&self) -> bool {
        if self.acting.get().is_some() || self.walker.get().is_some() {
            return false;
        }
        self.point.load(Ordering::SeqCst);
        self.make_late();
        self.act_by_itself();
        true
    }

    /// A store that the thread has gone past is made now, or still not.
    fn make_late(&self) {
        if self.views.borrow().is_late(self.me()) && below(self.lateness) == 0 {
            self.views.borrow_mut().make_late(self.me());
        }
    }

    /// A CPU that waits lets others go first.
    pub(crate) fn yield_here(&self) {
        if self.acting.get().is_none() {
            shuttle::thread::yield_now();
            self.make_late();
            self.act_by_itself();
        }
    }

    /// Often stands still, while others go on. Its late stores stay late.
    pub(crate) fn linger(&self) {
        if self.acting.get().is_none() && self.walker.get().is_none() && below(2) == 0 {
            for _ in 0..1 << below(8) {
                shuttle::thread::yield_now();
                if self.model.unmasked && self.me() < self.cores.len() {
                    self.take_unmasked();
                }
            }
        }
    }

    /// Waits for another CPU, and answers interrupts meanwhile.
    pub(crate) fn wait_a_moment(&self) {
        self.take_interrupt();
        self.yield_here();
    }

    pub(crate) fn take_interrupt(&self) {
        let core = self.core();
        if core.off.get() > 0 {
            return;
        }
        let Some(view) = core.interrupt.take() else { return };
        if self.keeps(Promise::InterruptCarries) {
            self.views.borrow_mut().learn(self.me(), &view);
        }
        self.note(|| "deliver".to_owned());
        core.off.set(1);
        (self.handler)();
        core.off.set(0);
    }

    /// An interrupt that cannot be masked arrives, but none arrives while one is handled.
    fn take_unmasked(&self) {
        if !self.handles.replace(true) {
            let off = &self.core().off;
            off.set(off.get() + 1);
            (self.unmasked)();
            off.set(off.get() - 1);
            self.handles.set(false);
        }
    }

    pub(crate) fn send(&self, target: usize) {
        self.note(|| format!("send to CPU {target}"));
        let mine = if self.keeps(Promise::InterruptCarries) { self.view() } else { View::default() };
        self.cores[target].interrupt.borrow_mut().get_or_insert_default().join(&mine);
    }
}
