//! Kernel stacks: what they begin with, and going from one to another.

use super::Frame;
use crate::threads::current;

unsafe extern "C" {
    fn switch_stacks(save: *mut u64, load: u64);
    fn leave_for_program(frame: *const Frame, end: u64) -> !;
}

/// What [`switch`] keeps of a thread: x19 to x29, where to go on, and the lower halves of v8 to v15.
const WORDS: usize = 20;

/// Puts on the stack that ends at `end` what [`switch`] takes off it to call `main`; where the stack then stands.
///
/// # Safety
/// The stack is the caller's, and large enough for a few words; `end` is a multiple of 16.
pub(crate) unsafe fn prepare(end: u64, main: extern "C" fn() -> !) -> u64 {
    const RETURN: usize = 11;
    let mut words = [0; WORDS];
    words[RETURN] = main as usize as u64;
    let start = end - size_of_val(&words) as u64;
    // SAFETY: the words lie within the caller's stack.
    unsafe { (start as *mut [u64; WORDS]).write(words) };
    start
}

/// Leaves the present stack for the one that stands at `load`; where the present one stands goes to `save`. Comes back when
/// somebody leaves for that. A program that traps finds the kernel's stack where [`leave_to`], or the return from the last
/// trap, left it: nobody has to be told its end.
///
/// # Safety
/// With interrupts off. `load` was made by [`prepare`] or saved by this, of a stack that nobody uses.
pub(crate) unsafe fn switch(save: *mut u64, load: u64, _end: u64) {
    // SAFETY: interrupts are off; the caller vouches for the stack.
    unsafe { switch_stacks(save, load) };
}

/// Leaves for the program that `frame` describes, giving up all that is on the present stack, which is the thread's own: the
/// frame may lie there too.
pub(crate) fn leave_to(frame: &Frame) -> ! {
    super::interrupts::off();
    // SAFETY: the frame is moved to the end of the stack, from which all registers are restored; nothing else on this stack is
    // used any more, as this function does not return. The frame is of a program, made by the kernel or copied from one that
    // trapped.
    unsafe { leave_for_program(frame, current::thread().stack_end()) }
}
