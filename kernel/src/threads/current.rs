//! The thread that a CPU runs.

use alloc::sync::Arc;
use core::sync::atomic::Ordering;

use crate::threads::cpu;
use crate::threads::thread::Thread;

/// The running thread.
pub(crate) fn thread() -> &'static Thread {
    // SAFETY: never null once the CPU has started. The CPU owns its running thread, and gives up the reference only
    // after another thread has taken its place.
    unsafe { &*cpu::here().current.load(Ordering::Relaxed) }
}

/// A new reference to the running thread.
///
/// # Panics
/// On an idle thread, which never waits.
pub(crate) fn shared() -> Arc<Thread> {
    let thread = thread();
    assert!(thread.has_stack(), "the idle thread has nothing to wait for");
    // SAFETY: `schedule::new_thread` makes all threads with a stack of their own, in an `Arc` whose reference the CPU
    // holds.
    unsafe {
        Arc::increment_strong_count(thread);
        Arc::from_raw(thread)
    }
}
