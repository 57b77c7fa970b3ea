//! Kernel stacks: mapped once at boot, then taken and given back by threads.

use alloc::vec::Vec;

use ceasefire_kernel_abi::sizes::STACK;
use ceasefire_memory::PAGE_BYTES;

use crate::arch::memory::{self, direct};
use crate::lock::IrqLock;

/// Maps `count` stacks out of the physical memory from `start` on, each above an unmapped page.
///
/// # Safety
/// Call it once, while one CPU runs and no program does. Nothing else may use the memory, and it must have room for the
/// stacks and their tables.
pub(crate) unsafe fn give(start: u64, count: u64) {
    let mut next_table = start + count * STACK;
    let mut table = || {
        let table = next_table;
        next_table += PAGE_BYTES;
        // SAFETY: a page of the part that is set aside for tables.
        unsafe { direct::<[u8; PAGE_BYTES as usize]>(table).write_bytes(0, 1) };
        table
    };
    let mut stacks = Vec::with_capacity(count as usize);
    for number in 0..count {
        let bottom = memory::STACKS + number * (STACK + PAGE_BYTES) + PAGE_BYTES;
        for offset in (0..STACK).step_by(PAGE_BYTES as usize) {
            // SAFETY: one CPU, no programs yet; the frames are set aside for stacks.
            unsafe { memory::map(bottom + offset, start + number * STACK + offset, &mut table) };
        }
        stacks.push(bottom + STACK);
    }
    *FREE.lock() = stacks;
}

/// The ends of the free stacks.
static FREE: IrqLock<Vec<u64>> = IrqLock::new(Vec::new());

/// A kernel stack. The page below it is unmapped, so that an overflow faults.
#[derive(Debug)]
pub(crate) struct Stack(u64);

impl Stack {
    /// A free stack, if there is one.
    pub(crate) fn take() -> Option<Self> {
        FREE.lock().pop().map(Self)
    }

    /// Its end.
    pub(crate) fn end(&self) -> u64 {
        self.0
    }

    /// Keeps it for good. Returns its end.
    pub(crate) fn keep(self) -> u64 {
        let end = self.0;
        core::mem::forget(self);
        end
    }
}

impl Drop for Stack {
    fn drop(&mut self) {
        FREE.lock().push(self.0);
    }
}
