//! The programs that the ceasefire kernel runs in user mode, in one image.
//!
//! The first process starts at the image's entry and runs the program that the parameters name; others start at the
//! entry that `Spawn` names. `arch` holds all that depends on the processor. The rest also compiles on a host, where
//! its logic is tested without a kernel.
#![cfg_attr(target_os = "none", no_std, no_main)]
#![cfg_attr(not(target_os = "none"), allow(dead_code, reason = "on a host only tests use the programs"))]

mod arch;
mod call;
mod conformance;
mod line;
mod machine;
mod memory;
mod migrate;
mod mmap_read;
mod random;
mod small;
mod stale;
mod thread;

use ceasefire_kernel_abi::{Parameter, LOCKUP, PROGRAMS};

/// The first process.
fn run(_argument: u64) -> ! {
    let number = call::parameter(Parameter::Program);
    let machine = machine::Machine::ask();
    match PROGRAMS.get(number as usize).copied().unwrap_or("") {
        "mmap-read" => mmap_read::run(&machine),
        "migrate" => migrate::run(&machine),
        "stale" => stale::run(&machine),
        "conformance" => conformance::run(&machine),
        "hello" => small::hello(&machine),
        "panic" => small::panic(),
        "fault" => small::fault(),
        "hang" | LOCKUP => small::hang(),
        _ => panic!("there is no program {number}"),
    }
    call::exit(0)
}

#[cfg(not(target_os = "none"))]
fn main() {
    eprintln!("these programs run on the ceasefire kernel: `cargo xtask kernel` builds and boots it");
}

/// A panic reports that an assumption of the program failed. The finding's address is the line of the source.
#[cfg(target_os = "none")]
#[panic_handler]
fn panic(info: &core::panic::PanicInfo<'_>) -> ! {
    let line = info.location().map_or(0, core::panic::Location::line);
    let file = info.location().map_or("", core::panic::Location::file);
    line::log(format_args!("{file}:{line}: {}", info.message()));
    call::report(ceasefire_kernel_abi::Finding::Broken, u64::from(line), 0, 0)
}
