//! Copies that may fault, between the kernel's memory and a program's.

unsafe extern "C" {
    fn copy_user(to: *mut u8, from: *const u8, bytes: usize) -> usize;
    static copy_user_access: u8;
    static copy_user_end: u8;
}

/// Copies `bytes` bytes. Returns whether it copied all of them. A fault in the program's memory is resolved, or ends
/// the copy.
///
/// # Safety
/// One of the two must be the caller's; the other must lie in the program's half, where the kernel keeps nothing of its
/// own.
pub(crate) unsafe fn copy(to: *mut u8, from: *const u8, bytes: usize) -> bool {
    // SAFETY: as the caller guarantees.
    unsafe { copy_user(to, from, bytes) == 0 }
}

/// Where a copy that faults at `instruction` continues; none if the instruction belongs to no copy.
pub(super) fn way_out(instruction: u64) -> Option<u64> {
    (instruction == &raw const copy_user_access as u64).then_some(&raw const copy_user_end as u64)
}
