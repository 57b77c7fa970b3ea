//! Entries into the kernel and exits from it, on CPUs to which flushes may be deferred.
//!
//! An isolated CPU runs one program without ticks, and every interrupt costs the program time. While the program runs the
//! CPU uses no kernel range, so a flush of kernel ranges can wait until the CPU enters the kernel. The window in between,
//! in which a CPU enters after a flusher took it for one that runs a program, is closed by one atomic word
//! (`cpu::mode` has the protocol). (Linux's series on deferring such interrupts, V. Schneider, 2022 on, is for the same
//! CPUs; one version of it left the window open.)

use crate::platform::Platform;
use crate::sabotage::Guard;
use crate::Engine;

impl<P: Platform> Engine<P> {
    /// This CPU leaves the kernel for a program. Called last on the way out, with interrupts off.
    ///
    /// From here on flushes of kernel ranges may be deferred to [`Engine::enter_kernel`], if
    /// [`Platform::runs_undisturbed`] says that they may. The code that follows, up to the program, uses no kernel range
    /// that may be flushed. A CPU that never runs undisturbed need not call it.
    pub fn enter_user(&self) {
        let platform = self.platform();
        debug_assert!(!platform.interrupts_on(), "a CPU leaves the kernel with interrupts off");
        let cpu = platform.this_cpu();
        if platform.runs_undisturbed(cpu) {
            platform.cpu(cpu).seen.mode.leave_kernel();
        }
    }

    /// This CPU enters the kernel from a program. Called first on the way in, with interrupts off, also when an interrupt
    /// is the cause.
    ///
    /// Does every flush of kernel ranges that was deferred, in one step. The code between the hardware's entry and the
    /// return from this uses no kernel range that may be flushed: its text, its stack and the data that it reads are in
    /// memory that stays mapped. The handler of an interrupt that cannot be masked (NMI) may come within that code, so it
    /// never uses such a range. In a CPU that did not call [`Engine::enter_user`] this does nothing.
    pub fn enter_kernel(&self) {
        let platform = self.platform();
        debug_assert!(!platform.interrupts_on(), "a CPU enters the kernel with interrupts off");
        let cpu = platform.cpu(platform.this_cpu());
        if cpu.seen.mode.enter_kernel()
            && self.guarded(Guard::KernelEntry)
            // The generation is read after the exchange, so this covers every flush that was deferred.
            && self.catch_up_kernel(cpu)
        {
            cpu.tally.flushes_free.add(1);
        }
    }
}
