//! The end of a run that failed: every CPU is stopped where it is, and its registers and last events are printed.

use core::fmt;
use core::panic::PanicInfo;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use ceasefire_kernel_abi::status;

use super::{cpu_state, event};
use crate::arch::{console, interrupts, this_cpu, Frame};
use crate::patience;
use crate::serial;

/// Kinds of failures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A rule was broken: a program saw a forbidden state.
    Rule,
    /// The kernel panicked or made a forbidden access.
    Kernel,
    /// A program did.
    Program,
    /// The run made no progress.
    Hang,
    /// The options ask for something that the machine cannot do.
    Options,
}

impl Kind {
    const fn name(self) -> &'static str {
        match self {
            Self::Rule => "rule",
            Self::Kernel => "kernel",
            Self::Program => "program",
            Self::Hang => "hang",
            Self::Options => "options",
        }
    }

    const fn status(self) -> u32 {
        match self {
            Self::Rule => status::RULE,
            Self::Kernel | Self::Program => status::FAULT,
            Self::Hang => status::HANG,
            Self::Options => status::OPTIONS,
        }
    }
}

static STOPPING: AtomicBool = AtomicBool::new(false);

/// Ends a run that found nothing wrong, with a status that says whether it has tested enough.
pub(crate) fn done(has_tested_enough: bool) -> ! {
    interrupts::off();
    if STOPPING.swap(true, Ordering::SeqCst) {
        // Another CPU has found a failure.
        stopped(&Frame::here());
    }
    console::exit(if has_tested_enough { status::DONE } else { status::INCONCLUSIVE })
}

/// Ends a run before it began, with a line that gives the reason.
pub(crate) fn refuse(why: fmt::Arguments<'_>) -> ! {
    serial::line(format_args!("FAILED {}: {why}", Kind::Options.name()));
    console::exit(Kind::Options.status())
}

/// Ends the run. Prints the reason, the registers in `frame`, and the state of every CPU.
pub(crate) fn stop(kind: Kind, frame: &Frame, why: fmt::Arguments<'_>) -> ! {
    interrupts::off();
    let here = this_cpu::number();
    if STOPPING.swap(true, Ordering::SeqCst) {
        // Another CPU is reporting, or this CPU failed again while it was.
        if FAILED.load(Ordering::SeqCst) == here {
            console::exit(kind.status());
        }
        stopped(frame);
    }
    FAILED.store(here, Ordering::SeqCst);
    interrupts::stop_others();
    let others = || cpu_state::all().iter().enumerate().filter(|&(number, _)| number != here);
    // The report says of each CPU whether it stopped.
    let _ = patience::spin_shortly(|| others().all(|(_, cpu)| cpu.stopped().is_some()));
    serial::end_broken_line();
    serial::line(format_args!("FAILED {}: {why}", kind.name()));
    let own = cpu_state::here();
    serial::line(format_args!("CPU {here}, {}, failed", own.thread()));
    serial::line(format_args!("{frame}"));
    serial::line(format_args!("{}", event::of(here)));
    for (number, cpu) in others() {
        if let Some(frame) = cpu.stopped() {
            serial::line(format_args!("CPU {number}, {}", cpu.thread()));
            serial::line(format_args!("{frame}"));
        } else {
            serial::line(format_args!("CPU {number} did not stop"));
        }
        serial::line(format_args!("{}", event::of(number)));
    }
    console::exit(kind.status())
}

/// The number of the CPU that reports.
static FAILED: AtomicUsize = AtomicUsize::new(usize::MAX);

/// Another CPU has ended the run: notes this CPU's registers and stops it.
pub(crate) fn stopped(frame: &Frame) -> ! {
    // The NMI also finds a CPU that stopped here by itself. The registers from before count.
    cpu_state::set_stopped(frame);
    loop {
        interrupts::off();
        core::hint::spin_loop();
        interrupts::stop();
    }
}

#[panic_handler]
fn panic(info: &PanicInfo<'_>) -> ! {
    stop(Kind::Kernel, &Frame::here(), format_args!("{info}"))
}
