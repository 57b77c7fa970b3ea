//! The end of a run that failed: every CPU is stopped where it is, and its registers and last events are printed.

use core::fmt;
use core::panic::PanicInfo;
use core::sync::atomic::{AtomicBool, Ordering};

use ceasefire_kernel_abi::status;

use crate::arch::{clock, console, interrupts, Frame};
use crate::report::log;
use crate::report::log::line_at_once;
use crate::threads::{cpu, current};

/// The time in which the other CPUs must stop, in nanoseconds.
const PATIENCE: u64 = 1_000_000_000;

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

/// Ends a run that succeeded.
pub(crate) fn done() -> ! {
    interrupts::off();
    if STOPPING.swap(true, Ordering::SeqCst) {
        // Another CPU has found a failure.
        stopped(&Frame::here());
    }
    console::exit(status::DONE)
}

/// Ends a run before it began, with a line that gives the reason.
pub(crate) fn refuse(why: fmt::Arguments<'_>) -> ! {
    line_at_once(format_args!("FAILED {}: {why}", Kind::Options.name()));
    console::exit(Kind::Options.status())
}

/// Ends the run. Prints the reason, the registers in `frame`, and the state of every CPU.
pub(crate) fn stop(kind: Kind, frame: &Frame, why: fmt::Arguments<'_>) -> ! {
    interrupts::off();
    if STOPPING.swap(true, Ordering::SeqCst) {
        // Another CPU is reporting, or this CPU failed again while it was.
        if core::ptr::eq(FAILED.load(Ordering::SeqCst), cpu::here()) {
            console::exit(kind.status());
        }
        stopped(frame);
    }
    let here = cpu::here();
    FAILED.store(core::ptr::from_ref(here).cast_mut(), Ordering::SeqCst);
    interrupts::stop_others();
    let deadline = clock::now() + PATIENCE;
    let others = || cpu::all().iter().filter(|cpu| !core::ptr::eq(*cpu, here));
    while others().any(|cpu| !cpu.is_stopped.load(Ordering::Acquire)) && clock::now() < deadline {
        core::hint::spin_loop();
    }
    log::end_broken_line();
    line_at_once(format_args!("FAILED {}: {why}", kind.name()));
    line_at_once(format_args!("CPU {}, {}, failed", here.number(), current::thread()));
    line_at_once(format_args!("{frame}"));
    line_at_once(format_args!("{}", here.events));
    for cpu in others() {
        if cpu.is_stopped.load(Ordering::Acquire) {
            line_at_once(format_args!("CPU {}, {}", cpu.number(), current::thread_of(cpu)));
            // SAFETY: the CPU wrote it before it raised the flag, and has stopped.
            if let Some(frame) = unsafe { &*cpu.stopped.get() } {
                line_at_once(format_args!("{frame}"));
            }
        } else {
            line_at_once(format_args!("CPU {} did not stop", cpu.number()));
        }
        line_at_once(format_args!("{}", cpu.events));
    }
    console::exit(kind.status())
}

/// The CPU that reports.
static FAILED: core::sync::atomic::AtomicPtr<cpu::PerCpu> =
    core::sync::atomic::AtomicPtr::new(core::ptr::null_mut());

/// Another CPU has ended the run: notes this CPU's registers and stops it.
pub(crate) fn stopped(frame: &Frame) -> ! {
    let here = cpu::here();
    // The NMI also finds a CPU that stopped here by itself. The registers from before count.
    if !here.is_stopped.load(Ordering::Relaxed) {
        // SAFETY: this CPU's own, which other CPUs read only once the flag is up.
        unsafe { *here.stopped.get() = Some(*frame) };
        here.is_stopped.store(true, Ordering::Release);
    }
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
