//! Accesses that may fault: copies between the kernel's memory and a program's, and words of kernel areas. `trap.s` of
//! each architecture in `entry` has the instructions.

unsafe extern "C" {
    fn copy_user(to: *mut u8, from: *const u8, bytes: usize) -> usize;
    fn load_word(address: *const u64, value: *mut u64) -> bool;
    fn store_word(address: *mut u64, value: u64) -> bool;
    static word_failed: u8;
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

/// Loads the word at an address of a kernel area, if something is mapped there.
///
/// # Safety
/// The address must lie in a kernel area, and be a multiple of 8.
pub(crate) unsafe fn load_kernel(address: u64) -> Option<u64> {
    let mut value = 0;
    // SAFETY: a load that faults continues at `word_failed`; one that succeeds stores to `value` alone.
    unsafe { load_word(address as *const u64, &raw mut value) }.then_some(value)
}

/// Stores to the word at an address of a kernel area. Returns whether something is mapped there.
///
/// # Safety
/// As for [`load_kernel`]. What is mapped there must be for such stores.
pub(crate) unsafe fn store_kernel(address: u64, value: u64) -> bool {
    // SAFETY: a store that faults continues at `word_failed`; the caller guarantees the memory behind it.
    unsafe { store_word(address as *mut u64, value) }
}

/// Where an access to a kernel area that faults at `instruction` continues; none if the instruction makes no such
/// access.
pub(crate) fn way_out_of_word(instruction: u64) -> Option<u64> {
    let words = [load_word as *const () as u64, store_word as *const () as u64];
    words.contains(&instruction).then_some(&raw const word_failed as u64)
}

/// Where a copy that faults at `instruction` continues; none if the instruction belongs to no copy.
pub(crate) fn way_out_of_copy(instruction: u64) -> Option<u64> {
    let (start, end) = (&raw const copy_user_access as u64, &raw const copy_user_end as u64);
    (start..end).contains(&instruction).then_some(end)
}
