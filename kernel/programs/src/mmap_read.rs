//! `mmap-read`: reading ten times the memory through mmap (vm-scalability `lru-file-mmap-read`).
//!
//! There are as many single-threaded processes as CPUs. Each maps a sparse file of its own, shared and read-only, and
//! loads every eighth byte of it once, in order. Together the files are ten times the machine's memory, so nine pages
//! of ten are reclaimed from under a process that runs on another CPU. It is the experiment of the same name, with one
//! difference: all processes begin to read at the same time, after all have been started, so that only the reading is
//! measured.
//!
//! A hole reads as zeros, so a load of anything else came from another page's frame (R1).

use core::sync::atomic::Ordering::{Relaxed, SeqCst};

use ceasefire_kernel_abi::{Finding, ANYWHERE, CREW};

use crate::call;
use crate::machine::Machine;
use crate::memory::Mapping;
use crate::thread::{pack, unpack, wait_until, Crew};

/// The amount to read, in multiples of the memory.
const TIMES_MEMORY: u64 = 10;
/// The word of the control page that is set when all processes have been started.
const GO: u64 = 0;
/// The word with the number of pages of each file.
const PAGES: u64 = 1;
/// The first of the words with each reader's file.
const FILES: u64 = 2;

/// The program.
pub(crate) fn run(machine: &Machine) {
    let readers = if machine.threads == 0 { machine.cpus } else { machine.threads };
    assert!(readers <= CREW as u64, "{readers} processes: at most {CREW}");
    let total = if machine.pages == 0 { TIMES_MEMORY * machine.frames } else { machine.pages };
    let pages = (total / readers).max(1);
    let control_file = call::create_file(1).expect("no file for the control page");
    let control = Mapping::shared(control_file, 1, true).expect("no control page");
    control.word(PAGES).store(pages, Relaxed);
    let mut crew = Crew::new();
    for reader in 0..readers {
        let file = call::create_file(pages).expect("no file to read");
        control.word(FILES + reader).store(file, SeqCst);
        let cpu = if machine.pinned { reader % machine.cpus } else { ANYWHERE };
        crew.process(read, pack(control_file, reader), cpu);
    }
    call::measure_begin();
    control.word(GO).store(1, SeqCst);
    crew.wait();
    call::measure_end(pages * readers);
    for reader in 0..readers {
        call::delete_file(control.word(FILES + reader).load(Relaxed)).expect("a file that was read stays");
    }
    control.unmap().expect("the control page stays mapped");
    call::delete_file(control_file).expect("the control page's file stays");
}

/// One process.
extern "C" fn read(argument: u64) -> ! {
    let (control_file, reader) = unpack(argument);
    let control = Mapping::shared(control_file, 1, false).expect("no control page");
    wait_until(|| control.word(GO).load(SeqCst) != 0);
    let file = control.word(FILES + reader).load(SeqCst);
    let pages = control.word(PAGES).load(SeqCst);
    let mapping = Mapping::shared(file, pages, false).expect("the file cannot be mapped");
    for page in 0..pages {
        let words = mapping.page(page);
        let any = words.iter().fold(0, |any, word| any | word.load(Relaxed));
        if any != 0 {
            let address = words.as_ptr() as u64;
            crate::line::log(format_args!("mmap-read: page {page} of reader {reader}'s hole is not zero"));
            call::report(Finding::StaleRead, address, 0, any);
        }
    }
    mapping.unmap().expect("the file stays mapped");
    call::exit(0)
}
