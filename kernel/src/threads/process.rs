//! Processes, their threads, and who waits for their end.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use core::fmt;
use core::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use ceasefire_kernel_abi::{Error, STACK_PAGES};
use ceasefire_memory::{NodeId, SpaceHandle, PAGE_BYTES};

use crate::arch::{interrupts, this_cpu, Frame};
use crate::lock::IrqLock;
use crate::memory::platform::{self, memory, Kernel};
use crate::report::result;
use crate::start::layout::Stack;
use crate::threads::thread::{self, Body, Thread, ANYWHERE};
use crate::threads::{image, schedule};

/// The first process, whose end is the run's.
static FIRST: AtomicU64 = AtomicU64::new(0);

/// A program's address space, and the threads that run in it.
pub(crate) struct Process {
    pub(crate) number: u64,
    pub(crate) space: SpaceHandle<Kernel>,
    threads: AtomicUsize,
    ending: Arc<Ending>,
    /// Accesses by instructions from the first up to the second go on at the third, if they cannot succeed.
    recovery: IrqLock<(u64, u64, u64)>,
}

impl fmt::Debug for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "process {}", self.number)
    }
}

/// The end of a process or thread.
#[derive(Default)]
struct Ending {
    has_ended: AtomicBool,
    code: AtomicU64,
    waiting: IrqLock<Vec<Arc<Thread>>>,
}

impl Ending {
    fn end(&self) {
        self.has_ended.store(true, Ordering::SeqCst);
        let waiting = core::mem::take(&mut *self.waiting.lock());
        waiting.iter().for_each(schedule::unpark);
    }

    fn wait(&self) {
        self.waiting.lock().push(thread::current_shared());
        while !self.has_ended.load(Ordering::SeqCst) {
            schedule::park();
        }
    }
}

/// Numbers of processes and threads, which share them.
static NEXT: AtomicU64 = AtomicU64::new(1);
/// What has not ended, or was not waited for.
static ENDINGS: IrqLock<BTreeMap<u64, Arc<Ending>>> = IrqLock::new(BTreeMap::new());
static PROCESSES: IrqLock<BTreeMap<u64, Weak<Process>>> = IrqLock::new(BTreeMap::new());

fn number() -> u64 {
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// A number that can be waited for.
fn number_with_ending() -> (u64, Arc<Ending>) {
    let number = number();
    let ending = Arc::<Ending>::default();
    ENDINGS.lock().insert(number, ending.clone());
    (number, ending)
}

impl Process {
    fn new(space: SpaceHandle<Kernel>, recovery: (u64, u64, u64)) -> Arc<Self> {
        let (number, ending) = number_with_ending();
        let process = Arc::new(Self {
            number,
            space,
            threads: AtomicUsize::new(0),
            ending,
            recovery: IrqLock::new(recovery),
        });
        PROCESSES.lock().insert(number, Arc::downgrade(&process));
        process
    }

    /// Where an access at `instruction` goes on that cannot succeed.
    pub(crate) fn recovery(&self, instruction: u64) -> Option<u64> {
        let (start, end, to) = *self.recovery.lock();
        (start <= instruction && instruction < end).then_some(to)
    }

    /// Sets it.
    pub(crate) fn set_recovery(&self, start: u64, end: u64, to: u64) {
        *self.recovery.lock() = (start, end, to);
    }

    /// A thread of it.
    fn start(self: &Arc<Self>, number: u64, place: usize, stack: Stack, frame: &Frame) {
        self.threads.fetch_add(1, Ordering::Relaxed);
        let thread = Thread::new(number, Some(self.clone()), place, stack, Body::Program(Box::new(*frame)));
        schedule::start(&Arc::new(thread));
    }
}

/// Starts the first process, where the image is entered.
pub(crate) fn start_first() -> Result<(), Error> {
    // It may end before this returns, but not before its number is known: nobody runs on this CPU yet, and it may run nowhere
    // else.
    let number = spawn(None, 0, this_cpu::get().number())?;
    FIRST.store(number, Ordering::Relaxed);
    Ok(())
}

/// A new process of the image, whose thread starts at `entry`, or where the image says; its number.
pub(crate) fn spawn(entry: Option<u64>, argument: u64, place: usize) -> Result<u64, Error> {
    let stack = Stack::take().ok_or(Error::TooMany)?;
    let space = memory().new_space().map_err(|_| Error::NoMemory)?;
    let process = Process::new(space, (0, 0, 0));
    let mapped = image::map(&process.space).and_then(|start| {
        let bottom = memory().map_anonymous(&process.space, STACK_PAGES).map_err(|_| Error::NoMemory)?;
        Ok((start, bottom + STACK_PAGES * PAGE_BYTES))
    });
    match mapped {
        Ok((start, end)) => {
            process.start(number(), place, stack, &Frame::of_program(entry.unwrap_or(start), argument, end));
            Ok(process.number)
        }
        Err(error) => {
            PROCESSES.lock().remove(&process.number);
            memory().exit(process.space.clone());
            // That has taken this CPU out of the caller's space, too.
            interrupts::without(|| platform::run(thread::current().space()));
            ENDINGS.lock().remove(&process.number);
            Err(error)
        }
    }
}

/// The process of the running thread.
///
/// # Errors
/// [`Error::Invalid`] in a thread of the kernel's.
pub(crate) fn current() -> Result<&'static Arc<Process>, Error> {
    thread::current().process.as_ref().ok_or(Error::Invalid)
}

/// A process by its number, 0 for the caller's.
pub(crate) fn find(number: u64) -> Result<Arc<Process>, Error> {
    if number == 0 {
        return current().cloned();
    }
    PROCESSES.lock().get(&number).and_then(Weak::upgrade).ok_or(Error::Invalid)
}

/// A new thread of the running process.
pub(crate) fn start_thread(entry: u64, argument: u64, place: usize, stack_end: u64) -> Result<u64, Error> {
    let stack = Stack::take().ok_or(Error::TooMany)?;
    let process = current()?;
    let (number, _) = number_with_ending();
    process.start(number, place, stack, &Frame::of_program(entry, argument, stack_end));
    Ok(number)
}

/// A copy of the running process with this thread alone, which goes on as `frame` says; its number.
pub(crate) fn fork(frame: &Frame) -> Result<u64, Error> {
    let stack = Stack::take().ok_or(Error::TooMany)?;
    let parent = current()?;
    let space = memory().fork(&parent.space).map_err(|_| Error::NoMemory)?;
    let recovery = *parent.recovery.lock();
    let child = Process::new(space, recovery);
    let mut frame = *frame;
    frame.set_result(0);
    child.start(number(), ANYWHERE, stack, &frame);
    Ok(child.number)
}

/// Ends the running thread, and its process if it is the last.
pub(crate) fn exit(code: u64) -> ! {
    let me = thread::current();
    if let Some(process) = &me.process {
        let _ = process.ending.code.compare_exchange(0, code, Ordering::Relaxed, Ordering::Relaxed);
        // From here on the space is loaded lazily at most: whoever comes last takes it apart while others still run here.
        me.leave_space();
        interrupts::without(|| platform::run(None));
        if process.threads.fetch_sub(1, Ordering::AcqRel) == 1 {
            PROCESSES.lock().remove(&process.number);
            memory().exit(process.space.clone());
            if process.number == FIRST.load(Ordering::Relaxed) {
                result::finish(process.ending.code.load(Ordering::Relaxed));
            }
            process.ending.end();
        }
    }
    let ending = ENDINGS.lock().get(&me.number).cloned();
    if let Some(ending) = ending {
        ending.code.store(code, Ordering::Relaxed);
        ending.end();
    }
    schedule::end()
}

/// Waits for the end of a process or thread; its code. It can be waited for once.
pub(crate) fn wait_for(number: u64) -> Result<u64, Error> {
    let ending = ENDINGS.lock().get(&number).cloned().ok_or(Error::Invalid)?;
    ending.wait();
    ENDINGS.lock().remove(&number);
    Ok(ending.code.load(Ordering::Relaxed))
}

/// The kernel threads that reclaim in the background, by node.
static RECLAIMERS: IrqLock<Vec<Arc<Thread>>> = IrqLock::new(Vec::new());

/// Starts one for each node.
pub(crate) fn start_reclaimers(nodes: usize) {
    for _ in 0..nodes {
        let Some(stack) = Stack::take() else { return };
        let thread = Thread::new(number(), None, ANYWHERE, stack, Body::Kernel(reclaim));
        RECLAIMERS.lock().push(Arc::new(thread));
    }
}

/// Runs whenever it is woken.
fn reclaim() {
    loop {
        let me = thread::current().number;
        let node = RECLAIMERS.lock().iter().position(|thread| thread.number == me);
        if let Some(node) = node {
            memory().reclaim_node(NodeId(node as u16));
        }
        schedule::park();
    }
}

/// Wakes a node's.
pub(crate) fn wake_reclaimer(node: NodeId) {
    let reclaimer = RECLAIMERS.lock().get(node.index()).cloned();
    if let Some(thread) = reclaimer {
        schedule::unpark(&thread);
    }
}
