//! Moments at which a test lets another CPU in, or does something that only now goes wrong.

use std::sync::atomic::Ordering;

use ceasefire_memory::Work;

use super::Threads;

/// A moment at which another CPU can be let in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Moment {
    /// Pages were written out; reclaim has cleared translations and may not have flushed them.
    WriteOut,
    /// Pages are about to be read in.
    ReadIn,
    /// A place where others may run.
    Reschedule,
    /// The pages of a file or of the swap device were unlocked.
    Unlock,
    /// A page is about to be copied.
    Copy,
    /// A page that is held is read.
    Load,
    /// A CPU begins to wait for a page.
    Wait,
    /// Work was done.
    Work(Work),
}

/// What to do at a moment, and how often it has to come first.
pub(super) struct Hook {
    pub(super) moment: Moment,
    pub(super) after: u32,
    pub(super) act: Box<dyn FnOnce() + Send>,
}

impl Threads {
    /// Does `act` when `moment` comes next.
    pub(crate) fn at(&self, moment: Moment, act: impl FnOnce() + Send + 'static) {
        self.after(0, moment, act);
    }

    /// Does `act` when `moment` comes for the time after the next `times`.
    pub(crate) fn after(&self, times: u32, moment: Moment, act: impl FnOnce() + Send + 'static) {
        self.hooks.lock().unwrap().push(Hook { moment, after: times, act: Box::new(act) });
        self.hooked.fetch_add(1, Ordering::SeqCst);
    }

    /// Forgets what was to be done at moments that did not come.
    pub(crate) fn forget_hooks(&self) {
        let hooks = std::mem::take(&mut *self.hooks.lock().unwrap());
        self.hooked.fetch_sub(hooks.len(), Ordering::SeqCst);
    }

    /// Whether all that was to be done at some moment is done.
    pub(crate) fn all_done(&self) -> bool {
        self.hooked.load(Ordering::SeqCst) == 0
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
