//! From the boot to the first program.

pub(crate) mod bring_up;
mod heap;
pub(crate) mod layout;

use alloc::vec;
use alloc::vec::Vec;

use ceasefire::Schedule;
use ceasefire_kernel_abi::options::{Mechanism, Options};
use ceasefire_kernel_abi::TICK;
use ceasefire_memory::{Config, Lazy, Memory, NodeLayout};

use crate::arch::cpus::{set_count, MOST_CPUS};
use crate::arch::{boot, interrupts, tlb};
use crate::failure::refuse;
use crate::loader::Loaded;
use crate::manager::{self, Kernel};
use crate::memory::platform;
use crate::memory::{device, poison, ranges, reclaimer};
use crate::processes::{image, lifecycle};
use crate::report::{log, parameters};
use crate::threads::stack::Stack;
use crate::threads::{cpu, idle};

/// In nanoseconds.
const MILLISECOND: u64 = 1_000_000;

/// The first CPU begins here, with interrupts off, on its first stack.
pub(crate) fn start(loaded: Loaded) -> ! {
    cpu::adopt_idle();
    let options = Options::parse(loaded.command_line).unwrap_or_else(|error| refuse(format_args!("{error}")));
    let cpus = boot::count_cpus();
    if cpus > MOST_CPUS {
        refuse(format_args!("{cpus} CPUs: at most {MOST_CPUS} can be used"));
    }
    if options.nodes == 0 || options.nodes > cpus {
        refuse(format_args!("{} nodes: from 1 to {cpus}, the number of CPUs", options.nodes));
    }
    // SAFETY: the loader left that memory free, and nothing uses it yet.
    let layout = unsafe { layout::share_out(loaded.memory, cpus, &options) };
    parameters::set(options);
    tlb::set_asid_bits(options.asid_bits);
    platform::set_memory(&options, || {
        let nodes = vec![NodeLayout::new(layout.frames_per_node); options.nodes];
        let config = Config {
            first_frame: layout.first,
            lru_batch: options.lru_batch,
            swap_pages: swap(&options, layout.disk.1),
            lazy: Lazy {
                max_age: options.max_age.saturating_mul(MILLISECOND),
                tick: TICK * MILLISECOND,
                ..Lazy::default()
            },
            ..Config::new(nodes, cpus, schedule(options.mechanism))
        };
        if options.is_stale() {
            // SAFETY: these are the memory manager's frames, and it begins after this.
            unsafe { poison::start(layout.first, layout.frames_per_node * options.nodes as u32) };
        }
        Memory::new(Kernel, config).unwrap_or_else(|error| refuse(format_args!("{error}")))
    });
    ranges::start();
    // SAFETY: the layout gave that memory to the device.
    unsafe { device::give(layout.disk.0, layout.disk.1) };
    let stacks: Vec<u64> = (1..cpus).map_while(|_| Stack::take().map(Stack::keep)).collect();
    // SAFETY: the stacks were taken for good.
    let started = 1 + unsafe { bring_up::start_others(&stacks) };
    if started < cpus {
        refuse(format_args!("{started} of {cpus} CPUs came up"));
    }
    set_count(cpus);
    // Before anything is allocated: a node that runs low wakes its reclaimer only once.
    reclaimer::start(options.nodes);
    image::load(loaded.programs);
    log::line(format_args!(
        "{cpus} CPUs, {} nodes of {} MiB, {} MiB of devices, mechanism {}{}{}, program {}",
        options.nodes,
        layout.frames_per_node >> 8,
        layout.disk.1 >> 8,
        options.mechanism,
        options.without.map_or("", |_| " without "),
        options.without.map_or("", |guard| guard.name()),
        options.program
    ));
    take_part();
    assert!(options.program != "panic", "the command line asks for a panic");
    if lifecycle::start_first().is_err() {
        refuse(format_args!("out of memory for the first process"));
    }
    idle::idle()
}

/// When the kernel's own unmaps are flushed.
const fn schedule(mechanism: Mechanism) -> Schedule {
    match mechanism {
        Mechanism::PerPage => Schedule::PerPage,
        Mechanism::Batched | Mechanism::Broadcast | Mechanism::None => Schedule::Batched,
        Mechanism::Lazy | Mechanism::All => Schedule::Lazy,
    }
}

/// Pages of the swap device: the number in the options, or for `stale` without one a quarter of the devices' memory.
fn swap(options: &Options, disk: u32) -> u32 {
    if options.swap == 0 && options.is_stale() {
        disk / 4
    } else {
        options.swap.min(disk)
    }
}

/// Every other CPU begins here, with interrupts off, on the stack that it was given.
pub(crate) fn start_other() -> ! {
    cpu::adopt_idle();
    bring_up::arrived();
    // The first CPU lets it go on when all have started.
    while !cpu::here().may_run() {
        core::hint::spin_loop();
    }
    boot::forget_low_memory();
    take_part();
    idle::idle()
}

/// Makes this CPU ready for programs. Interrupts stay off until it runs a program or idles: for good on the last CPU if
/// the options ask for a lockup.
fn take_part() {
    manager::memory().engine().online();
    interrupts::start_ticks(TICK);
    let is_last = cpu::here().number() + 1 == cpu::all().len();
    while is_last && parameters::is_lockup() {
        core::hint::spin_loop();
    }
}
