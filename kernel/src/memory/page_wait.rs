//! Waiting for pages: a thread sleeps until another thread is done with the page.

use alloc::sync::Arc;
use alloc::vec::Vec;

use ceasefire_memory::FrameNumber;

use crate::lock::IrqLock;
use crate::threads::current;
use crate::threads::schedule;
use crate::threads::thread::Thread;

/// The number of lists. A frame's number selects one.
const LISTS: usize = 64;

/// The threads that wait, each with its frame.
type List = IrqLock<Vec<(FrameNumber, Arc<Thread>)>>;

static WAITING: [List; LISTS] = [const { IrqLock::new(Vec::new()) }; LISTS];

fn list(frame: FrameNumber) -> &'static List {
    &WAITING[frame.index() % LISTS]
}

/// Sleeps until `busy` returns false.
pub(crate) fn for_page(frame: FrameNumber, busy: &dyn Fn() -> bool) {
    let me = current::shared();
    loop {
        // The thread is listed before it looks, so that a thread that finishes with the page afterwards wakes it.
        list(frame).lock().push((frame, me.clone()));
        if !busy() {
            list(frame).lock().retain(|(_, thread)| !Arc::ptr_eq(thread, &me));
            return;
        }
        me.waits_for.store(u64::from(frame.get()), core::sync::atomic::Ordering::Relaxed);
        schedule::park();
        me.waits_for.store(0, core::sync::atomic::Ordering::Relaxed);
        list(frame).lock().retain(|(_, thread)| !Arc::ptr_eq(thread, &me));
    }
}

/// Wakes the threads that wait for `frame`.
pub(crate) fn page_ready(frame: FrameNumber) {
    loop {
        let next = {
            let mut list = list(frame).lock();
            let found = list.iter().position(|(waits_for, _)| *waits_for == frame);
            found.map(|index| list.swap_remove(index).1)
        };
        match next {
            Some(thread) => schedule::unpark(&thread),
            None => return,
        }
    }
}
