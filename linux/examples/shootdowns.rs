//! A program that flushes exactly so many times for one cause: `shootdowns madvise 1000`.
//!
//! A second thread runs on another CPU meanwhile, so each flush has a CPU to interrupt. `ceasefire record -- shootdowns
//! madvise 1000` shows 1000 flushes of the cause. Each of them is an interrupt if the second thread has its CPU to
//! itself.

use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use rustix::fs::{ftruncate, memfd_create, MemfdFlags};
use rustix::mm::{
    madvise, mmap, mprotect, mremap_fixed, munmap, Advice, MapFlags, MprotectFlags, MremapFlags, ProtFlags,
};
use rustix::thread::{sched_getaffinity, CpuSet};

mod pages;
use pages::{madvises, map, munmaps, pin, touch, Outcome, PAGE};

/// A stretch of address space whose page tables nothing else uses: so that no flush frees one.
const TABLE: usize = 2 << 20;

/// The pages of a purge.
const PURGED: usize = 40;

/// Gives pages back in the way of an allocator: many at once, by one call for each.
fn purges(count: usize) -> Outcome {
    let start = map(TABLE)?;
    let pages: Vec<_> = (0..PURGED).map(|page| start.wrapping_byte_add(page * PAGE)).collect();
    for first in (0..count).step_by(PURGED) {
        let pages = &pages[..PURGED.min(count - first)];
        for page in pages {
            touch(*page);
        }
        for page in pages {
            // SAFETY: the page is ours, and nothing in it is needed.
            unsafe { madvise(*page, PAGE, Advice::LinuxDontNeed)? };
        }
    }
    Ok(())
}

fn mprotects(count: usize) -> Outcome {
    let page = map(TABLE)?;
    touch(page);
    for number in 0..count {
        let may =
            if number % 2 == 0 { MprotectFlags::READ } else { MprotectFlags::READ | MprotectFlags::WRITE };
        // SAFETY: the page is ours, and nothing stores to it while it may not.
        unsafe { mprotect(page, PAGE, may)? };
    }
    Ok(())
}

fn mremaps(count: usize) -> Outcome {
    let room = map(2 * TABLE)?;
    let mut places = [room, room.wrapping_byte_add(TABLE)];
    // SAFETY: only the first page of the room stays, and moves to and fro in it.
    unsafe { munmap(room.wrapping_byte_add(PAGE), 2 * TABLE - PAGE)? };
    for _ in 0..count {
        touch(places[0]);
        // SAFETY: the target is in the room that was unmapped.
        unsafe { mremap_fixed(places[0], PAGE, PAGE, MremapFlags::MAYMOVE, places[1])? };
        places.swap(0, 1);
    }
    Ok(())
}

fn copies(count: usize) -> Outcome {
    let file = memfd_create("shootdowns", MemfdFlags::CLOEXEC)?;
    let bytes = count * PAGE;
    ftruncate(&file, bytes as u64)?;
    let rights = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: the kernel chooses an address that nothing uses, and nobody else has the file.
    let start = unsafe { mmap(ptr::null_mut(), bytes, rights, MapFlags::PRIVATE, &file, 0)? };
    for page in 0..count {
        let page = start.wrapping_byte_add(page * PAGE);
        // A load maps the file's page, and the store copies it.
        // SAFETY: the page is ours.
        unsafe { page.cast::<u8>().read_volatile() };
        touch(page);
    }
    Ok(())
}

fn main() -> Outcome {
    let usage = "usage: shootdowns madvise|purge|munmap|mprotect|mremap|copy-on-write COUNT";
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [cause, count] = arguments.as_slice() else { return Err(usage.into()) };
    let count = count.parse()?;
    let cause: fn(usize) -> Outcome = match cause.as_str() {
        "madvise" => |count| madvises(TABLE, count),
        "purge" => purges,
        "munmap" => |count| munmaps(1, count),
        "mprotect" => mprotects,
        "mremap" => mremaps,
        "copy-on-write" => copies,
        _ => return Err(usage.into()),
    };
    let allowed = sched_getaffinity(None)?;
    let mut cpus = (0..CpuSet::MAX_CPU).filter(|cpu| allowed.is_set(*cpu));
    let (Some(mine), Some(other)) = (cpus.next(), cpus.next()) else {
        return Err("two CPUs are needed".into());
    };
    let (runs, ends) = (AtomicBool::new(false), AtomicBool::new(false));
    thread::scope(|scope| {
        scope.spawn(|| {
            // If it cannot be pinned, it runs elsewhere than the first thread all the same, mostly.
            let _ = pin(other);
            runs.store(true, Ordering::Release);
            while !ends.load(Ordering::Acquire) {
                std::hint::spin_loop();
            }
        });
        while !runs.load(Ordering::Acquire) {
            thread::yield_now();
        }
        let done = pin(mine).and_then(|()| cause(count));
        ends.store(true, Ordering::Release);
        done
    })
}
