//! Kernel stacks: what they begin with, and going from one to another.

use super::this_cpu;

unsafe extern "C" {
    fn switch_stacks(save: *mut u64, load: u64);
    fn trap_return() -> !;
}

/// Puts on the stack that ends at `end` what [`switch`] takes off it to call `main`; where the stack then stands.
///
/// # Safety
/// The stack is the caller's, and large enough for a few words; `end` is a multiple of 16.
pub(crate) unsafe fn prepare(end: u64, main: extern "C" fn() -> !) -> u64 {
    // Six registers that are kept across calls, the address to go to, and nothing to come back to.
    let words = [0, 0, 0, 0, 0, 0, main as usize as u64, 0];
    let start = end - size_of_val(&words) as u64;
    // SAFETY: the words lie within the caller's stack.
    unsafe { (start as *mut [u64; 8]).write(words) };
    start
}

/// Leaves the present stack for the one that stands at `load`; where the present one stands goes to `save`. Comes back when
/// somebody leaves for that. Programs that trap from now on use the new stack from its `end`.
///
/// # Safety
/// With interrupts off. `load` was made by [`prepare`] or saved by this, of a stack that nobody uses.
pub(crate) unsafe fn switch(save: *mut u64, load: u64, end: u64) {
    // SAFETY: interrupts are off; the caller vouches for the stack.
    unsafe {
        this_cpu::get().arch.segments.set_kernel_stack(end);
        switch_stacks(save, load);
    }
}

/// Leaves for the program that `frame` describes, giving up all that is on the present stack.
pub(crate) fn leave_to(frame: &super::Frame) -> ! {
    // On this stack, wherever it comes from.
    let frame = *frame;
    x86_64::instructions::interrupts::disable();
    // SAFETY: `trap_return` finds a whole frame at the stack pointer and restores all registers from it; nothing on this
    // stack is used any more, as this function does not return. The frame is of a program, made by the kernel or copied from
    // one that trapped.
    unsafe {
        core::arch::asm!(
            "mov rsp, {frame}",
            "jmp {way_out}",
            frame = in(reg) &raw const frame,
            way_out = sym trap_return,
            options(noreturn)
        )
    }
}
