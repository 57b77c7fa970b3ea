//! What this kernel does for the engine: interrupts, per-CPU data, CR3.

use core::{
    mem,
    ptr::{self, NonNull},
    sync::atomic::{AtomicBool, Ordering},
};

use ceasefire::{Asid, Capabilities, Cpu, CpuId, CpuSet, Engine, Flush, Platform, Root, Walkers};

use super::{evict, processor, space::Loaded};
use crate::{
    arch::irq,
    cpu_local,
    smp::IPI_SENDER,
    task::{DisabledPreemptGuard, disable_preempt},
    timer::{self, Jiffies},
};

/// The engine. It serves spaces and kernel ranges.
pub(crate) static ENGINE: Engine<Machine> = Engine::new(Machine).with_bounds(evict::BOUNDS);

cpu_local! {
    static CPU: Cpu<Loaded> = Cpu::new();
}

/// Flushes go through the engine.
static UP: AtomicBool = AtomicBool::new(false);

/// Whether flushes go through the engine.
pub(super) fn is_up() -> bool {
    UP.load(Ordering::Acquire)
}

/// Makes this CPU known to the engine: flushes of kernel ranges reach it. Each CPU but the first calls it before the
/// first goes on with the boot. From then on its ticks settle what it owes.
pub(crate) fn online() {
    processor::turn_tags_on();
    ENGINE.online();
    timer::register_callback_on_cpu(evict::tick);
}

/// Makes the first CPU known, and has flushes go through the engine. All others are known, and can be interrupted.
///
/// Not earlier: the others have copies of the first CPU's data.
pub(crate) fn start() {
    online();
    UP.store(true, Ordering::Release);
}

/// Removes one of the engine's guards, by its name, for the rest of the run. Returns whether it has such a guard.
///
/// A test that still passes tests nothing. It exists in builds with `--cfg ceasefire_sabotage`, which no crate can set
/// for another.
#[cfg(ceasefire_sabotage)]
pub fn remove_guard(name: &str) -> bool {
    use ceasefire::sabotage::Guard;

    let guard = match name {
        "others" => Guard::Others,
        "answers" => Guard::Answers,
        "kernel-flush" => Guard::KernelFlush,
        "settle" => Guard::Settle,
        "stamp" => Guard::Stamp,
        "sweep" => Guard::Sweep,
        _ => return false,
    };
    ENGINE.remove_guard(guard);
    true
}

/// Answers the flushes of other CPUs. For the handler of interrupts between CPUs, with interrupts off.
pub(crate) fn answer() {
    ENGINE.handle_interrupt();
}

/// This kernel, as the engine sees it.
#[derive(Debug)]
pub(crate) struct Machine;

// SAFETY: `current_racy` names this CPU, which is the same with interrupts off and under a preemption guard. Only code
// with interrupts off and the handler above call the engine for this CPU; the kernel's NMI handler does not. The
// per-CPU data gives each CPU its own `Cpu`. None of these functions calls the engine but `wait`, while interrupts are
// on.
unsafe impl Platform for Machine {
    type Space = Loaded;
    type Saved = bool;

    fn capabilities(&self) -> Capabilities {
        // RISC-V: a store through a clean entry faults, or sets D and checks in one step that the entry is still valid (The
        // RISC-V Instruction Set Manual, Volume II, "Supervisor-Level ISA", Sv32).
        let clean_stores_walk = cfg!(any(target_arch = "x86_64", target_arch = "riscv64"));
        // The kernel frees tables after a grace period of RCU, in which its walkers are.
        let walkers = Walkers::Locked;
        Capabilities { clean_stores_walk, asids: processor::tags_are_on(), broadcast: None, walkers }
    }

    fn this_cpu(&self) -> CpuId {
        number(crate::cpu::CpuId::current_racy())
    }

    fn cpu(&self, cpu: CpuId) -> &Cpu<Loaded> {
        let cpu = crate::cpu::CpuId::try_from(cpu.index());
        CPU.get_on_cpu(cpu.expect("the engine knows CPUs that are online"))
    }

    fn save_interrupts(&self) -> bool {
        let were_on = irq::is_local_enabled();
        irq::disable_local();
        were_on
    }

    fn restore_interrupts(&self, were_on: bool) {
        if were_on {
            irq::enable_local();
        }
    }

    fn interrupts_on(&self) -> bool {
        irq::is_local_enabled()
    }

    fn pin(&self) {
        mem::forget(disable_preempt());
    }

    fn unpin(&self) {
        let guard = NonNull::<DisabledPreemptGuard>::dangling();
        const { assert!(size_of::<DisabledPreemptGuard>() == 0) }
        // SAFETY: a guard has no bytes, and `pin` has forgotten one on this CPU.
        unsafe { ptr::drop_in_place(guard.as_ptr()) }
    }

    fn load_root(&self, root: Root, asid: Asid, flush: bool) {
        // SAFETY: the root is that of a `VmSpace`, which maps the kernel as all do. The engine holds a reference to it.
        unsafe { processor::load_root(root, asid, flush) }
    }

    fn load_kernel_root(&self) {
        processor::load_kernel_root();
    }

    fn invalidate(&self, _: Asid, flush: Flush) {
        processor::invalidate(flush);
    }

    fn invalidate_all(&self) {
        processor::invalidate_all();
    }

    fn invalidate_kernel(&self, flush: Flush) {
        processor::invalidate_kernel(flush);
    }

    fn interrupt(&self, targets: &CpuSet) {
        let sender = IPI_SENDER.get().expect("flushes begin after the CPUs have started");
        targets.iter().for_each(|cpu| sender.interrupt(cpu.index()));
    }

    fn wait(&self, done: &dyn Fn() -> bool) {
        while !done() {
            core::hint::spin_loop();
        }
    }

    fn now(&self) -> u64 {
        Jiffies::elapsed().as_duration().as_nanos() as u64
    }
}

fn number(cpu: crate::cpu::CpuId) -> CpuId {
    CpuId::new(u32::from(cpu) as usize).expect("CEASEFIRE_MAX_CPUS is too small for this machine")
}
