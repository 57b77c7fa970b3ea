//! A stand-in for the kernel on a host, so that the rest compiles and its logic can be tested.

use ceasefire_kernel_abi::Error;

use super::Recovery;

/// Fails: a host has no such call.
pub(crate) unsafe fn call(_number: u64, _arguments: [u64; 5]) -> u64 {
    Error::NoCall.encode()
}

/// Fails: nothing is mapped.
pub(crate) fn try_load(_address: u64) -> Option<u64> {
    None
}

/// Fails: nothing is mapped.
pub(crate) fn try_store(_address: u64, _value: u64) -> bool {
    false
}

/// Panics: nothing is mapped.
pub(crate) fn load(_address: u64) -> u64 {
    panic!("nothing is mapped")
}

/// No instruction's accesses may fail.
pub(crate) fn recovery() -> Recovery {
    Recovery { start: 0, end: 0, to: 0 }
}
