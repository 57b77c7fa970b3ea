//! The entry of exceptions, interrupts and system calls, by kind.

use core::arch::global_asm;

use ceasefire_memory::USER_END;
use spin::Once;
use x86_64::registers::control::Cr2;
use x86_64::structures::idt::InterruptDescriptorTable;
use x86_64::{PrivilegeLevel, VirtAddr};

use crate::arch::user;
use crate::arch::x86_64::interrupts::{self, vector};
use crate::arch::x86_64::{local_apic, Frame};
use crate::failure::{self, Kind};
use crate::traps::{self, Fault, Interrupt};

global_asm!(
    include_str!("trap.s"),
    trap = sym trap,
    trap_anywhere = sym trap_anywhere,
);

unsafe extern "C" {
    static trap_vectors: u8;
}

/// Exceptions with a handling of their own.
const NMI: u64 = 2;
const DOUBLE_FAULT: u64 = 8;
const PAGE_FAULT: u64 = 14;
/// Bytes of each entry in `trap_vectors`.
const ENTRY_BYTES: u64 = 16;
/// In a page fault's error code: the access was a store; an entry had reserved bits set.
const STORE: u64 = 1 << 1;
const RESERVED: u64 = 1 << 3;

static TABLE: Once<InterruptDescriptorTable> = Once::new();

/// Makes all traps of this CPU enter here.
pub(super) fn load() {
    TABLE.call_once(table).load();
}

fn table() -> InterruptDescriptorTable {
    let mut table = InterruptDescriptorTable::new();
    let entry = |vector: u64| VirtAddr::from_ptr(&raw const trap_vectors) + vector * ENTRY_BYTES;
    // SAFETY: each address is an entry of `trap_vectors`, which saves all registers, knows which vectors push an error
    // code, and returns with IRETQ. `Segments::load` sets up the stacks with these numbers.
    unsafe {
        table.divide_error.set_handler_addr(entry(0));
        table.debug.set_handler_addr(entry(1));
        table.non_maskable_interrupt.set_handler_addr(entry(NMI)).set_stack_index(0);
        table.breakpoint.set_handler_addr(entry(3));
        table.overflow.set_handler_addr(entry(4));
        table.bound_range_exceeded.set_handler_addr(entry(5));
        table.invalid_opcode.set_handler_addr(entry(6));
        table.device_not_available.set_handler_addr(entry(7));
        table.double_fault.set_handler_addr(entry(DOUBLE_FAULT)).set_stack_index(1);
        table.invalid_tss.set_handler_addr(entry(10));
        table.segment_not_present.set_handler_addr(entry(11));
        table.stack_segment_fault.set_handler_addr(entry(12));
        table.general_protection_fault.set_handler_addr(entry(13));
        table.page_fault.set_handler_addr(entry(PAGE_FAULT));
        table.x87_floating_point.set_handler_addr(entry(16));
        table.alignment_check.set_handler_addr(entry(17));
        table.machine_check.set_handler_addr(entry(18)).set_stack_index(2);
        table.simd_floating_point.set_handler_addr(entry(19));
        table.virtualization.set_handler_addr(entry(20));
        table.cp_protection_exception.set_handler_addr(entry(21));
        for vector in [vector::TICK, vector::SHOOTDOWN, vector::WAKE, vector::DOORBELL, vector::SPURIOUS] {
            table[vector].set_handler_addr(entry(u64::from(vector)));
        }
        table[vector::SYSTEM_CALL]
            .set_handler_addr(entry(u64::from(vector::SYSTEM_CALL)))
            .set_privilege_level(PrivilegeLevel::Ring3);
    }
    table
}

/// The common entry. Interrupts are off.
extern "C" fn trap(frame: &mut Frame) {
    const SYSTEM_CALL: u64 = vector::SYSTEM_CALL as u64;
    if frame.is_program() {
        traps::come_from_program();
    }
    match frame.vector {
        PAGE_FAULT => page_fault(frame),
        SYSTEM_CALL => {
            interrupts::on();
            traps::system_call(frame);
            interrupts::off();
        }
        number @ 32.. => {
            let interrupt = match number as u8 {
                vector::TICK => Some(Interrupt::Tick),
                vector::SHOOTDOWN => Some(Interrupt::Shootdown),
                vector::WAKE | vector::DOORBELL => Some(Interrupt::Wake),
                _ => None,
            };
            if let Some(interrupt) = interrupt {
                traps::interrupt(interrupt, frame);
                local_apic::end_of_interrupt();
            }
        }
        number => {
            let whose = if frame.is_program() { Kind::Program } else { Kind::Kernel };
            failure::stop(whose, frame, format_args!("exception {number} at {:#x}", frame.rip));
        }
    }
    if frame.is_program() {
        traps::leave_for_program();
        if frame.rip >= USER_END {
            // A call in the last two bytes of the program's half. IRETQ would fault in the kernel, with GS changed
            // already.
            let rip = frame.rip;
            failure::stop(
                Kind::Program,
                frame,
                format_args!("a program would continue at {rip:#x}, outside its half"),
            );
        }
    }
}

fn page_fault(frame: &mut Frame) {
    let address = Cr2::read_raw();
    let kernel = || {
        failure::stop(Kind::Kernel, frame, format_args!("page fault at {address:#x} from {:#x}", frame.rip))
    };
    if frame.error & RESERVED != 0 {
        // For example a page-table page that was freed.
        failure::stop(
            Kind::Kernel,
            frame,
            format_args!("an entry on the way to {address:#x} has reserved bits set"),
        );
    }
    if let Some(way_out) = user::way_out_of_word(frame.rip) {
        frame.rip = way_out;
        return;
    }
    let way_out = user::way_out_of_copy(frame.rip);
    if !frame.is_program() && (way_out.is_none() || address >= USER_END || !frame.had_interrupts()) {
        kernel();
    }
    interrupts::on();
    let fault = Fault { address, store: frame.error & STORE != 0 };
    let resolved = traps::fault(fault);
    interrupts::off();
    match (resolved, way_out) {
        (Ok(()), _) => {}
        (Err(_), Some(way_out)) if !frame.is_program() => frame.rip = way_out,
        (Err(error), _) => traps::unresolved(frame, fault, error),
    }
}

/// The entry of traps that may come at any instruction.
extern "C" fn trap_anywhere(frame: &mut Frame) -> ! {
    match frame.vector {
        NMI => failure::stopped(frame),
        DOUBLE_FAULT => {
            let address = Cr2::read_raw();
            failure::stop(
                Kind::Kernel,
                frame,
                format_args!(
                    "double fault at {:#x}, last page fault at {address:#x}: a stack overflow?",
                    frame.rip
                ),
            );
        }
        number => failure::stop(Kind::Kernel, frame, format_args!("exception {number} at {:#x}", frame.rip)),
    }
}
