//! Accesses that may fail, as far as they do not depend on the architecture.

use super::Recovery;

/// The result of a load, in two registers.
#[repr(C)]
struct Loaded {
    value: u64,
    done: u64,
}

extern "C" {
    fn access_load(address: u64) -> Loaded;
    fn access_store(address: u64, value: u64) -> u64;
    fn access_end();
    fn access_failed();
}

/// Loads the 8 bytes at an address, if that is possible. [`recovery`] must be registered.
pub(crate) fn try_load(address: u64) -> Option<u64> {
    // SAFETY: a load that cannot succeed continues at `access_failed`; one that succeeds changes nothing.
    let loaded = unsafe { access_load(address) };
    (loaded.done != 0).then_some(loaded.value)
}

/// Stores 8 bytes to an address, if that is possible. Returns whether it was. [`recovery`] must be registered, and the
/// address must lie in memory that is accessed through this function and [`try_load`] alone.
pub(crate) fn try_store(address: u64, value: u64) -> bool {
    debug_assert!(address >= crate::memory::image_end(), "a store to {address:#x}, in the image");
    // SAFETY: a store that cannot succeed continues at `access_failed`. The programs give addresses of mappings that
    // they made for this purpose, or of places where such mappings were.
    unsafe { access_store(address, value) != 0 }
}

/// The instructions of the accesses above.
pub(crate) fn recovery() -> Recovery {
    Recovery {
        start: access_load as *const () as u64,
        end: access_end as *const () as u64,
        to: access_failed as *const () as u64,
    }
}
