//! Loads for small guests with several CPUs and two nodes: `guest_loads madvise 8 25`.
//!
//! `cargo xtask guests` records them on several kernels. Each is short, so that its recording can be kept for tests.

use std::ffi::c_void;
use std::fs::File;
use std::io::Read as _;
use std::process;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::Barrier;
use std::thread;

use rustix::io::Errno;
use rustix::mm::{mmap, mprotect, munmap, MapFlags, MprotectFlags, ProtFlags};

mod calls;
mod latency;
mod marks;
mod pages;
use pages::{madvises, map, munmaps, pin, touch, Outcome, PAGE};

const USAGE: &str = "\
usage: guest_loads madvise THREADS COUNT          each pinned thread gives one page back COUNT times
       guest_loads munmap THREADS COUNT [PAGES]   each pinned thread fills and unmaps 1 page COUNT times, or PAGES
       guest_loads wait THREADS COUNT             each thread fills, protects and unmaps 4 pages COUNT times
       guest_loads read THREADS PAGES FILE        each thread reads its PAGES pages of a mapped file
       guest_loads store THREADS PAGES FILE       each thread stores to its PAGES pages of a mapped file
       guest_loads fill THREADS PAGES ROUNDS [FILE N]  each thread stores to its PAGES fresh pages, ROUNDS times in turn,
                                                  after each has loaded from N mapped pages of a file
       guest_loads processes COUNT PAGES FILE     each of COUNT processes reads its PAGES pages of a mapped file
       guest_loads part N PAGES FILE              the N-th of these processes, by itself
       guest_loads faults THREADS PAGES FILE N    how long N fresh pages take, while threads read without end
       guest_loads signals THREADS PAGES FILE N   how long N queued signals take, while threads read without end
       guest_loads migrate THREADS PAGES ROUNDS   pages that pinned threads load go to the other node, ROUNDS times
       guest_loads fork THREADS PAGES COUNT       COUNT forks; pages that pinned threads load are copied after each
       guest_loads exec THREADS COUNT             each pinned thread starts a program COUNT times
       guest_loads unlink THREADS COUNT FOLDER    each pinned thread writes and unlinks a small file COUNT times
       guest_loads switch THREADS COUNT           each pinned thread calls a process on its CPU COUNT times";

/// Runs `body` in pinned threads, which begin together.
fn pinned(threads: usize, body: impl Fn(usize) -> Outcome + Sync) -> Outcome {
    let ready = AtomicUsize::new(0);
    let run = |cpu| {
        let pinned = pin(cpu);
        ready.fetch_add(1, Ordering::AcqRel);
        while ready.load(Ordering::Acquire) < threads {
            thread::yield_now();
        }
        pinned.and_then(|()| body(cpu))
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
            store_all(area as usize, BYTES / PAGE);
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

/// Maps the file, so many bytes from `from` on. Returns the address.
fn map_file(file: &File, from: usize, bytes: usize, protection: ProtFlags) -> Result<usize, Errno> {
    // SAFETY: the kernel chooses an address that nothing uses. Whoever stores to the file wants just that.
    let start = unsafe { mmap(ptr::null_mut(), bytes, protection, MapFlags::SHARED, file, from as u64)? };
    Ok(start as usize)
}

/// Loads from each of the pages in turn.
fn load_all(start: usize, pages: usize) {
    for page in 0..pages {
        // SAFETY: callers pass mappings that nothing unmaps.
        unsafe { ((start + page * PAGE) as *const u8).read_volatile() };
    }
}

/// Stores to each of the pages in turn.
fn store_all(start: usize, pages: usize) {
    for page in 0..pages {
        touch((start + page * PAGE) as *mut c_void);
    }
}

/// Each thread runs `body` with the address of its part of a mapping, and the number of pages there.
fn in_parts(start: usize, threads: usize, pages: usize, body: fn(usize, usize)) {
    thread::scope(|scope| {
        for thread in 0..threads {
            scope.spawn(move || body(start + thread * pages * PAGE, pages));
        }
    });
}

/// Each thread loads from a part of its own of a file.
fn reads(threads: usize, pages: usize, file: &str) -> Outcome {
    let start = map_file(&File::open(file)?, 0, threads * pages * PAGE, ProtFlags::READ)?;
    in_parts(start, threads, pages, load_all);
    Ok(())
}

/// Each thread stores to a part of its own of a file.
fn stores(threads: usize, pages: usize, file: &str) -> Outcome {
    let file = File::options().read(true).write(true).open(file)?;
    let start = map_file(&file, 0, threads * pages * PAGE, ProtFlags::READ | ProtFlags::WRITE)?;
    in_parts(start, threads, pages, store_all);
    Ok(())
}

/// Each thread stores to fresh pages of its own, again and again, beside pages of a file that stay mapped.
fn fills(threads: usize, pages: usize, rounds: usize, file: Option<(&str, usize)>) -> Outcome {
    if let Some((file, others)) = file {
        reads(threads, others, file)?;
    }
    let start = map(threads * pages * PAGE)? as usize;
    for _ in 0..rounds {
        in_parts(start, threads, pages, store_all);
    }
    Ok(())
}

/// Runs `body` while each thread runs `work`, with its number, until it sees that `body` has ended.
fn meanwhile(
    threads: usize,
    work: impl Fn(usize, &AtomicBool) + Sync,
    body: impl FnOnce() -> Outcome,
) -> Outcome {
    let (work, ends) = (&work, &AtomicBool::new(false));
    thread::scope(|scope| {
        for thread in 0..threads {
            scope.spawn(move || work(thread, ends));
        }
        let done = body();
        ends.store(true, Ordering::Release);
        done
    })
}

/// Runs `body` while each thread loads from a part of its own of a file, again and again.
fn while_read(threads: usize, pages: usize, file: &str, body: impl FnOnce() -> Outcome) -> Outcome {
    let start = map_file(&File::open(file)?, 0, threads * pages * PAGE, ProtFlags::READ)?;
    let work = |thread, ends: &AtomicBool| {
        for page in (0..pages).cycle().take_while(|_| !ends.load(Ordering::Acquire)) {
            load_all(start + (thread * pages + page) * PAGE, 1);
        }
    };
    meanwhile(threads, work, body)
}

/// Each process loads from a part of its own of a file, through a mapping of its own.
fn processes(count: usize, pages: usize, file: &str) -> Outcome {
    let this = std::env::current_exe()?;
    let start = |part: usize| {
        process::Command::new(&this).args(["part", &part.to_string(), &pages.to_string(), file]).spawn()
    };
    let mut all = (0..count).map(start).collect::<Result<Vec<_>, _>>()?;
    for one in &mut all {
        if !one.wait()?.success() {
            return Err("a process failed".into());
        }
    }
    Ok(())
}

/// What the process of this number does.
fn part(number: usize, pages: usize, file: &str) -> Outcome {
    let bytes = pages * PAGE;
    load_all(map_file(&File::open(file)?, number * bytes, bytes, ProtFlags::READ)?, pages);
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

/// Runs `body` with the address of so many pages, from which threads load at random meanwhile.
fn while_loaded(threads: usize, pages: usize, body: impl FnOnce(usize) -> Outcome) -> Outcome {
    let area = map(pages * PAGE)?;
    store_all(area as usize, pages);
    let (area, ready) = (area as usize, AtomicUsize::new(0));
    let work = |cpu, ends: &AtomicBool| {
        // If it cannot be pinned, it runs elsewhere all the same.
        let _ = pin(cpu);
        ready.fetch_add(1, Ordering::Release);
        let mut number = cpu as u32;
        while !ends.load(Ordering::Acquire) {
            number = number.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            load_all(area + (number >> 8) as usize % pages * PAGE, 1);
        }
    };
    meanwhile(threads, work, || {
        while ready.load(Ordering::Acquire) < threads {
            thread::yield_now();
        }
        body(area)
    })
}

/// Forks, and stores to all pages while the child has them too.
fn fork(start: usize, pages: usize) -> Outcome {
    let (mut ends, begins) = std::io::pipe()?;
    // SAFETY: the child calls nothing but read and _exit, which do not need the other threads.
    match unsafe { libc::fork() } {
        -1 => return Err(std::io::Error::last_os_error().into()),
        0 => {
            drop(begins);
            let _ = ends.read(&mut [0]);
            // SAFETY: it does not return.
            unsafe { libc::_exit(0) }
        }
        child => {
            store_all(start, pages);
            drop(begins);
            // SAFETY: the child is ours, and its state is not wanted.
            unsafe { libc::waitpid(child, ptr::null_mut(), 0) };
        }
    }
    Ok(())
}

/// Runs a load, with the words after its name.
fn run(load: &str, threads: usize, number: usize, rest: &[&str]) -> Outcome {
    match (load, rest) {
        ("madvise", []) => pinned(threads, |_| madvises(PAGE, number)),
        ("wait", []) => waits(threads, number),
        ("munmap", []) => pinned(threads, |_| munmaps(1, number)),
        ("munmap", [pages]) => {
            let pages = pages.parse()?;
            pinned(threads, |_| munmaps(pages, number))
        }
        ("read", [file]) => reads(threads, number, file),
        ("store", [file]) => stores(threads, number, file),
        ("fill", [rounds]) => fills(threads, number, rounds.parse()?, None),
        ("fill", [rounds, file, others]) => {
            fills(threads, number, rounds.parse()?, Some((file, others.parse()?)))
        }
        ("processes", [file]) => processes(threads, number, file),
        ("faults", [file, samples]) => {
            let samples = samples.parse()?;
            while_read(threads, number, file, || latency::faults(samples))
        }
        ("signals", [file, samples]) => {
            let samples = samples.parse()?;
            latency::block_signal()?;
            while_read(threads, number, file, || latency::signals(samples))
        }
        ("migrate", [rounds]) => {
            let rounds: usize = rounds.parse()?;
            let migrate = |_| (0..rounds).try_for_each(|round| move_pages(round % 2, 1 - round % 2));
            while_loaded(threads, number, migrate)
        }
        ("fork", [count]) => {
            let count: usize = count.parse()?;
            while_loaded(threads, number, |start| (0..count).try_for_each(|_| fork(start, number)))
        }
        ("exec", []) => pinned(threads, |_| calls::exec(number)),
        ("unlink", [folder]) => pinned(threads, |thread| calls::unlink(thread, number, folder)),
        ("switch", []) => pinned(threads, |_| calls::switch(number)),
        _ => Err(USAGE.into()),
    }
}

fn main() -> Outcome {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let [load, threads, number, rest @ ..] = arguments.as_slice() else { return Err(USAGE.into()) };
    let (threads, number) = (threads.parse()?, number.parse()?);
    match (*load, rest) {
        // Parts of other loads.
        ("part", [file]) => part(threads, number, file),
        ("nothing", []) => Ok(()),
        _ => {
            marks::begins();
            let outcome = run(load, threads, number, rest);
            marks::ends();
            outcome
        }
    }
}
