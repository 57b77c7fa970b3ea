//! Moments at which a test lets another CPU act, or takes a step that is wrong only at that time.

use std::sync::atomic::Ordering;

use ceasefire_memory::Work;

use super::Threads;

/// A moment at which another CPU can act.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Moment {
    /// Pages were written out; reclaim has cleared translations and may not have flushed them.
    WriteOut,
    /// Pages are about to be read in.
    ReadIn,
    /// A point at which other tasks may run.
    Reschedule,
    /// The lock of an area that was found open is about to be taken.
    ShareArea,
    /// An area was closed, and the tasks that use it are about to be waited for.
    CloseArea,
    /// The lock of a table is about to be taken.
    LockTable,
    /// The pages of a file or of the swap device were unlocked.
    Unlock,
    /// The mappers of a file were unlocked.
    UnlockMappers,
    /// A page is about to be copied.
    Copy,
    /// A page that is held is read.
    Load,
    /// A CPU begins to wait for a page.
    Wait,
    /// Work is done.
    Work(Work),
}

/// An act for a moment, and how many occurrences to skip.
pub(super) struct Hook {
    pub(super) moment: Moment,
    pub(super) after: u32,
    pub(super) act: Box<dyn FnOnce() + Send>,
}

impl Threads {
    /// Performs `act` at the next occurrence of `moment`.
    pub(crate) fn at(&self, moment: Moment, act: impl FnOnce() + Send + 'static) {
        self.after(0, moment, act);
    }

    /// Performs `act` at the occurrence of `moment` after the next `times`.
    pub(crate) fn after(&self, times: u32, moment: Moment, act: impl FnOnce() + Send + 'static) {
        self.hooks.lock().unwrap().push(Hook { moment, after: times, act: Box::new(act) });
        self.hooked.fetch_add(1, Ordering::SeqCst);
    }

    /// Forgets the acts whose moments did not come.
    pub(crate) fn forget_hooks(&self) {
        let hooks = std::mem::take(&mut *self.hooks.lock().unwrap());
        self.hooked.fetch_sub(hooks.len(), Ordering::SeqCst);
    }

    /// Whether every act was performed.
    pub(crate) fn all_done(&self) -> bool {
        self.waiting_acts() == 0
    }

    /// The acts that were not performed yet.
    pub(crate) fn waiting_acts(&self) -> usize {
        self.hooked.load(Ordering::SeqCst)
    }

    pub(super) fn reach(&self, moment: Moment) {
        if self.hooked.load(Ordering::Relaxed) == 0 {
            return;
        }
        let hook = {
            let mut hooks = self.hooks.lock().unwrap();
            let Some(index) = hooks.iter().position(|hook| hook.moment == moment) else { return };
            if hooks[index].after > 0 {
                hooks[index].after -= 1;
                return;
            }
            hooks.remove(index)
        };
        (hook.act)();
        self.hooked.fetch_sub(1, Ordering::SeqCst);
    }
}
