//! What runs on a CPU or a device.

use ceasefire_atomics::Ordering;

use super::{Kernel, Space};
use crate::model::rule::Rule;

impl Kernel {
    /// A timer tick.
    pub(crate) fn tick(&self) {
        self.hardware().pass_tick();
        self.hardware().note(|| "tick".to_owned());
        let off = self.engine.interrupts_off();
        let overdue = self.engine.tick();
        drop(off);
        if overdue {
            self.engine.pay_overdue();
        }
    }

    /// This CPU runs no program, and keeps its space loaded.
    pub(crate) fn rest(&self) {
        self.hardware().note(|| "lazy".to_owned());
        self.hardware().core().resting.set(true);
        self.engine.enter_lazy();
    }

    /// This CPU runs no program, on the kernel's own tables.
    pub(crate) fn leave(&self) {
        self.hardware().note(|| "leaves its space".to_owned());
        drop(self.engine.unload());
    }

    /// This CPU goes offline and comes back.
    pub(crate) fn sleep(&self, steps: u32) {
        let hardware = self.hardware();
        let off = self.engine.interrupts_off();
        hardware.note(|| "offline".to_owned());
        drop(self.engine.offline());
        hardware.core().gone.set(true);
        (0..steps).for_each(|_| hardware.yield_here());
        hardware.core().gone.set(false);
        // An interrupt that was sent before is not delivered to a CPU that starts anew.
        hardware.core().interrupt.take();
        hardware.note(|| "online".to_owned());
        self.engine.online();
        drop(off);
    }

    /// This CPU's program runs undisturbed for some steps, and enters the kernel again.
    pub(crate) fn isolate(&self, steps: u32) {
        let off = self.engine.interrupts_off();
        self.hardware().core().isolated.set(true);
        self.hardware().note(|| "enters its program".to_owned());
        self.engine.enter_user();
        (0..steps).for_each(|_| self.hardware().yield_here());
        self.engine.enter_kernel();
        self.hardware().core().isolated.set(false);
        self.hardware().note(|| "enters the kernel".to_owned());
        drop(off);
    }

    /// The device walks the tables of a space from here on.
    pub(crate) fn attach_device(&self, space: &Space) {
        space.coherence.attach_device();
        self.hardware().start_device((space.root, self.hardware().allocation(space.root)));
    }

    /// The device stops.
    pub(crate) fn detach_device(&self, space: &Space) {
        self.hardware().stop_device();
        space.coherence.detach_device();
    }

    /// The device stores to a page of its space.
    pub(crate) fn device_store(&self, page: u64) -> Option<u32> {
        self.hardware().device_access(false, page, true)
    }

    /// The device loads from a page of the kernel's ranges.
    pub(crate) fn device_load_kernel(&self, page: u64) -> Option<u32> {
        self.hardware().device_access(true, page, false)
    }

    /// Tells the other CPUs that a stage of the scenario is done.
    pub(crate) fn raise(&self, flag: usize) {
        self.flags[flag].store(1, Ordering::Release);
    }

    /// Whether a stage of the scenario is done.
    pub(crate) fn is_raised(&self, flag: usize) -> bool {
        self.flags[flag].load(Ordering::Acquire) != 0
    }

    /// Waits for a stage of the scenario.
    pub(crate) fn wait_for(&self, flag: usize) {
        while !self.is_raised(flag) {
            self.hardware().take_interrupt();
            self.hardware().yield_here();
        }
    }

    /// This CPU begins to run a program of the space.
    pub(crate) fn run(&self, space: &Space) {
        self.hardware().note(|| format!("> switch to space {}", space.coherence.id().get()));
        drop(self.engine.switch_to(space));
        self.hardware().core().resting.set(false);
        self.hardware().note(|| format!("< switch to space {}", space.coherence.id().get()));
    }

    /// This CPU's program loads from a page. A CPU that rests runs no program.
    pub(crate) fn load(&self, page: u64) -> Option<u32> {
        self.use_page(page, false)
    }

    /// This CPU's program stores to a page.
    pub(crate) fn store(&self, page: u64) -> Option<u32> {
        self.use_page(page, true)
    }

    fn use_page(&self, page: u64, store: bool) -> Option<u32> {
        let runs = !self.hardware().core().resting.get();
        runs.then(|| self.hardware().access(false, page, store)).flatten()
    }

    /// The handler of an interrupt that cannot be masked reads page 1 of the program that runs here, if it may.
    pub(crate) fn read_if_allowed(&self) {
        let spaces = self.spaces.borrow().clone();
        if let Some(space) = spaces.iter().find(|space| self.engine.may_access(&space.coherence)) {
            let loaded = self.hardware().core().root.get().map(|(root, ..)| root);
            if loaded == Some(space.root) {
                self.hardware().access(false, 1, false);
            } else {
                let what = "a handler may access a space that is not loaded".to_owned();
                self.hardware().break_rule(Rule::R4, self.hardware().me(), what);
            }
        }
    }

    /// The kernel loads from a page of its ranges on this CPU.
    pub(crate) fn load_kernel(&self, page: u64) -> Option<u32> {
        self.hardware().access(true, page, false)
    }
}
