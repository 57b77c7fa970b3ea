//! The registers at a trap.

use core::fmt;

/// The registers of the code that an exception, an interrupt or a system call stopped, as `trap.s` stores them. They
/// include the vector registers, because the compiler uses them in programs and in the kernel.
#[derive(Clone, Copy)]
#[repr(C, align(16))]
pub(crate) struct Frame {
    x: [u64; 31],
    sp: u64,
    pub(crate) pc: u64,
    /// `SPSR_EL1`: the lowest bits hold the exception level.
    pstate: u64,
    /// `ESR_EL1` and `FAR_EL1`: the syndrome, and the address that was accessed.
    pub(crate) syndrome: u64,
    pub(crate) address: u64,
    float_control: u64,
    float_status: u64,
    /// The entry of the trap: see `trap`.
    pub(crate) entry: u64,
    unused: u64,
    vectors: [u128; 32],
}

/// In PSTATE: the exception level, and the mask of IRQs.
const LEVEL: u64 = 3 << 2;
const MASKED: u64 = 1 << 7;

/// `trap.s` relies on these offsets.
const _: () = assert!(size_of::<Frame>() == 832 && core::mem::offset_of!(Frame, vectors) == 320);

impl Frame {
    /// Zeros: a program, with interrupts on.
    const NONE: Self = Self {
        x: [0; 31],
        sp: 0,
        pc: 0,
        pstate: 0,
        syndrome: 0,
        address: 0,
        float_control: 0,
        float_status: 0,
        entry: 0,
        unused: 0,
        vectors: [0; 32],
    };

    /// A program about to run its first instruction at `entry`, as if called with `argument` and the stack that ends at
    /// `stack`. It has no return address.
    pub(crate) fn of_program(entry: u64, argument: u64, stack: u64) -> Self {
        let mut frame = Self { pc: entry, sp: stack & !15, ..Self::NONE };
        frame.x[0] = argument;
        frame
    }

    /// The present registers, as far as they are useful: for a panic, which is no trap.
    #[inline(never)]
    pub(crate) fn here() -> Self {
        let (sp, pc, masks, level): (u64, u64, u64, u64);
        let mut frame = Self::NONE;
        // SAFETY: reads registers.
        unsafe {
            core::arch::asm!(
                "mov {}, sp", "adr {}, .", "mrs {}, daif", "mrs {}, CurrentEL", "mov {}, x29", "mov {}, x30",
                out(reg) sp, out(reg) pc, out(reg) masks, out(reg) level, out(reg) frame.x[29], out(reg) frame.x[30],
                options(nomem, nostack, preserves_flags),
            );
        }
        (frame.sp, frame.pc, frame.pstate) = (sp, pc, masks | level);
        frame
    }

    /// The system call's number.
    pub(crate) fn call(&self) -> u64 {
        self.x[8]
    }

    /// The system call's arguments.
    pub(crate) fn arguments(&self) -> [u64; 5] {
        [self.x[0], self.x[1], self.x[2], self.x[3], self.x[4]]
    }

    /// Sets the result of the system call.
    pub(crate) fn set_result(&mut self, result: u64) {
        self.x[0] = result;
    }

    /// The address of the instruction that was stopped.
    pub(crate) fn instruction(&self) -> u64 {
        self.pc
    }

    /// Sets the address at which the code continues.
    pub(crate) fn set_instruction(&mut self, address: u64) {
        self.pc = address;
    }

    /// Whether a program was stopped.
    pub(crate) fn is_program(&self) -> bool {
        self.pstate & LEVEL == 0
    }

    /// Whether interrupts were on.
    pub(crate) fn had_interrupts(&self) -> bool {
        self.pstate & MASKED == 0
    }
}

impl fmt::Display for Frame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { x, sp, pc, pstate, syndrome, address, entry, .. } = self;
        write!(
            f,
            "pc {pc:#x} sp {sp:#x} pstate {pstate:#x} entry {entry} syndrome {syndrome:#x} address {address:#x}"
        )?;
        for (number, value) in x.iter().enumerate() {
            let gap = if number % 8 == 0 { '\n' } else { ' ' };
            write!(f, "{gap}x{number} {value:#x}")?;
        }
        Ok(())
    }
}
