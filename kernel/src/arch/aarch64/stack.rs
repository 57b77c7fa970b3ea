//! Kernel stacks: their first contents, and switching from one to another.

use super::Frame;

unsafe extern "C" {
    fn switch_stacks(save: *mut u64, load: u64);
    fn leave_for_program(frame: *const Frame, end: u64) -> !;
}

/// The words that [`switch`] keeps of a thread: x19 to x29, the return address, and the lower halves of v8 to v15.
const WORDS: usize = 20;

/// Puts onto the stack that ends at `end` the words that [`switch`] takes off it to call `main`. Returns the stack
/// pointer.
///
/// # Safety
/// The stack must be the caller's, and large enough for a few words. `end` must be a multiple of 16.
pub(crate) unsafe fn prepare(end: u64, main: extern "C" fn() -> !) -> u64 {
    const RETURN: usize = 11;
    let mut words = [0; WORDS];
    words[RETURN] = main as usize as u64;
    let start = end - size_of_val(&words) as u64;
    // SAFETY: the words lie within the caller's stack.
    unsafe { (start as *mut [u64; WORDS]).write(words) };
    start
}

/// Switches from the present stack to the one with stack pointer `load`, and stores the present stack pointer at
/// `save`. Returns when another thread switches back. The end of the stack is not needed: a program that traps finds
/// the kernel's stack pointer where [`leave_to`], or the return from the last trap, left it.
///
/// # Safety
/// Interrupts must be off. `load` must come from [`prepare`] or from this function, for a stack that no CPU uses.
pub(crate) unsafe fn switch(save: *mut u64, load: u64, _end: u64) {
    // SAFETY: interrupts are off, and the caller guarantees the stack.
    unsafe { switch_stacks(save, load) };
}

/// Leaves for the program in `frame`, giving up the contents of the present stack, which is the thread's own and ends
/// at `end`. The frame may lie there too.
pub(crate) fn leave_to(frame: &Frame, end: u64) -> ! {
    super::interrupts::off();
    // SAFETY: the frame is moved to the end of the stack, from which all registers are restored. Nothing else on this
    // stack is used any more, as this function does not return. The frame is a program's, made by the kernel or copied
    // from one that trapped.
    unsafe { leave_for_program(frame, end) }
}
