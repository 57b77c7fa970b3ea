//! Entries into the kernel and exits from it, on CPUs to which flushes may be deferred.
//!
//! An isolated CPU runs one program without ticks, and every interrupt costs the program time. While the program runs,
//! the CPU uses no kernel range. So a flush of kernel ranges can wait until the CPU enters the kernel. A CPU may enter
//! just after a flush has taken it for one that runs a program; one atomic word decides that race (`cpu::mode`).
//! (Linux: the series on deferring such interrupts, V. Schneider, since 2022. One version of it left this window open.)

use crate::platform::Platform;
use crate::sabotage::Guard;
use crate::Engine;

impl<P: Platform> Engine<P> {
    /// Announces that this CPU leaves the kernel for a program. Call it last on the way out, with interrupts off.
    ///
    /// If [`Platform::runs_undisturbed`] agrees, flushes of kernel ranges are deferred to [`Engine::enter_kernel`] from
    /// here on. The code between this call and the program must use no kernel range that may be flushed. A CPU that
    /// never runs undisturbed need not call it.
    pub fn enter_user(&self) {
        let platform = self.platform();
        debug_assert!(!platform.interrupts_on(), "a CPU leaves the kernel with interrupts off");
        let cpu = platform.this_cpu();
        if platform.runs_undisturbed(cpu) {
            platform.cpu(cpu).seen.mode.leave_kernel();
        }
    }

    /// Announces that this CPU enters the kernel from a program. Call it first on the way in, with interrupts off, also
    /// if an interrupt is the cause.
    ///
    /// It does every flush of kernel ranges that was deferred, in one step. The code before its return must use no
    /// kernel range that may be flushed: its text, its stack and its data lie in memory that stays mapped. An interrupt
    /// that cannot be masked (NMI) may arrive within that code, so its handler must never use such a range. On a CPU
    /// that did not call [`Engine::enter_user`] the call does nothing.
    pub fn enter_kernel(&self) {
        let platform = self.platform();
        debug_assert!(!platform.interrupts_on(), "a CPU enters the kernel with interrupts off");
        let cpu = platform.cpu(platform.this_cpu());
        if cpu.seen.mode.enter_kernel()
            && self.guarded(Guard::KernelEntry) // R1
            // The generation is read after the exchange, so this covers every flush that was deferred.
            && self.catch_up_kernel(cpu)
        {
            cpu.tally.flushes_free.add(1);
        }
    }
}
