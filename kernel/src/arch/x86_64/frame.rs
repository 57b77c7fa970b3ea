//! The registers at a trap.

use core::fmt;

use x86_64::registers::rflags::RFlags;

use super::segments;

/// The registers of the code that an exception, an interrupt or a system call stopped, in the order in which `trap.s`
/// and the processor push them.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Frame {
    r15: u64,
    r14: u64,
    r13: u64,
    r12: u64,
    r11: u64,
    r10: u64,
    r9: u64,
    r8: u64,
    rbp: u64,
    rdi: u64,
    rsi: u64,
    rdx: u64,
    rcx: u64,
    rbx: u64,
    rax: u64,
    pub(crate) vector: u64,
    pub(crate) error: u64,
    pub(crate) rip: u64,
    cs: u64,
    rflags: u64,
    rsp: u64,
    ss: u64,
}

impl Frame {
    /// Zeros.
    const NONE: Self = Self {
        r15: 0,
        r14: 0,
        r13: 0,
        r12: 0,
        r11: 0,
        r10: 0,
        r9: 0,
        r8: 0,
        rbp: 0,
        rdi: 0,
        rsi: 0,
        rdx: 0,
        rcx: 0,
        rbx: 0,
        rax: 0,
        vector: 0,
        error: 0,
        rip: 0,
        cs: 0,
        rflags: 0,
        rsp: 0,
        ss: 0,
    };

    /// A program about to run its first instruction at `entry`, as if called with `argument` and the stack that ends at
    /// `stack`, which is at least 16. It has no return address.
    pub(crate) fn of_program(entry: u64, argument: u64, stack: u64) -> Self {
        Self {
            rdi: argument,
            rip: entry,
            cs: segments::USER_CODE,
            rflags: RFlags::INTERRUPT_FLAG.bits(),
            // The ABI's alignment after a call.
            rsp: (stack & !15) - 8,
            ss: segments::USER_DATA,
            ..Self::NONE
        }
    }

    /// The present registers, as far as they are useful: for a panic, which is no trap.
    #[inline(never)]
    pub(crate) fn here() -> Self {
        let (rsp, rbp, rip, rflags): (u64, u64, u64, u64);
        // SAFETY: reads registers, and pushes and pops one word.
        unsafe {
            core::arch::asm!(
                "mov {}, rsp", "mov {}, rbp", "lea {}, [rip]", "pushfq", "pop {}",
                out(reg) rsp, out(reg) rbp, out(reg) rip, out(reg) rflags,
            );
        }
        Self { rbp, rip, rflags, rsp, ..Self::NONE }
    }

    /// The system call's number.
    pub(crate) fn call(&self) -> u64 {
        self.rax
    }

    /// The system call's arguments.
    pub(crate) fn arguments(&self) -> [u64; 5] {
        [self.rdi, self.rsi, self.rdx, self.r10, self.r8]
    }

    /// Sets the result of the system call.
    pub(crate) fn set_result(&mut self, result: u64) {
        self.rax = result;
    }

    /// The address of the instruction that was stopped.
    pub(crate) fn instruction(&self) -> u64 {
        self.rip
    }

    /// Sets the address at which the code continues.
    pub(crate) fn set_instruction(&mut self, address: u64) {
        self.rip = address;
    }

    /// Whether a program was stopped.
    pub(crate) fn is_program(&self) -> bool {
        self.cs & 3 == 3
    }

    /// Whether interrupts were on.
    pub(crate) fn had_interrupts(&self) -> bool {
        self.rflags & RFlags::INTERRUPT_FLAG.bits() != 0
    }
}

impl fmt::Display for Frame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rip, cs, rflags, rsp, ss, vector, error, .. } = self;
        writeln!(f, "rip {rip:#x} cs {cs:#x} rflags {rflags:#x} rsp {rsp:#x} ss {ss:#x} vector {vector} error {error:#x}")?;
        let Self { rax, rbx, rcx, rdx, rsi, rdi, rbp, r8, .. } = self;
        writeln!(f, "rax {rax:#x} rbx {rbx:#x} rcx {rcx:#x} rdx {rdx:#x} rsi {rsi:#x} rdi {rdi:#x} rbp {rbp:#x} r8 {r8:#x}")?;
        let Self { r9, r10, r11, r12, r13, r14, r15, .. } = self;
        write!(f, "r9 {r9:#x} r10 {r10:#x} r11 {r11:#x} r12 {r12:#x} r13 {r13:#x} r14 {r14:#x} r15 {r15:#x}")
    }
}
