//! How long allocations take while memory is short.
//!
//! A fresh page may wait for reclaim. An entry of a signal queue may not: the kernel allocates it atomically
//! (`__send_signal_locked` in `kernel/signal.c`), as part of a page of such entries.

use std::io;
use std::mem;
use std::num::NonZeroUsize;
use std::process;
use std::ptr;
use std::time::Instant;

use rustix::mm::munmap;
use rustix::process::{setrlimit, Resource, Rlimit};

use super::pages::{map, touch, Outcome, PAGE};

/// Allocations after which all of them are given back.
const ROUND: usize = 4096;

/// The signal that is queued, alone.
fn queued_signal() -> libc::sigset_t {
    // SAFETY: the set is initialised before it is read.
    unsafe {
        let mut set = mem::zeroed();
        libc::sigemptyset(&raw mut set);
        libc::sigaddset(&raw mut set, libc::SIGRTMIN());
        set
    }
}

/// Blocks the queued signal in this thread, and in those that it starts later.
pub(crate) fn block_signal() -> Outcome {
    let set = queued_signal();
    // SAFETY: the call reads the set, and the old one is not asked for.
    let done = unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, ptr::null_mut()) };
    if done != 0 {
        return Err(io::Error::from_raw_os_error(done).into());
    }
    let room = Some(4 * ROUND as u64);
    Ok(setrlimit(Resource::Sigpending, Rlimit { current: room, maximum: room })?)
}

/// Stores to fresh pages, and prints how long the faults took.
pub(crate) fn faults(samples: NonZeroUsize) -> Outcome {
    let mut times = Vec::new();
    while times.len() < samples.get() {
        let area = map(ROUND * PAGE)?;
        for page in 0..ROUND {
            let start = Instant::now();
            touch(area.wrapping_byte_add(page * PAGE));
            times.push(start.elapsed().as_nanos());
        }
        // SAFETY: the mapping is ours, and nothing uses it any more.
        unsafe { munmap(area, ROUND * PAGE)? };
    }
    print(times);
    Ok(())
}

/// Queues signals for this process, and prints how long that took, and how often there was no memory.
pub(crate) fn signals(samples: NonZeroUsize) -> Outcome {
    let mut times = Vec::new();
    let mut failed = 0;
    while times.len() < samples.get() {
        for _ in 0..ROUND {
            let start = Instant::now();
            let queued = queue_signal();
            times.push(start.elapsed().as_nanos());
            match queued {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => failed += 1,
                other => other?,
            }
        }
        while take_signal() {}
    }
    print(times);
    println!("count failed {failed}");
    Ok(())
}

fn queue_signal() -> io::Result<()> {
    // SAFETY: all bits zero are a signal's information, and the call reads no more than that.
    let left = unsafe {
        let mut signal: libc::siginfo_t = mem::zeroed();
        signal.si_code = libc::SI_QUEUE;
        libc::syscall(libc::SYS_rt_sigqueueinfo, process::id(), libc::SIGRTMIN(), &raw const signal)
    };
    if left < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// Takes one signal from the queue. False if there is none.
fn take_signal() -> bool {
    let (set, now) = (queued_signal(), libc::timespec { tv_sec: 0, tv_nsec: 0 });
    // SAFETY: the call reads the set and the time, and no information is asked for.
    unsafe { libc::sigtimedwait(&raw const set, ptr::null_mut(), &raw const now) >= 0 }
}

/// Prints the times within which half of the allocations, and 999 of 1,000, were done, in nanoseconds.
fn print(mut times: Vec<u128>) {
    times.sort_unstable();
    for (name, thousandths) in [("ns_50", 500), ("ns_99_9", 999)] {
        println!("count {name} {}", times[times.len() * thousandths / 1000]);
    }
}
