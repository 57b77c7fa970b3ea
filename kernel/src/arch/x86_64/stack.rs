//! Kernel stacks: their first contents, and switching from one to another.

use super::this_cpu;

unsafe extern "C" {
    fn switch_stacks(save: *mut u64, load: u64);
    fn trap_return() -> !;
}

/// Puts onto the stack that ends at `end` the words that [`switch`] takes off it to call `main`. Returns the stack
/// pointer.
///
/// # Safety
/// The stack must be the caller's, and large enough for a few words. `end` must be a multiple of 16.
pub(crate) unsafe fn prepare(end: u64, main: extern "C" fn() -> !) -> u64 {
    // Six registers that are kept across calls, the address to go to, and no return address.
    let words = [0, 0, 0, 0, 0, 0, main as usize as u64, 0];
    let start = end - size_of_val(&words) as u64;
    // SAFETY: the words lie within the caller's stack.
    unsafe { (start as *mut [u64; 8]).write(words) };
    start
}

/// Switches from the present stack to the one with stack pointer `load`, and stores the present stack pointer at
/// `save`. Returns when another thread switches back. Programs that trap from now on use the new stack from its `end`.
///
/// # Safety
/// Interrupts must be off. `load` must come from [`prepare`] or from this function, for a stack that no CPU uses.
pub(crate) unsafe fn switch(save: *mut u64, load: u64, end: u64) {
    // SAFETY: interrupts are off, and the caller guarantees the stack.
    unsafe {
        this_cpu::segments().set_kernel_stack(end);
        switch_stacks(save, load);
    }
}

/// Leaves for the program in `frame`, giving up the contents of the present stack. Its end is not needed:
/// [`switch`] has noted it.
pub(crate) fn leave_to(frame: &super::Frame, _end: u64) -> ! {
    // Copied to this stack, from wherever it lies.
    let frame = *frame;
    x86_64::instructions::interrupts::disable();
    // SAFETY: `trap_return` finds a whole frame at the stack pointer and restores all registers from it. Nothing on
    // this stack is used any more, as this function does not return. The frame is a program's, made by the kernel or
    // copied from one that trapped.
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
