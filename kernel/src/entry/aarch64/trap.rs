//! The entry of exceptions, interrupts and system calls, by kind.

use core::arch::{asm, global_asm};

use ceasefire_memory::USER_END;

use crate::arch::aarch64::this_cpu::ArchCpu;
use crate::arch::aarch64::{clock, console, gic, interrupts, tlb, Frame};
use crate::arch::aarch64_formats::syndrome::{class, Syndrome, Why};
use crate::arch::user;
use crate::failure::{self, Kind};
use crate::traps::{self, Fault, Interrupt};

global_asm!(include_str!("trap.s"), trap = sym trap, last_stack = const ArchCpu::LAST_STACK_END);

unsafe extern "C" {
    static trap_vectors: u8;
}

/// Entries, by their numbers in `trap.s`: exceptions that the code itself caused, IRQs and FIQs, in the kernel and in
/// programs.
const KERNEL_EXCEPTION: u64 = 0;
const KERNEL_IRQ: u64 = 1;
const KERNEL_FIQ: u64 = 2;
const PROGRAM_EXCEPTION: u64 = 4;
const PROGRAM_IRQ: u64 = 5;
const PROGRAM_FIQ: u64 = 6;
/// The kernel's stack had no room.
const NO_STACK: u64 = 16;

/// Makes all traps of this CPU enter here.
pub(super) fn load() {
    // SAFETY: the table has all entries, each of which saves all registers. It counts from the barrier on.
    unsafe {
        asm!("msr vbar_el1, {}", "isb", in(reg) &raw const trap_vectors, options(nostack, preserves_flags));
    }
}

/// The common entry. Interrupts are off.
extern "C" fn trap(frame: &mut Frame) {
    match frame.entry {
        KERNEL_FIQ | PROGRAM_FIQ => failure::stopped(frame),
        NO_STACK => failure::stop(
            Kind::Kernel,
            frame,
            format_args!("exception at {:#x} without room on the stack: a stack overflow", frame.pc),
        ),
        _ => interrupts::let_be_stopped(),
    }
    if frame.is_program() {
        traps::come_from_program();
    }
    match frame.entry {
        KERNEL_IRQ | PROGRAM_IRQ => interrupt(frame),
        KERNEL_EXCEPTION | PROGRAM_EXCEPTION => exception(frame),
        number => {
            failure::stop(Kind::Kernel, frame, format_args!("trap by entry {number} at {:#x}", frame.pc));
        }
    }
    if frame.is_program() {
        traps::leave_for_program();
    }
}

fn interrupt(frame: &Frame) {
    let Some(number) = gic::begin() else { return };
    let interrupt = match number {
        clock::INTERRUPT => {
            clock::next_tick();
            Some(Interrupt::Tick)
        }
        gic::number::SHOOTDOWN => Some(Interrupt::Shootdown),
        gic::number::WAKE | gic::number::DOORBELL => Some(Interrupt::Wake),
        _ => None,
    };
    if let Some(interrupt) = interrupt {
        traps::interrupt(interrupt, frame);
    }
    gic::end(number);
}

fn exception(frame: &mut Frame) {
    let syndrome = Syndrome(frame.syndrome);
    match syndrome.class() {
        class::SYSTEM_CALL => {
            interrupts::on();
            traps::system_call(frame);
            interrupts::off();
        }
        class::PROGRAM_FETCH => access(frame, false),
        class::PROGRAM_ACCESS | class::KERNEL_ACCESS => access(frame, syndrome.is_store()),
        class => {
            if class == class::UNDEFINED && !frame.is_program() {
                console::undefined();
            }
            let whose = if frame.is_program() { Kind::Program } else { Kind::Kernel };
            failure::stop(whose, frame, format_args!("exception of class {class:#x} at {:#x}", frame.pc));
        }
    }
}

/// Handles a failed access: a fetch, a load or a store.
fn access(frame: &mut Frame, store: bool) {
    let (address, why) = (frame.address, Syndrome(frame.syndrome).why());
    match why {
        Why::Translation | Why::Permission => {}
        // For example a page-table page that was freed.
        Why::AddressSize => failure::stop(
            Kind::Kernel,
            frame,
            format_args!("an entry on the way to {address:#x} leads beyond physical addresses"),
        ),
        Why::Other => failure::stop(
            Kind::Kernel,
            frame,
            format_args!(
                "access to {address:#x} from {:#x} failed: syndrome {:#x}",
                frame.pc, frame.syndrome
            ),
        ),
    }
    if let Some(way_out) = user::way_out_of_word(frame.pc) {
        frame.pc = way_out;
        return;
    }
    let way_out = user::way_out_of_copy(frame.pc);
    if !frame.is_program() && (way_out.is_none() || address >= USER_END || !frame.had_interrupts()) {
        failure::stop(
            Kind::Kernel,
            frame,
            format_args!("fault at {address:#x} from {:#x}, syndrome {:#x}", frame.pc, frame.syndrome),
        );
    }
    interrupts::on();
    let fault = Fault { address, store };
    let resolved = traps::fault(fault);
    interrupts::off();
    match (resolved, way_out) {
        (Ok(()), _) if why == Why::Permission => tlb::invalidate_narrow(address),
        (Ok(()), _) => {}
        (Err(_), Some(way_out)) if !frame.is_program() => frame.pc = way_out,
        (Err(error), _) => traps::unresolved(frame, fault, error),
    }
}
