//! Counting the CPUs and starting them. `entry` leads them from real mode into the kernel.

use core::convert::Infallible;
use core::sync::atomic::{AtomicU64, Ordering};

use super::memory::direct;
use super::{clock, features, interrupts, local_apic, madt, tlb};
use crate::arch::cpus;

/// The address of the trampoline of application processors: a page below 1 MiB that firmware does not use.
pub(crate) const TRAMPOLINE: u64 = 0x8000;

/// The root pointer of the ACPI tables.
static ROOT_POINTER: AtomicU64 = AtomicU64::new(0);

/// Sets the root pointer of the ACPI tables.
pub(crate) fn set_root_pointer(address: u64) {
    ROOT_POINTER.store(address, Ordering::Relaxed);
}

/// How many CPUs there are, the first included. Their numbers follow the order of the firmware's table.
pub(crate) fn count_cpus() -> usize {
    let listed = madt::apics(ROOT_POINTER.load(Ordering::Relaxed));
    cpus::number(local_apic::id(), listed, interrupts::set_apic)
}

/// Starts all other CPUs. On this architecture the count has no effect.
///
/// # Errors
/// None.
///
/// # Safety
/// Each must have a stack.
#[allow(clippy::unnecessary_wraps, reason = "on other architectures firmware may refuse")]
pub(crate) unsafe fn start_others(_count: usize) -> Result<(), Infallible> {
    unsafe extern "C" {
        static trampoline: u8;
        static trampoline_end: u8;
    }
    let (start, end) = (&raw const trampoline, &raw const trampoline_end);
    // SAFETY: nothing else uses the page, and it is long enough. The trampoline's code runs at any address.
    unsafe { core::ptr::copy_nonoverlapping(start, direct::<u8>(TRAMPOLINE), end as usize - start as usize) };
    local_apic::send_init_to_others();
    let deadline = clock::now() + 10_000_000;
    while clock::now() < deadline {
        core::hint::spin_loop();
    }
    local_apic::send_startup_to_others((TRAMPOLINE >> 12) as u8);
    Ok(())
}

/// The processor's features that the kernel uses, by name.
pub(crate) fn features() -> impl Iterator<Item = &'static str> {
    features::names()
}

/// Gives up the mappings that only the boot needs: see `boot.s`.
pub(crate) fn forget_low_memory() {
    tlb::forget_low_memory();
}
