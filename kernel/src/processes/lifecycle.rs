//! The beginning and the end of processes and threads.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use ceasefire_kernel_abi::{Error, STACK_PAGES};
use ceasefire_memory::{Pages, SpaceHandle, PAGE_BYTES};

use super::image;
use crate::arch::{interrupts, this_cpu, Frame};
use crate::lock::IrqLock;
use crate::manager::{self, memory, Kernel};
use crate::report::result;
use crate::threads::process::Process;
use crate::threads::stack::Stack;
use crate::threads::thread::{next_number, Body, Thread, ANYWHERE};
use crate::threads::{current, schedule};

/// The first process. The run ends when it does.
static FIRST: AtomicU64 = AtomicU64::new(0);

/// The end of a process or thread.
#[derive(Default)]
struct Ending {
    has_ended: AtomicBool,
    code: AtomicU64,
    waiting: IrqLock<Vec<Arc<Thread>>>,
}

impl Ending {
    fn end(&self, code: u64) {
        self.code.store(code, Ordering::Relaxed);
        self.has_ended.store(true, Ordering::SeqCst);
        let waiting = core::mem::take(&mut *self.waiting.lock());
        waiting.iter().for_each(schedule::unpark);
    }

    fn wait(&self) {
        self.waiting.lock().push(current::shared());
        while !self.has_ended.load(Ordering::SeqCst) {
            schedule::park();
        }
    }
}

/// The ends that are still to come, or that no thread has waited for.
static ENDINGS: IrqLock<BTreeMap<u64, Arc<Ending>>> = IrqLock::new(BTreeMap::new());
static PROCESSES: IrqLock<BTreeMap<u64, Weak<Process>>> = IrqLock::new(BTreeMap::new());

/// A new number, with an end to wait for.
fn number_with_ending() -> u64 {
    let number = next_number();
    ENDINGS.lock().insert(number, Arc::default());
    number
}

/// Notes the end of a process or thread, and wakes its waiters.
fn end(number: u64, code: u64) {
    let ending = ENDINGS.lock().get(&number).cloned();
    if let Some(ending) = ending {
        ending.end(code);
    }
}

/// A new process.
fn new_process(space: SpaceHandle<Kernel>, recovery: (u64, u64, u64)) -> Arc<Process> {
    let number = number_with_ending();
    let process = Arc::new(Process::new(number, space, recovery));
    PROCESSES.lock().insert(number, Arc::downgrade(&process));
    process
}

/// Starts a thread of a process.
fn add_thread(process: &Arc<Process>, number: u64, place: usize, stack: Stack, frame: &Frame) {
    process.threads.fetch_add(1, Ordering::Relaxed);
    let body = Body::Program(Box::new(*frame));
    schedule::start(&schedule::new_thread(number, Some(process.clone()), place, stack, body));
}

/// Starts the first process at the entry of the image.
pub(crate) fn start_first() -> Result<(), Error> {
    // It may end before this returns, but not before its number is stored: it may run on this CPU alone, which runs no
    // other thread yet.
    let number = spawn(None, 0, this_cpu::number())?;
    FIRST.store(number, Ordering::Relaxed);
    Ok(())
}

/// A new process of the image, whose thread starts at `entry` or else at the image's entry. Returns its number.
pub(crate) fn spawn(entry: Option<u64>, argument: u64, place: usize) -> Result<u64, Error> {
    let stack = Stack::take().ok_or(Error::TooMany)?;
    let space = memory().new_space().map_err(|_| Error::NoMemory)?;
    let process = new_process(space, (0, 0, 0));
    let mapped = image::map(&process.space).and_then(|start| {
        let bottom =
            memory().map_anonymous(&process.space, Pages::new(STACK_PAGES)).map_err(|_| Error::NoMemory)?;
        Ok((start, bottom + STACK_PAGES * PAGE_BYTES))
    });
    match mapped {
        Ok((start, end)) => {
            add_thread(
                &process,
                next_number(),
                place,
                stack,
                &Frame::of_program(entry.unwrap_or(start), argument, end),
            );
            Ok(process.number)
        }
        Err(error) => {
            PROCESSES.lock().remove(&process.number);
            memory().exit(process.space.clone());
            // `exit` has also taken this CPU out of the caller's space.
            interrupts::without(|| manager::run(current::thread().space()));
            ENDINGS.lock().remove(&process.number);
            Err(error)
        }
    }
}

/// The process of the running thread.
///
/// # Errors
/// [`Error::Invalid`] in a kernel thread.
pub(crate) fn current() -> Result<&'static Arc<Process>, Error> {
    current::thread().process.as_ref().ok_or(Error::Invalid)
}

/// A process by its number; 0 is the caller's.
pub(crate) fn find(number: u64) -> Result<Arc<Process>, Error> {
    if number == 0 {
        return current().cloned();
    }
    PROCESSES.lock().get(&number).and_then(Weak::upgrade).ok_or(Error::Invalid)
}

/// A new thread of the running process. Returns its number.
pub(crate) fn start_thread(entry: u64, argument: u64, place: usize, stack_end: u64) -> Result<u64, Error> {
    let stack = Stack::take().ok_or(Error::TooMany)?;
    let process = current()?;
    let number = number_with_ending();
    add_thread(process, number, place, stack, &Frame::of_program(entry, argument, stack_end));
    Ok(number)
}

/// A copy of the running process with this thread alone, which continues as `frame` says. Returns its number.
pub(crate) fn fork(frame: &Frame) -> Result<u64, Error> {
    let stack = Stack::take().ok_or(Error::TooMany)?;
    let parent = current()?;
    let space = memory().fork(&parent.space).map_err(|_| Error::NoMemory)?;
    let recovery = parent.recoveries();
    let child = new_process(space, recovery);
    let mut frame = *frame;
    frame.set_result(0);
    add_thread(&child, next_number(), ANYWHERE, stack, &frame);
    Ok(child.number)
}

/// Ends the running thread, and its process if this is the last thread.
pub(crate) fn exit(code: u64) -> ! {
    let me = current::thread();
    if let Some(process) = &me.process {
        let _ = process.code.compare_exchange(0, code, Ordering::Relaxed, Ordering::Relaxed);
        // From here on this CPU may keep the space loaded but runs no program in it. The last thread takes the space
        // apart while other threads may still be here.
        me.leave_space();
        interrupts::without(|| manager::run(None));
        if process.threads.fetch_sub(1, Ordering::AcqRel) == 1 {
            PROCESSES.lock().remove(&process.number);
            memory().exit(process.space.clone());
            if process.number == FIRST.load(Ordering::Relaxed) {
                result::finish(process.code.load(Ordering::Relaxed));
            }
            end(process.number, process.code.load(Ordering::Relaxed));
        }
    }
    end(me.number, code);
    schedule::end()
}

/// Waits for the end of a process or thread, once. Returns its code.
pub(crate) fn wait_for(number: u64) -> Result<u64, Error> {
    let ending = ENDINGS.lock().get(&number).cloned().ok_or(Error::Invalid)?;
    ending.wait();
    ENDINGS.lock().remove(&number);
    Ok(ending.code.load(Ordering::Relaxed))
}
