//! Faults, system calls and interrupts, as far as they do not depend on the architecture.

mod call;
mod user;

use core::sync::atomic::Ordering;

use ceasefire_memory::{Access, FaultError};

use crate::arch::{clock, interrupts, Frame};
use crate::failure::event::{record, What};
use crate::failure::{self, Kind};
use crate::manager::{self, memory};
use crate::memory::answers;
use crate::report::{result, watchdog};
use crate::threads::cpu::{self, count};
use crate::threads::{current, schedule};

/// An access that faulted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) address: u64,
    pub(crate) store: bool,
}

/// Makes the access possible. Interrupts must be on.
pub(crate) fn fault(fault: Fault) -> Result<(), FaultError> {
    record(What::Fault, fault.address, u64::from(fault.store));
    let Some(space) = current::thread().space() else { return Err(FaultError::NotMapped(fault.address)) };
    let access = if fault.store { Access::Write } else { Access::Read };
    let mut result = memory().fault(space, fault.address, access);
    // Frames that other threads are about to free may suffice, so no process is killed. If none are freed, the run ends
    // as a hang.
    while result == Err(FaultError::OutOfMemory) {
        schedule::sleep_until(clock::now() + 1);
        result = memory().fault(space, fault.address, access);
    }
    cpu::here().note_progress();
    result
}

/// An access that cannot be made possible: the program continues at its recovery address, or the run ends.
pub(crate) fn unresolved(frame: &mut Frame, fault: Fault, error: FaultError) {
    let process = current::thread().process.as_ref();
    if let Some(to) = process.and_then(|process| process.recovery(frame.instruction())) {
        frame.set_instruction(to);
        return;
    }
    let what = if fault.store { "store to" } else { "load from" };
    let (address, from) = (fault.address, frame.instruction());
    failure::stop(
        Kind::Program,
        frame,
        format_args!("a program's {what} {address:#x} at {from:#x}: {error}"),
    );
}

/// Executes a system call. Interrupts must be on.
pub(crate) fn system_call(frame: &mut Frame) {
    result::user_mode_reached();
    let number = frame.call();
    record(What::Call, number, frame.arguments()[0]);
    let result = call::handle(frame).unwrap_or_else(ceasefire_kernel_abi::Error::encode);
    record(What::Returned, number, result);
    frame.set_result(result);
    cpu::here().note_progress();
}

/// Kinds of interrupts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Interrupt {
    /// The timer.
    Tick,
    /// Another CPU's request.
    Shootdown,
    /// Ends a halt: the CPU must look again.
    Wake,
}

/// Handles an interrupt. Interrupts must be off.
pub(crate) fn interrupt(interrupt: Interrupt, frame: &Frame) {
    let here = cpu::here();
    match interrupt {
        Interrupt::Tick => {
            // Ticks of an idle CPU would push out all other events.
            if !here.halted.load(Ordering::Relaxed) {
                record(What::Tick, frame.instruction(), u64::from(frame.is_program()));
            }
            count(&here.ticks);
            if frame.is_program() {
                count(&here.program_ticks);
                here.note_progress();
            } else if here.halted.load(Ordering::Relaxed) {
                count(&here.idle_ticks);
            }
            manager::memory().tick();
            schedule::tick(here);
            schedule::wake_sleepers();
            watchdog::watch(here, frame);
        }
        Interrupt::Shootdown => {
            record(What::Asked, 0, 0);
            here.note_progress();
            answers::answer();
        }
        Interrupt::Wake => {
            record(What::Woken, 0, 0);
            schedule::tick(here);
        }
    }
}

/// Runs first when a program was stopped. Interrupts must be off.
pub(crate) fn come_from_program() {
    manager::enter();
}

/// Runs last before a program continues. Interrupts must be off.
pub(crate) fn leave_for_program() {
    if cpu::here().turn_over.load(Ordering::Relaxed) {
        interrupts::on();
        schedule::give_way();
        interrupts::off();
    }
    manager::leave();
}
