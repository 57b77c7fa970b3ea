//! A sanitizer for TLBs: it finds missing flushes in kernels that were not changed for it, from what an emulator tells.
//!
//! Each CPU has a TLB without limit (`tlb`): what it used may be cached until one of its instructions drops it. `watch`
//! compares each access with that TLB and with the page tables as they are. `arch` knows instructions and page tables of
//! the architectures, `tables` the changes of page tables, `walks` the tables that a CPU may have cached, `frames` which
//! frames they are, `owners` which frames were given away, `free` the functions that free them, `ram` the guest's memory,
//! `stack` where a CPU was, `windows` how late flushes came. `recent` bounds what is remembered. `find` is the report,
//! `hexadecimal` how it has addresses, `reader` reads it, and `emulator` is the QEMU that fits. The folder `plugin` has the
//! plugin that QEMU loads.

pub mod arch;
pub mod emulator;
pub mod find;
mod frames;
pub mod free;
mod hexadecimal;
mod owners;
mod ram;
pub mod reader;
mod recent;
mod stack;
mod tables;
mod tlb;
mod walks;
pub mod watch;
mod windows;

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks. A thread that panicked has left nothing half done that matters.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
