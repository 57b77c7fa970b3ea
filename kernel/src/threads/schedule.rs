//! The scheduler: which thread runs where.
//!
//! Each CPU runs its threads round robin, a tick each. An idle CPU takes a thread that waits for another CPU. In the
//! kernel a thread keeps its CPU until it sleeps, ends, or gives way; nothing else moves it.
//!
//! An offline CPU has no queue. Its threads are in the queues of others, also those that are tied to it, until it is
//! back.
//!
//! A waiting thread sleeps in [`park`] until [`unpark`]. An `unpark` that comes first counts too. A waiter therefore
//! first makes itself known, then checks whether it must wait, and then parks.

use alloc::collections::btree_map::{BTreeMap, OccupiedEntry};
use alloc::collections::VecDeque;
use alloc::sync::Arc;
use core::sync::atomic::{AtomicU64, Ordering};

use crate::arch::{clock, interrupts, stack, this_cpu};
use crate::failure::cpu_state;
use crate::failure::event::{self, What};
use crate::lock::IrqLock;
use crate::manager;
use crate::threads::cpu::{self, count, PerCpu};
use crate::threads::current;
use crate::threads::process::Process;
use crate::threads::stack::Stack;
use crate::threads::thread::{Body, Leave, Thread, ANYWHERE, NOTIFIED, PARKED, PARKING, RUNNING};

/// A new thread that will run `body` on `stack` once it is started.
pub(crate) fn new_thread(
    number: u64,
    process: Option<Arc<Process>>,
    place: usize,
    stack: Stack,
    body: Body,
) -> Arc<Thread> {
    Arc::new(Thread::new(number, process, place, stack, body, begin))
}

/// Every thread begins here, on its own stack.
extern "C" fn begin() -> ! {
    arrived();
    interrupts::on();
    match current::thread().body.take() {
        Some(Body::Kernel(body)) => body(),
        Some(Body::Program(frame)) => {
            // Moved off the heap: control never returns here.
            let frame = *frame;
            interrupts::off();
            manager::leave();
            stack::leave_to(&frame, current::thread().stack_end());
        }
        None => {}
    }
    end()
}

/// Lets a new thread run.
pub(crate) fn start(thread: &Arc<Thread>) {
    unpark(thread);
}

/// Sleeps until [`unpark`], or returns at once if `unpark` was called since the last sleep.
pub(crate) fn park() {
    let me = current::thread();
    if me.state.compare_exchange(NOTIFIED, RUNNING, Ordering::AcqRel, Ordering::Acquire).is_ok() {
        return;
    }
    leave(Leave::Park);
}

/// Ends the sleep of a thread, or keeps its next sleep from beginning.
pub(crate) fn unpark(thread: &Arc<Thread>) {
    // The store is needed even if the state is NOTIFIED already: the thread that takes the notice must also see
    // the earlier stores of this one.
    let next = |state| Some(if state == PARKED { RUNNING } else { NOTIFIED });
    if thread.state.fetch_update(Ordering::AcqRel, Ordering::Acquire, next) == Ok(PARKED) {
        enqueue(thread.clone());
    }
}

/// Lets another thread run, if one waits and this thread may leave its CPU.
pub(crate) fn give_way() {
    let here = cpu::here();
    here.turn_over.store(false, Ordering::Relaxed);
    let wanted = here.waiting.load(Ordering::Relaxed) > 0 || here.presence.is_leaving();
    if wanted && current::thread().may_leave() {
        leave(Leave::Requeue);
    }
}

/// Ties the running thread to a CPU, or to none with [`ANYWHERE`].
pub(crate) fn move_to(place: usize) {
    let me = current::thread();
    me.place.store(place, Ordering::Relaxed);
    if place != ANYWHERE && place != this_cpu::number() {
        leave(Leave::Requeue);
    }
}

/// Ends the running thread.
pub(crate) fn end() -> ! {
    leave(Leave::End);
    unreachable!("a thread that has ended runs again")
}

/// Runs a thread that waits for this CPU, or that waits for another CPU and may run here. Returns whether there was
/// one; if not, this CPU is marked as halted. Only the idle thread calls it, with interrupts off.
pub(super) fn run_waiting(here: &PerCpu) -> bool {
    // A thread that is added after this store finds it set, and this CPU is woken. One that was added before is found
    // below.
    here.halted.store(true, Ordering::SeqCst);
    if here.waiting.load(Ordering::SeqCst) == 0 && !steal(here) {
        return false;
    }
    here.halted.store(false, Ordering::Relaxed);
    leave(Leave::Idle);
    true
}

/// Puts a thread into the queue of the CPU where it will run.
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

/// Puts a thread into the queue of a CPU, or of another one if that CPU is offline.
fn put(cpu: &PerCpu, thread: Arc<Thread>) {
    let Err(thread) = put_there(cpu, thread) else { return };
    let load = |cpu: &&PerCpu| (!cpu.halted.load(Ordering::Relaxed), cpu.waiting.load(Ordering::Relaxed));
    let others = cpu::all().iter().filter(|cpu| cpu.presence.is_here());
    let idlest = others.min_by_key(load).unwrap_or(cpu::get(0));
    let Err(thread) = put_there(idlest, thread) else { return };
    // That one has gone meanwhile, and the first never goes.
    let _ = put_there(cpu::get(0), thread);
}

/// Puts a thread into the queue of a CPU. Gives it back if the CPU is offline.
fn put_there(cpu: &PerCpu, thread: Arc<Thread>) -> Result<(), Arc<Thread>> {
    {
        let mut queue = cpu.queue.lock();
        let Some(queue) = queue.as_mut() else { return Err(thread) };
        queue.push_back(thread);
        cpu.waiting.store(queue.len(), Ordering::SeqCst);
    }
    if cpu.halted.swap(false, Ordering::SeqCst) && !core::ptr::eq(cpu, cpu::here()) {
        interrupts::send_wake(cpu.number());
    }
    Ok(())
}

/// Takes the queue from a CPU that goes offline, and puts its threads elsewhere.
pub(super) fn close(cpu: &PerCpu) {
    let queue = cpu.queue.lock().take();
    cpu.waiting.store(0, Ordering::SeqCst);
    queue.into_iter().flatten().for_each(|thread| put(cpu, thread));
}

/// Gives a CPU that has come back a queue.
pub(super) fn open(cpu: &PerCpu) {
    *cpu.queue.lock() = Some(VecDeque::new());
}

/// The next thread that waits for this CPU; none if the CPU is asked to go.
fn take(cpu: &PerCpu) -> Option<Arc<Thread>> {
    if cpu.presence.is_leaving() {
        return None;
    }
    let mut queue = cpu.queue.lock();
    let queue = queue.as_mut()?;
    let thread = queue.pop_front();
    cpu.waiting.store(queue.len(), Ordering::SeqCst);
    thread
}

/// Takes a thread that may run here from another CPU's queue: one that may run anywhere, or is tied to this CPU or to
/// one that is offline.
fn steal(here: &PerCpu) -> bool {
    let others = cpu::all().iter().filter(|cpu| cpu.waiting.load(Ordering::Relaxed) > 0);
    for other in others {
        let stolen = {
            let may_run = |thread: &Arc<Thread>| {
                let place = thread.place.load(Ordering::Relaxed);
                place == ANYWHERE || place == here.number() || !cpu::get(place).presence.is_here()
            };
            let mut queue = other.queue.lock();
            let Some(queue) = queue.as_mut() else { continue };
            let found = queue.iter().position(may_run);
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

/// Leaves the CPU to another thread. Returns when this thread has its next turn.
fn leave(how: Leave) {
    let were_on = interrupts::are_on();
    interrupts::off();
    let here = cpu::here();
    let me = current::thread();
    debug_assert!(how == Leave::Idle || me.may_leave(), "{me} leaves its CPU while it is pinned");
    if how == Leave::Park
        && me.state.compare_exchange(RUNNING, PARKING, Ordering::AcqRel, Ordering::Acquire).is_err()
    {
        // Notified in between. An exchange, not a store, because a second notice may come at the same time.
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
            cpu_state::set_thread(next.name());
            manager::run(next.space());
            this_cpu::set_thread(next.number);
            // SAFETY: interrupts are off. No CPU runs on the next thread's stack. Either the thread was in a queue,
            // where only `arrived` and `start` put threads, when they are off their stacks; or it is this CPU's own.
            unsafe { stack::switch(me.saved.get(), *next.saved.get(), next.stack_end()) };
            arrived();
        }
    }
    if were_on {
        interrupts::on();
    }
}

/// Runs first on a stack that was switched to: from now on no CPU uses the stack that was left.
pub(crate) fn arrived() {
    let here = cpu::here();
    current::thread().last.store(here.number(), Ordering::Relaxed);
    let Some((left, how)) = here.left.take() else { return };
    if how == Leave::Idle {
        return;
    }
    // SAFETY: a thread other than a CPU's own came out of a queue, and its reference went to the CPU. Here it comes
    // back.
    let left = unsafe { Arc::from_raw(left) };
    match how {
        Leave::Requeue => enqueue_again(left),
        Leave::Park => {
            if left.state.compare_exchange(PARKING, PARKED, Ordering::AcqRel, Ordering::Acquire).is_err() {
                left.state.swap(RUNNING, Ordering::AcqRel);
                enqueue(left);
            }
        }
        // The last reference frees the stack.
        Leave::End | Leave::Idle => drop(left),
    }
}

/// Puts a thread that gave way into the queue of the CPU where it ran, unless it is tied to another.
fn enqueue_again(thread: Arc<Thread>) {
    let place = thread.place.load(Ordering::Relaxed);
    let number = if place == ANYWHERE { thread.last.load(Ordering::Relaxed) } else { place };
    put(cpu::get(number), thread);
}

/// Threads that sleep until a time, by that time and their number.
static SLEEPERS: IrqLock<BTreeMap<(u64, u64), Arc<Thread>>> = IrqLock::new(BTreeMap::new());
/// When the first of them is due.
static NEXT: AtomicU64 = AtomicU64::new(u64::MAX);

/// Sleeps until a time, rounded up to a tick.
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

/// Wakes the sleepers that are due.
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

/// Handles a tick: the running thread gives way if other threads wait, or if the CPU is asked to go.
pub(crate) fn tick(here: &PerCpu) {
    if here.waiting.load(Ordering::Relaxed) > 0 || here.presence.is_leaving() {
        here.turn_over.store(true, Ordering::Relaxed);
    }
}
