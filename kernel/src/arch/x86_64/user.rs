//! The memory of programs, seen from the kernel.

use ceasefire_memory::USER_END;

unsafe extern "C" {
    fn copy_user(to: *mut u8, from: *const u8, bytes: usize) -> usize;
    static copy_user_access: u8;
    static copy_user_end: u8;
}

/// An address that the program cannot use in that way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BadAddress;

/// Copies out of the running program's memory.
///
/// # Errors
/// [`BadAddress`] if a part of it cannot be loaded.
pub(crate) fn copy_in(to: &mut [u8], from: u64) -> Result<(), BadAddress> {
    check(from, to.len())?;
    // SAFETY: `to` is the caller's; `from` lies in the program's half, and a fault there is resolved or ends the copy.
    let left = unsafe { copy_user(to.as_mut_ptr(), from as *const u8, to.len()) };
    if left == 0 {
        Ok(())
    } else {
        Err(BadAddress)
    }
}

/// Copies into the running program's memory.
///
/// # Errors
/// [`BadAddress`] if a part of it cannot be stored to.
pub(crate) fn copy_out(to: u64, from: &[u8]) -> Result<(), BadAddress> {
    check(to, from.len())?;
    // SAFETY: `from` is the caller's; `to` lies in the program's half, where the kernel keeps nothing of its own, and a
    // fault there is resolved or ends the copy.
    let left = unsafe { copy_user(to as *mut u8, from.as_ptr(), from.len()) };
    if left == 0 {
        Ok(())
    } else {
        Err(BadAddress)
    }
}

fn check(start: u64, bytes: usize) -> Result<(), BadAddress> {
    let end = start.checked_add(bytes as u64).ok_or(BadAddress)?;
    if end <= USER_END {
        Ok(())
    } else {
        Err(BadAddress)
    }
}

/// Where a fault at `instruction` goes on that cannot be resolved, if that is one of a copy.
pub(super) fn way_out(instruction: u64) -> Option<u64> {
    (instruction == &raw const copy_user_access as u64).then_some(&raw const copy_user_end as u64)
}
