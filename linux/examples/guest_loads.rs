//! Loads for small guests with several CPUs and two nodes: `guest_loads madvise 8 25`.
//!
//! `cargo xtask guests` records them on several kernels. Each is short, so that its recording can be kept for tests.

use std::fs::File;
use std::process;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::Barrier;
use std::thread;

use rustix::mm::{mmap, mprotect, munmap, MapFlags, MprotectFlags, ProtFlags};

mod pages;
use pages::{madvises, map, munmaps, pin, touch, Outcome, PAGE};

const USAGE: &str = "\
usage: guest_loads madvise THREADS COUNT          each pinned thread gives one page back COUNT times
       guest_loads munmap THREADS COUNT           each pinned thread unmaps one page COUNT times
       guest_loads wait THREADS COUNT             each thread fills, protects and unmaps 4 pages COUNT times
       guest_loads read THREADS PAGES FILE        each thread reads its PAGES pages of a mapped file
       guest_loads migrate THREADS PAGES ROUNDS   pages that pinned threads load go to the other node, ROUNDS times";

/// Runs `body` in pinned threads, which begin together.
fn pinned(threads: usize, body: impl Fn() -> Outcome + Sync) -> Outcome {
    let ready = AtomicUsize::new(0);
    let run = |cpu| {
        let pinned = pin(cpu);
        ready.fetch_add(1, Ordering::AcqRel);
        while ready.load(Ordering::Acquire) < threads {
            thread::yield_now();
        }
        pinned.and_then(|()| body())
    };
    let run = &run;
    thread::scope(|scope| {
        let all: Vec<_> = (0..threads).map(|cpu| scope.spawn(move || run(cpu))).collect();
        all.into_iter().try_for_each(|one| one.join().unwrap_or_else(|_| Err("a thread panicked".into())))
    })
}

/// Each thread changes mappings for which the others wait: `mprotect` flushes under `mmap_lock`.
fn waits(threads: usize, count: usize) -> Outcome {
    const BYTES: usize = 4 * PAGE;
    let (cpus, ready) = (thread::available_parallelism()?.get(), Barrier::new(threads));
    let run = |number: usize| -> Outcome {
        let pinned = pin(number % cpus);
        ready.wait();
        pinned?;
        for _ in 0..count {
            let area = map(BYTES)?;
            for page in 0..BYTES / PAGE {
                touch(area.wrapping_byte_add(page * PAGE));
            }
            // SAFETY: the mapping is ours, and nothing uses it any more.
            unsafe {
                mprotect(area, BYTES, MprotectFlags::READ)?;
                munmap(area, BYTES)?;
            }
        }
        Ok(())
    };
    let run = &run;
    thread::scope(|scope| {
        let all: Vec<_> = (0..threads).map(|number| scope.spawn(move || run(number))).collect();
        all.into_iter().try_for_each(|one| one.join().unwrap_or_else(|_| Err("a thread panicked".into())))
    })
}

/// Each thread reads a part of its own of a file.
fn reads(threads: usize, pages: usize, file: &File) -> Outcome {
    let bytes = threads * pages * PAGE;
    // SAFETY: the kernel chooses an address that nothing uses, and nothing writes to the file.
    let start = unsafe { mmap(ptr::null_mut(), bytes, ProtFlags::READ, MapFlags::SHARED, file, 0)? } as usize;
    thread::scope(|scope| {
        for thread in 0..threads {
            scope.spawn(move || {
                for page in 0..pages {
                    let page = (start + (thread * pages + page) * PAGE) as *const u8;
                    // SAFETY: the page is in the mapping, which nothing unmaps.
                    unsafe { page.read_volatile() };
                }
            });
        }
    });
    Ok(())
}

/// Moves the pages of this process from one node to another.
fn move_pages(from: usize, to: usize) -> Outcome {
    let (from, to): (libc::c_ulong, libc::c_ulong) = (1 << from, 1 << to);
    // SAFETY: the call reads one word of each mask.
    let left = unsafe {
        libc::syscall(
            libc::SYS_migrate_pages,
            process::id(),
            libc::c_ulong::BITS as usize,
            &raw const from,
            &raw const to,
        )
    };
    if left < 0 {
        return Err(std::io::Error::last_os_error().into());
    }
    Ok(())
}

/// Threads load pages at random while these move from node to node.
fn migrates(threads: usize, pages: usize, rounds: usize) -> Outcome {
    let area = map(pages * PAGE)?;
    for page in 0..pages {
        touch(area.wrapping_byte_add(page * PAGE));
    }
    let (area, ends, ready) = (area as usize, AtomicBool::new(false), AtomicUsize::new(0));
    thread::scope(|scope| {
        for cpu in 0..threads {
            let (ends, ready) = (&ends, &ready);
            scope.spawn(move || {
                // If it cannot be pinned, it runs elsewhere all the same.
                let _ = pin(cpu);
                ready.fetch_add(1, Ordering::Release);
                let mut number = cpu as u32;
                while !ends.load(Ordering::Acquire) {
                    number = number.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                    let page = (area + (number >> 8) as usize % pages * PAGE) as *const u8;
                    // SAFETY: the page is in the mapping, which nothing unmaps.
                    unsafe { page.read_volatile() };
                }
            });
        }
        while ready.load(Ordering::Acquire) < threads {
            thread::yield_now();
        }
        let moved = (0..rounds).try_for_each(|round| move_pages(round % 2, 1 - round % 2));
        ends.store(true, Ordering::Release);
        moved
    })
}

fn main() -> Outcome {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let [load, threads, number, rest @ ..] = arguments.as_slice() else { return Err(USAGE.into()) };
    let (threads, number): (usize, usize) = (threads.parse()?, number.parse()?);
    match (*load, rest) {
        ("madvise", []) => pinned(threads, || madvises(PAGE, number)),
        ("wait", []) => waits(threads, number),
        ("munmap", []) => pinned(threads, || munmaps(number)),
        ("read", [file]) => reads(threads, number, &File::open(file)?),
        ("migrate", [rounds]) => migrates(threads, number, rounds.parse()?),
        _ => Err(USAGE.into()),
    }
}
