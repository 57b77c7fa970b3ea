//! The scenarios of `ceasefire-conformance` on ostd, in one address space that all CPUs run.
//!
//! - `cpu` is what ostd does for the scenarios.
//! - `pairs` schedules two tasks on each CPU.
//!
//! A line for each scenario is printed, and a last one:
//!
//! ```text
//! conformance: unmap-then-read: passed (320 accesses)
//! conformance: end
//! ```
//!
//! The command line of the kernel may have `rounds=N`, and `without=GUARD` in a build whose guards can be removed.
#![no_std]
#![deny(unsafe_code)]

extern crate alloc;

mod cpu;
mod pairs;

use alloc::boxed::Box;
use core::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use ceasefire_conformance::{Cpu as _, Job, Kernel, Stage, check, scenarios};
use ostd::boot::boot_info;
use ostd::cpu::num_cpus;
use ostd::prelude::*;
use ostd::task::{Task, TaskOptions, scheduler};

use cpu::Here;
use pairs::Pairs;

static STAGE: Stage = Stage::new();
/// The job of all CPUs, its number, and how many other CPUs have ended it.
static JOB: spin::Mutex<Option<Job<Here>>> = spin::Mutex::new(None);
static NUMBER: AtomicUsize = AtomicUsize::new(0);
static ENDED: AtomicUsize = AtomicUsize::new(0);

struct Ostd;

impl Kernel for Ostd {
    type Cpu = Here;

    fn cpus(&self) -> usize {
        num_cpus()
    }

    fn run(&self, job: Job<Here>) {
        let first = Here::new(0);
        *JOB.lock() = Some(job);
        ENDED.store(0, SeqCst);
        NUMBER.fetch_add(1, SeqCst);
        job.run(&first);
        while ENDED.load(SeqCst) + 1 < num_cpus() {
            first.pause();
        }
    }
}

/// What a CPU but the first does: the jobs, one after the other.
fn follow(number: usize) -> ! {
    let here = Here::new(number);
    let mut last = 0;
    loop {
        while NUMBER.load(SeqCst) == last {
            here.pause();
        }
        last = NUMBER.load(SeqCst);
        let job = JOB.lock().expect("a job has a number after it is there");
        job.run(&here);
        ENDED.fetch_add(1, SeqCst);
    }
}

/// What the first CPU does: all scenarios.
fn lead() -> ! {
    let argument = |name: &str| {
        let words = boot_info().kernel_cmdline.split_whitespace();
        words.filter_map(|word| word.strip_prefix(name)?.strip_prefix('=')).last()
    };
    if let Some(guard) = argument("without") {
        remove(guard);
    }
    let rounds = argument("rounds").and_then(|rounds| rounds.parse().ok()).unwrap_or(40);
    for scenario in scenarios() {
        println!("conformance: {}: {}", scenario.name, check(&Ostd, &STAGE, &scenario, rounds));
    }
    println!("conformance: end");
    ostd::power::poweroff(ostd::power::ExitCode::Success);
}

/// Removes a guard of the engine.
#[cfg(all(feature = "ceasefire", ceasefire_sabotage))]
fn remove(guard: &str) {
    assert!(ostd::mm::tlb::remove_guard(guard), "the engine has no guard `{guard}`");
}

#[cfg(not(all(feature = "ceasefire", ceasefire_sabotage)))]
fn remove(guard: &str) {
    panic!("without={guard}: guards cannot be removed in this build");
}

/// The start of a CPU: it leaves the boot for its first task.
fn begin() {
    Task::yield_now();
    unreachable!("a task never returns to the boot");
}

#[ostd::main]
fn main() {
    // No page is mapped on demand.
    ostd::mm::fault::inject_user_page_fault_handler(|_| Err(()));
    scheduler::inject_scheduler(Box::leak(Box::new(Pairs::new(num_cpus()))));
    for cpu in 0..num_cpus() {
        let work = move || if cpu == 0 { lead() } else { follow(cpu) };
        // ostd frees frames after each CPU has switched tasks. So each has a second one.
        let idle = || {
            loop {
                Task::yield_now();
            }
        };
        TaskOptions::new(work).data(cpu).spawn().expect("a task");
        TaskOptions::new(idle).data(cpu).spawn().expect("a task");
    }
    ostd::boot::smp::register_ap_entry(begin);
    begin();
}
