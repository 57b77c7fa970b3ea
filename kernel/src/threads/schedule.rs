//! Which thread runs where.
//!
//! Round robin on each CPU, a tick each; an idle CPU takes a thread that waits elsewhere. In the kernel a thread keeps its CPU
//! until it sleeps, ends, or says that it can give way: nothing else moves it. Who waits for something sleeps in [`park`]
//! until [`unpark`], which counts too if it comes first; so a waiter first says where it can be found, then looks whether it
//! has to wait, then parks.

use alloc::collections::btree_map::{BTreeMap, OccupiedEntry};
use alloc::sync::Arc;
use core::sync::atomic::{AtomicU64, Ordering};

use crate::arch::{clock, interrupts, stack, this_cpu};
use crate::lock::IrqLock;
use crate::memory::kernel;
use crate::report::event::{self, What};
use crate::threads::cpu::{self, count, PerCpu};
use crate::threads::current;
use crate::threads::process::Process;
use crate::threads::stack::Stack;
use crate::threads::thread::{Body, Leave, Thread, ANYWHERE, NOTIFIED, PARKED, PARKING, RUNNING};

/// A thread that will run `body` on `stack`, once it is started.
pub(crate) fn new_thread(
    number: u64,
    process: Option<Arc<Process>>,
    place: usize,
    stack: Stack,
    body: Body,
) -> Arc<Thread> {
    Arc::new(Thread::new(number, process, place, stack, body, begin))
}

/// Where every thread begins, on its own stack.
extern "C" fn begin() -> ! {
    arrived();
    interrupts::on();
    match current::thread().body.take() {
        Some(Body::Kernel(body)) => body(),
        Some(Body::Program(frame)) => {
            // Off the heap: nothing comes back here.
            let frame = *frame;
            interrupts::off();
            stack::leave_to(&frame);
        }
        None => {}
    }
    end()
}

/// Lets a new thread run.
pub(crate) fn start(thread: &Arc<Thread>) {
    unpark(thread);
}

/// Sleeps until somebody calls [`unpark`], or returns at once if that has happened since the last time.
pub(crate) fn park() {
    let me = current::thread();
    if me.state.compare_exchange(NOTIFIED, RUNNING, Ordering::AcqRel, Ordering::Acquire).is_ok() {
        return;
    }
    leave(Leave::Park);
}

/// Ends the sleep of a thread, or its next one before it begins.
pub(crate) fn unpark(thread: &Arc<Thread>) {
    // Written even if it says so already: whoever takes the notice has to see what was done before this one, too.
    let next = |state| Some(if state == PARKED { RUNNING } else { NOTIFIED });
    if thread.state.fetch_update(Ordering::AcqRel, Ordering::Acquire, next) == Ok(PARKED) {
        enqueue(thread.clone());
    }
}

/// Lets others run, if any wait and this thread can leave its CPU.
pub(crate) fn give_way() {
    let here = this_cpu::get();
    here.turn_over.store(false, Ordering::Relaxed);
    if here.waiting.load(Ordering::Relaxed) > 0 && current::thread().may_leave() {
        leave(Leave::Requeue);
    }
}

/// The running thread may run on that CPU alone from now on, or [`ANYWHERE`].
pub(crate) fn move_to(place: usize) {
    let me = current::thread();
    me.place.store(place, Ordering::Relaxed);
    if place != ANYWHERE && place != this_cpu::get().number() {
        leave(Leave::Requeue);
    }
}

/// Ends the running thread.
pub(crate) fn end() -> ! {
    leave(Leave::End);
    unreachable!("a thread that has ended runs no more")
}

/// What a CPU does when it has nothing to do.
pub(crate) fn idle() -> ! {
    loop {
        interrupts::off();
        let here = this_cpu::get();
        // Whoever adds a thread after this sees it and wakes this CPU; who did before is seen below.
        here.halted.store(true, Ordering::SeqCst);
        if here.waiting.load(Ordering::SeqCst) > 0 || steal(here) {
            here.halted.store(false, Ordering::Relaxed);
            leave(Leave::Idle);
            continue;
        }
        interrupts::wait();
    }
}

/// Puts a thread where it will run.
fn enqueue(thread: Arc<Thread>) {
    let cpus = cpu::all();
    let halted = |number: usize| cpus[number].halted.load(Ordering::Relaxed);
    let place = thread.place.load(Ordering::Relaxed);
    let last = thread.last.load(Ordering::Relaxed);
    let number = if place != ANYWHERE {
        place
    } else if halted(last) {
        last
    } else {
        (0..cpus.len()).find(|&number| halted(number)).unwrap_or(last)
    };
    put(&cpus[number], thread);
}

fn put(cpu: &PerCpu, thread: Arc<Thread>) {
    {
        let mut queue = cpu.queue.lock();
        queue.push_back(thread);
        cpu.waiting.store(queue.len(), Ordering::SeqCst);
    }
    if cpu.halted.swap(false, Ordering::SeqCst) && !core::ptr::eq(cpu, this_cpu::get()) {
        interrupts::send_wake(cpu.number());
    }
}

fn take(cpu: &PerCpu) -> Option<Arc<Thread>> {
    let mut queue = cpu.queue.lock();
    let thread = queue.pop_front();
    cpu.waiting.store(queue.len(), Ordering::SeqCst);
    thread
}

/// Takes a thread that may run anywhere from a CPU where it waits.
fn steal(here: &PerCpu) -> bool {
    let others = cpu::all().iter().filter(|cpu| cpu.waiting.load(Ordering::Relaxed) > 0);
    for other in others {
        let stolen = {
            let mut queue = other.queue.lock();
            let found = queue.iter().position(|thread| thread.place.load(Ordering::Relaxed) == ANYWHERE);
            let stolen = found.and_then(|index| queue.remove(index));
            other.waiting.store(queue.len(), Ordering::SeqCst);
            stolen
        };
        if let Some(thread) = stolen {
            put(here, thread);
            return true;
        }
    }
    false
}

/// Leaves the CPU to another thread; back when this one has its next turn.
fn leave(how: Leave) {
    let were_on = interrupts::are_on();
    interrupts::off();
    let here = this_cpu::get();
    let me = current::thread();
    debug_assert!(how == Leave::Idle || me.may_leave(), "{me} leaves its CPU while something keeps it there");
    if how == Leave::Park
        && me.state.compare_exchange(RUNNING, PARKING, Ordering::AcqRel, Ordering::Acquire).is_err()
    {
        // Notified in between. Exchanged, not stored: a second notice may come at the same time.
        me.state.swap(RUNNING, Ordering::AcqRel);
    } else {
        let next = take(here).map_or(&raw const here.idle, Arc::into_raw);
        if !core::ptr::eq(next, me) {
            count(&here.switches);
            here.current.store(next.cast_mut(), Ordering::Relaxed);
            here.left.set(Some((me, how)));
            // SAFETY: it was taken from the queue, or is this CPU's own.
            let next = unsafe { &*next };
            event::record(What::Thread, next.number, 0);
            kernel::run(next.space());
            // SAFETY: interrupts are off. Nobody runs on the next thread's stack: it was in a queue, into which only `arrived`
            // and `start` put threads, when they are off their stacks; or it is this CPU's own.
            unsafe { stack::switch(me.saved.get(), *next.saved.get(), next.stack_end()) };
            arrived();
        }
    }
    if were_on {
        interrupts::on();
    }
}

/// The first thing on a stack that was switched to: now nobody runs on the other any more.
pub(crate) fn arrived() {
    let here = this_cpu::get();
    current::thread().last.store(here.number(), Ordering::Relaxed);
    let Some((left, how)) = here.left.take() else { return };
    if how == Leave::Idle {
        return;
    }
    // SAFETY: a thread that is not a CPU's own came out of a queue, and its reference went to the CPU; it comes back here.
    let left = unsafe { Arc::from_raw(left) };
    match how {
        Leave::Requeue => enqueue_again(left),
        Leave::Park => {
            if left.state.compare_exchange(PARKING, PARKED, Ordering::AcqRel, Ordering::Acquire).is_err() {
                left.state.swap(RUNNING, Ordering::AcqRel);
                enqueue(left);
            }
        }
        // Its stack goes with the last reference.
        Leave::End | Leave::Idle => drop(left),
    }
}

/// A thread that gave way waits where it ran, unless it may not.
fn enqueue_again(thread: Arc<Thread>) {
    let place = thread.place.load(Ordering::Relaxed);
    let number = if place == ANYWHERE { thread.last.load(Ordering::Relaxed) } else { place };
    put(cpu::get(number), thread);
}

/// Threads that sleep until a time, by it and their number.
static SLEEPERS: IrqLock<BTreeMap<(u64, u64), Arc<Thread>>> = IrqLock::new(BTreeMap::new());
/// When the first of them is to be woken.
static NEXT: AtomicU64 = AtomicU64::new(u64::MAX);

/// Sleeps until a time, at the grain of ticks.
pub(crate) fn sleep_until(time: u64) {
    let me = current::shared();
    let key = (time, me.number);
    {
        let mut sleepers = SLEEPERS.lock();
        sleepers.insert(key, me);
        NEXT.fetch_min(time, Ordering::Relaxed);
    }
    while clock::now() < time {
        park();
    }
    SLEEPERS.lock().remove(&key);
}

/// Wakes those whose time has come.
pub(crate) fn wake_sleepers() {
    let now = clock::now();
    while NEXT.load(Ordering::Relaxed) <= now {
        let due = {
            let mut sleepers = SLEEPERS.lock();
            let due = sleepers.first_entry().filter(|entry| entry.key().0 <= now).map(OccupiedEntry::remove);
            NEXT.store(sleepers.first_key_value().map_or(u64::MAX, |(key, _)| key.0), Ordering::Relaxed);
            due
        };
        if let Some(thread) = due {
            unpark(&thread);
        }
    }
}

/// A tick: who has run since the last one gives way, if others wait.
pub(crate) fn tick(here: &PerCpu) {
    if here.waiting.load(Ordering::Relaxed) > 0 {
        here.turn_over.store(true, Ordering::Relaxed);
    }
}
