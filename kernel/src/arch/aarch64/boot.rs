//! Counting the CPUs and starting them. `entry` leads them from the firmware into the kernel.

use core::fmt;

use spin::Once;

use super::memory::physical;
use super::{features, interrupts, psci, tlb};
use crate::arch::cpus;
use crate::loader::device_tree::{Node, Tree};

unsafe extern "C" {
    fn boot_other();
}

static TREE: Once<Tree<'static>> = Once::new();

/// Sets the device tree, once.
pub(crate) fn set_tree(tree: Tree<'static>) -> &'static Tree<'static> {
    TREE.call_once(|| tree)
}

/// How many CPUs there are, the first included. Their numbers follow the order of the device tree.
pub(crate) fn count_cpus() -> usize {
    let listed = TREE.get().into_iter().flat_map(|tree| tree.of_type("cpu").filter_map(Node::number));
    cpus::number(interrupts::affinity(0), listed, interrupts::set_affinity)
}

/// The firmware refused to start a CPU.
#[derive(Debug)]
pub(crate) struct NotStarted {
    number: usize,
    cpus: usize,
    error: i64,
}

impl fmt::Display for NotStarted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { number, cpus, error } = self;
        write!(f, "the firmware does not start CPU {number} of {cpus}: PSCI error {error}")
    }
}

/// Starts `count` other CPUs.
///
/// # Errors
/// [`NotStarted`] at the first CPU that the firmware refuses to start.
///
/// # Safety
/// Each must have a stack.
pub(crate) unsafe fn start_others(count: usize) -> Result<(), NotStarted> {
    let entry = physical(boot_other as *const u8);
    for number in 1..=count {
        // SAFETY: the entry point makes it a CPU of the kernel, on its own stack.
        let started = unsafe { psci::start(interrupts::affinity(number), entry, number as u64) };
        started.map_err(|error| NotStarted { number, cpus: count + 1, error })?;
    }
    Ok(())
}

/// The processor's features that the kernel uses, by name.
pub(crate) fn features() -> impl Iterator<Item = &'static str> {
    features::names()
}

/// Gives up the mappings that only the boot needs: see `boot.s`.
pub(crate) fn forget_low_memory() {
    tlb::load_kernel_root();
    tlb::invalidate_all();
}
