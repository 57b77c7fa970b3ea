//! The thread that a CPU runs.

use alloc::sync::Arc;
use core::sync::atomic::Ordering;

use crate::arch::this_cpu;
use crate::threads::cpu::PerCpu;
use crate::threads::thread::Thread;

/// The thread that executes this.
pub(crate) fn thread() -> &'static Thread {
    thread_of(this_cpu::get())
}

/// The thread that a CPU runs. Of another CPU only when that is stopped.
pub(crate) fn thread_of(cpu: &PerCpu) -> &'static Thread {
    // SAFETY: never null once the CPU has started; a running thread is owned by its CPU, and its reference is given up only
    // after another has taken its place.
    unsafe { &*cpu.current.load(Ordering::Relaxed) }
}

/// A reference of one's own to the thread that executes this.
///
/// # Panics
/// On a CPU's first thread, which never waits for anything.
pub(crate) fn shared() -> Arc<Thread> {
    let thread = thread();
    assert!(thread.has_stack(), "the idle thread has nothing to wait for");
    // SAFETY: threads with a stack of their own are made by `schedule::new_thread`, in an `Arc` whose reference the CPU holds.
    unsafe {
        Arc::increment_strong_count(thread);
        Arc::from_raw(thread)
    }
}
