//! The kernel's access to the memory of programs.

use ceasefire_memory::USER_END;

use crate::arch::user::copy;

/// An address that the program cannot access in that way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BadAddress;

/// Copies out of the running program's memory.
///
/// # Errors
/// [`BadAddress`] if a part of it cannot be loaded.
pub(crate) fn copy_in(to: &mut [u8], from: u64) -> Result<(), BadAddress> {
    check(from, to.len())?;
    // SAFETY: `to` is the caller's. `from` lies in the program's half, and a fault there is resolved or ends the copy.
    let whole = unsafe { copy(to.as_mut_ptr(), from as *const u8, to.len()) };
    whole.then_some(()).ok_or(BadAddress)
}

/// Copies into the running program's memory.
///
/// # Errors
/// [`BadAddress`] if a part of it cannot be stored to.
pub(crate) fn copy_out(to: u64, from: &[u8]) -> Result<(), BadAddress> {
    check(to, from.len())?;
    // SAFETY: `from` is the caller's. `to` lies in the program's half, where the kernel keeps nothing of its own, and a
    // fault there is resolved or ends the copy.
    let whole = unsafe { copy(to as *mut u8, from.as_ptr(), from.len()) };
    whole.then_some(()).ok_or(BadAddress)
}

fn check(start: u64, bytes: usize) -> Result<(), BadAddress> {
    let end = start.checked_add(bytes as u64).ok_or(BadAddress)?;
    if end <= USER_END {
        Ok(())
    } else {
        Err(BadAddress)
    }
}
